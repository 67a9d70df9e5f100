//! How every host gets onto its port: one way for the embedded endpoints, the RDMA device and the daemon, so that none of them
//! forgets what the others set.

use crate::{for_host, open_port};
use barewire_frame::{Pool, PoolConfig, PoolError};
use barewire_host::HostConfig;
use barewire_port::{OpenError, Port, PortUri};
use barewire_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The system's random source failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random source: {0}")]
pub struct RandomError(pub String);

/// `N` bytes from the system's random source, for keys and secrets.
///
/// # Errors
/// [`RandomError`].
pub fn random<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| RandomError(e.to_string()))?;
    Ok(bytes)
}

/// Why a host could not be attached to its port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The port could not be opened.
    #[error(transparent)]
    Port(#[from] OpenError),
    /// The frame pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The system's random source.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// What a user says of a port and of the host on it: the keys that the daemon's ports, embedded endpoints and RDMA devices share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// The port's URI, such as `xdp:eth0` or `mem:demo`.
    pub port: String,
    /// Our IPv4 addresses with their prefix lengths.
    pub ipv4: Vec<(Ipv4Addr, u8)>,
    /// Our IPv6 addresses with their prefix lengths.
    pub ipv6: Vec<(Ipv6Addr, u8)>,
    /// Where IPv4 packets to other networks go.
    pub gateway4: Option<Ipv4Addr>,
    /// Where IPv6 packets to other networks go.
    pub gateway6: Option<Ipv6Addr>,
    /// Our MAC address. Default: the interface's, or one made of our first address where the port has none.
    pub mac: Option<MacAddr>,
    /// The VLAN that all frames are in.
    pub vlan: Option<u16>,
    /// Packets have at most so many bytes; what the port carries is another limit.
    pub mtu: u16,
}

impl PortSettings {
    /// A port without addresses yet, for packets of the usual 1500 bytes.
    pub fn bare(port: &str) -> PortSettings {
        PortSettings {
            port: port.to_owned(),
            ipv4: vec![],
            ipv6: vec![],
            gateway4: None,
            gateway6: None,
            mac: None,
            vlan: None,
            mtu: barewire_transport::Config::default().mtu,
        }
    }

    /// A port with one address.
    pub fn new(port: &str, ipv4: Ipv4Addr, prefix: u8) -> PortSettings {
        PortSettings { ipv4: vec![(ipv4, prefix)], ..PortSettings::bare(port) }
    }

    /// All addresses, IPv4 first.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let v4 = self.ipv4.iter().map(|a| IpAddr::V4(a.0));
        v4.chain(self.ipv6.iter().map(|a| IpAddr::V6(a.0))).collect()
    }

    /// Adds an address of either family with its prefix length.
    pub fn add_address(&mut self, ip: IpAddr, prefix: u8) {
        match ip {
            IpAddr::V4(v4) => self.ipv4.push((v4, prefix)),
            IpAddr::V6(v6) => self.ipv6.push((v6, prefix)),
        }
    }

    /// Sets the gateway of its family.
    pub fn set_gateway(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(v4) => self.gateway4 = Some(v4),
            IpAddr::V6(v6) => self.gateway6 = Some(v6),
        }
    }
}

/// How a host gets onto its port: what a user says of both, and what it takes beside.
#[derive(Clone, Copy, Debug)]
pub struct HostSettings<'a> {
    /// The port and the host on it.
    pub interface: &'a PortSettings,
    /// The frame pool.
    pub pool: PoolConfig,
    /// Neighbours remembered at once; `None`: the host's default.
    pub neighbours_max: Option<usize>,
}

/// A port, its pool, and the configuration of the host on it.
pub struct Attached {
    /// The port, open; its frames are the pool's, so it has to go before the pool.
    pub port: Box<dyn Port>,
    /// The port's pool.
    pub pool: Pool,
    /// The host: MAC and MTU agree with the port, the hash key is random.
    pub host: HostConfig,
}

impl HostSettings<'_> {
    /// Makes the pool, opens the port and configures the host.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(&self) -> Result<Attached, AttachError> {
        let uri: PortUri = self.interface.port.parse()?;
        let (uri, pool) = for_host(uri, &self.interface.addresses(), self.pool)?;
        let pool = Pool::new(pool)?;
        let port = open_port(&uri, &pool)?;
        self.attach_to(port, pool)
    }

    /// Configures the host for a port that is open already, with `pool` its pool; the settings of both are not looked at.
    ///
    /// # Errors
    /// [`AttachError::Random`].
    pub fn attach_to(&self, port: Box<dyn Port>, pool: Pool) -> Result<Attached, AttachError> {
        let (caps, interface) = (port.caps(), self.interface);
        let mac = match interface.mac.or(caps.mac) {
            Some(mac) => mac,
            None => interface.own_mac()?,
        };
        let defaults = HostConfig::new(mac);
        let host = HostConfig {
            mtu: caps.mtu.min(u32::from(interface.mtu)) as u16,
            ipv4: interface.ipv4.clone(),
            ipv6: interface.ipv6.clone(),
            gateway4: interface.gateway4,
            gateway6: interface.gateway6,
            vlan: interface.vlan,
            neighbours_max: self.neighbours_max.unwrap_or(defaults.neighbours_max),
            hash_key: u64::from_ne_bytes(random()?),
            ..defaults
        };
        Ok(Attached { port, pool, host })
    }
}

impl PortSettings {
    /// A MAC address for a port that has none, locally administered and made of our first address: it is unlike that of every
    /// other host on the link, the same on all engines, and the same after a restart, so that neighbours need not learn it anew.
    /// Without an address it is random.
    fn own_mac(&self) -> Result<MacAddr, RandomError> {
        let last = match (self.ipv4.first(), self.ipv6.first()) {
            (Some((v4, _)), _) => v4.octets(),
            (None, Some((v6, _))) => {
                let o = v6.octets();
                [o[12], o[13], o[14], o[15]]
            }
            (None, None) => random()?,
        };
        Ok(MacAddr([0x02, 0x62, last[0], last[1], last[2], last[3]]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 1, 2, 3), 24);

    fn interface(port: &str, ipv4: &[(Ipv4Addr, u8)]) -> PortSettings {
        PortSettings { ipv4: ipv4.to_vec(), vlan: Some(7), mtu: 1400, ..PortSettings::bare(port) }
    }

    fn attach(interface: &PortSettings) -> Result<Attached, AttachError> {
        let pool = PoolConfig { frames: 64, ..PoolConfig::default() };
        HostSettings { interface, pool, neighbours_max: None }.attach()
    }

    #[test]
    fn every_host_has_a_key_of_its_own() {
        let keys: Vec<u64> = ["mem:attach-key-a", "mem:attach-key-b"]
            .into_iter()
            .map(|port| attach(&interface(port, &[ADDRESS])).unwrap().host.hash_key)
            .collect();
        assert_ne!(keys[0], 0);
        assert_ne!(keys[0], keys[1]);
    }

    #[test]
    fn the_host_is_as_told_and_fits_its_port() {
        let host = attach(&interface("mem:attach-told", &[ADDRESS])).unwrap().host;
        assert_eq!((host.vlan, host.mtu), (Some(7), 1400));
        assert_eq!(host.ipv4, [ADDRESS]);
        assert_eq!(host.neighbours_max, HostConfig::new(host.mac).neighbours_max);
        let wide = PortSettings { mtu: u16::MAX, ..interface("mem:attach-wide", &[ADDRESS]) };
        let wide = attach(&wide).unwrap();
        assert_eq!(u32::from(wide.host.mtu), wide.port.caps().mtu, "never more than the port carries");
        let chosen = PortSettings { mac: Some(MacAddr([2; 6])), ..interface("mem:attach-mac", &[ADDRESS]) };
        assert_eq!(attach(&chosen).unwrap().host.mac, MacAddr([2; 6]));
    }

    #[test]
    fn a_mac_follows_from_the_first_address() {
        let mac = |s: PortSettings| s.own_mac().unwrap();
        assert_eq!(mac(interface("mem:x", &[ADDRESS])), MacAddr([2, 0x62, 10, 1, 2, 3]));
        let mut v6 = interface("mem:x", &[]);
        v6.add_address("2001:db8::a:b0c".parse().unwrap(), 64);
        assert_eq!(mac(v6), MacAddr([2, 0x62, 0, 10, 11, 12]));
        assert_ne!(mac(interface("mem:x", &[])), mac(interface("mem:x", &[])), "without an address: random");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = attach(&interface("carrier-pigeon:1", &[ADDRESS])).err().unwrap();
        assert!(matches!(refused, AttachError::Port(OpenError::BadUri { .. })));
        let pool = PoolConfig { frames: 0, ..PoolConfig::default() };
        let none = HostSettings { interface: &interface("mem:p", &[]), pool, neighbours_max: None }.attach();
        assert!(matches!(none.err().unwrap(), AttachError::Pool(_)));
    }
}
