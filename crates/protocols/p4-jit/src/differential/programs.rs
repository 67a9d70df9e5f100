//! Random programs: one header of fields of odd widths, one pipeline with an action of random expressions.

use barewire_base::Prng;
use barewire_p4::ir::{
    Action, ActionId, Arch, BinaryOp, Deparser, Expr, FieldDef, FieldId, FieldRef, Header, HeaderId,
    HeaderRef, HeaderType, HeaderTypeId, Node, NodeId, Parser, ParserOp, ParserState, Pipeline, Program,
    StateId, Stmt, Transition, TransitionMatch, UnaryOp, Width,
};
use num_bigint::{BigInt, BigUint, Sign};

/// A program with nothing in it.
pub fn empty() -> Program {
    Program {
        name: String::new(),
        arch: Arch::V1Model,
        source: String::new(),
        header_types: Vec::new(),
        headers: Vec::new(),
        stacks: Vec::new(),
        unions: Vec::new(),
        union_stacks: Vec::new(),
        errors: Vec::new(),
        enums: Vec::new(),
        field_aliases: Vec::new(),
        field_lists: Vec::new(),
        learn_lists: Vec::new(),
        value_sets: Vec::new(),
        parsers: Vec::new(),
        deparsers: Vec::new(),
        actions: Vec::new(),
        tables: Vec::new(),
        profiles: Vec::new(),
        pipelines: Vec::new(),
        counters: Vec::new(),
        meters: Vec::new(),
        registers: Vec::new(),
        calculations: Vec::new(),
        checksums: Vec::new(),
        checksum_units: Vec::new(),
    }
}

/// A field width: mostly up to 64 bits, sometimes up to 200.
fn width(prng: &mut Prng) -> u32 {
    let widths = [1, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 160, 200];
    match prng.below(10) {
        0..6 => 1 + prng.below(64) as u32,
        6..9 => widths[prng.below(widths.len() as u64) as usize],
        _ => 1 + prng.below(200) as u32,
    }
}

/// Makes expressions over the fields of some headers.
pub struct Expressions<'a> {
    fields: Vec<(FieldId, FieldDef)>,
    headers: Vec<HeaderId>,
    /// Bits that may be looked ahead at; none outside parsers.
    lookahead: bool,
    prng: &'a mut Prng,
}

impl Expressions<'_> {
    fn pick(&mut self, bound: usize) -> usize {
        self.prng.below(bound as u64) as usize
    }

    /// A field.
    pub fn field(&mut self) -> FieldId {
        let at = self.pick(self.fields.len());
        self.fields[at].0
    }

    fn constant(&mut self) -> BigInt {
        let small = BigInt::from(self.prng.below(70));
        let value = match self.prng.below(6) {
            0 => BigInt::from(self.prng.next_u64()),
            1 => (BigInt::from(1) << self.prng.below(140)) - 1,
            2 => BigInt::from(1) << self.prng.below(200),
            3 => {
                let mut bytes = vec![0; 1 + self.prng.below(20) as usize];
                self.prng.fill(&mut bytes);
                BigInt::from_bytes_be(Sign::Plus, &bytes)
            }
            _ => small,
        };
        if self.prng.chance(0.2) { -value } else { value }
    }

    /// An integer expression.
    pub fn int(&mut self, depth: u32) -> Expr {
        if depth == 0 || self.prng.chance(0.15) {
            return match self.prng.below(8) {
                0..5 => Expr::Field(self.field().into()),
                5 if self.lookahead => {
                    Expr::Lookahead { offset: self.prng.below(40) as u32, width: width(self.prng) }
                }
                _ => Expr::Int(self.constant()),
            };
        }
        let depth = depth - 1;
        match self.prng.below(16) {
            0..9 => {
                const OPS: [BinaryOp; 8] = [
                    BinaryOp::Add,
                    BinaryOp::Sub,
                    BinaryOp::Mul,
                    BinaryOp::Div,
                    BinaryOp::Rem,
                    BinaryOp::BitAnd,
                    BinaryOp::BitOr,
                    BinaryOp::BitXor,
                ];
                let op = OPS[self.pick(OPS.len())];
                Expr::Binary(op, Box::new(self.int(depth)), Box::new(self.int(depth)))
            }
            9..11 => {
                let op = if self.prng.chance(0.5) { BinaryOp::Shl } else { BinaryOp::Shr };
                let count = if self.prng.chance(0.7) {
                    Expr::Int(BigInt::from(self.prng.below(90)) - 2)
                } else {
                    self.int(depth)
                };
                Expr::Binary(op, Box::new(self.int(depth)), Box::new(count))
            }
            11 => {
                let op = if self.prng.chance(0.5) { UnaryOp::Neg } else { UnaryOp::BitNot };
                Expr::Unary(op, Box::new(self.int(depth)))
            }
            12 => Expr::Unary(UnaryOp::BoolToInt, Box::new(self.truth(depth))),
            13 => Expr::Select(
                Box::new(self.truth(depth)),
                Box::new(self.int(depth)),
                Box::new(self.int(depth)),
            ),
            14 => Expr::Wrap { value: Box::new(self.int(depth)), width: width(self.prng) },
            _ => Expr::Saturate {
                value: Box::new(self.int(depth)),
                width: width(self.prng),
                signed: self.prng.chance(0.5),
            },
        }
    }

    /// A truth value.
    pub fn truth(&mut self, depth: u32) -> Expr {
        if depth == 0 {
            return match self.prng.below(3) {
                0 => Expr::Bool(self.prng.chance(0.5)),
                _ => {
                    let at = self.pick(self.headers.len());
                    Expr::Valid(HeaderRef::Header(self.headers[at]))
                }
            };
        }
        let depth = depth - 1;
        match self.prng.below(12) {
            0..6 => {
                const OPS: [BinaryOp; 6] =
                    [BinaryOp::Eq, BinaryOp::Ne, BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge];
                let op = OPS[self.pick(OPS.len())];
                Expr::Binary(op, Box::new(self.int(depth)), Box::new(self.int(depth)))
            }
            6..8 => {
                let op = if self.prng.chance(0.5) { BinaryOp::And } else { BinaryOp::Or };
                Expr::Binary(op, Box::new(self.truth(depth)), Box::new(self.truth(depth)))
            }
            8 => Expr::Unary(UnaryOp::Not, Box::new(self.truth(depth))),
            9 => Expr::Unary(UnaryOp::IntToBool, Box::new(self.int(depth))),
            10 => Expr::Select(
                Box::new(self.truth(depth)),
                Box::new(self.truth(depth)),
                Box::new(self.truth(depth)),
            ),
            _ => self.truth(0),
        }
    }
}

/// A program of random types, expressions, statements and jumps.
pub fn random(prng: &mut Prng) -> Program {
    let mut program = empty();
    for metadata in [true, false, false, false] {
        let mut fields = Vec::new();
        let mut bits = 0;
        for i in 0..1 + prng.below(8) {
            let width = width(prng);
            bits += width;
            fields.push(FieldDef {
                name: format!("f{i}"),
                width: Width::Fixed(width),
                signed: prng.chance(0.2),
            });
        }
        if !metadata && bits % 8 != 0 && prng.chance(0.9) {
            fields.push(FieldDef {
                name: "pad".to_owned(),
                width: Width::Fixed(8 - bits % 8),
                signed: false,
            });
        }
        let ty = HeaderTypeId::from(program.header_types.len());
        program.header_types.push(HeaderType { name: format!("t{}", ty.0), fields });
        let name = format!("h{}", ty.0);
        program.headers.push(Header { name, ty, metadata, union: None, length_exp: None });
    }
    let headers: Vec<HeaderId> = (0..program.headers.len()).map(HeaderId::from).collect();
    let all_fields = headers
        .iter()
        .flat_map(|header| {
            let defs = program.header_type_of(*header).fields.clone();
            defs.into_iter()
                .enumerate()
                .map(|(field, def)| (FieldId { header: *header, field: field as u32 }, def))
        })
        .collect();
    let mut make = Expressions { fields: all_fields, headers: headers.clone(), lookahead: false, prng };
    program.actions = vec![action(&mut make, &headers), action(&mut make, &headers)];
    let condition = make.truth(4);
    make.lookahead = true;
    program.parsers = vec![parser(&mut make, &headers)];
    program.pipelines = vec![Pipeline {
        name: "ingress".to_owned(),
        start: Some(NodeId(0)),
        nodes: vec![
            Node::If { name: "c".to_owned(), condition, then: Some(NodeId(1)), otherwise: Some(NodeId(2)) },
            Node::Call { name: "a".to_owned(), action: ActionId(0), next: Some(NodeId(2)) },
            Node::Call { name: "b".to_owned(), action: ActionId(1), next: None },
        ],
    }];
    let order = headers.iter().copied().filter(|id| !program.headers[id.at()].metadata).collect();
    program.deparsers = vec![Deparser { name: "deparser".to_owned(), order, stmts: Vec::new() }];
    program
}

fn action(make: &mut Expressions<'_>, headers: &[HeaderId]) -> Action {
    let count = 2 + make.pick(8);
    let mut body = Vec::with_capacity(count);
    for at in 0..count {
        let header = HeaderRef::Header(headers[make.pick(headers.len())]);
        body.push(match make.prng.below(14) {
            0 => Stmt::SetValid(header),
            1 => Stmt::SetInvalid(header),
            2 => Stmt::JumpUnless { condition: make.truth(3), target: at + 1 + make.pick(count - at) },
            3 if make.prng.chance(0.2) => Stmt::Exit,
            4 if make.prng.chance(0.2) => Stmt::Assert(make.truth(3)),
            5 if make.prng.chance(0.3) => Stmt::Jump(at + 1 + make.pick(count - at)),
            // A loop, now and then.
            6 if make.prng.chance(0.05) => Stmt::JumpUnless { condition: make.truth(2), target: at },
            _ => {
                let depth = 1 + make.prng.below(5) as u32;
                Stmt::Assign { dst: FieldRef::from(make.field()), value: make.int(depth) }
            }
        });
    }
    Action { name: "a".to_owned(), id: 0, params: Vec::new(), body }
}

fn parser(make: &mut Expressions<'_>, headers: &[HeaderId]) -> Parser {
    let wire: Vec<HeaderId> = headers[1..].to_vec();
    let count = wire.len() + 1;
    let mut states = Vec::with_capacity(count);
    for (at, header) in wire.iter().enumerate() {
        let mut ops = vec![ParserOp::Extract(HeaderRef::Header(*header))];
        if make.prng.chance(0.2) {
            ops.push(ParserOp::Verify { condition: make.truth(3), error: Expr::Int(BigInt::from(9)) });
        }
        if make.prng.chance(0.3) {
            let value = make.int(3);
            ops.push(ParserOp::Stmt(Stmt::Assign { dst: make.field().into(), value }));
        }
        if make.prng.chance(0.2) {
            let bits = Expr::Int(BigInt::from(make.prng.below(5) * 8));
            ops.push(ParserOp::Advance { bits });
        }
        let mut key = Vec::new();
        for _ in 0..make.prng.below(3) {
            let width = width(make.prng).min(150);
            key.push((make.int(2), width));
        }
        let mut transitions = Vec::new();
        for _ in 0..make.prng.below(8) {
            let pairs = key
                .iter()
                .map(|(_, width)| {
                    let ones = (BigUint::from(1_u8) << *width) - 1_u8;
                    let mask =
                        if make.prng.chance(0.5) { ones.clone() } else { BigUint::from(make.prng.below(16)) };
                    (BigUint::from(make.prng.below(4)) & &mask & &ones, mask & ones)
                })
                .collect();
            transitions
                .push(Transition { when: TransitionMatch::Masked(pairs), next: next(make, at, count) });
        }
        if make.prng.chance(0.8) {
            transitions.push(Transition { when: TransitionMatch::Default, next: next(make, at, count) });
        }
        states.push(ParserState { name: format!("s{at}"), ops, key, transitions });
    }
    states.push(ParserState {
        name: "last".to_owned(),
        ops: Vec::new(),
        key: Vec::new(),
        transitions: vec![Transition { when: TransitionMatch::Default, next: None }],
    });
    Parser { name: "parser".to_owned(), start: Some(StateId(0)), states }
}

/// Mostly forward, sometimes back.
fn next(make: &mut Expressions<'_>, at: usize, count: usize) -> Option<StateId> {
    if make.prng.chance(0.1) {
        return Some(StateId::from(make.pick(at + 1)));
    }
    make.prng.chance(0.9).then(|| StateId::from((at + 1).min(count - 1)))
}
