//! Rows of several hosts, and of several runs, as one.

use super::overlap::{MEASURED, Part, SHARE, together};
use super::rows::{Row, is_void, void_text};
use crate::plan::MergePlan;
use barewire_measure::Histogram;
use barewire_report::compare::median;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Ends of keys whose values add up over hosts: rates and volumes.
const SUMMED_ENDS: [&str; 5] = ["_per_s", "_pps", "_mbps", "_bps", "_gbps"];
/// Counts of what happened.
const COUNTS: [&str; 12] = [
    "samples",
    "mismatches",
    "resends",
    "unanswered",
    "errors",
    "failed",
    "opened",
    "sent",
    "received",
    "lost",
    "late",
    "behind",
];
/// Texts that say what is wrong with a row: where they differ, all of them are.
const MARKS: [&str; 4] = ["overloaded", "missing", "broken_off", "no_baseline"];
/// The key of what both ends kept busy, of which no statistic is a distribution's.
const CPU: &str = "cpu";
/// How many cores they kept busy.
const CORES: &str = "cores";
/// Ends of keys of which the largest is the honest one.
const TIME_ENDS: [&str; 5] = ["_ns", "_us", "_ms", "_s", "seconds"];

/// The rows of one run that stand for the same thing on several hosts, as one, which is void where they were not measured together. What
/// each host said is kept under `per_host`.
pub(crate) fn merge_hosts(parts: Vec<Part>, plan: &MergePlan) -> Row {
    if parts.len() < 2 {
        return parts.into_iter().next().map(|part| part.row).unwrap_or_default();
    }
    let known = together(&parts);
    let rows: Vec<(String, Row)> = parts.into_iter().map(|part| (part.host, part.row)).collect();
    let per_host: Vec<Value> =
        rows.iter().map(|(host, row)| json!({ "host": host, "row": row.row })).collect();
    let mut histograms: BTreeMap<String, Histogram> = BTreeMap::new();
    for (name, text) in rows.iter().flat_map(|(_, row)| &row.histograms) {
        // Each was decoded once already, when the row was read.
        if let Ok(one) = Histogram::from_base64(text) {
            histograms.entry(name.clone()).or_default().merge(&one);
        }
    }
    let keys: BTreeSet<&String> = rows.iter().flat_map(|(_, row)| row.row.keys()).collect();
    let mut merged = Map::new();
    for key in keys.into_iter().filter(|key| *key != "runs" && *key != MEASURED) {
        let values: Vec<&Value> = rows.iter().filter_map(|(_, row)| row.row.get(key)).collect();
        if key == "void" {
            let void = rows.iter().find_map(|(host, row)| Some(format!("{host}: {}", void_text(&row.row)?)));
            merged.insert(key.clone(), void.map_or(Value::Null, Value::from));
        } else if let Some(value) = of_hosts(key, &values, plan, &histograms) {
            merged.insert(key.clone(), value);
        }
    }
    if let Some(why) = known.tell(&mut merged)
        && !is_void(&merged)
    {
        merged.insert("void".to_owned(), why.into());
    }
    merged.entry("hosts").or_insert_with(|| json!(rows.len()));
    merged.insert("per_host".to_owned(), Value::Array(per_host));
    let histograms = histograms.into_iter().map(|(name, h)| (name, h.to_base64())).collect();
    Row { row: merged, histograms }
}

fn of_hosts(
    key: &str,
    values: &[&Value],
    plan: &MergePlan,
    histograms: &BTreeMap<String, Histogram>,
) -> Option<Value> {
    let first = *values.first()?;
    if let Some(numbers) = numbers(values) {
        let largest = || numbers.iter().copied().fold(f64::MIN, f64::max);
        let whole = values.iter().all(|value| value.is_u64() || value.is_i64());
        if plan.sum.contains(key) {
            return Some(number(numbers.iter().sum(), whole));
        }
        if plan.max.contains(key) {
            return Some(number(largest(), whole));
        }
        if plan.min.contains(key) {
            return Some(number(numbers.iter().copied().fold(f64::MAX, f64::min), whole));
        }
        if plan.mean.contains(key) {
            return Some(json!(numbers.iter().sum::<f64>() / numbers.len() as f64));
        }
        // Before "all alike": two hosts with the same rate have twice the rate. What was offered is a setting of each host.
        if COUNTS.contains(&key) || SUMMED_ENDS.iter().any(|end| key.ends_with(end)) {
            return Some(number(numbers.iter().sum(), whole));
        }
        if values.iter().all(|value| *value == first) {
            return Some(first.clone());
        }
        return TIME_ENDS.iter().any(|end| key.ends_with(end)).then(|| number(largest(), whole));
    }
    if let Some(stats) = distribution(key, values, histograms, |numbers| numbers.fold(f64::MIN, f64::max)) {
        return Some(stats);
    }
    if key == CPU {
        // Each host has cores of its own; what a request cost is one's matter.
        let cores = values.iter().map(|cpu| cpu.get(CORES)?.as_f64()).sum::<Option<f64>>()?;
        return Some(json!({ CORES: (cores * 100.0).round() / 100.0 }));
    }
    alike_or_any(key, values)
}

/// The rows of a cell, one for each run, as one row; and the histograms of each run, by name, as texts: read, those of all cells would not
/// fit into memory.
pub(crate) fn over_runs(rows: &[Row]) -> (Map<String, Value>, BTreeMap<String, Vec<String>>) {
    // Figures are of the runs that are not void, if there are any; one void run makes the row void all the same, as it does in the
    // bench verbs: who leaves out the runs in which something stood in the way has chosen what to measure.
    let all_void = rows.iter().all(|row| is_void(&row.row));
    let counts = |row: &&Row| all_void || !is_void(&row.row);
    let of: Vec<&Row> = rows.iter().filter(counts).collect();
    let mut each: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Percentiles are of the runs that the other figures are of.
    let mut merged: BTreeMap<String, Histogram> = BTreeMap::new();
    for row in rows {
        for (name, text) in &row.histograms {
            if counts(&row)
                && let Ok(one) = Histogram::from_base64(text)
            {
                merged.entry(name.clone()).or_default().merge(&one);
            }
            each.entry(name.clone()).or_default().push(text.clone());
        }
    }
    let keys: BTreeSet<&String> = rows.iter().flat_map(|row| row.row.keys()).collect();
    let mut row = Map::new();
    for key in keys.into_iter().filter(|key| *key != "runs") {
        if key == "void" {
            let void = rows.iter().find_map(|row| void_text(&row.row));
            row.insert(key.clone(), void.map_or(Value::Null, Value::from));
            continue;
        }
        let values: Vec<&Value> = of.iter().filter_map(|row| row.row.get(key)).collect();
        if let Some(value) = of_runs(key, &values, &merged) {
            row.insert(key.clone(), value);
        }
    }
    row.insert("runs".to_owned(), Value::Array(runs_of(rows)));
    (row, each)
}

fn of_runs(key: &str, values: &[&Value], histograms: &BTreeMap<String, Histogram>) -> Option<Value> {
    let first = *values.first()?;
    if let Some(numbers) = numbers(values) {
        let whole = values.iter().all(|value| value.is_u64() || value.is_i64());
        if key == SHARE {
            // The worst run's: no other says what the row can be trusted for.
            return Some(json!(numbers.iter().copied().fold(f64::MAX, f64::min)));
        }
        return Some(match COUNTS.contains(&key) || key == "seconds" {
            true => number(numbers.iter().sum(), whole),
            false if values.iter().all(|value| *value == first) => first.clone(),
            false => number(median(numbers.iter().copied()).unwrap_or(f64::NAN), whole),
        });
    }
    if let Some(stats) = distribution(key, values, histograms, |numbers| median(numbers).unwrap_or(f64::NAN))
    {
        return Some(stats);
    }
    if key == CPU {
        return cpu_of_runs(values);
    }
    // The last run's hosts stand for all: each run's own are not figures.
    if key == "per_host" { values.last().map(|v| (*v).clone()) } else { alike_or_any(key, values) }
}

/// The median of each part that all runs have.
fn cpu_of_runs(values: &[&Value]) -> Option<Value> {
    let first = values.first()?.as_object()?;
    let part = |key: &String| {
        let of_runs = values.iter().map(|cpu| cpu.get(key)?.as_f64()).collect::<Option<Vec<f64>>>();
        (key.clone(), json!(of_runs.and_then(median)))
    };
    Some(first.keys().map(part).collect::<Map<_, _>>().into())
}

/// What each run came to: its own list where the verb had one, else its figures.
fn runs_of(rows: &[Row]) -> Vec<Value> {
    let mut lines = Vec::new();
    for row in rows {
        match row.row.get("runs") {
            Some(Value::Array(own)) if !own.is_empty() => lines.extend(own.iter().cloned()),
            _ => {
                let figure = |(key, value): (&String, &Value)| {
                    let word = ["void", "contended", MEASURED].contains(&key.as_str());
                    let keep = value.is_number() || word || is_distribution(value);
                    keep.then(|| (key.clone(), value.clone()))
                };
                lines.push(Value::Object(row.row.iter().filter_map(figure).collect()));
            }
        }
    }
    lines
}

fn numbers(values: &[&Value]) -> Option<Vec<f64>> {
    values.iter().map(|value| value.as_f64().filter(|n| n.is_finite())).collect()
}

fn number(n: f64, whole: bool) -> Value {
    // Whole numbers up to 2^53 are exact in an f64.
    if whole && n.fract() == 0.0 && n.abs() < 9e15 { json!(n as i64) } else { json!(n) }
}

fn is_distribution(value: &Value) -> bool {
    value.as_object().is_some_and(|stats| {
        !stats.is_empty()
            && stats.iter().all(|(key, v)| quantile_of(key).is_some() && (v.is_number() || v.is_null()))
    })
}

/// What a key of a distribution is: a share of samples, or one of the three that are none.
fn quantile_of(key: &str) -> Option<Option<f64>> {
    match key {
        "min" | "max" | "mean" | "samples" => Some(None),
        "median" => Some(Some(0.5)),
        _ => {
            let digits = key.strip_prefix('p')?;
            let percent: f64 = digits.replacen('_', ".", 1).parse().ok()?;
            (digits.starts_with(|c: char| c.is_ascii_digit()) && percent < 100.0)
                .then_some(Some(percent / 100.0))
        }
    }
}

/// Distributions as one: out of the merged histogram `X` of `X_ns`, else each statistic by `else_by`.
fn distribution(
    key: &str,
    values: &[&Value],
    histograms: &BTreeMap<String, Histogram>,
    else_by: impl Fn(Box<dyn Iterator<Item = f64> + '_>) -> f64,
) -> Option<Value> {
    if !values.iter().all(|value| is_distribution(value)) {
        return None;
    }
    let known = histograms.get(key.strip_suffix("_ns").unwrap_or(key));
    let stats: BTreeSet<&String> =
        values.iter().filter_map(|value| value.as_object()).flat_map(Map::keys).collect();
    let stat = |stat: &String| {
        if let Some(histogram) = known {
            return match (stat.as_str(), quantile_of(stat).flatten()) {
                ("min", _) => json!(histogram.min()),
                ("max", _) => json!(histogram.max()),
                ("mean", _) => json!(histogram.mean()),
                ("samples", _) => json!(histogram.samples()),
                (_, Some(q)) => json!(histogram.quantile(q).value()),
                _ => Value::Null,
            };
        }
        let all: Vec<f64> = values.iter().filter_map(|value| value.get(stat)?.as_f64()).collect();
        // A percentile that one of them has too few samples for is not told.
        if all.len() < values.len() {
            return Value::Null;
        }
        let one = match stat.as_str() {
            "min" => all.iter().copied().fold(f64::MAX, f64::min),
            "max" => all.iter().copied().fold(f64::MIN, f64::max),
            "samples" => all.iter().sum(),
            _ => else_by(Box::new(all.iter().copied())),
        };
        let whole = values.iter().filter_map(|value| value.get(stat)).all(|v| v.is_u64() || v.is_i64());
        number(one, whole)
    };
    Some(Value::Object(stats.into_iter().map(|key| (key.clone(), stat(key))).collect()))
}

/// What is the same everywhere; marks that one is enough for; lists of reasons together. What differs otherwise is left out.
fn alike_or_any(key: &str, values: &[&Value]) -> Option<Value> {
    let first = *values.first()?;
    if values.iter().all(|value| *value == first) {
        return Some(first.clone());
    }
    match (key, first) {
        ("contended", _) => Some(json!(values.iter().any(|value| value.as_bool() == Some(true)))),
        ("verified", _) => Some(json!(values.iter().all(|value| value.as_bool() == Some(true)))),
        (mark, _) if MARKS.contains(&mark) => {
            let mut all: Vec<&str> = Vec::new();
            for text in values.iter().filter_map(|value| value.as_str()) {
                if !all.contains(&text) {
                    all.push(text);
                }
            }
            Some(if all.is_empty() { Value::Null } else { all.join("; ").into() })
        }
        ("contention" | "notes", _) => {
            let mut all: Vec<Value> = Vec::new();
            for reason in values.iter().filter_map(|value| value.as_array()).flatten() {
                if !all.contains(reason) {
                    all.push(reason.clone());
                }
            }
            Some(Value::Array(all))
        }
        ("command", _) => Some(first.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        Row { row: serde_json::from_str(text).unwrap(), ..Row::default() }
    }

    fn part(host: &str, row: Row) -> Part {
        Part { host: host.into(), row, ..Part::default() }
    }

    fn with(mut row: Row, samples: &[(u64, u64)]) -> Row {
        let mut histogram = Histogram::new();
        samples.iter().for_each(|&(ns, n)| histogram.record_n(ns, n));
        row.histograms.insert("rtt".into(), histogram.to_base64());
        row
    }

    #[test]
    fn hosts_add_up_and_histograms_merge_exactly() {
        let a = with(
            row(
                r#"{"system":"x","rate_per_s":100,"samples":3000,"rtt_ns":{"min":1000,"p50":1000,"max":1000},
                   "seconds":3.0,"size":64,"window":1,"note":"a","void":null,"contended":false}"#,
            ),
            &[(1000, 3000)],
        );
        let b = with(
            row(
                r#"{"system":"x","rate_per_s":100,"samples":1000,"rtt_ns":{"min":9000,"p50":9000,"max":9000},
                   "seconds":3.1,"size":64,"window":4,"note":"b","void":"lagged","contended":true}"#,
            ),
            &[(9000, 1000)],
        );
        let merged = merge_hosts(vec![part("h1", a), part("h2", b)], &MergePlan::default());
        let get = |key: &str| merged.row.get(key).cloned().unwrap_or_default();
        assert_eq!(
            (get("rate_per_s"), get("samples"), get("seconds")),
            (json!(200), json!(4000), json!(3.1))
        );
        assert_eq!(get("rtt_ns")["max"].as_u64().unwrap() / 10, 900);
        // The median of all: not the worst host's, which is 9000, nor the mean of both.
        assert_eq!(get("rtt_ns")["p50"].as_u64().unwrap() / 10, 100);
        assert_eq!((get("size"), get("system"), get("hosts")), (json!(64), json!("x"), json!(2)));
        assert_eq!((get("window"), get("note")), (Value::Null, Value::Null), "what differs is nobody's");
        assert_eq!((get("void"), get("contended")), (json!("h2: lagged"), json!(true)));
        assert_eq!(get("per_host")[1]["row"]["note"], "b");
        let mut expected = Histogram::new();
        expected.record_n(1000, 3000);
        expected.record_n(9000, 1000);
        let got = Histogram::from_base64(&merged.histograms["rtt"]).unwrap();
        assert!(got.buckets().eq(expected.buckets()));
    }

    #[test]
    fn hosts_that_took_turns_give_a_void_row_and_the_worst_run_counts() {
        let rows = |shift: u64| {
            let one = |from: u64| {
                let text = format!(
                    r#"{{"rate_per_s":100,"void":null,"measured":{{"begin_unix_ns":{from},"end_unix_ns":{}}}}}"#,
                    from + 1_000_000_000
                );
                part("h", row(&text))
            };
            merge_hosts(vec![one(1), one(1 + shift)], &MergePlan::default())
        };
        let (good, bad) = (rows(1_000_000), rows(500_000_000));
        assert_eq!((void_text(&good.row), good.row["rate_per_s"].as_u64()), (None, Some(200)));
        assert!(void_text(&bad.row).unwrap().contains("50 %"), "{bad:?}");
        assert_eq!(good.row["per_host"][0]["row"]["measured"]["begin_unix_ns"], 1);
        let (merged, _) = over_runs(&[good.clone(), rows(20_000_000), good]);
        assert_eq!((void_text(&merged), merged[SHARE].as_f64()), (None, Some(0.98)));
        assert!(merged["runs"][1]["measured"]["end_unix_ns"].is_u64(), "{merged:?}");
    }

    /// A row that lost its mark would stand for what it is not.
    #[test]
    fn what_is_to_be_known_of_a_row_is_kept_when_it_differs() {
        let one = |overloaded: &str, cores: f64, note: &str| {
            row(&format!(
                r#"{{"rate_per_s":1,"overloaded":{overloaded},"idle_state":"cold","cpu":{{"client_ns":{cores},"server_ns":null,"cores":{cores}}},
                   "notes":["{note}"],"no_baseline":null}}"#
            ))
        };
        let rows = || {
            [
                one("\"1 % were never sent\"", 1.9, "a"),
                one("null", 1.7, "b"),
                one("\"3 % were never sent\"", 1.8, "a"),
            ]
        };
        let (of_runs, _) = over_runs(&rows());
        assert_eq!(of_runs["overloaded"], "1 % were never sent; 3 % were never sent");
        assert_eq!(of_runs["cpu"], json!({ "client_ns": 1.8, "server_ns": null, "cores": 1.8 }));
        assert_eq!((&of_runs["notes"], &of_runs["no_baseline"]), (&json!(["a", "b"]), &Value::Null));
        let [a, b, _] = rows();
        let of_hosts = merge_hosts(vec![part("h1", a), part("h2", b)], &MergePlan::default()).row;
        assert_eq!(
            (&of_hosts["overloaded"], &of_hosts["cpu"]),
            (&json!("1 % were never sent"), &json!({ "cores": 3.6 }))
        );
    }

    #[test]
    fn the_file_says_how_and_percentiles_without_histograms_are_the_worst() {
        let rows = |keys: &str| {
            let one = |n: u32, p: &str| row(&format!(r#"{{"a":{n},"b_ns":{{"p50":{n},"p99":{p}}}}}"#));
            let plan: MergePlan = match keys {
                "sum" => MergePlan { sum: ["a".into()].into(), ..MergePlan::default() },
                "min" => MergePlan { min: ["a".into()].into(), ..MergePlan::default() },
                "mean" => MergePlan { mean: ["a".into()].into(), ..MergePlan::default() },
                _ => MergePlan { max: ["a".into()].into(), ..MergePlan::default() },
            };
            merge_hosts(vec![part("x", one(1, "7")), part("y", one(4, "null"))], &plan).row
        };
        assert_eq!(rows("sum")["a"], 5);
        assert_eq!(rows("min")["a"], 1);
        assert_eq!(rows("mean")["a"], 2.5);
        assert_eq!(rows("max")["a"], 4);
        assert_eq!(rows("max")["b_ns"], json!({ "p50": 4, "p99": null }));
    }

    #[test]
    fn runs_give_medians_and_keep_each_value_and_void_ones_do_not_count() {
        let rows = [
            with(row(r#"{"rate_per_s":10.0,"samples":5,"rtt_ns":{"p50":7},"void":null}"#), &[(7, 5)]),
            with(row(r#"{"rate_per_s":99.0,"samples":5,"rtt_ns":{"p50":9},"void":"lagged"}"#), &[(9, 5)]),
            with(row(r#"{"rate_per_s":30.0,"samples":5,"rtt_ns":{"p50":8},"void":null}"#), &[(8, 5)]),
        ];
        let (merged, histograms) = over_runs(&rows);
        assert_eq!((&merged["rate_per_s"], &merged["samples"]), (&json!(20.0), &json!(10)));
        assert_eq!(merged["void"], "lagged");
        assert_eq!(merged["runs"].as_array().unwrap().len(), 3);
        assert_eq!(merged["runs"][1]["rate_per_s"], 99.0);
        assert_eq!(merged["runs"][2]["rtt_ns"]["p50"], 8);
        assert_eq!(histograms["rtt"].len(), 3, "repetitions stay apart");
        let (unexplained, _) = over_runs(&[row(r#"{"a":1,"void":true}"#), row(r#"{"a":2,"void":false}"#)]);
        assert!(unexplained["void"].is_string() && unexplained["a"] == 2, "{unexplained:?}");
        let (own, _) =
            over_runs(&[row(r#"{"runs":[{"p50_ns":1},{"p50_ns":2}]}"#), row(r#"{"runs":[{"p50_ns":3}]}"#)]);
        assert_eq!(own["runs"].as_array().unwrap().len(), 3);
    }
}
