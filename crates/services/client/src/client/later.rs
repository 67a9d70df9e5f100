//! Ends that are never refused: what finds the ring full goes with a later flush.

use super::*;

impl Client {
    /// As [`close`](Client::close).
    pub(crate) fn close_later(&mut self, flow: FlowId) {
        self.shares.close(flow);
        self.owe(Request::Close { flow: flow.to_raw() });
    }

    /// As [`reset`](Client::reset).
    pub(crate) fn reset_later(&mut self, flow: FlowId) {
        self.shares.close(flow);
        self.owe(Request::Reset { flow: flow.to_raw() });
    }

    /// As [`unlisten`](Client::unlisten).
    pub(crate) fn unlisten_later(&mut self, udp_port: u16) {
        self.calls.unlistens(udp_port);
        if let Some(steady) = &mut self.steady {
            steady.unlistens(udp_port);
        }
        self.owe(Request::Unlisten { udp_port });
    }

    fn owe(&mut self, request: Request) {
        self.owed.push_back(request);
        self.flush();
    }
}
