//! The driver against a mock system in virtual time: every figure has one right value.

use barewire_base::{Duration, Instant};
use barewire_bench::{
    Arrivals, Clock, Driver, DriverError, MsgWorkload, RequestResponse, RunResult, SystemError, Void, Wait,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
/// Each reading of the clock takes this long, so that no loop can stand still.
const TICK: u64 = 10;

#[derive(Clone, Default)]
struct VirtualClock {
    now: Rc<Cell<u64>>,
    /// Sleeps end so much later than asked for.
    oversleep: u64,
    /// The thread is not running within this span: a reading that falls into it returns its end.
    absent: Range<u64>,
}

impl Clock for VirtualClock {
    fn now(&mut self) -> Instant {
        let mut now = self.now.get() + TICK;
        if self.absent.contains(&now) {
            now = self.absent.end;
        }
        self.now.set(now);
        Instant::from_nanos(now)
    }
}

/// Answers each request after `delay` with its own bytes, except where told to misbehave.
struct Mock {
    now: Rc<Cell<u64>>,
    delay: u64,
    /// Requests sent in this span take this much longer.
    slow: Range<u64>,
    slow_by: u64,
    /// No send is taken in this span.
    refuses: Range<u64>,
    /// Responses that would arrive from here on never do.
    dead_from: u64,
    /// One in so many requests is lost, answered twice, damaged, answered elsewhere, cut short; 0 for none.
    lose: u64,
    twice: u64,
    damage: u64,
    misroute: u64,
    cut: u64,
    lossy: bool,
    requests: u64,
    in_flight: VecDeque<(u64, u32, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    most_in_flight: usize,
    per_connection: [u64; 8],
    /// As of the clock.
    oversleep: u64,
}

fn one_in(n: u64, count: u64) -> bool {
    n > 0 && count % n == n - 1
}

impl Mock {
    fn new(clock: &VirtualClock, delay: u64) -> Mock {
        Mock {
            now: clock.now.clone(),
            delay,
            slow: 0..0,
            slow_by: 0,
            refuses: 0..0,
            dead_from: u64::MAX,
            lose: 0,
            twice: 0,
            damage: 0,
            misroute: 0,
            cut: 0,
            lossy: false,
            requests: 0,
            in_flight: VecDeque::with_capacity(1024),
            spare: (0..1024).map(|_| Vec::with_capacity(2048)).collect(),
            most_in_flight: 0,
            per_connection: [0; 8],
            oversleep: clock.oversleep,
        }
    }

    fn answer(&mut self, at: u64, connection: u32, message: &[u8]) {
        let mut copy = self.spare.pop().expect("the mock has room");
        copy.clear();
        copy.extend_from_slice(message);
        self.in_flight.push_back((at, connection, copy));
    }
}

impl RequestResponse for Mock {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        let now = self.now.get();
        if self.refuses.contains(&now) {
            return Ok(false);
        }
        self.per_connection[connection as usize] += 1;
        let count = self.requests;
        self.requests += 1;
        if one_in(self.lose, count) {
            return Ok(true);
        }
        let at = now + self.delay + if self.slow.contains(&now) { self.slow_by } else { 0 };
        if at >= self.dead_from {
            return Ok(true);
        }
        let to = if one_in(self.misroute, count) { connection + 1 } else { connection };
        let len = if one_in(self.cut, count) { message.len() - 1 } else { message.len() };
        self.answer(at, to, &message[..len]);
        if one_in(self.damage, count) {
            let last = self.in_flight.back_mut().unwrap().2.last_mut().unwrap();
            *last ^= 1;
        }
        if one_in(self.twice, count) {
            self.answer(at, connection, message);
        }
        self.most_in_flight = self.most_in_flight.max(self.in_flight.len());
        Ok(true)
    }

    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        if let Wait::AtMost(time) = wait {
            let mut wake = self.now.get() + time.as_nanos() + self.oversleep;
            if let Some(&(at, ..)) = self.in_flight.front() {
                wake = wake.min(at);
            }
            if self.refuses.contains(&self.now.get()) {
                wake = wake.min(self.refuses.end);
            }
            self.now.set(wake.max(self.now.get()));
        }
        let mut answered = 0;
        while self.in_flight.front().is_some_and(|&(at, ..)| at <= self.now.get()) {
            let (_, connection, message) = self.in_flight.pop_front().unwrap();
            on_response(connection, &message);
            self.spare.push(message);
            answered += 1;
        }
        Ok(answered)
    }

    fn resend_after(&self) -> Option<Duration> {
        self.lossy.then_some(Duration::from_millis(1))
    }
}

fn workload() -> MsgWorkload {
    MsgWorkload {
        size: 64,
        duration: Duration::from_secs(1),
        warmup: Duration::from_millis(100),
        ..MsgWorkload::default()
    }
}

fn drive(clock: &VirtualClock, mock: &mut Mock, workload: &MsgWorkload) -> Result<RunResult, DriverError> {
    let mut driver = Driver::new(mock, workload, clock.clone())?;
    driver.drive()?;
    Ok(driver.finish())
}

fn p50(result: &RunResult) -> u64 {
    result.service.quantile(0.5).value().unwrap()
}

#[test]
fn closed_loop_of_one_has_the_systems_time_and_its_inverse_as_rate() {
    let clock = VirtualClock::default();
    let result = drive(&clock, &mut Mock::new(&clock, 10 * US), &workload()).unwrap();
    assert!((10_000..10_100).contains(&p50(&result)), "{}", p50(&result));
    assert!(result.service.max().unwrap() < 10_100);
    let rate = result.rate_per_s();
    assert!((98_500.0..100_000.0).contains(&rate), "{rate}");
    assert!(result.service.samples().abs_diff(result.counts.completed) <= 1);
    assert_eq!(result.counts.sends, result.service.samples());
    assert!(result.response.is_none());
    assert_eq!(result.void(), None);
    let little = barewire_measure::little_law_check(1, rate, result.service.mean().unwrap());
    assert!((little - 1.0).abs() < 0.02, "{little}");
}

#[test]
fn a_window_is_kept_full_and_spread_over_its_connections() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * US);
    let w = MsgWorkload { window: 32, connections: 4, verify: true, ..workload() };
    let result = drive(&clock, &mut mock, &w).unwrap();
    assert_eq!(mock.most_in_flight, 32);
    let used = &mock.per_connection[..4];
    assert_eq!(used.iter().sum::<u64>(), mock.requests);
    assert!(used.iter().max().unwrap() - used.iter().min().unwrap() <= 8, "{used:?}");
    assert_eq!(mock.per_connection[4..], [0; 4]);
    let little = barewire_measure::little_law_check(32, result.rate_per_s(), result.service.mean().unwrap());
    assert!((little - 1.0).abs() < 0.15, "{little}");
    assert_eq!(result.void(), None);
}

#[test]
fn warm_up_leaves_no_trace() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * US);
    (mock.slow, mock.slow_by) = (0..95 * MS, MS);
    let result = drive(&clock, &mut mock, &workload()).unwrap();
    assert!(result.service.max().unwrap() < 10_100, "{:?}", result.service.max());
}

#[test]
fn a_stall_across_the_end_of_the_run_is_recorded() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * US);
    // Sent in the last millisecond, answered half a second after the measured time.
    (mock.slow, mock.slow_by) = (1_099 * MS..1_100 * MS, 500 * MS);
    let result = drive(&clock, &mut mock, &workload()).unwrap();
    assert!(result.service.max().unwrap() >= 500 * MS, "{:?}", result.service.max());
    assert_eq!(result.service.samples(), result.counts.sends);
    assert_eq!(result.void(), None);
}

fn open(rate: f64) -> MsgWorkload {
    MsgWorkload { rate: Some(rate), window: 256, ..workload() }
}

#[test]
fn open_loop_keeps_its_schedule_when_nothing_stalls() {
    for (arrivals, sends) in [(Arrivals::Cbr, 10_000..=10_000), (Arrivals::Poisson, 9_600..=10_400)] {
        let clock = VirtualClock::default();
        let w = MsgWorkload { arrivals, ..open(10_000.0) };
        let result = drive(&clock, &mut Mock::new(&clock, 20 * US), &w).unwrap();
        assert!(sends.contains(&result.counts.sends), "{:?}", result.counts);
        assert_eq!((result.counts.behind, result.counts.late_by_generator), (0, 0));
        let response = result.response.as_ref().unwrap();
        assert_eq!(response.samples(), result.service.samples());
        assert!(response.max().unwrap() < 21 * US, "{:?}", response.max());
        assert!(p50(&result) >= 20 * US);
        assert_eq!(result.void(), None);
    }
}

#[test]
fn a_stall_of_the_system_is_in_the_response_times_and_not_in_the_service_times() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 20 * US);
    mock.refuses = 500 * MS..550 * MS;
    let result = drive(&clock, &mut mock, &open(10_000.0)).unwrap();
    assert_eq!(result.counts.sends, 10_000);
    assert!(result.service.max().unwrap() < 100 * US, "{:?}", result.service.max());
    let response = result.response.as_ref().unwrap();
    assert!((49 * MS..51 * MS).contains(&response.max().unwrap()), "{:?}", response.max());
    // 50 ms at 10,000/s hold 500 requests back; all but the last ten or so by more than a millisecond.
    let late: u64 = response.buckets().filter(|&(ns, _)| ns > MS).map(|(_, n)| n).sum();
    assert!((485..=495).contains(&late), "{late}");
    assert!((480..=495).contains(&result.counts.behind), "{:?}", result.counts);
    assert_eq!(result.counts.late_by_generator, 0);
    assert_eq!(result.void(), None);
}

#[test]
fn a_full_window_holds_requests_back_like_a_refused_send() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 20 * US);
    (mock.slow, mock.slow_by) = (500 * MS..500 * MS + 90 * US, 50 * MS);
    let w = MsgWorkload { window: 1, ..open(10_000.0) };
    let result = drive(&clock, &mut mock, &w).unwrap();
    let long = |h: &barewire_measure::Histogram| h.buckets().filter(|b| b.0 > MS).map(|b| b.1).sum::<u64>();
    assert_eq!(long(&result.service), 1);
    assert!(long(result.response.as_ref().unwrap()) > 400);
    assert_eq!((result.counts.late_by_generator, result.void()), (0, None));
}

#[test]
fn a_generator_that_was_away_voids_the_run_and_a_system_that_was_away_does_not() {
    let clock = VirtualClock { absent: 500 * MS..550 * MS, ..VirtualClock::default() };
    let result = drive(&clock, &mut Mock::new(&clock, 20 * US), &open(10_000.0)).unwrap();
    assert!((480..=500).contains(&result.counts.late_by_generator), "{:?}", result.counts);
    // The first of a burst that catches up may be late only for the sends before it.
    assert!(result.counts.behind - result.counts.late_by_generator <= 2, "{:?}", result.counts);
    assert!(matches!(result.void(), Some(Void::GeneratorLate { percent }) if (4.8..5.0).contains(&percent)));
    // Ten milliseconds in a second are 90 sends too late: less than one percent.
    let clock = VirtualClock { absent: 500 * MS..510 * MS, ..VirtualClock::default() };
    let result = drive(&clock, &mut Mock::new(&clock, 20 * US), &open(10_000.0)).unwrap();
    assert!((85..=95).contains(&result.counts.late_by_generator), "{:?}", result.counts);
    assert_eq!(result.void(), None);
}

/// Less than a millisecond late counts as sent on schedule; late every time it is the generator's time that is measured.
#[test]
fn a_generator_that_is_always_a_little_late_voids_the_run() {
    let run = |late, delay| {
        // The last 100 us before a send are spent awake.
        let clock = VirtualClock { oversleep: 100 * US + late, ..VirtualClock::default() };
        drive(&clock, &mut Mock::new(&clock, delay), &open(1_000.0)).unwrap()
    };
    let lag = |result: &RunResult| result.send_lag.as_ref().unwrap().quantile(0.5).value().unwrap();
    // 0.8 ms late each time, and a system of 20 us: the response is the generator's.
    let result = run(800 * US, 20 * US);
    assert_eq!((result.counts.behind, result.counts.late_by_generator), (0, 0));
    assert!((795 * US..=805 * US).contains(&lag(&result)), "{}", lag(&result));
    assert!(result.response.as_ref().unwrap().quantile(0.5).value().unwrap() > 800 * US);
    let void = result.void();
    assert!(matches!(void, Some(Void::SendsLag { limit_ns: 10_000, .. })), "{void:?}");
    assert!(void.unwrap().to_string().starts_with("the generator was late by 80"), "{}", void.unwrap());
    // 8 us are within what is allowed always; 15 us are too much for a fast system, and not for one of 80 us.
    assert_eq!(run(8 * US, 20 * US).void(), None);
    let clock = VirtualClock { oversleep: 90 * US, ..VirtualClock::default() };
    let punctual = drive(&clock, &mut Mock::new(&clock, 20 * US), &open(1_000.0)).unwrap();
    assert!(lag(&punctual) < US, "a sleep that ends late by less is nobody's: {}", lag(&punctual));
    assert!(matches!(run(15 * US, 20 * US).void(), Some(Void::SendsLag { .. })));
    let slow = run(15 * US, 80 * US);
    assert!((14 * US..17 * US).contains(&lag(&slow)), "{}", lag(&slow));
    assert_eq!(slow.void(), None);
}

/// What the system holds back is its doing: it is in no send lag.
#[test]
fn sends_that_were_held_back_are_not_the_generators_lag() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 20 * US);
    // Longer than half of the measured time.
    mock.refuses = 200 * MS..900 * MS;
    let result = drive(&clock, &mut mock, &open(10_000.0)).unwrap();
    let lag = result.send_lag.as_ref().unwrap();
    assert!((2_900..3_200).contains(&lag.samples()), "{}", lag.samples());
    assert!(lag.max().unwrap() < 10 * US, "{:?}", lag.max());
    assert_eq!(result.void(), None);
    // A closed loop has no schedule to be late for.
    assert!(drive(&clock, &mut Mock::new(&clock, 10 * US), &workload()).unwrap().send_lag.is_none());
}

#[test]
fn damage_is_found_when_asked_for() {
    let run = |verify, set: &dyn Fn(&mut Mock)| {
        let clock = VirtualClock::default();
        let mut mock = Mock::new(&clock, 10 * US);
        set(&mut mock);
        let w = MsgWorkload { verify, window: 4, connections: 2, warmup: Duration::ZERO, ..workload() };
        let result = drive(&clock, &mut mock, &w).unwrap();
        (result.counts.mismatches, mock.requests, result.void())
    };
    let (found, requests, void) = run(true, &|m| m.damage = 100);
    assert_eq!(found, requests / 100);
    assert!(found > 1_000);
    assert_eq!(void, Some(Void::Mismatches(found)));
    assert_eq!(run(false, &|m| m.damage = 100).0, 0);
    assert_eq!(run(true, &|_| {}).0, 0);
    // Structure is checked always.
    let (found, requests, _) = run(false, &|m| m.misroute = 100);
    assert_eq!(found, requests / 100);
    let (found, requests, _) = run(false, &|m| m.cut = 100);
    assert_eq!(found, requests / 100);
    let (found, requests, _) = run(false, &|m| m.twice = 100);
    assert_eq!(found, requests / 100);
}

#[test]
fn a_lossy_system_is_asked_again() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * US);
    (mock.lossy, mock.lose, mock.twice) = (true, 10, 7);
    let w = MsgWorkload { window: 8, verify: true, ..workload() };
    let result = drive(&clock, &mut mock, &w).unwrap();
    assert!(result.counts.resends >= mock.requests / 10 - 8, "{:?}", result.counts);
    assert!(result.counts.stale > 0, "{:?}", result.counts);
    assert_eq!((result.counts.unanswered, result.counts.mismatches), (0, 0));
    assert_eq!(result.void(), None);
    // A request that was sent twice is timed from its first send.
    assert!(result.service.max().unwrap() >= MS);
}

#[test]
fn requests_never_answered_void_the_run_and_a_dead_system_ends_it() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * US);
    mock.dead_from = 1_000 * MS;
    let w = MsgWorkload { window: 3, ..workload() };
    let result = drive(&clock, &mut mock, &w).unwrap();
    assert_eq!(result.counts.unanswered, 3);
    assert_eq!(result.void(), Some(Void::Unanswered(3)));

    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * US);
    mock.dead_from = 1_000 * MS;
    let w = MsgWorkload { window: 3, duration: Duration::from_secs(60), ..workload() };
    assert!(matches!(drive(&clock, &mut mock, &w), Err(DriverError::Stalled { outstanding: 3 })));
    assert!(clock.now.get() < 12 * S, "gave up at {}", clock.now.get());

    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * US);
    mock.refuses = 0..u64::MAX;
    assert!(matches!(
        drive(&clock, &mut mock, &MsgWorkload { duration: Duration::from_secs(60), ..workload() }),
        Err(DriverError::Stalled { outstanding: 0 })
    ));
}

#[test]
fn bad_workloads_are_refused_before_anything_is_sent() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * US);
    let w = MsgWorkload { size: 4, ..workload() };
    assert!(matches!(drive(&clock, &mut mock, &w), Err(DriverError::Workload(_))));
    assert_eq!(mock.requests, 0);
}

#[test]
fn the_loop_does_not_allocate() {
    for w in [
        MsgWorkload { window: 32, verify: true, ..workload() },
        MsgWorkload { arrivals: Arrivals::Poisson, ..open(50_000.0) },
    ] {
        let clock = VirtualClock::default();
        let mut mock = Mock::new(&clock, 10 * US);
        (mock.lossy, mock.lose) = (true, 100);
        let mut driver = Driver::new(&mut mock, &w, clock.clone()).unwrap();
        let counted = allocation_counter::measure(|| driver.drive().unwrap());
        assert_eq!(counted.count_total, 0);
        assert!(driver.finish().counts.resends > 0);
    }
}

/// Delivers whatever bytes it was given, once per poll, then answers honestly.
struct Babbler {
    clock: VirtualClock,
    bytes: VecDeque<(u32, Vec<u8>)>,
    pending: Option<(u32, Vec<u8>)>,
}

impl RequestResponse for Babbler {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        self.pending = Some((connection, message.to_vec()));
        Ok(true)
    }
    fn poll(&mut self, _: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        self.clock.now.set(self.clock.now.get() + 10 * US);
        if let Some((connection, bytes)) = self.bytes.pop_front() {
            on_response(connection, &bytes);
        } else if let Some((connection, bytes)) = self.pending.take() {
            on_response(connection, &bytes);
        } else {
            return Ok(0);
        }
        Ok(1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_response_can_break_the_driver(
        bytes in prop::collection::vec((0u32..3, prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..80)), 0..40),
    ) {
        let clock = VirtualClock::default();
        let garbage = bytes.len() as u64;
        let mut system = Babbler { clock: clock.clone(), bytes: bytes.into(), pending: None };
        let w = MsgWorkload { warmup: Duration::ZERO, duration: Duration::from_millis(10), ..workload() };
        let mut driver = Driver::new(&mut system, &w, clock).unwrap();
        driver.drive().unwrap();
        let result = driver.finish();
        // Garbage is at most taken for the one request outstanding, and then its answer for the garbage.
        prop_assert!(result.counts.mismatches >= garbage.saturating_sub(2) && result.counts.mismatches <= garbage + 2);
        prop_assert!(result.counts.completed > 0);
    }
}

#[test]
fn a_warm_up_waits_until_the_median_stands_still() {
    // Slow for the first 60 ms, then as it stays.
    let run = |warmup_max: Duration, slow: Range<u64>| {
        let clock = VirtualClock::default();
        let mut mock = Mock { slow, slow_by: 40 * US, ..Mock::new(&clock, 10 * US) };
        let w = MsgWorkload { warmup: Duration::from_millis(10), warmup_max, ..workload() };
        let result = drive(&clock, &mut mock, &w).unwrap();
        (result.settled, result.service.max().unwrap(), result.counts.completed, clock.now.get())
    };
    let (settled, longest, completed, ended) = run(Duration::from_secs(5), 0..60 * MS);
    assert_eq!(settled, Some(true));
    assert!(longest < 20 * US, "nothing of the slow part was measured: {longest}");
    assert!(completed > 50_000, "a whole second was measured: {completed}");
    assert!(ended > S + 110 * MS && ended < S + 400 * MS, "{ended}");
    // The bound comes first.
    let (settled, longest, _, ended) = run(Duration::from_millis(30), 0..60 * MS);
    assert_eq!(settled, Some(false));
    assert!(longest > 40 * US && ended < S + 50 * MS, "{longest} {ended}");
    // A fixed warm-up asks nothing.
    assert_eq!(run(Duration::ZERO, 0..1).0, None);
}

#[test]
fn a_schedule_far_beyond_the_system_ends_soon_and_says_what_was_never_sent() {
    let clock = VirtualClock::default();
    let mut mock = Mock::new(&clock, 10 * MS);
    // One at a time, 100 a second; asked for 10,000 a second.
    let w = MsgWorkload { window: 1, ..open(10_000.0) };
    let result = drive(&clock, &mut mock, &w).unwrap();
    assert!(clock.now.get() < 4 * S, "{}", clock.now.get());
    let counts = result.counts;
    assert!(counts.unsent > 9_000 && counts.sends + counts.unsent <= 10_010, "{counts:?}");
    // The instrument did as it was told: what the system did not carry is a result.
    assert_eq!(result.void(), None);
    let overload = result.overload().unwrap();
    assert_eq!((overload.unsent, overload.due), (counts.unsent, counts.sends + counts.unsent));
    assert!(overload.to_string().ends_with("% of the requests were due and never sent"), "{overload}");
}
