//! The link between the control side and one forwarding engine.
//!
//! Control threads hold [`EngineLink`]s, the engine an [`EngineInbox`]. Writes are queued and not answered; reads are
//! questions the engine answers between bursts. The engine calls [`EngineInbox::drain`] after it has received a burst
//! and before it processes it: so a write that returned is seen by every packet that arrives afterwards, and while
//! nothing is queued the engine pays one load per burst. Nobody takes a lock on the engine's side.

use super::notify::Subscribers;
use super::{ControlError, ErrorKind, MirrorSession, Notification, PortInfo};
use crate::learn::Learner;
use crate::pre::{Pre, Touched};
use crate::prepared::Prepared;
use crate::store::Write;
use barewire_p4_state::ProgramState;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Writes that may wait at one engine, unless asked otherwise; a control thread that would exceed it waits until the engine
/// has caught up.
pub const MAX_PENDING: usize = 16_384;
/// The same while packets flow. An engine applies all that waits before it goes on with packets (about 3 us each for a new
/// entry), so this bounds how long packets wait when controllers flood it, and what share of the engine is left for them.
pub const MAX_PENDING_LIVE: usize = 128;
/// Writes that may be made as one: all of them or none, and no packet between them.
pub const MAX_ATOMIC: usize = 16_384;
/// How long a control thread waits for an engine's answer, unless asked otherwise.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a control thread sleeps while an engine catches up.
const ROOM_POLL: Duration = Duration::from_micros(100);

/// What the control side needs of an engine's datapath. All calls come from [`EngineInbox::drain`], that is, on the
/// engine's thread and between bursts.
pub trait Replica {
    /// The state of the running program; none before a program is installed.
    fn state(&mut self) -> Option<&mut ProgramState>;

    /// Run this program with this state (entries, defaults, groups … are in it already) from the next packet on. Its
    /// `Arc` is the running one when only the state is to be replaced (reset, restore). What is no longer needed is
    /// given back, so that it is dropped on a control thread: dropping a million entries takes long.
    fn install(&mut self, prepared: &Arc<Prepared>, state: Box<ProgramState>) -> Box<dyn Any + Send>;

    /// See a write to the program's state before it is applied (a kernel has a copy of it).
    fn see(&mut self, _write: &crate::store::StateWrite) {}

    /// Run this program in the kernel from now on, or none there; these counters of the one it follows are added to the state,
    /// which is still that one's. Before [`Replica::install`].
    fn install_kernel(
        &mut self,
        _kernel: Result<Option<Box<crate::kernel::Kernel>>, String>,
        _carried: &[crate::kernel::Fold],
    ) {
    }

    /// Bring what the kernel has counted to where it is read.
    fn fold(&mut self, _what: &crate::kernel::Fold) {}

    /// A multicast group was changed, or (none) any. It may wait for [`Replica::settle`].
    fn pre_changed(&mut self, _groups: Touched) {}

    /// Do what waited: after it, packets see all writes so far.
    fn settle(&mut self) {}

    /// The replication engine. It stays when a program is swapped.
    fn pre(&mut self) -> &mut Pre;

    /// The learning buffers. [`Replica::install`] makes new ones for the new program.
    fn learner(&mut self) -> Option<&mut Learner>;

    /// Set or remove a mirror session (0..=32767).
    fn set_mirror(&mut self, id: u32, session: Option<MirrorSession>);

    /// How many packets a queue holds: of one port or all, of one priority or all.
    fn set_queue_depth(&mut self, port: Option<u32>, priority: Option<u32>, packets: usize);

    /// How many packets a second leave a queue: of one port or all, of one priority or all; 0 for no limit.
    fn set_queue_rate(&mut self, port: Option<u32>, priority: Option<u32>, pps: u64);

    /// Add a port. `opened` is what the switch's port opener gave for this engine, if it has one.
    ///
    /// # Errors
    /// Why not, for people.
    fn add_port(
        &mut self,
        port: u32,
        uri: &str,
        opened: Option<Box<dyn Any + Send>>,
    ) -> Result<(), ControlError>;

    /// Remove a port. What was behind it may be given back, so that it is closed on a control thread.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPort`] when there is none of this number.
    fn remove_port(&mut self, port: u32) -> Result<Option<Box<dyn Any + Send>>, ControlError>;

    /// The ports, with this engine's counters.
    fn ports(&mut self) -> Vec<PortInfo>;

    /// Send a packet out of a port, or (none) through the pipeline as from the CPU port.
    fn inject(&mut self, port: Option<u32>, bytes: Vec<u8>);

    /// Each reason for which packets were dropped, with how many.
    fn drops(&mut self, each: &mut dyn FnMut(&str, u64));
}

/// Where things go that take long to drop.
pub(crate) type ThrowAway = mpsc::Sender<Box<dyn Any + Send>>;

type Task = Box<dyn FnOnce(&mut dyn Replica) + Send>;

enum Message {
    /// Writes in order; shared with the other engines.
    Writes(Arc<Vec<Write>>),
    Run(Task),
    /// A task that installs a program, writes that no packet sees without it, and the epoch that begins.
    Install(Task, Vec<Write>, u64),
    Subscribers(Arc<Subscribers>),
}

struct Shared {
    index: usize,
    /// Writes that may wait.
    max_pending: usize,
    /// How long a control thread waits for an answer, and for room.
    answer_timeout: Duration,
    /// Writes and tasks queued and not yet applied.
    pending: AtomicUsize,
    /// Writes that the replica refused although the store had accepted them: always 0, or a bug.
    refused: AtomicU64,
    alive: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// The control side's end. Clones are the same link.
#[derive(Clone)]
pub struct EngineLink {
    queue: mpsc::Sender<Message>,
    shared: Arc<Shared>,
}

/// The engine's end.
pub struct EngineInbox {
    queue: mpsc::Receiver<Message>,
    shared: Arc<Shared>,
    subscribers: Arc<Subscribers>,
    throw_away: ThrowAway,
    /// When the program began that runs here.
    epoch: u64,
}

/// An answer that an engine has been asked for, and how long it is usually waited for.
pub(crate) struct Answer<T>(mpsc::Receiver<T>, Duration);

impl fmt::Debug for EngineLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineLink")
            .field("index", &self.shared.index)
            .field("pending", &self.shared.pending.load(Relaxed))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EngineInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineInbox").field("index", &self.shared.index).finish_non_exhaustive()
    }
}

/// A link to the engine of this index (0 for the first), which `wake` wakes.
pub(crate) fn link(
    index: usize,
    max_pending: usize,
    answer_timeout: Duration,
    subscribers: Arc<Subscribers>,
    throw_away: ThrowAway,
    wake: Box<dyn Fn() + Send + Sync>,
) -> (EngineLink, EngineInbox) {
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::new(Shared {
        index,
        max_pending,
        answer_timeout,
        pending: AtomicUsize::new(0),
        refused: AtomicU64::new(0),
        alive: AtomicBool::new(true),
        wake,
    });
    let inbox =
        EngineInbox { queue: receiver, shared: Arc::clone(&shared), subscribers, throw_away, epoch: 0 };
    (EngineLink { queue: sender, shared }, inbox)
}

impl EngineLink {
    /// The engine still exists.
    pub fn is_alive(&self) -> bool {
        self.shared.alive.load(Acquire)
    }

    /// Writes and questions that wait.
    pub fn pending(&self) -> usize {
        self.shared.pending.load(Relaxed)
    }

    /// Writes that the replica refused although the store had accepted them: always 0, or a bug.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Relaxed)
    }

    /// No more writes may wait, and somebody will take them.
    pub(crate) fn is_full(&self) -> bool {
        self.pending() >= self.shared.max_pending && self.is_alive()
    }

    /// Wait until there is room for another write.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the engine does not catch up in the time of an answer.
    pub(crate) fn wait_for_room(&self) -> Result<(), ControlError> {
        let mut since = None;
        while self.is_full() {
            let now = barewire_engine::now();
            let since = *since.get_or_insert_with(|| {
                (self.shared.wake)();
                now
            });
            if u128::from(now.as_nanos() - since.as_nanos()) > self.shared.answer_timeout.as_nanos() {
                return Err(unavailable());
            }
            std::thread::sleep(ROOM_POLL);
        }
        Ok(())
    }

    fn send(&self, message: Message, weight: usize) -> bool {
        // Counted before it is queued: whoever sees the count of a message whose sender has returned has then counted
        // what lies before it in the queue too, and does not stop short of it.
        let before = self.shared.pending.fetch_add(weight, AcqRel);
        if self.queue.send(message).is_err() {
            self.shared.alive.store(false, Release);
            return false;
        }
        if before == 0 {
            (self.shared.wake)();
        }
        true
    }

    /// Queue writes. False when the engine is gone.
    pub(crate) fn write(&self, writes: &Arc<Vec<Write>>) -> bool {
        writes.is_empty() || self.send(Message::Writes(Arc::clone(writes)), writes.len())
    }

    /// Queue a task. False when the engine is gone.
    pub(crate) fn run(&self, task: impl FnOnce(&mut dyn Replica) + Send + 'static) -> bool {
        self.send(Message::Run(Box::new(task)), 1)
    }

    /// Queue a task that installs a program and writes after it, with no packet in between; what the engine tells from then on
    /// is of this epoch. False when the engine is gone.
    pub(crate) fn install(
        &self,
        task: impl FnOnce(&mut dyn Replica) + Send + 'static,
        writes: Vec<Write>,
        epoch: u64,
    ) -> bool {
        let weight = 1 + writes.len();
        self.send(Message::Install(Box::new(task), writes, epoch), weight)
    }

    /// Ask the engine a question.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn Replica) -> T + Send + 'static,
    ) -> Answer<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // A failure drops the sender, which the answer reports.
        self.run(move |replica| {
            let _ = sender.send(question(replica));
        });
        Answer(receiver, self.shared.answer_timeout)
    }

    pub(crate) fn set_subscribers(&self, subscribers: &Arc<Subscribers>) {
        self.send(Message::Subscribers(Arc::clone(subscribers)), 1);
    }
}

impl<T> Answer<T> {
    /// Wait for it.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] after the switch's [`answer_timeout`](super::SwitchConfig::answer_timeout), or at once when the
    /// engine is gone.
    pub(crate) fn wait(self) -> Result<T, ControlError> {
        let usual = self.1;
        self.wait_for(usual)
    }

    /// Wait for it so long.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] then, or at once when the engine is gone.
    pub(crate) fn wait_for(self, timeout: Duration) -> Result<T, ControlError> {
        self.0.recv_timeout(timeout).map_err(|_| unavailable())
    }
}

pub(crate) fn unavailable() -> ControlError {
    ControlError::new(ErrorKind::Unavailable, "no engine answered in time")
}

impl EngineInbox {
    /// The engine's index: 0 for the first.
    pub fn index(&self) -> usize {
        self.shared.index
    }

    /// Whether anything waits.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.shared.pending.load(Acquire) == 0
    }

    /// Apply what waits; gives how many writes and questions that was. What comes in meanwhile waits for the next call.
    #[inline]
    pub fn drain(&mut self, replica: &mut dyn Replica) -> usize {
        let pending = self.shared.pending.load(Acquire);
        if pending == 0 { 0 } else { self.apply(pending, replica) }
    }

    #[cold]
    fn apply(&mut self, pending: usize, replica: &mut dyn Replica) -> usize {
        let mut done = 0;
        while done < pending {
            let Ok(message) = self.queue.try_recv() else { break };
            if !matches!(message, Message::Writes(_)) {
                replica.settle();
            }
            done += match message {
                Message::Writes(writes) => {
                    let count = writes.len();
                    match Arc::try_unwrap(writes) {
                        Ok(writes) => self.write(writes.into_iter(), replica),
                        Err(writes) => self.write(writes.iter().cloned(), replica),
                    }
                    count
                }
                Message::Run(task) => {
                    task(replica);
                    1
                }
                Message::Install(task, writes, epoch) => {
                    let count = 1 + writes.len();
                    task(replica);
                    self.epoch = epoch;
                    self.write(writes.into_iter(), replica);
                    count
                }
                Message::Subscribers(subscribers) => {
                    self.subscribers = subscribers;
                    1
                }
            };
        }
        replica.settle();
        self.shared.pending.fetch_sub(done, AcqRel);
        done
    }

    fn write(&self, writes: impl Iterator<Item = Write>, replica: &mut dyn Replica) {
        let mut refused = 0;
        writes.for_each(|write| refused += u64::from(!write.apply(replica)));
        let garbage = replica.state().map(ProgramState::take_garbage).unwrap_or_default();
        if !garbage.is_empty() {
            // Nobody takes it any more when the switch is gone: then it is dropped here.
            let _ = self.throw_away.send(Box::new(garbage));
        }
        if refused != 0 {
            self.shared.refused.fetch_add(refused, Relaxed);
        }
    }

    /// Tell subscribers. Never waits: what a subscriber has no room for is lost to it, and counted. False when nobody who
    /// listens had room.
    pub fn notify(&self, notification: Notification) -> bool {
        self.subscribers.send(self.epoch, notification)
    }

    /// Anybody listens. When not, a packet for the CPU need not be copied.
    #[inline]
    pub fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }
}

impl Drop for EngineInbox {
    fn drop(&mut self) {
        self.shared.alive.store(false, Release);
    }
}
