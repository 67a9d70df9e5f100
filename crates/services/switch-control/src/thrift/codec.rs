//! Thrift's binary protocol in its strict form, to and from a small tree of values.
//!
//! Source: Apache Thrift, `doc/specs/thrift-binary-protocol.md`. Numbers are big-endian; a message is a version word, a
//! name, a sequence number and one struct; a struct is fields (type, id, value) ended by a zero byte. Messages follow
//! each other on a stream without a frame, so a reader cannot know how much is left: what a length claims is never
//! allocated before the bytes are there, and [`Limits`] bound what one message may hold.

use std::io::{self, Read};

/// Wire types. Source: the same document, "Data types".
pub mod wire {
    #![allow(missing_docs)]
    pub const STOP: u8 = 0;
    pub const BOOL: u8 = 2;
    pub const I8: u8 = 3;
    pub const DOUBLE: u8 = 4;
    pub const I16: u8 = 6;
    pub const I32: u8 = 8;
    pub const I64: u8 = 10;
    pub const BYTES: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const MAP: u8 = 13;
    pub const SET: u8 = 14;
    pub const LIST: u8 = 15;
}

const VERSION_1: u32 = 0x8001_0000;

/// A value of any wire type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    /// A string or binary: the wire does not tell them apart.
    Bytes(Vec<u8>),
    /// Fields by id, in the order of the wire.
    Struct(Vec<(i16, Value)>),
    /// Pairs, with the wire types of keys and values (which an empty map has too).
    Map(u8, u8, Vec<(Value, Value)>),
    Set(u8, Vec<Value>),
    List(u8, Vec<Value>),
}

impl Value {
    /// Its wire type.
    pub fn wire_type(&self) -> u8 {
        match self {
            Value::Bool(_) => wire::BOOL,
            Value::I8(_) => wire::I8,
            Value::I16(_) => wire::I16,
            Value::I32(_) => wire::I32,
            Value::I64(_) => wire::I64,
            Value::Double(_) => wire::DOUBLE,
            Value::Bytes(_) => wire::BYTES,
            Value::Struct(_) => wire::STRUCT,
            Value::Map(..) => wire::MAP,
            Value::Set(..) => wire::SET,
            Value::List(..) => wire::LIST,
        }
    }

    /// A string.
    pub fn text(text: impl Into<String>) -> Value {
        Value::Bytes(text.into().into_bytes())
    }

    /// A list of structs.
    pub fn structs(items: Vec<Value>) -> Value {
        Value::List(wire::STRUCT, items)
    }

    /// The field of a struct.
    pub fn field(&self, id: i16) -> Option<&Value> {
        match self {
            Value::Struct(fields) => fields.iter().find(|(at, _)| *at == id).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The bytes of a string or binary; none of another type.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// A string, wrong UTF-8 replaced; empty of another type.
    pub fn lossy(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// The items of a list or set; none of another type.
    pub fn items(&self) -> &[Value] {
        match self {
            Value::List(_, items) | Value::Set(_, items) => items,
            _ => &[],
        }
    }

    /// An integer of any width; 0 of another type.
    pub fn int(&self) -> i64 {
        match *self {
            Value::I8(value) => value.into(),
            Value::I16(value) => value.into(),
            Value::I32(value) => value.into(),
            Value::I64(value) => value,
            Value::Bool(value) => value.into(),
            _ => 0,
        }
    }
}

/// What one message may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message.
    pub bytes: usize,
    /// Values of a message, at any depth: each costs some 40 bytes of memory, and may cost one of the wire.
    pub values: usize,
    /// How deep values may nest.
    pub depth: usize,
}

impl Limits {
    /// For requests: programs of tens of megabytes, keys and lists of any sensible length.
    pub const REQUEST: Limits = Limits { bytes: 64 << 20, values: 1 << 20, depth: 16 };
    /// For replies of a switch that was asked: a million entries.
    pub const REPLY: Limits = Limits { bytes: 1 << 30, values: 64 << 20, depth: 16 };
}

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum CodecError {
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("0x{0:08x} is not the start of a strict Thrift binary message")]
    NotStrict(u32),
    #[error("message type {0} does not exist")]
    MessageType(u8),
    #[error("wire type {0} does not exist")]
    WireType(u8),
    #[error("a length is negative: {0}")]
    NegativeLength(i32),
    #[error("the message is longer than {0} bytes")]
    TooLong(usize),
    #[error("the message holds more than {0} values")]
    TooMany(usize),
    #[error("values nest deeper than {0}")]
    TooDeep(usize),
    #[error("the name is not UTF-8 text")]
    Name,
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MessageType {
    Call,
    Reply,
    Exception,
    Oneway,
}

/// A whole message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// `service:method` in calls to a multiplexed server, the method alone in its replies.
    pub name: String,
    /// What it is.
    pub kind: MessageType,
    /// The caller's number, returned to it.
    pub sequence: i32,
    /// Arguments, or a result.
    pub body: Value,
}

struct Reader<'a, R> {
    from: &'a mut R,
    limits: Limits,
    bytes: usize,
    values: usize,
}

impl<R: Read> Reader<'_, R> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        self.spend(N)?;
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), CodecError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.bytes { Err(CodecError::TooLong(self.limits.bytes)) } else { Ok(()) }
    }

    fn u8(&mut self) -> Result<u8, CodecError> {
        Ok(self.take::<1>()?[0])
    }

    fn i16(&mut self) -> Result<i16, CodecError> {
        Ok(i16::from_be_bytes(self.take()?))
    }

    fn i32(&mut self) -> Result<i32, CodecError> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    fn length(&mut self) -> Result<usize, CodecError> {
        let length = self.i32()?;
        usize::try_from(length).map_err(|_| CodecError::NegativeLength(length))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, CodecError> {
        let length = self.length()?;
        self.spend(length)?;
        let mut bytes = Vec::with_capacity(length.min(4096));
        if (&mut *self.from).take(length as u64).read_to_end(&mut bytes)? < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(bytes)
    }

    fn count(&mut self, at_most: usize) -> Result<usize, CodecError> {
        let length = self.length()?;
        if length.saturating_mul(at_most) > self.limits.values - self.values {
            return Err(CodecError::TooMany(self.limits.values));
        }
        Ok(length)
    }

    fn value(&mut self, wire_type: u8, depth: usize) -> Result<Value, CodecError> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(CodecError::TooMany(self.limits.values));
        }
        if depth > self.limits.depth {
            return Err(CodecError::TooDeep(self.limits.depth));
        }
        Ok(match wire_type {
            wire::BOOL => Value::Bool(self.u8()? != 0),
            wire::I8 => Value::I8(i8::from_be_bytes(self.take()?)),
            wire::DOUBLE => Value::Double(f64::from_be_bytes(self.take()?)),
            wire::I16 => Value::I16(self.i16()?),
            wire::I32 => Value::I32(self.i32()?),
            wire::I64 => Value::I64(i64::from_be_bytes(self.take()?)),
            wire::BYTES => Value::Bytes(self.bytes()?),
            wire::STRUCT => self.fields(depth)?,
            wire::MAP => {
                let (keys, values) = (self.u8()?, self.u8()?);
                let count = self.count(2)?;
                let mut pairs = Vec::with_capacity(count.min(64));
                for _ in 0..count {
                    pairs.push((self.value(keys, depth + 1)?, self.value(values, depth + 1)?));
                }
                Value::Map(keys, values, pairs)
            }
            wire::SET | wire::LIST => {
                let of = self.u8()?;
                let count = self.count(1)?;
                let mut items = Vec::with_capacity(count.min(64));
                for _ in 0..count {
                    items.push(self.value(of, depth + 1)?);
                }
                if wire_type == wire::SET { Value::Set(of, items) } else { Value::List(of, items) }
            }
            other => return Err(CodecError::WireType(other)),
        })
    }

    fn fields(&mut self, depth: usize) -> Result<Value, CodecError> {
        let mut fields = Vec::new();
        loop {
            let wire_type = self.u8()?;
            if wire_type == wire::STOP {
                return Ok(Value::Struct(fields));
            }
            let id = self.i16()?;
            fields.push((id, self.value(wire_type, depth + 1)?));
        }
    }
}

/// Read one message.
pub fn read_message(from: &mut impl Read, limits: Limits) -> Result<Message, CodecError> {
    let mut reader = Reader { from, limits, bytes: 0, values: 0 };
    let version = u32::from_be_bytes(reader.take()?);
    if version & 0xffff_0000 != VERSION_1 {
        return Err(CodecError::NotStrict(version));
    }
    let kind = match version as u8 {
        1 => MessageType::Call,
        2 => MessageType::Reply,
        3 => MessageType::Exception,
        4 => MessageType::Oneway,
        other => return Err(CodecError::MessageType(other)),
    };
    let name = String::from_utf8(reader.bytes()?).map_err(|_| CodecError::Name)?;
    let sequence = reader.i32()?;
    let body = reader.fields(0)?;
    Ok(Message { name, kind, sequence, body })
}

/// Append a message.
pub fn write_message(to: &mut Vec<u8>, message: &Message) {
    let kind = match message.kind {
        MessageType::Call => 1,
        MessageType::Reply => 2,
        MessageType::Exception => 3,
        MessageType::Oneway => 4,
    };
    to.extend((VERSION_1 | kind).to_be_bytes());
    put_bytes(to, message.name.as_bytes());
    to.extend(message.sequence.to_be_bytes());
    put(to, &message.body);
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_length(to, bytes.len());
    to.extend_from_slice(bytes);
}

/// Lengths are 31 bits; nothing here comes near (a reader's limits are far below, and a reply is built from what fits
/// in memory many times over).
fn put_length(to: &mut Vec<u8>, length: usize) {
    to.extend(i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes());
}

fn put(to: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(value) => to.push(u8::from(*value)),
        Value::I8(value) => to.extend(value.to_be_bytes()),
        Value::I16(value) => to.extend(value.to_be_bytes()),
        Value::I32(value) => to.extend(value.to_be_bytes()),
        Value::I64(value) => to.extend(value.to_be_bytes()),
        Value::Double(value) => to.extend(value.to_be_bytes()),
        Value::Bytes(bytes) => put_bytes(to, bytes),
        Value::Struct(fields) => {
            for (id, value) in fields {
                to.push(value.wire_type());
                to.extend(id.to_be_bytes());
                put(to, value);
            }
            to.push(wire::STOP);
        }
        Value::Map(keys, values, pairs) => {
            to.extend([*keys, *values]);
            put_length(to, pairs.len());
            for (key, value) in pairs {
                put(to, key);
                put(to, value);
            }
        }
        Value::Set(of, items) | Value::List(of, items) => {
            to.push(*of);
            put_length(to, items.len());
            for item in items {
                put(to, item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    /// The bytes of `bm_mt_get_num_entries(0, "t")`, as every client sends them.
    fn call() -> Vec<u8> {
        let name = b"standard:bm_mt_get_num_entries";
        let mut bytes = vec![0x80, 0x01, 0x00, 0x01]; // strict, call
        bytes.extend([0, 0, 0, name.len() as u8]);
        bytes.extend(name);
        bytes.extend([0, 0, 0, 7]); // sequence
        bytes.extend([8, 0, 1, 0, 0, 0, 0]); // field 1: i32 0
        bytes.extend([11, 0, 2, 0, 0, 0, 1, b't']); // field 2: "t"
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_call_is_these_bytes() {
        let expected = Message {
            name: "standard:bm_mt_get_num_entries".into(),
            kind: MessageType::Call,
            sequence: 7,
            body: Value::Struct(vec![(1, Value::I32(0)), (2, Value::text("t"))]),
        };
        assert_eq!(read_message(&mut call().as_slice(), Limits::REQUEST).unwrap(), expected);
        let mut bytes = Vec::new();
        write_message(&mut bytes, &expected);
        assert_eq!(bytes, call());
    }

    #[test]
    fn a_message_cut_anywhere_is_an_error() {
        let whole = call();
        for length in 0..whole.len() {
            assert!(read_message(&mut &whole[..length], Limits::REQUEST).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn claims_without_bytes_cost_nothing() {
        // A string of 2 GB, a list of two billion, a map, in a message of a few bytes.
        let head = |tail: &[u8]| {
            let mut bytes = vec![0x80, 1, 0, 1, 0, 0, 0, 1, b'x', 0, 0, 0, 0];
            bytes.extend(tail);
            bytes
        };
        let max = [0x7f, 0xff, 0xff, 0xff];
        let read = |tail: &[u8]| read_message(&mut head(tail).as_slice(), Limits::REQUEST).unwrap_err();
        assert!(matches!(read(&[&[11, 0, 1][..], &max].concat()), CodecError::TooLong(_)));
        assert!(matches!(read(&[&[15, 0, 1, 2][..], &max].concat()), CodecError::TooMany(_)));
        assert!(matches!(read(&[&[13, 0, 1, 8, 8][..], &max].concat()), CodecError::TooMany(_)));
        assert!(matches!(read(&[11, 0, 1, 0xff, 0xff, 0xff, 0xff]), CodecError::NegativeLength(-1)));
        assert!(matches!(read(&[11, 0, 1, 0, 16, 0, 0]), CodecError::Io(_)));
        assert!(matches!(read(&[1, 0, 1, 0]), CodecError::WireType(1)));
        assert!(matches!(
            read_message(&mut b"GET / HTTP/1.1\r\n".as_slice(), Limits::REQUEST),
            Err(CodecError::NotStrict(0x4745_5420))
        ));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let mut bytes = vec![0x80, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
            for _ in 0..depth {
                bytes.extend([12, 0, 1]);
            }
            bytes.extend(vec![0; depth + 1]);
            read_message(&mut bytes.as_slice(), Limits::REQUEST)
        };
        assert!(nested(16).is_ok());
        assert!(matches!(nested(17), Err(CodecError::TooDeep(16))));
        assert!(matches!(nested(100_000), Err(CodecError::TooDeep(16))));
    }

    /// A random value of a random type, and of one type for the items of a collection.
    fn any(prng: &mut Prng, wire_type: u8, depth: usize) -> Value {
        const LEAVES: [u8; 7] =
            [wire::BOOL, wire::I8, wire::DOUBLE, wire::I16, wire::I32, wire::I64, wire::BYTES];
        const ALL: [u8; 11] = [2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15];
        fn pick(prng: &mut Prng, depth: usize) -> u8 {
            let from: &[u8] = if depth > 3 { &LEAVES } else { &ALL };
            from[prng.below(from.len() as u64) as usize]
        }
        let count = prng.below(4);
        match wire_type {
            wire::BOOL => Value::Bool(prng.next_u64() & 1 == 1),
            wire::I8 => Value::I8(prng.next_u64() as i8),
            wire::I16 => Value::I16(prng.next_u64() as i16),
            wire::I32 => Value::I32(prng.next_u64() as i32),
            wire::I64 => Value::I64(prng.next_u64() as i64),
            wire::DOUBLE => Value::Double(prng.next_u64() as f64 / 3.0),
            wire::BYTES => Value::Bytes((0..prng.below(40)).map(|_| prng.next_u64() as u8).collect()),
            wire::STRUCT => Value::Struct(
                (0..count)
                    .map(|_| {
                        let of = pick(prng, depth);
                        (prng.next_u64() as i16, any(prng, of, depth + 1))
                    })
                    .collect(),
            ),
            wire::MAP => {
                let (keys, values) = (pick(prng, depth), pick(prng, depth));
                let pairs =
                    (0..count).map(|_| (any(prng, keys, depth + 1), any(prng, values, depth + 1))).collect();
                Value::Map(keys, values, pairs)
            }
            _ => {
                let of = pick(prng, depth);
                let items = (0..count).map(|_| any(prng, of, depth + 1)).collect();
                if wire_type == wire::SET { Value::Set(of, items) } else { Value::List(of, items) }
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_damage_is_never_a_panic() {
        for seed in 0..500 {
            let mut prng = Prng::new(seed);
            let message = Message {
                name: format!("s:{seed}"),
                kind: [MessageType::Call, MessageType::Reply, MessageType::Exception, MessageType::Oneway]
                    [seed as usize % 4],
                sequence: prng.next_u64() as i32,
                body: any(&mut prng, wire::STRUCT, 0),
            };
            let mut bytes = Vec::new();
            write_message(&mut bytes, &message);
            let read = read_message(&mut bytes.as_slice(), Limits::REQUEST);
            assert_eq!(read.unwrap(), message, "seed {seed}");
            for _ in 0..20 {
                let mut damaged = bytes.clone();
                let at = prng.below(damaged.len() as u64) as usize;
                damaged[at] = prng.next_u64() as u8;
                // Any outcome but a panic or a hang.
                let _ = read_message(
                    &mut damaged.as_slice(),
                    Limits { bytes: 1 << 16, values: 1 << 12, depth: 8 },
                );
            }
        }
    }
}
