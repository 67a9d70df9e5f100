//! `barewire bench msg`: request-response messages.

use super::measured::{self, Ended, Measured, MeasuredOutputArgs, State, Timing, warn_of_debug_build};
use super::searching::{self, Asked, SearchArgs};
use crate::address;
use crate::console::Console;
use crate::failure::{Code, Failure};
use crate::signals;
use barewire_base::Duration;
use barewire_bench::kernel::{KernelEnd, RemoteKernelCell, serve as serve_kernel};
use barewire_bench::messages::embedded::SERVER_PORT;
use barewire_bench::messages::pair::{HostAddress, RemoteCell, Role, serve};
use barewire_bench::messages::plan::{
    Baselines, Mode, Over, Place, Settings, System, cells_for, embedded_idle,
};
use barewire_bench::messages::reading::ratios;
use barewire_bench::messages::render::text_table;
use barewire_bench::messages::run::planned_time;
use barewire_bench::search::messages;
use barewire_bench::{Arrivals, BenchError, Cell, ControlAt, IdleState, MsgWorkload};
use barewire_engine::IdleStrategy;
use barewire_report::run::HardwareClass;
use clap::ValueEnum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicBool;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Over `packet` and `xdp`, two hosts with a link are created for the run and removed, which needs root. Wrappers go in front, as in \
`--over fault+mem --options 'loss=0.01&seed=7'`. All systems take turns, A B B A, run by run.

On two machines:
  server:  barewire bench msg -s --port xdp:eth0 --ip 10.0.0.2/24
  client:  barewire bench msg -c 10.0.0.2 --port xdp:eth0 --ip 10.0.0.1/24
The same over the kernel's sockets, used as a good program would:
  server:  barewire bench msg -s --baseline kernel-tcp-batch
  client:  barewire bench msg -c 10.0.0.2 --baseline kernel-tcp-batch")]
#[command(group(clap::ArgGroup::new("end").args(["role", "serve", "connect"])))]
pub struct Args {
    /// Port between the ends: mem, packet, unix, xdp; several with commas
    #[arg(long, value_delimiter = ',', default_value = "mem", help_heading = "Systems")]
    over: Vec<Over>,
    /// How barewire runs: embedded, embedded-one-thread, daemon, daemon-park, embedded-secure, daemon-secure; several with commas [default: embedded, or daemon with several --engines]
    #[arg(long, value_delimiter = ',', help_heading = "Systems")]
    mode: Vec<Mode>,
    /// Engines of each daemon on one interface; each has its own receive queues and application
    #[arg(long, default_value_t = 1, conflicts_with_all = ["end", "search"], help_heading = "Systems")]
    engines: u8,
    /// Queues of each interface, each way [default: one for each engine]
    #[arg(long, conflicts_with = "end", help_heading = "Systems")]
    queues: Option<u32>,
    /// Run each mode encrypted as well, and the cipher alone, to see what encryption costs
    #[arg(long, conflicts_with = "end", help_heading = "Systems")]
    secure: bool,
    /// Bytes of a request, and of its response
    #[arg(long, default_value_t = 1024, help_heading = "Workload")]
    size: u32,
    /// Requests in flight; several with commas [default: one for each connection, or 256 with --rate]
    #[arg(long, value_delimiter = ',', help_heading = "Workload")]
    window: Vec<u32>,
    /// Connections that the requests are spread over [default: one for each engine]
    #[arg(long, help_heading = "Workload")]
    connections: Option<u32>,
    /// Warm-up before it
    #[arg(long, default_value = "0.5", value_parser = measured::seconds, value_name = "SECONDS", help_heading = "Workload")]
    warmup: Duration,
    /// Warm up until the median is stable (four windows of 20 ms within 5 %), but no longer than this
    #[arg(long, default_value = "0", value_parser = measured::seconds, value_name = "SECONDS", hide_default_value = true, help_heading = "Workload")]
    warmup_max: Duration,
    /// Open loop: requests per second, independent of responses; several with commas
    #[arg(long, value_name = "PER_SECOND", value_delimiter = ',', help_heading = "Workload")]
    rate: Vec<f64>,
    /// Open loop: gaps between requests
    #[arg(long, value_enum, default_value_t = Gaps::Cbr, requires = "rate", help_heading = "Workload")]
    arrivals: Gaps,
    /// Compare every byte of every response
    #[arg(long, help_heading = "Workload")]
    verify: bool,
    /// Seed of payloads and gaps
    #[arg(long, default_value_t = 1, help_heading = "Workload")]
    seed: u64,
    /// Idle strategy of barewire: spin, yield, park, park:20us [default: daemon yields, daemon-park parks, embedded spins, or yields on one core]
    #[arg(long, help_heading = "Cores")]
    idle: Option<IdleStrategy>,
    /// State of the cores: warm or cold [default: both for systems that sleep (kernel sockets that do not spin, daemon-park), else warm; with -c the first of these]
    #[arg(long, value_enum, help_heading = "Cores")]
    idle_state: Option<State>,
    /// Kernel sockets beside it, or one as this `--role`: kernel-tcp, kernel-udp (a call for each message), kernel-tcp-batch,
    /// kernel-tcp-epoll, kernel-io-uring, kernel-udp-mmsg (many a call), kernel-udp-gso (many as one), with -spin, -spin-sleep (20 us awake,
    /// then asleep) or -busy-poll behind where there is one; all; for
    /// --secure also kernel-tls (TLS 1.3 by rustls, not in the kernel, many a call), kernel-tls-spin; several with commas
    #[arg(long, default_value = "none", help_heading = "Baselines")]
    baseline: Baselines,
    /// Options of barewire's ports, as after the `?` of a URI: 'mode=copy&queue=0'
    #[arg(long, default_value = "", hide_default_value = true, help_heading = "Systems")]
    options: String,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    search: SearchArgs,
    /// Search: a response that comes later than this after its request's intended send counts as lost
    #[arg(long, value_name = "MS", default_value = "10", value_parser = measured::millis, requires = "search", help_heading = "Search")]
    late_ms: Duration,
    #[command(flatten)]
    output: MeasuredOutputArgs,
    /// Be the server only, until Ctrl-C (as `--role server`)
    #[arg(short = 's', long, conflicts_with_all = ["over", "mode", "options"], help_heading = "Two machines")]
    serve: bool,
    /// Be the client of this server only, and measure (as `--role client --server HOST`)
    #[arg(short = 'c', long, value_name = "HOST", value_parser = address::host, conflicts_with_all = ["over", "mode", "options", "server"], help_heading = "Two machines")]
    connect: Option<IpAddr>,
    /// One end only; the other is on another machine: over a port, or (with one `--baseline`, the same at both ends) over the kernel's sockets
    #[arg(long, value_enum, conflicts_with_all = ["over", "mode", "options"], help_heading = "Two machines")]
    role: Option<End>,
    /// Server: its port's URI, as `--port`
    #[arg(long, value_name = "URI", requires = "end", help_heading = "Two machines")]
    listen: Option<String>,
    /// This end's port URI; not opened where `--baseline` uses the kernel's sockets instead
    #[arg(long, value_name = "URI", requires = "end", help_heading = "Two machines")]
    port: Option<String>,
    /// This end's address, such as 10.0.0.1/24
    #[arg(long, value_name = "ADDR", requires = "end", help_heading = "Two machines")]
    ip: Option<HostAddress>,
    /// Router to other networks
    #[arg(long, value_name = "ADDR", requires = "end", help_heading = "Two machines")]
    gateway: Option<IpAddr>,
    /// Client: the server's address
    #[arg(long, value_name = "ADDR", requires = "end", help_heading = "Two machines")]
    server: Option<IpAddr>,
    /// Where the server tells its CPU, over TCP; at both ends, or none [default: the server's address, port 889, where the kernel
    /// has it: not over memory and socket files]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = control, requires = "end", help_heading = "Two machines")]
    control: Option<ControlAt>,
}

/// Control connections are one port above the measured one.
fn control(text: &str) -> Result<ControlAt, String> {
    address::control(text, SERVER_PORT + 1)
}

#[derive(Clone, Copy, ValueEnum)]
enum Gaps {
    /// Equal gaps
    Cbr,
    /// Exponential gaps
    Poisson,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    /// Answers
    Server,
    /// Asks, and measures
    Client,
}

impl Args {
    /// One for each window and rate; without rates one for each window.
    fn workloads(&self) -> Vec<MsgWorkload> {
        let rates: Vec<Option<f64>> =
            if self.rate.is_empty() { vec![None] } else { self.rate.iter().map(|r| Some(*r)).collect() };
        let of_window = |window| rates.iter().map(move |rate| self.workload(window, *rate));
        self.windows().into_iter().flat_map(of_window).collect()
    }

    /// With a schedule the window only bounds what a stall queues: a small one would make it a closed loop.
    fn windows(&self) -> Vec<u32> {
        match (self.window.is_empty(), self.rate.is_empty()) {
            (false, _) => self.window.clone(),
            (true, true) => vec![self.connections()],
            (true, false) => vec![OPEN_WINDOW],
        }
    }

    fn connections(&self) -> u32 {
        self.connections.unwrap_or(u32::from(self.engines).max(1))
    }

    fn queues(&self) -> u32 {
        self.queues.unwrap_or(u32::from(self.engines).max(1))
    }

    fn workload(&self, window: u32, rate: Option<f64>) -> MsgWorkload {
        MsgWorkload {
            size: self.size,
            window,
            rate,
            arrivals: match self.arrivals {
                Gaps::Cbr => Arrivals::Cbr,
                Gaps::Poisson => Arrivals::Poisson,
            },
            duration: self.timing.seconds,
            warmup: self.warmup,
            warmup_max: self.warmup_max,
            runs: self.timing.runs,
            connections: self.connections(),
            engines: self.engines,
            queues: self.queues(),
            verify: self.verify,
            seed: self.seed,
        }
    }

    fn idle_state(&self) -> Option<IdleState> {
        self.idle_state.map(IdleState::from)
    }

    fn systems(&self) -> Vec<System> {
        let mut modes: Vec<Mode> = Vec::new();
        let usual = [if self.engines > 1 { Mode::Daemon } else { Mode::Embedded }];
        for &mode in if self.mode.is_empty() { &usual[..] } else { &self.mode[..] } {
            let encrypted = mode.encrypted().filter(|_| self.secure);
            for mode in [Some(mode), encrypted].into_iter().flatten() {
                if !modes.contains(&mode) {
                    modes.push(mode);
                }
            }
        }
        let ours = self
            .over
            .iter()
            .flat_map(|over| modes.iter().map(|&mode| System::Barewire { mode, over: over.clone() }));
        let mut all: Vec<System> = ours.chain(self.baseline.0.iter().cloned()).collect();
        if self.secure && !all.contains(&System::Aead) {
            all.push(System::Aead);
        }
        all
    }
}

/// One end of two machines.
enum OneEnd {
    Asks(Box<dyn Cell>),
    Answers(Role, ControlAt),
    KernelAnswers(KernelEnd, ControlAt),
}

impl Args {
    /// Which end alone is asked for, if one is.
    fn end(&self) -> Option<End> {
        match (self.serve, self.connect) {
            (true, _) => Some(End::Server),
            (_, Some(_)) => Some(End::Client),
            _ => self.role,
        }
    }

    /// The end that is asked for: over the port that is named, or over the kernel's sockets.
    fn one_end(
        &self,
        end: End,
        workload: &MsgWorkload,
        cores: Option<(usize, usize)>,
        command: String,
    ) -> anyhow::Result<OneEnd> {
        let usage = |why: &str| Failure::new(Code::Usage, why);
        let core = cores.map(|c| if end == End::Client { c.0 } else { c.1 });
        let at = self.connect.or(self.server).map(|ip| SocketAddr::new(ip, SERVER_PORT));
        let asks = end == End::Client;
        let at = at.ok_or_else(|| usage("`-c HOST` (or `--server`) is missing: the address of the server"));
        let at = asks.then_some(at).transpose()?;
        let any = match at {
            Some(SocketAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        match self.baseline.0.as_slice() {
            [] => {}
            [system @ System::Kernel(baseline)] => {
                let kernel =
                    KernelEnd { baseline: *baseline, ip: self.ip.map_or(any, |address| address.ip), core };
                let control = self.control.unwrap_or_default();
                let Some(at) = at else { return Ok(OneEnd::KernelAnswers(kernel, control)) };
                let state = self.idle_state().unwrap_or(system.idle_states()[0]);
                return Ok(OneEnd::Asks(Box::new(RemoteKernelCell::new(
                    kernel,
                    at,
                    control,
                    workload.clone(),
                    state,
                    command,
                ))));
            }
            _ => {
                return Err(usage("between two machines, give one `--baseline`: it replaces the port").into());
            }
        }
        let port = self.listen.as_ref().filter(|_| end == End::Server).or(self.port.as_ref()).cloned();
        let port = port.ok_or_else(|| {
            usage("`--port` is missing: the URI of this end's port; or `--baseline` for the kernel's own sockets")
        })?;
        let address =
            self.ip.ok_or_else(|| usage("`--ip` is missing: this end's address, such as 10.0.0.1/24"))?;
        // The ports of a role are named by URI; how it idles is that of any embedded endpoint.
        let embedded = System::Barewire { mode: Mode::Embedded, over: "mem".parse()? };
        let idle = embedded_idle(self.idle.unwrap_or_else(|| embedded.idle(cores)))?;
        let control = self.control.unwrap_or_else(|| ControlAt::over(&port));
        let role = Role { port, address, gateway: self.gateway, workload: workload.clone(), idle, core };
        Ok(match at {
            None => OneEnd::Answers(role, control),
            Some(at) => {
                let state = self.idle_state().unwrap_or(IdleState::Warm);
                OneEnd::Asks(Box::new(RemoteCell::new(role, at, control, state, command)))
            }
        })
    }
}

/// A response that comes later than this is not waited for in any search.
const LATE_MAX: Duration = Duration::from_secs(60);
/// Requests in flight at most where a schedule says when they leave.
const OPEN_WINDOW: u32 = 256;
/// What a run folder says when nothing known ran beside it.
const NO_BASELINE: &str = "no kernel baseline of the same work was measured (`--baseline kernel-tcp`): the control rows show the machine's floor";

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let workloads = args.workloads();
    workloads.iter().try_for_each(MsgWorkload::validate)?;
    warn_of_debug_build(console);
    signals::catch()?;
    if let Some(asked) = args.search.asked()? {
        return search(args, asked, args.workload(args.windows()[0], None), console);
    }
    let cores = args.timing.pin(console)?;
    let mut results = args.output.begin(console);
    let command = results.fingerprint().run.command_line.clone();
    let mut hardware = HardwareClass::OneMachine;
    let mut cells: Vec<Box<dyn Cell>> = match args.end() {
        None => {
            let all: Vec<Settings> = workloads
                .into_iter()
                .map(|workload| Settings {
                    workload,
                    idle: args.idle,
                    idle_state: args.idle_state(),
                    cores,
                    options: args.options.clone(),
                    command: command.clone(),
                })
                .collect();
            let systems = args.systems();
            // Refused before hosts are made for it.
            for settings in &all {
                cells_for(&systems, &Place::nothing(), settings)?;
            }
            let place = Place::prepare_with(&systems, args.queues())?;
            if let Some(why) = &place.no_hosts {
                console.note(&format!("baselines run over loopback: {why}"));
            }
            if args.baseline.0.is_empty() {
                results.caveat(NO_BASELINE);
            }
            let mut cells = Vec::new();
            for settings in &all {
                cells.extend(cells_for(&systems, &place, settings)?);
            }
            cells
        }
        Some(end) => {
            // On two machines: what they are, this one at least knows of itself.
            let server = args.connect.or(args.server);
            hardware = match results.fingerprint().machine.hypervisor {
                // Nothing leaves this machine.
                _ if server.is_some_and(|ip| ip.is_loopback()) => HardwareClass::OneMachine,
                true => HardwareClass::CloudVms,
                false => HardwareClass::BareMetal,
            };
            let [workload] = workloads.as_slice() else {
                return Err(Failure::new(
                    Code::Usage,
                    "between two machines, give one `--rate` and one `--window`",
                )
                .into());
            };
            match args.one_end(end, workload, cores, command)? {
                OneEnd::Asks(cell) => vec![cell],
                OneEnd::Answers(role, control) => return listen(&role, control, console),
                OneEnd::KernelAnswers(role, control) => return listen_kernel(&role, control, console),
            }
        }
    };
    let planned = planned_time(&cells, args.timing.runs);
    let mut ticker = console.ticker(planned);
    ticker.part("", planned);
    let so_far = args.output.so_far("msg", &results, hardware);
    let measured = Measured::run(&mut cells, args.timing.runs, &mut ticker, &mut |rows| so_far.keep(rows));
    drop(ticker);
    // Hosts go before anything is printed: a reader that goes away must not keep them.
    drop(cells);
    results.add(&measured.rows)?;
    args.output.end(&results, "msg", hardware, &[], console, || match measured.rows.as_slice() {
        [] => String::new(),
        rows => text_table(rows) + &ratios(rows),
    })?;
    so_far.end();
    Ok(Ended::default().and(&measured.rows).conclude(&measured.failures, console))
}

/// Searches each system's throughput, one after the other.
fn search(args: &Args, asked: Asked, workload: MsgWorkload, console: &Console) -> anyhow::Result<Code> {
    if args.end().is_some() || !args.rate.is_empty() {
        let why = "`--search` sets the rate itself, and runs both ends on this machine";
        return Err(Failure::new(Code::Usage, why).hint("leave out --role and --rate").into());
    }
    if !(Duration::from_nanos(1)..=LATE_MAX).contains(&args.late_ms) {
        return Err(Failure::new(Code::Usage, "`--late-ms` must be more than 0 and at most 60000").into());
    }
    let cores = args.timing.pin(console)?;
    let results = args.output.begin(console);
    let command = results.fingerprint().run.command_line.clone();
    let (idle, idle_state, options) = (args.idle, args.idle_state(), args.options.clone());
    let settings = Settings { workload, idle, idle_state, cores, options, command };
    let systems = args.systems();
    // Refused before hosts are made for it.
    cells_for(&systems, &Place::nothing(), &settings)?;
    let place = Place::prepare_with(&systems, args.queues())?;
    let Asked { kind, goals, range } = asked;
    let request = messages::Request { kind, goals, range, late: args.late_ms };
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for system in &systems {
        let name = match cells_for(std::slice::from_ref(system), &place, &settings)?.first() {
            Some(cell) => cell.info().name.to_string(),
            None => continue,
        };
        let mut tell = |line: &messages::TrialLine| searching::tell(console, &name, line);
        let failed = match messages::search(&request, system, &place, &settings, &mut tell) {
            Ok((found, failed)) => {
                rows.extend(found);
                failed
            }
            Err(error) => Some(error),
        };
        failures.extend(failed.map(|error| anyhow::Error::new(error).context(name)));
    }
    // Hosts go before anything is printed: a reader that goes away must not keep them.
    drop(place);
    searching::finish(&rows, &failures, &args.output, results, "msg-search", console)
}

/// Answers until somebody interrupts.
fn listen(role: &Role, control: ControlAt, console: &Console) -> anyhow::Result<Code> {
    let mut ready = |description: &str| {
        console.tell(&format!("{}: {description}", role.port));
        console.tell(&format!("answering on {}, UDP port {SERVER_PORT}; Ctrl-C ends it", role.address.ip));
    };
    let mut told = |control: &str| console.note(control);
    serving(|| serve(role, control, &mut ready, &mut told, &AtomicBool::new(false)))
}

/// The same over the kernel's sockets.
fn listen_kernel(end: &KernelEnd, control: ControlAt, console: &Console) -> anyhow::Result<Code> {
    let name = end.baseline.name();
    let mut ready = |at: SocketAddr| console.tell(&format!("answering on {at}, {name}; Ctrl-C ends it"));
    let mut told = |why: &str| console.note(why);
    let stop = AtomicBool::new(false);
    serving(|| serve_kernel(end, SERVER_PORT, control, &mut ready, &mut told, &stop))
}

/// The thread that serves is pinned: not this one.
fn serving(serve: impl FnOnce() -> Result<(), BenchError> + Send) -> anyhow::Result<Code> {
    match std::thread::scope(|scope| scope.spawn(serve).join()) {
        Ok(Ok(())) => Ok(Code::Done),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Failure::new(Code::Failed, "the server panicked").into()),
    }
}
