//! Action profiles: members, and groups of them.
//!
//! A group's members lie at places one after the other. A group that changes gets places behind all that it had, and then the word that
//! says where they are: a packet chooses among the members before or among those after. What goes stays until no packet is under way that
//! found its number where it was named last.

use super::{Kept, MapOp, Mirror, MirrorError, word32};
use crate::maps::{GROUP_LEN, MAX_GROUP_PLACES, owned};
use barewire_p4::ir::{ActionCall, ProfileId};
use barewire_p4_state::TableAction;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Places, and groups, that are taken away together: each time is waited for all packets under way.
const MOST_LEFT: usize = 4096;
/// Places are below this.
const LAST_PLACE: u32 = 1 << 30;

/// One profile.
#[derive(Default)]
pub(super) struct ProfileMirror {
    /// Where each member's record is.
    members: BTreeMap<u32, Option<u32>>,
    /// Members that went.
    dying: BTreeSet<u32>,
    /// Each group's places.
    groups: BTreeMap<u32, Range<u32>>,
    /// Places that no group has any more, but packets may look at.
    left: Vec<(u32, Range<u32>)>,
    /// How many there are of both.
    places: u64,
    /// Groups for which there is no room.
    left_out: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Members for which there is none.
    lost: BTreeSet<u32>,
}

impl ProfileMirror {
    /// Whether something of it is not in the maps.
    pub fn is_full(&self) -> bool {
        !self.left_out.is_empty() || !self.lost.is_empty()
    }
}

fn place_key(group: u32, place: u32) -> Vec<u8> {
    [group.to_ne_bytes(), place.to_ne_bytes()].concat()
}

fn place_op(map: usize, group: u32, place: u32, word: u64) -> MapOp {
    let key = place_key(group, place);
    MapOp { map, value: Some(owned(&key, &[word])), key }
}

impl Mirror {
    /// Set a profile's member.
    ///
    /// # Errors
    /// [`MirrorError::Full`]; packets then go to user space while it is there.
    pub fn set_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: &ActionCall,
        out: &mut Vec<MapOp>,
    ) -> Result<(), MirrorError> {
        let shape = self.shape.members[profile.at()];
        let most = self.shape.maps[shape.map].entries as usize;
        let own = &self.profiles[profile.at()];
        let has = |own: &ProfileMirror| own.members.contains_key(&member) || own.dying.contains(&member);
        if !has(own) && own.members.len() + own.dying.len() >= most {
            self.bury(profile, out);
        }
        let own = &self.profiles[profile.at()];
        let fits = has(own) || own.members.len() < most;
        let record = self.record(shape.record_words, Some(&TableAction::Call(call.clone())), 0);
        let kept = if fits { self.keep(shape.records, &record, out) } else { None };
        let Some(Kept { word, slot }) = kept else {
            self.profiles[profile.at()].lost.insert(member);
            return self.no_room(profile, out);
        };
        let key = word32(member);
        out.push(MapOp { map: shape.map, value: Some(owned(&key, &[word])), key });
        let own = &mut self.profiles[profile.at()];
        let before = own.members.insert(member, slot).flatten();
        own.dying.remove(&member);
        if own.lost.remove(&member) {
            self.set_full(out);
        }
        self.retire(shape.records, before);
        Ok(())
    }

    fn no_room(&mut self, profile: ProfileId, out: &mut Vec<MapOp>) -> Result<(), MirrorError> {
        self.set_full(out);
        Err(MirrorError::Full(self.program.profiles[profile.at()].name.clone()))
    }

    /// Take a profile's member away: what names it runs no action.
    pub fn remove_member(&mut self, profile: ProfileId, member: u32, out: &mut Vec<MapOp>) {
        let shape = self.shape.members[profile.at()];
        if self.profiles[profile.at()].lost.remove(&member) {
            self.set_full(out);
        }
        let own = &mut self.profiles[profile.at()];
        if let Some(slot) = own.members.remove(&member) {
            own.dying.insert(member);
            let many = own.dying.len() > MOST_LEFT;
            // Its word is still there, but nothing names it.
            self.retire(shape.records, slot);
            if many {
                self.bury(profile, out);
            }
        }
    }

    /// Take away members that went.
    fn bury(&mut self, profile: ProfileId, out: &mut Vec<MapOp>) {
        let map = self.shape.members[profile.at()].map;
        let dying = std::mem::take(&mut self.profiles[profile.at()].dying);
        if !dying.is_empty() {
            out.push(MapOp::wait());
        }
        out.extend(dying.into_iter().map(|member| MapOp { map, key: word32(member), value: None }));
    }

    /// Set a group of a profile: each member as often as its weight says.
    ///
    /// # Errors
    /// [`MirrorError::Full`]; packets then go to user space until it fits.
    pub fn set_group(
        &mut self,
        profile: ProfileId,
        group: u32,
        members: &[(u32, u32)],
        out: &mut Vec<MapOp>,
    ) -> Result<(), MirrorError> {
        let Some(map) = self.shape.groups[profile.at()] else { return Ok(()) };
        let count: u64 = members.iter().map(|&(_, weight)| u64::from(weight)).sum();
        let own = &mut self.profiles[profile.at()];
        let now = own.groups.get(&group).cloned();
        let groups = (own.groups.len() + own.left.len()) as u64 + u64::from(now.is_none());
        let left = own.left.iter().filter(|(known, _)| *known == group).map(|(_, places)| places.end);
        let mut first = left.chain(now.iter().map(|places| places.end)).max().unwrap_or(0);
        let beyond = u64::from(first) + count > u64::from(LAST_PLACE);
        if own.places + groups + count > u64::from(MAX_GROUP_PLACES) || beyond {
            own.take_back(map, out);
        }
        let groups = (own.groups.len() + own.left.len()) as u64 + u64::from(now.is_none());
        if beyond {
            // What it has now is far behind.
            first = 0;
        }
        let overlaps = beyond && now.as_ref().is_some_and(|now| u64::from(now.start) < count);
        if own.places + groups + count > u64::from(MAX_GROUP_PLACES) || overlaps {
            own.left_out.insert(group, members.to_vec());
            return self.no_room(profile, out);
        }
        let all = members.iter().flat_map(|&(member, weight)| std::iter::repeat_n(member, weight as usize));
        for (place, member) in (first..).zip(all) {
            out.push(place_op(map, group, place, member.into()));
        }
        let word = count | u64::from(first) << 32;
        out.push(place_op(map, group, GROUP_LEN, word));
        own.places += count;
        own.groups.insert(group, first..first + count as u32);
        if let Some(before) = now {
            own.leave(group, before, map, out);
        }
        if own.left_out.remove(&group).is_some() {
            self.set_full(out);
        }
        Ok(())
    }

    /// Remove a group: entries that name it run no action.
    pub fn remove_group(&mut self, profile: ProfileId, group: u32, out: &mut Vec<MapOp>) {
        let Some(map) = self.shape.groups[profile.at()] else { return };
        let own = &mut self.profiles[profile.at()];
        if let Some(places) = own.groups.remove(&group) {
            own.leave(group, places, map, out);
        }
        own.left_out.remove(&group);
        // There may be room for others now.
        for (group, members) in own.left_out.clone() {
            let _ = self.set_group(profile, group, &members, out);
        }
        self.set_full(out);
    }
}

impl ProfileMirror {
    /// These places are no group's any more.
    fn leave(&mut self, group: u32, places: Range<u32>, map: usize, out: &mut Vec<MapOp>) {
        self.left.push((group, places));
        if self.left.iter().map(|(_, places)| places.len()).sum::<usize>() + self.left.len() > MOST_LEFT {
            self.take_back(map, out);
        }
    }

    /// Take away what no group has any more.
    fn take_back(&mut self, map: usize, out: &mut Vec<MapOp>) {
        if self.left.is_empty() {
            return;
        }
        out.push(MapOp::wait());
        for (group, places) in std::mem::take(&mut self.left) {
            self.places -= u64::from(places.end - places.start);
            if !self.groups.contains_key(&group) {
                out.push(MapOp { map, key: place_key(group, GROUP_LEN), value: None });
            }
            out.extend(places.map(|place| MapOp { map, key: place_key(group, place), value: None }));
        }
    }
}
