//! Every published row as JSON, with the measured rows that repeat it.

use super::{PublishedRow, PublishedTable, tables};
use crate::figure::{Unit, figures, identity};
use crate::run::{HardwareClass, Record, Role};
use serde_json::{Map, Value, json};

/// One object for each row of each table of the five reports, in their order: what was published, in `published`, beside what of
/// `records` repeats it, in `measured`. Where nothing does, `missing` says why: `why` is asked for reports that no record is of.
/// Times are in nanoseconds, rates per second; each figure's unit stands under `units`.
pub fn beside(records: &[Record], why: &dyn Fn(&PublishedTable) -> String) -> Vec<Value> {
    let mut rows = Vec::new();
    for table in tables() {
        for row in table.rows {
            let measured: Vec<Value> = records
                .iter()
                .filter(|r| r.table == table.records_of && table.case_of(r) == Some(row.case))
                .filter(|r| r.role != Role::Missing)
                .map(|r| measured(table, r))
                .collect();
            rows.push(of_row(table, row, measured, why));
        }
    }
    rows
}

fn of_row(
    table: &PublishedTable,
    row: &PublishedRow,
    measured: Vec<Value>,
    why: &dyn Fn(&PublishedTable) -> String,
) -> Value {
    let by_column = |value: &dyn Fn(usize) -> Value| -> Map<String, Value> {
        table.columns.iter().enumerate().map(|(i, column)| (column.label.to_owned(), value(i))).collect()
    };
    let mut object = json!({
        "report": table.report,
        "table": table.id,
        "title": table.title,
        "case": table.cases.get(row.case).map_or("", |case| case.label),
        "system": row.system,
        "hardware": row.hardware,
        "published_command": table.command,
        "published_method": table.method,
        "published": by_column(&|i| row.values.get(i).copied().flatten().map_or(Value::Null, Value::from)),
        "units": by_column(&|i| Value::from(unit(table.columns[i].unit))),
        "note": row.note,
        "comparable": false,
        "not_comparable": not_comparable(row),
    });
    if measured.is_empty() {
        object["missing"] = Value::from(why(table));
    } else {
        object["measured"] = Value::from(measured);
    }
    object
}

/// What a bench verb measures is measured on one machine.
fn not_comparable(row: &PublishedRow) -> String {
    match row.class {
        HardwareClass::OneMachine => {
            format!("published on one machine, too, but another one: {}", row.hardware)
        }
        class => {
            format!("published on {}, measured on {}", class.as_str(), HardwareClass::OneMachine.as_str())
        }
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "ns",
        other => other.as_str(),
    }
}

fn measured(table: &PublishedTable, record: &Record) -> Value {
    let (of, figures) = (identity(record), figures(&record.row));
    let mut values = Map::new();
    for column in table.columns {
        let figure = column.paths.iter().find_map(|path| figures.iter().find(|f| f.path == *path));
        let value = figure.and_then(|f| f.value).map_or(Value::Null, Value::from);
        values.insert(column.label.to_owned(), value);
    }
    json!({
        "system": of.name,
        "details": of.details,
        "role": record.role.as_str(),
        "values": values,
        "contended": record.row.get("contended").cloned().unwrap_or(Value::Null),
        "void": record.row.get("void").cloned().unwrap_or(Value::Null),
        "command": record.row.get("command").cloned().unwrap_or(Value::Null),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_published_row_has_ours_or_a_reason() {
        let all: usize = tables().map(|t| t.rows.len()).sum();
        let rows = beside(&[], &|t| format!("{} was not run", t.id));
        assert_eq!(rows.len(), all);
        assert!(rows.iter().all(|r| r["missing"].as_str().is_some_and(|m| m.ends_with("was not run"))));

        let row = json!({"system": "barewire", "mode": "embedded", "over": "xdp", "connections_per_s": 1e5,
            "window": 1, "teardown": true, "live_qps": 0, "hosts": 8, "threads": 2, "nics": 1, "contended": true});
        let Value::Object(row) = row else { panic!() };
        let records = [Record::new("rc", "rc.machines", row)];
        let rows = beside(&records, &|_| "no".to_owned());
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
        assert_eq!(ours[0]["published"]["connections/s"], 391.2);
        assert_eq!(ours[0]["measured"][0]["values"]["connections/s"], 1e5);
        assert_eq!(ours[0]["measured"][0]["system"], "barewire embedded over xdp");
        assert_eq!(
            (&ours[0]["units"]["connections/s"], &ours[0]["comparable"]),
            (&json!("per second"), &json!(false))
        );
    }
}
