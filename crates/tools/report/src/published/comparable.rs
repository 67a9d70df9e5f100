//! Whether a measured row may be set against a published one: asked here by the page, the documents and the tables of text alike.

use super::{PublishedRow, PublishedTable};
use crate::figure::is_simulated;
use crate::run::{HardwareClass, Record};
use serde_json::Value;

/// Of what was simulated.
const SIMULATED: &str = "simulated: no machine's time at all";

/// Whether `record`, measured on hardware of class `here`, may be set against a published row as if both were of one kind.
///
/// # Errors
/// Why not, in words. Every table says so of all its rows as long as no published row was measured on the machine of ours.
pub fn comparable(
    table: &PublishedTable,
    row: &PublishedRow,
    record: &Record,
    here: HardwareClass,
) -> Result<(), String> {
    let why = reasons(table, row, Some(record), here);
    if why.is_empty() { Ok(()) } else { Err(why.join("; ")) }
}

/// What stands between a published row and a measured one, the gravest first. Without a record: between it and all of `here`.
pub(crate) fn reasons(
    table: &PublishedTable,
    row: &PublishedRow,
    record: Option<&Record>,
    here: HardwareClass,
) -> Vec<String> {
    let mut why = record.map(of_record).unwrap_or_default();
    match here {
        // The row says so, too, wherever it has got to.
        _ if record.is_some_and(|record| is_simulated(&record.row)) => why.push(SIMULATED.to_owned()),
        HardwareClass::Simulated => why.push(SIMULATED.to_owned()),
        HardwareClass::Unknown => {
            why.push(format!("published on {}; on what ours was measured is not told", row.class.as_str()));
        }
        here if here != row.class => {
            why.push(format!("published on {}, measured here on {}", row.class.as_str(), here.as_str()));
        }
        _ => {}
    }
    if !table.apart.is_empty() {
        why.push(table.apart.to_owned());
    }
    why
}

/// What keeps a measured row from every comparison of this kind.
fn of_record(record: &Record) -> Vec<String> {
    let text = |key: &str| record.row.get(key).and_then(Value::as_str);
    let mut why = Vec::new();
    if let Some(void) = text("void") {
        why.push(format!("void: {void}"));
    }
    if let Some(recorded) = text("recorded") {
        why.push(format!("recorded elsewhere: {recorded}"));
    }
    why.extend(record.not_comparable.clone());
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{table, tables};
    use serde_json::{Map, json};

    fn record(row: Value) -> Record {
        let row: Map<String, Value> = serde_json::from_value(row).unwrap();
        Record::new("x", "bmv2", row)
    }

    #[test]
    fn no_published_row_passes_for_one_of_ours() {
        let ours = record(json!({"system": "barewire"}));
        for t in tables() {
            for row in t.rows {
                // Not even on hardware of the same class.
                let why = comparable(t, row, &ours, row.class).unwrap_err();
                assert_eq!(why, t.apart, "{}", t.id);
                let why = comparable(t, row, &ours, HardwareClass::Simulated).unwrap_err();
                assert!(why.starts_with("simulated") && why.ends_with(t.apart), "{why}");
                assert!(
                    comparable(t, row, &ours, HardwareClass::Unknown).unwrap_err().contains("is not told")
                );
            }
        }
        let model = record(json!({"system": "barewire", "simulated": true}));
        for t in tables() {
            let why = comparable(t, &t.rows[0], &model, t.rows[0].class).unwrap_err();
            assert!(why.starts_with("simulated"), "on whatever hardware a folder says: {why}");
        }
        let t = PublishedTable { apart: "", ..*table("bmv2").unwrap() };
        assert_eq!(comparable(&t, &t.rows[0], &ours, t.rows[0].class), Ok(()), "nothing stands between them");
    }

    #[test]
    fn a_row_says_first_what_is_wrong_with_itself() {
        let t = table("bmv2").unwrap();
        let why = |record: &Record| comparable(t, &t.rows[0], record, HardwareClass::BareMetal).unwrap_err();
        let mut ours = record(json!({"void": "the generator lagged", "recorded": "2026-11-22"}));
        ours.not_comparable = Some("another program".to_owned());
        assert!(
            why(&ours).starts_with(
                "void: the generator lagged; recorded elsewhere: 2026-11-22; another program; published on one machine, no NIC, measured \
                 here on machines with NICs; "
            ),
            "{}",
            why(&ours)
        );
    }
}
