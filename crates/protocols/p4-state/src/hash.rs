//! The hash index under every structure here: from a hash to the records that have it, growing in small steps.
//!
//! Buckets are cache lines of eight records with 16 bits of hash each, so a look-up that finds nothing reads one line
//! and rarely takes a wrong branch. Buckets live in segments of at most [`MAX_BUCKETS`]; a full segment is split in two by
//! one more bit of the hash (extendible hashing), so no insertion moves more than one segment's records.

use crate::error::EntryError;
use std::hash::{BuildHasher, Hasher};

/// Records of a bucket.
const LANES: usize = 8;
/// Buckets of a segment at most.
const MAX_BUCKETS: usize = 64;
/// Bits of the directory at most.
const MAX_DEPTH: u32 = 22;
const LOW: u64 = 0x7fff_7fff_7fff_7fff;
const EACH: u64 = 0x0001_0001_0001_0001;

/// The secret of one table's hash: what floods one table says nothing of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds(u64, u64);

impl Seeds {
    /// Secret seeds, from the process's own random source.
    pub(crate) fn new() -> Seeds {
        let source = std::collections::hash_map::RandomState::new();
        let word = |n: u64| {
            let mut hasher = source.build_hasher();
            hasher.write_u64(n);
            hasher.finish()
        };
        Seeds(word(1), word(2) | 1)
    }

    #[inline]
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    }

    /// The hash of one word.
    #[inline]
    pub(crate) fn hash1(self, k0: u64) -> u64 {
        Seeds::fold(k0 ^ self.0, self.1)
    }

    /// The hash of two words.
    #[inline]
    pub(crate) fn hash2(self, k0: u64, k1: u64) -> u64 {
        Seeds::fold(Seeds::fold(k0 ^ self.0, self.1) ^ k1, self.1)
    }

    /// The hash of any number of words: the same as the two above for one and two.
    #[inline]
    pub(crate) fn hash(self, words: impl IntoIterator<Item = u64>) -> u64 {
        let mut hash = self.0;
        for word in words {
            hash = Seeds::fold(hash ^ word, self.1);
        }
        hash
    }
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket {
    /// 16 bits of each record's hash, 0 for a free lane.
    tags: [u64; 2],
    records: [u32; LANES],
    /// Records whose bucket this is but that live in a later one, for want of room.
    spilled: u32,
    /// How many buckets further the farthest of them may live.
    reach: u32,
}

/// The lanes of four that are zero, as their top bits.
#[inline]
fn zero_lanes(x: u64) -> u64 {
    !(((x & LOW) + LOW) | x | LOW)
}

#[inline]
fn tag_of(hash: u64) -> u64 {
    let tag = hash >> 16 & 0xffff;
    tag + u64::from(tag == 0)
}

impl Bucket {
    #[inline(always)]
    fn find(&self, tags: u64, eq: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        // Lanes 0 to 3 at bits 15, 31, 47 and 63, lanes 4 to 7 one bit lower: one test, which is easy to predict.
        let mut lanes = zero_lanes(self.tags[0] ^ tags) | zero_lanes(self.tags[1] ^ tags) >> 1;
        while lanes != 0 {
            let bit = lanes.trailing_zeros() as usize;
            let record = self.records[(bit / 16 + (!bit & 1) * 4) % LANES];
            if eq(record) {
                return Some(record);
            }
            lanes &= lanes - 1;
        }
        None
    }

    fn free_lane(&self) -> Option<usize> {
        (0..2).find_map(|half| {
            let lanes = zero_lanes(self.tags[half]);
            (lanes != 0).then(|| half * 4 + lanes.trailing_zeros() as usize / 16)
        })
    }

    fn set(&mut self, lane: usize, tag: u64, record: u32) {
        let shift = lane % 4 * 16;
        self.tags[lane / 4] = self.tags[lane / 4] & !(0xffff << shift) | tag << shift;
        self.records[lane] = record;
    }

    fn tag(&self, lane: usize) -> u64 {
        self.tags[lane / 4] >> (lane % 4 * 16) & 0xffff
    }
}

#[derive(Debug, Clone, Copy)]
struct Meta {
    /// Records in the segment.
    len: u32,
    /// Bits of the hash that lead to it.
    depth: u32,
}

/// A multimap from hashes to record numbers; the caller says which records are equal and what their hashes are.
#[derive(Debug)]
pub(crate) struct Index {
    /// Bits of the hash, from the top, that select an element of the directory.
    depth: u32,
    directory: Vec<u32>,
    segments: Vec<Box<[Bucket]>>,
    meta: Vec<Meta>,
    len: usize,
    /// Records moved by growth, ever: what the tests of stalls look at.
    pub(crate) moved: u64,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index {
            depth: 0,
            directory: vec![0],
            segments: vec![vec![Bucket::default(); 1].into_boxed_slice()],
            meta: vec![Meta { len: 0, depth: 0 }],
            len: 0,
            moved: 0,
        }
    }

    /// Records in the index.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(|s| s.len() * size_of::<Bucket>() + 24).sum::<usize>()
            + self.directory.len() * 4
    }

    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        // A predicted branch costs less than a load that the next one waits for.
        if self.depth == 0 { 0 } else { self.directory[((hash >> 1) >> (63 - self.depth)) as usize] as usize }
    }

    /// The first record with this hash for which `eq` says yes.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut eq: impl FnMut(u32) -> bool) -> Option<u32> {
        let buckets = &self.segments[self.segment_of(hash)];
        let mask = buckets.len() - 1;
        let tags = tag_of(hash) * EACH;
        let home = &buckets[hash as usize & mask];
        let found = home.find(tags, &mut eq);
        if found.is_some() || home.spilled == 0 {
            return found;
        }
        (1..=home.reach as usize).find_map(|far| buckets[(hash as usize + far) & mask].find(tags, &mut eq))
    }

    /// Insert a record; `hash_of` gives the hash of any record in the index (and of this one).
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        record: u32,
        hash_of: impl Fn(u32) -> u64,
    ) -> Result<(), EntryError> {
        loop {
            let at = self.segment_of(hash);
            let (len, buckets) = (self.meta[at].len as usize, self.segments[at].len());
            if len < buckets * LANES * 3 / 4 {
                self.put(at, hash, record);
                return Ok(());
            }
            if buckets < MAX_BUCKETS {
                self.widen(at, &hash_of);
            } else if self.meta[at].depth < MAX_DEPTH {
                self.split(at, &hash_of);
            } else if len < buckets * LANES {
                self.put(at, hash, record);
                return Ok(());
            } else {
                return Err(EntryError::Crowded);
            }
        }
    }

    /// There is a free lane in the segment.
    fn put(&mut self, at: usize, hash: u64, record: u32) {
        let buckets = &mut self.segments[at];
        let mask = buckets.len() - 1;
        let home = hash as usize & mask;
        for far in 0..buckets.len() {
            let bucket = &mut buckets[(home + far) & mask];
            if let Some(lane) = bucket.free_lane() {
                bucket.set(lane, tag_of(hash), record);
                if far > 0 {
                    let home = &mut buckets[home];
                    home.spilled += 1;
                    home.reach = home.reach.max(far as u32);
                }
                self.meta[at].len += 1;
                self.len += 1;
                return;
            }
        }
        unreachable!("the caller has counted a free lane");
    }

    /// Take all records out of a segment, giving it `buckets` empty buckets.
    fn empty(&mut self, at: usize, buckets: usize) -> Vec<u32> {
        let fresh = vec![Bucket::default(); buckets].into_boxed_slice();
        let old = std::mem::replace(&mut self.segments[at], fresh);
        let records: Vec<u32> = old
            .iter()
            .flat_map(|bucket| {
                (0..LANES).filter(|&lane| bucket.tag(lane) != 0).map(|lane| bucket.records[lane])
            })
            .collect();
        self.moved += records.len() as u64;
        self.len -= records.len();
        self.meta[at].len = 0;
        records
    }

    fn widen(&mut self, at: usize, hash_of: &impl Fn(u32) -> u64) {
        let buckets = self.segments[at].len() * 2;
        for record in self.empty(at, buckets) {
            self.put(at, hash_of(record), record);
        }
    }

    fn split(&mut self, at: usize, hash_of: &impl Fn(u32) -> u64) {
        let depth = self.meta[at].depth + 1;
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|&segment| [segment, segment]).collect();
            self.depth = depth;
        }
        let new = self.segments.len();
        self.segments.push(vec![Bucket::default(); MAX_BUCKETS].into_boxed_slice());
        self.meta[at].depth = depth;
        self.meta.push(Meta { len: 0, depth });
        let records = self.empty(at, MAX_BUCKETS);
        // The directory's elements of a segment are neighbours: the upper half of them goes to the new one.
        let span = 1_usize << (self.depth - depth);
        let some = hash_of(records[0]);
        let first = ((some >> 1) >> (63 - self.depth)) as usize / (2 * span) * (2 * span);
        for element in &mut self.directory[first + span..first + 2 * span] {
            *element = new as u32;
        }
        for record in records {
            let hash = hash_of(record);
            self.put(self.segment_of(hash), hash, record);
        }
    }

    /// Take a record out; whether it was there.
    pub(crate) fn remove(&mut self, hash: u64, record: u32) -> bool {
        let at = self.segment_of(hash);
        let buckets = &mut self.segments[at];
        let mask = buckets.len() - 1;
        let home = hash as usize & mask;
        for far in 0..=buckets[home].reach as usize {
            let bucket = &mut buckets[(home + far) & mask];
            let found =
                (0..LANES).find(|&lane| bucket.records[lane] == record && bucket.tag(lane) == tag_of(hash));
            if let Some(lane) = found {
                bucket.set(lane, 0, 0);
                if far > 0 {
                    let home = &mut buckets[home];
                    home.spilled -= 1;
                    home.reach = if home.spilled == 0 { 0 } else { home.reach };
                }
                self.meta[at].len -= 1;
                self.len -= 1;
                return true;
            }
        }
        false
    }

    /// Put another record in the place of one with the same hash.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let at = self.segment_of(hash);
        let buckets = &mut self.segments[at];
        let mask = buckets.len() - 1;
        let home = hash as usize & mask;
        for far in 0..=buckets[home].reach as usize {
            let bucket = &mut buckets[(home + far) & mask];
            for lane in 0..LANES {
                if bucket.records[lane] == old && bucket.tag(lane) == tag_of(hash) {
                    bucket.records[lane] = new;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;
    use std::collections::HashSet;

    fn run(seed: u64, hash_of: impl Fn(u32) -> u64 + Copy) {
        let mut prng = Prng::new(seed);
        let (mut index, mut model) = (Index::new(), HashSet::new());
        for _ in 0..20_000 {
            let record = prng.below(3_000) as u32;
            let hash = hash_of(record);
            if model.remove(&record) {
                assert!(index.remove(hash, record), "seed {seed}");
            } else {
                let before = index.moved;
                index.insert(hash, record, hash_of).unwrap();
                assert!(
                    index.moved - before <= (MAX_BUCKETS * LANES) as u64 * 2,
                    "seed {seed}: a long stall"
                );
                model.insert(record);
            }
            let probe = prng.below(3_000) as u32;
            let found = index.find(hash_of(probe), |record| record == probe);
            assert_eq!(found.is_some(), model.contains(&probe), "seed {seed}");
        }
        assert_eq!(index.len(), model.len());
    }

    #[test]
    fn agrees_with_a_set_through_growth_and_removal() {
        let seeds = Seeds::new();
        for seed in 0..4 {
            run(seed, |record| seeds.hash1(u64::from(record)));
        }
    }

    #[test]
    fn a_poor_hash_is_slow_but_right() {
        run(9, |record| u64::from(record % 7) << 60 | u64::from(record % 13) << 16 | u64::from(record % 50));
    }

    #[test]
    fn one_hash_for_all_is_refused_at_last() {
        let mut index = Index::new();
        let refused = (0..1_000).map(|record| index.insert(5, record, |_| 5)).filter(Result::is_err).count();
        assert_eq!(refused, 1_000 - MAX_BUCKETS * LANES);
        assert!(index.find(5, |record| record == 300).is_some());
    }

    #[test]
    fn words_hash_alike_one_by_one() {
        let seeds = Seeds::new();
        assert_eq!(seeds.hash1(7), seeds.hash([7]));
        assert_eq!(seeds.hash2(7, 9), seeds.hash([7, 9]));
    }
}
