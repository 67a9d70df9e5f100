//! Sources: where packets come from. Each hands what arrived to a [`Consumer`], with the line and the stamp.
//!
//! ```text
//! kernel socket a line -> recvmmsg -> SocketSource --+
//! port (xdp, packet, pcap, mem) -> burst -> parse ---+--> Consumer::on_packet(now, Packet { line, stamp, payload })
//! capture -> Replay (capture time) ------------------+
//! ```

pub(crate) mod datagram;
pub(crate) mod groups;
pub(crate) mod interface;
mod port;
mod socket;

pub use port::{PortCounts, PortSource};
pub use socket::{SocketCounts, SocketSource};

use crate::{FeedType, LineId, SourceError};
use barewire_base::Instant;
use barewire_engine::CounterKind;
use barewire_frame::Stamp;
use std::os::fd::RawFd;

/// One received packet of a line.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Which line it came by.
    pub line: LineId,
    /// When it arrived, and who says so.
    pub stamp: Stamp,
    /// The UDP payload.
    pub payload: &'a [u8],
    /// The whole Ethernet frame, where the source has seen it.
    pub frame: Option<&'a [u8]>,
}

/// Takes packets. Nothing that it does may block or allocate.
pub trait Consumer {
    /// One packet arrived. `now` is the engine's time (of a replay, the capture's).
    fn on_packet(&mut self, now: Instant, packet: &Packet<'_>);

    /// A line cannot be received from: its interface is gone, say. The source tries it again; others go on.
    fn on_line_fault(&mut self, now: Instant, line: LineId, error: &SourceError) {
        let _ = (now, line, error);
    }

    /// Does whatever is due at `now`.
    fn on_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// When there is work though no packet arrives. `None`: never.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Nothing has arrived, and the engine polls: a chance to keep in the caches what the next packet needs.
    fn keep_warm(&mut self, now: Instant) {
        let _ = now;
    }

    /// The exchange's number of the feed channel, under which its counters are published. `None`: they are not.
    fn feed_channel(&self) -> Option<u32> {
        None
    }

    /// Tells every counter: the group (empty, or with a dot at its end), the name, the kind, the value.
    fn counts(&self, tell: &mut dyn FnMut(&'static str, &'static str, CounterKind, u64)) {
        let _ = tell;
    }

    /// Whether anything is to be learned from that feed now.
    fn wants(&self, feed: FeedType) -> bool {
        let _ = feed;
        true
    }
}

/// A source of packets, driven by an engine. A program may bring its own.
pub trait Source {
    /// What messages call it.
    fn name(&self) -> &str;

    /// Hands over a bounded number of packets that have arrived, and says how many. Never blocks. Of several lines that fail each
    /// by itself those that do are told to the consumer ([`Consumer::on_line_fault`]) and tried again.
    ///
    /// # Errors
    /// [`SourceError`] when the source as a whole does not work, and is not likely to by itself: where none of a handler's does, the
    /// handler ends. What was wrong with single packets is counted instead.
    fn poll(&mut self, now: Instant, consumer: &mut dyn Consumer) -> Result<usize, SourceError>;

    /// Names each descriptor that becomes readable when packets have arrived.
    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        let _ = add;
    }

    /// Grows whenever [`wait_fds`](Source::wait_fds) would name others, also when a descriptor was closed and its number is in use
    /// again.
    fn fds_generation(&self) -> u64 {
        0
    }

    /// Called before the engine sleeps: arms wake-ups. False when packets are waiting, or when the source must be polled.
    fn prepare_wait(&mut self) -> bool {
        true
    }

    /// Undoes [`prepare_wait`](Source::prepare_wait).
    fn finish_wait(&mut self) {}

    /// When there is something to hand over though no descriptor tells.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Tells that a channel's feed is needed from now on, or not needed for now. A source may ignore it. Where a line cannot be
    /// joined, that is a fault of the line, and it is tried again.
    fn set_wanted(&mut self, channel: u16, feed: FeedType, wanted: bool) {
        let _ = (channel, feed, wanted);
    }

    /// Names each line that the source carries.
    fn lines(&self, tell: &mut dyn FnMut(LineId)) {
        let _ = tell;
    }

    /// What went wrong with a line last; `None`: nothing has.
    fn last_fault(&self) -> Option<&SourceError> {
        None
    }

    /// Whether no packet will ever come again.
    fn is_finished(&self) -> bool {
        false
    }

    /// What has been counted, for people and metrics: name and value.
    fn counts(&self, tell: &mut dyn FnMut(&'static str, u64));
}
