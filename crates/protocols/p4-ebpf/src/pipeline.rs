//! A pipeline's graph: each node once, with the actions of a table inlined behind it.

use crate::Reason;
use crate::r#gen::{Gen, VECTOR};
use barewire_ebpf::{Bits, Cond, Label, Reg, Size};
use barewire_p4::ir::{ActionId, Node, NodeId, Stmt};
use barewire_p4::phv::slot;

/// In the place of an action's number: a table that runs none.
pub(crate) const NO_ACTION: u32 = u32::MAX;
/// In the place of a statement's position: before any, and before the table counts.
pub(crate) const DISPATCH: usize = usize::MAX;

impl Gen<'_> {
    /// A whole pipeline.
    pub fn pipeline(&mut self, index: usize) {
        self.pipeline = index;
        let pipeline = &self.program.pipelines[index];
        let exit = self.slot(slot::EXIT);
        self.asm.store_imm(Size::D, VECTOR, exit, 0);
        let labels: Vec<Label> = pipeline.nodes.iter().map(|_| self.asm.label()).collect();
        let end = self.asm.label();
        let to = |node: Option<NodeId>| node.map_or(end, |node| labels[node.at()]);
        let start = to(pipeline.start);
        self.asm.jump(start);
        for (at, node) in pipeline.nodes.iter().enumerate() {
            self.asm.place(labels[at]);
            let begin = self.asm.len();
            self.place = self.node_place(index, at);
            let cut = self.cuts.as_ref().and_then(|cuts| cuts.nodes.get(&(index, at)).cloned());
            let made = match (cut, node) {
                (Some(reason), _) => Err(reason),
                (None, Node::If { condition, then, otherwise, .. }) => {
                    let no = to(*otherwise);
                    self.action = None;
                    let made = self.branch(condition, no, false, 0);
                    let yes = to(*then);
                    self.asm.jump(yes);
                    made
                }
                (None, Node::Call { action, next, .. }) => {
                    let next = to(*next);
                    self.body(at, *action, next, end);
                    Ok(())
                }
                (None, Node::Table { table, next }) => self.apply(at, *table, next, &to, end),
            };
            if let Err(reason) = made {
                self.take_back(begin);
                let slow = self.slow(reason);
                self.asm.jump(slow);
            }
        }
        self.asm.place(end);
        self.action = None;
    }

    /// A node's name for people.
    pub fn node_place(&self, pipeline: usize, node: usize) -> String {
        let pipeline = &self.program.pipelines[pipeline];
        match &pipeline.nodes[node] {
            Node::Table { table, .. } => {
                format!("{}: table {}", pipeline.name, self.program.tables[table.at()].name)
            }
            Node::If { name, .. } | Node::Call { name, .. } => format!("{}: {name}", pipeline.name),
        }
    }

    /// Go to user space if the plan says so at this place.
    pub fn cut(&mut self, node: usize, action: u32, stmt: usize) -> bool {
        let key = (self.pipeline, node, action, stmt);
        let Some(reason) = self.cuts.as_ref().and_then(|cuts| cuts.cuts.get(&key).cloned()) else {
            return false;
        };
        let place = self.place.clone();
        if let Some(action) = self.program.actions.get(action as usize) {
            self.place = format!("{place}, action {}", action.name);
        }
        let slow = self.slow(reason);
        self.place = place;
        self.asm.jump(slow);
        true
    }

    /// The body of an action, its record in r8; then on to `next`, or to `end` after an exit.
    pub fn body(&mut self, node: usize, action: ActionId, next: Label, end: Label) {
        self.action = Some(action);
        let body = &self.program.actions[action.at()].body;
        let labels: Vec<Label> = (0..=body.len()).map(|_| self.asm.label()).collect();
        for (at, stmt) in body.iter().enumerate() {
            self.asm.place(labels[at]);
            if self.cut(node, action.0, at) {
                continue;
            }
            let begin = self.asm.len();
            if let Err(reason) = self.step(stmt, at, &labels, end) {
                self.take_back(begin);
                let slow = self.slow(reason);
                self.asm.jump(slow);
            }
        }
        self.asm.place(labels[body.len()]);
        if body.iter().any(|stmt| matches!(stmt, Stmt::Exit)) {
            let at = self.slot(slot::EXIT);
            self.asm.load(Size::D, Reg::R0, VECTOR, at);
            self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, 0, end);
        }
        self.asm.jump(next);
        self.action = None;
    }

    /// A statement of an action, jumps included.
    pub fn step(&mut self, stmt: &Stmt, at: usize, labels: &[Label], end: Label) -> Result<(), Reason> {
        let forward = |target: usize| {
            if target > at { Ok(labels[target]) } else { Err(Reason::No("a loop in an action")) }
        };
        match stmt {
            Stmt::Jump(target) => {
                let to = forward(*target)?;
                self.asm.jump(to);
                Ok(())
            }
            Stmt::JumpUnless { condition, target } => {
                let to = forward(*target)?;
                self.branch(condition, to, false, 0)
            }
            Stmt::Assert(condition) => self.assertion(condition, false, end),
            Stmt::Assume(condition) => self.assertion(condition, true, end),
            stmt => self.stmt(stmt),
        }
    }
}
