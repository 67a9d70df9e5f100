//! The published throughput figure of bmv2 with what was measured here beside it, and what no run between two hosts can show.

use crate::published::messages::published_command;
use crate::render::{cell, notes, rate, ratios};
use crate::rounds::Spread;
use crate::row::Row;
use barewire_report::figure::Unit;
use barewire_report::published;
use std::fmt::Write as _;

/// How far a switch can get here.
const CEILING_NOTE: &str = "\
- Both hosts, the wires between them and the switch share this machine's cores. Without any switch the hosts' own stacks reach
  what *direct* shows; with offloads off nothing that forwards through veth can be twenty times bmv2. What the engine does
  without wires is in the second table; CPU time per packet at one rate is in `barewire bench switch`.
- The published run had `iperf`; here one TCP stream is sent and received by sockets of this program, in the hosts'
  namespaces. Checksum and segmentation offloads of the hosts are off in both, as bmv2's script has it.
- The published text calls its result \"around 1Gbps, or 80,000pps\"; packets/s here are the stream's packets that
  the second host's interface counted: data, without acknowledgements.
";

/// Renders the published row and `rows` side by side as Markdown. `machine` describes where `rows` were measured.
pub fn switch_tables(rows: &[Row], machine: &str) -> String {
    let mut out = String::from("# P4 switch: published and measured here\n\n");
    let _ = writeln!(out, "Measured here on: {machine}\n");
    let Some(table) = published::table("bmv2") else { return out };
    let _ = writeln!(out, "## {}, median of the runs\n", table.title);
    out.push_str("| Switch | Ports | TCP Mbit/s | runs | data packets/s | Source | Notes |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for row in table.rows {
        let value = |unit: Unit| {
            let column = table.columns.iter().position(|column| column.unit == unit);
            let value = column.and_then(|at| row.values.get(at).copied().flatten());
            value.map_or("not told", |printed| printed.text)
        };
        let _ = writeln!(
            out,
            "| {} | veth | {} | in the method below | {} | published | {}; {} |",
            cell(row.system),
            value(Unit::Mbps),
            value(Unit::PerSecond),
            cell(row.hardware),
            cell(row.note),
        );
    }
    let (hosts, engines): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.param("offloads").is_some());
    // With the hosts' offloads on it is another experiment.
    let hosts = hosts.into_iter().filter(|row| row.param("offloads").as_deref() == Some("off"));
    let hosts: Vec<&Row> = hosts.collect();
    let over = |row: &Row| cell(row.subject.over.as_deref().unwrap_or_default());
    for row in &hosts {
        let mut name = row.subject.system.clone();
        if let Some(engine) = &row.subject.engine {
            let _ = write!(name, " *{engine}*");
        }
        let source = match row.recorded {
            Some(_) => "**recorded elsewhere**".to_owned(),
            None => "measured here, **not comparable** (one machine, no NIC)".to_owned(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {source} | {} |",
            cell(&name),
            over(row),
            row.number("tcp_mbps").map_or_else(|| "not run".to_owned(), |mbps| format!("{mbps:.0}")),
            of_runs(&row.of_runs("tcp_mbps"), |mbps| format!("{mbps:.0}")),
            row.number("tcp_data_packets_per_s").map_or_else(|| "not counted".to_owned(), rate),
            cell(&notes(row).join("; ")),
        );
    }
    if hosts.is_empty() {
        out.push_str("| this machine | | not run | | | measured here | no hosts could be made |\n");
    }
    out.push_str("\n## The engine without wires\n\n");
    out.push_str("| Switch | Engine | From, to | Program | Size | Entries | packets/s | runs | ns/packet | CPU us/packet | Notes |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    if engines.is_empty() {
        out.push_str("| this machine | | | | | | not run | | | | |\n");
    }
    for row in engines {
        let figure = |key: &str| row.number(key).map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
        let param = |key: &str| row.param(key).unwrap_or_else(|| "-".to_owned());
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} B | {} | {} | {} | {} | {} | {} |",
            cell(&row.subject.system),
            row.subject.engine.as_deref().unwrap_or("-"),
            over(row),
            cell(&param("program")),
            param("size"),
            param("entries"),
            row.number("rate_pps").map_or_else(|| "-".to_owned(), rate),
            of_runs(&row.of_runs("rate_pps"), rate),
            figure("ns_per_packet"),
            figure("cpu_us_per_packet"),
            cell(&notes(row).join("; ")),
        );
    }
    let compared = ratios(rows);
    if !compared.is_empty() {
        let _ = writeln!(out, "\n## Ratios\n\n```text\n{}```", compared.trim_start());
    }
    let _ = write!(out, "\n## How to read this\n\n{}{CEILING_NOTE}", published_command("bmv2"));
    out
}

/// The least and the most of some runs.
fn of_runs(runs: &[f64], how: impl Fn(f64) -> String) -> String {
    match (Spread::of(runs.iter().copied()), runs) {
        (Some(spread), _) => format!("{} of {}", spread.shown(how), runs.len()),
        (None, []) => "-".to_owned(),
        (None, _) => "1 run".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Measured, Param, Subject, Unit};
    use crate::switch::live::recorded;
    use crate::switch::row::{ENGINE, HOSTS, carried};

    /// The figure and the packets per second of the report, as it prints them.
    #[test]
    fn the_published_row_is_that_of_the_report() {
        let text = switch_tables(&[], "a machine");
        assert!(
            text.contains(
                "| bmv2 simple_switch | veth | 1047 Mbps | in the method below | 80,000pps | published |"
            ),
            "{text}"
        );
        assert!(text.contains("(1041, 1042, 1047, 1056, 1056 Mbps)"), "the method has the runs: {text}");
        assert!(text.contains("| this machine | | not run |"), "{text}");
    }

    #[test]
    fn rows_stand_beside_it_with_their_marks() {
        let subject = |over: &str, engine: Option<&str>, param| Subject {
            bench: "switch",
            system: "barewire".to_owned(),
            over: Some(over.to_owned()),
            engine: engine.map(str::to_owned),
            params: vec![param],
            ..Subject::default()
        };
        let run = |mbps: f64, packets: f64| {
            Measured::default().number("tcp_mbps", mbps).number("tcp_data_packets_per_s", packets)
        };
        let runs = [run(2400.0, 207e3), run(2300.0, 199e3), run(2500.0, 215e3)];
        let ours = Row::of(subject("xdp", Some("native"), Param::word("offloads", false)), HOSTS, &runs);
        let size = Param::new("size", Unit::Bytes, 64);
        let engine = Row::of(subject("mem", None, size), ENGINE, &[carried(12e6)]);
        let text = switch_tables(&[ours, recorded(), engine], "a machine");
        for line in [
            "| barewire *native* | xdp | 2400 | 2300..2500 of 3 | 207K | measured here, **not comparable**",
            "| bmv2 | veth | 682 | 652..711 of 2 | not counted | **recorded elsewhere** |",
            "| barewire | - | mem | - | 64 B | - | 12.0M | 1 run | 83.33 |",
            "nothing that forwards through veth can be twenty times bmv2",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
