//! Rows of labs in virtual time (`barewire lab simulate`). They look like those that are measured and never stand beside them: `simulated` is
//! part of what a row is of. The same file, options and seed give the same row.

use crate::row::{Measure, Measured, Param, Row, SPANS, Subject, Unit};
use barewire_lab::{LinkReport, Pattern, Simulated, Work};

/// What a simulation gives, in virtual time.
const fn measures(times: Measure, rate: Measure) -> [Measure; 17] {
    [
        times,
        rate.in_unit(Unit::PerSecond, 0.1),
        // Flows, or connections, that opened; those that did not, or ended before their time.
        Measure::count("opened", ""),
        Measure::count("failed", ""),
        // Segments, or messages of the connection manager, sent again.
        Measure::count("resends", "resends"),
        // What link nodes did to frames. Links without impairments are wires and count nothing.
        Measure::count("frames.received", "received"),
        Measure::count("frames.sent", "sent"),
        Measure::count("frames.lost", "lost"),
        Measure::count("frames.outage", "outage"),
        Measure::count("frames.queue_full", "queue full"),
        Measure::count("frames.corrupted", "corrupted"),
        Measure::count("frames.duplicated", "duplicated"),
        Measure::count("frames.reordered", "reordered"),
        Measure::count("frames.marked", "marked"),
        // For how long clients sent.
        Measure::count("seconds", "").in_unit(Unit::None, 1e-9),
        Measure::count("events", ""),
        // Over every delivered frame, as 16 hexadecimal digits.
        Measure::word("trace_hash", ""),
    ]
}

/// Of messages: responses a second, over all clients, from the time when each could send.
static MESSAGES: [Measure; 17] =
    measures(Measure::spans("rtt_ns", "round trip", SPANS), Measure::rate("rate_per_s", "rate/s", "rate"));
/// Of connections: from asking for one until it can send; opened and closed a second, from the time when each client first asked.
static CONNECTIONS: [Measure; 17] = measures(
    Measure::spans("latency_ns", "latency", SPANS),
    Measure::rate("connections_per_s", "conn/s", "connections"),
);

/// Frames of all links, both ways.
fn frames(links: &[(String, LinkReport)]) -> [(&'static str, u64); 9] {
    let ways = || links.iter().flat_map(|(_, link)| [&link.forward, &link.reverse]);
    let faults = || ways().map(|way| &way.faults);
    [
        ("frames.received", ways().map(|way| way.received).sum()),
        ("frames.sent", ways().map(|way| way.sent).sum()),
        ("frames.lost", faults().map(|f| f.lost + f.flight_full).sum()),
        ("frames.outage", faults().map(|f| f.outage).sum()),
        ("frames.queue_full", faults().map(|f| f.queue_full).sum()),
        ("frames.corrupted", faults().map(|f| f.corrupted).sum()),
        ("frames.duplicated", faults().map(|f| f.duplicated).sum()),
        ("frames.reordered", faults().map(|f| f.reordered).sum()),
        ("frames.marked", faults().map(|f| f.marked).sum()),
    ]
}

/// The row of a simulation that `command` asked for.
pub fn row(done: &Simulated, command: &str) -> Row {
    let w = &done.workload;
    let pattern = Pattern::WORDS.iter().find(|(_, pattern)| *pattern == w.pattern);
    let what = Work::WORDS.iter().find(|(_, work)| *work == w.work);
    let (measures, of_work, nothing) = match w.work {
        Work::Messages => {
            (&MESSAGES, Param::new("size", Unit::Bytes, w.message_bytes), "no message came back")
        }
        Work::Connections => {
            (&CONNECTIONS, Param::usually("teardown", true, true), "no connection was opened and closed")
        }
    };
    let subject = Subject {
        bench: "simulated",
        system: "barewire".to_owned(),
        mode: Some("virtual-time".to_owned()),
        params: vec![
            Param::word("lab", done.lab.clone()),
            Param::word("what", what.map_or("", |(word, _)| word)),
            Param::word("pattern", pattern.map_or("", |(word, _)| word)),
            Param::word("hosts", done.hosts),
            Param::word("clients", done.clients),
            of_work,
            Param::word("window", w.window),
            Param::usually("loop", "closed", "closed"),
            Param::word("seed", done.seed),
            Param::usually("simulated", true, true),
        ],
        command: command.to_owned(),
        ..Subject::default()
    };
    let counts =
        [("opened", done.opened), ("failed", done.failed), ("resends", done.resent), ("events", done.events)];
    let run = Measured::default()
        .spans(measures[0].key, done.times.clone())
        .number(measures[1].key, done.rate_per_s)
        .number("seconds", w.duration.as_secs_f64());
    let run =
        counts.into_iter().chain(frames(&done.links)).fold(run, |run, (key, n)| run.number(key, n as f64));
    let mut row = Row::of(subject, measures, &[run]);
    row.set_word("trace_hash", format!("{:016x}", done.trace_hash));
    row.notes.extend(done.notes.iter().cloned());
    row.void = (done.completed == 0).then(|| nothing.to_owned());
    row
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

    fn row(seed: u64, link: &str) -> Row {
        row_of(Work::Messages, seed, link)
    }

    fn row_of(work: Work, seed: u64, link: &str) -> Row {
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
        super::row(&simulate(&topology, &workload).unwrap(), "barewire lab simulate t.toml")
    }

    const LOSSY: &str = "both = { delay_us = 200, jitter_us = 50, loss = 0.01 }\n";

    #[test]
    fn a_seed_gives_the_same_row_and_another_one_another() {
        let (one, again, other) = (row(3, LOSSY), row(3, LOSSY), row(4, LOSSY));
        assert_eq!(one, again);
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&again).unwrap());
        assert_ne!(one.word("trace_hash"), other.word("trace_hash"));
        let value = serde_json::to_value(&one).unwrap();
        let of = |key: &str| value[key].as_u64().unwrap();
        assert_eq!(["hosts", "clients", "opened", "failed"].map(of), [4, 3, 3, 0]);
        assert!(
            value["frames"]["lost"].as_u64() > Some(0) && of("resends") > 0 && one.void.is_none(),
            "{one:?}"
        );
        // Two links of 200 us each way, and wires: no round trip is shorter.
        assert!(one.stat("rtt_ns", "min") > Some(800_000.0), "{one:?}");
        assert_eq!(
            (&value["simulated"], &value["loop"], &value["seed"]),
            (&true.into(), &"closed".into(), &3.into())
        );
        assert!(crate::render::table(&[one]).contains("\n\nframes "));
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
        assert!(one.number("resends") > Some(0.0) && one.number("failed") == Some(0.0), "{one:?}");
        assert!(
            one.stat("latency_ns", "min") > Some(800_000.0) && one.number("connections_per_s") > Some(100.0),
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
        let folder = |row: &Row, hardware: HardwareClass| {
            let mut results = Results::begin();
            results.add(std::slice::from_ref(row)).unwrap();
            let head = Head { label: hardware.word().to_owned(), config: serde_json::Value::Null, hardware };
            Run::open(&results.write(&parent, &head).unwrap()).unwrap()
        };
        let model = folder(&row, HardwareClass::Simulated);
        let mut measured = row.clone();
        measured.subject.params.retain(|param| param.key != "simulated");
        let ours = folder(&measured, HardwareClass::OneMachine);
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
