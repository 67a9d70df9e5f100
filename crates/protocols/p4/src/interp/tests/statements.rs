//! Statements: headers, stacks, hashes, requests.

use super::super::exec::log_message;
use super::super::{BitString, MAX_BACKWARD_JUMPS};
use super::*;
use crate::state::State;

#[test]
fn validity_and_copies() {
    let mut b = Builder::new();
    let ty = b.ty("t", &[8, -32]);
    let (x, y) = (b.instance("x", ty, false), b.instance("y", ty, false));
    let m = b.metadata("m", &[8, 1]);
    let mut f = b.done();
    f.exec(&[assign(field(x, 0), int(5))]);
    assert_eq!(f.get64(x, 0), 5, "an invalid header keeps what is written");
    f.exec(&[Stmt::SetValid(x.into())]);
    assert_eq!((f.valid(x), f.get64(x, 0)), (true, 0));
    f.exec(&[
        assign(field(x, 0), int(0x1ff)),
        Stmt::SetValid(x.into()),
        Stmt::CopyHeader { dst: y.into(), src: x.into() },
    ]);
    assert_eq!((f.valid(y), f.get64(y, 0)), (true, 0xff));
    f.exec(&[Stmt::SetInvalid(x.into()), Stmt::CopyHeader { dst: y.into(), src: x.into() }]);
    assert_eq!((f.valid(x), f.valid(y), f.get64(y, 0)), (false, false, 0xff));
    f.exec(&[Stmt::SetInvalid(m.into())]);
    assert_eq!(f.eval(&Expr::Valid(m.into())), Value::Bool(true), "metadata is always valid");
}

#[test]
fn varbits_take_their_length_along() {
    let mut b = Builder::new();
    let x = b.header("x", &[-32]);
    let y = b.header("y", &[-16]);
    let m = b.metadata("m", &[-32]);
    b.parser(vec![ParserOp::ExtractVarbit { header: x.into(), bits: int(24) }]);
    b.deparser(vec![x, y]);
    let mut f = b.done();
    f.parse(&[1, 2, 3]);
    let copy = |dst: HeaderId, src: HeaderId| Stmt::AssignVarbit { dst: field(dst, 0), src: field(src, 0) };
    f.exec(&[copy(m, x), Stmt::SetInvalid(x.into()), Stmt::SetValid(x.into())]);
    assert_eq!(f.deparse(&[]), [0; 3], "a header made valid anew has zeros, as many as it had bits");
    f.exec(&[copy(x, m)]);
    assert_eq!(f.deparse(&[]), [1, 2, 3]);
    f.exec(&[Stmt::SetValid(y.into()), copy(y, x)]);
    assert_eq!(f.deparse(&[]), [1, 2, 3, 2, 3], "no more bits than the field holds: the low ones");
}

#[test]
fn push_and_pop_shift_the_whole_stack() {
    let mut b = Builder::new();
    let (s, e) = b.stack("s", &[8], 4);
    let mut f = b.done();
    let values =
        |f: &Fixture| -> Vec<Option<u64>> { e.iter().map(|&e| f.valid(e).then(|| f.get64(e, 0))).collect() };
    for (index, &element) in e.iter().enumerate().take(3) {
        f.exec(&[Stmt::SetValid(element.into()), assign(field(element, 0), int(index as i128 + 1))]);
    }
    f.exec(&[Stmt::Push { stack: s, count: 2 }]);
    assert_eq!(values(&f), [None, None, Some(1), Some(2)]);
    assert_eq!(f.phv.stack_next(&f.plan().layout, s), 2);
    f.exec(&[Stmt::Pop { stack: s, count: 3 }]);
    assert_eq!(values(&f), [Some(2), None, None, None]);
    assert_eq!(f.phv.stack_next(&f.plan().layout, s), 0);
    f.exec(&[Stmt::Push { stack: s, count: 9 }]);
    assert_eq!(values(&f), [None; 4]);
    assert_eq!(f.phv.stack_next(&f.plan().layout, s), 4);
    f.exec(&[Stmt::Pop { stack: s, count: u32::MAX }, Stmt::Push { stack: s, count: 0 }]);
    assert_eq!(f.phv.stack_next(&f.plan().layout, s), 0);
}

#[test]
fn loops_in_actions_end() {
    let mut b = Builder::new();
    let m = b.metadata("m", &[32]);
    let mut f = b.done();
    let count = |from: i128| {
        vec![
            assign(field(m, 0), int(from)),
            Stmt::JumpUnless { condition: bin(BinaryOp::Gt, read(m, 0), int(0)), target: 4 },
            assign(field(m, 0), bin(BinaryOp::Sub, read(m, 0), int(1))),
            Stmt::Jump(1),
        ]
    };
    f.exec(&count(1000));
    assert_eq!(f.get64(m, 0), 0);
    f.exec(&count(1_000_000));
    assert_eq!(f.get64(m, 0), 1_000_000 - u64::from(MAX_BACKWARD_JUMPS) - 1);
}

#[test]
fn calculations_gather_bits() {
    let mut b = Builder::new();
    let x = b.header("x", &[6, 8, 9, 9]);
    let y = b.header("y", &[16]);
    let m = b.metadata("m", &[64]);
    let n = |value: u32| BigUint::from(value);
    let calc = |input: Vec<CalcInput>| Calculation {
        name: "c".to_owned(),
        algorithm: HashAlgorithm::Identity,
        input,
    };
    let fields = (0..4).map(|i| CalcInput::Field(field(x, i))).collect();
    b.program.calculations.push(calc(fields));
    b.program.calculations.push(calc(vec![
        CalcInput::Const { value: n(0), width: 4 },
        CalcInput::Field(field(y, 0)),
        CalcInput::Const { value: n(0x9fd), width: 12 },
    ]));
    b.program.calculations.push(calc(vec![
        CalcInput::Expr { value: int(-1), width: 3 },
        CalcInput::Header(y.into()),
        CalcInput::Payload,
    ]));
    b.parser(vec![ParserOp::Extract(y.into())]);
    let mut f = b.done();
    let packet = [0xff, 0xff, 0xab, 0xcd];
    f.parse(&packet);
    let hash = |f: &mut Fixture, calculation: u32| {
        let plan = f.plan();
        let mut tracer = NoTrace;
        let mut context = Context::new(&plan, &mut f.phv, &packet, &mut f.state, &mut tracer);
        context.calculate(CalculationId(calculation)).unwrap()
    };
    assert_eq!(hash(&mut f, 0), 0, "fields of an invalid header are left out");
    f.exec(&[Stmt::SetValid(x.into())]);
    for (index, value) in [0x3d, 0x3e, 1, 0].into_iter().enumerate() {
        f.set(x, index as u32, value);
    }
    assert_eq!(hash(&mut f, 0), 0xf4f8_0200);
    assert_eq!(hash(&mut f, 1), 0x0fff_f9fd);
    assert_eq!(hash(&mut f, 2), 0x00ff_ffe0_abcd, "the payload begins at a byte boundary");
    let source = HashSource::Calculation(CalculationId(1));
    let modulo = |max| Stmt::Hash {
        dst: field(m, 0),
        source: source.clone(),
        base: Some(int(1000)),
        max: Some(int(max)),
    };
    f.exec(&[modulo(100)]);
    assert_eq!(f.get64(m, 0), 1000 + 0x0fff_f9fd % 100);
    f.exec(&[modulo(0)]);
    assert_eq!(f.get64(m, 0), 1000, "a maximum of 0 counts as 1");
    f.exec(&[Stmt::Hash { dst: field(m, 0), source, base: None, max: None }]);
    assert_eq!(f.get64(m, 0), 0x0fff_f9fd);
}

#[test]
fn bit_strings_grow_by_any_width() {
    let mut bits = BitString::default();
    let mut number = BigUint::ZERO;
    for width in [1, 7, 8, 9, 64, 3, 100, 0, 5] {
        let value = (BigUint::from(0x9e37_79b9_7f4a_7c15_u64) << 40) + width;
        bits.push(&value, width);
        number = (number << width) | (value & ((BigUint::from(1_u8) << width) - 1_u8));
    }
    assert_eq!(bits.len(), 197);
    assert_eq!(bits.clone().into_number(), number);
    assert_eq!(bits.into_bytes(), (number << 3_u8).to_bytes_be());
}

#[test]
fn checksum_units_add_and_take_away() {
    let mut b = Builder::new();
    let m = b.metadata("m", &[16]);
    b.program.checksum_units = vec!["unit".to_owned()];
    let mut f = b.done();
    let unit = ChecksumUnitId(0);
    let words = |value: u64| vec![CalcInput::Const { value: BigUint::from(value), width: 64 }];
    let get = Stmt::ChecksumGet { unit, dst: field(m, 0) };
    f.exec(&[Stmt::ChecksumAdd { unit, input: words(0x4500_0073_0000_4000) }]);
    f.exec(&[Stmt::ChecksumAdd { unit, input: words(0x4011_0000_c0a8_0001) }]);
    f.exec(&[Stmt::ChecksumAdd { unit, input: words(0xc0a8_00c7) }, get.clone()]);
    assert_eq!(f.get64(m, 0), 0xb861);
    f.exec(&[Stmt::ChecksumVerify { unit, dst: field(m, 0), equals: int(0xb861) }]);
    assert_eq!(f.get64(m, 0), 1);
    f.exec(&[
        Stmt::ChecksumSubtract { unit, input: words(0xc0a8_00c7) },
        Stmt::ChecksumAdd { unit, input: words(0xc0a8_00c8) },
        get.clone(),
    ]);
    assert_eq!(f.get64(m, 0), 0xb860);
    f.exec(&[
        Stmt::ChecksumSetState { unit, value: int(0x1_1234) },
        Stmt::ChecksumGetState { unit, dst: field(m, 0) },
    ]);
    assert_eq!(f.get64(m, 0), 0x1234);
    f.exec(&[Stmt::ChecksumClear(unit), get]);
    assert_eq!(f.get64(m, 0), 0xffff);
}

#[test]
fn requests_stand_in_their_slots() {
    let mut b = Builder::new();
    let s = b.metadata("standard_metadata", &[9, 9]);
    let i = b.metadata("intrinsic_metadata", &[16]);
    b.program.header_types[0].fields[1].name = "egress_spec".to_owned();
    b.program.header_types[1].fields[0].name = "mcast_grp".to_owned();
    let list = FieldList { id: 7, name: "list".to_owned(), items: Vec::new() };
    b.program.field_lists = vec![list.clone(), list];
    b.program.learn_lists = vec![LearnList { id: 1, name: "learn".to_owned(), items: Vec::new() }];
    let mut f = b.done();
    f.phv.set_slot(slot::DROP_PORT, 511);
    f.set(i, 0, 5);
    f.exec(&[
        Stmt::MarkToDrop {
            egress_spec: Some(FieldId { header: s, field: 1 }),
            mcast_grp: Some(FieldId { header: i, field: 0 }),
        },
        Stmt::CloneIngress { session: int(0x1_8005), fields: Some(FieldListId(1)) },
        Stmt::Resubmit { fields: None },
        Stmt::Recirculate { fields: Some(FieldListId(0)) },
        Stmt::Truncate { len: int(60) },
        Stmt::Digest { list: LearnListId(0) },
    ]);
    assert_eq!((f.get64(s, 1), f.get64(i, 0)), (511, 0));
    let slots =
        [slot::CLONE, slot::CLONE_FIELDS, slot::RESUBMIT, slot::RECIRCULATE, slot::TRUNCATE, slot::DIGEST];
    assert_eq!(slots.map(|slot| f.phv.slot(slot)), [6, 2, 1, 2, 61, 1]);
    assert_eq!(f.state.take_digests(), [LearnListId(0)]);
    // Of several lengths the smallest counts.
    f.exec(&[Stmt::Truncate { len: int(-1) }, Stmt::CloneEgress { session: int(0), fields: None }]);
    assert_eq!(
        (f.phv.slot(slot::TRUNCATE), f.phv.slot(slot::CLONE), f.phv.slot(slot::CLONE_FIELDS)),
        (61, 1, 0)
    );
    f.exec(&[Stmt::Truncate { len: int(59) }]);
    assert_eq!(f.phv.slot(slot::TRUNCATE), 60);
    f.phv.set_slot(slot::TRUNCATE, 0);
    f.exec(&[Stmt::Truncate { len: int(-1) }]);
    assert_eq!(f.phv.slot(slot::TRUNCATE), u64::MAX);
}

#[test]
fn registers_counters_random() {
    let mut b = Builder::new();
    let m = b.metadata("m", &[48]);
    b.program.registers.push(RegisterArray {
        name: "r".to_owned(),
        id: 0,
        size: 4,
        width: 12,
        initial: BigUint::ZERO,
    });
    b.program.counters.push(CounterArray { name: "c".to_owned(), id: 0, size: 2, direct: None });
    let mut f = b.done();
    let (r, c) = (RegisterId(0), CounterId(0));
    let write = |index, value| Stmt::RegisterWrite { register: r, index: int(index), value: int(value) };
    let get = |index| Stmt::RegisterRead { dst: field(m, 0), register: r, index: int(index) };
    f.exec(&[write(3, 0x1_2345), write(4, 9), write(-1, 9), get(3)]);
    assert_eq!(f.get64(m, 0), 0x345);
    f.exec(&[get(4)]);
    assert_eq!(f.get64(m, 0), 0x345, "out of range it stays");
    let expr = Expr::Register { register: r, index: Box::new(int(3)) };
    assert_eq!(f.eval(&expr), Value::Int(BigInt::from(0x345)));
    f.phv.set_slot(slot::PACKET_LEN, 100);
    f.exec(&[1, 2, 1].map(|index| Stmt::Count { counter: c, index: int(index) }));
    assert_eq!(f.state.counter(c, 1).map(|count| (count.packets, count.bytes)), Some((2, 200)));
    assert_eq!(f.state.counter(c, 2), None);
    for (low, high) in [(5, 9), (7, 7), (0, i128::from(u64::MAX))] {
        f.exec(&[Stmt::Random { dst: field(m, 0), low: int(low), high: int(high) }]);
        let value = f.get64(m, 0) as i128;
        if high < 1 << 48 {
            assert!(low <= value && value <= high, "{low}..={high}: {value}");
        }
    }
    f.set(m, 0, 77);
    f.exec(&[Stmt::Random { dst: field(m, 0), low: int(9), high: int(5) }]);
    assert_eq!(f.get64(m, 0), 77, "an empty range leaves it");
    assert_eq!(f.state.random(3, 3), 3);
}

#[test]
fn messages() {
    let args = [BigInt::from(7), BigInt::from(-1)];
    for (format, message) in [
        ("{} and {}", "7 and -1"),
        ("a={} ", "a=7  -1"),
        (r"\{{}\} {x}", "{7} -1"),
        ("{}{}{}", "7-1{}"),
        ("no", "no 7 -1"),
        ("open {", "open { -1"),
    ] {
        assert_eq!(log_message(format, &args), message, "{format}");
    }
    let mut b = Builder::new();
    b.metadata("m", &[8]);
    let mut f = b.done();
    f.exec(&[Stmt::Log { format: "x {}".to_owned(), args: vec![int(4)] }]);
    assert_eq!(f.state.take_log(), ["x 4"]);
}

#[test]
fn assertions_stop_the_action() {
    let mut b = Builder::new();
    let m = b.metadata("m", &[8]);
    let mut f = b.done();
    f.exec(&[Stmt::Assert(Expr::Bool(true)), Stmt::Assume(Expr::Bool(false)), assign(field(m, 0), int(1))]);
    assert_eq!((f.phv.slot(slot::ASSERT), f.get64(m, 0)), (2, 0));
    f.exec(&[Stmt::Assert(Expr::Bool(false))]);
    assert_eq!(f.phv.slot(slot::ASSERT), 1);
}

#[test]
fn lists_hold_what_is_the_same_field_for_every_packet() {
    let mut b = Builder::new();
    let (stack, _) = b.stack("s", &[8], 2);
    let header = b.header("h", &[8, 16]);
    let plain = FieldRef::from(FieldId { header, field: 1 });
    let moving = FieldRef { header: HeaderRef::StackLast(stack), field: 0 };
    let valid = |header| CalcInput::Expr {
        value: Expr::Unary(UnaryOp::BoolToInt, Box::new(Expr::Valid(header))),
        width: 1,
    };
    let learn = |program: &Program, item: CalcInput| {
        let mut program = program.clone();
        program.learn_lists = vec![LearnList { id: 1, name: "learn".to_owned(), items: vec![(item, 8)] }];
        program.check().map_err(|error| error.to_string())
    };
    let constant = CalcInput::Const { value: 3_u8.into(), width: 8 };
    for item in [CalcInput::Field(plain.clone()), constant, valid(HeaderRef::Header(header))] {
        assert_eq!(learn(&b.program, item), Ok(()));
    }
    let sum = CalcInput::Expr { value: int(5), width: 8 };
    let refused = [
        CalcInput::Field(moving.clone()),
        valid(HeaderRef::StackLast(stack)),
        sum,
        CalcInput::Header(HeaderRef::Header(header)),
        CalcInput::Payload,
    ];
    for item in refused {
        let shown = format!("{item:?}");
        assert!(learn(&b.program, item).is_err_and(|error| error.contains("learn list 'learn'")), "{shown}");
    }
    let fields = |program: &Program, field: FieldRef| {
        let mut program = program.clone();
        let items = vec![ListItem::Field(field), ListItem::Const { value: 1_u8.into(), width: 8 }];
        program.field_lists = vec![FieldList { id: 7, name: "kept".to_owned(), items }];
        program.check().map_err(|error| error.to_string())
    };
    assert_eq!(fields(&b.program, plain), Ok(()));
    assert!(fields(&b.program, moving).is_err_and(|error| error.contains("field list 'kept'")));
}
