//! Multicast: whether a packet's copies are all the same, so that it goes through egress once and leaves many times.

use crate::r#gen::{Gen, Made};
use crate::{Reason, Target};
use barewire_p4::chain::Step;
use barewire_p4::ir::{ActionId, Expr, FieldRef, HashAlgorithm, HashSource, Node, Program, Stmt};
use num_traits::Zero;

/// Why copies are not made in the kernel.
fn differ(program: &Program, target: &Target) -> Option<&'static str> {
    let run = |step: &Step| match step {
        Step::Run(pipeline) => Some(*pipeline),
        _ => None,
    };
    let egress = target.steps.iter().rev().find_map(run)?;
    let mut actions: Vec<ActionId> = Vec::new();
    for node in &program.pipelines[egress].nodes {
        match node {
            Node::Table { table, .. } => {
                let table = &program.tables[table.at()];
                if table.counter.is_some() || table.meter.is_some() {
                    return Some("multicast, as egress counts each copy");
                }
                actions.extend(&table.actions);
                actions.extend(table.default.iter().map(|call| call.action));
            }
            Node::Call { action, .. } => actions.push(*action),
            Node::If { .. } => {}
        }
    }
    for stmt in actions.iter().flat_map(|action| &program.actions[action.at()].body) {
        match stmt {
            stmt if Gen::effect(stmt) => return Some("multicast, as egress counts each copy"),
            Stmt::Random { .. }
            | Stmt::Hash { source: HashSource::Inline { algorithm: HashAlgorithm::Random, .. }, .. } => {
                return Some("multicast, as egress draws a number for each copy");
            }
            Stmt::CloneEgress { .. } | Stmt::Recirculate { .. } => {
                return Some("multicast, as egress clones or recirculates each copy");
            }
            _ => {}
        }
    }
    target.copies_differ
}

/// Whether something sets a multicast group, and its copies are made in the kernel.
pub(crate) fn may_be_here(program: &Program, target: &Target) -> bool {
    let Some(group) = target.mcast_grp else { return false };
    let sets = |stmt: &Stmt| match stmt {
        Stmt::Assign { dst, value } => {
            dst.fixed() == Some(group) && !matches!(value, Expr::Int(value) if value.is_zero())
        }
        _ => false,
    };
    program.actions.iter().flat_map(|action| &action.body).any(sets) && differ(program, target).is_none()
}

impl Gen<'_> {
    /// Whether a field may be written: a multicast group where copies are made here.
    pub fn may_write(&self, dst: &FieldRef) -> Made {
        match (dst.fixed(), self.target.mcast_grp) {
            (Some(field), Some(group)) if field == group && !self.multicasts => {
                Err(Reason::No(differ(self.program, self.target).unwrap_or("multicast")))
            }
            _ => Ok(()),
        }
    }
}
