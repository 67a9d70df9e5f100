//! Sleeping and waking, on both sides.

use crate::sys::{self, TimeLeft};
use crate::*;
use barewire_base::Prng;
use std::thread;
use std::time::Duration;

const GEOMETRY: Geometry = Geometry { sq_entries: 8, cq_entries: 8, send_bytes: 4096, recv_bytes: 4096 };
/// A wake-up that does not come by then is lost.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn pair() -> (DaemonChannel, AppChannel) {
    let (daemon, fds) = DaemonChannel::create(GEOMETRY).unwrap();
    (daemon, AppChannel::attach(fds).unwrap())
}

/// Sleeps as an engine does. Panics when nobody wakes it.
fn sleep(daemon: &mut DaemonChannel) {
    if daemon.prepare_wait() {
        let woken = sys::poll(daemon.wake_fd(), &mut TimeLeft::new(PATIENCE)).unwrap();
        assert!(woken.is_some(), "the daemon's wake-up is lost");
    }
    daemon.finish_wait();
}

fn is_readable(fd: std::os::fd::BorrowedFd<'_>) -> bool {
    sys::poll(fd, &mut TimeLeft::new(Some(Duration::ZERO))).unwrap().is_some()
}

#[test]
fn nothing_happens_before_flush_and_nobody_is_woken_who_is_awake() {
    let (mut daemon, mut app) = pair();
    assert!(app.submit(&Request::Close { flow: 1 }));
    assert!(daemon.next_request().is_none());
    app.flush();
    assert!(!daemon.prepare_wait(), "a request came before the flag was up: nobody will ring for it");
    daemon.finish_wait();
    assert_eq!(daemon.next_request(), Some(Ok(Request::Close { flow: 1 })));
    assert!(!is_readable(daemon.wake_fd()));

    assert!(daemon.complete(&Completion::Closed { flow: 1, reason: 2 }));
    assert!(app.next_completion().is_none());
    daemon.flush();
    assert!(app.has_completion());
    assert_eq!(app.next_completion(), Some(Ok(Completion::Closed { flow: 1, reason: 2 })));
    assert!(!app.has_completion());
    assert!(!is_readable(app.event_fd()));
    assert_eq!(app.wait(Some(Duration::from_millis(1))).unwrap(), Wake::TimedOut);
}

#[test]
fn rings_fill_and_empty_by_exact_counts() {
    let (mut daemon, mut app) = pair();
    for lap in 0..5 {
        assert_eq!((0..20).take_while(|&flow| app.submit(&Request::Close { flow })).count(), 8);
        app.flush();
        assert!(!app.submit(&Request::Close { flow: 99 }), "full, also after publishing");
        for flow in 0..8 {
            assert_eq!(daemon.next_request(), Some(Ok(Request::Close { flow })));
            assert_eq!(daemon.cq_room(), 8 - flow as usize);
            assert!(daemon.complete(&Completion::Closed { flow, reason: lap }));
        }
        assert!(!daemon.complete(&Completion::Closed { flow: 99, reason: lap }));
        assert!(!daemon.cq_has_room(1) && daemon.cq_has_room(0) && daemon.cq_room() == 0);
        // Taken requests come back with the flush, though the daemon never saw an empty SQ.
        assert!(!app.submit(&Request::Close { flow: 99 }));
        daemon.flush();
        let got: Vec<_> = std::iter::from_fn(|| app.next_completion()).collect();
        let want: Vec<_> = (0..8).map(|flow| Ok(Completion::Closed { flow, reason: lap })).collect();
        assert_eq!(got, want);
        assert_eq!(daemon.cq_room(), 8);
    }
}

#[test]
fn a_parked_application_is_woken() {
    let (mut daemon, mut app) = pair();
    let waiter = thread::spawn(move || (app.wait(PATIENCE).unwrap(), app.next_completion(), app));
    thread::sleep(Duration::from_millis(30));
    assert!(daemon.complete(&Completion::Closed { flow: 7, reason: 0 }));
    daemon.flush();
    let (wake, completion, mut app) = waiter.join().unwrap();
    assert_eq!((wake, completion), (Wake::Ready, Some(Ok(Completion::Closed { flow: 7, reason: 0 }))));

    // The same with an epoll of the user's.
    assert!(app.arm());
    assert!(!is_readable(app.event_fd()));
    assert!(daemon.complete(&Completion::Closed { flow: 8, reason: 0 }));
    daemon.flush();
    assert!(is_readable(app.event_fd()));
    app.disarm();
    assert!(!is_readable(app.event_fd()));
    assert!(!app.arm(), "there is a completion to take first");
    assert_eq!(app.next_completion(), Some(Ok(Completion::Closed { flow: 8, reason: 0 })));
}

#[test]
fn a_parked_daemon_is_woken() {
    let (mut daemon, mut app) = pair();
    let waiter = thread::spawn(move || {
        sleep(&mut daemon);
        let request = daemon.next_request();
        // Whoever was woken can sleep again.
        let drained = daemon.prepare_wait() && !is_readable(daemon.wake_fd());
        daemon.finish_wait();
        (request, drained)
    });
    thread::sleep(Duration::from_millis(30));
    assert!(app.submit(&Request::Close { flow: 7 }));
    app.flush();
    assert_eq!(waiter.join().unwrap(), (Some(Ok(Request::Close { flow: 7 })), true));
}

#[test]
fn a_daemon_that_found_no_room_is_woken_by_room() {
    let (mut daemon, mut app) = pair();
    while daemon.complete(&Completion::Closed { flow: 0, reason: 0 }) {}
    let waiter = thread::spawn(move || {
        sleep(&mut daemon);
        assert!(daemon.complete(&Completion::Closed { flow: 1, reason: 0 }));
        daemon.flush();
        // More than the ring has is never there, and does not keep the daemon from sleeping.
        assert!(!daemon.cq_has_room(9));
        assert!(daemon.prepare_wait());
        daemon.finish_wait();
        daemon
    });
    thread::sleep(Duration::from_millis(30));
    let mut taken = 0;
    while taken < 9 {
        assert_eq!(app.wait(PATIENCE).unwrap(), Wake::Ready);
        while app.next_completion().is_some() {
            taken += 1;
        }
    }
    waiter.join().unwrap();
}

#[test]
fn a_daemon_that_waits_for_room_lets_requests_lie() {
    let (mut daemon, mut app) = pair();
    // All room is spoken for, and a request that is held back stands before another.
    for flow in 0..8 {
        assert!(daemon.complete(&Completion::Closed { flow, reason: 0 }));
    }
    daemon.flush();
    assert!(!daemon.cq_has_room(1));
    assert!(app.submit(&Request::Close { flow: 1 }));
    app.flush();
    assert!(daemon.prepare_wait_for_room(), "a request is no reason to stay awake");
    assert!(app.submit(&Request::Close { flow: 2 }));
    app.flush();
    assert!(!is_readable(daemon.wake_fd()), "nor is another");
    assert!(app.next_completion().is_some());
    assert!(!app.arm(), "there are more");
    assert!(is_readable(daemon.wake_fd()), "room is");
    daemon.finish_wait();
    assert!(!is_readable(daemon.wake_fd()));
    assert!(daemon.cq_has_room(1));
    assert!(!daemon.prepare_wait(), "now the requests count again");
    daemon.finish_wait();
    assert_eq!(daemon.next_request(), Some(Ok(Request::Close { flow: 1 })));
    assert_eq!(daemon.next_request(), Some(Ok(Request::Close { flow: 2 })));
}

#[test]
fn a_closed_channel_wakes_after_its_last_completion() {
    let (mut daemon, mut app) = pair();
    let waiter = thread::spawn(move || {
        assert_eq!(app.wait(PATIENCE).unwrap(), Wake::Ready);
        assert!(app.next_completion().is_some());
        assert_eq!(app.wait(PATIENCE).unwrap(), Wake::Gone);
        assert!(app.is_closed() && !app.arm());
        // Talking to nobody hurts nobody.
        while app.submit(&Request::Close { flow: 1 }) {}
        app.flush();
        assert_eq!(app.wait(None).unwrap(), Wake::Gone);
    });
    thread::sleep(Duration::from_millis(30));
    assert!(daemon.complete(&Completion::Closed { flow: 7, reason: 0 }));
    drop(daemon);
    waiter.join().unwrap();
}

#[test]
fn a_daemon_that_dies_without_a_word_hangs_up() {
    for has_waker in [false, true] {
        let (daemon, fds) = DaemonChannel::create(GEOMETRY).unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut app = AppChannel::attach(ChannelFds { wake_app: ours.into(), ..fds }).unwrap();
        let waker = has_waker.then(|| app.waker().unwrap());
        let waiter = thread::spawn(move || (app.wait(PATIENCE).unwrap(), app.is_closed()));
        thread::sleep(Duration::from_millis(30));
        // What the system does with a killed daemon's end; the closed word stays unset.
        drop(theirs);
        assert_eq!(waiter.join().unwrap(), (Wake::Gone, true));
        drop((daemon, waker));
    }
}

/// Each side does a little, then spins a random while or sleeps: a wake-up that is lost ends in a time-out.
#[test]
fn no_wake_up_is_lost_in_many_ping_pongs() {
    const TOTAL: u64 = 100_000;
    // One request under way: nothing else hides a wake-up that is lost. Or more than the CQ holds, so that the daemon has
    // to wait for room now and then.
    for (seed, under_way) in [(1, 1), (2, 14)] {
        println!("seed {seed}");
        let (mut daemon, mut app) = pair();
        let server = thread::spawn(move || {
            let mut prng = Prng::new(seed);
            let (mut served, mut held) = (0, None);
            while served < TOTAL {
                let mut idle = true;
                while let Some(request) = held.take().or_else(|| daemon.next_request().map(Result::unwrap)) {
                    let Request::Close { flow } = request else { panic!("{request:?}") };
                    assert_eq!(flow, served);
                    if !daemon.complete(&Completion::Closed { flow, reason: 0 }) {
                        held = Some(request);
                        break;
                    }
                    (served, idle) = (served + 1, false);
                    if prng.below(4) == 0 {
                        daemon.flush();
                    }
                }
                daemon.flush();
                assert!(!daemon.is_corrupt());
                if idle && prng.below(3) == 0 {
                    if prng.below(2) == 0 {
                        // Between the last look and the flag, where a request is easily missed.
                        thread::yield_now();
                    }
                    sleep(&mut daemon);
                } else if prng.below(8) == 0 {
                    thread::yield_now();
                }
            }
            daemon
        });
        let mut prng = Prng::new(!seed);
        let (mut asked, mut answered) = (0, 0);
        while answered < TOTAL {
            for _ in 0..prng.below(14) {
                if asked < TOTAL
                    && asked - answered < under_way
                    && app.submit(&Request::Close { flow: asked })
                {
                    asked += 1;
                }
            }
            app.flush();
            if asked > answered && prng.below(3) == 0 {
                assert_eq!(app.wait(PATIENCE).unwrap(), Wake::Ready, "the application's wake-up is lost");
            }
            for _ in 0..prng.below(14) {
                let Some(completion) = app.next_completion() else { break };
                assert_eq!(completion, Ok(Completion::Closed { flow: answered, reason: 0 }));
                answered += 1;
            }
            if prng.below(8) == 0 {
                thread::yield_now();
            }
        }
        server.join().unwrap();
    }
}
