//! The port at work: bursts in, bursts out.

use crate::card::{Inside, Member, hashing};
use crate::config::DpdkConfig;
use crate::eal;
use crate::offload;
use crate::sys::{
    CHECKSUM_BAD, CHECKSUM_GOOD, CHECKSUM_NONE, Mbufs, RX_CHECKS, RX_HASHES, RawFrame, RawInfo, RawStats,
    SCATTERED, TX_COMPLETES_TCP, TX_COMPLETES_UDP,
};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::{BURST_MAX, Burst, ChecksumState, Ledger, Pool, Stamp, StampSource};
use barewire_packet::Rss;
use barewire_packet::outgoing::{self, ETH_LEN};
use barewire_port::{ChecksumOffload, OpenError, Port, PortCaps, PortCounters, PortError, PortUri};
use barewire_wire::MacAddr;
use std::ffi::CString;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Chunks that the driver always finds: two bursts of the largest that drivers ask for at once.
const SPARE: u32 = 128;
/// With fewer than these the pool is empty: what is received then is dropped, so that the driver, which takes 32 at once, never stands still
/// with old frames in its ring.
const RESERVE: u32 = 2 * BURST_MAX as u32;
/// From so many on they go back to the pool.
const SPARE_MAX: u32 = 3 * SPARE;
/// The device's counters and its link are looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Drops of one kind that one look counts; a remainder is left for the next look.
const FOLD_MAX: u64 = 1 << 16;
/// The shim's words for the step at which DPDK or a driver refuses a name or its arguments.
const PLUGGING: &str = "plugging the device in";
const NAMES: &str = "a device is named as DPDK does, with its driver's own arguments: `0000:00:06.0`, `net_af_packet0,iface=eth0`; \
    `barewire doctor` says what a card lacks";
/// Largest chunk: the length of an mbuf's buffer has 16 bits.
const CHUNK_LEN_MAX: u32 = 1 << 15;

/// A port on a device of DPDK, or on some of its receive queues.
///
/// Received frames carry the engine's stamp. The card's verdict on transport checksums is kept where it has one; checksums that are left
/// unfinished are completed by the card where it can, else here. There is nothing to sleep on: an engine polls it.
pub struct DpdkPort {
    config: DpdkConfig,
    uri: String,
    caps: PortCaps,
    counters: PortCounters,
    /// `None` after a failed [`reopen`](Port::reopen).
    device: Option<Member>,
    /// What the device does by itself.
    offloads: u32,
    ledger: Ledger,
    shift: u32,
    /// Accepted, and refused by the driver so far: sent before anything else.
    waiting: [RawFrame; BURST_MAX],
    waits: usize,
    is_up: bool,
    folded: RawStats,
    next_look: Instant,
}

impl DpdkPort {
    /// Opens what `uri` names: [`DpdkConfig::from_uri`].
    ///
    /// # Errors
    /// [`OpenError`]: a wrong option; a device that DPDK cannot plug in; no memory.
    pub fn from_uri(uri: &PortUri, pool: Pool) -> Result<DpdkPort, OpenError> {
        DpdkPort::open_as(DpdkConfig::from_uri(uri)?, uri.text().to_owned(), pool)
    }

    /// Opens a device.
    ///
    /// # Errors
    /// As [`from_uri`](DpdkPort::from_uri).
    pub fn open(config: DpdkConfig, pool: Pool) -> Result<DpdkPort, OpenError> {
        let uri = format!("dpdk:{}", config.device);
        DpdkPort::open_as(config, uri, pool)
    }

    fn open_as(config: DpdkConfig, uri: String, pool: Pool) -> Result<DpdkPort, OpenError> {
        let mut ledger = Ledger::new(pool);
        let (device, caps, info) = plug_in(&config, &uri, &mut ledger)?;
        let shift = ledger.pool().chunk_len().trailing_zeros();
        let is_up = info.is_up != 0 || !device.runs();
        Ok(DpdkPort {
            config,
            uri,
            caps,
            counters: PortCounters::default(),
            device: Some(device),
            offloads: info.offloads,
            ledger,
            shift,
            waiting: [RawFrame::default(); BURST_MAX],
            waits: 0,
            is_up,
            folded: RawStats::default(),
            next_look: Instant::ZERO,
        })
    }

    /// Chunks that DPDK has now: in rings, being sent, or ready to be received into.
    pub fn held(&self) -> u32 {
        self.ledger.outstanding()
    }

    /// Whether the device says now that its link is up. One that waits for the ports of its other queues does not.
    pub fn link_is_up(&self) -> bool {
        let Some(device) = &self.device else { return false };
        device.enter().and_then(|inside| device.look(&inside)).is_some_and(|(_, is_up)| is_up)
    }

    /// Whether it has started: the ports for all queues of its device are open.
    pub fn runs(&self) -> bool {
        self.device.as_ref().is_some_and(Member::runs)
    }

    /// How the device of this name, which ports of this process share, chooses the queue of a UDP packet. `None` where it does not say.
    pub fn rss_of(device: &str) -> Option<Rss> {
        let hashing = hashing(device)?;
        Rss::new(hashing.key, hashing.table)?.hashing_ports(hashing.udp_ports)
    }

    fn down(&self) -> PortError {
        let source = io::Error::from_raw_os_error(libc::ENETDOWN);
        PortError::Down { port: self.uri.clone(), source }
    }

    /// Enters the device, if it is there.
    #[inline]
    fn enter(&self) -> Option<Inside> {
        self.device.as_ref()?.enter()
    }

    /// Tries again what the driver refused.
    #[inline]
    fn flush(&mut self, inside: &Inside) {
        let Some(device) = self.device.as_mut().filter(|_| self.waits > 0) else { return };
        // SAFETY: each was checked by `tx_burst`, and its chunk is the port's until it is sent.
        let (sent, refused) = unsafe { device.send(inside, &self.waiting[..self.waits]) };
        (0..refused).for_each(|_| self.counters.drops.count(DropReason::UnfinishedChecksum));
        self.waiting.copy_within(sent..self.waits, 0);
        self.waits -= sent;
    }

    /// Keeps the driver's stack between its bounds.
    #[inline]
    fn balance(&mut self, inside: &Inside) {
        let Some(device) = &mut self.device else { return };
        let count = device.mbufs.count();
        if count < SPARE {
            for _ in count..SPARE {
                let Some(frame) = self.ledger.pool().alloc() else { break };
                device.mbufs.give((self.ledger.give(frame) >> self.shift) as u32);
            }
            // The pool has none: some may wait for the driver to say that they are sent.
            if device.mbufs.count() < BURST_MAX as u32 {
                device.reap(inside);
            }
        } else if count > SPARE_MAX || self.ledger.pool().available() == 0 {
            for _ in SPARE..count {
                let Some(chunk) = device.mbufs.take() else { break };
                // SAFETY: it lay on the stack: the driver does not use it, and was not allowed to any more.
                drop(unsafe { self.ledger.take(u64::from(chunk) << self.shift, 0) });
            }
        }
    }

    /// Reads the device's counters and its link.
    #[cold]
    fn look(&mut self, inside: &Inside) {
        let Some(device) = &self.device else { return };
        let Some((stats, is_up)) = device.look(inside) else { return };
        self.is_up = is_up;
        if !device.counts_for_all() {
            return;
        }
        for (total, folded, reason) in [
            (stats.missed, &mut self.folded.missed, DropReason::RingFull),
            (stats.no_buffer, &mut self.folded.no_buffer, DropReason::PoolEmpty),
            (stats.rx_errors, &mut self.folded.rx_errors, DropReason::Malformed),
            (stats.tx_errors, &mut self.folded.tx_errors, DropReason::PortDown),
        ] {
            let new = total.saturating_sub(*folded).min(FOLD_MAX);
            *folded += new;
            (0..new).for_each(|_| self.counters.drops.count(reason));
        }
    }
}

fn is_root() -> bool {
    // SAFETY: no memory, and it cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Starts DPDK and the device, with chunks of the ledger's pool.
fn plug_in(
    config: &DpdkConfig,
    uri: &str,
    ledger: &mut Ledger,
) -> Result<(Member, PortCaps, RawInfo), OpenError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let unsupported = |what: String| OpenError::Unsupported { uri: uri.to_owned(), what };
    let pool = ledger.pool().clone();
    if pool.chunk_len() > CHUNK_LEN_MAX {
        return Err(unsupported(format!(
            "chunks of {} bytes: DPDK takes {CHUNK_LEN_MAX} at most",
            pool.chunk_len()
        )));
    }
    eal::start(&config.eal).map_err(unsupported)?;
    // Of this process alone; DPDK allows 25 letters.
    let name = format!("bw{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let c_string = |text: &str| CString::new(text).map_err(|_| unsupported("a zero byte".to_owned()));
    let devargs = c_string(&config.devargs(pool.chunk_len()))?;
    let mut mbufs = Mbufs::new(&c_string(&name)?, &pool).map_err(|source| OpenError::Io {
        uri: uri.to_owned(),
        call: "making mbufs",
        source,
    })?;
    let own = config.own_queues().len() as u32;
    let wanted = u32::from(config.rx_slots) * own + SPARE;
    if (pool.available() as u32) < wanted {
        let queues = if own > 1 { format!(" on {own} queues") } else { String::new() };
        return Err(unsupported(format!(
            "{} free frames, and {wanted} are needed for `rx={}`{queues}",
            pool.available(),
            config.rx_slots
        )));
    }
    let shift = pool.chunk_len().trailing_zeros();
    for _ in 0..wanted {
        let Some(frame) = pool.alloc() else { break };
        mbufs.give((ledger.give(frame) >> shift) as u32);
    }
    let opened = Member::open(config, &devargs, mbufs);
    let (device, info) = opened.map_err(|(what, error)| {
        // SAFETY: the device is closed, if it ever was open.
        unsafe { ledger.take_all() };
        let code = error.as_ref().and_then(io::Error::raw_os_error);
        // What drivers give for whatever they do not like is -1, which is EPERM's number.
        let refused_it = what == PLUGGING && code == Some(libc::EPERM) && is_root();
        if !refused_it && (code == Some(libc::EACCES) || code == Some(libc::EPERM)) {
            return OpenError::NotPermitted {
                uri: uri.to_owned(),
                call: "opening the device",
                needs: "root, or access to the device",
            };
        }
        match error {
            Some(_) if refused_it => unsupported(format!(
                "{what}: its driver refuses it, in words of its own above; hint: {NAMES}"
            )),
            Some(error) if what == PLUGGING => unsupported(format!("{what}: {error}; hint: {NAMES}")),
            Some(error) => unsupported(format!("{what}: {error}")),
            None => unsupported(what),
        }
    })?;
    let mtu = u32::from(info.mtu);
    let frame_max = (mtu + ETH_LEN).min(pool.frame_max() as u32);
    let caps = PortCaps {
        mtu: frame_max.saturating_sub(ETH_LEN),
        frame_max,
        mac: (info.has_mac != 0).then_some(MacAddr(info.mac)),
        rx_stamp: StampSource::Engine,
        queues: own as u16,
        in_place: true,
        zero_copy: false,
        tx_checksum: true,
        checksum_offload: ChecksumOffload {
            rx: info.offloads & RX_CHECKS != 0,
            tx: info.offloads & TX_COMPLETES_UDP != 0,
        },
        lossless_bits: false,
        description: describe(config, &info),
    };
    Ok((device, caps, info))
}

/// What was chosen, in a line.
fn describe(config: &DpdkConfig, info: &RawInfo) -> String {
    let mut line = format!(
        "{}, driver {}, device {}, {} + {} descriptors, frames in place",
        crate::sys::version(),
        info.driver(),
        config.name(),
        info.rx_slots,
        info.tx_slots
    );
    if config.queues > 1 {
        let own: Vec<_> = config.own_queues().iter().map(ToString::to_string).collect();
        let how = if info.offloads & RX_HASHES != 0 { "by RSS" } else { "as the device deals" };
        line += &format!(", queues {} of {} {how}", own.join(","), config.queues);
    }
    let does = [
        (RX_CHECKS, "checks what comes"),
        (TX_COMPLETES_UDP, "completes UDP"),
        (TX_COMPLETES_TCP, "completes TCP"),
    ];
    let does: Vec<_> =
        does.iter().filter(|(bit, _)| info.offloads & bit != 0).map(|(_, word)| *word).collect();
    match does.is_empty() {
        true => line + ", checksums in software",
        false => line + ", checksums: the device " + &does.join(" and "),
    }
}

impl Port for DpdkPort {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let Some(inside) = self.enter() else { return Err(self.down()) };
        if !self.runs() {
            // Its other queues have no port yet.
            return Ok(0);
        }
        self.flush(&inside);
        self.balance(&inside);
        if now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            self.look(&inside);
        }
        let Some(device) = &mut self.device else { return Err(self.down()) };
        let mut frames = [RawFrame::default(); BURST_MAX];
        let is_scarce = device.mbufs.count() < RESERVE;
        let found = device.receive(&inside, &mut frames[..burst.room().min(BURST_MAX)]);
        let (mut got, mut bytes) = (0, 0);
        for raw in &frames[..found] {
            if is_scarce {
                device.mbufs.give(raw.chunk);
                self.counters.drops.count(DropReason::PoolEmpty);
                continue;
            }
            let address = (u64::from(raw.chunk) << self.shift) + u64::from(raw.offset);
            // SAFETY: the driver handed the chunk over, and has done with it.
            let Some(mut frame) = (unsafe { self.ledger.take(address, raw.len) }) else { continue };
            if raw.flags & SCATTERED != 0 {
                self.counters.drops.count(DropReason::TooLarge);
                continue;
            }
            if raw.flags & CHECKSUM_BAD != 0 {
                self.counters.drops.count(DropReason::BadChecksum);
                continue;
            }
            if raw.flags & CHECKSUM_GOOD != 0 {
                frame.set_checksum(ChecksumState::Verified);
            } else if raw.flags & CHECKSUM_NONE != 0 {
                frame.set_checksum(offload::left_open(frame.data()));
            }
            frame.set_stamp(Stamp::engine(now));
            bytes += u64::from(raw.len);
            got += 1;
            // Never an error: at most `room` are taken.
            let _ = burst.push(frame);
        }
        self.counters.rx_frames.add(got as u64);
        self.counters.rx_bytes.add(bytes);
        Ok(got)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let inside = self.enter();
        if let Some(inside) = &inside
            && now >= self.next_look
        {
            self.next_look = now + LOOK_EVERY;
            self.look(inside);
        }
        let Some(inside) = inside.filter(|_| self.is_up) else {
            for _ in 0..burst.len() {
                self.counters.drops.count(DropReason::PortDown);
            }
            burst.clear();
            return Err(self.down());
        };
        self.flush(&inside);
        if burst.is_empty() {
            return Ok(0);
        }
        if self.waits > 0 || !self.runs() {
            self.counters.tx_full.add(1);
            return Ok(0);
        }
        let (mut taken, mut queued, mut bytes) = (0, 0, 0);
        while let Some(front) = burst.front() {
            let own = self.ledger.pool().owns(front);
            if queued == BURST_MAX || !own && self.ledger.pool().available() == 0 {
                self.counters.tx_full.add(1);
                break;
            }
            let Some(mut frame) = burst.pop() else { break };
            taken += 1;
            let checked = outgoing::check(&frame, self.caps.frame_max);
            let flags = match checked.and_then(|()| offload::leave_or_complete(&mut frame, self.offloads)) {
                Ok(flags) => flags,
                Err(reason) => {
                    self.counters.drops.count(reason);
                    continue;
                }
            };
            if !own {
                let Some(copy) = self.ledger.pool().alloc_from(frame.data()) else {
                    self.counters.drops.count(DropReason::PoolEmpty);
                    continue;
                };
                frame = copy;
            }
            let (offset, len) = (frame.headroom() as u32, frame.len() as u32);
            let chunk = (self.ledger.give(frame) >> self.shift) as u32;
            self.waiting[queued] = RawFrame { chunk, offset, len, flags };
            queued += 1;
            bytes += u64::from(len);
        }
        self.waits = queued;
        self.counters.tx_frames.add(queued as u64);
        self.counters.tx_bytes.add(bytes);
        self.flush(&inside);
        self.balance(&inside);
        Ok(taken)
    }

    fn tx_waiting(&self) -> usize {
        self.waits
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    /// What the driver refused is tried again at every call.
    fn next_deadline(&self) -> Option<Instant> {
        (self.waits > 0).then_some(Instant::ZERO)
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        self.close();
        let (device, caps, info) = plug_in(&self.config, &self.uri, &mut self.ledger)?;
        self.is_up = info.is_up != 0 || !device.runs();
        (self.device, self.caps, self.offloads) = (Some(device), caps, info.offloads);
        self.folded = RawStats::default();
        Ok(())
    }
}

impl DpdkPort {
    fn close(&mut self) {
        self.device = None;
        self.waits = 0;
        // SAFETY: the device is closed.
        unsafe { self.ledger.take_all() };
    }
}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for DpdkPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.caps.description)
    }
}
