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

/// Where the header of a group says what: `groupSize` (3 bytes, count at 2) or `groupSize8Byte` (8 bytes, count at 7).
/// In both, the block length is the first two bytes and the count the last.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
    version: u16,
}

impl<'a> Cursor<'a> {
    /// Behind the root block, which ended at `at`.
    #[inline(always)]
    pub(crate) fn new(rest: &'a [u8], at: usize, version: u16) -> Self {
        Cursor { rest, at, version }
    }

    /// The next group, with a header of `HEADER` bytes.
    #[inline(always)]
    pub(crate) fn group<const HEADER: usize, E: GroupEntry<'a>>(
        &mut self,
    ) -> Result<Group<'a, E>, DecodeError> {
        let at = self.at;
        let Some((head, rest)) = self.rest.split_first_chunk::<HEADER>() else {
            return Err(DecodeError::GroupHeaderPastEnd { at });
        };
        let block_length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let count = usize::from(head[HEADER - 1]);
        let Some((body, rest)) = rest.split_at_checked(block_length * count) else {
            return Err(DecodeError::GroupPastEnd { at, block_length, count, left: rest.len() });
        };
        if block_length < E::MIN_BLOCK && count > 0 {
            return Err(DecodeError::EntryTooShort { at, block_length, needed: E::MIN_BLOCK });
        }
        self.rest = rest;
        self.at = at + HEADER + body.len();
        Ok(Group { body, count, block_length, version: self.version, entry: PhantomData })
    }

    /// As [`group`](Self::group), for a group that exists since version `since`.
    #[inline(always)]
    pub(crate) fn group_since<const HEADER: usize, E: GroupEntry<'a>>(
        &mut self,
        since: u16,
    ) -> Result<Group<'a, E>, DecodeError> {
        if self.version < since { Ok(Group::empty()) } else { self.group::<HEADER, E>() }
    }

    /// What is left behind the groups.
    #[inline(always)]
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }
}
