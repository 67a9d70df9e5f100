//! What a control plane writes before traffic starts, once for every switch: into ours by [`apply`], into bmv2 as the text
//! of [`commands`].

use crate::error::BenchError;
use barewire_p4::key::MatchParam;
use barewire_switch::control::{ActionCall, NewEntry, Switch, TableAction, TableWrite};
use num_bigint::BigUint;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Entries written at once.
const BATCH: usize = 1024;

/// A value and its width in bits, at most 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The value.
    pub value: u64,
    /// Its width.
    pub width: u32,
}

/// How one field of a key matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The whole value.
    Exact(Value),
    /// Its first so many bits.
    Lpm(Value, u32),
    /// The bits under a mask.
    Ternary(Value, u64),
}

/// An action with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub action: &'static str,
    /// Its arguments.
    pub args: Vec<Value>,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An entry.
    Entry {
        /// The table.
        table: String,
        /// The key.
        key: Vec<Match>,
        /// Lower wins; for tables that have priorities.
        priority: Option<u32>,
        /// What it does.
        call: Call,
    },
    /// A member of an action profile. Members are numbered from 0 in the order in which they are made.
    Member {
        /// The profile.
        profile: &'static str,
        /// What it does.
        call: Call,
    },
    /// A group of members. Groups are numbered from 0.
    Group {
        /// The profile.
        profile: &'static str,
        /// Its members' numbers.
        members: Vec<u32>,
    },
    /// An entry that names a group.
    GroupEntry {
        /// The table.
        table: String,
        /// The key.
        key: Vec<Match>,
        /// The group's number.
        group: u32,
    },
}

/// A value of a width.
pub const fn value(value: u64, width: u32) -> Value {
    Value { value, width }
}

/// An IPv4 address.
pub const fn ip(address: u32) -> Value {
    value(address as u64, 32)
}

/// An Ethernet address.
pub const fn mac(address: u64) -> Value {
    value(address, 48)
}

fn big(value: Value) -> BigUint {
    BigUint::from(value.value)
}

fn param(one: &Match) -> MatchParam {
    match *one {
        Match::Exact(v) => MatchParam::Exact(big(v)),
        Match::Lpm(v, prefix_len) => MatchParam::Lpm { value: big(v), prefix_len },
        Match::Ternary(v, mask) => MatchParam::Ternary { value: big(v), mask: BigUint::from(mask) },
    }
}

/// Writes `steps` into `switch`, in batches; `between` is called after each, to let an engine of this thread catch up. Says how
/// many table entries were written.
///
/// # Errors
/// [`BenchError::Control`] with the first write that was refused.
pub fn apply(switch: &Switch, steps: &[Step], between: &mut dyn FnMut()) -> Result<u64, BenchError> {
    let mut writer =
        Writer { switch, waiting: Vec::with_capacity(BATCH), tables: HashMap::new(), written: 0 };
    let (mut members, mut groups) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Entry { table, key, priority, call } => {
                let (id, action) = writer.resolve(table, call.action)?;
                let args = call.args.iter().map(|&a| big(a)).collect();
                let action = TableAction::Call(ActionCall { action, args });
                writer.add(id, key, *priority, action)?;
                if writer.waiting.is_empty() {
                    between();
                }
            }
            Step::GroupEntry { table, key, group } => {
                let id = writer.table(table)?;
                let group = *groups.get(*group as usize).unwrap_or(group);
                writer.add(id, key, None, TableAction::Group(group))?;
                if writer.waiting.is_empty() {
                    between();
                }
            }
            Step::Member { profile, call } => {
                let id = switch.profile(profile).map_err(BenchError::control(*profile))?;
                let action =
                    switch.action_of_profile(id, call.action).map_err(BenchError::control(*profile))?;
                let args = call.args.iter().map(|&a| big(a)).collect();
                let member = switch.add_member(id, ActionCall { action, args });
                members.push(member.map_err(BenchError::control(format!("member of {profile}")))?);
                between();
            }
            Step::Group { profile, members: of } => {
                let failed = || BenchError::control(format!("group of {profile}"));
                let id = switch.profile(profile).map_err(failed())?;
                let group = switch.create_group(id).map_err(failed())?;
                for member in of {
                    let member = *members.get(*member as usize).unwrap_or(member);
                    switch.add_to_group(id, member, group).map_err(failed())?;
                }
                groups.push(group);
                between();
            }
        }
    }
    writer.flush()?;
    between();
    Ok(writer.written)
}

type TableId = barewire_p4::ir::TableId;
type ActionId = barewire_p4::ir::ActionId;

struct Writer<'a> {
    switch: &'a Switch,
    waiting: Vec<TableWrite>,
    tables: HashMap<(String, &'static str), (TableId, ActionId)>,
    written: u64,
}

impl Writer<'_> {
    fn table(&self, name: &str) -> Result<TableId, BenchError> {
        self.switch.table(name).map_err(BenchError::control(format!("table {name}")))
    }

    fn resolve(&mut self, table: &str, action: &'static str) -> Result<(TableId, ActionId), BenchError> {
        if let Some(&known) = self.tables.get(&(table.to_owned(), action)) {
            return Ok(known);
        }
        let id = self.table(table)?;
        let found =
            self.switch.action_of(id, action).map_err(BenchError::control(format!("table {table}")))?;
        self.tables.insert((table.to_owned(), action), (id, found));
        Ok((id, found))
    }

    fn add(
        &mut self,
        table: TableId,
        key: &[Match],
        priority: Option<u32>,
        action: TableAction,
    ) -> Result<(), BenchError> {
        let entry = NewEntry {
            key: key.iter().map(param).collect(),
            priority: priority.unwrap_or(0),
            action,
            ttl_ms: 0,
            cookie: Vec::new(),
        };
        self.waiting.push(TableWrite::Add { table, entry });
        if self.waiting.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), BenchError> {
        let batch = std::mem::replace(&mut self.waiting, Vec::with_capacity(BATCH));
        for result in self.switch.write_batch(batch) {
            result.map_err(BenchError::control(format!("entry {}", self.written)))?;
            self.written += 1;
        }
        Ok(())
    }
}

fn text_of(v: Value) -> String {
    match v.width {
        32 => std::net::Ipv4Addr::from(v.value as u32).to_string(),
        48 => {
            let bytes = v.value.to_be_bytes();
            bytes[2..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
        }
        _ => format!("{:#x}", v.value),
    }
}

fn key_text(key: &[Match]) -> String {
    let one = |m: &Match| match *m {
        Match::Exact(v) => text_of(v),
        Match::Lpm(v, len) => format!("{}/{len}", text_of(v)),
        Match::Ternary(v, mask) => format!("{}&&&{}", text_of(v), text_of(Value { value: mask, ..v })),
    };
    key.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn args_text(args: &[Value]) -> String {
    args.iter().map(|&a| text_of(a)).collect::<Vec<_>>().join(" ")
}

/// `steps` in the words of `simple_switch_CLI`, one a line.
pub fn commands(steps: &[Step]) -> String {
    let mut out = String::new();
    let mut groups = 0;
    for step in steps {
        let line = match step {
            Step::Entry { table, key, priority, call } => {
                let priority = priority.map(|p| format!(" {p}")).unwrap_or_default();
                format!(
                    "table_add {table} {} {} => {}{priority}",
                    call.action,
                    key_text(key),
                    args_text(&call.args)
                )
            }
            Step::Member { profile, call } => {
                format!("act_prof_create_member {profile} {} {}", call.action, args_text(&call.args))
            }
            Step::Group { profile, members } => {
                let mut lines = format!("act_prof_create_group {profile}");
                for member in members {
                    let _ = write!(lines, "\nact_prof_add_member_to_group {profile} {member} {groups}");
                }
                groups += 1;
                lines
            }
            Step::GroupEntry { table, key, group } => {
                format!("table_indirect_add_with_group {table} {} => {group}", key_text(key))
            }
        };
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_the_command_line() {
        let steps = [
            Step::Entry {
                table: "ipv4_lpm".into(),
                key: vec![Match::Lpm(ip(0x0a00_0100), 24)],
                priority: None,
                call: Call { action: "set_next_hop", args: vec![ip(0x0a00_010a), value(2, 9)] },
            },
            Step::Entry {
                table: "rules".into(),
                key: vec![
                    Match::Ternary(ip(0x0a00_0000), 0xff00_0000),
                    Match::Ternary(value(17, 8), 0xff),
                    Match::Exact(mac(0x0004_0000_0001)),
                ],
                priority: Some(7),
                call: Call { action: "permit", args: vec![] },
            },
            Step::Member { profile: "hops", call: Call { action: "out", args: vec![value(2, 9)] } },
            Step::Group { profile: "hops", members: vec![0, 1] },
            Step::GroupEntry { table: "lpm".into(), key: vec![Match::Lpm(ip(0), 0)], group: 0 },
        ];
        let expected = "\
table_add ipv4_lpm set_next_hop 10.0.1.0/24 => 10.0.1.10 0x2
table_add rules permit 10.0.0.0&&&255.0.0.0 0x11&&&0xff 00:04:00:00:00:01 =>  7
act_prof_create_member hops out 0x2
act_prof_create_group hops
act_prof_add_member_to_group hops 0 0
act_prof_add_member_to_group hops 1 0
table_indirect_add_with_group lpm 0.0.0.0/0 => 0
";
        assert_eq!(commands(&steps), expected);
    }
}
