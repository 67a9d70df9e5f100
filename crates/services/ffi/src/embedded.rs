//! Entries: the engine in the program's own thread, without a daemon.
//!
//! An endpoint belongs to the thread that opened it: its frames and memory are of that thread. So its table is the thread's own, and a
//! ticket that another thread shows is nobody's, and so is one in a child of fork(2).

use crate::boundary::{Failure, get, guard, put, text};
use crate::entry::connect_arguments;
use crate::error::{
    BW_ERR_HANDLE, BW_ERR_INVALID, BW_ERR_NO_FLOW, BW_ERR_PORT_TAKEN, BW_ERR_SYSTEM, BW_ERR_TABLE_FULL,
    BW_ERR_UNREACHABLE,
};
use crate::memory::bytes as bytes_of;
use crate::request::patience;
use crate::request_state::{Refused, RequestState, Translated};
use crate::session::event_of;
use crate::types::{BwAddr, BwConnectOptions, BwEmbedded, BwEvent, BwFlow, BwIdentity, BwMessage, NONE};
use barewire_client::requests::ReplyTo;
use barewire_client::{
    ConnectError, ConnectOptions, Embedded, EmbeddedConfig, Event, FlowId, Inbound, ListenError,
};
use barewire_daemon::{Config, networks};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// An endpoint, closed on drop. In a child of the process that opened it the drop does nothing: the port is the parent's.
struct Own(Option<Embedded>);

impl Deref for Own {
    type Target = Embedded;
    fn deref(&self) -> &Embedded {
        self.0.as_ref().expect("it is taken by the drop alone")
    }
}

impl DerefMut for Own {
    fn deref_mut(&mut self) -> &mut Embedded {
        self.0.as_mut().expect("it is taken by the drop alone")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.is_inherited() {
            std::mem::forget(self.0.take());
        }
    }
}

/// An endpoint, and the messages of it that C holds, by their offset.
struct Held {
    endpoint: Own,
    messages: HashMap<u32, Inbound>,
    requests: RequestState,
}

thread_local! {
    static OPEN: RefCell<HashMap<usize, Held>> = RefCell::new(HashMap::new());
}

/// Odd numbers, of all threads: an address is never one.
static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);

fn with<R>(
    endpoint: *mut BwEmbedded,
    work: impl FnOnce(&mut Held) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // The pointer's bits are the ticket; it is never followed. A thread that is ending has none open any more.
    let work =
        |held: &mut Held| if held.endpoint.is_inherited() { Err(BW_ERR_HANDLE.into()) } else { work(held) };
    OPEN.try_with(|open| work(open.borrow_mut().get_mut(&endpoint.addr()).ok_or(BW_ERR_HANDLE)?))
        .map_err(|_| Failure::from(BW_ERR_HANDLE))?
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(BW_ERR_SYSTEM, error.to_string())
}

/// `10.0.0.1/24,fd00::1/64`: addresses with the lengths of their networks.
fn addresses(config: &mut EmbeddedConfig, list: &str) -> Result<(), Failure> {
    config.interface.ipv4.clear();
    let found = networks(list.split(',').map(str::trim)).map_err(|word| {
        Failure::new(
            BW_ERR_INVALID,
            format!("`{word}` is not an address with a network's length, such as 10.0.0.1/24"),
        )
    })?;
    for (ip, len) in found {
        config.interface.add_address(ip, len);
    }
    Ok(())
}

/// What an endpoint is made of that a daemon's configuration describes.
fn config_of(config: &Config) -> Result<EmbeddedConfig, Failure> {
    let refused = |why: &str| Err(Failure::new(BW_ERR_INVALID, why));
    if !config.ports.is_empty() {
        return refused(
            "an endpoint in the program's own thread has one port: leave all [[ports]] but one out",
        );
    }
    if config.engines > 1 || config.rdma.enabled {
        return refused(
            "an endpoint in the program's own thread is one engine without RDMA: leave daemon.engines and [rdma] out",
        );
    }
    Ok(EmbeddedConfig {
        interface: config.interface.clone(),
        neighbours_max: Some(config.neighbours_max),
        pool: config.pool,
        send_bytes: config.channel.send_bytes,
        recv_bytes: config.channel.recv_bytes,
        transport: config.transport.clone(),
    })
}

/// Opens the endpoint, and gives its ticket.
fn open(config: &EmbeddedConfig) -> Result<usize, Failure> {
    let opened = Embedded::open(config).map_err(|e| failed(&e))?;
    let ticket = NEXT.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
    let held =
        Held { endpoint: Own(Some(opened)), messages: HashMap::new(), requests: RequestState::default() };
    OPEN.with(|open| open.borrow_mut().insert(ticket, held));
    Ok(ticket)
}

/// Opens a port in this thread: the engine runs in bw_embedded_poll, and there is no daemon. All calls on the endpoint are this thread's;
/// others get BW_ERR_HANDLE, and so does a child made by fork(). Flows are not encrypted: bw_embedded_open_file can have that.
///
/// @param port       The port's URI, such as "xdp:eth0".
/// @param addresses  Our addresses with the lengths of their networks: "10.0.0.1/24", several with commas.
/// @param gateway    The router to other networks, such as "10.0.0.254"; null: none.
/// @param endpoint   Receives the endpoint.
/// @return BW_OK, BW_ERR_INVALID, BW_ERR_SYSTEM (bw_last_error says what could not be opened).
///
/// # Safety
/// Strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_open(
    port: *const c_char,
    addresses: *const c_char,
    gateway: *const c_char,
    endpoint: *mut *mut BwEmbedded,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let (port, list, gateway) = unsafe { (text(port), text(addresses), text(gateway)) };
        // SAFETY: this entry's contract.
        unsafe { put(endpoint, std::ptr::null_mut()) }?;
        let (port, list) = (port.ok_or(BW_ERR_INVALID)?, list.ok_or(BW_ERR_INVALID)?);
        let mut config = EmbeddedConfig::new(&port, Ipv4Addr::UNSPECIFIED);
        self::addresses(&mut config, &list)?;
        match gateway.as_deref().map(str::parse) {
            None => {}
            Some(Ok(ip)) => config.interface.set_gateway(ip),
            Some(Err(_)) => return Err(Failure::new(BW_ERR_INVALID, "the gateway is not an address")),
        }
        let ticket = open(&config)?;
        // SAFETY: this entry's contract.
        unsafe { put(endpoint, std::ptr::without_provenance_mut(ticket)) }?;
        Ok(0)
    })
}

/// As bw_embedded_open, with what a file says: barewire.toml, as a daemon reads it. Of its tables [interface] (addresses, gateways, VLAN, MTU),
/// [transport], [channel] (memory) and [security] (own key, trusted peers) count; with [security] flows are encrypted. There is one port.
///
/// @param path      The file.
/// @param endpoint  Receives the endpoint.
/// @return BW_OK, BW_ERR_INVALID (bw_last_error says the place in the file, and what is wrong there), BW_ERR_SYSTEM.
///
/// # Safety
/// Strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_open_file(path: *const c_char, endpoint: *mut *mut BwEmbedded) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let path = unsafe { text(path) };
        // SAFETY: this entry's contract.
        unsafe { put(endpoint, std::ptr::null_mut()) }?;
        let path = path.ok_or(BW_ERR_INVALID)?;
        let config =
            Config::read(Path::new(&*path)).map_err(|e| Failure::new(BW_ERR_INVALID, e.to_string()))?;
        let ticket = open(&config_of(&config)?)?;
        // SAFETY: this entry's contract.
        unsafe { put(endpoint, std::ptr::without_provenance_mut(ticket)) }?;
        Ok(0)
    })
}

/// Closes the port; flows end at once, without a word to their peers. Null does nothing.
///
/// @return BW_OK, BW_ERR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn bw_embedded_free(endpoint: *mut BwEmbedded) -> c_int {
    guard(|| {
        if !endpoint.is_null() {
            let gone = OPEN.try_with(|open| open.borrow_mut().remove(&endpoint.addr()));
            drop(gone.ok().flatten().ok_or(BW_ERR_HANDLE)?);
        }
        Ok(0)
    })
}

/// One duty cycle: sends what is queued, takes in what has arrived, runs the timers. Call it all the time, or when bw_embedded_fd is
/// readable and at least every millisecond.
///
/// @return How many frames moved, BW_ERR_SYSTEM while the port is down (go on calling: it may come back), BW_ERR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn bw_embedded_poll(endpoint: *mut BwEmbedded) -> c_int {
    guard(|| with(endpoint, |held| Ok(held.endpoint.poll().map_err(|e| failed(&e))? as c_int)))
}

/// A descriptor for an epoll or poll of your own, readable when frames have arrived. Neither read it nor close it. It is another after the
/// interface was created again.
///
/// @return The descriptor, or BW_ERR_INVALID for a port that has none.
#[unsafe(no_mangle)]
pub extern "C" fn bw_embedded_fd(endpoint: *mut BwEmbedded) -> c_int {
    guard(|| {
        with(endpoint, |held| held.endpoint.stack().port().wait_fd().ok_or_else(|| BW_ERR_INVALID.into()))
    })
}

/// Takes connections on a UDP port: BW_EVENT_ACCEPTED for each, with `token`.
///
/// @return BW_OK, BW_ERR_PORT_TAKEN, BW_ERR_INVALID for port 0.
#[unsafe(no_mangle)]
pub extern "C" fn bw_embedded_listen(endpoint: *mut BwEmbedded, udp_port: u16, token: u64) -> c_int {
    guard(|| {
        with(endpoint, |held| match held.endpoint.listen(udp_port, token) {
            Ok(()) => Ok(0),
            Err(ListenError::PortTaken) => Err(BW_ERR_PORT_TAKEN.into()),
            Err(_) => Err(BW_ERR_INVALID.into()),
        })
    })
}

/// Starts to connect. BW_EVENT_CONNECTED or BW_EVENT_CONNECT_FAILED follows, with `token`. Messages may be sent at once.
///
/// @param options  How; null: the default.
/// @param flow     Receives the flow; may be null.
/// @return BW_OK, BW_ERR_INVALID, BW_ERR_TABLE_FULL, BW_ERR_UNREACHABLE.
///
/// # Safety
/// Pointers that are not null are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_connect(
    endpoint: *mut BwEmbedded,
    remote: *const BwAddr,
    options: *const BwConnectOptions,
    token: u64,
    flow: *mut BwFlow,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let (remote, options) = unsafe { connect_arguments(remote, options) }?;
        let options = ConnectOptions { token, ..options };
        let id = with(endpoint, |held| {
            held.endpoint.connect(remote, &options).map_err(|e| {
                let code = match e {
                    ConnectError::TableFull | ConnectError::NoPort => BW_ERR_TABLE_FULL,
                    _ => BW_ERR_UNREACHABLE,
                };
                Failure::new(code, e.to_string())
            })
        })?;
        if !flow.is_null() {
            // SAFETY: this entry's contract.
            unsafe { put(flow, id.to_raw()) }?;
        }
        Ok(0)
    })
}

/// Queues a copy of a message; bw_embedded_poll sends it.
///
/// @return BW_OK, BW_ERR_AGAIN (poll, take events, try again after BW_EVENT_WRITABLE), BW_ERR_TOO_LARGE, BW_ERR_NO_FLOW, BW_ERR_CLOSING,
///         BW_ERR_INVALID.
///
/// # Safety
/// `bytes` has `len` bytes; it may be null when there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_send(
    endpoint: *mut BwEmbedded,
    flow: BwFlow,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let bytes = unsafe { bytes_of(bytes, len) }?;
        with(endpoint, |held| Ok(held.endpoint.send(FlowId::from_raw(flow), bytes)?))?;
        Ok(0)
    })
}

/// As bw_embedded_send, and BW_EVENT_DELIVERED or BW_EVENT_UNDELIVERED reports the message's fate.
///
/// @param token  Comes back with the event. Not 0.
/// @return As bw_embedded_send.
///
/// # Safety
/// `bytes` has `len` bytes; it may be null when there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_send_reported(
    endpoint: *mut BwEmbedded,
    flow: BwFlow,
    bytes: *const c_void,
    len: usize,
    token: u64,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let bytes = unsafe { bytes_of(bytes, len) }?;
        if token == 0 {
            return Err(BW_ERR_INVALID.into());
        }
        with(endpoint, |held| Ok(held.endpoint.send_reported(FlowId::from_raw(flow), bytes, token)?))?;
        Ok(0)
    })
}

/// Who is at the other end of a flow, as the peer has proven it.
///
/// @param peer  Receives its name and key.
/// @return 1; 0 when the flow is not encrypted, not open yet, or gone.
///
/// # Safety
/// `peer` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_peer(
    endpoint: *mut BwEmbedded,
    flow: BwFlow,
    peer: *mut BwIdentity,
) -> c_int {
    guard(|| {
        if peer.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        let found = with(endpoint, |held| Ok(held.endpoint.peer(FlowId::from_raw(flow))))?;
        match &found {
            // SAFETY: this entry's contract.
            Some(found) => unsafe { put(peer, BwIdentity::from(found)) }.map(|()| 1),
            None => Ok(0),
        }
    })
}

/// As bw_requests, of an endpoint.
///
/// @param unanswered_max  How many requests of this endpoint may wait for an answer at a time: 1 to BW_REQUESTS_MAX.
/// @return BW_OK; BW_ERR_INVALID, also when they are on already.
#[unsafe(no_mangle)]
pub extern "C" fn bw_embedded_requests(endpoint: *mut BwEmbedded, unanswered_max: u32) -> c_int {
    guard(|| with(endpoint, |held| held.requests.turn_on(unanswered_max).map(|()| 0)))
}

/// Sends a request: bw_embedded_poll does. One of BW_EVENT_RESPONSE, BW_EVENT_FAILURE and BW_EVENT_UNANSWERED follows, with its number as the
/// token.
///
/// @param timeout_us  Microseconds for the answer, which the server learns. 0: for ever.
/// @param request     Receives its number, which this endpoint gives to no other.
/// @return As bw_embedded_send; BW_ERR_TOO_MANY; BW_ERR_INVALID without bw_embedded_requests.
///
/// # Safety
/// `data` is valid for `len` bytes; may be null when `len` is 0. `request` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_request(
    endpoint: *mut BwEmbedded,
    flow: BwFlow,
    data: *const c_void,
    len: usize,
    timeout_us: u64,
    request: *mut u64,
) -> c_int {
    guard(|| {
        if request.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        // SAFETY: this entry's contract.
        let data = unsafe { bytes_of(data, len) }?;
        let id = with(endpoint, |held| {
            let Held { endpoint, requests, .. } = held;
            match requests.request(&mut **endpoint, FlowId::from_raw(flow), data, patience(timeout_us)) {
                Ok((id, _)) => Ok(id),
                Err(Refused::Message(e)) => Err(e.into()),
                Err(Refused::Otherwise(failure)) => Err(failure),
            }
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(request, id.to_raw()) }?;
        Ok(0)
    })
}

/// Gives a request up, and tells the server. No event follows.
///
/// @return 1; 0 when it was over already (its event has come, or is the next).
#[unsafe(no_mangle)]
pub extern "C" fn bw_embedded_request_cancel(endpoint: *mut BwEmbedded, request: u64) -> c_int {
    guard(|| with(endpoint, |held| held.requests.cancel(&mut *held.endpoint, request).map(c_int::from)))
}

/// Answers a request.
///
/// @param flow     Of BW_EVENT_REQUEST.
/// @param request  Its token.
/// @return As bw_embedded_send.
///
/// # Safety
/// `data` is valid for `len` bytes; may be null when `len` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_respond(
    endpoint: *mut BwEmbedded,
    flow: BwFlow,
    request: u64,
    data: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let data = unsafe { bytes_of(data, len) }?;
        let to = ReplyTo::new(FlowId::from_raw(flow), request);
        with(endpoint, |held| Ok(to.respond(&mut *held.endpoint, data)?))?;
        Ok(0)
    })
}

/// Says that a request has no response.
///
/// @param code  For the caller, with a meaning of your own.
/// @param why   For the caller; null: no text. Bytes beyond 1024 are cut off.
/// @return As bw_embedded_send.
///
/// # Safety
/// The string ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_fail(
    endpoint: *mut BwEmbedded,
    flow: BwFlow,
    request: u64,
    code: u16,
    why: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let why = unsafe { text(why) }.unwrap_or_default();
        let to = ReplyTo::new(FlowId::from_raw(flow), request);
        with(endpoint, |held| Ok(to.fail(&mut *held.endpoint, code, &why)?))?;
        Ok(0)
    })
}

/// The next thing that happened; never waits. The kinds are those of a client: connected, accepted, message, writable, closed; delivered and
/// undelivered after bw_embedded_send_reported; those of requests after bw_embedded_requests.
///
/// @return 1 with `event` filled in, 0 when there is none.
///
/// # Safety
/// `event` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_next_event(endpoint: *mut BwEmbedded, event: *mut BwEvent) -> c_int {
    guard(|| {
        if event.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        with(endpoint, |held| match held.next() {
            // SAFETY: this entry's contract.
            Some(next) => unsafe { put(event, next) }.map(|()| 1),
            None => Ok(0),
        })
    })
}

impl Held {
    fn next(&mut self) -> Option<BwEvent> {
        loop {
            let Held { endpoint, requests, .. } = self;
            if let Some(event) = requests.unanswered(&mut **endpoint) {
                return Some(event);
            }
            let event = endpoint.next_event()?;
            let found = match requests.translate(&mut **endpoint, event) {
                Translated::Event(Event::Message(inbound)) => {
                    Some(self.keep(BwEvent::new(crate::types::BW_EVENT_MESSAGE), inbound))
                }
                Translated::Event(event) => event_of(event),
                Translated::Message(event, inbound) => Some(self.keep(event, inbound)),
                Translated::Told(event) => Some(event),
                Translated::Nothing => None,
            };
            if found.is_some() {
                return found;
            }
        }
    }

    fn keep(&mut self, event: BwEvent, inbound: Inbound) -> BwEvent {
        let (flow, (offset, len)) = (inbound.flow().to_raw(), inbound.place());
        let message = BwMessage { flow, offset, len };
        self.messages.insert(offset, inbound);
        BwEvent { flow, message, ..event }
    }

    fn find(&self, message: &BwMessage) -> Result<&Inbound, Failure> {
        let found = self.messages.get(&message.offset).filter(|m| m.flow().to_raw() == message.flow);
        found.ok_or_else(|| BW_ERR_INVALID.into())
    }
}

/// Where the bytes of a received message lie: read them in place, until the message is released or the endpoint freed.
///
/// @param bytes  Receives the address; it is not null, also for a message without bytes.
/// @return The message's length, or BW_ERR_INVALID.
///
/// # Safety
/// Pointers that are not null are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_message(
    endpoint: *mut BwEmbedded,
    message: *const BwMessage,
    bytes: *mut *const c_void,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let message = unsafe { get(message) }?;
        with(endpoint, |held| {
            let found = held.endpoint.message(held.find(&message)?);
            // SAFETY: this entry's contract.
            unsafe { put(bytes, found.as_ptr().cast()) }?;
            Ok(found.len() as c_int)
        })
    })
}

/// Gives a received message back: its memory is free, its sender may send more. `message` is used up.
///
/// @return BW_OK, BW_ERR_INVALID.
///
/// # Safety
/// `message` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_embedded_release(endpoint: *mut BwEmbedded, message: *mut BwMessage) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let got = unsafe { get(message.cast_const()) }?;
        with(endpoint, |held| {
            held.find(&got)?;
            if let Some(inbound) = held.messages.remove(&got.offset) {
                held.endpoint.release(inbound);
            }
            Ok(())
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(message, BwMessage { flow: 0, offset: NONE, len: 0 }) }?;
        Ok(0)
    })
}

/// Closes a flow after everything queued was acknowledged, which takes calls of bw_embedded_poll; BW_EVENT_CLOSED follows.
///
/// @return BW_OK, BW_ERR_NO_FLOW.
#[unsafe(no_mangle)]
pub extern "C" fn bw_embedded_close(endpoint: *mut BwEmbedded, flow: BwFlow) -> c_int {
    guard(|| {
        let is_there = with(endpoint, |held| Ok(held.endpoint.close(FlowId::from_raw(flow))))?;
        if is_there { Ok(0) } else { Err(BW_ERR_NO_FLOW.into()) }
    })
}

/// Ends a flow at once; BW_EVENT_CLOSED follows.
///
/// @return BW_OK, BW_ERR_NO_FLOW.
#[unsafe(no_mangle)]
pub extern "C" fn bw_embedded_reset(endpoint: *mut BwEmbedded, flow: BwFlow) -> c_int {
    guard(|| {
        let is_there = with(endpoint, |held| Ok(held.endpoint.reset(FlowId::from_raw(flow))))?;
        if is_there { Ok(0) } else { Err(BW_ERR_NO_FLOW.into()) }
    })
}
