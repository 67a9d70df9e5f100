//! Starting and stopping the daemon.

use crate::agent::{DaemonAgent, Orders};
use crate::applications::Applications;
use crate::background::{self, Background, BackgroundThreads};
use crate::config::{Config, ConfigError};
use crate::control::{Control, Line};
use crate::counters::Published;
use crate::link::{Ground, LinkGuard, LinkLine, LinkOrder, LinkReport};
use crate::notify::{Manager, Watchdog};
use crate::ports::{Opened, serves};
use crate::rdma::Rdma;
use crate::steering::{LinkEnds, link_all};
use barewire_channel::{ControlError, ControlListener};
use barewire_engine::{
    Agent, AttachError, CountersPage, Engine, EngineConfig, EngineError, EngineHandle, EngineLinks,
    EngineSlots, Interface, LinkWatch, PageError, PortSettings, RandomError, RegisterError, SpawnError,
    Stack, StopFlag, Waker, counters_path, interface_of, random,
};
use barewire_host::{Host, HostConfig};
use barewire_port::{OpenError, PortUri};
use barewire_transport::Endpoint;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

/// Entries of the counters page: one engine's, and room to grow.
const COUNTERS_MAX: usize = 512;
/// More entries for each port beside the first.
const PORT_COUNTERS_MAX: usize = 256;

/// Why the daemon could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The port, its pool, or the system's random source.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The transport's limits.
    #[error("transport: {0}")]
    Transport(#[from] barewire_transport::ConfigError),
    /// The RoCE endpoint's limits.
    #[error("rdma: {0}")]
    Rdma(#[from] barewire_roce::ConfigError),
    /// The port or the frames are too small for RDMA.
    #[error("rdma needs packets of {need} bytes, and this port and pool carry {carried}")]
    TooSmall {
        /// What the smallest path MTU needs.
        need: usize,
        /// What there is.
        carried: usize,
    },
    /// A configuration without a port.
    #[error("no port is configured")]
    NoPort,
    /// RDMA is served by one engine.
    #[error("rdma needs daemon.engines = 1")]
    RdmaEngines,
    /// What is wrong with the configuration as a whole.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The counters page.
    #[error(transparent)]
    Page(#[from] PageError),
    /// An entry of the counters page.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(std::io::Error),
    /// The interface changed while the daemon ran, in a way that it cannot follow. Started again, it serves as before.
    #[error("interface {name}: {what}")]
    Interface {
        /// The interface's name.
        name: String,
        /// What changed, and a hint.
        what: String,
    },
}

/// A running daemon. Dropping it stops it.
pub struct Daemon {
    stop: StopFlag,
    engines: Vec<EngineHandle>,
    control: Option<JoinHandle<()>>,
    /// Watch the interfaces of ports that have one.
    links: Vec<JoinHandle<()>>,
    /// Why the daemon ended by itself, when its engines have nothing to say about it.
    failure: Arc<Mutex<Option<DaemonError>>>,
    page: Arc<Mutex<CountersPage>>,
    socket: PathBuf,
    description: String,
    manager: Manager,
    background: Option<BackgroundThreads>,
}

impl From<RandomError> for DaemonError {
    fn from(error: RandomError) -> Self {
        AttachError::from(error).into()
    }
}

/// Built on the engine's thread: ports, frames and flows stay there.
fn build_stack(
    config: &Config,
    engine: u8,
    ports: &[PortUri],
    legs: &[LegStart],
) -> Result<Stack<Applications>, DaemonError> {
    let late: Vec<bool> = legs.iter().map(|leg| leg.is_late).collect();
    let (pool, opened) = config.open_ports(engine, ports, &late)?;
    let mut opened = opened.into_iter();
    let Some(Opened { port, host }) = opened.next() else {
        return Err(DaemonError::NoPort);
    };
    let transport = barewire_transport::Config { mtu: host.mtu, engine, ..config.transport.clone() };
    let applications = Applications::new(config.applications_max as usize, &transport);
    let endpoint = Endpoint::new(transport, applications, random()?)?;
    let rdma = match config.rdma.enabled {
        true => Some(rdma_endpoint(config, &host, pool.frame_max())?),
        false => None,
    };
    let mut stack = Stack::new(port, pool, Host::new(host), endpoint);
    for Opened { port, host } in opened {
        stack = stack.with_leg(port, Host::new(host))?;
    }
    for (leg, start) in stack.legs_mut().iter_mut().zip(legs) {
        start.interface.into_iter().for_each(|index| leg.set_interface(index));
    }
    Ok(match rdma {
        Some(rdma) => stack.with_rdma(rdma),
        None => stack,
    })
}

/// The RoCE endpoint beside the message endpoint, on the same host.
fn rdma_endpoint(
    config: &Config,
    host: &HostConfig,
    frame_max: usize,
) -> Result<barewire_roce::Endpoint, DaemonError> {
    // Ethernet with a VLAN tag comes on top in a frame.
    let carried = usize::from(host.mtu).min(frame_max.saturating_sub(18));
    let fits = barewire_roce::Mtu::for_ethernet(carried);
    let fits = fits.ok_or(DaemonError::TooSmall { need: barewire_roce::Mtu::PACKET_MIN, carried })?;
    let roce = config.rdma.endpoint(config, host.mac, fits);
    Ok(barewire_roce::Endpoint::new(roce, random()?)?)
}

/// What watches the interface under a port, and what it has seen at first; where the port has one.
struct Watched {
    leg: usize,
    fixed_mac: bool,
    watch: LinkWatch,
    name: String,
    seen: Option<Interface>,
}

fn watch(leg: usize, port: &PortSettings) -> Result<Option<Watched>, DaemonError> {
    let uri: PortUri = port.port.parse().map_err(AttachError::from)?;
    let Some(name) = interface_of(&uri) else { return Ok(None) };
    let mut watch = LinkWatch::new(name).map_err(|source| {
        let call = "socket(AF_NETLINK)";
        AttachError::from(OpenError::Io { uri: port.port.clone(), call, source })
    })?;
    let fixed_mac = port.mac.is_some();
    let seen = watch.look();
    // The first port has to be there.
    Ok((leg > 0 || seen.is_some()).then(|| Watched { leg, fixed_mac, watch, name: name.to_owned(), seen }))
}

/// What an engine begins with on each leg.
#[derive(Clone)]
struct LegStart {
    reports: mpsc::Sender<LinkReport>,
    interface: Option<u32>,
    /// The interface cannot be used yet.
    is_late: bool,
}

impl LegStart {
    fn new(watched: &Option<Watched>) -> (LegStart, mpsc::Receiver<LinkReport>) {
        let (reports, heard) = mpsc::channel();
        let seen = watched.as_ref().map(|w| w.seen.as_ref());
        let is_late = watched.as_ref().is_some_and(|w| w.leg > 0) && !seen.is_some_and(serves);
        (LegStart { reports, interface: seen.flatten().map(|i| i.index), is_late }, heard)
    }
}

/// An engine that serves.
struct Started {
    handle: EngineHandle,
    line: Line,
    link: mpsc::Sender<(usize, LinkOrder)>,
    /// Of each port.
    mtus: Vec<u16>,
    description: String,
}

fn start_engine(
    config: &Config,
    engine: u8,
    links: Option<LinkEnds>,
    page: &Arc<Mutex<CountersPage>>,
    background: &Background,
    legs: Vec<LegStart>,
    stop: &StopFlag,
) -> Result<Started, DaemonError> {
    let (commands, orders) = mpsc::channel();
    let (link_orders, link) = mpsc::channel();
    let pending = Arc::new(AtomicBool::new(false));
    let waker = Waker::new()?;
    let (told, tells) = mpsc::sync_channel(1);
    let slots = {
        let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
        EngineSlots::register(&mut page, &engine.to_string())?
    };
    let name = if engine == 0 { config.name.clone() } else { format!("{}.{engine}", config.name) };
    let engine_config = EngineConfig { name: name.clone(), core: config.core_of(engine), idle: config.idle };
    let engine_links = EngineLinks { waker: Some(waker.clone()), slots: Some(slots), counters: None };
    let build = {
        let (config, page, pending) = (config.clone(), Arc::clone(page), Arc::clone(&pending));
        let background = background.clone();
        move || -> Result<Vec<Box<dyn Agent>>, DaemonError> {
            let late: Vec<bool> = legs.iter().map(|leg| leg.is_late).collect();
            let ports = config.ports_of(engine, &late).map_err(AttachError::from)?;
            let stack = build_stack(&config, engine, &ports, &legs)?;
            let link_reports = legs.into_iter().map(|leg| leg.reports).collect();
            let prefix = if config.engines > 1 { format!("{engine}.") } else { String::new() };
            let rdma = stack
                .rdma()
                .map(|_| Box::new(Rdma::new(config.rdma.quotas, config.applications_max as usize)));
            let published = Published::register(&page, &prefix, &stack, rdma.as_deref())?;
            let mtus: Vec<u16> = stack.legs().iter().map(|leg| leg.host().config().mtu).collect();
            let descriptions = stack.legs().iter().map(|leg| leg.port().caps().description.as_str());
            let _ = told.send((mtus, descriptions.collect::<Vec<_>>().join("; ")));
            let orders = Orders { pending, commands: orders, link, link_reports };
            let links = links.map(|ends| ends.open(ports)).transpose().map_err(AttachError::from)?;
            Ok(vec![Box::new(DaemonAgent::new(name, stack, orders, published, background, links, rdma))])
        }
    };
    let handle = Engine::spawn_with_links(engine_config, engine_links, build, stop).map_err(|e| match e {
        SpawnError::Build(e) => e,
        SpawnError::Engine(e) => DaemonError::Engine(e),
        other => DaemonError::Thread(std::io::Error::other(other.to_string())),
    })?;
    let (mtus, description) = tells.recv().unwrap_or_default();
    Ok(Started { handle, line: Line { commands, pending, waker }, link: link_orders, mtus, description })
}

/// Starts the thread that applications speak to.
fn start_control(control: Control, is_service: bool, stop: &StopFlag) -> Result<JoinHandle<()>, DaemonError> {
    let run = move || {
        // By the thread that then vouches for the engines: the manager hears it first.
        Manager::of(is_service).tell("READY=1\n");
        control.run();
    };
    std::thread::Builder::new().name("control".to_owned()).spawn(run).map_err(|e| {
        // Nobody would ever stop the engine.
        stop.stop();
        DaemonError::Thread(e)
    })
}

impl Daemon {
    /// Opens the port, starts the engine, and lets applications in. When it returns, the daemon serves.
    ///
    /// # Errors
    /// [`DaemonError`]: what could not be opened.
    pub fn start(config: &Config) -> Result<Daemon, DaemonError> {
        if config.rdma.enabled && config.engines > 1 {
            return Err(DaemonError::RdmaEngines);
        }
        config.check_rdma()?;
        config.check_ports()?;
        let stop = StopFlag::new()?;
        // The socket first: it is what tells a second daemon of the same place to go away.
        let listener = ControlListener::bind_with_mode(&config.socket, config.socket_mode)?;
        let engines = config.engines.max(1);
        let entries = (COUNTERS_MAX + PORT_COUNTERS_MAX * config.ports.len()) * usize::from(engines);
        let page = CountersPage::create(&counters_path(&config.name)?, entries)?;
        let page = Arc::new(Mutex::new(page));
        let links = if engines > 1 {
            let mtu = config.all_ports().map(|port| port.mtu).max().unwrap_or_default();
            let links = link_all(engines, mtu).map_err(AttachError::from)?;
            links.into_iter().map(Some).collect()
        } else {
            vec![None]
        };
        let (background, background_threads) =
            background::start(std::io::stderr()).map_err(DaemonError::Thread)?;
        let mut daemon = Daemon {
            stop: stop.clone(),
            engines: Vec::new(),
            control: None,
            links: Vec::new(),
            failure: Arc::default(),
            page,
            socket: config.socket.clone(),
            description: String::new(),
            manager: Manager::of(config.is_service),
            background: Some(background_threads),
        };
        // Before the ports: what changes while they are opened is news.
        let watched: Vec<_> =
            config.all_ports().enumerate().map(|(leg, port)| watch(leg, port)).collect::<Result<_, _>>()?;
        let (legs, heard): (Vec<_>, Vec<_>) = watched.iter().map(LegStart::new).unzip();
        let (mut lines, mut link_lines, mut mtus) = (Vec::new(), Vec::new(), vec![u16::MAX; watched.len()]);
        for (engine, links) in (0..engines).zip(links) {
            // When one cannot start, dropping the daemon stops those that did.
            let started =
                start_engine(config, engine, links, &daemon.page, &background, legs.clone(), &stop)?;
            daemon.engines.push(started.handle);
            daemon.description = started.description;
            link_lines.push((started.link, Arc::clone(&started.line.pending), started.line.waker.clone()));
            lines.push(started.line);
            for (least, mtu) in mtus.iter_mut().zip(started.mtus) {
                *least = mtu.min(*least);
            }
        }
        let watchdog = config
            .is_service
            .then(|| Watchdog::from_env(&daemon.counters_path(), usize::from(engines)))
            .flatten();
        // A flow may leave by any of them.
        let least = mtus.iter().copied().min().unwrap_or(0);
        let told_mtu = Arc::new(AtomicU32::new(least.into()));
        let control = Control::new(
            listener,
            stop.clone(),
            config.clone(),
            Arc::clone(&told_mtu),
            lines,
            watchdog,
            background.clone(),
        );
        daemon.control = Some(start_control(control, config.is_service, &stop)?);
        for (watched, heard) in
            watched.into_iter().zip(heard).filter_map(|(watched, heard)| Some((watched?, heard)))
        {
            let leg = watched.leg;
            let ground = Ground {
                name: watched.name.clone(),
                mtu: mtus[leg],
                told_mtu: Arc::clone(&told_mtu),
                fixed_mac: watched.fixed_mac,
                rdma: config.rdma.enabled && leg == 0,
            };
            let lines = link_lines.iter().map(|(orders, pending, waker)| LinkLine {
                orders: orders.clone(),
                leg,
                pending: Arc::clone(pending),
                waker: waker.clone(),
            });
            daemon.guard_link(watched, ground, lines.collect(), heard, &background)?;
        }
        Ok(daemon)
    }

    /// Starts the thread that watches the interface under a port.
    fn guard_link(
        &mut self,
        watched: Watched,
        ground: Ground,
        lines: Vec<LinkLine>,
        heard: mpsc::Receiver<LinkReport>,
        background: &Background,
    ) -> Result<(), DaemonError> {
        let Watched { leg, watch, name, seen, .. } = watched;
        if !serves(seen.as_ref()) {
            let why = match &seen {
                None => "is not there".to_owned(),
                Some(i) if !i.up => "is down".to_owned(),
                Some(i) => format!("has an MTU of {}", i.mtu),
            };
            background.say(format!("interface {name} {why}; its port is opened when it can be used"));
        }
        let failure = Arc::clone(&self.failure);
        let guard = LinkGuard::new(watch, seen, ground, lines, heard, failure, background.clone());
        let stop = self.stop.clone();
        let run = move || guard.run(&stop);
        let name = if leg == 0 { "link".to_owned() } else { format!("link.{leg}") };
        // Dropping the daemon stops what runs already.
        let thread = std::thread::Builder::new().name(name).spawn(run);
        self.links.push(thread.map_err(DaemonError::Thread)?);
        Ok(())
    }

    /// Raised to stop the daemon; a signal handler may do it.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.stop
    }

    /// The control socket.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// What port was opened, and how.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The file with the counters.
    pub fn counters_path(&self) -> PathBuf {
        self.page.lock().unwrap_or_else(PoisonError::into_inner).path().to_owned()
    }

    /// Waits until the daemon has stopped.
    ///
    /// # Errors
    /// The engine's, when it ended by itself.
    pub fn wait(mut self) -> Result<(), DaemonError> {
        self.join()
    }

    /// Stops the daemon: peers are told, the port is closed, applications see the daemon go.
    ///
    /// # Errors
    /// The engine's.
    pub fn stop(mut self) -> Result<(), DaemonError> {
        self.stop.stop();
        self.join()
    }

    fn join(&mut self) -> Result<(), DaemonError> {
        let mut result = Ok(());
        for engine in self.engines.drain(..) {
            let ended = engine.join();
            // One that fails takes the others along: half a daemon would serve half its applications.
            self.stop.stop();
            result = result.and(ended);
        }
        // However the engine ended, nobody is served any more.
        self.stop.stop();
        self.manager.tell_last("STOPPING=1\n");
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
        for link in self.links.drain(..) {
            let _ = link.join();
        }
        if let Some(background) = self.background.take() {
            background.finish();
        }
        if let Some(failure) = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(failure);
        }
        Ok(result?)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.join();
    }
}
