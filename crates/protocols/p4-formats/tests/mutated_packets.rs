//! Every sample program on mutated packets of every length: nothing panics, nothing hangs, and the vector keeps its
//! rules (unused bits are zero, at most one member of a union is valid).

use barewire_base::Prng;
use barewire_p4::engine::Engine;
use barewire_p4::interp::Interpreter;
use barewire_p4::ir::{FieldId, HeaderId, MatchKind, Program, TableId};
use barewire_p4::key::MatchParam;
use barewire_p4::phv::{Phv, Place, slot};
use barewire_p4::state::{PlainState, TableAction};
use barewire_p4_formats::stf::{Command, parse};
use num_bigint::BigUint;
use std::path::PathBuf;
use std::sync::Arc;

const SEED: u64 = 0x5eed_0004;
const PACKETS: usize = 40;

fn samples() -> Option<Vec<PathBuf>> {
    let data = barewire_testing::shared("data/p4")?;
    let mut files = Vec::new();
    let mut folders = vec![data];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    Some(files)
}

fn random_number(random: &mut Prng, width: u32) -> BigUint {
    let mut bytes = vec![0; width.div_ceil(8) as usize];
    random.fill(&mut bytes);
    // Often small, so that entries and packets meet.
    let shift = if random.chance(0.7) { random.below(u64::from(width) + 1) } else { 0 };
    (BigUint::from_bytes_be(&bytes) & ((BigUint::from(1_u8) << width) - 1_u8)) >> shift
}

fn fill_tables(program: &Program, state: &mut PlainState, random: &mut Prng) {
    for (index, table) in program.tables.iter().enumerate() {
        for handle in 0..3 {
            if table.actions.is_empty() || table.key.is_empty() {
                break;
            }
            let action = table.actions[random.below(table.actions.len() as u64) as usize];
            let params = &program.actions[action.at()].params;
            let args = params.iter().map(|param| random_number(random, param.width)).collect();
            let key: Vec<MatchParam> = table
                .key
                .iter()
                .map(|field| {
                    let value = random_number(random, field.width);
                    match field.kind {
                        MatchKind::Exact => MatchParam::Exact(value),
                        MatchKind::Valid => MatchParam::Valid(random.chance(0.5)),
                        MatchKind::Lpm => {
                            let prefix_len = random.below(u64::from(field.width) + 1) as u32;
                            let rest = field.width - prefix_len;
                            MatchParam::Lpm { value: value >> rest << rest, prefix_len }
                        }
                        MatchKind::Ternary | MatchKind::Optional => {
                            let mask = random_number(random, field.width);
                            MatchParam::Ternary { value: value & &mask, mask }
                        }
                        MatchKind::Range => {
                            let other = random_number(random, field.width);
                            MatchParam::Range {
                                low: value.clone().min(other.clone()),
                                high: value.max(other),
                            }
                        }
                    }
                })
                .collect();
            let call = TableAction::Call(barewire_p4::ir::ActionCall { action, args });
            // Keys may meet those of the program.
            let _ = state.insert(TableId::from(index), 1000 + handle, &key, random.below(9) as u32, call);
        }
    }
}

fn check_vector(program: &Program, interpreter: &Interpreter, phv: &Phv, what: &str) {
    let layout = &interpreter.plan().layout;
    for (index, header) in program.headers.iter().enumerate() {
        let header_id = HeaderId::from(index);
        assert!(
            !header.metadata || phv.is_valid(layout, header_id),
            "{what}: metadata {} is valid",
            header.name
        );
        for field in 0..program.header_type_of(header_id).fields.len() as u32 {
            match layout.place(FieldId { header: header_id, field }) {
                Place::Words { word, width, .. } => {
                    let last = phv.words()[(word + width.div_ceil(64).max(1) - 1) as usize];
                    let used = width % 64;
                    let clean = (used == 0 && width > 0) || last >> used == 0;
                    assert!(clean, "{what}: bits above {}.{field}", header.name);
                }
                Place::Varbit { len_word, max_bits, byte } => {
                    let len = phv.slot(len_word as usize);
                    assert!(len <= u64::from(max_bits), "{what}: length of {}.{field}", header.name);
                    for bit in len as u32..max_bits {
                        assert_eq!(
                            phv.bits(byte * 8 + bit, 1),
                            0,
                            "{what}: bits behind {}.{field}",
                            header.name
                        );
                    }
                }
                Place::Bits { .. } => {}
            }
        }
    }
    for union in &program.unions {
        let valid = union.members.iter().filter(|&&member| phv.is_valid(layout, member)).count();
        assert!(valid <= 1, "{what}: {valid} members of {} are valid", union.name);
    }
}

#[test]
fn nothing_panics_on_mutated_packets() {
    let Some(files) = samples() else { return };
    let (mut programs, mut refused, mut errors, mut emitted) = (0, 0, 0_u64, 0_u64);
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let Ok(program) = barewire_p4_formats::import::import(&text) else {
            refused += 1;
            continue;
        };
        programs += 1;
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let mut random = Prng::new(SEED);
        let program = Arc::new(program);
        let mut interpreter = Interpreter::new(program.clone());
        let mut state = PlainState::with_program_entries(program.clone())
            .unwrap_or_else(|error| panic!("{name}: entries of the program: {error}"));
        fill_tables(&program, &mut state, &mut random);
        // The test's own packets are where mutation begins.
        let mut seeds: Vec<Vec<u8>> = vec![Vec::new(), vec![0; 64]];
        if let Ok(stf) = std::fs::read_to_string(file.with_extension("stf")) {
            let lines = parse(&stf).unwrap_or_else(|error| panic!("{name}: {error}"));
            seeds.extend(lines.into_iter().filter_map(|line| match line.command {
                Command::Packet { bytes, .. } => Some(bytes),
                _ => None,
            }));
        }
        for round in 0..PACKETS {
            let mut packet = seeds[random.below(seeds.len() as u64) as usize].clone();
            match random.below(4) {
                0 => packet.truncate(random.below(packet.len() as u64 + 1) as usize),
                1 => packet.resize(random.below(if round == 0 { 9001 } else { 200 }) as usize, 0x11),
                _ => {}
            }
            for _ in 0..random.below(4) {
                let len = packet.len() as u64;
                if let Some(byte) = packet.get_mut(random.below(len.max(1)) as usize) {
                    *byte = random.next_u64() as u8;
                }
            }
            let what = format!("{name}, seed {SEED:#x}, round {round}");
            let mut phv = interpreter.plan().layout.new_phv();
            phv.set_slot(slot::PACKET_LEN, packet.len() as u64);
            phv.set_slot(slot::DROP_PORT, 511);
            for parser in 0..program.parsers.len() {
                interpreter.parse(parser, &mut phv, &packet, &mut state);
                assert!(phv.slot(slot::PARSED) <= packet.len() as u64, "{what}");
                check_vector(&program, &interpreter, &phv, &what);
                errors += u64::from(phv.slot(slot::REJECTED) != 0);
            }
            for pipeline in 0..program.pipelines.len() {
                interpreter.run(pipeline, &mut phv, &packet, &mut state);
                check_vector(&program, &interpreter, &phv, &what);
            }
            let payload = &packet[phv.slot(slot::PARSED) as usize..];
            for deparser in 0..program.deparsers.len() {
                let len = interpreter.prepare_deparse(deparser, &mut phv, payload, &mut state);
                let mut out = vec![0xa5; len];
                Engine::<PlainState>::emit(&mut interpreter, deparser, &phv, &mut out);
                emitted += len as u64;
            }
        }
    }
    eprintln!("{programs} programs, {refused} refused, {errors} parser errors, {emitted} bytes emitted");
    assert!(programs > 500 && errors > 0 && emitted > 0, "{programs} programs");
}
