//! Making what a topology declares.

use super::programs::{
    Programs, Starting, THRIFT_PORT, await_link_node, await_switch, start_link_node, start_switch,
};
use crate::progress::Steps;
use crate::state::{State, Store, switch_page};
use crate::topology::{LinkPlan, Node, NodePort, Subnets, SwitchKind, Topology};
use crate::{LabError, LinkNodeConfig};
use barewire_netns::{LinkConfig, Namespace, Offloads, VethPair};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;

/// The bridge in a bridge's namespace.
const BRIDGE: &str = "br0";
/// The interfaces of a link node, towards the first and the second end.
const NODE_ENDS: [&str; 2] = ["a", "b"];

/// What is being made. Namespaces are open as long as this is.
struct Build<'a, 't> {
    topology: &'a Topology,
    state: &'a mut State,
    store: &'a Store,
    programs: &'a Programs,
    steps: &'a mut Steps<'t>,
    namespaces: HashMap<String, Namespace>,
}

/// How many steps [`build`] tells of.
pub(super) fn steps(topology: &Topology) -> usize {
    let nodes = topology.hosts.len() + topology.switches.len();
    let impaired = topology.links.iter().filter(|link| link.is_impaired()).count();
    let switches = topology.switches.iter().filter(|s| s.kind != SwitchKind::Bridge).count();
    // Each namespace; each link made, set up and waited for; each host's addresses and its routes; each process started and
    // waited for.
    nodes + impaired + 3 * topology.links.len() + 2 * topology.hosts.len() + 2 * (impaired + switches)
}

/// Makes everything, and writes down processes as they start.
pub(super) fn build(
    topology: &Topology,
    state: &mut State,
    store: &Store,
    programs: &Programs,
    steps: &mut Steps<'_>,
) -> Result<(), LabError> {
    let folder = store.own_folder(&topology.name);
    let making = LabError::system(format!("make {}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(making)?;
    let mut build = Build { topology, state, store, programs, steps, namespaces: HashMap::new() };
    build.namespaces()?;
    build.links()?;
    build.hosts()?;
    build.bridges()?;
    build.wires_up()?;
    build.link_nodes()?;
    build.switches()?;
    // Last: a route needs its gateway's subnet, a neighbour its interface up.
    build.routes()
}

impl Build<'_, '_> {
    /// The name of a node's namespace: the state has hosts and switches in the order of the topology.
    fn name_of(&self, node: Node) -> &str {
        let at = match node {
            Node::Host(i) => i,
            Node::Switch(i) => self.topology.hosts.len() + i,
        };
        self.state.nodes.get(at).map_or("", |node| &node.namespace)
    }

    fn of_node(&self, node: Node) -> &Namespace {
        &self.namespaces[self.name_of(node)]
    }

    fn of_link(&self, link: usize) -> Option<&Namespace> {
        self.namespaces.get(self.state.links[link].namespace.as_ref()?)
    }

    fn namespaces(&mut self) -> Result<(), LabError> {
        let hosts = self.topology.hosts.iter().enumerate().filter(|(_, host)| host.ipv6);
        let speakers: HashSet<String> = hosts.map(|(i, _)| self.name_of(Node::Host(i)).to_owned()).collect();
        for name in self.state.namespaces().map(str::to_owned).collect::<Vec<_>>() {
            let namespace = Namespace::create_kept(&name)?;
            if speakers.contains(&name) {
                // Nothing that nobody asked for: a seed replays only with the same sequence of frames.
                namespace.set_sysctl("ipv6/conf/default/accept_ra", "0")?;
                namespace.set_sysctl("ipv6/conf/default/router_solicitations", "0")?;
            } else {
                // Or the kernel would speak on the links by itself, also from inside a link node.
                for scope in ["all", "default"] {
                    namespace.set_sysctl(&format!("ipv6/conf/{scope}/disable_ipv6"), "1")?;
                }
            }
            namespace.set_up("lo")?;
            self.steps.step(&format!("namespace {name}"))?;
            self.namespaces.insert(name, namespace);
        }
        Ok(())
    }

    fn links(&mut self) -> Result<(), LabError> {
        for (at, link) in self.topology.links.iter().enumerate() {
            let [a, b] = &link.ends;
            let (ns_a, ns_b) = (self.of_node(a.node), self.of_node(b.node));
            let config = |mac_a: Option<[u8; 6]>, mac_b: Option<[u8; 6]>| LinkConfig {
                mtu: link.mtu,
                queues: link.queues,
                offloads: false,
                tx_queue_len: link.tx_queue_len,
                mac_a,
                mac_b,
            };
            match self.of_link(at) {
                None => {
                    let config = config(Some(a.mac.0), Some(b.mac.0));
                    VethPair::create(ns_a, &a.interface, ns_b, &b.interface, &config)?;
                }
                Some(node) => {
                    let [near, far] = NODE_ENDS;
                    VethPair::create(ns_a, &a.interface, node, near, &config(Some(a.mac.0), None))?;
                    VethPair::create(ns_b, &b.interface, node, far, &config(Some(b.mac.0), None))?;
                }
            }
            if link.offloads != Offloads::all(false) {
                ns_a.set_each_offload(&a.interface, &link.offloads)?;
                ns_b.set_each_offload(&b.interface, &link.offloads)?;
            }
            self.steps.step(&format!("link {}", link.name))?;
        }
        Ok(())
    }

    fn hosts(&mut self) -> Result<(), LabError> {
        for (i, host) in self.topology.hosts.iter().enumerate() {
            let namespace = self.of_node(Node::Host(i));
            if host.forwarding {
                namespace.set_sysctl("ipv4/ip_forward", "1")?;
                if host.ipv6 {
                    namespace.set_sysctl("ipv6/conf/all/forwarding", "1")?;
                }
            }
            for interface in &host.interfaces {
                for &(address, prefix) in &interface.addresses {
                    namespace.add_address(&interface.name, address, prefix)?;
                }
            }
            self.steps.step(&format!("host {}", host.name))?;
        }
        Ok(())
    }

    fn bridges(&self) -> Result<(), LabError> {
        for (i, switch) in self.topology.switches.iter().enumerate() {
            if switch.kind != SwitchKind::Bridge {
                continue;
            }
            let node = Node::Switch(i);
            let namespace = self.of_node(node);
            let mtu = self.topology.ends_of(node).map(|(link, _)| link.mtu).min().unwrap_or(1500);
            namespace.create_bridge(BRIDGE, mtu)?;
            for (_, end) in self.topology.ends_of(node) {
                namespace.join_bridge(&end.interface, BRIDGE)?;
            }
            namespace.set_up(BRIDGE)?;
        }
        Ok(())
    }

    /// Sets every interface up, then waits until all carry frames.
    fn wires_up(&mut self) -> Result<(), LabError> {
        for wait in [false, true] {
            let go = |namespace: &Namespace, name: &str| match wait {
                false => namespace.set_up(name),
                true => namespace.wait_running(name).map(drop),
            };
            for (at, link) in self.topology.links.iter().enumerate() {
                for end in &link.ends {
                    go(self.of_node(end.node), &end.interface)?;
                }
                if let Some(node) = self.of_link(at) {
                    NODE_ENDS.iter().try_for_each(|name| go(node, name))?;
                }
                self.steps.step(&format!("link {} up", link.name))?;
            }
        }
        Ok(())
    }

    fn record(&mut self, starting: &Starting) -> Result<(), LabError> {
        let state = starting.state();
        let what = format!("{} starts", state.what);
        self.state.processes.push(state);
        self.store.write(self.state)?;
        self.steps.step(&what)
    }

    fn link_nodes(&mut self) -> Result<(), LabError> {
        let folder = self.store.own_folder(&self.topology.name);
        let mut started = Vec::new();
        for (at, link) in self.topology.links.iter().enumerate() {
            let Some(namespace) = self.of_link(at) else { continue };
            let config = node_config(link, self.state.links[at].counters.clone());
            let starting = start_link_node(self.programs, namespace, &link.name, &config.to_json(), &folder)?;
            self.record(&starting)?;
            started.push(starting);
        }
        // All at once, then each in turn: a hundred of them take little longer than one.
        started.into_iter().try_for_each(|starting| await_link_node(starting, self.steps))
    }

    fn switches(&mut self) -> Result<(), LabError> {
        let folder = self.store.own_folder(&self.topology.name);
        let mut started = Vec::new();
        for (i, switch) in self.topology.switches.iter().enumerate() {
            let SwitchKind::Barewire { program, entries, port, arguments } = &switch.kind else { continue };
            let node = Node::Switch(i);
            let mut argv: Vec<OsString> = vec![program.into()];
            for (_, end) in self.topology.ends_of(node) {
                argv.push("-i".into());
                argv.push(format!("{}@{}", end.port, switch_port(*port, &end.interface)).into());
            }
            argv.extend(["--thrift-port".into(), THRIFT_PORT.to_string().into()]);
            argv.extend(["--name".into(), switch_page(&self.topology.name, &switch.name).into()]);
            argv.extend(arguments.iter().map(OsString::from));
            let starting = start_switch(self.programs, self.of_node(node), &switch.name, &argv, &folder)?;
            self.record(&starting)?;
            started.push((node, starting, entries.as_deref()));
        }
        for (node, starting, entries) in started {
            let namespace = &self.namespaces[self.name_of(node)];
            await_switch(self.programs, namespace, starting, entries, self.steps)?;
        }
        Ok(())
    }

    fn routes(&mut self) -> Result<(), LabError> {
        let subnets = self.topology.static_neighbours.then(|| Subnets::of(self.topology));
        for (i, host) in self.topology.hosts.iter().enumerate() {
            let namespace = self.of_node(Node::Host(i));
            for route in &host.routes {
                namespace.add_route(route.to.0, route.to.1, route.via)?;
            }
            if let Some(subnets) = &subnets {
                for (at, interface) in host.interfaces.iter().enumerate() {
                    let neighbours = subnets.neighbours(i, at).map(|(address, mac)| (address, mac.0));
                    namespace.add_neighbours(&interface.name, neighbours)?;
                }
            }
            self.steps.step(&format!("neighbours of {}", host.name))?;
        }
        Ok(())
    }
}

/// The configuration of a link's node.
pub(crate) fn node_config(link: &LinkPlan, counters: Option<String>) -> LinkNodeConfig {
    LinkNodeConfig {
        mtu_bytes: link.mtu,
        counters,
        trace: link.trace.clone(),
        ..LinkNodeConfig::new(&link.name, NODE_ENDS, link.port, &link.faults, link.seeds)
    }
}

/// The URI of a switch's port.
pub(crate) fn switch_port(port: NodePort, interface: &str) -> String {
    match port {
        NodePort::Packet => format!("packet:{interface}?promiscuous=1&tx=0"),
        NodePort::Xdp => format!("xdp:{interface}"),
    }
}
