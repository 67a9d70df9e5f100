//! Messages read by a [`Schema`] that is only known at run time, field by field.
//!
//! Slower than the typed views, and more lenient: whatever of a block is missing reads as null, and other schemas'
//! groups within groups are followed. [`visit`] tells a [`Visitor`] every field; [`json`] writes a message as a line.

mod json;
mod value;

pub use json::json;
pub use value::{ArrayValue, CompositeValue, EnumRef, SetRef, Value};

use crate::layout::{Body, ByteOrder, Data, Dimension, Field, Group, Primitive, Schema, Template};
use crate::{DecodeError, Message};

/// Is told what a message holds, in the order of its bytes.
pub trait Visitor {
    /// A field of the root block or of the entry begun last.
    fn field(&mut self, field: &Field, value: Value<'_>);

    /// A group of `count` entries begins.
    fn begin_group(&mut self, _group: &Group, _count: usize) {}

    /// The entry `index` (from zero) of the group begun last begins.
    fn begin_entry(&mut self, _group: &Group, _index: usize) {}

    /// That entry ends.
    fn end_entry(&mut self, _group: &Group) {}

    /// That group ends.
    fn end_group(&mut self, _group: &Group) {}

    /// Data of variable length, behind the groups of the root block or of the entry begun last.
    fn data(&mut self, _data: &Data, _bytes: &[u8]) {}
}

/// The most entries without bytes that a group may claim: they cost the sender nothing.
const EMPTY_ENTRIES_MAX: u64 = 255;

/// The template of `message`, where `schema` is its schema and knows it.
pub fn template<'s>(schema: &'s Schema, message: &Message<'_>) -> Result<&'s Template, DecodeError> {
    if message.schema_id != schema.id {
        return Err(DecodeError::ForeignSchema { schema_id: message.schema_id });
    }
    let template_id = message.template_id;
    schema.template(template_id).ok_or(DecodeError::UnknownTemplate { template_id })
}

/// Tells `visitor` every field of `message`. Returns the bytes behind the last group that the schema knows: none, or what
/// a later version has added. What makes no sense ends the visit; the fields before it have been told.
pub fn visit<'a>(
    schema: &Schema,
    message: &Message<'a>,
    visitor: &mut impl Visitor,
) -> Result<&'a [u8], DecodeError> {
    let template = template(schema, message)?;
    let block_length = message.block_length;
    let Some((block, rest)) = message.body.split_at_checked(usize::from(block_length)) else {
        return Err(DecodeError::BlockPastEnd { block_length, left: message.body.len() });
    };
    let mut walk = Walk { rest, at: block.len(), version: message.version, order: schema.byte_order };
    walk.body(&template.body, block, visitor)?;
    Ok(walk.rest)
}

struct Walk<'a> {
    rest: &'a [u8],
    at: usize,
    version: u16,
    order: ByteOrder,
}

impl<'a> Walk<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        self.at += len;
        Some(head)
    }

    fn body(&mut self, body: &Body, block: &'a [u8], visitor: &mut impl Visitor) -> Result<(), DecodeError> {
        for field in &body.fields {
            let known = field.since <= self.version;
            let value =
                if known { Value::read(&field.ty, block, field.offset, self.order) } else { Value::Null };
            visitor.field(field, value);
        }
        let version = self.version;
        for group in body.groups.iter().filter(|group| group.since <= version) {
            self.group(group, visitor)?;
        }
        for data in body.data.iter().filter(|data| data.since <= version) {
            let (at, left) = (self.at, self.rest.len());
            let past_end = |len| DecodeError::DataPastEnd { at, len, left };
            let head = self.take(data.header_len).ok_or(past_end(data.header_len))?;
            let len = read(data.length, head, self.order).and_then(|len| usize::try_from(len).ok());
            let len = len.unwrap_or(usize::MAX);
            visitor.data(data, self.take(len).ok_or(past_end(len))?);
        }
        Ok(())
    }

    fn group(&mut self, group: &Group, visitor: &mut impl Visitor) -> Result<(), DecodeError> {
        let at = self.at;
        let head = self.take(group.dimension.len).ok_or(DecodeError::GroupHeaderPastEnd { at })?;
        let (block_length, count) =
            sizes(&group.dimension, head, self.order).ok_or(DecodeError::GroupHeaderPastEnd { at })?;
        let past_end = |left| DecodeError::GroupPastEnd {
            at,
            block_length: usize::try_from(block_length).unwrap_or(usize::MAX),
            count: usize::try_from(count).unwrap_or(usize::MAX),
            left,
        };
        let fits = block_length.checked_mul(count).is_some_and(|bytes| bytes <= self.rest.len() as u64);
        let flat = group.body.groups.is_empty() && group.body.data.is_empty();
        let endless = block_length == 0 && flat && count > EMPTY_ENTRIES_MAX;
        let (Ok(entry_len), Ok(entries), true, false) =
            (usize::try_from(block_length), usize::try_from(count), fits, endless)
        else {
            return Err(past_end(self.rest.len()));
        };
        visitor.begin_group(group, entries);
        for index in 0..entries {
            let left = self.rest.len();
            let block = self.take(entry_len).ok_or(past_end(left))?;
            visitor.begin_entry(group, index);
            self.body(&group.body, block, visitor)?;
            visitor.end_entry(group);
        }
        visitor.end_group(group);
        Ok(())
    }
}

/// Block length and count in the header of a group.
fn sizes(dimension: &Dimension, head: &[u8], order: ByteOrder) -> Option<(u64, u64)> {
    Some((read(dimension.block_length, head, order)?, read(dimension.count, head, order)?))
}

/// An unsigned number in a header.
fn read((at, primitive): (usize, Primitive), head: &[u8], order: ByteOrder) -> Option<u64> {
    u64::try_from(primitive.read(head.get(at..)?, order)?).ok()
}
