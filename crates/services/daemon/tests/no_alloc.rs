//! An engine that serves warm applications allocates nothing, by an allocator that knows whose call it is.

mod common;

use barewire_client::Event;
use barewire_daemon::PortSettings;
use barewire_roce::{Data, SendOp, SendWr};
use common::rdma::*;
use common::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread;

/// The threads that are watched, by their numbers; zero: none.
static WATCHED: [AtomicI32; 2] = [const { AtomicI32::new(0) }; 2];
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn count() {
    if WATCHED[0].load(Ordering::Relaxed) == 0 {
        return;
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    if WATCHED.iter().any(|tid| tid.load(Ordering::Relaxed) == own) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

struct Watching;

// SAFETY: every call goes to the system's allocator unchanged; counting touches atomics and makes a system call, and neither
// allocates nor fails.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

#[test]
fn a_warm_daemon_allocates_nothing() {
    let pair = rdma_pair_with(|config| {
        let [.., host] = config.interface.ipv4[0].0.octets();
        let address = Ipv4Addr::new(10, 9, 0, host);
        config.ports = vec![PortSettings::new(&format!("{}-second", config.interface.port), address, 24)];
    });
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let mut neighbour = attach(&pair.a, "neighbour");
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    let (local, _) = common::flow(&mut client, &mut neighbour, 1, 889);
    // By the second port.
    let second = connect(&mut client, (Ipv4Addr::new(10, 9, 0, 2), 888).into());
    accept(&mut server);
    let server = thread::spawn(move || echo(&mut server));
    let neighbour = thread::spawn(move || echo(&mut neighbour));
    let (mut a, mut b) = joined(&pair, "rdma", 1, 1 << 17);
    let mut rdma = move |i: u64| {
        let (len, addr, rkey) = ([8, 3000, 100_000][i as usize % 3], b.mr.addr(), b.mr.rkey());
        let list = [a.mr.sge(0, len)];
        let op = match i % 4 {
            0 => SendOp::Write { addr, rkey },
            1 => SendOp::Read { addr, rkey },
            2 => SendOp::SendImm(7),
            _ => SendOp::FetchAdd { addr, rkey, add: 1 },
        };
        if i % 4 == 2 {
            // Three pieces, which are staged.
            let list = [b.mr.sge(0, 100), b.mr.sge(100, 2000), b.mr.sge(2100, 1 << 16)];
            b.context.post_recv(b.qp, i, &list).unwrap();
        }
        let data = match i % 4 {
            2 => Data::Inline(&[1; 64]),
            3 => Data::Sges(&[a.mr.sge(0, 8)]),
            _ => Data::Sges(&list),
        };
        a.context.post_send(a.qp, &SendWr::new(i, op, data)).unwrap();
        assert_eq!(a.done().wr_id, i);
        if i % 4 == 2 {
            assert_eq!(b.done().wr_id, i);
        }
    };
    // The application's own thread, once it is warm.
    for i in 0..400 {
        rdma(i);
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    WATCHED[0].store(own, Ordering::Relaxed);
    for i in 0..400 {
        rdma(i);
    }
    WATCHED[0].store(0, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.swap(0, Ordering::Relaxed), 0, "the application's side of RDMA");
    let mut requests = |n: u64| {
        for i in 0..n {
            rdma(i);
            let bytes = pattern(i, [1024, 1024, 0, 100_000][i as usize % 4]);
            for flow in [flow, local, second] {
                client.send(flow, &bytes).unwrap();
                assert!(message(&mut client) == bytes);
            }
            if i % 100 == 0 {
                // Both sleep meanwhile.
                thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    };
    requests(1000);

    // The watch works: this thread is seen.
    WATCHED[0].store(own, Ordering::Relaxed);
    drop(std::hint::black_box(Box::new(7)));
    WATCHED[0].store(0, Ordering::Relaxed);
    assert!(ALLOCATIONS.swap(0, Ordering::Relaxed) >= 1);

    let engines = threads("bw-daemon");
    assert_eq!(engines.len(), 2, "{engines:?}");
    let busy = |tid: u32| cpu_ns(tid);
    let before: u64 = engines.iter().map(|t| busy(*t)).sum();
    for (slot, tid) in WATCHED.iter().zip(&engines).rev() {
        slot.store(*tid as i32, Ordering::Relaxed);
    }
    requests(3000);
    WATCHED[0].store(0, Ordering::Relaxed);
    let used = engines.iter().map(|t| busy(*t)).sum::<u64>() - before;
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    println!(
        "{allocations} allocations of two engines during 9000 messages answered, 3000 RDMA requests and {used} ns of work"
    );
    assert!(used > 0, "the wrong threads were watched");
    assert_eq!(allocations, 0);

    client.close(flow).unwrap();
    client.close(local).unwrap();
    client.close(second).unwrap();
    for _ in 0..3 {
        assert!(matches!(next_real(&mut client), Event::Closed { .. }));
    }
    assert_eq!((server.join().unwrap(), neighbour.join().unwrap()), (8000, 4000));
}
