/* A program that uses, and misuses, the whole of bwfeed.h. The library's tests compile and run it. */
#include <bwfeed.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Layouts are part of the ABI. */
_Static_assert(sizeof(bwf_level) == 24 && offsetof(bwf_level, orders) == 16, "bwf_level");
_Static_assert(sizeof(bwf_order) == 32 && offsetof(bwf_order, price) == 16, "bwf_order");
_Static_assert(sizeof(bwf_levels) == 16 && offsetof(bwf_levels, count) == 8, "bwf_levels");
_Static_assert(sizeof(bwf_orders) == 16 && offsetof(bwf_orders, count) == 8, "bwf_orders");
_Static_assert(sizeof(bwf_book) == 168 && offsetof(bwf_book, symbol) == 16 && offsetof(bwf_book, state) == 48 &&
                   offsetof(bwf_book, direct) == 56 && offsetof(bwf_book, implied) == 88 &&
                   offsetof(bwf_book, orders) == 120 && offsetof(bwf_book, market_best) == 152,
               "bwf_book");
_Static_assert(sizeof(bwf_book_room) == 8 + 40 * 24 + 20 * 32 + 2 * 24, "bwf_book_room");
_Static_assert(sizeof(bwf_packet) == 56 && offsetof(bwf_packet, bytes) == 16 && offsetof(bwf_packet, held) == 48,
               "bwf_packet");
_Static_assert(sizeof(bwf_message) == 32 && offsetof(bwf_message, body) == 16, "bwf_message");
_Static_assert(sizeof(bwf_book_entry) == 72 && offsetof(bwf_book_entry, level) == 40, "bwf_book_entry");
_Static_assert(sizeof(bwf_trade) == 80 && offsetof(bwf_trade, price) == 48 && offsetof(bwf_trade, aggressor) == 72,
               "bwf_trade");
_Static_assert(sizeof(bwf_statistic) == 64 && offsetof(bwf_statistic, kind) == 56, "bwf_statistic");
_Static_assert(sizeof(bwf_limits) == 64 && offsetof(bwf_limits, high) == 40, "bwf_limits");
_Static_assert(sizeof(bwf_status) == 48 && offsetof(bwf_status, symbol) == 16, "bwf_status");
_Static_assert(sizeof(bwf_quote_request) == 56, "bwf_quote_request");
_Static_assert(sizeof(bwf_instrument) == 104 && offsetof(bwf_instrument, min_price_increment) == 80, "bwf_instrument");
_Static_assert(sizeof(bwf_gap) == 24 && sizeof(bwf_recovery) == 28, "bwf_gap and bwf_recovery");
_Static_assert(sizeof(bwf_channel) == 96 && offsetof(bwf_channel, label) == 16, "bwf_channel");
_Static_assert(sizeof(bwf_line) == 80 && offsetof(bwf_line, packets) == 8, "bwf_line");
_Static_assert(sizeof(bwf_callbacks) == 16 + 22 * sizeof(void *) && offsetof(bwf_callbacks, packet) == 16, "callbacks");

#define CHECK(what)                                                                                \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "%s:%d: %s: last error: %s\n", __FILE__, __LINE__, #what, bwf_last_error()); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

/* What the callbacks have seen. */
struct seen {
  bwf_feed *feed;
  uint64_t packets, packet_ends, messages, entries, books, trades, statistics, limits, statuses, definitions, loops,
      events, gaps, stale, begins, ends, resets, lines, feeds, drops, bytes;
  int in_packet, refused, stop_after;
};

static void on_packet(void *user, const bwf_packet *packet) {
  struct seen *seen = user;
  CHECK(packet->size == sizeof *packet && packet->channel == 0 && packet->len >= 12 && packet->side < 2);
  CHECK(packet->feed <= BWF_FEED_INSTRUMENT && packet->sending_time_ns > 1500000000000000000u);
  uint32_t seq_num;
  memcpy(&seq_num, packet->bytes, sizeof seq_num);
  CHECK(seq_num == packet->seq_num);
  CHECK(!seen->in_packet);
  seen->in_packet = 1;
  seen->packets++;
  seen->bytes += packet->len;
  /* Inside a callback only the stop is possible. */
  if (seen->packets % 64 == 1) {
    bwf_book book = {.size = sizeof book};
    bwf_channel channel = {.size = sizeof channel};
    CHECK(bwf_process(seen->feed) == BWF_ERR_REENTRANT);
    CHECK(bwf_run(seen->feed, 0) == BWF_ERR_REENTRANT);
    CHECK(bwf_replay(seen->feed, 0, NULL) == BWF_ERR_REENTRANT);
    CHECK(bwf_book_get(seen->feed, 0, 1000, &book, NULL) == BWF_ERR_REENTRANT);
    CHECK(bwf_channel_get(seen->feed, 0, &channel) == BWF_ERR_REENTRANT);
    CHECK(bwf_channel_count(seen->feed) == BWF_ERR_REENTRANT);
    CHECK(bwf_close(seen->feed) == BWF_ERR_REENTRANT);
    CHECK(strstr(bwf_last_error(), "callback") != NULL);
    seen->refused++;
  }
  if (seen->stop_after > 0 && --seen->stop_after == 0) CHECK(bwf_stop(seen->feed) == BWF_OK);
}

static void on_end_of_packet(void *user, const bwf_packet *packet) {
  struct seen *seen = user;
  CHECK(packet->size == sizeof *packet && seen->in_packet);
  seen->in_packet = 0;
  seen->packet_ends++;
}

static void on_message(void *user, const bwf_packet *packet, const bwf_message *message) {
  struct seen *seen = user;
  CHECK(message->size == sizeof *message && message->schema_id == 1 && message->block_length <= message->len);
  CHECK(message->body > packet->bytes && message->body + message->len <= packet->bytes + packet->len);
  seen->messages++;
}

static void on_book_entry(void *user, const bwf_book_entry *entry) {
  CHECK(entry->size == sizeof *entry && entry->symbol[BWF_SYMBOL_LEN - 1] == 0);
  ((struct seen *)user)->entries++;
}

static void on_book(void *user, const bwf_book *book) {
  struct seen *seen = user;
  bwf_level merged[BWF_DEPTH_MAX];
  CHECK(book->size == sizeof *book && book->state <= BWF_BOOK_STALE && book->cause != BWF_CAUSE_QUERY);
  CHECK(book->is_good == (book->state == BWF_BOOK_LATEST || book->state == BWF_BOOK_NATURALLY_REFRESHED));
  for (uint32_t side = 0; side < 2; side++) {
    CHECK(book->direct[side].count <= BWF_DEPTH_MAX && book->implied[side].count <= BWF_DEPTH_MAX);
    for (uint32_t i = 1; i < book->direct[side].count; i++) {
      const bwf_level *level = &book->direct[side].levels[i];
      CHECK(side == BWF_BID ? level[-1].price > level->price : level[-1].price < level->price);
    }
    int count = bwf_consolidated(book, side, merged, BWF_DEPTH_MAX);
    CHECK(count >= (int)book->direct[side].count);
  }
  seen->books++;
}

static void on_trade(void *user, const bwf_trade *trade) {
  CHECK(trade->size == sizeof *trade && trade->quantity > 0 && trade->transact_time_ns > 0);
  ((struct seen *)user)->trades++;
}

static void on_statistic(void *user, const bwf_statistic *statistic) {
  CHECK(statistic->size == sizeof *statistic && statistic->kind <= BWF_STATISTIC_VOLUME);
  ((struct seen *)user)->statistics++;
}

static void on_limits(void *user, const bwf_limits *limits) {
  CHECK(limits->size == sizeof *limits);
  ((struct seen *)user)->limits++;
}

static void on_status(void *user, const bwf_status *status) {
  CHECK(status->size == sizeof *status && status->scope <= BWF_SCOPE_ASSET);
  ((struct seen *)user)->statuses++;
}

static void on_definition(void *user, const bwf_instrument *instrument, uint32_t action) {
  CHECK(instrument->size == sizeof *instrument && instrument->defined == 1 && instrument->symbol[0] != 0);
  CHECK(action <= BWF_DEFINITION_DELETE);
  ((struct seen *)user)->definitions++;
}

static void on_definitions_complete(void *user, uint32_t channel, uint32_t instruments) {
  CHECK(channel == 0 && instruments > 0);
  ((struct seen *)user)->loops++;
}

static void on_end_of_event(void *user, const bwf_packet *packet, uint64_t transact_time_ns) {
  CHECK(packet->size == sizeof *packet && transact_time_ns > 0);
  ((struct seen *)user)->events++;
}

static void on_gap(void *user, const bwf_gap *gap) {
  CHECK(gap->size == sizeof *gap && gap->first <= gap->last && gap->cause <= BWF_GAP_SNAPSHOT);
  ((struct seen *)user)->gaps++;
}

static void on_stale(void *user, uint32_t channel, int32_t security_id) {
  CHECK(channel == 0 && security_id >= 1000);
  ((struct seen *)user)->stale++;
}

static void on_recovery(void *user, const bwf_recovery *recovery) {
  struct seen *seen = user;
  CHECK(recovery->size == sizeof *recovery);
  if (recovery->phase == BWF_RECOVERY_BEGIN) {
    seen->begins++;
  } else {
    CHECK(recovery->phase == BWF_RECOVERY_END && recovery->unsettled == 0);
    seen->ends++;
  }
}

static void on_reset(void *user, uint32_t channel, uint32_t reset) {
  CHECK(channel == 0 && reset <= BWF_RESET_SEQUENCE);
  ((struct seen *)user)->resets++;
}

static void on_line_state(void *user, uint32_t channel, uint32_t feed, uint32_t side, uint32_t state) {
  CHECK(channel == 0 && feed <= BWF_FEED_INSTRUMENT && side < 2 && state <= BWF_STATE_DOWN);
  ((struct seen *)user)->lines++;
}

static void on_feed_state(void *user, uint32_t channel, uint32_t state) {
  CHECK(channel == 0 && state <= BWF_STATE_DOWN);
  ((struct seen *)user)->feeds++;
}

static void on_drop(void *user, uint32_t channel, uint32_t feed, uint32_t side, uint32_t reason) {
  CHECK(channel == 0 && feed <= BWF_FEED_INSTRUMENT && side < 2);
  CHECK(strcmp(bwf_reason_name(reason), "unknown") != 0);
  ((struct seen *)user)->drops++;
}

static bwf_callbacks all(struct seen *seen) {
  return (bwf_callbacks){.size = sizeof(bwf_callbacks),
                         .user = seen,
                         .packet = on_packet,
                         .end_of_packet = on_end_of_packet,
                         .message = on_message,
                         .book_entry = on_book_entry,
                         .book = on_book,
                         .trade = on_trade,
                         .statistic = on_statistic,
                         .limits = on_limits,
                         .status = on_status,
                         .definition = on_definition,
                         .definitions_complete = on_definitions_complete,
                         .end_of_event = on_end_of_event,
                         .gap = on_gap,
                         .instrument_stale = on_stale,
                         .recovery = on_recovery,
                         .reset = on_reset,
                         .line_state = on_line_state,
                         .feed_state = on_feed_state,
                         .drop = on_drop};
}

struct counter {
  const char *name;
  uint64_t value;
};

static void find_counter(void *user, const char *name, uint64_t value) {
  struct counter *counter = user;
  if (strcmp(name, counter->name) == 0) counter->value += value;
}

static uint64_t counter(bwf_feed *feed, const char *name) {
  struct counter counter = {name, 0};
  CHECK(bwf_counters(feed, 0, find_counter, &counter) >= 12);
  return counter.value;
}

static uint64_t source_counter(bwf_feed *feed, const char *name) {
  struct counter counter = {name, 0};
  CHECK(bwf_source_counters(feed, find_counter, &counter) >= 1);
  return counter.value;
}

/* A capture, in one go and in pieces, with every callback: callbacks and counters agree. */
static void callbacks(const char *toml, const char *capture) {
  struct seen seen = {0}, again = {0};
  bwf_callbacks callbacks = all(&seen);
  bwf_feed *feed;
  uint64_t packets, sum = 0;
  CHECK(bwf_open(toml, &callbacks, BWF_OFFLINE, &feed) == BWF_OK);
  seen.feed = feed;
  CHECK(bwf_replay_open(feed, &capture, 1) == BWF_OK);
  CHECK(bwf_replay(feed, 0, &packets) == BWF_OK);
  CHECK(packets > 200 && source_counter(feed, "packets") == packets);
  CHECK(seen.packets == seen.packet_ends && seen.packets > 100 && seen.refused > 1 && !seen.in_packet);
  CHECK(seen.messages == counter(feed, "messages") && seen.events == counter(feed, "events"));
  CHECK(seen.gaps == counter(feed, "gaps") && seen.gaps > 0 && seen.begins == seen.ends && seen.begins > 1);
  CHECK(seen.resets == counter(feed, "resets") && seen.resets > 0);
  CHECK(seen.books > 20 && seen.trades > 5 && seen.entries > 50 && seen.statistics > 5 && seen.definitions >= 20);
  CHECK(seen.loops >= 1 && seen.lines >= 6 && seen.feeds == 1 && seen.stale > 0 && seen.statuses > 0 &&
        seen.limits > 0);
  CHECK(seen.drops >= counter(feed, "drop.duplicate") && counter(feed, "drop.duplicate") > 0);

  /* Again, from empty books, stopped every 50 packets: the same. */
  again = seen;
  memset(&seen, 0, sizeof seen);
  seen.feed = feed;
  CHECK(bwf_replay_open(feed, &capture, 1) == BWF_OK);
  CHECK(bwf_instruments(feed, 0, NULL, 0) == 0);
  int pieces = 0, got;
  do {
    seen.stop_after = 50;
    got = bwf_replay(feed, 0, &packets);
    CHECK(got == BWF_OK || got == BWF_STOPPED);
    sum += packets;
    pieces++;
  } while (got == BWF_STOPPED);
  CHECK(pieces > 2 && sum == source_counter(feed, "packets"));
  CHECK(seen.bytes == again.bytes && seen.books == again.books && seen.entries == again.entries &&
        seen.trades == again.trades && seen.gaps == again.gaps && seen.drops == again.drops);
  CHECK(bwf_replay(feed, 0, &packets) == BWF_OK && packets == 0);
  CHECK(bwf_close(feed) == BWF_OK);
  printf("%" PRIu64 " packets, %" PRIu64 " books, %" PRIu64 " trades, %d pieces\n", seen.packets, seen.books,
         seen.trades, pieces);
}

/* What is asked for beside the books. */
static void queries(const char *toml, const char *capture) {
  bwf_feed *feed;
  CHECK(bwf_open(toml, NULL, BWF_OFFLINE, &feed) == BWF_OK);
  CHECK(bwf_replay_open(feed, &capture, 1) == BWF_OK);
  CHECK(bwf_replay(feed, 0, NULL) == BWF_OK);
  bwf_channel channel = {.size = sizeof channel};
  CHECK(bwf_channel_count(feed) == 1 && bwf_channel_get(feed, 0, &channel) == BWF_OK);
  CHECK(channel.channel_id == 901 && strcmp(channel.label, "emulated") == 0 && channel.instruments == 20);
  CHECK(channel.unsettled == 0 && !channel.recovering && channel.definitions_complete && channel.state == BWF_STATE_UP);
  CHECK(channel.expected_seq_num != BWF_NULL_U32);
  CHECK(bwf_channel_get(feed, 1, &channel) == BWF_ERR_NO_CHANNEL);
  int32_t ids[64];
  CHECK(bwf_instruments(feed, 0, ids, 64) == 20 && bwf_instruments(feed, 0, ids, 3) == 20);
  CHECK(bwf_instruments(feed, 0, NULL, 1) == BWF_ERR_INVALID && bwf_instruments(feed, 9, ids, 1) == BWF_ERR_NO_CHANNEL);
  bwf_instrument instrument = {.size = sizeof instrument}, same = {.size = sizeof same};
  CHECK(bwf_instrument_get(feed, 0, ids[1], &instrument) == BWF_OK);
  CHECK(instrument.security_id == ids[1] && instrument.defined && instrument.depth > 0 && instrument.currency[0] != 0);
  CHECK(bwf_instrument_find(feed, 0, instrument.symbol, &same) == BWF_OK);
  CHECK(memcmp(&instrument, &same, sizeof same) == 0);
  CHECK(bwf_instrument_find(feed, 0, "no such", &same) == BWF_ERR_NO_INSTRUMENT);
  CHECK(bwf_instrument_get(feed, 0, -1, &same) == BWF_ERR_NO_INSTRUMENT);
  int statistics = 0, limits = 0;
  for (int i = 0; i < 20; i++) {
    for (uint32_t kind = 0; kind <= BWF_STATISTIC_VOLUME; kind++) {
      bwf_statistic statistic = {.size = sizeof statistic};
      int got = bwf_statistic_get(feed, 0, ids[i], kind, &statistic);
      CHECK(got == 0 || (got == 1 && statistic.kind == kind && statistic.security_id == ids[i]));
      statistics += got;
    }
    bwf_limits of = {.size = sizeof of};
    int got = bwf_limits_get(feed, 0, ids[i], &of);
    CHECK(got == 0 || (got == 1 && of.high > of.low));
    limits += got;
  }
  CHECK(statistics > 20 && limits > 0);
  bwf_line line = {.size = sizeof line};
  CHECK(bwf_line_get(feed, 0, BWF_FEED_INCREMENTAL, 0, &line) == BWF_OK && line.packets > 50 && line.lost > 0);
  CHECK(line.state == BWF_STATE_UP && line.bytes > line.packets * 12);
  CHECK(bwf_line_get(feed, 0, 4, 0, &line) == BWF_ERR_INVALID && bwf_line_get(feed, 0, 0, 2, &line) == BWF_ERR_INVALID);
  CHECK(bwf_line_get(feed, 1, 0, 0, &line) == BWF_ERR_NO_CHANNEL);
  /* A book without room for its levels is its head. */
  bwf_book book = {.size = sizeof book};
  CHECK(bwf_book_get(feed, 0, ids[0], &book, NULL) == BWF_OK && book.is_good && book.cause == BWF_CAUSE_QUERY);
  CHECK(book.direct[BWF_BID].count == 0 && book.direct[BWF_BID].levels == NULL && book.rpt_seq > 0);
  CHECK(bwf_close(feed) == BWF_OK);
}

/* The capture as a port: run to its end, and the same by process. */
static void live(const char *toml) {
  struct seen seen = {0};
  bwf_callbacks callbacks = all(&seen);
  bwf_feed *feed;
  CHECK(bwf_open(toml, &callbacks, 0, &feed) == BWF_OK);
  seen.feed = feed;
  CHECK(bwf_replay(feed, 0, NULL) == BWF_ERR_MODE);
  CHECK(bwf_run(feed, 30000) == BWF_OK);
  CHECK(seen.packets > 100 && seen.books > 20);
  CHECK(bwf_run(feed, 30000) == BWF_OK);
  /* Only what the port gave is the same each time: a gap ends by the real clock, and with it what is passed on in order. */
  uint64_t before = source_counter(feed, "packets");
  CHECK(before > 200 && before >= seen.packets);
  CHECK(bwf_close(feed) == BWF_OK);
  memset(&seen, 0, sizeof seen);
  CHECK(bwf_open(toml, &callbacks, 0, &feed) == BWF_OK);
  seen.feed = feed;
  int calls = 0;
  while (source_counter(feed, "packets") < before && calls++ < 1000000) CHECK(bwf_process(feed) >= 0);
  CHECK(source_counter(feed, "packets") == before && seen.packets > 100 && seen.books > 20);
  CHECK(bwf_run(feed, 30000) == BWF_OK);
  CHECK(source_counter(feed, "packets") == before);
  CHECK(bwf_close(feed) == BWF_OK);
}

static bwf_feed *shared;
static volatile sig_atomic_t stopped_by_signal;

static void on_signal(int signal) {
  (void)signal;
  stopped_by_signal = bwf_stop(shared) == BWF_OK;
}

static void nap(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void *stopper(void *nothing) {
  bwf_book book = {.size = sizeof book};
  int code, naps = 0;
  (void)nothing;
  /* Until the owner is inside, which may take its time. */
  while ((code = bwf_process(shared)) == BWF_ERR_THREAD && naps++ < 60000) nap(1);
  /* Then everything but the stop is refused. */
  CHECK(code == BWF_ERR_BUSY);
  CHECK(bwf_book_get(shared, 0, 1000, &book, NULL) == BWF_ERR_BUSY);
  CHECK(bwf_close(shared) == BWF_ERR_BUSY);
  CHECK(bwf_stop(shared) == BWF_OK);
  return NULL;
}

static void *stranger(void *nothing) {
  bwf_channel channel = {.size = sizeof channel};
  (void)nothing;
  CHECK(bwf_process(shared) == BWF_ERR_THREAD);
  CHECK(bwf_run(shared, 0) == BWF_ERR_THREAD);
  CHECK(bwf_channel_get(shared, 0, &channel) == BWF_ERR_THREAD);
  CHECK(bwf_close(shared) == BWF_ERR_THREAD);
  CHECK(strstr(bwf_last_error(), "thread") != NULL);
  return NULL;
}

/* Nothing comes, and the run is ended by time, a thread and a signal. */
static void stop(const char *toml) {
  pthread_t thread;
  CHECK(bwf_open(toml, NULL, 0, &shared) == BWF_OK);
  CHECK(bwf_run(shared, 0) == BWF_TIMED_OUT && bwf_run(shared, 20) == BWF_TIMED_OUT);
  CHECK(pthread_create(&thread, NULL, stopper, NULL) == 0);
  CHECK(bwf_run(shared, -1) == BWF_STOPPED);
  pthread_join(thread, NULL);
  /* A stop that nobody ran for ends the next run, and only that. */
  CHECK(bwf_stop(shared) == BWF_OK && bwf_stop(shared) == BWF_OK);
  CHECK(bwf_run(shared, -1) == BWF_STOPPED);
  CHECK(bwf_run(shared, 5) == BWF_TIMED_OUT);
  signal(SIGALRM, on_signal);
  struct itimerspec soon = {.it_value = {0, 30000000}};
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
  CHECK(bwf_run(shared, -1) == BWF_STOPPED && stopped_by_signal);
  CHECK(pthread_create(&thread, NULL, stranger, NULL) == 0);
  pthread_join(thread, NULL);
  CHECK(bwf_close(shared) == BWF_OK);
  CHECK(bwf_stop(shared) == BWF_ERR_HANDLE);
}

/* A child has none of its parent's handlers, can have its own, and leaves the parent's as it was. */
static void forks(const char *toml, const char *capture) {
  bwf_channel channel = {.size = sizeof channel};
  bwf_feed *own = NULL, *first = NULL, *feed;
  int status;
  /* The place that the child's will have was used before. */
  CHECK(bwf_open(toml, NULL, 0, &feed) == BWF_OK && bwf_open(toml, NULL, BWF_OFFLINE, &first) == BWF_OK);
  CHECK(bwf_close(first) == BWF_OK);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    /* Ends by itself where a call does not come back. */
    alarm(60);
    CHECK(bwf_process(feed) == BWF_ERR_HANDLE && bwf_run(feed, 0) == BWF_ERR_HANDLE);
    CHECK(bwf_channel_get(feed, 0, &channel) == BWF_ERR_HANDLE && bwf_stop(feed) == BWF_ERR_HANDLE);
    CHECK(bwf_close(feed) == BWF_ERR_HANDLE && strstr(bwf_last_error(), "fork") != NULL);
    CHECK(bwf_open(toml, NULL, BWF_OFFLINE, &own) == BWF_OK && bwf_replay_open(own, &capture, 1) == BWF_OK);
    CHECK(bwf_replay(own, 0, NULL) == BWF_OK && bwf_instruments(own, 0, NULL, 0) == 20);
    CHECK(bwf_stop(own) == BWF_OK && bwf_close(own) == BWF_OK);
    /* What it inherited is left alone by the end of its process. */
    exit(0);
  }
  /* While the child calls, and after it. */
  CHECK(bwf_run(feed, 300) == BWF_TIMED_OUT);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(bwf_process(feed) == 0 && bwf_run(feed, 5) == BWF_TIMED_OUT);
  CHECK(bwf_stop(feed) == BWF_OK && bwf_run(feed, -1) == BWF_STOPPED && bwf_close(feed) == BWF_OK);
}

/* A child that is forked inside a callback has no more part in the handler. */
struct forked {
  bwf_feed *feed;
  int done;
  pid_t child;
};

static void fork_inside(void *user, const bwf_packet *packet) {
  struct forked *forked = user;
  int status;
  (void)packet;
  if (forked->done++ > 0) return;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    CHECK(bwf_channel_count(forked->feed) == BWF_ERR_HANDLE && strstr(bwf_last_error(), "fork") != NULL);
    CHECK(bwf_close(forked->feed) == BWF_ERR_HANDLE);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(bwf_channel_count(forked->feed) == BWF_ERR_REENTRANT);
}

static void forks_inside(const char *toml, const char *capture) {
  struct forked forked = {0};
  bwf_callbacks callbacks = {.size = sizeof callbacks, .user = &forked, .packet = fork_inside};
  CHECK(bwf_open(toml, &callbacks, BWF_OFFLINE, &forked.feed) == BWF_OK);
  CHECK(bwf_replay_open(forked.feed, &capture, 1) == BWF_OK && bwf_replay(forked.feed, 0, NULL) == BWF_OK);
  CHECK(forked.done > 100 && bwf_close(forked.feed) == BWF_OK);
}

static void fork_and_return(void *user, const bwf_packet *packet) {
  struct forked *forked = user;
  (void)packet;
  if (forked->done++ > 0) return;
  forked->child = fork();
  CHECK(forked->child >= 0);
}

/* One that returns from the callback leaves its parent's run, and takes no packet from it. */
static void forks_run(const char *toml) {
  struct forked forked = {0};
  bwf_callbacks callbacks = {.size = sizeof callbacks, .user = &forked, .packet = fork_and_return};
  int status, ended;
  CHECK(bwf_open(toml, &callbacks, 0, &forked.feed) == BWF_OK);
  ended = bwf_run(forked.feed, -1);
  if (forked.child == 0) _exit(ended == BWF_ERR_HANDLE && strstr(bwf_last_error(), "fork") != NULL ? 0 : 1);
  CHECK(waitpid(forked.child, &status, 0) == forked.child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(ended == BWF_OK && forked.done > 100 && bwf_close(forked.feed) == BWF_OK);
}

/* Two handlers, one of them driven from inside the other's callback. */
struct nested {
  bwf_feed *outer, *inner;
  const char *capture;
  int done;
};

static void from_inside(void *user, const bwf_packet *packet) {
  struct nested *nested = user;
  (void)packet;
  if (nested->done++ > 0) return;
  CHECK(bwf_replay_open(nested->inner, &nested->capture, 1) == BWF_OK);
  CHECK(bwf_replay(nested->inner, 0, NULL) == BWF_OK);
  CHECK(bwf_replay(nested->outer, 0, NULL) == BWF_ERR_REENTRANT);
}

static void inner_packet(void *user, const bwf_packet *packet) {
  struct nested *nested = user;
  (void)packet;
  /* Not the innermost of those that are running, and refused all the same. */
  CHECK(bwf_channel_count(nested->outer) == BWF_ERR_REENTRANT);
  CHECK(bwf_channel_count(nested->inner) == BWF_ERR_REENTRANT);
}

static void nested(const char *toml, const char *capture) {
  struct nested nested = {.capture = capture};
  bwf_callbacks outer = {.size = sizeof outer, .user = &nested, .packet = from_inside};
  bwf_callbacks inner = {.size = sizeof inner, .user = &nested, .packet = inner_packet};
  CHECK(bwf_open(toml, &outer, BWF_OFFLINE, &nested.outer) == BWF_OK);
  CHECK(bwf_open(toml, &inner, BWF_OFFLINE, &nested.inner) == BWF_OK);
  CHECK(bwf_replay_open(nested.outer, &capture, 1) == BWF_OK);
  CHECK(bwf_replay(nested.outer, 0, NULL) == BWF_OK);
  CHECK(nested.done > 100 && bwf_instruments(nested.inner, 0, NULL, 0) == 20);
  CHECK(bwf_close(nested.inner) == BWF_OK && bwf_close(nested.outer) == BWF_OK);
}

static void misuse(const char *toml, const char *capture) {
  const char *text =
      "[[channel]]\nid = 1\nlines = \"bot\"\n[[channel.connection]]\nfeed = \"I\"\nside = \"A\"\n"
      "group = \"239.1.1.1\"\nudp_port = 19000\n";
  const char *missing = "/nonexistent/feed.toml";
  bwf_feed *feed = NULL;
  uint64_t packets = 7;
  CHECK(bwf_abi_version() == BWF_ABI_VERSION && strlen(bwf_version()) >= 5);
  CHECK(strcmp(bwf_strerror(BWF_OK), "no error") == 0 && strcmp(bwf_strerror(12345), "unknown code") == 0);
  CHECK(strcmp(bwf_reason_name(0), "short_packet") == 0 && strcmp(bwf_reason_name(4000), "unknown") == 0);

  /* Opening. */
  CHECK(bwf_open(NULL, NULL, 0, &feed) == BWF_ERR_INVALID && bwf_open(toml, NULL, 0, NULL) == BWF_ERR_INVALID);
  CHECK(bwf_open(toml, NULL, 2, &feed) == BWF_ERR_INVALID && bwf_open_text(NULL, NULL, 0, &feed) == BWF_ERR_INVALID);
  CHECK(bwf_open(missing, NULL, 0, &feed) == BWF_ERR_CONFIG && feed == NULL);
  CHECK(strstr(bwf_last_error(), missing) != NULL);
  CHECK(bwf_open_text(text, NULL, 0, &feed) == BWF_ERR_CONFIG && feed == NULL);
  CHECK(strstr(bwf_last_error(), "3:") != NULL && strstr(bwf_last_error(), "both") != NULL);
  puts(bwf_last_error());
  bwf_callbacks callbacks = {.size = 3};
  CHECK(bwf_open(toml, &callbacks, BWF_OFFLINE, &feed) == BWF_ERR_VERSION && feed == NULL);
  callbacks = (bwf_callbacks){.size = sizeof callbacks, .reserved = 1};
  CHECK(bwf_open(toml, &callbacks, BWF_OFFLINE, &feed) == BWF_ERR_INVALID && feed == NULL);

  /* What is no handler. */
  bwf_book book = {.size = sizeof book};
  for (uintptr_t wrong = 0; wrong < 70000; wrong += wrong < 70 ? 1 : 999) {
    bwf_feed *none = (bwf_feed *)wrong;
    CHECK(bwf_process(none) == BWF_ERR_HANDLE && bwf_run(none, 0) == BWF_ERR_HANDLE &&
          bwf_stop(none) == BWF_ERR_HANDLE);
    CHECK(bwf_close(none) == (wrong == 0 ? BWF_OK : BWF_ERR_HANDLE));
    CHECK(bwf_book_get(none, 0, 1, &book, NULL) == BWF_ERR_HANDLE && bwf_channel_count(none) == BWF_ERR_HANDLE);
  }
  CHECK(bwf_stop((bwf_feed *)UINTPTR_MAX) == BWF_ERR_HANDLE && bwf_close((bwf_feed *)UINTPTR_MAX) == BWF_ERR_HANDLE);

  /* An offline one. */
  CHECK(bwf_open(toml, NULL, BWF_OFFLINE, &feed) == BWF_OK);
  CHECK(bwf_process(feed) == BWF_ERR_MODE && bwf_run(feed, 0) == BWF_ERR_MODE);
  CHECK(bwf_replay(feed, 0, &packets) == BWF_ERR_MODE && packets == 7);
  CHECK(bwf_replay_open(feed, NULL, 1) == BWF_ERR_INVALID && bwf_replay_open(feed, &capture, 0) == BWF_ERR_INVALID);
  CHECK(bwf_replay_open(feed, &capture, 65) == BWF_ERR_INVALID);
  const char *two[] = {capture, NULL};
  CHECK(bwf_replay_open(feed, two, 2) == BWF_ERR_INVALID);
  CHECK(bwf_replay_open(feed, &missing, 1) == BWF_ERR_CAPTURE && bwf_replay_open(feed, &toml, 1) == BWF_ERR_CAPTURE);
  CHECK(bwf_replay_open(feed, &capture, 1) == BWF_OK);
  CHECK(bwf_replay(feed, -1, NULL) == BWF_ERR_INVALID && bwf_replay(feed, 0.0 / 0.0, NULL) == BWF_ERR_INVALID);
  CHECK(bwf_stop(feed) == BWF_OK && bwf_replay(feed, 0, &packets) == BWF_STOPPED && packets == 0);
  CHECK(bwf_replay(feed, 0, NULL) == BWF_OK);

  /* Sizes. */
  bwf_channel channel = {.size = sizeof channel - 1};
  bwf_instrument instrument = {.size = 0};
  bwf_book_room room = {.size = 8};
  bwf_line line = {.size = 1};
  bwf_statistic statistic = {.size = 1};
  bwf_limits limits = {.size = 1};
  CHECK(bwf_channel_get(feed, 0, &channel) == BWF_ERR_VERSION && bwf_channel_get(feed, 0, NULL) == BWF_ERR_INVALID);
  CHECK(bwf_instrument_get(feed, 0, 1000, &instrument) == BWF_ERR_VERSION);
  CHECK(bwf_instrument_find(feed, 0, NULL, &instrument) == BWF_ERR_INVALID);
  CHECK(bwf_line_get(feed, 0, 0, 0, &line) == BWF_ERR_VERSION);
  CHECK(bwf_statistic_get(feed, 0, 1000, 0, &statistic) == BWF_ERR_VERSION);
  CHECK(bwf_statistic_get(feed, 0, 1000, 13, &statistic) == BWF_ERR_INVALID);
  CHECK(bwf_limits_get(feed, 0, 1000, &limits) == BWF_ERR_VERSION);
  CHECK(bwf_book_get(feed, 0, 1000, &book, &room) == BWF_ERR_VERSION);
  room.size = sizeof room;
  CHECK(bwf_book_get(feed, 0, 1000, NULL, &room) == BWF_ERR_INVALID);
  book.size = sizeof book - 1;
  CHECK(bwf_book_get(feed, 0, 1000, &book, &room) == BWF_ERR_VERSION);
  /* A later release's structure is larger, and what we know of it is filled in. */
  book.size = sizeof book + 8;
  CHECK(bwf_book_get(feed, 0, 1000, &book, &room) == BWF_OK && book.size == sizeof book);
  CHECK(bwf_book_get(feed, 0, 999, &book, &room) == BWF_ERR_NO_INSTRUMENT);
  CHECK(bwf_book_get(feed, 1, 1000, &book, &room) == BWF_ERR_NO_CHANNEL);
  CHECK(bwf_counters(feed, 0, NULL, NULL) == BWF_ERR_INVALID &&
        bwf_source_counters(feed, NULL, NULL) == BWF_ERR_INVALID);
  CHECK(bwf_counters(feed, 1, find_counter, &(struct counter){"packets", 0}) == BWF_ERR_NO_CHANNEL);

  /* Books that are none. */
  bwf_level levels[BWF_DEPTH_MAX];
  CHECK(bwf_consolidated(NULL, BWF_BID, levels, 10) == BWF_ERR_INVALID);
  CHECK(bwf_consolidated(&book, 2, levels, 10) == BWF_ERR_INVALID);
  CHECK(bwf_consolidated(&book, BWF_BID, levels, 0) > 0 &&
        bwf_consolidated(&book, BWF_BID, NULL, 1) == BWF_ERR_INVALID);
  book.direct[BWF_BID].count = 11;
  CHECK(bwf_consolidated(&book, BWF_BID, levels, 10) == BWF_ERR_INVALID);
  book.direct[BWF_BID] = (bwf_levels){.count = 1};
  CHECK(bwf_consolidated(&book, BWF_BID, levels, 10) == BWF_ERR_INVALID);

  /* Prices. */
  char price[BWF_PRICE_TEXT_MAX];
  CHECK(bwf_price_format(-1250000000, price, sizeof price) == 5 && strcmp(price, "-1.25") == 0);
  CHECK(bwf_price_format(INT64_MIN, price, sizeof price) > 0 && bwf_price_format(1, price, 3) == BWF_ERR_INVALID);
  CHECK(bwf_price_format(1, NULL, 30) == BWF_ERR_INVALID);

  /* A closed one. */
  CHECK(bwf_close(feed) == BWF_OK);
  CHECK(bwf_close(feed) == BWF_ERR_HANDLE && bwf_replay(feed, 0, NULL) == BWF_ERR_HANDLE &&
        bwf_stop(feed) == BWF_ERR_HANDLE);
  bwf_feed *next;
  CHECK(bwf_open(toml, NULL, BWF_OFFLINE, &next) == BWF_OK && next != feed);
  CHECK(bwf_close(feed) == BWF_ERR_HANDLE && bwf_stop(feed) == BWF_ERR_HANDLE && bwf_close(next) == BWF_OK);
}

int main(int argc, char **argv) {
  CHECK(argc >= 3);
  if (strcmp(argv[1], "callbacks") == 0)
    callbacks(argv[2], argv[3]);
  else if (strcmp(argv[1], "queries") == 0)
    queries(argv[2], argv[3]);
  else if (strcmp(argv[1], "live") == 0)
    live(argv[2]);
  else if (strcmp(argv[1], "stop") == 0)
    stop(argv[2]);
  else if (strcmp(argv[1], "forks") == 0)
    forks(argv[2], argv[3]), forks_inside(argv[2], argv[3]);
  else if (strcmp(argv[1], "forks_run") == 0)
    forks_run(argv[2]);
  else if (strcmp(argv[1], "nested") == 0)
    nested(argv[2], argv[3]);
  else if (strcmp(argv[1], "misuse") == 0)
    misuse(argv[2], argv[3]);
  else
    CHECK(!"a known word");
  return 0;
}
