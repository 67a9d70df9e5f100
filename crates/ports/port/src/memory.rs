//! The memory port: a cable between two threads, or between two processes of one user.
//!
//! For each direction there is a ring of descriptors and, beside it, one slot for each entry: sending copies a frame into
//! a slot, receiving copies it out. The bytes of a link lie in one region, laid out alike on the heap and in a file:
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | magic, geometry (written once, by whoever made it) |
//! | 128, 256 | ends A and B: attachment number while open, else 0; numbers given out so far; process id |
//! | 384, 512 | park flags of A and B |
//! | 4096 | A to B: ring, slots; then B to A: ring, slots |

use crate::memory_file::LinkFile;
use crate::sys::EventFd;
use crate::{ChecksumOffload, OpenError, Port, PortCaps, PortCounters, PortError, PortUri};
use barewire_base::{DropReason, Instant};
use barewire_frame::{Burst, ChecksumState, Frame, Pool, Stamp, StampSource};
use barewire_ring::Region;
use barewire_ring::park::ParkFlag;
use barewire_ring::spsc::{self, Consumer, Producer};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Slots of each direction, unless asked otherwise.
pub const SLOTS_DEFAULT: u32 = 256;
/// In a descriptor: the checksum is unfinished.
const PARTIAL: u64 = 1 << 24;
/// In a descriptor: where the frame's port number stands, and what of it.
const PORT_SHIFT: u32 = 25;
const PORT_MASK: u16 = 0x7f;
/// Bytes of a slot, unless asked otherwise: one default chunk.
pub const SLOT_BYTES_DEFAULT: u32 = 2048;
/// Ethernet header, and with one VLAN tag.
const HEADER_MIN: usize = 14;
const HEADER_MAX: u32 = 18;

const CONTROL_LEN: usize = 4096;
pub(crate) const END_AT: [usize; 2] = [128, 256];
const PARK_AT: [usize; 2] = [384, 512];
/// From the start of an end's line: attachment number, numbers given out, process id.
const OPEN: usize = 0;
const GIVEN_OUT: usize = 8;
pub(crate) const PID: usize = 16;

/// The size of a memory link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Frames that may be under way in each direction: a power of two from 2 to 65536.
    pub slots: u32,
    /// Bytes of the largest frame: a multiple of 64 from 64 to 65536.
    pub slot_bytes: u32,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        MemoryConfig { slots: SLOTS_DEFAULT, slot_bytes: SLOT_BYTES_DEFAULT }
    }
}

impl MemoryConfig {
    /// Checks both bounds.
    ///
    /// # Errors
    /// The bounds that are broken.
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.slots.is_power_of_two() || !(2..=65536).contains(&self.slots) {
            return Err("slots must be a power of two from 2 to 65536");
        }
        if !self.slot_bytes.is_multiple_of(64) || !(64..=65536).contains(&self.slot_bytes) {
            return Err("slot_bytes must be a multiple of 64 from 64 to 65536");
        }
        Ok(())
    }

    fn ring_len(&self) -> usize {
        spsc::Layout::new(self.slots, 2).map_or(0, |l| l.size())
    }

    fn direction_len(&self) -> usize {
        (self.ring_len() + self.slots_len()).next_multiple_of(CONTROL_LEN)
    }

    fn slots_len(&self) -> usize {
        self.slots as usize * self.stride()
    }

    /// Bytes from one slot to the next. A cache finds its lines by some bits of the address: slots that are a power of two
    /// apart would all share a few of its sets, and push each other out.
    #[inline]
    fn stride(&self) -> usize {
        let bytes = self.slot_bytes as usize;
        if bytes.is_multiple_of(1024) { bytes + 64 } else { bytes }
    }

    /// Bytes of the whole region.
    pub(crate) fn region_len(&self) -> usize {
        CONTROL_LEN + 2 * self.direction_len()
    }
}

/// A link that was made and not given away yet.
pub struct MemoryLink;

impl MemoryLink {
    /// The two ends of a new link within this process. Each goes to its thread and is opened there with a pool of that
    /// thread. What one end sends before the other is opened waits in the slots.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] for a configuration out of bounds, [`OpenError::Io`] when there are no descriptors left.
    #[expect(clippy::new_ret_no_self, reason = "a link is its two ends")]
    pub fn new(config: MemoryConfig) -> Result<(MemoryEnd, MemoryEnd), OpenError> {
        let (a, b) = ends_on_heap(&PortUri::new("mem", "(unnamed)"), config)?;
        a.wire.set_open();
        b.wire.set_open();
        Ok((a, b))
    }
}

fn ends_on_heap(uri: &PortUri, config: MemoryConfig) -> Result<(MemoryEnd, MemoryEnd), OpenError> {
    config.check().map_err(|why| uri.bad(why))?;
    let region = Region::heap(config.region_len());
    let bell = || EventFd::new().map_err(|e| uri.io("eventfd", e));
    let bells = Arc::new([bell()?, bell()?]);
    let end = |me: usize| {
        let wire = Wire::attach(&region, config, me, Some(Arc::clone(&bells)), None)
            .ok_or_else(|| uri.bad("the region does not fit its configuration"))?;
        Ok(MemoryEnd { wire, name: None, text: uri.text().to_owned() })
    };
    Ok((end(0)?, end(1)?))
}

/// One end of a link, on its way to the thread that opens it.
pub struct MemoryEnd {
    wire: Wire,
    name: Option<NameGuard>,
    text: String,
}

impl MemoryEnd {
    /// Makes it a port that receives into `pool`.
    pub fn open(self, pool: Pool) -> MemoryPort {
        let MemoryEnd { wire, name, text } = self;
        wire.set_open();
        let config = wire.config;
        let frame_max = config.slot_bytes.min(pool.frame_max() as u32);
        let place = match &wire.file {
            Some(file) => format!("shared through {}", file.path().display()),
            None => "within this process".to_owned(),
        };
        let caps = PortCaps {
            mtu: frame_max.saturating_sub(HEADER_MAX).max(1),
            frame_max,
            mac: None,
            rx_stamp: StampSource::Engine,
            queues: 1,
            in_place: false,
            zero_copy: false,
            tx_checksum: false,
            checksum_offload: ChecksumOffload::default(),
            lossless_bits: true,
            description: format!(
                "memory link {place}, end {}, {} slots of {} B",
                ["A", "B"][wire.me],
                config.slots,
                config.slot_bytes
            ),
        };
        MemoryPort { wire, _name: name, pool, caps, counters: PortCounters::default(), finished: false, text }
    }
}

/// What an end holds of the link.
struct Wire {
    config: MemoryConfig,
    /// 0 is end A, 1 is end B.
    me: usize,
    control: Region,
    tx: Producer<2>,
    rx: Consumer<2>,
    tx_slots: Region,
    rx_slots: Region,
    my_park: ParkFlag,
    their_park: ParkFlag,
    /// By end; within one process only.
    bells: Option<Arc<[EventFd; 2]>>,
    /// Between processes only.
    file: Option<LinkFile>,
}

impl Wire {
    /// Attaches end `me`. `None` when the region is too small for the configuration.
    fn attach(
        region: &Region,
        config: MemoryConfig,
        me: usize,
        bells: Option<Arc<[EventFd; 2]>>,
        file: Option<LinkFile>,
    ) -> Option<Wire> {
        let ring_len = config.ring_len();
        let ring = |from: usize| region.slice(CONTROL_LEN + from * config.direction_len(), ring_len);
        let slots = |from: usize| {
            let at = CONTROL_LEN + from * config.direction_len() + ring_len;
            region.slice(at, config.slots_len())
        };
        let control = region.slice(0, CONTROL_LEN)?;
        // Resuming a new, zeroed ring is the same as starting it; a place that a dead process left goes on from where it
        // stood, without what was sent to the dead.
        let tx = spsc::producer_resume(ring(me)?, config.slots)?;
        let mut rx = spsc::consumer_resume(ring(1 - me)?, config.slots)?;
        if file.is_some() {
            let stale = rx.available_at_least(config.slots as usize);
            rx.release(stale);
        }
        Some(Wire {
            config,
            me,
            tx,
            rx,
            tx_slots: slots(me)?,
            rx_slots: slots(1 - me)?,
            my_park: ParkFlag::new(&control, PARK_AT[me])?,
            their_park: ParkFlag::new(&control, PARK_AT[1 - me])?,
            control,
            bells,
            file,
        })
    }

    /// Says that this end is open, under a number that it never had before. Once.
    fn set_open(&self) {
        let at = END_AT[self.me];
        let (Some(open), Some(given_out)) =
            (self.control.atomic_u64(at + OPEN), self.control.atomic_u64(at + GIVEN_OUT))
        else {
            return;
        };
        if self.file.is_none() && open.load(Acquire) != 0 {
            return;
        }
        let number = given_out.load(Acquire).wrapping_add(1).max(1);
        given_out.store(number, Release);
        open.store(number, Release);
    }

    fn set_closed(&self) {
        if let Some(open) = self.control.atomic_u64(END_AT[self.me] + OPEN) {
            open.store(0, Release);
        }
    }

    /// Whether the other end was open once and never will be again.
    fn is_closed_for_good(&self) -> bool {
        let given_out = self.control.load_u64(END_AT[1 - self.me] + GIVEN_OUT);
        self.file.is_none() && given_out != Some(0) && self.their_number() == 0
    }

    /// The attachment number of the other end; 0 when it is closed.
    #[inline]
    fn their_number(&self) -> u64 {
        self.control.atomic_u64(END_AT[1 - self.me] + OPEN).map_or(0, |open| open.load(Acquire))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.set_closed();
        if let Some(bells) = &self.bells {
            // A sleeper is to see that nothing comes any more.
            bells[1 - self.me].ring();
        }
    }
}

/// One end of a memory link, open.
///
/// Frames for an end that is not open are counted as `PortDown` and dropped; a full ring pushes back. Within a process
/// [`wait_fd`](Port::wait_fd) is an eventfd, written only when the receiver sleeps; between processes the port is polled.
/// A frame with an unfinished checksum stays marked as such, and keeps the low seven bits of its port number. When the other end within the process is gone, for good,
/// [`is_finished`](Port::is_finished).
pub struct MemoryPort {
    wire: Wire,
    _name: Option<NameGuard>,
    pool: Pool,
    caps: PortCaps,
    counters: PortCounters,
    finished: bool,
    text: String,
}

impl MemoryPort {
    /// Opens `mem:NAME`: the first to come gets end A, the second end B, a third is refused. Options: `slots`,
    /// `slot_bytes`, `shared` (1: between processes), `path` (the file of a shared link; default
    /// `/dev/shm/barewire-mem-NAME`).
    ///
    /// # Errors
    /// [`OpenError::BadUri`] for wrong options or for a geometry other than the other end's; [`OpenError::Io`] with
    /// `AddrInUse` when both ends are taken, and for failed calls.
    pub fn from_uri(uri: &PortUri, pool: Pool) -> Result<MemoryPort, OpenError> {
        let mut uri = uri.clone();
        let (slots, slot_bytes) = (uri.take("slots")?, uri.take("slot_bytes")?);
        let shared = uri.take_flag("shared")?;
        let path = uri.take_text("path").map(PathBuf::from);
        uri.finish()?;
        let wanted = MemoryConfig {
            slots: slots.unwrap_or(SLOTS_DEFAULT),
            slot_bytes: slot_bytes.unwrap_or(SLOT_BYTES_DEFAULT),
        };
        wanted.check().map_err(|why| uri.bad(why))?;
        let agrees = |c: MemoryConfig| {
            slots.is_none_or(|s| s == c.slots) && slot_bytes.is_none_or(|b| b == c.slot_bytes)
        };
        let end = if shared {
            let name_is_plain = uri.target.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
            let path = match path {
                Some(path) => path,
                None if name_is_plain && uri.target.len() <= 64 => {
                    PathBuf::from(format!("/dev/shm/barewire-mem-{}", uri.target))
                }
                None => return Err(uri.bad("a shared name has at most 64 letters, digits, `.`, `_` and `-`")),
            };
            Self::shared_end(&uri, path, wanted, &agrees)?
        } else if path.is_some() {
            return Err(uri.bad("path= is for shared=1"));
        } else {
            named_end(&uri, wanted, &agrees)?
        };
        Ok(end.open(pool))
    }

    /// Both ends of a new link, for one thread.
    ///
    /// # Errors
    /// As [`MemoryLink::new`].
    pub fn pair(
        config: MemoryConfig,
        pool_a: Pool,
        pool_b: Pool,
    ) -> Result<(MemoryPort, MemoryPort), OpenError> {
        let (a, b) = MemoryLink::new(config)?;
        Ok((a.open(pool_a), b.open(pool_b)))
    }

    /// Whether the other end is open, as far as is known.
    pub fn has_peer(&self) -> bool {
        let number = self.wire.their_number();
        number != 0 && self.wire.file.as_ref().is_none_or(|f| f.lost() != number)
    }

    fn shared_end(
        uri: &PortUri,
        path: PathBuf,
        wanted: MemoryConfig,
        agrees: &dyn Fn(MemoryConfig) -> bool,
    ) -> Result<MemoryEnd, OpenError> {
        let attached = LinkFile::attach(uri, path, wanted, agrees)?;
        let (file, region, config, me) = (attached.file, attached.region, attached.config, attached.me);
        let _ = region.store_u64(END_AT[me] + PID, u64::from(std::process::id()));
        let wire = Wire::attach(&region, config, me, None, Some(file))
            .ok_or_else(|| uri.bad("the file does not fit its own header"))?;
        if let Some(file) = &wire.file {
            file.end_setup();
        }
        Ok(MemoryEnd { wire, name: None, text: uri.text().to_owned() })
    }

    /// Between processes: notices, at a low rate, when the other end died without saying so.
    #[inline]
    fn look_after_peer(&mut self, now: Instant) {
        let number = self.wire.their_number();
        if let Some(file) = &mut self.wire.file {
            file.look_after(now, 1 - self.wire.me, number, &self.counters.syscalls);
        }
    }

    fn corrupted(&self) -> PortError {
        let why = "the other end wrote impossible ring indices";
        PortError::Down { port: self.text.clone(), source: io::Error::new(io::ErrorKind::InvalidData, why) }
    }

    fn drop_front(&self, burst: &mut Burst, reason: DropReason) {
        drop(burst.pop());
        self.counters.drops.count(reason);
    }
}

/// Length in the low 24 bits; then whether the checksum is unfinished, the frame's port number, and the checksum's start and offset.
#[inline]
fn describe(frame: &Frame) -> u64 {
    let word = frame.len() as u64 | u64::from(frame.port() & PORT_MASK) << PORT_SHIFT;
    match frame.checksum() {
        ChecksumState::Partial { start, offset } => {
            word | PARTIAL | u64::from(start) << 32 | u64::from(offset) << 48
        }
        _ => word,
    }
}

impl Port for MemoryPort {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.look_after_peer(now);
        let wire = &mut self.wire;
        let room = burst.room();
        let n = wire.rx.available_at_least(room).min(room);
        if n == 0 {
            // In this order: what was sent before the other end closed is seen.
            if room > 0 && wire.is_closed_for_good() && wire.rx.available() == 0 {
                self.finished = true;
            }
            return if self.wire.rx.is_corrupt() { Err(self.corrupted()) } else { Ok(0) };
        }
        let mask = u64::from(wire.config.slots) - 1;
        let (mut delivered, mut bytes) = (0, 0);
        let stamp = Stamp::engine(now);
        for i in 0..n {
            // Read once: from another process it may change under our hands.
            let [word, _sent_at] = wire.rx.read(i);
            let len = (word & 0xff_ffff) as usize;
            let slot = (wire.rx.position().wrapping_add(i as u64) & mask) as usize;
            if !(HEADER_MIN..=self.caps.frame_max as usize).contains(&len) {
                let small = len < HEADER_MIN;
                self.counters.drops.count(if small { DropReason::Truncated } else { DropReason::TooLarge });
                continue;
            }
            // In bounds: no frame is longer than one of the pool may be.
            let Some(mut frame) = self.pool.alloc_len(len, stamp) else {
                self.counters.drops.count(DropReason::PoolEmpty);
                continue;
            };
            let at = slot * wire.config.stride();
            if !wire.rx_slots.read(at, frame.data_mut()) {
                self.counters.drops.count(DropReason::TooLarge);
                continue;
            }
            if word & 0xff00_0000 != 0 {
                frame.set_port((word >> PORT_SHIFT) as u16 & PORT_MASK);
                if word & PARTIAL != 0 {
                    let (start, offset) = ((word >> 32) as u16, (word >> 48) as u16);
                    frame.set_checksum(ChecksumState::Partial { start, offset });
                }
            }
            bytes += len as u64;
            delivered += usize::from(burst.push(frame).is_ok());
        }
        wire.rx.release(n);
        self.counters.rx_frames.add(delivered as u64);
        self.counters.rx_bytes.add(bytes);
        Ok(delivered)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.look_after_peer(now);
        let before = burst.len();
        if before == 0 {
            return Ok(0);
        }
        if !self.has_peer() {
            while !burst.is_empty() {
                self.drop_front(burst, DropReason::PortDown);
            }
            return Ok(before);
        }
        let free = self.wire.tx.free_at_least(before);
        let mask = u64::from(self.wire.config.slots) - 1;
        let (mut n, mut bytes) = (0, 0);
        while let Some(front) = burst.front() {
            // All that is asked of the frame before anything is written, so that it is read once.
            let (len, word) = (front.len(), describe(front));
            // A frame that is to be cut later has no way to say so on the other side.
            if len > self.caps.frame_max as usize || front.gso().is_some() {
                self.drop_front(burst, DropReason::TooLarge);
                continue;
            }
            if len < HEADER_MIN {
                self.drop_front(burst, DropReason::Truncated);
                continue;
            }
            if n == free {
                self.counters.tx_full.add(1);
                break;
            }
            let wire = &mut self.wire;
            let slot = (wire.tx.position().wrapping_add(n as u64) & mask) as usize;
            // In bounds: the slot is below the number of slots, and the frame no longer than one.
            let _ = wire.tx_slots.write(slot * wire.config.stride(), front.data());
            wire.tx.write(n, &[word, now.as_nanos()]);
            n += 1;
            bytes += len as u64;
            drop(burst.pop());
        }
        if n > 0 {
            self.wire.tx.commit(n);
            if let Some(bells) = &self.wire.bells
                && self.wire.their_park.should_wake()
            {
                self.counters.syscalls.add(1);
                bells[1 - self.wire.me].ring();
            }
        }
        self.counters.tx_frames.add(n as u64);
        self.counters.tx_bytes.add(bytes);
        if free == 0 && self.wire.tx.is_corrupt() {
            return Err(self.corrupted());
        }
        Ok(before - burst.len())
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.wire.bells.as_ref().map(|bells| bells[self.wire.me].as_raw_fd())
    }

    fn prepare_wait(&mut self) -> bool {
        if self.wire.bells.is_none() {
            return self.wire.rx.available() == 0;
        }
        self.wire.my_park.prepare();
        if self.wire.rx.available() > 0 {
            self.wire.my_park.cancel();
            return false;
        }
        true
    }

    fn finish_wait(&mut self) {
        if let Some(bells) = &self.wire.bells {
            self.wire.my_park.cancel();
            self.counters.syscalls.add(1);
            bells[self.wire.me].clear();
        }
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

/// The named links of this process.
static NAMES: Mutex<Option<HashMap<String, Named>>> = Mutex::new(None);

struct Named {
    /// The end that nobody has asked for yet.
    unclaimed: Option<MemoryEnd>,
    config: MemoryConfig,
    holders: u32,
}

/// Holds a name in [`NAMES`].
struct NameGuard(String);

fn names() -> MutexGuard<'static, Option<HashMap<String, Named>>> {
    // A panic between two statements of the functions below leaves the map as good as it was.
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn named_end(
    uri: &PortUri,
    wanted: MemoryConfig,
    agrees: &dyn Fn(MemoryConfig) -> bool,
) -> Result<MemoryEnd, OpenError> {
    let mut names = names();
    let names = names.get_or_insert_default();
    let mut end = match names.get_mut(&uri.target) {
        None => {
            let (a, b) = ends_on_heap(uri, wanted)?;
            let named = Named { unclaimed: Some(b), config: wanted, holders: 1 };
            names.insert(uri.target.clone(), named);
            a
        }
        Some(named) if !agrees(named.config) => {
            let MemoryConfig { slots, slot_bytes } = named.config;
            return Err(uri.bad(format!("the other end has slots={slots} and slot_bytes={slot_bytes}")));
        }
        Some(named) => match named.unclaimed.take() {
            Some(end) => {
                named.holders += 1;
                end
            }
            None => {
                let why = "both ends are taken; the name is free again when both are closed";
                return Err(uri.io("open", io::Error::new(io::ErrorKind::AddrInUse, why)));
            }
        },
    };
    end.name = Some(NameGuard(uri.target.clone()));
    Ok(end)
}

impl Drop for NameGuard {
    fn drop(&mut self) {
        let mut names = names();
        let Some(names) = names.as_mut() else { return };
        if let Some(named) = names.get_mut(&self.0) {
            named.holders -= 1;
            if named.holders == 0 {
                names.remove(&self.0);
            }
        }
    }
}
