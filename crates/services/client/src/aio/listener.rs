//! Takes connections.

use super::flow::Flow;
use super::state::Queue;
use super::{ConnectError, Handle, RecvError};
use crate::error::SendError;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Takes connections on one UDP port. Dropped, it takes no more, and resets those that nobody accepted.
pub struct AsyncListener {
    handle: Arc<Handle>,
    token: u64,
    udp_port: u16,
}

impl AsyncListener {
    pub(super) async fn open(handle: &Arc<Handle>, udp_port: u16) -> Result<AsyncListener, ConnectError> {
        let shared = handle.shared();
        let listener = poll_fn(|cx| {
            let mut state = shared.lock();
            state.pump();
            let token = state.next_number();
            let done = match state.client.listen(udp_port, token) {
                Ok(()) => {
                    let queue = Queue {
                        udp_port,
                        answer: None,
                        waiting: Default::default(),
                        acceptors: Default::default(),
                    };
                    state.listeners.insert(token, queue);
                    Poll::Ready(Ok(AsyncListener { handle: handle.clone(), token, udp_port }))
                }
                Err(SendError::WouldBlock) => {
                    state.room.add(cx);
                    Poll::Pending
                }
                Err(_) => Poll::Ready(Err(ConnectError::DaemonGone)),
            };
            shared.after(&mut state);
            done
        })
        .await?;
        // A wait that is dropped takes the wish back.
        match poll_fn(|cx| listener.poll_answer(cx)).await {
            Some(true) => Ok(listener),
            Some(false) => Err(ConnectError::Listen(udp_port)),
            None => Err(ConnectError::DaemonGone),
        }
    }

    fn poll_answer(&self, cx: &Context<'_>) -> Poll<Option<bool>> {
        let shared = self.handle.shared();
        let mut state = shared.lock();
        state.pump();
        let is_gone = state.gone;
        let done = match state.listeners.get_mut(&self.token) {
            Some(Queue { answer: Some(answer), .. }) => Poll::Ready(Some(*answer)),
            Some(queue) if !is_gone => {
                queue.acceptors.add(cx);
                Poll::Pending
            }
            _ => Poll::Ready(None),
        };
        shared.after(&mut state);
        done
    }

    /// The UDP port.
    pub fn udp_port(&self) -> u16 {
        self.udp_port
    }

    /// The next connection. `None` after [`AsyncClient::close`](super::AsyncClient::close).
    ///
    /// # Errors
    /// [`RecvError::DaemonGone`].
    pub async fn accept(&self) -> Result<Option<Flow>, RecvError> {
        poll_fn(|cx| {
            let shared = self.handle.shared();
            let mut state = shared.lock();
            state.pump();
            let is_gone = state.gone;
            let done = match state.listeners.get_mut(&self.token) {
                None => Poll::Ready(Ok(None)),
                Some(queue) => match queue.waiting.pop_front() {
                    Some((flow, local, remote)) => {
                        Poll::Ready(Ok(Some(Flow::new(&self.handle, flow, local, remote))))
                    }
                    None if is_gone => Poll::Ready(Err(RecvError::DaemonGone)),
                    None => {
                        queue.acceptors.add(cx);
                        Poll::Pending
                    }
                },
            };
            shared.after(&mut state);
            done
        })
        .await
    }
}

impl Drop for AsyncListener {
    fn drop(&mut self) {
        let shared = self.handle.shared();
        let mut state = shared.lock();
        state.unlisten(self.token);
        shared.after(&mut state);
    }
}
