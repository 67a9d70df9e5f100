//! What an endpoint counts.

use crate::mtu::MtuNews;
use barewire_base::counters;

counters! {
    /// What an endpoint has done.
    pub struct Counters {
        /// Messages accepted from applications.
        messages_queued,
        /// Messages that the peer acknowledged whole.
        messages_sent,
        /// Bytes of messages that the peer acknowledged whole.
        bytes_sent,
        /// Messages handed to applications.
        messages_received,
        /// Bytes of messages handed to applications.
        bytes_received,
        /// Packets of any kind sent.
        packets_tx,
        /// Packets of any kind received.
        packets_rx,
        /// Segments sent for the first time.
        segments_tx,
        /// Segments sent again.
        segments_resent,
        /// Pure acknowledgements sent.
        acks_tx,
        /// Pure acknowledgements received.
        acks_rx,
        /// Retransmission time-outs.
        timeouts,
        /// Tail-loss probes.
        probes,
        /// Segments given up as lost.
        segments_lost,
        /// Acknowledgements that said the peer's application has no room.
        not_ready_rx,
        /// Packets that arrived with Congestion Experienced.
        ecn_marks_rx,
        /// Keep-alive probes sent.
        keepalives_tx,
        /// Flows that were opened here.
        flows_connected,
        /// Flows that a client opened.
        flows_accepted,
        /// Flows that ended, for whatever reason.
        flows_closed,
        /// Flows of both kinds that are encrypted.
        flows_encrypted,
        /// Key updates: keys replaced after enough packets.
        key_updates,
        /// Resets sent.
        resets_tx,
        /// Resets obeyed.
        resets_rx,
        /// Flows ended because their peer left a message unfinished while others waited for its memory.
        flows_stalled,
        /// Flows ended because their peer broke the protocol.
        peer_faults,
        /// Handshakes refused because their host has as many flows as it leaves to others.
        peer_share_refusals,
        /// Flows whose large packets vanished, so that they fell back to small ones.
        mtu_black_holes,
        /// Probes for larger packets.
        mtu_probes,
        /// Probes for larger packets that were lost.
        mtu_probes_lost,
        /// Probes for larger packets that arrived: the flow goes on with that size.
        mtu_raised,
        /// Packets that carried a piece of a segment.
        pieces_tx,
        /// Pieces of segments that arrived.
        pieces_rx,
        /// Handshakes answered with a cookie.
        retries_tx,
        /// Handshakes refused.
        rejects_tx,
    }
}

impl Counters {
    /// Counts what became of a path's MTU, if anything did.
    #[inline]
    pub(crate) fn count_mtu(&self, news: Option<MtuNews>) {
        match news {
            None => {}
            Some(MtuNews::BlackHole) => self.mtu_black_holes.add(1),
            Some(MtuNews::Raised) => self.mtu_raised.add(1),
            Some(MtuNews::ProbeLost) => self.mtu_probes_lost.add(1),
        }
    }
}
