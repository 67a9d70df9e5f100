//! How fast packets may come before some are lost, and who gives up first.

use super::live::{self, EngineKind, LiveRun};
use super::probe::What;
use super::traffic::{Traffic, Workload};
use super::{FeedBenchError, go_on, mem};
use barewire_base::Duration;
use barewire_lab::TwoHosts;
use serde::{Deserialize, Serialize};

/// First rate that is tried, in packets per second.
const FIRST_PPS: f64 = 50_000.0;
/// How much more the next try asks for.
const STEP: f64 = 1.5;
/// Halvings between the last rate that was carried and the first that was not.
const REFINEMENTS: u32 = 3;
/// A sender that reaches less than this of the rate asked for is itself the limit.
const KEPT_PACE: f64 = 0.97;
/// Packets of one try, at most.
const PACKETS_MAX: f64 = 1_000_000.0;
/// Packets through memory.
const MEM_PACKETS: usize = 500_000;
const MEM_ROUNDS: u32 = 5;

/// How fast packets may come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateRow {
    /// The engine.
    pub engine: String,
    /// What was sent.
    pub workload: String,
    /// Instruments of the channel.
    pub instruments: u32,
    /// Mean UDP payload, in bytes.
    pub mean_bytes: f64,
    /// Highest rate at which no packet was lost, in packets per second.
    pub sustained_pps: Option<f64>,
    /// Lowest rate that was not carried.
    pub saturated_pps: Option<f64>,
    /// `receiver`: packets were lost at it. `sender`: it did not get there. `cpu`: one thread, nothing else to do.
    pub limit: String,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

impl crate::BenchRow for RateRow {}

/// Whether a rate was carried.
enum Tried {
    Carried,
    Lost(u64),
    SenderTooSlow(f64),
}

/// Tries higher and higher rates on one engine, `span` each.
///
/// # Errors
/// [`FeedBenchError`] of a run.
pub fn measure(
    engine: EngineKind,
    workload: Workload,
    instruments: u32,
    span: Duration,
    cores: Option<(usize, usize)>,
    hosts: Option<&TwoHosts>,
    progress: &mut dyn FnMut(String),
) -> Result<RateRow, FeedBenchError> {
    let mut row = RateRow {
        engine: engine.to_string(),
        workload: workload.to_string(),
        instruments,
        mean_bytes: 0.0,
        sustained_pps: None,
        saturated_pps: None,
        limit: "cpu".to_owned(),
        notes: Vec::new(),
    };
    let Some(hosts) = hosts.filter(|_| engine.needs_hosts()) else {
        return in_memory(row, workload, instruments, progress);
    };
    let mut at = |pps: f64, row: &mut RateRow| -> Result<Tried, FeedBenchError> {
        go_on()?;
        progress(format!("{engine}: {pps:.0} packets/s"));
        let packets = (pps * span.as_secs_f64()).clamp(1_000.0, PACKETS_MAX) as usize;
        let traffic = Traffic::make(workload, instruments, packets, 1)?;
        row.mean_bytes = (traffic.mean_bytes() * 10.0).round() / 10.0;
        let gap = Duration::from_nanos((1e9 / pps) as u64);
        let run = LiveRun {
            engine,
            what: What::Book,
            gap,
            both_lines: false,
            keep_warm: false,
            instruments,
            traffic: &traffic,
            cores,
        };
        let result = live::run(&run, hosts)?;
        Ok(match result.lost() {
            0 if result.sent_pps >= pps * KEPT_PACE => Tried::Carried,
            0 => Tried::SenderTooSlow(result.sent_pps),
            lost => Tried::Lost(lost),
        })
    };
    let (mut carried, mut failed) = (None, None);
    let mut pps = FIRST_PPS;
    let mut halvings = 0;
    while halvings <= REFINEMENTS {
        match at(pps, &mut row)? {
            Tried::Carried => carried = Some(pps),
            Tried::Lost(lost) => {
                row.limit = "receiver".to_owned();
                row.notes = vec![format!("{lost} packets lost at {pps:.0}/s")];
                failed = Some(pps);
            }
            Tried::SenderTooSlow(reached) => {
                row.limit = "sender".to_owned();
                row.notes = vec![format!(
                    "asked for {pps:.0}/s the sender reached {reached:.0}/s, and none was lost"
                )];
                carried = Some(carried.map_or(reached, |pps: f64| pps.max(reached)));
                failed = Some(pps);
                // What a sender reaches needs no search.
                break;
            }
        }
        pps = match (carried, failed) {
            (Some(low), Some(high)) => {
                halvings += 1;
                (low + high) / 2.0
            }
            (Some(low), None) => low * STEP,
            (None, Some(high)) => {
                halvings += 1;
                high / 2.0
            }
            (None, None) => pps,
        };
    }
    row.sustained_pps = carried.map(f64::round);
    row.saturated_pps = failed.map(f64::round);
    Ok(row)
}

/// As fast as one thread goes: the median of some rounds.
fn in_memory(
    mut row: RateRow,
    workload: Workload,
    instruments: u32,
    progress: &mut dyn FnMut(String),
) -> Result<RateRow, FeedBenchError> {
    let traffic = Traffic::make(workload, instruments, MEM_PACKETS, 1)?;
    row.mean_bytes = (traffic.mean_bytes() * 10.0).round() / 10.0;
    let mut rates = Vec::new();
    for round in 0..MEM_ROUNDS {
        go_on()?;
        progress(format!("mem: flat out, round {} of {MEM_ROUNDS}", round + 1));
        rates.push(mem::flat_out(instruments, &traffic)?.0);
    }
    row.sustained_pps = crate::switch::median(rates).map(f64::round);
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_rate() {
        let quick = measure(
            EngineKind::Mem,
            Workload::OneEntry,
            100,
            Duration::from_millis(10),
            None,
            None,
            &mut |_| {},
        )
        .unwrap();
        assert!(quick.sustained_pps.unwrap() > 10_000.0, "{quick:?}");
        assert_eq!((quick.limit.as_str(), quick.saturated_pps), ("cpu", None));
    }
}
