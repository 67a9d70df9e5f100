//! Random programs: headers of fields of odd widths, a stack, a varbit field, registers, hashes, checksums, tables, and
//! actions of random statements and expressions.

use barewire_base::Prng;
use barewire_p4::ir::{
    Action, ActionId, BinaryOp, CalcInput, Calculation, CalculationId, Checksum, CounterArray, CounterId,
    Deparser, Expr, FieldDef, FieldId, FieldRef, HashAlgorithm, HashSource, Header, HeaderId, HeaderRef,
    HeaderStack, HeaderType, HeaderTypeId, KeyField, KeySource, MatchKind, NextNode, Node, NodeId, Param,
    Parser, ParserOp, ParserState, Pipeline, Program, RegisterArray, RegisterId, StackId, StateId, Stmt,
    Table, TableId, TableKind, Transition, TransitionMatch, UnaryOp, Width,
};
use num_bigint::{BigInt, BigUint, Sign};

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
    /// Lookaheads may come up: only in parsers.
    lookahead: bool,
    /// Widths of the parameters of the action that is made.
    params: Vec<u32>,
    stack: StackId,
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

    /// An element of the stack.
    fn element(&mut self) -> HeaderRef {
        match self.prng.below(4) {
            0 => HeaderRef::StackLast(self.stack),
            1 => HeaderRef::StackElement(self.stack, Box::new(Expr::Field(self.field().into()))),
            _ => {
                let index = Expr::Int(BigInt::from(self.prng.below(6)) - 1);
                HeaderRef::StackElement(self.stack, Box::new(index))
            }
        }
    }

    /// A field to write to.
    fn target(&mut self) -> FieldRef {
        if self.prng.chance(0.1) {
            return FieldRef { header: self.element(), field: 0 };
        }
        self.field().into()
    }

    fn inputs(&mut self) -> Vec<CalcInput> {
        let mut inputs: Vec<CalcInput> = (0..1 + self.pick(8))
            .map(|_| match self.prng.below(8) {
                0 => CalcInput::Const { value: BigUint::from(self.prng.below(256)), width: 8 },
                1 => {
                    let at = 1 + self.pick(3);
                    CalcInput::Header(HeaderRef::Header(self.headers[at]))
                }
                _ => CalcInput::Field(self.field().into()),
            })
            .collect();
        if self.prng.chance(0.3) {
            // A whole header field by field, as real checksums have it.
            let at = 1 + self.pick(3);
            let header = self.headers[at];
            let of =
                |(id, _): &(FieldId, FieldDef)| (id.header == header).then(|| CalcInput::Field((*id).into()));
            inputs = self.fields.iter().filter_map(of).collect();
        }
        if self.prng.chance(0.2) {
            inputs.push(CalcInput::Payload);
        }
        inputs
    }

    /// An integer expression.
    pub fn int(&mut self, depth: u32) -> Expr {
        if depth == 0 || self.prng.chance(0.15) {
            return match self.prng.below(9) {
                0..4 => Expr::Field(self.field().into()),
                4 if !self.params.is_empty() => Expr::Param(self.pick(self.params.len()) as u32),
                6 => match self.prng.below(4) {
                    0 => Expr::LastIndex(self.stack),
                    1 => Expr::StackSize(self.stack),
                    2 => Expr::Register {
                        register: RegisterId(0),
                        index: Box::new(Expr::Int(BigInt::from(self.prng.below(5)))),
                    },
                    _ => Expr::Field(FieldRef { header: self.element(), field: 0 }),
                },
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
            _ if self.prng.chance(0.3) => Expr::Valid(self.element()),
            _ => self.truth(0),
        }
    }
}

/// A header whose last field is as long as the packet says.
fn varbit_type(prng: &mut Prng) -> HeaderType {
    let field = |name: &str, width| FieldDef { name: name.to_owned(), width, signed: false };
    let max = 8 * (1 + prng.below(30) as u32);
    let fields = vec![field("len", Width::Fixed(8)), field("options", Width::Varbit(max))];
    HeaderType { name: "options".to_owned(), fields }
}

fn key_field(name: String, kind: MatchKind, id: FieldId, program: &Program, prng: &mut Prng) -> KeyField {
    let width = program.field_def(id).bits();
    let mask = prng.chance(0.15).then(|| super::entries::value(width, prng));
    KeyField { name, kind, source: KeySource::Field(id.into()), width, mask }
}

/// A table over some fields.
fn table(make: &mut Expressions<'_>, program: &Program, number: u32) -> Table {
    let lists: [(TableKind, &[MatchKind]); 5] = [
        (TableKind::Exact, &[MatchKind::Exact]),
        (TableKind::Exact, &[MatchKind::Exact; 3]),
        (TableKind::Lpm, &[MatchKind::Lpm]),
        (TableKind::Ternary, &[MatchKind::Ternary, MatchKind::Exact]),
        (TableKind::Range, &[MatchKind::Range, MatchKind::Ternary]),
    ];
    let (kind, kinds) = lists[make.pick(lists.len())];
    let key = kinds
        .iter()
        .enumerate()
        .map(|(i, kind)| {
            let mut field = make.field();
            while *kind == MatchKind::Range && program.field_def(field).bits() > 64 {
                field = make.field();
            }
            key_field(format!("k{i}"), *kind, field, program, make.prng)
        })
        .collect();
    let actions = vec![ActionId(2), ActionId(3)];
    Table { id: number, ..Table::new(format!("t{number}"), kind, key, actions, 64) }
}

/// A program of random types, expressions, statements and jumps.
pub fn random(prng: &mut Prng) -> Program {
    let mut program = Program::empty();
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
    add_stack(&mut program, prng);
    add_state(&mut program, prng);
    let mut make = Expressions {
        fields: all_fields,
        headers: headers.clone(),
        lookahead: false,
        params: Vec::new(),
        stack: StackId(0),
        prng,
    };
    let algorithms = [
        HashAlgorithm::Csum16,
        HashAlgorithm::Csum16,
        HashAlgorithm::Csum16,
        HashAlgorithm::Crc16,
        HashAlgorithm::Crc32,
        HashAlgorithm::Xor16,
        HashAlgorithm::Identity,
    ];
    for i in 0..3 {
        let algorithm = algorithms[make.pick(algorithms.len())];
        program.calculations.push(Calculation { name: format!("c{i}"), algorithm, input: make.inputs() });
        let target = make.field();
        let condition = make.prng.chance(0.3).then(|| make.truth(2));
        program.checksums.push(Checksum {
            name: format!("s{i}"),
            target: target.into(),
            calculation: i.into(),
            verify: make.prng.chance(0.5),
            update: make.prng.chance(0.5),
            condition,
        });
    }
    for with_params in [false, false, true, true] {
        let count = if with_params { make.pick(4) } else { 0 };
        let params = (0..count).map(|i| Param { name: format!("p{i}"), width: width(make.prng) }).collect();
        program.actions.push(action(&mut make, &headers, params));
    }
    program.tables = vec![table(&mut make, &program, 0), table(&mut make, &program, 1)];
    let condition = make.truth(4);
    make.lookahead = true;
    program.parsers = vec![parser(&mut make, &headers)];
    program.pipelines = vec![pipeline(&mut make, condition)];
    let order = (0..program.headers.len()).map(HeaderId::from);
    let order = order.filter(|id| !program.headers[id.at()].metadata).collect();
    program.deparsers = vec![Deparser { name: "deparser".to_owned(), order, stmts: Vec::new() }];
    program
}

fn pipeline(make: &mut Expressions<'_>, condition: Expr) -> Pipeline {
    let last = Some(NodeId(4));
    let next = match make.prng.below(3) {
        0 => NextNode::ByHit { hit: last, miss: Some(NodeId(2)) },
        1 => NextNode::ByAction { by_action: vec![(ActionId(2), Some(NodeId(2)))], default: last },
        _ => NextNode::ByHit { hit: last, miss: None },
    };
    Pipeline {
        name: "ingress".to_owned(),
        start: Some(NodeId(0)),
        nodes: vec![
            Node::If { name: "c".to_owned(), condition, then: Some(NodeId(1)), otherwise: Some(NodeId(2)) },
            Node::Call { name: "a".to_owned(), action: ActionId(0), next: Some(NodeId(3)) },
            Node::Call { name: "b".to_owned(), action: ActionId(1), next: last },
            Node::Table { table: TableId(0), next },
            Node::Table { table: TableId(1), next: NextNode::ByHit { hit: None, miss: None } },
        ],
    }
}

/// A stack of three, and a header with a varbit field.
fn add_stack(program: &mut Program, prng: &mut Prng) {
    let ty = HeaderTypeId::from(program.header_types.len());
    let wide = 8 * (1 + prng.below(6) as u32);
    let fields = vec![
        FieldDef { name: "label".to_owned(), width: Width::Fixed(wide - 3), signed: false },
        FieldDef { name: "rest".to_owned(), width: Width::Fixed(3), signed: false },
    ];
    program.header_types.push(HeaderType { name: "element".to_owned(), fields });
    let mut elements = Vec::new();
    for i in 0..3 {
        elements.push(HeaderId::from(program.headers.len()));
        let name = format!("stack[{i}]");
        program.headers.push(Header { name, ty, metadata: false, union: None, length_exp: None });
    }
    program.stacks.push(HeaderStack { name: "stack".to_owned(), ty, elements });
    let ty = HeaderTypeId::from(program.header_types.len());
    program.header_types.push(varbit_type(prng));
    let options = HeaderId::from(program.headers.len());
    let own = prng.chance(0.5).then(|| {
        let len = Expr::Field(FieldId { header: options, field: 0 }.into());
        let low = Expr::Binary(BinaryOp::BitAnd, Box::new(len), Box::new(Expr::Int(BigInt::from(31))));
        Expr::Binary(BinaryOp::Mul, Box::new(low), Box::new(Expr::Int(BigInt::from(8))))
    });
    let name = "options".to_owned();
    program.headers.push(Header { name, ty, metadata: false, union: None, length_exp: own });
}

fn add_state(program: &mut Program, prng: &mut Prng) {
    for (name, width) in [("r0", 1 + prng.below(64) as u32), ("r1", width(prng))] {
        program.registers.push(RegisterArray {
            name: name.to_owned(),
            id: 0,
            size: 4,
            width,
            initial: BigUint::ZERO,
        });
    }
    program.counters.push(CounterArray { name: "n".to_owned(), id: 0, size: 4, direct: None });
}

fn action(make: &mut Expressions<'_>, headers: &[HeaderId], params: Vec<Param>) -> Action {
    make.params = params.iter().map(|param| param.width).collect();
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
            7 => match make.prng.below(9) {
                0 => Stmt::Push { stack: StackId(0), count: make.prng.below(4) as u32 },
                1 => Stmt::Pop { stack: StackId(0), count: make.prng.below(4) as u32 },
                2 => Stmt::Count { counter: CounterId(0), index: make.int(2) },
                3 => Stmt::RegisterRead { dst: make.target(), register: RegisterId(1), index: make.int(1) },
                4 => Stmt::RegisterWrite {
                    register: RegisterId(make.prng.below(2) as u32),
                    index: Expr::Int(BigInt::from(make.prng.below(5))),
                    value: make.int(3),
                },
                5 => {
                    let calculation = CalculationId(make.prng.below(3) as u32);
                    let base = make.prng.chance(0.5).then(|| make.int(1));
                    let max = make.prng.chance(0.7).then(|| make.int(1));
                    Stmt::Hash { dst: make.target(), source: HashSource::Calculation(calculation), base, max }
                }
                6 => Stmt::CopyHeader {
                    dst: HeaderRef::Header(headers[1]),
                    src: HeaderRef::Header(headers[1 + make.pick(3)]),
                },
                7 if make.prng.chance(0.5) => Stmt::CloneIngress { session: make.int(2), fields: None },
                _ => Stmt::Truncate { len: make.int(2) },
            },
            9 if make.prng.chance(0.3) => {
                let field = |make: &mut Expressions<'_>| make.prng.chance(0.8).then(|| make.field());
                Stmt::MarkToDrop { egress_spec: field(make), mcast_grp: field(make) }
            }
            8 => Stmt::Random { dst: make.target(), low: make.int(1), high: make.int(1) },
            _ => {
                let depth = 1 + make.prng.below(5) as u32;
                Stmt::Assign { dst: make.target(), value: make.int(depth) }
            }
        });
    }
    make.params.clear();
    Action { name: "a".to_owned(), id: 0, params, body }
}

fn parser(make: &mut Expressions<'_>, headers: &[HeaderId]) -> Parser {
    let wire: Vec<HeaderId> = headers[1..].to_vec();
    let count = wire.len() + 1;
    let mut states = Vec::with_capacity(count);
    for (at, header) in wire.iter().enumerate() {
        let mut ops = vec![ParserOp::Extract(HeaderRef::Header(*header))];
        if make.prng.chance(0.4) {
            ops.push(ParserOp::Extract(HeaderRef::StackNext(make.stack)));
        }
        if make.prng.chance(0.4) {
            // The header behind the stack.
            let options = HeaderRef::Header(HeaderId::from(headers.len() + 3));
            ops.push(if make.prng.chance(0.5) {
                ParserOp::Extract(options)
            } else {
                let bits = Expr::Binary(
                    BinaryOp::BitAnd,
                    Box::new(Expr::Field(make.field().into())),
                    Box::new(Expr::Int(BigInt::from(if make.prng.chance(0.8) { 0x78 } else { 0xff }))),
                );
                ParserOp::ExtractVarbit { header: options, bits }
            });
        }
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
