//! Rows about RDMA as text.

use super::{RcRow, Span, Steps};
use crate::messages::IdleState;
use crate::render::{Known, contended, latency, listing, maybe, other_unknown, percentile, plain, rate};
use crate::rounds::{spread, spread_ns};
use barewire_report::compare::{Method, standing};
use barewire_report::figure::Better;
use std::fmt::Write as _;

/// What a reader has to know about a row before using it; void first.
pub fn notes(row: &RcRow) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &row.void {
        notes.push(format!("VOID: {why}"));
    }
    if row.contended {
        notes.push(contended(&row.contention));
    }
    if !row.teardown {
        notes.push("not closed".to_owned());
    }
    if row.system == "barewire" && !row.own_cq {
        notes.push("one completion queue for all".to_owned());
    }
    if row.idle_state == Some(IdleState::Cold) {
        notes.push("cores left to sleep".to_owned());
    }
    notes.extend(row.waits.clone());
    notes.extend(row.cpu_unknown.as_ref().map(|why| other_unknown(why)));
    notes.extend(row.notes.iter().cloned());
    notes.extend(row.broken_off.clone());
    notes
}

/// The table of rows: medians of their runs, under each between which values the runs were, and what they say to each other.
pub fn text_table(rows: &[RcRow]) -> String {
    let cells = |row: &RcRow| {
        let l = &row.latency_ns;
        let of = |figure: fn(&Span) -> Option<u64>| spread_ns(row.runs.iter().map(|r| figure(&r.latency_ns)));
        let rates = spread(row.runs.iter().map(|run| run.connections_per_s), rate);
        vec![
            plain("system", &row.system),
            plain("mode", &row.mode),
            plain("over", &row.over),
            plain("clients", format!("{} x {}", row.hosts, row.threads)),
            plain("NICs", row.nics),
            plain("window", row.window),
            plain("live", row.live_qps),
            ("conn/s", rate(row.connections_per_s), rates),
            ("p50", percentile(l.p50, 0.5), of(|s| s.p50)),
            ("99 %", percentile(l.p99, 0.99), of(|s| s.p99)),
            ("99.9 %", percentile(l.p99_9, 0.999), of(|s| s.p99_9)),
            maybe("frames", row.frames_per_connection, |f| format!("{f:.2}")),
            maybe("port/s", row.port_frames_per_s, rate),
            maybe("B/QP", row.bytes_per_live_qp, |b| format!("{b:.0}")),
            maybe("CPU each", row.cpu_ns_per_op, |ns| latency(ns as u64)),
            maybe("cores", row.cpu, |cpu| format!("{:.1}", cpu.cores)),
        ]
    };
    let mut out = listing(rows, 3, cells, notes, |row| row.runs.len());
    let steps: Vec<(&RcRow, &Steps)> =
        rows.iter().filter_map(|row| Some((row, row.steps_ns.as_ref()?))).collect();
    if !steps.is_empty() {
        out += "\nSteps of one connection after the other, medians:\n";
        out += &steps_table(&steps);
    }
    out + &ratios(rows)
}

fn steps_table(rows: &[(&RcRow, &Steps)]) -> String {
    let cells = |(row, steps): &(&RcRow, &Steps)| {
        let median = |head, span: &Span| plain(head, percentile(span.p50, 0.5));
        vec![
            plain("system", format!("{} over {}", row.mode, row.over)),
            median("create", &steps.create),
            median("REQ to REP", &steps.req_to_rep),
            median("RTU", &steps.rtu),
            median("first byte", &steps.first_byte),
            median("DREQ to DREP", &steps.disconnect),
            median("destroy", &steps.destroy),
            plain("connections", steps.create.samples),
        ]
    };
    listing(rows, 1, cells, |_| Vec::new(), |_| 0)
}

/// How one system stands beside another on the same wires, or without any, and what more live queue pairs cost, each in a sentence with
/// its interval, or with what is missing for one.
pub fn ratios(rows: &[RcRow]) -> String {
    let mut out = String::new();
    let usable = |row: &RcRow| row.void.is_none() && row.connections_per_s > 0.0;
    let words = |ours: &RcRow, theirs: &RcRow, name: &str| {
        let rates = |row: &RcRow| row.runs.iter().map(|run| run.connections_per_s).collect::<Vec<_>>();
        standing(&rates(ours), &rates(theirs), Better::Higher, &Method::default())
            .map(|standing| standing.words(name))
    };
    let known: Vec<_> = Known::all(rows).into_iter().filter(|known| usable(known.row)).collect();
    let is_base = |row: &RcRow| row.system == "kernel-tcp" && row.no_baseline.is_none();
    for base in known.iter().filter(|known| is_base(known.row)) {
        let others = known.iter().filter(|other| other.row.system != base.row.system);
        for row in others.filter(|other| other.same_work(base)).map(|other| other.row) {
            let wires = if row.without_wires() {
                " over loopback, in other ways and without wires: no system call against three"
            } else {
                ""
            };
            if let Some(words) = words(row, base.row, &format!("kernel TCP{wires}")) {
                let _ = writeln!(out, "{} is {words}", row.title());
            }
        }
    }
    for few in rows.iter().filter(|row| usable(row)) {
        for many in rows.iter().filter(|row| usable(row)) {
            let mut same = many.clone();
            same.live_qps = few.live_qps;
            if many.live_qps > few.live_qps && same.title() == few.title() {
                let name = format!("the same with {} live", few.live_qps);
                if let Some(words) = words(many, few, &name) {
                    let _ = writeln!(out, "{} is {words}", many.title());
                }
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
mod tests {
    use super::super::RcRun;
    use super::super::live::Over;
    use super::super::plan::{Baseline, Request};
    use super::*;

    fn rows(rates: [[f64; 5]; 2], live: &[u64]) -> Vec<RcRow> {
        let mut request = Request::new(Over::Xdp, "barewire bench rdma");
        (request.baseline, request.live) = (Some(Baseline::KernelTcp), live.to_vec());
        let mut rows = request.unmeasured_rows();
        for (row, rates) in rows.iter_mut().zip(rates) {
            row.runs = rates.map(|rate| RcRun { connections_per_s: rate, ..RcRun::default() }).to_vec();
            (row.connections_per_s, row.void) = (rates[2], None);
        }
        rows
    }

    #[test]
    fn a_row_has_least_and_most_of_its_runs_and_a_sentence_its_interval() {
        let rows = rows([[90e3, 95e3, 100e3, 105e3, 110e3], [20e3, 20e3, 20e3, 21e3, 20e3]], &[0]);
        let text = text_table(&rows);
        for part in ["100K", "90K..110K", "20K..21K", "of 5 runs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("is 5.00 (4.") && text.contains(") times faster than kernel TCP\n"), "{text}");
    }

    #[test]
    fn what_live_queue_pairs_cost_is_judged_too() {
        let same = [100e3, 101e3, 99e3, 100e3, 102e3];
        let mut both = rows([same, same], &[0, 1_000]);
        both.retain(|row| row.system == "barewire");
        let text = ratios(&both);
        assert!(text.contains("1000 live is within noise of the same with 0 live ("), "{text}");
        both.iter_mut().for_each(|row| row.runs.truncate(2));
        assert!(ratios(&both).contains("(2 runs, too few for a verdict)"), "{}", ratios(&both));
    }
}
