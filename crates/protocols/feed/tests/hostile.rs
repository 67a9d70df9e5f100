//! Packets that are damaged, cut, or made up: counted and dropped, without panic, and without harm to instruments they do not
//! name.

mod sim;

use barewire_base::{Instant, Prng};
use barewire_feed::{Channel, Config, DefinitionLoop, Feed, Line, LineSide, Recovery};
use barewire_sbe::Price9;
use barewire_sbe::mdp3::*;
use sim::Exchange;

fn damage(prng: &mut Prng, bytes: &mut Vec<u8>) {
    match prng.below(5) {
        0 => bytes.truncate(prng.below(bytes.len() as u64 + 1) as usize),
        1 => {
            let mut tail = vec![0; prng.below(40) as usize];
            prng.fill(&mut tail);
            bytes.extend(tail);
        }
        2 => {
            for _ in 0..1 + prng.below(8) {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] = prng.next_u64() as u8;
            }
        }
        3 => {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << prng.below(8);
        }
        _ => {
            // Head fields: size, block length, template, counts live in the first bytes.
            let at = prng.below(40.min(bytes.len() as u64)) as usize;
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff][prng.below(5) as usize];
        }
    }
}

/// Any damage, on every feed and line: no panic, no endless loop, and the bounds hold.
#[test]
fn no_damaged_packet_panics() {
    for seed in 0..150 {
        let mut prng = Prng::new(seed);
        let mut exchange = Exchange::new(seed, 6);
        let config = Config {
            instruments: 8,
            orders_max: 512,
            pending_orders: 64,
            pending_entries: 64,
            gap_packets: 8,
            max_packet_len: 2_000,
            recovery: [Recovery::Snapshot, Recovery::Natural, Recovery::SnapshotOrNatural][seed as usize % 3],
            definitions: DefinitionLoop::Fast,
            ..Config::default()
        };
        let mut channel = Channel::new(config, Instant::ZERO).unwrap();
        for i in 0..400 {
            let now = 1_000 + i * 10_000;
            let mut sent = if prng.chance(0.02) { exchange.channel_reset(now) } else { exchange.event(now) };
            sent.extend(exchange.snapshot(now));
            for (feed, mut bytes) in sent {
                if prng.chance(0.4) {
                    damage(&mut prng, &mut bytes);
                }
                let feed = if prng.chance(0.02) { Feed::Instrument } else { feed };
                let side = LineSide::ALL[prng.below(4) as usize];
                let at = Instant::from_nanos(now + prng.below(1_000_000));
                channel.on_packet(at, Line::new(feed, side), Default::default(), &bytes, &mut ());
            }
            if prng.chance(0.2) {
                channel.on_timeout(Instant::from_nanos(now + prng.below(100_000_000)), &mut ());
            }
            let (held, entries) = channel.waiting();
            assert!(held < 64 && entries <= 128, "seed {seed}");
            assert!(channel.books().count() <= 8, "seed {seed}");
            let info = channel.recovery_info();
            assert!(info.unsettled <= info.instruments, "seed {seed}");
        }
        assert!(channel.counters().drops().map(|(_, n)| n).sum::<u64>() > 50, "seed {seed}");
    }
}

/// Where the messages of a packet begin and end: a cut there leaves a whole packet with fewer messages.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut out) = (12, vec![]);
    while let Some(size) = bytes.get(at..at + 2) {
        at += usize::from(u16::from_le_bytes([size[0], size[1]]));
        out.push(at);
    }
    out
}

/// Line A brings every packet cut somewhere, line B whole: the books are as if A had not been there.
#[test]
fn cut_copies_on_one_line_harm_nothing() {
    for seed in 0..100 {
        let mut prng = Prng::new(seed);
        let mut exchange = Exchange::new(seed, 5);
        let config = Config { instruments: 8, orders_max: 512, max_packet_len: 16_384, ..Config::default() };
        let mut channel = Channel::new(config, Instant::ZERO).unwrap();
        let mut cuts = 0;
        for i in 0..200 {
            let now = 1_000 + i * 10_000;
            for (feed, bytes) in exchange.event(now) {
                let at = Instant::from_nanos(now);
                let cut = prng.below(bytes.len() as u64) as usize;
                if !ends(&bytes).contains(&cut) {
                    cuts += 1;
                    let line = Line::new(feed, LineSide::A);
                    channel.on_packet(at, line, Default::default(), &bytes[..cut], &mut ());
                }
                channel.on_packet(at, Line::new(feed, LineSide::B), Default::default(), &bytes, &mut ());
            }
        }
        exchange.compare(&channel).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(channel.counters().drops().map(|(_, n)| n).sum::<u64>(), cuts, "seed {seed}");
        assert_eq!(channel.line_stats(Line::new(Feed::Incremental, LineSide::A)).first, 0);
    }
}

/// Whatever stands in an entry, only the instrument that it names may suffer.
#[test]
fn damage_in_an_entry_stays_with_its_instrument() {
    // Packet header 12, message header 10, block 11, group header 3; within the entry the security id at 12.
    const ENTRY: usize = 12 + 10 + 11 + 3;
    let mut harmed = 0;
    for seed in 0..2_000 {
        let mut prng = Prng::new(seed);
        let mut channel =
            Channel::new(Config { instruments: 4, orders_max: 64, ..Config::default() }, Instant::ZERO)
                .unwrap();
        let line = Line::new(Feed::Incremental, LineSide::A);
        let send = |channel: &mut Channel, bytes: &[u8]| {
            channel.on_packet(Instant::ZERO, line, Default::default(), bytes, &mut ());
        };
        for (seq, id, rpt) in [(1, 7, 1), (2, 8, 1)] {
            send(&mut channel, &one_bid(seq, id, rpt, 100));
        }
        let mut bytes = one_bid(3, 7, 2, 101);
        for _ in 0..1 + prng.below(4) {
            let at = prng.below(32) as usize;
            if !(12..16).contains(&at) {
                bytes[ENTRY + at] = prng.next_u64() as u8;
            }
        }
        send(&mut channel, &bytes);
        harmed += u32::from(!channel.book(7).unwrap().state.is_good());
        send(&mut channel, &one_bid(4, 8, 2, 102));
        let other = channel.book(8).unwrap();
        let prices: Vec<i64> = other.bids().iter().map(|l| l.price).collect();
        assert!(other.state.is_good() && prices == [102, 100], "seed {seed}: {prices:?}");
    }
    assert!(harmed > 100, "{harmed}");
}

fn one_bid(seq: u32, id: i32, rpt: u32, price: i64) -> Vec<u8> {
    let mut buf = [0; 256];
    let mut m = MdIncrementalRefreshBook46Encoder::new(&mut buf).unwrap();
    m.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
    let mut group = m.md_entries().unwrap();
    let e = &mut group.push().unwrap();
    e.security_id(id).rpt_seq(rpt).md_price_level(1).md_entry_px(Price9(price)).md_entry_size(1);
    e.md_update_action(MdUpdateAction::NEW).md_entry_type(MdEntryTypeBook::BID);
    let len = m.finish().unwrap();
    sim::packet(seq, u64::from(seq), &[buf[..len].to_vec()])
}
