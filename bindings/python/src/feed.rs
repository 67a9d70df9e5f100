//! `barewire._native.Capture`: what captured market data has, as items and as Arrow tables.
//!
//! A thread replays the captures and hands over batches; it waits while nobody takes them, so that memory is bounded by a few batches
//! whatever the captures' size.

use crate::items::{BATCH, Collector, Item, Sink, Wanted, lock, tuple};
use crate::tables::{Table, record_batch};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use barewire_feed_emulator::connections;
use barewire_feed_handler::{ChannelPlan, FeedHandler, Input, Plan, Replay, SocketOptions};
use barewire_port::Speed;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

pyo3::create_exception!(
    _native,
    FeedError,
    pyo3::exceptions::PyException,
    "What is wrong with captures, channels or configuration."
);

type Batch = Result<Vec<Item>, String>;

/// A channel as `barewire feed emulate` sends it.
pub fn emulated(channel: u32, udp_port: u16) -> Result<ChannelPlan, String> {
    let id = u16::try_from(channel)
        .map_err(|_| format!("channel {channel}: an emulated channel is below 65536"))?;
    Ok(ChannelPlan::new(channel, connections(id, udp_port)))
}

/// A handler of these channels, with the defaults.
pub fn plan_of(channels: Vec<ChannelPlan>) -> Plan {
    let input = Input::Sockets(SocketOptions::default());
    Plan { name: "python".into(), idle: Default::default(), core: None, input, channels, record: None }
}

fn plan(config: Option<PathBuf>, channel: u32, udp_port: u16) -> Result<Plan, String> {
    match config {
        Some(path) => Plan::read(&path).map_err(|e| e.to_string()),
        None => Ok(plan_of(vec![emulated(channel, udp_port)?])),
    }
}

/// What is wanted of these names, as Python's exception.
pub fn wanted(names: &[String]) -> PyResult<Wanted> {
    Wanted::of(names).map_err(FeedError::new_err)
}

/// Where a replay's items wait until there are enough for a batch.
struct Pile(Arc<Mutex<Vec<Item>>>);

impl Sink for Pile {
    fn take(&self, item: Item) {
        lock(&self.0).push(item);
    }
}

fn replay(
    captures: &[PathBuf],
    mut plan: Plan,
    wanted: Wanted,
    to: &SyncSender<Batch>,
) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut replay = Replay::open(captures, &plan.channels, true).map_err(|e| text(&e))?;
    let start = replay.next_at().ok_or("the captures have no packets")?;
    // What is replayed was recorded before; the file may even be the one that is read.
    plan.record = None;
    let batch = Arc::new(Mutex::new(Vec::new()));
    let mut handler = FeedHandler::builder(plan)
        .sources(vec![])
        .start(start)
        .listen(|_, channel| Collector::new(channel.id, wanted, Pile(Arc::clone(&batch))))
        .map_err(|e| text(&e))?;
    let mut packets = 0;
    loop {
        // It is asked before each packet.
        let few = || lock(&batch).len() < BATCH;
        packets += handler.replay_while(&mut replay, Speed::Flat, &few).map_err(|e| text(&e))?;
        let items = std::mem::take(&mut *lock(&batch));
        let over = items.len() < BATCH;
        if !items.is_empty() && to.send(Ok(items)).is_err() {
            // Nobody takes them any more.
            return Ok(());
        }
        if over {
            break;
        }
    }
    if packets == 0 {
        return Err(
            "no packet in the captures belongs to these channels: the configuration names groups and UDP ports"
                .into(),
        );
    }
    Ok(())
}

fn start(captures: Vec<PathBuf>, plan: Plan, wanted: Wanted) -> PyResult<Receiver<Batch>> {
    let (to, from) = sync_channel(2);
    let work = move || {
        if let Err(why) = replay(&captures, plan, wanted, &to) {
            let _ = to.send(Err(why));
        }
    };
    std::thread::Builder::new().name("barewire-replay".to_owned()).spawn(work)?;
    Ok(from)
}

/// Captures that are being replayed.
#[pyclass(frozen)]
pub struct Capture {
    from: Mutex<Option<Receiver<Batch>>>,
}

#[pymethods]
impl Capture {
    #[new]
    fn new(
        captures: Vec<PathBuf>,
        config: Option<PathBuf>,
        channel: u32,
        udp_port: u16,
        names: Vec<String>,
    ) -> PyResult<Capture> {
        let plan = plan(config, channel, udp_port).map_err(FeedError::new_err)?;
        let from = start(captures, plan, wanted(&names)?)?;
        Ok(Capture { from: Mutex::new(Some(from)) })
    }

    /// The next items; an empty list at the end.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let batch = py.detach(|| lock(&self.from).as_ref().map(|from| from.recv()));
        let items = match batch {
            Some(Ok(batch)) => batch.map_err(FeedError::new_err)?,
            None | Some(Err(_)) => Vec::new(),
        };
        let list = PyList::empty(py);
        for item in &items {
            list.append(tuple(py, item)?)?;
        }
        Ok(list)
    }

    /// The replay ends.
    fn close(&self, py: Python<'_>) {
        // A reader may be inside.
        py.detach(|| *lock(&self.from) = None);
    }
}

struct Batches {
    table: Table,
    schema: SchemaRef,
    from: Receiver<Batch>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.from.recv().ok()? {
            Ok(items) => Some(record_batch(self.table, &self.schema, &items.iter().collect::<Vec<_>>())),
            Err(why) => Some(Err(ArrowError::ExternalError(why.into()))),
        }
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A table (books, trades, statistics) as a stream of Arrow's C interface. Its consumer takes it out of the capsule, without a copy.
#[pyfunction]
pub fn capture_stream<'py>(
    py: Python<'py>,
    captures: Vec<PathBuf>,
    config: Option<PathBuf>,
    channel: u32,
    udp_port: u16,
    table: String,
) -> PyResult<Bound<'py, PyCapsule>> {
    let plan = plan(config, channel, udp_port).map_err(FeedError::new_err)?;
    let kind = Table::of(&table).map_err(FeedError::new_err)?;
    let from = start(captures, plan, wanted(&[table])?)?;
    let stream = FFI_ArrowArrayStream::new(Box::new(Batches { table: kind, schema: kind.schema(), from }));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}
