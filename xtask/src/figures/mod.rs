//! `check-figures`: every figure of the documents names its record, and says what the record says.
//!
//! ```text
//! README.md, docs/, book/ -> scan.rs       figures with units, and comments
//!                         -> reference.rs  which record, which row, which value
//! benches/runs            -> record.rs     rows and values
//! ```
//! Fenced code, code in a line and targets of links claim nothing. A figure of time, rate or ratio without a reference is refused.

mod record;
mod reference;
mod scan;
#[cfg(test)]
mod tests;

use crate::tidy::{Finding, Tree};
use anyhow::{Context as _, ensure};
use barewire_report::compare::{Method, standing};
use barewire_report::figure::Better;
use record::{RUNS, Row};
use reference::{Reference, Said};
use scan::{Figure, Kind, Unit};
use std::path::Path;
use std::process::Command;

/// The documents that claim figures: these, and all below these folders.
const DOCUMENTS: &[&str] = &["README.md"];
const FOLDERS: &[&str] = &["docs", "book"];
/// Commits that a headline figure may be behind.
const BEHIND_MAX: u64 = 50;
/// Records of before the rule whose trees were dirty, each with its reason.
const DIRTY: &str = "benches/runs/dirty-trees.txt";
/// How many these are: lower it when one goes, never raise it.
const DIRTY_MAX: usize = 2;

/// How old a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Commits since.
    Behind(u64),
    /// The history does not have it.
    Unknown,
    /// There is no history, or not all of it.
    NoHistory,
}

/// Asks git in `root`.
pub fn age(root: &Path, commit: &str) -> Age {
    let git = |args: &[&str]| {
        let out = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    // A source archive may lie within somebody else's repository.
    let top = git(&["rev-parse", "--show-toplevel"]).and_then(|top| Path::new(&top).canonicalize().ok());
    if top.is_none() || top != root.canonicalize().ok() {
        return Age::NoHistory;
    }
    match git(&["rev-list", "--count", &format!("{commit}..HEAD")]).and_then(|n| n.parse().ok()) {
        Some(behind) => Age::Behind(behind),
        None if git(&["rev-parse", "--is-shallow-repository"]).as_deref() == Some("true") => Age::NoHistory,
        None => Age::Unknown,
    }
}

/// What came of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Each reference, and what it resolves to.
    pub resolved: Vec<String>,
    /// What could not be checked.
    pub notes: Vec<String>,
}

/// Checks the documents of `tree`.
pub fn check(tree: &Tree, age: &dyn Fn(&str) -> Age) -> Checked {
    let mut checked = Checked::default();
    dirty_records(tree, &mut checked.findings);
    let folders = FOLDERS.iter().flat_map(|folder| tree.below(folder)).filter(|f| f.path.ends_with(".md"));
    for file in DOCUMENTS.iter().filter_map(|name| tree.file(name)).chain(folders) {
        let mut document = Document {
            tree,
            age,
            path: &file.path,
            line: 0,
            folder: String::new(),
            table: None,
            carried: Default::default(),
            checked: &mut checked,
        };
        let mut fenced = false;
        let mut lines = file.text.lines().enumerate().peekable();
        while let Some((i, line)) = lines.next() {
            document.line = i + 1;
            if line.trim_start_matches(['>', ' ']).starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                document.read(line, lines.peek().map_or("", |(_, next)| next));
            }
        }
    }
    checked
}

/// Records of trees that were not as committed, but for those of before the rule.
fn dirty_records(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut find = |file: &str, line, reason| {
        let hint = "measure again on a clean tree; a record of uncommitted code cannot be repeated";
        findings.push(Finding { file: file.to_owned(), line, rule: "dirty-record", reason, hint });
    };
    let listed: Vec<&str> = tree
        .file(DIRTY)
        .map(|f| f.text.lines().filter(|l| !l.starts_with('#')).collect())
        .unwrap_or_default();
    if listed.len() > DIRTY_MAX {
        find(DIRTY, 0, format!("lists {} folders, more than {DIRTY_MAX}: it may only shrink", listed.len()));
    }
    let mut seen = vec![false; listed.len()];
    for file in tree.below(RUNS.trim_end_matches('/')).filter(|f| f.path.ends_with(".json")) {
        let Some(build) = record::build(&file.text).filter(|build| build.dirty) else { continue };
        let folder = file.path.trim_start_matches(RUNS).split('/').next().unwrap_or_default();
        match listed.iter().position(|entry| entry.split_once(' ').is_some_and(|(name, _)| name == folder)) {
            Some(at) => seen[at] = true,
            None => find(&file.path, 0, format!("was measured on a dirty tree of {}", build.commit)),
        }
    }
    for (entry, _) in listed.iter().zip(seen).filter(|(_, seen)| !seen) {
        find(DIRTY, 0, format!("`{entry}` names no folder with a record of a dirty tree, or no reason"));
    }
}

/// One document while it is read.
struct Document<'a> {
    tree: &'a Tree,
    age: &'a dyn Fn(&str) -> Age,
    path: &'a str,
    line: usize,
    folder: String,
    /// The reference of the table that is read, and whether a line of it has been seen.
    table: Option<(Reference, bool)>,
    /// The first two cells, which stand for the lines below as long as these leave them empty.
    carried: [String; 2],
    checked: &'a mut Checked,
}

impl Document<'_> {
    fn find(&mut self, reason: String) {
        let hint = "put `<!-- fig RECORD field=value : path -->` behind the figure (`xtask check-figures --print` shows what each says), \
                    or `<!-- not measured -->`";
        let (file, line) = (self.path.to_owned(), self.line);
        self.checked.findings.push(Finding { file, line, rule: "figure", reason, hint });
    }

    /// Reads a line; the start of the `next` one may be the unit of its last number.
    fn read(&mut self, line: &str, next: &str) {
        let mut claims = scan::claims(line);
        let next: Vec<&str> = next.split(' ').take(2).collect();
        if claims.ends_with(|c: char| c.is_ascii_digit())
            && !next.iter().any(|w| w.contains(char::is_numeric))
        {
            claims += &format!(" {}", next.join(" "));
        }
        let bare = line.trim_start_matches(['>', ' ']);
        let mut from = 0;
        for comment in scan::comments(line) {
            let Some(said) = reference::parse(comment.text) else { continue };
            let segment = &claims[from..comment.at];
            match said {
                Err(error) => self.find(format!("`{}`: {error:#}", comment.text)),
                Ok(Said::Record { folder, headline }) => {
                    self.record(&folder, headline);
                    continue;
                }
                Ok(Said::Table(reference)) => {
                    self.table = Some((reference, false));
                    self.carried = Default::default();
                    continue;
                }
                Ok(Said::NotMeasured) => {}
                Ok(Said::Verdict(reference)) => self.verdict(segment, &reference),
                Ok(Said::Fig(reference)) => {
                    let rows = self.sides(&reference);
                    self.figures(segment, &reference, rows);
                }
            }
            from = comment.at;
        }
        if bare.starts_with('|') {
            if let Some((reference, seen)) = &mut self.table {
                *seen = true;
                let reference = reference.clone();
                self.table_line(bare, &claims[from..], &reference);
                return;
            }
        } else if self.table.as_ref().is_some_and(|(_, seen)| *seen) {
            self.table = None;
        }
        self.unmarked(&scan::figures(&claims[from..], None), "names no record");
    }

    fn unmarked(&mut self, figures: &[Figure], why: &str) {
        let demanded = |f: &&Figure| f.number.is_some() && f.unit.is_some_and(|u| u.kind != Kind::Bytes);
        let found: Vec<&str> = figures.iter().filter(demanded).map(|f| f.text.as_str()).collect();
        if !found.is_empty() {
            self.find(format!("{} {why}", found.join(", ")));
        }
    }

    fn record(&mut self, folder: &str, headline: bool) {
        folder.clone_into(&mut self.folder);
        let path = format!("{RUNS}{folder}");
        if self.tree.below(&path).next().is_none() {
            self.find(format!("there is no record {path}"));
            return;
        }
        if !headline {
            return;
        }
        let builds = record::builds(self.tree, &format!("{path}/rows.jsonl"));
        if builds.is_empty() {
            self.find(format!("{path} does not say which commit was measured"));
        }
        for build in builds {
            match (self.age)(&build.commit) {
                Age::Behind(n) if n > BEHIND_MAX => self.find(format!(
                    "the headline table is of {}, {n} commits ago; at most {BEHIND_MAX}: measure it again",
                    build.commit
                )),
                Age::Unknown => {
                    self.find(format!("the headline table is of {}, which git does not know", build.commit))
                }
                Age::NoHistory => self.checked.notes.push(format!(
                    "{}:{}: no history here to tell the age of {}",
                    self.path, self.line, build.commit
                )),
                Age::Behind(_) => {}
            }
        }
    }

    /// The rows of both sides.
    fn sides(&self, reference: &Reference) -> anyhow::Result<(Vec<Row>, Option<Vec<Row>>)> {
        let of = reference.of.rows(self.tree, &self.folder)?;
        let over = reference.over.as_ref().map(|over| over.rows(self.tree, &self.folder)).transpose()?;
        Ok((of, over))
    }

    /// Holds the last figures of `segment` against the reference's values.
    fn figures(
        &mut self,
        segment: &str,
        reference: &Reference,
        rows: anyhow::Result<(Vec<Row>, Option<Vec<Row>>)>,
    ) {
        let figures = scan::figures(segment, reference.unit);
        let (rows, over) = match rows {
            Ok(rows) => rows,
            Err(error) => return self.find(format!("{error:#}")),
        };
        let n = reference.values.len();
        if figures.len() < n {
            let stand: Vec<&str> = figures.iter().map(|f| f.text.as_str()).collect();
            return self.find(format!("{n} values for {} figures ({})", stand.len(), stand.join(", ")));
        }
        let (others, own) = figures.split_at(figures.len() - n);
        self.unmarked(others, "names no record");
        for (figure, path) in own.iter().zip(&reference.values) {
            match value(path, &rows, over.as_deref(), reference.recorded_in) {
                Ok((value, unit)) => self.hold(figure, path, value, unit),
                Err(error) => self.find(format!("{}: {error:#}", figure.text)),
            }
        }
    }

    /// Holds one figure against a value.
    fn hold(&mut self, figure: &Figure, path: &str, value: Option<f64>, unit: Unit) {
        let Some(stated) = figure.unit else { return };
        let shown = value.map(|value| value * unit.factor / stated.factor);
        let says = shown
            .map_or("nothing, too few samples".to_owned(), |value| format!("{value:.*}", figure.decimals));
        if value.is_some() && figure.number.is_some() && !stated.kind.fits(unit.kind) {
            return self.find(format!(
                "{} is of {:?}, `{path}` of the record is of {:?}",
                figure.text, stated.kind, unit.kind
            ));
        }
        let same = match (figure.number, shown) {
            (Some(number), Some(value)) => {
                // Half a unit of the last digit, either way at the half.
                (number - value).abs() <= 0.5 * 0.1_f64.powi(figure.decimals as i32) * (1.0 + 1e-9)
            }
            (None, None) => true,
            _ => false,
        };
        if same {
            let exact = shown.map_or_else(|| "nothing".to_owned(), |value| format!("{value:.4}"));
            let line = format!("{}:{}: {} is {exact} by `{path}`", self.path, self.line, figure.text);
            self.checked.resolved.push(line);
        } else {
            self.find(format!("{} stands here, `{path}` of the record says {says}", figure.text));
        }
    }

    fn table_line(&mut self, line: &str, claims: &str, reference: &Reference) {
        let mut cells: Vec<&str> = line.trim_matches(['|', ' ']).split('|').map(str::trim).collect();
        if !line.trim_start_matches('|').trim_start().starts_with(|c: char| c.is_alphanumeric()) {
            // Trimming took the empty cells at the line's start.
            cells = line.trim_start_matches('|').split('|').map(str::trim).collect();
        }
        for (carried, cell) in self.carried.iter_mut().zip(&cells) {
            if !cell.is_empty() {
                (*cell).clone_into(carried);
            }
        }
        let figures = scan::figures(claims, reference.unit);
        if figures.is_empty() {
            return;
        }
        let key = format!("{} {}", self.carried.join(" "), line);
        match reference.of.rows(self.tree, &self.folder).and_then(|rows| named(&rows, &reference.by, &key)) {
            Ok(row) if figures.len() == reference.values.len() => {
                self.figures(claims, reference, Ok((vec![row], None)))
            }
            Ok(_) => {
                self.find(format!("{} figures in the line, {} values", figures.len(), reference.values.len()))
            }
            Err(error) => self.find(format!("{error:#}")),
        }
    }

    /// Holds each verdict of the line against what the runs of both rows give.
    fn verdict(&mut self, segment: &str, reference: &Reference) {
        let mut left = segment.to_owned();
        let [path] = &reference.values[..] else { return self.find("a verdict has one path".to_owned()) };
        let rows = match reference.of.rows(self.tree, &self.folder) {
            Ok(rows) => rows,
            Err(error) => return self.find(format!("{error:#}")),
        };
        let better = if record::unit(path).kind == Kind::Time { Better::Lower } else { Better::Higher };
        let known = |row: &Row| -> Vec<f64> {
            record::values(std::slice::from_ref(row), path).into_iter().flatten().collect()
        };
        let is_ours = |row: &&Row| record::word(row, "system").as_deref() == Some("barewire");
        let mut expected = Vec::new();
        for clause in segment.split(';') {
            let Some(ours) = rows
                .iter()
                .filter(is_ours)
                .filter(|row| names(row, &reference.by, clause))
                .max_by_key(|row| weight(row, &reference.by))
            else {
                continue;
            };
            for theirs in rows.iter().filter(|row| !is_ours(row)) {
                let word = |row, field| record::word(row, field);
                if word(ours, "idle_state") != word(theirs, "idle_state") {
                    continue;
                }
                let name = format!(
                    "{} {}",
                    word(theirs, "system").unwrap_or_default(),
                    word(theirs, "mode").unwrap_or_default()
                );
                let Some(stands) = standing(&known(ours), &known(theirs), better, &Method::default()) else {
                    continue;
                };
                let words = stands.words(&name);
                if let Some(at) = clause.find(&words) {
                    let at = at + (clause.as_ptr() as usize - segment.as_ptr() as usize);
                    left.replace_range(at..at + words.len(), &" ".repeat(words.len()));
                    self.checked.resolved.push(format!("{}:{}: {words}", self.path, self.line));
                } else {
                    expected.push(words);
                }
            }
        }
        self.unmarked(
            &scan::figures(&left, reference.unit),
            &format!("is no verdict of these runs, which say: {}", expected.join("; ")),
        );
    }
}

/// The value of `path` in the rows, or the ratio to that of the others, with its unit.
fn value(
    path: &str,
    of: &[Row],
    over: Option<&[Row]>,
    recorded: Option<Unit>,
) -> anyhow::Result<(Option<f64>, Unit)> {
    let (fold, inner) = record::fold(path);
    let one = record::folded(&record::values(of, inner), fold, inner)?;
    let Some(over) = over else {
        return Ok((one, recorded.unwrap_or_else(|| record::unit(inner))));
    };
    let opposite = match fold {
        record::Fold::Min => record::Fold::Max,
        record::Fold::Max => record::Fold::Min,
        same => same,
    };
    let other = record::folded(&record::values(over, inner), opposite, inner)?;
    let (one, other) = one.zip(other).with_context(|| format!("one of the two has no `{inner}`"))?;
    ensure!(other != 0.0, "`{inner}` of the second is 0");
    Ok((Some(one / other), Unit { kind: Kind::Ratio, factor: 1.0 }))
}

/// Words apart by single spaces, with one at either end.
fn words_of(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { ' ' }).collect();
    format!(" {} ", plain.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// How a text would name the row's field: by its word, or a number behind the field's name.
fn named_field(row: &Row, field: &str) -> Option<String> {
    let word = record::word(row, field)?;
    let is_number = word.parse::<f64>().is_ok();
    Some(words_of(&if is_number { format!("{field} {word}") } else { word }))
}

fn names(row: &Row, by: &[String], text: &str) -> bool {
    let text = words_of(text);
    by.iter().all(|field| named_field(row, field).is_none_or(|name| text.contains(&name)))
}

/// How much of a text the row's names take: `kernel-tcp-spin` says more than `kernel-tcp`.
fn weight(row: &Row, by: &[String]) -> usize {
    by.iter().filter_map(|field| named_field(row, field)).map(|name| name.len()).sum()
}

/// The one row that `text` names.
fn named(rows: &[Row], by: &[String], text: &str) -> anyhow::Result<Row> {
    let fits: Vec<&Row> = rows.iter().filter(|row| names(row, by, text)).collect();
    let most = fits.iter().map(|row| weight(row, by)).max();
    let best: Vec<&Row> = fits.into_iter().filter(|row| Some(weight(row, by)) == most).collect();
    match best[..] {
        [one] => Ok(one.clone()),
        [] => anyhow::bail!("no row of the record is named by {}", by.join(", ")),
        _ => anyhow::bail!("{} rows of the record are named by {}", best.len(), by.join(", ")),
    }
}

/// The task.
pub fn main(args: &[String]) -> anyhow::Result<bool> {
    let print = match args {
        [] => false,
        [one] if one == "--print" => true,
        _ => anyhow::bail!("check-figures takes --print and nothing else"),
    };
    let root = crate::root();
    let checked = check(&Tree::load(&root)?, &|commit| age(&root, commit));
    if print {
        checked.resolved.iter().for_each(|line| println!("{line}"));
    }
    checked.notes.iter().for_each(|note| println!("note: {note}"));
    checked.findings.iter().for_each(|finding| println!("{finding}"));
    println!("{} figures are as recorded, {} faults", checked.resolved.len(), checked.findings.len());
    Ok(checked.findings.is_empty())
}
