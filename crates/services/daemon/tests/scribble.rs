//! Applications that write what they like into their shared memory: the daemon and the others go on.

mod common;

use barewire_base::Prng;
use barewire_channel::{AppChannel, ChannelFds, Geometry, Request};
use barewire_client::{CloseReason, Event};
use barewire_daemon::Daemon;
use barewire_engine::now;
use common::*;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const GEOMETRY: Geometry =
    Geometry { sq_entries: 64, cq_entries: 256, send_bytes: 1 << 16, recv_bytes: 1 << 16 };
const TIME: Duration = Duration::from_secs(2);

/// Writes random bytes at random places of `ranges`, of the whole memory, until `stop` or `TIME`.
fn scribble(fds: &ChannelFds, ranges: &[Range<u64>], prng: &mut Prng, writes: u64) {
    let file = File::from(fds.memory.try_clone().unwrap());
    let mut bytes = [0u8; 256];
    for _ in 0..writes {
        let range = &ranges[prng.below(ranges.len() as u64) as usize];
        let n = 1 + prng.below(bytes.len() as u64).min(range.end - range.start - 1);
        let at = range.start + prng.below(range.end - range.start - n + 1);
        prng.fill(&mut bytes[..n as usize]);
        file.write_all_at(&bytes[..n as usize], at).unwrap();
    }
}

/// One request more in the ring than there is, so that the daemon looks at what was scribbled there.
fn publish(fds: &ChannelFds) {
    // The tail of the ring of requests: the first word of its first line.
    let file = File::from(fds.memory.try_clone().unwrap());
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 640).unwrap();
    file.write_all_at(&(u64::from_ne_bytes(word) + 1).to_ne_bytes(), 640).unwrap();
    File::from(fds.wake_daemon.try_clone().unwrap()).write_at(&1u64.to_ne_bytes(), 0).ok();
}

/// Whether scribblers were noticed and others answered often enough to say something.
fn enough(daemon: &Daemon, answered: &AtomicU64) -> bool {
    let c = counters(daemon);
    c["applications.bad_entries"] > 100
        && c["applications.corrupt_channels"] > 10
        && answered.load(Ordering::Relaxed) > 100
}

#[test]
fn scribblers_harm_themselves_only() {
    scribblers_harm_nobody_else(false);
}

#[test]
fn scribblers_harm_themselves_only_where_flows_are_encrypted() {
    scribblers_harm_nobody_else(true);
}

fn scribblers_harm_nobody_else(is_secure: bool) {
    let seed = 11;
    let mut prng = Prng::new(seed);
    let pair = pair_with(|c| {
        c.channel = Geometry { cq_entries: 8192, ..Geometry::DEFAULT };
        if is_secure {
            secure_host(c);
        }
    });
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    let mut target = attach(&pair.b, "target");
    target.listen_wait(889, 0, PATIENCE).unwrap();
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let total = GEOMETRY.total_bytes().unwrap() as u64;
    // Everything; everything but the indices of the rings, which give it away at once; entries of requests.
    let sq = 640 + 256..640 + 256 + 64 * 64;
    let everywhere: &[Range<u64>] = &[0..8192, 0..total];
    let no_indices: &[Range<u64>] = &[0..640, sq.clone(), 640 + 256 + 64 * 64 + 256..total];
    let entries: &[Range<u64>] = &[sq];
    let mut lives = 0u64;
    thread::scope(|scope| {
        let server = scope.spawn(move || echo(&mut server));
        let (stop, answered) = (&stop, &answered);
        let other = scope.spawn(move || {
            let mut i = 0;
            while !stop.load(Ordering::Relaxed) {
                i += 1;
                let bytes = pattern(i, 1 + (i as usize * 97) % 20_000);
                client.send(flow, &bytes).unwrap();
                assert!(message(&mut client) == bytes, "message {i}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
            client.close(flow).unwrap();
            assert_eq!(next_real(&mut client), Event::Closed { flow, reason: CloseReason::Local });
        });
        let target = scope.spawn(move || {
            // Reads what scribblers send it, if anything, and answers.
            while !stop.load(Ordering::Relaxed) {
                if let Some(Event::Message(m)) = target.wait_event(Some(Duration::from_millis(10))).unwrap() {
                    let _ = target.send(m.flow(), &pattern(1, 500));
                    target.release(m);
                }
            }
        });
        let end = now() + TIME.into();
        // On a machine that is elsewhere most of the time it takes longer.
        while now() < end || !(enough(&pair.a, answered) || now() > end + PATIENCE.into()) {
            lives += 1;
            let (control, fds, _) = attach_raw(&pair.a, Some(GEOMETRY));
            let mut channel = AppChannel::attach(clone_fds(&fds)).unwrap();
            let connect = Request::Connect {
                token: 1,
                local: None,
                local_udp_port: 0,
                remote: to(2, 889),
                ordered: true,
            };
            assert!(channel.submit(&connect));
            channel.flush();
            for _ in 0..20 {
                let ranges = [everywhere, no_indices, entries][lives as usize % 3];
                let writes = 1 + prng.below(100);
                scribble(&fds, ranges, &mut prng, writes);
                for _ in 0..prng.below(4) {
                    // A valid request among the noise, as far as the ring still takes one.
                    let flow = prng.below(1 << 22);
                    let offset = prng.below(1 << 17) as u32;
                    let len = prng.below(1 << 12) as u32;
                    let _ = channel.submit(&match prng.below(5) {
                        0 => Request::Send { flow, offset, len, token: 0 },
                        1 => Request::Release { flow, offset: offset & !63, len },
                        2 => Request::Reset { flow },
                        3 => Request::Listen { token: 0, udp_port: 900, local: None },
                        _ => connect,
                    });
                    channel.flush();
                }
                publish(&fds);
                while channel.next_completion().is_some() {}
                thread::sleep(Duration::from_micros(prng.below(200)));
            }
            drop((channel, fds));
            drop(control);
        }
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap();
        target.join().unwrap();
        server.join().unwrap();
    });
    let c = counters(&pair.a);
    let (bad, corrupt) = (c["applications.bad_entries"], c["applications.corrupt_channels"]);
    let is_enough = enough(&pair.a, &answered);
    assert_eq!(c["transport.flows_encrypted"] > 0, is_secure);
    let answered = answered.load(Ordering::Relaxed);
    println!(
        "seed {seed}: {lives} scribblers, {bad} bad entries, {corrupt} broken rings; {answered} answers beside them"
    );
    assert!(is_enough);
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
    // The daemon still takes applications.
    let mut client = attach(&pair.a, "after");
    client.listen_wait(900, 0, PATIENCE).unwrap();
}

#[test]
fn a_broken_channel_is_noticed_without_other_work() {
    let pair = pair();
    for stalled in [false, true] {
        let (_control, fds, _) = attach_raw(&pair.a, Some(GEOMETRY));
        let mut channel = AppChannel::attach(clone_fds(&fds)).unwrap();
        if stalled {
            // So many connections that a request waits for room among the completions.
            for token in 0..63 {
                let remote = to(77, 1);
                let r = Request::Connect { token, local: None, local_udp_port: 0, remote, ordered: true };
                assert!(channel.submit(&r));
            }
            for token in 0..63 {
                channel.flush();
                let remote = to(77, 1);
                let r = Request::Connect { token, local: None, local_udp_port: 0, remote, ordered: true };
                eventually("there is room", || channel.submit(&r));
            }
            channel.flush();
        }
        let file = File::from(fds.memory.try_clone().unwrap());
        // Tails of both rings, and their heads, at impossible places.
        for at in [640, 640 + 128, 640 + 256 + 64 * 64, 640 + 256 + 64 * 64 + 128] {
            file.write_all_at(&u64::MAX.to_ne_bytes(), at).unwrap();
        }
        rustix::io::write(&fds.wake_daemon, &1u64.to_ne_bytes()).unwrap();
        eventually("it is put out", || counter(&pair.a, "applications.count") == 0);
        eventually("it is told", || channel.is_closed());
        is_empty_again(&pair.a);
        // And the daemon sleeps again.
        eventually("it sleeps", || {
            let before = counter(&pair.a, "engine.0.cycles");
            thread::sleep(Duration::from_millis(100));
            counter(&pair.a, "engine.0.cycles") - before < 100
        });
    }
    assert_eq!(counter(&pair.a, "applications.corrupt_channels"), 2);
}
