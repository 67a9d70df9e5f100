//! `barewire._native`: the C interface for Python, the P4 switch in process, and market data, captured and live. What Python programs
//! use is `python/barewire/` beside this.
//!
//! A client is a ticket (a number), so that one that was freed is an error and never a crash. The interpreter's lock is let go
//! wherever a call may take its time.

mod event;
mod feed;
mod items;
mod live;
mod switch;
mod tables;

use barewire::entry::*;
use barewire::error::{BW_ERR_BUSY, BW_ERR_INVALID, BW_OK};
use barewire::memory::*;
use barewire::request::*;
use barewire::types::*;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::{CStr, CString, c_char, c_int};

pyo3::create_exception!(_native, Error, pyo3::exceptions::PyException, "A call failed: (code, text).");

/// The text that a code or the last failure of this thread has.
fn text(from: *const c_char) -> String {
    // SAFETY: `bw_last_error` and `bw_strerror` give C strings; the former's lives until this thread's next failure, and it is
    // copied before that.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

/// Works without the interpreter's lock. The text of a failure is taken on the thread that failed.
fn call(py: Python<'_>, work: impl FnOnce() -> c_int + Send) -> PyResult<c_int> {
    let (code, why) = py.detach(|| {
        let code = work();
        (code, if code < 0 { text(bw_last_error()) } else { String::new() })
    });
    if code < 0 { Err(Error::new_err((code, why))) } else { Ok(code) }
}

fn failed(code: c_int) -> PyErr {
    Error::new_err((code, text(bw_strerror(code))))
}

/// The ticket as C has it: never followed.
fn at(client: usize) -> *mut BwClient {
    std::ptr::without_provenance_mut(client)
}

fn c_text(text: &str) -> PyResult<CString> {
    CString::new(text).map_err(|_| failed(BW_ERR_INVALID))
}

fn addr_text(addr: &BwAddr) -> Option<String> {
    let mut out = [0 as c_char; BW_ADDR_TEXT_MAX];
    // SAFETY: an address, and room for as many bytes as are said.
    let n = unsafe { bw_addr_format(addr, out.as_mut_ptr(), out.len()) };
    (n > 0).then(|| text(out.as_ptr()))
}

/// Kind, reason, flow, token, message (flow, offset, length; all zero: none), our end, the other end.
type Told = (u32, u32, u64, u64, (u64, u32, u32), Option<String>, Option<String>);

fn told(event: &BwEvent) -> Told {
    let m = event.message;
    let ends = (addr_text(&event.local), addr_text(&event.remote));
    (event.kind, event.reason, event.flow, event.token, (m.flow, m.offset, m.len), ends.0, ends.1)
}

fn no_event() -> BwEvent {
    let message = BwMessage { flow: 0, offset: 0, len: 0 };
    let (local, remote) = (BwAddr::default(), BwAddr::default());
    BwEvent { kind: 0, reason: 0, flow: 0, token: 0, message, local, remote }
}

#[pyfunction]
fn attach(py: Python<'_>, name: &str, socket: Option<&str>) -> PyResult<usize> {
    let (name, socket) = (c_text(name)?, socket.map(c_text).transpose()?);
    let mut ticket = 0;
    call(py, || {
        let mut client = std::ptr::null_mut();
        let socket = socket.as_ref().map_or(std::ptr::null(), |s| s.as_ptr());
        // SAFETY: C strings, or null, and a place for the client.
        let code = unsafe { bw_client_attach(name.as_ptr(), socket, &mut client) };
        ticket = client.addr();
        code
    })?;
    Ok(ticket)
}

#[pyfunction]
fn free(py: Python<'_>, client: usize) -> PyResult<c_int> {
    call(py, || bw_client_free(at(client)))
}

#[pyfunction]
fn wake(py: Python<'_>, client: usize) -> PyResult<c_int> {
    call(py, || bw_wake(at(client)))
}

#[pyfunction]
fn close_wait(py: Python<'_>, client: usize, timeout_ms: i32) -> PyResult<c_int> {
    call(py, || bw_close_wait(at(client), timeout_ms))
}

#[pyfunction]
fn listen(py: Python<'_>, client: usize, udp_port: u16, token: u64, timeout_ms: i32) -> PyResult<c_int> {
    call(py, || bw_listen_wait(at(client), udp_port, token, timeout_ms))
}

/// An event with `token` says that the port is there, or is not.
#[pyfunction]
fn listen_start(py: Python<'_>, client: usize, udp_port: u16, token: u64) -> PyResult<c_int> {
    call(py, || bw_listen(at(client), udp_port, token))
}

#[pyfunction]
fn unlisten(py: Python<'_>, client: usize, udp_port: u16) -> PyResult<c_int> {
    call(py, || bw_unlisten(at(client), udp_port))
}

fn parse(remote: &str, unordered: bool) -> PyResult<(BwAddr, BwConnectOptions)> {
    let text = c_text(remote)?;
    let mut addr = BwAddr::default();
    // SAFETY: a C string, and a place for the address.
    match unsafe { bw_addr_parse(text.as_ptr(), 0, &mut addr) } {
        BW_OK => Ok((addr, BwConnectOptions { unordered: unordered.into(), ..Default::default() })),
        code => Err(Error::new_err((code, self::text(bw_last_error())))),
    }
}

/// Waits for the flow.
#[pyfunction]
fn connect(py: Python<'_>, client: usize, remote: &str, unordered: bool, timeout_ms: i32) -> PyResult<u64> {
    let (addr, options) = parse(remote, unordered)?;
    let mut flow = 0;
    // SAFETY: an address, options, and a place for the flow.
    call(py, || unsafe { bw_connect_wait(at(client), &addr, &options, timeout_ms, &mut flow) })?;
    Ok(flow)
}

/// An event with `token` says how it went.
#[pyfunction]
fn connect_start(
    py: Python<'_>,
    client: usize,
    remote: &str,
    unordered: bool,
    token: u64,
) -> PyResult<c_int> {
    let (addr, options) = parse(remote, unordered)?;
    // SAFETY: an address and options.
    call(py, || unsafe { bw_connect(at(client), &addr, &options, token) })
}

#[pyfunction]
fn cancel(py: Python<'_>, client: usize, token: u64) -> PyResult<c_int> {
    call(py, || bw_cancel(at(client), token))
}

#[pyfunction]
fn close(py: Python<'_>, client: usize, flow: u64) -> PyResult<c_int> {
    call(py, || bw_close(at(client), flow))
}

#[pyfunction]
fn reset(py: Python<'_>, client: usize, flow: u64) -> PyResult<c_int> {
    call(py, || bw_reset(at(client), flow))
}

/// Name and key of who is at the other end of a flow.
#[pyfunction]
fn peer(py: Python<'_>, client: usize, flow: u64) -> PyResult<Option<(String, Vec<u8>)>> {
    let mut raw = BwIdentity { name: [0; BW_PEER_NAME_LEN], key: [0; BW_KEY_LEN] };
    let there = call(py, || {
        loop {
            // SAFETY: a place for the identity.
            match unsafe { bw_peer(at(client), flow, &mut raw) } {
                // Another thread is inside for a moment.
                BW_ERR_BUSY => std::thread::sleep(std::time::Duration::from_micros(50)),
                code => return code,
            }
        }
    })?;
    Ok((there == 1).then(|| (text(raw.name.as_ptr()), raw.key.to_vec())))
}

/// What a call sends: any object with a contiguous buffer. It is copied once, into the shared memory, with the lock held, so
/// that nobody resizes it meanwhile.
fn with_bytes(
    data: &Bound<'_, PyAny>,
    work: impl FnOnce(*const std::ffi::c_void, usize) -> c_int,
) -> PyResult<c_int> {
    let code = if let Ok(bytes) = data.cast_exact::<PyBytes>() {
        // Most are such, and need no buffer.
        let bytes = bytes.as_bytes();
        work(bytes.as_ptr().cast(), bytes.len())
    } else {
        let buffer = PyUntypedBuffer::get(data)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not contiguous"));
        }
        work(buffer.buf_ptr(), buffer.len_bytes())
    };
    if code < 0 { Err(Error::new_err((code, text(bw_last_error())))) } else { Ok(code) }
}

#[pyfunction]
fn send(client: usize, flow: u64, data: &Bound<'_, PyAny>) -> PyResult<c_int> {
    // SAFETY: the buffer's own pointer and length, held meanwhile.
    with_bytes(data, |base, len| unsafe { bw_send(at(client), flow, base, len) })
}

#[pyfunction]
fn requests(py: Python<'_>, client: usize, unanswered_max: u32) -> PyResult<c_int> {
    call(py, || bw_requests(at(client), unanswered_max))
}

#[pyfunction]
fn request(client: usize, flow: u64, data: &Bound<'_, PyAny>, timeout_us: u64) -> PyResult<u64> {
    let mut id = 0;
    // SAFETY: the buffer's own pointer and length, held meanwhile, and a place for the number.
    with_bytes(data, |base, len| unsafe { bw_request(at(client), flow, base, len, timeout_us, &mut id) })?;
    Ok(id)
}

#[pyfunction]
fn request_cancel(py: Python<'_>, client: usize, request: u64) -> PyResult<c_int> {
    call(py, || bw_request_cancel(at(client), request))
}

#[pyfunction]
fn respond(client: usize, flow: u64, request: u64, data: &Bound<'_, PyAny>) -> PyResult<c_int> {
    // SAFETY: the buffer's own pointer and length, held meanwhile.
    with_bytes(data, |base, len| unsafe { bw_respond(at(client), flow, request, base, len) })
}

#[pyfunction]
fn fail(py: Python<'_>, client: usize, flow: u64, request: u64, code: u16, why: &str) -> PyResult<c_int> {
    let why = c_text(why)?;
    // SAFETY: a C string.
    call(py, || unsafe { bw_fail(at(client), flow, request, code, why.as_ptr()) })
}

#[pyfunction]
fn next_event(py: Python<'_>, client: usize) -> PyResult<Option<Told>> {
    let mut event = no_event();
    // SAFETY: a place for the event.
    let got = call(py, || unsafe { bw_next_event(at(client), &mut event) })?;
    Ok((got == 1).then(|| told(&event)))
}

#[pyfunction]
fn wait_event(py: Python<'_>, client: usize, timeout_ms: i32) -> PyResult<Option<Told>> {
    let mut event = no_event();
    // SAFETY: a place for the event.
    let got = call(py, || unsafe { bw_wait_event(at(client), timeout_ms, &mut event) })?;
    Ok((got == 1).then(|| told(&event)))
}

#[pyfunction]
fn event_fd(py: Python<'_>, client: usize) -> PyResult<c_int> {
    call(py, || bw_event_fd(at(client)))
}

#[pyfunction]
fn arm(py: Python<'_>, client: usize) -> PyResult<bool> {
    Ok(call(py, || bw_arm(at(client)))? == 1)
}

#[pyfunction]
fn disarm(py: Python<'_>, client: usize) -> PyResult<c_int> {
    call(py, || bw_disarm(at(client)))
}

#[pyfunction]
fn sleep_max_ms(py: Python<'_>, client: usize) -> PyResult<c_int> {
    call(py, || bw_sleep_max_ms(at(client)))
}

/// As `wait_event`, with what came read.
#[pyfunction]
fn receive(py: Python<'_>, client: usize, timeout_ms: i32) -> PyResult<Option<event::Event>> {
    let mut event = no_event();
    // SAFETY: a place for the event.
    let got = call(py, || unsafe { bw_wait_event(at(client), timeout_ms, &mut event) })?;
    if got != 1 {
        return Ok(None);
    }
    read(py, client, told(&event)).map(Some)
}

/// What an event is with the bytes of its message, which is released.
#[pyfunction]
fn read(py: Python<'_>, client: usize, told: Told) -> PyResult<event::Event> {
    let (kind, reason, flow, token, (of, offset, len), local, remote) = told;
    let data = match (of, kind) {
        (0, _) => PyBytes::new(py, &[]),
        (_, BW_EVENT_MESSAGE) => taken(py, client, BwMessage { flow: of, offset, len }, 0)?,
        // Requests and answers have a head.
        _ => taken(py, client, BwMessage { flow: of, offset, len }, BW_REQUEST_HEAD)?,
    };
    Ok(event::Event { kind, flow, reason, token, data: data.unbind(), local, remote })
}

/// The bytes of a message from `start` on, and it is released.
fn taken<'py>(
    py: Python<'py>,
    client: usize,
    mut message: BwMessage,
    start: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let len = (message.len as usize).checked_sub(start).ok_or_else(|| failed(BW_ERR_INVALID))?;
    // Another thread may be inside for a while, as in `connect`: it is waited for, with the interpreter's lock let go.
    let busy = |py: Python<'_>| py.detach(|| std::thread::sleep(std::time::Duration::from_micros(50)));
    let bytes = loop {
        let mut got = 0;
        let bytes = PyBytes::new_with(py, len, |out| {
            // SAFETY: a message by value, and room for as many bytes as are said.
            got = unsafe { bw_message_read_at(at(client), &message, start, out.as_mut_ptr().cast(), len) };
            if got < 0 { Err(Error::new_err((got, text(bw_last_error())))) } else { Ok(()) }
        });
        if got != BW_ERR_BUSY {
            break bytes;
        }
        busy(py);
    };
    loop {
        // SAFETY: a place with a message.
        match unsafe { bw_message_release(at(client), &mut message) } {
            BW_ERR_BUSY => busy(py),
            code if code < 0 => return Err(failed(code)),
            _ => return bytes,
        }
    }
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("Error", m.py().get_type::<Error>())?;
    m.add("version", text(bw_version()))?;
    m.add("SwitchError", m.py().get_type::<switch::SwitchError>())?;
    m.add_class::<event::Event>()?;
    m.add_class::<switch::Switch>()?;
    m.add("FeedError", m.py().get_type::<feed::FeedError>())?;
    m.add_class::<feed::Capture>()?;
    m.add_class::<live::Live>()?;
    m.add_class::<live::Collected>()?;
    m.add_function(wrap_pyfunction!(feed::capture_stream, m)?)?;
    for f in [
        wrap_pyfunction!(attach, m)?,
        wrap_pyfunction!(free, m)?,
        wrap_pyfunction!(wake, m)?,
        wrap_pyfunction!(close_wait, m)?,
        wrap_pyfunction!(listen, m)?,
        wrap_pyfunction!(listen_start, m)?,
        wrap_pyfunction!(unlisten, m)?,
        wrap_pyfunction!(connect, m)?,
        wrap_pyfunction!(connect_start, m)?,
        wrap_pyfunction!(cancel, m)?,
        wrap_pyfunction!(close, m)?,
        wrap_pyfunction!(peer, m)?,
        wrap_pyfunction!(reset, m)?,
        wrap_pyfunction!(send, m)?,
        wrap_pyfunction!(requests, m)?,
        wrap_pyfunction!(request, m)?,
        wrap_pyfunction!(request_cancel, m)?,
        wrap_pyfunction!(respond, m)?,
        wrap_pyfunction!(fail, m)?,
        wrap_pyfunction!(next_event, m)?,
        wrap_pyfunction!(wait_event, m)?,
        wrap_pyfunction!(receive, m)?,
        wrap_pyfunction!(event_fd, m)?,
        wrap_pyfunction!(arm, m)?,
        wrap_pyfunction!(disarm, m)?,
        wrap_pyfunction!(sleep_max_ms, m)?,
        wrap_pyfunction!(read, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
