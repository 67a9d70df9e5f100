//! The native part: `index.js` makes promises and iterators of it.
//!
//! A thread of each client's own sleeps in the library until something happens, and puts events into Node's loop. Everything else is
//! called on Node's thread and never waits. Failures are thrown as errors whose `code` is a `BW_ERR_...` number as a text.

use barewire_native::{
    BW_ERR_BUSY, BW_ERR_HANDLE, BW_ERR_INTERRUPTED, BW_REQUEST_HEAD, Claim, Event, Failed, Ticket, addr_text,
};
use napi::bindgen_prelude::{BigInt, Buffer};
use napi::threadsafe_function::{ErrorStrategy, ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, JsFunction, Status};
use napi_derive::napi;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

type Thrown = napi::Error<String>;

fn thrown(e: Failed) -> Thrown {
    Thrown::new(e.code.to_string(), e.text)
}

/// A number of 64 bits.
fn wide(n: &BigInt) -> u64 {
    n.get_u64().1
}

/// Something that happened, for JavaScript.
#[napi(object)]
pub struct Told {
    /// `BW_EVENT_...`; negative: the client has ended, with this `BW_ERR_...`.
    pub kind: i32,
    /// By kind.
    pub reason: u32,
    /// The flow.
    pub flow: BigInt,
    /// What the request was given.
    pub token: BigInt,
    /// The message: its flow, offset and length.
    pub message_flow: BigInt,
    /// See `message_flow`.
    pub offset: u32,
    /// See `message_flow`.
    pub len: u32,
    /// The other end; empty: none.
    pub remote: String,
    /// Of an end: why.
    pub text: String,
}

impl Told {
    fn event(e: &Event) -> Told {
        Told {
            kind: e.kind as i32,
            reason: e.reason,
            flow: e.flow.into(),
            token: e.token.into(),
            message_flow: e.message.flow.into(),
            offset: e.message.offset,
            len: e.message.len,
            remote: addr_text(&e.remote),
            text: String::new(),
        }
    }

    fn end(e: Failed) -> Told {
        Told { kind: e.code, text: e.text, ..Told::event(&Event::default()) }
    }
}

/// Who is at the other end of an encrypted flow.
#[napi(object)]
pub struct Identity {
    /// What the configuration calls it.
    pub name: String,
    /// Its public key.
    pub key: Buffer,
}

type Sink = ThreadsafeFunction<Vec<Told>, ErrorStrategy::Fatal>;

/// Takes events until the client ends, and as many at once as there are.
fn take_events(ticket: Ticket, stop: &AtomicBool, sink: &Sink) {
    const BURST: usize = 64;
    let closed = || Failed { code: BW_ERR_HANDLE, text: "the client was closed".to_owned() };
    loop {
        let mut burst = Vec::new();
        let mut end = None;
        loop {
            let timeout_ms = if burst.is_empty() { -1 } else { 0 };
            let got = ticket.wait_event(timeout_ms);
            if stop.load(Ordering::Acquire) {
                end = Some(closed());
                break;
            }
            match got {
                Ok(Some(e)) => burst.push(Told::event(&e)),
                Ok(None) if burst.is_empty() => {}
                Ok(None) => break,
                Err(e) if e.code == BW_ERR_BUSY || e.code == BW_ERR_INTERRUPTED => std::thread::yield_now(),
                Err(e) => {
                    end = Some(e);
                    break;
                }
            }
            if burst.len() == BURST {
                break;
            }
        }
        let over = end.is_some();
        burst.extend(end.map(Told::end));
        let queued = sink.call(burst, ThreadsafeFunctionCallMode::NonBlocking);
        if over || queued != Status::Ok {
            return;
        }
    }
}

/// A client.
#[napi]
pub struct NativeClient {
    ticket: Ticket,
    stop: Arc<AtomicBool>,
    taker: Option<JoinHandle<()>>,
    sink: Option<Sink>,
}

#[napi]
impl NativeClient {
    /// Attaches, and calls `sink` with events from then on.
    #[napi(constructor)]
    pub fn new(
        name: String,
        socket: Option<String>,
        calls_max: u32,
        sink: JsFunction,
    ) -> Result<NativeClient, Thrown> {
        let of_node = |e: napi::Error| Thrown::new("-21".to_owned(), e.reason);
        let sink: Sink = sink
            .create_threadsafe_function(
                0,
                |ctx: napi::threadsafe_function::ThreadSafeCallContext<Vec<Told>>| Ok(vec![ctx.value]),
            )
            .map_err(of_node)?;
        let ticket = barewire_native::attach(&name, socket.as_deref(), calls_max).map_err(thrown)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, stopped) = (sink.clone(), stop.clone());
        let taker = std::thread::Builder::new()
            .name("barewire".to_owned())
            .spawn(move || take_events(ticket, &stopped, &theirs));
        match taker {
            Ok(taker) => Ok(NativeClient { ticket, stop, taker: Some(taker), sink: Some(sink) }),
            Err(e) => {
                let _ = ticket.free();
                Err(Thrown::new("-21".to_owned(), e.to_string()))
            }
        }
    }

    /// See barewire.h, as for all that follow.
    #[napi]
    pub fn listen(&self, udp_port: u32, token: BigInt) -> Result<i32, Thrown> {
        let port = u16::try_from(udp_port).unwrap_or(0);
        self.ticket.listen_start(port, wide(&token)).map_err(thrown)
    }

    #[napi]
    pub fn connect(&self, remote: String, unordered: bool, token: BigInt) -> Result<i32, Thrown> {
        self.ticket.connect(&remote, unordered, wide(&token)).map_err(thrown)
    }

    #[napi]
    pub fn cancel(&self, token: BigInt) -> Result<i32, Thrown> {
        self.ticket.cancel(wide(&token)).map_err(thrown)
    }

    #[napi]
    pub fn close_flow(&self, flow: BigInt) -> Result<i32, Thrown> {
        self.ticket.close(wide(&flow)).map_err(thrown)
    }

    #[napi]
    pub fn reset(&self, flow: BigInt) -> Result<i32, Thrown> {
        self.ticket.reset(wide(&flow)).map_err(thrown)
    }

    /// Copies once, into shared memory.
    #[napi]
    pub fn send(&self, flow: BigInt, data: Buffer) -> Result<i32, Thrown> {
        self.ticket.send(wide(&flow), &data).map_err(thrown)
    }

    #[napi]
    pub fn request(&self, flow: BigInt, data: Buffer, timeout_us: f64) -> Result<BigInt, Thrown> {
        self.ticket.request(wide(&flow), &data, timeout_us as u64).map(BigInt::from).map_err(thrown)
    }

    /// Who is at the other end of a flow.
    #[napi]
    pub fn peer(&self, flow: BigInt) -> Result<Option<Identity>, Thrown> {
        let peer = self.ticket.peer(wide(&flow)).map_err(thrown)?;
        Ok(peer.map(|peer| Identity { name: peer.name, key: peer.key.to_vec().into() }))
    }

    #[napi]
    pub fn request_cancel(&self, request: BigInt) -> Result<bool, Thrown> {
        self.ticket.request_cancel(wide(&request)).map_err(thrown)
    }

    #[napi]
    pub fn respond(&self, flow: BigInt, request: BigInt, data: Buffer) -> Result<i32, Thrown> {
        self.ticket.respond(wide(&flow), wide(&request), &data).map_err(thrown)
    }

    #[napi]
    pub fn fail(&self, flow: BigInt, request: BigInt, code: u32, why: String) -> Result<i32, Thrown> {
        let code = u16::try_from(code).unwrap_or(u16::MAX);
        self.ticket.fail(wide(&flow), wide(&request), code, &why).map_err(thrown)
    }

    /// The body of a message, which is released.
    #[napi]
    pub fn take(
        &self,
        message_flow: BigInt,
        offset: u32,
        len: u32,
        has_head: bool,
    ) -> Result<Buffer, Thrown> {
        let claim = Claim { flow: wide(&message_flow), offset, len };
        let head = if has_head { BW_REQUEST_HEAD } else { 0 };
        self.ticket.take(claim, head).map(Buffer::from).map_err(thrown)
    }

    /// Lets Node end while nothing but this client is left.
    #[napi]
    pub fn set_referenced(&mut self, env: Env, referenced: bool) -> napi::Result<()> {
        match &mut self.sink {
            Some(sink) if referenced => sink.refer(&env),
            Some(sink) => sink.unref(&env),
            None => Ok(()),
        }
    }

    /// Ends the client; the last call of `sink` follows.
    #[napi]
    pub fn close(&mut self) {
        let Some(taker) = self.taker.take() else { return };
        self.stop.store(true, Ordering::Release);
        while !taker.is_finished() {
            let _ = self.ticket.wake();
            std::thread::yield_now();
        }
        let _ = taker.join();
        while self.ticket.free().is_err_and(|e| e.code == BW_ERR_BUSY) {
            std::thread::yield_now();
        }
        self.sink = None;
    }
}

impl Drop for NativeClient {
    fn drop(&mut self) {
        self.close();
    }
}

/// The library's version.
#[napi]
pub fn version() -> String {
    barewire_native::version()
}
