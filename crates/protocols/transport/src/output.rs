//! Packets out.

use crate::counters::Counters;
use crate::endpoint::{Endpoint, row};
use crate::event::ConnectFailure;
use crate::flow::{Flow, Repeat, State};
use crate::memory::Memory;
use crate::mtu::Part;
use crate::security::guard::{Guard, Shield};
use crate::sender::{self, Segment, stamp_of, units};
use barewire_base::{Duration, Instant};
use barewire_frame::Frame;
use barewire_host::{Host, Route, Template};
use barewire_wire::msg::{self, DATA_HEADER_LEN, Header, Kind, TAG_LEN, flag, option, secure};

/// Wait before a route is asked for again while the host resolves it, in case its answer was missed.
const ROUTE_RETRY: Duration = Duration::from_millis(20);
/// The codepoint ECT(0) (RFC 3168).
const ECN_CAPABLE: u8 = 2;

/// What became of a flow's turn.
enum Turn {
    /// The frame is filled.
    Sent,
    /// Nothing to send now.
    Nothing,
    /// The flow is gone.
    Gone,
}

/// Makes the frame as long as the template's headers and `len` bytes.
fn lengthen(frame: &mut Frame, template: &Template, len: usize) -> bool {
    frame.set_len(template.header_len() + len)
}

/// CRC, then the outer headers.
#[inline]
fn seal(frame: &mut Frame, template: &Template, ecn: u8) {
    let data = frame.data_mut();
    let packet = &mut data[template.header_len()..];
    let crc = crate::crc::of(&packet[4..]);
    msg::set_crc(packet, crc);
    template.seal(data, ecn);
}

/// The packet's authentication instead of a CRC, then the outer headers.
#[inline]
fn seal_with(frame: &mut Frame, template: &Template, ecn: u8, guard: &mut Guard, counters: &Counters) {
    let data = frame.data_mut();
    if guard.tx.seal(&mut data[template.header_len()..]) {
        counters.key_updates.add(1);
    }
    template.seal(data, ecn);
}

impl<M: Memory> Endpoint<M> {
    /// Writes the next frame of this leg into `frame`, which arrives empty; `host` is the leg's. False: nothing to send there now.
    #[inline]
    pub fn poll_transmit_on(&mut self, now: Instant, leg: u8, host: &mut Host, frame: &mut Frame) -> bool {
        loop {
            let waiting = self.legs.get_mut(leg);
            let Some(stray) = waiting.strays.pop() else {
                let Some(slot) = waiting.active.pop_front() else { return false };
                let f = &mut self.flows[slot as usize];
                f.listed &= !(1 << leg);
                if f.leg != leg {
                    // The flow that it was listed for is gone, and another has its place.
                    continue;
                }
                match self.take_turn(slot, now, host, frame) {
                    Turn::Sent => {
                        self.counters.packets_tx.add(1);
                        self.touch(slot, now);
                        self.settle(slot, now);
                        return true;
                    }
                    Turn::Nothing => {
                        let deadline = self.flows[slot as usize].deadline(now);
                        self.arm(slot, deadline);
                    }
                    Turn::Gone => {}
                }
                continue;
            };
            let template = match host.route_for_stranger(now, stray.local, stray.remote) {
                Route::Ready(template) => Some(template),
                Route::Pending | Route::Unreachable => stray.template,
            };
            let Some(template) = template else {
                // Whoever it answers will ask again; by then the address may be known.
                continue;
            };
            if lengthen(frame, &template, stray.len) {
                frame.data_mut()[template.header_len()..].copy_from_slice(&stray.bytes[..stray.len]);
                template.seal(frame.data_mut(), 0);
                self.counters.packets_tx.add(1);
                return true;
            }
        }
    }

    /// Makes sure that the flow has headers towards its peer.
    #[inline]
    fn ensure_route(&mut self, slot: u32, now: Instant, host: &mut Host) -> Option<Turn> {
        let f = &mut self.flows[slot as usize];
        if f.template.as_ref().is_some_and(|t| t.generation() == host.generation()) {
            return None;
        }
        match host.route(now, f.local, f.remote) {
            Route::Ready(template) => {
                f.template = Some(template);
                None
            }
            // With an old template the old path is still the best guess: its neighbour may be busy, or forgotten for want of
            // room. The flow's own patience judges.
            Route::Pending | Route::Unreachable if f.template.is_some() => None,
            Route::Unreachable if f.state == State::Connecting => {
                self.fail_connect(slot, now, ConnectFailure::Unreachable);
                Some(Turn::Gone)
            }
            Route::Pending | Route::Unreachable => {
                self.wait_for_route(slot, now + ROUTE_RETRY);
                Some(Turn::Nothing)
            }
        }
    }

    fn take_turn(&mut self, slot: u32, now: Instant, host: &mut Host, frame: &mut Frame) -> Turn {
        if self.flows[slot as usize].state == State::Free {
            return Turn::Nothing;
        }
        self.tell_host(slot, now, host);
        if let Some(turn) = self.ensure_route(slot, now, host) {
            return turn;
        }
        match self.flows[slot as usize].state {
            State::Free => Turn::Nothing,
            State::Connecting => self.write_init(slot, now, frame),
            State::Accepting => self.write_accept(slot, now, frame),
            State::Open | State::Lingering => {
                if self.flows[slot as usize].shield == Shield::Unconfirmed
                    && let Some(turn) = self.write_confirm(slot, now, frame)
                {
                    return turn;
                }
                let f = &mut self.flows[slot as usize];
                // Holes are described in pure acknowledgements only, and the peer waits for that description.
                let describe = f.rx.ack_now && f.rx.has_gaps();
                if !describe
                    && f.state == State::Open
                    && let Some((seq, seg, part)) = self.choose_segment(slot, now)
                {
                    return self.write_segment(slot, now, seq, seg, part, frame);
                }
                let f = &mut self.flows[slot as usize];
                if f.control_due || f.rx.ack_now {
                    return self.write_ack(slot, now, frame);
                }
                Turn::Nothing
            }
        }
    }

    /// The segment whose turn it is, or the part of it: the rest of one, a repeat, a lost one, a new one.
    #[inline]
    fn choose_segment(&mut self, slot: u32, now: Instant) -> Option<(u32, Segment, Part)> {
        let f = &mut self.flows[slot as usize];
        let segs = row(&mut self.segs, slot);
        if f.mtu.has_rest()
            && let Some(next) = f.mtu.next(&f.tx, segs)
        {
            return Some(next);
        }
        if let Some(repeat) = f.repeat_due.take() {
            let chosen = if f.not_ready_count > 0 {
                f.tx.repeat_or_go_on(segs, &mut self.out, (f.mss, f.ordered), now)
            } else {
                f.tx.repeat(segs, now, repeat == Repeat::Last)
            };
            if let Some((seq, seg)) = chosen {
                // Nothing says that it is lost but the clock; a receiver that has no room says that it is not, while it is heard.
                let missed = f.has_missed() && seg.flags & sender::RESENT != 0;
                let news = if missed { f.mtu.missed(now, seg.len, f.rtt.smoothed()) } else { None };
                self.counters.count_mtu(news);
                self.note_probe(slot, now);
                return Some((seq, seg, self.flows[slot as usize].mtu.first(seq, &seg, false)));
            }
        }
        if !f.window_is_open(now) {
            return None;
        }
        let lost = f.tx.take_lost(segs, now);
        let is_new = lost.is_none();
        let (seq, seg) = lost.or_else(|| f.tx.take_new(segs, &mut self.out, f.mss, now))?;
        let is_probe = is_new && f.mtu.wants_probe(now, seg.len);
        if is_probe {
            f.tx.mark_probe(segs, seq);
            self.counters.mtu_probes.add(1);
        }
        let part = f.mtu.first(seq, &seg, is_probe);
        let window = f.cc.window();
        if window < 1.0 {
            f.pace_at = now + Duration::from_nanos((f.rtt.smoothed().as_nanos() as f32 / window) as u64);
        }
        if f.tx.probe_gone {
            self.note_probe(slot, now);
        }
        Some((seq, seg, part))
    }

    /// Takes note of a probe for a larger packet that is lost.
    pub(crate) fn note_probe(&mut self, slot: u32, now: Instant) {
        let f = &mut self.flows[slot as usize];
        if std::mem::take(&mut f.tx.probe_gone) {
            if f.has_missed() {
                let news = f.mtu.probe_lost(now, f.rtt.smoothed(), self.config.mtu_raise);
                self.counters.count_mtu(news);
            } else {
                f.mtu.probe_refused(now, f.rtt.smoothed());
            }
        }
    }

    fn write_segment(
        &mut self,
        slot: u32,
        now: Instant,
        seq: u32,
        seg: Segment,
        part: Part,
        frame: &mut Frame,
    ) -> Turn {
        let config = &self.config;
        let f = &mut self.flows[slot as usize];
        let Some(template) = &f.template else {
            return Turn::Nothing;
        };
        let (kind, tag) = match f.shield {
            Shield::Plain => (Kind::Data, 0),
            _ => (Kind::SealedData, TAG_LEN),
        };
        let len = DATA_HEADER_LEN + usize::from(part.len) + tag;
        if !lengthen(frame, template, len) {
            debug_assert!(false, "a frame holds a full segment");
            return Turn::Nothing;
        }
        let header_len = template.header_len();
        let packet = &mut frame.data_mut()[header_len..];
        let resent = seg.flags & sender::RESENT != 0;
        let fin = seg.flags & sender::FIN != 0;
        // A repeat asks for an answer at once: the peer may sit on an acknowledgement of what it has.
        let mut flags = if resent && part.is_last { flag::ACK_NOW } else { 0 };
        let offset = seg.offset + u32::from(part.at);
        if part.is_piece {
            flags |= flag::PIECE;
            self.counters.pieces_tx.add(1);
        }
        let data = if fin {
            flags |= flag::FIN;
            msg::Data { msg_id: 0, msg_len: 0, offset: 0 }
        } else {
            let m = self.out.get(seg.msg);
            if !self.memory.read(m.buf, offset, &mut packet[DATA_HEADER_LEN..len - tag]) {
                // The owner is being torn down; its flows go with it.
                return Turn::Nothing;
            }
            msg::Data { msg_id: m.id, msg_len: m.buf.len, offset }
        };
        fill_header(f, now, kind, flags, seq).emit(packet);
        data.emit(packet);
        if let Some(template) = &f.template {
            let ecn = if config.ecn { ECN_CAPABLE } else { 0 };
            if f.shield == Shield::Plain {
                seal(frame, template, ecn);
            } else if let Some(Some(guard)) = self.guards.get_mut(slot as usize) {
                seal_with(frame, template, ecn, guard, &self.counters);
            }
        }
        acknowledged(f);
        if f.retry_at == Instant::FAR_FUTURE {
            f.restart_retry(now, config);
        }
        if part.at > 0 {
            // Counted with its first piece.
        } else if resent {
            self.counters.segments_resent.add(1);
        } else {
            self.counters.segments_tx.add(1);
        }
        Turn::Sent
    }

    fn write_ack(&mut self, slot: u32, now: Instant, frame: &mut Frame) -> Turn {
        let f = &mut self.flows[slot as usize];
        let Some(template) = &f.template else {
            return Turn::Nothing;
        };
        let (ranges, n) = if f.rx.has_gaps() { f.rx.ranges() } else { Default::default() };
        let (kind, tag) = match f.shield {
            Shield::Plain => (Kind::Ack, 0),
            _ => (Kind::SealedAck, TAG_LEN),
        };
        if !lengthen(frame, template, msg::COMMON_LEN + 8 * n + tag) {
            return Turn::Nothing;
        }
        let header_len = template.header_len();
        let packet = &mut frame.data_mut()[header_len..];
        let flags = if std::mem::take(&mut f.control_due) { flag::ACK_NOW } else { 0 };
        let seq = f.tx.nxt;
        fill_header(f, now, kind, flags, seq).emit(packet);
        for (i, &(first, end)) in ranges[..n].iter().enumerate() {
            msg::emit_sack_range(packet, i, first, end);
        }
        if let Some(template) = &f.template {
            if f.shield == Shield::Plain {
                seal(frame, template, 0);
            } else if let Some(Some(guard)) = self.guards.get_mut(slot as usize) {
                seal_with(frame, template, 0, guard, &self.counters);
            }
        }
        acknowledged(f);
        self.counters.acks_tx.add(1);
        Turn::Sent
    }

    fn write_init(&mut self, slot: u32, now: Instant, frame: &mut Frame) -> Turn {
        let f = &mut self.flows[slot as usize];
        let Some(template) = &f.template else {
            return Turn::Nothing;
        };
        let guard =
            self.guards.get(slot as usize).and_then(Option::as_ref).filter(|_| f.shield != Shield::Plain);
        let len = guard.map_or(msg::INIT_LEN, |g| secure::INIT_SECURE_LEN + g.message.len());
        if !std::mem::take(&mut f.control_due) || !lengthen(frame, template, len) {
            return Turn::Nothing;
        }
        let header_len = template.header_len();
        let packet = &mut frame.data_mut()[header_len..];
        let mut options = if f.ordered { 0 } else { option::UNORDERED };
        if self.config.mtu_discovery {
            options |= option::PIECES;
        }
        if let Some((guard, said)) = guard.and_then(|g| Some((g, g.said?))) {
            options = said.options;
            let (pattern, ciphers, rekey) = (said.pattern, said.ciphers, said.rekey);
            let message = &guard.message[..];
            secure::Init { pattern, ciphers, rekey, udp_port: said.udp_port, message }.emit(packet);
        }
        let init = msg::Init { src_cid: f.local_cid, mss: f.mss, options, cookie: f.cookie };
        let seq = f.first_seq;
        let mut header = fill_header(f, now, Kind::Init, 0, seq);
        (header.dst_cid, header.ack) = (0, 0);
        header.emit(packet);
        init.emit(packet);
        if let Some(template) = &f.template {
            seal(frame, template, 0);
        }
        Turn::Sent
    }

    fn write_accept(&mut self, slot: u32, now: Instant, frame: &mut Frame) -> Turn {
        let f = &mut self.flows[slot as usize];
        let Some(template) = &f.template else {
            return Turn::Nothing;
        };
        let guard =
            self.guards.get(slot as usize).and_then(Option::as_ref).filter(|_| f.shield != Shield::Plain);
        let len = guard.map_or(msg::ACCEPT_LEN, |g| secure::ACCEPT_SECURE_LEN + g.message.len());
        if !std::mem::take(&mut f.control_due) || !lengthen(frame, template, len) {
            return Turn::Nothing;
        }
        let header_len = template.header_len();
        let packet = &mut frame.data_mut()[header_len..];
        let mut options = f.answer_options();
        if let Some(guard) = guard {
            options |= option::SECURE;
            secure::emit_accept(packet, &guard.message);
        }
        f.rx.has_echo = f.shield == Shield::Plain;
        let seq = f.first_seq;
        fill_header(f, now, Kind::Accept, 0, seq).emit(packet);
        msg::Accept { src_cid: f.local_cid, mss: f.mss, options }.emit(packet);
        if let Some(template) = &f.template {
            seal(frame, template, 0);
        }
        Turn::Sent
    }
}

impl<M: Memory> Endpoint<M> {
    /// CONFIRM, now and then until a sealed packet comes. `None`: not now.
    fn write_confirm(&mut self, slot: u32, now: Instant, frame: &mut Frame) -> Option<Turn> {
        let f = &mut self.flows[slot as usize];
        let (template, guard) = (f.template.as_ref()?, self.guards.get_mut(slot as usize)?.as_mut()?);
        let len = secure::CONFIRM_LEN + guard.message.len();
        if now < guard.confirm_at || !lengthen(frame, template, len) {
            return None;
        }
        guard.confirm_at = now + self.config.timeout_initial;
        let packet = &mut frame.data_mut()[template.header_len()..];
        let zero = Header {
            kind: Kind::Confirm,
            flags: 0,
            dst_cid: f.remote_cid,
            seq: f.tx.nxt,
            ack: 0,
            stamp: stamp_of(now),
            echo: 0,
            echo_delay: 0,
            credit: 0,
        };
        zero.emit(packet);
        secure::emit_confirm(packet, &guard.message);
        seal(frame, template, 0);
        Some(Turn::Sent)
    }
}

/// The common header of a flow's packet, with everything the flow has to say to its peer.
#[inline]
fn fill_header(f: &mut Flow, now: Instant, kind: Kind, mut flags: u8, seq: u32) -> Header {
    let (mut echo, mut echo_delay) = (0, 0);
    if f.rx.has_echo {
        flags |= flag::ECHO;
        echo = f.rx.echo;
        echo_delay = units(now.since(f.rx.echo_at));
        f.rtt.tells(stamp_of(now));
    }
    if f.rx.ce {
        flags |= flag::CE;
    }
    if f.rx.not_ready {
        flags |= flag::NOT_READY;
    }
    Header {
        kind,
        flags,
        dst_cid: f.remote_cid,
        seq,
        ack: f.rx.next,
        stamp: stamp_of(now),
        echo,
        echo_delay,
        credit: f.rx.credit(),
    }
}

/// An acknowledgement is on its way: nothing more to say for now.
#[inline]
fn acknowledged(f: &mut Flow) {
    f.rx.unacked = 0;
    f.rx.ack_now = false;
    f.rx.ack_at = Instant::FAR_FUTURE;
    f.rx.has_echo = false;
    f.rx.ce = false;
}
