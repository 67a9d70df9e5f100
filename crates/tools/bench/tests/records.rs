//! The examples that leave records, run shortly: their words, and their rows with the machine's fingerprint. How long things take is not judged
//! here.

use barewire_report::import;
use barewire_report::run::Run;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Beside the directory that test programs are built in.
fn example(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let program = program.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is missing: cargo build -p barewire-bench --examples", program.display());
    program
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Runs an example to its end.
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (text(stdout), text(stderr));
    assert!(status.success(), "{command:?}: {out}{err}");
    out
}

#[test]
fn the_cost_of_a_request_is_told_beside_a_bare_message() {
    let said = run(Command::new(example("request_cost")).args(["1", "200", "256"]));
    // `plain: 1234 ns (1234 to 1234)`: of one round the middle is all there is.
    let told: Vec<f64> = ["plain", "request", "difference"]
        .iter()
        .zip(said.lines())
        .map(|(name, line)| {
            let figures = line.strip_prefix(&format!("{name}: ")).unwrap_or_else(|| panic!("{said}"));
            let words: Vec<_> = figures.split([' ', '(', ')']).filter(|word| !word.is_empty()).collect();
            assert_eq!((words.len(), words[1], words[3]), (5, "ns", "to"), "{said}");
            let of = |at: usize| words[at].parse::<f64>().unwrap();
            assert!(of(0) == of(2) && of(0) == of(4), "{said}");
            of(0)
        })
        .collect();
    let [plain, request, difference] = told[..] else { panic!("{said}") };
    assert!(plain > 0.0 && request > 0.0, "{said}");
    // Each is rounded for itself.
    assert!((request - plain - difference).abs() <= 1.5, "{said}");
    let one = run(Command::new(example("request_cost")).args(["1", "50", "256", "request"]));
    assert!(one.starts_with("request: ") && one.ends_with(" ns\n"), "{one}");
}

/// The same as a document and as a run folder: each round's difference is that of its two slices, and the CPU is that of both ends.
#[test]
fn the_cost_of_a_request_is_left_with_the_machines_fingerprint() {
    let folder = barewire_testing::Folder::new("request-cost");
    let mut command = Command::new(example("request_cost"));
    let said = run(command.args(["4", "200", "256", "--json", "--run"]).arg(folder.path()));
    let document: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&document["schema"], &document["hardware"]), (&2.into(), &"one-machine".into()));
    assert!(document["fingerprint"]["machine"]["cpu_model"].is_string(), "{said}");
    assert!(document["fingerprint"]["run"]["command_line"].as_str().unwrap().contains("request_cost 4 200"));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["kind"]).collect::<Vec<_>>(), ["plain", "request"]);
    for row in rows {
        assert_eq!((&row["bench"], &row["size"]), (&"requests".into(), &256.into()), "{row}");
        assert_eq!(row["runs"].as_array().unwrap().len(), 4, "{row}");
        assert!(row["cpu_ns_per_op"].as_f64() > Some(0.0), "{row}");
    }
    assert!(rows[0]["above_plain_ns"].is_null(), "{said}");
    let of = |row: usize, key: &str| -> Vec<f64> {
        rows[row]["runs"].as_array().unwrap().iter().map(|run| run[key].as_f64().unwrap()).collect()
    };
    let (plain, request) = (of(0, "round_trip_ns"), of(1, "round_trip_ns"));
    for (n, above) in of(1, "above_plain_ns").into_iter().enumerate() {
        // Each is rounded to a tenth for itself.
        assert!((request[n] - plain[n] - above).abs() < 0.2, "{said}");
    }
    let imported = import::document(&said).unwrap().rows;
    assert_eq!(imported.iter().filter(|row| row.record.table.starts_with("requests")).count(), 2);
    let made = std::fs::read_dir(folder.path()).unwrap().next().expect("a run folder").unwrap().path();
    let record = Run::open(&made).unwrap();
    assert_eq!(record.manifest.label, "requests");
    assert_eq!(record.records.iter().filter(|record| record.table.starts_with("requests")).count(), 2);
}

#[test]
fn slips_are_said() {
    for (name, args, part) in [
        ("request_cost", &["--jsn"][..], "unknown option `--jsn`"),
        ("request_cost", &["0"], "one slice"),
        ("stacks", &["--stacks", "hyper,axum"], "there are hyper, tonic"),
        ("stacks", &["--over", "unix"], "there are mem, packet, xdp"),
        ("stacks", &["--runs"], "`--runs` needs a value"),
        ("stacks", &["--over", "mem", "--binary", "x", "--size", "0"], "1 to 65536"),
    ] {
        let Output { status, stdout, stderr } = Command::new(example(name)).args(args).output().unwrap();
        let (out, err) = (text(stdout), text(stderr));
        assert!(!status.success() && err.contains(part), "{name} {args:?}: {out}{err}");
    }
}
