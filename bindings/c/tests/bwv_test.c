/* A program that uses, and misuses, the whole of bwverbs.h. The library's tests compile and run it. */
#include <bwverbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layouts are part of the ABI. */
_Static_assert(sizeof(bwv_addr) == 24 && offsetof(bwv_addr, ip) == 8, "bwv_addr");
_Static_assert(sizeof(bwv_limits) == 32, "bwv_limits");
_Static_assert(sizeof(bwv_mr) == 40 && offsetof(bwv_mr, addr) == 16 && offsetof(bwv_mr, memory) == 32, "bwv_mr");
_Static_assert(sizeof(bwv_sge) == 16 && offsetof(bwv_sge, lkey) == 12, "bwv_sge");
_Static_assert(sizeof(bwv_qp_attr) == 24 && offsetof(bwv_qp_attr, access) == 20, "bwv_qp_attr");
_Static_assert(sizeof(bwv_qp_view) == 32, "bwv_qp_view");
_Static_assert(sizeof(bwv_send_wr) == 80 && offsetof(bwv_send_wr, remote_addr) == 48 &&
                   offsetof(bwv_send_wr, compare_add) == 64,
               "bwv_send_wr");
_Static_assert(sizeof(bwv_wc) == 40 && offsetof(bwv_wc, refusal) == 36, "bwv_wc");
_Static_assert(sizeof(bwv_connect_to) == 80 && offsetof(bwv_connect_to, private_data) == 56, "bwv_connect_to");
_Static_assert(sizeof(bwv_event) == 320 && offsetof(bwv_event, service_id) == 24 && offsetof(bwv_event, local) == 40 &&
                   offsetof(bwv_event, private_data) == 96,
               "bwv_event");

#define CHECK(what)                                                                                \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "%s:%d: %s: last error: %s\n", __FILE__, __LINE__, #what, bwv_last_error()); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define PATIENCE 30000
#define PORT 7471
#define ALL                                                                                               \
  (BWV_ACCESS_LOCAL_WRITE | BWV_ACCESS_REMOTE_WRITE | BWV_ACCESS_REMOTE_READ | BWV_ACCESS_REMOTE_ATOMIC | \
   BWV_ACCESS_REMOTE_INVALIDATE)

/* What an application needs besides connections. */
struct end {
  bwv_context *context;
  bwv_pd pd;
  bwv_cq cq;
  bwv_mr mr;
};

/* Where the peer's memory is: said in private data. */
struct place {
  uint64_t addr;
  uint32_t rkey;
  uint32_t len;
};

static void ready(void) {
  puts("ready");
  fflush(stdout);
}

static struct end open_end(const char *name) {
  struct end end;
  CHECK(bwv_open(name, NULL, &end.context) == BWV_OK);
  CHECK(bwv_alloc_pd(end.context, &end.pd) == BWV_OK);
  CHECK(bwv_create_cq(end.context, 256, &end.cq) == BWV_OK);
  CHECK(bwv_reg_mr(end.context, end.pd, 1 << 16, ALL, &end.mr) == BWV_OK);
  CHECK(end.mr.len == 1 << 16 && end.mr.memory != NULL);
  return end;
}

static bwv_qp make_qp(const struct end *end) {
  bwv_qp_attr attr = {
      .pd = end->pd, .send_cq = end->cq, .recv_cq = end->cq, .send_max = 16, .recv_max = 16, .access = ALL};
  bwv_qp qp;
  CHECK(bwv_create_qp(end->context, &attr, &qp) == BWV_OK);
  return qp;
}

static bwv_sge piece(const struct end *end, uint64_t offset, uint32_t len) {
  return (bwv_sge){.addr = end->mr.addr + offset, .len = len, .lkey = end->mr.lkey};
}

static void done(const struct end *end, uint64_t wr_id, uint32_t opcode) {
  bwv_wc wc;
  CHECK(bwv_wait_cq(end->context, end->cq, PATIENCE, &wc) == 1);
  if (wc.status != BWV_WC_SUCCESS) fprintf(stderr, "status %u, refusal %d\n", wc.status, wc.refusal);
  CHECK(wc.status == BWV_WC_SUCCESS && wc.wr_id == wr_id && wc.opcode == opcode);
}

/* Answers each message with its bytes reversed; ends after as many connections. */
static void serve(int connections) {
  struct end end = open_end("serve");
  bwv_listener listener, second;
  CHECK(bwv_listen(end.context, bwv_service_id(PORT), 8, &listener) == BWV_OK);
  CHECK(bwv_listen(end.context, bwv_service_id(PORT), 8, &second) == BWV_ERR_LISTENING);
  ready();
  for (int i = 0; i < connections; i++) {
    bwv_event event;
    CHECK(bwv_get_request(end.context, listener, PATIENCE, &event) == 1);
    CHECK(event.kind == BWV_EVENT_CONNECT_REQUEST && event.object == listener);
    CHECK(event.service_id == bwv_service_id(PORT) && event.remote.family == 4 && event.remote.ip[3] == 1);
    CHECK(event.private_len == 5 && memcmp(event.private_data, "hello", 5) == 0);
    bwv_qp qp = make_qp(&end);
    bwv_sge sge = piece(&end, 0, 64);
    CHECK(bwv_post_recv(end.context, qp, 1, &sge, 1) == BWV_OK);
    struct place place = {.addr = end.mr.addr, .rkey = end.mr.rkey, .len = (uint32_t)end.mr.len};
    CHECK(bwv_accept(end.context, event.conn, qp, &place, sizeof place) == BWV_OK);
    CHECK(bwv_wait_established(end.context, qp, PATIENCE) == 1);
    bwv_qp_view view;
    CHECK(bwv_query_qp(end.context, qp, &view) == BWV_OK);
    CHECK(view.state == BWV_QP_RTS && view.remote_qpn == event.remote_qpn);
    for (;;) {
      bwv_wc wc[4];
      int n;
      bwv_cq which;
      if (bwv_get_cq_event(end.context, 10, &which) == 1) {
        CHECK(which == end.cq);
        n = bwv_poll_cq(end.context, end.cq, 4, wc);
        CHECK(n >= 0);
        for (int k = 0; k < n; k++) {
          if (wc[k].status == BWV_WC_FLUSHED) continue;
          CHECK(wc[k].status == BWV_WC_SUCCESS && wc[k].qpn == view.qpn);
          if (wc[k].opcode != BWV_WC_RECV) continue;
          CHECK((wc[k].flags & BWV_WC_WITH_IMM) != 0);
          unsigned char bytes[64], answer[64];
          CHECK(wc[k].len <= sizeof bytes);
          CHECK(bwv_mr_read(end.context, end.mr.id, 0, bytes, wc[k].len) == BWV_OK);
          for (uint32_t b = 0; b < wc[k].len; b++) answer[b] = bytes[wc[k].len - 1 - b];
          CHECK(bwv_post_recv(end.context, qp, wc[k].wr_id, &sge, 1) == BWV_OK);
          bwv_send_wr wr = {.wr_id = 2,
                            .opcode = BWV_OP_SEND_IMM,
                            .flags = BWV_SEND_SIGNALED | BWV_SEND_INLINE,
                            .inline_data = answer,
                            .inline_len = wc[k].len,
                            .imm = wc[k].imm};
          CHECK(bwv_post_send(end.context, qp, &wr) == BWV_OK);
        }
      }
      int got = bwv_next_event(end.context, &event);
      CHECK(got >= 0);
      if (got == 1 && event.kind == BWV_EVENT_DISCONNECTED) {
        CHECK(event.qp == qp && event.why == BWV_ENDED_REMOTE);
        break;
      }
    }
    CHECK(bwv_destroy_qp(end.context, qp) == BWV_OK);
  }
  CHECK(bwv_unlisten(end.context, listener) == BWV_OK);
  CHECK(bwv_destroy_cq(end.context, end.cq) == BWV_OK);
  CHECK(bwv_dereg_mr(end.context, end.mr.id) == BWV_OK);
  CHECK(bwv_dealloc_pd(end.context, end.pd) == BWV_OK);
  CHECK(bwv_close(end.context) == BWV_OK);
  printf("%d connections\n", connections);
}

static void ask(const char *host, int count) {
  struct end end = open_end("ask");
  bwv_event event;
  bwv_connect_to to = {.service_id = bwv_service_id(PORT), .private_data = "hello", .private_len = 5};
  CHECK(bwv_addr_parse(host, &to.remote) == BWV_OK);
  bwv_qp qp = make_qp(&end);
  CHECK(bwv_connect(end.context, qp, &to, PATIENCE, &event) == BWV_OK);
  CHECK(event.kind == BWV_EVENT_CONNECTED && event.qp == qp && event.private_len <= sizeof(struct place));
  struct place peer = {0};
  memcpy(&peer, event.private_data, event.private_len);
  CHECK(peer.len == 1 << 16);
  unsigned char *own = end.mr.memory;
  for (int i = 0; i < count; i++) {
    /* A message and its answer. */
    unsigned char bytes[64], answer[64];
    uint32_t len = 1 + (uint32_t)i % 64;
    for (uint32_t b = 0; b < len; b++) bytes[b] = (unsigned char)(i * 7 + (int)b);
    bwv_sge sge = piece(&end, 0, 64);
    CHECK(bwv_post_recv(end.context, qp, 1, &sge, 1) == BWV_OK);
    bwv_send_wr send = {.wr_id = 2,
                        .opcode = BWV_OP_SEND_IMM,
                        .flags = BWV_SEND_INLINE,
                        .inline_data = bytes,
                        .inline_len = len,
                        .imm = (uint32_t)i};
    CHECK(bwv_post_send(end.context, qp, &send) == BWV_OK);
    bwv_wc wc;
    CHECK(bwv_wait_cq(end.context, end.cq, PATIENCE, &wc) == 1);
    CHECK(wc.status == BWV_WC_SUCCESS && wc.opcode == BWV_WC_RECV && wc.wr_id == 1);
    CHECK(wc.len == len && wc.flags == BWV_WC_WITH_IMM && wc.imm == (uint32_t)i);
    CHECK(bwv_mr_read(end.context, end.mr.id, 0, answer, len) == BWV_OK);
    for (uint32_t b = 0; b < len; b++) CHECK(answer[b] == bytes[len - 1 - b]);
    /* A write from two pieces, and a read of it. */
    for (int b = 0; b < 5000; b++) own[1000 + b] = (unsigned char)(i + b * 3);
    bwv_sge pieces[3] = {piece(&end, 1000, 10), piece(&end, 1010, 90), piece(&end, 1100, 4900)};
    bwv_send_wr write = {.wr_id = 3,
                         .opcode = BWV_OP_WRITE,
                         .flags = BWV_SEND_SIGNALED,
                         .sges = pieces,
                         .sge_count = 3,
                         .remote_addr = peer.addr + 8192,
                         .rkey = peer.rkey};
    CHECK(bwv_post_send(end.context, qp, &write) == BWV_OK);
    done(&end, 3, BWV_WC_WRITE);
    bwv_sge back = piece(&end, 20000, 5000);
    bwv_send_wr read = write;
    read.wr_id = 4;
    read.opcode = BWV_OP_READ;
    read.sges = &back;
    read.sge_count = 1;
    CHECK(bwv_post_send(end.context, qp, &read) == BWV_OK);
    done(&end, 4, BWV_WC_READ);
    CHECK(memcmp(own + 1000, own + 20000, 5000) == 0);
    /* A counter there. */
    bwv_sge value = piece(&end, 512, 8);
    bwv_send_wr add = {.wr_id = 5,
                       .opcode = BWV_OP_FETCH_ADD,
                       .flags = BWV_SEND_SIGNALED,
                       .sges = &value,
                       .sge_count = 1,
                       .remote_addr = peer.addr + 65528,
                       .rkey = peer.rkey,
                       .compare_add = 2};
    uint64_t before;
    CHECK(bwv_post_send(end.context, qp, &add) == BWV_OK);
    done(&end, 5, BWV_WC_FETCH_ADD);
    CHECK(bwv_mr_read(end.context, end.mr.id, 512, &before, 8) == BWV_OK);
    bwv_send_wr swap = add;
    swap.wr_id = 6;
    swap.opcode = BWV_OP_COMPARE_SWAP;
    swap.compare_add = before + 2;
    swap.swap = before + 1;
    CHECK(bwv_post_send(end.context, qp, &swap) == BWV_OK);
    done(&end, 6, BWV_WC_COMPARE_SWAP);
    uint64_t then;
    memcpy(&then, own + 512, 8);
    CHECK(then == before + 2);
  }
  CHECK(bwv_disconnect(end.context, event.conn, PATIENCE) == BWV_OK);
  CHECK(bwv_close(end.context) == BWV_OK);
  CHECK(bwv_close(end.context) == BWV_ERR_HANDLE);
  printf("%d rounds\n", count);
}

static void misuse(const char *missing) {
  bwv_context *context, *none;
  CHECK(bwv_open("misuse", missing, &none) == BWV_ERR_NO_DAEMON && none == NULL);
  puts(bwv_last_error());
  CHECK(bwv_open("misuse", NULL, NULL) == BWV_ERR_INVALID);
  CHECK(bwv_abi_version() == BWV_ABI_VERSION && strlen(bwv_version()) > 0);
  CHECK(strcmp(bwv_strerror(BWV_ERR_QUOTA), bwv_strerror(BWV_OK)) != 0);
  struct end end = open_end("misuse");
  context = end.context;
  bwv_limits limits;
  CHECK(bwv_query_device(context, &limits) == BWV_OK && limits.queue_pairs == 8 && limits.mtu >= 256);
  CHECK(bwv_query_device(context, NULL) == BWV_ERR_INVALID);
  bwv_addr addr;
  CHECK(bwv_addresses(context, &addr, 1) == 1 && addr.family == 4 && addr.ip[0] == 10);
  CHECK(bwv_addresses(context, NULL, 1) == BWV_ERR_INVALID);
  CHECK(bwv_addr_parse("nonsense", &addr) == BWV_ERR_INVALID && bwv_addr_parse(NULL, &addr) == BWV_ERR_INVALID);
  /* Contexts that are none. */
  bwv_context *wrong[] = {NULL, (bwv_context *)&end, (bwv_context *)((uintptr_t)context + 4096)};
  for (int i = 0; i < 3; i++) {
    bwv_pd pd;
    CHECK(bwv_alloc_pd(wrong[i], &pd) == BWV_ERR_HANDLE);
  }
  /* Objects that are none, or of another kind. */
  bwv_qp_attr attr = {.pd = end.pd, .send_cq = end.cq, .recv_cq = end.cq, .send_max = 1, .recv_max = 1};
  bwv_qp qp;
  bwv_wc wc;
  bwv_sge sge = piece(&end, 0, 8);
  bwv_send_wr wr = {.wr_id = 9, .opcode = BWV_OP_SEND, .flags = BWV_SEND_SIGNALED, .sges = &sge, .sge_count = 1};
  CHECK(bwv_destroy_qp(context, 12345) == BWV_ERR_UNKNOWN);
  CHECK(bwv_destroy_cq(context, end.pd) != BWV_OK);
  CHECK(bwv_dereg_mr(context, end.pd) == BWV_ERR_UNKNOWN);
  CHECK(bwv_poll_cq(context, end.pd, 1, &wc) == BWV_ERR_UNKNOWN);
  attr.pd = end.cq;
  CHECK(bwv_create_qp(context, &attr, &qp) == BWV_ERR_UNKNOWN);
  attr.pd = end.pd;
  attr.access = 32;
  CHECK(bwv_create_qp(context, &attr, &qp) == BWV_ERR_INVALID);
  attr.access = 0;
  CHECK(bwv_create_qp(context, NULL, &qp) == BWV_ERR_INVALID);
  for (int i = 0; i < 8; i++) CHECK(bwv_create_qp(context, &attr, &qp) == BWV_OK);
  bwv_qp ninth;
  CHECK(bwv_create_qp(context, &attr, &ninth) == BWV_ERR_QUOTA);
  puts(bwv_last_error());
  CHECK(bwv_create_cq(context, 0, &end.cq) == BWV_ERR_INVALID);
  CHECK(bwv_dealloc_pd(context, end.pd) == BWV_ERR_IN_USE);
  CHECK(bwv_modify_qp(context, qp, BWV_QP_RTS) == BWV_ERR_INVALID);
  CHECK(bwv_modify_qp(context, qp, BWV_QP_SQD) == BWV_ERR_STATE);
  /* Posts: what the library sees is a code, what the daemon sees a completion. */
  CHECK(bwv_post_send(context, qp, NULL) == BWV_ERR_INVALID);
  wr.sge_count = BWV_SGE_MAX + 1;
  CHECK(bwv_post_send(context, qp, &wr) == BWV_ERR_INVALID);
  wr.sge_count = 1;
  wr.opcode = 99;
  CHECK(bwv_post_send(context, qp, &wr) == BWV_ERR_INVALID);
  wr.opcode = BWV_OP_SEND;
  wr.flags = 1 << 20;
  CHECK(bwv_post_send(context, qp, &wr) == BWV_ERR_INVALID);
  wr.flags = BWV_SEND_INLINE;
  wr.inline_len = BWV_INLINE_MAX + 1;
  CHECK(bwv_post_send(context, qp, &wr) == BWV_ERR_INVALID);
  wr.flags = BWV_SEND_SIGNALED;
  CHECK(bwv_post_send(context, qp, &wr) == BWV_OK);
  CHECK(bwv_wait_cq(context, end.cq, PATIENCE, &wc) == 1);
  CHECK(wc.wr_id == 9 && wc.status == BWV_WC_REFUSED && wc.refusal == BWV_ERR_STATE);
  CHECK(bwv_wait_cq(context, end.cq, 1, &wc) == 0 && bwv_poll_cq(context, end.cq, 1, &wc) == 0);
  CHECK(bwv_wait_cq(context, end.cq, 1, NULL) == BWV_ERR_INVALID);
  CHECK(bwv_poll_cq(context, end.cq, 1, NULL) == BWV_ERR_INVALID);
  /* Memory. */
  unsigned char bytes[16];
  CHECK(bwv_mr_write(context, end.mr.id, (1 << 16) - 15, bytes, 16) == BWV_ERR_INVALID);
  CHECK(bwv_mr_read(context, end.mr.id, SIZE_MAX, bytes, 16) == BWV_ERR_INVALID);
  CHECK(bwv_mr_read(context, end.mr.id, 0, NULL, 16) == BWV_ERR_INVALID);
  CHECK(bwv_mr_write(context, end.mr.id, (1 << 16) - 16, "0123456789abcdef", 16) == BWV_OK);
  CHECK(bwv_mr_read(context, end.mr.id, (1 << 16) - 16, bytes, 16) == BWV_OK && bytes[15] == 'f');
  bwv_mr big;
  CHECK(bwv_reg_mr(context, end.pd, SIZE_MAX, ALL, &big) == BWV_ERR_NO_MEMORY);
  CHECK(bwv_reg_mr(context, end.pd, 1, 32, &big) == BWV_ERR_INVALID);
  /* Connections. */
  bwv_connect_to to = {.service_id = 1};
  bwv_conn conn;
  bwv_event event;
  CHECK(bwv_start_connect(context, qp, &to, 100, &conn) == BWV_ERR_INVALID);
  CHECK(bwv_addr_parse("10.9.0.77", &to.remote) == BWV_OK);
  to.mtu = 1500;
  CHECK(bwv_start_connect(context, qp, &to, 100, &conn) == BWV_ERR_INVALID);
  to.mtu = 1024;
  to.private_len = 5;
  CHECK(bwv_start_connect(context, qp, &to, 100, &conn) == BWV_ERR_INVALID);
  to.private_len = 0;
  CHECK(bwv_start_connect(context, qp, &to, 200, &conn) == BWV_OK);
  CHECK(bwv_wait_event(context, PATIENCE, &event) == 1);
  CHECK(event.kind == BWV_EVENT_CONNECT_FAILED && event.conn == conn && event.qp == qp);
  CHECK(event.why == BWV_ERR_UNREACHABLE);
  CHECK(bwv_addr_parse("10.9.0.2", &to.remote) == BWV_OK);
  CHECK(bwv_connect(context, qp, &to, PATIENCE, &event) == BWV_ERR_REJECTED);
  CHECK(bwv_accept(context, conn, qp, NULL, 0) == BWV_ERR_UNKNOWN);
  CHECK(bwv_reject(context, conn, 28, NULL, 0) == BWV_ERR_UNKNOWN);
  CHECK(bwv_start_disconnect(context, conn) == BWV_ERR_UNKNOWN);
  CHECK(bwv_disconnect(context, conn, 1) == BWV_OK);
  CHECK(bwv_wait_established(context, qp, 1) == 0);
  CHECK(bwv_wait_event(context, 1, &event) == 0 && bwv_next_event(context, &event) == 0);
  CHECK(bwv_next_event(context, NULL) == BWV_ERR_INVALID);
  bwv_cq which;
  CHECK(bwv_get_cq_event(context, 1, &which) == 0);
  /* A shared queue. */
  bwv_srq srq;
  CHECK(bwv_create_srq(context, end.pd, 1, &srq) == BWV_OK && bwv_arm_srq(context, srq, 1) == BWV_OK);
  CHECK(bwv_post_srq_recv(context, srq, 1, NULL, 0) == BWV_OK);
  CHECK(bwv_post_srq_recv(context, srq, 2, NULL, 0) == BWV_OK);
  CHECK(bwv_wait_event(context, PATIENCE, &event) == 1);
  CHECK(event.kind == BWV_EVENT_SRQ_POST_REFUSED && event.object == srq && event.wr_id == 2);
  CHECK(event.why == BWV_ERR_QUEUE_FULL && bwv_destroy_srq(context, srq) == BWV_OK);
  /* A sleep of one's own. */
  CHECK(bwv_arm(context) == 1);
  struct pollfd fd = {.fd = bwv_event_fd(context), .events = POLLIN};
  CHECK(poll(&fd, 1, 10) == 0);
  CHECK(bwv_disarm(context) == BWV_OK);
  CHECK(bwv_close(context) == BWV_OK && bwv_close(NULL) == BWV_OK);
}

static void gone(const char *how) {
  struct end end = open_end("gone");
  bwv_wc wc;
  bwv_event event;
  int result = 0;
  ready();
  if (strcmp(how, "wait") == 0) {
    result = bwv_wait_cq(end.context, end.cq, -1, &wc);
  } else if (strcmp(how, "event") == 0) {
    result = bwv_wait_event(end.context, -1, &event);
  } else {
    while ((result = bwv_poll_cq(end.context, end.cq, 1, &wc)) == 0) {
    }
  }
  CHECK(result == BWV_ERR_DAEMON_GONE);
  CHECK(bwv_alloc_pd(end.context, &end.pd) == BWV_ERR_DAEMON_GONE);
  CHECK(bwv_close(end.context) == BWV_OK);
  puts("gone");
}

static void none(void) {
  bwv_context *context;
  CHECK(bwv_open("none", NULL, &context) == BWV_ERR_NO_RDMA && context == NULL);
  puts(bwv_last_error());
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "serve") == 0) {
    serve(atoi(argv[2]));
  } else if (argc == 4 && strcmp(argv[1], "ask") == 0) {
    ask(argv[2], atoi(argv[3]));
  } else if (argc == 3 && strcmp(argv[1], "misuse") == 0) {
    misuse(argv[2]);
  } else if (argc == 3 && strcmp(argv[1], "gone") == 0) {
    gone(argv[2]);
  } else if (argc == 2 && strcmp(argv[1], "none") == 0) {
    none();
  } else {
    return 2;
  }
  return 0;
}
