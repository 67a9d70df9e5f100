//! Constants, which the format writes in hexadecimal.

use super::MAX_CONSTANT_BITS;
use super::error::{Fault, Problem, Result};
use super::json::{Json, Kind};
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{ToPrimitive, Zero};

/// A constant written in hexadecimal, as text (perhaps with a minus sign) or, as some p4c versions do, as a number.
pub(super) fn hex(at: &Json<'_>) -> Result<BigInt> {
    if let Kind::Int(value) = at.kind {
        return Ok(value.into());
    }
    let text = at.str()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (Sign::Minus, rest),
        None => (Sign::Plus, text),
    };
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(digits);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Fault::value(at, format!("{} is no hexadecimal number", at.describe()));
    }
    let bits = digits.len() as u64 * 4;
    if bits > MAX_CONSTANT_BITS {
        let problem = Problem::Limit { what: "bits of a constant", value: bits, limit: MAX_CONSTANT_BITS };
        return Err(Fault::new(at, problem));
    }
    let digits: Vec<u8> = digits.bytes().map(|b| char::from(b).to_digit(16).unwrap_or(0) as u8).collect();
    let magnitude = BigUint::from_radix_be(&digits, 16).unwrap_or_default();
    Ok(BigInt::from_biguint(if magnitude.is_zero() { Sign::NoSign } else { sign }, magnitude))
}

/// A constant that is not negative.
pub(super) fn hex_unsigned(at: &Json<'_>) -> Result<BigUint> {
    match hex(at)?.to_biguint() {
        Some(value) => Ok(value),
        None => Fault::value(at, format!("{} is negative", at.describe())),
    }
}

/// A constant's bytes, as many as its text has (`0x0800` is two).
pub(super) fn hex_bytes(at: &Json<'_>) -> Result<Vec<u8>> {
    let text = at.str()?;
    if text.starts_with('-') {
        return Fault::value(at, format!("{} is negative", at.describe()));
    }
    let value = hex(at)?;
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text).len();
    let count = digits.div_ceil(2);
    let bytes = value.magnitude().to_bytes_be();
    let bytes: &[u8] = if value.is_zero() { &[] } else { &bytes };
    let mut padded = vec![0; count.saturating_sub(bytes.len())];
    padded.extend_from_slice(bytes);
    Ok(padded)
}

/// A constant that fits 32 bits.
pub(super) fn hex_u32(at: &Json<'_>, what: &'static str) -> Result<u32> {
    let value = hex_unsigned(at)?;
    match value.to_u32() {
        Some(value) => Ok(value),
        None => {
            let value = value.to_u64().unwrap_or(u64::MAX);
            Err(Fault::new(at, Problem::Limit { what, value, limit: u32::MAX.into() }))
        }
    }
}

/// The low bits of a number, negative ones in two's complement.
pub(super) fn low_bits(value: &BigInt, width: u32) -> BigUint {
    let modulus = BigInt::from(1) << width;
    num_integer::Integer::mod_floor(value, &modulus).to_biguint().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Json<'_> {
        Json { at: 0, kind: Kind::Str(text.into()) }
    }

    #[test]
    fn hexadecimal_constants() {
        assert_eq!(hex(&text("0x0800")).unwrap(), BigInt::from(0x800));
        assert_eq!(hex(&text("-0x1")).unwrap(), BigInt::from(-1));
        assert_eq!(hex(&text("ff")).unwrap(), BigInt::from(255));
        for bad in ["", "0x", "-", "0xg", "--1", "0x-1", "+1", " 1"] {
            assert!(hex(&text(bad)).is_err(), "{bad:?}");
        }
        assert!(hex(&text(&format!("0x{}", "f".repeat(16385)))).is_err());
        assert_eq!(hex_bytes(&text("0x0800")).unwrap(), [8, 0]);
        assert_eq!(hex_bytes(&text("0x800")).unwrap(), [8, 0]);
        assert_eq!(hex_bytes(&text("0x000000")).unwrap(), [0, 0, 0]);
        assert_eq!(hex_bytes(&text("0a")).unwrap(), [10]);
        assert_eq!(low_bits(&BigInt::from(-1), 9), BigUint::from(511_u32));
        assert_eq!(low_bits(&BigInt::from(0x1ff), 8), BigUint::from(255_u32));
    }
}
