// The guest's side of tests against Linux's soft RoCE, over librdmacm and libibverbs. Speaks what `barewire rc perf` and
// `rc serve` say to each other in the private data of a connection's messages.
//
//   ops -s                 serves `rc perf` on port 7175: echoes messages, takes and counts them, offers memory
//   ops -c ADDRESS         a client of `rc serve`: writes, reads, atomics and messages of many sizes, every byte compared
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ECHO = 1, SINK = 2, MEMORY = 3 };
struct greeting { char magic[4]; uint8_t version, mode; uint16_t zero; uint32_t size, window; } __attribute__((packed));
struct offer { char magic[4]; uint8_t version, zero[3]; uint64_t addr; uint32_t rkey, len; } __attribute__((packed));

#define CHECK(what, good) do { if (!(good)) { printf("OPS FAILED %s (line %d)\n", what, __LINE__); fflush(stdout); exit(1); } } while (0)

static struct rdma_event_channel *channel;

// The next event, which must be `want`.
static struct rdma_cm_event *event(enum rdma_cm_event_type want) {
    struct rdma_cm_event *e;
    CHECK("event", !rdma_get_cm_event(channel, &e));
    if (e->event != want) printf("event %s, status %d\n", rdma_event_str(e->event), e->status);
    CHECK("another event", e->event == want);
    return e;
}

static struct ibv_cq *queue_pair(struct rdma_cm_id *id, struct ibv_pd **pd, int depth) {
    *pd = ibv_alloc_pd(id->verbs);
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 2 * depth + 16, NULL, NULL, 0);
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                     .cap = { depth, depth, 1, 1, 0 } };
    CHECK("queue pair", *pd && cq && !rdma_create_qp(id, *pd, &init));
    return cq;
}

static void post_recv(struct rdma_cm_id *id, struct ibv_mr *mr, char *at, uint32_t len, uint64_t number) {
    struct ibv_sge sge = { (uintptr_t)at, len, mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;
    CHECK("post_recv", !ibv_post_recv(id->qp, &wr, &bad));
}

static void post_send(struct rdma_cm_id *id, struct ibv_mr *mr, char *at, uint32_t len, uint64_t number, int op,
                      const struct offer *to, uint64_t a, uint64_t b) {
    struct ibv_sge sge = { (uintptr_t)at, len, mr->lkey };
    struct ibv_send_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED }, *bad;
    if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = be64toh(to->addr);
        wr.wr.atomic.rkey = be32toh(to->rkey);
        wr.wr.atomic.compare_add = a;
        wr.wr.atomic.swap = b;
    } else if (op != IBV_WR_SEND) {
        wr.wr.rdma.remote_addr = be64toh(to->addr) + a;
        wr.wr.rdma.rkey = be32toh(to->rkey);
    }
    CHECK("post_send", !ibv_post_send(id->qp, &wr, &bad));
}

static struct ibv_wc next(struct ibv_cq *cq) {
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0) {}
    if (wc.status) printf("completion %s, opcode %d\n", ibv_wc_status_str(wc.status), wc.opcode);
    CHECK("completion", wc.status == IBV_WC_SUCCESS);
    return wc;
}

static void serve_one(struct rdma_cm_event *e) {
    struct rdma_cm_id *id = e->id;
    struct greeting g = { "", 0, 0, 0, 0, 0 };
    if (e->param.conn.private_data_len >= sizeof g) memcpy(&g, e->param.conn.private_data, sizeof g);
    struct rdma_conn_param p = { .responder_resources = e->param.conn.responder_resources,
                                 .initiator_depth = e->param.conn.initiator_depth, .rnr_retry_count = 7 };
    rdma_ack_cm_event(e);
    CHECK("greeting", !memcmp(g.magic, "bwRC", 4) && g.version == 1);
    uint32_t size = be32toh(g.size), window = be32toh(g.window), slots = g.mode == MEMORY ? 0 : 2 * window + 2;
    struct ibv_pd *pd;
    struct ibv_cq *cq = queue_pair(id, &pd, slots + 4);
    size_t len = g.mode == MEMORY ? size : 8, room = (size_t)slots * size;
    if (len < 4096) len = 4096;
    char *memory = aligned_alloc(4096, (len + 4095) & ~4095ul), *buffers = calloc(1, room + 8);
    memset(memory, 0, len);
    if (g.mode == MEMORY)
        for (uint32_t i = 0; i < len; i++) memory[i] = i ^ (i >> 8) * 31 ^ (i >> 16) * 101;
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, len, all), *bmr = ibv_reg_mr(pd, buffers, room + 8, IBV_ACCESS_LOCAL_WRITE);
    CHECK("memory", mr && bmr);
    for (uint32_t i = 0; i < slots; i++) post_recv(id, bmr, buffers + (size_t)i * size, size, i);
    struct offer o = { "", 1, { 0 }, htobe64((uintptr_t)memory), htobe32(mr->rkey), htobe32(len) };
    memcpy(o.magic, "bwRC", 4);
    p.private_data = &o;
    p.private_data_len = sizeof o;
    CHECK("accept", !rdma_accept(id, &p));
    rdma_ack_cm_event(event(RDMA_CM_EVENT_ESTABLISHED));
    uint64_t count = 0, immediate = 0;
    struct pollfd fd = { channel->fd, POLLIN, 0 };
    for (int ended = 0;;) {
        struct ibv_wc wc;
        int n = ibv_poll_cq(cq, 1, &wc);
        if (n == 0) {
            // What came between the look at the queue and the end is still there.
            if (ended) break;
            ended = poll(&fd, 1, 0) > 0;
            continue;
        }
        if (wc.status) continue; // flushed: the event comes
        char *at = buffers + wc.wr_id * size;
        if (wc.opcode == IBV_WC_RECV || wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
            count++;
            if (wc.wc_flags & IBV_WC_WITH_IMM) immediate += ntohl(wc.imm_data);
            if (g.mode == ECHO) {
                post_send(id, bmr, at, wc.byte_len, wc.wr_id, IBV_WR_SEND, NULL, 0, 0);
            } else {
                uint64_t be = htobe64(count);
                memcpy(memory, &be, 8);
                post_recv(id, bmr, at, size, wc.wr_id);
            }
        } else if (g.mode == ECHO) {
            post_recv(id, bmr, at, size, wc.wr_id);
        }
    }
    rdma_ack_cm_event(event(RDMA_CM_EVENT_DISCONNECTED));
    rdma_disconnect(id);
    rdma_destroy_qp(id);
    ibv_dereg_mr(mr);
    ibv_dereg_mr(bmr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    rdma_destroy_id(id);
    free(memory);
    free(buffers);
    printf("OPS SERVED mode %d size %u window %u messages %lu immediate %lu\n", g.mode, size, window, (unsigned long)count,
           (unsigned long)immediate);
    fflush(stdout);
}

static int server(void) {
    struct rdma_cm_id *listener;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(7175) };
    CHECK("listen", !rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) && !rdma_bind_addr(listener, (void *)&any) &&
                        !rdma_listen(listener, 64));
    printf("OPS READY\n");
    fflush(stdout);
    for (;;) {
        struct rdma_cm_event *e;
        CHECK("event", !rdma_get_cm_event(channel, &e));
        if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) serve_one(e);
        else rdma_ack_cm_event(e);
    }
}

static struct rdma_cm_id *connect_to(const char *address, int mode, uint32_t size, struct ibv_pd **pd, struct ibv_cq **cq,
                                     struct offer *offer) {
    struct rdma_cm_id *id;
    struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *found;
    CHECK("address", !rdma_getaddrinfo(address, "7174", &hints, &found) && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    CHECK("resolve", !rdma_resolve_addr(id, NULL, found->ai_dst_addr, 2000));
    rdma_ack_cm_event(event(RDMA_CM_EVENT_ADDR_RESOLVED));
    CHECK("route", !rdma_resolve_route(id, 2000));
    rdma_ack_cm_event(event(RDMA_CM_EVENT_ROUTE_RESOLVED));
    *cq = queue_pair(id, pd, 64);
    struct greeting g = { "", 1, mode, 0, htobe32(size), htobe32(4) };
    memcpy(g.magic, "bwRC", 4);
    struct rdma_conn_param p = { .private_data = &g, .private_data_len = sizeof g, .responder_resources = 16,
                                 .initiator_depth = 16, .retry_count = 7, .rnr_retry_count = 7 };
    CHECK("connect", !rdma_connect(id, &p));
    struct rdma_cm_event *e = event(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("offer", e->param.conn.private_data_len >= sizeof *offer);
    memcpy(offer, e->param.conn.private_data, sizeof *offer);
    CHECK("our own offer", !memcmp(offer->magic, "bwRC", 4));
    rdma_ack_cm_event(e);
    return id;
}

static void fill(char *at, uint32_t len, uint32_t seed) {
    for (uint32_t i = 0; i < len; i++) at[i] = (i * 7 + seed * 13 + (i >> 8)) & 0xff;
}

static void client(const char *address) {
    static const uint32_t sizes[] = { 1, 2, 3, 64, 1000, 1023, 1024, 1025, 2048, 2049, 4000, 64000 };
    enum { SIZES = sizeof sizes / sizeof *sizes, MOST = 65536 };
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct offer offer;
    char *a = malloc(MOST), *b = aligned_alloc(4096, MOST);
    struct rdma_cm_id *id = connect_to(address, MEMORY, MOST, &pd, &cq, &offer);
    struct ibv_mr *ma = ibv_reg_mr(pd, a, MOST, IBV_ACCESS_LOCAL_WRITE), *mb = ibv_reg_mr(pd, b, MOST, IBV_ACCESS_LOCAL_WRITE);
    for (int i = 0; i < SIZES; i++) {
        uint32_t n = sizes[i], at = i * 37 % 1500;
        fill(a, n, i);
        memset(b, 0xa5, MOST);
        post_send(id, ma, a, n, 1, IBV_WR_RDMA_WRITE, &offer, at, 0);
        post_send(id, mb, b, n, 2, IBV_WR_RDMA_READ, &offer, at, 0);
        next(cq);
        next(cq);
        CHECK("what was written is read", !memcmp(a, b, n) && (uint8_t)b[n] == 0xa5);
    }
    memset(a, 0, 8);
    post_send(id, ma, a, 8, 1, IBV_WR_RDMA_WRITE, &offer, 0, 0);
    next(cq);
    uint64_t *words = (uint64_t *)b;
    for (uint64_t i = 0; i < 200; i++) {
        if (i % 2) post_send(id, mb, b, 8, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, &offer, 1, 0);
        else post_send(id, mb, b, 8, 3, IBV_WR_ATOMIC_CMP_AND_SWP, &offer, i, i + 1);
        next(cq);
        CHECK("atomics count", words[0] == i);
    }
    for (uint64_t i = 0; i < 16; i++) post_send(id, mb, b + 8 * i, 8, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, &offer, 1000, 0);
    for (int i = 0; i < 16; i++) next(cq);
    for (uint64_t i = 0; i < 16; i++) CHECK("atomics in flight count", words[i] == 200 + 1000 * i);
    rdma_disconnect(id);
    rdma_ack_cm_event(event(RDMA_CM_EVENT_DISCONNECTED));
    rdma_destroy_qp(id);
    rdma_destroy_id(id);
    printf("OPS memory good\n");

    id = connect_to(address, ECHO, MOST, &pd, &cq, &offer);
    ma = ibv_reg_mr(pd, a, MOST, IBV_ACCESS_LOCAL_WRITE);
    mb = ibv_reg_mr(pd, b, MOST, IBV_ACCESS_LOCAL_WRITE);
    for (int i = 0; i < SIZES; i++) {
        uint32_t n = sizes[i];
        fill(a, n, i + 100);
        memset(b, 0xa5, MOST);
        post_recv(id, mb, b, MOST, 4);
        post_send(id, ma, a, n, 5, IBV_WR_SEND, NULL, 0, 0);
        for (int k = 0; k < 2; k++) {
            struct ibv_wc wc = next(cq);
            CHECK("length of an echo", wc.opcode != IBV_WC_RECV || wc.byte_len == n);
        }
        CHECK("what was sent comes back", !memcmp(a, b, n) && (uint8_t)b[n] == 0xa5);
    }
    rdma_disconnect(id);
    rdma_ack_cm_event(event(RDMA_CM_EVENT_DISCONNECTED));
    printf("OPS messages good\nOPS DONE\n");
}

int main(int argc, char **argv) {
    channel = rdma_create_event_channel();
    CHECK("channel", channel);
    if (argc > 2 && !strcmp(argv[1], "-c")) {
        client(argv[2]);
        return 0;
    }
    return server();
}
