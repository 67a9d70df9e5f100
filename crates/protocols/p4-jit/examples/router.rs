//! The simple router of bmv2's own benchmark on compiled code: packets through parser, both pipelines and deparser.
//!
//! `cargo run --release -p barewire-p4-jit --example router -- [PROGRAM.json] [PACKETS] [ROUTES]`. The program must be
//! bmv2's simple_router (its tables are filled by name).

// A stopwatch for people, outside any protocol.
#![allow(clippy::disallowed_methods)]

use barewire_p4::engine::Engine;
use barewire_p4::ir::{ActionCall, ActionId, Program, TableId};
use barewire_p4::key::MatchParam;
use barewire_p4::phv::slot;
use barewire_p4_formats::import::import;
use barewire_p4_jit::compile;
use barewire_p4_state::{ProgramState, TableAction};
use num_bigint::BigUint;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

fn call(program: &Program, table: TableId, name: &str, args: &[u64]) -> Option<TableAction> {
    let plain = |full: &str| full == name || full.ends_with(&format!(".{name}"));
    let actions = &program.tables[table.at()].actions;
    let action: ActionId = *actions.iter().find(|id| plain(&program.actions[id.at()].name))?;
    Some(TableAction::Call(ActionCall { action, args: args.iter().map(|arg| BigUint::from(*arg)).collect() }))
}

fn fill(program: &Program, state: &mut ProgramState, routes: u32) -> Result<(), Box<dyn Error>> {
    let table = |name: &str| {
        let plain = |full: &str| full == name || full.ends_with(&format!(".{name}"));
        program
            .tables
            .iter()
            .position(|table| plain(&table.name))
            .map(TableId::from)
            .ok_or(format!("no table {name}"))
    };
    let (lpm, forward, send) = (table("ipv4_lpm")?, table("forward")?, table("send_frame")?);
    for id in [lpm, forward, send] {
        state.set_default(id, call(program, id, "_drop", &[]).as_ref())?;
    }
    let exact = |value: u64| [MatchParam::Exact(BigUint::from(value))];
    for route in 0..routes {
        let prefix = 0x0a00_0000 | route << 8;
        let key = [MatchParam::Lpm { value: BigUint::from(prefix), prefix_len: 24 }];
        let nhop = u64::from(prefix | 1);
        let action = call(program, lpm, "set_nhop", &[nhop, u64::from(route % 4)]).ok_or("no set_nhop")?;
        state.insert(lpm, route, &key, 0, &action)?;
        let action = call(program, forward, "set_dmac", &[0x0004_0000_0000 + u64::from(route)])
            .ok_or("no set_dmac")?;
        state.insert(forward, route, &exact(nhop), 0, &action)?;
    }
    for port in 0..4 {
        let action =
            call(program, send, "rewrite_mac", &[0x00aa_bb00_0000 + port]).ok_or("no rewrite_mac")?;
        state.insert(send, port as u32, &exact(port), 0, &action)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let default =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/data/p4/legacy/simple_router.json");
    let path = args.next().unwrap_or_else(|| default.to_owned());
    let packets: u32 = args.next().map_or(Ok(10_000_000), |count| count.parse())?;
    let routes: u32 = args.next().map_or(Ok(1000), |count| count.parse())?;
    let program = Arc::new(import(&std::fs::read_to_string(&path)?)?);
    let mut engine = compile(Arc::clone(&program))?;
    eprintln!("{}", engine.report());
    let mut state = ProgramState::new(&program);
    fill(&program, &mut state, routes)?;

    let mut frames = Vec::new();
    for i in 0..256_u32 {
        let mut frame = vec![0_u8; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[17] = 46;
        frame[22] = 64;
        frame[23] = 17;
        frame[26..30].copy_from_slice(&[10, 0, 0, 9]);
        frame[30..34].copy_from_slice(
            &(0x0a00_0002 | (i.wrapping_mul(2_654_435_761) % routes.max(1)) << 8).to_be_bytes(),
        );
        frames.push(frame);
    }
    let field = |name: &str| program.field(name).ok_or(format!("no {name}"));
    let (ingress, spec, port) = (
        field("standard_metadata.ingress_port")?,
        field("standard_metadata.egress_spec")?,
        field("standard_metadata.egress_port")?,
    );
    let layout = Engine::<ProgramState>::layout(&engine).clone();
    let mut phv = layout.new_phv();
    let mut out = [0_u8; 256];
    let mut sum = 0_u64;
    let start = Instant::now();
    for i in 0..packets {
        let frame = &frames[(i % 256) as usize];
        layout.reset(&mut phv);
        phv.set(&layout, ingress, 1);
        phv.set_slot(slot::PACKET_LEN, frame.len() as u64);
        phv.set_slot(slot::DROP_PORT, 511);
        engine.parse(0, &mut phv, frame, &mut state);
        engine.run(0, &mut phv, frame, &mut state);
        let to = phv.get(&layout, spec);
        phv.set(&layout, port, to);
        engine.run(1, &mut phv, frame, &mut state);
        let parsed = phv.slot(slot::PARSED) as usize;
        let len = engine.prepare_deparse(0, &mut phv, &frame[parsed..], &mut state);
        Engine::<ProgramState>::emit(&mut engine, 0, &phv, &mut out[..len]);
        sum += u64::from(out[22]) + u64::from(out[11]);
    }
    let time = start.elapsed();
    println!(
        "{packets} packets, {routes} routes: {:.1} ns a packet, {:.2} M/s (sum {sum}, last {:02x?})",
        time.as_nanos() as f64 / f64::from(packets.max(1)),
        f64::from(packets) / time.as_secs_f64() / 1e6,
        &out[..34]
    );
    Ok(())
}
