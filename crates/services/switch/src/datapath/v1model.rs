//! v1model and P4_14: what happens between parser and deparser, with bmv2's order and its exceptions.

use super::fields::V1Fields;
use super::{Datapath, EgressJob, Output};
use barewire_base::DropReason;
use barewire_frame::Frame;
use barewire_p4::engine::Engine;
use barewire_p4::phv::{Phv, slot};

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

impl Datapath {
    #[inline]
    pub(super) fn v1_receive<O: Output>(&mut self, fields: &V1Fields, port: u32, frame: Frame, out: &mut O) {
        fields.ingress_port.set(&mut self.phv, u64::from(port));
        fields.packet_length.set(&mut self.phv, frame.len() as u64);
        fields.ingress_global_timestamp.copy_slot(&mut self.phv, slot::NOW_US);
        self.v1_ingress(fields, port, frame, out);
    }

    pub(super) fn v1_ingress<O: Output>(&mut self, fields: &V1Fields, from: u32, frame: Frame, out: &mut O) {
        self.exec.parse(self.stages.ingress_parser, &mut self.phv, frame.data(), &mut self.state);
        fields.parser_error.copy_slot(&mut self.phv, slot::PARSER_ERROR);
        let wrong = self.phv.slot(slot::CHECKSUM_ERROR) != 0;
        fields.checksum_error.set(&mut self.phv, u64::from(wrong));

        self.exec.run(self.stages.ingress, &mut self.phv, frame.data(), &mut self.state);
        if self.phv.slot(slot::ASSERT) != 0 {
            return self.assertion_failed();
        }

        let egress_spec = fields.egress_spec.get(&self.phv);
        let group = fields.mcast_grp.get(&self.phv);
        if self.phv.slot(slot::CLONE) | self.phv.slot(slot::DIGEST) | self.phv.slot(slot::RESUBMIT) | group
            != 0
        {
            return self.v1_after_ingress(fields, from, egress_spec, group, frame, out);
        }
        if egress_spec == u64::from(self.config.drop_port) {
            return self.drop(DropReason::ProgramDrop);
        }
        fields.instance_type.set(&mut self.phv, instance::NORMAL);
        self.v1_enqueue(fields, from, egress_spec as u32, frame, out);
    }

    /// The rarer ways out of ingress.
    #[cold]
    fn v1_after_ingress<O: Output>(
        &mut self,
        fields: &V1Fields,
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
            self.v1_clone_ingress(fields, clone - 1, list, from, &frame);
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
            fields.instance_type.set(&mut phv, instance::RESUBMITTED);
            fields.packet_length.set(&mut phv, frame.len() as u64);
            return self.go_again(from, frame, phv);
        }
        if group != 0 {
            fields.instance_type.set(&mut self.phv, instance::REPLICA);
            Datapath::clear_requests(&mut self.phv);
            self.v1_multicast(fields, group as u32, from, &frame);
            return;
        }
        if egress_spec == u64::from(self.config.drop_port) {
            return self.drop(DropReason::ProgramDrop);
        }
        fields.instance_type.set(&mut self.phv, instance::NORMAL);
        if !self.copies.is_empty() {
            // The clone was there first.
            let phv = self.copy();
            return self.v1_queue_copy(fields, egress_spec as u32, from, frame, phv);
        }
        self.v1_enqueue(fields, from, egress_spec as u32, frame, out);
    }

    /// A clone of what came in: the original bytes, parsed again with nothing but the ingress port known, and the
    /// field list's fields.
    fn v1_clone_ingress(&mut self, fields: &V1Fields, session: u64, list: u64, from: u32, frame: &Frame) {
        let Some(session) = self.mirrors.get(&((session & SESSION_MASK) as u32)).cloned() else {
            return self.drop(DropReason::NoReplica);
        };
        let Some(copy) = self.clone_frame(frame) else { return };
        let mut phv = self.blank(frame.len());
        fields.ingress_port.set(&mut phv, u64::from(from));
        let parser = self.stages.ingress_parser;
        self.exec.parse(parser, &mut phv, copy.data(), &mut self.state);
        self.layout.reset_metadata(&mut phv);
        if let Some(list) = self.requested_list(list, 1) {
            self.copy_fields(&self.prepared.program.field_lists[list], &mut phv);
        }
        fields.instance_type.set(&mut phv, instance::INGRESS_CLONE);
        if session.truncate_bytes != 0 {
            phv.set_slot(slot::TRUNCATE, u64::from(session.truncate_bytes) + 1);
        }
        self.v1_to_session(fields, &session, from, copy, phv);
    }

    /// Send a clone where its session says.
    fn v1_to_session(
        &mut self,
        fields: &V1Fields,
        session: &crate::control::MirrorSession,
        from: u32,
        frame: Frame,
        mut phv: Phv,
    ) {
        if session.class_of_service != 0 {
            // A class beyond the last queue has the last: a clone is not lost for it.
            let last = self.queues.priorities() as u64 - 1;
            fields.priority.set(&mut phv, u64::from(session.class_of_service).min(last));
        }
        if let Some(group) = session.multicast_group {
            let kept = std::mem::replace(&mut self.phv, phv);
            self.v1_multicast(fields, group, from, &frame);
            let phv = std::mem::replace(&mut self.phv, kept);
            match session.egress_port {
                Some(port) => self.v1_queue_copy(fields, port, from, frame, phv),
                None => self.give_back(phv),
            }
        } else if let Some(port) = session.egress_port {
            self.v1_queue_copy(fields, port, from, frame, phv);
        } else {
            self.give_back(phv);
            self.drop(DropReason::NoReplica);
        }
    }

    /// A copy of the current packet for each replica of a group.
    fn v1_multicast(&mut self, fields: &V1Fields, group: u32, from: u32, frame: &Frame) {
        let fields = *fields;
        self.replicate(group, |datapath, port, rid| {
            let Some(copy) = datapath.clone_frame(frame) else { return };
            let mut phv = datapath.copy();
            fields.egress_rid.set(&mut phv, u64::from(rid));
            datapath.v1_queue_copy(&fields, port, from, copy, phv);
        });
    }

    fn v1_queue_copy(&mut self, fields: &V1Fields, port: u32, from: u32, frame: Frame, mut phv: Phv) {
        let priority = fields.priority.get(&phv) as usize;
        if priority >= self.queues.priorities() {
            self.give_back(phv);
            return self.drop(DropReason::BadPriority);
        }
        self.stamp_enqueue(fields, &mut phv, port, priority);
        let job = EgressJob { frame, phv, port, priority, from };
        if self.queues.must_wait(port, priority) {
            if self.queues.push(port, priority, job).is_err() {
                self.drop(DropReason::QueueFull);
            }
        } else {
            self.queue_copy(job);
        }
    }

    fn stamp_enqueue(&self, fields: &V1Fields, phv: &mut Phv, port: u32, priority: usize) {
        if fields.queueing {
            let now_us = self.now_us();
            fields.enq_timestamp.set(phv, now_us);
            fields.enq_qdepth.set(phv, self.queues.len(port, priority) as u64);
        }
    }

    /// The current packet to its egress port: at once, unless its queue may have to wait.
    #[inline]
    fn v1_enqueue<O: Output>(&mut self, fields: &V1Fields, from: u32, port: u32, frame: Frame, out: &mut O) {
        let priority = fields.priority.get(&self.phv) as usize;
        if priority >= self.queues.priorities() {
            return self.drop(DropReason::BadPriority);
        }
        if fields.queueing {
            let now_us = self.now_us();
            fields.enq_timestamp.set(&mut self.phv, now_us);
            fields.enq_qdepth.set(&mut self.phv, self.queues.len(port, priority) as u64);
        }
        if self.queues.must_wait(port, priority) {
            let phv = self.copy();
            if self.queues.push(port, priority, EgressJob { frame, phv, port, priority, from }).is_err() {
                self.drop(DropReason::QueueFull);
            }
            return;
        }
        self.v1_egress(fields, from, port, priority, frame, out);
    }

    pub(super) fn v1_egress<O: Output>(
        &mut self,
        fields: &V1Fields,
        from: u32,
        port: u32,
        priority: usize,
        frame: Frame,
        out: &mut O,
    ) {
        let drop_port = self.config.drop_port;
        fields.egress_global_timestamp.copy_slot(&mut self.phv, slot::NOW_US);
        if fields.queueing {
            let waited = self.now_us().wrapping_sub(fields.enq_timestamp.get(&self.phv));
            fields.deq_timedelta.set(&mut self.phv, waited);
            fields.deq_qdepth.set(&mut self.phv, self.queues.len(port, priority) as u64);
            fields.qid.set(&mut self.phv, priority as u64);
        }
        fields.egress_port.set(&mut self.phv, u64::from(port));
        // Not the drop port: from here on only a program that says so drops.
        fields.egress_spec.set(&mut self.phv, u64::from(drop_port) + 1);
        let len = self.phv.slot(slot::PACKET_LEN).wrapping_add(self.phv.slot(slot::GROWTH));
        fields.packet_length.set(&mut self.phv, len);

        self.exec.run(self.stages.egress, &mut self.phv, frame.data(), &mut self.state);
        if self.phv.slot(slot::ASSERT) != 0 {
            return self.assertion_failed();
        }
        let clone = self.phv.slot(slot::CLONE);
        if clone != 0 {
            let list = self.phv.slot(slot::CLONE_FIELDS);
            self.phv.set_slot(slot::CLONE, 0);
            self.phv.set_slot(slot::CLONE_FIELDS, 0);
            self.v1_clone_egress(fields, clone - 1, list, from, &frame);
        }
        if fields.egress_spec.get(&self.phv) == u64::from(drop_port) {
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
            fields.instance_type.set(&mut phv, instance::RECIRCULATED);
            fields.packet_length.set(&mut phv, frame.len() as u64);
            return self.go_again(from, frame, phv);
        }
        out.push(port, frame);
    }

    /// A clone of the packet as egress left it: its headers and nothing of its metadata but the field list's fields.
    #[cold]
    fn v1_clone_egress(&mut self, fields: &V1Fields, session: u64, list: u64, from: u32, frame: &Frame) {
        let Some(session) = self.mirrors.get(&((session & SESSION_MASK) as u32)).cloned() else {
            return self.drop(DropReason::NoReplica);
        };
        let Some(copy) = self.clone_frame(frame) else { return };
        let mut phv = self.copy();
        self.layout.reset_metadata(&mut phv);
        if let Some(list) = self.requested_list(list, 1) {
            self.copy_fields(&self.prepared.program.field_lists[list], &mut phv);
        }
        fields.instance_type.set(&mut phv, instance::EGRESS_CLONE);
        Datapath::clear_requests(&mut phv);
        if session.truncate_bytes != 0 {
            phv.set_slot(slot::TRUNCATE, u64::from(session.truncate_bytes) + 1);
        }
        self.v1_to_session(fields, &session, from, copy, phv);
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
