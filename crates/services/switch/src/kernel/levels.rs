//! Meters have one home, the kernel: a packet that user space does spends tokens of the same buckets.

use super::Kernel;
use barewire_bpf::Map;
use barewire_p4::ir::MeterArray;
use barewire_p4_ebpf::maps::meter;
use barewire_p4_state::{Levels, ProgramState};
use std::sync::Arc;

/// Buckets in a map.
#[derive(Debug)]
struct InMap {
    map: Arc<Map>,
    /// Where the first meter lies: entries' ones begin at 1.
    first: u32,
    value: Vec<u8>,
}

impl InMap {
    fn new(map: &Arc<Map>, array: &MeterArray) -> InMap {
        let first = u32::from(array.direct.is_some());
        InMap { map: Arc::clone(map), first, value: vec![0; map.value_len()] }
    }
}

/// Where a rate's tokens lie, and what it had produced; they are neighbours.
fn place(rate: usize) -> std::ops::Range<usize> {
    const { assert!(meter::LAST == meter::TOKENS + 8) };
    let at = (meter::RATES + meter::RATE * rate as u32 + meter::TOKENS) as usize;
    at..at + 16
}

impl Levels for InMap {
    fn load(&mut self, index: u32, levels: &mut [[u64; 2]]) -> bool {
        let key = index.wrapping_add(self.first).to_ne_bytes();
        if !matches!(self.map.lookup_into(&key, &mut self.value), Ok(true)) {
            return false;
        }
        for (rate, levels) in levels.iter_mut().enumerate() {
            let Some(bytes) = self.value.get(place(rate)) else { return false };
            for (word, bytes) in levels.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        true
    }

    fn store(&mut self, index: u32, levels: &[[u64; 2]]) {
        // What it was loaded as, with its new levels: always right after.
        for (rate, levels) in levels.iter().enumerate() {
            if let Some(bytes) = self.value.get_mut(place(rate)) {
                for (word, bytes) in levels.iter().zip(bytes.chunks_exact_mut(8)) {
                    bytes.copy_from_slice(&word.to_ne_bytes());
                }
            }
        }
        let _ = self.map.update(&index.wrapping_add(self.first).to_ne_bytes(), &self.value);
    }
}

impl Kernel {
    /// From now on this state's meters are the kernel's.
    pub fn keep_levels(&self, state: &mut ProgramState) {
        let arrays = &self.mirror.program().meters;
        for ((meter, array), map) in state.meters.iter_mut().zip(arrays).zip(&self.compiled.shape.meters) {
            meter.keep_levels(Box::new(InMap::new(&self.maps[*map], array)));
        }
    }
}
