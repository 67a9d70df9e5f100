//! What passes between a host and the protocols on it.

use crate::{Host, Template};
use barewire_base::{DropReason, Instant};
use barewire_frame::Frame;
use core::net::{IpAddr, SocketAddr};

/// What became of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// The host's own business; it may have something to transmit now.
    Consumed,
    /// Dropped, and counted by the host.
    Drop(DropReason),
    /// A UDP datagram for whoever owns `dst`.
    Udp(Datagram),
    /// The host of a peer says that nobody serves the port that a datagram of ours went to. This is that datagram as it is
    /// quoted: `src` is ours, and the payload may be cut short. Anybody may say so: what it quotes must be what was sent.
    PortUnreachable(Datagram),
}

/// A UDP datagram inside a received frame. Checked: lengths, addresses, checksums (of one that is quoted, addresses only).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Who sent it.
    pub src: SocketAddr,
    /// Which address and port of ours it is for.
    pub dst: SocketAddr,
    /// Where the payload starts in the frame's data.
    pub payload_start: u16,
    /// Bytes of the payload.
    pub payload_len: u16,
    /// The ECN code point (2 bits).
    pub ecn: u8,
    /// The TTL or hop limit that was left.
    pub ttl: u8,
}

impl Datagram {
    /// The payload; `frame` is the one that the datagram came in.
    #[inline]
    pub fn payload<'a>(&self, frame: &'a Frame) -> &'a [u8] {
        let start = usize::from(self.payload_start);
        frame.data().get(start..start + usize::from(self.payload_len)).unwrap_or(&[])
    }

    /// The payload, to be decrypted where it lies.
    #[inline]
    pub fn payload_mut<'a>(&self, frame: &'a mut Frame) -> &'a mut [u8] {
        let start = usize::from(self.payload_start);
        frame.data_mut().get_mut(start..start + usize::from(self.payload_len)).unwrap_or_default()
    }
}

/// The way to a destination.
#[derive(Clone, Debug)]
pub enum Route {
    /// The headers to send with.
    Ready(Template),
    /// The next hop is being resolved; ask again after [`HostEvent::Resolved`].
    Pending,
    /// There is no way, or the next hop does not answer.
    Unreachable,
}

/// What a host has to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostEvent {
    /// A known next hop has another MAC: a router that took over, or a neighbour with another card. Templates with the old one are stale.
    Moved(IpAddr),
    /// A next hop that routes waited for has answered; [`Host::next_hop`] says whose it is.
    Resolved(IpAddr),
    /// A next hop does not answer, or no longer.
    Unreachable(IpAddr),
}

/// What an endpoint did with a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was a packet of the endpoint's.
    Consumed,
    /// It was not, for this reason; the endpoint counts it.
    Drop(DropReason),
}

/// A protocol on top of UDP: datagrams and time go in, frames, deadlines and events come out.
pub trait Endpoint {
    /// What it has to tell its owner.
    type Event;

    /// Takes one datagram. `payload` is the datagram's; what is in it afterwards is nobody's.
    fn handle_datagram(&mut self, now: Instant, datagram: &Datagram, payload: &mut [u8]) -> Verdict;

    /// Does what is due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes the next frame to send into `frame`, which arrives empty. False: nothing to send.
    fn poll_transmit(&mut self, now: Instant, host: &mut Host, frame: &mut Frame) -> bool;

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next event.
    fn poll_event(&mut self) -> Option<Self::Event>;
}
