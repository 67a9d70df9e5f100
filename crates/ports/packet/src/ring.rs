//! The mapped rings: equal slots, each with a header whose status word says whose turn it is
//! (`struct tpacket2_hdr` of `linux/if_packet.h`).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes from a slot's start to a transmitted frame: `TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`.
pub(crate) const TX_DATA_AT: usize = align16(size_of::<libc::tpacket2_hdr>());
/// Bytes from a slot's start to where a received network header may begin at the earliest: header, address, and 16 for
/// the Ethernet header (kernel `tpacket_rcv`).
pub(crate) const RX_NET_AT: usize =
    align16(align16(size_of::<libc::tpacket2_hdr>()) + size_of::<libc::sockaddr_ll>() + 16);
/// Where in a slot the `sll_pkttype` of the frame's `struct sockaddr_ll` is.
const PKTTYPE_AT: usize =
    align16(size_of::<libc::tpacket2_hdr>()) + std::mem::offset_of!(libc::sockaddr_ll, sll_pkttype);

pub(crate) const fn align16(n: usize) -> usize {
    n.next_multiple_of(libc::TPACKET_ALIGNMENT)
}

/// What a slot's header says, without the status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Bytes the frame had, and how many of them are here.
    pub len: u32,
    pub snaplen: u32,
    /// Where in the slot the frame starts.
    pub mac: u16,
    pub sec: u32,
    pub nsec: u32,
    pub vlan_tci: u16,
    pub vlan_tpid: u16,
}

/// One ring: `count` slots of `slot_len` bytes. `count` is a power of two.
pub(crate) struct Ring {
    base: NonNull<u8>,
    slot_len: usize,
    count: u32,
    next: u32,
}

impl Ring {
    /// # Safety
    /// `base` points at `count * slot_len` mapped bytes of a kernel ring of version 2, aligned to 16, that stay mapped
    /// while the ring is used; `slot_len` is a multiple of 16 and holds a header and an address; only this value uses
    /// our side of the ring.
    pub unsafe fn new(base: NonNull<u8>, slot_len: usize, count: u32) -> Ring {
        Ring { base, slot_len, count, next: 0 }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// The slot whose turn is next.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    #[inline]
    pub fn advance(&mut self) {
        self.next = self.after(self.next);
    }

    /// Goes back to slot `at`.
    pub fn rewind(&mut self, at: u32) {
        self.next = at & (self.count - 1);
    }

    #[inline]
    pub fn after(&self, at: u32) -> u32 {
        (at + 1) & (self.count - 1)
    }

    #[inline]
    pub fn before(&self, at: u32) -> u32 {
        at.wrapping_sub(1) & (self.count - 1)
    }

    #[inline]
    fn slot(&self, at: u32) -> NonNull<u8> {
        // SAFETY: masked, the slot lies inside the mapping (`new`).
        unsafe { self.base.add((at & (self.count - 1)) as usize * self.slot_len) }
    }

    #[inline]
    fn header(&self, at: u32) -> NonNull<libc::tpacket2_hdr> {
        self.slot(at).cast()
    }

    #[inline]
    fn status_word(&self, at: u32) -> &AtomicU32 {
        // SAFETY: the status is the header's first field, aligned, and shared with the kernel as an atomic word.
        unsafe { self.slot(at).cast::<AtomicU32>().as_ref() }
    }

    /// Whose turn slot `at` is, with the kernel's remarks. What the kernel wrote before is visible after.
    #[inline]
    pub fn status(&self, at: u32) -> u32 {
        self.status_word(at).load(Ordering::Acquire)
    }

    /// Hands slot `at` over. What we wrote before is visible to the kernel.
    #[inline]
    pub fn set_status(&self, at: u32, status: u32) {
        self.status_word(at).store(status, Ordering::Release);
    }

    /// Copies the header of slot `at`, which must be ours by its status.
    #[inline]
    pub fn read_header(&self, at: u32) -> Header {
        let header = self.header(at).as_ptr();
        // SAFETY: inside the slot and aligned; each field is read by itself because the status beside them is shared.
        unsafe {
            Header {
                len: (&raw const (*header).tp_len).read(),
                snaplen: (&raw const (*header).tp_snaplen).read(),
                mac: (&raw const (*header).tp_mac).read(),
                sec: (&raw const (*header).tp_sec).read(),
                nsec: (&raw const (*header).tp_nsec).read(),
                vlan_tci: (&raw const (*header).tp_vlan_tci).read(),
                vlan_tpid: (&raw const (*header).tp_vlan_tpid).read(),
            }
        }
    }

    /// Writes the length that the kernel shall send from slot `at`.
    #[inline]
    pub fn write_len(&mut self, at: u32, len: u32) {
        // SAFETY: inside the slot and aligned; the slot is ours by its status.
        unsafe { (&raw mut (*self.header(at).as_ptr()).tp_len).write(len) };
    }

    /// The kind of the received frame (`PACKET_HOST`, `PACKET_OUTGOING`, ...).
    #[inline]
    pub fn packet_type(&self, at: u32) -> u8 {
        // SAFETY: the address lies inside the slot behind the header (`new`).
        unsafe { self.slot(at).add(PKTTYPE_AT).read() }
    }

    /// Bytes of slot `at`, which must be ours by its status. `None` when the range leaves the slot.
    #[inline]
    pub fn bytes(&self, at: u32, from: usize, len: usize) -> Option<&[u8]> {
        if from.checked_add(len)? > self.slot_len || from < size_of::<AtomicU32>() {
            return None;
        }
        // SAFETY: inside the slot, behind the shared status word; the kernel does not write a slot that is ours, and
        // everything there was initialised by its mapping.
        Some(unsafe { std::slice::from_raw_parts(self.slot(at).add(from).as_ptr(), len) })
    }

    /// As [`bytes`](Self::bytes), to write.
    #[inline]
    pub fn bytes_mut(&mut self, at: u32, from: usize, len: usize) -> Option<&mut [u8]> {
        if from.checked_add(len)? > self.slot_len || from < size_of::<AtomicU32>() {
            return None;
        }
        // SAFETY: as in `bytes`; `&mut self` makes this the only reference.
        Some(unsafe { std::slice::from_raw_parts_mut(self.slot(at).add(from).as_ptr(), len) })
    }

    /// Copies header and data of slot `from` over those of slot `to`, without the status. Both must be ours.
    pub fn copy_slot(&mut self, from: u32, to: u32) {
        let word = size_of::<AtomicU32>();
        // SAFETY: two different slots of the mapping (`count` is at least 2 and the callers' slots differ), or the same
        // one, for which `copy` is defined, too.
        unsafe {
            self.slot(from)
                .add(word)
                .as_ptr()
                .copy_to(self.slot(to).add(word).as_ptr(), self.slot_len - word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offsets_are_the_kernels() {
        // `TPACKET2_HDRLEN` is 52: 32 of header and 20 of address. A frame with a 14-byte header starts at 66.
        assert_eq!(libc::TPACKET2_HDRLEN, 52);
        assert_eq!((TX_DATA_AT, RX_NET_AT, PKTTYPE_AT), (32, 80, 42));
    }

    #[test]
    fn slots_wrap_and_ranges_are_checked() {
        let mut memory = vec![0u128; 4 * 8];
        let base = NonNull::new(memory.as_mut_ptr().cast::<u8>()).unwrap();
        // SAFETY: 4 slots of 128 bytes, aligned to 16, alive until the end.
        let mut ring = unsafe { Ring::new(base, 128, 4) };
        assert_eq!((ring.after(3), ring.before(0)), (0, 3));
        for at in 0..4 {
            ring.write_len(at, 100 + at);
            ring.bytes_mut(at, 32, 96).unwrap().fill(at as u8);
            ring.set_status(at, 7 + at);
        }
        ring.copy_slot(2, 1);
        assert_eq!(
            (ring.status(1), ring.read_header(1).len, ring.bytes(1, 32, 96).unwrap()[95]),
            (8, 102, 2)
        );
        assert_eq!(
            (ring.status(2), ring.bytes(0, 127, 1).unwrap(), ring.bytes(3, 32, 1).unwrap()),
            (9, &[0][..], &[3][..])
        );
        for (from, len) in [(32, 97), (128, 1), (usize::MAX, 1), (0, 4)] {
            assert!(ring.bytes(0, from, len).is_none() && ring.bytes_mut(0, from, len).is_none());
        }
    }
}
