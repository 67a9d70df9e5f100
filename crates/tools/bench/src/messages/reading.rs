//! What rows say, in words: the comparison, and what a reader has to know before believing it.

use crate::kernel::Baseline;
use crate::messages::SystemName;
use crate::messages::row::{is_open, mode_shown, offered, sleepless, state, window};
use crate::messages::{IdleState, system_and_mode};
use crate::render::{Known, rate};
use crate::rounds::median;
use crate::row::{Row, Subject};
use barewire_measure::{OTHERS, OVERSUBSCRIBED, STOLEN, WAITED};
use barewire_report::compare::{Method, Standing, standing};
use barewire_report::figure::Better;
use std::fmt::Write as _;

fn name(row: &Row) -> SystemName {
    let of = |part: &Option<String>| part.clone().unwrap_or_default();
    let Subject { system, mode, over, .. } = &row.subject;
    SystemName { system: system.clone(), mode: of(mode), over: of(over), idle: row.param("idle") }
}

fn is_ours(row: &Row) -> bool {
    row.subject.system == "barewire"
}

/// Whether `plain` is the same as `row` without encryption.
fn is_twin(plain: &Row, row: &Row) -> bool {
    let (plain, row) = (name(plain), name(row));
    let is_same = row.mode.strip_suffix("-secure") == Some(&plain.mode) && plain.over == row.over;
    plain.system == "barewire" && is_same && plain.idle == row.idle
}

/// Medians of the runs: of round trips; of an open loop of response times, in which what a request waited for its turn is a part.
fn medians(row: &Row) -> Vec<f64> {
    row.of_runs(if is_open(row) { "response_ns" } else { "rtt_ns" })
}

/// How `ours` stands beside `theirs` by the medians of their runs. `None` when a row has none, is void, or is overloaded: its median leaves
/// out who was not answered.
fn stands(ours: &Known<'_>, theirs: &Known<'_>) -> Option<Standing> {
    (ours.is_judged() && theirs.is_judged())
        .then(|| standing(&medians(ours.row), &medians(theirs.row), Better::Lower, &Method::default()))?
}

/// Most baselines that are all named beside a row of ours. Of more, those that matter.
const ALL_NAMED: usize = 3;

/// The baselines that `row` is compared with: all others of its workload and state that encrypt or not as it does, and what it is without
/// encryption. The cipher alone carries nothing, so it is none of them. Of many, what most programs do (a call for each
/// message over TCP, asleep in between) and, over TCP and over UDP, whichever is fastest: nobody is to look for it in the table.
fn baselines<'a, 'b>(rows: &'b [Known<'a>], of: &Known<'a>) -> Vec<&'b Known<'a>> {
    let row = of.row;
    let twin = rows.iter().filter(|b| is_twin(b.row, row) && of.same_load(b));
    let is_other = |b: &&Known<'_>| !is_ours(b.row) && of.same_work(b);
    let all: Vec<&Known<'_>> = rows.iter().filter(is_other).collect();
    if all.len() <= ALL_NAMED {
        return twin.chain(all).collect();
    }
    let fastest = |udp: bool| {
        let of = (0..all.len())
            .filter(|&at| all[at].is_judged() && all[at].row.subject.system.starts_with("kernel-udp") == udp);
        let time = |at: usize| median(medians(all[at].row)).unwrap_or(f64::MAX);
        of.min_by(|&a, &b| time(a).total_cmp(&time(b)))
    };
    let chosen = [fastest(false), fastest(true)];
    let matters = |(at, b): &(usize, &Known<'_>)| {
        b.row.subject.system == Baseline::BLOCKING_TCP.name() || chosen.contains(&Some(*at))
    };
    twin.chain(all.iter().copied().enumerate().filter(matters).map(|(_, b)| b)).collect()
}

/// A line for each of our rows and each baseline that it is compared with: how it stands by the median round trip. Empty when there is
/// none.
pub fn ratios(rows: &[Row]) -> String {
    let (mut out, rows) = (String::new(), Known::all(rows));
    for ours in rows.iter().filter(|r| is_ours(r.row)) {
        for theirs in baselines(&rows, ours) {
            let Some(standing) = stands(ours, theirs) else { continue };
            let row = ours.row;
            let words = standing.words(&format!("{}{}", name(theirs.row), ours.handicap(theirs)));
            let load = match offered(row) {
                Some(offered) => format!(", offered {}/s, by response times", rate(offered)),
                None => String::new(),
            };
            let _ = writeln!(
                out,
                "{} is {words}, {} B, window {}{load}, {} cores",
                name(row),
                row.param("size").unwrap_or_default(),
                window(row),
                state(row),
            );
        }
    }
    let over = |is: fn(&Row) -> bool, over: &str| {
        rows.iter().any(|r| is(r.row) && r.row.subject.over.as_deref() == Some(over))
    };
    if out.is_empty() && over(is_ours, "mem") && over(|row| !is_ours(row), "veth") {
        out += "Not compared: memory is no wire; `--over packet` and `--over xdp` are over one, as baselines here are\n";
    }
    out
}

/// Which rows were taken in which state of the cores.
fn states(rows: &[Row]) -> String {
    let of = |state: IdleState| {
        let mut names: Vec<String> = Vec::new();
        for row in rows.iter().filter(|r| r.subject.idle_state == Some(state)) {
            let name = system_and_mode(&row.subject.system, &mode_shown(row));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(", ")
    };
    let (warm, cold) = (of(IdleState::Warm), of(IdleState::Cold));
    let of_cold = rows.iter().filter(|row| row.subject.idle_state == Some(IdleState::Cold)).count();
    let sleepless = rows.iter().filter(|row| sleepless(row).is_some()).count();
    let cold = if sleepless == 0 {
        cold
    } else {
        format!("{cold}, and stayed busy in {sleepless} of {of_cold} rows")
    };
    match (warm.is_empty(), cold.is_empty()) {
        (_, true) => "no core slept (warm)".to_owned(),
        (true, false) => format!("cores were left to sleep for {cold} (cold)"),
        (false, false) => {
            format!("no core slept for {warm} (warm), cores were left to sleep for {cold} (cold)")
        }
    }
}

/// The rows of one run in a sentence for people: how our rows with one request in flight compare with the baselines, in
/// which state the cores were, and whether the machine was ours alone.
pub fn reading(rows: &[Row]) -> String {
    let (mut comparisons, known) = (Vec::new(), Known::all(rows));
    for ours in known.iter().filter(|r| is_ours(r.row) && window(r.row) == 1) {
        let named =
            |b: &Known<'_>| system_and_mode(&b.row.subject.system, &mode_shown(b.row)) + &ours.handicap(b);
        let found: Vec<String> = baselines(&known, ours)
            .into_iter()
            .filter_map(|b| Some(stands(ours, b)?.words(&named(b))))
            .collect();
        if !found.is_empty() {
            comparisons.push(format!(
                "barewire {} over {}, {}, is {}",
                mode_shown(ours.row),
                ours.row.subject.over.as_deref().unwrap_or_default(),
                state(ours.row),
                found.join(" and ")
            ));
        }
    }
    let comparison = if comparisons.is_empty() {
        "nothing was measured that could be compared".to_owned()
    } else {
        format!("With one request in flight and by the median round trip, {}", comparisons.join("; "))
    };
    let company = company(rows);
    format!(
        "{comparison}; {}; {company}; both ends ran on this one machine, with no network card between them.",
        states(rows)
    )
}

/// Who else was on the cores, or whether we were too many ourselves.
fn company(rows: &[Row]) -> String {
    let count = |word: &str| {
        let by = |row: &&Row| row.contention.iter().any(|reason| reason.starts_with(word));
        rows.iter().filter(by).count()
    };
    let of = rows.len();
    let mut parts = Vec::new();
    for (word, what) in [
        (OVERSUBSCRIBED, "our own threads were more than the cores"),
        (STOLEN, "the hypervisor gave our cores to other machines"),
        (OTHERS, "other processes ran on our cores"),
        (WAITED, "a thread waited for a core, for whom is not known"),
    ] {
        let n = count(word);
        if n > 0 {
            parts.push(format!("in {n} of {of} rows {what} ({word})"));
        }
    }
    if parts.is_empty() {
        return "nothing else ran on our cores".to_owned();
    }
    format!("{}, so take the ratios as rough", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuPerOp;
    use crate::messages::driver::RunResult;
    use crate::messages::{CellInfo, MsgWorkload};
    use crate::row::Param;
    use serde_json::Value as Json;

    fn row(system: &str, mode: &str, idle_state: IdleState, ns: u64, contention: &[&str]) -> Row {
        rounds(5, system, mode, idle_state, ns, contention)
    }

    fn rounds(
        rounds: usize,
        system: &str,
        mode: &str,
        idle_state: IdleState,
        ns: u64,
        contention: &[&str],
    ) -> Row {
        let contention = contention.iter().map(|&s| s.to_owned()).collect();
        let run = RunResult { contention, ..RunResult::of(ns, 100) };
        let name = SystemName { system: system.into(), mode: mode.into(), over: "veth".into(), idle: None };
        let workload = MsgWorkload::default();
        CellInfo { name, workload, idle_state, command: String::new() }.row(&vec![run; rounds])
    }

    /// The same with another value of a parameter.
    fn with(mut row: Row, key: &str, value: impl Into<Json>) -> Row {
        row.subject.params.iter_mut().find(|param| param.key == key).unwrap().value = value.into();
        row
    }

    #[test]
    fn the_sentence_names_ratio_state_and_company() {
        let rows = [
            row("barewire", "embedded", IdleState::Warm, 10_000, &[]),
            row(
                "kernel-tcp",
                "blocking",
                IdleState::Cold,
                40_000,
                &["others: other processes took 40 % of a core"],
            ),
            row("kernel-tcp", "blocking", IdleState::Warm, 15_000, &[]),
            row("kernel-tcp-spin", "spin", IdleState::Warm, 5_000, &[]),
        ];
        let text = reading(&rows);
        for part in [
            "barewire embedded over veth, warm, is 1.50 (1.50 to 1.50) times faster than kernel-tcp blocking and \
             2.00 (2.00 to 2.00) times slower than kernel-tcp-spin",
            "no core slept for barewire embedded, kernel-tcp blocking, kernel-tcp-spin (warm), \
             cores were left to sleep for kernel-tcp blocking (cold)",
            "in 1 of 4 rows other processes ran on our cores (others), so take",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let lines = ratios(&rows);
        assert_eq!(lines.lines().count(), 2, "who woke cores up is compared with nobody here: {lines}");
        assert!(
            lines.starts_with(
                "barewire embedded over veth is 1.50 (1.50 to 1.50) times faster than kernel-tcp blocking over veth, \
                 1024 B, window 1, warm cores"
            ),
            "{lines}"
        );
    }

    /// An engine that polls between two requests keeps its cores awake, wherever they were left to sleep.
    #[test]
    fn who_did_not_sleep_is_not_compared_with_who_did() {
        let cold = |system: &str, ns, cores| {
            let mut row = row(system, "m", IdleState::Cold, ns, &[]);
            row.cpu = Some(CpuPerOp {
                client_ns: Some(1.0),
                server_ns: Some(1.0),
                user_ns: 1.0,
                system_ns: 1.0,
                softirq_ns: 0.0,
                cores,
            });
            row
        };
        let mut rows = [cold("barewire", 11_000, 1.9), cold("kernel-tcp", 66_000, 0.7)];
        assert_eq!(ratios(&rows), "");
        let text = reading(&rows);
        assert!(!text.contains("faster"), "{text}");
        assert!(
            text.contains(
                "left to sleep for barewire m, kernel-tcp m, and stayed busy in 1 of 2 rows (cold)"
            ),
            "{text}"
        );
        rows[0] = cold("barewire", 11_000, 0.9);
        assert!(ratios(&rows).contains("6.00 (6.00 to 6.00) times faster"), "{}", ratios(&rows));
    }

    #[test]
    fn of_many_baselines_the_usual_and_the_fastest_are_named() {
        let warm = |system: &str, ns| row(system, "m", IdleState::Warm, ns, &[]);
        let mut rows = vec![
            warm("barewire", 10_000),
            warm("kernel-tcp", 15_000),
            warm("kernel-tcp-spin", 9_000),
            warm("kernel-tcp-batch-spin", 8_000),
            warm("kernel-io-uring", 12_000),
            warm("kernel-udp", 14_000),
            warm("kernel-udp-spin", 7_000),
        ];
        rows = rows.into_iter().map(|row| with(row, "window", 32)).collect();
        let named = |rows: &[Row]| -> Vec<String> {
            let known = Known::all(rows);
            baselines(&known, &known[0]).iter().map(|b| b.row.subject.system.clone()).collect()
        };
        assert_eq!(named(&rows), ["kernel-tcp", "kernel-tcp-batch-spin", "kernel-udp-spin"]);
        rows[3].void = Some("late".to_owned());
        assert_eq!(named(&rows), ["kernel-tcp", "kernel-tcp-spin", "kernel-udp-spin"]);
        let text = ratios(&rows);
        assert!(
            text.contains("kernel-udp-spin m over veth (a call for each message), 1024 B, window 32"),
            "{text}"
        );
        assert!(
            !ratios(&rows[..2].iter().map(|r| with(r.clone(), "window", 1)).collect::<Vec<_>>())
                .contains("a call")
        );
    }

    #[test]
    fn who_encrypts_is_compared_with_who_does_and_with_itself() {
        let warm = |system: &str, mode: &str, ns| row(system, mode, IdleState::Warm, ns, &[]);
        let rows = [
            warm("barewire", "embedded", 10_000),
            warm("barewire", "embedded-secure", 12_000),
            warm("kernel-tcp", "blocking", 15_000),
            warm("kernel-tls", "blocking", 20_000),
            warm("aead", "aes-128-gcm", 500),
        ];
        let secure = rows.each_ref().map(|row| row.setting("secure") == Some(&Json::Bool(true)));
        assert_eq!(secure, [false, true, false, true, true]);
        let told = serde_json::to_value(&rows[1]).unwrap();
        assert_eq!(
            (&told["secure"], told["params"].get("secure")),
            (&Json::Bool(true), None),
            "the mode says it"
        );
        let known = Known::all(&rows);
        let beside = |at: usize| -> Vec<String> {
            let row = |known: &&Known<'_>| known.row.subject.clone();
            let name = |who: Subject| format!("{} {}", who.system, who.mode.unwrap_or_default());
            baselines(&known, &known[at]).iter().map(row).map(name).collect()
        };
        assert_eq!(beside(0), ["kernel-tcp blocking"]);
        assert_eq!(beside(1), ["barewire embedded", "kernel-tls blocking"]);
    }

    #[test]
    fn few_rounds_are_told_without_a_verdict_and_a_void_row_not_at_all() {
        for (n, range, words) in
            [(1, "", "one run, no verdict"), (3, " (0.250 to 0.250)", "3 runs, too few for a verdict")]
        {
            let ours = rounds(n, "barewire", "embedded", IdleState::Warm, 10_000, &[]);
            let theirs = rounds(n, "kernel-tcp", "blocking", IdleState::Warm, 40_000, &[]);
            let rows = [ours.clone(), theirs.clone()];
            let text = reading(&rows);
            assert!(text.contains(&format!("is 0.250{range} times kernel-tcp blocking ({words})")), "{text}");
            assert!(!text.contains("faster"), "{text}");
            assert!(ratios(&rows).contains(words), "{}", ratios(&rows));
            let mut overloaded = theirs.clone();
            overloaded.set_word("overloaded", "12 % never sent");
            assert_eq!(ratios(&[ours.clone(), overloaded]), "");
            let rows = [ours, Row { void: Some("late".to_owned()), ..theirs }];
            assert_eq!(ratios(&rows), "");
            assert!(reading(&rows).starts_with("nothing was measured that could be compared"));
        }
    }

    /// What a request waited for its turn is a part of its time, however short the time from its call was.
    #[test]
    fn an_open_loop_is_judged_by_response_times() {
        let open = |system: &str, response: u64| {
            let run = RunResult {
                response: Some(RunResult::of(response, 100).service),
                ..RunResult::of(10_000, 100)
            };
            let name =
                SystemName { system: system.into(), mode: "m".into(), over: "veth".into(), idle: None };
            let workload = MsgWorkload { rate: Some(5e4), ..MsgWorkload::default() };
            let (idle_state, command) = (IdleState::Warm, String::new());
            CellInfo { name, workload, idle_state, command }.row(&vec![run; 5])
        };
        let rows = [open("barewire", 60_000), open("kernel-tcp", 12_000)];
        let text = ratios(&rows);
        assert!(text.contains("is 5.00 (5.00 to 5.00) times slower than kernel-tcp m over veth"), "{text}");
        assert!(text.contains("window 1, offered 50K/s, by response times, warm cores"), "{text}");
    }

    #[test]
    fn memory_is_no_wire_and_two_engines_are_not_one() {
        let over = |mut row: Row, over: &str| {
            row.subject.over = Some(over.to_owned());
            row
        };
        let ours = row("barewire", "embedded", IdleState::Warm, 1_000, &[]);
        let theirs = row("kernel-tcp", "blocking", IdleState::Warm, 10_000, &[]);
        let text = ratios(&[over(ours.clone(), "mem"), theirs.clone()]);
        assert!(text.starts_with("Not compared: memory is no wire") && text.lines().count() == 1, "{text}");
        let text = ratios(&[over(ours.clone(), "mem"), over(theirs.clone(), "loopback")]);
        assert!(
            text.contains(
                "10.0 (10.0 to 10.0) times faster than kernel-tcp blocking over loopback (by system calls"
            ),
            "{text}"
        );
        let mut two = ours;
        two.subject.params.push(Param::word("engines", 2));
        assert_eq!(ratios(&[two, theirs]), "");
    }

    #[test]
    fn only_equal_workloads_are_compared() {
        let ours = row("barewire", "embedded", IdleState::Warm, 10_000, &[]);
        let theirs = with(row("kernel-tcp", "blocking", IdleState::Warm, 40_000, &[]), "window", 32);
        let rows = [ours, theirs];
        assert_eq!(ratios(&rows), "");
        let text = reading(&rows);
        assert!(
            text.starts_with(
                "nothing was measured that could be compared; no core slept (warm); nothing else ran"
            ),
            "{text}"
        );
    }
}
