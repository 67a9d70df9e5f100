//! Expressions against numbers worked out by hand, and against 128-bit arithmetic.

use super::super::eval::low_bits;
use super::*;
use barewire_base::Prng;
use num_traits::ToPrimitive;

fn fixture() -> (Fixture, HeaderId) {
    let mut b = Builder::new();
    let m = b.metadata("m", &[8, 16, 100, 1]);
    b.program.header_types[0].fields[1].signed = true;
    (b.done(), m)
}

#[test]
fn operators() {
    let (mut f, m) = fixture();
    f.set(m, 0, 200);
    f.set(m, 1, 0xfffe);
    let wrap = |value, width| Expr::Wrap { value: Box::new(value), width };
    let sat = |value, width, signed| Expr::Saturate { value: Box::new(value), width, signed };
    let un = |op, value| Expr::Unary(op, Box::new(value));
    use BinaryOp::*;
    let cases: Vec<(Expr, i128)> = vec![
        (read(m, 0), 200),
        (read(m, 1), -2),
        (bin(Add, read(m, 0), read(m, 0)), 400),
        (bin(Sub, int(3), int(5)), -2),
        (bin(Mul, int(-3), int(5)), -15),
        (bin(Div, int(7), int(2)), 3),
        (bin(Div, int(-7), int(2)), -3),
        (bin(Div, int(7), int(0)), 0),
        (bin(Rem, int(7), int(4)), 3),
        (bin(Rem, int(-7), int(4)), -3),
        (bin(Rem, int(7), int(0)), 0),
        (bin(Shl, int(3), int(4)), 48),
        (bin(Shl, int(3), int(-1)), 0),
        (bin(Shl, int(3), int(4097)), 0),
        (bin(Shr, int(48), int(4)), 3),
        (bin(Shr, int(-1), int(200)), -1),
        (bin(Shr, int(-5), int(1)), -3),
        (bin(Shr, int(-5), int(i128::MAX)), -1),
        (bin(Shr, int(5), int(i128::MAX)), 0),
        (bin(Shr, int(5), int(-1)), 0),
        (bin(BitAnd, int(-1), int(0xff)), 0xff),
        (bin(BitOr, int(-16), int(3)), -13),
        (bin(BitXor, int(-1), int(0xff)), -256),
        (un(UnaryOp::Neg, int(5)), -5),
        (un(UnaryOp::BitNot, int(5)), -6),
        (un(UnaryOp::BoolToInt, Expr::Bool(true)), 1),
        (wrap(int(-129), 8), 127),
        (wrap(int(128), 8), -128),
        (wrap(int(255), 8), -1),
        (wrap(int(5), 0), 0),
        (sat(int(300), 8, false), 255),
        (sat(int(-1), 8, false), 0),
        (sat(int(300), 8, true), 127),
        (sat(int(-300), 8, true), -128),
        (sat(int(-300), 0, true), 0),
        (Expr::Select(Box::new(Expr::Bool(false)), Box::new(int(1)), Box::new(int(2))), 2),
        (Expr::Param(0), 0),
    ];
    for (expr, value) in cases {
        assert_eq!(f.eval(&expr), Value::Int(BigInt::from(value)), "{expr:?}");
    }
    let truths = vec![
        (bin(Eq, read(m, 1), int(-2)), true),
        (bin(Ne, read(m, 1), int(0xfffe)), true),
        (bin(Lt, read(m, 1), int(0)), true),
        (bin(Le, int(3), int(3)), true),
        (bin(Gt, int(3), int(3)), false),
        (bin(Ge, int(3), int(3)), true),
        (bin(And, Expr::Bool(true), Expr::Bool(false)), false),
        (bin(Or, Expr::Bool(true), Expr::Bool(false)), true),
        (un(UnaryOp::Not, Expr::Bool(true)), false),
        (un(UnaryOp::IntToBool, int(-4)), true),
        (Expr::Valid(HeaderRef::Header(m)), true),
    ];
    for (expr, truth) in truths {
        assert_eq!(f.eval(&expr), Value::Bool(truth), "{expr:?}");
    }
}

/// A random expression and its value in wrapping 128-bit arithmetic kept to 40 bits, so nothing overflows.
fn random_expr(random: &mut Prng, depth: u32) -> (Expr, i128) {
    let wrap = |expr, value: i128| {
        let value = value << 88 >> 88;
        (Expr::Wrap { value: Box::new(expr), width: 40 }, value)
    };
    if depth == 0 || random.chance(0.2) {
        let value = (random.next_u64() as i64 >> (24 + random.below(40))) as i128;
        return (int(value), value);
    }
    let (left, l) = random_expr(random, depth - 1);
    let (right, r) = random_expr(random, depth - 1);
    use BinaryOp::*;
    match random.below(13) {
        0 => wrap(bin(Add, left, right), l + r),
        1 => wrap(bin(Sub, left, right), l - r),
        2 => wrap(bin(Mul, left, right), l * r),
        3 => wrap(bin(Div, left, right), if r == 0 { 0 } else { l / r }),
        4 => wrap(bin(Rem, left, right), if r == 0 { 0 } else { l % r }),
        5 => wrap(bin(BitAnd, left, right), l & r),
        6 => wrap(bin(BitOr, left, right), l | r),
        7 => wrap(bin(BitXor, left, right), l ^ r),
        8 => {
            let count = random.below(40) as i128;
            wrap(bin(Shl, left, int(count)), l << count)
        }
        9 => {
            let count = random.below(60) as i128;
            wrap(bin(Shr, left, int(count)), l >> count)
        }
        10 => wrap(Expr::Unary(UnaryOp::BitNot, Box::new(left)), !l),
        11 => wrap(Expr::Unary(UnaryOp::Neg, Box::new(left)), -l),
        _ => (
            Expr::Select(Box::new(bin(Lt, left.clone(), right.clone())), Box::new(left), Box::new(right)),
            l.min(r),
        ),
    }
}

#[test]
fn agrees_with_fixed_width_arithmetic() {
    let (mut f, m) = fixture();
    let seed = 0x5eed_0002;
    let mut random = Prng::new(seed);
    for round in 0..3000 {
        let (expr, value) = random_expr(&mut random, 6);
        assert_eq!(f.eval(&expr), Value::Int(BigInt::from(value)), "seed {seed:#x} round {round}: {expr:?}");
        // A field keeps the low bits, negative numbers in two's complement.
        f.exec(&[assign(field(m, 2), expr)]);
        let kept = f.get(m, 2).to_u128().unwrap();
        assert_eq!(kept, value as u128 & ((1 << 100) - 1), "seed {seed:#x} round {round}");
        assert_eq!(low_bits(&BigInt::from(value), 7).to_u128().unwrap(), value as u128 & 0x7f);
    }
}

#[test]
fn the_right_side_waits_for_the_left() {
    // A lookahead beyond the packet would fail.
    let (mut f, _) = fixture();
    let late = Expr::Unary(UnaryOp::IntToBool, Box::new(Expr::Lookahead { offset: 0, width: 8 }));
    assert_eq!(f.eval(&bin(BinaryOp::And, Expr::Bool(false), late.clone())), Value::Bool(false));
    assert_eq!(f.eval(&bin(BinaryOp::Or, Expr::Bool(true), late)), Value::Bool(true));
}

#[test]
fn equality_of_headers_unions_and_stacks() {
    let mut b = Builder::new();
    let ty = b.ty("t", &[8, -32]);
    let (x, y) = (b.instance("x", ty, false), b.instance("y", ty, false));
    let (u, um) = b.union("u", &[ty, ty]);
    let (v, vm) = b.union("v", &[ty, ty]);
    let (s, se) = b.stack("s", &[8], 2);
    let mut f = b.done();
    let headers = Expr::HeadersEqual(x.into(), y.into());
    let unions = Expr::UnionsEqual(UnionRef::Union(u), UnionRef::Union(v));
    assert_eq!(f.eval(&headers), Value::Bool(true), "both invalid");
    f.exec(&[Stmt::SetValid(x.into())]);
    assert_eq!(f.eval(&headers), Value::Bool(false), "one invalid");
    f.exec(&[Stmt::SetValid(y.into())]);
    assert_eq!(f.eval(&headers), Value::Bool(true), "both zero");
    f.set(y, 0, 1);
    assert_eq!(f.eval(&headers), Value::Bool(false), "a field differs");
    assert_eq!(f.eval(&unions), Value::Bool(true));
    f.exec(&[Stmt::SetValid(um[0].into()), Stmt::SetValid(vm[1].into())]);
    assert_eq!(f.eval(&unions), Value::Bool(false), "other members");
    f.exec(&[Stmt::SetValid(vm[0].into())]);
    assert_eq!(f.eval(&unions), Value::Bool(true));
    assert!(!f.valid(vm[1]));
    assert_eq!(f.eval(&Expr::UnionValid(UnionRef::Union(u))), Value::Bool(true));
    assert_eq!(f.eval(&Expr::StacksEqual(s, s)), Value::Bool(true));
    let far = HeaderRef::StackElement(s, Box::new(int(2)));
    assert_eq!(f.eval(&Expr::Valid(far.clone())), Value::Bool(false));
    let field = FieldRef { header: far, field: 0 };
    f.exec(&[assign(field.clone(), int(7))]);
    assert_eq!(f.eval(&Expr::Field(field)), Value::Int(BigInt::ZERO));
    assert_eq!((f.get64(se[0], 0), f.get64(se[1], 0)), (0, 0));
    let negative = FieldRef { header: HeaderRef::StackElement(s, Box::new(int(-1))), field: 0 };
    assert_eq!(f.eval(&Expr::Field(negative)), Value::Int(BigInt::ZERO));
}
