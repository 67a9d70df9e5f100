/* What the port asks of DPDK, as plain functions: DPDK's fast path is inline functions of its headers.
 *
 * Memory. A pool of barewire has chunks; DPDK wants an mbuf for each buffer. A `bwd_pool` has one mbuf for each chunk, and mbuf i always
 * stands for chunk i. Chunks that DPDK may use lie on a stack; whoever of the driver asks the mempool for an mbuf gets the top of the
 * stack, and what a driver frees is put back on it. The Rust side moves chunk numbers between its pool and the stack, so that a frame is
 * received, handed on and sent without a copy. One thread for each pool.
 *
 * Queues. A device has as many receive queues as were asked for, each with a pool to receive into: one pool for all of them, or one for each
 * thread that serves some. It starts when each queue has its pool.
 */
#ifndef BWD_SHIM_H
#define BWD_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct bwd_pool;

/* A frame: its chunk, where its data begins in the chunk, its length, and BWD_RX_* or BWD_TX_*. */
struct bwd_frame {
	uint32_t chunk;
	uint32_t offset;
	uint32_t len;
	uint32_t flags;
};

/* The card found the transport checksum good, or bad. */
#define BWD_RX_CHECKSUM_GOOD 1u
#define BWD_RX_CHECKSUM_BAD 2u
/* The frame did not fit into one chunk, and is to be dropped. */
#define BWD_RX_SCATTERED 4u
/* What was sent is what came, but its sender left the transport checksum to a device that did not do it. */
#define BWD_RX_CHECKSUM_NONE 8u

/* The device is to complete the transport checksum, whose field holds the sum of the pseudo-header. Lengths of the headers in front of that
 * of the transport: Ethernet with tags in bits 8 to 15, IP in bits 16 to 31. */
#define BWD_TX_UDP 1u
#define BWD_TX_TCP 2u
#define BWD_TX_IPV6 4u

/* What a device does by itself, in `offloads`. */
#define BWD_RX_CHECKS 1u
#define BWD_TX_COMPLETES_UDP 2u
#define BWD_TX_COMPLETES_TCP 4u
/* It deals frames to its queues by their addresses and ports. */
#define BWD_RX_HASHES 8u

struct bwd_info {
	uint16_t port;
	uint16_t mtu;
	uint16_t rx_slots;
	uint16_t tx_slots;
	/* Queues: as many as the device can have, then as many as it has. */
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint8_t mac[6];
	uint8_t has_mac;
	uint8_t is_up;
	uint32_t offloads;
	char driver[64];
};

#define BWD_KEY_MAX 64
#define BWD_TABLE_MAX 2048

/* How a device chooses the queue of a frame. */
struct bwd_rss {
	uint16_t key_len;
	uint16_t table_len;
	/* Whether UDP ports count: over IPv4, over IPv6. */
	uint8_t udp4;
	uint8_t udp6;
	uint8_t key[BWD_KEY_MAX];
	uint16_t table[BWD_TABLE_MAX];
};

struct bwd_stats {
	uint64_t missed;
	uint64_t no_buffer;
	uint64_t rx_errors;
	uint64_t tx_errors;
};

/* Starts DPDK's environment. 0, or a negative errno. Once a process, on a thread that ends after it: DPDK pins it. */
int bwd_start(int argc, char **argv);
const char *bwd_version(void);
/* The environment's words for a (positive) errno of its own. */
const char *bwd_words(int error);

struct bwd_pool *bwd_pool_new(const char *name, void *base, size_t len, uint32_t chunks, uint32_t chunk_len);
void bwd_pool_free(struct bwd_pool *pool);
/* Puts a chunk on the stack. 0 when the stack has all chunks already. */
int bwd_pool_give(struct bwd_pool *pool, uint32_t chunk);
/* Takes one off it; UINT32_MAX when there is none. */
uint32_t bwd_pool_take(struct bwd_pool *pool);
uint32_t bwd_pool_count(const struct bwd_pool *pool);

/* The four steps to a device that runs. Each gives 0, or a negative errno, and `what` says what failed. After the first one, `bwd_close`
 * undoes all. */

/* Plugs the device `devargs` in, and says how many queues it can have. */
int bwd_plug(const char *devargs, struct bwd_info *info, const char **what);
/* `info` says how many queues and slots it is to have, and then what it has. An `mtu` of 0 leaves it. */
int bwd_configure(uint16_t mtu, struct bwd_info *info, const char **what);
/* What comes in on a queue lies in chunks of this pool, which outlives the device. */
int bwd_serve(const struct bwd_info *info, uint16_t queue, struct bwd_pool *pool, const char **what);
/* Once every queue is served. */
int bwd_run(int promiscuous, struct bwd_info *info, const char **what);

/* Stops the device: it uses no chunk any more. Before the memory is taken from it. */
void bwd_stop(uint16_t port);
/* Takes the pool's memory from its device, which is stopped. */
void bwd_unmap(struct bwd_pool *pool);
/* Unplugs the device, which is stopped or was never started. Each of its pools was unmapped. */
void bwd_close(uint16_t port);

/* 0, or a negative errno where the device does not say. */
int bwd_rss(uint16_t port, struct bwd_rss *rss);

uint16_t bwd_receive(uint16_t port, uint16_t queue, const struct bwd_pool *pool, struct bwd_frame *frames, uint16_t count);
/* How many of the frames the driver took. `refused` counts those that it can never send, which are the driver's to free, too. */
uint16_t bwd_send(uint16_t port, uint16_t queue, struct bwd_pool *pool, const struct bwd_frame *frames, uint16_t count,
		  uint16_t *refused);
/* Lets the driver free what it has sent. */
void bwd_reap(uint16_t port, uint16_t queue);
void bwd_look(uint16_t port, struct bwd_stats *stats, int *is_up);

#endif
