//! Market data: any bytes as packets, and as what a feed channel hears.

use crate::INPUT_MAX;
use crate::bytes::Bytes;
use barewire_base::{Duration, Instant};
use barewire_feed::{BookView, Channel, Config, DefinitionLoop, Feed, Line, LineSide, Listener, Recovery};
use barewire_feed_emulator::{Emulator, EmulatorConfig};
use barewire_feed_handler::{FeedType, Side};
use std::hint::black_box;

/// Packets of the corpus, of each feed.
const CORPUS: usize = 12;

/// `data` as a packet, as messages and as a schema.
pub fn sbe(data: &[u8]) -> u64 {
    barewire_sbe::fuzz::fuzz_all(data)
}

/// An emulated channel's packets, feed by feed.
fn packets(seed: u64) -> Vec<(FeedType, Side, Vec<u8>)> {
    let config = EmulatorConfig {
        seed,
        // Small packets: an input has room for several.
        instruments: 2,
        depth: 2,
        conflation: Duration::ZERO,
        active: Duration::from_millis(400),
        resets: vec![Duration::from_millis(200)],
        ..EmulatorConfig::default()
    };
    let mut emulator = Emulator::new(config, Instant::ZERO).expect("a configuration of ours");
    let mut packets = Vec::new();
    emulator.next_packets(emulator.active_until(), &mut |packet| {
        packets.push((packet.feed, packet.side, packet.payload.to_vec()));
    });
    packets
}

/// Packets of every feed.
pub fn sbe_corpus() -> Vec<Vec<u8>> {
    let packets = packets(1);
    let each = |feed: &FeedType| {
        let of_feed = packets.iter().filter(|(of, _, payload)| of == feed && payload.len() <= INPUT_MAX);
        of_feed.take(CORPUS).map(|(.., payload)| payload.clone()).collect::<Vec<_>>()
    };
    [FeedType::Incremental, FeedType::Snapshot, FeedType::Instrument].iter().flat_map(each).collect()
}

/// Looks at each book that it is shown.
#[derive(Default)]
struct Looker {
    books: u64,
}

impl Listener for Looker {
    fn on_book(&mut self, book: &BookView<'_>) {
        look(book);
        self.books += 1;
    }
}

fn look(book: &BookView<'_>) {
    let depth = barewire_feed::MAX_DEPTH;
    assert!(book.bids().len() <= depth && book.offers().len() <= depth, "a book has its depth");
    black_box(book.state);
}

/// `data` as what a channel hears: a byte for the line, two for the packet's length, the packet; and again.
pub fn feed(data: &[u8]) -> u64 {
    let mut bytes = Bytes(data);
    let Some(how) = bytes.u8() else { return 0 };
    let config = Config {
        instruments: 8,
        pending_entries: 64,
        gap_packets: 8,
        recovery: [Recovery::Snapshot, Recovery::Natural, Recovery::SnapshotOrNatural][usize::from(how % 3)],
        definitions: if how & 8 == 0 { DefinitionLoop::Unused } else { DefinitionLoop::Fast },
        ..Config::default()
    };
    let mut channel = Channel::new(config, Instant::ZERO).expect("a configuration of ours");
    let mut looker = Looker::default();
    let mut now = Instant::ZERO;
    let mut fed = 0;
    while let (Some(line), Some(len)) = (bytes.u8(), bytes.u16()) {
        let kind = [Feed::Incremental, Feed::Snapshot, Feed::Instrument][usize::from(line % 3)];
        let side = if line & 4 == 0 { LineSide::A } else { LineSide::B };
        let packet = bytes.take(usize::from(len));
        // Some packets come at once, some after the window of a gap.
        now += Duration::from_micros(if line & 8 == 0 { 1 } else { 50_000 });
        channel.on_packet(now, Line::new(kind, side), Default::default(), packet, &mut looker);
        if channel.next_deadline().is_some_and(|due| due <= now) {
            channel.on_timeout(now, &mut looker);
        }
        fed += 1;
    }
    channel.books().for_each(|book| look(&book));
    black_box(looker.books);
    fed
}

/// Scripts of an emulated channel's packets.
pub fn feed_corpus() -> Vec<Vec<u8>> {
    (0..4_u8)
        .map(|how| {
            let mut script = vec![how * 3 + 8];
            for (feed, side, payload) in packets(how.into()) {
                if script.len() + 3 + payload.len() > INPUT_MAX {
                    continue;
                }
                let kind = match feed {
                    FeedType::Incremental => 0,
                    FeedType::Snapshot => 1,
                    _ => 2,
                };
                // The byte is read by its remainder, and its third bit is the side.
                let line = (0..=u8::MAX)
                    .find(|line| line % 3 == kind && (line & 4 == 0) == (side == Side::A) && line & 8 == 0)
                    .unwrap_or(kind);
                script.push(line);
                script.extend((payload.len() as u16).to_be_bytes());
                script.extend(payload);
            }
            script
        })
        .collect()
}
