//! Learning: samples of the packets' digests, gathered into buffers for the control plane.
//!
//! It runs on the engine's side. A sample that waits in a buffer, or was sent and is not acknowledged, is not taken
//! again; a buffer is sent when it is full or a while after its first sample.

use crate::control::DigestList;
use barewire_p4::ir::{LearnListId, Program};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Samples that make a buffer full, until told otherwise (bmv2's default).
pub const DEFAULT_MAX_SAMPLES: usize = 16;
/// Milliseconds after which a buffer is sent all the same, until told otherwise (bmv2's default).
pub const DEFAULT_TIMEOUT_MS: u32 = 1000;
/// The most samples a buffer may be told to hold.
pub const MOST_SAMPLES: usize = 4096;
/// Unacknowledged samples one list remembers; beyond it the oldest buffer counts as acknowledged.
pub const MAX_UNACKED: usize = 65_536;
/// Where the engine's index stands in a buffer's number: each engine numbers its own.
const ENGINE_SHIFT: u32 = 48;

#[derive(Debug)]
struct List {
    /// The number in the file.
    id: u32,
    /// Bytes of each item.
    item_bytes: Vec<usize>,
    sample_bytes: usize,
    max_samples: usize,
    /// 0 for none.
    timeout_us: u64,
    /// What is waiting.
    waiting: Vec<Arc<[u8]>>,
    /// When the first of them came.
    since_us: u64,
    next_buffer: u64,
    next_sample: u64,
    /// All that is not acknowledged, waiting included.
    known: HashSet<Arc<[u8]>>,
    /// What was sent; acknowledged samples are gone.
    sent: BTreeMap<u64, Vec<Option<Arc<[u8]>>>>,
}

/// The learning buffers of one engine.
#[derive(Debug)]
pub struct Learner {
    lists: Vec<List>,
    ready: Vec<DigestList>,
    taken: u64,
    repeated: u64,
}

impl Learner {
    /// Buffers for a program's learn lists, on the engine of this index.
    pub fn new(program: &Program, engine: usize) -> Learner {
        let lists = program.learn_lists.iter().map(|list| {
            let item_bytes: Vec<usize> =
                list.items.iter().map(|(_, bits)| bits.div_ceil(8) as usize).collect();
            List {
                id: list.id,
                sample_bytes: item_bytes.iter().sum(),
                item_bytes,
                max_samples: DEFAULT_MAX_SAMPLES,
                timeout_us: u64::from(DEFAULT_TIMEOUT_MS) * 1000,
                waiting: Vec::new(),
                since_us: 0,
                next_buffer: (engine as u64) << ENGINE_SHIFT,
                next_sample: 0,
                known: HashSet::new(),
                sent: BTreeMap::new(),
            }
        });
        Learner { lists: lists.collect(), ready: Vec::new(), taken: 0, repeated: 0 }
    }

    /// How many bytes a sample of a list has: its items' values, each padded on the left to whole bytes.
    pub fn sample_bytes(&self, list: LearnListId) -> usize {
        self.lists.get(list.at()).map_or(0, |list| list.sample_bytes)
    }

    /// Take a sample. One that is known allocates nothing. Bytes of the wrong length are ignored.
    pub fn sample(&mut self, list: LearnListId, bytes: &[u8], now_us: u64) {
        let Some(list) = self.lists.get_mut(list.at()).filter(|list| list.sample_bytes == bytes.len()) else {
            return;
        };
        if list.known.contains(bytes) {
            self.repeated += 1;
            return;
        }
        self.taken += 1;
        let sample: Arc<[u8]> = bytes.into();
        list.known.insert(Arc::clone(&sample));
        if list.waiting.is_empty() {
            list.since_us = now_us;
        }
        list.waiting.push(sample);
        if list.waiting.len() >= list.max_samples {
            self.ready.push(list.flush());
        }
    }

    /// Buffers to be sent: full ones, and those whose time is up.
    pub fn poll(&mut self, now_us: u64, out: &mut Vec<DigestList>) {
        for list in &mut self.lists {
            if list.deadline_us().is_some_and(|deadline| deadline <= now_us) {
                self.ready.push(list.flush());
            }
        }
        out.append(&mut self.ready);
    }

    /// When [`Learner::poll`] has something next, if no sample comes; 0 for now.
    pub fn next_deadline_us(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(0);
        }
        self.lists.iter().filter_map(List::deadline_us).min()
    }

    /// Acknowledge a buffer of a list (its number in the file), or one sample of it (counted from 0). What is not known
    /// was acknowledged before, or is another engine's.
    pub fn ack(&mut self, list: u32, buffer: u64, sample: Option<u64>) {
        let Some(list) = self.lists.iter_mut().find(|l| l.id == list) else { return };
        let Some(sent) = list.sent.get_mut(&buffer) else { return };
        match sample {
            Some(sample) => {
                let at = usize::try_from(sample).unwrap_or(usize::MAX);
                if let Some(sample) = sent.get_mut(at).and_then(Option::take) {
                    list.known.remove(&sample);
                }
                if sent.iter().all(Option::is_none) {
                    list.sent.remove(&buffer);
                }
            }
            None => list.forget(buffer),
        }
    }

    /// How long after its first sample a buffer is sent; 0 for never before it is full.
    pub fn set_timeout(&mut self, list: u32, timeout_ms: u32) {
        if let Some(list) = self.lists.iter_mut().find(|l| l.id == list) {
            list.timeout_us = u64::from(timeout_ms) * 1000;
        }
    }

    /// How many samples fill a buffer: 1 to [`MOST_SAMPLES`].
    pub fn set_max_samples(&mut self, list: u32, samples: usize) {
        if let Some(list) = self.lists.iter_mut().find(|l| l.id == list) {
            list.max_samples = samples.clamp(1, MOST_SAMPLES);
            if list.waiting.len() >= list.max_samples {
                self.ready.push(list.flush());
            }
        }
    }

    /// Samples taken, and samples not taken because they were known.
    pub fn counts(&self) -> (u64, u64) {
        (self.taken, self.repeated)
    }
}

impl List {
    fn deadline_us(&self) -> Option<u64> {
        let waits = !self.waiting.is_empty() && self.timeout_us > 0;
        waits.then(|| self.since_us.saturating_add(self.timeout_us))
    }

    fn flush(&mut self) -> DigestList {
        let samples = std::mem::take(&mut self.waiting);
        let digest = DigestList {
            list: self.id,
            buffer: self.next_buffer,
            first_sample: self.next_sample,
            samples: samples.iter().map(|sample| self.items(sample)).collect(),
        };
        self.next_sample += samples.len() as u64;
        self.sent.insert(self.next_buffer, samples.into_iter().map(Some).collect());
        self.next_buffer += 1;
        while self.known.len() > MAX_UNACKED {
            let Some((oldest, _)) = self.sent.first_key_value() else { break };
            let oldest = *oldest;
            self.forget(oldest);
        }
        digest
    }

    fn items(&self, sample: &[u8]) -> Vec<Vec<u8>> {
        let mut rest = sample;
        let item = |bytes: &usize| {
            let (item, after) = rest.split_at(*bytes);
            rest = after;
            item.to_vec()
        };
        self.item_bytes.iter().map(item).collect()
    }

    fn forget(&mut self, buffer: u64) {
        for sample in self.sent.remove(&buffer).into_iter().flatten().flatten() {
            self.known.remove(&sample);
        }
    }
}

#[cfg(test)]
mod tests;
