//! A queue pair's own state, and how it dies.

use crate::core::{Core, Grace};
use crate::queue::List;
use crate::slab::NONE;
use crate::verbs::{Access, Mtu, Pd, QpKind, QpState, Qpn, SendOp, Wc, WcOpcode, WcStatus};
use crate::{Event, QpFault};
use barewire_base::Instant;
use barewire_wire::roce::bth;
use barewire_wire::roce::ext::Syndrome;
use barewire_wire::roce::{Opcode, PKEY_DEFAULT};

/// What is being received.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Receiving {
    /// Nothing: the next packet begins a message.
    #[default]
    Nothing,
    Send,
    Write,
}

/// A queue pair. A million of them live in one endpoint: what a queue pair has only while it works is elsewhere.
pub(crate) struct Qp {
    pub alive: bool,
    pub qpn: u32,
    pub kind: QpKind,
    pub state: QpState,
    pub pd: Pd,
    pub access: Access,
    /// Places of its completion queues.
    pub send_cq: u32,
    pub recv_cq: u32,
    pub srq: u32,
    pub send_max: u16,
    pub recv_max: u16,
    pub qkey: u32,

    pub path: u32,
    /// The connection it belongs to.
    pub conn: u32,
    /// Accepted, but neither RTU nor data has come: the first packet is as good as an RTU.
    pub awaits_peer: bool,
    pub dst_qpn: u32,
    pub src_port: u16,
    /// CRC over the headers towards the peer.
    pub crc: u32,
    pub mtu: Mtu,

    /// In the list of those that have something to transmit.
    pub queued: bool,
    /// Frames sent in this turn.
    pub burst: u8,

    // Requester.
    pub sends: List,
    /// The request that is being sent, or is next.
    pub sending: u32,
    /// Sequence numbers: after the last request posted, next to send, oldest without an answer, one past the highest sent.
    pub posted_psn: u32,
    pub next_psn: u32,
    pub una_psn: u32,
    pub top_psn: u32,
    /// Reads and atomics sent, and their sequence numbers.
    pub reads: u8,
    pub reads_max: u8,
    pub read_psns: u32,
    pub since_ack_request: u16,
    /// Went back since the last progress: further hints at the same loss are the same loss.
    pub went_back: bool,
    pub timeout: u8,
    pub retry_count: u8,
    pub retries: u8,
    pub rnr_retry_count: u8,
    pub rnr_retries: u8,
    /// When the oldest packet counts as lost; `FAR_FUTURE`: nothing is outstanding.
    pub lost_at: Instant,
    /// The last request packet's number among those that wait for the port.
    pub last_frame: u32,
    pub grace: Grace,
    /// Nothing is sent before.
    pub wait_until: Instant,
    /// Its rate after congestion.
    pub limiter: u32,

    // Responder.
    pub recvs: List,
    pub expected_psn: u32,
    pub msn: u32,
    pub receiving: Receiving,
    /// The receive request being filled.
    pub recv: u32,
    pub recv_done: u32,
    pub write_addr: u64,
    pub write_rkey: u32,
    pub write_left: u32,
    pub write_len: u32,
    pub min_rnr_timer: u8,
    /// Told the sender that something is missing: silent until it comes.
    pub nak_sent: bool,
    /// An acknowledgement that is due.
    pub ack: Option<Syndrome>,
    pub ack_psn: u32,
    /// The last send or write that was executed.
    pub plain_psn: u32,
    /// Reads and atomics accepted lately, oldest first.
    pub resources: List,
    pub resources_max: u8,
    /// How many of them have something to transmit.
    pub answering: u8,
    pub cnp_due: bool,
    pub cnp_last: Instant,
}

impl Default for Qp {
    fn default() -> Self {
        Qp {
            alive: false,
            qpn: 0,
            kind: QpKind::Rc,
            state: QpState::Reset,
            pd: Pd(NONE),
            access: Access::NONE,
            send_cq: NONE,
            recv_cq: NONE,
            srq: NONE,
            send_max: 0,
            recv_max: 0,
            qkey: 0,
            path: NONE,
            conn: NONE,
            awaits_peer: false,
            dst_qpn: 0,
            src_port: 0,
            crc: 0,
            mtu: Mtu::M1024,
            queued: false,
            burst: 0,
            sends: List::default(),
            sending: NONE,
            posted_psn: 0,
            next_psn: 0,
            una_psn: 0,
            top_psn: 0,
            reads: 0,
            reads_max: 0,
            read_psns: 0,
            since_ack_request: 0,
            went_back: false,
            timeout: 0,
            retry_count: 0,
            retries: 0,
            rnr_retry_count: 0,
            rnr_retries: 0,
            lost_at: Instant::FAR_FUTURE,
            last_frame: 0,
            grace: Grace::default(),
            wait_until: Instant::ZERO,
            limiter: NONE,
            recvs: List::default(),
            expected_psn: 0,
            msn: 0,
            receiving: Receiving::Nothing,
            recv: NONE,
            recv_done: 0,
            write_addr: 0,
            write_rkey: 0,
            write_left: 0,
            write_len: 0,
            min_rnr_timer: 0,
            nak_sent: false,
            ack: None,
            ack_psn: 0,
            plain_psn: 0,
            resources: List::default(),
            resources_max: 0,
            answering: 0,
            cnp_due: false,
            cnp_last: Instant::ZERO,
        }
    }
}

impl Qp {
    /// A BTH towards the peer.
    #[inline]
    pub(crate) fn head(&self, opcode: Opcode, psn: u32, migrated: bool) -> bth::Repr {
        bth::Repr {
            opcode,
            solicited: false,
            migrated,
            pad: 0,
            pkey: PKEY_DEFAULT,
            fecn: false,
            becn: false,
            dst_qpn: self.dst_qpn,
            ack_request: false,
            psn,
        }
    }

    /// Puts the queue pair among those that have something to transmit.
    #[inline]
    pub(crate) fn wake(&mut self, core: &mut Core, slot: u32) {
        if !self.queued {
            self.queued = true;
            core.ready.push_back(slot);
        }
    }

    /// Writes a frame whose `body` bytes stand in `buf`.
    #[inline]
    pub(crate) fn seal(&self, core: &Core, buf: &mut [u8], head: bth::Repr, body: usize) -> usize {
        let ecn = if core.config.ecn { 2 } else { 0 };
        core.paths[self.path].seal(buf, head, self.crc, self.src_port, ecn, body)
    }

    /// Completes a send request. False when the completion is lost.
    pub(crate) fn complete_send(&self, core: &mut Core, id: u32, status: WcStatus) -> bool {
        let send = &core.sends[id];
        if !send.signaled && status == WcStatus::Success {
            return true;
        }
        let opcode = match send.op {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) => WcOpcode::Send,
            SendOp::Write { .. } | SendOp::WriteImm { .. } => WcOpcode::Write,
            SendOp::Read { .. } => WcOpcode::Read,
            SendOp::CompareSwap { .. } => WcOpcode::CompareSwap,
            SendOp::FetchAdd { .. } => WcOpcode::FetchAdd,
        };
        let wc = Wc { status, ..self.wc(send.wr_id, opcode, send.len) };
        core.complete(self.send_cq, wc, false)
    }

    /// Ends all send requests: the oldest with `status`, the others flushed. What finds no room is lost, and counted.
    pub(crate) fn flush_sends(&mut self, core: &mut Core, mut status: WcStatus) {
        while let Some(id) = self.sends.pop(&mut core.sends) {
            let _ = self.complete_send(core, id, status);
            core.sends.give(id);
            status = WcStatus::Flushed;
        }
    }

    pub(crate) fn wc(&self, wr_id: u64, opcode: WcOpcode, len: u32) -> Wc {
        Wc {
            wr_id,
            status: WcStatus::Success,
            opcode,
            qpn: Qpn(self.qpn),
            len,
            imm: None,
            invalidated: None,
            src_qpn: self.dst_qpn,
        }
    }

    /// The error state. The oldest send request ends with `status`, all others are flushed.
    pub(crate) fn die(&mut self, core: &mut Core, fault: Option<QpFault>, status: WcStatus) {
        if matches!(self.state, QpState::Err | QpState::Reset) {
            return;
        }
        self.state = QpState::Err;
        if let Some(fault) = fault {
            core.tell(Event::QpError(Qpn(self.qpn), fault));
        }
        self.flush_sends(core, status);
        self.flush_recvs(core, true);
        self.stop(core);
    }

    /// A completion queue of its own has overrun. Also a new one dies of it: it could complete nothing that can be believed.
    #[cold]
    pub(crate) fn die_of_cq(&mut self, core: &mut Core) {
        if self.state == QpState::Reset {
            self.state = QpState::Init;
        }
        self.die(core, Some(QpFault::CompletionQueue), WcStatus::Flushed);
    }

    fn flush_recvs(&mut self, core: &mut Core, tell: bool) {
        let began = std::mem::replace(&mut self.recv, NONE);
        let mut next = (began != NONE).then_some(began);
        while let Some(id) = next.take().or_else(|| self.recvs.pop(&mut core.recvs)) {
            if tell {
                let wc = self.wc(core.recvs[id].wr_id, WcOpcode::Recv, 0);
                let _ = core.complete(self.recv_cq, Wc { status: WcStatus::Flushed, ..wc }, false);
            }
            core.recvs.give(id);
        }
    }

    /// Ends timers and answers to reads. An acknowledgement that is due still goes out: it tells the peer what it may
    /// believe.
    pub(crate) fn stop(&mut self, core: &mut Core) {
        while let Some(id) = self.resources.pop(&mut core.resources) {
            core.resources.give(id);
        }
        self.answering = 0;
        self.sending = NONE;
        self.reads = 0;
        self.read_psns = 0;
        self.lost_at = Instant::FAR_FUTURE;
        self.receiving = Receiving::Nothing;
        self.cnp_due = false;
        (self.next_psn, self.una_psn, self.top_psn) = (self.posted_psn, self.posted_psn, self.posted_psn);
    }

    /// Forgets everything posted, without completions, and the way to the peer.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        while let Some(id) = self.sends.pop(&mut core.sends) {
            core.sends.give(id);
        }
        self.flush_recvs(core, false);
        self.stop(core);
        if self.path != NONE {
            core.paths.release(self.path);
            self.path = NONE;
        }
        self.ack = None;
        self.state = QpState::Reset;
        self.wait_until = Instant::ZERO;
        self.unlimit(core);
        self.nak_sent = false;
        self.awaits_peer = false;
        self.went_back = false;
        self.since_ack_request = 0;
        self.cnp_last = Instant::ZERO;
    }
}

// A million of them, with timer, connection and indices, are to fit into a gigabyte.
const _: () = assert!(size_of::<Qp>() <= 384);
