//! `barewire._native.Live`: a feed channel as it arrives, by a thread that sleeps in the engine until packets do.
//!
//! A feed does not wait: what nobody takes is kept up to a limit, and then the oldest goes and is counted.

use crate::feed::{Collector, FeedError, Item, lock, plan, tuple, wanted};
use barewire_base::Instant;
use barewire_engine::{Agent, Engine, StopFlag, now};
use barewire_feed_handler::{FeedChannel, FeedHandler, Input, Plan};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Items that are kept while nobody takes them.
const KEPT_MAX: usize = 65_536;
/// Python's own signals are looked at so often in a wait.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);
/// Items of a batch.
const BATCH: usize = 4096;

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    lost: u64,
    /// The thread has ended, and why if it was not asked to.
    ended: Option<Option<String>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn add(&self, items: Vec<Item>) {
        let mut state = lock(&self.state);
        state.items.extend(items);
        let over = state.items.len().saturating_sub(KEPT_MAX);
        state.items.drain(..over);
        state.lost += over as u64;
        drop(state);
        self.changed.notify_all();
    }

    fn end(&self, why: Option<String>) {
        lock(&self.state).ended.get_or_insert(why);
        self.changed.notify_all();
    }
}

/// The handler as an agent that hands items over when it has looked at its sources.
struct Driver {
    handler: FeedHandler<FeedChannel<Collector>>,
    batch: Arc<Mutex<Vec<Item>>>,
    shared: Arc<Shared>,
}

impl Agent for Driver {
    fn name(&self) -> &str {
        Agent::name(&self.handler)
    }

    fn do_work(&mut self, now: Instant) -> usize {
        let work = Agent::do_work(&mut self.handler, now);
        let items = std::mem::take(&mut *lock(&self.batch));
        if !items.is_empty() {
            self.shared.add(items);
        }
        if let Some(failure) = self.handler.failure() {
            self.shared.end(Some(failure.to_string()));
        }
        work
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.handler.next_deadline()
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        self.handler.wait_fds(add);
    }

    fn fds_generation(&self) -> u64 {
        self.handler.fds_generation()
    }

    fn prepare_wait(&mut self) -> bool {
        self.handler.prepare_wait()
    }

    fn finish_wait(&mut self) {
        self.handler.finish_wait();
    }
}

/// Runs in the thread; `ready` hears whether the sources are open.
fn run(
    plan: Plan,
    wanted: crate::feed::Wanted,
    stop: &StopFlag,
    shared: &Arc<Shared>,
    ready: &SyncSender<Result<(), String>>,
) {
    let batch = Arc::new(Mutex::new(Vec::new()));
    let opened = || -> Result<Engine, String> {
        let handler = FeedHandler::builder(plan)
            .start(now())
            .stop_at_end(stop.clone())
            .listen(|_, channel| Collector::new(channel.id, wanted, &batch))
            .map_err(|e| e.to_string())?;
        let mut engine = Engine::new(handler.engine_config()).map_err(|e| e.to_string())?;
        engine.add(Box::new(Driver { handler, batch: Arc::clone(&batch), shared: Arc::clone(shared) }));
        Ok(engine)
    };
    match opened() {
        Ok(mut engine) => {
            let _ = ready.send(Ok(()));
            engine.run(stop);
        }
        Err(why) => {
            let _ = ready.send(Err(why));
        }
    }
    shared.end(None);
}

/// Live channels.
#[pyclass(frozen)]
pub struct Live {
    shared: Arc<Shared>,
    stop: StopFlag,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[pymethods]
impl Live {
    #[new]
    fn new(
        py: Python<'_>,
        config: Option<PathBuf>,
        channel: u32,
        udp_port: u16,
        interface: Option<String>,
        names: Vec<String>,
    ) -> PyResult<Live> {
        let emulated = config.is_none();
        let mut plan = plan(config, channel, udp_port).map_err(FeedError::new_err)?;
        match (interface, &mut plan.input) {
            (Some(name), Input::Sockets(options)) => options.interface_a = Some(name),
            (Some(_), _) => {
                let why = "an interface is for sockets; this configuration receives from ports";
                return Err(FeedError::new_err(why));
            }
            // Where the emulator sends.
            (None, Input::Sockets(options)) if emulated => options.interface_a = Some("lo".to_owned()),
            _ => {}
        }
        let wanted = wanted(&names)?;
        let (shared, stop) = (Arc::new(Shared::default()), StopFlag::new().map_err(error)?);
        let (ready, is_ready) = sync_channel(1);
        let (of_thread, flag) = (Arc::clone(&shared), stop.clone());
        let work = move || run(plan, wanted, &flag, &of_thread, &ready);
        let thread = std::thread::Builder::new().name("barewire-feed".to_owned()).spawn(work)?;
        let thread = Mutex::new(Some(thread));
        match py.detach(move || is_ready.recv()) {
            Ok(Ok(())) => Ok(Live { shared, stop, thread }),
            Ok(Err(why)) => Err(FeedError::new_err(why)),
            Err(_) => Err(FeedError::new_err("the feed's thread ended")),
        }
    }

    /// The next items: none when the time (in seconds) is over. `None`: the feed has ended.
    fn next_batch<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut left = timeout.map(|s| Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX));
        loop {
            let nap = left.map_or(SIGNAL_CHECK, |left| left.min(SIGNAL_CHECK));
            let (items, ended) = py.detach(|| {
                let state = lock(&self.shared.state);
                let idle = |state: &mut State| state.items.is_empty() && state.ended.is_none();
                let waited = self.shared.changed.wait_timeout_while(state, nap, idle);
                let mut state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                let take = state.items.len().min(BATCH);
                (state.items.drain(..take).collect::<Vec<Item>>(), state.ended.clone())
            });
            if items.is_empty() {
                match ended {
                    Some(Some(why)) => return Err(FeedError::new_err(why)),
                    Some(None) => return Ok(None),
                    None => {}
                }
                py.check_signals()?;
                left = left.map(|left| left.saturating_sub(nap));
                if left != Some(Duration::ZERO) {
                    continue;
                }
            }
            let list = PyList::empty(py);
            for item in items {
                list.append(tuple(py, item)?)?;
            }
            return Ok(Some(list));
        }
    }

    /// Items that nobody took in time.
    #[getter]
    fn lost(&self) -> u64 {
        lock(&self.shared.state).lost
    }

    /// The feed ends; what was kept can still be taken.
    fn close(&self, py: Python<'_>) {
        self.stop.stop();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = py.detach(|| thread.join());
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

fn error(error: impl std::fmt::Display) -> PyErr {
    FeedError::new_err(error.to_string())
}
