//! What a host counts.

use barewire_base::{Counter, DropCounters};

/// Counts of one host. Its engine writes them, anybody reads.
#[derive(Debug, Default)]
pub struct HostCounters {
    /// Frames given to `handle_frame`.
    pub rx_frames: Counter,
    /// Datagrams handed out.
    pub rx_datagrams: Counter,
    /// Frames of the host's own that `poll_transmit` wrote.
    pub tx_frames: Counter,
    /// ARP requests and neighbour solicitations written.
    pub solicitations_sent: Counter,
    /// ARP replies, neighbour advertisements and announcements of our addresses, queued or written.
    pub adverts_sent: Counter,
    /// Neighbours resolved.
    pub neighbours_resolved: Counter,
    /// Neighbours that did not answer, or stopped answering.
    pub neighbours_failed: Counter,
    /// Neighbours forgotten to make room.
    pub neighbours_evicted: Counter,
    /// Times that the table was full of neighbours in use.
    pub neighbours_full: Counter,
    /// Times that a known neighbour was asked anew, since another MAC claimed its address or nothing came back from behind it.
    pub neighbours_doubted: Counter,
    /// Known neighbours that were found at another MAC.
    pub neighbours_moved: Counter,
    /// Others that claimed an address of ours.
    pub address_conflicts: Counter,
    /// Routes asked for that do not exist.
    pub unroutable: Counter,
    /// ICMP echo requests answered.
    pub echoes_answered: Counter,
    /// ICMP port unreachables queued.
    pub unreachables_sent: Counter,
    /// ICMP errors received.
    pub icmp_errors: Counter,
    /// Router advertisements ignored.
    pub router_adverts_ignored: Counter,
    /// Events that found their queue full: somebody does not call `poll_event`.
    pub events_lost: Counter,
    /// Frames that went no further, by reason.
    pub drops: DropCounters,
}
