//! Who reaches whom without a gateway.

use super::addresses::base;
use super::plan::Topology;
use barewire_wire::MacAddr;
use std::collections::HashMap;
use std::net::IpAddr;

/// The hosts of each subnet, so that thousands of them are not compared with each other.
pub(crate) struct Subnets<'a> {
    topology: &'a Topology,
    members: HashMap<(IpAddr, u8), Vec<Member>>,
}

/// An address in a subnet.
struct Member {
    host: usize,
    address: IpAddr,
    mac: MacAddr,
}

impl Subnets<'_> {
    pub(crate) fn of(topology: &Topology) -> Subnets<'_> {
        let mut members: HashMap<_, Vec<Member>> = HashMap::new();
        for (host, plan) in topology.hosts.iter().enumerate() {
            for interface in &plan.interfaces {
                for &subnet in &interface.addresses {
                    let member = Member { host, address: subnet.0, mac: interface.mac };
                    members.entry((base(subnet), subnet.1)).or_default().push(member);
                }
            }
        }
        Subnets { topology, members }
    }

    /// The neighbours of one interface of a host, other hosts' addresses in its subnets.
    pub(crate) fn neighbours(
        &self,
        host: usize,
        interface: usize,
    ) -> impl Iterator<Item = (IpAddr, MacAddr)> {
        let subnets = &self.topology.hosts[host].interfaces[interface].addresses;
        let members = subnets.iter().filter_map(|&subnet| self.members.get(&(base(subnet), subnet.1)));
        members.flatten().filter(move |m| m.host != host).map(|m| (m.address, m.mac))
    }
}
