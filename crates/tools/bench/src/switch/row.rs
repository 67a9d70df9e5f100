//! What rows about switches have.

use super::program::Source;
use super::workload::Workload;
use crate::messages::driver::LAG_PERCENT_MAX;
use crate::render::percentile;
use crate::row::{Measure, Measured, Param, Row, Subject, Unit};
use crate::run;
use barewire_report::figure::Better;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// What is measured of an engine without wires: in memory, from file to file, in the kernel's test runs.
pub(crate) const ENGINE: &[Measure] = &[
    Measure::rate("rate_pps", "packets/s", "packets/s"),
    Measure::cost("ns_per_packet", "ns/packet", "time a packet").in_unit(Unit::Ns, 0.01),
    // Of generator, switch and sink in one thread.
    Measure::rate("loop_rate_pps", "loop/s", "loop rate"),
    // Of the switch, counted by callgrind.
    Measure {
        better: Some(Better::Lower),
        words: "instructions a packet",
        ..Measure::count("instructions_per_packet", "instr/packet").neutral().in_unit(Unit::Count, 0.1)
    },
    Measure::cost("cpu_us_per_packet", "CPU us/packet", "CPU time a packet")
        .in_unit(Unit::Us, 0.0001)
        .apart(),
    // While the row was set up.
    Measure::rate("table_writes_per_s", "", "table writes"),
    // From JSON text to a program that can run.
    Measure::cost("load_us", "", "load").in_unit(Unit::Us, 1.0),
    // A reading of the clock, which was taken off every timed span.
    Measure::cost("clock_ns", "", "a reading of the clock").neutral().in_unit(Unit::Ns, 1.0),
    // Packets that were compared byte by byte with what they had to become.
    Measure::count("checked", ""),
    // Of a run, measured.
    Measure::count("seconds", "").neutral().in_unit(Unit::None, 0.001),
    // Packets by reason, over all runs.
    Measure::word("drops", ""),
];

const fn mbps(key: &'static str, head: &'static str, words: &'static str) -> Measure {
    Measure::rate(key, head, words).in_unit(Unit::MbitPerSecond, 0.1)
}

/// Of a packet, at the load that the row says.
const fn cpu(key: &'static str, head: &'static str, words: &'static str) -> Measure {
    Measure::cost(key, head, words).in_unit(Unit::Us, 0.01).apart().at_load("cpu_at_pps")
}

const fn time(key: &'static str, head: &'static str, words: &'static str) -> Measure {
    Measure::cost(key, head, words).in_unit(Unit::Ns, 1.0)
}

/// What is measured of a switch between two hosts.
pub(crate) const HOSTS: &[Measure] = &[
    mbps("tcp_mbps", "TCP Mbit/s", "TCP").apart(),
    // As the second host's interface counted them. With offloads on one may be some segments.
    Measure::rate("tcp_data_packets_per_s", "", "TCP data packets"),
    mbps("iperf_mbps", "iperf Mbit/s", "iperf"),
    // Most that were offered with at most one in a hundred lost, most that arrived, and what arrived of a sender that did not pause.
    Measure::rate("udp_pps", "UDP/s <=1 % loss", "UDP carried").apart(),
    Measure::rate("udp_peak_pps", "UDP/s peak", "UDP peak").apart(),
    Measure::rate("udp_flood_pps", "UDP/s flood", "UDP flood"),
    Measure::rate("udp_flood_offered_pps", "", "UDP flood offered").neutral(),
    // Of a UDP request and its echo: twice through the switch.
    time("rtt_p50_ns", "RTT p50", "round trip p50").apart(),
    time("rtt_p99_ns", "", "round trip p99"),
    Measure::count("rtt_samples", ""),
    Measure::count("rtt_lost", ""),
    // The median, less that of the hosts' direct wire, and that of the kernel's bridge, in the same round.
    time("added_latency_ns", "added", "added latency"),
    time("over_bridge_ns", "over bridge", "over bridge"),
    // Of the switch's own threads (none where the switch is the kernel), and of all who touch a packet: both hosts, the switch, and the
    // kernel for them. What `direct` has of it is the hosts' own.
    cpu("cpu_us_per_packet", "CPU us/packet", "CPU time a packet"),
    cpu("machine_cpu_us_per_packet", "with hosts", "CPU time a packet, both hosts' included"),
    Measure::rate("cpu_at_pps", "", "rate at which the CPU time is").neutral(),
    Measure::word("paced", ""),
    Measure::word("drops", ""),
    Measure::cost("load_us", "", "load").in_unit(Unit::Us, 1.0),
    Measure::count("seconds", "").neutral().in_unit(Unit::None, 0.001),
];

/// One paced run: packets offered at a rate that every system must carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paced {
    /// Packets per second of the schedule.
    pub offered_pps: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that the other host received.
    pub received: u64,
    /// Packets that left more than a millisecond after they were due.
    pub behind: u64,
    /// CPU time of the switch's own threads for each packet, in us. `None` where the switch is the kernel.
    pub cpu_us_per_packet: Option<f64>,
    /// CPU time of all who touch a packet, in us: both hosts, the switch, and the kernel for them.
    pub machine_cpu_us_per_packet: Option<f64>,
    /// Where packets were dropped: by reason or by counter.
    pub drops: BTreeMap<String, u64>,
}

impl Paced {
    /// Packets that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Why its figures must not be used, if so: the offered load was not the one named.
    pub fn void(&self) -> Option<String> {
        let percent = 100.0 * self.behind as f64 / (self.sent as f64).max(1.0);
        (percent > LAG_PERCENT_MAX).then(|| {
            format!("at {} packets/s the sender was late for {percent:.1} % of them", self.offered_pps)
        })
    }
}

/// What is told of a measurement while it goes on: what runs now, and after each round the rows so far.
pub struct Told<'a> {
    /// Hears what runs now.
    pub tell: &'a mut (dyn FnMut(String) + Send),
    /// Gets the rows so far.
    pub keep: &'a mut (dyn FnMut(&[Row]) + Send),
}

/// Runs systems in turns, and tells of it.
pub(super) fn interleave<'w>(
    systems: impl IntoIterator<Item: run::Workload + 'w>,
    runs: u32,
    told: Told<'_>,
) -> run::Outcome {
    let boxed = |system| Box::new(system) as Box<dyn run::Workload + 'w>;
    run::interleave(&mut systems.into_iter().map(boxed).collect::<Vec<_>>(), runs, told.tell, told.keep)
}

/// Whose row over `over` it is, of an engine without wires.
pub(super) fn subject(system: &str, over: &str, source: &Source, work: &Workload, command: &str) -> Subject {
    Subject {
        bench: "switch",
        system: system.to_owned(),
        over: Some(over.to_owned()),
        params: vec![
            Param::word("program", source.shown.clone()),
            Param::new("size", Unit::Bytes, work.size),
            Param::word("entries", work.entries),
            Param::word("masks", work.masks),
            Param::quiet("flows", work.flows.len()),
        ],
        command: command.to_owned(),
        ..Subject::default()
    }
}

/// A run that carried so many packets per second. Whose CPU it is, the programs know better than a meter of this process.
pub(crate) fn carried(rate_pps: f64) -> Measured {
    let run = Measured::default().metered(None, None).number("rate_pps", rate_pps);
    if rate_pps > 0.0 { run.number("ns_per_packet", 1e9 / rate_pps) } else { run }
}

/// Says of an engine's row of how many packets it is known what became of them.
pub(super) fn tell_checked(row: &mut Row) {
    if let Some(packets) = row.number("checked").filter(|packets| *packets > 0.0) {
        row.notes.push(format!("{packets} packets checked"));
    }
}

/// Says of a row between two hosts what its runs are together: paced runs as one, and the CPU time at the fastest that was offered as it
/// should.
pub(super) fn judge_hosts(row: &mut Row) {
    let paced = |told: Option<&serde_json::Value>| -> Vec<Paced> {
        told.and_then(|told| Deserialize::deserialize(told).ok()).unwrap_or_default()
    };
    let runs: Vec<Vec<Paced>> = row.words_of_runs("paced").map(paced).collect();
    let all = sum_paced(&runs);
    if let Some(fastest) = all.iter().filter(|p| p.void().is_none()).map(|p| p.offered_pps).max() {
        let at = |run: &Vec<Paced>, cost: fn(&Paced) -> Option<f64>| {
            run.iter().find(|p| p.offered_pps == fastest && p.void().is_none()).and_then(cost)
        };
        row.set("cpu_at_pps", fastest as f64);
        row.set_runs("cpu_us_per_packet", runs.iter().map(|run| at(run, |p| p.cpu_us_per_packet)));
        row.set_runs(
            "machine_cpu_us_per_packet",
            runs.iter().map(|run| at(run, |p| p.machine_cpu_us_per_packet)),
        );
    }
    let [samples, lost] = ["rtt_samples", "rtt_lost"].map(|key| row.number(key).unwrap_or_default());
    if row.number("rtt_samples").is_some() && row.number("rtt_p50_ns").is_none() {
        row.notes.push(format!("RTT p50: {}", percentile(None, 0.5)));
    }
    if lost > 0.0 {
        row.notes.push(format!("{lost} of {} requests had no answer", samples + lost));
    }
    let void: Vec<String> = all.iter().filter_map(Paced::void).collect();
    if !void.is_empty() {
        row.notes.push(format!("void: {}", void.join(", ")));
    }
    let drops = sum_drops(&all);
    let sent: u64 = all.iter().map(|p| p.sent).sum();
    let lost: u64 = all.iter().map(Paced::lost).sum();
    if lost > 0 {
        let told: Vec<String> = drops.iter().map(|(why, n)| format!("{why} {n}")).collect();
        let told = if told.is_empty() { "no counter says where".to_owned() } else { told.join(", ") };
        row.notes.push(format!("{lost} of {sent} paced packets lost: {told}"));
    }
    row.set_word("paced", json!(all));
    row.set_word("drops", json!(drops));
}

fn sum_drops<'a>(paced: impl IntoIterator<Item = &'a Paced>) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    for (reason, count) in paced.into_iter().flat_map(|p| &p.drops) {
        *drops.entry(reason.clone()).or_default() += count;
    }
    drops
}

/// Paced runs at one rate as one: counts are sums, costs are medians.
fn sum_paced(runs: &[Vec<Paced>]) -> Vec<Paced> {
    let mut rates: Vec<u64> = runs.iter().flatten().map(|p| p.offered_pps).collect();
    rates.sort_unstable();
    rates.dedup();
    let at = |rate: u64| {
        let of_rate: Vec<&Paced> = runs.iter().flatten().filter(|p| p.offered_pps == rate).collect();
        let middle = |cost: fn(&Paced) -> Option<f64>| {
            crate::rounds::median(of_rate.iter().filter_map(|p| cost(p)))
                .map(|us| (us * 100.0).round() / 100.0)
        };
        let sum = |count: fn(&Paced) -> u64| of_rate.iter().map(|p| count(p)).sum();
        Paced {
            offered_pps: rate,
            sent: sum(|p| p.sent),
            received: sum(|p| p.received),
            behind: sum(|p| p.behind),
            cpu_us_per_packet: middle(|p| p.cpu_us_per_packet),
            machine_cpu_us_per_packet: middle(|p| p.machine_cpu_us_per_packet),
            drops: sum_drops(of_rate.iter().copied()),
        }
    };
    rates.into_iter().map(at).collect()
}

/// What each run is above the direct wire and above the bridge in the same round: the two shared the machine's mood. A void run is no floor,
/// and nothing is above one. One that fails is left out of all later rounds, so that runs at one place are of one round.
pub(super) fn above_floors(rows: &mut [Row]) {
    for (key, floor) in [("added_latency_ns", "direct"), ("over_bridge_ns", "bridge")] {
        let floor = rows.iter().find(|row| row.subject.system == floor);
        let Some(floor) = floor.map(|row| row.each_run("rtt_p50_ns")) else { continue };
        for row in &mut *rows {
            row.set_beside(key, "rtt_p50_ns", &floor, |own, floor| own - floor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{notes, ratios, table};
    use crate::switch::live::recorded;

    fn row_of(system: &str, over: &str, measures: &'static [Measure], runs: &[Measured]) -> Row {
        let (system, over) = (system.to_owned(), Some(over.to_owned()));
        Row::of(Subject { bench: "switch", system, over, ..Subject::default() }, measures, runs)
    }

    fn hosts(system: &str, over: &str, runs: &[Measured]) -> Row {
        let mut row = row_of(system, over, HOSTS, runs);
        row.subject.params = vec![Param::new("size", Unit::Bytes, 60), Param::word("offloads", false)];
        judge_hosts(&mut row);
        row
    }

    fn engine(system: &str, over: &str, rates: &[f64]) -> Row {
        let runs: Vec<Measured> = rates.iter().map(|pps| carried(*pps)).collect();
        let mut row = row_of(system, over, ENGINE, &runs);
        row.subject.params = vec![Param::word("program", "simple_router"), Param::word("entries", 1000)];
        row
    }

    fn paced(paced: &[Paced]) -> Measured {
        Measured::default().word("paced", json!(paced))
    }

    fn run(pps: f64, sent: u64, received: u64) -> Measured {
        let drops = BTreeMap::from([("rx_dropped".to_owned(), sent - received)]);
        let fast = Paced {
            offered_pps: 1000,
            sent,
            received,
            cpu_us_per_packet: Some(2.0),
            drops,
            ..Paced::default()
        };
        paced(&[fast, Paced { offered_pps: 10, sent: 1, received: 1, ..Paced::default() }])
            .number("udp_pps", pps)
    }

    fn at(row: &Row, key: &str) -> serde_json::Value {
        serde_json::to_value(row).unwrap()[key].clone()
    }

    #[test]
    fn a_row_is_the_median_of_its_runs_and_the_sum_of_its_counts() {
        let watched = |run: Measured, reasons: &[&str]| {
            let mut report = barewire_measure::Contention::start().finish();
            report.contended = !reasons.is_empty();
            report.reasons = reasons.iter().map(|why| (*why).to_owned()).collect();
            run.watched(&report)
        };
        let row = hosts(
            "barewire",
            "xdp",
            &[
                watched(run(1e6, 100, 99), &[]),
                watched(run(4e6, 100, 100), &["stolen: x", "others: y"]),
                watched(run(2e6, 100, 98), &["stolen: x"]),
            ],
        );
        assert_eq!(row.of_runs("cpu_us_per_packet"), [2.0; 3], "of the rate at which the row has it");
        assert_eq!(row.number("udp_pps"), Some(2e6));
        let all: Vec<Paced> = serde_json::from_value(at(&row, "paced")).unwrap();
        assert_eq!(all.iter().map(|p| p.offered_pps).collect::<Vec<_>>(), [10, 1000]);
        assert_eq!((all[1].sent, all[1].received, all[1].lost()), (300, 297, 3));
        assert_eq!((row.number("cpu_us_per_packet"), row.number("cpu_at_pps")), (Some(2.0), Some(1000.0)));
        assert_eq!(at(&row, "drops"), json!({"rx_dropped": 3}));
        assert!(row.contended && row.void.is_none());
        assert_eq!(row.contention, ["stolen: x", "others: y"]);
        assert_eq!(notes(&row)[0], "contended (stolen, others)");
        let engine = engine("barewire", "mem", &[1e6, 4e6, 2e6]);
        assert_eq!((engine.number("rate_pps"), engine.number("ns_per_packet")), (Some(2e6), Some(500.0)));
    }

    #[test]
    fn latency_is_above_the_floors_of_the_same_round() {
        let of = |system: &str, ns: &[f64]| {
            let runs: Vec<Measured> =
                ns.iter().map(|ns| Measured::default().number("rtt_p50_ns", *ns)).collect();
            hosts(system, "veth", &runs)
        };
        let mut direct = of("direct", &[1_000.0, 5_000.0, 3_000.0]);
        direct.runs[2].void = Some("late".to_owned());
        let mut rows = [direct, of("barewire", &[900.0, 5_200.0, 9_000.0])];
        above_floors(&mut rows);
        assert_eq!(rows[1].of_runs("added_latency_ns"), [-100.0, 200.0], "a void run is no floor");
        let added = |row: &Row| (row.number("added_latency_ns"), row.number("over_bridge_ns"));
        assert_eq!(added(&rows[0]), (Some(0.0), None));
        assert_eq!(added(&rows[1]), (Some(50.0), None));
    }

    #[test]
    fn requests_without_an_answer_are_told() {
        let of = |samples: f64, lost: f64| {
            let run = Measured::default().number("rtt_samples", samples).number("rtt_lost", lost);
            run.number("rtt_p50_ns", 1e4).number("tcp_data_packets_per_s", lost)
        };
        let row = hosts("direct", "veth", &[of(100.0, 0.0), of(50.0, 3.0), of(40.0, 1.0)]);
        assert_eq!((row.number("rtt_samples"), row.number("rtt_lost")), (Some(190.0), Some(4.0)));
        assert_eq!(row.notes, ["4 of 194 requests had no answer"]);
        assert_eq!(row.number("tcp_data_packets_per_s"), Some(1.0));
        let row = hosts("direct", "veth", &[of(100.0, 0.0), Measured::default()]);
        assert_eq!((row.number("rtt_lost"), row.notes.len()), (Some(0.0), 0));
    }

    #[test]
    fn a_median_of_too_few_says_how_many_it_takes() {
        let none = hosts("bridge", "veth", &[Measured::default()]);
        assert!(none.notes.is_empty() && !table(&[none]).contains("RTT"), "not measured");
        let thin = Measured::default().number("rtt_samples", 7.0);
        assert_eq!(hosts("bridge", "veth", std::slice::from_ref(&thin)).notes, ["RTT p50: n<20"]);
        let enough = hosts("bridge", "veth", &[thin.number("rtt_p50_ns", 18_000.0)]);
        assert!(enough.notes.is_empty() && table(&[enough]).contains("  18 us"));
    }

    #[test]
    fn a_void_run_voids_its_row() {
        let mut void = carried(1e6);
        void.void = Some("wrong".to_owned());
        let row = row_of("barewire", "mem", ENGINE, &[carried(1e6), void]);
        assert_eq!(row.void.as_deref(), Some("wrong"));
    }

    #[test]
    fn the_document_reads_back_and_has_its_keys() {
        let row = engine("barewire", "mem", &[1e7 / 3.0]);
        let mut results = crate::Results::begin();
        results.add(std::slice::from_ref(&row)).unwrap();
        let json = results.document(barewire_report::run::HardwareClass::OneMachine, false, &[]).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        let serde_json::Value::Object(fields) = read["rows"][0].clone() else { panic!("no object") };
        assert_eq!(Row::read(row.subject.clone(), ENGINE, fields).unwrap(), row);
        for key in [
            "\"schema\":2",
            "\"fingerprint\":{",
            "\"bench\":\"switch\"",
            "\"rate_pps\":3333333.0",
            "\"instructions_per_packet\":null",
        ] {
            assert!(json.contains(key), "{key}: {json}");
        }
    }

    #[test]
    fn engines_have_their_table_with_least_and_most() {
        let mut ours = engine("barewire", "pcap", &[12.5e6, 12.0e6, 13.0e6, 12.6e6, 12.4e6]);
        ours.subject.engine = Some("native".to_owned());
        let mut theirs = engine("bmv2", "pcap", &[1.0e5, 1.02e5, 0.98e5, 1.01e5, 0.99e5]);
        theirs.void = Some("wrong: byte 3".into());
        let text = table(&[ours.clone(), theirs.clone()]);
        for part in ["12.5M", "80.0", "VOID: wrong: byte 3", "  min..max", "12.0M..13.0M", "of 5 runs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(ratios(&[ours.clone(), theirs.clone()]), "", "void rows are compared with nothing");
        theirs.void = None;
        let text = ratios(&[ours.clone(), theirs.clone()]);
        assert!(
            text.starts_with("\nbarewire native over pcap, simple_router, entries 1000 is 125 (1"),
            "{text}"
        );
        assert!(text.contains(") times faster than bmv2 over pcap by packets/s\n"), "{text}");
        assert_eq!(text.trim().lines().count(), 1, "the inverse says the same: {text}");
        // Memory is no file: a ring in a cache is no wire.
        ours.subject.over = Some("mem".to_owned());
        assert_eq!(ratios(&[ours, theirs]), "");
    }

    #[test]
    fn another_program_between_the_same_hosts_is_other_work() {
        let with = |system: &str, program: Option<&str>| {
            let mut row = hosts(system, "veth", &vec![Measured::default().number("tcp_mbps", 2_000.0); 5]);
            row.subject.params.insert(0, Param::quiet("program", program));
            row
        };
        let rows = [
            with("barewire", Some("one")),
            with("barewire", Some("two")),
            with("bmv2", Some("one")),
            with("bmv2", Some("two")),
            with("bridge", None),
        ];
        assert_eq!(ratios(&rows).trim().lines().count(), 4, "each beside its own, and beside the bridge");
    }

    #[test]
    fn without_enough_runs_there_is_a_ratio_and_no_verdict() {
        for (runs, range, words) in
            [(1, "", "one run, no verdict"), (3, " (4.00 to 4.00)", "3 runs, too few for a verdict")]
        {
            let ours = engine("barewire", "pcap", &[4e6; 5][..runs]);
            let theirs = engine("bmv2", "pcap", &[1e6; 5][..runs]);
            let text = ratios(&[ours, theirs]);
            assert!(
                text.contains(&format!("is 4.00{range} times bmv2 over pcap ({words}) by packets/s")),
                "{text}"
            );
            assert!(!text.contains("faster"), "{text}");
        }
    }

    #[test]
    fn a_row_that_broke_off_says_so_once() {
        let mut broken = engine("bmv2", "pcap", &[1e5]);
        broken.broken_off = Some("run 2 of 5 failed: gone".into());
        assert_eq!(notes(&broken), ["run 2 of 5 failed: gone"]);
        broken.void = broken.broken_off.clone();
        assert_eq!(notes(&broken), ["VOID: run 2 of 5 failed: gone"]);
    }

    #[test]
    fn hosts_have_theirs_with_every_loss_in_words() {
        let lossy = Paced {
            offered_pps: 1000,
            sent: 100,
            received: 97,
            drops: [("s2 tx_dropped".to_owned(), 3)].into(),
            ..Paced::default()
        };
        let run = paced(&[lossy]).number("tcp_mbps", 2_000.0).number("added_latency_ns", -1_500.0);
        let ours = hosts("barewire", "xdp", &[run.clone(), run.clone()]);
        let bare = hosts("bare-loop", "packet", std::slice::from_ref(&run));
        let five = vec![run; 5];
        let bridge = hosts("bridge", "veth", &five);
        let text = table(&[ours.clone(), bare, bridge.clone(), recorded()]);
        for part in [
            "6 of 200 paced packets lost: s2 tx_dropped 6",
            "-1.5 us",
            "-1.5 us..-1.5 us",
            "not measured in this run",
            "barewire over xdp, 60 B, offloads off is 2.93",
            "times recorded bmv2 over veth (2 runs, too few for a verdict) by TCP",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("of bare-loop"), "a loop over other ports: {text}");
        // A loss that no counter tells is told all the same.
        let silent = Paced { sent: 5, received: 4, ..Paced::default() };
        assert_eq!(
            hosts("bridge", "veth", &[paced(&[silent])]).notes,
            ["1 of 5 paced packets lost: no counter says where"]
        );
        let text = ratios(&[hosts("barewire", "packet", &five), bridge.clone()]);
        assert!(text.contains("is within noise of bridge over veth (1.00 to 1.00) by TCP"), "{text}");
        let direct = hosts("direct", "veth", &five);
        assert_eq!(ratios(&[ours, direct]), "", "nothing lies between its hosts");
    }

    #[test]
    fn cpu_is_compared_at_the_same_rate() {
        let at = |system: &str, pps: u64| {
            let one = Paced {
                offered_pps: pps,
                sent: 9,
                received: 9,
                machine_cpu_us_per_packet: Some(3.0),
                ..Paced::default()
            };
            hosts(system, "veth", &vec![paced(&[one]); 5])
        };
        let text = ratios(&[at("barewire", 1_000), at("bridge", 1_000)]);
        assert!(text.contains("by CPU time a packet, both hosts' included"), "{text}");
        assert_eq!(ratios(&[at("barewire", 1_000), at("bridge", 10_000)]), "");
        // Without one that was offered as it should be, there is none.
        let late = Paced { offered_pps: 1_000, sent: 9, received: 9, behind: 9, ..Paced::default() };
        let row = hosts("bridge", "veth", &[paced(&[late])]);
        assert_eq!(row.number("cpu_at_pps"), None);
        assert!(row.notes[0].starts_with("void: at 1000 packets/s the sender was late for 100.0 %"));
    }
}
