//! Our own form of a layout description.
//!
//! One declaration a line; a line that begins with four or more blanks where no message is open continues an `enum` or
//! `set`. `#` begins a comment line.
//! ```text
//! schema PACKAGE id N version N
//! type NAME PRIMITIVE                     u8 i8 … u64 i64 char
//! type NAME char[LEN]
//! type NAME PRIMITIVE null VALUE
//! type NAME PRIMITIVE const VALUE         takes no bytes
//! composite NAME PART…                    PART: name[@offset]:primitive[?null|=constant]
//! enum NAME TYPE NAME=VALUE[@since]…      a character where TYPE is one
//! set NAME TYPE NAME=BIT[@since]…
//! message ID NAME MSGTYPE block LEN [VERSION:LEN…] [since V] [until V]
//!   @OFFSET NAME TAG TYPE [since V]       `-` for the offset of a constant
//!   group NAME TAG DIMENSION block LEN [VERSION:LEN…] [since V]
//!     …
//!   end
//! ```

use super::{Body, Dimension, EnumValue, Field, Group, Kind, Member, NamedType, Primitive, Schema, Template};
use std::sync::Arc;
use thiserror::Error;

/// A layout description that makes no sense, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{source_name}:{line}: {reason}")]
pub struct LayoutError {
    /// The source's name.
    pub source_name: String,
    /// The line, from one.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

type Said<T> = Result<T, String>;

#[derive(Default)]
struct Reader {
    schema: Schema,
    message: Option<Template>,
    /// Groups that are open, outermost first.
    open: Vec<Group>,
}

/// Reads the sources as one description.
pub(super) fn parse(sources: &[(&str, &str)]) -> Result<Schema, LayoutError> {
    let mut reader = Reader::default();
    for (name, text) in sources {
        let mut line_number = 0;
        for line in text.lines() {
            line_number += 1;
            let told = reader.line(line);
            told.map_err(|reason| LayoutError {
                source_name: (*name).to_owned(),
                line: line_number,
                reason,
            })?;
        }
        let told = reader.end_of_message();
        told.map_err(|reason| LayoutError { source_name: (*name).to_owned(), line: line_number, reason })?;
    }
    Ok(reader.schema)
}

impl Reader {
    fn line(&mut self, line: &str) -> Said<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((first, rest)) = words.split_first() else { return Ok(()) };
        if first.starts_with('#') {
            return Ok(());
        }
        let indented = line.starts_with(' ');
        if indented && self.message.is_none() {
            return self.continue_names(&words);
        }
        if !indented {
            self.end_of_message()?;
        }
        match (*first, rest) {
            ("schema", [package, "id", id, "version", version]) => {
                self.schema.package = (*package).to_owned();
                self.schema.id = number(id)?;
                self.schema.version = number(version)?;
                Ok(())
            }
            ("type", [name, rest @ ..]) => self.add_type(name, scalar(rest)?),
            ("composite", [name, parts @ ..]) => self.add_type(name, composite(parts)?),
            ("enum", [name, ty, values @ ..]) => {
                let (primitive, null) = self.encoding(ty)?;
                let values = values.iter().map(|word| named(word, primitive)).collect::<Said<_>>()?;
                self.add_type(name, Kind::Enum { primitive, null, values })
            }
            ("set", [name, ty, choices @ ..]) => {
                let (primitive, _) = self.encoding(ty)?;
                let choices = choices.iter().map(|word| named(word, Primitive::U8)).collect::<Said<_>>()?;
                self.add_type(name, Kind::Set { primitive, choices })
            }
            ("message", [id, name, message_type, "block", rest @ ..]) => {
                let (block_lengths, since, until) = tail(rest)?;
                self.message = Some(Template {
                    id: number(id)?,
                    name: (*name).to_owned(),
                    message_type: (*message_type).to_owned(),
                    since,
                    until,
                    body: Body { block_lengths, ..Body::default() },
                });
                Ok(())
            }
            ("group", [name, tag, dimension, "block", rest @ ..]) => {
                let (block_lengths, since, _) = tail(rest)?;
                let dimension = self.dimension(dimension)?;
                let body = Body { block_lengths, ..Body::default() };
                self.open.push(Group { name: (*name).to_owned(), tag: number(tag)?, since, dimension, body });
                Ok(())
            }
            ("end", []) => {
                let Some(group) = self.open.pop() else { return Err("`end` without a group".into()) };
                self.body()?.groups.push(group);
                Ok(())
            }
            (offset, [name, tag, ty, since @ ..]) if offset == "-" || offset.starts_with('@') => {
                let ty = self.find(ty)?;
                let since = match since {
                    [] => 0,
                    ["since", version] => number(version)?,
                    _ => return Err("`since VERSION` or nothing must follow the type".into()),
                };
                let offset = match offset.strip_prefix('@') {
                    Some(digits) => length(digits)?,
                    None if matches!(ty.kind, Kind::Constant { .. }) => 0,
                    None => return Err(format!("`{name}` is no constant: it needs an offset")),
                };
                let field = Field { name: (*name).to_owned(), tag: number(tag)?, offset, since, ty };
                self.body()?.fields.push(field);
                Ok(())
            }
            _ => Err(format!("`{first}` begins no declaration, or its words are not those it takes")),
        }
    }

    /// More names for the `enum` or `set` declared last.
    fn continue_names(&mut self, words: &[&str]) -> Said<()> {
        let Some(last) = self.schema.types.last_mut().and_then(Arc::get_mut) else {
            return Err("nothing to continue".into());
        };
        let (names, primitive) = match &mut last.kind {
            Kind::Enum { values, primitive, .. } => (values, *primitive),
            Kind::Set { choices, .. } => (choices, Primitive::U8),
            _ => return Err("only an enum or a set can be continued".into()),
        };
        for word in words {
            names.push(named(word, primitive)?);
        }
        Ok(())
    }

    fn end_of_message(&mut self) -> Said<()> {
        if let Some(group) = self.open.last() {
            return Err(format!("group `{}` is not ended", group.name));
        }
        match self.message.take() {
            Some(message) => {
                let id = message.id;
                if self.schema.push(message) { Ok(()) } else { Err(format!("a second message {id}")) }
            }
            None => Ok(()),
        }
    }

    fn body(&mut self) -> Said<&mut Body> {
        let message = self.message.as_mut().map(|message| &mut message.body);
        let open = self.open.last_mut().map(|group| &mut group.body);
        open.or(message).ok_or_else(|| "no message is open".into())
    }

    fn add_type(&mut self, name: &str, kind: Kind) -> Said<()> {
        if self.schema.named_type(name).is_some() {
            return Err(format!("a second type `{name}`"));
        }
        self.schema.types.push(Arc::new(NamedType { name: name.to_owned(), kind }));
        Ok(())
    }

    fn find(&self, name: &str) -> Said<Arc<NamedType>> {
        self.schema.named_type(name).cloned().ok_or_else(|| format!("no type `{name}`"))
    }

    fn encoding(&self, name: &str) -> Said<(Primitive, Option<i128>)> {
        match self.find(name)?.kind {
            Kind::Scalar { primitive, null } => Ok((primitive, null)),
            _ => Err(format!("`{name}` is no scalar")),
        }
    }

    fn dimension(&self, name: &str) -> Said<Dimension> {
        let ty = self.find(name)?;
        super::dimension_of(&ty).ok_or_else(|| format!("`{name}` is no header of a group"))
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Said<T> {
    word.parse().map_err(|_| format!("`{word}` is not a number that fits here"))
}

/// A length or an offset: no block is longer than 16 bits can say.
fn length(word: &str) -> Said<usize> {
    number::<u16>(word).map(usize::from)
}

fn primitive(word: &str) -> Said<Primitive> {
    Ok(match word {
        "char" => Primitive::Char,
        "i8" => Primitive::I8,
        "i16" => Primitive::I16,
        "i32" => Primitive::I32,
        "i64" => Primitive::I64,
        "u8" => Primitive::U8,
        "u16" => Primitive::U16,
        "u32" => Primitive::U32,
        "u64" => Primitive::U64,
        _ => return Err(format!("`{word}` is no primitive")),
    })
}

/// A value of `primitive`: a number, or one character where it is `char`.
pub(super) fn value(word: &str, primitive: Primitive) -> Said<i128> {
    if primitive.is_float() {
        return match primitive {
            Primitive::F32 => number::<f32>(word).map(|v| i128::from(v.to_bits())),
            _ => number::<f64>(word).map(|v| i128::from(v.to_bits())),
        };
    }
    if primitive == Primitive::Char {
        return match word.as_bytes() {
            [one] => Ok(i128::from(*one)),
            _ => Err(format!("`{word}` is not one character")),
        };
    }
    let value: i128 = number(word)?;
    if value < primitive.min() || value > primitive.max() {
        return Err(format!("`{word}` does not fit {primitive}"));
    }
    Ok(value)
}

fn scalar(words: &[&str]) -> Said<Kind> {
    match words {
        [word] if word.starts_with("char[") => {
            let len = word.strip_prefix("char[").and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
            Ok(Kind::Text { len: length(len)? })
        }
        [word] => Ok(Kind::Scalar { primitive: primitive(word)?, null: None }),
        [word, "null", null] => {
            let primitive = primitive(word)?;
            Ok(Kind::Scalar { primitive, null: Some(value(null, primitive)?) })
        }
        [word, "const", constant] => {
            let primitive = primitive(word)?;
            Ok(Kind::Constant { primitive, value: value(constant, primitive)? })
        }
        _ => Err("a primitive, then nothing, `null VALUE` or `const VALUE`".into()),
    }
}

fn composite(parts: &[&str]) -> Said<Kind> {
    let mut members = Vec::new();
    let mut next = 0usize;
    for part in parts {
        let Some((name, ty)) = part.split_once(':') else { return Err(format!("`{part}` is no name:type")) };
        let (name, offset) = match name.split_once('@') {
            Some((name, offset)) => (name, length(offset)?),
            None => (name, next),
        };
        let kind = if let Some((ty, constant)) = ty.split_once('=') {
            scalar(&[ty, "const", constant])?
        } else if let Some((ty, null)) = ty.split_once('?') {
            scalar(&[ty, "null", null])?
        } else {
            scalar(&[ty])?
        };
        next = offset + kind.size();
        let ty = Arc::new(NamedType { name: String::new(), kind });
        members.push(Member { name: name.to_owned(), offset, ty });
    }
    Ok(Kind::Composite { members })
}

fn named(word: &str, primitive: Primitive) -> Said<EnumValue> {
    let Some((name, rest)) = word.split_once('=') else { return Err(format!("`{word}` is no NAME=VALUE")) };
    let (text, since) = match rest.split_once('@') {
        Some((text, since)) => (text, number(since)?),
        None => (rest, 0),
    };
    let value = u64::try_from(value(text, primitive)?).map_err(|_| format!("`{text}` is below zero"))?;
    Ok(EnumValue { name: name.to_owned(), value, since })
}

/// Block lengths, since, until.
type Tail = (Vec<(u16, usize)>, u16, Option<u16>);

/// `LEN [VERSION:LEN…] [since V] [until V]`.
fn tail(words: &[&str]) -> Said<Tail> {
    let Some((first, mut rest)) = words.split_first() else { return Err("a block length is missing".into()) };
    let mut lengths = vec![(0, length(first)?)];
    let (mut since, mut until) = (0, None);
    while let Some((word, more)) = rest.split_first() {
        rest = more;
        if let Some((version, len)) = word.split_once(':') {
            lengths.push((number(version)?, length(len)?));
            continue;
        }
        let Some((version, more)) = rest.split_first() else {
            return Err(format!("nothing follows `{word}`"));
        };
        rest = more;
        match *word {
            "since" => since = number(version)?,
            "until" => until = Some(number(version)?),
            _ => return Err(format!("`{word}` where `since` or `until` may stand")),
        }
    }
    Ok((lengths, since, until))
}
