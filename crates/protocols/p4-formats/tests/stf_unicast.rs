//! The packet tests of the compiled sample programs, as far as a target without queues, clones and multicast can run
//! them: parser, ingress, egress, deparser of v1model, one packet at a time. The switch's own tests run all of them.

use barewire_p4::engine::Engine;
use barewire_p4::interp::Interpreter;
use barewire_p4::ir::{FieldId, Program};
use barewire_p4::phv::{Phv, slot};
use barewire_p4::state::{PlainState, State, TableAction};
use barewire_p4_formats::stf::{Command, Expectations, parse, resolve};
use num_bigint::BigUint;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DROP_PORT: u64 = 511;

struct Target {
    program: Arc<Program>,
    interpreter: Interpreter,
    state: PlainState,
    expectations: Expectations,
}

/// A request the small target here does not serve.
struct Beyond(&'static str);

impl Target {
    fn field(&self, name: &str) -> Option<FieldId> {
        self.program.field(&format!("standard_metadata.{name}"))
    }

    fn get(&self, phv: &Phv, name: &str) -> u64 {
        self.field(name).map_or(0, |field| phv.get(&self.interpreter.plan().layout, field))
    }

    fn set(&self, phv: &mut Phv, name: &str, value: u64) {
        if let Some(field) = self.field(name) {
            phv.set(&self.interpreter.plan().layout, field, value);
        }
    }

    fn beyond(&self, phv: &Phv) -> Result<(), Beyond> {
        for (slot, what) in [
            (slot::CLONE, "clone"),
            (slot::RESUBMIT, "resubmit"),
            (slot::RECIRCULATE, "recirculate"),
            (slot::TRUNCATE, "truncate"),
        ] {
            if phv.slot(slot) != 0 {
                return Err(Beyond(what));
            }
        }
        let group = self.program.field("intrinsic_metadata.mcast_grp").or_else(|| self.field("mcast_grp"));
        if group.is_some_and(|group| phv.get(&self.interpreter.plan().layout, group) != 0) {
            return Err(Beyond("multicast"));
        }
        Ok(())
    }

    fn pipeline(&mut self, name: &str, phv: &mut Phv, packet: &[u8]) {
        let index = self.program.pipelines.iter().position(|p| p.name == name).unwrap();
        self.interpreter.run(index, phv, packet, &mut self.state);
    }

    fn packet(&mut self, port: u32, packet: &[u8]) -> Result<(), Beyond> {
        let mut phv = self.interpreter.plan().layout.new_phv();
        phv.set_slot(slot::PACKET_LEN, packet.len() as u64);
        phv.set_slot(slot::DROP_PORT, DROP_PORT);
        self.set(&mut phv, "ingress_port", u64::from(port));
        self.set(&mut phv, "packet_length", packet.len() as u64);
        self.interpreter.parse(0, &mut phv, packet, &mut self.state);
        let (error, checksum) = (phv.slot(slot::PARSER_ERROR), phv.slot(slot::CHECKSUM_ERROR));
        self.set(&mut phv, "parser_error", error);
        self.set(&mut phv, "checksum_error", checksum);
        self.pipeline("ingress", &mut phv, packet);
        self.beyond(&phv)?;
        let egress_port = self.get(&phv, "egress_spec");
        if egress_port == DROP_PORT {
            return Ok(());
        }
        self.set(&mut phv, "egress_port", egress_port);
        self.set(&mut phv, "egress_spec", 0);
        self.pipeline("egress", &mut phv, packet);
        self.beyond(&phv)?;
        if self.get(&phv, "egress_spec") == DROP_PORT {
            return Ok(());
        }
        let payload = &packet[phv.slot(slot::PARSED) as usize..];
        let headers = self.interpreter.prepare_deparse(0, &mut phv, payload, &mut self.state);
        let mut out = vec![0xa5; headers + payload.len()];
        Engine::<PlainState>::emit(&mut self.interpreter, 0, &phv, &mut out[..headers]);
        out[headers..].copy_from_slice(payload);
        self.expectations.received(egress_port as u32, &out);
        Ok(())
    }
}

/// `Ok(None)` when the test passed, why it was not run otherwise.
fn run(json: &Path) -> Result<Option<String>, String> {
    let text = std::fs::read_to_string(json).unwrap();
    let program =
        Arc::new(barewire_p4_formats::import::import(&text).map_err(|error| format!("import: {error}"))?);
    let lines =
        parse(&std::fs::read_to_string(json.with_extension("stf")).unwrap()).map_err(|e| e.to_string())?;
    let state = PlainState::with_program_entries(program.clone()).map_err(|error| error.to_string())?;
    let interpreter = Interpreter::new(program.clone());
    let mut target =
        Target { program: program.clone(), interpreter, state, expectations: Expectations::of(&lines) };
    let mut handle = 1000;
    for line in &lines {
        let place = |error: &dyn std::fmt::Display| format!("line {}: {error}", line.number);
        match &line.command {
            Command::Add { table, priority, key, action, .. } => {
                let entry = resolve::entry(&program, table, *priority, key, action).map_err(|e| place(&e))?;
                handle += 1;
                let call = TableAction::Call(entry.call);
                target
                    .state
                    .insert(entry.table, handle, &entry.key, entry.priority, call)
                    .map_err(|e| place(&e))?;
            }
            Command::SetDefault { table, action } => {
                let table = resolve::table(&program, table).map_err(|e| place(&e))?;
                let call = resolve::action(&program, table, action).map_err(|e| place(&e))?;
                target.state.set_default(table, Some(TableAction::Call(call))).map_err(|e| place(&e))?;
            }
            Command::Packet { port, bytes } => {
                if let Err(Beyond(what)) = target.packet(*port, bytes) {
                    return Ok(Some(what.to_owned()));
                }
            }
            Command::RegisterWrite { register, index, value } => {
                let register = resolve::register(&program, register).map_err(|e| place(&e))?;
                target.state.set_register(register, *index, value);
            }
            Command::RegisterReset(register) => {
                let register = resolve::register(&program, register).map_err(|e| place(&e))?;
                for index in 0..program.registers[register.at()].size {
                    target.state.set_register(register, u64::from(index), &BigUint::ZERO);
                }
            }
            Command::MirroringAdd { .. } | Command::McGroupCreate(_) => {
                return Ok(Some("multicast".to_owned()));
            }
            _ => {}
        }
    }
    let show = |wrong: Vec<_>| {
        wrong.iter().map(|m: &barewire_p4_formats::stf::Mismatch| m.to_string()).collect::<Vec<_>>()
    };
    target.expectations.finish().map(|()| None).map_err(|wrong| show(wrong).join("\n"))
}

/// The programs that have a packet test, in some folders.
fn tests_in(data: &Path, folders: &[&str]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(data.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|e| e == "json") && file.with_extension("stf").is_file())
        .collect();
    files.sort();
    files
}

#[test]
fn every_name_of_the_samples_tests_is_found() {
    let Some(data) = barewire_testing::shared("data/p4") else { return };
    let (mut tests, mut names) = (0, 0);
    for json in tests_in(&data, &["p4_16", "p4_14", "psa"]) {
        let text = std::fs::read_to_string(&json).unwrap();
        let program =
            barewire_p4_formats::import::import(&text).unwrap_or_else(|e| panic!("{}: {e}", json.display()));
        let stf = std::fs::read_to_string(json.with_extension("stf")).unwrap();
        for line in parse(&stf).unwrap_or_else(|e| panic!("{}: {e}", json.display())) {
            let found = match &line.command {
                Command::Add { table, priority, key, action, .. } => {
                    resolve::entry(&program, table, *priority, key, action).map(drop)
                }
                Command::SetDefault { table, action } => resolve::table(&program, table)
                    .and_then(|table| resolve::action(&program, table, action))
                    .map(drop),
                Command::RegisterRead { register, .. }
                | Command::RegisterWrite { register, .. }
                | Command::RegisterReset(register) => resolve::register(&program, register).map(drop),
                Command::MeterGetRates { meter, .. }
                | Command::MeterSetRates { meter, .. }
                | Command::MeterArraySetRates { meter, .. } => resolve::meter(&program, meter).map(drop),
                _ => continue,
            };
            names += 1;
            found.unwrap_or_else(|e| panic!("{}, line {}: {e}", json.display(), line.number));
        }
        tests += 1;
    }
    eprintln!("{tests} tests, {names} commands that name things");
    assert!(tests > 140 && names > 90, "{tests} tests, {names} names");
}

#[test]
fn unicast_tests_of_the_samples_pass() {
    let Some(data) = barewire_testing::shared("data/p4") else { return };
    let (mut passed, mut beyond, mut failed) = (0, 0, Vec::new());
    for json in tests_in(&data, &["p4_16", "p4_14"]) {
        match run(&json) {
            Ok(None) => passed += 1,
            Ok(Some(_)) => beyond += 1,
            Err(error) => failed.push(format!("{}: {error}", json.display())),
        }
    }
    eprintln!("{passed} passed, {beyond} ask for more than this target has");
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 120, "only {passed} passed");
}
