//! What a comment beside a figure says of where it comes from.
//!
//! ```text
//! <!-- record FOLDER [headline] -->            the folder of the references below it; headline: its commit must be recent
//! <!-- fig SELECTOR : VALUE ... -->            of the figures before it in the line, the last ones, in order
//! <!-- fig SELECTOR / SELECTOR : VALUE -->     the ratio; the second has the first's words but for those it says anew
//! <!-- table SELECTOR by FIELD,... : VALUE ... -->    of every line of the table below it; its words and FIELDs choose the row
//! <!-- verdict SELECTOR by FIELD,... : PATH -->       of the verdicts in the line
//! <!-- not measured -->                        of the figures before it in the line: set, published by others, or counted
//! ```
//! A SELECTOR is the name of a record, left out for the folder's own rows, and `field=value` words; for a text, words that the line
//! has. A VALUE is a path in the row, or `min(PATH)`, `max(PATH)`, `median(PATH)`. `unit=us` names the unit of bare numbers in the
//! document, `as=ns` that of a text record.

use super::record::{self, Row};
use super::scan::{Unit, named_unit};
use crate::tidy::Tree;
use anyhow::{Context as _, bail, ensure};

/// Which rows of which files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    /// The record's name; empty for the folder's own rows.
    pub name: String,
    /// What a row must have.
    pub words: Vec<String>,
}

impl Selector {
    /// The files that it means, with `folder` as the one of the document's last `record`.
    pub fn files(&self, tree: &Tree, folder: &str) -> anyhow::Result<Vec<String>> {
        let below = format!("{folder}/{}", self.name);
        if !folder.is_empty()
            && let Ok(files) = record::files(tree, below.trim_end_matches('/'))
        {
            return Ok(files);
        }
        record::files(tree, &self.name)
    }

    /// The rows that it selects.
    pub fn rows(&self, tree: &Tree, folder: &str) -> anyhow::Result<Vec<Row>> {
        let mut found = Vec::new();
        for file in self.files(tree, folder)? {
            let rows = record::rows(tree, &file)?;
            found.extend(rows.into_iter().filter(|row| record::selects(&self.words, row)));
        }
        ensure!(!found.is_empty(), "no row of the record has {}", self.words.join(" "));
        Ok(found)
    }

    /// The first selector's words, and these in their place.
    fn over(mut self, first: &Selector) -> Selector {
        let key = |word: &str| word.split_once('=').map(|(key, _)| key.to_owned());
        let own: Vec<Option<String>> = self.words.iter().map(|word| key(word)).collect();
        if self.name.is_empty() {
            self.name.clone_from(&first.name);
        }
        let kept = first.words.iter().filter(|word| key(word).is_some_and(|k| !own.contains(&Some(k))));
        self.words.extend(kept.cloned().collect::<Vec<_>>());
        self
    }
}

/// What speaks of figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Whose rows.
    pub of: Selector,
    /// Over whose.
    pub over: Option<Selector>,
    /// Fields whose words choose the row.
    pub by: Vec<String>,
    /// Paths, folded or not.
    pub values: Vec<String>,
    /// Unit of the document's bare numbers.
    pub unit: Option<Unit>,
    /// Unit of a text record's numbers.
    pub recorded_in: Option<Unit>,
}

/// A comment that the checker reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The folder from here on.
    Record {
        /// Its name.
        folder: String,
        /// Its commit must be recent.
        headline: bool,
    },
    /// Of figures in the line.
    Fig(Reference),
    /// Of the table below.
    Table(Reference),
    /// Of the verdicts in the line.
    Verdict(Reference),
    /// No figures of ours.
    NotMeasured,
}

/// Reads a comment. `None`: it is none of the checker's.
pub fn parse(text: &str) -> Option<anyhow::Result<Said>> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match first {
        "record" => match rest.split_whitespace().collect::<Vec<_>>()[..] {
            [folder] => Ok(Said::Record { folder: folder.to_owned(), headline: false }),
            [folder, "headline"] => Ok(Said::Record { folder: folder.to_owned(), headline: true }),
            _ => Err(anyhow::anyhow!("`record` wants a folder, and no more than `headline`")),
        },
        "fig" => reference(rest).map(Said::Fig),
        "table" => reference(rest).map(Said::Table),
        "verdict" => reference(rest).map(Said::Verdict),
        "not" if rest == "measured" => Ok(Said::NotMeasured),
        _ => return None,
    })
}

fn reference(text: &str) -> anyhow::Result<Reference> {
    let (selectors, values) = text.split_once(" : ").context("no ` : ` before the values")?;
    let mut found = Reference {
        of: Selector::default(),
        over: None,
        by: Vec::new(),
        values: values.split_whitespace().map(str::to_owned).collect(),
        unit: None,
        recorded_in: None,
    };
    ensure!(!found.values.is_empty(), "no value behind ` : `");
    let mut words = selectors.split_whitespace();
    while let Some(word) = words.next() {
        if word == "/" {
            ensure!(found.over.is_none(), "more than one ` / `");
            found.over = Some(Selector::default());
        } else if word == "by" {
            let fields = words.next().context("no fields behind `by`")?;
            found.by = fields.split(',').map(str::to_owned).collect();
        } else if let Some(unit) = word.strip_prefix("unit=") {
            found.unit = Some(named_unit(unit).with_context(|| format!("no unit `{unit}`"))?);
        } else if let Some(unit) = word.strip_prefix("as=") {
            found.recorded_in = Some(named_unit(unit).with_context(|| format!("no unit `{unit}`"))?);
        } else {
            let selector = found.over.as_mut().unwrap_or(&mut found.of);
            if selector.name.is_empty() && selector.words.is_empty() && !word.contains('=') {
                word.clone_into(&mut selector.name);
            } else {
                selector.words.push(word.to_owned());
            }
        }
    }
    if let Some(over) = found.over.take() {
        if over == Selector::default() {
            bail!("nothing behind ` / `");
        }
        found.over = Some(over.over(&found.of));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(name: &str, words: &[&str]) -> Selector {
        Selector { name: name.to_owned(), words: words.iter().map(|w| (*w).to_owned()).collect() }
    }

    #[test]
    fn references_are_read() {
        let Some(Ok(Said::Fig(fig))) = parse("fig a.json system=x over=y / system=z : min(rate_pps) b")
        else {
            panic!("not read");
        };
        assert_eq!(fig.of, selector("a.json", &["system=x", "over=y"]));
        assert_eq!(fig.over, Some(selector("a.json", &["system=z", "over=y"])));
        assert_eq!(fig.values, ["min(rate_pps)", "b"]);
        let record = Said::Record { folder: "2026-11-25-demo".to_owned(), headline: true };
        assert_eq!(parse("record 2026-11-25-demo headline").unwrap().unwrap(), record);
        assert_eq!(parse("not measured").unwrap().unwrap(), Said::NotMeasured);
        assert!(parse("demo output").is_none());
    }

    #[test]
    fn slips_are_told() {
        for slip in [
            "fig a.json rate_pps",
            "fig a : ",
            "fig a / : b",
            "fig unit=furlongs : b",
            "record",
            "table by : b",
        ] {
            assert!(parse(slip).unwrap().is_err() || slip == "table by : b", "{slip}");
        }
    }
}
