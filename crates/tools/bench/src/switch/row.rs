//! A row about a switch.

use crate::histograms::Histograms;
use crate::messages::IdleState;
use crate::messages::driver::LAG_PERCENT_MAX;
use crate::rounds::{Made, median, once_each};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    #[serde(default)]
    pub behind: u64,
    /// CPU time of the switch's own threads for each packet, in us. `None` where the switch is the kernel.
    pub cpu_us_per_packet: Option<f64>,
    /// CPU time of all who touch a packet, in us: both hosts, the switch, and the kernel for them.
    pub machine_cpu_us_per_packet: Option<f64>,
    /// Where packets were dropped: by reason or by counter.
    #[serde(default)]
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

/// One run of a row. What was not measured is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchRun {
    /// Packets per second through the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_pps: Option<f64>,
    /// Packets per second of the loop around it: generator, switch and sink in one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_rate_pps: Option<f64>,
    /// CPU time of the switch for each packet, in us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_packet: Option<f64>,
    /// Payload of one TCP stream, in Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_mbps: Option<f64>,
    /// Its packets with data per second, as the second host's interface counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_data_packets_per_s: Option<f64>,
    /// The same by `iperf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iperf_mbps: Option<f64>,
    /// Most UDP packets per second that were offered with at most one in a hundred lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_pps: Option<f64>,
    /// Most UDP packets per second that arrived, whatever was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_peak_pps: Option<f64>,
    /// UDP packets per second that a sender without pauses offered, and that arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_flood_offered_pps: Option<f64>,
    #[allow(missing_docs)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_flood_pps: Option<f64>,
    /// Median round trip of a UDP request and its echo, in ns: twice through the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_p50_ns: Option<u64>,
    /// 99th percentile of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_p99_ns: Option<u64>,
    /// How many round trips those are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_samples: Option<u64>,
    /// Requests that had no answer, which are in none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_lost: Option<u64>,
    /// The median, less that of the hosts' direct wire in the same round, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_latency_ns: Option<i64>,
    /// The median, less that of the kernel's bridge in the same round, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_bridge_ns: Option<i64>,
    /// Those round trips.
    #[serde(skip)]
    pub rtt: Histograms,
    /// Paced runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paced: Vec<Paced>,
    /// Another process ran on our cores, or the hypervisor took them.
    pub contended: bool,
    /// How that showed; its row says it.
    #[serde(skip)]
    pub contention: Vec<String>,
    /// Why the run is void, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
}

/// One row. Figures are medians over its runs; what was not measured is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchRow {
    /// `barewire`, `bare-loop`, `bridge`, `routing`, `direct`, `bmv2`.
    pub system: String,
    /// `mem`, `pcap`, `xdp`, `packet`, `veth`.
    pub over: String,
    /// The P4 program.
    pub program: Option<String>,
    /// `native` or `interpreter`.
    pub engine: Option<String>,
    /// Bytes of a packet, without FCS.
    pub size: u32,
    /// Entries of the table that is swept.
    pub entries: Option<u32>,
    /// Distinct masks among them, in a ternary table.
    pub masks: Option<u32>,
    /// Distinct packets sent in turn.
    pub flows: Option<u32>,
    /// Segmentation and checksums were left to the interfaces of the hosts.
    pub offloads: Option<bool>,
    /// The hosts poll (NAPI with GRO), so that programs may stand in the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gro: Option<bool>,
    /// State of the cores, between hosts: alone with its packets, a switch never waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_state: Option<IdleState>,
    /// Packets per second through the switch.
    pub rate_pps: Option<f64>,
    /// The inverse, in ns.
    pub ns_per_packet: Option<f64>,
    /// Packets per second of generator, switch and sink in one thread.
    pub loop_rate_pps: Option<f64>,
    /// Instructions of the switch for each packet, counted by callgrind.
    pub instructions_per_packet: Option<f64>,
    /// CPU time of the switch for each packet, in us: at the highest rate in files, at [`SwitchRow::cpu_at_pps`] between
    /// hosts.
    pub cpu_us_per_packet: Option<f64>,
    /// Rate at which that was taken; null: as fast as it goes.
    pub cpu_at_pps: Option<u64>,
    /// CPU time of all who touch a packet, in us, at that rate: both hosts, the switch, and the kernel for them. What `direct` has of it is
    /// the hosts' own.
    #[serde(default)]
    pub machine_cpu_us_per_packet: Option<f64>,
    /// Payload of one TCP stream, in Mbit/s.
    pub tcp_mbps: Option<f64>,
    /// Its packets with data per second, as the second host's interface counted them. With offloads on one may be some segments.
    #[serde(default)]
    pub tcp_data_packets_per_s: Option<f64>,
    /// The same by `iperf`, when asked for.
    pub iperf_mbps: Option<f64>,
    /// Most UDP packets per second that were offered with at most one in a hundred lost.
    pub udp_pps: Option<f64>,
    /// Most UDP packets per second that arrived.
    pub udp_peak_pps: Option<f64>,
    /// UDP packets per second that arrived when the sender did not pause.
    pub udp_flood_pps: Option<f64>,
    /// Median round trip of a UDP request and its echo, in ns.
    pub rtt_p50_ns: Option<u64>,
    /// Round trips of all runs.
    #[serde(default)]
    pub rtt_samples: Option<u64>,
    /// Requests of all runs that had no answer.
    #[serde(default)]
    pub rtt_lost: Option<u64>,
    /// That median, less the median of the hosts' direct wire in the same rounds: twice through the switch.
    pub added_latency_ns: Option<i64>,
    /// That, less the median of the kernel's bridge.
    pub over_bridge_ns: Option<i64>,
    /// Paced runs, over all runs.
    #[serde(default)]
    pub paced: Vec<Paced>,
    /// Table entries written per second while the row was set up.
    pub table_writes_per_s: Option<f64>,
    /// From JSON text to a program that can run, in us.
    pub load_us: Option<u64>,
    /// Packets that were compared byte by byte with what they had to become.
    pub checked: u64,
    /// Packets dropped, by reason, over all runs.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Cost of a clock reading that was taken off every timed span, in ns.
    pub clock_ns: Option<u64>,
    /// Measured seconds of a run.
    pub seconds: f64,
    /// Each run.
    #[serde(default)]
    pub runs: Vec<SwitchRun>,
    /// Some run was contended.
    pub contended: bool,
    /// Why.
    #[serde(default)]
    pub contention: Vec<String>,
    /// The figures were not measured in this run of the command, but come from here.
    pub recorded: Option<String>,
    /// What a reader has to know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// A run failed, and those after it were not made: which, and why. The figures are of the runs before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// The exact command that produced the row.
    pub command: String,
    /// `rtt`: of the UDP request and its echo.
    #[serde(default, skip_serializing)]
    pub histograms: Histograms,
}

crate::histograms::bench_row!(SwitchRow, |_| "switch");

/// A row of what came of its turns. Without any run it is void: whoever asked for it sees that it was tried.
pub(super) fn finished(mut row: SwitchRow, made: &Made<SwitchRun>) -> SwitchRow {
    row.broken_off.clone_from(&made.broken_off);
    row.take_runs(made.each().cloned().collect());
    if row.runs.is_empty() && row.void.is_none() {
        row.void.clone_from(&row.broken_off);
    }
    row
}

/// Rows as far as they are measured.
pub(super) fn so_far(rows: &[SwitchRow], made: &[Made<SwitchRun>]) -> Vec<SwitchRow> {
    let begun = rows.iter().zip(made).filter(|(_, made)| !made.runs.is_empty());
    begun.map(|(row, made)| finished(row.clone(), made)).collect()
}

/// What is told of a measurement while it goes on: what runs now, and after each round the rows so far.
pub struct Told<'a> {
    /// Hears what runs now.
    pub tell: &'a mut (dyn FnMut(String) + Send),
    /// Gets the rows so far.
    pub keep: &'a mut (dyn FnMut(&[SwitchRow]) + Send),
}

fn rounded(value: f64, to: f64) -> f64 {
    (value / to).round() * to
}

impl SwitchRow {
    /// Takes runs in: medians of each figure, sums of what is counted.
    pub fn take_runs(&mut self, runs: Vec<SwitchRun>) {
        let of = |figure: fn(&SwitchRun) -> Option<f64>| median(runs.iter().filter_map(figure));
        let whole = |value: Option<f64>| value.map(|v| v.round());
        self.rate_pps = whole(of(|r| r.rate_pps));
        self.ns_per_packet = self.rate_pps.filter(|&pps| pps > 0.0).map(|pps| rounded(1e9 / pps, 0.01));
        self.loop_rate_pps = whole(of(|r| r.loop_rate_pps));
        self.tcp_mbps = of(|r| r.tcp_mbps).map(|v| rounded(v, 0.1));
        self.tcp_data_packets_per_s = whole(of(|r| r.tcp_data_packets_per_s));
        self.iperf_mbps = of(|r| r.iperf_mbps);
        self.udp_pps = whole(of(|r| r.udp_pps));
        self.udp_peak_pps = whole(of(|r| r.udp_peak_pps));
        self.udp_flood_pps = whole(of(|r| r.udp_flood_pps));
        self.rtt_p50_ns = of(|r| r.rtt_p50_ns.map(|ns| ns as f64)).map(|ns| ns as u64);
        let signed = |value: Option<f64>| whole(value).map(|ns| ns as i64);
        self.added_latency_ns = signed(of(|r| r.added_latency_ns.map(|ns| ns as f64)));
        self.over_bridge_ns = signed(of(|r| r.over_bridge_ns.map(|ns| ns as f64)));
        let sum = |count: fn(&SwitchRun) -> Option<u64>| runs.iter().filter_map(count).reduce(|a, b| a + b);
        self.rtt_samples = sum(|r| r.rtt_samples);
        self.rtt_lost = sum(|r| r.rtt_lost);
        if let (Some(answered), Some(lost @ 1..)) = (self.rtt_samples, self.rtt_lost) {
            self.notes.push(format!("{lost} of {} requests had no answer", answered + lost));
        }
        self.paced = sum_paced(&runs);
        runs.iter().for_each(|run| self.histograms.extend(&run.rtt));
        if let Some(cpu) = of(|r| r.cpu_us_per_packet) {
            self.cpu_us_per_packet = Some(rounded(cpu, 0.0001));
        } else if let Some(fastest) =
            self.paced.iter().filter(|p| p.void().is_none()).max_by_key(|p| p.offered_pps)
        {
            self.cpu_us_per_packet = fastest.cpu_us_per_packet;
            self.cpu_at_pps = Some(fastest.offered_pps);
            self.machine_cpu_us_per_packet = fastest.machine_cpu_us_per_packet;
        }
        for paced in &self.paced {
            for (reason, count) in &paced.drops {
                *self.drops.entry(reason.clone()).or_default() += count;
            }
        }
        let void: Vec<String> = self.paced.iter().filter_map(Paced::void).collect();
        if !void.is_empty() {
            self.notes.push(format!("void: {}", void.join(", ")));
        }
        self.contended |= runs.iter().any(|r| r.contended);
        self.contention = once_each(runs.iter().flat_map(|run| &run.contention));
        self.void = self.void.take().or_else(|| runs.iter().find_map(|r| r.void.clone()));
        self.runs = runs;
    }

    /// CPU time for each packet of each run, in us, at the rate at which the row's is.
    pub(crate) fn cpu_of_runs(&self) -> Vec<f64> {
        match self.cpu_at_pps {
            None => self.runs.iter().filter_map(|run| run.cpu_us_per_packet).collect(),
            Some(_) => self.paced_of_runs(|paced| paced.cpu_us_per_packet),
        }
    }

    /// The same of all who touch a packet.
    pub(crate) fn machine_cpu_of_runs(&self) -> Vec<f64> {
        self.paced_of_runs(|paced| paced.machine_cpu_us_per_packet)
    }

    fn paced_of_runs(&self, figure: fn(&Paced) -> Option<f64>) -> Vec<f64> {
        let at = |run: &SwitchRun| {
            let paced = |p: &&Paced| Some(p.offered_pps) == self.cpu_at_pps && p.void().is_none();
            run.paced.iter().find(paced).and_then(figure)
        };
        self.runs.iter().filter_map(at).collect()
    }

    /// What the row is about, in one line.
    pub fn title(&self) -> String {
        let mut text = format!("{} over {}", self.system, self.over);
        if let Some(engine) = &self.engine {
            text += &format!(" ({engine})");
        }
        if let Some(program) = &self.program {
            text += &format!(", {program}");
        }
        text += &format!(", {} B", self.size);
        if let Some(entries) = self.entries {
            text += &format!(", {entries} entries");
        }
        if let Some(masks) = self.masks {
            text += &format!(", {masks} masks");
        }
        text
    }
}

/// Paced runs at one rate as one: counts are sums, costs are medians.
fn sum_paced(runs: &[SwitchRun]) -> Vec<Paced> {
    let mut rates: Vec<u64> = runs.iter().flat_map(|r| r.paced.iter().map(|p| p.offered_pps)).collect();
    rates.sort_unstable();
    rates.dedup();
    let at = |rate: u64| {
        let of_rate: Vec<&Paced> =
            runs.iter().flat_map(|r| r.paced.iter()).filter(|p| p.offered_pps == rate).collect();
        let middle = |cost: fn(&Paced) -> Option<f64>| {
            median(of_rate.iter().filter_map(|p| cost(p))).map(|us| rounded(us, 0.01))
        };
        let mut drops = BTreeMap::new();
        for (reason, count) in of_rate.iter().flat_map(|p| &p.drops) {
            *drops.entry(reason.clone()).or_default() += count;
        }
        Paced {
            offered_pps: rate,
            sent: of_rate.iter().map(|p| p.sent).sum(),
            received: of_rate.iter().map(|p| p.received).sum(),
            behind: of_rate.iter().map(|p| p.behind).sum(),
            cpu_us_per_packet: middle(|p| p.cpu_us_per_packet),
            machine_cpu_us_per_packet: middle(|p| p.machine_cpu_us_per_packet),
            drops,
        }
    };
    rates.into_iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pps: f64, sent: u64, received: u64) -> SwitchRun {
        let drops = BTreeMap::from([("rx_dropped".to_owned(), sent - received)]);
        SwitchRun {
            rate_pps: Some(pps),
            paced: vec![
                Paced {
                    offered_pps: 1000,
                    sent,
                    received,
                    cpu_us_per_packet: Some(2.0),
                    drops,
                    ..Paced::default()
                },
                Paced { offered_pps: 10, sent: 1, received: 1, ..Paced::default() },
            ],
            ..SwitchRun::default()
        }
    }

    #[test]
    fn a_row_is_the_median_of_its_runs_and_the_sum_of_its_counts() {
        let mut row = SwitchRow::default();
        let mut runs = vec![run(1e6, 100, 99), run(4e6, 100, 100), run(2e6, 100, 98)];
        runs[1].contended = true;
        runs[1].contention = vec!["stolen: x".to_owned(), "others: y".to_owned()];
        runs[2].contention = vec!["stolen: x".to_owned()];
        (runs[0].added_latency_ns, runs[1].added_latency_ns) = (Some(-300), Some(-100));
        row.take_runs(runs);
        assert_eq!((row.added_latency_ns, row.over_bridge_ns), (Some(-200), None));
        assert_eq!(row.cpu_of_runs(), [2.0; 3], "of the rate at which the row has it");
        assert_eq!((row.rate_pps, row.ns_per_packet), (Some(2e6), Some(500.0)));
        assert_eq!(row.paced.iter().map(|p| p.offered_pps).collect::<Vec<_>>(), [10, 1000]);
        let paced = &row.paced[1];
        assert_eq!((paced.sent, paced.received, paced.lost()), (300, 297, 3));
        assert_eq!((row.cpu_us_per_packet, row.cpu_at_pps), (Some(2.0), Some(1000)));
        assert_eq!(row.drops, BTreeMap::from([("rx_dropped".to_owned(), 3)]));
        assert!(row.contended && row.void.is_none());
        assert_eq!(row.contention, ["stolen: x", "others: y"]);
        assert_eq!(crate::switch::render::notes(&row)[0], "contended (stolen, others)");
    }

    #[test]
    fn requests_without_an_answer_are_told() {
        let of = |samples, lost| SwitchRun {
            rtt_samples: Some(samples),
            rtt_lost: Some(lost),
            tcp_data_packets_per_s: Some(lost as f64),
            ..SwitchRun::default()
        };
        let mut row = SwitchRow::default();
        row.take_runs(vec![of(100, 0), of(50, 3), of(40, 1)]);
        assert_eq!((row.rtt_samples, row.rtt_lost), (Some(190), Some(4)));
        assert_eq!(row.notes, ["4 of 194 requests had no answer"]);
        assert_eq!(row.tcp_data_packets_per_s, Some(1.0));
        let mut row = SwitchRow::default();
        row.take_runs(vec![of(100, 0), SwitchRun::default()]);
        assert_eq!((row.rtt_lost, row.notes.len()), (Some(0), 0));
    }

    #[test]
    fn a_void_run_voids_its_row() {
        let mut row = SwitchRow::default();
        row.take_runs(vec![run(1e6, 1, 1), SwitchRun { void: Some("wrong".into()), ..run(1e6, 1, 1) }]);
        assert_eq!(row.void.as_deref(), Some("wrong"));
    }

    #[test]
    fn the_document_reads_back_and_has_its_keys() {
        let mut row = SwitchRow { system: "barewire".into(), over: "mem".into(), ..SwitchRow::default() };
        row.take_runs(vec![run(1e7 / 3.0, 10, 10)]);
        let mut results = crate::Results::begin();
        results.add(std::slice::from_ref(&row)).unwrap();
        let json = results.document(barewire_report::run::HardwareClass::OneMachine, false, &[]).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::from_value::<SwitchRow>(read["rows"][0].clone()).unwrap(), row);
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
}
