//! Every published row as JSON, with the measured rows that repeat it.

use super::comparable::{comparable, reasons};
use super::{PublishedRow, PublishedTable, tables};
use crate::figure::{Unit, figures, identity};
use crate::run::{HardwareClass, Record, Role};
use serde_json::{Map, Value, json};

/// One object for each row of each table of the five reports, in their order: what was published, in `published`, beside what of
/// `records`, which are of hardware of class `here`, repeats it, in `measured`. Where nothing does, `missing` says why instead: `why` is
/// asked for reports that no record is of. What ran beside it stands in `baselines`, what was recorded at another time in `recorded`,
/// rows that must not be used in `void_rows`: none of them is a measurement of ours.
/// Times are in nanoseconds, rates per second; each figure's unit stands under `units`.
pub fn with_measured(
    records: &[Record],
    here: HardwareClass,
    why: &dyn Fn(&PublishedTable) -> String,
) -> Vec<Value> {
    let mut rows = Vec::new();
    for table in tables() {
        for row in table.rows {
            rows.push(of_row(table, row, records, here, why));
        }
    }
    rows
}

fn of_row(
    table: &PublishedTable,
    row: &PublishedRow,
    records: &[Record],
    here: HardwareClass,
    why: &dyn Fn(&PublishedTable) -> String,
) -> Value {
    let by_column = |value: &dyn Fn(usize) -> Value| -> Map<String, Value> {
        table.columns.iter().enumerate().map(|(i, column)| (column.label.to_owned(), value(i))).collect()
    };
    let printed = |i: usize| row.values.get(i).copied().flatten();
    let mut object = json!({
        "report": table.report,
        "table": table.id,
        "title": table.title,
        "case": table.cases.get(row.case).map_or("", |case| case.label),
        "system": row.system,
        "hardware": row.hardware,
        "window": row.window,
        "published_command": table.command,
        "published_method": table.method,
        "published": by_column(&|i| printed(i).map_or(Value::Null, |p| Value::from(p.value))),
        "published_text": by_column(&|i| printed(i).map_or(Value::Null, |p| Value::from(p.text))),
        "units": by_column(&|i| Value::from(unit(table.columns[i].unit))),
        "note": row.note,
        "column_notes": table
            .columns
            .iter()
            .filter(|c| !c.note.is_empty())
            .map(|c| (c.label.to_owned(), Value::from(c.note)))
            .collect::<Map<String, Value>>(),
        "comparable": false,
    });
    let against = reasons(table, row, None, here);
    object["comparable"] = Value::from(against.is_empty());
    object["not_comparable"] = Value::from(against.join("; "));

    let of_table = || records.iter().filter(|r| r.table == table.records_of);
    let mine: Vec<&Record> =
        of_table().filter(|r| table.case_of(r) == Some(row.case) && table.repeats(row, r)).collect();
    let kind = |r: &Record| match (r.role, text(r, "recorded"), text(r, "void")) {
        (Role::Missing | Role::Control, ..) => None,
        (_, Some(_), _) => Some("recorded"),
        (_, None, Some(_)) => Some("void_rows"),
        (Role::Baseline, ..) => Some("baselines"),
        (Role::Measured, ..) => Some("measured"),
    };
    for key in ["measured", "baselines", "recorded", "void_rows"] {
        let of_kind: Vec<Value> =
            mine.iter().filter(|r| kind(r) == Some(key)).map(|r| measured(table, row, r, here)).collect();
        if !of_kind.is_empty() {
            object[key] = Value::from(of_kind);
        }
    }
    if object.get("measured").is_none() {
        let of_case: Vec<&Record> = of_table().filter(|r| table.case_of(r) == Some(row.case)).collect();
        let told = void(&mine).or_else(|| missing(table, row, of_table())).or_else(|| others(row, &of_case));
        object["missing"] = Value::from(told.unwrap_or_else(|| why(table)));
    }
    object
}

fn text<'a>(record: &'a Record, key: &str) -> Option<&'a str> {
    record.row.get(key).and_then(Value::as_str)
}

/// Rows were measured and must not be used.
fn void(mine: &[&Record]) -> Option<String> {
    let mut whys: Vec<&str> =
        mine.iter().filter(|r| r.role == Role::Measured).filter_map(|r| text(r, "void")).collect();
    whys.dedup();
    (!whys.is_empty()).then(|| format!("measured, and void: {}", whys.join("; ")))
}

/// A record says why there is no row of this case, or of any.
fn missing<'a>(
    table: &PublishedTable,
    row: &PublishedRow,
    of_table: impl Iterator<Item = &'a Record> + Clone,
) -> Option<String> {
    let reason = |case: Option<usize>| {
        let mut found = of_table.clone().filter(|r| r.role == Role::Missing && table.case_of(r) == case);
        found.find_map(|r| r.reason.clone())
    };
    reason(Some(row.case)).or_else(|| reason(None))
}

/// Rows of the same case were measured, with something else than the published one has.
fn others(row: &PublishedRow, of_case: &[&Record]) -> Option<String> {
    let (key, want) = row.wants.first()?;
    let mut there: Vec<String> = of_case
        .iter()
        .filter(|r| r.role == Role::Measured && text(r, "recorded").is_none())
        .filter_map(|r| r.row.get(*key))
        .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
        .collect();
    there.sort();
    there.dedup();
    (!there.is_empty())
        .then(|| format!("no row was measured with {key} {want}; there are those with {}", there.join(", ")))
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "ns",
        other => other.as_str(),
    }
}

fn measured(table: &PublishedTable, row: &PublishedRow, record: &Record, here: HardwareClass) -> Value {
    let (of, figures) = (identity(record), figures(&record.row));
    let mut values = Map::new();
    for column in table.columns {
        let figure = column.paths.iter().find_map(|path| figures.iter().find(|f| f.path == *path));
        let value = figure.and_then(|f| f.value).map_or(Value::Null, Value::from);
        values.insert(column.label.to_owned(), value);
    }
    let field = |key: &str| record.row.get(key).cloned().unwrap_or(Value::Null);
    json!({
        "system": of.name,
        "details": of.details,
        "role": record.role.as_str(),
        "values": values,
        "not_comparable": comparable(table, row, record, here).err(),
        "contended": field("contended"),
        "recorded": field("recorded"),
        "no_baseline": field("no_baseline"),
        "void": field("void"),
        "command": field("command"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(table: &str, row: Value) -> Record {
        let Value::Object(row) = row else { panic!() };
        Record::new("x", table, row)
    }

    fn of(records: &[Record], table: &str) -> Vec<Value> {
        let mut rows =
            with_measured(records, HardwareClass::OneMachine, &|t| format!("{} was not run", t.id));
        rows.retain(|r| r["table"] == table);
        rows
    }

    #[test]
    fn each_published_row_has_ours_or_a_reason() {
        let all: usize = tables().map(|t| t.rows.len()).sum();
        let rows = with_measured(&[], HardwareClass::OneMachine, &|t| format!("{} was not run", t.id));
        assert_eq!(rows.len(), all);
        assert!(rows.iter().all(|r| r["missing"].as_str().is_some_and(|m| m.ends_with("was not run"))));

        let row = json!({"system": "barewire", "mode": "embedded", "over": "xdp", "connections_per_s": 1e5,
            "window": 1, "teardown": true, "live_qps": 0, "hosts": 8, "threads": 2, "nics": 1, "contended": true});
        let records = [record("rc.machines", row)];
        let rows = with_measured(&records, HardwareClass::OneMachine, &|_| "no".to_owned());
        let ours: Vec<&Value> = rows.iter().filter(|r| r.get("measured").is_some()).collect();
        assert_eq!(ours.len(), 1);
        assert_eq!(ours[0]["case"], "8 client machines");
        let of = |id: &str| rows.iter().find(|r| r["table"] == id).unwrap();
        assert!(
            of("machnet")["published_method"]
                .as_str()
                .unwrap()
                .contains("--tx_msg_size that msg_gen does not")
        );
        assert!(of("bmv2")["not_comparable"].as_str().unwrap().contains("c4.2xlarge"));
        assert!(of("rc.latency")["column_notes"]["time a connection"].as_str().unwrap().contains("197"));
        assert_eq!(of("onixs.app-0")["published_text"]["median"], "0.667 us");
        assert_eq!(ours[0]["published"]["connections/s"], 391.2);
        assert_eq!(ours[0]["measured"][0]["values"]["connections/s"], 1e5);
        assert_eq!(ours[0]["measured"][0]["system"], "barewire embedded over xdp");
        assert_eq!(
            (&ours[0]["units"]["connections/s"], &ours[0]["comparable"]),
            (&json!("per second"), &json!(false))
        );
        let windows: Vec<&Value> = rows.iter().filter(|r| r["window"] == 8.0).map(|r| &r["system"]).collect();
        assert_eq!(windows, ["AWS c5.xlarge, Amazon Linux", "AWS c5.xlarge, Amazon Linux"]);
    }

    #[test]
    fn what_is_no_measurement_of_ours_hides_no_missing_one() {
        let ours = |more: Value| {
            let mut row = json!({"system": "barewire", "tcp_mbps": 2e3, "offloads": false});
            row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            record("bmv2", row)
        };
        let baseline = Record { role: Role::Baseline, ..ours(json!({"system": "bridge"})) };
        let recorded =
            Record { role: Role::Baseline, ..ours(json!({"system": "bmv2", "recorded": "earlier"})) };
        let void = ours(json!({"void": "lagged"}));

        let row = of(&[baseline.clone(), recorded.clone()], "bmv2").remove(0);
        assert_eq!((&row["missing"], row.get("measured")), (&json!("bmv2 was not run"), None));
        assert_eq!(row["baselines"][0]["system"], "bridge");
        assert_eq!(row["recorded"][0]["recorded"], "earlier");
        let row = of(&[baseline.clone(), void.clone()], "bmv2").remove(0);
        assert_eq!((&row["missing"], row.get("measured")), (&json!("measured, and void: lagged"), None));
        assert_eq!(row["void_rows"][0]["void"], "lagged");
        assert!(row["void_rows"][0]["not_comparable"].as_str().unwrap().starts_with("void: lagged"));
        let row = of(&[Record::missing("x", "bmv2", "no bmv2 here"), baseline.clone()], "bmv2").remove(0);
        assert_eq!(row["missing"], "no bmv2 here");

        let row =
            of(&[baseline, recorded, void, ours(json!({"tcp_data_packets_per_s": 9e4}))], "bmv2").remove(0);
        assert_eq!((row["measured"].as_array().unwrap().len(), row.get("missing")), (1, None));
        assert_eq!(row["measured"][0]["values"], json!({"TCP": 2e3, "packets/s": 9e4}));
    }

    #[test]
    fn a_published_row_gets_the_rows_that_stand_in_its_place() {
        let feed = |engine: &str| {
            record(
                "onixs.net-0",
                json!({"system": "barewire", "engine": engine, "base": "stamp", "gap_us": 0}),
            )
        };
        let rows = of(&[feed("xdp"), feed("xdp-park"), feed("socket-spin"), feed("packet")], "onixs.net-0");
        let engines = |row: &Value| -> Vec<String> {
            let all = row["measured"].as_array().cloned().unwrap_or_default();
            all.iter().map(|m| m["system"].as_str().unwrap().replace("barewire ", "")).collect()
        };
        assert_eq!(engines(&rows[0]), ["socket-spin"]);
        assert_eq!(engines(&rows[1]), [""; 0]);
        assert_eq!(
            rows[1]["missing"],
            "no row was measured with engine onload; there are those with packet, socket-spin, xdp, xdp-park"
        );
        assert_eq!(engines(&rows[2]), ["xdp", "xdp-park"]);

        let message = record("machnet", json!({"system": "barewire", "window": 32}));
        let rows = of(&[message], "machnet");
        let of_window = |window: f64| rows.iter().find(|r| r["window"] == window).unwrap();
        assert!(of_window(32.0).get("measured").is_some());
        assert_eq!(of_window(8.0)["missing"], "no row was measured with window 8; there are those with 32");
        assert_eq!(of_window(1.0)["missing"], "machnet was not run");
    }
}
