//! What the program in the kernel tells the controller: digests, by a ring buffer; packets, behind a tag that its socket knows.

use super::Kernel;
use barewire_p4_ebpf::maps::{DIGEST_LOST, MAX_DIGEST, RECORD_HEADER};
use std::os::fd::{AsRawFd, RawFd};

impl Kernel {
    /// Packets for this port go to the controller, with this secret in their tag ([`barewire_p4_ebpf::tag`]).
    pub fn set_controller(&mut self, port: u32, secret: [u8; 16]) {
        let mut ops = Vec::new();
        self.mirror.set_controller(Some(port), secret, &mut ops);
        if let Err(error) = self.write(&ops) {
            self.failed(&error);
        }
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
