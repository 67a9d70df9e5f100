//! The entries that a table starts with: what they match, their actions, their priorities (specification, section 14.2.1.4).

use std::collections::HashMap;

use num_bigint::BigInt;
use num_traits::{One as _, Signed as _};

use super::flow::silenced;
use super::ty::{TableId, TypeId};
use super::value::Value;
use super::{Checker, EntryInfo, Stage, code, warn};
use crate::ast::{self, Expr, ExprKind, KeysetKind, Property, PropertyKind, Table};
use crate::diag::Diagnostic;

/// Which of several entries that match wins, and how far apart priorities are that are not given.
struct Ranking {
    largest_wins: bool,
    delta: BigInt,
}

impl<'a> Checker<'a> {
    pub(super) fn entries(
        &mut self,
        table: TableId,
        it: &'a Table,
        property: &'a Property,
        entries: &'a [ast::Entry],
    ) {
        let keys: Vec<(TypeId, Option<u32>)> =
            self.out.tables[table.index()].keys.iter().map(|key| (key.ty, key.match_kind)).collect();
        if keys.is_empty() {
            if !entries.is_empty() {
                self.report(
                    Diagnostic::error(
                        code::TYPE,
                        it.name.span,
                        format!("table `{}` has no key, so it has no entries", it.name),
                    )
                    .label(property.name.span, "its entries"),
                );
            }
            return;
        }
        for entry in entries {
            self.entry(table, property, entry, &keys);
        }
        self.entries_once(entries, &keys);
        self.priorities(table, it, property, entries, &keys);
    }

    pub(super) fn entry(
        &mut self,
        table: TableId,
        property: &'a Property,
        entry: &'a ast::Entry,
        keys: &[(TypeId, Option<u32>)],
    ) {
        self.check_annotations(&entry.annotations);
        self.check_annotations(&entry.action.annotations);
        let types: Vec<TypeId> = keys.iter().map(|(ty, _)| self.resolve(*ty)).collect();
        let parts: Vec<&'a ast::Keyset> = match &entry.keyset.kind {
            KeysetKind::Tuple(parts) if parts.len() == types.len() => parts.iter().collect(),
            _ if types.len() == 1 => vec![&entry.keyset],
            // A `_` or `default` for all of them.
            KeysetKind::Default | KeysetKind::DontCare => vec![&entry.keyset; types.len()],
            _ => Vec::new(),
        };
        if parts.is_empty()
            || (matches!(entry.keyset.kind, KeysetKind::Default | KeysetKind::DontCare) && types.len() > 1)
        {
            self.keyset(&entry.keyset, &types, "the key");
            if matches!(entry.keyset.kind, KeysetKind::Default | KeysetKind::DontCare) {
                self.type_error(
                    entry.keyset.span,
                    format!("an entry matches each of the {} keys", types.len()),
                );
            }
        } else {
            for ((part, &ty), (_, match_kind)) in parts.iter().zip(&types).zip(keys) {
                if self.keyset(part, &[ty], "the key") {
                    self.entry_part(part, *match_kind);
                }
            }
        }
        let reference = &entry.action;
        let args = reference.args.as_deref().unwrap_or_default();
        let Some(action) =
            self.action_named(reference.id, &reference.name, reference.absolute, reference.span, args)
        else {
            return;
        };
        let listed =
            self.out.tables[table.index()].actions.iter().find(|listed| listed.action == action).cloned();
        let Some(listed) = listed else {
            self.args_only(args);
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    reference.span,
                    format!("`{}` is not in the list of actions", reference.name),
                )
                .help(format!("add `{};` to `actions`", reference.name)),
            );
            return;
        };
        if let Some(note) = self.marked(&listed, "defaultonly") {
            let text = format!("`{}` is for the default action only", reference.name);
            self.report(Diagnostic::error(code::TYPE, reference.span, text).label(note, "says the list"));
        }
        self.action_call(
            reference.id,
            &reference.name,
            reference.span,
            action,
            (args, reference.args.is_some()),
            &listed,
        );
        self.out.tables[table.index()].entries.push(EntryInfo {
            action,
            priority: None,
            is_const: property.is_const || entry.is_const,
            entry,
        });
    }

    /// Where all keys are `exact` no two entries are alike (section 14.2.1.4.1).
    fn entries_once(&mut self, entries: &'a [ast::Entry], keys: &[(TypeId, Option<u32>)]) {
        let exact = |kind: &Option<u32>| {
            kind.and_then(|at| self.out.match_kinds.get(at as usize)).is_some_and(|kind| &**kind == "exact")
        };
        if !keys.iter().all(|(_, kind)| exact(kind)) {
            return;
        }
        let mut seen: HashMap<Vec<Value>, crate::source::Span> = HashMap::new();
        for entry in entries {
            let mut values = Vec::with_capacity(keys.len());
            if !self.values_of(&entry.keyset, &mut values) || values.len() != keys.len() {
                continue;
            }
            match seen.entry(values) {
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(entry.keyset.span);
                }
                std::collections::hash_map::Entry::Occupied(other) => {
                    let first = *other.get();
                    self.report_at(
                        Stage::Flow,
                        Diagnostic::error(code::KEYS, entry.keyset.span, "another entry has this key")
                            .label(first, "the other one"),
                    );
                }
            }
        }
    }

    /// The values of a key set that is made of single ones.
    fn values_of(&mut self, keyset: &'a ast::Keyset, values: &mut Vec<Value>) -> bool {
        match &keyset.kind {
            KeysetKind::Value(Expr { kind: ExprKind::List { items, rest: None }, .. }) => {
                items.iter().all(|item| match self.fold(item) {
                    Some(value) => {
                        values.push(value);
                        true
                    }
                    None => false,
                })
            }
            KeysetKind::Value(value) => match self.fold(value) {
                Some(value) => {
                    values.push(value);
                    true
                }
                None => false,
            },
            KeysetKind::Tuple(parts) => parts.iter().all(|part| self.values_of(part, values)),
            _ => false,
        }
    }

    /// What a part of an entry may be, by the match kind of its key.
    pub(super) fn entry_part(&mut self, part: &'a ast::Keyset, match_kind: Option<u32>) {
        let Some(kind) = match_kind.and_then(|at| self.out.match_kinds.get(at as usize)).cloned() else {
            return;
        };
        let inner = match &part.kind {
            KeysetKind::Tuple(parts) if parts.len() == 1 => &parts[0].kind,
            other => other,
        };
        let doubt = match (&*kind, inner) {
            ("exact", KeysetKind::Mask(..)) => Some("an `exact` key has no mask"),
            ("exact", KeysetKind::Range(..)) => Some("an `exact` key has no range"),
            ("exact", KeysetKind::Default | KeysetKind::DontCare) => Some("an `exact` key matches one value"),
            ("lpm" | "ternary", KeysetKind::Range(..)) => Some("only a `range` key has a range"),
            ("range", KeysetKind::Mask(..)) => Some("a `range` key has no mask"),
            _ => None,
        };
        if let Some(doubt) = doubt {
            // Whether the target can do it is the target's to say.
            self.warn(Diagnostic::warning(warn::MISMATCH, part.span, doubt));
        }
        let values: Vec<&'a Expr> = match inner {
            KeysetKind::Value(value) => vec![value],
            _ => Vec::new(),
        };
        for value in values {
            if !self.is_known(value) {
                self.type_error(value.span, "the value of an entry is a constant");
            }
        }
    }

    /// The priorities of the entries (section 14.2.1.4).
    pub(super) fn priorities(
        &mut self,
        table: TableId,
        it: &'a Table,
        property: &'a Property,
        entries: &'a [ast::Entry],
        keys: &[(TypeId, Option<u32>)],
    ) {
        let ranked = keys.iter().any(|(_, kind)| {
            kind.and_then(|at| self.out.match_kinds.get(at as usize))
                .is_some_and(|kind| !matches!(&**kind, "exact" | "lpm" | "selector"))
        });
        let ranking = self.ranking(it);
        let Some(given) = self.given_priorities(property, entries) else { return };
        if !ranked {
            self.refuse_unranked(it, entries, keys);
            return;
        }
        let Some(list) = self.counted_priorities(it, entries, &given, &ranking) else { return };
        self.warn_of_priorities(property, entries, &list, ranking.largest_wins);
        let places: HashMap<ast::NodeId, &BigInt> = entries.iter().map(|entry| entry.id).zip(&list).collect();
        for info in &mut self.out.tables[table.index()].entries {
            info.priority = places.get(&info.entry.id).map(|&number| number.clone());
        }
    }

    /// What a table says of the order of its entries.
    fn ranking(&mut self, it: &'a Table) -> Ranking {
        let value_of = |name: &str| {
            it.properties.iter().find(|property| property.name.as_str() == name).and_then(|property| {
                match &property.kind {
                    PropertyKind::Value(value) => Some(value),
                    _ => None,
                }
            })
        };
        let largest_wins = value_of("largest_priority_wins")
            .and_then(|value| self.fold(value))
            .and_then(|value| value.as_bool())
            .unwrap_or(true);
        let delta = value_of("priority_delta")
            .and_then(|value| self.fold(value))
            .and_then(|value| value.as_int().cloned())
            .filter(|delta| delta.is_positive())
            .unwrap_or_else(BigInt::one);
        Ranking { largest_wins, delta }
    }

    /// The priorities that stand in the text. `None`: one may not stand there, and that has been said.
    fn given_priorities(
        &mut self,
        property: &'a Property,
        entries: &'a [ast::Entry],
    ) -> Option<Vec<Option<BigInt>>> {
        let mut given = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(expr) = &entry.priority else {
                given.push(None);
                continue;
            };
            if property.is_const {
                self.expr(expr);
                self.report(
                    Diagnostic::error(code::INVALID, expr.span, "an entry of a `const` list has no priority")
                        .help("their order says which wins"),
                );
                return None;
            }
            let number = self.constant_int(expr, "a priority")?;
            if number.is_negative() {
                self.type_error(expr.span, "a priority is not negative");
                return None;
            }
            given.push(Some(number));
        }
        Some(given)
    }

    /// Where keys say which entry wins, entries have no priorities.
    fn refuse_unranked(&mut self, it: &'a Table, entries: &'a [ast::Entry], keys: &[(TypeId, Option<u32>)]) {
        let key = it.properties.iter().find(|property| property.name.as_str() == "key");
        let first = entries.iter().find_map(|entry| entry.priority.as_ref());
        if let (Some(key), Some(priority)) = (key, first)
            && !keys.is_empty()
        {
            self.report_at(
                Stage::Flow,
                Diagnostic::error(
                    code::UNSUPPORTED,
                    key.span,
                    "entries whose keys are matched by `exact` and `lpm` have no priorities",
                )
                .label(priority.span, "a priority")
                .help("of several prefixes that match, the longest wins"),
            );
        }
    }

    /// The priority of every entry: what is not given is counted on from the entry before. `None`: that cannot be done, which has been said.
    fn counted_priorities(
        &mut self,
        it: &'a Table,
        entries: &'a [ast::Entry],
        given: &[Option<BigInt>],
        ranking: &Ranking,
    ) -> Option<Vec<BigInt>> {
        let Ranking { largest_wins, delta } = ranking;
        let next = |last: &BigInt| if *largest_wins { last - delta } else { last + delta };
        if given.iter().all(Option::is_none) {
            let first =
                if *largest_wins { (BigInt::from(given.len()) - 1) * delta + 1 } else { BigInt::one() };
            return Some(
                std::iter::successors(Some(first), |last| Some(next(last))).take(given.len()).collect(),
            );
        }
        let mut list: Vec<BigInt> = Vec::with_capacity(given.len());
        for (entry, number) in entries.iter().zip(given) {
            let number = match (number, list.last()) {
                (Some(number), _) => number.clone(),
                (None, Some(last)) => next(last),
                (None, None) => {
                    self.report_at(
                        Stage::Flow,
                        Diagnostic::error(code::EXPECTED, entry.span, "the first entry needs a priority")
                            .note("another entry has one: `priority = …:`"),
                    );
                    return None;
                }
            };
            if number.is_negative() {
                self.report_at(
                    Stage::Flow,
                    Diagnostic::error(
                        code::OVERLIMIT,
                        it.name.span,
                        format!("a priority of table `{}` comes out negative", it.name),
                    )
                    .label(entry.span, format!("this entry gets {number}")),
                );
                return None;
            }
            list.push(number);
        }
        Some(list)
    }

    /// Two entries of one priority, or an order in the text that is not that of the priorities, may be a slip.
    fn warn_of_priorities(
        &mut self,
        property: &'a Property,
        entries: &'a [ast::Entry],
        list: &[BigInt],
        largest_wins: bool,
    ) {
        let quiet = |code: &str| silenced(&property.annotations, code);
        let mut seen: HashMap<&BigInt, usize> = HashMap::new();
        for (at, number) in list.iter().enumerate() {
            let first = seen.get(number).copied();
            seen.entry(number).or_insert(at);
            if let Some(first) = first
                && !quiet(warn::DUPLICATE_PRIORITIES)
                && at < 256
            {
                self.warn(
                    Diagnostic::warning(
                        warn::DUPLICATE_PRIORITIES,
                        entries[at].span,
                        format!("this entry has the priority {number} of another one"),
                    )
                    .label(entries[first].span, "the other one"),
                );
            } else if at > 0
                && !quiet(warn::ENTRIES_ORDER)
                && ((largest_wins && *number > list[at - 1]) || (!largest_wins && *number < list[at - 1]))
            {
                self.warn(
                    Diagnostic::warning(
                        warn::ENTRIES_ORDER,
                        entries[at].span,
                        "this entry wins over one in front of it",
                    )
                    .label(entries[at - 1].span, "the one in front"),
                );
            }
        }
    }
}
