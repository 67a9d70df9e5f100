//! The switch's handle: what it is configured with, how writes and questions reach the engines, and programs.

use super::link::{Answer, EngineInbox, EngineLink, Replica, ThrowAway, link};
use super::notify::Subscribers;
use super::{ControlError, CounterValue, ErrorKind, MirrorSession, Notification};
use crate::pre::{Pre, PreLimits, PreWrite};
use crate::prepared::{EngineKind, Prepared, prepare};
use crate::store::{StateWrite, Store, Write};
use barewire_p4::ir::{Program, TableId};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;

pub(super) type Result<T> = std::result::Result<T, ControlError>;

/// Entries or elements one question to an engine asks about: it must not hold packets up.
pub(super) const CHUNK: u64 = 1024;
/// Writes of a batch that an engine applies without looking for packets in between.
pub(super) const WRITE_CHUNK: usize = 256;
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

pub(super) struct Running {
    pub prepared: Arc<Prepared>,
    pub store: Store,
}

/// All that the control side remembers.
pub(super) struct Control {
    pub running: Option<Running>,
    staged: Option<Arc<Prepared>>,
    pub links: Vec<EngineLink>,
    engines_made: usize,
    pub subscribers: Arc<Subscribers>,
    pub pre: Pre,
    pub mirrors: BTreeMap<u32, MirrorSession>,
    /// Queue settings in force, the older first.
    pub queues: Vec<Write>,
    /// Digest settings in force.
    pub digests: Vec<Write>,
}

pub(super) struct Inner {
    pub config: SwitchConfig,
    control: Mutex<Control>,
    /// What engines no longer need, to be dropped where it holds no packet up.
    garbage: Mutex<mpsc::Receiver<Box<dyn Any + Send>>>,
    throw_away: ThrowAway,
    /// Dropped with the switch, which ends the sweeper.
    _alive: mpsc::Sender<()>,
}

/// The handle of a switch. Clones are the same switch.
#[derive(Clone)]
pub struct Switch {
    pub(super) inner: Arc<Inner>,
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").field("device_id", &self.inner.config.device_id).finish_non_exhaustive()
    }
}

impl Control {
    pub(super) fn store(&self) -> Result<&Store> {
        self.running.as_ref().map(|running| &running.store).ok_or_else(no_program)
    }

    pub(super) fn store_mut(&mut self) -> Result<&mut Store> {
        self.running.as_mut().map(|running| &mut running.store).ok_or_else(no_program)
    }

    /// Send writes to all engines.
    pub(super) fn send(&mut self, writes: Vec<Write>) {
        if writes.is_empty() || self.links.is_empty() {
            return;
        }
        let writes = Arc::new(writes);
        self.links.retain(|link| link.write(&writes));
    }

    /// Set one thing on the first engine, and nothing on the others: reads sum over all.
    pub(super) fn send_shares(&mut self, value: CounterValue, write: impl Fn(CounterValue) -> StateWrite) {
        let mut share = value;
        self.links
            .retain(|link| link.write(&Arc::new(vec![Write::State(write(std::mem::take(&mut share)))])));
    }

    /// Send writes of many elements each to all engines, one at a time, so that no engine is held up for long.
    pub(super) fn send_in_pieces(&mut self, pieces: impl Iterator<Item = StateWrite>) {
        let mut pace = true;
        for (at, piece) in pieces.enumerate() {
            // The first few may wait together. An engine that does not answer gets the rest at once.
            if at >= 4 && pace {
                let done: Vec<Answer<()>> = self.links.iter().map(|link| link.ask(|_| ())).collect();
                pace = done.into_iter().all(|answer| answer.wait().is_ok());
            }
            self.send(vec![Write::State(piece)]);
        }
    }

    fn install_on(&self, link: &EngineLink, running: &Running, throw_away: &ThrowAway) {
        let state = Box::new(running.store.build_state());
        let prepared = Arc::clone(&running.prepared);
        let throw_away = throw_away.clone();
        link.run(move |replica| {
            let garbage = replica.install(&prepared, state);
            // Nobody is left to take it only when the switch is gone.
            let _ = throw_away.send(garbage);
        });
        link.write(&Arc::new(self.digests.clone()));
    }

    /// Run this from now on, on all engines.
    pub(super) fn install(&mut self, running: Running, throw_away: &ThrowAway) {
        for link in &self.links {
            self.install_on(link, &running, throw_away);
        }
        self.running = Some(running);
    }
}

fn no_program() -> ControlError {
    ControlError::new(ErrorKind::BadProgram, "no program has been loaded yet")
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
            Some(prepared) => {
                let store = Store::new(Arc::clone(&prepared.program))?;
                Some(Running { prepared, store })
            }
            None => None,
        };
        let control = Control {
            running,
            staged: None,
            links: Vec::new(),
            engines_made: 0,
            subscribers: Arc::default(),
            pre: Pre::new(config.replication),
            mirrors: BTreeMap::new(),
            queues: Vec::new(),
            digests: Vec::new(),
        };
        let (throw_away, garbage) = mpsc::channel();
        let (alive, ended) = mpsc::channel();
        let interval = config.sweep_interval;
        let inner = Arc::new(Inner {
            config,
            control: Mutex::new(control),
            garbage: Mutex::new(garbage),
            throw_away,
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
        Ok(Switch { inner })
    }

    /// A link to another engine, which `wake` wakes. The first [`EngineInbox::drain`] gives the engine the program, if
    /// there is one, and everything written so far.
    pub fn attach(&self, wake: Box<dyn Fn() + Send + Sync>) -> EngineInbox {
        let mut control = self.lock();
        let subscribers = Arc::clone(&control.subscribers);
        let (link, inbox) = link(control.engines_made, subscribers, self.inner.throw_away.clone(), wake);
        control.engines_made += 1;
        if let Some(running) = &control.running {
            control.install_on(&link, running, &self.inner.throw_away);
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

    /// The control data, when every engine has room for more writes.
    pub(super) fn lock_for_write(&self) -> Result<MutexGuard<'_, Control>> {
        loop {
            let control = self.lock();
            let full = |link: &&EngineLink| link.pending() >= super::link::MAX_PENDING && link.is_alive();
            let full: Vec<EngineLink> = control.links.iter().filter(full).cloned().collect();
            if full.is_empty() {
                return Ok(control);
            }
            drop(control);
            full.iter().try_for_each(EngineLink::wait_for_room)?;
        }
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

    /// Change the running program's master copy.
    pub(super) fn write_store<T>(
        &self,
        change: impl FnOnce(&mut Store, &mut Vec<Write>) -> Result<T>,
    ) -> Result<T> {
        self.write(|control, out| change(control.store_mut()?, out))
    }

    /// Read the running program's master copy.
    pub(super) fn read_store<T>(&self, read: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        read(self.lock().store()?)
    }

    /// Ask all engines: the question is made under the lock, so that it comes after all writes so far and before any
    /// later ones; the answers are awaited without it.
    pub(super) fn ask_all<T, Q>(&self, question: impl FnOnce(&Control) -> Result<Q>) -> Result<Vec<T>>
    where
        T: Send + 'static,
        Q: Fn(&mut dyn Replica) -> T + Clone + Send + 'static,
    {
        let control = self.lock();
        let question = question(&control)?;
        let answers: Vec<Answer<T>> = control
            .links
            .iter()
            .filter(|link| link.is_alive())
            .map(|link| link.ask(question.clone()))
            .collect();
        drop(control);
        if answers.is_empty() {
            return Err(no_engine());
        }
        answers.into_iter().map(Answer::wait).collect()
    }

    /// Ask the first engine.
    pub(super) fn ask_first<T, Q>(&self, question: impl FnOnce(&Control) -> Result<Q>) -> Result<T>
    where
        T: Send + 'static,
        Q: FnOnce(&mut dyn Replica) -> T + Send + 'static,
    {
        let control = self.lock();
        let question = question(&control)?;
        let link = control.links.iter().find(|link| link.is_alive()).ok_or_else(no_engine)?;
        let answer = link.ask(question);
        drop(control);
        answer.wait()
    }

    /// The running program; none before one is loaded.
    pub fn program(&self) -> Option<Arc<Program>> {
        self.lock().running.as_ref().map(|running| Arc::clone(&running.prepared.program))
    }

    /// Check and compile a program, to be swapped in later.
    ///
    /// # Errors
    /// [`ErrorKind`]: `SwapDisabled`, `OngoingSwap`, `BadProgram`.
    pub fn load(&self, json: &str) -> Result<()> {
        let check = |control: &Control| {
            if !self.inner.config.enable_swap {
                return Err(ControlError::new(
                    ErrorKind::SwapDisabled,
                    "the switch was started without leave to swap programs",
                ));
            }
            if control.staged.is_some() {
                return Err(ControlError::new(
                    ErrorKind::OngoingSwap,
                    "another program waits to be swapped in",
                ));
            }
            Ok(())
        };
        check(&self.lock())?;
        let prepared = Arc::new(prepare(json, self.inner.config.engine)?);
        // Its own entries are checked now, not when it is swapped in.
        Store::new(Arc::clone(&prepared.program))?;
        let mut control = self.lock();
        check(&control)?;
        control.staged = Some(prepared);
        Ok(())
    }

    /// Run the program that was loaded last. Entries, groups and members of the old one are gone; multicast groups and
    /// mirror sessions stay. No packet is lost.
    ///
    /// # Errors
    /// [`ErrorKind`]: `SwapDisabled`, `NoOngoingSwap`.
    pub fn swap(&self) -> Result<()> {
        if !self.inner.config.enable_swap {
            return Err(ControlError::new(
                ErrorKind::SwapDisabled,
                "the switch was started without leave to swap programs",
            ));
        }
        let Some(prepared) = self.lock().staged.take() else {
            return Err(ControlError::new(ErrorKind::NoOngoingSwap, "no program waits to be swapped in"));
        };
        self.activate(prepared, false)
    }

    /// Check, compile and run a program; everything written before is gone, multicast groups and mirror sessions too.
    /// No packet is lost. (P4Runtime's `VERIFY_AND_COMMIT`; it needs no leave to swap.)
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`]; then the old program goes on.
    pub fn commit(&self, json: &str) -> Result<()> {
        self.commit_prepared(Arc::new(prepare(json, self.inner.config.engine)?))
    }

    /// [`Switch::commit`] for a program that was made ready before (P4Runtime's `VERIFY_AND_SAVE`, then `COMMIT`).
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`]; then the old program goes on.
    pub fn commit_prepared(&self, prepared: Arc<Prepared>) -> Result<()> {
        self.activate(prepared, true)
    }

    fn activate(&self, prepared: Arc<Prepared>, forget_traffic: bool) -> Result<()> {
        let store = Store::new(Arc::clone(&prepared.program))?;
        let mut control = self.lock_for_write()?;
        if forget_traffic {
            control.forget_traffic();
        }
        control.digests.clear();
        control.install(Running { prepared, store }, &self.inner.throw_away);
        control.subscribers.send(Notification::ProgramSwapped);
        drop(control);
        self.take_out_garbage();
        Ok(())
    }

    /// Everything as after start: entries, members, groups, arrays, multicast groups, mirror sessions.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when an engine does not catch up.
    pub fn reset_state(&self) -> Result<()> {
        let mut control = self.lock_for_write()?;
        control.forget_traffic();
        if let Some(Running { prepared, .. }) = &control.running {
            let prepared = Arc::clone(prepared);
            let store = Store::new(Arc::clone(&prepared.program))?;
            control.install(Running { prepared, store }, &self.inner.throw_away);
        }
        drop(control);
        self.take_out_garbage();
        Ok(())
    }

    pub(super) fn replace_store(&self, control: &mut Control, store: Store) {
        if let Some(running) = &control.running {
            let prepared = Arc::clone(&running.prepared);
            control.install(Running { prepared, store }, &self.inner.throw_away);
        }
    }

    fn take_out_garbage(&self) {
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
        let hits = self.ask_all(move |_| {
            Ok(move |replica: &mut dyn Replica| crate::store::read::last_hits(replica.state(), table, &asked))
        })?;
        let latest: Vec<(u32, u64)> = indices
            .iter()
            .enumerate()
            .map(|(at, index)| {
                (*index, hits.iter().filter_map(|hits| hits.get(at)).copied().max().unwrap_or(0))
            })
            .collect();
        let now_us = self.time_us();
        let mut control = self.lock();
        if !same(&control) {
            return Ok(());
        }
        let idle = control.store_mut()?.take_idle(table, &latest, now_us);
        if !idle.is_empty() {
            control.subscribers.send(Notification::Idle(table, idle));
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

    /// No multicast groups, no mirror sessions.
    pub(super) fn forget_traffic(&mut self) {
        self.pre.clear();
        let mut writes = vec![Write::Pre(PreWrite::Replace(Box::new(self.pre.clone())))];
        let mirrors = std::mem::take(&mut self.mirrors);
        writes.extend(mirrors.into_keys().map(|id| Write::Mirror { id, session: None }));
        self.send(writes);
    }
}

fn sweep_until_ended(switch: &Weak<Inner>, ended: &mpsc::Receiver<()>, interval: Duration) {
    while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(interval) {
        let Some(inner) = switch.upgrade() else { return };
        Switch { inner }.keep_house();
    }
}

#[cfg(test)]
mod tests;
