//! The first few masked entries of a table: compared one by one in the order of their ranks, faster than anything
//! cleverer while they are few.

/// Entries at most.
pub(crate) const LINEAR_MAX: usize = 20;

/// A short list of entries, the best first.
#[derive(Debug)]
pub(crate) struct LinearEntries {
    /// Rank and record.
    entries: Vec<(u64, u32)>,
    /// For each entry and each word of the key, value and mask.
    words: Vec<u64>,
    key_words: usize,
}

impl LinearEntries {
    pub(crate) fn new(key_words: usize) -> LinearEntries {
        let words = Vec::with_capacity(LINEAR_MAX * 2 * key_words);
        LinearEntries { entries: Vec::with_capacity(LINEAR_MAX), words, key_words }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == LINEAR_MAX
    }

    /// The first record that matches and that `verify` does not refuse.
    #[inline]
    pub(crate) fn find(&self, key: &[u64], verify: impl Fn(u32) -> bool) -> Option<u32> {
        for (&(_, record), words) in self.entries.iter().zip(self.words.chunks_exact(2 * self.key_words)) {
            let pairs = key.iter().zip(words.chunks_exact(2));
            let differ = pairs.fold(0, |differ, (key, pair)| differ | (key ^ pair[0]) & pair[1]);
            if differ == 0 && verify(record) {
                return Some(record);
            }
        }
        None
    }

    /// Insert an entry into a list that is not full.
    pub(crate) fn insert(&mut self, rank: u64, record: u32, value: &[u64], mask: &[u64]) {
        let at = self.entries.partition_point(|&(other, _)| other < rank);
        self.entries.insert(at, (rank, record));
        let at = at * 2 * self.key_words;
        let pairs = value.iter().zip(mask).flat_map(|(&value, &mask)| [value, mask]);
        self.words.splice(at..at, pairs);
    }

    /// Take an entry out.
    pub(crate) fn remove(&mut self, rank: u64) {
        if let Ok(at) = self.entries.binary_search_by_key(&rank, |&(rank, _)| rank) {
            self.entries.remove(at);
            let pair = 2 * self.key_words;
            self.words.drain(at * pair..(at + 1) * pair);
        }
    }

    /// Take all entries out.
    pub(crate) fn take(&mut self) -> Vec<u32> {
        self.words.clear();
        self.entries.drain(..).map(|(_, record)| record).collect()
    }
}
