//! A port, a host and a message endpoint, wired together.
//!
//! ```text
//! port.rx_burst -> host.handle_frame -> endpoint.handle_datagram -> events
//! sends -> endpoint.poll_transmit -> frames -> port.tx_burst
//!                                           -> host.handle_local       frames to our own MAC: both ends are here
//! ```
//! With RDMA ([`Stack::with_rdma`]) there is a second endpoint on the same port: RoCE frames go to it whole, before the host, and
//! the two take turns when frames are filled. The host's own frames (ARP, neighbour discovery, ICMP) are few: one goes first in
//! each burst.
//! One call of [`Stack::poll`] is one duty cycle. Transmission comes before reception: what the application queued since
//! the last cycle leaves at once, and what arrives is the application's before the next.

use crate::rdma::{self, Way};
use barewire_base::{Counter, DropCounters, DropReason, Duration, Instant};
use barewire_frame::{BURST_MAX, Burst, Frame, Pool};
use barewire_host::{Datagram, Endpoint as _, Host, HostEvent, Input, Verdict};
use barewire_port::{MacAddr, Port, PortError};
use barewire_roce as roce;
use barewire_transport::{Endpoint, Event, Memory};
use std::net::IpAddr;

/// Frames received in one cycle from a port of memory. Two ends that answer each other would else take turns with whole
/// windows, each idle while the other works; where sending costs a system call, large bursts are worth that.
pub(crate) const RX_BURST_MEMORY: usize = 8;
/// Transmit bursts in one cycle.
pub(crate) const TX_BURSTS_PER_CYCLE: usize = 4;
/// A thread that did not look at its port for so long stood still (a stopped process, a virtual machine taken away) or slept.
const PAUSE: Duration = Duration::from_millis(1);
/// Bursts that it then takes in at most: a full ring of the largest common size.
const CATCH_UP_BURSTS: usize = 128;

/// What a stack counts besides what its port, host and endpoint count themselves.
#[derive(Debug, Default)]
pub struct StackCounters {
    /// Frames dropped between port and endpoint, by reason.
    pub drops: DropCounters,
    /// Frames handed to another engine that owns their flow.
    pub forwarded: Counter,
    /// Frames from us to us, which the port never saw.
    pub looped: Counter,
}

/// What became of a datagram that several engines may be meant by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steered {
    /// It is this engine's.
    Ours,
    /// Another engine has it.
    Given,
    /// It is another engine's, and could not be handed on.
    Lost(DropReason),
}

/// Where several engines share an interface: brings each frame to the engine that owns its flow, whichever queue it came in on.
pub trait Steering {
    /// Whose is this datagram? Gives the frame to its owner, if that is another engine than `own`.
    fn steer(&mut self, own: u8, datagram: &Datagram, frame: &Frame) -> Steered;

    /// News for every engine, which came here: of a neighbour, for each engine asks and remembers for itself, or of a packet
    /// that one of them sent.
    fn tell_all(&mut self, frame: &Frame);
}

/// Whether the frame says where a neighbour is: an ARP reply or announcement, or a neighbour advertisement. In whose VLAN is for
/// each host to judge.
#[inline]
fn is_neighbour_news(data: &[u8]) -> bool {
    const ARP: &[u8] = &[0x08, 0x06];
    const IPV6: &[u8] = &[0x86, 0xdd];
    const ADVERTISEMENT: u8 = 136;
    let l3 = if data.get(12..14) == Some(&[0x81, 0]) { 18 } else { 14 };
    match data.get(l3 - 2..l3) {
        Some(ARP) => {
            let is_reply = data.get(l3 + 6..l3 + 8) == Some(&[0, 2]);
            // An announcement is a request for the sender's own address.
            is_reply
                || data.get(l3 + 14..l3 + 18).is_some_and(|sender| data.get(l3 + 24..l3 + 28) == Some(sender))
        }
        Some(IPV6) => data.get(l3 + 6) == Some(&58) && data.get(l3 + 40) == Some(&ADVERTISEMENT),
        _ => false,
    }
}

/// The RDMA half of a stack, and the host that it needs to find its peers.
pub struct Rdma<'a> {
    /// The verbs.
    pub endpoint: &'a mut roce::Endpoint,
    host: &'a mut Host,
}

impl Rdma<'_> {
    /// The way to `dst`; asks for the next hop's address where it is not known.
    pub fn way(&mut self, now: Instant, dst: IpAddr, src: Option<IpAddr>) -> Way {
        rdma::way(self.host, self.endpoint, now, dst, src)
    }
}

/// A second endpoint on the port.
struct Second {
    endpoint: roce::Endpoint,
    /// It is its turn to fill a frame.
    turn: bool,
    /// A neighbour was found, or was found not to be there, since somebody asked.
    neighbours_changed: bool,
}

/// A port, a host and a message endpoint, and a RoCE endpoint where RDMA is wanted.
pub struct Stack<M> {
    // Declared before the pool: a port gives its frames back when it is dropped.
    port: Box<dyn Port>,
    host: Host,
    endpoint: Endpoint<M>,
    rdma: Option<Box<Second>>,
    rx: Burst,
    tx: Burst,
    /// Frames to ourselves. Empty between calls.
    looped: Burst,
    mac: [u8; 6],
    /// When the port was last asked for frames.
    looked_at: Instant,
    /// An empty frame kept for the next transmission, so that asking for work costs no allocation.
    spare: Option<Frame>,
    pool: Pool,
    counters: StackCounters,
}

impl<M: Memory> Stack<M> {
    /// Wires the parts together. `pool` is the port's own. The first frames that leave announce the host's addresses.
    pub fn new(port: Box<dyn Port>, pool: Pool, mut host: Host, endpoint: Endpoint<M>) -> Stack<M> {
        let rx_limit = if port.caps().lossless_bits { RX_BURST_MEMORY } else { BURST_MAX };
        // Of engines that share an interface one is enough.
        if endpoint.config().engine == 0 {
            host.announce();
        }
        Stack {
            port,
            mac: host.config().mac.0,
            looked_at: Instant::ZERO,
            host,
            endpoint,
            rdma: None,
            rx: Burst::with_limit(rx_limit),
            tx: Burst::new(),
            looped: Burst::new(),
            spare: None,
            pool,
            counters: StackCounters::default(),
        }
    }

    /// Adds a RoCE endpoint: all frames to and from UDP port 4791 are its own. It has the host's MAC, VLAN and addresses, and the
    /// pool's frames are at least [`frame_len_max`](roce::Endpoint::frame_len_max) long.
    #[must_use]
    pub fn with_rdma(mut self, endpoint: roce::Endpoint) -> Stack<M> {
        self.rdma = Some(Box::new(Second { endpoint, turn: false, neighbours_changed: false }));
        self
    }

    /// The RoCE endpoint, where there is one.
    #[inline]
    pub fn rdma(&self) -> Option<&roce::Endpoint> {
        self.rdma.as_deref().map(|second| &second.endpoint)
    }

    /// The RoCE endpoint with its host, where there is one, and the message endpoint: whoever serves both needs both.
    #[inline]
    pub fn rdma_parts(&mut self) -> Option<(Rdma<'_>, &mut Endpoint<M>)> {
        let endpoint = &mut self.rdma.as_deref_mut()?.endpoint;
        Some((Rdma { endpoint, host: &mut self.host }, &mut self.endpoint))
    }

    /// Whether a neighbour of the RoCE endpoint's was found, or found not to be there, since the last call: then ways that were
    /// pending are worth asking for again.
    #[inline]
    pub fn take_neighbours_changed(&mut self) -> bool {
        self.rdma.as_deref_mut().is_some_and(|second| std::mem::take(&mut second.neighbours_changed))
    }

    /// The port.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// The port, to prepare a wait on it.
    pub fn port_mut(&mut self) -> &mut dyn Port {
        &mut *self.port
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The host.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Our MAC is another from now on: see [`Host::set_mac`]. Not with RDMA, whose paths keep the MAC they were made with.
    pub fn set_mac(&mut self, now: Instant, mac: MacAddr) {
        self.host.set_mac(now, mac);
        self.mac = mac.0;
        // Asking again is the host's; flows take their new headers at once.
        self.endpoint.routes_changed(now);
    }

    /// Packets have at most `mtu` bytes from now on: see [`Endpoint::set_mtu`]. Not with RDMA, whose paths keep the MTU that they were
    /// made with.
    ///
    /// # Errors
    /// Too few for a packet.
    pub fn set_mtu(&mut self, now: Instant, mtu: u16) -> Result<u32, barewire_transport::ConfigError> {
        let ended = self.endpoint.set_mtu(now, mtu)?;
        self.host.set_mtu(mtu);
        Ok(ended)
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint<M> {
        &self.endpoint
    }

    /// The endpoint.
    #[inline]
    pub fn endpoint_mut(&mut self) -> &mut Endpoint<M> {
        &mut self.endpoint
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What was counted here.
    pub fn counters(&self) -> &StackCounters {
        &self.counters
    }

    /// One duty cycle: sends what is queued, takes in what has arrived, runs the timers. Says how many frames moved. A port that
    /// cannot send may still receive, and the other way round: both are tried.
    ///
    /// # Errors
    /// The port's, when it is down.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Result<usize, PortError> {
        let sent = self.transmit(now);
        let received = self.receive(now, None);
        Ok(sent? + received?)
    }

    /// The sending half of a cycle.
    ///
    /// # Errors
    /// The port's, when it is down.
    pub fn transmit(&mut self, now: Instant) -> Result<usize, PortError> {
        self.transmit_steered(now, None)
    }

    /// [`transmit`](Self::transmit), where several engines share the interface: what is for an application of this host may be
    /// another engine's.
    ///
    /// # Errors
    /// The port's, when it is down.
    pub fn transmit_steered(
        &mut self,
        now: Instant,
        mut steering: Option<&mut (dyn Steering + 'static)>,
    ) -> Result<usize, PortError> {
        if now.since(self.looked_at) >= PAUSE {
            self.catch_up(now, steering.as_deref_mut());
        }
        self.run_timers(now);
        let mut sent = 0;
        for _ in 0..TX_BURSTS_PER_CYCLE {
            self.fill(now);
            let looped = self.take_in_looped(now, steering.as_deref_mut());
            sent += looped;
            if self.tx.is_empty() {
                if looped == 0 {
                    break;
                }
                continue;
            }
            sent += self.port.tx_burst(now, &mut self.tx)?;
            if !self.tx.is_empty() {
                // The port is full: the rest stays where it is, and so do the messages behind it.
                break;
            }
        }
        Ok(sent)
    }

    /// Takes in what arrived while this thread stood still, before its timers run: what they wait for may have come long ago.
    #[cold]
    fn catch_up(&mut self, now: Instant, mut steering: Option<&mut (dyn Steering + 'static)>) {
        for _ in 0..CATCH_UP_BURSTS {
            // An error is for whoever receives next.
            if !matches!(self.receive(now, steering.as_deref_mut()), Ok(1..)) {
                return;
            }
        }
    }

    fn run_timers(&mut self, now: Instant) {
        if self.host.poll_timeout().is_some_and(|at| at <= now) {
            self.host.handle_timeout(now);
            self.drain_host_events(now);
        }
        self.endpoint.handle_timeout(now);
        if let Some(second) = self.rdma.as_deref_mut() {
            second.endpoint.handle_timeout(now);
        }
    }

    fn drain_host_events(&mut self, now: Instant) {
        let mut changed = false;
        while let Some(HostEvent::Resolved(_) | HostEvent::Unreachable(_) | HostEvent::Moved(_)) =
            self.host.poll_event()
        {
            changed = true;
        }
        if changed {
            self.endpoint.routes_changed(now);
            if let Some(second) = self.rdma.as_deref_mut() {
                second.neighbours_changed = true;
            }
        }
    }

    /// Has the RoCE endpoint write a frame, if it is its turn (or if `anyway`) and it has one.
    #[inline]
    fn fill_rdma(&mut self, now: Instant, frame: &mut Frame, anyway: bool) -> bool {
        let Some(second) = self.rdma.as_deref_mut() else {
            return false;
        };
        if second.turn != anyway
            && second.endpoint.has_transmit()
            && rdma::fill(&mut second.endpoint, now, frame)
        {
            second.turn = false;
            return true;
        }
        false
    }

    /// A frame of RDMA goes to its endpoint. False: it is none.
    #[inline]
    fn take_in_rdma(&mut self, now: Instant, frame: &Frame) -> bool {
        match self.rdma.as_deref_mut() {
            Some(second) if rdma::is_roce(frame.data()) => {
                second.endpoint.handle_frame(now, frame.data());
                true
            }
            _ => false,
        }
    }

    /// Fills the transmit burst. The host has the first frame of each, also when it is the last of the pool: an endpoint may
    /// always have a segment to send, and a host that does not answer for its address is soon sent nothing any more.
    fn fill(&mut self, now: Instant) {
        let mut hosts_turn = self.host.has_transmit();
        while self.tx.room() > 0 && self.looped.room() > 0 {
            let Some(mut frame) = self.spare.take().or_else(|| self.pool.alloc()) else {
                self.counters.drops.count(DropReason::PoolEmpty);
                return;
            };
            let filled = std::mem::take(&mut hosts_turn) && self.host.poll_transmit(now, &mut frame);
            if !filled && !self.fill_one(now, &mut frame) {
                self.spare = Some(frame);
                return;
            }
            let to_us = frame.data().first_chunk() == Some(&self.mac);
            let burst = if to_us { &mut self.looped } else { &mut self.tx };
            if burst.push(frame).is_err() {
                return;
            }
        }
    }

    #[inline]
    fn fill_one(&mut self, now: Instant, frame: &mut Frame) -> bool {
        if self.fill_rdma(now, frame, false) {
            return true;
        }
        if self.endpoint.poll_transmit(now, &mut self.host, frame) {
            if let Some(second) = self.rdma.as_deref_mut() {
                second.turn = true;
            }
            return true;
        }
        self.fill_rdma(now, frame, true) || self.host.poll_transmit(now, frame)
    }

    /// Takes in what was sent to ourselves.
    #[inline]
    fn take_in_looped(&mut self, now: Instant, mut steering: Option<&mut (dyn Steering + 'static)>) -> usize {
        let n = self.looped.len();
        while let Some(mut frame) = self.looped.pop() {
            if self.take_in_rdma(now, &frame) {
                continue;
            }
            if let Input::Udp(datagram) = self.host.handle_local(now, &frame)
                && self.is_ours(&datagram, &frame, steering.as_deref_mut())
            {
                self.endpoint.handle_datagram(now, &datagram, datagram.payload_mut(&mut frame));
            }
        }
        self.counters.looped.add(n as u64);
        n
    }

    /// The receiving half of a cycle. With `steering`, frames whose flow another engine owns are handed to it.
    ///
    /// # Errors
    /// The port's, when it is down.
    pub fn receive(
        &mut self,
        now: Instant,
        mut steering: Option<&mut (dyn Steering + 'static)>,
    ) -> Result<usize, PortError> {
        self.looked_at = now;
        let received = self.port.rx_burst(now, &mut self.rx)?;
        while let Some(mut frame) = self.rx.pop() {
            self.take_in(now, &mut frame, steering.as_deref_mut());
        }
        if received > 0 {
            self.drain_host_events(now);
        }
        Ok(received)
    }

    /// Takes in a frame that another engine received for this one.
    pub fn take_steered(&mut self, now: Instant, frame: &mut Frame) {
        let data = frame.data();
        let looped = data.get(..6) == Some(&self.mac) && data.get(6..12) == Some(&self.mac);
        if looped {
            if let Input::Udp(datagram) = self.host.handle_local(now, frame) {
                self.endpoint.handle_datagram(now, &datagram, datagram.payload_mut(frame));
            }
        } else {
            self.take_in(now, frame, None);
        }
        self.drain_host_events(now);
    }

    /// Whether the datagram is this engine's; if not, its owner has it or it is counted.
    #[inline]
    fn is_ours(
        &self,
        datagram: &Datagram,
        frame: &Frame,
        steering: Option<&mut (dyn Steering + 'static)>,
    ) -> bool {
        let Some(steering) = steering else {
            return true;
        };
        match steering.steer(self.endpoint.config().engine, datagram, frame) {
            Steered::Ours => return true,
            Steered::Given => self.counters.forwarded.add(1),
            Steered::Lost(reason) => self.counters.drops.count(reason),
        }
        false
    }

    #[inline]
    fn take_in(
        &mut self,
        now: Instant,
        frame: &mut Frame,
        mut steering: Option<&mut (dyn Steering + 'static)>,
    ) {
        if let Some(steering) = steering.as_deref_mut()
            && is_neighbour_news(frame.data())
        {
            steering.tell_all(frame);
        }
        if self.take_in_rdma(now, frame) {
            return;
        }
        let datagram = match self.host.handle_frame(now, frame) {
            Input::Udp(datagram) => datagram,
            Input::PortUnreachable(quoted) => {
                if let Some(steering) = steering {
                    // Any engine may have sent what is quoted.
                    steering.tell_all(frame);
                }
                self.endpoint.handle_port_unreachable(now, &quoted, quoted.payload(frame));
                return;
            }
            Input::Consumed | Input::Drop(_) => return,
        };
        if let Some(second) = self.rdma.as_deref_mut()
            && datagram.dst.port() == rdma::UDP_PORT
        {
            // Behind IP options.
            second.endpoint.handle_frame(now, frame.data());
            return;
        }
        if !self.is_ours(&datagram, frame, steering) {
            return;
        }
        let payload = datagram.payload_mut(frame);
        if let Verdict::Drop(DropReason::Malformed | DropReason::UnknownVersion | DropReason::Truncated) =
            self.endpoint.handle_datagram(now, &datagram, payload)
            && !self.endpoint.serves(datagram.dst.port())
        {
            // Not ours at all: say so as any host does.
            self.host.port_unreachable(frame, &datagram);
        }
    }

    /// The next thing that applications have to know.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    /// When a cycle is due though nothing arrives; in the past when there is work now.
    pub fn next_deadline(&self) -> Option<Instant> {
        let rdma = self.rdma();
        if !self.tx.is_empty() || rdma.is_some_and(roce::Endpoint::has_transmit) {
            return Some(Instant::ZERO);
        }
        let rdma = rdma.and_then(roce::Endpoint::poll_timeout);
        [self.host.poll_timeout(), self.endpoint.poll_timeout(), self.port.next_deadline(), rdma]
            .into_iter()
            .flatten()
            .min()
    }
}
