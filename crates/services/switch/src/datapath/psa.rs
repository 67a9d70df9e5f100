//! The Portable Switch Architecture: ingress and egress each have their own parser and deparser.

use super::fields::{Meta, PsaFields};
use super::{Datapath, EgressJob, Output, Stages};
use crate::control::MirrorSession;
use barewire_base::DropReason;
use barewire_frame::Frame;
use barewire_p4::chain::{Operand, Step};
use barewire_p4::engine::Engine;
use barewire_p4::ir::Program;
use barewire_p4::phv::{Layout, Phv, slot};

/// The port through which packets go round again.
pub const PORT_RECIRCULATE: u32 = 0xffff_fffa;

/// Values of `packet_path` (PSA specification, PSA_PacketPath_t).
mod path {
    pub const NORMAL: u64 = 0;
    pub const NORMAL_UNICAST: u64 = 1;
    pub const NORMAL_MULTICAST: u64 = 2;
    pub const CLONE_I2E: u64 = 3;
    pub const CLONE_E2E: u64 = 4;
    pub const RESUBMIT: u64 = 5;
    pub const RECIRCULATE: u64 = 6;
}

/// What a compiler for the kernel has to know of the target: the same as [`Datapath::psa_ingress`] and [`Datapath::psa_egress`] for a
/// packet that goes in at one port and out of one.
pub(super) fn kernel_target(program: &Program, drop_port: u32) -> barewire_p4_ebpf::Target {
    let psa = PsaFields::find(program, &Layout::of(program));
    let stages = Stages::find(program);
    let stop = |values: Vec<Operand>| Step::StopIfAny(values, 1);
    let set = |steps: &mut Vec<Step>, field: Meta, value: Operand| {
        steps.extend(field.field().map(|field| Step::Set(field, value)));
    };
    let copy = |steps: &mut Vec<Step>, to: Meta, from: Meta| {
        steps.extend(to.field().zip(from.field()).map(|(to, from)| Step::Set(to, Operand::Field(from))));
    };
    let mut steps = Vec::new();
    if let (Some(drop), Some(out), Some(egress_drop)) =
        (psa.o_drop.field(), psa.o_egress_port.field(), psa.eo_drop.field())
    {
        set(&mut steps, psa.ip_packet_path, Operand::Const(path::NORMAL));
        steps.push(Step::Parse(stages.ingress_parser));
        copy(&mut steps, psa.i_ingress_port, psa.ip_ingress_port);
        copy(&mut steps, psa.i_packet_path, psa.ip_packet_path);
        set(&mut steps, psa.i_parser_error, Operand::Slot(slot::PARSER_ERROR));
        for field in [psa.o_class_of_service, psa.o_clone, psa.o_resubmit, psa.o_multicast_group] {
            set(&mut steps, field, Operand::Const(0));
        }
        set(&mut steps, psa.o_drop, Operand::Const(1));
        steps.push(Step::Run(stages.ingress));
        steps.push(stop(vec![Operand::Slot(slot::ASSERT), Operand::Field(drop)]));
        steps.push(Step::Deparse(stages.ingress_deparser));
        set(&mut steps, psa.e_instance, Operand::Const(0));
        copy(&mut steps, psa.e_class_of_service, psa.o_class_of_service);
        set(&mut steps, psa.ep_packet_path, Operand::Const(path::NORMAL_UNICAST));
        steps.push(Step::Keep(Operand::Field(out)));
        copy(&mut steps, psa.ep_egress_port, psa.o_egress_port);
        set(&mut steps, psa.e_timestamp, Operand::Slot(slot::NOW_US));
        steps.push(Step::Parse(stages.egress_parser));
        copy(&mut steps, psa.e_egress_port, psa.ep_egress_port);
        copy(&mut steps, psa.e_packet_path, psa.ep_packet_path);
        set(&mut steps, psa.e_parser_error, Operand::Slot(slot::PARSER_ERROR));
        for field in [psa.eo_clone, psa.eo_drop] {
            set(&mut steps, field, Operand::Const(0));
        }
        steps.push(Step::Run(stages.egress));
        copy(&mut steps, psa.ed_egress_port, psa.ep_egress_port);
        steps.push(stop(vec![Operand::Slot(slot::ASSERT), Operand::Field(egress_drop)]));
        steps.push(Step::Deparse(stages.egress_deparser));
    }
    let refused = [
        (psa.o_clone, "clones, in PSA programs"),
        (psa.eo_clone, "clones, in PSA programs"),
        (psa.o_resubmit, "resubmission, in PSA programs"),
        (psa.o_multicast_group, "multicast, in PSA programs"),
    ];
    barewire_p4_ebpf::Target {
        steps,
        ingress_port: psa.ip_ingress_port.field(),
        ingress_timestamp: psa.i_timestamp.field(),
        refused: refused.iter().filter_map(|(field, why)| Some((field.field()?, *why))).collect(),
        recirculate_port: Some(PORT_RECIRCULATE),
        drop_port,
        far_jumps: crate::kernel::far_jumps(),
        ..barewire_p4_ebpf::Target::default()
    }
}

impl Datapath {
    /// Take a packet that the kernel's program recirculates, which counts as long as it was when it came in.
    pub(super) fn psa_receive_again(&mut self, len: u64, frame: Frame) {
        let mut phv = self.blank(len as usize);
        self.psa.ip_ingress_port.set(&mut phv, u64::from(PORT_RECIRCULATE));
        self.psa.ip_packet_path.set(&mut phv, path::RECIRCULATE);
        self.recirculate(0, frame, phv);
    }

    pub(super) fn psa_receive<O: Output>(&mut self, port: u32, frame: Frame, out: &mut O) {
        self.psa.ip_packet_path.set(&mut self.phv, path::NORMAL);
        self.psa.ip_ingress_port.set(&mut self.phv, u64::from(port));
        self.psa_ingress(frame, out);
    }

    pub(super) fn psa_ingress<O: Output>(&mut self, frame: Frame, out: &mut O) {
        self.psa.i_timestamp.copy_slot(&mut self.phv, slot::NOW_US);
        self.exec.parse(self.stages.ingress_parser, &mut self.phv, frame.data(), &mut self.state);
        self.psa.i_ingress_port.copy(&mut self.phv, self.psa.ip_ingress_port);
        self.psa.i_packet_path.copy(&mut self.phv, self.psa.ip_packet_path);
        self.psa.i_parser_error.copy_slot(&mut self.phv, slot::PARSER_ERROR);
        self.psa.o_class_of_service.set(&mut self.phv, 0);
        self.psa.o_clone.set(&mut self.phv, 0);
        self.psa.o_drop.set(&mut self.phv, 1);
        self.psa.o_resubmit.set(&mut self.phv, 0);
        self.psa.o_multicast_group.set(&mut self.phv, 0);

        self.exec.run(self.stages.ingress, &mut self.phv, frame.data(), &mut self.state);
        if self.phv.slot(slot::ASSERT) != 0 {
            return self.assertion_failed();
        }
        let class = self.psa.o_class_of_service.get(&self.phv);
        if self.psa.o_clone.get(&self.phv) != 0 {
            let session = self.psa.o_clone_session.get(&self.phv) as u32;
            self.psa_clone(session, path::CLONE_I2E, &frame);
        }
        if self.psa.o_drop.get(&self.phv) != 0 {
            return self.drop(DropReason::ProgramDrop);
        }
        if self.psa.o_resubmit.get(&self.phv) != 0 {
            let mut phv = self.blank_as_long();
            self.psa.ip_packet_path.set(&mut phv, path::RESUBMIT);
            return self.recirculate(0, frame, phv);
        }
        let Some(frame) = self.deparse(self.stages.ingress_deparser, frame) else { return };
        let digest = self.phv.slot(slot::DIGEST);
        if digest != 0 {
            self.phv.set_slot(slot::DIGEST, 0);
            self.learn(digest);
        }
        Datapath::clear_requests(&mut self.phv);
        let group = self.psa.o_multicast_group.get(&self.phv);
        if group != 0 {
            return self.psa_multicast(group as u32, path::NORMAL_MULTICAST, class, &frame);
        }
        self.psa.e_instance.set(&mut self.phv, 0);
        self.psa.e_class_of_service.set(&mut self.phv, class);
        self.psa.ep_packet_path.set(&mut self.phv, path::NORMAL_UNICAST);
        let port = self.psa.o_egress_port.get(&self.phv) as u32;
        if self.queues.must_wait(port, 0) {
            let phv = self.copy();
            if self.queues.push(port, 0, EgressJob { frame, phv, port, priority: 0, from: 0 }).is_err() {
                self.drop(DropReason::QueueFull);
            }
            return;
        }
        if !self.copies.is_empty() {
            // The clone was there first.
            let phv = self.copy();
            return self.psa_queue_copy(port, frame, phv);
        }
        self.psa_egress(port, frame, out);
    }

    pub(super) fn psa_egress<O: Output>(&mut self, port: u32, frame: Frame, out: &mut O) {
        // What counters count stays the length of what came in, as in bmv2.
        self.invalidate_headers();
        self.psa.ep_egress_port.set(&mut self.phv, u64::from(port));
        self.psa.e_timestamp.copy_slot(&mut self.phv, slot::NOW_US);
        self.exec.parse(self.stages.egress_parser, &mut self.phv, frame.data(), &mut self.state);
        self.psa.e_egress_port.copy(&mut self.phv, self.psa.ep_egress_port);
        self.psa.e_packet_path.copy(&mut self.phv, self.psa.ep_packet_path);
        self.psa.e_parser_error.copy_slot(&mut self.phv, slot::PARSER_ERROR);
        self.psa.eo_clone.set(&mut self.phv, 0);
        self.psa.eo_drop.set(&mut self.phv, 0);

        self.exec.run(self.stages.egress, &mut self.phv, frame.data(), &mut self.state);
        if self.phv.slot(slot::ASSERT) != 0 {
            return self.assertion_failed();
        }
        self.psa.ed_egress_port.copy(&mut self.phv, self.psa.ep_egress_port);
        let Some(frame) = self.deparse(self.stages.egress_deparser, frame) else { return };
        let digest = self.phv.slot(slot::DIGEST);
        if digest != 0 {
            self.phv.set_slot(slot::DIGEST, 0);
            self.learn(digest);
        }
        if self.psa.eo_clone.get(&self.phv) != 0 {
            let session = self.psa.eo_clone_session.get(&self.phv) as u32;
            self.psa_clone(session, path::CLONE_E2E, &frame);
        }
        if self.psa.eo_drop.get(&self.phv) != 0 {
            return self.drop(DropReason::ProgramDrop);
        }
        if port == PORT_RECIRCULATE {
            let mut phv = self.blank_as_long();
            self.psa.ip_ingress_port.set(&mut phv, u64::from(PORT_RECIRCULATE));
            self.psa.ip_packet_path.set(&mut phv, path::RECIRCULATE);
            return self.recirculate(0, frame, phv);
        }
        out.push(port, frame);
    }

    /// A clone of the frame as it is now, with nothing of its metadata.
    fn psa_clone(&mut self, session: u32, how: u64, frame: &Frame) {
        let Some(session) = self.mirrors.get(&session).cloned() else {
            return self.drop(DropReason::NoReplica);
        };
        let MirrorSession { egress_port, multicast_group, truncate_bytes, class_of_service } = session;
        let class = u64::from(class_of_service);
        let Some(mut copy) = self.clone_frame(frame) else { return };
        if truncate_bytes != 0 && (truncate_bytes as usize) < copy.len() {
            let _shorter = copy.set_len(truncate_bytes as usize);
        }
        let mut phv = self.blank_as_long();
        self.psa.ep_packet_path.set(&mut phv, how);
        self.psa.e_class_of_service.set(&mut phv, class);
        if let Some(group) = multicast_group {
            let kept = std::mem::replace(&mut self.phv, phv);
            self.psa_multicast(group, how, class, &copy);
            phv = std::mem::replace(&mut self.phv, kept);
        }
        match egress_port {
            Some(port) => self.psa_queue_copy(port, copy, phv),
            None => self.give_back(phv),
        }
    }

    fn psa_multicast(&mut self, group: u32, how: u64, class: u64, frame: &Frame) {
        self.replicate(group, |datapath, port, rid| {
            let Some(copy) = datapath.clone_frame(frame) else { return };
            let mut phv = datapath.copy();
            datapath.psa.e_class_of_service.set(&mut phv, class);
            datapath.psa.e_instance.set(&mut phv, u64::from(rid));
            datapath.psa.ep_packet_path.set(&mut phv, how);
            datapath.psa_queue_copy(port, copy, phv);
        });
    }

    fn psa_queue_copy(&mut self, port: u32, frame: Frame, phv: Phv) {
        let job = EgressJob { frame, phv, port, priority: 0, from: 0 };
        if self.queues.must_wait(port, 0) {
            if self.queues.push(port, 0, job).is_err() {
                self.drop(DropReason::QueueFull);
            }
        } else {
            self.queue_copy(job);
        }
    }

    /// A blank vector for a packet that counts as long as the current one.
    fn blank_as_long(&mut self) -> Phv {
        let len = self.phv.slot(slot::PACKET_LEN) as usize;
        self.blank(len)
    }

    /// What egress parses is a new packet: no header of ingress is left.
    fn invalidate_headers(&mut self) {
        let metadata = self.layout.metadata_word as usize..self.layout.headers_word as usize;
        let mut phv = self.blank_as_long();
        phv.words_mut()[metadata.clone()].copy_from_slice(&self.phv.words()[metadata]);
        let old = std::mem::replace(&mut self.phv, phv);
        self.give_back(old);
    }
}
