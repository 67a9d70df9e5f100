//! Questions to a replica's state: what packets have changed. Run on the engine's thread; what is not there reads as 0.

use crate::control::CounterValue;
use barewire_p4::ir::{CounterId, RegisterId, TableId};
use barewire_p4::state::State;
use barewire_p4_state::ProgramState;
use num_bigint::BigUint;

/// When these entries were hit last, in microseconds.
pub(crate) fn last_hits(state: Option<&mut ProgramState>, table: TableId, indices: &[u32]) -> Vec<u64> {
    let Some(state) = state else { return vec![0; indices.len()] };
    indices.iter().map(|index| state.hits(table, *index).unwrap_or(0)).collect()
}

/// The direct counters of these entries.
pub(crate) fn direct_counters(
    state: Option<&mut ProgramState>,
    table: TableId,
    indices: &[u32],
) -> Vec<CounterValue> {
    let Some(state) = state else { return vec![CounterValue::default(); indices.len()] };
    let counter = |index: &u32| {
        let stats = state.stats(table, Some(*index)).unwrap_or_default();
        CounterValue { packets: stats.packets, bytes: stats.bytes }
    };
    indices.iter().map(counter).collect()
}

/// The counters from one index to another (excluded).
pub(crate) fn counters(
    state: Option<&mut ProgramState>,
    id: CounterId,
    from: u64,
    to: u64,
) -> Vec<CounterValue> {
    let counters =
        state.and_then(|state| state.counters.get(id.at())).and_then(|c| c.read_range(from..to).ok());
    let value = |value: &[u64; 2]| CounterValue { packets: value[0], bytes: value[1] };
    match counters {
        Some(counters) => counters.iter().map(value).collect(),
        None => vec![CounterValue::default(); (to - from) as usize],
    }
}

/// The registers from one index to another (excluded).
pub(crate) fn registers(
    state: Option<&mut ProgramState>,
    id: RegisterId,
    from: u64,
    to: u64,
) -> Vec<BigUint> {
    let Some(state) = state else { return vec![BigUint::ZERO; (to - from) as usize] };
    (from..to).map(|index| state.register(id, index)).collect()
}
