//! Capture files byte by byte, and the pcap port.

mod support;

use barewire_base::{DropReason, Instant};
use barewire_frame::{Burst, ClockDomain, PoolConfig};
use barewire_port::{OpenError, PcapError, PcapPort, PcapReader, PcapWriter, Port, PortUri};
use proptest::prelude::*;
use std::fs;
use std::io::Cursor;
use support::*;

/// Words of a file in one byte order.
struct Bytes {
    out: Vec<u8>,
    big: bool,
}

impl Bytes {
    fn new(big: bool) -> Bytes {
        Bytes { out: Vec::new(), big }
    }
    fn words(mut self, words: &[u32]) -> Bytes {
        for w in words {
            self.out.extend(if self.big { w.to_be_bytes() } else { w.to_le_bytes() });
        }
        self
    }
    fn halves(mut self, halves: &[u16]) -> Bytes {
        for h in halves {
            self.out.extend(if self.big { h.to_be_bytes() } else { h.to_le_bytes() });
        }
        self
    }
    fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.out.extend(bytes);
        self
    }
    /// One pcapng block around `body`, padded.
    fn block(self, kind: u32, body: Bytes) -> Bytes {
        let padded = body.out.len().next_multiple_of(4);
        let total = padded as u32 + 12;
        let mut padding = vec![0; padded - body.out.len()];
        padding.fill(0xa5);
        self.words(&[kind, total]).raw(&body.out).raw(&padding).words(&[total])
    }
}

/// A classic file with one 15-byte packet of 60 on the wire, at 1.000002 or 1.000000002 seconds.
fn classic(magic: u32, big: bool) -> Vec<u8> {
    Bytes::new(big)
        .words(&[magic])
        .halves(&[2, 4])
        .words(&[0, 0, 65535, 1])
        .words(&[1, 2, 15, 60])
        .raw(&[0xa5; 15])
        .out
}

/// Stamp, bytes, length on the wire and link type of each packet.
type Packets = Vec<(u64, Vec<u8>, u32, u32)>;

fn read(file: &[u8]) -> Result<Packets, PcapError> {
    let mut reader = PcapReader::new(Cursor::new(file))?;
    let mut out = Vec::new();
    while let Some(p) = reader.next_packet()? {
        out.push((p.ns, p.data.to_vec(), p.original_len, p.link_type));
    }
    Ok(out)
}

fn malformed_at(file: &[u8]) -> (u64, &'static str) {
    match read(file) {
        Err(PcapError::Malformed { offset, why }) => (offset, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn classic_files_of_both_orders_and_resolutions() {
    for (magic, ns) in [(0xa1b2_c3d4, 1_000_002_000), (0xa1b2_3c4d, 1_000_000_002)] {
        for big in [false, true] {
            let packets = read(&classic(magic, big)).unwrap();
            assert_eq!(packets, [(ns, vec![0xa5; 15], 60, 1)], "{magic:x} {big}");
        }
    }
}

#[test]
fn a_classic_file_with_fcs_loses_it() {
    let mut file = classic(0xa1b2_c3d4, true);
    file[20..24].copy_from_slice(&0x2400_0001u32.to_be_bytes()); // FCS of two 16-bit words; Ethernet.
    assert_eq!(read(&file).unwrap(), [(1_000_002_000, vec![0xa5; 11], 56, 1)]);
}

fn ng(big: bool) -> Bytes {
    let section = Bytes::new(big).words(&[0x1a2b_3c4d]).halves(&[1, 0]).words(&[u32::MAX, u32::MAX]);
    Bytes::new(big).block(0x0a0d_0d0a, section)
}

fn ng_interface(big: bool, link: u16, options: Bytes) -> Bytes {
    Bytes::new(big).halves(&[link, 0]).words(&[0]).raw(&options.out)
}

fn ng_packet(big: bool, interface: u32, stamp: u64, data: &[u8]) -> Bytes {
    let len = data.len() as u32;
    Bytes::new(big).words(&[interface, (stamp >> 32) as u32, stamp as u32, len, len]).raw(data)
}

#[test]
fn pcapng_with_interfaces_of_several_resolutions() {
    for big in [false, true] {
        let none = || Bytes::new(big);
        // Nanoseconds; 1/1024 s with an offset of ten seconds.
        let ns = none().halves(&[9, 1]).raw(&[9, 0, 0, 0]).halves(&[0, 0]);
        let offset = if big { 10u64.to_be_bytes() } else { 10u64.to_le_bytes() };
        let binary = none().halves(&[9, 1]).raw(&[0x8a, 0, 0, 0]).halves(&[14, 8]).raw(&offset);
        let file = ng(big)
            .block(1, ng_interface(big, 1, none()))
            .block(1, ng_interface(big, 1, ns))
            .block(1, ng_interface(big, 113, binary))
            .block(4, none().raw(b"name resolution, skipped"))
            .block(6, ng_packet(big, 0, 5_000_001, &[1; 14]))
            .block(6, ng_packet(big, 1, 7_000_000_003, &[2; 15]))
            .block(6, ng_packet(big, 2, 1536, &[3; 17]))
            .block(3, none().words(&[16]).raw(&[4; 16]));
        let packets = read(&file.out).unwrap();
        assert_eq!(
            packets,
            [
                (5_000_001_000, vec![1; 14], 14, 1),
                (7_000_000_003, vec![2; 15], 15, 1),
                (11_500_000_000, vec![3; 17], 17, 113),
                (11_500_000_000, vec![4; 16], 16, 1),
            ]
        );
        // A second section, of the other byte order, forgets the interfaces of the first.
        let other = ng(!big).block(6, ng_packet(!big, 0, 1, &[1; 14]));
        let both = [file.out.clone(), other.out].concat();
        let (at, why) = malformed_at(&both);
        assert_eq!(
            (at, why),
            (file.out.len() as u64 + 28, "a packet of an interface that was not described")
        );
    }
}

#[test]
fn damage_is_refused_with_its_place() {
    let good = classic(0xa1b2_c3d4, false);
    assert_eq!(malformed_at(b"").0, 0);
    assert_eq!(malformed_at(b"GIF89a..").1, "neither pcap nor pcapng (unknown magic number)");
    assert_eq!(malformed_at(&good[..23]), (0, "the file header is cut off"));
    assert_eq!(read(&good[..24]).unwrap(), []);
    assert_eq!(malformed_at(&good[..30]), (24, "a record header is cut off"));
    assert_eq!(malformed_at(&good[..54]), (24, "a packet is cut off"));
    let with = |at: usize, word: u32| {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&word.to_le_bytes());
        malformed_at(&bad)
    };
    assert_eq!(with(32, 262_145), (24, "a packet longer than 262144 bytes"));
    assert_eq!(with(28, 1_000_000), (24, "a time stamp with more than a second of fraction"));
    assert_eq!(with(4, 3), (0, "unknown pcap version"));

    let start = ng(false).block(1, ng_interface(false, 1, Bytes::new(false)));
    let at = start.out.len() as u64;
    let block = |words: &[u32]| {
        let bytes = Bytes { out: start.out.clone(), big: false }.words(words);
        malformed_at(&bytes.out)
    };
    assert_eq!(block(&[6, 13, 0, 0]), (at, "an impossible block length"));
    assert_eq!(block(&[6, 8, 0, 0]), (at, "an impossible block length"));
    assert_eq!(block(&[6, u32::MAX - 3, 0, 0]), (at, "an impossible block length"));
    assert_eq!(block(&[6, 16, 0, 20]), (at, "the two lengths of a block differ"));
    assert_eq!(block(&[6, 16, 0, 16]), (at, "an enhanced packet block that is too short"));
    assert_eq!(block(&[6, 36, 0, 0, 0, 5, 5, 0, 36]), (at, "a packet longer than its block"));
    assert_eq!(block(&[1, 12, 12]), (at, "an interface description that is too short"));
    let bad = Bytes::new(false).halves(&[9, 1]).raw(&[20, 0, 0, 0]);
    let file = ng(false).block(1, ng_interface(false, 1, bad));
    assert_eq!(malformed_at(&file.out), (28, "an impossible time-stamp resolution"));
}

#[test]
fn what_is_written_is_read() {
    let mut file = Vec::new();
    {
        let mut writer = PcapWriter::new(&mut file).unwrap();
        writer.write(1_700_000_000_123_456_789, &[1; 60]).unwrap();
        writer.write(1_700_000_000_123_456_790, &[2; 300_000]).unwrap();
        writer.write(0, &[]).unwrap();
        assert_eq!(writer.len(), 24 + 3 * 16 + 60 + 262_144);
    }
    assert_eq!(file[..4], 0xa1b2_3c4du32.to_ne_bytes());
    assert_eq!(file[4..8], [2, 0, 4, 0], "on this little-endian machine");
    let packets = read(&file).unwrap();
    assert_eq!(packets[0], (1_700_000_000_123_456_789, vec![1; 60], 60, 1));
    assert_eq!((packets[1].1.len(), packets[1].2), (262_144, 300_000));
    assert_eq!(packets[2], (0, vec![], 0, 1));
}

proptest! {
    #[test]
    fn any_packets_come_back(packets in proptest::collection::vec(
        (0u64..4_000_000_000_000_000_000, proptest::collection::vec(any::<u8>(), 0..200)), 0..40)) {
        let mut file = Vec::new();
        let mut writer = PcapWriter::new(&mut file).unwrap();
        for (ns, data) in &packets {
            writer.write(*ns, data).unwrap();
        }
        drop(writer);
        let back: Vec<_> = read(&file).unwrap().into_iter().map(|(ns, data, ..)| (ns, data)).collect();
        prop_assert_eq!(back, packets);
    }

    #[test]
    fn no_bytes_panic(start in 0usize..4, bytes in proptest::collection::vec(any::<u8>(), 0..200), at: usize) {
        let mut file = match start {
            0 => Vec::new(),
            1 => classic(0xa1b2_c3d4, true),
            2 => ng(false).block(1, ng_interface(false, 1, Bytes::new(false))).out,
            _ => ng(true).block(6, ng_packet(true, 0, 9, &[0xa5; 30])).out,
        };
        let at = at % (file.len() + 1);
        for (to, from) in file[at..].iter_mut().zip(&bytes) {
            *to = *from;
        }
        file.extend(bytes);
        let _ = read(&file);
    }
}

fn capture(dir: &Dir, name: &str, packets: &[(u64, usize)]) -> String {
    let path = dir.path(name);
    let mut writer = PcapWriter::create(&path).unwrap();
    for (i, (ns, len)) in packets.iter().enumerate() {
        let mut data = vec![0xa5; *len];
        if let Some(first) = data.first_mut() {
            *first = i as u8;
        }
        writer.write(*ns, &data).unwrap();
    }
    path.display().to_string()
}

fn open(text: &str, frames: u32) -> Result<PcapPort, OpenError> {
    PcapPort::from_uri(&text.parse::<PortUri>().unwrap(), pool(frames))
}

#[test]
fn a_flat_replay_waits_for_the_pool_and_ends() {
    let dir = Dir::new("pcap-flat");
    let sizes: Vec<(u64, usize)> = (0..100)
        .map(|i| {
            (
                i,
                if i == 3 {
                    13
                } else if i == 5 {
                    4000
                } else {
                    14 + i as usize
                },
            )
        })
        .collect();
    let file = capture(&dir, "in", &sizes);
    let mut port = open(&format!("pcap:{file}"), 8).unwrap();
    assert!(
        port.caps().description.contains("100 packets from")
            && port.caps().description.contains("speed flat"),
        "{}",
        port.caps().description
    );
    let mut burst = Burst::new();
    let mut tags = Vec::new();
    assert!(!port.is_finished());
    while !port.is_finished() {
        assert!(!port.prepare_wait());
        assert!(port.rx_burst(ms(1), &mut burst).unwrap() <= 8);
        while let Some(frame) = burst.pop() {
            let stamp = frame.stamp();
            assert_eq!(stamp.clock, ClockDomain::Capture);
            assert_eq!(stamp.ns, u64::from(frame.data()[0]));
            assert_eq!(frame.len(), 14 + frame.data()[0] as usize);
            tags.push(frame.data()[0]);
        }
    }
    assert_eq!(tags, (0..100).filter(|t| ![3, 5].contains(t)).collect::<Vec<u8>>());
    assert_eq!(port.counters().drops.get(DropReason::Truncated), 1);
    assert_eq!(port.counters().drops.get(DropReason::TooLarge), 1);
    assert_eq!(port.counters().drops.total(), 2);
    assert_eq!(receive(&mut port, ms(2)), []);
    assert_eq!(port.next_deadline(), None);
    assert!(port.prepare_wait());
}

#[test]
fn a_paced_replay_keeps_the_gaps() {
    let dir = Dir::new("pcap-paced");
    let second = 1_000_000_000;
    let stamps = [10 * second, 10 * second + 4_000_000, 10 * second + 3_000_000, 10 * second + 6_000_000];
    let file = capture(&dir, "in", &stamps.map(|ns| (ns, 60)));
    let mut port = open(&format!("pcap:{file}?speed=2&loop=2"), 8).unwrap();
    let mut seen = Vec::new();
    for t in 100..112 {
        seen.extend(receive(&mut port, ms(t)).into_iter().map(|tag| (tag, t)));
    }
    // Twice as fast; the packet that goes back in time comes at once; one gap lies between the rounds.
    let first = [(0, 100), (1, 102), (2, 102), (3, 103)];
    let second = [(0, 104), (1, 106), (2, 106), (3, 107)];
    assert_eq!(seen, [first, second].concat());
    assert!(port.is_finished());

    let mut port = open(&format!("pcap:{file}?speed=1"), 8).unwrap();
    assert_eq!(receive(&mut port, ms(0)), [0]);
    assert_eq!(port.next_deadline(), Some(ms(4)));
    assert!(port.prepare_wait());
    assert_eq!(receive(&mut port, Instant::from_nanos(3_999_999)), []);
    assert_eq!(receive(&mut port, ms(5)), [1, 2]);
}

#[test]
fn loops_without_end_and_files_without_packets() {
    let dir = Dir::new("pcap-loop");
    let file = capture(&dir, "in", &[(0, 60), (1, 60)]);
    let mut port = open(&format!("pcap:{file}?loop=0"), 64).unwrap();
    for _ in 0..50 {
        assert_eq!(receive(&mut port, ms(0)), [0, 1].repeat(16));
    }
    for (name, packets) in [("none", vec![]), ("unusable", vec![(0, 3), (1, 9000)])] {
        let file = capture(&dir, name, &packets);
        let mut port = open(&format!("pcap:{file}?loop=0"), 8).unwrap();
        assert_eq!(receive(&mut port, ms(0)), [], "and comes back");
        assert_eq!(port.counters().drops.total(), packets.len() as u64);
        assert!(port.is_finished());
    }
}

#[test]
fn a_port_reads_and_writes() {
    let dir = Dir::new("pcap-both");
    let file = capture(&dir, "in", &[(7, 60), (8, 61)]);
    let out = dir.path("out");
    let wall = |port: &mut PcapPort| {
        let mut burst = Burst::new();
        port.rx_burst(us(1), &mut burst).unwrap();
        port.tx_burst(us(5), &mut burst).unwrap()
    };
    let mut port = open(&format!("pcap:{file}?out={}", out.display()), 8).unwrap();
    assert_eq!(wall(&mut port), 2);
    let big = barewire_frame::Pool::new(PoolConfig { chunk_len: 4096, ..PoolConfig::default() }).unwrap();
    let mut burst = Burst::new();
    assert!(burst.push(frame(&big, 1, 1921)).is_ok());
    assert_eq!(port.tx_burst(us(6), &mut burst).unwrap(), 1);
    assert_eq!(port.counters().drops.get(DropReason::TooLarge), 1);
    assert_eq!((port.counters().tx_frames.get(), port.counters().tx_bytes.get()), (2, 121));
    assert!(port.prepare_wait(), "flushes");
    let packets = read(&fs::read(&out).unwrap()).unwrap();
    assert_eq!(packets.len(), 2);
    assert_eq!(packets[0].0, packets[1].0);
    assert!(packets[0].0 > 1_500_000_000_000_000_000, "wall-clock time");
    assert_eq!((packets[0].1[0], packets[1].1[0], packets[1].1.len()), (0, 1, 61));

    // Without an output, what is sent is counted.
    let mut port = open(&format!("pcap:{file}"), 8).unwrap();
    assert_eq!(wall(&mut port), 2);
    assert_eq!(port.counters().drops.get(DropReason::PortDown), 2);
    let full = open("pcap:?out=/dev/full", 8).err().expect("no room for the header").to_string();
    assert!(full.contains("create") && full.contains("No space"), "{full}");
}

#[test]
fn refusals_say_what_and_where() {
    let dir = Dir::new("pcap-refuse");
    let refusal = |text: &str| open(text, 8).err().expect("refused").to_string();
    let good = capture(&dir, "good", &[(0, 60), (1, 60)]);
    let bytes = fs::read(&good).unwrap();
    let bad = dir.path("bad");
    fs::write(&bad, &bytes[..bytes.len() - 1]).unwrap();
    let why = refusal(&format!("pcap:{}", bad.display()));
    assert!(why.contains("at byte 100: a packet is cut off"), "{why}");
    let mut radio = bytes.clone();
    radio[20] = 105;
    fs::write(&bad, &radio).unwrap();
    let why = refusal(&format!("pcap:{}", bad.display()));
    assert!(why.contains("link type 105 is not Ethernet"), "{why}");
    assert!(refusal("pcap:/nowhere/x.pcap").contains("not found"));
    assert!(refusal("pcap:").contains("a file to read"));
    assert!(refusal(&format!("pcap:{good}?speed=fast")).contains("`flat` or a number above zero"));
    assert!(refusal(&format!("pcap:{good}?speed=0")).contains("above zero"));
    assert!(refusal(&format!("pcap:{good}?lop=1")).contains("did you mean `loop`"));
}

/// Runs it on a thread, and says when it does not end.
fn ends<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(run()));
    told.recv_timeout(std::time::Duration::from_secs(30)).unwrap_or_else(|e| panic!("{what}: {e}"))
}

#[test]
fn a_capture_that_is_emptied_while_it_is_replayed_ends_the_replay() {
    let dir = Dir::new("emptied");
    let path = dir.path("in.pcap");
    let mut writer = PcapWriter::create(&path).unwrap();
    writer.write(1, &[0xa5; 60]).unwrap();
    drop(writer);
    let uri = format!("pcap:{}?loop=0", path.display());
    let received = ends("a replay of nothing, for ever", move || {
        let pool = pool(8);
        let mut port = PcapPort::from_uri(&uri.parse().unwrap(), pool.clone()).unwrap();
        let mut burst = Burst::new();
        let first = port.rx_burst(Instant::ZERO, &mut burst).unwrap();
        burst.clear();
        // Only its head is left.
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(24).unwrap();
        let mut then = 0;
        for _ in 0..10 {
            then += port.rx_burst(Instant::ZERO, &mut burst).unwrap_or(0);
            burst.clear();
        }
        (first > 0, then, port.is_finished())
    });
    assert_eq!(received, (true, 0, true));
}

#[test]
fn a_capture_is_not_written_over_while_it_is_read() {
    let dir = Dir::new("over");
    let path = dir.path("in.pcap");
    let mut writer = PcapWriter::create(&path).unwrap();
    writer.write(1, &[0xa5; 60]).unwrap();
    drop(writer);
    let before = fs::read(&path).unwrap();
    let link = dir.path("other-name.pcap");
    fs::hard_link(&path, &link).unwrap();
    for out in [&path, &link] {
        let uri: PortUri = format!("pcap:{}?out={}", path.display(), out.display()).parse().unwrap();
        let why = PcapPort::from_uri(&uri, pool(8)).err().expect("refused").to_string();
        assert!(why.contains("same file"), "{why}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

/// Takes so many bytes, refuses once, and takes all that follows: a disk on which somebody makes room.
struct FullOnce {
    taken: std::rc::Rc<std::cell::RefCell<Vec<u8>>>,
    room: usize,
    refused: bool,
}

impl std::io::Write for FullOnce {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut taken = self.taken.borrow_mut();
        let room = if self.refused { bytes.len() } else { self.room.saturating_sub(taken.len()) };
        if room == 0 {
            self.refused = true;
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let n = room.min(bytes.len());
        taken.extend_from_slice(&bytes[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_follows_a_record_that_a_full_disk_has_cut() {
    let taken = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let sink = FullOnce { taken: std::rc::Rc::clone(&taken), room: 24 + 2 * 76 + 30, refused: false };
    let mut writer = PcapWriter::new(sink).unwrap();
    for n in 0..3 {
        writer.write(n, &[0xa5; 60]).unwrap();
    }
    assert!(writer.flush().is_err(), "the third does not fit");
    // There would be room again: what came now would be read as the rest of the third.
    for n in 3..6 {
        let written = writer.write(n, &[0x11; 60]).and_then(|()| writer.flush());
        assert!(written.is_err(), "packet {n}");
    }
    drop(writer);
    let file = taken.borrow();
    let mut reader = PcapReader::new(Cursor::new(file.as_slice())).unwrap();
    for n in 0..2 {
        assert_eq!(reader.next_packet().unwrap().unwrap().ns, n);
    }
    assert!(matches!(reader.next_packet(), Err(PcapError::Malformed { offset: 176, .. })));
}
