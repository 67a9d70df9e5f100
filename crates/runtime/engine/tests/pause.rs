//! A process that is stopped, or a virtual machine that is taken away: what arrived meanwhile counts before the clock does.

use barewire_base::{Duration, Instant};
use barewire_engine::{Stack, Steered, Steering};
use barewire_frame::{Burst, Frame, Pool, PoolConfig};
use barewire_host::{Datagram, Host, HostConfig};
use barewire_port::{MemoryConfig, MemoryEnd, MemoryLink, Port as _};
use barewire_transport::{Config, Endpoint, Event, HeapMemory};
use barewire_wire::MacAddr;
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

fn stack(end: MemoryEnd, pool: &Pool, n: u8) -> Stack<HeapMemory> {
    let mut config = HostConfig::new(MacAddr([2, 0, 0, 0, 0, n]));
    config.ipv4 = vec![(Ipv4Addr::new(10, 0, 0, n), 24)];
    let endpoint = Endpoint::new(Config::default(), HeapMemory::new(1 << 20, 1 << 20), [n; 32]).unwrap();
    Stack::new(Box::new(end.open(pool.clone())), pool.clone(), Host::new(config), endpoint)
}

/// How often both sides, or this one alone, get their turn.
type Cycle<'a> = dyn FnMut(&mut Stack<HeapMemory>, Instant) + 'a;

/// A flow of `a` to `b` with 200 messages under way, after a time-out that `b` has answered since. `cycle` is a turn of `a`.
fn under_way(a: &mut Stack<HeapMemory>, b: &mut Stack<HeapMemory>, now: &mut Instant, cycle: &mut Cycle<'_>) {
    b.endpoint_mut().listen(888, 0, 0).unwrap();
    let at = |n: u8, port| SocketAddr::from((Ipv4Addr::new(10, 0, 0, n), port));
    let flow = a.endpoint_mut().connect(*now, 0, at(1, 0), at(2, 888), true, 0).unwrap();
    for _ in 0..100 {
        *now += Duration::from_micros(10);
        cycle(a, *now);
        b.poll(*now).unwrap();
    }
    assert!(std::iter::from_fn(|| a.poll_event()).any(|e| matches!(e, Event::Connected { .. })));
    for message in 0..200u32 {
        let memory = a.endpoint_mut().memory_mut();
        let buf = memory.reserve(1_000).unwrap();
        memory.send_bytes(buf).fill(message as u8);
        a.endpoint_mut().send(*now, flow, buf, 0).unwrap();
    }
    // The other side is away until time-outs are counted.
    for _ in 0..1_000 {
        *now += Duration::from_micros(20);
        cycle(a, *now);
    }
    assert!(a.endpoint().counters().timeouts.get() > 0, "no answer for 20 ms");
    // It answers.
    b.poll(*now).unwrap();
    b.poll(*now + Duration::from_micros(100)).unwrap();
}

fn all_arrived(a: &mut Stack<HeapMemory>) {
    let events: Vec<Event> = std::iter::from_fn(|| a.poll_event()).collect();
    let sent = events.iter().filter(|e| matches!(e, Event::Sent { delivered: true, .. })).count();
    assert_eq!((sent, events.len()), (200, 200), "{:?}", events.last());
}

#[test]
fn an_answer_that_came_during_a_pause_is_read_before_the_time_is_up() {
    let pool = Pool::new(PoolConfig::default()).unwrap();
    let (left, right) = MemoryLink::new(MemoryConfig::default()).unwrap();
    let (mut a, mut b) = (stack(left, &pool, 1), stack(right, &pool, 2));
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut cycle = |a: &mut Stack<HeapMemory>, now| {
        a.poll(now).unwrap();
    };
    under_way(&mut a, &mut b, &mut now, &mut cycle);
    // Then this side is away, for longer than a flow has patience.
    now += Duration::from_secs(8);
    let timeouts = a.endpoint().counters().timeouts.get();
    for _ in 0..1_000 {
        now += Duration::from_micros(10);
        cycle(&mut a, now);
        b.poll(now).unwrap();
    }
    assert_eq!(a.endpoint().counters().timeouts.get(), timeouts, "the clock counted before the answer did");
    all_arrived(&mut a);
}

/// All is ours.
struct Alone;

impl Steering for Alone {
    fn steer(&mut self, _own: u8, _leg: usize, _datagram: &Datagram, _frame: &Frame) -> Steered {
        Steered::Ours
    }
    fn tell_all(&mut self, _leg: usize, _frame: &Frame) {}
}

#[test]
fn an_answer_that_came_in_at_another_engine_is_waited_for() {
    let pool = Pool::new(PoolConfig::default()).unwrap();
    let (left, right) = MemoryLink::new(MemoryConfig::default()).unwrap();
    // What `a` sends goes out at its own port, and what comes for it comes in at its neighbour's.
    let (mine, out) = MemoryLink::new(MemoryConfig::default()).unwrap();
    let (mut out, mut neighbour) = (out.open(pool.clone()), left.open(pool.clone()));
    let (mut a, mut b) = (stack(mine, &pool, 1), stack(right, &pool, 2));
    let mut burst = Burst::new();
    let neighbour_is_back = Cell::new(true);
    let mut cycle = |a: &mut Stack<HeapMemory>, now: Instant| {
        a.transmit_steered(now, Some(&mut Alone)).unwrap();
        a.receive(now, Some(&mut Alone)).unwrap();
        while out.rx_burst(now, &mut burst).unwrap() > 0 {
            neighbour.tx_burst(now, &mut burst).unwrap();
        }
        while neighbour_is_back.get() && neighbour.rx_burst(now, &mut burst).unwrap() > 0 {
            while let Some(mut frame) = burst.pop() {
                a.take_steered(now, &mut frame);
            }
        }
    };
    let mut now = Instant::from_nanos(1_000_000_000);
    under_way(&mut a, &mut b, &mut now, &mut cycle);
    // Both engines are away; this one is back some milliseconds before the other.
    now += Duration::from_secs(8);
    neighbour_is_back.set(false);
    for i in 0..1_000 {
        now += Duration::from_micros(10);
        neighbour_is_back.set(i > 500);
        cycle(&mut a, now);
        b.poll(now).unwrap();
    }
    all_arrived(&mut a);
}
