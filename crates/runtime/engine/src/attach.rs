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
    /// The port.
    #[error(transparent)]
    Port(#[from] OpenError),
    /// The frame pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The system's random source.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// What a user says about a host: where it is attached and who it is.
#[derive(Clone, Copy, Debug)]
pub struct HostSettings<'a> {
    /// The port's URI.
    pub port: &'a str,
    /// The frame pool.
    pub pool: PoolConfig,
    /// IPv4 addresses with their prefix lengths.
    pub ipv4: &'a [(Ipv4Addr, u8)],
    /// IPv6 addresses with their prefix lengths.
    pub ipv6: &'a [(Ipv6Addr, u8)],
    /// Where IPv4 packets to other networks go.
    pub gateway4: Option<Ipv4Addr>,
    /// Where IPv6 packets to other networks go.
    pub gateway6: Option<Ipv6Addr>,
    /// The MAC address. Default: the port's, else one that follows from the first address.
    pub mac: Option<MacAddr>,
    /// The VLAN that all frames are in.
    pub vlan: Option<u16>,
    /// Upper limit for the host's MTU, in bytes of IP packet; the port's is another.
    pub mtu_max: u16,
    /// Neighbours remembered at once; `None`: the host's default.
    pub neighbours_max: Option<usize>,
}

/// A port, its pool, and the configuration of the host on it.
pub struct Attached {
    /// The port.
    pub port: Box<dyn Port>,
    /// The port's pool.
    pub pool: Pool,
    /// The host: MAC and MTU agree with the port, the hash key is random.
    pub host: HostConfig,
}

impl HostSettings<'_> {
    /// All addresses, IPv4 first.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let v4 = self.ipv4.iter().map(|a| IpAddr::V4(a.0));
        v4.chain(self.ipv6.iter().map(|a| IpAddr::V6(a.0))).collect()
    }

    /// Makes the pool, opens the port and configures the host.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(&self) -> Result<Attached, AttachError> {
        let uri: PortUri = self.port.parse()?;
        let (uri, pool) = for_host(uri, &self.addresses(), self.pool)?;
        let pool = Pool::new(pool)?;
        let port = open_port(&uri, &pool)?;
        self.attach_to(port, pool)
    }

    /// Configures the host for a port that is open already, with `pool` its pool; `self.port` and `self.pool` are not looked at.
    ///
    /// # Errors
    /// [`AttachError::Random`].
    pub fn attach_to(&self, port: Box<dyn Port>, pool: Pool) -> Result<Attached, AttachError> {
        let caps = port.caps();
        let mac = match self.mac.or(caps.mac) {
            Some(mac) => mac,
            None => self.own_mac()?,
        };
        let defaults = HostConfig::new(mac);
        let host = HostConfig {
            mtu: caps.mtu.min(u32::from(self.mtu_max)) as u16,
            ipv4: self.ipv4.to_vec(),
            ipv6: self.ipv6.to_vec(),
            gateway4: self.gateway4,
            gateway6: self.gateway6,
            vlan: self.vlan,
            neighbours_max: self.neighbours_max.unwrap_or(defaults.neighbours_max),
            hash_key: u64::from_ne_bytes(random()?),
            ..defaults
        };
        Ok(Attached { port, pool, host })
    }

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

    fn settings<'a>(port: &'a str, ipv4: &'a [(Ipv4Addr, u8)]) -> HostSettings<'a> {
        HostSettings {
            port,
            pool: PoolConfig { frames: 64, ..PoolConfig::default() },
            ipv4,
            ipv6: &[],
            gateway4: None,
            gateway6: None,
            mac: None,
            vlan: Some(7),
            mtu_max: 1400,
            neighbours_max: None,
        }
    }

    #[test]
    fn every_host_has_a_key_of_its_own() {
        let keys: Vec<u64> = ["mem:attach-key-a", "mem:attach-key-b"]
            .into_iter()
            .map(|port| settings(port, &[ADDRESS]).attach().unwrap().host.hash_key)
            .collect();
        assert_ne!(keys[0], 0);
        assert_ne!(keys[0], keys[1]);
    }

    #[test]
    fn the_host_is_as_told_and_fits_its_port() {
        let host = settings("mem:attach-told", &[ADDRESS]).attach().unwrap().host;
        assert_eq!((host.vlan, host.mtu), (Some(7), 1400));
        assert_eq!(host.ipv4, [ADDRESS]);
        assert_eq!(host.neighbours_max, HostConfig::new(host.mac).neighbours_max);
        let wide = HostSettings { mtu_max: u16::MAX, ..settings("mem:attach-wide", &[ADDRESS]) };
        let wide = wide.attach().unwrap();
        assert_eq!(u32::from(wide.host.mtu), wide.port.caps().mtu, "never more than the port carries");
        let chosen = HostSettings { mac: Some(MacAddr([2; 6])), ..settings("mem:attach-mac", &[ADDRESS]) };
        assert_eq!(chosen.attach().unwrap().host.mac, MacAddr([2; 6]));
    }

    #[test]
    fn a_mac_follows_from_the_first_address() {
        let mac = |s: HostSettings<'_>| s.own_mac().unwrap();
        assert_eq!(mac(settings("mem:x", &[ADDRESS])), MacAddr([2, 0x62, 10, 1, 2, 3]));
        let v6 = [("2001:db8::a:b0c".parse().unwrap(), 64)];
        assert_eq!(
            mac(HostSettings { ipv6: &v6, ..settings("mem:x", &[]) }),
            MacAddr([2, 0x62, 0, 10, 11, 12])
        );
        assert_ne!(mac(settings("mem:x", &[])), mac(settings("mem:x", &[])), "without an address: random");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |port: &str| settings(port, &[ADDRESS]).attach().err().unwrap();
        assert!(matches!(refused("carrier-pigeon:1"), AttachError::Port(OpenError::BadUri { .. })));
        let none = HostSettings {
            pool: PoolConfig { frames: 0, ..PoolConfig::default() },
            ..settings("mem:p", &[])
        };
        assert!(matches!(none.attach().err().unwrap(), AttachError::Pool(_)));
    }
}
