//! A canary for each way in which a figure can be wrong.

use super::{Age, Checked, DIRTY, DIRTY_MAX, check, edited};
use crate::tidy::{TextFile, Tree};

const RECORD: &str = r#"{"fingerprint":{"build":{"git_commit":"abc","git_dirty":"no"}},"rows":[
 {"system":"barewire","over":"xdp","window":1,"idle_state":"warm","mode":"embedded","rtt_ns":{"p50":5449,"p99":null},
  "runs":[{"p50_ns":5000},{"p50_ns":5449},{"p50_ns":5600},{"p50_ns":5450},{"p50_ns":5440}]},
 {"system":"kernel-tcp","over":"veth","window":1,"idle_state":"warm","mode":"blocking","rtt_ns":{"p50":10898,"p99":20000},
  "runs":[{"p50_ns":10800,"p99_ns":null},{"p50_ns":10898,"p99_ns":19000},{"p50_ns":11000},{"p50_ns":10900},{"p50_ns":10890}]}]}"#;

fn tree(readme: &str, files: &[(&str, &str)]) -> Tree {
    let mut all = vec![("README.md", readme), ("benches/runs/day/a.json", RECORD)];
    all.extend(files);
    let mut files: Vec<TextFile> = all
        .into_iter()
        .map(|(path, text)| TextFile { path: path.to_owned(), text: text.to_owned() })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Tree { files, folders: Vec::new() }
}

fn checked(readme: &str) -> Checked {
    check(&tree(readme, &[]), &|_| Age::Behind(3))
}

#[track_caller]
fn good(readme: &str, figures: usize) {
    let checked = checked(readme);
    assert_eq!(checked.findings, []);
    assert_eq!(checked.resolved.len(), figures, "{:?}", checked.resolved);
}

#[track_caller]
fn bad(readme: &str, line: usize, words: &str) {
    let findings = checked(readme).findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].file.as_str(), findings[0].line), ("README.md", line));
    assert!(findings[0].reason.contains(words), "{}", findings[0].reason);
}

#[test]
fn figures_that_say_what_the_record_says() {
    good("It takes 5.4 us<!-- fig day/a.json system=barewire : rtt_ns.p50 --> here.", 1);
    good("<!-- record day -->\nIt takes 5449 ns<!-- fig a.json system=barewire : rtt_ns.p50 -->.", 1);
    good("5.0 to 5.6 us<!-- fig day/a.json system=barewire : min(runs.p50_ns) max(runs.p50_ns) -->", 2);
    good(
        "2.00 (1.93 to 2.20) times<!-- fig day/a.json system=kernel-tcp over=veth / system=barewire over=xdp : median(runs.p50_ns) min(runs.p50_ns) max(runs.p50_ns) -->",
        3,
    );
    good("| n<10000<!-- fig day/a.json system=barewire : rtt_ns.p99 --> |", 1);
    good("waits 10 ms<!-- not measured --> and takes `5 us`\n```\n7 us\n```\n64-byte packets", 0);
}

#[test]
fn a_wrong_number() {
    bad(
        "\n5.5 us<!-- fig day/a.json system=barewire : rtt_ns.p50 -->",
        2,
        "5.5 stands here, `rtt_ns.p50` of the record says 5.4",
    );
    bad(
        "2.1 (1.93 to 2.20) times<!-- fig day/a.json system=kernel-tcp over=veth / system=barewire over=xdp : median(runs.p50_ns) min(runs.p50_ns) max(runs.p50_ns) -->",
        1,
        "says 2.0",
    );
    bad("| 3 us<!-- fig day/a.json system=barewire : rtt_ns.p99 --> |", 1, "too few samples");
}

#[test]
fn a_ratio_without_a_range() {
    bad(
        "2.00 times<!-- fig day/a.json system=kernel-tcp over=veth / system=barewire over=xdp : median(runs.p50_ns) -->",
        1,
        "stands with its range",
    );
    bad(
        "2.00 times<!-- fig day/a.json system=kernel-tcp over=veth / system=barewire over=xdp : rtt_ns.p50 -->",
        1,
        "`rtt_ns.p50` is of all samples together",
    );
}

#[test]
fn a_slow_run_without_a_percentile_is_not_left_out() {
    for slow in [r#"{"p99_ns":null}"#, r#"{"p50_ns":10800}"#] {
        let record = format!(r#"{{"rows":[{{"system":"kernel-tcp","runs":[{slow},{{"p99_ns":19000}}]}}]}}"#);
        let readme = "19 us<!-- fig night/a.json system=kernel-tcp : median(runs.p99_ns) -->";
        let findings =
            check(&tree(readme, &[("benches/runs/night/a.json", &record)]), &|_| Age::Behind(3)).findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].reason.contains("too few samples"), "{}", findings[0].reason);
    }
}

#[test]
fn a_wrong_unit() {
    bad(
        "5.4 ms<!-- fig day/a.json system=barewire : rtt_ns.p50 -->",
        1,
        "5.4 stands here, `rtt_ns.p50` of the record says 0.0",
    );
    bad("5449/s<!-- fig day/a.json system=barewire : rtt_ns.p50 -->", 1, "of Rate");
    bad("5449 thousand<!-- fig day/a.json system=barewire : rtt_ns.p50 -->", 1, "of Any");
}

#[test]
fn a_missing_record_row_or_value() {
    bad(
        "5.4 us<!-- fig day/b.json system=barewire : rtt_ns.p50 -->",
        1,
        "there is no record benches/runs/day/b.json",
    );
    bad("5.4 us<!-- fig day/a.json system=bmv2 : rtt_ns.p50 -->", 1, "no row of the record has system=bmv2");
    bad("5.4 us<!-- fig day/a.json window=1 : rtt_ns.p50 -->", 1, "2 values: select one row");
    bad("5.4 us<!-- fig day/a.json system=barewire : rtt_ns.p51 -->", 1, "the record has no `rtt_ns.p51`");
    bad("<!-- record night -->", 1, "there is no record benches/runs/night");
    bad("it<!-- fig day/a.json system=barewire : rtt_ns.p50 -->", 1, "1 values for 0 figures");
    bad("<!-- fig day/a.json rtt_ns.p50 -->", 1, "no ` : `");
}

#[test]
fn a_figure_without_a_record() {
    for line in
        ["5.4 us", "10.6 M packets/s", "152 times bmv2's", "0.53 of it", "82 thousand", "51 Gbit/s", "241K"]
    {
        bad(&format!("It is {line}."), 1, "names no record");
    }
    bad("bmv2's rate 152\ntimes", 1, "152 names no record");
    bad("3 us, 5.4 us<!-- fig day/a.json system=barewire : rtt_ns.p50 -->", 1, "3 names no record");
    bad("5.4 us<!-- fig day/a.json system=barewire : rtt_ns.p50 -->, 9 us", 1, "9 names no record");
}

#[test]
fn tables_are_read_by_their_words() {
    let table = |ours: &str, theirs: &str| {
        format!(
            "<!-- table day/a.json by system,mode,over,idle_state : rtt_ns.p50 -->\n\n| who | over | p50 |\n| --- | --- | --- |\n\
             | barewire *embedded* | xdp | {ours}; warm, 1024 B |\n| | | |\n| kernel-tcp *blocking* | veth | {theirs}; warm |\n"
        )
    };
    good(&table("5.4 us", "11 us"), 2);
    bad(&table("5.4 us", "12 us"), 7, "says 11");
    bad(&table("5.4 us, 6 us", "11 us"), 5, "2 figures in the line, 1 values");
    bad(&table("5.4 us", "11 us").replace("veth", "mem"), 7, "no row of the record is named");
}

#[test]
fn verdicts_are_those_of_the_runs() {
    let verdict = |gain: &str| {
        format!(
            "barewire embedded over xdp, warm, is {gain} times faster than kernel-tcp blocking; 16 of 16 rows. \
             <!-- verdict day/a.json by mode,over,idle_state : runs.p50_ns -->"
        )
    };
    let right = checked(&verdict("9.99 (9.98 to 9.99)")).findings[0].reason.clone();
    let said = right.split("say: ").nth(1).and_then(|rest| rest.split(" times").next()).unwrap();
    assert!(said.starts_with("2.00 ("), "{right}");
    good(&verdict(said), 1);
    bad(&verdict("2.00 (1.00 to 3.00)"), 1, "is no verdict of these runs, which say: 2.00 (");
}

#[test]
fn headline_tables_are_recent() {
    let readme = "<!-- record day headline -->";
    let of = |age| check(&tree(readme, &[]), &move |_: &str| age);
    assert_eq!(of(Age::Behind(50)).findings, []);
    assert!(of(Age::Behind(51)).findings[0].reason.contains("51 commits ago"));
    assert!(of(Age::Unknown).findings[0].reason.contains("git does not know"));
    let without = of(Age::NoHistory);
    assert_eq!(without.findings, []);
    assert!(without.notes[0].contains("no history here"));
}

#[test]
fn records_of_dirty_trees() {
    let dirty = RECORD.replace("\"no\"", "\"yes\"");
    let record = ("benches/runs/other/b.json", dirty.as_str());
    let of = |files: &[(&str, &str)]| check(&tree("", files), &|_| Age::NoHistory).findings;
    let found = of(&[record]);
    assert_eq!((found[0].rule, found[0].file.as_str()), ("dirty-record", record.0));
    assert_eq!(of(&[record, (DIRTY, "# why\nother of before the rule\n")]), []);
    assert!(of(&[record, (DIRTY, "other\n")]).iter().any(|f| f.reason.contains("no reason")));
    assert!(of(&[(DIRTY, "day is clean\n")])[0].reason.contains("names no folder"));
    let many = "other of before the rule\n".repeat(DIRTY_MAX + 1);
    assert!(of(&[record, (DIRTY, &many)]).iter().any(|f| f.reason.contains("may only shrink")));
}

#[test]
fn text_records_are_read_by_words_and_fields() {
    let text = (
        "benches/runs/day/t.txt",
        "warm mem/one-entry 80 xdp/one-entry 60\nwarm mem/one-entry 61\ncold mem/one-entry 400\n",
    );
    let readme = "0.06 to 0.08 us<!-- fig day/t.txt as=ns warm : min(@mem/one-entry) max(@mem/one-entry) -->, \
                  0.40<!-- fig day/t.txt unit=us as=ns cold : #-1 -->";
    let checked = check(&tree(readme, &[text]), &|_| Age::NoHistory);
    assert_eq!(checked.findings, []);
    assert_eq!(checked.resolved.len(), 3);
}

#[test]
fn wrong_numbers_are_written_as_recorded() {
    let readme = "é 9.9 us<!-- fig day/a.json system=barewire : rtt_ns.p50 -->, 3 us to 7 us<!-- fig day/a.json system=barewire : min(runs.p50_ns) max(runs.p50_ns) -->\n\
        <!-- table day/a.json by system : rtt_ns.p50 min(runs.p50_ns) -->\n\n| kernel-tcp | 7.0 us | 9 us |\n| barewire | 17 us | n<1000 |\n";
    let wanted = "é 5.4 us<!-- fig day/a.json system=barewire : rtt_ns.p50 -->, 5.0 us to 5.6 us<!-- fig day/a.json system=barewire : min(runs.p50_ns) max(runs.p50_ns) -->\n\
        <!-- table day/a.json by system : rtt_ns.p50 min(runs.p50_ns) -->\n\n| kernel-tcp | 11 us | 11 us |\n| barewire | 5.4 us | n<1000 |\n";
    let found = checked(readme);
    assert_eq!(edited("README.md", readme, &found.edits), wanted);
    // A figure that the record has, where the text says that there were too few samples, is for a person.
    assert_eq!(checked(wanted).findings.len(), 1);
    assert_eq!(edited("docs/a.md", readme, &found.edits), readme);
}

#[test]
fn a_record_that_hides_its_void_rows() {
    let rows = r#"{"row":{"system":"a","void":null}}
{"row":{"system":"b","void":"the generator was late"}}"#;
    let findings = |readme: &str| {
        let files = [("benches/runs/other/README.md", readme), ("benches/runs/other/sub/rows.jsonl", rows)];
        check(&tree("", &files), &|_| Age::Behind(3)).findings
    };
    assert_eq!(findings("# A day\n\nRow b is void.\n"), []);
    let found = findings("# A day\n\nNo row is void.\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].line, found[0].reason.as_str()), (3, "says that no row is void, and 1 are"));
}
