//! Where packets go to user space: at what the compiler cannot do, and before every effect that such a thing may follow.

use crate::r#gen::Gen;
use crate::maps::Shape;
use crate::pipeline::{DISPATCH, NO_ACTION};
use crate::{Reason, Target};
use barewire_ebpf::Label;
use barewire_p4::chain::Step;
use barewire_p4::ir::{ActionId, NextNode, Node, NodeId, Program, Stmt};
use std::collections::BTreeMap;

/// The places, found before any code is kept.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// By pipeline, node, action and statement.
    pub cuts: BTreeMap<(usize, usize, u32, usize), Reason>,
    /// Whole nodes.
    pub nodes: BTreeMap<(usize, usize), Reason>,
    /// The deparser, and so everything that leaves.
    pub deparser: Option<Reason>,
    /// No packet gets past this.
    pub whole: Option<(String, Reason)>,
    /// Something in the parser.
    pub parser: bool,
    /// Registers may live in the kernel.
    pub registers: bool,
    /// Bytes of a packet that the parser looks at, at most.
    pub depth: u32,
    /// Packets may become longer.
    pub grows: bool,
}

impl Plan {
    /// Whether any packet may go to user space.
    pub fn any(&self) -> bool {
        self.parser || self.deparser.is_some() || !self.cuts.is_empty() || !self.nodes.is_empty()
    }
}

struct Walk<'g, 'p> {
    code: &'g mut Gen<'p>,
    plan: Plan,
    /// What lies behind a node, by pipeline.
    known: BTreeMap<(usize, usize), Option<Reason>>,
    /// What lies behind the end of the pipeline that is walked.
    behind: Option<Reason>,
    pipeline: usize,
}

fn before(reason: &Reason) -> Reason {
    match reason {
        Reason::No(what) | Reason::Before(what) => Reason::Before(what),
        other => other.clone(),
    }
}

/// Finds them.
pub(crate) fn plan(program: &Program, target: &Target, shape: &mut Shape, registers: bool) -> Plan {
    let mut code = Gen::new(program, target, shape.clone(), registers);
    let mut walk = Walk {
        code: &mut code,
        plan: Plan { registers, ..Plan::default() },
        known: BTreeMap::new(),
        behind: None,
        pipeline: 0,
    };
    for step in target.steps.iter().rev() {
        match step {
            Step::Deparse(deparser) => {
                let impossible = walk.code.dry(|code| code.deparse_code(*deparser));
                walk.plan.deparser = impossible.or(walk.plan.deparser.take());
                walk.behind = walk.plan.deparser.clone();
                if let Some(reason) = &walk.plan.deparser {
                    walk.plan.whole = Some(("the deparser".to_owned(), reason.clone()));
                }
            }
            Step::Run(pipeline) => {
                walk.pipeline = *pipeline;
                walk.code.pipeline = *pipeline;
                let start = program.pipelines[*pipeline].start;
                walk.behind = walk.node(start);
                if let Some(start) = start
                    && let Some(reason) = walk.plan.nodes.get(&(*pipeline, start.at()))
                {
                    let place = walk.code.node_place(*pipeline, start.at());
                    walk.plan.whole = Some((place, reason.clone()));
                }
            }
            Step::Parse(parser) => {
                let begin = walk.code.asm.len();
                walk.code.parser(*parser);
                walk.code.take_back(begin);
                walk.plan.parser = walk.code.slow_paths().any(|path| path.reason.is_of_the_program());
            }
            _ => {}
        }
    }
    walk.plan.depth = walk.code.depth;
    walk.plan.grows = walk.code.grows;
    walk.plan
}

impl Walk<'_, '_> {
    /// What of user space a packet may meet from a node on.
    fn node(&mut self, node: Option<NodeId>) -> Option<Reason> {
        let Some(node) = node else { return self.behind.clone() };
        let key = (self.pipeline, node.at());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let program = self.code.program;
        let found = match &program.pipelines[self.pipeline].nodes[node.at()] {
            Node::If { condition, then, otherwise, .. } => {
                let impossible = self.code.dry(|code| {
                    let to = code.asm.label();
                    code.branch(condition, to, false, 0)
                });
                let behind = self.node(*then);
                let behind = behind.or(self.node(*otherwise));
                if let Some(reason) = &impossible {
                    self.plan.nodes.insert(key, reason.clone());
                }
                impossible.or(behind)
            }
            Node::Call { action, next, .. } => {
                let behind = self.node(*next);
                self.body(node.at(), *action, behind)
            }
            Node::Table { table, next } => {
                let mut any = None;
                let impossible = self.code.dry(|code| code.table_possible(*table));
                let counts = self.code.table_counts(*table);
                let actions = self.code.table_actions(*table).into_iter().map(Some).chain([None]);
                for action in actions {
                    let behind = self.after(next, action);
                    let found = match action {
                        Some(action) => self.body(node.at(), action, behind),
                        None => behind,
                    };
                    if let Some(reason) = found.as_ref().filter(|_| counts) {
                        let number = action.map_or(NO_ACTION, |action| action.0);
                        let key = (self.pipeline, node.at(), number, DISPATCH);
                        self.plan.cuts.insert(key, before(reason));
                    }
                    any = any.or(found);
                }
                if let Some(reason) = &impossible {
                    self.plan.nodes.insert(key, reason.clone());
                }
                impossible.or(any)
            }
        };
        self.known.insert(key, found.clone());
        found
    }

    fn after(&mut self, next: &NextNode, action: Option<ActionId>) -> Option<Reason> {
        match next {
            NextNode::ByAction { by_action, default } => {
                let found = by_action.iter().find(|(known, _)| Some(*known) == action);
                self.node(found.map_or(*default, |(_, next)| *next))
            }
            NextNode::ByHit { hit, miss } => {
                let found = self.node(*hit);
                found.or(self.node(*miss))
            }
        }
    }

    fn body(&mut self, node: usize, action: ActionId, behind: Option<Reason>) -> Option<Reason> {
        let program = self.code.program;
        let body = &program.actions[action.at()].body;
        let exits = body.iter().any(|stmt| matches!(stmt, Stmt::Exit));
        let mut found = if exits { behind.or(self.behind.clone()) } else { behind };
        self.code.action = Some(action);
        for (at, stmt) in body.iter().enumerate().rev() {
            let impossible = self.code.dry(|code| {
                let labels: Vec<Label> = (0..=body.len()).map(|_| code.asm.label()).collect();
                let end = labels[body.len()];
                code.step(stmt, at, &labels, end)
            });
            let key = (self.pipeline, node, action.0, at);
            if let Some(reason) = impossible {
                self.plan.cuts.insert(key, reason.clone());
                found = Some(reason);
            } else if Gen::effect(stmt)
                && let Some(reason) = &found
            {
                self.plan.cuts.insert(key, before(reason));
            }
        }
        self.code.action = None;
        found
    }
}
