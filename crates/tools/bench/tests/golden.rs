//! What readers of the output see, to the letter.

use barewire_bench::cpu::CpuPerOp;
use barewire_bench::messages::render::text_table;
use barewire_bench::published::messages::message_tables;
use barewire_bench::render::{latency, percentile, rate};
use barewire_bench::{Arrivals, Histograms, IdleState, LoopKind, MsgRow, OfRuns, Results, RunLine, RunsNs};
use barewire_measure::RttNs;
use barewire_report::import::{self, ImportError};
use barewire_report::run::HardwareClass;
use proptest::prelude::*;

fn times(min: u64, p50: u64, p90: u64, p99: u64, p99_9: u64, max: u64) -> RttNs {
    let some = |ns| (ns > 0).then_some(ns);
    RttNs {
        min: some(min),
        p50: some(p50),
        p90: some(p90),
        p99: some(p99),
        p99_9: some(p99_9),
        max: some(max),
    }
}

fn run(p50_ns: u64, rate_per_s: f64) -> RunLine {
    RunLine {
        p50_ns: Some(p50_ns),
        p99_ns: None,
        p99_9_ns: None,
        response: None,
        rate_per_s,
        samples: 5_000,
        contended: false,
        cpu_ns_per_op: None,
        void: None,
        overloaded: None,
        measured: None,
    }
}

fn closed() -> MsgRow {
    MsgRow {
        system: "kernel-tcp".to_owned(),
        mode: "blocking".to_owned(),
        over: "veth".to_owned(),
        idle: None,
        secure: false,
        size: 1024,
        window: 1,
        connections: 1,
        engines: None,
        queues: None,
        samples: 120_000,
        rtt_ns: times(8_210, 18_040, 19_100, 21_499, 22_300, 1_203_000),
        rtt_of_runs_ns: RunsNs {
            p50: Some(OfRuns { median: 18_100, min: 17_900, max: 18_100 }),
            ..RunsNs::default()
        },
        response_of_runs_ns: None,
        overloaded: None,
        cpu_ns_per_op: Some(13_240.0),
        cpu: Some(CpuPerOp {
            client_ns: Some(6_200.0),
            server_ns: Some(7_000.0),
            user_ns: 2_000.0,
            system_ns: 11_200.0,
            softirq_ns: 3_000.0,
            cores: 0.72,
        }),
        rate_per_s: 54_321.5,
        loop_kind: LoopKind::Closed,
        offered_per_s: None,
        service_ns: None,
        response_ns: None,
        send_lag_ns: None,
        seconds: 2.0,
        runs: vec![run(17_900, 54_400.0), run(18_100, 54_243.0)],
        idle_state: IdleState::Warm,
        contended: false,
        little: Some(0.991),
        command: "barewire bench msg --window 1".to_owned(),
        arrivals: None,
        behind_percent: None,
        verified: false,
        mismatches: 0,
        resends: 0,
        unanswered: 0,
        settled: None,
        seed: 1,
        contention: vec![],
        void: None,
        waits: None,
        cpu_unknown: None,
        broken_off: None,
        histograms: Histograms::default(),
    }
}

fn pipelined() -> MsgRow {
    MsgRow {
        window: 32,
        rtt_of_runs_ns: RunsNs::default(),
        cpu_ns_per_op: None,
        cpu: None,
        rtt_ns: times(900, 9_310, 9_960, 54_000, 0, 12_345_678),
        samples: 50_000,
        rate_per_s: 1_043_210.0,
        runs: vec![run(9_310, 1_043_210.0)],
        idle_state: IdleState::Cold,
        contended: true,
        contention: vec!["stolen: 3 %".to_owned()],
        little: Some(0.5),
        verified: true,
        command: "barewire bench msg --window 32 | tee `x`".to_owned(),
        ..closed()
    }
}

fn open() -> MsgRow {
    MsgRow {
        system: "kernel-udp-spin".to_owned(),
        mode: "spin".to_owned(),
        over: "loopback".to_owned(),
        window: 256,
        connections: 4,
        loop_kind: LoopKind::Open,
        offered_per_s: Some(10_000.0),
        samples: 150,
        rtt_of_runs_ns: RunsNs::default(),
        cpu_ns_per_op: None,
        overloaded: Some("1.23 % of the requests were never answered".to_owned()),
        rtt_ns: times(6_000, 7_400, 0, 0, 0, 812_000),
        service_ns: Some(times(6_000, 7_400, 0, 0, 0, 812_000)),
        response_ns: Some(times(6_100, 7_500, 0, 0, 0, 50_000_000)),
        send_lag_ns: Some(times(0, 100, 0, 0, 0, 50_000_000)),
        rate_per_s: 987.0,
        runs: vec![],
        arrivals: Some(Arrivals::Poisson),
        behind_percent: Some(4.91),
        resends: 3,
        little: None,
        void: Some("the generator was late for 4.9 % of its sends".to_owned()),
        ..closed()
    }
}

#[test]
fn times_and_rates_have_a_sensible_precision() {
    for (ns, text) in [
        (0, "0 ns"),
        (812, "812 ns"),
        (999, "999 ns"),
        (1_000, "1.0 us"),
        (9_310, "9.3 us"),
        (9_949, "9.9 us"),
        (9_950, "10 us"),
        (18_499, "18 us"),
        (18_500, "19 us"),
        (1_203_000, "1203 us"),
        (9_999_499, "9999 us"),
        (9_999_500, "10 ms"),
        (2_400_000_000, "2400 ms"),
        (12_000_000_000, "12 s"),
        (u64::MAX, "18446744073 s"),
    ] {
        assert_eq!(latency(ns), text, "{ns}");
    }
    for (per_s, text) in [
        (0.0, "0"),
        (999.4, "999"),
        (999.6, "1.0K"),
        (9_540.0, "9.5K"),
        (9_950.0, "10K"),
        (54_321.5, "54K"),
        (753_000.0, "753K"),
        (1_043_210.0, "1043K"),
        (12_345_678.0, "12.3M"),
    ] {
        assert_eq!(rate(per_s), text, "{per_s}");
    }
    assert_eq!(percentile(None, 0.999), "n<100000");
    assert_eq!(percentile(Some(18_000), 0.999), "18 us");
}

#[test]
fn text_has_aligned_columns() {
    let expected = "\
system           mode      over      size  window  conns  loop      time         p50      p99     p99.9      max  rate/s  cpu/op  cores  notes
kernel-tcp       blocking  veth      1024       1      1  closed    rtt        18 us    21 us     22 us  1203 us     54K   13 us    0.7  warm; 2 runs: p50 18 us..18 us, 54K..54K/s, p99 and p99.9 of all together
kernel-tcp       blocking  veth      1024      32      1  closed    rtt       9.3 us    54 us  n<100000    12 ms   1043K       -      -  contended (stolen); cold; Little's law off: 0.50; verified
kernel-udp-spin  spin      loopback  1024     256      4  open 10K  service   7.4 us  n<10000  n<100000   812 us     987       -    0.7  VOID: the generator was late for 4.9 % of its sends; overloaded: 1.23 % of the requests were never answered; warm; 4.9 % behind schedule; sends 100 ns, n<10000 late (p50, p99); 3 resends
                                                                    response  7.5 us  n<10000  n<100000    50 ms
";
    assert_eq!(text_table(&[closed(), pipelined(), open()]), expected);
}

fn document(rows: &[MsgRow]) -> String {
    let mut results = Results::begin();
    results.add(rows).unwrap();
    results.document(HardwareClass::OneMachine, false, &[]).unwrap()
}

#[test]
fn json_is_one_object_with_the_documented_keys_in_order() {
    let text = document(&[closed()]);
    assert!(text.starts_with(r#"{"schema":2,"fingerprint":{"#), "{text}");
    let expected = concat!(
        r#"[{"bench":"msg","system":"kernel-tcp","mode":"blocking","over":"veth","secure":false,"#,
        r#""size":1024,"window":1,"connections":1,"samples":120000,"#,
        r#""rtt_ns":{"min":8210,"p50":18040,"p90":19100,"p99":21499,"p99_9":22300,"max":1203000},"#,
        r#""rtt_of_runs_ns":{"p50":{"median":18100,"min":17900,"max":18100},"p99":null,"p99_9":null},"#,
        r#""rate_per_s":54321.5,"loop":"closed","offered_per_s":null,"service_ns":null,"response_ns":null,"seconds":2.0,"#,
        r#""runs":[{"p50_ns":17900,"p99_ns":null,"p99_9_ns":null,"rate_per_s":54400.0,"samples":5000,"contended":false,"void":null},"#,
        r#"{"p50_ns":18100,"p99_ns":null,"p99_9_ns":null,"rate_per_s":54243.0,"samples":5000,"contended":false,"void":null}],"#,
        r#""idle_state":"warm","contended":false,"little":0.991,"command":"barewire bench msg --window 1","#,
        r#""arrivals":null,"behind_percent":null,"verified":false,"mismatches":0,"resends":0,"unanswered":0,"seed":1,"#,
        r#""contention":[],"void":null,"cpu_ns_per_op":13240.0,"cpu":{"client_ns":6200.0,"server_ns":7000.0,"#,
        r#""user_ns":2000.0,"system_ns":11200.0,"softirq_ns":3000.0,"cores":0.72}}]"#,
    );
    let (_, rows) = text.split_once(r#","rows":"#).unwrap();
    assert_eq!(rows, format!("{expected}}}"));
    assert_eq!(serde_json::from_str::<Vec<MsgRow>>(expected).unwrap(), [closed()]);

    let json: serde_json::Value = serde_json::from_str(&document(&[open()])).unwrap();
    let row = &json["rows"][0];
    assert_eq!(row["loop"], "open");
    assert_eq!(row["arrivals"], "poisson");
    assert_eq!(row["offered_per_s"], 10_000.0);
    assert_eq!(row["service_ns"]["p50"], 7_400);
    assert_eq!(row["response_ns"]["max"], 50_000_000);
    assert!(row["response_ns"]["p99_9"].is_null());
    assert_eq!(row["send_lag_ns"]["p50"], 100);
}

#[test]
fn documents_of_this_machine_read_back_and_others_are_refused() {
    let text = document(&[closed(), open()]);
    assert_eq!(text.lines().count(), 1);
    let read = |text: &str| {
        let document = import::document(text)?;
        assert!(document.fingerprint.is_object());
        let row =
            |record: import::Imported| serde_json::from_value::<MsgRow>(record.record.row.into()).unwrap();
        Ok::<_, ImportError>(document.rows.into_iter().map(row).collect::<Vec<_>>())
    };
    assert_eq!(read(&text).unwrap(), [closed(), open()]);
    // A reader of this version passes over keys that a later one added.
    let later = text.replacen("\"system\"", "\"new_key\":1,\"system\"", 1);
    assert_eq!(read(&later).unwrap(), [closed(), open()]);
    assert_eq!(read(r#"{"schema":3,"anything":[]}"#), Err(ImportError::Schema(3)));
    assert!(matches!(read("{}"), Err(ImportError::Shape(_))));
    assert!(matches!(read("speed: high"), Err(ImportError::Json(_))));
}

#[test]
fn published_and_measured_rows_stand_side_by_side() {
    let text = message_tables(
        &[closed(), pipelined(), open()],
        "2 cores, fingerprint 0123abcd",
        HardwareClass::OneMachine,
    );
    let tables: String = text.lines().filter(|l| l.starts_with('|')).map(|l| format!("{l}\n")).collect();
    let expected = "\
| Server | NIC, DPDK PMD | Round-trip p50 99 99.9 | RPCs/s | Source | Notes |
| --- | --- | --- | --- | --- | --- |
| Azure F8s_v2, Ubuntu 22.03 | CX4-Lx, netvsc | 18 us, 19 us, 25 us | 54K | published | window 1; no proximity groups; cloud VMs |
| AWS c5.xlarge, Amazon Linux | ENA, ena | 42 us, 66 us, 105 us | 22K | published | window 1; proximity groups; cloud VMs |
| GCP | gVNIC | not run by the authors | not run by the authors | published | window 1; XXX in the text: not run by its authors; cloud VMs |
| Bare metal, Mariner 2.0 | E810 PF, ice | 18 us, 21 us, 22 us | 55K | published | window 1; machines with NICs |
| Bare metal, Mariner 2.0 | E810 VF, iavf | 18 us, 22 us, 22 us | 55K | published | window 1; machines with NICs |
| Bare metal, Ubuntu 22.04 | Bluefield-2, mlx5 | 9 us, 12 us, 13 us | 99K | published | window 1; machines with NICs |
| Bare metal, Ubuntu 20.04 | CX5, mlx5 | not run by the authors | not run by the authors | published | window 1; XXX in the text: not run by its authors; machines with NICs |
| Bare metal, Ubuntu 20.04 | CX6-Dx, mlx5 | not run by the authors | not run by the authors | published | window 1; XXX in the text: not run by its authors; machines with NICs |
| kernel-tcp *blocking* | veth | 18 us, 21 us, 22 us | 54K | measured here, **not comparable** (one machine, no NIC) | [1] 1024 B, window 1; warm; 2 runs: p50 18 us..18 us, 54K..54K/s, p99 and p99.9 of all together; Little's law 0.99; 8.2 us..1203 us |
| Server | NIC, DPDK PMD | Round-trip p50 99 99.9 | RPCs/s | Source | Notes |
| --- | --- | --- | --- | --- | --- |
| Azure F8s_v2, Ubuntu 22.03 | CX4-Lx, netvsc | 41 us, 54 us, 61 us | 753K | published | window 32; no proximity groups; cloud VMs |
| AWS c5.xlarge, Amazon Linux | ENA, ena | 61 us, 132 us, 209 us | 122K | published | window 8; proximity groups; window 8, not 32; cloud VMs |
| GCP | gVNIC | not run by the authors | not run by the authors | published | window 32; XXX in the text: not run by its authors; cloud VMs |
| Bare metal, Mariner 2.0 | E810 PF, ice | 30 us, 33 us, 37 us | 1043K | published | window 32; machines with NICs |
| Bare metal, Mariner 2.0 | E810 VF, iavf | 31 us, 35 us, 41 us | 1003K | published | window 32; machines with NICs |
| Bare metal, Ubuntu 22.04 | Bluefield-2, mlx5 | 24 us, 26 us, 28 us | 1320K | published | window 32; machines with NICs |
| Bare metal, Ubuntu 20.04 | CX5, mlx5 | not run by the authors | not run by the authors | published | window 32; XXX in the text: not run by its authors; machines with NICs |
| Bare metal, Ubuntu 20.04 | CX6-Dx, mlx5 | not run by the authors | not run by the authors | published | window 32; XXX in the text: not run by its authors; machines with NICs |
| kernel-tcp *blocking* | veth | 9.3 us, 54 us, n<100000 | 1043K | measured here, **not comparable** (one machine, no NIC) | [2] 1024 B, window 32; contended (stolen); cold; Little's law off: 0.50; verified; 900 ns..12 ms |
";
    assert_eq!(tables, expected);
    for line in [
        "Measured here on: 2 cores, fingerprint 0123abcd",
        "1 measured rows of other sizes, loops or connection counts repeat no published experiment and are not shown.",
        "- [1] `barewire bench msg --window 1`",
        "- [2] `barewire bench msg --window 32 \\| tee 'x'`",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing in:\n{text}");
    }
    assert!(text.contains("truncates to whole microseconds"));
    assert!(
        text.contains("--tx_msg_size 1024`")
            && text.contains("a flag --tx_msg_size that msg_gen does not have")
    );
    assert!(message_tables(&[], "nothing", HardwareClass::OneMachine).contains("no such row was measured"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_breaks_a_table(system in "\\PC{0,12}", over in "[|`\n a-z]{0,12}", ns: u64, per_s in 0.0f64..1e12) {
        let row = MsgRow { system, over, rtt_ns: times(ns, ns, ns, ns, ns, ns), rate_per_s: per_s, ..closed() };
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        for line in message_tables(std::slice::from_ref(&row), "", HardwareClass::BareMetal).lines().filter(|l| l.starts_with('|')) {
            prop_assert_eq!(bars(line), 7, "{}", line);
        }
        prop_assert!(text_table(&[row]).lines().count() >= 2);
    }
}
