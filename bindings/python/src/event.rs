//! An event, as Python programs see it.

use crate::addr_text;
use barewire::types::BwEvent;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Of its fields, in the order in which it is made.
const NAMES: [&str; 7] = ["kind", "flow", "reason", "token", "data", "local", "remote"];

/// Something that happened.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct Event {
    /// A number of `Kind`.
    kind: u32,
    flow: u64,
    /// What it means depends on the kind: why a flow ended, a request's time in us, a server's code.
    reason: u32,
    /// The number of a request, or what the program gave an attempt.
    token: u64,
    /// The bytes of a message, a request or an answer.
    data: Py<PyBytes>,
    local: Option<String>,
    remote: Option<String>,
}

impl Event {
    /// With what was read of it.
    pub fn of(event: &BwEvent, data: Bound<'_, PyBytes>) -> Event {
        let (local, remote) = (addr_text(&event.local), addr_text(&event.remote));
        let BwEvent { kind, flow, reason, token, .. } = *event;
        Event { kind, flow, reason, token, data: data.unbind(), local, remote }
    }
}

#[pymethods]
impl Event {
    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(py, NAMES)
    }

    #[new]
    fn new(
        kind: u32,
        flow: u64,
        reason: u32,
        token: u64,
        data: Py<PyBytes>,
        local: Option<String>,
        remote: Option<String>,
    ) -> Event {
        Event { kind, flow, reason, token, data, local, remote }
    }

    /// What it was made of: for `copy` and `pickle`.
    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Event { kind, flow, reason, token, data, local, remote } = self;
        (kind, flow, reason, token, data, local, remote).into_pyobject(py)
    }

    fn __eq__(&self, py: Python<'_>, other: &Event) -> PyResult<bool> {
        self.__getnewargs__(py)?.eq(other.__getnewargs__(py)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.__getnewargs__(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let values = self.__getnewargs__(py)?;
        let parts: PyResult<Vec<String>> = NAMES
            .iter()
            .zip(values.iter())
            .map(|(name, value)| Ok(format!("{name}={}", value.repr()?)))
            .collect();
        Ok(format!("Event({})", parts?.join(", ")))
    }
}
