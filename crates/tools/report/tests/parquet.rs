//! What is written as Parquet, read back by the library's own reader: the CSV's lines, typed.
#![cfg(feature = "parquet")]

use barewire_report::run::{HardwareClass, Record, Run, RunStart, RunWriter};
use barewire_report::text;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};
use std::path::Path;

const START_MS: u64 = 1_795_348_984_123;

fn run(folder: &Path, rows: &[Value]) -> Run {
    let start = RunStart {
        label: "columns".into(),
        started_unix_ms: START_MS,
        commit: None,
        command: String::new(),
        hardware: HardwareClass::OneMachine,
        config: Value::Null,
        fingerprint: json!({}),
    };
    let mut writer = RunWriter::create(folder, &start).unwrap();
    for row in rows {
        writer.add(Record::new("msg", "msg", row.as_object().unwrap().clone()), &[]).unwrap();
    }
    writer.add(Record::missing("rc", "rc.threads", "not, \"built\" yet"), &[]).unwrap();
    Run::open(&writer.finish(START_MS + 1).unwrap()).unwrap()
}

/// The file as lines of CSV without the column that the CSV has not.
fn lines(bytes: Vec<u8>) -> Vec<String> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let quoted = |text: &str| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let fields = reader.metadata().file_metadata().schema().get_fields().to_vec();
    let head: Vec<&str> = fields.iter().map(|field| field.name()).filter(|name| *name != "started").collect();
    let mut lines = vec![head.join(",")];
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let mut cells = Vec::new();
        for (name, field) in row.get_column_iter() {
            cells.push(match field {
                Field::TimestampMillis(at) => {
                    assert_eq!((name.as_str(), *at), ("started", START_MS as i64));
                    continue;
                }
                Field::Null => String::new(),
                Field::Str(text) => quoted(text),
                Field::Long(count) => count.to_string(),
                Field::Double(number) => number.to_string(),
                Field::Bool(flag) => flag.to_string(),
                Field::ListInternal(list) => {
                    let number = |field: &Field| match field {
                        Field::Double(number) => number.to_string(),
                        other => panic!("{other:?} in {name}"),
                    };
                    list.elements().iter().map(number).collect::<Vec<_>>().join(" ")
                }
                other => panic!("{other:?} in {name}"),
            });
        }
        lines.push(cells.join(","));
    }
    lines
}

#[test]
fn the_file_says_what_the_csv_says() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(
        folder.path(),
        &[
            json!({
                "system": "barewire", "mode": "embedded", "over": "mem", "size": 64, "window": 1, "samples": 500, "rate_per_s": 1e6,
                "rtt_ns": { "p50": 1000, "p99": 2000, "p99_9": null }, "contended": true, "command": "barewire bench, \"msg\"",
                "runs": [{ "p50_ns": 990, "rate_per_s": 1.1e6 }, { "p50_ns": 1010, "rate_per_s": 0.9e6 }],
            }),
            json!({ "system": "kernel-tcp", "void": "the generator lagged", "rate_per_s": 0.1 }),
        ],
    );
    let csv = text::csv(&[&run, &run]);
    let expected: Vec<&str> = csv.lines().collect();
    let got = lines(text::parquet(&[&run, &run]).unwrap());
    assert!(got.len() > 8, "{got:?}");
    assert_eq!(got, expected);
    assert!(
        csv.contains("990 1010")
            && csv.contains("the generator lagged")
            && csv.contains("not, \"\"built\"\" yet")
    );
}

#[test]
fn nothing_at_all_is_a_file_too() {
    assert_eq!(lines(text::parquet(&[]).unwrap()).len(), 1);
}
