//! Each shared source both ways to the interpreter: lowered from source, and imported from what the reference compiler
//! made of it. The same entries and the same packets have to leave the same packets behind.

mod common;

use barewire_base::Prng;
use barewire_p4::engine::Engine;
use barewire_p4::interp::Interpreter;
use barewire_p4::ir::{
    ActionCall, ActionId, Arch, CounterId, FieldId, KeySource, MatchKind, ProfileId, Program, RegisterId,
    TableActions, TableId, ValueSetId,
};
use barewire_p4::key::MatchParam;
use barewire_p4::phv::{Phv, slot};
use barewire_p4_formats::import::import;
use barewire_p4_jit::differential::entries::value;
use barewire_p4_jit::differential::packets;
use barewire_p4_state::{ProgramState, TableAction};
use num_bigint::BigUint;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Sets of entries for each program, and packets for each set.
const SETS: u64 = 12;
const PACKETS: u64 = 250;

/// One program with its interpreter and state.
struct Side {
    program: Arc<Program>,
    interpreter: Interpreter,
    state: ProgramState,
    phv: Phv,
    out: Vec<u8>,
    /// PSA: what ingress decided.
    decided: Vec<(&'static str, u64)>,
}

/// What PSA's ingress and egress decide.
const DECISIONS: [&str; 10] = [
    "psa_ingress_output_metadata.class_of_service",
    "psa_ingress_output_metadata.clone",
    "psa_ingress_output_metadata.clone_session_id",
    "psa_ingress_output_metadata.drop",
    "psa_ingress_output_metadata.resubmit",
    "psa_ingress_output_metadata.multicast_group",
    "psa_ingress_output_metadata.egress_port",
    "psa_egress_output_metadata.clone",
    "psa_egress_output_metadata.clone_session_id",
    "psa_egress_output_metadata.drop",
];

impl Side {
    fn new(program: Program) -> Side {
        let program = Arc::new(program);
        let interpreter = Interpreter::new(Arc::clone(&program));
        let phv = interpreter.plan().layout.new_phv();
        let state = ProgramState::with_program_entries(&program);
        Side { program, interpreter, state, phv, out: Vec::new(), decided: Vec::new() }
    }

    fn field(&self, name: &str) -> Option<FieldId> {
        self.program.field(name)
    }

    fn table(&self, name: &str) -> Option<TableId> {
        self.program.tables.iter().position(|t| t.name == name).map(TableId::from)
    }

    fn action(&self, table: TableId, name: &str) -> Option<ActionId> {
        let actions = &self.program.tables[table.at()].actions;
        actions.iter().copied().find(|id| self.program.actions[id.at()].name == name)
    }

    fn renew(&mut self, seed: u64) {
        self.state = ProgramState::with_program_entries(&self.program);
        self.state.seed_random(seed);
    }

    fn prepare(&mut self, packet: &[u8], inputs: &[(&str, u64)]) {
        let layout = &self.interpreter.plan().layout;
        layout.reset(&mut self.phv);
        for (name, value) in inputs {
            if let Some(field) = self.program.field(name) {
                self.phv.set(layout, field, *value);
            }
        }
        self.phv.set_slot(slot::PACKET_LEN, packet.len() as u64);
        self.phv.set_slot(slot::NOW_US, 5000);
        self.phv.set_slot(slot::DROP_PORT, 511);
    }

    /// Parser, pipelines, deparser; the packet as it leaves.
    fn packet(&mut self, packet: &[u8], inputs: &[(&str, u64)]) {
        self.decided.clear();
        self.prepare(packet, inputs);
        if self.program.arch == Arch::V1Model {
            self.pass(0, 0..2, packet);
            return;
        }
        self.pass(0, 0..1, packet);
        self.decide();
        let between = self.out.clone();
        self.prepare(&between, inputs);
        self.pass(1, 1..2, &between);
        self.decide();
    }

    fn decide(&mut self) {
        let layout = &self.interpreter.plan().layout;
        for name in DECISIONS {
            if let Some(field) = self.program.field(name) {
                self.decided.push((name, self.phv.get(layout, field)));
            }
        }
    }

    fn pass(&mut self, at: usize, pipelines: Range<usize>, packet: &[u8]) {
        let mut interpreter = self.interpreter.clone();
        interpreter.parse(at, &mut self.phv, packet, &mut self.state);
        for pipeline in pipelines {
            interpreter.run(pipeline, &mut self.phv, packet, &mut self.state);
        }
        let parsed = (self.phv.slot(slot::PARSED) as usize).min(packet.len());
        let len = interpreter.prepare_deparse(at, &mut self.phv, &packet[parsed..], &mut self.state);
        self.out.clear();
        self.out.resize(len, 0xa5);
        Engine::<ProgramState>::emit(&mut interpreter, at, &self.phv, &mut self.out);
        self.out.extend_from_slice(&packet[parsed..]);
    }
}

/// Entries alike on both sides, by the names that control planes use.
fn populate(ours: &mut Side, theirs: &mut Side, samples: &[Vec<u8>], prng: &mut Prng) -> Result<(), String> {
    let mut vectors = Vec::new();
    for sample in samples {
        ours.packet(sample, &[]);
        vectors.push(ours.phv.clone());
    }
    for (at, profile) in theirs.program.profiles.clone().iter().enumerate() {
        let Some(own) = ours.program.profiles.iter().position(|p| p.name == profile.name) else {
            return Err(format!("no profile {}", profile.name));
        };
        let user = |side: &Side, id: usize| {
            let source = TableActions::Profile(ProfileId::from(id));
            side.program.tables.iter().position(|t| t.source == source).map(TableId::from)
        };
        let (Some(here), Some(there)) = (user(ours, own), user(theirs, at)) else { continue };
        for member in 0..4 {
            let Some((own_call, call)) = call(ours, here, theirs, there, prng)? else { continue };
            let a = ours.state.insert_member(ProfileId::from(own), member, &own_call);
            let b = theirs.state.insert_member(ProfileId::from(at), member, &call);
            same(a.is_ok(), b.is_ok(), "a member")?;
        }
        for group in 0..if profile.selector.is_some() { 3 } else { 0 } {
            let members: Vec<(u32, u32)> = (0..prng.below(4) as u32).map(|member| (member, 1)).collect();
            let _ = ours.state.set_group(ProfileId::from(own), group, &members);
            let _ = theirs.state.set_group(ProfileId::from(at), group, &members);
        }
    }
    for (at, table) in theirs.program.tables.clone().iter().enumerate() {
        // Tables of one action, and those that stand for a `switch`, are that compiler's own.
        let of_switch = table.name.strip_prefix("switch_").and_then(|rest| rest.strip_suffix("_table"));
        if table.name.starts_with("tbl_") || of_switch.is_some_and(|n| n.parse::<u32>().is_ok()) {
            continue;
        }
        let there = TableId::from(at);
        let Some(here) = ours.table(&table.name) else { return Err(format!("no table {}", table.name)) };
        let own = ours.program.tables[here.at()].clone();
        let keys = |table: &barewire_p4::ir::Table| {
            table.key.iter().map(|k| (k.name.clone(), k.kind, k.width)).collect::<Vec<_>>()
        };
        if keys(&own) != keys(table) {
            return Err(format!("keys of {}: {:?}, {:?}", table.name, keys(&own), keys(table)));
        }
        // It leaves the default of a table with a profile out.
        let fixed = |t: &barewire_p4::ir::Table| t.default_action_const && t.source == TableActions::Direct;
        let properties = |t: &barewire_p4::ir::Table| (t.max_size, t.immutable, fixed(t));
        if properties(&own) != properties(table) {
            let (a, b) = (properties(&own), properties(table));
            return Err(format!("properties of {}: {a:?}, {b:?}", table.name));
        }
        let target = |ours: &Side, theirs: &Side, prng: &mut Prng| match table.source {
            TableActions::Profile(id) => {
                let group = theirs.program.profiles[id.at()].selector.is_some() && prng.chance(0.5);
                let n = prng.below(4) as u32;
                let action = if group { TableAction::Group(n) } else { TableAction::Member(n) };
                Ok(Some((action.clone(), action)))
            }
            TableActions::Direct => Ok::<_, String>(
                call(ours, here, theirs, there, prng)?
                    .map(|(a, b)| (TableAction::Call(a), TableAction::Call(b))),
            ),
        };
        if !own.default_action_const
            && prng.chance(0.4)
            && let Some((a, b)) = target(ours, theirs, prng)?
        {
            let (a, b) = (ours.state.set_default(here, Some(&a)), theirs.state.set_default(there, Some(&b)));
            same(a.is_ok(), b.is_ok(), "a default")?;
        }
        if table.key.is_empty() || table.immutable {
            continue;
        }
        for handle in 0..prng.below(10) as u32 {
            let vector = vectors.get(prng.below(vectors.len() as u64 + 1) as usize);
            let key: Vec<MatchParam> = own.key.iter().map(|field| param(ours, field, vector, prng)).collect();
            let priority = prng.below(5) as u32;
            let Some((a, b)) = target(ours, theirs, prng)? else { break };
            let a = ours.state.insert(here, 4096 + handle, &key, priority, &a);
            let b = theirs.state.insert(there, 4096 + handle, &key, priority, &b);
            same(a.is_ok(), b.is_ok(), "an entry")?;
        }
    }
    for (at, set) in theirs.program.value_sets.clone().iter().enumerate() {
        let Some(own) = ours.program.value_sets.iter().position(|s| s.name == set.name) else {
            return Err(format!("no value set {}", set.name));
        };
        for _ in 0..prng.below(4) {
            let parts: Vec<BigUint> = set.widths.iter().map(|width| value(*width, prng)).collect();
            let a = ours.state.add_to_set(ValueSetId::from(own), parts.clone());
            let b = theirs.state.add_to_set(ValueSetId::from(at), parts);
            same(a.is_ok(), b.is_ok(), "a value")?;
        }
    }
    for (at, register) in theirs.program.registers.clone().iter().enumerate() {
        let Some(own) = ours.program.registers.iter().position(|r| r.name == register.name) else {
            return Err(format!("no register {}", register.name));
        };
        for _ in 0..prng.below(6) {
            let cell = prng.below(u64::from(register.size).max(1));
            let number = value(register.width, prng);
            let _ = ours.state.write_register(RegisterId::from(own), cell..cell + 1, &number);
            let _ = theirs.state.write_register(RegisterId::from(at), cell..cell + 1, &number);
        }
    }
    Ok(())
}

fn same(ours: bool, theirs: bool, what: &str) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{what}: taken {ours}, {theirs}")) }
}

/// An action of the table with arguments, as each side numbers it.
fn call(
    ours: &Side,
    here: TableId,
    theirs: &Side,
    there: TableId,
    prng: &mut Prng,
) -> Result<Option<(ActionCall, ActionCall)>, String> {
    let actions = &theirs.program.tables[there.at()].actions;
    if actions.is_empty() {
        return Ok(None);
    }
    let id = actions[prng.below(actions.len() as u64) as usize];
    let action = &theirs.program.actions[id.at()];
    let Some(own) = ours.action(here, &action.name) else {
        return Err(format!("no action {} of {}", action.name, theirs.program.tables[there.at()].name));
    };
    let params = &ours.program.actions[own.at()].params;
    if params.len() != action.params.len()
        || params.iter().zip(&action.params).any(|(a, b)| a.width != b.width)
    {
        return Err(format!("parameters of {}", action.name));
    }
    let args: Vec<BigUint> = action.params.iter().map(|param| value(param.width, prng)).collect();
    Ok(Some((ActionCall { action: own, args: args.clone() }, ActionCall { action: id, args })))
}

fn param(
    side: &Side,
    field: &barewire_p4::ir::KeyField,
    vector: Option<&Phv>,
    prng: &mut Prng,
) -> MatchParam {
    let layout = &side.interpreter.plan().layout;
    let ones = (BigUint::from(1_u8) << field.width) - 1_u8;
    let seen = match (&field.source, vector) {
        (KeySource::Field(source), Some(vector)) => source.fixed().map(|id| vector.field(layout, id)),
        _ => None,
    };
    let number = seen.filter(|_| prng.chance(0.85)).unwrap_or_else(|| value(field.width, prng)) & &ones;
    match field.kind {
        MatchKind::Exact => MatchParam::Exact(number),
        MatchKind::Valid => MatchParam::Valid(prng.chance(0.5)),
        MatchKind::Lpm => {
            let prefix_len = prng.below(u64::from(field.width) + 1) as u32;
            let mask = &ones ^ ((BigUint::from(1_u8) << (field.width - prefix_len)) - 1_u8);
            MatchParam::Lpm { value: number & mask, prefix_len }
        }
        MatchKind::Ternary | MatchKind::Optional => {
            let mask = match prng.below(4) {
                0 => BigUint::ZERO,
                2 | 3 if field.kind == MatchKind::Ternary => value(field.width, prng),
                _ => ones,
            };
            MatchParam::Ternary { value: number & &mask, mask }
        }
        MatchKind::Range => {
            let spread = value(field.width, prng);
            let low = if spread < number { &number - &spread } else { BigUint::ZERO };
            let high = (&number + value(field.width, prng)).min(ones);
            MatchParam::Range { low, high }
        }
    }
}

/// What is left of a packet, compared.
fn compare(ours: &Side, theirs: &Side) -> Result<(), String> {
    // A selection that no case fits is the error NoMatch (12.6). In the JSON there is no word for it, and the packet is
    // accepted without an error.
    let no_match = ours.program.errors.iter().find(|(name, _)| name == "NoMatch").map(|(_, n)| u64::from(*n));
    let unmatched =
        no_match == Some(ours.phv.slot(slot::PARSER_ERROR)) && theirs.phv.slot(slot::PARSER_ERROR) == 0;
    let (a, b) = (&ours.interpreter.plan().layout, &theirs.interpreter.plan().layout);
    for name in ["egress_spec", "mcast_grp", "checksum_error", "priority", "parser_error"] {
        let name = format!("standard_metadata.{name}");
        let (Some(left), Some(right)) = (ours.field(&name), theirs.field(&name)) else { continue };
        let (left, right) = (ours.phv.field(a, left), theirs.phv.field(b, right));
        if left != right && !(unmatched && name.ends_with("parser_error")) {
            return Err(format!("{name}: {left}, {right}"));
        }
    }
    for (at, name) in [
        (slot::PARSER_ERROR, "parser error"),
        (slot::CHECKSUM_ERROR, "checksum error"),
        (slot::TRUNCATE, "truncated"),
        (slot::ASSERT, "assertions"),
    ] {
        let (left, right) = (ours.phv.slot(at), theirs.phv.slot(at));
        if left != right && !(unmatched && at == slot::PARSER_ERROR) {
            return Err(format!("{name}: {left}, {right}"));
        }
    }
    for (at, name) in [
        (slot::CLONE, "a clone"),
        (slot::DIGEST, "a digest"),
        (slot::RESUBMIT, "resubmission"),
        (slot::RECIRCULATE, "recirculation"),
    ] {
        if (ours.phv.slot(at) != 0) != (theirs.phv.slot(at) != 0) {
            return Err(format!("{name}: {:#x}, {:#x}", ours.phv.slot(at), theirs.phv.slot(at)));
        }
    }
    if ours.decided != theirs.decided {
        return Err(format!("decided {:?}, {:?}", ours.decided, theirs.decided));
    }
    if ours.out != theirs.out {
        return Err(format!("left with {}, {}", hex(&ours.out), hex(&theirs.out)));
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(96).map(|byte| format!("{byte:02x}")).collect()
}

fn compare_states(ours: &mut Side, theirs: &mut Side) -> Result<(), String> {
    for (at, register) in theirs.program.registers.clone().iter().enumerate() {
        let Some(own) = ours.program.registers.iter().position(|r| r.name == register.name) else { continue };
        for cell in 0..u64::from(register.size.min(512)) {
            let a = ours.state.read_register(RegisterId::from(own), cell).ok();
            let b = theirs.state.read_register(RegisterId::from(at), cell).ok();
            if a != b {
                return Err(format!("register {}[{cell}]: {a:?}, {b:?}", register.name));
            }
        }
    }
    for (at, counter) in theirs.program.counters.clone().iter().enumerate() {
        let Some(own) = ours.program.counters.iter().position(|r| r.name == counter.name) else { continue };
        for cell in 0..u64::from(counter.size.min(512)) {
            let a = ours.state.read_counter(CounterId::from(own), cell).ok();
            let b = theirs.state.read_counter(CounterId::from(at), cell).ok();
            if a != b {
                return Err(format!("counter {}[{cell}]: {a:?}, {b:?}", counter.name));
            }
        }
    }
    Ok(())
}

fn both_ways(ours: Program, theirs: Program, seed: u64) -> Result<(), String> {
    let (mut ours, mut theirs) = (Side::new(ours), Side::new(theirs));
    let mut prng = Prng::new(seed);
    for set in 0..SETS {
        let samples: Vec<Vec<u8>> =
            (0..24).map(|_| packets::structured(&theirs.program, 0, &mut prng)).collect();
        ours.renew(set);
        theirs.renew(set);
        populate(&mut ours, &mut theirs, &samples, &mut prng)?;
        // What sampling left in registers and random numbers is one side's only.
        let registers = compare_states(&mut ours, &mut theirs).is_err();
        if registers {
            ours.renew(set);
            theirs.renew(set);
        }
        ours.state.seed_random(set);
        theirs.state.seed_random(set);
        for round in 0..PACKETS {
            let packet = if prng.chance(0.3) {
                samples[prng.below(samples.len() as u64) as usize].clone()
            } else {
                packets::structured(&theirs.program, 0, &mut prng)
            };
            let packet = packets::mutate(packet, &mut prng);
            let inputs = [
                ("standard_metadata.ingress_port", prng.below(8)),
                ("standard_metadata.packet_length", packet.len() as u64),
                ("standard_metadata.instance_type", if prng.chance(0.8) { 0 } else { prng.below(7) }),
                ("standard_metadata.egress_port", prng.below(8)),
                ("standard_metadata.egress_spec", prng.below(4)),
                ("standard_metadata.enq_qdepth", prng.below(64)),
                ("standard_metadata.ingress_global_timestamp", prng.below(1 << 40)),
                ("psa_ingress_parser_input_metadata.ingress_port", prng.below(8)),
                ("psa_ingress_parser_input_metadata.packet_path", prng.below(7)),
                ("psa_ingress_input_metadata.ingress_port", prng.below(8)),
                ("psa_ingress_input_metadata.packet_path", prng.below(7)),
                ("psa_ingress_input_metadata.ingress_timestamp", prng.below(1 << 40)),
                ("psa_ingress_input_metadata.parser_error", prng.below(8)),
                ("psa_ingress_output_metadata.drop", 1),
                ("psa_egress_parser_input_metadata.egress_port", prng.below(8)),
                ("psa_egress_parser_input_metadata.packet_path", prng.below(7)),
                ("psa_egress_input_metadata.egress_port", prng.below(8)),
                ("psa_egress_input_metadata.packet_path", prng.below(7)),
                ("psa_egress_input_metadata.instance", prng.below(100)),
                ("psa_egress_input_metadata.parser_error", prng.below(8)),
                ("psa_egress_deparser_input_metadata.egress_port", prng.below(8)),
            ];
            ours.packet(&packet, &inputs);
            theirs.packet(&packet, &inputs);
            compare(&ours, &theirs)
                .map_err(|what| format!("set {set} packet {round} ({}): {what}", hex(&packet)))?;
        }
        compare_states(&mut ours, &mut theirs)?;
    }
    Ok(())
}

/// Programs where the two differ, with the reason that they do.
const DIFFERENT: &[(&str, &str)] = &[
    ("issue4739", "the JSON writes out a loop whose body changes its variable, and forgets the change"),
    ("psa-action-profile1", "the JSON has a simple table in the place of one with a profile"),
    ("psa-action-profile4", "the JSON has a simple table in the place of one with a profile"),
    ("psa-action-selector2", "the JSON has a simple table in the place of one with a selector"),
    ("psa-example-optional-match", "the JSON has a ternary key in the place of an optional one"),
];

/// Programs that have the same actions by name, those that no control plane sees among them: that compiler moves statements
/// about before it names them.
const ALIKE_AT_LEAST: usize = 170;

/// Programs that were compared.
const COMPARED_AT_LEAST: usize = 242;

#[test]
fn the_reference_compilers_json_leaves_the_same_packets() {
    let Some(folder) = barewire_testing::shared("data/p4src") else { return };
    let Some(compiled) = barewire_testing::shared("data/p4") else { return };
    let only = std::env::var("BAREWIRE_ONLY").ok();
    let (mut compared, mut alike, mut wrong) = (0, 0, Vec::new());
    for name in ["v1model", "psa"].map(|arch| common::samples(&folder, arch)).concat() {
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let json = ["p4_16", "psa", "import/p4_16_samples"]
            .iter()
            .find_map(|part| std::fs::read_to_string(compiled.join(part).join(format!("{name}.json"))).ok());
        let Some(theirs) = json.and_then(|json| import(&json).ok()) else { continue };
        let Some(Ok(ours)) = common::program(&folder.join("p4_16_samples"), &format!("{name}.p4")) else {
            continue;
        };
        compared += 1;
        let actions = |program: &Program| -> BTreeSet<String> {
            program.actions.iter().map(|action| action.name.clone()).collect()
        };
        let (mine, yours) = (actions(&ours), actions(&theirs));
        alike += usize::from(mine == yours);
        if mine != yours && std::env::var_os("BAREWIRE_NAMES").is_some() {
            println!("{name}: actions {mine:?}, {yours:?}");
        }
        match (both_ways(ours, theirs, 1), DIFFERENT.iter().find(|(known, _)| *known == name)) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Err(what), None) => wrong.push(format!("{name}: {what}")),
            (Ok(()), Some((_, why))) => wrong.push(format!("{name}: no longer different ({why})")),
        }
    }
    println!("{alike} programs have the same actions, hidden ones too");
    println!("{compared} programs both ways, {} packets each, {} differ", SETS * PACKETS, wrong.len());
    for line in &wrong {
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{} programs differ", wrong.len());
    assert!(only.is_some() || alike >= ALIKE_AT_LEAST, "{alike} programs, {ALIKE_AT_LEAST} before");
    assert!(
        only.is_some() || compared >= COMPARED_AT_LEAST,
        "{compared} programs, {COMPARED_AT_LEAST} before"
    );
}
