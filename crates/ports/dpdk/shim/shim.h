/* What the port asks of DPDK, as plain functions: DPDK's fast path is inline functions of its headers.
 *
 * Memory. A pool of barewire has chunks; DPDK wants an mbuf for each buffer. A `bwd_pool` has one mbuf for each chunk, and mbuf i always
 * stands for chunk i. Chunks that DPDK may use lie on a stack; whoever of the driver asks the mempool for an mbuf gets the top of the
 * stack, and what a driver frees is put back on it. The Rust side moves chunk numbers between its pool and the stack, so that a frame is
 * received, handed on and sent without a copy. One thread.
 */
#ifndef BWD_SHIM_H
#define BWD_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct bwd_pool;

/* What a received frame is: chunk, where its data begins in the chunk, its length, and BWD_RX_*. */
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

struct bwd_info {
	uint16_t port;
	uint16_t mtu;
	uint16_t rx_slots;
	uint16_t tx_slots;
	uint8_t mac[6];
	uint8_t has_mac;
	uint8_t is_up;
	char driver[64];
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

/* Plugs the device `devargs` in and starts it with one queue each way. 0, or a negative errno. `what` says what failed. */
int bwd_open(const char *devargs, struct bwd_pool *pool, uint16_t rx_slots, uint16_t tx_slots, uint16_t mtu,
	     int promiscuous, struct bwd_info *info, const char **what);
/* Stops the device and unplugs it: it uses no chunk any more. */
void bwd_close(uint16_t port, struct bwd_pool *pool);

uint16_t bwd_receive(uint16_t port, struct bwd_frame *frames, uint16_t count);
/* How many of the frames the driver took. */
uint16_t bwd_send(uint16_t port, struct bwd_pool *pool, const struct bwd_frame *frames, uint16_t count);
/* Lets the driver free what it has sent. */
void bwd_reap(uint16_t port);
void bwd_look(uint16_t port, struct bwd_stats *stats, int *is_up);

#endif
