//! All state of one program, and every operation on it.

use crate::arrays::{CounterState, RegisterState};
use crate::error::{EntryError, StateError, Subject};
use crate::meter::MeterState;
use crate::profile::ProfileState;
use crate::table::{ActionInfo, EntryStats, Garbage, TableState};
use crate::value_set::ValueSetState;
use crate::{ACTION, ARGS, GROUP, HIT, MAX_GARBAGE, MAX_LOGS, MEMBER, account};
use barewire_base::Prng;
use barewire_p4::hash::Parameters;
use barewire_p4::ir::{
    ActionCall, ActionId, CalculationId, CounterId, MeterId, ProfileId, Program, RegisterId, TableActions,
    TableId, ValueSetId,
};
use barewire_p4::key::MatchParam;
use barewire_p4::state::{Applied, Rate, State, TableAction};
use num_bigint::BigUint;
use std::collections::VecDeque;

/// What a running program remembers between packets. One engine thread owns it.
#[derive(Debug)]
pub struct ProgramState {
    /// Tables, in the program's order.
    pub tables: Vec<TableState>,
    /// Action profiles.
    pub profiles: Vec<ProfileState>,
    /// Counter arrays; those of tables are empty here.
    pub counters: Vec<CounterState>,
    /// Meter arrays; those of tables are indexed by handle.
    pub meters: Vec<MeterState>,
    /// Register arrays.
    pub registers: Vec<RegisterState>,
    /// Parser value sets.
    pub value_sets: Vec<ValueSetState>,
    calculations: Vec<(String, Option<Parameters>)>,
    random: Prng,
    logs: VecDeque<String>,
    logs_dropped: u64,
    garbage: Vec<Garbage>,
}

/// What applying a table came to.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// Whether an entry matched.
    pub hit: bool,
    /// The action's position in the table's actions plus 1; 0: none.
    pub action: u32,
    /// The record of the entry, or of the profile's member: the arguments start at word [`ARGS`].
    pub record: &'a mut [u64],
    /// The colour of the entry's direct meter, when the table has one and an entry matched.
    pub color: Option<u64>,
    /// The entry that matched.
    pub handle: Option<u32>,
}

macro_rules! object {
    ($get:ident, $field:ident, $id:ty, $state:ty, $subject:ident) => {
        fn $get(&mut self, id: $id) -> Result<&mut $state, StateError> {
            self.$field.get_mut(id.at()).ok_or(StateError::NoSuch { subject: Subject::$subject, id: id.0 })
        }
    };
}

fn refuse(subject: Subject, name: &str) -> impl FnOnce(EntryError) -> StateError {
    move |source| StateError::Refused { subject, name: name.to_owned(), source }
}

macro_rules! on {
    ($subject:ident, $object:expr, $call:expr) => {{
        let object = $object;
        match $call(&mut *object) {
            Ok(done) => Ok(done),
            Err(source) => Err(refuse(Subject::$subject, &object.name)(source)),
        }
    }};
}

impl ProgramState {
    /// The state of a program that has just been loaded: no entries, no default entries, everything 0. Random numbers start from
    /// a secret seed.
    pub fn new(program: &Program) -> ProgramState {
        let actions = ActionInfo::all(program);
        let profile_words = |profile: usize| {
            let users = program
                .tables
                .iter()
                .filter(|table| matches!(table.source, TableActions::Profile(id) if id.at() == profile));
            let used =
                users.flat_map(|table| table.actions.iter()).map(|action| actions[action.at()].words());
            used.max().unwrap_or_else(|| actions.iter().map(ActionInfo::words).max().unwrap_or(0))
        };
        ProgramState {
            tables: program
                .tables
                .iter()
                .map(|table| TableState::new(table, program, actions.clone()))
                .collect(),
            profiles: program
                .profiles
                .iter()
                .enumerate()
                .map(|(at, profile)| ProfileState::new(profile, profile_words(at), actions.clone()))
                .collect(),
            counters: program.counters.iter().map(CounterState::new).collect(),
            meters: program.meters.iter().map(MeterState::new).collect(),
            registers: program.registers.iter().map(RegisterState::new).collect(),
            value_sets: program.value_sets.iter().map(ValueSetState::new).collect(),
            calculations: program
                .calculations
                .iter()
                .map(|calculation| (calculation.name.clone(), None))
                .collect(),
            random: Prng::new(crate::hash::Seeds::new().hash1(0)),
            logs: VecDeque::new(),
            logs_dropped: 0,
            garbage: Vec::new(),
        }
    }

    /// The same with the program's default entries and entries, whose handles are their positions. Entries that a table refuses
    /// (two with one key) are left out, as are those of tables with profiles.
    pub fn with_program_entries(program: &Program) -> ProgramState {
        let mut state = ProgramState::new(program);
        for (table, of) in program.tables.iter().zip(&mut state.tables) {
            if let Some(default) = &table.default {
                let _ = of.set_default(Some(&TableAction::Call(default.clone())));
            }
            for (handle, entry) in table.entries.iter().enumerate() {
                let action = TableAction::Call(entry.call.clone());
                let _ = of.insert(handle as u32, &entry.key, entry.priority, &action);
            }
        }
        state
    }

    /// Start random numbers anew from a seed.
    pub fn seed_random(&mut self, seed: u64) {
        self.random = Prng::new(seed);
    }

    object!(table, tables, TableId, TableState, Table);
    object!(profile, profiles, ProfileId, ProfileState, Profile);
    object!(counter, counters, CounterId, CounterState, Counter);
    object!(meter_array, meters, MeterId, MeterState, Meter);
    object!(register_array, registers, RegisterId, RegisterState, Register);
    object!(value_set, value_sets, ValueSetId, ValueSetState, ValueSet);

    /// A member or group must be there when an entry names it.
    fn check_reference(&mut self, table: TableId, action: &TableAction) -> Result<(), StateError> {
        let profile = self.table(table)?.profile;
        let Some(profile) = profile else { return Ok(()) };
        let profile = &self.profiles[profile.at()];
        let error = match *action {
            TableAction::Member(member) if !profile.has_member(member) => EntryError::NoMember { member },
            TableAction::Group(group) if !profile.has_group(group) => EntryError::NoGroup { group },
            _ => return Ok(()),
        };
        Err(refuse(Subject::Profile, &profile.name)(error))
    }

    /// Add an entry under a handle that is free and below [`crate::MAX_HANDLES`]. Handles should be dense: records are indexed by them.
    pub fn insert(
        &mut self,
        table: TableId,
        handle: u32,
        params: &[MatchParam],
        priority: u32,
        action: &TableAction,
    ) -> Result<(), StateError> {
        self.check_reference(table, action)?;
        on!(Table, self.table(table)?, |of: &mut TableState| of.insert(handle, params, priority, action))
    }

    /// Give an entry another action; its counters go on.
    pub fn modify(&mut self, table: TableId, handle: u32, action: &TableAction) -> Result<(), StateError> {
        self.check_reference(table, action)?;
        on!(Table, self.table(table)?, |of: &mut TableState| of.modify(handle, action))
    }

    /// Remove an entry and what its direct meter was set to.
    pub fn remove(&mut self, table: TableId, handle: u32) -> Result<(), StateError> {
        on!(Table, self.table(table)?, |of: &mut TableState| of.remove(handle))?;
        if let Some(meter) = self.tables[table.at()].meter {
            on!(Meter, self.meter_array(meter)?, |of: &mut MeterState| of.reset(handle.into()))?;
        }
        Ok(())
    }

    /// Remove all entries of a table; its default entry stays.
    pub fn clear(&mut self, table: TableId) -> Result<(), StateError> {
        let of = self.table(table)?;
        let meter = of.meter;
        let garbage = of.clear();
        self.discard(garbage);
        if let Some(meter) = meter {
            self.meter_array(meter)?.reset_all();
        }
        Ok(())
    }

    /// Set a table's default entry; none does nothing on a miss.
    pub fn set_default(&mut self, table: TableId, action: Option<&TableAction>) -> Result<(), StateError> {
        if let Some(action) = action {
            self.check_reference(table, action)?;
        }
        on!(Table, self.table(table)?, |of: &mut TableState| of.set_default(action))
    }

    fn discard(&mut self, garbage: Garbage) {
        if self.garbage.len() < MAX_GARBAGE {
            self.garbage.push(garbage);
        }
    }

    /// What clearing tables left behind, to be dropped on a thread that may stall. (Beyond [`MAX_GARBAGE`] pieces it is
    /// dropped at once.)
    pub fn take_garbage(&mut self) -> Vec<Garbage> {
        std::mem::take(&mut self.garbage)
    }

    /// What was counted of an entry; of misses, without a handle.
    pub fn stats(&self, table: TableId, handle: Option<u32>) -> Result<EntryStats, StateError> {
        let of = self.tables.get(table.at());
        let of = of.ok_or(StateError::NoSuch { subject: Subject::Table, id: table.0 })?;
        of.stats(handle).map_err(refuse(Subject::Table, &of.name))
    }

    /// When an entry was hit last, in microseconds of the engine's clock.
    pub fn hits(&self, table: TableId, handle: u32) -> Result<u64, StateError> {
        Ok(self.stats(table, Some(handle))?.last_hit_us)
    }

    /// Set an entry's direct counter; that of misses, without a handle.
    pub fn set_direct_counter(
        &mut self,
        table: TableId,
        handle: Option<u32>,
        packets: u64,
        bytes: u64,
    ) -> Result<(), StateError> {
        on!(Table, self.table(table)?, |of: &mut TableState| of.set_counter(handle, packets, bytes))
    }

    /// Say that an entry was hit at a time, by somebody else who looks at a copy of it.
    pub fn touch(&mut self, table: TableId, handle: u32, at_us: u64) -> Result<(), StateError> {
        on!(Table, self.table(table)?, |of: &mut TableState| of.touch(handle, at_us))
    }

    /// Let an entry time out when it has not been hit for so long; 0: never. It starts to age now.
    pub fn set_ttl(
        &mut self,
        table: TableId,
        handle: u32,
        ttl_us: u64,
        now_us: u64,
    ) -> Result<(), StateError> {
        on!(Table, self.table(table)?, |of: &mut TableState| of.set_ttl(handle, ttl_us, now_us))
    }

    /// Look for idle entries: see [`TableState::idle`].
    pub fn idle(
        &mut self,
        table: TableId,
        now_us: u64,
        budget: u32,
        handles: &mut Vec<u32>,
    ) -> Result<bool, StateError> {
        Ok(self.table(table)?.idle(now_us, budget, handles))
    }

    fn direct_meter(&mut self, table: TableId, handle: u32) -> Result<MeterId, StateError> {
        let of = self.table(table)?;
        let meter = of.stats(Some(handle)).and_then(|_| of.meter.ok_or(EntryError::NoMeter));
        meter.map_err(refuse(Subject::Table, &of.name))
    }

    /// Configure an entry's direct meter; none makes it as one never configured.
    pub fn set_direct_meter(
        &mut self,
        table: TableId,
        handle: u32,
        rates: Option<&[Rate]>,
    ) -> Result<(), StateError> {
        let meter = self.direct_meter(table, handle)?;
        self.set_meter(meter, handle.into(), rates)
    }

    /// The rates of an entry's direct meter.
    pub fn direct_meter_rates(
        &mut self,
        table: TableId,
        handle: u32,
    ) -> Result<Option<Vec<Rate>>, StateError> {
        let meter = self.direct_meter(table, handle)?;
        on!(Meter, self.meter_array(meter)?, |of: &mut MeterState| of.rates(handle.into()))
    }

    /// Configure a meter, from the lowest rate to the highest; none makes it as one never configured.
    pub fn set_meter(
        &mut self,
        meter: MeterId,
        index: u64,
        rates: Option<&[Rate]>,
    ) -> Result<(), StateError> {
        on!(Meter, self.meter_array(meter)?, |of: &mut MeterState| match rates {
            Some(rates) => of.set_rates(index, rates),
            None => of.reset(index),
        })
    }

    /// Packets and bytes of a counter.
    pub fn read_counter(&mut self, counter: CounterId, index: u64) -> Result<[u64; 2], StateError> {
        on!(Counter, self.counter(counter)?, |of: &mut CounterState| of.read(index))
    }

    /// Set the counters of a range of indices.
    pub fn write_counter(
        &mut self,
        counter: CounterId,
        range: std::ops::Range<u64>,
        packets: u64,
        bytes: u64,
    ) -> Result<(), StateError> {
        on!(Counter, self.counter(counter)?, |of: &mut CounterState| of.write(range, packets, bytes))
    }

    /// A register's value; an index that is not there is an error here.
    pub fn read_register(&mut self, register: RegisterId, index: u64) -> Result<BigUint, StateError> {
        on!(Register, self.register_array(register)?, |of: &mut RegisterState| {
            crate::check_index(index, of.size).map(|_| of.get_wide(index))
        })
    }

    /// Write one value's low bits to a range of registers.
    pub fn write_register(
        &mut self,
        register: RegisterId,
        range: std::ops::Range<u64>,
        value: &BigUint,
    ) -> Result<(), StateError> {
        on!(Register, self.register_array(register)?, |of: &mut RegisterState| of.fill(range, value))
    }

    /// Add a member to a profile under a number of the caller's.
    pub fn insert_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: &ActionCall,
    ) -> Result<(), StateError> {
        on!(Profile, self.profile(profile)?, |of: &mut ProfileState| of.insert_member(member, call))
    }

    /// Give a member another action.
    pub fn modify_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: &ActionCall,
    ) -> Result<(), StateError> {
        on!(Profile, self.profile(profile)?, |of: &mut ProfileState| of.modify_member(member, call))
    }

    /// Remove a member. Entries and groups that still name it run no action.
    pub fn remove_member(&mut self, profile: ProfileId, member: u32) -> Result<(), StateError> {
        on!(Profile, self.profile(profile)?, |of: &mut ProfileState| of.remove_member(member))
    }

    /// Make a group, or give it other members with their weights: see [`ProfileState::set_group`].
    pub fn set_group(
        &mut self,
        profile: ProfileId,
        group: u32,
        members: &[(u32, u32)],
    ) -> Result<(), StateError> {
        on!(Profile, self.profile(profile)?, |of: &mut ProfileState| of.set_group(group, members))
    }

    /// Remove a group. Entries that still name it run no action.
    pub fn remove_group(&mut self, profile: ProfileId, group: u32) -> Result<(), StateError> {
        on!(Profile, self.profile(profile)?, |of: &mut ProfileState| of.remove_group(group))
    }

    /// Add a value to a value set, one number a part.
    pub fn add_to_set(&mut self, set: ValueSetId, parts: Vec<BigUint>) -> Result<(), StateError> {
        on!(ValueSet, self.value_set(set)?, |of: &mut ValueSetState| of.add(parts))
    }

    /// Remove a value from a value set; whether it was there.
    pub fn remove_from_set(&mut self, set: ValueSetId, parts: &[BigUint]) -> Result<bool, StateError> {
        on!(ValueSet, self.value_set(set)?, |of: &mut ValueSetState| of.remove(parts))
    }

    /// Put other values in the place of all of a value set.
    pub fn replace_set(&mut self, set: ValueSetId, values: Vec<Vec<BigUint>>) -> Result<(), StateError> {
        on!(ValueSet, self.value_set(set)?, |of: &mut ValueSetState| of.replace(values))
    }

    /// Set a calculation's parameters; none gives it its own again.
    pub fn set_hash_parameters(
        &mut self,
        calculation: CalculationId,
        parameters: Option<Parameters>,
    ) -> Result<(), StateError> {
        let slot = self.calculations.get_mut(calculation.at());
        slot.ok_or(StateError::NoSuch { subject: Subject::Calculation, id: calculation.0 })?.1 = parameters;
        Ok(())
    }

    /// The messages since the last call, the oldest first, and how many were lost for want of room.
    pub fn take_logs(&mut self) -> (Vec<String>, u64) {
        (self.logs.drain(..).collect(), std::mem::take(&mut self.logs_dropped))
    }

    /// Everything as [`ProgramState::new`] made it, but for the random numbers.
    pub fn reset(&mut self) {
        for at in 0..self.tables.len() {
            let garbage = self.tables[at].reset();
            self.discard(garbage);
        }
        self.profiles.iter_mut().for_each(ProfileState::reset);
        self.counters.iter_mut().for_each(CounterState::reset);
        self.meters.iter_mut().for_each(MeterState::reset_all);
        self.registers.iter_mut().for_each(RegisterState::reset);
        self.value_sets.iter_mut().for_each(ValueSetState::clear);
        self.calculations.iter_mut().for_each(|(_, parameters)| *parameters = None);
        (self.logs, self.logs_dropped) = (VecDeque::new(), 0);
    }

    /// Apply a table: look it up, count, meter, and follow its entry to the profile's member. `table` must be one of the
    /// program's.
    pub fn apply_into(
        &mut self,
        table: TableId,
        key: &[u64],
        packet_len: u64,
        now_us: u64,
        selector_hash: &mut dyn FnMut() -> u64,
    ) -> Outcome<'_> {
        let of = &mut self.tables[table.at()];
        let index = of.find_index(key);
        let record = of.record(index);
        account(record, packet_len, now_us);
        let (word, first) = (record[ACTION], record[ARGS] as u32);
        let handle = index.checked_sub(1);
        let hit = word & HIT != 0;
        let color = match (of.meter, handle) {
            (Some(meter), Some(handle)) => {
                Some(self.meters[meter.at()].execute(handle.into(), packet_len, now_us, 0))
            }
            _ => None,
        };
        let profile = match of.profile {
            Some(profile) if word & (MEMBER | GROUP) != 0 => &mut self.profiles[profile.at()],
            _ => {
                let (action, record) = (word as u32, of.record(index));
                return Outcome { hit, action, record, color, handle };
            }
        };
        let member = if word & MEMBER != 0 { Some(first) } else { profile.choose(first, selector_hash) };
        match member.and_then(|member| profile.record(member)) {
            Some(record) => {
                let action = of.position(record[ACTION] - 1);
                Outcome { hit, action, record, color, handle }
            }
            None => Outcome { hit, action: 0, record: of.record(index), color, handle },
        }
    }
}

impl State for ProgramState {
    fn apply(
        &mut self,
        table: TableId,
        key: &[u64],
        packet_len: u64,
        now_us: u64,
        selector_hash: &mut dyn FnMut() -> u64,
    ) -> Applied {
        let outcome = self.apply_into(table, key, packet_len, now_us, selector_hash);
        let Outcome { hit, action: position, color, handle, .. } = outcome;
        let room = outcome.record[ARGS..].to_vec();
        let of = &self.tables[table.at()];
        let action = of.number(position);
        let args = action.map_or(Vec::new(), |action| room[..of.words_of(action)].to_vec());
        Applied { hit, action: action.map(ActionId), args, color, handle: handle.map(u64::from) }
    }

    fn count(&mut self, counter: CounterId, index: u64, packet_len: u64) {
        if let Some(counter) = self.counters.get_mut(counter.at()) {
            counter.count(index, packet_len);
        }
    }

    fn meter(&mut self, meter: MeterId, index: u64, packet_len: u64, now_us: u64, precolor: u64) -> u64 {
        let meter = self.meters.get_mut(meter.at());
        meter.map_or(0, |meter| meter.execute(index, packet_len, now_us, precolor))
    }

    fn register(&mut self, register: RegisterId, index: u64) -> BigUint {
        self.registers.get(register.at()).map_or(BigUint::ZERO, |register| register.get_wide(index))
    }

    fn set_register(&mut self, register: RegisterId, index: u64, value: &BigUint) {
        if let Some(register) = self.registers.get_mut(register.at()) {
            register.set_wide(index, value);
        }
    }

    fn value_set_contains(&mut self, set: ValueSetId, parts: &[BigUint], mask: Option<&[BigUint]>) -> bool {
        self.value_sets.get(set.at()).is_some_and(|set| set.contains(parts, mask))
    }

    fn random(&mut self, low: u64, high: u64) -> u64 {
        match high.checked_sub(low) {
            None => low,
            Some(u64::MAX) => self.random.next_u64(),
            Some(span) => low + self.random.below(span + 1),
        }
    }

    fn log(&mut self, message: &str) {
        if self.logs.len() < MAX_LOGS {
            self.logs.push_back(message.to_owned());
        } else {
            self.logs_dropped += 1;
        }
    }

    fn hash_parameters(&self, calculation: CalculationId) -> Option<&Parameters> {
        self.calculations.get(calculation.at())?.1.as_ref()
    }
}
