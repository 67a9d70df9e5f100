//! What each construct of the format becomes; those first that the shared data does not have.

mod import_common;

use barewire_p4::ir::*;
use barewire_p4::key::MatchParam;
use barewire_p4_formats::import::import_with_notes;
use import_common::{base, doing, field, hex, op, patch, read, with};
use num_bigint::BigUint;
use serde_json::{Value, json};

fn big(value: u64) -> BigUint {
    value.into()
}

fn int(value: i64) -> Expr {
    Expr::Int(value.into())
}

fn bin(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(op, Box::new(left), Box::new(right))
}

fn scalar(program: &Program, name: &str) -> FieldRef {
    program.plain_field("scalars", name).unwrap().into()
}

/// The body of action `send` with these primitives.
fn body(primitives: Value) -> (Program, Vec<Stmt>) {
    let program = read(&doing(primitives));
    let body = program.actions[1].body.clone();
    (program, body)
}

fn assign(value: Value) -> (Program, Expr) {
    let (program, mut body) = body(json!([{"op": "assign", "parameters": [field("scalars", "a"), value]}]));
    match body.remove(0) {
        Stmt::Assign { value, .. } => (program, value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_get_the_core_ones_behind_the_files_own() {
    let errors = read(&base()).errors;
    let expected = [
        ("NoError", 0),
        ("PacketTooShort", 1),
        ("Mine", 7),
        ("NoMatch", 8),
        ("StackOutOfBounds", 9),
        ("HeaderTooShort", 10),
        ("ParserTimeout", 11),
        ("ParserInvalidArgument", 12),
    ];
    assert_eq!(errors, expected.map(|(name, number)| (name.to_owned(), number)));
}

#[test]
fn a_varbit_fields_maximum_is_what_the_header_leaves() {
    let program = read(&base());
    assert_eq!(program.header_types[3].fields[1].width, Width::Varbit(320));
    assert_eq!(program.headers[6].union, Some(UnionId(0)));
    assert_eq!(program.unions[1].member_names, ["x", "y"]);
    assert_eq!(program.union_stacks[0].elements, [UnionId(1), UnionId(2)]);
    assert_eq!(program.field("intrinsic_metadata.mcast_grp"), program.field("standard_metadata.mcast_grp"));
    assert_eq!(program.source.lines().next(), Some("{"));
}

#[test]
fn length_expressions_read_the_headers_own_fields() {
    let length = op("*", json!({"type": "local", "value": 0}), hex("0x8"));
    let mut program = with("/header_types/3/length_exp", length);
    program = patch(
        program,
        "/parsers/0/parse_states/0/parser_ops/-",
        json!({"op": "extract", "parameters": [{"type": "regular", "value": "options"}]}),
    );
    let program = read(&program);
    let own = FieldRef { header: HeaderId(3).into(), field: 0 };
    assert_eq!(program.headers[3].length_exp, Some(bin(BinaryOp::Mul, Expr::Field(own), int(8))));
    assert_eq!(program.headers[2].length_exp, None);
    assert_eq!(program.parsers[0].states[0].ops[1], ParserOp::Extract(HeaderId(3).into()));
}

#[test]
fn parser_operations() {
    let op_of = |value: Value| {
        let mut program = with("/parsers/0/parse_states/0/parser_ops/0", value);
        program = patch(program, "/header_types/3/max_length", json!(41));
        let program = read(&program);
        (program.parsers[0].states[0].ops[0].clone(), program)
    };
    let (found, _) = op_of(json!({"op": "extract_VL", "parameters": [
        {"type": "regular", "value": "options"}, {"type": "expression", "value": hex("0x10")}]}));
    assert_eq!(found, ParserOp::ExtractVarbit { header: HeaderId(3).into(), bits: int(16) });
    let (found, _) =
        op_of(json!({"op": "extract", "parameters": [{"type": "union_stack", "value": ["us", "y"]}]}));
    assert_eq!(found, ParserOp::Extract(HeaderRef::UnionStackNext(UnionStackId(0), 1)));
    let (found, _) = op_of(json!({"op": "shift", "parameters": [3]}));
    assert_eq!(found, ParserOp::Advance { bits: int(24) });
    let (found, program) = op_of(json!({"op": "advance", "parameters": [field("scalars", "a")]}));
    assert_eq!(found, ParserOp::Advance { bits: Expr::Field(scalar(&program, "a")) });
    let (found, _) = op_of(json!({"op": "verify", "parameters": [{"type": "bool", "value": false}, 7]}));
    assert_eq!(found, ParserOp::Verify { condition: Expr::Bool(false), error: int(7) });
    let (found, program) = op_of(json!({"op": "set", "parameters": [
        field("scalars", "a"), {"type": "lookahead", "value": [4, 12]}]}));
    let value = Expr::Lookahead { offset: 4, width: 12 };
    assert_eq!(found, ParserOp::Stmt(Stmt::Assign { dst: scalar(&program, "a"), value }));
    let primitive = json!({"op": "add_header", "parameters": [{"type": "header", "value": "tag[1]"}]});
    let (found, _) = op_of(json!({"op": "primitive", "parameters": [primitive]}));
    assert_eq!(found, ParserOp::Stmt(Stmt::SetValid(HeaderId(5).into())));
}

#[test]
fn transition_keys_and_values_are_padded_part_by_part() {
    let mut program = with(
        "/parsers/0/parse_states/0/transition_key",
        json!([
            {"type": "stack_field", "value": ["tag", "vid"]},
            {"type": "union_stack_field", "value": ["us", "y", "type"]},
            {"type": "lookahead", "value": [0, 3]},
            {"type": "field", "value": ["scalars", "b"]},
            {"type": "field", "value": ["ethernet", "$valid$"]}
        ]),
    );
    let transitions = json!([
        {"value": "default", "next_state": null},
        {"value": "0x0abc080007ffff01", "next_state": "tags"},
        {"type": "hexstr", "value": "0x0abc080007ffff01", "mask": "0xf0f0ffff01000100", "next_state": "tags"},
        {"type": "hexstr", "value": "0x1abc080007ffff01", "next_state": "tags"}
    ]);
    program = patch(program, "/parsers/0/parse_states/0/transitions", transitions);
    let text = serde_json::to_string(&program).unwrap();
    let (program, notes) = import_with_notes(&text).unwrap();
    let state = &program.parsers[0].states[0];
    let widths: Vec<u32> = state.key.iter().map(|(_, width)| *width).collect();
    assert_eq!(widths, [12, 16, 3, 16, 1]);
    let last = |header, field| Expr::Field(FieldRef { header, field });
    assert_eq!(state.key[0].0, last(HeaderRef::StackLast(StackId(0)), 2));
    assert_eq!(state.key[1].0, last(HeaderRef::UnionStackLast(UnionStackId(0), 1), 2));
    assert_eq!(state.key[2].0, Expr::Lookahead { offset: 0, width: 3 });
    // A signed field is compared by its bits.
    assert_eq!(state.key[3].0, bin(BinaryOp::BitAnd, Expr::Field(scalar(&program, "b")), int(0xffff)));
    let full = [(0xabc, 0xfff), (0x800, 0xffff), (7, 7), (0xffff, 0xffff), (1, 1)];
    let masked = [(0x0b0, 0x0f0), (0x800, 0xffff), (1, 1), (0x0001, 0x0001), (0, 0)];
    let parts = |list: [(u64, u64); 5]| {
        TransitionMatch::Masked(list.iter().map(|&(value, mask)| (big(value), big(mask))).collect())
    };
    assert_eq!(state.transitions.len(), 3, "one can never be taken");
    assert_eq!(state.transitions[0].when, parts(full));
    assert_eq!(state.transitions[1].when, parts(masked));
    // The default comes last, wherever it stood.
    assert_eq!(state.transitions[2].when, TransitionMatch::Default);
    assert_eq!(state.transitions[2].next, None);
    assert!(notes.iter().any(|n| n.text.contains("never taken")), "{notes:?}");
    assert_eq!(notes[0].place.path, "parsers[0].parse_states[0].transitions[3].value");
}

#[test]
fn a_state_without_default_accepts() {
    let program = read(&with("/parsers/0/parse_states/1/transitions", json!([])));
    let transitions = &program.parsers[0].states[1].transitions;
    assert_eq!(transitions.len(), 1);
    assert_eq!((&transitions[0].when, transitions[0].next), (&TransitionMatch::Default, None));
}

#[test]
fn value_sets_take_their_parts_from_the_key() {
    let key = json!([{"type": "field", "value": ["ethernet", "type"]}, {"type": "stack_field", "value": ["tag", "vid"]}]);
    let mut program = with("/parsers/0/parse_states/0/transition_key", key);
    let transitions = json!([
        {"type": "parse_vset", "value": "set", "mask": null, "next_state": "tags"},
        {"type": "parse_vset", "value": "set", "mask": "0xfff0ff0f", "next_state": "tags"}
    ]);
    program = patch(program, "/parsers/0/parse_states/0/transitions", transitions);
    program = patch(program, "/parse_vsets/-", json!({"name": "unused", "id": 1, "compressed_bitwidth": 9}));
    let program = read(&program);
    assert_eq!(program.value_sets[0].widths, [16, 12]);
    assert_eq!((program.value_sets[0].max_size, program.value_sets[1].max_size), (4, 0));
    assert_eq!(program.value_sets[1].widths, [9]);
    let set = ValueSetId(0);
    let transitions = &program.parsers[0].states[0].transitions;
    assert_eq!(transitions[0].when, TransitionMatch::ValueSet(set, None));
    assert_eq!(transitions[1].when, TransitionMatch::ValueSet(set, Some(vec![big(0xfff0), big(0xf0f)])));
}

#[test]
fn operators() {
    let (program, value) = assign(op("-", Value::Null, hex("0x1")));
    assert_eq!(value, Expr::Unary(UnaryOp::Neg, Box::new(int(1))));
    let a = || Expr::Field(scalar(&program, "a"));
    assert_eq!(assign(op("+", Value::Null, field("scalars", "a"))).1, a());
    for (name, wanted) in [
        ("+", BinaryOp::Add),
        ("-", BinaryOp::Sub),
        ("*", BinaryOp::Mul),
        ("/", BinaryOp::Div),
        ("%", BinaryOp::Rem),
        ("<<", BinaryOp::Shl),
        (">>", BinaryOp::Shr),
        ("&", BinaryOp::BitAnd),
        ("|", BinaryOp::BitOr),
        ("^", BinaryOp::BitXor),
    ] {
        assert_eq!(assign(op(name, field("scalars", "a"), hex("-0x2"))).1, bin(wanted, a(), int(-2)));
    }
    let to_int = |value| Expr::Unary(UnaryOp::BoolToInt, Box::new(value));
    let to_bool = |value| Expr::Unary(UnaryOp::IntToBool, Box::new(value));
    for (name, wanted) in [
        ("==", BinaryOp::Eq),
        ("!=", BinaryOp::Ne),
        ("<", BinaryOp::Lt),
        ("<=", BinaryOp::Le),
        (">", BinaryOp::Gt),
        (">=", BinaryOp::Ge),
    ] {
        // A truth value assigned to a field is converted.
        assert_eq!(assign(op(name, field("scalars", "a"), hex("0x2"))).1, to_int(bin(wanted, a(), int(2))));
    }
    // Fields as truth values, with and without the compiler's conversion.
    let flag = field("scalars", "flag");
    let f = || Expr::Field(scalar(&program, "flag"));
    let converted = op("d2b", Value::Null, flag.clone());
    let both = bin(BinaryOp::And, to_bool(f()), to_bool(f()));
    assert_eq!(assign(op("and", flag.clone(), converted.clone())).1, to_int(both));
    let neither = Expr::Unary(UnaryOp::Not, Box::new(to_bool(f())));
    assert_eq!(
        assign(op("b2d", Value::Null, op("not", Value::Null, flag.clone()))).1,
        to_int(neither.clone())
    );
    assert_eq!(assign(op("==", converted, json!({"type": "bool", "value": true}))).1, {
        to_int(bin(BinaryOp::Eq, to_int(to_bool(f())), int(1)))
    });
    let select = json!({"type": "expression", "value": {"op": "?", "cond": flag, "left": hex("0x1"),
        "right": {"type": "bool", "value": false}}});
    let wanted = Expr::Select(Box::new(to_bool(f())), Box::new(int(1)), Box::new(int(0)));
    assert_eq!(assign(select).1, wanted);
    let cast = |name: &str| assign(op(name, field("scalars", "a"), hex("0x8"))).1;
    assert_eq!(cast("two_comp_mod"), Expr::Wrap { value: Box::new(a()), width: 8 });
    assert_eq!(cast("usat_cast"), Expr::Saturate { value: Box::new(a()), width: 8, signed: false });
    assert_eq!(cast("sat_cast"), Expr::Saturate { value: Box::new(a()), width: 8, signed: true });
    assert_eq!(
        assign(op("~", Value::Null, field("scalars", "a"))).1,
        Expr::Unary(UnaryOp::BitNot, Box::new(a()))
    );
    assert_eq!(assign(json!({"type": "runtime_data", "value": 0})).1, Expr::Param(0));
    assert_eq!(
        assign(json!({"type": "expression", "value": {"type": "local", "value": 0}})).1,
        Expr::Param(0)
    );
    let register = json!({"type": "register", "value": ["reg", field("scalars", "a")]});
    assert_eq!(assign(register).1, Expr::Register { register: RegisterId(0), index: Box::new(a()) });
}

#[test]
fn headers_stacks_and_unions_in_expressions() {
    let header = |name: &str| json!({"type": "header", "value": name});
    let stack = json!({"type": "header_stack", "value": "tag"});
    let union = |name: &str| json!({"type": "header_union", "value": name});
    let unions = json!({"type": "header_union_stack", "value": "us"});
    let to_int = |value| Expr::Unary(UnaryOp::BoolToInt, Box::new(value));
    let valid = |id: u32| to_int(Expr::Valid(HeaderId(id).into()));
    assert_eq!(assign(op("valid", Value::Null, header("tag[1]"))).1, valid(5));
    assert_eq!(assign(field("tag[1]", "$valid$")).1, valid(5));
    let whole = to_int(Expr::UnionValid(UnionRef::Union(UnionId(0))));
    assert_eq!(assign(op("valid_union", Value::Null, union("u"))).1, whole);
    let last = bin(BinaryOp::Sub, Expr::StackSize(StackId(0)), int(1));
    let last = bin(BinaryOp::BitAnd, last, Expr::Int(u64::MAX.into()));
    assert_eq!(assign(op("last_stack_index", Value::Null, stack.clone())).1, last);
    assert_eq!(assign(op("size_stack", stack.clone(), Value::Null)).1, Expr::StackSize(StackId(0)));
    let (program, value) = assign(json!({"type": "stack_field", "value": ["tag", "vid"]}));
    assert_eq!(value, Expr::Field(FieldRef { header: HeaderRef::StackLast(StackId(0)), field: 2 }));

    let at = |index: Value| op("dereference_header_stack", stack.clone(), index);
    let vid = |index: Value| assign(op("access_field", at(index), json!(2))).1;
    // A constant index is an instance; any other is worked out with the packet.
    assert_eq!(vid(hex("0x1")), Expr::Field(FieldRef { header: HeaderId(5).into(), field: 2 }));
    let computed = |index| HeaderRef::StackElement(StackId(0), Box::new(index));
    let a = Expr::Field(scalar(&program, "a"));
    assert_eq!(vid(field("scalars", "a")), Expr::Field(FieldRef { header: computed(a.clone()), field: 2 }));
    assert_eq!(vid(hex("0x2")), Expr::Field(FieldRef { header: computed(int(2)), field: 2 }));
    // bmv2's hidden field behind the others is the validity.
    let hidden = assign(op("access_field", at(field("scalars", "a")), json!(3))).1;
    assert_eq!(hidden, to_int(Expr::Valid(computed(a.clone()))));
    // p4c's other form of the same.
    let inner = json!({"op": "dereference_header_stack", "left": stack, "right": field("scalars", "a")});
    assert_eq!(assign(json!({"type": "field", "value": [inner, "$valid$"]})).1, hidden);

    let element = |index: Value| op("dereference_union_stack", unions.clone(), index);
    let member =
        |index: Value| op("access_field", op("access_union_header", element(index), json!(1)), json!(2));
    assert_eq!(assign(member(hex("0x1"))).1, Expr::Field(FieldRef { header: HeaderId(11).into(), field: 2 }));
    let header = HeaderRef::UnionStackElement(UnionStackId(0), Box::new(a), 1);
    assert_eq!(assign(member(field("scalars", "a"))).1, Expr::Field(FieldRef { header, field: 2 }));

    let tag = |id: u32| HeaderRef::Header(HeaderId(id));
    let header = |name: &str| json!({"type": "header", "value": name});
    let equal = Expr::HeadersEqual(tag(4), tag(6));
    let both_valid = |valid: Expr, equal: Expr| bin(BinaryOp::And, valid, equal);
    let equal = both_valid(Expr::Valid(HeaderId(4).into()), equal);
    assert_eq!(assign(op("==", header("tag[0]"), header("u.x"))).1, to_int(equal.clone()));
    let unequal = Expr::Unary(UnaryOp::Not, Box::new(equal));
    assert_eq!(assign(op("!=", header("tag[0]"), header("u.x"))).1, to_int(unequal));
    let equal = Expr::UnionsEqual(UnionRef::Union(UnionId(0)), UnionRef::Union(UnionId(1)));
    let equal = both_valid(Expr::UnionValid(UnionRef::Union(UnionId(0))), equal);
    assert_eq!(assign(op("==", union("u"), union("us[0]"))).1, to_int(equal));
}

#[test]
fn primitives_of_p4_14() {
    let (program, found) = body(json!([
        {"op": "modify_field", "parameters": [field("scalars", "a"), hex("0x12"), hex("0xf0")]},
        {"op": "add_to_field", "parameters": [field("scalars", "a"), hex("-0x1")]},
        {"op": "subtract_from_field", "parameters": [field("scalars", "a"), hex("0x2")]},
        {"op": "shift_left", "parameters": [field("scalars", "a"), field("scalars", "c"), hex("0x3")]},
        {"op": "bit_xor", "parameters": [field("scalars", "a"), field("scalars", "c"), hex("0x4")]},
        {"op": "modify_field", "parameters": [{"type": "register", "value": ["reg", hex("0x5")]}, hex("0x6")]},
        {"op": "drop", "parameters": []},
        {"op": "no_op", "parameters": []},
        {"op": "truncate", "parameters": [{"type": "runtime_data", "value": 0}]},
        {"op": "generate_digest", "parameters": [hex("0x400"), hex("0x1")]},
        {"op": "resubmit", "parameters": [hex("0x1")]},
        {"op": "recirculate", "parameters": [hex("0x0")]},
        {"op": "clone_ingress_pkt_to_egress", "parameters": [hex("0xfa"), hex("0x1")]},
        {"op": "clone_egress_pkt_to_egress", "parameters": [hex("0xfa"), hex("0x0")]},
        {"op": "copy_header", "parameters": [
            {"type": "header", "value": "tag[1]"}, {"type": "header", "value": "tag[0]"}]},
        {"op": "push", "parameters": [{"type": "header_stack", "value": "tag"}, hex("0x1")]},
        {"op": "pop", "parameters": [{"type": "header_union_stack", "value": "us"}, hex("0x2")]},
        {"op": "modify_field_rng_uniform", "parameters": [field("scalars", "a"), hex("0x1"), hex("0x9")]},
        {"op": "modify_field_with_hash_based_offset", "parameters": [
            field("scalars", "a"), hex("0x10"), {"type": "calculation", "value": "calc"}, hex("0x100")]},
        {"op": "execute_meter", "parameters": [
            {"type": "meter_array", "value": "meter"}, hex("0x7"), field("scalars", "c")]},
        {"op": "register_read", "parameters": [
            field("scalars", "wide"), {"type": "register_array", "value": "reg"}, hex("0x3")]}
    ]));
    let a = || scalar(&program, "a");
    let value = |name: &str| Expr::Field(scalar(&program, name));
    let set = |value| Stmt::Assign { dst: a(), value };
    let not_mask = Expr::Unary(UnaryOp::BitNot, Box::new(int(0xf0)));
    let kept = bin(BinaryOp::BitAnd, value("a"), not_mask);
    let fields = Some(FieldListId(0));
    let calculation = HashSource::Calculation(CalculationId(0));
    let expected = [
        set(bin(BinaryOp::BitOr, kept, bin(BinaryOp::BitAnd, int(0x12), int(0xf0)))),
        set(bin(BinaryOp::Add, value("a"), int(-1))),
        set(bin(BinaryOp::Sub, value("a"), int(2))),
        set(bin(BinaryOp::Shl, value("c"), int(3))),
        set(bin(BinaryOp::BitXor, value("c"), int(4))),
        Stmt::RegisterWrite { register: RegisterId(0), index: int(5), value: int(6) },
        Stmt::MarkToDrop {
            egress_spec: program.field("standard_metadata.egress_spec"),
            mcast_grp: program.field("intrinsic_metadata.mcast_grp"),
        },
        Stmt::NoOp,
        Stmt::Truncate { len: Expr::Param(0) },
        Stmt::Digest { list: LearnListId(0) },
        Stmt::Resubmit { fields },
        // Number 0 asks for nothing in bmv2.
        Stmt::NoOp,
        Stmt::CloneIngress { session: int(0xfa), fields },
        Stmt::CloneEgress { session: int(0xfa), fields: None },
        Stmt::CopyHeader { dst: HeaderId(5).into(), src: HeaderId(4).into() },
        Stmt::Push { stack: StackId(0), count: 1 },
        Stmt::PopUnions { stack: UnionStackId(0), count: 2 },
        Stmt::Random { dst: a(), low: int(1), high: int(9) },
        Stmt::Hash { dst: a(), source: calculation, base: Some(int(16)), max: Some(int(256)) },
        Stmt::Meter { meter: MeterId(0), index: int(7), precolor: None, dst: Some(scalar(&program, "c")) },
        Stmt::RegisterRead { dst: scalar(&program, "wide"), register: RegisterId(0), index: int(3) },
    ];
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}

#[test]
fn primitives_of_p4_16() {
    let header = |name: &str| json!({"type": "header", "value": name});
    let (program, found) = body(json!([
        {"op": "mark_to_drop", "parameters": [header("standard_metadata")]},
        {"op": "assert", "parameters": [op("b2d", Value::Null, op("valid", Value::Null, header("ethernet")))]},
        {"op": "assume", "parameters": [{"type": "bool", "value": true}]},
        {"op": "log_msg", "parameters": [{"type": "string", "value": "x {}"},
            {"type": "parameters_vector", "value": [hex("0x1"), op("valid", Value::Null, header("ethernet"))]}]},
        {"op": "log_msg", "parameters": [{"type": "string", "value": "y"}, {"type": "parameters_vector", "value": {}}]},
        {"op": "assign_union", "parameters": [
            {"type": "header_union", "value": "u"}, {"type": "header_union", "value": "us[1]"}]},
        {"op": "assign_header_stack", "parameters": [
            {"type": "header_stack", "value": "tag"}, {"type": "header_stack", "value": "tag"}]},
        {"op": "assign_union_stack", "parameters": [
            {"type": "header_union_stack", "value": "us"}, {"type": "header_union_stack", "value": "us"}]},
        {"op": "count", "parameters": [{"type": "counter_array", "value": "counter"}, hex("0x1")]},
        {"op": "exit", "parameters": []}
    ]));
    let valid = Expr::Valid(HeaderId(2).into());
    let number = Expr::Unary(UnaryOp::BoolToInt, Box::new(valid.clone()));
    let expected = [
        // The fields of the header that is marked, whatever they are known as elsewhere.
        Stmt::MarkToDrop {
            egress_spec: program.plain_field("standard_metadata", "egress_spec"),
            mcast_grp: program.plain_field("standard_metadata", "mcast_grp"),
        },
        Stmt::Assert(valid),
        Stmt::Assume(Expr::Bool(true)),
        Stmt::Log { format: "x {}".into(), args: vec![int(1), number] },
        Stmt::Log { format: "y".into(), args: vec![] },
        Stmt::CopyUnion { dst: UnionRef::Union(UnionId(0)), src: UnionRef::Union(UnionId(2)) },
        Stmt::CopyStack { dst: StackId(0), src: StackId(0) },
        Stmt::CopyUnionStack { dst: UnionStackId(0), src: UnionStackId(0) },
        Stmt::Count { counter: CounterId(0), index: int(1) },
        Stmt::Exit,
    ];
    assert_eq!(found, expected);
}

#[test]
fn jumps_count_statements_where_the_file_counts_primitives() {
    let mut program = doing(json!([
        {"op": "_jump_if_zero", "parameters": [field("scalars", "flag"), hex("0x3")]},
        {"op": "_Meter_execute", "parameters": [{"type": "extern", "value": "m"}, hex("0x0"), field("scalars", "c")]},
        {"op": "_jump", "parameters": [hex("0x0")]},
        {"op": "exit", "parameters": []},
        {"op": "_jump", "parameters": [hex("0x5")]}
    ]));
    program = patch(
        program,
        "/extern_instances",
        json!([{"name": "m", "id": 0, "type": "Meter", "attribute_values": [
            {"name": "is_direct", "type": "hexstr", "value": 0}, {"name": "n_meters", "type": "hexstr", "value": "0x4"},
            {"name": "rate_count", "type": "hexstr", "value": 2}, {"name": "type", "type": "string", "value": "bytes"}]}]),
    );
    let program = read(&program);
    let body = &program.actions[1].body;
    let c = scalar(&program, "c");
    let condition = Expr::Unary(UnaryOp::IntToBool, Box::new(Expr::Field(scalar(&program, "flag"))));
    // The meter takes two statements: its colour is renumbered as PSA wants it.
    assert_eq!(body[0], Stmt::JumpUnless { condition, target: 4 });
    assert_eq!(
        body[1],
        Stmt::Meter { meter: MeterId(2), index: int(0), precolor: None, dst: Some(c.clone()) }
    );
    assert!(matches!(&body[2], Stmt::Assign { dst, value: Expr::Select(..) } if *dst == c));
    assert_eq!(body[3..], [Stmt::Jump(0), Stmt::Exit, Stmt::Jump(6)]);
    let meter = &program.meters[2];
    assert_eq!((meter.id, meter.size, meter.unit, meter.rate_count), (2, 4, MeterUnit::Bytes, 2));
}

#[test]
fn psa_externs() {
    let list = |value: Value| json!({"type": "field_list", "value": value});
    let instance = |name: &str| json!({"type": "extern", "value": name});
    let mut program = doing(json!([
        {"op": "_Counter_count", "parameters": [instance("counter"), hex("0x1")]},
        {"op": "_Counter_count", "parameters": [instance("other"), hex("0x2")]},
        {"op": "_Random_read", "parameters": [instance("r"), field("scalars", "a")]},
        {"op": "_Hash_get_hash", "parameters": [instance("h"), field("scalars", "a"),
            list(json!({"type": "header", "value": "tag[0]"}))]},
        {"op": "_Hash_get_hash_mod", "parameters": [instance("h"), field("scalars", "a"), hex("0x2"),
            list(json!([field("scalars", "flag"), field("scalars", "c")])), hex("0x20")]},
        {"op": "_InternetChecksum_clear", "parameters": [instance("ck")]},
        {"op": "_InternetChecksum_add", "parameters": [instance("ck"), list(json!([field("scalars", "c")]))]},
        {"op": "_InternetChecksum_subtract", "parameters": [instance("ck"), list(json!([field("scalars", "a")]))]},
        {"op": "_InternetChecksum_get", "parameters": [instance("ck"), field("scalars", "a")]},
        {"op": "_InternetChecksum_get_state", "parameters": [instance("ck"), field("scalars", "a")]},
        {"op": "_InternetChecksum_set_state", "parameters": [instance("ck"), field("scalars", "a")]},
        {"op": "_InternetChecksum_get_verify", "parameters": [
            instance("ck"), field("scalars", "flag"), field("scalars", "a")]}
    ]));
    let attribute = |name: &str, value: &str| json!({"name": name, "type": "hexstr", "value": value});
    let instances = json!([
        {"name": "counter", "id": 0, "type": "Counter", "attribute_values": [attribute("n_counters", "0x8")]},
        {"name": "other", "id": 1, "type": "Counter", "attribute_values": [attribute("n_counters", "0x200")]},
        {"name": "h", "id": 2, "type": "Hash", "attribute_values": [
            {"name": "algo", "type": "string", "value": "crc32"}]},
        {"name": "ck", "id": 3, "type": "InternetChecksum"},
        {"name": "r", "id": 4, "type": "Random", "attribute_values": [
            attribute("min", "0x5"), attribute("max", "0x9")]}
    ]);
    program = patch(program, "/extern_instances", instances);
    let program = read(&program);
    let a = scalar(&program, "a");
    let part = |header: u32, field: u32, width| {
        let value = Expr::Field(FieldRef { header: HeaderId(header).into(), field });
        CalcInput::Expr { value, width }
    };
    let pad = |width| CalcInput::Const { value: BigUint::ZERO, width };
    let hash = |input| HashSource::Inline { algorithm: HashAlgorithm::Crc32, input };
    let unit = ChecksumUnitId(0);
    let mixed = vec![pad(7), part(1, 2, 1), part(1, 4, 8)];
    let expected = [
        // A counter declared both ways is one counter.
        Stmt::Count { counter: CounterId(0), index: int(1) },
        Stmt::Count { counter: CounterId(2), index: int(2) },
        Stmt::Random { dst: a.clone(), low: int(5), high: int(9) },
        Stmt::Hash {
            dst: a.clone(),
            source: hash(vec![part(4, 0, 3), part(4, 1, 1), part(4, 2, 12)]),
            base: None,
            max: None,
        },
        // Padding stands on the left.
        Stmt::Hash { dst: a.clone(), source: hash(mixed), base: Some(int(2)), max: Some(int(32)) },
        Stmt::ChecksumClear(unit),
        Stmt::ChecksumAdd { unit, input: vec![pad(8), part(1, 4, 8)] },
        Stmt::ChecksumSubtract { unit, input: vec![part(1, 0, 16)] },
        Stmt::ChecksumGet { unit, dst: a.clone() },
        Stmt::ChecksumGetState { unit, dst: a.clone() },
        Stmt::ChecksumSetState { unit, value: Expr::Field(a.clone()) },
        Stmt::ChecksumVerify { unit, dst: scalar(&program, "flag"), equals: Expr::Field(a) },
    ];
    assert_eq!(program.actions[1].body, expected);
    assert_eq!((program.counters[2].name.as_str(), program.counters[2].size), ("other", 512));
    assert_ne!(program.counters[2].id, program.counters[1].id);
}

#[test]
fn saturating_fields_and_metadata_copies() {
    let mut program = doing(json!([
        {"op": "assign", "parameters": [field("scalars", "a"), hex("0x1ffff")]},
        {"op": "assign_header", "parameters": [
            {"type": "header", "value": "m"}, {"type": "header", "value": "tag[0]"}]}
    ]));
    program = patch(program, "/header_types/1/fields/0", json!(["a", 16, true, true]));
    program = patch(
        program,
        "/headers/-",
        json!({"name": "m", "id": 20, "header_type": "tag_t", "metadata": true}),
    );
    let program = read(&program);
    let value = Expr::Saturate { value: Box::new(int(0x1_ffff)), width: 16, signed: true };
    let body = &program.actions[1].body;
    assert_eq!(body[0], Stmt::Assign { dst: scalar(&program, "a"), value });
    assert_eq!(body.len(), 4);
    let part = |header: u32, field| FieldRef { header: HeaderId(header).into(), field };
    assert_eq!(body[3], Stmt::Assign { dst: part(12, 2), value: Expr::Field(part(4, 2)) });
}

#[test]
fn tables() {
    let program = read(&base());
    let table = &program.tables[0];
    assert_eq!((table.kind, table.max_size, table.key.len()), (TableKind::Ternary, 64, 2));
    assert_eq!(table.key[1].name, "dst");
    assert_eq!(table.default, Some(ActionCall { action: ActionId(0), args: vec![] }));
    let counter = &program.counters[table.counter.unwrap().at()];
    assert_eq!((counter.name.as_str(), counter.size, counter.direct), ("hits", 64, Some(TableId(0))));
    let meter = &program.meters[table.meter.unwrap().at()];
    assert_eq!((meter.size, meter.direct, meter.unit), (64, Some(TableId(0)), MeterUnit::Bytes));
    assert_eq!(meter.result, Some(scalar(&program, "c")));
    let ingress = &program.pipelines[0];
    assert_eq!(ingress.start, Some(NodeId(0)));
    let by_action = vec![(ActionId(0), Some(NodeId(1))), (ActionId(1), None)];
    let next = NextNode::ByAction { by_action, default: Some(NodeId(1)) };
    assert!(matches!(&ingress.nodes[0], Node::Table { table: TableId(0), next: n } if *n == next));
    assert!(matches!(&ingress.nodes[1], Node::If { then: Some(NodeId(2)), otherwise: None, .. }));
    assert!(matches!(&ingress.nodes[2], Node::Call { action: ActionId(0), next: None, .. }));
    assert_eq!(program.pipelines[1].start, None);

    let hit = json!({"__HIT__": "node", "__MISS__": null});
    let program = read(&with("/pipelines/0/tables/0/next_tables", hit));
    let next = NextNode::ByHit { hit: Some(NodeId(1)), miss: None };
    assert!(matches!(&program.pipelines[0].nodes[0], Node::Table { next: n, .. } if *n == next));
}

#[test]
fn keys_of_all_kinds() {
    let index = op(
        "access_field",
        op(
            "dereference_header_stack",
            json!({"type": "header_stack", "value": "tag"}),
            field("scalars", "a"),
        ),
        json!(2),
    );
    let mut program = with(
        "/pipelines/0/tables/0/key",
        json!([
            {"match_type": "valid", "target": "ethernet"},
            {"match_type": "exact", "target": ["tag[0]", "$valid$"], "mask": null},
            {"match_type": "lpm", "name": "prefix", "target": ["scalars", "wide"]},
            {"match_type": "range", "target": ["scalars", "a"]},
            {"match_type": "optional", "name": "o", "target": ["scalars", "c"], "mask": "0x0f"},
            {"match_type": "exact", "name": "element", "target": index}
        ]),
    );
    program = patch(program, "/pipelines/0/tables/0/match_type", json!("range"));
    let key = json!([
        {"match_type": "valid", "key": true},
        {"match_type": "exact", "key": "0x01"},
        {"match_type": "lpm", "key": "0xffffffffffffffffffffffffffffffff", "prefix_length": 3},
        {"match_type": "range", "start": "0x0005", "end": "0xffff"},
        {"match_type": "optional"},
        {"match_type": "exact", "key": "0x0abc"}
    ]);
    let call = json!({"action_id": 1, "action_data": ["0x3ff"]});
    let entries = json!([{"match_key": key, "action_entry": call}, {"match_key": key, "action_entry": call}]);
    let program = read(&patch(program, "/pipelines/0/tables/0/entries", entries));
    let table = &program.tables[0];
    let names: Vec<&str> = table.key.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(names, ["ethernet", "tag[0].$valid$", "prefix", "scalars.a", "o", "element"]);
    let widths: Vec<u32> = table.key.iter().map(|k| k.width).collect();
    assert_eq!(widths, [1, 1, 128, 16, 8, 12]);
    assert_eq!(table.key[0].source, KeySource::Valid(HeaderId(2).into()));
    assert_eq!(table.key[1].source, KeySource::Valid(HeaderId(4).into()));
    assert_eq!(table.key[4].mask, Some(big(0x0f)));
    assert!(matches!(
        &table.key[5].source,
        KeySource::Field(FieldRef { header: HeaderRef::StackElement(..), .. })
    ));
    let high = big(7) << 125;
    let zero = || BigUint::ZERO;
    assert_eq!(
        table.entries[0].key,
        [
            MatchParam::Valid(true),
            MatchParam::Exact(big(1)),
            MatchParam::Lpm { value: high, prefix_len: 3 },
            MatchParam::Range { low: big(5), high: big(0xffff) },
            MatchParam::Ternary { value: zero(), mask: zero() },
            MatchParam::Exact(big(0xabc)),
        ]
    );
    // Without priorities the first entry wins; arguments keep their low bits.
    assert_eq!((table.entries[0].priority, table.entries[1].priority), (1, 2));
    assert_eq!(table.entries[0].call.args, [big(0x1ff)]);
    assert!(table.immutable);
}

#[test]
fn action_profiles_and_selectors() {
    let mut program = with(
        "/pipelines/0/action_profiles",
        json!([{"name": "profile", "id": 3, "max_size": 128, "selector": {
            "algo": "toeplitz", "input": [{"type": "field", "value": ["ethernet", "src"]}]}}]),
    );
    program = patch(program, "/pipelines/0/tables/0/type", json!("indirect_ws"));
    program = patch(program, "/pipelines/0/tables/0/action_profile", json!("profile"));
    let read_program = read(&program);
    assert_eq!(read_program.tables[0].source, TableActions::Profile(ProfileId(0)));
    let profile = &read_program.profiles[0];
    assert_eq!((profile.id, profile.max_size), (3, 128));
    let selector = profile.selector.as_ref().unwrap();
    assert_eq!(selector.algorithm, HashAlgorithm::Toeplitz);
    let source = FieldRef { header: HeaderId(2).into(), field: 1 };
    assert_eq!(selector.input, [CalcInput::Field(source)]);

    // The older form, in which the table declares the profile.
    let mut program = with("/pipelines/0/tables/0/type", json!("indirect_ws"));
    program = patch(program, "/pipelines/0/tables/0/act_prof_name", json!("own"));
    let selector = json!({"algo": "crc_32c", "input": []});
    program = patch(program, "/pipelines/0/tables/0/selector", selector);
    let program = read(&program);
    assert_eq!((program.profiles[0].name.as_str(), program.profiles[0].max_size), ("own", 64));
    let algorithm = program.profiles[0].selector.as_ref().unwrap().algorithm;
    assert!(matches!(algorithm, HashAlgorithm::Crc(crc) if crc.polynomial == 0x1edc_6f41));
}

#[test]
fn hash_algorithms_by_name() {
    let algorithm = |name: &str| read(&with("/calculations/0/algo", json!(name))).calculations[0].algorithm;
    for (name, wanted) in [
        ("crc16", HashAlgorithm::Crc16),
        ("crc32_custom", HashAlgorithm::Crc32Custom),
        ("cksum16", HashAlgorithm::Csum16),
        ("csum16", HashAlgorithm::Csum16),
        ("crcCCITT", HashAlgorithm::CrcCcitt),
        ("identity", HashAlgorithm::Identity),
        ("xxh64", HashAlgorithm::Xxh64),
        ("round_robin_consistent", HashAlgorithm::RoundRobinConsistent),
        ("random", HashAlgorithm::Random),
    ] {
        assert_eq!(algorithm(name), wanted);
    }
    let crc = CrcParameters {
        width: 16,
        polynomial: 0x1021,
        initial: 0xffff,
        final_xor: 0,
        reflect_data: false,
        reflect_remainder: false,
    };
    assert_eq!(algorithm("poly_0x11021_init_0xffff_not_rev"), HashAlgorithm::Crc(crc));
    assert_eq!(algorithm("crc_ccitt_false"), HashAlgorithm::Crc(crc));
}

#[test]
fn checksums() {
    let inputs = json!([
        {"type": "field", "value": ["ethernet", "dst"]},
        {"type": "hexstr", "value": "0x00ab", "bitwidth": 12},
        {"type": "header", "value": "options"},
        {"type": "payload"}
    ]);
    let mut program = with("/calculations/0/input", inputs);
    let condition = op("valid", Value::Null, json!({"type": "header", "value": "ethernet"}));
    program = patch(
        program,
        "/checksums",
        json!([
            {"name": "old", "id": 0, "target": ["ethernet", "type"], "type": "generic", "calculation": "calc"},
            {"name": "new", "id": 1, "target": ["ethernet", "type"], "type": "generic", "calculation": "calc",
             "if_cond": condition, "verify": false, "update": true},
            {"name": "ip", "id": 2, "target": ["ethernet", "type"], "type": "ipv4"}
        ]),
    );
    let program = read(&program);
    let input = &program.calculations[0].input;
    assert_eq!(input[1], CalcInput::Const { value: big(0xab), width: 12 });
    assert_eq!(input[2], CalcInput::Header(HeaderId(3).into()));
    assert_eq!(input[3], CalcInput::Payload);
    // Files without the switches mean both.
    let [old, new, ip] = &program.checksums[..] else { panic!() };
    assert_eq!((old.verify, old.update, &old.condition), (true, true, &None));
    assert_eq!((new.verify, new.update), (false, true));
    assert_eq!(new.condition, Some(Expr::Valid(HeaderId(2).into())));
    let own = &program.calculations[ip.calculation.at()];
    assert_eq!((own.algorithm, own.input.len()), (HashAlgorithm::Csum16, 2));
}
