//! `barewire report`, `report list`, `bench compare`, on documents and folders whose contents are known. No test here needs root.

mod common;

use barewire_report::run::{HardwareClass, Record, RunStart, RunWriter};
use common::run;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("barewire-report-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// A document with one row of connections for each of `rates`, five runs each.
    fn document(&self, name: &str, rates: &[f64], more: Value) -> String {
        let rows: Vec<Value> = (1..).zip(rates).map(|(threads, rate)| row(threads, *rate)).collect();
        let mut document =
            json!({ "schema": 1, "fingerprint": { "machine": { "cpu_model": "one" } }, "rows": rows });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fs::write(self.0.join(name), document.to_string()).unwrap();
        self.path(name)
    }

    /// A run folder with rows of `tables`, begun on a day of November 2026.
    fn run(&self, label: &str, day: u64, tables: &[&str]) {
        let start = RunStart {
            label: label.to_owned(),
            started_unix_ms: 1_793_491_200_000 + (day - 1) * 86_400_000,
            commit: Some("0123456789ab".to_owned()),
            command: "barewire".to_owned(),
            hardware: HardwareClass::OneMachine,
            config: json!(null),
            fingerprint: json!(null),
        };
        let mut writer = RunWriter::create(&self.0, &start).unwrap();
        for table in tables {
            writer.add(Record::new("x", table, Map::new()), &[]).unwrap();
        }
        writer.finish(start.started_unix_ms + 5).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn row(threads: u32, rate: f64) -> Value {
    let runs: Vec<Value> = (0..5).map(|n| json!({ "connections_per_s": rate + f64::from(n) })).collect();
    json!({ "system": "barewire", "mode": "embedded", "over": "mem", "connections_per_s": rate, "window": 1, "teardown": true,
        "live_qps": 0, "hosts": 1, "threads": threads, "nics": 1, "runs": runs })
}

#[test]
fn a_document_is_compared_with_itself() {
    let folder = Folder::new("self");
    let a = folder.document("a.json", &[400.0, 500.0], json!({}));
    let said = run(&["bench", "compare", &a, &a, "--fail-on-regression"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("within noise"), "{}", said.out);
    let said = run(&["report", &a, &a, "--against", &a]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    // Its name is the document's own, and what it does not say is not made up.
    for part in ["A: a.json", "- when: not told", "- between the ends: not told"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    // No picture was written, so none is named.
    assert!(!said.out.contains("!["), "{}", said.out);

    let pictures = folder.path("pictures");
    let text = folder.path("a.md");
    let said = run(&["report", &a, "--charts", &pictures, "--markdown", &text]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let text = fs::read_to_string(text).unwrap();
    let links: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("![")?.split_once("](")).map(|l| l.1).collect();
    assert!(!links.is_empty());
    for link in links {
        let picture = folder.0.join(link.trim_end_matches(')'));
        assert!(link.starts_with("pictures/") && picture.is_file(), "{link}");
    }
}

#[test]
fn a_document_says_when_and_on_what() {
    let folder = Folder::new("told");
    let more = json!({ "hardware": "cloud-vms", "started_unix_ms": 1_795_348_984_123_u64 });
    let a = folder.document("a.json", &[400.0], more);
    let said = run(&["report", &a]);
    for part in ["- when: 2026-11-22 12:03:04 UTC\n", "- between the ends: cloud VMs\n"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    let bad = folder.document("bad.json", &[400.0], json!({ "hardware": "toaster" }));
    let said = run(&["report", &bad]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("\"toaster\" is not known"), "{}", said.err);
}

#[test]
fn the_gate_says_what_it_fails_on() {
    let folder = Folder::new("gate");
    let a = folder.document("a.json", &[400.0, 500.0, 600.0], json!({}));
    let b = folder.document("b.json", &[200.0, 500.0, 600.0], json!({}));
    let compare = |b: &str| run(&["bench", "compare", &a, b, "--fail-on-regression"]);
    let said = compare(&b);
    assert_eq!(said.code, Some(1), "{}", said.err);
    // Which figure, of which row, and by how much; once, though the row stands in three tables.
    let slower: Vec<&str> = said.err.lines().filter(|l| l.contains("slower: ")).collect();
    assert_eq!(slower.len(), 1, "{}", said.err);
    assert!(
        slower[0].contains("barewire embedded over mem") && slower[0].contains(": connections: 0.50"),
        "{slower:?}"
    );

    let change = |name: &str, change: &dyn Fn(&mut Map<String, Value>)| {
        let mut document: Value = serde_json::from_str(&fs::read_to_string(&a).unwrap()).unwrap();
        change(document["rows"][1].as_object_mut().unwrap());
        fs::write(folder.path(name), document.to_string()).unwrap();
        compare(&folder.path(name))
    };
    let void = change("void.json", &|row| _ = row.insert("void".into(), json!("the port was down")));
    assert_eq!(void.code, Some(1), "{}", void.err);
    assert_eq!(void.err.matches("void in B only: the port was down").count(), 1, "{}", void.err);
    let gone = change("gone.json", &|row| _ = row.remove("connections_per_s"));
    assert_eq!(gone.code, Some(1), "{}", gone.err);
    let few = change("few.json", &|row| row["runs"] = json!([{ "connections_per_s": 500.0 }]));
    assert_eq!(few.code, Some(0), "{}", few.err);
    assert!(few.err.contains("unknown: ") && few.err.contains("cannot show a difference"), "{}", few.err);
}

#[test]
fn runs_are_listed_by_what_they_are() {
    let folder = Folder::new("list");
    folder.run("quick", 1, &["machnet", "machnet", "bmv2"]);
    folder.run("night", 20, &["rc.threads"]);
    let place = folder.0.display().to_string();
    let list = |args: &[&str]| {
        let said = run(&[&["report", "list", &place], args].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        said
    };
    let all = list(&[]).out;
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.len(), 2, "{all}");
    assert!(lines[0].starts_with("2026-11-20 00:00:00 UTC  night  one-machine  rc.threads 1  "), "{all}");
    assert!(lines[1].contains("bmv2 1, machnet 2") && lines[1].ends_with("-quick"), "{all}");
    for (args, label) in [
        (&["--table", "machnet"][..], "quick"),
        (&["--label", "NIGHT"], "night"),
        (&["--since", "2026-11-02"], "night"),
        (&["--rebuild", "--table", "bmv2"], "quick"),
    ] {
        let out = list(args).out;
        assert_eq!((out.lines().count(), out.contains(label)), (1, true), "{args:?}: {out}");
    }
    // A run that comes later is found: the folder is the truth.
    folder.run("later", 21, &[]);
    let document: Value = serde_json::from_str(&list(&["--json"]).out).unwrap();
    let labels: Vec<&str> =
        document["runs"].as_array().unwrap().iter().map(|r| r["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["later", "night", "quick"]);
    assert_eq!(document["runs"][2]["tables"], json!({ "bmv2": 1, "machnet": 2 }));
    // The path that is told can be given to `report`.
    let said = run(&["report", document["runs"][2]["path"].as_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = list(&["--table", "machnt"]);
    assert!(said.out.is_empty() && said.err.contains("did you mean `--table machnet`?"), "{}", said.err);

    let said = run(&["report", "list", &place, "--since", "yesterday"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    let said = run(&["report", "list", &folder.path("nowhere")]);
    assert!(said.code == Some(1) && said.err.contains("hint: "), "{}", said.err);
    // Neither a run nor a list.
    assert_eq!(run(&["report"]).code, Some(2));
    // What is no index is left alone, rebuild or not.
    fs::write(folder.path("index.json"), "my own notes, of more than a hundred bytes ".repeat(30)).unwrap();
    for more in [&[][..], &["--rebuild"]] {
        let said = run(&[&["report", "list", &place][..], more].concat());
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.err.contains("is not a run index"), "{}", said.err);
    }
    assert!(fs::read_to_string(folder.path("index.json")).unwrap().starts_with("my own notes"));
}
