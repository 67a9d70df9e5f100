//! Which rows are the same experiment, so that two runs can be set beside each other.

use super::unit::{Unit, quantity};
use crate::run::Record;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Keys of a row that say what was run, in the order in which people want to read them.
const KEYS: [&str; 52] = [
    "system",
    "engine",
    "mode",
    "idle",
    "over",
    "lab",
    "pattern",
    "program",
    "message",
    "what",
    "base",
    "points",
    "workload",
    "loop",
    "search",
    "size",
    "bytes",
    "window",
    "connections",
    "engines",
    "queues",
    "offered_per_s",
    "arrivals",
    "threads",
    "hosts",
    "teardown",
    "live_qps",
    "own_cq",
    "operation",
    "protocol",
    "streams",
    "offered_pps",
    "mtu",
    "clients",
    "servers",
    "nics",
    "peers",
    "feed_channel",
    "instruments",
    "lines",
    "entries",
    "masks",
    "flows",
    "offloads",
    "gso",
    "gro",
    "gap_us",
    "keep_warm",
    "idle_state",
    "waits",
    "verified",
    "simulated",
];

/// Keys whose value is a name by itself.
const NAMES: [&str; 5] = ["system", "engine", "mode", "idle", "over"];

/// What a row is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Everything: two rows with one key are repetitions of one cell.
    pub key: String,
    /// Who: `barewire embedded over xdp`.
    pub name: String,
    /// The rest: `1024 B, window 1`.
    pub details: String,
}

/// Whether a row is of something that is measured for the sake of comparison: whatever names a system, or a decoder, that is not ours.
pub fn is_baseline(row: &Map<String, Value>) -> bool {
    ["system", "decoder"]
        .iter()
        .any(|key| row.get(*key).and_then(Value::as_str).is_some_and(|s| s != "barewire"))
}

/// Whether the row is of virtual time.
pub fn is_simulated(row: &Map<String, Value>) -> bool {
    row.get("simulated") == Some(&Value::Bool(true))
}

/// What `record` is of.
pub fn identity(record: &Record) -> Identity {
    let mut key = format!("{}|{}", record.experiment, record.table);
    let (mut name, mut details) = (String::new(), String::new());
    // Completion queues are ours: the kernel's TCP has none.
    let others = is_baseline(&record.row);
    let hidden = |field: &str| record.axes.contains_key(field) || (others && field == "own_cq");
    let said = record.row.get("params").and_then(Value::as_object);
    let more = said.into_iter().flat_map(|params| params.keys().map(String::as_str));
    // A decoder is the system that its rows are of, and is said twice where they name both. Another seed, or the address
    // of the server, is another run of the same.
    let more = more.filter(|key| !KEYS.contains(key) && !["decoder", "seed", "server"].contains(key));
    for field in KEYS.into_iter().chain(more) {
        let text = match field {
            "system" => system(record),
            "idle_state" => idle_state(record),
            _ => record.row.get(field).and_then(text_of),
        };
        let Some(text) = text else { continue };
        let _ = write!(key, "|{field}={text}");
        if NAMES.contains(&field) {
            match field {
                "over" => _ = write!(name, "{}over {text}", space(&name)),
                "idle" => _ = write!(name, "-{text}"),
                // `kernel-tcp-spin` says it.
                "mode" if name.ends_with(&format!("-{text}")) => {}
                _ => _ = write!(name, "{}{text}", space(&name)),
            }
        } else if !hidden(field)
            && let Some(words) = detail(field, &text)
        {
            let _ = write!(details, "{}{words}", comma(&details));
        }
    }
    for (axis, value) in &record.axes {
        let value = value.to_string();
        let own = record.row.get(axis).and_then(text_of);
        // What the row says itself is in the key already: a run that swept it and one that did not have cells in common.
        if own.is_none_or(|own| own.parse::<f64>().ok() != value.parse().ok()) {
            let _ = write!(key, "|@{axis}={value}");
        }
        let words = KEYS.contains(&axis.as_str()).then(|| detail(axis, &value)).flatten();
        let words = words.unwrap_or_else(|| format!("{axis} {value}"));
        let _ = write!(details, "{}{words}", comma(&details));
    }
    if name.is_empty() {
        name = record.experiment.clone();
    }
    Identity { key, name, details }
}

/// Whose a row is. Rows of schema 1 about decoders and rates of market data do not say it by this name.
fn system(record: &Record) -> Option<String> {
    let said = ["system", "decoder"].iter().find_map(|key| record.row.get(*key).and_then(text_of));
    said.or_else(|| (record.experiment == "feed-rates").then(|| "barewire".to_owned()))
}

/// State of the cores. Rows about switches and RDMA once did not say it: all that are recorded so were measured with engines that poll, or with
/// the idle loop held.
fn idle_state(record: &Record) -> Option<String> {
    let said = record.row.get("idle_state").and_then(text_of);
    said.or_else(|| ["switch", "rc"].contains(&record.experiment.as_str()).then(|| "warm".to_owned()))
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn space(text: &str) -> &'static str {
    if text.is_empty() { "" } else { " " }
}

fn comma(text: &str) -> &'static str {
    if text.is_empty() { "" } else { ", " }
}

fn plural(n: &str) -> &'static str {
    if n == "1" { "" } else { "s" }
}

/// A setting in words; `None` when the usual value goes without saying.
fn detail(field: &str, text: &str) -> Option<String> {
    Some(match (field, text) {
        ("connections", "1")
        | ("teardown" | "own_cq", "true")
        | ("live_qps", "0")
        | ("verified" | "simulated" | "gso", "false")
        | ("lines", "a") => return None,
        ("base", _) => return None,
        ("teardown", _) => "no teardown".to_owned(),
        ("own_cq", _) => "one completion queue for all".to_owned(),
        ("live_qps", n) => format!("{n} live queue pairs"),
        ("streams", n) => format!("{n} stream{}", plural(n)),
        ("nics", n) => format!("{n} NIC{}", plural(n)),
        ("threads" | "hosts" | "clients" | "servers", "1") => format!("1 {}", field.trim_end_matches('s')),
        ("size" | "bytes", bytes) => format!("{bytes} B"),
        ("offered_per_s" | "offered_pps", rate) => {
            let told = rate.parse().map_or_else(|_| rate.to_owned(), |r| quantity(r, Unit::PerSecond));
            format!("offered {told}/s")
        }
        ("gap_us", "0") => "back to back".to_owned(),
        ("gap_us", us) => format!("{us} us gaps"),
        ("loop", kind) => format!("{kind} loop"),
        ("offloads", "true") => "offloads on".to_owned(),
        ("offloads", _) => "offloads off".to_owned(),
        ("keep_warm", "true") => "kept warm".to_owned(),
        ("keep_warm", _) => "not kept warm".to_owned(),
        ("gro", _) => "hosts poll".to_owned(),
        ("verified" | "simulated" | "gso", _) => field.to_owned(),
        (
            "idle_state" | "waits" | "points" | "protocol" | "program" | "what" | "workload" | "message"
            | "arrivals" | "pattern",
            word,
        ) => word.to_owned(),
        ("window" | "peers" | "lab" | "feed_channel", n) => format!("{field} {n}"),
        ("lines", lines) => format!("lines {lines}"),
        (many, n) => format!("{n} {many}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_for_people_and_keys_for_comparison() {
        let row = serde_json::from_str(
            r#"{"system":"barewire","mode":"daemon","over":"xdp","idle":"yield","size":1024,"window":1,"connections":1,
            "loop":"closed","rate_per_s":5.0,"idle_state":"warm","command":"x"}"#,
        )
        .unwrap();
        let mut record = Record::new("msg", "machnet", row);
        let id = identity(&record);
        assert_eq!(id.name, "barewire daemon-yield over xdp");
        assert_eq!(id.details, "closed loop, 1024 B, window 1, warm");
        assert!(!id.key.contains("rate_per_s") && !id.key.contains("command"));
        record.axes.insert("window".into(), 1.0.into());
        assert_eq!(identity(&record).details, "closed loop, 1024 B, warm, window 1");
        assert_eq!(identity(&record).key, id.key, "the row said so before");
        record.axes.insert("window".into(), 2.0.into());
        assert_ne!(identity(&record).key, id.key);
    }
}
