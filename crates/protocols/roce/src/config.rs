//! What an endpoint is told when it is made.

use crate::{ConfigError, Mtu};
use barewire_base::Duration;
use barewire_wire::MacAddr;
use std::net::IpAddr;

/// Most addresses of one endpoint.
pub const ADDRESSES_MAX: usize = 8;
/// Most queue pairs of one endpoint: half of the 24-bit numbers, so that a free one is found at once.
pub const QPS_MAX: usize = 1 << 23;
/// Most connections of one endpoint.
pub const CONNECTIONS_MAX: usize = 1 << 21;

/// The configuration of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Debug)]
pub struct Config {
    /// Our MAC address.
    pub mac: MacAddr,
    /// Our IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Our VLAN: frames carry its tag, and others are not ours.
    pub vlan: Option<u16>,
    /// GUID of the adapter that we claim to be; peers tell restarted adapters from living ones by it.
    pub guid: u64,
    /// Largest path MTU that the port carries.
    pub mtu: Mtu,
    /// The migration bit of packets sent: hardware sends true and may check it, software sends false. Both are accepted.
    pub migrated: bool,
    /// Whether data packets say that they understand congestion marks.
    pub ecn: bool,
    /// Whether UDP checksums are computed over IPv6. (Over IPv4 they never are: the ICRC covers more.)
    pub udp_checksum6: bool,
    /// Most queue pairs.
    pub qps_max: usize,
    /// Most connections, those being opened, closed and remembered included.
    pub connections_max: usize,
    /// Most paths. Those that a peer's request made are forgotten when nothing uses them.
    pub paths_max: usize,
    /// Most memory regions.
    pub regions_max: usize,
    /// Most completion queues.
    pub cqs_max: usize,
    /// Most send requests, most receive requests, and most completions in all queues together, each. Completion queues are
    /// promised their entries when they are made, within this sum; requests are counted when they are posted, unless
    /// [`Quota`](crate::Quota)s promise them.
    pub requests_max: usize,
    /// Most packets that a queue pair has sent without having heard of their arrival.
    pub window_packets: u32,
    /// Packets after which an acknowledgement is asked for within a long message.
    pub ack_every: u16,
    /// Shortest time between two congestion notifications of one queue pair.
    pub cnp_interval: Duration,
    /// How long one wait for an acknowledgement may become when several in a row were in vain. Zero: no longer than the
    /// specification allows, four times the queue pair's time-out. More: each wait is twice the one before, up to this; peers
    /// that are silent for longer are kept, and dead ones found out later.
    pub patience: Duration,
    /// The rate of the link in bits per second: where a queue pair begins that is told of congestion, and where it recovers to.
    pub link_rate_bps: u64,
    /// The connection manager.
    pub cm: CmConfig,
}

/// Timers and terms of the connection manager.
#[derive(Clone, Debug)]
pub struct CmConfig {
    /// How long the first REQ, REP or DREQ waits for its answer. Each repetition waits twice as long as the one before.
    pub response_timeout: Duration,
    /// Longest wait.
    pub response_timeout_max: Duration,
    /// Repetitions before giving up.
    pub retries: u8,
    /// How long a packet may be on its way. What a peer has sent cannot arrive later than that, so a closed connection is
    /// remembered for twice as long ([`time_wait`](Self::time_wait)).
    pub packet_lifetime: Duration,
    /// How long the answer "still working on it" holds a repeated REQ off.
    pub service_time: Duration,
    /// Local ACK time-out of connections, code of 5 bits: 4.096 us * 2^code. [`RtsAttr`](crate::RtsAttr) says what becomes of it.
    pub ack_timeout: u8,
    /// Retries without an answer, 0 to 7.
    pub retry_count: u8,
    /// Retries after receiver-not-ready, 0 to 7.
    pub rnr_retry_count: u8,
    /// Code of the time that receiver-not-ready NAKs ask for, 0 to 31.
    pub min_rnr_timer: u8,
    /// Reads and atomics answered at once.
    pub responder_resources: u8,
    /// Reads and atomics outstanding at once.
    pub initiator_depth: u8,
    /// Whether a request from a queue pair that we believe connected ends the old connection. The peer has forgotten it; but
    /// who can send in a peer's name and knows its GUID and queue pair can end connections that way.
    pub stale_closes: bool,
}

impl Default for CmConfig {
    fn default() -> Self {
        CmConfig {
            response_timeout: Duration::from_millis(20),
            response_timeout_max: Duration::from_secs(1),
            retries: 8,
            packet_lifetime: PACKET_LIFETIME,
            service_time: Duration::from_millis(100),
            ack_timeout: ACK_TIMEOUT,
            retry_count: 7,
            rnr_retry_count: 7,
            min_rnr_timer: 12,
            responder_resources: READS,
            initiator_depth: READS,
            stale_closes: true,
        }
    }
}

const READS: u8 = crate::READS_MAX;
/// Code 16, as Linux assumes for RoCE.
const PACKET_LIFETIME: Duration = Duration::from_nanos(4_096 << 16);
/// 34 ms: with seven retries 0.9 s until a silent peer is given up. A machine with few cores may be silent for a while and alive.
const ACK_TIMEOUT: u8 = 13;

impl CmConfig {
    /// How long a closed connection is remembered: for as long as one of its messages may still arrive, and the answer to it
    /// (twice the packet lifetime, section 12.9.8.4). A late copy of its REQ is known until then, and opens no other connection.
    /// Where memory for connections is short, those that have been closed for longest are forgotten earlier.
    pub fn time_wait(&self) -> Duration {
        self.packet_lifetime.saturating_mul(2)
    }
}

impl Config {
    /// A configuration with one address, and limits for a million connections; memory is taken as they come.
    pub fn new(mac: MacAddr, address: IpAddr) -> Config {
        let m = mac.0;
        Config {
            mac,
            addresses: vec![address],
            vlan: None,
            // The usual way from 48 to 64 bits (EUI-64).
            guid: u64::from_be_bytes([m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]]),
            mtu: Mtu::M1024,
            migrated: false,
            ecn: true,
            udp_checksum6: true,
            qps_max: 1 << 20,
            connections_max: CONNECTIONS_MAX,
            paths_max: 4096,
            regions_max: 65_536,
            cqs_max: 1 << 20,
            requests_max: 1 << 22,
            window_packets: 128,
            ack_every: 32,
            cnp_interval: Duration::from_micros(50),
            patience: Duration::ZERO,
            link_rate_bps: 25_000_000_000,
            cm: CmConfig::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.addresses.is_empty() {
            return Err(ConfigError::NoAddress);
        }
        if self.addresses.len() > ADDRESSES_MAX {
            return Err(ConfigError::Addresses);
        }
        let cm = &self.cm;
        let codes = cm.ack_timeout.max(cm.min_rnr_timer);
        for (name, value, max) in [
            ("qps_max", self.qps_max, QPS_MAX),
            ("connections_max", self.connections_max, CONNECTIONS_MAX),
            ("paths_max", self.paths_max, 1 << 24),
            ("regions_max", self.regions_max, 1 << 24),
            ("cqs_max", self.cqs_max, 1 << 24),
            ("requests_max", self.requests_max, 1 << 30),
            ("window_packets", self.window_packets as usize, 1 << 16),
            ("ack_every", usize::from(self.ack_every), 1 << 15),
            ("cm.retry_count + 1", usize::from(cm.retry_count) + 1, 8),
            ("cm.rnr_retry_count + 1", usize::from(cm.rnr_retry_count) + 1, 8),
            ("cm.ack_timeout, cm.min_rnr_timer", usize::from(codes).max(1), 31),
            ("cm.responder_resources + 1", usize::from(cm.responder_resources) + 1, usize::from(READS) + 1),
            ("cm.initiator_depth + 1", usize::from(cm.initiator_depth) + 1, usize::from(READS) + 1),
            (
                "cm.response_timeout, in nanoseconds",
                cm.response_timeout.as_nanos().min(1 << 40) as usize,
                1 << 40,
            ),
            ("link_rate_bps", usize::try_from(self.link_rate_bps).unwrap_or(usize::MAX), 1 << 40),
            (
                "cm.packet_lifetime + 1, in nanoseconds",
                cm.packet_lifetime.as_nanos().saturating_add(1).min(usize::MAX as u64) as usize,
                1 << 40,
            ),
            ("cm.retries + 1", usize::from(cm.retries) + 1, 16),
        ] {
            if value == 0 || value > max {
                return Err(ConfigError::Range(name, max));
            }
        }
        Ok(())
    }
}
