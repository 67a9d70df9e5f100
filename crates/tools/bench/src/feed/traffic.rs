//! What is sent: packets of one incremental feed, made beforehand.

use crate::error::BenchError;
use barewire_base::{Duration, Instant, Prng};
use barewire_feed_emulator::{Emulator, EmulatorConfig};
use barewire_feed_handler::{FeedType, Side};
use barewire_sbe::mdp3::{
    MatchEventIndicator, MdEntryTypeBook, MdIncrementalRefreshBook46Encoder, MdUpdateAction,
};
use barewire_sbe::{PacketEncoder, Price9};
use std::fmt;

/// Price levels of a side that one-entry updates fill first and then change.
const LEVELS: u32 = 10;
/// Largest UDP payload of one-entry updates.
const ONE_ENTRY_MAX: usize = 128;
/// Share of an emulated channel's packets, in percent, that only fill books and caches.
const CHANNEL_WARMUP_PERCENT: usize = 10;
/// First SecurityID.
const FIRST_ID: i32 = 1000;
/// How much time is emulated at once.
const EMULATED_STEP: Duration = Duration::from_millis(100);

/// What kind of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Each packet changes one price level of one instrument, and is an event of its own.
    OneEntry,
    /// What the emulated exchange publishes: conflated events over several instruments, trades, statistics, top orders.
    Channel,
}

const WORDS: [(&str, Workload); 2] = [("one-entry", Workload::OneEntry), ("channel", Workload::Channel)];

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WORDS.iter().find(|(_, w)| w == self).map_or("", |(name, _)| name))
    }
}

barewire_text::named!(Workload, WORDS);

/// Packets in the order in which they are sent, MsgSeqNum from 1.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    warmup: usize,
}

impl Traffic {
    /// Makes `measured` packets over `instruments` instruments, and before them those that fill the books.
    ///
    /// # Errors
    /// [`BenchError::Plan`] when the emulator has no such channel.
    pub fn make(
        workload: Workload,
        instruments: u32,
        measured: usize,
        seed: u64,
    ) -> Result<Traffic, BenchError> {
        match workload {
            Workload::OneEntry => Ok(one_entry(instruments, measured, seed)),
            Workload::Channel => channel(instruments, measured, seed),
        }
    }

    fn push(&mut self, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
    }

    /// How many packets there are, with those that only fill books.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many packets come first that are not measured. MsgSeqNum of the first measured one is one more.
    pub fn warmup(&self) -> usize {
        self.warmup
    }

    /// Packet `index`, from 0. Its MsgSeqNum is `index` + 1.
    pub fn packet(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// Mean UDP payload of the measured packets.
    pub fn mean_bytes(&self) -> f64 {
        let before = if self.warmup == 0 { 0 } else { self.ends[self.warmup - 1] };
        (self.bytes.len() - before) as f64 / (self.len() - self.warmup).max(1) as f64
    }
}

/// Updates of one level each: first every instrument's bids in turn, ten levels of them, then changes at random.
fn one_entry(instruments: u32, measured: usize, seed: u64) -> Traffic {
    let mut prng = Prng::new(seed);
    let warmup = (instruments * LEVELS) as usize;
    let mut rpt_seq = vec![0u32; instruments as usize];
    let mut traffic = Traffic { warmup, ..Traffic::default() };
    for index in 0..warmup + measured {
        let at = match index {
            i if i < warmup => i / LEVELS as usize,
            _ => prng.below(u64::from(instruments)) as usize,
        };
        rpt_seq[at] += 1;
        let (action, level) = match rpt_seq[at] {
            n @ 1..=LEVELS => (MdUpdateAction::NEW, n as u8),
            _ => (MdUpdateAction::CHANGE, 1 + prng.below(u64::from(LEVELS)) as u8),
        };
        let mut buf = [0; ONE_ENTRY_MAX];
        let price = Price9(1_000_000_000 * (100_000 - 10 * i64::from(level) + prng.below(10) as i64));
        let seq = index as u32 + 1;
        let len = encode(&mut buf, seq, FIRST_ID + at as i32, rpt_seq[at], action, level, price, &mut prng);
        traffic.push(&buf[..len.unwrap_or(0)]);
    }
    traffic
}

#[allow(clippy::too_many_arguments, reason = "the fields of one entry")]
fn encode(
    buf: &mut [u8],
    seq: u32,
    id: i32,
    rpt_seq: u32,
    action: MdUpdateAction,
    level: u8,
    price: Price9,
    prng: &mut Prng,
) -> Option<usize> {
    let mut packet = PacketEncoder::new(buf, seq, u64::from(seq)).ok()?;
    let mut book = MdIncrementalRefreshBook46Encoder::new(packet.room()).ok()?;
    book.transact_time(u64::from(seq)).match_event_indicator(MatchEventIndicator::END_OF_EVENT);
    book.md_entries()
        .ok()?
        .push()
        .ok()?
        .md_entry_px(price)
        .md_entry_size(1 + prng.below(1_000) as i32)
        .number_of_orders(1 + prng.below(50) as i32)
        .security_id(id)
        .rpt_seq(rpt_seq)
        .md_price_level(level)
        .md_update_action(action)
        .md_entry_type(MdEntryTypeBook::BID);
    let len = book.finish().ok()?;
    packet.advance(len);
    Some(packet.finish().len())
}

/// The A line of an emulated channel that begins its week: books are empty, so the incrementals alone fill them.
fn channel(instruments: u32, measured: usize, seed: u64) -> Result<Traffic, BenchError> {
    let config = EmulatorConfig {
        seed,
        instruments,
        first_security_id: FIRST_ID,
        prefill: false,
        events_per_s: 1_000,
        conflation: Duration::from_millis(1),
        active: Duration::from_secs(24 * 3600),
        ..EmulatorConfig::default()
    };
    let refused = |e: barewire_feed_emulator::EmulatorError| BenchError::Plan(e.to_string());
    let mut emulator = Emulator::new(config, Instant::ZERO).map_err(refused)?;
    let wanted = measured + measured * CHANNEL_WARMUP_PERCENT / 100;
    let mut traffic = Traffic::default();
    let mut until = Instant::ZERO;
    while traffic.len() < wanted {
        until += EMULATED_STEP;
        emulator.next_packets(until, &mut |packet| {
            if packet.feed == FeedType::Incremental && packet.side == Side::A && traffic.len() < wanted {
                traffic.push(packet.payload);
            }
        });
    }
    traffic.warmup = wanted - measured;
    Ok(traffic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_sbe::Packet;

    #[test]
    fn packets_are_numbered_from_one_and_filled_first() {
        for (workload, warmup) in [(Workload::OneEntry, 30), (Workload::Channel, 20)] {
            let traffic = Traffic::make(workload, 3, 200, 7).unwrap();
            assert_eq!((traffic.len(), traffic.warmup()), (warmup + 200, warmup), "{workload}");
            for index in 0..traffic.len() {
                let packet = Packet::parse(traffic.packet(index)).unwrap();
                assert_eq!(packet.seq_num() as usize, index + 1);
                assert!(packet.messages().all(|m| m.is_ok()));
            }
            let again = Traffic::make(workload, 3, 200, 7).unwrap();
            assert_eq!(again.bytes, traffic.bytes, "the same seed gives the same packets");
            assert!(traffic.mean_bytes() > 50.0);
        }
        assert_eq!("channel".parse(), Ok(Workload::Channel));
        assert!("one-entri".parse::<Workload>().unwrap_err().contains("did you mean `one-entry`"));
    }
}
