//! What readers of the output see, to the letter.

use barewire_bench::messages::render::text_table;
use barewire_bench::published::messages::message_tables;
use barewire_bench::render::{latency, percentile, rate};
use barewire_bench::row::Row;
use barewire_bench::{Results, messages};
use barewire_report::import::{self, ImportError};
use barewire_report::run::HardwareClass;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::path::Path;

/// A row as a document has it, with other values for some of its keys.
fn with(mut row: Map<String, Value>, other: Value) -> Map<String, Value> {
    row.extend(other.as_object().unwrap().clone());
    row
}

fn read(row: Map<String, Value>) -> Row {
    messages::read(row).unwrap()
}

fn times(min: u64, p50: u64, p90: u64, p99: u64, p99_9: u64, max: u64) -> Value {
    let some = |ns| (ns > 0).then_some(ns);
    json!({
        "min": some(min), "p50": some(p50), "p90": some(p90), "p99": some(p99), "p99_9": some(p99_9), "max": some(max)
    })
}

/// As documents had it before rows of messages described themselves, all keys and their order included.
const CLOSED: &str = concat!(
    r#"{"bench":"msg","system":"kernel-tcp","mode":"blocking","over":"veth","secure":false,"#,
    r#""size":1024,"window":1,"connections":1,"samples":120000,"#,
    r#""rtt_ns":{"min":8210,"p50":18040,"p90":19100,"p99":21499,"p99_9":22300,"max":1203000},"#,
    r#""rtt_of_runs_ns":{"p50":{"median":18000,"min":17900,"max":18100},"p99":null,"p99_9":null},"#,
    r#""rate_per_s":54321.5,"loop":"closed","offered_per_s":null,"service_ns":null,"response_ns":null,"seconds":2.0,"#,
    r#""runs":[{"p50_ns":17900,"p99_ns":null,"p99_9_ns":null,"rate_per_s":54400.0,"samples":5000,"contended":false,"void":null},"#,
    r#"{"p50_ns":18100,"p99_ns":null,"p99_9_ns":null,"rate_per_s":54243.0,"samples":5000,"contended":false,"void":null}],"#,
    r#""idle_state":"warm","contended":false,"little":0.991,"command":"barewire bench msg --window 1","#,
    r#""arrivals":null,"behind_percent":null,"verified":false,"mismatches":0,"resends":0,"unanswered":0,"seed":1,"#,
    r#""contention":[],"void":null,"cpu_ns_per_op":13240.0,"cpu":{"client_ns":6200.0,"server_ns":7000.0,"#,
    r#""user_ns":2000.0,"system_ns":11200.0,"softirq_ns":3000.0,"cores":0.72}}"#,
);

fn closed() -> Map<String, Value> {
    serde_json::from_str(CLOSED).unwrap()
}

fn pipelined() -> Map<String, Value> {
    let run = json!({ "p50_ns": 9_310, "p99_ns": null, "p99_9_ns": null, "rate_per_s": 1_043_210.0, "samples": 50_000 });
    let other = json!({
        "window": 32,
        "cpu_ns_per_op": null,
        "cpu": null,
        "rtt_ns": times(900, 9_310, 9_960, 54_000, 0, 12_345_678),
        "samples": 50_000,
        "rate_per_s": 1_043_210.0,
        "runs": [run],
        "idle_state": "cold",
        "contended": true,
        "contention": ["stolen: 3 %"],
        "little": 0.5,
        "verified": true,
        "command": "barewire bench msg --window 32 | tee `x`",
    });
    with(closed(), other)
}

fn open() -> Map<String, Value> {
    let other = json!({
        "system": "kernel-udp-spin",
        "mode": "spin",
        "over": "loopback",
        "window": 256,
        "connections": 4,
        "loop": "open",
        "offered_per_s": 10_000.0,
        "samples": 150,
        "cpu_ns_per_op": null,
        "overloaded": "1.23 % of the requests were never answered",
        "rtt_ns": times(6_000, 7_400, 0, 0, 0, 812_000),
        "service_ns": times(6_000, 7_400, 0, 0, 0, 812_000),
        "response_ns": times(6_100, 7_500, 0, 0, 0, 50_000_000),
        "send_lag_ns": times(0, 100, 0, 0, 0, 50_000_000),
        "rate_per_s": 987.0,
        "runs": [],
        "arrivals": "poisson",
        "behind_percent": 4.91,
        "resends": 3,
        "little": null,
        "void": "the generator was late for 4.9 % of its sends",
    });
    with(closed(), other)
}

#[test]
fn times_and_rates_have_a_sensible_precision() {
    for (ns, text) in [
        (0, "0 ns"),
        (812, "812 ns"),
        (999, "999 ns"),
        (1_000, "1.0 us"),
        (9_310, "9.3 us"),
        (9_949, "9.9 us"),
        (9_950, "10 us"),
        (18_499, "18 us"),
        (18_500, "19 us"),
        (1_203_000, "1203 us"),
        (9_999_499, "9999 us"),
        (9_999_500, "10 ms"),
        (2_400_000_000, "2400 ms"),
        (12_000_000_000, "12 s"),
        (u64::MAX, "18446744073 s"),
    ] {
        assert_eq!(latency(ns), text, "{ns}");
    }
    for (per_s, text) in [
        (0.0, "0"),
        (999.4, "999"),
        (999.6, "1.0K"),
        (9_540.0, "9.5K"),
        (9_950.0, "10K"),
        (54_321.5, "54K"),
        (753_000.0, "753K"),
        (1_043_210.0, "1043K"),
        (12_345_678.0, "12.3M"),
    ] {
        assert_eq!(rate(per_s), text, "{per_s}");
    }
    assert_eq!(percentile(None, 0.999), "n<100000");
    assert_eq!(percentile(Some(18_000), 0.999), "18 us");
}

#[test]
fn text_has_aligned_columns() {
    let expected = "\
system           mode      over      size  window  conns  loop      time         p50      p99     p99.9      max  rate/s  cpu/op  cores  notes
kernel-tcp       blocking  veth      1024       1      1  closed    rtt        18 us    21 us     22 us  1203 us     54K   13 us    0.7  warm; 2 runs: p50 18 us..18 us, 54K..54K/s, p99 and p99.9 of all together
kernel-tcp       blocking  veth      1024      32      1  closed    rtt       9.3 us    54 us  n<100000    12 ms   1043K       -      -  contended (stolen); cold; Little's law off: 0.50; verified
kernel-udp-spin  spin      loopback  1024     256      4  open 10K  service   7.4 us  n<10000  n<100000   812 us     987       -    0.7  VOID: the generator was late for 4.9 % of its sends; overloaded: 1.23 % of the requests were never answered; warm; 4.9 % behind schedule; sends 100 ns, n<10000 late (p50, p99); 3 resends
                                                                    response  7.5 us  n<10000  n<100000    50 ms
";
    assert_eq!(text_table(&[closed(), pipelined(), open()].map(read)), expected);
}

fn document(rows: &[Row]) -> String {
    let mut results = Results::begin();
    results.add(rows).unwrap();
    results.document(HardwareClass::OneMachine, false, &[]).unwrap()
}

/// What scripts read of a row stands where it always did, and it explains itself besides.
#[test]
fn json_is_one_object_with_the_documented_keys() {
    let text = document(&[read(closed())]);
    assert!(text.starts_with(r#"{"schema":2,"fingerprint":{"#), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    let row = document["rows"][0].as_object().unwrap();
    for (key, value) in &closed() {
        assert_eq!(row.get(key), Some(value), "{key}");
    }
    let more: Vec<&str> = row.keys().map(String::as_str).filter(|key| !closed().contains_key(*key)).collect();
    let mut expected = ["measures", "notes", "overloaded", "params", "send_lag_ns", "settled"];
    expected.sort_unstable();
    let mut sorted = more.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(row["measures"]["rtt_ns"], json!({ "unit": "ns", "better": "lower", "words": "round trip" }));
    assert_eq!(row["params"]["size"], "bytes");
    assert_eq!(row["params"].get("secure"), None, "rows are told apart by their mode");

    let json: Value = serde_json::from_str(&self::document(&[read(open())])).unwrap();
    let row = &json["rows"][0];
    assert_eq!(row["loop"], "open");
    assert_eq!(row["arrivals"], "poisson");
    assert_eq!(row["offered_per_s"], 10_000.0);
    assert_eq!(row["service_ns"]["p50"], 7_400);
    assert_eq!(row["response_ns"]["max"], 50_000_000);
    assert!(row["response_ns"]["p99_9"].is_null());
    assert_eq!(row["send_lag_ns"]["p50"], 100);
}

/// Runs of an open loop keep their response times under the name that documents have always had.
#[test]
fn runs_of_an_open_loop_have_their_response_times() {
    let run = |p50: u64| {
        json!({ "p50_ns": 7_400, "p99_ns": null, "p99_9_ns": null, "response": { "p50": p50, "p99": null, "p99_9": null },
        "rate_per_s": 987.0, "samples": 150, "contended": false, "void": null })
    };
    let row = with(open(), json!({ "runs": [run(7_500), run(8_500), run(7_700)] }));
    let written = serde_json::to_value(read(row.clone())).unwrap();
    assert_eq!(written["runs"], row["runs"]);
    assert_eq!(
        written["response_of_runs_ns"],
        json!({ "p50": { "median": 7_700, "min": 7_500, "max": 8_500 }, "p99": null, "p99_9": null })
    );
}

/// A report names the rows of both the same and finds the same figures in them: a run of today stands beside one of before.
#[test]
fn rows_that_describe_themselves_are_the_same_experiments() {
    use barewire_report::figure::{figures, identity};
    use barewire_report::run::Record;
    for row in [
        closed(),
        pipelined(),
        open(),
        with(closed(), json!({ "secure": true, "mode": "blocking-secure", "idle": "park" })),
    ] {
        let Value::Object(written) = serde_json::to_value(read(row.clone())).unwrap() else {
            panic!("no object")
        };
        assert_eq!(figures(&written), figures(&row));
        let id = |row| identity(&Record::new("msg", "machnet", row));
        assert_eq!(id(written), id(row));
    }
}

/// Every row of messages that was ever recorded is read, and written with the figures and the name that it had.
#[test]
fn recorded_rows_are_read_with_their_figures() {
    use barewire_report::figure::{figures, identity};
    use barewire_report::run::{Record, Run};
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../benches/runs");
    let mut rows: Vec<Map<String, Value>> = Vec::new();
    let mut folders = vec![runs];
    while let Some(folder) = folders.pop() {
        if let Ok(run) = Run::open(&folder) {
            rows.extend(run.records.into_iter().map(|record| record.row));
        }
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "json")
                && let Ok(document) = import::document(&std::fs::read_to_string(&path).unwrap())
            {
                rows.extend(document.rows.into_iter().map(|row| row.record.row));
            }
        }
    }
    rows.retain(|row| {
        let bench = row.get("bench").and_then(Value::as_str);
        row.contains_key("rtt_ns")
            && bench.is_none_or(|bench| bench == "msg")
            && !row.contains_key("simulated")
    });
    assert!(rows.len() > 500, "{} rows", rows.len());
    for row in rows {
        let Value::Object(written) = serde_json::to_value(read(row.clone())).unwrap() else {
            panic!("no object")
        };
        assert_eq!(figures(&written), figures(&row), "{row:?}");
        let id = |row| identity(&Record::new("msg", "machnet", row));
        assert_eq!(id(written), id(row));
    }
}

#[test]
fn documents_of_this_machine_read_back_and_others_are_refused() {
    let all = [closed(), open()].map(read);
    let text = document(&all);
    assert_eq!(text.lines().count(), 1);
    let read = |text: &str| {
        let document = import::document(text)?;
        assert!(document.fingerprint.is_object());
        let row = |row: import::Imported| messages::read(row.record.row).unwrap();
        Ok::<_, ImportError>(document.rows.into_iter().map(row).collect::<Vec<_>>())
    };
    assert_eq!(read(&text).unwrap(), all);
    // A reader of this version passes over keys that a later one added.
    let later = text.replacen("\"system\"", "\"new_key\":1,\"system\"", 1);
    assert_eq!(read(&later).unwrap(), all);
    assert_eq!(read(r#"{"schema":3,"anything":[]}"#), Err(ImportError::Schema(3)));
    assert!(matches!(read("{}"), Err(ImportError::Shape(_))));
    assert!(matches!(read("speed: high"), Err(ImportError::Json(_))));
}

#[test]
fn published_and_measured_rows_stand_side_by_side() {
    let text = message_tables(
        &[closed(), pipelined(), open()].map(read),
        "2 cores, fingerprint 0123abcd",
        HardwareClass::OneMachine,
    );
    let tables: String = text.lines().filter(|l| l.starts_with('|')).map(|l| format!("{l}\n")).collect();
    let expected = "\
| Server | NIC, DPDK PMD | Round-trip p50 99 99.9 | RPCs/s | Source | Notes |
| --- | --- | --- | --- | --- | --- |
| Azure F8s_v2, Ubuntu 22.03 | CX4-Lx, netvsc | 18 us, 19 us, 25 us | 54K | published | window 1; no proximity groups; cloud VMs |
| AWS c5.xlarge, Amazon Linux | ENA, ena | 42 us, 66 us, 105 us | 22K | published | window 1; proximity groups; cloud VMs |
| GCP | gVNIC | not run by the authors | not run by the authors | published | window 1; XXX in the text: not run by its authors; cloud VMs |
| Bare metal, Mariner 2.0 | E810 PF, ice | 18 us, 21 us, 22 us | 55K | published | window 1; machines with NICs |
| Bare metal, Mariner 2.0 | E810 VF, iavf | 18 us, 22 us, 22 us | 55K | published | window 1; machines with NICs |
| Bare metal, Ubuntu 22.04 | Bluefield-2, mlx5 | 9 us, 12 us, 13 us | 99K | published | window 1; machines with NICs |
| Bare metal, Ubuntu 20.04 | CX5, mlx5 | not run by the authors | not run by the authors | published | window 1; XXX in the text: not run by its authors; machines with NICs |
| Bare metal, Ubuntu 20.04 | CX6-Dx, mlx5 | not run by the authors | not run by the authors | published | window 1; XXX in the text: not run by its authors; machines with NICs |
| kernel-tcp *blocking* | veth | 18 us, 21 us, 22 us | 54K | measured here, **not comparable** (one machine, no NIC) | [1] 1024 B, window 1; warm; 2 runs: p50 18 us..18 us, 54K..54K/s, p99 and p99.9 of all together; Little's law 0.99; 8.2 us..1203 us |
| Server | NIC, DPDK PMD | Round-trip p50 99 99.9 | RPCs/s | Source | Notes |
| --- | --- | --- | --- | --- | --- |
| Azure F8s_v2, Ubuntu 22.03 | CX4-Lx, netvsc | 41 us, 54 us, 61 us | 753K | published | window 32; no proximity groups; cloud VMs |
| AWS c5.xlarge, Amazon Linux | ENA, ena | 61 us, 132 us, 209 us | 122K | published | window 8; proximity groups; window 8, not 32; cloud VMs |
| GCP | gVNIC | not run by the authors | not run by the authors | published | window 32; XXX in the text: not run by its authors; cloud VMs |
| Bare metal, Mariner 2.0 | E810 PF, ice | 30 us, 33 us, 37 us | 1043K | published | window 32; machines with NICs |
| Bare metal, Mariner 2.0 | E810 VF, iavf | 31 us, 35 us, 41 us | 1003K | published | window 32; machines with NICs |
| Bare metal, Ubuntu 22.04 | Bluefield-2, mlx5 | 24 us, 26 us, 28 us | 1320K | published | window 32; machines with NICs |
| Bare metal, Ubuntu 20.04 | CX5, mlx5 | not run by the authors | not run by the authors | published | window 32; XXX in the text: not run by its authors; machines with NICs |
| Bare metal, Ubuntu 20.04 | CX6-Dx, mlx5 | not run by the authors | not run by the authors | published | window 32; XXX in the text: not run by its authors; machines with NICs |
| kernel-tcp *blocking* | veth | 9.3 us, 54 us, n<100000 | 1043K | measured here, **not comparable** (one machine, no NIC) | [2] 1024 B, window 32; contended (stolen); cold; Little's law off: 0.50; verified; 900 ns..12 ms |
";
    assert_eq!(tables, expected);
    for line in [
        "Measured here on: 2 cores, fingerprint 0123abcd",
        "1 measured rows of other sizes, loops or connection counts repeat no published experiment and are not shown.",
        "- [1] `barewire bench msg --window 1`",
        "- [2] `barewire bench msg --window 32 \\| tee 'x'`",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing in:\n{text}");
    }
    assert!(text.contains("truncates to whole microseconds"));
    assert!(
        text.contains("--tx_msg_size 1024`")
            && text.contains("a flag --tx_msg_size that msg_gen does not have")
    );
    assert!(message_tables(&[], "nothing", HardwareClass::OneMachine).contains("no such row was measured"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_breaks_a_table(system in "\\PC{0,12}", over in "[|`\n a-z]{0,12}", ns: u64, per_s in 0.0f64..1e12) {
        let other = json!({ "system": system, "over": over, "rtt_ns": times(ns, ns, ns, ns, ns, ns), "rate_per_s": per_s });
        let row = read(with(closed(), other));
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        for line in message_tables(std::slice::from_ref(&row), "", HardwareClass::BareMetal).lines().filter(|l| l.starts_with('|')) {
            prop_assert_eq!(bars(line), 7, "{}", line);
        }
        prop_assert!(text_table(&[row]).lines().count() >= 2);
    }
}
