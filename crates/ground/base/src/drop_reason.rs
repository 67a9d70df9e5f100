//! Why a frame was dropped. Every drop anywhere has one of these names, and each name has a counter.

use core::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal,)*) => {
        /// Why a frame, a packet or a segment went no further.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DropReason { $($(#[doc = $doc])* $name,)* }

        impl DropReason {
            /// Every reason, in the order of its counter.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name,)*];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name that `stat` and the metrics show.
            pub const fn as_str(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }

            /// What it means, in a sentence.
            pub const fn help(self) -> &'static str {
                match self { $(DropReason::$name => concat!($($doc),*),)* }
            }
        }
    };
}

reasons! {
    /// Shorter than its headers say.
    Truncated = "truncated",
    /// A header field has a value that no sender may use.
    Malformed = "malformed",
    /// An IPv4, UDP, TCP or ICMP checksum is wrong.
    BadChecksum = "bad_checksum",
    /// The message header's CRC32C is wrong.
    BadCrc = "bad_crc",
    /// Addressed to another MAC.
    NotOurMac = "not_our_mac",
    /// Addressed to another IP address.
    NotOurAddress = "not_our_address",
    /// An EtherType nobody here speaks.
    UnknownEtherType = "unknown_ethertype",
    /// An IP protocol nobody here speaks.
    UnknownProtocol = "unknown_protocol",
    /// No endpoint on that UDP port.
    NoListener = "no_listener",
    /// A fragment: recognised, not reassembled.
    Fragment = "fragment",
    /// No free frame in the pool.
    PoolEmpty = "pool_empty",
    /// A ring had no room.
    RingFull = "ring_full",
    /// Larger than the port's MTU or than a frame.
    TooLarge = "too_large",
    /// Too many packets wait for one address resolution.
    ResolveQueueFull = "resolve_queue_full",
    /// The next hop did not answer ARP or neighbour discovery.
    Unreachable = "unreachable",
    /// Hop limit or TTL ran out.
    TtlExpired = "ttl_expired",
    /// A message version that this build does not speak.
    UnknownVersion = "unknown_version",
    /// A connection id that names no flow here.
    UnknownFlow = "unknown_flow",
    /// The packet came from elsewhere: not from the peer of its connection id, or by a port that does not lead to its sender.
    WrongPeer = "wrong_peer",
    /// A segment outside the receive window.
    OutOfWindow = "out_of_window",
    /// A segment that had already arrived.
    Duplicate = "duplicate",
    /// An acknowledgement of something never sent.
    BadAck = "bad_ack",
    /// A reset that did not prove that it saw our packets.
    ForgedReset = "forged_reset",
    /// A handshake cookie that is wrong or too old.
    BadCookie = "bad_cookie",
    /// The flow table is full.
    FlowTableFull = "flow_table_full",
    /// The receiving application has no room; the sender keeps the message.
    NoCredit = "no_credit",
    /// A message that the peer began beyond the credit it was granted.
    OverCredit = "over_credit",
    /// Taken out by a fault port or a simulated link.
    Injected = "injected",
    /// The switch has no P4 program yet.
    NoProgram = "no_program",
    /// The P4 program said so.
    ProgramDrop = "program_drop",
    /// The P4 program sent it to a port that the switch does not have.
    UnknownPort = "unknown_port",
    /// An egress queue, or the queue of packets that go round again, was full.
    QueueFull = "queue_full",
    /// The P4 program named a priority that its port has no queue for.
    BadPriority = "bad_priority",
    /// A multicast group without members, or a mirror session that is not set.
    NoReplica = "no_replica",
    /// Headers grew beyond the room before the packet.
    NoHeadroom = "no_headroom",
    /// An `assert` of the P4 program failed.
    AssertFailed = "assert_failed",
    /// An `assume` of the P4 program failed.
    AssumeFailed = "assume_failed",
    /// The port is down or its queue refused the frame.
    PortDown = "port_down",
    /// Checksum left to hardware by the sender and not completed.
    UnfinishedChecksum = "unfinished_checksum",
    /// The packet belongs to a state that the flow is not in.
    BadState = "bad_state",
    /// A neighbour message that failed its checks (wrong hop limit, unsolicited, not for us).
    BadNeighbour = "bad_neighbour",
    /// More packets of a kind than its rate limit allows.
    RateLimited = "rate_limited",
    /// The invariant CRC of a RoCE packet is wrong.
    BadIcrc = "bad_icrc",
    /// A queue pair number that names none of ours.
    UnknownQp = "unknown_qp",
    /// A partition key or queue key other than the queue pair's.
    BadKey = "bad_key",
    /// No receive work request is posted, and the service is not a reliable one.
    NoReceive = "no_receive",
    /// A sealed packet for a flow that has no keys yet, or a wish for an encrypted flow where there is no key.
    NoKey = "no_key",
    /// A handshake that was made for another key than ours.
    WrongKey = "wrong_key",
    /// A handshake by a key that is not trusted, or not at that address.
    NotTrusted = "not_trusted",
    /// A sealed packet or handshake that fails its authentication: it was altered, or made up.
    Altered = "altered",
    /// A sealed packet that came before, or is too old to tell.
    Replayed = "replayed",
    /// A plain packet where only encrypted ones are taken.
    Downgrade = "downgrade",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, a) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*a as usize, i);
            assert!(DropReason::ALL[..i].iter().all(|b| b.as_str() != a.as_str()));
        }
    }
}
