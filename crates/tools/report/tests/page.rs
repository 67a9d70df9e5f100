//! The page, the Markdown, the CSV and the charts: everything is there, and text stays text.

mod sample;

use barewire_report::chart::Kind;
use barewire_report::compare::{Method, compare};
use barewire_report::figure::identity;
use barewire_report::html::page;
use barewire_report::import;
use barewire_report::published::{self, table, tables};
use barewire_report::report::{Options, Report, Source};
use barewire_report::run::{HardwareClass, Record, Role, Run, RunWriter};
use barewire_report::text;
use sample::{HOSTILE, START_MS, full, row, start};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

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
    let apart = &report.tables.iter().find(|t| t.table_id == "machnet").unwrap().apart;
    assert!(apart.starts_with("Rows measured here are not comparable with the published ones: "), "{apart}");
    assert!(apart.contains("measured here on one machine, no NIC"), "{apart}");
    // Said once over the table, and not again on each row.
    assert!(ours.badges.iter().all(|b| b.text != "not comparable"), "{ours:?}");
    assert!(
        ours.beside[0].contains("times faster than kernel-tcp-spin over xdp (round trip p50)"),
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
    // Of several runs each control row says which one it is of.
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (full(dir.path(), "one", 1.0), full(dir.path(), "two", 1.0));
    let both = Report::of(&[&one, &two], &Options::default());
    let clocks: Vec<&str> = both
        .controls
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| name.starts_with("one reading"))
        .collect();
    assert_eq!(clocks, ["one reading of the clock, one", "one reading of the clock, two"]);
}

#[test]
fn no_measured_row_claims_anything_of_a_published_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(dir.path(), &start("x")).unwrap();
    let bmv2 = json!({ "system": "barewire", "over": "xdp", "offloads": false, "tcp_mbps": 2094.0, "tcp_data_packets_per_s": 175_000.0 });
    writer.add(Record::new("switch", "bmv2", row(bmv2.clone())), &[]).unwrap();
    let marked = Record {
        not_comparable: Some("another program".into()),
        ..Record::new("switch", "bmv2", row(bmv2.clone()))
    };
    writer.add(marked, &[]).unwrap();
    let mut void = row(bmv2);
    void.insert("void".into(), json!("a port was down"));
    writer.add(Record::new("switch", "bmv2", void), &[]).unwrap();
    let run = Run::open(&writer.finish(START_MS).unwrap()).unwrap();
    let report = Report::of(&[&run], &Options { all_published: false, ..Options::default() });
    assert_eq!(report.tables.len(), 1);
    let rows = &report.tables[0].groups[0].rows;
    // As the text prints it, and beside it ours in the same column.
    let texts = |row: usize| rows[row].cells.iter().map(|c| c.text.as_str()).collect::<Vec<_>>();
    assert_eq!((texts(0), texts(1)), (vec!["1047 Mbps", "80,000pps"], vec!["2094 Mbit/s", "175K"]));
    // bmv2 was measured on one machine, too, and that was another one.
    let apart = &report.tables[0].apart;
    assert!(apart.contains("AWS c4.2xlarge"), "{apart}");
    assert!(rows[1..].iter().all(|row| row.beside.is_empty()), "{rows:?}");
    // What stands between one row only and the published ones stands on that row.
    let marks =
        |row: usize| rows[row].badges.iter().map(|b| (b.text.as_str(), b.why.as_str())).collect::<Vec<_>>();
    assert_eq!(marks(1), []);
    assert_eq!(marks(2), [("not comparable", "another program")]);
    assert_eq!(marks(3), [("void", "a port was down")]);
    let records = &run.records;
    let t = table("bmv2").unwrap();
    let why = published::comparable(t, &t.rows[0], &records[1], HardwareClass::OneMachine).unwrap_err();
    let said = apart.split_once("published ones: ").unwrap().1.trim_end_matches('.');
    assert_eq!(why, format!("another program; {said}"), "the page says what the documents say");

    let mut simulated = run.clone();
    simulated.manifest.hardware = HardwareClass::Simulated;
    let report = Report::of(&[&simulated], &Options { all_published: false, ..Options::default() });
    assert!(report.tables[0].apart.contains("published ones: simulated"));
    assert!(report.caveats.iter().any(|c| c.starts_with("simulated")));
    let mut unknown = run.clone();
    unknown.manifest.hardware = HardwareClass::Unknown;
    let report = Report::of(&[&unknown], &Options { all_published: false, ..Options::default() });
    assert!(report.tables[0].apart.contains("is not told"));
    assert!(report.caveats.iter().any(|c| c.contains("is not told")), "{:?}", report.caveats);
}

/// Rows of TCP through a switch, with medians of `ours` and of baselines.
fn switch_run(dir: &std::path::Path, rows: &[(serde_json::Value, &[f64])]) -> Run {
    let mut writer = RunWriter::create(dir, &start("x")).unwrap();
    for (more, runs) in rows {
        let mut value = json!({ "offloads": false, "tcp_mbps": runs[0], "runs": runs.iter().map(|r| json!({ "tcp_mbps": r })).collect::<Vec<_>>() });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        writer.add(import::record(row(value), "switch"), &[]).unwrap();
    }
    Run::open(&writer.finish(START_MS).unwrap()).unwrap()
}

#[test]
fn a_verdict_needs_repetitions_and_a_baseline_that_ran_beside() {
    let dir = tempfile::tempdir().unwrap();
    let four = [2_000.0, 2_010.0, 1_990.0, 2_005.0];
    let slower = [1_000.0, 1_010.0, 990.0, 1_005.0];
    let beside = |name: &str, ours: &[f64], more: serde_json::Value, theirs: &[f64]| {
        let rows = [(json!({ "system": "barewire" }), ours), (more, theirs)];
        let run = switch_run(&dir.path().join(name), &rows);
        let report = Report::of(&[&run], &Options { all_published: false, ..Options::default() });
        let rows = &report.tables[0].groups[0].rows;
        rows.iter().find(|r| r.name == "barewire").unwrap().beside.clone()
    };
    let bridge = json!({ "system": "bridge" });
    assert_eq!(
        beside("a", &four, bridge.clone(), &slower),
        ["2.00 (1.98 to 2.02) times faster than bridge (TCP)"]
    );
    assert_eq!(
        beside("b", &four[..1], bridge.clone(), &slower),
        ["2.00 times bridge (TCP) (one run, no verdict)"]
    );
    assert_eq!(
        beside("c", &four, bridge, &slower[..3]),
        ["2.00 (1.98 to 2.03) times bridge (TCP) (3 runs, too few for a verdict)"]
    );
    let none: [&str; 0] = [];
    for (name, key) in [("d", "void"), ("e", "recorded"), ("f", "no_baseline")] {
        assert_eq!(beside(name, &four, json!({ "system": "bmv2", key: "why" }), &slower), none, "{key}");
    }
}

/// Every sentence that the page has beside a row of ours.
fn sentences(run: &Run) -> Vec<String> {
    let report = Report::of(&[run], &Options { all_published: false, ..Options::default() });
    report
        .tables
        .iter()
        .flat_map(|t| &t.groups)
        .flat_map(|g| &g.rows)
        .flat_map(|r| r.beside.clone())
        .collect()
}

#[test]
fn other_work_is_set_beside_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let count = |label: &str, figure: &str, rows: &[serde_json::Value]| {
        let mut writer = RunWriter::create(dir.path(), &start(label)).unwrap();
        for value in rows {
            let mut value = value.clone();
            value[figure] = json!(5.0);
            value["runs"] = (0..5).map(|_| json!({ figure: 5.0 })).collect();
            let role = if value["system"] == "barewire" { Role::Measured } else { Role::Baseline };
            writer.add(Record { role, ..Record::new("x", "own", row(value)) }, &[]).unwrap();
        }
        sentences(&Run::open(&writer.finish(START_MS).unwrap()).unwrap())
    };
    let engine = |system: &str, over: &str| json!({ "system": system, "over": over, "program": "simple_router", "size": 64 });
    // A ring in a cache is no file.
    let rows = [engine("barewire", "mem"), engine("barewire", "pcap"), engine("bmv2", "pcap")];
    let said = count("files", "rate_pps", &rows);
    assert!(said.len() == 1 && said[0].contains("bmv2 over pcap"), "{said:?}");
    // Who only opens did half of the work.
    let connections = |system: &str, teardown: bool| {
        let over = if system == "barewire" { "xdp" } else { "veth" };
        json!({ "system": system, "over": over, "window": 1, "teardown": teardown })
    };
    let rows =
        [connections("barewire", true), connections("barewire", false), connections("kernel-tcp", true)];
    assert_eq!(count("teardown", "connections_per_s", &rows).len(), 1);
    // Without wires and over them: each with its own.
    let over = |system: &str, over: &str| json!({ "system": system, "over": over, "window": 1 });
    let rows = [
        over("barewire", "mem"),
        over("barewire", "xdp"),
        over("kernel-tcp", "loopback"),
        over("kernel-tcp", "veth"),
    ];
    let said = count("wires", "connections_per_s", &rows);
    assert!(
        said.len() == 2 && said[0].contains("by system calls") && !said[1].contains("by system calls"),
        "{said:?}"
    );
}

#[test]
fn an_overloaded_row_is_neither_judged_nor_a_judge() {
    let dir = tempfile::tempdir().unwrap();
    let count = |label: &str, overloaded: [Option<&str>; 2]| {
        let mut writer = RunWriter::create(dir.path(), &start(label)).unwrap();
        for (system, role, why) in
            [("barewire", Role::Measured, overloaded[0]), ("kernel-tcp", Role::Baseline, overloaded[1])]
        {
            let runs: Vec<_> =
                (0..5).map(|_| json!({ "p50_ns": 1_000, "response": { "p50": 2_000 } })).collect();
            let value = json!({ "system": system, "loop": "open", "offered_per_s": 1e4, "samples": 50_000, "runs": runs,
                "service_ns": { "p50": 1_000 }, "response_ns": { "p50": 2_000 }, "overloaded": why });
            writer.add(Record { role, ..Record::new("m", "msg", row(value)) }, &[]).unwrap();
        }
        sentences(&Run::open(&writer.finish(START_MS).unwrap()).unwrap())
    };
    let said = count("both", [None, None]);
    assert!(
        said.len() == 1 && said[0].contains("within noise") && said[0].contains("response p50"),
        "{said:?}"
    );
    assert_eq!(count("ours", [Some("3 % were never sent"), None]), [""; 0]);
    assert_eq!(count("theirs", [None, Some("3 % were never sent")]), [""; 0]);
}

#[test]
fn a_baseline_alone_leaves_the_row_missing() {
    let dir = tempfile::tempdir().unwrap();
    let four = [2_000.0, 2_010.0, 1_990.0, 2_005.0];
    let missing = |name: &str, rows: &[(serde_json::Value, &[f64])]| {
        let run = switch_run(&dir.path().join(name), rows);
        let report = Report::of(&[&run], &Options { all_published: false, ..Options::default() });
        let rows = &report.tables[0].groups[0].rows;
        rows.iter().find(|r| r.source == Source::Missing).map(|r| r.details.clone())
    };
    // The kernel's own router is no row of ours.
    let why = missing("a", &[(json!({ "system": "routing" }), &four)]);
    assert_eq!(why.as_deref(), Some("this run has no such row"));
    let why = missing("b", &[(json!({ "system": "barewire", "void": "lagged" }), &four)]);
    assert_eq!(why.as_deref(), Some("measured, and void: no row above stands for ours"));
    assert_eq!(missing("c", &[(json!({ "system": "barewire" }), &four)]), None);
}

#[test]
fn many_systems_are_drawn_in_several_pictures_and_none_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(dir.path(), &start("x")).unwrap();
    // Ten systems that differ only in what their names do not say.
    for size in 1..=10_u32 {
        for rate in [1e4, 2e4] {
            let value = json!({ "system": "barewire", "mode": "embedded", "loop": "open", "size": 64 * size, "offered_per_s": rate,
                "rate_per_s": rate, "samples": 50_000, "response_ns": { "p50": 2_000 + size, "p99": 9_000 } });
            writer.add(Record::new("m", "msg", row(value)), &[]).unwrap();
        }
        for window in [1, 8] {
            let value = json!({ "system": "barewire", "mode": "embedded", "loop": "closed", "size": 64 * size, "window": window,
                "rate_per_s": 1e5 * f64::from(window), "samples": 50_000, "rtt_ns": { "p50": 9_000 * window } });
            writer.add(Record::new("m", "msg", row(value)), &[]).unwrap();
        }
    }
    let run = Run::open(&writer.finish(START_MS).unwrap()).unwrap();
    let report = Report::of(&[&run], &Options { all_published: false, ..Options::default() });
    let lines = |title: &str| -> Vec<(String, usize)> {
        let of = report.charts().filter(|c| c.title.starts_with(title));
        of.map(|c| match &c.kind {
            Kind::Lines(lines) => (c.title.clone(), lines.series.iter().map(|s| s.points.len()).sum()),
            other => panic!("{other:?}"),
        })
        .collect()
    };
    let offered = lines("Response time by offered load");
    assert_eq!(offered.len(), 4, "{offered:?}");
    assert!(offered[0].0.ends_with("(1 of 4)"), "{offered:?}");
    // Two percentiles of ten systems at two loads each.
    assert_eq!(offered.iter().map(|o| o.1).sum::<usize>(), 40);
    let load = lines("Throughput against latency");
    assert_eq!(load.iter().map(|o| o.1).collect::<Vec<_>>(), [12, 8], "{load:?}");
}

#[test]
fn steps_of_a_connection_are_a_waterfall_of_one_bar_for_each_row() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../benches/runs");
    let text = fs::read_to_string(folder.join("2026-11-22-rdma-prefetch/xdp.json")).unwrap();
    let document = import::document(&text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(dir.path(), &start("recorded")).unwrap();
    for row in document.rows {
        row.write(&mut writer).unwrap();
    }
    let run = Run::open(&writer.finish(START_MS).unwrap()).unwrap();
    let report = Report::of(&[&run], &Options { all_published: false, ..Options::default() });
    let chart = report.waterfalls.iter().find(|c| c.title.ends_with("a connection, step by step")).unwrap();
    let Kind::Waterfall(waterfall) = &chart.kind else { panic!() };
    let steps: Vec<&str> = waterfall.bars[0].stages.iter().map(|s| s.0.as_str()).collect();
    assert_eq!(steps, ["create", "req_to_rep", "rtu", "first_byte", "disconnect", "destroy"]);
    let ours = run.records.iter().filter(|r| r.row.get("steps_ns").is_some_and(|s| !s.is_null()));
    let mut rows: Vec<_> = ours.map(|r| &r.row).collect();
    assert!(rows.len() > waterfall.bars.len(), "a row of one thread stands in several tables");
    rows.dedup();
    assert_eq!(rows.len(), waterfall.bars.len());
    // Rightly below 1: what is being closed is in flight, too. None of these rows is wrong.
    let badges = report.tables.iter().flat_map(|t| &t.groups).flat_map(|g| &g.rows).flat_map(|r| &r.badges);
    assert!(badges.clone().all(|b| b.text != "Little's law off"), "{:?}", badges.collect::<Vec<_>>());
}

#[test]
fn figures_of_others_are_shown_as_they_print_them() {
    let report = Report::of(&[], &Options::default());
    let html = page(&report);
    for (text, rounded) in
        [("172.6", "173 "), ("1.144 us", "1.14 us"), ("1,003K", "1.00M"), ("0.993 us", "993 ns")]
    {
        assert!(html.contains(&format!(">{text}<")), "{text} in a cell");
        assert!(!html.contains(&format!(">{rounded}<")), "{rounded}");
    }
    let charts: Vec<&barewire_report::chart::Chart> = report.charts().collect();
    let threads = charts.iter().find(|c| c.id == "t-rc-threads-by-threads").unwrap();
    assert!(threads.table().rows.iter().any(|r| r[3] == "172.6"), "{:?}", threads.table().rows);
    assert!(threads.standalone().contains("1 threads: 172.6"), "the tip");
    assert!(text::markdown(&report, "").contains("| 1.144 us |"));
    // What differs between the columns of both is said where the table says how it was taken.
    assert!(html.contains("time a connection: published: one second divided by 197"));
}

#[test]
fn whoever_has_no_mouse_gets_it_all() {
    let (_dir, _, report) = report();
    let html = page(&report);
    let all = tags(html.split_once("<body>").unwrap().1.split_once("<script>").unwrap().0);
    let mut level = 1;
    for tag in all.iter().filter(|t| t.starts_with("<h") && t.as_bytes()[2].is_ascii_digit()) {
        let next = usize::from(tag.as_bytes()[2] - b'0');
        assert!(next <= level + 1, "from h{level} to {tag}");
        level = next;
    }
    for tag in all.iter().filter(|t| t.contains("class=\"wide-box\"")) {
        assert!(tag.contains("tabindex=\"0\"") && tag.contains("aria-label=\""), "{tag}");
    }
    let charts: Vec<_> = all.iter().filter(|t| t.contains("class=\"chart ")).collect();
    assert!(charts.len() > 10);
    for tag in charts {
        assert!(
            tag.contains("role=\"group\" aria-roledescription=\"chart\"") && !tag.contains("role=\"img\""),
            "{tag}"
        );
    }
    assert!(report.charts().all(|c| c.standalone().contains("role=\"img\"")));
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
        // What stands between quotes is text: names of attributes stand outside.
        let outside: String = lower.split('"').step_by(2).collect();
        assert!(
            !lower.starts_with("<script") && !lower.starts_with("<img") && !outside.contains(" onerror="),
            "{tag}"
        );
        assert!(!outside.contains(" src="), "{tag}");
        assert!(!outside.contains(" style="), "{tag}");
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
    // A bar ends a cell, and nothing outside of tables.
    assert!(markdown.contains("\\|") && !markdown.lines().any(|l| !l.starts_with('|') && l.contains("\\|")));
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
    let (mut documents, mut folders) = (0, 0);
    for entry in fs::read_dir(&folder).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        // A record is a run folder, or documents of `bench --json` beside their text.
        if entry.path().join("manifest.json").exists() {
            assert_tells(&Run::open(&entry.path()).unwrap(), &entry.path());
            folders += 1;
            continue;
        }
        for file in fs::read_dir(entry.path()).unwrap().flatten() {
            let path = file.path();
            if path.extension().is_none_or(|e| e != "json") {
                continue;
            }
            // The machine of a record whose figures stand in its text.
            if path.file_name().is_some_and(|name| name == "fingerprint.json") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let document =
                import::document(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(!document.rows.is_empty(), "{}", path.display());
            assert_same_in_one_array(&text, &document, &path);
            let dir = tempfile::tempdir().unwrap();
            let mut start = start("recorded");
            start.fingerprint = document.fingerprint;
            let mut writer = RunWriter::create(dir.path(), &start).unwrap();
            for row in document.rows {
                row.write(&mut writer).unwrap();
            }
            assert_tells(&Run::open(&writer.finish(START_MS).unwrap()).unwrap(), &path);
            documents += 1;
        }
    }
    assert!(documents >= 20, "{documents}");
    assert!(folders > 0);
}

/// The same rows in the one array of the present schema are the same experiments.
fn assert_same_in_one_array(text: &str, read: &import::Document, path: &Path) {
    let mut whole: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
    let rows = import::rows(whole.clone());
    whole.retain(|key, _| ["fingerprint", "control", "hardware", "started_unix_ms"].contains(&key.as_str()));
    whole.insert("schema".to_owned(), import::SCHEMA.into());
    whole.insert("rows".to_owned(), rows.into_iter().map(serde_json::Value::from).collect());
    let again = import::document(&serde_json::Value::from(whole).to_string()).unwrap();
    let keys = |document: &import::Document| -> Vec<String> {
        let mut keys: Vec<String> = document.records().iter().map(|record| identity(record).key).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&again), keys(read), "{}", path.display());
}

/// The page of `run` has a cell with a figure in at least half of its rows.
fn assert_tells(run: &Run, path: &Path) {
    assert!(run.fingerprint().is_some(), "{}", path.display());
    let report = Report::of(&[run], &Options { all_published: false, ..Options::default() });
    let shown = report.tables.iter().flat_map(|t| &t.groups).flat_map(|g| &g.rows);
    let shown = shown.filter(|r| matches!(r.source, Source::Measured | Source::Baseline));
    let told = shown.filter(|r| r.cells.iter().any(|c| c.text != "-")).count();
    let records = run.records.len();
    assert!(told > 0 && told >= records / 2, "{}: {told} of {records}", path.display());
    assert!(page(&report).contains("</html>"));
}

/// Two engines beside one bridge: each row and each sentence says whose it is.
#[test]
fn the_opening_pictures_tell_our_engines_apart() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../benches/runs/2026-11-26-evening");
    let run = Run::open(&folder).unwrap();
    let report = Report::of(&[&run], &Options::default());
    let switch = report.openings.iter().find(|o| o.chart.title.starts_with("P4 switch")).unwrap();
    let Kind::Forest(forest) = &switch.chart.kind else { panic!("{:?}", switch.chart.kind) };
    let mut names: Vec<&str> = forest.rows.iter().map(|r| r.name.as_str()).collect();
    assert!(names.len() > 1, "{names:?}");
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]), "{names:?}");
    for engine in ["barewire native over xdp", "barewire kernel over xdp"] {
        assert!(switch.sentence.contains(engine), "{}", switch.sentence);
    }
}

/// The picture is of our fastest row with one request in flight: the daemon and many in flight are said beside it.
#[test]
fn what_the_first_picture_leaves_out_is_said() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../benches/runs/2026-11-26-night");
    let run = Run::open(&folder).unwrap();
    let sentence = &Report::of(&[&run], &Options::default()).openings[0].sentence;
    for (start, end) in [
        ("(the fastest of ", " rows of barewire)"),
        (
            "Through the daemon: barewire daemon-park over xdp is 1.42 ",
            " times slower than kernel-tcp blocking",
        ),
        ("With 32 in flight, by messages a second, barewire", " times slower than kernel-tcp-batch-spin"),
    ] {
        let from = sentence.find(start).unwrap_or_else(|| panic!("{start}: {sentence}"));
        assert!(sentence[from..].contains(end), "{end}: {sentence}");
    }
}

#[test]
fn the_page_opens_with_a_picture_and_a_verdict_of_each_program() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../benches/runs/2026-11-25-demo");
    let run = Run::open(&folder).unwrap();
    let report = Report::of(&[&run], &Options::default());
    let titles: Vec<&str> =
        report.openings.iter().map(|o| o.chart.title.split(':').next().unwrap()).collect();
    assert_eq!(titles, ["Messages", "P4 switch", "Market data", "RDMA"]);
    for opening in &report.openings {
        assert!(!opening.chart.is_empty());
        // Whoever claims to be faster or slower says within which interval.
        let claims = opening.sentence.matches(" times ").count();
        assert_eq!(claims, opening.sentence.matches(") times ").count(), "{}", opening.sentence);
    }
    assert!(
        report.openings[0].sentence.contains("kernel-tcp blocking over veth"),
        "{}",
        report.openings[0].sentence
    );
    let html = page(&report);
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("id=\"openings\"") < at("Before believing anything below"), "first the pictures");
    assert!(
        at("Before believing anything below") < at("<table class=\"stack\""),
        "then what to know, then tables"
    );
}

#[test]
fn what_a_row_costs_and_that_it_was_overloaded_is_told_and_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(dir.path(), &start("x")).unwrap();
    for (offered, carried, overloaded, void) in [
        (1e4, 1e4, None, None),
        (2e4, 1.5e4, Some("0.4 % unanswered"), None),
        (3e4, 2e4, None, Some("the generator lagged")),
    ] {
        let value = json!({ "system": "barewire", "mode": "embedded", "loop": "open", "size": 64, "offered_per_s": offered,
            "rate_per_s": carried, "samples": 50_000, "response_ns": { "p50": 2_000, "p99": 9_000 }, "overloaded": overloaded, "void": void,
            "cpu_ns_per_op": 9_500.0, "cpu": { "client_ns": 5e3, "server_ns": 4e3, "softirq_ns": 500.0, "user_ns": 5e3, "system_ns": 4e3,
            "cores": 1.94 } });
        writer.add(Record::new("m", "msg", row(value)), &[]).unwrap();
    }
    let latency = json!({ "system": "barewire", "mode": "embedded", "over": "xdp", "size": 1024, "window": 1, "loop": "closed",
        "samples": 500_000, "rtt_ns": { "p50": 4_100, "p99": 9_000, "p99_9": 99_000 }, "rate_per_s": 2e5, "cpu_ns_per_op": 7_000.0,
        "runs": [{ "p50_ns": 4_000, "p99_ns": 8_000, "p99_9_ns": 20_000 }, { "p50_ns": 5_000, "p99_ns": 7_000, "p99_9_ns": 50_000 },
            { "p50_ns": 4_500, "p99_ns": 9_000, "p99_9_ns": 30_000 }] });
    writer.add(Record::new("m", "machnet", row(latency)), &[]).unwrap();
    let run = Run::open(&writer.finish(START_MS).unwrap()).unwrap();
    let report = Report::of(&[&run], &Options { all_published: false, ..Options::default() });
    let of = |id: &str| report.tables.iter().find(|t| t.table_id == id).unwrap();
    for (id, cpu) in [("msg", "9.50 us"), ("machnet", "7.00 us")] {
        let table = of(id);
        let at = table.columns.iter().position(|c| c == "CPU time an operation").unwrap();
        let rows: Vec<_> = table.groups.iter().flat_map(|g| &g.rows).collect();
        assert!(rows.iter().all(|r| r.cells.len() == table.columns.len()), "{id}");
        assert!(
            rows.iter().any(|r| r.source == Source::Measured && r.cells[at].text == cpu),
            "{id}: {rows:?}"
        );
    }
    // Each percentile is the median of the runs, with the least and the most of them.
    let ours =
        of("machnet").groups.iter().flat_map(|g| &g.rows).find(|r| r.source == Source::Measured).unwrap();
    let shown =
        |at: usize| format!("{} ({})", ours.cells[at].text, ours.cells[at].spread.as_deref().unwrap());
    let expected = [
        "4.50 us (4.00 us..5.00 us in 3)",
        "8.00 us (7.00 us..9.00 us in 3)",
        "30.0 us (20.0 us..50.0 us in 3)",
    ];
    assert_eq!([shown(0), shown(1), shown(2)], expected);
    assert!(ours.badges.iter().all(|b| !b.why.contains("of all runs together")), "{:?}", ours.badges);
    let mut thin = run.clone();
    let last = thin.records.len() - 1;
    for each in thin.records[last].row["runs"].as_array_mut().unwrap() {
        each["p99_9_ns"] = json!(null);
    }
    let thin = Report::of(&[&thin], &Options { all_published: false, ..Options::default() });
    let rows =
        thin.tables.iter().filter(|t| t.table_id == "machnet").flat_map(|t| &t.groups).flat_map(|g| &g.rows);
    let said: Vec<&str> = rows.flat_map(|r| &r.badges).map(|b| b.why.as_str()).collect();
    assert!(said.iter().any(|why| why.starts_with("round trip p99.9: of all runs together")), "{said:?}");
    let marks =
        |row: usize| of("msg").groups[0].rows[row].badges.iter().map(|b| b.text.as_str()).collect::<Vec<_>>();
    assert!(marks(0).contains(&"1.9 cores busy") && !marks(0).contains(&"overloaded"), "{:?}", marks(0));
    assert!(marks(1).contains(&"overloaded") && !marks(1).contains(&"void"), "{:?}", marks(1));
    // The knee is seen: an overloaded row is a hollow mark, a void one is none.
    let knee = report.charts().find(|c| c.title.starts_with("Response time by offered load")).unwrap();
    let Kind::Lines(lines) = &knee.kind else { panic!() };
    let points: Vec<(f64, bool)> = lines.series[0].points.iter().map(|p| (p.x, p.hollow)).collect();
    assert_eq!(points, [(1e4, false), (2e4, true)]);
    assert!(knee.standalone().contains(" hollow\""), "a hollow mark");
}

#[test]
fn documents_that_are_none_are_refused() {
    for (text, expected) in [
        ("[1]", "not a bench document: expected an object"),
        ("{", "not JSON"),
        ("{}", "key `schema` is expected"),
        (r#"{"schema":3,"rows":[]}"#, "bench document of schema 3; this build reads schemas 1 and 2"),
        (r#"{"schema":2,"switch_rows":[]}"#, "`rows` is not there"),
        (r#"{"schema":1}"#, "none of rows, switch_rows"),
        (r#"{"schema":1,"rows":{}}"#, "`rows`: expected an array"),
        (r#"{"schema":1,"rows":[3]}"#, "`rows[0]`: expected an object"),
    ] {
        let error = import::document(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
