//! `barewire`: what bmv2's interface cannot say: registers wider than 64 bits, restored state, drops by reason.

use super::state::register;
use super::{done, method};
use crate::thrift::codec::{Value, wire};
use crate::thrift::convert::padded;
use crate::thrift::errors::{Refusal, Throws};
use crate::thrift::schema::{Field, Method, Ty, field};
use barewire_switch::control::{ErrorKind, Range};
use num_bigint::BigUint;

const NAME: Field = field(1, "register", Ty::Text);
const FROM: Field = field(2, "from", Ty::I64);
const TO: Field = field(3, "to", Ty::I64);

/// `from..to`; the whole array when `to` is negative.
fn range(from: i64, to: i64) -> Result<Range, Refusal> {
    let bad = || Refusal::kind(ErrorKind::InvalidIndex, format!("the range {from}..{to}"));
    let from = u64::try_from(from).map_err(|_| bad())?;
    match u64::try_from(to) {
        Err(_) => Ok(Range::All),
        Ok(to) if to == from.wrapping_add(1) => Ok(Range::One(from)),
        Ok(to) if to > from => Ok(Range::Span(from, to)),
        Ok(_) => Err(bad()),
    }
}

pub(super) static METHODS: &[Method] = &[
    method("read_registers", &[NAME, FROM, TO], Ty::List(&Ty::Bytes), Throws::Register, |c, a| {
        let (id, array) = register(c, a.text(0))?;
        let values = c.switch.read_registers(id, range(a.int(1), a.int(2))?)?;
        let values = values.iter().map(|(_, value)| Value::Bytes(padded(value, array.width))).collect();
        Ok(Value::List(wire::BYTES, values))
    }),
    method(
        "write_registers",
        &[NAME, FROM, TO, field(4, "value", Ty::Bytes)],
        Ty::Void,
        Throws::Register,
        |c, a| {
            let (id, array) = register(c, a.text(0))?;
            let value = BigUint::from_bytes_be(a.get(3).bytes());
            if value.bits() > u64::from(array.width) {
                return Err(Refusal::kind(
                    ErrorKind::Other,
                    format!("0x{value:x} has more than the {} bits of {}", array.width, array.name),
                ));
            }
            c.switch.write_registers(id, range(a.int(1), a.int(2))?, &value)?;
            done()
        },
    ),
    method("restore_state", &[field(1, "state", Ty::Text)], Ty::Void, Throws::Nothing, |c, a| {
        c.switch.restore_state(a.text(0))?;
        done()
    }),
    method("drops", &[], Ty::Map(&Ty::Text, &Ty::I64), Throws::Nothing, |c, _| {
        let drops = c.switch.drops().into_iter();
        let pairs = drops.map(|(reason, count)| (Value::text(reason), Value::I64(count as i64))).collect();
        Ok(Value::Map(wire::BYTES, wire::I64, pairs))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(range(0, -1).unwrap(), Range::All);
        assert_eq!(range(3, 4).unwrap(), Range::One(3));
        assert_eq!(range(3, 9).unwrap(), Range::Span(3, 9));
        assert!(range(-1, 4).is_err() && range(4, 4).is_err() && range(5, 4).is_err());
    }
}
