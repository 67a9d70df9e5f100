//! What an endpoint may use and how patient it is. Every limit has its name here.

use crate::congestion::CongestionConfig;
use crate::security::Security;
use barewire_base::Duration;
use barewire_wire::msg;
use std::sync::Arc;

/// Segments that a flow may have in flight, and that a receiver tracks beyond the first hole.
pub const WINDOW_SEGMENTS: usize = 256;

/// How often `stall_timeout` may pass before a message that comes on slowly, not only one that does not come on at all, ends
/// its flow.
pub const STALL_PATIENCE: u64 = 10;
/// Bytes in a second that an unfinished message has to bring by then.
pub const STALL_RATE: u64 = 64 << 10;

/// One part in so many of memory, places and completions is left to messages that can be handed over when they are whole. Others,
/// which have to wait for one before them, do without: what they wait for may never come.
pub const LATER_LEAVES: u32 = 4;
/// How long a host that let memory lie while others waited for it is remembered: its messages leave as much as such others do.
pub const STALL_REMEMBERED: Duration = Duration::from_secs(60);

/// Share of the flow table that remote hosts leave to connections from here: one in so many.
pub(crate) const OWN_SHARE: u32 = 8;

/// Bounds and timers of an endpoint. The defaults serve one application on a LAN.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Flows at once, at most 2^20. Costs 8 KiB each when used.
    pub flows_max: u32,
    /// Messages accepted for sending and not yet acknowledged, over all flows.
    pub send_messages_max: u32,
    /// Messages being received or not yet released by the application, over all flows.
    pub recv_messages_max: u32,
    /// Largest IP packet in bytes: the MTU of the port.
    pub mtu: u16,
    /// Bytes of messages a flow may have under way to an application that has not released them. One message may
    /// overshoot it.
    pub recv_window_bytes: u32,
    /// Longest time an acknowledgement is held back in the hope of a packet to ride on.
    pub ack_delay: Duration,
    /// Segments after which an acknowledgement is held back no longer.
    pub ack_every: u32,
    /// Shortest retransmission time-out.
    pub timeout_min: Duration,
    /// Time-out before the first round-trip sample.
    pub timeout_initial: Duration,
    /// For this long after the first time-out, retries come at most `gentle_interval` apart: a short outage must not
    /// become a long one.
    pub gentle_period: Duration,
    /// Longest interval between retries during `gentle_period`.
    pub gentle_interval: Duration,
    /// Longest interval between retries after it.
    pub timeout_max: Duration,
    /// Shortest wait before a tail-loss probe.
    pub probe_min: Duration,
    /// A flow whose peer acknowledges nothing for so long is closed.
    pub dead_after: Duration,
    /// A handshake that takes longer has failed.
    pub handshake_timeout: Duration,
    /// Silence after which the peer is asked for a sign of life.
    pub keepalive: Duration,
    /// Time between such questions.
    pub keepalive_interval: Duration,
    /// Questions without an answer after which the peer counts as gone.
    pub keepalive_probes: u32,
    /// A message of which nothing new comes for so long, or behind one that does not come, while its application has to refuse
    /// others for want of room, ends its flow. So does one that in [`STALL_PATIENCE`] times as long has brought less than [`STALL_RATE`].
    pub stall_timeout: Duration,
    /// A flow without a message either way for so long is closed; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// How long a finished flow stays to answer its peer's repeats; longer where round trips are long, and `timeout_max`
    /// after each repeat.
    pub linger: Duration,
    /// Handshakes under way at servers above which clients have to prove their address first.
    pub half_open_max: u32,
    /// Number of this engine among its daemon's, at most 15. It stands in each connection id.
    pub engine: u8,
    /// Mark data packets ECN-capable.
    pub ecn: bool,
    /// Find out by what arrives when a path carries smaller packets than both interfaces do, with peers that do so as well. Costs
    /// nothing where it does not.
    pub mtu_discovery: bool,
    /// How long a path whose largest packet was found is left in peace, before a larger one is tried again.
    pub mtu_raise: Duration,
    /// First and last UDP port for flows that this side opens.
    pub ephemeral_udp_ports: (u16, u16),
    /// Congestion control.
    pub congestion: CongestionConfig,
    /// Keys and trust; `None`: flows are in the clear.
    pub security: Option<Arc<Security>>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            flows_max: 1024,
            send_messages_max: 4096,
            recv_messages_max: 4096,
            mtu: 1500,
            recv_window_bytes: 1 << 20,
            ack_delay: Duration::from_micros(50),
            ack_every: 8,
            timeout_min: Duration::from_millis(1),
            timeout_initial: Duration::from_millis(10),
            gentle_period: Duration::from_millis(100),
            gentle_interval: Duration::from_millis(10),
            timeout_max: Duration::from_secs(1),
            probe_min: Duration::from_micros(200),
            dead_after: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            keepalive: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(1),
            keepalive_probes: 3,
            stall_timeout: Duration::from_secs(1),
            idle_timeout: None,
            linger: Duration::from_millis(50),
            half_open_max: 256,
            engine: 0,
            ecn: true,
            mtu_discovery: true,
            mtu_raise: Duration::from_secs(60),
            ephemeral_udp_ports: (32768, 60999),
            congestion: CongestionConfig::default(),
            security: None,
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// `flows_max` is zero or above 2^20.
    #[error("flows_max must be from 1 to 1048576")]
    FlowsMax,
    /// `send_messages_max` or `recv_messages_max` is zero.
    #[error("send_messages_max and recv_messages_max must be at least 1")]
    MessagesMax,
    /// The MTU leaves no room for a segment.
    #[error("mtu must be at least 256")]
    Mtu,
    /// `engine` is above 15.
    #[error("engine must be at most 15")]
    Engine,
    /// A timer is zero: flows would end, or connections fail, at once.
    #[error("{0} must be above zero")]
    Timer(&'static str),
    /// More legs than there may be.
    #[error("an endpoint has at most {} legs", crate::LEGS_MAX)]
    Legs,
    /// The range of UDP ports is empty or contains zero.
    #[error("ephemeral_udp_ports must be a range of ports above 0, first before last")]
    UdpPorts,
    /// Something about keys and trust.
    #[error("security: {0}")]
    Security(&'static str),
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.flows_max == 0 || self.flows_max > 1 << crate::ids::SLOT_BITS {
            return Err(ConfigError::FlowsMax);
        }
        if self.send_messages_max == 0 || self.recv_messages_max == 0 {
            return Err(ConfigError::MessagesMax);
        }
        if self.mtu < 256 {
            return Err(ConfigError::Mtu);
        }
        if u32::from(self.engine) >= 1 << crate::ids::ENGINE_BITS {
            return Err(ConfigError::Engine);
        }
        let timers = [
            ("timeout_min", self.timeout_min),
            ("timeout_initial", self.timeout_initial),
            ("timeout_max", self.timeout_max),
            ("dead_after", self.dead_after),
            ("handshake_timeout", self.handshake_timeout),
            ("keepalive", self.keepalive),
            ("keepalive_interval", self.keepalive_interval),
            ("stall_timeout", self.stall_timeout),
            ("mtu_raise", self.mtu_raise),
            ("idle_timeout", self.idle_timeout.unwrap_or(self.dead_after)),
        ];
        if let Some((name, _)) = timers.into_iter().find(|(_, time)| time.as_nanos() == 0) {
            return Err(ConfigError::Timer(name));
        }
        if self.keepalive_probes == 0 {
            return Err(ConfigError::Timer("keepalive_probes"));
        }
        let (first, last) = self.ephemeral_udp_ports;
        if first == 0 || first > last {
            return Err(ConfigError::UdpPorts);
        }
        self.security.as_ref().map_or(Ok(()), |s| s.check()).map_err(ConfigError::Security)
    }

    /// Payload bytes of a full segment to this side, by a leg with this MTU.
    pub(crate) fn mss(mtu: u16, ipv6: bool) -> u16 {
        let headers = if ipv6 { 40 } else { 20 } + 8 + msg::DATA_HEADER_LEN as u16;
        mtu - headers
    }

    pub(crate) fn credit_window(&self) -> u32 {
        self.recv_window_bytes.div_ceil(msg::CREDIT_UNIT).max(1)
    }
}

/// What a message of `len` bytes uses up of its flow's credit: its bytes and one unit for itself.
pub(crate) fn credit_cost(len: u32) -> u32 {
    len.div_ceil(msg::CREDIT_UNIT) + 1
}
