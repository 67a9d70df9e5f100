//! Entries whose masks have little in common: for each hexadecimal digit of the key and each value of it, a row of bits, one
//! bit an entry that admits it. A look-up ANDs one row a digit; what is left are the entries that match.
//!
//! Entries live in blocks of 64 or 512, so that a row is a word or a cache line, updates stay inside one block and a block
//! none of whose entries could win is skipped. Within a block the digits that rule out most come first, and the search
//! ends when nothing is left. Cost grows with the number of entries, but a hundred times slower than comparing them.

/// Digits looked at before a test for "nothing left".
const STEP: usize = 6;

/// One bit for each entry of a block.
pub(crate) trait Row: Copy + std::fmt::Debug {
    const WORDS: usize;
    const ZERO: Self;
    fn words(&self) -> &[u64];
    fn words_mut(&mut self) -> &mut [u64];
    /// Clear the bits that one of the rows does not have; whether any are left.
    fn and(&mut self, rows: [&Self; STEP]) -> bool;
}

/// 64 entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Narrow([u64; 1]);

/// 512 entries, a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Wide([u64; 8]);

macro_rules! row {
    ($name:ident, $words:literal) => {
        impl Row for $name {
            const WORDS: usize = $words;
            const ZERO: Self = $name([0; $words]);
            #[inline]
            fn words(&self) -> &[u64] {
                &self.0
            }
            fn words_mut(&mut self) -> &mut [u64] {
                &mut self.0
            }
            #[inline]
            fn and(&mut self, rows: [&Self; STEP]) -> bool {
                let [a, b, c, d, e, f] = rows;
                let mut any = 0;
                for at in 0..$words {
                    let word = self.0[at] & a.0[at] & b.0[at] & c.0[at] & d.0[at] & e.0[at] & f.0[at];
                    self.0[at] = word;
                    any |= word;
                }
                any != 0
            }
        }
    };
}
row!(Narrow, 1);
row!(Wide, 8);

/// Updates after which the order of digits is worked out again.
const REORDER: u32 = 32;

/// A hexadecimal digit of the key: where its rows start, and where in the key it is.
#[derive(Debug, Clone, Copy)]
struct Digit {
    row: u32,
    word: u16,
    shift: u16,
}

impl Digit {
    fn number(at: usize) -> Digit {
        Digit { row: at as u32 * 16, word: (at / 16) as u16, shift: 60 - (at % 16 * 4) as u16 }
    }
}

/// A block of entries.
#[derive(Debug)]
pub(crate) struct Block<R: Row> {
    /// Row of digit `c` being `d`: at `c * 16 + d`.
    rows: Box<[R]>,
    live: R,
    /// Digits that matter, the most telling first; the first one again at the end, to make whole steps.
    order: Vec<Digit>,
    /// For each digit, how many of the sixteen values its entries rule out, over all entries.
    telling: Box<[u32]>,
    stale: u32,
    /// Each entry's rank, the lowest wins, and record.
    ranks: Box<[u64]>,
    records: Box<[u32]>,
    /// Entries that need a look at the key after all.
    filtered: R,
    /// The lowest rank of the block.
    pub(crate) best: u64,
    pub(crate) len: usize,
}

impl<R: Row> Block<R> {
    pub(crate) const ENTRIES: usize = R::WORDS * 64;

    /// An empty block for keys of so many digits.
    pub(crate) fn new(digits: usize) -> Block<R> {
        Block {
            rows: vec![R::ZERO; digits * 16].into_boxed_slice(),
            live: R::ZERO,
            order: Vec::new(),
            telling: vec![0; digits].into_boxed_slice(),
            stale: 0,
            ranks: vec![u64::MAX; Self::ENTRIES].into_boxed_slice(),
            records: vec![0; Self::ENTRIES].into_boxed_slice(),
            filtered: R::ZERO,
            best: u64::MAX,
            len: 0,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == Self::ENTRIES
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.len() * size_of::<R>() + Self::ENTRIES * 12 + self.telling.len() * 4
    }

    /// The record of lowest rank below `best` that matches, and its rank. `verify` is asked about filtered ones.
    #[inline]
    pub(crate) fn find(&self, key: &[u64], best: &mut u64, verify: impl Fn(u32) -> bool) -> Option<u32> {
        let mut left = self.live;
        for step in self.order.chunks_exact(STEP) {
            let rows = std::array::from_fn(|at| {
                let digit = step[at];
                let value = key[digit.word as usize] >> digit.shift & 15;
                &self.rows[digit.row as usize + value as usize]
            });
            if !left.and(rows) {
                return None;
            }
        }
        let mut found = None;
        for (at, word) in left.words().iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                let bit = word.trailing_zeros() as usize;
                word &= word - 1;
                let entry = at * 64 + bit;
                if self.ranks[entry] < *best {
                    let record = self.records[entry];
                    if self.filtered.words()[at] >> bit & 1 == 0 || verify(record) {
                        *best = self.ranks[entry];
                        found = Some(record);
                    }
                }
            }
        }
        found
    }

    /// Insert an entry into a block that is not full: the digits it admits, its rank and record. Gives its place.
    pub(crate) fn insert(&mut self, digits: &[u16], rank: u64, record: u32, filtered: bool) -> usize {
        let free =
            self.live.words().iter().position(|&word| word != u64::MAX).expect("the block is not full");
        let entry = free * 64 + self.live.words()[free].trailing_ones() as usize;
        let bit = 1 << (entry % 64);
        for (digit, &admitted) in digits.iter().enumerate() {
            for (value, row) in self.rows[digit * 16..digit * 16 + 16].iter_mut().enumerate() {
                let word = &mut row.words_mut()[free];
                *word = if admitted >> value & 1 == 1 { *word | bit } else { *word & !bit };
            }
        }
        self.live.words_mut()[free] |= bit;
        let word = &mut self.filtered.words_mut()[free];
        *word = if filtered { *word | bit } else { *word & !bit };
        self.ranks[entry] = rank;
        self.records[entry] = record;
        self.best = self.best.min(rank);
        self.len += 1;
        self.tell(digits, |telling, ruled_out| *telling += ruled_out);
        entry
    }

    /// Take the entry at a place out; `digits` as it was inserted.
    pub(crate) fn remove(&mut self, entry: usize, digits: &[u16]) {
        self.live.words_mut()[entry / 64] &= !(1 << (entry % 64));
        let rank = std::mem::replace(&mut self.ranks[entry], u64::MAX);
        self.records[entry] = 0;
        self.len -= 1;
        if rank == self.best {
            self.best = self.ranks.iter().copied().min().unwrap_or(u64::MAX);
        }
        self.tell(digits, |telling, ruled_out| *telling -= ruled_out);
    }

    fn tell(&mut self, digits: &[u16], change: impl Fn(&mut u32, u32)) {
        let mut changed = false;
        for (telling, admitted) in self.telling.iter_mut().zip(digits) {
            let before = *telling;
            change(telling, admitted.count_zeros());
            changed |= (before == 0) != (*telling == 0);
        }
        self.stale += 1;
        if changed || self.stale >= REORDER {
            self.stale = 0;
            self.order.clear();
            let digits = (0..self.telling.len()).filter(|&digit| self.telling[digit] > 0);
            self.order.extend(digits.map(Digit::number));
            self.order.sort_by_key(|digit| std::cmp::Reverse(self.telling[digit.row as usize / 16]));
            let whole = self.order.len().next_multiple_of(STEP);
            if let Some(&first) = self.order.first() {
                self.order.resize(whole, first);
            }
        }
    }
}
