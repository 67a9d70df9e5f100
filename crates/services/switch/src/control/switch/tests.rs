use super::*;
use crate::control::link::ANSWER_TIMEOUT;
use crate::control::{CounterValue, DigestList, NewEntry, PortInfo, Range, TableAction, TableWrite};
use crate::kernel::Kernel;
use crate::learn::Learner;
use crate::pre::McDump;
use crate::store::testing::*;
use barewire_p4::ir::{CounterId, MeterId, RegisterId, ValueSetId};
use barewire_p4::key::{KeyLayout, MatchParam};
use barewire_p4::state::State;
use barewire_p4_state::ProgramState;
use std::collections::HashMap;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread::JoinHandle;

/// A replica without a data path.
pub(in crate::control) struct Fake {
    pub(in crate::control) state: Option<Box<ProgramState>>,
    learner: Option<Learner>,
    pub(in crate::control) prepared: Option<Arc<Prepared>>,
    pub(in crate::control) pre: Pre,
    pub(in crate::control) mirrors: HashMap<u32, MirrorSession>,
    queues: Vec<String>,
    ports: Vec<u32>,
    /// A port that cannot be opened.
    bad_port: Option<u32>,
    injected: Vec<(Option<u32>, Vec<u8>)>,
    index: usize,
    /// What a kernel has counted and nobody has asked for: by the index of the first array's counters, and by the number of
    /// `EXACT`'s entries.
    pub(in crate::control) in_kernel: (HashMap<u64, u64>, HashMap<u32, u64>),
}

impl Fake {
    pub(in crate::control) fn new(inbox: &EngineInbox) -> Fake {
        Fake {
            state: None,
            learner: None,
            prepared: None,
            pre: Pre::default(),
            mirrors: HashMap::new(),
            queues: Vec::new(),
            ports: Vec::new(),
            bad_port: None,
            injected: Vec::new(),
            index: inbox.index(),
            in_kernel: Default::default(),
        }
    }

    /// The port to which a look-up of (a, b) in `EXACT` forwards; none for a miss.
    pub(in crate::control) fn look_up(&mut self, a: u64, b: u64, now_us: u64) -> Option<u64> {
        let state = self.state.as_mut()?;
        let layout = KeyLayout::of(&program().tables[EXACT.at()]);
        let mut key = vec![0; layout.words as usize];
        layout.put(&mut key, 0, &n(a));
        layout.put(&mut key, 1, &n(b));
        let applied = state.apply(EXACT, &key, 100, now_us, &mut || 0);
        applied.hit.then(|| applied.args.first().copied().unwrap_or(u64::MAX))
    }
}

impl Replica for Fake {
    fn state(&mut self) -> Option<&mut ProgramState> {
        self.state.as_deref_mut()
    }
    fn install(&mut self, prepared: &Arc<Prepared>, state: Box<ProgramState>) -> Box<dyn Any + Send> {
        self.learner = Some(Learner::new(&prepared.program, self.index));
        let old = (self.state.replace(state), self.prepared.replace(Arc::clone(prepared)));
        Box::new(old)
    }
    fn install_kernel(&mut self, _: std::result::Result<Option<Box<Kernel>>, String>, carried: &[Fold]) {
        carried.iter().for_each(|what| self.fold(what));
        self.in_kernel = Default::default();
    }
    fn fold(&mut self, what: &Fold) {
        let Some(state) = self.state.as_mut() else { return };
        match what {
            Fold::Counters(CounterId(0), from, to) => {
                for index in *from..*to {
                    let Some(count) = self.in_kernel.0.remove(&index) else { continue };
                    let [packets, bytes] = state.read_counter(CounterId(0), index).unwrap();
                    let (packets, bytes) = (packets + count, bytes + 10 * count);
                    state.write_counter(CounterId(0), index..index + 1, packets, bytes).unwrap();
                }
            }
            Fold::Direct(EXACT, handles) => {
                for handle in handles {
                    let Some(count) = self.in_kernel.1.remove(handle) else { continue };
                    let stats = state.stats(EXACT, Some(*handle)).unwrap();
                    let (packets, bytes) = (stats.packets + count, stats.bytes + 100 * count);
                    state.set_direct_counter(EXACT, Some(*handle), packets, bytes).unwrap();
                }
            }
            _ => {}
        }
    }
    fn pre(&mut self) -> &mut Pre {
        &mut self.pre
    }
    fn learner(&mut self) -> Option<&mut Learner> {
        self.learner.as_mut()
    }
    fn set_mirror(&mut self, id: u32, session: Option<MirrorSession>) {
        match session {
            Some(session) => drop(self.mirrors.insert(id, session)),
            None => drop(self.mirrors.remove(&id)),
        }
    }
    fn set_queue_depth(&mut self, port: Option<u32>, priority: Option<u32>, packets: usize) {
        self.queues.push(format!("depth {port:?} {priority:?} {packets}"));
    }
    fn set_queue_rate(&mut self, port: Option<u32>, priority: Option<u32>, pps: u64) {
        self.queues.push(format!("rate {port:?} {priority:?} {pps}"));
    }
    fn add_port(&mut self, port: u32, _uri: &str, opened: Option<Box<dyn Any + Send>>) -> Result<()> {
        if self.bad_port == Some(port) || self.ports.contains(&port) {
            return Err(ControlError::new(ErrorKind::InvalidPort, "no such wire"));
        }
        assert!(opened.is_none_or(|opened| opened.downcast_ref::<u32>() == Some(&port)));
        self.ports.push(port);
        Ok(())
    }
    fn remove_port(&mut self, port: u32) -> Result<Option<Box<dyn Any + Send>>> {
        let at = self.ports.iter().position(|p| *p == port);
        let at =
            at.ok_or_else(|| ControlError::new(ErrorKind::InvalidPort, format!("there is no port {port}")))?;
        self.ports.remove(at);
        Ok(None)
    }
    fn ports(&mut self) -> Vec<PortInfo> {
        let rx = CounterValue { packets: 2, bytes: 10 };
        let info = |port: &u32| PortInfo {
            port: *port,
            uri: "mem:x".into(),
            name: "x".into(),
            up: self.index == 1,
            note: String::new(),
            rx,
            tx: rx,
            rx_dropped: 1,
            tx_dropped: 3,
        };
        self.ports.iter().map(info).collect()
    }
    fn inject(&mut self, port: Option<u32>, bytes: Vec<u8>) {
        self.injected.push((port, bytes));
    }
    fn drops(&mut self, each: &mut dyn FnMut(&str, u64)) {
        each("no_port", 4);
    }
}

/// A thread that drains an inbox until told to stop, then gives its replica back.
pub(in crate::control) struct Engine {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Fake, EngineInbox)>,
}

impl Engine {
    pub(in crate::control) fn spawn(
        switch: &Switch,
        setup: impl FnOnce(&mut Fake) + Send + 'static,
    ) -> Engine {
        let mut inbox = switch.attach(Box::new(|| {}));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, wait_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut fake = Fake::new(&inbox);
            inbox.drain(&mut fake);
            setup(&mut fake);
            ready.send(()).expect("somebody waits");
            while !stopped.load(Acquire) {
                if inbox.drain(&mut fake) == 0 {
                    std::thread::sleep(Duration::from_micros(20));
                }
            }
            inbox.drain(&mut fake);
            (fake, inbox)
        });
        wait_ready.recv().expect("the engine did not panic");
        Engine { stop, thread }
    }

    pub(in crate::control) fn stop(self) -> (Fake, EngineInbox) {
        self.stop.store(true, Release);
        self.thread.join().expect("the engine did not panic")
    }
}

pub(in crate::control) fn prepared() -> Arc<Prepared> {
    Arc::new(Prepared::new(program(), EngineKind::Interpreter).expect("the interpreter takes anything"))
}

/// How long the tests wait for engines that do answer.
pub(in crate::control) const PATIENCE: Duration = Duration::from_secs(60);

/// A switch on a clock that stands still until it is moved, without a sweeper.
pub(in crate::control) fn switch_with(change: impl FnOnce(&mut SwitchConfig)) -> (Switch, Arc<AtomicU64>) {
    let clock_us = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&clock_us);
    let mut config = SwitchConfig {
        clock: Box::new(move || clock.load(Relaxed)),
        sweep_interval: Duration::ZERO,
        engine: EngineKind::Interpreter,
        answer_timeout: PATIENCE,
        ..SwitchConfig::default()
    };
    change(&mut config);
    (Switch::new(config, Some(prepared())).expect("the program is good"), clock_us)
}

pub(in crate::control) fn switch() -> Switch {
    switch_with(|_| {}).0
}

pub(in crate::control) fn key(a: u64, b: u64) -> Vec<MatchParam> {
    vec![exact(a), exact(b)]
}

pub(in crate::control) fn kind<T: fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("refused").kind
}

pub(in crate::control) fn value(packets: u64, bytes: u64) -> CounterValue {
    CounterValue { packets, bytes }
}

#[test]
fn reads_sum_over_engines_and_writes_reach_them_all() {
    let (s, clock_us) = switch_with(|_| {});
    let h = s.add_entry(EXACT, key(1, 2), 0, forward(7)).unwrap();
    let never = s.add_entry(EXACT, key(5, 5), 0, nop()).unwrap();
    let hit = |times: usize, now_us: u64| {
        move |fake: &mut Fake| {
            for _ in 0..times {
                assert_eq!(fake.look_up(1, 2, now_us), Some(7));
                fake.state().unwrap().count(CounterId(0), 2000, 60);
            }
        }
    };
    let engines = [Engine::spawn(&s, hit(3, 5000)), Engine::spawn(&s, hit(2, 9000))];
    s.write_registers(RegisterId(0), Range::All, &n(0x1234_5678_9abc)).unwrap();
    assert_eq!(s.read_direct_counter(EXACT, h), Ok(value(5, 500)));
    assert_eq!(s.read_direct_counters(EXACT), Ok(vec![(h, value(5, 500)), (never, value(0, 0))]));
    assert_eq!(s.read_counters(CounterId(0), Range::One(2000)), Ok(vec![(2000, value(5, 300))]));
    let all = s.read_counters(CounterId(0), Range::All).unwrap();
    assert_eq!((all.len(), all[4999], all[2000].1), (5000, (4999, value(0, 0)), value(5, 300)));
    assert_eq!(s.read_counters(CounterId(0), Range::Span(3, 3)), Ok(vec![]));
    s.write_counter(CounterId(0), 1, value(11, 22)).unwrap();
    s.write_direct_counter(EXACT, h, value(1, 1)).unwrap();
    assert_eq!(s.read_counters(CounterId(0), Range::One(1)), Ok(vec![(1, value(11, 22))]), "once, not twice");
    assert_eq!(s.read_direct_counter(EXACT, h), Ok(value(1, 1)));
    clock_us.store(12_000, Relaxed);
    assert_eq!(s.time_since_hit_ms(EXACT, h), Ok(3), "the latest of all");
    assert_eq!(s.ages(EXACT), Ok(vec![(h, 3), (never, 12)]));
    assert_eq!(kind(s.ages(LPM)), ErrorKind::AgeingDisabled);
    assert_eq!(kind(s.time_since_hit_ms(EXACT, 77)), ErrorKind::InvalidHandle);
    s.reset_counters(CounterId(0)).unwrap();
    s.reset_direct_counters(EXACT).unwrap();
    assert!(s.read_counters(CounterId(0), Range::All).unwrap().iter().all(|(_, v)| *v == value(0, 0)));
    assert_eq!(s.read_direct_counter(EXACT, h), Ok(value(0, 0)));
    assert_eq!(kind(s.read_counters(CounterId(1), Range::All)), ErrorKind::InvalidCounterName);
    assert_eq!(kind(s.read_direct_counter(LPM, 0)), ErrorKind::CountersDisabled);

    let all = s.read_registers(RegisterId(0), Range::All).unwrap();
    assert!(all.len() == 5000 && all.iter().all(|(_, v)| *v == n(0x1234_5678_9abc)));
    let wide = num_bigint::BigUint::from(1u8) << 199;
    s.write_registers(RegisterId(1), Range::One(1), &wide).unwrap();
    assert_eq!(s.read_registers(RegisterId(1), Range::All), Ok(vec![(0, n(0)), (1, wide.clone())]));
    assert_eq!(kind(s.write_registers(RegisterId(1), Range::All, &(wide << 1))), ErrorKind::BadActionData);
    assert_eq!(kind(s.read_registers(RegisterId(1), Range::One(2))), ErrorKind::InvalidIndex);
    s.reset_registers(RegisterId(0)).unwrap();

    let rates = [(0.001, 5), (0.002, 9)]
        .map(|(units_per_us, burst)| crate::control::MeterRate { units_per_us, burst });
    s.set_meter(MeterId(0), Range::All, &rates).unwrap();
    s.set_direct_meter(EXACT, h, &rates).unwrap();
    assert_eq!(s.meter_rates(MeterId(0), 2999).as_deref(), Ok(&rates[..]));
    s.vs_add(ValueSetId(0), vec![n(1), n(2)]).unwrap();
    assert_eq!(kind(s.vs_set(ValueSetId(0), vec![vec![n(3), n(3)], vec![n(4)]])), ErrorKind::BadMatchKey);
    assert_eq!(s.vs_get(ValueSetId(0)), Ok(vec![vec![n(1), n(2)]]), "all or nothing");
    s.vs_set(ValueSetId(0), vec![vec![n(3), n(3)]]).unwrap();
    assert_eq!(s.drops(), [("no_port".to_owned(), 8)]);
    for engine in engines {
        let mut state = engine.stop().0.state.unwrap();
        assert_eq!(state.register(RegisterId(0), 4999), n(0));
        assert_eq!(state.meters[0].rates(2999).unwrap().map(|r| r.len()), Some(2));
        assert_eq!(state.direct_meter_rates(EXACT, 0).unwrap().map(|r| r[1].burst), Some(9));
        assert!(state.value_set_contains(ValueSetId(0), &[n(3), n(3)], None));
        assert!(!state.value_set_contains(ValueSetId(0), &[n(1), n(2)], None));
    }
}

/// One thread writes as fast as it can; the engine, before each drain, notes which write had returned, and after it must
/// see that one or a later one. Meanwhile others read and write other entries.
#[test]
fn a_write_that_returned_is_seen_and_nothing_is_lost() {
    const WRITES: u64 = 60_000;
    let s = switch();
    let returned = Arc::new(AtomicU64::new(0));
    let mut inbox = s.attach(Box::new(|| {}));
    let seen_by_engine = Arc::clone(&returned);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let engine = std::thread::spawn(move || {
        let mut fake = Fake::new(&inbox);
        let (mut checks, mut last) = (0u64, 0);
        while !stopped.load(Acquire) || !inbox.is_idle() {
            // The packet arrives here.
            let before = seen_by_engine.load(Acquire);
            inbox.drain(&mut fake);
            let found = fake.look_up(1, 1, 0);
            if before > 0 {
                // The port is the write's number modulo 512.
                let found = found.expect("the entry is there");
                checks += 1;
                let now = seen_by_engine.load(Acquire);
                let candidates = before..=now + 1;
                assert!(
                    candidates.clone().count() >= 512 || candidates.clone().any(|w| w % 512 == found),
                    "{found} not in {candidates:?}"
                );
                last = found;
            }
            std::thread::yield_now();
        }
        (fake, checks, last)
    });
    let others: Vec<JoinHandle<u64>> = (0..2u64)
        .map(|thread| {
            let s = s.clone();
            std::thread::spawn(move || {
                let mut prng = barewire_base::Prng::new(thread);
                let mut kept = 0;
                for i in 0..WRITES / 8 {
                    let a = 1000 + thread * WRITES + i;
                    let handle = s.add_entry(EXACT, key(a, thread), 0, forward(i % 512)).unwrap();
                    match prng.below(4) {
                        0 => s.delete_entry(EXACT, handle).unwrap(),
                        1 => {
                            s.modify_entry(EXACT, handle, forward(3)).unwrap();
                            kept += 1;
                        }
                        2 => {
                            assert_eq!(s.entry(EXACT, handle).unwrap().action, forward(i % 512));
                            kept += 1;
                        }
                        _ => kept += 1,
                    }
                }
                kept
            })
        })
        .collect();
    let started = barewire_engine::now();
    let handle = s.add_entry(EXACT, key(1, 1), 0, forward(1)).unwrap();
    returned.store(1, Release);
    for write in 2..=WRITES {
        s.modify_entry(EXACT, handle, forward(write % 512)).unwrap();
        returned.store(write, Release);
    }
    let seconds = (barewire_engine::now().as_nanos() - started.as_nanos()) as f64 / 1e9;
    let kept: u64 = others.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    eprintln!("{:.0} writes/s through one lock, beside two other writers", WRITES as f64 / seconds);
    stop.store(true, Release);
    let (mut fake, checks, last) = engine.join().expect("no write was overlooked");
    assert!(checks > 0 && last == WRITES % 512);
    assert_eq!(s.num_entries(EXACT), Ok(kept as usize + 1));
    for entry in s.entries(EXACT).unwrap() {
        let [MatchParam::Exact(a), MatchParam::Exact(b)] = &entry.key[..] else { panic!("{entry:?}") };
        let TableAction::Call(call) = &entry.action else { panic!("{entry:?}") };
        let found = fake.look_up(a.try_into().unwrap(), b.try_into().unwrap(), 0);
        assert_eq!(found.map(n).as_ref(), Some(&call.args[0]));
    }
    assert_eq!(fake.state.unwrap().tables[EXACT.at()].len(), kept as usize + 1);
    assert!(s.lock().links.iter().all(|link| link.refused() == 0));
}

#[test]
fn an_engine_that_sleeps_holds_writers_back_and_one_that_is_gone_does_not() {
    let s = switch_with(|config| config.answer_timeout = ANSWER_TIMEOUT).0;
    let woken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&woken);
    let mut inbox = s.attach(Box::new(move || {
        count.fetch_add(1, Relaxed);
    }));
    let mut fake = Fake::new(&inbox);
    inbox.drain(&mut fake);
    let before = woken.load(Relaxed);
    let add = |i: u64| TableWrite::Add {
        table: EXACT,
        entry: NewEntry { key: key(i, 0), priority: 0, action: nop(), ttl_ms: 0, cookie: Vec::new() },
    };
    let most = super::super::link::MAX_PENDING;
    let results = s.write_batch((0..most as u64 + 300).map(add).collect());
    let done = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(done, most, "then it waits, in vain");
    assert!(results[done..].iter().all(|r| r.as_ref().unwrap_err().kind == ErrorKind::Unavailable));
    assert_eq!(s.num_entries(EXACT), Ok(most), "what was refused is not in the store");
    assert!(woken.load(Relaxed) > before, "it was called");
    assert_eq!(kind(s.read_registers(RegisterId(0), Range::One(0))), ErrorKind::Unavailable);
    assert!(!inbox.is_idle());
    assert_eq!(inbox.drain(&mut fake), most + 1);
    assert!(inbox.is_idle());
    assert_eq!(fake.state().unwrap().tables[EXACT.at()].len(), most);
    s.add_entry(EXACT, key(9, 9), 0, forward(4)).unwrap();
    drop(inbox);
    s.add_entry(EXACT, key(9, 8), 0, forward(4)).unwrap();
    assert_eq!(kind(s.read_registers(RegisterId(0), Range::One(0))), ErrorKind::Unavailable);
    assert!(s.ports().is_empty() && s.drops().is_empty());
    assert_eq!(kind(s.add_port(1, "mem:x")), ErrorKind::Unavailable);
    let (mut late, _) = Engine::spawn(&s, |_| {}).stop();
    assert_eq!(late.look_up(9, 9, 0), Some(4), "a new engine gets everything");
    assert_eq!(late.look_up(9, 8, 0), Some(4));
}

#[test]
fn a_batch_gives_a_result_for_each_write() {
    let s = switch();
    let engine = Engine::spawn(&s, |_| {});
    let new =
        |a, port| NewEntry { key: key(a, 0), priority: 3, action: forward(port), ttl_ms: 0, cookie: vec![9] };
    let table = EXACT;
    let results = s.write_batch(vec![
        TableWrite::Add { table, entry: new(1, 1) },
        TableWrite::Add { table, entry: new(1, 2) },
        TableWrite::Modify { table, handle: 0, action: forward(5), ttl_ms: Some(100), cookie: None },
        TableWrite::Modify { table, handle: 1, action: forward(5), ttl_ms: None, cookie: None },
        TableWrite::Add { table, entry: new(2, 2) },
        TableWrite::ModifyByKey { table, entry: NewEntry { cookie: vec![], ..new(2, 6) } },
        TableWrite::ModifyByKey { table, entry: new(3, 6) },
        TableWrite::Add { table, entry: new(4, 4) },
        TableWrite::DeleteByKey { table, key: key(4, 0), priority: 77 },
        TableWrite::DeleteByKey { table, key: key(4, 0), priority: 77 },
        TableWrite::Delete { table, handle: 2 },
        TableWrite::Modify { table: LPM, handle: 0, action: nop(), ttl_ms: Some(1), cookie: None },
    ]);
    let results: Vec<std::result::Result<u64, ErrorKind>> =
        results.into_iter().map(|r| r.map_err(|e| e.kind)).collect();
    use ErrorKind::{AgeingDisabled, BadMatchKey, DuplicateEntry, InvalidHandle};
    assert_eq!(
        results,
        [
            Ok(0),
            Err(DuplicateEntry),
            Ok(0),
            Err(InvalidHandle),
            Ok(1),
            Ok(1),
            Err(BadMatchKey),
            Ok(2),
            Ok(2),
            Err(BadMatchKey),
            Err(InvalidHandle),
            Err(AgeingDisabled),
        ]
    );
    let entries = s.entries(EXACT).unwrap();
    assert_eq!(
        (entries[0].ttl_ms, entries[0].cookie.as_slice(), &entries[0].action),
        (100, &[9][..], &forward(5))
    );
    assert_eq!((entries[1].ttl_ms, entries[1].cookie.is_empty(), &entries[1].action), (0, true, &forward(6)));
    assert_eq!(s.entry_by_key(EXACT, &key(2, 0), None).map(|e| e.handle), Ok(1));
    let (mut fake, _) = engine.stop();
    assert_eq!(
        [fake.look_up(1, 0, 0), fake.look_up(2, 0, 0), fake.look_up(4, 0, 0)],
        [Some(5), Some(6), None]
    );
}

#[test]
fn idle_entries_are_reported_once_for_each_time_out() {
    let (s, clock_us) = switch_with(|_| {});
    let notes = s.subscribe(10);
    let hit_us = Arc::new(AtomicU64::new(0));
    let a = s.add_entry(EXACT, key(1, 1), 0, nop()).unwrap();
    let engines = [Engine::spawn(&s, |_| {}), Engine::spawn(&s, |_| {})];
    let hit = |now_us: u64| {
        hit_us.store(now_us, Relaxed);
        s.ask_first_state(move |_| {
            Ok(move |state: Option<&mut ProgramState>| {
                let layout = KeyLayout::of(&program().tables[EXACT.at()]);
                let mut key = vec![0; layout.words as usize];
                layout.put(&mut key, 0, &n(1));
                layout.put(&mut key, 1, &n(1));
                state.map(|state| state.apply(EXACT, &key, 1, now_us, &mut || 0).hit)
            })
        })
    };
    let sweep = |now_us: u64| {
        clock_us.store(now_us, Relaxed);
        s.sweep().unwrap();
        notes.try_iter().collect::<Vec<_>>()
    };
    assert!(sweep(5_000_000).is_empty(), "no time-out, never idle");
    s.set_entry_ttl(EXACT, a, 2000).unwrap();
    assert!(sweep(6_999_000).is_empty());
    assert_eq!(hit(6_999_000), Ok(Some(true)));
    assert!(sweep(8_000_000).is_empty());
    assert_eq!(sweep(8_999_000), [Notification::Idle(EXACT, vec![a])]);
    assert!(sweep(10_000_000).is_empty());
    assert_eq!(sweep(11_000_000), [Notification::Idle(EXACT, vec![a])]);
    assert!(s.entry(EXACT, a).is_ok(), "it stays");
    s.delete_entry(EXACT, a).unwrap();
    assert!(sweep(99_000_000).is_empty());
    for engine in engines {
        engine.stop();
    }
}

#[test]
fn a_sweeper_runs_by_itself_and_ends_with_the_switch() {
    let (s, clock_us) = switch_with(|config| config.sweep_interval = Duration::from_millis(2));
    let notes = s.subscribe(10);
    let new = NewEntry { key: key(1, 1), priority: 0, action: nop(), ttl_ms: 3, cookie: Vec::new() };
    let a = s.add_entry_with(EXACT, new).unwrap();
    let engine = Engine::spawn(&s, |_| {});
    clock_us.store(3000, Relaxed);
    assert_eq!(notes.recv_timeout(Duration::from_secs(10)), Ok(Notification::Idle(EXACT, vec![a])));
    let weak = Arc::downgrade(&s.inner);
    drop(s);
    engine.stop();
    for _ in 0..10_000 {
        if weak.strong_count() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the switch is still held");
}

#[test]
fn subscribers_never_hold_anybody_up() {
    let s = switch();
    let engine = Engine::spawn(&s, |_| {});
    let slow = s.subscribe(2);
    let fast = s.subscribe(100);
    let gone = s.subscribe(1);
    drop(gone);
    let (mut fake, mut inbox) = engine.stop();
    assert!(inbox.has_subscribers());
    let digest = DigestList { list: 7, buffer: 1, first_sample: 0, samples: Vec::new() };
    for i in 0..5u8 {
        inbox.notify(Notification::PacketIn { bytes: vec![i] });
    }
    assert!(inbox.notify(Notification::Digest(digest.clone())), "one has room");
    assert_eq!(slow.try_iter().count(), 2);
    let all: Vec<Notification> = fast.try_iter().collect();
    assert_eq!((all.len(), &all[5]), (6, &Notification::Digest(digest)));
    assert_eq!(s.lock().subscribers.lost(), 4);
    s.keep_house();
    inbox.drain(&mut fake);
    drop((slow, fast));
    inbox.notify(Notification::Port { port: 1, up: true });
    s.keep_house();
    inbox.drain(&mut fake);
    assert!(!inbox.has_subscribers(), "all have gone");
    assert!(inbox.notify(Notification::Port { port: 1, up: true }), "nobody waits for it");
    let full = s.subscribe(1);
    inbox.drain(&mut fake);
    assert!(inbox.notify(Notification::Port { port: 1, up: true }));
    assert!(!inbox.notify(Notification::Port { port: 1, up: true }), "nobody has room");
    drop(full);
}

#[test]
fn without_a_program_there_is_nothing_to_write_to() {
    let config =
        SwitchConfig { sweep_interval: Duration::ZERO, answer_timeout: PATIENCE, ..SwitchConfig::default() };
    let s = Switch::new(config, None).unwrap();
    let engine = Engine::spawn(&s, |_| {});
    assert!(s.program().is_none());
    assert_eq!(kind(s.table("exact")), ErrorKind::BadProgram);
    assert_eq!(kind(s.add_entry(EXACT, key(1, 1), 0, nop())), ErrorKind::BadProgram);
    assert_eq!(
        s.write_batch(vec![TableWrite::Delete { table: EXACT, handle: 0 }])[0].as_ref().unwrap_err().kind,
        ErrorKind::BadProgram
    );
    assert_eq!(kind(s.serialize_state()), ErrorKind::BadProgram);
    s.mc_create(1).unwrap();
    s.reset_state().unwrap();
    s.commit_prepared(prepared()).unwrap();
    s.add_entry(EXACT, key(1, 1), 0, forward(1)).unwrap();
    assert_eq!(engine.stop().0.look_up(1, 1, 0), Some(1));
}

#[test]
fn what_is_configured_is_saved_restored_and_reset() {
    let s = switch();
    let engine = Engine::spawn(&s, |_| {});
    s.add_entry(EXACT, key(0, 0), 0, forward(3)).unwrap();
    let h = s.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    s.delete_entry(EXACT, 0).unwrap();
    s.add_member_as(SELECTED, 70_000_000, forward_call(6)).unwrap();
    s.create_group_as(SELECTED, 4_000_000_000, vec![(70_000_000, 3)], 10).unwrap();
    s.add_entry(GROUPS, vec![exact(9)], 0, TableAction::Group(4_000_000_000)).unwrap();
    s.mc_set_group(9, &[(1, 0), (2, 0), (1, 5)]).unwrap();
    let node = s.node_create(3, &[7], &[1]).unwrap();
    s.mc_create(8).unwrap();
    s.node_associate(8, node).unwrap();
    s.set_lag(1, &[4, 5]).unwrap();
    let mirror = MirrorSession {
        multicast_group: Some(9),
        truncate_bytes: 60,
        class_of_service: 3,
        ..MirrorSession::default()
    };
    s.set_mirror(32_767, mirror.clone()).unwrap();
    s.set_queue_depth(Some(1), Some(2), 5).unwrap();
    s.set_queue_depth(Some(1), None, 6).unwrap();
    s.set_queue_rate(None, None, 100).unwrap();
    s.set_digest_timeout(7, 50).unwrap();
    s.set_digest_max_samples(3, 1).unwrap();
    let saved = s.serialize_state().unwrap();
    let dump = s.mc_dump();
    // What is set afterwards goes when that is restored.
    s.set_queue_rate(Some(4), None, 7).unwrap();
    s.set_queue_depth(None, Some(3), 9).unwrap();

    s.reset_state().unwrap();
    assert_eq!((s.num_entries(EXACT), s.num_entries(CONST), s.mirrors().len()), (Ok(0), Ok(2), 0));
    assert_eq!(s.mc_dump(), McDump::default());
    assert_eq!(s.members(SELECTED), Ok(vec![]));
    s.add_entry(EXACT, key(1, 1), 0, forward(99)).unwrap();

    for (from, to) in [
        ("\"version\":1", "\"version\":2"),
        ("barewire-switch-state", "something"),
        ("\"id\":32767", "\"id\":32768"),
        ("\"list\":3", "\"list\":4"),
        ("\"ports\":[7]", "\"ports\":[70000]"),
        ("\"digests\"", "\"digest\""),
    ] {
        assert!(saved.contains(from), "{from} in {saved}");
        assert!(s.restore_state(&saved.replacen(from, to, 1)).is_err(), "{from} -> {to}");
    }
    let short = s.restore_state(&saved[..saved.len() - 1]).unwrap_err();
    assert!(short.message.contains("line 1"), "{short}");
    assert_eq!(s.entry_by_key(EXACT, &key(1, 1), None).unwrap().action, forward(99), "nothing has changed");

    s.restore_state(&saved).unwrap();
    assert_eq!(s.entry(EXACT, h).unwrap().action, forward(3));
    assert_eq!((s.mc_dump(), s.mirror(32_767)), (dump.clone(), Ok(mirror.clone())));
    assert_eq!(s.serialize_state().as_ref(), Ok(&saved));
    let (late, _) = Engine::spawn(&s, |_| {}).stop();
    let (fake, _) = engine.stop();
    assert_eq!(fake.queues[5..7], ["depth None None 64", "rate None None 0"]);
    for (mut fake, settings) in [(late, 2), (fake, 9)] {
        assert_eq!(fake.look_up(1, 1, 0), Some(3));
        assert_eq!((fake.pre.dump(), fake.mirrors.get(&32_767)), (dump.clone(), Some(&mirror)));
        assert_eq!(fake.queues.len(), settings, "{:?}", fake.queues);
        assert_eq!(fake.queues[settings - 2..], ["depth Some(1) None 6", "rate None None 100"]);
        let state = fake.state.as_mut().unwrap();
        let layout = KeyLayout::of(&program().tables[GROUPS.at()]);
        let mut words = vec![0; 1];
        layout.put(&mut words, 0, &n(9));
        assert_eq!(state.apply(GROUPS, &words, 1, 1, &mut || 2).args.first(), Some(&6));
        let learner = fake.learner.as_mut().unwrap();
        learner.sample(barewire_p4::ir::LearnListId(0), &[0; 8], 0);
        assert_eq!(learner.next_deadline_us(), Some(50_000));
        learner.sample(barewire_p4::ir::LearnListId(1), &[0], 0);
        assert_eq!(learner.next_deadline_us(), Some(0), "one sample fills the buffer");
    }
}

#[test]
fn traffic_settings_are_checked() {
    let s = switch();
    assert_eq!(kind(s.set_mirror(32_768, MirrorSession::default())), ErrorKind::InvalidSession);
    assert_eq!(kind(s.mirror(1)), ErrorKind::InvalidSession);
    assert_eq!(kind(s.delete_mirror(1)), ErrorKind::InvalidSession);
    s.set_mirror(1, MirrorSession::default()).unwrap();
    assert_eq!(s.mirrors(), [(1, MirrorSession::default())]);
    s.delete_mirror(1).unwrap();
    assert_eq!(kind(s.mc_destroy(1)), ErrorKind::InvalidMulticastGroup);
    assert_eq!(kind(s.node_update(0, &[1], &[])), ErrorKind::InvalidL1Handle);
    let node = s.node_create(0, &[1], &[]).unwrap();
    assert_eq!(kind(s.node_dissociate(1, node)), ErrorKind::InvalidMulticastGroup);
    s.node_update(node, &[2], &[]).unwrap();
    s.node_destroy(node).unwrap();
    assert_eq!(kind(s.ack_digest(8, 0, None)), ErrorKind::InvalidLearnList);
    assert_eq!(kind(s.set_digest_timeout(0, 5)), ErrorKind::InvalidLearnList);
    assert_eq!(kind(s.set_digest_max_samples(0, 5)), ErrorKind::InvalidLearnList);
    s.ack_digest(7, 12345, Some(1)).unwrap();
    assert_eq!(kind(s.packet_out(Some(1), vec![1])), ErrorKind::Unavailable);
}

#[test]
fn ports_are_on_all_engines_or_on_none() {
    let (s, _) = switch_with(|config| {
        config.open_port = Some(Box::new(|port, uri, engines| {
            if uri == "bad" {
                return Err(ControlError::new(ErrorKind::InvalidPort, "bad"));
            }
            Ok((0..engines).map(|_| Box::new(port) as Box<dyn Any + Send>).collect())
        }));
    });
    let first = Engine::spawn(&s, |_| {});
    let second = Engine::spawn(&s, |fake| fake.bad_port = Some(3));
    s.add_port(1, "mem:x").unwrap();
    assert_eq!(kind(s.add_port(2, "bad")), ErrorKind::InvalidPort);
    assert_eq!(kind(s.add_port(3, "mem:x")), ErrorKind::InvalidPort);
    assert_eq!(kind(s.add_port(1, "mem:x")), ErrorKind::InvalidPort);
    let ports = s.ports();
    assert_eq!(ports.len(), 1);
    assert_eq!((ports[0].port, ports[0].up, ports[0].rx, ports[0].tx_dropped), (1, true, value(4, 20), 6));
    s.packet_out(Some(1), vec![1, 2]).unwrap();
    s.packet_out(None, vec![3]).unwrap();
    assert_eq!(kind(s.remove_port(3)), ErrorKind::InvalidPort);
    s.remove_port(1).unwrap();
    assert!(s.ports().is_empty());
    assert_eq!(first.stop().0.injected, [(Some(1), vec![1, 2]), (None, vec![3])]);
    assert!(second.stop().0.injected.is_empty());
}

#[test]
fn names_are_found_in_the_program() {
    let s = switch();
    assert_eq!((s.table("exact"), s.table("ingress.lpm")), (Ok(EXACT), Ok(LPM)));
    assert_eq!(s.action_of(EXACT, "forward"), Ok(FORWARD));
    assert_eq!(kind(s.action_of(EXACT, "other")), ErrorKind::InvalidActionName);
    assert_eq!(kind(s.action_of(TableId(55), "other")), ErrorKind::InvalidTableName);
    assert_eq!(s.action_of_profile(SELECTED, "ingress.forward"), Ok(FORWARD));
    assert_eq!(
        kind(s.action_of_profile(barewire_p4::ir::ProfileId(9), "x")),
        ErrorKind::InvalidActionProfileName
    );
    assert_eq!(s.profile("selected"), Ok(SELECTED));
    assert_eq!((s.counter("c"), s.counter("direct_c")), (Ok(CounterId(0)), Ok(CounterId(1))));
    assert_eq!(s.meter("m"), Ok(MeterId(0)));
    assert_eq!(s.register("wide"), Ok(RegisterId(1)));
    assert_eq!(s.value_set("set"), Ok(ValueSetId(0)));
    assert_eq!(s.calculation("crc").map(|c| c.0), Ok(0));
    assert_eq!((s.learn_list("3"), s.learn_list("digest"), s.learn_list("7")).2.map(|l| l.0), Ok(0));
    assert_eq!(s.learn_list("digest").map(|l| l.0), Ok(1));
    assert_eq!(kind(s.learn_list("8")), ErrorKind::InvalidLearnList);
    let error = s.table("exakt").unwrap_err();
    assert!(error.message.contains("did you mean `exact`?"), "{error}");
}

/// Load, swap and commit with a program as its compiler wrote it.
#[test]
fn a_real_program_is_loaded_swapped_and_committed() {
    let Some(path) = barewire_testing::shared("data/p4/legacy/simple_router.json") else { return };
    let json = std::fs::read_to_string(path).unwrap();
    let (s, _) = switch_with(|config| config.enable_swap = true);
    let engine = Engine::spawn(&s, |_| {});
    s.load(&json).unwrap();
    assert_eq!(kind(s.load(&json)), ErrorKind::OngoingSwap);
    assert_eq!(s.of_running().table("exact"), Ok(EXACT), "the old one still runs");
    assert_eq!(s.table("exact").unwrap_err().kind, ErrorKind::InvalidTableName);
    s.swap().unwrap();
    let table = s.table("ipv4_lpm").unwrap();
    let action = s.action_of(table, "set_nhop").unwrap();
    let call = crate::control::ActionCall { action, args: vec![n(0x0a00_0001), n(1)] };
    let h = s.add_entry(table, vec![lpm(0x0a00_0000, 24)], 0, TableAction::Call(call)).unwrap();
    let saved = s.serialize_state().unwrap();
    s.commit(&json).unwrap();
    assert_eq!(s.num_entries(table), Ok(0));
    s.restore_state(&saved).unwrap();
    assert_eq!(s.entry(table, h).unwrap().key, [lpm(0x0a00_0000, 24)]);
    assert_eq!(engine.stop().0.state.unwrap().tables[table.at()].len(), 1);
}
