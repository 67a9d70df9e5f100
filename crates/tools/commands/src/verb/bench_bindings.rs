//! `barewire bench bindings`: the languages of the bindings beside their own TCP sockets, ZeroMQ, gRPC and Aeron.

use super::measured::{self, MeasuredOutputArgs, State, Timing, warn_of_debug_build};
use crate::console::Console;
use crate::failure::{Code, Failure};
use crate::signals;
use barewire_base::Duration;
use barewire_bench::IdleState;
use barewire_bench::bindings::{BindingWorkload, Carrier, Kit, Language, Settings, Wire, compare, missing};
use barewire_bench::run::Workload;
use barewire_engine::IdleStrategy;
use barewire_report::run::HardwareClass;
use clap::ValueEnum;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
#[command(mut_arg("runs", |arg| arg.default_value("3")), after_help = "\
Each language's program is built from the packages of `make dist` and runs at both ends: through a daemon on each host, and over the \
language's own blocking TCP sockets on a second wire of the same kind. Rust's rows are always there. If a language's tools or package are \
missing, its row says so. ZeroMQ (Python), gRPC (Python, Node) and Aeron (Java) are used if the language finds them (python3 imports it, \
NODE_PATH, CLASSPATH with Aeron's jar), and never installed. Over `packet` and `xdp`, two hosts with a link are created for the run and \
removed, which needs root. All systems take turns, run by run.

  barewire bench bindings --languages python,go,node,java,csharp,cpp --json
  barewire bench bindings --languages cpp --over mem --window 1 --seconds 1")]
pub struct Args {
    /// Languages in addition to Rust: python, go, node, java, csharp, cpp; several with commas
    #[arg(long, value_delimiter = ',', default_value = "python,go,node,java,csharp,cpp")]
    languages: Vec<Language>,
    /// Other systems in the same language: tcp, zmq, grpc, aeron; several with commas
    #[arg(long, value_delimiter = ',', default_value = "tcp,zmq,grpc,aeron")]
    beside: Vec<Carrier>,
    /// What lies between the hosts
    #[arg(long, value_enum, default_value_t = Between::Xdp)]
    over: Between,
    /// The folder with the packages
    #[arg(long, value_name = "FOLDER", default_value = "target/dist")]
    packages: PathBuf,
    /// Bytes of a request, and of its response
    #[arg(long, default_value_t = 1024, help_heading = "Workload")]
    size: u32,
    /// Requests in flight; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1,32", help_heading = "Workload")]
    window: Vec<u32>,
    /// Warm-up, in which language runtimes compile
    #[arg(long, default_value = "1", value_parser = measured::seconds, value_name = "SECONDS", help_heading = "Workload")]
    warmup: Duration,
    /// Idle strategy of the daemons: spin, yield, park, park:20us
    #[arg(long, default_value = "yield", help_heading = "Cores")]
    idle: IdleStrategy,
    /// State of the cores
    #[arg(long, value_enum, default_value = "warm", help_heading = "Cores")]
    idle_state: State,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    output: MeasuredOutputArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Between {
    /// Shared memory between the daemons, and loopback for TCP
    Mem,
    /// A pair of interfaces
    Packet,
    /// The same by AF_XDP
    Xdp,
}

impl From<Between> for Wire {
    fn from(between: Between) -> Wire {
        match between {
            Between::Mem => Wire::Mem,
            Between::Packet => Wire::Packet,
            Between::Xdp => Wire::Xdp,
        }
    }
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    if !args.packages.is_dir() && args.languages.iter().any(|language| *language != Language::Rust) {
        let what = format!("no packages: folder {} does not exist", args.packages.display());
        return Err(Failure::new(Code::Unfit, what)
            .hint("`make dist` builds them; or `--packages FOLDER`")
            .into());
    }
    let cores = args.timing.pin(console)?;
    let results = args.output.begin(console);
    let asked = Settings {
        binary: std::env::current_exe().unwrap_or_else(|_| "barewire".into()),
        wire: args.over.into(),
        size: args.size,
        warmup: args.warmup,
        seconds: args.timing.seconds,
        idle: args.idle,
        idle_state: IdleState::from(args.idle_state),
        cores,
        command: results.fingerprint().run.command_line.clone(),
    };
    let hosts = asked.wire.hosts().map_err(measured::of_bench)?;
    let mut kit = Kit::of(&args.packages)?;
    let mut languages = vec![Language::Rust];
    for &language in &args.languages {
        if !languages.contains(&language) {
            languages.push(language);
        }
    }
    let mut absent_languages = Vec::new();
    let (mut workloads, mut absent): (Vec<Box<dyn Workload>>, Vec<_>) = (Vec::new(), Vec::new());
    for &window in &args.window {
        for &language in &languages {
            let wanted = |carrier: &&Carrier| **carrier == Carrier::Barewire || args.beside.contains(carrier);
            for &carrier in Carrier::of(language).iter().filter(wanted) {
                let (hosts, own) = (hosts.as_ref(), asked.clone());
                match BindingWorkload::new(&mut kit, language, carrier, window, hosts, own) {
                    Ok(workload) => workloads.push(Box::new(workload)),
                    Err(why) => {
                        let is_first = Some(&window) == args.window.first();
                        if is_first && carrier == Carrier::Barewire {
                            console.note(&format!("{language} is not measured: {why}"));
                        } else if is_first && carrier != Carrier::Tcp && !absent_languages.contains(&language)
                        {
                            console.note(&format!("{} in {language} is not measured: {why}", carrier.word()));
                        }
                        if carrier == Carrier::Barewire {
                            absent_languages.push(language);
                        }
                        absent.push(missing(language, carrier, window, &asked, &why));
                    }
                }
            }
        }
    }
    drop(hosts);
    measured::run_all_and(
        workloads,
        args.timing.runs,
        &args.output,
        results,
        "bindings",
        HardwareClass::OneMachine,
        console,
        |rows| {
            compare(rows);
            rows.append(&mut absent);
        },
    )
}
