//! An engine on a thread of its own.

use crate::{
    Agent, Engine, EngineConfig, EngineCounters, EngineError, EngineLinks, SpawnError, StopFlag, Waker,
};
use std::any::Any;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// An engine that runs elsewhere. Dropping the handle leaves it running, until its stop flag is raised.
#[derive(Debug)]
pub struct EngineHandle {
    name: String,
    waker: Waker,
    counters: Arc<EngineCounters>,
    thread: JoinHandle<()>,
}

impl Engine {
    /// Starts a thread, makes the engine there (pinned first, so that memory the agents allocate is near), builds its
    /// agents there and runs them until `stop` is raised. Returns when the agents are built and the engine runs, or with
    /// what went wrong. When an agent panics later, `stop` is raised: half a program is worse than none.
    ///
    /// # Errors
    /// [`SpawnError::Engine`] as for [`Engine::new`], when no thread can be started, or when `build` panics;
    /// [`SpawnError::Build`] with the error of `build`.
    pub fn spawn<E, B>(config: EngineConfig, build: B, stop: &StopFlag) -> Result<EngineHandle, SpawnError<E>>
    where
        B: FnOnce() -> Result<Vec<Box<dyn Agent>>, E> + Send + 'static,
        E: Send + 'static,
    {
        Engine::spawn_with_links(config, EngineLinks::default(), build, stop)
    }

    /// As [`spawn`](Engine::spawn), tied to the rest of the program.
    ///
    /// # Errors
    /// As [`spawn`](Engine::spawn).
    pub fn spawn_with_links<E, B>(
        config: EngineConfig,
        mut links: EngineLinks,
        build: B,
        stop: &StopFlag,
    ) -> Result<EngineHandle, SpawnError<E>>
    where
        B: FnOnce() -> Result<Vec<Box<dyn Agent>>, E> + Send + 'static,
        E: Send + 'static,
    {
        let name = config.name.clone();
        let waker = match links.waker.take() {
            Some(waker) => waker,
            None => Waker::new().map_err(SpawnError::Engine)?,
        };
        links.waker = Some(waker.clone());
        let counters = Arc::clone(links.counters.get_or_insert_default());
        let (ready, built) = mpsc::sync_channel(1);
        let stop = stop.clone();
        let body = move || {
            let guard = StopOnPanic(stop.clone());
            match assemble(config, links, build) {
                Ok(mut engine) => {
                    // The receiver waits for exactly this.
                    let _ = ready.send(Ok(()));
                    engine.run(&stop);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
            drop(guard);
        };
        // A NUL would make the builder panic.
        let thread = thread::Builder::new().name(name.replace('\0', "?")).spawn(body);
        let thread = thread
            .map_err(|source| SpawnError::Engine(EngineError::Sys { call: "pthread_create", source }))?;
        let handle = EngineHandle { name, waker, counters, thread };
        match built.recv() {
            Ok(Ok(())) => Ok(handle),
            Ok(Err(error)) => {
                // Nothing is left to run, so this is short; resources of the build are free when we return.
                let _ = handle.join();
                Err(error)
            }
            // The sender went without a word: `build` panicked.
            Err(mpsc::RecvError) => match handle.join() {
                Err(error) => Err(SpawnError::Engine(error)),
                Ok(()) => unreachable!("the thread ended well and said nothing"),
            },
        }
    }
}

fn assemble<E, B>(config: EngineConfig, links: EngineLinks, build: B) -> Result<Engine, SpawnError<E>>
where
    B: FnOnce() -> Result<Vec<Box<dyn Agent>>, E>,
{
    let mut engine = Engine::with_links(config, links).map_err(SpawnError::Engine)?;
    for agent in build().map_err(SpawnError::Build)? {
        engine.add(agent);
    }
    Ok(engine)
}

struct StopOnPanic(StopFlag);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

impl EngineHandle {
    /// The engine's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Wakes the engine.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// What the engine counts about itself, as it runs.
    pub fn counters(&self) -> &Arc<EngineCounters> {
        &self.counters
    }

    /// Has the engine ended?
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the engine has ended. Raises no flag: call [`StopFlag::stop`] first.
    ///
    /// # Errors
    /// [`EngineError::Panicked`] when an agent panicked.
    pub fn join(self) -> Result<(), EngineError> {
        let EngineHandle { name, thread, .. } = self;
        thread.join().map_err(|panic| EngineError::Panicked { engine: name, message: panic_message(&*panic) })
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)").to_owned()
}
