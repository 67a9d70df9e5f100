//! barewire.toml: what was typed, checked into a plan.
//!
//! ```toml
//! [daemon]
//! idle = "park"                # spin | yield | park | park:50us
//! core = 1                     # pin the engine; default: not pinned
//! applications_max = 64
//! user_applications_max = 48   # of these, those of one user; likewise user_flows_max, user_listeners_max
//!
//! [interface]
//! port = "xdp:eth0"            # any port URI
//! ipv4 = ["10.0.0.1/24"]
//! gateway4 = "10.0.0.254"
//!
//! [[ports]]                    # further ports: flows choose by route
//! port = "xdp:eth1"
//! ipv4 = ["10.1.0.1/24"]
//!
//! [security]                   # there at all: flows are encrypted, and peers are known by their keys
//! key = "host.key"             # made by barewire key new; beside this file, or an absolute path
//! require = true               # default; false: peers without a key are talked to in the clear
//!
//! [[security.peer]]            # or: barewire key trust
//! name = "db1"
//! key = "64 hexadecimal digits"
//! addresses = ["10.0.0.2"]     # or networks; none: anywhere
//!
//! [[security.user]]            # there at all: who is not listed, root aside, may neither listen nor connect
//! uid = 1000
//! listen = ["888", "9000-9099"]                             # left out: anywhere
//! connect = [{ to = "10.0.0.0/24", udp_ports = "888" }]     # left out: anywhere
//!
//! [rdma]                       # there at all: applications may use RDMA too
//! queue_pairs = 1024           # of one application, at most
//! unencrypted = false          # true: wanted although security.require is true
//! ```

use crate::applications::COMPLETIONS_MIN;
use crate::ports::{INTERFACE, InterfaceTable, PORTS, PortTable};
use crate::rdma::{OBJECTS_MAX, Quotas};
use crate::security::SecurityTable;
use crate::users::{UserQuotas, UserRules};
use barewire_channel::Geometry;
use barewire_engine::{IdleStrategy, PortSettings};
use barewire_frame::PoolConfig;
use barewire_host::NEIGHBOURS_LIMIT;
use barewire_roce as roce;
use barewire_text::with_nearest_key;
use barewire_transport as transport;
use barewire_wire::MacAddr;
use serde::Deserialize;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// Applications at once, at most.
pub const APPLICATIONS_MAX: u32 = 1024;

/// Neighbours remembered at once, unless asked otherwise.
const NEIGHBOURS_MAX_DEFAULT: usize = 1024;

/// Engines at once, at most: a connection id has four bits for their number.
pub const ENGINES_MAX: u8 = 15;

/// Why a configuration was refused. Prints the place and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind. The parser shows line and column.
    #[error("{path}: {message}")]
    Parse {
        /// Which file.
        path: String,
        /// Line, column and complaint.
        message: String,
    },
    /// A value that cannot be.
    #[error("{key} = {value:?}: {why}")]
    Value {
        /// The key, with its table.
        key: &'static str,
        /// What was written.
        value: String,
        /// Why not.
        why: String,
    },
}

/// A validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the daemon: of its counters page and in messages.
    pub name: String,
    /// The control socket.
    pub socket: PathBuf,
    /// Permissions of the socket's file.
    pub socket_mode: u32,
    /// User ids that may attach; empty: any that can open the socket.
    pub allow_uids: Vec<u32>,
    /// What the engine does when idle.
    pub idle: IdleStrategy,
    /// Engines that share the interfaces, each with a queue of its own: more than one needs `packet:` or `xdp:` ports.
    pub engines: u8,
    /// The first engine's core.
    pub core: Option<usize>,
    /// The cores of all engines, in order; empty: `core` for the first, the others not pinned.
    pub cores: Vec<usize>,
    /// Applications at once.
    pub applications_max: u32,
    /// What the applications of one user may have together.
    pub user: UserQuotas,
    /// The channel an application gets, and the most it may ask for.
    pub channel: Geometry,
    /// The first port, and the host on it.
    pub interface: PortSettings,
    /// Further ports. RDMA is on the first.
    pub ports: Vec<PortSettings>,
    /// Neighbours on each link that are remembered at once, from 1 to 4096: as many as there are peers in use.
    pub neighbours_max: usize,
    /// The frame pool, which has so many frames for each port.
    pub pool: PoolConfig,
    /// Limits and timers of the transport. Its MTU is the ports'.
    pub transport: transport::Config,
    /// RDMA beside messages.
    pub rdma: RdmaConfig,
    /// Where users may listen and connect; empty: anywhere. Otherwise who is not listed, root aside, may nowhere.
    pub rules: HashMap<u32, UserRules>,
    /// The process is this daemon, and tells its service manager (`NOTIFY_SOCKET`) how it is. Default on; off within another program.
    pub is_service: bool,
}

/// RDMA for the daemon's applications.
#[derive(Clone, Debug)]
pub struct RdmaConfig {
    /// Whether there is any. It takes UDP port 4791 of all addresses, and needs `engines` to be 1.
    pub enabled: bool,
    /// Whether that is wanted beside messages that have to be encrypted: RDMA is not.
    pub unencrypted: bool,
    /// What one application may have.
    pub quotas: Quotas,
    /// Timers and terms. Addresses, MAC, VLAN, GUID and limits follow from the rest of the configuration; the MTU is lowered to
    /// what port and frames carry.
    pub roce: roce::Config,
}

impl RdmaConfig {
    fn off() -> RdmaConfig {
        let base = roce::Config::new(MacAddr::ZERO, Ipv4Addr::UNSPECIFIED.into());
        RdmaConfig {
            enabled: false,
            unencrypted: false,
            quotas: Quotas::default(),
            roce: roce::Config { mtu: roce::Mtu::M4096, ..base },
        }
    }

    /// The endpoint's configuration: room for what all applications may have together, so that none can take another's.
    pub(crate) fn endpoint(&self, config: &Config, mac: MacAddr, fits: roce::Mtu) -> roce::Config {
        let all = |each: u32| (each as usize).saturating_mul(config.applications_max as usize);
        let q = &self.quotas;
        let addresses = config.interface.addresses();
        let first = addresses.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let requests = all(q.requests).max(all(q.completions)).min(1 << 30);
        roce::Config {
            mac,
            guid: roce::Config::new(mac, first).guid,
            addresses,
            vlan: config.interface.vlan,
            mtu: self.roce.mtu.min(fits),
            qps_max: all(q.queue_pairs).clamp(1, roce::QPS_MAX),
            // Those that are closed are remembered for a while.
            connections_max: all(q.connections).saturating_mul(2).clamp(1, roce::CONNECTIONS_MAX),
            regions_max: all(q.regions).clamp(1, 1 << 24),
            cqs_max: all(q.completion_queues).clamp(1, 1 << 24),
            requests_max: requests.max(1),
            ..self.roce.clone()
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    daemon: DaemonTable,
    interface: InterfaceTable,
    ports: Vec<PortTable>,
    channel: ChannelTable,
    transport: TransportTable,
    rdma: Option<RdmaTable>,
    security: Option<SecurityTable>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct DaemonTable {
    name: Option<String>,
    socket: Option<PathBuf>,
    socket_mode: Option<String>,
    allow_uids: Vec<u32>,
    idle: Option<String>,
    core: Option<usize>,
    engines: Option<u8>,
    cores: Vec<usize>,
    applications_max: Option<u32>,
    user_applications_max: Option<u32>,
    user_flows_max: Option<u32>,
    user_listeners_max: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct ChannelTable {
    send_mib: Option<u32>,
    recv_mib: Option<u32>,
    requests: Option<u32>,
    completions: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct TransportTable {
    flows_max: Option<u32>,
    send_messages_max: Option<u32>,
    recv_messages_max: Option<u32>,
    recv_window_kib: Option<u32>,
    ack_delay_us: Option<u64>,
    timeout_min_us: Option<u64>,
    dead_after_ms: Option<u64>,
    handshake_timeout_ms: Option<u64>,
    keepalive_ms: Option<u64>,
    keepalive_interval_ms: Option<u64>,
    keepalive_probes: Option<u32>,
    idle_timeout_s: Option<u64>,
    half_open_max: Option<u32>,
    ecn: Option<bool>,
    mtu_discovery: Option<bool>,
    mtu_raise_s: Option<u64>,
    target_queue_us: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RdmaTable {
    enabled: Option<bool>,
    unencrypted: Option<bool>,
    domains: Option<u32>,
    regions: Option<u32>,
    completion_queues: Option<u32>,
    completions: Option<u32>,
    shared_receive_queues: Option<u32>,
    queue_pairs: Option<u32>,
    requests: Option<u32>,
    listeners: Option<u32>,
    connections: Option<u32>,
    mtu: Option<u32>,
}

pub(crate) fn bad(key: &'static str, value: impl ToString, why: impl ToString) -> ConfigError {
    // Whatever stands there may be a key that was pasted into the wrong place.
    ConfigError::Value { key, value: without_keys(&value.to_string()), why: why.to_string() }
}

pub(crate) fn with_prefix<A: std::str::FromStr>(
    key: &'static str,
    text: &str,
    bits: u8,
) -> Result<(A, u8), ConfigError> {
    let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
    let parsed = address.parse().map_err(|_| bad(key, text, "not an address of that family"))?;
    let prefix = match prefix {
        "" => return Err(bad(key, text, "the prefix length is missing: write 10.0.0.1/24")),
        p => p.parse::<u8>().ok().filter(|p| *p <= bits),
    };
    Ok((parsed, prefix.ok_or_else(|| bad(key, text, format!("the prefix length is a number up to {bits}")))?))
}

impl Config {
    /// A configuration with defaults for everything but the port and its address.
    pub fn new(port: &str, ipv4: Ipv4Addr, prefix: u8) -> Config {
        Config {
            name: "barewire".to_owned(),
            socket: barewire_channel::control::socket_path_default(),
            socket_mode: 0o660,
            allow_uids: vec![],
            idle: IdleStrategy::default(),
            engines: 1,
            core: None,
            cores: vec![],
            applications_max: 64,
            user: UserQuotas::default(),
            channel: Geometry::DEFAULT,
            interface: PortSettings::new(port, ipv4, prefix),
            ports: vec![],
            neighbours_max: NEIGHBOURS_MAX_DEFAULT,
            pool: PoolConfig { frames: 8192, ..PoolConfig::default() },
            transport: transport::Config {
                flows_max: 10_240,
                send_messages_max: 65_536,
                recv_messages_max: 65_536,
                ..transport::Config::default()
            },
            rdma: RdmaConfig::off(),
            rules: HashMap::new(),
            is_service: true,
        }
    }

    /// A configuration for the interface with this MAC address, as Machnet's start script takes it: over AF_XDP, with every
    /// destination on-link.
    ///
    /// # Errors
    /// [`ConfigError::Value`] when no interface has the address.
    pub fn for_mac(mac: &str, ip: Ipv4Addr) -> Result<Config, ConfigError> {
        crate::machnet::for_mac(mac, ip)
    }

    /// Reads a file: TOML, or Machnet's JSON when it begins with a brace.
    ///
    /// # Errors
    /// [`ConfigError`], with the place.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: shown.clone(), source })?;
        if text.trim_start().starts_with('{') {
            return crate::machnet::parse(&text, &shown);
        }
        Config::parse(&text, &shown)
    }

    /// Parses TOML; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str, path: &str) -> Result<Config, ConfigError> {
        let file: File = toml::from_str(text).map_err(|e| ConfigError::Parse {
            path: path.to_owned(),
            message: with_nearest_key(&without_keys(&e.to_string())),
        })?;
        let File { daemon, mut interface, ports, channel, transport, rdma, security } = file;
        let (mut all, first) = (Vec::new(), interface.port());
        if ports.is_empty() || !first.is_empty() {
            all.push(first.read(&INTERFACE)?);
        }
        for port in ports {
            all.push(port.read(&PORTS)?);
        }
        let first = all.remove(0);
        let mut config = Config::new("", Ipv4Addr::UNSPECIFIED, 0);
        (config.interface, config.ports) = (first, all);
        set(&mut config.neighbours_max, interface.neighbours_max);
        if !(1..=NEIGHBOURS_LIMIT).contains(&config.neighbours_max) {
            let why = format!("from 1 to {NEIGHBOURS_LIMIT}");
            return Err(bad("interface.neighbours_max", config.neighbours_max, why));
        }
        set(&mut config.pool.frames, interface.pool_frames);
        set(&mut config.pool.chunk_len, interface.chunk_len);
        set(&mut config.pool.huge_pages, interface.huge_pages);

        config.set_daemon(daemon)?;
        config.set_channel(&channel)?;
        config.set_transport(&transport);
        if let Some(rdma) = rdma {
            config.set_rdma(&rdma)?;
        }
        if let Some(security) = security {
            security.apply(&mut config, Path::new(path).parent())?;
        }
        Ok(config)
    }

    /// What hides in a configuration that is valid.
    pub fn warnings(&self) -> Vec<String> {
        let Some(security) = &self.transport.security else { return Vec::new() };
        let clear = security.reached_in_the_clear().map(|peer| {
            format!(
                "flows to peer `{}` are not encrypted: `require` is false and it has no `addresses`; flows from it are",
                peer.name
            )
        });
        clear.collect()
    }

    /// Refuses RDMA, which nobody encrypts, where everything has to be encrypted.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn check_rdma(&self) -> Result<(), ConfigError> {
        let requires = self.transport.security.as_ref().is_some_and(|s| s.require);
        match self.rdma.enabled && requires && !self.rdma.unencrypted {
            true => Err(bad(
                "rdma.unencrypted",
                "false",
                "security.require is true, and RDMA is never encrypted: leave [rdma] out, or set rdma.unencrypted = true",
            )),
            false => Ok(()),
        }
    }

    /// The table `[daemon]`.
    fn set_daemon(&mut self, daemon: DaemonTable) -> Result<(), ConfigError> {
        set(&mut self.name, daemon.name);
        set(&mut self.socket, daemon.socket);
        if let Some(mode) = daemon.socket_mode {
            let digits = mode.trim_start_matches("0o");
            self.socket_mode = u32::from_str_radix(digits, 8)
                .ok()
                .filter(|m| *m <= 0o777)
                .ok_or_else(|| bad("daemon.socket_mode", &mode, "an octal mode such as \"0660\""))?;
        }
        self.allow_uids = daemon.allow_uids;
        if let Some(idle) = daemon.idle {
            self.idle = idle.parse().map_err(|e| bad("daemon.idle", &idle, e))?;
        }
        self.core = daemon.core;
        self.cores = daemon.cores;
        set(&mut self.engines, daemon.engines);
        if self.engines == 0 || self.engines > ENGINES_MAX {
            return Err(bad("daemon.engines", self.engines, format!("from 1 to {ENGINES_MAX}")));
        }
        self.check_ports()?;
        set(&mut self.applications_max, daemon.applications_max);
        if self.applications_max == 0 || self.applications_max > APPLICATIONS_MAX {
            let why = format!("from 1 to {APPLICATIONS_MAX}");
            return Err(bad("daemon.applications_max", self.applications_max, why));
        }
        self.user = UserQuotas {
            applications: daemon.user_applications_max,
            flows: daemon.user_flows_max,
            listeners: daemon.user_listeners_max,
        };
        for (key, value) in [
            ("daemon.user_applications_max", self.user.applications),
            ("daemon.user_flows_max", self.user.flows),
            ("daemon.user_listeners_max", self.user.listeners),
        ] {
            if value == Some(0) {
                return Err(bad(key, 0, "at least 1; leave it out for the default"));
            }
        }
        Ok(())
    }

    /// The table `[channel]`.
    fn set_channel(&mut self, channel: &ChannelTable) -> Result<(), ConfigError> {
        set(&mut self.channel.send_bytes, channel.send_mib.map(|m| m.saturating_mul(1 << 20)));
        set(&mut self.channel.recv_bytes, channel.recv_mib.map(|m| m.saturating_mul(1 << 20)));
        set(&mut self.channel.sq_entries, channel.requests);
        set(&mut self.channel.cq_entries, channel.completions);
        self.channel.check().map_err(|e| bad("channel", format!("{:?}", self.channel), e))?;
        if self.channel.cq_entries < COMPLETIONS_MIN {
            return Err(bad(
                "channel.completions",
                self.channel.cq_entries,
                format!("at least {COMPLETIONS_MIN}"),
            ));
        }
        Ok(())
    }

    /// The table `[transport]`.
    fn set_transport(&mut self, t: &TransportTable) {
        let c = &mut self.transport;
        let us = barewire_base::Duration::from_micros;
        let ms = barewire_base::Duration::from_millis;
        set(&mut c.flows_max, t.flows_max);
        set(&mut c.send_messages_max, t.send_messages_max);
        set(&mut c.recv_messages_max, t.recv_messages_max);
        set(&mut c.recv_window_bytes, t.recv_window_kib.map(|k| k.saturating_mul(1024)));
        set(&mut c.ack_delay, t.ack_delay_us.map(us));
        set(&mut c.timeout_min, t.timeout_min_us.map(us));
        set(&mut c.dead_after, t.dead_after_ms.map(ms));
        set(&mut c.handshake_timeout, t.handshake_timeout_ms.map(ms));
        set(&mut c.keepalive, t.keepalive_ms.map(ms));
        set(&mut c.keepalive_interval, t.keepalive_interval_ms.map(ms));
        set(&mut c.keepalive_probes, t.keepalive_probes);
        set(&mut c.half_open_max, t.half_open_max);
        set(&mut c.ecn, t.ecn);
        set(&mut c.mtu_discovery, t.mtu_discovery);
        set(&mut c.mtu_raise, t.mtu_raise_s.map(barewire_base::Duration::from_secs));
        set(&mut c.congestion.target_queue, t.target_queue_us.map(us));
        c.idle_timeout = t.idle_timeout_s.map(barewire_base::Duration::from_secs);
    }

    /// The table `[rdma]`: its being there is a wish.
    fn set_rdma(&mut self, table: &RdmaTable) -> Result<(), ConfigError> {
        self.rdma.enabled = table.enabled.unwrap_or(true);
        self.rdma.unencrypted = table.unencrypted.unwrap_or(false);
        if self.rdma.enabled && self.engines > 1 {
            let why = "RDMA is served by one engine: leave [rdma] out, or set engines = 1";
            return Err(bad("daemon.engines", self.engines, why));
        }
        let q = &mut self.rdma.quotas;
        for (key, to, value, most) in [
            ("rdma.domains", &mut q.domains, table.domains, 1 << 16),
            ("rdma.regions", &mut q.regions, table.regions, 1 << 20),
            ("rdma.completion_queues", &mut q.completion_queues, table.completion_queues, 1 << 16),
            ("rdma.completions", &mut q.completions, table.completions, 1 << 24),
            (
                "rdma.shared_receive_queues",
                &mut q.shared_receive_queues,
                table.shared_receive_queues,
                1 << 16,
            ),
            ("rdma.queue_pairs", &mut q.queue_pairs, table.queue_pairs, 1 << 20),
            ("rdma.requests", &mut q.requests, table.requests, 1 << 24),
            ("rdma.listeners", &mut q.listeners, table.listeners, 1 << 16),
            ("rdma.connections", &mut q.connections, table.connections, 1 << 20),
        ] {
            let Some(value) = value else { continue };
            if value == 0 || value > most {
                return Err(bad(key, value, format!("from 1 to {most}")));
            }
            *to = value;
        }
        // What is promised to each must be there for all.
        let (q, applications) = (self.rdma.quotas, u64::from(self.applications_max));
        for (key, each, most) in [
            ("rdma.requests", q.requests.into(), 1 << 30),
            ("rdma.completions", q.completions.into(), 1 << 30),
            ("rdma.queue_pairs", q.queue_pairs.into(), roce::QPS_MAX as u64),
            // Those that are closed are remembered for a while.
            ("rdma.connections", q.connections.into(), roce::CONNECTIONS_MAX as u64 / 2),
            ("rdma.regions", q.regions.into(), 1 << 24),
            ("rdma", q.objects(), OBJECTS_MAX as u64),
        ] {
            if each * applications > most {
                let why = format!(
                    "for each of daemon.applications_max = {applications}, and a device has {most}: lower one"
                );
                return Err(bad(key, each, why));
            }
        }
        if let Some(mtu) = table.mtu {
            let known = (1..=5).filter_map(roce::Mtu::from_code).find(|m| m.bytes() == mtu);
            self.rdma.roce.mtu =
                known.ok_or_else(|| bad("rdma.mtu", mtu, "a path MTU: 256, 512, 1024, 2048 or 4096"))?;
        }
        Ok(())
    }

    /// The core of one engine.
    pub(crate) fn core_of(&self, engine: u8) -> Option<usize> {
        self.cores.get(usize::from(engine)).copied().or(self.core.filter(|_| engine == 0))
    }

    /// Our addresses, port by port.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.all_ports().flat_map(PortSettings::addresses).collect()
    }
}

fn set<T>(to: &mut T, from: Option<T>) {
    if let Some(value) = from {
        *to = value;
    }
}

/// Blots out what may be a key: the parser quotes the line that it cannot read.
fn without_keys(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let (before, from) = rest.split_at(at);
        let len = from.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(from.len());
        out.push_str(before);
        match len {
            0..32 => out.push_str(&from[..len]),
            _ => out.extend(std::iter::repeat_n('*', len)),
        }
        rest = &from[len..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_file_is_enough() {
        let c = Config::parse("[interface]\nport = \"xdp:eth0\"\nipv4 = [\"10.0.0.1/24\"]\n", "x").unwrap();
        assert_eq!(c.interface.ipv4, [(Ipv4Addr::new(10, 0, 0, 1), 24)]);
        assert_eq!(c.transport.flows_max, 10_240);
    }

    #[test]
    fn the_table_of_rdma_is_a_wish_with_quotas() {
        let base = "[interface]\nport = \"xdp:eth0\"\nipv4 = [\"10.0.0.1/24\"]\n";
        let parse = |more: &str| Config::parse(&format!("{base}{more}"), "x");
        assert!(!parse("").unwrap().rdma.enabled);
        let c = parse("[rdma]\nqueue_pairs = 7\nconnections = 9\nmtu = 2048\n").unwrap();
        assert!(c.rdma.enabled);
        assert_eq!((c.rdma.quotas.queue_pairs, c.rdma.quotas.connections), (7, 9));
        assert_eq!(c.rdma.quotas.regions, Quotas::default().regions);
        // What the device has room for is what all applications may have together.
        let roce = c.rdma.endpoint(&c, MacAddr([2, 0, 0, 0, 0, 1]), roce::Mtu::M4096);
        assert_eq!((roce.qps_max, roce.connections_max, roce.mtu), (7 * 64, 2 * 9 * 64, roce::Mtu::M2048));
        assert_eq!(roce.requests_max, 64 * c.rdma.quotas.requests.max(c.rdma.quotas.completions) as usize);
        assert!(barewire_roce::Endpoint::new(roce, [0; 16]).is_ok());
        assert!(!parse("[rdma]\nenabled = false\n").unwrap().rdma.enabled);
        for (text, place, why) in [
            ("[rdma]\nregions = 0\n", "rdma.regions", "from 1 to 1048576"),
            ("[rdma]\nmtu = 1500\n", "rdma.mtu", "256, 512"),
            ("[rdma]\nqueue_pair = 5\n", "queue_pair", "did you mean `queue_pairs`?"),
        ] {
            let text = parse(text).unwrap_err().to_string();
            assert!(text.contains(place) && text.contains(why), "{text}");
        }
        let several = "[interface]\nport = \"packet:eth0\"\nipv4 = [\"10.0.0.1/24\"]\n\
                       [daemon]\nengines = 2\n[rdma]\n";
        let text = Config::parse(several, "x").unwrap_err().to_string();
        assert!(text.contains("daemon.engines = \"2\"") && text.contains("one engine"), "{text}");
        // The defaults hold for as many applications as there may be; more has an end, which is said.
        let many = format!("[daemon]\napplications_max = {APPLICATIONS_MAX}\n[rdma]\n");
        let c = parse(&many).unwrap();
        let roce = c.rdma.endpoint(&c, MacAddr([2, 0, 0, 0, 0, 1]), roce::Mtu::M4096);
        assert!(barewire_roce::Endpoint::new(roce, [0; 16]).is_ok());
        for more in ["requests = 16777216", "queue_pairs = 1048576", "connections = 2048", "regions = 524288"]
        {
            let text = parse(&format!("{many}{more}\n")).unwrap_err().to_string();
            assert!(text.contains("applications_max = 1024"), "{text}");
        }
    }

    /// In containers on the host's network every daemon may be the same process, by its number.
    #[test]
    fn engines_share_a_fanout_group_that_other_daemons_have_not() {
        let groups = |address: &str| {
            let config = format!(
                "[interface]\nport = \"packet:eth0\"\n{address}\n[daemon]\nengines = 2\n[transport]\n"
            );
            let config = Config::parse(&config, "x").unwrap();
            [0, 1].map(|engine| config.ports_of(engine, &[]).unwrap()[0].options["fanout"].clone())
        };
        let all: Vec<[String; 2]> = (1..100)
            .map(|n| groups(&format!("ipv4 = [\"10.0.0.{n}/24\"]")))
            .chain((1..100).map(|n| groups(&format!("ipv6 = [\"fd00::{n:x}/64\"]"))))
            .collect();
        assert!(all.iter().all(|[first, second]| first == second));
        for family in all.chunks(99) {
            let different: std::collections::HashSet<&String> = family.iter().map(|g| &g[0]).collect();
            // Of 65,536 numbers two addresses may have one by chance, and hardly ever on one link.
            assert!(different.len() + 2 >= family.len(), "{} of {} groups", different.len(), family.len());
        }
    }

    #[test]
    fn what_is_wrong_is_shown_with_its_place_and_the_right_word() {
        let text =
            "[interface]\nport = \"xdp:eth0\"\nipv4 = [\"10.0.0.1/24\"]\n[transport]\nkeepalive_m = 5\n";
        let e = Config::parse(text, "barewire.toml").unwrap_err().to_string();
        assert!(e.contains("line 5") && e.contains("did you mean `keepalive_ms`?"), "{e}");
        for (line, expect) in [
            ("ipv4 = [\"10.0.0.1\"]", "prefix length is missing"),
            ("ipv4 = [\"10.0.0.1/33\"]", "up to 32"),
            ("ipv4 = [\"nonsense/8\"]", "not an address"),
            ("ipv4 = []", "at least one address"),
            ("ipv4 = [\"10.0.0.1/24\"]\nneighbours_max = 0", "from 1 to 4096"),
            ("ipv4 = [\"10.0.0.1/24\"]\nneighbours_max = 4097", "interface.neighbours_max"),
        ] {
            let e = Config::parse(&format!("[interface]\nport = \"xdp:eth0\"\n{line}\n"), "x")
                .unwrap_err()
                .to_string();
            assert!(e.contains(expect), "{line}: {e}");
        }
        let e =
            Config::parse("[interface]\nport = \"xpd:eth0\"\nipv4 = [\"10.0.0.1/24\"]\n", "x").unwrap_err();
        assert!(e.to_string().contains("xdp"), "{e}");
    }
}
