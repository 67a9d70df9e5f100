//! The duty cycle and the sleep.

use crate::alarm::Alarm;
use crate::sys::{Epoll, Token};
use crate::{Agent, EngineCounters, EngineError, EngineSlots, IdleStrategy, StopFlag, Waker, now, sys};
use barewire_base::{Duration, Instant};
use std::hint::spin_loop;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, OnceLock};
use std::thread::yield_now;

/// How often agents publish their counters while the engine is awake.
pub const PUBLISH_INTERVAL: Duration = Duration::from_millis(10);
/// Cycles longer than this are counted as slow.
pub const SLOW_CYCLE: Duration = Duration::from_millis(1);
/// The longest sleep while some descriptor cannot be watched (a regular file, one closed too early): what it would have
/// announced is found by looking.
pub const UNWATCHED_POLL: Duration = Duration::from_millis(1);

/// How to make an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Names the thread (the kernel keeps 15 bytes) and the engine in messages.
    pub name: String,
    /// The core to pin the thread to, as the kernel numbers them.
    pub core: Option<usize>,
    /// What to do when there is nothing to do.
    pub idle: IdleStrategy,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig { name: "engine".into(), core: None, idle: IdleStrategy::default() }
    }
}

/// What ties an engine to the rest of the program, where that has to exist before the engine does.
#[derive(Debug, Default)]
pub struct EngineLinks {
    /// The waker that the engine is to listen to; no other engine may. `None`: it makes one.
    pub waker: Option<Waker>,
    /// Where to publish the engine's own counters.
    pub slots: Option<EngineSlots>,
    /// The counters to use, when somebody has to see them before there is an engine.
    pub counters: Option<Arc<EngineCounters>>,
}

/// Runs agents on the thread that made it. Stays on that thread: it is not `Send`, as agents are not.
pub struct Engine {
    config: EngineConfig,
    agents: Vec<Box<dyn Agent>>,
    counters: Arc<EngineCounters>,
    slots: Option<EngineSlots>,
    waker: Waker,
    epoll: Epoll,
    alarm: Alarm,
    /// Descriptors of agents that `epoll` watches.
    watched: Vec<RawFd>,
    /// Sum of the agents' generations when `watched` was collected; `None` when it has to be collected anew.
    generation: Option<u64>,
    /// How many descriptors of agents cannot be watched, and whether the stop flag's cannot.
    unwatched: u64,
    stop_unwatched: bool,
    /// The stop flag's descriptor, while `run` borrows the flag.
    stop_fd: Option<RawFd>,
    /// When the current or last cycle began. `FAR_FUTURE` when the time since then is none of the tracker's business:
    /// `since` then says zero.
    cycle_start: Instant,
    next_publish: Instant,
    /// Some agent worked since the last publication.
    unpublished: bool,
    /// The last sleep was ended by a descriptor and no cycle has run since.
    just_woken: bool,
    closed: bool,
}

impl Engine {
    /// An engine without agents. Pins the calling thread when the configuration names a core.
    ///
    /// # Errors
    /// [`EngineError::CoreNotAllowed`], or [`EngineError::Sys`] when there is no descriptor left.
    pub fn new(config: EngineConfig) -> Result<Engine, EngineError> {
        Engine::with_links(config, EngineLinks::default())
    }

    /// As [`new`](Engine::new), tied to the rest of the program.
    ///
    /// # Errors
    /// As [`new`](Engine::new).
    pub fn with_links(config: EngineConfig, links: EngineLinks) -> Result<Engine, EngineError> {
        let sys_error = |call| move |source| EngineError::Sys { call, source };
        if let Some(core) = config.core {
            pin(&config.name, core)?;
        }
        let waker = links.waker.map_or_else(Waker::new, Ok)?;
        let epoll = Epoll::new().map_err(sys_error("epoll_create1"))?;
        epoll.add(waker.as_fd().as_raw_fd(), Token::Waker).map_err(sys_error("epoll_ctl"))?;
        let alarm = Alarm::new().map_err(sys_error("timerfd_create"))?;
        epoll.add(alarm.as_raw_fd(), Token::Alarm).map_err(sys_error("epoll_ctl"))?;
        Ok(Engine {
            config,
            agents: Vec::new(),
            counters: links.counters.unwrap_or_default(),
            slots: links.slots,
            waker,
            epoll,
            alarm,
            watched: Vec::new(),
            generation: None,
            unwatched: 0,
            stop_unwatched: false,
            stop_fd: None,
            cycle_start: Instant::FAR_FUTURE,
            next_publish: Instant::ZERO,
            unpublished: true,
            just_woken: false,
            closed: false,
        })
    }

    /// Adds an agent. Agents run in the order in which they were added.
    pub fn add(&mut self, agent: Box<dyn Agent>) {
        self.agents.push(agent);
        self.generation = None;
    }

    /// The engine's name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What the engine has counted about itself.
    pub fn counters(&self) -> &Arc<EngineCounters> {
        &self.counters
    }

    /// Wakes this engine from other threads.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Runs until `stop` is raised, then closes the agents (see [`close`](Engine::close)). Returns at once when the engine
    /// is closed.
    pub fn run(&mut self, stop: &StopFlag) {
        if self.closed {
            return;
        }
        // Watched from the first sleep on.
        self.stop_fd = Some(stop.raw_fd());
        self.generation = None;
        self.cycle_start = Instant::FAR_FUTURE;
        // A fresh engine spins first, as if it had just worked: what it was started for is probably near.
        let mut last_work = now();
        let mut refused = false;
        while !stop.is_stopped() {
            if self.run_once() > 0 {
                last_work = self.cycle_start;
                refused = false;
                continue;
            }
            match self.config.idle {
                IdleStrategy::Spin => spin_loop(),
                IdleStrategy::Yield => yield_now(),
                IdleStrategy::Park { spin } if self.cycle_start.since(last_work) < spin => spin_loop(),
                IdleStrategy::Park { .. } => {
                    // An agent that refuses to sleep and then has no work wants to be polled. Others may still run.
                    if refused {
                        yield_now();
                    }
                    refused = !self.park();
                }
            }
        }
        self.stop_fd = None;
        self.close();
    }

    /// Runs one duty cycle: reads the clock, asks every agent to work, publishes when it is time. Says how many items of
    /// work were done. Does not idle.
    #[inline]
    pub fn run_once(&mut self) -> usize {
        let start = now();
        let counters = &*self.counters;
        counters.track_cycle(start.since(self.cycle_start).as_nanos());
        self.cycle_start = start;
        let mut work = 0;
        for agent in &mut self.agents {
            work += agent.do_work(start);
        }
        counters.cycles.add(1);
        if work > 0 {
            counters.busy_cycles.add(1);
            counters.work_items.add(work as u64);
            self.unpublished = true;
        } else if self.just_woken {
            counters.empty_wakes.add(1);
        }
        self.just_woken = false;
        if start >= self.next_publish {
            self.publish(start);
        }
        work
    }

    /// Tells every agent that this is the end and publishes for the last time. For callers of
    /// [`run_once`](Engine::run_once); [`run`](Engine::run) does it itself. A second call does nothing.
    pub fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        for agent in &mut self.agents {
            agent.on_close();
        }
        self.publish(now());
    }

    #[cold]
    fn publish(&mut self, now: Instant) {
        for agent in &mut self.agents {
            agent.publish(now);
        }
        if let Some(slots) = &self.slots {
            slots.publish(&self.counters);
        }
        self.next_publish = now + PUBLISH_INTERVAL;
        self.unpublished = false;
    }

    /// Sleeps until something happens. False when there was a reason not to.
    fn park(&mut self) -> bool {
        if self.unpublished {
            self.publish(self.cycle_start);
        }
        // From here on a call to the waker either fails this or signals the eventfd, so what follows cannot miss it.
        let mut ready = self.waker.prepare();
        let mut prepared = 0;
        while ready && prepared < self.agents.len() {
            ready = self.agents[prepared].prepare_wait();
            prepared += 1;
        }
        // After `prepare_wait`, which may have changed the descriptors. Watching is level-triggered: what became readable
        // earlier counts.
        let slept = ready && {
            self.watch_agents();
            self.sleep()
        };
        for agent in &mut self.agents[..prepared] {
            agent.finish_wait();
        }
        self.waker.finish();
        if !slept {
            self.counters.refused_parks.add(1);
        }
        slept
    }

    fn sleep(&mut self) -> bool {
        // Agents may have worked long since `cycle_start`.
        let begin = now();
        let mut deadline = self.agents.iter().filter_map(|agent| agent.next_deadline()).min();
        if deadline.is_some_and(|deadline| deadline <= begin) {
            return false;
        }
        if self.unwatched > 0 || self.stop_unwatched {
            let look = begin + UNWATCHED_POLL;
            deadline = Some(deadline.map_or(look, |deadline| deadline.min(look)));
        }
        if let Some(deadline) = deadline {
            self.alarm.until(deadline);
        }
        self.counters.track_cycle(begin.since(self.cycle_start).as_nanos());
        self.cycle_start = Instant::FAR_FUTURE;
        self.counters.parks.add(1);
        let woken = self.epoll.wait();
        if woken.alarm {
            self.alarm.rang();
        }
        if woken.any {
            self.counters.wakes.add(1);
            self.just_woken = true;
        }
        if woken.waker {
            self.waker.drain();
        }
        true
    }

    fn watch_agents(&mut self) {
        let generation = self.agents.iter().fold(0u64, |sum, agent| sum.wrapping_add(agent.fds_generation()));
        if self.generation != Some(generation) {
            self.generation = Some(generation);
            self.rewatch();
        }
    }

    /// Watches the agents' descriptors anew, all of them: a number that is named before and after may be another file. And
    /// in a new epoll instance: one that an agent closed but another process still holds (the eventfd of a channel) would
    /// stay in the old one, out of reach, and end every sleep.
    #[cold]
    fn rewatch(&mut self) {
        let own = [(self.waker.as_fd().as_raw_fd(), Token::Waker), (self.alarm.as_raw_fd(), Token::Alarm)];
        let with_own =
            |fresh: Epoll| own.into_iter().try_for_each(|(fd, token)| fresh.add(fd, token)).map(|()| fresh);
        match Epoll::new().and_then(with_own) {
            Ok(fresh) => self.epoll = fresh,
            // No descriptor left: the old instance has to do.
            Err(_) => self.watched.iter().for_each(|&fd| self.epoll.remove(fd)),
        }
        self.stop_unwatched = self.stop_fd.is_some_and(|fd| self.epoll.add(fd, Token::Stop).is_err());
        self.watched.clear();
        let (epoll, watched, mut unwatched) = (&self.epoll, &mut self.watched, 0);
        for agent in &self.agents {
            agent.wait_fds(&mut |fd| {
                // Two agents may share a descriptor.
                if watched.contains(&fd) {
                    return;
                }
                match epoll.add(fd, Token::Agent) {
                    Ok(()) => watched.push(fd),
                    Err(_) => unwatched += 1,
                }
            });
        }
        self.unwatched = unwatched;
        self.counters.unwatched_fds.set(unwatched);
    }
}

/// Pins the calling thread to `core`.
fn pin(engine: &str, core: usize) -> Result<(), EngineError> {
    // The cores that the process was given (taskset, cgroup), as its main thread has them before any engine pins a thread:
    // threads inherit, so the calling thread may already be narrower than the process.
    static ALLOWED: OnceLock<sys::CoreSet> = OnceLock::new();
    let allowed = match ALLOWED.get() {
        Some(allowed) => allowed,
        None => {
            let read = sys::CoreSet::of_process();
            let read = read.map_err(|source| EngineError::Sys { call: "sched_getaffinity", source })?;
            ALLOWED.get_or_init(|| read)
        }
    };
    if !allowed.contains(core) {
        return Err(EngineError::CoreNotAllowed {
            engine: engine.into(),
            core,
            allowed: allowed.to_string(),
        });
    }
    sys::CoreSet::one(core).apply().map_err(|source| EngineError::Sys { call: "sched_setaffinity", source })
}
