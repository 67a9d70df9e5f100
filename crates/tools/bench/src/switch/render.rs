//! Rows about switches as text.

use super::row::SwitchRow;
use crate::render::{latency, percentile, rate};
use std::fmt::Write as _;

fn shown<T>(value: Option<T>, how: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), how)
}

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
        notes.push("contended".to_owned());
    }
    if row.checked > 0 {
        notes.push(format!("{} packets checked", row.checked));
    }
    notes.extend(row.notes.iter().cloned());
    notes
}

/// Columns that fit, numbers to the right; the last one is text of any length.
pub(crate) fn columns(head: &[&str], lines: Vec<(Vec<String>, String)>, left: usize) -> String {
    let mut all = vec![(head.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>(), "notes".to_owned())];
    all.extend(lines);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| all.iter().map(|(cells, _)| cells[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for (cells, notes) in &all {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let _ = if column < left {
                write!(line, "{cell:<width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        line.push_str(notes);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The table of engines without wires: memory and files.
fn engines(rows: &[&SwitchRow]) -> String {
    let lines = rows.iter().map(|row| {
        let cells = vec![
            row.system.clone(),
            row.over.clone(),
            row.engine.clone().unwrap_or_default(),
            row.program.clone().unwrap_or_default(),
            row.size.to_string(),
            shown(row.entries, |n| n.to_string()),
            shown(row.masks, |n| n.to_string()),
            shown(row.rate_pps, rate),
            shown(row.ns_per_packet, number),
            shown(row.loop_rate_pps, rate),
            shown(row.instructions_per_packet, |n| format!("{n:.0}")),
            shown(row.cpu_us_per_packet, number),
        ];
        (cells, notes(row).join("; "))
    });
    let head = [
        "system",
        "over",
        "engine",
        "program",
        "size",
        "entries",
        "masks",
        "packets/s",
        "ns/packet",
        "loop/s",
        "instr/packet",
        "CPU us/packet",
    ];
    columns(&head, lines.collect(), 4)
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
    let lines = rows.iter().map(|row| {
        let lost: u64 = row.paced.iter().map(|p| p.lost()).sum();
        let sent: u64 = row.paced.iter().map(|p| p.sent).sum();
        let cells = vec![
            row.system.clone(),
            row.over.clone(),
            row.engine.clone().unwrap_or_default(),
            shown(row.offloads, |on| if on { "on" } else { "off" }.to_owned()),
            shown(row.tcp_mbps, |m| format!("{m:.0}")),
            shown(row.udp_pps, rate),
            shown(row.udp_peak_pps, rate),
            shown(row.udp_flood_pps, rate),
            round_trip(row, row.rtt_p50_ns, latency),
            round_trip(row, row.added_latency_ns, signed),
            round_trip(row, row.over_bridge_ns, signed),
            shown(row.cpu_us_per_packet, number),
            if sent > 0 { format!("{lost}/{sent}") } else { "-".to_owned() },
        ];
        let mut notes = notes(row);
        if let Some(mbps) = row.iperf_mbps {
            notes.push(format!("iperf {mbps:.0} Mbit/s"));
        }
        if lost > 0 {
            let drops: Vec<String> = row.drops.iter().map(|(why, n)| format!("{why} {n}")).collect();
            notes.push(match drops.is_empty() {
                true => "lost packets: no counter says where".to_owned(),
                false => format!("lost packets: {}", drops.join(", ")),
            });
        }
        (cells, notes.join("; "))
    });
    let head = [
        "system",
        "over",
        "engine",
        "offloads",
        "TCP Mbit/s",
        "UDP/s <=1 % loss",
        "UDP/s peak",
        "UDP/s flood",
        "RTT p50",
        "added",
        "over bridge",
        "CPU us/packet",
        "lost/paced",
    ];
    columns(&head, lines.collect(), 4)
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

/// Our rows against those beside them, in words: only what both have.
pub fn ratios(rows: &[SwitchRow]) -> String {
    let mut out = String::new();
    let usable = |row: &&SwitchRow| row.void.is_none();
    for ours in rows.iter().filter(|r| r.system == "barewire").filter(usable) {
        for other in rows.iter().filter(|r| r.system != "barewire" && r.system != "direct").filter(usable) {
            let same = ours.offloads == other.offloads
                && (ours.offloads.is_some()
                    || (&ours.program, ours.entries) == (&other.program, other.entries))
                && (other.system != "bare-loop" || other.over == ours.over);
            if !same {
                continue;
            }
            let mut parts = Vec::new();
            let mut add = |what: &str, a: Option<f64>, b: Option<f64>| {
                if let (Some(a), Some(b)) = (a, b.filter(|&b| b > 0.0)) {
                    parts.push(format!("{what} {:.2}", a / b));
                }
            };
            add("packets/s", ours.rate_pps, other.rate_pps);
            add("TCP", ours.tcp_mbps, other.tcp_mbps);
            add("UDP carried", ours.udp_pps, other.udp_pps);
            add("UDP peak", ours.udp_peak_pps, other.udp_peak_pps);
            if ours.cpu_at_pps == other.cpu_at_pps {
                add("CPU/packet", ours.cpu_us_per_packet, other.cpu_us_per_packet);
            }
            if !parts.is_empty() {
                let engine = ours.engine.as_deref().unwrap_or("");
                let what = if other.recorded.is_some() { "recorded " } else { "" };
                let entries = match (ours.offloads, ours.entries) {
                    (None, Some(n)) => format!(", {n} entries"),
                    (Some(true), _) => ", offloads on".to_owned(),
                    _ => String::new(),
                };
                let _ = writeln!(
                    out,
                    "barewire {engine} over {}{entries} / {what}{} over {}: {}",
                    ours.over,
                    other.system,
                    other.over,
                    parts.join(", ")
                );
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
        let mut row =
            SwitchRow { system: system.into(), over: over.into(), size: 64, ..SwitchRow::default() };
        row.take_runs(vec![run]);
        row
    }

    #[test]
    fn engines_have_their_table() {
        let mut ours = row("barewire", "mem", SwitchRun { rate_pps: Some(12.5e6), ..SwitchRun::default() });
        ours.program = Some("simple_router".into());
        ours.engine = Some("native".into());
        ours.entries = Some(1000);
        let mut theirs = row("bmv2", "pcap", SwitchRun { rate_pps: Some(1e5), ..SwitchRun::default() });
        theirs.program = ours.program.clone();
        theirs.entries = Some(1000);
        theirs.void = Some("wrong: byte 3".into());
        let text = text_table(&[ours.clone(), theirs.clone()]);
        assert!(
            text.contains("12.5M") && text.contains("80.00") && text.contains("VOID: wrong: byte 3"),
            "{text}"
        );
        assert!(!text.contains(" / bmv2"), "void rows are compared with nothing: {text}");
        theirs.void = None;
        assert!(
            text_table(&[ours, theirs]).contains("over mem, 1000 entries / bmv2 over pcap: packets/s 125.00")
        );
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
        let run = SwitchRun { tcp_mbps: Some(2_000.0), paced: vec![paced], ..SwitchRun::default() };
        let mut ours = row("barewire", "xdp", run.clone());
        ours.offloads = Some(false);
        ours.added_latency_ns = Some(-1_500);
        let mut bare = row("bare-loop", "packet", run);
        bare.offloads = Some(false);
        let text = text_table(&[ours, bare, recorded()]);
        for part in [
            "3/100",
            "lost packets: s2 tx_dropped 3",
            "-1.5 us",
            "not measured in this run",
            "/ recorded bmv2 over veth: TCP 2.93",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("/ bare-loop"), "a loop over other ports: {text}");
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
