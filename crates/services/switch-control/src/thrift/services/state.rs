//! `standard`: counters, meters, registers, value sets, learning.

use super::{CXT, done, method, program};
use crate::thrift::Context;
use crate::thrift::codec::{Value, wire};
use crate::thrift::convert::{WrongRates, counter_from, counter_to, padded, rates_from, rates_to};
use crate::thrift::errors::{BAD_RATES_LIST, INVALID_BURST, INVALID_INFO_RATE, Refusal, Throws};
use crate::thrift::schema::{Args, Field, Method, Ty, field};
use crate::thrift::types::{COUNTER_VALUE, METER_RATES};
use barewire_p4::ir::{RegisterArray, RegisterId, ValueSet, ValueSetId};
use barewire_switch::control::{ErrorKind, MeterRate, Range};
use num_bigint::BigUint;
use num_traits::{One, ToPrimitive};

const COUNTER_NAME: Field = field(2, "counter_name", Ty::Text);
const METER_NAME: Field = field(2, "meter_array_name", Ty::Text);
const REGISTER_NAME: Field = field(2, "register_array_name", Ty::Text);
const SET_NAME: Field = field(2, "parse_vset_name", Ty::Text);
const INDEX: Field = field(3, "index", Ty::I32);
const LIST: Field = field(2, "list_id", Ty::I32);
const BUFFER: Field = field(3, "buffer_id", Ty::I64);

/// An index from the wire; a negative one is out of every range.
fn index(args: &Args, at: usize) -> Result<u64, Refusal> {
    u64::try_from(args.int(at))
        .map_err(|_| Refusal::kind(ErrorKind::InvalidIndex, format!("index {} is negative", args.int(at))))
}

fn rates(
    context: &Context,
    args: &Args,
    at: usize,
) -> Result<(barewire_p4::ir::MeterId, Vec<MeterRate>), Refusal> {
    let id = context.switch.meter(args.text(1))?;
    let program = program(context)?;
    let count = program.meters.get(id.at()).map_or(0, |meter| meter.rate_count);
    let rates = rates_from(args.get(at), count).map_err(|wrong| match wrong {
        WrongRates::Count(why) => Refusal::Code(BAD_RATES_LIST, why),
        WrongRates::Rate(why) => Refusal::Code(INVALID_INFO_RATE, why),
        WrongRates::Burst(why) => Refusal::Code(INVALID_BURST, why),
    })?;
    Ok((id, rates))
}

/// The register array that an argument names.
pub(super) fn register(context: &Context, name: &str) -> Result<(RegisterId, RegisterArray), Refusal> {
    let id = context.switch.register(name)?;
    let array = program(context)?.registers.get(id.at()).cloned();
    array.map(|array| (id, array)).ok_or_else(|| {
        Refusal::kind(ErrorKind::InvalidRegisterName, "the program was swapped under this call")
    })
}

/// A value of 64 bits for a register: a negative one is the two's complement of the register's width.
fn register_value(array: &RegisterArray, value: i64) -> BigUint {
    if value >= 0 {
        return BigUint::from(value as u64) & ((BigUint::one() << array.width) - 1u32);
    }
    let modulus = BigUint::one() << array.width;
    let below = BigUint::from(value.unsigned_abs()) % &modulus;
    (&modulus - below) % modulus
}

/// The low 64 bits, all that this interface can carry. (bmv2 gives the largest signed number for all above it, so the
/// bits of a 64-bit register cannot be told from its answer; from ours they can.)
fn low_bits(value: &BigUint) -> Value {
    let low = value & BigUint::from(u64::MAX);
    Value::I64(low.to_u64().unwrap_or(0) as i64)
}

fn value_set(context: &Context, args: &Args) -> Result<(ValueSetId, ValueSet), Refusal> {
    let id = context.switch.value_set(args.text(1))?;
    let set = program(context)?.value_sets.get(id.at()).cloned();
    set.map(|set| (id, set)).ok_or_else(|| {
        Refusal::kind(ErrorKind::InvalidValueSetName, "the program was swapped under this call")
    })
}

/// A value set's value from its bytes: its parts' bits one after the other, padded on the left to whole bytes
/// (bmv2's "compressed" form).
fn parts_from(set: &ValueSet, bytes: &[u8]) -> Result<Vec<BigUint>, Refusal> {
    let width: u32 = set.widths.iter().sum();
    let expected = width.div_ceil(8).max(1) as usize;
    let mut rest = BigUint::from_bytes_be(bytes);
    if bytes.len() != expected || rest.bits() > u64::from(width) {
        return Err(Refusal::kind(
            ErrorKind::Other,
            format!(
                "a value of {} has {width} bits in {expected} bytes; 0x{rest:x} in {} were given",
                set.name,
                bytes.len()
            ),
        ));
    }
    let mut parts = Vec::with_capacity(set.widths.len());
    for width in set.widths.iter().rev() {
        parts.push(&rest & ((BigUint::one() << *width) - 1u32));
        rest >>= *width;
    }
    parts.reverse();
    Ok(parts)
}

fn parts_to(set: &ValueSet, parts: &[BigUint]) -> Value {
    let mut whole = BigUint::default();
    for (part, width) in parts.iter().zip(&set.widths) {
        whole = (whole << *width) | part;
    }
    Value::Bytes(padded(&whole, set.widths.iter().sum()))
}

pub(super) static METHODS: &[Method] = &[
    method(
        "bm_counter_read",
        &[CXT, COUNTER_NAME, INDEX],
        Ty::Struct(&COUNTER_VALUE),
        Throws::Counter,
        |c, a| {
            let id = c.switch.counter(a.text(1))?;
            let values = c.switch.read_counters(id, Range::One(index(a, 2)?))?;
            let (_, value) =
                values.first().ok_or_else(|| Refusal::kind(ErrorKind::InvalidIndex, "no such index"))?;
            Ok(counter_to(*value))
        },
    ),
    method("bm_counter_reset_all", &[CXT, COUNTER_NAME], Ty::Void, Throws::Counter, |c, a| {
        c.switch.reset_counters(c.switch.counter(a.text(1))?)?;
        done()
    }),
    method(
        "bm_counter_write",
        &[CXT, COUNTER_NAME, INDEX, field(4, "value", Ty::Struct(&COUNTER_VALUE))],
        Ty::Void,
        Throws::Counter,
        |c, a| {
            c.switch.write_counter(c.switch.counter(a.text(1))?, index(a, 2)?, counter_from(a.get(3)))?;
            done()
        },
    ),
    method(
        "bm_learning_ack",
        &[CXT, LIST, BUFFER, field(4, "sample_ids", Ty::List(&Ty::I32))],
        Ty::Void,
        Throws::Learn,
        |c, a| {
            for sample in a.get(3).items() {
                c.switch.ack_digest(a.u32(1), a.int(2) as u64, Some(u64::from(sample.int() as u32)))?;
            }
            done()
        },
    ),
    method("bm_learning_ack_buffer", &[CXT, LIST, BUFFER], Ty::Void, Throws::Learn, |c, a| {
        c.switch.ack_digest(a.u32(1), a.int(2) as u64, None)?;
        done()
    }),
    method(
        "bm_learning_set_timeout",
        &[CXT, LIST, field(3, "timeout_ms", Ty::I32)],
        Ty::Void,
        Throws::Learn,
        |c, a| {
            let timeout = u32::try_from(a.int(2))
                .map_err(|_| Refusal::kind(ErrorKind::Other, format!("a time-out of {} ms", a.int(2))))?;
            c.switch.set_digest_timeout(a.u32(1), timeout)?;
            done()
        },
    ),
    method(
        "bm_learning_set_buffer_size",
        &[CXT, LIST, field(3, "nb_samples", Ty::I32)],
        Ty::Void,
        Throws::Learn,
        |c, a| {
            let samples = usize::try_from(a.int(2))
                .map_err(|_| Refusal::kind(ErrorKind::Other, format!("a buffer of {} samples", a.int(2))))?;
            c.switch.set_digest_max_samples(a.u32(1), samples)?;
            done()
        },
    ),
    method(
        "bm_meter_array_set_rates",
        &[CXT, METER_NAME, field(3, "rates", METER_RATES)],
        Ty::Void,
        Throws::Meter,
        |c, a| {
            let (id, rates) = rates(c, a, 2)?;
            c.switch.set_meter(id, Range::All, &rates)?;
            done()
        },
    ),
    method(
        "bm_meter_set_rates",
        &[CXT, METER_NAME, INDEX, field(4, "rates", METER_RATES)],
        Ty::Void,
        Throws::Meter,
        |c, a| {
            let index = index(a, 2)?;
            let (id, rates) = rates(c, a, 3)?;
            c.switch.set_meter(id, Range::One(index), &rates)?;
            done()
        },
    ),
    method("bm_meter_get_rates", &[CXT, METER_NAME, INDEX], METER_RATES, Throws::Meter, |c, a| {
        Ok(rates_to(&c.switch.meter_rates(c.switch.meter(a.text(1))?, index(a, 2)?)?))
    }),
    method(
        "bm_register_read",
        &[CXT, REGISTER_NAME, field(3, "idx", Ty::I32)],
        Ty::I64,
        Throws::Register,
        |c, a| {
            let id = c.switch.register(a.text(1))?;
            let values = c.switch.read_registers(id, Range::One(index(a, 2)?))?;
            let (_, value) =
                values.first().ok_or_else(|| Refusal::kind(ErrorKind::InvalidIndex, "no such index"))?;
            Ok(low_bits(value))
        },
    ),
    method("bm_register_read_all", &[CXT, REGISTER_NAME], Ty::List(&Ty::I64), Throws::Register, |c, a| {
        let id = c.switch.register(a.text(1))?;
        let values = c.switch.read_registers(id, Range::All)?;
        Ok(Value::List(wire::I64, values.iter().map(|(_, value)| low_bits(value)).collect()))
    }),
    method(
        "bm_register_write",
        &[CXT, REGISTER_NAME, INDEX, field(4, "value", Ty::I64)],
        Ty::Void,
        Throws::Register,
        |c, a| {
            let (id, array) = register(c, a.text(1))?;
            c.switch.write_registers(id, Range::One(index(a, 2)?), &register_value(&array, a.int(3)))?;
            done()
        },
    ),
    method(
        "bm_register_write_range",
        &[
            CXT,
            REGISTER_NAME,
            field(3, "start_index", Ty::I32),
            field(4, "end_index", Ty::I32),
            field(5, "value", Ty::I64),
        ],
        Ty::Void,
        Throws::Register,
        |c, a| {
            let (id, array) = register(c, a.text(1))?;
            let (from, to) = (index(a, 2)?, index(a, 3)?);
            if from > to {
                return Err(Refusal::kind(
                    ErrorKind::InvalidIndex,
                    format!("the range {from}..{to} runs backwards"),
                ));
            }
            c.switch.write_registers(id, Range::Span(from, to), &register_value(&array, a.int(4)))?;
            done()
        },
    ),
    method("bm_register_reset", &[CXT, REGISTER_NAME], Ty::Void, Throws::Register, |c, a| {
        c.switch.reset_registers(c.switch.register(a.text(1))?)?;
        done()
    }),
    method(
        "bm_parse_vset_add",
        &[CXT, SET_NAME, field(3, "value", Ty::Bytes)],
        Ty::Void,
        Throws::ValueSet,
        |c, a| {
            let (id, set) = value_set(c, a)?;
            c.switch.vs_add(id, parts_from(&set, a.get(2).bytes())?)?;
            done()
        },
    ),
    method(
        "bm_parse_vset_remove",
        &[CXT, SET_NAME, field(3, "value", Ty::Bytes)],
        Ty::Void,
        Throws::ValueSet,
        |c, a| {
            let (id, set) = value_set(c, a)?;
            c.switch.vs_remove(id, parts_from(&set, a.get(2).bytes())?)?;
            done()
        },
    ),
    method("bm_parse_vset_get", &[CXT, SET_NAME], Ty::List(&Ty::Bytes), Throws::ValueSet, |c, a| {
        let (id, set) = value_set(c, a)?;
        let values = c.switch.vs_get(id)?;
        Ok(Value::List(wire::BYTES, values.iter().map(|parts| parts_to(&set, parts)).collect()))
    }),
    method("bm_parse_vset_clear", &[CXT, SET_NAME], Ty::Void, Throws::ValueSet, |c, a| {
        let (id, _) = value_set(c, a)?;
        c.switch.vs_clear(id)?;
        done()
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_sets_parts_lie_side_by_side() {
        let set = ValueSet { name: "pvs".into(), widths: vec![9, 3], max_size: 4 };
        let parts = parts_from(&set, &[0x0a, 0xbd]).unwrap();
        assert_eq!(parts, [BigUint::from(0xabd_u32 >> 3), BigUint::from(5u32)]);
        assert_eq!(parts_to(&set, &parts), Value::Bytes(vec![0x0a, 0xbd]));
        assert!(parts_from(&set, &[0x1a, 0xbd]).is_err(), "12 bits at most");
        assert!(parts_from(&set, &[0xbd]).is_err() && parts_from(&set, &[0, 0, 0xbd]).is_err());
    }

    #[test]
    fn negative_register_values_are_twos_complement() {
        let array = |width| RegisterArray { name: "r".into(), id: 0, size: 1, width, initial: BigUint::ZERO };
        assert_eq!(register_value(&array(8), -1), BigUint::from(255u32));
        assert_eq!(register_value(&array(8), -256), BigUint::from(0u32));
        assert_eq!(register_value(&array(8), 257), BigUint::from(1u32));
        assert_eq!(register_value(&array(128), -1), BigUint::from(u128::MAX));
        assert_eq!(low_bits(&BigUint::from(u128::MAX)), Value::I64(-1));
    }
}
