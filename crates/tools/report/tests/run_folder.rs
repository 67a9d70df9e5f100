//! Run folders: what is written comes back, nothing is overwritten, and garbage is refused with its place.

use barewire_measure::{Fingerprint, Histogram};
use barewire_report::compare::{Method, compare};
use barewire_report::report::{Options, Report};
use barewire_report::run::{HardwareClass, Record, Role, Run, RunError, RunStart, RunWriter};
use barewire_report::{html, text};
use barewire_testing::{Needs, skip};
use proptest::prelude::*;
use serde_json::{Map, json};
use std::fs;
use std::path::{Path, PathBuf};

/// 22 November 2026, 12:03:04.123.
const START_MS: u64 = 1_795_348_984_123;

fn start(label: &str) -> RunStart {
    RunStart {
        label: label.to_owned(),
        started_unix_ms: START_MS,
        commit: Some("0123456789ab".to_owned()),
        command: "barewire bench msg".to_owned(),
        hardware: HardwareClass::OneMachine,
        config: json!({ "runs": 3 }),
        fingerprint: serde_json::to_value(Fingerprint::collect()).unwrap(),
    }
}

fn row() -> Map<String, serde_json::Value> {
    serde_json::from_value(json!({ "system": "barewire", "window": 1, "rate_per_s": 0.1 })).unwrap()
}

fn histogram(ns: u64) -> Histogram {
    let mut h = Histogram::new();
    h.record_n(ns, 1_000);
    h
}

/// A run with two rows, of which the first has histograms of two runs.
fn written(parent: &Path) -> PathBuf {
    let mut writer = RunWriter::create(parent, &start("quick")).unwrap();
    let mut record = Record::new("msg", "machnet", row());
    record.axes.insert("window".into(), 1.0.into());
    record.axes.insert("over".into(), "xdp".into());
    writer.add(record, &[("rtt", &histogram(1_000)), ("rtt", &histogram(3_000))]).unwrap();
    writer.add(Record::missing("msg", "rc.threads", "no RDMA card"), &[]).unwrap();
    writer.attach("host-a.log", b"hello\n").unwrap();
    writer.caveat("contended");
    writer.caveat("contended");
    writer.finish(START_MS + 1_500).unwrap()
}

#[test]
fn what_is_written_comes_back_and_histograms_merge_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(&dir.path().join("runs"));
    assert!(path.ends_with("20261122-120304-123-quick"), "{}", path.display());
    let run = Run::open(&path).unwrap();
    assert_eq!(run.manifest.label, "quick");
    assert_eq!(run.manifest.ended_unix_ms, Some(START_MS + 1_500));
    assert_eq!(run.manifest.caveats, ["contended"]);
    assert_eq!(run.manifest.config, json!({ "runs": 3 }));
    let names: Vec<&str> = run.manifest.files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["rows.jsonl", "histograms.hlog", "host-a.log"]);
    assert_eq!(run.records.len(), 2);
    // A number with no exact binary form is the same number again.
    assert_eq!(run.records[0].row["rate_per_s"], json!(0.1));
    assert_eq!(run.records[0].axes["over"].to_string(), "xdp");
    let merged = run.histogram(&run.records[0], "rtt").unwrap();
    let mut expected = histogram(1_000);
    expected.merge(&histogram(3_000));
    assert!(merged.buckets().eq(expected.buckets()));
    assert!(run.histogram(&run.records[0], "service").is_none());
    assert_eq!(
        (run.records[1].role, run.records[1].reason.as_deref()),
        (Role::Missing, Some("no RDMA card"))
    );
    assert!(run.fingerprint().is_some());
}

#[test]
fn a_run_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let before = fs::read(path.join("rows.jsonl")).unwrap();
    let again = RunWriter::create(dir.path(), &start("quick")).unwrap_err();
    assert!(matches!(&again, RunError::Exists { path: p } if *p == path), "{again}");
    assert!(again.to_string().ends_with("already exists: a run is never overwritten"));
    assert_eq!(fs::read(path.join("rows.jsonl")).unwrap(), before);

    let mut other = RunWriter::create(dir.path(), &start("other")).unwrap();
    assert!(matches!(other.attach("rows.jsonl", b""), Err(RunError::Exists { .. })));
    for name in ["../x", "a/b", "", ".hidden", "a\0b"] {
        assert!(matches!(other.attach(name, b""), Err(RunError::Refused(_))), "{name}");
    }
}

#[test]
fn a_label_cannot_leave_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    for (label, end) in [("../../etc/x y", "etc-x-y"), ("", "run"), ("....", "run"), ("größe", "gr--e")] {
        let sub = dir.path().join(end).join(label.len().to_string());
        let writer = RunWriter::create(&sub, &start(label)).unwrap();
        let name = writer.path().file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.ends_with(&format!("-123-{end}")), "{name}");
        assert_eq!(writer.path().parent(), Some(sub.as_path()));
        let kept = writer.finish(START_MS).unwrap();
        assert_eq!(Run::open(&kept).unwrap().manifest.label, label);
    }
}

#[test]
fn a_killed_run_is_read_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(dir.path(), &start("killed")).unwrap();
    writer.add(Record::new("msg", "machnet", row()), &[("rtt", &histogram(5))]).unwrap();
    writer.add(Record::new("msg", "machnet", row()), &[]).unwrap();
    let path = writer.path().to_owned();
    drop(writer);
    for file in ["rows.jsonl", "histograms.hlog"] {
        let whole = fs::read(path.join(file)).unwrap();
        fs::write(path.join(file), &whole[..whole.len() - 5]).unwrap();
    }
    let run = Run::open(&path).unwrap();
    assert_eq!((run.manifest.ended_unix_ms, run.records.len()), (None, 1));
}

#[test]
fn every_fault_is_told_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let fault = |file: &str, change: &dyn Fn(String) -> String| {
        let path = written(dir.path());
        // Without a list of files the checksums do not come first.
        let manifest = path.join("manifest.json");
        let text = fs::read_to_string(&manifest).unwrap();
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        if file != "manifest.json" {
            value["files"] = json!([]);
            value["ended_unix_ms"] = json!(null);
            fs::write(&manifest, value.to_string()).unwrap();
        }
        let text = fs::read_to_string(path.join(file)).unwrap();
        fs::write(path.join(file), change(text)).unwrap();
        let error = Run::open(&path).unwrap_err().to_string();
        fs::remove_dir_all(&path).unwrap();
        error
    };
    for (file, from, to, expected) in [
        (
            "manifest.json",
            "\"schema\": 1",
            "\"schema\": 9",
            "run folder of version 9; this build reads version 1",
        ),
        (
            "manifest.json",
            "\"caveats\"",
            "\"caveat\"",
            "manifest.json: unknown key `caveat`; did you mean `caveats`?",
        ),
        (
            "manifest.json",
            "one-machine",
            "one-machin",
            "hardware `one-machin` is not known; did you mean `one-machine`?",
        ),
        ("manifest.json", "host-a.log", "../host-a.log", "file name `../host-a.log` is not a plain name"),
        ("manifest.json", "{", "", "manifest.json:2: not JSON"),
        (
            "rows.jsonl",
            "\"table\":\"rc",
            "\"tabel\":\"rc",
            "rows.jsonl:2: unknown key `tabel`; did you mean `table`?",
        ),
        (
            "rows.jsonl",
            "\"missing\"",
            "\"mising\"",
            "rows.jsonl:2: role `mising` is not known; did you mean `missing`?",
        ),
        ("rows.jsonl", "\"machnet\"", "7", "rows.jsonl:1: invalid type"),
        ("rows.jsonl", ":0.1,", ":,", "rows.jsonl:1: not JSON"),
        ("histograms.hlog", "HISTFAAAA", "HISTXAAAA", "histograms.hlog:4: not an HDR V2 histogram"),
    ] {
        let error = fault(file, &|text| {
            assert!(text.contains(from), "{file} has no {from}: {text}");
            text.replacen(from, to, 1)
        });
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_file_that_changed_later_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    for (file, from, to, expected) in [
        ("rows.jsonl", "0.1", "0.2", "checksum"),
        ("rows.jsonl", "0.1", "0.11", "when the run ended"),
        ("host-a.log", "hello", "hullo", "checksum"),
    ] {
        let path = written(&dir.path().join(format!("{file}{to}")));
        let text = fs::read_to_string(path.join(file)).unwrap();
        fs::write(path.join(file), text.replacen(from, to, 1)).unwrap();
        let error = Run::open(&path).unwrap_err().to_string();
        assert!(error.contains("not as the run left it") && error.contains(expected), "{error}");
    }
    let path = written(&dir.path().join("gone"));
    fs::remove_file(path.join("histograms.hlog")).unwrap();
    assert!(matches!(Run::open(&path), Err(RunError::Io { .. })));
    assert!(matches!(Run::open(dir.path()), Err(RunError::NoRun { .. })));
    assert!(matches!(Run::open(&dir.path().join("nowhere")), Err(RunError::Io { .. })));
}

#[test]
fn what_could_not_be_read_back_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(dir.path(), &start("x")).unwrap();
    let mut record = Record::new("msg", "machnet", row());
    record.axes.insert("load".into(), f64::NAN.into());
    assert!(matches!(writer.add(record, &[]), Err(RunError::Refused(_))));
    assert!(matches!(writer.add(Record::new("", "t", row()), &[]), Err(RunError::Refused(_))));
    assert!(Run::open(&writer.finish(START_MS).unwrap()).unwrap().records.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Any bytes in any file: read or refused, never a panic.
    #[test]
    fn garbage_is_refused(
        which in 0usize..3, at in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..40),
        cut in any::<bool>(), finished in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        let manifest = path.join("manifest.json");
        let mut value: serde_json::Value = serde_json::from_str(&fs::read_to_string(&manifest).unwrap()).unwrap();
        // Without a list of files no checksum stands before the rows; a run that did not end is read as far as it goes.
        value["files"] = json!([]);
        if !finished {
            value["ended_unix_ms"] = json!(null);
        }
        fs::write(&manifest, value.to_string()).unwrap();
        let file = path.join(["manifest.json", "rows.jsonl", "histograms.hlog"][which]);
        let mut content = fs::read(&file).unwrap();
        let at = at.index(content.len());
        if cut {
            content.truncate(at);
        }
        content.splice(at..at, bytes);
        fs::write(&file, content).unwrap();
        match Run::open(&path) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(run) => shown(&run),
        }
    }

    /// Rows of any numbers, words and shapes: whatever can be read can be shown and compared.
    #[test]
    fn rows_of_anything_are_shown(values in prop::collection::vec((0usize..KEYS.len(), 0usize..ODD.len()), 1..12)) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(dir.path(), &start("odd")).unwrap();
        for chunk in values.chunks(4) {
            let mut record = Record::new("msg", "machnet", row());
            for (key, value) in chunk {
                record.row.insert(KEYS[*key].to_owned(), serde_json::from_str(ODD[*value]).unwrap());
            }
            let table = ["machnet", "bmv2", "rc.threads", "msg"][chunk[0].0 % 4];
            writer.add(Record { table: table.to_owned(), ..record }, &[]).unwrap();
        }
        shown(&Run::open(&writer.finish(START_MS).unwrap()).unwrap());
    }
}

/// Keys that the report asks rows for, and values that no bench verb writes there.
const KEYS: [&str; 18] = [
    "rtt_ns",
    "latency_ns",
    "service_ns",
    "rate_per_s",
    "connections_per_s",
    "tcp_mbps",
    "window",
    "threads",
    "hosts",
    "size",
    "teardown",
    "samples",
    "runs",
    "steps_ns",
    "little",
    "void",
    "offered_per_s",
    "system",
];
const ODD: [&str; 14] = [
    "null",
    "true",
    "0",
    "-1",
    "5e-324",
    "1.7976931348623157e308",
    "18446744073709551615",
    "\"\"",
    "\"x\"",
    "[]",
    "{}",
    r#"{"p50":5e-324,"p99":1e308,"mean":0,"max":-1}"#,
    r#"[{"p50_ns":5e-324,"rate_per_s":0},3,null,{"void":"x"}]"#,
    r#"{"create":{"p50":1e308},"req_to_rep":{"p50":1e308},"rtu":{"p50":0},"first_byte":{"p50":-5},"disconnect":{"p50":1},"destroy":{"p50":1}}"#,
];

/// Everything that can be made of a run.
fn shown(run: &Run) {
    let report = Report::of(&[run], &Options { all_published: false, ..Options::default() });
    let report =
        report.with_comparison(compare(&[run], &[run], Method { resamples: 20, ..Method::default() }));
    let page = html::page(&report);
    assert!(page.ends_with("</html>\n") && !page.contains("NaN"), "{}", run.path.display());
    assert!(text::markdown(&report, "charts").ends_with('\n'));
    assert!(text::csv(&[run]).ends_with("\r\n"));
    text::charts(&report).iter().for_each(|(name, svg)| assert!(!svg.contains("NaN"), "{name}"));
}

/// Says where the small file system is.
const SMALL: &str = "BW_TEST_SMALL";

/// Runs the ignored test of this name where a folder is a file system of so many KiB.
fn on_a_small_disk(test: &str, kib: u32) {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o size={kib}k none \"$0\" && exec \"$@\"");
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).arg(folder.path()).arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture"]).env(SMALL, folder.path());
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) if barewire_testing::is_root() => {
            panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        }
        other => skip(Needs::Root, format!("a small file system needs root and unshare: {other:?}")),
    }
}

#[test]
fn a_disk_that_is_full_costs_no_row_that_was_written() {
    on_a_small_disk("small_disk_rows", 256);
    on_a_small_disk("small_disk_start", 64);
}

#[test]
#[ignore = "the process that `on_a_small_disk` starts on a small file system"]
fn small_disk_rows() {
    let disk = PathBuf::from(std::env::var_os(SMALL).unwrap());
    fs::write(disk.join("spare"), vec![0; 64 << 10]).unwrap();
    let mut writer = RunWriter::create(&disk.join("runs"), &start("full")).unwrap();
    let mut row = row();
    row.insert("note".to_owned(), "x".repeat(1_500).into());
    let mut added = 0;
    let refused = loop {
        match writer.add(Record::new("msg", "own", row.clone()), &[("rtt", &histogram(added * 100 + 1_000))])
        {
            Ok(()) => added += 1,
            Err(e) => break e,
        }
        assert!(added < 1_000, "the disk is never full");
    };
    assert!(matches!(refused, RunError::Io { .. }) && added > 10, "{refused}");
    // As it is, it can be read: a run that did not come to its end.
    let path = writer.path().to_owned();
    let run = Run::open(&path).unwrap();
    assert_eq!((run.records.len() as u64, run.manifest.ended_unix_ms), (added, None));
    // A log has no room either, and leaves nothing half.
    assert!(writer.attach("host.log", &vec![b'x'; 1 << 20]).is_err());
    assert!(!path.join("host.log").exists());
    // Somebody makes room: what was refused in the middle stands between no rows.
    fs::remove_file(disk.join("spare")).unwrap();
    writer.add(Record::new("msg", "own", self::row()), &[("rtt", &histogram(7))]).unwrap();
    let run = Run::open(&path).unwrap();
    assert_eq!(run.records.len() as u64, added + 1);
    assert!(run.records.iter().all(|record| run.repetitions(record, "rtt").count() == 1));
    // An end that does not fit leaves the folder as it was: not ended, and readable.
    let filler = disk.join("filler");
    fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    assert!(writer.finish(START_MS + 1).is_err());
    let run = Run::open(&path).unwrap();
    assert_eq!((run.records.len() as u64, run.manifest.ended_unix_ms), (added + 1, None));
}

#[test]
#[ignore = "the process that `on_a_small_disk` starts on a small file system"]
fn small_disk_start() {
    let disk = PathBuf::from(std::env::var_os(SMALL).unwrap());
    fs::write(disk.join("filler"), vec![0; 1 << 20]).unwrap_err();
    let refused = RunWriter::create(&disk, &start("full")).unwrap_err();
    assert!(matches!(refused, RunError::Io { .. }), "{refused}");
    let left: Vec<_> = fs::read_dir(&disk).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["filler"], "a folder of a run that never began is not left");
}

#[test]
fn a_clock_that_goes_back_or_is_nonsense_makes_folders_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    for (at, ended) in [(START_MS, 0), (0, 0), (u64::MAX, 5), (u64::MAX / 1_000_000, u64::MAX)] {
        let start = RunStart { started_unix_ms: at, ..start("clock") };
        let mut writer = RunWriter::create(dir.path(), &start).unwrap();
        writer.add(Record::new("msg", "own", row()), &[]).unwrap();
        let path = writer.finish(ended).unwrap();
        let run = Run::open(&path).unwrap();
        assert_eq!(run.manifest.ended_unix_ms, Some(at.max(ended)));
        assert!(html::page(&Report::of(&[&run], &Options::default())).len() > 1_000);
    }
    // Two runs of one instant do not share a folder.
    assert!(matches!(
        RunWriter::create(dir.path(), &RunStart { started_unix_ms: 0, ..start("clock") }),
        Err(RunError::Exists { .. })
    ));
}

#[test]
fn names_of_histograms_that_look_alike_stay_apart() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(dir.path(), &start("names")).unwrap();
    let (one, two) = (histogram(1_000), histogram(9_000));
    writer.add(Record::new("msg", "own", row()), &[("a b", &one), ("a-b", &two), ("../../x", &two)]).unwrap();
    let run = Run::open(&writer.finish(START_MS).unwrap()).unwrap();
    for (name, expected) in [("a b", &one), ("a-b", &two), ("../../x", &two)] {
        assert!(run.histogram(&run.records[0], name).unwrap().buckets().eq(expected.buckets()), "{name}");
    }
}

#[test]
fn files_that_never_end_and_pipes_are_no_files_of_a_run() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let (tell, told) = std::sync::mpsc::channel();
    let attempts = path.clone();
    std::thread::spawn(move || {
        for name in ["host-a.log", "rows.jsonl", "histograms.hlog", "manifest.json"] {
            let (file, kept) = (attempts.join(name), attempts.join("kept"));
            fs::rename(&file, &kept).unwrap();
            symlink("/dev/zero", &file).unwrap();
            assert!(Run::open(&attempts).is_err(), "{name}");
            fs::remove_file(&file).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
            assert!(Run::open(&attempts).is_err(), "{name}");
            fs::remove_file(&file).unwrap();
            fs::rename(&kept, &file).unwrap();
        }
        assert!(Run::open(&attempts).is_ok());
        let _ = tell.send(());
    });
    told.recv_timeout(std::time::Duration::from_secs(600)).expect("reading ends, with an error");
}
