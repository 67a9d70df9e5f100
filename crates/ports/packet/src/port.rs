//! The port at work: bursts in, bursts out.

use crate::checksum;
use crate::config::{PacketConfig, StampBy};
use crate::interface::Interface;
use crate::outgoing::{self, ETH_LEN, VLAN_LEN};
use crate::ring::{Header, RX_NET_AT, Ring, TX_DATA_AT, align16};
use crate::sys::{self, Mapping};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::{Burst, ChecksumState, ClockDomain, Frame, Pool, Stamp, StampSource};
use barewire_port::{OpenError, Port, PortCaps, PortCounters, PortError, PortUri};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The kernel's drop count and the socket's error are read this often, at once when the kernel says that it dropped.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most system calls that one burst makes to get its frames out.
const KICKS_MAX: u32 = 8;
/// Drops that one look counts; a remainder is left for the next look.
const FOLD_MAX: u64 = 1 << 16;
/// Smallest contiguous piece that the kernel allocates for a ring.
const BLOCK_LEN: u32 = 1 << 16;
/// `struct virtio_net_hdr` of `linux/virtio_net.h`: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset.
const VNET_LEN: usize = 10;
const VNET_NEEDS_CSUM: u8 = 1;
const VNET_DATA_VALID: u8 = 2;

/// A port on a packet socket with mapped rings.
pub struct PacketPort {
    uri: String,
    caps: PortCaps,
    counters: PortCounters,
    pool: Pool,
    rx: Ring,
    tx: Ring,
    /// Largest received frame without a tag: the MTU's, or the chunk's with `vnet_hdr`.
    rx_max: usize,
    vnet_hdr: bool,
    /// The kernel cannot leave outgoing frames out, so we do.
    skip_outgoing: bool,
    /// The kernel left slots of the transmit ring and has to be called again.
    tx_pending: bool,
    next_look: Instant,
    /// Drops that the kernel reported and that are not counted yet.
    dropped: u64,
    // Fields drop in this order: the rings' memory goes before the socket, and the rings above it are plain pointers.
    _mapping: Mapping,
    socket: OwnedFd,
}

impl PacketPort {
    /// Opens a packet socket on an interface; received frames are copied into frames of `pool`. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// [`OpenError`]: no such interface, down, not permitted, not supported (with what to change).
    pub fn open(config: PacketConfig, pool: Pool) -> Result<PacketPort, OpenError> {
        let uri = format!("packet:{}", config.interface);
        config.check().map_err(|why| OpenError::BadUri { uri: uri.clone(), why })?;
        let interface = Interface::find(&uri, &config.interface)?;
        let failed = |call| {
            let uri = uri.clone();
            move |source: io::Error| match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    OpenError::NotPermitted { uri, call, needs: "CAP_NET_RAW" }
                }
                _ => OpenError::Io { uri, call, source },
            }
        };
        let unsupported = |what: String| OpenError::Unsupported { uri: uri.clone(), what };
        let Interface { name, mtu, .. } = &interface;
        if !interface.ethernet {
            return Err(unsupported(format!("`{name}` is not an Ethernet interface")));
        }
        if !interface.up {
            let why = format!("interface `{name}` is down; hint: ip link set dev {name} up");
            return Err(failed("bind(AF_PACKET)")(io::Error::new(io::ErrorKind::NetworkDown, why)));
        }
        let frame_max = mtu.saturating_add(ETH_LEN);
        let chunk_room = pool.frame_max() as u32;
        if frame_max.saturating_add(VLAN_LEN) > chunk_room {
            let fits = chunk_room.saturating_sub(ETH_LEN + VLAN_LEN);
            return Err(unsupported(format!(
                "MTU {mtu} of `{name}` with chunks that hold an MTU of {fits}; hint: use a pool with a larger \
                 chunk_len, or lower it: ip link set dev {name} mtu {fits}"
            )));
        }

        let socket = sys::socket().map_err(failed("socket(AF_PACKET)"))?;
        let set = |option, value| sys::set_int(&socket, option, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)
            .map_err(failed("setsockopt(PACKET_VERSION)"))?;
        if config.vnet_hdr {
            set(libc::PACKET_VNET_HDR, 1).map_err(failed("setsockopt(PACKET_VNET_HDR)"))?;
        }
        let bypass = config.qdisc_bypass && set(libc::PACKET_QDISC_BYPASS, 1).is_ok();
        // Kernels before 4.20 do not know the option.
        let mut skip_outgoing = config.ignore_outgoing && set(libc::PACKET_IGNORE_OUTGOING, 1).is_err();
        let hardware = match config.stamp {
            StampBy::Kernel => None,
            StampBy::Hardware => Some(sys::stamp_by_hardware(&socket, name)),
        };

        let rx_max = if config.vnet_hdr { chunk_room } else { frame_max };
        let (rx_slot, rx_block) = geometry(RX_NET_AT + VNET_LEN, rx_max + VLAN_LEN, config.rx_ring);
        let (tx_slot, tx_block) = geometry(TX_DATA_AT + VNET_LEN, frame_max + VLAN_LEN, config.tx_ring);
        sys::set_ring(&socket, libc::PACKET_RX_RING, rx_slot, config.rx_ring, rx_block)
            .map_err(failed("setsockopt(PACKET_RX_RING)"))?;
        sys::set_ring(&socket, libc::PACKET_TX_RING, tx_slot, config.tx_ring, tx_block)
            .map_err(failed("setsockopt(PACKET_TX_RING)"))?;
        let rx_len = rx_slot as usize * config.rx_ring as usize;
        let tx_len = tx_slot as usize * config.tx_ring as usize;
        let mapping = Mapping::new(&socket, rx_len + tx_len).map_err(failed("mmap(AF_PACKET rings)"))?;
        // SAFETY: the kernel laid the receive ring out first, then the transmit ring, in blocks that whole slots fill;
        // the port keeps the mapping as long as the rings, each of which is made once.
        let (rx, tx) = unsafe {
            (
                Ring::new(mapping.at, rx_slot as usize, config.rx_ring),
                Ring::new(mapping.at.add(rx_len), tx_slot as usize, config.tx_ring),
            )
        };
        sys::set_send_buffer(&socket, tx_slot.saturating_mul(config.tx_ring).saturating_mul(2));
        if config.promiscuous {
            sys::join_promiscuous(&socket, interface.index)
                .map_err(failed("setsockopt(PACKET_ADD_MEMBERSHIP)"))?;
        }
        sys::bind(&socket, interface.index).map_err(failed("bind(AF_PACKET)"))?;
        if let Some(fanout) = config.fanout {
            let group = u32::from(fanout.id) | (fanout.mode as u32) << 16;
            let leave_out =
                if config.ignore_outgoing { libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING << 16 } else { 0 };
            if set(libc::PACKET_FANOUT, (group | leave_out) as i32).is_err() {
                // Kernels before 5.10 do not know the flag.
                set(libc::PACKET_FANOUT, group as i32).map_err(failed("setsockopt(PACKET_FANOUT)"))?;
                skip_outgoing = config.ignore_outgoing;
            }
        }

        let stamps = match &hardware {
            None => "kernel stamps".to_owned(),
            Some(Ok(())) => "hardware stamps".to_owned(),
            Some(Err(e)) => format!("kernel stamps (no hardware stamps: {e})"),
        };
        let description = format!(
            "AF_PACKET on {name} ({}): TPACKET_V2 rings of {} and {} slots, {}, {}, {stamps}{}{}",
            interface.driver,
            config.rx_ring,
            config.tx_ring,
            if bypass { "past the queueing discipline" } else { "through the queueing discipline" },
            if config.vnet_hdr { "virtio headers" } else { "no virtio headers" },
            if config.promiscuous { ", promiscuous" } else { "" },
            config.fanout.map_or(String::new(), |f| format!(", fanout group {} ({:?})", f.id, f.mode)),
        );
        let caps = PortCaps {
            mtu: *mtu,
            frame_max,
            mac: interface.mac,
            rx_stamp: match hardware {
                Some(Ok(())) => StampSource::Hardware,
                _ => StampSource::Kernel,
            },
            queues: 1,
            in_place: false,
            zero_copy: false,
            tx_checksum: true,
            lossless_bits: false,
            description,
        };
        Ok(PacketPort {
            uri,
            caps,
            counters: PortCounters::default(),
            pool,
            rx,
            tx,
            rx_max: rx_max as usize,
            vnet_hdr: config.vnet_hdr,
            skip_outgoing,
            tx_pending: false,
            next_look: Instant::ZERO,
            dropped: 0,
            _mapping: mapping,
            socket,
        })
    }

    /// Opens the port that a URI names: [`PacketConfig::from_uri`], then [`open`](Self::open).
    ///
    /// # Errors
    /// Of both.
    pub fn from_uri(uri: &PortUri, pool: Pool) -> Result<PacketPort, OpenError> {
        PacketPort::open(PacketConfig::from_uri(uri)?, pool)
    }

    /// Copies the frame of receive slot `at`, whose status was `status`, into a frame of the pool.
    #[inline]
    fn take(&self, at: u32, status: u32) -> Result<Frame, DropReason> {
        let header = self.rx.read_header(at);
        let tag = tag_of(&header, status);
        let (tag_len, len) = (tag.map_or(0, |t| t.len()), header.snaplen as usize);
        let bytes = self.rx.bytes(at, usize::from(header.mac), len).ok_or(DropReason::Malformed)?;
        if len < ETH_LEN as usize {
            return Err(DropReason::Truncated);
        }
        let in_line = matches!(bytes[12..14], [0x81, 0x00] | [0x88, 0xa8]);
        let most = if in_line { self.rx_max + VLAN_LEN as usize } else { self.rx_max };
        if header.snaplen < header.len || len > most {
            return Err(DropReason::TooLarge);
        }
        let mut frame = self.pool.alloc().ok_or(DropReason::PoolEmpty)?;
        if !frame.set_len(len + tag_len) {
            return Err(DropReason::TooLarge);
        }
        let data = frame.data_mut();
        match tag {
            None => data.copy_from_slice(bytes),
            Some(tag) => {
                data[..12].copy_from_slice(&bytes[..12]);
                data[12..16].copy_from_slice(&tag);
                data[16..].copy_from_slice(&bytes[12..]);
            }
        }
        frame.set_stamp(stamp_of(&header, status));
        let state = match self.vnet_hdr {
            true => {
                let from = usize::from(header.mac).checked_sub(VNET_LEN).ok_or(DropReason::Malformed)?;
                let vnet = self.rx.bytes(at, from, VNET_LEN).ok_or(DropReason::Malformed)?;
                checksum_of_vnet(vnet, tag_len as u16)
            }
            false => checksum_of_status(status, frame.data())?,
        };
        frame.set_checksum(state);
        Ok(frame)
    }

    /// Writes `frame` into transmit slot `at`, which is ours.
    #[inline]
    fn put(&mut self, at: u32, frame: &mut Frame) -> Result<(), DropReason> {
        outgoing::check_len(frame.data(), self.caps.frame_max)?;
        let mut from = TX_DATA_AT;
        let mut len = frame.len();
        if self.vnet_hdr {
            let header = self.tx.bytes_mut(at, from, VNET_LEN).ok_or(DropReason::TooLarge)?;
            header.fill(0);
            if let ChecksumState::Partial { start, offset } = frame.checksum() {
                if usize::from(start) + usize::from(offset) + 2 > frame.len() {
                    return Err(DropReason::UnfinishedChecksum);
                }
                header[0] = VNET_NEEDS_CSUM;
                header[6..8].copy_from_slice(&start.to_ne_bytes());
                header[8..10].copy_from_slice(&offset.to_ne_bytes());
            }
            from += VNET_LEN;
            len += VNET_LEN;
        } else {
            outgoing::complete(frame)?;
        }
        let to = self.tx.bytes_mut(at, from, frame.len()).ok_or(DropReason::TooLarge)?;
        to.copy_from_slice(frame.data());
        self.tx.write_len(at, len as u32);
        Ok(())
    }

    /// Calls the kernel until it has taken the transmit ring, or makes no progress.
    fn kick(&mut self) -> Result<(), PortError> {
        for _ in 0..KICKS_MAX {
            self.counters.syscalls.add(1);
            let error = sys::kick(&self.socket);
            match error {
                0 => break,
                libc::EINTR => continue,
                // Memory or the device's queue is used up: the slot stays requested.
                libc::EAGAIN | libc::ENOBUFS => break,
                libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
                    let source = io::Error::from_raw_os_error(error);
                    return Err(PortError::Down { port: self.uri.clone(), source });
                }
                _ if self.remove_refused(error) => continue,
                _ => {
                    let source = io::Error::from_raw_os_error(error);
                    return Err(PortError::Io { port: self.uri.clone(), call: "sendto(AF_PACKET)", source });
                }
            }
        }
        // Slots are sent in order: when the last one was taken, all were.
        let last = self.tx.before(self.tx.next());
        self.tx_pending = self.tx.status(last) == libc::TP_STATUS_SEND_REQUEST;
        Ok(())
    }

    /// The kernel stops at a slot that it refuses (`TP_STATUS_WRONG_FORMAT`) and waits for a better one there: moves all
    /// later ones forward by one. False when there is no such slot.
    #[cold]
    fn remove_refused(&mut self, error: i32) -> bool {
        let Some(refused) =
            (0..self.tx.count()).find(|&at| self.tx.status(at) == libc::TP_STATUS_WRONG_FORMAT)
        else {
            return false;
        };
        self.counters.drops.count(match error {
            libc::EMSGSIZE => DropReason::TooLarge,
            _ => DropReason::Malformed,
        });
        let (mut to, end) = (refused, self.tx.next());
        loop {
            let from = self.tx.after(to);
            if from == end {
                break;
            }
            self.tx.copy_slot(from, to);
            self.tx.set_status(to, libc::TP_STATUS_SEND_REQUEST);
            to = from;
        }
        self.tx.set_status(to, libc::TP_STATUS_AVAILABLE);
        self.tx.rewind(to);
        true
    }

    /// Reads the kernel's drop count and the pending error: system calls, so rarely.
    #[cold]
    fn look(&mut self) -> Result<(), PortError> {
        self.counters.syscalls.add(2);
        self.dropped += sys::take_drops(&self.socket).map_or(0, u64::from);
        let new = self.dropped.min(FOLD_MAX);
        self.dropped -= new;
        for _ in 0..new {
            self.counters.drops.count(DropReason::RingFull);
        }
        match sys::pending_error(&self.socket) {
            Some(source) => Err(PortError::Down { port: self.uri.clone(), source }),
            None => Ok(()),
        }
    }
}

/// The length of a slot that holds `extra` bytes and a frame of `frame` bytes, and of the blocks that `slots` of them
/// fill exactly. All are powers of two, so that whole slots fill a block and whole pages, too.
fn geometry(extra: usize, frame: u32, slots: u32) -> (u32, u32) {
    // SAFETY: no arguments, no memory.
    let page = u32::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let slot = (align16(extra) as u32 + frame).next_power_of_two().max(page / slots);
    let block = u64::from(BLOCK_LEN.max(slot)).min(u64::from(slot) * u64::from(slots));
    (slot, block as u32)
}

/// The VLAN tag that was cut out of the frame, as it stood there.
#[inline]
fn tag_of(header: &Header, status: u32) -> Option<[u8; 4]> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { header.vlan_tpid } else { 0x8100 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), header.vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}

#[inline]
fn stamp_of(header: &Header, status: u32) -> Stamp {
    let ns = u64::from(header.sec) * 1_000_000_000 + u64::from(header.nsec);
    // Without a flag the kernel read the clock as it filled the slot.
    let (source, clock) = if status & libc::TP_STATUS_TS_RAW_HARDWARE != 0 {
        (StampSource::Hardware, ClockDomain::Nic)
    } else if status & libc::TP_STATUS_TS_SYS_HARDWARE != 0 {
        (StampSource::Hardware, ClockDomain::Realtime)
    } else {
        (StampSource::Kernel, ClockDomain::Realtime)
    };
    Stamp { ns, error_ns: 0, source, clock }
}

/// What the status says of the checksum. It does not say where an unfinished one lies: that is read from the frame, and
/// a frame for which that fails (a tunnel, an IPv6 extension header) is refused.
#[inline]
fn checksum_of_status(status: u32, frame: &[u8]) -> Result<ChecksumState, DropReason> {
    if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        let found = checksum::transport(frame).ok_or(DropReason::UnfinishedChecksum)?;
        return Ok(ChecksumState::Partial { start: found.start, offset: found.offset });
    }
    Ok(if status & libc::TP_STATUS_CSUM_VALID != 0 {
        ChecksumState::Verified
    } else {
        ChecksumState::Unknown
    })
}

/// What a virtio header says of the checksum; `shift` bytes were put into the frame before the transport header.
#[inline]
fn checksum_of_vnet(header: &[u8], shift: u16) -> ChecksumState {
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    if header[0] & VNET_NEEDS_CSUM != 0 {
        ChecksumState::Partial { start: word(6).saturating_add(shift), offset: word(8) }
    } else if header[0] & VNET_DATA_VALID != 0 {
        ChecksumState::Verified
    } else {
        ChecksumState::Unknown
    }
}

impl Port for PacketPort {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let (mut got, mut bytes, mut losing) = (0usize, 0u64, false);
        let mut room = burst.room();
        while room > 0 {
            let at = self.rx.next();
            let status = self.rx.status(at);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            losing |= status & libc::TP_STATUS_LOSING != 0;
            if !(self.skip_outgoing && self.rx.packet_type(at) == libc::PACKET_OUTGOING) {
                match self.take(at, status) {
                    Ok(frame) => {
                        bytes += frame.len() as u64;
                        got += 1;
                        // Never an error: there is room.
                        let _ = burst.push(frame);
                    }
                    Err(reason) => self.counters.drops.count(reason),
                }
            }
            self.rx.set_status(at, libc::TP_STATUS_KERNEL);
            self.rx.advance();
            room -= 1;
        }
        if got > 0 {
            self.counters.rx_frames.add(got as u64);
            self.counters.rx_bytes.add(bytes);
        }
        if self.tx_pending {
            self.kick()?;
        }
        if losing || now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            self.look()?;
        }
        Ok(got)
    }

    fn tx_burst(&mut self, _now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let (mut taken, mut queued, mut bytes) = (0usize, 0u64, 0u64);
        while !burst.is_empty() {
            let at = self.tx.next();
            if self.tx.status(at) != libc::TP_STATUS_AVAILABLE {
                self.counters.tx_full.add(1);
                break;
            }
            let Some(mut frame) = burst.pop() else { break };
            taken += 1;
            match self.put(at, &mut frame) {
                Ok(()) => {
                    self.tx.set_status(at, libc::TP_STATUS_SEND_REQUEST);
                    self.tx.advance();
                    queued += 1;
                    bytes += frame.len() as u64;
                }
                Err(reason) => self.counters.drops.count(reason),
            }
        }
        if queued > 0 {
            self.counters.tx_frames.add(queued);
            self.counters.tx_bytes.add(bytes);
        }
        if queued > 0 || self.tx_pending {
            self.kick()?;
        }
        Ok(taken)
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn prepare_wait(&mut self) -> bool {
        if self.tx_pending {
            // A port that is down says so at the next burst.
            let _ = self.kick();
        }
        !self.tx_pending && self.rx.status(self.rx.next()) & libc::TP_STATUS_USER == 0
    }
}

impl std::fmt::Debug for PacketPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.caps.description)
    }
}
