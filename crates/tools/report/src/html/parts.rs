//! The parts of the page, in their order.

use crate::chart::{Chart, DataTable, Frame, escape};
use crate::compare::{Compared, Comparison, Side, Verdict};
use crate::figure::{Unit, quantity};
use crate::report::{Badge, BadgeKind, Cell, Report, Row, RunHead, Table};
use std::fmt::Write as _;

pub(super) fn body(out: &mut String, report: &Report) {
    let _ = write!(
        out,
        "<a class=\"skip\" href=\"#main\">Skip to the figures</a>\n<header><h1>{}</h1>\
         <button type=\"button\" id=\"theme\" aria-label=\"Switch to dark colours\" hidden>Dark</button></header>\n",
        escape(&report.title)
    );
    contents(out, report);
    out.push_str("<main id=\"main\">\n");
    openings(out, report);
    machines(out, report);
    if let Some((comparison, charts)) = &report.comparison {
        compared(out, comparison, charts);
    }
    let mut last: Option<&str> = None;
    for table in &report.tables {
        let heading = table.heading();
        if last != Some(heading) {
            let _ = writeln!(out, "<h2>{}</h2>", escape(heading));
            last = Some(heading);
        }
        one_table(out, table);
    }
    if !report.waterfalls.is_empty() {
        out.push_str("<h2 id=\"waterfalls\">Where the time goes</h2>\n");
        for chart in &report.waterfalls {
            figure(out, chart, 3);
        }
    }
    reading(out);
    out.push_str("</main>\n");
}

fn contents(out: &mut String, report: &Report) {
    out.push_str("<nav aria-label=\"Contents\"><ul>");
    if !report.openings.is_empty() {
        out.push_str("<li><a href=\"#openings\">In short</a></li>");
    }
    out.push_str("<li><a href=\"#machines\">Runs and machines</a></li>");
    if report.comparison.is_some() {
        out.push_str("<li><a href=\"#comparison\">Comparison</a></li>");
    }
    for table in &report.tables {
        let _ = write!(out, "<li><a href=\"#{}\">{}</a></li>", table.id, escape(&short(table)));
    }
    if !report.waterfalls.is_empty() {
        out.push_str("<li><a href=\"#waterfalls\">Where the time goes</a></li>");
    }
    out.push_str("<li><a href=\"#reading\">How to read this</a></li></ul></nav>\n");
}

/// A table's title without what follows its first colon or bracket.
fn short(table: &Table) -> String {
    let title = table.title.split(['(', ':']).next().unwrap_or_default().trim();
    match table.table_id.split(['.', '-']).next().unwrap_or_default() {
        family if !table.report.is_empty() => format!("{family}: {}", lowered(title)),
        _ => title.to_owned(),
    }
}

fn lowered(title: &str) -> String {
    let mut chars = title.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => title.to_owned(),
    }
}

/// What people come for: a picture of each program, with its sentence.
fn openings(out: &mut String, report: &Report) {
    if report.openings.is_empty() {
        return;
    }
    out.push_str("<h2 id=\"openings\">In short</h2>\n");
    for opening in &report.openings {
        let _ = writeln!(out, "<p class=\"sentence\">{}</p>", escape(&opening.sentence));
        figure(out, &opening.chart, 3);
    }
}

fn machines(out: &mut String, report: &Report) {
    out.push_str("<h2 id=\"machines\">Runs and machines</h2>\n");
    if !report.caveats.is_empty() {
        out.push_str(
            "<div class=\"caveats\" role=\"note\"><strong>Before believing anything below</strong><ul>",
        );
        for caveat in &report.caveats {
            let _ = write!(out, "<li>{}</li>", escape(caveat));
        }
        out.push_str("</ul></div>\n");
    }
    out.push_str("<div class=\"runs\">");
    report.runs.iter().for_each(|run| card(out, run));
    out.push_str("</div>\n");
    if !report.controls.is_empty() {
        out.push_str("<h3>Control rows: the floor under every figure</h3><dl>");
        for (name, value) in &report.controls {
            let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        out.push_str("</dl>\n");
    }
}

fn card(out: &mut String, run: &RunHead) {
    let label = if run.label.is_empty() { &run.name } else { &run.label };
    let _ = write!(
        out,
        "<div class=\"card\"><h3>{}</h3><p class=\"sub\">{}</p><dl>",
        escape(label),
        escape(&run.name)
    );
    for (name, value) in &run.facts {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    out.push_str("</dl>");
    if !run.command.is_empty() {
        let _ = write!(out, "<p><code>{}</code></p>", escape(&run.command));
    }
    if !run.everything.is_empty() {
        out.push_str("<details><summary>Whole fingerprint and configuration</summary><dl>");
        for (name, value) in &run.everything {
            let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        out.push_str("</dl></details>");
    }
    out.push_str("</div>");
}

fn one_table(out: &mut String, table: &Table) {
    let _ = write!(
        out,
        "<section aria-labelledby=\"{id}\"><h3 id=\"{id}\">{}</h3>",
        escape(&table.title),
        id = table.id
    );
    if let Some(method) = &table.method {
        let _ = write!(out, "<p class=\"method\">{}", escape(method));
        if let Some(command) = &table.command {
            let _ = write!(out, " Published command: <code>{}</code>", escape(command));
        }
        out.push_str("</p>");
    }
    if !table.apart.is_empty() {
        let _ = write!(out, "<p class=\"apart\">{}</p>", escape(&table.apart));
    }
    // Figures that another table has already are there for whoever looks for them.
    if table.again {
        out.push_str("<details><summary>The same rows again, as this page prints them</summary>");
    }
    wide_box(out, &format!("Table: {}", table.title));
    out.push_str("<table class=\"stack\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\"><th role=\"columnheader\" scope=\"col\">System</th>");
    for column in &table.columns {
        let _ = write!(out, "<th role=\"columnheader\" scope=\"col\" class=\"num\">{}</th>", escape(column));
    }
    out.push_str("<th role=\"columnheader\" scope=\"col\">Beside it, and what to know</th></tr></thead>");
    for group in &table.groups {
        out.push_str("<tbody role=\"rowgroup\">");
        if !group.label.is_empty() {
            let _ = write!(
                out,
                "<tr class=\"grp\" role=\"row\"><th role=\"rowheader\" scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>",
                table.columns.len() + 2,
                escape(&group.label)
            );
        }
        group.rows.iter().for_each(|r| row(out, table, r));
        out.push_str("</tbody>");
    }
    out.push_str("</table></div>\n");
    if table.again {
        out.push_str("</details>");
    }
    table.charts.iter().for_each(|chart| figure(out, chart, 4));
    out.push_str("</section>\n");
}

fn row(out: &mut String, table: &Table, row: &Row) {
    let source = row.source.as_str();
    let _ = write!(
        out,
        "<tr class=\"{source}\" role=\"row\"><th role=\"rowheader\" scope=\"row\"><span class=\"src {source}\">{source}</span>\
         <span class=\"name\">{}</span>",
        escape(&row.name)
    );
    if !row.details.is_empty() {
        let _ = write!(out, "<span class=\"sub\">{}</span>", escape(&row.details));
    }
    out.push_str("</th>");
    for (heading, cell) in table.columns.iter().zip(&row.cells) {
        number(out, heading, cell);
    }
    out.push_str("<td class=\"side\" role=\"cell\">");
    row.badges.iter().for_each(|b| badge(out, b));
    if !row.beside.is_empty() {
        out.push_str("<ul>");
        for line in &row.beside {
            let _ = write!(out, "<li>{}</li>", escape(line));
        }
        out.push_str("</ul>");
    }
    if let Some(command) = &row.command {
        let _ = write!(
            out,
            "<details class=\"cmd\"><summary>command</summary><code>{}</code></details>",
            escape(command)
        );
    }
    out.push_str("</td></tr>");
}

fn number(out: &mut String, heading: &str, cell: &Cell) {
    let _ = write!(
        out,
        "<td class=\"num\" role=\"cell\" data-label=\"{}\"><span>{}",
        escape(heading),
        escape(&cell.text)
    );
    if let Some(spread) = &cell.spread {
        let _ = write!(out, "<span class=\"sub\">{}</span>", escape(spread));
    }
    out.push_str("</span></td>");
}

fn badge(out: &mut String, badge: &Badge) {
    let class = match badge.kind {
        BadgeKind::Bad => "bad",
        BadgeKind::Warn => "warn",
        BadgeKind::Note => "note",
    };
    let _ = write!(
        out,
        "<details class=\"badge {class}\"><summary>{}</summary><p>{}</p></details>",
        escape(&badge.text),
        escape(&badge.why)
    );
}

/// A box that scrolls sideways: the keyboard can reach it, and it says what it is.
fn wide_box(out: &mut String, label: &str) {
    let _ = write!(
        out,
        "<div class=\"wide-box\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">",
        escape(label)
    );
}

/// A chart below a heading of the level above `level`.
fn figure(out: &mut String, chart: &Chart, level: u8) {
    if chart.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<figure id=\"{}\"><figcaption><h{level}>{}</h{level}><p>{}</p></figcaption>{}{}<p class=\"said\" aria-live=\"off\"></p>",
        chart.id,
        escape(&chart.title),
        escape(&chart.reading),
        chart.svg(Frame::Wide),
        chart.svg(Frame::Narrow)
    );
    out.push_str("<details><summary>The same as a table</summary>");
    data_table(out, &chart.title, &chart.table());
    out.push_str("</details></figure>\n");
}

fn data_table(out: &mut String, title: &str, table: &DataTable) {
    wide_box(out, &format!("Figures of the chart: {title}"));
    out.push_str("<table><thead><tr>");
    for head in &table.head {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(head));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

fn compared(out: &mut String, comparison: &Comparison, charts: &[Chart]) {
    out.push_str("<h2 id=\"comparison\">Comparison: B against A</h2>\n");
    let _ = write!(
        out,
        "<dl><dt>A</dt><dd>{}</dd><dt>B</dt><dd>{}</dd><dt>verdicts</dt><dd>{} slower, {} faster, {} within noise, {} unknown</dd></dl>",
        escape(&comparison.a.join(", ")),
        escape(&comparison.b.join(", ")),
        comparison.count(Verdict::Slower),
        comparison.count(Verdict::Faster),
        comparison.count(Verdict::WithinNoise),
        comparison.count(Verdict::Unknown),
    );
    let _ = write!(out, "<p class=\"method\">{}</p>", escape(&comparison.method.words()));
    list(out, "Machines and builds differ in", &comparison.differences);
    list(out, "Only in A", &comparison.only_a);
    list(out, "Only in B", &comparison.only_b);
    charts.iter().for_each(|chart| figure(out, chart, 3));
    let of = |verdict| comparison.rows.iter().filter(move |r| r.verdict == verdict).collect::<Vec<_>>();
    let judged = [Verdict::Slower, Verdict::Faster, Verdict::WithinNoise].map(of).concat();
    if !judged.is_empty() {
        verdicts(out, "Figures with a verdict", &judged);
    }
    let unknown = of(Verdict::Unknown);
    if !unknown.is_empty() {
        let _ = write!(out, "<details><summary>Unknown ({}), each with the reason</summary>", unknown.len());
        verdicts(out, "Figures without a verdict", &unknown);
        out.push_str("</details>\n");
    }
}

fn verdicts(out: &mut String, label: &str, rows: &[&Compared]) {
    wide_box(out, label);
    out.push_str("<table class=\"stack\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">");
    for heading in ["Figure", "A", "B", "B over A", "Verdict"] {
        let class = if ["A", "B", "B over A"].contains(&heading) { " class=\"num\"" } else { "" };
        let _ = write!(out, "<th role=\"columnheader\" scope=\"col\"{class}>{heading}</th>");
    }
    out.push_str("</tr></thead><tbody role=\"rowgroup\">");
    for row in rows {
        let _ = write!(
            out,
            "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\"><span class=\"name\">{}</span><span class=\"sub\">{}</span></th>",
            escape(&row.figure),
            escape(&row.of())
        );
        number(out, "A", &side(&row.a, row.unit));
        number(out, "B", &side(&row.b, row.unit));
        let ratio = row.interval.map_or_else(
            || Cell { text: "-".to_owned(), spread: None },
            |i| {
                let r = |v| quantity(v, Unit::Ratio);
                let spread = (i.low < i.high).then(|| format!("{} to {}", r(i.low), r(i.high)));
                Cell { text: r(i.ratio), spread }
            },
        );
        number(out, "B over A", &ratio);
        let word = row.verdict.as_str();
        let _ = write!(
            out,
            "<td class=\"side\" role=\"cell\"><span class=\"verdict-{}\">{word}</span>",
            word.replace(' ', "-")
        );
        if !row.notes.is_empty() {
            let _ = write!(out, "<span class=\"sub\">{}</span>", escape(&row.notes.join("; ")));
        }
        out.push_str("</td></tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

fn side(side: &Side, unit: Unit) -> Cell {
    let mut about = match side.repetitions {
        1 => "one repetition".to_owned(),
        n => format!("{n} repetitions"),
    };
    if let Some((low, high)) = side.within {
        let _ = write!(
            about,
            "; histogram {} to {}",
            quantity(low as f64, Unit::Ns),
            quantity(high as f64, Unit::Ns)
        );
    }
    Cell { text: side.value.map_or_else(|| "-".to_owned(), |v| quantity(v, unit)), spread: Some(about) }
}

fn list(out: &mut String, heading: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(out, "<details><summary>{heading} ({})</summary><ul>", lines.len());
    for line in lines {
        let _ = write!(out, "<li>{}</li>", escape(line));
    }
    out.push_str("</ul></details>\n");
}

fn reading(out: &mut String) {
    out.push_str("<h2 id=\"reading\">How to read this</h2>\n<ul>");
    for line in crate::text::READING {
        let _ = write!(out, "<li>{}</li>", escape(line));
    }
    out.push_str("</ul>\n");
}
