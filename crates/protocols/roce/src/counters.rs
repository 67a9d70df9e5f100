//! What an endpoint counts.

use barewire_base::counters;

counters! {
    /// Counts of one endpoint. Its engine writes them, anybody reads.
    pub struct Counters {
        /// Frames received.
        rx_frames,
        /// Frames sent.
        tx_frames,
        /// Packets sent again.
        packets_resent,
        /// Time-outs of queue pairs.
        timeouts,
        /// NAKs sent for a missing packet.
        nak_sequence_sent,
        /// NAKs received for a missing packet.
        nak_sequence_received,
        /// NAKs sent because no receive request was posted.
        rnr_sent,
        /// NAKs received because no receive request was posted at the peer.
        rnr_received,
        /// NAKs sent that end a connection: invalid request.
        nak_invalid_sent,
        /// NAKs sent that end a connection: key, bounds or permission.
        nak_access_sent,
        /// NAKs sent that end a connection: our own failure.
        nak_operation_sent,
        /// Requests that came twice and were answered again.
        duplicates,
        /// Answers that revealed the loss of an earlier one.
        implied_naks,
        /// Packets that arrived with Congestion Experienced.
        ecn_marked,
        /// Congestion notifications sent.
        cnp_sent,
        /// Congestion notifications received; each slows its queue pair.
        cnp_received,
        /// Completions lost because their queue was full. The first one of a queue ends all queue pairs that use it.
        cq_overruns,
        /// Connections established, both sides' view counted at its own endpoint.
        connections,
        /// Connections that ended, in whatever way.
        disconnections,
        /// Requests for connections received.
        req_received,
        /// Messages of the connection manager sent again.
        cm_resent,
        /// Messages of the connection manager that had been seen before.
        cm_duplicates,
        /// Refusals sent.
        rej_sent,
        /// Refusals received.
        rej_received,
        /// Requests refused because a listener's backlog was full.
        backlog_full,
        /// Requests from a queue pair that was believed connected.
        stale,
        /// Connections that were never answered.
        cm_timeouts,
        /// Messages of the connection manager whose private data found no room. The peer repeats them, but for refusals, which
        /// are told without.
        private_full,
        /// Answers to strangers that did not fit their queue.
        replies_lost,
    }
}
