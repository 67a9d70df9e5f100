//! Links, and what can be checked when they are known.

use super::addresses;
use super::file::{Builder, File, HostTable, NAME_MAX, OffloadTable, RouteTable};
use super::impairment::{ImpairmentTable, seeds_of};
use super::plan::{End, HostPlan, InterfacePlan, LINKS_MAX, LinkPlan, Node, NodePort, RoutePlan, SwitchKind};
use super::{TopologyError, root};
use barewire_netns::{Offloads, check_interface};
use barewire_port::FaultSettings;
use barewire_text::suggest;
use barewire_wire::MacAddr;
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;
use toml::Spanned;

/// Queues of an interface, at most.
const QUEUES_MAX: u32 = 64;
/// The largest MTU that a chunk of the link node's pool is made for, and the kernel's for veth is near.
const MTU_MAX: u32 = 65_000;
/// RFC 791: what every link must carry.
const MTU_MIN: u32 = 68;
/// RFC 8200: what every link must carry that IPv6 is spoken on; the kernel takes IPv6 off a smaller one.
const IPV6_MTU_MIN: u32 = 1280;
/// Beyond this MTU a frame does not fit a chunk that AF_XDP takes.
const XDP_MTU_MAX: u32 = 3_498;

/// What a link and a group say alike.
struct Wire<'a> {
    mtu_bytes: Option<&'a Spanned<u32>>,
    queues: Option<&'a Spanned<u32>>,
    tx_queue_frames: Option<u32>,
    offloads: Option<&'a Spanned<OffloadTable>>,
    port: Option<&'a Spanned<String>>,
    seed: Option<u64>,
    trace: Option<&'a PathBuf>,
    both: Option<&'a Spanned<ImpairmentTable>>,
    forward: Option<&'a Spanned<ImpairmentTable>>,
    reverse: Option<&'a Spanned<ImpairmentTable>>,
}

macro_rules! wire {
    ($table:expr, $seed:expr, $trace:expr) => {
        Wire {
            mtu_bytes: $table.mtu_bytes.as_ref(),
            queues: $table.queues.as_ref(),
            tx_queue_frames: $table.tx_queue_frames,
            offloads: $table.offloads.as_ref(),
            port: $table.port.as_ref(),
            seed: $seed,
            trace: $trace,
            both: $table.both.as_ref(),
            forward: $table.forward.as_ref(),
            reverse: $table.reverse.as_ref(),
        }
    };
}

impl Builder<'_> {
    pub(super) fn links(&mut self, file: &File) -> Result<(), TopologyError> {
        for table in &file.link {
            let ends = table.ends.get_ref();
            let [a, b] = ends.as_slice() else {
                let why = format!("{} of them; a link has two ends", ends.len());
                return Err(self.at(&table.ends, "link.ends", why));
            };
            let first = self.end(a, a.get_ref())?;
            let second = self.end(b, b.get_ref())?;
            let [a_name, b_name] = [&first, &second].map(|end| self.topology.node_name(end.node).to_owned());
            if first.node == second.node {
                return Err(self.at(b, format!("link.ends = {:?}", b.get_ref()), "both ends at one node"));
            }
            let name = match &table.name {
                Some(given) => {
                    self.check_name("link.name", given)?;
                    if self.link_names.contains(given.get_ref()) {
                        let what = format!("link.name = {:?}", given.get_ref());
                        return Err(self.at(given, what, "a second link of this name"));
                    }
                    given.get_ref().clone()
                }
                None => self.free_link_name(&a_name, &b_name),
            };
            let link = self.link(name, [first, second], &wire!(table, table.seed, table.trace.as_ref()))?;
            self.add_link(link, &table.ends)?;
        }
        let mut host =
            self.topology.hosts.len() - file.group.iter().map(|g| *g.count.get_ref() as usize).sum::<usize>();
        for table in &file.group {
            for _ in 0..*table.count.get_ref() {
                let name = self.topology.hosts[host].name.clone();
                let first = self.end(&table.prefix, &name)?;
                let second = self.end(&table.switch, table.switch.get_ref())?;
                if !matches!(second.node, Node::Switch(_)) {
                    let what = format!("group.switch = {:?}", table.switch.get_ref());
                    return Err(self.at(&table.switch, what, "is a host"));
                }
                let link_name = self.free_link_name(&name, table.switch.get_ref());
                let link = self.link(link_name, [first, second], &wire!(table, None, None))?;
                if let Some(subnet) = &table.subnet
                    && subnet.get_ref().contains(':')
                    && link.mtu < IPV6_MTU_MIN
                {
                    let what = format!("group.subnet = {:?}", subnet.get_ref());
                    let why = format!("IPv6 needs an MTU of {IPV6_MTU_MIN}, mtu_bytes is {}", link.mtu);
                    return Err(self.at(subnet, what, why));
                }
                self.add_link(link, &table.switch)?;
                host += 1;
            }
        }
        Ok(())
    }

    fn add_link<T>(&mut self, link: LinkPlan, at: &Spanned<T>) -> Result<(), TopologyError> {
        if self.topology.links.len() >= LINKS_MAX {
            return Err(self.at(at, "link", format!("more than {LINKS_MAX} links")));
        }
        self.link_names.insert(link.name.clone());
        self.topology.links.push(link);
        Ok(())
    }

    /// A name for a link that has none: `A-B`, and for further ones between the same two `A-B-2`.
    fn free_link_name(&self, a: &str, b: &str) -> String {
        let base: String = format!("{a}-{b}").chars().take(NAME_MAX - 5).collect();
        let candidates = std::iter::once(base.clone()).chain((2..).map(|n| format!("{base}-{n}")));
        // Fewer names are taken than there are candidates.
        candidates.into_iter().find(|name| !self.link_names.contains(name)).unwrap_or(base)
    }

    /// One end of a link: `NODE`, `HOST:INTERFACE` or `SWITCH:NUMBER`. Gives a host's interface its place in the plan.
    fn end(&mut self, at: &Spanned<String>, text: &str) -> Result<End, TopologyError> {
        let what = format!("link end {text:?}");
        let (name, place) = match text.split_once(':') {
            Some((name, place)) => (name, Some(place)),
            None => (text, None),
        };
        let Some(&node) = self.nodes.get(name) else {
            let mut known: Vec<&str> = self.nodes.keys().map(String::as_str).collect();
            known.sort_unstable();
            known.truncate(20);
            return Err(self.at(at, what, format!("no such host or switch; {}", suggest(name, &known))));
        };
        match node {
            Node::Host(index) => {
                let taken = |name: &str| self.topology.hosts[index].interfaces.iter().any(|i| i.name == name);
                let interface = match place {
                    Some(given) => given.to_owned(),
                    None => (0..).map(|n| format!("eth{n}")).find(|name| !taken(name)).unwrap_or_default(),
                };
                check_interface(&interface).map_err(|e| self.at(at, what.clone(), e))?;
                if taken(&interface) || interface == "lo" {
                    return Err(self.at(at, what, "this interface has a link already"));
                }
                let ordinal = self.topology.hosts[index].interfaces.len();
                let declared = self.declared[index].iter().find(|i| i.name == interface);
                let mac = match declared.map(|i| i.mac) {
                    Some(mac) if mac.0 != [0; 6] => mac,
                    _ => mac_of(0x77, index, ordinal),
                };
                let addresses = declared.map(|i| i.addresses.clone()).unwrap_or_default();
                let plan = InterfacePlan { name: interface.clone(), mac, addresses };
                self.topology.hosts[index].interfaces.push(plan);
                Ok(End { node, interface, port: 0, mac })
            }
            Node::Switch(index) => {
                let ends = || self.topology.links.iter().flat_map(|l| &l.ends).filter(|e| e.node == node);
                let port = match place {
                    Some(given) => match given.parse::<u32>() {
                        Ok(port) if (1..=65_535).contains(&port) => port,
                        _ => {
                            let why = "a switch's port is a number from 1, as in s1:3";
                            return Err(self.at(at, what, why));
                        }
                    },
                    None => {
                        let taken: HashSet<u32> = ends().map(|end| end.port).collect();
                        (1..).find(|n| !taken.contains(n)).unwrap_or(1)
                    }
                };
                if ends().any(|end| end.port == port) {
                    return Err(self.at(at, what, "this port has a link already"));
                }
                let mac = mac_of(0x78, index, port as usize);
                Ok(End { node, interface: format!("p{port}"), port, mac })
            }
        }
    }

    fn link(&self, name: String, ends: [End; 2], wire: &Wire<'_>) -> Result<LinkPlan, TopologyError> {
        let mtu = self.number("link.mtu_bytes", wire.mtu_bytes, 1500, MTU_MIN..=MTU_MAX)?;
        let port = self.port("link.port", wire.port)?;
        let queues = self.number("link.queues", wire.queues, 1, 1..=QUEUES_MAX)?;
        let nothing = ImpairmentTable::default();
        let both = wire.both.map_or(&nothing, Spanned::get_ref);
        let settings =
            |key: &str, own: Option<&Spanned<ImpairmentTable>>| -> Result<FaultSettings, TopologyError> {
                let made = own.map_or(&nothing, Spanned::get_ref).settings(both);
                made.map_err(|why| match own.or(wire.both) {
                    Some(given) => self.at(given, format!("[link.{key}] of {name}"), why),
                    // Defaults are in bounds.
                    None => TopologyError::Syntax { path: self.path.to_owned(), message: why },
                })
            };
        let forward = settings(if wire.forward.is_some() { "forward" } else { "both" }, wire.forward)?;
        let reverse = settings(if wire.reverse.is_some() { "reverse" } else { "both" }, wire.reverse)?;
        let offloads = wire.offloads.map_or(Offloads::all(false), |given| {
            let t = given.get_ref();
            Offloads {
                rx_checksum: t.rx,
                tx_checksum: t.tx,
                scatter_gather: t.sg,
                tso: t.tso,
                gso: t.gso,
                gro: t.gro,
                vlan: t.vlan,
            }
        });
        let seed = wire.seed.unwrap_or(self.topology.seed);
        let seeds = seeds_of(seed, &name);
        let link = LinkPlan {
            name,
            ends,
            mtu,
            queues,
            tx_queue_len: wire.tx_queue_frames,
            offloads,
            port,
            faults: [forward, reverse],
            seeds,
            trace: wire.trace.map(|prefix| self.folder.join(prefix)),
        };
        if link.is_impaired() {
            if let Some(given) = wire.offloads
                && offloads != Offloads::all(false)
            {
                let why = "frames that suffer something must be as on a wire: finished checksums, no longer than the \
                           MTU; leave the offloads off";
                return Err(self.at(given, "link.offloads", why));
            }
            if port == NodePort::Xdp
                && mtu > XDP_MTU_MAX
                && let Some(given) = wire.mtu_bytes
            {
                let why = format!("a port of kind xdp takes up to {XDP_MTU_MAX}; kind packet takes more");
                return Err(self.at(given, format!("link.mtu_bytes = {mtu}"), why));
            }
        } else if let Some(given) = wire.port {
            let why = "has no effect on a link without impairments: no link node stands in it";
            return Err(self.at(given, "link.port", why));
        }
        Ok(link)
    }

    /// What of the hosts can be checked when the links are known: no interface without one, gateways in reach.
    pub(super) fn hosts(&mut self, file: &File) -> Result<(), TopologyError> {
        for (index, table) in file.host.iter().enumerate() {
            let host = &self.topology.hosts[index];
            let missing = |name: &str| !host.interfaces.iter().any(|i| i.name == name);
            let named: Vec<&str> = host.interfaces.iter().map(|i| i.name.as_str()).collect();
            if let Some(given) = table.addresses.first()
                && missing("eth0")
            {
                let why =
                    format!("they are those of eth0, which has no link here (linked: {})", named.join(", "));
                return Err(self.at(given, format!("host.addresses of {}", host.name), why));
            }
            for given in &table.interface {
                if missing(given.name.get_ref()) {
                    let what = format!("host.interface.name = {:?}", given.name.get_ref());
                    let why = format!("no link ends at it; {}", suggest(given.name.get_ref(), &named));
                    return Err(self.at(&given.name, what, why));
                }
            }
            for (given, named) in given_addresses(table) {
                let Some(at) = host.interfaces.iter().position(|i| i.name == named) else { continue };
                // A host's interfaces are in the order of its links.
                let Some((link, _)) = self.topology.ends_of(Node::Host(index)).nth(at) else { continue };
                if link.mtu < IPV6_MTU_MIN && given.get_ref().contains(':') {
                    let what = format!("address {:?}", given.get_ref());
                    let why = format!(
                        "IPv6 needs an MTU of {IPV6_MTU_MIN}, link {} has mtu_bytes = {}",
                        link.name, link.mtu
                    );
                    return Err(self.at(given, what, why));
                }
            }
            let mut routes = Vec::new();
            for route in &table.route {
                routes.push(self.route(route, host)?);
            }
            self.topology.hosts[index].routes = routes;
        }
        Ok(())
    }

    fn route(&self, table: &RouteTable, host: &HostPlan) -> Result<RoutePlan, TopologyError> {
        let (to, via) = (table.to.get_ref(), table.via.get_ref());
        let what = format!("host.route.via = {via:?}");
        let via: IpAddr = via.parse().map_err(|_| self.at(&table.via, what.clone(), "not an IP address"))?;
        let to = match to.as_str() {
            "default" if via.is_ipv4() => (IpAddr::from([0; 4]), 0),
            "default" => (IpAddr::from([0; 16]), 0),
            text => {
                let wrong = |why: String| self.at(&table.to, format!("host.route.to = {to:?}"), why);
                let net = addresses::parse(text).map_err(wrong)?;
                let base = addresses::base(net);
                if base != net.0 {
                    return Err(wrong(format!(
                        "has bits behind its prefix; {base}/{} is the network",
                        net.1
                    )));
                }
                net
            }
        };
        if to.0.is_ipv4() != via.is_ipv4() {
            return Err(self.at(&table.via, what, "of another family than the destination"));
        }
        let mut subnets = host.interfaces.iter().flat_map(|i| &i.addresses);
        if !subnets.any(|&subnet| addresses::contains(subnet, via)) {
            return Err(self.at(&table.via, what, format!("in no subnet of {}", host.name)));
        }
        Ok(RoutePlan { to, via })
    }

    /// Frames go round for ever where bridges make a ring.
    pub(super) fn no_loop(&self, file: &File) -> Result<(), TopologyError> {
        let mut group: Vec<usize> = (0..self.topology.switches.len()).collect();
        let is_bridge = |i: usize| self.topology.switches[i].kind == SwitchKind::Bridge;
        for (at, link) in self.topology.links.iter().enumerate() {
            let [Node::Switch(a), Node::Switch(b)] = [link.ends[0].node, link.ends[1].node] else { continue };
            if !is_bridge(a) || !is_bridge(b) {
                continue;
            }
            let (a, b) = (root(&group, a), root(&group, b));
            if a == b {
                let why = "closes a ring of bridges, in which frames would go round for ever (no spanning tree here)";
                // Links of groups go to hosts: this one has a table.
                let ends = file.link.get(at).map(|table| &table.ends);
                return Err(ends.map_or_else(
                    || TopologyError::Syntax { path: self.path.to_owned(), message: why.to_owned() },
                    |ends| self.at(ends, format!("link {}", link.name), why),
                ));
            }
            group[a] = b;
        }
        Ok(())
    }
}

/// Every address of a host's table as it was given, with the interface that it is for.
fn given_addresses(table: &HostTable) -> impl Iterator<Item = (&Spanned<String>, &str)> {
    let own = table.addresses.iter().map(|given| (given, "eth0"));
    let others = table.interface.iter().flat_map(|interface| {
        interface.addresses.iter().map(|given| (given, interface.name.get_ref().as_str()))
    });
    own.chain(others)
}

/// A locally administered address that tells whose it is: node and interface.
fn mac_of(kind: u8, node: usize, interface: usize) -> MacAddr {
    let [a, b] = (node as u16 + 1).to_be_bytes();
    let [c, d] = (interface as u16).to_be_bytes();
    MacAddr([0x02, kind, a, b, c, d])
}
