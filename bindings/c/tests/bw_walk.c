/* Random calls on two clients of two daemons, and what they say held against a model. Run by the library's tests, with the
 * compiler's sanitizers where it has them.
 *
 *     bw_walk SOCKET SOCKET SEED STEPS
 */
#include <barewire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                  \
  do {                                                                                                               \
    if (!(what)) {                                                                                                   \
      fprintf(stderr, "%s:%d: seed %llu: %s: last error: %s\n", __FILE__, __LINE__, (unsigned long long)seed, #what, \
              bw_last_error());                                                                                      \
      exit(1);                                                                                                       \
    }                                                                                                                \
  } while (0)

enum { FLOWS = 4096, HELD = 6, TOKENS = 65536, MOST = 40000 };

struct flow {
  bw_flow id;
  uint64_t sent, received;
  int accepted, closed, ended, refused;
  unsigned reason;
  /* Who sends to us on it. */
  uint64_t peer;
};

struct client {
  bw_client *handle;
  bw_addr where;
  struct flow flows[FLOWS];
  size_t count;
  bw_message held[HELD];
  size_t holds;
  bw_buf buf, used;
  int has_buf, refused;
  /* Of attempts and of messages: 1 while its answer is to come, 2 when it was cancelled. */
  unsigned char attempts[TOKENS], messages[TOKENS];
};

static uint64_t seed, state;
static struct client clients[2];
static uint64_t next_token = 1, received, writable, cancelled;
static unsigned char bytes[MOST], back[MOST];

static uint64_t draw(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state * UINT64_C(0x2545f4914f6cdd1d) >> 16) % below;
}

static struct flow *find(struct client *c, bw_flow id) {
  for (size_t i = c->count; i > 0; i--)
    if (c->flows[i - 1].id == id) return &c->flows[i - 1];
  return NULL;
}

static void opens(struct client *c, bw_flow id) {
  CHECK(find(c, id) == NULL && c->count < FLOWS);
  c->flows[c->count++] = (struct flow){.id = id};
}

static struct flow *pick(struct client *c) {
  if (c->count == 0) return NULL;
  return &c->flows[draw(2) ? draw(c->count) : c->count - 1 - draw(c->count < 4 ? c->count : 4)];
}

static size_t fill(struct client *c, struct flow *f) {
  static const size_t sizes[] = {24, 100, 3000, 16000, MOST};
  size_t len = sizes[draw(5)];
  uint64_t head[3] = {(uint64_t)(c - clients), f ? f->id : 0, f ? f->sent : 0};
  memcpy(bytes, head, sizeof head);
  for (size_t i = sizeof head; i < len; i++) bytes[i] = (unsigned char)(head[2] * 31 + i * 7 + head[1]);
  return len;
}

static void let_go(struct client *c) {
  if (c->holds == 0) return;
  size_t at = (size_t)draw(c->holds);
  bw_message *m = &c->held[at];
  CHECK(bw_message_release(c->handle, m) == BW_OK && bw_message_release(c->handle, m) == BW_ERR_INVALID);
  c->held[at] = c->held[--c->holds];
}

static void take(struct client *c, const bw_event *e) {
  struct flow *f = find(c, e->flow);
  switch (e->kind) {
    case BW_EVENT_CONNECTED:
      CHECK(e->token < TOKENS && c->attempts[e->token] == 1);
      c->attempts[e->token] = 0;
      opens(c, e->flow);
      break;
    case BW_EVENT_CONNECT_FAILED:
      CHECK(e->token < TOKENS && c->attempts[e->token] != 0);
      CHECK((c->attempts[e->token] == 2) == (e->reason == BW_CONNECT_CANCELLED));
      cancelled += c->attempts[e->token] == 2;
      c->attempts[e->token] = 0;
      break;
    case BW_EVENT_ACCEPTED:
      opens(c, e->flow);
      c->flows[c->count - 1].accepted = 1;
      break;
    case BW_EVENT_MESSAGE: {
      size_t len = bw_message_len(&e->message);
      uint64_t head[3];
      CHECK(f != NULL && !f->ended && len >= sizeof head && len <= MOST);
      /* Exactly its bytes: a sanitizer sees one too many. */
      unsigned char *exact = malloc(len);
      CHECK(exact != NULL && bw_message_read(c->handle, &e->message, exact, len) == (int)len);
      memcpy(head, exact, sizeof head);
      CHECK(head[0] == 1 - (uint64_t)(c - clients) && (f->peer == 0 || f->peer == head[1]) && head[2] == f->received);
      for (size_t i = sizeof head; i < len; i++) CHECK(exact[i] == (unsigned char)(head[2] * 31 + i * 7 + head[1]));
      free(exact);
      f->peer = head[1];
      f->received++;
      received++;
      if (c->holds == HELD) let_go(c);
      c->held[c->holds++] = e->message;
      break;
    }
    case BW_EVENT_DELIVERED:
    case BW_EVENT_UNDELIVERED:
      CHECK(e->token < TOKENS && c->messages[e->token] == 1);
      c->messages[e->token] = 0;
      break;
    case BW_EVENT_CLOSED:
      CHECK(f != NULL && !f->ended);
      f->ended = 1;
      f->reason = e->reason;
      break;
    case BW_EVENT_WRITABLE:
      CHECK(e->flow == 0 ? c->refused : f != NULL && f->refused);
      if (e->flow == 0)
        c->refused = 0;
      else
        f->refused = 0;
      writable++;
      break;
    case BW_EVENT_WOKEN:
      break;
    default:
      CHECK(0 && "an event that nothing asked for");
  }
}

static void answered(struct client *c, struct flow *f, int code, uint64_t token) {
  if (code == BW_OK) {
    CHECK(f != NULL && !f->closed && !f->ended);
    f->sent++;
    if (token) c->messages[token] = 1;
  } else if (code == BW_ERR_AGAIN) {
    CHECK(f != NULL && !f->closed && !f->ended);
    f->refused = 1;
  } else {
    CHECK(code == BW_ERR_NO_FLOW || (code == BW_ERR_CLOSING && f != NULL && f->closed));
  }
}

static void step(struct client *c) {
  struct flow *f = pick(c);
  bw_flow id = f ? f->id : draw(UINT64_MAX);
  bw_event event;
  int code;
  switch (draw(16)) {
    case 0:
    case 1:
    case 2: {
      size_t len = fill(c, f);
      answered(c, f, bw_send(c->handle, id, bytes, len), 0);
      break;
    }
    case 3: {
      size_t len = fill(c, f), at = (size_t)draw(len);
      bw_iovec pieces[3] = {{bytes, at}, {NULL, 0}, {bytes + at, len - at}};
      answered(c, f, bw_sendv(c->handle, id, pieces, 3), 0);
      break;
    }
    case 4:
    case 5: {
      size_t len = fill(c, f);
      bw_buf buf;
      code = bw_reserve(c->handle, len, &buf);
      if (code == BW_ERR_AGAIN) {
        c->refused = 1;
        break;
      }
      CHECK(code == BW_OK && bw_write(c->handle, &buf, 0, bytes, len) == BW_OK);
      CHECK(bw_write(c->handle, &buf, len, "x", 1) == BW_ERR_INVALID);
      uint64_t token = next_token++;
      bw_buf copy = buf;
      answered(c, f, bw_commit(c->handle, id, &buf, token), token);
      /* Used up, by whatever name. */
      CHECK(bw_commit(c->handle, id, &buf, token) == BW_ERR_INVALID);
      if (!c->has_buf || c->buf.offset != copy.offset)
        CHECK(bw_commit(c->handle, id, &copy, token) == BW_ERR_INVALID &&
              bw_abandon(c->handle, &copy) == BW_ERR_INVALID);
      break;
    }
    case 6: {
      /* A reservation that is kept for a while. */
      if (c->has_buf) {
        c->used = c->buf;
        CHECK(bw_abandon(c->handle, &c->buf) == BW_OK && bw_abandon(c->handle, &c->used) == BW_ERR_INVALID);
        c->has_buf = 0;
      } else {
        code = bw_reserve(c->handle, (size_t)draw(MOST), &c->buf);
        CHECK(code == BW_OK || code == BW_ERR_AGAIN);
        c->has_buf = code == BW_OK;
        if (code == BW_ERR_AGAIN) c->refused = 1;
      }
      break;
    }
    case 7: {
      uint64_t token = next_token++;
      code = bw_connect(c->handle, &clients[c == clients].where, NULL, token);
      CHECK(code == BW_OK || code == BW_ERR_AGAIN);
      if (code == BW_OK) {
        c->attempts[token] = 1;
        if (draw(3) == 0 && bw_cancel(c->handle, token) == 1) c->attempts[token] = 2;
      } else {
        c->refused = 1;
      }
      break;
    }
    case 8:
      if (draw(4) == 0) {
        code = bw_connect_wait(c->handle, &clients[c == clients].where, NULL, (int)draw(3), &id);
        CHECK(code == BW_OK || code == BW_ERR_TIMED_OUT || code == BW_ERR_AGAIN || code == BW_ERR_TABLE_FULL);
        if (code == BW_OK) opens(c, id);
        if (code == BW_ERR_AGAIN) c->refused = 1;
      }
      break;
    case 9:
      if (draw(4) == 0) {
        code = draw(3) ? bw_close(c->handle, id) : bw_reset(c->handle, id);
        CHECK(code == BW_OK || code == BW_ERR_AGAIN);
        if (code == BW_ERR_AGAIN)
          c->refused = 1;
        else if (f)
          f->closed = 1;
      }
      break;
    case 10:
      let_go(c);
      break;
    case 11:
      if (c->holds > 0) {
        bw_message m = c->held[draw(c->holds)];
        size_t len = bw_message_len(&m), at = (size_t)draw(len + 1);
        int n = bw_message_read_at(c->handle, &m, at, back, sizeof back);
        CHECK(n == (int)(len - at) && bw_message_read_at(c->handle, &m, len + 1, back, 1) == BW_ERR_INVALID);
      }
      break;
    case 12:
      CHECK(bw_wake(c->handle) == BW_OK && bw_flush(c->handle) == BW_OK);
      break;
    case 13:
      if (bw_arm(c->handle) == 1) CHECK(bw_event_fd(c->handle) >= 0);
      CHECK(bw_disarm(c->handle) == BW_OK);
      break;
    case 14:
      code = bw_wait_event(c->handle, (int)draw(2), &event);
      CHECK(code == 0 || code == 1);
      if (code == 1) take(c, &event);
      break;
    default:
      for (uint64_t n = draw(8); n > 0; n--) {
        code = bw_next_event(c->handle, &event);
        CHECK(code == 0 || code == 1);
        if (code == 0) break;
        take(c, &event);
      }
  }
}

/* Reads on both ends until `done`. */
static void until(int (*done)(void)) {
  for (int quiet = 0; !done();) {
    int any = 0;
    for (int i = 0; i < 2; i++) {
      bw_event event;
      struct client *c = &clients[i];
      while (c->holds > 0) let_go(c);
      for (int code; (code = bw_wait_event(c->handle, 1, &event)) != 0; any = 1) {
        CHECK(code == 1);
        take(c, &event);
        while (c->holds > 0) let_go(c);
      }
    }
    quiet = any ? 0 : quiet + 1;
    CHECK(quiet < 15000);
  }
}

static int nothing_open(void) {
  for (int i = 0; i < 2; i++) {
    struct client *c = &clients[i];
    if (c->refused) return 0;
    for (uint64_t t = 0; t < next_token; t++)
      if (c->attempts[t]) return 0;
    for (size_t f = 0; f < c->count; f++)
      if (c->flows[f].refused) return 0;
  }
  return 1;
}

static int all_ended(void) {
  for (int i = 0; i < 2; i++) {
    struct client *c = &clients[i];
    for (uint64_t t = 0; t < next_token; t++)
      if (c->messages[t]) return 0;
    for (size_t f = 0; f < c->count; f++)
      if (!c->flows[f].ended) return 0;
  }
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  seed = strtoull(argv[3], NULL, 10);
  state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int i = 0; i < 2; i++) {
    CHECK(bw_client_attach("walk", argv[1 + i], &clients[i].handle) == BW_OK);
    CHECK(bw_addresses(clients[i].handle, &clients[i].where, 1) >= 1);
    clients[i].where.port = (uint16_t)(1000 + i);
    CHECK(bw_listen_wait(clients[i].handle, clients[i].where.port, 0, 30000) == BW_OK);
  }
  for (long steps = strtol(argv[4], NULL, 10); steps > 0; steps--) step(&clients[draw(2)]);
  for (int i = 0; i < 2; i++) {
    if (clients[i].has_buf) CHECK(bw_abandon(clients[i].handle, &clients[i].buf) == BW_OK);
  }
  until(nothing_open);
  for (int i = 0; i < 2; i++) {
    for (size_t f = 0; f < clients[i].count; f++) {
      bw_event event;
      while (bw_close(clients[i].handle, clients[i].flows[f].id) != BW_OK) {
        clients[i].refused = 1;
        if (bw_next_event(clients[i].handle, &event) == 1) take(&clients[i], &event);
      }
      clients[i].flows[f].closed = 1;
    }
  }
  until(all_ended);
  for (int i = 0; i < 2; i++) {
    for (size_t f = 0; f < clients[i].count; f++) {
      struct flow *flow = &clients[i].flows[f], *there = NULL;
      for (size_t g = 0; g < clients[1 - i].count; g++)
        if (clients[1 - i].flows[g].peer == flow->id) there = &clients[1 - i].flows[g];
      /* What was closed here first arrived whole, if the other end let it. A peer that has given its attempt up takes what comes and
       * throws it away, so of a flow that it asked for nothing need be seen. */
      CHECK(there == NULL || there->received <= flow->sent);
      if (flow->reason == BW_CLOSED_LOCAL && (there ? there->reason <= BW_CLOSED_PEER : !flow->accepted))
        CHECK((there ? there->received : 0) == flow->sent);
    }
    CHECK(bw_close_wait(clients[i].handle, 30000) == BW_OK);
    CHECK(bw_client_free(clients[i].handle) == BW_OK && bw_flush(clients[i].handle) == BW_ERR_HANDLE);
  }
  printf("seed %llu: %llu received, %llu writable, %llu cancelled\n", (unsigned long long)seed,
         (unsigned long long)received, (unsigned long long)writable, (unsigned long long)cancelled);
  return 0;
}
