//! A process that is stopped, or a virtual machine that is taken away: what arrived meanwhile counts before the clock does.

use barewire_base::{Duration, Instant};
use barewire_engine::Stack;
use barewire_frame::{Pool, PoolConfig};
use barewire_host::{Host, HostConfig};
use barewire_port::{MemoryConfig, MemoryEnd, MemoryLink};
use barewire_transport::{Config, Endpoint, Event, HeapMemory};
use barewire_wire::MacAddr;
use std::net::{Ipv4Addr, SocketAddr};

fn stack(end: MemoryEnd, pool: &Pool, n: u8) -> Stack<HeapMemory> {
    let mut config = HostConfig::new(MacAddr([2, 0, 0, 0, 0, n]));
    config.ipv4 = vec![(Ipv4Addr::new(10, 0, 0, n), 24)];
    let endpoint = Endpoint::new(Config::default(), HeapMemory::new(1 << 20, 1 << 20), [n; 32]).unwrap();
    Stack::new(Box::new(end.open(pool.clone())), pool.clone(), Host::new(config), endpoint)
}

#[test]
fn an_answer_that_came_during_a_pause_is_read_before_the_time_is_up() {
    let pool = Pool::new(PoolConfig::default()).unwrap();
    let (left, right) = MemoryLink::new(MemoryConfig::default()).unwrap();
    let (mut a, mut b) = (stack(left, &pool, 1), stack(right, &pool, 2));
    let mut now = Instant::from_nanos(1_000_000_000);
    b.endpoint_mut().listen(888, 0, 0).unwrap();
    let at = |n: u8, port| SocketAddr::from((Ipv4Addr::new(10, 0, 0, n), port));
    let flow = a.endpoint_mut().connect(now, 0, at(1, 0), at(2, 888), true, 0).unwrap();
    for _ in 0..100 {
        now += Duration::from_micros(10);
        a.poll(now).unwrap();
        b.poll(now).unwrap();
    }
    let connected = |s: &mut Stack<HeapMemory>| {
        std::iter::from_fn(|| s.poll_event()).any(|e| matches!(e, Event::Connected { .. }))
    };
    assert!(connected(&mut a));
    for message in 0..200u32 {
        let memory = a.endpoint_mut().memory_mut();
        let buf = memory.reserve(1_000).unwrap();
        memory.send_bytes(buf).fill(message as u8);
        a.endpoint_mut().send(now, flow, buf, 0).unwrap();
    }
    // The other side is away until time-outs are counted.
    for _ in 0..1_000 {
        now += Duration::from_micros(10);
        a.poll(now).unwrap();
    }
    let timeouts = |s: &Stack<HeapMemory>| s.endpoint().counters().timeouts.get();
    assert!(timeouts(&a) > 0, "no answer for 10 ms");
    // It answers; then this side is away, for longer than a flow has patience.
    b.poll(now).unwrap();
    b.poll(now + Duration::from_micros(100)).unwrap();
    now += Duration::from_secs(8);
    for _ in 0..1_000 {
        now += Duration::from_micros(10);
        a.poll(now).unwrap();
        b.poll(now).unwrap();
    }
    let events: Vec<Event> = std::iter::from_fn(|| a.poll_event()).collect();
    let sent = events.iter().filter(|e| matches!(e, Event::Sent { delivered: true, .. })).count();
    assert_eq!((sent, events.len()), (200, 200), "{:?}", events.last());
}
