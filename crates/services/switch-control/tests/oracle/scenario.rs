//! What is done to a switch: lines of its command line, then packets. All of it follows from the program and a seed.

use super::ours::{self, Noise, Ours};
use barewire_base::Prng;
use barewire_p4::interp::trace::Event;
use barewire_p4::ir::{
    ActionId, Expr, HashAlgorithm, HashSource, KeyField, MatchKind, MeterArray, MeterUnit, Node, Program,
    Stmt, Table, TableActions,
};
use barewire_p4_jit::differential::entries::value;
use barewire_p4_jit::differential::packets::{mutate, structured};
use barewire_switch::prepared::Prepared;
use num_bigint::BigUint;
use num_traits::{Num, ToPrimitive};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Packets come in at ports below this, and most entries send to one of them.
pub const PORTS: u32 = 8;
/// Microseconds between two packets, on our clock.
pub const GAP_US: u64 = 1000;
/// bmv2 makes room for so many more bytes of headers, and ends beyond.
const GROWTH_MAX: usize = 500;
/// How often packets are left out, each time other ones coming after each other.
const ROUNDS: u64 = 16;
/// Longest packet.
const LONGEST: usize = 3000;

/// Lines, then packets with their ports.
#[derive(Debug, Clone, Default)]
pub struct Scenario {
    pub lines: Vec<String>,
    pub packets: Vec<(u32, Vec<u8>)>,
    /// Packets left out because what becomes of them is not determined.
    pub left_out: usize,
}

/// A scenario for a program (prepared for the interpreter).
pub fn build(prepared: &Arc<Prepared>, seed: u64, packets: usize) -> Result<Scenario, String> {
    let program = &*prepared.program;
    let mut prng = Prng::new(seed);
    let mut scenario = Scenario { lines: fixed_lines(program, &mut prng), ..Scenario::default() };
    let parser = program.parsers.iter().position(|p| p.name == "ingress_parser").unwrap_or(0);
    let limit = packets * 3;
    for _ in 0..limit {
        let mut bytes = structured(program, parser, &mut prng);
        if prng.chance(0.6) {
            bytes = mutate(bytes, &mut prng);
        }
        bytes.truncate(LONGEST);
        if bytes.is_empty() {
            bytes.push(prng.next_u64() as u8);
        }
        scenario.packets.push((prng.below(u64::from(PORTS)) as u32, bytes));
    }
    // Entries from the keys that packets really look up; then more, from those that get further with the first ones.
    for _ in 0..2 {
        let mut ours = Ours::start(prepared, &scenario.lines)?;
        ours.trace();
        let mut keys: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
        for (port, bytes) in scenario.packets.iter().take(90) {
            ours.send(*port, bytes);
            for event in ours.events() {
                if let Event::Table { table, key, .. } = event {
                    let seen = keys.entry(table).or_default();
                    if seen.len() < 40 {
                        seen.insert(key.into_iter().map(|part| part.value).collect());
                    }
                }
            }
        }
        for table in &program.tables {
            let seen: Vec<&Vec<String>> = keys.get(&table.name).into_iter().flatten().collect();
            table_lines(program, table, &seen, &mut prng, &mut scenario.lines);
        }
    }
    settle(prepared, &mut scenario, packets)?;
    Ok(scenario)
}

/// Leave out what is not determined: endless packets, those that do what has no meaning (bmv2 often ends itself then),
/// and those whose fate depends on bits of invalid headers.
fn settle(prepared: &Arc<Prepared>, scenario: &mut Scenario, packets: usize) -> Result<(), String> {
    for round in 0..ROUNDS {
        let (_, plain) = ours::run(prepared, scenario, Noise::None)?;
        let (_, first) = ours::run(prepared, scenario, Noise::Random(0x5eed + round))?;
        let (_, second) = ours::run(prepared, scenario, Noise::Stale(2))?;
        let (_, third) = ours::run(prepared, scenario, Noise::Stale(1))?;
        let meaningful = ours::meaningful(prepared, scenario, Noise::None)?;
        let meaningful_still = ours::meaningful(prepared, scenario, Noise::Stale(1))?;
        let before = scenario.packets.len();
        let mut index = 0;
        scenario.packets.retain(|(_, bytes)| {
            let at = index;
            index += 1;
            let grows = plain[at].out.iter().any(|(_, out)| out.len() > bytes.len() + GROWTH_MAX);
            meaningful[at]
                && meaningful_still[at]
                && !plain[at].endless
                && !grows
                && plain[at] == first[at]
                && plain[at] == second[at]
                && plain[at] == third[at]
        });
        scenario.left_out += before - scenario.packets.len();
        if before == scenario.packets.len() {
            break;
        }
    }
    scenario.packets.truncate(packets);
    Ok(())
}

fn fixed_lines(program: &Program, prng: &mut Prng) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut sessions, mut groups): (BTreeSet<u64>, BTreeSet<u64>) = ((0..6).collect(), (1..5).collect());
    let bodies = program.actions.iter().flat_map(|action| &action.body);
    for stmt in bodies {
        match stmt {
            Stmt::CloneIngress { session: Expr::Int(session), .. }
            | Stmt::CloneEgress { session: Expr::Int(session), .. } => {
                sessions.extend(session.to_u64().filter(|session| *session < 32_768));
            }
            Stmt::Assign { dst, value: Expr::Int(value) } => {
                let name = &program.field_def_of_ref(dst).name;
                if name.contains("mcast") || name.contains("multicast_group") {
                    groups.extend(value.to_u64().filter(|group| *group > 0 && *group < 4096));
                }
                if name.contains("clone_session") {
                    sessions.extend(value.to_u64().filter(|session| *session < 32_768));
                }
            }
            _ => {}
        }
    }
    lines.push("mc_set_lag_membership 1 2 5 6".to_owned());
    let mut node = 0;
    for group in &groups {
        lines.push(format!("mc_mgrp_create {group}"));
        for _ in 0..=prng.below(2) {
            let mut line = format!("mc_node_create {}", prng.below(40));
            for port in 0..PORTS {
                if prng.chance(0.3) {
                    let _ = write!(line, " {port}");
                }
            }
            if prng.chance(0.3) {
                line.push_str(" | 1");
            }
            lines.push(line);
            lines.push(format!("mc_node_associate {group} {node}"));
            node += 1;
        }
    }
    for session in &sessions {
        lines.push(if prng.chance(0.2) {
            format!("mirroring_add_mc {session} {}", 1 + prng.below(4))
        } else {
            format!("mirroring_add {session} {}", prng.below(u64::from(PORTS)))
        });
    }
    for register in program.registers.iter().filter(|register| register.width <= 63) {
        for _ in 0..prng.below(6) {
            let index = prng.below(u64::from(register.size).clamp(1, 16));
            lines.push(format!("register_write {} {index} {}", register.name, value(register.width, prng)));
        }
    }
    for meter in program.meters.iter().filter(|meter| meter.direct.is_none() && meter.rate_count == 2) {
        for index in 0..u64::from(meter.size).min(8) {
            if prng.chance(0.6) {
                lines.push(format!("meter_set_rates {} {index} {}", meter.name, slow_rates(meter, prng)));
            }
        }
    }
    for calculation in &program.calculations {
        let (command, width) = match calculation.algorithm {
            HashAlgorithm::Crc16Custom => ("set_crc16_parameters", 16),
            HashAlgorithm::Crc32Custom => ("set_crc32_parameters", 32),
            _ => continue,
        };
        let [polynomial, initial, xor] = [0; 3].map(|_: u8| value(width, prng));
        let (data, remainder) = (prng.chance(0.5), prng.chance(0.5));
        let name = &calculation.name;
        lines.push(format!("{command} {name} {polynomial:#x} {initial:#x} {xor:#x} {data} {remainder}"));
    }
    for set in program.value_sets.iter().filter(|set| set.widths.len() == 1) {
        for _ in 0..prng.below(4) {
            lines.push(format!("pvs_add {} {:#x}", set.name, value(set.widths[0], prng)));
        }
    }
    for profile in &program.profiles {
        let mut users = program.tables.iter().filter(|table| {
            matches!(table.source, TableActions::Profile(id) if program.profiles[id.at()].name == profile.name)
        });
        // bmv2 ends itself when a table meets an action that is none of its own.
        let mut actions: Vec<ActionId> = users.next().map(|table| table.actions.clone()).unwrap_or_default();
        for user in users {
            actions.retain(|action| user.actions.contains(action));
        }
        if actions.is_empty() {
            continue;
        }
        for _ in 0..5 {
            let action = actions[prng.below(actions.len() as u64) as usize];
            let (name, args) = call(program, action, prng);
            lines.push(format!("act_prof_create_member {} {name}{args}", profile.name));
        }
        if profile.selector.is_some() {
            for group in 0..3 {
                lines.push(format!("act_prof_create_group {}", profile.name));
                for member in 0..5 {
                    if prng.chance(0.6) {
                        lines.push(format!("act_prof_add_member_to_group {} {member} {group}", profile.name));
                    }
                }
            }
        }
    }
    lines
}

/// Rates so slow that only the burst counts: nothing depends on time.
fn slow_rates(meter: &MeterArray, prng: &mut Prng) -> String {
    let unit = if meter.unit == MeterUnit::Packets { 1 } else { 200 };
    format!("1e-12:{} 2e-12:{}", prng.below(6) * unit, (6 + prng.below(6)) * unit)
}

/// An action's name and its arguments, each after a space.
fn call(program: &Program, action: ActionId, prng: &mut Prng) -> (String, String) {
    let action = &program.actions[action.at()];
    let mut args = String::new();
    for param in &action.params {
        let number = match param.width {
            9 if prng.chance(0.9) => BigUint::from(prng.below(u64::from(PORTS))),
            16 | 32 if prng.chance(0.5) => BigUint::from(prng.below(u64::from(PORTS))),
            width => value(width, prng),
        };
        let _ = write!(args, " {number:#x}");
    }
    (action.name.clone(), args)
}

fn table_lines(
    program: &Program,
    table: &Table,
    seen: &[&Vec<String>],
    prng: &mut Prng,
    lines: &mut Vec<String>,
) {
    if table.actions.is_empty() {
        return;
    }
    if let Some(meter) = table.meter.map(|meter| &program.meters[meter.at()]).filter(|m| m.rate_count == 2) {
        // Of the entries of the round before, if there are so many: both switches refuse the others.
        for handle in 0..6 {
            lines.push(format!("meter_set_rates {} {handle} {}", meter.name, slow_rates(meter, prng)));
        }
    }
    let profile = match table.source {
        TableActions::Profile(profile) => Some(&program.profiles[profile.at()]),
        TableActions::Direct => None,
    };
    if !table.default_action_const && !table.default_entry_const && prng.chance(0.35) {
        lines.push(match profile {
            None => {
                let action = table.actions[prng.below(table.actions.len() as u64) as usize];
                let (name, args) = call(program, action, prng);
                format!("table_set_default {} {name}{args}", table.name)
            }
            Some(profile) if profile.selector.is_some() && prng.chance(0.5) => {
                format!("table_indirect_set_default_with_group {} {}", table.name, prng.below(3))
            }
            Some(_) => format!("table_indirect_set_default {} {}", table.name, prng.below(5)),
        });
    }
    if table.immutable || table.key.is_empty() {
        return;
    }
    let priority = table
        .key
        .iter()
        .any(|field| matches!(field.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional));
    for at in 0..prng.below(8) {
        let from = if seen.is_empty() { None } else { Some(seen[prng.below(seen.len() as u64) as usize]) };
        let key: Vec<String> = table
            .key
            .iter()
            .enumerate()
            .map(|(index, field)| key_word(field, from.and_then(|from| from.get(index)), prng))
            .collect();
        // Equal priorities are not determined.
        let rank = if priority { format!(" {}", 10 * prng.below(20) + at) } else { String::new() };
        let key = key.join(" ");
        lines.push(match profile {
            None => {
                let action = table.actions[prng.below(table.actions.len() as u64) as usize];
                let (name, args) = call(program, action, prng);
                format!("table_add {} {name} {key} =>{args}{rank}", table.name)
            }
            Some(profile) if profile.selector.is_some() && prng.chance(0.5) => {
                format!("table_indirect_add_with_group {} {key} => {}{rank}", table.name, prng.below(3))
            }
            Some(_) => format!("table_indirect_add {} {key} => {}{rank}", table.name, prng.below(5)),
        });
    }
}

fn key_word(field: &KeyField, seen: Option<&String>, prng: &mut Prng) -> String {
    let seen = seen.and_then(|text| BigUint::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let ones = (BigUint::from(1_u8) << field.width) - 1_u8;
    let number = match seen {
        Some(seen) if prng.chance(0.9) => seen,
        _ => value(field.width, prng),
    } & &ones;
    match field.kind {
        MatchKind::Exact => format!("{number:#x}"),
        MatchKind::Valid => u8::from(prng.chance(0.6)).to_string(),
        MatchKind::Lpm => {
            let length = prng.below(u64::from(field.width) + 1) as u32;
            let mask = &ones ^ ((BigUint::from(1_u8) << (field.width - length)) - 1_u8);
            format!("{:#x}/{length}", number & mask)
        }
        MatchKind::Ternary | MatchKind::Optional => {
            let mask = match prng.below(4) {
                0 => BigUint::ZERO,
                1 => ones,
                _ if field.kind == MatchKind::Optional => ones,
                _ => value(field.width, prng),
            };
            format!("{:#x}&&&{mask:#x}", number & &mask)
        }
        MatchKind::Range => {
            let spread = value(field.width, prng);
            let low = if spread < number { &number - &spread } else { BigUint::ZERO };
            let high = (&number + value(field.width, prng)).min(ones);
            format!("{low:#x}->{high:#x}")
        }
    }
}

/// Why a program's packets need not come out alike, if there is a reason: it looks at clocks, queues or dice.
pub fn undetermined(program: &Program) -> Option<String> {
    let clocks = ["timestamp", "timedelta", "qdepth"];
    let mut found = None;
    let mut look = |field: &barewire_p4::ir::FieldRef| {
        let name = &program.field_def_of_ref(field).name;
        let header = match &field.header {
            barewire_p4::ir::HeaderRef::Header(id) => program.headers[id.at()].metadata,
            _ => false,
        };
        if header && clocks.iter().any(|clock| name.contains(clock)) {
            found = Some(format!("it reads {name}"));
        }
    };
    let parsers = program.parsers.iter().flat_map(|parser| &parser.states).flat_map(|state| &state.ops);
    let in_parsers = parsers.filter_map(|op| match op {
        barewire_p4::ir::ParserOp::Stmt(stmt) => Some(stmt),
        _ => None,
    });
    let actions = program.actions.iter().flat_map(|action| &action.body);
    for stmt in actions.chain(in_parsers) {
        stmt.fields_read(&mut look);
    }
    for node in program.pipelines.iter().flat_map(|pipeline| &pipeline.nodes) {
        if let Node::If { condition, .. } = node {
            condition.fields_read(&mut look);
        }
    }
    for key in program.tables.iter().flat_map(|table| &table.key) {
        if let barewire_p4::ir::KeySource::Field(field) = &key.source {
            look(field);
        }
    }
    let dice = program.actions.iter().flat_map(|action| &action.body).any(|stmt| match stmt {
        Stmt::Random { .. } => true,
        Stmt::Hash { source: HashSource::Calculation(calculation), .. } => {
            program.calculations[calculation.at()].algorithm == HashAlgorithm::Random
        }
        Stmt::Hash { source: HashSource::Inline { algorithm, .. }, .. } => {
            *algorithm == HashAlgorithm::Random
        }
        _ => false,
    });
    if dice {
        return Some("it throws dice".to_owned());
    }
    found
}
