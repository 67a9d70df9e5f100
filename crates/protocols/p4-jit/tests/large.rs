//! Programs whose size or shape could make compilation take for ever.

use barewire_p4::ir::{
    Action, ActionId, BinaryOp, Expr, FieldDef, FieldId, Header, HeaderId, HeaderType, HeaderTypeId,
    NextNode, Node, NodeId, Pipeline, Program, Stmt, Table, TableId, TableKind, Width,
};
use barewire_p4_jit::compile;
use num_bigint::BigInt;
use std::sync::Arc;

fn with_metadata() -> Program {
    let mut program = Program::empty();
    let field = |i| FieldDef { name: format!("f{i}"), width: Width::Fixed(32), signed: false };
    program.header_types = vec![HeaderType { name: "m".to_owned(), fields: (0..16).map(field).collect() }];
    let ty = HeaderTypeId(0);
    program.headers =
        vec![Header { name: "m".to_owned(), ty, metadata: true, union: None, length_exp: None }];
    program
}

fn field(field: u32) -> FieldId {
    FieldId { header: HeaderId(0), field }
}

fn add(at: u32) -> Stmt {
    let value = Expr::Binary(
        BinaryOp::Add,
        Box::new(Expr::Field(field((at + 1) % 16).into())),
        Box::new(Expr::Int(BigInt::from(at))),
    );
    Stmt::Assign { dst: field(at % 16).into(), value }
}

/// Tables one after another, each with all actions.
fn tables(program: &mut Program, count: u32) {
    let actions: Vec<ActionId> = (0..program.actions.len()).map(ActionId::from).collect();
    let mut nodes = Vec::new();
    for i in 0..count {
        let table = Table::new(format!("t{i}"), TableKind::Exact, Vec::new(), actions.clone(), 1);
        program.tables.push(Table { id: i, ..table });
        let next = (i + 1 < count).then_some(NodeId(i + 1));
        nodes.push(Node::Table {
            table: TableId(i),
            next: NextNode::ByAction { by_action: Vec::new(), default: next },
        });
    }
    program.pipelines = vec![Pipeline { name: "ingress".to_owned(), start: Some(NodeId(0)), nodes }];
}

fn bytes(program: Program) -> (usize, usize) {
    let compiled = compile(Arc::new(program)).expect("compiles");
    (compiled.report().bytes(), compiled.report().delegated())
}

#[test]
fn actions_of_many_tables_do_not_multiply() {
    let mut program = with_metadata();
    for i in 0..40 {
        let body = (0..50).map(|at| add(at + i)).collect();
        program.actions.push(Action { name: format!("a{i}"), id: i, params: Vec::new(), body });
    }
    tables(&mut program, 200);
    // 8,000 uses of 50 statements would be megabytes.
    let (bytes, delegated) = bytes(program);
    assert_eq!(delegated, 0);
    assert!(bytes < 1 << 20, "{bytes} bytes");
}

#[test]
fn nested_shifts_do_not_multiply() {
    let mut program = with_metadata();
    let mut value = Expr::Field(field(0).into());
    for at in 0..400 {
        let other = Expr::Field(field(at % 16).into());
        let inner = Box::new(Expr::Wrap { value: Box::new(value), width: 7 });
        value = Expr::Binary(BinaryOp::Shr, Box::new(other), inner);
    }
    let body = vec![Stmt::Assign { dst: field(1).into(), value }];
    program.actions = vec![Action { name: "a".to_owned(), id: 0, params: Vec::new(), body }];
    tables(&mut program, 1);
    let (bytes, _) = bytes(program);
    assert!(bytes < 1 << 16, "{bytes} bytes");
}

#[test]
fn a_pipeline_beyond_all_measure_is_interpreted() {
    let mut program = with_metadata();
    let body: Vec<Stmt> = (0..60_000).map(add).collect();
    for i in 0..8 {
        program.actions.push(Action { name: format!("a{i}"), id: i, params: Vec::new(), body: body.clone() });
    }
    tables(&mut program, 2);
    let (bytes, delegated) = bytes(program);
    assert_eq!(delegated, 1);
    assert!(bytes < 4096, "{bytes} bytes");
}

#[test]
fn a_very_long_action_is_compiled() {
    let mut program = with_metadata();
    let body: Vec<Stmt> = (0..60_000).map(add).collect();
    program.actions = vec![Action { name: "a".to_owned(), id: 0, params: Vec::new(), body }];
    tables(&mut program, 1);
    let (bytes, delegated) = bytes(program);
    assert_eq!(delegated, 0);
    assert!(bytes > 100_000, "{bytes} bytes");
}

#[test]
fn a_long_chain_of_conditions_is_compiled() {
    let mut program = with_metadata();
    program.actions = vec![Action { name: "a".to_owned(), id: 0, params: Vec::new(), body: vec![add(1)] }];
    let count = 20_000;
    let nodes = (0..count).map(|i| {
        let next = (i + 2 < count).then_some(NodeId(i + 2));
        if i % 2 == 0 {
            let value = Expr::Field(field(i % 16).into());
            let condition = Expr::Binary(BinaryOp::Eq, Box::new(value), Box::new(Expr::Int(BigInt::from(i))));
            Node::If { name: format!("c{i}"), condition, then: Some(NodeId(i + 1)), otherwise: next }
        } else {
            Node::Call {
                name: format!("n{i}"),
                action: ActionId(0),
                next: Some(NodeId(i + 1)).filter(|n| n.0 < count),
            }
        }
    });
    let nodes = nodes.collect();
    program.pipelines = vec![Pipeline { name: "ingress".to_owned(), start: Some(NodeId(0)), nodes }];
    let (_, delegated) = bytes(program);
    assert_eq!(delegated, 0);
}
