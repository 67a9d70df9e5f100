//! The committed header is what the source says.

use cbindgen::{Builder, Config, DocumentationStyle, Language};
use std::path::Path;

const HEAD: &str = "\
/*
 * barewire.h: the message service for C. Generated from the library's source; not to be edited.
 *
 * A client is a channel to the daemon. It sends messages on flows and says what happened by events:
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
 * Codes, kinds and reasons are never given another meaning.
 *
 * Threads: one thread at a time is inside a call on a client; a second one gets BW_ERR_BUSY. A client may move between
 * threads. Several threads attach one client each. bw_last_error speaks of the calling thread. A child made by fork() uses
 * none of its parent's clients: it attaches its own.
 *
 * Pointers: null, freed and invented clients are told by a code. Other pointers that are not null have to be valid for the
 * call; the library keeps none of them. A bw_buf or bw_message goes back to the client that it came from, once.
 */
";

fn generate() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut config = Config {
        language: Language::C,
        header: Some(HEAD.to_owned()),
        include_guard: Some("BAREWIRE_H".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        cpp_compat: true,
        documentation_style: DocumentationStyle::Doxy,
        usize_is_size_t: true,
        line_length: 110,
        ..Config::default()
    };
    for (rust, c) in [
        ("BwClient", "bw_client"),
        ("BwFlow", "bw_flow"),
        ("BwAddr", "bw_addr"),
        ("BwConnectOptions", "bw_connect_options"),
        ("BwIovec", "bw_iovec"),
        ("BwBuf", "bw_buf"),
        ("BwMessage", "bw_message"),
        ("BwEvent", "bw_event"),
    ] {
        config.export.rename.insert(rust.to_owned(), c.to_owned());
    }
    let mut builder = Builder::new().with_config(config);
    for file in ["error.rs", "types.rs", "entry.rs", "memory.rs"] {
        builder = builder.with_src(source.join(file));
    }
    let mut header = Vec::new();
    builder.generate().expect("the source can be read").write(&mut header);
    // What Rust's documentation calls the safety contract is what the head says once for all of C.
    let mut text = String::new();
    let mut skipping = false;
    for line in String::from_utf8(header).unwrap().lines() {
        let bare = line.trim_start().trim_start_matches('*').trim();
        if bare == "# Safety" {
            skipping = true;
            while text.ends_with(" *\n") {
                text.truncate(text.len() - 3);
            }
        }
        skipping &= bare != "/";
        if !skipping {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

#[test]
fn the_committed_header_is_what_the_source_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings/c/barewire.h");
    let generated = generate();
    if std::env::var_os("BAREWIRE_BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    for (i, (a, b)) in committed.lines().zip(generated.lines()).enumerate() {
        assert_eq!(a, b, "line {}: BAREWIRE_BLESS=1 writes the header anew", i + 1);
    }
    assert_eq!(committed.len(), generated.len(), "BAREWIRE_BLESS=1 writes the header anew");
}
