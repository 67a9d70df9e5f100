//! The other side does what it likes with the memory and the descriptors: nothing panics, blocks or leaves the memory.

use crate::layout::{APP_PARKED, DAEMON_PARKED, HEADER_LEN};
use crate::sys::{self, Memory, TimeLeft};
use crate::*;
use barewire_base::Prng;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const SMALL: Geometry = Geometry { sq_entries: 8, cq_entries: 8, send_bytes: 4096, recv_bytes: 4096 };

/// Fails, instead of hanging, when `work` takes for ever.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    wait.recv_timeout(Duration::from_secs(60)).expect("it hangs, or has panicked")
}

/// A mapping of one's own of the whole channel: what an application can always make.
fn whole(fds: &ChannelFds) -> Region {
    Memory::adopt(fds.memory.try_clone().unwrap()).unwrap().map().unwrap()
}

/// All of a [`SMALL`] channel, with half of the writes where the indices and entries are.
const EVERYWHERE: &[Range<usize>] = &[0..2560, 0..12_288];
/// All but the rings' indices: flags, entries of the SQ and of the CQ, the memories.
const NOT_THE_INDICES: &[Range<usize>] = &[0..640, 896..1408, 1664..2176, 4096..12_288];

/// Runs `work` while another thread writes random bytes, of random lengths at random places, into those ranges.
fn while_scribbled<T>(region: &Region, ranges: &[Range<usize>], seed: u64, work: impl FnOnce() -> T) -> T {
    println!("seed {seed}");
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut prng = Prng::new(seed);
            let mut bytes = [0u8; 64];
            while !stop.load(Ordering::Relaxed) {
                let n = 1 + prng.below(64) as usize;
                let range = &ranges[prng.below(ranges.len() as u64) as usize];
                let offset = range.start + prng.below((range.len() - n) as u64 + 1) as usize;
                prng.fill(&mut bytes[..n]);
                assert!(region.write(offset, &bytes[..n]));
                begun.store(true, Ordering::Relaxed);
            }
        });
        // A guard, so that a panic in `work` stops the scribbler too and the scope can end.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        work()
    })
}

/// How often a scribbled side may look before it must have noticed.
const ROUNDS: usize = 300_000;

#[test]
fn the_daemon_survives_a_scribbler() {
    for seed in 0..30 {
        let (mut channel, fds) = DaemonChannel::create(SMALL).unwrap();
        let region = whole(&fds);
        let mut drop_at = [0xa5u8; 64];
        let noticed = while_scribbled(&region, EVERYWHERE, seed, || {
            (0..ROUNDS).any(|round| {
                for _ in 0..8 {
                    match channel.next_request() {
                        None => break,
                        Some(Err(_)) => {}
                        Some(Ok(Request::Send { offset, len, flow, token })) => {
                            let want = (len as usize).min(drop_at.len());
                            let _ = channel.send_memory().read(offset as usize, &mut drop_at[..want]);
                            let _ = channel.recv_memory().write(offset as usize, &drop_at[..want]);
                            let _ =
                                channel.complete(&Completion::Sent { flow, token, offset, delivered: true });
                        }
                        Some(Ok(_)) => {}
                    }
                }
                let _ = channel.complete(&Completion::Closed { flow: round as u64, reason: 0 });
                assert!(channel.cq_room() <= 8);
                channel.flush();
                if round % 16 == 0 {
                    channel.prepare_wait();
                    channel.finish_wait();
                }
                if round % 1000 == 999 {
                    std::thread::yield_now();
                }
                channel.is_corrupt()
            })
        });
        assert!(noticed, "seed {seed}");
        // It stays so, quietly.
        while channel.next_request().is_some() {}
        while channel.complete(&Completion::Closed { flow: 0, reason: 0 }) {}
        assert!(!channel.prepare_wait(), "a corrupt channel is work: it must be closed");
        channel.finish_wait();
        channel.mark_closed();
        assert!(channel.is_corrupt());
    }
}

#[test]
fn scribbled_entries_are_errors_and_nothing_else_breaks() {
    let (mut channel, fds) = DaemonChannel::create(SMALL).unwrap();
    let region = whole(&fds);
    let mut app = AppChannel::attach(fds).unwrap();
    let (mut bad, mut good) = ([0; 2], [0; 2]);
    while_scribbled(&region, NOT_THE_INDICES, 7, || {
        for round in 0..ROUNDS {
            while app.submit(&Request::Close { flow: 1 }) {}
            app.flush();
            if round % 16 == 0 {
                // Give the scribbler a chance between the writing and the reading.
                std::thread::yield_now();
            }
            while let Some(request) = channel.next_request() {
                (if request.is_err() { &mut bad } else { &mut good })[0] += 1;
                let _ = channel.complete(&Completion::Closed { flow: 1, reason: 2 });
            }
            channel.flush();
            assert_eq!(channel.cq_room(), 0, "every request was answered");
            while let Some(completion) = app.next_completion() {
                (if completion.is_err() { &mut bad } else { &mut good })[1] += 1;
            }
            if bad[0] > 1000 && bad[1] > 1000 {
                break;
            }
        }
    });
    assert!(!channel.is_corrupt() && !app.sq_or_cq_is_corrupt());
    assert!(bad.iter().chain(&good).all(|&n| n > 0), "bad {bad:?}, good {good:?}");
}

#[test]
fn the_application_survives_a_daemon_gone_mad() {
    for seed in 100..130 {
        let (_daemon, fds) = DaemonChannel::create(SMALL).unwrap();
        let region = whole(&fds);
        let mut app = AppChannel::attach(fds).unwrap();
        let noticed = while_scribbled(&region, EVERYWHERE, seed, || {
            (0..ROUNDS).any(|round| {
                while let Some(completion) = app.next_completion() {
                    if let Ok(Completion::Received { flow, offset, len }) = completion {
                        let mut bytes = [0xa5; 64];
                        let want = (len as usize).min(bytes.len());
                        let _ = app.recv_memory().read(offset as usize, &mut bytes[..want]);
                        let _ = app.submit(&Request::Release { flow, offset, len });
                    }
                }
                let _ = app.submit(&Request::Close { flow: round as u64 });
                app.flush();
                if round % 64 == 0 {
                    app.wait(Some(Duration::ZERO)).unwrap();
                }
                if round % 1000 == 999 {
                    std::thread::yield_now();
                }
                app.sq_or_cq_is_corrupt()
            })
        });
        assert!(noticed, "seed {seed}");
        while app.next_completion().is_some() {}
        assert!(app.is_closed());
        assert_eq!(app.wait(None).unwrap(), Wake::Gone);
    }
}

#[test]
fn the_memory_cannot_shrink_or_grow() {
    let (_channel, fds) = DaemonChannel::create(SMALL).unwrap();
    let file = File::from(fds.memory.try_clone().unwrap());
    let len = file.metadata().unwrap().len();
    for other in [0, len - 4096, len + 4096] {
        assert_eq!(file.set_len(other).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
    assert_eq!(file.metadata().unwrap().len(), len);
}

/// The descriptors of a channel with another memory.
fn with_memory(memory: impl Into<OwnedFd>) -> ChannelFds {
    let (_, fds) = DaemonChannel::create(SMALL).unwrap();
    ChannelFds { memory: memory.into(), ..fds }
}

/// A sealed memory of `len` bytes that begins with `header`.
fn forged(len: usize, header: &[u8]) -> ChannelFds {
    let memory = Memory::create(len).unwrap();
    assert!(memory.map().unwrap().write(0, header));
    with_memory(memory.into_fd())
}

#[test]
fn an_application_believes_nothing() {
    let good = SMALL.header();
    let total = SMALL.total_bytes().unwrap();
    assert!(AppChannel::attach(forged(total, &good)).is_ok());

    let (_, other) = DaemonChannel::create(SMALL).unwrap();
    let file = File::open("/proc/self/exe").unwrap();
    assert!(matches!(AppChannel::attach(with_memory(file)), Err(ChannelError::NotSealed)));
    assert!(matches!(AppChannel::attach(with_memory(other.wake_app)), Err(ChannelError::NotSealed)));

    let mut magic = good;
    magic[0] ^= 1;
    assert!(matches!(AppChannel::attach(forged(total, &magic)), Err(ChannelError::BadMagic)));
    assert!(matches!(AppChannel::attach(forged(HEADER_LEN - 1, &good[..8])), Err(ChannelError::BadMagic)));
    let mut version = good;
    version[8..12].copy_from_slice(&7u32.to_ne_bytes());
    assert!(matches!(AppChannel::attach(forged(total, &version)), Err(ChannelError::Version { theirs: 7 })));
    let geometry = Geometry { cq_entries: 7, ..SMALL }.header();
    assert!(matches!(AppChannel::attach(forged(total, &geometry)), Err(ChannelError::Geometry(_))));
    for len in [total - 4096, total + 4096, HEADER_LEN] {
        let error = AppChannel::attach(forged(len, &good)).unwrap_err();
        assert!(
            matches!(error, ChannelError::Size { got, want } if (got, want) == (len as u64, total as u64))
        );
    }
    assert!(matches!(ChannelFds::try_from(vec![]), Err(ChannelError::Descriptors { got: 0 })));
}

#[test]
fn a_blocking_eventfd_does_not_stop_the_daemon() {
    in_time(|| {
        let (mut channel, fds) = DaemonChannel::create(SMALL).unwrap();
        // The same open file description as the daemon's.
        sys::make_blocking(fds.wake_daemon.as_fd());
        for _ in 0..200 {
            assert!(channel.prepare_wait());
            // The application takes the flag and does not ring: the daemon drains what is empty.
            assert!(whole(&fds).fill(DAEMON_PARKED, 4, 0));
            channel.finish_wait();
        }
    });
}

#[test]
fn a_full_doorbell_does_not_stop_the_daemon() {
    in_time(|| {
        let (mut channel, fds) = DaemonChannel::create(SMALL).unwrap();
        let region = whole(&fds);
        sys::make_blocking(fds.wake_app.as_fd());
        let mut app_rings = 0;
        for flow in 0..5000 {
            // The application claims to sleep, has room for one more, and never reads its doorbell.
            assert!(region.fill(APP_PARKED, 4, 1));
            if !channel.complete(&Completion::Closed { flow, reason: 0 }) {
                // Its index, in the second line of the CQ ring: all taken.
                assert!(region.store_u64(SMALL.layout().unwrap().cq.at + 128, flow));
                assert!(channel.complete(&Completion::Closed { flow, reason: 0 }));
            }
            channel.flush();
            let mut flag = [0xa5; 4];
            assert!(region.read(APP_PARKED, &mut flag));
            app_rings += usize::from(flag == [0; 4]);
        }
        assert_eq!(app_rings, 5000, "it rang each time");
        // Then the application closes its end, and then the daemon rings again.
        drop(fds);
        assert!(region.fill(APP_PARKED, 4, 1));
        assert!(!channel.is_corrupt());
        channel.mark_closed();
    });
}

#[test]
fn who_rings_unasked_does_not_keep_the_daemon_awake() {
    let (mut channel, fds) = DaemonChannel::create(SMALL).unwrap();
    for _ in 0..10 {
        // Twice, with nothing in the ring and without taking the flag.
        sys::eventfd_ring(fds.wake_daemon.as_fd());
        sys::eventfd_ring(fds.wake_daemon.as_fd());
        let awake = (0..1000).take_while(|_| {
            assert!(channel.prepare_wait());
            let polled = sys::poll(channel.wake_fd(), &mut TimeLeft::new(Some(Duration::ZERO))).unwrap();
            channel.finish_wait();
            polled.is_some()
        });
        assert!((1..=64).contains(&awake.count()));
    }
}
