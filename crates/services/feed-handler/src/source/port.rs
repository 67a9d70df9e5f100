//! The port source: packets of groups out of the frames of any port, with the frame's stamp.
//!
//! On `xdp:` and `packet:` the kernel holds the memberships (it reports them, answers queries and programs the card's
//! filter). An `xdp:` port claims the groups, unless its URI claims something itself, so that all else stays with the
//! kernel, the queries included. On other ports (`mem:`, `pcap:`, `unix:`) nothing is joined.

use super::datagram::parse;
use super::groups::Groups;
use super::interface::Memberships;
use super::{Consumer, Packet, Source};
use crate::plan::{ChannelPlan, PortOptions};
use crate::{Side, SourceError};
use barewire_base::{Counter, DropCounters, Instant};
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_port::{Port, PortUri};
use std::os::fd::RawFd;

/// Most addresses that an `xdp:` port claims.
const CLAIMS_MAX: usize = 64;
/// Bursts handed over in one poll, so that one busy port does not starve the others.
const BURSTS_MAX: usize = 4;

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
}

/// A port of ours as a source.
pub struct PortSource {
    name: String,
    port: Box<dyn Port>,
    groups: Groups,
    verify: bool,
    counts: PortCounts,
    memberships: Memberships,
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
        let port = barewire_engine::open_port(&uri, &pool)?;
        let mut source = PortSource::new(port, uri.text(), groups, options.verify_checksums);
        if options.join && matches!(uri.scheme.as_str(), "xdp" | "packet") {
            source.memberships = Memberships::hold(&uri.target, &to_join)?;
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
        let (counts, memberships) = (PortCounts::default(), Memberships::default());
        PortSource { name: name.to_owned(), port, groups, verify, counts, memberships }
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
        for _ in 0..BURSTS_MAX {
            let received = self.port.rx_burst(now, &mut burst)?;
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
        Ok(frames)
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        if let Some(fd) = self.port.wait_fd() {
            add(fd);
        }
    }

    fn prepare_wait(&mut self) -> bool {
        // A port without a descriptor has to be polled, unless it knows when.
        let can_wait =
            self.port.wait_fd().is_some() || self.port.next_deadline().is_some() || self.port.is_finished();
        self.port.prepare_wait() && can_wait
    }

    fn finish_wait(&mut self) {
        self.port.finish_wait();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.port.next_deadline()
    }

    fn is_finished(&self) -> bool {
        self.port.is_finished()
    }

    fn lines(&self, tell: &mut dyn FnMut(crate::LineId)) {
        self.groups.lines().for_each(tell);
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
    }
}
