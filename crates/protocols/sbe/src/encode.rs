//! What the encoders of all templates share: a message being written, its groups in order.

use crate::EncodeError;
use crate::bytes::put;
use crate::packet::{MESSAGE_HEADER_LEN, SCHEMA_ID};

/// Block lengths by version: (first version, bytes), ascending.
pub(crate) type BlockLengths = [(u16, usize)];

/// The block length that `version` writes.
fn block_length(lengths: &BlockLengths, version: u16) -> usize {
    let known = lengths.iter().rev().find(|(since, _)| *since <= version);
    known.or(lengths.first()).map_or(0, |(_, len)| *len)
}

/// What a group's encoder must know.
pub(crate) struct GroupLayout {
    pub name: &'static str,
    /// Bytes of the header: 3 or 8.
    pub header: usize,
    pub since: u16,
    pub block: &'static BlockLengths,
    /// Sets the null values of an entry.
    pub clear: fn(&mut [u8], u16),
}

/// What a message's encoder must know.
pub(crate) struct MessageLayout {
    pub template_id: u16,
    pub block: &'static BlockLengths,
    /// Sets the null values of the root block.
    pub clear: fn(&mut [u8], u16),
    pub groups: &'static [GroupLayout],
}

/// Entries that a group may have: 255 is the null value of the type that counts them.
const ENTRIES_MAX: u8 = 254;

/// A message being written.
#[derive(Debug)]
pub(crate) struct Writer<'b> {
    buf: &'b mut [u8],
    len: usize,
    block_end: usize,
    version: u16,
    /// Groups begun so far.
    stage: usize,
}

impl<'b> Writer<'b> {
    /// Header and a root block of null values.
    pub(crate) fn begin(
        buf: &'b mut [u8],
        layout: &MessageLayout,
        version: u16,
    ) -> Result<Self, EncodeError> {
        let block = block_length(layout.block, version);
        let needed = MESSAGE_HEADER_LEN + block;
        let room = buf.len();
        let Some(start) = buf.get_mut(..needed) else {
            return Err(EncodeError::Full { needed, room });
        };
        start.fill(0);
        put(start, 2, (block as u16).to_le_bytes());
        put(start, 4, layout.template_id.to_le_bytes());
        put(start, 6, SCHEMA_ID.to_le_bytes());
        put(start, 8, version.to_le_bytes());
        (layout.clear)(&mut start[MESSAGE_HEADER_LEN..], version);
        Ok(Writer { buf, len: needed, block_end: needed, version, stage: 0 })
    }

    /// The version being written.
    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    /// The root block.
    pub(crate) fn block(&mut self) -> &mut [u8] {
        self.buf.get_mut(MESSAGE_HEADER_LEN..self.block_end).unwrap_or_default()
    }

    /// Begins group `index`; groups left out before it become empty ones.
    pub(crate) fn group(
        &mut self,
        index: usize,
        layout: &'static MessageLayout,
    ) -> Result<GroupWriter<'_, 'b>, EncodeError> {
        let Some(group) = layout.groups.get(index) else {
            return Err(EncodeError::GroupOrder { group: "" });
        };
        if index < self.stage {
            return Err(EncodeError::GroupOrder { group: group.name });
        }
        if self.version < group.since {
            return Err(EncodeError::GroupVersion {
                group: group.name,
                since: group.since,
                version: self.version,
            });
        }
        self.skip_to(index, layout)?;
        let header_at = self.len;
        self.group_header(group)?;
        self.stage = index + 1;
        Ok(GroupWriter { writer: self, group, header_at, count: 0 })
    }

    /// Writes groups that were left out as empty ones, then the message's size. Returns the message's length.
    pub(crate) fn finish(mut self, layout: &'static MessageLayout) -> Result<usize, EncodeError> {
        self.skip_to(layout.groups.len(), layout)?;
        let Ok(size) = u16::try_from(self.len) else {
            return Err(EncodeError::MessageTooLong { len: self.len });
        };
        put(self.buf, 0, size.to_le_bytes());
        Ok(self.len)
    }

    fn skip_to(&mut self, index: usize, layout: &'static MessageLayout) -> Result<(), EncodeError> {
        while self.stage < index {
            if let Some(group) = layout.groups.get(self.stage).filter(|group| group.since <= self.version) {
                self.group_header(group)?;
            }
            self.stage += 1;
        }
        Ok(())
    }

    fn group_header(&mut self, group: &GroupLayout) -> Result<(), EncodeError> {
        let block = block_length(group.block, self.version) as u16;
        let head = self.extend(group.header)?;
        put(head, 0, block.to_le_bytes());
        Ok(())
    }

    /// The next `n` bytes, zeroed.
    fn extend(&mut self, n: usize) -> Result<&mut [u8], EncodeError> {
        let room = self.buf.len() - self.len;
        if n > room {
            return Err(EncodeError::Full { needed: n, room });
        }
        let start = self.len;
        self.len += n;
        let place = &mut self.buf[start..start + n];
        place.fill(0);
        Ok(place)
    }
}

/// A group being written. Its count is patched with every entry.
#[derive(Debug)]
pub(crate) struct GroupWriter<'w, 'b> {
    writer: &'w mut Writer<'b>,
    group: &'static GroupLayout,
    header_at: usize,
    count: u8,
}

impl std::fmt::Debug for GroupLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl GroupWriter<'_, '_> {
    /// The next entry, set to null values.
    pub(crate) fn push(&mut self) -> Result<EntryWriter<'_>, EncodeError> {
        let Some(count) = self.count.checked_add(1).filter(|count| *count <= ENTRIES_MAX) else {
            return Err(EncodeError::TooManyEntries { group: self.group.name });
        };
        let version = self.writer.version;
        let len = block_length(self.group.block, version);
        self.writer.extend(len)?;
        self.count = count;
        put(self.writer.buf, self.header_at + self.group.header - 1, [count]);
        let end = self.writer.len;
        let block = &mut self.writer.buf[end - len..end];
        (self.group.clear)(block, version);
        Ok(EntryWriter { block, version })
    }
}

/// An entry being written.
#[derive(Debug)]
pub(crate) struct EntryWriter<'e> {
    block: &'e mut [u8],
    version: u16,
}

impl EntryWriter<'_> {
    /// The version being written.
    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    /// The entry's block.
    pub(crate) fn block(&mut self) -> &mut [u8] {
        self.block
    }
}
