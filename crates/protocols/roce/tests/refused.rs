//! What a responder refuses never ends as a success at the requester, whatever was accepted before it.

mod common;
use barewire_ring::Region;
use barewire_roce::*;
use common::*;

fn status(wcs: &[Wc]) -> Vec<(u64, WcStatus)> {
    wcs.iter().map(|w| (w.wr_id, w.status)).collect()
}

/// The address is a multiple of 8, the memory behind it is not: only the responder can know.
#[test]
fn an_atomic_on_memory_that_is_not_aligned_fails() {
    let ops: [fn(u32) -> SendOp; 2] = [
        |rkey| SendOp::FetchAdd { addr: 0x1008, rkey, add: 1 },
        |rkey| SendOp::CompareSwap { addr: 0x1008, rkey, compare: 0, swap: 1 },
    ];
    for op in ops {
        let mut p = Pair::new();
        let [(_, a), (_, b)] = p.connect();
        let pd = p.ends[1].pd;
        let region = Region::heap(64);
        let odd = p.ends[1].ep.reg_mr(pd, region.clone(), 0x1004, Access::ALL).unwrap();
        let rkey = p.ends[1].mr.rkey;
        p.ends[1].fill(8, &9u64.to_ne_bytes());
        // What was accepted before is answered, and what comes after is not done.
        p.post(0, a, 1, SendOp::Read { addr: BASE, rkey }, 0, 3000);
        p.post(0, a, 2, SendOp::FetchAdd { addr: BASE + 8, rkey, add: 1 }, 4000, 8);
        p.post(0, a, 3, op(odd.rkey), 4008, 8);
        p.post(0, a, 4, SendOp::FetchAdd { addr: BASE + 8, rkey, add: 1 }, 4016, 8);
        p.exchange();
        p.run_for(ms(50));
        assert_eq!(
            status(&p.ends[0].completions()),
            [
                (1, WcStatus::Success),
                (2, WcStatus::Success),
                (3, WcStatus::RemoteOperation),
                (4, WcStatus::Flushed)
            ]
        );
        assert_eq!(p.ends[0].bytes(4000, 8), 9u64.to_ne_bytes());
        assert_eq!(p.ends[1].bytes(8, 8), 10u64.to_ne_bytes());
        assert_eq!(p.count("ATOMIC_ACKNOWLEDGE"), 1, "{:?}", p.log);
        assert_eq!(p.ends[1].ep.query_qp(b).unwrap().state, QpState::Err);
        assert_eq!(p.ends[1].ep.counters().nak_operation_sent.get(), 1);
        let mut after = [0; 64];
        assert!(region.read(0, &mut after) && after == [0; 64]);
    }
}

/// Each way to be refused, behind answers that are owed: they come first, then one NAK, and no success for what was refused.
#[test]
fn every_refusal_behind_answers_that_are_owed() {
    type Case = (&'static str, fn(u32, u32, u32) -> SendOp, usize, WcStatus);
    let cases: [Case; 6] = [
        (
            "atomic, unaligned",
            |_, odd, _| SendOp::FetchAdd { addr: 0x1008, rkey: odd, add: 1 },
            8,
            WcStatus::RemoteOperation,
        ),
        ("atomic, key", |_, _, ro| SendOp::FetchAdd { addr: 0, rkey: ro, add: 1 }, 8, WcStatus::RemoteAccess),
        (
            "read, bounds",
            |key, _, _| SendOp::Read { addr: BASE + MEMORY as u64 - 7, rkey: key },
            8,
            WcStatus::RemoteAccess,
        ),
        ("read, key", |key, _, _| SendOp::Read { addr: BASE, rkey: key ^ 1 }, 8, WcStatus::RemoteAccess),
        ("write, key", |_, _, ro| SendOp::Write { addr: 0, rkey: ro }, 8, WcStatus::RemoteAccess),
        ("send, too long", |_, _, _| SendOp::Send, 2000, WcStatus::RemoteInvalidRequest),
    ];
    for (name, op, len, want) in cases {
        let mut p = Pair::new();
        let [(_, a), (_, b)] = p.connect();
        let pd = p.ends[1].pd;
        let odd = p.ends[1].ep.reg_mr(pd, Region::heap(64), 0x1004, Access::ALL).unwrap();
        let ro = p.ends[1].ep.reg_mr(pd, Region::heap(64), 0, Access::REMOTE_READ).unwrap();
        let rkey = p.ends[1].mr.rkey;
        p.recv(1, b, 50, 0, 100);
        for i in 0..4 {
            p.post(0, a, i, SendOp::Read { addr: BASE, rkey }, 0, 5000);
        }
        p.post(0, a, 4, op(rkey, odd.rkey, ro.rkey), 0, len);
        p.post(0, a, 5, SendOp::Write { addr: BASE, rkey }, 0, 8);
        p.exchange();
        p.run_for(ms(50));
        let mut wanted: Vec<_> = (0..4).map(|i| (i, WcStatus::Success)).collect();
        wanted.extend([(4, want), (5, WcStatus::Flushed)]);
        assert_eq!(status(&p.ends[0].completions()), wanted, "{name}");
        assert_eq!(p.ends[1].ep.query_qp(b).unwrap().state, QpState::Err, "{name}");
    }
}
