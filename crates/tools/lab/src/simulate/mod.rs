//! A lab in virtual time: the same topology file, the same transport, the same link nodes, and a clock that jumps from event
//! to event. No privilege, no namespace, no noise: a seed gives the same result to the nanosecond on every machine. What it
//! does not have is what machines add, so a result says that it is simulated.
//!
//! ```text
//! host of messages: barewire-host + transport endpoint + a client or a server     link node: the real one, between ports of this world
//! host of connections: the RDMA stack of an engine on a port of this world
//! switch: forwards by Ethernet address, learns nothing, takes no time
//! ```

mod connector;
mod link;
mod port;
mod result;
mod station;

use crate::progress::silent;
use crate::topology::{LinkPlan, Node, SwitchKind, Topology, root};
use crate::{LabError, Progress};
use barewire_base::Duration;
use barewire_frame::PoolConfig;
use barewire_sim::{Hub, LinkConfig, NodeId, Outcome, World};
use connector::Connector;
use link::LinkStation;
pub use result::Simulated;
use station::{Role, Station, StationConfig};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// How long a frame is on a plain wire. Not zero, so that no time stands still; what a short cable takes.
pub const WIRE_DELAY: Duration = Duration::from_micros(1);
/// Between the starts of two clients, so that not all ask for addresses at one instant.
const START_GAP: Duration = Duration::from_micros(50);
/// The UDP port of the servers.
const UDP_PORT: u16 = 888;
/// Messages that a client keeps under way, at most.
const WINDOW_MAX: u32 = 1024;
/// Largest message.
const MESSAGE_BYTES_MAX: u32 = 1 << 20;
/// Frames of the world's pool, at most.
const POOL_FRAMES_MAX: u32 = 1 << 19;
/// Bytes of a world, at most: its frames, and each host's memory for messages.
pub const MEMORY_MAX: u64 = 8 << 30;
/// Events between two looks at how far it has come.
const EVENTS_PER_LOOK: u32 = 1 << 14;

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pattern {
    /// The first to the second, the third to the fourth.
    #[default]
    Pairs,
    /// Each to the next, the last to the first.
    Ring,
    /// All to the first.
    Incast,
}

impl Pattern {
    /// Each with its word.
    pub const WORDS: &'static [(&'static str, Pattern)] =
        &[("pairs", Pattern::Pairs), ("ring", Pattern::Ring), ("incast", Pattern::Incast)];

    /// How many clients each of `n` hosts serves.
    fn clients(self, n: usize) -> Vec<u32> {
        let mut clients = vec![0; n];
        for server in (0..n).filter_map(|i| self.server_of(i, n)) {
            clients[server] += 1;
        }
        clients
    }

    /// The server of client `i` among `n`; `None`: it is no client.
    fn server_of(self, i: usize, n: usize) -> Option<usize> {
        match self {
            Pattern::Pairs => (i.is_multiple_of(2) && i + 1 < n).then_some(i + 1),
            Pattern::Ring => (n > 1).then_some((i + 1) % n),
            Pattern::Incast => (i > 0).then_some(0),
        }
    }
}

/// What passes between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Work {
    /// Messages, which the server sends back.
    #[default]
    Messages,
    /// RDMA connections (RoCEv2, reliable): a new queue pair on each side, REQ, REP, RTU; then DREQ, DREP, and both destroyed.
    Connections,
}

impl Work {
    /// Each with its word.
    pub const WORDS: &'static [(&'static str, Work)] =
        &[("messages", Work::Messages), ("connections", Work::Connections)];
}

/// What the hosts do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What passes between them.
    pub work: Work,
    /// Who talks to whom.
    pub pattern: Pattern,
    /// Bytes of each message, there and back. Connections have none.
    pub message_bytes: u32,
    /// Messages that each client keeps under way, or connections that it is opening or closing.
    pub window: u32,
    /// For how much virtual time clients send, or ask.
    pub duration: Duration,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            work: Work::Messages,
            pattern: Pattern::Pairs,
            message_bytes: 64,
            window: 1,
            duration: Duration::from_secs(1),
        }
    }
}

/// How long the client with this number waits before it starts.
fn gaps(place: usize) -> Duration {
    Duration::from_nanos(START_GAP.as_nanos() * place as u64)
}

fn refused(what: &str, why: impl Into<String>) -> LabError {
    LabError::Program { what: format!("simulate: {what}"), why: why.into() }
}

/// Runs a workload over the topology in virtual time.
///
/// # Errors
/// [`LabError::Program`] for a topology or workload that cannot be simulated.
pub fn simulate(topology: &Topology, workload: &Workload) -> Result<Simulated, LabError> {
    simulate_with(topology, workload, &mut silent)
}

/// As [`simulate`], and tells how much of the virtual time has passed, in milliseconds.
///
/// # Errors
/// As there, and [`LabError::Interrupted`].
pub fn simulate_with(
    topology: &Topology,
    workload: &Workload,
    progress: &mut Progress<'_>,
) -> Result<Simulated, LabError> {
    check(workload)?;
    let mut notes = Vec::new();
    let mut world = Worldly::new(topology, workload)?;
    world.hosts(&mut notes)?;
    world.switches(&mut notes)?;
    world.links()?;
    world.tables()?;
    world.run(notes, progress)
}

/// Refuses a world that would not fit, before any of it is made: a host's memory is the product of three numbers that each are
/// in bounds.
fn check_memory(
    pool: &PoolConfig,
    workload: &Workload,
    flows: impl Iterator<Item = u32>,
) -> Result<(), LabError> {
    let frames = u64::from(pool.frames).checked_mul(pool.chunk_len.into());
    // Connections take memory as they come, within a number that all hosts of a world share.
    let flows = flows.filter(|_| workload.work == Work::Messages);
    let hosts = flows.map(|flows| station::memory_bytes(workload, flows)?.checked_mul(2));
    let sum = hosts.fold(frames, |sum, host| sum?.checked_add(host?));
    match sum {
        Some(bytes) if bytes <= MEMORY_MAX => Ok(()),
        _ => {
            let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
            Err(asked(
                "memory",
                format!(
                    "{} for frames ({}) and messages, at most {}; smaller messages, a smaller window, or fewer clients of one \
                     server take less; of frames a smaller MTU, or fewer links with delays",
                    sum.map_or("more than can be counted".to_owned(), mib),
                    frames.map_or("more than can be counted".to_owned(), mib),
                    mib(MEMORY_MAX)
                ),
            ))
        }
    }
}

/// The command line, not the topology, is what cannot be.
fn asked(what: &str, why: impl Into<String>) -> LabError {
    LabError::Asked { what: format!("simulate: {what}"), why: why.into() }
}

fn check(workload: &Workload) -> Result<(), LabError> {
    let sizes = station::STAMP_BYTES as u32..=MESSAGE_BYTES_MAX;
    if workload.work == Work::Messages && !sizes.contains(&workload.message_bytes) {
        return Err(asked(
            &format!("message_bytes = {}", workload.message_bytes),
            format!("from {} to {MESSAGE_BYTES_MAX}", station::STAMP_BYTES),
        ));
    }
    if !(1..=WINDOW_MAX).contains(&workload.window) {
        return Err(asked(&format!("window = {}", workload.window), format!("from 1 to {WINDOW_MAX}")));
    }
    if workload.duration == Duration::ZERO {
        return Err(asked("duration", "is zero"));
    }
    Ok(())
}

/// The places of the hosts that take part: those with an address.
fn members(topology: &Topology) -> Vec<usize> {
    let has = |i: &usize| {
        let first = topology.hosts[*i].interfaces.first();
        first.is_some_and(|interface| !interface.addresses.is_empty())
    };
    (0..topology.hosts.len()).filter(has).collect()
}

/// A world being made of a topology.
struct Worldly<'a> {
    topology: &'a Topology,
    workload: &'a Workload,
    world: World,
    /// Hosts that take part, by their place in the topology: node and address.
    hosts: HashMap<usize, (NodeId, IpAddr)>,
    switches: Vec<NodeId>,
    links: Vec<(String, NodeId)>,
}

impl<'a> Worldly<'a> {
    fn new(topology: &'a Topology, workload: &'a Workload) -> Result<Worldly<'a>, LabError> {
        let mtu = topology.links.iter().map(|link| link.mtu).max().unwrap_or(1500);
        let ways = topology.links.iter().filter(|link| link.is_impaired()).flat_map(|link| &link.faults);
        let under_way: u64 = ways.map(|faults| u64::from(faults.flight_limit()).min(4096)).sum();
        // For each host what its window may have in flight, and a flood to all of them now and then.
        let wanted = 16_384 + under_way + topology.hosts.len() as u64 * 128;
        let pool = PoolConfig {
            frames: wanted.min(POOL_FRAMES_MAX.into()) as u32,
            chunk_len: (mtu + 256).next_power_of_two().clamp(2048, 1 << 17),
            ..PoolConfig::default()
        };
        let n = members(topology).len();
        let clients = workload.pattern.clients(n);
        let flows = |(place, &clients): (usize, &u32)| {
            clients + u32::from(workload.pattern.server_of(place, n).is_some())
        };
        check_memory(&pool, workload, clients.iter().enumerate().map(flows))?;
        let mut world =
            World::with_pool(topology.seed, pool).map_err(|e| refused("frames", e.to_string()))?;
        world.set_step_limit(u64::MAX);
        let (hosts, switches, links) = (HashMap::new(), Vec::new(), Vec::new());
        Ok(Worldly { topology, workload, world, hosts, switches, links })
    }

    fn hosts(&mut self, notes: &mut Vec<String>) -> Result<(), LabError> {
        let members = members(self.topology);
        if members.len() < 2 {
            return Err(refused(&self.topology.name, "fewer than two hosts have a link and an address"));
        }
        let silent = self.topology.hosts.len() - members.len();
        if silent > 0 {
            notes.push(format!("{silent} hosts without a link or an address take no part"));
        }
        let n = members.len();
        let clients = self.workload.pattern.clients(n);
        let address = |place: usize| {
            let interface = &self.topology.hosts[members[place]].interfaces[0];
            // IPv4 where there is any: both ends of a flow must choose alike.
            let v4 = interface.addresses.iter().find(|(a, _)| a.is_ipv4());
            v4.or(interface.addresses.first()).map(|(a, _)| *a)
        };
        for (place, &i) in members.iter().enumerate() {
            let host = &self.topology.hosts[i];
            if host.interfaces.len() > 1 || host.forwarding {
                notes.push(format!("{} has its first interface only, and forwards nothing", host.name));
            }
            let role = Role {
                server: clients[place],
                client: self.workload.pattern.server_of(place, n).and_then(address).map(|a| {
                    let start = self.world.now() + gaps(place);
                    (SocketAddr::new(a, UDP_PORT), start, start + self.workload.duration)
                }),
            };
            let link = self.topology.ends_of(Node::Host(i)).next().map(|(link, _)| link.mtu);
            let secret_seed = self.world.fork_prng().next_u64();
            let config = StationConfig {
                host,
                mtu: link.unwrap_or(1500).min(u16::MAX.into()) as u16,
                neighbours: n,
                clients: clients.iter().sum::<u32>() as usize,
                udp_port: UDP_PORT,
                workload: self.workload,
                role,
                secret_seed,
            };
            let pool = self.world.pool().clone();
            let node: Result<Box<dyn barewire_sim::Node>, String> = match self.workload.work {
                Work::Messages => Station::new(config, pool).map(|station| Box::new(station) as _),
                Work::Connections => Connector::new(config, pool).map(|connector| Box::new(connector) as _),
            };
            let id = self.world.add_node(node.map_err(|why| refused(&host.name, why))?);
            if let Some(address) = address(place) {
                self.hosts.insert(i, (id, address));
            }
        }
        Ok(())
    }

    fn switches(&mut self, notes: &mut Vec<String>) -> Result<(), LabError> {
        for switch in &self.topology.switches {
            if matches!(switch.kind, SwitchKind::Barewire { .. }) {
                notes.push(format!("{} forwards by Ethernet address; its program is not run", switch.name));
            }
            self.switches.push(self.world.add_node(Box::new(Hub::new())));
        }
        Ok(())
    }

    fn id(&self, node: Node) -> Option<NodeId> {
        match node {
            Node::Host(i) => self.hosts.get(&i).map(|(id, _)| *id),
            Node::Switch(i) => self.switches.get(i).copied(),
        }
    }

    /// Whether the link is in the world: further links of a host are not.
    fn is_there(&self, link: &LinkPlan) -> bool {
        link.ends.iter().all(|end| match end.node {
            Node::Host(i) => {
                let host = &self.topology.hosts[i];
                self.hosts.contains_key(&i)
                    && host.interfaces.first().is_some_and(|first| first.name == end.interface)
            }
            Node::Switch(_) => true,
        })
    }

    fn links(&mut self) -> Result<(), LabError> {
        let wire = LinkConfig::perfect(WIRE_DELAY);
        for link in &self.topology.links {
            let [Some(a), Some(b)] = link.ends.each_ref().map(|end| self.id(end.node)) else { continue };
            if !self.is_there(link) {
                continue;
            }
            if link.is_impaired() {
                let station = LinkStation::new(link).map_err(|why| refused(&link.name, why))?;
                let node = self.world.add_node(Box::new(station));
                self.world.connect(a, node, wire.clone());
                self.world.connect(node, b, wire.clone());
                self.links.push((link.name.clone(), node));
            } else {
                self.world.connect(a, b, wire.clone());
            }
        }
        Ok(())
    }

    /// Tells every switch where every host is: by which of its links, in the order in which they were connected.
    fn tables(&mut self) -> Result<(), LabError> {
        // The links of each switch: which, and what is at its other end.
        let mut ports: Vec<Vec<(usize, Node)>> = vec![Vec::new(); self.switches.len()];
        let mut tree: Vec<usize> = (0..self.switches.len()).collect();
        for (at, link) in self.topology.links.iter().enumerate().filter(|(_, link)| self.is_there(link)) {
            let [a, b] = link.ends.each_ref().map(|end| end.node);
            for (here, there) in [(a, b), (b, a)] {
                if let Node::Switch(i) = here {
                    ports[i].push((at, there));
                }
            }
            if let (Node::Switch(a), Node::Switch(b)) = (a, b) {
                let (a, b) = (root(&tree, a), root(&tree, b));
                if a == b {
                    return Err(refused(&link.name, "closes a ring of switches, in which floods never end"));
                }
                tree[a] = b;
            }
        }
        for (i, id) in self.switches.clone().into_iter().enumerate() {
            for (port, &first) in ports[i].iter().enumerate() {
                // A tree: whoever does not go back by the link he came by meets everything once.
                let mut open = vec![first];
                while let Some((came_by, node)) = open.pop() {
                    match node {
                        Node::Host(host) => {
                            let mac = self.topology.hosts[host].interfaces[0].mac.0;
                            self.world.node_mut::<Hub>(id).attach(mac, port as u16);
                        }
                        Node::Switch(next) => {
                            open.extend(ports[next].iter().filter(|(link, _)| *link != came_by));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn run(mut self, notes: Vec<String>, progress: &mut Progress<'_>) -> Result<Simulated, LabError> {
        // Time to open, to send, and for what is under way at the end.
        let whole = gaps(self.hosts.len()) + self.workload.duration + Duration::from_millis(100);
        let (start, ms) = (self.world.now(), |span: Duration| span.as_nanos() / 1_000_000);
        let mut events = 0u32;
        let outcome = self.world.run_while(whole, |world| {
            events = events.wrapping_add(1);
            !events.is_multiple_of(EVENTS_PER_LOOK)
                || progress(ms(world.now().since(start)), ms(whole), "virtual time in ms")
        });
        match outcome {
            Outcome::StepLimit => {
                return Err(refused(
                    &self.topology.name,
                    "time stands still: too much happens at one instant",
                ));
            }
            // Nobody else ends it before its time.
            Outcome::Done => return Err(LabError::Interrupted),
            _ => {}
        }
        let n = self.hosts.len();
        let pattern = self.workload.pattern;
        let clients = (0..n).filter(|&place| pattern.server_of(place, n).is_some()).count();
        let mut result = Simulated::new(self.topology, *self.workload, n, clients, notes);
        (result.trace_hash, result.events) = (self.world.trace_hash(), self.world.steps());
        // In the order of the file: sums of fractions depend on it.
        for i in members(self.topology) {
            let Some((id, _)) = self.hosts.get(&i) else { continue };
            match self.workload.work {
                Work::Messages => {
                    let station = self.world.node::<Station>(*id);
                    result.opened += u64::from(station.opened());
                    result.failed += u64::from(station.failed());
                    result.completed += station.round_trips().samples();
                    result.times.merge(station.round_trips());
                    result.rate_per_s += station.rate_per_s();
                    result.resent += station.resent();
                }
                Work::Connections => {
                    let connector = self.world.node::<Connector>(*id);
                    let counted = connector.counted();
                    result.opened += counted.opened;
                    result.failed += counted.failed;
                    result.completed += counted.completed;
                    result.times.merge(connector.set_up());
                    result.rate_per_s += connector.rate_per_s();
                    result.resent += connector.resent();
                    let name = &self.topology.hosts[i].name;
                    if counted.held > 0 {
                        result.notes.push(format!(
                            "{name} could not ask {} times: the world held as many connections as it may, those just closed included",
                            counted.held
                        ));
                    }
                    if connector.refused() > 0 {
                        result.notes.push(format!("{name} sent {} refusals", connector.refused()));
                    }
                }
            }
        }
        for (name, id) in self.links {
            result.links.push((name, self.world.node_mut::<LinkStation>(id).report()));
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
