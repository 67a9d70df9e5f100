//! Embedded endpoints on ports that are named by a URI: two in this process, or one here and one on another machine.

use crate::awake::settle;
use crate::cpu::{CpuMeter, End};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::messages::driver::{self, RunResult};
use crate::messages::embedded::{EchoServer, EmbeddedClient, Idle, Idling, SERVER_PORT, config_for};
use crate::messages::plan::Over;
use crate::messages::run::Cell;
use crate::messages::{CellInfo, IdleState};
use crate::messages::{MsgWorkload, SystemName};
use crate::run::{Both, Stop, one_end, two_ends, watched};
use crate::talk::At;
use crate::talk::client::{Asked, Peer};
use crate::talk::server::{Desk, Door, beside};
use barewire_client::{Embedded, EmbeddedConfig};
use barewire_measure::Contention;
use std::error::Error;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Any error of a thread, to hand to another.
type AnyError = Box<dyn Error + Send + Sync>;

const CLIENT_IP: &str = "10.77.0.1/24";
const SERVER_IP: &str = "10.77.0.2/24";
/// Requests that a server has room for when its command line says less: its client's window is not known to it.
const SERVER_WINDOW: u32 = 256;

/// An address and how many bits of it name the network: `10.0.0.1/24`. Without a length it is 24 or 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits of the network.
    pub prefix_len: u8,
}

/// Why a text is no [`HostAddress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an address, such as 10.0.0.1/24 or fd00::1/64")]
pub struct BadAddress;

impl FromStr for HostAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<HostAddress, BadAddress> {
        let (ip, len) = text.split_once('/').map_or((text, None), |(ip, len)| (ip, Some(len)));
        let ip: IpAddr = ip.parse().map_err(|_| BadAddress)?;
        let (default, max) = if ip.is_ipv4() { (24, 32) } else { (64, 128) };
        let prefix_len = len.map_or(Ok(default), str::parse).map_err(|_| BadAddress)?;
        if prefix_len > max {
            return Err(BadAddress);
        }
        Ok(HostAddress { ip, prefix_len })
    }
}

/// One embedded endpoint of a run.
#[derive(Clone, Debug)]
pub struct Role {
    /// The port's URI.
    pub port: String,
    /// Our address.
    pub address: HostAddress,
    /// Where packets to other networks go.
    pub gateway: Option<IpAddr>,
    /// What will be sent: sizes memory and tables.
    pub workload: MsgWorkload,
    /// What to do when nothing comes.
    pub idle: Idle,
    /// The core to run on.
    pub core: Option<usize>,
}

impl Role {
    fn open(&self) -> Result<Embedded, AnyError> {
        let mut config: EmbeddedConfig = config_for(&self.port, Ipv4Addr::UNSPECIFIED, &self.workload);
        config.interface.ipv4.clear();
        config.interface.add_address(self.address.ip, self.address.prefix_len);
        self.gateway.into_iter().for_each(|ip| config.interface.set_gateway(ip));
        Ok(Embedded::open(&config)?)
    }
}

/// What this work is called between the ends.
const WORK: &str = "messages";

/// Sends every message back until `stop` says so or the process is [interrupted](crate::interrupt()). Calls `ready` with the
/// port's description when it listens, and `told` first with where its [control connections](At) are.
///
/// # Errors
/// Why the endpoint could not be opened, or why its port no longer works.
pub fn serve(
    role: &Role,
    control: At,
    ready: &mut (dyn FnMut(&str) + Send),
    told: &mut (dyn FnMut(&str) + Send),
    stop: &AtomicBool,
) -> Result<(), BenchError> {
    let workload = MsgWorkload { window: role.workload.window.max(SERVER_WINDOW), ..role.workload.clone() };
    let role = Role { workload, ..role.clone() };
    let desk = Desk::new(WORK, role.idle.word()).counting();
    let mut serve = |door: &Door| -> Result<(), AnyError> {
        let endpoint = role.open()?;
        let description = endpoint.stack().port().caps().description.clone();
        let mut server = EchoServer::new(endpoint)?;
        told(&door.open(SocketAddr::new(role.address.ip, SERVER_PORT)));
        ready(&description);
        let mut counted = 0;
        while !stop.load(Ordering::Relaxed) && !interrupted() {
            if server.poll()? == 0 {
                role.idle.idle();
            }
            if server.bytes != counted {
                desk.did(server.bytes - counted);
                counted = server.bytes;
            }
        }
        Ok(())
    };
    let (served, _) = beside(&desk, control, stop, |door| watched(role.core, || serve(door)))
        .map_err(|source| BenchError::Setup { what: "pinning the server", source })?;
    served.map_err(BenchError::Other)
}

/// Opens `role`, connects to `server` and runs its workload once.
fn ask(role: &Role, server: SocketAddr, meter: &CpuMeter) -> Result<RunResult, BenchError> {
    let ask = || -> Result<RunResult, AnyError> {
        meter.joins(End::Client);
        let client = EmbeddedClient::connect(role.open()?, server, role.workload.connections, None)?;
        Ok(meter.run(&mut Idling { client: &mut { client }, idle: role.idle }, &role.workload)?)
    };
    ask().map_err(BenchError::Other)
}

/// A client here, its server on another machine: a [`Cell`].
pub struct RemoteCell {
    role: Role,
    server: SocketAddr,
    asked: Asked,
    info: CellInfo,
}

impl RemoteCell {
    /// The client `role` of the server at `server`, whose control connections are at `control`.
    pub fn new(
        role: Role,
        server: SocketAddr,
        control: At,
        idle_state: IdleState,
        command: String,
    ) -> RemoteCell {
        let name = SystemName {
            system: "barewire".to_owned(),
            mode: "embedded".to_owned(),
            over: role.port.clone(),
            idle: None,
        };
        let info = CellInfo { name, workload: role.workload.clone(), idle_state, command };
        let (work, waits) = (WORK.to_owned(), role.idle.word().to_owned());
        let asked = Asked { at: control, measured: server, work, waits, missing: None };
        RemoteCell { role, server, asked, info }
    }
}

impl Cell for RemoteCell {
    fn info(&self) -> &CellInfo {
        &self.info
    }

    fn run(&mut self, _round: u32) -> Result<RunResult, BenchError> {
        self.info.workload.validate().map_err(driver::DriverError::from)?;
        let cores: Vec<usize> = self.role.core.into_iter().collect();
        let awake = settle(self.info.idle_state, &cores)?;
        let watch = Contention::start().threads(1);
        // Before the port is open: over one that takes this machine's address nobody answers then.
        let meter = CpuMeter::with_peer(Peer::open(&mut self.asked).0);
        let (mut result, switches) = one_end(self.role.core, || ask(&self.role, self.server, &meter))?;
        self.asked.remember(result.other_end.as_ref());
        result.contention = awake.judged(watch.finish(), &[switches]).reasons;
        Ok(result)
    }
}

/// Two endpoints of this process on a named pair of ports, such as `unix` or `fault+mem`: a [`Cell`].
pub struct PairCell {
    over: Over,
    options: String,
    idle: Idle,
    cores: Option<(usize, usize)>,
    info: CellInfo,
}

/// A folder for socket files, removed on drop.
pub(crate) struct SocketFolder(PathBuf);

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Distinguishes the pairs of one process.
static PAIRS: AtomicU32 = AtomicU32::new(0);

/// The URIs of a fresh pair of `over` ports with `options`, and what has to live as long as it does.
pub(crate) fn pair_uris(over: &Over, options: &str) -> io::Result<([String; 2], Option<SocketFolder>)> {
    let name = format!("barewire-bench-{}-{}", std::process::id(), PAIRS.fetch_add(1, Ordering::Relaxed));
    let question = if options.is_empty() { "" } else { "?" };
    let uri = |target: &str| format!("{over}:{target}{question}{options}");
    if over.scheme() != "unix" {
        return Ok(([uri(&name), uri(&name)], None));
    }
    let folder = SocketFolder(std::env::temp_dir().join(name));
    fs::create_dir(&folder.0)?;
    let file = |name: &str| folder.0.join(name).display().to_string();
    let (a, b) = (file("a"), file("b"));
    Ok(([uri(&format!("{a},{b}")), uri(&format!("{b},{a}"))], Some(folder)))
}

impl PairCell {
    /// `workload` over a pair of `over` ports, with `options` behind the `?` of both URIs. `cores`: client's and server's.
    pub fn new(
        over: Over,
        options: &str,
        idle: Idle,
        cores: Option<(usize, usize)>,
        workload: MsgWorkload,
        idle_state: IdleState,
        command: String,
    ) -> PairCell {
        let name = SystemName {
            system: "barewire".to_owned(),
            mode: "embedded".to_owned(),
            over: over.as_str().to_owned(),
            idle: None,
        };
        PairCell {
            over,
            options: options.to_owned(),
            idle,
            cores,
            info: CellInfo { name, workload, idle_state, command },
        }
    }

    fn role(&self, port: &str, address: &str) -> Result<Role, BenchError> {
        Ok(Role {
            port: port.to_owned(),
            address: address.parse().map_err(|error: BadAddress| BenchError::Other(error.into()))?,
            gateway: None,
            workload: self.info.workload.clone(),
            idle: self.idle,
            core: None,
        })
    }
}

impl Cell for PairCell {
    fn info(&self) -> &CellInfo {
        &self.info
    }

    fn run(&mut self, _round: u32) -> Result<RunResult, BenchError> {
        self.info.workload.validate().map_err(driver::DriverError::from)?;
        let cores: Vec<usize> = self.cores.map_or(vec![], |(a, b)| vec![a, b]);
        let awake = settle(self.info.idle_state, &cores)?;
        let watch = Contention::start().threads(2);
        let ([ours, theirs], _folder) =
            pair_uris(&self.over, &self.options).map_err(BenchError::io("a folder for sockets"))?;
        let (client, server) = (self.role(&ours, CLIENT_IP)?, self.role(&theirs, SERVER_IP)?);
        let at = SocketAddr::new(server.address.ip, SERVER_PORT);
        let meter = CpuMeter::new(&cores);
        let answer = |stop: Stop<'_>| {
            meter.joins(End::Server);
            serve(&server, At::Nowhere, &mut |_| stop.ready(), &mut |_| {}, stop.flag())
        };
        let Both { client: mut result, switches, .. } =
            two_ends(None, self.cores, || ask(&client, at, &meter), answer)?;
        result.contention = awake.judged(watch.finish(), &switches).reasons;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_seen;
    use barewire_base::Duration;

    const SHORT: Duration = Duration::from_millis(150);

    #[test]
    fn addresses_carry_their_network() {
        let parse = |text: &str| text.parse::<HostAddress>().map(|a| (a.ip.to_string(), a.prefix_len));
        assert_eq!(parse("10.0.0.1"), Ok(("10.0.0.1".into(), 24)));
        assert_eq!(parse("10.0.0.1/8"), Ok(("10.0.0.1".into(), 8)));
        assert_eq!(parse("fd00::1"), Ok(("fd00::1".into(), 64)));
        for bad in ["10.0.0.1/33", "10.0.0", "fd00::1/129", "10.0.0.1/", "", "/24", "10.0.0.1/-1"] {
            assert_eq!(parse(bad), Err(BadAddress), "{bad}");
        }
    }

    fn run(over: &str, options: &str, duration: Duration) -> Result<RunResult, BenchError> {
        let workload = MsgWorkload {
            window: 4,
            size: 3000,
            verify: true,
            duration,
            warmup: Duration::from_millis(20),
            ..MsgWorkload::default()
        };
        let over = over.parse().unwrap();
        PairCell::new(over, options, Idle::Yield, None, workload, IdleState::Warm, String::new()).run(0)
    }

    #[test]
    fn messages_cross_socket_files_and_a_faulty_link_whole() {
        for (over, options) in [("unix", ""), ("fault+mem", "loss=0.01&duplicate=0.01&reorder=0.01&seed=7")] {
            let counts_of = |duration| {
                let counts = run(over, options, duration).unwrap_or_else(|e| panic!("{over}: {e}")).counts;
                assert_eq!(counts.mismatches, 0, "{over}");
                counts
            };
            let counts = until_seen(SHORT, counts_of, |counts| counts.completed > 0);
            assert!(counts.completed > 0, "{over}: {counts:?}");
        }
        let left = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let ours = format!("barewire-bench-{}-", std::process::id());
        assert_eq!(left.filter(|e| e.file_name().to_string_lossy().starts_with(&ours)).count(), 0);
    }

    #[test]
    fn a_slip_in_the_options_is_told() {
        let why = match run("fault+mem", "los=0.1", SHORT) {
            Ok(_) => panic!("must be refused"),
            Err(error) => error.to_string(),
        };
        assert!(why.contains("did you mean `loss`?"), "{why}");
    }
}
