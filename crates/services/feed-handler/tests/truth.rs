//! The handler's books beside the emulator's truth: over lossy lines, with resets and late joins, live and replayed.

mod common;

use barewire_base::{Duration, Instant, Prng};
use barewire_engine::{IdleStrategy, now};
use barewire_feed::{
    BookView, DefinitionAction, DefinitionLoop, Feed, Gap, Listener, RecoveryInfo, Reset, Trade,
};
use barewire_feed_emulator::{
    CaptureWriter, Emulator, EmulatorConfig, LineFaults, Sender, TotalReports, levels,
};
use barewire_feed_handler::{
    Consumer, CsvExport, FeedChannel, FeedHandler, FeedType, Input, LineId, Packet, Recovery, Replay,
    SocketOptions,
};
use barewire_frame::Stamp;
use barewire_port::Speed;
use barewire_testing::Folder;
use common::{channel, emulation, plan, privileged, sockets};
use std::sync::mpsc;

/// Remembers what a book looked like whenever it was shown.
#[derive(Default)]
struct Watch {
    shown: Vec<(i32, Vec<barewire_feed_emulator::Level>, Vec<barewire_feed_emulator::Level>)>,
    gaps: u64,
    recoveries: u64,
    trades: u64,
    weeks: u64,
    deleted: u64,
}

impl Listener for Watch {
    fn on_book(&mut self, book: &BookView<'_>) {
        if book.state.is_good() {
            self.shown.push((book.instrument.security_id, levels(book.bids()), levels(book.offers())));
        }
    }
    fn on_trade(&mut self, _: &barewire_feed::Instrument, _: &Trade) {
        self.trades += 1;
    }
    fn on_gap(&mut self, _: &Gap) {
        self.gaps += 1;
    }
    fn on_reset(&mut self, reset: Reset) {
        self.weeks += u64::from(reset == Reset::Sequence);
    }
    fn on_definition(&mut self, _: &barewire_feed::Instrument, action: DefinitionAction) {
        self.deleted += u64::from(action == DefinitionAction::Delete);
    }
    fn on_recovery_end(&mut self, _: &RecoveryInfo) {
        self.recoveries += 1;
    }
}

/// How long the loops go on after the market's end: whatever was lost last is made good.
const AFTER: Duration = Duration::from_millis(600);

/// How an emulation is listened to.
struct Ear {
    recovery: Recovery,
    /// Nothing is heard before.
    join: Duration,
    /// Whether the definition loop is heard.
    definitions: bool,
}

impl Default for Ear {
    fn default() -> Ear {
        Ear { recovery: Recovery::Snapshot, join: Duration::ZERO, definitions: true }
    }
}

/// Runs an emulation through a channel; what the handler has seen. What `lost` says is lost on its way, after all else.
fn run(
    config: &EmulatorConfig,
    ear: &Ear,
    lost: &mut dyn FnMut(Instant, FeedType, u32) -> bool,
) -> (Emulator, FeedChannel<Watch>) {
    let start = Instant::from_nanos(1_000_000_000);
    let join = ear.join;
    let mut emulator = Emulator::new(config.clone(), start).unwrap();
    let mut plan = channel(config);
    plan.recovery = ear.recovery;
    plan.definitions = ear.definitions;
    plan.lost_packet_wait = Duration::from_millis(4);
    plan.instruments_max = 256;
    let mut channel = FeedChannel::new(&plan, 2048, start + join, Watch::default()).unwrap();
    let mut end = start + config.active + AFTER;
    let most = end + AFTER + AFTER;
    let mut time = start;
    while time <= end {
        emulator.next_packets(time, &mut |packet| {
            while let Some(due) = channel.next_deadline().filter(|due| *due <= packet.at) {
                channel.on_timeout(due);
            }
            let seq = u32::from_le_bytes(packet.payload[..4].try_into().unwrap());
            if packet.at >= start + join && !lost(packet.at, packet.feed, seq) {
                let line = LineId { channel: 0, feed: packet.feed, side: packet.side };
                let stamp = Stamp::engine(packet.at);
                channel.on_packet(packet.at, &Packet { line, stamp, payload: packet.payload, frame: None });
            }
        });
        time += Duration::from_millis(1);
        // The last heartbeats may be lost as well: what that puts in doubt gets its time to become right.
        let right = !channel.core().is_recovering() && !channel.core().wants(Feed::Instrument);
        if time > end && !right && end < most {
            end += Duration::from_millis(100);
        }
    }
    channel.on_timeout(end);
    (emulator, channel)
}

/// What is wrong, if anything.
fn check(emulator: &Emulator, channel: &FeedChannel<Watch>) -> Vec<String> {
    let truth = emulator.truth();
    let differences = truth.compare(channel.core(), true);
    let mut wrong: Vec<String> = differences.iter().map(ToString::to_string).collect();
    // Of a channel on which nothing has happened at all there is no snapshot, and nothing to be learned.
    if channel.core().is_recovering() && truth.books.iter().any(|book| book.rpt_seq > 0) {
        wrong.push(format!("still recovering: {:?}", channel.core().recovery_info()));
    }
    if channel.core().config().definitions != DefinitionLoop::Unused && !channel.core().definitions_complete()
    {
        wrong.push("definitions are not complete".into());
    }
    for (id, bids, offers) in &channel.listener().shown {
        if !emulator.ever_was(*id, bids, offers) {
            wrong.push(format!("instrument {id} never was {bids:?} {offers:?}"));
        }
    }
    wrong
}

fn faults(loss: f64, prng: &mut Prng) -> LineFaults {
    LineFaults {
        loss,
        duplicate: 0.01,
        reorder: 0.02,
        reorder_delay: Duration::from_micros(200 + prng.below(2_000)),
        delay: Duration::from_micros(prng.below(200)),
        jitter: Duration::from_micros(prng.below(500)),
    }
}

/// The emulation of a seed, and how it is listened to: every mixture of losses, resets in the middle of recovery, weeks,
/// definitions that change, quiet and busy markets, and late joins.
fn case(seed: u64) -> (EmulatorConfig, Ear) {
    let mut prng = Prng::new(seed);
    let loss = [0.001, 0.01, 0.1][seed as usize % 3];
    let times = |prng: &mut Prng, most: u64| {
        (0..prng.below(most + 1)).map(|_| Duration::from_micros(prng.below(300_000))).collect()
    };
    // Some channels are so quiet that many instruments are never heard of, and now and then none.
    let quiet = seed % 11 == 3;
    let config = EmulatorConfig {
        faults_a: faults(loss, &mut prng),
        faults_b: faults(loss, &mut prng),
        conflation: Duration::from_millis([0, 2, 10, 50][seed as usize % 4]),
        prefill: seed.is_multiple_of(2),
        events_per_s: if quiet { prng.below(60) as u32 } else { 3_000 },
        chunk_entries: 1 + prng.below(20) as usize,
        total_reports: if seed.is_multiple_of(3) {
            TotalReports::Instruments
        } else {
            TotalReports::Messages
        },
        resets: times(&mut prng, 2),
        weekly_resets: if seed % 3 == 1 || seed % 7 == 2 { times(&mut prng, 2) } else { vec![] },
        weekend: Duration::from_micros(500 + prng.below(20_000)),
        definition_changes_per_s: [0, 20, 200][prng.below(3) as usize],
        history: true,
        ..emulation(seed)
    };
    let ear = Ear {
        join: if seed.is_multiple_of(5) {
            Duration::ZERO
        } else {
            Duration::from_micros(prng.below(200_000))
        },
        // Natural refresh beside the snapshots may be first, and must not be wrong.
        recovery: if seed.is_multiple_of(7) { Recovery::Either } else { Recovery::Snapshot },
        definitions: seed % 4 != 1,
    };
    (config, ear)
}

#[test]
fn books_are_the_truth_whatever_is_lost() {
    // As many as a long run asks for.
    let seeds = std::env::var("BAREWIRE_FEED_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let (mut gaps, mut weeks, mut deleted, mut shown, mut failed) = (0, 0, 0, 0, Vec::new());
    for seed in 1..=seeds {
        let (config, ear) = case(seed);
        let (emulator, channel) = run(&config, &ear, &mut |_, _, _| false);
        let wrong = check(&emulator, &channel);
        if let Some(first) = wrong.first() {
            eprintln!("seed {seed}: {} things, the first: {first}", wrong.len());
            failed.push(seed);
        }
        let watch = channel.listener();
        gaps += watch.gaps;
        weeks += watch.weeks;
        deleted += watch.deleted;
        shown += watch.shown.len() as u64;
    }
    assert!(failed.is_empty(), "seeds {failed:?} of 1 to {seeds}");
    eprintln!(
        "{seeds} seeds: {shown} books shown, {gaps} gaps, {weeks} weeks begun, {deleted} instruments deleted"
    );
    assert!(gaps > seeds / 3 && weeks > seeds / 5 && deleted > seeds && shown > seeds * 50);
}

/// Channels that publish every order: the book by order is the truth to its full depth, wherever packets are lost and whenever it
/// is joined.
#[test]
fn books_of_every_order_are_the_truth_whatever_is_lost() {
    let (mut deep, mut gaps, mut recovered, mut failed) = (0, 0, 0, Vec::new());
    for seed in 1..=150 {
        let (config, ear) = case(seed);
        let config = EmulatorConfig { every_order: true, ..config };
        let ear = Ear { recovery: Recovery::Snapshot, ..ear };
        let (emulator, channel) = run(&config, &ear, &mut |_, _, _| false);
        let mut wrong = check(&emulator, &channel);
        for book in channel.core().books().filter(|book| !book.orders_state.is_good()) {
            let spoken_of = emulator.truth().books.iter().any(|truth| truth.rpt_seq > 0);
            if spoken_of {
                wrong.push(format!("orders of {} are {:?}", book.instrument.security_id, book.orders_state));
            }
        }
        if let Some(first) = wrong.first() {
            eprintln!("seed {seed}: {} things, the first: {first}", wrong.len());
            failed.push(seed);
        }
        gaps += channel.listener().gaps;
        recovered += channel.core().counters().order_snapshots_applied;
        let bids = |b: &BookView<'_>| b.orders(barewire_feed::BookSide::Bid).len();
        deep += channel.core().books().filter(|book| bids(book) > 10).count();
    }
    assert!(failed.is_empty(), "seeds {failed:?}");
    eprintln!(
        "150 seeds: {deep} books deeper than ten orders, {gaps} gaps, {recovered} books by order recovered"
    );
    assert!(deep > 300 && gaps > 50 && recovered > 500, "{deep} {gaps} {recovered}");
}

#[test]
fn a_week_is_recognised_whatever_of_its_beginning_is_lost() {
    for count in (0..12).chain([20, 40]) {
        for seed in 1..=8 {
            let week = Duration::from_millis(100);
            let config = EmulatorConfig {
                weekly_resets: vec![week],
                weekend: Duration::from_millis(1),
                conflation: Duration::from_millis([0, 2][seed as usize % 2]),
                prefill: seed % 3 != 0,
                definition_changes_per_s: 50,
                history: true,
                faults_a: LineFaults { delay: Duration::from_millis(seed % 4), ..LineFaults::default() },
                ..emulation(seed)
            };
            let begins = Instant::from_nanos(1_000_000_000) + week + config.weekend;
            let mut lost = |at: Instant, feed, seq: u32| {
                feed == FeedType::Incremental && at >= begins && seq <= count && at < begins + week
            };
            let (emulator, channel) = run(&config, &Ear::default(), &mut lost);
            let wrong = check(&emulator, &channel);
            assert!(wrong.is_empty(), "seed {seed}, {count} lost: {wrong:?}");
            assert_eq!(channel.listener().weeks, 1, "seed {seed}, {count} lost");
        }
    }
}

#[test]
fn a_channel_on_which_nothing_happens_has_no_wrong_book() {
    for seed in 1..=20 {
        let loss = LineFaults { loss: 0.2, ..LineFaults::default() };
        let config = EmulatorConfig {
            prefill: false,
            events_per_s: 0,
            definition_changes_per_s: 40 * (seed as u32 % 2),
            weekly_resets: vec![Duration::from_millis(100)],
            history: true,
            faults_a: loss,
            faults_b: loss,
            ..emulation(seed)
        };
        let join = Duration::from_millis(10 * (seed % 7));
        let (emulator, channel) = run(&config, &Ear { join, ..Ear::default() }, &mut |_, _, _| false);
        let wrong = check(&emulator, &channel);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        if seed % 2 == 0 {
            assert_eq!(emulator.counts().snapshot_packets, 0, "seed {seed}: nothing to tell");
            assert!(channel.core().books().all(|book| book.bids().is_empty() && book.offers().is_empty()));
            assert_eq!(channel.core().books().count(), 20, "seed {seed}: known by their definitions");
        }
    }
}

/// Damage of any kind on any feed: no panic, no endless loop, and the bounds hold.
#[test]
fn damaged_packets_of_every_feed_do_no_harm_beyond_their_channel() {
    for seed in 1..=60 {
        let (config, _) = case(seed);
        let start = Instant::from_nanos(1_000_000_000);
        let mut emulator = Emulator::new(config.clone(), start).unwrap();
        let mut plan = channel(&config);
        plan.instruments_max = 24;
        let mut channel = FeedChannel::new(&plan, 2048, start, Watch::default()).unwrap();
        let mut prng = Prng::new(seed ^ 0xdead);
        emulator.next_packets(start + config.active + AFTER, &mut |packet| {
            while let Some(due) = channel.next_deadline().filter(|due| *due <= packet.at) {
                channel.on_timeout(due);
            }
            let mut bytes = packet.payload.to_vec();
            if prng.chance(0.2) {
                for _ in 0..1 + prng.below(4) {
                    let at = prng.below(bytes.len() as u64) as usize;
                    bytes[at] = prng.next_u64() as u8;
                }
                if prng.chance(0.2) {
                    bytes.truncate(prng.below(bytes.len() as u64 + 1) as usize);
                }
            }
            let line = LineId { channel: 0, feed: packet.feed, side: packet.side };
            let stamp = Stamp::engine(packet.at);
            channel.on_packet(packet.at, &Packet { line, stamp, payload: &bytes, frame: None });
            let info = channel.core().recovery_info();
            assert!(info.unsettled <= info.instruments && info.instruments <= 24, "seed {seed}: {info:?}");
        });
        assert_eq!(channel.core().books().count(), channel.core().recovery_info().instruments, "seed {seed}");
        assert!(channel.core().counters().drops().map(|(_, count)| count).sum::<u64>() > 50, "seed {seed}");
    }
}

#[test]
fn a_perfect_line_needs_no_recovery_after_the_first() {
    let config = EmulatorConfig { history: true, ..emulation(3) };
    let (emulator, channel) = run(&config, &Ear::default(), &mut |_, _, _| false);
    assert_eq!(check(&emulator, &channel), Vec::<String>::new());
    let counters = channel.core().counters();
    assert_eq!((counters.gaps, counters.lost_packets, channel.listener().recoveries), (0, 0, 1));
    assert!(channel.listener().trades > 20);
}

#[test]
fn a_replay_gives_the_books_and_the_export_of_them() {
    let folder = Folder::new("truth");
    let config = emulation(8);
    let start = Instant::from_nanos(9);
    let mut emulator = Emulator::new(config.clone(), start).unwrap();
    let lines = channel(&config).connections;
    let mut writer = CaptureWriter::create(&folder.file("all.pcap"), &lines, &emulator).unwrap();
    emulator.next_packets(start + config.active + AFTER, &mut |packet| writer.write(packet).unwrap());
    writer.finish().unwrap();
    let mut exports = Vec::new();
    for speed in [Speed::Flat, Speed::Times(20.0)] {
        let mut replay = Replay::open(&[folder.file("all.pcap")], &[channel(&config)], true).unwrap();
        let offline = plan(&config, Input::Sockets(SocketOptions::default()), None);
        let mut handler = FeedHandler::builder(offline)
            .sources(vec![])
            .start(replay.next_at().unwrap())
            .listen(|_, _| CsvExport::new(Vec::new(), Vec::new(), 5).unwrap())
            .unwrap();
        handler.replay(&mut replay, speed, None).unwrap();
        let channel = &mut handler.channels_mut()[0];
        let differences = emulator.truth().compare(channel.core(), true);
        assert!(differences.is_empty(), "{differences:?}");
        channel.listener_mut().finish().unwrap();
        let (books, trades) = channel.listener().rows();
        assert!(books > 100 && trades > 20, "{books} {trades}");
        let (books, trades) = channel.listener().writers();
        exports.push([books.clone(), trades.clone()]);
    }
    assert!(exports[0] == exports[1], "the speed changes nothing");
    let [books, trades] = exports.remove(0).map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(books.starts_with(
        "seq_num,sending_time_ns,stamp_ns,stamp_source,transact_time_ns,security_id,symbol,state"
    ));
    let columns = books.lines().next().unwrap().split(',').count();
    assert_eq!(columns, 10 + 5 * 2 * 3);
    assert!(books.lines().all(|line| line.split(',').count() == columns));
    let columns = trades.lines().next().unwrap().split(',').count();
    assert!(trades.lines().all(|line| line.split(',').count() == columns));
    let of_last = |id: i32| {
        let key = format!(",{id},");
        books.lines().rev().find(|line| line.contains(&key)).map(str::to_owned)
    };
    let book = emulator.truth().books.into_iter().find(|b| !b.bids.is_empty() && b.trades > 0).unwrap();
    let row = of_last(book.security_id).unwrap();
    let best = barewire_sbe::Price9(book.bids[0].price_e9);
    assert!(row.contains(&format!(",{best},{},", book.bids[0].quantity)), "{row}");
}

#[test]
fn live_books_over_sockets_are_the_truth() {
    if !privileged() {
        return;
    }
    let host = barewire_netns::Namespace::anonymous().unwrap();
    host.set_up("lo").unwrap();
    let loss = LineFaults { loss: 0.02, ..LineFaults::default() };
    let config = EmulatorConfig { faults_a: loss, faults_b: loss, ..emulation(21) };
    host.enter(|| {
        let (ready, is_ready) = mpsc::channel();
        std::thread::scope(|scope| {
            // Threads that a thread inside starts are inside.
            let receiver = scope.spawn(|| {
                let plan = plan(&config, sockets("lo"), None);
                let mut handler = FeedHandler::builder(plan).listen(|_, _| Watch::default()).unwrap();
                ready.send(()).unwrap();
                let end = now() + config.active + AFTER + AFTER;
                while now() < end {
                    handler.process(now()).unwrap();
                    std::thread::yield_now();
                }
                handler.into_channels().remove(0).into_parts().0
            });
            is_ready.recv().unwrap();
            let start = now();
            let mut emulator = Emulator::new(config.clone(), start).unwrap();
            let sender = Sender::open(&channel(&config).connections, Some("127.0.0.1")).unwrap();
            sender.run(&mut emulator, start + config.active + AFTER, IdleStrategy::default(), None).unwrap();
            let core = receiver.join().unwrap();
            let differences = emulator.truth().compare(&core, true);
            assert!(differences.is_empty(), "{differences:?}");
            assert!(core.counters().packets > 50);
            // The loops were left when nothing more was to be learned.
            let snapshots = core.line_stats(barewire_feed::Line::new(
                barewire_feed::Feed::Snapshot,
                barewire_feed::LineSide::A,
            ));
            assert!(snapshots.packets > 0 && snapshots.packets < emulator.counts().snapshot_packets);
        });
    })
    .unwrap();
}
