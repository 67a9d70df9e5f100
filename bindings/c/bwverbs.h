/*
 * bwverbs.h: RDMA (RoCEv2 reliable connections) through the daemon, for C. Generated from the library's source; do not edit.
 *
 * A context is an application's device at the daemon, in the words of libibverbs and librdmacm:
 *
 *     bwv_context *context;
 *     bwv_pd pd;  bwv_cq cq;  bwv_qp qp;  bwv_mr mr;  bwv_event event;  bwv_wc wc;
 *     bwv_connect_to to = {.service_id = bwv_service_id(7471)};
 *     if (bwv_open("hello", NULL, &context) != BWV_OK) die(bwv_last_error());
 *     bwv_alloc_pd(context, &pd);
 *     bwv_create_cq(context, 64, &cq);
 *     bwv_reg_mr(context, pd, 4096, BWV_ACCESS_LOCAL_WRITE, &mr);
 *     bwv_qp_attr attr = {.pd = pd, .send_cq = cq, .recv_cq = cq, .send_max = 16, .recv_max = 16};
 *     bwv_create_qp(context, &attr, &qp);
 *     bwv_addr_parse("10.0.0.2", &to.remote);
 *     bwv_connect(context, qp, &to, 1000, &event);
 *     bwv_send_wr wr = {.wr_id = 1, .opcode = BWV_OP_SEND, .flags = BWV_SEND_SIGNALED | BWV_SEND_INLINE,
 *                       .inline_data = "hello", .inline_len = 5};
 *     bwv_post_send(context, qp, &wr);
 *     bwv_wait_cq(context, cq, 1000, &wc);
 *
 * Results: functions that return int give 0 or a positive number when they worked, and a negative BWV_ERR_... code when not.
 * Codes, kinds and reasons never change their meaning.
 *
 * Objects are numbers, checked by the daemon: a wrong one is BWV_ERR_UNKNOWN. Registered memory lies in the channel that
 * application and daemon share; a program does not register memory of its own.
 *
 * Verbs that make, end or look at objects wait for the daemon's answer, a few seconds at most. Posts never wait.
 *
 * Threads: one thread at a time is inside a call on a context; a second one gets BWV_ERR_BUSY_CONTEXT. A context may move
 * between threads. Several threads open one context each. bwv_last_error speaks of the calling thread. A child made by fork()
 * uses none of its parent's contexts: it opens its own.
 *
 * Pointers: null, closed and invalid contexts are reported by a code. Other pointers that are not null have to be valid for the
 * call; the library keeps none of them.
 */


#ifndef BWVERBS_H
#define BWVERBS_H

#include <stddef.h>
#include <stdint.h>

/**
 * Success.
 */
#define BWV_OK 0

/**
 * An argument is null or out of range.
 */
#define BWV_ERR_INVALID -1

/**
 * Not a context, or already closed.
 */
#define BWV_ERR_HANDLE -2

/**
 * Another thread is inside a call on this context.
 */
#define BWV_ERR_BUSY_CONTEXT -3

/**
 * The ring of requests is full: poll, and try again.
 */
#define BWV_ERR_AGAIN -4

/**
 * The context has no such object, or it has been destroyed.
 */
#define BWV_ERR_UNKNOWN -5

/**
 * Something still uses the object.
 */
#define BWV_ERR_IN_USE -6

/**
 * The daemon's device is full.
 */
#define BWV_ERR_LIMIT -7

/**
 * This application has as many as the daemon allows it; bwv_last_error says which, and where to change it.
 */
#define BWV_ERR_QUOTA -8

/**
 * The queue has no room.
 */
#define BWV_ERR_QUEUE_FULL -9

/**
 * The object is in another state.
 */
#define BWV_ERR_STATE -10

/**
 * Somebody listens on that service id already.
 */
#define BWV_ERR_LISTENING -11

/**
 * More private data than the message carries.
 */
#define BWV_ERR_PRIVATE_DATA -12

/**
 * The queue pair is not a new one, or belongs to another connection.
 */
#define BWV_ERR_QUEUE_PAIR -13

/**
 * The channel has no such piece of memory left.
 */
#define BWV_ERR_NO_MEMORY -14

/**
 * The next hop does not answer, or there is no route.
 */
#define BWV_ERR_UNREACHABLE -15

/**
 * The peer refused the connection.
 */
#define BWV_ERR_REJECTED -16

/**
 * The peer does not answer the connection manager, or answers nonsense.
 */
#define BWV_ERR_NO_ANSWER -17

/**
 * The connection has ended.
 */
#define BWV_ERR_DISCONNECTED -18

/**
 * Timed out.
 */
#define BWV_ERR_TIMED_OUT -19

/**
 * The daemon is gone: close the context, and open one again when the daemon is back.
 */
#define BWV_ERR_DAEMON_GONE -20

/**
 * The daemon cannot be reached, or does not answer.
 */
#define BWV_ERR_NO_DAEMON -21

/**
 * The daemon refused: not permitted, or full.
 */
#define BWV_ERR_NOT_ADMITTED -22

/**
 * The daemon does no RDMA.
 */
#define BWV_ERR_NO_RDMA -23

/**
 * Library and daemon are of different releases.
 */
#define BWV_ERR_PROTOCOL -24

/**
 * The process has 1024 contexts already.
 */
#define BWV_ERR_TOO_MANY -25

/**
 * A system call failed.
 */
#define BWV_ERR_SYSTEM -26

/**
 * A bug in the library: the call was cut short. Close the context.
 */
#define BWV_ERR_PANIC -27

/**
 * The completion queue has lost completions: make a new one, and take completions in time.
 */
#define BWV_ERR_CQ -28

/**
 * The completion queue has fewer entries than the queue pair has room for receive requests.
 */
#define BWV_ERR_CQ_TOO_SMALL -29

/**
 * Writing by this host: receives, and what reads and atomics bring.
 */
#define BWV_ACCESS_LOCAL_WRITE 1

/**
 * RDMA writes by the peer.
 */
#define BWV_ACCESS_REMOTE_WRITE 2

/**
 * RDMA reads by the peer.
 */
#define BWV_ACCESS_REMOTE_READ 4

/**
 * Atomic operations by the peer.
 */
#define BWV_ACCESS_REMOTE_ATOMIC 8

/**
 * The peer may take the key back by a send with invalidate.
 */
#define BWV_ACCESS_REMOTE_INVALIDATE 16

/**
 * New. (States and what bwv_modify_qp leads to.)
 */
#define BWV_QP_RESET 0

/**
 * Receives may be posted.
 */
#define BWV_QP_INIT 1

/**
 * Ready to receive.
 */
#define BWV_QP_RTR 2

/**
 * Ready to send.
 */
#define BWV_QP_RTS 3

/**
 * Finishes what it began to send, begins nothing.
 */
#define BWV_QP_SQD 4

/**
 * Dead: what was posted comes back flushed.
 */
#define BWV_QP_ERR 6

/**
 * For bwv_modify_qp only: goes on after BWV_QP_SQD.
 */
#define BWV_QP_RESUME 7

/**
 * Sends.
 */
#define BWV_OP_SEND 1

/**
 * Sends with immediate data `imm`.
 */
#define BWV_OP_SEND_IMM 2

/**
 * Sends, and takes the peer's key `rkey` back.
 */
#define BWV_OP_SEND_INVALIDATE 3

/**
 * Writes to `remote_addr` with `rkey`.
 */
#define BWV_OP_WRITE 4

/**
 * Writes, and completes a receive request with `imm`.
 */
#define BWV_OP_WRITE_IMM 5

/**
 * Reads.
 */
#define BWV_OP_READ 6

/**
 * Swaps 64 bits for `swap` if they equal `compare_add`; the value before comes to the piece of memory.
 */
#define BWV_OP_COMPARE_SWAP 7

/**
 * Adds `compare_add` to 64 bits; the value before comes to the piece of memory.
 */
#define BWV_OP_FETCH_ADD 8

/**
 * Success makes a completion; failure always does.
 */
#define BWV_SEND_SIGNALED 1

/**
 * The peer is to be woken.
 */
#define BWV_SEND_SOLICITED 2

/**
 * Waits for all reads and atomics posted before.
 */
#define BWV_SEND_FENCE 4

/**
 * The bytes are `inline_data`, copied by the call, at most BWV_INLINE_MAX.
 */
#define BWV_SEND_INLINE 8

/**
 * Most pieces of memory of one request.
 */
#define BWV_SGE_MAX 4

/**
 * Most bytes of inline data.
 */
#define BWV_INLINE_MAX 64

/**
 * Done.
 */
#define BWV_WC_SUCCESS 0

/**
 * A message longer than the receive request.
 */
#define BWV_WC_LOCAL_LENGTH 1

/**
 * A key or bounds of our own memory.
 */
#define BWV_WC_LOCAL_PROTECTION 4

/**
 * The queue pair went to the error state first.
 */
#define BWV_WC_FLUSHED 5

/**
 * The peer answered with something that fits no request.
 */
#define BWV_WC_BAD_RESPONSE 7

/**
 * The peer found the request invalid.
 */
#define BWV_WC_REMOTE_INVALID_REQUEST 9

/**
 * The peer's key, bounds or permissions refuse it.
 */
#define BWV_WC_REMOTE_ACCESS 10

/**
 * The peer failed.
 */
#define BWV_WC_REMOTE_OPERATION 11

/**
 * No answer.
 */
#define BWV_WC_RETRY_EXCEEDED 12

/**
 * The peer never had a receive request.
 */
#define BWV_WC_RNR_RETRY_EXCEEDED 13

/**
 * It was never begun: the daemon did not take it, and `refusal` says why.
 */
#define BWV_WC_REFUSED 256

/**
 * A send.
 */
#define BWV_WC_SEND 0

/**
 * A write.
 */
#define BWV_WC_WRITE 1

/**
 * A read.
 */
#define BWV_WC_READ 2

/**
 * A compare-and-swap.
 */
#define BWV_WC_COMPARE_SWAP 3

/**
 * A fetch-and-add.
 */
#define BWV_WC_FETCH_ADD 4

/**
 * A receive.
 */
#define BWV_WC_RECV 128

/**
 * A receive that a write with immediate data completed.
 */
#define BWV_WC_RECV_WRITE_IMM 129

/**
 * There is immediate data.
 */
#define BWV_WC_WITH_IMM 1

/**
 * The peer took a key of ours back.
 */
#define BWV_WC_WITH_INVALIDATE 2

/**
 * A peer wants a connection: `conn`, `object` (the listener), `service_id`, `local`, `remote`, `remote_qpn`, private data.
 */
#define BWV_EVENT_CONNECT_REQUEST 1

/**
 * A connection that was asked for is ready: `conn`, `qp`, private data.
 */
#define BWV_EVENT_CONNECTED 2

/**
 * A connection that was accepted is ready: `conn`, `qp`.
 */
#define BWV_EVENT_ESTABLISHED 3

/**
 * A connection will not be: `conn`, `qp` (0 for a wish that was taken back), `why` (BWV_ERR_...), `reason` of the peer's.
 */
#define BWV_EVENT_CONNECT_FAILED 4

/**
 * A connection ended: `conn`, `qp`, `why` (BWV_ENDED_...).
 */
#define BWV_EVENT_DISCONNECTED 5

/**
 * A queue pair died: `qp`, `why` (BWV_FAULT_...).
 */
#define BWV_EVENT_QP_ERROR 6

/**
 * A queue pair in the state BWV_QP_SQD has finished what it had begun: `qp`.
 */
#define BWV_EVENT_DRAINED 7

/**
 * A shared receive queue has few requests left: `object`.
 */
#define BWV_EVENT_SRQ_LOW 8

/**
 * A completion queue was full and is in error for good: `object`. Its queue pairs die of it (BWV_FAULT_CQ).
 */
#define BWV_EVENT_CQ_OVERRUN 9

/**
 * A receive request for a shared queue was refused: `object`, `wr_id`, `why` (BWV_ERR_...).
 */
#define BWV_EVENT_SRQ_POST_REFUSED 10

/**
 * We asked, and the peer agreed.
 */
#define BWV_ENDED_LOCAL 1

/**
 * The peer asked.
 */
#define BWV_ENDED_REMOTE 2

/**
 * We asked, and the peer never answered.
 */
#define BWV_ENDED_TIMEOUT 3

/**
 * The peer has forgotten it.
 */
#define BWV_ENDED_STALE 4

/**
 * A send request failed; its completion says how.
 */
#define BWV_FAULT_SEND 1

/**
 * A receive request failed: too short, or memory that may not be written.
 */
#define BWV_FAULT_RECEIVE 2

/**
 * The peer asked for something that makes no sense here.
 */
#define BWV_FAULT_INVALID_REQUEST 3

/**
 * The peer's key, bounds or permissions were wrong.
 */
#define BWV_FAULT_ACCESS 4

/**
 * One of its completion queues has overrun.
 */
#define BWV_FAULT_CQ 5

/**
 * Most bytes of private data.
 */
#define BWV_PRIVATE_MAX 224

/**
 * Version of this ABI: grows when something is added, and the library's name changes when something is taken away.
 */
#define BWV_ABI_VERSION 1

/**
 * An application's device at the daemon. The pointer is a handle, not an address: never dereference it.
 */
typedef struct bwv_context bwv_context;

/**
 * What the daemon lets this application have.
 */
typedef struct bwv_limits {
  /**
   * Largest path MTU, in bytes.
   */
  uint32_t mtu;
  /**
   * Queue pairs.
   */
  uint32_t queue_pairs;
  /**
   * Connections.
   */
  uint32_t connections;
  /**
   * Memory regions.
   */
  uint32_t regions;
  /**
   * Completion queues.
   */
  uint32_t completion_queues;
  /**
   * Requests that all queues have room for in each direction.
   */
  uint32_t requests;
  /**
   * Entries of all completion queues together.
   */
  uint32_t completions;
  /**
   * Zero.
   */
  uint32_t reserved;
} bwv_limits;

/**
 * An IP address.
 */
typedef struct bwv_addr {
  /**
   * 4 or 6; 0: none.
   */
  uint32_t family;
  /**
   * Zero.
   */
  uint32_t reserved;
  /**
   * The address as on the wire: 4 bytes of IPv4 and 12 of zero, or 16 of IPv6.
   */
  uint8_t ip[16];
} bwv_addr;

/**
 * Number of a connection, or of a wish for one.
 */
typedef uint32_t bwv_conn;

/**
 * Number of a queue pair at the daemon; its number in packets is another.
 */
typedef uint32_t bwv_qp;

/**
 * Something that happened. What its kind does not name is zero.
 */
typedef struct bwv_event {
  /**
   * BWV_EVENT_...; later releases may add kinds, so pass over those you do not know.
   */
  uint32_t kind;
  /**
   * Why, by kind.
   */
  int why;
  /**
   * The peer's reason for a refusal.
   */
  uint32_t reason;
  /**
   * A connection.
   */
  bwv_conn conn;
  /**
   * A queue pair.
   */
  bwv_qp qp;
  /**
   * A listener, a shared receive queue or a completion queue.
   */
  uint32_t object;
  /**
   * The service id that a peer named.
   */
  uint64_t service_id;
  /**
   * A request's own number.
   */
  uint64_t wr_id;
  /**
   * Our address.
   */
  struct bwv_addr local;
  /**
   * The peer's address.
   */
  struct bwv_addr remote;
  /**
   * The peer's queue pair.
   */
  uint32_t remote_qpn;
  /**
   * Bytes of private data, without trailing zeros.
   */
  uint32_t private_len;
  /**
   * What the peer's application said.
   */
  uint8_t private_data[BWV_PRIVATE_MAX];
} bwv_event;

/**
 * Number of a protection domain. Numbers of objects are never 0, and mean nothing in another context.
 */
typedef uint32_t bwv_pd;

/**
 * Number of a memory region.
 */
typedef uint32_t bwv_mr_id;

/**
 * Registered memory. It lies in the channel that application and daemon share.
 */
typedef struct bwv_mr {
  /**
   * Its number.
   */
  bwv_mr_id id;
  /**
   * The key for our own requests.
   */
  uint32_t lkey;
  /**
   * The key to give to the peer.
   */
  uint32_t rkey;
  /**
   * Zero.
   */
  uint32_t reserved;
  /**
   * The address of its first byte, in requests and for peers. It is not an address of this process.
   */
  uint64_t addr;
  /**
   * Its bytes.
   */
  uint64_t len;
  /**
   * The memory itself, until bwv_dereg_mr or bwv_close. The device writes it while you look: what a completion has not told
   * of may change, as with any RDMA memory.
   */
  void *memory;
} bwv_mr;

/**
 * Number of a completion queue.
 */
typedef uint32_t bwv_cq;

/**
 * Number of a shared receive queue.
 */
typedef uint32_t bwv_srq;

/**
 * What a queue pair is made with. It is a reliable connection.
 */
typedef struct bwv_qp_attr {
  /**
   * Its protection domain.
   */
  bwv_pd pd;
  /**
   * Where completions of send requests go.
   */
  bwv_cq send_cq;
  /**
   * Where completions of receive requests go.
   */
  bwv_cq recv_cq;
  /**
   * Receives from a shared queue; 0: from its own.
   */
  bwv_srq srq;
  /**
   * Most send requests at once.
   */
  uint16_t send_max;
  /**
   * Most receive requests at once.
   */
  uint16_t recv_max;
  /**
   * What the peer may do: BWV_ACCESS_...
   */
  uint32_t access;
} bwv_qp_attr;

/**
 * A queue pair, looked at.
 */
typedef struct bwv_qp_view {
  /**
   * BWV_QP_...
   */
  uint32_t state;
  /**
   * Its number in packets and completions.
   */
  uint32_t qpn;
  /**
   * The peer's, once known.
   */
  uint32_t remote_qpn;
  /**
   * The sequence number expected next from the peer.
   */
  uint32_t rq_psn;
  /**
   * The sequence number to be sent next.
   */
  uint32_t sq_psn;
  /**
   * Send requests without a completion.
   */
  uint32_t sends;
  /**
   * Receive requests of its own that wait.
   */
  uint32_t recvs;
  /**
   * Zero.
   */
  uint32_t reserved;
} bwv_qp_view;

/**
 * Number of a listener.
 */
typedef uint32_t bwv_listener;

/**
 * Whom to connect with.
 */
typedef struct bwv_connect_to {
  /**
   * The peer's address.
   */
  struct bwv_addr remote;
  /**
   * Our address; family 0: the daemon chooses.
   */
  struct bwv_addr local;
  /**
   * The service there; of a TCP port it is bwv_service_id.
   */
  uint64_t service_id;
  /**
   * Bytes for the peer's application; may be null when there are none.
   */
  const void *private_data;
  /**
   * How many: up to 92, 56 when a port is asked for.
   */
  size_t private_len;
  /**
   * For a port: the port that we claim to come from.
   */
  uint16_t src_port;
  /**
   * Zero.
   */
  uint16_t reserved;
  /**
   * Path MTU in bytes; 0: the device's.
   */
  uint32_t mtu;
} bwv_connect_to;

/**
 * A piece of registered memory.
 */
typedef struct bwv_sge {
  /**
   * Its address in the region's own space: from the region's `addr` on.
   */
  uint64_t addr;
  /**
   * Its bytes.
   */
  uint32_t len;
  /**
   * The region's local key.
   */
  uint32_t lkey;
} bwv_sge;

/**
 * A send request.
 */
typedef struct bwv_send_wr {
  /**
   * Comes back in the completion.
   */
  uint64_t wr_id;
  /**
   * BWV_OP_...
   */
  uint32_t opcode;
  /**
   * BWV_SEND_...
   */
  uint32_t flags;
  /**
   * Pieces of memory; may be null when there are none.
   */
  const struct bwv_sge *sges;
  /**
   * How many.
   */
  size_t sge_count;
  /**
   * Inline data, with BWV_SEND_INLINE.
   */
  const void *inline_data;
  /**
   * Its bytes.
   */
  size_t inline_len;
  /**
   * The peer's memory.
   */
  uint64_t remote_addr;
  /**
   * The peer's key.
   */
  uint32_t rkey;
  /**
   * Immediate data.
   */
  uint32_t imm;
  /**
   * The first operand of an atomic.
   */
  uint64_t compare_add;
  /**
   * The second operand of a compare-and-swap.
   */
  uint64_t swap;
} bwv_send_wr;

/**
 * A completion.
 */
typedef struct bwv_wc {
  /**
   * The request's own number.
   */
  uint64_t wr_id;
  /**
   * BWV_WC_SUCCESS, or why not.
   */
  uint32_t status;
  /**
   * What it was: BWV_WC_SEND and those after it. Of a refused request only whether it was a send or a receive request.
   */
  uint32_t opcode;
  /**
   * Number of its queue pair in packets.
   */
  uint32_t qpn;
  /**
   * Bytes received, written by the peer, or read.
   */
  uint32_t len;
  /**
   * BWV_WC_WITH_...
   */
  uint32_t flags;
  /**
   * Immediate data.
   */
  uint32_t imm;
  /**
   * The key that was taken back.
   */
  uint32_t invalidated;
  /**
   * With BWV_WC_REFUSED: a BWV_ERR_... code.
   */
  int refusal;
} bwv_wc;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, such as "0.1.0".
 */
const char *bwv_version(void);

/**
 * The BWV_ABI_VERSION that the library was built with.
 */
uint32_t bwv_abi_version(void);

/**
 * What a code means. Never null; the text is static.
 */
const char *bwv_strerror(int code);

/**
 * More about this thread's last failure. Never null; valid until the thread's next failure.
 */
const char *bwv_last_error(void);

/**
 * Opens a device at the daemon.
 *
 * @param name     What to call the application in statistics; null: "application".
 * @param socket   The daemon's control socket; null: $BAREWIRE_SOCKET, or else the default.
 * @param context  Receives the context.
 * @return BWV_OK, BWV_ERR_NO_DAEMON, BWV_ERR_NOT_ADMITTED, BWV_ERR_NO_RDMA, BWV_ERR_PROTOCOL, BWV_ERR_TOO_MANY.
 */
int bwv_open(const char *name,
             const char *socket,
             struct bwv_context **context);

/**
 * Ends a context with all its objects: connections are closed, and their peers told. Its memory is gone. Null does nothing.
 *
 * @return BWV_OK, BWV_ERR_HANDLE, BWV_ERR_BUSY_CONTEXT.
 */
int bwv_close(struct bwv_context *context);

/**
 * What the daemon lets this application have.
 */
int bwv_query_device(struct bwv_context *context, struct bwv_limits *limits);

/**
 * The daemon's addresses.
 *
 * @param addrs  Receives the first `max` of them; may be null when `max` is 0.
 * @return How many there are.
 */
int bwv_addresses(struct bwv_context *context, struct bwv_addr *addrs, size_t max);

/**
 * Reads an address: "10.0.0.2", "fd00::2".
 *
 * @return BWV_OK, BWV_ERR_INVALID.
 */
int bwv_addr_parse(const char *addr_text, struct bwv_addr *addr);

/**
 * The service id of a TCP port, as the RDMA connection manager of other systems knows it.
 */
uint64_t bwv_service_id(uint16_t tcp_port);

/**
 * The next thing that happened; never waits.
 *
 * @return 1 with `event` filled in, 0 when there is none.
 */
int bwv_next_event(struct bwv_context *context, struct bwv_event *event);

/**
 * The next thing that happened; waits for it for up to `timeout_ms` (negative: for ever).
 *
 * @return 1 with `event` filled in, 0 when the time was over, BWV_ERR_DAEMON_GONE.
 */
int bwv_wait_event(struct bwv_context *context, int32_t timeout_ms, struct bwv_event *event);

/**
 * A descriptor for an epoll or poll of your own: readable when there may be a completion or an event. Between bwv_arm and
 * bwv_disarm only; neither read it nor close it. It lives as long as the context.
 */
int bwv_event_fd(struct bwv_context *context);

/**
 * Call it before a sleep on bwv_event_fd.
 *
 * @return 1: sleep. 0: do not; there is something already, or the daemon is gone.
 */
int bwv_arm(struct bwv_context *context);

/**
 * Call it after the sleep, then poll.
 */
int bwv_disarm(struct bwv_context *context);

/**
 * Makes a protection domain: memory and queue pairs of different ones know nothing of each other.
 *
 * @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_DAEMON_GONE.
 */
int bwv_alloc_pd(struct bwv_context *context, bwv_pd *pd);

/**
 * Ends a domain.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_IN_USE while something is in it.
 */
int bwv_dealloc_pd(struct bwv_context *context, bwv_pd pd);

/**
 * Registers `len` bytes of the channel's memory, zero at first.
 *
 * @param access_flags  BWV_ACCESS_...
 * @return BWV_OK, BWV_ERR_NO_MEMORY, BWV_ERR_QUOTA, BWV_ERR_UNKNOWN, BWV_ERR_INVALID.
 */
int bwv_reg_mr(struct bwv_context *context, bwv_pd pd, size_t len, uint32_t access_flags, struct bwv_mr *mr);

/**
 * Takes a region's keys back. Requests that still use them fail; its memory is not to be touched any more.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN.
 */
int bwv_dereg_mr(struct bwv_context *context, bwv_mr_id mr);

/**
 * Writes bytes into registered memory, from `offset` within it.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_INVALID when they do not fit: then nothing is written.
 */
int bwv_mr_write(struct bwv_context *context, bwv_mr_id mr, size_t offset, const void *data, size_t len);

/**
 * Copies bytes out of registered memory, from `offset` within it.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_INVALID when they are not all there.
 */
int bwv_mr_read(struct bwv_context *context, bwv_mr_id mr, size_t offset, void *out, size_t len);

/**
 * Makes a completion queue with room for `entries`.
 *
 * @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_INVALID.
 */
int bwv_create_cq(struct bwv_context *context, uint32_t entries, bwv_cq *cq);

/**
 * Ends a completion queue with what is in it.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_IN_USE while queue pairs use it.
 */
int bwv_destroy_cq(struct bwv_context *context, bwv_cq cq);

/**
 * Makes a shared receive queue with room for `limit` requests.
 *
 * @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_UNKNOWN.
 */
int bwv_create_srq(struct bwv_context *context, bwv_pd pd, uint32_t limit, bwv_srq *srq);

/**
 * Asks for one BWV_EVENT_SRQ_LOW when fewer than `low` requests are left.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN.
 */
int bwv_arm_srq(struct bwv_context *context, bwv_srq srq, uint32_t low);

/**
 * Ends a shared receive queue with what waits in it.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_IN_USE while queue pairs use it.
 */
int bwv_destroy_srq(struct bwv_context *context, bwv_srq srq);

/**
 * Makes a queue pair for a reliable connection. Receive requests may be posted at once.
 *
 * @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_UNKNOWN, BWV_ERR_INVALID.
 */
int bwv_create_qp(struct bwv_context *context, const struct bwv_qp_attr *attr, bwv_qp *qp);

/**
 * Ends a queue pair. Nothing posted completes. A connection that it belongs to is closed without an event.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN.
 */
int bwv_destroy_qp(struct bwv_context *context, bwv_qp qp);

/**
 * Brings a queue pair into another state: BWV_QP_RESET, INIT, SQD, RESUME or ERR. The others are a connection's.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_STATE, BWV_ERR_IN_USE, BWV_ERR_INVALID.
 */
int bwv_modify_qp(struct bwv_context *context,
                  bwv_qp qp,
                  uint32_t to);

/**
 * What a queue pair is and does.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN.
 */
int bwv_query_qp(struct bwv_context *context, bwv_qp qp, struct bwv_qp_view *view);

/**
 * Listens on a service id. At most `backlog` wishes wait at a time; BWV_EVENT_CONNECT_REQUEST tells of each.
 *
 * @return BWV_OK, BWV_ERR_LISTENING, BWV_ERR_QUOTA.
 */
int bwv_listen(struct bwv_context *context, uint64_t service_id, uint32_t backlog, bwv_listener *listener);

/**
 * Stops listening. Wishes that are here may still be decided.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN.
 */
int bwv_unlisten(struct bwv_context *context, bwv_listener listener);

/**
 * Waits for a peer that wants a connection, for up to `timeout_ms` (negative: for ever); other events are kept.
 *
 * @param event  Receives a BWV_EVENT_CONNECT_REQUEST.
 * @return 1, 0 when the time was over, BWV_ERR_DAEMON_GONE.
 */
int bwv_get_request(struct bwv_context *context,
                    bwv_listener listener,
                    int32_t timeout_ms,
                    struct bwv_event *event);

/**
 * Accepts a wish with a new queue pair, which can receive at once. BWV_EVENT_ESTABLISHED or BWV_EVENT_CONNECT_FAILED follows.
 *
 * @param private_data  Up to 196 bytes for the peer's application; may be null when `private_len` is 0.
 * @return BWV_OK, BWV_ERR_UNKNOWN when the peer has taken it back, BWV_ERR_QUEUE_PAIR, BWV_ERR_PRIVATE_DATA.
 */
int bwv_accept(struct bwv_context *context,
               bwv_conn conn,
               bwv_qp qp,
               const void *private_data,
               size_t private_len);

/**
 * Refuses a wish.
 *
 * @param reason        As in the message: 28 means that the application refused.
 * @param private_data  Up to 148 bytes for the peer's application; may be null when `private_len` is 0.
 * @return BWV_OK, BWV_ERR_UNKNOWN when the peer has taken it back, BWV_ERR_PRIVATE_DATA.
 */
int bwv_reject(struct bwv_context *context,
               bwv_conn conn,
               uint16_t reason,
               const void *private_data,
               size_t private_len);

/**
 * Waits until a connection that was accepted with this queue pair is ready, for up to `timeout_ms` (negative: for ever).
 *
 * @return 1, 0 when the time was over, BWV_ERR_REJECTED, BWV_ERR_NO_ANSWER, BWV_ERR_DISCONNECTED, BWV_ERR_DAEMON_GONE.
 */
int bwv_wait_established(struct bwv_context *context,
                         bwv_qp qp,
                         int32_t timeout_ms);

/**
 * Asks for a connection with a new queue pair. BWV_EVENT_CONNECTED or BWV_EVENT_CONNECT_FAILED follows.
 *
 * @param resolve_ms  How long the peer's address may take to resolve.
 * @param conn        Receives the connection.
 * @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_QUEUE_PAIR, BWV_ERR_PRIVATE_DATA, BWV_ERR_INVALID.
 */
int bwv_start_connect(struct bwv_context *context,
                      bwv_qp qp,
                      const struct bwv_connect_to *to,
                      int32_t resolve_ms,
                      bwv_conn *conn);

/**
 * Connects, and waits for it for up to `timeout_ms` (negative: for ever); events that arrive in the meantime are kept. After
 * BWV_ERR_TIMED_OUT the queue pair is still asking: destroy it.
 *
 * @param event  Receives a BWV_EVENT_CONNECTED, with what the peer's application said.
 * @return BWV_OK, BWV_ERR_UNREACHABLE, BWV_ERR_REJECTED, BWV_ERR_NO_ANSWER, BWV_ERR_TIMED_OUT, BWV_ERR_DAEMON_GONE; as
 *         bwv_start_connect.
 */
int bwv_connect(struct bwv_context *context,
                bwv_qp qp,
                const struct bwv_connect_to *to,
                int32_t timeout_ms,
                struct bwv_event *event);

/**
 * Begins to close a connection. Its queue pair is dead now; BWV_EVENT_DISCONNECTED follows.
 *
 * @return BWV_OK, BWV_ERR_UNKNOWN when it has ended already, BWV_ERR_STATE before it is ready.
 */
int bwv_start_disconnect(struct bwv_context *context, bwv_conn conn);

/**
 * Closes a connection and waits until the peer agrees. It is not an error when the peer has closed it already.
 *
 * @return BWV_OK, BWV_ERR_STATE before it is ready, BWV_ERR_TIMED_OUT, BWV_ERR_DAEMON_GONE.
 */
int bwv_disconnect(struct bwv_context *context,
                   bwv_conn conn,
                   int32_t timeout_ms);

/**
 * Posts a send request; never waits. What the daemon finds wrong with it is its completion.
 *
 * @return BWV_OK, BWV_ERR_AGAIN (poll, and try again), BWV_ERR_INVALID, BWV_ERR_DAEMON_GONE.
 */
int bwv_post_send(struct bwv_context *context, bwv_qp qp, const struct bwv_send_wr *wr);

/**
 * Posts a receive request; never waits. What the daemon finds wrong with it is its completion.
 *
 * @return As bwv_post_send.
 */
int bwv_post_recv(struct bwv_context *context,
                  bwv_qp qp,
                  uint64_t wr_id,
                  const struct bwv_sge *sges,
                  size_t sge_count);

/**
 * Posts a receive request to a shared queue; never waits. What the daemon finds wrong with it is BWV_EVENT_SRQ_POST_REFUSED.
 *
 * @return As bwv_post_send.
 */
int bwv_post_srq_recv(struct bwv_context *context,
                      bwv_srq srq,
                      uint64_t wr_id,
                      const struct bwv_sge *sges,
                      size_t sge_count);

/**
 * Takes up to `max` completions; never waits.
 *
 * @return How many; BWV_ERR_UNKNOWN; BWV_ERR_DAEMON_GONE after the last one of a daemon that is gone.
 */
int bwv_poll_cq(struct bwv_context *context, bwv_cq cq, size_t max, struct bwv_wc *wcs);

/**
 * The next completion of a queue; waits for it for up to `timeout_ms` (negative: for ever).
 *
 * @return 1 with `wc` filled in, 0 when the time was over, BWV_ERR_UNKNOWN, BWV_ERR_DAEMON_GONE.
 */
int bwv_wait_cq(struct bwv_context *context, bwv_cq cq, int32_t timeout_ms, struct bwv_wc *wc);

/**
 * Waits until one of all completion queues has something, for up to `timeout_ms` (negative: for ever).
 *
 * @param cq  Receives which; poll it.
 * @return 1, 0 when the time was over, BWV_ERR_DAEMON_GONE.
 */
int bwv_get_cq_event(struct bwv_context *context, int32_t timeout_ms, bwv_cq *cq);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BWVERBS_H */
