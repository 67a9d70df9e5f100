//! Requests and responses over messages: who asked what, until when, and which answer belongs to it.
//!
//! Each message begins with a head of [`HEAD_BYTES`] bytes, little-endian; the body follows:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 | version, 1 |
//! | 1 | kind: 1 request, 2 response, 3 failure, 4 cancellation |
//! | 2, 3 | code of a failure, else 0 |
//! | 4 to 7 | request: microseconds until its deadline when it was sent, 0: none, or later than the field holds (71 minutes); else 0 |
//! | 8 to 15 | number of the request, chosen by who asks |
//!
//! A deadline travels as time that is left, so the two clocks need not agree; time on the wire is not taken off.
//!
//! [`Requests`] is for who asks, [`Asked::of`] for who answers. Both are values beside a [`Client`] or an
//! [`Embedded`], do no I/O of their own, and allocate nothing after they were made.
//! The feature `tokio` has the same with futures: `aio::Caller` and `aio::serve`.

use crate::error::SendError;
use crate::event::{Event, Inbound};
use crate::{Client, Embedded, FlowId};
use barewire_base::Instant;
use barewire_wheel::Timers;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

/// Bytes before the body.
pub const HEAD_BYTES: usize = 16;
/// How long the text of a failure may be, in bytes: more is cut off when it is sent.
pub const FAILURE_TEXT_MAX: usize = 1024;
const VERSION: u8 = 1;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request = 1,
    Response = 2,
    Failure = 3,
    Cancel = 4,
}

/// What stands before the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub code: u16,
    pub left_us: u32,
    pub id: u64,
}

impl Head {
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.code.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.left_us.to_le_bytes());
        bytes[8..].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    /// `None`: not one of ours. Bits without a meaning must be zero, so that they can be given one.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let bytes: &[u8; HEAD_BYTES] = bytes.get(..HEAD_BYTES)?.try_into().ok()?;
        let [version, kind, c0, c1, l0, l1, l2, l3, id @ ..] = *bytes;
        let kind = match kind {
            1 => Kind::Request,
            2 => Kind::Response,
            3 => Kind::Failure,
            4 => Kind::Cancel,
            _ => return None,
        };
        let code = u16::from_le_bytes([c0, c1]);
        let left_us = u32::from_le_bytes([l0, l1, l2, l3]);
        let valid = version == VERSION
            && (code == 0 || kind == Kind::Failure)
            && (left_us == 0 || kind == Kind::Request);
        valid.then_some(Head { kind, code, left_us, id: u64::from_le_bytes(id) })
    }

    pub fn request(id: u64, left: Option<Duration>) -> Head {
        // One microsecond at least: zero says that there is no deadline. So it is said of one that the field does not hold: an earlier one
        // would have the server give up too soon, and this side's own deadline still tells it to stop.
        let left_us = left.map_or(0, |left| u32::try_from(left.as_micros().max(1)).unwrap_or(0));
        Head { kind: Kind::Request, code: 0, left_us, id }
    }

    pub fn of(kind: Kind, id: u64) -> Head {
        Head { kind, code: 0, left_us: 0, id }
    }

    pub fn left(&self) -> Option<Duration> {
        (self.left_us != 0).then(|| Duration::from_micros(self.left_us.into()))
    }
}

/// What sends and holds messages: a [`Client`] or an [`Embedded`].
pub trait Messages {
    /// Queues one message made of `pieces`.
    ///
    /// # Errors
    /// As [`Client::send`].
    fn send_pieces(&mut self, flow: FlowId, pieces: &[IoSlice<'_>]) -> Result<(), SendError>;
    /// Copies bytes of a received message from `at` within it; says how many.
    fn copy_from(&self, message: &Inbound, at: usize, out: &mut [u8]) -> usize;
    /// Gives a received message back.
    fn give_back(&mut self, message: Inbound);
}

impl Messages for Client {
    #[inline]
    fn send_pieces(&mut self, flow: FlowId, pieces: &[IoSlice<'_>]) -> Result<(), SendError> {
        self.send_vectored(flow, pieces)
    }
    #[inline]
    fn copy_from(&self, message: &Inbound, at: usize, out: &mut [u8]) -> usize {
        self.read_at(message, at, out)
    }
    #[inline]
    fn give_back(&mut self, message: Inbound) {
        self.release(message);
    }
}

impl Messages for Embedded {
    #[inline]
    fn send_pieces(&mut self, flow: FlowId, pieces: &[IoSlice<'_>]) -> Result<(), SendError> {
        self.send_vectored(flow, pieces)
    }
    #[inline]
    fn copy_from(&self, message: &Inbound, at: usize, out: &mut [u8]) -> usize {
        let bytes = self.message(message).get(at..).unwrap_or(&[]);
        let n = bytes.len().min(out.len());
        out[..n].copy_from_slice(&bytes[..n]);
        n
    }
    #[inline]
    fn give_back(&mut self, message: Inbound) {
        self.release(message);
    }
}

pub(crate) fn head_of(via: &impl Messages, message: &Inbound) -> Option<Head> {
    let mut bytes = [0; HEAD_BYTES];
    let n = via.copy_from(message, 0, &mut bytes);
    Head::decode(&bytes[..n])
}

/// Names a request. Never used again by the same [`Requests`] before four thousand million others had its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u64);

impl RequestId {
    fn new(index: u32, generation: u32) -> RequestId {
        RequestId(u64::from(generation) << 32 | u64::from(index))
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    /// As a number, for foreign interfaces.
    pub fn to_raw(self) -> u64 {
        self.0
    }

    /// From its number. One that names no request finds none.
    pub fn from_raw(raw: u64) -> RequestId {
        RequestId(raw)
    }
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// As many requests as [`Requests::new`] was told are unanswered.
    #[error("too many requests are unanswered: take answers, or cancel some")]
    TooMany,
    /// The deadline has passed.
    #[error("the deadline has passed")]
    Deadline,
    /// The message was refused.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// A received message whose first [`HEAD_BYTES`] bytes are a head.
#[derive(Debug)]
#[must_use = "an answer that is dropped is gone"]
pub struct Body(Inbound);

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
    #[inline]
    pub fn read_at(&self, via: &impl Messages, at: usize, out: &mut [u8]) -> usize {
        via.copy_from(&self.0, at.saturating_add(HEAD_BYTES), out)
    }

    /// The body as a vector.
    pub fn to_vec(&self, via: &impl Messages) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        let n = self.read_at(via, 0, &mut bytes);
        bytes.truncate(n);
        bytes
    }

    /// The message, head and all: for [`Embedded::message`], which copies nothing.
    pub fn message(&self) -> &Inbound {
        &self.0
    }

    /// The message, head and all, to give back oneself: for foreign interfaces.
    pub fn into_message(self) -> Inbound {
        self.0
    }

    /// Gives the memory back.
    #[inline]
    pub fn release(self, via: &mut impl Messages) {
        via.give_back(self.0);
    }
}

/// What became of a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Answer {
    /// The response.
    Response(Body),
    /// The server refused or failed, with a code of its own and a text.
    Failure {
        /// The server's code.
        code: u16,
        /// The server's text.
        text: Body,
    },
    /// No answer came before the deadline. The server was told to stop.
    Deadline,
    /// The flow ended before an answer came. Whether the server acted on it is not known.
    FlowEnded,
}

/// What an event is to who asks.
#[derive(Debug)]
#[non_exhaustive]
pub enum Taken {
    /// An answer.
    Answer(RequestId, Answer),
    /// An answer to what was cancelled or is past its deadline: already given back, nothing to do.
    Late,
    /// Something else.
    Event(Event),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    /// `None`: free.
    flow: Option<FlowId>,
    /// The wheel may fire a little early.
    deadline: Instant,
}

/// The requests that wait for an answer, on any number of flows.
///
/// ```
/// # use barewire_client::{Embedded, Event, FlowId, requests::{Answer, Requests, Taken}};
/// # fn example(endpoint: &mut Embedded, flow: FlowId) -> Result<(), Box<dyn std::error::Error>> {
/// let mut requests = Requests::new(64);
/// let deadline = endpoint.now() + barewire_base::Duration::from_millis(5);
/// let asked = requests.call(endpoint.now(), endpoint, flow, b"price of ES?", Some(deadline))?;
/// loop {
///     endpoint.poll()?;
///     while let Some(event) = endpoint.next_event() {
///         match requests.take(endpoint, event) {
///             Taken::Answer(id, Answer::Response(body)) if id == asked => {
///                 println!("{}", String::from_utf8_lossy(&body.to_vec(endpoint)));
///                 body.release(endpoint);
///                 return Ok(());
///             }
///             other => println!("{other:?}"),
///         }
///     }
///     while let Some((id, ended)) = requests.poll(endpoint.now(), endpoint) {
///         println!("{id:?}: {ended:?}");
///         return Ok(());
///     }
/// }
/// # }
/// ```
pub struct Requests {
    slots: Vec<Slot>,
    free: Vec<u32>,
    timers: Timers,
    /// Those whose flow has ended, to be told.
    ended: VecDeque<RequestId>,
    late: u64,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests")
            .field("unanswered", &self.unanswered())
            .field("late", &self.late)
            .finish_non_exhaustive()
    }
}

impl Requests {
    /// Room for `unanswered_max` requests at a time.
    pub fn new(unanswered_max: u32) -> Requests {
        Requests {
            slots: vec![Slot { generation: 1, flow: None, deadline: Instant::ZERO }; unanswered_max as usize],
            free: (0..unanswered_max).rev().collect(),
            timers: Timers::new(unanswered_max as usize),
            ended: VecDeque::with_capacity(unanswered_max as usize),
            late: 0,
        }
    }

    /// Requests without an answer.
    pub fn unanswered(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Answers that came too late, or to nothing that was asked.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Sends a request. A deadline goes to the server with it; when it passes, [`poll`](Self::poll) says so.
    ///
    /// # Errors
    /// [`CallError`]; nothing was sent then.
    #[inline]
    pub fn call(
        &mut self,
        now: Instant,
        via: &mut impl Messages,
        flow: FlowId,
        body: &[u8],
        deadline: Option<Instant>,
    ) -> Result<RequestId, CallError> {
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(CallError::Deadline);
        }
        let index = *self.free.last().ok_or(CallError::TooMany)?;
        let slot = &mut self.slots[index as usize];
        let id = RequestId::new(index, slot.generation);
        let head = Head::request(id.0, deadline.map(|deadline| deadline.since(now).into()));
        via.send_pieces(flow, &[IoSlice::new(&head.encode()), IoSlice::new(body)])?;
        slot.flow = Some(flow);
        self.free.pop();
        if let Some(deadline) = deadline {
            slot.deadline = deadline;
            self.timers.arm(index, deadline);
        }
        Ok(id)
    }

    /// The request is over: its number means nothing any more. `None` when it was over before.
    #[inline]
    fn end(&mut self, id: RequestId) -> Option<FlowId> {
        let slot = self.slots.get_mut(id.index())?;
        if RequestId::new(id.index() as u32, slot.generation) != id {
            return None;
        }
        let flow = slot.flow.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.timers.disarm(id.index() as u32);
        self.free.push(id.index() as u32);
        Some(flow)
    }

    /// Gives a request up and tells the server, if there is room for the message. False when it was over already.
    pub fn cancel(&mut self, via: &mut impl Messages, id: RequestId) -> bool {
        let Some(flow) = self.end(id) else { return false };
        // A server that does not hear of it works in vain, no more.
        let _ = via.send_pieces(flow, &[IoSlice::new(&Head::of(Kind::Cancel, id.0).encode())]);
        true
    }

    /// Looks whether an event is an answer. Every event has to come by here, or a flow's end is not noticed.
    #[inline]
    pub fn take(&mut self, via: &mut impl Messages, event: Event) -> Taken {
        let message = match event {
            Event::Message(message) => message,
            Event::Closed { flow, .. } | Event::ConnectFailed { flow, .. } => {
                self.flow_ended(flow);
                return Taken::Event(event);
            }
            other => return Taken::Event(other),
        };
        let Some(head @ Head { kind: Kind::Response | Kind::Failure, .. }) = head_of(via, &message) else {
            return Taken::Event(Event::Message(message));
        };
        let id = RequestId(head.id);
        // An answer on another flow than the request's is somebody else's guess.
        let ours = self.slots.get(id.index()).is_some_and(|slot| slot.flow == Some(message.flow()));
        if !ours || self.end(id).is_none() {
            self.late += 1;
            via.give_back(message);
            return Taken::Late;
        }
        let body = Body(message);
        Taken::Answer(
            id,
            match head.kind {
                Kind::Response => Answer::Response(body),
                _ => Answer::Failure { code: head.code, text: body },
            },
        )
    }

    #[cold]
    fn flow_ended(&mut self, flow: FlowId) {
        for (index, slot) in self.slots.iter().enumerate() {
            if slot.flow == Some(flow) {
                self.ended.push_back(RequestId::new(index as u32, slot.generation));
            }
        }
    }

    /// The next request that ended without an answer. Call until `None`, in every turn of the loop.
    #[inline]
    pub fn poll(&mut self, now: Instant, via: &mut impl Messages) -> Option<(RequestId, Answer)> {
        while let Some(id) = self.ended.pop_front() {
            if self.end(id).is_some() {
                return Some((id, Answer::FlowEnded));
            }
        }
        while self.timers.is_due(now) {
            let index = self.timers.pop_due(now)?;
            let slot = self.slots[index as usize];
            if slot.deadline > now {
                self.timers.arm(index, slot.deadline);
                continue;
            }
            let id = RequestId::new(index, slot.generation);
            if self.cancel(via, id) {
                return Some((id, Answer::Deadline));
            }
        }
        None
    }

    /// When [`poll`](Self::poll) has something to do at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.ended.is_empty() { self.timers.next_deadline() } else { Some(Instant::ZERO) }
    }
}

/// A request, as who answers sees it.
#[derive(Debug)]
pub struct Request {
    id: u64,
    left: Option<Duration>,
    body: Body,
}

/// Where a response goes: outlives the request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyTo {
    flow: FlowId,
    id: u64,
}

impl ReplyTo {
    /// From the parts that [`flow`](Self::flow) and [`id`](Self::id) give, for foreign interfaces. Others are an answer to nothing.
    pub fn new(flow: FlowId, id: u64) -> ReplyTo {
        ReplyTo { flow, id }
    }

    /// The number that the caller gave the request; its own on each flow.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The flow that the request came on.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// Sends the response.
    ///
    /// # Errors
    /// As [`Client::send`]; after [`SendError::WouldBlock`] it can be tried again.
    #[inline]
    pub fn respond(&self, via: &mut impl Messages, body: &[u8]) -> Result<(), SendError> {
        let head = Head::of(Kind::Response, self.id).encode();
        via.send_pieces(self.flow, &[IoSlice::new(&head), IoSlice::new(body)])
    }

    /// Says that there is no response, with a code and a text for the caller.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn fail(&self, via: &mut impl Messages, code: u16, text: &str) -> Result<(), SendError> {
        let head = Head { code, ..Head::of(Kind::Failure, self.id) }.encode();
        let text = &text.as_bytes()[..text.len().min(FAILURE_TEXT_MAX)];
        via.send_pieces(self.flow, &[IoSlice::new(&head), IoSlice::new(text)])
    }
}

impl Request {
    /// Time until the caller's deadline when it sent the request; `None`: it waits for ever, or for more than 71 minutes, and says when no
    /// longer.
    pub fn left(&self) -> Option<Duration> {
        self.left
    }

    /// The body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The body, to give back oneself.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// Where the response goes.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo { flow: self.body.0.flow(), id: self.id }
    }

    /// Gives the body's memory back and keeps where the response goes.
    #[inline]
    pub fn release(self, via: &mut impl Messages) -> ReplyTo {
        let to = self.reply_to();
        self.body.release(via);
        to
    }
}

/// What an event is to who answers.
#[derive(Debug)]
#[non_exhaustive]
pub enum Asked {
    /// A request.
    Request(Request),
    /// The caller no longer waits for this one.
    Cancelled(ReplyTo),
    /// Something else.
    Event(Event),
}

impl Asked {
    /// Looks whether an event is a request.
    #[inline]
    pub fn of(via: &mut impl Messages, event: Event) -> Asked {
        let Event::Message(message) = event else { return Asked::Event(event) };
        match head_of(via, &message) {
            Some(head @ Head { kind: Kind::Request, .. }) => {
                Asked::Request(Request { id: head.id, left: head.left(), body: Body(message) })
            }
            Some(Head { kind: Kind::Cancel, id, .. }) => {
                let to = ReplyTo { flow: message.flow(), id };
                via.give_back(message);
                Asked::Cancelled(to)
            }
            _ => Asked::Event(Event::Message(message)),
        }
    }
}

#[cfg(test)]
mod tests;
