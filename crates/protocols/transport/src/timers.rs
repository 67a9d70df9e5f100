//! The endpoint's timers, flow by flow: retransmission time-outs, delayed ACKs, keep-alives.

use crate::config::{STALL_PATIENCE, STALL_RATE};
use crate::endpoint::{Endpoint, row};
use crate::event::{CloseReason, ConnectFailure};
use crate::flow::{Repeat, State};
use crate::memory::Memory;
use crate::path::PathSign;
use crate::peers;
use crate::sender::Fin;
use barewire_base::{Duration, Instant};

/// Timers that have not run for so long may have stood still, with the thread or the machine.
const STOOD_STILL: Duration = Duration::from_millis(100);
/// Then no flow dies of silence for so long: its answer may have come in at another engine, which stood still as well.
const OTHERS_CATCH_UP: Duration = Duration::from_millis(20);

impl<M: Memory> Endpoint<M> {
    pub(crate) fn run_timers(&mut self, now: Instant) {
        if now.since(self.ran_at) >= STOOD_STILL {
            self.spares_until = now + OTHERS_CATCH_UP;
        }
        self.ran_at = now;
        if !self.timers.is_due(now) {
            return;
        }
        while let Some(id) = self.timers.pop_due(now) {
            match id < self.config.flows_max {
                true => self.on_timer(id, now),
                false => self.on_remnant_timer(id, now),
            }
        }
    }

    fn on_timer(&mut self, slot: u32, now: Instant) {
        let f = &mut self.flows[slot as usize];
        if now >= f.route_retry_at {
            f.route_retry_at = Instant::FAR_FUTURE;
        }
        match f.state {
            State::Free => return,
            State::Connecting | State::Accepting => {
                if now >= f.give_up_at && now < self.spares_until {
                    f.give_up_at = self.spares_until;
                } else if now >= f.give_up_at {
                    if f.state == State::Connecting {
                        let reason = f.refused.unwrap_or(ConnectFailure::TimedOut);
                        self.fail_connect(slot, now, reason);
                    } else {
                        self.end(slot, now, CloseReason::TimedOut);
                    }
                    return;
                }
                if now >= f.handshake_at {
                    f.control_due = true;
                    // Intervals double, as each equals the time since the first attempt. A client goes on asking; a server
                    // answers each time, and is heard less and less by who did not ask.
                    let since = now.since(f.used_at).max(self.config.timeout_initial);
                    if since >= self.config.gentle_period && f.template.is_some() {
                        f.path = PathSign::Silent;
                    }
                    let asks = f.state == State::Connecting;
                    f.handshake_at =
                        now + if asks { since.min(self.config.timeout_max.div(2)) } else { since };
                }
            }
            State::Lingering => {
                if now >= f.give_up_at {
                    self.retire(slot);
                    return;
                }
                if now >= f.rx.ack_at {
                    f.rx.ack_now = true;
                    f.rx.ack_at = Instant::FAR_FUTURE;
                }
            }
            State::Open => {
                if !self.on_open_timer(slot, now) {
                    return;
                }
            }
        }
        self.touch(slot, now);
    }

    /// False when the flow is gone.
    fn on_open_timer(&mut self, slot: u32, now: Instant) -> bool {
        let config = &self.config;
        let f = &mut self.flows[slot as usize];
        if now >= f.rx.ack_at {
            f.rx.ack_now = true;
            f.rx.ack_at = Instant::FAR_FUTURE;
        }
        if now >= f.tx.reorder_at {
            let floor = f.rtt.floor();
            let lost = f.tx.detect_lost(row(&mut self.segs, slot), now, floor);
            self.counters.segments_lost.add(u64::from(lost.count));
            if lost.count > 0 && f.not_ready_count == 0 {
                f.cc.on_loss(&config.congestion, now, f.rtt.smoothed());
                self.counters.count_mtu(f.mtu.missed(now, lost.longest, f.rtt.smoothed()));
            }
        }
        if now >= f.retry_at && !self.on_retry_timer(slot, now) {
            return false;
        }
        if now >= self.flows[slot as usize].stall_at && !self.check_stall(slot, now) {
            return false;
        }
        let f = &mut self.flows[slot as usize];
        if now >= f.credit_probe_at {
            f.credit_probe_at = Instant::FAR_FUTURE;
            f.credit_probes += 1;
            f.control_due = true;
        }
        if now >= f.keepalive_at && !self.on_keepalive_timer(slot, now) {
            return false;
        }
        now < self.flows[slot as usize].give_up_at || self.on_give_up_timer(slot, now)
    }

    /// What is outstanding was not acknowledged in time: it is probed for once, then repeated, ever more slowly. False when the flow is gone.
    fn on_retry_timer(&mut self, slot: u32, now: Instant) -> bool {
        let config = &self.config;
        let f = &mut self.flows[slot as usize];
        if f.tx.outstanding() == 0 {
            f.retry_at = Instant::FAR_FUTURE;
        } else if std::mem::take(&mut f.excused) {
            f.repeat_due = Some(Repeat::First);
            f.retry_at = now + f.timeout(now, config);
        } else if !f.probed && f.timeouts == 0 {
            f.probed = true;
            f.repeat_due = Some(Repeat::Last);
            self.counters.probes.add(1);
            f.retry_at = now + f.timeout(now, config);
        } else {
            if f.timeouts == 0 {
                f.first_timeout_at = now;
            }
            let dead_at = (f.first_timeout_at + config.dead_after).max(self.spares_until);
            if now >= dead_at {
                // Perhaps only one direction is dead.
                self.queue_reset(slot, CloseReason::Reset);
                self.end(slot, now, CloseReason::TimedOut);
                return false;
            }
            f.timeouts += 1;
            if now.since(f.first_timeout_at) >= config.gentle_period {
                f.path = PathSign::Silent;
            }
            self.counters.timeouts.add(1);
            f.repeat_due = Some(Repeat::First);
            f.cc.on_timeout(&config.congestion, now, f.rtt.smoothed(), f.timeouts);
            f.retry_at = (now + f.timeout(now, config)).min(dead_at);
        }
        true
    }

    /// Nothing was heard for a while, or the flow may have been idle for too long. False when the flow is gone.
    fn on_keepalive_timer(&mut self, slot: u32, now: Instant) -> bool {
        let f = &mut self.flows[slot as usize];
        if let Some(idle) = self.config.idle_timeout
            && now.since(f.used_at) >= idle
            && !f.closing
        {
            self.tell_closed(slot, CloseReason::Idle);
            self.begin_close(slot, now);
        }
        let config = &self.config;
        let f = &mut self.flows[slot as usize];
        let silent = now.since(f.heard_at);
        f.keepalive_at = if silent < config.keepalive {
            f.heard_at + config.keepalive
        } else if f.keepalives >= config.keepalive_probes && now < self.spares_until {
            self.spares_until
        } else if f.keepalives >= config.keepalive_probes {
            self.end(slot, now, CloseReason::TimedOut);
            return false;
        } else {
            if f.keepalives > 0 {
                f.path = PathSign::Silent;
            }
            f.keepalives += 1;
            f.control_due = true;
            self.counters.keepalives_tx.add(1);
            now + config.keepalive_interval
        };
        if let Some(idle) = config.idle_timeout
            && !f.closing
        {
            f.keepalive_at = f.keepalive_at.min(f.used_at + idle);
        }
        true
    }

    /// A closing flow whose own half is done and whose peer, alive, neither sends nor ends its half. While our half is not done, its own
    /// time-outs judge; while the application holds messages, the peer may have to wait. False when the flow is gone.
    fn on_give_up_timer(&mut self, slot: u32, now: Instant) -> bool {
        let f = &mut self.flows[slot as usize];
        let moves = now.since(f.used_at) < self.config.dead_after;
        if f.tx.fin != Fin::Acked || f.tx.outstanding() > 0 || f.held > 0 || moves {
            f.give_up_at = now + self.config.dead_after;
        } else if now < self.spares_until {
            f.give_up_at = self.spares_until;
        } else {
            self.queue_reset(slot, CloseReason::Reset);
            self.end(slot, now, CloseReason::TimedOut);
            return false;
        }
        true
    }

    /// Looks whether what is kept for messages that the application cannot have yet is worth it, where room is wanted. False when the flow is gone for it.
    #[cold]
    fn check_stall(&mut self, slot: u32, now: Instant) -> bool {
        let patience = self.config.stall_timeout;
        let f = &mut self.flows[slot as usize];
        let is_heard = std::mem::take(&mut f.rx.is_heard);
        let Some((since, bytes)) = f.rx.keeps_since() else {
            f.stall_at = Instant::FAR_FUTURE;
            return true;
        };
        let age = now.since(since);
        let is_slow = age >= patience.saturating_mul(STALL_PATIENCE)
            && bytes < STALL_RATE.saturating_mul(age.as_nanos() / 1_000_000_000);
        let stalls = age >= patience && !is_heard || is_slow;
        let wanted = self.pressed.get(&f.owner).is_some_and(|at| now.since(*at) < patience);
        if stalls && wanted {
            self.counters.flows_stalled.add(1);
            let (owner, host) = (f.owner, peers::key(f.remote.ip()));
            self.idlers.note(now, owner, host);
            self.queue_reset(slot, CloseReason::Stalled);
            self.end(slot, now, CloseReason::Stalled);
            return false;
        }
        f.stall_at = now + patience;
        true
    }

    /// The earliest time at which [`run_timers`](Self::run_timers) has something to do; now when there is work already.
    /// Legs whose bits are set in `blocked` can send nothing: what waits there is no work.
    pub(crate) fn next_timeout(&self, blocked: u16) -> Option<Instant> {
        if self.legs.have_work(blocked) {
            return Some(Instant::ZERO);
        }
        self.timers.next_deadline()
    }
}
