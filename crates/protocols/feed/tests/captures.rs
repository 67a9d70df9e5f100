//! Real packets of the exchange (schema versions 5, 8 and 9): taken in whole, nothing of them unknown or refused.

use barewire_base::Instant;
use barewire_feed::*;

/// UDP payloads of a classic pcap file of Ethernet frames, IPv4, with or without one VLAN tag.
fn payloads(file: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| {
        let b: [u8; 4] = file[at..at + 4].try_into().expect("four bytes");
        if file[0] == 0xa1 { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) }
    };
    let (mut at, mut out) = (24, vec![]);
    while at + 16 <= file.len() {
        let len = word(at + 8) as usize;
        let frame = &file[at + 16..at + 16 + len];
        at += 16 + len;
        let mut ip = 14;
        if frame[12..14] == [0x81, 0x00] {
            ip += 4;
        }
        assert_eq!((frame[ip] >> 4, frame[ip + 9]), (4, 17), "IPv4 and UDP");
        let udp = ip + usize::from(frame[ip] & 15) * 4;
        let udp_len = usize::from(u16::from_be_bytes([frame[udp + 4], frame[udp + 5]]));
        out.push(frame[udp + 8..udp + udp_len].to_vec());
    }
    out
}

#[derive(Default)]
struct Seen {
    messages: usize,
    entries: usize,
    trades: usize,
    definitions: usize,
    statistics: usize,
    failures: Vec<Reason>,
}

impl Listener for Seen {
    fn on_message(&mut self, _: &PacketInfo<'_>, _: &barewire_sbe::Message<'_>) {
        self.messages += 1;
    }
    fn on_book_entry(&mut self, _: &Instrument, entry: &BookEntry) {
        self.entries += 1;
        assert!(entry.price_level <= 10 && entry.action <= 5);
    }
    fn on_trade(&mut self, _: &Instrument, trade: &Trade) {
        self.trades += 1;
        assert!(trade.quantity > 0);
    }
    fn on_definition(&mut self, it: &Instrument, _: DefinitionAction) {
        self.definitions += 1;
        assert!(!it.symbol.is_empty() && !it.group.is_empty() && it.depth <= 10, "{it:?}");
    }
    fn on_statistic(&mut self, _: &Instrument, _: &Statistic) {
        self.statistics += 1;
    }
    fn on_drop(&mut self, _: Line, reason: Reason) {
        self.failures.push(reason);
    }
}

#[test]
fn real_packets_are_taken_in_whole() {
    let Some(folder) = barewire_testing::shared("data/cme/pcap") else { return };
    let files = std::fs::read_dir(folder).unwrap();
    let mut all = Seen::default();
    let mut packets = 0;
    for file in files.flatten().filter(|f| f.path().extension().is_some_and(|e| e == "pcap")) {
        let name = file.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(file.path()).expect("a readable file");
        for payload in payloads(&bytes) {
            packets += 1;
            // Each capture is on its own; definitions come by the feed of that name.
            let feed = if name.contains("definition") { Feed::Instrument } else { Feed::Incremental };
            let mut channel = Channel::new(Config::default(), Instant::ZERO).unwrap();
            let line = Line::new(feed, LineSide::A);
            channel.on_packet(Instant::ZERO, line, Default::default(), &payload, &mut all);
            let wrong: Vec<_> = channel.counters().drops().collect();
            assert!(wrong.is_empty(), "{name}: {wrong:?}");
        }
    }
    println!(
        "{packets} packets: {} messages, {} book entries, {} trades, {} statistics, {} definitions",
        all.messages, all.entries, all.trades, all.statistics, all.definitions
    );
    assert!(all.failures.is_empty(), "{:?}", all.failures);
    assert!(packets > 0 && all.messages >= packets && all.entries > 0 && all.definitions > 0);
}
