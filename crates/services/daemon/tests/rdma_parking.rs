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
    thread::sleep(Duration::from_millis(100));
    idles(&[&pair.a, &pair.b]);

    // The peer sleeps in its wait, and answers each message with one until the last.
    const LAST: u32 = u32::MAX;
    let (qp, cq) = (b.qp, b.cq);
    for i in 0..4 {
        b.context.post_recv(qp, i, &[b.mr.sge(0, 64)]).unwrap();
    }
    let echo = thread::spawn(move || {
        loop {
            let wc = b.context.wait_cq(cq, PATIENCE).unwrap();
            let Some(imm) = wc.imm else { continue };
            b.context.post_recv(qp, wc.wr_id, &[b.mr.sge(0, 64)]).unwrap();
            let wr = SendWr::new(99, SendOp::SendImm(imm), Data::Inline(b"pong"));
            b.context.post_send(qp, &SendWr { signaled: false, ..wr }).unwrap();
            if imm == LAST {
                return b;
            }
        }
    });
    let mut ask = |imm: u32| {
        let start = now();
        a.context.post_recv(a.qp, 1, &[a.mr.sge(0, 64)]).unwrap();
        let wr = SendWr::new(2, SendOp::SendImm(imm), Data::Inline(b"ping"));
        a.context.post_send(a.qp, &SendWr { signaled: false, ..wr }).unwrap();
        assert_eq!(a.done().imm, Some(imm));
        now().since(start)
    };
    wakeups_are_kept(4000, |i| {
        match prng.below(8) {
            0..4 => {}
            4 => thread::sleep(Duration::from_micros(prng.below(300))),
            _ => spin_for(Span::from_nanos(prng.below(60_000))),
        }
        ask(i as u32)
    });
    ask(LAST);
    // Registered memory is mapped until nobody can reach it any more, and no longer.
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("barewire-channel")).count()
    };
    assert!(mapped() >= 4, "{}", mapped());
    drop((a, echo.join().unwrap()));
    eventually("no channel is mapped", || mapped() == 0);
}
