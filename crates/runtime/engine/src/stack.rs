//! Ports, each with its host, and a message endpoint, wired together.
//!
//! ```text
//! port.rx_burst -> host.handle_frame -> endpoint.handle_datagram -> events
//! sends -> endpoint.poll_transmit -> frames -> port.tx_burst
//!                                           -> host.handle_local       frames to our own MAC: both ends are here
//! ```
//! With RDMA ([`Stack::with_rdma`]) there is a second endpoint on the same port: RoCE frames go to it whole, before the host, and
//! the two take turns when frames are filled. With several ports ([`Stack::with_leg`]) each has a host and bursts of its own, a leg; the
//! endpoint says which packets are whose, so a port that takes no more holds up what is its own. RDMA is on the first. The host's own frames (ARP, neighbour discovery, ICMP) are few: one goes first in
//! each burst.
//! One call of [`Stack::poll`] is one duty cycle. Transmission comes before reception: what the application queued since
//! the last cycle leaves at once, and what arrives is the application's before the next.

use crate::legs::{self, Leg, StackCounters, Supply, TX_BURSTS_PER_CYCLE};
use crate::rdma::{self, PeerPath};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::{Frame, Pool};
use barewire_host::{Datagram, Endpoint as _, Host, Input, Verdict};
use barewire_port::{MacAddr, Port, PortError};
use barewire_roce as roce;
use barewire_transport::{Endpoint, Event, Memory};
use barewire_wire::msg;
use std::net::IpAddr;

/// A port that takes nothing is offered the same again after so long, if nothing else is to be done before: nobody says when it has room.
const BLOCKED_RETRY: Duration = Duration::from_millis(1);
/// A thread that did not look at its port for so long stood still (a stopped process, a virtual machine taken away) or slept.
const PAUSE: Duration = Duration::from_millis(1);
/// Bursts that it then takes in at most: a full ring of the largest common size.
const CATCH_UP_BURSTS: usize = 128;

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

/// Where several engines share their interfaces: brings each frame to the engine that owns its flow, whichever queue it came in on.
pub trait Steering {
    /// Whose is this datagram, which came in on `leg`? Gives the frame to its owner, if that is another engine than `own`.
    fn steer(&mut self, own: u8, leg: usize, datagram: &Datagram, frame: &Frame) -> Steered;

    /// News for every engine, which came here on `leg`: of a neighbour, for each engine asks and remembers for itself, or of a packet
    /// that one of them sent.
    fn tell_all(&mut self, leg: usize, frame: &Frame);
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

/// Whether a packet asks for a flow.
#[inline]
fn asks_to_open(packet: &[u8]) -> bool {
    msg::Header::parse(packet).is_ok_and(|header| header.kind == msg::Kind::Init)
}

/// Lets a host say where it is. Of engines that share its interface one is enough.
fn announce_once<M: Memory>(endpoint: &Endpoint<M>, host: &mut Host) {
    if endpoint.config().engine == 0 {
        host.announce();
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
    pub fn peer_path(&mut self, now: Instant, dst: IpAddr, src: Option<IpAddr>) -> PeerPath {
        rdma::peer_path(self.host, self.endpoint, now, dst, src)
    }
}

/// A second endpoint on the port.
struct RdmaEndpoint {
    endpoint: roce::Endpoint,
    /// It is its turn to fill a frame.
    turn: bool,
    /// A neighbour was found, or was found not to be there, since somebody asked.
    neighbours_changed: bool,
}

impl RdmaEndpoint {
    /// Writes a frame, if it is its turn (or if `anyway`) and there is one.
    #[inline]
    fn fill(&mut self, now: Instant, frame: &mut Frame, number: u32, anyway: bool) -> bool {
        let filled = self.turn != anyway
            && self.endpoint.has_transmit()
            && rdma::fill(&mut self.endpoint, now, frame, number);
        self.turn &= !filled;
        filled
    }
}

/// Fills a frame of a leg, the one with this number; `second` where that has RDMA. The two endpoints take turns, and the host has what is left.
#[inline]
fn fill_one<M: Memory>(
    now: Instant,
    leg: u8,
    host: &mut Host,
    endpoint: &mut Endpoint<M>,
    mut second: Option<&mut RdmaEndpoint>,
    frame: &mut Frame,
    number: u32,
) -> bool {
    if second.as_deref_mut().is_some_and(|second| second.fill(now, frame, number, false)) {
        return true;
    }
    if endpoint.poll_transmit_on(now, leg, host, frame) {
        if let Some(second) = second {
            second.turn = true;
        }
        return true;
    }
    second.is_some_and(|second| second.fill(now, frame, number, true)) || host.poll_transmit(now, frame)
}

/// The leg that has RDMA.
const FIRST: usize = 0;

/// One port or several, each with its host, and a message endpoint; and a RoCE endpoint where RDMA is wanted.
pub struct Stack<M> {
    // Declared before the supply, which has the pool: a port gives its frames back when it is dropped. Never empty.
    legs: Vec<Leg>,
    endpoint: Endpoint<M>,
    rdma: Option<Box<RdmaEndpoint>>,
    /// When the ports were last asked for frames.
    looked_at: Instant,
    supply: Supply,
}

impl<M: Memory> Stack<M> {
    /// Wires the parts together. `pool` is the port's own. The first frames that leave announce the host's addresses.
    pub fn new(port: Box<dyn Port>, pool: Pool, mut host: Host, endpoint: Endpoint<M>) -> Stack<M> {
        announce_once(&endpoint, &mut host);
        Stack {
            legs: vec![Leg::new(port, host)],
            looked_at: Instant::ZERO,
            endpoint,
            rdma: None,
            supply: Supply::new(pool),
        }
    }

    /// Adds a port with its host, whose pool is the stack's. Flows from addresses of this host leave by this port, and no others.
    ///
    /// # Errors
    /// [`ConfigError`](barewire_transport::ConfigError): too many ports, or packets that are too small.
    pub fn with_leg(
        mut self,
        port: Box<dyn Port>,
        mut host: Host,
    ) -> Result<Stack<M>, barewire_transport::ConfigError> {
        let config = host.config();
        let v4 = config.ipv4.iter().map(|(ip, _)| IpAddr::V4(*ip));
        let addresses: Vec<IpAddr> = v4.chain(config.ipv6.iter().map(|(ip, _)| IpAddr::V6(*ip))).collect();
        self.endpoint.add_leg(&addresses, config.mtu)?;
        announce_once(&self.endpoint, &mut host);
        self.legs.push(Leg::new(port, host));
        Ok(self)
    }

    /// Adds a RoCE endpoint on the first port: all frames to and from UDP port 4791 are its own. It has the host's MAC, VLAN and addresses, and the
    /// pool's frames are at least [`frame_len_max`](roce::Endpoint::frame_len_max) long.
    #[must_use]
    pub fn with_rdma(mut self, endpoint: roce::Endpoint) -> Stack<M> {
        self.rdma = Some(Box::new(RdmaEndpoint { endpoint, turn: false, neighbours_changed: false }));
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
        Some((Rdma { endpoint, host: &mut self.legs[FIRST].host }, &mut self.endpoint))
    }

    /// Whether a neighbour of the RoCE endpoint's was found, or found not to be there, since the last call: then ways that were
    /// pending are worth asking for again.
    #[inline]
    pub fn take_neighbours_changed(&mut self) -> bool {
        self.rdma.as_deref_mut().is_some_and(|second| std::mem::take(&mut second.neighbours_changed))
    }

    /// The ports with their hosts.
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }

    /// The ports with their hosts.
    pub fn legs_mut(&mut self) -> &mut [Leg] {
        &mut self.legs
    }

    /// The first port.
    pub fn port(&self) -> &dyn Port {
        self.legs[FIRST].port()
    }

    /// The first port, to prepare a wait on it.
    pub fn port_mut(&mut self) -> &mut dyn Port {
        self.legs[FIRST].port_mut()
    }

    /// The first port's host.
    pub fn host(&self) -> &Host {
        &self.legs[FIRST].host
    }

    /// The first port's host.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.legs[FIRST].host
    }

    /// The address of ours to use towards `dst`, which decides on the port as well; `None` when there is no way there. A link-local
    /// address may be on any link: of several ports that could have it `link` says which, the index of its interface.
    pub fn source_for(&self, dst: IpAddr, link: Option<u32>) -> Option<IpAddr> {
        legs::choose(self.legs.iter().map(|leg| (leg.interface, &leg.host)), dst, link)
    }

    /// Whether `ip` is an address of ours.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        self.legs.iter().any(|leg| leg.host.is_local(ip))
    }

    /// What one of several ports failed with, once.
    pub fn take_port_error(&mut self) -> Option<(usize, PortError)> {
        self.legs.iter_mut().enumerate().find_map(|(number, leg)| Some((number, leg.failed.take()?)))
    }

    /// Our MAC on this leg is another from now on: see [`Host::set_mac`]. Not with RDMA, whose paths keep the MAC they were made with.
    pub fn set_mac(&mut self, now: Instant, leg: usize, mac: MacAddr) {
        let Some(leg) = self.legs.get_mut(leg) else { return };
        leg.host.set_mac(now, mac);
        leg.mac = mac.0;
        // Asking again is the host's; flows take their new headers at once.
        self.endpoint.routes_changed(now);
    }

    /// Packets on this leg have at most `mtu` bytes from now on: see [`Endpoint::set_mtu_on`]. Not with RDMA, whose paths keep the MTU
    /// that they were made with.
    ///
    /// # Errors
    /// Too few for a packet.
    pub fn set_mtu(
        &mut self,
        now: Instant,
        leg: usize,
        mtu: u16,
    ) -> Result<u32, barewire_transport::ConfigError> {
        let Some(host) = self.legs.get_mut(leg).map(Leg::host_mut) else { return Ok(0) };
        let ended = self.endpoint.set_mtu_on(now, leg as u8, mtu)?;
        host.set_mtu(mtu);
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
        &self.supply.pool
    }

    /// What was counted here.
    pub fn counters(&self) -> &StackCounters {
        &self.supply.counters
    }

    /// One duty cycle: sends what is queued, takes in what has arrived, runs the timers. Says how many frames moved. A port that
    /// cannot send may still receive, and the other way round: both are tried.
    ///
    /// # Errors
    /// The port's, when it is down. Of several ports each may be down for itself: [`take_port_error`](Self::take_port_error) says so.
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
        if self.legs.len() == 1 {
            return self.transmit_on(now, FIRST, steering);
        }
        let mut sent = 0;
        for leg in 0..self.legs.len() {
            let done = self.transmit_on(now, leg, steering.as_deref_mut());
            if done.is_err() {
                self.cut(leg);
            }
            sent += self.note(leg, done);
        }
        Ok(sent)
    }

    /// Frames that one of several ports moved, or why it moved none.
    #[inline]
    fn note(&mut self, leg: usize, done: Result<usize, PortError>) -> usize {
        done.unwrap_or_else(|failed| {
            self.legs[leg].failed = Some(failed);
            0
        })
    }

    /// A port that failed is a wire that is cut: what it left is lost, as nobody could sleep while it waits.
    #[cold]
    fn cut(&mut self, leg: usize) {
        let tx = &mut self.legs[leg].tx;
        for _ in 0..tx.len() {
            self.supply.counters.drops.count(DropReason::PortDown);
        }
        tx.clear();
    }

    /// The sending half of one leg's cycle.
    #[inline]
    fn transmit_on(
        &mut self,
        now: Instant,
        number: usize,
        mut steering: Option<&mut (dyn Steering + 'static)>,
    ) -> Result<usize, PortError> {
        let mut sent = 0;
        self.legs[number].blocked_until = None;
        for _ in 0..TX_BURSTS_PER_CYCLE {
            self.fill(now, number);
            let looped = self.take_in_looped(now, number, steering.as_deref_mut());
            sent += looped;
            let leg = &mut self.legs[number];
            if leg.tx.is_empty() {
                if looped == 0 {
                    break;
                }
                continue;
            }
            if leg.is_shut {
                self.cut(number);
                continue;
            }
            let taken = leg.port.tx_burst(now, &mut leg.tx)?;
            sent += taken;
            if !leg.tx.is_empty() {
                // The port is full: the rest stays where it is, and so do the messages behind it.
                leg.blocked_until = (taken == 0).then_some(now + BLOCKED_RETRY);
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
        for number in 0..self.legs.len() {
            if self.legs[number].run_timers(now) {
                self.say_neighbours_changed(now, number);
            }
        }
        self.endpoint.handle_timeout(now);
        if let Some(second) = self.rdma.as_deref_mut() {
            second.endpoint.handle_timeout_behind(now, || self.legs[FIRST].waiting());
        }
    }

    fn drain_host_events(&mut self, now: Instant, number: usize) {
        if self.legs[number].neighbours_changed() {
            self.say_neighbours_changed(now, number);
        }
    }

    /// A neighbour on this leg was found or lost: flows take their new headers, and who waits for a way may ask again.
    #[cold]
    fn say_neighbours_changed(&mut self, now: Instant, number: usize) {
        self.endpoint.routes_changed(now);
        if let Some(second) = self.rdma_on(number) {
            second.neighbours_changed = true;
        }
    }

    /// The RDMA half, seen from this leg.
    #[inline]
    fn rdma_on(&mut self, number: usize) -> Option<&mut RdmaEndpoint> {
        self.rdma.as_deref_mut().filter(|_| number == FIRST)
    }

    /// A frame of RDMA goes to its endpoint. False: it is none.
    #[inline]
    fn receive_rdma(&mut self, now: Instant, number: usize, frame: &Frame) -> bool {
        match self.rdma_on(number) {
            Some(second) if rdma::is_roce(frame.data()) => {
                second.endpoint.handle_frame(now, frame.data());
                true
            }
            _ => false,
        }
    }

    /// Fills a leg's transmit burst.
    fn fill(&mut self, now: Instant, number: usize) {
        let Stack { legs, endpoint, rdma, supply, .. } = self;
        let mut second = rdma.as_deref_mut().filter(|_| number == FIRST);
        legs[number].fill(now, supply, |host, frame, at| {
            fill_one(now, number as u8, host, endpoint, second.as_deref_mut(), frame, at)
        });
    }

    /// Takes in what a leg sent to itself.
    #[inline]
    fn take_in_looped(
        &mut self,
        now: Instant,
        number: usize,
        mut steering: Option<&mut (dyn Steering + 'static)>,
    ) -> usize {
        let n = self.legs[number].looped.len();
        while let Some(mut frame) = self.legs[number].looped.pop() {
            if self.receive_rdma(now, number, &frame) {
                continue;
            }
            if let Input::Udp(datagram) = self.legs[number].host.handle_local(now, &frame)
                && self.is_ours(number, &datagram, &frame, steering.as_deref_mut())
            {
                self.endpoint.handle_datagram(now, &datagram, datagram.payload_mut(&mut frame));
            }
        }
        self.supply.counters.looped.add(n as u64);
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
        if self.legs.len() == 1 {
            return self.receive_on(now, FIRST, steering);
        }
        let mut received = 0;
        for leg in 0..self.legs.len() {
            let done = self.receive_on(now, leg, steering.as_deref_mut());
            received += self.note(leg, done);
        }
        Ok(received)
    }

    /// The receiving half of one leg's cycle.
    #[inline]
    fn receive_on(
        &mut self,
        now: Instant,
        number: usize,
        mut steering: Option<&mut (dyn Steering + 'static)>,
    ) -> Result<usize, PortError> {
        let leg = &mut self.legs[number];
        let received = leg.port.rx_burst(now, &mut leg.rx)?;
        while let Some(mut frame) = self.legs[number].rx.pop() {
            self.receive_frame(now, number, &mut frame, steering.as_deref_mut());
        }
        if received > 0 {
            self.drain_host_events(now, number);
        }
        Ok(received)
    }

    /// Takes in a frame that another engine received for this one, on the leg that its port number names: engines that share their
    /// interfaces have the same legs.
    pub fn take_steered(&mut self, now: Instant, frame: &mut Frame) {
        let number = usize::from(frame.port());
        let Some(leg) = self.legs.get_mut(number) else { return };
        let data = frame.data();
        let looped = data.get(..6) == Some(&leg.mac) && data.get(6..12) == Some(&leg.mac);
        if looped {
            if let Input::Udp(datagram) = leg.host.handle_local(now, frame) {
                self.endpoint.handle_datagram(now, &datagram, datagram.payload_mut(frame));
            }
        } else {
            self.receive_frame(now, number, frame, None);
        }
        self.drain_host_events(now, number);
    }

    /// Whether the datagram is this engine's; if not, its owner has it or it is counted.
    #[inline]
    fn is_ours(
        &self,
        leg: usize,
        datagram: &Datagram,
        frame: &Frame,
        steering: Option<&mut (dyn Steering + 'static)>,
    ) -> bool {
        let Some(steering) = steering else {
            return true;
        };
        match steering.steer(self.endpoint.config().engine, leg, datagram, frame) {
            Steered::Ours => return true,
            Steered::Given => self.supply.counters.forwarded.add(1),
            Steered::Lost(reason) => self.supply.counters.drops.count(reason),
        }
        false
    }

    #[inline]
    fn receive_frame(
        &mut self,
        now: Instant,
        number: usize,
        frame: &mut Frame,
        mut steering: Option<&mut (dyn Steering + 'static)>,
    ) {
        if let Some(steering) = steering.as_deref_mut()
            && is_neighbour_news(frame.data())
        {
            steering.tell_all(number, frame);
        }
        if self.receive_rdma(now, number, frame) {
            return;
        }
        let datagram = match self.legs[number].host.handle_frame(now, frame) {
            Input::Udp(datagram) => datagram,
            Input::PortUnreachable(quoted) => {
                if let Some(steering) = steering {
                    // Any engine may have sent what is quoted.
                    steering.tell_all(number, frame);
                }
                self.endpoint.handle_port_unreachable(now, &quoted, quoted.payload(frame));
                return;
            }
            Input::Consumed | Input::Drop(_) => return,
        };
        if let Some(second) = self.rdma_on(number)
            && datagram.dst.port() == rdma::UDP_PORT
        {
            // Behind IP options.
            second.endpoint.handle_frame(now, frame.data());
            return;
        }
        if !self.is_ours(number, &datagram, frame, steering) {
            return;
        }
        let payload = datagram.payload_mut(frame);
        if self.legs.len() > 1 && asks_to_open(payload) && self.is_nearer_elsewhere(number, datagram.src.ip())
        {
            self.supply.counters.drops.count(DropReason::WrongPeer);
            return;
        }
        if let Verdict::Drop(DropReason::Malformed | DropReason::UnknownVersion | DropReason::Truncated) =
            self.endpoint.handle_datagram(now, &datagram, payload)
            && !self.endpoint.serves(datagram.dst.port())
        {
            // Not ours at all: say so as any host does.
            self.legs[number].host.port_unreachable(frame, &datagram);
        }
    }

    /// Whether `remote` is at home on another leg than this one: who asks for a flow from there is not who he says.
    fn is_nearer_elsewhere(&self, number: usize, remote: IpAddr) -> bool {
        if matches!(remote, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            // At home on every link.
            return false;
        }
        let here = self.legs[number].host.prefix_to(remote);
        let mut others =
            self.legs.iter().enumerate().filter(|(leg, _)| *leg != number).map(|(_, leg)| &leg.host);
        others.any(|host| host.is_local(remote) || host.prefix_to(remote) > here)
    }

    /// The next thing that applications have to know.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    /// When a cycle is due though nothing arrives; in the past when there is work now.
    pub fn next_deadline(&self) -> Option<Instant> {
        let rdma = self.rdma();
        let is_blocked = |leg: &Leg| leg.blocked_until.is_some();
        if self.legs.iter().any(|leg| !leg.tx.is_empty() && !is_blocked(leg))
            || rdma.is_some_and(roce::Endpoint::has_transmit) && !is_blocked(&self.legs[FIRST])
        {
            return Some(Instant::ZERO);
        }
        let blocked = (0..).zip(&self.legs).map(|(bit, leg)| u16::from(is_blocked(leg)) << bit).sum();
        let rdma = rdma.and_then(roce::Endpoint::poll_timeout);
        let retries = self.legs.iter().filter_map(|leg| leg.blocked_until);
        let legs = self.legs.iter().filter_map(Leg::next_deadline);
        legs.chain(retries).chain(self.endpoint.poll_timeout_but(blocked)).chain(rdma).min()
    }
}
