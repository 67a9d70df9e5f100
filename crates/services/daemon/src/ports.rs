//! The daemon's ports: what one table of the configuration says of each, and what they may not have in common.
//!
//! The first is `[interface]`, or the first `[[ports]]` where that names no port.

use crate::config::{Config, ConfigError, bad, with_prefix};
use crate::link::MTU_MIN;
use crate::pending_port::PendingPort;
use barewire_engine::{
    AttachError, Attached, HostSettings, Interface, PortSettings, engine_port, for_host, open_port,
    with_claims,
};
use barewire_frame::Pool;
use barewire_host::HostConfig;
use barewire_port::{OpenError, Port, PortUri};
use barewire_transport::LEGS_MAX;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that a port is on, by their lowest address. Every link has link-local addresses of IPv6: those tell no ports apart.
fn networks(port: &PortSettings) -> Vec<(IpAddr, u8)> {
    let v4 = port.ipv4.iter().map(|&(ip, bits)| {
        let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
        (IpAddr::from(Ipv4Addr::from_bits(ip.to_bits() & mask)), bits)
    });
    let v6 = port.ipv6.iter().filter(|(ip, _)| !ip.is_unicast_link_local()).map(|&(ip, bits)| {
        let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
        (IpAddr::from(Ipv6Addr::from_bits(ip.to_bits() & mask)), bits)
    });
    v4.chain(v6).collect()
}

/// Declares `[[ports]]` and `[interface]`, which has the keys of a port and some of its own: each key is written once. (`serde(flatten)` would
/// take unknown keys, and not say where a wrong one stands.)
macro_rules! port_tables {
    (struct $port:ident { $($key:ident: $kind:ty,)* } struct $interface:ident { $($more:ident: $more_kind:ty,)* }) => {
        /// One of `[[ports]]`, as it is written.
        #[derive(Deserialize, Default, PartialEq)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $port {
            $($key: $kind,)*
        }

        /// `[interface]`: the first port, and what all have in common.
        #[derive(Deserialize, Default)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $interface {
            $($key: $kind,)*
            $(pub $more: $more_kind,)*
        }

        impl $interface {
            /// Takes the keys of the first port out of it.
            pub(crate) fn port(&mut self) -> $port {
                $port { $($key: std::mem::take(&mut self.$key),)* }
            }
        }
    };
}

port_tables! {
    struct PortTable {
        port: Option<String>,
        ipv4: Vec<String>,
        ipv6: Vec<String>,
        gateway4: Option<Ipv4Addr>,
        gateway6: Option<Ipv6Addr>,
        mac: Option<String>,
        mtu: Option<u16>,
        vlan: Option<u16>,
    }
    struct InterfaceTable {
        neighbours_max: Option<usize>,
        pool_frames: Option<u32>,
        chunk_len: Option<u32>,
        huge_pages: Option<bool>,
    }
}

impl PortTable {
    pub(crate) fn is_empty(&self) -> bool {
        *self == PortTable::default()
    }

    /// Checks it by itself.
    pub(crate) fn read(self, keys: &Keys) -> Result<PortSettings, ConfigError> {
        let port =
            self.port.ok_or_else(|| bad(keys.port, "", "missing: name a port, such as \"xdp:eth0\""))?;
        port.parse::<PortUri>().map_err(|e| bad(keys.port, &port, e))?;
        let mut settings = PortSettings::bare(&port);
        for text in &self.ipv4 {
            settings.ipv4.push(with_prefix(keys.ipv4, text, 32)?);
        }
        for text in &self.ipv6 {
            settings.ipv6.push(with_prefix(keys.ipv6, text, 128)?);
        }
        if settings.ipv4.is_empty() && settings.ipv6.is_empty() {
            return Err(bad(keys.ipv4, "", "missing: at least one address, such as [\"10.0.0.1/24\"]"));
        }
        if let Some(mac) = self.mac {
            settings.mac = Some(mac.parse().map_err(|e| bad(keys.mac, &mac, e))?);
        }
        (settings.gateway4, settings.gateway6) = (self.gateway4, self.gateway6);
        settings.vlan = self.vlan;
        settings.mtu = self.mtu.unwrap_or(settings.mtu);
        Ok(settings)
    }
}

/// What the keys of a table are called in messages.
pub(crate) struct Keys {
    port: &'static str,
    ipv4: &'static str,
    ipv6: &'static str,
    mac: &'static str,
}

pub(crate) const INTERFACE: Keys =
    Keys { port: "interface.port", ipv4: "interface.ipv4", ipv6: "interface.ipv6", mac: "interface.mac" };

pub(crate) const PORTS: Keys =
    Keys { port: "ports.port", ipv4: "ports.ipv4", ipv6: "ports.ipv6", mac: "ports.mac" };

/// Frames that wait for reception on an `xdp:` port of several, at most: what its receive ring holds.
const FILL_FRAMES_MAX: u32 = 2048;

/// A port of several, with frames for reception out of its own `part` of the pool: without a word each would take a share of what those
/// before it have left.
fn with_share(uri: PortUri, part: u32) -> PortUri {
    if uri.scheme != "xdp" || uri.options.contains_key("fill_frames") {
        return uri;
    }
    uri.with("fill_frames", (part / 2).min(FILL_FRAMES_MAX))
}

/// Whether several engines can have a port each on the same interface.
fn is_shared(port: &PortSettings) -> bool {
    port.port.parse::<PortUri>().is_ok_and(|uri| matches!(uri.scheme.as_str(), "dpdk" | "packet" | "xdp"))
}

/// Whether a port can be opened on an interface as it is now, and messages sent.
pub(crate) fn serves(found: Option<&Interface>) -> bool {
    found.is_some_and(|i| i.up && i.mtu >= u32::from(MTU_MIN))
}

/// A port that is open, with the host on it.
pub(crate) struct Opened {
    pub port: Box<dyn Port>,
    pub host: HostConfig,
}

impl Config {
    /// Every port, in order.
    pub fn all_ports(&self) -> impl Iterator<Item = &PortSettings> {
        std::iter::once(&self.interface).chain(&self.ports)
    }

    /// Refuses ports that cannot be served together.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn check_ports(&self) -> Result<(), ConfigError> {
        if self.engines > 1
            && let Some(port) = self.all_ports().find(|port| !is_shared(port))
        {
            let why = format!(
                "several engines need ports that several sockets can share, packet:INTERFACE, or xdp:INTERFACE or dpdk:DEVICE with as many \
                 receive queues, and one is {}",
                port.port
            );
            return Err(bad("daemon.engines", self.engines, why));
        }
        let all: Vec<_> = self.all_ports().collect();
        if all.len() > LEGS_MAX {
            return Err(bad("ports", all.len(), format!("a daemon has at most {LEGS_MAX} ports")));
        }
        for (n, port) in all.iter().enumerate() {
            for other in &all[..n] {
                if let Some(twice) = port.addresses().into_iter().find(|ip| other.addresses().contains(ip)) {
                    let why = format!("{} has this address, too: each port needs its own", other.port);
                    return Err(bad("ports", twice, why));
                }
                let others = networks(other);
                if let Some((network, bits)) = networks(port).into_iter().find(|n| others.contains(n)) {
                    let why = format!(
                        "{} and {} are both on this network: no route decides between them; hint: give one a longer prefix, or put both addresses on one port",
                        other.port, port.port
                    );
                    return Err(bad("ports", format!("{network}/{bits}"), why));
                }
            }
        }
        Ok(())
    }

    /// The ports of one engine: with several, each joins an interface's fanout group, or has receive queues of its own. Those that are
    /// `late` share theirs when they are opened.
    pub(crate) fn ports_of(&self, engine: u8, late: &[bool]) -> Result<Vec<PortUri>, OpenError> {
        let ports = self.all_ports().enumerate().map(|(n, port)| {
            let uri: PortUri = port.port.parse()?;
            match uri.scheme.as_str() {
                "packet" if self.engines > 1 && !uri.options.contains_key("fanout") => {
                    Ok(uri.with("fanout", self.fanout_group(n)))
                }
                _ if late.get(n) == Some(&true) => Ok(uri),
                _ => engine_port(uri, engine, self.engines),
            }
        });
        ports.collect()
    }

    /// The number of the engines' fanout group at a port. By the first address, of which a link has one: in containers on the host's
    /// network every daemon may be process 1, and daemons with the same group would share each other's frames. Each interface needs a
    /// group of its own.
    fn fanout_group(&self, port: usize) -> u16 {
        let address = self.interface.addresses().first().map_or(0, |address| match address {
            IpAddr::V4(v4) => u32::from(*v4),
            IpAddr::V6(v6) => u128::from(*v6) as u32,
        });
        let mixed = address.wrapping_mul(0x9e37_79b1) ^ std::process::id();
        ((mixed ^ mixed >> 16) as u16).wrapping_add(port as u16)
    }

    /// Opens the ports of one engine on one pool, which has what the configuration says for each. Those that are `late` are there, and
    /// closed.
    pub(crate) fn open_ports(
        &self,
        engine: u8,
        uris: &[PortUri],
        late: &[bool],
    ) -> Result<(Pool, Vec<Opened>), AttachError> {
        let ports: Vec<_> = self.all_ports().collect();
        let mut pool = self.pool;
        pool.frames = pool.frames.saturating_mul(ports.len() as u32);
        let mut shared = Vec::new();
        for (n, (port, uri)) in ports.iter().zip(uris).enumerate() {
            let (uri, grown) = match for_host(uri.clone(), &port.addresses(), pool) {
                // How many queues it will have nobody knows.
                Err(OpenError::NotFound { .. }) if n > 0 => {
                    (with_claims(uri.clone(), &port.addresses())?, pool)
                }
                found => found?,
            };
            pool = grown;
            shared.push(if ports.len() > 1 { with_share(uri, self.pool.frames) } else { uri });
        }
        let pool = Pool::new(pool)?;
        let mut opened = Vec::new();
        for (n, (port, uri)) in ports.iter().zip(shared).enumerate() {
            let opens = match late.get(n) {
                Some(true) => {
                    let share = (engine, self.engines);
                    Box::new(PendingPort::new(uri, share, pool.clone(), port.mtu)?)
                }
                _ => open_port(&uri, &pool)?,
            };
            let settings =
                HostSettings { interface: port, pool: self.pool, neighbours_max: Some(self.neighbours_max) };
            let Attached { port, host, .. } = settings.attach_to(opens, pool.clone())?;
            opened.push(Opened { port, host });
        }
        Ok((pool, opened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_wire::MacAddr;

    const FIRST: &str = "[interface]\nport = \"xdp:eth0\"\nipv4 = [\"10.0.0.1/24\"]\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "x").map_err(|e| e.to_string())
    }

    #[test]
    fn further_ports_are_tables_of_their_own() {
        let more = "[[ports]]\nport = \"packet:eth1\"\nipv4 = [\"10.1.0.1/24\"]\ngateway4 = \"10.1.0.254\"\nmtu = 9000\nvlan = 7\n\
                    [[ports]]\nport = \"packet:eth2\"\nipv6 = [\"fd02::1/64\"]\nmac = \"02:00:00:00:00:07\"\n";
        let c = parse(&format!("{FIRST}mtu = 1400\n{more}")).unwrap();
        assert_eq!((c.interface.port.as_str(), c.interface.mtu), ("xdp:eth0", 1400));
        let [a, b] = &c.ports[..] else { panic!("{:?}", c.ports) };
        assert_eq!((a.port.as_str(), a.mtu, a.vlan), ("packet:eth1", 9000, Some(7)));
        assert_eq!(a.gateway4, Some(Ipv4Addr::new(10, 1, 0, 254)));
        assert_eq!((b.mtu, b.mac), (1500, Some(MacAddr([2, 0, 0, 0, 0, 7]))));
        let all: Vec<String> = c.addresses().iter().map(ToString::to_string).collect();
        assert_eq!(all, ["10.0.0.1", "10.1.0.1", "fd02::1"]);
        // Without a port of its own the interface's table says what all have in common.
        let alone = parse(&format!("[interface]\npool_frames = 4096\n{more}")).unwrap();
        assert_eq!((alone.interface.port.as_str(), alone.interface.mtu), ("packet:eth1", 9000));
        assert_eq!((alone.ports.len(), alone.pool.frames), (1, 4096));
    }

    #[test]
    fn each_port_receives_with_a_share_of_its_own_part() {
        let of = |uri: &str, part| {
            let uri = with_share(uri.parse().unwrap(), part);
            uri.options.get("fill_frames").cloned()
        };
        assert_eq!(of("xdp:eth0", 8192).as_deref(), Some("2048"));
        assert_eq!(of("trace+xdp:eth0?trace=x.pcap", 1000).as_deref(), Some("500"));
        assert_eq!(of("xdp:eth0?fill_frames=64", 8192).as_deref(), Some("64"));
        assert_eq!(of("packet:eth0", 8192), None);
    }

    /// A group that two interfaces have is none for the kernel.
    #[test]
    fn engines_have_a_group_at_each_interface() {
        let more = "[[ports]]\nport = \"packet:eth2\"\nipv4 = [\"10.1.0.1/24\"]\n[daemon]\nengines = 2\n";
        let config = parse(&format!("{}{more}", FIRST.replace("xdp", "packet"))).unwrap();
        let [a, b] = [0, 1].map(|engine| config.ports_of(engine, &[]).unwrap());
        let group = |uri: &PortUri| uri.options["fanout"].clone();
        assert_eq!((group(&a[0]), group(&a[1])), (group(&b[0]), group(&b[1])));
        assert_ne!(group(&a[0]), group(&a[1]));
    }

    #[test]
    fn ports_that_cannot_be_told_apart_are_refused() {
        let second = |lines: &str| parse(&format!("{FIRST}[[ports]]\nport = \"packet:eth1\"\n{lines}"));
        for (lines, place, why) in [
            ("ipv4 = [\"10.0.0.1/25\"]", "ports = \"10.0.0.1\"", "xdp:eth0 has this address"),
            ("ipv4 = [\"10.0.0.9/24\"]", "ports = \"10.0.0.0/24\"", "xdp:eth0 and packet:eth1"),
            ("ipv4 = []", "ports.ipv4", "at least one address"),
            ("ipv4 = [\"10.1.0.1\"]", "ports.ipv4", "prefix length is missing"),
            ("ipv4 = [\"10.1.0.1/24\"]\nmac = \"x\"", "ports.mac", "x"),
            ("ipv4 = [\"10.1.0.1/24\"]\ngateway = \"10.1.0.2\"", "gateway", "did you mean `gateway4`?"),
            ("ipv4 = [\"10.1.0.1/24\"]\npool_frames = 7", "pool_frames", "unknown field"),
        ] {
            let e = second(lines).unwrap_err();
            assert!(e.contains(place) && e.contains(why), "{lines}: {e}");
        }
        let no_port = parse(&format!("{FIRST}[[ports]]\nipv4 = [\"10.1.0.1/24\"]\n")).unwrap_err();
        assert!(no_port.contains("ports.port") && no_port.contains("missing"), "{no_port}");
        let no_first =
            "[interface]\nipv4 = [\"10.0.0.1/24\"]\n[[ports]]\nport = \"mem:x\"\nipv4 = [\"10.1.0.1/24\"]\n";
        let no_first = parse(no_first).unwrap_err();
        assert!(no_first.contains("interface.port") && no_first.contains("missing"), "{no_first}");
        // A network within another is told apart by its longer prefix, and every link has link-local addresses.
        second("ipv4 = [\"10.0.0.9/28\"]").unwrap();
        let local = "ipv4 = [\"10.1.0.1/24\"]\nipv6 = [\"fe80::2/64\"]";
        let first = format!("{FIRST}ipv6 = [\"fe80::1/64\"]\n[[ports]]\nport = \"packet:eth1\"\n{local}");
        parse(&first).unwrap();
        // Engines share interfaces, and nothing else.
        second("ipv4 = [\"10.1.0.1/24\"]\n[daemon]\nengines = 2\n").unwrap();
        let alone = "ipv4 = [\"10.1.0.1/24\"]\n[[ports]]\nport = \"mem:x\"\nipv4 = [\"10.2.0.1/24\"]\n[daemon]\nengines = 2\n";
        let alone = second(alone).unwrap_err();
        assert!(alone.contains("daemon.engines = \"2\"") && alone.contains("one is mem:x"), "{alone}");
        let table = |n: usize| format!("[[ports]]\nport = \"mem:{n}\"\nipv4 = [\"10.1.{n}.1/24\"]\n");
        let many = |n| parse(&format!("{FIRST}{}", (1..n).map(table).collect::<String>()));
        assert_eq!(many(LEGS_MAX).unwrap().all_ports().count(), LEGS_MAX);
        assert!(many(LEGS_MAX + 1).unwrap_err().contains("at most 16 ports"));
    }
}
