//! The committed header is what the source says.

#[path = "rig/header.rs"]
mod header;

use header::Header;

const HEAD: &str = "\
/*
 * barewire.h: the message service for C. Generated from the library's source; do not edit.
 *
 * A client is a channel to the daemon. It sends messages on flows and reports what happens by events:
 *
 *     bw_client *client;
 *     bw_addr addr;
 *     bw_flow flow;
 *     bw_event event;
 *     if (bw_client_attach(\"hello\", NULL, &client) != BW_OK) die(bw_last_error());
 *     bw_addr_parse(\"10.0.0.2\", 888, &addr);
 *     bw_connect_wait(client, &addr, NULL, 1000, &flow);
 *     bw_send(client, flow, \"hello\", 5);
 *     while (bw_wait_event(client, 1000, &event) == 1) { ... }
 *
 * Results: functions that return int give 0 or a positive number when they worked, and a negative BW_ERR_... code when not.
 * Codes, kinds and reasons never change their meaning.
 *
 * Threads: several threads may call on one client at the same time. A thread in bw_wait_event does not block others while it
 * sleeps; bw_connect_wait, bw_listen_wait and bw_close_wait do, and then others get BW_ERR_BUSY. Threads that send a lot attach
 * one client each. bw_last_error is per thread. A child made by fork() uses none of its parent's clients, which
 * are gone there (BW_ERR_DAEMON_GONE): it attaches its own.
 *
 * Full: a send that gets BW_ERR_AGAIN must be retried after BW_EVENT_WRITABLE of its flow, which comes when there is room, and when
 * the flow was closed or has ended. bw_wait_event brings that, too.
 *
 * Requests: bw_requests turns them on. bw_request asks with a deadline, bw_respond and bw_fail answer.
 *
 * Without a daemon: bw_embedded_open runs the engine in the calling thread, and messages are read in place. bw_embedded_open_file takes what
 * a daemon's configuration says: encryption, gateways, limits.
 *
 * Pointers: null, freed and invalid clients are reported by a code. Other pointers that are not null have to be valid for the
 * call; the library keeps none of them. A bw_buf or bw_message goes back to the client that it came from, once.
 */
";

#[test]
fn the_committed_header_is_what_the_source_says() {
    let header = Header {
        file: "barewire.h",
        head: HEAD,
        guard: "BAREWIRE_H",
        names: &[
            ("BwClient", "bw_client"),
            ("BwEmbedded", "bw_embedded"),
            ("BwFlow", "bw_flow"),
            ("BwAddr", "bw_addr"),
            ("BwConnectOptions", "bw_connect_options"),
            ("BwIovec", "bw_iovec"),
            ("BwBuf", "bw_buf"),
            ("BwMessage", "bw_message"),
            ("BwEvent", "bw_event"),
            ("BwIdentity", "bw_identity"),
        ],
        source: &["error.rs", "types.rs", "entry.rs", "memory.rs", "request.rs", "embedded.rs"],
    };
    header.check();
}
