//! What the channel's users share: flows, listeners, attempts to connect, and who waits for what.

use super::flow::Flow;
use super::wait::{Entries, Later, Place, Waiting};
use super::{ConnectError, DaemonEvent, Handle, RecvError, Unconfirmed};
use crate::client::Client;
use crate::error::SendError;
use crate::event::{ConnectId, ConnectOptions, Event, Inbound};
use crate::requests::{Kind, head_of};
use crate::{AttachError, CloseReason, ConnectFailure, FlowId};
use barewire_channel::ControlError;
use barewire_channel::message::Refused;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Events of the daemon that nobody takes, at most: then the oldest goes.
const DAEMON_EVENTS_MAX: usize = 64;
/// Where our numbers begin: away from tokens that the client was used with before, whose events may still come.
const FIRST_NUMBER: u64 = 1 << 62;

/// An answer that is waited for.
pub(crate) struct Wanted<T> {
    pub got: Option<T>,
    waker: Option<Waker>,
}

impl<T> Wanted<T> {
    pub fn new() -> Wanted<T> {
        Wanted { got: None, waker: None }
    }

    fn put(&mut self, value: T, later: &mut Later) {
        self.got = Some(value);
        self.wake(later);
    }

    fn wake(&mut self, later: &mut Later) {
        later.wake(self.waker.take());
    }

    pub fn wait(&mut self, cx: &Context<'_>, later: &mut Later) {
        later.let_go(self.waker.replace(cx.waker().clone()));
    }

    /// Nobody waits for it any more: what came all the same.
    pub fn given_up(self, later: &mut Later) -> Option<T> {
        later.let_go(self.waker);
        self.got
    }
}

/// One flow.
#[derive(Default)]
pub(crate) struct Line {
    pub inbox: VecDeque<Inbound>,
    pub closed: Option<CloseReason>,
    /// Nobody has a handle any more.
    pub is_orphan: bool,
    pub readers: Waiting,
    pub writers: Waiting,
    /// Messages whose fate somebody waits for, by their token.
    pub fates: HashMap<u64, Wanted<bool>>,
    /// Requests that wait for an answer, by their number; `None`: the flow is not a caller's.
    pub calls: Option<HashMap<u64, Wanted<Inbound>>>,
    /// Messages that were under way when the daemon went, in the order in which they were sent.
    pub unconfirmed: Vec<Vec<u8>>,
}

impl Line {
    /// Whether it has ended, and how: in good order, or not. `is_gone`: the daemon is.
    pub fn end(&self, is_gone: bool) -> Option<Result<(), RecvError>> {
        match self.closed {
            Some(CloseReason::Peer | CloseReason::Local) => Some(Ok(())),
            Some(reason) => Some(Err(RecvError::Ended(reason))),
            None => is_gone.then_some(Err(RecvError::DaemonGone)),
        }
    }

    fn wake_all(&mut self, later: &mut Later) {
        self.readers.wake(later);
        self.writers.wake(later);
        self.fates.values_mut().for_each(|wanted| wanted.wake(later));
        self.calls.iter_mut().flat_map(HashMap::values_mut).for_each(|wanted| wanted.wake(later));
    }
}

/// One listener.
pub(crate) struct Queue {
    pub udp_port: u16,
    /// Whether it listens: the daemon's answer.
    pub answer: Option<bool>,
    pub waiting: VecDeque<(FlowId, SocketAddr, SocketAddr)>,
    pub acceptors: Waiting,
}

impl Queue {
    pub fn new(udp_port: u16) -> Queue {
        Queue { udp_port, answer: None, waiting: VecDeque::new(), acceptors: Waiting::default() }
    }
}

/// What became of an attempt. `None`: the daemon went before it said so.
type Opened = Option<Result<(FlowId, SocketAddr, SocketAddr), ConnectFailure>>;

pub(crate) struct State {
    pub client: Client,
    pub flows: HashMap<FlowId, Line>,
    pub listeners: HashMap<u64, Queue>,
    attempts: HashMap<u64, Wanted<Opened>>,
    /// The last number given to an attempt, a listener, a message or a request.
    number: u64,
    /// Who was refused for want of room that is no flow's.
    pub room: Waiting,
    /// Who waits for the end of everything.
    pub closers: Waiting,
    pub is_asleep: bool,
    pub is_ended: bool,
    /// The daemon is gone, for good.
    pub gone: bool,
    /// The daemon is gone, and another is looked for.
    pub is_detached: bool,
    /// Why the one that is there does not let us in, as it was told last.
    refused: Option<String>,
    /// What nobody has taken yet, and who waits for it.
    daemon_events: VecDeque<DaemonEvent>,
    pub daemon_watchers: Waiting,
    /// What has to do with wakers, and waits for the end of the lock.
    pub later: Later,
}

impl State {
    pub fn new(mut client: Client) -> State {
        client.keep_unread();
        client.end_all();
        // It may have lost its daemon before it was given to us.
        let is_detached = client.is_detached();
        State {
            client,
            flows: HashMap::new(),
            listeners: HashMap::new(),
            attempts: HashMap::new(),
            number: FIRST_NUMBER,
            room: Waiting::default(),
            closers: Waiting::default(),
            is_asleep: false,
            is_ended: false,
            gone: false,
            is_detached,
            refused: None,
            daemon_events: VecDeque::new(),
            daemon_watchers: Waiting::default(),
            later: Later::default(),
        }
    }

    /// Whether what the daemon cannot do now another may do later.
    pub fn outlives_daemon(&self) -> bool {
        !self.gone && self.client.is_steady()
    }

    pub fn next_daemon_event(&mut self) -> Option<DaemonEvent> {
        self.daemon_events.pop_front()
    }

    fn tell(&mut self, event: DaemonEvent) {
        if self.daemon_events.len() == DAEMON_EVENTS_MAX {
            self.daemon_events.pop_front();
        }
        self.daemon_events.push_back(event);
        self.daemon_watchers.wake(&mut self.later);
    }

    /// There is a daemon again, and this came of asking it. Whoever is refused for good would wait without a word.
    pub fn not_attached(&mut self, e: &AttachError) {
        let is_final = match e {
            AttachError::Refused { code, .. } => *code != Refused::STOPPING,
            AttachError::Control(ControlError::Stranger { .. }) => true,
            _ => false,
        };
        let why = e.to_string();
        if is_final && self.refused.as_ref() != Some(&why) {
            self.refused = Some(why.clone());
            self.tell(DaemonEvent::Refused { why, hint: e.hint() });
        }
    }

    /// A message of which nobody knows whether it arrived: its flow's affair, or, where nobody has a handle of that, the client's.
    fn unconfirmed(&mut self, flow: FlowId, bytes: Vec<u8>) {
        match self.flows.get_mut(&flow).filter(|line| !line.is_orphan) {
            Some(line) => line.unconfirmed.push(bytes),
            None => {
                if let Some(DaemonEvent::Gone { unclaimed, .. }) = self.daemon_events.back_mut() {
                    unclaimed.push(Unconfirmed { flow, bytes });
                }
            }
        }
    }

    /// Those who wait at a place; `None`: it is no more.
    pub fn waiting(&mut self, place: Place) -> Option<&mut Waiting> {
        match place {
            Place::Room => Some(&mut self.room),
            Place::End => Some(&mut self.closers),
            Place::Daemon => Some(&mut self.daemon_watchers),
            Place::Listener(token) => self.listeners.get_mut(&token).map(|queue| &mut queue.acceptors),
            Place::Reader(flow) => self.flows.get_mut(&flow).map(|line| &mut line.readers),
            Place::Writer(flow) => self.flows.get_mut(&flow).map(|line| &mut line.writers),
        }
    }

    /// A number that was not used before.
    pub fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Takes every event that is there.
    pub fn pump(&mut self) {
        // Looked at once, and first: what the daemon said before it went is then among the events that follow.
        let is_gone = self.client.is_gone();
        while let Some(event) = self.client.next_event() {
            self.dispatch(event);
        }
        // The last of what was sent arrives without an event of its own.
        if self.client.sends_under_way() == 0 {
            self.closers.wake(&mut self.later);
        }
        if is_gone {
            self.end();
        }
    }

    /// Nothing more comes: all who wait are told.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        for line in self.flows.values_mut() {
            line.wake_all(&mut self.later);
        }
        self.attempts.values_mut().for_each(|wanted| wanted.wake(&mut self.later));
        self.listeners.values_mut().for_each(|l| l.acceptors.wake(&mut self.later));
        self.room.wake(&mut self.later);
        self.closers.wake(&mut self.later);
        self.daemon_watchers.wake(&mut self.later);
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Message(message) => self.message(message),
            Event::Delivered { flow, token, delivered } => {
                if let Some(fate) = self.flows.get_mut(&flow).and_then(|line| line.fates.get_mut(&token)) {
                    fate.put(delivered, &mut self.later);
                }
            }
            Event::Writable { flow: Some(flow) } => {
                if let Some(line) = self.flows.get_mut(&flow) {
                    line.writers.wake(&mut self.later);
                }
            }
            Event::Writable { flow: None } => self.room.wake(&mut self.later),
            Event::Connected { flow, token, local, remote } => {
                self.flows.insert(flow, Line::default());
                match self.attempts.get_mut(&token) {
                    Some(wanted) => wanted.put(Some(Ok((flow, local, remote))), &mut self.later),
                    None => self.forget(flow),
                }
            }
            Event::ConnectFailed { token, reason, .. } => {
                let is_detached = self.is_detached;
                if let Some(wanted) = self.attempts.get_mut(&token) {
                    wanted.put((!is_detached).then_some(Err(reason)), &mut self.later);
                }
            }
            Event::Accepted { flow, token, local, remote } => {
                self.flows.insert(flow, Line::default());
                match self.listeners.get_mut(&token) {
                    Some(queue) => {
                        queue.waiting.push_back((flow, local, remote));
                        queue.acceptors.wake(&mut self.later);
                    }
                    None => self.reset(flow),
                }
            }
            Event::Listening { token, udp_port } | Event::ListenFailed { token, udp_port } => {
                let is_there = matches!(event, Event::Listening { .. });
                let mut is_lost = false;
                if let Some(queue) = self.listeners.get_mut(&token) {
                    // There before: it is the next daemon that refuses.
                    is_lost = queue.answer == Some(true) && !is_there;
                    queue.answer = Some(is_there);
                    queue.acceptors.wake(&mut self.later);
                }
                if !self.listens(udp_port) {
                    // Whoever asked for it has given it up meanwhile.
                    let _ = self.client.unlisten(udp_port);
                }
                if is_lost {
                    self.tell(DaemonEvent::NotListening { udp_port });
                }
            }
            Event::Detached { flows, unconfirmed } => {
                self.is_detached = true;
                self.refused = None;
                self.tell(DaemonEvent::Gone { flows, unconfirmed, unclaimed: Vec::new() });
                // Who waits for room to send on a flow learns that it has ended.
                self.room.wake(&mut self.later);
            }
            Event::Unconfirmed { flow, bytes, .. } => self.unconfirmed(flow, bytes),
            Event::Reattached => {
                self.is_detached = false;
                self.tell(DaemonEvent::Back);
                self.room.wake(&mut self.later);
            }
            Event::Closed { flow, reason } => {
                if let Some(line) = self.flows.get_mut(&flow) {
                    line.closed = Some(reason);
                    line.wake_all(&mut self.later);
                    if line.is_orphan {
                        self.flows.remove(&flow);
                    }
                }
                self.closers.wake(&mut self.later);
            }
            _ => {}
        }
    }

    fn message(&mut self, message: Inbound) {
        let Some(line) = self.flows.get_mut(&message.flow()).filter(|line| !line.is_orphan) else {
            self.client.release(message);
            return;
        };
        let Some(calls) = &mut line.calls else {
            line.inbox.push_back(message);
            line.readers.wake(&mut self.later);
            return;
        };
        let wanted = head_of(&self.client, &message)
            .filter(|head| matches!(head.kind, Kind::Response | Kind::Failure))
            .and_then(|head| calls.get_mut(&head.id));
        match wanted {
            Some(wanted) if wanted.got.is_none() => wanted.put(message, &mut self.later),
            // Too late, or a second answer.
            _ => self.client.release(message),
        }
    }

    /// A flow whose last handle is gone: what was sent still arrives.
    pub fn forget(&mut self, flow: FlowId) {
        let Some(line) = self.flows.get_mut(&flow) else { return };
        for message in line.inbox.drain(..) {
            self.client.release(message);
        }
        for (_, wanted) in line.calls.take().into_iter().flatten() {
            if let Some(message) = wanted.given_up(&mut self.later) {
                self.client.release(message);
            }
        }
        if line.closed.is_some() {
            self.flows.remove(&flow);
            return;
        }
        line.is_orphan = true;
        let _ = self.client.close(flow);
    }

    /// Ends at once a flow that nobody will use.
    fn reset(&mut self, flow: FlowId) {
        let Some(line) = self.flows.get_mut(&flow) else { return };
        for message in line.inbox.drain(..) {
            self.client.release(message);
        }
        if line.closed.is_some() {
            // Nothing more comes that would take it away.
            self.flows.remove(&flow);
            return;
        }
        line.is_orphan = true;
        let _ = self.client.reset(flow);
    }

    /// Whether one of our listeners is at this UDP port, or has asked to be.
    fn listens(&self, udp_port: u16) -> bool {
        self.listeners.values().any(|queue| queue.udp_port == udp_port && queue.answer != Some(false))
    }

    /// Takes no more connections there; those that nobody took are reset.
    pub fn unlisten(&mut self, token: u64) {
        let Some(queue) = self.listeners.remove(&token) else { return };
        for (flow, ..) in queue.waiting {
            self.reset(flow);
        }
        // One that has no answer yet must not take the port from another that listens there: its own answer says whether there is
        // something to take back.
        let is_anothers = queue.answer.is_none() && self.listens(queue.udp_port);
        if queue.answer != Some(false) && !is_anothers {
            let _ = self.client.unlisten(queue.udp_port);
        }
    }

    pub fn close_all(&mut self) {
        let listeners: Vec<u64> = self.listeners.keys().copied().collect();
        for token in listeners {
            if let Some(queue) = self.listeners.get_mut(&token) {
                queue.acceptors.wake(&mut self.later);
            }
            self.unlisten(token);
        }
        for (flow, _) in self.flows.iter().filter(|(_, line)| line.closed.is_none()) {
            let _ = self.client.close(*flow);
        }
    }

    pub fn open_flows(&self) -> usize {
        self.flows.values().filter(|line| line.closed.is_none()).count()
    }
}

/// An attempt to connect. Dropped before its end, it is given up.
pub(crate) struct Attempt {
    handle: Arc<Handle>,
    /// Tried one after the other.
    remotes: Vec<SocketAddr>,
    options: ConnectOptions,
    /// Its number and the client's name for it, once it was asked for.
    asked: Option<(u64, ConnectId)>,
    entries: Entries,
}

impl Attempt {
    pub fn new(handle: &Arc<Handle>, remotes: Vec<SocketAddr>, options: ConnectOptions) -> Attempt {
        Attempt { handle: handle.clone(), remotes, options, asked: None, entries: Entries::default() }
    }
}

impl Future for Attempt {
    type Output = Result<Flow, ConnectError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let handle = this.handle.clone();
        let opened = handle.with(|state| {
            loop {
                state.pump();
                let number = match this.asked {
                    Some((number, _)) => number,
                    None => {
                        let number = state.next_number();
                        let options = ConnectOptions { token: number, ..this.options.clone() };
                        match state.client.connect_any(&this.remotes, &options) {
                            Ok(id) => this.asked = Some((number, id)),
                            Err(SendError::DaemonGone) if !state.outlives_daemon() => {
                                return Poll::Ready(Err(ConnectError::DaemonGone));
                            }
                            Err(_) => {
                                this.entries.wait(state, Place::Room, cx);
                                return Poll::Pending;
                            }
                        }
                        number
                    }
                };
                let is_gone = state.gone;
                let wanted = state.attempts.entry(number).or_insert_with(Wanted::new);
                match wanted.got.take() {
                    Some(got) => {
                        state.attempts.remove(&number);
                        this.asked = None;
                        if let Some(got) = got {
                            return Poll::Ready(got.map_err(ConnectError::Failed));
                        }
                        // The daemon that was asked is gone: the next one is asked.
                    }
                    None if is_gone => return Poll::Ready(Err(ConnectError::DaemonGone)),
                    None => {
                        wanted.wait(cx, &mut state.later);
                        return Poll::Pending;
                    }
                }
            }
        });
        opened.map_ok(|(flow, local, remote)| Flow::new(&handle, flow, local, remote))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.entries.leave(&self.handle);
        let Some((number, id)) = self.asked else { return };
        self.handle.with(|state| {
            let wanted = state.attempts.remove(&number);
            match wanted.and_then(|wanted| wanted.given_up(&mut state.later)) {
                Some(Some(Ok((flow, ..)))) => state.reset(flow),
                Some(_) => {}
                None => {
                    state.client.cancel(id);
                }
            }
        });
    }
}
