//! What can be tested without hosts, and short runs with them where this process may make some.

use super::*;
use crate::patience::until_seen;
use barewire_testing::{Needs, have, program};

fn cell(systems: Vec<System>) -> LiveCell {
    LiveCell {
        systems,
        source: "simple_router".parse().unwrap(),
        offloads: false,
        gro: false,
        tests: Tests::ALL,
        seconds: Duration::from_millis(600),
        idle: IdleStrategy::default(),
        idle_state: IdleState::Warm,
        options: String::new(),
    }
}

#[test]
fn ports_are_named_with_their_options() {
    let mut cell = cell(Vec::new());
    assert_eq!(uri("xdp", "s1", &cell), "xdp:s1");
    cell.options = "stamp=engine".to_owned();
    assert_eq!(uri("packet", "s2", &cell), "packet:s2?stamp=engine");
    cell.offloads = true;
    assert_eq!(uri("packet", "s2", &cell), "packet:s2?gso=1&stamp=engine");
    assert_eq!(uri("xdp", "s2", &cell), "xdp:s2?stamp=engine");
}

#[test]
fn a_rate_is_offered_for_half_a_second_unless_all_of_a_run_is_shorter() {
    let trial = |ms| udp_trial(Duration::from_millis(ms));
    assert_eq!([trial(3_000), trial(600), trial(20_000)], [500, 500, 2_000].map(Duration::from_millis));
    assert_eq!(trial(200), Duration::from_millis(200));
}

#[test]
fn recorded_figures_are_marked() {
    let row = recorded();
    assert_eq!((row.number("tcp_mbps"), row.number("udp_pps")), (Some(681.5), Some(60e3)));
    assert!(row.recorded.is_some() && row.number("added_latency_ns").is_none());
    assert_eq!(row.number("tcp_data_packets_per_s"), None, "not counted then");
}

/// Whoever reads the document or the folder sees that nobody measured it: the row says so itself.
#[test]
fn recorded_figures_stay_marked_in_documents_and_folders() {
    let mut results = crate::Results::begin();
    results.add(&[recorded(), Row { recorded: None, ..recorded() }]).unwrap();
    let class = barewire_report::run::HardwareClass::OneMachine;
    let document: serde_json::Value =
        serde_json::from_str(&results.document(class, false, &[]).unwrap()).unwrap();
    let parent = std::env::temp_dir().join(format!("barewire-recorded-{}", std::process::id()));
    let head = crate::Head { label: "x".to_owned(), config: serde_json::Value::Null, hardware: class };
    let run = barewire_report::run::Run::open(&results.write(&parent, &head).unwrap());
    std::fs::remove_dir_all(&parent).unwrap();
    let run = run.unwrap();
    let of_document = [0, 1].map(|index| document["rows"][index]["recorded"].clone());
    let told = |index: usize| run.records[index].row.get("recorded").cloned().unwrap_or_default();
    let of_folder = [0, 1].map(told);
    for [recorded, measured] in [of_document, of_folder] {
        assert!(
            recorded.as_str().is_some_and(|text| text.contains("not measured in this run")),
            "{recorded}"
        );
        assert!(measured.is_null(), "{measured}");
    }
}

#[test]
fn only_what_grew_is_told() {
    let of = |pairs: &[(&str, u64)]| pairs.iter().map(|&(k, v)| (k.to_owned(), v)).collect();
    let grown = growth(&of(&[("a", 1), ("b", 2)]), of(&[("a", 1), ("b", 5), ("c", 1)]));
    assert_eq!(grown, of(&[("b", 3), ("c", 1)]));
}

#[test]
fn who_works_is_charged() {
    let before = Forwarder::Nothing.all_cpu_ns().unwrap();
    // A thread that is over by then: what it had is not lost with it.
    let worked = std::thread::spawn(|| {
        let task = barewire_measure::Task::current().unwrap();
        while task.time().unwrap().run_ns < 5_000_000 {}
        task.time().unwrap().run_ns
    });
    let worked = worked.join().unwrap();
    assert!(Forwarder::Nothing.all_cpu_ns().unwrap() - before >= worked);
}

#[test]
fn a_program_that_does_not_route_is_refused() {
    let mut cell = cell(vec![System::Barewire { over: "packet".into(), engine: EngineKind::Interpreter }]);
    cell.source = "acl".parse().unwrap();
    let why = measure(&cell, 1, "", Told { tell: &mut |_| {}, keep: &mut |_| {} }).unwrap_err().to_string();
    assert!(why.contains("does not route"), "{why}");
}

/// Every way carries traffic, and rows say what they have to.
#[test]
fn hosts_reach_each_other_on_every_way() {
    let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
    let Some(_) = have(Needs::Peers, program("ip")) else { return };
    let engine = EngineKind::Interpreter;
    let over = || "packet".to_owned();
    let mut cell = cell(vec![
        System::Direct,
        System::Bridge,
        System::Routing,
        System::BareLoop { over: over() },
        System::Barewire { over: over(), engine },
    ]);
    cell.idle = IdleStrategy::Yield;
    // 1448 bytes a packet, with offloads off: what was counted and what was read tell of the same stream.
    let per_packet =
        |row: &Row| Some(row.number("tcp_mbps")? * 1e6 / 8.0 / row.number("tcp_data_packets_per_s")?);
    let is_one_stream = |row: &Row| per_packet(row).is_some_and(|len| (1_000.0..1_600.0).contains(&len));
    // On a machine with much else to do requests wait too long for their answers, and packets for who reads them.
    let (rows, told) = until_seen(
        cell.seconds,
        |seconds| {
            let mut told = Vec::new();
            let cell = LiveCell { seconds, ..cell.clone() };
            let (rows, failures) = {
                let hear = Told { tell: &mut |line| told.push(line), keep: &mut |_| {} };
                measure(&cell, 1, "test", hear).unwrap()
            };
            assert!(failures.is_empty(), "{failures:?}");
            (rows, told)
        },
        |(rows, _)| {
            rows.iter().all(|row| {
                let has_rates = row.number("tcp_mbps") > Some(0.0) && row.number("udp_peak_pps") > Some(0.0);
                let has_times =
                    row.number("rtt_p50_ns").is_some() && row.number("added_latency_ns").is_some();
                row.void.is_none() && has_rates && has_times && is_one_stream(row)
            })
        },
    );
    assert_eq!(told.len(), 5, "{told:?}");
    let names: Vec<&str> = rows.iter().map(|r| r.subject.system.as_str()).collect();
    assert_eq!(names, ["direct", "bridge", "routing", "bare-loop", "barewire"]);
    for row in &rows {
        let of = |key: &str| row.number(key);
        assert_eq!(row.void, None, "{row:?}");
        assert!(of("tcp_mbps") > Some(0.0) && of("udp_peak_pps") > Some(0.0), "{row:?}");
        assert!(is_one_stream(row) || row.contended, "{:?}: {row:?}", per_packet(row));
        assert!(of("rtt_samples") > Some(0.0) && of("rtt_lost").is_some(), "{row:?}");
        assert!(of("rtt_p50_ns") > Some(0.0) && of("added_latency_ns").is_some(), "{row:?}");
        assert_eq!(row.histograms.runs().unwrap()[0].0, "rtt");
        let json = serde_json::to_value(row).unwrap();
        let paced: Vec<Paced> = serde_json::from_value(json["paced"].clone()).unwrap();
        assert_eq!(paced.len(), PACED_PPS.len());
        let own_threads = ["bare-loop", "barewire"].contains(&row.subject.system.as_str());
        let offered = paced.iter().any(|paced| paced.void().is_none());
        assert_eq!(of("cpu_us_per_packet").is_some(), own_threads && offered, "{row:?}");
        assert_eq!(of("machine_cpu_us_per_packet").is_some(), offered, "{row:?}");
        assert!(of("machine_cpu_us_per_packet") >= of("cpu_us_per_packet"), "{row:?}");
    }
    assert_eq!(rows[0].number("added_latency_ns"), Some(0.0));
    assert_eq!(rows[1].number("over_bridge_ns"), Some(0.0));
}
