//! The page, the Markdown, the CSV and the charts: everything is there, and text stays text.

mod sample;

use barewire_report::compare::{Method, compare};
use barewire_report::html::page;
use barewire_report::import;
use barewire_report::published::tables;
use barewire_report::report::{Options, Report, Source};
use barewire_report::run::{HardwareClass, Record, Run, RunWriter};
use barewire_report::text;
use sample::{HOSTILE, START_MS, full, row, start};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// A report of two runs, compared.
fn report() -> (tempfile::TempDir, Run, Report) {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (full(dir.path(), "before", 1.0), full(dir.path(), HOSTILE, 1.2));
    let options = Options { title: format!("Title {HOSTILE}"), ..Options::default() };
    let report = Report::of(&[&b], &options).with_comparison(compare(&[&a], &[&b], Method::default()));
    (dir, b, report)
}

#[test]
fn every_published_row_is_there_with_what_was_measured_or_why_it_was_not() {
    let (_dir, _, report) = report();
    for published in tables() {
        let table = report.tables.iter().find(|t| t.table_id == published.id).expect(published.id);
        assert_eq!(table.groups.len().min(published.cases.len()), published.cases.len());
        let of = |source| table.groups.iter().flat_map(|g| &g.rows).filter(|r| r.source == source).count();
        assert_eq!(of(Source::Published), published.rows.len(), "{}", published.id);
        assert!(of(Source::Measured) + of(Source::Missing) >= published.cases.len(), "{}", published.id);
    }
    let row = |table: &str, group: usize, source: Source| {
        let t = report.tables.iter().find(|t| t.table_id == table).unwrap();
        t.groups[group].rows.iter().find(|r| r.source == source).unwrap().clone()
    };
    let ours = row("machnet", 0, Source::Measured);
    assert!(
        ours.badges.iter().any(|b| b.text == "not comparable" && b.why.contains("here one machine, no NIC"))
    );
    assert!(
        ours.beside[0].contains("times faster than kernel-tcp-spin spin over xdp (round trip p50)"),
        "{ours:?}"
    );
    assert!(ours.cells[0].spread.as_deref().unwrap().ends_with(" in 5"), "{ours:?}");
    assert_eq!(row("rc.machines", 0, Source::Missing).details, "one machine only");
    assert_eq!(row("bmv2", 0, Source::Missing).details, "this run has no such row");
    let daemon = report.tables[0].groups[0].rows.iter().find(|r| r.name.contains("daemon")).unwrap();
    assert_eq!(daemon.cells[1].text, "n<10000");
    for badge in ["contended", "thin"] {
        assert!(daemon.badges.iter().any(|b| b.text == badge), "{badge}: {daemon:?}");
    }
    assert!(
        report.controls.iter().any(|(name, value)| name == "one reading of the clock" && value == "22.0 ns")
    );
    assert!(
        report.controls.iter().any(|(name, _)| name == "of that lost in hiccups"),
        "{:?}",
        report.controls
    );
}

#[test]
fn a_row_of_the_same_class_is_set_against_the_published_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(dir.path(), &start("x")).unwrap();
    let bmv2 = json!({ "system": "barewire", "over": "xdp", "offloads": false, "tcp_mbps": 2094.0 });
    writer.add(Record::new("switch", "bmv2", row(bmv2.clone())), &[]).unwrap();
    let marked =
        Record { not_comparable: Some("another program".into()), ..Record::new("switch", "bmv2", row(bmv2)) };
    writer.add(marked, &[]).unwrap();
    let run = Run::open(&writer.finish(START_MS).unwrap()).unwrap();
    let report = Report::of(&[&run], &Options { all_published: false, ..Options::default() });
    assert_eq!(report.tables.len(), 1);
    let rows = &report.tables[0].groups[0].rows;
    assert_eq!(rows[1].beside, ["2.00 times faster than published bmv2 simple_switch (TCP)"]);
    assert_eq!(rows[1].badges[0].text, "another machine");
    assert_eq!(
        (rows[2].badges[0].text.as_str(), rows[2].badges[0].why.as_str()),
        ("not comparable", "another program")
    );
    assert!(rows[2].beside.is_empty());

    let mut simulated = run.clone();
    simulated.manifest.hardware = HardwareClass::Simulated;
    let report = Report::of(&[&simulated], &Options { all_published: false, ..Options::default() });
    assert_eq!(report.tables[0].groups[0].rows[1].badges[0].text, "not comparable");
    assert!(report.caveats.iter().any(|c| c.starts_with("simulated")));
}

#[test]
fn the_pictures_that_belong_are_drawn() {
    let (_dir, _, report) = report();
    let ids: Vec<&str> = report.charts().map(|c| c.id.as_str()).collect();
    for id in [
        "t-machnet-latency",
        "t-machnet-load",
        "t-rc-threads-by-threads",
        "t-rc-machines-by-hosts",
        "t-onixs-net-0-latency",
        "t-waterfall-market-data--back-to-back",
        "t-waterfall-messages--open-loop",
        "ab-compare-machnet",
    ] {
        assert!(ids.contains(&id), "{id}: {ids:?}");
    }
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len());
    for chart in report.charts() {
        let table = chart.table();
        assert!(!table.rows.is_empty(), "{}", chart.id);
        assert!(table.rows.iter().all(|r| r.len() == table.head.len()), "{}", chart.id);
        let svg = chart.standalone();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", chart.id);
    }
    let stages = report.waterfalls.iter().find(|c| c.id.contains("market")).unwrap().table().rows;
    assert_eq!(stages[0][1..], ["t3..t4".to_owned(), "2.78 us".to_owned()]);
    assert_eq!(stages[1][1..], ["t4..t5".to_owned(), "120 ns".to_owned()]);
}

/// Tags of an HTML or XML text, without their contents.
fn tags(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let end = rest.find('>').expect("every < of text is escaped");
        found.push(rest[..=end].to_owned());
        rest = &rest[end + 1..];
    }
    found
}

/// Opens and closes balance; returns the number of elements.
fn balanced(tags: &[String]) -> usize {
    const VOID: [&str; 2] = ["meta", "br"];
    let mut open: Vec<&str> = Vec::new();
    for tag in tags {
        let name = tag.trim_start_matches("</").trim_start_matches('<');
        let name = name.split([' ', '>', '/']).next().unwrap();
        if tag.starts_with("<!") || tag.starts_with("<?") || tag.ends_with("/>") || VOID.contains(&name) {
            continue;
        }
        if tag.starts_with("</") {
            assert_eq!(open.pop(), Some(name), "{tag} closes something else");
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} not closed");
    tags.len()
}

#[test]
fn hostile_text_stays_text_and_nothing_is_loaded_from_elsewhere() {
    let (_dir, run, report) = report();
    let html = page(&report);
    // Script and style are the page's own and hold no tags; without them every < is a tag of ours.
    let (before, rest) = html.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (middle, rest) = rest.split_once("<script>").unwrap();
    let (_, after) = rest.split_once("</script>").unwrap();
    let outside = format!("{before}{middle}{after}");
    let all = tags(&outside);
    assert!(balanced(&all) > 1_000);
    for tag in &all {
        let lower = tag.to_lowercase();
        assert!(
            !lower.starts_with("<script") && !lower.starts_with("<img") && !lower.contains(" onerror="),
            "{tag}"
        );
        assert!(!lower.contains(" src="), "{tag}");
        assert!(!lower.contains(" style="), "{tag}");
        if let Some(at) = lower.find(" href=\"") {
            assert_eq!(&lower[at + 7..at + 8], "#", "{tag}");
        }
    }
    assert!(!html.contains('\u{202e}') && !html.contains('\u{0}'));
    assert!(!outside.replace("http://www.w3.org/2000/svg", "").contains("://"), "an address");
    assert!(html.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    // Every link of the page leads somewhere.
    for tag in all.iter().filter(|t| t.starts_with("<a ")) {
        let id = tag.split("href=\"#").nth(1).unwrap().split('"').next().unwrap();
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
    let mut ids: Vec<&str> = all.iter().filter_map(|t| t.split(" id=\"").nth(1)?.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id twice");

    for (name, svg) in text::charts(&report) {
        assert!(
            name.ends_with(".svg") && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)),
            "{name}"
        );
        let (before, rest) = svg.split_once("<style>").unwrap();
        let (_, after) = rest.split_once("</style>").unwrap();
        balanced(&tags(&format!("{before}{after}")));
    }
    let markdown = text::markdown(&report, "charts");
    for line in markdown.lines() {
        assert_eq!(line.replace("\\`", "").matches('`').count() % 2, 0, "a code span without an end: {line}");
        // What stands in a code span is text; every second part does.
        let outside: String = line.replace("\\`", "").split('`').step_by(2).collect();
        assert!(!outside.contains('<'), "raw HTML: {line}");
    }
    for line in markdown.lines().filter(|l| l.starts_with("| ")) {
        let cells = line.replace("\\|", "").matches('|').count();
        assert!(cells >= 3, "{line}");
    }
    let csv = text::csv(&[&run]);
    assert_eq!(csv.lines().next().unwrap().split(',').count(), 16);
    assert!(csv.contains("rc-machines,rc.machines,missing"), "{csv}");
    assert!(!csv.contains(",=cmd"));
}

#[test]
fn an_empty_run_is_a_page_too() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        Run::open(&RunWriter::create(dir.path(), &start("")).unwrap().finish(START_MS).unwrap()).unwrap();
    let report = Report::of(&[&run], &Options::default());
    assert!(page(&report).contains("this run has no such row"));
    assert!(text::markdown(&report, "").contains("## How to read this"));
    assert_eq!(text::csv(&[&run]).lines().count(), 1);
    let none = Report::of(&[], &Options { all_published: false, ..Options::default() });
    assert!(page(&none).ends_with("</html>\n") && none.tables.is_empty());
}

#[test]
fn recorded_documents_of_every_verb_are_rendered() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../benches/runs");
    let mut documents = 0;
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        for file in fs::read_dir(entry.path()).unwrap().flatten() {
            let path = file.path();
            if path.extension().is_none_or(|e| e != "json") {
                continue;
            }
            let document = import::document(&fs::read_to_string(&path).unwrap()).unwrap();
            assert!(!document.rows.is_empty(), "{}", path.display());
            let dir = tempfile::tempdir().unwrap();
            let mut start = start("recorded");
            start.fingerprint = document.fingerprint;
            let mut writer = RunWriter::create(dir.path(), &start).unwrap();
            for row in document.rows {
                row.write(&mut writer).unwrap();
            }
            let run = Run::open(&writer.finish(START_MS).unwrap()).unwrap();
            assert!(run.fingerprint().is_some(), "{}", path.display());
            let report = Report::of(&[&run], &Options { all_published: false, ..Options::default() });
            let shown = report.tables.iter().flat_map(|t| &t.groups).flat_map(|g| &g.rows);
            let shown = shown.filter(|r| matches!(r.source, Source::Measured | Source::Baseline));
            let told = shown.filter(|r| r.cells.iter().any(|c| c.text != "-")).count();
            assert!(
                told > 0 && told >= run.records.len() / 2,
                "{}: {told} of {}",
                path.display(),
                run.records.len()
            );
            assert!(page(&report).contains("</html>"));
            documents += 1;
        }
    }
    assert!(documents >= 20, "{documents}");
}

#[test]
fn documents_that_are_none_are_refused() {
    for (text, expected) in [
        ("[1]", "no bench document: an object is expected"),
        ("{", "no JSON"),
        ("{}", "key `schema` is expected"),
        (r#"{"schema":2,"rows":[]}"#, "bench document of schema 2; this build reads schema 1"),
        (r#"{"schema":1}"#, "none of rows, switch_rows"),
        (r#"{"schema":1,"rows":{}}"#, "`rows`: an array is expected"),
        (r#"{"schema":1,"rows":[3]}"#, "`rows[0]`: an object is expected"),
    ] {
        let error = import::document(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
