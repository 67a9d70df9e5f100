//! The emulator itself: it replays, every packet decodes, and an honest receiver's books are the truth.

use super::*;
use barewire_sbe::mdp3::{AnyMessage, MdEntryTypeBook, MdUpdateAction};
use barewire_sbe::{Packet, Price9};
use std::collections::{BTreeMap, BTreeSet};

fn config(seed: u64) -> EmulatorConfig {
    EmulatorConfig {
        seed,
        instruments: 30,
        active: Duration::from_millis(500),
        events_per_s: 5_000,
        conflation: Duration::from_millis(5),
        definition_gap: Duration::from_millis(1),
        snapshot_gap: Duration::from_millis(1),
        heartbeat: Duration::from_millis(50),
        history: true,
        ..EmulatorConfig::default()
    }
}

type Sent = Vec<(Instant, FeedType, Side, Vec<u8>)>;

/// All packets until `until`, asked for in steps of `step`.
fn run(config: EmulatorConfig, step: Duration, until: Duration) -> (Emulator, Sent) {
    let start = Instant::from_nanos(7_000_000_000);
    let mut emulator = Emulator::new(config, start).unwrap();
    let mut sent = Vec::new();
    let mut now = start;
    while now <= start + until {
        emulator.next_packets(now, &mut |p| sent.push((p.at, p.feed, p.side, p.payload.to_vec())));
        now += step;
    }
    (emulator, sent)
}

const LONG: Duration = Duration::from_millis(800);

#[test]
fn the_same_seed_gives_the_same_packets_however_it_is_asked() {
    let faulty = |seed| EmulatorConfig {
        faults_a: LineFaults {
            loss: 0.05,
            duplicate: 0.02,
            reorder: 0.05,
            reorder_delay: Duration::from_micros(700),
            delay: Duration::from_micros(20),
            jitter: Duration::from_micros(300),
        },
        faults_b: LineFaults { loss: 0.01, ..LineFaults::default() },
        resets: vec![Duration::from_millis(200)],
        weekly_resets: vec![Duration::from_millis(250)],
        definition_changes_per_s: 50,
        ..config(seed)
    };
    let (a, sent) = run(faulty(3), Duration::from_micros(50), LONG);
    let (b, again) = run(faulty(3), Duration::from_millis(80), LONG);
    assert!(sent == again, "the step by which it is asked changes nothing");
    assert_eq!(a.truth(), b.truth());
    assert!(sent.windows(2).all(|pair| pair[0].0 <= pair[1].0), "packets come in the order of their arrival");
    let (c, other) = run(faulty(4), Duration::from_millis(80), LONG);
    assert!(sent != other && a.truth() != c.truth());
    let [on_a, on_b] = a.line_counts();
    assert_eq!(on_a.sent, on_b.sent);
    assert!(on_a.lost > 0 && on_a.duplicated > 0 && on_a.reordered > 0 && on_b.lost > 0, "{on_a:?} {on_b:?}");
    for (side, counts) in [(Side::A, on_a), (Side::B, on_b)] {
        let came = sent.iter().filter(|(_, _, s, _)| *s == side).count() as u64;
        let left = counts.sent - counts.lost + counts.duplicated;
        assert!(came <= left && left - came < 20, "{side}: {came} of {left} came, the others are under way");
    }
}

#[test]
fn every_packet_decodes_to_the_last_byte_and_fits() {
    for (seed, conflation_ms) in [(1, 0), (2, 5), (3, 50)] {
        let config = EmulatorConfig {
            conflation: Duration::from_millis(conflation_ms),
            resets: vec![Duration::from_millis(100), Duration::from_millis(300)],
            chunk_entries: 7,
            definition_changes_per_s: 100,
            weekly_resets: vec![Duration::from_millis(200)],
            ..config(seed)
        };
        let (emulator, sent) = run(config, Duration::from_millis(10), LONG);
        let mut templates: BTreeMap<u16, u32> = BTreeMap::new();
        for (_, _, _, bytes) in &sent {
            assert!(bytes.len() <= 1400);
            let packet = Packet::parse(bytes).unwrap();
            for message in packet {
                let message = message.unwrap();
                *templates.entry(message.template_id).or_default() += 1;
                AnyMessage::decode(&message).unwrap();
            }
        }
        let wanted =
            [4, 12, 30, 37, 39, 46, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 59, 60, 63, 64, 65, 66, 67, 69];
        let seen: Vec<u16> = templates.keys().copied().collect();
        assert_eq!(seen, wanted, "seed {seed}: {templates:?}");
        assert_eq!(emulator.counts().resets, 2);
    }
}

#[test]
fn sequence_numbers_have_no_hole_and_loops_begin_with_one() {
    let (emulator, sent) = run(config(9), Duration::from_millis(10), LONG);
    let seqs = |feed| -> Vec<u32> {
        let of_a = sent.iter().filter(|(_, f, side, _)| (*f, *side) == (feed, Side::A));
        of_a.map(|(_, _, _, bytes)| Packet::parse(bytes).unwrap().seq_num()).collect()
    };
    let incremental = seqs(FeedType::Incremental);
    assert_eq!(incremental[0], MIDWEEK_SEQ_NUM + 1);
    assert!(incremental.windows(2).all(|pair| pair[1] == pair[0] + 1));
    assert_eq!(*incremental.last().unwrap(), emulator.truth().header.last_seq_num);
    for feed in [FeedType::Snapshot, FeedType::Instrument] {
        let loops = seqs(feed);
        assert_eq!(loops[0], 1);
        assert!(loops.iter().filter(|seq| **seq == 1).count() > 3, "{feed:?}");
        assert!(loops.windows(2).all(|pair| pair[1] == pair[0] + 1 || pair[1] == 1));
    }
    assert!(emulator.counts().heartbeats > 0);
}

/// One side as a plain receiver keeps it.
fn apply(side: &mut Vec<Level>, level: u8, action: MdUpdateAction, value: Level) {
    let index = usize::from(level) - 1;
    match action {
        MdUpdateAction::NEW => side.insert(index, value),
        MdUpdateAction::CHANGE | MdUpdateAction::OVERLAY => side[index] = value,
        MdUpdateAction::DELETE => drop(side.remove(index)),
        MdUpdateAction::DELETE_THRU => side.clear(),
        MdUpdateAction::DELETE_FROM => drop(side.drain(..=index)),
        other => panic!("{other:?}"),
    }
}

#[derive(Default)]
struct Receiver {
    books: BTreeMap<i32, [Vec<Level>; 4]>,
    volumes: BTreeMap<i32, u64>,
    rpt_seqs: BTreeMap<i32, u32>,
    listed: BTreeSet<i32>,
}

impl Receiver {
    /// Takes a definition of the incremental feed.
    fn defined(&mut self, id: i32, action: u8) {
        match action {
            b'D' => assert!(self.listed.remove(&id), "{id} is not there"),
            b'A' => assert!(self.listed.insert(id), "{id} is there"),
            _ => assert!(self.listed.contains(&id), "{id} is not there"),
        }
        if action != b'M' {
            self.books.remove(&id);
            self.volumes.remove(&id);
            self.rpt_seqs.remove(&id);
        }
    }

    /// Books are empty and RptSeq begins again.
    fn forget(&mut self) {
        *self = Receiver { listed: std::mem::take(&mut self.listed), ..Receiver::default() };
    }

    fn numbered(&mut self, security_id: i32, rpt_seq: u32) {
        assert!(self.listed.contains(&security_id), "{security_id} is not listed");
        let last = self.rpt_seqs.entry(security_id).or_default();
        assert_eq!(rpt_seq, *last + 1, "RptSeq of {security_id}");
        *last = rpt_seq;
    }

    fn entry(&mut self, id: i32, kind: MdEntryTypeBook, level: u8, action: MdUpdateAction, value: Level) {
        let sides = [
            MdEntryTypeBook::BID,
            MdEntryTypeBook::OFFER,
            MdEntryTypeBook::IMPLIED_BID,
            MdEntryTypeBook::IMPLIED_OFFER,
        ];
        let side = sides.iter().position(|k| *k == kind).unwrap();
        apply(&mut self.books.entry(id).or_default()[side], level, action, value);
    }

    /// Takes one message; says whether it ends an event.
    fn take(&mut self, message: &AnyMessage<'_>) -> bool {
        let price = |p: Option<Price9>| p.unwrap().0;
        match message {
            AnyMessage::ChannelReset4(m) => {
                self.forget();
                m.match_event_indicator().contains(barewire_sbe::mdp3::MatchEventIndicator::END_OF_EVENT)
            }
            AnyMessage::MdIncrementalRefreshBook46(m) => {
                for e in m.md_entries() {
                    self.numbered(e.security_id(), e.rpt_seq());
                    let value = Level {
                        price_e9: price(e.md_entry_px()),
                        quantity: e.md_entry_size().unwrap() as u64,
                        orders: e.number_of_orders().map(|n| n as u32),
                    };
                    self.entry(
                        e.security_id(),
                        e.md_entry_type(),
                        e.md_price_level(),
                        e.md_update_action(),
                        value,
                    );
                }
                m.match_event_indicator().contains(barewire_sbe::mdp3::MatchEventIndicator::END_OF_EVENT)
            }
            AnyMessage::MdIncrementalRefreshBookLongQty64(m) => {
                for e in m.md_entries() {
                    self.numbered(e.security_id(), e.rpt_seq());
                    let value = Level {
                        price_e9: price(e.md_entry_px()),
                        quantity: e.md_entry_size().unwrap(),
                        orders: e.number_of_orders().map(|n| n as u32),
                    };
                    self.entry(
                        e.security_id(),
                        e.md_entry_type(),
                        e.md_price_level(),
                        e.md_update_action(),
                        value,
                    );
                }
                m.match_event_indicator().contains(barewire_sbe::mdp3::MatchEventIndicator::END_OF_EVENT)
            }
            AnyMessage::MdIncrementalRefreshTradeSummary48(m) => {
                m.md_entries().into_iter().for_each(|e| self.numbered(e.security_id(), e.rpt_seq()));
                false
            }
            AnyMessage::MdIncrementalRefreshTradeSummaryLongQty65(m) => {
                m.md_entries().into_iter().for_each(|e| self.numbered(e.security_id(), e.rpt_seq()));
                false
            }
            AnyMessage::MdIncrementalRefreshVolume37(m) => {
                for e in m.md_entries() {
                    self.numbered(e.security_id(), e.rpt_seq());
                    self.volumes.insert(e.security_id(), e.md_entry_size() as u64);
                }
                false
            }
            AnyMessage::MdIncrementalRefreshVolumeLongQty66(m) => {
                for e in m.md_entries() {
                    self.numbered(e.security_id(), e.rpt_seq());
                    self.volumes.insert(e.security_id(), e.md_entry_size());
                }
                false
            }
            AnyMessage::MdIncrementalRefreshSessionStatistics51(m) => {
                m.md_entries().into_iter().for_each(|e| self.numbered(e.security_id(), e.rpt_seq()));
                false
            }
            AnyMessage::MdIncrementalRefreshSessionStatisticsLongQty67(m) => {
                m.md_entries().into_iter().for_each(|e| self.numbered(e.security_id(), e.rpt_seq()));
                false
            }
            AnyMessage::MdIncrementalRefreshDailyStatistics49(m) => {
                m.md_entries().into_iter().for_each(|e| self.numbered(e.security_id(), e.rpt_seq()));
                false
            }
            AnyMessage::MdIncrementalRefreshLimitsBanding50(m) => {
                m.md_entries().into_iter().for_each(|e| self.numbered(e.security_id(), e.rpt_seq()));
                false
            }
            other => {
                if let Some((id, action, _)) = definition(other) {
                    self.defined(id, action);
                }
                false
            }
        }
    }
}

/// A definition's SecurityID, SecurityUpdateAction and TotNumReports.
fn definition(message: &AnyMessage<'_>) -> Option<(i32, u8, u32)> {
    macro_rules! of {
        ($m:expr) => {
            Some(($m.security_id(), $m.security_update_action().0, $m.tot_num_reports().unwrap_or(0)))
        };
    }
    match message {
        AnyMessage::MdInstrumentDefinitionFuture54(m) => of!(m),
        AnyMessage::MdInstrumentDefinitionOption55(m) => of!(m),
        AnyMessage::MdInstrumentDefinitionSpread56(m) => of!(m),
        AnyMessage::MdInstrumentDefinitionFixedIncome57(m) => of!(m),
        AnyMessage::MdInstrumentDefinitionFx63(m) => of!(m),
        _ => None,
    }
}

#[test]
fn a_plain_receiver_of_a_perfect_line_ends_with_the_truth() {
    for seed in 1..=10 {
        let config = EmulatorConfig {
            prefill: false,
            conflation: Duration::from_millis([0, 3, 50][seed as usize % 3]),
            depth: [1, 5, 10][seed as usize % 3],
            resets: if seed % 2 == 0 { vec![Duration::from_millis(250)] } else { vec![] },
            weekly_resets: [vec![], vec![Duration::from_millis(150), Duration::from_millis(330)]]
                [seed as usize / 2 % 2]
                .clone(),
            weekend: Duration::from_millis(20),
            definition_changes_per_s: [0, 100, 1_000][seed as usize / 3 % 3],
            ..config(seed)
        };
        let first = config.first_security_id;
        let listed = (first..first + config.instruments as i32).collect();
        let (emulator, sent) = run(config, Duration::from_millis(10), LONG);
        let mut receiver = Receiver { listed, ..Receiver::default() };
        let (mut ends, mut last_seq, mut weeks) = (0, 0, 0);
        for (_, _, _, bytes) in
            sent.iter().filter(|(_, feed, side, _)| (*feed, *side) == (FeedType::Incremental, Side::B))
        {
            let seq = Packet::parse(bytes).unwrap().seq_num();
            if seq != last_seq + 1 {
                assert_eq!(seq, 1, "seed {seed}: after {last_seq}");
                receiver.forget();
                weeks += 1;
            }
            last_seq = seq;
            for message in Packet::parse(bytes).unwrap() {
                if receiver.take(&AnyMessage::decode(&message.unwrap()).unwrap()) {
                    ends += 1;
                    for (id, [bids, offers, ..]) in &receiver.books {
                        assert!(
                            emulator.ever_was(*id, bids, offers),
                            "seed {seed}: {id} never was like this"
                        );
                    }
                }
            }
        }
        assert!(ends > 20, "seed {seed}: {ends} events");
        let truth = emulator.truth();
        let counts = emulator.counts();
        assert_eq!((weeks, truth.header.weeks), (seed / 2 % 2 * 2, weeks), "seed {seed}");
        assert_eq!(truth.books.iter().filter(|b| !b.deleted).count(), receiver.listed.len(), "seed {seed}");
        let changing = seed / 3 % 3 > 0;
        assert_eq!((counts.listed > 0, counts.delisted > 0), (changing, changing), "seed {seed}");
        let mut active = 0;
        for book in &truth.books {
            assert_eq!(receiver.listed.contains(&book.security_id), !book.deleted, "seed {seed}");
            let id = book.security_id;
            let ours = receiver.books.remove(&id).unwrap_or_default();
            let theirs = [&book.bids, &book.offers, &book.implied_bids, &book.implied_offers];
            assert_eq!(ours.each_ref(), theirs, "seed {seed}: {id}");
            assert_eq!(receiver.rpt_seqs.get(&id).copied().unwrap_or(0), book.rpt_seq, "seed {seed}: {id}");
            assert_eq!(receiver.volumes.get(&id).copied().unwrap_or(0), book.volume, "seed {seed}: {id}");
            active += usize::from(!book.bids.is_empty());
        }
        assert!(receiver.books.is_empty() && active > 5, "seed {seed}: {active} books");
    }
}

#[test]
fn the_last_snapshots_are_the_truth() {
    let (emulator, sent) =
        run(EmulatorConfig { chunk_entries: 6, ..config(5) }, Duration::from_millis(10), LONG);
    let truth = emulator.truth();
    let mut checked = 0;
    for book in &truth.books {
        let mut found: Option<Vec<Level>> = None;
        let mut top = 0;
        for (_, _, _, bytes) in sent
            .iter()
            .filter(|(_, feed, side, _)| (*feed, *side) == (FeedType::Snapshot, Side::A))
            .rev()
            .take(60)
        {
            for message in Packet::parse(bytes).unwrap() {
                match AnyMessage::decode(&message.unwrap()).unwrap() {
                    AnyMessage::SnapshotFullRefresh52(m) if m.security_id() == book.security_id => {
                        assert_eq!(
                            (m.rpt_seq(), m.md_security_trading_status().0),
                            (book.rpt_seq, book.status)
                        );
                        let bids = m.md_entries().into_iter().filter(|e| e.md_entry_type().0 == b'0');
                        found = Some(
                            bids.map(|e| Level {
                                price_e9: e.md_entry_px().unwrap().0,
                                quantity: e.md_entry_size().unwrap() as u64,
                                orders: e.number_of_orders().map(|n| n as u32),
                            })
                            .collect(),
                        );
                    }
                    AnyMessage::SnapshotFullRefreshOrderBook53(m) if m.security_id() == book.security_id => {
                        assert!(m.current_chunk() >= 1 && m.current_chunk() <= m.no_chunks());
                        if m.current_chunk() == 1 {
                            let chunks = (book.top_bids.len() + book.top_offers.len()).div_ceil(6).max(1);
                            assert_eq!(m.no_chunks() as usize, chunks);
                            top += 1;
                        }
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(top > 0, book.has_top_orders, "{}", book.security_id);
        if let Some(found) = found {
            assert_eq!(found, book.bids, "{}", book.security_id);
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} snapshots");
}

#[test]
fn reports_count_what_they_are_told_to() {
    for seed in 1..=12 {
        let of_messages = seed > 6;
        let config = EmulatorConfig {
            total_reports: if of_messages { TotalReports::Messages } else { TotalReports::Instruments },
            definition_changes_per_s: [0, 60][seed as usize % 2],
            top_orders_share: 1.0,
            chunk_entries: 3,
            prefill: seed % 3 != 0,
            ..config(seed)
        };
        let (_, sent) = run(config, Duration::from_millis(10), LONG);
        for feed in [FeedType::Snapshot, FeedType::Instrument] {
            let of_a = sent.iter().filter(|(_, f, side, _)| (*f, *side) == (feed, Side::A));
            // Rounds: what each message is about, and what it says there is.
            let mut rounds: Vec<Vec<(i32, u32)>> = Vec::new();
            for (_, _, _, bytes) in of_a {
                let packet = Packet::parse(bytes).unwrap();
                if packet.seq_num() == 1 {
                    rounds.push(Vec::new());
                }
                for message in packet {
                    let message = AnyMessage::decode(&message.unwrap()).unwrap();
                    let said = match &message {
                        AnyMessage::SnapshotFullRefresh52(m) => (m.security_id(), m.tot_num_reports()),
                        AnyMessage::SnapshotFullRefreshLongQty69(m) => (m.security_id(), m.tot_num_reports()),
                        AnyMessage::SnapshotFullRefreshOrderBook53(m) => {
                            (m.security_id(), m.tot_num_reports())
                        }
                        other => definition(other).map(|(id, _, total)| (id, total)).unwrap(),
                    };
                    rounds.last_mut().unwrap().push(said);
                }
            }
            rounds.pop();
            let (mut whole, mut more) = (0, 0);
            for (number, round) in rounds.iter().enumerate() {
                let instruments: BTreeSet<i32> = round.iter().map(|(id, _)| *id).collect();
                let totals: BTreeSet<u32> = round.iter().map(|(_, total)| *total).collect();
                assert_eq!(totals.len(), 1, "seed {seed} {feed:?} round {number}");
                let total = *totals.first().unwrap() as usize;
                let counted = if of_messages { round.len() } else { instruments.len() };
                // Those deleted since the round began are in no snapshot.
                assert!(counted <= total, "seed {seed} {feed:?} round {number}");
                assert!(feed == FeedType::Snapshot || counted == total, "seed {seed} round {number}");
                whole += usize::from(counted == total);
                more += usize::from(round.len() > instruments.len());
            }
            assert!(rounds.len() > 3 && whole * 3 > rounds.len(), "seed {seed} {feed:?}: {whole}");
            assert_eq!(more > 0, feed == FeedType::Snapshot, "seed {seed} {feed:?}: several messages of one");
        }
    }
}

#[test]
fn ten_thousand_instruments_are_emulated() {
    let config = EmulatorConfig {
        instruments: 10_000,
        active: Duration::from_millis(100),
        events_per_s: 100_000,
        snapshot_gap: Duration::from_micros(20),
        definition_gap: Duration::from_micros(20),
        ..config(1)
    };
    let (emulator, sent) = run(config, Duration::from_millis(10), Duration::from_millis(150));
    assert_eq!(emulator.truth().books.len(), 10_000);
    assert!(sent.len() > 10_000);
}

#[test]
fn a_truth_that_was_written_is_read() {
    let (emulator, _) = run(config(2), Duration::from_millis(100), LONG);
    let mut bytes = Vec::new();
    emulator.truth().write(&mut bytes).unwrap();
    assert_eq!(bytes.iter().filter(|b| **b == b'\n').count(), 31);
    assert_eq!(Truth::read(&mut bytes.as_slice()).unwrap(), emulator.truth());
    let error = Truth::read(&mut &b"{}\n"[..]).unwrap_err().to_string();
    assert!(error.starts_with("line 1: "), "{error}");
    assert!(Truth::read(&mut &b""[..]).is_err());
}
