//! Engines as a program uses them: threads, sleeps, wake-ups, stops. A lost wake-up makes an engine sleep for ever, so
//! every wait of a test has an end and a name.

use barewire_base::{Duration, Instant};
use barewire_engine::{
    Agent, CountersPage, CountersReader, Engine, EngineConfig, EngineError, EngineHandle, EngineLinks,
    EngineSlots, IdleStrategy, SpawnError, StopFlag, Waker, now,
};
use barewire_testing::eventually;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*, fence};
use std::sync::{Arc, mpsc};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

fn parking(name: &str) -> EngineConfig {
    EngineConfig { name: name.into(), core: None, idle: IdleStrategy::Park { spin: Duration::ZERO } }
}

fn spawn<F>(config: EngineConfig, stop: &StopFlag, build: F) -> EngineHandle
where
    F: FnOnce() -> Vec<Box<dyn Agent>> + Send + 'static,
{
    Engine::spawn(config, || Ok::<_, String>(build()), stop).unwrap()
}

/// Runs on this thread, but not for ever: an engine that sleeps when it must not is stopped, and its counts betray it.
fn run_bounded(engine: &mut Engine, stop: &StopFlag) {
    let (done, wait) = mpsc::channel::<()>();
    let flag = stop.clone();
    let watchdog = std::thread::spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            flag.stop();
        }
    });
    engine.run(stop);
    drop(done);
    watchdog.join().unwrap();
}

/// Does whatever closures say.
struct Probe {
    work: Box<dyn FnMut(Instant) -> usize>,
    deadline: Rc<Cell<Option<Instant>>>,
    fds: Rc<RefCell<(u64, Vec<RawFd>)>>,
    ready: Box<dyn FnMut() -> bool>,
    log: Rc<RefCell<Vec<&'static str>>>,
}

impl Probe {
    fn new(work: impl FnMut(Instant) -> usize + 'static) -> Probe {
        Probe {
            work: Box::new(work),
            deadline: Rc::default(),
            fds: Rc::default(),
            ready: Box::new(|| true),
            log: Rc::default(),
        }
    }
}

impl Agent for Probe {
    fn name(&self) -> &str {
        "probe"
    }
    fn do_work(&mut self, now: Instant) -> usize {
        (self.work)(now)
    }
    fn next_deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }
    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        self.fds.borrow().1.iter().for_each(|&fd| add(fd));
    }
    fn fds_generation(&self) -> u64 {
        self.fds.borrow().0
    }
    fn prepare_wait(&mut self) -> bool {
        self.log.borrow_mut().push("prepare");
        (self.ready)()
    }
    fn finish_wait(&mut self) {
        self.log.borrow_mut().push("finish");
    }
    fn publish(&mut self, _now: Instant) {
        self.log.borrow_mut().push("publish");
    }
    fn on_close(&mut self) {
        self.log.borrow_mut().push("close");
    }
}

#[test]
fn a_parked_engine_sleeps_until_the_flag_is_raised() {
    let stop = StopFlag::new().unwrap();
    let engines: Vec<_> =
        ["one", "two"].map(|name| spawn(parking(name), &stop, || vec![Box::new(Probe::new(|_| 0))])).into();
    for engine in &engines {
        eventually("sleep", || engine.counters().parks.get() == 1);
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    for engine in &engines {
        assert_eq!(engine.counters().cycles.get(), 1, "asleep, {} runs no cycle", engine.name());
        assert!(!engine.is_finished());
    }
    stop.stop();
    engines.into_iter().for_each(|engine| engine.join().unwrap());
}

#[test]
fn every_strategy_runs_and_stops() {
    for idle in ["spin", "yield", "park", "park:0us", "park:1ms"] {
        let stop = StopFlag::new().unwrap();
        let config = EngineConfig { idle: idle.parse().unwrap(), ..parking(idle) };
        let engine = spawn(config, &stop, || vec![Box::new(Probe::new(|_| 0))]);
        let counters = engine.counters().clone();
        let parks = idle.starts_with("park");
        let ran = || if parks { counters.parks.get() > 0 } else { counters.cycles.get() >= 1_000 };
        eventually(idle, ran);
        stop.stop();
        engine.join().unwrap();
        assert_eq!(counters.parks.get() > 0, parks, "{idle}: {counters:?}");
        assert_eq!(counters.busy_cycles.get(), 0);
    }
}

#[test]
fn a_waker_wakes() {
    let stop = StopFlag::new().unwrap();
    let (told, seen) = mpsc::channel();
    let engine = spawn(parking("waker"), &stop, move || {
        vec![Box::new(Probe::new(move |_| {
            told.send(()).unwrap();
            0
        }))]
    });
    for round in 1..=3 {
        seen.recv_timeout(PATIENCE).expect("a cycle");
        eventually("sleep", || engine.counters().parks.get() == round);
        engine.waker().wake();
    }
    seen.recv_timeout(PATIENCE).expect("a cycle after the last wake-up");
    stop.stop();
    engine.join().unwrap();
}

#[test]
fn another_process_wakes_through_the_eventfd() {
    let stop = StopFlag::new().unwrap();
    let engine = spawn(parking("foreign"), &stop, || vec![Box::new(Probe::new(|_| 0))]);
    let copy = std::os::fd::AsFd::as_fd(engine.waker()).try_clone_to_owned().unwrap();
    for round in 1..=3 {
        eventually("sleep", || engine.counters().parks.get() >= round);
        // What another process would do; the engine's state word knows nothing of it.
        File::from(copy.try_clone().unwrap()).write_all(&1u64.to_ne_bytes()).unwrap();
        eventually("wake-up", || engine.counters().wakes.get() >= round);
    }
    eventually("sleep again: the eventfd was drained", || engine.counters().parks.get() == 4);
    stop.stop();
    engine.join().unwrap();
}

/// Reads bytes from a socket and counts them.
struct Reader(UnixStream, Arc<AtomicU64>);

impl Agent for Reader {
    fn name(&self) -> &str {
        "reader"
    }
    fn do_work(&mut self, _now: Instant) -> usize {
        let n = self.0.read(&mut [0; 16]).unwrap_or(0);
        self.1.fetch_add(n as u64, SeqCst);
        n
    }
    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        add(self.0.as_raw_fd());
    }
}

#[test]
fn a_descriptor_wakes() {
    let stop = StopFlag::new().unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let got = Arc::new(AtomicU64::new(0));
    let count = got.clone();
    let engine = spawn(parking("fd"), &stop, move || vec![Box::new(Reader(theirs, count))]);
    for round in 1..=5 {
        eventually("sleep", || engine.counters().parks.get() >= round);
        ours.write_all(b"x").unwrap();
        eventually("the byte", || got.load(SeqCst) == round);
    }
    assert!(engine.counters().wakes.get() >= 5);
    assert_eq!(engine.counters().empty_wakes.get(), 0, "a level-triggered wake-up always finds the byte");
    stop.stop();
    engine.join().unwrap();
}

#[test]
fn a_deadline_wakes_not_before_its_time() {
    let stop = StopFlag::new().unwrap();
    let mut engine = Engine::new(parking("deadline")).unwrap();
    let deadline = Rc::new(Cell::new(None));
    let (next, flag, slept) = (deadline.clone(), stop.clone(), engine.counters().clone());
    let (early, rounds) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (count, turns) = (early.clone(), rounds.clone());
    let mut agent = Probe::new(move |now| {
        match next.get() {
            Some(due) if now < due => {
                count.set(count.get() + 1);
                return 0;
            }
            _ => next.set(Some(now + Duration::from_micros(300 + 700 * (turns.get() % 2)))),
        }
        turns.set(turns.get() + 1);
        // A deadline that is over before the engine could sleep, for want of a core, is a round without a sleep.
        if slept.parks.get() >= 49 {
            flag.stop();
        }
        1
    });
    agent.deadline = deadline;
    engine.add(Box::new(agent));
    let begin = now();
    run_bounded(&mut engine, &stop);
    assert!(now().since(begin) >= Duration::from_micros(49 * 300));
    let counters = engine.counters();
    assert!(counters.parks.get() >= 49, "{counters:?}");
    assert_eq!(counters.wakes.get(), 0, "deadlines end sleeps, descriptors do not");
    // One idle cycle leads into each sleep, and none follows from waking early. A stray signal may add a few.
    assert!(early.get() <= rounds.get() + 10, "{} cycles before {} deadlines", early.get(), rounds.get());
}

#[test]
fn a_deadline_in_the_past_and_an_agent_that_refuses_keep_the_engine_awake() {
    for case in ["past", "refuses"] {
        let stop = StopFlag::new().unwrap();
        let mut engine = Engine::new(parking(case)).unwrap();
        let (flag, mut cycles) = (stop.clone(), 0);
        let mut agent = Probe::new(move |_| {
            cycles += 1;
            if cycles == 200 {
                flag.stop();
            }
            0
        });
        if case == "past" {
            agent.deadline.set(Some(Instant::from_nanos(1)));
        } else {
            agent.ready = Box::new(|| false);
        }
        engine.add(Box::new(agent));
        run_bounded(&mut engine, &stop);
        assert_eq!(engine.counters().parks.get(), 0, "{case}");
        assert_eq!(engine.counters().refused_parks.get(), 200, "{case}");
    }
}

#[test]
fn prepare_and_finish_come_in_pairs_and_the_end_is_in_order() {
    let stop = StopFlag::new().unwrap();
    let mut engine = Engine::new(parking("pairs")).unwrap();
    let mut logs = Vec::new();
    for index in 0..3 {
        let (flag, mut cycles) = (stop.clone(), 0);
        let mut agent = Probe::new(move |_| {
            cycles += 1;
            if cycles == 10 {
                flag.stop();
            }
            0
        });
        // The second refuses every time, so the third is never asked.
        agent.ready = Box::new(move || index != 1);
        logs.push(agent.log.clone());
        engine.add(Box::new(agent));
    }
    run_bounded(&mut engine, &stop);
    for (index, log) in logs.iter().enumerate() {
        let mut log = log.borrow().clone();
        assert_eq!(log.split_off(log.len() - 2), ["close", "publish"]);
        log.retain(|&call| call != "publish");
        assert_eq!(log, ["prepare", "finish"].repeat(if index == 2 { 0 } else { 10 }), "agent {index}");
    }
    engine.run(&StopFlag::new().unwrap());
    engine.close();
    assert_eq!(logs[0].borrow().iter().filter(|&&call| call == "close").count(), 1, "closed once");
}

#[test]
fn descriptors_change_while_the_engine_runs() {
    let stop = StopFlag::new().unwrap();
    let (mut old_end, old) = UnixStream::pair().unwrap();
    let (mut new_end, new) = UnixStream::pair().unwrap();
    // Somebody else still holds the old one, as the peer of a channel does: closing ours does not end its life.
    let _held = old.try_clone().unwrap();
    let swap = Arc::new(AtomicBool::new(false));
    let order = swap.clone();
    let engine = spawn(parking("change"), &stop, move || {
        new.set_nonblocking(true).unwrap();
        let fds = Rc::new(RefCell::new((0, vec![old.as_raw_fd()])));
        let mut old = Some(old);
        let list = fds.clone();
        let mut agent = Probe::new(move |_| {
            if order.swap(false, SeqCst) {
                drop(old.take());
                *list.borrow_mut() = (1, vec![new.as_raw_fd()]);
                return 1;
            }
            (&new).read(&mut [0; 8]).unwrap_or(0)
        });
        agent.fds = fds;
        vec![Box::new(agent)]
    });
    eventually("sleep", || engine.counters().parks.get() == 1);
    swap.store(true, SeqCst);
    engine.waker().wake();
    eventually("sleep on the new descriptor", || engine.counters().parks.get() == 2);
    old_end.write_all(b"nobody listens").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(engine.counters().parks.get(), 2, "the old descriptor wakes nobody");
    new_end.write_all(b"x").unwrap();
    eventually("wake-up by the new one", || engine.counters().work_items.get() == 2);
    stop.stop();
    engine.join().unwrap();
}

#[test]
fn a_descriptor_that_cannot_be_watched_is_polled() {
    let stop = StopFlag::new().unwrap();
    let engine = spawn(parking("unwatched"), &stop, || {
        let file = File::open("/proc/self/exe").unwrap();
        let agent = Probe::new(|_| 0);
        // A regular file is always ready and epoll refuses it; the other is no descriptor at all.
        agent.fds.borrow_mut().1 = vec![file.as_raw_fd(), 1 << 30];
        std::mem::forget(file);
        vec![Box::new(agent)]
    });
    eventually("ten short sleeps", || engine.counters().parks.get() >= 10);
    assert_eq!(engine.counters().unwatched_fds.get(), 2);
    stop.stop();
    engine.join().unwrap();
}

/// Hands a number to and fro with another one through plain wakers.
struct Player {
    side: u64,
    ball: Arc<AtomicU64>,
    other: Waker,
    rng: barewire_base::Prng,
}

impl Player {
    const ROUNDS: u64 = 20_000;

    fn dawdle(&mut self) {
        (0..self.rng.below(300)).for_each(|_| std::hint::spin_loop());
    }
}

impl Agent for Player {
    fn name(&self) -> &str {
        "player"
    }
    fn do_work(&mut self, _now: Instant) -> usize {
        // Relaxed on purpose: the waker orders it.
        let seen = self.ball.load(Relaxed);
        if seen % 2 != self.side || seen >= Self::ROUNDS {
            return 0;
        }
        self.dawdle();
        self.ball.store(seen + 1, Relaxed);
        self.other.wake();
        1
    }
    /// Comes between the last look and the sleep, where a wake-up would get lost: the longer, the likelier. Yields
    /// now and then, as the other one may be on the same core.
    fn publish(&mut self, _now: Instant) {
        if self.rng.chance(0.3) {
            std::thread::yield_now();
        }
        self.dawdle();
    }
}

/// The engines sleep without spin and without deadline, so one lost wake-up ends the game.
#[test]
fn no_wake_up_is_lost_between_two_engines() {
    let stop = StopFlag::new().unwrap();
    let ball = Arc::new(AtomicU64::new(0));
    let wakers = [Waker::new().unwrap(), Waker::new().unwrap()];
    let engines: Vec<_> = (0..2usize)
        .map(|side| {
            let player = Player {
                side: side as u64,
                ball: ball.clone(),
                other: wakers[1 - side].clone(),
                rng: barewire_base::Prng::new(5 + side as u64),
            };
            let links = EngineLinks { waker: Some(wakers[side].clone()), ..EngineLinks::default() };
            let build = move || Ok::<Vec<Box<dyn Agent>>, String>(vec![Box::new(player)]);
            Engine::spawn_with_links(parking(&format!("side-{side}")), links, build, &stop).unwrap()
        })
        .collect();
    // As long as the ball moves, nothing is lost.
    let (mut seen, mut since) = (0, now());
    while seen < Player::ROUNDS {
        std::thread::sleep(std::time::Duration::from_micros(200));
        let at = ball.load(Relaxed);
        if at != seen {
            (seen, since) = (at, now());
        }
        assert!(now().since(since) < PATIENCE.into(), "waited in vain after {seen} rounds");
    }
    stop.stop();
    let parks: u64 = engines.iter().map(|engine| engine.counters().parks.get()).sum();
    engines.into_iter().for_each(|engine| engine.join().unwrap());
    assert!(parks > 100, "they did sleep: {parks}");
}

/// As a channel does it: the consumer raises `parked`, fences, looks again; the producer publishes, fences, tests `parked`
/// and only then signals. The waker is not involved.
struct Ring {
    published: Arc<AtomicU64>,
    parked: Arc<AtomicBool>,
    event: UnixStream,
    consumed: Arc<AtomicU64>,
    taken: u64,
    rng: barewire_base::Prng,
}

impl Agent for Ring {
    fn name(&self) -> &str {
        "ring"
    }
    fn do_work(&mut self, _now: Instant) -> usize {
        let news = self.published.load(Acquire) - self.taken;
        self.taken += news;
        self.consumed.store(self.taken, Release);
        news as usize
    }
    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        add(self.event.as_raw_fd());
    }
    fn prepare_wait(&mut self) -> bool {
        self.parked.store(true, Relaxed);
        fence(SeqCst);
        self.published.load(Relaxed) == self.taken
    }
    /// As the player's.
    fn publish(&mut self, _now: Instant) {
        if self.rng.chance(0.3) {
            std::thread::yield_now();
        }
        (0..100).for_each(|_| std::hint::spin_loop());
    }
    fn finish_wait(&mut self) {
        self.parked.store(false, Relaxed);
        let _ = self.event.read(&mut [0; 64]);
    }
}

#[test]
fn no_wake_up_is_lost_with_a_ring_of_its_own() {
    const ITEMS: u64 = 20_000;
    let stop = StopFlag::new().unwrap();
    let (published, parked, consumed) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (mut bell, event) = UnixStream::pair().unwrap();
    event.set_nonblocking(true).unwrap();
    let ring = Ring {
        published: published.clone(),
        parked: parked.clone(),
        event,
        consumed: consumed.clone(),
        taken: 0,
        rng: barewire_base::Prng::new(12),
    };
    let engine = spawn(parking("ring"), &stop, move || vec![Box::new(ring)]);
    let counters = engine.counters();
    // How the two threads meet is the scheduler's affair: they get more turns when they have met too seldom.
    let seldom = || counters.parks.get() <= 100 || counters.refused_parks.get() <= 10;
    let mut rng = barewire_base::Prng::new(11);
    let mut item = 0;
    while item < ITEMS || (item < 50 * ITEMS && seldom()) {
        item += 1;
        published.store(item, Release);
        fence(SeqCst);
        if parked.load(Relaxed) {
            bell.write_all(b"!").unwrap();
        }
        if rng.chance(0.5) {
            // Now and then the consumer has to catch up, at one distance or another: the moment of the next item then
            // falls anywhere in its way to sleep.
            let begin = now();
            while consumed.load(Acquire) != item {
                assert!(now().since(begin) < PATIENCE.into(), "item {item} was not seen");
                std::thread::yield_now();
            }
            (0..rng.below(200)).for_each(|_| std::hint::spin_loop());
        }
    }
    eventually("last item", || consumed.load(Acquire) == item);
    assert!(counters.parks.get() > 100, "{counters:?}");
    assert!(counters.refused_parks.get() > 10, "items did arrive on the way to sleep: {counters:?}");
    stop.stop();
    engine.join().unwrap();
}

#[test]
fn what_goes_wrong_in_the_build_comes_back() {
    let stop = StopFlag::new().unwrap();
    let result = Engine::spawn(parking("bad"), || Err("no such interface"), &stop);
    assert!(matches!(result, Err(SpawnError::Build("no such interface"))));
    assert!(!stop.is_stopped(), "an error that is reported stops nobody else");

    let build = || -> Result<Vec<Box<dyn Agent>>, String> { panic!("pool of size {}", 0) };
    match Engine::spawn(parking("panics"), build, &stop) {
        Err(SpawnError::Engine(EngineError::Panicked { engine, message })) => {
            assert_eq!((&*engine, &*message), ("panics", "pool of size 0"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_that_panics_stops_the_program() {
    let stop = StopFlag::new().unwrap();
    let healthy = spawn(parking("healthy"), &stop, || vec![Box::new(Probe::new(|_| 0))]);
    let sick = spawn(parking("sick\0name"), &stop, || vec![Box::new(Probe::new(|_| panic!("of course")))]);
    healthy.join().unwrap();
    assert!(stop.is_stopped());
    let error = sick.join().unwrap_err().to_string();
    assert!(error.ends_with("panicked: of course"), "{error}");
}

fn thread_cores() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().to_owned()
}

#[test]
fn an_engine_is_pinned_before_its_agents_are_built() {
    let all = thread_cores();
    let last: usize = all.rsplit([',', '-']).next().unwrap().parse().unwrap();
    let first: usize = all.split([',', '-']).next().unwrap().parse().unwrap();
    // From a pinned thread a sibling can be pinned elsewhere: what counts is what the process was given.
    let inner = move || {
        assert_eq!(thread_cores(), first.to_string());
        let stop = StopFlag::new().unwrap();
        let config = EngineConfig { core: Some(last), ..parking("inner") };
        let build = move || {
            assert_eq!(thread_cores(), last.to_string());
            Ok::<_, String>(vec![])
        };
        let engine = Engine::spawn(config, build, &stop).unwrap();
        stop.stop();
        engine.join().unwrap();
        Ok::<_, String>(vec![])
    };
    let stop = StopFlag::new().unwrap();
    let engine = Engine::spawn(EngineConfig { core: Some(first), ..parking("outer") }, inner, &stop).unwrap();
    stop.stop();
    engine.join().unwrap();
    assert_eq!(thread_cores(), all, "the caller stays where it was");
}

#[test]
fn a_core_that_is_not_ours_is_refused_with_the_list() {
    for core in [4_000, 8_191, 8_192, usize::MAX] {
        let stop = StopFlag::new().unwrap();
        let config = EngineConfig { core: Some(core), ..parking("far") };
        match Engine::spawn(config, || Ok::<_, String>(vec![]), &stop) {
            Err(SpawnError::Engine(EngineError::CoreNotAllowed { engine, core: found, allowed })) => {
                assert_eq!((&*engine, found), ("far", core));
                assert_eq!(allowed, thread_cores());
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Sleeps four times, for half a second each, with a slow cycle in between. The longest cycle.
fn slow_cycle_between_sleeps() -> Duration {
    let mut engine = Engine::new(parking("slow")).unwrap();
    let stop = StopFlag::new().unwrap();
    let (flag, mut cycles) = (stop.clone(), 0u64);
    let deadline = Rc::new(Cell::new(None));
    let next = deadline.clone();
    let mut agent = Probe::new(move |begin| {
        cycles += 1;
        if cycles == 3 {
            while now().since(begin) < Duration::from_millis(3) {}
        }
        if cycles == 5 {
            flag.stop();
        }
        next.set(Some(begin + Duration::from_millis(500)));
        0
    });
    agent.deadline = deadline;
    engine.add(Box::new(agent));
    run_bounded(&mut engine, &stop);
    let counters = engine.counters();
    assert!(counters.slow_cycles.get() >= 1, "{counters:?}");
    let max = Duration::from_nanos(counters.max_cycle_ns.get());
    assert!(max >= Duration::from_millis(3), "{max}");
    max
}

#[test]
fn slow_cycles_are_seen_and_sleep_is_none() {
    // A cycle that was merely preempted is far shorter than a sleep, or once as long on a busy machine, but not every time.
    assert!((0..5).any(|_| slow_cycle_between_sleeps() < Duration::from_millis(490)), "sleeps were counted");
}

#[test]
fn an_engine_publishes_its_own_counters() {
    let path = std::env::temp_dir().join(format!("barewire-engine-{}.counters", std::process::id()));
    let mut page = CountersPage::create(&path, 32).unwrap();
    let slots = EngineSlots::register(&mut page, "zero").unwrap();
    assert!(EngineSlots::register(&mut page, "zero").is_err(), "the names are taken");
    let links = EngineLinks { slots: Some(slots), ..EngineLinks::default() };
    let stop = StopFlag::new().unwrap();
    let build = || {
        let mut left = 7;
        let work = move |_| std::mem::replace(&mut left, 0);
        Ok::<Vec<Box<dyn Agent>>, String>(vec![Box::new(Probe::new(work))])
    };
    let engine = Engine::spawn_with_links(parking("zero"), links, build, &stop).unwrap();
    let mut reader = CountersReader::open(&path).unwrap();
    let mut value = |name: &str| reader.read().unwrap().find(|entry| entry.0 == name).map(|entry| entry.2);
    // Published before it slept, though no 10 ms had passed.
    eventually("publication", || value("engine.zero.work_items") == Some(7));
    assert_eq!(value("engine.zero.busy_cycles"), Some(1));
    let handle_sees: Vec<_> = engine.counters().iter().filter(|&(name, _)| name == "work_items").collect();
    assert_eq!(handle_sees, [("work_items", 7)]);
    stop.stop();
    engine.join().unwrap();
    assert_eq!(value("engine.zero.work_items"), None, "the engine took its slots with it");
}
