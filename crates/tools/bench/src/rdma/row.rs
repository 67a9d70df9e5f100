//! What rows about RDMA connections have.

use super::live::LiveResult;
use super::sockets::Sockets;
use super::tcp;
use super::windows::span;
use super::wires::Shape;
use crate::render::LITTLE_TOLERANCE;
use crate::row::{Measure, Measured, Param, Row, SPANS, Unit};
use crate::wall_clock::WallTime;
use barewire_measure::{Histogram, little_law_check};

/// Keys of the steps, in their order: completion queue, queue pair and the call that asks for the connection; from there until the REP was
/// handled, and the queue pair can send; until the RTU has left; until one byte was written to the server's memory and acknowledged; from the
/// call that closes until the DREP was handled; queue pair and completion queue destroyed.
const STEPS: [&str; 6] = [
    "steps_ns.create",
    "steps_ns.req_to_rep",
    "steps_ns.rtu",
    "steps_ns.first_byte",
    "steps_ns.disconnect",
    "steps_ns.destroy",
];

/// Spans of the steps, in the order of `STEPS`.
pub type StepSpans = [Histogram; 6];

const fn step(at: usize, head: &'static str) -> Measure {
    Measure::spans(STEPS[at], "a step of one connection after the other", SPANS).headed(head)
}

/// What is measured. Connections with their closing are what CPU is divided by.
pub(crate) const MEASURES: &[Measure] = &[
    Measure::rate("connections_per_s", "conn/s", "connections"),
    // From the first call of a connection until it can send.
    Measure::spans("latency_ns", "latency", SPANS),
    // Rate times mean time to connect, divided by the connections in flight (Little's law). 1 when times and rate agree; with teardown
    // less, as those that are being closed are in flight, too, and never more.
    Measure::count("little", "").neutral().in_unit(Unit::None, 0.001),
    step(0, "create"),
    step(1, "REQ to REP"),
    step(2, "RTU"),
    step(3, "first byte"),
    step(4, "DREQ to DREP"),
    step(5, "destroy"),
    // That left both ends.
    Measure::count("frames_per_connection", "frames").neutral().in_unit(Unit::None, 0.01),
    // Of the connection manager's size, that the port carries one way.
    Measure::rate("port_frames_per_s", "port/s", "port frames"),
    // Resident memory of each queue pair that stayed open, on each side.
    Measure::count("bytes_per_live_qp", "B/QP").neutral().in_unit(Unit::Bytes, 1.0),
    Measure::count("opened", ""),
    Measure::count("failed", ""),
    // In which they were counted.
    Measure::count("seconds", "").in_unit(Unit::None, 0.001),
    // Of all connections in flight, in which the kernel's stood still.
    Measure::count("stalled_s", "").in_unit(Unit::None, 0.001),
];

/// What a row was asked for. The kernel has no completion queues.
pub(super) fn params(
    shape: Shape,
    window: u32,
    teardown: bool,
    live: u64,
    own_cq: Option<bool>,
) -> Vec<Param> {
    vec![
        Param::word("threads", shape.threads),
        Param::usually("hosts", shape.hosts, 1),
        Param::usually("nics", shape.nics, 1),
        Param::word("window", window),
        Param::usually("teardown", teardown, true),
        Param::usually("live_qps", live, 0),
        Param::usually("own_cq", own_cq.unwrap_or_default(), own_cq.is_some()),
    ]
}

impl LiveResult {
    /// The run as rows have it.
    pub(super) fn measured(&self) -> Measured {
        let mut measured = Measured::default()
            .metered(self.cpu, self.other_end.clone())
            .number("connections_per_s", self.per_s)
            .number("opened", self.connections as f64)
            .number("failed", self.failed as f64)
            .number("seconds", self.seconds)
            .number("stalled_s", self.stalled_s)
            .spans("latency_ns", self.latency.clone());
        for (key, value) in [
            ("frames_per_connection", self.frames_per_connection),
            ("bytes_per_live_qp", self.bytes_per_live_qp),
        ] {
            measured = value.into_iter().fold(measured, |measured, value| measured.number(key, value));
        }
        for (key, spans) in STEPS.iter().zip(self.steps.iter().flatten()) {
            measured = measured.spans(key, spans.clone());
        }
        measured = self.contention.iter().fold(measured, Measured::watched);
        measured.void = self.void();
        measured.when = self.windows.as_deref().and_then(span).map(|(from, to)| WallTime::of(from, to));
        measured
    }
}

/// Share of connections that may fail before a row is void: those that failed are in no time and no rate.
pub const FAILED_MAX: f64 = 0.01;

/// Says of a row with so many connections in flight what its figures say of each other. `teardown`: those that are being closed are among
/// them; `kernel`: the window of each thread of the kernel's.
pub(super) fn judge(row: &mut Row, in_flight: u32, teardown: bool, kernel: Option<u32>) {
    let number = |key: &str| row.number(key).unwrap_or_default();
    let (opened, failed, rate) = (number("opened"), number("failed"), number("connections_per_s"));
    let (seconds, stalled_s) = (number("seconds"), number("stalled_s"));
    if failed > 0.0 {
        row.notes.push(format!("{failed} connections failed"));
    }
    if let Some(mean_ns) = row.stat("latency_ns", "mean").filter(|_| rate > 0.0) {
        let little = little_law_check(in_flight, rate, mean_ns);
        row.set("little", little);
        let low = if teardown { 0.0 } else { 1.0 - LITTLE_TOLERANCE };
        if little < low || little > 1.0 + LITTLE_TOLERANCE {
            row.notes.push(format!("Little's law off: {little:.2}"));
        }
    }
    if let Some(window) = kernel {
        row.notes.push(Sockets::how(window).to_owned());
        row.no_baseline = tcp::stood_still(stalled_s, seconds * f64::from(in_flight));
    }
    let (asked, most) = (opened + failed, FAILED_MAX * 100.0);
    if opened == 0.0 {
        row.void.get_or_insert_with(|| "no connection was counted".to_owned());
    } else if failed > FAILED_MAX * asked {
        row.void.get_or_insert_with(|| {
            format!("{failed} of {asked} connections failed, more than {most:.0} % of them")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Subject;

    fn row(teardown: bool, per_s: f64, ns: u64, [opened, failed]: [u64; 2]) -> Row {
        let mut result =
            LiveResult { connections: opened, failed, per_s, seconds: 1.0, ..LiveResult::default() };
        result.latency.record_n(ns, opened);
        let mut row = Row::of(Subject::default(), MEASURES, &[result.measured()]);
        judge(&mut row, 64, teardown, None);
        row
    }

    #[test]
    fn failed_connections_are_told_and_too_many_void_the_row() {
        let void = |opened, failed| row(true, 1.0, 1, [opened, failed]).void;
        assert_eq!((void(1_000, 0), void(990, 10)), (None, None));
        assert_eq!(void(989, 11).as_deref(), Some("11 of 1000 connections failed, more than 1 % of them"));
        for failed in [0, 5] {
            assert_eq!(void(0, failed).as_deref(), Some("no connection was counted"));
        }
    }

    #[test]
    fn times_and_rates_that_contradict_each_other_are_told() {
        // 64 in flight, 10 us each: 6.4 M/s.
        let of = |rate, teardown| {
            let row = row(teardown, rate, 10_000, [100, 0]);
            (row.number("little").unwrap(), row.notes.into_iter().find(|note| note.contains("Little")))
        };
        let near = |(little, told): (f64, Option<String>), wanted: f64| {
            assert!((little - wanted).abs() < 0.01, "{little}");
            told
        };
        assert_eq!(near(of(6.4e6, false), 1.0), None);
        assert!(near(of(3e6, false), 0.47).is_some(), "half of them stood still");
        assert_eq!(near(of(3e6, true), 0.47), None, "the others were being closed");
        assert!(near(of(8e6, true), 1.25).is_some_and(|why| why.contains("1.25")));
        assert_eq!(row(true, 0.0, 1, [5, 0]).number("little"), None);
    }

    #[test]
    fn steps_are_an_object_of_the_row_and_a_table_of_their_own() {
        let mut steps: StepSpans = std::array::from_fn(|_| Histogram::new());
        steps.iter_mut().for_each(|step| step.record_n(1_500, 30));
        let result = LiveResult { connections: 5, per_s: 7.0, steps: Some(steps), ..LiveResult::default() };
        let runs = [result.measured(), LiveResult { connections: 5, ..LiveResult::default() }.measured()];
        let subject = Subject { system: "barewire".to_owned(), ..Subject::default() };
        let row = Row::of(subject.clone(), MEASURES, &runs);
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(
            (&json["steps_ns"]["create"]["samples"], &json["steps_ns"]["rtu"]["min"]),
            (&30.into(), &1_500.into())
        );
        assert!(json["runs"][1]["steps_ns"].is_null() && json["opened"] == 10, "{json}");
        let merged = row.histograms.merged().unwrap();
        assert!(merged.contains_key("req_to_rep") && merged.len() == 6, "{merged:?}");
        let serde_json::Value::Object(written) = json else { panic!("no object") };
        let read = Row::read(subject.clone(), MEASURES, written).unwrap();
        assert_eq!(read.values, row.values);
        let text = crate::render::table(&[row]);
        assert!(text.contains("\n\nsteps     create  REQ to REP") && text.contains("1.5 us"), "{text}");
        let none = Row::of(subject, MEASURES, &runs[1..]);
        assert!(serde_json::to_value(&none).unwrap()["steps_ns"].is_null());
        assert!(!crate::render::table(&[none]).contains("REQ to REP"));
    }
}
