//! Takes connections.

use super::flow::Flow;
use super::state::Queue;
use super::wait::{Entries, Place, Waiter};
use super::{ConnectError, Handle, RecvError};
use crate::error::SendError;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Takes connections on one UDP port. Dropped, it takes no more, and resets those that nobody accepted.
pub struct AsyncListener {
    handle: Arc<Handle>,
    token: u64,
    udp_port: u16,
}

impl AsyncListener {
    pub(super) async fn open(
        handle: &Arc<Handle>,
        local: Option<IpAddr>,
        udp_port: u16,
    ) -> Result<AsyncListener, ConnectError> {
        let mut waiter = Waiter::new(handle);
        let token = poll_fn(|cx| {
            handle.with(|state| {
                state.pump();
                let token = state.next_number();
                let asked = match local {
                    Some(local) => state.client.listen_on(local, udp_port, token),
                    None => state.client.listen(udp_port, token),
                };
                match asked {
                    Ok(()) => {
                        state.listeners.insert(token, Queue::new(udp_port));
                        Poll::Ready(Ok(token))
                    }
                    Err(SendError::DaemonGone) if !state.outlives_daemon() => {
                        Poll::Ready(Err(ConnectError::DaemonGone))
                    }
                    Err(_) => {
                        waiter.entries.wait(state, Place::Room, cx);
                        Poll::Pending
                    }
                }
            })
        })
        .await?;
        let listener = AsyncListener { handle: handle.clone(), token, udp_port };
        // A wait that is dropped takes the wish back.
        match poll_fn(|cx| listener.poll_answer(cx, &mut waiter.entries)).await {
            Some(true) => Ok(listener),
            Some(false) => Err(ConnectError::Listen(udp_port)),
            None => Err(ConnectError::DaemonGone),
        }
    }

    fn poll_answer(&self, cx: &Context<'_>, entries: &mut Entries) -> Poll<Option<bool>> {
        self.handle.with(|state| {
            state.pump();
            let is_gone = state.gone;
            match state.listeners.get(&self.token) {
                Some(Queue { answer: Some(answer), .. }) => Poll::Ready(Some(*answer)),
                Some(_) if !is_gone => {
                    entries.wait(state, Place::Listener(self.token), cx);
                    Poll::Pending
                }
                _ => Poll::Ready(None),
            }
        })
    }

    /// The UDP port.
    pub fn udp_port(&self) -> u16 {
        self.udp_port
    }

    /// The next connection. `None` after [`AsyncClient::close`](super::AsyncClient::close). With
    /// [`ClientConfig::reattach`](crate::ClientConfig::reattach) it waits while there is no daemon, and takes connections of the next one.
    ///
    /// # Errors
    /// [`RecvError::DaemonGone`], and [`RecvError::NotListening`] when the next daemon has the port for somebody else.
    pub async fn accept(&self) -> Result<Option<Flow>, RecvError> {
        let mut waiter = Waiter::new(&self.handle);
        poll_fn(|cx| {
            let accepted = self.handle.with(|state| {
                state.pump();
                let is_gone = state.gone;
                let Some(queue) = state.listeners.get_mut(&self.token) else { return Poll::Ready(Ok(None)) };
                match queue.waiting.pop_front() {
                    Some(flow) => Poll::Ready(Ok(Some(flow))),
                    None if is_gone => Poll::Ready(Err(RecvError::DaemonGone)),
                    None if queue.answer == Some(false) => {
                        Poll::Ready(Err(RecvError::NotListening(queue.udp_port)))
                    }
                    None => {
                        waiter.entries.wait(state, Place::Listener(self.token), cx);
                        Poll::Pending
                    }
                }
            });
            let flow = |(flow, local, remote)| Flow::new(&self.handle, flow, local, remote);
            accepted.map_ok(|accepted| accepted.map(flow))
        })
        .await
    }
}

impl Drop for AsyncListener {
    fn drop(&mut self) {
        self.handle.with(|state| state.unlisten(self.token));
    }
}
