//! `barewire._native.Switch`: a P4 switch in process, without threads, interfaces or a daemon.

use barewire_p4::ir::{Program, TableActions, TableId};
use barewire_p4_formats::stf::{ActionText, KeyValue, Number, resolve};
use barewire_p4_source::{MacroOption, Options};
use barewire_p4_state::TableAction;
use barewire_switch::control::{ActionCall, MirrorSession};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::{Harness, Sent};
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::source;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::Path;
use std::sync::Arc;

pyo3::create_exception!(_native, SwitchError, pyo3::exceptions::PyException, "What the switch refused.");

fn refused(error: impl std::fmt::Display) -> PyErr {
    SwitchError::new_err(error.to_string())
}

fn load(path: &str, include: Vec<String>, define: Vec<String>) -> PyResult<Program> {
    if Path::new(path).extension().is_some_and(|extension| extension == "p4") {
        // A file that is not there is Python's own error.
        std::fs::File::open(path)?;
        let macros = define.into_iter().map(MacroOption::Define).collect();
        let made = source::load(&source::Files, &Options { include, macros }, path).map_err(refused)?;
        return Ok(made.program);
    }
    barewire_p4_formats::import::import(&std::fs::read_to_string(path)?).map_err(refused)
}

/// A part of a key: how, and one or two numbers in decimal digits.
type Part = (String, String, String, String);

fn number(digits: &str) -> Number {
    Number { base: 10, digits: digits.to_owned() }
}

fn key_of(parts: &[Part]) -> PyResult<Vec<(String, KeyValue)>> {
    let value = |(name, how, a, b): &Part| {
        let (a, b) = (number(a), number(b));
        let value = match how.as_str() {
            "value" => KeyValue::Number(a),
            "prefix" => KeyValue::Prefix(a, b),
            "mask" => KeyValue::Masked(a, b),
            "range" => KeyValue::Range(a, b),
            _ => return Err(refused(format!("no such kind of match: {how}"))),
        };
        Ok((name.clone(), value))
    };
    parts.iter().map(value).collect()
}

fn action_of(name: &str, args: &[(String, String)]) -> ActionText {
    ActionText { name: name.to_owned(), args: args.iter().map(|(k, v)| (k.clone(), number(v))).collect() }
}

fn packets<'py>(py: Python<'py>, sent: Vec<Sent>) -> Vec<(u32, Bound<'py, PyBytes>)> {
    sent.into_iter().map(|s| (s.port, PyBytes::new(py, &s.bytes))).collect()
}

/// Used by the thread that made it.
#[pyclass(unsendable)]
pub struct Switch {
    program: Arc<Program>,
    kind: EngineKind,
    drop_port: u32,
    harness: Harness,
}

impl Switch {
    fn target(drop_port: u32) -> TargetConfig {
        TargetConfig { drop_port, ..TargetConfig::default() }
    }

    fn table_action(&self, table: TableId, call: ActionCall) -> PyResult<TableAction> {
        match self.program.tables[table.at()].source {
            TableActions::Direct => Ok(TableAction::Call(call)),
            TableActions::Profile(profile) => {
                self.harness.switch().add_member(profile, call).map(TableAction::Member).map_err(refused)
            }
        }
    }
}

#[pymethods]
impl Switch {
    #[new]
    fn new(
        py: Python<'_>,
        path: &str,
        include: Vec<String>,
        define: Vec<String>,
        engine: &str,
        drop_port: u32,
    ) -> PyResult<Switch> {
        let kind = match engine {
            "native" => EngineKind::Native,
            "interpreter" => EngineKind::Interpreter,
            _ => {
                return Err(refused(format!("there is no engine '{engine}'; there are native, interpreter")));
            }
        };
        // Compiling takes its time, and other threads may go on.
        let (program, prepared) = py.detach(|| {
            let program = Arc::new(load(path, include, define)?);
            let prepared = Prepared::new(Arc::clone(&program), kind).map_err(refused)?;
            Ok::<_, PyErr>((program, prepared))
        })?;
        let harness = Harness::new(Arc::new(prepared), Switch::target(drop_port)).map_err(refused)?;
        Ok(Switch { program, kind, drop_port, harness })
    }

    /// The entry's handle.
    fn insert(
        &mut self,
        table: &str,
        key: Vec<Part>,
        action: &str,
        args: Vec<(String, String)>,
        priority: Option<u32>,
    ) -> PyResult<u64> {
        let text = action_of(action, &args);
        let entry = resolve::entry(&self.program, table, priority, &key_of(&key)?, &text).map_err(refused)?;
        let call = self.table_action(entry.table, entry.call)?;
        self.harness.switch().add_entry(entry.table, entry.key, entry.priority, call).map_err(refused)
    }

    fn set_default(&mut self, table: &str, action: &str, args: Vec<(String, String)>) -> PyResult<()> {
        let table = resolve::table(&self.program, table).map_err(refused)?;
        let call = resolve::action(&self.program, table, &action_of(action, &args)).map_err(refused)?;
        let call = self.table_action(table, call)?;
        self.harness.switch().set_default(table, call).map_err(refused)
    }

    fn delete(&mut self, table: &str, handle: u64) -> PyResult<()> {
        let table = resolve::table(&self.program, table).map_err(refused)?;
        self.harness.switch().delete_entry(table, handle).map_err(refused)
    }

    fn clear(&mut self, table: &str) -> PyResult<()> {
        let table = resolve::table(&self.program, table).map_err(refused)?;
        self.harness.switch().clear_table(table, false).map_err(refused)
    }

    /// What comes out: ports with packets.
    fn send<'py>(
        &mut self,
        py: Python<'py>,
        port: u32,
        packet: &[u8],
    ) -> PyResult<Vec<(u32, Bound<'py, PyBytes>)>> {
        let sent =
            self.harness.send(port, packet).ok_or_else(|| refused("the packet is longer than a frame"))?;
        Ok(packets(py, sent))
    }

    /// Moves the clock, and takes what comes out of queues whose time has come.
    fn advance<'py>(&mut self, py: Python<'py>, us: u64) -> Vec<(u32, Bound<'py, PyBytes>)> {
        self.harness.advance_us(us);
        packets(py, self.harness.poll())
    }

    /// Packets and bytes.
    fn counter(&mut self, name: &str, index: u64) -> PyResult<(u64, u64)> {
        let id = resolve::counter(&self.program, name).map_err(refused)?;
        let [packets, bytes] =
            self.harness.plane().datapath_state().read_counter(id, index).map_err(refused)?;
        Ok((packets, bytes))
    }

    /// The register's bytes, the highest first.
    fn register<'py>(&mut self, py: Python<'py>, name: &str, index: u64) -> PyResult<Bound<'py, PyBytes>> {
        let id = resolve::register(&self.program, name).map_err(refused)?;
        let value = self.harness.plane().datapath_state().read_register(id, index).map_err(refused)?;
        Ok(PyBytes::new(py, &value.to_bytes_be()))
    }

    fn multicast(&mut self, group: u32, ports: Vec<u32>) -> PyResult<()> {
        let switch = self.harness.switch();
        switch.mc_create(group).map_err(refused)?;
        let node = switch.node_create(0, &ports, &[]).map_err(refused)?;
        switch.node_associate(group, node).map_err(refused)
    }

    fn mirror(&mut self, session: u32, port: u32) -> PyResult<()> {
        let to = MirrorSession { egress_port: Some(port), ..MirrorSession::default() };
        self.harness.switch().set_mirror(session, to).map_err(refused)
    }

    /// What was not as expected, and what the test wanted to be shown; on a switch of its own.
    fn test(&self, py: Python<'_>, text: &str) -> PyResult<(Vec<String>, Vec<String>)> {
        let (program, kind, target) = (Arc::clone(&self.program), self.kind, Switch::target(self.drop_port));
        py.detach(|| {
            let prepared = Prepared::new(program, kind).map_err(refused)?;
            let outcome = barewire_switch::stf::run(Arc::new(prepared), target, text).map_err(refused)?;
            Ok((outcome.wrong, outcome.shown))
        })
    }
}
