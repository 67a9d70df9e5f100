//! The rule about the clock on the wall. Anybody may set it, forward or back, by hours: what ends waits, orders events or measures spans
//! goes by the time that passes. Clippy knows calls of the standard library alone, and not who may use ours.

use super::scrub::{lines_with_word, scrub};
use super::{Finding, Tree};

/// What reads it, or names it to the kernel.
const WORDS: &[&str] = &["realtime_ns", "CLOCK_REALTIME", "SystemTime", "gettimeofday"];
/// Floors whose code runs where packets pass. Tools put dates on reports.
const FLOORS: &[&str] =
    &["crates/ground/", "crates/ports/", "crates/protocols/", "crates/runtime/", "crates/services/"];
/// Who reads it all the same, and what for.
const READERS: &[(&str, &str)] = &[
    ("crates/runtime/measure/src/clock.rs", "it is read here for all others"),
    ("crates/runtime/measure/src/lib.rs", "it hands that on"),
    ("crates/ports/port/src/sys.rs", "dates in captures"),
    ("crates/services/feed-handler/src/record.rs", "dates in captures"),
    ("crates/services/switch-control/src/thrift/services/simple_switch.rs", "a call that asks for it"),
];

/// The rule.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let is_watched =
            FLOORS.iter().any(|floor| file.path.starts_with(floor)) && file.path.contains("/src/");
        if !is_watched || READERS.iter().any(|(path, _)| *path == file.path) {
            continue;
        }
        let code = scrub(&file.text);
        for word in WORDS {
            for line in lines_with_word(&code, word) {
                findings.push(Finding {
                    file: file.path.clone(),
                    line,
                    rule: "wall clock",
                    reason: format!("`{word}`: the time of day may be set at any moment"),
                    hint: "take `now` from the engine, or `barewire_measure::stamp()`; a new reader of dates goes into tidy's list with its reason",
                });
            }
        }
    }
}
