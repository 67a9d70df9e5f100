//! Links of a namespace: veth pairs, addresses, neighbours, routes, offloads.

use crate::{Namespace, NetnsError, sys};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

/// How long [`Namespace::wait_running`] waits.
const RUNNING_WAIT_MS: u64 = 3_000;

/// How both ends of a veth pair are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Largest IP packet in bytes. Default 1500.
    pub mtu: u32,
    /// Transmit and receive queues of each end. Default 1.
    pub queues: u32,
    /// Checksums, segmentation and aggregation are left to the other side. Default off: frames then look as they would
    /// on a wire, with finished checksums and no longer than the MTU.
    pub offloads: bool,
    /// Frames that the kernel lets wait for each end; `None`: the kernel's choice. Default none.
    pub tx_queue_len: Option<u32>,
    /// Address of the first end. Default: the kernel's choice.
    pub mac_a: Option<[u8; 6]>,
    /// Address of the second end. Default: the kernel's choice.
    pub mac_b: Option<[u8; 6]>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig { mtu: 1500, queues: 1, offloads: false, tx_queue_len: None, mac_a: None, mac_b: None }
    }
}

/// What the kernel says about a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index within the namespace.
    pub index: u32,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Set up by the administrator.
    pub up: bool,
    /// Able to carry frames: up, the other end too, and its queues started.
    pub running: bool,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Receive queues.
    pub rx_queues: u32,
}

/// Which work an interface leaves to its peer or takes over from the stack (`ethtool -k`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Receive checksums count as checked.
    pub rx_checksum: bool,
    /// Transmit checksums may be unfinished.
    pub tx_checksum: bool,
    /// Frames in several pieces.
    pub scatter_gather: bool,
    /// TCP segmentation by the device.
    pub tso: bool,
    /// Segmentation late in the stack.
    pub gso: bool,
    /// Aggregation of received segments.
    pub gro: bool,
    /// VLAN tags beside the frame instead of in it.
    pub vlan: bool,
}

impl Offloads {
    /// All of them on, or off.
    pub const fn all(on: bool) -> Offloads {
        Offloads { rx_checksum: on, tx_checksum: on, scatter_gather: on, tso: on, gso: on, gro: on, vlan: on }
    }
}

// Commands and flags of linux/ethtool.h.
const ETHTOOL_RXCSUM: u32 = 0x14;
const ETHTOOL_TXCSUM: u32 = 0x16;
const ETHTOOL_SG: u32 = 0x18;
const ETHTOOL_TSO: u32 = 0x1e;
const ETHTOOL_GSO: u32 = 0x23;
const ETHTOOL_FLAGS: u32 = 0x25;
const ETHTOOL_GRO: u32 = 0x2b;
/// Each setting's command follows the one that gets it.
const SET: u32 = 1;
const ETH_FLAG_VLAN: u32 = 1 << 7 | 1 << 8;

/// The ends of a veth pair. The pair lives in its namespaces and goes with either of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VethPair {
    /// The end in the first namespace.
    pub a: Link,
    /// The end in the second namespace.
    pub b: Link,
}

impl VethPair {
    /// Makes a pair: `name_a` in `ns_a`, `name_b` in `ns_b`, both down ([`Namespace::set_up`]).
    ///
    /// # Errors
    /// [`NetnsError::BadName`], or [`NetnsError::System`] when a name is taken, the kernel has no veth, or the process may
    /// not.
    pub fn create(
        ns_a: &Namespace,
        name_a: &str,
        ns_b: &Namespace,
        name_b: &str,
        config: &LinkConfig,
    ) -> Result<VethPair, NetnsError> {
        check_interface(name_a)?;
        check_interface(name_b)?;
        let end = |name: &str, mac: Option<[u8; 6]>| {
            let mut link = LinkMessage::default();
            link.attributes = vec![
                LinkAttribute::IfName(name.to_string()),
                LinkAttribute::Mtu(config.mtu),
                LinkAttribute::NumTxQueues(config.queues),
                LinkAttribute::NumRxQueues(config.queues),
            ];
            link.attributes.extend(config.tx_queue_len.map(LinkAttribute::TxQueueLen));
            link.attributes.extend(mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
            link
        };
        let mut peer = end(name_b, config.mac_b);
        peer.attributes.push(LinkAttribute::NetNsFd(ns_b.fd().as_raw_fd()));
        let mut link = end(name_a, config.mac_a);
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        ns_a.rtnl()
            .request(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(NetnsError::system(format!("make veth pair {name_a}, {name_b}")))?;
        for (ns, name) in [(ns_a, name_a), (ns_b, name_b)] {
            ns.set_offloads(name, config.offloads)?;
        }
        Ok(VethPair { a: ns_a.link(name_a)?, b: ns_b.link(name_b)? })
    }
}

impl Namespace {
    /// What the kernel says about the link `name`.
    ///
    /// # Errors
    /// [`NetnsError::System`] when there is none.
    pub fn link(&self, name: &str) -> Result<Link, NetnsError> {
        check_interface(name)?;
        let doing = || NetnsError::system(format!("look at link {name} in {}", self.label()));
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_string()));
        let reply = self.rtnl().request(RouteNetlinkMessage::GetLink(message), 0).map_err(doing())?;
        let reply = reply.ok_or_else(|| doing()(std::io::ErrorKind::InvalidData.into()))?;
        let flags = LinkFlags::from_bits_retain(reply.flags);
        Ok(Link {
            index: reply.index,
            mac: reply.mac.unwrap_or_default(),
            mtu: reply.mtu,
            up: flags.contains(LinkFlags::Up),
            running: flags.contains(LinkFlags::Up | LinkFlags::Running | LinkFlags::LowerUp),
            tx_queues: reply.tx_queues,
            rx_queues: reply.rx_queues,
        })
    }

    /// Makes a bridge that learns, without spanning tree and multicast snooping: down, and without ports.
    ///
    /// # Errors
    /// [`NetnsError::BadName`], or [`NetnsError::System`] when the name is taken or the kernel has no bridges.
    pub fn create_bridge(&self, name: &str, mtu: u32) -> Result<(), NetnsError> {
        check_interface(name)?;
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(name.to_string()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Bridge),
                LinkInfo::Data(InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)])),
            ]),
        ];
        let message = RouteNetlinkMessage::NewLink(link);
        self.change(format!("make bridge {name}"), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Makes the link a port of a bridge.
    ///
    /// # Errors
    /// [`NetnsError::System`] when either is not there.
    pub fn join_bridge(&self, name: &str, bridge: &str) -> Result<(), NetnsError> {
        let mut message = LinkMessage::default();
        message.header.index = self.link(name)?.index;
        message.attributes = vec![LinkAttribute::Controller(self.link(bridge)?.index)];
        let what = format!("make {name} a port of {bridge}");
        self.change(what, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets the link up. `lo` needs it too.
    ///
    /// # Errors
    /// [`NetnsError::System`] when there is none.
    pub fn set_up(&self, name: &str) -> Result<(), NetnsError> {
        let mut message = LinkMessage::default();
        message.header.index = self.link(name)?.index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.change(format!("set link {name} up"), RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Waits until the link carries frames. After [`set_up`](Namespace::set_up) of both ends the kernel takes a moment to
    /// start the queues, and drops without a word what is sent meanwhile.
    ///
    /// # Errors
    /// [`NetnsError::NotRunning`] after three seconds; [`NetnsError::System`] when there is no such link.
    pub fn wait_running(&self, name: &str) -> Result<Link, NetnsError> {
        for _ in 0..RUNNING_WAIT_MS {
            let link = self.link(name)?;
            if link.running {
                return Ok(link);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(NetnsError::NotRunning { name: name.to_string(), waited_ms: RUNNING_WAIT_MS })
    }

    /// Deletes a link; of a veth pair, both ends.
    ///
    /// # Errors
    /// [`NetnsError::System`] when there is none.
    pub fn delete_link(&self, name: &str) -> Result<(), NetnsError> {
        let mut message = LinkMessage::default();
        message.header.index = self.link(name)?.index;
        self.change(format!("delete link {name}"), RouteNetlinkMessage::DelLink(message), 0)
    }

    /// Gives the link an address. An IPv6 address is usable at once: duplicates are not looked for.
    ///
    /// # Errors
    /// [`NetnsError::System`] when there is no such link, the address is there, or the kernel has no IPv6.
    pub fn add_address(&self, name: &str, address: IpAddr, prefix_len: u8) -> Result<(), NetnsError> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_len;
        message.header.index = self.link(name)?.index;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        match address {
            IpAddr::V4(v4) if prefix_len < 31 => {
                let hosts = u32::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
                message.attributes.push(AddressAttribute::Broadcast(Ipv4Addr::from(u32::from(v4) | hosts)));
            }
            IpAddr::V4(_) => {}
            IpAddr::V6(_) => message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad)),
        }
        let what = format!("add address {address}/{prefix_len} to {name}");
        self.change(what, RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// States the Ethernet address of a neighbour for good, so that neither ARP nor neighbour discovery asks for it.
    ///
    /// # Errors
    /// [`NetnsError::System`] when there is no such link.
    pub fn add_neighbour(&self, name: &str, address: IpAddr, mac: [u8; 6]) -> Result<(), NetnsError> {
        self.add_neighbours(name, [(address, mac)])
    }

    /// As [`add_neighbour`](Namespace::add_neighbour), for many: the link is looked up once.
    ///
    /// # Errors
    /// As there.
    pub fn add_neighbours(
        &self,
        name: &str,
        neighbours: impl IntoIterator<Item = (IpAddr, [u8; 6])>,
    ) -> Result<(), NetnsError> {
        let index = self.link(name)?.index;
        for (address, mac) in neighbours {
            let mut message = NeighbourMessage::default();
            message.header.family = family(address);
            message.header.ifindex = index;
            message.header.state = NeighbourState::Permanent;
            message.attributes = vec![
                NeighbourAttribute::Destination(address.into()),
                NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
            ];
            let what = format!("add neighbour {address} to {name}");
            self.change(what, RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        Ok(())
    }

    /// Routes `destination/prefix_len` (`0.0.0.0/0`, `::/0`: everything) by way of `gateway`, which must be on a link.
    ///
    /// # Errors
    /// [`NetnsError::System`] when the gateway cannot be reached, is of the other family, or the route is there.
    pub fn add_route(&self, destination: IpAddr, prefix_len: u8, gateway: IpAddr) -> Result<(), NetnsError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(gateway);
        message.header.destination_prefix_length = prefix_len;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![RouteAttribute::Gateway(RouteAddress::from(gateway))];
        if prefix_len > 0 {
            message.attributes.push(RouteAttribute::Destination(RouteAddress::from(destination)));
        }
        let what = format!("add route {destination}/{prefix_len} by {gateway}");
        self.change(what, RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Which offloads the link uses.
    ///
    /// # Errors
    /// [`NetnsError::System`] when there is no such link.
    pub fn offloads(&self, name: &str) -> Result<Offloads, NetnsError> {
        let on = |command| Ok(self.ethtool(name, command, 0)? != 0);
        Ok(Offloads {
            rx_checksum: on(ETHTOOL_RXCSUM)?,
            tx_checksum: on(ETHTOOL_TXCSUM)?,
            scatter_gather: on(ETHTOOL_SG)?,
            tso: on(ETHTOOL_TSO)?,
            gso: on(ETHTOOL_GSO)?,
            gro: on(ETHTOOL_GRO)?,
            vlan: self.ethtool(name, ETHTOOL_FLAGS, 0)? & ETH_FLAG_VLAN != 0,
        })
    }

    /// Turns every offload on or off and says which are on then: an attached XDP program, say, keeps some off.
    ///
    /// # Errors
    /// [`NetnsError::System`] when there is no such link or its driver cannot change one.
    pub fn set_offloads(&self, name: &str, on: bool) -> Result<Offloads, NetnsError> {
        // Bottom up, because the later ones need the earlier ones; off, the kernel drops what depends by itself.
        for command in [ETHTOOL_RXCSUM, ETHTOOL_TXCSUM, ETHTOOL_SG, ETHTOOL_TSO, ETHTOOL_GSO, ETHTOOL_GRO] {
            self.ethtool(name, command + SET, on.into())?;
        }
        let flags = self.ethtool(name, ETHTOOL_FLAGS, 0)?;
        let flags = if on { flags | ETH_FLAG_VLAN } else { flags & !ETH_FLAG_VLAN };
        self.ethtool(name, ETHTOOL_FLAGS + SET, flags)?;
        self.offloads(name)
    }

    /// Sets each offload as given and says which are on then: some need others.
    ///
    /// # Errors
    /// As [`set_offloads`](Namespace::set_offloads).
    pub fn set_each_offload(&self, name: &str, wanted: &Offloads) -> Result<Offloads, NetnsError> {
        self.set_offloads(name, false)?;
        // Bottom up, because the later ones need the earlier ones.
        for (command, on) in [
            (ETHTOOL_RXCSUM, wanted.rx_checksum),
            (ETHTOOL_TXCSUM, wanted.tx_checksum),
            (ETHTOOL_SG, wanted.scatter_gather),
            (ETHTOOL_TSO, wanted.tso),
            (ETHTOOL_GSO, wanted.gso),
            (ETHTOOL_GRO, wanted.gro),
        ] {
            if on {
                self.ethtool(name, command + SET, 1)?;
            }
        }
        if wanted.vlan {
            let flags = self.ethtool(name, ETHTOOL_FLAGS, 0)?;
            self.ethtool(name, ETHTOOL_FLAGS + SET, flags | ETH_FLAG_VLAN)?;
        }
        self.offloads(name)
    }

    fn ethtool(&self, name: &str, command: u32, value: u32) -> Result<u32, NetnsError> {
        check_interface(name)?;
        sys::ethtool_value(self.control(), name, command, value).map_err(NetnsError::system(format!(
            "ethtool command {command:#x} on {name} in {}",
            self.label()
        )))
    }

    fn change(&self, what: String, message: RouteNetlinkMessage, flags: u16) -> Result<(), NetnsError> {
        let done = self.rtnl().request(message, flags);
        done.map(drop).map_err(NetnsError::system(format!("{what} in {}", self.label())))
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// Refuses what cannot be an interface's name: the kernel's own rule (`dev_valid_name`), told better.
///
/// # Errors
/// [`NetnsError::BadName`].
pub fn check_interface(name: &str) -> Result<(), NetnsError> {
    let bad = |why| Err(NetnsError::BadName { what: "interface", name: name.to_string(), why });
    if name.is_empty() || name.len() > 15 {
        return bad("must have 1 to 15 bytes");
    }
    if name == "."
        || name == ".."
        || name.contains(|c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace())
    {
        return bad("may contain no slash, colon, space or zero");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names_are_checked() {
        for name in ["", "a/b", "a b", "..", "a:1", "a\0", "sixteen-bytes-ab"] {
            assert!(matches!(check_interface(name), Err(NetnsError::BadName { .. })), "{name}");
        }
        assert!(check_interface("fifteen-bytes-a").is_ok());
    }
}
