//! From words to rows.

use super::live::{self, EngineKind, LiveResult, LiveRun};
use super::mem;
use super::probe::What;
use super::row::{Base, MEASURES, is_stamped, subject};
use super::traffic::{Traffic, Workload};
use crate::awake::{COLD_PAUSE, settle};
use crate::cpu::Charge;
use crate::error::BenchError;
use crate::messages::IdleState;
use crate::row::{Measure, Measured, Row, Subject};
use crate::run;
use barewire_base::Duration;
use barewire_measure::{clock_cost, pin_to_core};
use barewire_netns::TwoHosts;
use serde_json::json;

/// Instruments of a channel, at most.
pub const INSTRUMENTS_MAX: u32 = barewire_feed_emulator::EMULATED_INSTRUMENTS_MAX;
/// Packets of a run, at most.
pub const PACKETS_MAX: usize = 5_000_000;
/// Longest time between two packets.
pub const GAP_MAX: Duration = Duration::from_secs(1);
/// More lost packets than one in so many void a row: it would tell of those that got through.
const LOST_ONE_IN: f64 = 100.0;

const BASES: [(&str, Base); 2] = [("app", Base::App), ("stamp", Base::Stamp)];
const WHATS: [(&str, What); 2] = [("message", What::Message), ("book", What::Book)];

barewire_text::named!(Base, BASES);

barewire_text::named!(What, WHATS);

impl What {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        WHATS.iter().find(|(_, what)| *what == self).map_or("", |(name, _)| name)
    }
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What receives.
    pub engines: Vec<EngineKind>,
    /// Between which points.
    pub bases: Vec<Base>,
    /// Which callbacks.
    pub whats: Vec<What>,
    /// Times between packets.
    pub gaps: Vec<Duration>,
    /// What is sent.
    pub workloads: Vec<Workload>,
    /// Instruments of the channel.
    pub instruments: u32,
    /// Each packet goes by both lines.
    pub both_lines: bool,
    /// The hot path is kept in cache while nothing comes.
    pub keep_warm: bool,
    /// Packets of a run.
    pub packets: usize,
    /// Longest time of a run: with gaps fewer packets are sent.
    pub seconds: Duration,
    /// Runs of each row.
    pub runs: u32,
    /// State of the cores; `None`: all of [`EngineKind::idle_states`], each rows of its own.
    pub idle_state: Option<IdleState>,
    /// Cores of sender and engine.
    pub cores: Option<(usize, usize)>,
    /// Seed of the packets.
    pub seed: u64,
    /// The command, for rows.
    pub command: String,
}

/// What is run at once: a row for each base.
#[derive(Clone, Copy)]
struct Cell {
    engine: EngineKind,
    what: What,
    gap: Duration,
    workload: Workload,
    state: IdleState,
}

impl Request {
    /// What cannot be run, before anything is.
    ///
    /// # Errors
    /// [`BenchError::Plan`] in words.
    pub fn check(&self) -> Result<(), BenchError> {
        let refuse = |why: String| Err(BenchError::Plan(why));
        if self.runs == 0 || self.seconds == Duration::ZERO {
            return refuse("a run needs some time, and there must be one".to_owned());
        }
        if !(1..=PACKETS_MAX).contains(&self.packets) {
            return refuse(format!("`--packets` is 1 to {PACKETS_MAX}"));
        }
        if !(1..=INSTRUMENTS_MAX).contains(&self.instruments) {
            return refuse(format!("`--instruments` is 1 to {INSTRUMENTS_MAX}"));
        }
        if let Some(gap) = self.gaps.iter().find(|gap| **gap > GAP_MAX) {
            return refuse(format!("a gap of {gap:?} is too long: {GAP_MAX:?} at most"));
        }
        if self.engines.iter().all(|engine| *engine == EngineKind::Mem) && self.bases == [Base::Stamp] {
            return refuse("in memory nobody stamps packets: `--base app`, or another engine".to_owned());
        }
        Ok(())
    }

    /// Packets of a run with this gap.
    fn packets(&self, gap: Duration) -> usize {
        match gap.as_nanos() {
            0 => self.packets,
            ns => self.packets.min((self.seconds.as_nanos() / ns).max(1) as usize),
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &workload in &self.workloads {
            for &gap in &self.gaps {
                for &what in &self.whats {
                    for &engine in self.engines.iter().filter(|engine| **engine != EngineKind::Onload) {
                        let states = match &self.idle_state {
                            Some(state) => std::slice::from_ref(state),
                            None => engine.idle_states(),
                        };
                        cells.extend(states.iter().map(|&state| Cell { engine, what, gap, workload, state }));
                    }
                }
            }
        }
        cells
    }

    fn workloads<'a>(
        &'a self,
        hosts: Option<&'a TwoHosts>,
        clock_ns: u64,
    ) -> Vec<Box<dyn run::Workload + 'a>> {
        let of = |cell: Cell| {
            let hosts = hosts.filter(|_| cell.engine.needs_hosts());
            let arrivals = Arrivals { asked: self, cell, hosts, clock_ns, source: None, notes: Vec::new() };
            Box::new(arrivals) as Box<dyn run::Workload + 'a>
        };
        self.cells().into_iter().map(of).collect()
    }

    /// How long all of it takes, about.
    pub fn planned_time(&self) -> Duration {
        run::planned_time(&self.workloads(None, 0), self.runs)
    }

    /// Measures everything, run by run in turns, forth and back: rows, and why cells failed. One that fails is left out of later rounds,
    /// and its rows say so. `keep` gets the rows so far after each round.
    pub fn run(&self, progress: &mut dyn FnMut(String), keep: &mut dyn FnMut(&[Row])) -> run::Outcome {
        let hosts = self.check().and_then(|()| {
            let needed = self.cells().iter().any(|cell| cell.engine.needs_hosts());
            needed.then(live::hosts).transpose()
        });
        match hosts {
            Ok(hosts) => {
                let mut all = self.workloads(hosts.as_ref(), clock_cost().median_ns);
                run::interleave(&mut all, self.runs, progress, keep)
            }
            Err(error) => (Vec::new(), vec![error]),
        }
    }
}

/// Packets that arrive by one engine: a row for each base.
struct Arrivals<'a> {
    asked: &'a Request,
    cell: Cell,
    hosts: Option<&'a TwoHosts>,
    clock_ns: u64,
    /// Who took t3.
    source: Option<&'static str>,
    /// What sources counted as lost.
    notes: Vec<String>,
}

impl Arrivals<'_> {
    fn bases(&self) -> impl Iterator<Item = Base> {
        let stamped = self.cell.engine != EngineKind::Mem;
        self.asked.bases.iter().copied().filter(move |base| *base == Base::App || stamped)
    }

    /// On a thread of its own, so that pinning it does not pin the caller.
    fn in_memory(&self, traffic: &Traffic, cpu: &Charge) -> Result<LiveResult, BenchError> {
        let Request { cores, instruments, keep_warm, .. } = *self.asked;
        let body = || {
            if let Some((_, core)) = cores {
                pin_to_core(core).map_err(BenchError::io(format!("pinning to core {core}")))?;
            }
            mem::run(self.cell.what, self.cell.gap, instruments, keep_warm, traffic, cpu)
        };
        let (spans, sent_pps, contention) = std::thread::scope(|scope| scope.spawn(body).join())
            .unwrap_or_else(|_| Err(BenchError::Plan("the thread that measures panicked".to_owned())))?;
        let sent = traffic.len() as u64;
        Ok(LiveResult { spans, sent, sent_pps, drops: Vec::new(), contention, void: None })
    }
}

impl run::Workload for Arrivals<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let (asked, cell) = (self.asked, &self.cell);
        let of = |base: Base| {
            let values = [
                json!(base),
                json!(base.points()),
                json!(cell.what.as_str()),
                json!(cell.gap.as_nanos() / 1000),
                json!(cell.workload.to_string()),
                json!(asked.instruments),
                json!(if asked.both_lines { "ab" } else { "a" }),
                json!(asked.keep_warm),
            ];
            Subject {
                idle_state: Some(cell.state),
                ..subject(&cell.engine.to_string(), values, &asked.command)
            }
        };
        self.bases().map(of).collect()
    }

    fn title(&self) -> String {
        let Cell { engine, what, gap, workload, state } = self.cell;
        let (what, us) = (what.as_str(), gap.as_nanos() / 1000);
        format!("{engine}, {what}, {us} us gaps, {workload}, {}", state.word())
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        let gap = self.cell.gap;
        let pause = if self.cell.state == IdleState::Cold { COLD_PAUSE } else { Duration::ZERO };
        Duration::from_nanos(gap.as_nanos() * self.asked.packets(gap) as u64) + Duration::from_secs(1) + pause
    }

    fn slice(&mut self, round: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError> {
        let (asked, cell) = (self.asked, self.cell);
        // All engines of a round get the same packets.
        let (packets, seed) = (asked.packets(cell.gap), asked.seed + u64::from(round));
        let traffic = Traffic::make(cell.workload, asked.instruments, packets, seed)?;
        // The sender polls, and so does an engine that never sleeps: their cores need nobody who keeps them awake.
        let engine: Vec<usize> = asked.cores.map_or(vec![], |(_, engine)| vec![engine]);
        let asleep = cell.state == IdleState::Cold || cell.engine.sleeps();
        let awake = asleep.then(|| settle(cell.state, &engine)).transpose()?;
        let result = match self.hosts {
            None => self.in_memory(&traffic, cpu)?,
            Some(hosts) => live::run(
                &LiveRun {
                    engine: cell.engine,
                    what: cell.what,
                    gap: cell.gap,
                    both_lines: asked.both_lines,
                    instruments: asked.instruments,
                    keep_warm: asked.keep_warm,
                    traffic: &traffic,
                    cores: asked.cores,
                    cpu,
                },
                hosts,
            )?,
        };
        self.notes.extend(result.drops.iter().map(|(name, count)| format!("{name} {count}")));
        let contention = match &awake {
            Some(awake) => awake.judged(result.contention.clone(), &[]),
            None => result.contention.clone(),
        };
        let spans = &result.spans;
        self.source = spans.source.map(|source| source.as_str()).or(self.source);
        let unused = (result.lost() == 0 && spans.dropped > 0)
            .then(|| format!("{} packets, messages or entries were not used", spans.dropped));
        let of = |base: Base| {
            let histogram = if base == Base::App { &spans.app } else { &spans.stamp };
            let mut measured = Measured::default()
                .operations(result.sent.saturating_sub(traffic.warmup() as u64))
                .spans("latency_ns", histogram.clone())
                .number("sent", result.sent as f64)
                .number("lost", result.lost() as f64)
                .number("sent_pps", result.sent_pps)
                .number("mean_bytes", traffic.mean_bytes())
                .watched(&contention);
            if let Some(median) = histogram.quantile(0.5).value() {
                measured = measured.number("median_ns", median as f64);
            }
            measured.void = unused.clone().or_else(|| result.void.clone());
            measured
        };
        Ok(self.bases().map(of).collect())
    }

    fn judge(&self, row: &mut Row) {
        let source = self.source.filter(|_| is_stamped(row));
        row.set_word("stamp_source", source.unwrap_or("none"));
        row.set("clock_ns", self.clock_ns as f64);
        row.notes.splice(0..0, self.notes.iter().cloned());
        if !self.asked.keep_warm {
            row.notes.insert(0, "not kept warm".to_owned());
        }
        let [sent, lost] = ["sent", "lost"].map(|key| row.number(key).unwrap_or_default());
        if lost > 0.0 {
            row.notes.push(format!("{lost} of {sent} packets lost"));
        }
        if lost * LOST_ONE_IN > sent {
            row.void.get_or_insert_with(|| "more than one packet in a hundred was lost".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn request() -> Request {
        Request {
            engines: vec![EngineKind::Mem],
            bases: vec![Base::App, Base::Stamp],
            whats: vec![What::Message, What::Book],
            gaps: vec![Duration::ZERO, Duration::from_micros(20)],
            workloads: vec![Workload::OneEntry, Workload::Channel],
            instruments: 20,
            both_lines: false,
            keep_warm: true,
            packets: 300,
            seconds: Duration::from_secs(1),
            runs: 2,
            idle_state: None,
            cores: None,
            seed: 1,
            command: "barewire bench feed".to_owned(),
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_first() {
        let why = |change: fn(&mut Request)| {
            let mut request = request();
            change(&mut request);
            request.check().unwrap_err().to_string()
        };
        assert!(why(|r| r.runs = 0).contains("must be one"));
        assert!(why(|r| r.packets = 0).contains("--packets"));
        assert!(why(|r| r.instruments = 1_000_000).contains("--instruments"));
        assert!(why(|r| r.gaps = vec![Duration::from_secs(2)]).contains("too long"));
        assert!(why(|r| r.bases = vec![Base::Stamp]).contains("nobody stamps"));
        assert!(request().check().is_ok());
        assert!("ap".parse::<Base>().unwrap_err().contains("did you mean `app`?"));
        assert!("books".parse::<What>().unwrap_err().contains("did you mean `book`?"));
    }

    #[test]
    fn gaps_shorten_a_run_to_its_time() {
        let mut request = request();
        request.packets = 1_000_000;
        assert_eq!(request.packets(Duration::ZERO), 1_000_000);
        assert_eq!(request.packets(Duration::from_millis(5)), 200);
        assert_eq!(request.packets(Duration::from_secs(5)), 1);
    }

    #[test]
    fn memory_gives_a_row_for_each_pace_and_callback() {
        let mut told = 0;
        let (rows, failures) = request().run(&mut |_| told += 1, &mut |_| {});
        assert!(failures.is_empty(), "{failures:?}");
        // Two workloads, two gaps, two callbacks; nobody stamps in memory.
        assert_eq!((rows.len(), told), (8, 16));
        for row in &rows {
            assert!(row.void.is_none() && !is_stamped(row), "{row:?}");
            assert_eq!((row.number("lost"), row.word("stamp_source")), (Some(0.0), Some("none")), "{row:?}");
            let json = serde_json::to_value(row).unwrap();
            let of_runs: u64 =
                json["runs"].as_array().unwrap().iter().filter_map(|r| r["samples"].as_u64()).sum();
            assert_eq!((row.runs.len(), json["samples"].as_u64()), (2, Some(of_runs)));
            let latency = |stat| row.stat("latency_ns", stat);
            assert!(latency("min") <= latency("median") && latency("median") <= latency("max"), "{row:?}");
            assert!(latency("p99").is_none(), "600 samples do not carry it");
            if row.param("workload").as_deref() == Some("one-entry") {
                assert_eq!(of_runs, 600);
            }
        }
    }

    #[test]
    fn a_row_has_the_keys_that_scripts_read() {
        let one = Request { bases: vec![Base::App], whats: vec![What::Book], ..request() };
        let (rows, _) = one.run(&mut |_| {}, &mut |_| {});
        let json = serde_json::to_value(&rows[0]).unwrap();
        for key in [
            "system",
            "engine",
            "base",
            "points",
            "what",
            "gap_us",
            "workload",
            "instruments",
            "lines",
            "keep_warm",
            "mean_bytes",
            "samples",
            "latency_ns",
            "stamp_source",
            "sent",
            "lost",
            "sent_pps",
            "clock_ns",
            "runs",
            "contended",
            "contention",
            "notes",
            "command",
        ] {
            assert!(!json[key].is_null(), "{key}: {json}");
        }
        for key in ["min", "median", "mean", "max"] {
            assert!(json["latency_ns"][key].is_number(), "{key}: {json}");
        }
        for key in ["samples", "median_ns", "latency_ns", "sent_pps", "lost", "contended"] {
            assert!(!json["runs"][1][key].is_null(), "{key}: {json}");
        }
        assert!(json["clock_ns"].is_u64() && json["sent"].is_u64() && json["runs"][0]["median_ns"].is_u64());
    }
}
