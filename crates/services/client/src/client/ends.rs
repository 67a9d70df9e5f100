//! Ends of what was begun: flows, listeners, attempts. They are never refused for want of room: what finds the ring full goes with a
//! later flush, before anything new.

use super::*;

impl Client {
    /// Closes a flow after everything sent on it was acknowledged; [`Event::Closed`] follows. One that is not there is passed
    /// over.
    ///
    /// # Errors
    /// [`SendError::DaemonGone`].
    pub fn close(&mut self, flow: FlowId) -> Result<(), SendError> {
        match self.shares.is_open(flow) {
            Some(true) => self.end_flow(flow, Request::Close { flow: flow.to_raw() }),
            _ => self.still_there(),
        }
    }

    /// Ends a flow at once; one that is not there is passed over.
    ///
    /// # Errors
    /// [`SendError::DaemonGone`].
    pub fn reset(&mut self, flow: FlowId) -> Result<(), SendError> {
        match self.shares.is_open(flow) {
            Some(_) => self.end_flow(flow, Request::Reset { flow: flow.to_raw() }),
            None => self.still_there(),
        }
    }

    /// Takes no more connections on `udp_port`. While there is no daemon ([`ClientConfig::reattach`]), the next one is not asked to listen.
    ///
    /// # Errors
    /// [`SendError::DaemonGone`].
    pub fn unlisten(&mut self, udp_port: u16) -> Result<(), SendError> {
        let listens = self.calls.listens_on(udp_port);
        self.calls.unlistens(udp_port);
        if let Some(steady) = &mut self.steady {
            steady.unlistens(udp_port);
            if self.is_detached() {
                return Ok(());
            }
        }
        match listens {
            true => self.owe(Request::Unlisten { udp_port }),
            false => self.still_there(),
        }
    }

    /// Gives an attempt to connect up. [`Event::ConnectFailed`] follows, with
    /// [`ConnectFailure::Cancelled`](crate::ConnectFailure::Cancelled); a flow that opens meanwhile is ended unseen. False, and
    /// nothing done, when the attempt was answered already.
    pub fn cancel(&mut self, attempt: ConnectId) -> bool {
        let done = self.calls.give_up(attempt, true, &mut self.owed);
        self.flush();
        done
    }

    /// As [`cancel`](Self::cancel), all attempts with this token that were not answered; says how many there were.
    pub fn cancel_all(&mut self, token: u64) -> usize {
        let with = self.calls.told_with(token);
        with.into_iter().filter(|id| self.cancel(*id)).count()
    }

    /// Ends all that was begun, without a word: flows are reset, attempts given up, and nobody listens any more.
    #[cfg(feature = "tokio")]
    pub(crate) fn end_all(&mut self) {
        for attempt in self.calls.attempts() {
            self.calls.give_up(attempt, false, &mut self.owed);
        }
        for udp_port in self.calls.udp_ports() {
            let _ = self.unlisten(udp_port);
        }
        for flow in self.shares.flows() {
            let _ = self.reset(flow);
        }
        self.flush();
    }

    fn end_flow(&mut self, flow: FlowId, request: Request) -> Result<(), SendError> {
        self.shares.close(flow);
        match self.owed.contains(&request) {
            // Asked for before, and the ring is still full.
            true => Ok(()),
            false => self.owe(request),
        }
    }

    /// Submits a request as soon as the ring has room.
    fn owe(&mut self, request: Request) -> Result<(), SendError> {
        self.still_there()?;
        self.owed.push_back(request);
        self.flush();
        if !self.owed.is_empty() && self.channel.is_closed() {
            return Err(SendError::DaemonGone);
        }
        Ok(())
    }

    fn still_there(&self) -> Result<(), SendError> {
        match self.channel.is_inherited() || self.is_detached() {
            true => Err(SendError::DaemonGone),
            false => Ok(()),
        }
    }
}
