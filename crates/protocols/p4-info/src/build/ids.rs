//! Ids and aliases (P4Runtime specification, "P4Info object ids"): the kind of the object in the first byte, then a hash of its name,
//! so that an id stays the same while the program around it changes.

use std::collections::{BTreeMap, HashMap, HashSet};

/// What an object is: the first byte of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// An action.
    Action = 0x01,
    /// A table.
    Table = 0x02,
    /// A parser value set.
    ValueSet = 0x03,
    /// A header between switch and controller.
    ControllerHeader = 0x04,
    /// An action profile or selector.
    ActionProfile = 0x11,
    /// A counter array.
    Counter = 0x12,
    /// The counters of a table's entries.
    DirectCounter = 0x13,
    /// A meter array.
    Meter = 0x14,
    /// The meters of a table's entries.
    DirectMeter = 0x15,
    /// A register array.
    Register = 0x16,
    /// A digest.
    Digest = 0x17,
}

/// Names of all objects, and the ids of those that have one.
#[derive(Debug, Default)]
pub struct Symbols {
    /// By kind and name; zero: not decided yet.
    ids: HashMap<Kind, BTreeMap<String, u32>>,
    taken: HashSet<u32>,
    suffixes: Suffixes,
}

/// Why an `@id` cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdProblem {
    /// Its first byte is that of another kind of object.
    Prefix,
    /// Another object has it.
    Taken,
}

impl Symbols {
    /// Adds an object, with what its `@id` says. The same object may come more than once.
    pub fn add(&mut self, kind: Kind, name: &str, id: Option<u32>) -> Result<(), IdProblem> {
        let of_kind = self.ids.entry(kind).or_default();
        if of_kind.contains_key(name) {
            return Ok(());
        }
        let prefix = (kind as u32) << 24;
        let mut result = Ok(());
        let id = match id {
            None => 0,
            Some(id) if id >> 24 != 0 && id >> 24 != kind as u32 => {
                result = Err(IdProblem::Prefix);
                0
            }
            Some(id) if !self.taken.insert(id | prefix) => {
                result = Err(IdProblem::Taken);
                0
            }
            Some(id) => id | prefix,
        };
        of_kind.insert(name.to_owned(), id);
        self.suffixes.add(name);
        result
    }

    /// Gives an id to every object that has none: in the order of the names, because a hash that is taken leaves the next number.
    pub fn decide(&mut self) {
        for (kind, names) in &mut self.ids {
            for (name, id) in names.iter_mut().filter(|(_, id)| **id == 0) {
                let mut hash = one_at_a_time(name.as_bytes());
                let mut candidate = || {
                    let id = (*kind as u32) << 24 | hash & 0xff_ffff;
                    hash = hash.wrapping_add(1);
                    id
                };
                let mut found = candidate();
                while !self.taken.insert(found) {
                    found = candidate();
                }
                *id = found;
            }
        }
    }

    /// The id of an object; zero: it was not added.
    pub fn id(&self, kind: Kind, name: &str) -> u32 {
        self.ids.get(&kind).and_then(|names| names.get(name)).copied().unwrap_or(0)
    }

    /// The shortest end of a name that no other name has.
    pub fn alias(&self, name: &str) -> String {
        self.suffixes.shortest(name)
    }
}

/// Bob Jenkins's one-at-a-time hash.
fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mut hash = 0u32;
    for &byte in bytes {
        hash = hash.wrapping_add(u32::from(byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// How many names end in each sequence of words.
#[derive(Debug, Default)]
struct Suffixes {
    names: HashSet<String>,
    count: HashMap<String, u32>,
}

/// The ends of a name at its dots, the shortest first.
fn ends(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('.').map(|(at, _)| &name[at + 1..]).chain(std::iter::once(name))
}

impl Suffixes {
    fn add(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            for end in ends(name) {
                *self.count.entry(end.to_owned()).or_default() += 1;
            }
        }
    }

    fn shortest(&self, name: &str) -> String {
        let unique = ends(name).find(|end| self.count.get(*end).is_none_or(|&count| count < 2));
        unique.unwrap_or(name).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_aliases() {
        let mut symbols = Symbols::default();
        for (kind, name) in [
            (Kind::Action, "NoAction"),
            (Kind::Table, "d.a.c"),
            (Kind::Table, "e.b.c"),
            (Kind::Table, "x"),
            (Kind::Action, "e.x"),
        ] {
            symbols.add(kind, name, None).unwrap();
        }
        symbols.add(Kind::Table, "y", Some(7)).unwrap();
        assert_eq!(symbols.add(Kind::Table, "z", Some(0x200_0007)), Err(IdProblem::Taken));
        assert_eq!(symbols.add(Kind::Table, "w", Some(0x100_0007)), Err(IdProblem::Prefix));
        symbols.decide();
        assert_eq!(symbols.id(Kind::Action, "NoAction"), 21_257_015);
        assert_eq!(symbols.id(Kind::Table, "y"), 0x200_0007);
        assert_eq!(
            ["d.a.c", "e.b.c", "x", "e.x", "NoAction"].map(|name| symbols.alias(name)),
            ["a.c", "b.c", "x", "e.x", "NoAction"]
        );
    }
}
