//! Repeating groups: checked once when their message is decoded, then stepped by the acting block length.

use crate::DecodeError;
use std::marker::PhantomData;

/// The view of one entry of a group.
pub trait GroupEntry<'a>: Copy {
    /// Bytes that the fields of the first version take; shorter entries are refused.
    const MIN_BLOCK: usize;

    /// The entry in `block`, written by `version`. `None` when the block is shorter than [`MIN_BLOCK`](Self::MIN_BLOCK).
    fn from_block(block: &'a [u8], version: u16) -> Option<Self>;
}

/// The entries of a repeating group, in place.
#[derive(Clone, Copy)]
pub struct Group<'a, E> {
    body: &'a [u8],
    count: usize,
    block_length: usize,
    version: u16,
    entry: PhantomData<fn() -> E>,
}

impl<'a, E: GroupEntry<'a>> Group<'a, E> {
    /// A group without entries.
    pub const fn empty() -> Self {
        Group { body: &[], count: 0, block_length: 0, version: 0, entry: PhantomData }
    }

    /// Entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Acting block length of an entry, bytes.
    #[inline]
    pub fn block_length(&self) -> usize {
        self.block_length
    }

    /// The entry at `index`, from zero.
    #[inline]
    pub fn get(&self, index: usize) -> Option<E> {
        if index >= self.count {
            return None;
        }
        let block = self.body.get(index * self.block_length..)?.get(..self.block_length)?;
        E::from_block(block, self.version)
    }

    /// The entries in order.
    #[inline]
    pub fn iter(&self) -> Entries<'a, E> {
        Entries {
            rest: self.body,
            left: self.count,
            block_length: self.block_length,
            version: self.version,
            entry: PhantomData,
        }
    }
}

impl<'a, E: GroupEntry<'a>> IntoIterator for Group<'a, E> {
    type Item = E;
    type IntoIter = Entries<'a, E>;

    #[inline]
    fn into_iter(self) -> Entries<'a, E> {
        self.iter()
    }
}

impl<'a, E: GroupEntry<'a>> IntoIterator for &Group<'a, E> {
    type Item = E;
    type IntoIter = Entries<'a, E>;

    #[inline]
    fn into_iter(self) -> Entries<'a, E> {
        self.iter()
    }
}

impl<'a, E: GroupEntry<'a> + std::fmt::Debug> std::fmt::Debug for Group<'a, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over the entries of a [`Group`].
#[derive(Clone)]
pub struct Entries<'a, E> {
    rest: &'a [u8],
    left: usize,
    block_length: usize,
    version: u16,
    entry: PhantomData<fn() -> E>,
}

impl<'a, E: GroupEntry<'a>> Iterator for Entries<'a, E> {
    type Item = E;

    #[inline(always)]
    fn next(&mut self) -> Option<E> {
        self.left = self.left.checked_sub(1)?;
        let (block, rest) = self.rest.split_at_checked(self.block_length)?;
        self.rest = rest;
        E::from_block(block, self.version)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, E: GroupEntry<'a>> ExactSizeIterator for Entries<'a, E> {}
impl<'a, E: GroupEntry<'a>> std::iter::FusedIterator for Entries<'a, E> {}

/// An entry that has groups or data of its own.
pub trait NestedEntry<'a>: Copy {
    /// The entry whose block is `block`; `parts` stands behind that.
    ///
    /// # Errors
    /// [`DecodeError`].
    fn read(block: &'a [u8], parts: &mut Cursor<'a>) -> Result<Self, DecodeError>;
}

/// The entries of a repeating group that have groups or data of their own, in place. They are of different lengths, so that they
/// are found one after the other.
#[derive(Clone, Copy)]
pub struct NestedGroup<'a, E> {
    body: &'a [u8],
    count: usize,
    block_length: usize,
    version: u16,
    entry: PhantomData<fn() -> E>,
}

impl<'a, E: NestedEntry<'a>> NestedGroup<'a, E> {
    /// A group without entries.
    pub const fn empty() -> Self {
        NestedGroup { body: &[], count: 0, block_length: 0, version: 0, entry: PhantomData }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Acting length of an entry's block, bytes.
    pub fn block_length(&self) -> usize {
        self.block_length
    }

    /// The entries in order.
    pub fn iter(&self) -> NestedEntries<'a, E> {
        NestedEntries {
            cursor: Cursor::new(self.body, 0, self.version),
            left: self.count,
            block_length: self.block_length,
            entry: PhantomData,
        }
    }
}

impl<'a, E: NestedEntry<'a>> IntoIterator for NestedGroup<'a, E> {
    type Item = E;
    type IntoIter = NestedEntries<'a, E>;

    fn into_iter(self) -> NestedEntries<'a, E> {
        self.iter()
    }
}

impl<'a, E: NestedEntry<'a>> IntoIterator for &NestedGroup<'a, E> {
    type Item = E;
    type IntoIter = NestedEntries<'a, E>;

    fn into_iter(self) -> NestedEntries<'a, E> {
        self.iter()
    }
}

impl<'a, E: NestedEntry<'a> + std::fmt::Debug> std::fmt::Debug for NestedGroup<'a, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over the entries of a [`NestedGroup`].
#[derive(Clone)]
pub struct NestedEntries<'a, E> {
    cursor: Cursor<'a>,
    left: usize,
    block_length: usize,
    entry: PhantomData<fn() -> E>,
}

impl<'a, E: NestedEntry<'a>> Iterator for NestedEntries<'a, E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        self.left = self.left.checked_sub(1)?;
        // Was read once when the message was decoded.
        self.cursor.entry(self.block_length).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, E: NestedEntry<'a>> ExactSizeIterator for NestedEntries<'a, E> {}
impl<'a, E: NestedEntry<'a>> std::iter::FusedIterator for NestedEntries<'a, E> {}

/// The header of a group, `N` bytes: a schema's own.
pub trait Dimension<const N: usize> {
    /// Whether block length times count is never more than memory can be.
    const NARROW: bool;

    /// Block length and count.
    fn sizes(head: &[u8; N]) -> (usize, usize);
}

/// The header of data of variable length: a schema's own.
pub trait DataHeader {
    /// Bytes.
    const LEN: usize;

    /// The length, and what follows; `None` where the header is not whole.
    fn split(bytes: &[u8]) -> Option<(usize, &[u8])>;
}

/// The first bytes of an entry's block, which every version has.
///
/// # Errors
/// [`DecodeError::EntryTooShort`].
pub fn entry_block<'a, const N: usize>(
    block: &'a [u8],
    parts: &Cursor<'a>,
) -> Result<&'a [u8; N], DecodeError> {
    let short = DecodeError::EntryTooShort { at: parts.at, block_length: block.len(), needed: N };
    block.first_chunk().ok_or(short)
}

/// The most entries without bytes that a group may claim: they cost the sender nothing.
const EMPTY_ENTRIES_MAX: usize = u16::MAX as usize;

/// Reads what follows a block, part by part.
#[derive(Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
    version: u16,
}

impl<'a> Cursor<'a> {
    /// Behind the root block, which ended at `at`.
    #[inline(always)]
    pub fn new(rest: &'a [u8], at: usize, version: u16) -> Self {
        Cursor { rest, at, version }
    }

    /// The version that the message was written by.
    #[inline(always)]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The next group, of entries that are a block each.
    ///
    /// # Errors
    /// [`DecodeError`].
    #[inline(always)]
    pub fn group<const N: usize, D: Dimension<N>, E: GroupEntry<'a>>(
        &mut self,
    ) -> Result<Group<'a, E>, DecodeError> {
        let at = self.at;
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::GroupHeaderPastEnd { at });
        };
        let (block_length, count) = D::sizes(head);
        let len = if D::NARROW { block_length * count } else { block_length.saturating_mul(count) };
        let Some((body, rest)) = rest.split_at_checked(len) else {
            return Err(DecodeError::GroupPastEnd { at, block_length, count, left: rest.len() });
        };
        if block_length < E::MIN_BLOCK && count > 0 {
            return Err(DecodeError::EntryTooShort { at, block_length, needed: E::MIN_BLOCK });
        }
        self.rest = rest;
        self.at = at + N + body.len();
        Ok(Group { body, count, block_length, version: self.version, entry: PhantomData })
    }

    /// As [`group`](Self::group), for a group that exists since version `since`.
    ///
    /// # Errors
    /// [`DecodeError`].
    #[inline(always)]
    pub fn group_since<const N: usize, D: Dimension<N>, E: GroupEntry<'a>>(
        &mut self,
        since: u16,
    ) -> Result<Group<'a, E>, DecodeError> {
        if self.version < since { Ok(Group::empty()) } else { self.group::<N, D, E>() }
    }

    /// The next group, of entries that have parts of their own: each is read, so that none can fail later.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn nested<const N: usize, D: Dimension<N>, E: NestedEntry<'a>>(
        &mut self,
    ) -> Result<NestedGroup<'a, E>, DecodeError> {
        let at = self.at;
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::GroupHeaderPastEnd { at });
        };
        let (block_length, count) = D::sizes(head);
        self.rest = rest;
        self.at = at + N;
        for index in 0..count {
            self.entry::<E>(block_length)?;
            if self.rest.len() == rest.len() && index == EMPTY_ENTRIES_MAX {
                return Err(DecodeError::GroupPastEnd { at, block_length, count, left: rest.len() });
            }
        }
        let body = &rest[..rest.len() - self.rest.len()];
        Ok(NestedGroup { body, count, block_length, version: self.version, entry: PhantomData })
    }

    /// As [`nested`](Self::nested), for a group that exists since version `since`.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn nested_since<const N: usize, D: Dimension<N>, E: NestedEntry<'a>>(
        &mut self,
        since: u16,
    ) -> Result<NestedGroup<'a, E>, DecodeError> {
        if self.version < since { Ok(NestedGroup::empty()) } else { self.nested::<N, D, E>() }
    }

    fn entry<E: NestedEntry<'a>>(&mut self, block_length: usize) -> Result<E, DecodeError> {
        let Some((block, rest)) = self.rest.split_at_checked(block_length) else {
            let (at, left) = (self.at, self.rest.len());
            return Err(DecodeError::GroupPastEnd { at, block_length, count: 1, left });
        };
        self.rest = rest;
        self.at += block_length;
        E::read(block, self)
    }

    /// The next data; empty before version `since`.
    ///
    /// # Errors
    /// [`DecodeError::DataPastEnd`].
    pub fn data<D: DataHeader>(&mut self, since: u16) -> Result<&'a [u8], DecodeError> {
        if self.version < since {
            return Ok(&[]);
        }
        let at = self.at;
        let (len, rest) =
            D::split(self.rest).ok_or(DecodeError::DataPastEnd { at, len: D::LEN, left: self.rest.len() })?;
        let split = rest.split_at_checked(len);
        let (data, rest) = split.ok_or(DecodeError::DataPastEnd { at, len, left: rest.len() })?;
        self.rest = rest;
        self.at = at + D::LEN + len;
        Ok(data)
    }

    /// What is left behind the parts.
    #[inline(always)]
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}
