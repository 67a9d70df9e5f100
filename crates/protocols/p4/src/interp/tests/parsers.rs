//! Parsers: what they extract, and what they leave when they fail.

use super::*;

fn extract(header: HeaderId) -> ParserOp {
    ParserOp::Extract(header.into())
}

#[test]
fn a_header_too_long_for_the_packet_leaves_everything() {
    let mut b = Builder::new();
    let (x, y) = (b.header("x", &[4, 12]), b.header("y", &[24]));
    b.parser(vec![extract(x), extract(y)]);
    let mut f = b.done();
    f.parse(&[0x12, 0x34, 0x56, 0x78]);
    assert_eq!((f.get64(x, 0), f.get64(x, 1)), (1, 0x234));
    assert_eq!((f.valid(x), f.valid(y)), (true, false));
    assert_eq!(f.get64(y, 0), 0);
    assert_eq!(f.error(), "PacketTooShort");
    assert_eq!((f.phv.slot(slot::PARSED), f.phv.slot(slot::REJECTED)), (2, 1));
    f.parse(&[0x12, 0x34, 0x56, 0x78, 0x9a]);
    assert_eq!((f.error(), f.get64(y, 0)), ("NoError", 0x56_789a));
    assert_eq!((f.phv.slot(slot::PARSED), f.phv.slot(slot::REJECTED)), (5, 0));
}

/// `extract(stack.next)` while the element says so.
fn stack_parser(b: &mut Builder, stack: StackId) {
    b.states(vec![ParserState {
        name: "loop".to_owned(),
        ops: vec![ParserOp::Extract(HeaderRef::StackNext(stack))],
        key: vec![(Expr::Field(FieldRef { header: HeaderRef::StackLast(stack), field: 0 }), 8)],
        transitions: vec![
            Transition {
                when: TransitionMatch::Masked(vec![(BigUint::from(0_u8), BigUint::from(1_u8))]),
                next: Some(StateId(0)),
            },
            always(None),
        ],
    }]);
}

#[test]
fn stacks_count_what_they_hold() {
    let mut b = Builder::new();
    let (s, e) = b.stack("s", &[8], 3);
    stack_parser(&mut b, s);
    let mut f = b.done();
    f.parse(&[2, 4, 7, 9]);
    assert_eq!((f.error(), f.phv.slot(slot::PARSED)), ("NoError", 3));
    assert_eq!(f.phv.stack_next(&f.plan().layout, s), 3);
    assert_eq!(f.eval(&Expr::LastIndex(s)), Value::Int(BigInt::from(2)));
    let mut g = Fixture { phv: f.plan().layout.new_phv(), ..f };
    g.parse(&[2, 4, 6, 8]);
    assert_eq!((g.error(), g.phv.slot(slot::PARSED)), ("StackOutOfBounds", 3));
    assert!(e.iter().all(|&e| g.valid(e)));
    assert_eq!(g.get64(e[2], 0), 6);
    let plan = g.plan();
    plan.layout.reset(&mut g.phv);
    assert_eq!(g.eval(&Expr::LastIndex(s)), Value::Int(BigInt::ZERO));
}

#[test]
fn a_loop_that_reads_nothing_ends_by_a_time_out() {
    let mut b = Builder::new();
    b.header("x", &[8]);
    b.states(vec![ParserState {
        name: "loop".to_owned(),
        ops: Vec::new(),
        key: Vec::new(),
        transitions: vec![always(Some(0))],
    }]);
    let mut f = b.done();
    f.parse(&[1]);
    assert_eq!(f.error(), "ParserTimeout");
}

#[test]
fn varbit_lengths_are_judged_in_order() {
    let mut b = Builder::new();
    let x = b.header("x", &[8, -32, 8]);
    let m = b.metadata("m", &[40]);
    b.parser(vec![ParserOp::ExtractVarbit { header: x.into(), bits: read(m, 0) }]);
    let mut f = b.done();
    let packet = [1, 2, 3, 4, 5, 6, 7];
    for (bits, error) in [
        (0, "NoError"),
        (24, "NoError"),
        (12, "ParserInvalidArgument"),
        (40, "HeaderTooShort"),
        (48, "PacketTooShort"),
        (0xff_ffff_fff8, "PacketTooShort"),
        (0xff_ffff_ffff, "ParserInvalidArgument"),
    ] {
        let plan = f.plan();
        plan.layout.reset(&mut f.phv);
        f.set(m, 0, bits);
        f.parse(&packet);
        assert_eq!(f.error(), error, "{bits} bits");
        assert_eq!(f.valid(x), error == "NoError");
    }
    let plan = f.plan();
    plan.layout.reset(&mut f.phv);
    f.set(m, 0, 24);
    f.parse(&packet);
    assert_eq!((f.get64(x, 0), f.get64(x, 1), f.get64(x, 2)), (1, 0x02_0304, 5));
    assert_eq!(f.phv.slot(slot::PARSED), 5);
}

#[test]
fn a_legacy_header_says_its_own_length() {
    let mut b = Builder::new();
    let x = b.header("x", &[8, -64]);
    let bits = bin(BinaryOp::Mul, read(x, 0), int(8));
    b.program.headers[x.at()].length_exp = Some(bits);
    b.parser(vec![extract(x)]);
    b.deparser(vec![x]);
    let mut f = b.done();
    f.parse(&[3, 0xaa, 0xbb, 0xcc, 0xdd]);
    assert_eq!((f.error(), f.get64(x, 1), f.phv.slot(slot::PARSED)), ("NoError", 0xaa_bbcc, 4));
    assert_eq!(f.deparse(&[]), [3, 0xaa, 0xbb, 0xcc]);
    let plan = f.plan();
    plan.layout.reset(&mut f.phv);
    f.parse(&[5, 0xaa, 0xbb, 0xcc, 0xdd]);
    assert_eq!((f.error(), f.get64(x, 0), f.valid(x)), ("PacketTooShort", 0, false));
    f.parse(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(f.error(), "HeaderTooShort");
    f.parse(&[]);
    assert_eq!(f.error(), "PacketTooShort");
}

#[test]
fn advance_verify_and_lookahead() {
    let mut b = Builder::new();
    let x = b.header("x", &[8]);
    let m = b.metadata("m", &[12, 32]);
    b.parser(vec![
        ParserOp::Advance { bits: read(m, 1) },
        ParserOp::Stmt(assign(field(m, 0), Expr::Lookahead { offset: 4, width: 12 })),
        ParserOp::Verify { condition: bin(BinaryOp::Ne, read(m, 0), int(0x456)), error: int(7) },
        extract(x),
    ]);
    let mut f = b.done();
    let packet = [0x12, 0x34, 0x56, 0x78];
    for (bits, error, parsed) in [
        (0, "NoError", 1),
        (8, "Custom", 1),
        (16, "NoError", 3),
        (24, "PacketTooShort", 3),
        (40, "PacketTooShort", 0),
        (4, "ParserInvalidArgument", 0),
    ] {
        let plan = f.plan();
        plan.layout.reset(&mut f.phv);
        f.set(m, 1, bits);
        f.parse(&packet);
        assert_eq!((f.error(), f.phv.slot(slot::PARSED)), (error, parsed), "{bits} bits");
    }
    let plan = f.plan();
    plan.layout.reset(&mut f.phv);
    f.parse(&packet);
    assert_eq!((f.get64(m, 0), f.get64(x, 0)), (0x234, 0x12));
}

#[test]
fn transitions_by_value_mask_set_and_default() {
    let mut b = Builder::new();
    let x = b.header("x", &[8, 8]);
    let m = b.metadata("m", &[8]);
    b.program.value_sets.push(ValueSet { name: "set".to_owned(), widths: vec![8, 8], max_size: 0 });
    let end = |value: i128| ParserState {
        name: format!("end{value}"),
        ops: vec![ParserOp::Stmt(assign(field(m, 0), int(value)))],
        key: Vec::new(),
        transitions: vec![always(None)],
    };
    let n = |value: u32| BigUint::from(value);
    let start = ParserState {
        name: "start".to_owned(),
        ops: vec![extract(x)],
        key: vec![(read(x, 0), 8), (read(x, 1), 8)],
        transitions: vec![
            Transition {
                when: TransitionMatch::Masked(vec![(n(1), n(0xff)), (n(0x10), n(0xf0))]),
                next: Some(StateId(1)),
            },
            Transition { when: TransitionMatch::ValueSet(ValueSetId(0), None), next: Some(StateId(2)) },
            Transition {
                when: TransitionMatch::ValueSet(ValueSetId(0), Some(vec![n(0xf0), n(0)])),
                next: Some(StateId(3)),
            },
        ],
    };
    b.states(vec![start, end(1), end(2), end(3)]);
    let mut f = b.done();
    f.state.insert_value(ValueSetId(0), vec![n(0x45), n(6)]).unwrap();
    for (packet, taken, error) in [
        ([1, 0x1f], 1, "NoError"),
        ([0x45, 6], 2, "NoError"),
        ([0x41, 9], 3, "NoError"),
        ([9, 9], 0, "NoMatch"),
    ] {
        let plan = f.plan();
        plan.layout.reset(&mut f.phv);
        f.parse(&packet);
        assert_eq!((f.get64(m, 0), f.error()), (taken, error), "{packet:?}");
    }
}

#[test]
fn union_stacks_take_one_member_an_element() {
    let mut b = Builder::new();
    let (p, q) = (b.ty("p", &[8]), b.ty("q", &[16]));
    let (u0, m0) = b.union("u0", &[p, q]);
    let (u1, m1) = b.union("u1", &[p, q]);
    b.program.union_stacks.push(UnionStack { name: "us".to_owned(), elements: vec![u0, u1] });
    let us = UnionStackId(0);
    let next = |member| ParserOp::Extract(HeaderRef::UnionStackNext(us, member));
    b.parser(vec![next(1), next(0), ParserOp::Extract(HeaderRef::UnionStackLast(us, 1)), next(0)]);
    let mut f = b.done();
    f.parse(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(f.error(), "StackOutOfBounds");
    assert_eq!((f.get64(m0[1], 0), f.get64(m1[1], 0)), (0x0102, 0x0405));
    assert_eq!((f.valid(m0[0]), f.valid(m0[1]), f.valid(m1[0]), f.valid(m1[1])), (false, true, false, true));
    f.exec(&[Stmt::PushUnions { stack: us, count: 1 }]);
    assert_eq!((f.valid(m0[1]), f.valid(m1[1]), f.get64(m1[1], 0)), (false, true, 0x0102));
    f.exec(&[Stmt::PopUnions { stack: us, count: 1 }]);
    assert_eq!((f.valid(m0[1]), f.valid(m1[1]), f.get64(m0[1], 0)), (true, false, 0x0102));
}

#[test]
fn checksums_are_verified_where_they_apply() {
    let mut b = Builder::new();
    let x = b.header("x", &[16, 16]);
    let m = b.metadata("m", &[1]);
    b.program.calculations.push(Calculation {
        name: "sum".to_owned(),
        algorithm: HashAlgorithm::Csum16,
        input: vec![CalcInput::Field(field(x, 0)), CalcInput::Payload],
    });
    b.program.checksums.push(Checksum {
        name: "check".to_owned(),
        target: field(x, 1),
        calculation: CalculationId(0),
        verify: true,
        update: true,
        condition: Some(bin(BinaryOp::Eq, read(m, 0), int(0))),
    });
    b.parser(vec![extract(x)]);
    b.deparser(vec![x]);
    let mut f = b.done();
    // The odd last byte counts as the high one of its word.
    let good = [0x12, 0x34, !0x68, !0x34, 0x56];
    f.parse(&good);
    assert_eq!((f.get64(x, 1), f.phv.slot(slot::CHECKSUM_ERROR)), (0x97cb, 0));
    f.parse(&[0x12, 0x34, 0, 0, 0x56]);
    assert_eq!(f.phv.slot(slot::CHECKSUM_ERROR), 1);
    assert_eq!(f.deparse(&[0x56]), good[..4]);
    f.set(m, 0, 1);
    f.parse(&[0x12, 0x34, 0, 0, 0x56]);
    assert_eq!(f.phv.slot(slot::CHECKSUM_ERROR), 0, "the condition is not met");
    assert_eq!(f.deparse(&[0x56]), [0x12, 0x34, 0, 0]);
    f.set(m, 0, 0);
    let plan = f.plan();
    plan.layout.reset(&mut f.phv);
    f.parse(&[0x12]);
    assert_eq!((f.error(), f.phv.slot(slot::CHECKSUM_ERROR)), ("PacketTooShort", 0), "the header is invalid");
    assert_eq!(f.deparse(&[0x56]), [0_u8; 0]);
}
