//! Names in a program: an object is named in full, or by an end of its name that no other object of its kind has.

use super::CliError;
use crate::nearest;
use barewire_p4::ir::{
    Action, ActionProfile, CounterArray, MeterArray, Program, RegisterArray, Table, TableActions, ValueSet,
};
use std::collections::BTreeSet;

/// The last part of a name.
pub fn shortest(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Which of some names is meant.
fn resolve<'a, T>(
    objects: impl Iterator<Item = &'a T> + Clone,
    name_of: impl Fn(&'a T) -> &'a str,
    what: &str,
    word: &str,
) -> Result<&'a T, CliError> {
    if let Some(found) = objects.clone().find(|object| name_of(object) == word) {
        return Ok(found);
    }
    let ends = |name: &str| name.strip_suffix(word).is_some_and(|head| head.ends_with('.'));
    let mut fitting = objects.clone().filter(|object| ends(name_of(object)));
    if let Some(found) = fitting.next() {
        // Several actions may have one name: then they are one to the control plane.
        return match fitting.find(|other| name_of(other) != name_of(found)) {
            None => Ok(found),
            Some(other) => Err(CliError::Input(format!(
                "Invalid {what} name ({word}): it may be {} or {}",
                name_of(found),
                name_of(other)
            ))),
        };
    }
    Err(CliError::Input(format!("Invalid {what} name ({word}){}", nearest(word, objects.map(name_of)))))
}

/// The table of a name.
pub fn table<'a>(program: &'a Program, word: &str) -> Result<&'a Table, CliError> {
    resolve(program.tables.iter(), |table| &table.name, "table", word)
}

/// The action of a name, among a table's.
pub fn action_of<'a>(program: &'a Program, table: &Table, word: &str) -> Result<&'a Action, CliError> {
    let actions = table.actions.iter().filter_map(|id| program.actions.get(id.at()));
    resolve(actions, |action| &action.name, &format!("action of table {}", table.name), word)
}

/// The action of a name, among those of a profile's tables.
pub fn action_of_profile<'a>(
    program: &'a Program,
    profile: &ActionProfile,
    word: &str,
) -> Result<&'a Action, CliError> {
    let actions = tables_of(program, profile)
        .flat_map(|table| table.actions.iter())
        .filter_map(|id| program.actions.get(id.at()));
    resolve(actions, |action| &action.name, &format!("action of action profile {}", profile.name), word)
}

/// The tables whose entries point at a profile.
pub fn tables_of<'a>(
    program: &'a Program,
    profile: &'a ActionProfile,
) -> impl Iterator<Item = &'a Table> + Clone {
    program
        .tables
        .iter()
        .filter(move |table| profile_of(program, table).is_some_and(|found| found.name == profile.name))
}

/// The profile a table's entries point at.
pub fn profile_of<'a>(program: &'a Program, table: &Table) -> Option<&'a ActionProfile> {
    match table.source {
        TableActions::Direct => None,
        TableActions::Profile(id) => program.profiles.get(id.at()),
    }
}

/// The action profile of a name.
pub fn profile<'a>(program: &'a Program, word: &str) -> Result<&'a ActionProfile, CliError> {
    resolve(program.profiles.iter(), |profile| &profile.name, "action profile", word)
}

/// The counter array of a name.
pub fn counter<'a>(program: &'a Program, word: &str) -> Result<&'a CounterArray, CliError> {
    resolve(program.counters.iter(), |counter| &counter.name, "counter", word)
}

/// The meter array of a name.
pub fn meter<'a>(program: &'a Program, word: &str) -> Result<&'a MeterArray, CliError> {
    resolve(program.meters.iter(), |meter| &meter.name, "meter", word)
}

/// The register array of a name.
pub fn register<'a>(program: &'a Program, word: &str) -> Result<&'a RegisterArray, CliError> {
    resolve(program.registers.iter(), |register| &register.name, "register", word)
}

/// The value set of a name.
pub fn value_set<'a>(program: &'a Program, word: &str) -> Result<&'a ValueSet, CliError> {
    resolve(program.value_sets.iter(), |set| &set.name, "parser value set", word)
}

/// The calculation of a name.
pub fn calculation<'a>(
    program: &'a Program,
    word: &str,
) -> Result<&'a barewire_p4::ir::Calculation, CliError> {
    resolve(program.calculations.iter(), |calculation| &calculation.name, "calculation", word)
}

/// Actions sorted by name, each name once.
pub fn sorted_actions<'a>(actions: impl Iterator<Item = &'a Action>) -> Vec<&'a Action> {
    let mut seen = BTreeSet::new();
    let mut actions: Vec<&Action> = actions.filter(|action| seen.insert(action.name.as_str())).collect();
    actions.sort_by(|a, b| a.name.cmp(&b.name));
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_ends_and_hints() {
        let sets = ["In.a.x", "Out.b.x", "In.route", "x"].map(|name| ValueSet {
            name: name.into(),
            widths: vec![8],
            max_size: 0,
        });
        let find = |word: &str| {
            resolve(sets.iter(), |set| &set.name, "set", word)
                .map(|set| set.name.clone())
                .map_err(|e| e.to_string())
        };
        assert_eq!(find("In.a.x").unwrap(), "In.a.x");
        assert_eq!(find("a.x").unwrap(), "In.a.x");
        assert_eq!(find("x").unwrap(), "x", "a full name wins over ends");
        assert_eq!(find("route").unwrap(), "In.route");
        assert_eq!(find("rout").unwrap_err(), "Invalid set name (rout), did you mean 'In.route'?");
        let two = &sets[..2];
        let error = resolve(two.iter(), |set| &set.name, "set", "x").unwrap_err().to_string();
        assert_eq!(error, "Invalid set name (x): it may be In.a.x or Out.b.x");
        assert_eq!(find("oute").unwrap_err(), "Invalid set name (oute), did you mean 'In.route'?");
        assert_eq!(find("???").unwrap_err(), "Invalid set name (???)");
    }
}
