//! A client and what C needs beside it.

use crate::boundary::Failure;
use crate::error::BW_ERR_DAEMON_GONE;
use crate::types::{self, BwEvent, BwMessage};
use barewire_client::{Client, ConnectOptions, ConnectWaitError, Event, FlowId, Inbound, SendError};
use std::net::SocketAddr;
use std::time::Duration;

/// Tokens with this bit are of attempts that `bw_connect_wait` made; C's own have it clear.
pub(crate) const OURS: u64 = 1 << 63;
/// Looks in vain after which the doorbell is looked at: a daemon that was killed says nothing in the shared memory.
const LOOKS: u32 = 256;

pub(crate) struct Session {
    pub client: Client,
    attempts: u64,
    looks: u32,
    /// Between `bw_arm` and `bw_disarm`.
    pub armed: bool,
    /// Flows that opened after their `bw_connect_wait` had given up; true: the daemon was told to end them.
    unwanted: Vec<(FlowId, bool)>,
}

impl Session {
    pub(crate) fn new(client: Client) -> Session {
        Session { client, attempts: 0, looks: 0, armed: false, unwanted: Vec::new() }
    }

    pub(crate) fn connect_wait(
        &mut self,
        remote: SocketAddr,
        options: ConnectOptions,
        timeout: Duration,
    ) -> Result<FlowId, ConnectWaitError> {
        // Unlike every other token, so that an answer to an earlier attempt that was given up is told apart.
        self.attempts += 1;
        self.client.connect_wait(remote, &ConnectOptions { token: OURS | self.attempts, ..options }, timeout)
    }

    /// The next event; never waits.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<BwEvent>, Failure> {
        loop {
            let Some(event) = self.client.next_event() else {
                self.looks += 1;
                if self.looks >= LOOKS && !self.armed {
                    self.looks = 0;
                    self.client.disarm();
                }
                if !self.client.is_closed() {
                    return Ok(None);
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

    /// The next event; waits for it for up to `timeout`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<BwEvent>, Failure> {
        let start = barewire_engine::now();
        loop {
            let left = timeout.map(|t| t.saturating_sub(barewire_engine::now().since(start).into()));
            let Some(event) = self.client.wait_event(left)? else {
                return Ok(None);
            };
            if let Some(event) = self.translate(event) {
                return Ok(Some(event));
            }
        }
    }

    /// A full ring, looked at again: nothing empties the ring of a daemon that was killed.
    #[cold]
    pub(crate) fn full_or_gone(&mut self, e: SendError) -> Failure {
        if e == SendError::WouldBlock && !self.armed {
            self.client.disarm();
            if self.client.is_closed() {
                return BW_ERR_DAEMON_GONE.into();
            }
        }
        e.into()
    }

    fn is_unwanted(&self, flow: FlowId) -> bool {
        !self.unwanted.is_empty() && self.unwanted.iter().any(|(f, _)| *f == flow)
    }

    /// Ends the flows that nobody waits for any more.
    #[cold]
    fn end_unwanted(&mut self) {
        for (flow, told) in &mut self.unwanted {
            *told = *told || self.client.reset(*flow).is_ok();
        }
    }

    #[inline]
    fn translate(&mut self, event: Event) -> Option<BwEvent> {
        if !self.unwanted.is_empty() {
            self.end_unwanted();
        }
        Some(match event {
            Event::Message(message) => {
                if self.is_unwanted(message.flow()) {
                    self.client.release(message);
                    return None;
                }
                let (flow, offset, len) = message.into_raw();
                let message = BwMessage { flow: flow.to_raw(), offset, len };
                BwEvent { flow: flow.to_raw(), message, ..BwEvent::new(types::BW_EVENT_MESSAGE) }
            }
            Event::Connected { flow, token, .. } if token & OURS != 0 => {
                self.unwanted.push((flow, false));
                self.end_unwanted();
                return None;
            }
            Event::ConnectFailed { token, .. } if token & OURS != 0 => return None,
            Event::Closed { flow, .. } if self.is_unwanted(flow) => {
                self.unwanted.retain(|(f, _)| *f != flow);
                return None;
            }
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
            Event::ListenFailed { token, udp_port } => {
                listener(types::BW_EVENT_LISTEN_FAILED, token, udp_port)
            }
            Event::Closed { flow, reason } => BwEvent {
                flow: flow.to_raw(),
                reason: types::closed_code(reason),
                ..BwEvent::new(types::BW_EVENT_CLOSED)
            },
            // What this release has no number for.
            _ => return None,
        })
    }

    /// The message that C means.
    pub(crate) fn inbound(message: &BwMessage) -> Inbound {
        Inbound::from_raw(FlowId::from_raw(message.flow), message.offset, message.len)
    }
}

fn listener(kind: u32, token: u64, udp_port: u16) -> BwEvent {
    let mut event = BwEvent { token, ..BwEvent::new(kind) };
    event.local.port = udp_port;
    event
}
