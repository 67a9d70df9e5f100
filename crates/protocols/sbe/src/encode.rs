//! What the encoders of all templates share: a message being written, with what follows its root block in order.

use crate::EncodeError;
use crate::bytes::put;

/// Block lengths by version: (first version, bytes), ascending.
pub type BlockLengths = [(u16, usize)];

/// The block length that `version` writes.
fn block_length(lengths: &BlockLengths, version: u16) -> usize {
    let known = lengths.iter().rev().find(|(since, _)| *since <= version);
    known.or(lengths.first()).map_or(0, |(_, len)| *len)
}

/// Where and how a header says an unsigned number.
#[derive(Clone, Copy, Debug)]
pub struct Num {
    /// Offset in the header.
    pub at: usize,
    /// Bytes: 1, 2, 4 or 8.
    pub len: usize,
    /// The most significant byte first.
    pub big: bool,
}

impl Num {
    #[inline(always)]
    fn put(self, head: &mut [u8], value: u64) {
        if self.len == 1 {
            // Most counts are.
            return put(head, self.at, [value as u8]);
        }
        match (self.len, self.big) {
            (2, false) => put(head, self.at, (value as u16).to_le_bytes()),
            (2, true) => put(head, self.at, (value as u16).to_be_bytes()),
            (4, false) => put(head, self.at, (value as u32).to_le_bytes()),
            (4, true) => put(head, self.at, (value as u32).to_be_bytes()),
            (_, false) => put(head, self.at, value.to_le_bytes()),
            (_, true) => put(head, self.at, value.to_be_bytes()),
        }
    }

    /// The greatest value that is no null value.
    fn max(self) -> u64 {
        match self.len {
            1 => 0xfe,
            2 => 0xfffe,
            4 => 0xffff_fffe,
            _ => u64::MAX - 1,
        }
    }
}

/// What stands before each message.
#[derive(Debug)]
pub struct HeaderLayout {
    /// Bytes, with the size.
    pub len: usize,
    /// Whether a little-endian size of 16 bits comes first.
    pub sized: bool,
    /// Length of the root block.
    pub block_length: Num,
    /// Template.
    pub template_id: Num,
    /// Schema.
    pub schema_id: Num,
    /// Version.
    pub version: Num,
    /// The schema's id.
    pub schema: u16,
}

/// What a group's encoder must know.
#[derive(Debug)]
pub struct GroupLayout {
    /// In the schema.
    pub name: &'static str,
    /// Bytes of the header.
    pub header: usize,
    /// The first version that has it, where that is later than what it is in.
    pub since: u16,
    /// Of an entry.
    pub block: &'static BlockLengths,
    /// Where the header says the length of an entry's block.
    pub block_length: Num,
    /// Where the header says how many entries follow.
    pub count: Num,
    /// Sets the null values of an entry.
    pub clear: fn(&mut [u8], u16),
    /// What follows an entry's block.
    pub parts: &'static [PartLayout],
}

/// What an encoder must know of data of variable length.
#[derive(Debug)]
pub struct DataLayout {
    /// In the schema.
    pub name: &'static str,
    /// Bytes before the data.
    pub header: usize,
    /// The first version that has it, where that is later than what it is in.
    pub since: u16,
    /// Where they say the length.
    pub length: Num,
}

/// What follows a block.
#[derive(Debug)]
pub enum PartLayout {
    /// A group.
    Group(GroupLayout),
    /// Data of variable length.
    Data(DataLayout),
}

impl PartLayout {
    fn name(&self) -> &'static str {
        match self {
            PartLayout::Group(group) => group.name,
            PartLayout::Data(data) => data.name,
        }
    }

    fn since(&self) -> u16 {
        match self {
            PartLayout::Group(group) => group.since,
            PartLayout::Data(data) => data.since,
        }
    }
}

/// What a message's encoder must know.
#[derive(Debug)]
pub struct MessageLayout {
    /// What stands before it.
    pub header: &'static HeaderLayout,
    /// The template's id.
    pub template_id: u16,
    /// Of the root block.
    pub block: &'static BlockLengths,
    /// Sets the null values of the root block.
    pub clear: fn(&mut [u8], u16),
    /// What follows the root block.
    pub parts: &'static [PartLayout],
}

/// A message being written.
#[derive(Debug)]
pub struct Writer<'b> {
    buf: &'b mut [u8],
    len: usize,
    block_end: usize,
    version: u16,
    /// Parts of the root begun so far.
    stage: usize,
    layout: &'static MessageLayout,
    /// What went wrong where nobody could be told.
    failed: Option<EncodeError>,
}

impl<'b> Writer<'b> {
    /// Header and a root block of null values.
    ///
    /// # Errors
    /// The buffer is full.
    pub fn begin(
        buf: &'b mut [u8],
        layout: &'static MessageLayout,
        version: u16,
    ) -> Result<Self, EncodeError> {
        let (header, block) = (layout.header, block_length(layout.block, version));
        let needed = header.len + block;
        let room = buf.len();
        let Some(start) = buf.get_mut(..needed) else {
            return Err(EncodeError::Full { needed, room });
        };
        start.fill(0);
        header.block_length.put(start, block as u64);
        header.template_id.put(start, layout.template_id.into());
        header.schema_id.put(start, header.schema.into());
        header.version.put(start, version.into());
        (layout.clear)(&mut start[header.len..], version);
        Ok(Writer { buf, len: needed, block_end: needed, version, stage: 0, layout, failed: None })
    }

    /// The version being written.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The root block.
    pub fn block(&mut self) -> &mut [u8] {
        self.buf.get_mut(self.layout.header.len..self.block_end).unwrap_or_default()
    }

    /// Bytes of the root block, to be written as a composite.
    pub fn part(&mut self, at: usize, len: usize) -> EntryWriter<'_> {
        let version = self.version;
        EntryWriter { block: part(self.block(), at, len), version }
    }

    /// Begins the group that is part `index`; what was left out before it becomes empty.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn group(&mut self, index: usize) -> Result<GroupWriter<'_, 'b>, EncodeError> {
        let mut stage = self.stage;
        let begun = self.begin_group(index, &mut stage, self.layout.parts);
        self.stage = stage;
        let (group, header_at) = begun?;
        Ok(GroupWriter::new(self, group, header_at))
    }

    /// Writes the data that are part `index`; what was left out before them becomes empty.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn data(&mut self, index: usize, bytes: &[u8]) -> Result<(), EncodeError> {
        let mut stage = self.stage;
        let written = self.write_data(index, bytes, &mut stage, self.layout.parts);
        self.stage = stage;
        written
    }

    /// Writes what was left out as empty, then the message's size. Returns the message's length.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn finish(mut self) -> Result<usize, EncodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut stage = self.stage;
        self.skip_to(self.layout.parts.len(), &mut stage, self.layout.parts)?;
        if self.layout.header.sized {
            let Ok(size) = u16::try_from(self.len) else {
                return Err(EncodeError::MessageTooLong { len: self.len });
            };
            put(self.buf, 0, size.to_le_bytes());
        }
        Ok(self.len)
    }

    /// The part at `index`, those before it written.
    fn reach(
        &mut self,
        index: usize,
        stage: &mut usize,
        parts: &'static [PartLayout],
    ) -> Result<&'static PartLayout, EncodeError> {
        let Some(part) = parts.get(index) else {
            return Err(EncodeError::GroupOrder { group: "" });
        };
        if index < *stage {
            return Err(EncodeError::GroupOrder { group: part.name() });
        }
        if self.version < part.since() {
            let (group, since, version) = (part.name(), part.since(), self.version);
            return Err(EncodeError::GroupVersion { group, since, version });
        }
        self.skip_to(index, stage, parts)?;
        Ok(part)
    }

    fn begin_group(
        &mut self,
        index: usize,
        stage: &mut usize,
        parts: &'static [PartLayout],
    ) -> Result<(&'static GroupLayout, usize), EncodeError> {
        let PartLayout::Group(group) = self.reach(index, stage, parts)? else {
            return Err(EncodeError::GroupOrder { group: "" });
        };
        let header_at = self.len;
        self.group_header(group)?;
        *stage = index + 1;
        Ok((group, header_at))
    }

    fn write_data(
        &mut self,
        index: usize,
        bytes: &[u8],
        stage: &mut usize,
        parts: &'static [PartLayout],
    ) -> Result<(), EncodeError> {
        let Some(PartLayout::Data(data)) = parts.get(index) else {
            return Err(EncodeError::GroupOrder { group: "" });
        };
        if bytes.len() as u64 > data.length.max() {
            return Err(EncodeError::DataTooLong { data: data.name, len: bytes.len() });
        }
        self.reach(index, stage, parts)?;
        let place = self.extend(data.header + bytes.len())?;
        data.length.put(place, bytes.len() as u64);
        place[data.header..].copy_from_slice(bytes);
        *stage = index + 1;
        Ok(())
    }

    fn skip_to(
        &mut self,
        index: usize,
        stage: &mut usize,
        parts: &'static [PartLayout],
    ) -> Result<(), EncodeError> {
        while *stage < index {
            match parts.get(*stage).filter(|part| part.since() <= self.version) {
                Some(PartLayout::Group(group)) => self.group_header(group)?,
                Some(PartLayout::Data(data)) => drop(self.extend(data.header)?),
                None => {}
            }
            *stage += 1;
        }
        Ok(())
    }

    fn group_header(&mut self, group: &GroupLayout) -> Result<(), EncodeError> {
        let block = block_length(group.block, self.version) as u64;
        let head = self.extend(group.header)?;
        group.block_length.put(head, block);
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

/// `len` bytes at `at`; none where they are not all there.
fn part(block: &mut [u8], at: usize, len: usize) -> &mut [u8] {
    block.get_mut(at..).and_then(|rest| rest.get_mut(..len)).unwrap_or_default()
}

/// A group being written. Its count is patched with every entry.
#[derive(Debug)]
pub struct GroupWriter<'w, 'b> {
    writer: &'w mut Writer<'b>,
    group: &'static GroupLayout,
    /// Bytes of an entry's block in the version that is written.
    len: usize,
    /// Where the message says how many entries follow.
    count_at: Num,
    /// Entries that it can say.
    most: u64,
    count: u64,
}

impl<'w, 'b> GroupWriter<'w, 'b> {
    fn new(writer: &'w mut Writer<'b>, group: &'static GroupLayout, header_at: usize) -> Self {
        let len = block_length(group.block, writer.version);
        let count_at = Num { at: header_at + group.count.at, ..group.count };
        GroupWriter { writer, group, len, count_at, most: count_at.max(), count: 0 }
    }

    /// The next entry, set to null values: where its block begins and ends.
    #[inline]
    fn entry(&mut self) -> Result<(usize, usize), EncodeError> {
        let (group, version) = (self.group, self.writer.version);
        let count = self.count + 1;
        if count > self.most {
            return Err(EncodeError::TooManyEntries { group: group.name });
        }
        let block = self.writer.extend(self.len)?;
        (group.clear)(block, version);
        self.count = count;
        self.count_at.put(self.writer.buf, count);
        Ok((self.writer.len - self.len, self.writer.len))
    }

    /// The next entry of a group whose entries are a block each, set to null values.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn push(&mut self) -> Result<EntryWriter<'_>, EncodeError> {
        let (start, end) = self.entry()?;
        let version = self.writer.version;
        Ok(EntryWriter { block: self.writer.buf.get_mut(start..end).unwrap_or_default(), version })
    }

    /// The next entry of a group whose entries have parts of their own, set to null values.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn push_nested(&mut self) -> Result<NestedWriter<'_, 'b>, EncodeError> {
        if let Some(error) = self.writer.failed {
            return Err(error);
        }
        let (start, end) = self.entry()?;
        Ok(NestedWriter { parts: self.group.parts, writer: self.writer, start, end, stage: 0 })
    }
}

/// An entry or a composite being written.
#[derive(Debug)]
pub struct EntryWriter<'e> {
    block: &'e mut [u8],
    version: u16,
}

impl EntryWriter<'_> {
    /// The version being written.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The entry's block.
    pub fn block(&mut self) -> &mut [u8] {
        self.block
    }

    /// Bytes of the block, to be written as a composite.
    pub fn part(&mut self, at: usize, len: usize) -> EntryWriter<'_> {
        EntryWriter { block: part(self.block, at, len), version: self.version }
    }
}

/// An entry that has parts of its own, being written. What is left out when it is dropped becomes empty.
#[derive(Debug)]
pub struct NestedWriter<'e, 'b> {
    writer: &'e mut Writer<'b>,
    parts: &'static [PartLayout],
    start: usize,
    end: usize,
    stage: usize,
}

impl<'b> NestedWriter<'_, 'b> {
    /// The version being written.
    pub fn version(&self) -> u16 {
        self.writer.version
    }

    /// The entry's block.
    pub fn block(&mut self) -> &mut [u8] {
        part(self.writer.buf, self.start, self.end - self.start)
    }

    /// Bytes of the block, to be written as a composite.
    pub fn part(&mut self, at: usize, len: usize) -> EntryWriter<'_> {
        let version = self.writer.version;
        EntryWriter { block: part(self.block(), at, len), version }
    }

    /// Begins the group that is part `index`; what was left out before it becomes empty.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn group(&mut self, index: usize) -> Result<GroupWriter<'_, 'b>, EncodeError> {
        let (group, header_at) = self.writer.begin_group(index, &mut self.stage, self.parts)?;
        Ok(GroupWriter::new(self.writer, group, header_at))
    }

    /// Writes the data that are part `index`; what was left out before them becomes empty.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn data(&mut self, index: usize, bytes: &[u8]) -> Result<(), EncodeError> {
        self.writer.write_data(index, bytes, &mut self.stage, self.parts)
    }
}

impl Drop for NestedWriter<'_, '_> {
    fn drop(&mut self) {
        let done = self.writer.skip_to(self.parts.len(), &mut self.stage, self.parts);
        // Whoever ends the message is told.
        self.writer.failed = self.writer.failed.or(done.err());
    }
}
