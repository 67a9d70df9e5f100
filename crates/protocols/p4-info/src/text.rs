//! P4Info's text form (`.p4info.txtpb`, protobuf's text format) to its binary form.
//!
//! One pass: text in, wire bytes out, by the names in `schema`; `prost` then decodes the bytes. Errors say line
//! and column.

use crate::message::P4Info;
use crate::schema::{Field, P4_INFO, Schema, Type};
use prost::Message as _;

/// Messages may nest so deep; prost's own limit is 100.
const MAX_DEPTH: usize = 64;

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
#[non_exhaustive]
pub struct TextError {
    /// From 1.
    pub line: u32,
    /// From 1, in bytes.
    pub column: u32,
    /// What.
    pub message: String,
}

/// Read a P4Info from its text form.
///
/// # Errors
/// Anything that is not text format, or a field or value P4Info does not have.
pub fn parse(text: &str) -> Result<P4Info, TextError> {
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    let mut wire = Vec::new();
    parser.message(&P4_INFO, None, 0, &mut wire)?;
    P4Info::decode(&wire[..]).map_err(|error| TextError {
        line: 1,
        column: 1,
        message: format!("not a P4Info: {error}"),
    })
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn length_delimited(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

impl Parser<'_> {
    fn error_at(&self, at: usize, message: impl Into<String>) -> TextError {
        let before = &self.bytes[..at.min(self.bytes.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|&&byte| byte != b'\n').count();
        TextError { line: line as u32, column: column as u32, message: message.into() }
    }

    fn skip_space(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'#' => {
                    while self.bytes.get(self.at).is_some_and(|&byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// A name or a number: letters, digits, `_`, `.`, `-`, `+`.
    fn word(&mut self) -> &str {
        self.skip_space();
        let start = self.at;
        while self
            .bytes
            .get(self.at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'+'))
        {
            self.at += 1;
        }
        std::str::from_utf8(&self.bytes[start..self.at]).expect("ASCII")
    }

    /// Fields up to `close`, or to the end of the text.
    fn message(
        &mut self,
        schema: &Schema,
        close: Option<u8>,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), TextError> {
        if depth > MAX_DEPTH {
            return Err(self.error_at(self.at, format!("messages nested deeper than {MAX_DEPTH}")));
        }
        let mut seen: Vec<u32> = Vec::new();
        loop {
            match (self.peek(), close) {
                (None, None) => return Ok(()),
                (None, Some(close)) => {
                    return Err(
                        self.error_at(self.at, format!("the text ends, expected '{}'", close as char))
                    );
                }
                (Some(byte), Some(close)) if byte == close => {
                    self.at += 1;
                    return Ok(());
                }
                _ => {}
            }
            let start = self.at;
            if self.bytes[start] == b'[' {
                return Err(self.error_at(start, "extensions and expanded Any messages are not read here"));
            }
            let name = self.word().to_owned();
            if name.is_empty() {
                let found = self.bytes[start];
                return Err(
                    self.error_at(start, format!("expected a field name, found '{}'", found.escape_ascii()))
                );
            }
            let Some(field) = schema.fields.iter().find(|field| field.name == name) else {
                let names = schema.fields.iter().map(|field| field.name);
                return Err(self.error_at(
                    start,
                    format!("{} has no field '{name}'{}", schema.name, crate::nearest_hint(&name, names)),
                ));
            };
            if !field.repeated {
                if seen.contains(&field.number) {
                    return Err(self.error_at(start, format!("'{name}' is given twice")));
                }
                seen.push(field.number);
            }
            let colon = self.take(b':');
            if !colon && !matches!(field.ty, Type::Message(_)) {
                return Err(self.error_at(self.at, format!("expected ':' after '{name}'")));
            }
            if field.repeated && self.take(b'[') {
                if !self.take(b']') {
                    loop {
                        self.value(field, depth, out)?;
                        if self.take(b']') {
                            break;
                        }
                        if !self.take(b',') {
                            return Err(self.error_at(self.at, "expected ',' or ']'"));
                        }
                    }
                }
            } else {
                self.value(field, depth, out)?;
            }
            if !self.take(b',') {
                self.take(b';');
            }
        }
    }

    fn value(&mut self, field: &Field, depth: usize, out: &mut Vec<u8>) -> Result<(), TextError> {
        let number = field.number;
        match &field.ty {
            Type::Message(schema) => {
                let close = if self.take(b'{') {
                    b'}'
                } else if self.take(b'<') {
                    b'>'
                } else {
                    return Err(self.error_at(self.at, format!("expected '{{' for '{}'", field.name)));
                };
                let mut inner = Vec::new();
                self.message(schema, Some(close), depth + 1, &mut inner)?;
                length_delimited(number, &inner, out);
            }
            Type::String => {
                let start = {
                    self.skip_space();
                    self.at
                };
                let bytes = self.string(field.name)?;
                if std::str::from_utf8(&bytes).is_err() {
                    return Err(self.error_at(start, format!("'{}' is not UTF-8", field.name)));
                }
                length_delimited(number, &bytes, out);
            }
            Type::Bytes => {
                let bytes = self.string(field.name)?;
                length_delimited(number, &bytes, out);
            }
            Type::Bool => {
                let start = {
                    self.skip_space();
                    self.at
                };
                let value = match self.word() {
                    "true" | "True" | "t" | "1" => 1,
                    "false" | "False" | "f" | "0" => 0,
                    other => {
                        let message = format!("'{}' is true or false, not '{other}'", field.name);
                        return Err(self.error_at(start, message));
                    }
                };
                varint(u64::from(number) << 3, out);
                varint(value, out);
            }
            Type::Enum(values) => {
                let start = {
                    self.skip_space();
                    self.at
                };
                let word = self.word().to_owned();
                let value = match values.iter().find(|(name, _)| *name == word) {
                    Some((_, value)) => i64::from(*value),
                    None if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                        self.integer(&word, start, i64::from(i32::MIN), i64::from(i32::MAX))?
                    }
                    None => {
                        let hint = crate::nearest_hint(&word, values.iter().map(|(name, _)| *name));
                        return Err(
                            self.error_at(start, format!("'{}' has no value '{word}'{hint}", field.name))
                        );
                    }
                };
                varint(u64::from(number) << 3, out);
                varint(value as u64, out);
            }
            Type::Uint32 | Type::Int32 | Type::Int64 => {
                let start = {
                    self.skip_space();
                    self.at
                };
                let word = self.word().to_owned();
                let (low, high) = match field.ty {
                    Type::Uint32 => (0, i64::from(u32::MAX)),
                    Type::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
                    _ => (i64::MIN, i64::MAX),
                };
                let value = self.integer(&word, start, low, high)?;
                varint(u64::from(number) << 3, out);
                varint(value as u64, out);
            }
        }
        Ok(())
    }

    fn integer(&self, word: &str, at: usize, low: i64, high: i64) -> Result<i64, TextError> {
        let (negative, digits) = match word.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let magnitude = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            u64::from_str_radix(hex, 16)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else if digits.starts_with('+') {
            return Err(self.error_at(at, format!("'{word}' is not a number")));
        } else {
            digits.parse()
        };
        let magnitude = magnitude.map_err(|_| self.error_at(at, format!("'{word}' is not a number")))?;
        let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
        if value < i128::from(low) || value > i128::from(high) {
            return Err(self.error_at(at, format!("{word} is out of range: {low} to {high}")));
        }
        Ok(value as i64)
    }

    /// One or more quoted strings, which are joined.
    fn string(&mut self, name: &str) -> Result<Vec<u8>, TextError> {
        let mut out = Vec::new();
        let mut any = false;
        while let Some(quote @ (b'"' | b'\'')) = self.peek() {
            any = true;
            let start = self.at;
            self.at += 1;
            loop {
                let Some(&byte) = self.bytes.get(self.at).filter(|&&byte| byte != b'\n') else {
                    return Err(self.error_at(start, "the string does not end on its line"));
                };
                self.at += 1;
                match byte {
                    byte if byte == quote => break,
                    b'\\' => self.escape(&mut out)?,
                    byte => out.push(byte),
                }
            }
        }
        if any { Ok(out) } else { Err(self.error_at(self.at, format!("expected a string for '{name}'"))) }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), TextError> {
        let start = self.at - 1;
        let kind = self.bytes.get(self.at).copied();
        self.at += 1;
        let simple = match kind {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'a') => 7,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'v') => 11,
            Some(same @ (b'\\' | b'\'' | b'"' | b'?')) => same,
            Some(b'0'..=b'7') => {
                self.at -= 1;
                let value = self.digits(8, 3);
                u8::try_from(value).map_err(|_| self.error_at(start, "an octal escape above \\377"))?
            }
            Some(b'x' | b'X') if self.bytes.get(self.at).is_some_and(u8::is_ascii_hexdigit) => {
                self.digits(16, 2) as u8
            }
            Some(letter @ (b'u' | b'U')) => {
                let wanted = if letter == b'u' { 4 } else { 8 };
                let from = self.at;
                let value = self.digits(16, wanted);
                let character = char::from_u32(value).filter(|_| self.at == from + wanted);
                let character = character.ok_or_else(|| self.error_at(start, "not a Unicode escape"))?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.error_at(start, "unknown escape in a string")),
        };
        out.push(simple);
        Ok(())
    }

    /// At most `most` digits of a base.
    fn digits(&mut self, base: u32, most: usize) -> u32 {
        let mut value: u32 = 0;
        for _ in 0..most {
            let Some(digit) = self.bytes.get(self.at).and_then(|&byte| (byte as char).to_digit(base)) else {
                break;
            };
            value = value.wrapping_mul(base) | digit;
            self.at += 1;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MatchFieldKind;

    #[test]
    fn a_table_as_p4c_writes_it() {
        let info = parse(
            "# proto-file: p4/config/v1/p4info.proto\npkg_info { arch: \"v1model\" }\n\
             tables {\n preamble { id: 0x2000001 name: \"t\" alias: 't' \"x\" annotations: \"@a(\\\"q\\\")\" }\n\
             match_fields { id: 1 bitwidth: 32 match_type: LPM } size: 010 is_const_table: true }\n\
             type_info { serializable_enums < key: \"E\" value { underlying_type { bitwidth: 8 } \
             members { name: \"A\" value: \"\\000\\x01\\377\" } } > }",
        )
        .unwrap();
        let table = &info.tables[0];
        let preamble = table.preamble.as_ref().unwrap();
        assert_eq!((preamble.id, preamble.alias.as_str()), (0x200_0001, "tx"));
        assert_eq!(preamble.annotations, ["@a(\"q\")"]);
        assert_eq!(table.match_fields[0].r#match, Some(MatchFieldKind::MatchType(3)));
        assert_eq!((table.size, table.is_const_table), (8, true));
        let members = &info.type_info.unwrap().serializable_enums["E"].members;
        assert_eq!(members[0].value, [0, 1, 255]);
    }

    #[test]
    fn errors_say_where_and_what_was_meant() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            error("tables {\n  sise: 3 }"),
            "line 2, column 3: Table has no field 'sise' (did you mean 'size'?)"
        );
        assert_eq!(error("tables { size: x }"), "line 1, column 16: 'x' is not a number");
        assert_eq!(error("tables { size: 1 size: 2 }"), "line 1, column 18: 'size' is given twice");
        assert_eq!(error("tables {"), "line 1, column 9: the text ends, expected '}'");
        assert!(error("tables { preamble { id: 4294967296 } }").contains("out of range"));
        assert!(error("tables { preamble { name: \"a\n\" } }").contains("does not end"));
        assert!(error("}").contains("expected a field name"));
        let deep =
            "type_info { structs { value { ".to_owned() + &"members { type_spec { tuple { ".repeat(200);
        assert!(error(&deep).contains("deeper") || error(&deep).contains("no field"));
    }

    #[test]
    fn no_text_makes_it_panic() {
        let seed = 0x5eed;
        let mut random = barewire_base::Prng::new(seed);
        let sample =
            "tables { preamble { id: 1 name: \"a\\n\\x41\" } match_fields { match_type: EXACT } } # c\n";
        for _ in 0..20_000 {
            let mut text: Vec<u8> = sample.bytes().collect();
            for _ in 0..1 + random.next_u64() % 6 {
                let at = (random.next_u64() % text.len() as u64) as usize;
                match random.next_u64() % 3 {
                    0 => text[at] = random.next_u64() as u8,
                    1 => text.truncate(at.max(1)),
                    _ => text.insert(at, b"{}[]<>:\"'\\#,;-0x"[(random.next_u64() % 16) as usize]),
                }
            }
            let _ = parse(&String::from_utf8_lossy(&text));
        }
    }
}
