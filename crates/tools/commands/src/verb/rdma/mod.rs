//! `barewire rdma`: RDMA connections over RoCEv2 without RDMA hardware: a server and its clients.

pub mod connect;
pub mod perf;
pub mod ping;
pub mod serve;

use crate::console::Console;
use crate::failure::{Code, Failure};
use barewire_base::Duration;
use barewire_bench::ControlAt;
use barewire_bench::messages::pair::HostAddress;
use barewire_bench::rdma::plan::Baseline;
use barewire_engine::IdleStrategy;
use barewire_rdma_tools::{RPING_PORT, RcError, Target};
use barewire_roce::Mtu;
use barewire_verbs::DeviceConfig;
use barewire_wire::MacAddr;
use clap::{Subcommand, ValueEnum};
use std::net::IpAddr;

/// What to do with RDMA connections.
#[derive(Subcommand)]
pub enum Rc {
    /// Serve `rping`, and the clients below
    Serve(Box<serve::Args>),
    /// Send data to `rping -s` or `rdma serve` and back, and compare every byte
    Ping(Box<ping::Args>),
    /// Open and close connections, and time them
    Connect(Box<connect::Args>),
    /// Time sends, writes, reads and atomics to the memory of `rdma serve`
    Perf(Box<perf::Args>),
}

/// Runs it.
///
/// # Errors
/// What the verb could not do.
pub fn run(rc: &Rc, console: &Console) -> anyhow::Result<Code> {
    match rc {
        Rc::Serve(args) => serve::run(args, console),
        Rc::Ping(args) => ping::run(args, console),
        Rc::Connect(args) => connect::run(args, console),
        Rc::Perf(args) => perf::run(args, console),
    }
}

/// Our own port and addresses.
#[derive(clap::Args)]
pub struct PortArgs {
    /// The port, such as xdp:eth0, unix:MINE.sock,THEIRS.sock, mem:NAME, fault+xdp:eth0?loss=0.01&seed=7
    #[arg(long, value_name = "URI", required = true)]
    port: Option<String>,
    /// This end's address with prefix, such as 10.77.0.1/24 or fd00::1/64; repeat --address for more
    #[arg(long, value_name = "ADDRESS[/BITS]", required = true)]
    address: Vec<HostAddress>,
    /// Gateway to other networks
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<IpAddr>,
    /// This end's MAC address [default: the interface's, or a random one]
    #[arg(long, value_name = "MAC")]
    mac: Option<MacAddr>,
    /// VLAN id
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    /// Path MTU: 256, 512, 1024, 2048 or 4096 bytes of payload [default: the most that the port carries]
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    mtu: Option<Mtu>,
    /// ACK time-out of connections opened here: 4.096 us * 2^CODE (14: 67 ms)
    #[arg(long, value_name = "CODE", default_value_t = 14, value_parser = clap::value_parser!(u8).range(1..=31))]
    ack_timeout: u8,
    /// Idle strategy: spin, yield, park, park:50us
    #[arg(long, value_name = "HOW", default_value = "park")]
    idle: IdleStrategy,
}

/// What runs in the place of ours.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InPlace {
    /// Ours, over --port
    None,
    /// The kernel's connect, accept and close
    KernelTcp,
}

/// The baseline that was asked for; `None` is ours, which needs a port.
fn baseline(asked: Option<InPlace>, port: &PortArgs) -> anyhow::Result<Option<Baseline>> {
    match asked {
        Some(InPlace::KernelTcp) => Ok(Some(Baseline::KernelTcp)),
        None | Some(InPlace::None) if port.port.is_none() || port.address.is_empty() => {
            let why = "without a baseline `--port` and `--address` are needed";
            Err(Failure::new(Code::Usage, why).hint("such as: --port xdp:eth0 --address 10.77.0.1/24").into())
        }
        None | Some(InPlace::None) => Ok(None),
    }
}

fn mtu(text: &str) -> Result<Mtu, String> {
    let known = [Mtu::M256, Mtu::M512, Mtu::M1024, Mtu::M2048, Mtu::M4096];
    let found = known.into_iter().find(|mtu| text.parse() == Ok(mtu.bytes()));
    found.ok_or_else(|| "256, 512, 1024, 2048 or 4096 bytes are expected".to_owned())
}

/// Control connections are one port above that of the connection manager.
fn control(text: &str) -> Result<ControlAt, String> {
    crate::address::control(text, RPING_PORT + 1)
}

impl PortArgs {
    /// Where control connections are: as was asked for, else beside what is measured, where the kernel has its address.
    fn control(&self, asked: Option<ControlAt>, in_place: Option<InPlace>) -> ControlAt {
        let ours = self.port.as_deref().filter(|_| in_place != Some(InPlace::KernelTcp));
        asked.unwrap_or_else(|| ours.map_or(ControlAt::Beside, ControlAt::over))
    }

    /// The device that they describe. Where the kernel takes its place there may be no port: it is not opened.
    fn device(&self) -> DeviceConfig {
        let first = self.address.first().map_or(IpAddr::from([0, 0, 0, 0]), |address| address.ip);
        let mut config = DeviceConfig::new(self.port.as_deref().unwrap_or_default(), first);
        let interface = &mut config.interface;
        (interface.ipv4, interface.ipv6) = (Vec::new(), Vec::new());
        for address in &self.address {
            interface.add_address(address.ip, address.prefix_len);
        }
        self.gateway.into_iter().for_each(|ip| interface.set_gateway(ip));
        (interface.mac, interface.vlan, config.idle) = (self.mac, self.vlan, self.idle);
        config.roce.cm.ack_timeout = self.ack_timeout;
        if let Some(mtu) = self.mtu {
            config.roce.mtu = mtu;
            // A packet and its headers are to fit into one frame, and frames come in powers of two.
            config.pool.chunk_len = config.pool.chunk_len.max(mtu.bytes() * 2);
        }
        config
    }
}

/// The peer.
#[derive(clap::Args)]
pub struct PeerArgs {
    /// The peer: address or name
    #[arg(value_parser = crate::address::host)]
    peer: IpAddr,
    /// The peer's port of the connection manager (rping's default: 7174)
    #[arg(long, short = 'p', value_name = "PORT", default_value_t = RPING_PORT)]
    service_port: u16,
    /// Give up after this many seconds of silence from the peer
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = crate::verb::measured::seconds)]
    patience: Duration,
    #[command(flatten)]
    port: PortArgs,
}

impl PeerArgs {
    fn target(&self) -> Target {
        Target {
            device: self.port.device(),
            peer: self.peer,
            service_port: self.service_port,
            patience: self.patience,
        }
    }
}

/// An error with its code and hint.
fn failure(error: RcError) -> anyhow::Error {
    let code = match &error {
        RcError::Open(_) => return error.into(),
        RcError::Range { .. } => Code::Usage,
        error if error.is_stopped() => Code::Interrupted,
        _ => Code::Failed,
    };
    let failure = Failure::new(code, error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint).into(),
        None => failure.into(),
    }
}
