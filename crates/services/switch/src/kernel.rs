//! A program in the kernel: its maps, its code, and what control planes write brought there.
//!
//! [`Kernel`] is one loaded program with the mirror of its tables. A switch under test runs it on packets without any interface
//! ([`Kernel::run`]); what the program hands over ([`Ran::Slow`]) the data path of the same plane does from the beginning, as
//! nothing was done for it yet.

mod attach;
mod groups;
mod levels;
mod to_controller;

use crate::control::MeterRate;
use crate::store::StateWrite;
use attach::{Attached, Place};
pub use attach::{HookChoice, may_stand_at};
use barewire_base::DropReason;
use barewire_bpf::{Kind, LoadError, Map, Program, RingReader, TestRun, Verified};
use barewire_ebpf::{Asm, Insn, MapSpec, Reg, bind_maps, code};
use barewire_p4::ir::{CounterId, Program as Ir, RegisterId, TableId};
pub use barewire_p4_ebpf::SlowPath;
use barewire_p4_ebpf::maps::{self, TAG_LEN, TOO_LONG, WANTS_CLONE, drop_reason, fixed, verdict};
use barewire_p4_ebpf::mirror::{MapOp, Mirror, MirrorError};
use barewire_p4_ebpf::{Compiled, Context, Refusal};
use barewire_p4_state::ProgramState;
use groups::Groups;
use num_bigint::BigUint;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};

/// The interface that runs without an interface are said to come in by: the loopback of their network namespace.
const LOOPBACK: u32 = 1;
/// Shorter packets no Ethernet interface delivers, and the kernel does not run programs on them.
const ETHERNET_LEN: usize = 14;

/// Why a program is not in the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Our compiler has no form of it.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The kernel gave no map.
    #[error("bpf(BPF_MAP_CREATE) for '{name}': {source}{}", needs(source))]
    Map {
        /// Which.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel did not take the program.
    #[error("bpf(BPF_PROG_LOAD): {0}{needs}", needs = needs(&.0.error))]
    Load(LoadError),
    /// A map did not take what a control plane wrote.
    #[error("bpf(BPF_MAP_UPDATE_ELEM) in '{name}': {source}")]
    Update {
        /// Which map.
        name: String,
        /// Why.
        source: io::Error,
    },
}

/// What a system call that was refused asks for, to be put behind its error.
fn needs(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(EPERM) => "; programs in the kernel need root, or CAP_BPF and CAP_NET_ADMIN",
        Some(ENOSYS) => "; this kernel has no BPF",
        _ => "",
    }
}

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

impl KernelError {
    /// Whether it is for want of rights, or a kernel without BPF.
    pub fn is_unavailable(&self) -> bool {
        let error = match self {
            KernelError::Map { source, .. } | KernelError::Update { source, .. } => source,
            KernelError::Load(error) => &error.error,
            KernelError::Refused(_) => return false,
        };
        matches!(error.raw_os_error(), Some(EPERM | ENOSYS))
    }

    /// Whether the verifier refused it, which the compiler ought to have known.
    pub fn is_verdict(&self) -> bool {
        matches!(self, KernelError::Load(_)) && !self.is_unavailable()
    }
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// It leaves by a port.
    Sent {
        /// Which.
        port: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The same bytes leave by each port of a multicast group.
    Copies {
        /// Which group.
        group: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Dropped, by [`barewire_p4_ebpf::maps::drop_reason`].
    Dropped(u64),
    /// For user space, with the position of the way there in [`Kernel::slow`].
    Slow(usize),
    /// For user space in a later round, with what it had when that began.
    Again {
        /// That.
        context: Box<Context>,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// It left, or was dropped, and a clone of it after it.
    Followed {
        /// What became of the packet.
        packet: Box<Ran>,
        /// What became of the clone.
        clone: Box<Ran>,
    },
    /// A clone was made of it.
    Cloned {
        /// What became of the clone.
        clone: Box<Ran>,
        /// What became of the packet.
        packet: Box<Ran>,
    },
}

/// Whether this kernel has jumps of 32 bits.
pub fn far_jumps() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let mut asm = Asm::default();
        asm.mov_imm(Reg::R0, 0);
        asm.emit(code::JA_FAR, Reg::R0, Reg::R0, 0, 0);
        asm.exit();
        let program: Vec<Insn> = asm.finish(false).unwrap_or_default();
        Program::load(Kind::Xdp, "barewire_probe", &program).is_ok()
    })
}

/// Values that only the kernel counts, to be added to the data path's own.
#[derive(Debug, Clone)]
pub enum Fold {
    /// Counters of an array, from one to another (excluded).
    Counters(CounterId, u64, u64),
    /// Counters of entries.
    Direct(TableId, Vec<u32>),
    /// Registers, from one to another (excluded).
    Registers(RegisterId, u64, u64),
    /// When entries were hit last.
    Hits(TableId, Arc<[u32]>),
}

/// A program in the kernel.
pub struct Kernel {
    compiled: Arc<Compiled>,
    mirror: Mirror,
    maps: Vec<Arc<Map>>,
    /// At XDP.
    program: Arc<Program>,
    /// At tc; or why not.
    tc: Result<Arc<Program>, String>,
    /// Where it stands, or will.
    place: Place,
    /// Where it was asked to.
    choice: HookChoice,
    ops: Vec<MapOp>,
    /// What could not be mirrored, the first of it.
    trouble: Option<String>,
    attached: Vec<Attached>,
    /// Where digests come from.
    ring: Option<RingReader>,
    /// Multicast groups with copies.
    groups: Groups,
    /// Mirror sessions that are more than a port.
    slow_sessions: BTreeSet<u32>,
    /// What the kernel's registers held when they were lent.
    lent: Vec<Vec<u64>>,
    /// What has been added to the data path's counters so far.
    folded: HashMap<(usize, u32), [u64; 2]>,
    /// Which of the switch's programs this is.
    epoch: u32,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("insns", &self.compiled.insns.len()).finish_non_exhaustive()
    }
}

fn rates_of(rates: &[MeterRate]) -> Option<Vec<(f64, u64)>> {
    let rate = |rate: &MeterRate| (rate.units_per_us, u64::from(rate.burst));
    (!rates.is_empty()).then(|| rates.iter().map(rate).collect())
}

fn create(spec: &MapSpec) -> Result<Map, KernelError> {
    let made = match Map::create(spec) {
        Err(error) if matches!(error.raw_os_error(), Some(1 | 12 | 105)) => {
            // EPERM, ENOMEM, ENOBUFS: older kernels charge maps to the limit of locked memory.
            barewire_bpf::raise_memlock();
            Map::create(spec)
        }
        made => made,
    };
    made.map_err(|source| KernelError::Map { name: spec.name.clone(), source })
}

impl Kernel {
    /// Makes the maps and loads the code. Tables are empty, and every default action does nothing: see
    /// [`crate::store::Store::populate`].
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn load(program: Arc<Ir>, compiled: Arc<Compiled>) -> Result<Kernel, KernelError> {
        let maps = compiled.maps.iter().map(|spec| create(spec).map(Arc::new));
        let maps = maps.collect::<Result<Vec<Arc<Map>>, _>>()?;
        let fds: Vec<i32> = maps.iter().map(|map| map.as_raw_fd()).collect();
        let load = |kind, insns: &[Insn]| {
            let mut insns = insns.to_vec();
            bind_maps(&mut insns, &fds);
            Program::load(kind, "barewire_p4", &insns).map(Arc::new)
        };
        let loaded = load(Kind::Xdp, &compiled.insns).map_err(KernelError::Load)?;
        let tc = match &compiled.tc {
            Ok(form) => load(Kind::Tc, &form.insns).map_err(|error| format!("bpf(BPF_PROG_LOAD): {error}")),
            Err(refusal) => Err(refusal.to_string()),
        };
        for (at, program) in compiled
            .shape
            .again
            .and_then(|again| again.programs)
            .into_iter()
            .flat_map(|[at_xdp, at_tc]| [(at_xdp, Some(&loaded)), (at_tc, tc.as_ref().ok())])
        {
            let Some(itself) = program.map(|program| program.as_raw_fd().to_ne_bytes()) else { continue };
            let name = || compiled.maps[at].name.clone();
            let done = maps[at].update(&0_u32.to_ne_bytes(), &itself);
            done.map_err(|source| KernelError::Update { name: name(), source })?;
        }
        let ring = compiled.shape.ring.map(|at| {
            let spec = &compiled.maps[at];
            RingReader::new(Arc::clone(&maps[at]), spec.entries)
                .map_err(|source| KernelError::Map { name: spec.name.clone(), source })
        });
        let ring = ring.transpose()?;
        let mirror = Mirror::new(program, compiled.shape.clone());
        Ok(Kernel {
            compiled,
            mirror,
            maps,
            program: loaded,
            tc,
            place: Place::default(),
            choice: HookChoice::Auto,
            ops: Vec::new(),
            trouble: None,
            attached: Vec::new(),
            ring,
            groups: Groups::default(),
            slow_sessions: BTreeSet::new(),
            lent: Vec::new(),
            folded: HashMap::new(),
            epoch: 0,
        })
    }

    /// The compiled form.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// Ways to user space.
    pub fn slow(&self) -> &[SlowPath] {
        match (&self.place, &self.compiled.tc) {
            (Place::Tc(_), Ok(form)) => &form.slow,
            _ => &self.compiled.slow,
        }
    }

    /// What the verifier counted.
    pub fn verified(&self) -> Verified {
        self.program.verified()
    }

    /// The first thing that could not be mirrored, if any.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Registers begin with what a state has of them.
    ///
    /// # Errors
    /// [`KernelError::Update`].
    pub fn begin_registers(&mut self, state: &ProgramState) -> Result<(), KernelError> {
        if !self.compiled.registers {
            return Ok(());
        }
        for (map, registers) in self.compiled.shape.registers.iter().zip(&state.registers) {
            let (map, name) = (&self.maps[*map], &self.compiled.maps[*map].name);
            for (index, words) in registers.cells.chunks_exact(registers.words.max(1)).enumerate() {
                if words.iter().all(|word| *word == 0) {
                    continue;
                }
                let value: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let done = map.update(&(index as u32).to_ne_bytes(), &value);
                done.map_err(|source| KernelError::Update { name: name.clone(), source })?;
            }
        }
        Ok(())
    }

    /// Bring a write to the maps. What does not fit sends all packets to user space, where it is.
    ///
    /// # Errors
    /// [`KernelError::Update`].
    pub fn apply(&mut self, write: &StateWrite) -> Result<(), KernelError> {
        let mut ops = std::mem::take(&mut self.ops);
        ops.clear();
        let mirror = &mut self.mirror;
        let done = match write {
            StateWrite::Insert { table, handle, key, priority, action } => {
                mirror.insert(*table, *handle, key, *priority, action, &mut ops)
            }
            StateWrite::Modify { table, handle, action } => mirror.modify(*table, *handle, action, &mut ops),
            StateWrite::Remove { table, handle } => mirror.remove(*table, *handle, &mut ops),
            StateWrite::Clear { table } => {
                mirror.clear(*table, &mut ops);
                Ok(())
            }
            StateWrite::SetDefault { table, action } => mirror.set_default(*table, action.as_ref(), &mut ops),
            StateWrite::InsertMember { profile, member, call }
            | StateWrite::ModifyMember { profile, member, call } => {
                mirror.set_member(*profile, *member, call, &mut ops)
            }
            StateWrite::RemoveMember { profile, member } => {
                mirror.remove_member(*profile, *member, &mut ops);
                Ok(())
            }
            StateWrite::SetGroup { profile, group, members } => {
                mirror.set_group(*profile, *group, members, &mut ops)
            }
            StateWrite::RemoveGroup { profile, group } => {
                mirror.remove_group(*profile, *group, &mut ops);
                Ok(())
            }
            StateWrite::Registers { register, from, to, value } => {
                for index in *from..*to {
                    mirror.set_register(*register, index as u32, value, &mut ops);
                }
                Ok(())
            }
            StateWrite::Counters { counter, from, to, value: _ } => {
                // The data path's own counter has the value: the two are summed.
                for index in *from..*to {
                    mirror.set_counter(*counter, index as u32, [0, 0], &mut ops);
                }
                Ok(())
            }
            StateWrite::DirectCounter { table, handle, .. } => {
                if let Some((map, index)) = mirror.direct_counter(*table, Some(*handle)) {
                    let key = index.to_ne_bytes().to_vec();
                    ops.push(MapOp { map, key, value: Some(vec![0; 16]) });
                }
                Ok(())
            }
            StateWrite::ResetDirectCounters { table, from, count } => {
                // Records, of which the first is the default entry's.
                for record in *from..from.saturating_add(*count) {
                    if let Some((map, index)) = mirror.direct_counter(*table, record.checked_sub(1)) {
                        let key = index.to_ne_bytes().to_vec();
                        ops.push(MapOp { map, key, value: Some(vec![0; 16]) });
                    }
                }
                Ok(())
            }
            StateWrite::Meter { meter, from, to, rates } => {
                let rates = rates_of(rates);
                for index in *from..*to {
                    mirror.set_meter(*meter, index as u32, rates.as_deref(), &mut ops);
                }
                Ok(())
            }
            StateWrite::DirectMeter { table, handle, rates } => {
                mirror.set_direct_meter(*table, *handle, rates_of(rates).as_deref(), &mut ops);
                Ok(())
            }
            StateWrite::ValueSetAdd { set, value } => {
                mirror.add_to_set(*set, value, &mut ops);
                Ok(())
            }
            StateWrite::ValueSetRemove { set, value } => {
                mirror.remove_from_set(*set, value, &mut ops);
                Ok(())
            }
            StateWrite::ValueSetReplace { set, values } => {
                mirror.replace_set(*set, values, &mut ops);
                Ok(())
            }
            // Hash parameters: user space does what asks for them.
            _ => Ok(()),
        };
        if let Err(error @ MirrorError::Full(_)) = &done {
            self.trouble.get_or_insert_with(|| error.to_string());
        }
        let written = self.write(&ops);
        // An element that is set anew counts from 0 again.
        for op in &ops {
            if let Ok(index) = op.key.as_slice().try_into() {
                self.folded.remove(&(op.map, u32::from_ne_bytes(index)));
            }
        }
        self.ops = ops;
        written
    }

    /// Note that a write did not come through: from here on every packet goes to user space, which has it.
    pub fn failed(&mut self, error: &KernelError) {
        self.give_up(error.to_string());
    }

    /// From here on every packet goes to user space, for this reason.
    pub fn give_up(&mut self, why: String) {
        self.trouble.get_or_insert(why);
        let mut ops = Vec::new();
        self.mirror.give_up(&mut ops);
        let _ = self.write(&ops);
    }

    /// Say from when on time counts, in nanoseconds of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// [`KernelError::Update`].
    pub fn start_at(&mut self, started_ns: u64) -> Result<(), KernelError> {
        let mut ops = Vec::new();
        self.mirror.set_time(started_ns, None, &mut ops);
        self.write(&ops)
    }

    /// What the kernel has counted since the last time, for the data path to add to its own.
    pub fn fold(&mut self, what: &Fold, state: &mut ProgramState) {
        match what {
            Fold::Counters(counter, from, to) => {
                let Some(&map) = self.compiled.shape.counters.get(counter.at()) else { return };
                for index in *from..*to {
                    let [packets, bytes] = self.fresh(map, index as u32);
                    // One may be read between the two: its bytes come the next time.
                    let any = packets > 0 || bytes > 0;
                    if let (true, Ok([p, b])) = (any, state.read_counter(*counter, index)) {
                        let (p, b) = (p.wrapping_add(packets), b.wrapping_add(bytes));
                        let _ = state.write_counter(*counter, index..index + 1, p, b);
                    }
                }
            }
            Fold::Direct(table, handles) => {
                for &handle in handles {
                    let Some((map, index)) = self.mirror.direct_counter(*table, Some(handle)) else {
                        continue;
                    };
                    let [packets, bytes] = self.fresh(map, index);
                    let any = packets > 0 || bytes > 0;
                    if let (true, Ok(stats)) = (any, state.stats(*table, Some(handle))) {
                        let (p, b) = (stats.packets.wrapping_add(packets), stats.bytes.wrapping_add(bytes));
                        let _ = state.set_direct_counter(*table, Some(handle), p, b);
                    }
                }
            }
            Fold::Hits(table, handles) => {
                for &handle in handles.iter() {
                    let Some((map, index)) = self.mirror.last_hit(*table, handle) else { continue };
                    let hit = self.maps[map].lookup(&index.to_ne_bytes());
                    let Ok(Some(Ok(hit))) = hit.map(|hit| hit.map(|hit| hit.try_into())) else { continue };
                    let _ = state.touch(*table, handle, u64::from_ne_bytes(hit));
                }
            }
            Fold::Registers(register, from, to) => {
                for index in *from..*to {
                    if let Some(value) = self.register(*register, index) {
                        let _ = state.write_register(*register, index..index + 1, &value);
                    }
                }
            }
        }
    }

    /// Packets come up: where the kernel has the program's registers, the data path gets what they hold. Such packets are rare: of
    /// a program whose registers are in the kernel, only those that are too long for an interface or whose headers are too deep, and
    /// all of them while a table is fuller than its maps.
    pub fn lend_registers(&mut self, state: &mut ProgramState) {
        if !self.compiled.registers {
            return;
        }
        let maps = &self.compiled.shape.registers;
        self.lent.resize_with(maps.len(), Vec::new);
        for ((map, lent), registers) in maps.iter().zip(&mut self.lent).zip(&mut state.registers) {
            lent.resize(registers.cells.len(), 0);
            match self.maps[*map].read_array(lent) {
                Ok(()) => registers.cells.copy_from_slice(lent),
                Err(_) => lent.clear(),
            }
        }
    }

    /// Those packets are done: what they wrote goes to the kernel. A packet that the kernel had at the same time and that wrote the
    /// same element is the one of two writers that comes first.
    pub fn take_registers_back(&mut self, state: &mut ProgramState) {
        if !self.compiled.registers {
            return;
        }
        let maps = &self.compiled.shape.registers;
        for ((map, lent), registers) in maps.iter().zip(&self.lent).zip(&state.registers) {
            let words = registers.words.max(1);
            let pairs = registers.cells.chunks_exact(words).zip(lent.chunks_exact(words));
            for (index, (value, _)) in pairs.enumerate().filter(|(_, (now, before))| now != before) {
                let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_ne_bytes()).collect();
                if let Err(error) = self.maps[*map].update(&(index as u32).to_ne_bytes(), &bytes) {
                    self.trouble.get_or_insert_with(|| error.to_string());
                }
            }
        }
    }

    /// What came to a counter since the last time.
    fn fresh(&mut self, map: usize, index: u32) -> [u64; 2] {
        let now = self.two_words(map, index);
        let [packets, bytes] = self.folded.insert((map, index), now).unwrap_or_default();
        [now[0].wrapping_sub(packets), now[1].wrapping_sub(bytes)]
    }

    /// Packets the kernel dropped, by reason.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        let reasons = [
            (drop_reason::PROGRAM, DropReason::ProgramDrop),
            (drop_reason::ASSERT, DropReason::AssertFailed),
            (drop_reason::ASSUME, DropReason::AssumeFailed),
            (drop_reason::NO_HEADROOM, DropReason::NoHeadroom),
            (drop_reason::NO_PORT, DropReason::UnknownPort),
            (drop_reason::NO_REPLICA, DropReason::NoReplica),
        ];
        reasons.iter().map(|(at, reason)| (*reason, self.statistic(2 + *at as u32))).collect()
    }

    /// Packets that the kernel sent on.
    pub fn forwarded(&self) -> u64 {
        self.statistic(0)
    }

    /// Packets that it handed over because they were longer than an interface's frames.
    pub fn too_long(&self) -> u64 {
        self.statistic(TOO_LONG)
    }

    /// Packets that it handed over at XDP because they are to be cloned.
    pub fn want_clones(&self) -> u64 {
        self.statistic(WANTS_CLONE)
    }

    /// Packets that it handed over.
    pub fn handed_over(&self) -> u64 {
        self.statistic(1)
    }

    fn statistic(&self, element: u32) -> u64 {
        let values = self.maps[fixed::STATISTICS].lookup_each_cpu(&element.to_ne_bytes()).unwrap_or_default();
        let word =
            |value: &Vec<u8>| value.get(..8).and_then(|v| v.try_into().ok()).map_or(0, u64::from_ne_bytes);
        values.iter().map(word).sum()
    }

    fn write(&self, ops: &[MapOp]) -> Result<(), KernelError> {
        for op in ops {
            if op.is_wait() {
                let wait = |source| KernelError::Update { name: "membarrier(2)".to_owned(), source };
                barewire_bpf::wait_for_programs().map_err(wait)?;
                continue;
            }
            let map = &self.maps[op.map];
            let done = match &op.value {
                Some(value) => map.update(&op.key, value),
                None => map.delete(&op.key).map(drop),
            };
            let name = || self.compiled.maps[op.map].name.clone();
            done.map_err(|source| KernelError::Update { name: name(), source })?;
        }
        Ok(())
    }

    /// Runs the program on a packet that came in by a port at a time, without any interface.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run(&mut self, port: u32, bytes: &[u8], now_us: u64) -> io::Result<Ran> {
        if bytes.len() < ETHERNET_LEN {
            return Ok(Ran::Slow(0));
        }
        let mut ops = Vec::new();
        self.mirror.set_time(0, Some(now_us), &mut ops);
        self.write(&ops).map_err(io::Error::other)?;
        self.maps[fixed::PORTS].update(&LOOPBACK.to_ne_bytes(), &port.to_ne_bytes())?;
        let ran = match self.run_once(bytes, None) {
            // More than a page does not fit before XDP.
            Err(error) if error.raw_os_error() == Some(22) && bytes.len() > 3000 => return Ok(Ran::Slow(0)),
            ran => ran?,
        };
        let ran = self.follow(ran)?;
        let again = self.compiled.shape.again.filter(|_| self.is_at_tc());
        let Some(again) = again.filter(|again| again.mirrors.is_some()) else { return Ok(ran) };
        let words = self.words_at(again.at as usize)?;
        let cloned = |words: &&Vec<u64>| words.get(maps::recirculate::CLONED as usize) == Some(&1);
        let Some(words) = words.iter().find(cloned) else { return Ok(ran) };
        let word = |word: u32| words.get(word as usize).copied().unwrap_or(0);
        let request = u64::from(word(maps::recirculate::HEAD) as u32);
        let kept = [0, 1].map(|at| word(maps::recirculate::KEPT + at));
        let (clone, _) = self.run_once(bytes, Some((request as u32, kept)))?;
        Ok(Ran::Cloned { clone: Box::new(clone), packet: Box::new(ran) })
    }

    /// The words of the vector from a byte on, for each CPU.
    fn words_at(&self, from: usize) -> io::Result<Vec<Vec<u64>>> {
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let values = self.maps[fixed::VECTOR].lookup_each_cpu(&0_u32.to_ne_bytes())?;
        let words =
            |value: &Vec<u8>| value.get(from..).unwrap_or_default().chunks_exact(8).map(word).collect();
        Ok(values.iter().map(words).collect())
    }

    /// One run of it, perhaps on a clone: its request, and the fields that go along.
    fn run_once(&self, bytes: &[u8], clone: Option<(u32, [u64; 2])>) -> io::Result<(Ran, Vec<u8>)> {
        let vector = &self.maps[fixed::VECTOR];
        vector.update(&0_u32.to_ne_bytes(), &vec![0; vector.value_len()])?;
        let program = self.at_place()?;
        let ran = match clone {
            None => program.test_run(bytes, 1)?,
            Some((request, [one, other])) => {
                let mark = barewire_p4_ebpf::CLONE_MARK | request & (barewire_p4_ebpf::SESSIONS - 1);
                let halves = |word: u64| {
                    let bytes = word.to_ne_bytes();
                    let half = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
                    [half(0), half(4)]
                };
                let ([a, b], [c, d]) = (halves(one), halves(other));
                let list = request / barewire_p4_ebpf::SESSIONS;
                let list = list | (self.epoch << maps::recirculate::EPOCH_SHIFT);
                program.test_run_marked(bytes, mark, [a, b, c, d, list])?
            }
        };
        let bytes = ran.packet.clone();
        Ok((self.became(ran)?, bytes))
    }

    /// The runs on clones of what left egress, which the program makes by calling itself where there are interfaces; with what a run left of
    /// its packet.
    fn follow(&self, (ran, mut bytes): (Ran, Vec<u8>)) -> io::Result<Ran> {
        /// As often as the kernel lets a program call itself.
        const MOST: usize = 33;
        let again = self.compiled.shape.again.filter(|again| again.headers.is_some() && self.is_at_tc());
        let Some(again) = again else { return Ok(ran) };
        let (vector, result) = (&self.maps[fixed::VECTOR], self.compiled.shape.result as usize);
        let mark = (again.at + 8 * maps::recirculate::MARK) as usize;
        let mut all = vec![ran];
        while all.len() <= MOST {
            let values = vector.lookup_each_cpu(&0_u32.to_ne_bytes())?;
            let is_set = |value: &[u8], at: usize| value.get(at..at + 8).is_some_and(|word| word != [0; 8]);
            let mine = values.iter().find(|value| is_set(value, result) && is_set(value, mark));
            let Some(mut mine) = mine.cloned() else { break };
            // It may go on on any CPU.
            mine[result..result + 8].fill(0);
            vector.update(&0_u32.to_ne_bytes(), &mine.repeat(values.len()))?;
            let ran = self.at_place()?.test_run(&bytes, 1)?;
            bytes.clone_from(&ran.packet);
            all.push(self.became(ran)?);
        }
        let last = all.pop().unwrap_or(Ran::Dropped(drop_reason::NO_REPLICA));
        let behind =
            |clone: Ran, packet: Ran| Ran::Followed { packet: Box::new(packet), clone: Box::new(clone) };
        Ok(all.into_iter().rev().fold(last, behind))
    }

    /// What a run made of its packet.
    fn became(&self, ran: TestRun) -> io::Result<Ran> {
        let pending = self.compiled.shape.again.filter(|again| again.headers.is_some() && self.is_at_tc());
        let pending = pending.map(|again| (again.at + 8 * maps::recirculate::MARK) as usize);
        let at = self.compiled.shape.result as usize;
        let word = |value: &[u64], word: usize| value.get(word).copied().unwrap_or(0);
        for value in self.words_at(at)? {
            let has_clone = pending.is_some_and(|mark| word(&value, (mark - at) / 8) != 0);
            match word(&value, 0) {
                verdict::FORWARD => return Ok(Ran::Sent { port: word(&value, 1) as u32, bytes: ran.packet }),
                verdict::COPIES => {
                    return Ok(Ran::Copies { group: word(&value, 1) as u32, bytes: ran.packet });
                }
                verdict::CONTROLLER if has_clone => {
                    return Ok(Ran::Sent { port: word(&value, 1) as u32, bytes: ran.packet });
                }
                verdict::CONTROLLER => {
                    let bytes = ran.packet.get(TAG_LEN as usize..).unwrap_or_default().to_vec();
                    return Ok(Ran::Sent { port: word(&value, 1) as u32, bytes });
                }
                verdict::AGAIN => {
                    let (_, rest) = ran.packet.split_at_checked(TAG_LEN as usize).unwrap_or_default();
                    let (context, bytes) = rest.split_at_checked(self.context_len()).unwrap_or_default();
                    let context = self.context(context).map(Box::new);
                    let context = context.ok_or_else(|| io::Error::other("a packet without its context"))?;
                    return Ok(Ran::Again { context, bytes: bytes.to_vec() });
                }
                verdict::DROP => return Ok(Ran::Dropped(word(&value, 1))),
                verdict::SLOW => return Ok(Ran::Slow(word(&value, 1) as usize)),
                _ => {}
            }
        }
        Err(io::Error::other(format!("the program gave verdict {} and no result", ran.verdict)))
    }

    /// Nanoseconds a packet takes, the mean of so many runs.
    ///
    /// # Errors
    /// The kernel's.
    pub fn time(&self, bytes: &[u8], repeat: u32) -> io::Result<u32> {
        self.at_place()?.test_run(bytes, repeat).map(|ran| ran.nanos)
    }

    /// Runs of the program as it stands, for other threads than the one that writes to its maps.
    ///
    /// # Errors
    /// It is to stand where it has no form.
    pub fn runner(&self) -> io::Result<Arc<Program>> {
        self.at_place().map(Arc::clone)
    }

    fn at_place(&self) -> io::Result<&Arc<Program>> {
        match (&self.place, &self.tc) {
            (Place::Xdp, _) => Ok(&self.program),
            (Place::Tc(_), Ok(program)) => Ok(program),
            (Place::Tc(_), Err(why)) => Err(io::Error::other(why.clone())),
        }
    }

    fn two_words(&self, map: usize, index: u32) -> [u64; 2] {
        let Ok(Some(value)) = self.maps[map].lookup(&index.to_ne_bytes()) else { return [0, 0] };
        let word = |at: usize| value[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
        [word(0), word(8)]
    }

    /// Packets and bytes the kernel counted at an index.
    pub fn counter(&self, counter: CounterId, index: u64) -> [u64; 2] {
        match self.compiled.shape.counters.get(counter.at()) {
            Some(map) => self.two_words(*map, index as u32),
            None => [0, 0],
        }
    }

    /// Packets and bytes the kernel counted for an entry, or (none) for the default one.
    pub fn direct(&self, table: TableId, handle: Option<u32>) -> [u64; 2] {
        match self.mirror.direct_counter(table, handle) {
            Some((map, index)) => self.two_words(map, index),
            None => [0, 0],
        }
    }

    /// A register's value in the kernel; none when user space has the program's registers.
    pub fn register(&self, register: RegisterId, index: u64) -> Option<BigUint> {
        if !self.compiled.registers {
            return None;
        }
        let map = *self.compiled.shape.registers.get(register.at())?;
        let value = self.maps[map].lookup(&(index as u32).to_ne_bytes()).ok()??;
        let digits = value.chunks(4).map(|d| d.try_into().map_or(0, u32::from_ne_bytes)).collect();
        Some(BigUint::new(digits))
    }
}
