//! `barewire._native.Live`: feed channels as they are sent, by a handler in an engine on a thread of its own.
//!
//! ```text
//! engine's thread: FeedHandler -> Collector -> Inbox: items that wait for a reader (bounded: the oldest go, counted)
//!                       ^                             rows of tables               (bounded likewise)
//!                       | jobs, between two packets              | woken by a condition variable, without the interpreter's lock
//! Python's threads:  books, instruments, counters             items, tables
//! ```
//! The engine never waits for Python: it holds the inbox's lock for one push, and a reader for a move of some pointers.

use crate::feed::{FeedError, emulated, plan_of, wanted};
use crate::items::{BATCH, Collector, Item, Kind, Sink, Wanted, lock, tuple};
use crate::tables::{Table, record_batch};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use barewire_base::{Duration, Instant};
use barewire_engine::{Agent, Engine, EngineHandle, SpawnError, StopFlag, Waker, now};
use barewire_feed::Channel;
use barewire_feed_handler::{
    ChannelFile, ChannelPlan, Consumer, FeedChannel, FeedHandler, Input, Plan, PortOptions, SocketOptions,
};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex};

/// Items that one call hands to Python at most.
const TAKE_MAX: usize = 1024;
/// Jobs of Python's that the engine does between two looks at its sources.
const JOBS_MAX: usize = 16;
/// A wait is cut into pieces of this, for Python's own handlers of signals.
const SLICE: std::time::Duration = std::time::Duration::from_millis(200);

type Handler = FeedHandler<FeedChannel<Collector<Post>>>;
type Job = Box<dyn FnOnce(&mut Handler) + Send>;
type Piece = Arc<Vec<Arc<Item>>>;

/// Rows of a table, in pieces that are shared with whoever reads them.
struct Rows {
    full: VecDeque<Piece>,
    last: Vec<Arc<Item>>,
    count: usize,
    max: usize,
    dropped: u64,
}

impl Rows {
    fn new(max: usize) -> Rows {
        Rows { full: VecDeque::new(), last: Vec::new(), count: 0, max, dropped: 0 }
    }

    /// What goes when there are too many goes by the piece.
    fn piece(&self) -> usize {
        (self.max / 16).clamp(1, BATCH)
    }

    fn push(&mut self, item: Arc<Item>) {
        self.last.push(item);
        self.count += 1;
        if self.last.len() >= self.piece() {
            self.full.push_back(Arc::new(std::mem::take(&mut self.last)));
        }
        while self.count > self.max
            && let Some(oldest) = self.full.pop_front()
        {
            self.count -= oldest.len();
            self.dropped += oldest.len() as u64;
        }
    }

    fn so_far(&mut self, clear: bool) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = self.full.iter().map(Arc::clone).collect();
        if !self.last.is_empty() {
            pieces.push(Arc::new(self.last.clone()));
        }
        if clear {
            (self.full, self.last, self.count) = (VecDeque::new(), Vec::new(), 0);
        }
        pieces
    }
}

/// What the engine's thread and Python's share.
#[derive(Default)]
struct Inbox {
    items: VecDeque<Arc<Item>>,
    dropped: u64,
    /// By table.
    rows: [Option<Rows>; 3],
    /// Threads that wait.
    waiting: usize,
    /// No item will come any more, and why if that is a failure.
    ended: Option<Result<(), String>>,
    closed: bool,
}

struct Shared {
    inbox: Mutex<Inbox>,
    told: Condvar,
    /// What is queued, and how many.
    queued: Wanted,
    queue_max: usize,
}

impl Shared {
    fn end(&self, how: Result<(), String>) {
        lock(&self.inbox).ended.get_or_insert(how);
        self.told.notify_all();
    }
}

/// The sink of every channel's listener.
struct Post(Arc<Shared>);

impl Sink for Post {
    fn take(&self, item: Item) {
        let (table, wanted) = match &item.kind {
            Kind::Book { .. } => (Some(Table::Books), Wanted::BOOKS),
            Kind::Trade { .. } => (Some(Table::Trades), Wanted::TRADES),
            Kind::Statistic { .. } => (Some(Table::Statistics), Wanted::STATISTICS),
            Kind::Status { .. } => (None, Wanted::STATUS),
            Kind::Gap { .. } | Kind::Recovery { .. } | Kind::Reset { .. } => (None, Wanted::RECOVERY),
            Kind::Line { .. } => (None, Wanted::LINES),
        };
        let (shared, item) = (&self.0, Arc::new(item));
        let mut inbox = lock(&shared.inbox);
        if let Some(rows) = table.and_then(|table| inbox.rows[table as usize].as_mut()) {
            rows.push(Arc::clone(&item));
        }
        if shared.queued.has(wanted) {
            if inbox.items.len() >= shared.queue_max {
                inbox.items.pop_front();
                inbox.dropped += 1;
            }
            inbox.items.push_back(item);
            if inbox.waiting > 0 {
                shared.told.notify_one();
            }
        }
    }
}

/// The handler as the engine's agent. It stays when its sources are at their end or have failed: its books can still be asked for.
struct Driver {
    handler: Handler,
    jobs: Receiver<Job>,
    shared: Arc<Shared>,
    done: bool,
}

impl Agent for Driver {
    fn name(&self) -> &str {
        "feed"
    }

    fn do_work(&mut self, now: Instant) -> usize {
        let mut work = 0;
        while work < JOBS_MAX
            && let Ok(job) = self.jobs.try_recv()
        {
            job(&mut self.handler);
            work += 1;
        }
        if !self.done {
            match self.handler.process(now) {
                Ok(0) if self.handler.is_finished() => {
                    self.done = true;
                    self.shared.end(Ok(()));
                }
                Ok(packets) => work += packets,
                Err(e) => {
                    self.done = true;
                    self.shared.end(Err(e.to_string()));
                }
            }
        }
        work
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.done { None } else { self.handler.next_deadline() }
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        if !self.done {
            Agent::wait_fds(&self.handler, add);
        }
    }

    fn fds_generation(&self) -> u64 {
        Agent::fds_generation(&self.handler) + u64::from(self.done)
    }

    fn prepare_wait(&mut self) -> bool {
        self.done || Agent::prepare_wait(&mut self.handler)
    }

    fn finish_wait(&mut self) {
        if !self.done {
            Agent::finish_wait(&mut self.handler);
        }
    }

    fn on_close(&mut self) {
        // What was recorded is written out.
        Agent::on_close(&mut self.handler);
        let failure = self.handler.failure().map(ToString::to_string);
        self.shared.end(failure.map_or(Ok(()), Err));
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Nobody waits for an engine that broke.
        self.shared.end(Err("the feed handler's thread ended unexpectedly".to_owned()));
    }
}

/// What a handler is made of: a file, or channels and a source.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    config: Option<PathBuf>,
    channels: Vec<u32>,
    channel_file: Option<PathBuf>,
    udp_port: u16,
    interfaces: (Option<String>, Option<String>),
    ports: (Option<String>, Option<String>),
    items: Vec<String>,
    queue: usize,
    collect: Vec<String>,
    collect_rows: usize,
}

impl Settings {
    fn plan(&self) -> Result<Plan, String> {
        if let Some(path) = &self.config {
            return Plan::read(path).map_err(|e| e.to_string());
        }
        let file = self.channel_file.as_deref().map(ChannelFile::read).transpose();
        let file = file.map_err(|e| e.to_string())?;
        let channel = |id: &u32| match &file {
            None => emulated(*id, self.udp_port),
            Some(file) => {
                let found = file.channel(*id).map_err(|why| format!("channel {id}: {why}"))?;
                Ok(ChannelPlan {
                    label: found.label.clone(),
                    ..ChannelPlan::new(*id, found.connections.clone())
                })
            }
        };
        let mut plan = plan_of(self.channels.iter().map(channel).collect::<Result<_, String>>()?);
        plan.input = match &self.ports {
            (None, _) => Input::Sockets(SocketOptions {
                interface_a: self.interfaces.0.clone(),
                interface_b: self.interfaces.1.clone(),
                ..SocketOptions::default()
            }),
            (Some(port), port_b) => {
                Input::Ports(PortOptions { port_b: port_b.clone(), ..PortOptions::new(port) })
            }
        };
        plan.check().map_err(|(what, why)| format!("{what}: {why}"))?;
        Ok(plan)
    }
}

/// The engine, until it is closed.
struct Running {
    engine: EngineHandle,
    stop: StopFlag,
    jobs: Sender<Job>,
}

/// A feed handler that runs.
#[pyclass(frozen)]
pub struct Live {
    running: Mutex<Option<Running>>,
    shared: Arc<Shared>,
    channels: Vec<u32>,
    process: u32,
}

fn closed() -> PyErr {
    FeedError::new_err("the feed is closed")
}

impl Live {
    /// A child of fork() has the object, but not its thread.
    fn check(&self) -> PyResult<()> {
        if std::process::id() == self.process {
            Ok(())
        } else {
            Err(FeedError::new_err("a child of fork() needs a feed of its own"))
        }
    }

    /// Has the engine do something between two packets, and waits for it, without the interpreter's lock.
    fn ask<R: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Handler) -> R + Send + 'static,
    ) -> PyResult<R> {
        self.check()?;
        let (reply, answer) = sync_channel(1);
        let job: Job = Box::new(move |handler| drop(reply.send(work(handler))));
        py.detach(move || {
            let waker: Option<Waker> = lock(&self.running).as_ref().and_then(|running| {
                running.jobs.send(job).ok()?;
                Some(running.engine.waker().clone())
            });
            waker?.wake();
            answer.recv().ok()
        })
        .ok_or_else(closed)
    }

    /// The index of a channel; without an id, of the only one.
    fn index(&self, channel: Option<u32>) -> PyResult<usize> {
        match channel {
            None if self.channels.len() == 1 => Ok(0),
            None => Err(FeedError::new_err(format!("which channel? There are {:?}", self.channels))),
            Some(id) => self.channels.iter().position(|known| *known == id).ok_or_else(|| {
                FeedError::new_err(format!("there is no channel {id}; there are {:?}", self.channels))
            }),
        }
    }

    fn end(&self) {
        let Some(Running { engine, stop, jobs }) = lock(&self.running).take() else { return };
        drop(jobs);
        {
            let mut inbox = lock(&self.shared.inbox);
            inbox.closed = true;
            inbox.items = VecDeque::new();
        }
        self.shared.told.notify_all();
        stop.stop();
        if std::process::id() == self.process {
            // A panic was told when it happened.
            let _ = engine.join();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl Live {
    #[new]
    fn new(py: Python<'_>, settings: Settings) -> PyResult<Live> {
        let plan = settings.plan().map_err(FeedError::new_err)?;
        let mut inbox = Inbox::default();
        for name in &settings.collect {
            let table = Table::of(name).map_err(FeedError::new_err)?;
            inbox.rows[table as usize] = Some(Rows::new(settings.collect_rows));
        }
        let queued = wanted(&settings.items)?;
        let all = queued | wanted(&settings.collect)?;
        let queue_max = settings.queue;
        let channels = plan.channels.iter().map(|channel| channel.id).collect();
        let shared = Arc::new(Shared { inbox: Mutex::new(inbox), told: Condvar::new(), queued, queue_max });
        let (jobs, received) = channel();
        let failed = |e: &dyn std::fmt::Display| FeedError::new_err(e.to_string());
        let stop = StopFlag::new().map_err(|e| failed(&e))?;
        let config = plan.engine_config();
        let told = Arc::clone(&shared);
        // On the engine's thread, in the network namespace of this one.
        let build = move || {
            let handler = FeedHandler::builder(plan)
                .listen(|_, channel| Collector::new(channel.id, all, Post(Arc::clone(&told))))
                .map_err(|e| e.to_string())?;
            let driver = Driver { handler, jobs: received, shared: told, done: false };
            Ok::<_, String>(vec![Box::new(driver) as Box<dyn Agent>])
        };
        let engine = py.detach(|| Engine::spawn(config, build, &stop)).map_err(|e| match e {
            SpawnError::Build(why) => FeedError::new_err(why),
            other => FeedError::new_err(other.to_string()),
        })?;
        let running = Mutex::new(Some(Running { engine, stop, jobs }));
        Ok(Live { running, shared, channels, process: std::process::id() })
    }

    /// Items that came, waiting for the first. Empty: the time was over. `None`: there will be no more.
    fn next_batch<'py>(
        &self,
        py: Python<'py>,
        timeout_ms: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        self.check()?;
        if lock(&self.shared.inbox).closed {
            return Err(closed());
        }
        let end = timeout_ms.map(|ms| now() + Duration::from_millis(ms));
        loop {
            let left = end.map(|end| std::time::Duration::from(end.since(now())));
            let taken = py.detach(|| {
                let mut inbox = lock(&self.shared.inbox);
                if inbox.items.is_empty() && inbox.ended.is_none() && !inbox.closed {
                    inbox.waiting += 1;
                    let slice = left.map_or(SLICE, |left| left.min(SLICE));
                    let told = self.shared.told.wait_timeout(inbox, slice);
                    inbox = told.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                    inbox.waiting -= 1;
                }
                let count = inbox.items.len().min(TAKE_MAX);
                let taken: Vec<Arc<Item>> = inbox.items.drain(..count).collect();
                match (taken.is_empty(), inbox.closed, &inbox.ended) {
                    (true, true, _) | (true, _, Some(Ok(()))) => Ok(None),
                    (true, _, Some(Err(why))) => Err(why.clone()),
                    _ => Ok(Some(taken)),
                }
            });
            let Some(taken) = taken.map_err(FeedError::new_err)? else { return Ok(None) };
            if taken.is_empty() {
                // Python's own handlers may raise.
                py.check_signals()?;
                if end.is_none_or(|end| now() < end) {
                    continue;
                }
            }
            let list = PyList::empty(py);
            for item in taken {
                list.append(tuple(py, &item)?)?;
            }
            return Ok(Some(list));
        }
    }

    /// Ends the handler and whatever waits.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    /// An instrument's book now, by id or by symbol.
    fn book<'py>(
        &self,
        py: Python<'py>,
        security_id: Option<i32>,
        symbol: Option<String>,
        channel: Option<u32>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let index = self.index(channel)?;
        let found = self.ask(py, move |handler| {
            let channel = handler.channels().get(index)?;
            let id = match (security_id, symbol) {
                (Some(id), _) => id,
                (None, symbol) => of_symbol(channel.core(), &symbol?)?,
            };
            Some(channel.listener().book(&channel.book(id)?))
        })?;
        found.map(|item| tuple(py, &item)).transpose()
    }

    /// Channel, id, symbol, group, asset, type, currency, the book's state, the trading status, the tick: of each instrument.
    fn instruments<'py>(&self, py: Python<'py>, channel: Option<u32>) -> PyResult<Bound<'py, PyList>> {
        let only = channel.map(|id| self.index(Some(id))).transpose()?;
        let all = self.ask(py, move |handler| {
            let mut all = Vec::new();
            for (at, channel) in handler.channels().iter().enumerate() {
                if only.is_some_and(|only| only != at) {
                    continue;
                }
                let core = channel.core();
                for i in core.instruments() {
                    let state = core.book(i.security_id).map_or("undefined", |book| book.state.as_str());
                    let text =
                        [i.symbol.as_str(), i.group.as_str(), i.asset.as_str(), i.security_type.as_str()]
                            .map(str::to_owned);
                    let currency = i.currency.as_str().to_owned();
                    let id = channel.feed_channel().unwrap_or_default();
                    let (status, tick) = (i.trading_status.0, i.min_price_increment);
                    all.push((id, i.security_id, text, currency, state, status, tick));
                }
            }
            all
        })?;
        let list = PyList::empty(py);
        for (id, security_id, [symbol, group, asset, kind], currency, state, status, tick) in all {
            list.append((id, security_id, symbol, group, asset, kind, currency, state, status, tick))?;
        }
        Ok(list)
    }

    /// Every counter by its name, as `barewire stat` shows them, and what the inbox holds and has dropped.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counted = self.ask(py, |handler| {
            let mut counted = Vec::new();
            for channel in handler.channels() {
                let id = channel.feed_channel().unwrap_or_default();
                channel.counts(&mut |group, name, _, value| {
                    counted.push((format!("feed_channel.{id}.{group}{name}"), value));
                });
            }
            for (at, source) in handler.sources().iter().enumerate() {
                source.counts(&mut |name, value| counted.push((format!("source.{at}.{name}"), value)));
            }
            counted
        })?;
        let all = PyDict::new(py);
        for (name, value) in counted {
            all.set_item(name, value)?;
        }
        let inbox = lock(&self.shared.inbox);
        all.set_item("queue.items", inbox.items.len())?;
        all.set_item("queue.dropped", inbox.dropped)?;
        for (rows, (name, _)) in inbox.rows.iter().zip(Table::ALL) {
            if let Some(rows) = rows {
                all.set_item(format!("collected.{name}.rows"), rows.count)?;
                all.set_item(format!("collected.{name}.dropped"), rows.dropped)?;
            }
        }
        Ok(all)
    }

    /// The rows of a table so far.
    fn collected(&self, py: Python<'_>, table: &str, clear: bool) -> PyResult<Collected> {
        self.check()?;
        let table = Table::of(table).map_err(FeedError::new_err)?;
        let pieces = py.detach(|| {
            let mut inbox = lock(&self.shared.inbox);
            if inbox.closed {
                return Err(closed());
            }
            let name = table.name();
            let rows = inbox.rows[table as usize].as_mut();
            let why =
                || FeedError::new_err(format!("{name} are not collected: Live(..., collect=[\"{name}\"])"));
            Ok(rows.ok_or_else(why)?.so_far(clear))
        })?;
        Ok(Collected { table, pieces })
    }
}

fn of_symbol(core: &Channel, symbol: &str) -> Option<i32> {
    core.instruments().find(|i| i.symbol.as_str() == symbol).map(|i| i.security_id)
}

/// Rows of a table, as they were when they were asked for.
#[pyclass(frozen)]
pub struct Collected {
    table: Table,
    pieces: Vec<Piece>,
}

#[pymethods]
impl Collected {
    fn __len__(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Arrow's interface for capsules. Another schema than its own is not made: the consumer casts.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.table.schema();
        let pieces = self.pieces.clone().into_iter();
        let stream = FFI_ArrowArrayStream::new(Box::new(Pieces { table: self.table, schema, pieces }));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// One batch a piece, made when its turn comes.
struct Pieces {
    table: Table,
    schema: SchemaRef,
    pieces: std::vec::IntoIter<Piece>,
}

impl Iterator for Pieces {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.pieces.next()?;
        let items: Vec<&Item> = piece.iter().map(Arc::as_ref).collect();
        Some(record_batch(self.table, &self.schema, &items))
    }
}

impl RecordBatchReader for Pieces {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
