//! The traffic manager's queues: for each port, strict priority over FIFO queues with a depth and a rate.
//!
//! A packet waits only where it has to: a port without a rate limit, with nothing queued before, sends at once
//! (run to completion). So queues exist for the ports whose rate is limited; the others never touch this.

use super::EgressJob;
use barewire_base::Instant;
use std::collections::VecDeque;

/// Packets that a queue holds until told otherwise (bmv2's default).
pub const DEPTH_DEFAULT: usize = 64;
/// The most packets a queue may be told to hold.
pub const DEPTH_MAX: usize = 16_384;

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<EgressJob>,
    depth: usize,
    /// Nanoseconds between packets; 0 for no limit.
    gap_ns: u64,
    /// When the next packet may leave.
    next: Instant,
}

impl Queue {
    fn new(depth: usize, gap_ns: u64) -> Queue {
        Queue { waiting: VecDeque::new(), depth, gap_ns, next: Instant::ZERO }
    }
}

#[derive(Debug)]
struct PortQueues {
    port: u32,
    /// Highest priority last.
    queues: Vec<Queue>,
}

/// All queues of a switch.
#[derive(Debug)]
pub struct Queues {
    ports: Vec<PortQueues>,
    priorities: usize,
    /// For ports not named so far, by priority.
    defaults: Vec<(usize, u64)>,
    queued: usize,
    any_rate: bool,
}

impl Queues {
    /// `priorities` queues a port; 0 is the lowest.
    pub fn new(priorities: usize) -> Queues {
        let priorities = priorities.max(1);
        Queues {
            ports: Vec::new(),
            priorities,
            defaults: vec![(DEPTH_DEFAULT, 0); priorities],
            queued: 0,
            any_rate: false,
        }
    }

    /// How many priorities a port has.
    pub fn priorities(&self) -> usize {
        self.priorities
    }

    /// Set how many packets queues hold: of one port or all, of one priority or all.
    pub fn set_depth(&mut self, port: Option<u32>, priority: Option<usize>, packets: usize) {
        let packets = packets.min(DEPTH_MAX);
        self.each(port, priority, |depth, _| *depth = packets);
    }

    /// Set a rate in packets a second (0 for none): of one port or all, of one priority or all.
    pub fn set_rate(&mut self, port: Option<u32>, priority: Option<usize>, rate_pps: u64) {
        let gap_ns = 1_000_000_000_u64.checked_div(rate_pps).map_or(0, |gap| gap.max(1));
        self.each(port, priority, |_, gap| *gap = gap_ns);
        self.any_rate = self.defaults.iter().any(|d| d.1 != 0)
            || self.ports.iter().any(|p| p.queues.iter().any(|q| q.gap_ns != 0));
    }

    fn each(
        &mut self,
        port: Option<u32>,
        priority: Option<usize>,
        mut change: impl FnMut(&mut usize, &mut u64),
    ) {
        let chosen = |at: usize| priority.is_none_or(|p| p == at);
        match port {
            None => {
                for (at, (depth, gap)) in self.defaults.iter_mut().enumerate().filter(|(at, _)| chosen(*at)) {
                    let _ = at;
                    change(depth, gap);
                }
                for port in &mut self.ports {
                    for (_, q) in port.queues.iter_mut().enumerate().filter(|(at, _)| chosen(*at)) {
                        change(&mut q.depth, &mut q.gap_ns);
                    }
                }
            }
            Some(port) => {
                let index = self.find_or_make(port);
                for (_, q) in self.ports[index].queues.iter_mut().enumerate().filter(|(at, _)| chosen(*at)) {
                    change(&mut q.depth, &mut q.gap_ns);
                }
            }
        }
    }

    fn find_or_make(&mut self, port: u32) -> usize {
        if let Some(index) = self.ports.iter().position(|p| p.port == port) {
            return index;
        }
        let queues = self.defaults.iter().map(|&(depth, gap)| Queue::new(depth, gap)).collect();
        self.ports.push(PortQueues { port, queues });
        self.ports.len() - 1
    }

    /// Whether any rate is set: while none is, nothing ever has to wait.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.any_rate || self.queued > 0
    }

    /// Whether a packet for this queue has to go through it: its rate is limited, or others wait in it.
    #[inline]
    pub fn must_wait(&self, port: u32, priority: usize) -> bool {
        self.may_wait() && self.is_slow(port, priority)
    }

    fn is_slow(&self, port: u32, priority: usize) -> bool {
        match self.ports.iter().find(|p| p.port == port) {
            Some(port) => port.queues.get(priority).is_some_and(|q| q.gap_ns > 0 || !q.waiting.is_empty()),
            None => self.defaults.get(priority).is_some_and(|&(_, gap_ns)| gap_ns > 0),
        }
    }

    /// Packets waiting in all queues.
    pub fn waiting(&self) -> usize {
        self.queued
    }

    /// Packets waiting in one queue.
    pub fn len(&self, port: u32, priority: usize) -> usize {
        let found = self.ports.iter().find(|p| p.port == port).and_then(|p| p.queues.get(priority));
        found.map_or(0, |q| q.waiting.len())
    }

    /// Whether nothing waits anywhere.
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Put a packet in its queue; gives it back when the queue is full.
    pub fn push(&mut self, port: u32, priority: usize, job: EgressJob) -> Result<(), EgressJob> {
        let index = self.find_or_make(port);
        let queue = &mut self.ports[index].queues[priority];
        if queue.waiting.len() >= queue.depth {
            return Err(job);
        }
        queue.waiting.push_back(job);
        self.queued += 1;
        Ok(())
    }

    /// The next packet that may leave now: highest priority first, ports in the order they were first used.
    pub fn pop(&mut self, now: Instant) -> Option<EgressJob> {
        if self.queued == 0 {
            return None;
        }
        for port in &mut self.ports {
            for queue in port.queues.iter_mut().rev() {
                if queue.waiting.is_empty() || queue.next > now {
                    continue;
                }
                let job = queue.waiting.pop_front();
                self.queued -= 1;
                if queue.gap_ns > 0 {
                    // From when it was due, so that a late turn does not lower the rate; but no burst after idleness.
                    let from =
                        if queue.next.as_nanos() + queue.gap_ns > now.as_nanos() { queue.next } else { now };
                    queue.next = Instant::from_nanos(from.as_nanos() + queue.gap_ns);
                }
                return job;
            }
        }
        None
    }

    /// When a waiting packet may leave.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.queued == 0 {
            return None;
        }
        let waiting = self.ports.iter().flat_map(|p| &p.queues).filter(|q| !q.waiting.is_empty());
        waiting.map(|q| q.next).min()
    }

    /// Forget every packet that waits; says how many there were.
    pub fn clear(&mut self) -> usize {
        for queue in self.ports.iter_mut().flat_map(|p| &mut p.queues) {
            queue.waiting.clear();
        }
        std::mem::take(&mut self.queued)
    }
}
