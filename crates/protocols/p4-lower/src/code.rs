//! Code with labels, and what it becomes: the body of an action, the graph of a pipeline, the states of a parser.

use barewire_p4::ir::{
    Action, ActionId, Expr, NextNode, Node, NodeId, ParserOp, ParserState, Pipeline, StateId, Stmt, TableId,
    Transition, TransitionMatch, UnaryOp,
};
use barewire_p4_source::Span;
use num_bigint::BigUint;
use std::collections::HashMap;

use super::{Lower, Result, refuse};

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label(pub u32);

impl Label {
    /// The end of the action, pipeline or parser.
    pub const END: Label = Label(0);
}

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) enum Ins {
    /// With the statement of the source that it is of.
    Stmt(Stmt, Span),
    /// In pipelines only: statements with jumps of their own.
    Action(Vec<Stmt>, Span),
    /// In pipelines only: an action of the source, and the name of its node.
    Call(ActionId, String),
    /// In parsers only.
    Op(ParserOp),
    Label(Label),
    /// A label that is a state of the source.
    State(Label, String),
    Jump(Label),
    Unless(Expr, Label),
    Hit {
        table: TableId,
        hit: Label,
        miss: Label,
    },
    Run {
        table: TableId,
        cases: Vec<(ActionId, Label)>,
        other: Label,
    },
    Select {
        key: Vec<(Expr, u32)>,
        cases: Vec<(TransitionMatch, Label)>,
    },
}

fn places(code: &[Ins]) -> HashMap<Label, usize> {
    let mut places = HashMap::from([(Label::END, code.len())]);
    for (at, ins) in code.iter().enumerate() {
        if let Ins::Label(label) | Ins::State(label, _) = ins {
            places.insert(*label, at);
        }
    }
    places
}

/// Which instructions can be reached, and which of the labels are jumped to.
fn reached(code: &[Ins], places: &HashMap<Label, usize>) -> Vec<bool> {
    reached_from(code, places, 0)
}

/// Whether one place can be reached from behind another.
pub(crate) fn leads(code: &[Ins], from: usize, to: usize) -> bool {
    reached_from(code, &places(code), from + 1)[to]
}

fn reached_from(code: &[Ins], places: &HashMap<Label, usize>, start: usize) -> Vec<bool> {
    let mut seen = vec![false; code.len() + 1];
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        if at > code.len() || std::mem::replace(&mut seen[at], true) || at == code.len() {
            continue;
        }
        let place = |label: &Label| places[label];
        match &code[at] {
            Ins::Jump(label) => open.push(place(label)),
            Ins::Unless(_, label) => open.extend([at + 1, place(label)]),
            Ins::Hit { hit, miss, .. } => open.extend([place(hit), place(miss)]),
            Ins::Run { cases, other, .. } => {
                open.push(place(other));
                open.extend(cases.iter().map(|(_, label)| place(label)));
            }
            Ins::Select { cases, .. } => open.extend(cases.iter().map(|(_, label)| place(label))),
            Ins::Stmt(..) | Ins::Action(..) | Ins::Call(..) | Ins::Op(_) | Ins::Label(_) | Ins::State(..) => {
                open.push(at + 1)
            }
        }
    }
    seen
}

/// Where a place leads when labels and jumps are followed.
fn follow(code: &[Ins], places: &HashMap<Label, usize>, mut at: usize) -> usize {
    for _ in 0..=code.len() {
        match code.get(at) {
            Some(Ins::Label(_) | Ins::State(..)) => at += 1,
            Some(Ins::Jump(label)) => at = places[label],
            _ => break,
        }
    }
    at
}

/// The statements of an action.
pub(crate) fn body(code: &[Ins], span: Span) -> Result<Vec<Stmt>> {
    let places = places(code);
    let reached = reached(code, &places);
    let keep = |at: usize| {
        reached[at]
            && match &code[at] {
                Ins::Stmt(..) | Ins::Unless(..) => true,
                Ins::Jump(label) => {
                    // Where it would go without the jump: past what nothing reaches.
                    let next = (at + 1..code.len()).find(|&next| reached[next]).unwrap_or(code.len());
                    follow(code, &places, places[label]) != follow(code, &places, next)
                }
                _ => false,
            }
    };
    let mut position = Vec::with_capacity(code.len() + 1);
    let mut count = 0;
    for at in 0..code.len() {
        position.push(count);
        count += usize::from(keep(at));
    }
    position.push(count);
    let target = |label: &Label| position[follow(code, &places, places[label])];
    let mut out = Vec::with_capacity(count);
    for (at, ins) in code.iter().enumerate() {
        if !keep(at) {
            if reached[at] && !matches!(ins, Ins::Label(_) | Ins::State(..) | Ins::Jump(_)) {
                return refuse(span, "an action cannot do this");
            }
            continue;
        }
        out.push(match ins {
            Ins::Stmt(stmt, _) => stmt.clone(),
            Ins::Jump(label) => Stmt::Jump(target(label)),
            Ins::Unless(condition, label) => {
                Stmt::JumpUnless { condition: condition.clone(), target: target(label) }
            }
            _ => continue,
        });
    }
    Ok(out)
}

impl Lower<'_> {
    /// An action that no control plane sees; the name of its node. As the reference compiler calls it: by file and line
    /// of its first statement.
    fn hidden_action(&mut self, first: Span, body: Vec<Stmt>) -> (String, ActionId) {
        let action = ActionId::from(self.program.actions.len());
        let name = match self.map.place(first) {
            Some(place) => {
                let file = place.file.rsplit('/').next().unwrap_or("");
                let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
                let mut name: String =
                    stem.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                if name.ends_with(|c: char| c.is_ascii_digit()) {
                    name.push('l');
                }
                format!("{name}{}", place.at.line)
            }
            None => "act".to_owned(),
        };
        let name = self.unique(&name);
        let node = format!("tbl_{name}");
        self.program.actions.push(Action { name, id: action.0, params: Vec::new(), body });
        (node, action)
    }

    /// The graph of a pipeline.
    pub(crate) fn graph(&mut self, code: &[Ins], name: &str, span: Span) -> Result<Pipeline> {
        let places = places(code);
        let reached = reached(code, &places);
        let mut nodes: Vec<Node> = Vec::new();
        let mut entry: Vec<Option<NodeId>> = vec![None; code.len() + 1];
        let add = |nodes: &mut Vec<Node>, node: Node| {
            nodes.push(node);
            Some(NodeId::from(nodes.len() - 1))
        };
        for at in (0..code.len()).rev() {
            if !reached[at] {
                continue;
            }
            let mut back = false;
            let mut to = |label: &Label| {
                back |= places[label] <= at;
                entry[places[label]]
            };
            let node = match &code[at] {
                Ins::Label(_) | Ins::State(..) => entry[at + 1],
                Ins::Jump(label) => to(label),
                Ins::Unless(condition, label) => {
                    let otherwise = to(label);
                    let then = entry[at + 1];
                    if then == otherwise {
                        then
                    } else {
                        let name = format!("node_{}", nodes.len());
                        add(&mut nodes, Node::If { name, condition: condition.clone(), then, otherwise })
                    }
                }
                Ins::Hit { table, hit, miss } => {
                    let (hit, miss) = (to(hit), to(miss));
                    let next = if hit == miss {
                        NextNode::ByAction { by_action: Vec::new(), default: hit }
                    } else {
                        NextNode::ByHit { hit, miss }
                    };
                    add(&mut nodes, Node::Table { table: *table, next })
                }
                Ins::Run { table, cases, other } => {
                    let default = to(other);
                    let by_action = cases.iter().map(|(action, label)| (*action, to(label))).collect();
                    add(
                        &mut nodes,
                        Node::Table { table: *table, next: NextNode::ByAction { by_action, default } },
                    )
                }
                Ins::Stmt(_, first) => {
                    // A run of statements is one action, made at its first.
                    if at > 0 && matches!(code[at - 1], Ins::Stmt(..)) && reached[at - 1] {
                        continue;
                    }
                    let mut end = at;
                    let mut body = Vec::new();
                    while let Some(Ins::Stmt(stmt, _)) = code.get(end) {
                        body.push(stmt.clone());
                        end += 1;
                    }
                    let (name, action) = self.hidden_action(*first, body);
                    add(&mut nodes, Node::Call { name, action, next: entry[end] })
                }
                Ins::Action(body, first) => {
                    let (name, action) = self.hidden_action(*first, body.clone());
                    add(&mut nodes, Node::Call { name, action, next: entry[at + 1] })
                }
                Ins::Call(action, name) => {
                    add(&mut nodes, Node::Call { name: name.clone(), action: *action, next: entry[at + 1] })
                }
                Ins::Op(_) | Ins::Select { .. } => {
                    return refuse(span, "a pipeline cannot do what only a parser can");
                }
            };
            if back {
                return refuse(span, "a loop whose rounds are not known when the program is compiled");
            }
            entry[at] = node;
        }
        Ok(Pipeline { name: name.to_owned(), start: entry[0], nodes })
    }
}

/// The states of a parser.
pub(crate) fn states(code: &[Ins], span: Span) -> Result<(Option<StateId>, Vec<ParserState>)> {
    let places = places(code);
    let mut ids: HashMap<usize, StateId> = HashMap::new();
    let mut order = Vec::new();
    let mut id_of = |at: usize, order: &mut Vec<usize>| -> Option<StateId> {
        let target = follow(code, &places, at);
        if target >= code.len() {
            return None;
        }
        Some(*ids.entry(target).or_insert_with(|| {
            order.push(target);
            StateId::from(order.len() - 1)
        }))
    };
    let start = id_of(0, &mut order);
    let mut states: Vec<ParserState> = Vec::new();
    let mut names: HashMap<String, u32> = HashMap::new();
    while states.len() < order.len() {
        let first = order[states.len()];
        let mut name = String::from("start");
        // The nearest state of the source in front of it.
        if let Some(found) = code[..first].iter().rev().find_map(|ins| match ins {
            Ins::State(_, name) => Some(name.clone()),
            _ => None,
        }) {
            name = found;
        }
        let count = names.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            name = format!("{name}${}", *count - 1);
        }
        let mut state = ParserState { name, ops: Vec::new(), key: Vec::new(), transitions: Vec::new() };
        let mut at = first;
        loop {
            let always = |next| Transition { when: TransitionMatch::Default, next };
            match code.get(at) {
                Some(Ins::Stmt(stmt, _)) => state.ops.push(ParserOp::Stmt(stmt.clone())),
                Some(Ins::Op(op)) => state.ops.push(op.clone()),
                Some(Ins::Unless(condition, label)) => {
                    let bit = Expr::Unary(UnaryOp::BoolToInt, Box::new(condition.clone()));
                    state.key.push((bit, 1));
                    let zero = TransitionMatch::Masked(vec![(BigUint::ZERO, BigUint::from(1_u8))]);
                    let otherwise = id_of(places[label], &mut order);
                    state.transitions.push(Transition { when: zero, next: otherwise });
                    state.transitions.push(always(id_of(at + 1, &mut order)));
                    break;
                }
                Some(Ins::Select { key, cases }) => {
                    state.key.clone_from(key);
                    for (when, label) in cases {
                        let next = id_of(places[label], &mut order);
                        state.transitions.push(Transition { when: when.clone(), next });
                    }
                    break;
                }
                Some(Ins::Label(_) | Ins::State(..) | Ins::Jump(_)) | None => {
                    state.transitions.push(always(id_of(at, &mut order)));
                    break;
                }
                Some(Ins::Hit { .. } | Ins::Run { .. } | Ins::Action(..) | Ins::Call(..)) => {
                    return refuse(span, "a parser cannot apply a table");
                }
            }
            at += 1;
        }
        states.push(state);
    }
    Ok((start, states))
}
