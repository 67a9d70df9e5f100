//! `barewire switch run`: a program on ports.

use super::choose::{Choice, Hook, Wanted};
use super::serve::{Plan, base, serve};
use super::source::SourceArgs;
use super::watch::Watch;
use super::{load, prepare_deferred};
use crate::console::Console;
use crate::failure::{Code, Failure};
use barewire_engine::IdleStrategy;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::pre::PreLimits;
use barewire_switch_control::p4runtime::GrpcOptions;
use barewire_switch_control::p4runtime::message::ForwardingPipelineConfig;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
A port is NUMBER@URI, such as 1@xdp:eth1, or NUMBER@INTERFACE, which uses the best port that the interface allows.
  barewire switch run programs/simple_router.p4 -i 1@eth1 -i 2@eth2
  barewire switch cli --thrift-port 9090")]
pub struct Args {
    /// The program: P4 source (`.p4`), or JSON as p4c's bmv2 back end writes it
    #[arg(required_unless_present = "no_p4")]
    program: Option<PathBuf>,
    /// A port
    #[arg(short, long = "interface", value_name = "NUMBER@PORT", value_parser = port)]
    interface: Vec<(u32, String)>,
    /// Start without a program; a controller will push one
    #[arg(long, conflicts_with = "program")]
    no_p4: bool,
    /// Thrift port; 0 disables Thrift
    #[arg(long, default_value_t = 9090)]
    thrift_port: u16,
    /// Address of the Thrift server
    #[arg(long, default_value = "127.0.0.1")]
    thrift_ip: IpAddr,
    /// Address of the P4Runtime and gNMI server, such as 127.0.0.1:9559
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<SocketAddr>,
    /// The program's P4Info (text form), so that a controller need not push it; P4 source needs none
    #[arg(long, value_name = "FILE", requires = "grpc")]
    p4info: Option<PathBuf>,
    /// Reload the program when its files change, without losing packets; tables start empty. On errors, show them and keep the old program
    #[arg(long, conflicts_with = "no_p4")]
    watch: bool,
    /// Device id in P4Runtime
    #[arg(long, default_value_t = 0)]
    device_id: u64,
    /// Which engine runs the program
    #[arg(long, value_enum, default_value = "native")]
    engine: Wanted,
    /// Hook for the program in the kernel
    #[arg(long, value_enum, default_value = "auto")]
    hook: Hook,
    /// Engines that share the ports' frames (packet:IF?fanout=...)
    #[arg(long, default_value_t = 1)]
    engines: usize,
    /// Cores to pin engines to, in order
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    /// Idle strategy: spin, yield, park, park:50us
    #[arg(long, default_value_t)]
    idle: IdleStrategy,
    /// Egress port that means drop
    #[arg(long, default_value_t = 511)]
    drop_port: u32,
    /// The port whose packets go to the controller
    #[arg(long)]
    cpu_port: Option<u32>,
    /// Queues of each port
    #[arg(long, default_value_t = 1)]
    priority_queues: usize,
    /// Programs may be swapped by load_new_config_file and swap_configs
    #[arg(long)]
    enable_swap: bool,
    /// Write what passes each port to files in this folder
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    pcap: Option<PathBuf>,
    /// Restore a state that serialize_state wrote
    #[arg(long, value_name = "FILE")]
    restore_state: Option<PathBuf>,
    /// Frames of each engine's pool
    #[arg(long, default_value_t = 16_384)]
    pool_frames: u32,
    /// Bytes of a frame, headroom included: 2048, 4096 … 65536
    #[arg(long, default_value_t = 4096)]
    frame_bytes: u32,
    /// Pass large TCP segments whole (GSO) through packet: ports; for programs that compute no checksum over payloads
    #[arg(long)]
    gso: bool,
    /// Name of the counters page, for `barewire stat`
    #[arg(long, default_value = "switch")]
    name: String,
    #[command(flatten)]
    metrics: crate::verb::metrics::Endpoint,
    /// Report drops as they happen
    #[arg(long)]
    follow: bool,
    /// Multicast groups at most
    #[arg(long, default_value_t = 4096)]
    max_mc_groups: usize,
    /// Level 1 replication nodes at most
    #[arg(long, default_value_t = 4096)]
    max_l1_entries: usize,
    /// Level 2 replication nodes at most
    #[arg(long, default_value_t = 8192)]
    max_l2_entries: usize,
    #[command(flatten)]
    source: SourceArgs,
}

/// `1@xdp:eth1`.
///
/// # Errors
/// In words.
pub fn port(text: &str) -> Result<(u32, String), String> {
    let (number, uri) = text
        .split_once('@')
        .ok_or_else(|| format!("'{text}': a port is NUMBER@URI, such as 1@xdp:eth1 or 1@eth1"))?;
    let number = number.parse().map_err(|_| format!("'{number}' is not a port number"))?;
    if uri.is_empty() {
        return Err(format!("'{text}' names no interface"));
    }
    Ok((number, uri.to_owned()))
}

/// Runs it until a signal comes.
///
/// # Errors
/// What was refused or could not be opened.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    if args.hook != Hook::Auto && !matches!(args.engine, Wanted::Auto | Wanted::Kernel) {
        return Err(Failure::new(Code::Usage, "--hook is for programs in the kernel")
            .hint("--engine kernel")
            .into());
    }
    let options = args.source.options();
    let program = match &args.program {
        Some(path) if args.engine == Wanted::Auto || !args.watch => Some(load(path, &options, console)?),
        _ => None,
    };
    let choice = Choice { ports: &args.interface, engines: args.engines, drop_port: args.drop_port };
    let engine = choice.engine(args.engine, program.as_ref(), console);
    let (prepared, watch) = match &args.program {
        Some(path) if args.watch => {
            let (watch, prepared) = Watch::start(path.clone(), options, engine, console)?;
            (Some(prepared), Some(watch))
        }
        _ => (program.map(|program| prepare_deferred(&program, engine, console)).transpose()?, None),
    };
    let target = TargetConfig {
        drop_port: args.drop_port,
        cpu_port: args.cpu_port,
        priorities: args.priority_queues.clamp(1, 256),
        replication: PreLimits {
            groups: args.max_mc_groups,
            nodes: args.max_l1_entries,
            l2_nodes: args.max_l2_entries,
        },
        pass_offloads: args.gso,
        hook: args.hook.into(),
    };
    let mut server = base(target, args.device_id);
    server.engines = args.engines;
    server.cores.clone_from(&args.cores);
    server.idle = args.idle;
    server.ports.clone_from(&args.interface);
    server.capture.clone_from(&args.pcap);
    server.pool.frames = args.pool_frames;
    server.pool.chunk_len = if args.gso { 65_536 } else { args.frame_bytes };
    if args.gso {
        server.pool.frames = server.pool.frames.min(4096);
    }
    server.control.enable_swap = args.enable_swap;
    server.control.engine = engine;
    let mut grpc_options = GrpcOptions { device_id: args.device_id, ..GrpcOptions::default() };
    match (&args.p4info, &args.program, &prepared) {
        (Some(path), Some(_), Some(prepared)) => {
            grpc_options.config = Some(super::simple::pipeline_config(path, &prepared.program.source)?);
        }
        (Some(_), ..) => return Err(Failure::new(Code::Usage, "--p4info needs a program").into()),
        // Source says itself what a P4Info file would.
        (None, Some(path), Some(prepared)) if args.grpc.is_some() && super::is_source(path) => {
            grpc_options.config =
                super::source::p4info(path, &args.source.options()).map(|info| ForwardingPipelineConfig {
                    p4info: Some(info),
                    p4_device_config: prepared.program.source.as_bytes().to_vec(),
                    cookie: None,
                });
        }
        _ => {}
    }
    let plan = Plan {
        prepared,
        server,
        thrift: (args.thrift_port != 0).then(|| SocketAddr::new(args.thrift_ip, args.thrift_port)),
        grpc: args.grpc,
        grpc_options,
        restore: args.restore_state.clone(),
        name: Some(args.name.clone()),
        metrics: args.metrics,
        follow: args.follow,
        later: None,
        watch,
    };
    serve(plan, console)
}
