//! An event, as Python programs see it.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Of its fields, in the order in which it is made.
const NAMES: [&str; 7] = ["kind", "flow", "reason", "token", "data", "local", "remote"];

/// Something that happened.
#[pyclass(frozen, get_all, new = "from_fields", module = "barewire")]
pub struct Event {
    /// A number of `Kind`.
    pub kind: u32,
    pub flow: u64,
    /// What it means depends on the kind: why a flow ended, a request's time in us, a server's code.
    pub reason: u32,
    /// The number of a request, or what the program gave an attempt.
    pub token: u64,
    /// The bytes of a message, a request or an answer.
    pub data: Py<PyBytes>,
    pub local: Option<String>,
    pub remote: Option<String>,
}

#[pymethods]
impl Event {
    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(py, NAMES)
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
