//! One flow: identity, state, both halves, and its timers.

use crate::config::Config;
use crate::congestion::Congestion;
use crate::event::ConnectFailure;
use crate::mtu::PathMtu;
use crate::path::PathSign;
use crate::receiver::Receiver;
use crate::rtt::Rtt;
use crate::security::guard::Shield;
use crate::sender::{Fin, Sender};
use barewire_base::{Duration, Instant};
use barewire_host::Template;
use barewire_wire::msg::option;
use std::net::SocketAddr;

/// Names a flow of one endpoint. A number that is never used again while the endpoint lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub(crate) u64);

impl FlowId {
    /// The id as a number, for rings and foreign interfaces.
    pub const fn to_raw(self) -> u64 {
        self.0
    }

    /// The id that [`to_raw`](Self::to_raw) gave. Any number is safe: one that names no flow is refused where it is used.
    pub const fn from_raw(raw: u64) -> FlowId {
        FlowId(raw)
    }

    pub(crate) fn new(slot: u32, generation: u64) -> FlowId {
        FlowId(generation << crate::ids::SLOT_BITS | u64::from(slot))
    }

    pub(crate) fn slot(self) -> u32 {
        crate::ids::slot_of(self.0)
    }
}

impl std::fmt::Debug for FlowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "flow {}.{}", self.slot(), self.0 >> crate::ids::SLOT_BITS)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// No flow in this slot.
    Free,
    /// Client: INIT sent or to be sent.
    Connecting,
    /// Server: ACCEPT sent or to be sent, nothing heard since.
    Accepting,
    Open,
    /// Both halves are done; the peer's repeats are still answered, here or by a [`Remnant`](crate::remnants::Remnant).
    Lingering,
}

pub(crate) struct Flow {
    pub state: State,
    pub id: FlowId,
    pub local_cid: u64,
    pub remote_cid: u64,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub owner: u32,
    pub token: u64,
    pub listener: u16,
    /// A client opened it; it counts among its host's.
    pub is_accepted: bool,
    pub ordered: bool,
    pub mss: u16,
    /// Both ends take segments in pieces.
    pub pieces: bool,
    pub mtu: PathMtu,
    pub first_seq: u32,
    pub cookie: [u8; 16],
    pub template: Option<Template>,
    pub tx: Sender,
    pub rx: Receiver,
    pub rtt: Rtt,
    pub cc: Congestion,
    /// The leg that its packets leave by.
    pub leg: u8,
    /// Legs, a bit for each, in whose lists of flows with something to send this place stands: its own leg's, and those of flows that
    /// had the place before.
    pub listed: u16,
    /// INIT, ACCEPT or a question for a sign of life is to be sent.
    pub control_due: bool,
    /// The retransmission timer or a probe wants this repeated, whatever the window says.
    pub repeat_due: Option<Repeat>,
    /// No more messages from the application.
    pub closing: bool,
    /// The application has been told that the flow is closed.
    pub closed_told: bool,
    /// When the handshake is tried again, or given up at `give_up_at`.
    pub handshake_at: Instant,
    pub give_up_at: Instant,
    /// Retransmission time-out or tail-loss probe.
    pub retry_at: Instant,
    pub probed: bool,
    pub timeouts: u32,
    pub first_timeout_at: Instant,
    /// Pacing of a window below one segment.
    pub pace_at: Instant,
    /// The peer's application has no room; only one segment is repeated now and then, first at this time. Always with
    /// something outstanding, so that an answer must come.
    pub not_ready_until: Instant,
    pub not_ready_count: u32,
    /// The peer answered that it has no room: the next repeat is no time-out.
    pub excused: bool,
    /// Messages that the application has and has not released.
    pub held: u32,
    /// Asking for credit while nothing is in flight to bring it.
    pub credit_probe_at: Instant,
    pub credit_probes: u32,
    pub route_retry_at: Instant,
    /// When a message that has not come whole is looked at again.
    pub stall_at: Instant,
    /// Stands in the list of flows that wait for their next hop.
    pub unrouted: bool,
    /// What the host is to be told, and when it was last told that the path is good.
    pub path: PathSign,
    pub proven_at: Instant,
    /// Since when the peer has repeated itself without a proof that it hears us, and when it last asked for a sign of life.
    pub repeats_since: Instant,
    pub asked_at: Instant,
    /// Somebody said, without proof, why this attempt to connect is in vain.
    pub refused: Option<ConnectFailure>,
    /// Whether it is encrypted.
    pub shield: Shield,
    pub heard_at: Instant,
    pub keepalive_at: Instant,
    pub keepalives: u32,
    /// Last message either way.
    pub used_at: Instant,
}

/// Which segment is repeated out of turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeat {
    /// The first one outstanding, after a time-out.
    First,
    /// The last one, to provoke an acknowledgement (tail-loss probe, RFC 8985 section 7).
    Last,
}

impl Flow {
    pub(crate) fn empty() -> Flow {
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let config = Config::default();
        Flow {
            state: State::Free,
            id: FlowId(0),
            local_cid: 0,
            remote_cid: 0,
            local: any,
            remote: any,
            owner: 0,
            token: 0,
            listener: 0,
            is_accepted: false,
            ordered: true,
            mss: 1,
            pieces: false,
            mtu: PathMtu::off(1),
            first_seq: 0,
            cookie: [0; 16],
            template: None,
            tx: Sender::new(0),
            rx: Receiver::new(0, 1),
            rtt: Rtt::new(config.timeout_initial),
            cc: Congestion::new(&config.congestion, 1),
            leg: 0,
            listed: 0,
            control_due: false,
            repeat_due: None,
            closing: false,
            closed_told: false,
            handshake_at: Instant::FAR_FUTURE,
            give_up_at: Instant::FAR_FUTURE,
            retry_at: Instant::FAR_FUTURE,
            probed: false,
            timeouts: 0,
            first_timeout_at: Instant::ZERO,
            pace_at: Instant::ZERO,
            not_ready_until: Instant::ZERO,
            not_ready_count: 0,
            excused: false,
            held: 0,
            credit_probe_at: Instant::FAR_FUTURE,
            credit_probes: 0,
            route_retry_at: Instant::FAR_FUTURE,
            stall_at: Instant::FAR_FUTURE,
            unrouted: false,
            path: PathSign::Nothing,
            proven_at: Instant::ZERO,
            repeats_since: Instant::FAR_FUTURE,
            asked_at: Instant::ZERO,
            refused: None,
            shield: Shield::Plain,
            heard_at: Instant::ZERO,
            keepalive_at: Instant::FAR_FUTURE,
            keepalives: 0,
            used_at: Instant::ZERO,
        }
    }

    /// Its leg in [`listed`](Self::listed).
    #[inline]
    pub(crate) fn leg_bit(&self) -> u16 {
        1 << self.leg
    }

    /// What a server answers of a flow's options, encryption aside.
    pub(crate) fn answer_options(&self) -> u16 {
        let unordered = if self.ordered { 0 } else { option::UNORDERED };
        unordered | if self.pieces { option::PIECES } else { 0 }
    }

    /// Whether the application may still queue messages.
    pub(crate) fn takes_messages(&self) -> bool {
        matches!(self.state, State::Open | State::Connecting) && !self.closing
    }

    /// Whether the congestion window, pacing and the peer's readiness let a segment go.
    #[inline]
    pub(crate) fn window_is_open(&self, now: Instant) -> bool {
        if self.not_ready_count > 0 {
            return false;
        }
        let window = self.cc.window();
        if window >= 1.0 {
            self.tx.in_flight < window as u32
        } else {
            self.tx.in_flight == 0 && now >= self.pace_at
        }
    }

    /// Whether what was not acknowledged may be lost: a receiver that has no room, and says so when it is asked, has refused it.
    #[inline]
    pub(crate) fn has_missed(&self) -> bool {
        self.not_ready_count == 0 || self.timeouts > 0
    }

    /// How long to wait for an acknowledgement, counting the time-outs so far.
    pub(crate) fn timeout(&self, now: Instant, config: &Config) -> Duration {
        let base = (self.rtt.timeout() + config.ack_delay).max(config.timeout_min);
        if self.timeouts == 0 {
            return base;
        }
        if now.since(self.first_timeout_at) < config.gentle_period {
            return base.max(Duration::from_nanos(
                (base.as_nanos() << self.timeouts.min(4)).min(config.gentle_interval.as_nanos()),
            ));
        }
        let late = now.since(self.first_timeout_at).div(4);
        base.max(config.gentle_interval).max(late).min(config.timeout_max.max(base))
    }

    /// Restarts the retransmission timer: after a transmission with nothing timed, or after progress.
    pub(crate) fn restart_retry(&mut self, now: Instant, config: &Config) {
        if self.tx.outstanding() == 0 {
            self.retry_at = Instant::FAR_FUTURE;
            return;
        }
        let wait = if self.probed || self.timeouts > 0 {
            self.timeout(now, config)
        } else {
            // First a tail-loss probe: two round trips and the time the peer may sit on its acknowledgement.
            (self.rtt.smoothed().saturating_mul(2) + config.ack_delay)
                .max(config.probe_min)
                .min(self.timeout(now, config))
        };
        self.retry_at = now + wait;
    }

    /// The earliest of the flow's timers.
    #[inline]
    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        match self.state {
            State::Free => Instant::FAR_FUTURE,
            State::Connecting | State::Accepting => {
                self.handshake_at.min(self.give_up_at).min(self.route_retry_at)
            }
            State::Lingering => self.give_up_at.min(self.rx.ack_at),
            State::Open => {
                let mut at = self.retry_at.min(self.rx.ack_at).min(self.keepalive_at);
                at = at.min(self.tx.reorder_at).min(self.credit_probe_at).min(self.route_retry_at);
                at = at.min(self.give_up_at).min(self.stall_at);
                if self.cc.window() < 1.0 && self.pace_at > now && self.tx.wants_to_send() {
                    at = at.min(self.pace_at);
                }
                at
            }
        }
    }

    /// Whether the flow has a packet to send now.
    #[inline]
    pub(crate) fn has_work(&self, now: Instant) -> bool {
        match self.state {
            State::Free => false,
            State::Connecting | State::Accepting => self.control_due,
            State::Lingering => self.rx.ack_now,
            State::Open => {
                self.control_due
                    || self.rx.ack_now
                    || self.repeat_due.is_some()
                    || self.mtu.has_rest()
                    || (self.tx.wants_to_send() && self.window_is_open(now))
            }
        }
    }

    /// Stays for a while longer to answer repeats: as long as a few of them take, and as long as the peer may wait whose last
    /// measure is from when the path was slower.
    pub(crate) fn linger(&mut self, now: Instant, at_least: Duration) {
        self.give_up_at = now + self.lingers_for(at_least);
    }

    pub(crate) fn lingers_for(&self, at_least: Duration) -> Duration {
        at_least.max(self.rtt.timeout().saturating_mul(4)).max(self.rtt.slowest().saturating_mul(4))
    }

    /// The peer has ended its half and has every message of ours; at most our own end is not acknowledged.
    pub(crate) fn is_done_but_for_fin(&self) -> bool {
        self.rx.is_finished() && self.closing && self.tx.has_only_fin()
    }

    /// Both halves have ended and all is acknowledged.
    pub(crate) fn is_over(&self) -> bool {
        // The FIN alone may have been acknowledged, selectively, while something before it is missing.
        self.tx.fin == Fin::Acked && self.tx.outstanding() == 0 && self.rx.is_finished()
    }
}
