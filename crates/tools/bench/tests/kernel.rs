//! The kernel baselines for a moment each: that they carry every byte, not how fast.

use barewire_base::Duration;
use barewire_bench::kernel::{Baseline, Calls, Ends, KernelCell, Protocol, Waiting};
use barewire_bench::row::Row;
use barewire_bench::{Cell, IdleState, MsgWorkload};
use barewire_netns::{LinkConfig, TwoHosts, TwoHostsConfig};
use barewire_testing::{Needs, have, have_part, until_seen};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One baseline at a time: two that spin would only measure each other on a small machine.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two cores for client and server, where there are two: unpinned, both ends of a spinning baseline may share one.
fn cores() -> Option<(usize, usize)> {
    match barewire_measure::allowed_cores().ok()?[..] {
        [a, b, ..] => Some((a, b)),
        _ => None,
    }
}

fn workload() -> MsgWorkload {
    MsgWorkload {
        size: 1024,
        duration: Duration::from_millis(200),
        warmup: Duration::from_millis(20),
        verify: true,
        ..MsgWorkload::default()
    }
}

fn run(baseline: Baseline, idle_state: IdleState, workload: MsgWorkload) -> Row {
    run_between(Ends::loopback(), baseline, idle_state, workload)
}

fn run_between(ends: Ends, baseline: Baseline, idle_state: IdleState, workload: MsgWorkload) -> Row {
    let _alone = alone();
    let once = |duration| {
        let workload = MsgWorkload { duration, ..workload.clone() };
        let command = "barewire bench msg".to_owned();
        let mut cell = KernelCell::new(baseline, ends.clone(), cores(), workload, idle_state, command);
        let result = cell.run(0).unwrap_or_else(|e| panic!("{}: {e}", cell.info()));
        let row = cell.info().row(&[result]);
        assert_eq!(row.number("mismatches"), Some(0.0), "{row:?}");
        row
    };
    // Few, because the test machine may be busy and a spinner gets a slice of it only now and then. Where it does not get even that,
    // it is given more time.
    let is_answered = |row: &Row| row.number("unanswered") == Some(0.0) && row.samples() >= Some(5);
    let lengths = [workload.duration, Duration::from_secs(1), Duration::from_secs(8)];
    let row = until_seen(lengths, once, is_answered);
    assert!(is_answered(&row), "{row:?}");
    assert!(row.stat("rtt_ns", "min") > Some(1_000.0), "no kernel answers within a microsecond: {row:?}");
    row
}

/// All that can run here, with a word about those that cannot.
fn all() -> impl Iterator<Item = Baseline> {
    let rings = have_part(Needs::Machine, barewire_measure::SocketRing::new(Vec::new()));
    Baseline::all().filter(move |baseline| rings.is_some() || baseline.calls != Calls::Ring)
}

#[test]
fn one_request_at_a_time() {
    for baseline in all() {
        let row = run(baseline, IdleState::Warm, workload());
        let who = &row.subject;
        assert_eq!((who.system.as_str(), who.over.as_deref()), (baseline.name(), Some("loopback")));
        assert_eq!(who.mode.as_deref(), Some(baseline.waiting.name()));
        let cpu = row.cpu.as_ref().unwrap();
        // Both ends work for each message, and whoever spins works all the time.
        let client_ns = cpu.client_ns.unwrap();
        assert!(client_ns > 200.0 && cpu.server_ns.unwrap() > 200.0, "{row:?}");
        assert!(row.number("cpu_ns_per_op").unwrap() >= client_ns + cpu.server_ns.unwrap() - 1.0, "{row:?}");
        assert!(cpu.cores > 0.0 && cpu.cores < 4.0, "{row:?}");
        assert_eq!(who.idle_state, Some(IdleState::Warm));
        // Little's law from the times of all requests: one at a time, they fill the measured time at most, and only the request that
        // was under way when it began counts for more than its share. A machine that takes the client away between a response and the
        // next request leaves holes, but what was answered took its least time at least.
        let (samples, rate) = (row.samples().unwrap() as f64, row.number("rate_per_s").unwrap());
        let measured_ns = samples / rate * 1e9;
        let [least, most] = ["min", "max"].map(|stat| row.stat("rtt_ns", stat).unwrap());
        let (low, high) = (samples * least / measured_ns, 1.0 + most / measured_ns);
        // Figures of a row are rounded.
        let little = row.number("little").unwrap();
        assert!((0.9 * low - 0.001..1.1 * high).contains(&little), "{low} to {high}: {row:?}");
    }
}

#[test]
fn a_window_over_several_connections() {
    for baseline in all() {
        let row = run(baseline, IdleState::Warm, MsgWorkload { window: 16, connections: 4, ..workload() });
        assert_eq!(
            (row.param("window").as_deref(), row.param("connections").as_deref()),
            (Some("16"), Some("4"))
        );
    }
}

#[test]
fn open_loop_at_a_modest_rate() {
    for baseline in all() {
        let state = if baseline == Baseline::BLOCKING_TCP { IdleState::Cold } else { IdleState::Warm };
        let row = run(baseline, state, MsgWorkload { window: 64, rate: Some(1_000.0), ..workload() });
        assert_eq!(row.setting("offered_per_s"), Some(&1_000.0.into()));
        let [service, response] = ["service_ns", "response_ns"].map(|key| row.stat(key, "max").unwrap());
        assert!(response >= service, "{row:?}");
    }
}

#[test]
fn between_two_hosts() {
    let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
    let config =
        TwoHostsConfig { label: None, twin: Some(LinkConfig::default()), ..TwoHostsConfig::default() };
    let hosts = Arc::new(TwoHosts::create(&config).unwrap());
    for baseline in all() {
        let ends = Ends::hosts(&hosts);
        assert_eq!(ends.server_ip.to_string(), "10.78.0.2");
        let before = twin_packets(&hosts);
        let row = run_between(ends, baseline, IdleState::Warm, workload());
        assert_eq!(row.subject.over.as_deref(), Some("veth"));
        // Over the wire and nowhere else.
        assert!(twin_packets(&hosts) - before >= 2 * row.samples().unwrap(), "{row:?}");
    }
}

fn twin_packets(hosts: &TwoHosts) -> u64 {
    let text = hosts.ns_a.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
    let line = text.lines().find_map(|l| l.trim().strip_prefix("twin0:")).expect("the twin is there");
    let fields: Vec<u64> = line.split_whitespace().map(|f| f.parse().unwrap()).collect();
    fields[1] + fields[9]
}

/// More bytes outstanding than socket buffers hold: sends are refused and taken in parts, and nothing may lock up.
#[test]
fn messages_larger_than_the_socket_buffers() {
    for baseline in all().filter(|baseline| baseline.protocol == Protocol::Tcp) {
        run(
            baseline,
            IdleState::Warm,
            MsgWorkload {
                size: 1 << 20,
                window: 64,
                connections: 2,
                duration: Duration::from_millis(600),
                ..workload()
            },
        );
    }
}

#[test]
fn what_a_baseline_cannot_do_it_refuses() {
    let blocking = |protocol| Baseline { protocol, calls: Calls::Each, waiting: Waiting::Blocking };
    let refused = |protocol, w| {
        let mut cell =
            KernelCell::new(blocking(protocol), Ends::loopback(), None, w, IdleState::Warm, String::new());
        cell.run(0).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let size = refused(Protocol::Udp, MsgWorkload { size: 65_508, ..workload() });
    assert!(size.contains("65507"), "{size}");
    let connections = refused(Protocol::Tcp, MsgWorkload { window: 65, connections: 65, ..workload() });
    assert!(connections.contains("64"), "{connections}");
    let pinned = KernelCell::new(
        blocking(Protocol::Tcp),
        Ends::loopback(),
        Some((8_000, 8_000)),
        workload(),
        IdleState::Cold,
        String::new(),
    )
    .run(0);
    let said = pinned.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(said.contains("pinning to core 8000"), "{said}");
}
