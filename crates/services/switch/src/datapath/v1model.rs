//! v1model and P4_14: what happens between parser and deparser, with bmv2's order and its exceptions.

use super::fields::V1Fields;
use super::{Datapath, EgressJob, Output, Stages, finish_checksum};
use barewire_base::{DropReason, Instant};
use barewire_frame::Frame;
use barewire_p4::engine::Engine;
use barewire_p4::ir::{Arch, ListItem, Program};
use barewire_p4::phv::{Layout, Phv, Place, slot};
use barewire_p4_ebpf::{AgainKind, Context, SESSIONS};
use barewire_p4_jit::chain::{Operand, Step, Stopped};
use num_bigint::BigUint;

/// Values of `standard_metadata.instance_type`.
mod instance {
    pub const NORMAL: u64 = 0;
    pub const INGRESS_CLONE: u64 = 1;
    pub const EGRESS_CLONE: u64 = 2;
    pub const RECIRCULATED: u64 = 4;
    pub const REPLICA: u64 = 5;
    pub const RESUBMITTED: u64 = 6;
}

/// Mirror session numbers have 15 bits.
const SESSION_MASK: u64 = 0x7fff;

/// Where the usual way is left: behind the ingress pipeline, and behind the egress pipeline.
const AFTER_INGRESS: u8 = 1;
const AFTER_EGRESS: u8 = 2;

/// What happens to a packet that goes the usual way, in at one port and out of one, as one list; empty for programs that
/// look at their queues. It says the same as [`Datapath::v1_ingress`] and [`Datapath::v1_egress`], where the reasons are.
pub(crate) fn steps(program: &Program) -> Vec<Step> {
    let layout = Layout::of(program);
    let fields = V1Fields::find(program, &layout);
    let stages = Stages::find(program);
    let (Some(egress_spec), false) = (fields.egress_spec.field(), fields.queueing) else {
        return Vec::new();
    };
    let slots = |slots: &[usize]| slots.iter().map(|&slot| Operand::Slot(slot)).collect::<Vec<_>>();
    let mut steps = Vec::new();
    let set = |steps: &mut Vec<Step>, field: super::fields::Meta, value| {
        steps.extend(field.field().map(|field| Step::Set(field, value)));
    };
    let dropped = |stop| Step::StopIfEqual(Operand::Field(egress_spec), Operand::Slot(slot::DROP_PORT), stop);
    steps.push(Step::Parse(stages.ingress_parser));
    set(&mut steps, fields.parser_error, Operand::Slot(slot::PARSER_ERROR));
    set(&mut steps, fields.checksum_error, Operand::SlotIsSet(slot::CHECKSUM_ERROR));
    steps.push(Step::Run(stages.ingress));
    let mut unusual = slots(&[slot::ASSERT, slot::CLONE, slot::DIGEST, slot::RESUBMIT]);
    unusual.extend([fields.mcast_grp, fields.priority].iter().filter_map(|f| f.field()).map(Operand::Field));
    steps.push(Step::StopIfAny(unusual, AFTER_INGRESS));
    steps.push(dropped(AFTER_INGRESS));
    set(&mut steps, fields.instance_type, Operand::Const(instance::NORMAL));
    steps.push(Step::Keep(Operand::Field(egress_spec)));
    set(&mut steps, fields.egress_global_timestamp, Operand::Slot(slot::NOW_US));
    set(&mut steps, fields.egress_port, Operand::Field(egress_spec));
    set(&mut steps, fields.egress_spec, Operand::SlotPlus(slot::DROP_PORT, 1));
    set(&mut steps, fields.packet_length, Operand::SlotSum(slot::PACKET_LEN, slot::GROWTH));
    steps.push(Step::Run(stages.egress));
    steps.push(Step::StopIfAny(slots(&[slot::ASSERT, slot::CLONE, slot::RECIRCULATE]), AFTER_EGRESS));
    steps.push(dropped(AFTER_EGRESS));
    steps.push(Step::Deparse(stages.egress_deparser));
    steps
}

/// What a compiler for the kernel has to know of the target.
pub(crate) fn kernel_target(program: &Program, drop_port: u32) -> barewire_p4_ebpf::Target {
    if program.arch == Arch::Psa {
        return super::psa::kernel_target(program, drop_port);
    }
    let fields = V1Fields::find(program, &Layout::of(program));
    barewire_p4_ebpf::Target {
        steps: steps(program),
        ingress_port: fields.ingress_port.field(),
        packet_length: fields.packet_length.field(),
        ingress_timestamp: fields.ingress_global_timestamp.field(),
        mcast_grp: fields.mcast_grp.field(),
        egress_port: fields.egress_port.field(),
        egress_rid: fields.egress_rid.field(),
        replica: fields.instance_type.field().map(|field| (field, instance::REPLICA)),
        cloned: instance::INGRESS_CLONE,
        cloned_of_egress: instance::EGRESS_CLONE,
        resubmitted: instance::RESUBMITTED,
        recirculated: instance::RECIRCULATED,
        refused: Vec::new(),
        recirculate_port: None,
        drop_port,
        far_jumps: crate::kernel::far_jumps(),
        hook: barewire_p4_ebpf::Hook::Xdp,
    }
}

impl Datapath {
    #[inline]
    pub(super) fn v1_receive<O: Output>(&mut self, port: u32, frame: Frame, out: &mut O) {
        self.v1.ingress_port.set(&mut self.phv, u64::from(port));
        self.v1.packet_length.set(&mut self.phv, frame.len() as u64);
        self.v1.ingress_global_timestamp.copy_slot(&mut self.phv, slot::NOW_US);
        if self.queues.may_wait() {
            return self.v1_ingress(port, frame, out);
        }
        self.v1_usual(port, frame, out);
    }

    /// Take a packet that the kernel's program began a later round with, from the beginning of that round; or a clone that it made.
    pub(crate) fn receive_again<O: Output>(
        &mut self,
        now: Instant,
        port: u32,
        mut frame: Frame,
        context: &Context,
        out: &mut O,
    ) {
        self.set_now(now);
        if self.idle {
            return self.drop(DropReason::NoProgram);
        }
        if !self.config.pass_offloads && !finish_checksum(&mut frame) {
            return self.drop(DropReason::UnfinishedChecksum);
        }
        if self.arch == Arch::Psa {
            return self.psa_receive_again(context.words[0], frame);
        }
        let mut phv = self.blank(frame.len());
        let sessions = u64::from(SESSIONS);
        let (request, bias) = match context.kind {
            AgainKind::Clone => (context.request / sessions, 1),
            _ => (context.request, 2),
        };
        if let Some(list) = self.requested_list(request, bias) {
            let mut words = context.words.iter().copied();
            for item in &self.prepared.program.field_lists[list].items {
                let ListItem::Field(field) = item else { continue };
                let Some(id) = field.fixed() else { continue };
                let width = match self.layout.place(id) {
                    Place::Words { width, .. } | Place::Bits { width, .. } => width,
                    Place::Varbit { .. } => continue,
                };
                if width <= 64 {
                    phv.set(&self.layout, id, words.next().unwrap_or(0));
                    continue;
                }
                let words = words.by_ref().take(width.div_ceil(64) as usize);
                let digits = words.flat_map(|word| [word as u32, (word >> 32) as u32]).collect();
                phv.set_field(&self.layout, id, &BigUint::new(digits));
            }
        }
        let kind = match context.kind {
            // The kernel's program keeps them.
            AgainKind::CloneOfEgress => return self.drop(DropReason::NoReplica),
            AgainKind::Resubmit => instance::RESUBMITTED,
            AgainKind::Recirculate => instance::RECIRCULATED,
            AgainKind::Clone => {
                let spare = std::mem::replace(&mut self.phv, phv);
                self.give_back(spare);
                self.made = 0;
                self.v1_clone_ingress(context.request % sessions, request, port, &frame);
                return self.run_copies(out);
            }
        };
        self.v1.instance_type.set(&mut phv, kind);
        self.v1.packet_length.set(&mut phv, frame.len() as u64);
        self.recirculate(port, frame, phv);
    }

    /// The usual way, in machine code as far as it goes; step by step where there is no function for it.
    #[inline]
    fn v1_usual<O: Output>(&mut self, from: u32, mut frame: Frame, out: &mut O) {
        match self.exec.chain(&mut self.phv, frame.data_mut(), &mut self.state) {
            Some(Stopped::Done { kept: port }) => out.push(port, frame),
            Some(Stopped::Prepared { kept: port, headers }) => {
                if let Some(frame) = self.emit(self.stages.egress_deparser, headers, frame) {
                    out.push(port, frame);
                }
            }
            Some(Stopped::At { stop: AFTER_INGRESS, .. }) => self.v1_ingressed(from, frame, out),
            Some(Stopped::At { kept: port, .. }) => self.v1_egressed(from, port, frame, out),
            None => self.v1_ingress(from, frame, out),
        }
    }

    pub(super) fn v1_ingress<O: Output>(&mut self, from: u32, frame: Frame, out: &mut O) {
        self.exec.parse(self.stages.ingress_parser, &mut self.phv, frame.data(), &mut self.state);
        self.v1.parser_error.copy_slot(&mut self.phv, slot::PARSER_ERROR);
        let wrong = self.phv.slot(slot::CHECKSUM_ERROR) != 0;
        self.v1.checksum_error.set(&mut self.phv, u64::from(wrong));

        self.exec.run(self.stages.ingress, &mut self.phv, frame.data(), &mut self.state);
        self.v1_ingressed(from, frame, out);
    }

    /// After the ingress pipeline.
    fn v1_ingressed<O: Output>(&mut self, from: u32, frame: Frame, out: &mut O) {
        if self.phv.slot(slot::ASSERT) != 0 {
            return self.assertion_failed();
        }
        let egress_spec = self.v1.egress_spec.get(&self.phv);
        let group = self.v1.mcast_grp.get(&self.phv);
        if self.phv.slot(slot::CLONE) | self.phv.slot(slot::DIGEST) | self.phv.slot(slot::RESUBMIT) | group
            != 0
        {
            return self.v1_after_ingress(from, egress_spec, group, frame, out);
        }
        if egress_spec == u64::from(self.config.drop_port) {
            return self.drop(DropReason::ProgramDrop);
        }
        self.v1.instance_type.set(&mut self.phv, instance::NORMAL);
        self.v1_enqueue(from, egress_spec as u32, frame, out);
    }

    /// The rarer ways out of ingress.
    #[cold]
    fn v1_after_ingress<O: Output>(
        &mut self,
        from: u32,
        egress_spec: u64,
        group: u64,
        frame: Frame,
        out: &mut O,
    ) {
        let clone = self.phv.slot(slot::CLONE);
        if clone != 0 {
            let list = self.phv.slot(slot::CLONE_FIELDS);
            self.phv.set_slot(slot::CLONE, 0);
            self.phv.set_slot(slot::CLONE_FIELDS, 0);
            self.v1_clone_ingress(clone - 1, list, from, &frame);
        }
        let digest = self.phv.slot(slot::DIGEST);
        if digest != 0 {
            self.phv.set_slot(slot::DIGEST, 0);
            self.learn(digest);
        }
        let resubmit = self.phv.slot(slot::RESUBMIT);
        if resubmit != 0 {
            let mut phv = self.blank(frame.len());
            // bmv2 keeps what is in the field list, and the packet's length; the rest starts at zero.
            if let Some(list) = self.requested_list(resubmit, 2) {
                self.copy_fields(&self.prepared.program.field_lists[list], &mut phv);
            }
            self.v1.instance_type.set(&mut phv, instance::RESUBMITTED);
            self.v1.packet_length.set(&mut phv, frame.len() as u64);
            return self.recirculate(from, frame, phv);
        }
        if group != 0 {
            self.v1.instance_type.set(&mut self.phv, instance::REPLICA);
            Datapath::clear_requests(&mut self.phv);
            self.v1_multicast(group as u32, from, &frame);
            return;
        }
        if egress_spec == u64::from(self.config.drop_port) {
            return self.drop(DropReason::ProgramDrop);
        }
        self.v1.instance_type.set(&mut self.phv, instance::NORMAL);
        if !self.copies.is_empty() {
            // The clone was there first.
            let phv = self.copy();
            return self.v1_queue_copy(egress_spec as u32, from, frame, phv);
        }
        self.v1_enqueue(from, egress_spec as u32, frame, out);
    }

    /// A clone of what came in: the original bytes, parsed again with nothing but the ingress port known, and the
    /// field list's fields.
    fn v1_clone_ingress(&mut self, session: u64, list: u64, from: u32, frame: &Frame) {
        let Some(session) = self.mirrors.get(&((session & SESSION_MASK) as u32)).cloned() else {
            return self.drop(DropReason::NoReplica);
        };
        let Some(copy) = self.clone_frame(frame) else { return };
        let mut phv = self.blank(frame.len());
        self.v1.ingress_port.set(&mut phv, u64::from(from));
        let parser = self.stages.ingress_parser;
        self.exec.parse(parser, &mut phv, copy.data(), &mut self.state);
        self.layout.reset_metadata(&mut phv);
        if let Some(list) = self.requested_list(list, 1) {
            self.copy_fields(&self.prepared.program.field_lists[list], &mut phv);
        }
        self.v1.instance_type.set(&mut phv, instance::INGRESS_CLONE);
        if session.truncate_bytes != 0 {
            phv.set_slot(slot::TRUNCATE, u64::from(session.truncate_bytes) + 1);
        }
        self.v1_to_session(&session, from, copy, phv);
    }

    /// Send a clone where its session says.
    fn v1_to_session(
        &mut self,
        session: &crate::control::MirrorSession,
        from: u32,
        frame: Frame,
        mut phv: Phv,
    ) {
        if session.class_of_service != 0 {
            // A class beyond the last queue has the last: a clone is not lost for it.
            let last = self.queues.priorities() as u64 - 1;
            self.v1.priority.set(&mut phv, u64::from(session.class_of_service).min(last));
        }
        if let Some(group) = session.multicast_group {
            let kept = std::mem::replace(&mut self.phv, phv);
            let last_rid = self.v1_multicast(group, from, &frame);
            let mut phv = std::mem::replace(&mut self.phv, kept);
            if let Some(rid) = last_rid {
                // As in bmv2, which makes all copies of one packet.
                self.v1.egress_rid.set(&mut phv, u64::from(rid));
            }
            match session.egress_port {
                Some(port) => self.v1_queue_copy(port, from, frame, phv),
                None => self.give_back(phv),
            }
        } else if let Some(port) = session.egress_port {
            self.v1_queue_copy(port, from, frame, phv);
        } else {
            self.give_back(phv);
            self.drop(DropReason::NoReplica);
        }
    }

    /// A copy of the current packet for each replica of a group; gives the last one's replication id.
    fn v1_multicast(&mut self, group: u32, from: u32, frame: &Frame) -> Option<u32> {
        let mut last = None;
        self.replicate(group, |datapath, port, rid| {
            last = Some(rid);
            let Some(copy) = datapath.clone_frame(frame) else { return };
            let mut phv = datapath.copy();
            datapath.v1.egress_rid.set(&mut phv, u64::from(rid));
            datapath.v1_queue_copy(port, from, copy, phv);
        });
        last
    }

    fn v1_queue_copy(&mut self, port: u32, from: u32, frame: Frame, mut phv: Phv) {
        let priority = self.v1.priority.get(&phv) as usize;
        if priority >= self.queues.priorities() {
            self.give_back(phv);
            return self.drop(DropReason::BadPriority);
        }
        self.stamp_enqueue(&mut phv, port, priority);
        let job = EgressJob { frame, phv, port, priority, from };
        if self.queues.must_wait(port, priority) {
            if self.queues.push(port, priority, job).is_err() {
                self.drop(DropReason::QueueFull);
            }
        } else {
            self.queue_copy(job);
        }
    }

    fn stamp_enqueue(&self, phv: &mut Phv, port: u32, priority: usize) {
        if self.v1.queueing {
            let now_us = self.now_us();
            self.v1.enq_timestamp.set(phv, now_us);
            self.v1.enq_qdepth.set(phv, self.queues.len(port, priority) as u64);
        }
    }

    /// The current packet to its egress port: at once, unless its queue may have to wait.
    #[inline]
    fn v1_enqueue<O: Output>(&mut self, from: u32, port: u32, frame: Frame, out: &mut O) {
        let priority = self.v1.priority.get(&self.phv) as usize;
        if priority >= self.queues.priorities() {
            return self.drop(DropReason::BadPriority);
        }
        if self.v1.queueing {
            let now_us = self.now_us();
            self.v1.enq_timestamp.set(&mut self.phv, now_us);
            self.v1.enq_qdepth.set(&mut self.phv, self.queues.len(port, priority) as u64);
        }
        if self.queues.must_wait(port, priority) {
            let phv = self.copy();
            if self.queues.push(port, priority, EgressJob { frame, phv, port, priority, from }).is_err() {
                self.drop(DropReason::QueueFull);
            }
            return;
        }
        self.v1_egress(from, port, priority, frame, out);
    }

    pub(super) fn v1_egress<O: Output>(
        &mut self,
        from: u32,
        port: u32,
        priority: usize,
        frame: Frame,
        out: &mut O,
    ) {
        self.v1.egress_global_timestamp.copy_slot(&mut self.phv, slot::NOW_US);
        if self.v1.queueing {
            let waited = self.now_us().wrapping_sub(self.v1.enq_timestamp.get(&self.phv));
            self.v1.deq_timedelta.set(&mut self.phv, waited);
            self.v1.deq_qdepth.set(&mut self.phv, self.queues.len(port, priority) as u64);
            self.v1.qid.set(&mut self.phv, priority as u64);
        }
        self.v1.egress_port.set(&mut self.phv, u64::from(port));
        // Not the drop port: from here on only a program that says so drops.
        self.v1.egress_spec.set(&mut self.phv, u64::from(self.config.drop_port) + 1);
        let len = self.phv.slot(slot::PACKET_LEN).wrapping_add(self.phv.slot(slot::GROWTH));
        self.v1.packet_length.set(&mut self.phv, len);

        self.exec.run(self.stages.egress, &mut self.phv, frame.data(), &mut self.state);
        self.v1_egressed(from, port, frame, out);
    }

    /// After the egress pipeline.
    fn v1_egressed<O: Output>(&mut self, from: u32, port: u32, frame: Frame, out: &mut O) {
        if self.phv.slot(slot::ASSERT) != 0 {
            return self.assertion_failed();
        }
        let clone = self.phv.slot(slot::CLONE);
        if clone != 0 {
            let list = self.phv.slot(slot::CLONE_FIELDS);
            self.phv.set_slot(slot::CLONE, 0);
            self.phv.set_slot(slot::CLONE_FIELDS, 0);
            self.v1_clone_egress(clone - 1, list, from, &frame);
        }
        if self.v1.egress_spec.get(&self.phv) == u64::from(self.config.drop_port) {
            return self.drop(DropReason::ProgramDrop);
        }
        let recirculate = self.phv.slot(slot::RECIRCULATE);
        if recirculate != 0 {
            // bmv2 cuts packets when they leave, and this one stays.
            self.phv.set_slot(slot::TRUNCATE, 0);
        }
        let Some(frame) = self.deparse(self.stages.egress_deparser, frame) else { return };
        if recirculate != 0 {
            let mut phv = self.blank(frame.len());
            if let Some(list) = self.requested_list(recirculate, 2) {
                self.copy_fields(&self.prepared.program.field_lists[list], &mut phv);
            }
            self.v1.instance_type.set(&mut phv, instance::RECIRCULATED);
            self.v1.packet_length.set(&mut phv, frame.len() as u64);
            return self.recirculate(from, frame, phv);
        }
        out.push(port, frame);
    }

    /// A clone of the packet as egress left it: its headers and nothing of its metadata but the field list's fields.
    #[cold]
    fn v1_clone_egress(&mut self, session: u64, list: u64, from: u32, frame: &Frame) {
        let Some(session) = self.mirrors.get(&((session & SESSION_MASK) as u32)).cloned() else {
            return self.drop(DropReason::NoReplica);
        };
        let Some(copy) = self.clone_frame(frame) else { return };
        let mut phv = self.copy();
        self.layout.reset_metadata(&mut phv);
        if let Some(list) = self.requested_list(list, 1) {
            self.copy_fields(&self.prepared.program.field_lists[list], &mut phv);
        }
        self.v1.instance_type.set(&mut phv, instance::EGRESS_CLONE);
        Datapath::clear_requests(&mut phv);
        if session.truncate_bytes != 0 {
            phv.set_slot(slot::TRUNCATE, u64::from(session.truncate_bytes) + 1);
        }
        self.v1_to_session(&session, from, copy, phv);
    }

    #[cold]
    pub(super) fn assertion_failed(&mut self) {
        let reason = if self.phv.slot(slot::ASSERT) == 1 {
            DropReason::AssertFailed
        } else {
            DropReason::AssumeFailed
        };
        self.drop(reason);
    }
}
