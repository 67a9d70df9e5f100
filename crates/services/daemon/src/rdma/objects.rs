//! Who owns what: the objects of all applications, by the numbers that applications know them by.

use barewire_roce::{ConnId, CqId, ListenerId, Mr, Pd, Qpn, SrqId};
use std::collections::VecDeque;

/// Bits of a number that are its place; the others say the how-manieth object in that place it is.
const PLACE_BITS: u32 = 22;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
const GENERATIONS: u32 = 1 << (u32::BITS - PLACE_BITS);

/// Most objects at once.
pub(crate) const OBJECTS_MAX: usize = 1 << PLACE_BITS;

/// An object. Where it refers to another one of the same application, it does so by that one's number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Object {
    Pd {
        pd: Pd,
        users: u32,
    },
    Mr {
        mr: Mr,
        pd: u32,
    },
    Cq {
        cq: CqId,
        entries: u32,
        queued: bool,
    },
    Srq {
        srq: SrqId,
        pd: u32,
        limit: u32,
    },
    Qp {
        qpn: Qpn,
        pd: u32,
        send_max: u16,
        recv_max: u16,
        conn: u32,
    },
    Listener {
        listener: ListenerId,
    },
    /// `conn` is `None` while the way to the peer is not known; `qp` is 0 while the application has not decided.
    Conn {
        conn: Option<ConnId>,
        qp: u32,
    },
}

/// Why a number led nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// It is nobody's, or no longer, or another kind of object.
    Nobody,
    /// It is another application's.
    NotTheirs,
}

struct Place {
    generation: u32,
    owner: u32,
    object: Option<Object>,
}

/// The objects.
#[derive(Default)]
pub(super) struct Objects {
    places: Vec<Place>,
    /// Places to be had, the one that has been free for longest first.
    free: VecDeque<u32>,
    live: usize,
}

impl Objects {
    /// Takes an object in; its number, which is never zero. `None`: there are [`OBJECTS_MAX`].
    pub(super) fn insert(&mut self, owner: u32, object: Object) -> Option<u32> {
        let place = if self.places.len() < OBJECTS_MAX && self.free.len() < 64 {
            self.places.push(Place { generation: 0, owner, object: None });
            self.places.len() as u32 - 1
        } else {
            self.free.pop_front()?
        };
        let slot = &mut self.places[place as usize];
        // Never zero, so that no number is.
        slot.generation = slot.generation % (GENERATIONS - 1) + 1;
        slot.owner = owner;
        slot.object = Some(object);
        self.live += 1;
        Some(slot.generation << PLACE_BITS | place)
    }

    /// An application's object.
    #[inline]
    pub(super) fn get(&mut self, owner: u32, number: u32) -> Result<&mut Object, Miss> {
        let slot = self.places.get_mut((number & PLACE_MASK) as usize).ok_or(Miss::Nobody)?;
        if slot.generation != number >> PLACE_BITS {
            return Err(Miss::Nobody);
        }
        let object = slot.object.as_mut().ok_or(Miss::Nobody)?;
        if slot.owner == owner { Ok(object) } else { Err(Miss::NotTheirs) }
    }

    /// An object that the daemon itself knows by its number, with its owner.
    #[inline]
    pub(super) fn find(&mut self, number: u32) -> Option<(u32, &mut Object)> {
        let slot = self.places.get_mut((number & PLACE_MASK) as usize)?;
        if slot.generation != number >> PLACE_BITS {
            return None;
        }
        Some((slot.owner, slot.object.as_mut()?))
    }

    /// Takes an object out.
    pub(super) fn remove(&mut self, number: u32) -> Option<Object> {
        let place = number & PLACE_MASK;
        let slot = self.places.get_mut(place as usize)?;
        if slot.generation != number >> PLACE_BITS {
            return None;
        }
        let gone = slot.object.take()?;
        self.free.push_back(place);
        self.live -= 1;
        Some(gone)
    }

    /// The numbers of all of an application's objects.
    pub(super) fn of(&self, owner: u32) -> Vec<u32> {
        let all = self.places.iter().enumerate();
        all.filter(|(_, slot)| slot.owner == owner && slot.object.is_some())
            .map(|(place, slot)| slot.generation << PLACE_BITS | place as u32)
            .collect()
    }

    /// Objects of all applications.
    pub(super) fn live(&self) -> usize {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;
    use barewire_roce::{Config, Endpoint};
    use std::collections::HashMap;

    fn pd() -> Object {
        let config = Config::new(barewire_wire::MacAddr::ZERO, [10, 0, 0, 1].into());
        Object::Pd { pd: Endpoint::new(config, [0; 16]).unwrap().alloc_pd(), users: 0 }
    }

    #[test]
    fn a_number_is_its_owners_and_no_other_objects() {
        let (seed, object) = (9, pd());
        let mut prng = Prng::new(seed);
        let mut objects = Objects::default();
        let mut model: HashMap<u32, u32> = HashMap::new();
        let mut gone = vec![];
        for step in 0..20_000 {
            let owner = prng.below(4) as u32;
            if prng.chance(0.5) {
                let number = objects.insert(owner, object).unwrap();
                assert!(number != 0 && model.insert(number, owner).is_none(), "seed {seed}, step {step}");
            } else if let Some(&number) = model.keys().next() {
                let owner = model.remove(&number).unwrap();
                assert!(objects.remove(number).is_some() && objects.remove(number).is_none());
                assert_eq!(objects.get(owner, number).err(), Some(Miss::Nobody));
                gone.push(number);
            }
            assert_eq!(objects.live(), model.len());
        }
        for owner in 0..4 {
            let mut all = objects.of(owner);
            all.sort_unstable();
            let mut want: Vec<u32> = model.iter().filter(|(_, o)| **o == owner).map(|(n, _)| *n).collect();
            want.sort_unstable();
            assert_eq!(all, want);
        }
        for (&number, &owner) in &model {
            assert!(objects.get(owner, number).is_ok());
            assert_eq!(objects.get(owner + 1, number).err(), Some(Miss::NotTheirs));
        }
        for number in gone.into_iter().filter(|n| !model.contains_key(n)) {
            assert!(objects.find(number).is_none());
        }
        for number in [0, u32::MAX, PLACE_MASK] {
            assert_eq!(objects.get(0, number).err(), Some(Miss::Nobody));
        }
    }
}
