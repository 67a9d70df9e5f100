//! A live feed channel measured where it is received, whoever sends it: from another host's emulator, or from a capture that is played.

use super::probe::{realtime_offset, span};
use super::row::{Base, FeedLatency};
use crate::cpu::{Charge, CpuPerOp, per_op};
use barewire_base::{Duration, Instant};
use barewire_engine::{CounterKind, EngineConfig, EngineError, EngineLinks, StopFlag};
use barewire_feed::{BookView, ConfigError, Counters, Gap, Listener, RecoveryInfo};
use barewire_feed_handler::{Consumer, FeedChannel, FeedHandler, FeedType, Packet};
use barewire_frame::{ClockDomain, StampSource};
use barewire_measure::{Contention, ContentionReport, Histogram, clock_cost, stamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// One row: a feed channel between two points. A channel gives one for each [`Base`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceivedRow {
    /// `barewire`.
    pub system: String,
    /// `socket`, or the ports' scheme.
    pub engine: String,
    /// Between which points.
    pub base: Base,
    /// The same as points: `t4..t5`.
    pub points: String,
    /// `book`: the last book of an incremental packet is t5.
    pub what: String,
    /// `live`: what was sent is the sender's business.
    pub workload: String,
    /// The exchange's number of the feed channel.
    pub feed_channel: u32,
    /// Instruments with a book at the end.
    pub instruments: usize,
    /// Incremental packets that changed a book, and were timed.
    pub samples: u64,
    /// The spans.
    pub latency_ns: FeedLatency,
    /// Who took t3. Of application-only rows `none`.
    pub stamp_source: String,
    /// How long it was received.
    pub seconds: f64,
    /// Packets of all feeds and both lines.
    pub copies: u64,
    /// Incremental packets in order and once.
    pub packets: u64,
    /// Books shown.
    pub books: u64,
    /// Gaps that both lines left.
    pub gaps: u64,
    /// Packets in them.
    pub lost: u64,
    /// Packets that waited for their turn.
    pub held: u64,
    /// Times that instruments went into recovery, the first at the start included.
    pub recoveries_begun: u64,
    /// Times that all of them were good again.
    pub recoveries_ended: u64,
    /// Books set from snapshots.
    pub snapshots_applied: u64,
    /// Channel and sequence resets.
    pub resets: u64,
    /// Packets and messages that were not used, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Cost of one reading of the clock, in ns; each span contains about one.
    pub clock_ns: u64,
    /// How far the wall clock moved against the monotonic one meanwhile, in ns.
    pub clock_drift_ns: i64,
    /// CPU of this host's program for each packet of all feeds, both lines and all channels, in ns: the sender's is not known here.
    #[serde(default)]
    pub cpu_ns_per_op: Option<f64>,
    /// Its parts, and how many cores were busy.
    #[serde(default)]
    pub cpu: Option<CpuPerOp>,
    /// Others on our cores.
    pub contended: bool,
    /// Why.
    pub contention: Vec<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// The exact command that produced the row.
    pub command: String,
    /// `latency`: HDR histograms in base64, where they were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub histograms: BTreeMap<String, String>,
}

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

    /// Ends: two rows for each channel. `engine` is what received.
    pub fn end(
        self,
        channels: &[Timed],
        ids: &[u32],
        engine: &str,
        with_histograms: bool,
        command: &str,
    ) -> Vec<ReceivedRow> {
        let seconds = stamp().since(self.begin).as_secs_f64();
        let drift = realtime_offset().0 - self.offset;
        let report = self.watch.finish();
        let copies = channels.iter().map(|timed| timed.copies).sum();
        let used = self.cpu.used().map(|(used, _)| used.of(copies));
        let around = Around {
            cpu: per_op([used.as_ref()].into_iter()),
            seconds: (seconds * 1e3).round() / 1e3,
            drift,
            clock_ns: self.clock_ns,
            report: &report,
            engine,
            with_histograms,
            command,
        };
        let bases = [Base::App, Base::Stamp];
        channels
            .iter()
            .zip(ids)
            .flat_map(|(timed, &id)| bases.map(|base| row(timed, id, base, &around)))
            .collect()
    }
}

struct Around<'a> {
    cpu: (Option<f64>, Option<CpuPerOp>),
    seconds: f64,
    drift: i128,
    clock_ns: u64,
    report: &'a ContentionReport,
    engine: &'a str,
    with_histograms: bool,
    command: &'a str,
}

fn row(timed: &Timed, feed_channel: u32, base: Base, around: &Around<'_>) -> ReceivedRow {
    let histogram = if base == Base::App { &timed.app } else { &timed.stamped };
    let (heard, core) = (timed.channel.listener(), timed.channel.core());
    let counters: &Counters = core.counters();
    let void = if base == Base::Stamp && around.drift.abs() > OFFSET_STEP_NS {
        Some("the time of day was set meanwhile".to_owned())
    } else if base == Base::Stamp && timed.backwards > 0 {
        Some(format!("the time of day was set meanwhile: {} packets have no true latency", timed.backwards))
    } else if histogram.samples() == 0 {
        Some(format!("no book changed: {} packets received", timed.copies))
    } else {
        None
    };
    let histograms = match around.with_histograms {
        true => BTreeMap::from([("latency".to_owned(), histogram.to_base64())]),
        false => BTreeMap::new(),
    };
    ReceivedRow {
        system: "barewire".to_owned(),
        engine: around.engine.to_owned(),
        base,
        points: base.points().to_owned(),
        what: "book".to_owned(),
        workload: "live".to_owned(),
        feed_channel,
        instruments: core.books().count(),
        samples: histogram.samples(),
        latency_ns: FeedLatency::of(histogram),
        stamp_source: match (base, timed.source) {
            (Base::App, _) => "none".to_owned(),
            (_, source) => source.map_or("unknown", StampSource::as_str).to_owned(),
        },
        seconds: around.seconds,
        copies: timed.copies,
        packets: counters.packets,
        books: heard.books,
        gaps: heard.gaps,
        lost: heard.lost,
        held: counters.held_packets,
        recoveries_begun: heard.recoveries_begun,
        recoveries_ended: heard.recoveries_ended,
        snapshots_applied: counters.snapshots_applied,
        resets: counters.resets,
        drops: counters.drops().map(|(reason, count)| (reason.as_str().to_owned(), count)).collect(),
        clock_ns: around.clock_ns,
        clock_drift_ns: around.drift.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
        cpu_ns_per_op: around.cpu.0,
        cpu: around.cpu.1,
        contended: around.report.contended,
        contention: around.report.reasons.clone(),
        void,
        command: around.command.to_owned(),
        histograms,
    }
}

impl crate::BenchRow for ReceivedRow {
    fn bench(&self) -> &'static str {
        "feed"
    }

    fn void(&self) -> Option<&str> {
        self.void.as_deref()
    }
}

/// A row in two lines.
pub fn text(row: &ReceivedRow) -> String {
    use crate::render::percentile;
    let l = &row.latency_ns;
    let mut out = format!(
        "channel {} {} over {} ({} stamps): p50 {}, p95 {}, p99 {}, p99.9 {}, {} samples\n    {} packets, {} books, {} gaps ({} \
         packets), {} of {} recoveries ended, {} books from snapshots",
        row.feed_channel,
        row.points,
        row.engine,
        row.stamp_source,
        percentile(l.median, 0.5),
        percentile(l.p95, 0.95),
        percentile(l.p99, 0.99),
        percentile(l.p99_9, 0.999),
        row.samples,
        row.packets,
        row.books,
        row.gaps,
        row.lost,
        row.recoveries_ended,
        row.recoveries_begun,
        row.snapshots_applied,
    );
    if let (Some(ns), Some(cpu)) = (row.cpu_ns_per_op, &row.cpu) {
        let cost = crate::render::latency(ns as u64);
        out.push_str(&format!(", CPU {cost} for each packet, {:.1} cores busy", cpu.cores));
    }
    for why in &row.contention {
        out.push_str(&format!("\n    contended: {why}"));
    }
    if let Some(why) = &row.void {
        out.push_str(&format!("\n    VOID: {why}"));
    }
    out
}
