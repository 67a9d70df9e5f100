//! The data path: one frame in, some frames out.
//!
//! A [`Datapath`] belongs to one engine thread and owns all that a packet meets there: the program's engine, its
//! replica of the tables and other state, the replication groups, the queues. [`Datapath::receive`] takes a frame from
//! a port through parser, ingress, traffic manager, egress and deparser in one go (run to completion); packets that go
//! round again or wait for a queue's rate come out of [`Datapath::poll`]. The rules of the two targets are in
//! [`v1model`] and [`psa`].

pub mod fields;
pub mod psa;
pub mod queues;
pub mod v1model;

use crate::kernel::HookChoice;
use crate::learn::Learner;
use crate::pre::{LAG_HASH, Pre, PreLimits};
use crate::prepared::{Exec, Prepared};
use barewire_base::{DropCounters, DropReason, Instant};
use barewire_frame::{ChecksumState, Frame};
use barewire_p4::engine::Engine;
use barewire_p4::ir::{Arch, CalcInput, FieldId, FieldList, LearnListId, ListItem, Program};
use barewire_p4::phv::{Layout, Phv, Place, slot};
use barewire_p4_state::ProgramState;
use fields::{PsaFields, V1Fields};
use queues::Queues;
use std::any::Any;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

pub use crate::control::MirrorSession;

/// Packets that may wait to go round again (bmv2's figure); more are dropped and counted.
pub const AGAIN_MAX: usize = 1024;
/// Packets going round again that one [`Datapath::poll`] serves: an endless loop in a program must not stop the ports.
const AGAIN_PER_POLL: usize = 32;
/// Clones and replicas that one received packet may cause, directly and through clones of clones.
const COPIES_MAX: usize = 4096;
/// Spare vectors kept for clones.
const SPARE_MAX: usize = 64;

/// Where frames go.
pub trait Output {
    /// Send a frame out of a port.
    fn push(&mut self, port: u32, frame: Frame);
}

/// What the target is configured with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetConfig {
    /// The port that means drop (v1model).
    pub drop_port: u32,
    /// The port whose packets go to the control plane, and come from there.
    pub cpu_port: Option<u32>,
    /// Queues of each port.
    pub priorities: usize,
    /// How many groups and nodes may be stored.
    pub replication: PreLimits,
    /// Pass checksums and segmentation that a sender left to an offload on to the next port, instead of finishing
    /// checksums first. The program then must not look at transport checksums.
    pub pass_offloads: bool,
    /// Where programs in the kernel stand.
    pub hook: HookChoice,
}

impl Default for TargetConfig {
    fn default() -> Self {
        TargetConfig {
            drop_port: 511,
            cpu_port: None,
            priorities: 1,
            replication: PreLimits::default(),
            pass_offloads: false,
            hook: HookChoice::Auto,
        }
    }
}

/// A packet on its way to egress.
#[derive(Debug)]
pub struct EgressJob {
    frame: Frame,
    phv: Phv,
    port: u32,
    priority: usize,
    /// Where it came in.
    from: u32,
}

/// A packet on its way to ingress again.
#[derive(Debug)]
struct IngressJob {
    frame: Frame,
    phv: Phv,
    /// Where it came in the first time, which its metadata need not say.
    port: u32,
}

/// The data path of one engine.
pub struct Datapath {
    prepared: Arc<Prepared>,
    exec: Exec,
    layout: Arc<Layout>,
    /// The target's metadata, as far as the program has it: the other target's is absent.
    v1: V1Fields,
    psa: PsaFields,
    arch: Arch,
    stages: Stages,
    pub(crate) state: Box<ProgramState>,
    pub(crate) pre: Pre,
    pub(crate) mirrors: HashMap<u32, MirrorSession>,
    pub(crate) learner: Learner,
    pub(crate) queues: Queues,
    config: TargetConfig,
    index: usize,
    /// No program has been installed.
    pub(crate) idle: bool,
    /// The vector of the packet being worked on.
    phv: Phv,
    spare: Vec<Phv>,
    again: VecDeque<IngressJob>,
    copies: VecDeque<EgressJob>,
    made: usize,
    drops: DropCounters,
    started: Instant,
    now: Instant,
    /// Microseconds from the start to `now`.
    now_us: u64,
    digest_bytes: Vec<u8>,
}

/// Positions of the parsers, pipelines and deparsers the target needs.
#[derive(Debug, Clone, Copy)]
struct Stages {
    ingress_parser: usize,
    egress_parser: usize,
    ingress: usize,
    egress: usize,
    ingress_deparser: usize,
    egress_deparser: usize,
}

impl Stages {
    fn find(program: &Program) -> Stages {
        let pipeline = |name: &str| program.pipelines.iter().position(|p| p.name == name).unwrap_or(0);
        let parser = |name: &str| program.parsers.iter().position(|p| p.name == name).unwrap_or(0);
        let deparser = |name: &str| program.deparsers.iter().position(|p| p.name == name).unwrap_or(0);
        Stages {
            ingress_parser: parser("ingress_parser"),
            egress_parser: parser("egress_parser"),
            ingress: pipeline("ingress"),
            egress: pipeline("egress"),
            ingress_deparser: deparser("ingress_deparser"),
            egress_deparser: deparser("egress_deparser"),
        }
    }
}

impl Datapath {
    /// A data path without a program. `index` is its engine's; `started` is the zero of its time stamps.
    pub fn new(config: TargetConfig, index: usize, started: Instant) -> Datapath {
        let prepared = Arc::new(Prepared::none());
        let state = Box::new(ProgramState::new(&prepared.program));
        let exec = prepared.exec();
        let layout = Arc::new(Engine::<ProgramState>::layout(&exec).clone());
        let phv = layout.new_phv();
        let mut datapath = Datapath {
            v1: V1Fields::find(&prepared.program, &layout),
            psa: PsaFields::find(&prepared.program, &layout),
            arch: prepared.program.arch,
            stages: Stages::find(&prepared.program),
            learner: Learner::new(&prepared.program, index),
            index,
            idle: true,
            exec,
            layout,
            state,
            pre: Pre::new(config.replication),
            mirrors: HashMap::new(),
            queues: Queues::new(config.priorities),
            config,
            phv,
            spare: Vec::with_capacity(SPARE_MAX),
            again: VecDeque::with_capacity(AGAIN_MAX),
            copies: VecDeque::with_capacity(64),
            made: 0,
            drops: DropCounters::default(),
            started,
            now: started,
            now_us: 0,
            digest_bytes: Vec::new(),
            prepared,
        };
        datapath.phv.set_slot(slot::DROP_PORT, u64::from(datapath.config.drop_port));
        datapath
    }

    /// Replace the program and its state. Packets that wait in queues, or to go round again, belong to the old program
    /// and are dropped (counted as `queue_full`); frames that the ports still hold are not affected. Returns what the
    /// old program used, for another thread to free.
    pub fn install(&mut self, prepared: &Arc<Prepared>, state: Box<ProgramState>) -> Box<dyn Any + Send> {
        let old_state = std::mem::replace(&mut self.state, state);
        if Arc::ptr_eq(&self.prepared, prepared) {
            self.learner = Learner::new(&prepared.program, self.index);
            return Box::new(old_state);
        }
        let waiting = self.queues.clear() + self.again.len() + self.copies.len();
        self.again.clear();
        self.copies.clear();
        (0..waiting).for_each(|_| self.drops.count(DropReason::QueueFull));
        self.spare.clear();
        let old_exec = std::mem::replace(&mut self.exec, prepared.exec());
        self.layout = Arc::new(Engine::<ProgramState>::layout(&self.exec).clone());
        self.phv = self.layout.new_phv();
        self.arch = prepared.program.arch;
        self.v1 = V1Fields::find(&prepared.program, &self.layout);
        self.psa = PsaFields::find(&prepared.program, &self.layout);
        self.stages = Stages::find(&prepared.program);
        self.learner = Learner::new(&prepared.program, self.index);
        self.idle = prepared.is_none();
        let old = std::mem::replace(&mut self.prepared, Arc::clone(prepared));
        Box::new((old_state, old_exec, old))
    }

    /// The program that runs.
    pub fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }

    /// The engine, for those who watch it (a tracing interpreter).
    pub fn exec_mut(&mut self) -> &mut Exec {
        &mut self.exec
    }

    /// From now on headers that are not valid begin with noise instead of zeros, until another program is installed:
    /// for tests with an interpreter, to tell what a program makes of bits that it must not read.
    pub fn scramble(&mut self, seed: u64) {
        let mut noise = barewire_base::Prng::new(seed);
        Arc::make_mut(&mut self.layout).scramble(&self.prepared.program, |_| noise.next_u64());
        self.spare.clear();
    }

    /// The same with what an earlier packet left behind ([`Datapath::vector`]), as in switches that use their vectors
    /// again.
    pub fn scramble_with(&mut self, left: &Phv) {
        let word = |at| left.words().get(at).copied().unwrap_or(0);
        Arc::make_mut(&mut self.layout).scramble(&self.prepared.program, word);
        self.spare.clear();
    }

    /// The vector of the last packet.
    pub fn vector(&self) -> &Phv {
        &self.phv
    }

    /// The configuration.
    pub fn config(&self) -> &TargetConfig {
        &self.config
    }

    /// Dropped packets by reason.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Take a frame that came in at a port all the way.
    #[inline]
    pub fn receive<O: Output>(&mut self, now: Instant, port: u32, mut frame: Frame, out: &mut O) {
        self.set_now(now);
        self.made = 0;
        if self.idle {
            return self.drop(DropReason::NoProgram);
        }
        if !self.config.pass_offloads
            && let ChecksumState::Partial { .. } = frame.checksum()
        {
            // The program may move or rewrite what the sum covers, so it is finished before the program sees it.
            if !finish_checksum(&mut frame) {
                self.drop(DropReason::UnfinishedChecksum);
                return;
            }
        }
        self.layout.reset(&mut self.phv);
        let phv = &mut self.phv;
        phv.set_slot(slot::DROP_PORT, u64::from(self.config.drop_port));
        phv.set_slot(slot::PACKET_LEN, frame.len() as u64);
        phv.set_slot(slot::NOW_US, self.now_us);
        match self.arch {
            Arch::V1Model => self.v1_receive(port, frame, out),
            Arch::Psa => self.psa_receive(port, frame, out),
        }
        if !self.copies.is_empty() {
            self.run_copies(out);
        }
    }

    /// Serve what waits: packets that go round again, queues whose time has come. Says how many were served.
    pub fn poll<O: Output>(&mut self, now: Instant, out: &mut O) -> usize {
        self.set_now(now);
        let mut served = 0;
        while served < AGAIN_PER_POLL {
            let Some(job) = self.again.pop_front() else { break };
            served += 1;
            self.made = 0;
            let spare = std::mem::replace(&mut self.phv, job.phv);
            self.give_back(spare);
            let now_us = self.now_us();
            self.phv.set_slot(slot::NOW_US, now_us);
            match self.arch {
                Arch::V1Model => self.v1_ingress(job.port, job.frame, out),
                Arch::Psa => self.psa_ingress(job.frame, out),
            }
            self.run_copies(out);
        }
        // No more than wait now: what egress clones into queues again must not keep the ports waiting.
        for _ in 0..self.queues.waiting() {
            let Some(job) = self.queues.pop(now) else { break };
            served += 1;
            self.made = 0;
            self.egress_of(job, out);
            self.run_copies(out);
        }
        served
    }

    /// When something that waits is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.again.is_empty() { Some(self.now) } else { self.queues.next_deadline() }
    }

    fn run_copies<O: Output>(&mut self, out: &mut O) {
        while let Some(job) = self.copies.pop_front() {
            self.egress_of(job, out);
        }
    }

    fn egress_of<O: Output>(&mut self, job: EgressJob, out: &mut O) {
        let spare = std::mem::replace(&mut self.phv, job.phv);
        self.give_back(spare);
        let now_us = self.now_us();
        self.phv.set_slot(slot::NOW_US, now_us);
        match self.arch {
            Arch::V1Model => self.v1_egress(job.from, job.port, job.priority, job.frame, out),
            Arch::Psa => self.psa_egress(job.port, job.frame, out),
        }
    }

    fn now_us(&self) -> u64 {
        self.now_us
    }

    #[inline]
    fn set_now(&mut self, now: Instant) {
        // A burst has one time.
        if now != self.now {
            self.now = now;
            self.now_us = self.micros(now);
        }
    }

    #[cold]
    fn drop(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    /// A blank vector with the slots a target sets.
    fn blank(&mut self, packet_len: usize) -> Phv {
        let mut phv = match self.spare.pop() {
            Some(mut phv) => {
                self.layout.reset(&mut phv);
                phv
            }
            None => self.layout.new_phv(),
        };
        phv.set_slot(slot::DROP_PORT, u64::from(self.config.drop_port));
        phv.set_slot(slot::PACKET_LEN, packet_len as u64);
        phv.set_slot(slot::NOW_US, self.now_us());
        phv
    }

    /// A copy of the current vector.
    fn copy(&mut self) -> Phv {
        match self.spare.pop() {
            Some(mut phv) => {
                phv.words_mut().copy_from_slice(self.phv.words());
                phv
            }
            None => self.phv.clone(),
        }
    }

    fn give_back(&mut self, phv: Phv) {
        // A vector of a program that has been swapped out has another length.
        if self.spare.len() < SPARE_MAX && phv.words().len() == self.layout.words as usize {
            self.spare.push(phv);
        }
    }

    /// The requests a pipeline left in the slots are answered once.
    fn clear_requests(phv: &mut Phv) {
        for request in
            [slot::CLONE, slot::CLONE_FIELDS, slot::DIGEST, slot::RESUBMIT, slot::RECIRCULATE, slot::TRUNCATE]
        {
            phv.set_slot(request, 0);
        }
    }

    /// Hand a copy to egress, now or through its queue.
    fn queue_copy(&mut self, job: EgressJob) {
        self.made += 1;
        if self.made > COPIES_MAX {
            self.drop(DropReason::QueueFull);
            return;
        }
        self.copies.push_back(job);
    }

    fn clone_frame(&mut self, frame: &Frame) -> Option<Frame> {
        let copy = frame.try_clone();
        if copy.is_none() {
            self.drop(DropReason::PoolEmpty);
        }
        copy
    }

    /// Queue a packet to go through ingress again.
    fn recirculate(&mut self, port: u32, frame: Frame, phv: Phv) {
        if self.again.len() >= AGAIN_MAX {
            self.drop(DropReason::QueueFull);
            self.give_back(phv);
            return;
        }
        self.again.push_back(IngressJob { frame, phv, port });
    }

    /// Copy a field list's fields from the current vector to another.
    fn copy_fields(&self, list: &FieldList, to: &mut Phv) {
        for item in &list.items {
            if let ListItem::Field(field) = item
                && let Some(id) = field.fixed()
            {
                if is_narrow(&self.layout, id) {
                    to.set(&self.layout, id, self.phv.get(&self.layout, id));
                } else {
                    let value = self.phv.field(&self.layout, id);
                    to.set_field(&self.layout, id, &value);
                }
            }
        }
    }

    /// The field list a request names: `index + bias` in its slot.
    fn requested_list(&self, request: u64, bias: u64) -> Option<usize> {
        let index = request.checked_sub(bias)? as usize;
        (index < self.prepared.program.field_lists.len()).then_some(index)
    }

    /// Take the sample a digest request asks for.
    fn learn(&mut self, request: u64) {
        let program = Arc::clone(&self.prepared.program);
        let Some(list) = program.learn_lists.get(request as usize - 1) else { return };
        self.digest_bytes.clear();
        for (item, width) in &list.items {
            let bytes = width.div_ceil(8) as usize;
            // Most samples are known, and then nothing is to be allocated.
            let narrow = match item {
                _ if bytes > 8 => None,
                CalcInput::Field(field) => field
                    .fixed()
                    .filter(|id| is_narrow(&self.layout, *id))
                    .map(|id| self.phv.get(&self.layout, id)),
                CalcInput::Const { value, .. } => Some(value.iter_u64_digits().next().unwrap_or(0)),
                CalcInput::Expr { value, .. } => {
                    value.fixed_validity().map(|header| u64::from(self.phv.is_valid(&self.layout, header)))
                }
                _ => None,
            };
            if let Some(value) = narrow {
                self.digest_bytes.extend_from_slice(&value.to_be_bytes()[8 - bytes..]);
                continue;
            }
            let value = match item {
                CalcInput::Field(field) => field.fixed().map(|id: FieldId| self.phv.field(&self.layout, id)),
                CalcInput::Const { value, .. } => Some(value.clone()),
                _ => None,
            };
            let value = value.unwrap_or_default().to_bytes_be();
            let take = value.len().min(bytes);
            self.digest_bytes.resize(self.digest_bytes.len() + bytes - take, 0);
            self.digest_bytes.extend_from_slice(&value[value.len() - take..]);
        }
        let now_us = self.now_us();
        self.learner.sample(LearnListId::from(request as usize - 1), &self.digest_bytes, now_us);
    }

    /// Write the headers back before the payload and cut the packet where the program said; `None` when it has been
    /// dropped (and counted).
    #[inline]
    fn deparse(&mut self, deparser: usize, frame: Frame) -> Option<Frame> {
        let parsed = (self.phv.slot(slot::PARSED) as usize).min(frame.len());
        let headers =
            self.exec.prepare_deparse(deparser, &mut self.phv, &frame.data()[parsed..], &mut self.state);
        self.emit(deparser, headers, frame)
    }

    /// The second half: emit so many bytes of headers in place of those parsed.
    #[inline]
    fn emit(&mut self, deparser: usize, headers: usize, mut frame: Frame) -> Option<Frame> {
        let parsed = (self.phv.slot(slot::PARSED) as usize).min(frame.len());
        let fits = match headers.cmp(&parsed) {
            Ordering::Equal => true,
            Ordering::Less => frame.pull_front(parsed - headers),
            Ordering::Greater => frame.push_front(headers - parsed),
        };
        if !fits {
            self.drop(DropReason::NoHeadroom);
            return None;
        }
        self.exec.emit(deparser, &self.phv, &mut frame.data_mut()[..headers]);
        let truncate = self.phv.slot(slot::TRUNCATE);
        if truncate != 0 && truncate - 1 < frame.len() as u64 {
            let _shorter = frame.set_len((truncate - 1) as usize);
        }
        Some(frame)
    }

    /// Copies of a packet for each replica of a group: `prepare` readies the vector of each (the replica id is given).
    fn replicate(&mut self, group: u32, mut each: impl FnMut(&mut Datapath, u32, u32)) {
        // The group is read while the data path makes copies: it is small, and lives outside for that while.
        let pre = std::mem::take(&mut self.pre);
        let mut count = 0;
        pre.replicate(group, LAG_HASH, &mut |port, rid| {
            count += 1;
            each(self, port, rid);
        });
        self.pre = pre;
        if count == 0 {
            self.drop(DropReason::NoReplica);
        }
    }
}

/// Whether a field has at most 64 bits, and always as many.
fn is_narrow(layout: &Layout, field: FieldId) -> bool {
    matches!(layout.place(field), Place::Words { width, .. } | Place::Bits { width, .. } if width <= 64)
}

/// Compute the transport checksum a sender left to an offload; false when it does not lie in the frame.
pub(crate) fn finish_checksum(frame: &mut Frame) -> bool {
    if let ChecksumState::Partial { start, offset } = frame.checksum() {
        if !barewire_wire::checksum::complete(frame.data_mut(), usize::from(start), usize::from(offset)) {
            return false;
        }
        frame.set_checksum(ChecksumState::Verified);
    }
    true
}

impl Datapath {
    /// The time of the last duty cycle.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Microseconds from the start to a time.
    pub fn micros(&self, at: Instant) -> u64 {
        at.as_nanos().wrapping_sub(self.started.as_nanos()) / 1000
    }

    /// The time so many microseconds after the start.
    pub fn instant(&self, us: u64) -> Instant {
        Instant::from_nanos(self.started.as_nanos().saturating_add(us.saturating_mul(1000)))
    }

    /// Count a packet dropped outside the data path.
    pub fn drop_now(&mut self, reason: DropReason) {
        self.drop(reason);
    }
}
