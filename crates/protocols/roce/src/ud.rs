//! Datagrams: the service that promises nothing.

use crate::core::Core;
use crate::psn;
use crate::qp::Qp;
use crate::slab::NONE;
use crate::verbs::{GRH_LEN, QpState, SendOp, Wc, WcOpcode, WcStatus};
use barewire_base::DropReason;
use barewire_wire::roce::ext::{self, Deth};
use barewire_wire::roce::{Opcode, Segment};

impl Qp {
    /// Writes the next datagram.
    pub(crate) fn datagram(&mut self, core: &mut Core, buf: &mut [u8]) -> Option<usize> {
        if self.state != QpState::Rts {
            return None;
        }
        let id = self.sends.pop(&mut core.sends)?;
        self.sending = self.sends.head;
        let send = core.sends[id];
        let sent = self.write_datagram(core, &send, buf);
        let status = if sent.is_some() { WcStatus::Success } else { WcStatus::LocalProtection };
        let told = self.complete_send(core, id, status);
        core.sends.give(id);
        if sent.is_none() {
            // Sending stops, receiving goes on (section 10.3.1.6).
            self.state = QpState::Sqe;
            self.flush_sends(core, WcStatus::Flushed);
            self.sending = NONE;
        }
        if !told {
            self.die_of_cq(core);
        }
        sent
    }

    fn write_datagram(&mut self, core: &Core, send: &crate::queue::Send, buf: &mut [u8]) -> Option<usize> {
        let remote = send.remote?;
        let path = &core.paths[core.paths.slot(remote.path)?];
        let mut at = path.body_at();
        let start = at;
        Deth { qkey: remote.qkey, src_qpn: self.qpn }.emit(&mut buf[at..]);
        at += Deth::LEN;
        let mut head = self.head(Opcode::UD_SEND_ONLY, self.next_psn, core.config.migrated);
        if let SendOp::SendImm(word) = send.op {
            head.opcode = Opcode::UD_SEND_ONLY_IMM;
            ext::emit_word(word, &mut buf[at..]);
            at += 4;
        }
        head.dst_qpn = remote.qpn;
        head.solicited = send.solicited;
        let len = send.len as usize;
        send.gather(&core.regions, self.pd, 0, &mut buf[at..at + len]).ok()?;
        self.next_psn = psn::add(self.next_psn, 1);
        let crc = path.header_crc(self.src_port, remote.qpn);
        let ecn = if core.config.ecn { 2 } else { 0 };
        Some(path.seal(buf, head, crc, self.src_port, ecn, at + len - start))
    }

    /// A datagram arrived; `grh` is what stands in front of its bytes in the receive request.
    pub(crate) fn receive_datagram(
        &mut self,
        core: &mut Core,
        segment: &Segment<'_>,
        grh: &[u8; GRH_LEN],
    ) -> Result<(), DropReason> {
        if !matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe) {
            return Err(DropReason::BadState);
        }
        let deth = segment.deth().ok_or(DropReason::Malformed)?;
        if deth.qkey != self.qkey {
            return Err(DropReason::BadKey);
        }
        if segment.payload.len() > core.config.mtu.bytes() as usize {
            return Err(DropReason::TooLarge);
        }
        let id = self.take_recv(core).ok_or(DropReason::NoReceive)?;
        let recv = core.recvs[id];
        core.recvs.give(id);
        let len = (GRH_LEN + segment.payload.len()) as u32;
        let (list, regions) = (&recv.list, &core.regions);
        let status = if recv.list.len().unwrap_or(0) < len {
            WcStatus::LocalLength
        } else if list.scatter(regions, self.pd, 0, grh).is_err()
            || list.scatter(regions, self.pd, GRH_LEN as u32, segment.payload).is_err()
        {
            WcStatus::LocalProtection
        } else {
            WcStatus::Success
        };
        let wc = self.wc(recv.wr_id, WcOpcode::Recv, len);
        let wc = Wc { status, imm: segment.immediate(), src_qpn: deth.src_qpn, ..wc };
        if !core.complete(self.recv_cq, wc, segment.bth.solicited) {
            self.die_of_cq(core);
            return Err(DropReason::BadState);
        }
        Ok(())
    }
}
