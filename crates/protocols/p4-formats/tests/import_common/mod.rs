//! A small program by hand, for tests to change.
#![allow(dead_code)]

use barewire_p4::ir::Program;
use barewire_p4_formats::import::{ImportError, import};
use serde_json::{Value, json};

/// v1model: Ethernet, options with a varbit field, a stack, a union, a stack of unions; one table in ingress.
pub fn base() -> Value {
    serde_json::from_str(BASE).expect("the base is JSON")
}

/// The base with one value replaced, by its JSON pointer (`-` at the end appends to an array).
pub fn with(pointer: &str, value: Value) -> Value {
    patch(base(), pointer, value)
}

/// Replace one value.
pub fn patch(mut program: Value, pointer: &str, value: Value) -> Value {
    let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
    match program.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = value,
        Value::Object(members) => {
            members.insert(last.to_owned(), value);
        }
        other => panic!("{parent} is {other}"),
    }
    program
}

/// Remove a member of an object.
pub fn without(pointer: &str) -> Value {
    let mut program = base();
    let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
    let removed = program.pointer_mut(parent).and_then(Value::as_object_mut).and_then(|o| o.remove(last));
    assert!(removed.is_some(), "no {pointer}");
    program
}

/// Read it, panicking with the refusal.
pub fn read(program: &Value) -> Program {
    import(&serde_json::to_string_pretty(program).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

/// The refusal, panicking if there is none.
pub fn refusal(program: &Value) -> ImportError {
    import(&serde_json::to_string_pretty(program).unwrap()).map(|_| ()).expect_err("this must be refused")
}

/// The base with the primitives of action `send`.
pub fn doing(primitives: Value) -> Value {
    with("/actions/1/primitives", primitives)
}

/// An operand.
pub fn field(header: &str, name: &str) -> Value {
    json!({"type": "field", "value": [header, name]})
}

/// An operand.
pub fn hex(text: &str) -> Value {
    json!({"type": "hexstr", "value": text})
}

/// An operation as an operand.
pub fn op(name: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": name, "left": left, "right": right}})
}

const BASE: &str = include_str!("small.json");
