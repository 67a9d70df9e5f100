//! From words to rows.

use super::live::{self, EngineKind, LiveRun};
use super::mem;
use super::probe::{Spans, What};
use super::row::{Base, FeedLatency, FeedRow, FeedRun};
use super::traffic::{Traffic, Workload};
use crate::error::{BenchError, go_on};
use crate::histograms::Histograms;
use crate::rounds::{median, turns};
use barewire_base::Duration;
use barewire_lab::TwoHosts;
use barewire_measure::{ContentionReport, Histogram, clock_cost, pin_to_core};
use std::str::FromStr;

/// Instruments of a channel, at most.
pub const INSTRUMENTS_MAX: u32 = barewire_feed_handler::emulator::EMULATED_INSTRUMENTS_MAX;
/// Packets of a run, at most.
pub const PACKETS_MAX: usize = 5_000_000;
/// Longest time between two packets.
pub const GAP_MAX: Duration = Duration::from_secs(1);
/// More lost packets than one in so many void a row: it would tell of those that got through.
const LOST_ONE_IN: u64 = 100;

const BASES: [(&str, Base); 2] = [("app", Base::App), ("stamp", Base::Stamp)];
const WHATS: [(&str, What); 2] = [("message", What::Message), ("book", What::Book)];

impl FromStr for Base {
    type Err = String;

    fn from_str(text: &str) -> Result<Base, String> {
        crate::words::word(text, &BASES)
    }
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<What, String> {
        crate::words::word(text, &WHATS)
    }
}

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
    /// The channel rehearses while nothing comes.
    pub keep_warm: bool,
    /// Packets of a run.
    pub packets: usize,
    /// Longest time of a run: with gaps fewer packets are sent.
    pub seconds: Duration,
    /// Runs of each row.
    pub runs: u32,
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
}

/// Runs of a cell, put together.
#[derive(Default)]
struct Sum {
    app: Histogram,
    stamp: Histogram,
    source: Option<&'static str>,
    sent: u64,
    lost: u64,
    mean_bytes: f64,
    runs: [Vec<FeedRun>; 2],
    histograms: [Histograms; 2],
    contention: Vec<String>,
    notes: Vec<String>,
    void: Option<String>,
    broken_off: Option<String>,
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
                        cells.push(Cell { engine, what, gap, workload });
                    }
                }
            }
        }
        cells
    }

    /// How long all of it takes, about.
    pub fn planned_time(&self) -> Duration {
        let each = |cell: &Cell| {
            let paced = Duration::from_nanos(cell.gap.as_nanos() * self.packets(cell.gap) as u64);
            paced + Duration::from_secs(1)
        };
        let round = self.cells().iter().map(each).fold(Duration::ZERO, |a, b| a + b);
        round.saturating_mul(self.runs.into())
    }

    /// Measures everything, run by run in turns, forth and back: rows, and why cells failed. One that fails is left out of later rounds,
    /// and its rows say so.
    pub fn run(&self, progress: &mut dyn FnMut(String)) -> (Vec<FeedRow>, Vec<BenchError>) {
        let cells = self.cells();
        let mut sums: Vec<Sum> = cells.iter().map(|_| Sum::default()).collect();
        let mut failures = Vec::new();
        let given_up = self.run_into(&cells, &mut sums, &mut failures, progress).err();
        failures.extend(given_up);
        let clock_ns = clock_cost().median_ns;
        let rows = cells.iter().zip(sums).filter(|(_, sum)| !sum.runs[0].is_empty());
        (rows.flat_map(|(cell, sum)| self.rows_of(cell, &sum, clock_ns)).collect(), failures)
    }

    fn run_into(
        &self,
        cells: &[Cell],
        sums: &mut [Sum],
        failures: &mut Vec<BenchError>,
        progress: &mut dyn FnMut(String),
    ) -> Result<(), BenchError> {
        self.check()?;
        let hosts = match cells.iter().any(|cell| cell.engine.needs_hosts()) {
            true => Some(live::hosts()?),
            false => None,
        };
        self.rounds(cells, sums, failures, progress, &mut |cell, round, sum| {
            self.run_once(cell, hosts.as_ref(), round, sum)
        })
    }

    /// Runs all cells in turns by `once`.
    fn rounds(
        &self,
        cells: &[Cell],
        sums: &mut [Sum],
        failures: &mut Vec<BenchError>,
        progress: &mut dyn FnMut(String),
        once: &mut dyn FnMut(&Cell, u64, &mut Sum) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        for round in 0..self.runs {
            for at in turns(round, cells.len()) {
                let (cell, sum) = (&cells[at], &mut sums[at]);
                if sum.broken_off.is_some() {
                    continue;
                }
                go_on()?;
                progress(format!(
                    "run {} of {}: {}, {}, {} us gaps, {}",
                    round + 1,
                    self.runs,
                    cell.engine,
                    cell.what.as_str(),
                    cell.gap.as_nanos() / 1000,
                    cell.workload
                ));
                match once(cell, u64::from(round), sum) {
                    Ok(()) => {}
                    Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                    // What an interruption ends has not failed: the rounds before it count.
                    Err(_) if crate::interrupted() => return Err(BenchError::Interrupted),
                    Err(error) => {
                        sum.broken_off = Some(format!("run {} of {} failed: {error}", round + 1, self.runs));
                        failures.push(error);
                    }
                }
            }
        }
        Ok(())
    }

    fn run_once(
        &self,
        cell: &Cell,
        hosts: Option<&TwoHosts>,
        round: u64,
        sum: &mut Sum,
    ) -> Result<(), BenchError> {
        // All engines of a round get the same packets.
        let traffic =
            Traffic::make(cell.workload, self.instruments, self.packets(cell.gap), self.seed + round)?;
        sum.mean_bytes = (traffic.mean_bytes() * 10.0).round() / 10.0;
        let Some(hosts) = hosts.filter(|_| cell.engine.needs_hosts()) else {
            let (spans, pps, contention) = self.in_memory(cell, &traffic)?;
            let sent = traffic.len() as u64;
            sum.take(&spans, sent, pps, &contention, None);
            return Ok(());
        };
        let result = live::run(
            &LiveRun {
                engine: cell.engine,
                what: cell.what,
                gap: cell.gap,
                both_lines: self.both_lines,
                instruments: self.instruments,
                keep_warm: self.keep_warm,
                traffic: &traffic,
                cores: self.cores,
            },
            hosts,
        )?;
        for (name, count) in &result.drops {
            sum.notes.push(format!("{name} {count}"));
        }
        sum.take(&result.spans, result.sent, result.sent_pps, &result.contention, result.void.clone());
        Ok(())
    }

    /// On a thread of its own, so that pinning it does not pin the caller.
    fn in_memory(
        &self,
        cell: &Cell,
        traffic: &Traffic,
    ) -> Result<(Spans, f64, ContentionReport), BenchError> {
        let body = || {
            if let Some((_, core)) = self.cores {
                pin_to_core(core).map_err(BenchError::io(format!("pinning to core {core}")))?;
            }
            mem::run(cell.what, cell.gap, self.instruments, self.keep_warm, traffic)
        };
        std::thread::scope(|scope| scope.spawn(body).join())
            .unwrap_or_else(|_| Err(BenchError::Plan("the thread that measures panicked".to_owned())))
    }

    fn rows_of(&self, cell: &Cell, sum: &Sum, clock_ns: u64) -> Vec<FeedRow> {
        let mut rows = Vec::new();
        for &base in &self.bases {
            let (histogram, runs, histograms) = match base {
                Base::App => (&sum.app, &sum.runs[0], &sum.histograms[0]),
                Base::Stamp if cell.engine == EngineKind::Mem => continue,
                Base::Stamp => (&sum.stamp, &sum.runs[1], &sum.histograms[1]),
            };
            let mut notes = sum.notes.clone();
            let (latency_ns, together) = FeedLatency::of_runs(runs, histogram);
            notes.extend(together);
            if sum.lost > 0 {
                notes.push(format!("{} of {} packets lost", sum.lost, sum.sent));
            }
            let too_many = sum.lost * LOST_ONE_IN > sum.sent;
            let lost = too_many.then(|| "more than one packet in a hundred was lost".to_owned());
            let rates = runs.iter().map(|run| run.sent_pps);
            rows.push(FeedRow {
                system: "barewire".to_owned(),
                engine: cell.engine.to_string(),
                base,
                points: base.points().to_owned(),
                what: cell.what.as_str().to_owned(),
                gap_us: cell.gap.as_nanos() / 1000,
                workload: cell.workload.to_string(),
                instruments: self.instruments,
                lines: if self.both_lines { "ab" } else { "a" }.to_owned(),
                keep_warm: self.keep_warm,
                mean_bytes: sum.mean_bytes,
                samples: histogram.samples(),
                latency_ns,
                stamp_source: match base {
                    Base::App => "none",
                    Base::Stamp => sum.source.unwrap_or("none"),
                }
                .to_owned(),
                sent: sum.sent,
                lost: sum.lost,
                sent_pps: median(rates).unwrap_or_default().round(),
                clock_ns,
                runs: runs.clone(),
                contended: runs.iter().any(|run| run.contended),
                contention: sum.contention.clone(),
                notes,
                void: sum.void.clone().or(lost),
                broken_off: sum.broken_off.clone(),
                command: self.command.clone(),
                histograms: histograms.clone(),
            });
        }
        rows
    }
}

impl Sum {
    fn take(
        &mut self,
        spans: &Spans,
        sent: u64,
        sent_pps: f64,
        contention: &ContentionReport,
        void: Option<String>,
    ) {
        let lost = sent.saturating_sub(spans.packets);
        let of_bases = [&spans.app, &spans.stamp].into_iter().zip(&mut self.runs).zip(&mut self.histograms);
        for ((histogram, runs), histograms) in of_bases {
            histograms.push("latency", histogram);
            runs.push(FeedRun {
                samples: histogram.samples(),
                median_ns: histogram.quantile(0.5).value(),
                latency_ns: FeedLatency::of(histogram),
                sent_pps: sent_pps.round(),
                lost,
                contended: contention.contended,
                void: void.clone(),
            });
        }
        self.app.merge(&spans.app);
        self.stamp.merge(&spans.stamp);
        self.source = spans.source.map(|source| source.as_str()).or(self.source);
        self.sent += sent;
        self.lost += lost;
        if lost == 0 && spans.dropped > 0 {
            self.void.get_or_insert(format!("{} packets, messages or entries were not used", spans.dropped));
        }
        for reason in &contention.reasons {
            if !self.contention.contains(reason) {
                self.contention.push(reason.clone());
            }
        }
        self.void = self.void.take().or(void);
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
    fn a_cell_that_fails_takes_no_other_with_it_and_its_rows_say_so() {
        let request = Request { runs: 3, ..request() };
        let cells = request.cells();
        let (mut sums, mut failures) = (cells.iter().map(|_| Sum::default()).collect::<Vec<_>>(), Vec::new());
        let mut order = Vec::new();
        let mut once = |cell: &Cell, round: u64, sum: &mut Sum| {
            let at = cells.iter().position(|c| std::ptr::eq(c, cell)).unwrap();
            order.push((round, at));
            if (round, at) == (1, 2) {
                return Err(BenchError::Plan("the wire is gone".to_owned()));
            }
            let mut spans = Spans::default();
            spans.app.record_n(1_000, 50);
            let quiet = barewire_measure::Contention::start().finish();
            sum.take(&spans, 0, 1.0, &quiet, None);
            Ok(())
        };
        request.rounds(&cells, &mut sums, &mut failures, &mut |_| {}, &mut once).unwrap();
        let round =
            |n: u64| order.iter().filter(|(round, _)| *round == n).map(|(_, at)| *at).collect::<Vec<_>>();
        let all: Vec<usize> = (0..cells.len()).collect();
        assert_eq!((round(0), round(1)), (all.clone(), all.iter().rev().copied().collect()));
        assert!(!round(2).contains(&2) && round(2).len() == cells.len() - 1);
        assert_eq!(failures.len(), 1);
        let rows: Vec<FeedRow> =
            cells.iter().zip(&sums).flat_map(|(cell, sum)| request.rows_of(cell, sum, 0)).collect();
        for (at, row) in rows.iter().enumerate() {
            let (runs, why) =
                if at == 2 { (1, Some("run 2 of 3 failed: the wire is gone")) } else { (3, None) };
            assert_eq!((row.runs.len(), row.broken_off.as_deref()), (runs, why));
        }
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
        let (rows, failures) = request().run(&mut |_| told += 1);
        assert!(failures.is_empty(), "{failures:?}");
        // Two workloads, two gaps, two callbacks; nobody stamps in memory.
        assert_eq!((rows.len(), told), (8, 16));
        for row in &rows {
            assert_eq!((row.base, row.void.as_deref(), row.lost), (Base::App, None, 0), "{row:?}");
            assert_eq!(row.stamp_source, "none");
            let of_runs: u64 = row.runs.iter().map(|run| run.samples).sum();
            assert_eq!((row.runs.len(), row.samples), (2, of_runs));
            let latency = row.latency_ns;
            assert!(latency.min <= latency.median && latency.median <= latency.max, "{latency:?}");
            assert!(latency.p99.is_none(), "600 samples do not carry it");
        }
        let one_entry: Vec<&FeedRow> = rows.iter().filter(|row| row.workload == "one-entry").collect();
        assert!(one_entry.iter().all(|row| row.samples == 600));
        assert!(one_entry[0].same_but_engine(one_entry[0]) && !one_entry[0].same_but_engine(one_entry[1]));
    }
}
