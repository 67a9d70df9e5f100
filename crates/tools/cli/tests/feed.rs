//! `barewire feed` as a user has it: an emulated exchange into a capture, books from it, every message of it. No root.

mod common;

use barewire_testing::Folder;
use common::run;
use serde_json::Value;

/// The path of a file, as an argument.
fn file(folder: &Folder, name: &str) -> String {
    folder.file(name).display().to_string()
}

fn emulate(folder: &Folder, more: &[&str]) -> (String, String) {
    let (capture, truth) = (file(folder, "market.pcap"), file(folder, "truth.jsonl"));
    let args = ["feed", "emulate", "--seconds", "3", "--pcap", &capture, "--truth", &truth];
    let said = run(&[&args[..], more].concat());
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    (capture, truth)
}

#[test]
fn an_emulated_market_becomes_the_books_it_was() {
    let folder = Folder::new("truth");
    let faults = ["--loss", "0.05", "--duplicate", "0.01", "--reorder", "0.02", "--reset", "1.5"];
    let (capture, truth) = emulate(&folder, &faults);
    let (books, trades) = (file(&folder, "books.csv"), file(&folder, "trades.csv"));
    let replay = run(&[
        "feed", "replay", "--from", &capture, "--truth", &truth, "--json", "--books", &books, "--trades",
        &trades,
    ]);
    assert_eq!(replay.code, Some(0), "{}", replay.err);
    assert!(replay.err.contains("all 20 books are the truth"), "{}", replay.err);
    let shown: Vec<Value> =
        replay.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(shown.len(), 20);
    assert!(shown.iter().all(|book| book["state"] == "latest" && book["channel"] == 901), "{shown:?}");
    for (path, rows) in [(&books, 100), (&trades, 10)] {
        let text = std::fs::read_to_string(path).expect("it was written");
        assert!(text.lines().count() > rows, "{path}");
    }

    // A truth that is not of these books is not confirmed.
    let text = std::fs::read_to_string(&truth).expect("it was written");
    let wrong = file(&folder, "wrong.jsonl");
    std::fs::write(&wrong, text.replacen("\"price_e9\":", "\"price_e9\":1", 1)).expect("there is room");
    let replay = run(&["feed", "replay", "--from", &capture, "--truth", &wrong]);
    assert_eq!(replay.code, Some(1), "{}", replay.err);
    assert!(replay.err.contains("instrument 1000: bids is"), "{}", replay.err);
}

#[test]
fn weeks_and_definitions_change_and_books_go_into_columns() {
    let folder = Folder::new("weeks");
    let changes = ["--week", "1.2", "--definition-changes-per-s", "20", "--loss", "0.01"];
    let (capture, truth) = emulate(&folder, &changes);
    let (books, trades) = (file(&folder, "books.parquet"), file(&folder, "trades.parquet"));
    let args =
        ["feed", "replay", "--from", &capture, "--truth", &truth, "--books", &books, "--trades", &trades];
    let replay = run(&args);
    assert_eq!(replay.code, Some(0), "{}", replay.err);
    for path in [&books, &trades] {
        let bytes = std::fs::read(path).expect("it was written");
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{path}: {} bytes", bytes.len());
    }
    let mixed = run(&["feed", "replay", "--from", &capture, "--books", &books, "--trades", "trades.csv"]);
    assert_eq!(mixed.code, Some(2), "{}", mixed.err);
}

#[test]
fn the_same_seed_is_the_same_market() {
    let folders = [Folder::new("one"), Folder::new("two")];
    let [one, two] = folders.each_ref().map(|folder| {
        let (capture, truth) = emulate(folder, &["--seed", "5"]);
        (std::fs::read(capture).expect("a capture"), std::fs::read(truth).expect("a truth"))
    });
    assert!(one == two);
    let other = Folder::new("other");
    let (capture, _) = emulate(&other, &["--seed", "6"]);
    assert!(std::fs::read(capture).expect("a capture") != one.0);
}

#[test]
fn every_message_of_a_capture_is_decoded() {
    let folder = Folder::new("check");
    let (capture, _) = emulate(&folder, &[]);
    let check = run(&["feed", "check", "--json", &capture]);
    assert_eq!(check.code, Some(0), "{}", check.err);
    let messages: Vec<Value> =
        check.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(messages.len() > 500, "{}", messages.len());
    for name in ["MDIncrementalRefreshBook46", "SnapshotFullRefresh52", "MDInstrumentDefinitionFuture54"] {
        assert!(messages.iter().any(|m| m["message"]["name"] == name), "{name}");
    }
    let text = run(&["feed", "check", &capture]);
    assert!(text.out.contains("0 faulty"), "{}", text.out.lines().last().unwrap_or_default());

    // A packet whose last message says one byte more than there is: said with its place, and no more.
    let mut bytes = std::fs::read(&capture).expect("a capture");
    let first_message = 24 + 16 + 14 + 20 + 8 + 12;
    bytes[first_message] = bytes[first_message].wrapping_add(200);
    let damaged = file(&folder, "damaged.pcap");
    std::fs::write(&damaged, bytes).expect("there is room");
    let check = run(&["feed", "check", &damaged]);
    assert_eq!(check.code, Some(1));
    assert!(check.out.contains("frame 1 FAULTY"), "{}", check.out.lines().next().unwrap_or_default());

    let check = run(&["feed", "check", &file(&folder, "none.pcap")]);
    assert_eq!(check.code, Some(1));
    assert!(check.err.contains("none.pcap"), "{}", check.err);
}

#[test]
fn captures_of_the_exchange_are_decoded_with_every_schema_that_knows_them() {
    let Some(data) = barewire_testing::shared("data/cme") else { return };
    let captures = std::fs::read_dir(data.join("pcap")).unwrap();
    let mut seen = 0;
    for capture in captures {
        let path = capture.expect("readable").path();
        let check = run(&["feed", "check", &path.display().to_string()]);
        assert_eq!(check.code, Some(0), "{}{}", check.out, check.err);
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
    let schema = data.join("schema/Cme.Futures.Mdp3.Sbe.v1.9.xml").display().to_string();
    let book = data.join("pcap/v9-book.pcap").display().to_string();
    let check = run(&["feed", "check", "--schema", &schema, &book]);
    assert_eq!(check.code, Some(0), "{}{}", check.out, check.err);
}

#[test]
fn slips_are_answered() {
    for (args, code, word) in [
        (&["feed", "emulate", "--instruments", "0"][..], 2, "instruments"),
        (&["feed", "emulate", "--loss", "2"], 2, "probability"),
        (&["feed", "run", "--interface", "nosuch0", "--seconds", "1"], 1, "nosuch0"),
        (&["feed", "replay", "--from", "/nonexistent.pcap"], 1, "nonexistent.pcap"),
        (&["feed", "run", "nosuch.toml"], 2, "nosuch.toml"),
    ] {
        let said = run(args);
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(word), "{args:?}: {}", said.err);
    }
}
