//! The published tables are those of the reports: row by row and cell by cell, in the order of their texts.

use barewire_report::published::{PublishedRow, PublishedTable, table, tables};
use std::fs;
use std::path::PathBuf;

/// The texts of the reports in their order: `None` where they are not.
fn texts() -> Option<Vec<String>> {
    let entries = fs::read_dir(barewire_testing::shared("seeds")?).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    let texts: Vec<String> = paths.iter().map(|p| fs::read_to_string(p).unwrap()).collect();
    assert_eq!(texts.len(), 5, "{paths:?}");
    Some(texts)
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

fn of(id: &str) -> &'static PublishedTable {
    table(id).unwrap_or_else(|| panic!("no table {id}"))
}

/// The row's figures as they are printed; `XXX` where it has none.
fn printed(row: &PublishedRow) -> Vec<&'static str> {
    row.values.iter().map(|v| v.map_or("XXX", |p| p.text)).collect()
}

#[test]
fn machnets_report() {
    let Some(texts) = texts() else { return };
    let mut host = (String::new(), String::new());
    let mut found = Vec::new();
    for line in texts[0].lines().filter(|l| l.starts_with('|')) {
        let cells = cells(line);
        let Some((experiment, times)) = cells.get(2).and_then(|c| c.split_once(": ")) else { continue };
        // The second line of a host has its system in the place of its name, and no card.
        if experiment == "E1" {
            host = (cells[0].to_owned(), cells[1].to_owned());
        }
        let system = (experiment == "E2").then(|| cells[0].trim_matches('*').to_owned());
        let figures: Vec<String> = if times == "XXX" {
            vec!["XXX".to_owned(); 3]
        } else {
            times.split(", ").map(str::to_owned).collect()
        };
        let note = cells.get(4).copied().unwrap_or_default().to_owned();
        found.push((experiment.to_owned(), host.clone(), system, figures, cells[3].to_owned(), note));
    }
    let t = of("machnet");
    assert_eq!((found.len(), t.rows.len()), (16, 16));
    for (case, experiment) in ["E1", "E2"].into_iter().enumerate() {
        let theirs: Vec<_> = found.iter().filter(|f| f.0 == experiment).collect();
        let ours: Vec<_> = t.rows.iter().filter(|r| r.case == case).collect();
        assert_eq!(theirs.len(), ours.len());
        for ((_, (server, card), system, times, rate, note), row) in theirs.into_iter().zip(ours) {
            let name = row.system.split(',').next().unwrap();
            assert!(server.starts_with(name) && row.hardware == card, "{server}, {card}: {row:?}");
            if let Some(system) = system.as_ref().filter(|s| *s != "XXX") {
                assert!(row.system.ends_with(system.as_str()), "{system}: {row:?}");
            }
            let got = printed(row);
            assert_eq!(
                (&got[..3], got[3]),
                (&times.iter().map(String::as_str).collect::<Vec<_>>()[..], rate.as_str())
            );
            let window = if case == 0 {
                1.0
            } else if note.contains("--msg_window 8") {
                8.0
            } else {
                32.0
            };
            assert_eq!(row.window, Some(window), "{row:?}");
        }
    }
}

#[test]
fn machnets_page() {
    let Some(texts) = texts() else { return };
    for (id, heading) in
        [("machnet-page.cloud", "Results: Cloud VMs"), ("machnet-page.bare-metal", "Results: Bare Metal")]
    {
        let (_, rest) = texts[3].split_once(heading).expect(heading);
        let rest = rest.split("Results:").next().unwrap();
        let mut card = String::new();
        let mut found: Vec<(usize, String, Vec<&str>)> = Vec::new();
        for line in rest.lines().filter(|l| l.starts_with('|')) {
            let cells = cells(line);
            // Cells of a second line stand further to the left: they are counted from the name of the test.
            let Some(at) = cells.iter().position(|c| ["Latency", "Throughput"].contains(c)) else { continue };
            let case = usize::from(cells[at] == "Throughput");
            if case == 0 {
                card = cells[..at].join(" ");
            }
            found.push((case, card.clone(), cells[at + 1..at + 5].to_vec()));
        }
        let t = of(id);
        assert_eq!(found.len(), t.rows.len(), "{id}");
        for case in [0, 1] {
            let theirs: Vec<_> = found.iter().filter(|f| f.0 == case).collect();
            let ours: Vec<_> = t.rows.iter().filter(|r| r.case == case).collect();
            assert_eq!(theirs.len(), ours.len(), "{id}");
            for ((_, card, figures), row) in theirs.into_iter().zip(ours) {
                let word = row.hardware.split(',').next().unwrap();
                assert!(card.contains(word), "{card}: {row:?}");
                assert_eq!(printed(row), *figures, "{id} {card}");
            }
        }
    }
}

#[test]
fn bmv2s_throughput() {
    let Some(texts) = texts() else { return };
    let t = of("bmv2");
    let row = &t.rows[0];
    let [mbps, packets] = printed(row)[..] else { panic!("{row:?}") };
    assert!(texts[1].contains(&format!("Median throughput is {mbps}\n")), "{mbps}");
    assert!(texts[1].contains(&format!("around 1Gbps, or {packets}.")), "{packets}");
    let mut runs: Vec<&str> = texts[1]
        .lines()
        .filter_map(|l| l.strip_suffix(" Mbps"))
        .filter(|l| l.parse::<u32>().is_ok())
        .collect();
    runs.sort_unstable();
    assert!(t.method.contains(&format!("({} Mbps)", runs.join(", "))), "{runs:?}");
    assert!(texts[1].contains("(`c4.2xlarge`)") && row.hardware.contains("c4.2xlarge"));
}

#[test]
fn onixs_benchmark() {
    let Some(texts) = texts() else { return };
    let statistics = ["Minimal", "Median", "Mean", "95%", "99%", "Maximal"];
    for (id, heading) in [
        ("onixs.app-5ms", "Application-Level Only With 5 Milliseconds Delay Between Packets"),
        ("onixs.net-5ms", "With Network/Kernel-Layer And 5 Milliseconds Delay Between Packets"),
        ("onixs.app-0", "Application-Level Only Without Any Delay Between Packets"),
        ("onixs.net-0", "With Network/Kernel-Layer And Without Any Delay Between Packets"),
    ] {
        let (_, rest) = texts[2].split_once(&format!("\n{heading}\n")).expect(heading);
        let lines: Vec<&str> = rest.lines().filter(|l| !l.is_empty()).collect();
        assert!(lines[0].ends_with("Latency (μs)"), "{}", lines[0]);
        let t = of(id);
        let engines: Vec<String> = t
            .rows
            .iter()
            .map(|r| r.system.replace(" (ef_vi)", "").replace(" + OpenOnload", "+Openonload"))
            .collect();
        assert_eq!(lines[1], engines.join(" "), "{id}");
        for (column, statistic) in statistics.iter().enumerate() {
            let ours: Vec<&str> = t
                .rows
                .iter()
                .map(|r| printed(r)[column].strip_suffix(" us").expect("microseconds"))
                .collect();
            assert_eq!(lines[2 + column], format!("{statistic} {}", ours.join(" ")), "{id}");
        }
    }
}

#[test]
fn mitosis_connections() {
    let Some(texts) = texts() else { return };
    let text = &texts[4];
    let section = |heading: &str| {
        let (_, rest) = text.split_once(&format!("\n### {heading}\n")).expect(heading);
        rest.split("\n### ").next().unwrap()
    };
    let t = of("rc.latency");
    let [latency, rate] = printed(&t.rows[0])[..] else { panic!() };
    let said = section("Latency");
    assert!(
        said.contains(&format!("average throughput is **{rate}**. The average latency is **{latency}**."))
    );
    for (id, heading, hosts) in [
        ("rc.latency", "Latency", "val01 and val04"),
        ("rc.threads", "Throughput with Threads", "val01 and val04"),
        ("rc.machines", "Throughput with Machines", "val01 as the server, val00/val04-val10 as the clients"),
        ("rc.dual-nic", "Throughput with Dual NICs", ""),
    ] {
        let (t, said) = (of(id), section(heading));
        let rows: Vec<Vec<&str>> = said
            .lines()
            .filter(|l| l.starts_with("| ") && !l.contains("throughput") && !l.contains("---"))
            .map(cells)
            .collect();
        if id != "rc.latency" {
            assert_eq!(rows.len(), t.rows.len(), "{id}");
            for (theirs, ours) in rows.iter().zip(t.rows) {
                // `1 thread`, `8 client machines`: the text's first column; a star is a footnote.
                let count = t.cases[ours.case].label.split(' ').next().unwrap();
                assert_eq!(theirs[0].trim_end_matches('*'), count, "{id}");
                assert_eq!(theirs[1], printed(ours)[0], "{id} {count}");
            }
        }
        // Machines and their system stand where the section names them, and nowhere else.
        assert!(said.contains(hosts), "{id}");
        for row in t.rows {
            assert_eq!(row.hardware.contains("val01"), said.contains("val01 "), "{id}");
            assert_eq!(row.hardware.contains("Linux 4.15.0-46"), said.contains("Linux 4.15.0-46"), "{id}");
            assert!(hosts.is_empty() == row.hardware.contains("not told"), "{id}");
        }
    }
}

/// No table without a test above.
#[test]
fn every_table_is_compared() {
    let compared = ["machnet", "bmv2", "onixs.", "rc."];
    assert!(tables().all(|t| compared.iter().any(|c| t.id.starts_with(c))));
    assert_eq!(tables().map(|t| t.rows.len()).sum::<usize>(), 52);
}

/// What was compared with the texts stands in a file: where the texts are not, no figure of a table changes unseen.
#[test]
fn the_tables_are_as_they_were_compared() {
    let mut all = String::new();
    for t in tables() {
        for row in t.rows {
            let values =
                row.values.iter().map(|v| v.map_or("-".to_owned(), |p| format!("{} = {}", p.text, p.value)));
            let line = [t.id, t.cases[row.case].label, row.system, row.hardware].join(" | ");
            all.push_str(&format!("{line} | {}\n", values.collect::<Vec<_>>().join(" | ")));
        }
    }
    let kept = include_str!("published.txt");
    for (ours, theirs) in all.lines().zip(kept.lines()) {
        assert_eq!(ours, theirs, "tests/published.txt");
    }
    assert_eq!(all, kept, "tests/published.txt:\n{all}");
}
