//! The kernel baselines for a moment each: that they carry every byte, not how fast.

use barewire_base::Duration;
use barewire_bench::kernel::{Ends, KernelCell, Protocol, Waiting};
use barewire_bench::{Cell, CellError, IdleState, MsgWorkload, Row};
use barewire_lab::{LinkConfig, TwoHosts, TwoHostsConfig};
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

fn run(protocol: Protocol, waiting: Waiting, idle_state: IdleState, workload: MsgWorkload) -> Row {
    run_between(Ends::loopback(), protocol, waiting, idle_state, workload)
}

fn run_between(
    ends: Ends,
    protocol: Protocol,
    waiting: Waiting,
    idle_state: IdleState,
    workload: MsgWorkload,
) -> Row {
    let _alone = alone();
    let once = |duration| {
        let workload = MsgWorkload { duration, ..workload.clone() };
        let command = "barewire bench msg".to_owned();
        let mut cell =
            KernelCell::new(protocol, waiting, ends.clone(), cores(), workload, idle_state, command);
        let result = cell.run(0).unwrap_or_else(|e| panic!("{}: {e}", cell.info()));
        let row = Row::from_runs(cell.info(), &[result]);
        assert_eq!(row.mismatches, 0, "{row:?}");
        row
    };
    // Few, because the test machine may be busy and a spinner gets a slice of it only now and then. Where it does not get even that,
    // it is given more time.
    let is_answered = |row: &Row| row.unanswered == 0 && row.samples >= 5;
    let mut row = once(workload.duration);
    for seconds in [1, 8] {
        if !is_answered(&row) {
            row = once(Duration::from_secs(seconds));
        }
    }
    assert!(is_answered(&row), "{row:?}");
    assert!(row.rtt_ns.min.unwrap() > 1_000, "no kernel answers within a microsecond: {row:?}");
    row
}

const ALL: [(Protocol, Waiting, &str); 4] = [
    (Protocol::Tcp, Waiting::Blocking, "kernel-tcp"),
    (Protocol::Tcp, Waiting::Spin, "kernel-tcp-spin"),
    (Protocol::Udp, Waiting::Blocking, "kernel-udp"),
    (Protocol::Udp, Waiting::Spin, "kernel-udp-spin"),
];

#[test]
fn one_request_at_a_time() {
    for (protocol, waiting, name) in ALL {
        let row = run(protocol, waiting, IdleState::Warm, workload());
        assert_eq!((row.system.as_str(), row.over.as_str()), (name, "loopback"));
        assert_eq!(row.idle_state, IdleState::Warm);
        let little = row.little.unwrap();
        // A busy test machine takes the client away between a response and the next send: never above 1. Only a response to a
        // request from before the measured time counts for more than its share of it, where the machine was away for long.
        let away = row.rtt_ns.max.unwrap() > 20_000_000;
        assert!((0.1..1.2).contains(&little) || away, "{row:?}");
    }
}

#[test]
fn a_window_over_several_connections() {
    for (protocol, waiting, _) in ALL {
        let row =
            run(protocol, waiting, IdleState::Warm, MsgWorkload { window: 16, connections: 4, ..workload() });
        assert_eq!((row.window, row.connections), (16, 4));
    }
}

#[test]
fn open_loop_at_a_modest_rate() {
    for (protocol, waiting, name) in ALL {
        let state = if name == "kernel-tcp" { IdleState::Cold } else { IdleState::Warm };
        let row =
            run(protocol, waiting, state, MsgWorkload { window: 64, rate: Some(1_000.0), ..workload() });
        assert_eq!(row.offered_per_s, Some(1_000.0));
        let (service, response) = (row.service_ns.unwrap(), row.response_ns.unwrap());
        assert!(response.max >= service.max, "{row:?}");
    }
}

#[test]
fn between_two_hosts() {
    if let Err(why) = barewire_lab::is_root_capable() {
        eprintln!("SKIPPED: baselines between two namespaces: needs root ({why})");
        return;
    }
    let config =
        TwoHostsConfig { label: None, twin: Some(LinkConfig::default()), ..TwoHostsConfig::default() };
    let hosts = Arc::new(TwoHosts::create(&config).unwrap());
    for (protocol, waiting, _) in ALL {
        let ends = Ends::hosts(&hosts);
        assert_eq!(ends.server_ip.to_string(), "10.78.0.2");
        let before = twin_packets(&hosts);
        let row = run_between(ends, protocol, waiting, IdleState::Warm, workload());
        assert_eq!(row.over, "veth");
        // Over the wire and nowhere else.
        assert!(twin_packets(&hosts) - before >= 2 * row.samples, "{row:?}");
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
    for waiting in [Waiting::Blocking, Waiting::Spin] {
        run(
            Protocol::Tcp,
            waiting,
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
    let refused = |protocol, w| {
        let mut cell = KernelCell::new(
            protocol,
            Waiting::Blocking,
            Ends::loopback(),
            None,
            w,
            IdleState::Warm,
            String::new(),
        );
        cell.run(0).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let size = refused(Protocol::Udp, MsgWorkload { size: 65_508, ..workload() });
    assert!(size.contains("65507"), "{size}");
    let connections = refused(Protocol::Tcp, MsgWorkload { window: 65, connections: 65, ..workload() });
    assert!(connections.contains("64"), "{connections}");
    let pinned = KernelCell::new(
        Protocol::Tcp,
        Waiting::Blocking,
        Ends::loopback(),
        Some((8_000, 8_000)),
        workload(),
        IdleState::Cold,
        String::new(),
    )
    .run(0);
    assert!(matches!(pinned, Err(CellError::Setup { .. })));
}
