//! The interpreter on programs made by hand.

mod expressions;
mod parsers;
mod pipelines;
mod statements;

use super::trace::{NoTrace, Recorder};
use super::{Context, Interpreter, Plan, Value};
use crate::engine::Engine;
use crate::ir::*;
use crate::phv::{Phv, slot};
use crate::state::PlainState;
use num_bigint::{BigInt, BigUint};
use std::sync::Arc;

pub(super) fn empty_program() -> Program {
    let errors = [
        "NoError",
        "PacketTooShort",
        "NoMatch",
        "StackOutOfBounds",
        "HeaderTooShort",
        "ParserTimeout",
        "ParserInvalidArgument",
        "Custom",
    ];
    Program {
        name: "test".to_owned(),
        errors: errors.iter().zip(0..).map(|(name, number)| ((*name).to_owned(), number)).collect(),
        ..Program::empty()
    }
}

/// Header instances by what their fields are; positive widths are fixed, negative ones varbit.
pub(super) struct Builder {
    pub program: Program,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { program: empty_program() }
    }

    pub fn ty(&mut self, name: &str, widths: &[i32]) -> HeaderTypeId {
        let field = |(index, &width): (usize, &i32)| FieldDef {
            name: format!("f{index}"),
            width: if width < 0 { Width::Varbit(width.unsigned_abs()) } else { Width::Fixed(width as u32) },
            signed: false,
        };
        let fields = widths.iter().enumerate().map(field).collect();
        self.program.header_types.push(HeaderType { name: name.to_owned(), fields });
        HeaderTypeId::from(self.program.header_types.len() - 1)
    }

    pub fn instance(&mut self, name: &str, ty: HeaderTypeId, metadata: bool) -> HeaderId {
        let header = Header { name: name.to_owned(), ty, metadata, union: None, length_exp: None };
        self.program.headers.push(header);
        HeaderId::from(self.program.headers.len() - 1)
    }

    pub fn header(&mut self, name: &str, widths: &[i32]) -> HeaderId {
        let ty = self.ty(name, widths);
        self.instance(name, ty, false)
    }

    pub fn metadata(&mut self, name: &str, widths: &[i32]) -> HeaderId {
        let ty = self.ty(name, widths);
        self.instance(name, ty, true)
    }

    pub fn stack(&mut self, name: &str, widths: &[i32], len: usize) -> (StackId, Vec<HeaderId>) {
        let ty = self.ty(name, widths);
        let elements: Vec<HeaderId> =
            (0..len).map(|index| self.instance(&format!("{name}[{index}]"), ty, false)).collect();
        self.program.stacks.push(HeaderStack { name: name.to_owned(), ty, elements: elements.clone() });
        (StackId::from(self.program.stacks.len() - 1), elements)
    }

    pub fn union(&mut self, name: &str, members: &[HeaderTypeId]) -> (UnionId, Vec<HeaderId>) {
        let id = UnionId::from(self.program.unions.len());
        let member_names: Vec<String> = (0..members.len()).map(|index| format!("m{index}")).collect();
        let headers: Vec<HeaderId> = members
            .iter()
            .zip(&member_names)
            .map(|(&ty, member)| self.instance(&format!("{name}.{member}"), ty, false))
            .collect();
        for header in &headers {
            self.program.headers[header.at()].union = Some(id);
        }
        self.program.unions.push(HeaderUnion {
            name: name.to_owned(),
            member_names,
            members: headers.clone(),
        });
        (id, headers)
    }

    pub fn action(&mut self, name: &str, widths: &[u32], body: Vec<Stmt>) -> ActionId {
        let params =
            widths.iter().enumerate().map(|(i, &width)| Param { name: format!("p{i}"), width }).collect();
        let id = self.program.actions.len();
        self.program.actions.push(Action { name: name.to_owned(), id: id as u32, params, body });
        ActionId::from(id)
    }

    pub fn table(&mut self, key: &[(MatchKind, FieldId, u32)], actions: &[ActionId]) -> TableId {
        let id = self.program.tables.len();
        let kind = if key.iter().any(|k| matches!(k.0, MatchKind::Ternary | MatchKind::Range)) {
            TableKind::Ternary
        } else if key.iter().any(|k| k.0 == MatchKind::Lpm) {
            TableKind::Lpm
        } else {
            TableKind::Exact
        };
        let field = |(index, &(kind, field, width)): (usize, &(MatchKind, FieldId, u32))| KeyField {
            name: format!("k{index}"),
            kind,
            source: KeySource::Field(field.into()),
            width,
            mask: None,
        };
        let key = key.iter().enumerate().map(field).collect();
        let table = Table::new(format!("t{id}"), kind, key, actions.to_vec(), 1024);
        self.program.tables.push(Table { id: id as u32, ..table });
        TableId::from(id)
    }

    /// A parser of one state.
    pub fn parser(&mut self, ops: Vec<ParserOp>) {
        let state =
            ParserState { name: "start".to_owned(), ops, key: Vec::new(), transitions: vec![always(None)] };
        self.states(vec![state]);
    }

    pub fn states(&mut self, states: Vec<ParserState>) {
        self.program.parsers = vec![Parser { name: "parser".to_owned(), start: Some(StateId(0)), states }];
    }

    pub fn pipeline(&mut self, nodes: Vec<Node>) {
        let start = (!nodes.is_empty()).then_some(NodeId(0));
        self.program.pipelines.push(Pipeline { name: "ingress".to_owned(), start, nodes });
    }

    pub fn deparser(&mut self, order: Vec<HeaderId>) {
        self.program.deparsers.push(Deparser { name: "deparser".to_owned(), order, stmts: Vec::new() });
    }

    pub fn done(self) -> Fixture {
        let program = Arc::new(self.program);
        let interpreter = Interpreter::new(program.clone());
        let phv = interpreter.plan().layout.new_phv();
        Fixture { phv, state: PlainState::new(program.clone()), interpreter, program, trace: Recorder::new() }
    }
}

pub(super) struct Fixture {
    pub program: Arc<Program>,
    pub interpreter: Interpreter,
    pub phv: Phv,
    pub state: PlainState,
    pub trace: Recorder,
}

impl Fixture {
    pub fn plan(&self) -> Arc<Plan> {
        self.interpreter.plan().clone()
    }

    pub fn parse(&mut self, packet: &[u8]) {
        self.interpreter.parse_traced(0, &mut self.phv, packet, &mut self.state, &mut self.trace);
    }

    pub fn run(&mut self, packet: &[u8]) {
        self.interpreter.run_traced(0, &mut self.phv, packet, &mut self.state, &mut self.trace);
    }

    pub fn deparse(&mut self, payload: &[u8]) -> Vec<u8> {
        let len = self.interpreter.prepare_deparse(0, &mut self.phv, payload, &mut self.state);
        let mut out = vec![0xa5; len];
        Engine::<PlainState>::emit(&mut self.interpreter, 0, &self.phv, &mut out);
        out
    }

    pub fn eval(&mut self, expr: &Expr) -> Value {
        let plan = self.plan();
        let mut tracer = NoTrace;
        let mut context = Context::new(&plan, &mut self.phv, &[], &mut self.state, &mut tracer);
        context.eval(expr).unwrap()
    }

    pub fn exec(&mut self, stmts: &[Stmt]) {
        let plan = self.plan();
        let mut context = Context::new(&plan, &mut self.phv, &[], &mut self.state, &mut self.trace);
        context.exec_stmts(stmts).unwrap();
    }

    pub fn get(&self, header: HeaderId, field: u32) -> BigUint {
        self.phv.field(&self.plan().layout, FieldId { header, field })
    }

    pub fn get64(&self, header: HeaderId, field: u32) -> u64 {
        self.phv.get(&self.plan().layout, FieldId { header, field })
    }

    pub fn set(&mut self, header: HeaderId, field: u32, value: u64) {
        let plan = self.plan();
        self.phv.set(&plan.layout, FieldId { header, field }, value);
    }

    pub fn valid(&self, header: HeaderId) -> bool {
        self.phv.is_valid(&self.plan().layout, header)
    }

    pub fn error(&self) -> &str {
        let number = self.phv.slot(slot::PARSER_ERROR);
        &self.program.errors[number as usize].0
    }
}

pub(super) fn field(header: HeaderId, field: u32) -> FieldRef {
    FieldId { header, field }.into()
}

pub(super) fn read(header: HeaderId, index: u32) -> Expr {
    Expr::Field(field(header, index))
}

pub(super) fn int(value: i128) -> Expr {
    Expr::Int(BigInt::from(value))
}

pub(super) fn bin(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(op, Box::new(left), Box::new(right))
}

pub(super) fn assign(dst: FieldRef, value: Expr) -> Stmt {
    Stmt::Assign { dst, value }
}

pub(super) fn always(next: Option<u32>) -> Transition {
    Transition { when: TransitionMatch::Default, next: next.map(StateId) }
}
