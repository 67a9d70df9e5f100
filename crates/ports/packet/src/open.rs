//! Opening: from what was asked for to a socket that is bound, with its rings.

use crate::calls::{Inbox, Outbox};
use crate::config::{PacketConfig, StampBy};
use crate::interface::Interface;
use crate::outgoing::{ETH_LEN, VLAN_LEN};
use crate::port::{PacketPort, Receive, Transmit};
use crate::ring::{RX_NET_AT, Ring, TX_DATA_AT, align16};
use crate::sys::{self, Mapping};
use crate::vnet::VNET_LEN;
use barewire_base::Instant;
use barewire_frame::{Pool, StampSource};
use barewire_port::{OpenError, PortCaps, PortCounters, PortUri};
use std::io;

/// Smallest contiguous piece that the kernel allocates for a ring.
const BLOCK_LEN: u32 = 1 << 16;
/// Smallest chunk for frames that are left whole: TCP makes them up to 65,226 bytes with the usual MTU.
const GSO_CHUNK_MIN: u32 = 1 << 16;
/// Bytes of received frames that the kernel keeps without a ring. It counts its own memory for them, and doubles what is asked
/// for: some 10,000 frames of 1,500 bytes, or 230 of 64 KiB.
const RECEIVE_BUFFER: i32 = 8 << 20;
/// Bytes of sent frames that may be under way without a ring, counted the same way.
const SEND_BUFFER: u32 = 8 << 20;

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
        if config.gso && pool.chunk_len() < GSO_CHUNK_MIN {
            return Err(unsupported(format!(
                "gso=1 with chunks of {} bytes; hint: use a pool with chunk_len={GSO_CHUNK_MIN}",
                pool.chunk_len()
            )));
        }
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
            StampBy::Kernel | StampBy::Engine => None,
            StampBy::Hardware => Some(sys::stamp_by_hardware(&socket, name)),
        };

        let rx_max = if config.vnet_hdr { chunk_room } else { frame_max };
        let tx_max = if config.gso { chunk_room } else { frame_max };
        let most = |frame: u32| frame.saturating_add(VLAN_LEN);
        let mut rings_len = 0;
        let mut add_ring = |ring, call, offset: usize, frame: u32, slots: u32| {
            let (slot, block) = geometry(offset + VNET_LEN, frame, slots);
            sys::set_ring(&socket, ring, slot, slots, block).map_err(failed(call))?;
            let at = rings_len;
            rings_len += slot as usize * slots as usize;
            Ok((at, slot))
        };
        // In the order in which the kernel lays them out.
        let rx_at = match config.rx_ring {
            0 => None,
            slots => Some(add_ring(
                libc::PACKET_RX_RING,
                "setsockopt(PACKET_RX_RING)",
                RX_NET_AT,
                most(rx_max),
                slots,
            )?),
        };
        let tx_at = match config.tx_ring {
            0 => None,
            slots => Some(add_ring(
                libc::PACKET_TX_RING,
                "setsockopt(PACKET_TX_RING)",
                TX_DATA_AT,
                most(tx_max),
                slots,
            )?),
        };
        let mapping = match rings_len {
            0 => None,
            len => Some(Mapping::new(&socket, len).map_err(failed("mmap(AF_PACKET rings)"))?),
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
                set(libc::PACKET_AUXDATA, 1).map_err(failed("setsockopt(PACKET_AUXDATA)"))?;
                if config.stamp == StampBy::Kernel {
                    sys::stamp_messages(&socket).map_err(failed("setsockopt(SO_TIMESTAMPNS)"))?;
                }
                sys::set_receive_buffer(&socket, RECEIVE_BUFFER);
                Receive::Calls(Box::new(Inbox::new(most(rx_max) as usize, config.vnet_hdr)))
            }
        };
        let tx = match ring(tx_at, config.tx_ring) {
            Some(ring) => {
                let slot = tx_at.map_or(0, |(_, slot)| slot);
                sys::set_send_buffer(&socket, slot.saturating_mul(config.tx_ring).saturating_mul(2));
                Transmit::Ring(ring)
            }
            None => {
                sys::set_send_buffer(&socket, SEND_BUFFER);
                Transmit::Calls(Box::new(Outbox::new()))
            }
        };
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

        if skip_outgoing && config.rx_ring == 0 {
            return Err(unsupported("ignore_outgoing=1 without a receive ring; hint: rx=2048".to_owned()));
        }

        let stamps = match &hardware {
            None if config.stamp == StampBy::Engine => "engine stamps".to_owned(),
            None => "kernel stamps".to_owned(),
            Some(Ok(())) => "hardware stamps".to_owned(),
            Some(Err(e)) => format!("kernel stamps (no hardware stamps: {e})"),
        };
        let description = format!(
            "AF_PACKET on {name} ({}): {}, {}, {}, {stamps}{}{}",
            interface.driver,
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
            config.fanout.map_or(String::new(), |f| format!(", fanout group {} ({:?})", f.id, f.mode)),
        );
        let caps = PortCaps {
            mtu: *mtu,
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
