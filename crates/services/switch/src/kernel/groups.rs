//! Multicast groups in the kernel: for XDP a device map each, to all of whose interfaces a packet goes at once; for tc a list.

use super::{Kernel, KernelError};
use barewire_bpf::Map;
use barewire_p4_ebpf::maps::{MAX_COPIES, MAX_GROUPS};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::AsRawFd;

/// Groups that have copies.
#[derive(Debug, Default)]
pub(super) struct Groups {
    known: BTreeMap<u32, Group>,
    /// Groups with copies that only user space makes.
    slow: BTreeSet<u32>,
    /// Groups whose device maps no packet finds yet.
    fresh: Vec<u32>,
}

/// One of them.
#[derive(Debug)]
struct Group {
    /// The interfaces of its copies.
    interfaces: Vec<u32>,
    /// What its device map has at which place; 0: nothing.
    places: Vec<u32>,
    map: Map,
}

/// Whether a device map did not take an interface because that is not there any more.
fn is_gone(error: &io::Error) -> bool {
    // EINVAL and ENODEV.
    matches!(error.raw_os_error(), Some(22 | 19))
}

impl Group {
    /// Other interfaces, changed where they are: whoever puts another map there waits for all CPUs. Each change is of one interface,
    /// and one that stays is not touched, so no packet goes out of it twice or not at all.
    fn change(&mut self, wanted: &[u32]) -> io::Result<()> {
        let mut fresh = wanted.to_vec();
        let mut gone = VecDeque::new();
        for (place, interface) in self.places.iter().enumerate().filter(|(_, interface)| **interface != 0) {
            match fresh.iter().position(|wanted| wanted == interface) {
                Some(at) => drop(fresh.swap_remove(at)),
                None => gone.push_back(place),
            }
        }
        for interface in fresh {
            let place = gone.pop_front().or_else(|| self.places.iter().position(|known| *known == 0));
            let place = place.unwrap_or(self.places.len());
            if place == self.places.len() {
                self.places.push(0);
            }
            match self.map.update(&(place as u32).to_ne_bytes(), &interface.to_ne_bytes()) {
                Ok(()) => self.places[place] = interface,
                // When it is there again its port says so.
                Err(error) if is_gone(&error) => self.empty(place)?,
                Err(error) => return Err(error),
            }
        }
        gone.into_iter().try_for_each(|place| self.empty(place))
    }

    fn empty(&mut self, place: usize) -> io::Result<()> {
        self.places[place] = 0;
        self.map.delete(&(place as u32).to_ne_bytes()).map(drop)
    }
}

impl Kernel {
    /// Whether the program makes the copies of multicast groups.
    pub fn makes_copies(&self) -> bool {
        self.compiled.multicasts
    }

    /// Groups that have copies.
    pub fn groups_with_copies(&self) -> impl Iterator<Item = u32> {
        self.groups.known.keys().chain(&self.groups.slow).copied()
    }

    /// An interface goes, or is another one under its number: maps have lost it already, or will.
    pub(super) fn forget_copies_to(&mut self, interface: u32) {
        for group in self.groups.known.values_mut() {
            for place in 0..group.places.len() {
                if group.places[place] == interface {
                    let _ = group.empty(place);
                    group.interfaces.clear();
                }
            }
        }
    }

    /// Say by which ports the copies of a group leave: none, and there is no group. While a group has a copy for the controller, or more
    /// copies than there may be, or there are more groups, every packet goes to user space. `before`: the program whose places this one is about to take.
    ///
    /// # Errors
    /// [`KernelError::Update`].
    pub fn set_copies(
        &mut self,
        group: u32,
        ports: &[u32],
        cpu: Option<u32>,
        before: Option<&Kernel>,
    ) -> Result<(), KernelError> {
        let places = || self.attached.iter().chain(before.iter().flat_map(|before| &before.attached));
        let index = |port: &u32| Some(places().find(|at| at.port() == *port)?.index());
        let interfaces: Vec<u32> = ports.iter().filter_map(index).filter(|index| *index != 0).collect();
        let for_cpu = ports.iter().any(|port| Some(*port) == cpu);
        let no_room = !interfaces.is_empty()
            && !self.groups.known.contains_key(&group)
            && self.groups.known.len() >= MAX_GROUPS as usize;
        let is_slow = for_cpu || no_room || interfaces.len() > MAX_COPIES as usize;
        let interfaces = if is_slow { Vec::new() } else { interfaces };
        // Packets go to user space before the lists are gone, and until they are there.
        if is_slow && self.groups.slow.insert(group) {
            self.tell_slow()?;
        }
        if self.groups.known.get(&group).map_or(&[][..], |known| &known.interfaces) != interfaces {
            let update = |name: &str, source| KernelError::Update { name: name.to_owned(), source };
            self.set_broadcast(group, &interfaces).map_err(|error| update("broadcast", error))?;
            self.set_list(group, &interfaces).map_err(|error| update("copies", error))?;
        }
        if !is_slow && self.groups.slow.remove(&group) {
            self.make_groups()?;
            self.tell_slow()?;
        }
        Ok(())
    }

    /// Let packets find the groups that are new: whoever puts maps into a map waits for all CPUs, so it is done for all of them at once
    /// (kernels before 6.8 wait for each).
    ///
    /// # Errors
    /// [`KernelError::Update`].
    pub fn make_groups(&mut self) -> Result<(), KernelError> {
        let fresh = std::mem::take(&mut self.groups.fresh);
        let Some(outer) = self.compiled.shape.broadcast.filter(|_| !fresh.is_empty()) else { return Ok(()) };
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for group in fresh {
            // One that went meanwhile is no more.
            let Some(known) = self.groups.known.get(&group) else { continue };
            keys.extend(group.to_ne_bytes());
            values.extend(known.map.as_raw_fd().to_ne_bytes());
        }
        let done = self.maps[outer].update_all(&keys, &values);
        done.map_err(|source| KernelError::Update { name: "broadcast".to_owned(), source })
    }

    fn tell_slow(&mut self) -> Result<(), KernelError> {
        let mut ops = Vec::new();
        self.mirror.set_slow_copies(!self.groups.slow.is_empty(), &mut ops);
        self.write(&ops)
    }

    fn set_broadcast(&mut self, group: u32, interfaces: &[u32]) -> io::Result<()> {
        let Some(outer) = self.compiled.shape.broadcast else { return Ok(()) };
        let Some(inner) = &self.compiled.maps[outer].inner else { return Ok(()) };
        let (outer, key) = (&self.maps[outer], group.to_ne_bytes());
        if interfaces.is_empty() {
            if self.groups.known.remove(&group).is_some() {
                outer.delete(&key)?;
            }
            return Ok(());
        }
        if let Some(known) = self.groups.known.get_mut(&group) {
            known.change(interfaces)?;
            known.interfaces = interfaces.to_vec();
            return Ok(());
        }
        let mut new = Group { interfaces: interfaces.to_vec(), places: Vec::new(), map: Map::create(inner)? };
        new.change(interfaces)?;
        self.groups.known.insert(group, new);
        self.groups.fresh.push(group);
        Ok(())
    }

    fn set_list(&self, group: u32, interfaces: &[u32]) -> io::Result<()> {
        let Some(map) = self.compiled.shape.copies else { return Ok(()) };
        let (map, key) = (&self.maps[map], group.to_ne_bytes());
        if interfaces.is_empty() {
            return map.delete(&key).map(drop);
        }
        let words = [interfaces.len() as u32].into_iter().chain(interfaces.iter().copied());
        let mut value: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
        value.resize(map.value_len(), 0);
        map.update(&key, &value)
    }
}
