//! Words into numbers, keys and arguments, as p4lang's command line reads them: values in decimal, 0x, 0b, 0o, as an
//! IPv4 address where the field has 32 bits, a MAC address where it has 48, an IPv6 address where it has 128.

use super::CliError;
use super::names::shortest;
use crate::thrift::codec::{Value, wire};
use crate::thrift::convert::{has_priority, padded};
use crate::thrift::types::match_type;
use barewire_p4::ir::{Action, KeyField, MatchKind, Table};
use num_bigint::BigUint;
use num_traits::{Num, One, Zero};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A line's words. `&&&` and `->` stand in one word with their neighbours, however they were spaced.
pub fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut join = false;
    for word in line.split_whitespace() {
        let operator = word == "&&&" || word == "->";
        match words.last_mut() {
            // The first words are a command and a name: an operator never joins those.
            Some(last) if join || operator => last.push_str(word),
            _ => words.push(word.to_owned()),
        }
        join = operator || word.len() > 3 && word.ends_with("&&&") || word.len() > 2 && word.ends_with("->");
    }
    words
}

/// A number: decimal, or with a prefix.
pub fn number(text: &str) -> Option<BigUint> {
    let (digits, radix) = match text.get(..2) {
        Some("0x" | "0X") => (&text[2..], 16),
        Some("0b" | "0B") => (&text[2..], 2),
        Some("0o" | "0O") => (&text[2..], 8),
        _ => (text, 10),
    };
    // The library takes signs and bounds nothing; no field has more than a few thousand bits.
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if digits.is_empty() || digits.len() > 4096 || !digits.bytes().all(fine) || digits.starts_with('_') {
        return None;
    }
    BigUint::from_str_radix(digits, radix).ok()
}

/// A value of so many bits.
pub fn value(text: &str, width: u32) -> Result<BigUint, CliError> {
    let bad = |why: String| CliError::Input(format!("'{text}': {why}"));
    let bytes = width.div_ceil(8) as usize;
    let parsed = if width == 32 && text.contains('.') {
        let address: Ipv4Addr = text.parse().map_err(|_| bad("no IPv4 address".into()))?;
        BigUint::from(address.to_bits())
    } else if width == 128 && text.contains(':') {
        let address: Ipv6Addr = text.parse().map_err(|_| bad("no IPv6 address".into()))?;
        BigUint::from(address.to_bits())
    } else if text.contains(':') {
        let parts: Vec<&str> = text.split(':').collect();
        let what = if width == 48 { "MAC address".to_owned() } else { format!("string of {bytes} bytes") };
        let read: Option<Vec<u8>> =
            parts.iter().map(|part| if part.len() <= 2 { hex_byte(part) } else { None }).collect();
        match read {
            Some(read) if read.len() == bytes => BigUint::from_bytes_be(&read),
            _ => return Err(bad(format!("no {what}"))),
        }
    } else {
        number(text).ok_or_else(|| bad("no number; hexadecimal ones begin with 0x".into()))?
    };
    if parsed.bits() > u64::from(width) {
        return Err(bad(format!("it does not fit in {width} bits")));
    }
    Ok(parsed)
}

/// An integer of 64 bits, perhaps negative.
pub fn integer(text: &str, what: &str) -> Result<i64, CliError> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let magnitude = number(digits).and_then(|number| i128::try_from(number).ok());
    magnitude
        .map(|magnitude| if negative { -magnitude } else { magnitude })
        .and_then(|number| i64::try_from(number).ok())
        .ok_or_else(|| CliError::Input(format!("{what}: '{text}' is not an integer")))
}

/// An integer of 32 bits for the wire.
pub fn int32(text: &str, what: &str) -> Result<i32, CliError> {
    let number = integer(text, what)?;
    i32::try_from(number).map_err(|_| CliError::Input(format!("{what}: {number} has more than 32 bits")))
}

/// A handle: 32 bits, whose highest may show as a sign.
pub fn handle(text: &str, what: &str) -> Result<i32, CliError> {
    let number = integer(text, what)?;
    match (i32::try_from(number), u32::try_from(number)) {
        (Ok(handle), _) => Ok(handle),
        (_, Ok(handle)) => Ok(handle as i32),
        _ => Err(CliError::Input(format!("{what}: {number} has more than 32 bits"))),
    }
}

/// A number of bits without sign, as the signed number that travels.
pub fn unsigned_as_signed(text: &str, bits: u32, what: &str) -> Result<i64, CliError> {
    let number = integer(text, what)?;
    if number < -(1 << (bits - 1)) || number >= 1 << bits {
        return Err(CliError::Input(format!("{what}: {number} does not fit in {bits} bits")));
    }
    Ok(if number >= 1 << (bits - 1) { number - (1 << bits) } else { number })
}

/// A truth value.
pub fn truth(text: &str, what: &str) -> Result<bool, CliError> {
    match text {
        "true" | "True" => Ok(true),
        "false" | "False" => Ok(false),
        _ => match integer(text, what) {
            Ok(number) => Ok(number != 0),
            Err(_) => Err(CliError::Input(format!("{what}: '{text}' is neither true nor false"))),
        },
    }
}

/// The bytes of a value of so many bits, for the wire.
/// A decimal number without a sign.
fn decimal(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// One or two hexadecimal digits. (The library takes a sign for one of them.)
fn hex_byte(digits: &str) -> Option<u8> {
    let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    u8::from_str_radix(digits?, 16).ok()
}

fn bytes(value: &BigUint, width: u32) -> Value {
    Value::Bytes(padded(value, width))
}

/// An action's arguments, for the wire.
pub fn action_data(action: &Action, words: &[&str]) -> Result<Value, CliError> {
    if words.len() != action.params.len() {
        let params: Vec<String> =
            action.params.iter().map(|param| format!("{}({})", param.name, param.width)).collect();
        return Err(CliError::Input(format!(
            "action {} needs {} arguments, {} were given: {}",
            shortest(&action.name),
            action.params.len(),
            words.len(),
            if params.is_empty() { "it has none".to_owned() } else { params.join(", ") }
        )));
    }
    let read: Result<Vec<Value>, CliError> = action
        .params
        .iter()
        .zip(words)
        .map(|(param, word)| {
            let parsed =
                value(word, param.width).map_err(|error| error.about(&format!("argument {}", param.name)))?;
            Ok(bytes(&parsed, param.width))
        })
        .collect();
    Ok(Value::List(wire::BYTES, read?))
}

/// A table's key, for the wire.
pub fn key(table: &Table, words: &[&str]) -> Result<Value, CliError> {
    if words.len() != table.key.len() {
        let fields: Vec<String> = table
            .key
            .iter()
            .map(|field| format!("{}({}, {})", field.name, field.kind.name(), field.width))
            .collect();
        return Err(CliError::Input(format!(
            "table {} needs {} key fields, {} were given: {}",
            table.name,
            table.key.len(),
            words.len(),
            if fields.is_empty() { "it has none".to_owned() } else { fields.join(", ") }
        )));
    }
    let params: Result<Vec<Value>, CliError> = table
        .key
        .iter()
        .zip(words)
        .map(|(field, word)| {
            key_field(field, word).map_err(|error| error.about(&format!("key field {}", field.name)))
        })
        .collect();
    Ok(Value::structs(params?))
}

fn key_field(field: &KeyField, word: &str) -> Result<Value, CliError> {
    let width = field.width;
    let two = |separator: &str, kind: &str| {
        word.split_once(separator)
            .ok_or_else(|| CliError::Input(format!("'{word}': a {kind} match is written A{separator}B")))
    };
    let pair = |a: BigUint, b: BigUint| vec![(1, bytes(&a, width)), (2, bytes(&b, width))];
    let full = || (BigUint::one() << width) - 1u32;
    let (kind, body) = match field.kind {
        MatchKind::Exact => (match_type::EXACT, vec![(1, bytes(&value(word, width)?, width))]),
        MatchKind::Valid => (match_type::VALID, vec![(1, Value::Bool(truth(word, "validity")?))]),
        MatchKind::Lpm => {
            let (prefix, length) = two("/", "longest prefix")?;
            let length = decimal(length)
                .filter(|length| *length <= width)
                .ok_or_else(|| CliError::Input(format!("'{length}' is not a prefix length up to {width}")))?;
            (match_type::LPM, vec![(1, bytes(&value(prefix, width)?, width)), (2, Value::I32(length as i32))])
        }
        MatchKind::Optional if word == "*" => (match_type::TERNARY, pair(BigUint::zero(), BigUint::zero())),
        MatchKind::Optional if !word.contains("&&&") => {
            (match_type::TERNARY, pair(value(word, width)?, full()))
        }
        MatchKind::Ternary | MatchKind::Optional => {
            let (bits, mask) = two("&&&", "ternary")?;
            (match_type::TERNARY, pair(value(bits, width)?, value(mask, width)?))
        }
        MatchKind::Range => {
            let (low, high) = two("->", "range")?;
            let (low, high) = (value(low, width)?, value(high, width)?);
            if low > high {
                return Err(CliError::Input(format!("'{word}': the range is empty")));
            }
            (match_type::RANGE, pair(low, high))
        }
    };
    Ok(Value::Struct(vec![(1, Value::I32(kind)), (kind as i16 + 2, Value::Struct(body))]))
}

/// The options of an entry: its priority, taken off the end of the words where the table's entries have one.
pub fn options(table: &Table, words: &mut Vec<&str>) -> Result<Value, CliError> {
    let mut priority = 0;
    if has_priority(table) {
        let missing = || {
            CliError::Input(format!(
                "table {} has ternary or range fields: its entries need a priority, the last word (0 wins)",
                table.name
            ))
        };
        let last = words.pop().ok_or_else(missing)?;
        priority = int32(last, "priority").map_err(|_| missing())?;
        if priority < 0 {
            return Err(CliError::Input(format!("priority {priority} is negative; 0 wins")));
        }
    }
    Ok(Value::Struct(vec![(1, Value::I32(priority))]))
}

/// Rates as `RATE:BURST`.
pub fn rates(words: &[&str], count: u32) -> Result<Value, CliError> {
    if words.len() != count as usize {
        return Err(CliError::Input(format!("the meter has {count} rates, {} were given", words.len())));
    }
    let one = |word: &&str| {
        let bad = || CliError::Input(format!("'{word}' is not a rate: UNITS_PER_MICROSECOND:BURST"));
        let (rate, burst) = word.split_once(':').ok_or_else(bad)?;
        let rate: f64 = rate.parse().map_err(|_| bad())?;
        let burst: i32 = burst.parse().map_err(|_| bad())?;
        if !rate.is_finite() {
            return Err(bad());
        }
        Ok(Value::Struct(vec![(1, Value::Double(rate)), (2, Value::I32(burst))]))
    };
    let read: Result<Vec<Value>, CliError> = words.iter().map(one).collect();
    Ok(Value::structs(read?))
}

/// Ports or LAGs as the string of 0 and 1 that travels: the last character is number 0.
pub fn number_map(words: &[&str], what: &str) -> Result<String, CliError> {
    /// Far above any port number; without a bound a typing error would make a string of gigabytes.
    const MOST: u32 = 1 << 16;
    let mut numbers = Vec::with_capacity(words.len());
    for word in words {
        let number: u32 = decimal(word)
            .filter(|number| *number < MOST)
            .ok_or_else(|| CliError::Input(format!("'{word}' is not a {what} number")))?;
        numbers.push(number);
    }
    numbers.sort_unstable();
    if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(CliError::Input(format!("{what} {} is given twice", twice[0])));
    }
    let length = numbers.last().map_or(0, |last| last + 1);
    Ok((0..length).rev().map(|at| if numbers.binary_search(&at).is_ok() { '1' } else { '0' }).collect())
}

/// Hexadecimal digits as bytes.
pub fn hex_bytes(text: &str, what: &str) -> Result<Vec<u8>, CliError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let bad = || CliError::Input(format!("{what}: '{text}' is not a string of hexadecimal bytes"));
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(bad());
    }
    (0..digits.len() / 2).map(|at| hex_byte(&digits[2 * at..2 * at + 2]).ok_or_else(bad)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_p4::ir::{FieldId, HeaderId, KeySource};

    fn field(kind: MatchKind, width: u32) -> KeyField {
        let id = FieldId { header: HeaderId(0), field: 0 };
        KeyField { name: "f".into(), kind, source: KeySource::Field(id.into()), width, mask: None }
    }

    #[test]
    fn values_in_every_form() {
        let v = |text, width| {
            value(text, width).map(|value| format!("{value:x}")).map_err(|error| error.to_string())
        };
        assert_eq!(v("10.0.0.1", 32).unwrap(), "a000001");
        assert_eq!(v("0x0a000001", 32).unwrap(), "a000001");
        assert_eq!(v("00:aa:bb:00:00:01", 48).unwrap(), "aabb000001");
        assert_eq!(v("2001:db8::1", 128).unwrap(), "20010db8000000000000000000000001");
        assert_eq!(v("511", 9).unwrap(), "1ff");
        assert_eq!(v("0b101", 3).unwrap(), "5");
        assert_eq!(v("1_000", 16).unwrap(), "3e8");
        assert_eq!(v("01:ff", 9).unwrap(), "1ff");
        assert_eq!(v("512", 9).unwrap_err(), "'512': it does not fit in 9 bits");
        assert_eq!(v("10.0.0", 32).unwrap_err(), "'10.0.0': no IPv4 address");
        assert_eq!(v("aa:bb", 48).unwrap_err(), "'aa:bb': no MAC address");
        assert_eq!(v("aa:bb:cc:dd:ee:+f", 48).unwrap_err(), "'aa:bb:cc:dd:ee:+f': no MAC address");
        assert_eq!(v("ff", 8).unwrap_err(), "'ff': no number; hexadecimal ones begin with 0x");
        for bad in ["", "-1", "+1", "0x", "1 2", "é", "0x_"] {
            assert!(value(bad, 64).is_err(), "{bad}");
        }
    }

    #[test]
    fn operators_join_their_neighbours() {
        assert_eq!(
            words("table_add t a 1 &&& 2 3->4 5 -> 6 =>  7"),
            ["table_add", "t", "a", "1&&&2", "3->4", "5->6", "=>", "7"]
        );
        assert_eq!(words("a 1&&& 2"), ["a", "1&&&2"]);
        assert!(words("   ").is_empty());
    }

    #[test]
    fn key_fields_in_every_kind() {
        let k = |kind, width, word: &str| key_field(&field(kind, width), word);
        let of = |value: Value, kind: i16, id: i16| value.field(kind + 2).unwrap().field(id).unwrap().clone();
        let lpm = k(MatchKind::Lpm, 32, "10.0.0.0/8").unwrap();
        assert_eq!(of(lpm.clone(), 1, 1), Value::Bytes(vec![10, 0, 0, 0]));
        assert_eq!(of(lpm, 1, 2), Value::I32(8));
        let ternary = k(MatchKind::Ternary, 9, "0x101&&&0x1ff").unwrap();
        assert_eq!(of(ternary, 2, 2), Value::Bytes(vec![1, 0xff]));
        let range = k(MatchKind::Range, 16, "80->443").unwrap();
        assert_eq!(of(range, 4, 2), Value::Bytes(vec![1, 0xbb]));
        assert_eq!(of(k(MatchKind::Valid, 1, "1").unwrap(), 3, 1), Value::Bool(true));
        assert_eq!(of(k(MatchKind::Optional, 8, "7").unwrap(), 2, 2), Value::Bytes(vec![255]));
        assert_eq!(of(k(MatchKind::Optional, 8, "*").unwrap(), 2, 2), Value::Bytes(vec![0]));
        for (kind, word) in [
            (MatchKind::Lpm, "10.0.0.0"),
            (MatchKind::Lpm, "10.0.0.0/33"),
            (MatchKind::Lpm, "10.0.0.0/-1"),
            (MatchKind::Lpm, "10.0.0.0/+8"),
            (MatchKind::Ternary, "1"),
            (MatchKind::Range, "1"),
            (MatchKind::Range, "2->1"),
            (MatchKind::Valid, "perhaps"),
            (MatchKind::Exact, "1/2"),
        ] {
            assert!(k(kind, 32, word).is_err(), "{kind:?} {word}");
        }
    }

    #[test]
    fn maps_of_ports() {
        assert_eq!(number_map(&["1", "8", "5"], "port").unwrap(), "100100010");
        assert_eq!(number_map(&[], "port").unwrap(), "");
        assert_eq!(number_map(&["6", "9", "12"], "port").unwrap(), "1001001000000");
        assert!(number_map(&["1", "1"], "port").is_err() && number_map(&["-1"], "port").is_err());
        assert!(number_map(&["4000000000"], "port").is_err() && number_map(&["+1"], "port").is_err());
    }

    #[test]
    fn integers_and_their_bounds() {
        assert_eq!(handle("4294967295", "h").unwrap(), -1);
        assert_eq!(handle("-1", "h").unwrap(), -1);
        assert!(handle("4294967296", "h").is_err());
        assert_eq!(unsigned_as_signed("0xffff", 16, "x").unwrap(), -1);
        assert_eq!(unsigned_as_signed("0x7fff", 16, "x").unwrap(), 0x7fff);
        assert!(unsigned_as_signed("0x10000", 16, "x").is_err());
        assert!(integer("99999999999999999999999999", "x").is_err());
        assert_eq!(hex_bytes("0x00ff", "key").unwrap(), [0, 255]);
        assert!(
            hex_bytes("0ff", "key").is_err()
                && hex_bytes("zz", "key").is_err()
                && hex_bytes("é", "key").is_err()
                && hex_bytes("+f", "key").is_err()
        );
    }
}
