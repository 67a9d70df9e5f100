//! Rows about the feed handler as text.

use super::row::{MEASURES, is_stamped};
use crate::render::table;
use crate::row::Row;
use std::fmt::Write as _;

/// What the words of the table mean.
const LEGEND: &str = "
t3: the receive stamp (`stamp` says whose); t4: the engine hands the packet over; t5: the callback. The engines are barewire's handler on
the kernel's sockets (socket: asleep until a packet comes; socket-spin: polling) and on ports (xdp, packet, mem).
";

/// The table of rows, what its words mean, and how they stand beside each other.
pub fn text_table(rows: &[Row]) -> String {
    table(rows) + LEGEND + &ratios(rows)
}

/// How one engine stands beside the socket that sleeps, and what gaps cost, each in a sentence with its interval, or with what is missing
/// for one: by the medians of the runs.
pub fn ratios(rows: &[Row]) -> String {
    let mut out = String::new();
    let words = |ours: &Row, theirs: &Row, name: &str| {
        ours.standing(theirs, &MEASURES[0]).map(|standing| standing.words(name))
    };
    let param = |row: &Row, key: &str| row.param(key).unwrap_or_default();
    let pace = |row: &Row| match param(row, "gap_us").as_str() {
        "0" => "back to back".to_owned(),
        us => format!("{us} us gaps"),
    };
    let about =
        |row: &Row| format!("{} {}, {}", param(row, "points"), param(row, "what"), param(row, "workload"));
    // A receiver that sleeps is measured on cores that sleep, too, and most of its time is their waking up then.
    let state = |row: &Row| row.subject.idle_state.map_or_else(String::new, |s| format!(", {}", s.word()));
    let same_state = |a: &Row, b: &Row| a.subject.idle_state == b.subject.idle_state;
    let engine = |row: &Row| row.subject.engine.clone().unwrap_or_default();
    for plain in rows.iter().filter(|row| engine(row) == "socket" && is_stamped(row)) {
        let same = |row: &&Row| {
            engine(row) != "socket" && row.subject.params == plain.subject.params && same_state(row, plain)
        };
        for other in rows.iter().filter(same) {
            if let Some(words) = words(other, plain, "socket") {
                let (engine, about, pace, state) = (engine(other), about(plain), pace(plain), state(plain));
                let _ = writeln!(out, "{engine} is {words} by the median ({about}, {pace}{state})");
            }
        }
    }
    for fast in rows.iter().filter(|row| param(row, "gap_us") == "0") {
        let same = |slow: &&Row| {
            let mut all = slow.subject.params.iter().zip(&fast.subject.params);
            let same_params = all.all(|(a, b)| a == b || a.key == "gap_us");
            engine(slow) == engine(fast) && same_params && same_state(slow, fast)
        };
        for slow in rows.iter().filter(|row| param(row, "gap_us") != "0").filter(same) {
            if let Some(words) = words(slow, fast, "back to back") {
                let (engine, pace, about, state) = (engine(fast), pace(slow), about(fast), state(fast));
                let _ = writeln!(out, "{engine} with {pace} is {words} by the median ({about}{state})");
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::row::{Base, subject};
    use super::*;
    use crate::row::Measured;
    use barewire_measure::Histogram;
    use serde_json::json;

    /// Five runs of 500 samples whose medians lie around `median`.
    pub(crate) fn row(engine: &str, base: Base, gap_us: u64, median: u64) -> Row {
        let values = [
            json!(base),
            json!(base.points()),
            json!("book"),
            json!(gap_us),
            json!("one-entry"),
            json!(100),
            json!("a"),
            json!(true),
        ];
        let runs = [95, 100, 102, 100, 105].map(|percent| {
            let mut spans = Histogram::new();
            spans.record_n(median * percent / 100, 500);
            let run = Measured::default().spans("latency_ns", spans).number("sent", 500.0);
            run.number("lost", 0.0).number("sent_pps", 200.0).number("mean_bytes", 74.0)
        });
        let mut row = Row::of(subject(engine, values, "barewire bench feed"), MEASURES, &runs);
        row.set_word("stamp_source", "kernel");
        row
    }

    #[test]
    fn tables_have_the_published_form_and_ratios_follow() {
        let mut void = row("packet", Base::Stamp, 5000, 1);
        void.void = Some("nothing came".into());
        let rows = [
            row("socket", Base::Stamp, 5000, 45_000),
            row("xdp", Base::Stamp, 5000, 4_500),
            row("xdp", Base::Stamp, 0, 3_000),
            void,
        ];
        let text = text_table(&rows);
        let (socket, runs) = crate::render::span(&rows[0], "latency_ns", "median");
        for part in [
            socket.as_str(),
            &runs,
            "n<10000",
            "n<100000",
            "of 5 runs",
            ") times faster than socket by the median (t3..t5 book, one-entry, 5000 us gaps)",
            "xdp with 5000 us gaps is 1.50 (1.",
            ") times slower than back to back by the median (t3..t5 book, one-entry)",
            "VOID: nothing came",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Histograms keep three digits.
        assert!(socket.starts_with("45.0") && runs.starts_with("42.7"), "{text}");
        assert!(!text.contains("packet is "), "void rows are compared with nothing: {text}");
        let few = |mut row: Row| {
            row.runs.truncate(3);
            row
        };
        let text = ratios(&[few(rows[0].clone()), few(rows[1].clone())]);
        assert!(text.contains(") times socket (3 runs, too few for a verdict)"), "{text}");
    }

    /// Waking a core takes longer than all else: who slept through it stands beside nobody who did not.
    #[test]
    fn only_rows_of_one_state_of_the_cores_are_compared() {
        use crate::messages::IdleState::{Cold, Warm};
        let of = |engine: &str, state, gap_us, median| {
            let mut row = row(engine, Base::Stamp, gap_us, median);
            row.subject.idle_state = Some(state);
            row
        };
        let rows = [
            of("socket", Cold, 5000, 60_000),
            of("socket", Warm, 5000, 12_000),
            of("xdp", Warm, 5000, 4_000),
            of("socket", Warm, 0, 6_000),
        ];
        let text = ratios(&rows);
        assert_eq!(text.trim().lines().count(), 2, "{text}");
        assert!(text.contains("xdp is 3.00 (") && text.contains("5000 us gaps, warm)"), "{text}");
        assert!(text.contains("socket with 5000 us gaps is 2.00 (") && !text.contains("cold"), "{text}");
    }
}
