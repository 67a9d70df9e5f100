//! Requests in numbers: the same for a client and for an endpoint in the program's own thread.

use crate::boundary::Failure;
use crate::error::{BW_ERR_INVALID, BW_ERR_TIMED_OUT, BW_ERR_TOO_MANY};
use crate::request::BW_REQUESTS_MAX;
use crate::types::{self, BwEvent};
use barewire_client::requests::{Answer, Asked, CallError, Messages, RequestId, Requests, Taken};
use barewire_client::{Event, FlowId, Inbound, SendError};
use std::time::Duration;

/// The requests of one client, once they are on.
#[derive(Default)]
pub(crate) struct RequestState(Option<Requests>);

/// What an event is where there may be requests.
pub(crate) enum Translated {
    /// None of a request.
    Event(Event),
    /// A message of one: the event lacks its place.
    Message(BwEvent, Inbound),
    /// All of it.
    Told(BwEvent),
    /// Nothing to be told of.
    Nothing,
}

/// Why a request was not sent: by the message itself, or otherwise.
pub(crate) enum Refused {
    Message(SendError),
    Otherwise(Failure),
}

/// Requests where they were not turned on.
#[cold]
fn not_on() -> Failure {
    Failure::new(BW_ERR_INVALID, "requests are off; call bw_requests or bw_embedded_requests first")
}

impl RequestState {
    pub(crate) fn turn_on(&mut self, unanswered_max: u32) -> Result<(), Failure> {
        if !(1..=BW_REQUESTS_MAX).contains(&unanswered_max) {
            return Err(BW_ERR_INVALID.into());
        }
        if self.0.is_some() {
            return Err(Failure::new(BW_ERR_INVALID, "requests are on already"));
        }
        self.0 = Some(Requests::new(unanswered_max));
        Ok(())
    }

    /// How long until a request's deadline passes.
    pub(crate) fn until_deadline(&self) -> Option<Duration> {
        let deadline = self.0.as_ref()?.next_deadline()?;
        Some(deadline.since(barewire_engine::now()).into())
    }

    /// Sends a request. True: its deadline is the next one now.
    pub(crate) fn request(
        &mut self,
        via: &mut impl Messages,
        flow: FlowId,
        body: &[u8],
        timeout: Option<Duration>,
    ) -> Result<(RequestId, bool), Refused> {
        let Some(requests) = &mut self.0 else { return Err(Refused::Otherwise(not_on())) };
        let now = barewire_engine::now();
        let before = requests.next_deadline();
        let asked = requests.call(now, via, flow, body, timeout.map(|t| now + t.into()));
        let id = asked.map_err(|e| match e {
            CallError::Send(e) => Refused::Message(e),
            CallError::TooMany => Refused::Otherwise(BW_ERR_TOO_MANY.into()),
            _ => Refused::Otherwise(BW_ERR_TIMED_OUT.into()),
        })?;
        let after = requests.next_deadline();
        Ok((id, after.is_some_and(|after| before.is_none_or(|before| after < before))))
    }

    /// Gives a request up. False: it was over.
    pub(crate) fn cancel(&mut self, via: &mut impl Messages, id: u64) -> Result<bool, Failure> {
        let Some(requests) = &mut self.0 else { return Err(not_on()) };
        Ok(requests.cancel(via, RequestId::from_raw(id)))
    }

    /// The next request that ended without an answer.
    #[inline]
    pub(crate) fn unanswered(&mut self, via: &mut impl Messages) -> Option<BwEvent> {
        let requests = self.0.as_mut()?;
        requests.next_deadline()?;
        let (id, answer) = requests.poll(barewire_engine::now(), via)?;
        let reason = match answer {
            Answer::Deadline => types::BW_UNANSWERED_DEADLINE,
            _ => types::BW_UNANSWERED_FLOW_ENDED,
        };
        Some(BwEvent { token: id.to_raw(), reason, ..BwEvent::new(types::BW_EVENT_UNANSWERED) })
    }

    #[inline]
    pub(crate) fn translate(&mut self, via: &mut impl Messages, event: Event) -> Translated {
        let Some(requests) = &mut self.0 else { return Translated::Event(event) };
        match requests.take(via, event) {
            Taken::Event(event) => match Asked::of(via, event) {
                Asked::Event(event) => Translated::Event(event),
                Asked::Request(request) => {
                    let left_us = request.left().map_or(0, |left| left.as_micros() as u32);
                    let event = BwEvent {
                        token: request.reply_to().id(),
                        reason: left_us,
                        ..BwEvent::new(types::BW_EVENT_REQUEST)
                    };
                    Translated::Message(event, request.into_body().into_message())
                }
                Asked::Cancelled(to) => Translated::Told(BwEvent {
                    flow: to.flow().to_raw(),
                    token: to.id(),
                    ..BwEvent::new(types::BW_EVENT_REQUEST_CANCELLED)
                }),
                _ => Translated::Nothing,
            },
            Taken::Answer(id, answer) => {
                let (kind, code, body) = match answer {
                    Answer::Response(body) => (types::BW_EVENT_RESPONSE, 0, body),
                    Answer::Failure { code, text } => (types::BW_EVENT_FAILURE, code, text),
                    _ => return Translated::Nothing,
                };
                let event = BwEvent { token: id.to_raw(), reason: code.into(), ..BwEvent::new(kind) };
                Translated::Message(event, body.into_message())
            }
            _ => Translated::Nothing,
        }
    }
}
