//! Rows about RDMA connections as text.

use super::row::MEASURES;
use crate::render::table;
use crate::row::{Row, Subject};
use std::fmt::Write as _;

/// The table of rows, how they stand beside others, and what live queue pairs cost.
pub fn text_table(rows: &[Row]) -> String {
    table(rows) + &live_ratios(rows)
}

/// How one system stands beside another on the same wires, or without any, and what more live queue pairs cost, each in a sentence with
/// its interval, or with what is missing for one.
pub fn ratios(rows: &[Row]) -> String {
    crate::render::ratios(rows) + &live_ratios(rows)
}

/// What more live queue pairs cost.
fn live_ratios(rows: &[Row]) -> String {
    let live =
        |row: &Row| row.param("live_qps").and_then(|live| live.parse::<u64>().ok()).unwrap_or_default();
    let without = |row: &Row| {
        let mut subject: Subject = row.subject.clone();
        subject.params.retain(|param| param.key != "live_qps");
        subject
    };
    let mut out = String::new();
    for few in rows {
        for many in rows.iter().filter(|many| live(many) > live(few) && without(many) == without(few)) {
            if let Some(standing) = many.standing(few, &MEASURES[0]) {
                let words = standing.words(&format!("the same with {} live", live(few)));
                let _ = writeln!(out, "{} is {words}", many.subject.title());
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::live::{LiveResult, Over};
    use super::super::plan::{Baseline, Request};
    use super::*;

    /// Rows of one request with runs of these rates.
    fn rows(rates: [[f64; 5]; 2], live: &[u64]) -> Vec<Row> {
        let mut request = Request::new(Over::Xdp, "barewire bench rdma");
        (request.baseline, request.live) = (Some(Baseline::KernelTcp), live.to_vec());
        let run = |per_s| LiveResult { connections: 9, per_s, ..LiveResult::default() }.measured();
        let rows = request.unmeasured_rows().into_iter().zip(rates);
        rows.map(|(row, rates)| Row::of(row.subject, MEASURES, &rates.map(run))).collect()
    }

    #[test]
    fn a_row_has_least_and_most_of_its_runs_and_a_sentence_its_interval() {
        let rows = rows([[90e3, 95e3, 100e3, 105e3, 110e3], [20e3, 20e3, 20e3, 21e3, 20e3]], &[0]);
        let text = text_table(&rows);
        for part in ["100K", "90K..110K", "20K..21K", "of 5 runs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.contains("is 5.00 (4.") && text.contains(") times faster than kernel-tcp over veth by"),
            "{text}"
        );
        assert!(!text.contains("own_cq") && !text.contains("live_qps"), "what goes without saying: {text}");
    }

    #[test]
    fn what_live_queue_pairs_cost_is_judged_too() {
        let same = [100e3, 101e3, 99e3, 100e3, 102e3];
        let mut both = rows([same, same], &[0, 1_000]);
        both.retain(|row| row.subject.system == "barewire");
        let text = text_table(&both);
        assert!(text.contains("live qps 1000 is within noise of the same with 0 live ("), "{text}");
        both.iter_mut().for_each(|row| row.runs.truncate(2));
        assert!(ratios(&both).contains("(2 runs, too few for a verdict)"), "{}", ratios(&both));
    }
}
