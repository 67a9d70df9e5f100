//! The world: nodes, links, the clock, and the loop that moves them.

use crate::event::{Kind, Queue};
use crate::hash::TraceHash;
use crate::link::Wire;
use crate::{Hub, Leak, LinkConfig, LinkFilter, LinkStats, NoLeak, Node, NodeClock, NodeId, NodeStats};
use barewire_base::{Duration, Instant, Prng};
use barewire_frame::{Frame, Pool, PoolConfig, PoolError, Stamp};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;

/// The world's clock when it starts. Not zero, so that "some time ago" is a time.
pub(crate) const START: Instant = Instant::from_nanos(1_000_000_000);

/// Events that a world handles before a run ends with [`Outcome::StepLimit`], unless told otherwise.
pub const STEP_LIMIT_DEFAULT: u64 = 50_000_000;

/// Events and transmitted frames within one nanosecond before a run ends with [`Outcome::StepLimit`]: time stands still
/// when a node answers its own deadline with the same deadline, or never stops transmitting.
pub const STEPS_PER_INSTANT_MAX: u64 = 1_000_000;

/// Frames that wait for a paused node, as in the ring of its network card; more are dropped and counted.
pub const PAUSED_FRAMES_MAX: usize = 1024;

/// Names a link of one world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(usize);

/// One of a link's two directions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// From the first node of [`World::connect`] to the second.
    Forward = 0,
    /// Back.
    Reverse = 1,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Outcome {
    /// The condition came true, or the deadline of [`World::run_until`] was reached.
    Done,
    /// The time was up first; the clock stands at the end of it.
    TimedOut,
    /// Nothing is left that could happen.
    Idle,
    /// A step limit was reached: time stands still, or the run is longer than it may be.
    StepLimit,
}

impl Outcome {
    /// Checks that the run was [`Outcome::Done`].
    ///
    /// # Panics
    /// When it was not, naming what it was.
    #[track_caller]
    pub fn unwrap_done(self) {
        let why = match self {
            Outcome::Done => return,
            Outcome::TimedOut => "timed out before its condition was met",
            Outcome::Idle => "came to rest before its condition was met: no frame in flight, no timer set",
            Outcome::StepLimit => {
                "reached its step limit: a node keeps time from advancing, or the run is too long"
            }
        };
        panic!("the simulated run {why}");
    }
}

/// A frame at the moment of its delivery, for [`World::observe`].
#[derive(Debug)]
pub struct Delivery<'a> {
    /// The world's time.
    pub at: Instant,
    /// The link it came over.
    pub link: LinkId,
    /// In which direction.
    pub direction: Direction,
    /// The node that gets it.
    pub to: NodeId,
    /// The whole frame from its Ethernet header on, as it arrives (damage included).
    pub bytes: &'a [u8],
}

type Observer = Box<dyn FnMut(&Delivery<'_>)>;

/// A hub and its spokes.
#[derive(Clone, Debug)]
pub struct Star {
    /// The [`Hub`] in the middle.
    pub hub: NodeId,
    /// The link of each node, in the order given; forward is towards the hub.
    pub links: Vec<LinkId>,
}

struct Slot {
    node: Option<Box<dyn Node>>,
    clock: NodeClock,
    /// The outgoing wire of each port.
    ports: Vec<usize>,
    stats: NodeStats,
    /// When the node wants to be called, in world time.
    deadline: Option<Instant>,
    /// When its timer event stands in the queue. It may be too early: then it is put back, which costs less than a new
    /// event each time that a deadline moves on.
    armed: Option<Instant>,
    timer_generation: u64,
    paused: bool,
    pause_generation: u64,
    waiting: VecDeque<Frame>,
    dirty: bool,
}

/// A whole network on one thread, replayed from one seed.
///
/// Ids belong to the world that gave them out; one from another world panics or names something else.
pub struct World {
    now: Instant,
    seed: u64,
    prng: Prng,
    events: Queue,
    nodes: Vec<Slot>,
    wires: Vec<Wire>,
    /// Nodes that somebody touched from outside: they are polled before anything else happens.
    dirty: Vec<usize>,
    trace: TraceHash,
    observer: Option<Observer>,
    in_flight: usize,
    steps: u64,
    step_limit: u64,
    instant_steps: u64,
    // Last: frames go home before it is dropped.
    pool: Pool,
}

impl World {
    /// An empty world with a pool of [`PoolConfig::default`].
    ///
    /// # Panics
    /// When the system has no memory for the pool.
    pub fn new(seed: u64) -> World {
        Self::with_pool(seed, PoolConfig::default()).unwrap_or_else(|why| panic!("{why}"))
    }

    /// An empty world with a pool of a given shape (jumbo frames, or so few that it runs dry).
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn with_pool(seed: u64, pool: PoolConfig) -> Result<World, PoolError> {
        Ok(World {
            now: START,
            seed,
            prng: Prng::new(seed),
            events: Queue::default(),
            nodes: Vec::new(),
            wires: Vec::new(),
            dirty: Vec::new(),
            trace: TraceHash::new(),
            observer: None,
            in_flight: 0,
            steps: 0,
            step_limit: STEP_LIMIT_DEFAULT,
            instant_steps: 0,
            pool: Pool::new(pool)?,
        })
    }

    // ---- Building ----

    /// Adds a node. Its first poll comes with the next step.
    pub fn add_node(&mut self, node: Box<dyn Node>) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Slot {
            node: Some(node),
            clock: NodeClock::default(),
            ports: Vec::new(),
            stats: NodeStats::default(),
            deadline: None,
            armed: None,
            timer_generation: 0,
            paused: false,
            pause_generation: 0,
            waiting: VecDeque::new(),
            dirty: false,
        });
        self.touch(id);
        NodeId(id)
    }

    /// Joins two nodes by a link with the same behaviour (and independent draws) in both directions. It is the next port
    /// of each: a node's first link is its port 0.
    pub fn connect(&mut self, a: NodeId, b: NodeId, config: LinkConfig) -> LinkId {
        self.connect_with(a, b, config.clone(), config)
    }

    /// Joins two nodes by a link with different directions.
    pub fn connect_with(&mut self, a: NodeId, b: NodeId, forward: LinkConfig, reverse: LinkConfig) -> LinkId {
        let wire = self.wires.len();
        let a_port = self.nodes[a.0].ports.len() as u16;
        self.nodes[a.0].ports.push(wire);
        let b_port = self.nodes[b.0].ports.len() as u16;
        self.nodes[b.0].ports.push(wire + 1);
        self.wires.push(Wire::new(b.0, b_port, forward, self.prng.fork()));
        self.wires.push(Wire::new(a.0, a_port, reverse, self.prng.fork()));
        LinkId(wire / 2)
    }

    /// Puts a [`Hub`] between nodes, each known to it by its MAC address and joined by a link of its own.
    pub fn star(&mut self, nodes: &[(NodeId, [u8; 6])], config: &LinkConfig) -> Star {
        let mut table = Hub::new();
        for (port, (_, mac)) in nodes.iter().enumerate() {
            table.attach(*mac, port as u16);
        }
        let hub = self.add_node(Box::new(table));
        let links = nodes.iter().map(|(node, _)| self.connect(*node, hub, config.clone())).collect();
        Star { hub, links }
    }

    /// A generator for a node or a test, independent of all others and replayed with the world.
    pub fn fork_prng(&mut self) -> Prng {
        self.prng.fork()
    }

    /// Sets a node's clock. Meant for the start: a clock set back later breaks what nodes may rely on.
    pub fn set_clock(&mut self, id: NodeId, clock: NodeClock) {
        self.nodes[id.0].clock = clock;
        self.touch(id.0);
    }

    // ---- Looking ----

    /// The world's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The time that a node reads.
    pub fn local_now(&self, id: NodeId) -> Instant {
        self.nodes[id.0].clock.local(self.now)
    }

    /// The seed that this world replays from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Where the frames come from; nodes keep a clone.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Hash over the time, link, direction and bytes of every frame delivered so far.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }

    /// Frames on the way between nodes.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Events handled so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What has passed one direction of a link.
    pub fn link_stats(&self, link: LinkId, direction: Direction) -> &LinkStats {
        &self.wires[wire(link, direction)].stats
    }

    /// What happened to a node's frames outside of any link.
    pub fn node_stats(&self, id: NodeId) -> NodeStats {
        self.nodes[id.0].stats
    }

    /// Whether the node is there, paused or not.
    pub fn is_alive(&self, id: NodeId) -> bool {
        self.nodes[id.0].node.is_some()
    }

    /// A node, as what it is.
    ///
    /// # Panics
    /// When the node is dead or no `T`.
    #[track_caller]
    pub fn node<T: Node>(&self, id: NodeId) -> &T {
        let node: &dyn Any = self.nodes[id.0].node.as_deref().expect("the node is dead");
        node.downcast_ref().expect("the node is of another type")
    }

    /// A node, as what it is, to call. It is polled for frames and its deadline before the next event, unless paused.
    ///
    /// # Panics
    /// When the node is dead or no `T`.
    #[track_caller]
    pub fn node_mut<T: Node>(&mut self, id: NodeId) -> &mut T {
        self.touch(id.0);
        let node: &mut dyn Any = self.nodes[id.0].node.as_deref_mut().expect("the node is dead");
        node.downcast_mut().expect("the node is of another type")
    }

    // ---- Interfering ----

    /// Changes both directions of a link from now on. Frames on the wire keep their time; bytes in the queue drain at
    /// the new rate for those that follow them.
    pub fn set_link(&mut self, link: LinkId, config: LinkConfig) {
        self.set_direction(link, Direction::Forward, config.clone());
        self.set_direction(link, Direction::Reverse, config);
    }

    /// Changes one direction of a link from now on.
    pub fn set_direction(&mut self, link: LinkId, direction: Direction, config: LinkConfig) {
        self.wires[wire(link, direction)].configure(self.now, config);
    }

    /// Sets or removes a test's own hand on one direction, to take out exactly the frame that matters.
    pub fn set_filter(&mut self, link: LinkId, direction: Direction, filter: Option<LinkFilter>) {
        self.wires[wire(link, direction)].filter = filter;
    }

    /// Puts a frame on a link as if the near node had sent it: a forgery, a replay.
    pub fn inject(&mut self, link: LinkId, direction: Direction, frame: Frame) {
        self.transmit(wire(link, direction), frame);
    }

    /// Kills a node: its timers end, and what arrives or waits for it is lost. Its links stay. The corpse, for an
    /// autopsy; `None` when it was dead.
    pub fn kill(&mut self, id: NodeId) -> Option<Box<dyn Node>> {
        let slot = &mut self.nodes[id.0];
        slot.disarm();
        slot.unpause();
        slot.waiting.clear();
        slot.node.take()
    }

    /// Puts a new node in the place, with the links and the clock, of a dead or living one, which is killed first.
    pub fn restart(&mut self, id: NodeId, node: Box<dyn Node>) -> Option<Box<dyn Node>> {
        let old = self.kill(id);
        self.nodes[id.0].node = Some(node);
        self.touch(id.0);
        old
    }

    /// Stops a node, as a stopped process is: its frames wait (up to [`PAUSED_FRAMES_MAX`]), its deadlines pass, until
    /// [`resume`](Self::resume).
    pub fn pause(&mut self, id: NodeId) {
        let slot = &mut self.nodes[id.0];
        slot.paused = slot.node.is_some();
        slot.pause_generation += 1;
    }

    /// Stops a node for a while.
    pub fn pause_for(&mut self, id: NodeId, time: Duration) {
        self.pause(id);
        let generation = self.nodes[id.0].pause_generation;
        self.events.push(self.now + time, Kind::Resume { node: id.0, generation });
    }

    /// Lets a paused node go on: it gets the frames that waited, then a deadline that passed.
    pub fn resume(&mut self, id: NodeId) {
        let slot = &mut self.nodes[id.0];
        if !slot.paused {
            return;
        }
        slot.unpause();
        for frame in std::mem::take(&mut slot.waiting) {
            self.hand_to_node(id.0, frame);
        }
        self.poll(id.0);
    }

    /// Runs `script` at `time` (now, if that has passed), in its turn among the events.
    pub fn at(&mut self, time: Instant, script: impl FnOnce(&mut World) + 'static) {
        self.events.push(time.max(self.now), Kind::Call(Box::new(script)));
    }

    /// Shows every delivered frame to `observer`: to print a failing run, to check what is on the wire.
    pub fn observe(&mut self, observer: impl FnMut(&Delivery<'_>) + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// Changes the number of events after which runs end with [`Outcome::StepLimit`], counted from the world's start.
    pub fn set_step_limit(&mut self, steps: u64) {
        self.step_limit = steps;
    }

    // ---- Running ----

    /// Handles the next event. False when there is none, or when a limit was reached
    /// ([`limit_reached`](Self::limit_reached)).
    pub fn step(&mut self) -> bool {
        let more = self.next_at().is_some() && !self.limit_reached();
        if more {
            self.dispatch();
        }
        more
    }

    /// Handles every event up to and at `deadline` and sets the clock to it: [`Outcome::Done`], or
    /// [`Outcome::StepLimit`] with the clock where it stuck.
    pub fn run_until(&mut self, deadline: Instant) -> Outcome {
        loop {
            let next = self.next_at();
            if self.limit_reached() {
                return Outcome::StepLimit;
            }
            match next {
                Some(at) if at <= deadline => self.dispatch(),
                _ => {
                    self.advance(deadline);
                    return Outcome::Done;
                }
            }
        }
    }

    /// [`run_until`](Self::run_until) `time` from now.
    pub fn run_for(&mut self, time: Duration) -> Outcome {
        self.run_until(self.now + time)
    }

    /// Handles events while `going` says so, asked before each, but not for more than `max_time`. `going` may drive the
    /// nodes: whatever it does to them takes effect before the next event.
    pub fn run_while(&mut self, max_time: Duration, mut going: impl FnMut(&mut World) -> bool) -> Outcome {
        let deadline = self.now + max_time;
        loop {
            if !going(self) {
                return Outcome::Done;
            }
            let next = self.next_at();
            if self.limit_reached() {
                return Outcome::StepLimit;
            }
            match next {
                None => return Outcome::Idle,
                Some(at) if at > deadline => {
                    self.advance(deadline);
                    return Outcome::TimedOut;
                }
                Some(_) => self.dispatch(),
            }
        }
    }

    /// Whether a step limit ended the last run.
    pub fn limit_reached(&self) -> bool {
        self.steps >= self.step_limit || self.instant_steps >= STEPS_PER_INSTANT_MAX
    }

    /// Ends the world: drops nodes and frames in flight, and checks that every frame of the pool came home.
    ///
    /// # Errors
    /// Frames that somebody still holds, or lost.
    pub fn close(self) -> Result<(), Leak> {
        let check = NoLeak::watch(&self.pool);
        drop(self);
        check.check()
    }

    // ---- The machine ----

    fn touch(&mut self, node: usize) {
        if !std::mem::replace(&mut self.nodes[node].dirty, true) {
            self.dirty.push(node);
        }
    }

    fn advance(&mut self, to: Instant) {
        if to > self.now {
            self.now = to;
            self.instant_steps = 0;
        }
    }

    /// When the next event is due, with touched nodes polled and outlived timers out of the way.
    fn next_at(&mut self) -> Option<Instant> {
        for i in 0.. {
            let Some(&node) = self.dirty.get(i) else { break };
            self.nodes[node].dirty = false;
            self.poll(node);
        }
        self.dirty.clear();
        loop {
            let (at, node, generation) = match self.events.peek()? {
                event @ crate::event::Event { kind: Kind::Timer { node, generation }, .. } => {
                    (event.at, *node, *generation)
                }
                event => return Some(event.at),
            };
            let slot = &mut self.nodes[node];
            if slot.timer_generation != generation {
                self.events.pop();
                continue;
            }
            match slot.deadline {
                Some(deadline) if deadline <= at && !slot.paused => return Some(at),
                Some(deadline) if !slot.paused => {
                    slot.armed = Some(deadline);
                    self.events.pop();
                    self.events.push(deadline, Kind::Timer { node, generation });
                }
                _ => {
                    slot.disarm();
                    self.events.pop();
                }
            }
        }
    }

    /// Handles the event that `next_at` found.
    fn dispatch(&mut self) {
        let Some(event) = self.events.pop() else { return };
        self.advance(event.at);
        self.steps += 1;
        self.instant_steps += 1;
        match event.kind {
            Kind::Deliver { direction, frame } => self.deliver(direction, frame),
            Kind::Timer { node, .. } => {
                let slot = &mut self.nodes[node];
                slot.disarm();
                if let Some(stack) = &mut slot.node {
                    slot.stats.timeouts += 1;
                    stack.handle_timeout(slot.clock.local(self.now));
                }
                self.poll(node);
            }
            Kind::Resume { node, generation } => {
                if self.nodes[node].pause_generation == generation {
                    self.resume(NodeId(node));
                }
            }
            Kind::Call(script) => script(self),
        }
    }

    fn deliver(&mut self, direction: usize, mut frame: Frame) {
        self.in_flight -= 1;
        let wire = &mut self.wires[direction];
        let to = wire.to;
        let slot = &mut self.nodes[to];
        if slot.node.is_none() || (slot.paused && slot.waiting.len() >= PAUSED_FRAMES_MAX) {
            wire.stats.dropped_dead += 1;
            return;
        }
        wire.stats.delivered += 1;
        wire.stats.delivered_bytes += frame.len() as u64;
        self.trace.word(self.now.as_nanos());
        self.trace.word(direction as u64);
        self.trace.bytes(frame.data());
        if let Some(observer) = &mut self.observer {
            observer(&Delivery {
                at: self.now,
                link: LinkId(direction / 2),
                direction: if direction.is_multiple_of(2) { Direction::Forward } else { Direction::Reverse },
                to: NodeId(to),
                bytes: frame.data(),
            });
        }
        frame.set_port(wire.to_port);
        frame.set_stamp(Stamp::engine(slot.clock.local(self.now)));
        if slot.paused {
            slot.waiting.push_back(frame);
        } else {
            self.hand_to_node(to, frame);
        }
    }

    fn hand_to_node(&mut self, node: usize, frame: Frame) {
        let slot = &mut self.nodes[node];
        if let Some(stack) = &mut slot.node {
            stack.handle_frame(slot.clock.local(self.now), frame);
        }
        self.poll(node);
    }

    /// Takes what a node has to send, then its next deadline.
    fn poll(&mut self, node: usize) {
        loop {
            let slot = &mut self.nodes[node];
            let Some(stack) = &mut slot.node else { return };
            if slot.paused || self.instant_steps >= STEPS_PER_INSTANT_MAX {
                return;
            }
            let Some(frame) = stack.poll_transmit(slot.clock.local(self.now)) else { break };
            self.instant_steps += 1;
            match slot.ports.get(usize::from(frame.port())) {
                Some(&wire) => self.transmit(wire, frame),
                None => slot.stats.unrouted += 1,
            }
        }
        let slot = &mut self.nodes[node];
        let wanted = slot.node.as_ref().and_then(|stack| stack.poll_timeout());
        slot.deadline =
            wanted.filter(|&at| at < Instant::FAR_FUTURE).map(|at| slot.clock.world(at).max(self.now));
        if let Some(deadline) = slot.deadline
            && slot.armed.is_none_or(|armed| deadline < armed)
        {
            slot.timer_generation += 1;
            slot.armed = Some(deadline);
            self.events.push(deadline, Kind::Timer { node, generation: slot.timer_generation });
        }
    }

    fn transmit(&mut self, wire: usize, frame: Frame) {
        let World { wires, events, in_flight, now, .. } = self;
        wires[wire].admit(*now, frame, |at, frame| {
            *in_flight += 1;
            events.push(at, Kind::Deliver { direction: wire, frame });
        });
    }
}

impl Slot {
    fn disarm(&mut self) {
        self.timer_generation += 1;
        self.armed = None;
        self.deadline = None;
    }

    fn unpause(&mut self) {
        self.paused = false;
        self.pause_generation += 1;
    }
}

fn wire(link: LinkId, direction: Direction) -> usize {
    link.0 * 2 + direction as usize
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deadlines: Vec<_> = self.nodes.iter().map(|slot| slot.deadline).collect();
        f.debug_struct("World")
            .field("seed", &self.seed)
            .field("now", &self.now)
            .field("steps", &self.steps)
            .field("in_flight", &self.in_flight)
            .field("frames_free", &self.pool.available())
            .field("deadlines", &deadlines)
            .finish()
    }
}
