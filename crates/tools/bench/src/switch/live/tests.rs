//! What can be tested without hosts, and short runs with them where this process may make some.

use super::*;

fn cell(systems: Vec<System>) -> LiveCell {
    LiveCell {
        systems,
        source: "simple_router".parse().unwrap(),
        offloads: false,
        tests: Tests::ALL,
        seconds: Duration::from_millis(600),
        idle: IdleStrategy::default(),
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
fn recorded_figures_are_marked() {
    let row = recorded();
    assert_eq!((row.tcp_mbps, row.udp_pps), (Some(681.5), Some(60e3)));
    assert!(row.recorded.is_some() && row.added_latency_ns.is_none());
}

#[test]
fn only_what_grew_is_told() {
    let of = |pairs: &[(&str, u64)]| pairs.iter().map(|&(k, v)| (k.to_owned(), v)).collect();
    let grown = growth(&of(&[("a", 1), ("b", 2)]), of(&[("a", 1), ("b", 5), ("c", 1)]));
    assert_eq!(grown, of(&[("b", 3), ("c", 1)]));
}

#[test]
fn the_machine_tells_how_busy_it_is() {
    let before = machine_busy_us().unwrap();
    let begin = barewire_measure::stamp();
    while barewire_measure::stamp().since(begin) < Duration::from_millis(100) {}
    assert!(machine_busy_us().unwrap() > before);
}

#[test]
fn a_program_that_does_not_route_is_refused() {
    let mut cell = cell(vec![System::Barewire { over: "packet".into(), engine: EngineKind::Interpreter }]);
    cell.source = "acl".parse().unwrap();
    let why = measure(&cell, 1, "", &mut |_| {}).unwrap_err().to_string();
    assert!(why.contains("does not route"), "{why}");
}

/// Every way carries traffic, and rows say what they have to.
#[test]
fn hosts_reach_each_other_on_every_way() {
    if let Err(why) = barewire_lab::is_root_capable() {
        eprintln!("SKIPPED: no hosts can be made: {why}");
        return;
    }
    if bmv2::on_path("ip").is_none() {
        eprintln!("SKIPPED: there is no `ip` here");
        return;
    }
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
    let mut told = Vec::new();
    let rows = measure(&cell, 1, "test", &mut |line| told.push(line)).unwrap();
    assert_eq!(told.len(), 5, "{told:?}");
    let names: Vec<&str> = rows.iter().map(|r| r.system.as_str()).collect();
    assert_eq!(names, ["direct", "bridge", "routing", "bare-loop", "barewire"]);
    for row in &rows {
        assert_eq!(row.void, None, "{row:?}");
        assert!(row.tcp_mbps.unwrap() > 0.0 && row.udp_peak_pps.unwrap() > 0.0, "{row:?}");
        assert!(row.rtt_p50_ns.unwrap() > 0 && row.added_latency_ns.is_some(), "{row:?}");
        assert_eq!(row.paced.len(), PACED_PPS.len());
        let own_threads = ["bare-loop", "barewire"].contains(&row.system.as_str());
        assert_eq!(row.cpu_us_per_packet.is_some(), own_threads, "{row:?}");
    }
    assert_eq!(rows[0].added_latency_ns, Some(0));
    assert_eq!(rows[1].over_bridge_ns, Some(0));
}
