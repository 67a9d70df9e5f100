/*
 * barewire.h: the message service for C. Generated from the library's source; do not edit.
 *
 * A client is a channel to the daemon. It sends messages on flows and reports what happens by events:
 *
 *     bw_client *client;
 *     bw_addr addr;
 *     bw_flow flow;
 *     bw_event event;
 *     if (bw_client_attach("hello", NULL, &client) != BW_OK) die(bw_last_error());
 *     bw_addr_parse("10.0.0.2", 888, &addr);
 *     bw_connect_wait(client, &addr, NULL, 1000, &flow);
 *     bw_send(client, flow, "hello", 5);
 *     while (bw_wait_event(client, 1000, &event) == 1) { ... }
 *
 * Results: functions that return int give 0 or a positive number when they worked, and a negative BW_ERR_... code when not.
 * Codes, kinds and reasons never change their meaning.
 *
 * Threads: several threads may call on one client at the same time. A thread in bw_wait_event does not block others while it
 * sleeps; bw_connect_wait, bw_listen_wait and bw_close_wait do, and then others get BW_ERR_BUSY. Threads that send a lot attach
 * one client each. bw_last_error is per thread. A child made by fork() uses none of its parent's clients, which
 * are gone there (BW_ERR_DAEMON_GONE): it attaches its own.
 *
 * Full: a send that gets BW_ERR_AGAIN must be retried after BW_EVENT_WRITABLE of its flow, which comes when there is room, and when
 * the flow was closed or has ended. bw_wait_event brings that, too.
 *
 * Requests: bw_requests turns them on. bw_request asks with a deadline, bw_respond and bw_fail answer.
 *
 * Without a daemon: bw_embedded_open runs the engine in the calling thread, and messages are read in place. bw_embedded_open_file takes what
 * a daemon's configuration says: encryption, gateways, limits.
 *
 * Pointers: null, freed and invalid clients are reported by a code. Other pointers that are not null have to be valid for the
 * call; the library keeps none of them. A bw_buf or bw_message goes back to the client that it came from, once.
 */


#ifndef BAREWIRE_H
#define BAREWIRE_H

#include <stddef.h>
#include <stdint.h>

/**
 * Success.
 */
#define BW_OK 0

/**
 * An argument is null or out of range.
 */
#define BW_ERR_INVALID -1

/**
 * Not a client, or already freed.
 */
#define BW_ERR_HANDLE -2

/**
 * Another thread is inside a long call on this client: bw_connect_wait, bw_listen_wait, bw_close_wait; or a thread
 * waits in bw_wait_event, and this call cannot run at the same time.
 */
#define BW_ERR_BUSY -3

/**
 * Memory or ring is full for now, or the flow has its share of them: take events, and try again after BW_EVENT_WRITABLE.
 */
#define BW_ERR_AGAIN -4

/**
 * The message is above 64 MiB, or larger than the channel's memory.
 */
#define BW_ERR_TOO_LARGE -5

/**
 * No such flow, or it has ended.
 */
#define BW_ERR_NO_FLOW -6

/**
 * The flow is closing.
 */
#define BW_ERR_CLOSING -7

/**
 * The daemon is gone, or the client is that of a parent process: free the client, and attach again when the daemon is back.
 */
#define BW_ERR_DAEMON_GONE -8

/**
 * Timed out.
 */
#define BW_ERR_TIMED_OUT -9

/**
 * Interrupted by a signal, whose handler has run.
 */
#define BW_ERR_INTERRUPTED -10

/**
 * The daemon cannot be reached, or does not answer.
 */
#define BW_ERR_NO_DAEMON -11

/**
 * The daemon refused: not permitted, or full.
 */
#define BW_ERR_NOT_ADMITTED -12

/**
 * Library and daemon are of different releases.
 */
#define BW_ERR_PROTOCOL -13

/**
 * The UDP port is taken by another listener, or the user listens on as many as the daemon allows one.
 */
#define BW_ERR_PORT_TAKEN -14

/**
 * Nobody listens on that UDP port there.
 */
#define BW_ERR_REFUSED -15

/**
 * The other side, or this one, has no room for another flow.
 */
#define BW_ERR_TABLE_FULL -16

/**
 * The peer did not answer.
 */
#define BW_ERR_NO_ANSWER -17

/**
 * The next hop does not answer, or there is no route.
 */
#define BW_ERR_UNREACHABLE -18

/**
 * This side gave up the connection attempt.
 */
#define BW_ERR_CANCELLED -19

/**
 * The process has 1024 clients already, or the client as many unanswered requests as bw_requests was told.
 */
#define BW_ERR_TOO_MANY -20

/**
 * A system call failed.
 */
#define BW_ERR_SYSTEM -21

/**
 * A bug in the library: the call was cut short. Free the client.
 */
#define BW_ERR_PANIC -22

/**
 * Flows ended before all messages had arrived.
 */
#define BW_ERR_LOST -23

/**
 * The keys or the rules of the two hosts do not let the flow open: bw_last_error says which.
 */
#define BW_ERR_SECURITY -24

/**
 * Size of a buffer that holds any peer's name with its final zero.
 */
#define BW_PEER_NAME_LEN 17

/**
 * Bytes of a public key.
 */
#define BW_KEY_LEN 32

/**
 * A requested flow is open: `flow`, `token`, `local`, `remote`.
 */
#define BW_EVENT_CONNECTED 1

/**
 * A requested flow did not open: `token`, `reason` (BW_CONNECT_...).
 */
#define BW_EVENT_CONNECT_FAILED 2

/**
 * A peer connected to a listener: `flow`, `token` of the listener, `local`, `remote`.
 */
#define BW_EVENT_ACCEPTED 3

/**
 * A message has arrived: `flow`, `message`. Read it, then release it.
 */
#define BW_EVENT_MESSAGE 4

/**
 * The peer's transport has all of a message that was committed with a token: `flow`, `token`.
 */
#define BW_EVENT_DELIVERED 5

/**
 * The flow ended before a message that was committed with a token had arrived: `flow`, `token`.
 */
#define BW_EVENT_UNDELIVERED 6

/**
 * A listener is ready: `token`, `local.port`.
 */
#define BW_EVENT_LISTENING 7

/**
 * A listener failed, because the port is taken or the user listens on as many as the daemon allows one: `token`,
 * `local.port`.
 */
#define BW_EVENT_LISTEN_FAILED 8

/**
 * A flow has ended: `flow`, `reason` (BW_CLOSED_...).
 */
#define BW_EVENT_CLOSED 9

/**
 * There is room for what was refused with BW_ERR_AGAIN, or its flow was closed or has ended, as the next try says: `flow`, or 0 when
 * what was refused named none (bw_reserve, bw_listen, bw_connect). Once after a refusal, or several in a row, of a flow.
 */
#define BW_EVENT_WRITABLE 10

/**
 * bw_wake was called.
 */
#define BW_EVENT_WOKEN 11

/**
 * A request, after bw_requests: `flow`, `token` (its number, for bw_respond and bw_fail), `reason` (microseconds until its
 * deadline when it was sent, 0: none, or later than 71 minutes), `message`, whose body begins at BW_REQUEST_HEAD. Release it.
 */
#define BW_EVENT_REQUEST 12

/**
 * The response to a request: `flow`, `token` (what bw_request gave), `message`, whose body begins at BW_REQUEST_HEAD. Release it.
 */
#define BW_EVENT_RESPONSE 13

/**
 * The server failed or refused: `flow`, `token`, `reason` (the server's code), `message`, whose text begins at BW_REQUEST_HEAD
 * and has no zero byte at its end. Release it.
 */
#define BW_EVENT_FAILURE 14

/**
 * A request ended without an answer: `token`, `reason` (BW_UNANSWERED_...).
 */
#define BW_EVENT_UNANSWERED 15

/**
 * The caller no longer waits for this request: `flow`, `token` (its number).
 */
#define BW_EVENT_REQUEST_CANCELLED 16

/**
 * The daemon is gone, and this client, of bw_client_attach_steady, looks for another: `token` (messages of which nobody knows whether
 * they arrived), `reason` (flows that there were). BW_EVENT_UNCONFIRMED follows for each of those messages, then
 * BW_EVENT_CONNECT_FAILED and BW_EVENT_CLOSED for attempts and flows.
 */
#define BW_EVENT_DETACHED 17

/**
 * The daemon went before it had said what became of a message: `flow`, `token` (what it was committed with, or 0), `reason` (its length in
 * bytes). bw_unconfirmed has the message until the next event. In the order in which messages were sent.
 */
#define BW_EVENT_UNCONFIRMED 18

/**
 * A daemon is available again. BW_EVENT_LISTENING or BW_EVENT_LISTEN_FAILED follows for each port that was listened on. The descriptor of
 * bw_event_fd is another; earlier messages and buffers are no longer valid (BW_ERR_INVALID).
 */
#define BW_EVENT_REATTACHED 19

/**
 * The deadline passed. The server was told to stop.
 */
#define BW_UNANSWERED_DEADLINE 1

/**
 * The flow ended. Whether the server acted on the request is not known.
 */
#define BW_UNANSWERED_FLOW_ENDED 2

/**
 * This side closed it, and everything sent was acknowledged.
 */
#define BW_CLOSED_LOCAL 0

/**
 * The peer closed it, after all it had sent.
 */
#define BW_CLOSED_PEER 1

/**
 * The peer's application reset it or died.
 */
#define BW_CLOSED_RESET 2

/**
 * The peer's host or daemon restarted.
 */
#define BW_CLOSED_PEER_RESTARTED 3

/**
 * The peer does not answer.
 */
#define BW_CLOSED_TIMED_OUT 4

/**
 * Nothing was sent either way for too long.
 */
#define BW_CLOSED_IDLE 5

/**
 * This side reset it.
 */
#define BW_CLOSED_LOCAL_RESET 6

/**
 * A message was longer than its receiver's memory.
 */
#define BW_CLOSED_MESSAGE_TOO_LARGE 7

/**
 * The peer broke the protocol.
 */
#define BW_CLOSED_PEER_FAULT 8

/**
 * The peer left a message unfinished while others waited for its memory.
 */
#define BW_CLOSED_STALLED 9

/**
 * The peer does not trust this host's key.
 */
#define BW_CLOSED_NOT_TRUSTED 10

/**
 * More packets failed their authentication than the flow's keys bear.
 */
#define BW_CLOSED_FORGED 11

/**
 * Nobody listens on that UDP port there.
 */
#define BW_CONNECT_REFUSED 1

/**
 * One of the two sides has no room for another flow.
 */
#define BW_CONNECT_TABLE_FULL 2

/**
 * No answer in time.
 */
#define BW_CONNECT_TIMED_OUT 3

/**
 * The next hop does not answer, or there is no route.
 */
#define BW_CONNECT_UNREACHABLE 4

/**
 * Given up by this side.
 */
#define BW_CONNECT_CANCELLED 5

/**
 * The other side takes encrypted flows only.
 */
#define BW_CONNECT_SECURITY_REQUIRED 6

/**
 * The other side does not trust this host's key.
 */
#define BW_CONNECT_NOT_TRUSTED 7

/**
 * The other side has another key than the one that this host trusts for it.
 */
#define BW_CONNECT_WRONG_KEY 8

/**
 * The other side does not encrypt, and this host wants that.
 */
#define BW_CONNECT_INSECURE 9

/**
 * This host does not trust the other side's key.
 */
#define BW_CONNECT_PEER_NOT_TRUSTED 10

/**
 * This user may not connect there.
 */
#define BW_CONNECT_NOT_PERMITTED 11

/**
 * Version of this ABI: grows when something is added, and the library's name changes when something is taken away.
 */
#define BW_ABI_VERSION 4

/**
 * Size of a buffer that holds any text of `bw_addr_format` with its final zero.
 */
#define BW_ADDR_TEXT_MAX 64

/**
 * Longest message in bytes.
 */
#define BW_MESSAGE_MAX (64 << 20)

/**
 * Most pieces of one message.
 */
#define BW_IOV_MAX 1024

/**
 * Where the body begins in the message of a request, a response or a failure, in bytes.
 */
#define BW_REQUEST_HEAD 16

/**
 * Most unanswered requests of a client.
 */
#define BW_REQUESTS_MAX 65536

/**
 * A channel to the daemon. The pointer is a handle, not an address: never dereference it.
 */
typedef struct bw_client bw_client;

/**
 * An endpoint in the program's own thread, without a daemon. The pointer is a handle, not an address: never dereference it.
 */
typedef struct bw_embedded bw_embedded;

/**
 * An address and a UDP port.
 */
typedef struct bw_addr {
  /**
   * 4 or 6; 0: none.
   */
  uint8_t family;
  /**
   * Zero.
   */
  uint8_t reserved;
  /**
   * UDP port, in the byte order of the host.
   */
  uint16_t port;
  /**
   * Interface of a link-local IPv6 address, or 0.
   */
  uint32_t scope;
  /**
   * The address as on the wire: 4 bytes of IPv4 and 12 of zero, or 16 of IPv6.
   */
  uint8_t ip[16];
} bw_addr;

/**
 * Number of a flow. Unique within a daemon's life; never used for another flow.
 */
typedef uint64_t bw_flow;

/**
 * The authenticated peer of an encrypted flow.
 */
typedef struct bw_identity {
  /**
   * What the configuration calls it, ended by a zero byte; "self": this host.
   */
  char name[BW_PEER_NAME_LEN];
  /**
   * Its public key.
   */
  uint8_t key[BW_KEY_LEN];
} bw_identity;

/**
 * How to connect. All zero is the default.
 */
typedef struct bw_connect_options {
  /**
   * Our address and UDP port. Family 0: the address on the way to the peer. Port 0: an unused one.
   */
  struct bw_addr local;
  /**
   * Not 0: messages may arrive in another order than sent, and one lost packet holds up one message only.
   */
  uint8_t unordered;
  /**
   * Zero.
   */
  uint8_t reserved[7];
} bw_connect_options;

/**
 * A received message: a claim to a part of the shared memory. Only for the client that received it.
 */
typedef struct bw_message {
  /**
   * The flow it came on.
   */
  bw_flow flow;
  /**
   * Where it is; for the library.
   */
  uint32_t offset;
  /**
   * Its length in bytes; not to be changed.
   */
  uint32_t len;
} bw_message;

/**
 * Something that happened. What its kind does not name is zero.
 */
typedef struct bw_event {
  /**
   * BW_EVENT_...; later releases may add kinds, so pass over those you do not know.
   */
  uint32_t kind;
  /**
   * BW_CLOSED_..., BW_CONNECT_... or BW_UNANSWERED_..., by kind.
   */
  uint32_t reason;
  /**
   * The flow.
   */
  bw_flow flow;
  /**
   * What the request was given.
   */
  uint64_t token;
  /**
   * A received message.
   */
  struct bw_message message;
  /**
   * Our end.
   */
  struct bw_addr local;
  /**
   * The other end.
   */
  struct bw_addr remote;
} bw_event;

/**
 * A piece of a message, laid out like `struct iovec` of POSIX.
 */
typedef struct bw_iovec {
  /**
   * Its bytes; may be null when there are none.
   */
  const void *base;
  /**
   * How many, in bytes.
   */
  size_t len;
} bw_iovec;

/**
 * Room for a message in the shared memory: a name for it, good for the client that reserved it and until it is used up.
 */
typedef struct bw_buf {
  /**
   * Where it is; for the library.
   */
  uint32_t offset;
  /**
   * Its length in bytes; not to be changed.
   */
  uint32_t len;
} bw_buf;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, such as "0.1.0".
 */
const char *bw_version(void);

/**
 * The BW_ABI_VERSION that the library was built with.
 */
uint32_t bw_abi_version(void);

/**
 * What a code means. Never null; the text is static.
 */
const char *bw_strerror(int code);

/**
 * More about this thread's last failure, with a hint where there is one. Never null; valid until the thread's next failure.
 */
const char *bw_last_error(void);

/**
 * Attaches to a daemon, or to an engine of its own.
 *
 * @param name    What to call the application in statistics; null: "application".
 * @param socket  The daemon's control socket; null: $BAREWIRE_SOCKET, or else the first place where a daemon answers: this
 *                user's, then the system's (/run/barewire/barewire.sock, or the only socket in /run/barewire). Without any
 *                daemon: "embedded:ADDRESS/PREFIX@PORT", such as "embedded:10.0.0.1/24@xdp:eth0", starts an engine in threads
 *                of this process, for this client alone, and ends it with the client. Several addresses with commas. With
 *                "embedded:FILE.toml" the engine is as that barewire.toml says: gateways, VLAN, encryption.
 * @param client  Receives the client.
 * @return BW_OK, BW_ERR_NO_DAEMON, BW_ERR_NOT_ADMITTED, BW_ERR_PROTOCOL, BW_ERR_TOO_MANY; embedded also BW_ERR_INVALID for
 *         another form or what is wrong in the file, BW_ERR_SYSTEM for a port that does not open.
 */
int bw_client_attach(const char *name,
                     const char *socket,
                     struct bw_client **client);

/**
 * As bw_client_attach, for a client that outlives its daemon. When that is gone, no call but those that send, listen or connect gives
 * BW_ERR_DAEMON_GONE: events say what became of flows and messages (BW_EVENT_DETACHED), bw_next_event and bw_wait_event look for a daemon
 * every 50 ms, and BW_EVENT_REATTACHED says that there is one. Neither waits for one that does not answer: a thread of the library's asks.
 * A daemon must be there at first.
 *
 * @return As bw_client_attach.
 */
int bw_client_attach_steady(const char *name,
                            const char *socket,
                            struct bw_client **client);

/**
 * Ends a client: its flows are reset, its listeners and messages are gone. To deliver everything sent first, call bw_close_wait
 * before. Null does nothing.
 *
 * @return BW_OK, BW_ERR_HANDLE, BW_ERR_BUSY (also while a thread waits in bw_wait_event: bw_wake ends that).
 */
int bw_client_free(struct bw_client *client);

/**
 * The daemon's addresses. Their ports are 0.
 *
 * @param addrs  Receives the first `max` of them; may be null when `max` is 0.
 * @return How many there are.
 */
int bw_addresses(struct bw_client *client, struct bw_addr *addrs, size_t max);

/**
 * The authenticated peer of a flow.
 *
 * @param peer  Receives its name and key.
 * @return 1; 0 when the flow is not encrypted, not open yet, or gone.
 */
int bw_peer(struct bw_client *client, bw_flow flow, struct bw_identity *peer);

/**
 * Largest IP packet on the daemon's port, in bytes.
 */
int bw_mtu(struct bw_client *client);

/**
 * Reads an address: "10.0.0.2", "10.0.0.2:888", "fd00::2", "[fd00::2]:888". `udp_port` is for a text without one.
 *
 * @return BW_OK, BW_ERR_INVALID.
 */
int bw_addr_parse(const char *addr_text,
                  uint16_t udp_port,
                  struct bw_addr *addr);

/**
 * Writes an address with its port, and a zero byte. BW_ADDR_TEXT_MAX bytes hold any.
 *
 * @return The text's length, or BW_ERR_INVALID when it does not fit.
 */
int bw_addr_format(const struct bw_addr *addr, char *out, size_t len);

/**
 * Listens on a UDP port. BW_EVENT_LISTENING or BW_EVENT_LISTEN_FAILED follows, and BW_EVENT_ACCEPTED for each
 * connection; all with `token`.
 *
 * @return BW_OK, BW_ERR_INVALID for port 0, BW_ERR_AGAIN, BW_ERR_DAEMON_GONE.
 */
int bw_listen(struct bw_client *client, uint16_t udp_port, uint64_t token);

/**
 * As bw_listen, and waits for the answer. Negative time-outs wait for ever.
 *
 * @return BW_OK, BW_ERR_PORT_TAKEN, BW_ERR_TIMED_OUT, BW_ERR_DAEMON_GONE.
 */
int bw_listen_wait(struct bw_client *client, uint16_t udp_port, uint64_t token, int32_t timeout_ms);

/**
 * Stops listening on a UDP port; flows that it accepted stay. A client of bw_client_attach_steady without a daemon does not ask
 * the next one for the port.
 *
 * @return BW_OK, BW_ERR_DAEMON_GONE.
 */
int bw_unlisten(struct bw_client *client,
                uint16_t udp_port);

/**
 * Starts to connect. BW_EVENT_CONNECTED or BW_EVENT_CONNECT_FAILED follows, with `token` (below 2^63).
 *
 * @param options  How; null: the default.
 * @return BW_OK, BW_ERR_INVALID, BW_ERR_AGAIN, BW_ERR_DAEMON_GONE.
 */
int bw_connect(struct bw_client *client,
               const struct bw_addr *remote,
               const struct bw_connect_options *options,
               uint64_t token);

/**
 * Connects, and waits for it; events that arrive in the meantime are kept. An attempt that timed out is given up: a flow that opens
 * later is closed unseen. Negative time-outs wait until the daemon itself gives up.
 *
 * @param options  How; null: the default.
 * @param flow     Receives the flow.
 * @return BW_OK, BW_ERR_REFUSED, BW_ERR_NO_ANSWER, BW_ERR_UNREACHABLE, BW_ERR_TABLE_FULL, BW_ERR_SECURITY,
 *         BW_ERR_TIMED_OUT, BW_ERR_AGAIN, BW_ERR_DAEMON_GONE, BW_ERR_INVALID.
 */
int bw_connect_wait(struct bw_client *client,
                    const struct bw_addr *remote,
                    const struct bw_connect_options *options,
                    int32_t timeout_ms,
                    bw_flow *flow);

/**
 * Gives up the attempts of bw_connect with this token. BW_EVENT_CONNECT_FAILED follows for each, with BW_CONNECT_CANCELLED; a
 * flow that opens in the meantime is closed unseen.
 *
 * @return How many there were; those whose answer is an event already do not count. BW_ERR_HANDLE, BW_ERR_BUSY.
 */
int bw_cancel(struct bw_client *client,
              uint64_t token);

/**
 * Ends everything in good order, before bw_client_free: listens no more, closes every flow, and waits until the peers have
 * acknowledged all that was sent and have closed their halves. Events and messages that arrive in the meantime are discarded. Negative
 * time-outs wait for ever, which a peer that does not read can make of it.
 *
 * @return BW_OK, BW_ERR_TIMED_OUT, BW_ERR_LOST (flows ended before all messages had arrived), BW_ERR_DAEMON_GONE, BW_ERR_BUSY.
 */
int bw_close_wait(struct bw_client *client,
                  int32_t timeout_ms);

/**
 * Closes a flow after everything sent on it was acknowledged; BW_EVENT_CLOSED follows.
 *
 * @return BW_OK, BW_ERR_DAEMON_GONE. A flow that does not exist is ignored.
 */
int bw_close(struct bw_client *client, bw_flow flow);

/**
 * Ends a flow at once; BW_EVENT_CLOSED follows.
 *
 * @return BW_OK, BW_ERR_DAEMON_GONE. A flow that does not exist is ignored.
 */
int bw_reset(struct bw_client *client, bw_flow flow);

/**
 * The next thing that happened; never waits.
 *
 * @return 1 with `event` filled in, 0 when there is none, BW_ERR_DAEMON_GONE after the last one of a daemon that is gone.
 */
int bw_next_event(struct bw_client *client,
                  struct bw_event *event);

/**
 * The next thing that happened; waits for it for up to `timeout_ms` (negative: for ever). Lets the daemon see all that was
 * queued before.
 *
 * Other threads may call on the client at the same time: all but a second bw_wait_event, bw_arm, bw_disarm, bw_close_wait and
 * bw_client_free, which get BW_ERR_BUSY.
 *
 * @return 1 with `event` filled in, 0 when the time was over, BW_ERR_INTERRUPTED when a signal's handler ran (call again, or
 *         not), BW_ERR_DAEMON_GONE, BW_ERR_BUSY.
 */
int bw_wait_event(struct bw_client *client,
                  int32_t timeout_ms,
                  struct bw_event *event);

/**
 * Ends the wait of a thread that is in bw_wait_event, or the next such wait: it gets BW_EVENT_WOKEN. For another thread, not for
 * a signal's handler (which ends a wait by itself: BW_ERR_INTERRUPTED).
 *
 * @return BW_OK, BW_ERR_HANDLE, BW_ERR_BUSY.
 */
int bw_wake(struct bw_client *client);

/**
 * A descriptor for an epoll or poll of your own: readable when there may be an event. Between bw_arm and bw_disarm only;
 * neither read it nor close it. It lives as long as the client.
 */
int bw_event_fd(struct bw_client *client);

/**
 * Call it before a sleep on bw_event_fd. Lets the daemon see all that was queued.
 *
 * @return 1: sleep. 0: do not; there is an event already, or the daemon is gone, or the ring of requests is full, whose emptying makes
 * nothing readable: where bw_next_event then has none, sleep for a millisecond and call it again.
 */
int bw_arm(struct bw_client *client);

/**
 * Call it after the sleep, then take events with bw_next_event until there is none.
 */
int bw_disarm(struct bw_client *client);

/**
 * Sends a copy of a message. BW_OK says that it was queued; whether it arrives, the flow's end tells (or a token, see bw_commit).
 *
 * A flow whose peer does not read gets no more memory and messages under way than are free for all others: then its sends get
 * BW_ERR_AGAIN, and those of other flows go on.
 *
 * @return BW_OK, BW_ERR_AGAIN (take events, and try again after BW_EVENT_WRITABLE of the flow), BW_ERR_NO_FLOW, BW_ERR_CLOSING,
 *         BW_ERR_TOO_LARGE, BW_ERR_DAEMON_GONE.
 */
int bw_send(struct bw_client *client,
            bw_flow flow,
            const void *data,
            size_t len);

/**
 * Sends one message made of pieces, at most BW_IOV_MAX.
 *
 * @return As bw_send.
 */
int bw_sendv(struct bw_client *client, bw_flow flow, const struct bw_iovec *iov, size_t count);

/**
 * Room for a message of `len` bytes, to build it in place with bw_write and send it with bw_commit.
 *
 * @return BW_OK, BW_ERR_AGAIN (take events, and try again after BW_EVENT_WRITABLE of flow 0), BW_ERR_TOO_LARGE.
 */
int bw_reserve(struct bw_client *client,
               size_t len,
               struct bw_buf *buf);

/**
 * Writes bytes of a reserved message, from `at` within it.
 *
 * @return BW_OK; BW_ERR_INVALID, and nothing written, when they reach beyond its end or it was used up.
 */
int bw_write(struct bw_client *client, const struct bw_buf *buf, size_t at, const void *data, size_t len);

/**
 * Queues a reserved message; bw_flush (or a send, or a wait) lets the daemon see it. `buf` is used up, whatever is returned.
 *
 * @param token  Below 2^63. Not 0: BW_EVENT_DELIVERED or BW_EVENT_UNDELIVERED reports the message's fate.
 * @return As bw_send; BW_ERR_INVALID for a buffer that was used up, by whatever copy of it.
 */
int bw_commit(struct bw_client *client,
              bw_flow flow,
              struct bw_buf *buf,
              uint64_t token);

/**
 * Gives a reserved message back unsent. `buf` is used up.
 *
 * @return BW_OK, BW_ERR_INVALID.
 */
int bw_abandon(struct bw_client *client, struct bw_buf *buf);

/**
 * Lets the daemon see what was queued, and wakes it if it sleeps.
 */
int bw_flush(struct bw_client *client);

/**
 * Bytes of a received message; 0 for null.
 */
size_t bw_message_len(const struct bw_message *message);

/**
 * Copies a received message, or its first `len` bytes.
 *
 * @return How many bytes were copied, or a negative code.
 */
int bw_message_read(struct bw_client *client, const struct bw_message *message, void *out, size_t len);

/**
 * Copies bytes of a received message, from `at` within it.
 *
 * @return How many bytes were copied, or a negative code.
 */
int bw_message_read_at(struct bw_client *client,
                       const struct bw_message *message,
                       size_t at,
                       void *out,
                       size_t len);

/**
 * Copies the message that the last event, BW_EVENT_UNCONFIRMED, told of, or its first `len` bytes.
 *
 * @return The length of the message, or BW_ERR_INVALID when no such event came last.
 */
int bw_unconfirmed(struct bw_client *client, void *out, size_t len);

/**
 * Gives a received message back: its memory is free, its sender may send more. `message` is used up. The daemon sees it with
 * the next bw_flush, send or wait.
 *
 * @return BW_OK, BW_ERR_INVALID.
 */
int bw_message_release(struct bw_client *client,
                       struct bw_message *message);

/**
 * Turns requests on, for clients and servers alike: messages that are part of one come as BW_EVENT_REQUEST, _RESPONSE,
 * _FAILURE and _REQUEST_CANCELLED from now on. Other messages come as before.
 *
 * @param unanswered_max  How many requests of this client may wait for an answer at a time: 1 to BW_REQUESTS_MAX.
 * @return BW_OK; BW_ERR_INVALID, also when they are on already.
 */
int bw_requests(struct bw_client *client,
                uint32_t unanswered_max);

/**
 * Sends a request. One of BW_EVENT_RESPONSE, BW_EVENT_FAILURE and BW_EVENT_UNANSWERED follows, with its number as the token;
 * when the daemon is gone, BW_ERR_DAEMON_GONE says so of all.
 *
 * @param timeout_us  Microseconds for the answer, which the server learns. 0: for ever.
 * @param request     Receives its number, which this client gives to no other.
 * @return As bw_send; BW_ERR_TOO_MANY; BW_ERR_INVALID without bw_requests.
 */
int bw_request(struct bw_client *client,
               bw_flow flow,
               const void *data,
               size_t len,
               uint64_t timeout_us,
               uint64_t *request);

/**
 * Gives a request up, and tells the server. No event follows.
 *
 * @return 1; 0 when it was over already (its event has come, or is the next).
 */
int bw_request_cancel(struct bw_client *client, uint64_t request);

/**
 * Answers a request.
 *
 * @param flow     Of BW_EVENT_REQUEST.
 * @param request  Its token.
 * @return As bw_send.
 */
int bw_respond(struct bw_client *client, bw_flow flow, uint64_t request, const void *data, size_t len);

/**
 * Says that a request has no response.
 *
 * @param code  For the caller, with a meaning of your own.
 * @param why   For the caller; null: no text. Bytes beyond 1024 are cut off.
 * @return As bw_send.
 */
int bw_fail(struct bw_client *client, bw_flow flow, uint64_t request, uint16_t code, const char *why);

/**
 * How long a sleep on bw_event_fd may be at most: until the next deadline of a request, in milliseconds, rounded up. A wait in
 * bw_wait_event knows by itself. Between bw_arm and bw_disarm it also says whether a call of another thread has left an event, or has taken
 * away what would have made the descriptor readable: ask after such calls, and end the sleep.
 *
 * @return Milliseconds; 0: do not sleep; INT_MAX when no request has a deadline.
 */
int bw_sleep_max_ms(struct bw_client *client);

/**
 * Opens a port in this thread: the engine runs in bw_embedded_poll, and there is no daemon. All calls on the endpoint are this thread's;
 * others get BW_ERR_HANDLE, and so does a child made by fork(). Flows are not encrypted: bw_embedded_open_file can have that.
 *
 * @param port       The port's URI, such as "xdp:eth0".
 * @param addresses  Our addresses with the lengths of their networks: "10.0.0.1/24", several with commas.
 * @param gateway    The router to other networks, such as "10.0.0.254"; null: none.
 * @param endpoint   Receives the endpoint.
 * @return BW_OK, BW_ERR_INVALID, BW_ERR_SYSTEM (bw_last_error says what could not be opened).
 */
int bw_embedded_open(const char *port,
                     const char *addresses,
                     const char *gateway,
                     struct bw_embedded **endpoint);

/**
 * As bw_embedded_open, with what a file says: barewire.toml, as a daemon reads it. Of its tables [interface] (addresses, gateways, VLAN, MTU),
 * [transport], [channel] (memory) and [security] (own key, trusted peers) count; with [security] flows are encrypted. There is one port.
 *
 * @param path      The file.
 * @param endpoint  Receives the endpoint.
 * @return BW_OK, BW_ERR_INVALID (bw_last_error says the place in the file, and what is wrong there), BW_ERR_SYSTEM.
 */
int bw_embedded_open_file(const char *path,
                          struct bw_embedded **endpoint);

/**
 * Closes the port; flows end at once, without a word to their peers. Null does nothing.
 *
 * @return BW_OK, BW_ERR_HANDLE.
 */
int bw_embedded_free(struct bw_embedded *endpoint);

/**
 * One duty cycle: sends what is queued, takes in what has arrived, runs the timers. Call it all the time, or when bw_embedded_fd is
 * readable and at least every millisecond.
 *
 * @return How many frames moved, BW_ERR_SYSTEM while the port is down (go on calling: it may come back), BW_ERR_HANDLE.
 */
int bw_embedded_poll(struct bw_embedded *endpoint);

/**
 * A descriptor for an epoll or poll of your own, readable when frames have arrived. Neither read it nor close it. It is another after the
 * interface was created again.
 *
 * @return The descriptor, or BW_ERR_INVALID for a port that has none.
 */
int bw_embedded_fd(struct bw_embedded *endpoint);

/**
 * Takes connections on a UDP port: BW_EVENT_ACCEPTED for each, with `token`.
 *
 * @return BW_OK, BW_ERR_PORT_TAKEN, BW_ERR_INVALID for port 0.
 */
int bw_embedded_listen(struct bw_embedded *endpoint, uint16_t udp_port, uint64_t token);

/**
 * Starts to connect. BW_EVENT_CONNECTED or BW_EVENT_CONNECT_FAILED follows, with `token`. Messages may be sent at once.
 *
 * @param options  How; null: the default.
 * @param flow     Receives the flow; may be null.
 * @return BW_OK, BW_ERR_INVALID, BW_ERR_TABLE_FULL, BW_ERR_UNREACHABLE.
 */
int bw_embedded_connect(struct bw_embedded *endpoint,
                        const struct bw_addr *remote,
                        const struct bw_connect_options *options,
                        uint64_t token,
                        bw_flow *flow);

/**
 * Queues a copy of a message; bw_embedded_poll sends it.
 *
 * @return BW_OK, BW_ERR_AGAIN (poll, take events, try again after BW_EVENT_WRITABLE), BW_ERR_TOO_LARGE, BW_ERR_NO_FLOW, BW_ERR_CLOSING,
 *         BW_ERR_INVALID.
 */
int bw_embedded_send(struct bw_embedded *endpoint,
                     bw_flow flow,
                     const void *bytes,
                     size_t len);

/**
 * As bw_embedded_send, and BW_EVENT_DELIVERED or BW_EVENT_UNDELIVERED reports the message's fate.
 *
 * @param token  Comes back with the event. Not 0.
 * @return As bw_embedded_send.
 */
int bw_embedded_send_reported(struct bw_embedded *endpoint,
                              bw_flow flow,
                              const void *bytes,
                              size_t len,
                              uint64_t token);

/**
 * Who is at the other end of a flow, as the peer has proven it.
 *
 * @param peer  Receives its name and key.
 * @return 1; 0 when the flow is not encrypted, not open yet, or gone.
 */
int bw_embedded_peer(struct bw_embedded *endpoint, bw_flow flow, struct bw_identity *peer);

/**
 * As bw_requests, of an endpoint.
 *
 * @param unanswered_max  How many requests of this endpoint may wait for an answer at a time: 1 to BW_REQUESTS_MAX.
 * @return BW_OK; BW_ERR_INVALID, also when they are on already.
 */
int bw_embedded_requests(struct bw_embedded *endpoint,
                         uint32_t unanswered_max);

/**
 * Sends a request: bw_embedded_poll does. One of BW_EVENT_RESPONSE, BW_EVENT_FAILURE and BW_EVENT_UNANSWERED follows, with its number as the
 * token.
 *
 * @param timeout_us  Microseconds for the answer, which the server learns. 0: for ever.
 * @param request     Receives its number, which this endpoint gives to no other.
 * @return As bw_embedded_send; BW_ERR_TOO_MANY; BW_ERR_INVALID without bw_embedded_requests.
 */
int bw_embedded_request(struct bw_embedded *endpoint,
                        bw_flow flow,
                        const void *data,
                        size_t len,
                        uint64_t timeout_us,
                        uint64_t *request);

/**
 * Gives a request up, and tells the server. No event follows.
 *
 * @return 1; 0 when it was over already (its event has come, or is the next).
 */
int bw_embedded_request_cancel(struct bw_embedded *endpoint, uint64_t request);

/**
 * Answers a request.
 *
 * @param flow     Of BW_EVENT_REQUEST.
 * @param request  Its token.
 * @return As bw_embedded_send.
 */
int bw_embedded_respond(struct bw_embedded *endpoint,
                        bw_flow flow,
                        uint64_t request,
                        const void *data,
                        size_t len);

/**
 * Says that a request has no response.
 *
 * @param code  For the caller, with a meaning of your own.
 * @param why   For the caller; null: no text. Bytes beyond 1024 are cut off.
 * @return As bw_embedded_send.
 */
int bw_embedded_fail(struct bw_embedded *endpoint,
                     bw_flow flow,
                     uint64_t request,
                     uint16_t code,
                     const char *why);

/**
 * The next thing that happened; never waits. The kinds are those of a client: connected, accepted, message, writable, closed; delivered and
 * undelivered after bw_embedded_send_reported; those of requests after bw_embedded_requests.
 *
 * @return 1 with `event` filled in, 0 when there is none.
 */
int bw_embedded_next_event(struct bw_embedded *endpoint,
                           struct bw_event *event);

/**
 * Where the bytes of a received message lie: read them in place, until the message is released or the endpoint freed.
 *
 * @param bytes  Receives the address; it is not null, also for a message without bytes.
 * @return The message's length, or BW_ERR_INVALID.
 */
int bw_embedded_message(struct bw_embedded *endpoint,
                        const struct bw_message *message,
                        const void **bytes);

/**
 * Gives a received message back: its memory is free, its sender may send more. `message` is used up.
 *
 * @return BW_OK, BW_ERR_INVALID.
 */
int bw_embedded_release(struct bw_embedded *endpoint, struct bw_message *message);

/**
 * Closes a flow after everything queued was acknowledged, which takes calls of bw_embedded_poll; BW_EVENT_CLOSED follows.
 *
 * @return BW_OK, BW_ERR_NO_FLOW.
 */
int bw_embedded_close(struct bw_embedded *endpoint,
                      bw_flow flow);

/**
 * Ends a flow at once; BW_EVENT_CLOSED follows.
 *
 * @return BW_OK, BW_ERR_NO_FLOW.
 */
int bw_embedded_reset(struct bw_embedded *endpoint, bw_flow flow);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BAREWIRE_H */
