//! Records below `benches/runs`: their rows, which of them a selector means, and the values in these.

use super::scan::{Kind, Unit};
use crate::tidy::Tree;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// Where records live.
pub const RUNS: &str = "benches/runs/";
/// The lists of a document that hold rows.
const LISTS: &[&str] = &["rows", "data", "decoders", "rates"];

/// One build of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The commit it was built from.
    pub commit: String,
    /// Whether the tree had changes beside it.
    pub dirty: bool,
}

/// The build of a document of its own or of a run's manifest.
pub fn build(text: &str) -> Option<Build> {
    let document: Value = serde_json::from_str(text).ok()?;
    let build = document.get("fingerprint").unwrap_or(&document).get("build")?;
    let commit = build.get("git_commit")?.as_str()?.to_owned();
    Some(Build { commit, dirty: build.get("git_dirty").and_then(Value::as_str) == Some("yes") })
}

/// One row: an object, or the line of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// Of a document or a run folder.
    Object(Value),
    /// Of a text.
    Line(String),
}

/// The files that `name` means: a file, a folder (its `rows.jsonl`), or several by one `*`.
pub fn files(tree: &Tree, name: &str) -> anyhow::Result<Vec<String>> {
    let path = format!("{RUNS}{name}");
    let found: Vec<String> = if let Some((head, tail)) = path.split_once('*') {
        let fits = |p: &str| p.len() >= head.len() + tail.len() && p.starts_with(head) && p.ends_with(tail);
        tree.files.iter().map(|f| &f.path).filter(|p| fits(p)).cloned().collect()
    } else {
        let rows = format!("{path}/rows.jsonl");
        [path, rows].into_iter().filter(|p| tree.file(p).is_some()).take(1).collect()
    };
    ensure!(!found.is_empty(), "there is no record {RUNS}{name}");
    Ok(found)
}

/// The builds that stand in the record's own file, or beside it.
pub fn builds(tree: &Tree, path: &str) -> Vec<Build> {
    if let Some(own) = tree.file(path).filter(|f| f.path.ends_with(".json")).and_then(|f| build(&f.text)) {
        return vec![own];
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found: Vec<Build> =
        tree.below(folder).filter(|f| f.path.ends_with(".json")).filter_map(|f| build(&f.text)).collect();
    found.dedup();
    found
}

/// All rows of a file; a row that stands under several tables counts once.
pub fn rows(tree: &Tree, path: &str) -> anyhow::Result<Vec<Row>> {
    let file = tree.file(path).with_context(|| format!("there is no record {path}"))?;
    let bad = || format!("{path} cannot be read");
    if path.ends_with(".jsonl") {
        let mut found: Vec<Row> = Vec::new();
        for line in file.text.lines() {
            let mut line: Value = serde_json::from_str(line).with_context(bad)?;
            let row = Row::Object(line["row"].take());
            if !found.contains(&row) {
                found.push(row);
            }
        }
        return Ok(found);
    }
    if path.ends_with(".json") {
        let document: Value = serde_json::from_str(&file.text).with_context(bad)?;
        let lists = LISTS.iter().filter_map(|list| document.get(list)?.as_array());
        return Ok(lists.flatten().cloned().map(Row::Object).collect());
    }
    Ok(file.text.lines().map(|line| Row::Line(line.to_owned())).collect())
}

/// The value of `field`, a path with dots.
fn field<'a>(row: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(row, |value, key| value.get(key))
}

/// The value in words, as a selector writes it.
pub fn word(row: &Row, path: &str) -> Option<String> {
    let Row::Object(row) = row else { return None };
    match field(row, path)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Whether the row is the one that `words` select: `field=value` with `_` for a space, of a line words that it has.
pub fn selects(words: &[String], row: &Row) -> bool {
    words.iter().all(|wanted| match row {
        // `--` would end the comment that selects.
        Row::Line(line) => line.split_whitespace().any(|word| word.trim_start_matches("--") == wanted),
        Row::Object(_) => wanted.split_once('=').is_some_and(|(path, value)| {
            word(row, path).map_or("null".to_owned(), |w| w.replace(' ', "_")) == value
        }),
    })
}

/// Whether the row keeps what each of several runs gave.
pub fn has_runs(row: &Row) -> bool {
    matches!(row, Row::Object(row) if row.get("runs").and_then(Value::as_array).is_some_and(|runs| runs.len() > 1))
}

/// Every number below `path`, through lists. What others of a list have and one does not is missing, as null is: there were too few
/// samples. A field that nobody has gives nothing.
fn numbers(value: &Value, path: &[&str]) -> Vec<Option<f64>> {
    match (value, path) {
        (Value::Array(list), _) => {
            let mut each: Vec<Vec<Option<f64>>> = list.iter().map(|one| numbers(one, path)).collect();
            if each.iter().any(|found| !found.is_empty()) {
                each.iter_mut().filter(|found| found.is_empty()).for_each(|found| found.push(None));
            }
            each.concat()
        }
        (Value::Null, _) | (_, []) => vec![value.as_f64()],
        (Value::Object(fields), [key, rest @ ..]) => {
            fields.get(*key).map_or_else(Vec::new, |inner| numbers(inner, rest))
        }
        _ => Vec::new(),
    }
}

/// The numbers of `path` in `rows`; of a line `#N` is its field by count (from the end with a minus), `@WORD` the one behind a word.
pub fn values(rows: &[Row], path: &str) -> Vec<Option<f64>> {
    let mut found = Vec::new();
    for row in rows {
        match row {
            Row::Object(row) => found.extend(numbers(row, &path.split('.').collect::<Vec<_>>())),
            Row::Line(line) => {
                let words: Vec<&str> = line.split_whitespace().collect();
                let at = if let Some(word) = path.strip_prefix('@') {
                    words.iter().position(|w| *w == word).map(|at| at + 1)
                } else {
                    let n: Option<isize> = path.strip_prefix('#').and_then(|n| n.parse().ok());
                    n.and_then(|n| {
                        if n < 0 { words.len().checked_add_signed(n) } else { usize::try_from(n - 1).ok() }
                    })
                };
                let number = |word: &&str| word.trim_matches(['[', ']', ',']).parse().ok();
                found.push(at.and_then(|at| words.get(at)).and_then(number));
            }
        }
    }
    found
}

/// The unit of a field, by its name.
pub fn unit(path: &str) -> Unit {
    const BY_NAME: &[(&str, Kind, f64)] = &[
        ("gbit_per_s", Kind::Bits, 1e9),
        ("mbps", Kind::Bits, 1e6),
        ("_per_s", Kind::Rate, 1.0),
        ("bytes_per", Kind::Bytes, 1.0),
        ("ns_per", Kind::Time, 1.0),
        ("us_per", Kind::Time, 1e3),
        ("_pps", Kind::Rate, 1.0),
        ("_ns", Kind::Time, 1.0),
        ("_us", Kind::Time, 1e3),
        ("_bytes", Kind::Bytes, 1.0),
    ];
    let named = |segment: &str| BY_NAME.iter().find(|(name, ..)| segment.contains(name));
    let found = path.split('.').find_map(named);
    found.map_or(Unit { kind: Kind::Any, factor: 1.0 }, |(_, kind, factor)| Unit {
        kind: *kind,
        factor: *factor,
    })
}

/// How several values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// There is only one.
    One,
    /// The least.
    Min,
    /// The most.
    Max,
    /// The middle one.
    Median,
}

/// `min(PATH)`, `max(PATH)`, `median(PATH)` or `PATH`.
pub fn fold(text: &str) -> (Fold, &str) {
    for (name, fold) in [("min(", Fold::Min), ("max(", Fold::Max), ("median(", Fold::Median)] {
        if let Some(path) = text.strip_prefix(name).and_then(|rest| rest.strip_suffix(')')) {
            return (fold, path);
        }
    }
    (Fold::One, text)
}

/// One value of many. `None`: the record has none, too few samples for it.
pub fn folded(values: &[Option<f64>], fold: Fold, path: &str) -> anyhow::Result<Option<f64>> {
    if fold == Fold::One {
        return match values {
            [one] => Ok(*one),
            [] => bail!("the record has no `{path}`"),
            many => bail!("`{path}` is {} values: select one row, or take min, max or median", many.len()),
        };
    }
    ensure!(!values.is_empty(), "the record has no `{path}`");
    // Those that are left would be the fast ones: a slow run is the one with too few samples.
    let Some(mut known) = values.iter().copied().collect::<Option<Vec<f64>>>() else { return Ok(None) };
    known.sort_by(f64::total_cmp);
    let middle = known.len() / 2;
    Ok(Some(match fold {
        Fold::Min => known[0],
        Fold::Max => known[known.len() - 1],
        _ if known.len() % 2 == 1 => known[middle],
        _ => f64::midpoint(known[middle - 1], known[middle]),
    }))
}
