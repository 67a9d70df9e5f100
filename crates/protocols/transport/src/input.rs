//! Packets in.

use crate::config::LATER_LEAVES;
use crate::endpoint::{Endpoint, pieces_row, row};
use crate::event::{CloseReason, Event};
use crate::flow::{Repeat, State};
use crate::handshake::echoed_rtt;
use crate::ids;
use crate::memory::{Memory, Turn};
use crate::receiver::{Arrival, FlowTraits};
use crate::security::guard::Shield;
use crate::sender::{AckTime, before, stamp_of, units};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::Frame;
use barewire_host::{Datagram, Endpoint as HostEndpoint, Host, Verdict};
use barewire_wire::msg::{self, Header, Kind, flag};

/// Silence after which stamps say nothing any more: half of their circle is 34 s.
const STAMPS_GOOD: Duration = Duration::from_secs(16);
/// First and longest pause after the peer's application had no room.
const NOT_READY_FIRST: Duration = Duration::from_millis(1);
const NOT_READY_SHIFT_MAX: u32 = 5;
/// The codepoint Congestion Experienced (RFC 3168).
const ECN_CE: u8 = 3;

impl<M: Memory> Endpoint<M> {
    /// The slot of a connection id of ours.
    #[inline]
    pub(crate) fn find(&self, cid: u64) -> Option<u32> {
        let slot = ids::slot_of(cid);
        let f = self.flows.get(slot as usize)?;
        (f.local_cid == cid && f.state != State::Free).then_some(slot)
    }

    fn receive_packet(&mut self, now: Instant, datagram: &Datagram, packet: &mut [u8]) -> Verdict {
        let header = match Header::parse(packet) {
            Ok(header) => header,
            Err(e) => return Verdict::Drop(e.into()),
        };
        if header.kind.opened().is_some() {
            return self.receive_sealed(now, datagram, header, packet);
        }
        if msg::crc(packet) != Some(crate::crc::of(&packet[4..])) {
            return Verdict::Drop(DropReason::BadCrc);
        }
        self.counters.packets_rx.add(1);
        let (local, remote) = (datagram.dst, datagram.src);
        match header.kind {
            Kind::Init => return self.on_init(now, remote, local, &header, packet),
            Kind::Reset => return self.on_reset(now, remote, local, &header, packet),
            _ => {}
        }
        let Some(slot) = self.find(header.dst_cid) else {
            if let Some(at) = self.remnants.find(header.dst_cid) {
                return self.on_remnant(now, at, (local, remote), &header, packet);
            }
            if header.dst_cid != 0 && matches!(header.kind, Kind::Data | Kind::Ack | Kind::Accept) {
                self.answer_unknown(now, local, remote, header.dst_cid);
            }
            return Verdict::Drop(DropReason::UnknownFlow);
        };
        let f = &mut self.flows[slot as usize];
        if f.remote != remote || f.local != local {
            return Verdict::Drop(DropReason::WrongPeer);
        }
        if f.shield != Shield::Plain {
            return self.on_clear(now, slot, &header, packet);
        }
        let silent = now.since(f.heard_at);
        f.heard_at = now;
        f.keepalives = 0;
        match header.kind {
            Kind::Accept => self.on_accept(now, slot, &header, packet),
            Kind::Retry => self.on_retry(now, slot, packet),
            Kind::Reject => self.on_reject(now, slot, packet),
            Kind::Confirm => Verdict::Drop(DropReason::BadState),
            _ => self.on_flow_packet(now, slot, &header, packet, datagram.ecn, silent),
        }
    }

    /// A packet in the clear on a flow that is encrypted or is to be: nothing but its handshake.
    fn on_clear(&mut self, now: Instant, slot: u32, header: &Header, packet: &[u8]) -> Verdict {
        match header.kind {
            Kind::Accept => self.on_accept(now, slot, header, packet),
            Kind::Retry => self.on_retry(now, slot, packet),
            Kind::Reject => self.on_reject(now, slot, packet),
            Kind::Confirm => self.on_confirm(now, slot, packet),
            _ => Verdict::Drop(DropReason::Downgrade),
        }
    }

    /// DATA or ACK of a known flow.
    pub(crate) fn on_flow_packet(
        &mut self,
        now: Instant,
        slot: u32,
        header: &Header,
        packet: &[u8],
        ecn: u8,
        silent: Duration,
    ) -> Verdict {
        match self.flows[slot as usize].state {
            State::Connecting | State::Free => return Verdict::Drop(DropReason::BadState),
            State::Accepting => self.confirm(now, slot),
            State::Open | State::Lingering => {}
        }
        if ecn == ECN_CE {
            self.flows[slot as usize].rx.ce = true;
            self.counters.ecn_marks_rx.add(1);
        }
        let f = &mut self.flows[slot as usize];
        // Copies and latecomers, however old, must not be taken for slow round trips.
        let newer = before(f.rx.heard_stamp, header.stamp) || silent > STAMPS_GOOD;
        let no_older = newer || f.rx.heard_stamp == header.stamp;
        if newer {
            f.rx.heard_stamp = header.stamp;
        }
        let mut verdict = self.on_ack(now, slot, header, packet, newer);
        let f = &mut self.flows[slot as usize];
        f.rx.ack_now |= header.flags & flag::ACK_NOW != 0;
        let mut echo = newer && header.flags & flag::ACK_NOW != 0;
        if header.kind == Kind::Data {
            let data = self.on_data(now, slot, header, packet);
            match data {
                Verdict::Consumed => echo = no_older,
                Verdict::Drop(_) => verdict = data,
            }
        } else {
            self.counters.acks_rx.add(1);
            if header.flags & flag::ACK_NOW != 0 && newer {
                self.flows[slot as usize].peer_asks(now, &self.config);
            }
        }
        let f = &mut self.flows[slot as usize];
        if echo {
            f.rx.echo = header.stamp;
            f.rx.echo_at = now;
            f.rx.has_echo = true;
        }
        if f.mtu.has_news() {
            f.tell_path(&mut self.narrow_paths);
        }
        self.after_progress(slot, now);
        self.touch(slot, now);
        verdict
    }

    fn on_ack(&mut self, now: Instant, slot: u32, header: &Header, packet: &[u8], newer: bool) -> Verdict {
        let config = &self.config;
        let f = &mut self.flows[slot as usize];
        let in_flight_before = f.tx.in_flight;
        let (flow, owner) = (f.id, f.owner);
        let (events, counters, undrained) = (&mut self.events, &self.counters, &mut self.sent_undrained);
        let mut done = |m: crate::sender::OutMessage| {
            *undrained += 1;
            counters.messages_sent.add(1);
            counters.bytes_sent.add(u64::from(m.buf.len));
            events.push_back(Event::Sent { flow, owner, buf: m.buf, token: m.token, delivered: true });
        };
        let at = AckTime { now: stamp_of(now), floor: units(f.rtt.floor()), echo: header.echo };
        let segs = row(&mut self.segs, slot);
        let outcome = if header.kind == Kind::Ack {
            f.tx.on_ack(segs, &mut self.out, header.ack, msg::sack_ranges(packet), at, &mut done)
        } else {
            f.tx.on_ack(segs, &mut self.out, header.ack, std::iter::empty(), at, &mut done)
        };
        if outcome.bogus {
            return Verdict::Drop(DropReason::BadAck);
        }
        if before(f.tx.credit_limit, header.credit) {
            f.tx.credit_limit = header.credit;
            f.credit_probes = 0;
        }
        let alone = outcome.echoed_len > f.mss / 2 && f.tx.alone == Some(header.echo);
        // Where the echo is missing or cannot be, what is acknowledged tells: who echoes nothing is measured all the same.
        let own = outcome.latest.map(|sent| f.rtt.is_heard(now, sent));
        let echoed = if newer || outcome.acked > 0 { echoed_rtt(now, header) } else { None };
        let echoed = echoed.filter(|_| f.rtt.may_echo(now, header.echo));
        if echoed.is_some() {
            f.rtt.is_told(header.echo);
        }
        let rtt = echoed.or(own);
        if let Some(rtt) = rtt {
            f.rtt.sample(now, rtt, alone && echoed.is_some());
        }
        if outcome.acked > 0 || rtt.is_some() {
            f.path_is_proven(now);
        }
        if outcome.acked > 0 {
            f.mtu.arrived(outcome.longest);
            if outcome.probe_arrived {
                self.counters.count_mtu(f.mtu.probe_arrived(now, config.mtu_raise));
            }
            if let Some(rtt) = rtt {
                let limited = in_flight_before as f32 * 2.0 >= f.cc.window();
                let base = f.rtt.base(config.congestion.target_queue.saturating_mul(2));
                f.cc.on_ack(&config.congestion, now, outcome.acked, rtt, base, limited);
            }
            f.timeouts = 0;
            f.probed = false;
            f.repeat_due = None;
            f.restart_retry(now, config);
        }
        if header.flags & flag::NOT_READY != 0 && f.tx.outstanding() > 0 {
            self.counters.not_ready_rx.add(1);
            if now >= f.not_ready_until {
                let pause = NOT_READY_FIRST.as_nanos() << f.not_ready_count.min(NOT_READY_SHIFT_MAX);
                f.not_ready_until = now + Duration::from_nanos(pause);
                f.not_ready_count += 1;
            }
            // It answers, so nothing is lost that an earlier repeat would bring, and it is not dead.
            (f.timeouts, f.probed, f.excused, f.repeat_due) = (0, false, true, None);
            f.retry_at = f.not_ready_until;
            if outcome.acked_resent {
                // What was repeated found room, and the next one may: a message that has its memory is soon whole, however
                // little room there is for others.
                f.not_ready_count = 1;
                f.repeat_due = Some(Repeat::First);
            }
        } else if f.not_ready_count > 0 {
            (f.not_ready_until, f.not_ready_count, f.excused) = (Instant::ZERO, 0, false);
            f.tx.give_up_older(segs, now, at.floor);
            if std::mem::take(&mut f.tx.probe_gone) {
                f.mtu.probe_refused(now, f.rtt.smoothed());
            }
            f.restart_retry(now, config);
        }
        if header.flags & flag::CE != 0 {
            f.cc.on_loss(&config.congestion, now, f.rtt.smoothed());
        }
        if outcome.acked_resent || f.tx.has_holes() {
            let lost = f.tx.detect_lost(segs, now, f.rtt.floor());
            self.counters.segments_lost.add(u64::from(lost.count));
            if lost.count > 0 && f.not_ready_count == 0 {
                f.cc.on_loss(&config.congestion, now, f.rtt.smoothed());
                self.counters.count_mtu(f.mtu.missed(now, lost.longest, f.rtt.smoothed()));
            }
        }
        Verdict::Consumed
    }

    fn on_data(&mut self, now: Instant, slot: u32, header: &Header, packet: &[u8]) -> Verdict {
        let Ok((data, payload)) = msg::Data::parse(packet) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        let f = &mut self.flows[slot as usize];
        let (flow, owner) = (f.id, f.owner);
        let traits = FlowTraits {
            mss: f.mss,
            ordered: f.ordered,
            owner,
            now,
            app_holds: f.held > 0,
            leaves_room: self.idlers.has(now, owner, f.remote),
        };
        let (events, counters) = (&mut self.events, &self.counters);
        let (count, max) = (&mut self.recv_messages, self.config.recv_messages_max);
        let before_place = *count;
        let next_before = f.rx.next;
        let mut delivered = 0;
        let result = f.rx.on_segment(
            row(&mut self.msgs, slot),
            &mut self.memory,
            &mut |turn| {
                *count += 1;
                let left = if matches!(turn, Turn::Later { .. }) { (max / LATER_LEAVES).max(1) } else { 0 };
                *count + left <= max
            },
            traits,
            Arrival {
                seq: header.seq,
                fin: header.flags & flag::FIN != 0,
                pieces: f.pieces.then(|| pieces_row(&mut self.pieces, slot)),
                is_piece: header.flags & flag::PIECE != 0,
                data,
                payload,
            },
            &mut |buf| {
                counters.messages_received.add(1);
                counters.bytes_received.add(u64::from(buf.len));
                events.push_back(Event::Received { flow, owner, buf });
                delivered += 1;
            },
        );
        if header.flags & flag::PIECE != 0 {
            self.counters.pieces_rx.add(1);
        }
        f.held += delivered;
        if f.rx.ended_unfinished() {
            self.counters.peer_faults.add(1);
            self.queue_reset(slot, CloseReason::Reset);
            self.end(slot, now, CloseReason::PeerFault);
            return Verdict::Drop(DropReason::Malformed);
        }
        match result {
            Ok(()) => {
                f.used_at = now;
                if f.stall_at == Instant::FAR_FUTURE && f.rx.kept() > 0 {
                    f.stall_at = now + self.config.stall_timeout;
                }
                if f.rx.next != next_before {
                    // A peer that sends new segments has our acknowledgements: without them it repeats the old.
                    f.path_is_proven(now);
                }
                if f.rx.unacked >= self.config.ack_every {
                    f.rx.ack_now = true;
                } else if f.rx.ack_at == Instant::FAR_FUTURE {
                    f.rx.ack_at = now + self.config.ack_delay;
                }
                Verdict::Consumed
            }
            Err(reason) => {
                // Room that was asked for and not used.
                *count = before_place;
                if reason == DropReason::Duplicate && header.flags & flag::ACK_NOW != 0 {
                    f.peer_repeats(now, self.config.gentle_period);
                }
                if reason == DropReason::NoCredit && f.rx.is_in_need {
                    self.press(now, owner);
                }
                if reason == DropReason::TooLarge {
                    self.queue_reset(slot, CloseReason::MessageTooLarge);
                    self.end(slot, now, CloseReason::MessageTooLarge);
                }
                Verdict::Drop(reason)
            }
        }
    }
}

impl<M: Memory> HostEndpoint for Endpoint<M> {
    type Event = Event;

    fn handle_datagram(&mut self, now: Instant, datagram: &Datagram, payload: &mut [u8]) -> Verdict {
        let verdict = self.receive_packet(now, datagram, payload);
        if let Verdict::Drop(reason) = verdict {
            self.counters.drops.count(reason);
        }
        verdict
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.run_timers(now);
    }

    /// On the first leg: see [`Endpoint::poll_transmit_on`].
    fn poll_transmit(&mut self, now: Instant, host: &mut Host, frame: &mut Frame) -> bool {
        self.poll_transmit_on(now, 0, host, frame)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_timeout(0)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if let Some(Event::Sent { .. }) = event {
            self.sent_undrained -= 1;
        }
        event
    }
}
