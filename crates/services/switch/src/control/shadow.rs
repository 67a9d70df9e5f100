//! Shadows: switches without engines on which a program is filled before it runs. A shadow is put in the place of the
//! running program whole, between two packets: so no packet meets half-filled tables, and what fails leaves the running
//! program as it was.

use super::programs::{Master, Staged, ToOld, View};
use super::switch::{CHUNK, Result, Switch, SwitchConfig};
use super::{ControlError, CounterValue, ErrorKind, Notification};
use crate::kernel::Fold;
use crate::prepared::Prepared;
use crate::store::{StateWrite, Write, read};
use barewire_p4::ir::{CounterId, Program, TableId};
use barewire_p4_state::ProgramState;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Counters that go on counting when a shadow takes the place of the running program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CarriedCounters {
    /// Counter arrays: the running program's, the shadow's. Counters beyond the smaller of the two are not carried.
    pub arrays: Vec<(CounterId, CounterId)>,
    /// Entries with direct counters: table and handle in the running program, the same in the shadow.
    pub entries: Vec<((TableId, u64), (TableId, u64))>,
}

/// What a program that takes the place of another finds of what is the switch's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Takeover {
    /// The multicast groups and mirror sessions that were written to the shadow, and no others.
    Fresh,
    /// The switch's multicast groups and mirror sessions as they are, and what was read of the running program for the shadow.
    Keep {
        /// Counters that go on counting.
        carried: CarriedCounters,
        /// The [`Switch::version`] from before anything was read.
        version: u64,
    },
}

/// Direct counters of one table, by the replicas' indices: in the old state, in the new one.
type Records = Vec<(u32, u32)>;

/// Carried counters as the replicas know them, the old one's first.
#[derive(Default)]
struct Places {
    /// With how many of each.
    arrays: Vec<(CounterId, CounterId, u64)>,
    tables: Vec<(TableId, TableId, Records)>,
}

impl Places {
    /// What of it a kernel may have counted.
    fn folds(&self) -> Arc<[Fold]> {
        let arrays = self.arrays.iter().map(|&(old, _, size)| Fold::Counters(old, 0, size));
        let table = |(old, _, records): &(TableId, TableId, Records)| {
            Fold::Direct(*old, records.iter().map(|(from, _)| *from).collect())
        };
        arrays.chain(self.tables.iter().map(table)).collect()
    }
}

/// Sums over the engines' states: for each array and each record what is to be added.
struct Sums {
    arrays: Vec<(CounterId, Vec<CounterValue>)>,
    records: Vec<(TableId, Vec<(u32, CounterValue)>)>,
}

fn add(sum: &mut CounterValue, value: CounterValue) {
    *sum = [*sum, value].into_iter().sum();
}

/// What engines counted in the states that they had.
fn sum_up(states: &mut [ProgramState], places: &Places) -> Sums {
    let array = |&(old, new, size): &(CounterId, CounterId, u64)| {
        let mut sums = vec![CounterValue::default(); usize::try_from(size).unwrap_or(0)];
        for state in states.iter_mut() {
            let values = read::counters(Some(state), old, 0, size);
            sums.iter_mut().zip(values).for_each(|(sum, value)| add(sum, value));
        }
        (new, sums)
    };
    let arrays = places.arrays.iter().map(array).collect();
    let table = |(old, new, records): &(TableId, TableId, Records)| {
        let from: Vec<u32> = records.iter().map(|(from, _)| *from).collect();
        let mut sums: Vec<(u32, CounterValue)> =
            records.iter().map(|(_, to)| (*to, CounterValue::default())).collect();
        for state in states.iter_mut() {
            let values = read::direct_counters(Some(state), *old, &from);
            sums.iter_mut().zip(values).for_each(|((_, sum), value)| add(sum, value));
        }
        (*new, sums)
    };
    Sums { arrays, records: places.tables.iter().map(table).collect() }
}

impl Sums {
    /// The writes, in pieces that hold no engine up; nothing for what is 0.
    fn writes(self) -> impl Iterator<Item = StateWrite> {
        let zero = CounterValue::default();
        let arrays = self.arrays.into_iter().flat_map(move |(counter, sums)| {
            let piece = move |(at, values): (usize, &[CounterValue])| StateWrite::AddCounters {
                counter,
                from: (at as u64) * CHUNK,
                values: values.to_vec(),
            };
            let pieces = sums.chunks(CHUNK as usize).enumerate();
            pieces
                .filter(|(_, values)| values.iter().any(|value| *value != zero))
                .map(piece)
                .collect::<Vec<_>>()
        });
        let records = self.records.into_iter().flat_map(move |(table, mut sums)| {
            sums.retain(|(_, value)| *value != zero);
            let piece = move |values: &[(u32, CounterValue)]| StateWrite::AddDirectCounters {
                table,
                values: values.to_vec(),
            };
            sums.chunks(CHUNK as usize).map(piece).collect::<Vec<_>>()
        });
        arrays.chain(records)
    }
}

impl Switch {
    /// The program that runs, made ready; none before one does.
    pub fn prepared(&self) -> Option<Arc<Prepared>> {
        self.lock().master(&View::Running).ok().map(|master| Arc::clone(&master.prepared))
    }

    /// The program that runs and the [`Switch::epoch`] at which it began, with the state it has; none before one does. For who
    /// gets dated notifications ([`Switch::subscribe_dated`]).
    pub fn running(&self) -> Option<(Arc<Program>, u64)> {
        let control = self.lock();
        let running = control.running.as_ref()?;
        Some((Arc::clone(&running.prepared.program), control.began))
    }

    /// Counts how often another program or all of another state was put in place, by whichever control plane: entries,
    /// groups and sessions that were known before may be gone when it has changed.
    pub fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    /// Counts what control planes write to the running program and to what is the switch's: what was read is as it was while
    /// this has not changed. (A refused write may count too.)
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// A switch without engines that takes every write to this program, until [`Switch::commit_shadow`]. Registers,
    /// counters, multicast groups and mirror sessions are its own.
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`] when the program's own entries break its own rules.
    pub fn shadow(&self, prepared: Arc<Prepared>) -> Result<Switch> {
        let own = &self.inner.config;
        let config = SwitchConfig {
            device_id: own.device_id,
            drop_port: own.drop_port,
            cpu_port: own.cpu_port,
            engine: prepared.kind,
            replication: own.replication,
            sweep_interval: Duration::ZERO,
            ..SwitchConfig::default()
        };
        let shadow = Switch::new(config, None)?;
        let mut control = shadow.lock();
        control.is_shadow = true;
        control.staged = Some(Staged::new(Master::new(prepared)?));
        drop(control);
        Ok(shadow)
    }

    /// Run what a shadow holds, whole, from the next packet on; gives the [`Switch::epoch`] that begins. A program that was
    /// staged is dropped. Idle time-outs begin now. No packet is lost. The shadow is empty afterwards.
    ///
    /// # Errors
    /// [`ErrorKind`]: `BadProgram` when the engines cannot run the program, `Unavailable` when one does not catch up: then
    /// nothing has changed, and the shadow is as it was; so with `Overtaken`, when the version to keep is not that of the switch:
    /// what was written since would be undone. `NoOngoingSwap` when this is no shadow, or an empty one.
    pub fn commit_shadow(&self, shadow: &Switch, takeover: Takeover) -> Result<u64> {
        let none = || ControlError::new(ErrorKind::NoOngoingSwap, "no program waits on that switch");
        if Arc::ptr_eq(&self.inner, &shadow.inner) {
            return Err(none());
        }
        let now_us = self.time_us();
        let mut control = self.lock_with_room()?;
        // Nobody else locks two switches.
        let mut other = shadow.lock();
        let waiting = other.staged.as_ref().filter(|_| other.is_shadow).ok_or_else(none)?;
        if let Takeover::Keep { version, .. } = takeover
            && version != control.version
        {
            let why = "another control plane has written to the switch since";
            return Err(ControlError::new(ErrorKind::Overtaken, why));
        }
        control.check_engines(&waiting.master.prepared)?;
        let carried = match &takeover {
            Takeover::Keep { carried, .. } => carried.clone(),
            Takeover::Fresh => CarriedCounters::default(),
        };
        let running = control.running.as_ref();
        let places =
            running.map_or_else(Places::default, |running| places(running, &waiting.master, &carried));
        let Some(Staged { mut master, state }) = other.staged.take() else { return Err(none()) };
        master.store.restart_ages(now_us);
        let beside = match takeover {
            Takeover::Keep { .. } => Vec::new(),
            Takeover::Fresh => control.put_traffic(other.pre.clone(), std::mem::take(&mut other.mirrors)),
        };
        drop(other);
        let staged = control.staged.take();
        let wanted = !(places.arrays.is_empty() && places.tables.is_empty());
        let (to, old) = mpsc::channel();
        let to = ToOld { to, carried: places.folds() };
        control.install(master, Some(state), &beside, wanted.then_some(&to), &self.inner.throw_away);
        drop(to);
        let epoch = control.epoch;
        control.tell(Notification::ProgramSwapped);
        drop(control);
        drop(staged);
        if wanted {
            self.add_counted(epoch, &old, &places);
        }
        self.take_out_garbage();
        Ok(epoch)
    }

    /// Add what the old program's states counted to the last packet. An engine that gives none in time is gone, with what
    /// it counted.
    fn add_counted(&self, epoch: u64, old: &mpsc::Receiver<ProgramState>, places: &Places) {
        let mut states: Vec<ProgramState> = Vec::new();
        while let Ok(state) = old.recv_timeout(self.inner.config.answer_timeout) {
            states.push(state);
        }
        for write in sum_up(&mut states, places).writes() {
            let Ok(control) = self.lock_with_room() else { return };
            if control.epoch != epoch {
                return;
            }
            let first = control.links.iter().position(|link| link.is_alive());
            if let Some(first) = first {
                control.links[first].write(&Arc::new(vec![Write::State(write)]));
            }
        }
    }
}

/// The counters that are carried, as engines know them: those that are there and count.
fn places(old: &Master, new: &Master, carried: &CarriedCounters) -> Places {
    let size = |master: &Master, id| master.store.counter_span(id, super::Range::All).map(|(_, to)| to);
    let arrays = carried.arrays.iter().filter_map(|&(from, to)| {
        let size = size(old, from).ok()?.min(size(new, to).ok()?);
        (size > 0).then_some((from, to, size))
    });
    let mut tables: Vec<(TableId, TableId, Records)> = Vec::new();
    for &((from, old_handle), (to, new_handle)) in &carried.entries {
        let counted = |master: &Master, id| master.store.check_direct_counter(id).is_ok();
        let places = (old.store.index(from, old_handle), new.store.index(to, new_handle));
        let (Ok(old_index), Ok(new_index)) = places else { continue };
        if !counted(old, from) || !counted(new, to) {
            continue;
        }
        match tables.iter_mut().find(|(a, b, _)| (*a, *b) == (from, to)) {
            Some((_, _, records)) => records.push((old_index, new_index)),
            None => tables.push((from, to, vec![(old_index, new_index)])),
        }
    }
    Places { arrays: arrays.collect(), tables }
}

#[cfg(test)]
mod tests;
