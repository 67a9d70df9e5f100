//! The metadata fields through which a target and a program talk: found by name once, then a word and a mask.

use barewire_p4::ir::{FieldId, FieldRef, KeySource, ListItem, Node, ParserOp, Program};
use barewire_p4::phv::{Layout, Phv, Place};
use std::collections::BTreeSet;

/// A metadata field of at most 64 bits. An absent one reads 0 and ignores writes.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    word: u32,
    mask: u64,
    field: Option<FieldId>,
}

impl Meta {
    const ABSENT: Meta = Meta { word: 0, mask: 0, field: None };

    /// The field by the header's and its own name, or its alias; absent if the program has none.
    pub fn find(program: &Program, layout: &Layout, header: &str, field: &str) -> Meta {
        let Some(id) =
            program.plain_field(header, field).or_else(|| program.field(&format!("{header}.{field}")))
        else {
            return Meta::ABSENT;
        };
        match layout.place(id) {
            Place::Words { word, width, .. } => {
                let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
                Meta { word, mask, field: (mask != 0).then_some(id) }
            }
            _ => Meta::ABSENT,
        }
    }

    /// Whether the program has it.
    pub fn is_present(&self) -> bool {
        self.mask != 0
    }

    /// The field, if the program has it.
    pub fn field(&self) -> Option<FieldId> {
        self.field
    }

    /// Its value.
    #[inline]
    pub fn get(&self, phv: &Phv) -> u64 {
        phv.words()[self.word as usize] & self.mask
    }

    /// Write its low bits.
    #[inline]
    pub fn set(&self, phv: &mut Phv, value: u64) {
        if self.mask != 0 {
            phv.words_mut()[self.word as usize] = value & self.mask;
        }
    }
}

impl Meta {
    /// Copy a fixed slot's value into it.
    #[inline]
    pub fn copy_slot(&self, phv: &mut Phv, slot: usize) {
        let value = phv.slot(slot);
        self.set(phv, value);
    }

    /// Copy another field's value into it.
    #[inline]
    pub fn copy(&self, phv: &mut Phv, from: Meta) {
        let value = from.get(phv);
        self.set(phv, value);
    }
}

/// Everything of a program that may read a metadata field: what none of it reads, a target need not write.
struct Readers {
    fields: BTreeSet<FieldId>,
}

impl Readers {
    fn of(program: &Program) -> Readers {
        let mut fields = BTreeSet::new();
        let mut add = |field: &FieldRef| {
            fields.extend(field.fixed());
        };
        program.actions.iter().flat_map(|a| &a.body).for_each(|stmt| stmt.fields_read(&mut add));
        program.deparsers.iter().flat_map(|d| &d.stmts).for_each(|stmt| stmt.fields_read(&mut add));
        for state in program.parsers.iter().flat_map(|p| &p.states) {
            state.key.iter().for_each(|(expr, _)| expr.fields_read(&mut add));
            for op in &state.ops {
                match op {
                    ParserOp::ExtractVarbit { bits, .. } | ParserOp::Advance { bits } => {
                        bits.fields_read(&mut add)
                    }
                    ParserOp::Verify { condition, error } => {
                        condition.fields_read(&mut add);
                        error.fields_read(&mut add);
                    }
                    ParserOp::Stmt(stmt) => stmt.fields_read(&mut add),
                    _ => {}
                }
            }
        }
        for node in program.pipelines.iter().flat_map(|p| &p.nodes) {
            if let Node::If { condition, .. } = node {
                condition.fields_read(&mut add);
            }
        }
        for key in program.tables.iter().flat_map(|t| &t.key) {
            if let KeySource::Field(field) = &key.source {
                add(field);
            }
        }
        let selectors = program.profiles.iter().filter_map(|p| p.selector.as_ref()).flat_map(|s| &s.input);
        let inputs = program.calculations.iter().flat_map(|c| &c.input).chain(selectors);
        let learned = program.learn_lists.iter().flat_map(|l| &l.items).map(|(input, _)| input);
        inputs.chain(learned).for_each(|input| input.fields_read(&mut add));
        program.checksums.iter().filter_map(|c| c.condition.as_ref()).for_each(|c| c.fields_read(&mut add));
        for item in program.field_lists.iter().flat_map(|l| &l.items) {
            if let ListItem::Field(field) = item {
                add(field);
            }
        }
        Readers { fields }
    }
}

/// v1model's and P4_14's intrinsic metadata. The queueing fields are used all or none, as in bmv2.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct V1Fields {
    pub ingress_port: Meta,
    pub packet_length: Meta,
    pub instance_type: Meta,
    pub egress_spec: Meta,
    pub egress_port: Meta,
    pub parser_error: Meta,
    pub checksum_error: Meta,
    pub priority: Meta,
    pub mcast_grp: Meta,
    pub egress_rid: Meta,
    pub ingress_global_timestamp: Meta,
    pub egress_global_timestamp: Meta,
    pub enq_timestamp: Meta,
    pub enq_qdepth: Meta,
    pub deq_timedelta: Meta,
    pub deq_qdepth: Meta,
    pub qid: Meta,
    pub queueing: bool,
}

impl V1Fields {
    /// Find them all.
    pub fn find(program: &Program, layout: &Layout) -> V1Fields {
        let standard = |field| Meta::find(program, layout, "standard_metadata", field);
        let either = |header, field| {
            let found = Meta::find(program, layout, header, field);
            if found.is_present() { found } else { Meta::find(program, layout, "standard_metadata", field) }
        };
        let intrinsic = |field| either("intrinsic_metadata", field);
        let queueing = |field| either("queueing_metadata", field);
        let mut fields = V1Fields {
            ingress_port: standard("ingress_port"),
            packet_length: standard("packet_length"),
            instance_type: standard("instance_type"),
            egress_spec: standard("egress_spec"),
            egress_port: standard("egress_port"),
            parser_error: standard("parser_error"),
            checksum_error: standard("checksum_error"),
            priority: intrinsic("priority"),
            mcast_grp: intrinsic("mcast_grp"),
            egress_rid: intrinsic("egress_rid"),
            ingress_global_timestamp: intrinsic("ingress_global_timestamp"),
            egress_global_timestamp: intrinsic("egress_global_timestamp"),
            enq_timestamp: queueing("enq_timestamp"),
            enq_qdepth: queueing("enq_qdepth"),
            deq_timedelta: queueing("deq_timedelta"),
            deq_qdepth: queueing("deq_qdepth"),
            qid: queueing("qid"),
            queueing: false,
        };
        fields.queueing = [fields.enq_timestamp, fields.enq_qdepth, fields.deq_timedelta, fields.deq_qdepth]
            .iter()
            .all(Meta::is_present);
        let readers = Readers::of(program);
        let read = |header: &str, name: &str| {
            let plain = program.plain_field(header, name);
            let found = plain.or_else(|| program.plain_field("standard_metadata", name));
            found.is_some_and(|id| readers.fields.contains(&id))
        };
        for (meta, name) in [
            (&mut fields.packet_length, "packet_length"),
            (&mut fields.instance_type, "instance_type"),
            (&mut fields.parser_error, "parser_error"),
            (&mut fields.checksum_error, "checksum_error"),
        ] {
            if !read("standard_metadata", name) {
                *meta = Meta::ABSENT;
            }
        }
        for (meta, name) in [
            (&mut fields.ingress_global_timestamp, "ingress_global_timestamp"),
            (&mut fields.egress_global_timestamp, "egress_global_timestamp"),
        ] {
            if !read("intrinsic_metadata", name) {
                *meta = Meta::ABSENT;
            }
        }
        let queueing = ["enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth", "qid"];
        fields.queueing &= queueing.iter().any(|name| read("queueing_metadata", name));
        fields
    }
}

/// PSA's metadata, by the names its architecture gives the parameters.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct PsaFields {
    pub ip_ingress_port: Meta,
    pub ip_packet_path: Meta,
    pub i_ingress_port: Meta,
    pub i_packet_path: Meta,
    pub i_timestamp: Meta,
    pub i_parser_error: Meta,
    pub o_class_of_service: Meta,
    pub o_clone: Meta,
    pub o_clone_session: Meta,
    pub o_drop: Meta,
    pub o_resubmit: Meta,
    pub o_multicast_group: Meta,
    pub o_egress_port: Meta,
    pub ep_egress_port: Meta,
    pub ep_packet_path: Meta,
    pub e_class_of_service: Meta,
    pub e_egress_port: Meta,
    pub e_packet_path: Meta,
    pub e_instance: Meta,
    pub e_timestamp: Meta,
    pub e_parser_error: Meta,
    pub eo_clone: Meta,
    pub eo_clone_session: Meta,
    pub eo_drop: Meta,
    pub ed_egress_port: Meta,
}

impl PsaFields {
    /// Find them all.
    pub fn find(program: &Program, layout: &Layout) -> PsaFields {
        let f = |header, field| Meta::find(program, layout, header, field);
        PsaFields {
            ip_ingress_port: f("psa_ingress_parser_input_metadata", "ingress_port"),
            ip_packet_path: f("psa_ingress_parser_input_metadata", "packet_path"),
            i_ingress_port: f("psa_ingress_input_metadata", "ingress_port"),
            i_packet_path: f("psa_ingress_input_metadata", "packet_path"),
            i_timestamp: f("psa_ingress_input_metadata", "ingress_timestamp"),
            i_parser_error: f("psa_ingress_input_metadata", "parser_error"),
            o_class_of_service: f("psa_ingress_output_metadata", "class_of_service"),
            o_clone: f("psa_ingress_output_metadata", "clone"),
            o_clone_session: f("psa_ingress_output_metadata", "clone_session_id"),
            o_drop: f("psa_ingress_output_metadata", "drop"),
            o_resubmit: f("psa_ingress_output_metadata", "resubmit"),
            o_multicast_group: f("psa_ingress_output_metadata", "multicast_group"),
            o_egress_port: f("psa_ingress_output_metadata", "egress_port"),
            ep_egress_port: f("psa_egress_parser_input_metadata", "egress_port"),
            ep_packet_path: f("psa_egress_parser_input_metadata", "packet_path"),
            e_class_of_service: f("psa_egress_input_metadata", "class_of_service"),
            e_egress_port: f("psa_egress_input_metadata", "egress_port"),
            e_packet_path: f("psa_egress_input_metadata", "packet_path"),
            e_instance: f("psa_egress_input_metadata", "instance"),
            e_timestamp: f("psa_egress_input_metadata", "egress_timestamp"),
            e_parser_error: f("psa_egress_input_metadata", "parser_error"),
            eo_clone: f("psa_egress_output_metadata", "clone"),
            eo_clone_session: f("psa_egress_output_metadata", "clone_session_id"),
            eo_drop: f("psa_egress_output_metadata", "drop"),
            ed_egress_port: f("psa_egress_deparser_input_metadata", "egress_port"),
        }
    }
}
