//! Programs of v1model made from a grammar, lowered and run: beside an evaluation of the same program by the rules of the
//! language alone, beside the JSON that is written of it, and beside machine code.

use barewire_p4::engine::Engine;
use barewire_p4::interp::Interpreter;
use barewire_p4::ir::Program;
use barewire_p4::phv::slot;
use barewire_p4_formats::export::export;
use barewire_p4_formats::import::import;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use barewire_p4_state::ProgramState;
use std::fmt::Write as _;
use std::sync::Arc;

/// Places and their widths; the last three are a function's parameters and a loop's variable.
const PLACES: [(&str, u32); 12] = [
    ("h.h.a", 8),
    ("h.h.b", 16),
    ("h.h.c", 8),
    ("m.x", 8),
    ("m.y", 16),
    ("m.v", 8),
    ("m.w", 16),
    ("t", 8),
    ("u", 16),
    ("p", 8),
    ("q", 8),
    ("i", 8),
];
const P: usize = 9;
const Q: usize = 10;
const I: usize = 11;

/// Nodes a program may have.
const NODES_MAX: u32 = 400;

enum Num {
    Literal(u64, u32),
    Place(usize),
    Binary(&'static str, Box<Num>, Box<Num>),
    Unary(&'static str, Box<Num>),
    Shift(&'static str, Box<Num>, u32),
    Choice(Box<Truth>, Box<Num>, Box<Num>),
    /// Eight bits of sixteen.
    Slice(Box<Num>, u32),
    Concat(Box<Num>, Box<Num>),
    Cast(Box<Num>, u32),
    /// `f(place, value)`, which changes the place.
    Call(usize, Box<Num>),
}

enum Truth {
    Known(bool),
    Compare(&'static str, Box<Num>, Box<Num>),
    Both(Box<Truth>, Box<Truth>),
    Either(Box<Truth>, Box<Truth>),
    Not(Box<Truth>),
    Valid,
}

enum Step {
    Assign(usize, Num),
    Bits(usize, u32, u32, Num),
    If(Truth, Vec<Step>, Vec<Step>),
    Switch(Num, Vec<(u64, Vec<Step>)>, Vec<Step>),
    Range(u64, u64, Vec<Step>),
    /// Rounds up to a number, counted by the loop's variable.
    For(Num, Vec<Step>),
    Call(usize, Num),
    SetValid(bool),
    Exit,
    Return,
    Break,
    Continue,
}

struct Maker<'a> {
    data: std::slice::Iter<'a, u8>,
    nodes: u32,
    in_function: bool,
    in_loop: bool,
}

impl Maker<'_> {
    fn byte(&mut self) -> u8 {
        self.nodes += 1;
        self.data.next().copied().unwrap_or(0)
    }

    fn place(&mut self, width: u32) -> usize {
        let (function, in_loop) = (self.in_function, self.in_loop);
        let fits = |at: &usize| {
            let mine = if function { *at == P || *at == Q } else { *at < P || (*at == I && in_loop) };
            mine && PLACES[*at].1 == width
        };
        let all: Vec<usize> = (0..PLACES.len()).filter(fits).collect();
        all[usize::from(self.byte()) % all.len()]
    }

    /// A place that may be written: no loop's variable, no `in` parameter.
    fn target(&mut self, width: u32) -> usize {
        match self.place(width) {
            I => 0,
            Q => P,
            place => place,
        }
    }

    fn width(&mut self) -> u32 {
        if self.in_function || self.byte().is_multiple_of(2) { 8 } else { 16 }
    }

    fn literal(&mut self, width: u32) -> u64 {
        let byte = self.byte();
        match byte % 5 {
            0 => 0,
            1 => (1 << width) - 1,
            2 => 1 << (width - 1),
            _ => u64::from(byte) & ((1 << width) - 1),
        }
    }

    fn num(&mut self, width: u32, depth: u32) -> Num {
        let kind = self.byte() % 16;
        if depth == 0 || self.nodes > NODES_MAX {
            return if kind.is_multiple_of(3) {
                Num::Literal(self.literal(width), width)
            } else {
                Num::Place(self.place(width))
            };
        }
        let d = depth - 1;
        match kind {
            0 => Num::Literal(self.literal(width), width),
            1..=3 => Num::Place(self.place(width)),
            4..=8 => {
                let ops = ["+", "-", "*", "&", "|", "^", "|+|", "|-|"];
                let op = ops[usize::from(self.byte()) % ops.len()];
                let left = Box::new(self.num(width, d));
                Num::Binary(op, left, Box::new(self.num(width, d)))
            }
            9 => {
                let op = if self.byte().is_multiple_of(2) { "~" } else { "-" };
                Num::Unary(op, Box::new(self.num(width, d)))
            }
            10 => {
                let op = if self.byte().is_multiple_of(2) { "<<" } else { ">>" };
                let by = u32::from(self.byte() % 20);
                Num::Shift(op, Box::new(self.num(width, d)), by)
            }
            11 => {
                let condition = Box::new(self.truth(d));
                let then = Box::new(self.num(width, d));
                Num::Choice(condition, then, Box::new(self.num(width, d)))
            }
            12 if width == 8 && !self.in_function => {
                let low = u32::from(self.byte() % 9);
                Num::Slice(Box::new(self.num(16, d)), low)
            }
            12 if width == 16 => {
                let high = Box::new(self.num(8, d));
                Num::Concat(high, Box::new(self.num(8, d)))
            }
            13 if !self.in_function => Num::Cast(Box::new(self.num(24 - width, d)), width),
            14 | 15 if width == 8 && !self.in_function => {
                let place = self.target(8);
                Num::Call(place, Box::new(self.num(8, d)))
            }
            _ => Num::Place(self.place(width)),
        }
    }

    fn truth(&mut self, depth: u32) -> Truth {
        let kind = self.byte() % 8;
        if depth == 0 || self.nodes > NODES_MAX {
            return Truth::Known(kind.is_multiple_of(2));
        }
        let d = depth - 1;
        match kind {
            0..=3 => {
                let ops = ["==", "!=", "<", "<=", ">", ">="];
                let op = ops[usize::from(self.byte()) % ops.len()];
                let width = self.width();
                let left = Box::new(self.num(width, d));
                Truth::Compare(op, left, Box::new(self.num(width, d)))
            }
            4 => Truth::Both(Box::new(self.truth(d)), Box::new(self.truth(d))),
            5 => Truth::Either(Box::new(self.truth(d)), Box::new(self.truth(d))),
            6 => Truth::Not(Box::new(self.truth(d))),
            _ if self.in_function => Truth::Known(true),
            _ => Truth::Valid,
        }
    }

    fn steps(&mut self, depth: u32) -> Vec<Step> {
        let count = 1 + self.byte() % 4;
        (0..count).map(|_| self.step(depth)).collect()
    }

    fn step(&mut self, depth: u32) -> Step {
        let kind = self.byte() % 20;
        let nested = depth > 0 && self.nodes < NODES_MAX;
        match kind {
            6 | 7 => {
                let width = self.width();
                let place = self.target(width);
                let low = u32::from(self.byte()) % width;
                let high = (low + u32::from(self.byte() % 8)).min(width - 1);
                let value = self.num(width, 2);
                Step::Bits(place, high, low, value)
            }
            8..=10 if nested => {
                let condition = self.truth(3);
                let then = self.steps(depth - 1);
                let otherwise =
                    if self.byte().is_multiple_of(2) { self.steps(depth - 1) } else { Vec::new() };
                Step::If(condition, then, otherwise)
            }
            11 if nested => {
                let subject = self.num(8, 2);
                let mut cases: Vec<(u64, Vec<Step>)> = Vec::new();
                for _ in 0..=self.byte() % 3 {
                    let label = self.literal(8);
                    if cases.iter().all(|(known, _)| *known != label) {
                        let steps = self.steps(depth - 1);
                        cases.push((label, steps));
                    }
                }
                Step::Switch(subject, cases, self.steps(depth - 1))
            }
            12 | 13 if nested && !self.in_loop && !self.in_function => {
                self.in_loop = true;
                let first = u64::from(self.byte() % 4);
                let last = u64::from(self.byte() % 6);
                let body = self.steps(depth - 1);
                self.in_loop = false;
                Step::Range(first, last, body)
            }
            14 | 15 if nested && !self.in_loop && !self.in_function => {
                self.in_loop = true;
                let bound = self.num(8, 1);
                let body = self.steps(depth - 1);
                self.in_loop = false;
                Step::For(bound, body)
            }
            16 if !self.in_function => {
                let place = self.target(8);
                Step::Call(place, self.num(8, 2))
            }
            17 if !self.in_function => Step::SetValid(self.byte().is_multiple_of(2)),
            18 if self.in_loop => {
                if self.byte().is_multiple_of(2) {
                    Step::Break
                } else {
                    Step::Continue
                }
            }
            19 if depth < 3 => {
                if self.in_function || self.byte().is_multiple_of(2) {
                    Step::Return
                } else {
                    Step::Exit
                }
            }
            _ => {
                let width = self.width();
                let place = self.target(width);
                Step::Assign(place, self.num(width, 4))
            }
        }
    }
}

// ---- as text ------------------------------------------------------------------------------------------------------

fn num_text(num: &Num) -> String {
    match num {
        Num::Literal(value, width) => format!("{width}w{value}"),
        Num::Place(at) => PLACES[*at].0.into(),
        Num::Binary(op, a, b) => format!("({} {op} {})", num_text(a), num_text(b)),
        Num::Unary(op, a) => format!("({op}{})", num_text(a)),
        Num::Shift(op, a, by) => format!("({} {op} {by})", num_text(a)),
        Num::Choice(c, a, b) => format!("({} ? {} : {})", truth_text(c), num_text(a), num_text(b)),
        Num::Slice(a, low) => format!("({})[{}:{low}]", num_text(a), low + 7),
        Num::Concat(a, b) => format!("({} ++ {})", num_text(a), num_text(b)),
        Num::Cast(a, width) => format!("((bit<{width}>) {})", num_text(a)),
        Num::Call(place, a) => format!("f({}, {})", PLACES[*place].0, num_text(a)),
    }
}

fn truth_text(truth: &Truth) -> String {
    match truth {
        Truth::Known(value) => value.to_string(),
        Truth::Compare(op, a, b) => format!("({} {op} {})", num_text(a), num_text(b)),
        Truth::Both(a, b) => format!("({} && {})", truth_text(a), truth_text(b)),
        Truth::Either(a, b) => format!("({} || {})", truth_text(a), truth_text(b)),
        Truth::Not(a) => format!("(!{})", truth_text(a)),
        Truth::Valid => "h.g.isValid()".into(),
    }
}

fn steps_text(steps: &[Step], function: bool, out: &mut String) {
    for step in steps {
        let _ = match step {
            Step::Assign(place, value) => writeln!(out, "{} = {};", PLACES[*place].0, num_text(value)),
            Step::Bits(place, high, low, value) => {
                let width = high - low;
                writeln!(out, "{}[{high}:{low}] = ({})[{width}:0];", PLACES[*place].0, num_text(value))
            }
            Step::If(condition, then, otherwise) => {
                let _ = writeln!(out, "if ({}) {{", truth_text(condition));
                steps_text(then, function, out);
                out.push_str("} else {\n");
                steps_text(otherwise, function, out);
                writeln!(out, "}}")
            }
            Step::Switch(subject, cases, default) => {
                let _ = writeln!(out, "switch ({}) {{", num_text(subject));
                for (label, steps) in cases {
                    let _ = writeln!(out, "8w{label}: {{");
                    steps_text(steps, function, out);
                    out.push_str("}\n");
                }
                out.push_str("default: {\n");
                steps_text(default, function, out);
                writeln!(out, "}}\n}}")
            }
            Step::Range(first, last, body) => {
                let _ = writeln!(out, "for (bit<8> i in 8w{first} .. 8w{last}) {{");
                steps_text(body, function, out);
                writeln!(out, "}}")
            }
            Step::For(bound, body) => {
                let bound = num_text(bound);
                let _ = writeln!(out, "for (bit<8> i = 0; i < 8w9 && i < {bound}; i = i + 1) {{");
                steps_text(body, function, out);
                writeln!(out, "}}")
            }
            Step::Call(place, value) => writeln!(out, "f({}, {});", PLACES[*place].0, num_text(value)),
            Step::SetValid(valid) => {
                writeln!(out, "h.g.{}();", if *valid { "setValid" } else { "setInvalid" })
            }
            Step::Exit => writeln!(out, "exit;"),
            Step::Return => writeln!(out, "return{};", if function { " p" } else { "" }),
            Step::Break => writeln!(out, "break;"),
            Step::Continue => writeln!(out, "continue;"),
        };
    }
}

fn source(function: &[Step], ingress: &[Step]) -> String {
    let (mut f, mut body) = (String::new(), String::new());
    steps_text(function, true, &mut f);
    steps_text(ingress, false, &mut body);
    format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
         header H {{ bit<8> a; bit<16> b; bit<8> c; }}\nheader G {{ bit<8> z; }}\n\
         header O {{ bit<8> x; bit<16> y; bit<8> v; bit<16> w; }}\n\
         struct S {{ H h; G g; O o; }}\nstruct M {{ bit<8> x; bit<16> y; bit<8> v; bit<16> w; }}\n\
         bit<8> f(inout bit<8> p, in bit<8> q) {{\n{f}return q;\n}}\n\
         parser P(packet_in b, out S h, inout M m, inout standard_metadata_t s) {{\n\
         state start {{ b.extract(h.h); transition accept; }} }}\n\
         control V(inout S h, inout M m) {{ apply {{ }} }}\n\
         control I(inout S h, inout M m, inout standard_metadata_t s) {{\n\
         bit<8> t = 0; bit<16> u = 0;\napply {{\n{body}}} }}\n\
         control E(inout S h, inout M m, inout standard_metadata_t s) {{ apply {{\n\
         if (h.g.isValid()) {{ h.g.z = 8w77; }}\n\
         h.o.setValid(); h.o.x = m.x; h.o.y = m.y; h.o.v = m.v; h.o.w = m.w; }} }}\n\
         control C(inout S h, inout M m) {{ apply {{ }} }}\n\
         control D(packet_out b, in S h) {{ apply {{ b.emit(h.h); b.emit(h.g); b.emit(h.o); }} }}\n\
         V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    )
}

// ---- by the rules of the language ---------------------------------------------------------------------------------

#[derive(PartialEq)]
enum Flow {
    Next,
    Exit,
    Return,
    Break,
    Continue,
}

struct World<'a> {
    function: &'a [Step],
    places: [u64; PLACES.len()],
    valid: bool,
}

fn width_of(num: &Num) -> u32 {
    match num {
        Num::Literal(_, width) | Num::Cast(_, width) => *width,
        Num::Place(at) => PLACES[*at].1,
        Num::Binary(_, a, _) | Num::Unary(_, a) | Num::Shift(_, a, _) | Num::Choice(_, a, _) => width_of(a),
        Num::Slice(..) | Num::Call(..) => 8,
        Num::Concat(..) => 16,
    }
}

fn low(value: u64, width: u32) -> u64 {
    value & ((1 << width) - 1)
}

impl World<'_> {
    fn num(&mut self, num: &Num) -> u64 {
        let width = width_of(num);
        match num {
            Num::Literal(value, _) => *value,
            Num::Place(at) => self.places[*at],
            Num::Binary(op, a, b) => {
                let (a, b) = (self.num(a), self.num(b));
                match *op {
                    "+" => low(a + b, width),
                    "-" => low(a.wrapping_sub(b), width),
                    "*" => low(a * b, width),
                    "&" => a & b,
                    "|" => a | b,
                    "^" => a ^ b,
                    "|+|" => (a + b).min((1 << width) - 1),
                    _ => a.saturating_sub(b),
                }
            }
            Num::Unary(op, a) => {
                let a = self.num(a);
                low(if *op == "~" { !a } else { a.wrapping_neg() }, width)
            }
            Num::Shift(op, a, by) => {
                let a = self.num(a);
                if *op == "<<" { low(a << by, width) } else { a >> by }
            }
            Num::Choice(condition, a, b) => {
                if self.truth(condition) {
                    self.num(a)
                } else {
                    self.num(b)
                }
            }
            Num::Slice(a, from) => low(self.num(a) >> from, 8),
            Num::Concat(a, b) => (self.num(a) << 8) | self.num(b),
            Num::Cast(a, width) => low(self.num(a), *width),
            Num::Call(place, a) => self.call(*place, a),
        }
    }

    /// `f(place, value)`: copied in from left to right, copied out at the end.
    fn call(&mut self, place: usize, value: &Num) -> u64 {
        let p = self.places[place];
        let q = self.num(value);
        (self.places[P], self.places[Q]) = (p, q);
        let function = self.function;
        let result = match self.steps(function) {
            Flow::Return => self.places[P],
            _ => self.places[Q],
        };
        self.places[place] = self.places[P];
        result
    }

    fn truth(&mut self, truth: &Truth) -> bool {
        match truth {
            Truth::Known(value) => *value,
            Truth::Compare(op, a, b) => {
                let (a, b) = (self.num(a), self.num(b));
                match *op {
                    "==" => a == b,
                    "!=" => a != b,
                    "<" => a < b,
                    "<=" => a <= b,
                    ">" => a > b,
                    _ => a >= b,
                }
            }
            Truth::Both(a, b) => self.truth(a) && self.truth(b),
            Truth::Either(a, b) => self.truth(a) || self.truth(b),
            Truth::Not(a) => !self.truth(a),
            Truth::Valid => self.valid,
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            let flow = self.step(step);
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    /// One round of a loop; `Some` ends the loop.
    fn round(&mut self, body: &[Step]) -> Option<Flow> {
        match self.steps(body) {
            Flow::Next | Flow::Continue => None,
            Flow::Break => Some(Flow::Next),
            other => Some(other),
        }
    }

    fn step(&mut self, step: &Step) -> Flow {
        match step {
            Step::Assign(place, value) => self.places[*place] = self.num(value),
            Step::Bits(place, high, from, value) => {
                let value = self.num(value);
                let ones = ((1_u64 << (high - from + 1)) - 1) << from;
                self.places[*place] = (self.places[*place] & !ones) | ((value << from) & ones);
            }
            Step::If(condition, then, otherwise) => {
                let steps = if self.truth(condition) { then } else { otherwise };
                return self.steps(steps);
            }
            Step::Switch(subject, cases, default) => {
                let subject = self.num(subject);
                let steps = cases.iter().find(|(label, _)| *label == subject).map_or(default, |(_, s)| s);
                return self.steps(steps);
            }
            Step::Range(first, last, body) => {
                for at in *first..=*last {
                    self.places[I] = at;
                    if let Some(flow) = self.round(body) {
                        return flow;
                    }
                }
            }
            Step::For(bound, body) => {
                self.places[I] = 0;
                while self.places[I] < 9 && self.places[I] < self.num(bound) {
                    if let Some(flow) = self.round(body) {
                        return flow;
                    }
                    self.places[I] += 1;
                }
            }
            Step::Call(place, value) => {
                self.call(*place, value);
            }
            Step::SetValid(valid) => self.valid = *valid,
            Step::Exit => return Flow::Exit,
            Step::Return => return Flow::Return,
            Step::Break => return Flow::Break,
            Step::Continue => return Flow::Continue,
        }
        Flow::Next
    }
}

fn expected(function: &[Step], ingress: &[Step], packet: [u8; 4]) -> Vec<u8> {
    let mut world = World { function, places: [0; PLACES.len()], valid: false };
    world.places[0] = packet[0].into();
    world.places[1] = u16::from_be_bytes([packet[1], packet[2]]).into();
    world.places[2] = packet[3].into();
    world.steps(ingress);
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>, at: usize| {
        let bytes = world.places[at].to_be_bytes();
        out.extend_from_slice(&bytes[8 - PLACES[at].1 as usize / 8..]);
    };
    (0..3).for_each(|at| put(&mut out, at));
    if world.valid {
        out.push(77);
    }
    (3..7).for_each(|at| put(&mut out, at));
    out
}

/// The headers of a packet when it leaves.
pub(super) fn left_with(engine: &mut dyn Engine<ProgramState>, program: &Program, packet: &[u8]) -> Vec<u8> {
    let mut state = ProgramState::with_program_entries(program);
    state.seed_random(1);
    let mut phv = engine.layout().new_phv();
    let layout = engine.layout();
    layout.reset(&mut phv);
    phv.set_slot(slot::PACKET_LEN, packet.len() as u64);
    phv.set_slot(slot::DROP_PORT, 511);
    engine.parse(0, &mut phv, packet, &mut state);
    for pipeline in 0..2 {
        engine.run(pipeline, &mut phv, packet, &mut state);
    }
    let len = engine.prepare_deparse(0, &mut phv, &[], &mut state);
    let mut out = vec![0xa5; len];
    engine.emit(0, &phv, &mut out);
    out
}

/// `data` chooses the productions of a grammar: the program is lowered, and leaves the packets that the language says.
pub fn p4_lower(data: &[u8]) -> u64 {
    let mut maker = Maker { data: data.iter(), nodes: 0, in_function: true, in_loop: false };
    let compiled = maker.byte().is_multiple_of(8);
    let packets: [[u8; 4]; 3] = [[0, 0, 0, 0], [0xff, 0x80, 0x01, 7], std::array::from_fn(|_| maker.byte())];
    let function = maker.steps(2);
    maker.in_function = false;
    maker.nodes = 0;
    let ingress = maker.steps(4);
    let text = source(&function, &ingress);
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let files = MemoryFiles::one("a.p4", text.as_str());
    let source = parse(&mut map, &files, &Options::default(), "a.p4", &mut found);
    let typed = types::check(&source, &map, &mut found);
    let errors: Vec<&str> = found
        .iter()
        .filter(|d| d.severity == barewire_p4_source::Severity::Error)
        .map(|d| d.message.as_str())
        .collect();
    assert!(errors.is_empty(), "a program of the language is refused: {errors:?}\n{text}");
    let program = match barewire_p4_lower::lower(&source, &typed, &map, "a.p4") {
        Ok(program) => Arc::new(program),
        Err(refusal) => panic!("a program of v1model is not lowered: {}\n{text}", refusal.message),
    };
    let json = export(&program).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let again = Arc::new(import(&json).unwrap_or_else(|error| panic!("our JSON: {error}\n{text}")));
    for packet in packets {
        let wanted = expected(&function, &ingress, packet);
        let direct = left_with(&mut Interpreter::new(Arc::clone(&program)), &program, &packet);
        assert_eq!(direct, wanted, "lowered, {packet:02x?}\n{text}");
        let imported = left_with(&mut Interpreter::new(Arc::clone(&again)), &again, &packet);
        assert_eq!(imported, wanted, "from JSON, {packet:02x?}\n{text}");
        if compiled {
            let mut engine = barewire_p4_jit::compile(Arc::clone(&program)).expect("it compiles");
            assert_eq!(left_with(&mut engine, &program, &packet), wanted, "compiled, {packet:02x?}\n{text}");
        }
    }
    packets.len() as u64
}

/// Derivations.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for seed in 0..12_u32 {
        let mut x = seed.wrapping_mul(0x9e37_79b9) | 1;
        let step = |_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        };
        out.push((0..300).map(step).collect());
    }
    out
}
