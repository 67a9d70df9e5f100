//! Action profiles: members and groups, and who uses them.

use super::table::Packed;
use crate::control::{ControlError, ErrorKind};
use barewire_p4::ir::{ActionCall, ActionId, ActionProfile, Program, TableActions};
use barewire_p4::ir::{ProfileId, TableId};
use barewire_p4_state::TableAction;
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, ControlError>;

/// Members a profile may have when the program declares no size, and groups in any case.
pub const MAX_MEMBERS: usize = 1 << 20;
/// The most that the weights of a group's members may sum to.
pub const MAX_GROUP_WEIGHT: u64 = 65_536;

/// The numbers by which replicas know members or groups: dense, whatever numbers control planes choose.
#[derive(Debug, Default)]
struct Indices {
    next: u32,
    free: Vec<u32>,
}

impl Indices {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

#[derive(Debug)]
pub(super) struct MemberSlot {
    /// The replicas' number for it.
    pub index: u32,
    pub call: ActionCall,
    /// Entries, default entries and groups that use it.
    pub uses: u64,
}

#[derive(Debug)]
pub(super) struct GroupSlot {
    /// The replicas' number for it.
    pub index: u32,
    /// By member, ascending: bmv2 counts a group's members in this order.
    pub members: Vec<(u32, u32)>,
    pub max_size: u32,
    /// Entries and default entries that use it.
    pub uses: u64,
}

/// The members and groups of one profile.
#[derive(Debug)]
pub(super) struct ProfileStore {
    name: String,
    /// The actions a member may have: those of the tables that use the profile.
    pub actions: Vec<ActionId>,
    pub has_selector: bool,
    max: usize,
    pub members: BTreeMap<u32, MemberSlot>,
    pub groups: BTreeMap<u32, GroupSlot>,
    /// The lowest free numbers.
    free_member: u32,
    free_group: u32,
    member_indices: Indices,
    group_indices: Indices,
}

fn lowest_free<T>(map: &BTreeMap<u32, T>, from: u32) -> u32 {
    let mut free = from;
    for (id, _) in map.range(from..) {
        if *id != free {
            break;
        }
        free = free.saturating_add(1);
    }
    free
}

impl ProfileStore {
    pub(super) fn new(program: &Program, id: ProfileId, profile: &ActionProfile) -> ProfileStore {
        let mut actions = Vec::new();
        for table in program.tables.iter().filter(|table| table.source == TableActions::Profile(id)) {
            for action in &table.actions {
                if !actions.contains(action) {
                    actions.push(*action);
                }
            }
        }
        let max =
            if profile.max_size == 0 { MAX_MEMBERS } else { (profile.max_size as usize).min(MAX_MEMBERS) };
        ProfileStore {
            name: profile.name.clone(),
            actions,
            has_selector: profile.selector.is_some(),
            max,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            free_member: 0,
            free_group: 0,
            member_indices: Indices::default(),
            group_indices: Indices::default(),
        }
    }

    pub(super) fn owner(&self) -> String {
        format!("action profile '{}'", self.name)
    }

    pub(super) fn member(&mut self, id: u32) -> Result<&mut MemberSlot> {
        let name = &self.name;
        self.members.get_mut(&id).ok_or_else(|| {
            ControlError::new(ErrorKind::InvalidMember, format!("action profile '{name}' has no member {id}"))
        })
    }

    pub(super) fn group(&mut self, id: u32) -> Result<&mut GroupSlot> {
        self.check_selector()?;
        let name = &self.name;
        self.groups.get_mut(&id).ok_or_else(|| {
            ControlError::new(ErrorKind::InvalidGroup, format!("action profile '{name}' has no group {id}"))
        })
    }

    /// # Errors
    /// [`ErrorKind::NoActionProfileSelection`].
    pub(super) fn check_selector(&self) -> Result<()> {
        if self.has_selector {
            return Ok(());
        }
        Err(ControlError::new(
            ErrorKind::NoActionProfileSelection,
            format!("action profile '{}' has no selector, so it has no groups", self.name),
        ))
    }

    /// Add a member of a checked call, of this number or the lowest free one.
    pub(super) fn add_member(&mut self, id: Option<u32>, call: ActionCall) -> Result<u32> {
        if self.members.len() >= self.max {
            return Err(ControlError::new(
                ErrorKind::TableFull,
                format!("action profile '{}' is full: it holds {} members", self.name, self.max),
            ));
        }
        let id = id.unwrap_or(self.free_member);
        if self.members.contains_key(&id) {
            return Err(ControlError::new(
                ErrorKind::DuplicateEntry,
                format!("action profile '{}' has a member {id} already", self.name),
            ));
        }
        let index = self.member_indices.take();
        self.members.insert(id, MemberSlot { index, call, uses: 0 });
        if id == self.free_member {
            self.free_member = lowest_free(&self.members, id);
        }
        Ok(id)
    }

    /// Take a member out; gives the replicas' number for it.
    pub(super) fn delete_member(&mut self, id: u32) -> Result<u32> {
        let &mut MemberSlot { index, uses, .. } = self.member(id)?;
        if uses > 0 {
            return Err(ControlError::new(
                ErrorKind::MemberStillUsed,
                format!(
                    "member {id} of action profile '{}' is still used, by {uses} entries or groups",
                    self.name
                ),
            ));
        }
        self.members.remove(&id);
        self.member_indices.free.push(index);
        self.free_member = self.free_member.min(id);
        Ok(index)
    }

    /// The members of a group to be, checked and in order.
    fn checked(&mut self, members: &[(u32, u32)], max_size: u32) -> Result<Vec<(u32, u32)>> {
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(ControlError::new(
                ErrorKind::MemberAlreadyInGroup,
                format!("member {} of action profile '{}' is named twice", twice[0].0, self.name),
            ));
        }
        for &(member, weight) in &sorted {
            self.member(member)?;
            if weight == 0 {
                return Err(ControlError::new(
                    ErrorKind::Other,
                    format!("member {member} has weight 0; 1 is the least"),
                ));
            }
        }
        let most = if max_size == 0 { MAX_GROUP_WEIGHT } else { u64::from(max_size).min(MAX_GROUP_WEIGHT) };
        let total: u64 = sorted.iter().map(|(_, weight)| u64::from(*weight)).sum();
        if total > most {
            return Err(ControlError::new(
                ErrorKind::TableFull,
                format!("the members' weights sum to {total}; {most} is the most for this group"),
            ));
        }
        Ok(sorted)
    }

    pub(super) fn add_group(
        &mut self,
        id: Option<u32>,
        members: &[(u32, u32)],
        max_size: u32,
    ) -> Result<u32> {
        self.check_selector()?;
        if self.groups.len() >= MAX_MEMBERS {
            return Err(ControlError::new(
                ErrorKind::TableFull,
                format!("action profile '{}' has {MAX_MEMBERS} groups, the most there may be", self.name),
            ));
        }
        let id = id.unwrap_or(self.free_group);
        if self.groups.contains_key(&id) {
            return Err(ControlError::new(
                ErrorKind::DuplicateEntry,
                format!("action profile '{}' has a group {id} already", self.name),
            ));
        }
        let members = self.checked(members, max_size)?;
        for (member, _) in &members {
            self.member(*member)?.uses += 1;
        }
        let index = self.group_indices.take();
        self.groups.insert(id, GroupSlot { index, members, max_size, uses: 0 });
        if id == self.free_group {
            self.free_group = lowest_free(&self.groups, id);
        }
        Ok(id)
    }

    /// Replace a group's members.
    pub(super) fn set_group(&mut self, id: u32, members: &[(u32, u32)]) -> Result<()> {
        let max_size = self.group(id)?.max_size;
        let members = self.checked(members, max_size)?;
        let old = std::mem::replace(&mut self.group(id)?.members, members.clone());
        for (member, _) in &members {
            self.member(*member)?.uses += 1;
        }
        for (member, _) in old {
            self.member(member)?.uses -= 1;
        }
        Ok(())
    }

    pub(super) fn add_to_group(&mut self, member: u32, group: u32) -> Result<()> {
        self.member(member)?;
        let mut members = self.group(group)?.members.clone();
        if members.iter().any(|(m, _)| *m == member) {
            return Err(ControlError::new(
                ErrorKind::MemberAlreadyInGroup,
                format!("member {member} is in group {group} of action profile '{}' already", self.name),
            ));
        }
        members.push((member, 1));
        self.set_group(group, &members)
    }

    pub(super) fn remove_from_group(&mut self, member: u32, group: u32) -> Result<()> {
        self.member(member)?;
        let mut members = self.group(group)?.members.clone();
        let before = members.len();
        members.retain(|(m, _)| *m != member);
        if members.len() == before {
            return Err(ControlError::new(
                ErrorKind::MemberNotInGroup,
                format!("member {member} is not in group {group} of action profile '{}'", self.name),
            ));
        }
        self.set_group(group, &members)
    }

    /// Take a group out; gives the replicas' number for it.
    pub(super) fn delete_group(&mut self, id: u32) -> Result<u32> {
        let &mut GroupSlot { index, uses, .. } = self.group(id)?;
        if uses > 0 {
            return Err(ControlError::new(
                ErrorKind::GroupStillUsed,
                format!("group {id} of action profile '{}' is still used, by {uses} entries", self.name),
            ));
        }
        let members = self.groups.remove(&id).map(|group| group.members).unwrap_or_default();
        for (member, _) in members {
            self.member(member)?.uses -= 1;
        }
        self.group_indices.free.push(index);
        self.free_group = self.free_group.min(id);
        Ok(index)
    }

    /// A group as replicas know it: its number, and its members' numbers with their weights, in order.
    pub(super) fn for_replica(&self, group: &GroupSlot) -> (u32, Vec<(u32, u32)>) {
        let index = |(id, weight): &(u32, u32)| Some((self.members.get(id)?.index, *weight));
        (group.index, group.members.iter().filter_map(index).collect())
    }

    /// What an entry does, as replicas know it.
    pub(super) fn action_for_replica(&self, action: &TableAction) -> TableAction {
        match action {
            TableAction::Member(id) => {
                self.members.get(id).map_or_else(|| action.clone(), |slot| TableAction::Member(slot.index))
            }
            TableAction::Group(id) => {
                self.groups.get(id).map_or_else(|| action.clone(), |slot| TableAction::Group(slot.index))
            }
            TableAction::Call(_) => action.clone(),
        }
    }

    /// One use more of what an entry points at. Checked by [`ProfileStore::check`] before.
    pub(super) fn retain(&mut self, action: &Packed) {
        match action {
            Packed::Member(id) => {
                self.members.entry(*id).and_modify(|member| member.uses += 1);
            }
            Packed::Group(id) => {
                self.groups.entry(*id).and_modify(|group| group.uses += 1);
            }
            Packed::Call(..) => {}
        }
    }

    /// One use less.
    pub(super) fn release(&mut self, action: &Packed) {
        match action {
            Packed::Member(id) => {
                self.members.entry(*id).and_modify(|member| member.uses -= 1);
            }
            Packed::Group(id) => {
                self.groups.entry(*id).and_modify(|group| group.uses -= 1);
            }
            Packed::Call(..) => {}
        }
    }

    /// Whether an entry may do this. A group may be empty: P4Runtime empties one while all ports that its members watch are
    /// down, and its entries stay. (bmv2's interface refuses entries on empty groups; that is for those who serve it.)
    pub(super) fn check(&mut self, table: &str, action: &TableAction) -> Result<()> {
        match action {
            TableAction::Call(_) => Err(ControlError::new(
                ErrorKind::WrongTableType,
                format!("table '{table}' takes members of {}, not actions", self.owner()),
            )),
            TableAction::Member(id) => self.member(*id).map(|_| ()),
            TableAction::Group(_) if !self.has_selector => Err(ControlError::new(
                ErrorKind::WrongTableType,
                format!("table '{table}' takes no groups: {} has no selector", self.owner()),
            )),
            TableAction::Group(id) => self.group(*id).map(|_| ()),
        }
    }
}

/// The profile of a table, if its entries point at one.
pub(super) fn profile_of(program: &Program, table: TableId) -> Option<ProfileId> {
    match program.tables[table.at()].source {
        TableActions::Profile(profile) => Some(profile),
        TableActions::Direct => None,
    }
}
