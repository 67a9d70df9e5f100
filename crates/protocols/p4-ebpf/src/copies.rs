//! Multicast: whether a packet's copies are all the same, so that it goes through egress once and leaves many times.

use crate::r#gen::{Gen, Made};
use crate::stmt::is_nothing;
use crate::{Reason, Target};
use barewire_p4::chain::Step;
use barewire_p4::ir::{
    ActionId, BinaryOp, CalcInput, Expr, FieldId, FieldRef, HashAlgorithm, HashSource, HeaderRef, KeySource,
    NextNode, Node, NodeId, ParserOp, Pipeline, Program, Stmt, Written,
};
use num_traits::Zero;
use std::collections::{BTreeMap, BTreeSet};

/// How a packet's copies differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// They do not.
    Same,
    /// Egress drops the one that would go back where the packet came from.
    NotBack,
}

/// The pipelines before and behind the traffic manager.
fn pipelines<'p>(program: &'p Program, target: &Target) -> Option<(&'p Pipeline, &'p Pipeline)> {
    let mut runs = target.steps.iter().filter_map(|step| match step {
        Step::Run(pipeline) => program.pipelines.get(*pipeline),
        _ => None,
    });
    Some((runs.next()?, runs.next_back()?))
}

/// Actions of a node, all that it may run.
fn actions_of(program: &Program, node: &Node) -> Vec<ActionId> {
    match node {
        Node::Table { table, .. } => {
            let table = &program.tables[table.at()];
            table.actions.iter().copied().chain(table.default.iter().map(|call| call.action)).collect()
        }
        Node::Call { action, .. } => vec![*action],
        Node::If { .. } => Vec::new(),
    }
}

/// What each copy does that the others do not.
fn effects(program: &Program, egress: &Pipeline) -> Result<(), &'static str> {
    for node in &egress.nodes {
        if let Node::Table { table, .. } = node {
            let table = &program.tables[table.at()];
            if table.counter.is_some() || table.meter.is_some() {
                return Err("multicast, as egress counts each copy");
            }
        }
        for stmt in actions_of(program, node).iter().flat_map(|action| &program.actions[action.at()].body) {
            match stmt {
                stmt if Gen::effect(stmt) => return Err("multicast, as egress counts each copy"),
                Stmt::Random { .. }
                | Stmt::Hash {
                    source: HashSource::Inline { algorithm: HashAlgorithm::Random, .. }, ..
                } => {
                    return Err("multicast, as egress draws a number for each copy");
                }
                Stmt::CloneEgress { .. } | Stmt::Recirculate { .. } => {
                    return Err("multicast, as egress clones or recirculates each copy");
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Fields that a node reads.
fn read_by(program: &Program, node: &Node) -> BTreeSet<FieldId> {
    let mut read = BTreeSet::new();
    let mut add = |field: &FieldRef| read.extend(field.fixed());
    match node {
        Node::If { condition, .. } => condition.fields_read(&mut add),
        Node::Table { table, .. } => {
            for key in &program.tables[table.at()].key {
                if let KeySource::Field(field) = &key.source {
                    add(field);
                }
            }
        }
        Node::Call { .. } => {}
    }
    let actions = actions_of(program, node);
    let bodies = actions.iter().flat_map(|action| &program.actions[action.at()].body);
    bodies.for_each(|stmt| stmt.fields_read(&mut add));
    read
}

/// Fields that checksums, hashes, selectors, digests and deparsers read, wherever they stand.
fn read_elsewhere(program: &Program) -> BTreeSet<FieldId> {
    let mut read = BTreeSet::new();
    let mut add = |field: &FieldRef| read.extend(field.fixed());
    program.deparsers.iter().flat_map(|d| &d.stmts).for_each(|stmt| stmt.fields_read(&mut add));
    let selectors = program.profiles.iter().filter_map(|p| p.selector.as_ref()).flat_map(|s| &s.input);
    let inputs = program.calculations.iter().flat_map(|c| &c.input).chain(selectors);
    let learned = program.learn_lists.iter().flat_map(|l| &l.items).map(|(input, _)| input);
    inputs.chain(learned).for_each(|input: &CalcInput| input.fields_read(&mut add));
    program.checksums.iter().filter_map(|c| c.condition.as_ref()).for_each(|c| c.fields_read(&mut add));
    read
}

/// How copies differ; or why they are not made in the kernel.
pub(crate) fn differ(program: &Program, target: &Target) -> Result<Copies, &'static str> {
    let Some((ingress, egress)) = pipelines(program, target) else { return Err("multicast") };
    effects(program, egress)?;
    let elsewhere = read_elsewhere(program);
    let reads =
        |field: Option<FieldId>, of: &BTreeSet<FieldId>| field.is_some_and(|field| of.contains(&field));
    let nodes: Vec<_> = egress.nodes.iter().map(|node| read_by(program, node)).collect();
    if reads(target.egress_rid, &elsewhere) || nodes.iter().any(|node| reads(target.egress_rid, node)) {
        return Err("multicast, as egress looks at the replication id of each copy");
    }
    let port = "multicast, as egress looks at the port of each copy";
    if reads(target.egress_port, &elsewhere) {
        return Err(port);
    }
    let readers: Vec<usize> = (0..nodes.len()).filter(|at| reads(target.egress_port, &nodes[*at])).collect();
    match readers[..] {
        [] => Ok(Copies::Same),
        // A later round does not know by which port the packet came.
        [only]
            if !crate::recirculate::any(program)
                && drops_the_one_back(program, target, ingress, egress, only) =>
        {
            Ok(Copies::NotBack)
        }
        _ => Err(port),
    }
}

/// Whether a node is `if (egress_port == ingress_port) mark_to_drop()`, with the port or with what was made of it at the beginning, and
/// nothing behind it takes the mark away.
fn drops_the_one_back(
    program: &Program,
    target: &Target,
    ingress: &Pipeline,
    egress: &Pipeline,
    node: usize,
) -> bool {
    let Node::If { condition: Expr::Binary(BinaryOp::Eq, left, right), then, otherwise, .. } =
        &egress.nodes[node]
    else {
        return false;
    };
    let field = |expr: &Expr| match expr {
        Expr::Field(field) => field.fixed(),
        _ => None,
    };
    let other = match (field(left), field(right)) {
        (Some(left), Some(right)) if Some(left) == target.egress_port => right,
        (Some(left), Some(right)) if Some(right) == target.egress_port => left,
        _ => return false,
    };
    let is_first = egress.start.is_some_and(|start| start.at() == node);
    let marks = |to: &Option<NodeId>| {
        to.is_some_and(|to| {
            let (next, action) = match &egress.nodes[to.at()] {
                Node::Call { action, next, .. } => (*next, Some(*action)),
                Node::Table { table, next: NextNode::ByAction { by_action, default } } => {
                    let (table, ends) =
                        (&program.tables[table.at()], by_action.iter().all(|(_, n)| n.is_none()));
                    let fixed = table.key.is_empty() && ends && table.actions.len() == 1;
                    (*default, table.default.as_ref().map(|call| call.action).filter(|_| fixed))
                }
                _ => (None, None),
            };
            let body = action.map(|action| &program.actions[action.at()].body);
            next.is_none() && body.is_some_and(|body| matches!(body[..], [Stmt::MarkToDrop { .. }]))
        })
    };
    is_first && marks(then) && otherwise.is_none() && is_the_way_in(program, target, ingress, other)
}

/// Whether a field has the number of the port that the packet came in by, whatever happened to it.
fn is_the_way_in(program: &Program, target: &Target, ingress: &Pipeline, field: FieldId) -> bool {
    let Some(port) = target.ingress_port else { return false };
    let in_actions = program.actions.iter().flat_map(|action| &action.body);
    let ops = program.parsers.iter().flat_map(|parser| &parser.states).flat_map(|state| &state.ops);
    let in_parsers = ops.filter_map(|op| match op {
        ParserOp::Stmt(stmt) => Some(stmt),
        _ => None,
    });
    let copies = |stmt: &Stmt| match stmt {
        Stmt::Assign { dst, value: Expr::Field(from) } => {
            dst.fixed() == Some(field) && from.fixed() == Some(port)
        }
        _ => false,
    };
    let kept = in_actions
        .chain(in_parsers)
        .all(|stmt| !may_write(program, stmt, port) && (!may_write(program, stmt, field) || copies(stmt)));
    let colours = program.meters.iter().filter_map(|meter| meter.result.as_ref()?.fixed());
    let kept = kept && colours.into_iter().all(|colour| colour != port && colour != field);
    if !kept || field == port {
        return kept;
    }
    let start = ingress.start.map(|start| &ingress.nodes[start.at()]);
    let first = match start {
        Some(Node::Call { action, .. }) => Some(*action),
        Some(Node::Table { table, .. }) => {
            let table = &program.tables[table.at()];
            let fixed = table.key.is_empty() && table.actions.len() == 1;
            table.default.as_ref().map(|call| call.action).filter(|_| fixed)
        }
        _ => None,
    };
    let body = first.map(|action| &program.actions[action.at()].body);
    body.is_some_and(|body| {
        let straight = |stmt: &&Stmt| !matches!(stmt, Stmt::Jump(_) | Stmt::JumpUnless { .. } | Stmt::Exit);
        body.iter().take_while(straight).any(copies)
    })
}

/// Whether a statement may write a field, alone or with all of its header, or end the life of that.
fn may_write(program: &Program, stmt: &Stmt, field: FieldId) -> bool {
    // Which element of a stack it is, or which member of a union, is not looked at: metadata is neither.
    let somewhere = program.headers.get(field.header.at()).is_none_or(|header| !header.metadata);
    let mut may = false;
    stmt.writes(&mut |written| {
        may |= match written {
            Written::Field(dst) => dst.fixed().map_or(somewhere, |dst| dst == field),
            Written::Request(dst) => dst == field,
            Written::Header(HeaderRef::Header(header)) => *header == field.header,
            Written::Header(_) | Written::Union(_) | Written::Stack(_) | Written::UnionStack(_) => somewhere,
        };
    });
    may
}

/// Whether something sets a multicast group, and its copies are made in the kernel.
pub(crate) fn made_here(program: &Program, target: &Target) -> Option<Copies> {
    let group = target.mcast_grp?;
    let sets = |stmt: &Stmt| match stmt {
        Stmt::Assign { dst, value } => {
            dst.fixed() == Some(group) && !matches!(value, Expr::Int(value) if value.is_zero())
        }
        _ => false,
    };
    let any = program.actions.iter().flat_map(|action| &action.body).any(sets);
    differ(program, target).ok().filter(|_| any)
}

/// Values that an action assigns to what they were taken from, or that it made nothing before, by their addresses: a structure that goes
/// into a call and comes out again leaves most of its fields as they were.
pub(crate) fn unchanged(program: &Program) -> BTreeSet<usize> {
    fn field(expr: &Expr) -> Option<FieldId> {
        match expr {
            Expr::Field(field) => field.fixed(),
            Expr::Wrap { value, .. } => field(value),
            _ => None,
        }
    }
    let mut found = BTreeSet::new();
    for body in program.actions.iter().map(|action| &action.body) {
        if body.iter().any(|stmt| matches!(stmt, Stmt::Jump(_) | Stmt::JumpUnless { .. })) {
            continue;
        }
        // Each with what it is a copy of.
        let mut copies: BTreeMap<FieldId, FieldId> = BTreeMap::new();
        let mut nothing: BTreeSet<FieldId> = BTreeSet::new();
        for stmt in body {
            let copy = match stmt {
                Stmt::Assign { dst, value } => {
                    dst.fixed().zip(field(value)).map(|(to, from)| (to, from, value))
                }
                _ => None,
            };
            if let Some((to, from, value)) = copy
                && copies.get(&from) == Some(&to)
            {
                found.insert(std::ptr::from_ref(value) as usize);
                continue;
            }
            let is_zero = match (stmt, copy) {
                (_, Some((_, from, value))) if nothing.contains(&from) => {
                    found.insert(std::ptr::from_ref(value) as usize);
                    true
                }
                (Stmt::Assign { value, .. }, _) => is_nothing(value),
                _ => false,
            };
            stmt.writes(&mut |written| {
                let gone = match written {
                    Written::Field(dst) => dst.fixed(),
                    Written::Request(dst) => Some(dst),
                    _ => None,
                };
                match gone {
                    Some(gone) => {
                        copies.retain(|to, from| *to != gone && *from != gone);
                        nothing.remove(&gone);
                    }
                    None => {
                        copies.clear();
                        nothing.clear();
                    }
                }
            });
            if let (Stmt::Assign { dst, .. }, true) = (stmt, is_zero) {
                nothing.extend(dst.fixed());
            } else if let Some((to, from, _)) = copy.filter(|(to, from, _)| to != from) {
                copies.insert(to, from);
            }
        }
    }
    found
}

impl Gen<'_> {
    /// Whether a field may be written: a multicast group where copies are made here.
    pub fn may_write(&self, dst: &FieldRef) -> Made {
        let refused = self.target.refused.iter().find(|(field, _)| dst.fixed() == Some(*field));
        if let Some((_, why)) = refused {
            return Err(Reason::No(why));
        }
        match (dst.fixed(), self.target.mcast_grp) {
            (Some(field), Some(group)) if field == group && self.copies.is_none() => {
                Err(Reason::No(differ(self.program, self.target).err().unwrap_or("multicast")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_p4::ir::{ChecksumUnitId, Header, HeaderId, HeaderTypeId, StackId};

    #[test]
    fn what_comes_back_as_it_went_is_unchanged() {
        let field = |at: u32| FieldId { header: HeaderId::from(0), field: at };
        let copy = |to: u32, from: u32| Stmt::Assign {
            dst: field(to).into(),
            value: Expr::Field(field(from).into()),
        };
        let set = |to: u32| Stmt::Assign { dst: field(to).into(), value: Expr::Bool(true) };
        // Statements, and which of them assign what is there.
        let zero = |to: u32| Stmt::Assign { dst: field(to).into(), value: Expr::Bool(false) };
        let cases: [(Vec<Stmt>, &[usize]); 8] = [
            (vec![copy(5, 0), copy(6, 1), copy(0, 5), copy(1, 6)], &[2, 3]),
            (vec![copy(5, 0), set(5), copy(0, 5)], &[]),
            (vec![copy(5, 0), set(0), copy(0, 5)], &[]),
            (vec![copy(5, 0), copy(5, 1), copy(0, 5), copy(1, 5)], &[3]),
            (vec![copy(0, 5)], &[]),
            (vec![copy(5, 0), zero(5), copy(0, 5), copy(6, 0)], &[2, 3]),
            (vec![zero(5), set(5), copy(0, 5)], &[]),
            (vec![copy(5, 0), Stmt::Jump(2), copy(0, 5)], &[]),
        ];
        for (body, expected) in cases {
            let mut program = Program::empty();
            program.actions.push(barewire_p4::ir::Action {
                name: String::new(),
                id: 0,
                params: Vec::new(),
                body,
            });
            let found = unchanged(&program);
            let body = program.actions[0].body.iter().enumerate();
            let at: Vec<usize> = body
                .filter(|(_, stmt)| match stmt {
                    Stmt::Assign { value, .. } => found.contains(&(std::ptr::from_ref(value) as usize)),
                    _ => false,
                })
                .map(|(at, _)| at)
                .collect();
            assert_eq!(at, expected, "{:?}", program.actions[0].body);
        }
    }

    #[test]
    fn whole_headers_are_written_too() {
        let mut program = Program::empty();
        let at = program.headers.len();
        for metadata in [true, false, false] {
            let name = format!("{metadata}");
            program.headers.push(Header {
                name,
                ty: HeaderTypeId::from(0),
                metadata,
                union: None,
                length_exp: None,
            });
        }
        let id = |place: usize| HeaderId::from(at + place);
        let field = |place: usize| FieldId { header: id(place), field: 0 };
        let whole = |place: usize| HeaderRef::Header(id(place));
        let (stack, unit) = (StackId::from(0), ChecksumUnitId::from(0));
        let zero = Expr::Int(Zero::zero());
        let copy = Stmt::CopyHeader { dst: whole(1), src: whole(2) };
        let in_stack = |value| Stmt::Assign {
            dst: FieldRef { header: HeaderRef::StackElement(stack, Box::new(Expr::Param(0))), field: 0 },
            value,
        };
        // Each with whether it may write the fields of metadata, of a header, and of another one.
        let cases = [
            (copy, [false, true, false]),
            (Stmt::SetInvalid(whole(2)), [false, false, true]),
            (Stmt::CopyHeader { dst: whole(0), src: whole(2) }, [true, false, false]),
            (Stmt::CopyStack { dst: stack, src: stack }, [false, true, true]),
            (Stmt::Push { stack, count: 1 }, [false, true, true]),
            (Stmt::Pop { stack, count: 1 }, [false, true, true]),
            (in_stack(zero.clone()), [false, true, true]),
            (Stmt::ChecksumGet { unit, dst: field(0).into() }, [true, false, false]),
            (Stmt::ChecksumVerify { unit, dst: field(2).into(), equals: zero }, [false, false, true]),
            (Stmt::NoOp, [false; 3]),
        ];
        for (stmt, expected) in cases {
            let found = [0, 1, 2].map(|place| may_write(&program, &stmt, field(place)));
            assert_eq!(found, expected, "{stmt:?}");
        }
    }
}
