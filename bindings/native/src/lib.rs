//! The C interface by value and safe, for bindings that are written in Rust.
//!
//! A client is a ticket (a number), so that one that was freed is an error and never a crash.

use barewire::entry::*;
use barewire::error::BW_OK;
use barewire::memory::*;
use barewire::request::*;
use barewire::types::*;
use std::ffi::{CStr, CString, c_char, c_int};

pub use barewire::error::{BW_ERR_AGAIN, BW_ERR_BUSY, BW_ERR_HANDLE, BW_ERR_INTERRUPTED, BW_ERR_INVALID};
pub use barewire::request::BW_REQUEST_HEAD;
pub use barewire::types::BW_EVENT_MESSAGE;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// `BW_ERR_...`
    pub code: i32,
    /// For people.
    pub text: String,
}

/// What a call gives.
pub type Result<T> = std::result::Result<T, Failed>;

/// A client, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub usize);

/// Something that happened: fields as in barewire.h. Zero: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// `BW_EVENT_...`
    pub kind: u32,
    /// By kind.
    pub reason: u32,
    /// The flow.
    pub flow: u64,
    /// What the request was given.
    pub token: u64,
    /// The message's flow, offset and length.
    pub message: Claim,
    /// The other end.
    pub remote: BwAddr,
}

/// A claim to a message in shared memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim {
    /// The flow it came on.
    pub flow: u64,
    /// Where it is.
    pub offset: u32,
    /// Its length in bytes.
    pub len: u32,
}

/// Who is at the other end of an encrypted flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What the configuration calls it; "self": this host.
    pub name: String,
    /// Its public key.
    pub key: [u8; BW_KEY_LEN],
}

/// The text at a pointer that C gave.
fn text(from: *const c_char) -> String {
    // SAFETY: `bw_last_error` and `bw_strerror` give C strings; the former's lives until this thread's next failure, and it is
    // copied before that.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

/// On the thread that made the call.
fn checked(code: c_int) -> Result<i32> {
    if code < 0 { Err(Failed { code, text: text(bw_last_error()) }) } else { Ok(code) }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Failed { code: BW_ERR_INVALID, text: "a text has a zero byte".to_owned() })
}

/// The event that a call fills in, by what it returns.
fn event_by(call: impl FnOnce(*mut BwEvent) -> c_int) -> Result<Option<Event>> {
    let message = BwMessage { flow: 0, offset: 0, len: 0 };
    let (local, remote) = (BwAddr::default(), BwAddr::default());
    let mut event = BwEvent { kind: 0, reason: 0, flow: 0, token: 0, message, local, remote };
    let got = checked(call(&mut event))?;
    let m = event.message;
    let message = Claim { flow: m.flow, offset: m.offset, len: m.len };
    let BwEvent { kind, reason, flow, token, remote, .. } = event;
    Ok((got == 1).then_some(Event { kind, reason, flow, token, message, remote }))
}

/// Tries again as long as another thread is inside.
fn patiently<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(e) if e.code == BW_ERR_BUSY => std::thread::yield_now(),
            done => return done,
        }
    }
}

/// The library's version.
pub fn version() -> String {
    text(bw_version())
}

/// An address with its port; empty: none.
pub fn addr_text(addr: &BwAddr) -> String {
    let mut out = [0 as c_char; BW_ADDR_TEXT_MAX];
    // SAFETY: an address, and room for as many bytes as are said.
    let n = unsafe { bw_addr_format(addr, out.as_mut_ptr(), out.len()) };
    if n > 0 { text(out.as_ptr()) } else { String::new() }
}

/// Attaches, with requests on.
pub fn attach(name: &str, socket: Option<&str>, unanswered_max: u32) -> Result<Ticket> {
    let (name, socket) = (c_text(name)?, socket.map(c_text).transpose()?);
    let mut client = std::ptr::null_mut();
    let socket = socket.as_ref().map_or(std::ptr::null(), |s| s.as_ptr());
    // SAFETY: C strings, or null, and a place for the client.
    checked(unsafe { bw_client_attach(name.as_ptr(), socket, &mut client) })?;
    let ticket = Ticket(client.addr());
    if let Err(e) = checked(bw_requests(client, unanswered_max)) {
        let _ = ticket.free();
        return Err(e);
    }
    Ok(ticket)
}

impl Ticket {
    /// As C has it: never followed.
    fn raw(self) -> *mut BwClient {
        std::ptr::without_provenance_mut(self.0)
    }

    pub fn free(self) -> Result<i32> {
        checked(bw_client_free(self.raw()))
    }

    pub fn wake(self) -> Result<i32> {
        checked(bw_wake(self.raw()))
    }

    /// Waits for the answer.
    pub fn listen(self, udp_port: u16, timeout_ms: i32) -> Result<i32> {
        checked(bw_listen_wait(self.raw(), udp_port, 0, timeout_ms))
    }

    /// An event with `token` says that the port is there, or is not.
    pub fn listen_start(self, udp_port: u16, token: u64) -> Result<i32> {
        checked(bw_listen(self.raw(), udp_port, token))
    }

    /// An event with `token` says how it went.
    pub fn connect(self, remote: &str, unordered: bool, token: u64) -> Result<i32> {
        let remote = c_text(remote)?;
        let mut addr = BwAddr::default();
        // SAFETY: a C string, and a place for the address.
        let parsed = unsafe { bw_addr_parse(remote.as_ptr(), 0, &mut addr) };
        if parsed != BW_OK {
            return checked(parsed);
        }
        let options = BwConnectOptions { unordered: unordered.into(), ..Default::default() };
        // SAFETY: an address and options.
        checked(unsafe { bw_connect(self.raw(), &addr, &options, token) })
    }

    pub fn cancel(self, token: u64) -> Result<i32> {
        checked(bw_cancel(self.raw(), token))
    }

    /// Who is at the other end of a flow; `None`: it is not encrypted, not open yet, or gone.
    pub fn peer(self, flow: u64) -> Result<Option<Identity>> {
        let mut raw = BwIdentity { name: [0; BW_PEER_NAME_LEN], key: [0; BW_KEY_LEN] };
        // SAFETY: a place for the identity.
        let there = patiently(|| checked(unsafe { bw_peer(self.raw(), flow, &mut raw) }))?;
        Ok((there == 1).then(|| Identity { name: text(raw.name.as_ptr()), key: raw.key }))
    }

    pub fn close(self, flow: u64) -> Result<i32> {
        checked(bw_close(self.raw(), flow))
    }

    pub fn reset(self, flow: u64) -> Result<i32> {
        checked(bw_reset(self.raw(), flow))
    }

    pub fn send(self, flow: u64, data: &[u8]) -> Result<i32> {
        // SAFETY: a slice's own pointer and length.
        checked(unsafe { bw_send(self.raw(), flow, data.as_ptr().cast(), data.len()) })
    }

    /// The request's number.
    pub fn request(self, flow: u64, data: &[u8], timeout_us: u64) -> Result<u64> {
        let mut id = 0;
        // SAFETY: a slice's own pointer and length, and a place for the number.
        let code =
            unsafe { bw_request(self.raw(), flow, data.as_ptr().cast(), data.len(), timeout_us, &mut id) };
        checked(code)?;
        Ok(id)
    }

    /// False: it was over.
    pub fn request_cancel(self, request: u64) -> Result<bool> {
        Ok(checked(bw_request_cancel(self.raw(), request))? == 1)
    }

    pub fn respond(self, flow: u64, request: u64, data: &[u8]) -> Result<i32> {
        // SAFETY: a slice's own pointer and length.
        checked(unsafe { bw_respond(self.raw(), flow, request, data.as_ptr().cast(), data.len()) })
    }

    pub fn fail(self, flow: u64, request: u64, code: u16, why: &str) -> Result<i32> {
        let why = c_text(why)?;
        // SAFETY: a C string.
        checked(unsafe { bw_fail(self.raw(), flow, request, code, why.as_ptr()) })
    }

    /// Waits for the next event; `None` when the time was over.
    pub fn wait_event(self, timeout_ms: i32) -> Result<Option<Event>> {
        event_by(|place| {
            // SAFETY: a place for the event.
            unsafe { bw_wait_event(self.raw(), timeout_ms, place) }
        })
    }

    /// The next event; never waits.
    pub fn next_event(self) -> Result<Option<Event>> {
        event_by(|place| {
            // SAFETY: a place for the event.
            unsafe { bw_next_event(self.raw(), place) }
        })
    }

    /// What to poll between [`arm`](Ticket::arm) and [`disarm`](Ticket::disarm). It lives as long as the client.
    pub fn event_fd(self) -> Result<i32> {
        checked(bw_event_fd(self.raw()))
    }

    /// False: there is an event already, or no sleep to be had.
    pub fn arm(self) -> Result<bool> {
        Ok(checked(bw_arm(self.raw()))? == 1)
    }

    pub fn disarm(self) -> Result<i32> {
        checked(bw_disarm(self.raw()))
    }

    /// How long to sleep at most; `i32::MAX`: for ever.
    pub fn sleep_max_ms(self) -> Result<i32> {
        checked(bw_sleep_max_ms(self.raw()))
    }

    /// Copies the bytes of a message from `head` on, as many as `out` has room for.
    pub fn read(self, claim: Claim, head: usize, out: &mut [u8]) -> Result<usize> {
        let message = BwMessage { flow: claim.flow, offset: claim.offset, len: claim.len };
        // SAFETY: a message by value, and room for as many bytes as are said.
        let got = checked(unsafe {
            bw_message_read_at(self.raw(), &message, head, out.as_mut_ptr().cast(), out.len())
        })?;
        Ok(got as usize)
    }

    /// Gives a message's memory back, and lets its sender know.
    pub fn release(self, claim: Claim) -> Result<i32> {
        let mut message = BwMessage { flow: claim.flow, offset: claim.offset, len: claim.len };
        // SAFETY: a place with a message.
        patiently(|| checked(unsafe { bw_message_release(self.raw(), &mut message) }))?;
        match checked(bw_flush(self.raw())) {
            // Who is inside lets the daemon see it.
            Err(e) if e.code == BW_ERR_BUSY => Ok(0),
            done => done,
        }
    }

    /// Copies as [`read`](Ticket::read) does, however long others are inside, and the message is released, whatever comes of it.
    pub fn take_into(self, claim: Claim, head: usize, out: &mut [u8]) -> Result<usize> {
        let read = patiently(|| self.read(claim, head, out));
        self.release(claim)?;
        read
    }

    /// The bytes of a message from `head` on, and it is released, whatever comes of it.
    pub fn take(self, claim: Claim, head: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (claim.len as usize).saturating_sub(head)];
        self.take_into(claim, head, &mut bytes)?;
        Ok(bytes)
    }
}
