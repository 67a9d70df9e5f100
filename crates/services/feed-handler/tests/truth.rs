//! The handler's books beside the emulator's truth: over lossy lines, with resets and late joins, live and replayed.

mod common;

use barewire_base::{Duration, Instant, Prng};
use barewire_engine::{IdleStrategy, now};
use barewire_feed::{BookView, Gap, Listener, RecoveryInfo, Trade};
use barewire_feed_handler::emulator::{CaptureWriter, Emulator, EmulatorConfig, LineFaults, Sender, levels};
use barewire_feed_handler::{
    Consumer, CsvExport, FeedChannel, FeedHandler, Input, LineId, Packet, Recovery, Replay, SocketOptions,
};
use barewire_frame::Stamp;
use barewire_port::Speed;
use common::{Folder, channel, emulation, plan, privileged, sockets};
use std::sync::mpsc;

/// Remembers what a book looked like whenever it was shown.
#[derive(Default)]
struct Watch {
    shown:
        Vec<(i32, Vec<barewire_feed_handler::emulator::Level>, Vec<barewire_feed_handler::emulator::Level>)>,
    gaps: u64,
    recoveries: u64,
    trades: u64,
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
    fn on_recovery_end(&mut self, _: &RecoveryInfo) {
        self.recoveries += 1;
    }
}

/// How long the loops go on after the market's end: whatever was lost last is made good.
const AFTER: Duration = Duration::from_millis(600);

/// Runs an emulation through a channel, from `join` on; what the handler has seen.
fn run(config: &EmulatorConfig, recovery: Recovery, join: Duration) -> (Emulator, FeedChannel<Watch>) {
    let start = Instant::from_nanos(1_000_000_000);
    let mut emulator = Emulator::new(config.clone(), start).unwrap();
    let mut plan = channel(config);
    plan.recovery = recovery;
    plan.lost_packet_wait = Duration::from_millis(4);
    let mut channel = FeedChannel::new(&plan, 2048, start + join, Watch::default()).unwrap();
    let end = start + config.active + AFTER;
    let mut time = start;
    while time <= end {
        emulator.next_packets(time, &mut |packet| {
            while let Some(due) = channel.next_deadline().filter(|due| *due <= packet.at) {
                channel.on_timeout(due);
            }
            if packet.at >= start + join {
                let line = LineId { channel: 0, feed: packet.feed, side: packet.side };
                let stamp = Stamp::engine(packet.at);
                channel.on_packet(packet.at, &Packet { line, stamp, payload: packet.payload, frame: None });
            }
        });
        time += Duration::from_millis(1);
    }
    channel.on_timeout(end);
    (emulator, channel)
}

/// What is wrong, if anything.
fn check(emulator: &Emulator, channel: &FeedChannel<Watch>) -> Vec<String> {
    let differences = emulator.truth().compare(channel.core(), true);
    let mut wrong: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if channel.core().is_recovering() {
        wrong.push(format!("still recovering: {:?}", channel.core().recovery_info()));
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

#[test]
fn books_are_the_truth_whatever_is_lost() {
    // As many as a long run asks for.
    let seeds = std::env::var("BAREWIRE_FEED_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let (mut gaps, mut failed) = (0, Vec::new());
    for seed in 1..=seeds {
        let mut prng = Prng::new(seed);
        let loss = [0.001, 0.01, 0.1][seed as usize % 3];
        let config = EmulatorConfig {
            faults_a: faults(loss, &mut prng),
            faults_b: faults(loss, &mut prng),
            conflation: Duration::from_millis([0, 2, 10, 50][seed as usize % 4]),
            prefill: seed % 2 == 0,
            chunk_entries: 1 + prng.below(20) as usize,
            resets: (0..prng.below(3)).map(|_| Duration::from_micros(prng.below(300_000))).collect(),
            history: true,
            ..emulation(seed)
        };
        let join = if seed % 5 == 0 { Duration::ZERO } else { Duration::from_micros(prng.below(200_000)) };
        // Natural refresh beside the snapshots may be first, and must not be wrong.
        let recovery = if seed % 7 == 0 { Recovery::Either } else { Recovery::Snapshot };
        let (emulator, channel) = run(&config, recovery, join);
        let wrong = check(&emulator, &channel);
        if let Some(first) = wrong.first() {
            eprintln!("seed {seed}: {} things, the first: {first}", wrong.len());
            failed.push(seed);
        }
        gaps += channel.listener().gaps;
        assert!(channel.listener().shown.len() > 20, "seed {seed}");
    }
    assert!(failed.is_empty(), "seeds {failed:?} of 1 to {seeds}");
    assert!(gaps > 20, "{gaps} gaps: the lines lose too little");
}

#[test]
fn a_perfect_line_needs_no_recovery_after_the_first() {
    let config = EmulatorConfig { history: true, ..emulation(3) };
    let (emulator, channel) = run(&config, Recovery::Snapshot, Duration::ZERO);
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
    if !privileged("live_books_over_sockets_are_the_truth") {
        return;
    }
    let host = barewire_lab::Namespace::anonymous().unwrap();
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
