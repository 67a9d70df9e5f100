/*
 * machnet.h: the interface of Machnet's library, as libmachnet_shim of barewire has it. Programs may include this or
 * Machnet's own header; layouts and values are the same.
 *
 * A flow names a sender and a receiver in the byte order of the host. machnet_connect gives the flow to send on; a received
 * flow has the peer as sender, so an answer goes to the flow with source and destination swapped. Every failure is -1 (or
 * null) with the reason in errno; EAGAIN may be tried again. machnet_recv gives -1 with EMSGSIZE for a message longer than
 * the buffer, and the message stays for the next call.
 */
#ifndef BAREWIRE_MACHNET_H
#define BAREWIRE_MACHNET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Longest message: 8 MiB. */
#define MACHNET_MSG_MAX_LEN (8 * 1024 * 1024)
/* A flag of messages; accepted, and of no effect. */
#define MACHNET_MSGBUF_NOTIFY_DELIVERY (1 << 7)

typedef struct MachnetFlow {
  uint32_t src_ip;
  uint32_t dst_ip;
  uint16_t src_port;
  uint16_t dst_port;
} MachnetFlow_t;

typedef struct MachnetIovec {
  void *base;
  size_t len;
} MachnetIovec_t;

typedef struct MachnetMsgHdr {
  uint32_t msg_size;
  MachnetFlow_t flow_info;
  MachnetIovec_t *msg_iov;
  size_t msg_iovlen;
  uint16_t flags;
} MachnetMsgHdr_t;

typedef struct MachnetChannelCtx MachnetChannelCtx_t;

/* Stays -1. */
extern int g_ctrl_socket;

/* 0 when the daemon answers, else -1; may be called again. */
int machnet_init(void);
/* Not for programs; null. */
MachnetChannelCtx_t *machnet_bind(int shm_fd, size_t *channel_size);
/* A channel to the daemon, or null. */
void *machnet_attach(void);
/* Ends a channel. */
void machnet_detach(const MachnetChannelCtx_t *ctx);
/* 0 when listening, -1, or -EINVAL for a malformed address. */
int machnet_listen(void *channel_ctx, const char *local_ip, uint16_t port);
/* 0 with `flow` filled in when connected, -1 after 5 s at the latest. */
int machnet_connect(void *channel_ctx, const char *local_ip, const char *remote_ip, uint16_t remote_port,
                    MachnetFlow_t *flow);
/* 0 when queued, or -1. */
int machnet_send(const void *channel_ctx, MachnetFlow_t flow, const void *buf, size_t len);
int machnet_sendmsg(const void *channel_ctx, const MachnetMsgHdr_t *msghdr);
/* How many were queued, or -1. */
int machnet_sendmmsg(const void *channel_ctx, const MachnetMsgHdr_t *msghdr_iovec, int vlen);
/* Bytes, 0 for no message, or -1. */
ssize_t machnet_recv(const void *channel_ctx, void *buf, size_t len, MachnetFlow_t *flow);
/* 1, 0 for no message, or -1. */
int machnet_recvmsg(const void *channel_ctx, MachnetMsgHdr_t *msghdr);

#ifdef __cplusplus
}
#endif

#endif
