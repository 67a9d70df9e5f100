//! JSON that knows where in the text each value began, so that a problem found later can be shown.
//!
//! A reader of its own, because programs nest deeper than serde_json's fixed limit, an unlimited depth would give the
//! stack away, and its values have no positions. Strict RFC 8259; an object with two members of one name is refused.

use super::error::{Fault, Problem, Result, SyntaxProblem};
use super::{MAX_NESTING, MAX_VALUES};
use std::borrow::Cow;
use std::collections::HashSet;

/// A value and where it began (a byte offset).
#[derive(Debug)]
pub(super) struct Json<'s> {
    pub at: u32,
    pub kind: Kind<'s>,
}

#[derive(Debug)]
pub(super) enum Kind<'s> {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is no 64-bit integer; nothing in a program needs one.
    Number,
    Str(Cow<'s, str>),
    Array(Vec<Json<'s>>),
    Object(Vec<(Cow<'s, str>, Json<'s>)>),
}

impl<'s> Json<'s> {
    /// What it is, in words.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "null".into(),
            Kind::Bool(value) => value.to_string(),
            Kind::Int(value) => value.to_string(),
            Kind::Number => "a number that is no integer".into(),
            Kind::Str(text) => {
                let short: String = text.chars().take(40).collect();
                format!("'{short}{}'", if short.len() < text.len() { "…" } else { "" })
            }
            Kind::Array(items) => format!("an array of {}", items.len()),
            Kind::Object(_) => "an object".into(),
        }
    }

    fn kind_fault<T>(&self, expected: &'static str) -> Result<T> {
        Err(Fault::new(self, Problem::Kind { expected, found: self.describe() }))
    }

    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// The members of an object, none for anything else.
    pub fn members(&self) -> &[(Cow<'s, str>, Json<'s>)] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    /// The members, refusing anything but an object.
    pub fn object(&self) -> Result<&[(Cow<'s, str>, Json<'s>)]> {
        match &self.kind {
            Kind::Object(members) => Ok(members),
            _ => self.kind_fault("an object"),
        }
    }

    /// A member that is there, null or not.
    pub fn member(&self, key: &str) -> Option<&Json<'s>> {
        self.members().iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// A member that is there and not null.
    pub fn get(&self, key: &str) -> Option<&Json<'s>> {
        self.member(key).filter(|v| !v.is_null())
    }

    /// A member that must be there and not null.
    pub fn need(&self, key: &'static str) -> Result<&Json<'s>> {
        self.object()?;
        self.get(key).ok_or_else(|| Fault::new(self, Problem::Missing(key)))
    }

    pub fn str(&self) -> Result<&str> {
        match &self.kind {
            Kind::Str(text) => Ok(text),
            _ => self.kind_fault("a string"),
        }
    }

    pub fn need_str(&self, key: &'static str) -> Result<&str> {
        self.need(key)?.str()
    }

    pub fn int(&self) -> Result<i64> {
        match &self.kind {
            Kind::Int(value) => Ok(*value),
            _ => self.kind_fault("an integer"),
        }
    }

    /// An integer of `0..=limit`.
    pub fn count(&self, what: &'static str, limit: u32) -> Result<u32> {
        let value = self.int()?;
        match u32::try_from(value) {
            Ok(value) if value <= limit => Ok(value),
            Ok(value) => {
                Err(Fault::new(self, Problem::Limit { what, value: value.into(), limit: limit.into() }))
            }
            Err(_) if value < 0 => Fault::value(self, format!("{what} is negative")),
            Err(_) => {
                Err(Fault::new(self, Problem::Limit { what, value: value as u64, limit: limit.into() }))
            }
        }
    }

    pub fn bool(&self) -> Result<bool> {
        match self.kind {
            Kind::Bool(value) => Ok(value),
            Kind::Int(value @ (0 | 1)) => Ok(value == 1),
            _ => self.kind_fault("true or false"),
        }
    }

    /// A member that is true or false; `default` when absent or null.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.get(key).map_or(Ok(default), Json::bool)
    }

    pub fn items(&self) -> Result<&[Json<'s>]> {
        match &self.kind {
            Kind::Array(items) => Ok(items),
            _ => self.kind_fault("an array"),
        }
    }

    /// A member that is an array; empty when absent or null.
    pub fn list(&self, key: &str) -> Result<&[Json<'s>]> {
        self.get(key).map_or(Ok(&[]), Json::items)
    }

    /// An array of exactly `N` elements.
    pub fn tuple<const N: usize>(&self, what: &'static str) -> Result<&[Json<'s>; N]> {
        let items = self.items()?;
        items.try_into().or_else(|_| Fault::count(self, what, N.to_string(), items.len()))
    }
}

/// Text as a value, or the offset of what is wrong with it.
pub(super) fn parse(source: &str) -> std::result::Result<Json<'_>, (usize, SyntaxProblem)> {
    let mut reader = Reader { source, bytes: source.as_bytes(), at: 0, values: 0 };
    reader.space();
    let value = reader.value()?;
    reader.space();
    if reader.at < source.len() { Err(reader.expected("the end of the text")) } else { Ok(value) }
}

type Syntax<T> = std::result::Result<T, (usize, SyntaxProblem)>;

/// An array or object that is being read.
enum Open<'s> {
    Array {
        at: u32,
        items: Vec<Json<'s>>,
    },
    Object {
        at: u32,
        members: Vec<(Cow<'s, str>, Json<'s>)>,
        names: HashSet<Cow<'s, str>>,
        key: Cow<'s, str>,
    },
}

impl<'s> Open<'s> {
    /// Add a value to an object, under the name read last.
    fn put(&mut self, value: Json<'s>) {
        if let Open::Object { members, key, .. } = self {
            members.push((std::mem::take(key), value));
        }
    }
}

struct Reader<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
    values: usize,
}

impl<'s> Reader<'s> {
    fn expected(&self, expected: &'static str) -> (usize, SyntaxProblem) {
        match self.source.get(self.at..).and_then(|rest| rest.chars().next()) {
            None => (self.at, SyntaxProblem::End { expected }),
            Some(c) => {
                (self.at, SyntaxProblem::Expected { expected, found: format!("'{}'", c.escape_default()) })
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// A value with all that is in it. Not recursive: how deep a file nests must not decide how much stack is used.
    fn value(&mut self) -> Syntax<Json<'s>> {
        let mut open: Vec<Open<'s>> = Vec::new();
        loop {
            if open.len() > MAX_NESTING {
                return Err((self.at, SyntaxProblem::TooDeep(MAX_NESTING)));
            }
            self.values += 1;
            if self.values > MAX_VALUES {
                return Err((self.at, SyntaxProblem::TooMany(MAX_VALUES)));
            }
            let at = self.at as u32;
            let kind = match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    self.space();
                    if self.peek() != Some(b'}') {
                        let mut object =
                            Open::Object { at, members: Vec::new(), names: HashSet::new(), key: "".into() };
                        self.key(&mut object)?;
                        open.push(object);
                        continue;
                    }
                    self.at += 1;
                    Kind::Object(Vec::new())
                }
                Some(b'[') => {
                    self.at += 1;
                    self.space();
                    if self.peek() != Some(b']') {
                        open.push(Open::Array { at, items: Vec::new() });
                        continue;
                    }
                    self.at += 1;
                    Kind::Array(Vec::new())
                }
                Some(b'"') => Kind::Str(self.string()?),
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word("true", Kind::Bool(true))?,
                Some(b'f') => self.word("false", Kind::Bool(false))?,
                Some(b'n') => self.word("null", Kind::Null)?,
                _ => return Err(self.expected("a value")),
            };
            // Put it where it belongs, and close what ends with it.
            let mut value = Json { at, kind };
            loop {
                self.space();
                match open.last_mut() {
                    None => return Ok(value),
                    Some(Open::Array { items, .. }) => {
                        items.push(value);
                        match self.peek() {
                            Some(b',') => {
                                self.at += 1;
                                self.space();
                                break;
                            }
                            Some(b']') => self.at += 1,
                            _ => return Err(self.expected("',' or ']'")),
                        }
                    }
                    Some(object @ Open::Object { .. }) => {
                        object.put(value);
                        match self.peek() {
                            Some(b',') => {
                                self.at += 1;
                                self.space();
                                self.key(object)?;
                                break;
                            }
                            Some(b'}') => self.at += 1,
                            _ => return Err(self.expected("',' or '}'")),
                        }
                    }
                }
                value = match open.pop() {
                    Some(Open::Array { at, items }) => Json { at, kind: Kind::Array(items) },
                    Some(Open::Object { at, members, .. }) => Json { at, kind: Kind::Object(members) },
                    None => return Err(self.expected("a value")),
                };
            }
        }
    }

    /// A member's name and the colon after it.
    fn key(&mut self, object: &mut Open<'s>) -> Syntax<()> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a member's name"));
        }
        let key_at = self.at;
        let name = self.string()?;
        if let Open::Object { members, names, key, .. } = object {
            // Objects are small: only a large one pays for a set.
            let twice = if members.len() < 16 {
                members.iter().any(|(known, _)| *known == name)
            } else {
                if names.is_empty() {
                    names.extend(members.iter().map(|(known, _)| known.clone()));
                }
                !names.insert(name.clone())
            };
            if twice {
                return Err((key_at, SyntaxProblem::DuplicateKey(name.into_owned())));
            }
            *key = name;
        }
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.expected("':'"));
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    fn word(&mut self, word: &'static str, kind: Kind<'s>) -> Syntax<Kind<'s>> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(kind)
        } else {
            Err(self.expected("a value"))
        }
    }

    fn number(&mut self) -> Syntax<Kind<'s>> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while matches!(reader.peek(), Some(b'0'..=b'9')) {
                reader.at += 1;
            }
            reader.at - from
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let count = digits(self);
        if count == 0 || (leading_zero && count > 1) {
            return Err((start, SyntaxProblem::BadNumber));
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            if digits(self) == 0 {
                return Err((start, SyntaxProblem::BadNumber));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if digits(self) == 0 {
                return Err((start, SyntaxProblem::BadNumber));
            }
        }
        match self.source[start..self.at].parse() {
            Ok(value) if integer => Ok(Kind::Int(value)),
            _ => Ok(Kind::Number),
        }
    }

    fn string(&mut self) -> Syntax<Cow<'s, str>> {
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut from = start;
        loop {
            match self.peek() {
                None => return Err((self.at, SyntaxProblem::End { expected: "the end of a string" })),
                Some(b'"') => {
                    let tail = &self.source[from..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(tail),
                        Some(mut text) => {
                            text.push_str(tail);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_default();
                    text.push_str(&self.source[from..self.at]);
                    self.at += 1;
                    let c = self.escape()?;
                    owned.get_or_insert_default().push(c);
                    from = self.at;
                }
                Some(0..0x20) => return Err((self.at, SyntaxProblem::BadString("a control character"))),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Syntax<char> {
        let at = self.at;
        let Some(byte) = self.peek() else {
            return Err((at, SyntaxProblem::End { expected: "an escape" }));
        };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex4()?;
                let code = if (0xd800..0xdc00).contains(&first) {
                    if !self.bytes[self.at..].starts_with(b"\\u") {
                        return Err((at, SyntaxProblem::BadString("half a surrogate pair")));
                    }
                    self.at += 2;
                    let second = self.hex4()?;
                    if !(0xdc00..0xe000).contains(&second) {
                        return Err((at, SyntaxProblem::BadString("half a surrogate pair")));
                    }
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                } else {
                    first
                };
                char::from_u32(code).ok_or((at, SyntaxProblem::BadString("half a surrogate pair")))?
            }
            _ => return Err((at, SyntaxProblem::BadString("an unknown escape"))),
        })
    }

    fn hex4(&mut self) -> Syntax<u32> {
        let bad = (self.at, SyntaxProblem::BadString("four hexadecimal digits must follow \\u"));
        let Some(digits) = self.bytes.get(self.at..self.at + 4) else { return Err(bad) };
        let mut code = 0;
        for &digit in digits {
            let Some(value) = char::from(digit).to_digit(16) else { return Err(bad) };
            code = code * 16 + value;
        }
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> String {
        match parse(text) {
            Ok(json) => format!("{:?}", json.kind),
            Err((at, problem)) => format!("{at}: {problem}"),
        }
    }

    #[test]
    fn values() {
        assert_eq!(kind(" -12 "), "Int(-12)");
        assert_eq!(kind("9223372036854775808"), "Number");
        assert_eq!(kind("1.5e+3"), "Number");
        assert_eq!(kind(r#""a\u00e9\ud83d\ude00\n/""#), "Str(\"aé😀\\n/\")");
        let json = parse(r#"{"a": [true, null], "b": {}}"#).unwrap();
        assert_eq!(json.get("a").unwrap().items().unwrap().len(), 2);
        assert_eq!(json.get("a").unwrap().at, 6);
        assert!(json.get("c").is_none());
    }

    #[test]
    fn refusals_say_where() {
        assert_eq!(kind(""), "0: the text ends where a value is expected");
        assert_eq!(kind("[1,]"), "3: expected a value, found ']'");
        assert_eq!(kind("[1 2]"), "3: expected ',' or ']', found '2'");
        assert_eq!(kind("{\"a\" 1}"), "5: expected ':', found '1'");
        assert_eq!(kind("{\"a\":1,\"a\":2}"), "7: the object has two members named 'a'");
        assert_eq!(kind("01"), "0: bad number");
        assert_eq!(kind("1."), "0: bad number");
        assert_eq!(kind("tru"), "0: expected a value, found 't'");
        assert_eq!(kind("\"\\x\""), "2: bad string: an unknown escape");
        assert_eq!(kind("\"\\ud800\""), "2: bad string: half a surrogate pair");
        assert_eq!(kind("\"a"), "2: the text ends where the end of a string is expected");
        assert_eq!(kind("1 1"), "2: expected the end of the text, found '1'");
        let many: String = (0..20).map(|i| format!("\"k{i}\":0,")).collect();
        assert!(kind(&format!("{{{many}\"k3\":1}}")).contains("two members named 'k3'"));
    }

    #[test]
    fn deep_nesting_is_refused_without_using_the_stack_up() {
        let deep = "[".repeat(1_000_000);
        assert!(kind(&deep).contains("nested deeper than"));
        let fits = format!("{}{}", "[".repeat(MAX_NESTING), "]".repeat(MAX_NESTING));
        assert!(parse(&fits).is_ok());
    }
}
