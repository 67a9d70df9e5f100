//! Every figure of some runs as CSV: one line each, numbers in base units, so that other tools can take it from there.

use crate::figure::{Unit, figures, identity};
use crate::run::Run;

/// The columns. `value` is in `unit`; it is empty where the figure was not told, and `needs` then says how many samples it needs.
const HEAD: &str = "run,experiment,table,role,system,details,figure,path,unit,value,needs,samples,repetitions,contended,void,command";

/// A field as RFC 4180 has it. Text that a spreadsheet would run as a formula gets an apostrophe in front.
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// Every figure of `runs`. Times are ns, rates per second or Mbit/s; repetitions are separated by blanks.
pub fn csv(runs: &[&Run]) -> String {
    let mut out = format!("{HEAD}\r\n");
    for run in runs {
        for record in &run.records {
            let id = identity(record);
            let text =
                |key: &str| record.row.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
            let contended = record.row.get("contended") == Some(&serde_json::Value::Bool(true));
            let samples = record.row.get("samples").and_then(serde_json::Value::as_u64);
            let mut line =
                |figure: &str, path: &str, unit: &str, value: String, needs: String, runs: String| {
                    let fields = [
                        field(&run.name()),
                        field(&record.experiment),
                        field(&record.table),
                        record.role.as_str().to_owned(),
                        field(&id.name),
                        field(&id.details),
                        field(figure),
                        field(path),
                        unit.to_owned(),
                        value,
                        needs,
                        samples.map_or_else(String::new, |n| n.to_string()),
                        runs,
                        contended.to_string(),
                        field(record.reason.as_deref().unwrap_or(text("void"))),
                        field(text("command")),
                    ];
                    out.push_str(&fields.join(","));
                    out.push_str("\r\n");
                };
            let all = figures(&record.row);
            for f in &all {
                let unit = if f.unit == Unit::Ns { "ns" } else { f.unit.as_str() };
                let runs: Vec<String> = f.runs.iter().map(f64::to_string).collect();
                line(
                    &f.label,
                    &f.path,
                    unit,
                    f.value.map_or_else(String::new, |v| v.to_string()),
                    f.needs.map_or_else(String::new, |n| n.to_string()),
                    runs.join(" "),
                );
            }
            if all.is_empty() {
                line("", "", "", String::new(), String::new(), String::new());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_formulas_disarmed() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(field("two\nlines"), "\"two\nlines\"");
    }
}
