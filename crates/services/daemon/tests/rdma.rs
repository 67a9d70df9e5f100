//! RDMA through daemons: applications that share ports, each with its own objects.

mod common;

use barewire_roce::{Data, SendOp, SendWr};
use common::rdma::*;
use common::*;

#[test]
fn send_write_read_and_atomics_between_two_daemons() {
    let pair = rdma_pair();
    let (mut a, mut b) = joined(&pair, "app", 77, 1 << 20);
    // A send to a posted receive.
    b.context.post_recv(b.qp, 1, &[b.mr.sge(0, 4096)]).unwrap();
    let bytes = pattern(1, 3000);
    a.mr.write(0, &bytes);
    a.context.post_send(a.qp, &SendWr::new(2, SendOp::Send, Data::Sges(&[a.mr.sge(0, 3000)]))).unwrap();
    let wc = b.done();
    assert_eq!((wc.wr_id, wc.len, wc.qpn), (1, 3000, b.context.qpn(b.qp).unwrap()));
    assert_eq!(b.mr.read(0, 3000), bytes);
    assert_eq!(a.done().wr_id, 2);
    // A write of many packets, from four pieces.
    let bytes = pattern(2, 500_000);
    a.mr.write(0, &bytes);
    let to = SendOp::WriteImm { addr: b.mr.addr() + 8, rkey: b.mr.rkey(), imm: 0x1234_5678 };
    let list = [a.mr.sge(0, 1), a.mr.sge(1, 99_999), a.mr.sge(100_000, 0), a.mr.sge(100_000, 400_000)];
    b.context.post_recv(b.qp, 3, &[]).unwrap();
    a.context.post_send(a.qp, &SendWr::new(4, to, Data::Sges(&list))).unwrap();
    let wc = b.done();
    assert_eq!((wc.wr_id, wc.imm, wc.len), (3, Some(0x1234_5678), 500_000));
    assert!(b.mr.read(8, 500_000) == bytes);
    assert_eq!(a.done().wr_id, 4);
    // Inline, as much as fits into an entry, and as much as there may be.
    for (i, len) in [0usize, 1, 32, 33, 64].into_iter().enumerate() {
        let bytes = pattern(len as u64 + 9, len);
        b.context.post_recv(b.qp, 10, &[b.mr.sge(0, 10), b.mr.sge(10, 10), b.mr.sge(20, 100)]).unwrap();
        let wr = SendWr::new(i as u64, SendOp::SendImm(len as u32), Data::Inline(&bytes));
        a.context.post_send(a.qp, &wr).unwrap();
        let wc = b.done();
        assert_eq!((wc.len as usize, wc.imm), (len, Some(len as u32)));
        assert_eq!(b.mr.read(0, len), bytes);
        assert_eq!(a.done().wr_id, i as u64);
    }
    // A read back.
    b.mr.write(0, &pattern(3, 70_000));
    let from = SendOp::Read { addr: b.mr.addr(), rkey: b.mr.rkey() };
    a.context.post_send(a.qp, &SendWr::new(5, from, Data::Sges(&[a.mr.sge(100, 70_000)]))).unwrap();
    assert_eq!(a.done().wr_id, 5);
    assert!(a.mr.read(100, 70_000) == pattern(3, 70_000));
    // Atomics.
    b.mr.write(64, &40u64.to_ne_bytes());
    let (addr, rkey) = (b.mr.addr() + 64, b.mr.rkey());
    let value = [a.mr.sge(0, 8)];
    let before = |a: &mut End| {
        a.done();
        u64::from_ne_bytes(a.mr.read(0, 8).try_into().unwrap())
    };
    let add = SendOp::FetchAdd { addr, rkey, add: 2 };
    a.context.post_send(a.qp, &SendWr::new(6, add, Data::Sges(&value))).unwrap();
    assert_eq!(before(&mut a), 40);
    for (compare, swap, want) in [(41, 1, 42), (42, 7, 42), (7, 9, 7)] {
        let op = SendOp::CompareSwap { addr, rkey, compare, swap };
        a.context.post_send(a.qp, &SendWr::new(7, op, Data::Sges(&value))).unwrap();
        assert_eq!(before(&mut a), want);
    }
    assert_eq!(b.mr.read(64, 8), 9u64.to_ne_bytes());
}
