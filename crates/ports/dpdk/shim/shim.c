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

int bwd_plug(const char *devargs, struct bwd_info *info, const char **what)
{
	struct rte_eth_dev_info device;
	int error;

	*what = "plugging the device in";
	error = rte_dev_probe(devargs);
	if (error)
		return error;
	*what = "finding the port of the device";
	error = find_port(devargs, &info->port);
	if (error)
		return error;
	*what = "asking the device what it can do";
	error = rte_eth_dev_info_get(info->port, &device);
	if (error) {
		bwd_close(info->port);
		return error;
	}
	strncpy(info->driver, device.driver_name ? device.driver_name : "", sizeof(info->driver) - 1);
	info->rx_queues = device.max_rx_queues;
	info->tx_queues = device.max_tx_queues;
	return 0;
}

/* Asks for what there is, and for nothing else. */
static void choose_offloads(const struct rte_eth_dev_info *device, struct rte_eth_conf *config, struct bwd_info *info)
{
	const uint64_t checks = RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
	uint64_t fields = device->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);

	config->rxmode.offloads = device->rx_offload_capa & (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | checks);
	config->txmode.offloads = device->tx_offload_capa & (RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM);
	info->offloads = 0;
	if ((config->rxmode.offloads & checks) == checks)
		info->offloads |= BWD_RX_CHECKS;
	if (config->txmode.offloads & RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
		info->offloads |= BWD_TX_COMPLETES_UDP;
	if (config->txmode.offloads & RTE_ETH_TX_OFFLOAD_TCP_CKSUM)
		info->offloads |= BWD_TX_COMPLETES_TCP;
	/* Other devices deal frames out in ways of their own. */
	if (info->rx_queues > 1 && fields) {
		config->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		config->rx_adv_conf.rss_conf.rss_hf = fields;
		info->offloads |= BWD_RX_HASHES;
	}
}

int bwd_configure(uint16_t mtu, struct bwd_info *info, const char **what)
{
	struct rte_eth_conf config = {0};
	struct rte_eth_dev_info device;
	struct rte_ether_addr mac;
	int error;

	*what = "asking the device what it can do";
	error = rte_eth_dev_info_get(info->port, &device);
	if (error)
		return error;
	choose_offloads(&device, &config, info);
	*what = "configuring the device";
	error = rte_eth_dev_configure(info->port, info->rx_queues, info->tx_queues, &config);
	if (error && info->offloads & BWD_RX_HASHES) {
		/* Some say that they hash and cannot be told to. */
		info->offloads &= ~BWD_RX_HASHES;
		config.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
		config.rx_adv_conf.rss_conf.rss_hf = 0;
		error = rte_eth_dev_configure(info->port, info->rx_queues, info->tx_queues, &config);
	}
	if (error)
		return error;
	if (mtu) {
		*what = "setting the MTU";
		error = rte_eth_dev_set_mtu(info->port, mtu);
		if (error)
			return error;
	}
	*what = "sizing the rings";
	error = rte_eth_dev_adjust_nb_rx_tx_desc(info->port, &info->rx_slots, &info->tx_slots);
	if (error)
		return error;
	*what = "setting a transmit queue up";
	for (uint16_t queue = 0; queue < info->tx_queues; queue++) {
		error = rte_eth_tx_queue_setup(info->port, queue, info->tx_slots, SOCKET_ID_ANY, NULL);
		if (error)
			return error;
	}
	info->has_mac = rte_eth_macaddr_get(info->port, &mac) == 0 && rte_is_valid_assigned_ether_addr(&mac);
	memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	if (rte_eth_dev_get_mtu(info->port, &info->mtu))
		info->mtu = RTE_ETHER_MTU;
	return 0;
}

int bwd_serve(const struct bwd_info *info, uint16_t queue, struct bwd_pool *pool, const char **what)
{
	struct rte_eth_dev_info device;
	int error;

	if (!pool->mapped) {
		*what = "asking the device what it can do";
		error = rte_eth_dev_info_get(info->port, &device);
		if (error)
			return error;
		*what = "making the memory known to the device";
		error = rte_dev_dma_map(device.device, pool->base, (uintptr_t)pool->base, pool->len);
		if (error == 0)
			pool->mapped = device.device;
		else if (rte_errno != ENOTSUP)
			return -rte_errno;
	}
	*what = "setting a receive queue up";
	return rte_eth_rx_queue_setup(info->port, queue, info->rx_slots, SOCKET_ID_ANY, NULL, pool->mempool);
}

int bwd_run(int promiscuous, struct bwd_info *info, const char **what)
{
	struct rte_ether_addr mac;
	struct rte_eth_link link = {0};
	int error;

	*what = "starting the device";
	error = rte_eth_dev_start(info->port);
	if (error)
		return error;
	/* Drivers that know no other way refuse both, and take every frame. */
	if (promiscuous)
		rte_eth_promiscuous_enable(info->port);
	else
		rte_eth_promiscuous_disable(info->port);
	rte_eth_allmulticast_enable(info->port);
	/* Some have one only now. */
	if (!info->has_mac) {
		info->has_mac = rte_eth_macaddr_get(info->port, &mac) == 0 && rte_is_valid_assigned_ether_addr(&mac);
		memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	}
	info->is_up = rte_eth_link_get_nowait(info->port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
	return 0;
}

void bwd_stop(uint16_t port)
{
	rte_eth_dev_stop(port);
}

void bwd_unmap(struct bwd_pool *pool)
{
	if (pool->mapped)
		rte_dev_dma_unmap(pool->mapped, pool->base, (uintptr_t)pool->base, pool->len);
	pool->mapped = NULL;
}

void bwd_close(uint16_t port)
{
	struct rte_eth_dev_info device;
	struct rte_device *plugged = rte_eth_dev_info_get(port, &device) == 0 ? device.device : NULL;

	rte_eth_dev_close(port);
	/* Lets the same device be plugged in again. */
	if (plugged)
		rte_dev_remove(plugged);
}

int bwd_rss(uint16_t port, struct bwd_rss *rss)
{
	struct rte_eth_rss_reta_entry64 table[BWD_TABLE_MAX / RTE_ETH_RETA_GROUP_SIZE];
	struct rte_eth_rss_conf conf = {0};
	struct rte_eth_dev_info device;
	int error = rte_eth_dev_info_get(port, &device);

	memset(rss, 0, sizeof(*rss));
	if (error)
		return error;
	if (device.reta_size == 0 || device.reta_size > BWD_TABLE_MAX || device.hash_key_size == 0 ||
	    device.hash_key_size > BWD_KEY_MAX)
		return -ENOTSUP;
	conf.rss_key = rss->key;
	conf.rss_key_len = device.hash_key_size;
	error = rte_eth_dev_rss_hash_conf_get(port, &conf);
	if (error)
		return error;
	memset(table, 0, sizeof(table));
	for (uint16_t i = 0; i < device.reta_size; i++)
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= RTE_BIT64(i % RTE_ETH_RETA_GROUP_SIZE);
	error = rte_eth_dev_rss_reta_query(port, table, device.reta_size);
	if (error)
		return error;
	for (uint16_t i = 0; i < device.reta_size; i++)
		rss->table[i] = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	rss->key_len = device.hash_key_size;
	rss->table_len = device.reta_size;
	rss->udp4 = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0;
	rss->udp6 = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV6_UDP) != 0;
	return 0;
}

static uint32_t flags_of(uint64_t flags)
{
	switch (flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
	case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
		return BWD_RX_CHECKSUM_GOOD;
	case RTE_MBUF_F_RX_L4_CKSUM_BAD:
		return BWD_RX_CHECKSUM_BAD;
	case RTE_MBUF_F_RX_L4_CKSUM_NONE:
		return BWD_RX_CHECKSUM_NONE;
	default:
		return 0;
	}
}

uint16_t bwd_receive(uint16_t port, uint16_t queue, const struct bwd_pool *pool, struct bwd_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t found = rte_eth_rx_burst(port, queue, mbufs, RTE_MIN(count, BURST));
	uint16_t kept = 0;

	for (uint16_t i = 0; i < found; i++) {
		struct rte_mbuf *mbuf = mbufs[i];
		struct bwd_frame *frame = &frames[kept];

		/* Of another port's memory, by a device that hands mbufs from one to the other: neither ours to read nor, as that port has a
		 * thread of its own, to free. Such devices are refused where they are known. */
		if (unlikely(mbuf->pool != pool->mempool))
			continue;
		kept++;
		frame->chunk = chunk_of(mbuf);
		frame->offset = mbuf->data_off;
		frame->len = mbuf->data_len;
		frame->flags = flags_of(mbuf->ol_flags);
		if (mbuf->nb_segs > 1) {
			/* Back on the stack but for its first part, which goes the way of all others. */
			rte_pktmbuf_free(mbuf->next);
			frame->flags |= BWD_RX_SCATTERED;
		}
		/* As an mbuf lies in a mempool. */
		mbuf->next = NULL;
		mbuf->nb_segs = 1;
		mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
	}
	return kept;
}

uint16_t bwd_send(uint16_t port, uint16_t queue, struct bwd_pool *pool, const struct bwd_frame *frames, uint16_t count,
		  uint16_t *refused)
{
	struct rte_mbuf *mbufs[BURST];
	uint32_t all = 0;

	*refused = 0;
	count = RTE_MIN(count, BURST);
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = pool->mbufs[frames[i].chunk];
		uint32_t flags = frames[i].flags;

		mbuf->data_off = frames[i].offset;
		mbuf->data_len = frames[i].len;
		mbuf->pkt_len = frames[i].len;
		mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
		mbuf->tx_offload = 0;
		mbuf->port = port;
		if (flags) {
			mbuf->ol_flags |= flags & BWD_TX_UDP ? RTE_MBUF_F_TX_UDP_CKSUM : RTE_MBUF_F_TX_TCP_CKSUM;
			mbuf->ol_flags |= flags & BWD_TX_IPV6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4;
			mbuf->l2_len = flags >> 8 & 0xff;
			mbuf->l3_len = flags >> 16;
		}
		all |= flags;
		mbufs[i] = mbuf;
	}
	if (all) {
		uint16_t good = rte_eth_tx_prepare(port, queue, mbufs, count);

		if (good == 0) {
			rte_pktmbuf_free(mbufs[0]);
			*refused = 1;
			return 1;
		}
		count = good;
	}
	return rte_eth_tx_burst(port, queue, mbufs, count);
}

void bwd_reap(uint16_t port, uint16_t queue)
{
	/* A driver that cannot say so frees as it sends. */
	rte_eth_tx_done_cleanup(port, queue, 0);
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
