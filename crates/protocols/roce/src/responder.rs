//! The receiving half of a reliable connection: requests are executed once and in order, and answered.

use crate::core::Core;
use crate::endpoint::PACKETS_MAX;
use crate::psn;
use crate::qp::{Qp, Receiving};
use crate::queue::Linked;
use crate::quota::Quota;
use crate::slab::NONE;
use crate::verbs::Handle;
use crate::verbs::{Access, QpState, Wc, WcOpcode, WcStatus};
use crate::{Event, QpFault, SrqId};
use barewire_base::{DropReason, Instant};
use barewire_wire::roce::ext::{self, Aeth, Syndrome};
use barewire_wire::roce::{CNP_RESERVED_LEN, Headers, Opcode, Operation, Position, Segment};

/// A read or atomic that was accepted, kept so that it can be answered again.
#[derive(Clone, Copy)]
pub(crate) struct Resource {
    next: u32,
    /// Its sequence numbers.
    first: u32,
    count: u32,
    msn: u32,
    atomic: bool,
    /// What is read, from the first sequence number on.
    addr: u64,
    rkey: u32,
    len: u32,
    /// The value before the atomic operation.
    value: u64,
    /// The next answer to send, counted from `first`, and where the current run of answers began and ends.
    at: u32,
    from: u32,
    until: u32,
    /// What the current run reads.
    run_addr: u64,
    run_len: u32,
    /// All of it was answered once: what is sent now is a repetition.
    answered: bool,
}

impl Default for Resource {
    fn default() -> Self {
        Resource {
            next: NONE,
            first: 0,
            count: 0,
            msn: 0,
            atomic: false,
            addr: 0,
            rkey: 0,
            len: 0,
            value: 0,
            at: 0,
            from: 0,
            until: 0,
            run_addr: 0,
            run_len: 0,
            answered: false,
        }
    }
}

impl Resource {
    /// Whether some of its answers have not been sent.
    pub(crate) fn is_owed(&self) -> bool {
        self.at != self.until
    }

    /// Whether a repeated request asks for nothing that was not asked for before: the same kind and key, and a part of the
    /// bytes (section 9.7.5: a requester that lost some answers repeats what it lacks).
    fn covers(&self, operation: Operation, reth: Option<ext::Reth>) -> bool {
        let Some(reth) = reth else {
            return self.atomic && matches!(operation, Operation::CompareSwap | Operation::FetchAdd);
        };
        let Some(skipped) = reth.addr.checked_sub(self.addr) else { return false };
        let inside = skipped.checked_add(reth.len.into()).is_some_and(|end| end <= u64::from(self.len));
        !self.atomic && reth.rkey == self.rkey && inside
    }
}

impl Linked for Resource {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Qp {
    /// A request of the peer.
    pub(crate) fn execute(
        &mut self,
        core: &mut Core,
        slot: u32,
        segment: &Segment<'_>,
    ) -> Result<(), DropReason> {
        if !matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd) {
            return Err(DropReason::BadState);
        }
        let ahead = psn::ahead(segment.bth.psn, self.expected_psn);
        if ahead > 0 {
            if !self.nak_sent {
                self.nak_sent = true;
                core.counters.nak_sequence_sent.add(1);
                self.owe_ack(core, slot, Syndrome::SEQUENCE_ERROR, self.expected_psn);
            }
            return Err(DropReason::OutOfWindow);
        }
        if ahead < 0 {
            return self.duplicate(core, slot, segment);
        }
        self.nak_sent = false;
        let result = match segment.shape.operation {
            Operation::Send => self.execute_send(core, segment),
            Operation::Write => self.execute_write(core, segment),
            Operation::ReadRequest => return self.execute_read(core, slot, segment),
            Operation::CompareSwap | Operation::FetchAdd => return self.execute_atomic(core, slot, segment),
            _ => Err(Syndrome::INVALID_REQUEST),
        };
        match result {
            Ok(()) => {
                self.plain_psn = self.expected_psn;
                self.expected_psn = psn::add(self.expected_psn, 1);
                if segment.shape.position.ends() {
                    self.msn = psn::add(self.msn, 1);
                }
                // One that is due tells of this packet as well; a NAK that is due was overtaken by what it asked for.
                if segment.bth.ack_request || self.ack.is_some() {
                    self.owe_ack(core, slot, Syndrome::ACK, self.plain_psn);
                }
                Ok(())
            }
            Err(syndrome) => self.refuse(core, slot, syndrome),
        }
    }

    /// An acknowledgement or a NAK is due; [`write_next_answer`](Self::write_next_answer) sends it. It takes the place of one that is not yet sent.
    fn owe_ack(&mut self, core: &mut Core, slot: u32, syndrome: Syndrome, at: u32) {
        self.ack = Some(syndrome);
        self.ack_psn = at;
        self.wake(core, slot);
    }

    /// Answers a request that cannot be executed. All but "not ready" end the connection.
    fn refuse(&mut self, core: &mut Core, slot: u32, syndrome: Syndrome) -> Result<(), DropReason> {
        let at = self.expected_psn;
        let counters = &core.counters;
        let (counter, fault) = match syndrome {
            Syndrome::INVALID_REQUEST => (&counters.nak_invalid_sent, Some(QpFault::InvalidRequest)),
            Syndrome::REMOTE_ACCESS => (&counters.nak_access_sent, Some(QpFault::Access)),
            Syndrome::REMOTE_OPERATION if core.cqs.has_overrun(self.recv_cq) => {
                (&counters.nak_operation_sent, Some(QpFault::CompletionQueue))
            }
            Syndrome::REMOTE_OPERATION => (&counters.nak_operation_sent, Some(QpFault::Receive)),
            _ => (&counters.rnr_sent, None),
        };
        counter.add(1);
        match fault {
            None => {
                // What follows it will come again with it.
                self.nak_sent = true;
                self.owe_ack(core, slot, syndrome, at);
                Err(DropReason::NoReceive)
            }
            Some(fault) => {
                // What was accepted before is answered first, or the peer could not tell which of its requests was refused.
                let owed = (std::mem::take(&mut self.resources), std::mem::take(&mut self.answering));
                self.die(core, Some(fault), WcStatus::Flushed);
                (self.resources, self.answering) = owed;
                self.owe_ack(core, slot, syndrome, at);
                Err(DropReason::BadState)
            }
        }
    }

    /// Takes a receive request; its owner is told when a shared queue runs low.
    pub(crate) fn take_recv(&mut self, core: &mut Core) -> Option<u32> {
        let Some(srq) = core.srqs.get_mut(self.srq) else { return self.recvs.pop(&mut core.recvs) };
        let id = srq.list.pop(&mut core.recvs)?;
        if srq.list.len < srq.low {
            srq.low = 0;
            let event = Event::SrqLow(SrqId(Handle { slot: self.srq, generation: srq.generation }));
            core.tell(event);
        }
        Some(id)
    }

    /// Whether a packet has the bytes that its place demands.
    fn is_sized(&self, segment: &Segment<'_>) -> bool {
        let (mtu, len) = (self.mtu.bytes() as usize, segment.payload.len());
        match segment.shape.position {
            Position::First | Position::Middle => len == mtu && segment.bth.pad == 0,
            Position::Last => (1..=mtu).contains(&len),
            Position::Only => len <= mtu,
        }
    }

    fn execute_send(&mut self, core: &mut Core, segment: &Segment<'_>) -> Result<(), Syndrome> {
        let position = segment.shape.position;
        let expected = if position.begins() { Receiving::Nothing } else { Receiving::Send };
        if self.receiving != expected || !self.is_sized(segment) {
            return Err(Syndrome::INVALID_REQUEST);
        }
        if position.begins() {
            let recv = self.take_recv(core).ok_or(Syndrome::receiver_not_ready(self.min_rnr_timer))?;
            (self.recv, self.recv_done, self.receiving) = (recv, 0, Receiving::Send);
        }
        let recv = core.recvs[self.recv];
        let bytes = segment.payload;
        let room = recv.list.len().unwrap_or(0);
        if u64::from(self.recv_done) + bytes.len() as u64 > u64::from(room) {
            let _ = self.finish_recv(core, WcStatus::LocalLength, WcOpcode::Recv, None, None, false);
            return Err(Syndrome::INVALID_REQUEST);
        }
        if recv.list.scatter(&core.regions, self.pd, self.recv_done, bytes).is_err() {
            let _ = self.finish_recv(core, WcStatus::LocalProtection, WcOpcode::Recv, None, None, false);
            return Err(Syndrome::REMOTE_OPERATION);
        }
        self.recv_done += bytes.len() as u32;
        if position.ends() {
            let key = segment.invalidate();
            if let Some(key) = key {
                core.regions.invalidate(self.pd, key).map_err(|_| Syndrome::REMOTE_ACCESS)?;
                core.accounts.refund(self.pd, Quota::REGION);
            }
            let (imm, solicited) = (segment.immediate(), segment.bth.solicited);
            self.finish_recv(core, WcStatus::Success, WcOpcode::Recv, imm, key, solicited)?;
            self.receiving = Receiving::Nothing;
        }
        Ok(())
    }

    /// Completes the receive request. An error when the completion is lost: what the peer sent must not be acknowledged then,
    /// as nobody will ever hear of it.
    fn finish_recv(
        &mut self,
        core: &mut Core,
        status: WcStatus,
        opcode: WcOpcode,
        imm: Option<u32>,
        invalidated: Option<u32>,
        solicited: bool,
    ) -> Result<(), Syndrome> {
        let id = std::mem::replace(&mut self.recv, NONE);
        let len = if opcode == WcOpcode::Recv { self.recv_done } else { self.write_len };
        let wc = self.wc(core.recvs[id].wr_id, opcode, len);
        core.recvs.give(id);
        let told = core.complete(self.recv_cq, Wc { status, imm, invalidated, ..wc }, solicited);
        if told { Ok(()) } else { Err(Syndrome::REMOTE_OPERATION) }
    }

    fn execute_write(&mut self, core: &mut Core, segment: &Segment<'_>) -> Result<(), Syndrome> {
        let position = segment.shape.position;
        let expected = if position.begins() { Receiving::Nothing } else { Receiving::Write };
        if self.receiving != expected || !self.is_sized(segment) {
            return Err(Syndrome::INVALID_REQUEST);
        }
        if let Some(reth) = segment.reth() {
            if !self.access.has(Access::REMOTE_WRITE) {
                return Err(Syndrome::REMOTE_ACCESS);
            }
            if reth.len > 0 {
                core.regions
                    .check(self.pd, reth.rkey, reth.addr, reth.len, Access::REMOTE_WRITE)
                    .map_err(|_| Syndrome::REMOTE_ACCESS)?;
            }
            (self.write_addr, self.write_rkey) = (reth.addr, reth.rkey);
            (self.write_left, self.write_len) = (reth.len, reth.len);
        }
        let len = segment.payload.len() as u32;
        if len > self.write_left || (position.ends() && len != self.write_left) {
            return Err(Syndrome::INVALID_REQUEST);
        }
        // Before anything is written: a packet that is not ready comes again.
        if segment.shape.headers.has(Headers::IMM) {
            self.recv = self.take_recv(core).ok_or(Syndrome::receiver_not_ready(self.min_rnr_timer))?;
        }
        if len > 0 {
            // Looked up for each packet: the region may be gone since the first.
            core.regions
                .write(self.pd, self.write_rkey, self.write_addr, segment.payload, Access::REMOTE_WRITE)
                .map_err(|_| Syndrome::REMOTE_ACCESS)?;
            self.write_addr = self.write_addr.wrapping_add(u64::from(len));
            self.write_left -= len;
        }
        self.receiving = if position.ends() { Receiving::Nothing } else { Receiving::Write };
        if let Some(imm) = segment.immediate() {
            let solicited = segment.bth.solicited;
            self.finish_recv(core, WcStatus::Success, WcOpcode::RecvWriteImm, Some(imm), None, solicited)?;
        }
        Ok(())
    }

    /// Makes room for one more read or atomic: the oldest that was answered is forgotten for it. What is pushed after this has
    /// a place.
    fn make_room(&mut self, core: &mut Core) -> Result<(), Syndrome> {
        if self.receiving != Receiving::Nothing || self.resources_max == 0 {
            return Err(Syndrome::INVALID_REQUEST);
        }
        if self.resources.len >= u32::from(self.resources_max) {
            let oldest = core.resources[self.resources.head];
            if oldest.at < oldest.until {
                if !oldest.answered {
                    return Err(Syndrome::INVALID_REQUEST);
                }
                // A late copy of its request had revived it; the peer has moved on.
                self.answering -= 1;
            }
            if let Some(id) = self.resources.pop(&mut core.resources) {
                core.resources.give(id);
            }
        }
        if core.resources.has_room() { Ok(()) } else { Err(Syndrome::REMOTE_OPERATION) }
    }

    /// Accepts a read, or an atomic operation that has been done: from here on it will be answered with success, whatever
    /// comes behind it. So nothing that can still be refused may be accepted.
    fn accept_resource(&mut self, core: &mut Core, slot: u32, resource: Resource) -> Result<(), DropReason> {
        if self.resources.push(&mut core.resources, resource).is_none() {
            return self.refuse(core, slot, Syndrome::REMOTE_OPERATION);
        }
        self.answering += 1;
        self.expected_psn = psn::add(self.expected_psn, resource.count);
        self.msn = resource.msn;
        // The answer acknowledges what went before.
        self.ack = None;
        self.wake(core, slot);
        Ok(())
    }

    fn execute_read(&mut self, core: &mut Core, slot: u32, segment: &Segment<'_>) -> Result<(), DropReason> {
        let Some(reth) = segment.reth() else { return Err(DropReason::Malformed) };
        if !segment.payload.is_empty() {
            return self.refuse(core, slot, Syndrome::INVALID_REQUEST);
        }
        let allowed = self.access.has(Access::REMOTE_READ)
            && (reth.len == 0
                || core.regions.check(self.pd, reth.rkey, reth.addr, reth.len, Access::REMOTE_READ).is_ok());
        if !allowed {
            return self.refuse(core, slot, Syndrome::REMOTE_ACCESS);
        }
        if reth.len > crate::queue::MESSAGE_MAX || self.packets(reth.len) > PACKETS_MAX {
            return self.refuse(core, slot, Syndrome::INVALID_REQUEST);
        }
        let resource = Resource {
            first: self.expected_psn,
            count: self.packets(reth.len),
            msn: psn::add(self.msn, 1),
            until: self.packets(reth.len),
            addr: reth.addr,
            rkey: reth.rkey,
            len: reth.len,
            run_addr: reth.addr,
            run_len: reth.len,
            ..Resource::default()
        };
        match self.make_room(core) {
            Ok(()) => self.accept_resource(core, slot, resource),
            Err(syndrome) => self.refuse(core, slot, syndrome),
        }
    }

    fn execute_atomic(
        &mut self,
        core: &mut Core,
        slot: u32,
        segment: &Segment<'_>,
    ) -> Result<(), DropReason> {
        let Some(atomic) = segment.atomic() else { return Err(DropReason::Malformed) };
        if !atomic.addr.is_multiple_of(8) || !segment.payload.is_empty() {
            return self.refuse(core, slot, Syndrome::INVALID_REQUEST);
        }
        if !self.access.has(Access::REMOTE_ATOMIC)
            || core.regions.check(self.pd, atomic.rkey, atomic.addr, 8, Access::REMOTE_ATOMIC).is_err()
        {
            return self.refuse(core, slot, Syndrome::REMOTE_ACCESS);
        }
        // Room first: an atomic operation that could not be answered again must not happen.
        if let Err(syndrome) = self.make_room(core) {
            return self.refuse(core, slot, syndrome);
        }
        let swap = segment.shape.operation == Operation::CompareSwap;
        let result = core.regions.atomic(self.pd, atomic.rkey, atomic.addr, |before| match swap {
            true => (before == atomic.compare).then_some(atomic.swap_add),
            false => Some(before.wrapping_add(atomic.swap_add)),
        });
        let Ok(value) = result else {
            // The address is a multiple of 8 bytes, the memory that it stands for is not.
            return self.refuse(core, slot, Syndrome::REMOTE_OPERATION);
        };
        let resource = Resource {
            first: self.expected_psn,
            count: 1,
            until: 1,
            msn: psn::add(self.msn, 1),
            atomic: true,
            value,
            ..Resource::default()
        };
        self.accept_resource(core, slot, resource)
    }

    /// A request that was executed before. Reads are read again, atomics answered from memory.
    fn duplicate(&mut self, core: &mut Core, slot: u32, segment: &Segment<'_>) -> Result<(), DropReason> {
        core.counters.duplicates.add(1);
        let at = segment.bth.psn;
        let operation = segment.shape.operation;
        if matches!(operation, Operation::Send | Operation::Write) {
            // A NAK that is due says the same and more.
            if self.ack.is_none() {
                self.owe_ack(core, slot, Syndrome::ACK, self.plain_psn);
            }
            return Err(DropReason::Duplicate);
        }
        let mut id = self.resources.head;
        while id != NONE {
            let r = &mut core.resources[id];
            let index = at.wrapping_sub(r.first) & 0xff_ffff;
            if index < r.count {
                let packets = segment.reth().map_or(1, |reth| self.packets(reth.len));
                if !r.covers(operation, segment.reth()) || packets > r.count - index {
                    break;
                }
                if r.at == r.until {
                    self.answering += 1;
                }
                if let Some(reth) = segment.reth() {
                    (r.run_addr, r.run_len) = (reth.addr, reth.len);
                }
                (r.from, r.at, r.until) = (index, index, index + packets);
                self.wake(core, slot);
                return Ok(());
            }
            id = *r.next();
        }
        Err(DropReason::Duplicate)
    }

    /// Writes the next answer: read data and atomic results first, as an acknowledgement of something later would say that
    /// they had been sent.
    pub(crate) fn write_next_answer(
        &mut self,
        core: &mut Core,
        slot: u32,
        now: Instant,
        buf: &mut [u8],
    ) -> Option<usize> {
        if self.cnp_due {
            self.cnp_due = false;
            self.cnp_last = now;
            core.counters.cnp_sent.add(1);
            let mut head = self.head(Opcode::CNP, 0, core.config.migrated);
            head.becn = true;
            let at = core.paths[self.path].body_at();
            buf[at..at + CNP_RESERVED_LEN].fill(0);
            return Some(self.seal(core, buf, head, CNP_RESERVED_LEN));
        }
        if self.answering > 0 {
            if self.is_held(core, slot, now) {
                return None;
            }
            if let Some(len) = self.answer_read(core, buf) {
                if self.limiter != NONE {
                    self.pace(core, now, len);
                }
                return Some(len);
            }
        }
        let syndrome = self.ack.take()?;
        let at = core.paths[self.path].body_at();
        Aeth { syndrome, msn: self.msn }.emit(&mut buf[at..]);
        let head = self.head(Opcode::ACKNOWLEDGE, self.ack_psn, core.config.migrated);
        Some(self.seal(core, buf, head, Aeth::LEN))
    }

    fn answer_read(&mut self, core: &mut Core, buf: &mut [u8]) -> Option<usize> {
        let mut id = self.resources.head;
        while id != NONE && core.resources[id].at == core.resources[id].until {
            id = core.resources[id].next;
        }
        let r = *core.resources.get(id)?;
        let at = core.paths[self.path].body_at();
        let mut head = self.head(Opcode::ATOMIC_ACKNOWLEDGE, psn::add(r.first, r.at), core.config.migrated);
        let aeth = Aeth { syndrome: Syndrome::ACK, msn: r.msn };
        let mut body = Aeth::LEN;
        if r.atomic {
            aeth.emit(&mut buf[at..]);
            ext::emit_atomic_ack(r.value, &mut buf[at + body..]);
            body += 8;
        } else {
            let (first, last) = (r.at == r.from, r.at + 1 == r.until);
            head.opcode = match (first, last) {
                (true, true) => Opcode::READ_RESPONSE_ONLY,
                (true, false) => Opcode::READ_RESPONSE_FIRST,
                (false, true) => Opcode::READ_RESPONSE_LAST,
                (false, false) => Opcode::READ_RESPONSE_MIDDLE,
            };
            if first || last {
                aeth.emit(&mut buf[at..]);
            } else {
                body = 0;
            }
            let offset = (r.at - r.from) * self.mtu.bytes();
            let n = (r.run_len - offset).min(self.mtu.bytes()) as usize;
            let addr = r.run_addr.wrapping_add(u64::from(offset));
            let out = &mut buf[at + body..at + body + n];
            if n > 0 && core.regions.read(self.pd, r.rkey, addr, out, Access::REMOTE_READ).is_err() {
                // The region is gone since the request was accepted.
                core.counters.nak_access_sent.add(1);
                self.die(core, Some(QpFault::Access), WcStatus::Flushed);
                self.stop(core);
                self.ack = Some(Syndrome::REMOTE_ACCESS);
                self.ack_psn = head.psn;
                return None;
            }
            body += n;
        }
        let kept = &mut core.resources[id];
        kept.at += 1;
        if kept.at == kept.until {
            kept.answered = true;
            self.answering -= 1;
        }
        Some(self.seal(core, buf, head, body))
    }
}
