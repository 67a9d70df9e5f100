//! The sending half of a reliable connection: requests become packets, answers become completions.
//!
//! A request's sequence numbers are fixed when it is posted, so "where are we" is one number, `next_psn`, and going back is
//! setting it to an earlier one.

use crate::core::{Core, GRACE_LOOK, Grace, Owner};
use crate::endpoint::PACKETS_MAX;
use crate::psn;
use crate::qp::Qp;
use crate::rate::Limiter;
use crate::slab::NONE;
use crate::verbs::{QpState, SendOp, WcStatus};
use crate::{Event, QpFault, Qpn};
use barewire_base::{DropReason, Duration, Instant};
use barewire_wire::roce::ext::{self, AckKind, Aeth};
use barewire_wire::roce::{Opcode, Operation, Position, Segment, rnr_timer_ns, timeout_ns};

/// Most sequence numbers between the oldest without an answer and the newest, inside the half circle.
const SPAN_MAX: u32 = PACKETS_MAX + (1 << 21);
/// A wait for an acknowledgement lasts between the time-out and this many times as long (section 9.7.6.1.3).
const TIMEOUT_STRETCH: u64 = 4;

/// How long an acknowledgement is waited for when so many waits in a row were in vain. `None`: for ever.
fn wait(timeout: u8, in_vain: u8, patience: Duration) -> Option<Duration> {
    let time = timeout_ns(timeout)?;
    // The peer whose machine is busy for a while is not dead: each wait in a row is twice the one before, as far as that still is
    // the time-out that was asked for.
    let most = time.saturating_mul(TIMEOUT_STRETCH).max(patience.as_nanos());
    Some(Duration::from_nanos(time.saturating_mul(1 << in_vain.min(7)).min(most)))
}

/// How long a peer may be silent until a queue pair gives it up: all waits for an acknowledgement together, with this time-out code, so
/// many retries, and the [`Config`](crate::Config)'s patience. `None`: for ever.
pub fn silence_max(timeout: u8, retry_count: u8, patience: Duration) -> Option<Duration> {
    (0..=retry_count).try_fold(Duration::ZERO, |sum, in_vain| Some(sum + wait(timeout, in_vain, patience)?))
}

impl Qp {
    /// Packets that `len` bytes take; a message without bytes takes one.
    #[inline]
    pub(crate) fn packets(&self, len: u32) -> u32 {
        len.div_ceil(self.mtu.bytes()).max(1)
    }

    /// Whether the first request waits for nothing but its turn.
    #[inline]
    fn may_send(&self, core: &Core) -> bool {
        if self.sending == NONE {
            return false;
        }
        let send = &core.sends[self.sending];
        let span = self.next_psn.wrapping_sub(self.una_psn) & 0xff_ffff;
        let fresh = self.next_psn == send.first;
        let state = match self.state {
            QpState::Rts => true,
            // What has begun is finished, nothing begins.
            QpState::Sqd => !fresh || psn::ahead(self.top_psn, send.first) > 0,
            _ => false,
        };
        if !state || (fresh && send.fence && self.reads > 0) {
            return false;
        }
        if send.is_read() {
            self.reads < self.reads_max && span + send.count <= SPAN_MAX
        } else {
            span < core.config.window_packets + self.read_psns
        }
    }

    /// Whether a packet may leave now. Where only time is missing, the timer is armed.
    #[inline]
    fn is_due(&mut self, core: &mut Core, slot: u32, now: Instant) -> bool {
        if !self.may_send(core) {
            return false;
        }
        if now < self.wait_until {
            core.timers.arm(Owner::Qp(slot).id(), self.wait_until);
            return false;
        }
        !self.is_held(core, slot, now)
    }

    /// Writes the next request packet. Bytes of the frame; `None` when there is nothing to send now.
    pub(crate) fn request(
        &mut self,
        core: &mut Core,
        slot: u32,
        now: Instant,
        buf: &mut [u8],
    ) -> Option<usize> {
        if !self.is_due(core, slot, now) {
            return None;
        }
        let id = self.sending;
        let send = &core.sends[id];
        let mtu = self.mtu.bytes();
        let index = self.next_psn.wrapping_sub(send.first) & 0xff_ffff;
        let offset = index * mtu;
        let last = index + 1 == send.count;
        let at = core.paths[self.path].body_at();
        let mut head = self.head(Opcode::SEND_ONLY, self.next_psn, core.config.migrated);
        let mut advance = 1;
        let mut ext_len = 0;
        let mut payload = 0;
        match send.op {
            SendOp::Read { addr, rkey } => {
                // After a loss only what is missing is asked for.
                head.opcode = Opcode::READ_REQUEST;
                let addr = addr.wrapping_add(u64::from(offset));
                ext::Reth { addr, rkey, len: send.len - offset }.emit(&mut buf[at..]);
                ext_len = ext::Reth::LEN;
                advance = send.count - index;
            }
            SendOp::CompareSwap { addr, rkey, compare, swap } => {
                head.opcode = Opcode::COMPARE_SWAP;
                ext::Atomic { addr, rkey, swap_add: swap, compare }.emit(&mut buf[at..]);
                ext_len = ext::Atomic::LEN;
            }
            SendOp::FetchAdd { addr, rkey, add } => {
                head.opcode = Opcode::FETCH_ADD;
                ext::Atomic { addr, rkey, swap_add: add, compare: 0 }.emit(&mut buf[at..]);
                ext_len = ext::Atomic::LEN;
            }
            op => {
                head.opcode = opcode(op, index == 0, last);
                if index == 0
                    && let SendOp::Write { addr, rkey } | SendOp::WriteImm { addr, rkey, .. } = op
                {
                    ext::Reth { addr, rkey, len: send.len }.emit(&mut buf[at..]);
                    ext_len = ext::Reth::LEN;
                }
                if last
                    && let SendOp::SendImm(word)
                    | SendOp::SendInvalidate(word)
                    | SendOp::WriteImm { imm: word, .. } = op
                {
                    ext::emit_word(word, &mut buf[at + ext_len..]);
                    ext_len += 4;
                }
                payload = (send.len - offset).min(mtu) as usize;
                let out = &mut buf[at + ext_len..at + ext_len + payload];
                if send.gather(&core.regions, self.pd, offset, out).is_err() {
                    // What was sent before it is answered first: its completions come in order, and say what is true.
                    if self.sends.head == id {
                        self.fail(core, WcStatus::LocalProtection);
                    }
                    return None;
                }
                head.solicited = last && send.solicited;
            }
        }
        let again = psn::ahead(self.top_psn, self.next_psn) > 0;
        if send.is_read() {
            self.reads += 1;
            self.read_psns += send.count;
        }
        self.next_psn = psn::add(self.next_psn, advance);
        if psn::ahead(self.next_psn, self.top_psn) > 0 {
            self.top_psn = self.next_psn;
        }
        if last || advance > 1 || send.is_read() {
            self.sending = send.next;
        }
        let span = self.next_psn.wrapping_sub(self.una_psn) & 0xff_ffff;
        self.since_ack_request += 1;
        head.ack_request = last
            || self.since_ack_request >= core.config.ack_every
            || (self.limiter != NONE && self.is_slow(core))
            || span >= core.config.window_packets + self.read_psns;
        if head.ack_request {
            self.since_ack_request = 0;
        }
        core.counters.packets_resent.add(u64::from(again));
        self.last_frame = core.unsent.next;
        if self.lost_at == Instant::FAR_FUTURE {
            self.start_timer(core, slot, now);
        }
        let len = self.seal(core, buf, head, ext_len + payload);
        if self.limiter != NONE {
            self.pace(core, now, len);
        }
        Some(len)
    }

    /// The network is congested: send more slowly.
    pub(crate) fn congested(&mut self, core: &mut Core, now: Instant) {
        let link = core.config.link_rate_bps;
        if self.limiter == NONE {
            let Some(id) = core.limiters.take() else { return };
            core.limiters[id] = Limiter::new(link, now);
            self.limiter = id;
        }
        core.limiters[self.limiter].congested(now, link);
    }

    /// Counts a packet of data against the rate, where there is one.
    #[cold]
    pub(crate) fn pace(&mut self, core: &mut Core, now: Instant, len: usize) {
        if !core.limiters[self.limiter].sent(now, len, core.config.link_rate_bps) {
            self.unlimit(core);
        }
    }

    /// Whether data has to wait for its rate; the timer wakes it then.
    #[inline]
    pub(crate) fn is_held(&self, core: &mut Core, slot: u32, now: Instant) -> bool {
        if self.limiter == NONE {
            return false;
        }
        let at = core.limiters[self.limiter].next_at();
        if now < at {
            core.timers.arm(Owner::Qp(slot).id(), at);
        }
        now < at
    }

    /// Whether the packets between two acknowledgements take so long that the peer would seem silent.
    #[cold]
    fn is_slow(&self, core: &Core) -> bool {
        let time = core.limiters[self.limiter].gap().saturating_mul(u64::from(core.config.ack_every));
        timeout_ns(self.timeout).is_some_and(|limit| time.as_nanos() > limit / 4)
    }

    pub(crate) fn unlimit(&mut self, core: &mut Core) {
        if self.limiter != NONE {
            core.limiters.give(self.limiter);
            self.limiter = NONE;
        }
    }

    fn start_timer(&mut self, core: &mut Core, slot: u32, now: Instant) {
        self.grace.is_on = false;
        let in_vain = self.retry_count.saturating_sub(self.retries);
        let Some(wait) = wait(self.timeout, in_vain, core.config.patience) else { return };
        // What waits for the end of a pause has not been sent yet.
        self.lost_at = now.max(self.wait_until) + wait;
        core.timers.arm(Owner::Qp(slot).id(), self.lost_at);
    }

    /// The oldest request ends with an error, and the queue pair with it.
    pub(crate) fn fail(&mut self, core: &mut Core, status: WcStatus) {
        // Requests before the one being sent may still be answered or not: nobody will know, so they are flushed after it.
        self.die(core, Some(QpFault::Send), status);
    }

    /// Sends again from `to` on, which is not before the oldest without an answer.
    fn go_back(&mut self, core: &mut Core, to: u32) {
        self.next_psn = to;
        (self.reads, self.read_psns) = (0, 0);
        let mut id = self.sends.head;
        while id != NONE {
            let send = &core.sends[id];
            if psn::ahead(psn::add(send.first, send.count), to) > 0 {
                break;
            }
            if send.is_read() {
                self.reads += 1;
                self.read_psns += send.count;
            }
            id = send.next;
        }
        self.sending = id;
    }

    /// Something was lost before what has just been heard of.
    fn implied_nak(&mut self, core: &mut Core, slot: u32) {
        // It may have died of what it has just been told.
        if self.went_back || self.state == QpState::Err {
            return;
        }
        core.counters.implied_naks.add(1);
        self.went_back = true;
        self.go_back(core, self.una_psn);
        self.wake(core, slot);
    }

    /// Ends all requests up to and with the sequence number `to`. False when an unanswered read or atomic stands before
    /// it: then its answer was lost.
    fn acknowledge(&mut self, core: &mut Core, slot: u32, to: u32, now: Instant) -> bool {
        let before = self.una_psn;
        let mut whole = true;
        while self.sends.head != NONE {
            let id = self.sends.head;
            let send = &core.sends[id];
            if psn::ahead(to, send.first) < 0 {
                break;
            }
            if send.is_read() {
                whole = false;
                break;
            }
            let last = psn::add(send.first, send.count - 1);
            if psn::ahead(to, last) < 0 {
                self.una_psn = psn::add(to, 1);
                break;
            }
            self.una_psn = psn::add(last, 1);
            self.finish_head(core);
        }
        if self.una_psn != before {
            self.progress(core, slot, now);
        }
        whole
    }

    /// The oldest request is done.
    fn finish_head(&mut self, core: &mut Core) {
        let Some(id) = self.sends.pop(&mut core.sends) else { return };
        if self.sending == id {
            self.sending = self.sends.head;
        }
        if core.sends[id].is_read() {
            // When it was to be sent again and its late answer came first, it is not counted.
            if self.reads > 0 && psn::ahead(self.next_psn, core.sends[id].first) > 0 {
                self.reads -= 1;
                self.read_psns -= core.sends[id].count;
            }
        }
        let told = self.complete_send(core, id, WcStatus::Success);
        core.sends.give(id);
        if !told {
            self.die_of_cq(core);
            return;
        }
        if self.state == QpState::Sqd && self.is_drained(core) {
            core.tell(Event::Drained(Qpn(self.qpn)));
        }
    }

    /// Whether nothing that has begun is unanswered.
    pub(crate) fn is_drained(&self, core: &Core) -> bool {
        let id = self.sends.head;
        id == NONE || psn::ahead(self.top_psn, core.sends[id].first) <= 0
    }

    /// The oldest unanswered packet is another one now.
    fn progress(&mut self, core: &mut Core, slot: u32, now: Instant) {
        self.retries = self.retry_count;
        self.rnr_retries = self.rnr_retry_count;
        self.went_back = false;
        self.grace = Grace::default();
        if psn::ahead(self.una_psn, self.next_psn) > 0 {
            // Answered before it was sent again.
            self.go_back(core, self.una_psn);
        }
        self.lost_at = Instant::FAR_FUTURE;
        if self.una_psn != self.next_psn {
            self.start_timer(core, slot, now);
        }
        if self.sending != NONE {
            self.wake(core, slot);
        }
    }

    /// An answer of the peer.
    pub(crate) fn response(
        &mut self,
        core: &mut Core,
        slot: u32,
        now: Instant,
        segment: &Segment<'_>,
    ) -> Result<(), DropReason> {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return Err(DropReason::BadState);
        }
        let at = segment.bth.psn;
        if psn::ahead(at, self.top_psn) >= 0 {
            return Err(DropReason::BadAck);
        }
        let aeth = segment.aeth();
        let kind = aeth.map(|a: Aeth| a.syndrome.kind());
        match segment.shape.operation {
            Operation::Ack => match kind {
                Some(AckKind::Ack { .. }) => {
                    if psn::ahead(at, self.una_psn) < 0 {
                        return Err(DropReason::Duplicate);
                    }
                    if !self.acknowledge(core, slot, at, now) {
                        self.implied_nak(core, slot);
                    }
                    Ok(())
                }
                Some(kind) => self.negative(core, slot, now, at, kind),
                None => Err(DropReason::Malformed),
            },
            Operation::ReadResponse | Operation::AtomicAck => {
                if psn::ahead(at, self.una_psn) < 0 {
                    return Err(DropReason::Duplicate);
                }
                self.acknowledge(core, slot, psn::add(at, 0xff_ffff), now);
                if at != self.una_psn {
                    // An answer before this one was lost.
                    self.implied_nak(core, slot);
                    return Err(DropReason::OutOfWindow);
                }
                self.data(core, slot, now, segment)
            }
            _ => Err(DropReason::Malformed),
        }
    }

    fn negative(
        &mut self,
        core: &mut Core,
        slot: u32,
        now: Instant,
        at: u32,
        kind: AckKind,
    ) -> Result<(), DropReason> {
        if psn::ahead(at, self.una_psn) < 0 {
            return Err(DropReason::Duplicate);
        }
        // It answers all that came before it.
        if !self.acknowledge(core, slot, psn::add(at, 0xff_ffff), now) && at != self.una_psn {
            self.implied_nak(core, slot);
            return Ok(());
        }
        if self.state == QpState::Err {
            return Ok(());
        }
        match kind {
            AckKind::SequenceError => {
                core.counters.nak_sequence_received.add(1);
                if at == self.una_psn && at == self.next_psn {
                    // All from there on will be sent again as it is. (Linux's receivers that are not ready say so, and then
                    // refuse what comes behind, too: the pause stands, and none of it is a loss.)
                    return Ok(());
                }
                if self.retries == 0 {
                    self.fail(core, WcStatus::RetryExceeded);
                    return Ok(());
                }
                self.retries -= 1;
                self.go_back(core, at);
                self.start_timer(core, slot, now);
            }
            AckKind::ReceiverNotReady { timer } => {
                core.counters.rnr_received.add(1);
                if self.rnr_retry_count != 7 {
                    if self.rnr_retries == 0 {
                        self.fail(core, WcStatus::RnrRetryExceeded);
                        return Ok(());
                    }
                    self.rnr_retries -= 1;
                }
                self.go_back(core, at);
                // The peer is there: its silence during the pause is no loss.
                self.lost_at = Instant::FAR_FUTURE;
                self.wait_until = now + Duration::from_nanos(rnr_timer_ns(timer));
                core.timers.arm(Owner::Qp(slot).id(), self.wait_until);
            }
            AckKind::InvalidRequest => self.fail(core, WcStatus::RemoteInvalidRequest),
            AckKind::RemoteAccess => self.fail(core, WcStatus::RemoteAccess),
            AckKind::RemoteOperation => self.fail(core, WcStatus::RemoteOperation),
            _ => return Err(DropReason::Malformed),
        }
        self.wake(core, slot);
        Ok(())
    }

    /// Data for the oldest request, which must be the read or atomic that it answers.
    fn data(
        &mut self,
        core: &mut Core,
        slot: u32,
        now: Instant,
        segment: &Segment<'_>,
    ) -> Result<(), DropReason> {
        let id = self.sends.head;
        let Some(send) = core.sends.get(id).filter(|s| s.is_read()) else {
            return Err(DropReason::Malformed);
        };
        let at = segment.bth.psn;
        let index = at.wrapping_sub(send.first) & 0xff_ffff;
        let last = index + 1 == send.count;
        let mtu = self.mtu.bytes();
        let value = segment.atomic_ack().map(u64::to_ne_bytes);
        let (bytes, offset, fits) = match &value {
            Some(value) => (&value[..], 0, send.is_atomic()),
            None => {
                let offset = index * mtu;
                let want = (send.len - offset.min(send.len)).min(mtu) as usize;
                let place = matches!(segment.shape.position, Position::Last | Position::Only) == last;
                (segment.payload, offset, !send.is_atomic() && segment.payload.len() == want && place)
            }
        };
        if !fits {
            self.fail(core, WcStatus::BadResponse);
            return Err(DropReason::Malformed);
        }
        if send.scatter(&core.regions, self.pd, offset, bytes).is_err() {
            self.fail(core, WcStatus::LocalProtection);
            return Ok(());
        }
        self.una_psn = psn::add(at, 1);
        if last {
            self.finish_head(core);
        }
        self.progress(core, slot, now);
        Ok(())
    }

    /// The wait for an answer is over: whether that means nothing yet, since the last packet waits for room in the port, or has just
    /// left. Only its own packets count: those of others may wait for ever.
    fn put_off(&mut self, core: &mut Core, slot: u32, now: Instant) -> bool {
        if core.unsent.has(self.last_frame) {
            let again = self.grace.put_off(self.lost_at, now, GRACE_LOOK);
            self.lost_at = again.unwrap_or(self.lost_at);
            again.is_some()
        } else if self.grace.is_on {
            self.start_timer(core, slot, now);
            true
        } else {
            false
        }
    }

    /// The timer fired.
    pub(crate) fn timeout(&mut self, core: &mut Core, slot: u32, now: Instant) {
        if self.lost_at <= now && !self.put_off(core, slot, now) {
            self.lost_at = Instant::FAR_FUTURE;
            core.counters.timeouts.add(1);
            if self.retries == 0 {
                self.fail(core, WcStatus::RetryExceeded);
                return;
            }
            self.retries -= 1;
            self.went_back = false;
            self.go_back(core, self.una_psn);
            self.start_timer(core, slot, now);
            self.wake(core, slot);
        }
        if self.wait_until > now {
            core.timers.arm(Owner::Qp(slot).id(), self.wait_until);
        } else if self.sending != NONE || self.answering > 0 {
            self.wake(core, slot);
        }
        if self.lost_at != Instant::FAR_FUTURE {
            core.timers.arm(Owner::Qp(slot).id(), self.lost_at);
        }
    }
}

/// The opcode of a packet of a send or write.
fn opcode(op: SendOp, first: bool, last: bool) -> Opcode {
    let table = match op {
        SendOp::Send => [Opcode::SEND_MIDDLE, Opcode::SEND_FIRST, Opcode::SEND_LAST, Opcode::SEND_ONLY],
        SendOp::SendImm(_) => {
            [Opcode::SEND_MIDDLE, Opcode::SEND_FIRST, Opcode::SEND_LAST_IMM, Opcode::SEND_ONLY_IMM]
        }
        SendOp::SendInvalidate(_) => [
            Opcode::SEND_MIDDLE,
            Opcode::SEND_FIRST,
            Opcode::SEND_LAST_INVALIDATE,
            Opcode::SEND_ONLY_INVALIDATE,
        ],
        SendOp::WriteImm { .. } => {
            [Opcode::WRITE_MIDDLE, Opcode::WRITE_FIRST, Opcode::WRITE_LAST_IMM, Opcode::WRITE_ONLY_IMM]
        }
        _ => [Opcode::WRITE_MIDDLE, Opcode::WRITE_FIRST, Opcode::WRITE_LAST, Opcode::WRITE_ONLY],
    };
    table[usize::from(first) | usize::from(last) << 1]
}
