//! A running switch: engines on threads of their own, one [`Switch`] handle in front of them.

use crate::agent::SwitchAgent;
use crate::control::link::MAX_PENDING_LIVE;
use crate::control::{ControlError, Switch, SwitchConfig};
use crate::datapath::{Datapath, TargetConfig};
use crate::plane::Plane;
use crate::ports::Ports;
use crate::prepared::{EngineKind, Prepared};
use barewire_base::Instant;
use barewire_engine::{
    Engine, EngineConfig, EngineError, EngineHandle, EngineLinks, IdleStrategy, SpawnError, StopFlag, Waker,
};
use barewire_frame::{Pool, PoolConfig, PoolError};
use barewire_p4::ir::{Program, Stmt};
use std::path::PathBuf;
use std::sync::Arc;

/// Why a switch did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An engine could not be made.
    #[error("engine: {0}")]
    Engine(#[from] EngineError),
    /// No memory for frames.
    #[error("frames: {0}")]
    Pool(#[from] PoolError),
    /// A port, a program or an entry was refused.
    #[error("{0}")]
    Control(#[from] ControlError),
    /// The program keeps state that engines would have to share.
    #[error("{0}")]
    Shared(String),
}

/// Publishes one engine's counters: called on its thread, often.
pub type Publisher = Box<dyn FnMut(&Plane, Instant)>;
/// Makes the publisher of an engine, on its thread; the engine's index is given.
pub type MakePublisher = Arc<dyn Fn(usize) -> Publisher + Send + Sync>;

/// What a switch is started with.
pub struct ServerConfig {
    /// How many engines forward. More than one needs ports that share their frames out (`packet:IF?fanout=…`), and a
    /// program that keeps no registers and no meters.
    pub engines: usize,
    /// The cores to pin them to, in order; fewer leave the rest unpinned.
    pub cores: Vec<usize>,
    /// What an engine does when there is nothing to do.
    pub idle: IdleStrategy,
    /// Frames of each engine.
    pub pool: PoolConfig,
    /// The target.
    pub target: TargetConfig,
    /// The ports: number and URI.
    pub ports: Vec<(u32, String)>,
    /// Where captures of each port go.
    pub capture: Option<PathBuf>,
    /// Where counters are shown.
    pub publisher: Option<MakePublisher>,
    /// The control side.
    pub control: SwitchConfig,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            engines: 1,
            cores: Vec::new(),
            idle: IdleStrategy::default(),
            // Headroom for headers that a program adds: bmv2 allows 512 bytes.
            pool: PoolConfig { frames: 16_384, chunk_len: 4096, headroom: 640, huge_pages: false },
            target: TargetConfig::default(),
            ports: Vec::new(),
            capture: None,
            publisher: None,
            control: SwitchConfig::default(),
        }
    }
}

/// A running switch. Dropping it without [`Server::stop`] leaves its engines running until the process ends.
pub struct Server {
    switch: Switch,
    engines: Vec<EngineHandle>,
    stop: StopFlag,
}

impl Server {
    /// Start the engines, open the ports, then run `prepared` (or wait for a program).
    ///
    /// # Errors
    /// [`StartError`]; whatever was started has been stopped.
    pub fn start(mut config: ServerConfig, prepared: Option<Arc<Prepared>>) -> Result<Server, StartError> {
        let engines = config.engines.max(1);
        if engines > 1
            && let Some(prepared) = &prepared
        {
            may_be_shared_out(&prepared.program).map_err(StartError::Shared)?;
        }
        if config.control.engine == EngineKind::Kernel {
            if engines > 1 {
                let why = "one engine serves what the kernel hands over: --engines is 1 with --engine kernel";
                return Err(StartError::Shared(why.to_owned()));
            }
            if config.target.drop_port != TargetConfig::default().drop_port {
                let why = "programs in the kernel have the drop port 511";
                return Err(StartError::Shared(why.to_owned()));
            }
            config.control.settle_writes = true;
        }
        let started = barewire_engine::now();
        config.control.clock =
            Box::new(move || (barewire_engine::now().as_nanos() - started.as_nanos()) / 1000);
        let ports = std::mem::take(&mut config.ports);
        let stop = StopFlag::new()?;
        config.control.max_pending = config.control.max_pending.min(MAX_PENDING_LIVE);
        let switch = Switch::new(config.control, prepared)?;
        let mut server = Server { switch, engines: Vec::new(), stop };
        for index in 0..engines {
            let result = server.add_engine(
                index,
                EngineConfig {
                    name: format!("switch-{index}"),
                    core: config.cores.get(index).copied(),
                    idle: config.idle,
                },
                config.pool,
                config.target.clone(),
                config.capture.clone(),
                config.publisher.clone(),
                started,
            );
            if let Err(error) = result {
                server.halt();
                return Err(error);
            }
        }
        for (port, uri) in ports {
            if let Err(error) = server.switch.add_port(port, &uri) {
                server.halt();
                return Err(error.into());
            }
        }
        Ok(server)
    }

    #[allow(clippy::too_many_arguments)]
    fn add_engine(
        &mut self,
        index: usize,
        config: EngineConfig,
        pool: PoolConfig,
        target: TargetConfig,
        capture: Option<PathBuf>,
        publisher: Option<MakePublisher>,
        started: Instant,
    ) -> Result<(), StartError> {
        let waker = Waker::new()?;
        let wake = waker.clone();
        let mut inbox = self.switch.attach(Box::new(move || wake.wake()));
        let links = EngineLinks { waker: Some(waker), ..EngineLinks::default() };
        let build = move || -> Result<Vec<Box<dyn barewire_engine::Agent>>, PoolError> {
            let pool = Pool::new(pool)?;
            let ports = Ports::new(target.cpu_port);
            let mut plane = Plane::new(Datapath::new(target, index, started), ports, pool, capture);
            inbox.drain(&mut plane);
            let publish: Publisher = match publisher {
                Some(make) => make(index),
                None => Box::new(|_, _| {}),
            };
            Ok(vec![Box::new(SwitchAgent::new(plane, inbox, publish))])
        };
        let handle =
            Engine::spawn_with_links(config, links, build, &self.stop).map_err(|error| match error {
                SpawnError::Build(error) => StartError::Pool(error),
                SpawnError::Engine(error) => StartError::Engine(error),
                other => StartError::Shared(other.to_string()),
            })?;
        self.engines.push(handle);
        Ok(())
    }

    /// The handle for control planes.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Raised to stop the engines; also raised when an engine dies.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.stop
    }

    /// Whether an engine has stopped unexpectedly.
    pub fn has_failed(&self) -> bool {
        self.engines.iter().any(EngineHandle::is_finished)
    }

    fn halt(&mut self) -> Option<EngineError> {
        self.stop.stop();
        let mut failed = None;
        for engine in self.engines.drain(..) {
            engine.waker().wake();
            failed = engine.join().err().or(failed);
        }
        failed
    }

    /// Stop: send what waits, close the ports, end the threads.
    ///
    /// # Errors
    /// The error of an engine that had died.
    pub fn stop(mut self) -> Result<(), EngineError> {
        self.halt().map_or(Ok(()), Err)
    }
}

/// Whether several engines may run a program side by side, each with its own replica: not when packets leave something
/// behind that the next packet must see.
pub fn may_be_shared_out(program: &Program) -> Result<(), String> {
    let bodies = program.actions.iter().flat_map(|action| &action.body);
    for stmt in bodies {
        match stmt {
            Stmt::RegisterWrite { register, .. } => {
                let name = &program.registers[register.at()].name;
                return Err(format!(
                    "the program writes register '{name}': it runs on one engine, or actions that use it would not be atomic"
                ));
            }
            Stmt::Meter { meter, .. } => {
                let name = &program.meters[meter.at()].name;
                return Err(format!(
                    "the program uses meter '{name}': it runs on one engine, or each would grant the whole rate"
                ));
            }
            _ => {}
        }
    }
    match program.meters.iter().find(|meter| meter.direct.is_some()) {
        Some(meter) => Err(format!("the program uses direct meter '{}': it runs on one engine", meter.name)),
        None => Ok(()),
    }
}
