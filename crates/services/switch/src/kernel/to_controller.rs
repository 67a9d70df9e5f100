//! What the program in the kernel tells the controller: digests, by a ring buffer; packets, behind a tag that its socket knows. And packets
//! that user space takes in a later round, behind the same tag.

use super::Kernel;
use crate::control::MirrorSession;
use barewire_p4_ebpf::Context;
use barewire_p4_ebpf::maps::recirculate::EPOCH_SHIFT;
use barewire_p4_ebpf::maps::{DIGEST_LOST, MAX_DIGEST, NO_PLAIN_SESSION, RECORD_HEADER};
use std::os::fd::{AsRawFd, RawFd};

impl Kernel {
    /// Packets for this port go to the controller; what comes up behind a tag has this secret in it ([`barewire_p4_ebpf::tag`]).
    pub fn set_controller(&mut self, port: Option<u32>, secret: [u8; 16]) {
        let mut ops = Vec::new();
        self.mirror.set_controller(port, secret, &mut ops);
        if let Err(error) = self.write(&ops) {
            self.failed(&error);
        }
    }

    /// Say which of the switch's programs this is.
    pub fn set_epoch(&mut self, epoch: u32) {
        // Eight bits of a context's word are its kind.
        self.epoch = epoch & (u32::MAX >> EPOCH_SHIFT);
        let mut ops = Vec::new();
        self.mirror.set_epoch(self.epoch, &mut ops);
        if let Err(error) = self.write(&ops) {
            self.failed(&error);
        }
    }

    /// Say where a mirror session's clones go. One that is not to one port, or that cuts or has a queue, user space serves: the clones, or,
    /// where they are of what leaves egress, every packet while there is one.
    pub fn set_session(&mut self, session: u32, to: Option<&MirrorSession>) {
        let plain = |to: &&MirrorSession| {
            (to.multicast_group, to.truncate_bytes, to.class_of_service) == (None, 0, 0)
        };
        // Ports have nine bits in `egress_spec`.
        let port = to.filter(plain).and_then(|to| to.egress_port).filter(|port| *port < 1 << 9);
        let is_more = to.is_some() && port.is_none();
        match is_more {
            true => self.slow_sessions.insert(session),
            false => self.slow_sessions.remove(&session),
        };
        if is_more {
            self.look_at_sessions();
        }
        let mut ops = Vec::new();
        let place = to.map(|_| port.unwrap_or(NO_PLAIN_SESSION));
        self.mirror.set_session(session, place, &mut ops);
        if let Err(error) = self.write(&ops) {
            self.failed(&error);
        }
        self.look_at_sessions();
    }

    /// Whether all packets are user space's for a session, where the program stands.
    pub(super) fn look_at_sessions(&mut self) {
        let of_egress = self.compiled.shape.again.is_some_and(|again| again.headers.is_some());
        let are = of_egress && self.is_at_tc() && !self.slow_sessions.is_empty();
        let mut ops = Vec::new();
        self.mirror.set_slow_sessions(are, &mut ops);
        if let Err(error) = self.write(&ops) {
            self.failed(&error);
        }
    }

    /// Bytes of what stands between the tag and a packet that user space takes in a later round; 0 when none comes.
    pub fn context_len(&self) -> usize {
        self.compiled.shape.again.map_or(0, |again| again.context() as usize)
    }

    /// What such a packet had when its round began, if it is this program's.
    pub fn context(&self, bytes: &[u8]) -> Option<Context> {
        let context = Context::read(bytes).filter(|_| bytes.len() == self.context_len());
        context.filter(|context| context.epoch == self.epoch)
    }

    /// Takes the digests there are: the position of each one's list, and its sample. Says how many.
    pub fn read_digests(&mut self, each: &mut dyn FnMut(u32, &[u8])) -> usize {
        let Some(ring) = self.ring.as_mut().filter(|ring| !ring.is_empty()) else { return 0 };
        let mut room = [0; MAX_DIGEST as usize];
        ring.read(&mut room, &mut |record| {
            if let Some((list, sample)) = record.split_at_checked(RECORD_HEADER as usize)
                && let Some(list) = list.first_chunk()
            {
                each(u64::from_ne_bytes(*list) as u32, sample);
            }
        })
    }

    /// A descriptor that is readable when there are digests.
    pub fn digests_fd(&self) -> Option<RawFd> {
        self.ring.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Whether there are digests.
    pub fn has_digests(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| !ring.is_empty())
    }

    /// Digests that the ring buffer had no room for.
    pub fn digests_lost(&self) -> u64 {
        if self.ring.is_some() { self.statistic(DIGEST_LOST) } else { 0 }
    }
}
