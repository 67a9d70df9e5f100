//! The validated plan of a lab.

use super::impairment::seeds_of;
use barewire_netns::Offloads;
use barewire_port::FaultSettings;
use barewire_wire::MacAddr;
use std::net::IpAddr;
use std::path::PathBuf;

/// Hosts and switches of one lab, at most.
pub const NODES_MAX: usize = 4096;
/// Links of one lab, at most.
pub const LINKS_MAX: usize = 8192;

/// A checked topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The lab's name.
    pub name: String,
    /// What all impairments replay from.
    pub seed: u64,
    /// Every host knows the Ethernet address of each other host in its subnets, so that no ARP disturbs.
    pub static_neighbours: bool,
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// The switches.
    pub switches: Vec<SwitchPlan>,
    /// The links.
    pub links: Vec<LinkPlan>,
    /// The file it came from, for people.
    pub file: String,
}

/// A host: a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Its interfaces, each the end of a link, in the order of the links.
    pub interfaces: Vec<InterfacePlan>,
    /// Its routes beside those that follow from addresses.
    pub routes: Vec<RoutePlan>,
    /// It forwards packets between its interfaces.
    pub forwarding: bool,
    /// It speaks IPv6. Without it the kernel sends nothing by itself but ARP.
    pub ipv6: bool,
}

/// An interface of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfacePlan {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// A route by way of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePlan {
    /// Where to, with the prefix length; length zero is everything.
    pub to: (IpAddr, u8),
    /// The gateway, in a subnet of the host.
    pub via: IpAddr,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPlan {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: SwitchKind,
}

/// What a switch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchKind {
    /// The kernel's learning bridge, without spanning tree and multicast snooping.
    Bridge,
    /// A process of ours with a P4 program.
    Barewire {
        /// The program, as the bmv2 back end of p4c writes it. Absolute, when the topology came from a file.
        program: PathBuf,
        /// Commands of the switch's command line that fill its tables.
        entries: Option<PathBuf>,
        /// How it takes its frames.
        port: NodePort,
        /// Further arguments of `barewire switch run`.
        arguments: Vec<String>,
    },
}

/// A host or a switch of a topology, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// `hosts[i]`.
    Host(usize),
    /// `switches[i]`.
    Switch(usize),
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Whose end.
    pub node: Node,
    /// The interface's name there, at most 15 bytes.
    pub interface: String,
    /// The number of a switch's port, from one; zero at a host.
    pub port: u32,
    /// Its Ethernet address.
    pub mac: MacAddr,
}

/// By which kind of port a process of the lab takes its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NodePort {
    /// AF_PACKET: works everywhere, every MTU.
    #[default]
    Packet,
    /// AF_XDP.
    Xdp,
}

impl NodePort {
    /// Each with its word.
    pub const WORDS: &'static [(&'static str, NodePort)] =
        &[("packet", NodePort::Packet), ("xdp", NodePort::Xdp)];

    /// The scheme of its URI.
    pub fn scheme(self) -> &'static str {
        match self {
            NodePort::Packet => "packet",
            NodePort::Xdp => "xdp",
        }
    }
}

/// A link: a veth pair, or two with a link node between them when frames suffer anything on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// Its name.
    pub name: String,
    /// From the first to the second is forward.
    pub ends: [End; 2],
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Queues of each interface.
    pub queues: u32,
    /// Frames that the kernel lets wait for an interface; `None`: the kernel's choice.
    pub tx_queue_len: Option<u32>,
    /// What the interfaces leave to the other side.
    pub offloads: Offloads,
    /// How the link node takes its frames.
    pub port: NodePort,
    /// What frames suffer: forward, reverse. Nothing in both: there is no link node.
    pub faults: [FaultSettings; 2],
    /// What they replay from: forward, reverse.
    pub seeds: [u64; 2],
    /// The link node writes down what it does to each frame, in two files: this with `.forward` and `.reverse` behind it.
    pub trace: Option<PathBuf>,
}

impl LinkPlan {
    /// Whether frames suffer anything, so that a link node is needed.
    pub fn is_impaired(&self) -> bool {
        self.trace.is_some() || !self.faults.iter().all(FaultSettings::is_none)
    }
}

impl Topology {
    /// The same lab with another seed. Links that had theirs from the lab's get another one; a link whose file names a seed of its
    /// own keeps it.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Topology {
        let was = std::mem::replace(&mut self.seed, seed);
        for link in &mut self.links {
            if link.seeds == seeds_of(was, &link.name) {
                link.seeds = seeds_of(seed, &link.name);
            }
        }
        self
    }

    /// The name of a node.
    pub fn node_name(&self, node: Node) -> &str {
        match node {
            Node::Host(i) => self.hosts.get(i).map_or("", |host| &host.name),
            Node::Switch(i) => self.switches.get(i).map_or("", |switch| &switch.name),
        }
    }

    /// Whether a host or switch has this name.
    pub(crate) fn nodes_named(&self, name: &str) -> bool {
        self.hosts.iter().any(|h| h.name == name) || self.switches.iter().any(|s| s.name == name)
    }

    /// The ends of links at a node, in the order of the links.
    pub fn ends_of(&self, node: Node) -> impl Iterator<Item = (&LinkPlan, &End)> {
        let ends = self.links.iter().flat_map(|link| link.ends.iter().map(move |end| (link, end)));
        ends.filter(move |(_, end)| end.node == node)
    }
}
