//! The committed header is what the source says.

#[path = "../../ffi/tests/rig/header.rs"]
mod header;

use header::Header;

const HEAD: &str = "\
/*
 * bwfeed.h: the market-data feed handler (CME MDP 3.0) for C. Generated from the library's source; do not edit.
 *
 * A handler receives the feed channels of a configuration, or replays captures of them, keeps the books, and calls back:
 *
 *     static void on_book(void *user, const bwf_book *book) { ... book->direct[BWF_BID].levels[0].price ... }
 *
 *     bwf_callbacks callbacks = {.size = sizeof callbacks, .book = on_book};
 *     bwf_feed *feed;
 *     if (bwf_open(\"feed.toml\", &callbacks, 0, &feed) != BWF_OK) die(bwf_last_error());
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
";

#[test]
fn the_committed_header_is_what_the_source_says() {
    let header = Header {
        file: "bwfeed.h",
        head: HEAD,
        guard: "BWFEED_H",
        names: &[
            ("BwfFeed", "bwf_feed"),
            ("BwfCallbacks", "bwf_callbacks"),
            ("BwfLevel", "bwf_level"),
            ("BwfOrder", "bwf_order"),
            ("BwfLevels", "bwf_levels"),
            ("BwfOrders", "bwf_orders"),
            ("BwfBook", "bwf_book"),
            ("BwfBookRoom", "bwf_book_room"),
            ("BwfPacket", "bwf_packet"),
            ("BwfMessage", "bwf_message"),
            ("BwfBookEntry", "bwf_book_entry"),
            ("BwfTrade", "bwf_trade"),
            ("BwfStatistic", "bwf_statistic"),
            ("BwfLimits", "bwf_limits"),
            ("BwfStatus", "bwf_status"),
            ("BwfQuoteRequest", "bwf_quote_request"),
            ("BwfInstrument", "bwf_instrument"),
            ("BwfGap", "bwf_gap"),
            ("BwfRecovery", "bwf_recovery"),
            ("BwfChannel", "bwf_channel"),
            ("BwfLine", "bwf_line"),
            ("BwfEachCount", "bwf_each_count"),
        ],
        source: &["error.rs", "types.rs", "callbacks.rs", "entry.rs", "query.rs"],
    };
    header.check();
}
