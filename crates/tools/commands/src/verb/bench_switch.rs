//! `barewire bench switch`: the P4 switch.

use super::measured::{self, Ended, MeasuredOutputArgs, State, warn_of_debug_build};
use super::searching::{self, Asked, SearchArgs};
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use crate::signals;
use barewire_base::Duration;
use barewire_bench::render::table;
use barewire_bench::row::Row;
use barewire_bench::search::frames;
use barewire_bench::switch::mem::{MemCell, Rig};
use barewire_bench::switch::plan::{Baseline, Baselines, Over, Request, Test};
use barewire_bench::switch::program::{Source, tell_apart};
use barewire_bench::switch::workload::{Masks, Spec};
use barewire_bench::switch::{Told, count};
use barewire_engine::IdleStrategy;
use barewire_measure::allowed_cores;
use barewire_report::run::HardwareClass;
use barewire_switch::prepared::EngineKind;
use clap::ValueEnum;
use std::ffi::OsString;

/// Arguments.
#[derive(clap::Args)]
#[command(
    next_help_heading = "Workload",
    after_help = "\
Over `mem` and `pcap` the switch runs alone, and every packet is compared with the expected one: a wrong one voids the row. Over \
`xdp` and `packet`, two hosts with a switch between them are created for the run and removed, which needs root and `ip`. All systems \
take turns, run by run.

  barewire bench switch --over mem --program simple_router --size 64 --entries 1,1000,1000000
  barewire bench switch --over mem --program acl --masks 64,all --entries 10,1000,10000
  barewire bench switch --over pcap --baseline bmv2
  barewire bench switch --over xdp,packet --baseline bridge,bmv2 --gso --seconds 5
  barewire bench switch --engine native,kernel --over xdp --baseline bridge --offloads off,on
  barewire bench switch --engine native,kernel --over mem,test-run --program simple_router,acl"
)]
pub struct Args {
    /// Where the switch is measured: mem, pcap, xdp, packet, test-run (programs in the kernel, alone); several with commas
    #[arg(long, value_delimiter = ',', default_value = "mem")]
    over: Vec<Over>,
    /// Programs: simple_router, ecmp_router, acl, many_tables, deep_headers, or a file of P4 source or bmv2 JSON; several with commas
    #[arg(long, value_delimiter = ',', default_value = "simple_router", value_name = "NAME|FILE")]
    program: Vec<Source>,
    /// Engines: native, interpreter, kernel (over xdp and test-run); several with commas
    #[arg(long, value_delimiter = ',', default_value = "native")]
    engine: Vec<EngineKind>,
    /// Bytes of a packet without FCS, 60 to 1518; several with commas
    #[arg(long, value_delimiter = ',', default_value = "64")]
    size: Vec<u32>,
    /// Entries of the table under test; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    entries: Vec<u32>,
    /// Distinct masks of acl's rules: a number, or `all` for one each; several with commas
    #[arg(long, value_delimiter = ',', default_value = "64")]
    masks: Vec<Masks>,
    /// Distinct packets [default: as many as entries, from 1024 to 32768]
    #[arg(long)]
    flows: Option<u32>,
    /// Measured time of a run; between hosts of its TCP part
    #[arg(long, default_value = "3", value_parser = measured::seconds)]
    seconds: Duration,
    /// Runs of each system
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Packets of the capture to replay over pcap
    #[arg(long, default_value_t = 1_000_000)]
    packets: u64,
    /// Baselines: bridge, routing, bmv2, all, none; several with commas. Between hosts, the direct wire and a copying loop are always measured
    #[arg(long, value_delimiter = ',', help_heading = "Baselines")]
    baseline: Vec<Baselines>,
    /// Traffic between hosts: tcp, udp, latency, paced; several with commas [default: all]
    #[arg(long, value_delimiter = ',')]
    tests: Vec<Test>,
    /// iperf beside our own TCP stream
    #[arg(long, help_heading = "Baselines")]
    iperf: bool,
    /// Offloads of the hosts (off in bmv2's own benchmark): on, off, or both with a comma
    #[arg(long, value_enum, value_delimiter = ',', default_value = "off")]
    offloads: Vec<Switched>,
    /// GRO at the hosts, which then poll: with --engine kernel --over xdp, programs stand in the driver
    #[arg(long)]
    gro: bool,
    /// Rows with offloads on, too: unsegmented frames pass our packet: ports whole
    #[arg(long)]
    gso: bool,
    /// Idle strategy of barewire's engine between hosts: spin, yield, park, park:20us
    #[arg(long, default_value = "park", help_heading = "Cores")]
    idle: IdleStrategy,
    /// State of the cores between hosts: warm keeps them awake where the machine can, cold leaves them alone
    #[arg(long, value_enum, default_value = "warm", help_heading = "Cores")]
    idle_state: State,
    /// Options of our ports between hosts, as after the `?` of a URI: 'attach=native'
    #[arg(long, default_value = "", hide_default_value = true)]
    options: String,
    /// Core of the thread that measures mem and pcap, or `none` [default: the first]
    #[arg(long, alias = "cores", value_parser = one_core, help_heading = "Cores")]
    core: Option<OneCore>,
    /// Count instructions per packet over mem with callgrind (valgrind), which takes a while
    #[arg(long)]
    count: bool,
    /// Seed of rules and packets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    output: MeasuredOutputArgs,
    /// What `--count` runs under callgrind: so many packets, nothing else
    #[arg(long, hide = true, value_name = "PACKETS")]
    counted_packets: Option<u64>,
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switched {
    /// As the kernel has them
    On,
    /// No checksum or segmentation offload
    Off,
}

/// A core, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OneCore(Option<usize>);

fn one_core(text: &str) -> Result<OneCore, String> {
    match (text, text.parse()) {
        ("none", _) => Ok(OneCore(None)),
        (_, Ok(core)) => Ok(OneCore(Some(core))),
        _ => Err("expected the number of a core, or `none`".to_owned()),
    }
}

impl Args {
    fn request(&self, core: Option<usize>, command: String) -> Request {
        Request {
            overs: self.over.clone(),
            programs: tell_apart(self.program.clone()),
            engines: self.engine.clone(),
            sizes: self.size.clone(),
            entries: self.entries.clone(),
            masks: self.masks.clone(),
            flows: self.flows,
            seconds: self.seconds,
            runs: self.runs,
            packets: self.packets,
            baselines: self.baselines(),
            tests: self.tests.clone(),
            iperf: self.iperf,
            offloads: !self.offloads.contains(&Switched::Off),
            gso: self.gso
                || (self.offloads.contains(&Switched::Off) && self.offloads.contains(&Switched::On)),
            gro: self.gro,
            idle: self.idle,
            idle_state: self.idle_state.into(),
            options: self.options.clone(),
            core,
            seed: self.seed,
            command,
        }
    }

    /// Each once.
    fn baselines(&self) -> Vec<Baseline> {
        let mut all = Vec::new();
        for &baseline in self.baseline.iter().flat_map(|some| &some.0) {
            if !all.contains(&baseline) {
                all.push(baseline);
            }
        }
        all
    }

    fn spec(&self) -> Option<Spec> {
        Some(Spec {
            size: *self.size.first()?,
            entries: *self.entries.first()?,
            masks: *self.masks.first()?,
            flows: self.flows,
            seed: self.seed,
        })
    }

    /// The arguments with which this program counts the packets of a row.
    fn child(&self, row: &Row, packets: u64) -> Vec<OsString> {
        let param = |key: &str, else_: &str| row.param(key).unwrap_or_else(|| else_.to_owned());
        let named = |source: &&Source| Some(&source.name) == row.param("program").as_ref();
        let program = self.program.iter().find(named).map_or("", |source| &source.typed);
        let mut out: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: String| out.extend([name.into(), value.into()]);
        add("--program", program.to_owned());
        add("--engine", row.subject.engine.clone().unwrap_or_default());
        for (option, key, else_) in [
            ("--size", "size", "64"),
            ("--entries", "entries", "1"),
            ("--masks", "masks", "64"),
            ("--flows", "flows", "1"),
        ] {
            add(option, param(key, else_));
        }
        add("--seed", self.seed.to_string());
        add("--counted-packets", packets.to_string());
        let mut all: Vec<OsString> = ["bench", "switch", "--over", "mem"].map(OsString::from).to_vec();
        all.append(&mut out);
        all
    }
}

/// The core to pin to: the one asked for, else the first that is allowed.
fn core(asked: Option<OneCore>) -> anyhow::Result<Option<usize>> {
    let allowed = allowed_cores().unwrap_or_default();
    match asked {
        None => Ok(allowed.first().copied()),
        Some(OneCore(None)) => Ok(None),
        Some(OneCore(Some(core))) if allowed.contains(&core) => Ok(Some(core)),
        Some(OneCore(Some(core))) => {
            Err(Failure::new(Code::Unfit, format!("this process may not run on core {core}")).into())
        }
    }
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    if let (Some(packets), Some(spec)) = (args.counted_packets, args.spec()) {
        return counted(args, spec, packets);
    }
    warn_of_debug_build(console);
    signals::catch()?;
    let core = core(args.core)?;
    args.request(core, String::new()).check().map_err(measured::of_bench)?;
    let asked = args.search.asked()?;
    let mut results = args.output.begin(console);
    let command = results.fingerprint().run.command_line.clone();
    let request = args.request(core, command.clone());
    if let Some(Asked { kind, goals, range }) = asked {
        let asked = frames::Request { kind, goals, range, command };
        let (rows, failed) =
            request.search(&asked, &mut |system, line| searching::tell(console, system, line));
        let failures: Vec<anyhow::Error> = failed.into_iter().map(measured::of_bench).collect();
        return searching::finish(&rows, &failures, &args.output, results, "switch-search", console);
    }
    let mut ticker = console.ticker(request.planned_time());
    ticker.part("", request.planned_time());
    let so_far = args.output.so_far("switch", &results, HardwareClass::OneMachine);
    let keep = &mut |rows: &[Row]| so_far.keep(rows);
    let (mut rows, failed) = request.run(Told { tell: &mut |line| ticker.step(&line), keep });
    drop(ticker);
    let mut failures: Vec<anyhow::Error> = failed.into_iter().map(measured::of_bench).collect();
    if args.count {
        failures.extend(count_rows(args, &mut rows, console).err());
    }
    results.add(&rows)?;
    let text = || table(&rows);
    args.output.end(&results, "switch", HardwareClass::OneMachine, &[], console, text)?;
    so_far.end();
    Ok(Ended::default().and(&rows).conclude(&failures, console))
}

/// Instructions per packet of each row over memory.
fn count_rows(args: &Args, rows: &mut [Row], console: &Console) -> anyhow::Result<()> {
    if !count::available() {
        return Err(Failure::new(Code::Unfit, "`--count` needs valgrind, which is not on the PATH")
            .hint("Debian, Ubuntu: apt-get install valgrind")
            .into());
    }
    let in_memory = |row: &&mut Row| row.subject.over.as_deref() == Some("mem") && row.void.is_none();
    for row in rows.iter_mut().filter(in_memory) {
        console.tell(&format!("counting instructions: {}", row.subject.title()));
        let instructions = count::instructions_per_packet(&|packets| args.child(row, packets));
        row.set("instructions_per_packet", instructions.map_err(measured::of_bench)?);
    }
    Ok(())
}

/// What runs under callgrind.
fn counted(args: &Args, spec: Spec, packets: u64) -> anyhow::Result<Code> {
    let (Some(source), Some(&engine)) = (args.program.first(), args.engine.first()) else {
        return Ok(Code::Usage);
    };
    let mut rig =
        Rig::build(&MemCell { source: source.clone(), engine, spec }).map_err(measured::of_bench)?;
    let got = rig.count(packets);
    print(&format!("{got} packets"))?;
    Ok(if got >= packets { Code::Done } else { Code::Void })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_numbers_or_none() {
        assert_eq!(one_core("3"), Ok(OneCore(Some(3))));
        assert_eq!(one_core("none"), Ok(OneCore(None)));
        assert!(one_core("first").is_err());
        assert!(core(Some(OneCore(Some(100_000)))).is_err());
        assert_eq!(core(Some(OneCore(None))).unwrap(), None);
    }
}
