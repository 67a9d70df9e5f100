//! A live feed channel measured where it is received, whoever sends it: from another host's emulator, or from a capture that is played.

use super::probe::{realtime_offset, span};
use super::row::{Base, LATENCY};
use crate::cpu::Charge;
use crate::row::{Measure, Measured, Param, Row, Subject, Unit};
use barewire_base::{Duration, Instant};
use barewire_engine::{CounterKind, EngineConfig, EngineError, EngineLinks, StopFlag};
use barewire_feed::{BookView, ConfigError, Counters, Gap, Listener, RecoveryInfo};
use barewire_feed_handler::{Consumer, FeedChannel, FeedHandler, FeedType, Packet};
use barewire_frame::{ClockDomain, StampSource};
use barewire_measure::{Contention, Histogram, clock_cost, stamp};
use serde_json::{Map, json};

/// More between begin and end than this is a step of the time of day, in ns.
const OFFSET_STEP_NS: i128 = 2_000;

/// Reads the clock when a book is shown, and counts what went wrong.
#[derive(Debug, Default)]
pub struct Heard {
    at: Option<Instant>,
    books: u64,
    gaps: u64,
    lost: u64,
    recoveries_begun: u64,
    recoveries_ended: u64,
}

impl Listener for Heard {
    #[inline]
    fn on_book(&mut self, book: &BookView<'_>) {
        std::hint::black_box((book.bids().first(), book.offers().first()));
        self.at = Some(stamp());
        self.books += 1;
    }

    fn on_gap(&mut self, gap: &Gap) {
        self.gaps += 1;
        self.lost += u64::from(gap.last.wrapping_sub(gap.first)) + 1;
    }

    fn on_recovery_begin(&mut self, _: &RecoveryInfo) {
        self.recoveries_begun += 1;
    }

    fn on_recovery_end(&mut self, _: &RecoveryInfo) {
        self.recoveries_ended += 1;
    }
}

/// A feed channel whose incremental packets are timed.
#[derive(Debug)]
pub struct Timed {
    channel: FeedChannel<Heard>,
    warmup: Duration,
    began: Instant,
    first: Option<Instant>,
    offset: i128,
    app: Histogram,
    stamped: Histogram,
    source: Option<StampSource>,
    copies: u64,
    backwards: u64,
}

impl Timed {
    /// Times the packets of `channel` that come `warmup` after the first or later.
    ///
    /// # Errors
    /// What the channel does not take.
    pub fn new(
        warmup: Duration,
        channel: impl FnOnce(Heard) -> Result<FeedChannel<Heard>, ConfigError>,
    ) -> Result<Timed, ConfigError> {
        let (offset, _) = realtime_offset();
        Ok(Timed {
            channel: channel(Heard::default())?,
            warmup,
            began: stamp(),
            first: None,
            offset,
            app: Histogram::new(),
            stamped: Histogram::new(),
            source: None,
            copies: 0,
            backwards: 0,
        })
    }

    /// The channel with its books.
    pub fn channel(&self) -> &FeedChannel<Heard> {
        &self.channel
    }
}

impl Consumer for Timed {
    #[inline]
    fn on_packet(&mut self, now: Instant, packet: &Packet<'_>) {
        // What a time-out has shown meanwhile is not this packet's.
        self.channel.listener_mut().at = None;
        let t4 = stamp();
        self.copies += 1;
        let first = *self.first.get_or_insert(t4);
        self.channel.on_packet(now, packet);
        let Some(t5) = self.channel.listener_mut().at.take() else { return };
        // A snapshot's books are another thing: they were waited for, not news.
        if packet.line.feed != FeedType::Incremental || t4.since(first) < self.warmup {
            return;
        }
        self.app.record(t5.since(t4).as_nanos());
        let t3 = match packet.stamp.clock {
            ClockDomain::Realtime => i128::from(packet.stamp.ns) - self.offset,
            ClockDomain::Monotonic => i128::from(packet.stamp.ns),
            // A card's clock is not read here: nothing relates it to t5.
            ClockDomain::Nic | ClockDomain::Capture => return,
        };
        self.source = Some(self.source.map_or(packet.stamp.source, |source| source.min(packet.stamp.source)));
        match span(t3, t5, self.began) {
            Some(ns) => self.stamped.record(ns),
            None => self.backwards += 1,
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        self.channel.on_timeout(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.channel.next_deadline()
    }

    fn keep_warm(&mut self, now: Instant) {
        self.channel.keep_warm(now);
    }

    fn feed_channel(&self) -> Option<u32> {
        self.channel.feed_channel()
    }

    fn counts(&self, tell: &mut dyn FnMut(&'static str, &'static str, CounterKind, u64)) {
        self.channel.counts(tell);
    }

    fn wants(&self, feed: FeedType) -> bool {
        self.channel.wants(feed)
    }
}

/// [`FeedHandler::run`] in an engine without links, compiled here: what is measured is not to depend on how its caller is built.
///
/// # Errors
/// As there.
#[inline(never)]
pub fn run(
    handler: FeedHandler<Timed>,
    config: EngineConfig,
    stop: &StopFlag,
) -> Result<FeedHandler<Timed>, EngineError> {
    handler.run(config, EngineLinks::default(), stop)
}

/// What is measured of a feed channel.
const MEASURES: &[Measure] = &[
    // Of incremental packets that changed a book: the last one that did is t5.
    LATENCY,
    // Who took t3. Of application-only rows `none`.
    Measure::word("stamp_source", "stamp"),
    // Packets of all feeds and both lines; incremental ones in order and once; books shown.
    Measure::count("copies", ""),
    Measure::count("packets", "packets"),
    Measure::count("books", "books"),
    // That both lines left, and packets in them.
    Measure::count("gaps", "gaps"),
    Measure::count("lost", "lost"),
    // Packets that waited for their turn.
    Measure::count("held", ""),
    // Times that instruments went into recovery, the first at the start included, and that all of them were good again.
    Measure::count("recoveries_begun", "recoveries"),
    Measure::count("recoveries_ended", "ended"),
    Measure::count("snapshots_applied", "snapshots"),
    Measure::count("resets", ""),
    // Instruments with a book at the end.
    Measure::count("instruments", ""),
    // Packets and messages that were not used, by reason.
    Measure::word("drops", ""),
    // How long it was received.
    Measure::count("seconds", "").in_unit(Unit::None, 0.001),
    // A reading of the clock, of which each span contains about one; how far the wall clock moved against the monotonic one meanwhile.
    Measure::count("clock_ns", "").in_unit(Unit::Ns, 1.0),
    Measure::count("clock_drift_ns", "").in_unit(Unit::Ns, 1.0),
];

/// What is around the channels of one reception.
pub struct Reception {
    begin: Instant,
    offset: i128,
    clock_ns: u64,
    watch: Contention,
    cpu: Charge,
}

impl Reception {
    /// Begins.
    pub fn begin() -> Reception {
        let clock_ns = clock_cost().median_ns;
        let (offset, _) = realtime_offset();
        Reception { begin: stamp(), offset, clock_ns, watch: Contention::start(), cpu: Charge::start() }
    }

    /// Ends: a row for each [`Base`] of each channel. `engine` is what received. The CPU is that of this host's program for each packet of
    /// all feeds, both lines and all channels: the sender's is not known here.
    pub fn end(self, channels: &[Timed], ids: &[u32], engine: &str, command: &str) -> Vec<Row> {
        let seconds = stamp().since(self.begin).as_secs_f64();
        let drift = realtime_offset().0 - self.offset;
        let report = self.watch.finish();
        let copies = channels.iter().map(|timed| timed.copies).sum();
        let used = self.cpu.used().map(|(used, _)| used.of(copies));
        let mut rows = Vec::new();
        for (timed, &id) in channels.iter().zip(ids) {
            for base in [Base::App, Base::Stamp] {
                let run = timed.measured(base, drift).metered(used, None).watched(&report);
                let run = run.number("seconds", seconds).number("clock_ns", self.clock_ns as f64);
                let mut row = Row::of(subject(id, base, engine, command), MEASURES, &[run]);
                let source = timed.source.filter(|_| base == Base::Stamp).map(StampSource::as_str);
                let unknown = if base == Base::App { "none" } else { "unknown" };
                row.set_word("stamp_source", source.unwrap_or(unknown));
                let drops = timed.channel.core().counters().drops();
                row.set_word(
                    "drops",
                    drops.map(|(why, count)| (why.as_str().to_owned(), count.into())).collect::<Map<_, _>>(),
                );
                rows.push(row);
            }
        }
        rows
    }
}

fn subject(feed_channel: u32, base: Base, engine: &str, command: &str) -> Subject {
    Subject {
        bench: "feed",
        system: "barewire".to_owned(),
        engine: Some(engine.to_owned()),
        params: vec![
            Param::quiet("base", json!(base)),
            Param::word("points", base.points()),
            Param::word("what", "book"),
            // What was sent is the sender's business.
            Param::word("workload", "live"),
            Param::word("feed_channel", feed_channel),
        ],
        command: command.to_owned(),
        ..Subject::default()
    }
}

impl Timed {
    /// What was measured between these points, when the wall clock moved by `drift` ns meanwhile.
    fn measured(&self, base: Base, drift: i128) -> Measured {
        let histogram = if base == Base::App { &self.app } else { &self.stamped };
        let (heard, core) = (self.channel.listener(), self.channel.core());
        let counters: &Counters = core.counters();
        let counts = [
            ("copies", self.copies),
            ("packets", counters.packets),
            ("books", heard.books),
            ("gaps", heard.gaps),
            ("lost", heard.lost),
            ("held", counters.held_packets),
            ("recoveries_begun", heard.recoveries_begun),
            ("recoveries_ended", heard.recoveries_ended),
            ("snapshots_applied", counters.snapshots_applied),
            ("resets", counters.resets),
            ("instruments", core.books().count() as u64),
        ];
        let run =
            Measured::default().spans("latency_ns", histogram.clone()).number("clock_drift_ns", drift as f64);
        let mut run = counts.into_iter().fold(run, |run, (key, count)| run.number(key, count as f64));
        run.void = if base == Base::Stamp && drift.abs() > OFFSET_STEP_NS {
            Some("the time of day was set meanwhile".to_owned())
        } else if base == Base::Stamp && self.backwards > 0 {
            Some(format!(
                "the time of day was set meanwhile: {} packets have no true latency",
                self.backwards
            ))
        } else if histogram.samples() == 0 {
            Some(format!("no book changed: {} packets received", self.copies))
        } else {
            None
        };
        run
    }
}
