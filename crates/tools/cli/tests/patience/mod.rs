//! For measurements: on a machine with much else to do a short one may see too little, and a row may be void for it.

#![allow(dead_code, reason = "each test uses some of it")]

use serde_json::Value;

/// Runs for so many seconds, and for longer as long as there was not enough to see. What came of the last run.
#[track_caller]
pub fn until_seen<T>(first: &str, run: impl FnMut(&str) -> T, enough: impl Fn(&T) -> bool) -> T {
    barewire_testing::until_seen([first, "4", "12"], run, enough)
}

/// Runs again, up to five times in all, until one went well. What came of the last.
#[track_caller]
pub fn until_well<T>(run: impl FnMut() -> T, well: impl Fn(&T) -> bool) -> T {
    barewire_testing::until_well(5, run, well)
}

/// Why a row may be void though everything is right, by words that the reason holds: threads of the run had to wait for their cores. No
/// other reason is accepted from any machine: wrong answers, lost frames of a memory port, clocks that were set, systems that failed.
const BUSY: [&str; 11] = [
    // The instrument waited.
    "the generator was late",
    "the sender was late",
    // Nobody had a turn within the measured time.
    "no response arrived in the measured time",
    "no connection was counted",
    "no callback was seen",
    "nothing arrived",
    "measured at the same time for",
    // The other end, or the system, had too few turns for what was offered: it was overloaded.
    "requests had no answer, more than",
    "more than one packet in a hundred was lost",
    // A search whose trials such a machine judges.
    "the trials contradict each other",
    "the search did not end",
];

/// A closed loop over datagrams that nobody repeats for ever may end with some unanswered, and over nothing else.
const UNANSWERED: &str = "requests were never answered";

/// Whether a busy machine explains that a row of `system` is void for the reason `why`.
pub fn excuses(system: &str, why: &str) -> bool {
    BUSY.iter().any(|words| why.contains(words)) || why.contains(UNANSWERED) && system.contains("udp")
}

/// The exit code of a measurement with these rows: one that must not be used is told by it, too.
///
/// # Panics
/// When a row is void for a reason that a busy machine does not explain.
#[track_caller]
pub fn code_of<'a>(rows: impl IntoIterator<Item = &'a Value>) -> Option<i32> {
    let mut code = 0;
    for row in rows {
        if let Some(why) = row["void"].as_str() {
            assert!(
                excuses(row["system"].as_str().unwrap_or_default(), why),
                "void, and no busy machine explains it: {row}"
            );
            code = 4;
        }
    }
    Some(code)
}

/// The rows of a document of several programs, of all of them.
pub fn all_rows(document: &Value) -> Vec<&Value> {
    document["rows"].as_array().into_iter().flatten().collect()
}
