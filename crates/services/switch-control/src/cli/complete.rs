//! What may stand at a place of a line.

use super::commands::{COMMANDS, Slot};
use super::names::{self, profile_of, shortest};
use barewire_p4::ir::{HashAlgorithm, Program};
use std::collections::BTreeSet;

/// Complete the word that ends at `cursor` (a byte position): where it begins, and the words it may become, sorted.
/// Names are offered in full, and by their last part where what is typed begins one.
pub fn complete(program: Option<&Program>, line: &str, cursor: usize) -> (usize, Vec<String>) {
    let before = line.get(..cursor).unwrap_or(line);
    let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let typed = &before[start..];
    let words: Vec<&str> = before[..start].split_whitespace().collect();
    let candidates: BTreeSet<String> = match words.split_first() {
        None => COMMANDS.iter().map(|command| command.name.to_owned()).collect(),
        Some((name, args)) => {
            let command = COMMANDS.iter().find(|command| command.name == *name);
            let slot = command.and_then(|command| command.slots.get(args.len()));
            slot.map(|slot| words_for(program, *slot, args.first().copied())).unwrap_or_default()
        }
    };
    let mut fitting: Vec<String> =
        candidates.iter().filter(|word| word.starts_with(typed)).cloned().collect();
    if fitting.is_empty() && !typed.is_empty() {
        fitting = candidates.iter().filter(|word| shortest(word).starts_with(typed)).cloned().collect();
    }
    (start, fitting)
}

fn words_for(program: Option<&Program>, slot: Slot, first: Option<&str>) -> BTreeSet<String> {
    if slot == Slot::Command {
        return COMMANDS.iter().map(|command| command.name.to_owned()).collect();
    }
    let Some(program) = program else { return BTreeSet::new() };
    let calculations = |wanted: HashAlgorithm| {
        let fitting = program.calculations.iter().filter(|calculation| calculation.algorithm == wanted);
        fitting.map(|calculation| calculation.name.clone()).collect()
    };
    let action_names = |ids: &mut dyn Iterator<Item = &barewire_p4::ir::ActionId>| {
        ids.filter_map(|id| program.actions.get(id.at())).map(|action| action.name.clone()).collect()
    };
    match slot {
        Slot::Table => program.tables.iter().map(|table| table.name.clone()).collect(),
        Slot::IndirectTable => program
            .tables
            .iter()
            .filter(|table| profile_of(program, table).is_some())
            .map(|table| table.name.clone())
            .collect(),
        Slot::Action => match first.and_then(|word| names::table(program, word).ok()) {
            Some(table) => action_names(&mut table.actions.iter()),
            None => BTreeSet::new(),
        },
        Slot::Profile => program.profiles.iter().map(|profile| profile.name.clone()).collect(),
        Slot::ProfileAction => match first.and_then(|word| names::profile(program, word).ok()) {
            Some(profile) => {
                action_names(&mut names::tables_of(program, profile).flat_map(|table| table.actions.iter()))
            }
            None => BTreeSet::new(),
        },
        Slot::Counter => program.counters.iter().map(|counter| counter.name.clone()).collect(),
        Slot::Meter => program.meters.iter().map(|meter| meter.name.clone()).collect(),
        Slot::Register => program.registers.iter().map(|register| register.name.clone()).collect(),
        Slot::ValueSet => program.value_sets.iter().map(|set| set.name.clone()).collect(),
        Slot::Crc16 => calculations(HashAlgorithm::Crc16Custom),
        Slot::Crc32 => calculations(HashAlgorithm::Crc32Custom),
        Slot::Toeplitz => calculations(HashAlgorithm::Toeplitz),
        Slot::Command | Slot::Any => BTreeSet::new(),
    }
}
