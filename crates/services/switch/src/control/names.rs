//! Names to numbers, as all control planes resolve them: the full name, or what follows a dot in one name only.

use super::switch::{Result, Switch};
use super::{ControlError, ErrorKind};
use barewire_p4::ir::{
    ActionId, CalculationId, CounterId, LearnListId, MeterId, ProfileId, Program, RegisterId, TableActions,
    TableId, ValueSetId,
};

/// Which of the names is meant.
///
/// # Errors
/// Of this kind, with the nearest name, or all that might be meant.
pub(crate) fn resolve<'a>(
    kind: ErrorKind,
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize> {
    if let Some(at) = names.clone().position(|n| n == name) {
        return Ok(at);
    }
    let is_suffix = |full: &&str| full.strip_suffix(name).is_some_and(|front| front.ends_with('.'));
    let meant: Vec<(usize, &str)> = names.clone().enumerate().filter(|(_, full)| is_suffix(full)).collect();
    match meant.as_slice() {
        [(at, _)] if !name.is_empty() => Ok(*at),
        [] => {
            // Short names are what people type.
            let short = |full: &'a str| full.rsplit('.').next().unwrap_or(full);
            let known: Vec<&str> =
                if name.contains('.') { names.collect() } else { names.map(short).collect() };
            let hint = if known.is_empty() {
                format!("the program has no {what}")
            } else {
                barewire_text::suggest(name, &known)
            };
            Err(ControlError::new(kind, format!("there is no {what} '{name}'; {hint}")))
        }
        _ => {
            let meant: Vec<&str> = meant.into_iter().map(|(_, full)| full).collect();
            Err(ControlError::new(kind, format!("{what} '{name}' may mean any of: {}", meant.join(", "))))
        }
    }
}

impl Switch {
    fn named<T>(&self, find: impl FnOnce(&Program) -> Result<T>) -> Result<T> {
        self.read_store(|store| find(store.program()))
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn table(&self, name: &str) -> Result<TableId> {
        let names = |p: &Program| {
            resolve(ErrorKind::InvalidTableName, "table", name, p.tables.iter().map(|t| t.name.as_str()))
        };
        self.named(|p| names(p).map(TableId::from))
    }

    /// The action of this name among a table's.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidActionName`].
    pub fn action_of(&self, table: TableId, name: &str) -> Result<ActionId> {
        self.named(|p| {
            let table = p.tables.get(table.at()).ok_or_else(|| crate::store::no_table(table))?;
            let names = table.actions.iter().map(|id| p.actions[id.at()].name.as_str());
            let what = format!("action of table '{}'", table.name);
            resolve(ErrorKind::InvalidActionName, &what, name, names).map(|at| table.actions[at])
        })
    }

    /// The action of this name among those of the tables that use a profile.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidActionProfileName`, `InvalidActionName`.
    pub fn action_of_profile(&self, profile: ProfileId, name: &str) -> Result<ActionId> {
        self.named(|p| {
            let users = p.tables.iter().filter(|table| table.source == TableActions::Profile(profile));
            let mut actions: Vec<ActionId> = users.flat_map(|table| table.actions.iter().copied()).collect();
            actions.sort_unstable();
            actions.dedup();
            let names = actions.iter().map(|id| p.actions[id.at()].name.as_str());
            let what = match p.profiles.get(profile.at()) {
                Some(profile) => format!("action of action profile '{}'", profile.name),
                None => {
                    let why = format!("there is no action profile number {}", profile.0);
                    return Err(ControlError::new(ErrorKind::InvalidActionProfileName, why));
                }
            };
            resolve(ErrorKind::InvalidActionName, &what, name, names).map(|at| actions[at])
        })
    }

    /// The action profile of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidActionProfileName`].
    pub fn profile(&self, name: &str) -> Result<ProfileId> {
        self.named(|p| {
            let names = p.profiles.iter().map(|x| x.name.as_str());
            resolve(ErrorKind::InvalidActionProfileName, "action profile", name, names).map(ProfileId::from)
        })
    }

    /// The counter of this name, direct ones too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidCounterName`].
    pub fn counter(&self, name: &str) -> Result<CounterId> {
        self.named(|p| {
            let names = p.counters.iter().map(|x| x.name.as_str());
            resolve(ErrorKind::InvalidCounterName, "counter", name, names).map(CounterId::from)
        })
    }

    /// The meter of this name, direct ones too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidMeterName`].
    pub fn meter(&self, name: &str) -> Result<MeterId> {
        self.named(|p| {
            let names = p.meters.iter().map(|x| x.name.as_str());
            resolve(ErrorKind::InvalidMeterName, "meter", name, names).map(MeterId::from)
        })
    }

    /// The register of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRegisterName`].
    pub fn register(&self, name: &str) -> Result<RegisterId> {
        self.named(|p| {
            let names = p.registers.iter().map(|x| x.name.as_str());
            resolve(ErrorKind::InvalidRegisterName, "register", name, names).map(RegisterId::from)
        })
    }

    /// The parser value set of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValueSetName`].
    pub fn value_set(&self, name: &str) -> Result<ValueSetId> {
        self.named(|p| {
            let names = p.value_sets.iter().map(|x| x.name.as_str());
            resolve(ErrorKind::InvalidValueSetName, "value set", name, names).map(ValueSetId::from)
        })
    }

    /// The hash calculation of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidCalculationName`].
    pub fn calculation(&self, name: &str) -> Result<CalculationId> {
        self.named(|p| {
            let names = p.calculations.iter().map(|x| x.name.as_str());
            resolve(ErrorKind::InvalidCalculationName, "calculation", name, names).map(CalculationId::from)
        })
    }

    /// The learn list of this name, or of this number in the file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidLearnList`].
    pub fn learn_list(&self, name_or_id: &str) -> Result<LearnListId> {
        self.named(|p| {
            let numbered =
                name_or_id.parse().ok().and_then(|id: u32| p.learn_lists.iter().position(|l| l.id == id));
            if let Some(at) = numbered {
                return Ok(LearnListId::from(at));
            }
            let names = p.learn_lists.iter().map(|x| x.name.as_str());
            resolve(ErrorKind::InvalidLearnList, "learn list", name_or_id, names).map(LearnListId::from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_whole_or_the_end_of_one_only() {
        let names = ["ingress.a", "egress.a", "egress.x.b", "b"];
        let find = |name| resolve(ErrorKind::InvalidTableName, "table", name, names.into_iter());
        assert_eq!(find("egress.a"), Ok(1));
        assert_eq!(find("x.b"), Ok(2));
        assert_eq!(find("b"), Ok(3), "a whole name comes before the end of another");
        let error = find("a").unwrap_err();
        assert_eq!(error.message, "table 'a' may mean any of: ingress.a, egress.a");
        assert!(find("").is_err() && find(".a").is_err());
        let error = find("ingres.a").unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidTableName);
        assert!(error.message.contains("did you mean `ingress.a`?"), "{error}");
    }
}
