//! Where an emulated channel's packets go: to groups by sockets, or into a capture.

use super::{Emitted, Emulator};
use barewire_base::{Counter, Duration, Instant};
use barewire_engine::{IdleStrategy, StopFlag};
use barewire_feed_handler::{Connection, FeedType, Interface, Side, SourceError};
use barewire_port::PcapWriter;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// Hops that emulated packets may go.
const TTL: u32 = 16;
/// Sleeps are cut short by this and the rest is spun: a sleep ends late.
const SLEEP_SLACK: Duration = Duration::from_micros(100);
/// The longest sleep between two looks at the stop flag.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Lines for an emulated channel: incremental, instrument and snapshot feeds on both sides, at
/// 239.90.(channel mod 256).(1 to 6) and UDP ports from `first_udp_port` on.
pub fn connections(channel_id: u16, first_udp_port: u16) -> Vec<Connection> {
    let feeds = [FeedType::Incremental, FeedType::Instrument, FeedType::Snapshot];
    let lines = [Side::A, Side::B].into_iter().flat_map(|side| feeds.map(|feed| (feed, side)));
    lines
        .enumerate()
        .map(|(index, (feed, side))| {
            let group = Ipv4Addr::new(239, 90, channel_id as u8, index as u8 + 1);
            Connection {
                id: format!("{channel_id}{}{side}", feed.letters()),
                feed,
                side,
                to: SocketAddr::new(group.into(), first_udp_port.saturating_add(index as u16)),
                sources: Vec::new(),
            }
        })
        .collect()
}

/// The lines of the loop of books by order, of an emulated channel that publishes every order: groups 7 and 8 of those of
/// [`connections`], and the two UDP ports behind theirs.
pub fn order_connections(channel_id: u16, first_udp_port: u16) -> Vec<Connection> {
    let feed = FeedType::SnapshotMbo;
    let line = |(side, index): (Side, u8)| Connection {
        id: format!("{channel_id}{}{side}", feed.letters()),
        feed,
        side,
        to: SocketAddr::new(
            Ipv4Addr::new(239, 90, channel_id as u8, index + 1).into(),
            first_udp_port.saturating_add(index.into()),
        ),
        sources: Vec::new(),
    };
    [(Side::A, 6), (Side::B, 7)].map(line).into()
}

/// Sends an emulated channel's packets to its groups.
pub struct Sender {
    lines: Vec<(FeedType, Side, SockAddr, usize)>,
    sockets: Vec<Socket>,
    /// Packets sent.
    pub sent: Counter,
    /// Packets that the kernel would not take: its buffers were full.
    pub refused: Counter,
}

impl Sender {
    /// Opens a socket for each family of the lines' groups. `interface`: the name or an address of the interface to send
    /// from; without one the kernel's routes decide.
    ///
    /// # Errors
    /// [`SourceError`] of the interface or a call.
    pub fn open(connections: &[Connection], interface: Option<&str>) -> Result<Sender, SourceError> {
        let on = interface.map(Interface::find).transpose()?;
        let mut sockets: Vec<(bool, Socket)> = Vec::new();
        let mut lines = Vec::new();
        for connection in connections.iter().filter(|c| c.feed != FeedType::Historical) {
            let v4 = connection.to.is_ipv4();
            let index = match sockets.iter().position(|(family, _)| *family == v4) {
                Some(index) => index,
                None => {
                    sockets.push((v4, open_socket(v4, on.as_ref())?));
                    sockets.len() - 1
                }
            };
            lines.push((connection.feed, connection.side, SockAddr::from(connection.to), index));
        }
        let sockets = sockets.into_iter().map(|(_, socket)| socket).collect();
        Ok(Sender { lines, sockets, sent: Counter::new(), refused: Counter::new() })
    }

    /// Sends one packet, if the line is one of ours.
    ///
    /// # Errors
    /// [`SourceError::Sys`] for anything but full buffers.
    pub fn send(&self, packet: &Emitted<'_>) -> Result<(), SourceError> {
        let line = self.lines.iter().find(|(feed, side, _, _)| (*feed, *side) == (packet.feed, packet.side));
        let Some((feed, side, to, socket)) = line else { return Ok(()) };
        match self.sockets[*socket].send_to(packet.payload, to) {
            Ok(_) => self.sent.add(1),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock) || e.raw_os_error() == Some(ENOBUFS) => {
                self.refused.add(1);
            }
            Err(e) => return Err(SourceError::sys(format!("line {}{side}", feed.letters()), "sendto")(e)),
        }
        Ok(())
    }

    /// Runs an emulator in real time, until `until` or until `stop` is raised. The emulator must have been made with a
    /// start near [`barewire_engine::now`].
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn run(
        &self,
        emulator: &mut Emulator,
        until: Instant,
        idle: IdleStrategy,
        stop: Option<&StopFlag>,
    ) -> Result<(), SourceError> {
        loop {
            let now = barewire_engine::now().min(until);
            let mut result = Ok(());
            emulator.next_packets(now, &mut |packet| {
                if result.is_ok() {
                    result = self.send(packet);
                }
            });
            result?;
            if now >= until || stop.is_some_and(StopFlag::is_stopped) {
                return Ok(());
            }
            let left = emulator.next_deadline().min(until).since(barewire_engine::now());
            match idle {
                IdleStrategy::Park { .. } if left > SLEEP_SLACK => {
                    let sleep = Duration::from_nanos(left.as_nanos() - SLEEP_SLACK.as_nanos()).min(SLEEP_MAX);
                    std::thread::sleep(sleep.into());
                }
                IdleStrategy::Spin => std::hint::spin_loop(),
                _ => std::thread::yield_now(),
            }
        }
    }
}

const ENOBUFS: i32 = nix::errno::Errno::ENOBUFS as i32;

fn open_socket(v4: bool, on: Option<&Interface>) -> Result<Socket, SourceError> {
    let failed = |call| SourceError::sys("the emulator's socket", call);
    let domain = if v4 { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(failed("socket"))?;
    if v4 {
        socket.set_multicast_ttl_v4(TTL).map_err(failed("IP_MULTICAST_TTL"))?;
        socket.set_multicast_loop_v4(true).map_err(failed("IP_MULTICAST_LOOP"))?;
        if let Some(on) = on {
            let address = on.v4.ok_or_else(|| SourceError::NoAddress {
                name: on.name.clone(),
                family: "IPv4",
                group: Ipv4Addr::new(239, 0, 0, 0).into(),
            })?;
            socket.set_multicast_if_v4(&address).map_err(failed("IP_MULTICAST_IF"))?;
        }
    } else {
        socket.set_multicast_hops_v6(TTL).map_err(failed("IPV6_MULTICAST_HOPS"))?;
        socket.set_multicast_loop_v6(true).map_err(failed("IPV6_MULTICAST_LOOP"))?;
        if let Some(on) = on {
            socket.set_multicast_if_v6(on.index).map_err(failed("IPV6_MULTICAST_IF"))?;
        }
    }
    Ok(socket)
}

/// Writes an emulated channel's packets into a capture, as they arrive. The stamps are the emulation's time.
pub struct CaptureWriter {
    writer: PcapWriter<File>,
    path: String,
    lines: Vec<Connection>,
    frame: Vec<u8>,
    start: Instant,
    epoch_ns: u64,
}

impl CaptureWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// [`SourceError::File`].
    pub fn create(path: &Path, connections: &[Connection], emulator: &Emulator) -> Result<Self, SourceError> {
        let shown = path.display().to_string();
        let writer =
            PcapWriter::create(path).map_err(|source| SourceError::File { path: shown.clone(), source })?;
        Ok(CaptureWriter {
            writer,
            path: shown,
            lines: connections.to_vec(),
            frame: Vec::with_capacity(1 << 16),
            start: emulator.start,
            epoch_ns: emulator.config.epoch_ns,
        })
    }

    /// Writes one packet, if its line is one of ours.
    ///
    /// # Errors
    /// [`SourceError::File`].
    pub fn write(&mut self, packet: &Emitted<'_>) -> Result<(), SourceError> {
        let line = self.lines.iter().find(|c| (c.feed, c.side) == (packet.feed, packet.side));
        let Some(line) = line else { return Ok(()) };
        if !line.write_frame(packet.payload, &mut self.frame) {
            return Ok(());
        }
        let ns = self.epoch_ns + packet.at.since(self.start).as_nanos();
        self.writer
            .write(ns, &self.frame)
            .map_err(|source| SourceError::File { path: self.path.clone(), source })
    }

    /// Hands what is buffered to the system.
    ///
    /// # Errors
    /// [`SourceError::File`].
    pub fn finish(mut self) -> Result<(), SourceError> {
        self.writer.flush().map_err(|source| SourceError::File { path: self.path.clone(), source })
    }
}
