//! What `timeout` and `retry_count` mean: when each packet is sent again, and when a silent peer is given up.

mod common;
use barewire_base::Duration;
use barewire_roce::*;
use common::*;
use std::cell::RefCell;
use std::rc::Rc;

/// When the same request was sent, counted from the first time, and when it failed.
fn silence(timeout: u8, retry_count: u8, patience: Duration) -> (Vec<u64>, u64) {
    let mut config = Config { patience, ..config(1) };
    (config.cm.ack_timeout, config.cm.retry_count) = (timeout, retry_count);
    let mut p = Pair::with(config, common::config(2));
    let [(_, a), _] = p.connect();
    let start = p.now;
    let clock = Rc::new(RefCell::new((start, Vec::new())));
    let times = clock.clone();
    p.filter = Box::new(move |_, _| {
        let mut times = times.borrow_mut();
        let now = times.0;
        times.1.push(now.since(start).as_nanos());
        false
    });
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey: p.ends[1].mr.rkey }, 0, 10);
    let failed = loop {
        p.exchange();
        if let Some(wc) = p.ends[0].completions().first() {
            assert_eq!(wc.status, WcStatus::RetryExceeded);
            break p.now.since(start).as_nanos();
        }
        let next = p.ends[0].ep.poll_timeout().expect("a queue pair that waits has a time-out");
        p.now = p.now.max(next);
        clock.borrow_mut().0 = p.now;
        p.ends[0].ep.handle_timeout(p.now);
    };
    let sent = clock.borrow().1.clone();
    (sent, failed)
}

/// The times are multiples of the time-out, but for the ticks of the timers.
fn in_timeouts(ns: u64, timeout: u8) -> u64 {
    let (one, tick) = (4_096u64 << timeout, 20_000);
    let times = ns / one;
    assert!(ns % one <= tick * 32, "{ns} is no multiple of {one}");
    times
}

/// The specification lets each wait last from the time-out to four times as long (section 9.7.6.1.3).
#[test]
fn every_wait_is_one_that_the_specification_allows() {
    for timeout in [8, 10, 13, 14, 18] {
        for retries in 0..=7u8 {
            let (sent, failed) = silence(timeout, retries, Duration::ZERO);
            let mut times: Vec<u64> = sent.iter().map(|&ns| in_timeouts(ns, timeout)).collect();
            times.push(in_timeouts(failed, timeout));
            let want = [0, 1, 3, 7, 11, 15, 19, 23, 27];
            assert_eq!(times, want[..usize::from(retries) + 2], "time-out {timeout}, {retries} retries");
            let told = silence_max(timeout, retries, Duration::ZERO).unwrap().as_nanos();
            assert_eq!(
                told,
                want[usize::from(retries) + 1] * (4_096 << timeout),
                "what is told is what is done"
            );
        }
    }
}

/// Whoever would rather wait out longer silences says so.
#[test]
fn patience_lets_waits_grow() {
    let (sent, failed) = silence(10, 7, Duration::from_millis(500));
    let one = 4_096u64 << 10;
    assert_eq!(sent.len(), 8);
    assert_eq!(
        sent[1..].iter().map(|&ns| in_timeouts(ns, 10)).collect::<Vec<_>>(),
        [1, 3, 7, 15, 31, 63, 127]
    );
    assert!(failed > 127 * one + 499_000_000 && failed < 127 * one + 502_000_000, "{failed}");
    let told = silence_max(10, 7, Duration::from_millis(500)).unwrap().as_nanos();
    assert!(failed.abs_diff(told) < 2_000_000, "{failed}, and {told} was told");
    // Less than the specification's own bounds changes nothing.
    assert_eq!(silence(14, 3, Duration::from_millis(1)).0.len(), 4);
    assert_eq!(in_timeouts(silence(14, 3, Duration::from_millis(1)).1, 14), 11);
}

/// No time-out, no error: as the specification has it.
#[test]
fn never_is_never() {
    assert_eq!(silence_max(0, 7, Duration::ZERO), None);
    let mut config = config(1);
    config.cm.ack_timeout = 0;
    let mut p = Pair::with(config, common::config(2));
    let [(_, a), _] = p.connect();
    p.filter = Box::new(|_, _| false);
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey: p.ends[1].mr.rkey }, 0, 10);
    p.run_for(Duration::from_secs(1000));
    assert_eq!(p.ends[0].completions(), []);
    assert_eq!(p.ends[0].ep.query_qp(a).unwrap().state, QpState::Rts);
}

/// What waits for room in a full port has not been sent: nobody is silent, and nothing is repeated.
#[test]
fn no_time_passes_while_the_port_is_full() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    p.ends[0].ep.hold_timeouts(true);
    let full = Rc::new(RefCell::new(true));
    let is_full = full.clone();
    p.filter = Box::new(move |_, _| !*is_full.borrow());
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey: p.ends[1].mr.rkey }, 0, 10);
    p.run_for(Duration::from_secs(30));
    assert_eq!(p.ends[0].completions(), []);
    let counters = p.ends[0].ep.counters();
    assert_eq!((counters.timeouts.get(), counters.packets_resent.get()), (0, 0));
    // It has room again, and the time begins.
    *full.borrow_mut() = false;
    p.ends[0].ep.hold_timeouts(false);
    p.run_for(Duration::from_secs(1));
    assert_eq!(p.ends[0].completions()[0].status, WcStatus::Success);
    assert_eq!(p.ends[0].ep.counters().packets_resent.get(), 1);
}
