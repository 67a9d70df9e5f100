//! Multicast groups in the kernel: for XDP a device map each, to all of whose interfaces a packet goes at once; for tc a list.

use super::{Kernel, KernelError};
use barewire_bpf::Map;
use barewire_p4_ebpf::maps::MAX_COPIES;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsRawFd;

/// Groups that have copies.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Each one's interfaces, and the map that has them.
    known: BTreeMap<u32, (Vec<u32>, Map)>,
    /// Groups with copies that only user space makes.
    slow: BTreeSet<u32>,
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

    /// Say by which ports the copies of a group leave: none, and there is no group. While a group has a copy for the controller, or more
    /// copies than there may be, every packet goes to user space. `before`: the program whose places this one is about to take.
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
        let interfaces: Vec<u32> = ports.iter().filter_map(index).collect();
        let for_cpu = ports.iter().any(|port| Some(*port) == cpu);
        let is_slow = for_cpu || interfaces.len() > MAX_COPIES as usize;
        let interfaces = if is_slow { Vec::new() } else { interfaces };
        // Packets go to user space before the lists are gone, and until they are there.
        if is_slow && self.groups.slow.insert(group) {
            self.tell_slow()?;
        }
        if self.groups.known.get(&group).map_or(&[][..], |(known, _)| known) != interfaces {
            let update = |name: &str, source| KernelError::Update { name: name.to_owned(), source };
            self.set_broadcast(group, &interfaces).map_err(|error| update("broadcast", error))?;
            self.set_list(group, &interfaces).map_err(|error| update("copies", error))?;
        }
        if !is_slow && self.groups.slow.remove(&group) {
            self.tell_slow()?;
        }
        Ok(())
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
        let at = |place: usize| (place as u32).to_ne_bytes();
        if let Some((before, map)) = self.groups.known.get_mut(&group) {
            // Changed where it is: whoever puts another map there waits for all CPUs.
            for (place, interface) in interfaces.iter().enumerate() {
                if before.get(place) != Some(interface) {
                    map.update(&at(place), &interface.to_ne_bytes())?;
                }
            }
            for place in interfaces.len()..before.len() {
                map.delete(&at(place))?;
            }
            *before = interfaces.to_vec();
            return Ok(());
        }
        let map = Map::create(inner)?;
        for (place, interface) in interfaces.iter().enumerate() {
            map.update(&at(place), &interface.to_ne_bytes())?;
        }
        outer.update(&key, &map.as_raw_fd().to_ne_bytes())?;
        self.groups.known.insert(group, (interfaces.to_vec(), map));
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
