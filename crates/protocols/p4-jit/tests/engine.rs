//! Compiled programs as engines: made by hand, shared between threads, run on a state that is not theirs.

use barewire_p4::engine::Engine;
use barewire_p4::ir::{
    Action, ActionCall, ActionId, Deparser, Expr, FieldDef, FieldId, Header, HeaderId, HeaderRef, HeaderType,
    HeaderTypeId, KeyField, KeySource, MatchKind, NextNode, Node, NodeId, Param, Parser, ParserOp,
    ParserState, Pipeline, Program, StateId, Stmt, Table, TableId, TableKind, Transition, TransitionMatch,
    Width,
};
use barewire_p4::key::MatchParam;
use barewire_p4::phv::slot;
use barewire_p4_jit::{Compiled, compile};
use barewire_p4_state::{ProgramState, TableAction};
use num_bigint::{BigInt, BigUint};
use std::sync::Arc;

/// One header of a 4-bit, a 12-bit and a 16-bit field; a table on the second that writes the third.
fn small() -> Program {
    let mut program = Program::empty();
    let field =
        |name: &str, width| FieldDef { name: name.to_owned(), width: Width::Fixed(width), signed: false };
    let fields = vec![field("a", 4), field("b", 12), field("c", 16)];
    program.header_types = vec![HeaderType { name: "t".to_owned(), fields }];
    let ty = HeaderTypeId(0);
    for name in ["h", "g"] {
        program.headers.push(Header {
            name: name.to_owned(),
            ty,
            metadata: false,
            union: None,
            length_exp: None,
        });
    }
    let id = |field| FieldId { header: HeaderId(0), field };
    let state = |header, next| ParserState {
        name: "s".to_owned(),
        ops: vec![ParserOp::Extract(HeaderRef::Header(header))],
        key: Vec::new(),
        transitions: vec![Transition { when: TransitionMatch::Default, next }],
    };
    program.parsers = vec![Parser {
        name: "parser".to_owned(),
        start: Some(StateId(0)),
        states: vec![state(HeaderId(0), Some(StateId(1))), state(HeaderId(1), None)],
    }];
    program.errors = vec![("NoError".to_owned(), 0), ("PacketTooShort".to_owned(), 1)];
    let value = Expr::Binary(
        barewire_p4::ir::BinaryOp::Sub,
        Box::new(Expr::Param(1)),
        Box::new(Expr::Int(BigInt::from(1))),
    );
    let param = |name: &str, width| Param { name: name.to_owned(), width };
    program.actions = vec![Action {
        name: "set".to_owned(),
        id: 0,
        params: vec![param("wide", 100), param("value", 16)],
        body: vec![Stmt::Assign { dst: id(2).into(), value }],
    }];
    let key = KeyField {
        name: "b".to_owned(),
        kind: MatchKind::Exact,
        source: KeySource::Field(id(1).into()),
        width: 12,
        mask: None,
    };
    program.tables = vec![Table::new("t", TableKind::Exact, vec![key], vec![ActionId(0)], 8)];
    let next = NextNode::ByHit { hit: None, miss: None };
    let node = Node::Table { table: TableId(0), next };
    program.pipelines =
        vec![Pipeline { name: "ingress".to_owned(), start: Some(NodeId(0)), nodes: vec![node] }];
    let order = vec![HeaderId(0), HeaderId(1)];
    program.deparsers = vec![Deparser { name: "deparser".to_owned(), order, stmts: Vec::new() }];
    program
}

fn entry(state: &mut ProgramState, key: u32, value: u32) {
    let call = ActionCall { action: ActionId(0), args: vec![BigUint::from(7_u8), BigUint::from(value)] };
    let key = [MatchParam::Exact(BigUint::from(key))];
    state.insert(TableId(0), 0, &key, 0, &TableAction::Call(call)).expect("inserted");
}

fn process(engine: &mut Compiled, state: &mut ProgramState, packet: &[u8]) -> (u64, Vec<u8>) {
    let mut phv = Engine::<ProgramState>::layout(engine).new_phv();
    engine.parse(0, &mut phv, packet, state);
    engine.run(0, &mut phv, packet, state);
    let parsed = phv.slot(slot::PARSED) as usize;
    let len = engine.prepare_deparse(0, &mut phv, &packet[parsed..], state);
    let mut out = vec![0xa5; len];
    Engine::<ProgramState>::emit(engine, 0, &phv, &mut out);
    out.extend_from_slice(&packet[parsed..]);
    (phv.slot(slot::PARSER_ERROR), out)
}

#[test]
fn literal_bytes() {
    let program = Arc::new(small());
    let mut engine = compile(Arc::clone(&program)).expect("compiles");
    assert_eq!(engine.report().delegated(), 0, "{}", engine.report());
    let mut state = ProgramState::new(&program);
    entry(&mut state, 0x234, 0);
    let hit = process(&mut engine, &mut state, &[0x12, 0x34, 0xab, 0xcd, 1, 2, 3, 4, 9]);
    assert_eq!(hit, (0, vec![0x12, 0x34, 0xff, 0xff, 1, 2, 3, 4, 9]), "0 - 1 keeps its low 16 bits");
    let miss = process(&mut engine, &mut state, &[0x12, 0x35, 0xab, 0xcd, 1, 2, 3, 4]);
    assert_eq!(miss, (0, vec![0x12, 0x35, 0xab, 0xcd, 1, 2, 3, 4]));
    // What was extracted before the short one stays.
    let short = process(&mut engine, &mut state, &[0x12, 0x34, 0xab, 0xcd, 1, 2, 3]);
    assert_eq!(short, (1, vec![0x12, 0x34, 0xff, 0xff, 1, 2, 3]));
    assert_eq!(process(&mut engine, &mut state, &[]), (1, vec![]));
    assert_eq!(engine.headers_never_modified(), [HeaderId(1)]);
}

#[test]
fn a_state_of_another_program_is_no_danger() {
    let program = Arc::new(small());
    let mut engine = compile(Arc::clone(&program)).expect("compiles");
    let packet = [0x12, 0x34, 0xab, 0xcd, 1, 2, 3, 4];
    // No tables at all; and a table whose records are too short for the arguments.
    let mut narrow = small();
    narrow.actions[0].params.clear();
    narrow.actions[0].body.clear();
    for other in [Program::empty(), narrow] {
        let mut state = ProgramState::new(&other);
        let (error, out) = process(&mut engine, &mut state, &packet);
        assert_eq!((error, out.len()), (0, packet.len()));
    }
}

#[test]
#[should_panic(expected = "a vector of this program")]
fn a_vector_of_another_program_is_refused() {
    let program = Arc::new(small());
    let mut engine = compile(Arc::clone(&program)).expect("compiles");
    let mut phv = barewire_p4::phv::Layout::of(&Program::empty()).new_phv();
    engine.parse(0, &mut phv, &[1, 2, 3], &mut ProgramState::new(&program));
}

#[test]
fn threads_share_the_code_and_nothing_else() {
    let program = Arc::new(small());
    let engine = compile(Arc::clone(&program)).expect("compiles");
    let workers: Vec<_> = (0..4_u32)
        .map(|n| {
            let mut engine = engine.clone_for_thread();
            let program = Arc::clone(&program);
            std::thread::spawn(move || {
                let mut state = ProgramState::new(&program);
                entry(&mut state, 0x234, n + 1);
                for _ in 0..1000 {
                    let out = process(&mut engine, &mut state, &[0x12, 0x34, 0, 0, 1, 2, 3, 4]).1;
                    assert_eq!(out[2..4], (n as u16).to_be_bytes());
                }
            })
        })
        .collect();
    // The code outlives the engine it was made for.
    drop(engine);
    for worker in workers {
        worker.join().expect("worker");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn code_memory_is_given_back() {
    let executable = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
        maps.lines()
            .filter(|line| line.contains("r-xp") && !line.contains('/') && !line.contains('['))
            .count()
    };
    let program = Arc::new(small());
    let before = executable();
    let engines: Vec<Compiled> = (0..64).map(|_| compile(Arc::clone(&program)).expect("compiles")).collect();
    assert!(executable() > before, "code lies in anonymous pages that can be executed");
    drop(engines);
    // Other tests of this process hold a few engines of their own.
    assert!(executable() < before + 16);
}
