use super::*;
use crate::patience::{until_seen, until_well};

fn cell(one_thread: bool, window: u32, teardown: bool, live: u64) -> LiveRun {
    LiveRun {
        over: Over::Mem,
        shape: Shape { hosts: 1, threads: 1, nics: 1 },
        one_thread,
        window,
        teardown,
        live,
        own_cq: true,
        warmup: WARMUP,
        duration: Duration::from_millis(150),
        cores: None,
        idle: None,
        steps: true,
    }
}

/// More connections than this say something. Threads that yield to others with much to do make few.
const ENOUGH: u64 = 100;

/// What came of it, and what was told meanwhile.
fn run_for(cell: LiveRun, duration: Duration) -> (LiveResult, Vec<String>) {
    let mut told = Vec::new();
    let result = run(&LiveRun { duration, ..cell }, None, &mut |line| told.push(line)).unwrap();
    // Of every run, those too that are repeated because they saw too little. Those under way when counting began were open by then.
    let under_way = u64::from(cell.window * cell.shape.clients());
    assert!(result.latency.samples() + under_way >= result.connections, "{}", result.connections);
    assert!(!cell.one_thread || result.failed == 0, "nobody waits for another's core: {}", result.failed);
    (result, told)
}

#[test]
fn connections_are_made_counted_and_closed() {
    for (one_thread, window, teardown, live) in
        [(true, 1, true, 0), (true, 16, false, 0), (false, 8, true, 0), (true, 4, true, 2000)]
    {
        let cell = cell(one_thread, window, teardown, live);
        let has_steps = |result: &LiveResult| result.steps.as_ref().is_some_and(|s| s[0].samples() > 10);
        let (result, _) = until_seen(
            cell.duration,
            |duration| run_for(cell, duration),
            |(result, _)| result.connections > ENOUGH && has_steps(result),
        );
        assert!(result.connections > ENOUGH, "{}", result.connections);
        assert_eq!(result.failed, 0);
        let frames = result.frames_per_connection.unwrap();
        let want = if teardown { 5.0 } else { 3.0 };
        let each = f64::from(window) / result.connections as f64;
        // Two threads that wait for each other's core repeat what they sent, once for each time that an answer may take: at both
        // ends, for each connection under way, and a repeated message brings up to two more.
        let timeout_s = barewire_roce::CmConfig::default().response_timeout.as_secs_f64();
        let turns = if one_thread { 0.0 } else { result.seconds / timeout_s + 2.0 };
        let (edges, repeats) = (want * each, 2.0 * 3.0 * each * turns);
        assert!(
            frames > want - 0.3 - edges && frames < want + 0.3 + repeats,
            "one_thread {one_thread}, teardown {teardown}: {frames} frames, {repeats} of them repeats at most"
        );
        let steps = result.steps.unwrap();
        assert!(steps[0].samples() > 10 && steps.iter().all(|s| s.samples() == steps[0].samples()));
        assert_eq!(result.bytes_per_live_qp.is_some(), live > 0);
    }
}

#[test]
fn several_clients_and_nics_share_the_work() {
    let shape = Shape { hosts: 2, threads: 2, nics: 2 };
    let cell = LiveRun { shape, steps: false, ..cell(false, 2, true, 0) };
    let has_line = |told: &[String]| told.iter().any(|line| line.contains("thpt : "));
    let (result, told) = until_seen(
        Duration::from_millis(1300),
        |duration| run_for(cell, duration),
        |(result, told)| result.connections > ENOUGH && has_line(told),
    );
    assert!(result.connections > ENOUGH && result.failed == 0);
    assert!(has_line(&told), "{told:?}");
}

#[test]
fn clients_that_only_open_begin_each_part_together() {
    let shape = Shape { hosts: 1, threads: 2, nics: 1 };
    let cell = LiveRun { shape, steps: false, ..cell(false, 8, false, 0) };
    let (result, _) = until_seen(
        cell.duration,
        |duration| run_for(cell, duration),
        |(result, _)| result.connections > ENOUGH && result.void().is_none(),
    );
    assert!(result.connections > ENOUGH, "{}", result.connections);
    // A machine that keeps one of them from its core may tear them apart, and then it is said.
    let told = result.void().is_none_or(|why| why.contains("at the same time for "));
    assert!(told && !result.windows.unwrap().is_empty());
}

#[test]
fn all_count_from_the_same_time_on_to_the_same_time() {
    let start = Start::default();
    let (ms, s) = (Duration::from_millis(5), Duration::from_secs(1));
    let first = start.window(ms, s);
    assert_eq!(first.1.since(first.0), s);
    assert_eq!(std::thread::scope(|scope| scope.spawn(|| start.window(ms, s)).join().unwrap()), first);
    let at = |from: u64, to: u64| LiveResult {
        connections: to - from,
        per_s: 1.0,
        windows: Some(vec![(Instant::from_nanos(from), Instant::from_nanos(to))]),
        longest: Duration::from_nanos(to - from),
        ..LiveResult::default()
    };
    let sum = |all: &[(u64, u64)]| {
        let mut sum = LiveResult::default();
        all.iter().for_each(|&(from, to)| sum.add(at(from, to)));
        sum
    };
    assert_eq!(sum(&[(0, 1000), (0, 1000), (50, 1000)]).void(), None);
    let apart = sum(&[(0, 1000), (60, 1000)]).void().unwrap();
    assert_eq!(apart, "client threads measured at the same time for 94 % of it, less than 95 %");
    assert!(sum(&[(0, 100), (200, 300)]).void().unwrap().contains("for 0 %"));
    assert_eq!(sum(&[(7, 9)]).void(), None, "one client is always with itself");
    assert_eq!(sum(&[]).void(), None);
    // A row of another host is added to this one where both were measured at the same time.
    let told = sum(&[(0, 1000), (60, 1000)]).measured().when.unwrap();
    assert_eq!(told.end_unix_ns - told.begin_unix_ns, 940);
}

#[test]
fn a_port_says_how_many_frames_it_carries() {
    let rate = until_well(|| port_frames_per_s(Over::Mem, None, None).unwrap(), |&rate| rate > 10_000.0);
    assert!(rate > 10_000.0, "{rate}");
}
