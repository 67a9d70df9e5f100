//! Applying a table: the key, the look-up, the entry's or the default record, the action.

use crate::Reason;
use crate::fields::Found;
use crate::r#gen::{Gen, Made, RECORD, VECTOR};
use crate::maps::{GROUP, GROUP_LEN, MAX_KEY, MAX_MASKS, TableShape, fixed, mask};
use crate::pipeline::{DISPATCH, NO_ACTION};
use barewire_ebpf::{Alu, Bits, Cond, Label, Reg, Size};
use barewire_p4::ir::{
    ActionId, FieldId, KeySource, NextNode, NodeId, ProfileId, TableActions, TableId, TableKind,
};
use barewire_p4::phv::slot;
use num_bigint::BigUint;

/// Scratch words: whether an entry was hit, the best ternary match and its word, the entry's number.
const HIT: u32 = 48;
const BEST: u32 = 49;
const BEST_WORD: u32 = 50;
const ENTRY: u32 = 51;
/// A group and a place in it, and the selector's hash.
const PLACE: u32 = 52;
const HASH: u32 = 53;

impl Gen<'_> {
    /// Actions that a table can run.
    pub fn table_actions(&self, table: TableId) -> Vec<ActionId> {
        let ir = &self.program.tables[table.at()];
        let mut actions = ir.actions.clone();
        actions.extend(ir.default.iter().map(|call| call.action));
        actions.sort();
        actions.dedup();
        actions
    }

    /// Whether applying a table leaves a mark, whatever its actions do.
    pub fn table_counts(&self, table: TableId) -> bool {
        self.shape.tables[table.at()].direct.is_some() || self.program.tables[table.at()].meter.is_some()
    }

    /// What a table needs that the kernel has not.
    pub fn table_possible(&mut self, table: TableId) -> Made {
        let ir = &self.program.tables[table.at()];
        let entry = self.scratch(ENTRY);
        self.meter_entry(table, entry)?;
        if let TableActions::Profile(profile) = ir.source
            && self.program.profiles[profile.at()].selector.is_some()
        {
            self.selector_hash(profile).map_err(|_| Reason::No("an action selector's hash"))?;
        }
        if self.shape.tables[table.at()].key.bytes > MAX_KEY {
            return Err(Reason::No("a key of more than 200 bytes"));
        }
        self.key(table)
    }

    /// Put a table's key together, as its map wants it.
    fn key(&mut self, table: TableId) -> Made {
        let ir = &self.program.tables[table.at()];
        let shape = self.shape.tables[table.at()].clone();
        let mut at = self.shape.key_at as i16;
        if ir.kind == TableKind::Lpm && !shape.is_const() {
            self.asm.store_imm(Size::W, VECTOR, at, 8 * shape.key.bytes as i32);
            at += 4;
        }
        for field in shape.order() {
            let (key, bytes) = (&ir.key[field], shape.key.slots[field].bytes);
            self.key_field(&key.source, key.mask.as_ref(), bytes, at)?;
            at += bytes as i16;
        }
        Ok(())
    }

    fn key_field(&mut self, source: &KeySource, mask: Option<&BigUint>, bytes: u32, at: i16) -> Made {
        let field = match source {
            KeySource::Valid(header) => {
                self.load_valid_ref(header, 0)?;
                if let Some(mask) = mask {
                    self.asm.constant(Reg::R1, mask.iter_u64_digits().next().unwrap_or(0));
                    self.asm.alu(Alu::And, Reg::R0, Reg::R1);
                }
                self.store_be(at, bytes, Reg::R0);
                return Ok(());
            }
            KeySource::Field(field) => field,
        };
        let words = bytes.div_ceil(8);
        for word in (0..words).rev() {
            match self.header(&field.header)? {
                Found::Fixed(header) => {
                    let id = FieldId { header, field: field.field };
                    let place = self.field_place(id)?;
                    self.load_place(place, word, Reg::R0, false)?;
                    self.only_if_valid(header);
                }
                Found::Nothing => self.asm.mov_imm(Reg::R0, 0),
                Found::Among(elements, index) => {
                    self.index(&index, 0)?;
                    let number = field.field;
                    self.among(&elements, 0, &mut |this, header| {
                        let place = this.field_place(FieldId { header, field: number })?;
                        this.load_place(place, word, Reg::R0, false)?;
                        this.only_if_valid(header);
                        Ok(())
                    })?;
                }
            }
            if let Some(mask) = mask {
                self.asm.constant(Reg::R1, mask.iter_u64_digits().nth(word as usize).unwrap_or(0));
                self.asm.alu(Alu::And, Reg::R0, Reg::R1);
            }
            let here = (bytes - 8 * word).min(8);
            self.store_be(at + (bytes - 8 * word - here) as i16, here, Reg::R0);
        }
        Ok(())
    }

    /// r0 becomes 0 if the header is not valid. Loses r1.
    fn only_if_valid(&mut self, header: barewire_p4::ir::HeaderId) {
        if !self.is_metadata(header) {
            self.load_valid(header, Reg::R1);
            self.asm.neg(Reg::R1);
            self.asm.alu(Alu::And, Reg::R0, Reg::R1);
        }
    }

    /// `r1` = the first word of the matching entry's record, or on to `miss`. Of a record that has more r8 is the address.
    fn find(&mut self, table: TableId, miss: Label) -> Made {
        let kind = self.program.tables[table.at()].kind;
        let shape = self.shape.tables[table.at()].clone();
        let (Some(entries), key_at) = (shape.entries, self.shape.key_at) else {
            return Err(Reason::No("a table without a map"));
        };
        self.key(table)?;
        let bytes = shape.key.bytes;
        if shape.is_const() {
            self.find_const(&shape, entries, miss);
            return Ok(());
        }
        if shape.indexed {
            let two = bytes == 2;
            self.asm.load(if two { Size::H } else { Size::B }, Reg::R1, VECTOR, key_at as i16);
            if two {
                self.asm.to_be(Reg::R1, 16);
            }
            self.word_at(entries, shape.records, miss);
            return Ok(());
        }
        if kind == TableKind::Exact {
            self.lookup_own(entries, key_at, bytes, &[Reg::R1], miss);
            self.record(shape.records, miss);
            return Ok(());
        }
        if kind == TableKind::Lpm {
            self.lookup(entries, key_at);
            self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, miss);
            self.asm.load(Size::D, Reg::R1, Reg::R0, 0);
            self.record(shape.records, miss);
            return Ok(());
        }
        let Some(masks) = shape.masks else { return Err(Reason::No("a table without a map")) };
        let (best, word_at) = (self.scratch(BEST), self.scratch(BEST_WORD));
        // The mask's number stands right before the masked key, which begins at a word.
        let masked = key_at + MAX_KEY + 16;
        let chunks = bytes.div_ceil(8);
        for byte in bytes..8 * chunks {
            self.asm.store_imm(Size::B, VECTOR, (key_at + byte) as i16, 0);
        }
        self.asm.store_imm(Size::D, VECTOR, best, -1);
        let (again, next, done) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.mov_imm(Reg::R7, 0);
        self.asm.place(again);
        self.asm.jump_if_imm(Bits::B64, Cond::Ge, Reg::R7, MAX_MASKS as i32, done);
        self.lookup_index(masks, Reg::R7);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, done);
        // What it is and its number at once: the number of another mask has no entries that are looked for under this one.
        self.asm.load(Size::D, Reg::R1, Reg::R0, 0);
        self.asm.alu32(Alu::Mov, Reg::R2, Reg::R1);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R2, mask::END as i32, done);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R2, mask::HOLE as i32, next);
        self.asm.alu_imm(Alu::Rsh, Reg::R1, 32);
        self.asm.store(Size::W, VECTOR, masked as i16 - 4, Reg::R1);
        for chunk in 0..chunks {
            self.asm.load(Size::D, Reg::R1, VECTOR, (key_at + 8 * chunk) as i16);
            self.asm.load(Size::D, Reg::R2, Reg::R0, 8 + 8 * chunk as i16);
            self.asm.alu(Alu::And, Reg::R1, Reg::R2);
            self.asm.store(Size::D, VECTOR, (masked + 8 * chunk) as i16, Reg::R1);
        }
        self.lookup_own(entries, masked - 4, 4 + bytes, &[Reg::R1, Reg::R3], next);
        self.asm.load(Size::D, Reg::R2, VECTOR, best);
        self.asm.jump_if(Bits::B64, Cond::Ge, Reg::R1, Reg::R2, next);
        self.asm.store(Size::D, VECTOR, best, Reg::R1);
        self.asm.store(Size::D, VECTOR, word_at, Reg::R3);
        self.asm.place(next);
        self.asm.add_imm(Reg::R7, 1);
        self.asm.jump(again);
        self.asm.place(done);
        self.asm.load(Size::D, Reg::R0, VECTOR, best);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, -1, miss);
        self.asm.load(Size::D, Reg::R1, VECTOR, word_at);
        self.record(shape.records, miss);
        Ok(())
    }

    /// The same where the entries stand in code: one comparison after the other, in the order in which they win.
    fn find_const(&mut self, shape: &TableShape, entries: usize, miss: Label) {
        let (key_at, bytes) = (self.shape.key_at, shape.key.bytes);
        let chunks = bytes.div_ceil(8);
        for byte in bytes..8 * chunks {
            self.asm.store_imm(Size::B, VECTOR, (key_at + byte) as i16, 0);
        }
        let word = |bytes: &[u8], chunk: u32| {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(&bytes[8 * chunk as usize..]) {
                *to = *from;
            }
            u64::from_ne_bytes(word)
        };
        let found = self.asm.label();
        for piece in &shape.consts {
            let next = self.asm.label();
            for chunk in 0..chunks {
                let (value, mask) = (word(&piece.value, chunk), word(&piece.mask, chunk));
                if mask == 0 {
                    continue;
                }
                self.asm.load(Size::D, Reg::R2, VECTOR, (key_at + 8 * chunk) as i16);
                if mask != u64::MAX {
                    self.asm.constant(Reg::R3, mask);
                    self.asm.alu(Alu::And, Reg::R2, Reg::R3);
                }
                self.asm.constant(Reg::R3, value);
                self.asm.jump_if(Bits::B64, Cond::Ne, Reg::R2, Reg::R3, next);
            }
            self.asm.mov_imm(Reg::R1, piece.entry as i32);
            self.asm.jump(found);
            self.asm.place(next);
        }
        self.asm.jump(miss);
        self.asm.place(found);
        self.word_at(entries, shape.records, miss);
    }

    /// `r1` is a place in an array of words: what it finds, or on to `miss` where that is 0.
    fn word_at(&mut self, entries: usize, records: Option<usize>, miss: Label) {
        self.lookup_index(entries, Reg::R1);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, miss);
        self.asm.load(Size::D, Reg::R1, Reg::R0, 0);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, miss);
        self.record(records, miss);
    }

    /// `r1` is a word: of records with arguments the place, which becomes the record's first word, with its address in r8; or on to
    /// `none`.
    fn record(&mut self, records: Option<usize>, none: Label) {
        let Some(records) = records else { return };
        self.lookup_index(records, Reg::R1);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
        self.asm.mov(RECORD, Reg::R0);
        self.asm.load(Size::D, Reg::R1, RECORD, 0);
    }

    /// Apply a table and go on where its node says.
    pub fn apply(
        &mut self,
        node: usize,
        table: TableId,
        next: &NextNode,
        to: &dyn Fn(Option<NodeId>) -> Label,
        end: Label,
    ) -> Made {
        self.action = None;
        let ir = &self.program.tables[table.at()];
        let shape = self.shape.tables[table.at()].clone();
        let (hit, entry) = (self.scratch(HIT), self.scratch(ENTRY));
        let (miss, found, none) = (self.asm.label(), self.asm.label(), self.asm.label());
        if !ir.key.is_empty() {
            self.find(table, miss)?;
            self.asm.store_imm(Size::D, VECTOR, hit, 1);
            self.asm.jump(found);
        }
        self.asm.place(miss);
        self.asm.store_imm(Size::D, VECTOR, hit, 0);
        self.asm.store_imm(Size::D, VECTOR, entry, 0);
        self.asm.map_value(Reg::R1, fixed::DEFAULTS as i32, shape.default_at);
        self.asm.load(Size::D, Reg::R1, Reg::R1, 0);
        self.record(shape.records, none);
        self.asm.place(found);
        self.asm.mov(Reg::R2, Reg::R1);
        self.asm.alu_imm(Alu::Rsh, Reg::R2, 32);
        self.asm.store(Size::D, VECTOR, entry, Reg::R2);
        self.asm.alu32(Alu::Mov, Reg::R1, Reg::R1);
        if let Some(members) = shape.members {
            let plain = self.asm.label();
            self.asm.mov(Reg::R2, Reg::R1);
            self.asm.alu_imm(Alu::Rsh, Reg::R2, 31);
            self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R2, 0, plain);
            if let (Some(groups), TableActions::Profile(profile)) = (shape.groups, ir.source) {
                self.member_of_group(groups, profile, none)?;
            }
            self.asm.alu_imm(Alu::And, Reg::R1, (GROUP - 1) as i32);
            let place = self.scratch(PLACE);
            self.asm.store(Size::W, VECTOR, place, Reg::R1);
            self.lookup_own(members.map, place as u32, 4, &[Reg::R1], none);
            self.record(members.records, none);
            self.asm.place(plain);
        }
        let actions = self.table_actions(table);
        let labels: Vec<Label> = actions.iter().map(|_| self.asm.label()).collect();
        for (action, label) in actions.iter().zip(&labels) {
            self.asm.jump_if_imm(Bits::B32, Cond::Eq, Reg::R1, action.0 as i32 + 1, *label);
        }
        self.asm.place(none);
        if !self.cut(node, NO_ACTION, DISPATCH) {
            self.count_entry(table)?;
            self.follow(next, None, to);
        }
        for (action, label) in actions.iter().zip(&labels) {
            self.asm.place(*label);
            if self.cut(node, action.0, DISPATCH) {
                continue;
            }
            self.count_entry(table)?;
            let after = self.asm.label();
            self.body(node, *action, after, end);
            self.asm.place(after);
            self.follow(next, Some(*action), to);
        }
        Ok(())
    }

    /// `r1` is a record's member; or its group, then the member that the selector chooses, or on to `none`.
    fn member_of_group(&mut self, groups: usize, profile: ProfileId, none: Label) -> Made {
        let (place, hash) = (self.scratch(PLACE), self.scratch(HASH));
        let (group, single) = (self.asm.label(), self.asm.label());
        self.asm.jump_if_imm(Bits::B64, Cond::Set, Reg::R1, GROUP as i32, group);
        self.asm.jump(single);
        self.asm.place(group);
        self.asm.alu_imm(Alu::And, Reg::R1, (GROUP - 1) as i32);
        self.asm.store(Size::W, VECTOR, place, Reg::R1);
        self.selector_hash(profile)?;
        self.asm.store(Size::D, VECTOR, hash, Reg::R0);
        self.asm.store_imm(Size::W, VECTOR, place + 4, GROUP_LEN as i32);
        // How many there are and where the first one is, at once.
        self.lookup_own(groups, place as u32, 8, &[Reg::R3], none);
        self.asm.alu32(Alu::Mov, Reg::R2, Reg::R3);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R2, 0, none);
        self.asm.alu_imm(Alu::Rsh, Reg::R3, 32);
        self.asm.load(Size::D, Reg::R1, VECTOR, hash);
        self.asm.alu(Alu::Mod, Reg::R1, Reg::R2);
        self.asm.alu(Alu::Add, Reg::R1, Reg::R3);
        self.asm.store(Size::W, VECTOR, place + 4, Reg::R1);
        self.lookup_own(groups, place as u32, 8, &[Reg::R1], none);
        self.asm.place(single);
        Ok(())
    }

    fn follow(&mut self, next: &NextNode, action: Option<ActionId>, to: &dyn Fn(Option<NodeId>) -> Label) {
        match next {
            NextNode::ByAction { by_action, default } => {
                let node = by_action
                    .iter()
                    .find(|(known, _)| Some(*known) == action)
                    .map_or(*default, |(_, next)| *next);
                self.asm.jump(to(node));
            }
            NextNode::ByHit { hit, miss } => {
                let at = self.scratch(HIT);
                self.asm.load(Size::D, Reg::R0, VECTOR, at);
                self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, 0, to(*hit));
                self.asm.jump(to(*miss));
            }
        }
    }

    /// The entry's counter and meter, and the time of its hit.
    fn count_entry(&mut self, table: TableId) -> Made {
        if let Some(hits) = self.shape.tables[table.at()].hits {
            let (entry, none, now) = (self.scratch(ENTRY), self.asm.label(), self.slot(slot::NOW_US));
            self.asm.load(Size::D, Reg::R1, VECTOR, entry);
            self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, none);
            self.lookup_index(hits, Reg::R1);
            self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
            self.asm.load(Size::D, Reg::R1, VECTOR, now);
            self.asm.store(Size::D, Reg::R0, 0, Reg::R1);
            self.asm.place(none);
        }
        let entry = self.scratch(ENTRY);
        self.meter_entry(table, entry)?;
        let Some(direct) = self.shape.tables[table.at()].direct else { return Ok(()) };
        let none = self.asm.label();
        self.asm.load(Size::D, Reg::R1, VECTOR, entry);
        self.lookup_index(direct, Reg::R1);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
        self.count();
        self.asm.place(none);
        Ok(())
    }
}
