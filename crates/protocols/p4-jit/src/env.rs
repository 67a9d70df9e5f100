//! What machine code and the functions it calls share, and those functions.
//!
//! Every function here is called by generated code only, with the environment of the call that is under way. None
//! panics: what the tables and the interpreter do is bounded by their own checks (and a panic would abort, as
//! `extern "C"` functions do not unwind).

use crate::delegate::{Delegates, Work};
use crate::gather::GatherPlan;
use barewire_p4::hash;
use barewire_p4::interp::trace::NoTrace;
use barewire_p4::interp::{Context, Plan};
use barewire_p4::ir::{
    CounterId, HashAlgorithm, HeaderId, LearnListId, MeterId, RegisterId, TableId, ValueSetId,
};
use barewire_p4::phv::{Phv, slot};
use barewire_p4::state::State;
use barewire_p4_state::{ProgramState, TableState};

/// What does not change once a program is compiled, for the functions here.
#[derive(Debug)]
pub struct Shared {
    /// The program and what was worked out of it.
    pub plan: Plan,
    /// What the interpreter does.
    pub delegates: Delegates,
    /// For each table the plan of its selector's hash, if it has a selector that one can be made for.
    pub selectors: Vec<Option<GatherPlan>>,
    /// Words of each action's arguments.
    pub args_words: Vec<u32>,
    /// Words of the longest key.
    pub key_words: usize,
    /// Words of the longest record.
    pub record_words: usize,
}

/// Which kind of function runs: where the payload begins depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Mode {
    /// A parser: at its own place.
    Parse,
    /// A pipeline: where the parser ended.
    Run,
    /// A deparser: the packet is the payload.
    Deparse,
}

/// The environment of a call. Machine code knows the offsets of the members it reads.
#[repr(C)]
#[derive(Debug)]
pub struct Env {
    /// The state, for this call.
    pub state: *mut ProgramState,
    /// The vector, for this call.
    pub phv: *mut Phv,
    /// The packet, for this call.
    pub packet: *const u8,
    /// Its length.
    pub packet_len: usize,
    /// What runs.
    pub mode: Mode,
    /// The parser's place, where delegates need it.
    pub at: u64,
    /// After [`apply`]: the action's position plus 1.
    pub applied_action: u64,
    /// After [`apply`]: 1 for a hit.
    pub applied_hit: u64,
    /// After [`apply`]: 1 when there is a colour.
    pub applied_has_color: u64,
    /// After [`apply`]: the colour.
    pub applied_color: u64,
    /// Where keys are built: `shared.key_words` words.
    pub key: *mut u64,
    /// A record of zeros, for states that are not of this program.
    pub blank: *mut u64,
    /// The program.
    pub shared: *const Shared,
    /// Where calculations gather their input.
    pub bytes: Vec<u8>,
    /// The arguments of an action, while the interpreter does something for it.
    pub args: Vec<u64>,
}

impl Env {
    fn place(&self) -> usize {
        let at = match self.mode {
            Mode::Parse => self.at,
            // SAFETY: during a call `phv` is the caller's exclusive borrow; machine code does not run meanwhile.
            Mode::Run => unsafe { &*self.phv }.slot(slot::PARSED),
            Mode::Deparse => 0,
        };
        usize::try_from(at).unwrap_or(usize::MAX).min(self.packet_len)
    }

    fn packet(&self) -> &[u8] {
        // SAFETY: pointer and length are of the slice that the engine was called with, borrowed for the whole call.
        unsafe { std::slice::from_raw_parts(self.packet, self.packet_len) }
    }
}

/// Borrow what an environment points to.
///
/// # Safety
/// `env` is the environment of the call under way, and nothing else borrows from it: helpers are called by machine
/// code, one at a time, and machine code holds no Rust references.
unsafe fn parts<'a>(env: *mut Env) -> (&'a mut Env, &'a mut ProgramState, &'a mut Phv, &'a Shared) {
    // SAFETY: the caller's promise for `env`; its pointers were set from exclusive borrows of distinct objects that last
    // for the whole call (see `Compiled::call`), and `shared` from a borrow of what the engine owns.
    unsafe {
        let env = &mut *env;
        let (state, phv, shared) = (&mut *env.state, &mut *env.phv, &*env.shared);
        (env, state, phv, shared)
    }
}

/// A table number and the words its record must have, as one word.
pub fn table_word(table: TableId, words: usize) -> u64 {
    u64::from(table.0) | (words as u64) << 32
}

fn record(
    env: &mut Env,
    state: &mut ProgramState,
    table: u64,
    find: impl FnOnce(&mut TableState) -> &mut [u64],
) -> *mut u64 {
    let (index, words) = ((table & 0xffff_ffff) as usize, (table >> 32) as usize);
    if let Some(table) = state.tables.get_mut(index) {
        let record = find(table);
        // Machine code reads this far: another program's state must not be read beyond its records.
        if record.len() >= words {
            return record.as_mut_ptr();
        }
    }
    env.blank
}

/// The record of a table without key.
///
/// # Safety
/// As all functions here: called by machine code with the environment of the call under way.
pub unsafe extern "C" fn find0(env: *mut Env, table: u64) -> *mut u64 {
    // SAFETY: see above.
    let (env, state, _, _) = unsafe { parts(env) };
    record(env, state, table, |table| table.find(&[]))
}

/// The record for a key of one word.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn find1(env: *mut Env, table: u64, k0: u64) -> *mut u64 {
    // SAFETY: see above.
    let (env, state, _, _) = unsafe { parts(env) };
    record(env, state, table, |table| table.find1(k0))
}

/// The record for a key of one word that is one prefix.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn find1_prefix(env: *mut Env, table: u64, k0: u64) -> *mut u64 {
    // SAFETY: see above.
    let (env, state, _, _) = unsafe { parts(env) };
    record(env, state, table, |table| table.find1_prefix(k0))
}

/// The record for a key of two words.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn find2(env: *mut Env, table: u64, k0: u64, k1: u64) -> *mut u64 {
    // SAFETY: see above.
    let (env, state, _, _) = unsafe { parts(env) };
    record(env, state, table, |table| table.find2(k0, k1))
}

/// The record for the key in the environment.
///
/// # Safety
/// See [`find0`]; machine code wrote `words` words of the key, at most `shared.key_words`.
pub unsafe extern "C" fn find(env: *mut Env, table: u64, words: u64) -> *mut u64 {
    // SAFETY: see above.
    let (env, state, _, shared) = unsafe { parts(env) };
    let words = (words as usize).min(shared.key_words);
    // SAFETY: `key` points to `key_words` words that the engine owns apart from the environment.
    let key = unsafe { std::slice::from_raw_parts(env.key, words) };
    record(env, state, table, |table| table.find(key))
}

/// Apply a table with a profile or a direct meter: the record of the action to run, the rest in the environment.
///
/// # Safety
/// See [`find`].
pub unsafe extern "C" fn apply(env: *mut Env, table: u64, words: u64) -> *mut u64 {
    // SAFETY: see above.
    let (env, state, phv, shared) = unsafe { parts(env) };
    let (index, need) = ((table & 0xffff_ffff) as usize, (table >> 32) as usize);
    (env.applied_action, env.applied_hit, env.applied_has_color, env.applied_color) = (0, 0, 0, 0);
    if index >= state.tables.len() || index >= shared.plan.program.tables.len() {
        return env.blank;
    }
    let words = (words as usize).min(shared.key_words);
    // SAFETY: `key` points to `key_words` words that the engine owns apart from the environment.
    let key = unsafe { std::slice::from_raw_parts(env.key, words) };
    let (len, now) = (phv.slot(slot::PACKET_LEN), phv.slot(slot::NOW_US));
    let place = env.place();
    // SAFETY: pointer and length are of the slice that the engine was called with.
    let packet = unsafe { std::slice::from_raw_parts(env.packet, env.packet_len) };
    let payload = packet.get(place..).unwrap_or(&[]);
    let table = TableId(index as u32);
    let outcome = match (&shared.selectors[index], &shared.plan.program.tables[index].source) {
        (Some(plan), _) => {
            let bytes = &mut env.bytes;
            let mut selector_hash = || {
                if plan.algorithm == HashAlgorithm::RoundRobin {
                    return 0;
                }
                plan.gather(phv, payload, bytes);
                hash::hash(plan.algorithm, None, bytes)
            };
            state.apply_into(table, key, len, now, &mut selector_hash)
        }
        (None, barewire_p4::ir::TableActions::Profile(profile)) => {
            // Its input needs the interpreter, which needs the state: ask before it is busy.
            let mut tracer = NoTrace;
            let mut context = Context::new(&shared.plan, phv, packet, state, &mut tracer);
            context.at = place;
            let hash = context.selector_hash(*profile).unwrap_or(0);
            state.apply_into(table, key, len, now, &mut || hash)
        }
        (None, barewire_p4::ir::TableActions::Direct) => state.apply_into(table, key, len, now, &mut || 0),
    };
    if outcome.record.len() < need {
        return env.blank;
    }
    env.applied_action = u64::from(outcome.action);
    env.applied_hit = u64::from(outcome.hit);
    env.applied_has_color = u64::from(outcome.color.is_some());
    env.applied_color = outcome.color.unwrap_or(0);
    outcome.record.as_mut_ptr()
}

/// Have the interpreter do delegate number `index`.
///
/// # Safety
/// See [`find0`]; `args` is null or points to the arguments of the delegate's action.
pub unsafe extern "C" fn delegate(env: *mut Env, index: u64, args: *const u64) -> u64 {
    // Arguments lie in a table of the state, which the interpreter may change: it gets a copy.
    // SAFETY: see above; the state is not borrowed yet.
    let (shared, copy) = unsafe { (&*(*env).shared, &mut (*env).args) };
    let Some(delegate) = shared.delegates.list.get(index as usize) else { return 0 };
    let words = delegate.action().map_or(0, |action| shared.args_words[action.at()] as usize);
    copy.clear();
    if !args.is_null() && words > 0 {
        // SAFETY: `args` points behind the head of a record that is long enough for the action's arguments ([`record`]
        // checks it against the largest action of the table), and nothing writes to it meanwhile.
        copy.extend_from_slice(unsafe { std::slice::from_raw_parts(args, words) });
    }
    // SAFETY: see above.
    let (env, state, phv, shared) = unsafe { parts(env) };
    let place = env.place();
    let mut at = place as u64;
    // SAFETY: pointer and length are of the slice that the engine was called with.
    let packet = unsafe { std::slice::from_raw_parts(env.packet, env.packet_len) };
    // SAFETY: `key` points to `key_words` words that the engine owns apart from the environment.
    let key = unsafe { std::slice::from_raw_parts_mut(env.key, shared.key_words) };
    let color = env.applied_color;
    let work = Work { plan: &shared.plan, phv, packet, at: &mut at, args: &env.args, state, key, color };
    let result = delegate.run(work);
    // Machine code counts on it: what is left of the packet is its length less this.
    env.at = at.min(env.packet_len as u64);
    result
}

/// Count the packet.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn count(env: *mut Env, counter: u64, index: u64, len: u64) {
    // SAFETY: see above.
    let (_, state, _, _) = unsafe { parts(env) };
    state.count(CounterId(counter as u32), index, len);
}

/// Meter the packet.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn meter(env: *mut Env, meter: u64, index: u64, precolor: u64) -> u64 {
    // SAFETY: see above.
    let (_, state, phv, _) = unsafe { parts(env) };
    let (len, now) = (phv.slot(slot::PACKET_LEN), phv.slot(slot::NOW_US));
    state.meter(MeterId(meter as u32), index, len, now, precolor)
}

/// Read a register of at most 64 bits.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn register_get(env: *mut Env, register: u64, index: u64) -> u64 {
    // SAFETY: see above.
    let (_, state, _, _) = unsafe { parts(env) };
    state.registers.get(RegisterId(register as u32).at()).map_or(0, |register| register.get(index))
}

/// Write a register of at most 64 bits.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn register_set(env: *mut Env, register: u64, index: u64, value: u64) {
    // SAFETY: see above.
    let (_, state, _, _) = unsafe { parts(env) };
    if let Some(register) = state.registers.get_mut(RegisterId(register as u32).at()) {
        register.set(index, value);
    }
}

/// A random number.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn random(env: *mut Env, low: u64, high: u64) -> u64 {
    // SAFETY: see above.
    let (_, state, _, _) = unsafe { parts(env) };
    state.random(low, high)
}

/// A digest is asked for.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn digest(env: *mut Env, list: u64) {
    // SAFETY: see above.
    let (_, state, _, _) = unsafe { parts(env) };
    state.digest(LearnListId(list as u32));
}

/// Whether a value set of one part of at most 64 bits has a value.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn value_set(env: *mut Env, set: u64, value: u64, mask: u64, masked: u64) -> u64 {
    // SAFETY: see above.
    let (_, state, _, _) = unsafe { parts(env) };
    let mask = (masked != 0).then_some(mask);
    let set = state.value_sets.get(ValueSetId(set as u32).at());
    u64::from(set.is_some_and(|set| set.contains_word(value, mask)))
}

/// The result of a calculation that has a gather plan.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn calculate(env: *mut Env, plan: u64) -> u64 {
    // SAFETY: see above.
    let (env, state, phv, shared) = unsafe { parts(env) };
    let Some(plan) = shared.delegates.plans.get(plan as usize) else { return 0 };
    if plan.algorithm == HashAlgorithm::Random {
        return state.random(0, u64::MAX);
    }
    let place = env.place();
    // SAFETY: pointer and length are of the slice that the engine was called with.
    let packet = unsafe { std::slice::from_raw_parts(env.packet, env.packet_len) };
    plan.gather(phv, packet.get(place..).unwrap_or(&[]), &mut env.bytes);
    let parameters = plan.calculation.and_then(|calculation| state.hash_parameters(calculation));
    hash::hash(plan.algorithm, parameters, &env.bytes)
}

/// The one's complement sum of the payload, not folded.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn payload_sum(env: *mut Env) -> u64 {
    // SAFETY: see above.
    let (env, _, _, _) = unsafe { parts(env) };
    let place = env.place();
    u64::from(hash::ones_complement_sum(env.packet().get(place..).unwrap_or(&[])))
}

/// Emit one header that has a varbit field or ends within a byte: gives its length, 0 when there is no room.
///
/// # Safety
/// Called by a generated `emit` with the vector's words and a pointer to `room` writable bytes.
pub unsafe extern "C" fn emit_header(env: *mut Env, header: u64, out: *mut u8, room: u64) -> u64 {
    // SAFETY: `env` is the environment of the call under way; only shared parts of it are used here: `emit` has no
    // exclusive borrow of the vector.
    let (env, shared) = unsafe { (&*env, &*(*env).shared) };
    // SAFETY: the engine was called with a shared borrow of the vector.
    let phv = unsafe { &*env.phv };
    let header = HeaderId(header as u32);
    let bits = header_bits(&shared.plan, phv, header);
    let bytes = bits.div_ceil(8);
    if bytes > room {
        return 0;
    }
    // SAFETY: the caller has `room >= bytes` bytes for us alone.
    let out = unsafe { std::slice::from_raw_parts_mut(out, bytes as usize) };
    crate::pack::header(&shared.plan.layout, phv, header, out);
    bytes
}

/// Copy `len` bytes and fill up with zeros to `room`.
///
/// # Safety
/// Called by machine code with `room` bytes to write and `len` bytes to read, which do not overlap: one side is the
/// packet, or both are different headers.
pub unsafe extern "C" fn copy_padded(to: *mut u8, room: u64, from: *const u8, len: u64) {
    let (room, len) = (room as usize, (len.min(room)) as usize);
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, len);
        std::ptr::write_bytes(to.add(len), 0, room - len);
    }
}

/// Bits of a valid header now.
pub fn header_bits(plan: &Plan, phv: &Phv, header: HeaderId) -> u64 {
    crate::pack::bits(&plan.layout, phv, header)
}

/// Bytes of a valid header that has a varbit field or ends within a byte.
///
/// # Safety
/// See [`find0`].
pub unsafe extern "C" fn header_len(env: *mut Env, header: u64) -> u64 {
    // SAFETY: see above.
    let (_, _, phv, shared) = unsafe { parts(env) };
    header_bits(&shared.plan, phv, HeaderId(header as u32)).div_ceil(8)
}
