/*
 * bwfeed.h: the market-data feed handler (CME MDP 3.0) for C. Generated from the library's source; do not edit.
 *
 * A handler receives the feed channels of a configuration, or replays captures of them, keeps the books, and calls back:
 *
 *     static void on_book(void *user, const bwf_book *book) { ... book->direct[BWF_BID].levels[0].price ... }
 *
 *     bwf_callbacks callbacks = {.size = sizeof callbacks, .book = on_book};
 *     bwf_feed *feed;
 *     if (bwf_open("feed.toml", &callbacks, 0, &feed) != BWF_OK) die(bwf_last_error());
 *     bwf_run(feed, -1);
 *     bwf_close(feed);
 *
 * Results: functions that return int give 0 or a positive number when they worked, and a negative BWF_ERR_... code when not.
 * Codes, kinds and reasons never change their meaning.
 *
 * Structures only ever grow at their end. Those that are handed in have their `size` set by the caller, as sizeof says; those
 * that callbacks are given have it set by the library.
 *
 * Numbers: prices are whole numbers of 10^-9 and quantities whole numbers. Times are nanoseconds; those of the exchange
 * (sending_time_ns, transact_time_ns) count from 1970.
 *
 * Threads: a handler belongs to the thread that opened it; calls from others get BWF_ERR_THREAD or BWF_ERR_BUSY, bwf_stop
 * excepted. That thread closes it before it ends. Several threads open one handler each. bwf_last_error speaks of the
 * calling thread. A child made by fork() uses none of its parent's handlers, which get BWF_ERR_HANDLE there: it opens its own.
 *
 * Callbacks run inside bwf_process, bwf_run, bwf_replay and the counters' calls. From inside one, calls on the same handler
 * get BWF_ERR_REENTRANT, bwf_stop excepted. They return the usual way: neither by longjmp nor by an exception of C++.
 *
 * Pointers: null, closed and invalid handlers are reported by a code. Other pointers that are not null have to be valid for the
 * call; the library keeps the callbacks and their user pointer, and nothing else.
 */


#ifndef BWFEED_H
#define BWFEED_H

#include <stddef.h>
#include <stdint.h>

/**
 * Success. Of a run or a replay: there is nothing more to come.
 */
#define BWF_OK 0

/**
 * A run or a replay ended because bwf_stop was called.
 */
#define BWF_STOPPED 1

/**
 * A run ended because its time was over.
 */
#define BWF_TIMED_OUT 2

/**
 * An argument is null or out of range.
 */
#define BWF_ERR_INVALID -1

/**
 * Not a feed handler, already closed, or of the process that this one was forked from.
 */
#define BWF_ERR_HANDLE -2

/**
 * Another thread is inside a call on this handler.
 */
#define BWF_ERR_BUSY -3

/**
 * This thread is inside a callback of this handler, where no calls on it are possible but bwf_stop.
 */
#define BWF_ERR_REENTRANT -4

/**
 * The handler belongs to the thread that opened it.
 */
#define BWF_ERR_THREAD -5

/**
 * A structure's `size` is not what this library knows.
 */
#define BWF_ERR_VERSION -6

/**
 * The configuration was refused; bwf_last_error says where and why.
 */
#define BWF_ERR_CONFIG -7

/**
 * Packets cannot be received: an interface, a socket, a port.
 */
#define BWF_ERR_SOURCE -8

/**
 * A capture is damaged, or cannot be read.
 */
#define BWF_ERR_CAPTURE -9

/**
 * No such feed channel in the configuration.
 */
#define BWF_ERR_NO_CHANNEL -10

/**
 * No such instrument, or none yet.
 */
#define BWF_ERR_NO_INSTRUMENT -11

/**
 * A handler that receives does not replay, and one that replays (BWF_OFFLINE) does not receive.
 */
#define BWF_ERR_MODE -12

/**
 * The process has 1024 handlers already.
 */
#define BWF_ERR_TOO_MANY -13

/**
 * A system call failed.
 */
#define BWF_ERR_SYSTEM -14

/**
 * A bug in the library: the call was cut short. Close the handler.
 */
#define BWF_ERR_PANIC -15

/**
 * Open without receiving, for bwf_replay.
 */
#define BWF_OFFLINE 1

/**
 * Levels of one side of a book, at most.
 */
#define BWF_DEPTH_MAX 10

/**
 * Orders of one side that bwf_book_get gives, at most: the best. A book that a callback shows has all of them.
 */
#define BWF_ORDERS_MAX 10

/**
 * Bytes of a symbol, its final zero included.
 */
#define BWF_SYMBOL_LEN 24

/**
 * Bytes of another text of a definition, its final zero included.
 */
#define BWF_TEXT_LEN 8

/**
 * Bytes of a channel's label, its final zero included.
 */
#define BWF_LABEL_LEN 64

/**
 * Bytes that hold any text of bwf_price_format, its final zero included.
 */
#define BWF_PRICE_TEXT_MAX 32

/**
 * No price. Prices are whole numbers of 10^-9.
 */
#define BWF_NULL_PRICE 9223372036854775807

/**
 * No number of orders, or no tradeable size.
 */
#define BWF_NULL_I32 2147483647

/**
 * No quantity.
 */
#define BWF_NULL_QUANTITY 9223372036854775807

/**
 * No trade id, or no sequence number.
 */
#define BWF_NULL_U32 4294967295

/**
 * Buyers; the highest price is best. An index into the arrays of a book.
 */
#define BWF_BID 0

/**
 * Sellers; the lowest price is best. An index into the arrays of a book.
 */
#define BWF_OFFER 1

/**
 * Nothing is known of the book yet, or not how deep it is: the definition loop is heard, and has not named the instrument.
 */
#define BWF_BOOK_UNDEFINED 0

/**
 * Complete and current.
 */
#define BWF_BOOK_LATEST 1

/**
 * Complete and current, by natural refresh.
 */
#define BWF_BOOK_NATURALLY_REFRESHED 2

/**
 * Packets were lost since its last update; it shows the last good state.
 */
#define BWF_BOOK_SUSPECT 3

/**
 * It has missed an update; it shows the last good state, or under natural refresh the levels known from the top.
 */
#define BWF_BOOK_STALE 4

/**
 * An event ended that changed the book.
 */
#define BWF_CAUSE_EVENT 0

/**
 * A snapshot set it, or showed that it had missed nothing.
 */
#define BWF_CAUSE_SNAPSHOT 1

/**
 * Natural refresh completed it.
 */
#define BWF_CAUSE_NATURAL_REFRESH 2

/**
 * It was asked for.
 */
#define BWF_CAUSE_QUERY 3

/**
 * A definition has named its depth, so that it can be called good.
 */
#define BWF_CAUSE_DEFINITION 4

/**
 * Updates as they happen.
 */
#define BWF_FEED_INCREMENTAL 0

/**
 * The snapshot loop.
 */
#define BWF_FEED_SNAPSHOT 1

/**
 * The loop of instrument definitions.
 */
#define BWF_FEED_INSTRUMENT 2

/**
 * The loop of whole books by order, on channels that publish every order.
 */
#define BWF_FEED_ORDER_SNAPSHOT 3

/**
 * No packet yet.
 */
#define BWF_STATE_SILENT 0

/**
 * Packets or heartbeats come.
 */
#define BWF_STATE_UP 1

/**
 * None for longer than the heartbeat time-out.
 */
#define BWF_STATE_DOWN 2

/**
 * Nobody stamped the packet.
 */
#define BWF_STAMP_NONE 0

/**
 * The engine, when it found the packet (CLOCK_MONOTONIC); of a replay the capture's stamp.
 */
#define BWF_STAMP_ENGINE 1

/**
 * The kernel.
 */
#define BWF_STAMP_KERNEL 2

/**
 * The network card.
 */
#define BWF_STAMP_HARDWARE 3

/**
 * CLOCK_MONOTONIC.
 */
#define BWF_CLOCK_MONOTONIC 0

/**
 * CLOCK_REALTIME.
 */
#define BWF_CLOCK_REALTIME 1

/**
 * The network card's own clock.
 */
#define BWF_CLOCK_NIC 2

/**
 * The time written in a capture.
 */
#define BWF_CLOCK_CAPTURE 3

/**
 * A new instrument.
 */
#define BWF_DEFINITION_ADD 0

/**
 * Another definition of a known one.
 */
#define BWF_DEFINITION_MODIFY 1

/**
 * The instrument is gone, and its book with it.
 */
#define BWF_DEFINITION_DELETE 2

/**
 * Nobody brought the packets in time.
 */
#define BWF_GAP_TIME 0

/**
 * Too many later ones were held.
 */
#define BWF_GAP_COUNT 1

/**
 * The numbers went on far ahead.
 */
#define BWF_GAP_JUMP 2

/**
 * A snapshot knew of later ones, and they did not come.
 */
#define BWF_GAP_SNAPSHOT 3

/**
 * Recovery begins: some instruments are not good.
 */
#define BWF_RECOVERY_BEGIN 0

/**
 * Recovery is over: all instruments are good.
 */
#define BWF_RECOVERY_END 1

/**
 * The exchange reset the channel: books and statistics are empty.
 */
#define BWF_RESET_CHANNEL 0

/**
 * The packet numbers started over, as they do each week.
 */
#define BWF_RESET_SEQUENCE 1

/**
 * A status of one security.
 */
#define BWF_SCOPE_SECURITY 0

/**
 * A status of a security group.
 */
#define BWF_SCOPE_GROUP 1

/**
 * A status of an asset.
 */
#define BWF_SCOPE_ASSET 2

/**
 * Last trade.
 */
#define BWF_STATISTIC_LAST_TRADE 0

/**
 * Opening price.
 */
#define BWF_STATISTIC_OPEN 1

/**
 * Indicative opening price.
 */
#define BWF_STATISTIC_INDICATIVE_OPEN 2

/**
 * Settlement price.
 */
#define BWF_STATISTIC_SETTLEMENT 3

/**
 * Highest trade.
 */
#define BWF_STATISTIC_HIGH 4

/**
 * Lowest trade.
 */
#define BWF_STATISTIC_LOW 5

/**
 * Volume-weighted average price.
 */
#define BWF_STATISTIC_VWAP 6

/**
 * Cleared volume.
 */
#define BWF_STATISTIC_CLEARED_VOLUME 7

/**
 * Open interest.
 */
#define BWF_STATISTIC_OPEN_INTEREST 8

/**
 * Highest bid.
 */
#define BWF_STATISTIC_HIGHEST_BID 9

/**
 * Lowest offer.
 */
#define BWF_STATISTIC_LOWEST_OFFER 10

/**
 * Fixing price.
 */
#define BWF_STATISTIC_FIXING 11

/**
 * Electronic volume.
 */
#define BWF_STATISTIC_VOLUME 12

/**
 * Version of this ABI: grows when something is added, and the library's name changes when something is taken away.
 */
#define BWF_ABI_VERSION 1

/**
 * Captures of one replay, at most.
 */
#define BWF_CAPTURES_MAX 64

/**
 * A feed handler. The pointer is a handle, not an address: never dereference it.
 */
typedef struct bwf_feed bwf_feed;

/**
 * A packet that is being processed.
 */
typedef struct bwf_packet {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * MsgSeqNum.
   */
  uint32_t seq_num;
  /**
   * Bytes of the packet.
   */
  uint32_t len;
  /**
   * The packet, from its header of 12 bytes on. Valid in the callback only.
   */
  const uint8_t *bytes;
  /**
   * SendingTime: nanoseconds since 1970, by the exchange's clock.
   */
  uint64_t sending_time_ns;
  /**
   * When it was received, by the clock that `stamp_clock` names, in nanoseconds.
   */
  uint64_t stamp_ns;
  /**
   * Bound on the error of a conversion of the stamp, in nanoseconds.
   */
  uint32_t stamp_error_ns;
  /**
   * Who stamped it: BWF_STAMP_...
   */
  uint8_t stamp_source;
  /**
   * By which clock: BWF_CLOCK_...
   */
  uint8_t stamp_clock;
  /**
   * Which feed it came by: BWF_FEED_...
   */
  uint8_t feed;
  /**
   * Which line: 0 is A, 1 is B.
   */
  uint8_t side;
  /**
   * 1 when it waited for its turn.
   */
  uint8_t held;
  /**
   * Zero.
   */
  uint8_t reserved[7];
} bwf_packet;

/**
 * A message, before it is processed.
 */
typedef struct bwf_message {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Which template.
   */
  uint16_t template_id;
  /**
   * Acting length of the root block.
   */
  uint16_t block_length;
  /**
   * Which schema.
   */
  uint16_t schema_id;
  /**
   * The schema's version that the sender acted by.
   */
  uint16_t version;
  /**
   * Where the message (its size field) begins in the packet.
   */
  uint32_t at;
  /**
   * Root block and groups. Valid in the callback only.
   */
  const uint8_t *body;
  /**
   * Bytes of them.
   */
  uint32_t len;
  /**
   * Zero.
   */
  uint32_t reserved;
} bwf_message;

/**
 * One price level.
 */
typedef struct bwf_level {
  /**
   * In 10^-9.
   */
  int64_t price;
  /**
   * Quantity at the price.
   */
  int64_t quantity;
  /**
   * Orders at the price, or BWF_NULL_I32.
   */
  int32_t orders;
  /**
   * Tradeable size, or BWF_NULL_I32.
   */
  int32_t tradeable;
} bwf_level;

/**
 * A price-level entry as it arrives. Its event has not ended yet.
 */
typedef struct bwf_book_entry {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * The exchange's id.
   */
  int32_t security_id;
  /**
   * RptSeq.
   */
  uint32_t rpt_seq;
  /**
   * Symbol.
   */
  char symbol[BWF_SYMBOL_LEN];
  /**
   * Its content; the price may be BWF_NULL_PRICE.
   */
  struct bwf_level level;
  /**
   * MDPriceLevel, from 1.
   */
  uint8_t price_level;
  /**
   * MDUpdateAction (tag 279).
   */
  uint8_t action;
  /**
   * MDEntryType (tag 269).
   */
  uint8_t entry_type;
  /**
   * Zero.
   */
  uint8_t reserved[5];
} bwf_book_entry;

/**
 * The levels of one side, best first.
 */
typedef struct bwf_levels {
  /**
   * The first of them; null when there are none.
   */
  const struct bwf_level *levels;
  /**
   * How many.
   */
  uint32_t count;
  /**
   * Zero.
   */
  uint32_t reserved;
} bwf_levels;

/**
 * One order.
 */
typedef struct bwf_order {
  /**
   * The exchange's order id.
   */
  uint64_t id;
  /**
   * Priority within a price: lower goes first; all ones where there was none.
   */
  uint64_t priority;
  /**
   * In 10^-9.
   */
  int64_t price;
  /**
   * Quantity on display.
   */
  int64_t quantity;
} bwf_order;

/**
 * The orders of one side, best first.
 */
typedef struct bwf_orders {
  /**
   * The first of them; null when there are none.
   */
  const struct bwf_order *orders;
  /**
   * How many.
   */
  uint32_t count;
  /**
   * Zero.
   */
  uint32_t reserved;
} bwf_orders;

/**
 * One instrument's books at the end of an event. What it points to is valid in the callback only, or lies in the room that
 * bwf_book_get was given. Arrays of two are by BWF_BID and BWF_OFFER.
 */
typedef struct bwf_book {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * The exchange's id.
   */
  int32_t security_id;
  /**
   * RptSeq of the last entry that the book contains.
   */
  uint32_t rpt_seq;
  /**
   * Symbol.
   */
  char symbol[BWF_SYMBOL_LEN];
  /**
   * TransactTime of the event that changed it last: nanoseconds since 1970.
   */
  uint64_t transact_time_ns;
  /**
   * What the price-level books are worth: BWF_BOOK_...
   */
  uint8_t state;
  /**
   * What the book by order is worth: BWF_BOOK_...
   */
  uint8_t orders_state;
  /**
   * Why it is shown: BWF_CAUSE_...
   */
  uint8_t cause;
  /**
   * 1 when `state` means complete and current.
   */
  uint8_t is_good;
  /**
   * Zero.
   */
  uint32_t reserved;
  /**
   * The direct book.
   */
  struct bwf_levels direct[2];
  /**
   * The implied book.
   */
  struct bwf_levels implied[2];
  /**
   * The orders: the best ten (MBOLD), or all where the feed publishes every order.
   */
  struct bwf_orders orders[2];
  /**
   * The market's best quote where the feed has one, or null.
   */
  const struct bwf_level *market_best[2];
} bwf_book;

/**
 * One trade.
 */
typedef struct bwf_trade {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * The exchange's id.
   */
  int32_t security_id;
  /**
   * RptSeq.
   */
  uint32_t rpt_seq;
  /**
   * Symbol.
   */
  char symbol[BWF_SYMBOL_LEN];
  /**
   * TransactTime: nanoseconds since 1970.
   */
  uint64_t transact_time_ns;
  /**
   * In 10^-9.
   */
  int64_t price;
  /**
   * Quantity.
   */
  int64_t quantity;
  /**
   * Orders that took part.
   */
  int32_t orders;
  /**
   * MDTradeEntryID, or BWF_NULL_U32.
   */
  uint32_t trade_id;
  /**
   * AggressorSide (tag 5797): 0 none, 1 buy, 2 sell, 255 missing.
   */
  uint8_t aggressor;
  /**
   * MDUpdateAction: 0 new, 1 correction, 2 cancelled.
   */
  uint8_t action;
  /**
   * Zero.
   */
  uint8_t reserved[6];
} bwf_trade;

/**
 * A statistic or a volume.
 */
typedef struct bwf_statistic {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * The exchange's id.
   */
  int32_t security_id;
  /**
   * RptSeq of the entry, or of the snapshot.
   */
  uint32_t rpt_seq;
  /**
   * Symbol.
   */
  char symbol[BWF_SYMBOL_LEN];
  /**
   * In 10^-9, or BWF_NULL_PRICE for quantities.
   */
  int64_t price;
  /**
   * Quantity, or BWF_NULL_QUANTITY.
   */
  int64_t quantity;
  /**
   * What it is: BWF_STATISTIC_...
   */
  uint8_t kind;
  /**
   * OpenCloseSettlFlag (tag 286); 255 when missing.
   */
  uint8_t open_close_flag;
  /**
   * SettlPriceType (tag 731), a bit set; 128 when missing.
   */
  uint8_t settl_price_type;
  /**
   * Zero.
   */
  uint8_t reserved;
  /**
   * TradingReferenceDate (tag 5796), days since 1970; 65,535 when missing.
   */
  uint16_t reference_date;
  /**
   * Zero.
   */
  uint16_t reserved2;
} bwf_statistic;

/**
 * Price limits. BWF_NULL_PRICE for what is missing.
 */
typedef struct bwf_limits {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * The exchange's id.
   */
  int32_t security_id;
  /**
   * RptSeq of the entry, or of the snapshot.
   */
  uint32_t rpt_seq;
  /**
   * Symbol.
   */
  char symbol[BWF_SYMBOL_LEN];
  /**
   * Highest price allowed, in 10^-9.
   */
  int64_t high;
  /**
   * Lowest price allowed, in 10^-9.
   */
  int64_t low;
  /**
   * Band about the market, in 10^-9.
   */
  int64_t max_variation;
} bwf_limits;

/**
 * A status that concerns an instrument.
 */
typedef struct bwf_status {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * The exchange's id.
   */
  int32_t security_id;
  /**
   * Whether it was of one security, a group or an asset: BWF_SCOPE_...
   */
  uint8_t scope;
  /**
   * SecurityTradingStatus (tag 326).
   */
  uint8_t status;
  /**
   * HaltReason (tag 327).
   */
  uint8_t halt_reason;
  /**
   * SecurityTradingEvent (tag 1174).
   */
  uint8_t event;
  /**
   * Symbol.
   */
  char symbol[BWF_SYMBOL_LEN];
  /**
   * TransactTime: nanoseconds since 1970.
   */
  uint64_t transact_time_ns;
} bwf_status;

/**
 * A request for quotes.
 */
typedef struct bwf_quote_request {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * The exchange's id.
   */
  int32_t security_id;
  /**
   * Quantity, or BWF_NULL_I32.
   */
  int32_t quantity;
  /**
   * Symbol.
   */
  char symbol[BWF_SYMBOL_LEN];
  /**
   * TransactTime: nanoseconds since 1970.
   */
  uint64_t transact_time_ns;
  /**
   * QuoteType (tag 537).
   */
  int8_t quote_type;
  /**
   * Side (tag 54): 1 buy, 2 sell, 8 cross; 127 missing.
   */
  int8_t side;
  /**
   * Zero.
   */
  uint8_t reserved[6];
} bwf_quote_request;

/**
 * What a definition said, or defaults without one.
 */
typedef struct bwf_instrument {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * The exchange's id (tag 48).
   */
  int32_t security_id;
  /**
   * Template of the definition; 0 without one.
   */
  uint16_t template_id;
  /**
   * Whether a definition has been seen: 0 or 1.
   */
  uint8_t defined;
  /**
   * SecurityTradingStatus as of the definition, a snapshot or the last status; 255 when unknown.
   */
  uint8_t trading_status;
  /**
   * Symbol (tag 55).
   */
  char symbol[BWF_SYMBOL_LEN];
  /**
   * Security group (tag 1151).
   */
  char group[BWF_TEXT_LEN];
  /**
   * Asset (tag 6937).
   */
  char asset[BWF_TEXT_LEN];
  /**
   * Security type (tag 167).
   */
  char security_type[BWF_TEXT_LEN];
  /**
   * CFI code (tag 461).
   */
  char cfi_code[BWF_TEXT_LEN];
  /**
   * Currency (tag 15).
   */
  char currency[BWF_TEXT_LEN];
  /**
   * Tick (tag 969), in 10^-9.
   */
  int64_t min_price_increment;
  /**
   * Factor from prices on the wire to display (tag 9787), in 10^-9.
   */
  int64_t display_factor;
  /**
   * Channel at the exchange (tag 1180).
   */
  int16_t channel_id;
  /**
   * Market segment (tag 1300).
   */
  uint8_t market_segment;
  /**
   * Depth of the direct book.
   */
  uint8_t depth;
  /**
   * Depth of the implied book.
   */
  uint8_t implied_depth;
  /**
   * Zero.
   */
  uint8_t reserved[3];
} bwf_instrument;

/**
 * Packets of the incremental feed that are lost.
 */
typedef struct bwf_gap {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * First number lost.
   */
  uint32_t first;
  /**
   * Last number lost.
   */
  uint32_t last;
  /**
   * Instruments of the event that the gap cut.
   */
  uint32_t cut_instruments;
  /**
   * How it was found: BWF_GAP_...
   */
  uint8_t cause;
  /**
   * Zero.
   */
  uint8_t reserved[3];
} bwf_gap;

/**
 * How a recovery goes.
 */
typedef struct bwf_recovery {
  /**
   * Of this structure, in bytes.
   */
  uint32_t size;
  /**
   * Index of the feed channel in the configuration.
   */
  uint32_t channel;
  /**
   * Last incremental packet lost before.
   */
  uint32_t last_lost;
  /**
   * Instruments of the channel.
   */
  uint32_t instruments;
  /**
   * Of those, the ones whose price levels are not good.
   */
  uint32_t unsettled;
  /**
   * BWF_RECOVERY_...
   */
  uint8_t phase;
  /**
   * Zero.
   */
  uint8_t reserved[3];
  /**
   * Books by order that are not good, of those that the loop or overlays will make so.
   */
  uint32_t unsettled_orders;
} bwf_recovery;

/**
 * What to call when something happens; null for what is not wanted, which then costs nothing. What a callback is given is
 * valid until it returns. Inside a callback the calls on the same handler are refused with BWF_ERR_REENTRANT, bwf_stop
 * excepted; other handlers may be used. `channel` is the index of the feed channel in the configuration.
 *
 * In order, for one packet: packet, then for each message message and its entries, at the end of an event book for every
 * instrument it touched and end_of_event, then end_of_packet.
 */
typedef struct bwf_callbacks {
  /**
   * Of this structure, in bytes: to be set before the call. A smaller one, of an earlier release, is taken, too.
   */
  uint32_t size;
  /**
   * Zero.
   */
  uint32_t reserved;
  /**
   * Handed to each callback.
   */
  void *user;
  /**
   * A packet in its order, before its messages.
   */
  void (*packet)(void *user, const struct bwf_packet *packet);
  /**
   * All messages of the packet have been processed.
   */
  void (*end_of_packet)(void *user, const struct bwf_packet *packet);
  /**
   * A message of any feed, before it is processed.
   */
  void (*message)(void *user, const struct bwf_packet *packet, const struct bwf_message *message);
  /**
   * A price-level entry. Its book still shows the state before the event.
   */
  void (*book_entry)(void *user, const struct bwf_book_entry *entry);
  /**
   * An instrument's books at the end of an event that changed them, or good again after recovery.
   */
  void (*book)(void *user, const struct bwf_book *book);
  /**
   * A trade.
   */
  void (*trade)(void *user, const struct bwf_trade *trade);
  /**
   * A statistic or a volume.
   */
  void (*statistic)(void *user, const struct bwf_statistic *statistic);
  /**
   * Price limits.
   */
  void (*limits)(void *user, const struct bwf_limits *limits);
  /**
   * A status that concerns an instrument, once for each when it is of a group or an asset.
   */
  void (*status)(void *user, const struct bwf_status *status);
  /**
   * A request for quotes.
   */
  void (*quote_request)(void *user, const struct bwf_quote_request *request);
  /**
   * A definition; `action` is BWF_DEFINITION_...
   */
  void (*definition)(void *user, const struct bwf_instrument *instrument, uint32_t action);
  /**
   * The definition loop has been heard in full.
   */
  void (*definitions_complete)(void *user, uint32_t channel, uint32_t instruments);
  /**
   * An event ended, and all its books have been shown.
   */
  void (*end_of_event)(void *user, const struct bwf_packet *packet, uint64_t transact_time_ns);
  /**
   * Packets were declared lost.
   */
  void (*gap)(void *user, const struct bwf_gap *gap);
  /**
   * An instrument has missed something.
   */
  void (*instrument_stale)(void *user, uint32_t channel, int32_t security_id);
  /**
   * Recovery begins or is over.
   */
  void (*recovery)(void *user, const struct bwf_recovery *recovery);
  /**
   * The channel, or its numbers, started over (BWF_RESET_...): every book and statistic is empty now, or undefined where
   * packets behind the reset are missing. The book callback does not tell of it.
   */
  void (*reset)(void *user, uint32_t channel, uint32_t reset);
  /**
   * A line (`feed` BWF_FEED_..., `side` 0 for A, 1 for B) came up or went down (BWF_STATE_...).
   */
  void (*line_state)(void *user, uint32_t channel, uint32_t feed, uint32_t side, uint32_t state);
  /**
   * All lines of the incremental feed are down, or one is up again (BWF_STATE_...).
   */
  void (*feed_state)(void *user, uint32_t channel, uint32_t state);
  /**
   * Another line is in use, where the configuration says that one replaces the other.
   */
  void (*failover)(void *user, uint32_t channel, uint32_t side);
  /**
   * A packet, message or entry was not used; bwf_reason_name says what `reason` means.
   */
  void (*drop)(void *user, uint32_t channel, uint32_t feed, uint32_t side, uint32_t reason);
  /**
   * There was no room for a snapshot of an instrument's book by order (`orders_max`): it is empty and its state
   * BWF_BOOK_UNDEFINED, and recovery does not wait for it. Told once.
   */
  void (*orders_incomplete)(void *user, uint32_t channel, int32_t security_id);
} bwf_callbacks;

/**
 * A feed channel of the configuration.
 */
typedef struct bwf_channel {
  /**
   * Of this structure, in bytes: to be set before the call.
   */
  uint32_t size;
  /**
   * Index in the configuration: what other calls and callbacks say `channel` to.
   */
  uint32_t channel;
  /**
   * The exchange's number.
   */
  uint32_t channel_id;
  /**
   * Number of the next incremental packet, or BWF_NULL_U32 before the first.
   */
  uint32_t expected_seq_num;
  /**
   * What the configuration calls it.
   */
  char label[BWF_LABEL_LEN];
  /**
   * Instruments.
   */
  uint32_t instruments;
  /**
   * Of those, the ones whose price levels are not good.
   */
  uint32_t unsettled;
  /**
   * Whether packets come: BWF_STATE_...
   */
  uint8_t state;
  /**
   * 1 while some instrument is not good, or it is not known yet which there are.
   */
  uint8_t recovering;
  /**
   * 1 once the definition loop has been heard in full.
   */
  uint8_t definitions_complete;
  /**
   * Zero.
   */
  uint8_t reserved;
  /**
   * Books by order that are not good, of those that the loop or overlays will make so.
   */
  uint32_t unsettled_orders;
} bwf_channel;

/**
 * Figures of one line. Those from `first` on are kept for incremental lines only.
 */
typedef struct bwf_line {
  /**
   * Of this structure, in bytes: to be set before the call.
   */
  uint32_t size;
  /**
   * Whether packets come: BWF_STATE_...
   */
  uint8_t state;
  /**
   * Zero.
   */
  uint8_t reserved[3];
  /**
   * Packets received.
   */
  uint64_t packets;
  /**
   * Bytes of them.
   */
  uint64_t bytes;
  /**
   * Packets of which this line brought the first good copy.
   */
  uint64_t first;
  /**
   * Packets that another line had brought before, or this one twice.
   */
  uint64_t duplicates;
  /**
   * Numbers that never came by this line.
   */
  uint64_t lost;
  /**
   * Packets that came behind a later one of the same line.
   */
  uint64_t reordered;
  /**
   * First copies of which another line's copy followed.
   */
  uint64_t leads;
  /**
   * How long the other copy took longer, added up, in nanoseconds.
   */
  uint64_t lead_ns_total;
  /**
   * The longest lead in nanoseconds.
   */
  uint64_t lead_ns_max;
} bwf_line;

/**
 * Where bwf_book_get puts levels and orders. Its members are for the library; read them through the book.
 */
typedef struct bwf_book_room {
  /**
   * Of this structure, in bytes: to be set before the call.
   */
  uint32_t size;
  /**
   * Zero.
   */
  uint32_t reserved;
  /**
   * For the library.
   */
  struct bwf_level direct[2][BWF_DEPTH_MAX];
  /**
   * For the library.
   */
  struct bwf_level implied[2][BWF_DEPTH_MAX];
  /**
   * For the library.
   */
  struct bwf_order orders[2][BWF_ORDERS_MAX];
  /**
   * For the library.
   */
  struct bwf_level market_best[2];
} bwf_book_room;

/**
 * Takes a counter: its name, which is valid during the call only, and its value.
 */
typedef void (*bwf_each_count)(void *user, const char *name, uint64_t value);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, such as "0.1.0".
 */
const char *bwf_version(void);

/**
 * The BWF_ABI_VERSION that the library was built with.
 */
uint32_t bwf_abi_version(void);

/**
 * What a code means. Never null; the text is static.
 */
const char *bwf_strerror(int code);

/**
 * More about this thread's last failure: of a configuration the file, the place and the nearest right word. Never null; valid
 * until the thread's next failure.
 */
const char *bwf_last_error(void);

/**
 * Opens the feed channels of a configuration file, and what they receive from: sockets, or ports. All memory is taken here.
 * The handler belongs to this thread.
 *
 * @param path       The configuration (TOML); the paths in it are relative to its folder.
 * @param callbacks  What to call; copied. Null: nothing, the books are asked for.
 * @param flags      0, or BWF_OFFLINE to open nothing and replay captures; then nothing is recorded, either.
 * @param feed       Receives the handler.
 * @return BWF_OK, BWF_ERR_INVALID, BWF_ERR_VERSION, BWF_ERR_CONFIG, BWF_ERR_SOURCE, BWF_ERR_SYSTEM, BWF_ERR_TOO_MANY.
 */
int bwf_open(const char *path,
             const struct bwf_callbacks *callbacks,
             uint32_t flags,
             struct bwf_feed **feed);

/**
 * As bwf_open, of a configuration's text. The channel file that it may name is relative to the current folder.
 */
int bwf_open_text(const char *toml,
                  const struct bwf_callbacks *callbacks,
                  uint32_t flags,
                  struct bwf_feed **feed);

/**
 * Ends a handler. Null does nothing. Not from its callbacks, and on its own thread only.
 *
 * @return BWF_OK; BWF_ERR_SYSTEM when what was recorded could not be written out (it is closed all the same);
 *         BWF_ERR_HANDLE, BWF_ERR_BUSY, BWF_ERR_REENTRANT, BWF_ERR_THREAD when it is not closed.
 */
int bwf_close(struct bwf_feed *feed);

/**
 * Does whatever there is to do now; the callbacks run in here. Never blocks. For programs with a loop of their own; a loop
 * that does nothing else polls.
 *
 * @return How many packets that were, or BWF_ERR_SOURCE when receiving no longer works, BWF_ERR_MODE.
 */
int bwf_process(struct bwf_feed *feed);

/**
 * Runs the handler on this thread, idling and pinned as the configuration says, until bwf_stop is called, every source is at
 * its end (a capture as a port), or the time is over. May be called again.
 *
 * @param timeout_ms  Negative: for ever.
 * @return BWF_STOPPED, BWF_TIMED_OUT, BWF_OK at the end of every source, BWF_ERR_SOURCE, BWF_ERR_SYSTEM, BWF_ERR_MODE.
 */
int bwf_run(struct bwf_feed *feed,
            int32_t timeout_ms);

/**
 * Ends the bwf_run or bwf_replay that is under way, after the packet at hand, or the next one when none is. From any thread,
 * from inside callbacks, and from a signal handler. Not while another thread closes the handler.
 *
 * @return BWF_OK, BWF_ERR_HANDLE.
 */
int bwf_stop(struct bwf_feed *feed);

/**
 * Begins a replay of captures (pcap or pcapng), merged by their stamps. The books begin empty, also those of an earlier replay.
 *
 * @param paths  `count` of them, 1 to BWF_CAPTURES_MAX.
 * @return BWF_OK, BWF_ERR_CAPTURE, BWF_ERR_MODE without BWF_OFFLINE, BWF_ERR_INVALID.
 */
int bwf_replay_open(struct bwf_feed *feed,
                    const char *const *paths,
                    size_t count);

/**
 * Goes on with the replay to its end, or until bwf_stop is called; then it may be called again. Timers run by the captures'
 * time, so callbacks and books are the same at every speed.
 *
 * @param speed    0: as fast as possible. Else how many times as fast as it was captured.
 * @param packets  Receives how many packets of the configuration's channels that were; may be null.
 * @return BWF_OK at the end, BWF_STOPPED, BWF_ERR_CAPTURE for one that is damaged here, BWF_ERR_MODE before
 *         bwf_replay_open, BWF_ERR_INVALID.
 */
int bwf_replay(struct bwf_feed *feed,
               double speed,
               uint64_t *packets);

/**
 * How many feed channels the configuration has.
 */
int bwf_channel_count(struct bwf_feed *feed);

/**
 * How a feed channel is.
 *
 * @param channel  Its index, from 0.
 * @param out      Receives it; `size` is to be set.
 * @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_VERSION.
 */
int bwf_channel_get(struct bwf_feed *feed, uint32_t channel, struct bwf_channel *out);

/**
 * What a line of a feed channel has brought.
 *
 * @param feed_type  BWF_FEED_...
 * @param side       0 for A, 1 for B.
 * @param out        Receives it; `size` is to be set.
 * @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_INVALID, BWF_ERR_VERSION.
 */
int bwf_line_get(struct bwf_feed *feed,
                 uint32_t channel,
                 uint32_t feed_type,
                 uint32_t side,
                 struct bwf_line *out);

/**
 * The ids of a channel's instruments.
 *
 * @param security_ids  Receives the first `max` of them; may be null when `max` is 0.
 * @return How many there are, or BWF_ERR_NO_CHANNEL, BWF_ERR_INVALID.
 */
int bwf_instruments(struct bwf_feed *feed, uint32_t channel, int32_t *security_ids, size_t max);

/**
 * An instrument's definition.
 *
 * @param out  Receives it; `size` is to be set.
 * @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_VERSION.
 */
int bwf_instrument_get(struct bwf_feed *feed,
                       uint32_t channel,
                       int32_t security_id,
                       struct bwf_instrument *out);

/**
 * An instrument's definition, by its symbol. Looks at one after the other.
 *
 * @param out  Receives it; `size` is to be set.
 * @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_VERSION.
 */
int bwf_instrument_find(struct bwf_feed *feed,
                        uint32_t channel,
                        const char *symbol,
                        struct bwf_instrument *out);

/**
 * An instrument's books as of the last end of an event: never half of one.
 *
 * @param book  Receives them; `size` is to be set.
 * @param room  Receives the levels and orders that `book` then points to; `size` is to be set. Null: `book` has none.
 * @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_VERSION, BWF_ERR_INVALID.
 */
int bwf_book_get(struct bwf_feed *feed,
                 uint32_t channel,
                 int32_t security_id,
                 struct bwf_book *book,
                 struct bwf_book_room *room);

/**
 * Direct and implied levels of a book merged by price, best first. May be called in a callback.
 *
 * @param book  As a callback or bwf_book_get gave it.
 * @param side  BWF_BID or BWF_OFFER.
 * @param out   Receives the first `max` levels; BWF_DEPTH_MAX is enough. May be null when `max` is 0.
 * @return How many levels there are, or BWF_ERR_INVALID, BWF_ERR_VERSION.
 */
int bwf_consolidated(const struct bwf_book *book, uint32_t side, struct bwf_level *out, size_t max);

/**
 * The last value of a statistic.
 *
 * @param kind  BWF_STATISTIC_...
 * @param out   Receives it; `size` is to be set.
 * @return 1, or 0 when there has been none; BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_INVALID, BWF_ERR_VERSION.
 */
int bwf_statistic_get(struct bwf_feed *feed,
                      uint32_t channel,
                      int32_t security_id,
                      uint32_t kind,
                      struct bwf_statistic *out);

/**
 * The last price limits.
 *
 * @param out  Receives them; `size` is to be set.
 * @return 1, or 0 when there have been none; BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_INVALID, BWF_ERR_VERSION.
 */
int bwf_limits_get(struct bwf_feed *feed,
                   uint32_t channel,
                   int32_t security_id,
                   struct bwf_limits *out);

/**
 * A channel's counters, one after the other: packets, messages, gaps and so on, then each reason why something was not used,
 * as "drop." and the reason's name, where it occurred.
 *
 * @param each  Called for each, as a callback.
 * @return How many there are, or BWF_ERR_NO_CHANNEL, BWF_ERR_INVALID.
 */
int bwf_counters(struct bwf_feed *feed,
                 uint32_t channel,
                 bwf_each_count each,
                 void *user);

/**
 * What the sockets, ports or captures have counted, which all channels share; a name may come once for each of them.
 *
 * @param each  Called for each, as a callback.
 * @return How many there are, or BWF_ERR_INVALID.
 */
int bwf_source_counters(struct bwf_feed *feed,
                        bwf_each_count each,
                        void *user);

/**
 * The name of a reason that the drop callback was given, such as "duplicate". Never null; the text lives for ever.
 */
const char *bwf_reason_name(uint32_t reason);

/**
 * Writes a price as a decimal without needless zeros, and a zero byte. BWF_PRICE_TEXT_MAX bytes hold any.
 *
 * @return The text's length, or BWF_ERR_INVALID when it does not fit.
 */
int bwf_price_format(int64_t price, char *out, size_t len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BWFEED_H */
