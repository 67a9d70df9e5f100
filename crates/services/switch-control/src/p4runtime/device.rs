//! The device: the RPCs that are answered at once, without gRPC around them.
//!
//! One lock orders writes, reads and program changes. Who is primary is asked under it, so a controller that lost
//! its place cannot slip a write in behind its successor.

use super::acks::{Acks, List};
use super::arbitration::{Arbiter, role_name};
use super::entity::{DigestConfig, Entity};
use super::error::{P4Error, Result, batch_status};
use super::message::{
    Atomicity, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ResponseType, WriteRequest,
};
use super::outbox::{Budget, Encoded, Share};
use super::stream::OutgoingQueue;
use super::target::{Pipeline, Target};
use barewire_p4::ir::Program;
use barewire_switch::control::Switch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tonic::{Code, Status};

/// Entities in one message of a read.
const READ_CHUNK: usize = 512;
/// Bytes after which a message of a read ends: clients take 4 MiB by default.
const READ_BYTES: usize = 1 << 20;
/// Bytes of all that reads are answered with and that waits in memory for clients, of all of them together: a request of a few
/// bytes may ask for everything a thousand times, and who asks need not read.
const READ_MOST: usize = 1 << 30;
/// Patterns of one read: each that fails has its own error.
pub const MAX_PATTERNS: usize = 65_536;
/// The number of a ReadResponse's entities.
const ENTITIES: u32 = 1;

/// The version of P4Runtime spoken.
pub const API_VERSION: &str = "1.4.1";

/// A program that is saved and not committed, with what was written to it: a target on a shadow of the switch.
pub(super) struct Saved {
    pub(super) target: Target,
}

/// The programs.
#[derive(Default)]
pub(super) struct Forwarding {
    /// The one that runs; none before one is pushed.
    pub(super) live: Option<Target>,
    pub(super) saved: Option<Saved>,
}

/// The program that runs, for those who must not wait for writes.
pub(super) struct Current {
    /// The switch as long as it runs that.
    pub(super) switch: Switch,
    pub(super) pipeline: Arc<Pipeline>,
    /// The switch's epoch at which it began.
    pub(super) began: u64,
    /// Digests that are sent: P4Info's id and limits, by the switch's number.
    pub(super) digests: BTreeMap<u32, (u32, DigestConfig)>,
}

/// What went wrong without anybody being told.
#[derive(Debug, Default)]
pub struct Lost {
    /// Packets for controllers that nobody took: no primary, or one that reads too slowly.
    pub packets_in: AtomicU64,
    /// Packets for controllers shorter than the packet-in header.
    pub short_packets_in: AtomicU64,
    /// Packets from controllers that were refused.
    pub packets_out: AtomicU64,
    /// Digest lists and notices of idle entries that nobody took.
    pub notices: AtomicU64,
    /// What came of a program that another one followed before it was passed on.
    pub outdated: AtomicU64,
    /// Connections that were closed at once, as there were too many.
    pub connections: AtomicU64,
}

impl Lost {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// One device.
pub struct Device {
    pub(super) id: u64,
    pub(super) switch: Switch,
    pub(super) arbiter: Mutex<Arbiter>,
    pub(super) forwarding: Mutex<Forwarding>,
    current: RwLock<Option<Arc<Current>>>,
    pub(super) acks: Mutex<Acks>,
    /// Lists of digests that no controller had enabled, with the epoch at which their program began. Whoever enables the digest
    /// starts afresh: they count as acknowledged then.
    pub(super) unclaimed: Mutex<VecDeque<(u64, List)>>,
    /// What controllers send to the engines.
    pub(super) outgoing: OutgoingQueue,
    /// What waits of reads.
    reads: Arc<Budget>,
    /// When the switch started, in microseconds since 1970.
    started_unix_us: u64,
    /// What was lost.
    pub lost: Lost,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves entries as the last finished write left them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// The device of a switch. With `config`, the program that runs is known by its P4Info from the start.
    ///
    /// # Errors
    /// FAILED_PRECONDITION or INVALID_ARGUMENT when the P4Info is not that of the program that runs.
    pub fn new(switch: Switch, id: u64, config: Option<ForwardingPipelineConfig>) -> Result<Device> {
        let device = Device {
            id,
            arbiter: Mutex::new(Arbiter::new(id)),
            forwarding: Mutex::default(),
            current: RwLock::new(None),
            acks: Mutex::default(),
            unclaimed: Mutex::default(),
            outgoing: OutgoingQueue::default(),
            reads: Budget::new(READ_MOST),
            started_unix_us: switch.info().started_unix_us,
            lost: Lost::default(),
            switch,
        };
        if let Some(config) = config {
            let (program, began) = device.switch.running().ok_or_else(|| {
                P4Error::new(Code::FailedPrecondition, "a P4Info was given, but no program runs")
            })?;
            device.adopt(config, program, began)?;
        }
        Ok(device)
    }

    /// Take a program that runs already as the one that was pushed.
    fn adopt(&self, config: ForwardingPipelineConfig, program: Arc<Program>, began: u64) -> Result<()> {
        let pipeline = Arc::new(super::config::pipeline(config, program)?);
        // What was put in place since it began is noticed with the first request.
        let target = Target::new(self.switch.clone(), pipeline, began);
        target.normalise_initial_entries()?;
        let mut forwarding = lock(&self.forwarding);
        forwarding.live = Some(target);
        self.publish(&forwarding);
        Ok(())
    }

    /// Tell the stream side what runs.
    pub(super) fn publish(&self, forwarding: &Forwarding) {
        let current = forwarding.live.as_ref().map(|target| {
            let known = |(id, config): (&u32, &DigestConfig)| {
                Some((target.index().digests.get(*id)?.number, (*id, *config)))
            };
            Arc::new(Current {
                switch: target.switch.clone(),
                pipeline: Arc::clone(&target.pipeline),
                began: target.began(),
                digests: target.notes.digests.iter().filter_map(known).collect(),
            })
        });
        self.current.write().unwrap_or_else(PoisonError::into_inner).clone_from(&current);
        let Some(current) = current else { return };
        // After the digests are known: whoever adds to the unclaimed looks at them under the same lock.
        let mut claimed = Vec::new();
        lock(&self.unclaimed).retain(|(_, list)| {
            let is_claimed = current.digests.contains_key(&list.0);
            if is_claimed {
                claimed.push(*list);
            }
            !is_claimed
        });
        let mut acks = lock(&self.acks);
        claimed.into_iter().for_each(|list| acks.acknowledge(list));
    }

    /// The program that runs.
    pub(super) fn current(&self) -> Option<Arc<Current>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nanoseconds since 1970, by the switch's clock.
    pub(super) fn now_ns(&self) -> i64 {
        let us = self.started_unix_us.saturating_add(self.switch.time_us());
        i64::try_from(us).unwrap_or(i64::MAX).saturating_mul(1000)
    }

    pub(super) fn check_device(&self, id: u64) -> Result<()> {
        if id == self.id {
            return Ok(());
        }
        Err(P4Error::new(Code::NotFound, format!("device {id} is not here, this is device {}", self.id)))
    }

    /// Notice that another control plane swapped the program, or reset or restored what it holds. The same P4Info may
    /// still fit, and what is the switch's and not a program's may still be there.
    pub(super) fn refresh(&self, forwarding: &mut Forwarding) {
        let Some(live) = &forwarding.live else { return };
        // Asked first: whatever changes after it is noticed the next time.
        let epoch = self.switch.epoch();
        if live.epoch() == epoch {
            return;
        }
        let Some(mut old) = forwarding.live.take() else { return };
        let running = self.switch.running();
        let began = running.as_ref().map_or(u64::MAX, |(_, began)| *began);
        if began != old.began() {
            self.forget_lists(began);
        }
        forwarding.live = running.and_then(|(program, began)| {
            let pipeline = match Arc::ptr_eq(&program, &old.index().program) {
                true => Arc::clone(&old.pipeline),
                false => Arc::new(super::config::pipeline(old.pipeline.config.clone(), program).ok()?),
            };
            let mut target = Target::new(self.switch.clone(), pipeline, began);
            target.is_known_at(epoch);
            // Entries that cannot be given other priorities keep the program's; all else is known.
            let _ = target.normalise_initial_entries();
            target.take_over(std::mem::take(&mut old.notes));
            Some(target)
        });
        self.publish(forwarding);
    }

    /// Lists of digests begin anew with what learns them, a program that began at this epoch: an acknowledgement of an old one must
    /// not be taken for one of a new one with the same number.
    pub(super) fn forget_lists(&self, began: u64) {
        *lock(&self.acks) = Acks::default();
        lock(&self.unclaimed).retain(|(epoch, _)| *epoch >= began);
    }

    /// The program was swapped, or may have been.
    pub(super) fn program_swapped(&self) {
        self.refresh(&mut lock(&self.forwarding));
    }

    /// `Write`.
    ///
    /// # Errors
    /// The status of the RPC, with one detail for each update when some failed.
    pub fn write(&self, request: WriteRequest) -> std::result::Result<(), Status> {
        self.check_device(request.device_id)?;
        let atomicity = Atomicity::try_from(request.atomicity)
            .map_err(|_| Status::invalid_argument(format!("atomicity {} is not known", request.atomicity)))?;
        let mut forwarding = lock(&self.forwarding);
        lock(&self.arbiter).check_writer(&role_name(request.role_id, &request.role), request.election_id)?;
        self.refresh(&mut forwarding);
        let results = match &mut *forwarding {
            Forwarding { saved: Some(saved), .. } => saved.target.write(&request.updates, atomicity),
            Forwarding { live: Some(live), .. } => {
                let results = live.write(&request.updates, atomicity);
                self.publish(&forwarding);
                results
            }
            _ => return Err(no_program()),
        };
        match results.iter().all(Result::is_ok) {
            true => Ok(()),
            false => Err(batch_status("write", &results)),
        }
    }

    /// `Read`: the messages of the answer, and the status after them.
    ///
    /// # Errors
    /// The status when nothing could be read at all.
    pub fn read(
        &self,
        request: &ReadRequest,
    ) -> std::result::Result<(Vec<Encoded>, std::result::Result<(), Status>), Status> {
        self.read_within(request, &self.reads)
    }

    /// [`Device::read`], answered with as many bytes as a budget has left.
    #[allow(clippy::type_complexity, reason = "as its caller")]
    pub(super) fn read_within(
        &self,
        request: &ReadRequest,
        budget: &Arc<Budget>,
    ) -> std::result::Result<(Vec<Encoded>, std::result::Result<(), Status>), Status> {
        self.check_device(request.device_id)?;
        if request.entities.len() > MAX_PATTERNS {
            let given = request.entities.len();
            let why = format!("{given} patterns were given: the limit of one read is {MAX_PATTERNS}");
            return Err(Status::invalid_argument(why));
        }
        let mut forwarding = lock(&self.forwarding);
        self.refresh(&mut forwarding);
        let target = match &*forwarding {
            Forwarding { saved: Some(saved), .. } => &saved.target,
            Forwarding { live: Some(live), .. } => live,
            _ => return Err(no_program()),
        };
        let mut answer = Answer { budget, messages: Vec::new(), chunk: Chunk::new(budget), is_full: false };
        let results: Vec<Result<()>> = request
            .entities
            .iter()
            .map(|wanted| {
                if !answer.is_full {
                    target.read(wanted, &mut |entity| answer.push(&entity))?;
                }
                if answer.is_full { Err(too_much(budget.most())) } else { Ok(()) }
            })
            .collect();
        let messages = answer.finish();
        let status = match results.iter().all(Result::is_ok) {
            true => Ok(()),
            false => Err(batch_status("read", &results)),
        };
        Ok((messages, status))
    }

    /// `GetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// NOT_FOUND for another device, INVALID_ARGUMENT for an unknown response type.
    pub fn get_config(
        &self,
        request: &GetForwardingPipelineConfigRequest,
    ) -> Result<GetForwardingPipelineConfigResponse> {
        self.check_device(request.device_id)?;
        let wanted = ResponseType::try_from(request.response_type).map_err(|_| {
            P4Error::new(
                Code::InvalidArgument,
                format!("response type {} is not known", request.response_type),
            )
        })?;
        let mut forwarding = lock(&self.forwarding);
        self.refresh(&mut forwarding);
        let saved = forwarding.saved.as_ref().map(|saved| &saved.target);
        let Some(target) = saved.or(forwarding.live.as_ref()) else {
            return Ok(GetForwardingPipelineConfigResponse { config: None });
        };
        let pushed = &target.pipeline.config;
        let mut config =
            ForwardingPipelineConfig { cookie: pushed.cookie, ..ForwardingPipelineConfig::default() };
        if matches!(wanted, ResponseType::All | ResponseType::P4infoAndCookie) {
            config.p4info.clone_from(&pushed.p4info);
        }
        if matches!(wanted, ResponseType::All | ResponseType::DeviceConfigAndCookie) {
            config.p4_device_config.clone_from(&pushed.p4_device_config);
        }
        Ok(GetForwardingPipelineConfigResponse { config: Some(config) })
    }

    /// Wait until writes that are under way have ended.
    pub(super) fn wait_for_writes(&self) {
        drop(lock(&self.forwarding));
    }
}

/// A message of a read that is being made.
struct Chunk {
    bytes: Vec<u8>,
    entities: usize,
    share: Share,
}

impl Chunk {
    fn new(budget: &Arc<Budget>) -> Chunk {
        Chunk { bytes: Vec::new(), entities: 0, share: Share::new(budget) }
    }

    fn is_full(&self) -> bool {
        self.entities == READ_CHUNK || self.bytes.len() > READ_BYTES
    }

    fn finish(mut self) -> Encoded {
        self.bytes.shrink_to_fit();
        Encoded::new(self.bytes, Some(self.share))
    }
}

/// The answer to a read: messages as they travel, since entities take many times their room.
struct Answer<'a> {
    budget: &'a Arc<Budget>,
    messages: Vec<Encoded>,
    chunk: Chunk,
    /// The budget has nothing left.
    is_full: bool,
}

impl Answer<'_> {
    fn push(&mut self, entity: &Entity) {
        let len = prost::encoding::message::encoded_len(ENTITIES, entity);
        if self.is_full || !self.chunk.share.grow(len) {
            self.is_full = true;
            return;
        }
        prost::encoding::message::encode(ENTITIES, entity, &mut self.chunk.bytes);
        self.chunk.entities += 1;
        if self.chunk.is_full() {
            let chunk = std::mem::replace(&mut self.chunk, Chunk::new(self.budget));
            self.messages.push(chunk.finish());
        }
    }

    /// The messages; there is one at least.
    fn finish(mut self) -> Vec<Encoded> {
        if self.chunk.entities > 0 || self.messages.is_empty() {
            self.messages.push(self.chunk.finish());
        }
        self.messages
    }
}

fn too_much(most: usize) -> P4Error {
    let message = format!(
        "all that waits for those who read would be longer than {most} bytes: ask for less in one read, or read faster"
    );
    P4Error::new(Code::ResourceExhausted, message)
}

fn no_program() -> Status {
    Status::failed_precondition("no forwarding pipeline config has been set")
}
