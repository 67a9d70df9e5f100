//! Connections and events.

use super::{Conn, ConnRequest, ConnectTo, Connected, Context, ContextError, Event, Listener, Qp};
use barewire_channel::rdma as entry;
use barewire_roce::RejReason;
use std::time::Duration;

impl Context {
    /// The next event; never waits.
    pub fn next_event(&mut self) -> Option<Event> {
        self.pump();
        self.events.pop_front()
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// `TimedOut`, `DaemonGone`.
    pub fn wait_event(&mut self, timeout: Duration) -> Result<Event, ContextError> {
        self.wait(timeout, |context| Ok((context.events.pop_front(), false)))
    }

    /// Takes the first event out that `wanted` wants, of those that have happened.
    pub fn take_event(&mut self, wanted: impl FnMut(&Event) -> bool) -> Option<Event> {
        self.pump();
        let at = self.events.iter().position(wanted)?;
        self.events.remove(at)
    }

    fn wait_for<T>(
        &mut self,
        timeout: Duration,
        mut wanted: impl FnMut(&Event) -> bool,
        mut take: impl FnMut(Event) -> Result<T, ContextError>,
    ) -> Result<T, ContextError> {
        self.wait(timeout, |context| match context.take_event(&mut wanted) {
            Some(event) => Ok((Some(take(event)?), false)),
            None => Ok((None, false)),
        })
    }

    /// Listens on a service id; of a port it is [`service_id`](barewire_wire::roce::rdma_cm::service_id). At most `backlog`
    /// wishes wait at a time.
    ///
    /// # Errors
    /// `InUse` when somebody listens there already, this application or another; a quota.
    pub fn listen(&mut self, service_id: u64, backlog: u32) -> Result<Listener, ContextError> {
        Ok(Listener(self.make(&[], |token| entry::Request::Listen { token, service_id, backlog })?.0))
    }

    /// Stops listening. Wishes that are here may still be decided.
    ///
    /// # Errors
    /// See [`ContextError`].
    pub fn unlisten(&mut self, listener: Listener) -> Result<(), ContextError> {
        let object = self.own(listener.0)?;
        self.command(&[], |token| entry::Request::Destroy { token, object })
    }

    /// Waits for a peer that wants a connection.
    ///
    /// # Errors
    /// `TimedOut`, `DaemonGone`.
    pub fn get_request(
        &mut self,
        listener: Listener,
        timeout: Duration,
    ) -> Result<ConnRequest, ContextError> {
        self.own(listener.0)?;
        self.wait_for(
            timeout,
            |e| matches!(e, Event::ConnectRequest(request) if request.listener == listener),
            |e| match e {
                Event::ConnectRequest(request) => Ok(request),
                _ => Err(ContextError::Disconnected),
            },
        )
    }

    /// Accepts a wish with a new queue pair, which can receive at once. [`Event::Established`] or [`Event::ConnectFailed`]
    /// follows. Up to 196 bytes of private data.
    ///
    /// # Errors
    /// `Unknown` when the peer has taken it back; `QueuePair`.
    pub fn accept(&mut self, request: &ConnRequest, qp: Qp, private: &[u8]) -> Result<(), ContextError> {
        self.accept_conn(request.conn, qp, private)
    }

    /// As [`accept`](Self::accept), for who has only the connection.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_conn(&mut self, conn: Conn, qp: Qp, private: &[u8]) -> Result<(), ContextError> {
        let (conn, qp) = (self.own(conn.0)?, self.own(qp.0)?);
        self.command(private, |token| entry::Request::Accept { token, conn, qp })
    }

    /// Refuses a wish, with up to 148 bytes of private data.
    ///
    /// # Errors
    /// `Unknown` when the peer has taken it back.
    pub fn reject(
        &mut self,
        request: &ConnRequest,
        reason: RejReason,
        private: &[u8],
    ) -> Result<(), ContextError> {
        self.reject_conn(request.conn, reason, private)
    }

    /// As [`reject`](Self::reject), for who has only the connection.
    ///
    /// # Errors
    /// As [`reject`](Self::reject).
    pub fn reject_conn(&mut self, conn: Conn, reason: RejReason, private: &[u8]) -> Result<(), ContextError> {
        let conn = self.own(conn.0)?;
        self.command(private, |token| entry::Request::Reject { token, conn, reason: reason.0 })
    }

    /// Waits until a connection that was accepted with this queue pair is ready.
    ///
    /// # Errors
    /// `Rejected`, `NoAnswer`, `Disconnected`; `TimedOut`, `DaemonGone`.
    pub fn wait_established(&mut self, qp: Qp, timeout: Duration) -> Result<Conn, ContextError> {
        self.own(qp.0)?;
        self.wait_for(
            timeout,
            |e| {
                e.qp() == Some(qp)
                    && matches!(
                        e,
                        Event::Established { .. } | Event::ConnectFailed { .. } | Event::Disconnected { .. }
                    )
            },
            |e| match e {
                Event::Established { conn, .. } => Ok(conn),
                Event::ConnectFailed { why, .. } => Err(why.into()),
                _ => Err(ContextError::Disconnected),
            },
        )
    }

    /// Asks for a connection with a new queue pair. [`Event::Connected`] or [`Event::ConnectFailed`] follows. The peer's address
    /// may take `resolve` to resolve.
    ///
    /// # Errors
    /// A quota; `QueuePair`; `PrivateData`.
    pub fn start_connect(
        &mut self,
        qp: Qp,
        to: &ConnectTo<'_>,
        resolve: Duration,
    ) -> Result<Conn, ContextError> {
        let qp = self.own(qp.0)?;
        let timeout_ms = u32::try_from(resolve.as_millis()).unwrap_or(u32::MAX);
        let made = self.make(to.private, |token| {
            entry::Request::Connect(entry::Connect {
                token,
                qp,
                service_id: to.service_id,
                src_port: to.src_port,
                mtu: to.mtu.map_or(0, |mtu| mtu as u8),
                timeout_ms,
                local: to.local,
                remote: to.remote,
            })
        })?;
        Ok(Conn(made.0))
    }

    /// Connects and waits for it. After [`ContextError::TimedOut`] the queue pair is still asking: end it.
    ///
    /// # Errors
    /// `Unreachable`, `Rejected`, `NoAnswer`, `BadReply`; `TimedOut`, `DaemonGone`; as [`start_connect`](Self::start_connect).
    pub fn connect(
        &mut self,
        qp: Qp,
        to: &ConnectTo<'_>,
        timeout: Duration,
    ) -> Result<Connected, ContextError> {
        let asked = self.start_connect(qp, to, timeout)?;
        let ours = |e: &Event| match e {
            Event::Connected { conn, .. } | Event::ConnectFailed { conn, .. } => *conn == asked,
            _ => false,
        };
        self.wait_for(timeout, ours, |e| match e {
            Event::Connected { conn, private, .. } => Ok(Connected { conn, private }),
            Event::ConnectFailed { why, .. } => Err(why.into()),
            _ => Err(ContextError::Disconnected),
        })
    }

    /// Begins to close a connection. Its queue pair is dead now; [`Event::Disconnected`] follows.
    ///
    /// # Errors
    /// `Unknown` when it has ended already; `State` before it is ready.
    pub fn start_disconnect(&mut self, conn: Conn) -> Result<(), ContextError> {
        let conn = self.own(conn.0)?;
        self.command(&[], |token| entry::Request::Disconnect { token, conn })
    }

    /// Closes a connection and waits until the peer agrees. One that the peer has closed already is no error.
    ///
    /// # Errors
    /// `State` before it is ready; `TimedOut`, `DaemonGone`.
    pub fn disconnect(&mut self, conn: Conn, timeout: Duration) -> Result<(), ContextError> {
        match self.start_disconnect(conn) {
            Ok(()) => {}
            Err(ContextError::Refused(super::Refusal::Unknown)) => {
                // Its event is here, or was taken before.
                self.take_event(|e| matches!(e, Event::Disconnected { conn: c, .. } if *c == conn));
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        self.wait_for(timeout, |e| matches!(e, Event::Disconnected { conn: c, .. } if *c == conn), |_| Ok(()))
    }
}
