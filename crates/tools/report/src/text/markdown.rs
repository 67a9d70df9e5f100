//! The report as Markdown.

use super::READING;
use crate::compare::{Comparison, Verdict};
use crate::figure::quantity;
use crate::report::{Report, Row, Table};
use std::fmt::Write as _;

/// Text where Markdown might see marks of its own: a heading, an item, a paragraph.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The same in a cell of a table, which a bar would end.
fn cell(text: &str) -> String {
    plain(text).replace('|', "\\|")
}

/// A code span: it cannot hold what would end it. None stands in a table, so a bar is a bar: the command can be copied.
fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if c == '`' { '\'' } else { c }).collect();
    format!("`{}`", text.replace(['\n', '\r'], " "))
}

/// The report as Markdown. Charts are named as the files that [`charts`](super::charts) gives, in the folder `charts`: a path
/// relative to the text, or empty for none.
pub fn markdown(report: &Report, charts: &str) -> String {
    let mut out = format!("# {}\n\n", plain(&report.title));
    if !report.openings.is_empty() {
        out.push_str("## In short\n\n");
    }
    for opening in &report.openings {
        let _ = writeln!(out, "{}\n", plain(&opening.sentence));
        if !charts.is_empty() && !opening.chart.is_empty() {
            let _ = writeln!(out, "![{}]({charts}/{}.svg)\n", plain(&opening.chart.title), opening.chart.id);
        }
    }
    for run in &report.runs {
        let _ = writeln!(out, "## Run {}\n", plain(&run.label));
        for (name, value) in &run.facts {
            let _ = writeln!(out, "- {}: {}", plain(name), plain(value));
        }
        if !run.command.is_empty() {
            let _ = writeln!(out, "- command: {}", code(&run.command));
        }
        out.push('\n');
    }
    if !report.caveats.is_empty() {
        out.push_str("**Before believing anything below:**\n\n");
        for caveat in &report.caveats {
            let _ = writeln!(out, "- {}", plain(caveat));
        }
        out.push('\n');
    }
    if !report.controls.is_empty() {
        out.push_str("## Control rows\n\n| what | value |\n| --- | ---: |\n");
        for (name, value) in &report.controls {
            let _ = writeln!(out, "| {} | {} |", cell(name), cell(value));
        }
        out.push('\n');
    }
    if let Some((comparison, _)) = &report.comparison {
        compared(&mut out, comparison);
    }
    let mut last: Option<&str> = None;
    for table in &report.tables {
        let heading = table.heading();
        if last != Some(heading) {
            let _ = writeln!(out, "## {}\n", plain(heading));
            last = Some(heading);
        }
        one_table(&mut out, table);
        if !charts.is_empty() {
            for chart in table.charts.iter().filter(|c| !c.is_empty()) {
                let _ = writeln!(out, "![{}]({charts}/{}.svg)\n", plain(&chart.title), chart.id);
            }
        }
    }
    if !charts.is_empty() {
        for chart in report.waterfalls.iter().filter(|c| !c.is_empty()) {
            let _ = writeln!(out, "![{}]({charts}/{}.svg)\n", plain(&chart.title), chart.id);
        }
    }
    out.push_str("## How to read this\n\n");
    for line in READING {
        let _ = writeln!(out, "- {}", plain(line));
    }
    out
}

fn one_table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "### {}\n", plain(&table.title));
    if let Some(method) = &table.method {
        let _ = writeln!(out, "{}\n", plain(method));
    }
    if !table.apart.is_empty() {
        let _ = writeln!(out, "{}\n", plain(&table.apart));
    }
    if let Some(command) = &table.command {
        let _ = writeln!(out, "Published command: {}\n", code(command));
    }
    for group in &table.groups {
        if !group.label.is_empty() {
            let _ = writeln!(out, "**{}**\n", plain(&group.label));
        }
        let columns: Vec<String> = table.columns.iter().map(|c| cell(c)).collect();
        let middle = if columns.is_empty() { String::new() } else { format!(" {} |", columns.join(" | ")) };
        let _ = writeln!(out, "| System | Source |{middle} Beside it, and what to know |");
        let _ = writeln!(out, "| --- | --- |{} --- |", " ---: |".repeat(columns.len()));
        for row in &group.rows {
            let cells: Vec<String> = row
                .cells
                .iter()
                .map(|c| match &c.spread {
                    Some(spread) => format!("{} ({})", cell(&c.text), cell(spread)),
                    None => cell(&c.text),
                })
                .collect();
            let middle = if cells.is_empty() { String::new() } else { format!(" {} |", cells.join(" | ")) };
            let _ =
                writeln!(out, "| {} | {} |{middle} {} |", subject(row), row.source.as_str(), remarks(row));
        }
        out.push('\n');
    }
    let mut commands: Vec<&str> = Vec::new();
    for command in table.groups.iter().flat_map(|g| &g.rows).filter_map(|r| r.command.as_deref()) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    if !commands.is_empty() {
        out.push_str("Commands of the measured rows:\n\n");
        for command in commands {
            let _ = writeln!(out, "- {}", code(command));
        }
        out.push('\n');
    }
}

fn subject(row: &Row) -> String {
    if row.details.is_empty() {
        cell(&row.name)
    } else {
        format!("{}; {}", cell(&row.name), cell(&row.details))
    }
}

fn remarks(row: &Row) -> String {
    let badges = row.badges.iter().map(|b| format!("**{}** ({})", cell(&b.text), cell(&b.why)));
    badges.chain(row.beside.iter().map(|b| cell(b))).collect::<Vec<_>>().join("; ")
}

/// A comparison alone, as Markdown.
pub fn comparison(comparison: &Comparison) -> String {
    let mut out = String::new();
    compared(&mut out, comparison);
    out
}

fn compared(out: &mut String, comparison: &Comparison) {
    let _ = writeln!(
        out,
        "## Comparison: B against A\n\nA: {}\n\nB: {}\n\n{} slower, {} faster, {} within noise, {} unknown. {}\n",
        plain(&comparison.a.join(", ")),
        plain(&comparison.b.join(", ")),
        comparison.count(Verdict::Slower),
        comparison.count(Verdict::Faster),
        comparison.count(Verdict::WithinNoise),
        comparison.count(Verdict::Unknown),
        plain(&comparison.method.words()),
    );
    for (heading, lines) in [
        ("Machines and builds differ in", &comparison.differences),
        ("Only in A", &comparison.only_a),
        ("Only in B", &comparison.only_b),
    ] {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|l| plain(l)).collect();
            let _ = writeln!(out, "{heading}: {}\n", lines.join("; "));
        }
    }
    out.push_str("| Figure | Row | A | B | B over A | Verdict |\n| --- | --- | ---: | ---: | ---: | --- |\n");
    for row in &comparison.rows {
        let value = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| quantity(v, row.unit));
        let ratio = row.ratio().unwrap_or_else(|| "-".to_owned());
        let mut verdict = format!("**{}**", row.verdict.as_str());
        if !row.notes.is_empty() {
            let _ = write!(verdict, ": {}", cell(&row.notes.join("; ")));
        }
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {ratio} | {verdict} |",
            cell(&row.figure),
            cell(&row.of()),
            value(row.a.value),
            value(row.b.value),
        );
    }
    out.push('\n');
}
