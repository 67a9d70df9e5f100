//! Bursts without rings: recvmmsg(2) writes straight into frames of the pool, sendmmsg(2) reads straight out of them.
//!
//! One copy instead of two, and no slot that has to hold the largest frame, at the price of a system call for a look at
//! an empty queue: what frames of 64 KiB want.

use crate::sys;
use crate::vnet::VNET_LEN;
use barewire_frame::{BURST_MAX, Frame, Pool};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

/// Room for what the kernel says beside a frame: `CMSG_SPACE` of `struct tpacket_auxdata` (40) and of a `timespec` (32).
const CONTROL_LEN: usize = 72;
/// Bytes of `struct cmsghdr`; the next one starts at a multiple of its alignment.
const CMSG_LEN: usize = size_of::<libc::cmsghdr>();

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

/// What a call is handed: one message for each frame, and the pieces and places that it points to.
struct Slots {
    messages: [libc::mmsghdr; BURST_MAX],
    pieces: [[libc::iovec; 2]; BURST_MAX],
    vnet: [[u8; VNET_LEN]; BURST_MAX],
    control: [Control; BURST_MAX],
}

/// Owns [`Slots`] whose messages point into it, behind a raw pointer: a `Box` would claim to be the only way to them.
struct Table(NonNull<Slots>);

impl Table {
    fn new() -> Table {
        // SAFETY: integers and pointers, for which zero is valid.
        let slots: Box<Slots> = Box::new(unsafe { std::mem::zeroed() });
        Table(NonNull::from(Box::leak(slots)))
    }

    /// Points message `at` to `len` bytes from `data`, and to the virtio header before them where there is one. Fields are
    /// written one by one: the messages' own pointers lead to others of them.
    #[inline]
    fn point(&mut self, at: usize, data: *mut u8, len: usize, vnet: bool, control: bool) {
        assert!(at < BURST_MAX);
        let slots = self.0.as_ptr();
        // SAFETY: the slots live until this value is dropped, `at` is inside each array, and nobody else has them.
        unsafe {
            let vnet_at = (&raw mut (*slots).vnet[at]).cast();
            let pieces = (&raw mut (*slots).pieces[at]).cast::<libc::iovec>();
            pieces.write(libc::iovec { iov_base: vnet_at, iov_len: VNET_LEN });
            pieces.add(1).write(libc::iovec { iov_base: data.cast(), iov_len: len });
            let header = &raw mut (*slots).messages[at].msg_hdr;
            (*header).msg_iov = if vnet { pieces } else { pieces.add(1) };
            (*header).msg_iovlen = if vnet { 2 } else { 1 };
            (*header).msg_control = match control {
                true => (&raw mut (*slots).control[at]).cast(),
                false => std::ptr::null_mut(),
            };
            (*header).msg_controllen = if control { CONTROL_LEN as _ } else { 0 };
            (*header).msg_flags = 0;
        }
    }

    #[inline]
    fn message(&self, at: usize) -> *mut libc::mmsghdr {
        assert!(at < BURST_MAX);
        // SAFETY: as in `point`.
        unsafe { &raw mut (*self.0.as_ptr()).messages[at] }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: leaked in `new`, freed once; no call that was handed it is under way.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// What came with a received frame.
pub(crate) struct Arrival {
    /// Whether there was more than the frame holds.
    pub truncated: bool,
    pub vnet: [u8; VNET_LEN],
    pub beside: Auxdata,
}

/// What the kernel says beside a frame: `struct tpacket_auxdata`, and the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Auxdata {
    pub status: u32,
    pub vlan_tci: u16,
    pub vlan_tpid: u16,
    /// Nanoseconds of `CLOCK_REALTIME`.
    pub stamp_ns: Option<u64>,
}

impl Auxdata {
    /// Reads control messages (cmsg(3)); what is not known or cut short says nothing.
    #[inline]
    fn read(mut control: &[u8]) -> Auxdata {
        let mut out = Auxdata::default();
        while control.len() >= CMSG_LEN {
            let word = |at: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|i| control[at + i]));
            let mut len = [0; size_of::<usize>()];
            len.copy_from_slice(&control[..size_of::<usize>()]);
            let len = usize::from_ne_bytes(len);
            let (level, kind) = (word(CMSG_LEN - 8), word(CMSG_LEN - 4));
            let Some(data) = control.get(CMSG_LEN..len) else { break };
            let half = |at: usize| u16::from_ne_bytes([data[at], data[at + 1]]);
            match (level, kind) {
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) if data.len() >= 20 => {
                    out.status = u32::from_ne_bytes([data[0], data[1], data[2], data[3]]);
                    (out.vlan_tci, out.vlan_tpid) = (half(16), half(18));
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if data.len() >= 16 => {
                    let long = |at: usize| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| data[at + i]));
                    out.stamp_ns = Some(long(0).wrapping_mul(1_000_000_000).wrapping_add(long(8)));
                }
                _ => {}
            }
            control = control.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        }
        out
    }
}

/// Frames that wait to be filled.
pub(crate) struct Inbox {
    table: Table,
    frames: [Option<Frame>; BURST_MAX],
    /// Most bytes of a frame.
    most: usize,
    vnet: bool,
}

impl Inbox {
    pub fn new(most: usize, vnet: bool) -> Inbox {
        Inbox { table: Table::new(), frames: [const { None }; BURST_MAX], most, vnet }
    }

    /// Whether no frame waits to be filled and the pool has none.
    #[inline]
    pub fn is_starved(&self, pool: &Pool) -> bool {
        self.frames[0].is_none() && pool.available() == 0
    }

    /// Receives up to `room` frames: how many [`take`](Self::take) then gives, or the error number.
    #[inline]
    pub fn receive(&mut self, socket: &OwnedFd, pool: &Pool, room: usize) -> Result<usize, i32> {
        let mut ready = 0;
        while ready < room.min(BURST_MAX) {
            if self.frames[ready].is_none() {
                let Some(mut frame) = pool.alloc() else { break };
                let most = self.most.min(frame.tailroom());
                // Never false: there is that much room.
                let _ = frame.set_len(most);
                self.table.point(ready, frame.data_mut().as_mut_ptr(), most, self.vnet, true);
                self.frames[ready] = Some(frame);
            }
            ready += 1;
        }
        if ready == 0 {
            return Ok(0);
        }
        // SAFETY: the first `ready` messages were pointed at frames that are in `frames`, so that nobody else touches their
        // chunks, and at parts of the table; the call returns before either changes.
        unsafe { sys::receive_messages(socket, self.table.message(0), ready) }
    }

    /// The frame of message `at` of the last call, cut to its length. `None` when it was taken before.
    #[inline]
    pub fn take(&mut self, at: usize) -> Option<(Frame, Arrival)> {
        let mut frame = self.frames.get_mut(at)?.take()?;
        let message = self.table.message(at);
        // SAFETY: the slots live as long as the table; no call is under way; the kernel left no length larger than what
        // it was given, and the slice is bounded all the same.
        let (received, flags, vnet, beside) = unsafe {
            let control = &(*self.table.0.as_ptr()).control[at].0;
            // musl has it as 32 bits.
            #[allow(clippy::unnecessary_cast, reason = "it is `usize` with glibc")]
            let len = ((*message).msg_hdr.msg_controllen as usize).min(CONTROL_LEN);
            (
                (*message).msg_len as usize,
                (*message).msg_hdr.msg_flags,
                (*self.table.0.as_ptr()).vnet[at],
                Auxdata::read(&control[..len]),
            )
        };
        let len = received.saturating_sub(if self.vnet { VNET_LEN } else { 0 });
        let truncated = flags & libc::MSG_TRUNC != 0 || !frame.set_len(len);
        Some((frame, Arrival { truncated, vnet, beside }))
    }
}

/// Messages to be sent.
pub(crate) struct Outbox {
    table: Table,
}

impl Outbox {
    pub fn new() -> Outbox {
        Outbox { table: Table::new() }
    }

    /// Points message `at` to `frame`, with the virtio header before it where there is one. Both [`send`](Self::send) and this
    /// are called while the frames stay where they are.
    #[inline]
    pub fn stage(&mut self, at: usize, frame: &mut Frame, vnet: Option<[u8; VNET_LEN]>) {
        let data = frame.data_mut();
        self.table.point(at, data.as_mut_ptr(), data.len(), vnet.is_some(), false);
        if let Some(header) = vnet {
            // SAFETY: the slots live as long as the table, `point` has checked `at`, and no call is under way.
            unsafe { (*self.table.0.as_ptr()).vnet[at] = header };
        }
    }

    /// Sends messages `from..to`: how many the kernel took, at least one, or the error number.
    ///
    /// # Safety
    /// The frames of these messages were staged and still exist.
    #[inline]
    pub unsafe fn send(&mut self, socket: &OwnedFd, from: usize, to: usize) -> Result<usize, i32> {
        // SAFETY: the caller's, for what the messages point to; they themselves are in the table.
        unsafe { sys::send_messages(socket, self.table.message(from), to.min(BURST_MAX) - from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut out = (CMSG_LEN + data.len()).to_ne_bytes().to_vec();
        out.extend_from_slice(&level.to_ne_bytes());
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(data);
        out.resize(out.len().next_multiple_of(8), 0xa5);
        out
    }

    #[test]
    fn control_messages_are_found_in_any_order() {
        let mut aux = [0xa5; 20];
        aux[..4].copy_from_slice(&0x51u32.to_ne_bytes());
        aux[16..18].copy_from_slice(&5u16.to_ne_bytes());
        aux[18..20].copy_from_slice(&0x88a8u16.to_ne_bytes());
        let mut time = [0; 16];
        time[..8].copy_from_slice(&3i64.to_ne_bytes());
        time[8..].copy_from_slice(&7i64.to_ne_bytes());
        let aux = message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &aux);
        let time = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &time);
        let other = message(libc::SOL_SOCKET, 9999, &[1; 5]);
        assert_eq!(aux.len() + time.len(), CONTROL_LEN);
        let expected =
            Auxdata { status: 0x51, vlan_tci: 5, vlan_tpid: 0x88a8, stamp_ns: Some(3_000_000_007) };
        assert_eq!(Auxdata::read(&[aux.clone(), time.clone()].concat()), expected);
        assert_eq!(Auxdata::read(&[other, time.clone(), aux].concat()), expected);
        assert_eq!(Auxdata::read(&time[..time.len() - 1]), Auxdata::default(), "cut short");
        assert_eq!(Auxdata::read(&[]), Auxdata::default());
    }

    #[test]
    fn no_control_bytes_panic() {
        eprintln!("seed 42");
        let mut random = Prng::new(42);
        for _ in 0..20_000 {
            let mut bytes = [0u8; CONTROL_LEN];
            random.fill(&mut bytes);
            // Small lengths, or the walk would end at once.
            bytes[..8].copy_from_slice(&random.below(80).to_ne_bytes());
            bytes[8..16].copy_from_slice(&[7, 1, 0, 0, 8, 0, 0, 0]);
            let len = random.below(CONTROL_LEN as u64 + 1) as usize;
            let _ = Auxdata::read(&bytes[..len]);
        }
    }
}
