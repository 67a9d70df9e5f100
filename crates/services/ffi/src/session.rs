//! A client and what C needs beside it.

use crate::boundary::Failure;
use crate::error::{BW_ERR_BUSY, BW_ERR_DAEMON_GONE, BW_ERR_SYSTEM};
use crate::request_state::{Refused, RequestState, Translated};
use crate::types::{self, BwBuf, BwEvent, BwMessage};
use barewire_client::requests::RequestId;
use barewire_client::{Client, Event, FlowId, Inbound, SendBuf, SendError, Sleeper, Waker};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// Tokens of C have this bit clear.
pub(crate) const OURS: u64 = 1 << 63;
/// Looks in vain after which the doorbell is looked at: a daemon that was killed says nothing in the shared memory.
const LOOKS: u32 = 256;

pub(crate) struct Session {
    pub client: Client,
    looks: u32,
    /// Between `bw_arm` and `bw_disarm`.
    pub armed: bool,
    /// What a thread in `bw_wait_event` sleeps on; made for the first one.
    sleeper: Option<Arc<Sleeper>>,
    waker: Option<Waker>,
    /// A thread sleeps on it.
    waiting: bool,
    /// The program wants a wait to end.
    woken: bool,
    /// Reservations that C holds, by their offset. A `bw_buf` is a name for one, and good for nothing once that is used up.
    reserved: HashMap<u32, SendBuf, BuildHasherDefault<OffsetHasher>>,
    pub requests: RequestState,
    /// Of a client that outlives its daemon: the messages that C holds, by their offset, so that one of the daemon before is not taken for
    /// another of this one.
    held: Option<HashMap<u32, u64, BuildHasherDefault<OffsetHasher>>>,
    /// The message that the last event told of as unconfirmed.
    unconfirmed: Option<Vec<u8>>,
}

/// Offsets are multiples of 64: spread by one multiplication.
#[derive(Default)]
pub(crate) struct OffsetHasher(u64);

impl Hasher for OffsetHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }
    #[inline]
    fn write_u32(&mut self, n: u32) {
        let n = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = n ^ n >> 32;
    }
}

/// What a wait comes to.
pub(crate) enum Step {
    /// An event, or the time is over.
    Done(Option<BwEvent>),
    /// Sleep, with the client let go, for so long at most.
    Sleep(Arc<Sleeper>, Option<Duration>),
}

impl Session {
    /// `is_steady`: the client outlives its daemon.
    pub(crate) fn new(client: Client, is_steady: bool) -> Session {
        Session {
            client,
            looks: 0,
            armed: false,
            sleeper: None,
            waker: None,
            waiting: false,
            woken: false,
            reserved: HashMap::default(),
            requests: RequestState::default(),
            held: is_steady.then(HashMap::default),
            unconfirmed: None,
        }
    }

    pub(crate) fn reserve(&mut self, len: usize) -> Result<BwBuf, SendError> {
        let buf = self.client.reserve(len)?;
        let named = BwBuf { offset: buf.offset(), len: buf.len() as u32 };
        self.reserved.insert(named.offset, buf);
        Ok(named)
    }

    /// Writes bytes of a reservation. False when there is none, or they reach beyond its end.
    #[inline]
    pub(crate) fn write(&mut self, buf: BwBuf, at: usize, bytes: &[u8]) -> bool {
        let Session { client, reserved, .. } = self;
        let named = reserved.get(&buf.offset).filter(|b| b.len() == buf.len as usize);
        named.is_some_and(|b| client.write(b, at, bytes))
    }

    /// The reservation that C means; it is used up.
    pub(crate) fn take_reserved(&mut self, buf: BwBuf) -> Option<SendBuf> {
        self.reserved.get(&buf.offset).filter(|b| b.len() == buf.len as usize)?;
        self.reserved.remove(&buf.offset)
    }

    /// Whether a thread sleeps on it. In a child of the process that attached it there is none: threads stay behind.
    pub(crate) fn is_waited_on(&self) -> bool {
        self.waiting && !self.client.is_inherited()
    }

    /// The next event; never waits.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<BwEvent>, Failure> {
        loop {
            if let Some(event) = self.requests.unanswered(&mut self.client) {
                return Ok(Some(event));
            }
            let Some(event) = self.client.next_event() else {
                self.looks += 1;
                if self.looks >= LOOKS && !self.armed && !self.waiting {
                    self.looks = 0;
                    self.client.disarm();
                }
                if !self.client.is_closed() {
                    return Ok(None);
                }
                if self.client.is_steady() {
                    match self.outlive() {
                        Some(event) => return Ok(Some(event)),
                        None if self.client.is_detached() => return Ok(None),
                        None => continue,
                    }
                }
                // What it said before it closed may have come between the two looks.
                match self.client.next_event() {
                    Some(event) => match self.translate(event) {
                        Some(event) => return Ok(Some(event)),
                        None => continue,
                    },
                    None => return Err(BW_ERR_DAEMON_GONE.into()),
                }
            };
            self.looks = 0;
            if let Some(event) = self.translate(event) {
                return Ok(Some(event));
            }
        }
    }

    /// The daemon is gone: what is said of that, and a look for the next one. Why there is none is no failure of this call.
    #[cold]
    fn outlive(&mut self) -> Option<BwEvent> {
        let event = match self.client.next_event() {
            Some(event) => event,
            None => {
                let _ = self.client.try_reattach();
                self.client.next_event()?
            }
        };
        self.translate(event)
    }

    /// The message that the last event told of as unconfirmed.
    pub(crate) fn unconfirmed(&self) -> Option<&[u8]> {
        self.unconfirmed.as_deref()
    }

    /// Whether C may have this message: always, but for clients that outlive their daemon, whose messages go with it.
    #[inline]
    pub(crate) fn holds(&self, message: &BwMessage) -> bool {
        self.held.as_ref().is_none_or(|held| held.get(&message.offset) == Some(&message.flow))
    }

    /// C gives a message back.
    #[inline]
    pub(crate) fn lets_go(&mut self, message: &BwMessage) {
        if let Some(held) = &mut self.held {
            held.remove(&message.offset);
        }
    }

    /// Remembers a message that C is given.
    #[inline]
    fn hands_out(&mut self, event: &BwEvent) {
        if let Some(held) = &mut self.held {
            held.insert(event.message.offset, event.message.flow);
        }
    }

    /// One look for an event, before or after a sleep; `left`: how long the wait may still take.
    pub(crate) fn step(&mut self, slept: bool, left: Option<Duration>) -> Result<Step, Failure> {
        if slept {
            self.waiting = false;
            self.client.disarm();
            // Whoever rang is heard now.
            self.client.take_woken();
        } else if self.is_waited_on() {
            // Of two that sleep, one would take what wakes the other.
            return Err(BW_ERR_BUSY.into());
        }
        loop {
            self.client.flush();
            if let Some(event) = self.next()? {
                return Ok(Step::Done(Some(event)));
            }
            if std::mem::take(&mut self.woken) {
                return Ok(Step::Done(Some(BwEvent::new(types::BW_EVENT_WOKEN))));
            }
            if left == Some(Duration::ZERO) {
                return Ok(Step::Done(None));
            }
            if self.client.is_detached() {
                // The daemon's bell rings no more.
                let failed = |e: std::io::Error| Failure::new(BW_ERR_SYSTEM, e.to_string());
                let sleeper = Arc::new(self.client.lonely_sleeper().map_err(failed)?);
                self.waker = Some(self.client.waker().map_err(failed)?);
                self.waiting = true;
                let nap = self.client.reattach_nap();
                return Ok(Step::Sleep(sleeper, Some(left.map_or(nap, |left| left.min(nap)))));
            }
            let Some(sleeper) = &self.sleeper else {
                let failed = |e: std::io::Error| Failure::new(BW_ERR_SYSTEM, e.to_string());
                self.sleeper = Some(Arc::new(self.client.sleeper().map_err(failed)?));
                self.waker = Some(self.client.waker().map_err(failed)?);
                continue;
            };
            let sleeper = sleeper.clone();
            let left = [left, self.requests.until_deadline()].into_iter().flatten().min();
            if let Some(nap) = self.client.prepare_sleep(left) {
                self.waiting = true;
                return Ok(Step::Sleep(sleeper, nap));
            }
        }
    }

    /// Sends a request.
    pub(crate) fn request(
        &mut self,
        flow: FlowId,
        body: &[u8],
        timeout: Option<Duration>,
    ) -> Result<RequestId, Failure> {
        let (id, is_next) = self.requests.request(&mut self.client, flow, body, timeout).map_err(
            |refused| match refused {
                Refused::Message(e) => self.full_or_gone(e),
                Refused::Otherwise(failure) => failure,
            },
        )?;
        // A thread that sleeps does so until the deadline that was the next one.
        if self.waiting && is_next {
            self.wake_sleeper();
        }
        Ok(id)
    }

    /// Gives a request up. False: it was over.
    pub(crate) fn request_cancel(&mut self, id: u64) -> Result<bool, Failure> {
        self.requests.cancel(&mut self.client, id)
    }

    /// After each call on the client: a thread that sleeps must look again when the call took away what would have woken it.
    #[inline]
    pub(crate) fn after_call(&self) {
        if self.waiting && self.client.ends_sleep() {
            self.wake_sleeper();
        }
    }

    /// The program wakes whoever waits, or the next one that does.
    pub(crate) fn wake(&mut self) {
        self.woken = true;
        if self.waiting {
            self.wake_sleeper();
        }
    }

    #[cold]
    fn wake_sleeper(&self) {
        if let Some(nudge) = &self.waker {
            nudge.wake();
        }
    }

    /// A full ring, looked at again: nothing empties the ring of a daemon that was killed.
    #[cold]
    pub(crate) fn full_or_gone(&mut self, e: SendError) -> Failure {
        if e == SendError::WouldBlock && !self.armed && !self.waiting {
            self.client.disarm();
            if self.client.is_closed() {
                return BW_ERR_DAEMON_GONE.into();
            }
        }
        e.into()
    }

    #[inline]
    fn translate(&mut self, event: Event) -> Option<BwEvent> {
        if self.unconfirmed.is_some() {
            self.unconfirmed = None;
        }
        let event = self.in_numbers(event)?;
        if event.message.flow != 0 {
            self.hands_out(&event);
        }
        Some(event)
    }

    #[inline]
    fn in_numbers(&mut self, event: Event) -> Option<BwEvent> {
        let event = match self.requests.translate(&mut self.client, event) {
            Translated::Event(event) => event,
            Translated::Message(event, inbound) => return Some(with_message(event, inbound)),
            Translated::Told(event) => return Some(event),
            Translated::Nothing => return None,
        };
        match event {
            Event::Detached { flows, unconfirmed } => Some(BwEvent {
                token: unconfirmed as u64,
                reason: flows as u32,
                ..BwEvent::new(types::BW_EVENT_DETACHED)
            }),
            Event::Unconfirmed { flow, token, bytes } => {
                let reason = bytes.len() as u32;
                self.unconfirmed = Some(bytes);
                let (flow, token) = (flow.to_raw(), token.unwrap_or(0));
                Some(BwEvent { flow, token, reason, ..BwEvent::new(types::BW_EVENT_UNCONFIRMED) })
            }
            Event::Reattached => {
                // They slept on the old daemon's bell, and belong to its memory.
                self.sleeper = None;
                self.reserved.clear();
                self.held = Some(HashMap::default());
                Some(BwEvent::new(types::BW_EVENT_REATTACHED))
            }
            event => event_of(event),
        }
    }
}

/// What an event is in numbers; `None`: this release has none for it.
#[inline]
pub(crate) fn event_of(event: Event) -> Option<BwEvent> {
    Some(match event {
        Event::Message(inbound) => with_message(BwEvent::new(types::BW_EVENT_MESSAGE), inbound),
        Event::Writable { flow } => {
            BwEvent { flow: flow.map_or(0, FlowId::to_raw), ..BwEvent::new(types::BW_EVENT_WRITABLE) }
        }
        Event::Woken => BwEvent::new(types::BW_EVENT_WOKEN),
        Event::Connected { flow, token, local, remote } => BwEvent {
            flow: flow.to_raw(),
            token,
            local: local.into(),
            remote: remote.into(),
            ..BwEvent::new(types::BW_EVENT_CONNECTED)
        },
        Event::ConnectFailed { token, reason, .. } => BwEvent {
            token,
            reason: types::connect_code(reason),
            ..BwEvent::new(types::BW_EVENT_CONNECT_FAILED)
        },
        Event::Accepted { flow, token, local, remote } => BwEvent {
            flow: flow.to_raw(),
            token,
            local: local.into(),
            remote: remote.into(),
            ..BwEvent::new(types::BW_EVENT_ACCEPTED)
        },
        Event::Delivered { flow, token, delivered } => {
            let kind = if delivered { types::BW_EVENT_DELIVERED } else { types::BW_EVENT_UNDELIVERED };
            BwEvent { flow: flow.to_raw(), token, ..BwEvent::new(kind) }
        }
        Event::Listening { token, udp_port } => listener(types::BW_EVENT_LISTENING, token, udp_port),
        Event::ListenFailed { token, udp_port } => listener(types::BW_EVENT_LISTEN_FAILED, token, udp_port),
        Event::Closed { flow, reason } => BwEvent {
            flow: flow.to_raw(),
            reason: types::closed_code(reason),
            ..BwEvent::new(types::BW_EVENT_CLOSED)
        },
        _ => return None,
    })
}

fn with_message(event: BwEvent, inbound: Inbound) -> BwEvent {
    let (flow, offset, len) = inbound.into_raw();
    let message = BwMessage { flow: flow.to_raw(), offset, len };
    BwEvent { flow: flow.to_raw(), message, ..event }
}

fn listener(kind: u32, token: u64, udp_port: u16) -> BwEvent {
    let mut event = BwEvent { token, ..BwEvent::new(kind) };
    event.local.port = udp_port;
    event
}
