//! A topology for other people's labs: files for containerlab and for Mininet.

mod containerlab;
mod mininet;
#[cfg(test)]
mod tests;

pub use containerlab::export_containerlab;
pub use mininet::export_mininet;

use crate::topology::{LinkPlan, Node, RoutePlan, Subnets, Topology};
use barewire_wire::MacAddr;

/// The image of containerlab's nodes unless another is named: the stage `lab` of packaging/Containerfile.
pub const IMAGE_DEFAULT: &str = "barewire-lab:latest";

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The files.
    pub files: Vec<ExportFile>,
    /// What the topology says and the target cannot.
    pub notes: Vec<String>,
}

/// A file of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFile {
    /// Its name, without a folder.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A text as a literal: JSON's, which is YAML's in double quotes and Python's too.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What the target has no word for.
fn notes(topology: &Topology, target: &str) -> Vec<String> {
    let queues = topology.links.iter().filter(|link| link.queues > 1);
    let note = |link: &LinkPlan| {
        format!(
            "link {}: {target} makes its interfaces, so they have its number of queues and not {}",
            link.name, link.queues
        )
    };
    queues.map(note).collect()
}

/// The commands that make an interface what its link says, once it is there. `quiet` ends those that say what they changed.
fn interface_commands(link: &LinkPlan, mac: Option<MacAddr>, name: &str, quiet: &str) -> Vec<String> {
    let address = mac.map(|mac| format!("ip link set dev {name} address {mac}"));
    let queue = link.tx_queue_len.map_or(String::new(), |frames| format!(" txqueuelen {frames}"));
    let word = |on: bool| if on { "on" } else { "off" };
    let o = &link.offloads;
    let [rx, tx, sg, tso] = [o.rx_checksum, o.tx_checksum, o.scatter_gather, o.tso].map(word);
    let [gso, gro, vlan] = [o.gso, o.gro, o.vlan].map(word);
    let set = [
        format!("ip link set dev {name} mtu {}{queue}", link.mtu),
        format!(
            "ethtool -K {name} rx {rx} tx {tx} sg {sg} tso {tso} gso {gso} gro {gro} rxvlan {vlan} txvlan {vlan}{quiet}"
        ),
    ];
    address.into_iter().chain(set).collect()
}

/// Who is told of whom, where nobody is to ask.
fn subnets(topology: &Topology) -> Option<Subnets<'_>> {
    topology.static_neighbours.then(|| Subnets::of(topology))
}

/// The commands that give a host what the plan says, once its links are there. `name` is what an interface is called.
fn host_commands(
    topology: &Topology,
    at: usize,
    subnets: Option<&Subnets<'_>>,
    quiet: &str,
    mut name: impl FnMut(usize) -> String,
) -> Vec<String> {
    let host = &topology.hosts[at];
    let mut commands = Vec::new();
    if host.forwarding {
        commands.push("sysctl -q -w net.ipv4.ip_forward=1".to_owned());
        if host.ipv6 {
            commands.push("sysctl -q -w net.ipv6.conf.all.forwarding=1".to_owned());
        }
    }
    // A host's interfaces are in the order of its links.
    let links = topology.ends_of(Node::Host(at)).map(|(link, _)| link);
    for (i, (interface, link)) in host.interfaces.iter().zip(links).enumerate() {
        let name = name(i);
        if host.ipv6 {
            // As `lab up` does: a seed replays only with the same sequence of frames.
            for word in ["accept_ra", "router_solicitations"] {
                commands.push(format!("sysctl -q -w net.ipv6.conf.{name}.{word}=0"));
            }
        } else {
            commands.push(format!("sysctl -q -w net.ipv6.conf.{name}.disable_ipv6=1"));
        }
        commands.extend(interface_commands(link, Some(interface.mac), &name, quiet));
        for (address, prefix) in &interface.addresses {
            let nodad = if address.is_ipv6() { " nodad" } else { "" };
            commands.push(format!("ip address add {address}/{prefix} dev {name}{nodad}"));
        }
        commands.push(format!("ip link set dev {name} up"));
        let neighbours = subnets.into_iter().flat_map(|subnets| subnets.neighbours(at, i));
        commands.extend(neighbours.map(|(address, mac)| {
            format!("ip neigh replace {address} lladdr {mac} dev {name} nud permanent")
        }));
    }
    commands.extend(host.routes.iter().map(route_command));
    commands
}

fn route_command(route: &RoutePlan) -> String {
    let family = if route.via.is_ipv6() { " -6" } else { "" };
    format!("ip{family} route add {}/{} via {}", route.to.0, route.to.1, route.via)
}
