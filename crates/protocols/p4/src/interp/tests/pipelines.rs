//! Graphs, tables, profiles, meters, traces.

use super::super::trace::Event;
use super::*;
use crate::key::MatchParam;
use crate::state::{Rate, TableAction};

fn n(value: u64) -> BigUint {
    BigUint::from(value)
}

fn call(action: ActionId, args: &[u64]) -> TableAction {
    TableAction::Call(ActionCall { action, args: args.iter().map(|&arg| n(arg)).collect() })
}

#[test]
fn the_next_node_depends_on_hit_or_action() {
    let mut b = Builder::new();
    let m = b.metadata("m", &[8, 8, 8]);
    let mark = |value| vec![assign(field(m, 1), bin(BinaryOp::Add, read(m, 1), int(value)))];
    let a = b.action("a", &[8, 100], vec![assign(field(m, 2), Expr::Param(0))]);
    let c = b.action("c", &[], Vec::new());
    let marks = [1, 2, 4, 8].map(|value| b.action("mark", &[], mark(value)));
    let first = b.table(&[(MatchKind::Exact, FieldId { header: m, field: 0 }, 8)], &[a, c]);
    let second = b.table(&[(MatchKind::Exact, FieldId { header: m, field: 2 }, 8)], &[a, c]);
    let node = |value: u32| Some(NodeId(value));
    let calls = marks.map(|action| Node::Call { name: "mark".to_owned(), action, next: node(5) });
    let [hit, miss, by_a, other] = calls;
    let end = |call: Node| match call {
        Node::Call { name, action, .. } => Node::Call { name, action, next: None },
        other => other,
    };
    b.pipeline(vec![
        Node::Table { table: first, next: NextNode::ByHit { hit: node(1), miss: node(2) } },
        hit,
        miss,
        end(by_a),
        end(other),
        Node::Table {
            table: second,
            next: NextNode::ByAction { by_action: vec![(a, node(3))], default: node(4) },
        },
    ]);
    let mut f = b.done();
    f.state.insert(first, 0, &[MatchParam::Exact(n(5))], 0, call(a, &[9, 1])).unwrap();
    f.state.insert(second, 0, &[MatchParam::Exact(n(9))], 0, call(a, &[7, 1])).unwrap();
    f.set(m, 0, 5);
    f.run(&[]);
    assert_eq!((f.get64(m, 1), f.get64(m, 2)), (1 + 4, 7));
    let plan = f.plan();
    plan.layout.reset(&mut f.phv);
    f.run(&[]);
    assert_eq!((f.get64(m, 1), f.get64(m, 2)), (2 + 8, 0), "no action at all");
    plan.layout.reset(&mut f.phv);
    f.state.set_default(second, Some(call(a, &[3, 1]))).unwrap();
    f.run(&[]);
    assert_eq!((f.get64(m, 1), f.get64(m, 2)), (2 + 4, 3));
}

#[test]
fn exit_ends_the_pipeline_until_the_next_run() {
    let mut b = Builder::new();
    let m = b.metadata("m", &[8, 8]);
    let leave = b.action("leave", &[], vec![Stmt::Exit, assign(field(m, 0), int(1))]);
    let after = b.action("after", &[], vec![assign(field(m, 1), int(1))]);
    let node = |action, next| Node::Call { name: "call".to_owned(), action, next };
    b.pipeline(vec![node(leave, Some(NodeId(1))), node(after, None)]);
    b.pipeline(vec![node(after, None)]);
    let mut f = b.done();
    f.run(&[]);
    // The action is run to its end.
    assert_eq!((f.get64(m, 0), f.get64(m, 1), f.phv.slot(slot::EXIT)), (1, 0, 1));
    f.interpreter.run(1, &mut f.phv, &[], &mut f.state);
    assert_eq!((f.get64(m, 1), f.phv.slot(slot::EXIT)), (1, 0));
}

#[test]
fn keys_of_invalid_headers_are_zero_and_masks_apply() {
    let mut b = Builder::new();
    let x = b.header("x", &[16]);
    let m = b.metadata("m", &[8]);
    let a = b.action("a", &[8], vec![assign(field(m, 0), Expr::Param(0))]);
    let t = b.table(&[(MatchKind::Exact, FieldId { header: x, field: 0 }, 16)], &[a]);
    b.program.tables[t.at()].key[0].mask = Some(n(0xff00));
    b.program.tables[t.at()].key.push(KeyField {
        name: "valid".to_owned(),
        kind: MatchKind::Valid,
        source: KeySource::Valid(x.into()),
        width: 1,
        mask: None,
    });
    b.pipeline(vec![Node::Table { table: t, next: NextNode::ByHit { hit: None, miss: None } }]);
    let mut f = b.done();
    let key = |value, valid| [MatchParam::Exact(n(value)), MatchParam::Valid(valid)];
    f.state.insert(t, 0, &key(0x12ff, true), 0, call(a, &[1])).unwrap();
    f.state.insert(t, 1, &key(0, false), 0, call(a, &[2])).unwrap();
    f.set(x, 0, 0x1234);
    f.run(&[]);
    assert_eq!(f.get64(m, 0), 2);
    let plan = f.plan();
    f.phv.set_valid(&plan.layout, x, true);
    f.run(&[]);
    assert_eq!(f.get64(m, 0), 1);
}

#[test]
fn direct_counters_and_meters() {
    let mut b = Builder::new();
    let m = b.metadata("m", &[8, 2]);
    let a = b.action("a", &[], Vec::new());
    let t = b.table(&[(MatchKind::Exact, FieldId { header: m, field: 0 }, 8)], &[a]);
    b.program.counters.push(CounterArray { name: "dc".to_owned(), id: 0, size: 1024, direct: Some(t) });
    b.program.meters.push(MeterArray {
        name: "dm".to_owned(),
        id: 0,
        size: 1024,
        unit: MeterUnit::Bytes,
        rate_count: 2,
        direct: Some(t),
        result: Some(field(m, 1)),
    });
    b.program.tables[t.at()].counter = Some(CounterId(0));
    b.program.tables[t.at()].meter = Some(MeterId(0));
    b.pipeline(vec![Node::Table { table: t, next: NextNode::ByHit { hit: None, miss: None } }]);
    let mut f = b.done();
    f.state.insert(t, 3, &[MatchParam::Exact(n(1))], 0, call(a, &[])).unwrap();
    f.phv.set_slot(slot::PACKET_LEN, 100);
    f.phv.set_slot(slot::NOW_US, 5);
    f.set(m, 1, 3);
    f.run(&[]);
    assert_eq!(f.get64(m, 1), 3, "a miss meters nothing");
    f.set(m, 0, 1);
    f.run(&[]);
    assert_eq!(f.get64(m, 1), 0, "green without rates");
    let rate = |burst| Rate { per_us: 0.0, burst };
    f.state.set_entry_rates(t, 3, &[rate(100), rate(250)]).unwrap();
    let colors = [0, 1, 2].map(|_| {
        f.run(&[]);
        f.get64(m, 1)
    });
    assert_eq!(colors, [0, 1, 2]);
    let (count, last) = f.state.hits(t, 3).unwrap();
    assert_eq!((count.packets, count.bytes, last), (4, 400, 5));
}

#[test]
fn groups_choose_by_the_selector() {
    let mut b = Builder::new();
    let m = b.metadata("m", &[8, 8]);
    let a = b.action("a", &[8], vec![assign(field(m, 1), Expr::Param(0))]);
    let t = b.table(&[], &[a]);
    let input = vec![CalcInput::Field(field(m, 0))];
    let selector = |algorithm| Some(Selector { algorithm, input: input.clone() });
    b.program.profiles.push(ActionProfile {
        name: "p".to_owned(),
        id: 0,
        max_size: 16,
        selector: selector(HashAlgorithm::Identity),
    });
    b.program.tables[t.at()].source = TableActions::Profile(ProfileId(0));
    b.pipeline(vec![Node::Table { table: t, next: NextNode::ByHit { hit: None, miss: None } }]);
    let run = |algorithm| {
        let mut program = b.program.clone();
        program.profiles[0].selector = selector(algorithm);
        let mut f = Builder { program }.done();
        let profile = ProfileId(0);
        for member in 0..3 {
            let call = ActionCall { action: a, args: vec![n(10 + member)] };
            f.state.insert_member(profile, member as u32, call).unwrap();
        }
        f.state.set_group(profile, 7, vec![(0, 1), (2, 2)]).unwrap();
        f.state.set_default(t, Some(TableAction::Group(7))).unwrap();
        [0, 1, 2, 3, 0].map(|value| {
            f.set(m, 0, value);
            f.run(&[]);
            f.get64(m, 1)
        })
    };
    assert_eq!(run(HashAlgorithm::Identity), [10, 12, 12, 10, 10]);
    assert_eq!(run(HashAlgorithm::RoundRobin), [10, 12, 12, 10, 12]);
    assert_eq!(run(HashAlgorithm::RoundRobinConsistent), [10, 12, 12, 10, 10]);
}

#[test]
fn a_trace_tells_what_happened() {
    let mut b = Builder::new();
    let x = b.header("x", &[8]);
    let a = b.action("set", &[8], vec![assign(field(x, 0), Expr::Param(0))]);
    let t = b.table(&[(MatchKind::Lpm, FieldId { header: x, field: 0 }, 8)], &[a]);
    b.parser(vec![ParserOp::Extract(x.into())]);
    b.pipeline(vec![
        Node::If {
            name: "cond".to_owned(),
            condition: Expr::Valid(x.into()),
            then: Some(NodeId(1)),
            otherwise: None,
        },
        Node::Table { table: t, next: NextNode::ByHit { hit: None, miss: None } },
    ]);
    b.deparser(vec![x]);
    let mut f = b.done();
    f.state.insert(t, 4, &[MatchParam::Lpm { value: n(0x40), prefix_len: 4 }], 0, call(a, &[0x99])).unwrap();
    f.parse(&[0x45, 1]);
    f.run(&[0x45, 1]);
    let mut out = [0];
    f.interpreter.emit_traced(0, &f.phv, &mut out, &mut f.trace);
    assert_eq!(out, [0x99]);
    let text: Vec<String> = f.trace.events().iter().map(|event| event.to_string()).collect();
    assert_eq!(
        text,
        [
            "parser parser",
            "  state start at byte 0",
            "    extract x: 45",
            "      x becomes valid",
            "    case 0, to accept",
            "  parsed 1 bytes",
            "pipeline ingress",
            "  condition cond: true",
            "  table t0 [k0=0x45 (lpm)]: hit, entry 4, set",
            "    action set(p0=0x99)",
            "      x.f0: 0x45 -> 0x99",
            "  end of ingress",
            "  emit x: 99",
        ]
    );
    let json = serde_json::to_string(f.trace.events()).unwrap();
    let back: Vec<Event> = serde_json::from_str(&json).unwrap();
    assert_eq!(back, f.trace.take());
    assert!(f.trace.events().is_empty());
}
