//! RDMA on a port: which frames are a RoCE endpoint's, how it finds the way to a peer, and the stack of an application that
//! has nothing but RDMA.

use crate::legs::{Leg, StackCounters, Supply, TX_BURSTS_PER_CYCLE};
use crate::sys;
use barewire_base::{Duration, Instant};
use barewire_frame::{Frame, Pool};
use barewire_host::{Host, Input, Route};
use barewire_port::{Port, PortError};
use barewire_roce::{Endpoint, Event, PathId, PathSpec};
use std::net::{IpAddr, SocketAddr};

/// The UDP port of RoCEv2 (IANA).
pub const UDP_PORT: u16 = 4791;

/// Sleep between two looks at a port that cannot be waited for.
const UNWATCHED: Duration = Duration::from_micros(50);

/// The way to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerPath {
    /// A path for [`Connect`](barewire_roce::Connect) or for datagrams.
    Ready(PathId),
    /// The next hop is being asked for its address: go on polling, and ask again.
    Pending,
    /// There is no way there, or the next hop does not answer.
    Unreachable,
}

/// Whether a frame looks like RoCEv2 in a plain IP header. What hides behind IP options the host takes apart.
#[inline]
pub fn is_roce(data: &[u8]) -> bool {
    const UDP: Option<&u8> = Some(&17);
    let l3 = if data.get(12..14) == Some(&[0x81, 0]) { 18 } else { 14 };
    let port = match data.get(l3 - 2..l3) {
        Some([0x08, 0x00]) if data.get(l3) == Some(&0x45) && data.get(l3 + 9) == UDP => l3 + 22,
        Some([0x86, 0xdd]) if data.get(l3 + 6) == UDP => l3 + 42,
        _ => return false,
    };
    data.get(port..port + 2) == Some(&UDP_PORT.to_be_bytes())
}

/// Finds the way to `dst`, from `src` or from the address of ours that suits it.
pub fn peer_path(
    host: &mut Host,
    endpoint: &mut Endpoint,
    now: Instant,
    dst: IpAddr,
    src: Option<IpAddr>,
) -> PeerPath {
    let Some(src) = src.or_else(|| host.source_for(dst)) else {
        return PeerPath::Unreachable;
    };
    match host.route(now, SocketAddr::new(src, UDP_PORT), SocketAddr::new(dst, UDP_PORT)) {
        Route::Ready(template) => match endpoint.path(PathSpec::new(template.next_hop(), src, dst)) {
            Ok(path) => PeerPath::Ready(path),
            Err(_) => PeerPath::Unreachable,
        },
        Route::Pending => PeerPath::Pending,
        Route::Unreachable => PeerPath::Unreachable,
    }
}

/// Has the endpoint write its next frame into `frame`, which arrives empty and is to be the one with this number that waits for the port.
/// False: nothing to send.
#[inline]
pub(crate) fn fill(endpoint: &mut Endpoint, now: Instant, frame: &mut Frame, number: u32) -> bool {
    endpoint.number_frame(number);
    if !frame.set_len(endpoint.frame_len_max()) {
        return false;
    }
    let len = endpoint.poll_transmit(now, frame.data_mut());
    frame.set_len(len.unwrap_or(0)) && len.is_some()
}

/// A port, a host and a RoCE endpoint: the whole of an RDMA device in software, for one thread.
///
/// ```text
/// port.rx_burst -> RoCE frames -> endpoint.handle_frame -> completions, events
///               -> the rest    -> host.handle_frame     (ARP, neighbour discovery, ping)
/// posted requests, answers -> endpoint.poll_transmit -> port.tx_burst
/// ```
/// Reception comes first: what it makes the endpoint say (acknowledgements, answers to reads) leaves in the same cycle.
pub struct RdmaStack {
    // Declared before the supply, which has the pool: a port gives its frames back when it is dropped.
    leg: Leg,
    endpoint: Endpoint,
    supply: Supply,
}

impl RdmaStack {
    /// Wires the parts together. `pool` is the port's own, its frames at least [`Endpoint::frame_len_max`] long; host and
    /// endpoint have the same MAC, VLAN and addresses. The first frames that leave announce the host's addresses.
    pub fn new(port: Box<dyn Port>, pool: Pool, mut host: Host, endpoint: Endpoint) -> RdmaStack {
        host.announce();
        RdmaStack { leg: Leg::new(port, host), endpoint, supply: Supply::new(pool) }
    }

    /// The port, to look at its capabilities and counters.
    pub fn port(&self) -> &dyn Port {
        self.leg.port()
    }

    /// The port, to prepare a wait on it.
    pub fn port_mut(&mut self) -> &mut dyn Port {
        self.leg.port_mut()
    }

    /// The host: its addresses, neighbours and counters.
    pub fn host(&self) -> &Host {
        &self.leg.host
    }

    /// The endpoint: the verbs.
    #[inline]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The endpoint: the verbs.
    #[inline]
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// What was counted here.
    pub fn counters(&self) -> &StackCounters {
        &self.supply.counters
    }

    /// The way to `dst`; asks for the next hop's address where it is not known.
    pub fn peer_path(&mut self, now: Instant, dst: IpAddr, src: Option<IpAddr>) -> PeerPath {
        peer_path(&mut self.leg.host, &mut self.endpoint, now, dst, src)
    }

    /// One duty cycle: takes in what has arrived, runs the timers, sends what is due. Says how many frames moved.
    ///
    /// # Errors
    /// The port's, when it is down.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Result<usize, PortError> {
        // A port that cannot receive may still send: both are tried.
        let received = self.receive(now);
        let sent = self.transmit(now);
        Ok(received? + sent?)
    }

    /// The receiving half of a cycle.
    ///
    /// # Errors
    /// The port's, when it is down.
    pub fn receive(&mut self, now: Instant) -> Result<usize, PortError> {
        let received = self.leg.port.rx_burst(now, &mut self.leg.rx)?;
        while let Some(frame) = self.leg.rx.pop() {
            if is_roce(frame.data()) {
                self.endpoint.handle_frame(now, frame.data());
            } else {
                self.take_in_other(now, &frame);
            }
        }
        Ok(received)
    }

    #[cold]
    fn take_in_other(&mut self, now: Instant, frame: &Frame) {
        if let Input::Udp(datagram) = self.leg.host.handle_frame(now, frame) {
            if datagram.dst.port() == UDP_PORT {
                self.endpoint.handle_frame(now, frame.data());
            } else {
                self.leg.host.port_unreachable(frame, &datagram);
            }
        }
        // Whoever waits for a way asks again.
        self.leg.neighbours_changed();
    }

    /// The sending half of a cycle, timers first.
    ///
    /// # Errors
    /// The port's, when it is down.
    pub fn transmit(&mut self, now: Instant) -> Result<usize, PortError> {
        self.leg.run_timers(now);
        self.endpoint.handle_timeout_behind(now, || self.leg.waiting());
        let mut sent = 0;
        for _ in 0..TX_BURSTS_PER_CYCLE {
            let more = self.fill(now);
            let looped = self.leg.looped.len();
            while let Some(frame) = self.leg.looped.pop() {
                self.endpoint.handle_frame(now, frame.data());
            }
            self.supply.counters.looped.add(looped as u64);
            sent += looped;
            if !self.leg.tx.is_empty() {
                sent += self.leg.port.tx_burst(now, &mut self.leg.tx)?;
            }
            // What is left in the burst found the port full: it stays there, and so do the requests behind it. What came back to
            // ourselves may have been answered.
            if !self.leg.tx.is_empty() || (!more && looped == 0) {
                break;
            }
        }
        Ok(sent)
    }

    /// Fills the transmit burst. Whether there may be more.
    fn fill(&mut self, now: Instant) -> bool {
        let RdmaStack { leg, endpoint, supply } = self;
        leg.fill(now, supply, |host, frame, number| {
            (endpoint.has_transmit() && fill(endpoint, now, frame, number)) || host.poll_transmit(now, frame)
        })
    }

    /// The next thing that there is to know.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    /// Sleeps until a frame comes or a deadline, at most for `limit`. For whoever calls [`poll`](Self::poll) from a loop of its
    /// own; a port without a descriptor is looked at again after 50 us.
    pub fn sleep(&mut self, now: Instant, limit: Duration) {
        let left = self.next_deadline().map_or(limit, |at| at.since(now).min(limit));
        if left == Duration::ZERO {
            // Frames wait, and the port takes none: whoever is to make room may need this core.
            std::thread::yield_now();
            return;
        }
        match self.leg.port.wait_fd() {
            Some(fd) => {
                if self.leg.port.prepare_wait() {
                    sys::wait_readable(fd, left.as_nanos());
                }
                self.leg.port.finish_wait();
            }
            None => std::thread::sleep(std::time::Duration::from_nanos(left.min(UNWATCHED).as_nanos())),
        }
    }

    /// When a cycle is due though nothing arrives; in the past when there is work now.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.leg.tx.is_empty() || self.endpoint.has_transmit() {
            return Some(Instant::ZERO);
        }
        self.leg.next_deadline().into_iter().chain(self.endpoint.poll_timeout()).min()
    }
}
