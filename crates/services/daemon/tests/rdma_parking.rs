//! A daemon with idle RDMA connections sleeps, and wakes for whatever comes. Alone in its file, as it looks at threads.

mod common;

use barewire_base::{Duration as Span, Prng};
use barewire_engine::now;
use barewire_roce::{Data, SendOp, SendWr};
use common::rdma::*;
use common::*;
use std::thread;
use std::time::Duration;

#[test]
fn parked_daemons_sleep_over_connections_and_wake_for_posts() {
    let seed = 8;
    let mut prng = Prng::new(seed);
    let pair = rdma_pair();
    let (mut a, mut b) = joined(&pair, "app", 1, 1 << 16);
    let engines = threads("barewire-daemon");
    assert!(engines.len() >= 2, "{engines:?}");
    thread::sleep(Duration::from_millis(100));
    let used = || engines.iter().map(|tid| cpu_ns(*tid)).sum::<u64>();
    let (cpu, start) = (used(), now());
    thread::sleep(Duration::from_secs(1));
    let share = (used() - cpu) as f64 * 100.0 / now().since(start).as_nanos() as f64;
    println!("idle for a second: both daemons used {share:.3} % of a core");
    assert!(share < 2.0, "{share} %: the target is 1 % for each daemon");

    // The peer sleeps in its wait, and answers each message with one.
    let (qp, cq) = (b.qp, b.cq);
    const ROUNDS: u64 = 4000;
    for i in 0..4 {
        b.context.post_recv(qp, i, &[b.mr.sge(0, 64)]).unwrap();
    }
    let echo = thread::spawn(move || {
        let mut answered = 0;
        while answered < ROUNDS {
            let wc = b.context.wait_cq(cq, PATIENCE).unwrap();
            if let Some(imm) = wc.imm {
                b.context.post_recv(qp, wc.wr_id, &[b.mr.sge(0, 64)]).unwrap();
                let wr = SendWr::new(99, SendOp::SendImm(imm), Data::Inline(b"pong"));
                b.context.post_send(qp, &SendWr { signaled: false, ..wr }).unwrap();
                answered += 1;
            }
        }
        b
    });
    let (mut longest, mut slow) = (Span::ZERO, 0);
    for i in 0..ROUNDS as u32 {
        match prng.below(8) {
            0..4 => {}
            4 => thread::sleep(Duration::from_micros(prng.below(300))),
            _ => {
                let end = now() + Span::from_nanos(prng.below(60_000));
                while now() < end {
                    std::hint::spin_loop();
                }
            }
        }
        let start = now();
        a.context.post_recv(a.qp, 1, &[a.mr.sge(0, 64)]).unwrap();
        let wr = SendWr::new(2, SendOp::SendImm(i), Data::Inline(b"ping"));
        a.context.post_send(a.qp, &SendWr { signaled: false, ..wr }).unwrap();
        assert_eq!(a.done().imm, Some(i));
        let took = now().since(start);
        longest = longest.max(took);
        slow += u64::from(took > Span::from_millis(40));
    }
    println!("seed {seed}: {ROUNDS} rounds with pauses, longest {longest}, {slow} above 40 ms");
    assert!(slow <= ROUNDS / 500, "{slow} rounds took above 40 ms: wake-ups are lost");
    // Registered memory is mapped until nobody can reach it any more, and no longer.
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("barewire-channel")).count()
    };
    assert!(mapped() >= 4, "{}", mapped());
    drop((a, echo.join().unwrap()));
    eventually("no channel is mapped", || mapped() == 0);
}
