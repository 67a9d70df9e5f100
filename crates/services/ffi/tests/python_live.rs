//! Python's live market data: the emulated exchange on loopback, with packets lost on both lines, and its books beside the truth.

mod rig;

use barewire_base::Duration;
use barewire_engine::now;
use barewire_feed_emulator::{Emulator, EmulatorConfig, Sender, connections};
use barewire_feed_handler::FeedType;
use barewire_testing::Folder;
use rig::Program;
use rig::natives::python_package;
use std::net::UdpSocket;
use std::path::Path;

/// Six UDP ports in a row that nobody has: others may test on this machine's loopback, too.
fn first_udp_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port().min(u16::MAX - 6)
}

/// Sends the emulation as fast as its own clock goes; the incremental packets of `lost` on neither line.
fn send(emulator: &mut Emulator, sender: &Sender, until: barewire_base::Instant, lost: std::ops::Range<u32>) {
    let mut first = None;
    while now() < until {
        emulator.next_packets(now(), &mut |packet| {
            let seq = u32::from_le_bytes(packet.payload[..4].try_into().unwrap());
            if packet.feed == FeedType::Incremental {
                let nth = seq - *first.get_or_insert(seq);
                if lost.contains(&nth) {
                    return;
                }
            }
            sender.send(packet).unwrap();
        });
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn items_callbacks_books_and_tables_with_packets_lost() {
    let dir = Folder::new("python-live");
    if !python_package(dir.path()) {
        return;
    }
    let udp_port = first_udp_port();
    let channel = 1 + udp_port % 30_000;
    let test = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings/python/tests/test_live.py");
    let runner = dir.file("run");
    let text = format!(
        "#!/bin/sh\nexec env PYTHONPATH='{}' python3 -B '{}' \"$@\"\n",
        dir.path().display(),
        test.display()
    );
    std::fs::write(&runner, text).unwrap();
    assert!(std::process::Command::new("chmod").arg("755").arg(&runner).status().unwrap().success());
    let words = [channel.to_string(), udp_port.to_string()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut program = Program::start(&runner, Path::new("/nowhere"), &words);
    assert_eq!(program.line(), "ready");

    let config = EmulatorConfig {
        channel_id: channel,
        seed: 24,
        active: Duration::from_millis(1500),
        conflation: Duration::from_millis(5),
        ..EmulatorConfig::default()
    };
    let start = now();
    let mut emulator = Emulator::new(config, start).unwrap();
    let sender = Sender::open(&connections(channel, udp_port), Some("lo")).unwrap();
    // The loops go on for a while, for whoever has to recover.
    send(&mut emulator, &sender, start + Duration::from_secs(4), 100..103);
    assert_eq!(sender.refused.get(), 0);
    program.say("sent\n");

    let books: serde_json::Value = serde_json::from_str(&program.line()).unwrap();
    assert_eq!(program.succeed(), "ok\n");
    let truth = emulator.truth();
    let listed: Vec<_> = truth.books.iter().filter(|book| !book.deleted).collect();
    let books = books.as_array().unwrap();
    assert_eq!(books.len(), listed.len());
    for truth in listed {
        let book = books.iter().find(|book| book["security_id"] == truth.security_id).unwrap();
        // The last entry may be a trade or a statistic, which is none of the book's.
        assert!(book["rpt_seq"].as_u64().unwrap() <= truth.rpt_seq.into(), "{}", truth.symbol);
        for (name, side) in [("bids", &truth.bids), ("offers", &truth.offers)] {
            let levels: Vec<_> =
                side.iter().map(|l| serde_json::json!([l.price_e9, l.quantity, l.orders])).collect();
            assert_eq!(book[name], serde_json::Value::from(levels), "{} {name}", truth.symbol);
        }
    }
}
