//! Rows about switches as text.

use super::row::{SwitchRow, SwitchRun};
use crate::messages::IdleState;
use crate::render::{Known, contended, latency, listing, maybe, or_dash, percentile, plain, rate};
use crate::rounds::{spread, spread_ns};
use barewire_report::compare::{Method, standing};
use barewire_report::figure::Better;
use std::fmt::Write as _;

/// One figure of a run.
type Figure = fn(&SwitchRun) -> Option<f64>;

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// What a reader has to know about a row before using it; void first.
pub fn notes(row: &SwitchRow) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &row.void {
        notes.push(format!("VOID: {why}"));
    }
    if let Some(why) = &row.recorded {
        notes.push(why.clone());
    }
    if row.contended {
        notes.push(contended(&row.contention));
    }
    if row.idle_state == Some(IdleState::Cold) {
        notes.push("cores left to sleep".to_owned());
    }
    if row.checked > 0 {
        notes.push(format!("{} packets checked", row.checked));
    }
    notes.extend(row.notes.iter().cloned());
    // A row without any run is void for the same reason.
    notes.extend(row.broken_off.clone().filter(|_| row.void != row.broken_off));
    notes
}

/// The table of engines without wires: memory and files.
fn engines(rows: &[&SwitchRow]) -> String {
    let cells = |row: &&SwitchRow| {
        let of = |figure: Figure| row.runs.iter().filter_map(figure);
        let each = of(|r| r.rate_pps.filter(|&pps| pps > 0.0).map(|pps| 1e9 / pps));
        vec![
            plain("system", &row.system),
            plain("over", &row.over),
            plain("engine", row.engine.as_deref().unwrap_or_default()),
            plain("program", row.program.as_deref().unwrap_or_default()),
            plain("size", row.size),
            maybe("entries", row.entries, |n| n.to_string()),
            maybe("masks", row.masks, |n| n.to_string()),
            ("packets/s", or_dash(row.rate_pps, rate), spread(of(|r| r.rate_pps), rate)),
            ("ns/packet", or_dash(row.ns_per_packet, number), spread(each, number)),
            ("loop/s", or_dash(row.loop_rate_pps, rate), spread(of(|r| r.loop_rate_pps), rate)),
            maybe("instr/packet", row.instructions_per_packet, |n| format!("{n:.0}")),
            ("CPU us/packet", or_dash(row.cpu_us_per_packet, number), spread(row.cpu_of_runs(), number)),
        ]
    };
    listing(rows, 4, cells, |row| notes(row), |row| row.runs.len())
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, latency(ns.unsigned_abs()))
}

/// The median round trip, or what it is above another; `n<20` where it was measured and too few came back.
fn round_trip<T>(row: &SwitchRow, value: Option<T>, how: impl Fn(T) -> String) -> String {
    match (value, row.rtt_p50_ns, row.rtt_samples) {
        (Some(value), ..) => how(value),
        (None, None, Some(_)) => percentile(None, 0.5),
        (None, ..) => "-".to_owned(),
    }
}

/// The table of switches between two hosts.
fn between_hosts(rows: &[&SwitchRow]) -> String {
    let lost = |row: &SwitchRow| -> u64 { row.paced.iter().map(|p| p.lost()).sum() };
    let cells = |row: &&SwitchRow| {
        let sent: u64 = row.paced.iter().map(|p| p.sent).sum();
        let of = |figure: Figure| row.runs.iter().filter_map(figure);
        let above = |figure: fn(&SwitchRun) -> Option<i64>| {
            spread(row.runs.iter().filter_map(figure).map(|ns| ns as f64), |ns| signed(ns as i64))
        };
        let whole = |mbps: f64| format!("{mbps:.0}");
        let (cpu, machine) = (row.cpu_of_runs(), row.machine_cpu_of_runs());
        vec![
            plain("system", &row.system),
            plain("over", &row.over),
            plain("engine", row.engine.as_deref().unwrap_or_default()),
            maybe("offloads", row.offloads, |on| if on { "on" } else { "off" }.to_owned()),
            ("TCP Mbit/s", or_dash(row.tcp_mbps, whole), spread(of(|r| r.tcp_mbps), whole)),
            ("UDP/s <=1 % loss", or_dash(row.udp_pps, rate), spread(of(|r| r.udp_pps), rate)),
            ("UDP/s peak", or_dash(row.udp_peak_pps, rate), spread(of(|r| r.udp_peak_pps), rate)),
            ("UDP/s flood", or_dash(row.udp_flood_pps, rate), spread(of(|r| r.udp_flood_pps), rate)),
            (
                "RTT p50",
                round_trip(row, row.rtt_p50_ns, latency),
                spread_ns(row.runs.iter().map(|r| r.rtt_p50_ns)),
            ),
            ("added", round_trip(row, row.added_latency_ns, signed), above(|r| r.added_latency_ns)),
            ("over bridge", round_trip(row, row.over_bridge_ns, signed), above(|r| r.over_bridge_ns)),
            ("CPU us/packet", or_dash(row.cpu_us_per_packet, number), spread(cpu, number)),
            ("with hosts", or_dash(row.machine_cpu_us_per_packet, number), spread(machine, number)),
            maybe("lost/paced", (sent > 0).then_some(sent), |sent| format!("{}/{sent}", lost(row))),
        ]
    };
    let notes = |row: &&SwitchRow| {
        let mut notes = notes(row);
        notes.extend(row.iperf_mbps.map(|mbps| format!("iperf {mbps:.0} Mbit/s")));
        if lost(row) > 0 {
            let drops: Vec<String> = row.drops.iter().map(|(why, n)| format!("{why} {n}")).collect();
            notes.push(match drops.is_empty() {
                true => "lost packets: no counter says where".to_owned(),
                false => format!("lost packets: {}", drops.join(", ")),
            });
        }
        notes
    };
    listing(rows, 4, cells, notes, |row| row.runs.len())
}

/// Tables of `rows`, in their order: engines first, hosts second.
pub fn text_table(rows: &[SwitchRow]) -> String {
    let (files, hosts): (Vec<&SwitchRow>, Vec<&SwitchRow>) =
        rows.iter().partition(|row| row.offloads.is_none());
    let mut out = String::new();
    if !files.is_empty() {
        out += &engines(&files);
    }
    if !hosts.is_empty() {
        if !files.is_empty() {
            out.push('\n');
        }
        out += &between_hosts(&hosts);
    }
    out + &ratios(rows)
}

/// Whether two rows did the same. What was recorded elsewhere had frames of about that size.
fn is_same_work(ours: &Known<'_, SwitchRow>, other: &Known<'_, SwitchRow>) -> bool {
    let of = |row: &SwitchRow| match row.offloads {
        Some(offloads) => (Some((offloads, row.gro)), None),
        None => (None, Some((row.over.clone(), row.program.clone(), row.entries))),
    };
    match other.row.recorded {
        Some(_) => of(ours.row) == of(other.row),
        None => ours.same_work(other),
    }
}

/// How ours stands beside others, figure by figure, each in a sentence with its interval, or with what is missing for one: only what
/// both have.
pub fn ratios(rows: &[SwitchRow]) -> String {
    let (mut out, rows) = (String::new(), Known::all(rows));
    let usable = |known: &&Known<'_, SwitchRow>| known.is_judged();
    for known in rows.iter().filter(|k| k.row.system == "barewire").filter(usable) {
        let others = rows.iter().filter(|k| !["barewire", "direct"].contains(&k.row.system.as_str()));
        for other in others.filter(usable).filter(|other| is_same_work(known, other)) {
            let (ours, other) = (known.row, other.row);
            let recorded = if other.recorded.is_some() { "recorded " } else { "" };
            let name = format!("{recorded}{} over {}", other.system, other.over);
            let engine = ours.engine.as_ref().map_or_else(String::new, |engine| format!("{engine} "));
            let point = match (ours.offloads, ours.entries) {
                (None, Some(n)) => format!(", {n} entries"),
                (Some(true), _) => ", offloads on".to_owned(),
                _ if ours.gro == Some(true) => ", hosts poll".to_owned(),
                _ => String::new(),
            };
            let mut say = |what: &str, ours_runs: &[f64], runs: &[f64], better: Better| {
                if let Some(standing) = standing(ours_runs, runs, better, &Method::default()) {
                    let words = standing.words(&name);
                    let _ = writeln!(out, "barewire {engine}over {} is {words} by {what}{point}", ours.over);
                }
            };
            let runs = |row: &SwitchRow, figure: Figure| -> Vec<f64> {
                row.runs.iter().filter_map(figure).collect()
            };
            let rates: [(&str, Figure); 4] = [
                ("packets/s", |r| r.rate_pps),
                ("TCP", |r| r.tcp_mbps),
                ("UDP carried", |r| r.udp_pps),
                ("UDP peak", |r| r.udp_peak_pps),
            ];
            for (what, figure) in rates {
                say(what, &runs(ours, figure), &runs(other, figure), Better::Higher);
            }
            let rtt = |row: &SwitchRow| runs(row, |r| r.rtt_p50_ns.map(|ns| ns as f64));
            say("round trip", &rtt(ours), &rtt(other), Better::Lower);
            if ours.cpu_at_pps == other.cpu_at_pps {
                say("CPU time a packet", &ours.cpu_of_runs(), &other.cpu_of_runs(), Better::Lower);
                let all = [ours, other].map(SwitchRow::machine_cpu_of_runs);
                say("CPU time a packet, both hosts' included", &all[0], &all[1], Better::Lower);
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::live::recorded;
    use crate::switch::row::{Paced, SwitchRun};

    fn row(system: &str, over: &str, run: SwitchRun) -> SwitchRow {
        rows_of(system, over, vec![run])
    }

    fn rows_of(system: &str, over: &str, runs: Vec<SwitchRun>) -> SwitchRow {
        let mut row =
            SwitchRow { system: system.into(), over: over.into(), size: 64, ..SwitchRow::default() };
        row.take_runs(runs);
        row
    }

    fn at_rates(rates: &[f64]) -> Vec<SwitchRun> {
        rates.iter().map(|&pps| SwitchRun { rate_pps: Some(pps), ..SwitchRun::default() }).collect()
    }

    #[test]
    fn engines_have_their_table_with_least_and_most() {
        let mut ours = rows_of("barewire", "pcap", at_rates(&[12.5e6, 12.0e6, 13.0e6, 12.6e6, 12.4e6]));
        ours.program = Some("simple_router".into());
        ours.engine = Some("native".into());
        ours.entries = Some(1000);
        let mut theirs = rows_of("bmv2", "pcap", at_rates(&[1.0e5, 1.02e5, 0.98e5, 1.01e5, 0.99e5]));
        theirs.program = ours.program.clone();
        theirs.entries = Some(1000);
        theirs.void = Some("wrong: byte 3".into());
        let text = text_table(&[ours.clone(), theirs.clone()]);
        for part in ["12.5M", "80.00", "VOID: wrong: byte 3", "  min..max", "12.0M..13.0M", "of 5 runs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(ratios(&[ours.clone(), theirs.clone()]), "", "void rows are compared with nothing");
        theirs.void = None;
        let text = ratios(&[ours.clone(), theirs.clone()]);
        assert!(text.starts_with("\nbarewire native over pcap is 125 (1"), "{text}");
        assert!(text.contains(") times faster than bmv2 over pcap by packets/s, 1000 entries"), "{text}");
        // Memory is no file: a ring in a cache is no wire.
        ours.over = "mem".into();
        assert_eq!(ratios(&[ours, theirs]), "");
    }

    #[test]
    fn another_program_between_the_same_hosts_is_other_work() {
        let with = |system: &str, program: &str| {
            let run = SwitchRun { tcp_mbps: Some(2_000.0), ..SwitchRun::default() };
            let mut row = rows_of(system, "veth", vec![run; 5]);
            (row.offloads, row.program) = (Some(false), (!program.is_empty()).then(|| program.to_owned()));
            row
        };
        let rows = [
            with("barewire", "one"),
            with("barewire", "two"),
            with("bmv2", "one"),
            with("bmv2", "two"),
            with("bridge", ""),
        ];
        assert_eq!(ratios(&rows).trim().lines().count(), 4, "each beside its own, and beside the bridge");
    }

    #[test]
    fn without_enough_runs_there_is_a_ratio_and_no_verdict() {
        for (runs, range, words) in
            [(1, "", "one run, no verdict"), (3, " (4.00 to 4.00)", "3 runs, too few for a verdict")]
        {
            let mut ours = rows_of("barewire", "pcap", at_rates(&[4e6; 5][..runs]));
            let mut theirs = rows_of("bmv2", "pcap", at_rates(&[1e6; 5][..runs]));
            (ours.program, theirs.program) = (Some("acl".into()), Some("acl".into()));
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
        let mut broken = row("bmv2", "pcap", at_rates(&[1e5]).remove(0));
        broken.broken_off = Some("run 2 of 5 failed: gone".into());
        assert_eq!(notes(&broken), ["run 2 of 5 failed: gone"]);
        broken.void = broken.broken_off.clone();
        assert_eq!(notes(&broken), ["VOID: run 2 of 5 failed: gone"]);
    }

    #[test]
    fn hosts_have_theirs_with_every_loss_in_words() {
        let paced = Paced {
            offered_pps: 1000,
            sent: 100,
            received: 97,
            drops: [("s2 tx_dropped".to_owned(), 3)].into(),
            ..Paced::default()
        };
        let run = SwitchRun {
            tcp_mbps: Some(2_000.0),
            added_latency_ns: Some(-1_500),
            paced: vec![paced],
            ..SwitchRun::default()
        };
        let mut ours = row("barewire", "xdp", run.clone());
        ours.offloads = Some(false);
        let mut bridge = rows_of("bridge", "veth", vec![run.clone(); 5]);
        bridge.offloads = Some(false);
        let mut bare = row("bare-loop", "packet", run.clone());
        bare.offloads = Some(false);
        let text = text_table(&[ours, bare, bridge.clone(), recorded()]);
        for part in [
            "3/100",
            "lost packets: s2 tx_dropped 3",
            "-1.5 us",
            "-1.5 us..-1.5 us",
            "not measured in this run",
            "barewire over xdp is 2.93 times recorded bmv2 over veth (one run, no verdict) by TCP",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("of bare-loop"), "a loop over other ports: {text}");
        let mut many = rows_of("barewire", "packet", vec![run; 5]);
        many.offloads = Some(false);
        let text = ratios(&[many, bridge]);
        assert!(
            text.contains("barewire over packet is within noise of bridge over veth (1.00 to 1.00) by TCP")
        );
    }

    #[test]
    fn a_median_of_too_few_says_how_many_it_takes() {
        let shown = |run: SwitchRun| {
            let row = row("bridge", "veth", run);
            let above = round_trip(&row, row.added_latency_ns, signed);
            (round_trip(&row, row.rtt_p50_ns, latency), above)
        };
        let of = |median: &str, above: &str| (median.to_owned(), above.to_owned());
        assert_eq!(shown(SwitchRun::default()), of("-", "-"), "not measured");
        let thin = SwitchRun { rtt_samples: Some(7), ..SwitchRun::default() };
        assert_eq!(shown(thin.clone()), of("n<20", "n<20"));
        // Measured, and nothing beside it that it could be above of.
        assert_eq!(shown(SwitchRun { rtt_p50_ns: Some(18_000), ..thin }), of("18 us", "-"));
    }
}
