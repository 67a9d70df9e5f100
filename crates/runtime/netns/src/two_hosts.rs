//! Two hosts and the wire between them: what the demonstration, tests and baselines run on.

use crate::{LinkConfig, Namespace, NetnsError, VethPair};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Prefix length of every IPv4 address of the pair.
const V4_PREFIX: u8 = 24;
/// Prefix length of every IPv6 address of the pair.
const V6_PREFIX: u8 = 64;

/// What [`TwoHosts::create`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoHostsConfig {
    /// Label of the namespaces, which become `bw-PID-START-LABEL-a` and `-b`. `None`: they are anonymous. Default
    /// `two`.
    pub label: Option<String>,
    /// The wire `eth0` to `eth0`, 10.77.0.1 to 10.77.0.2. MACs that are not given are `02:62:77:4d:00:01` and `:02`.
    pub link: LinkConfig,
    /// A second wire, `twin0` to `twin0`, 10.78.0.1 to 10.78.0.2, for baselines of the kernel: a program that is attached
    /// to `eth0` changes what the kernel's own stack sees there. Default none.
    pub twin: Option<LinkConfig>,
    /// IPv6 addresses too: fd77::1 and fd77::2, on the twin fd78::1 and fd78::2. Default on.
    pub ipv6: bool,
    /// Each side knows the other's Ethernet address for good, so that no ARP disturbs. Default off.
    pub static_neighbours: bool,
}

impl Default for TwoHostsConfig {
    fn default() -> Self {
        let label = Some("two".to_string());
        TwoHostsConfig {
            label,
            link: LinkConfig::default(),
            twin: None,
            ipv6: true,
            static_neighbours: false,
        }
    }
}

/// One host's end of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name within the host.
    pub name: String,
    /// Its index within the host.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its largest IP packet in bytes.
    pub mtu: u32,
    /// Its IPv4 address, in a /24.
    pub v4: Ipv4Addr,
    /// Its IPv6 address, in a /64, if the pair has IPv6.
    pub v6: Option<Ipv6Addr>,
}

/// Two hosts with a wire between them, up and running. Dropping it removes everything.
#[derive(Debug)]
pub struct TwoHosts {
    /// The first host.
    pub ns_a: Namespace,
    /// The second host.
    pub ns_b: Namespace,
    /// The first host's `eth0`.
    pub eth_a: Interface,
    /// The second host's `eth0`.
    pub eth_b: Interface,
    /// Both hosts' `twin0`, if asked for.
    pub twin: Option<(Interface, Interface)>,
}

impl TwoHosts {
    /// Makes the hosts and wires, and waits until these carry frames. `lo` is up in both.
    ///
    /// # Errors
    /// As its parts; nothing is left behind then.
    pub fn create(config: &TwoHostsConfig) -> Result<TwoHosts, NetnsError> {
        let host = |side: &str| match &config.label {
            Some(label) => Namespace::create(&format!("{label}-{side}")),
            None => Namespace::anonymous(),
        };
        let (ns_a, ns_b) = (host("a")?, host("b")?);
        ns_a.set_up("lo")?;
        ns_b.set_up("lo")?;
        let (eth_a, eth_b) = wire(&ns_a, &ns_b, "eth0", 77, &config.link, config)?;
        let twin =
            config.twin.as_ref().map(|link| wire(&ns_a, &ns_b, "twin0", 78, link, config)).transpose()?;
        Ok(TwoHosts { ns_a, ns_b, eth_a, eth_b, twin })
    }
}

/// Makes the wire whose addresses are 10.NET.0.x and fdNET::x.
fn wire(
    ns_a: &Namespace,
    ns_b: &Namespace,
    name: &str,
    net: u8,
    link: &LinkConfig,
    config: &TwoHostsConfig,
) -> Result<(Interface, Interface), NetnsError> {
    let mac = |host: u8| [0x02, 0x62, 0x77, net, 0, host];
    let link =
        LinkConfig { mac_a: link.mac_a.or(Some(mac(1))), mac_b: link.mac_b.or(Some(mac(2))), ..link.clone() };
    let pair = VethPair::create(ns_a, name, ns_b, name, &link)?;
    // The decimal digits of NET read as hexadecimal ones: 77 becomes fd77::.
    let v6_net = 0xfd00 | u16::from(net / 10) << 4 | u16::from(net % 10);
    let end = |host: u8, link: &crate::Link| Interface {
        name: name.to_string(),
        index: link.index,
        mac: link.mac,
        mtu: link.mtu,
        v4: Ipv4Addr::new(10, net, 0, host),
        v6: config.ipv6.then(|| Ipv6Addr::new(v6_net, 0, 0, 0, 0, 0, 0, host.into())),
    };
    let (a, b) = (end(1, &pair.a), end(2, &pair.b));
    for (ns, ours, theirs) in [(ns_a, &a, &b), (ns_b, &b, &a)] {
        ns.add_address(name, IpAddr::V4(ours.v4), V4_PREFIX)?;
        if let Some(v6) = ours.v6 {
            ns.add_address(name, IpAddr::V6(v6), V6_PREFIX)?;
        }
        ns.set_up(name)?;
        if config.static_neighbours {
            ns.add_neighbour(name, IpAddr::V4(theirs.v4), theirs.mac)?;
            if let Some(v6) = theirs.v6 {
                ns.add_neighbour(name, IpAddr::V6(v6), theirs.mac)?;
            }
        }
    }
    ns_a.wait_running(name)?;
    ns_b.wait_running(name)?;
    Ok((a, b))
}
