//! PSA's `Checksum`: what it was given, kept until it is asked; or, where the packet tells how often that is, summed byte by byte.

use barewire_p4::ir::{
    BinaryOp, CalcInput, CalculationId, Expr, FieldDef, FieldRef, HashAlgorithm, HashSource, HeaderId,
    HeaderRef, Stmt, Width,
};
use barewire_p4_source::Span;
use barewire_p4_source::types::ty::TypeId;
use num_bigint::BigUint;

use super::code::{self, Ins};
use super::externs::{Args, arg};
use super::ops::{binary, int, wrap};
use super::{Lower, Result, Val, refuse};

/// A `Checksum`: what keeps the data of each `update`, in the order of the source, and the calculation over all of it.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub steps: Vec<HeaderId>,
    pub calculation: CalculationId,
    pub by_byte: Option<ByByte>,
}

/// A sum as it stands.
#[derive(Clone, Debug)]
pub(crate) struct ByByte {
    algorithm: HashAlgorithm,
    /// The remainder or sum; a remainder without what it begins with, so that zero, which each packet brings, is the beginning.
    sum: FieldRef,
    /// How many bytes there were, as far as that matters.
    count: FieldRef,
}

impl<'a> Lower<'a> {
    pub(crate) fn new_running(&mut self, algorithm: HashAlgorithm, span: Span) -> Result<Running> {
        let calculation = self.calculation(algorithm, Vec::new());
        let by_byte = if self.byte_by_byte {
            if matches!(algorithm, HashAlgorithm::Crc16Custom | HashAlgorithm::Crc32Custom) {
                let text = "`update` in a loop of a `Checksum` whose polynomial a control plane may set";
                return refuse(span, text);
            }
            let (sum, count) = (self.temp("sum", 64, false), self.temp("summed", 8, false));
            Some(ByByte { algorithm, sum, count })
        } else {
            None
        };
        Ok(Running { steps: Vec::new(), calculation, by_byte })
    }

    /// A method of PSA's `Checksum`. Each `update` leaves its data in a header of its own, valid from then until `clear`;
    /// `get` is the hash of those that are valid, in the order of the source.
    pub(crate) fn psa_running(
        &mut self,
        at: usize,
        name: &str,
        args: &Args,
        result: TypeId,
        span: Span,
    ) -> Result<Val> {
        if let Some(by) = self.running[at].by_byte.clone() {
            return self.running_by_byte(&by, name, args, result, span);
        }
        match name {
            "clear" => {
                for header in self.running[at].steps.clone() {
                    self.stmt_out(Stmt::SetInvalid(header.into()));
                }
            }
            "update" => {
                let (data, ty) = arg(args, 0, span)?;
                let input = self.psa_data(&(data, ty), 8, span)?;
                let mut fields = Vec::new();
                let mut values = Vec::new();
                for (number, part) in input.into_iter().enumerate() {
                    let (value, width) = match part {
                        CalcInput::Expr { value, width } => (value, width),
                        CalcInput::Const { value, width } => (Expr::Int(value.into()), width),
                        _ => return refuse(span, "this data of a sum"),
                    };
                    fields.push(FieldDef {
                        name: format!("f{number}"),
                        width: Width::Fixed(width),
                        signed: false,
                    });
                    values.push(value);
                }
                let header = self.hidden_header("summed", fields);
                self.stmt_out(Stmt::SetValid(header.into()));
                for (number, value) in values.into_iter().enumerate() {
                    let dst = FieldRef { header: header.into(), field: number as u32 };
                    self.stmt_out(Stmt::Assign { dst, value });
                }
                let calculation = self.running[at].calculation;
                self.running[at].steps.push(header);
                self.program.calculations[calculation.at()].input.push(CalcInput::Header(header.into()));
                self.once.insert(header, (at, span));
            }
            "get" => {
                let Some(shape) = self.scalar(result) else { return refuse(span, "a sum that is no number") };
                let dst = self.temp("sum", shape.width.max(1), false);
                let source = HashSource::Calculation(self.running[at].calculation);
                // All of it: the JSON has no hash without a range.
                let base = Some(int(0));
                let max = Some(Expr::Int((BigUint::from(1_u8) << shape.width.clamp(1, 63)).into()));
                self.stmt_out(Stmt::Hash { dst: dst.clone(), source, base, max });
                return Ok(Val::Field(dst));
            }
            other => return refuse(span, format!("the method `{other}` is not lowered here")),
        }
        Ok(Val::Nothing)
    }

    /// One `update` keeps what it was given once, and they are summed in the order of the source: so none may come again,
    /// nor after one that stands behind it. Where one does, the program is lowered again, with sums byte by byte.
    pub(crate) fn check_once(&mut self, code: &[Ins]) -> Result<()> {
        if self.once.is_empty() {
            return Ok(());
        }
        let mut seen: Vec<(usize, usize)> = Vec::new();
        for (at, ins) in code.iter().enumerate() {
            let Ins::Stmt(Stmt::SetValid(HeaderRef::Header(header)), _) = ins else { continue };
            let Some(&(of, span)) = self.once.get(header) else { continue };
            seen.push((of, at));
            if seen.iter().any(|&(other, before)| other == of && code::leads(code, at, before)) {
                self.byte_by_byte = true;
                return refuse(span, "`update` of a `Checksum` in a loop, or behind one that runs later");
            }
        }
        Ok(())
    }

    /// The same methods on a sum that is kept byte by byte.
    fn running_by_byte(
        &mut self,
        by: &ByByte,
        name: &str,
        args: &Args,
        result: TypeId,
        span: Span,
    ) -> Result<Val> {
        let read = |field: &FieldRef| Expr::Field(field.clone());
        match name {
            "clear" => {
                self.stmt_out(Stmt::Assign { dst: by.sum.clone(), value: int(0) });
                self.stmt_out(Stmt::Assign { dst: by.count.clone(), value: int(0) });
                Ok(Val::Nothing)
            }
            "update" => {
                let mut bits = 0;
                let mut all = int(0);
                for part in self.psa_data(&arg(args, 0, span)?, 8, span)? {
                    let (value, width) = match part {
                        CalcInput::Expr { value, width } => (wrap(value, width, false), width),
                        CalcInput::Const { value, width } => (Expr::Int(value.into()), width),
                        _ => return refuse(span, "this data of a sum"),
                    };
                    all = binary(BinaryOp::BitOr, binary(BinaryOp::Shl, all, int(width)), value);
                    bits += width;
                }
                if bits == 0 {
                    return Ok(Val::Nothing);
                }
                let data = self.temp("data", bits, false);
                self.stmt_out(Stmt::Assign { dst: data.clone(), value: all });
                for low in (0..bits / 8).rev() {
                    let byte = wrap(binary(BinaryOp::Shr, read(&data), int(low * 8)), 8, false);
                    self.sum_byte(by, byte);
                    self.bounded(span)?;
                }
                Ok(Val::Nothing)
            }
            "get" => {
                let Some(shape) = self.scalar(result) else { return refuse(span, "a sum that is no number") };
                let sum = match by.algorithm {
                    HashAlgorithm::Csum16 => binary(BinaryOp::BitXor, read(&by.sum), int(0xffff)),
                    // What it begins with and what is added at its end are the same.
                    _ => read(&by.sum),
                };
                Ok(Val::Num(wrap(sum, shape.width, shape.signed)))
            }
            other => refuse(span, format!("the method `{other}` is not lowered here")),
        }
    }

    fn sum_byte(&mut self, by: &ByByte, byte: Expr) {
        let (sum, count) = (Expr::Field(by.sum.clone()), Expr::Field(by.count.clone()));
        let mut set = |dst: &FieldRef, value: Expr| {
            self.stmt_out(Stmt::Assign { dst: dst.clone(), value });
        };
        let select = |on: Expr, yes: Expr, no: Expr| Expr::Select(Box::new(on), Box::new(yes), Box::new(no));
        // (The beginning, and the mirrored polynomial.)
        let (begin, polynomial): (u32, u32) = match by.algorithm {
            HashAlgorithm::Csum16 => {
                // High and low bytes of words in turn; what runs over comes in again.
                let odd = binary(BinaryOp::Ne, count.clone(), int(0));
                let high = binary(BinaryOp::Shl, byte.clone(), int(8));
                set(&by.sum, binary(BinaryOp::Add, sum.clone(), select(odd, byte, high)));
                let low = wrap(sum.clone(), 16, false);
                set(&by.sum, binary(BinaryOp::Add, low, binary(BinaryOp::Shr, sum, int(16))));
                set(&by.count, binary(BinaryOp::BitXor, count, int(1)));
                return;
            }
            HashAlgorithm::Identity => {
                // The first eight bytes.
                let room = || binary(BinaryOp::Lt, count.clone(), int(8));
                let longer = binary(BinaryOp::BitOr, binary(BinaryOp::Shl, sum.clone(), int(8)), byte);
                set(&by.sum, select(room(), longer, sum));
                set(&by.count, select(room(), binary(BinaryOp::Add, count.clone(), int(1)), count.clone()));
                return;
            }
            HashAlgorithm::Crc16 => (0, 0xa001),
            _ => (u32::MAX, 0xedb8_8320),
        };
        set(&by.sum, binary(BinaryOp::BitXor, binary(BinaryOp::BitXor, sum.clone(), int(begin)), byte));
        for _ in 0..8 {
            let carry = binary(BinaryOp::Ne, binary(BinaryOp::BitAnd, sum.clone(), int(1)), int(0));
            let divided = binary(BinaryOp::Shr, sum.clone(), int(1));
            let reduced = binary(BinaryOp::BitXor, divided.clone(), int(polynomial));
            set(&by.sum, select(carry, reduced, divided));
        }
        set(&by.sum, binary(BinaryOp::BitXor, sum, int(begin)));
    }
}
