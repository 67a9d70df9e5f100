//! How large the values of an expression can become: the widths that unbounded arithmetic needs.

use super::expr::MAX_SHIFT;
use super::{BinaryOp, Expr, Program, UnaryOp, Width};
use num_bigint::{BigInt, Sign};
use num_traits::ToPrimitive;

/// More bits than anything we compute in registers; sums of such do not overflow.
const HUGE: u32 = 1 << 20;

/// Bounds of a value: `-2^bits <= v < 2^bits` when `neg`, else `0 <= v < 2^bits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// May be negative.
    pub neg: bool,
    /// Magnitude bits.
    pub bits: u32,
}

impl Range {
    const BOOL: Range = Range { neg: false, bits: 1 };

    fn new(neg: bool, bits: u32) -> Range {
        Range { neg, bits: bits.min(HUGE) }
    }

    /// Fits a 64-bit register exactly (unsigned, or two's complement when it may be negative).
    pub fn fits64(self) -> bool {
        self.bits <= if self.neg { 63 } else { 64 }
    }

    /// Fits a signed 64-bit register.
    pub fn fits_i64(self) -> bool {
        self.bits <= 63
    }

    /// Fits a pair of registers exactly.
    pub fn fits128(self) -> bool {
        self.bits <= if self.neg { 127 } else { 128 }
    }

    /// Fits a signed pair of registers.
    pub fn fits_i128(self) -> bool {
        self.bits <= 127
    }

    /// The range of a constant.
    pub fn of_int(value: &BigInt) -> Range {
        match value.sign() {
            Sign::Minus => Range::new(true, bits(&(-value - 1_u32))),
            _ => Range::new(false, bits(value)),
        }
    }

    fn union(self, other: Range) -> Range {
        Range::new(self.neg || other.neg, self.bits.max(other.bits))
    }
}

fn bits(value: &BigInt) -> u32 {
    u32::try_from(value.bits()).unwrap_or(HUGE)
}

/// A constant as a shift count, `None` when the expression is not one.
pub fn const_shift(expr: &Expr) -> Option<Option<u32>> {
    match expr {
        Expr::Int(n) if n.sign() == Sign::Minus => Some(None),
        Expr::Int(n) => Some(Some(n.to_u32().unwrap_or(u32::MAX))),
        _ => None,
    }
}

/// The range of an integer expression; `params` are the widths of the running action's parameters.
pub fn range(program: &Program, params: &[u32], expr: &Expr) -> Range {
    let of = |expr: &Expr| range(program, params, expr);
    match expr {
        Expr::Int(value) => Range::of_int(value),
        Expr::Field(field) => {
            let def = program.field_def_of_ref(field);
            match def.width {
                Width::Fixed(width) if def.signed => Range::new(true, width.saturating_sub(1)),
                Width::Fixed(width) | Width::Varbit(width) => Range::new(false, width),
            }
        }
        Expr::Param(index) => Range::new(false, params.get(*index as usize).copied().unwrap_or(0)),
        Expr::Unary(op, value) => match op {
            UnaryOp::Neg => {
                let r = of(value);
                Range::new(true, if r.neg { r.bits + 1 } else { r.bits })
            }
            UnaryOp::BitNot => Range::new(true, of(value).bits),
            UnaryOp::Not | UnaryOp::BoolToInt | UnaryOp::IntToBool => Range::BOOL,
        },
        Expr::Binary(op, left, right) => match op {
            BinaryOp::Add => {
                let (l, r) = (of(left), of(right));
                Range::new(l.neg || r.neg, l.bits.max(r.bits) + 1)
            }
            BinaryOp::Sub => {
                let (l, r) = (of(left), of(right));
                let wider = u32::from(l.neg || r.neg);
                Range::new(true, l.bits.max(r.bits) + wider)
            }
            BinaryOp::Mul => {
                let (l, r) = (of(left), of(right));
                Range::new(l.neg || r.neg, l.bits + r.bits + u32::from(l.neg && r.neg))
            }
            BinaryOp::Div => {
                let (l, r) = (of(left), of(right));
                Range::new(l.neg || r.neg, l.bits + u32::from(l.neg && r.neg))
            }
            BinaryOp::Rem => {
                let (l, r) = (of(left), of(right));
                // Smaller than the divisor in magnitude; either sign rule keeps it within this.
                Range::new(l.neg || r.neg, r.bits.min(l.bits.max(r.bits)))
            }
            BinaryOp::Shl => {
                let l = of(left);
                match const_shift(right) {
                    Some(Some(count)) if u64::from(count) <= MAX_SHIFT => Range::new(l.neg, l.bits + count),
                    Some(_) => Range::new(false, 0),
                    None => {
                        let r = of(right);
                        if r.bits <= 7 {
                            Range::new(l.neg, l.bits + (1 << r.bits) - 1)
                        } else {
                            Range::new(l.neg, HUGE)
                        }
                    }
                }
            }
            BinaryOp::Shr => {
                let l = of(left);
                match const_shift(right) {
                    Some(Some(count)) => Range::new(l.neg, l.bits.saturating_sub(count)),
                    Some(None) => Range::new(false, 0),
                    None => l,
                }
            }
            BinaryOp::BitAnd => {
                let (l, r) = (of(left), of(right));
                match (l.neg, r.neg) {
                    (false, false) => Range::new(false, l.bits.min(r.bits)),
                    (false, true) => Range::new(false, l.bits),
                    (true, false) => Range::new(false, r.bits),
                    (true, true) => Range::new(true, l.bits.max(r.bits)),
                }
            }
            BinaryOp::BitOr | BinaryOp::BitXor => of(left).union(of(right)),
            _ => Range::BOOL,
        },
        Expr::Select(_, yes, no) => of(yes).union(of(no)),
        Expr::Wrap { width, .. } => Range::new(true, width.saturating_sub(1)),
        Expr::Saturate { width, signed: true, .. } => Range::new(true, width.saturating_sub(1)),
        Expr::Saturate { width, signed: false, .. } => Range::new(false, *width),
        Expr::LastIndex(_) | Expr::StackSize(_) => Range::new(false, 32),
        Expr::Lookahead { width, .. } => Range::new(false, *width),
        Expr::Register { register, .. } => Range::new(false, program.registers[register.at()].width),
        _ => Range::BOOL,
    }
}
