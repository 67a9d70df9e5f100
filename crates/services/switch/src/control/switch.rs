//! The switch's handle: what it is configured with, how writes and questions reach the engines, and programs.

use super::link::{Answer, EngineInbox, EngineLink, Replica, ThrowAway, link};
use super::notify::Subscribers;
use super::programs::{Master, Staged, View};
use super::{ControlError, ErrorKind, MirrorSession, Notification};
use crate::kernel::Fold;
use crate::pre::{Pre, PreLimits, PreWrite};
use crate::prepared::{EngineKind, Prepared};
use crate::store::{Store, Write};
use barewire_p4::ir::{Program, TableId};
use barewire_p4_state::ProgramState;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;

pub(super) type Result<T> = std::result::Result<T, ControlError>;

/// Entries or elements one question to an engine asks about: it must not hold packets up.
pub(super) const CHUNK: u64 = 1024;
/// Writes of a batch that an engine applies without looking for packets in between.
pub(super) const WRITE_CHUNK: usize = 128;
/// Elements of an array that one write sets.
pub(super) const PIECE: u64 = 4096;

/// Opens a port on the calling control thread: the port's number, its URI, and for how many engines; gives one thing
/// for each engine, which [`Replica::add_port`] gets.
pub type PortOpener = Box<dyn Fn(u32, &str, usize) -> Result<Vec<Box<dyn Any + Send>>> + Send + Sync>;

/// What a switch is configured with.
pub struct SwitchConfig {
    /// The number control planes know the switch by.
    pub device_id: u64,
    /// Where its Thrift server listens, to be told to those who ask.
    pub thrift_port: Option<u16>,
    /// Where notifications are published, to be told to those who ask.
    pub notifications_addr: String,
    /// The port that means drop.
    pub drop_port: u32,
    /// The port whose packets go to the control plane.
    pub cpu_port: Option<u32>,
    /// Whether [`Switch::load`] and [`Switch::swap`] may replace the program.
    pub enable_swap: bool,
    /// The engine for programs that are loaded later.
    pub engine: EngineKind,
    /// How much the replication engine stores.
    pub replication: PreLimits,
    /// When the switch started, in microseconds since 1970.
    pub started_unix_us: u64,
    /// Microseconds since the switch started: the same reading that the engines give their state with each packet.
    pub clock: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Opens ports; none leaves it to the engines.
    pub open_port: Option<PortOpener>,
    /// How often idle entries are looked for; zero for only when [`Switch::sweep`] is called.
    pub sweep_interval: Duration,
    /// Writes that may wait at one engine. A server takes no more than [`MAX_PENDING_LIVE`](super::link::MAX_PENDING_LIVE);
    /// who drives an engine from the thread that writes has to apply at least as often.
    pub max_pending: usize,
    /// How long a control thread waits for an engine's answer, or for room at it, before it says that none answers. Opening
    /// and closing ports may take longer.
    pub answer_timeout: Duration,
    /// Whether a write waits until the engines have it: where the kernel forwards, packets do not pass an engine that would
    /// see it first.
    pub settle_writes: bool,
}

impl Default for SwitchConfig {
    /// bmv2's defaults, on a clock that starts now.
    fn default() -> Self {
        let started = barewire_engine::now();
        SwitchConfig {
            device_id: 0,
            thrift_port: None,
            notifications_addr: String::new(),
            drop_port: 511,
            cpu_port: None,
            enable_swap: false,
            engine: EngineKind::default(),
            replication: PreLimits::default(),
            started_unix_us: 0,
            clock: Box::new(move || (barewire_engine::now().as_nanos() - started.as_nanos()) / 1000),
            open_port: None,
            sweep_interval: Duration::from_secs(1),
            max_pending: super::link::MAX_PENDING,
            answer_timeout: super::link::ANSWER_TIMEOUT,
            settle_writes: false,
        }
    }
}

impl fmt::Debug for SwitchConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SwitchConfig").field("device_id", &self.device_id).finish_non_exhaustive()
    }
}

/// What a switch says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The number control planes know the switch by.
    pub device_id: u64,
    /// Where its Thrift server listens.
    pub thrift_port: Option<u16>,
    /// Where notifications are published.
    pub notifications_addr: String,
    /// The port that means drop.
    pub drop_port: u32,
    /// The port whose packets go to the control plane.
    pub cpu_port: Option<u32>,
    /// What runs the program: "native" or "interpreter".
    pub engine: String,
    /// Whether programs may be swapped.
    pub enable_swap: bool,
    /// When it started, in microseconds since 1970.
    pub started_unix_us: u64,
}

/// All that the control side remembers.
pub(super) struct Control {
    pub running: Option<Master>,
    pub staged: Option<Staged>,
    pub links: Vec<EngineLink>,
    engines_made: usize,
    /// Writes that a staged state refused although its store had accepted them: always 0, or a bug.
    pub refused: u64,
    pub subscribers: Arc<Subscribers>,
    pub pre: Pre,
    pub mirrors: BTreeMap<u32, MirrorSession>,
    /// Queue settings in force, the older first.
    pub queues: Vec<Write>,
    /// How often all of a state was put in the place of another ([`Switch::epoch`]).
    pub epoch: u64,
    /// The epoch at which the program began that runs, with the state it has.
    pub began: u64,
    /// How often it was written to ([`Switch::version`]).
    pub version: u64,
    /// It only holds a program for another switch ([`Switch::shadow`]).
    pub is_shadow: bool,
    settle_writes: bool,
}

pub(super) struct Inner {
    pub config: SwitchConfig,
    control: Mutex<Control>,
    /// What engines no longer need, to be dropped where it holds no packet up.
    garbage: Mutex<mpsc::Receiver<Box<dyn Any + Send>>>,
    pub throw_away: ThrowAway,
    /// Notifications that were lost; who asks need not wait for the lock.
    pub lost: Arc<AtomicU64>,
    /// Dropped with the switch, which ends the sweeper.
    _alive: mpsc::Sender<()>,
}

/// The handle of a switch. Clones are the same switch.
#[derive(Clone)]
pub struct Switch {
    pub(super) inner: Arc<Inner>,
    /// Which program is meant while another waits to be swapped in.
    pub(super) view: View,
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").field("device_id", &self.inner.config.device_id).finish_non_exhaustive()
    }
}

impl Control {
    /// Send writes to all engines.
    pub(super) fn send(&mut self, writes: Vec<Write>) {
        if writes.is_empty() || self.links.is_empty() {
            return;
        }
        let writes = Arc::new(writes);
        self.links.retain(|link| link.write(&writes));
        if self.settle_writes {
            for answer in self.ask(&|_: &mut dyn Replica| ()) {
                // An engine that does not answer is told of elsewhere.
                let _ = answer.wait();
            }
        }
    }

    /// Tell subscribers what happened to the program that runs.
    pub(super) fn tell(&self, notification: Notification) {
        self.subscribers.send(self.began, notification);
    }

    /// Ask all engines.
    fn ask<T, Q>(&self, question: &Q) -> Vec<Answer<T>>
    where
        T: Send + 'static,
        Q: Fn(&mut dyn Replica) -> T + Clone + Send + 'static,
    {
        let alive = self.links.iter().filter(|link| link.is_alive());
        alive.map(|link| link.ask(question.clone())).collect()
    }
}

/// All of the answers.
fn wait_all<T>(answers: Vec<Answer<T>>) -> Result<Vec<T>> {
    if answers.is_empty() {
        return Err(no_engine());
    }
    answers.into_iter().map(Answer::wait).collect()
}

fn no_engine() -> ControlError {
    ControlError::new(ErrorKind::Unavailable, "no engine is running")
}

impl Switch {
    /// A switch that runs a program, or waits for one.
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`] when the program's own entries break its own rules.
    pub fn new(config: SwitchConfig, prepared: Option<Arc<Prepared>>) -> Result<Switch> {
        let running = match prepared {
            Some(prepared) => Some(Master::new(prepared)?),
            None => None,
        };
        let subscribers: Arc<Subscribers> = Arc::default();
        let lost = subscribers.lost_counter();
        let control = Control {
            running,
            staged: None,
            links: Vec::new(),
            engines_made: 0,
            refused: 0,
            subscribers,
            pre: Pre::new(config.replication),
            mirrors: BTreeMap::new(),
            queues: Vec::new(),
            epoch: 0,
            began: 0,
            version: 0,
            is_shadow: false,
            settle_writes: config.settle_writes,
        };
        let (throw_away, garbage) = mpsc::channel();
        let (alive, ended) = mpsc::channel();
        let interval = config.sweep_interval;
        let inner = Arc::new(Inner {
            config,
            control: Mutex::new(control),
            garbage: Mutex::new(garbage),
            throw_away,
            lost,
            _alive: alive,
        });
        if !interval.is_zero() {
            let weak = Arc::downgrade(&inner);
            let sweeper = std::thread::Builder::new().name("switch-sweep".into());
            sweeper.spawn(move || sweep_until_ended(&weak, &ended, interval)).map_err(|error| {
                ControlError::new(
                    ErrorKind::Other,
                    format!("the sweeper's thread could not be started: {error}"),
                )
            })?;
        }
        Ok(Switch { inner, view: View::Newest })
    }

    /// A link to another engine, which `wake` wakes. The first [`EngineInbox::drain`] gives the engine the program, if
    /// there is one, and everything written so far.
    pub fn attach(&self, wake: Box<dyn Fn() + Send + Sync>) -> EngineInbox {
        let mut control = self.lock();
        let subscribers = Arc::clone(&control.subscribers);
        let (link, inbox) = link(
            control.engines_made,
            self.inner.config.max_pending,
            self.inner.config.answer_timeout,
            subscribers,
            self.inner.throw_away.clone(),
            wake,
        );
        control.engines_made += 1;
        if let Some(running) = &control.running {
            let state = Box::new(running.store.build_state());
            running.install_on(&link, control.began, state, &[], None, &self.inner.throw_away);
        }
        let mut writes = vec![Write::Pre(PreWrite::Replace(Box::new(control.pre.clone())))];
        let mirrors = control.mirrors.iter();
        writes.extend(mirrors.map(|(id, session)| Write::Mirror { id: *id, session: Some(session.clone()) }));
        writes.extend(control.queues.iter().cloned());
        link.write(&Arc::new(writes));
        control.links.push(link);
        inbox
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Control> {
        // A panic in another control thread leaves nothing half done that matters: each write is checked first.
        self.inner.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The control data, to be written to, when every engine has room for more writes.
    pub(super) fn lock_for_write(&self) -> Result<MutexGuard<'_, Control>> {
        let mut control = self.lock_with_room()?;
        control.version += 1;
        Ok(control)
    }

    /// The control data, when every engine has room for more messages.
    pub(super) fn lock_with_room(&self) -> Result<MutexGuard<'_, Control>> {
        loop {
            let control = self.lock();
            let full: Vec<EngineLink> = control.links.iter().filter(|link| link.is_full()).cloned().collect();
            if full.is_empty() {
                return Ok(control);
            }
            drop(control);
            full.iter().try_for_each(EngineLink::wait_for_room)?;
        }
    }

    /// The control data, when there is room for writes to the program that is meant: only the running one's engines
    /// have to catch up.
    pub(super) fn lock_for_store(&self) -> Result<MutexGuard<'_, Control>> {
        let control = self.lock();
        if control.is_staged(&self.view) {
            return Ok(control);
        }
        drop(control);
        let control = self.lock_for_write()?;
        control.master(&self.view)?;
        Ok(control)
    }

    /// Change the control data; what comes out goes to all engines, in the order in which changes were made.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&mut Control, &mut Vec<Write>) -> Result<T>,
    ) -> Result<T> {
        let mut control = self.lock_for_write()?;
        let mut out = Vec::new();
        let result = change(&mut control, &mut out);
        control.send(out);
        result
    }

    /// Change the master copy of the program that is meant.
    pub(super) fn write_store<T>(
        &self,
        change: impl FnOnce(&mut Store, &mut Vec<Write>) -> Result<T>,
    ) -> Result<T> {
        let mut control = self.lock_for_store()?;
        let mut out = Vec::new();
        let result = change(control.store_mut(&self.view)?, &mut out);
        control.send_state(&self.view, out);
        result
    }

    /// Read the master copy of the program that is meant.
    pub(super) fn read_store<T>(&self, read: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        read(self.lock().store(&self.view)?)
    }

    /// Ask all engines: the question is made under the lock, so that it comes after all writes so far and before any
    /// later ones; the answers are awaited without it.
    pub(super) fn ask_all<T, Q>(&self, question: Q) -> Result<Vec<T>>
    where
        T: Send + 'static,
        Q: Fn(&mut dyn Replica) -> T + Clone + Send + 'static,
    {
        let answers = self.lock().ask(&question);
        wait_all(answers)
    }

    /// Ask all engines about the state of the program that is meant; of a staged one there is a single state. As
    /// [`Switch::ask_all`].
    pub(super) fn ask_state<T, Q>(&self, question: impl FnOnce(&Control) -> Result<Q>) -> Result<Vec<T>>
    where
        T: Send + 'static,
        Q: Fn(Option<&mut ProgramState>) -> T + Clone + Send + 'static,
    {
        let mut control = self.lock();
        control.master(&self.view)?;
        let question = question(&control)?;
        if let Some(staged) = control.staged_mut(&self.view) {
            return Ok(vec![question(Some(&mut staged.state))]);
        }
        let answers = control.ask(&move |replica: &mut dyn Replica| question(replica.state()));
        drop(control);
        wait_all(answers)
    }

    /// Bring what the kernel has counted to where the next question finds it.
    pub(super) fn fold(&self, what: &Fold) {
        let control = self.lock();
        if control.running.as_ref().is_none_or(|running| running.prepared.kernel().is_none()) {
            return;
        }
        for link in &control.links {
            let what = what.clone();
            link.run(move |replica| replica.fold(&what));
        }
    }

    /// The same of the first engine only.
    pub(super) fn ask_first_state<T, Q>(&self, question: impl FnOnce(&Control) -> Result<Q>) -> Result<T>
    where
        T: Send + 'static,
        Q: FnOnce(Option<&mut ProgramState>) -> T + Send + 'static,
    {
        let mut control = self.lock();
        control.master(&self.view)?;
        let question = question(&control)?;
        if let Some(staged) = control.staged_mut(&self.view) {
            return Ok(question(Some(&mut staged.state)));
        }
        let link = control.links.iter().find(|link| link.is_alive()).ok_or_else(no_engine)?;
        let answer = link.ask(move |replica| question(replica.state()));
        drop(control);
        answer.wait()
    }

    pub(super) fn take_out_garbage(&self) {
        let garbage = self.inner.garbage.lock().unwrap_or_else(PoisonError::into_inner);
        garbage.try_iter().for_each(drop);
    }

    /// What the switch says of itself.
    pub fn info(&self) -> Info {
        let config = &self.inner.config;
        let kind = self.lock().running.as_ref().map_or(config.engine, |running| running.prepared.kind);
        Info {
            device_id: config.device_id,
            thrift_port: config.thrift_port,
            notifications_addr: config.notifications_addr.clone(),
            drop_port: config.drop_port,
            cpu_port: config.cpu_port,
            engine: kind.to_string(),
            enable_swap: config.enable_swap,
            started_unix_us: config.started_unix_us,
        }
    }

    /// Microseconds since the switch started.
    pub fn time_us(&self) -> u64 {
        (self.inner.config.clock)()
    }

    /// Listen to notifications from now on. A subscriber for whom more than `capacity` wait loses further ones, which is
    /// counted ([`Switch::drops`]).
    pub fn subscribe(&self, capacity: usize) -> mpsc::Receiver<Notification> {
        let (sender, receiver) = mpsc::sync_channel(capacity.max(1));
        let mut control = self.lock();
        let subscribers = control.subscribers.with(sender);
        control.set_subscribers(subscribers);
        receiver
    }

    /// [`Switch::subscribe`], with the epoch at which the program began that a notification is of ([`Switch::running`]): the numbers
    /// of its tables, entries and digests mean others in another program, or none.
    pub fn subscribe_dated(&self, capacity: usize) -> mpsc::Receiver<(u64, Notification)> {
        let (sender, receiver) = mpsc::sync_channel(capacity.max(1));
        let mut control = self.lock();
        let subscribers = control.subscribers.with_dated(sender);
        control.set_subscribers(subscribers);
        receiver
    }

    /// Report the entries that have been idle for their time-out, to subscribers. An entry is reported again after
    /// another time-out.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when there are such entries and no engine answers.
    pub fn sweep(&self) -> Result<()> {
        let (program, ageing) = {
            let control = self.lock();
            let Some(running) = &control.running else { return Ok(()) };
            (Arc::clone(&running.prepared.program), running.store.ageing())
        };
        for (table, indices) in ageing {
            for indices in indices.chunks(CHUNK as usize) {
                self.sweep_some(&program, table, indices)?;
            }
        }
        Ok(())
    }

    fn sweep_some(&self, program: &Arc<Program>, table: TableId, indices: &[u32]) -> Result<()> {
        let same = |control: &Control| {
            control.running.as_ref().is_some_and(|running| Arc::ptr_eq(&running.prepared.program, program))
        };
        let indices: Arc<[u32]> = indices.into();
        let asked = Arc::clone(&indices);
        // Before the engines are asked: a hit that comes while they answer, or after, makes nothing idle.
        let now_us = self.time_us();
        self.fold(&Fold::Hits(table, Arc::clone(&indices)));
        let hits = self.ask_all(move |replica: &mut dyn Replica| {
            crate::store::read::last_hits(replica.state(), table, &asked)
        })?;
        let latest: Vec<(u32, u64)> = indices
            .iter()
            .enumerate()
            .map(|(at, index)| {
                (*index, hits.iter().filter_map(|hits| hits.get(at)).copied().max().unwrap_or(0))
            })
            .collect();
        let mut control = self.lock();
        if !same(&control) {
            return Ok(());
        }
        let idle = control.store_mut(&View::Running)?.take_idle(table, &latest, now_us);
        if !idle.is_empty() {
            control.tell(Notification::Idle(table, idle));
        }
        Ok(())
    }

    fn keep_house(&self) {
        // An engine that does not answer now is asked again next time.
        let _ = self.sweep();
        self.take_out_garbage();
        let mut control = self.lock();
        if control.subscribers.any_gone() {
            let subscribers = control.subscribers.without_gone();
            control.set_subscribers(subscribers);
        }
    }
}

impl Control {
    fn set_subscribers(&mut self, subscribers: Subscribers) {
        self.subscribers = Arc::new(subscribers);
        for link in &self.links {
            link.set_subscribers(&self.subscribers);
        }
    }

    /// No multicast groups, no mirror sessions: gives the writes for the engines.
    pub(super) fn forget_traffic(&mut self) -> Vec<Write> {
        self.pre.clear();
        self.put_traffic(self.pre.clone(), BTreeMap::new())
    }

    /// These multicast groups and mirror sessions in place of all there are: gives the writes for the engines.
    pub(super) fn put_traffic(&mut self, pre: Pre, mirrors: BTreeMap<u32, MirrorSession>) -> Vec<Write> {
        self.epoch += 1;
        self.pre = pre;
        let old = std::mem::replace(&mut self.mirrors, mirrors);
        let mut writes = vec![Write::Pre(PreWrite::Replace(Box::new(self.pre.clone())))];
        let gone = old.into_keys().filter(|id| !self.mirrors.contains_key(id));
        writes.extend(gone.map(|id| Write::Mirror { id, session: None }));
        let there = self.mirrors.iter();
        writes.extend(there.map(|(id, session)| Write::Mirror { id: *id, session: Some(session.clone()) }));
        writes
    }
}

fn sweep_until_ended(switch: &Weak<Inner>, ended: &mpsc::Receiver<()>, interval: Duration) {
    while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(interval) {
        let Some(inner) = switch.upgrade() else { return };
        Switch { inner, view: View::Running }.keep_house();
    }
}

#[cfg(test)]
pub(super) mod tests;
