//! `barewire bench rdma`: how fast RDMA connections are made, and what goes over them.

use super::measured::{self, Ended, MeasuredOutputArgs, State, Timing, tables_text, warn_of_debug_build};
use crate::args::Cli;
use crate::console::Console;
use crate::failure::{Code, Failure};
use crate::signals;
use barewire_base::Duration;
use barewire_bench::rdma::data;
use barewire_bench::rdma::live::Over;
use barewire_bench::rdma::plan::{Baseline, Baselines, Request};
use barewire_bench::rdma::render::text_table;
use barewire_bench::render::table;
use barewire_engine::IdleStrategy;
use barewire_rdma_tools::RPING_PORT;
use barewire_report::run::HardwareClass;
use clap::Parser as _;
use std::net::IpAddr;

/// Arguments.
#[derive(clap::Args)]
#[command(
    next_help_heading = "Workload",
    after_help = "\
A connection is a new completion queue and queue pair on each side, REQ, REP, RTU; with teardown DREQ, DREP and everything \
destroyed, too. Each client thread is an engine with its own port, and so is the server, one for each NIC. `mem` needs no privileges; \
hosts on veth pairs are created for the run and removed, which needs root. All rows take turns, run by run.

  barewire bench rdma --over mem --one-thread --window 1,64
  barewire bench rdma --over xdp --window 1,64 --baseline kernel-tcp
  barewire bench rdma --over mem --threads 1,2,4,8,12 --nics 1,2
  barewire bench rdma --over mem --live 1000,1000000 --window 64
  barewire bench rdma --over mem --data

On two machines, which is `rdma serve --accept` and `rdma connect --row`:
  host 1:  barewire bench rdma -s --port xdp:eth0 --address 10.77.0.1/16
  host 2:  barewire bench rdma -c 10.77.0.1 --port xdp:eth0 --address 10.77.1.1/16 --window 64
The same over the kernel's TCP: --baseline kernel-tcp at both ends, and --address at the server."
)]
pub struct Args {
    /// Port between the ends: mem, xdp, packet; several with commas
    #[arg(long, value_delimiter = ',', default_value = "mem")]
    over: Vec<Over>,
    /// Client threads of each host; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    threads: Vec<u32>,
    /// Client hosts; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    hosts: Vec<u32>,
    /// NICs of each machine, taken in turns by the threads: 1, 2; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    nics: Vec<u32>,
    /// Connections in flight of each client thread; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    window: Vec<u32>,
    /// Close each connection, and count that (the default)
    #[arg(long)]
    teardown: bool,
    /// Only open; closing is not counted. With --teardown: both rows
    #[arg(long)]
    no_teardown: bool,
    /// Queue pairs that stay open on each side during the run; several with commas
    #[arg(long, value_delimiter = ',', default_value = "0")]
    live: Vec<u64>,
    /// Client and server in one thread (mem)
    #[arg(long)]
    one_thread: bool,
    /// One completion queue for all connections of an end, instead of one each
    #[arg(long)]
    shared_cq: bool,
    /// Baselines: kernel-tcp (connect, accept, close on the same wires), all, none
    #[arg(long, value_delimiter = ',', help_heading = "Baselines")]
    baseline: Vec<Baselines>,
    /// Also measure data over a connection: 64-byte writes and 1 MB writes
    #[arg(long)]
    data: bool,
    /// Idle strategy of a thread [default: spin on cores of its own, else yield]
    #[arg(long, value_enum, help_heading = "Cores")]
    idle: Option<Idle>,
    /// State of the cores: warm keeps them awake where the machine can, cold leaves them alone
    #[arg(long, value_enum, default_value = "warm", help_heading = "Cores")]
    idle_state: State,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    two: TwoMachines,
    #[command(flatten)]
    output: MeasuredOutputArgs,
}

/// One end only; the other is on another machine.
#[derive(clap::Args)]
struct TwoMachines {
    /// Be the server, for a client on another machine
    #[arg(long = "server", visible_alias = "serve", short = 's', group = "end", help_heading = "Two machines", conflicts_with_all = ONE_MACHINE)]
    serves: bool,
    /// Be the client of the server at this address, and measure
    #[arg(
        long = "client", visible_alias = "connect", short = 'c', value_name = "HOST", group = "end", help_heading = "Two machines",
        conflicts_with_all = ONE_MACHINE, value_parser = crate::address::host
    )]
    host: Option<IpAddr>,
    /// This end's port, such as xdp:eth0; `%t` is a thread's number, `%n` a NIC's. Not opened where --baseline is given
    #[arg(long, value_name = "URI", help_heading = "Two machines", requires = "end")]
    port: Option<String>,
    /// This end's address on its network, such as 10.77.0.1/16; another one for each further NIC
    #[arg(long, value_name = "ADDRESS[/BITS]", help_heading = "Two machines", requires = "end")]
    address: Vec<String>,
    /// The server's port of the connection manager; a server's 0: any that is free, which it says
    #[arg(long, short = 'p', value_name = "PORT", default_value_t = RPING_PORT, help_heading = "Two machines")]
    service_port: u16,
    /// Where the server tells its CPU, over TCP; at both ends, or none [default: the server's address, one port above --service-port]
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Two machines", requires = "end")]
    control: Option<String>,
}

/// What both ends in one process have, and one end alone has not.
const ONE_MACHINE: [&str; 9] =
    ["over", "live", "one_thread", "data", "cores", "out", "folder", "hiccup", "histograms"];

/// What a thread does when nothing comes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Idle {
    /// Looks again at once
    Spin,
    /// Yields its core, then polls again
    Yield,
    /// Sleeps until something comes
    Park,
}

impl Args {
    /// The baseline, if there is one.
    fn baseline(&self) -> Option<Baseline> {
        self.baseline.iter().find_map(|some| some.0.first().copied())
    }

    /// What `rdma serve` or `rdma connect` is asked for where one end only is here. `None`: both are.
    ///
    /// # Errors
    /// Several values where one end has one.
    fn one_end(&self) -> anyhow::Result<Option<Vec<String>>> {
        let two = &self.two;
        if !two.serves && two.host.is_none() {
            return Ok(None);
        }
        let one = |option: &str, values: &[u32]| match values {
            &[value] => Ok(value.to_string()),
            _ => Err(Failure::new(Code::Usage, format!("between two machines, give one `{option}`"))),
        };
        let mut words: Vec<String> = ["barewire", "rdma"].map(str::to_owned).to_vec();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        match two.host {
            None => add(&["serve", "--accept", "--nics", &one("--nics", &self.nics)?]),
            Some(host) => {
                add(&["connect", &host.to_string(), "--row", "--runs", &self.timing.runs.to_string()]);
                add(&[
                    "--threads",
                    &one("--threads", &self.threads)?,
                    "--window",
                    &one("--window", &self.window)?,
                ]);
                add(&["--hosts", &one("--hosts", &self.hosts)?, "--nics", &one("--nics", &self.nics)?]);
                add(&["--seconds", &format!("{}ns", self.timing.seconds.as_nanos())]);
                if self.no_teardown {
                    add(&["--no-teardown"]);
                }
            }
        }
        for (option, value) in two
            .port
            .iter()
            .map(|port| ("--port", port.as_str()))
            .chain(two.address.iter().map(|address| ("--address", address.as_str())))
        {
            add(&[option, value]);
        }
        if self.baseline() == Some(Baseline::KernelTcp) {
            add(&["--baseline", "kernel-tcp"]);
        }
        if let Some(control) = &two.control {
            add(&["--control", control]);
        }
        if let Some(idle) = self.idle {
            add(&["--idle", &IdleStrategy::from(idle).to_string()]);
        }
        add(&["--service-port", &two.service_port.to_string()]);
        for (asked, option) in [(self.shared_cq, "--shared-cq"), (self.output.json, "--json")] {
            if asked {
                add(&[option]);
            }
        }
        Ok(Some(words))
    }
}

impl From<Idle> for IdleStrategy {
    fn from(idle: Idle) -> IdleStrategy {
        match idle {
            Idle::Spin => IdleStrategy::Spin,
            Idle::Yield => IdleStrategy::Yield,
            Idle::Park => IdleStrategy::Park { spin: Duration::ZERO },
        }
    }
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    if let Some(words) = args.one_end()? {
        let cli = Cli::try_parse_from(words).map_err(|error| {
            // What is missing stands in lines of its own, before a blank one.
            let text = error.to_string();
            let first = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
            Failure::new(Code::Usage, first.trim_start_matches("error: "))
                .hint("of this end: --port URI and --address ADDRESS/BITS, or --baseline kernel-tcp")
        })?;
        return super::run(&cli.verb, console);
    }
    warn_of_debug_build(console);
    signals::catch()?;
    let mut results = args.output.begin(console);
    let command = results.fingerprint().run.command_line.clone();
    let cores = args.timing.pin(console)?;
    let teardown = match (args.teardown, args.no_teardown) {
        (true, true) => vec![true, false],
        (false, true) => vec![false],
        _ => vec![true],
    };
    let request = Request {
        overs: args.over.clone(),
        hosts: args.hosts.clone(),
        threads: args.threads.clone(),
        nics: args.nics.clone(),
        windows: args.window.clone(),
        teardown,
        live: args.live.clone(),
        one_thread: args.one_thread,
        own_cq: !args.shared_cq,
        baseline: args.baseline(),
        seconds: args.timing.seconds,
        runs: args.timing.runs,
        cores,
        idle: args.idle.map(IdleStrategy::from),
        idle_state: args.idle_state.into(),
        command: command.clone(),
    };
    request.check().map_err(measured::of_bench)?;
    if args.baseline().is_none() {
        results.caveat(
            "no kernel baseline was measured (`--baseline kernel-tcp`): the control rows show the machine's floor",
        );
    }
    let all_data: Vec<data::Request> = args
        .over
        .iter()
        .filter(|_| args.data)
        .map(|&over| data::Request {
            over,
            one_thread: args.one_thread,
            seconds: args.timing.seconds,
            runs: args.timing.runs,
            cores,
            idle: args.idle.map(IdleStrategy::from),
            idle_state: args.idle_state.into(),
            command: command.clone(),
        })
        .collect();
    let of_data = all_data.iter().map(data::Request::planned_time).fold(Duration::ZERO, |a, b| a + b);
    let mut ticker = console.ticker(request.planned_time() + of_data);
    ticker.part("", request.planned_time());
    let mut so_far = args.output.so_far("rc", &results, HardwareClass::OneMachine);
    let (rows, failed) = request.run(&mut |line| ticker.step(&line), &mut |rows| so_far.keep(rows));
    so_far.add(&rows);
    let mut failures: Vec<anyhow::Error> = failed.into_iter().map(measured::of_bench).collect();
    let mut over_them = Vec::new();
    for asked in all_data {
        if barewire_bench::interrupted() {
            break;
        }
        ticker.part("data", asked.planned_time());
        match asked.run(&mut |line| ticker.step(&line), &mut |rows| so_far.keep(rows)) {
            Ok((rows, failed)) => {
                so_far.add(&rows);
                over_them.extend(rows);
                failures.extend(failed.into_iter().map(measured::of_bench));
            }
            Err(error) => failures.push(measured::of_bench(error)),
        }
    }
    drop(ticker);
    results.add(&rows)?;
    results.add(&over_them)?;
    let text = || tables_text(&[text_table(&rows), table(&over_them)], &results);
    args.output.end(&results, "rc", HardwareClass::OneMachine, &[], console, text)?;
    so_far.end();
    Ok(Ended::default().and(&rows).and(&over_them).conclude(&failures, console))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Bench, Verb};

    /// What `bench rdma` makes of these words.
    fn args(words: &str) -> Args {
        let words = ["barewire", "bench", "rdma"].into_iter().chain(words.split_whitespace());
        match Cli::try_parse_from(words).map(|cli| cli.verb) {
            Ok(Verb::Bench { what: Bench::Rc(args) }) => *args,
            Ok(_) => panic!("another verb"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn one_end_is_a_verb_of_its_own() {
        assert!(args("--window 1,64").one_end().unwrap().is_none());
        let words = |typed: &str| args(typed).one_end().unwrap().unwrap().join(" ");
        assert_eq!(
            words("-s --port xdp:eth%n --address 10.0.0.1/24 --address 10.1.0.1/24 --nics 2 -p 0 --json"),
            "barewire rdma serve --accept --nics 2 --port xdp:eth%n --address 10.0.0.1/24 --address 10.1.0.1/24 \
             --service-port 0 --json"
        );
        let client =
            words("-c 10.0.0.1 --baseline kernel-tcp --seconds 500ms --window 8 --idle park --no-teardown");
        for part in [
            "connect 10.0.0.1 --row --runs 5 --threads 1 --window 8 ",
            "--seconds 500000000ns --no-teardown --baseline kernel-tcp --idle park",
        ] {
            assert!(client.contains(part), "{part}: {client}");
        }
        for typed in
            ["-s --baseline all --address 10.0.0.1", "-c 10.0.0.1 --port mem:x --address 10.0.0.2/24"]
        {
            assert!(Cli::try_parse_from(args(typed).one_end().unwrap().unwrap()).is_ok(), "{typed}");
        }
        let why = args("-c 10.0.0.1 --window 1,8").one_end().unwrap_err().to_string();
        assert!(why.contains("one `--window`"), "{why}");
        // As `bench msg` and `bench stream` say it.
        assert!(words("--serve --port mem:x --address 10.0.0.1/24").starts_with("barewire rdma serve"));
        assert!(
            words("--connect 10.0.0.1 --port mem:x --address 10.0.0.2/24")
                .starts_with("barewire rdma connect")
        );
        for bad in ["-s -c 10.0.0.1", "-s --over mem", "--port mem:x", "-c nobody"] {
            let words = ["barewire", "bench", "rdma"].into_iter().chain(bad.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{bad}");
        }
    }
}
