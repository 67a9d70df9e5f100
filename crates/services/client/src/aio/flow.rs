//! One flow: messages out and in.

use super::state::{State, Wanted};
use super::wait::{Entries, Place, Waiter};
use super::{Handle, RecvError};
use crate::error::SendError;
use crate::event::Inbound;
use crate::{CloseReason, FlowId};
use futures_core::Stream;
use futures_sink::Sink;
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A flow to a peer. Clones are the same flow: tasks may send and receive at once, and each message goes to one of those that
/// receive. With the last clone the flow closes; what was sent still arrives.
///
/// As a `Stream` it gives messages until either side closes; as a `Sink<Vec<u8>>` it takes them.
pub struct Flow {
    inner: Arc<Inner>,
    /// What the sink was given and found no room for.
    pending: Option<Vec<u8>>,
    /// Where its stream and its sink wait.
    entries: Entries,
}

struct Inner {
    handle: Arc<Handle>,
    id: FlowId,
    local: SocketAddr,
    remote: SocketAddr,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.handle.with(|state| state.forget(self.id));
    }
}

impl Clone for Flow {
    fn clone(&self) -> Flow {
        // What waits in a sink is that one's to send.
        Flow { inner: self.inner.clone(), pending: None, entries: Entries::default() }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.entries.leave(&self.inner.handle);
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { id, local, remote, .. } = &*self.inner;
        f.debug_struct("Flow").field("id", id).field("local", local).field("remote", remote).finish()
    }
}

impl Flow {
    pub(super) fn new(handle: &Arc<Handle>, id: FlowId, local: SocketAddr, remote: SocketAddr) -> Flow {
        let inner = Arc::new(Inner { handle: handle.clone(), id, local, remote });
        Flow { inner, pending: None, entries: Entries::default() }
    }

    /// The flow's number.
    pub fn id(&self) -> FlowId {
        self.inner.id
    }

    /// Our end.
    pub fn local(&self) -> SocketAddr {
        self.inner.local
    }

    /// The other end.
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote
    }

    /// For one future.
    pub(super) fn waiter(&self) -> Waiter<'_> {
        Waiter::new(&self.inner.handle)
    }

    /// Does something with the channel, under its lock.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State, FlowId) -> T) -> T {
        self.inner.handle.with(|state| act(state, self.inner.id))
    }

    /// Sends a copy of `message`, when there is room. That it was queued says nothing of its arrival: see
    /// [`send_acknowledged`](Self::send_acknowledged).
    ///
    /// # Errors
    /// [`SendError`], and never [`SendError::WouldBlock`].
    pub async fn send(&self, message: &[u8]) -> Result<(), SendError> {
        self.send_vectored(&[IoSlice::new(message)]).await
    }

    /// Sends one message made of `pieces`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_vectored(&self, pieces: &[IoSlice<'_>]) -> Result<(), SendError> {
        let mut waiter = self.waiter();
        poll_fn(|cx| self.poll_send(cx, &mut waiter.entries, pieces)).await
    }

    /// Sends without waiting for room.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`SendError::WouldBlock`].
    pub fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        self.with(|state, flow| state.client.send(flow, message))
    }

    fn poll_send(
        &self,
        cx: &Context<'_>,
        entries: &mut Entries,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<(), SendError>> {
        self.with(|state, flow| match state.client.send_vectored(flow, pieces) {
            Err(SendError::WouldBlock) => {
                entries.wait(state, Place::Writer(flow), cx);
                Poll::Pending
            }
            done => Poll::Ready(done),
        })
    }

    /// Sends for the one task that polls this handle.
    pub(super) fn poll_send_here(
        &mut self,
        cx: &Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<(), SendError>> {
        let mut entries = std::mem::take(&mut self.entries);
        let sent = self.poll_send(cx, &mut entries, pieces);
        self.entries = entries;
        sent
    }

    /// Sends a copy of `message` and waits until the peer's transport has all of it. False: the flow ended first; where that is since the
    /// daemon went, the message is among [`take_unconfirmed`](Self::take_unconfirmed).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_acknowledged(&self, message: &[u8]) -> Result<bool, SendError> {
        let mut waiter = self.waiter();
        let token = poll_fn(|cx| {
            self.with(|state, flow| {
                if let Some(refused) = state.refuses(flow) {
                    return Poll::Ready(Err(refused));
                }
                let token = state.next_number();
                let client = &mut state.client;
                let buf = match client.reserve(message.len()) {
                    Ok(buf) => buf,
                    Err(SendError::WouldBlock) => {
                        // The end of the flow ends the wait, too.
                        waiter.entries.wait(state, Place::Room, cx);
                        waiter.entries.wait(state, Place::Writer(flow), cx);
                        return Poll::Pending;
                    }
                    Err(e) => return Poll::Ready(Err(e)),
                };
                client.write(&buf, 0, message);
                let sent = client.commit(flow, buf, Some(token));
                match (sent, state.flows.get_mut(&flow)) {
                    (Ok(()), Some(line)) => {
                        line.fates.insert(token, Wanted::new());
                        Poll::Ready(Ok(token))
                    }
                    (Ok(()), None) => Poll::Ready(Err(SendError::NoSuchFlow)),
                    (Err(SendError::WouldBlock), _) => {
                        waiter.entries.wait(state, Place::Writer(flow), cx);
                        Poll::Pending
                    }
                    (Err(e), _) => Poll::Ready(Err(e)),
                }
            })
        })
        .await?;
        let fate = Fate { flow: self, token };
        Ok(poll_fn(|cx| fate.poll(cx)).await)
    }

    /// The next message, when one is there. `None`: the flow was closed, by either side, and nothing is left.
    ///
    /// # Errors
    /// [`RecvError`] when the flow ended otherwise.
    pub async fn recv(&self) -> Result<Option<Message>, RecvError> {
        let mut waiter = self.waiter();
        poll_fn(|cx| self.poll_recv(cx, &mut waiter.entries)).await
    }

    /// Receives for the one task that polls this handle.
    pub(super) fn poll_recv_here(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Message>, RecvError>> {
        let mut entries = std::mem::take(&mut self.entries);
        let received = self.poll_recv(cx, &mut entries);
        self.entries = entries;
        received
    }

    fn poll_recv(&self, cx: &Context<'_>, entries: &mut Entries) -> Poll<Result<Option<Message>, RecvError>> {
        self.with(|state, flow| {
            state.pump();
            let is_gone = state.gone;
            let Some(line) = state.flows.get_mut(&flow) else { return Poll::Ready(Ok(None)) };
            if let Some(message) = line.inbox.pop_front() {
                return Poll::Ready(Ok(Some(self.message(message))));
            }
            match line.end(is_gone) {
                Some(end) => Poll::Ready(end.map(|()| None)),
                None => {
                    entries.wait(state, Place::Reader(flow), cx);
                    Poll::Pending
                }
            }
        })
    }

    /// Closes the flow after everything sent was acknowledged, and waits for the end. Messages that come meanwhile are for
    /// [`recv`](Self::recv).
    ///
    /// # Errors
    /// [`RecvError`] when it ended otherwise.
    pub async fn close(&self) -> Result<(), RecvError> {
        let _ = self.with(|state, flow| state.client.close(flow));
        let mut waiter = self.waiter();
        poll_fn(|cx| {
            self.with(|state, flow| {
                state.pump();
                let is_gone = state.gone;
                let Some(line) = state.flows.get_mut(&flow) else { return Poll::Ready(Ok(())) };
                match line.end(is_gone) {
                    Some(end) => Poll::Ready(end),
                    None => {
                        waiter.entries.wait(state, Place::Reader(flow), cx);
                        Poll::Pending
                    }
                }
            })
        })
        .await
    }

    /// Why the flow ended; `None`: it has not.
    pub fn ended(&self) -> Option<CloseReason> {
        self.with(|state, flow| state.flows.get(&flow).and_then(|line| line.closed))
    }

    /// Messages that were under way on the flow when the daemon went ([`ClientConfig::reattach`](crate::ClientConfig::reattach)), in the order
    /// in which they were sent: they may have arrived or not. Each is given once. Of a [`Caller`](super::Caller)'s flow they are requests
    /// with their heads.
    pub fn take_unconfirmed(&self) -> Vec<Vec<u8>> {
        self.with(|state, flow| {
            state.pump();
            state.flows.get_mut(&flow).map(|line| std::mem::take(&mut line.unconfirmed)).unwrap_or_default()
        })
    }

    pub(super) fn message(&self, inbound: Inbound) -> Message {
        Message { inner: self.inner.clone(), inbound: Some(inbound) }
    }
}

impl State {
    /// Why nothing can be sent on `flow` any more, however much room there is.
    fn refuses(&self, flow: FlowId) -> Option<SendError> {
        match self.flows.get(&flow) {
            _ if self.client.is_closed() => Some(SendError::DaemonGone),
            Some(line) if line.closed.is_none() => None,
            _ => Some(SendError::NoSuchFlow),
        }
    }
}

/// Takes its entry away, whether it was waited for to the end or not.
struct Fate<'a> {
    flow: &'a Flow,
    token: u64,
}

impl Fate<'_> {
    fn poll(&self, cx: &Context<'_>) -> Poll<bool> {
        self.flow.with(|state, flow| {
            state.pump();
            let is_gone = state.gone;
            let Some(line) = state.flows.get_mut(&flow) else { return Poll::Ready(false) };
            let has_ended = line.closed.is_some() || is_gone;
            match line.fates.get_mut(&self.token) {
                None => Poll::Ready(false),
                Some(wanted) => match wanted.got {
                    Some(delivered) => Poll::Ready(delivered),
                    None if has_ended => Poll::Ready(false),
                    None => {
                        wanted.wait(cx, &mut state.later);
                        Poll::Pending
                    }
                },
            }
        })
    }
}

impl Drop for Fate<'_> {
    fn drop(&mut self) {
        self.flow.with(|state, flow| {
            let fate = state.flows.get_mut(&flow).and_then(|line| line.fates.remove(&self.token));
            if let Some(fate) = fate {
                fate.given_up(&mut state.later);
            }
        });
    }
}

/// A received message. It lies in the channel's memory until it is dropped: then its sender has the credit for it again. It keeps its
/// flow open.
pub struct Message {
    inner: Arc<Inner>,
    inbound: Option<Inbound>,
}

impl Message {
    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.inbound.as_ref().map_or(0, Inbound::len)
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes of the message from `at` within it; says how many.
    pub fn read_at(&self, at: usize, out: &mut [u8]) -> usize {
        let Some(inbound) = &self.inbound else { return 0 };
        self.inner.handle.0.lock().client.read_at(inbound, at, out)
    }

    /// The message as a vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes_from(0)
    }

    /// The bytes from `at` on.
    pub(super) fn bytes_from(&self, at: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.len().saturating_sub(at)];
        let n = self.read_at(at, &mut bytes);
        bytes.truncate(n);
        bytes
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(inbound) = self.inbound.take() {
            self.inner.handle.with(|state| state.client.release(inbound));
        }
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Stream for Flow {
    type Item = Result<Message, RecvError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(ready!(self.get_mut().poll_recv_here(cx)).transpose())
    }
}

impl Sink<Vec<u8>> for Flow {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let flow = self.get_mut();
        let Some(message) = flow.pending.take() else { return Poll::Ready(Ok(())) };
        let sent = flow.poll_send_here(cx, &[IoSlice::new(&message)]);
        if sent.is_pending() {
            flow.pending = Some(message);
        }
        sent
    }

    fn start_send(mut self: Pin<&mut Self>, message: Vec<u8>) -> Result<(), SendError> {
        match self.try_send(&message) {
            Err(SendError::WouldBlock) => {
                self.pending = Some(message);
                Ok(())
            }
            done => done,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_ready(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        ready!(self.as_mut().poll_flush(cx))?;
        let _ = self.with(|state, flow| state.client.close(flow));
        Poll::Ready(Ok(()))
    }
}
