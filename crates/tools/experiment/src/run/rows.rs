//! Rows out of what a process has written.

use crate::plan::Collect;
use barewire_measure::Histogram;
use barewire_report::import;
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// Histograms of one row, at most: each takes 230 KB when it is read.
pub(crate) const HISTOGRAMS_MAX: usize = 64;
/// Rows in one output, at most.
pub(crate) const ROWS_MAX: usize = 10_000;
/// Bytes of one JSON document in an output, at most: read, it takes sixteen times as many.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;

/// A row, its histograms taken out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) row: Map<String, Value>,
    /// HDR V2, compressed, base64: a histogram takes 230 KB, this some hundred bytes.
    pub(crate) histograms: BTreeMap<String, String>,
}

/// Whether a row's figures must not be used.
pub(crate) fn is_void(row: &Map<String, Value>) -> bool {
    void_text(row).is_some()
}

/// Why. Programs of others may say only that it is so.
pub(crate) fn void_text(row: &Map<String, Value>) -> Option<String> {
    match row.get("void")? {
        Value::Null | Value::Bool(false) => None,
        Value::String(why) => Some(why.clone()),
        Value::Bool(true) => Some("it says so without a reason".to_owned()),
        other => Some(other.to_string()),
    }
}

/// What `how` finds in the output, which may be nothing: `out` is standard output, `all` both, in the order in which lines came.
///
/// # Errors
/// In words, when there is a row that cannot be used.
pub(crate) fn rows(how: &Collect, out: &str, all: &str) -> Result<Vec<Row>, String> {
    let found = match how {
        Collect::Json => json(out)?,
        Collect::Regex(regex) => {
            let names: Vec<&str> = regex.capture_names().flatten().collect();
            let row = |captures: regex_lite::Captures<'_>| {
                let groups = names.iter().filter_map(|name| Some((*name, captures.name(name)?.as_str())));
                groups.map(|(name, text)| (name.to_owned(), number_or_text(text))).collect()
            };
            all.lines().filter_map(|line| regex.captures(line).map(row)).collect()
        }
    };
    if found.len() > ROWS_MAX {
        return Err(format!("{} rows in one output, and at most {ROWS_MAX} are read", found.len()));
    }
    found.into_iter().map(take_histograms).collect()
}

/// Why nothing was found.
pub(crate) fn none_text(how: &Collect) -> &'static str {
    match how {
        Collect::Json => "no JSON object on standard output",
        Collect::Regex(_) => "no line matches the expression",
    }
}

fn number_or_text(text: &str) -> Value {
    let text = text.trim();
    if let Ok(n) = text.parse::<i64>() {
        return Value::from(n);
    }
    match text.parse::<f64>().ok().and_then(Number::from_f64) {
        Some(n) => Value::Number(n),
        None => Value::from(text),
    }
}

/// The name of what a document holds, and one object of it.
type Found = Map<String, Value>;

/// Every object that begins a line: a document may span several, others may stand between them.
fn json(text: &str) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let line_len = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let start = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let mut used = line_len;
        if rest[start..].starts_with(['{', '[']) {
            let mut most = (start + DOCUMENT_BYTES_MAX).min(rest.len());
            while !rest.is_char_boundary(most) {
                most -= 1;
            }
            let mut values = serde_json::Deserializer::from_str(&rest[start..most]).into_iter::<Value>();
            match values.next() {
                Some(Ok(value)) => {
                    let end = start + values.byte_offset();
                    let tail = rest[end..].split('\n').next().unwrap_or_default();
                    if tail.trim().is_empty() {
                        add(value, &mut found);
                        used = (end + tail.len() + 1).min(rest.len());
                    }
                }
                Some(Err(e)) if e.is_eof() && most < rest.len() => {
                    return Err(format!("a JSON document of more than {DOCUMENT_BYTES_MAX} bytes"));
                }
                _ => {}
            }
        }
        rest = &rest[used..];
    }
    Ok(found)
}

fn add(value: Value, found: &mut Vec<Found>) {
    match value {
        Value::Array(list) => found.extend(list.into_iter().filter_map(|value| match value {
            Value::Object(row) => Some(row),
            _ => None,
        })),
        Value::Object(object) if import::is_document(&object) => {
            // `bench control` has nothing but the floor to tell: there the document is the row.
            let control = object.contains_key(import::CONTROL).then(|| object.clone());
            let rows = import::rows(object);
            match control {
                Some(document) if rows.is_empty() => found.push(document),
                _ => found.extend(rows),
            }
        }
        Value::Object(object) => found.push(object),
        _ => {}
    }
}

fn take_histograms(mut row: Map<String, Value>) -> Result<Row, String> {
    let mut histograms = BTreeMap::new();
    if let Some(Value::Object(given)) = row.remove("histograms") {
        if given.len() > HISTOGRAMS_MAX {
            return Err(format!(
                "a row with {} histograms, and at most {HISTOGRAMS_MAX} are read",
                given.len()
            ));
        }
        for (name, value) in given {
            let text = value.as_str().ok_or_else(|| format!("histogram `{name}` is not text"))?;
            Histogram::from_base64(text).map_err(|e| format!("histogram `{name}`: {e}"))?;
            histograms.insert(name, text.to_owned());
        }
    }
    Ok(Row { row, histograms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(out: &str) -> Vec<String> {
        let rows = rows(&Collect::Json, out, "").unwrap_or_default();
        rows.into_iter().map(|row| Value::Object(row.row).to_string()).collect()
    }

    #[test]
    fn objects_are_found_however_they_are_printed() {
        assert_eq!(found("{\"a\":1}\n{\"a\":2}"), ["{\"a\":1}", "{\"a\":2}"]);
        assert_eq!(found("starting\n{\n  \"a\": 1\n}\ndone {\"b\":2}\n"), ["{\"a\":1}"]);
        assert_eq!(found("[{\"a\":1},{\"a\":2}, 3]"), ["{\"a\":1}", "{\"a\":2}"]);
        assert_eq!(found("{broken\n  {\"a\":1}  \r\n[1,2]\n"), ["{\"a\":1}"]);
        assert_eq!(found("{\"schema\":1,\"fingerprint\":{},\"rows\":[{\"a\":1},{\"a\":2}]}").len(), 2);
        assert_eq!(found("{\"schema\":1,\"rc_rows\":[{\"a\":1}]}"), ["{\"a\":1,\"bench\":\"rc\"}"]);
        assert_eq!(found("{\"schema\":2,\"rows\":[]}"), Vec::<String>::new());
        let control = "{\"control\":{\"a\":1},\"rows\":[],\"schema\":2}";
        assert_eq!(found(control), [control]);
        assert_eq!(
            found("{\"schema\":2,\"rows\":[{\"a\":1,\"bench\":\"x\"}]}"),
            ["{\"a\":1,\"bench\":\"x\"}"]
        );
        for none in ["", "12", "text", "{\"schema\":1,\"rows\":[]}"] {
            assert_eq!(rows(&Collect::Json, none, ""), Ok(Vec::new()), "{none}");
        }
    }

    #[test]
    fn expressions_give_columns_and_numbers_are_numbers() {
        let how = Collect::Regex(
            regex_lite::Regex::new(r"(?P<mbps>[0-9.]+) (?P<what>\w+)( x(?P<extra>.))?").unwrap(),
        );
        let rows = rows(&how, "", "noise\n12.5 tcp\n7 udp xA\n").unwrap();
        assert_eq!(Value::Object(rows[0].row.clone()).to_string(), r#"{"mbps":12.5,"what":"tcp"}"#);
        assert_eq!(rows[1].row["extra"], "A");
        assert_eq!(rows[1].row["mbps"], 7);
    }

    #[test]
    fn a_row_is_void_when_it_says_so() {
        let void = |text: &str| void_text(&serde_json::from_str(text).unwrap());
        for good in ["{}", r#"{"void":null}"#, r#"{"void":false}"#] {
            assert_eq!(void(good), None, "{good}");
        }
        assert_eq!(void(r#"{"void":"lagged"}"#).as_deref(), Some("lagged"));
        assert!(void(r#"{"void":true}"#).is_some() && void(r#"{"void":["a"]}"#).is_some());
    }

    #[test]
    fn histograms_are_taken_out_and_read() {
        let mut histogram = Histogram::new();
        histogram.record_n(1000, 5);
        let text = histogram.to_base64();
        let rows =
            rows(&Collect::Json, &format!("{{\"a\":1,\"histograms\":{{\"rtt\":\"{text}\"}}}}"), "").unwrap();
        assert_eq!((rows[0].histograms["rtt"].as_str(), rows[0].row.len()), (text.as_str(), 1));
        let bad = super::rows(&Collect::Json, "{\"histograms\":{\"rtt\":\"AAAA\"}}", "").unwrap_err();
        assert!(bad.starts_with("histogram `rtt`: "), "{bad}");
    }

    #[test]
    fn a_row_has_so_many_histograms_and_an_output_so_many_rows() {
        let text = Histogram::new().to_base64();
        let row = |count: usize| {
            let all: Vec<String> = (0..count).map(|n| format!("\"h{n}\":\"{text}\"")).collect();
            format!("{{\"a\":1,\"histograms\":{{{}}}}}", all.join(","))
        };
        assert!(rows(&Collect::Json, &row(HISTOGRAMS_MAX), "").is_ok());
        let why = rows(&Collect::Json, &row(HISTOGRAMS_MAX + 1), "").unwrap_err();
        assert!(why.contains("histograms"), "{why}");
        assert!(rows(&Collect::Json, &"{\"a\":1}\n".repeat(ROWS_MAX), "").is_ok());
        let why = rows(&Collect::Json, &"{\"a\":1}\n".repeat(ROWS_MAX + 1), "").unwrap_err();
        assert!(why.contains("rows"), "{why}");
        // A text of megabytes that opens everywhere and closes late is read in a time that follows its length.
        let deep = "[0,\n".repeat(200_000);
        assert_eq!(rows(&Collect::Json, &deep, ""), Ok(Vec::new()));
        let long = format!("{{\"a\":[{}1]}}\n", "1,".repeat(DOCUMENT_BYTES_MAX / 2));
        let why = rows(&Collect::Json, &long, "").unwrap_err();
        assert!(why.contains("bytes"), "{why}");
    }

    proptest! {
        #[test]
        fn no_output_makes_it_panic(out in "[\\[\\]{}\":,a1 \n\u{e4}]{0,60}") {
            let _ = rows(&Collect::Json, &out, &out);
        }
    }
}
