//! Pipelines: nodes, table keys, lookups, the choice of the action.

use super::access::mask;
use super::{Emit, Gen, Unsupported};
use crate::delegate::Delegate;
use crate::env::{self, Env};
use barewire_p4::ir::{
    Expr, KeySource, MatchKind, NextNode, Node, NodeId, Pipeline, Table, TableActions, TableId,
};
use barewire_p4::key::arg_words;
use barewire_p4::phv::{Place, slot};
use barewire_p4_state::{ACTION, ARGS, BYTES, LAST_HIT, PACKETS};
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use num_bigint::BigUint;
use std::mem::offset_of;

impl Gen<'_, '_> {
    /// A whole pipeline; ends at [`Gen::end`].
    pub fn pipeline(&mut self, pipeline: &Pipeline) {
        let zero = self.int(0);
        self.set_slot(slot::EXIT, zero);
        let blocks: Vec<Block> = pipeline.nodes.iter().map(|_| self.b.create_block()).collect();
        let end = self.end;
        let place = |node: Option<NodeId>| node.map_or(end, |node| blocks[node.at()]);
        self.jump(place(pipeline.start));
        for node in in_order(pipeline) {
            let block = blocks[node.at()];
            if !self.entries.reached(block) {
                continue;
            }
            self.enter(block);
            match &pipeline.nodes[node.at()] {
                Node::Table { table, next } => self.table(*table, next, &place),
                Node::If { condition, then, otherwise, .. } => {
                    self.branch_on(condition, place(*then), place(*otherwise));
                }
                Node::Call { action, next, .. } => {
                    let none = self.int(0);
                    self.action(*action, none, place(*next));
                }
            }
        }
        self.shared_actions();
    }

    fn table(&mut self, id: TableId, next: &NextNode, place: &dyn Fn(Option<NodeId>) -> Block) {
        let unit = self.unit;
        let table = &unit.program.tables[id.at()];
        let plain = matches!(table.source, TableActions::Direct) && table.meter.is_none();
        let (action, args, hit) = if plain { self.find(id, table) } else { self.apply(id, table) };
        let mut targets = Vec::with_capacity(table.actions.len() + 1);
        // Number 0: no action.
        let nothing = self.b.create_block();
        targets.push(nothing);
        targets.extend(table.actions.iter().map(|_| self.b.create_block()));
        let action = self.b.ins().ireduce(I32, action);
        self.switch32(action, &targets, nothing);
        for (i, block) in targets.iter().enumerate() {
            if !self.entries.reached(*block) {
                continue;
            }
            self.enter(*block);
            let action = i.checked_sub(1).map(|at| table.actions[at]);
            let after = match next {
                NextNode::ByAction { by_action, default } => {
                    let listed = action.and_then(|action| by_action.iter().find(|(id, _)| *id == action));
                    place(listed.map_or(*default, |(_, node)| *node))
                }
                NextNode::ByHit { hit: yes, miss: no } if yes == no => place(*no),
                NextNode::ByHit { hit: yes, miss: no } => {
                    let by_hit = self.b.create_block();
                    // Registers do not come through a shared action.
                    let kept = offset_of!(Env, applied_hit);
                    let shared = action.is_some_and(|action| self.shared.contains_key(&action));
                    if shared {
                        self.b.ins().store(self.flags.record, hit, self.env, kept as i32);
                    }
                    match action {
                        Some(action) => self.action(action, args, by_hit),
                        None => self.jump(by_hit),
                    }
                    if self.entries.reached(by_hit) {
                        self.enter(by_hit);
                        let hit = if shared { self.env_mut_word(kept) } else { hit };
                        self.branch(hit, place(*yes), place(*no));
                    }
                    continue;
                }
            };
            match action {
                Some(action) => self.action(action, args, after),
                None => self.jump(after),
            }
        }
    }

    /// Look a plain table up and account: the action's number in the low 32 bits, the arguments' address, and
    /// whether an entry was hit.
    fn find(&mut self, id: TableId, table: &Table) -> (Value, Value, Value) {
        let key = self.key(id, table);
        let env = self.env;
        let table_number = self.table_number(id, table);
        let record = match key.as_slice() {
            [] => self.call_value(env::find0 as *const () as usize, &[env, table_number], I64),
            [k0] if matches!(table.key.as_slice(), [only] if only.kind == MatchKind::Lpm) => {
                self.call_value(env::find1_prefix as *const () as usize, &[env, table_number, *k0], I64)
            }
            [k0] => self.call_value(env::find1 as *const () as usize, &[env, table_number, *k0], I64),
            [k0, k1] => {
                self.call_value(env::find2 as *const () as usize, &[env, table_number, *k0, *k1], I64)
            }
            words => {
                self.store_key(words);
                let count = self.int(words.len() as u64);
                self.call_value(env::find as *const () as usize, &[env, table_number, count], I64)
            }
        };
        let flags = self.flags.record;
        let word = self.b.ins().load(I64, flags, record, ACTION as i32 * 8);
        if table.counter.is_some() {
            let packets = self.b.ins().load(I64, flags, record, PACKETS as i32 * 8);
            let packets = self.b.ins().iadd_imm(packets, 1);
            self.b.ins().store(flags, packets, record, PACKETS as i32 * 8);
            let bytes = self.b.ins().load(I64, flags, record, BYTES as i32 * 8);
            let len = self.slot(slot::PACKET_LEN);
            let bytes = self.b.ins().iadd(bytes, len);
            self.b.ins().store(flags, bytes, record, BYTES as i32 * 8);
        }
        let now = self.slot(slot::NOW_US);
        self.b.ins().store(flags, now, record, LAST_HIT as i32 * 8);
        let hit = self.shr(word, 32);
        let hit = self.keep(hit, 1);
        let args = self.b.ins().iadd_imm(record, ARGS as i64 * 8);
        (word, args, hit)
    }

    /// The same for tables with a profile or a direct meter, and the meter's colour written where it goes.
    fn apply(&mut self, id: TableId, table: &Table) -> (Value, Value, Value) {
        let words = self.key(id, table);
        self.store_key(&words);
        let count = self.int(words.len() as u64);
        let table_number = self.table_number(id, table);
        let env = self.env;
        let record = self.call_value(env::apply as *const () as usize, &[env, table_number, count], I64);
        let action = self.env_mut_word(offset_of!(Env, applied_action));
        let hit = self.env_mut_word(offset_of!(Env, applied_hit));
        let result = table.meter.and_then(|meter| self.unit.program.meters[meter.at()].result.as_ref());
        if let Some(result) = result {
            let present = self.env_mut_word(offset_of!(Env, applied_has_color));
            let color = self.env_mut_word(offset_of!(Env, applied_color));
            let (write, after) = (self.b.create_block(), self.b.create_block());
            self.branch(present, write, after);
            self.enter(write);
            let stored = match self.small_field(result) {
                Some(field) => self.store_field(field, color),
                None => Err(Unsupported),
            };
            if stored.is_err() {
                let target = Delegate::Color { dst: result.clone() };
                self.delegate(target, || format!("meter colour of table {}", table.name));
            }
            self.jump(after);
            self.enter(after);
        }
        let args = self.b.ins().iadd_imm(record, ARGS as i64 * 8);
        (action, args, hit)
    }

    /// The table's number, and how many words its records must have at least.
    fn table_number(&mut self, id: TableId, table: &Table) -> Value {
        let actions = &self.unit.program.actions;
        let widest = table.actions.iter().map(|action| {
            let params = &actions[action.at()].params;
            arg_words(params.iter().map(|param| param.width)).1
        });
        let words = ARGS + widest.max().unwrap_or(0) as usize;
        self.int(env::table_word(id, words))
    }

    /// A word of the environment that helpers write.
    fn env_mut_word(&mut self, offset: usize) -> Value {
        self.b.ins().load(I64, self.flags.record, self.env, offset as i32)
    }

    fn store_key(&mut self, words: &[Value]) {
        let key = self.env_word(offset_of!(Env, key));
        for (i, word) in words.iter().enumerate() {
            self.b.ins().store(self.flags.record, *word, key, i as i32 * 8);
        }
    }

    /// The key's words, in registers.
    fn key(&mut self, id: TableId, table: &Table) -> Vec<Value> {
        match self.key_words(id, table) {
            Ok(words) => words,
            Err(Unsupported) => {
                // The interpreter builds it in the environment.
                self.delegate(Delegate::Key(id), || format!("key of table {}", table.name));
                let words = self.unit.keys[id.at()].words as usize;
                let key = self.env_word(offset_of!(Env, key));
                (0..words).map(|i| self.b.ins().load(I64, self.flags.record, key, i as i32 * 8)).collect()
            }
        }
    }

    fn key_words(&mut self, id: TableId, table: &Table) -> Emit<Vec<Value>> {
        let layout = &self.unit.keys[id.at()];
        let mut words: Vec<Option<Value>> = vec![None; layout.words as usize];
        for (field, slot) in table.key.iter().zip(&layout.slots) {
            let limbs = match &field.source {
                KeySource::Valid(header) => {
                    let valid = self.truth(&Expr::Valid(header.clone()))?;
                    vec![self.widen(valid)]
                }
                KeySource::Field(source) => {
                    let id = source.fixed().ok_or(Unsupported)?;
                    let place = self.unit.layout.place(id);
                    let width = match place {
                        Place::Words { width, .. } | Place::Bits { width, .. } => width,
                        Place::Varbit { .. } => return Err(Unsupported),
                    };
                    if width > slot.bytes * 8 {
                        return Err(Unsupported);
                    }
                    let mut limbs = if width <= 64 {
                        vec![self.load_field(id)?]
                    } else {
                        (0..width.div_ceil(64))
                            .map(|limb| self.load_limb(id, limb))
                            .collect::<Emit<Vec<Value>>>()?
                    };
                    if let Some(mask) = &field.mask {
                        self.mask_limbs(&mut limbs, mask);
                    }
                    if !self.unit.program.headers[id.header.at()].metadata {
                        self.zero_unless_valid(&mut limbs, id.header);
                    }
                    limbs
                }
            };
            // The field ends at this bit of the key, counted from its most significant one.
            let end = (slot.byte + slot.bytes) * 8;
            for (i, limb) in limbs.into_iter().enumerate() {
                let end = end - 64 * i as u32;
                let word = ((end - 1) / 64) as usize;
                let shift = 64 * (word as u32 + 1) - end;
                let low = self.shl(limb, shift);
                self.or_into(&mut words, word, low);
                // What the shift pushed out belongs to the word before, unless the field ends before it gets there.
                let bits = slot.width.saturating_sub(64 * i as u32).min(64);
                if shift > 0 && bits + shift > 64 && word > 0 {
                    let high = self.shr(limb, 64 - shift);
                    self.or_into(&mut words, word - 1, high);
                }
            }
        }
        Ok(words.into_iter().map(|word| word.unwrap_or_else(|| self.int(0))).collect())
    }

    fn or_into(&mut self, words: &mut [Option<Value>], at: usize, value: Value) {
        words[at] = Some(match words[at] {
            Some(old) => self.b.ins().bor(old, value),
            None => value,
        });
    }

    fn mask_limbs(&mut self, limbs: &mut [Value], with: &BigUint) {
        let digits = with.to_u64_digits();
        for (i, limb) in limbs.iter_mut().enumerate() {
            let digit = digits.get(i).copied().unwrap_or(0);
            if digit != mask(64) {
                let digit = self.int(digit);
                *limb = self.b.ins().band(*limb, digit);
            }
        }
    }

    /// A field of an invalid header is 0 in keys.
    fn zero_unless_valid(&mut self, limbs: &mut [Value], header: barewire_p4::ir::HeaderId) {
        match self.known.valid(header) {
            Some(true) => {}
            Some(false) => limbs.fill(self.int(0)),
            None => {
                let valid = self.header_valid(header);
                let zero = self.int(0);
                for limb in limbs {
                    *limb = self.b.ins().select(valid, *limb, zero);
                }
            }
        }
    }
}

/// The nodes that can be reached, each after all that lead to it.
fn in_order(pipeline: &Pipeline) -> Vec<NodeId> {
    let count = pipeline.nodes.len();
    let mut seen = vec![false; count];
    let mut post = Vec::with_capacity(count);
    let mut stack: Vec<(NodeId, usize)> = Vec::new();
    if let Some(start) = pipeline.start {
        seen[start.at()] = true;
        stack.push((start, 0));
    }
    while let Some((node, at)) = stack.pop() {
        let next = successors(&pipeline.nodes[node.at()]);
        match next.get(at) {
            Some(to) => {
                stack.push((node, at + 1));
                if !seen[to.at()] {
                    seen[to.at()] = true;
                    stack.push((*to, 0));
                }
            }
            None => post.push(node),
        }
    }
    post.reverse();
    post
}

fn successors(node: &Node) -> Vec<NodeId> {
    match node {
        Node::Table { next: NextNode::ByAction { by_action, default }, .. } => {
            by_action.iter().filter_map(|(_, node)| *node).chain(*default).collect()
        }
        Node::Table { next: NextNode::ByHit { hit, miss }, .. } => hit.iter().chain(miss).copied().collect(),
        Node::If { then, otherwise, .. } => then.iter().chain(otherwise).copied().collect(),
        Node::Call { next, .. } => next.iter().copied().collect(),
    }
}
