//! The duty cycle and the sleep allocate nothing, by an allocator that counts.

use barewire_base::{Duration, Instant};
use barewire_engine::{
    Agent, CounterKind, CounterSlot, CountersPage, Engine, EngineConfig, EngineLinks, EngineSlots,
    IdleStrategy, StopFlag,
};
use barewire_testing::{Counting, allocations};
use std::cell::Cell;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Works in every other cycle, counts on the page, has a descriptor and a deadline.
struct Busy {
    cycles: u64,
    slot: CounterSlot,
    socket: UnixStream,
    wake_at: Instant,
    stop_after: u64,
    stop: StopFlag,
    /// Allocations when the engine had warmed up, and at the end.
    seen: std::rc::Rc<Cell<(u64, u64)>>,
}

impl Agent for Busy {
    fn name(&self) -> &str {
        "busy"
    }
    fn do_work(&mut self, now: Instant) -> usize {
        self.cycles += 1;
        self.slot.add(1);
        // Far enough away for a sleep, also when the thread has to wait for its core.
        self.wake_at = now + Duration::from_micros(500);
        // The first sleep collects descriptors; by the hundredth cycle there has been one.
        if self.cycles == 100 {
            self.seen.set((allocations(), 0));
        }
        if self.cycles == self.stop_after {
            self.seen.set((self.seen.get().0, allocations()));
            self.stop.stop();
        }
        (self.cycles % 2) as usize
    }
    fn next_deadline(&self) -> Option<Instant> {
        Some(self.wake_at)
    }
    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        add(self.socket.as_raw_fd());
    }
    fn publish(&mut self, now: Instant) {
        self.slot.set(now.as_nanos());
    }
}

#[test]
fn neither_cycle_nor_sleep_nor_publication_allocates() {
    let before = allocations();
    drop(Box::new(7));
    assert!(allocations() > before, "the allocator does count");

    let path = std::env::temp_dir().join(format!("barewire-no-alloc-{}.counters", std::process::id()));
    let mut page = CountersPage::create(&path, 64).unwrap();
    let stop = StopFlag::new().unwrap();
    let (socket, _peer) = UnixStream::pair().unwrap();
    let seen = std::rc::Rc::new(Cell::new((0, 0)));
    let agent = Busy {
        cycles: 0,
        slot: page.register("busy", CounterKind::Gauge).unwrap(),
        socket,
        wake_at: Instant::ZERO,
        stop_after: 3_000,
        stop: stop.clone(),
        seen: seen.clone(),
    };
    let links =
        EngineLinks { slots: Some(EngineSlots::register(&mut page, "e").unwrap()), ..EngineLinks::default() };
    let config =
        EngineConfig { idle: IdleStrategy::Park { spin: Duration::ZERO }, ..EngineConfig::default() };
    let mut engine = Engine::with_links(config, links).unwrap();
    engine.add(Box::new(agent));

    let before = allocations();
    for _ in 0..50 {
        engine.run_once();
    }
    assert_eq!(allocations() - before, 0, "run_once");

    engine.run(&stop);
    let (warm, end) = seen.get();
    assert_eq!(end - warm, 0, "run");
    assert!(warm > 0);
    assert!(engine.counters().parks.get() > 1_000, "{:?}", engine.counters());
    assert_eq!(engine.counters().work_items.get(), 1_500);
}
