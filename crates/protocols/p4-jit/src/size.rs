//! How much code a program becomes, roughly: actions are generated where they are used, and what would become too much
//! is shared, or left to the interpreter.

use barewire_p4::ir::{ActionId, Expr, HeaderRef, Node, Parser, ParserOp, Pipeline, Program, Stmt, UnionRef};
use barewire_p4::key::KeyLayout;
use std::collections::{BTreeMap, BTreeSet};

/// A pipeline may become so large by repeating its actions (the default).
pub const INLINE_BUDGET: u64 = 60_000;
/// Actions up to this size are repeated in any case.
const SMALL_ACTION: u64 = 6;
/// A function that would become larger is interpreted (the default).
pub const MAX_FUNCTION: u64 = 600_000;

/// A chain that would become larger is not made (the default).
pub const CHAIN_BUDGET: u64 = 8_000;

/// Sizes of one program's parts; a unit is about one operator, load or store.
#[derive(Debug)]
pub struct Sizes<'p> {
    program: &'p Program,
    keys: &'p [KeyLayout],
    actions: Vec<u64>,
}

impl<'p> Sizes<'p> {
    /// Measure a program.
    pub fn of(program: &'p Program, keys: &'p [KeyLayout]) -> Sizes<'p> {
        let mut sizes = Sizes { program, keys, actions: Vec::new() };
        sizes.actions = program.actions.iter().map(|action| sizes.stmts(&action.body)).collect();
        sizes
    }

    /// The actions of a pipeline that are to be generated once because repeating all would exceed the budget, and how
    /// large the pipeline becomes then.
    pub fn pipeline(&self, pipeline: &Pipeline, inline_budget: u64) -> (BTreeSet<ActionId>, u64) {
        let mut uses: BTreeMap<ActionId, u64> = BTreeMap::new();
        let mut rest = 0_u64;
        for node in &pipeline.nodes {
            match node {
                Node::Table { table, .. } => {
                    let def = &self.program.tables[table.at()];
                    rest += 24 + 4 * def.key.len() as u64 + u64::from(self.keys[table.at()].words);
                    for action in &def.actions {
                        *uses.entry(*action).or_default() += 1;
                        rest += 2;
                    }
                }
                Node::If { condition, .. } => rest += 2 + self.expr(condition),
                Node::Call { action, .. } => *uses.entry(*action).or_default() += 1,
            }
        }
        let repeated =
            uses.iter().fold(0_u64, |sum, (id, uses)| sum.saturating_add(self.actions[id.at()] * uses));
        if rest.saturating_add(repeated) <= inline_budget {
            return (BTreeSet::new(), rest + repeated);
        }
        let once = |id: &ActionId, uses: u64| uses > 1 && self.actions[id.at()] > SMALL_ACTION;
        let shared: BTreeSet<ActionId> =
            uses.iter().filter(|(id, uses)| once(id, **uses)).map(|(id, _)| *id).collect();
        let sum = uses.iter().fold(0_u64, |sum, (id, uses)| {
            let size = self.actions[id.at()];
            sum.saturating_add(if shared.contains(id) { size + 4 * uses } else { size * uses })
        });
        (shared, rest.saturating_add(sum))
    }

    /// How large a parser becomes.
    pub fn parser(&self, parser: &Parser) -> u64 {
        let state = |state: &barewire_p4::ir::ParserState| {
            let ops: u64 = state.ops.iter().map(|op| self.op(op)).sum();
            let key: u64 =
                state.key.iter().map(|(expr, width)| self.expr(expr) + u64::from(width / 64)).sum();
            let parts: u64 = state.key.iter().map(|(_, width)| 1 + u64::from(width / 64)).sum();
            4 + ops + key + state.transitions.len() as u64 * (2 + 3 * parts)
        };
        parser.states.iter().map(state).sum()
    }

    /// How large statements become.
    pub fn stmts(&self, stmts: &[Stmt]) -> u64 {
        stmts.iter().map(|stmt| self.stmt(stmt)).sum()
    }

    fn op(&self, op: &ParserOp) -> u64 {
        match op {
            ParserOp::Extract(header) => 12 + self.header(header),
            ParserOp::ExtractVarbit { header, bits } => 24 + self.header(header) + self.expr(bits),
            ParserOp::Advance { bits } => 6 + self.expr(bits),
            ParserOp::Verify { condition, error } => 4 + self.expr(condition) + self.expr(error),
            ParserOp::Stmt(stmt) => self.stmt(stmt),
        }
    }

    fn stmt(&self, stmt: &Stmt) -> u64 {
        match stmt {
            Stmt::Assign { dst, value } => {
                let width = self.program.field_def_of_ref(dst).bits();
                2 + u64::from(width / 32) + self.header(&dst.header) + self.expr(value)
            }
            Stmt::CopyHeader { dst, src } => 16 + self.header(dst) + self.header(src),
            Stmt::SetValid(header) | Stmt::SetInvalid(header) => 16 + self.header(header),
            Stmt::Push { stack, .. } | Stmt::Pop { stack, .. } => {
                // Beyond 256 words the interpreter does it.
                64 + 2 * self.program.stacks[stack.at()].elements.len().min(256) as u64
            }
            Stmt::JumpUnless { condition, .. } => 2 + self.expr(condition),
            Stmt::Assert(condition) | Stmt::Assume(condition) => 6 + self.expr(condition),
            Stmt::Count { index, .. } => 6 + self.expr(index),
            Stmt::Meter { index, precolor, .. } => {
                8 + self.expr(index) + precolor.as_ref().map_or(0, |precolor| self.expr(precolor))
            }
            Stmt::RegisterRead { index, .. } => 8 + self.expr(index),
            Stmt::RegisterWrite { index, value, .. } => 8 + self.expr(index) + self.expr(value),
            Stmt::Random { low, high, .. } => 8 + self.expr(low) + self.expr(high),
            Stmt::Hash { base, max, .. } => {
                12 + base.iter().chain(max).map(|bound| self.expr(bound)).sum::<u64>()
            }
            _ => 8,
        }
    }

    /// What a reference to a header costs beyond a plain one: elements of stacks and members of unions are forgotten or
    /// made invalid one by one.
    fn header(&self, header: &HeaderRef) -> u64 {
        match header {
            HeaderRef::Header(id) => self.program.headers[id.at()]
                .union
                .map_or(0, |union| self.program.unions[union.at()].members.len() as u64),
            HeaderRef::StackNext(stack) | HeaderRef::StackLast(stack) => {
                8 + self.program.stacks[stack.at()].elements.len() as u64
            }
            HeaderRef::StackElement(stack, index) => {
                8 + self.program.stacks[stack.at()].elements.len() as u64 + self.expr(index)
            }
            _ => 8,
        }
    }

    fn expr(&self, expr: &Expr) -> u64 {
        1 + match expr {
            Expr::Field(field) => {
                self.header(&field.header) + u64::from(self.program.field_def_of_ref(field).bits() / 64)
            }
            Expr::Unary(_, value) | Expr::Wrap { value, .. } => self.expr(value),
            Expr::Saturate { value, .. } => 4 + self.expr(value),
            Expr::Binary(_, left, right) => self.expr(left) + self.expr(right),
            Expr::Select(condition, yes, no) => 1 + self.expr(condition) + self.expr(yes) + self.expr(no),
            Expr::Valid(header) => self.header(header),
            Expr::UnionValid(UnionRef::Union(union)) => self.program.unions[union.at()].members.len() as u64,
            Expr::Register { index, .. } => 6 + self.expr(index),
            Expr::Lookahead { .. } => 8,
            _ => 2,
        }
    }
}
