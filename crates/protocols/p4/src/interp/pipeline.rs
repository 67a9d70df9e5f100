//! A pipeline's graph: conditions, tables, actions; and the deparser behind it.

use super::calc::{BitString, current_bits, push_header};
use super::trace::{Event, KeyPart, NoTrace, Tracer, hex, number};
use super::{Context, Flow, ParserFault, Plan};
use crate::hash::Parameters;
use crate::ir::{
    ActionId, CalculationId, CounterId, FieldId, HeaderId, KeySource, MeterId, NextNode, Node, NodeId,
    RegisterId, TableActions, TableId, ValueSetId,
};
use crate::phv::{Phv, slot};
use crate::state::{Applied, State};
use num_bigint::{BigInt, BigUint};

/// What applying a table came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Whether an entry matched.
    pub hit: bool,
    /// The action that ran.
    pub action: Option<ActionId>,
    /// Whether the pipeline ends.
    pub flow: Flow,
}

/// The selector's hash is asked for while the state is in use: its input is gathered without one. (Selectors are
/// over fields, headers and constants; nothing of them asks a state.)
struct NoState;

impl State for NoState {
    fn apply(&mut self, _: TableId, _: &[u64], _: u64, _: u64, _: &mut dyn FnMut() -> u64) -> Applied {
        Applied { hit: false, action: None, args: Vec::new(), color: None, handle: None }
    }
    fn count(&mut self, _: CounterId, _: u64, _: u64) {}
    fn meter(&mut self, _: MeterId, _: u64, _: u64, _: u64, _: u64) -> u64 {
        0
    }
    fn register(&mut self, _: RegisterId, _: u64) -> BigUint {
        BigUint::ZERO
    }
    fn set_register(&mut self, _: RegisterId, _: u64, _: &BigUint) {}
    fn value_set_contains(&mut self, _: ValueSetId, _: &[BigUint], _: Option<&[BigUint]>) -> bool {
        false
    }
    fn random(&mut self, low: u64, _: u64) -> u64 {
        low
    }
    fn log(&mut self, _: &str) {}
    fn hash_parameters(&self, _: CalculationId) -> Option<&Parameters> {
        None
    }
}

impl<S: State + ?Sized> Context<'_, S> {
    /// Run a pipeline from its start.
    pub fn run_pipeline(&mut self, pipeline: usize) {
        let plan = self.plan;
        self.phv.set_slot(slot::EXIT, 0);
        let Some(pipeline) = plan.program.pipelines.get(pipeline) else { return };
        if self.tracer.wants() {
            self.tracer.record(Event::PipelineStart { pipeline: pipeline.name.clone() });
        }
        let mut next = pipeline.start;
        // The graph has no cycle, so no walk is longer than this.
        for _ in 0..pipeline.nodes.len() {
            let Some(node) = next else { break };
            match self.run_node(&pipeline.nodes[node.at()]) {
                Ok((Flow::End, _)) | Err(ParserFault(_)) => break,
                Ok((_, after)) => next = after,
            }
        }
        if self.tracer.wants() {
            self.tracer.record(Event::PipelineEnd { pipeline: pipeline.name.clone() });
        }
    }

    /// Run one node, and say which is next.
    pub fn run_node(&mut self, node: &Node) -> Result<(Flow, Option<NodeId>), ParserFault> {
        match node {
            Node::If { name, condition, then, otherwise } => {
                let outcome = self.eval_bool(condition)?;
                if self.tracer.wants() {
                    self.tracer.record(Event::Condition { name: name.clone(), outcome });
                }
                Ok((Flow::Next, if outcome { *then } else { *otherwise }))
            }
            Node::Call { action, next, .. } => Ok((self.run_action(*action, &[])?, *next)),
            Node::Table { table, next } => {
                let outcome = self.apply_table(*table)?;
                let after = match next {
                    NextNode::ByHit { hit, miss } => {
                        if outcome.hit {
                            *hit
                        } else {
                            *miss
                        }
                    }
                    NextNode::ByAction { by_action, default } => by_action
                        .iter()
                        .find(|(action, _)| Some(*action) == outcome.action)
                        .map_or(*default, |(_, next)| *next),
                };
                Ok((outcome.flow, after))
            }
        }
    }

    /// Build a table's key in words; a field of an invalid header counts as 0.
    pub fn build_key(&mut self, table: TableId, words: &mut Vec<u64>) -> Result<(), ParserFault> {
        let plan = self.plan;
        let layout = &plan.keys[table.at()];
        words.clear();
        words.resize(layout.words as usize, 0);
        for (index, key) in plan.program.tables[table.at()].key.iter().enumerate() {
            let mut value = match &key.source {
                KeySource::Field(field) => {
                    match self.field(field)?.filter(|field| self.is_valid(field.header)) {
                        Some(field) => self.phv.field(&plan.layout, field),
                        None => BigUint::ZERO,
                    }
                }
                KeySource::Valid(header) => {
                    let header = self.header(header)?;
                    BigUint::from(header.is_some_and(|header| self.is_valid(header)))
                }
            };
            if let Some(mask) = &key.mask {
                value &= mask;
            }
            layout.put(words, index, &value);
        }
        Ok(())
    }

    /// Apply a table: look up, account, meter, run the action.
    pub fn apply_table(&mut self, table: TableId) -> Result<Outcome, ParserFault> {
        let plan = self.plan;
        let ir = &plan.program.tables[table.at()];
        let mut key = Vec::new();
        self.build_key(table, &mut key)?;
        let (len, now_us) = (self.phv.slot(slot::PACKET_LEN), self.phv.slot(slot::NOW_US));
        let (phv, packet, at) = (&mut *self.phv, self.packet, self.at);
        let mut selector_hash = || match ir.source {
            TableActions::Profile(profile) => {
                let (mut state, mut tracer) = (NoState, NoTrace);
                let (state, tracer) = (&mut state, &mut tracer);
                Context { plan, phv: &mut *phv, packet, at, action: None, args: &[], state, tracer }
                    .selector_hash(profile)
                    .unwrap_or(0)
            }
            TableActions::Direct => 0,
        };
        let applied = self.state.apply(table, &key, len, now_us, &mut selector_hash);
        if self.tracer.wants() {
            self.trace_table(table, &key, &applied);
        }
        if let (Some(color), Some(meter)) = (applied.color, ir.meter)
            && let Some(result) = &plan.program.meters[meter.at()].result
            && let Some(field) = self.field(result)?
        {
            self.write(field, &BigInt::from(color));
        }
        let flow = match applied.action {
            Some(action) => self.run_action(action, &applied.args)?,
            None => Flow::Next,
        };
        Ok(Outcome { hit: applied.hit, action: applied.action, flow })
    }

    fn trace_table(&mut self, table: TableId, key: &[u64], applied: &Applied) {
        let program = &self.plan.program;
        let ir = &program.tables[table.at()];
        let layout = &self.plan.keys[table.at()];
        let part = |(index, field): (usize, &crate::ir::KeyField)| KeyPart {
            name: field.name.clone(),
            kind: format!("{:?}", field.kind).to_lowercase(),
            value: number(&layout.get(key, index)),
        };
        self.tracer.record(Event::Table {
            table: ir.name.clone(),
            key: ir.key.iter().enumerate().map(part).collect(),
            hit: applied.hit,
            handle: applied.handle,
            action: applied.action.map(|action| program.actions[action.at()].name.clone()),
        });
    }

    /// Update checksums, run the deparser's statements, and say how many bytes will be emitted.
    pub fn prepare_deparse(&mut self, deparser: usize) -> usize {
        let plan = self.plan;
        let Some(ir) = plan.program.deparsers.get(deparser) else { return 0 };
        // Neither holds a lookahead, so nothing fails here.
        let _ = self.update_checksums();
        let _ = self.exec_stmts(&ir.stmts);
        ir.order.iter().map(|&header| emitted_len(plan, self.phv, header)).sum()
    }
}

/// How many bytes a header has on the wire now: none when it is invalid.
fn emitted_len(plan: &Plan, phv: &Phv, header: HeaderId) -> usize {
    if !phv.is_valid(&plan.layout, header) {
        return 0;
    }
    let fields = plan.program.header_type_of(header).fields.len() as u32;
    let bits: u64 =
        (0..fields).map(|field| u64::from(current_bits(plan, phv, FieldId { header, field }))).sum();
    bits.div_ceil(8) as usize
}

/// Emit the valid headers of a deparser, as many whole ones as `out` holds.
pub(super) fn emit(plan: &Plan, deparser: usize, phv: &Phv, out: &mut [u8], tracer: &mut dyn Tracer) {
    let Some(ir) = plan.program.deparsers.get(deparser) else { return };
    let mut at = 0;
    for &header in &ir.order {
        let len = emitted_len(plan, phv, header);
        let Some(room) = out.get_mut(at..at + len).filter(|room| !room.is_empty()) else { continue };
        let mut bits = BitString::default();
        push_header(plan, phv, header, &mut bits);
        let bytes = bits.into_bytes();
        room.copy_from_slice(&bytes);
        at += len;
        if tracer.wants() {
            let header = plan.program.headers[header.at()].name.clone();
            tracer.record(Event::Emit { header, bytes: hex(&bytes) });
        }
    }
}
