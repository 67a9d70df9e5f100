/* A program that uses, and misuses, the whole of barewire.h. The library's tests compile and run it. */
#include <barewire.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Layouts are part of the ABI. */
_Static_assert(sizeof(bw_flow) == 8, "bw_flow");
_Static_assert(sizeof(bw_addr) == 24 && offsetof(bw_addr, port) == 2 && offsetof(bw_addr, ip) == 8, "bw_addr");
_Static_assert(sizeof(bw_buf) == 8 && offsetof(bw_buf, len) == 4, "bw_buf");
_Static_assert(sizeof(bw_message) == 16 && offsetof(bw_message, offset) == 8, "bw_message");
_Static_assert(sizeof(bw_connect_options) == 32 && offsetof(bw_connect_options, unordered) == 24, "options");
_Static_assert(sizeof(bw_event) == 88 && offsetof(bw_event, flow) == 8 && offsetof(bw_event, token) == 16 &&
                   offsetof(bw_event, message) == 24 && offsetof(bw_event, local) == 40 &&
                   offsetof(bw_event, remote) == 64,
               "bw_event");
_Static_assert(sizeof(bw_iovec) == sizeof(struct iovec) && offsetof(bw_iovec, len) == offsetof(struct iovec, iov_len),
               "bw_iovec is laid out like struct iovec");

#define CHECK(what)                                                                               \
  do {                                                                                            \
    if (!(what)) {                                                                                \
      fprintf(stderr, "%s:%d: %s: last error: %s\n", __FILE__, __LINE__, #what, bw_last_error()); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

static void ready(void) {
  puts("ready");
  fflush(stdout);
}

static size_t size_of(uint64_t id, size_t most) { return sizeof id + (size_t)(id * 977) % most; }

static unsigned char byte_of(uint64_t id, size_t at) { return (unsigned char)(id * 31 + at * 7 + 1); }

/* Builds a message of 8 bytes of number and a pattern. */
static unsigned char *make(uint64_t id, size_t len) {
  unsigned char *bytes = malloc(len);
  CHECK(bytes != NULL);
  memcpy(bytes, &id, sizeof id);
  for (size_t i = sizeof id; i < len; i++) bytes[i] = byte_of(id, i);
  return bytes;
}

static void serve(uint16_t udp_port, int flows) {
  bw_client *client;
  bw_event event;
  int accepted = 0;
  CHECK(bw_client_attach("serve", NULL, &client) == BW_OK);
  CHECK(bw_listen_wait(client, udp_port, 77, 5000) == BW_OK);
  CHECK(bw_listen_wait(client, udp_port, 78, 5000) == BW_ERR_PORT_TAKEN);
  ready();
  while (flows > 0) {
    CHECK(bw_wait_event(client, 30000, &event) == 1);
    if (event.kind == BW_EVENT_ACCEPTED) {
      char text[BW_ADDR_TEXT_MAX];
      accepted++;
      CHECK(event.token == 77 && event.local.port == udp_port && event.remote.family == 4 && event.remote.port != 0);
      CHECK(bw_addr_format(&event.local, text, sizeof text) > 0 && strncmp(text, "10.9.0.2:", 9) == 0);
    } else if (event.kind == BW_EVENT_MESSAGE) {
      /* In pieces, as a program would that has no room for the whole. */
      unsigned char piece[4096];
      size_t len = bw_message_len(&event.message);
      bw_buf buf;
      CHECK(event.flow == event.message.flow);
      CHECK(bw_reserve(client, len, &buf) == BW_OK);
      for (size_t at = 0; at < len;) {
        memset(piece, 0xa5, sizeof piece);
        int n = bw_message_read_at(client, &event.message, at, piece, sizeof piece);
        CHECK(n > 0);
        CHECK(bw_write(client, &buf, at, piece, (size_t)n) == BW_OK);
        at += (size_t)n;
      }
      CHECK(bw_write(client, &buf, len, "x", 1) == BW_ERR_INVALID);
      CHECK(bw_message_release(client, &event.message) == BW_OK);
      CHECK(bw_message_release(client, &event.message) == BW_ERR_INVALID);
      CHECK(bw_commit(client, event.flow, &buf, 0) == BW_OK);
      CHECK(bw_commit(client, event.flow, &buf, 0) == BW_ERR_INVALID);
      CHECK(bw_flush(client) == BW_OK);
    } else if (event.kind == BW_EVENT_CLOSED) {
      CHECK(event.reason == BW_CLOSED_PEER);
      flows--;
    }
  }
  CHECK(accepted > 0);
  CHECK(bw_unlisten(client, udp_port) == BW_OK);
  CHECK(bw_client_free(client) == BW_OK);
  CHECK(bw_client_free(client) == BW_ERR_HANDLE);
}

/* Waits by poll(2) instead of bw_wait_event. */
static int wait_by_descriptor(bw_client *client, bw_event *event) {
  for (;;) {
    int got = bw_next_event(client, event);
    if (got != 0) return got;
    if (bw_arm(client) == 1) {
      struct pollfd p = {.fd = bw_event_fd(client), .events = POLLIN};
      CHECK(p.fd >= 0 && poll(&p, 1, 30000) == 1);
      /* It has been rung: whoever would sleep now would not be rung again. */
      CHECK(bw_sleep_max_ms(client) == 0);
    }
    CHECK(bw_disarm(client) == BW_OK);
  }
}

static void send_one(bw_client *client, bw_flow flow, uint64_t id, size_t most) {
  size_t len = size_of(id, most);
  unsigned char *bytes = make(id, len);
  if (id % 3 == 0) {
    bw_iovec pieces[3] = {{bytes, 5}, {NULL, 0}, {bytes + 5, len - 5}};
    CHECK(bw_sendv(client, flow, pieces, 3) == BW_OK);
  } else if (id % 3 == 1) {
    bw_buf buf, other;
    CHECK(bw_reserve(client, len, &buf) == BW_OK && bw_reserve(client, 100, &other) == BW_OK);
    CHECK(bw_write(client, &buf, 0, bytes, len) == BW_OK);
    CHECK(bw_abandon(client, &other) == BW_OK && bw_abandon(client, &other) == BW_ERR_INVALID);
    CHECK(bw_commit(client, flow, &buf, id) == BW_OK && bw_flush(client) == BW_OK);
  } else {
    CHECK(bw_send(client, flow, bytes, len) == BW_OK);
  }
  free(bytes);
}

static void ask(const char *where, uint64_t window, uint64_t count, size_t most) {
  bw_client *client;
  bw_addr addr, ours[4];
  bw_flow flow = 0;
  bw_event event;
  uint64_t sent = 0, answers = 0, delivered = 0, tokens = 0;
  int empty = 0, closed = 0;
  CHECK(bw_client_attach("ask", NULL, &client) == BW_OK);
  CHECK(bw_addresses(client, ours, 4) == 1 && ours[0].family == 4 && ours[0].ip[0] == 10 && ours[0].ip[3] == 1);
  CHECK(bw_mtu(client) > 500);
  CHECK(bw_addr_parse(where, 0, &addr) == BW_OK);
  /* A port where nobody listens, both ways. */
  bw_addr nobody = addr;
  nobody.port = 9;
  CHECK(bw_connect_wait(client, &nobody, NULL, 5000, &flow) == BW_ERR_REFUSED);
  CHECK(bw_connect(client, &nobody, NULL, 5) == BW_OK);
  CHECK(bw_wait_event(client, 5000, &event) == 1 && event.kind == BW_EVENT_CONNECT_FAILED);
  CHECK(event.token == 5 && event.reason == BW_CONNECT_REFUSED);
  /* And one where somebody does. */
  bw_connect_options options = {.local = ours[0], .unordered = 1};
  if (window == 1) {
    CHECK(bw_connect_wait(client, &addr, NULL, 5000, &flow) == BW_OK);
  } else {
    CHECK(bw_connect(client, &addr, &options, 6) == BW_OK);
    CHECK(wait_by_descriptor(client, &event) == 1 && event.kind == BW_EVENT_CONNECTED && event.token == 6);
    CHECK(event.remote.port == addr.port && memcmp(event.local.ip, ours[0].ip, 16) == 0);
    flow = event.flow;
  }
  for (; sent < window && sent < count; sent++) send_one(client, flow, sent, most);
  while (answers < count || empty == 0 || delivered < tokens || closed == 0) {
    int got = window % 2 ? bw_wait_event(client, 30000, &event) : wait_by_descriptor(client, &event);
    CHECK(got == 1 && event.flow == flow);
    if (event.kind == BW_EVENT_DELIVERED) {
      CHECK(event.token % 3 == 1);
      delivered++;
    } else if (event.kind == BW_EVENT_MESSAGE && bw_message_len(&event.message) == 0) {
      CHECK(answers == count);
      CHECK(bw_message_release(client, &event.message) == BW_OK);
      empty = 1;
      for (uint64_t id = 0; id < count; id++) tokens += id % 3 == 1;
      CHECK(bw_close(client, flow) == BW_OK);
    } else if (event.kind == BW_EVENT_MESSAGE) {
      size_t len = bw_message_len(&event.message);
      unsigned char *bytes = malloc(len + 8);
      uint64_t id;
      CHECK(bytes != NULL && len >= sizeof id);
      memset(bytes, 0xa5, len + 8);
      CHECK(bw_message_read(client, &event.message, bytes, len + 8) == (int)len);
      CHECK(bytes[len] == 0xa5);
      CHECK(bw_message_read(client, &event.message, &id, sizeof id) == 8);
      CHECK(bw_message_release(client, &event.message) == BW_OK);
      CHECK(id < count && len == size_of(id, most));
      for (size_t i = sizeof id; i < len; i++) CHECK(bytes[i] == byte_of(id, i));
      free(bytes);
      answers++;
      if (sent < count)
        send_one(client, flow, sent++, most);
      else if (answers == count)
        CHECK(bw_send(client, flow, NULL, 0) == BW_OK);
    } else {
      CHECK(event.kind == BW_EVENT_CLOSED && event.reason == BW_CLOSED_LOCAL);
      closed = 1;
    }
  }
  CHECK(answers == count && delivered == tokens);
  /* A flow that has ended takes nothing. */
  bw_buf buf;
  CHECK(bw_reserve(client, 3, &buf) == BW_OK && bw_write(client, &buf, 0, "abc", 3) == BW_OK);
  CHECK(bw_commit(client, flow, &buf, 9) == BW_ERR_NO_FLOW && bw_send(client, flow, "abc", 3) == BW_ERR_NO_FLOW);
  CHECK(bw_wait_event(client, 0, &event) == 0);
  CHECK(bw_client_free(client) == BW_OK);
}

static void *ask_in_thread(void *where) {
  ask(where, 8, 500, 2000);
  return NULL;
}

/* Sends until there is no room, then waits as the header says, and goes on; nobody reads. */
static void again(const char *where) {
  static unsigned char bytes[65536];
  bw_client *client;
  bw_addr addr;
  bw_flow flow, other;
  bw_event event;
  bw_buf buf;
  int rounds = 0, code;
  CHECK(bw_client_attach("again", NULL, &client) == BW_OK);
  CHECK(bw_addr_parse(where, 0, &addr) == BW_OK && bw_connect_wait(client, &addr, NULL, 5000, &flow) == BW_OK);
  CHECK(bw_connect_wait(client, &addr, NULL, 5000, &other) == BW_OK);
  while (rounds < 20) {
    while ((code = bw_send(client, flow, bytes, sizeof bytes)) == BW_OK) {
    }
    CHECK(code == BW_ERR_AGAIN);
    /* The peer's transport takes them for a while; afterwards its application would have to read. */
    if (++rounds % 2) {
      code = bw_wait_event(client, 3000, &event);
    } else {
      for (int i = 0; (code = bw_next_event(client, &event)) == 0 && i < 3000; i++) {
        struct timespec ms = {0, 1000000};
        CHECK(bw_flush(client) == BW_OK && nanosleep(&ms, NULL) == 0);
      }
    }
    if (code == 0) break;
    CHECK(code == 1 && event.kind == BW_EVENT_WRITABLE && event.flow == flow);
  }
  CHECK(rounds > 1);
  /* The other flow goes on, whatever becomes of this one. */
  CHECK(bw_reserve(client, 5, &buf) == BW_OK && bw_write(client, &buf, 0, "hello", 5) == BW_OK);
  CHECK(bw_commit(client, other, &buf, 5) == BW_OK && bw_flush(client) == BW_OK);
  while ((code = bw_wait_event(client, 5000, &event)) == 1 && event.kind == BW_EVENT_WRITABLE) {
  }
  CHECK(code == 1 && event.flow == other);
  CHECK(event.kind == BW_EVENT_DELIVERED && event.token == 5);
  CHECK(bw_client_free(client) == BW_OK);
}

/* Waits for room on a flow that is closed, and on one whose peer is killed: each wait ends, and the next try says why. */
static void again_until_the_end(const char *where) {
  static unsigned char bytes[65536];
  bw_client *client;
  bw_addr addr;
  bw_flow flow[2];
  bw_event event;
  CHECK(bw_client_attach("again", NULL, &client) == BW_OK && bw_addr_parse(where, 0, &addr) == BW_OK);
  for (int i = 0; i < 2; i++) CHECK(bw_connect_wait(client, &addr, NULL, 5000, &flow[i]) == BW_OK);
  for (int i = 0; i < 2; i++) {
    int code;
    for (;;) {
      while ((code = bw_send(client, flow[i], bytes, sizeof bytes)) == BW_OK) {
      }
      CHECK(code == BW_ERR_AGAIN);
      /* The peer's transport takes some more for a while. */
      if ((code = bw_wait_event(client, 1000, &event)) == 0) break;
      CHECK(code == 1 && event.kind == BW_EVENT_WRITABLE && event.flow == flow[i]);
    }
    if (i == 0)
      CHECK(bw_close(client, flow[i]) == BW_OK);
    else
      ready();
    while ((code = bw_wait_event(client, 10000, &event)) == 1 && event.kind != BW_EVENT_WRITABLE)
      CHECK(event.kind == BW_EVENT_CLOSED && i == 1);
    CHECK(code == 1 && event.flow == flow[i]);
    CHECK(bw_send(client, flow[i], bytes, 1) == (i == 0 ? BW_ERR_CLOSING : BW_ERR_NO_FLOW));
  }
  CHECK(bw_client_free(client) == BW_OK);
}

/* Takes connections and no messages until it is killed. */
static void sleep_on(uint16_t udp_port) {
  bw_client *client;
  CHECK(bw_client_attach("sleep", NULL, &client) == BW_OK && bw_listen_wait(client, udp_port, 0, 5000) == BW_OK);
  ready();
  for (;;) pause();
}

static void cancel(void) {
  bw_client *client;
  bw_addr addr;
  bw_flow flow;
  bw_event event;
  CHECK(bw_client_attach("cancel", NULL, &client) == BW_OK);
  /* Nobody has this address. */
  CHECK(bw_addr_parse("10.9.0.77:5", 0, &addr) == BW_OK);
  CHECK(bw_connect_wait(client, &addr, NULL, 1, &flow) == BW_ERR_TIMED_OUT);
  CHECK(bw_connect(client, &addr, NULL, 7) == BW_OK && bw_connect(client, &addr, NULL, 7) == BW_OK);
  CHECK(bw_connect(client, &addr, NULL, 8) == BW_OK);
  CHECK(bw_cancel(client, 7) == 2 && bw_cancel(client, 7) == 0);
  for (int i = 0; i < 2; i++) {
    CHECK(bw_wait_event(client, 5000, &event) == 1 && event.kind == BW_EVENT_CONNECT_FAILED);
    CHECK(event.token == 7 && event.reason == BW_CONNECT_CANCELLED);
  }
  /* One of two with the same token is answered: the other one is given up, whichever was first. */
  bw_addr nobody;
  CHECK(bw_addr_parse("10.9.0.2:9", 0, &nobody) == BW_OK);
  for (int first = 0; first < 2; first++) {
    CHECK(bw_connect(client, first ? &nobody : &addr, NULL, 9) == BW_OK);
    CHECK(bw_connect(client, first ? &addr : &nobody, NULL, 9) == BW_OK);
    CHECK(bw_wait_event(client, 5000, &event) == 1 && event.kind == BW_EVENT_CONNECT_FAILED);
    CHECK(event.token == 9 && event.reason == BW_CONNECT_REFUSED);
    CHECK(bw_cancel(client, 9) == 1);
    CHECK(bw_wait_event(client, 5000, &event) == 1 && event.kind == BW_EVENT_CONNECT_FAILED);
    CHECK(event.token == 9 && event.reason == BW_CONNECT_CANCELLED && bw_cancel(client, 9) == 0);
  }
  CHECK(bw_close_wait(client, 5000) == BW_OK && bw_client_free(client) == BW_OK);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal) {
  (void)signal;
  alarms++;
}

/* Signals end a wait for events, and nothing else. */
static void signals(void) {
  bw_client *client;
  bw_addr addr;
  bw_flow flow;
  bw_event event;
  struct sigaction action = {.sa_handler = on_alarm};
  struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
  for (int i = 0; i < 20; i++) {
    CHECK(bw_client_attach("signals", NULL, &client) == BW_OK);
    if (i < 19) CHECK(bw_client_free(client) == BW_OK);
  }
  CHECK(bw_addr_parse("10.9.0.77:5", 0, &addr) == BW_OK);
  CHECK(bw_connect_wait(client, &addr, NULL, 200, &flow) == BW_ERR_TIMED_OUT && alarms > 0);
  CHECK(bw_listen_wait(client, 888, 0, 5000) == BW_OK);
  CHECK(bw_wait_event(client, -1, &event) == BW_ERR_INTERRUPTED);
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  /* It was no wait of somebody else's that is still going on. */
  CHECK(bw_wait_event(client, 10, &event) == 0 && bw_client_free(client) == BW_OK);
}

/* A child has none of its parent's clients, and does not keep them alive. */
static void forks(int steady) {
  bw_client *client, *own;
  bw_event event;
  int pipe_of[2];
  char byte = 0;
  CHECK((steady ? bw_client_attach_steady : bw_client_attach)("fork", NULL, &client) == BW_OK);
  CHECK(bw_listen_wait(client, 888, 0, 5000) == BW_OK);
  CHECK(pipe(pipe_of) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    /* Ends by itself where a call does not come back. */
    alarm(60);
    CHECK(bw_listen(client, 889, 0) == BW_ERR_DAEMON_GONE && bw_send(client, 1, "x", 1) == BW_ERR_DAEMON_GONE);
    CHECK(bw_next_event(client, &event) == BW_ERR_DAEMON_GONE &&
          bw_wait_event(client, -1, &event) == BW_ERR_DAEMON_GONE);
    CHECK(bw_client_attach("child", NULL, &own) == BW_OK && bw_listen_wait(own, 889, 0, 5000) == BW_OK);
    CHECK(bw_client_free(own) == BW_OK);
    if (steady) CHECK(bw_client_free(client) == BW_OK);
    CHECK(write(pipe_of[1], "k", 1) == 1);
    close(1);
    close(2);
    /* Ends by itself if nobody ends it. */
    sleep(60);
    _exit(0);
  }
  CHECK(read(pipe_of[0], &byte, 1) == 1 && byte == 'k');
  CHECK(bw_listen_wait(client, 890, 0, 5000) == BW_OK);
  printf("%d\n", (int)child);
  fflush(stdout);
  _exit(0);
}

/* A child that frees a client with an engine of its own leaves the parent's as it is. */
static void forks_embedded(const char *place) {
  bw_client *client;
  bw_addr addr;
  bw_flow flow;
  bw_event event;
  int status;
  CHECK(bw_client_attach("fork", place, &client) == BW_OK && bw_listen_wait(client, 888, 0, 5000) == BW_OK);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(30);
    CHECK(bw_next_event(client, &event) == BW_ERR_DAEMON_GONE && bw_client_free(client) == BW_OK);
    CHECK(bw_next_event(client, &event) == BW_ERR_HANDLE);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(bw_addr_parse("10.0.0.1:888", 0, &addr) == BW_OK && bw_connect_wait(client, &addr, NULL, 5000, &flow) == BW_OK);
  CHECK(bw_send(client, flow, "hello", 5) == BW_OK);
  do CHECK(bw_wait_event(client, 5000, &event) == 1);
  while (event.kind != BW_EVENT_MESSAGE);
  puts("works on");
  fflush(stdout);
  /* Until its folder was looked for. */
  getchar();
  CHECK(bw_client_free(client) == BW_OK);
}

/* A child of who has an endpoint in its own thread moves no frames of it, and leaves its port alone when it exits. */
static void forks_in_thread(const char *port, const char *file) {
  bw_embedded *endpoint, *own;
  bw_event event;
  int status;
  CHECK(bw_embedded_open(port, "10.0.0.1/24", NULL, &endpoint) == BW_OK && access(file, F_OK) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(30);
    CHECK(bw_embedded_poll(endpoint) == BW_ERR_HANDLE && bw_embedded_next_event(endpoint, &event) == BW_ERR_HANDLE);
    CHECK(bw_embedded_send(endpoint, 1, "x", 1) == BW_ERR_HANDLE &&
          bw_embedded_listen(endpoint, 888, 0) == BW_ERR_HANDLE);
    CHECK(bw_embedded_open("mem:fork-own", "10.0.0.2/24", NULL, &own) == BW_OK && bw_embedded_poll(own) >= 0);
    CHECK(bw_embedded_free(own) == BW_OK);
    /* What it inherited is dropped with the thread. */
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(access(file, F_OK) == 0 && bw_embedded_poll(endpoint) >= 0 && bw_embedded_free(endpoint) == BW_OK);
}

static double seconds(void) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Its daemon goes, and what comes in its place takes connections and says nothing: nobody waits for that. */
static void silent(void) {
  bw_client *client;
  bw_event event;
  CHECK(bw_client_attach_steady("silent", NULL, &client) == BW_OK);
  ready();
  do CHECK(bw_wait_event(client, 30000, &event) == 1);
  while (event.kind != BW_EVENT_DETACHED);
  puts("detached");
  fflush(stdout);
  getchar();
  for (int i = 0; i < 40; i++) {
    double start = seconds();
    CHECK(bw_next_event(client, &event) == 0);
    CHECK(seconds() - start < 0.05);
    start = seconds();
    CHECK(bw_wait_event(client, 10, &event) == 0);
    CHECK(seconds() - start < 0.2);
  }
  CHECK(bw_client_free(client) == BW_OK);
}

static atomic_int writes;

/* Writes a long message over and over. */
static void *write_in_thread(void *of) {
  enum { LONG = 32 << 20 };
  unsigned char *bytes = calloc(LONG, 1);
  bw_buf buf;
  CHECK(bytes != NULL && bw_reserve(of, LONG, &buf) == BW_OK);
  for (int i = 0; i < 30; i++) {
    CHECK(bw_write(of, &buf, 0, bytes, LONG) == BW_OK);
    writes++;
  }
  CHECK(bw_abandon(of, &buf) == BW_OK);
  free(bytes);
  return NULL;
}

/* Calls that do not take their time are waited for, however long their messages are: BW_ERR_BUSY is for the others. */
static void busy(void) {
  bw_client *client;
  bw_addr addr;
  bw_flow flow;
  pthread_t one;
  CHECK(bw_client_attach("busy", NULL, &client) == BW_OK);
  CHECK(pthread_create(&one, NULL, write_in_thread, client) == 0);
  while (writes < 30) CHECK(bw_flush(client) == BW_OK);
  CHECK(pthread_join(one, NULL) == 0);
  CHECK(bw_addr_parse("10.9.0.77:5", 0, &addr) == BW_OK);
  CHECK(bw_connect_wait(client, &addr, NULL, 10, &flow) == BW_ERR_TIMED_OUT);
  CHECK(bw_client_free(client) == BW_OK);
}

struct waiter {
  bw_client *client;
  int messages;
};

/* Answers every message until it is woken. */
static void *wait_in_thread(void *of) {
  struct waiter *waiter = of;
  bw_event event;
  for (;;) {
    int code = bw_wait_event(waiter->client, -1, &event);
    CHECK(code == 1);
    if (event.kind == BW_EVENT_WOKEN) return NULL;
    if (event.kind == BW_EVENT_MESSAGE) {
      waiter->messages++;
      CHECK(bw_message_release(waiter->client, &event.message) == BW_OK);
    }
  }
}

static void threads(char *where) {
  pthread_t one, two;
  CHECK(pthread_create(&one, NULL, ask_in_thread, where) == 0 && pthread_create(&two, NULL, ask_in_thread, where) == 0);
  CHECK(pthread_join(one, NULL) == 0 && pthread_join(two, NULL) == 0);

  /* One thread waits for events while another sends on the same client. */
  struct waiter waiter = {0};
  bw_client *client, *other;
  bw_addr addr;
  bw_flow flow;
  bw_event event;
  const int count = 500;
  CHECK(bw_client_attach("both", NULL, &client) == BW_OK && bw_addr_parse(where, 0, &addr) == BW_OK);
  CHECK(bw_connect_wait(client, &addr, NULL, 5000, &flow) == BW_OK);
  waiter.client = client;
  CHECK(pthread_create(&one, NULL, wait_in_thread, &waiter) == 0);
  for (int i = 0; i < count; i++) {
    int code;
    while ((code = bw_send(client, flow, "0123456789", 10)) == BW_ERR_AGAIN || code == BW_ERR_BUSY) sched_yield();
    CHECK(code == BW_OK);
  }
  CHECK(bw_wake(client) == BW_OK);
  CHECK(pthread_join(one, NULL) == 0);
  /* A wake-up before the wait is not lost, and there is one. */
  CHECK(bw_wake(client) == BW_OK);
  for (int woken = 0; woken == 0;) {
    CHECK(bw_wait_event(client, 30000, &event) == 1);
    woken = event.kind == BW_EVENT_WOKEN;
    if (event.kind == BW_EVENT_MESSAGE) {
      waiter.messages++;
      CHECK(bw_message_release(client, &event.message) == BW_OK);
    }
  }
  while (waiter.messages < count) {
    CHECK(bw_wait_event(client, 30000, &event) == 1 && event.kind == BW_EVENT_MESSAGE);
    waiter.messages++;
    CHECK(bw_message_release(client, &event.message) == BW_OK);
  }
  CHECK(bw_close_wait(client, 30000) == BW_OK);

  /* What would take the wake-ups of a thread that waits is refused, the rest is not, and nothing blocks. */
  waiter = (struct waiter){.client = client};
  CHECK(pthread_create(&one, NULL, wait_in_thread, &waiter) == 0);
  int code;
  while ((code = bw_wait_event(client, 0, &event)) == 0) sched_yield();
  CHECK(code == BW_ERR_BUSY && strcmp(bw_last_error(), bw_strerror(BW_ERR_BUSY)) == 0);
  CHECK(bw_client_free(client) == BW_ERR_BUSY && bw_arm(client) == BW_ERR_BUSY && bw_disarm(client) == BW_ERR_BUSY);
  CHECK(bw_close_wait(client, 0) == BW_ERR_BUSY && bw_next_event(client, &event) == 0 && bw_flush(client) == BW_OK);
  /* Another client goes on meanwhile. */
  CHECK(bw_client_attach("other", NULL, &other) == BW_OK && bw_flush(other) == BW_OK);
  CHECK(bw_client_free(other) == BW_OK);
  CHECK(bw_wake(client) == BW_OK);
  CHECK(pthread_join(one, NULL) == 0);
  /* Clients may move between threads. */
  CHECK(bw_flush(client) == BW_OK && bw_client_free(client) == BW_OK);
}

static void misuse(const char *missing) {
  bw_client *client = (bw_client *)1;
  bw_event event;
  bw_addr addr;
  bw_flow flow;
  bw_buf buf;
  bw_message message = {0};
  char text[BW_ADDR_TEXT_MAX];

  CHECK(bw_abi_version() == BW_ABI_VERSION && strchr(bw_version(), '.') != NULL);
  CHECK(strcmp(bw_last_error(), "no error") == 0 && strcmp(bw_strerror(BW_OK), "no error") == 0);
  for (int code = -1000; code < 1000; code++) CHECK(bw_strerror(code) != NULL);

  /* No daemon there: a code, a text with a hint, and a client that is null. */
  CHECK(bw_client_attach("x", missing, &client) == BW_ERR_NO_DAEMON && client == NULL);
  puts(bw_last_error());
  CHECK(bw_client_attach("x", "", &client) == BW_ERR_NO_DAEMON && client == NULL);
  CHECK(bw_client_attach("x", NULL, NULL) == BW_ERR_INVALID);
  CHECK(bw_client_attach(NULL, NULL, &client) == BW_OK && client != NULL);

  /* Every function with null, invented and freed clients. */
  bw_client *freed;
  CHECK(bw_client_attach("\xff\xfe", NULL, &freed) == BW_OK && bw_client_free(freed) == BW_OK);
  bw_client *wrong[] = {NULL,
                        freed,
                        (bw_client *)1,
                        (bw_client *)2,
                        (bw_client *)&event,
                        (bw_client *)~(uintptr_t)0,
                        (bw_client *)0xa5a5a5a5};
  CHECK(bw_addr_parse("10.9.0.2", 888, &addr) == BW_OK && addr.port == 888 && addr.family == 4);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    bw_client *w = wrong[i];
    message.len = 4;
    buf.offset = 0;
    buf.len = 4;
    CHECK(bw_client_free(w) == (w == NULL ? BW_OK : BW_ERR_HANDLE));
    CHECK(bw_addresses(w, &addr, 0) == BW_ERR_HANDLE && bw_mtu(w) == BW_ERR_HANDLE);
    CHECK(bw_listen(w, 1, 0) == BW_ERR_HANDLE && bw_listen_wait(w, 1, 0, 0) == BW_ERR_HANDLE);
    CHECK(bw_unlisten(w, 1) == BW_ERR_HANDLE);
    CHECK(bw_cancel(w, 1) == BW_ERR_HANDLE && bw_wake(w) == BW_ERR_HANDLE && bw_close_wait(w, 0) == BW_ERR_HANDLE);
    CHECK(bw_connect(w, &addr, NULL, 0) == BW_ERR_HANDLE);
    CHECK(bw_connect_wait(w, &addr, NULL, 0, &flow) == BW_ERR_HANDLE);
    CHECK(bw_close(w, 1) == BW_ERR_HANDLE && bw_reset(w, 1) == BW_ERR_HANDLE);
    CHECK(bw_send(w, 1, "x", 1) == BW_ERR_HANDLE && bw_sendv(w, 1, NULL, 0) == BW_ERR_HANDLE);
    CHECK(bw_reserve(w, 1, &buf) == BW_ERR_HANDLE && bw_write(w, &buf, 0, "x", 1) == BW_ERR_HANDLE);
    CHECK(bw_commit(w, 1, &buf, 0) == BW_ERR_HANDLE && bw_abandon(w, &buf) == BW_ERR_HANDLE);
    CHECK(bw_flush(w) == BW_ERR_HANDLE && bw_next_event(w, &event) == BW_ERR_HANDLE);
    CHECK(bw_wait_event(w, 0, &event) == BW_ERR_HANDLE);
    CHECK(bw_event_fd(w) == BW_ERR_HANDLE && bw_arm(w) == BW_ERR_HANDLE && bw_disarm(w) == BW_ERR_HANDLE);
    CHECK(bw_message_read(w, &message, text, 4) == BW_ERR_HANDLE);
    CHECK(bw_message_release(w, &message) == BW_ERR_HANDLE);
  }

  /* Null where something has to be, and values that cannot be. */
  bw_addr bad = addr;
  bad.family = 5;
  bw_addr zero_port = addr;
  zero_port.port = 0;
  bw_connect_options odd = {.local = {.family = 9}};
  CHECK(bw_addresses(client, NULL, 1) == BW_ERR_INVALID && bw_addresses(client, NULL, 0) == 1);
  CHECK(bw_listen(client, 0, 0) == BW_ERR_INVALID && bw_listen_wait(client, 0, 0, 0) == BW_ERR_INVALID);
  CHECK(bw_connect(client, NULL, NULL, 0) == BW_ERR_INVALID && bw_connect(client, &bad, NULL, 0) == BW_ERR_INVALID);
  CHECK(bw_connect(client, &zero_port, NULL, 0) == BW_ERR_INVALID);
  CHECK(bw_connect(client, &addr, &odd, 0) == BW_ERR_INVALID);
  CHECK(bw_connect(client, &addr, NULL, UINT64_C(1) << 63) == BW_ERR_INVALID);
  CHECK(bw_connect_wait(client, &addr, NULL, 0, NULL) == BW_ERR_INVALID);
  CHECK(bw_send(client, 1, NULL, 1) == BW_ERR_INVALID);
  CHECK(bw_send(client, 1, text, (size_t)BW_MESSAGE_MAX + 1) == BW_ERR_TOO_LARGE);
  CHECK(bw_send(client, 1, text, SIZE_MAX) == BW_ERR_TOO_LARGE);
  bw_iovec pieces[2] = {{NULL, 1}, {NULL, 0}};
  CHECK(bw_sendv(client, 1, pieces, 2) == BW_ERR_INVALID && bw_sendv(client, 1, NULL, 1) == BW_ERR_INVALID);
  CHECK(bw_sendv(client, 1, pieces, SIZE_MAX) == BW_ERR_INVALID);
  CHECK(bw_reserve(client, 1, NULL) == BW_ERR_INVALID);
  CHECK(bw_reserve(client, SIZE_MAX, &buf) == BW_ERR_TOO_LARGE);
  CHECK(bw_write(client, NULL, 0, "x", 1) == BW_ERR_INVALID);
  CHECK(bw_reserve(client, 4, &buf) == BW_OK);
  CHECK(bw_write(client, &buf, SIZE_MAX, "x", 1) == BW_ERR_INVALID &&
        bw_write(client, &buf, 0, NULL, 1) == BW_ERR_INVALID);
  CHECK(bw_commit(client, 1, &buf, UINT64_C(1) << 63) == BW_ERR_INVALID);
  CHECK(bw_commit(client, 1, NULL, 0) == BW_ERR_INVALID && bw_abandon(client, NULL) == BW_ERR_INVALID);
  CHECK(bw_abandon(client, &buf) == BW_OK);
  CHECK(bw_next_event(client, NULL) == BW_ERR_INVALID && bw_wait_event(client, 0, NULL) == BW_ERR_INVALID);
  CHECK(bw_message_len(NULL) == 0 && bw_message_read(client, NULL, text, 1) == BW_ERR_INVALID);
  CHECK(bw_message_release(client, NULL) == BW_ERR_INVALID);
  message = (bw_message){.flow = 1, .offset = 0, .len = 16};
  CHECK(bw_message_read(client, &message, NULL, 1) == BW_ERR_INVALID);
  CHECK(bw_message_read_at(client, &message, SIZE_MAX, text, 1) == BW_ERR_INVALID);
  message = (bw_message){.flow = 1, .offset = 0xfffffff0, .len = 16};
  CHECK(bw_message_read(client, &message, text, sizeof text) == BW_ERR_INVALID);
  CHECK(bw_addr_parse(NULL, 0, &addr) == BW_ERR_INVALID && bw_addr_parse("10.9.0.2", 1, NULL) == BW_ERR_INVALID);
  CHECK(bw_addr_parse("", 0, &addr) == BW_ERR_INVALID && bw_addr_parse("10.9.0", 0, &addr) == BW_ERR_INVALID);
  CHECK(bw_addr_parse("host:1", 0, &addr) == BW_ERR_INVALID && strstr(bw_last_error(), "host:1") != NULL);
  CHECK(bw_addr_parse("[fd00::2]:7", 0, &addr) == BW_OK && addr.family == 6 && addr.port == 7 && addr.ip[15] == 2);
  CHECK(bw_addr_format(&addr, text, sizeof text) == 11 && strcmp(text, "[fd00::2]:7") == 0);
  CHECK(bw_addr_format(&addr, text, 11) == BW_ERR_INVALID && bw_addr_format(&addr, text, 12) == 11);
  CHECK(bw_addr_format(NULL, text, 9) == BW_ERR_INVALID && bw_addr_format(&addr, NULL, 9) == BW_ERR_INVALID);

  /* Claims that are not ours: the daemon passes them over, and the client still works. */
  CHECK(bw_send(client, 12345, "x", 1) == BW_ERR_NO_FLOW && bw_close(client, 12345) == BW_OK &&
        bw_reset(client, 0) == BW_OK);
  message = (bw_message){.flow = 7, .offset = 64, .len = 64};
  CHECK(bw_message_release(client, &message) == BW_OK);
  buf = (bw_buf){.offset = 0xffffff00, .len = 0xffffffff};
  CHECK(bw_write(client, &buf, 0xf000, "x", 1) == BW_ERR_INVALID);
  CHECK(bw_commit(client, 3, &buf, 4) == BW_ERR_INVALID && bw_flush(client) == BW_OK);
  /* Copies of a buffer are names for the same one, which is used up once. */
  CHECK(bw_reserve(client, 8, &buf) == BW_OK);
  bw_buf copy = buf, longer = {.offset = buf.offset, .len = 9};
  CHECK(bw_write(client, &longer, 0, "x", 1) == BW_ERR_INVALID && bw_abandon(client, &longer) == BW_ERR_INVALID);
  CHECK(bw_abandon(client, &buf) == BW_OK && bw_write(client, &copy, 0, "x", 1) == BW_ERR_INVALID);
  CHECK(bw_commit(client, 3, &copy, 4) == BW_ERR_INVALID);
  CHECK(bw_cancel(client, 77) == 0);
  CHECK(bw_listen_wait(client, 4000, 0, 5000) == BW_OK);

  /* As many clients as the daemon has room for, and one code for the next. */
  bw_client *many[100];
  int n = 0, code = BW_OK;
  while (n < 100 && (code = bw_client_attach("many", NULL, &many[n])) == BW_OK) n++;
  CHECK(n > 10 && n < 100 && code == BW_ERR_NOT_ADMITTED && strstr(bw_last_error(), "applications") != NULL);
  while (n > 0) CHECK(bw_client_free(many[--n]) == BW_OK);
  CHECK(bw_client_free(client) == BW_OK);
}

static void gone(const char *how) {
  bw_client *client;
  bw_event event;
  bw_addr addr;
  bw_flow flow;
  int got = 0;
  CHECK(bw_client_attach("gone", NULL, &client) == BW_OK);
  /* Nobody has this address, so connecting to it takes a while. */
  CHECK(bw_addr_parse("10.9.0.77:5", 0, &addr) == BW_OK);
  ready();
  if (strcmp(how, "wait") == 0) {
    while ((got = bw_wait_event(client, -1, &event)) == 1) {
    }
  } else if (strcmp(how, "poll") == 0) {
    while ((got = bw_next_event(client, &event)) >= 0) {
    }
  } else {
    while ((got = bw_connect_wait(client, &addr, NULL, -1, &flow)) == BW_ERR_UNREACHABLE) {
    }
  }
  CHECK(got == BW_ERR_DAEMON_GONE);
  CHECK(bw_wait_event(client, -1, &event) == BW_ERR_DAEMON_GONE && bw_next_event(client, &event) == BW_ERR_DAEMON_GONE);
  CHECK(bw_listen_wait(client, 5, 0, -1) == BW_ERR_DAEMON_GONE);
  CHECK(bw_arm(client) == 0);
  /* Whatever is queued in vain, the ring fills up, and then that is the code. */
  int code = BW_OK;
  for (int i = 0; i < 100000 && code == BW_OK; i++) code = bw_send(client, 1, "x", 1);
  CHECK(code == BW_ERR_DAEMON_GONE);
  bw_message message = {.flow = 1, .offset = 64, .len = 64};
  CHECK(bw_message_release(client, &message) == BW_OK);
  CHECK(bw_client_free(client) == BW_OK);
  puts("gone");
}

/* The next event, by waiting for it or by looking for it. */
static bw_event next_of(bw_client *client, const char *how) {
  bw_event event;
  int got;
  if (strcmp(how, "wait") == 0) {
    CHECK(bw_wait_event(client, 30000, &event) == 1);
    return event;
  }
  for (int i = 0; (got = bw_next_event(client, &event)) == 0 && i < 30000; i++) {
    struct timespec ms = {0, 1000000};
    CHECK(nanosleep(&ms, NULL) == 0);
  }
  CHECK(got == 1);
  return event;
}

/* Outlives its daemon: hears what became of what it had sent, and listens again when there is another. */
static void steady(const char *where, const char *how) {
  static char bytes[4096];
  bw_client *client;
  bw_event event;
  bw_addr addr;
  bw_flow flow;
  bw_message old;
  uint64_t sent = 0, first = 0;
  int code;
  CHECK(bw_client_attach_steady("steady", NULL, &client) == BW_OK);
  CHECK(bw_listen_wait(client, 700, 9, 5000) == BW_OK);
  CHECK(bw_unconfirmed(client, bytes, sizeof bytes) == BW_ERR_INVALID);
  /* A message from this very host, to have one in hand. */
  CHECK(bw_addr_parse("10.9.0.1:700", 0, &addr) == BW_OK && bw_connect_wait(client, &addr, NULL, 5000, &flow) == BW_OK);
  CHECK(bw_send(client, flow, "in hand", 7) == BW_OK);
  do event = next_of(client, how);
  while (event.kind != BW_EVENT_MESSAGE);
  old = event.message;
  CHECK(bw_message_read(client, &old, bytes, sizeof bytes) == 7 && memcmp(bytes, "in hand", 7) == 0);
  /* Its reader sleeps, so that of all that is sent some stays unconfirmed. */
  CHECK(bw_addr_parse(where, 0, &addr) == BW_OK && bw_connect_wait(client, &addr, NULL, 5000, &flow) == BW_OK);
  for (;;) {
    bw_buf buf;
    memset(bytes, (int)(sent % 251), sizeof bytes);
    memcpy(bytes, &sent, sizeof sent);
    if ((code = bw_reserve(client, sizeof bytes, &buf)) == BW_OK) {
      CHECK(bw_write(client, &buf, 0, bytes, sizeof bytes) == BW_OK);
      code = bw_commit(client, flow, &buf, sent + 1);
    }
    if (code == BW_OK) {
      sent++;
      continue;
    }
    CHECK(code == BW_ERR_AGAIN && bw_flush(client) == BW_OK);
    /* Its transport takes them for a while; then nothing comes any more. */
    code = bw_wait_event(client, 500, &event);
    if (code == 0 && sent > first) break;
    CHECK(code >= 0);
    if (code == 1 && event.kind == BW_EVENT_DELIVERED) CHECK(event.token == ++first);
  }
  ready();

  do {
    event = next_of(client, how);
    if (event.kind == BW_EVENT_DELIVERED) CHECK(event.token == ++first);
  } while (event.kind != BW_EVENT_DETACHED);
  /* Both ends of the one flow, and one of the other. */
  CHECK(event.reason == 3 && event.token == sent - first && event.token > 0);
  CHECK(bw_send(client, flow, "x", 1) == BW_ERR_DAEMON_GONE && bw_listen(client, 701, 0) == BW_ERR_DAEMON_GONE);
  for (uint64_t number = first; number < sent; number++) {
    static char again[sizeof bytes];
    event = next_of(client, how);
    CHECK(event.kind == BW_EVENT_UNCONFIRMED && event.flow == flow && event.token == number + 1);
    CHECK(event.reason == sizeof bytes && bw_unconfirmed(client, NULL, 0) == (int)sizeof bytes);
    CHECK(bw_unconfirmed(client, again, sizeof again) == (int)sizeof bytes);
    memset(bytes, (int)(number % 251), sizeof bytes);
    memcpy(bytes, &number, sizeof number);
    CHECK(memcmp(again, bytes, sizeof bytes) == 0);
  }
  for (int i = 0; i < 3; i++) {
    event = next_of(client, how);
    CHECK(event.kind == BW_EVENT_CLOSED && event.reason == BW_CLOSED_LOCAL_RESET);
  }
  CHECK(bw_message_read(client, &old, bytes, sizeof bytes) == 7 && memcmp(bytes, "in hand", 7) == 0);
  /* Who waits for room on the flow hears that there is nothing to wait for. */
  event = next_of(client, how);
  CHECK(event.kind == BW_EVENT_WRITABLE && (event.flow == flow || event.flow == 0));
  CHECK(bw_wait_event(client, 120, &event) == 0 && bw_next_event(client, &event) == 0);
  CHECK(bw_wake(client) == BW_OK && bw_wait_event(client, -1, &event) == 1 && event.kind == BW_EVENT_WOKEN);
  puts("detached");
  fflush(stdout);

  event = next_of(client, how);
  CHECK(event.kind == BW_EVENT_REATTACHED);
  event = next_of(client, how);
  CHECK(event.kind == BW_EVENT_LISTENING && event.token == 9 && event.local.port == 700);
  CHECK(bw_message_read(client, &old, bytes, sizeof bytes) == BW_ERR_INVALID);
  CHECK(bw_message_release(client, &old) == BW_ERR_INVALID);
  CHECK(bw_send(client, flow, "x", 1) == BW_ERR_NO_FLOW);
  CHECK(bw_addr_parse("10.9.0.1:700", 0, &addr) == BW_OK && bw_connect_wait(client, &addr, NULL, 5000, &flow) == BW_OK);
  CHECK(bw_send(client, flow, "anew", 4) == BW_OK);
  do event = next_of(client, how);
  while (event.kind != BW_EVENT_MESSAGE);
  CHECK(bw_message_read(client, &event.message, bytes, sizeof bytes) == 4 && memcmp(bytes, "anew", 4) == 0);
  CHECK(bw_message_release(client, &event.message) == BW_OK && bw_client_free(client) == BW_OK);
}

static void *elsewhere(void *endpoint) {
  bw_event event;
  CHECK(bw_embedded_poll(endpoint) == BW_ERR_HANDLE && bw_embedded_next_event(endpoint, &event) == BW_ERR_HANDLE);
  CHECK(bw_embedded_free(endpoint) == BW_ERR_HANDLE);
  return NULL;
}

/* The next event of one of two endpoints of this thread, while both go on. */
static bw_event next_of_two(bw_embedded *wanted, bw_embedded *other) {
  bw_event event;
  int got = 0;
  for (int i = 0; i < 10000000 && got == 0; i++) {
    CHECK(bw_embedded_poll(wanted) >= 0 && bw_embedded_poll(other) >= 0);
    got = bw_embedded_next_event(wanted, &event);
  }
  CHECK(got == 1);
  return event;
}

/* Two endpoints in one thread, as files say: encrypted, with requests and reports. */
static void embedded_by_files(const char *file_of_a, const char *file_of_b, const char *key_of_b) {
  bw_embedded *a, *b, *none;
  bw_event event;
  bw_addr to;
  bw_flow flow, back;
  bw_identity peer;
  const void *where;
  char key[2 * BW_KEY_LEN + 1];
  uint64_t first, second;
  CHECK(bw_embedded_open_file("/nowhere/barewire.toml", &none) == BW_ERR_INVALID && none == NULL);
  CHECK(strstr(bw_last_error(), "/nowhere") != NULL && bw_embedded_open_file(NULL, &none) == BW_ERR_INVALID);
  CHECK(bw_embedded_open_file(file_of_a, &a) == BW_OK && bw_embedded_open_file(file_of_b, &b) == BW_OK);
  CHECK(bw_embedded_listen(b, 888, 5) == BW_OK && bw_addr_parse("10.0.0.2:888", 0, &to) == BW_OK);
  CHECK(bw_embedded_connect(a, &to, NULL, 7, &flow) == BW_OK && bw_embedded_peer(a, flow, &peer) == 0);
  event = next_of_two(a, b);
  CHECK(event.kind == BW_EVENT_CONNECTED && event.flow == flow);
  event = next_of_two(b, a);
  CHECK(event.kind == BW_EVENT_ACCEPTED);
  back = event.flow;
  CHECK(bw_embedded_peer(a, flow, &peer) == 1 && strcmp(peer.name, "b") == 0);
  for (int i = 0; i < BW_KEY_LEN; i++) snprintf(key + 2 * i, 3, "%02x", peer.key[i]);
  CHECK(strcmp(key, key_of_b) == 0 && bw_embedded_peer(b, back, &peer) == 1 && strcmp(peer.name, "a") == 0);
  CHECK(bw_embedded_peer(a, 12345, &peer) == 0 && bw_embedded_peer(a, flow, NULL) == BW_ERR_INVALID);

  CHECK(bw_embedded_send_reported(a, flow, "hello", 5, 0) == BW_ERR_INVALID);
  CHECK(bw_embedded_send_reported(a, flow, "hello", 5, 42) == BW_OK);
  event = next_of_two(b, a);
  CHECK(event.kind == BW_EVENT_MESSAGE && bw_embedded_release(b, &event.message) == BW_OK);
  event = next_of_two(a, b);
  CHECK(event.kind == BW_EVENT_DELIVERED && event.flow == flow && event.token == 42);

  CHECK(bw_embedded_request(a, flow, "x", 1, 0, &first) == BW_ERR_INVALID &&
        strstr(bw_last_error(), "bw_embedded_requests") != NULL);
  CHECK(bw_embedded_requests(a, 0) == BW_ERR_INVALID && bw_embedded_requests(a, 2) == BW_OK &&
        bw_embedded_requests(a, 2) == BW_ERR_INVALID);
  CHECK(bw_embedded_requests(b, 1) == BW_OK);
  CHECK(bw_embedded_request(a, flow, "one", 3, 0, &first) == BW_OK &&
        bw_embedded_request(a, flow, "two", 3, 60000000, &second) == BW_OK);
  CHECK(bw_embedded_request(a, flow, "three", 5, 0, &second) == BW_ERR_TOO_MANY);
  event = next_of_two(b, a);
  CHECK(event.kind == BW_EVENT_REQUEST && event.flow == back && event.token == first && event.reason == 0);
  CHECK(bw_embedded_message(b, &event.message, &where) == BW_REQUEST_HEAD + 3 &&
        memcmp((const char *)where + BW_REQUEST_HEAD, "one", 3) == 0);
  CHECK(bw_embedded_respond(b, back, event.token, "answer", 6) == BW_OK &&
        bw_embedded_release(b, &event.message) == BW_OK);
  event = next_of_two(b, a);
  CHECK(event.kind == BW_EVENT_REQUEST && event.reason > 0 &&
        bw_embedded_fail(b, back, event.token, 404, "no") == BW_OK);
  CHECK(bw_embedded_release(b, &event.message) == BW_OK);
  event = next_of_two(a, b);
  CHECK(event.kind == BW_EVENT_RESPONSE && event.token == first);
  CHECK(bw_embedded_message(a, &event.message, &where) == BW_REQUEST_HEAD + 6 &&
        memcmp((const char *)where + BW_REQUEST_HEAD, "answer", 6) == 0);
  CHECK(bw_embedded_release(a, &event.message) == BW_OK);
  event = next_of_two(a, b);
  CHECK(event.kind == BW_EVENT_FAILURE && event.reason == 404 && bw_embedded_release(a, &event.message) == BW_OK);
  /* One that is given up, one whose time is over, and one whose flow ends. */
  CHECK(bw_embedded_request(a, flow, "never", 5, 0, &first) == BW_OK && bw_embedded_request_cancel(a, first) == 1);
  CHECK(bw_embedded_request_cancel(a, first) == 0 && bw_embedded_request(a, flow, "late", 4, 2000, &second) == BW_OK);
  event = next_of_two(a, b);
  CHECK(event.kind == BW_EVENT_UNANSWERED && event.token == second && event.reason == BW_UNANSWERED_DEADLINE);
  for (int kind = 0, cancelled = 0; cancelled < 2; cancelled += kind == BW_EVENT_REQUEST_CANCELLED) {
    event = next_of_two(b, a);
    kind = (int)event.kind;
    if (kind == BW_EVENT_REQUEST) CHECK(bw_embedded_release(b, &event.message) == BW_OK);
  }
  CHECK(bw_embedded_request(a, flow, "end", 3, 0, &first) == BW_OK && bw_embedded_reset(a, flow) == BW_OK);
  do event = next_of_two(a, b);
  while (event.kind != BW_EVENT_UNANSWERED);
  CHECK(event.token == first && event.reason == BW_UNANSWERED_FLOW_ENDED);
  CHECK(bw_embedded_send_reported(a, flow, "late", 4, 43) == BW_ERR_NO_FLOW);
  CHECK(bw_embedded_free(a) == BW_OK && bw_embedded_free(b) == BW_OK);
}

/* Two endpoints in one thread, without a daemon: what one says the other reads where it lies, and says back. */
static void embedded(const char *port) {
  static unsigned char bytes[100000];
  bw_embedded *a, *b, *none;
  bw_event event;
  bw_addr to;
  bw_flow flow, back;
  const void *where;
  pthread_t thread;
  CHECK(bw_embedded_open("carrier-pigeon:1", "10.0.0.1/24", NULL, &none) == BW_ERR_SYSTEM && none == NULL);
  CHECK(strstr(bw_last_error(), "carrier-pigeon") != NULL);
  CHECK(bw_embedded_open(port, "10.0.0.1", NULL, &none) == BW_ERR_INVALID &&
        strstr(bw_last_error(), "10.0.0.1/24") != NULL);
  CHECK(bw_embedded_open(port, "10.0.0.1/33", NULL, &none) == BW_ERR_INVALID);
  CHECK(bw_embedded_open(port, NULL, NULL, &none) == BW_ERR_INVALID &&
        bw_embedded_open(NULL, "", NULL, &none) == BW_ERR_INVALID);
  CHECK(bw_embedded_open(port, "10.0.0.1/24", "router", &none) == BW_ERR_INVALID);
  CHECK(bw_embedded_open(port, "10.0.0.1/24,fd00::1/64", "10.0.0.254", &a) == BW_OK);
  CHECK(bw_embedded_open(port, "10.0.0.2/24", NULL, &b) == BW_OK && a != b);
  CHECK(pthread_create(&thread, NULL, elsewhere, a) == 0 && pthread_join(thread, NULL) == 0);

  CHECK(bw_embedded_listen(b, 888, 5) == BW_OK && bw_embedded_listen(b, 0, 5) == BW_ERR_INVALID);
  CHECK(bw_addr_parse("10.0.0.2:888", 0, &to) == BW_OK);
  CHECK(bw_embedded_connect(a, &to, NULL, 7, &flow) == BW_OK);
  event = next_of_two(a, b);
  CHECK(event.kind == BW_EVENT_CONNECTED && event.flow == flow && event.token == 7 && event.remote.port == 888);
  event = next_of_two(b, a);
  CHECK(event.kind == BW_EVENT_ACCEPTED && event.token == 5);
  back = event.flow;
  for (size_t len = 0; len <= sizeof bytes; len = len * 3 + 1) {
    for (size_t i = 0; i < len; i++) bytes[i] = byte_of(len, i);
    CHECK(bw_embedded_send(a, flow, bytes, len) == BW_OK);
    event = next_of_two(b, a);
    CHECK(event.kind == BW_EVENT_MESSAGE && event.flow == back && event.message.len == len);
    CHECK(bw_embedded_message(b, &event.message, &where) == (int)len && where != NULL &&
          memcmp(where, bytes, len) == 0);
    CHECK(bw_embedded_message(a, &event.message, &where) == BW_ERR_INVALID);
    CHECK(bw_embedded_send(b, back, where, len) == BW_OK);
    bw_message copy = event.message;
    CHECK(bw_embedded_release(b, &event.message) == BW_OK && bw_embedded_release(b, &event.message) == BW_ERR_INVALID);
    CHECK(bw_embedded_message(b, &copy, &where) == BW_ERR_INVALID && bw_embedded_release(b, &copy) == BW_ERR_INVALID);
    event = next_of_two(a, b);
    CHECK(event.kind == BW_EVENT_MESSAGE && bw_embedded_message(a, &event.message, &where) == (int)len);
    CHECK(memcmp(where, bytes, len) == 0 && bw_embedded_release(a, &event.message) == BW_OK);
  }
  CHECK(bw_embedded_send(a, flow, NULL, 1) == BW_ERR_INVALID && bw_embedded_send(a, 12345, "x", 1) == BW_ERR_NO_FLOW);
  CHECK(bw_embedded_send(a, flow, bytes, SIZE_MAX) == BW_ERR_TOO_LARGE);
  CHECK(bw_embedded_close(a, 12345) == BW_ERR_NO_FLOW && bw_embedded_reset(a, 12345) == BW_ERR_NO_FLOW);
  CHECK(bw_embedded_close(a, flow) == BW_OK);
  event = next_of_two(b, a);
  CHECK(event.kind == BW_EVENT_CLOSED && event.flow == back && event.reason == BW_CLOSED_PEER);
  CHECK(bw_embedded_next_event(a, NULL) == BW_ERR_INVALID);
  CHECK(bw_embedded_free(a) == BW_OK && bw_embedded_free(a) == BW_ERR_HANDLE && bw_embedded_poll(a) == BW_ERR_HANDLE);
  CHECK(bw_embedded_free(b) == BW_OK && bw_embedded_free(NULL) == BW_OK);
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "serve") == 0)
    serve((uint16_t)atoi(argv[2]), atoi(argv[3]));
  else if (argc == 6 && strcmp(argv[1], "ask") == 0) {
    ask(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
    printf("%s answers\n", argv[4]);
  } else if (argc == 3 && strcmp(argv[1], "threads") == 0)
    threads(argv[2]);
  else if (argc == 3 && strcmp(argv[1], "again") == 0)
    again(argv[2]);
  else if (argc == 3 && strcmp(argv[1], "again-until-the-end") == 0)
    again_until_the_end(argv[2]);
  else if (argc == 3 && strcmp(argv[1], "sleep") == 0)
    sleep_on((uint16_t)atoi(argv[2]));
  else if (argc == 2 && strcmp(argv[1], "cancel") == 0)
    cancel();
  else if (argc == 2 && strcmp(argv[1], "signals") == 0)
    signals();
  else if (argc == 3 && strcmp(argv[1], "forks") == 0)
    forks(strcmp(argv[2], "steady") == 0);
  else if (argc == 3 && strcmp(argv[1], "forks-embedded") == 0)
    forks_embedded(argv[2]);
  else if (argc == 4 && strcmp(argv[1], "forks-in-thread") == 0)
    forks_in_thread(argv[2], argv[3]);
  else if (argc == 5 && strcmp(argv[1], "embedded-files") == 0)
    embedded_by_files(argv[2], argv[3], argv[4]);
  else if (argc == 2 && strcmp(argv[1], "silent") == 0)
    silent();
  else if (argc == 2 && strcmp(argv[1], "busy") == 0)
    busy();
  else if (argc == 3 && strcmp(argv[1], "misuse") == 0)
    misuse(argv[2]);
  else if (argc == 3 && strcmp(argv[1], "gone") == 0)
    gone(argv[2]);
  else if (argc == 3 && strcmp(argv[1], "embedded") == 0)
    embedded(argv[2]);
  else if (argc == 4 && strcmp(argv[1], "steady") == 0)
    steady(argv[2], argv[3]);
  else
    return 2;
  return 0;
}
