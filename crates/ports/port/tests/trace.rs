//! The trace port over a memory link.

mod support;

use barewire_frame::Burst;
use barewire_port::conformance::{ConformancePair, run_all};
use barewire_port::{MemoryConfig, MemoryPort, PcapReader, Port, PortUri, Trace, TraceConfig};
use std::fs;
use std::path::Path;
use support::*;

fn config(dir: &Dir) -> TraceConfig {
    let (pcap, text) = (Some(dir.path("t")), Some(dir.path("t.txt")));
    TraceConfig { pcap, text, bytes_max: 1 << 30, epoch_ns: 1_000_000_000 }
}

fn packets(path: &Path) -> Vec<(u64, u8, usize)> {
    let mut reader = PcapReader::open(path).unwrap();
    let mut out = Vec::new();
    while let Some(p) = reader.next_packet().unwrap() {
        out.push((p.ns, p.data[0], p.data.len()));
    }
    out
}

#[test]
fn conforms() {
    let dir = Dir::new("trace-conforms");
    run_all("trace", &mut || {
        let (a_pool, b_pool) = (pool(600), pool(300));
        let (a, b) = MemoryPort::pair(MemoryConfig::default(), a_pool.clone(), b_pool.clone()).unwrap();
        ConformancePair {
            a: Box::new(Trace::new(a, &config(&dir)).unwrap()),
            a_pool,
            b: Box::new(b),
            b_pool,
            in_order: true,
            lossless: true,
            settle: std::time::Duration::from_millis(20),
        }
    });
}

#[test]
fn what_passed_is_written_and_nothing_else() {
    let dir = Dir::new("trace-writes");
    let pool = pool(64);
    let small = MemoryConfig { slots: 2, slot_bytes: 2048 };
    let (a, mut b) = MemoryPort::pair(small, pool.clone(), pool.clone()).unwrap();
    let mut a = Trace::new(a, &config(&dir)).unwrap();
    assert_eq!(send(&mut a, us(1), &pool, [1, 2, 3]), 2, "the third finds no slot");
    assert_eq!(receive(&mut b, us(2)), [1, 2]);
    assert_eq!(send(&mut b, us(3), &pool, [9]), 1);
    assert_eq!(receive(&mut a, us(4)), [9]);
    a.flush().unwrap();
    assert_eq!(packets(&dir.path("t.tx.pcap")), [(1_000_001_000, 1, 60), (1_000_001_000, 2, 60)]);
    assert_eq!(packets(&dir.path("t.rx.pcap")), [(1_000_004_000, 9, 60)]);
    let text = fs::read_to_string(dir.path("t.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    let mac = "a5:a5:a5:a5:a5:a5";
    let expected = format!("1.000004000 rx    60 09:{} {mac} a5a5 {}", &mac[3..], "a5".repeat(16));
    assert_eq!(lines[2], expected);
    assert_eq!(a.trace_counters().written.get(), 3);
}

#[test]
fn a_full_or_broken_file_stops_the_trace_and_not_the_traffic() {
    let dir = Dir::new("trace-full");
    let pool = pool(64);
    let pair = || MemoryPort::pair(MemoryConfig::default(), pool.clone(), pool.clone()).unwrap();
    let (a, mut b) = pair();
    let limited = TraceConfig { text: None, bytes_max: 2 * (16 + 60) + 75, ..config(&dir) };
    let mut a = Trace::new(a, &limited).unwrap();
    assert_eq!(send(&mut a, us(1), &pool, [1, 2, 3, 4]), 4);
    assert_eq!(send(&mut a, us(2), &pool, [5]), 1);
    assert_eq!(receive(&mut b, us(3)), [1, 2, 3, 4, 5]);
    send(&mut b, us(3), &pool, [6]);
    assert_eq!(receive(&mut a, us(3)), [6]);
    assert_eq!(a.trace_counters().written.get(), 2);
    assert_eq!(a.trace_counters().beyond_limit.get(), 4);
    drop(a);
    assert_eq!(packets(&dir.path("t.tx.pcap")).len(), 2);

    let (a, mut b) = pair();
    let broken = TraceConfig { pcap: None, text: Some("/dev/full".into()), ..config(&dir) };
    let mut a = Trace::new(a, &broken).unwrap();
    for i in 0..200u8 {
        assert_eq!(send(&mut a, us(1), &pool, [i]), 1);
        assert_eq!(receive(&mut b, us(1)), [i]);
    }
    assert!(a.trace_counters().failed.get() > 0);
    a.prepare_wait();
    let mut burst = Burst::new();
    assert_eq!(a.rx_burst(us(2), &mut burst).unwrap(), 0);
}

#[test]
fn uris() {
    let dir = Dir::new("trace-uris");
    let open = |text: String| {
        let opened = barewire_port::open(&text.parse::<PortUri>().unwrap(), &pool(8), &mut |_, _| None);
        opened.map(|p| p.caps().description.clone()).map_err(|e| e.to_string())
    };
    let at = dir.0.display();
    let story = open(format!("trace+fault+mem:trace-uris?trace={at}/x&loss=0.1&seed=4")).unwrap();
    assert!(story.starts_with("traced to ") && story.contains("seed 4"), "{story}");
    assert!(dir.path("x.rx.pcap").exists() && dir.path("x.tx.pcap").exists());
    assert!(open("trace+mem:trace-uris".into()).unwrap_err().contains("trace=PREFIX"));
    assert!(open("trace+mem:trace-uris?trace=/nowhere/x".into()).unwrap_err().contains("create"));
}
