//! Requests and responses with futures: the format is that of [`crate::requests`].
//!
//! ```no_run
//! use barewire_client::aio::{AsyncClient, Caller, Request, ServeOptions, serve};
//! use std::time::Duration;
//!
//! # async fn server() -> Result<(), Box<dyn std::error::Error>> {
//! let client = AsyncClient::attach("prices").await?;
//! let listener = client.listen(888).await?;
//! serve(listener, ServeOptions::default(), |request: Request| async move {
//!     match request.body().to_vec().as_slice() {
//!         b"ES" => Ok(b"5012.25".to_vec()),
//!         _ => Err((404, "no such instrument".to_owned())),
//!     }
//! })
//! .await?;
//! # Ok(())
//! # }
//! # async fn client() -> Result<(), Box<dyn std::error::Error>> {
//! let client = AsyncClient::attach("trader").await?;
//! let caller = Caller::new(client.connect("db.example:888", &Default::default()).await?);
//! let price = caller.call(b"ES", Some(Duration::from_millis(5))).await?;
//! println!("{}", String::from_utf8_lossy(&price.to_vec()));
//! # Ok(())
//! # }
//! ```

use super::flow::{Flow, Message};
use super::listener::AsyncListener;
use super::state::Wanted;
use super::wait::{Entries, Place};
use super::{ConnectError, RecvError};
use crate::CloseReason;
use crate::error::SendError;
use crate::event::Inbound;
use crate::requests::{FAILURE_TEXT_MAX, HEAD_BYTES, Head, Kind};
use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn, ready};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

/// The failure that [`serve`] answers with when a handler ended without a result: it panicked.
pub const HANDLER_GONE: u16 = u16::MAX;
/// The failure that [`serve`] answers with when a request's deadline passed before its handler was done.
pub const DEADLINE_PASSED: u16 = u16::MAX - 1;

/// Why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallFailure {
    /// The request was refused here.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The server refused or failed.
    #[error("the server: {text} (code {code})")]
    Server {
        /// Its code.
        code: u16,
        /// What it said.
        text: String,
    },
    /// No answer came in time. The server was told to stop.
    #[error("no answer before the deadline")]
    Deadline,
    /// The flow ended first. Whether the server acted on the request is not known.
    #[error("the flow ended before an answer: {0}")]
    Ended(CloseReason),
    /// The daemon is gone.
    #[error("the daemon is gone")]
    DaemonGone,
}

/// The body of a request or a response, in the channel's memory until it is dropped.
#[derive(Debug)]
pub struct Body(Message);

impl Body {
    /// Bytes of the body.
    pub fn len(&self) -> usize {
        self.0.len().saturating_sub(HEAD_BYTES)
    }

    /// Whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes of the body from `at` within it; says how many.
    pub fn read_at(&self, at: usize, out: &mut [u8]) -> usize {
        self.0.read_at(at.saturating_add(HEAD_BYTES), out)
    }

    /// The body as a vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.bytes_from(HEAD_BYTES)
    }
}

/// Asks on a flow: any number of requests at a time, from any number of tasks. Clones ask on the same flow.
#[derive(Clone, Debug)]
pub struct Caller {
    flow: Flow,
}

impl Caller {
    /// Asks on `flow`, whose messages are answers from now on: [`Flow::recv`] of its clones gives none of them.
    pub fn new(flow: Flow) -> Caller {
        flow.with(|state, id| {
            if let Some(line) = state.flows.get_mut(&id) {
                line.calls.get_or_insert_default();
            }
        });
        Caller { flow }
    }

    /// The flow.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Sends a request and waits for its response. A deadline goes to the server with it. Dropped, the call is cancelled there.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub async fn call(&self, body: &[u8], deadline: Option<Duration>) -> Result<Body, CallFailure> {
        let end = deadline.map(|left| Instant::now() + left);
        let answer = async {
            let mut waiter = self.flow.waiter();
            let call = poll_fn(|cx| self.poll_ask(cx, &mut waiter.entries, body, end)).await?;
            drop(waiter);
            poll_fn(|cx| call.poll(cx)).await
        };
        let message = match end {
            Some(end) => timeout_at(end, answer).await.map_err(|_| CallFailure::Deadline)??,
            None => answer.await?,
        };
        let mut head = [0; HEAD_BYTES];
        message.read_at(0, &mut head);
        match Head::decode(&head) {
            Some(Head { kind: Kind::Failure, code, .. }) => {
                let text = String::from_utf8_lossy(&message.bytes_from(HEAD_BYTES)).into_owned();
                Err(CallFailure::Server { code, text })
            }
            _ => Ok(Body(message)),
        }
    }

    fn poll_ask(
        &self,
        cx: &Context<'_>,
        entries: &mut Entries,
        body: &[u8],
        end: Option<Instant>,
    ) -> Poll<Result<Call<'_>, CallFailure>> {
        self.flow.with(|state, flow| {
            let id = state.next_number();
            let head =
                Head::request(id, end.map(|end| end.saturating_duration_since(Instant::now()))).encode();
            match state.client.send_vectored(flow, &[IoSlice::new(&head), IoSlice::new(body)]) {
                Ok(()) => {
                    let calls = state.flows.get_mut(&flow).and_then(|line| line.calls.as_mut());
                    if let Some(calls) = calls {
                        calls.insert(id, Wanted::new());
                    }
                    Poll::Ready(Ok(Call { flow: &self.flow, id }))
                }
                Err(SendError::WouldBlock) => {
                    entries.wait(state, Place::Writer(flow), cx);
                    Poll::Pending
                }
                Err(e) => Poll::Ready(Err(e.into())),
            }
        })
    }
}

/// One request that was sent.
struct Call<'a> {
    flow: &'a Flow,
    id: u64,
}

impl Call<'_> {
    fn poll(&self, cx: &Context<'_>) -> Poll<Result<Message, CallFailure>> {
        let answer: Poll<Result<Inbound, CallFailure>> = self.flow.with(|state, flow| {
            state.pump();
            let is_gone = state.gone;
            let Some(line) = state.flows.get_mut(&flow) else {
                return Poll::Ready(Err(CallFailure::Ended(CloseReason::Local)));
            };
            let closed = line.closed;
            let Some(wanted) = line.calls.as_mut().and_then(|calls| calls.get_mut(&self.id)) else {
                return Poll::Ready(Err(CallFailure::Ended(closed.unwrap_or(CloseReason::Local))));
            };
            match wanted.got.take() {
                Some(inbound) => {
                    line.calls.as_mut().map(|calls| calls.remove(&self.id));
                    Poll::Ready(Ok(inbound))
                }
                None => match closed {
                    Some(reason) => Poll::Ready(Err(CallFailure::Ended(reason))),
                    None if is_gone => Poll::Ready(Err(CallFailure::DaemonGone)),
                    None => {
                        wanted.wait(cx, &mut state.later);
                        Poll::Pending
                    }
                },
            }
        });
        answer.map_ok(|inbound| self.flow.message(inbound))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.flow.with(|state, flow| {
            let Some(line) = state.flows.get_mut(&flow) else { return };
            let Some(wanted) = line.calls.as_mut().and_then(|calls| calls.remove(&self.id)) else { return };
            let is_open = line.closed.is_none();
            match wanted.given_up(&mut state.later) {
                Some(late) => state.client.release(late),
                // A server that does not hear of it works in vain, no more.
                None if is_open => {
                    let _ = state.client.send(flow, &Head::of(Kind::Cancel, self.id).encode());
                }
                None => {}
            }
        });
    }
}

/// A request, as its handler gets it.
#[derive(Debug)]
pub struct Request {
    body: Body,
    remote: SocketAddr,
    end: Option<Instant>,
}

impl Request {
    /// Who asks.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Time until the caller stops waiting; `None`: it waits for ever. Its time on the wire is not taken off.
    pub fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// What it asks.
    pub fn body(&self) -> &Body {
        &self.body
    }
}

/// What a handler says: the response's body, or a code of its own and a text for the caller. The two largest codes are
/// [`serve`]'s own.
pub type Handled = Result<Vec<u8>, (u16, String)>;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Handlers at a time for one flow; at least one. Further requests of that flow wait in the channel's memory, which bounds
    /// them and holds their caller back. Default 64.
    pub concurrent_max: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions { concurrent_max: 64 }
    }
}

/// Answers the requests of every flow that comes to `listener`, each in a task of its own. A handler whose caller has cancelled, or
/// whose flow has ended, is dropped at its next await; so is one whose deadline has passed. Ends when the client is closed.
///
/// # Errors
/// [`ConnectError::DaemonGone`], and [`ConnectError::Listen`] when the daemon after this one has the port for somebody else.
pub async fn serve<H, F>(
    listener: AsyncListener,
    options: ServeOptions,
    handler: H,
) -> Result<(), ConnectError>
where
    H: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Handled> + Send + 'static,
{
    let mut flows = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok(Some(flow)) => {
                flows.spawn(answer(flow, options.clone(), handler.clone()));
                // What is over gives its memory back.
                while flows.try_join_next().is_some() {}
            }
            Ok(None) => return Ok(()),
            Err(RecvError::NotListening(udp_port)) => return Err(ConnectError::Listen(udp_port)),
            Err(_) => return Err(ConnectError::DaemonGone),
        }
    }
}

/// The handlers of one flow, and the requests for which there is no place yet. These keep their memory in the channel, so that what
/// bounds them is what bounds messages that nobody reads.
struct Handlers<H> {
    flow: Flow,
    handler: H,
    concurrent_max: usize,
    running: HashMap<u64, AbortHandle>,
    /// Dropped, it drops the handlers.
    tasks: JoinSet<u64>,
    waiting: VecDeque<(u64, Request)>,
    /// Requests of which a failure is still to be told: there was no room when their handlers ended.
    untold: UnboundedSender<u64>,
}

impl<H, F> Handlers<H>
where
    H: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Handled> + Send + 'static,
{
    fn message(&mut self, message: Message) {
        let mut head = [0; HEAD_BYTES];
        let n = message.read_at(0, &mut head);
        // What is no request is passed over: a later version may say more.
        let Some(head) = Head::decode(&head[..n]) else { return };
        match head.kind {
            Kind::Request => {
                let end = head.left().map(|left| Instant::now() + left);
                self.waiting
                    .push_back((head.id, Request { body: Body(message), remote: self.flow.remote(), end }));
                self.fill();
            }
            Kind::Cancel => {
                self.waiting.retain(|(id, _)| *id != head.id);
                if let Some(handler) = self.running.remove(&head.id) {
                    handler.abort();
                }
            }
            Kind::Response | Kind::Failure => {}
        }
    }

    fn fill(&mut self) {
        while self.tasks.len() < self.concurrent_max.max(1) {
            let Some((id, request)) = self.waiting.pop_front() else { return };
            let end = request.end;
            // Its caller waits no longer: nobody would take what a handler does for it now.
            let is_late = end.is_some_and(|end| end <= Instant::now());
            let reply = self.reply(id);
            let task = if is_late {
                drop(request);
                self.tasks.spawn(reply.of(ready(Err(late())), None))
            } else {
                let handler = self.handler.clone();
                // The handler is called in the task: if it panics, that is its own request's affair.
                self.tasks.spawn(reply.of(async move { handler(request).await }, end))
            };
            self.running.insert(id, task);
        }
    }

    fn reply(&self, id: u64) -> Reply {
        Reply { flow: self.flow.clone(), id, is_sent: false, untold: self.untold.clone() }
    }

    /// Tells of a failure as soon as there is room.
    fn tell(&mut self, id: u64) {
        let failed = (HANDLER_GONE, NO_RESPONSE.to_owned());
        let task = self.tasks.spawn(self.reply(id).of(ready(Err(failed)), None));
        self.running.insert(id, task);
    }

    fn done(&mut self, id: Option<u64>) {
        match id {
            Some(id) => drop(self.running.remove(&id)),
            // Aborted, or panicked.
            None => self.running.retain(|_, task| !task.is_finished()),
        }
        self.fill();
    }
}

/// Answers the requests of one flow.
async fn answer<H, F>(flow: Flow, options: ServeOptions, handler: H) -> Result<(), RecvError>
where
    H: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Handled> + Send + 'static,
{
    let (untold, mut to_tell) = unbounded_channel();
    let mut handlers = Handlers {
        flow: flow.clone(),
        handler,
        concurrent_max: options.concurrent_max,
        running: HashMap::new(),
        tasks: JoinSet::new(),
        waiting: VecDeque::new(),
        untold,
    };
    loop {
        // It reads on when all places are taken: a cancellation may be what gives one back.
        tokio::select! {
            message = flow.recv() => match message? {
                Some(message) => handlers.message(message),
                None => return Ok(()),
            },
            Some(done) = handlers.tasks.join_next() => handlers.done(done.ok()),
            Some(id) = to_tell.recv() => handlers.tell(id),
        }
    }
}

/// What a caller is told whose request has no response.
const NO_RESPONSE: &str = "the request has no response: its handler failed, or its response is too large";

fn late() -> (u16, String) {
    (DEADLINE_PASSED, "the deadline passed here".to_owned())
}

/// The place of a response. Dropped without one (the handler panicked), it says so to the caller.
struct Reply {
    flow: Flow,
    id: u64,
    is_sent: bool,
    untold: UnboundedSender<u64>,
}

impl Reply {
    async fn of(mut self, handled: impl Future<Output = Handled>, end: Option<Instant>) -> u64 {
        let handled = match end {
            Some(end) => timeout_at(end, handled).await.unwrap_or_else(|_| Err(late())),
            None => handled.await,
        };
        let (head, body) = match handled {
            Ok(body) => (Head::of(Kind::Response, self.id), body),
            Err((code, text)) => {
                let mut text = text.into_bytes();
                text.truncate(FAILURE_TEXT_MAX);
                (Head { code, ..Head::of(Kind::Failure, self.id) }, text)
            }
        };
        let sent = self.flow.send_vectored(&[IoSlice::new(&head.encode()), IoSlice::new(&body)]).await;
        // Too large for the memory: the caller had better hear of it. What else is refused has no caller any more.
        self.is_sent = sent != Err(SendError::TooLarge);
        self.id
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            let head = Head { code: HANDLER_GONE, ..Head::of(Kind::Failure, self.id) };
            let message = [&head.encode(), NO_RESPONSE.as_bytes()].concat();
            if self.flow.try_send(&message) == Err(SendError::WouldBlock) {
                // Without its flow's task there is nobody who would take it either.
                let _ = self.untold.send(self.id);
            }
        }
    }
}
