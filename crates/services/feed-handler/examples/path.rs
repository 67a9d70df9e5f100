//! Times the way from a packet to the book, in memory: emulated packets of both lines through a feed channel.
//!
//! `path [INSTRUMENTS] [EVENTS_PER_S] [CONFLATION_US]` (default 100, 20000, 0). Prints, for the first copies of incremental
//! packets that changed a book, how long the call took until the last book was shown (min, median, 99 %, max, samples), and
//! how many packets of all kinds pass in a second. The clock's own cost is in each figure.

use barewire_base::{Duration, Instant};
use barewire_feed::{BookView, Listener};
use barewire_feed_emulator::{Emulator, EmulatorConfig, connections};
use barewire_feed_handler::{ChannelPlan, Consumer, FeedChannel, FeedType, LineId, Packet};
use barewire_frame::Stamp;
use barewire_measure::stamp;
use std::error::Error;

/// When the last book was shown.
#[derive(Default)]
struct Shown {
    at: Option<Instant>,
    books: u64,
}

impl Listener for Shown {
    fn on_book(&mut self, book: &BookView<'_>) {
        std::hint::black_box((book.bids().first(), book.offers().first()));
        self.books += 1;
        self.at = Some(stamp());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u32>());
    let mut number = |default: u32| numbers.next().transpose().map(|n| n.unwrap_or(default));
    let config = EmulatorConfig {
        instruments: number(100)?,
        events_per_s: number(20_000)?,
        conflation: Duration::from_micros(number(0)?.into()),
        active: Duration::from_secs(5),
        ..EmulatorConfig::default()
    };
    let plan = ChannelPlan::new(config.channel_id.into(), connections(config.channel_id, 19_010));
    let mut emulator = Emulator::new(config, Instant::ZERO)?;
    let mut packets = Vec::new();
    emulator.next_packets(emulator.active_until(), &mut |p| {
        let line = LineId { channel: 0, feed: p.feed, side: p.side };
        packets.push((p.at, line, p.payload.to_vec()));
    });
    let bytes: usize = packets.iter().map(|(_, _, payload)| payload.len()).sum();
    println!("{} packets, {} bytes on average", packets.len(), bytes / packets.len().max(1));

    let mut channel = FeedChannel::new(&plan, 2048, Instant::ZERO, Shown::default())?;
    let mut took: Vec<u64> = Vec::with_capacity(packets.len());
    for (at, line, payload) in &packets {
        channel.listener_mut().at = None;
        let packet = Packet { line: *line, stamp: Stamp::engine(*at), payload, frame: None };
        let before = stamp();
        channel.on_packet(*at, &packet);
        if let Some(shown) = channel.listener().at.filter(|_| line.feed == FeedType::Incremental) {
            took.push(shown.since(before).as_nanos());
        }
    }
    took.sort_unstable();
    let part =
        |share: f64| took.get(((took.len() as f64 * share) as usize).min(took.len().saturating_sub(1)));
    if let (Some(min), Some(median), Some(late), Some(max)) =
        (took.first(), part(0.5), part(0.99), took.last())
    {
        println!(
            "to the book: min {min} ns, median {median} ns, 99 % {late} ns, max {max} ns, {} samples",
            took.len()
        );
    }

    let mut channel = FeedChannel::new(&plan, 2048, Instant::ZERO, ())?;
    let before = stamp();
    for (at, line, payload) in &packets {
        channel.on_packet(*at, &Packet { line: *line, stamp: Stamp::engine(*at), payload, frame: None });
    }
    let ns = stamp().since(before).as_nanos().max(1);
    println!("flat out: {:.2} million packets a second", packets.len() as f64 * 1e3 / ns as f64);
    Ok(())
}
