//! Byte strings to numbers and back (specification, "Bytestrings"), and `P4Data`.

use super::data::{P4Data, P4DataKind, P4Header, P4StructLike};
use super::error::{P4Error, Result, invalid};
use crate::p4info::index::{DataShape, ValueShape};
use num_bigint::{BigInt, BigUint, Sign};
use tonic::Code;

fn out_of_range(message: String) -> P4Error {
    P4Error::new(Code::OutOfRange, message)
}

/// All ones.
pub fn ones(width: u32) -> BigUint {
    (BigUint::from(1u8) << width) - 1u8
}

/// An unsigned number of so many bits.
///
/// # Errors
/// OUT_OF_RANGE for an empty string, and for a number that does not fit.
pub fn number(bytes: &[u8], width: u32) -> Result<BigUint> {
    if bytes.is_empty() {
        return Err(out_of_range("the value is empty; zero is one zero byte".into()));
    }
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    let significant = &bytes[zeros..];
    let bits = significant
        .first()
        .map_or(0, |first| significant.len() as u64 * 8 - u64::from(first.leading_zeros()));
    if bits > u64::from(width) {
        return Err(out_of_range(format!("the value has {bits} bits, {width} fit")));
    }
    Ok(BigUint::from_bytes_be(significant))
}

/// A number of at most 32 bits, such as a port.
///
/// # Errors
/// As [`number`].
pub fn number32(bytes: &[u8]) -> Result<u32> {
    Ok(number(bytes, 32)?.to_u32_digits().first().copied().unwrap_or(0))
}

/// The shortest byte string of a number.
pub fn bytes(value: &BigUint) -> Vec<u8> {
    value.to_bytes_be()
}

/// A two's complement number of so many bits, as its bits.
fn signed_number(bytes: &[u8], width: u32) -> Result<BigUint> {
    if bytes.is_empty() {
        return Err(out_of_range("the value is empty; zero is one zero byte".into()));
    }
    let fill = if bytes[0] & 0x80 != 0 { 0xff } else { 0 };
    let filling = bytes.iter().take_while(|&&byte| byte == fill).count();
    if bytes.len() - filling > width.div_ceil(8) as usize {
        return Err(out_of_range(format!("the value has {} bytes, {width} bits fit", bytes.len() - filling)));
    }
    let value = BigInt::from_signed_bytes_be(&bytes[filling.saturating_sub(1)..]);
    let half = BigInt::from(1u8) << width.saturating_sub(1);
    if value >= half || value < -half.clone() {
        return Err(out_of_range(format!("{value} does not fit in {width} signed bits")));
    }
    let value = if value.sign() == Sign::Minus { value + (half * 2) } else { value };
    Ok(value.magnitude().clone())
}

fn signed_bytes(bits: &BigUint, width: u32) -> Vec<u8> {
    let negative = width > 0 && bits.bit(u64::from(width) - 1);
    let value = BigInt::from(bits.clone());
    let value = if negative { value - (BigInt::from(1u8) << width) } else { value };
    value.to_signed_bytes_be()
}

/// A value of one number, as `P4Data`.
pub fn scalar_data(value: &BigUint, shape: ValueShape, width: u32) -> P4Data {
    let kind = match shape {
        ValueShape::Bits => P4DataKind::Bitstring(bytes(value)),
        ValueShape::Signed => P4DataKind::Bitstring(signed_bytes(value, width)),
        ValueShape::Bool => P4DataKind::Bool(value.bits() != 0),
        ValueShape::EnumValue => P4DataKind::EnumValue(bytes(value)),
    };
    P4Data { data: Some(kind) }
}

/// The number in a `P4Data`.
///
/// # Errors
/// INVALID_ARGUMENT when it is of another kind, OUT_OF_RANGE when the number does not fit.
pub fn scalar_number(data: &P4Data, shape: ValueShape, width: u32) -> Result<BigUint> {
    match (&data.data, shape) {
        (Some(P4DataKind::Bitstring(value)), ValueShape::Bits) => number(value, width),
        (Some(P4DataKind::Bitstring(value)), ValueShape::Signed) => signed_number(value, width),
        (Some(P4DataKind::Bool(value)), ValueShape::Bool) => Ok(BigUint::from(u8::from(*value))),
        (Some(P4DataKind::EnumValue(value)), ValueShape::EnumValue) => number(value, width),
        (None, _) => Err(invalid("the data is not set")),
        (Some(_), shape) => Err(invalid(format!("the data is of another kind than the program's {shape:?}"))),
    }
}

/// Several numbers as one value. Numbers that are missing are zero.
pub fn shaped_data(shape: &DataShape, items: &mut impl Iterator<Item = BigUint>) -> P4Data {
    let kind = match shape {
        DataShape::Scalar(shape, width) => {
            return scalar_data(&items.next().unwrap_or_default(), *shape, *width);
        }
        DataShape::Struct(members) => P4DataKind::Struct(P4StructLike {
            members: members.iter().map(|member| shaped_data(member, items)).collect(),
        }),
        DataShape::Tuple(members) => P4DataKind::Tuple(P4StructLike {
            members: members.iter().map(|member| shaped_data(member, items)).collect(),
        }),
        DataShape::Header(fields) => P4DataKind::Header(P4Header {
            is_valid: true,
            bitstrings: (0..*fields).map(|_| bytes(&items.next().unwrap_or_default())).collect(),
        }),
    };
    P4Data { data: Some(kind) }
}

/// What a register of structs holds as one value: the first member has the highest bits.
pub fn packed_data(value: &BigUint, shape: &DataShape) -> P4Data {
    let widths = shape.widths().unwrap_or_default();
    let mut left: u64 = widths.iter().map(|width| u64::from(*width)).sum();
    let mut items = widths.iter().map(|width| {
        left -= u64::from(*width);
        (value >> left) & ones(*width)
    });
    shaped_data(shape, &mut items)
}

/// The same back.
///
/// # Errors
/// As for [`scalar_number`]; INVALID_ARGUMENT for another number of members.
pub fn packed_number(data: &P4Data, shape: &DataShape) -> Result<BigUint> {
    let (members, given) = match (shape, &data.data) {
        (DataShape::Scalar(shape, width), _) => return scalar_number(data, *shape, *width),
        (DataShape::Struct(members), Some(P4DataKind::Struct(given)))
        | (DataShape::Tuple(members), Some(P4DataKind::Tuple(given))) => (members, given),
        (_, None) => return Err(invalid("the data is not set")),
        _ => return Err(invalid("the data is of another kind than the program's")),
    };
    if members.len() != given.members.len() {
        let text = format!("{} members where the program has {}", given.members.len(), members.len());
        return Err(invalid(text));
    }
    let mut all = BigUint::ZERO;
    for (shape, data) in members.iter().zip(&given.members) {
        let width: u32 = shape.widths().unwrap_or_default().iter().sum();
        all = (all << width) | packed_number(data, shape)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        let ok = |bytes: &[u8], width| number(bytes, width).unwrap();
        assert_eq!(ok(&[0x63], 8), 0x63u8.into());
        assert_eq!(ok(&[0, 0x63], 16), 0x63u8.into());
        assert_eq!(ok(&[0, 0x30, 0x64], 16), 0x3064u16.into());
        assert_eq!(ok(&[0, 0, 0x63], 12), 0x63u8.into());
        for (bytes, width) in [
            (&[1, 0x63][..], 8),
            (&[][..], 8),
            (&[1, 0, 0x63], 16),
            (&[0x10, 0x63], 12),
            (&[1, 0, 0x63], 12),
            (&[0, 0x40, 0x63], 12),
        ] {
            assert_eq!(number(bytes, width).unwrap_err().code, Code::OutOfRange, "{bytes:?} in {width}");
        }
        let signed = |bytes: &[u8], width| signed_number(bytes, width);
        assert_eq!(signed(&[0x9d], 8).unwrap(), 0x9du8.into());
        assert_eq!(signed(&[0xff, 0x9d], 8).unwrap(), 0x9du8.into());
        assert_eq!(signed(&[0xfd, 0x1d], 12).unwrap(), 0xd1du16.into());
        assert_eq!(signed(&[0, 0], 16).unwrap(), BigUint::ZERO);
        for (bytes, width) in [(&[0, 0x9d][..], 8), (&[0x8d, 0x1d], 12), (&[], 16)] {
            assert_eq!(signed(bytes, width).unwrap_err().code, Code::OutOfRange, "{bytes:?} in {width}");
        }
    }

    #[test]
    fn structs_are_packed_and_unpacked() {
        let inner = DataShape::Tuple(vec![
            DataShape::Scalar(ValueShape::Bool, 1),
            DataShape::Scalar(ValueShape::Signed, 7),
        ]);
        let shape = DataShape::Struct(vec![DataShape::Scalar(ValueShape::Bits, 12), inner]);
        let value = BigUint::from(0x000a_bcfe_u32);
        let data = packed_data(&value, &shape);
        let Some(P4DataKind::Struct(members)) = &data.data else { panic!("{data:?}") };
        assert_eq!(members.members[0].data, Some(P4DataKind::Bitstring(vec![0x0a, 0xbc])));
        let Some(P4DataKind::Tuple(pair)) = &members.members[1].data else { panic!("{data:?}") };
        assert_eq!(pair.members[0].data, Some(P4DataKind::Bool(true)));
        assert_eq!(pair.members[1].data, Some(P4DataKind::Bitstring(vec![0xfe])));
        assert_eq!(packed_number(&data, &shape).unwrap(), value);
        let short = P4Data { data: Some(P4DataKind::Struct(P4StructLike { members: Vec::new() })) };
        assert_eq!(packed_number(&short, &shape).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(packed_number(&members.members[1], &shape).unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn what_is_written_is_read_back_in_its_shortest_form() {
        let seed = 7;
        let mut random = barewire_base::Prng::new(seed);
        for _ in 0..5_000 {
            let width = 1 + random.below(130) as u32;
            let mut raw = [0u8; 17];
            random.fill(&mut raw);
            let value = BigUint::from_bytes_be(&raw) & ones(width);
            for shape in [ValueShape::Bits, ValueShape::Signed] {
                let data = scalar_data(&value, shape, width);
                assert_eq!(scalar_number(&data, shape, width).unwrap(), value, "seed {seed}, {width} bits");
            }
            let shortest = bytes(&value);
            assert!(shortest.len() == 1 || shortest[0] != 0);
            let padded: Vec<u8> = [0; 3].into_iter().chain(shortest).collect();
            assert_eq!(number(&padded, width).unwrap(), value);
        }
    }
}
