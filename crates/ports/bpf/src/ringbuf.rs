//! What programs tell a process: records of a ring buffer (`BPF_MAP_TYPE_RINGBUF`, kernel 5.8).
//!
//! The kernel maps it in three parts: a page with how far the reader is, which it may write; a page with how far programs are; and the
//! records, twice in a row, so that none is broken at the end. Each begins with its length and two bits: still being written, and
//! thrown away. Source: kernel `Documentation/bpf/ringbuf.rst`, `kernel/bpf/ringbuf.c`.

use crate::Map;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bits of a record's first word.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Bytes before a record.
const HEADER: u64 = 8;

/// A mapping that ends with its owner.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(fd: RawFd, offset: usize, len: usize, writable: bool) -> io::Result<Mapping> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address that the kernel chooses; nothing else is touched.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, offset as libc::off_t)
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { at, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, whole, which nobody refers to any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

// SAFETY: the memory belongs to the mapping, and is looked at through atomics alone.
unsafe impl Send for Mapping {}

/// The reading end of a ring buffer.
#[derive(Debug)]
pub struct RingReader {
    map: Arc<Map>,
    reader: Mapping,
    /// How far programs are, then the records.
    programs: Mapping,
    page: usize,
    size: u64,
}

impl RingReader {
    /// Of a map of the kind, which has so many bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(map: Arc<Map>, size: u32) -> io::Result<RingReader> {
        // SAFETY: no addresses.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
        let fd = map.as_raw_fd();
        let reader = Mapping::new(fd, 0, page, true)?;
        let programs = Mapping::new(fd, page, page + 2 * size as usize, false)?;
        Ok(RingReader { map, reader, programs, page, size: u64::from(size) })
    }

    /// How far the reader is, and how far programs are.
    fn positions(&self) -> (&AtomicU64, &AtomicU64) {
        // SAFETY: both pages are mapped while `self` is, begin with a word of 64 bits that is aligned as the page is, and are changed
        // by the kernel with atomic operations alone.
        unsafe { (self.reader.at.cast().as_ref(), self.programs.at.cast().as_ref()) }
    }

    /// Whether nothing is there to read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let (reader, programs) = self.positions();
        reader.load(Ordering::Relaxed) == programs.load(Ordering::Acquire)
    }

    /// A word of 32 bits of the records, at a position that is a multiple of four.
    fn word(&self, position: u64) -> &AtomicU32 {
        let at = self.page + (position % self.size) as usize;
        debug_assert!(position.is_multiple_of(4) && at + 4 <= self.programs.len);
        // SAFETY: `at` is less than a page and one size of the ring, and aligned; the mapping has two sizes behind its page.
        unsafe { self.programs.at.add(at).cast().as_ref() }
    }

    /// Takes what is there, each record's bytes copied to `room` first (longer ones are cut to it); says how many there were.
    pub fn read(&mut self, room: &mut [u8], each: &mut dyn FnMut(&[u8])) -> usize {
        let (reader, programs) = self.positions();
        let (mut at, end) = (reader.load(Ordering::Relaxed), programs.load(Ordering::Acquire));
        let mut count = 0;
        while at != end {
            let first = self.word(at).load(Ordering::Acquire);
            if first & BUSY != 0 {
                break;
            }
            let len = u64::from(first & !(BUSY | DISCARDED));
            if first & DISCARDED == 0 {
                let taken = room.len().min(len as usize);
                for (word, to) in (0..).zip(room[..taken].chunks_mut(4)) {
                    let bytes = self.word(at + HEADER + 4 * word).load(Ordering::Relaxed).to_ne_bytes();
                    to.copy_from_slice(&bytes[..to.len()]);
                }
                each(&room[..taken]);
                count += 1;
            }
            at += (len + HEADER).next_multiple_of(8);
            self.positions().0.store(at, Ordering::Release);
        }
        count
    }
}

impl AsRawFd for RingReader {
    /// Readable when records are there that were not before.
    fn as_raw_fd(&self) -> RawFd {
        self.map.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Program};
    use barewire_ebpf::{Asm, Bits, Cond, MapKind, MapSpec, Reg, Size, helper};
    use barewire_testing::Needs;

    const RECORD: usize = 20;

    /// Writes the first eight bytes of a packet, and something behind them, to the ring; gives what the kernel says.
    fn writer(ring: &Map) -> Program {
        let mut asm = Asm::default();
        let short = asm.label();
        asm.mov_imm(Reg::R0, 77);
        asm.load(Size::W, Reg::R2, Reg::R1, helper::xdp::DATA);
        asm.load(Size::W, Reg::R3, Reg::R1, helper::xdp::DATA_END);
        asm.mov(Reg::R4, Reg::R2);
        asm.add_imm(Reg::R4, 8);
        asm.jump_if(Bits::B64, Cond::Gt, Reg::R4, Reg::R3, short);
        asm.load(Size::D, Reg::R2, Reg::R2, 0);
        asm.store(Size::D, Reg::FP, -24, Reg::R2);
        asm.store_imm(Size::D, Reg::FP, -16, 0x0101);
        asm.store_imm(Size::W, Reg::FP, -8, 0x0202);
        asm.map(Reg::R1, ring.as_raw_fd());
        asm.mov(Reg::R2, Reg::FP);
        asm.add_imm(Reg::R2, -24);
        asm.mov_imm(Reg::R3, RECORD as i32);
        asm.mov_imm(Reg::R4, 0);
        asm.call(helper::RINGBUF_OUTPUT);
        asm.place(short);
        asm.exit();
        Program::load(Kind::Xdp, "barewire_test", &asm.finish(false).expect("it jumps near"))
            .expect("it loads")
    }

    #[test]
    fn records_come_in_order_and_full_is_full() {
        let spec = MapSpec {
            name: "ring".to_owned(),
            kind: MapKind::RingBuf,
            key: 0,
            value: 0,
            entries: 4096,
            initial: Vec::new(),
            lock: false,
            inner: None,
        };
        let map = match Map::create(&spec) {
            Ok(map) => Arc::new(map),
            Err(error) => return barewire_testing::skip(Needs::Root, format!("no map: {error}")),
        };
        let program = writer(&map);
        let mut ring = RingReader::new(map, spec.entries).expect("it is mapped");
        let write = |number: u64| {
            let mut packet = [0; 64];
            packet[..8].copy_from_slice(&number.to_ne_bytes());
            program.test_run(&packet, 1).expect("it runs").verdict
        };
        // Round the ring several times, which no whole number of records fills.
        let mut seen = 0_u64;
        for number in 0..1000 {
            assert_eq!(write(number), 0);
            if number % 7 == 6 {
                assert!(!ring.is_empty());
                let count = ring.read(&mut [0; 64], &mut |record| {
                    assert_eq!((record.len(), &record[..8]), (RECORD, &seen.to_ne_bytes()[..]));
                    assert_eq!(record[8..], [1, 1, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0]);
                    seen += 1;
                });
                assert_eq!(count, 7);
                assert!(ring.is_empty());
            }
        }
        // Nobody reads: what finds no room is refused, and what was there stays.
        let mut taken = 1000 - seen;
        while write(0) == 0 {
            taken += 1;
        }
        assert_eq!(ring.read(&mut [0; 4], &mut |record| assert_eq!(record.len(), 4)) as u64, taken);
        assert_eq!((write(0), ring.read(&mut [0; 64], &mut |_| {})), (0, 1));
    }
}
