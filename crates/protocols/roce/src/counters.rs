//! What an endpoint counts.

use barewire_base::{Counter, DropCounters};

/// Counts of one endpoint. Its engine writes them, anybody reads.
#[derive(Debug, Default)]
pub struct Counters {
    /// Frames taken in.
    pub rx_frames: Counter,
    /// Frames written.
    pub tx_frames: Counter,
    /// Packets sent again.
    pub packets_resent: Counter,
    /// Times that a queue pair waited for an answer in vain.
    pub timeouts: Counter,
    /// NAKs sent for a missing packet.
    pub nak_sequence_sent: Counter,
    /// NAKs received for a missing packet.
    pub nak_sequence_received: Counter,
    /// NAKs sent because no receive request was posted.
    pub rnr_sent: Counter,
    /// The same, received.
    pub rnr_received: Counter,
    /// NAKs sent that end a connection: invalid request.
    pub nak_invalid_sent: Counter,
    /// NAKs sent that end a connection: key, bounds or permission.
    pub nak_access_sent: Counter,
    /// NAKs sent that end a connection: our own failure.
    pub nak_operation_sent: Counter,
    /// Requests that came twice and were answered again.
    pub duplicates: Counter,
    /// Answers that told of a lost one before them.
    pub implied_naks: Counter,
    /// Packets that came with Congestion Experienced.
    pub ecn_marked: Counter,
    /// Congestion notifications sent.
    pub cnp_sent: Counter,
    /// Congestion notifications received; each slows its queue pair.
    pub cnp_received: Counter,
    /// Completions that found their queue full.
    pub cq_overruns: Counter,
    /// Connections established, both sides' view counted at its own endpoint.
    pub connections: Counter,
    /// Connections that ended, in whatever way.
    pub disconnections: Counter,
    /// Requests for connections received.
    pub req_received: Counter,
    /// Messages of the connection manager sent again.
    pub cm_resent: Counter,
    /// Messages of the connection manager that had been seen before.
    pub cm_duplicates: Counter,
    /// Refusals sent.
    pub rej_sent: Counter,
    /// Refusals received.
    pub rej_received: Counter,
    /// Requests refused because a listener's backlog was full.
    pub backlog_full: Counter,
    /// Requests from a queue pair that was believed connected.
    pub stale: Counter,
    /// Connections that were never answered.
    pub cm_timeouts: Counter,
    /// Answers to strangers that did not fit their queue.
    pub replies_lost: Counter,
    /// Frames that went no further, by reason.
    pub drops: DropCounters,
}

impl Counters {
    /// Every count but those of drops, with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        [
            ("rx_frames", &self.rx_frames),
            ("tx_frames", &self.tx_frames),
            ("packets_resent", &self.packets_resent),
            ("timeouts", &self.timeouts),
            ("nak_sequence_sent", &self.nak_sequence_sent),
            ("nak_sequence_received", &self.nak_sequence_received),
            ("rnr_sent", &self.rnr_sent),
            ("rnr_received", &self.rnr_received),
            ("nak_invalid_sent", &self.nak_invalid_sent),
            ("nak_access_sent", &self.nak_access_sent),
            ("nak_operation_sent", &self.nak_operation_sent),
            ("duplicates", &self.duplicates),
            ("implied_naks", &self.implied_naks),
            ("ecn_marked", &self.ecn_marked),
            ("cnp_sent", &self.cnp_sent),
            ("cnp_received", &self.cnp_received),
            ("cq_overruns", &self.cq_overruns),
            ("connections", &self.connections),
            ("disconnections", &self.disconnections),
            ("req_received", &self.req_received),
            ("cm_resent", &self.cm_resent),
            ("cm_duplicates", &self.cm_duplicates),
            ("rej_sent", &self.rej_sent),
            ("rej_received", &self.rej_received),
            ("backlog_full", &self.backlog_full),
            ("stale", &self.stale),
            ("cm_timeouts", &self.cm_timeouts),
            ("replies_lost", &self.replies_lost),
        ]
        .into_iter()
        .map(|(name, counter)| (name, counter.get()))
    }
}
