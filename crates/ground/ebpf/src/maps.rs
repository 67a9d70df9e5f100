//! What maps a program needs.

use crate::{Insn, code};

/// Kinds of map, with the numbers of `enum bpf_map_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    PercpuArray = 6,
    LpmTrie = 11,
    HashOfMaps = 13,
    DevMap = 14,
    XskMap = 17,
    DevMapHash = 25,
    RingBuf = 27,
}

/// A map, described.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapSpec {
    /// Its name for people; the kernel keeps the first fifteen bytes.
    pub name: String,
    /// How the kernel keeps its elements.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Elements at most.
    pub entries: u32,
    /// What its first elements hold before any program runs (arrays).
    pub initial: Vec<Vec<u8>>,
    /// Each value begins with a `bpf_spin_lock` ([`crate::helper::SPIN_LOCK`]): programs on several CPUs change it one after the
    /// other, and what a process reads or writes of it is whole.
    pub lock: bool,
    /// What the maps in this one are like (maps of maps).
    pub inner: Option<Box<MapSpec>>,
}

impl MapSpec {
    /// Flags of `BPF_MAP_CREATE` that the kind needs.
    pub fn flags(&self) -> u32 {
        // BPF_F_NO_PREALLOC: tries refuse to be without, and a hash of a million places is not paid for before it is used.
        match self.kind {
            MapKind::LpmTrie | MapKind::HashOfMaps => 1,
            MapKind::Hash if self.entries > 4096 => 1,
            _ => 0,
        }
    }
}

/// Put descriptors in the place of map numbers.
pub fn bind_maps(program: &mut [Insn], fds: &[i32]) {
    let mut at = 0;
    while at < program.len() {
        let insn = &mut program[at];
        if insn.code == code::LD_IMM64 {
            if matches!(insn.src().0, code::PSEUDO_MAP_FD | code::PSEUDO_MAP_VALUE) {
                insn.imm = fds[insn.imm as usize];
            }
            at += 1;
        }
        at += 1;
    }
}
