//! Action profiles: members that tables share, and groups of them.

use crate::error::EntryError;
use crate::slab::Slab;
use crate::table::{ActionInfo, encode_args};
use crate::{ACTION, ARGS, MAX_GROUP_SLOTS, MAX_HANDLES};
use barewire_p4::ir::{ActionCall, ActionProfile, HashAlgorithm};
use std::collections::HashMap;
use std::sync::Arc;

/// Flows a steady round robin remembers; others are spread by their hash.
const MAX_STEADY_FLOWS: usize = 1 << 16;

/// The members and groups of a profile. A member's record has the shape of an entry's, but its word 0 is the number of
/// its action in the program plus 1: what its position is depends on the table.
#[derive(Debug)]
pub struct ProfileState {
    pub(crate) name: String,
    selector: Option<HashAlgorithm>,
    actions: Arc<Vec<ActionInfo>>,
    members: Slab,
    /// For each group 0, or where its members are plus 1.
    groups: Slab,
    slots: Vec<Box<[u32]>>,
    free: Vec<u32>,
    /// Round robin: the next turn, and the turn of each flow that had one.
    turn: u64,
    steady: HashMap<u64, u64>,
}

impl ProfileState {
    /// `args_words`: words of the largest action of the tables that use the profile.
    pub(crate) fn new(
        profile: &ActionProfile,
        args_words: usize,
        actions: Arc<Vec<ActionInfo>>,
    ) -> ProfileState {
        ProfileState {
            name: profile.name.clone(),
            selector: profile.selector.as_ref().map(|selector| selector.algorithm),
            actions,
            members: Slab::new(ARGS + args_words.max(1), profile.max_size as usize + 1),
            groups: Slab::new(1, 0),
            slots: Vec::new(),
            free: Vec::new(),
            turn: 0,
            steady: HashMap::new(),
        }
    }

    fn member_exists(&self, member: u32) -> bool {
        self.members.exists(member) && self.members.word(member, ACTION) != 0
    }

    fn write(&mut self, member: u32, call: &ActionCall) -> Result<(), EntryError> {
        let info =
            self.actions.get(call.action.at()).ok_or(EntryError::NoAction { action: call.action.0 })?;
        let mut args = Vec::new();
        encode_args(info, call, &mut args)?;
        self.members.ensure(member);
        let record = self.members.get_mut(member);
        if record.len() < ARGS + args.len() {
            return Err(EntryError::NoAction { action: call.action.0 });
        }
        record[ARGS..].fill(0);
        record[ARGS..ARGS + args.len()].copy_from_slice(&args);
        record[ACTION] = u64::from(call.action.0) + 1;
        Ok(())
    }

    /// Add a member under a number of the caller's.
    pub fn insert_member(&mut self, member: u32, call: &ActionCall) -> Result<(), EntryError> {
        if member >= MAX_HANDLES {
            return Err(EntryError::HandleTooLarge { handle: member, limit: MAX_HANDLES });
        }
        if self.member_exists(member) {
            return Err(EntryError::MemberExists { member });
        }
        self.write(member, call)
    }

    /// Give a member another action.
    pub fn modify_member(&mut self, member: u32, call: &ActionCall) -> Result<(), EntryError> {
        if !self.member_exists(member) {
            return Err(EntryError::NoMember { member });
        }
        self.write(member, call)
    }

    /// Remove a member. Entries and groups that still name it run no action.
    pub fn remove_member(&mut self, member: u32) -> Result<(), EntryError> {
        if !self.member_exists(member) {
            return Err(EntryError::NoMember { member });
        }
        self.members.get_mut(member)[ACTION] = 0;
        Ok(())
    }

    fn group_at(&self, group: u32) -> Option<usize> {
        let at = if self.groups.exists(group) { self.groups.word(group, 0) } else { 0 };
        (at as usize).checked_sub(1)
    }

    /// Make a group, or give it other members: each with its weight (0 counts for nothing). The selector's hash modulo the sum
    /// of weights chooses, in the order given; bmv2 has its members in ascending order.
    pub fn set_group(&mut self, group: u32, members: &[(u32, u32)]) -> Result<(), EntryError> {
        if group >= MAX_HANDLES {
            return Err(EntryError::HandleTooLarge { handle: group, limit: MAX_HANDLES });
        }
        if self.selector.is_none() {
            return Err(EntryError::NoSelector);
        }
        if let Some(&(member, _)) = members.iter().find(|&&(member, _)| !self.member_exists(member)) {
            return Err(EntryError::NoMember { member });
        }
        let total: u64 = members.iter().map(|&(_, weight)| u64::from(weight)).sum();
        if total > u64::from(MAX_GROUP_SLOTS) {
            return Err(EntryError::GroupTooLarge { total, limit: MAX_GROUP_SLOTS });
        }
        let slots: Box<[u32]> = members
            .iter()
            .flat_map(|&(member, weight)| std::iter::repeat_n(member, weight as usize))
            .collect();
        match self.group_at(group) {
            Some(at) => self.slots[at] = slots,
            None => {
                let at = match self.free.pop() {
                    Some(at) => {
                        self.slots[at as usize] = slots;
                        at as usize
                    }
                    None => {
                        self.slots.push(slots);
                        self.slots.len() - 1
                    }
                };
                self.groups.ensure(group);
                self.groups.get_mut(group)[0] = at as u64 + 1;
            }
        }
        Ok(())
    }

    /// Remove a group. Entries that still name it run no action.
    pub fn remove_group(&mut self, group: u32) -> Result<(), EntryError> {
        let at = self.group_at(group).ok_or(EntryError::NoGroup { group })?;
        self.slots[at] = Box::default();
        self.free.push(at as u32);
        self.groups.get_mut(group)[0] = 0;
        Ok(())
    }

    pub(crate) fn has_member(&self, member: u32) -> bool {
        self.member_exists(member)
    }

    pub(crate) fn has_group(&self, group: u32) -> bool {
        self.group_at(group).is_some()
    }

    /// The member of a group that a packet gets.
    pub(crate) fn choose(&mut self, group: u32, hash: &mut dyn FnMut() -> u64) -> Option<u32> {
        let at = self.group_at(group)?;
        let len = self.slots[at].len() as u64;
        if len == 0 {
            return None;
        }
        let choice = match self.selector? {
            HashAlgorithm::RoundRobin => {
                self.turn = self.turn.wrapping_add(1);
                self.turn.wrapping_sub(1)
            }
            HashAlgorithm::RoundRobinConsistent => {
                let flow = hash();
                let room = self.steady.len() < MAX_STEADY_FLOWS;
                match self.steady.get(&flow) {
                    Some(&turn) => turn,
                    None if room => {
                        self.steady.insert(flow, self.turn);
                        self.turn += 1;
                        self.turn - 1
                    }
                    None => flow,
                }
            }
            _ => hash(),
        };
        Some(self.slots[at][(choice % len) as usize])
    }

    /// A member's record, if it is there.
    pub(crate) fn record(&mut self, member: u32) -> Option<&mut [u64]> {
        self.member_exists(member).then(|| self.members.get_mut(member))
    }

    pub(crate) fn reset(&mut self) {
        self.members = self.members.renewed();
        self.groups = self.groups.renewed();
        self.slots.clear();
        self.free.clear();
        self.turn = 0;
        self.steady.clear();
    }
}
