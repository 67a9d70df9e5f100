//! How fast packets may come before some are lost, and who gives up first.

use super::live::{self, EngineKind, LiveRun};
use super::mem;
use super::probe::What;
use super::traffic::{Traffic, Workload};
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::row::{Measure, Measured, Param, Row, Subject, Unit};
use barewire_base::Duration;
use barewire_netns::TwoHosts;

/// First rate that is tried, in packets per second.
const FIRST_PPS: f64 = 50_000.0;
/// How much more the next try asks for.
const STEP: f64 = 1.5;
/// Halvings between the last rate that was carried and the first that was not.
const REFINEMENTS: u32 = 3;
/// A sender that reaches less than this of the rate asked for is itself the limit.
const KEPT_PACE: f64 = 0.97;
/// Times that a rate is tried whose result is void.
const VOID_TRIES: u32 = 3;
/// Packets of one try, at most.
const PACKETS_MAX: f64 = 1_000_000.0;
/// Packets through memory.
const MEM_PACKETS: usize = 500_000;
const MEM_ROUNDS: u32 = 5;

const MEASURES: &[Measure] = &[
    Measure::word("limit", "limit"),
    Measure::count("mean_bytes", "bytes").neutral().in_unit(Unit::Bytes, 0.1),
    // Highest rate at which no packet was lost, as sent.
    Measure::rate("sustained_pps", "sustained/s", "packets without loss"),
    // Lowest rate at which packets were lost, as sent.
    Measure::rate("saturated_pps", "not carried/s", "packets with loss").neutral(),
];

/// What came of a rate. Rates are those that were sent, not those that were asked for.
#[derive(Clone, Debug, PartialEq)]
enum Tried {
    Carried(f64),
    Lost(u64, f64),
    /// It reached no more than this. What was not lost of it says nothing about the rate that was asked for.
    SenderTooSlow(f64),
    /// Nothing of it may be used.
    Void(String),
}

impl Tried {
    fn of(asked_pps: f64, sent_pps: f64, lost: u64, void: Option<&str>) -> Tried {
        match (void, lost) {
            (_, 0) if sent_pps < asked_pps * KEPT_PACE => Tried::SenderTooSlow(sent_pps),
            (Some(why), _) => Tried::Void(why.to_owned()),
            (None, 0) => Tried::Carried(sent_pps),
            (None, lost) => Tried::Lost(lost, sent_pps),
        }
    }
}

/// What the search found.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    sustained_pps: Option<f64>,
    saturated_pps: Option<f64>,
    limit: &'static str,
    notes: Vec<String>,
}

/// Tries higher and higher rates until one is not carried, then halves what lies between. `at` tries one.
fn search<E>(mut at: impl FnMut(f64) -> Result<Tried, E>) -> Result<Found, E> {
    let mut found = Found { limit: "none found", ..Found::default() };
    // As asked for: what is halved.
    let (mut carried, mut failed) = (None, None);
    let mut pps = FIRST_PPS;
    let mut halvings = 0;
    let (mut voids, mut void) = (0, None);
    while halvings <= REFINEMENTS {
        match at(pps)? {
            // As if it had not been tried: once more.
            Tried::Void(_) if voids + 1 < VOID_TRIES => {
                voids += 1;
                continue;
            }
            // Nothing is known of it; what is below may be.
            Tried::Void(why) => {
                void = Some(format!("{VOID_TRIES} runs at {pps:.0}/s were void: {why}"));
                failed = Some(pps);
            }
            Tried::Carried(sent) => {
                carried = Some(pps);
                found.sustained_pps = Some(found.sustained_pps.unwrap_or(0.0).max(sent));
            }
            Tried::Lost(lost, sent) => {
                found.limit = "receiver";
                found.notes = vec![format!("{lost} packets lost at {sent:.0}/s")];
                found.saturated_pps = Some(found.saturated_pps.unwrap_or(f64::INFINITY).min(sent));
                failed = Some(pps);
            }
            Tried::SenderTooSlow(reached) => {
                found.limit = "sender";
                found.notes = vec![format!(
                    "asked for {pps:.0}/s the sender reached {reached:.0}/s, and none was lost"
                )];
                failed = Some(pps);
            }
        }
        voids = 0;
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
    found.notes.extend(void);
    Ok(found)
}

/// Tries higher and higher rates on one engine, `span` each. `limit` of the row is who gave up first: `receiver`: packets were lost at it;
/// `sender`: it did not get there; `cpu`: one thread, nothing else to do; `none found`: no run at a higher rate could be used.
///
/// # Errors
/// [`BenchError`] of a run.
#[expect(clippy::too_many_arguments, reason = "what one search needs")]
pub fn measure(
    engine: EngineKind,
    workload: Workload,
    instruments: u32,
    span: Duration,
    cores: Option<(usize, usize)>,
    hosts: Option<&TwoHosts>,
    command: &str,
    progress: &mut dyn FnMut(String),
) -> Result<Row, BenchError> {
    let row = |limit: &'static str, runs: &[Measured]| {
        let params =
            vec![Param::word("workload", workload.to_string()), Param::word("instruments", instruments)];
        let (system, command) = ("barewire".to_owned(), command.to_owned());
        let engine = Some(engine.to_string());
        let subject = Subject { bench: "feed-rates", system, engine, params, command, ..Subject::default() };
        let mut row = Row::of(subject, MEASURES, runs);
        row.set_word("limit", limit);
        row
    };
    let Some(hosts) = hosts.filter(|_| engine.needs_hosts()) else {
        let runs = in_memory(workload, instruments, progress)?;
        return Ok(row("cpu", &runs));
    };
    let mut mean_bytes = 0.0;
    // Of the highest rate that was carried.
    let mut dearest: Option<(f64, Measured)> = None;
    let mut at = |pps: f64| -> Result<Tried, BenchError> {
        go_on()?;
        progress(format!("{engine}: {pps:.0} packets/s"));
        let packets = (pps * span.as_secs_f64()).clamp(1_000.0, PACKETS_MAX) as usize;
        let traffic = Traffic::make(workload, instruments, packets, 1)?;
        mean_bytes = traffic.mean_bytes();
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
            cpu: &Charge::start(),
        };
        let result = live::run(&run, hosts)?;
        let tried = Tried::of(pps, result.sent_pps, result.lost(), result.void.as_deref());
        if let (Tried::Carried(sent), Some((used, whole))) = (&tried, run.cpu.used())
            && dearest.as_ref().is_none_or(|(most, _)| sent > most)
        {
            dearest = Some((*sent, Measured::default().operations(packets as u64).charged(used, whole)));
        }
        Ok(tried)
    };
    let found = search(&mut at)?;
    let mut row = row(found.limit, &[]);
    if let Some((_, run)) = &dearest {
        row.set_cpu(run);
    }
    row.set("mean_bytes", mean_bytes);
    for (key, pps) in [("sustained_pps", found.sustained_pps), ("saturated_pps", found.saturated_pps)] {
        if let Some(pps) = pps {
            row.set(key, pps);
        }
    }
    row.notes = found.notes;
    Ok(row)
}

/// As fast as one thread goes, some rounds.
fn in_memory(
    workload: Workload,
    instruments: u32,
    progress: &mut dyn FnMut(String),
) -> Result<Vec<Measured>, BenchError> {
    let traffic = Traffic::make(workload, instruments, MEM_PACKETS, 1)?;
    let mut runs = Vec::new();
    for round in 0..MEM_ROUNDS {
        go_on()?;
        progress(format!("mem: flat out, round {} of {MEM_ROUNDS}", round + 1));
        let cpu = Charge::start();
        let pps = mem::flat_out(instruments, &traffic, &cpu)?.0;
        let run = Measured::default()
            .operations((traffic.len() - traffic.warmup()) as u64)
            .number("sustained_pps", pps)
            .number("mean_bytes", traffic.mean_bytes());
        runs.extend(cpu.put_on(vec![run]));
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_well;

    /// A receiver that carries `limit`, a sender that reaches `most` and is always a hundredth behind what it is asked for.
    fn trying(limit: f64, most: f64) -> impl FnMut(f64) -> Result<Tried, ()> {
        move |asked| {
            let sent = (asked * 0.99).min(most);
            let late = (sent < asked * 0.98).then_some("the sender was late");
            Ok(Tried::of(asked, sent, if sent > limit { 7 } else { 0 }, late))
        }
    }

    #[test]
    fn rates_are_those_that_were_sent() {
        let found = search(trying(300e3, 2e6)).unwrap();
        let (sustained, saturated) = (found.sustained_pps.unwrap(), found.saturated_pps.unwrap());
        assert!(sustained <= 300e3 && saturated > 300e3 && saturated / sustained < 1.1, "{found:?}");
        assert_eq!(found.limit, "receiver");
        // 253,125 packets a second were asked for, and a hundredth less was sent.
        assert!(search(trying(253e3, 2e6)).unwrap().sustained_pps.unwrap() <= 253e3);
    }

    #[test]
    fn a_sender_that_does_not_get_there_proves_no_rate() {
        let found = search(trying(f64::INFINITY, 400e3)).unwrap();
        assert_eq!((found.limit, found.saturated_pps), ("sender", None), "{found:?}");
        assert!((350e3..=400e3).contains(&found.sustained_pps.unwrap()), "{found:?}");
        assert!(found.notes[0].contains("reached 400000/s"), "{found:?}");
    }

    #[test]
    fn a_void_run_is_as_if_it_had_not_been() {
        // Every second try is void, whatever it would have shown.
        let (mut tries, mut inner) = (0, trying(300e3, 2e6));
        let found = search(|asked| {
            tries += 1;
            if tries % 2 == 1 { Ok(Tried::Void("somebody set the time".to_owned())) } else { inner(asked) }
        });
        assert_eq!(found, search(trying(300e3, 2e6)));
        // All are: nothing is known, and nothing is claimed.
        let found = search(|_| Ok::<_, ()>(Tried::Void("late".to_owned()))).unwrap();
        assert_eq!((found.sustained_pps, found.saturated_pps, found.limit), (None, None, "none found"));
        assert_eq!(found.notes, ["3 runs at 6250/s were void: late"]);
        assert_eq!(Tried::of(1e5, 1e5, 3, Some("late")), Tried::Void("late".to_owned()));
    }

    #[test]
    fn memory_has_a_rate() {
        let ten = Duration::from_millis(10);
        let quick = until_well(
            || measure(EngineKind::Mem, Workload::OneEntry, 100, ten, None, None, "", &mut |_| {}).unwrap(),
            |row| row.number("sustained_pps") > Some(10_000.0),
        );
        assert!(quick.number("sustained_pps").unwrap() > 10_000.0, "{quick:?}");
        assert_eq!(quick.word("limit"), Some("cpu"));
        assert_eq!(quick.number("saturated_pps"), None);
    }
}
