//! Opening: from what was asked for to a socket that is bound, with its rings.

use crate::calls::{Inbox, Outbox};
use crate::checksum::{MAX_CONTEXT, TAG_LEN};
use crate::config::{PacketConfig, StampBy};
use crate::interface::Interface;
use crate::outgoing::{ETH_LEN, VLAN_LEN};
use crate::port::{PacketPort, Receive, Transmit};
use crate::ring::{RX_NET_AT, Ring, TX_DATA_AT, align16};
use crate::sys::{self, Mapping};
use crate::vnet::VNET_LEN;
use barewire_base::Instant;
use barewire_frame::{Pool, StampSource};
use barewire_port::{ChecksumOffload, OpenError, PortCaps, PortCounters, PortUri};
use std::io;
use std::os::fd::OwnedFd;

/// Smallest contiguous piece that the kernel allocates for a ring.
const BLOCK_LEN: u32 = 1 << 16;
/// Smallest chunk for frames that are left whole: TCP makes them up to 65,226 bytes with the usual MTU.
const GSO_CHUNK_MIN: u32 = 1 << 16;
/// Bytes of received frames that the kernel keeps without a ring. It counts its own memory for them, and doubles what is asked
/// for: some 10,000 frames of 1,500 bytes, or 230 of 64 KiB.
const RECEIVE_BUFFER: i32 = 8 << 20;
/// Bytes of sent frames that may be under way without a ring, counted the same way.
const SEND_BUFFER: u32 = 8 << 20;

/// What the steps of opening have in common.
struct Opening<'a> {
    uri: &'a str,
    config: &'a PacketConfig,
    interface: &'a Interface,
    socket: OwnedFd,
}

/// A system call that failed, as an error.
fn failed(uri: &str, call: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let uri = uri.to_owned();
    move |source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::NotPermitted { uri, call, needs: "CAP_NET_RAW" },
        _ => OpenError::Io { uri, call, source },
    }
}

/// The longest frame of the interface, where it is fit for us and the pool's chunks hold its frames.
fn frame_max(uri: &str, config: &PacketConfig, interface: &Interface, pool: &Pool) -> Result<u32, OpenError> {
    let unsupported = |what: String| OpenError::Unsupported { uri: uri.to_owned(), what };
    let Interface { name, mtu, .. } = interface;
    if !interface.ethernet {
        return Err(unsupported(format!("`{name}` is not an Ethernet interface")));
    }
    if !interface.up {
        let why = format!("interface `{name}` is down; hint: ip link set dev {name} up");
        return Err(failed(uri, "bind(AF_PACKET)")(io::Error::new(io::ErrorKind::NetworkDown, why)));
    }
    if config.gso && pool.chunk_len() < GSO_CHUNK_MIN {
        return Err(unsupported(format!(
            "gso=1 with chunks of {} bytes; hint: use a pool with chunk_len={GSO_CHUNK_MIN}",
            pool.chunk_len()
        )));
    }
    let frame_max = mtu.saturating_add(ETH_LEN);
    let chunk_room = pool.frame_max() as u32;
    if most(frame_max) > chunk_room {
        let fits = chunk_room.saturating_sub(most(ETH_LEN));
        return Err(unsupported(format!(
            "MTU {mtu} of `{name}` with chunks that hold an MTU of {fits}; hint: use a pool with a larger \
             chunk_len, or lower it: ip link set dev {name} mtu {fits}"
        )));
    }
    Ok(frame_max)
}

/// Bytes of a frame, and of the VLAN tag that the kernel hands over beside it.
fn most(frame: u32) -> u32 {
    frame.saturating_add(VLAN_LEN)
}

/// The same of a received one, which a switch's program in the kernel may have put its tag before. Whether chunks have room for that, too,
/// is for the switch to see to.
fn most_received(frame: u32) -> u32 {
    most(frame).saturating_add((TAG_LEN + MAX_CONTEXT) as u32)
}

impl Opening<'_> {
    fn set(&self, option: i32, value: i32) -> io::Result<()> {
        sys::set_int(&self.socket, option, value)
    }

    fn failed(&self, call: &'static str) -> impl FnOnce(io::Error) -> OpenError {
        failed(self.uri, call)
    }

    /// Asks for a ring behind those that take `len` bytes already. Where it begins, and the length of a slot; `None` for no slots.
    fn add_ring(
        &self,
        (ring, call): (i32, &'static str),
        (offset, frame, slots): (usize, u32, u32),
        len: &mut usize,
    ) -> Result<Option<(usize, u32)>, OpenError> {
        if slots == 0 {
            return Ok(None);
        }
        let (slot, block) = geometry(offset + VNET_LEN, frame, slots);
        sys::set_ring(&self.socket, ring, slot, slots, block).map_err(self.failed(call))?;
        let at = *len;
        *len += slot as usize * slots as usize;
        Ok(Some((at, slot)))
    }

    /// How frames come and go: by rings in one mapping, or by calls.
    fn ways(&self, rx_max: u32, tx_max: u32) -> Result<(Option<Mapping>, Receive, Transmit), OpenError> {
        let (config, socket) = (self.config, &self.socket);
        let mut len = 0;
        // In the order in which the kernel lays them out.
        let rx_ring = (libc::PACKET_RX_RING, "setsockopt(PACKET_RX_RING)");
        let rx_at = self.add_ring(rx_ring, (RX_NET_AT, most_received(rx_max), config.rx_ring), &mut len)?;
        let tx_ring = (libc::PACKET_TX_RING, "setsockopt(PACKET_TX_RING)");
        let tx_at = self.add_ring(tx_ring, (TX_DATA_AT, most(tx_max), config.tx_ring), &mut len)?;
        let mapping = match len {
            0 => None,
            len => Some(Mapping::new(socket, len).map_err(self.failed("mmap(AF_PACKET rings)"))?),
        };
        let ring = |at: Option<(usize, u32)>, slots: u32| match (&mapping, at) {
            (Some(mapping), Some((at, slot))) => {
                // SAFETY: the kernel laid the receive ring out first, then the transmit ring, in blocks that whole slots
                // fill; the port keeps the mapping as long as the rings, each of which is made once.
                Some(unsafe { Ring::new(mapping.at.add(at), slot as usize, slots) })
            }
            _ => None,
        };
        let rx = match ring(rx_at, config.rx_ring) {
            Some(ring) => Receive::Ring(ring),
            None => {
                self.set(libc::PACKET_AUXDATA, 1).map_err(self.failed("setsockopt(PACKET_AUXDATA)"))?;
                if config.stamp == StampBy::Kernel {
                    sys::stamp_messages(socket).map_err(self.failed("setsockopt(SO_TIMESTAMPNS)"))?;
                }
                sys::set_receive_buffer(socket, RECEIVE_BUFFER);
                Receive::Calls(Box::new(Inbox::new(most_received(rx_max) as usize, config.vnet_hdr)))
            }
        };
        let tx = match ring(tx_at, config.tx_ring) {
            Some(ring) => {
                let slot = tx_at.map_or(0, |(_, slot)| slot);
                sys::set_send_buffer(socket, slot.saturating_mul(config.tx_ring).saturating_mul(2));
                Transmit::Ring(ring)
            }
            None => {
                sys::set_send_buffer(socket, SEND_BUFFER);
                Transmit::Calls(Box::new(Outbox::new()))
            }
        };
        Ok((mapping, rx, tx))
    }

    /// Joins the fanout group, if there is one. Whether the kernel knows how to leave out what this host sends.
    fn join_fanout(&self) -> Result<bool, OpenError> {
        let Some(fanout) = self.config.fanout else { return Ok(true) };
        let group = u32::from(fanout.id) | (fanout.mode as u32) << 16;
        let leave_out =
            if self.config.ignore_outgoing { libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING << 16 } else { 0 };
        if self.set(libc::PACKET_FANOUT, (group | leave_out) as i32).is_ok() {
            return Ok(true);
        }
        // Kernels before 5.10 do not know the flag.
        self.set(libc::PACKET_FANOUT, group as i32).map_err(self.failed("setsockopt(PACKET_FANOUT)"))?;
        Ok(false)
    }

    /// What the port is, for people. `hardware`: what became of hardware stamps where they were asked for.
    fn describe(&self, bypass: bool, hardware: Option<&io::Result<()>>) -> String {
        let config = self.config;
        let stamps = match hardware {
            None if config.stamp == StampBy::Engine => "engine stamps".to_owned(),
            None => "kernel stamps".to_owned(),
            Some(Ok(())) => "hardware stamps".to_owned(),
            Some(Err(e)) => format!("kernel stamps (no hardware stamps: {e})"),
        };
        format!(
            "AF_PACKET on {} ({}): {}, {}, {}, {stamps}{}{}",
            self.interface.name,
            self.interface.driver,
            match (config.rx_ring, config.tx_ring) {
                (0, 0) => "recvmmsg and sendmmsg".to_owned(),
                (0, tx) => format!("recvmmsg, a TPACKET_V2 ring of {tx} slots to send"),
                (rx, 0) => format!("a TPACKET_V2 ring of {rx} slots to receive, sendmmsg"),
                (rx, tx) => format!("TPACKET_V2 rings of {rx} and {tx} slots"),
            },
            if bypass { "past the queueing discipline" } else { "through the queueing discipline" },
            match (config.gso, config.vnet_hdr) {
                (true, _) => "virtio headers, frames left whole (GSO)",
                (false, true) => "virtio headers",
                (false, false) => "no virtio headers",
            },
            if config.promiscuous { ", promiscuous" } else { "" },
            config.fanout.map_or(String::new(), |f| format!(", fanout group {} ({:?})", f.id, f.mode))
                + &config.mark.map_or(String::new(), |mark| format!(", frames with mark {mark:#x}")),
        )
    }
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
        let frame_max = frame_max(&uri, &config, &interface, &pool)?;
        let chunk_room = pool.frame_max() as u32;

        let socket = sys::socket().map_err(failed(&uri, "socket(AF_PACKET)"))?;
        let opening = Opening { uri: &uri, config: &config, interface: &interface, socket };
        opening
            .set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)
            .map_err(opening.failed("setsockopt(PACKET_VERSION)"))?;
        if config.vnet_hdr {
            opening.set(libc::PACKET_VNET_HDR, 1).map_err(opening.failed("setsockopt(PACKET_VNET_HDR)"))?;
        }
        let bypass = config.qdisc_bypass && opening.set(libc::PACKET_QDISC_BYPASS, 1).is_ok();
        // Kernels before 4.20 do not know the option.
        let mut skip_outgoing =
            config.ignore_outgoing && opening.set(libc::PACKET_IGNORE_OUTGOING, 1).is_err();
        let hardware = match config.stamp {
            StampBy::Kernel | StampBy::Engine => None,
            StampBy::Hardware => Some(sys::stamp_by_hardware(&opening.socket, &interface.name)),
        };
        let rx_max = if config.vnet_hdr { chunk_room } else { frame_max };
        let tx_max = if config.gso { chunk_room } else { frame_max };
        let (mapping, rx, tx) = opening.ways(rx_max, tx_max)?;
        if config.promiscuous {
            sys::join_promiscuous(&opening.socket, interface.index)
                .map_err(opening.failed("setsockopt(PACKET_ADD_MEMBERSHIP)"))?;
        }
        if let Some(mark) = config.mark {
            sys::take_marked(&opening.socket, mark)
                .map_err(opening.failed("setsockopt(SO_ATTACH_FILTER)"))?;
        }
        sys::bind(&opening.socket, interface.index).map_err(opening.failed("bind(AF_PACKET)"))?;
        if !opening.join_fanout()? {
            skip_outgoing = config.ignore_outgoing;
        }
        if skip_outgoing && config.rx_ring == 0 {
            let what = "ignore_outgoing=1 without a receive ring; hint: rx=2048".to_owned();
            return Err(OpenError::Unsupported { uri, what });
        }

        let caps = PortCaps {
            mtu: interface.mtu,
            frame_max,
            mac: interface.mac,
            rx_stamp: match hardware {
                Some(Ok(())) => StampSource::Hardware,
                None if config.stamp == StampBy::Engine => StampSource::Engine,
                _ => StampSource::Kernel,
            },
            queues: 1,
            in_place: false,
            zero_copy: false,
            tx_checksum: true,
            checksum_offload: ChecksumOffload::default(),
            lossless_bits: false,
            description: opening.describe(bypass, hardware.as_ref()),
        };
        let socket = opening.socket;
        Ok(PacketPort {
            uri,
            caps,
            counters: PortCounters::default(),
            pool,
            rx,
            tx,
            rx_max: rx_max as usize,
            vnet_hdr: config.vnet_hdr,
            gso: config.gso,
            stamp: config.stamp,
            config,
            skip_outgoing,
            tx_pending: false,
            refused_since: None,
            refused_slot: 0,
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
