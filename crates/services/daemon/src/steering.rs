//! Several engines on the same interfaces: each frame finds the engine that owns its flow, whichever queue it came in on. It takes the
//! number of its port along: all engines have the same ports.
//!
//! A connection id names its engine, a handshake names a UDP port whose listener is in a table that all engines read. Frames
//! for another engine are copied into a memory link to it; one that is full drops and counts, as a queue of the card would.
//!
//! Where the card says how it chooses a queue, an engine opens its flows from UDP ports whose answers come in on a queue of its own, so
//! that few frames change hands.

use barewire_base::{DropReason, Duration, Instant};
use barewire_engine::{Rss, Stack, Steered, Steering, queues_of, rss_of};
use barewire_frame::{Burst, Frame, Pool, PoolConfig, PoolError};
use barewire_host::Datagram;
use barewire_port::{MemoryConfig, MemoryEnd, MemoryLink, MemoryPort, OpenError, Port, PortUri};
use barewire_transport::{Endpoint, Memory, engine_for};
use barewire_wire::msg;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Frames that may be under way from one engine to another.
const LINK_SLOTS: u32 = 512;
/// Frames of an engine's own that carry what it hands on.
const POOL_FRAMES: u32 = 1024;

/// Which engine listens on each UDP port: its number plus one, or zero.
pub(crate) struct ListenTable(Box<[AtomicU8]>);

impl ListenTable {
    pub(crate) fn new() -> ListenTable {
        ListenTable((0..=u16::MAX).map(|_| AtomicU8::new(0)).collect())
    }

    /// Takes the port for an engine. False when another engine has it.
    pub(crate) fn claim(&self, udp_port: u16, engine: u8) -> bool {
        let entry = &self.0[usize::from(udp_port)];
        match entry.compare_exchange(0, engine + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(owner) => owner == engine + 1,
        }
    }

    /// Gives up the ports of an engine for which `keep` does not hold.
    pub(crate) fn release_unless(&self, engine: u8, keep: impl Fn(u16) -> bool) {
        for port in 0..=u16::MAX {
            let entry = &self.0[usize::from(port)];
            if entry.load(Ordering::Acquire) == engine + 1 && !keep(port) {
                entry.store(0, Ordering::Release);
            }
        }
    }

    /// Gives up a port of this engine's.
    pub(crate) fn release(&self, udp_port: u16, engine: u8) {
        let entry = &self.0[usize::from(udp_port)];
        let _ = entry.compare_exchange(engine + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether another engine than this one has the port.
    pub(crate) fn is_anothers(&self, udp_port: u16, engine: u8) -> bool {
        self.owner(udp_port).is_some_and(|owner| owner != engine)
    }

    fn owner(&self, udp_port: u16) -> Option<u8> {
        self.0[usize::from(udp_port)].load(Ordering::Acquire).checked_sub(1)
    }
}

/// One engine's ends of the links to all others, on their way to its thread.
pub(crate) struct LinkEnds {
    own: u8,
    mtu: u16,
    ends: Vec<Option<MemoryEnd>>,
    table: Arc<ListenTable>,
}

/// Bytes of the longest frame that carries packets of `mtu` bytes: Ethernet, a VLAN tag.
fn frame_bytes(mtu: u16) -> u32 {
    u32::from(mtu) + 18
}

/// The links: as long as a frame may be.
fn link_config(mtu: u16) -> MemoryConfig {
    let slot_bytes = frame_bytes(mtu).next_multiple_of(64).clamp(MemoryConfig::default().slot_bytes, 1 << 16);
    MemoryConfig { slots: LINK_SLOTS, slot_bytes }
}

/// The frames for them.
fn pool_config(mtu: u16) -> PoolConfig {
    let config = PoolConfig { frames: POOL_FRAMES, ..PoolConfig::default() };
    let chunk_len = (config.headroom + frame_bytes(mtu)).next_power_of_two().max(config.chunk_len);
    PoolConfig { chunk_len, ..config }
}

/// Links every engine with every other, for packets of up to `mtu` bytes.
///
/// # Errors
/// When descriptors run out.
pub(crate) fn link_all(engines: u8, mtu: u16) -> Result<Vec<LinkEnds>, OpenError> {
    let table = Arc::new(ListenTable::new());
    let mut all: Vec<LinkEnds> = (0..engines)
        .map(|own| {
            let ends = (0..engines).map(|_| None).collect();
            LinkEnds { own, mtu, ends, table: Arc::clone(&table) }
        })
        .collect();
    let config = link_config(mtu);
    for a in 0..usize::from(engines) {
        for b in a + 1..usize::from(engines) {
            let (end_a, end_b) = MemoryLink::new(config)?;
            all[a].ends[b] = Some(end_a);
            all[b].ends[a] = Some(end_b);
        }
    }
    Ok(all)
}

struct Link {
    port: MemoryPort,
    out: Burst,
}

/// The receive queues of one engine at one interface, and how the card chooses among all.
struct Queues {
    rss: Rss,
    own: Vec<u32>,
}

impl Queues {
    fn of(port: &PortUri) -> Option<Queues> {
        let own = queues_of(port)?;
        Some(Queues { rss: rss_of(port)?, own })
    }
}

/// An engine's port, and its queues where they are known.
struct Way {
    port: PortUri,
    queues: Option<Queues>,
    /// When a device that did not say so was asked last.
    asked_at: Instant,
}

/// Until a device is asked again: asking takes a lock, and a connection is no place to wait.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Whether it is a reset by a host that no longer knows the flow. It names the peer's own number, so it concerns whichever engine has the
/// flow, and that need not be the one that listens on its UDP port.
fn is_reset(packet: &[u8]) -> bool {
    msg::Header::parse(packet).is_ok_and(|header| header.kind == msg::Kind::Reset)
}

/// One engine's links, on its thread.
pub(crate) struct Links {
    own: u8,
    links: Vec<Option<Link>>,
    rx: Burst,
    table: Arc<ListenTable>,
    now: Instant,
    pool: Pool,
    /// The engine's ports, in order.
    ways: Vec<Way>,
}

impl LinkEnds {
    pub(crate) fn open(self, ports: Vec<PortUri>) -> Result<Links, PoolError> {
        let pool = Pool::new(pool_config(self.mtu))?;
        let links = self
            .ends
            .into_iter()
            .map(|end| end.map(|end| Link { port: end.open(pool.clone()), out: Burst::new() }))
            .collect();
        let mut links = Links {
            own: self.own,
            links,
            rx: Burst::new(),
            table: self.table,
            now: Instant::ZERO,
            pool,
            ways: ports.into_iter().map(|port| Way { port, queues: None, asked_at: Instant::ZERO }).collect(),
        };
        (0..links.ways.len()).for_each(|leg| links.learn_queues(leg));
        Ok(links)
    }
}

impl Links {
    pub(crate) fn table(&self) -> &ListenTable {
        &self.table
    }

    pub(crate) fn own(&self) -> u8 {
        self.own
    }

    /// Asks a port's card how it chooses a receive queue: anew whenever the port was opened.
    pub(crate) fn learn_queues(&mut self, leg: usize) {
        if let Some(Way { port, queues, .. }) = self.ways.get_mut(leg) {
            *queues = Queues::of(port);
        }
    }

    /// A UDP port for a flow on `leg` from `local` to `remote` whose answers come in here; zero: any will do, or none was found.
    pub(crate) fn choose_udp_port<M: Memory>(
        &mut self,
        endpoint: &mut Endpoint<M>,
        leg: usize,
        local: IpAddr,
        remote: SocketAddr,
    ) -> u16 {
        let Some(way) = self.ways.get_mut(leg) else { return 0 };
        // A device of DPDK starts with the last of its engines, after this one has asked.
        let asks = way.queues.is_none() && way.port.scheme == "dpdk";
        if asks && self.now.since(way.asked_at) >= ASK_AGAIN {
            (way.asked_at, way.queues) = (self.now, Queues::of(&way.port));
        }
        let Some(Queues { rss, own }) = &way.queues else { return 0 };
        let comes_here =
            |port| rss.queue(remote, SocketAddr::new(local, port)).is_some_and(|queue| own.contains(&queue));
        endpoint.draw_udp_port(comes_here).unwrap_or(0)
    }

    /// Takes in what other engines received for this one.
    pub(crate) fn receive<M: Memory>(&mut self, now: Instant, stack: &mut Stack<M>) -> usize {
        self.now = now;
        let mut received = 0;
        for link in self.links.iter_mut().flatten() {
            // A link within the process fails only when the other engine is gone, and with it the daemon.
            received += link.port.rx_burst(now, &mut self.rx).unwrap_or(0);
            while let Some(mut frame) = self.rx.pop() {
                stack.take_steered(now, &mut frame);
            }
        }
        received
    }

    /// Sends what was handed on; what finds a link full waits for the next time.
    pub(crate) fn flush(&mut self, now: Instant) {
        for link in self.links.iter_mut().flatten() {
            if !link.out.is_empty() {
                let _ = link.port.tx_burst(now, &mut link.out);
            }
        }
    }

    fn give(&mut self, engine: u8, leg: usize, frame: &Frame) -> Steered {
        let Some(Some(link)) = self.links.get_mut(usize::from(engine)) else {
            // No such engine: the endpoint counts it as an unknown flow.
            return Steered::Ours;
        };
        let Some(mut copy) = self.pool.alloc_from(frame.data()) else {
            let too_large = frame.len() > self.pool.frame_max();
            return Steered::Lost(if too_large { DropReason::TooLarge } else { DropReason::PoolEmpty });
        };
        // What the sender left to an offload is unfinished for the owner, too.
        copy.set_checksum(frame.checksum());
        copy.set_port(leg as u16);
        if link.out.room() == 0 {
            let _ = link.port.tx_burst(self.now, &mut link.out);
        }
        match link.out.push(copy) {
            Ok(()) => Steered::Given,
            Err(_) => Steered::Lost(DropReason::RingFull),
        }
    }

    pub(crate) fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        for link in self.links.iter().flatten() {
            if let Some(fd) = link.port.wait_fd() {
                add(fd);
            }
        }
    }

    pub(crate) fn prepare_wait(&mut self) -> bool {
        let mut idle = true;
        for link in self.links.iter_mut().flatten() {
            idle &= link.port.prepare_wait() && link.out.is_empty();
        }
        idle
    }

    pub(crate) fn finish_wait(&mut self) {
        for link in self.links.iter_mut().flatten() {
            link.port.finish_wait();
        }
    }
}

impl Steering for Links {
    #[inline]
    fn steer(&mut self, own: u8, leg: usize, datagram: &Datagram, frame: &Frame) -> Steered {
        let payload = datagram.payload(frame);
        let owner = match engine_for(payload) {
            None if is_reset(payload) => {
                self.tell_all(leg, frame);
                return Steered::Ours;
            }
            None => self.table.owner(datagram.dst.port()),
            some => some,
        };
        match owner {
            Some(engine) if engine != own => self.give(engine, leg, frame),
            _ => Steered::Ours,
        }
    }

    fn tell_all(&mut self, leg: usize, frame: &Frame) {
        for engine in 0..self.links.len() as u8 {
            if engine != self.own {
                let _ = self.give(engine, leg, frame);
            }
        }
    }
}

#[cfg(test)]
#[path = "steering_tests.rs"]
mod tests;
