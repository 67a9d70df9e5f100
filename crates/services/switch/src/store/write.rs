//! Writes that the store has accepted, as the engines' replicas apply them.

use crate::control::{CounterValue, MeterRate, MirrorSession, Replica};
use crate::pre::PreWrite;
use barewire_p4::hash::Parameters;
use barewire_p4::ir::{
    ActionCall, CalculationId, CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId,
};
use barewire_p4::key::MatchParam;
use barewire_p4_state::{ProgramState, Rate, StateError, TableAction};
use num_bigint::BigUint;

/// A write for an engine.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Write {
    /// To the running program's state.
    State(StateWrite),
    /// To the replication engine.
    Pre(PreWrite),
    Mirror {
        id: u32,
        session: Option<MirrorSession>,
    },
    QueueDepth {
        port: Option<u32>,
        priority: Option<u32>,
        packets: usize,
    },
    QueueRate {
        port: Option<u32>,
        priority: Option<u32>,
        pps: u64,
    },
    AckDigest {
        list: u32,
        buffer: u64,
        sample: Option<u64>,
    },
    DigestTimeout {
        list: u32,
        timeout_ms: u32,
    },
    DigestMaxSamples {
        list: u32,
        samples: usize,
    },
}

/// A write to a program's state. Ranges are from, to (excluded), and inside the array.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum StateWrite {
    Insert {
        table: TableId,
        handle: u32,
        key: Vec<MatchParam>,
        priority: u32,
        action: TableAction,
    },
    Modify {
        table: TableId,
        handle: u32,
        action: TableAction,
    },
    Remove {
        table: TableId,
        handle: u32,
    },
    Clear {
        table: TableId,
    },
    SetDefault {
        table: TableId,
        action: Option<TableAction>,
    },
    InsertMember {
        profile: ProfileId,
        member: u32,
        call: ActionCall,
    },
    ModifyMember {
        profile: ProfileId,
        member: u32,
        call: ActionCall,
    },
    RemoveMember {
        profile: ProfileId,
        member: u32,
    },
    SetGroup {
        profile: ProfileId,
        group: u32,
        members: Vec<(u32, u32)>,
    },
    RemoveGroup {
        profile: ProfileId,
        group: u32,
    },
    Counters {
        counter: CounterId,
        from: u64,
        to: u64,
        value: CounterValue,
    },
    /// Onto those from here on.
    AddCounters {
        counter: CounterId,
        from: u64,
        values: Vec<CounterValue>,
    },
    DirectCounter {
        table: TableId,
        handle: u32,
        value: CounterValue,
    },
    /// Onto those of these entries.
    AddDirectCounters {
        table: TableId,
        values: Vec<(u32, CounterValue)>,
    },
    /// Of so many records from this one on.
    ResetDirectCounters {
        table: TableId,
        from: u32,
        count: u32,
    },
    Meter {
        meter: MeterId,
        from: u64,
        to: u64,
        rates: Vec<MeterRate>,
    },
    DirectMeter {
        table: TableId,
        handle: u32,
        rates: Vec<MeterRate>,
    },
    Registers {
        register: RegisterId,
        from: u64,
        to: u64,
        value: BigUint,
    },
    ValueSetAdd {
        set: ValueSetId,
        value: Vec<BigUint>,
    },
    ValueSetRemove {
        set: ValueSetId,
        value: Vec<BigUint>,
    },
    ValueSetReplace {
        set: ValueSetId,
        values: Vec<Vec<BigUint>>,
    },
    HashParameters {
        calculation: CalculationId,
        parameters: Parameters,
    },
}

impl Write {
    /// Apply it. False when the replica refuses, which it has no reason to.
    pub fn apply(self, replica: &mut dyn Replica) -> bool {
        match self {
            Write::State(write) => {
                replica.see(&write);
                replica.state().is_some_and(|state| write.apply(state))
            }
            Write::Pre(write) => {
                let touched = replica.pre().touched(&write);
                let done = replica.pre().apply(write).is_ok();
                replica.pre_changed(touched);
                done
            }
            Write::Mirror { id, session } => {
                replica.set_mirror(id, session);
                true
            }
            Write::QueueDepth { port, priority, packets } => {
                replica.set_queue_depth(port, priority, packets);
                true
            }
            Write::QueueRate { port, priority, pps } => {
                replica.set_queue_rate(port, priority, pps);
                true
            }
            Write::AckDigest { list, buffer, sample } => {
                replica.learner().map(|learner| learner.ack(list, buffer, sample)).is_some()
            }
            Write::DigestTimeout { list, timeout_ms } => {
                replica.learner().map(|learner| learner.set_timeout(list, timeout_ms)).is_some()
            }
            Write::DigestMaxSamples { list, samples } => {
                replica.learner().map(|learner| learner.set_max_samples(list, samples)).is_some()
            }
        }
    }
}

impl StateWrite {
    /// Apply it. False when the state refuses, which it has no reason to.
    pub fn apply(self, state: &mut ProgramState) -> bool {
        self.try_apply(state).is_ok()
    }

    fn try_apply(self, state: &mut ProgramState) -> Result<(), StateError> {
        let rates = |rates: &[MeterRate]| -> Option<Vec<Rate>> {
            let rate = |rate: &MeterRate| Rate { per_us: rate.units_per_us, burst: rate.burst.into() };
            (!rates.is_empty()).then(|| rates.iter().map(rate).collect())
        };
        match self {
            StateWrite::Insert { table, handle, key, priority, action } => {
                state.insert(table, handle, &key, priority, &action)
            }
            StateWrite::Modify { table, handle, action } => state.modify(table, handle, &action),
            StateWrite::Remove { table, handle } => state.remove(table, handle),
            StateWrite::Clear { table } => state.clear(table),
            StateWrite::SetDefault { table, action } => state.set_default(table, action.as_ref()),
            StateWrite::InsertMember { profile, member, call } => state.insert_member(profile, member, &call),
            StateWrite::ModifyMember { profile, member, call } => state.modify_member(profile, member, &call),
            StateWrite::RemoveMember { profile, member } => state.remove_member(profile, member),
            StateWrite::SetGroup { profile, group, members } => state.set_group(profile, group, &members),
            StateWrite::RemoveGroup { profile, group } => state.remove_group(profile, group),
            StateWrite::Counters { counter, from, to, value } => {
                state.write_counter(counter, from..to, value.packets, value.bytes)
            }
            StateWrite::AddCounters { counter, from, values } => {
                values.into_iter().zip(from..).try_for_each(|(value, at)| {
                    let [packets, bytes] = state.read_counter(counter, at)?;
                    let (packets, bytes) =
                        (packets.wrapping_add(value.packets), bytes.wrapping_add(value.bytes));
                    state.write_counter(counter, at..at + 1, packets, bytes)
                })
            }
            StateWrite::AddDirectCounters { table, values } => {
                values.into_iter().try_for_each(|(at, value)| {
                    // An entry that was deleted meanwhile has no counter any more.
                    let Ok(stats) = state.stats(table, Some(at)) else { return Ok(()) };
                    let (packets, bytes) =
                        (stats.packets.wrapping_add(value.packets), stats.bytes.wrapping_add(value.bytes));
                    state.set_direct_counter(table, Some(at), packets, bytes)
                })
            }
            StateWrite::DirectCounter { table, handle, value } => {
                state.set_direct_counter(table, Some(handle), value.packets, value.bytes)
            }
            StateWrite::ResetDirectCounters { table, from, count } => {
                if let Some(table) = state.tables.get_mut(table.at()) {
                    table.reset_counters(from, count);
                }
                Ok(())
            }
            StateWrite::Meter { meter, from, to, rates: new } => {
                let new = rates(&new);
                (from..to).try_for_each(|index| state.set_meter(meter, index, new.as_deref()))
            }
            StateWrite::DirectMeter { table, handle, rates: new } => {
                state.set_direct_meter(table, handle, rates(&new).as_deref())
            }
            StateWrite::Registers { register, from, to, value } => {
                state.write_register(register, from..to, &value)
            }
            StateWrite::ValueSetAdd { set, value } => state.add_to_set(set, value),
            StateWrite::ValueSetRemove { set, value } => state.remove_from_set(set, &value).map(|_| ()),
            StateWrite::ValueSetReplace { set, values } => state.replace_set(set, values),
            StateWrite::HashParameters { calculation, parameters } => {
                state.set_hash_parameters(calculation, Some(parameters))
            }
        }
    }
}
