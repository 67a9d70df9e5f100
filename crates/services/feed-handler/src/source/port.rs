//! The port source: packets of groups out of the frames of any port, with the frame's stamp.
//!
//! On `xdp:` and `packet:` the kernel holds the memberships (it reports them, answers queries and programs the card's
//! filter). An `xdp:` port claims the groups, unless its URI claims something itself, so that all else stays with the
//! kernel, the queries included. On other ports (`mem:`, `pcap:`, `unix:`) nothing is joined.
//!
//! A port follows its interface. Once a second, off the path of packets, it is looked at whether the interface is still the one that the
//! port was opened on: one that was deleted and made again has the same name, and neither port nor groups. A port that is down is told
//! as a fault of its lines and tried again; only what no waiting mends (the process may not, the driver cannot) is an error.

use super::datagram::parse;
use super::groups::Groups;
use super::interface::{Interface, Memberships};
use super::{Consumer, Packet, Source};
use crate::plan::{ChannelPlan, PortOptions};
use crate::{Side, SourceError};
use barewire_base::{Counter, DropCounters, Duration, Instant};
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_port::{OpenError, Port, PortError, PortUri};
use nix::net::if_::if_nametoindex;
use std::net::IpAddr;
use std::os::fd::RawFd;

/// Most addresses that an `xdp:` port claims.
const CLAIMS_MAX: usize = 64;
/// Bursts handed over in one poll, so that one busy port does not starve the others.
const BURSTS_MAX: usize = 4;
/// Time between two looks at the interface, and between two attempts at a port that is down.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a [`PortSource`] has counted.
#[derive(Debug, Default)]
pub struct PortCounts {
    /// Packets handed over.
    pub packets: Counter,
    /// Bytes of their payload.
    pub bytes: Counter,
    /// Frames that were no packet of a line, by reason. `no_listener`: to another group or port; `wrong_peer`: from a
    /// sender that the channel file does not name.
    pub drops: DropCounters,
    /// Times that the port was down, or its groups could not be joined.
    pub faults: Counter,
    /// Times that it was opened anew.
    pub reopened: Counter,
}

/// What a port stands on, which may go away and come again.
struct Ground {
    /// The interface's name, and the index that it had when the port was opened.
    name: String,
    index: u32,
    /// Groups that the kernel is to hold for us.
    groups: Vec<(IpAddr, Vec<IpAddr>)>,
}

impl Ground {
    /// The interface's index now.
    fn index_now(&self) -> Result<u32, SourceError> {
        match if_nametoindex(self.name.as_str()) {
            Ok(index) => Ok(index),
            // It says why, and what there is.
            Err(_) => Interface::find(&self.name).map(|interface| interface.index),
        }
    }
}

/// A port of ours as a source.
pub struct PortSource {
    name: String,
    port: Box<dyn Port>,
    groups: Groups,
    verify: bool,
    counts: PortCounts,
    memberships: Memberships,
    /// `None` where there is no interface.
    ground: Option<Ground>,
    /// The port has to be opened again, and the groups to be joined.
    closed: bool,
    unjoined: bool,
    /// Nothing is received before the next look.
    down: bool,
    /// The consumer has been told of a fault that is not over.
    told: bool,
    look_at: Instant,
    /// Grows when the port's descriptor may be another.
    generation: u64,
    last_fault: Option<SourceError>,
}

impl PortSource {
    /// Opens the ports of a plan: one for both sides, or one each.
    ///
    /// # Errors
    /// [`SourceError`] of the port, the pool, or a membership.
    pub fn open(channels: &[ChannelPlan], options: &PortOptions) -> Result<Vec<PortSource>, SourceError> {
        let Some(port_b) = &options.port_b else {
            return Ok(vec![Self::open_one(&options.port_a, channels, &[Side::A, Side::B], options)?]);
        };
        Ok(vec![
            Self::open_one(&options.port_a, channels, &[Side::A], options)?,
            Self::open_one(port_b, channels, &[Side::B], options)?,
        ])
    }

    fn open_one(
        uri: &str,
        channels: &[ChannelPlan],
        sides: &[Side],
        options: &PortOptions,
    ) -> Result<PortSource, SourceError> {
        let mut uri: PortUri = uri.parse()?;
        let groups = Groups::new(channels, sides, options.source_filter);
        let to_join = groups.to_join();
        if uri.scheme == "xdp" && !uri.options.contains_key("claim") {
            if to_join.len() > CLAIMS_MAX {
                let what = "groups of one xdp: port";
                return Err(SourceError::Limit { what, value: to_join.len(), limit: CLAIMS_MAX });
            }
            let claims: Vec<String> = to_join.iter().map(|(group, _)| group.to_string()).collect();
            uri = uri.with("claim", claims.join(","));
        }
        let pool = Pool::new(PoolConfig {
            frames: options.pool_frames,
            chunk_len: options.chunk_bytes,
            ..PoolConfig::default()
        })?;
        let of_interface = matches!(uri.scheme.as_str(), "xdp" | "packet");
        // Before the port is opened: if the interface is made anew in between, the first look finds that.
        let index = if of_interface { if_nametoindex(uri.target.as_str()).unwrap_or(0) } else { 0 };
        let port = barewire_engine::open_port(&uri, &pool)?;
        let mut source = PortSource::new(port, uri.text(), groups, options.verify_checksums);
        if of_interface {
            let groups = if options.join { to_join } else { Vec::new() };
            source.memberships = Memberships::hold(&uri.target, &groups)?;
            source.ground = Some(Ground { name: uri.target.clone(), index, groups });
            source.look_at = Instant::ZERO;
        }
        Ok(source)
    }

    /// A source of a port that is open already; nothing is joined. `sides`: which lines it carries.
    pub fn of_port(
        port: Box<dyn Port>,
        name: &str,
        channels: &[ChannelPlan],
        sides: &[Side],
        options: &PortOptions,
    ) -> PortSource {
        let groups = Groups::new(channels, sides, options.source_filter);
        PortSource::new(port, name, groups, options.verify_checksums)
    }

    fn new(port: Box<dyn Port>, name: &str, groups: Groups, verify: bool) -> PortSource {
        PortSource {
            name: name.to_owned(),
            port,
            groups,
            verify,
            counts: PortCounts::default(),
            memberships: Memberships::default(),
            ground: None,
            closed: false,
            unjoined: false,
            down: false,
            told: false,
            look_at: Instant::FAR_FUTURE,
            generation: 0,
            last_fault: None,
        }
    }

    /// Looks whether the interface is still the same, and opens the port and joins the groups anew where it has to be.
    fn follow(&mut self) -> Result<(), SourceError> {
        let index = self.ground.as_ref().map(Ground::index_now).transpose()?;
        if let (Some(ground), Some(index)) = (&self.ground, index)
            && ground.index != index
        {
            (self.closed, self.unjoined) = (true, true);
        }
        if self.closed {
            // Whatever comes of it, the descriptor is another.
            self.generation += 1;
            self.port.reopen()?;
            self.closed = false;
            self.counts.reopened.add(1);
        }
        if let (Some(ground), Some(index)) = (&mut self.ground, index) {
            ground.index = index;
            if self.unjoined {
                // What is left of the old memberships first: they are of an interface that is gone.
                self.memberships = Memberships::default();
                self.memberships = Memberships::hold(&ground.name, &ground.groups)?;
                self.unjoined = false;
            }
        }
        Ok(())
    }

    /// Once a second: what is down is tried again.
    #[cold]
    fn look(&mut self, now: Instant, consumer: &mut dyn Consumer) -> Result<(), SourceError> {
        self.look_at = now + LOOK_EVERY;
        match self.follow() {
            Ok(()) => {
                self.set_down(false);
                if self.ground.is_none() {
                    self.look_at = Instant::FAR_FUTURE;
                }
                Ok(())
            }
            Err(error) => {
                // A port without groups on its interface may hear what others have joined.
                self.set_down(!self.unjoined || self.closed);
                let for_good = matches!(
                    error,
                    SourceError::Open(
                        OpenError::BadUri { .. }
                            | OpenError::NotPermitted { .. }
                            | OpenError::Unsupported { .. }
                    )
                );
                if for_good { Err(error) } else { self.failed(now, error, consumer) }
            }
        }
    }

    /// The lines are told as down, once, and why.
    fn failed(
        &mut self,
        now: Instant,
        error: SourceError,
        consumer: &mut dyn Consumer,
    ) -> Result<(), SourceError> {
        self.counts.faults.add(1);
        if !std::mem::replace(&mut self.told, true) {
            self.groups.lines().for_each(|line| consumer.on_line_fault(now, line, &error));
        }
        self.last_fault = Some(error);
        Ok(())
    }

    /// A burst could not be received. A port that is down is tried again; what else fails is an error, unless the interface may be the
    /// reason.
    #[cold]
    fn rx_failed(
        &mut self,
        now: Instant,
        error: PortError,
        consumer: &mut dyn Consumer,
    ) -> Result<(), SourceError> {
        match (&error, &self.ground) {
            (PortError::Down { .. }, _) | (PortError::Io { .. }, Some(_)) => {}
            _ => return Err(error.into()),
        }
        // A link that was down for a moment needs nothing but to be up. What fails again is opened again.
        self.closed |= self.told || self.ground.is_none();
        self.set_down(true);
        self.look_at = now + LOOK_EVERY;
        self.failed(now, error.into(), consumer)
    }

    /// Nothing is to wake the engine for a port that is not read: its descriptor may stay readable for that very reason.
    fn set_down(&mut self, down: bool) {
        self.generation += u64::from(self.down != down);
        self.down = down;
    }

    /// What has been counted.
    pub fn port_counts(&self) -> &PortCounts {
        &self.counts
    }

    /// The port.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// Sockets through which the kernel holds our memberships.
    pub fn membership_sockets(&self) -> usize {
        self.memberships.sockets()
    }
}

impl Source for PortSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn poll(&mut self, now: Instant, consumer: &mut dyn Consumer) -> Result<usize, SourceError> {
        let mut burst = Burst::new();
        let (mut frames, mut packets, mut bytes) = (0, 0, 0);
        if now >= self.look_at {
            self.look(now, consumer)?;
        }
        if self.down {
            return Ok(0);
        }
        for _ in 0..BURSTS_MAX {
            let received = match self.port.rx_burst(now, &mut burst) {
                Ok(received) => received,
                Err(error) => {
                    self.rx_failed(now, error, consumer)?;
                    break;
                }
            };
            while let Some(frame) = burst.pop() {
                let found = parse(frame.data(), frame.checksum(), self.verify).and_then(|datagram| {
                    self.groups.find(datagram.src.ip(), datagram.dst).map(|line| (line, datagram.payload))
                });
                match found {
                    Ok((line, payload)) => {
                        packets += 1;
                        bytes += payload.len() as u64;
                        let packet =
                            Packet { line, stamp: frame.stamp(), payload, frame: Some(frame.data()) };
                        consumer.on_packet(now, &packet);
                    }
                    Err(reason) => self.counts.drops.count(reason),
                }
            }
            frames += received;
            if received < barewire_frame::BURST_MAX {
                break;
            }
        }
        self.counts.packets.add(packets);
        self.counts.bytes.add(bytes);
        if packets > 0 {
            self.told &= self.down || self.unjoined;
        }
        Ok(frames)
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        if let Some(fd) = self.port.wait_fd().filter(|_| !self.down) {
            add(fd);
        }
    }

    fn prepare_wait(&mut self) -> bool {
        // A port without a descriptor has to be polled, unless it knows when. One that is down is not polled.
        let can_wait = self.down
            || self.port.wait_fd().is_some()
            || self.port.next_deadline().is_some()
            || self.port.is_finished();
        self.port.prepare_wait() && can_wait
    }

    fn finish_wait(&mut self) {
        self.port.finish_wait();
    }

    fn fds_generation(&self) -> u64 {
        self.generation
    }

    fn next_deadline(&self) -> Option<Instant> {
        // What a port that is down has to do has to wait, too.
        let of_port = self.port.next_deadline().filter(|_| !self.down);
        let look_at = Some(self.look_at).filter(|&at| at != Instant::FAR_FUTURE);
        of_port.into_iter().chain(look_at).min()
    }

    fn is_finished(&self) -> bool {
        self.port.is_finished()
    }

    fn lines(&self, tell: &mut dyn FnMut(crate::LineId)) {
        self.groups.lines().for_each(tell);
    }

    fn last_fault(&self) -> Option<&SourceError> {
        self.last_fault.as_ref()
    }

    fn counts(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        tell("packets", self.counts.packets.get());
        tell("bytes", self.counts.bytes.get());
        for (reason, count) in self.counts.drops.iter() {
            tell(reason.as_str(), count);
        }
        let port = self.port.counters();
        tell("port_rx_frames", port.rx_frames.get());
        tell("port_syscalls", port.syscalls.get());
        tell("port_drops", port.drops.total());
        tell("line_faults", self.counts.faults.get());
    }
}
