//! For measurements: on a machine with much else to do a short one may see too little.

#![allow(dead_code, reason = "each test uses some of it")]

use serde_json::Value;

/// Runs for so many seconds, and for longer as long as there was not enough to see. What came of the last run.
pub fn until_seen<T>(first: &str, mut run: impl FnMut(&str) -> T, enough: impl Fn(&T) -> bool) -> T {
    let mut result = run(first);
    for seconds in ["4", "12"] {
        if enough(&result) {
            break;
        }
        result = run(seconds);
    }
    result
}

/// Runs again, up to five times in all, until one went well. What came of the last.
pub fn until_well<T>(mut run: impl FnMut() -> T, well: impl Fn(&T) -> bool) -> T {
    let mut result = run();
    for _ in 1..5 {
        if well(&result) {
            break;
        }
        result = run();
    }
    result
}

/// The exit code of a measurement with these rows: one that must not be used is told by it, too.
pub fn code_of(rows: &[Value]) -> Option<i32> {
    Some(if rows.iter().any(|row| !row["void"].is_null()) { 4 } else { 0 })
}
