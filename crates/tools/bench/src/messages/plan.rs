//! From words to cells: which systems, over which wires, with which workload, and the hosts that they need.
//!
//! Every command that measures messages goes through [`cells_for`], so that a mode or a kind of wires is added in one place.

use crate::kernel::{Baseline, Calls, Ends, KernelCell, Protocol, Waiting};
use crate::messages::IdleState;
use crate::messages::MsgWorkload;
use crate::messages::aead::{AEAD, AeadCell};
use crate::messages::daemon::DaemonCell;
use crate::messages::embedded::{EmbeddedCell, Idle, Wires};
use crate::messages::pair::PairCell;
use crate::messages::run::Cell;
use crate::messages::run::planned_run;
use barewire_base::Duration;
use barewire_engine::IdleStrategy;
use barewire_measure::{SocketRing, allowed_cores};
use barewire_netns::{Interface, LinkConfig, NetnsError, TwoHosts, TwoHostsConfig};
use barewire_port::{WRAPPERS, suggest};
use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::Arc;

/// What messages may run over here, without wrappers.
pub const OVER: &[&str] = &["dpdk", "mem", "packet", "unix", "xdp"];
/// Of these, what needs two hosts with a link between them.
const OVER_HOSTS: &[&str] = &["dpdk", "packet", "xdp"];
/// How barewire may run.
pub const MODES: &[&str] =
    &["embedded", "embedded-one-thread", "daemon", "daemon-park", "embedded-secure", "daemon-secure"];
/// Ends of a comma-separated list of baselines that name several or none.
const ALL: &str = "all";
const NONE: &str = "none";

/// What is wrong with what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A word that is none of those expected.
    #[error("unknown {what} `{word}`; {near}")]
    Unknown {
        /// What was expected.
        what: &'static str,
        /// What was typed.
        word: String,
        /// The nearest right word, and all of them.
        near: String,
    },
    /// The mode has no such wires.
    #[error("mode `{mode}` runs over {only} only, not over `{over}`")]
    ModeOver {
        /// The mode.
        mode: Mode,
        /// The wires.
        over: Over,
        /// What it does run over.
        only: &'static str,
    },
    /// Only a daemon has several engines.
    #[error("mode `{mode}` has one engine; several have `daemon`, `daemon-park` and `daemon-secure`")]
    Engines {
        /// The mode.
        mode: Mode,
    },
    /// Several engines share an interface; a pair in memory is no interface.
    #[error("several engines share an interface: over `packet` or `xdp`, not over `{0}`")]
    EnginesOver(Over),
    /// An embedded endpoint polls: only a daemon's engine sleeps.
    #[error("idle strategy `{0}` is for a daemon; an embedded endpoint polls: `spin` or `yield`")]
    Park(IdleStrategy),
}

fn unknown(what: &'static str, word: &str, known: &[&str]) -> PlanError {
    PlanError::Unknown { what, word: word.to_owned(), near: suggest(word, known) }
}

/// The wires: `[wrapper+...]scheme`, such as `xdp` or `fault+mem`. The target is the plan's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    text: String,
}

impl Over {
    /// The scheme, without wrappers.
    pub fn scheme(&self) -> &str {
        self.text.rsplit('+').next().unwrap_or(&self.text)
    }

    /// Wrappers and scheme, as typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether two hosts with a link between them are needed.
    pub fn needs_hosts(&self) -> bool {
        OVER_HOSTS.contains(&self.scheme())
    }
}

impl Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Over {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Over, PlanError> {
        let over = Over { text: text.to_owned() };
        if !OVER.contains(&over.scheme()) {
            return Err(unknown("wires", over.scheme(), OVER));
        }
        let wrappers = text.rsplit('+').skip(1);
        for wrapper in wrappers {
            if !WRAPPERS.contains(&wrapper) {
                return Err(unknown("wrapper", wrapper, WRAPPERS));
            }
        }
        Ok(over)
    }
}

/// How barewire runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// An engine in each application's thread.
    Embedded,
    /// The same, both ends in one thread: for machines with one core.
    EmbeddedOneThread,
    /// A daemon on each host, applications behind shared memory. Unless told otherwise all four offer their core when nothing
    /// comes.
    Daemon,
    /// The same, but all four sleep when nothing comes: the price of waking is a row of its own.
    DaemonPark,
    /// [`Mode::Embedded`], encrypted: each end knows the other's key.
    EmbeddedSecure,
    /// [`Mode::Daemon`], encrypted.
    DaemonSecure,
}

impl Mode {
    /// The same, encrypted, where there is one.
    pub fn encrypted(self) -> Option<Mode> {
        match self {
            Mode::Embedded | Mode::EmbeddedSecure => Some(Mode::EmbeddedSecure),
            Mode::Daemon | Mode::DaemonSecure => Some(Mode::DaemonSecure),
            Mode::EmbeddedOneThread | Mode::DaemonPark => None,
        }
    }

    fn is_encrypted(self) -> bool {
        self.encrypted() == Some(self)
    }
}

impl Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MODES[*self as usize])
    }
}

impl FromStr for Mode {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Mode, PlanError> {
        use Mode::{Daemon, DaemonPark, DaemonSecure, Embedded, EmbeddedOneThread, EmbeddedSecure};
        let modes = [Embedded, EmbeddedOneThread, Daemon, DaemonPark, EmbeddedSecure, DaemonSecure];
        let at = MODES.iter().position(|m| *m == text).ok_or_else(|| unknown("mode", text, MODES))?;
        Ok(modes[at])
    }
}

/// One thing to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// barewire.
    Barewire {
        /// How it runs.
        mode: Mode,
        /// Over what.
        over: Over,
    },
    /// The kernel's sockets.
    Kernel(Baseline),
    /// The cipher alone, without anything to send over.
    Aead,
}

impl System {
    /// In what states of the cores it is measured when nothing else was said. Who sleeps in the kernel meets both: cores that sleep, too,
    /// when requests are rare, and cores that something else keeps awake. Who polls keeps its cores awake anyway.
    pub fn idle_states(&self) -> &'static [IdleState] {
        match self {
            System::Kernel(Baseline {
                waiting: Waiting::Blocking | Waiting::BusyPoll | Waiting::SpinSleep,
                ..
            })
            | System::Barewire { mode: Mode::DaemonPark, .. } => &[IdleState::Cold, IdleState::Warm],
            _ => &[IdleState::Warm],
        }
    }

    /// What barewire does when nothing comes if nothing else was said: a daemon and its application yield
    /// to each other, as four that spin on two cores would measure the scheduler; embedded endpoints spin, but yield where they share a core, or they would take turns by the millisecond.
    pub fn idle(&self, cores: Option<(usize, usize)>) -> IdleStrategy {
        match self {
            System::Barewire { mode: Mode::DaemonPark, .. } => IdleStrategy::default(),
            System::Barewire { mode: Mode::Daemon | Mode::DaemonSecure, .. } => IdleStrategy::Yield,
            _ if cores.is_none() && default_cores().is_err() => IdleStrategy::Yield,
            _ => IdleStrategy::Spin,
        }
    }

    /// The kernel's TCP whose ends poll: with a call for each message, and with one for all that is there.
    pub fn is_spinning_tcp(&self) -> bool {
        matches!(
            self,
            System::Kernel(Baseline {
                protocol: Protocol::Tcp,
                calls: Calls::Each | Calls::Batch,
                waiting: Waiting::Spin
            })
        )
    }

    /// System and wires as rows name them.
    pub fn row_name(&self, with_hosts: bool) -> (&str, &str) {
        match self {
            System::Barewire { over, .. } => ("barewire", over.as_str()),
            System::Kernel(baseline) => (baseline.name(), if with_hosts { "veth" } else { "loopback" }),
            System::Aead => (AEAD, "memory"),
        }
    }

    fn needs_hosts(&self) -> bool {
        matches!(self, System::Barewire { over, .. } if over.needs_hosts())
    }
}

/// Kernel baselines by name, separated by commas; `all`; `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baselines(pub Vec<System>);

impl FromStr for Baselines {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Baselines, PlanError> {
        let mut found: Vec<System> = Vec::new();
        for word in text.split(',').map(str::trim) {
            let wanted: Vec<System> = match word {
                ALL => Baseline::plain().map(System::Kernel).collect(),
                NONE => Vec::new(),
                AEAD => vec![System::Aead],
                word => match Baseline::named(word) {
                    Some(baseline) => vec![System::Kernel(baseline)],
                    None => {
                        let names: Vec<&str> =
                            Baseline::all().map(Baseline::name).chain([AEAD, ALL, NONE]).collect();
                        return Err(unknown("baseline", word, &names));
                    }
                },
            };
            for system in wanted {
                if !found.contains(&system) {
                    found.push(system);
                }
            }
        }
        Ok(Baselines(found))
    }
}

/// The hosts that a plan runs on, and why there are none where some would have been better.
pub struct Place {
    /// Two hosts with a link and its twin. The twin is the baselines', with all offloads: the kernel at its best.
    pub hosts: Option<Arc<TwoHosts>>,
    /// The baselines run over loopback for this reason.
    pub no_hosts: Option<NetnsError>,
}

impl Place {
    /// Makes what `systems` need. Their names are not listed by `ip netns`: so they vanish with the process, however it ends.
    ///
    /// # Errors
    /// When hosts are needed and cannot be made. For a baseline alone they are not needed.
    pub fn prepare(systems: &[System]) -> Result<Place, NetnsError> {
        Place::prepare_with(systems, 1)
    }

    /// As [`prepare`](Self::prepare), with so many queues at each end of the link.
    ///
    /// # Errors
    /// As there.
    pub fn prepare_with(systems: &[System], queues: u32) -> Result<Place, NetnsError> {
        let needed = systems.iter().any(System::needs_hosts);
        if !needed && !systems.iter().any(|s| matches!(s, System::Kernel(_))) {
            return Ok(Place { hosts: None, no_hosts: None });
        }
        let config = TwoHostsConfig {
            label: None,
            link: LinkConfig { queues, ..LinkConfig::default() },
            twin: Some(LinkConfig { offloads: true, ..LinkConfig::default() }),
            ..TwoHostsConfig::default()
        };
        match TwoHosts::create(&config) {
            Ok(hosts) => Ok(Place { hosts: Some(Arc::new(hosts)), no_hosts: None }),
            Err(error) if needed => Err(error),
            Err(error) => Ok(Place { hosts: None, no_hosts: Some(error) }),
        }
    }

    /// Nothing but this process: memory and loopback.
    pub fn nothing() -> Place {
        Place { hosts: None, no_hosts: None }
    }
}

/// The ends of the link that ports of `scheme`, wrappers before it, stand on: of the twin, which has the kernel's offloads, for frames that
/// the link is to leave whole, as the kernel's own are there.
pub(crate) fn ends_of<'a>(hosts: &'a TwoHosts, scheme: &str) -> [&'a Interface; 2] {
    let leaves_whole = scheme.split('+').any(|wrapper| wrapper == "gso");
    match &hosts.twin {
        Some((a, b)) if leaves_whole => [a, b],
        _ => [&hosts.eth_a, &hosts.eth_b],
    }
}

/// What all cells of a plan have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The workload.
    pub workload: MsgWorkload,
    /// What barewire does when nothing comes; `None`: [`System::idle`].
    pub idle: Option<IdleStrategy>,
    /// State of the cores; `None`: all of [`System::idle_states`], each a cell of its own.
    pub idle_state: Option<IdleState>,
    /// Client's and server's core.
    pub cores: Option<(usize, usize)>,
    /// Options of barewire's ports: what follows the `?` of a URI, or nothing.
    pub options: String,
    /// What rows say produced them.
    pub command: String,
}

/// How long `systems` take with `settings`, about: all runs.
pub fn planned_systems(systems: &[System], settings: &Settings) -> Duration {
    let states = systems.iter().flat_map(|system| states(system, settings));
    let round = states.map(|state| planned_run(state, &settings.workload)).fold(Duration::ZERO, |a, b| a + b);
    round.saturating_mul(settings.workload.runs.into())
}

/// The cells of `systems` on `place`, in order.
///
/// # Errors
/// [`PlanError`] when a system cannot be run as asked for.
pub fn cells_for(
    systems: &[System],
    place: &Place,
    settings: &Settings,
) -> Result<Vec<Box<dyn Cell>>, PlanError> {
    let all =
        systems.iter().flat_map(|system| states(system, settings).into_iter().map(move |s| (system, s)));
    all.map(|(system, state)| cell_for(system, state, place, settings)).collect()
}

fn states(system: &System, settings: &Settings) -> Vec<IdleState> {
    settings.idle_state.map_or_else(|| system.idle_states().to_vec(), |state| vec![state])
}

fn cell_for(
    system: &System,
    idle_state: IdleState,
    place: &Place,
    s: &Settings,
) -> Result<Box<dyn Cell>, PlanError> {
    let idle = s.idle.unwrap_or(system.idle(s.cores));
    let (workload, command) = (s.workload.clone(), s.command.clone());
    let (mode, over) = match system {
        System::Kernel(baseline) => {
            let ends = place.hosts.as_ref().map_or_else(Ends::loopback, Ends::hosts);
            let cell = KernelCell::new(*baseline, ends, s.cores, workload, idle_state, command);
            return Ok(Box::new(cell));
        }
        System::Aead => {
            let core = s.cores.map(|cores| cores.0);
            return Ok(Box::new(AeadCell::new(core, workload, idle_state, command)));
        }
        System::Barewire { mode: mode @ (Mode::Daemon | Mode::DaemonPark | Mode::DaemonSecure), over } => {
            let hosts = place.hosts.as_ref().filter(|_| over.needs_hosts()).map(Arc::clone);
            if workload.engines > 1 && !matches!(over.scheme(), "packet" | "xdp") {
                return Err(PlanError::EnginesOver(over.clone()));
            }
            if !over.needs_hosts() && over.as_str() != "mem" {
                let only = "`mem`, `packet`, `xdp` and `dpdk`";
                return Err(PlanError::ModeOver { mode: *mode, over: over.clone(), only });
            }
            let binary = std::env::current_exe().unwrap_or_else(|_| "barewire".into());
            let cell = DaemonCell::new(
                binary,
                over.as_str(),
                &s.options,
                hosts,
                idle,
                s.cores,
                workload,
                idle_state,
                command,
            );
            let cell = if mode.is_encrypted() { cell.encrypted() } else { cell };
            return Ok(Box::new(cell));
        }
        System::Barewire { mode, .. } if workload.engines > 1 => {
            return Err(PlanError::Engines { mode: *mode });
        }
        System::Barewire { mode, over } => (*mode, over),
    };
    let idle = embedded_idle(idle)?;
    let plain_memory = over.as_str() == "mem" && s.options.is_empty();
    let wires = match (&place.hosts, mode) {
        (_, Mode::EmbeddedOneThread) if plain_memory => Wires::MemOneThread,
        (_, Mode::EmbeddedOneThread) => {
            return Err(PlanError::ModeOver { mode, over: over.clone(), only: "`mem` without options" });
        }
        (Some(hosts), _) if over.needs_hosts() => Wires::Veth {
            hosts: Arc::clone(hosts),
            scheme: over.as_str().to_owned(),
            options: s.options.clone(),
        },
        _ if plain_memory => Wires::Mem,
        _ if mode.is_encrypted() && !over.needs_hosts() => {
            let only = "`mem` without options, `packet`, `xdp` and `dpdk`";
            return Err(PlanError::ModeOver { mode, over: over.clone(), only });
        }
        _ => {
            let cell = PairCell::new(over.clone(), &s.options, idle, s.cores, workload, idle_state, command);
            return Ok(Box::new(cell));
        }
    };
    let cell = EmbeddedCell::new(wires, idle, s.cores, workload, idle_state, command);
    Ok(Box::new(if mode.is_encrypted() { cell.encrypted() } else { cell }))
}

/// What an embedded endpoint does when nothing comes.
///
/// # Errors
/// [`PlanError::Park`].
pub fn embedded_idle(idle: IdleStrategy) -> Result<Idle, PlanError> {
    match idle {
        IdleStrategy::Spin => Ok(Idle::Spin),
        IdleStrategy::Yield => Ok(Idle::Yield),
        park @ IdleStrategy::Park { .. } => Err(PlanError::Park(park)),
    }
}

/// Which cores a plan may pin to when the user named none: the first two that are allowed. `Err` says in words why there
/// are none.
pub fn default_cores() -> Result<(usize, usize), String> {
    match allowed_cores() {
        Ok(cores) => match cores[..] {
            [a, b, ..] => Ok((a, b)),
            _ => Err("this process may use one core only: client and server share it".to_owned()),
        },
        Err(error) => Err(format!("the cores of this process are not known: {error}")),
    }
}

/// Whether this process may run on `core`.
pub fn core_allowed(core: usize) -> bool {
    allowed_cores().is_ok_and(|cores| cores.contains(&core))
}

/// Whether the kernel, and whoever confined this process, lets it use the baseline: an io_uring is forbidden in many containers.
fn is_here(baseline: Baseline) -> bool {
    baseline.calls != Calls::Ring || SocketRing::new(Vec::new()).is_ok()
}

/// The systems of the published tables' counterparts, in the order of the report: all of them, or, without hosts, those that
/// need none.
pub fn seed_systems(with_hosts: bool) -> Vec<System> {
    // Who polls before it sleeps lies between who only sleeps and who only polls: `bench msg` has it.
    let between = |s: &System| matches!(s, System::Kernel(b) if b.waiting == Waiting::SpinSleep);
    all_systems(with_hosts).into_iter().filter(|s| !between(s)).collect()
}

/// Ours, and all of the kernel's that are here.
fn all_systems(with_hosts: bool) -> Vec<System> {
    let ours: &[(Mode, &str)] = if with_hosts {
        &[
            (Mode::Embedded, "mem"),
            (Mode::EmbeddedOneThread, "mem"),
            (Mode::Embedded, "xdp"),
            (Mode::Embedded, "packet"),
            (Mode::Daemon, "xdp"),
            (Mode::DaemonPark, "xdp"),
            (Mode::Daemon, "packet"),
        ]
    } else {
        &[(Mode::Embedded, "mem"), (Mode::EmbeddedOneThread, "mem"), (Mode::Daemon, "mem")]
    };
    let barewire =
        ours.iter().map(|&(mode, over)| System::Barewire { mode, over: Over { text: over.to_owned() } });
    let kernel = Baseline::plain().filter(|b| is_here(*b));
    barewire.chain(kernel.map(System::Kernel)).collect()
}

/// The systems of the demonstration: over real packets where hosts can be made, else in memory.
pub fn demo_systems(with_hosts: bool) -> Vec<System> {
    let all = all_systems(with_hosts);
    let shown = |s: &System| match s {
        System::Aead => false,
        // The daemon once: it takes both ways of reaching an interface as it takes one.
        System::Barewire { mode: Mode::Daemon | Mode::DaemonPark, over } => over.scheme() != "packet",
        System::Barewire { over, .. } => over.needs_hosts() == with_hosts,
        // What most programs do, the same that polls as our endpoints do, that which polls before it sleeps as our daemon does, and that
        // which also takes as many messages at once; and the shortest way through the kernel, which repeats nothing that is lost.
        System::Kernel(baseline) => {
            const SHOWN: [&str; 5] = [
                "kernel-tcp",
                "kernel-tcp-spin",
                "kernel-tcp-spin-sleep",
                "kernel-tcp-batch-spin",
                "kernel-udp-spin",
            ];
            SHOWN.contains(&baseline.name())
        }
    };
    all.into_iter().filter(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            workload: MsgWorkload::default(),
            idle: None,
            idle_state: None,
            cores: None,
            options: String::new(),
            command: "barewire bench msg".to_owned(),
        }
    }

    fn barewire(mode: Mode, over: &str) -> System {
        System::Barewire { mode, over: over.parse().unwrap() }
    }

    fn refusal(system: System, settings: &Settings) -> String {
        match cells_for(&[system], &Place::nothing(), settings) {
            Ok(_) => panic!("must be refused"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn wires_are_read_with_their_wrappers() {
        let over: Over = "fault+xdp".parse().unwrap();
        assert_eq!((over.scheme(), over.as_str(), over.needs_hosts()), ("xdp", "fault+xdp", true));
        assert!(!"unix".parse::<Over>().unwrap().needs_hosts());
        for (typed, expected) in [
            ("xpd", "did you mean `xdp`?"),
            ("fualt+mem", "did you mean `fault`?"),
            ("pcap", "known: dpdk, mem, packet, unix, xdp"),
            ("", "known: dpdk, mem"),
        ] {
            let why = typed.parse::<Over>().unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn modes_and_baselines_are_words() {
        for word in MODES {
            assert_eq!(word.parse::<Mode>().unwrap().to_string(), *word);
        }
        assert!(matches!("tls".parse::<Baselines>(), Err(PlanError::Unknown { .. })));
        assert_eq!("aead".parse(), Ok(Baselines(vec![System::Aead])));
        assert!("embeded".parse::<Mode>().unwrap_err().to_string().contains("did you mean `embedded`?"));
        let all: Baselines = "all".parse().unwrap();
        assert_eq!(all.0.len(), Baseline::plain().count());
        assert_eq!("kernel-tcp,kernel-tcp,all".parse(), Ok(all));
        assert_eq!("none".parse(), Ok(Baselines(vec![])));
        let why = "kernel-tpc".parse::<Baselines>().unwrap_err().to_string();
        assert!(why.contains("did you mean `kernel-tcp`?"), "{why}");
    }

    #[test]
    fn sleepers_are_measured_cold_and_warm_and_pollers_warm() {
        let Baselines(systems) = "kernel-tcp,kernel-tcp-spin".parse().unwrap();
        let ours = vec![barewire(Mode::Embedded, "mem"), barewire(Mode::DaemonPark, "mem")];
        let systems = [systems, ours].concat();
        let states = |settings: &Settings| -> Vec<IdleState> {
            let cells = cells_for(&systems, &Place::nothing(), settings).unwrap();
            cells.iter().map(|c| c.info().idle_state).collect()
        };
        let (cold, warm) = (IdleState::Cold, IdleState::Warm);
        assert_eq!(states(&settings()), [cold, warm, warm, warm, cold, warm]);
        let cold = Settings { idle_state: Some(IdleState::Cold), ..settings() };
        assert_eq!(states(&cold), [IdleState::Cold; 4]);
    }

    #[test]
    fn cells_are_named_after_their_wires() {
        let systems = [
            barewire(Mode::Embedded, "mem"),
            barewire(Mode::EmbeddedOneThread, "mem"),
            barewire(Mode::Embedded, "unix"),
            barewire(Mode::Embedded, "fault+mem"),
        ];
        let cells = cells_for(&systems, &Place::nothing(), &settings()).unwrap();
        let names: Vec<String> = cells.iter().map(|c| c.info().name.to_string()).collect();
        assert_eq!(
            names,
            [
                "barewire embedded over mem",
                "barewire embedded-one-thread over mem",
                "barewire embedded over unix",
                "barewire embedded over fault+mem"
            ]
        );
    }

    #[test]
    fn what_cannot_be_run_is_refused_in_words() {
        let s = settings();
        assert!(refusal(barewire(Mode::Daemon, "unix"), &s).contains("runs over"));
        assert!(refusal(barewire(Mode::EmbeddedOneThread, "unix"), &s).contains("not over `unix`"));
        let several =
            |connections, engines| MsgWorkload { window: 2, connections, engines, ..MsgWorkload::default() };
        let two = Settings { workload: several(2, 2), ..settings() };
        assert!(refusal(barewire(Mode::Embedded, "xdp"), &two).contains("has one engine"));
        assert!(refusal(barewire(Mode::Daemon, "mem"), &two).contains("not over `mem`"));
        let park = Settings { idle: Some(IdleStrategy::default()), ..settings() };
        assert!(refusal(barewire(Mode::Embedded, "mem"), &park).contains("`spin` or `yield`"));
    }

    #[test]
    fn the_tables_have_their_systems() {
        // Where there is no io_uring, its two are not there.
        let rings = usize::from(is_here(Baseline::named("kernel-io-uring").unwrap()));
        let kernel = Baseline::plain().count() - 2 - 2 * (1 - rings);
        assert_eq!((seed_systems(true).len(), seed_systems(false).len()), (7 + kernel, 3 + kernel));
        assert_eq!((demo_systems(true).len(), demo_systems(false).len()), (9, 8));
        assert_eq!(demo_systems(true).iter().filter(|s| s.needs_hosts()).count(), 4);
        assert!(!demo_systems(false).iter().any(System::needs_hosts));
    }
}
