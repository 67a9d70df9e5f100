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

/// A request to a peer that hears nothing, whose packet waits for room in a port.
fn waiting() -> (Pair, Qpn) {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    p.ends[0].ep.number_frame(7);
    p.ends[0].waiting = (7, 1);
    p.filter = Box::new(|_, _| false);
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey: p.ends[1].mr.rkey }, 0, 10);
    (p, a)
}

/// What waits for room in a full port has not been sent: nobody is silent, and nothing is repeated.
#[test]
fn no_time_passes_while_a_packet_waits_for_the_port() {
    let (mut p, _) = waiting();
    p.run_for(Duration::from_secs(9));
    assert_eq!(p.ends[0].completions(), []);
    let repeated = |p: &Pair| {
        let counters = p.ends[0].ep.counters();
        (counters.timeouts.get(), counters.packets_resent.get())
    };
    assert_eq!(repeated(&p), (0, 0));
    // It leaves, and its time begins.
    p.ends[0].waiting = (8, 1);
    p.filter = Box::new(|_, _| true);
    p.run_for(Duration::from_millis(32));
    assert_eq!(repeated(&p), (0, 0));
    p.run_for(Duration::from_secs(1));
    assert_eq!(p.ends[0].completions()[0].status, WcStatus::Success);
    assert_eq!(repeated(&p), (1, 1));
}

/// A port that is full for ever, or a peer that is dead behind one that others keep full, is found out.
#[test]
fn a_port_that_stays_full_is_a_fault() {
    let (mut p, a) = waiting();
    let silence = silence_max(13, 7, Duration::ZERO).unwrap();
    p.run_for(Duration::from_secs(10) + silence + Duration::from_millis(200));
    assert_eq!(p.ends[0].completions()[0].status, WcStatus::RetryExceeded);
    assert_eq!(p.ends[0].ep.query_qp(a).unwrap().state, QpState::Err);
}

/// A port may be full of what others send: what has left is answered or lost, as ever.
#[test]
fn what_has_left_is_not_put_off_by_what_waits() {
    let (mut p, _) = waiting();
    p.ends[0].waiting = (8, 1000);
    p.run_for(silence_max(13, 7, Duration::ZERO).unwrap() + Duration::from_millis(10));
    assert_eq!(p.ends[0].completions()[0].status, WcStatus::RetryExceeded);
}

/// Whoever stands still for long does not give up what it has not offered the port once.
#[test]
fn standing_still_uses_nothing_up() {
    let (mut p, _) = waiting();
    p.run_for(Duration::from_secs(5));
    p.now += Duration::from_secs(20);
    let (now, waiting) = (p.now, p.ends[0].waiting);
    p.ends[0].ep.handle_timeout_behind(now, || waiting);
    p.run_for(Duration::from_secs(4));
    assert_eq!(p.ends[0].ep.counters().timeouts.get(), 0);
    p.run_for(Duration::from_secs(2));
    assert!(p.ends[0].ep.counters().timeouts.get() > 0);
}

/// The same for the messages that make a connection.
#[test]
fn a_message_of_the_connection_manager_that_waits_is_not_repeated() {
    let mut p = Pair::new();
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    p.filter = Box::new(|_, _| false);
    p.ends[0].waiting = (0, 1);
    p.ask(&[]);
    p.run_for(Duration::from_secs(9));
    assert_eq!(p.ends[0].ep.counters().cm_resent.get(), 0);
    assert_eq!(p.ends[0].take_events(), []);
    // For ever it is not waited either.
    p.run_for(Duration::from_secs(120));
    assert!(p.ends[0].ep.counters().cm_resent.get() > 0);
    let failed = |event: &Event| matches!(event, Event::ConnectFailed { .. });
    assert!(p.ends[0].take_events().iter().any(failed));
}
