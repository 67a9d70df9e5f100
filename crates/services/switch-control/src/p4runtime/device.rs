//! The device: the RPCs that are answered at once, without gRPC around them.
//!
//! One lock orders writes, reads and program changes. Who is primary is asked under it, so a controller that lost
//! its place cannot slip a write in behind its successor.

use super::arbitration::{Arbiter, role_name};
use super::entity::DigestConfig;
use super::error::{P4Error, Result, batch_status};
use super::message::{
    Atomicity, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse, ResponseType, WriteRequest,
};
use super::stream::Acks;
use super::target::{Pipeline, Target};
use barewire_p4::ir::Program;
use barewire_switch::control::Switch;
use prost::Message;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tonic::{Code, Status};

/// Entities in one message of a read.
const READ_CHUNK: usize = 512;
/// Bytes after which a message of a read ends: clients take 4 MiB by default.
const READ_BYTES: usize = 1 << 20;
/// Bytes of all that one read is answered with: it waits in memory for the client, and a request of a few bytes may ask
/// for everything a thousand times.
const READ_MOST: usize = 1 << 30;

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
    /// The program that runs, for those who must not wait for writes.
    pub(super) current: RwLock<Option<Arc<Pipeline>>>,
    /// Digests that are sent: P4Info's id and limits, by the switch's number.
    pub(super) digests: RwLock<BTreeMap<u32, (u32, DigestConfig)>>,
    pub(super) acks: Mutex<Acks>,
    /// Lists of digests that no controller had enabled: the switch's number, the list. Whoever enables the digest starts
    /// afresh: they count as acknowledged then.
    pub(super) unclaimed: Mutex<VecDeque<(u32, u64)>>,
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
            digests: RwLock::default(),
            acks: Mutex::default(),
            unclaimed: Mutex::default(),
            lost: Lost::default(),
            switch,
        };
        if let Some(config) = config {
            let program = device.switch.program().ok_or_else(|| {
                P4Error::new(Code::FailedPrecondition, "a P4Info was given, but no program runs")
            })?;
            device.adopt(config, program)?;
        }
        Ok(device)
    }

    /// Take a program that runs already as the one that was pushed.
    fn adopt(&self, config: ForwardingPipelineConfig, program: Arc<Program>) -> Result<()> {
        let pipeline = Arc::new(super::config::pipeline(config, program)?);
        let target = Target::new(self.switch.clone(), pipeline, self.switch.epoch());
        target.normalise_initial_entries()?;
        let mut forwarding = lock(&self.forwarding);
        forwarding.live = Some(target);
        self.publish(&forwarding);
        Ok(())
    }

    /// Tell the stream side what runs.
    pub(super) fn publish(&self, forwarding: &Forwarding) {
        let live = forwarding.live.as_ref();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            live.map(|target| Arc::clone(&target.pipeline));
        let digests = live.map_or_else(BTreeMap::new, |target| {
            let known = |(id, config): (&u32, &DigestConfig)| {
                Some((target.index().digests.get(*id)?.number, (*id, *config)))
            };
            target.notes.digests.iter().filter_map(known).collect()
        });
        *self.digests.write().unwrap_or_else(PoisonError::into_inner) = digests;
        // After the digests are known: whoever adds to the unclaimed looks at them under the same lock.
        let mut unclaimed = lock(&self.unclaimed);
        let digests = self.digests.read().unwrap_or_else(PoisonError::into_inner);
        unclaimed.retain(|&(number, list)| {
            let claimed = digests.contains_key(&number);
            if claimed {
                // The program may have changed since: nothing is left to acknowledge then.
                let _ = self.switch.ack_digest(number, list, None);
            }
            !claimed
        });
    }

    /// The program that runs.
    pub(super) fn pipeline(&self) -> Option<Arc<Pipeline>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nanoseconds since 1970, by the switch's clock.
    pub(super) fn now_ns(&self) -> i64 {
        let us = self.switch.info().started_unix_us.saturating_add(self.switch.time_us());
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
        self.forget_lists();
        forwarding.live = self.switch.program().and_then(|program| {
            let pipeline = match Arc::ptr_eq(&program, &old.index().program) {
                true => Arc::clone(&old.pipeline),
                false => Arc::new(super::config::pipeline(old.pipeline.config.clone(), program).ok()?),
            };
            let mut target = Target::new(self.switch.clone(), pipeline, epoch);
            // Entries that cannot be given other priorities keep the program's; all else is known.
            let _ = target.normalise_initial_entries();
            target.take_over(std::mem::take(&mut old.notes));
            Some(target)
        });
        self.publish(forwarding);
    }

    /// Lists of digests begin anew with what learns them: an acknowledgement of an old one must not be taken for one of a new
    /// one with the same number.
    pub(super) fn forget_lists(&self) {
        *lock(&self.acks) = Acks::default();
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
    ) -> std::result::Result<(Vec<ReadResponse>, std::result::Result<(), Status>), Status> {
        self.read_at_most(request, READ_MOST)
    }

    /// [`Device::read`], answered with so many bytes and one entity at most.
    #[allow(clippy::type_complexity, reason = "as its caller")]
    pub(super) fn read_at_most(
        &self,
        request: &ReadRequest,
        most: usize,
    ) -> std::result::Result<(Vec<ReadResponse>, std::result::Result<(), Status>), Status> {
        self.check_device(request.device_id)?;
        let mut forwarding = lock(&self.forwarding);
        self.refresh(&mut forwarding);
        let target = match &*forwarding {
            Forwarding { saved: Some(saved), .. } => &saved.target,
            Forwarding { live: Some(live), .. } => live,
            _ => return Err(no_program()),
        };
        let mut messages = Vec::new();
        let (mut chunk, mut bytes, mut total) = (Vec::new(), 0, 0);
        let results: Vec<Result<()>> = request
            .entities
            .iter()
            .map(|wanted| {
                if total > most {
                    return Err(too_much(most));
                }
                target.read(wanted, &mut |entity| {
                    if total > most {
                        return;
                    }
                    let len = entity.encoded_len();
                    (bytes, total) = (bytes + len, total + len);
                    chunk.push(entity);
                    if chunk.len() == READ_CHUNK || bytes > READ_BYTES {
                        bytes = 0;
                        messages.push(ReadResponse { entities: std::mem::take(&mut chunk) });
                    }
                })?;
                if total > most { Err(too_much(most)) } else { Ok(()) }
            })
            .collect();
        if !chunk.is_empty() || messages.is_empty() {
            messages.push(ReadResponse { entities: chunk });
        }
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

fn too_much(most: usize) -> P4Error {
    let message = format!("the answer is longer than {most} bytes: ask for less in one read");
    P4Error::new(Code::ResourceExhausted, message)
}

fn no_program() -> Status {
    Status::failed_precondition("no forwarding pipeline config has been set")
}
