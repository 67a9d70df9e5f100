//! Action profiles: members, groups, groups given in place of an action ("one shot"), and ports that members depend on.

use super::entity::{
    Action, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    ActionWatch, GroupMember, MemberWatch,
};
use super::error::{P4Error, Result, invalid, not_found};
use super::keys::{Stand, call_of};
use super::message::UpdateType;
use super::target::{EntryNote, Target};
use super::value::number32;
use crate::p4info::index::{ProfileIndex, TableIndex};
use barewire_switch::control::{ErrorKind, Group, Member, PortInfo, TableAction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tonic::Code;

/// Members of a group that may be left out because their port is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) member: u32,
    pub(super) weight: u32,
    pub(super) port: Option<u32>,
}

/// A group as it was written.
#[derive(Debug, Clone)]
pub(super) struct GroupNote {
    pub(super) message: ActionProfileGroup,
    pub(super) watched: Vec<Watched>,
    /// It stands for a group in place: nobody may see it.
    pub(super) in_place: bool,
}

/// Members of a profile; its groups, with what is known of them.
pub(super) type MembersAndGroups = (Vec<Member>, Vec<(Group, Option<GroupNote>)>);

impl GroupNote {
    /// Whether a group is the one that was written: another control plane may have taken that away and made another of its
    /// number, and those say no size.
    fn is_of(&self, there: &Group) -> bool {
        u32::try_from(self.message.max_size).unwrap_or(0) == there.max_size
    }
}

/// The port that a choice of a group in place depends on.
fn watched_port(choice: &ActionProfileAction) -> Result<Option<u32>> {
    match &choice.watch_kind {
        None => Ok(None),
        Some(ActionWatch::Watch(port)) => Ok(u32::try_from(*port).ok().filter(|&port| port != 0)),
        Some(ActionWatch::WatchPort(port)) if port.is_empty() => Ok(None),
        Some(ActionWatch::WatchPort(port)) => number32(port).map(Some),
    }
}

impl Target {
    fn profile(pipeline: &super::target::Pipeline, id: u32) -> Result<&ProfileIndex> {
        pipeline.index.profiles.get(id).ok_or_else(|| {
            let known: Vec<String> =
                pipeline.index.profiles.iter().map(|p| format!("{} ('{}')", p.id, p.name)).collect();
            not_found(format!("there is no action profile {id}; they are {}", known.join(", ")))
        })
    }

    /// A profile is programmed by groups in place only, or by members and groups only.
    pub(super) fn exclusive(&mut self, profile: u32, in_place: bool) -> Result<()> {
        if self.moving {
            return Ok(());
        }
        let pipeline = Arc::clone(&self.pipeline);
        let Some(profile) = pipeline.index.profiles.get(profile) else { return Ok(()) };
        if !in_place && self.has_in_place(profile) {
            self.drop_orphans(profile)?;
        }
        let others = match in_place {
            false => self.has_in_place(profile),
            true => !self.has_in_place(profile) && !self.switch.members(profile.profile)?.is_empty(),
        };
        if others {
            let message = "groups given in place and members and groups of their own exclude each other";
            return Err(invalid(format!("action profile '{}': {message}", profile.name)));
        }
        Ok(())
    }

    fn has_in_place(&self, profile: &ProfileIndex) -> bool {
        self.notes.one_shots.get(&profile.id).is_some_and(|count| *count > 0)
    }

    fn note_in_place(&mut self, key: (u32, u32), watched: Vec<Watched>) {
        let note = GroupNote { message: ActionProfileGroup::default(), watched, in_place: true };
        if self.notes.groups.insert(key, note).is_none_or(|old| !old.in_place) {
            *self.notes.one_shots.entry(key.0).or_default() += 1;
        }
    }

    /// Take away a group in place, if it is there.
    fn drop_in_place(&mut self, profile: &ProfileIndex, group: u32) -> Result<()> {
        match self.switch.delete_group(profile.profile, group) {
            Err(error) if error.kind != ErrorKind::InvalidGroup => return Err(error.into()),
            _ => {}
        }
        if self.notes.groups.remove(&(profile.id, group)).is_some_and(|note| note.in_place)
            && let Some(count) = self.notes.one_shots.get_mut(&profile.id)
        {
            *count = count.saturating_sub(1);
        }
        Ok(())
    }

    fn drop_members(&self, profile: &ProfileIndex, members: impl Iterator<Item = u32>) -> Result<()> {
        for member in members {
            // Another control plane may have taken it away, or use it.
            match self.switch.delete_member(profile.profile, member).map_err(|error| (error.kind, error)) {
                Ok(()) | Err((ErrorKind::InvalidMember | ErrorKind::MemberStillUsed, _)) => {}
                Err((_, error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Take away groups in place whose entries another control plane took away or gave something else.
    fn drop_orphans(&mut self, profile: &ProfileIndex) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let mut used = self.retired_groups();
        for table in pipeline.index.tables.iter().filter(|table| table.profile == Some(profile.id)) {
            used.extend(self.switch.entries(table.table)?.iter().filter_map(|entry| match entry.action {
                TableAction::Group(group) => Some(group),
                _ => None,
            }));
        }
        let of_profile = self.notes.groups.range((profile.id, 0)..=(profile.id, u32::MAX));
        let orphans: Vec<(u32, Vec<u32>)> = of_profile
            .filter(|((_, group), note)| note.in_place && !used.contains(group))
            .map(|((_, group), note)| (*group, note.watched.iter().map(|known| known.member).collect()))
            .collect();
        for (group, members) in orphans {
            self.drop_in_place(profile, group)?;
            self.drop_members(profile, members.into_iter())?;
        }
        Ok(())
    }

    pub(super) fn write_member(&mut self, kind: UpdateType, member: &ActionProfileMember) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let profile = Self::profile(&pipeline, member.action_profile_id)?;
        let (p, id) = (profile.profile, member.member_id);
        let place = format!("action profile '{}', member {id}", profile.name);
        if id == 0 {
            return Err(invalid(format!("{place}: 0 is no member's id")));
        }
        self.exclusive(profile.id, false)?;
        let before = self.switch.member(p, id).ok();
        if before.is_none() && kind != UpdateType::Insert {
            return Err(not_found(format!("{place}: there is no such member")));
        }
        if kind == UpdateType::Delete {
            self.switch.delete_member(p, id).map_err(|error| P4Error::from(error).at(&place))?;
            self.undo_with(move |target| match before {
                Some(before) => Ok(target.switch.add_member_as(p, id, before.call)?),
                None => Ok(()),
            });
            return Ok(());
        }
        let action =
            member.action.as_ref().ok_or_else(|| invalid(format!("{place}: the action is not set")))?;
        let call = call_of(&pipeline.index, &place, &profile.actions, action, Stand::Entry)?;
        match (kind, before) {
            (UpdateType::Insert, Some(_)) => {
                Err(P4Error::new(Code::AlreadyExists, format!("{place}: it is there already")))
            }
            (UpdateType::Insert, None) => {
                self.switch.add_member_as(p, id, call).map_err(|error| P4Error::from(error).at(&place))?;
                self.undo_with(move |target| Ok(target.switch.delete_member(p, id)?));
                Ok(())
            }
            (_, before) => {
                self.switch.modify_member(p, id, call).map_err(|error| P4Error::from(error).at(&place))?;
                self.undo_with(move |target| match before {
                    Some(before) => Ok(target.switch.modify_member(p, id, before.call)?),
                    None => Ok(()),
                });
                Ok(())
            }
        }
    }

    /// The port that a member depends on: it must exist, or have existed when the member was first written. None for 0 and for
    /// an empty one. `ports` is asked for once.
    fn watch_port(
        &mut self,
        place: &str,
        port: Option<u32>,
        ports: &mut Option<Vec<PortInfo>>,
    ) -> Result<Option<u32>> {
        let Some(port) = port else { return Ok(None) };
        let ports = match ports {
            Some(ports) => ports,
            None => ports.insert(self.ports.known_ports()?),
        };
        let Some(info) = ports.iter().find(|info| info.port == port) else {
            if self.moving {
                // It was removed: that is down.
                self.port_changed(port, false);
                return Ok(Some(port));
            }
            let known: Vec<String> = ports.iter().map(|info| info.port.to_string()).collect();
            return Err(invalid(format!(
                "{place}: there is no port {port} to watch; ports are {}",
                known.join(", ")
            )));
        };
        // The news may not have come yet, and would be none then: who watches already has to hear it now.
        self.port_changed(port, info.up);
        Ok(Some(port))
    }

    fn weight(place: &str, weight: i32) -> Result<u32> {
        let positive = u32::try_from(weight).ok().filter(|&weight| weight > 0);
        positive.ok_or_else(|| invalid(format!("{place}: weight {weight} is not above 0")))
    }

    /// The members that packets may be given to now.
    fn effective(&self, watched: &[Watched]) -> Vec<(u32, u32)> {
        watched
            .iter()
            .filter(|member| member.port.is_none_or(|port| !self.notes.down.contains(&port)))
            .map(|member| (member.member, member.weight))
            .collect()
    }

    /// The members that a group had while these ports were down, for the ports of now.
    fn had_members(
        &self,
        mut had: Vec<(u32, u32)>,
        note: Option<&GroupNote>,
        down: &BTreeSet<u32>,
    ) -> Vec<(u32, u32)> {
        for known in note.iter().flat_map(|note| &note.watched) {
            let Some(port) = known.port else { continue };
            let there = had.iter().position(|(member, _)| *member == known.member);
            match (self.notes.down.contains(&port), there) {
                (true, Some(at)) => drop(had.remove(at)),
                (false, None) if down.contains(&port) => had.push((known.member, known.weight)),
                _ => {}
            }
        }
        had
    }

    /// What is known of a group, if it is still there.
    fn known_group(&mut self, key: (u32, u32), there: Option<&Group>) -> Option<GroupNote> {
        let note = self.notes.groups.get(&key)?;
        if there.is_some_and(|there| note.is_of(there)) {
            return Some(note.clone());
        }
        self.notes.groups.remove(&key);
        None
    }

    fn group_members(
        &mut self,
        profile: &ProfileIndex,
        place: &str,
        members: &[GroupMember],
    ) -> Result<Vec<Watched>> {
        let mut watched: Vec<Watched> = Vec::with_capacity(members.len());
        let mut ports = None;
        for member in members {
            let place = format!("{place}, member {}", member.member_id);
            let weight = Self::weight(&place, member.weight)?;
            if profile.member_weight.is_some_and(|most| most > 0 && weight > most) {
                return Err(invalid(format!("{place}: weight {weight} is above the profile's largest")));
            }
            if self.switch.member(profile.profile, member.member_id).is_err() {
                return Err(not_found(format!("{place}: there is no such member")));
            }
            if watched.iter().any(|other| other.member == member.member_id) {
                return Err(invalid(format!("{place}: it is given twice")));
            }
            let port = match &member.watch_kind {
                None => None,
                Some(MemberWatch::Watch(port)) => u32::try_from(*port).ok().filter(|&port| port != 0),
                Some(MemberWatch::WatchPort(port)) if port.is_empty() => None,
                Some(MemberWatch::WatchPort(port)) => Some(number32(port).map_err(|error| error.at(&place))?),
            };
            let port = self.watch_port(&place, port, &mut ports)?;
            watched.push(Watched { member: member.member_id, weight, port });
        }
        Ok(watched)
    }

    /// The size of a group as its profile counts it.
    fn size_of(profile: &ProfileIndex, watched: &[Watched]) -> u64 {
        match profile.member_weight {
            Some(_) => watched.len() as u64,
            None => watched.iter().map(|member| u64::from(member.weight)).sum(),
        }
    }

    pub(super) fn write_group(&mut self, kind: UpdateType, group: &ActionProfileGroup) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let profile = Self::profile(&pipeline, group.action_profile_id)?;
        let (p, id) = (profile.profile, group.group_id);
        let place = format!("action profile '{}', group {id}", profile.name);
        if !profile.selector {
            return Err(invalid(format!("{place}: the action profile has no selector, so no groups")));
        }
        if id == 0 {
            return Err(invalid(format!("{place}: 0 is no group's id")));
        }
        self.exclusive(profile.id, false)?;
        let key = (profile.id, id);
        let there = self.switch.group(p, id).ok();
        let before = self.known_group(key, there.as_ref());
        let old = match (kind, there) {
            (UpdateType::Insert, Some(_)) => {
                return Err(P4Error::new(Code::AlreadyExists, format!("{place}: it is there already")));
            }
            (UpdateType::Insert, None) => None,
            (_, None) => return Err(not_found(format!("{place}: there is no such group"))),
            (_, there) => there,
        };
        if let (UpdateType::Delete, Some(old)) = (kind, &old) {
            self.switch.delete_group(p, id).map_err(|error| P4Error::from(error).at(&place))?;
            self.notes.groups.remove(&key);
            let (old, down) = (old.clone(), self.notes.down.clone());
            self.undo_with(move |target| {
                let members = target.had_members(old.members, before.as_ref(), &down);
                target.switch.create_group_as(p, id, members, old.max_size)?;
                target.notes.groups.extend(before.map(|note| (key, note)));
                Ok(())
            });
            return Ok(());
        }
        let max_size = u32::try_from(group.max_size).ok();
        let allowed = match (profile.max_group_size, max_size) {
            (_, None) => false,
            (0, Some(_)) => true,
            (most, Some(size)) => size > 0 && size <= most,
        };
        if !allowed {
            let message = format!("max_size {} is not in 1 to {}", group.max_size, profile.max_group_size);
            return Err(invalid(format!("{place}: {message}")));
        }
        let max_size = max_size.unwrap_or(0);
        if let (UpdateType::Modify, Some(before)) = (kind, &before)
            && before.message.max_size != group.max_size
        {
            let message =
                format!("max_size was {} and may not change to {}", before.message.max_size, group.max_size);
            return Err(invalid(format!("{place}: {message}")));
        }
        let watched = self.group_members(profile, &place, &group.members)?;
        let size = Self::size_of(profile, &watched);
        if max_size > 0 && size > u64::from(max_size) {
            let message = format!("{place}: its members amount to {size}, max_size is {max_size}");
            return Err(P4Error::new(Code::ResourceExhausted, message));
        }
        let members = self.effective(&watched);
        if let Some(old) = old {
            // Looked at again, for watched ports may just have been found to be down.
            let old = self.switch.group(p, id).map_or(old.members, |group| group.members);
            let down = self.notes.down.clone();
            self.switch.set_group_members(p, id, members).map_err(|error| P4Error::from(error).at(&place))?;
            self.undo_with(move |target| {
                let members = target.had_members(old, before.as_ref(), &down);
                target.notes.groups.remove(&key);
                target.notes.groups.extend(before.map(|note| (key, note)));
                Ok(target.switch.set_group_members(p, id, members)?)
            });
        } else {
            self.switch
                .create_group_as(p, id, members, max_size)
                .map_err(|error| P4Error::from(error).at(&place))?;
            self.undo_with(move |target| {
                target.notes.groups.remove(&key);
                Ok(target.switch.delete_group(p, id)?)
            });
        }
        self.notes.groups.insert(key, GroupNote { message: group.clone(), watched, in_place: false });
        Ok(())
    }

    /// Make the members and the group that a group in place stands for; the note says which.
    pub(super) fn make_one_shot(
        &mut self,
        table: &TableIndex,
        set: &ActionProfileActionSet,
        note: &mut EntryNote,
    ) -> Result<TableAction> {
        let pipeline = Arc::clone(&self.pipeline);
        let place = format!("table '{}', group in place", table.name);
        let profile =
            table.profile.and_then(|id| pipeline.index.profiles.get(id)).filter(|profile| profile.selector);
        let profile = profile
            .ok_or_else(|| invalid(format!("{place}: the table has no action profile with selector")))?;
        self.exclusive(profile.id, true)?;
        let mut calls = Vec::with_capacity(set.action_profile_actions.len());
        let mut ports = None;
        for (at, choice) in set.action_profile_actions.iter().enumerate() {
            let place = format!("{place}, choice {}", at + 1);
            let weight = Self::weight(&place, choice.weight)?;
            if profile.member_weight.is_some_and(|most| most > 0 && weight > most) {
                return Err(invalid(format!("{place}: weight {weight} is above the profile's largest")));
            }
            let action =
                choice.action.as_ref().ok_or_else(|| invalid(format!("{place}: the action is not set")))?;
            let port = watched_port(choice).map_err(|error| error.at(&place))?;
            let port = self.watch_port(&place, port, &mut ports)?;
            let call = call_of(&pipeline.index, &place, &profile.actions, action, Stand::Entry)?;
            calls.push((call, Watched { member: 0, weight, port }));
        }
        let watched: Vec<Watched> = calls.iter().map(|(_, watched)| watched.clone()).collect();
        let size = Self::size_of(profile, &watched);
        if profile.max_group_size > 0 && size > u64::from(profile.max_group_size) {
            let message =
                format!("its choices amount to {size}, a group to {} at most", profile.max_group_size);
            return Err(invalid(format!("{place}: {message}")));
        }
        note.one_shot = Some(set.clone());
        let made = self.make_group(profile, calls, note);
        if let Err(error) = &made {
            let error = error.clone();
            self.drop_one_shot(table, note)?;
            *note = EntryNote { one_shot: None, group: None, members: Vec::new(), ..std::mem::take(note) };
            return Err(error.at(&place));
        }
        made.map(TableAction::Group)
    }

    fn make_group(
        &mut self,
        profile: &ProfileIndex,
        calls: Vec<(barewire_p4::ir::ActionCall, Watched)>,
        note: &mut EntryNote,
    ) -> Result<u32> {
        let p = profile.profile;
        let mut watched = Vec::with_capacity(calls.len());
        for (call, member) in calls {
            let id = self.switch.add_member(p, call)?;
            note.members.push(id);
            watched.push(Watched { member: id, ..member });
        }
        let group = self.switch.create_group(p)?;
        note.group = Some(group);
        let (key, members) = ((profile.id, group), self.effective(&watched));
        // Another control plane took one of this number away, and may have left its members.
        if let Some(old) = self.notes.groups.get(&key).filter(|old| old.in_place) {
            self.drop_members(profile, old.watched.iter().map(|known| known.member))?;
        }
        self.note_in_place(key, watched);
        self.switch.set_group_members(p, group, members)?;
        Ok(group)
    }

    /// Take away the members and the group of an entry that had a group in place.
    pub(super) fn drop_one_shot(&mut self, table: &TableIndex, note: &EntryNote) -> Result<()> {
        if note.one_shot.is_none() {
            return Ok(());
        }
        let pipeline = Arc::clone(&self.pipeline);
        let Some(profile) = table.profile.and_then(|id| pipeline.index.profiles.get(id)) else {
            return Ok(());
        };
        if let Some(group) = note.group {
            self.drop_in_place(profile, group)?;
        }
        self.drop_members(profile, note.members.iter().copied())
    }

    /// A port went up or down: groups with members that watch it change.
    pub(super) fn port_changed(&mut self, port: u32, up: bool) {
        let changed = if up { self.notes.down.remove(&port) } else { self.notes.down.insert(port) };
        if !changed {
            return;
        }
        let pipeline = Arc::clone(&self.pipeline);
        // A group that another control plane made in the place of one that watches is left alone.
        let watching = |(profile, group): (u32, u32), note: &GroupNote| {
            note.watched.iter().any(|member| member.port == Some(port))
                && pipeline.index.profiles.get(profile).is_some_and(|profile| {
                    self.switch.group(profile.profile, group).is_ok_and(|there| note.is_of(&there))
                })
        };
        let groups: Vec<_> = self
            .notes
            .groups
            .iter()
            .filter(|(key, note)| watching(**key, note))
            .map(|(key, note)| (*key, self.effective(&note.watched)))
            .collect();
        for ((profile, group), members) in groups {
            if let Some(profile) = pipeline.index.profiles.get(profile) {
                // A group that another control plane deleted does not need it; the others do.
                let _ = self.switch.set_group_members(profile.profile, group, members);
            }
        }
    }

    /// Find out which watched ports are down now, for who may not have heard of it.
    pub(super) fn look_at_ports(&mut self) {
        let watched: BTreeSet<u32> = self
            .notes
            .groups
            .values()
            .flat_map(|note| note.watched.iter().filter_map(|member| member.port))
            .chain(self.notes.down.iter().copied())
            .collect();
        if watched.is_empty() {
            return;
        }
        // When no engine answers nothing is known.
        let Ok(ports) = self.ports.known_ports() else { return };
        for port in watched {
            // A port that is not there is down.
            self.port_changed(port, ports.iter().any(|info| info.port == port && info.up));
        }
    }

    /// Find the groups of a store that was put in place whole: those in place by their entries' cookies, the others by
    /// what was known of them, where they hold the same members.
    pub(super) fn find_groups(&mut self, known: BTreeMap<(u32, u32), GroupNote>) {
        let pipeline = Arc::clone(&self.pipeline);
        for table in pipeline.index.tables.iter() {
            let profile = table.profile.and_then(|id| pipeline.index.profiles.get(id));
            let Some(profile) = profile.filter(|profile| profile.selector) else { continue };
            for entry in self.switch.entries(table.table).unwrap_or_default() {
                let note = EntryNote::of(&entry);
                let Some(set) = note.one_shot else { continue };
                let Some(group) = note.group else { continue };
                let choices = set.action_profile_actions.iter().zip(note.members);
                let watched = choices.map(|(choice, member)| Watched {
                    member,
                    weight: u32::try_from(choice.weight).unwrap_or(1),
                    port: watched_port(choice).unwrap_or(None),
                });
                let watched = watched.collect();
                self.note_in_place((profile.id, group), watched);
            }
        }
        for (key, note) in known.into_iter().filter(|(_, note)| !note.in_place) {
            let Some(profile) = pipeline.index.profiles.get(key.0) else { continue };
            let Ok(there) = self.switch.group(profile.profile, key.1) else { continue };
            let is_known = |(member, weight): &(u32, u32)| {
                note.watched.iter().any(|known| (known.member, known.weight) == (*member, *weight))
            };
            let can_come = |known: &Watched| self.switch.member(profile.profile, known.member).is_ok();
            if there.members.iter().all(is_known) && note.watched.iter().all(can_come) {
                self.notes.groups.entry(key).or_insert(note);
            }
        }
        self.look_at_ports();
        // The store may have been saved while other ports were down.
        for ((profile, group), note) in &self.notes.groups {
            let Some(profile) = pipeline.index.profiles.get(*profile) else { continue };
            let members = self.effective(&note.watched);
            if self.switch.group(profile.profile, *group).is_ok_and(|there| there.members != members) {
                let _ = self.switch.set_group_members(profile.profile, *group, members);
            }
        }
    }

    /// The members and groups of a profile that do not stand for groups in place, with what is known of the groups.
    pub(super) fn own_members_and_groups(&self, profile: &ProfileIndex) -> Result<MembersAndGroups> {
        let in_place: BTreeSet<u32> = self
            .notes
            .groups
            .range((profile.id, 0)..=(profile.id, u32::MAX))
            .filter(|(_, note)| note.in_place)
            .flat_map(|(_, note)| note.watched.iter().map(|known| known.member))
            .collect();
        let mut members = self.switch.members(profile.profile)?;
        members.retain(|member| !in_place.contains(&member.handle));
        let groups = if profile.selector { self.switch.groups(profile.profile)? } else { Vec::new() };
        let known = |group: Group| {
            let note = self.notes.groups.get(&(profile.id, group.handle)).filter(|note| note.is_of(&group));
            (note.is_none_or(|note| !note.in_place)).then(|| (group, note.cloned()))
        };
        Ok((members, groups.into_iter().filter_map(known).collect()))
    }

    /// Make the members and groups of another program's profile in this one. They are as the switch holds them, whoever made
    /// them: with any number, and without those members of groups whose ports are down.
    pub(super) fn take_members_and_groups(
        &mut self,
        profile: u32,
        members: Vec<(u32, Action)>,
        groups: Vec<(Group, Option<GroupNote>)>,
    ) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let profile = Self::profile(&pipeline, profile)?;
        for (member, action) in members {
            let place = format!("action profile '{}', member {member}", profile.name);
            let call = call_of(&pipeline.index, &place, &profile.actions, &action, Stand::Anywhere)?;
            self.switch
                .add_member_as(profile.profile, member, call)
                .map_err(|error| P4Error::from(error).at(&place))?;
        }
        for (group, note) in groups {
            let place = format!("action profile '{}', group {}", profile.name, group.handle);
            if note.is_some() && profile.max_group_size > 0 && group.max_size > profile.max_group_size {
                let message =
                    format!("max_size {} is not in 1 to {}", group.max_size, profile.max_group_size);
                return Err(invalid(format!("{place}: {message}")));
            }
            self.switch
                .create_group_as(profile.profile, group.handle, group.members, group.max_size)
                .map_err(|error| P4Error::from(error).at(&place))?;
            if let Some(mut note) = note {
                note.message.action_profile_id = profile.id;
                self.notes.groups.insert((profile.id, group.handle), note);
            }
        }
        Ok(())
    }

    /// The members of profiles, all of one, or one.
    pub(super) fn read_members(&self, wanted: &ActionProfileMember) -> Result<Vec<ActionProfileMember>> {
        let index = self.index();
        if wanted.action_profile_id != 0 {
            Self::profile(&self.pipeline, wanted.action_profile_id)?;
        }
        let mut out = Vec::new();
        let chosen =
            |profile: &&ProfileIndex| wanted.action_profile_id == 0 || wanted.action_profile_id == profile.id;
        for profile in index.profiles.iter().filter(chosen) {
            if self.has_in_place(profile) {
                continue;
            }
            let members = match wanted.member_id {
                0 => self.switch.members(profile.profile)?,
                id => self.switch.member(profile.profile, id).into_iter().collect(),
            };
            out.extend(members.into_iter().map(|member| ActionProfileMember {
                action_profile_id: profile.id,
                member_id: member.handle,
                action: super::keys::wire_call(index, &profile.actions, &member.call),
            }));
        }
        Ok(out)
    }

    /// The groups of profiles, all of one, or one, as they were written.
    pub(super) fn read_groups(&self, wanted: &ActionProfileGroup) -> Result<Vec<ActionProfileGroup>> {
        if wanted.action_profile_id != 0 {
            Self::profile(&self.pipeline, wanted.action_profile_id)?;
        }
        let mut out = Vec::new();
        let chosen =
            |profile: &&ProfileIndex| wanted.action_profile_id == 0 || wanted.action_profile_id == profile.id;
        for profile in self.index().profiles.iter().filter(chosen).filter(|profile| profile.selector) {
            let groups = match wanted.group_id {
                0 => self.switch.groups(profile.profile)?,
                id => self.switch.group(profile.profile, id).into_iter().collect(),
            };
            for group in groups {
                let known = self.notes.groups.get(&(profile.id, group.handle));
                match known.filter(|note| note.is_of(&group)) {
                    Some(note) if note.in_place => {}
                    Some(note) => out.push(note.message.clone()),
                    // Another control plane's.
                    None => out.push(ActionProfileGroup {
                        action_profile_id: profile.id,
                        group_id: group.handle,
                        members: group
                            .members
                            .iter()
                            .map(|&(member_id, weight)| GroupMember {
                                member_id,
                                weight: i32::try_from(weight).unwrap_or(i32::MAX),
                                watch_kind: None,
                            })
                            .collect(),
                        max_size: i32::try_from(group.max_size).unwrap_or(i32::MAX),
                    }),
                }
            }
        }
        Ok(out)
    }
}
