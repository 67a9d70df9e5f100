/*
 * Prints the books of the feed channels of a configuration.
 *
 *     books feed.toml                      receives until Ctrl-C, then prints every book
 *     books feed.toml a.pcap b.pcap        replays captures, merged by their stamps, then prints every book
 *     books -e feed.toml ...               prints also each trade, and each change of the best bid and offer
 *
 * A book is a line `book CHANNEL SECURITY_ID SYMBOL good|NUMBER_OF_THE_STATE RPT_SEQ` and a line for each level and order of it:
 * `bid|offer|implied-bid|implied-offer|consolidated-bid|consolidated-offer LEVEL PRICE QUANTITY [ORDERS]` and
 * `order-bid|order-offer PLACE ORDER_ID PRIORITY PRICE QUANTITY`.
 */
#include <bwfeed.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bwf_feed *feed;

static void die(const char *what) {
  fprintf(stderr, "books: %s: %s\n", what, bwf_last_error());
  exit(1);
}

static const char *price(int64_t of) {
  /* Two of them in one printf. */
  static char text[2][BWF_PRICE_TEXT_MAX];
  static int next;
  next = !next;
  if (bwf_price_format(of, text[next], sizeof text[next]) < 0) die("price");
  return text[next];
}

static void print_levels(const char *name, const bwf_level *levels, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    printf("%s %" PRIu32 " %s %" PRId64, name, i + 1, price(levels[i].price), levels[i].quantity);
    if (levels[i].orders != BWF_NULL_I32) printf(" %" PRId32, levels[i].orders);
    putchar('\n');
  }
}

static void print_book(const bwf_book *book) {
  static const char *const sides[] = {"bid", "offer"};
  char state[8] = "good", name[32];
  if (!book->is_good) snprintf(state, sizeof state, "%d", book->state);
  printf("book %" PRIu32 " %" PRId32 " %s %s %" PRIu32 "\n", book->channel, book->security_id, book->symbol, state,
         book->rpt_seq);
  for (uint32_t side = BWF_BID; side <= BWF_OFFER; side++) {
    bwf_level merged[BWF_DEPTH_MAX];
    int count = bwf_consolidated(book, side, merged, BWF_DEPTH_MAX);
    if (count < 0) die("consolidated");
    print_levels(sides[side], book->direct[side].levels, book->direct[side].count);
    snprintf(name, sizeof name, "implied-%s", sides[side]);
    print_levels(name, book->implied[side].levels, book->implied[side].count);
    snprintf(name, sizeof name, "consolidated-%s", sides[side]);
    print_levels(name, merged, (uint32_t)count);
    for (uint32_t i = 0; i < book->orders[side].count; i++) {
      const bwf_order *order = &book->orders[side].orders[i];
      printf("order-%s %" PRIu32 " %" PRIu64 " %" PRIu64 " %s %" PRId64 "\n", sides[side], i + 1, order->id,
             order->priority, price(order->price), order->quantity);
    }
  }
}

static void print_books(void) {
  int channels = bwf_channel_count(feed);
  if (channels < 0) die("channels");
  for (int channel = 0; channel < channels; channel++) {
    int count = bwf_instruments(feed, (uint32_t)channel, NULL, 0);
    if (count < 0) die("instruments");
    int32_t *ids = malloc(sizeof *ids * (size_t)(count + 1));
    if (ids == NULL) abort();
    if (bwf_instruments(feed, (uint32_t)channel, ids, (size_t)count) < 0) die("instruments");
    for (int i = 0; i < count; i++) {
      bwf_book_room room = {.size = sizeof room};
      bwf_book book = {.size = sizeof book};
      if (bwf_book_get(feed, (uint32_t)channel, ids[i], &book, &room) < 0) die("book");
      print_book(&book);
    }
    free(ids);
  }
}

static void on_book(void *user, const bwf_book *book) {
  const bwf_levels *bids = &book->direct[BWF_BID], *offers = &book->direct[BWF_OFFER];
  (void)user;
  printf("best %" PRId32 " %s", book->security_id, book->symbol);
  if (bids->count > 0) printf(" bid %s x %" PRId64, price(bids->levels[0].price), bids->levels[0].quantity);
  if (offers->count > 0) printf(" offer %s x %" PRId64, price(offers->levels[0].price), offers->levels[0].quantity);
  putchar('\n');
}

static void on_trade(void *user, const bwf_trade *trade) {
  (void)user;
  printf("trade %" PRId32 " %s %s x %" PRId64 "\n", trade->security_id, trade->symbol, price(trade->price),
         trade->quantity);
}

static void on_gap(void *user, const bwf_gap *gap) {
  (void)user;
  fprintf(stderr, "books: channel %" PRIu32 ": packets %" PRIu32 " to %" PRIu32 " are lost\n", gap->channel, gap->first,
          gap->last);
}

static void on_feed_state(void *user, uint32_t channel, uint32_t state) {
  (void)user;
  fprintf(stderr, "books: channel %" PRIu32 " is %s\n", channel, state == BWF_STATE_UP ? "up" : "down");
}

static void print_counter(void *user, const char *name, uint64_t value) {
  (void)user;
  if (value > 0) fprintf(stderr, " %s=%" PRIu64, name, value);
}

static void on_signal(int signal) {
  (void)signal;
  bwf_stop(feed);
}

int main(int argc, char **argv) {
  bwf_callbacks callbacks = {.size = sizeof callbacks, .gap = on_gap, .feed_state = on_feed_state};
  int first = 1;
  if (argc > 1 && strcmp(argv[1], "-e") == 0) {
    callbacks.book = on_book;
    callbacks.trade = on_trade;
    first = 2;
  }
  if (argc <= first) {
    fprintf(stderr, "usage: books [-e] CONFIGURATION [CAPTURE...]\n");
    return 2;
  }
  int captures = argc - first - 1;
  if (bwf_open(argv[first], &callbacks, captures > 0 ? BWF_OFFLINE : 0, &feed) < 0) die("open");
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  if (captures > 0) {
    if (bwf_replay_open(feed, (const char *const *)&argv[first + 1], (size_t)captures) < 0) die("replay");
    if (bwf_replay(feed, 0, NULL) < 0) die("replay");
  } else if (bwf_run(feed, -1) < 0) {
    die("run");
  }
  print_books();
  fprintf(stderr, "books:");
  for (int channel = 0; channel < bwf_channel_count(feed); channel++)
    if (bwf_counters(feed, (uint32_t)channel, print_counter, NULL) < 0) die("counters");
  fputc('\n', stderr);
  if (bwf_close(feed) < 0) die("close");
  return 0;
}
