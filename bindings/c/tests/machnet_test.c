/* A program that uses, and misuses, the whole of machnet.h. The library's tests compile and run it. */
#include <errno.h>
#include <machnet.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(MachnetFlow_t) == 12 && offsetof(MachnetFlow_t, src_port) == 8, "MachnetFlow");
_Static_assert(sizeof(MachnetIovec_t) == 16 && offsetof(MachnetIovec_t, len) == 8, "MachnetIovec");
_Static_assert(sizeof(MachnetMsgHdr_t) == 40 && offsetof(MachnetMsgHdr_t, flow_info) == 4 &&
                   offsetof(MachnetMsgHdr_t, msg_iov) == 16 && offsetof(MachnetMsgHdr_t, msg_iovlen) == 24 &&
                   offsetof(MachnetMsgHdr_t, flags) == 32,
               "MachnetMsgHdr");

#define CHECK(what)                                                                   \
  do {                                                                                \
    if (!(what)) {                                                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno)); \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

/* -1, and why. */
#define FAILS(call, why) CHECK((errno = 0, (call) == -1) && errno == (why))

static const uint32_t SERVER = 0x0a090002, CLIENT = 0x0a090001;

static void ready(void) {
  puts("ready");
  fflush(stdout);
}

static void *attach(void) {
  CHECK(machnet_init() == 0);
  void *channel = machnet_attach();
  CHECK(channel != NULL && g_ctrl_socket == -1);
  return channel;
}

static ssize_t receive(void *channel, void *buf, size_t len, MachnetFlow_t *flow) {
  time_t end = time(NULL) + 30;
  ssize_t n;
  while ((n = machnet_recv(channel, buf, len, flow)) == 0) CHECK(time(NULL) < end);
  return n;
}

static MachnetFlow_t swapped(MachnetFlow_t f) {
  return (MachnetFlow_t){.src_ip = f.dst_ip, .dst_ip = f.src_ip, .src_port = f.dst_port, .dst_port = f.src_port};
}

/* Sends until the flow has ended; what is queued meanwhile may fill the channel. */
static void until_closed(void *channel, MachnetFlow_t flow, const void *bytes) {
  time_t end = time(NULL) + 30;
  while (machnet_send(channel, flow, bytes, 1) == 0 || errno == EAGAIN) CHECK(time(NULL) < end);
  CHECK(errno == ENOTCONN);
}

static unsigned char byte_of(uint64_t id, size_t at) { return (unsigned char)(id * 13 + at * 5 + 3); }

/* Answers every request with its own bytes, until one says that it is the last. */
static void serve(uint16_t udp_port, size_t most) {
  void *channel = attach();
  unsigned char *buf = malloc(most);
  CHECK(buf != NULL);
  CHECK(machnet_listen(channel, "10.9.0.2", udp_port) == 0);
  FAILS(machnet_listen(channel, "10.9.0.2", udp_port), EADDRINUSE);
  ready();
  for (bool last = false; !last;) {
    MachnetFlow_t flow;
    memset(&flow, 0xa5, sizeof flow);
    ssize_t n = receive(channel, buf, most, &flow);
    CHECK(n > 0);
    CHECK(flow.src_ip == CLIENT && flow.dst_ip == SERVER && flow.dst_port == udp_port && flow.src_port != 0);
    last = buf[0] == 0xff;
    CHECK(machnet_send(channel, swapped(flow), buf, (size_t)n) == 0);
  }
  /* The last answer is on its way, and the program just ends. */
}

/* Keeps a window of requests under way. */
static void ask(const char *where, uint16_t udp_port, uint64_t window, uint64_t count, size_t most) {
  void *channel = attach();
  MachnetFlow_t flow, from;
  FAILS(machnet_connect(channel, "10.9.0.1", where, 9, &flow), ECONNREFUSED);
  FAILS(machnet_connect(channel, "10.9.0.9", where, udp_port, &flow), EHOSTUNREACH);
  CHECK(machnet_connect(channel, "10.9.0.1", where, udp_port, &flow) == 0);
  CHECK(flow.src_ip == CLIENT && flow.dst_ip == SERVER && flow.dst_port == udp_port && flow.src_port != 0);
  unsigned char *out = malloc(most), *in = malloc(most);
  bool *answered = calloc(count, sizeof *answered);
  CHECK(out != NULL && in != NULL && answered != NULL);
  uint64_t sent = 0;
  for (uint64_t answers = 0; answers < count; answers++) {
    for (; sent < count && sent - answers < window; sent++) {
      size_t len = 16 + (size_t)(sent * 977) % (most - 15);
      uint64_t head[2] = {sent << 8, len};
      for (size_t i = 16; i < len; i++) out[i] = byte_of(sent, i);
      memcpy(out, head, 16);
      if (sent % 2) {
        CHECK(machnet_send(channel, flow, out, len) == 0);
      } else {
        MachnetIovec_t pieces[3] = {{out, 10}, {NULL, 0}, {out + 10, len - 10}};
        MachnetMsgHdr_t one = {.msg_size = (uint32_t)len,
                               .flow_info = flow,
                               .msg_iov = pieces,
                               .msg_iovlen = 3,
                               .flags = MACHNET_MSGBUF_NOTIFY_DELIVERY};
        CHECK(machnet_sendmsg(channel, &one) == 0);
      }
    }
    uint64_t head[2];
    ssize_t n;
    memset(in, 0xa5, most);
    if (answers % 2) {
      n = receive(channel, in, most, &from);
    } else {
      MachnetIovec_t pieces[3] = {{in, 3}, {NULL, 0}, {in + 3, most - 3}};
      MachnetMsgHdr_t one = {.msg_iov = pieces, .msg_iovlen = 3};
      int got;
      while ((got = machnet_recvmsg(channel, &one)) == 0) {
      }
      CHECK(got == 1);
      n = one.msg_size;
      from = one.flow_info;
    }
    CHECK(n >= 16 && memcmp(&from, &(MachnetFlow_t){SERVER, CLIENT, udp_port, flow.src_port}, sizeof from) == 0);
    memcpy(head, in, 16);
    CHECK((head[0] >>= 8) < count && !answered[head[0]] && head[1] == (uint64_t)n);
    answered[head[0]] = true;
    for (size_t i = 16; i < (size_t)n; i++) CHECK(in[i] == byte_of(head[0], i));
    for (size_t i = (size_t)n; i < most; i++) CHECK(in[i] == 0xa5);
  }
  /* A buffer that is too small: -1, and the message is still there. */
  out[0] = 0xff;
  CHECK(machnet_send(channel, flow, out, 1000) == 0);
  ssize_t n;
  while ((n = machnet_recv(channel, in, 999, &from)) == 0) {
  }
  CHECK(n == -1 && errno == EMSGSIZE);
  FAILS(machnet_recv(channel, NULL, 1000, &from), EINVAL);
  CHECK(machnet_recv(channel, in, 1000, &from) == 1000 && in[0] == 0xff && from.src_ip == SERVER);
  /* The server ends, and the flow with it. */
  until_closed(channel, flow, out);
  FAILS(machnet_send(channel, flow, out, 10), ENOTCONN);
  CHECK(machnet_recv(channel, in, most, &from) == 0);
  machnet_detach(channel);
  FAILS(machnet_recv(channel, in, most, &from), EINVAL);
}

/* Sends once and ends, as Machnet's own first example does. */
static void hello(const char *where, uint16_t udp_port) {
  void *channel = attach();
  MachnetFlow_t flow;
  CHECK(machnet_connect(channel, "10.9.0.1", where, udp_port, &flow) == 0);
  char text[] = "Hello World!";
  CHECK(machnet_send(channel, flow, text, sizeof text) == 0);
}

static void listen_for_hello(uint16_t udp_port, int count) {
  void *channel = attach();
  char text[64];
  MachnetFlow_t flow;
  CHECK(machnet_listen(channel, "0.0.0.0", udp_port) == 0);
  ready();
  for (int i = 0; i < count; i++) {
    CHECK(receive(channel, text, sizeof text, &flow) == 13 && strcmp(text, "Hello World!") == 0);
    /* The client is gone, or will be. */
    until_closed(channel, swapped(flow), text);
  }
}

/* Two threads on one channel: no use to anybody, and no harm either. */
static void *hammer(void *channel) {
  char buf[16];
  MachnetFlow_t flow = {1, 2, 3, 4};
  for (int i = 0; i < 2000; i++) {
    CHECK(machnet_recv(channel, buf, sizeof buf, &flow) == 0);
    CHECK(machnet_send(channel, flow, buf, 1) == -1);
  }
  return NULL;
}

static void misuse(const char *socket) {
  MachnetFlow_t flow = {1, 2, 3, 4};
  char buf[64];
  char real[256];
  MachnetIovec_t piece = {buf, sizeof buf}, null_piece = {NULL, 5};
  MachnetMsgHdr_t one = {.msg_size = 64, .msg_iov = &piece, .msg_iovlen = 1};
  size_t size = 7;

  /* Without a daemon; then with one, in the same process. */
  snprintf(real, sizeof real, "%s", getenv("BAREWIRE_SOCKET"));
  setenv("BAREWIRE_SOCKET", socket, 1);
  FAILS(machnet_init(), ECONNREFUSED);
  FAILS(machnet_init(), ECONNREFUSED);
  CHECK(machnet_attach() == NULL && errno == ECONNREFUSED);
  setenv("BAREWIRE_SOCKET", real, 1);
  CHECK(machnet_init() == 0 && machnet_init() == 0);
  CHECK(machnet_bind(0, &size) == NULL && size == 0 && machnet_bind(-1, NULL) == NULL);

  void *channel = attach(), *freed = attach();
  machnet_detach(freed);
  void *wrong[] = {NULL, freed, (void *)1, buf, (void *)~(uintptr_t)0, (void *)0xa5a5a5a5};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    machnet_detach(wrong[i]);
    FAILS(machnet_listen(wrong[i], "10.9.0.1", 1), EINVAL);
    FAILS(machnet_connect(wrong[i], "10.9.0.1", "10.9.0.2", 1, &flow), EINVAL);
    FAILS(machnet_send(wrong[i], flow, buf, 1), EINVAL);
    FAILS(machnet_sendmsg(wrong[i], &one), EINVAL);
    FAILS(machnet_sendmmsg(wrong[i], &one, 1), EINVAL);
    FAILS(machnet_recv(wrong[i], buf, sizeof buf, &flow), EINVAL);
    FAILS(machnet_recvmsg(wrong[i], &one), EINVAL);
  }
  CHECK(machnet_listen(channel, NULL, 1) == -EINVAL && machnet_listen(channel, "nonsense", 1) == -EINVAL);
  FAILS(machnet_listen(channel, "10.9.0.7", 1), EADDRNOTAVAIL);
  FAILS(machnet_listen(channel, "10.9.0.1", 0), EADDRINUSE);
  FAILS(machnet_connect(channel, NULL, "10.9.0.2", 1, &flow), EINVAL);
  FAILS(machnet_connect(channel, "10.9.0.1", NULL, 1, &flow), EINVAL);
  FAILS(machnet_connect(channel, "10.9.0.1", "300.1.1.1", 1, &flow), EINVAL);
  FAILS(machnet_connect(channel, "10.9.0.1", "10.9.0.2", 1, NULL), EINVAL);
  flow = (MachnetFlow_t){1, 2, 3, 4};
  FAILS(machnet_send(channel, flow, buf, 1), ENOTCONN);
  FAILS(machnet_send(channel, flow, buf, 0), EMSGSIZE);
  FAILS(machnet_send(channel, flow, buf, (size_t)MACHNET_MSG_MAX_LEN + 1), EMSGSIZE);
  FAILS(machnet_send(channel, flow, buf, SIZE_MAX), EMSGSIZE);
  FAILS(machnet_send(channel, flow, NULL, 1), EINVAL);
  FAILS(machnet_sendmsg(channel, NULL), EINVAL);
  one.msg_size = 63; /* Not the sum of the pieces. */
  FAILS(machnet_sendmsg(channel, &one), EINVAL);
  one.msg_size = 5;
  one.msg_iov = &null_piece;
  FAILS(machnet_sendmsg(channel, &one), EINVAL);
  one.msg_iov = NULL;
  FAILS(machnet_sendmsg(channel, &one), EINVAL);
  FAILS(machnet_recvmsg(channel, &one), EINVAL);
  one.msg_iov = &piece;
  one.msg_iovlen = SIZE_MAX;
  FAILS(machnet_sendmsg(channel, &one), EINVAL);
  FAILS(machnet_recvmsg(channel, &one), EINVAL);
  FAILS(machnet_recvmsg(channel, NULL), EINVAL);
  FAILS(machnet_sendmmsg(channel, NULL, 1), EINVAL);
  FAILS(machnet_sendmmsg(channel, &one, -1), EINVAL);
  CHECK(machnet_sendmmsg(channel, &one, 1) == 0 && machnet_sendmmsg(channel, &one, 0) == 0);
  FAILS(machnet_recv(channel, buf, sizeof buf, NULL), EINVAL);
  CHECK(machnet_recv(channel, buf, sizeof buf, &flow) == 0);
  CHECK(machnet_recv(channel, NULL, 0, &flow) == 0);

  pthread_t a, b;
  CHECK(pthread_create(&a, NULL, hammer, channel) == 0 && pthread_create(&b, NULL, hammer, channel) == 0);
  CHECK(pthread_join(a, NULL) == 0 && pthread_join(b, NULL) == 0);
}

/* Several messages by one call, and the daemon's end. */
static void gone(const char *where, uint16_t udp_port) {
  void *channel = attach();
  MachnetFlow_t flow;
  char buf[64] = {1};
  MachnetIovec_t piece = {buf, sizeof buf};
  MachnetMsgHdr_t many[4];
  CHECK(machnet_connect(channel, "0.0.0.0", where, udp_port, &flow) == 0);
  for (int i = 0; i < 4; i++)
    many[i] = (MachnetMsgHdr_t){.msg_size = sizeof buf, .flow_info = flow, .msg_iov = &piece, .msg_iovlen = 1};
  CHECK(machnet_sendmmsg(channel, many, 4) == 4);
  many[2].flow_info.dst_port++;
  CHECK(machnet_sendmmsg(channel, many, 4) == 2);
  for (int i = 0; i < 6; i++) CHECK(receive(channel, buf, sizeof buf, &flow) == 64);
  ready();
  ssize_t n;
  while ((n = machnet_recv(channel, buf, sizeof buf, &flow)) == 0) {
  }
  CHECK(n == -1 && errno == EPIPE);
  FAILS(machnet_recv(channel, buf, sizeof buf, &flow), EPIPE);
  FAILS(machnet_listen(channel, "10.9.0.1", 77), EPIPE);
  FAILS(machnet_connect(channel, "10.9.0.1", where, udp_port, &flow), EPIPE);
  FAILS(machnet_send(channel, swapped(flow), buf, 1), EPIPE);
  /* A daemon comes back on the same socket: no new process is needed. */
  time_t end = time(NULL) + 30;
  puts("gone");
  fflush(stdout);
  /* The old daemon may still take a connection while it ends: it is the channel that counts. */
  void *again = NULL;
  while (machnet_init() != 0 || (again = machnet_attach()) == NULL || machnet_listen(again, "10.9.0.1", 77) != 0) {
    CHECK(time(NULL) < end);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "serve") == 0)
    serve((uint16_t)atoi(argv[2]), strtoull(argv[3], NULL, 10));
  else if (argc == 7 && strcmp(argv[1], "ask") == 0)
    ask(argv[2], (uint16_t)atoi(argv[3]), strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10),
        strtoull(argv[6], NULL, 10));
  else if (argc == 4 && strcmp(argv[1], "hello") == 0)
    hello(argv[2], (uint16_t)atoi(argv[3]));
  else if (argc == 4 && strcmp(argv[1], "listen") == 0)
    listen_for_hello((uint16_t)atoi(argv[2]), atoi(argv[3]));
  else if (argc == 3 && strcmp(argv[1], "misuse") == 0)
    misuse(argv[2]);
  else if (argc == 4 && strcmp(argv[1], "gone") == 0)
    gone(argv[2], (uint16_t)atoi(argv[3]));
  else
    return 2;
  return 0;
}
