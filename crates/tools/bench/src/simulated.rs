//! Rows of labs in virtual time (`barewire lab simulate`). They look like those that are measured and never stand beside them: `simulated` is
//! part of what a row is of.

use crate::histograms::{BenchRow, Histograms};
use crate::messages::LoopKind;
use crate::rdma::Span;
use barewire_lab::{LinkReport, Pattern, Simulated, Work};
use barewire_measure::RttNs;
use serde::{Deserialize, Serialize};

/// What link nodes did to frames, over all links and both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FramesRow {
    /// Frames that came in.
    pub received: u64,
    /// Frames that went out, copies included.
    pub sent: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost in outages.
    pub outage: u64,
    /// Lost because too many waited for the rate.
    pub queue_full: u64,
    /// Arrived with flipped bits.
    pub corrupted: u64,
    /// Arrived twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Marked Congestion Experienced.
    pub marked: u64,
}

impl FramesRow {
    fn of(links: &[(String, LinkReport)]) -> FramesRow {
        let mut sum = FramesRow::default();
        for way in links.iter().flat_map(|(_, link)| [&link.forward, &link.reverse]) {
            let f = &way.faults;
            for (to, n) in [
                (&mut sum.received, way.received),
                (&mut sum.sent, way.sent),
                (&mut sum.lost, f.lost + f.flight_full),
                (&mut sum.outage, f.outage),
                (&mut sum.queue_full, f.queue_full),
                (&mut sum.corrupted, f.corrupted),
                (&mut sum.duplicated, f.duplicated),
                (&mut sum.reordered, f.reordered),
                (&mut sum.marked, f.marked),
            ] {
                *to += n;
            }
        }
        sum
    }
}

/// One simulation. Times are nanoseconds and rates are per second, both of virtual time; the same file, options and seed give the same
/// row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedRow {
    /// `barewire`.
    pub system: String,
    /// `virtual-time`.
    pub mode: String,
    /// Name of the lab.
    pub lab: String,
    /// `messages` or `connections`.
    pub what: String,
    /// Who talked to whom: `pairs`, `ring`, `incast`.
    pub pattern: String,
    /// Hosts in the world.
    pub hosts: usize,
    /// Hosts that are clients.
    pub clients: usize,
    /// Messages: bytes of a request, and of its response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Requests outstanding at once, or connections being opened or closed, of each client.
    pub window: u32,
    /// Always closed.
    #[serde(rename = "loop")]
    pub loop_kind: LoopKind,
    /// Connections: each is closed again, which is part of its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<bool>,
    /// Responses, or connections, with a time.
    pub samples: u64,
    /// Messages: round trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<RttNs>,
    /// Messages: responses per second, over all clients, from the time when each could send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Connections: from asking for one until it can send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Span>,
    /// Connections: opened and closed per second, over all clients, from the time when each first asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_per_s: Option<f64>,
    /// Flows, or connections, that opened.
    pub opened: u64,
    /// Flows that did not open, or ended before their time; connections that did not open.
    pub failed: u64,
    /// Segments, or messages of the connection manager, sent again.
    pub resends: u64,
    /// What links did to frames. Links without impairments are wires and count nothing.
    pub frames: FramesRow,
    /// For how much virtual time clients sent.
    pub seconds: f64,
    /// What it replays from.
    pub seed: u64,
    /// Events handled.
    pub events: u64,
    /// Hash over every delivered frame, as 16 hexadecimal digits.
    pub trace_hash: String,
    /// Always true.
    pub simulated: bool,
    /// How the world differs from what the file says.
    pub notes: Vec<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// The exact command that produced the row.
    pub command: String,
    /// `rtt` or `latency`.
    #[serde(default, skip_serializing)]
    pub histograms: Histograms,
}

impl BenchRow for SimulatedRow {
    fn bench(&self) -> &'static str {
        "simulated"
    }

    fn histograms(&self) -> &Histograms {
        &self.histograms
    }

    fn void(&self) -> Option<&str> {
        self.void.as_deref()
    }
}

impl SimulatedRow {
    /// The row of a simulation that `command` asked for.
    pub fn new(done: &Simulated, command: &str) -> SimulatedRow {
        let w = &done.workload;
        let pattern = Pattern::WORDS.iter().find(|(_, pattern)| *pattern == w.pattern);
        let what = Work::WORDS.iter().find(|(_, work)| *work == w.work);
        let messages = w.work == Work::Messages;
        let mut histograms = Histograms::default();
        histograms.push(if messages { "rtt" } else { "latency" }, &done.times);
        let rate = (done.rate_per_s * 10.0).round() / 10.0;
        let nothing = if messages { "no message came back" } else { "no connection was opened and closed" };
        SimulatedRow {
            system: "barewire".to_owned(),
            mode: "virtual-time".to_owned(),
            lab: done.lab.clone(),
            what: what.map_or("", |(word, _)| word).to_owned(),
            pattern: pattern.map_or("", |(word, _)| word).to_owned(),
            hosts: done.hosts,
            clients: done.clients,
            size: messages.then_some(w.message_bytes),
            window: w.window,
            loop_kind: LoopKind::Closed,
            teardown: (!messages).then_some(true),
            samples: done.times.samples(),
            rtt_ns: messages.then(|| RttNs::from(done.times.summary())),
            rate_per_s: messages.then_some(rate),
            latency_ns: (!messages).then(|| Span::of(&done.times)),
            connections_per_s: (!messages).then_some(rate),
            opened: done.opened,
            failed: done.failed,
            resends: done.resent,
            frames: FramesRow::of(&done.links),
            seconds: w.duration.as_secs_f64(),
            seed: done.seed,
            events: done.events,
            trace_hash: format!("{:016x}", done.trace_hash),
            simulated: true,
            notes: done.notes.clone(),
            void: (done.completed == 0).then(|| nothing.to_owned()),
            command: command.to_owned(),
            histograms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Head, Results};
    use barewire_base::Duration;
    use barewire_lab::{Topology, Workload, simulate};
    use barewire_report::compare::{Method, compare, little};
    use barewire_report::figure::identity;
    use barewire_report::import;
    use barewire_report::report::{Options, Report};
    use barewire_report::run::{HardwareClass, Run};
    use std::path::Path;

    fn row(seed: u64, link: &str) -> SimulatedRow {
        row_of(Work::Messages, seed, link)
    }

    fn row_of(work: Work, seed: u64, link: &str) -> SimulatedRow {
        let text = format!(
            "name = \"pair\"\n[[group]]\nprefix = \"h\"\ncount = 4\nsubnet = \"10.0.0.0/24\"\nswitch = \"s\"\n{link}[[switch]]\nname = \
             \"s\"\nkind = \"bridge\"\n"
        );
        let topology = Topology::parse(&text, "t.toml", Path::new("")).unwrap().with_seed(seed);
        let workload = Workload {
            work,
            pattern: Pattern::Incast,
            message_bytes: 1024,
            window: 2,
            duration: Duration::from_millis(300),
        };
        SimulatedRow::new(&simulate(&topology, &workload).unwrap(), "barewire lab simulate t.toml")
    }

    const LOSSY: &str = "both = { delay_us = 200, jitter_us = 50, loss = 0.01 }\n";

    #[test]
    fn a_seed_gives_the_same_row_and_another_one_another() {
        let (one, again, other) = (row(3, LOSSY), row(3, LOSSY), row(4, LOSSY));
        assert_eq!(one, again);
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&again).unwrap());
        assert_ne!(one.trace_hash, other.trace_hash);
        assert_eq!((one.hosts, one.clients, one.opened, one.failed), (4, 3, 3, 0));
        assert!(one.frames.lost > 0 && one.resends > 0 && one.void.is_none(), "{one:?}");
        // Two links of 200 us each way, and wires: no round trip is shorter.
        assert!(one.rtt_ns.unwrap().min > Some(800_000), "{one:?}");
        let value = serde_json::to_value(&one).unwrap();
        assert_eq!(
            (&value["simulated"], &value["loop"], &value["seed"]),
            (&true.into(), &"closed".into(), &3.into())
        );
        let read: SimulatedRow = serde_json::from_value(value).unwrap();
        assert_eq!(read, SimulatedRow { histograms: Histograms::default(), ..one });
    }

    #[test]
    fn rate_and_times_agree_over_all_clients() {
        for (work, partial) in [(Work::Messages, false), (Work::Connections, true)] {
            let value = serde_json::to_value(row_of(work, 1, "both = { delay_us = 100 }\n")).unwrap();
            let told = little(value.as_object().unwrap(), None).unwrap();
            assert_eq!((told.window, told.partial), (6.0, partial), "{told:?}");
            assert!(told.agrees() && told.ratio > 0.4, "{told:?}");
        }
    }

    #[test]
    fn connections_have_rows_of_their_own() {
        let (one, again) = (row_of(Work::Connections, 3, LOSSY), row_of(Work::Connections, 3, LOSSY));
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&again).unwrap());
        assert!(one.resends > 0 && one.failed == 0 && one.void.is_none(), "{one:?}");
        assert!(
            one.latency_ns.unwrap().min > Some(800_000) && one.connections_per_s > Some(100.0),
            "{one:?}"
        );
        let value = serde_json::to_value(&one).unwrap();
        assert_eq!(
            (&value["what"], &value["rtt_ns"], &value["size"]),
            (&"connections".into(), &().into(), &().into())
        );
        let record = import::record(value.as_object().unwrap().clone(), "");
        assert_eq!((record.experiment.as_str(), record.table.as_str()), ("simulated", "simulated"));
        assert!(
            identity(&record).details.starts_with("lab pair, incast, connections"),
            "{:?}",
            identity(&record)
        );
    }

    #[test]
    fn a_simulated_row_is_never_of_what_was_measured() {
        let row = row(1, "");
        let value = serde_json::to_value(&row).unwrap();
        // As it would be measured: the row of a published table.
        let mut measured = value.as_object().unwrap().clone();
        measured.remove("simulated");
        let (simulated, measured) =
            (import::record(value.as_object().unwrap().clone(), ""), import::record(measured, ""));
        assert_eq!((simulated.table.as_str(), measured.table.as_str()), ("simulated", "machnet"));
        assert_ne!(identity(&simulated).key, identity(&measured).key);
        assert!(identity(&simulated).details.contains("simulated"), "{:?}", identity(&simulated));
        // Nor when both stand in one table, of one name.
        let mut moved = simulated.clone();
        (moved.table, moved.experiment) = (measured.table.clone(), measured.experiment.clone());
        assert_ne!(identity(&moved).key, identity(&measured).key);
        let parent = std::env::temp_dir().join(format!("barewire-simulated-{}", std::process::id()));
        let folder = |row: &SimulatedRow, hardware: HardwareClass| {
            let mut results = Results::begin();
            results.add(std::slice::from_ref(row)).unwrap();
            let head = Head { label: hardware.word().to_owned(), config: serde_json::Value::Null, hardware };
            Run::open(&results.write(&parent, &head).unwrap()).unwrap()
        };
        let model = folder(&row, HardwareClass::Simulated);
        let ours = folder(&SimulatedRow { simulated: false, ..row }, HardwareClass::OneMachine);
        std::fs::remove_dir_all(&parent).unwrap();
        assert_eq!(model.repetitions(&model.records[0], "rtt").count(), 1);
        let between = compare(&[&model], &[&ours], Method::default());
        assert!(between.rows.is_empty(), "{:?}", between.rows);
        assert_eq!((between.only_a.len(), between.only_b.len()), (1, 1));
        assert!(between.differences.contains(&"hardware: simulated -> one machine, no NIC".to_owned()));
        let report = Report::of(&[&model], &Options { all_published: false, ..Options::default() });
        assert_eq!(report.tables[0].heading(), "Simulated");
        let badges = &report.tables[0].groups[0].rows[0].badges;
        assert!(badges.iter().any(|badge| badge.text == "simulated"), "{badges:?}");
        assert!(badges.iter().all(|badge| badge.text != "Little's law off"), "{badges:?}");
    }
}
