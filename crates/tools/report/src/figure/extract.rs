//! Figures out of rows.

use super::unit::{Better, Unit};
use barewire_measure::samples_needed;
use serde_json::{Map, Value};

/// Which statistic of a distribution a figure is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stat {
    /// The figure is no distribution's.
    Single,
    /// Shortest or longest.
    Extreme,
    /// Mean.
    Mean,
    /// The share of samples (0 to 1) that it is not exceeded by.
    Quantile(f64),
}

/// One figure of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Where it stands: `rtt_ns.p50`, `tcp_mbps`.
    pub path: String,
    /// In words: `round trip p50`.
    pub label: String,
    /// Its unit; times are ns whatever the row has.
    pub unit: Unit,
    /// Which way it should go.
    pub better: Better,
    /// Which statistic.
    pub stat: Stat,
    /// The value; of a percentile with runs the median of theirs. `None`: too few samples.
    pub value: Option<f64>,
    /// Samples that it needs, when there are too few: `n<k`.
    pub needs: Option<u64>,
    /// The value of each run, void runs left out.
    pub runs: Vec<f64>,
}

/// Objects of a row that hold a distribution: key, words, key of a run's median.
const DISTRIBUTIONS: [(&str, &str); 5] = [
    ("rtt_ns", "round trip"),
    ("latency_ns", "latency"),
    ("response_ns", "response"),
    ("service_ns", "service"),
    ("connect_ns", "connection set-up"),
];

/// Statistics by the keys that the bench verbs use.
const STATS: [(&str, &str, Stat); 11] = [
    ("min", "min", Stat::Extreme),
    ("p50", "p50", Stat::Quantile(0.5)),
    ("median", "p50", Stat::Quantile(0.5)),
    ("mean", "mean", Stat::Mean),
    ("p90", "p90", Stat::Quantile(0.9)),
    ("p95", "p95", Stat::Quantile(0.95)),
    ("p99", "p99", Stat::Quantile(0.99)),
    ("p99_9", "p99.9", Stat::Quantile(0.999)),
    ("p99_99", "p99.99", Stat::Quantile(0.9999)),
    ("p99_999", "p99.999", Stat::Quantile(0.99999)),
    ("max", "max", Stat::Extreme),
];

/// Figures whose name says more than a unit: key, words, unit, direction, factor.
const NAMED: [(&str, &str, Unit, Better, f64); 12] = [
    ("ns_per_packet", "time a packet", Unit::Ns, Better::Lower, 1.0),
    ("ns_per_message", "time a message", Unit::Ns, Better::Lower, 1.0),
    ("rate_per_s", "rate", Unit::PerSecond, Better::Higher, 1.0),
    ("connections_per_s", "connections", Unit::PerSecond, Better::Higher, 1.0),
    ("tcp_mbps", "TCP", Unit::Mbps, Better::Higher, 1.0),
    ("gbit_per_s", "payload", Unit::Mbps, Better::Higher, 1e3),
    ("rate_pps", "packets", Unit::PerSecond, Better::Higher, 1.0),
    ("sustained_pps", "packets without loss", Unit::PerSecond, Better::Higher, 1.0),
    ("cpu_ns_per_op", "CPU time an operation", Unit::Ns, Better::Lower, 1.0),
    ("cpu_us_per_packet", "CPU time a packet", Unit::Ns, Better::Lower, 1e3),
    ("machine_cpu_us_per_packet", "CPU time a packet, both hosts' included", Unit::Ns, Better::Lower, 1e3),
    ("instructions_per_packet", "instructions a packet", Unit::Count, Better::Lower, 1.0),
];

/// Words that keys shorten.
const SHORT: [(&str, &str); 4] = [("tcp", "TCP"), ("udp", "UDP"), ("rtt", "round trip"), ("cpu", "CPU")];

/// What a name's end says: end, unit, direction, factor.
const ENDS: [(&str, Unit, Better, f64); 7] = [
    ("_per_s", Unit::PerSecond, Better::Higher, 1.0),
    ("_pps", Unit::PerSecond, Better::Higher, 1.0),
    ("_mbps", Unit::Mbps, Better::Higher, 1.0),
    ("_bps", Unit::Mbps, Better::Higher, 1e-6),
    ("_ns", Unit::Ns, Better::Lower, 1.0),
    ("_us", Unit::Ns, Better::Lower, 1e3),
    ("_ms", Unit::Ns, Better::Lower, 1e6),
];

/// Keys that end in a unit and are settings or remarks, not results.
fn is_setting(key: &str) -> bool {
    key.starts_with("offered_")
        // Where nothing was lost there is no saturated rate, and that is the best there can be.
        || ["gap_us", "clock_ns", "sent_pps", "timeout_ns", "interval_us", "saturated_pps"].contains(&key)
}

/// All figures of a row, in the order distributions, named ones, others by name.
pub fn figures(row: &Map<String, Value>) -> Vec<Figure> {
    let mut found = Vec::new();
    for (key, words) in DISTRIBUTIONS {
        // An open loop's round trip is its service time, which stands there, too.
        if key == "rtt_ns" && row.get("service_ns").is_some_and(Value::is_object) {
            continue;
        }
        if let Some(Value::Object(object)) = row.get(key) {
            distribution(row, key, words, object, &mut found);
        }
    }
    for (key, words, unit, better, factor) in NAMED {
        single(row, key, words, (unit, better, factor), &mut found);
    }
    let explained = row.get("measures").and_then(Value::as_object);
    for key in row.keys() {
        if DISTRIBUTIONS.iter().any(|d| d.0 == key) || NAMED.iter().any(|n| n.0 == key) {
            continue;
        }
        // What a row says of its own measures needs no table of names here.
        if let Some(measure) = explained.and_then(|all| all.get(key)) {
            explained_figure(row, key, measure, &mut found);
            continue;
        }
        if is_setting(key) {
            continue;
        }
        if let Some((end, unit, better, factor)) = ENDS.iter().find(|(end, ..)| key.ends_with(end)) {
            let words: Vec<&str> = key
                .strip_suffix(end)
                .unwrap_or(key)
                .split('_')
                .map(|word| SHORT.iter().find(|(short, _)| *short == word).map_or(word, |(_, long)| long))
                .collect();
            let words = words.join(" ");
            single(row, key, &words, (*unit, *better, *factor), &mut found);
        }
    }
    found
}

/// A figure whose unit, direction and words stand in the row. One without a direction explains others and is none.
fn explained_figure(row: &Map<String, Value>, key: &str, measure: &Value, found: &mut Vec<Figure>) {
    let text = |name: &str| measure.get(name).and_then(Value::as_str).unwrap_or_default();
    let better = match text("better") {
        "lower" => Better::Lower,
        "higher" => Better::Higher,
        _ => return,
    };
    match row.get(key) {
        Some(Value::Object(stats)) => distribution(row, key, text("words"), stats, found),
        _ => {
            if let Some((unit, factor)) = Unit::of_word(text("unit")) {
                single(row, key, text("words"), (unit, better, factor), found);
            }
        }
    }
}

/// The figure that a row is known by: a median where there is one, else a rate.
pub fn primary(figures: &[Figure]) -> Option<&Figure> {
    figures
        .iter()
        .find(|f| f.stat == Stat::Quantile(0.5) && f.value.is_some())
        .or_else(|| figures.iter().find(|f| f.value.is_some() && f.better == Better::Higher))
        .or_else(|| figures.iter().find(|f| f.value.is_some()))
}

fn distribution(
    row: &Map<String, Value>,
    key: &str,
    words: &str,
    object: &Map<String, Value>,
    found: &mut Vec<Figure>,
) {
    let samples = row.get("samples").and_then(Value::as_u64);
    for (stat_key, stat_words, stat) in STATS {
        let Some(raw) = object.get(stat_key) else { continue };
        let mut value = number(raw);
        let mut needs = None;
        if let Stat::Quantile(q) = stat {
            let needed = samples_needed(q);
            // The samples are those of the first distribution; a response has as many as its service time.
            if value.is_none() || samples.is_some_and(|n| n < needed) {
                (value, needs) = (None, Some(needed));
            }
        }
        // A run's own percentiles are those of its service time: of the one that a row shows first. Others stand in an object of their
        // own, which messages name without its unit.
        let own = key.strip_suffix("_ns").unwrap_or(key);
        let mut runs = match key {
            "rtt_ns" | "latency_ns" | "connect_ns" | "service_ns" => {
                runs(row, &[format!("{stat_key}_ns"), format!("{key}.{stat_key}")], 1.0)
            }
            _ => runs(row, &[format!("{key}.{stat_key}"), format!("{own}.{stat_key}")], 1.0),
        };
        if matches!(stat, Stat::Quantile(_)) && runs.len() < valid(row).count() {
            // Those that have one would be the fast ones: what is said is of all samples together, and no verdict follows from it.
            runs.clear();
        }
        // A fast run of a closed loop has more samples: a percentile of all together leans to it, the median of the runs does not.
        if let (Stat::Quantile(_), Some(_), true) = (stat, value, runs.len() > 1) {
            value = crate::compare::median(runs.iter().copied());
        }
        found.push(Figure {
            path: format!("{key}.{stat_key}"),
            label: format!("{words} {stat_words}"),
            unit: Unit::Ns,
            better: Better::Lower,
            stat,
            value,
            needs,
            runs,
        });
    }
}

fn single(
    row: &Map<String, Value>,
    key: &str,
    words: &str,
    (unit, better, factor): (Unit, Better, f64),
    found: &mut Vec<Figure>,
) {
    let Some(value) = row.get(key).and_then(number) else { return };
    let mut each = runs(row, &[key.to_owned()], factor);
    // Rows that list the runs of one figure only.
    let listed = match key {
        "ns_per_message" => "runs_ns",
        "gbit_per_s" => "runs_gbit_per_s",
        _ => "",
    };
    if each.is_empty()
        && let Some(all) = row.get(listed).and_then(Value::as_array)
    {
        each = all.iter().filter_map(number).map(|value| value * factor).collect();
    }
    found.push(Figure {
        path: key.to_owned(),
        label: words.to_owned(),
        unit,
        better,
        // A key such as `rtt_p50_ns` is a median all the same.
        stat: if key.contains("p50") || key.contains("median") { Stat::Quantile(0.5) } else { Stat::Single },
        value: Some(value * factor),
        needs: None,
        runs: each,
    });
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|n| n.is_finite())
}

/// The runs that are not void.
fn valid(row: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let all = row.get("runs").and_then(Value::as_array);
    all.into_iter().flatten().filter(|run| run.get("void").is_none_or(Value::is_null))
}

/// The value of each valid run, under the first of `paths` that a run has.
fn runs(row: &Map<String, Value>, paths: &[String], factor: f64) -> Vec<f64> {
    valid(row)
        .filter_map(|run| {
            let at =
                |path: &String| path.split('.').try_fold(run, |value, key| value.get(key)).and_then(number);
            paths.iter().find_map(at)
        })
        .map(|value| value * factor)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_message_row_has_its_percentiles_rate_and_runs() {
        let found = figures(&row(
            r#"{"samples":20000,"rtt_ns":{"min":1,"p50":9000,"p90":9500,"p99":12000,"p99_9":null,"max":99},
            "rate_per_s":99000.5,"offered_per_s":5,"seconds":3.0,
            "runs":[{"p50_ns":8000,"rate_per_s":98000.0,"void":null},{"p50_ns":9500,"rate_per_s":7,"void":"lagged"},
                    {"p50_ns":9100,"rate_per_s":99100.0}]}"#,
        ));
        let by = |path: &str| found.iter().find(|f| f.path == path).unwrap();
        assert_eq!(by("rtt_ns.p50").runs, [8000.0, 9100.0]);
        assert_eq!(
            by("rtt_ns.p50").value,
            Some(8550.0),
            "the median of the runs, not the percentile of all together"
        );
        assert_eq!(by("rtt_ns.p99").value, Some(12_000.0), "the row's own where its runs have none");
        assert_eq!((by("rtt_ns.p99_9").value, by("rtt_ns.p99_9").needs), (None, Some(100_000)));
        assert_eq!((by("rate_per_s").value, by("rate_per_s").better), (Some(99000.5), Better::Higher));
        assert_eq!(by("rate_per_s").runs.len(), 2);
        assert!(found.iter().all(|f| !f.path.starts_with("offered")));
        assert_eq!(primary(&found).unwrap().path, "rtt_ns.p50");
    }

    #[test]
    fn an_open_loop_has_the_response_times_of_each_run() {
        let found = figures(&row(
            r#"{"samples":20000,"loop":"open","rtt_ns":{"p50":1000},"service_ns":{"p50":1000},"response_ns":{"p50":5000,"p99":9000},
            "runs":[{"p50_ns":900,"response":{"p50":4000,"p99":null,"p99_9":null}},
                    {"p50_ns":1100,"response":{"p50":6500,"p99":null,"p99_9":null}}]}"#,
        ));
        let by = |path: &str| found.iter().find(|f| f.path == path).unwrap();
        assert_eq!(
            (&by("response_ns.p50").runs[..], by("response_ns.p50").value),
            (&[4_000.0, 6_500.0][..], Some(5_250.0))
        );
        assert_eq!(
            (&by("service_ns.p50").runs[..], by("service_ns.p50").value),
            (&[900.0, 1_100.0][..], Some(1_000.0))
        );
        assert_eq!(
            (by("response_ns.p99").value, by("response_ns.p99").runs.len()),
            (Some(9_000.0), 0),
            "of all together"
        );
        assert_eq!(
            primary(&found).unwrap().path,
            "response_ns.p50",
            "what a request waits for is a part of it"
        );
    }

    #[test]
    fn a_percentile_that_a_slow_run_lacks_is_that_of_all_samples() {
        let found = figures(&row(r#"{"samples":40000,"rtt_ns":{"p50":9000,"p99":17000},
            "runs":[{"p50_ns":53000,"p99_ns":null},{"p50_ns":9000,"p99_ns":12000},{"p50_ns":8000,"p99_ns":11000}]}"#));
        let by = |path: &str| found.iter().find(|f| f.path == path).unwrap();
        assert_eq!((by("rtt_ns.p99").value, by("rtt_ns.p99").runs.len()), (Some(17_000.0), 0));
        assert_eq!((by("rtt_ns.p50").value, by("rtt_ns.p50").runs.len()), (Some(9_000.0), 3));
    }

    #[test]
    fn a_percentile_with_too_few_samples_is_not_told_even_if_the_row_has_it() {
        let found = figures(&row(r#"{"samples":150,"latency_ns":{"median":70,"p99":90}}"#));
        assert_eq!((found[0].value, found[1].value, found[1].needs), (Some(70.0), None, Some(10_000)));
    }

    #[test]
    fn unknown_verbs_are_understood_by_their_units() {
        let found = figures(&row(
            r#"{"connect_us":12.5,"connections_per_s":400,"goodput_mbps":3.5,"gap_us":5,"clock_ns":20,"text_ns":"x"}"#,
        ));
        let got: Vec<(&str, f64)> = found.iter().map(|f| (f.label.as_str(), f.value.unwrap())).collect();
        assert_eq!(got, [("connections", 400.0), ("connect", 12_500.0), ("goodput", 3.5)]);
    }

    #[test]
    fn payload_is_bits_and_has_its_runs() {
        let text = r#"{"gbit_per_s":12.5,"messages_per_s":1000.0,"runs_gbit_per_s":[12.0,13.0]}"#;
        let found = figures(&row(text));
        let payload = &found[0];
        assert_eq!(
            (payload.label.as_str(), payload.unit, payload.value),
            ("payload", Unit::Mbps, Some(12_500.0))
        );
        assert_eq!(payload.runs, [12_000.0, 13_000.0]);
        assert_eq!(found[1].label, "messages");
        let text = r#"{"gbit_per_s":12.5,"messages_per_s":1000.0,"latency_ns":{"p50":900},"samples":5000,
            "runs":[{"gbit_per_s":12.0,"messages_per_s":990.0,"p50_ns":890},{"gbit_per_s":13.0,"messages_per_s":1010.0,"p50_ns":910}]}"#;
        let found = figures(&row(text));
        let runs = |path: &str| found.iter().find(|f| f.path == path).unwrap().runs.clone();
        assert_eq!(runs("gbit_per_s"), [12_000.0, 13_000.0]);
        assert_eq!(runs("messages_per_s"), [990.0, 1_010.0]);
        assert_eq!(runs("latency_ns.p50"), [890.0, 910.0]);
    }

    #[test]
    fn a_row_that_explains_its_measures_needs_no_names_here() {
        let found = figures(&row(
            r#"{"samples":5000,"wire_ns":{"p50":900,"p99":null},"hops":7,"goodput":2.5,"lost":3,"gap_us":5,
            "measures":{"wire_ns":{"unit":"ns","better":"lower","words":"on the wire"},
                        "hops":{"unit":"count","better":"lower","words":"hops a packet"},
                        "goodput":{"unit":"Gbit/s","better":"higher","words":"goodput"},
                        "lost":{"unit":"count","better":null,"words":"lost"}},
            "runs":[{"wire_ns":{"p50":890},"goodput":2.0},{"wire_ns":{"p50":910},"goodput":3.0}]}"#,
        ));
        let mut got: Vec<(&str, Option<f64>)> = found.iter().map(|f| (f.label.as_str(), f.value)).collect();
        got.sort_by_key(|(label, _)| *label);
        assert_eq!(
            got,
            [
                ("goodput", Some(2_500.0)),
                ("hops a packet", Some(7.0)),
                ("on the wire p50", Some(900.0)),
                ("on the wire p99", None)
            ]
        );
        let goodput = found.iter().find(|f| f.path == "goodput").unwrap();
        assert_eq!(
            (goodput.unit, goodput.better, &goodput.runs[..]),
            (Unit::Mbps, Better::Higher, &[2_000.0, 3_000.0][..])
        );
    }

    #[test]
    fn decoders_keep_their_runs_elsewhere() {
        let found = figures(&row(r#"{"ns_per_message":69.5,"runs_ns":[69.5,65.0]}"#));
        assert_eq!((found.len(), found[0].runs.len()), (1, 2));
    }
}
