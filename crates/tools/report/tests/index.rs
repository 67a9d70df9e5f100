//! The index: found by every key, made again from the folders, and never another program's file.

use barewire_report::index::{Index, IndexError, Query};
use barewire_report::run::{HardwareClass, Record, Run, RunStart, RunWriter};
use serde_json::{Map, json};
use std::fs;
use std::path::{Path, PathBuf};

const DAY_MS: u64 = 86_400_000;

fn run(parent: &Path, label: &str, day: u64, commit: Option<&str>, tables: &[&str]) -> PathBuf {
    let start = RunStart {
        label: label.to_owned(),
        started_unix_ms: 20_000 * DAY_MS + day * DAY_MS,
        commit: commit.map(str::to_owned),
        command: "barewire".to_owned(),
        hardware: HardwareClass::OneMachine,
        config: json!(null),
        fingerprint: json!(null),
    };
    let mut writer = RunWriter::create(parent, &start).unwrap();
    for table in tables {
        writer.add(Record::new("x", table, Map::new()), &[]).unwrap();
    }
    writer.finish(start.started_unix_ms + 5).unwrap()
}

fn labels(index: &Index, query: &Query) -> Vec<String> {
    index.find(query).into_iter().map(|e| e.label).collect()
}

#[test]
fn runs_are_found_by_every_key() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    run(&runs, "quick", 1, Some("abc123"), &["machnet", "machnet", "bmv2"]);
    run(&runs, "full_100%", 2, Some("abd999"), &["machnet"]);
    run(&runs, "Full night", 3, None, &["rc.threads"]);
    let broken = run(&runs, "broken", 4, None, &["bmv2"]);
    fs::write(broken.join("rows.jsonl"), "x").unwrap();
    fs::create_dir(runs.join("no run")).unwrap();

    let path = dir.path().join("index.json");
    let (index, rebuilt) = Index::rebuild(&path, &runs).unwrap();
    assert_eq!((rebuilt.indexed, rebuilt.refused.len()), (3, 1));
    assert!(rebuilt.refused[0].1.to_string().contains("when the run ended"));
    let all = index.find(&Query::default());
    assert_eq!(
        all.iter().map(|e| e.label.as_str()).collect::<Vec<_>>(),
        ["Full night", "full_100%", "quick"]
    );
    assert_eq!(all[2].tables, [("bmv2".to_owned(), 1), ("machnet".to_owned(), 2)]);
    assert_eq!((all[2].records, all[2].hardware.as_str()), (3, "one-machine"));
    let with = |change: &dyn Fn(&mut Query)| {
        let mut query = Query::default();
        change(&mut query);
        labels(&index, &query)
    };
    assert_eq!(with(&|q| q.label = Some("FULL".into())), ["Full night", "full_100%"]);
    assert_eq!(with(&|q| q.label = Some("100%".into())), ["full_100%"]);
    assert_eq!(with(&|q| q.label = Some("l_n".into())), Vec::<String>::new());
    assert_eq!(with(&|q| q.label = Some("'; DROP TABLE runs; --".into())), Vec::<String>::new());
    assert_eq!(with(&|q| q.table = Some("machnet".into())), ["full_100%", "quick"]);
    assert_eq!(with(&|q| q.commit = Some("ab".into())), ["full_100%", "quick"]);
    assert_eq!(with(&|q| q.from_unix_ms = Some(20_002 * DAY_MS)), ["Full night", "full_100%"]);
    assert_eq!(with(&|q| q.before_unix_ms = Some(20_002 * DAY_MS)), ["quick"]);
    assert_eq!(with(&|q| q.limit = Some(1)), ["Full night"]);
    assert_eq!(index.nearest_label("quik").as_deref(), Some("quick"));
    assert_eq!(index.nearest_table("machnt").as_deref(), Some("machnet"));
    assert_eq!(index.nearest_table("zzzzzzzz"), None);
}

#[test]
fn a_run_is_in_it_once_and_leaves_with_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = run(dir.path(), "quick", 1, None, &["machnet"]);
    let mut index = Index::open(&dir.path().join("index.json")).unwrap();
    let read = Run::open(&folder).unwrap();
    index.add(&read).unwrap();
    index.add(&read).unwrap();
    let found = index.find(&Query::default());
    assert_eq!((found.len(), found[0].tables[0].1), (1, 1));
    assert_eq!(index.forget_missing().unwrap(), 0);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(index.forget_missing().unwrap(), 1);
    assert!(index.find(&Query::default()).is_empty());
}

#[test]
fn an_update_reads_what_is_new_and_what_had_not_ended() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let first = run(&runs, "first", 1, None, &["machnet"]);
    let mut index = Index::open(&dir.path().join("index.json")).unwrap();
    let done = index.update(&runs).unwrap();
    assert_eq!((done.indexed, done.forgotten, done.refused.len()), (1, 0, 0));
    run(&runs, "second", 2, None, &["bmv2"]);
    // One that is still being written.
    let start = RunStart {
        label: "third".to_owned(),
        started_unix_ms: 20_003 * DAY_MS,
        commit: None,
        command: String::new(),
        hardware: HardwareClass::Unknown,
        config: json!(null),
        fingerprint: json!(null),
    };
    let mut third = RunWriter::create(&runs, &start).unwrap();
    assert_eq!(index.update(&runs).unwrap().indexed, 2);
    assert_eq!(labels(&index, &Query::default()), ["third", "second", "first"]);
    third.add(Record::new("x", "machnet", Map::new()), &[]).unwrap();
    third.finish(start.started_unix_ms + 9).unwrap();
    assert_eq!(index.update(&runs).unwrap().indexed, 1);
    let with = Query { table: Some("machnet".into()), ..Query::default() };
    assert_eq!(labels(&index, &with), ["third", "first"]);
    assert_eq!(index.find(&with)[0].hardware, "unknown");
    fs::remove_dir_all(&first).unwrap();
    let done = index.update(&runs).unwrap();
    assert_eq!((done.indexed, done.forgotten), (0, 1));
    assert!(matches!(index.update(&dir.path().join("none")), Err(IndexError::Io { .. })));
    assert_eq!(
        labels(&index, &Query::default()),
        ["third", "second"],
        "what could not be read takes nothing away"
    );
    // A folder that was copied with its index: the same runs, each once, where the copy is.
    let copy = dir.path().join("copy");
    run(&copy, "second", 2, None, &["bmv2"]);
    let done = index.update(&copy).unwrap();
    assert_eq!((done.indexed, done.forgotten), (1, 2));
    let all = index.find(&Query::default());
    assert!(all.len() == 1 && all[0].path.starts_with(copy.canonicalize().unwrap()), "{all:?}");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    fs::create_dir(&runs).unwrap();
    let path = dir.path().join("other");
    fs::write(&path, "a text of more than a hundred bytes, ".repeat(40)).unwrap();
    let theirs = dir.path().join("theirs.json");
    fs::write(&theirs, r#"{"runs": []}"#).unwrap();
    for (path, what) in [(&path, "no JSON"), (&theirs, "another program's document")] {
        let before = fs::read(path).unwrap();
        // Neither by opening nor by a rebuild.
        for error in [Index::open(path).unwrap_err(), Index::rebuild(path, &runs).unwrap_err()] {
            assert!(matches!(&error, IndexError::Other { .. }), "{error}");
            assert!(
                error.to_string().ends_with(&format!("is not a run index: {what}; it was not changed")),
                "{error}"
            );
        }
        assert_eq!(fs::read(path).unwrap(), before);
    }

    let old = dir.path().join("old.json");
    for (text, what) in [
        (r#"{"barewire_index": 77}"#, "version 77"),
        (r#"{"barewire_index": 2, "runs": [7]}"#, "not as it was written"),
    ] {
        fs::write(&old, text).unwrap();
        let error = Index::open(&old).unwrap_err();
        assert!(matches!(&error, IndexError::Foreign { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains(what) && error.ends_with("rebuild it from the run folders"), "{error}");
    }
    // A rebuild is the remedy.
    let (index, rebuilt) = Index::rebuild(&old, &runs).unwrap();
    assert_eq!((index.find(&Query::default()).len(), rebuilt.indexed), (0, 0));
    // Written once, whole, and read again.
    run(&runs, "first", 1, None, &["machnet"]);
    let (index, _) = Index::rebuild(&old, &runs).unwrap();
    assert_eq!(Index::open(&old).unwrap().find(&Query::default()), index.find(&Query::default()));
    let left = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().extension() == Some("part".as_ref()));
    assert_eq!(left.count(), 0);
    let nowhere = Index::open(&dir.path().join("no/where")).unwrap().update(&runs);
    assert!(matches!(nowhere, Err(IndexError::Io { doing: "writing", .. })), "{nowhere:?}");
}
