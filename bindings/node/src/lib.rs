//! The native part: `index.js` makes promises and iterators of it.
//!
//! Everything is called on Node's thread and never waits; events come from its own loop (`watch.rs`). Failures are thrown as errors whose
//! `code` is a `BW_ERR_...` number as a text.

mod watch;

use barewire_native::{BW_ERR_BUSY, BW_REQUEST_HEAD, Claim, Failed, Ticket};
use napi::bindgen_prelude::{BigInt, Buffer, BufferSlice};
use napi::{Env, JsFunction, JsTypedArray, NapiRaw};
use napi_derive::napi;
use watch::Watch;

type Thrown = napi::Error<String>;

fn thrown(e: Failed) -> Thrown {
    Thrown::new(e.code.to_string(), e.text)
}

/// A number of 64 bits.
fn wide(n: &BigInt) -> u64 {
    n.get_u64().1
}

/// Who is at the other end of an encrypted flow.
#[napi(object)]
pub struct Identity {
    /// What the configuration calls it.
    pub name: String,
    /// Its public key.
    pub key: Buffer,
}

/// A client.
#[napi]
pub struct NativeClient {
    ticket: Ticket,
    watch: Option<Watch>,
}

#[napi]
impl NativeClient {
    /// Attaches, and calls `sink` with how many events are in `board` from then on.
    #[napi(constructor)]
    pub fn new(
        env: Env,
        name: String,
        socket: Option<String>,
        calls_max: u32,
        board: JsTypedArray,
        sink: JsFunction,
    ) -> Result<NativeClient, Thrown> {
        let ticket = barewire_native::attach(&name, socket.as_deref(), calls_max).map_err(thrown)?;
        // SAFETY: the values live as long as this call.
        match unsafe { Watch::start(env.raw(), ticket, board.raw(), sink.raw()) } {
            Ok(watch) => Ok(NativeClient { ticket, watch: Some(watch) }),
            Err(e) => {
                let _ = ticket.free();
                Err(Thrown::new("-21".to_owned(), e.reason))
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
    pub fn send(&self, flow: BigInt, data: BufferSlice<'_>) -> Result<i32, Thrown> {
        self.ticket.send(wide(&flow), &data).map_err(thrown)
    }

    #[napi]
    pub fn request(&self, flow: BigInt, data: BufferSlice<'_>, timeout_us: f64) -> Result<BigInt, Thrown> {
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
    pub fn respond(&self, flow: BigInt, request: BigInt, data: BufferSlice<'_>) -> Result<i32, Thrown> {
        self.ticket.respond(wide(&flow), wide(&request), &data).map_err(thrown)
    }

    #[napi]
    pub fn fail(&self, flow: BigInt, request: BigInt, code: u32, why: String) -> Result<i32, Thrown> {
        let code = u16::try_from(code).unwrap_or(u16::MAX);
        self.ticket.fail(wide(&flow), wide(&request), code, &why).map_err(thrown)
    }

    /// Copies the body of a message into a buffer of its length, and releases the message.
    #[napi]
    pub fn take(
        &self,
        flow: BigInt,
        offset: u32,
        len: u32,
        has_head: bool,
        mut into: BufferSlice<'_>,
    ) -> Result<u32, Thrown> {
        let claim = Claim { flow: wide(&flow), offset, len };
        let head = if has_head { BW_REQUEST_HEAD } else { 0 };
        self.ticket.take_into(claim, head, &mut into).map(|n| n as u32).map_err(thrown)
    }

    /// Has Node stay for this client, or not, as the board says, before the loop looks there.
    #[napi]
    pub fn hold(&self) {
        if let Some(watch) = &self.watch {
            watch.hold();
        }
    }

    /// The other end of the connection that an event of this burst is about; why the client ended.
    #[napi]
    pub fn text(&self, at: u32) -> String {
        self.watch.as_ref().map_or_else(String::new, |watch| watch.text(at as usize))
    }

    /// Ends the client: nothing calls `sink` any more.
    #[napi]
    pub fn close(&mut self) {
        let Some(watch) = self.watch.take() else { return };
        watch.end();
        while self.ticket.free().is_err_and(|e| e.code == BW_ERR_BUSY) {
            std::thread::yield_now();
        }
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
