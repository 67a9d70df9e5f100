//! The socket source: one UDP socket a line, drained with recvmmsg, each packet with the kernel's or the card's stamp.
//!
//! It never blocks. An engine that spins calls [`poll`](Source::poll) round and round; one that parks sleeps in epoll on
//! the sockets, which is what a blocking receiver does. `SO_BUSY_POLL` lets the kernel look at the card's queue itself
//! when a socket is empty.

use super::interface::{Interface, join, leave};
use super::{Consumer, Packet, Source};
use crate::plan::{BURST_MAX, ChannelPlan, SocketOptions, StampBy};
use crate::{Connection, FeedType, LineId, Side, SourceError};
use barewire_base::{Counter, Duration, Instant};
use barewire_frame::{ClockDomain, Stamp, StampSource};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, TimestampingFlag, Timestamps, recvmmsg, setsockopt,
    sockopt,
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// The loops' sockets are looked at once in so many rounds: a look costs a system call, and nobody waits for them.
const COLD_EVERY: u32 = 16;

/// What a [`SocketSource`] has counted.
#[derive(Debug, Default)]
pub struct SocketCounts {
    /// Packets handed over.
    pub packets: Counter,
    /// Bytes of their payload.
    pub bytes: Counter,
    /// System calls.
    pub syscalls: Counter,
    /// Packets that the kernel dropped because a receive buffer was full.
    pub kernel_drops: Counter,
    /// Packets longer than `packet_bytes_max`, dropped.
    pub truncated: Counter,
    /// Packets that have the engine's stamp because the kernel delivered none.
    pub unstamped: Counter,
    /// Times that a line could not be received from or joined.
    pub line_faults: Counter,
    /// Times that memory for control messages was made anew, because the kernel had more to say than before.
    pub headers_renewed: Counter,
}

/// Times that control messages grow in the life of a socket: at the first stamp, which the kernel begins to take a moment
/// after it was asked, and at the first drop.
const SPARES: usize = 2;

struct Line {
    id: LineId,
    socket: Socket,
    headers: MultiHeaders<()>,
    /// What takes its place when the kernel has more to say than before.
    spares: Vec<MultiHeaders<()>>,
    /// The kernel's drop count when it was last told.
    dropped: u32,
    /// Looked at in every round.
    hot: bool,
    /// The last look found a full burst.
    more: bool,
    /// What to join again: the group, its senders, the interface.
    membership: (IpAddr, Vec<IpAddr>, Option<Interface>),
    joined: bool,
    wanted: bool,
    /// When a packet came last, or the line was joined.
    heard: Instant,
    /// Silent for so long, the line is joined anew: an interface that was made anew has forgotten its groups.
    silence: Duration,
    /// It has failed: when it is tried again, and whether the consumer has been told.
    fault: Option<(Instant, bool)>,
}

/// Time between two attempts at a line that has failed.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// UDP sockets of the kernel, one for each line.
pub struct SocketSource {
    lines: Vec<Line>,
    options: SocketOptions,
    buffer: Box<[u8]>,
    round: u32,
    /// The next round looks at every socket: the engine has slept.
    all: bool,
    granted_bytes: usize,
    counts: SocketCounts,
    /// Time of the last round.
    now: Instant,
    /// When the lines are looked at for silence and faults.
    look_at: Instant,
    last_fault: Option<SourceError>,
}

impl SocketSource {
    /// Opens, binds and joins a socket for each line that the channels receive, in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`SourceError`] that names the line and the call.
    pub fn open(channels: &[ChannelPlan], options: &SocketOptions) -> Result<SocketSource, SourceError> {
        let interface = |name: &Option<String>| name.as_deref().map(Interface::find).transpose();
        let on_a = interface(&options.interface_a)?;
        let on_b = interface(&options.interface_b)?.or_else(|| on_a.clone());
        let mut lines = Vec::new();
        let mut granted_bytes = usize::MAX;
        for (index, channel) in channels.iter().enumerate() {
            for connection in channel.received() {
                let on = if connection.side == Side::A { &on_a } else { &on_b };
                let socket = open_socket(connection, on.as_ref(), options)?;
                granted_bytes = granted_bytes.min(socket.recv_buffer_size().unwrap_or(0));
                lines.push(Line {
                    id: LineId { channel: index as u16, feed: connection.feed, side: connection.side },
                    socket,
                    headers: headers(options.burst),
                    spares: (0..SPARES).map(|_| headers(options.burst)).collect(),
                    dropped: 0,
                    hot: connection.feed == FeedType::Incremental,
                    more: false,
                    membership: (connection.to.ip(), sources(connection, options).to_vec(), on.clone()),
                    joined: true,
                    wanted: true,
                    heard: Instant::ZERO,
                    silence: channel.heartbeat_timeout,
                    fault: None,
                });
            }
        }
        let bytes = options.burst as usize * options.packet_bytes_max as usize;
        Ok(SocketSource {
            lines,
            options: options.clone(),
            buffer: vec![0; bytes].into_boxed_slice(),
            round: 0,
            all: true,
            granted_bytes,
            counts: SocketCounts::default(),
            now: Instant::ZERO,
            look_at: Instant::ZERO,
            last_fault: None,
        })
    }

    /// What has been counted.
    pub fn socket_counts(&self) -> &SocketCounts {
        &self.counts
    }

    /// The smallest receive buffer that the kernel granted, in its own accounting (twice what was asked for, when all was).
    pub fn granted_receive_buffer_bytes(&self) -> usize {
        self.granted_bytes
    }

    /// A line has failed, and will be tried again.
    #[cold]
    fn failed(&mut self, at: usize, error: SourceError) {
        self.counts.line_faults.add(1);
        let line = &mut self.lines[at];
        let told = line.fault.is_some_and(|(_, told)| told);
        line.fault = Some((self.now + RETRY_EVERY, told));
        self.look_at = self.look_at.min(self.now + RETRY_EVERY);
        self.last_fault = Some(error);
    }

    /// Joins or leaves a line's group as it is wanted. `anew`: the interface is looked up again, since it may be another by now, and
    /// what is left of the membership is given up first.
    fn follow(&mut self, at: usize, anew: bool) {
        let line = &mut self.lines[at];
        let (group, sources, on) = &mut line.membership;
        let result = (|| {
            if anew {
                // Of an interface that is gone there is nothing to leave.
                let _ = leave(&line.socket, *group, sources, on.as_ref());
                line.joined = false;
                if let Some(interface) = on {
                    *interface = Interface::find(&interface.name)?;
                }
            }
            match (line.wanted, line.joined) {
                (true, false) => join(&line.socket, *group, sources, on.as_ref()),
                (false, true) => leave(&line.socket, *group, sources, on.as_ref()),
                _ => Ok(()),
            }
        })();
        match result {
            Ok(()) => {
                (line.joined, line.heard, line.fault) = (line.wanted, self.now, None);
            }
            Err(error) => self.failed(at, error),
        }
    }

    /// Tries lines again that have failed, or have been silent for too long, and tells of those that fail.
    #[cold]
    fn look_after_lines(&mut self, consumer: &mut dyn Consumer) {
        let now = self.now;
        self.look_at = now + RETRY_EVERY;
        for at in 0..self.lines.len() {
            let line = &mut self.lines[at];
            if line.heard == Instant::ZERO {
                line.heard = now;
            }
            let silent = line.wanted && now >= line.heard + line.silence;
            if line.fault.is_some_and(|(retry_at, _)| now >= retry_at) || silent {
                line.heard = now;
                self.follow(at, true);
            }
            let line = &mut self.lines[at];
            if let (Some((_, told @ false)), Some(error)) = (&mut line.fault, &self.last_fault) {
                *told = true;
                consumer.on_line_fault(now, line.id, error);
            }
        }
    }

    /// How many sockets there are.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }
}

/// Fresh memory for one call's control messages: a stamp and a drop count for each packet.
fn headers(burst: u32) -> MultiHeaders<()> {
    MultiHeaders::preallocate(burst as usize, Some(cmsg_space!(Timestamps, u32)))
}

fn open_socket(
    connection: &Connection,
    on: Option<&Interface>,
    options: &SocketOptions,
) -> Result<Socket, SourceError> {
    let name = &connection.id;
    let failed = |call| SourceError::sys(format!("line {name}"), call);
    let to = connection.to;
    let socket =
        Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP)).map_err(failed("socket"))?;
    socket.set_nonblocking(true).map_err(failed("O_NONBLOCK"))?;
    // Other handlers on this machine listen to the same groups.
    socket.set_reuse_address(true).map_err(failed("SO_REUSEADDR"))?;
    let wanted = options.receive_buffer_bytes as usize;
    if setsockopt(&socket.as_fd(), sockopt::RcvBufForce, &wanted).is_err() {
        socket.set_recv_buffer_size(wanted).map_err(failed("SO_RCVBUF"))?;
    }
    let sockets_own = |e: Errno| io::Error::from(e);
    setsockopt(&socket.as_fd(), sockopt::RxqOvfl, &1).map_err(sockets_own).map_err(failed("SO_RXQ_OVFL"))?;
    let software =
        TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    let hardware =
        TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE | TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE;
    let stamping = match options.stamps {
        StampBy::Engine => None,
        StampBy::Kernel => Some(software),
        StampBy::Hardware => Some(software | hardware),
    };
    if let Some(flags) = stamping {
        setsockopt(&socket.as_fd(), sockopt::Timestamping, &flags)
            .map_err(sockets_own)
            .map_err(failed("SO_TIMESTAMPING"))?;
    }
    if options.busy_poll_us > 0 {
        socket.set_busy_poll(options.busy_poll_us).map_err(failed("SO_BUSY_POLL"))?;
    }
    // Only groups that this socket itself joins, and only from the interface that it joins them on.
    if to.is_ipv4() {
        socket.set_multicast_all_v4(false).map_err(failed("IP_MULTICAST_ALL"))?;
    } else {
        socket.set_only_v6(true).map_err(failed("IPV6_V6ONLY"))?;
        socket.set_multicast_all_v6(false).map_err(failed("IPV6_MULTICAST_ALL"))?;
    }
    socket.bind(&SockAddr::from(to)).map_err(failed("bind"))?;
    join(&socket, to.ip(), sources(connection, options), on)?;
    Ok(socket)
}

/// Whom a line is heard from; empty: anybody.
fn sources<'a>(connection: &'a Connection, options: &SocketOptions) -> &'a [IpAddr] {
    if options.source_filter { &connection.sources } else { &[] }
}

/// What the kernel says beside a packet.
struct ControlMessages {
    stamp: Option<Stamp>,
    dropped: Option<u32>,
    /// There was more to say than memory for it.
    cut: bool,
}

fn control_messages(message: &RecvMsg<'_, '_, ()>) -> ControlMessages {
    let mut read = ControlMessages { stamp: None, dropped: None, cut: false };
    let Ok(said) = message.cmsgs() else {
        read.cut = true;
        return read;
    };
    for what in said {
        match what {
            ControlMessageOwned::ScmTimestampsns(times) => read.stamp = best_stamp(&times),
            ControlMessageOwned::RxqOvfl(count) => read.dropped = Some(count),
            _ => {}
        }
    }
    read
}

/// The card's stamp, else the kernel's.
fn best_stamp(times: &Timestamps) -> Option<Stamp> {
    let ns = |time: &nix::sys::time::TimeSpec| {
        let (s, ns) = (u64::try_from(time.tv_sec()).ok()?, u64::try_from(time.tv_nsec()).ok()?);
        Some(s.saturating_mul(1_000_000_000).saturating_add(ns)).filter(|ns| *ns > 0)
    };
    let stamp = |ns, source, clock| Stamp { ns, error_ns: 0, source, clock };
    let hardware = ns(&times.hw_raw).map(|ns| stamp(ns, StampSource::Hardware, ClockDomain::Nic));
    hardware.or_else(|| ns(&times.system).map(|ns| stamp(ns, StampSource::Kernel, ClockDomain::Realtime)))
}

/// Receives one burst of one line.
fn receive(
    line: &mut Line,
    options: &SocketOptions,
    buffer: &mut [u8],
    counts: &SocketCounts,
    now: Instant,
    consumer: &mut dyn Consumer,
) -> Result<usize, SourceError> {
    let burst = options.burst as usize;
    let mut places = buffer.chunks_exact_mut(options.packet_bytes_max as usize);
    let mut slices: [[IoSliceMut<'_>; 1]; BURST_MAX as usize] =
        std::array::from_fn(|_| [IoSliceMut::new(places.next().unwrap_or_default())]);
    counts.syscalls.add(1);
    let received = recvmmsg(
        line.socket.as_raw_fd(),
        &mut line.headers,
        slices.iter_mut().take(burst),
        MsgFlags::MSG_DONTWAIT,
        None,
    );
    let received = match received {
        Ok(received) => received,
        Err(Errno::EAGAIN | Errno::EINTR) => {
            line.more = false;
            return Ok(0);
        }
        // An ICMP error about something else that used the socket says nothing about what comes in.
        Err(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH) => return Ok(0),
        Err(e) => return Err(SourceError::sys(format!("line {}", line.id), "recvmmsg")(e.into())),
    };
    let (mut taken, mut bytes, mut cut) = (0, 0, false);
    for message in received {
        let said = control_messages(&message);
        cut |= said.cut;
        taken += 1;
        if let Some(dropped) = said.dropped {
            counts.kernel_drops.add(u64::from(dropped.wrapping_sub(line.dropped)));
            line.dropped = dropped;
        }
        if message.flags.contains(MsgFlags::MSG_TRUNC) {
            counts.truncated.add(1);
            continue;
        }
        let stamp = said.stamp.unwrap_or_else(|| {
            if options.stamps != StampBy::Engine {
                counts.unstamped.add(1);
            }
            Stamp::engine(now)
        });
        let payload = message.iovs().next().unwrap_or_default();
        bytes += payload.len() as u64;
        counts.packets.add(1);
        consumer.on_packet(now, &Packet { line: line.id, stamp, payload, frame: None });
    }
    counts.bytes.add(bytes);
    line.heard = now;
    if cut {
        // A header keeps the length of the last control message it held, so one that grows is cut once.
        line.headers = line.spares.pop().unwrap_or_else(|| headers(options.burst));
        counts.headers_renewed.add(1);
    }
    line.more = taken == burst;
    Ok(taken)
}

impl Source for SocketSource {
    fn name(&self) -> &str {
        "socket"
    }

    fn poll(&mut self, now: Instant, consumer: &mut dyn Consumer) -> Result<usize, SourceError> {
        self.round = self.round.wrapping_add(1);
        self.now = now;
        if now >= self.look_at {
            self.look_after_lines(consumer);
        }
        let all = std::mem::take(&mut self.all) || self.round.is_multiple_of(COLD_EVERY);
        let mut taken = 0;
        for at in 0..self.lines.len() {
            let line = &mut self.lines[at];
            if line.fault.is_none() && (line.hot || all || line.more) {
                match receive(line, &self.options, &mut self.buffer, &self.counts, now, consumer) {
                    Ok(count) => taken += count,
                    Err(error) => {
                        self.failed(at, error);
                        self.look_after_lines(consumer);
                    }
                }
            }
        }
        Ok(taken)
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.look_at)
    }

    fn lines(&self, tell: &mut dyn FnMut(LineId)) {
        self.lines.iter().for_each(|line| tell(line.id));
    }

    fn last_fault(&self) -> Option<&SourceError> {
        self.last_fault.as_ref()
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        for line in &self.lines {
            add(line.socket.as_raw_fd());
        }
    }

    fn finish_wait(&mut self) {
        self.all = true;
    }

    fn set_wanted(&mut self, channel: u16, feed: FeedType, wanted: bool) {
        for at in 0..self.lines.len() {
            let line = &mut self.lines[at];
            if (line.id.channel, line.id.feed) == (channel, feed) && line.wanted != wanted {
                line.wanted = wanted;
                self.follow(at, false);
                if self.lines[at].fault.is_some() {
                    // To be told at once, and tried again soon.
                    self.look_at = self.now;
                }
            }
        }
    }

    fn counts(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        let SocketCounts {
            packets,
            bytes,
            syscalls,
            kernel_drops,
            truncated,
            unstamped,
            line_faults,
            headers_renewed,
        } = &self.counts;
        tell("packets", packets.get());
        tell("bytes", bytes.get());
        tell("syscalls", syscalls.get());
        tell("kernel_drops", kernel_drops.get());
        tell("truncated", truncated.get());
        tell("unstamped", unstamped.get());
        tell("headers_renewed", headers_renewed.get());
        tell("line_faults", line_faults.get());
        tell("lines_failed", self.lines.iter().filter(|line| line.fault.is_some()).count() as u64);
    }
}
