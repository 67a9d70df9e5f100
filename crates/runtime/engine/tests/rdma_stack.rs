//! Messages and RDMA on one port: each frame finds its endpoint, and neither keeps the other from sending.

use barewire_base::{Duration, Instant};
use barewire_engine::{PeerPath, RDMA_UDP_PORT, Stack};
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_host::{Host, HostConfig};
use barewire_port::{MemoryConfig, MemoryEnd, MemoryLink};
use barewire_roce::{self as roce, Connect, CqId, Data, QpInit, Qpn, SendOp, SendWr, Terms};
use barewire_transport::{self as transport, Endpoint, Event, HeapMemory, SendBuf};
use barewire_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr};

fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

fn stack(end: MemoryEnd, host: u8) -> Stack<HeapMemory> {
    stack_with(end, host, |_| ())
}

fn stack_with(end: MemoryEnd, host: u8, change: impl FnOnce(&mut roce::Config)) -> Stack<HeapMemory> {
    let pool = Pool::new(PoolConfig::default()).unwrap();
    let mac = MacAddr([2, 0, 0, 0, 0, host]);
    let mut config = HostConfig::new(mac);
    config.ipv4 = vec![(ip(host), 24)];
    let memory = HeapMemory::new(1 << 20, 1 << 20);
    let messages = Endpoint::new(transport::Config::default(), memory, [host; 32]).unwrap();
    let mut verbs = roce::Config::new(mac, ip(host).into());
    change(&mut verbs);
    let rdma = roce::Endpoint::new(verbs, [host; 16]).unwrap();
    let port = Box::new(end.open(pool.clone()));
    Stack::new(port, pool, Host::new(config), messages).with_rdma(rdma)
}

/// A queue pair with room for what is posted here.
fn queue_pair(stack: &mut Stack<HeapMemory>) -> Qpn {
    let (rdma, _) = stack.rdma_parts().unwrap();
    let (pd, cq) = (rdma.endpoint.alloc_pd(), rdma.endpoint.create_cq(1000).unwrap());
    rdma.endpoint.create_qp(&QpInit::rc(pd, cq)).unwrap()
}

#[test]
fn messages_and_rdma_take_turns_on_one_port() {
    let (left, right) = MemoryLink::new(MemoryConfig::default()).unwrap();
    let (mut a, mut b) = (stack(left, 1), stack(right, 2));
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut turn = |a: &mut Stack<HeapMemory>, b: &mut Stack<HeapMemory>| {
        now += Duration::from_micros(10);
        a.poll(now).unwrap();
        b.poll(now).unwrap();
        now
    };
    // A flow and a connection.
    b.endpoint_mut().listen(888, 0, 0).unwrap();
    b.rdma_parts().unwrap().0.endpoint.listen(50, 4).unwrap();
    let (qp, peer) = (queue_pair(&mut a), queue_pair(&mut b));
    let start = turn(&mut a, &mut b);
    let to = (IpAddr::from(ip(1)), IpAddr::from(ip(2)));
    let flow = a.endpoint_mut().connect(start, 0, (to.0, 0).into(), (to.1, 888).into(), true, 0).unwrap();
    let (mut asked, mut open, mut connected) = (false, false, false);
    for _ in 0..10_000 {
        let now = turn(&mut a, &mut b);
        let changed = a.take_neighbours_changed();
        let (mut rdma, _) = a.rdma_parts().unwrap();
        if !asked && let PeerPath::Ready(path) = rdma.peer_path(now, to.1, None) {
            assert!(changed, "whoever waits for a neighbour is told");
            rdma.endpoint.connect(now, qp, &Connect::new(path, 50)).unwrap();
            asked = true;
        }
        connected |= matches!(rdma.endpoint.poll_event(), Some(roce::Event::Connected { .. }));
        let (rdma, _) = b.rdma_parts().unwrap();
        if let Some(roce::Event::ConnectRequest { conn, .. }) = rdma.endpoint.poll_event() {
            rdma.endpoint.accept(now, conn, peer, &Terms::default()).unwrap();
        }
        open |= matches!(a.poll_event(), Some(Event::Connected { .. }));
        if open && connected {
            break;
        }
    }
    assert!(open && connected, "open {open}, connected {connected}");

    // Much of both to send: what leaves first is of both kinds.
    let now = turn(&mut a, &mut b);
    a.endpoint_mut().send(now, flow, SendBuf { owner: 0, offset: 0, len: 500_000 }, 0).unwrap();
    let (rdma, _) = a.rdma_parts().unwrap();
    for i in 0..100 {
        let wr = SendWr::new(i, SendOp::Send, Data::Inline(b"text"));
        rdma.endpoint.post_send(qp, &wr).unwrap();
    }
    assert_eq!(a.next_deadline(), Some(Instant::ZERO));
    a.transmit(now).unwrap();
    let mut burst = Burst::new();
    let mut kinds = vec![];
    while b.port_mut().rx_burst(now, &mut burst).unwrap() > 0 {
        while let Some(frame) = burst.pop() {
            kinds.push(frame.data()[36..38] == RDMA_UDP_PORT.to_be_bytes());
        }
    }
    let first = &kinds[..16];
    let rdma = first.iter().filter(|is| **is).count();
    assert!((4..=12).contains(&rdma), "{kinds:?}");
    // Whoever has more to send than the other goes on alone.
    assert!(kinds.iter().filter(|is| **is).count() >= kinds.len() / 2, "{kinds:?}");
}

/// A connected queue pair of `a`.
struct Connected {
    qp: Qpn,
    cq: CqId,
    peer: Qpn,
    posted: u64,
    done: u64,
}

fn connected(a: &mut Stack<HeapMemory>, b: &mut Stack<HeapMemory>, now: &mut Instant) -> Connected {
    let end = *now + Duration::from_secs(1);
    let _ = b.rdma_parts().unwrap().0.endpoint.listen(50, 4);
    let peer = queue_pair(b);
    let (rdma, _) = a.rdma_parts().unwrap();
    let (pd, cq) = (rdma.endpoint.alloc_pd(), rdma.endpoint.create_cq(1000).unwrap());
    let qp = rdma.endpoint.create_qp(&QpInit::rc(pd, cq)).unwrap();
    let (mut asked, mut connected) = (false, false);
    while !connected {
        *now += Duration::from_micros(10);
        a.poll(*now).unwrap();
        b.poll(*now).unwrap();
        let (mut rdma, _) = a.rdma_parts().unwrap();
        if !asked && let PeerPath::Ready(path) = rdma.peer_path(*now, ip(2).into(), None) {
            rdma.endpoint.connect(*now, qp, &Connect::new(path, 50)).unwrap();
            asked = true;
        }
        connected |= matches!(rdma.endpoint.poll_event(), Some(roce::Event::Connected { .. }));
        let (rdma, _) = b.rdma_parts().unwrap();
        if let Some(roce::Event::ConnectRequest { conn, .. }) = rdma.endpoint.poll_event() {
            rdma.endpoint.accept(*now, conn, peer, &Terms::default()).unwrap();
        }
        assert!(*now < end);
    }
    Connected { qp, cq, peer, posted: 0, done: 0 }
}

impl Connected {
    fn post(&mut self, a: &mut Stack<HeapMemory>) {
        let write = SendOp::Write { addr: 0, rkey: 0 };
        let wr = SendWr::new(self.posted, write, Data::Inline(&[]));
        a.rdma_parts().unwrap().0.endpoint.post_send(self.qp, &wr).unwrap();
        self.posted += 1;
    }

    /// Takes what is done, which must have gone well, and has 32 requests under way.
    fn refill(&mut self, a: &mut Stack<HeapMemory>) {
        while let Some(wc) = a.rdma_parts().unwrap().0.endpoint.poll_cq_one(self.cq) {
            assert_eq!((wc.wr_id, wc.status), (self.done, roce::WcStatus::Success));
            self.done += 1;
        }
        while self.posted < self.done + 32 {
            self.post(a);
        }
    }
}

/// A wire that holds eight frames each way.
fn narrow() -> (MemoryEnd, MemoryEnd) {
    MemoryLink::new(MemoryConfig { slots: 8, ..MemoryConfig::default() }).unwrap()
}

/// A wire that takes eight frames each half a second, as one into an emulated machine that has few turns: requests wait behind one another
/// for longer than their time-outs, and no copies of them join the queue, which would leave the peer with nothing else to answer.
#[test]
fn a_port_that_is_full_is_no_silent_peer() {
    let (left, right) = narrow();
    let (mut a, mut b) = (stack(left, 1), stack(right, 2));
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut busy = connected(&mut a, &mut b, &mut now);
    for step in 0..20_000 {
        now += Duration::from_millis(1);
        busy.refill(&mut a);
        a.poll(now).unwrap();
        if step % 500 == 499 {
            b.poll(now).unwrap();
        }
    }
    assert!(busy.done > 250, "{}", busy.done);
}

/// A port that others keep full makes no dead peer seem alive.
#[test]
fn a_silent_peer_is_given_up_while_others_keep_the_port_full() {
    let (left, right) = narrow();
    let (mut a, mut b) = (stack(left, 1), stack(right, 2));
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut busy = connected(&mut a, &mut b, &mut now);
    let mut dead = connected(&mut a, &mut b, &mut now);
    b.rdma_parts().unwrap().0.endpoint.modify_qp(dead.peer, roce::Modify::Err).unwrap();
    dead.post(&mut a);
    let failed = (0..60_000).find_map(|step| {
        now += Duration::from_millis(1);
        busy.refill(&mut a);
        a.poll(now).unwrap();
        if step % 5 == 4 {
            b.poll(now).unwrap();
        }
        let wc = a.rdma_parts().unwrap().0.endpoint.poll_cq_one(dead.cq)?;
        Some((step, wc.status))
    });
    let (at, status) = failed.expect("a completion within a minute");
    assert_eq!(status, roce::WcStatus::RetryExceeded);
    let silence = roce::silence_max(13, 7, Duration::ZERO).unwrap().as_nanos() / 1_000_000;
    assert!((silence..silence + 10_000).contains(&at), "given up after {at} ms of {silence}");
    assert!(busy.done > 1000, "{}", busy.done);
}

/// A process that was stopped while its frames waited offers them to the port before it counts anything.
#[test]
fn a_process_that_stood_still_before_a_full_port_repeats_nothing() {
    let (left, right) = narrow();
    let (mut a, mut b) = (stack_with(left, 1, |config| config.cm.retry_count = 0), stack(right, 2));
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut busy = connected(&mut a, &mut b, &mut now);
    for _ in 0..10 {
        now += Duration::from_millis(1);
        busy.refill(&mut a);
        a.poll(now).unwrap();
    }
    now += Duration::from_secs(11);
    for _ in 0..100 {
        a.poll(now).unwrap();
        b.poll(now).unwrap();
        busy.refill(&mut a);
        now += Duration::from_millis(1);
    }
    assert!(busy.done > 100, "{}", busy.done);
}
