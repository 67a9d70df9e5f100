#define ALLOW_EXPERIMENTAL_API
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_version.h>

#define BURST 64

struct bwd_pool {
	struct rte_mempool *mempool;
	/* By chunk. */
	struct rte_mbuf **mbufs;
	/* Chunks that DPDK may take. */
	uint32_t *stack;
	uint32_t count;
	uint32_t chunks;
	uint32_t chunk_len;
	uint8_t *base;
	size_t len;
	/* False while the mempool is built and hands over objects that are no mbufs yet. */
	int ready;
	int registered;
	/* The device that may read and write the memory, where one has to be told. */
	struct rte_device *mapped;
};

/* Behind each mbuf. */
struct bwd_private {
	struct rte_mbuf_ext_shared_info shared;
	uint32_t chunk;
	uint32_t unused;
};

static uint32_t chunk_of(struct rte_mbuf *mbuf)
{
	return ((struct bwd_private *)rte_mbuf_to_priv(mbuf))->chunk;
}

static int ops_alloc(struct rte_mempool *mempool)
{
	mempool->pool_data = mempool->pool_config;
	return 0;
}

static void ops_free(struct rte_mempool *mempool)
{
	(void)mempool;
}

static int ops_enqueue(struct rte_mempool *mempool, void *const *objects, unsigned int count)
{
	struct bwd_pool *pool = mempool->pool_data;

	if (!pool->ready)
		return 0;
	for (unsigned int i = 0; i < count; i++) {
		if (!bwd_pool_give(pool, chunk_of(objects[i])))
			return -ENOBUFS;
	}
	return 0;
}

static int ops_dequeue(struct rte_mempool *mempool, void **objects, unsigned int count)
{
	struct bwd_pool *pool = mempool->pool_data;

	if (!pool->ready || pool->count < count)
		return -ENOBUFS;
	for (unsigned int i = 0; i < count; i++)
		objects[i] = pool->mbufs[pool->stack[--pool->count]];
	return 0;
}

static unsigned int ops_count(const struct rte_mempool *mempool)
{
	const struct bwd_pool *pool = mempool->pool_data;

	return pool->count;
}

static const struct rte_mempool_ops OPS = {
	.name = "barewire",
	.alloc = ops_alloc,
	.free = ops_free,
	.enqueue = ops_enqueue,
	.dequeue = ops_dequeue,
	.get_count = ops_count,
};

int bwd_start(int argc, char **argv)
{
	int index = rte_mempool_register_ops(&OPS);

	if (index < 0)
		return index;
	return rte_eal_init(argc, argv) < 0 ? -rte_errno : 0;
}

const char *bwd_version(void)
{
	return rte_version();
}

const char *bwd_words(int error)
{
	return rte_strerror(error);
}

/* No mbuf is shared, so this is never the last of several that let go. */
static void never(void *address, void *opaque)
{
	(void)address;
	(void)opaque;
}

static void mbuf_init(struct rte_mempool *mempool, void *opaque, void *object, unsigned int index)
{
	struct bwd_pool *pool = opaque;
	struct rte_mbuf *mbuf = object;
	struct bwd_private *private;
	uint8_t *chunk = pool->base + (size_t)index * pool->chunk_len;

	memset(mbuf, 0, mempool->elt_size);
	mbuf->priv_size = sizeof(struct bwd_private);
	mbuf->buf_addr = chunk;
	rte_mbuf_iova_set(mbuf, rte_eal_iova_mode() == RTE_IOVA_PA ? rte_mem_virt2iova(chunk) : (uintptr_t)chunk);
	mbuf->buf_len = RTE_MIN(pool->chunk_len, (uint32_t)UINT16_MAX);
	mbuf->data_off = RTE_PKTMBUF_HEADROOM;
	mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
	mbuf->pool = mempool;
	mbuf->nb_segs = 1;
	mbuf->port = RTE_MBUF_PORT_INVALID;
	rte_mbuf_refcnt_set(mbuf, 1);
	private = rte_mbuf_to_priv(mbuf);
	private->chunk = index;
	private->shared.free_cb = never;
	private->shared.fcb_opaque = mbuf;
	rte_mbuf_ext_refcnt_set(&private->shared, 1);
	mbuf->shinfo = &private->shared;
	pool->mbufs[index] = mbuf;
}

void bwd_pool_free(struct bwd_pool *pool)
{
	if (!pool)
		return;
	rte_mempool_free(pool->mempool);
	if (pool->registered)
		rte_extmem_unregister(pool->base, pool->len);
	free(pool->mbufs);
	free(pool->stack);
	free(pool);
}

struct bwd_pool *bwd_pool_new(const char *name, void *base, size_t len, uint32_t chunks, uint32_t chunk_len)
{
	struct rte_pktmbuf_pool_private private = {
		.mbuf_data_room_size = RTE_MIN(chunk_len, (uint32_t)UINT16_MAX),
		.mbuf_priv_size = sizeof(struct bwd_private),
		.flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF,
	};
	struct bwd_pool *pool = calloc(1, sizeof(*pool));
	int error = ENOMEM;

	if (!pool)
		goto fail;
	pool->base = base;
	pool->len = len;
	pool->chunks = chunks;
	pool->chunk_len = chunk_len;
	pool->mbufs = calloc(chunks, sizeof(*pool->mbufs));
	pool->stack = calloc(chunks, sizeof(*pool->stack));
	if (!pool->mbufs || !pool->stack)
		goto fail;
	/* A second port on the same pool finds it registered. */
	pool->registered = rte_extmem_register(base, len, NULL, 0, getpagesize()) == 0;
	if (!pool->registered && rte_errno != EEXIST) {
		error = rte_errno;
		goto fail;
	}
	/* No cache: what a driver frees is to be on the stack at once. */
	pool->mempool = rte_mempool_create_empty(name, chunks, sizeof(struct rte_mbuf) + sizeof(struct bwd_private), 0,
						 sizeof(private), SOCKET_ID_ANY,
						 RTE_MEMPOOL_F_SP_PUT | RTE_MEMPOOL_F_SC_GET);
	if (!pool->mempool) {
		error = rte_errno;
		goto fail;
	}
	error = -rte_mempool_set_ops_byname(pool->mempool, OPS.name, pool);
	if (error)
		goto fail;
	rte_pktmbuf_pool_init(pool->mempool, &private);
	if (rte_mempool_populate_default(pool->mempool) < (int)chunks) {
		error = ENOMEM;
		goto fail;
	}
	rte_mempool_obj_iter(pool->mempool, mbuf_init, pool);
	pool->ready = 1;
	return pool;
fail:
	bwd_pool_free(pool);
	errno = error;
	return NULL;
}

int bwd_pool_give(struct bwd_pool *pool, uint32_t chunk)
{
	if (pool->count == pool->chunks)
		return 0;
	pool->stack[pool->count++] = chunk;
	return 1;
}

uint32_t bwd_pool_take(struct bwd_pool *pool)
{
	return pool->count ? pool->stack[--pool->count] : UINT32_MAX;
}

uint32_t bwd_pool_count(const struct bwd_pool *pool)
{
	return pool->count;
}

/* The port of a device that was just plugged in, or was there before. */
static int find_port(const char *devargs, uint16_t *port)
{
	struct rte_dev_iterator iterator;
	uint16_t found;

	RTE_ETH_FOREACH_MATCHING_DEV(found, devargs, &iterator) {
		rte_eth_iterator_cleanup(&iterator);
		*port = found;
		return 0;
	}
	return -ENODEV;
}

static int configure(uint16_t port, struct bwd_pool *pool, uint16_t mtu, int promiscuous, struct bwd_info *info,
		     const char **what)
{
	struct rte_eth_conf config = {0};
	struct rte_eth_dev_info device;
	struct rte_ether_addr mac;
	struct rte_eth_link link = {0};
	int error;

	*what = "asking the device what it can do";
	error = rte_eth_dev_info_get(port, &device);
	if (error)
		return error;
	strncpy(info->driver, device.driver_name ? device.driver_name : "", sizeof(info->driver) - 1);
	*what = "making the memory known to the device";
	error = rte_dev_dma_map(device.device, pool->base, (uintptr_t)pool->base, pool->len);
	if (error == 0)
		pool->mapped = device.device;
	else if (rte_errno != ENOTSUP)
		return -rte_errno;
	config.rxmode.offloads = device.rx_offload_capa &
				 (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM |
				  RTE_ETH_RX_OFFLOAD_TCP_CKSUM);
	*what = "configuring the device";
	error = rte_eth_dev_configure(port, 1, 1, &config);
	if (error)
		return error;
	if (mtu) {
		*what = "setting the MTU";
		error = rte_eth_dev_set_mtu(port, mtu);
		if (error)
			return error;
	}
	*what = "sizing the rings";
	error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &info->rx_slots, &info->tx_slots);
	if (error)
		return error;
	*what = "setting the receive queue up";
	error = rte_eth_rx_queue_setup(port, 0, info->rx_slots, SOCKET_ID_ANY, NULL, pool->mempool);
	if (error)
		return error;
	*what = "setting the transmit queue up";
	error = rte_eth_tx_queue_setup(port, 0, info->tx_slots, SOCKET_ID_ANY, NULL);
	if (error)
		return error;
	*what = "starting the device";
	error = rte_eth_dev_start(port);
	if (error)
		return error;
	/* Drivers that know no other way refuse both, and take every frame. */
	if (promiscuous)
		rte_eth_promiscuous_enable(port);
	else
		rte_eth_promiscuous_disable(port);
	rte_eth_allmulticast_enable(port);
	info->has_mac = rte_eth_macaddr_get(port, &mac) == 0 && rte_is_valid_assigned_ether_addr(&mac);
	memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	if (rte_eth_dev_get_mtu(port, &info->mtu))
		info->mtu = RTE_ETHER_MTU;
	info->is_up = rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
	return 0;
}

int bwd_open(const char *devargs, struct bwd_pool *pool, uint16_t rx_slots, uint16_t tx_slots, uint16_t mtu,
	     int promiscuous, struct bwd_info *info, const char **what)
{
	int error;

	memset(info, 0, sizeof(*info));
	info->rx_slots = rx_slots;
	info->tx_slots = tx_slots;
	*what = "plugging the device in";
	error = rte_dev_probe(devargs);
	if (error)
		return error;
	*what = "finding the port of the device";
	error = find_port(devargs, &info->port);
	if (error)
		return error;
	error = configure(info->port, pool, mtu, promiscuous, info, what);
	if (error)
		bwd_close(info->port, pool);
	return error;
}

void bwd_close(uint16_t port, struct bwd_pool *pool)
{
	struct rte_eth_dev_info device;
	struct rte_device *plugged = rte_eth_dev_info_get(port, &device) == 0 ? device.device : NULL;

	rte_eth_dev_stop(port);
	if (pool->mapped)
		rte_dev_dma_unmap(pool->mapped, pool->base, (uintptr_t)pool->base, pool->len);
	pool->mapped = NULL;
	rte_eth_dev_close(port);
	/* Lets the same device be plugged in again. */
	if (plugged)
		rte_dev_remove(plugged);
}

uint16_t bwd_receive(uint16_t port, struct bwd_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t found = rte_eth_rx_burst(port, 0, mbufs, RTE_MIN(count, BURST));

	for (uint16_t i = 0; i < found; i++) {
		struct rte_mbuf *mbuf = mbufs[i];
		uint64_t checksum = mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;

		frames[i].chunk = chunk_of(mbuf);
		frames[i].offset = mbuf->data_off;
		frames[i].len = mbuf->data_len;
		frames[i].flags = checksum == RTE_MBUF_F_RX_L4_CKSUM_GOOD  ? BWD_RX_CHECKSUM_GOOD
				  : checksum == RTE_MBUF_F_RX_L4_CKSUM_BAD ? BWD_RX_CHECKSUM_BAD
									   : 0;
		if (mbuf->nb_segs > 1) {
			/* Back on the stack but for its first part, which goes the way of all others. */
			rte_pktmbuf_free(mbuf->next);
			frames[i].flags |= BWD_RX_SCATTERED;
		}
		/* As an mbuf lies in a mempool. */
		mbuf->next = NULL;
		mbuf->nb_segs = 1;
		mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
	}
	return found;
}

uint16_t bwd_send(uint16_t port, struct bwd_pool *pool, const struct bwd_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BURST];

	count = RTE_MIN(count, BURST);
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = pool->mbufs[frames[i].chunk];

		mbuf->data_off = frames[i].offset;
		mbuf->data_len = frames[i].len;
		mbuf->pkt_len = frames[i].len;
		mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
		mbuf->port = port;
		mbufs[i] = mbuf;
	}
	return rte_eth_tx_burst(port, 0, mbufs, count);
}

void bwd_reap(uint16_t port)
{
	/* A driver that cannot say so frees as it sends. */
	rte_eth_tx_done_cleanup(port, 0, 0);
}

void bwd_look(uint16_t port, struct bwd_stats *stats, int *is_up)
{
	struct rte_eth_stats all;
	struct rte_eth_link link;

	memset(stats, 0, sizeof(*stats));
	if (rte_eth_stats_get(port, &all) == 0) {
		stats->missed = all.imissed;
		stats->no_buffer = all.rx_nombuf;
		stats->rx_errors = all.ierrors;
		stats->tx_errors = all.oerrors;
	}
	*is_up = rte_eth_link_get_nowait(port, &link) == 0 ? link.link_status == RTE_ETH_LINK_UP : 1;
}
