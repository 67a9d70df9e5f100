//! Programs of P4-16 with something changed, by the grammar: identifiers, numbers and operators for others of their kind,
//! statements, blocks and expressions left out, doubled, moved between programs, wrapped. What still is a program is lowered,
//! written as JSON and read again, and run.

use super::p4_lower::left_with;
use barewire_p4::interp::Interpreter;
use barewire_p4_formats::export::export;
use barewire_p4_formats::import::import;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// What the programs use of the core library and v1model: a short text, since every input reads it anew.
const PRELUDE: &str = include_str!("p4_mutated/prelude.p4");
/// The same from the files that programs include, for some of the inputs, and for PSA.
const V1MODEL: &str = "#include <core.p4>\n#include <v1model.p4>\n";
const PSA: &str = "#include <core.p4>\n#include <psa.p4>\n";

const TEXTS: [&str; 5] = [
    include_str!("p4_mutated/tables.p4"),
    include_str!("p4_mutated/parsers.p4"),
    include_str!("p4_mutated/values.p4"),
    include_str!("p4_mutated/calls.p4"),
    include_str!("p4_mutated/psa.p4"),
];
const PSA_AT: usize = 4;

const OPERATORS: [&[&str]; 5] = [
    &["+", "-", "*", "&", "|", "^", "|+|", "|-|", "/", "%", "++"],
    &["==", "!=", "<", "<=", ">", ">="],
    &["&&", "||"],
    &["<<", ">>"],
    &["=", "+=", "-=", "^=", "|=", "&=", "<<="],
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "9",
    "15",
    "16",
    "31",
    "32",
    "33",
    "63",
    "64",
    "65",
    "127",
    "128",
    "255",
    "256",
    "4095",
    "65535",
    "65536",
    "4294967295",
    "8w0",
    "8w255",
    "1w1",
    "4s7",
    "8s127",
    "16w0xffff",
    "2147483648",
    "18446744073709551616",
    "-1",
    "0xffffffffffffffffffffffffffffffff",
];
const WORDS: &[&str] = &[
    "bit",
    "int",
    "bool",
    "varbit",
    "tuple",
    "error",
    "void",
    "true",
    "false",
    "in",
    "out",
    "inout",
    "const",
    "header",
    "header_union",
    "struct",
    "enum",
    "exact",
    "ternary",
    "lpm",
    "range",
    "optional",
    "selector",
    "accept",
    "reject",
    "exit",
    "return",
    "break",
    "continue",
    "default",
    "_",
    "...",
    "this",
    "apply",
    "isValid",
    "setValid",
    "setInvalid",
    "next",
    "last",
    "lastIndex",
    "size",
    "push_front",
    "pop_front",
    "hit",
    "miss",
    "action_run",
    "minSizeInBits",
    "maxSizeInBytes",
    "NoAction",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ";",
    ",",
    ":",
    ".",
    "?",
    "!",
    "~",
    "-",
    "+",
    "=",
    "&&&",
    "..",
    "@",
    "\"s\"",
    "if",
    "else",
    "for",
    "switch",
    "state",
    "transition",
    "select",
    "table",
    "key",
    "actions",
    "entries",
    "action",
    "control",
    "parser",
    "extern",
    "typedef",
    "type",
    "priority",
    "abstract",
    "match_kind",
];
/// Statements and declarations that fit in many places.
const PIECES: &[&str] = &[
    "exit ;",
    "return ;",
    "m . a = m . a + 1 ;",
    "h . h . setInvalid ( ) ;",
    "if ( m . a == 1 ) { exit ; } else { return ; }",
    "for ( bit < 8 > z in 0 .. 9 ) { if ( z == 3 ) break ; }",
    "for ( bit < 8 > z = 0 ; z < m . a ; z = z + 1 ) { m . a = m . a - 1 ; }",
    "switch ( m . a ) { 1 : { } 2 : { exit ; } default : { } }",
    "bit < 8 > fresh = 3 ;",
    "const bit < 8 > fresh = 1 + 2 ;",
    "{ bit < 16 > fresh ; fresh = 1 ; m . b = fresh ; }",
    "action fresh ( bit < 8 > v ) { m . a = v ; }",
    "table fresh { key = { m . a : exact ; } actions = { NoAction ; } }",
    "tuple < bit < 8 > , bool > fresh = { 1 , true } ;",
    "m = { ... } ;",
    "h . h = h . g ;",
];
/// Edits of one input at the most: after more of them hardly a program has types.
const EDITS_MAX: u8 = 3;
/// Tokens that an input may come to.
const TOKENS_MAX: usize = 1500;
/// One accepted program in so many is compiled, too.
const COMPILED: u8 = 32;

type Tokens = Vec<&'static str>;

static BASES: LazyLock<Vec<Tokens>> = LazyLock::new(|| TEXTS.iter().map(|text| tokens(text)).collect());
static SNIPPETS: LazyLock<Vec<Tokens>> =
    LazyLock::new(|| PIECES.iter().map(|piece| piece.split_whitespace().collect()).collect());

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

/// The tokens of a text without comments.
fn tokens(text: &'static str) -> Tokens {
    const LONG: [&str; 18] = [
        "&&&", "|+|", "|-|", "...", "<<=", "==", "!=", "<=", ">=", "&&", "||", "++", "..", "+=", "-=", "<<",
        ">>", "|=",
    ];
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            _ if word(first) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            _ => LONG.iter().find(|op| rest.starts_with(**op)).map_or(first.len_utf8(), |op| op.len()),
        };
        out.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    out
}

/// The end of the group that opens at `at`, behind its bracket.
fn group_end(list: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (i, token) in list.iter().enumerate().skip(at) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
    }
    list.len()
}

/// The statement or declaration around a place: from behind the bracket or semicolon before it to its own end.
fn statement(list: &[&str], at: usize) -> Range<usize> {
    let before = list[..at].iter().rposition(|token| matches!(*token, ";" | "{" | "}"));
    let start = before.map_or(0, |before| before + 1);
    let mut end = start;
    while end < list.len() {
        match list[end] {
            "(" | "[" => end = group_end(list, end),
            "{" => {
                end = group_end(list, end);
                if list.get(end) != Some(&"else") && list.get(end) != Some(&";") {
                    return start..end;
                }
            }
            ";" => return start..end + 1,
            "}" => return start..end,
            _ => end += 1,
        }
    }
    start..end
}

struct Edits<'a> {
    data: std::slice::Iter<'a, u8>,
}

impl Edits<'_> {
    fn byte(&mut self) -> u8 {
        self.data.next().copied().unwrap_or(0)
    }

    fn below(&mut self, end: usize) -> usize {
        let high = usize::from(self.byte());
        (high << 8 | usize::from(self.byte())) % end.max(1)
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// The first token from a place on that is of a kind, round the end.
    fn find(&mut self, list: &[&str], fits: impl Fn(&str) -> bool) -> Option<usize> {
        let from = self.below(list.len());
        (from..list.len()).chain(0..from).find(|&at| fits(list[at]))
    }

    fn edit(&mut self, list: &mut Tokens) {
        if list.is_empty() {
            list.push(self.of(WORDS));
            return;
        }
        let at = self.below(list.len());
        match self.byte() % 20 {
            // Words for words that are near: most names of a program mean something of its kind near by.
            0..=4 => {
                let Some(at) = self.find(list, is_word) else { return };
                let near = at.saturating_sub(40)..(at + 40).min(list.len());
                let words: Tokens = list[near].iter().copied().filter(|token| is_word(token)).collect();
                list[at] = self.of(&words);
            }
            5 | 6 => {
                if let Some(at) = self.find(list, is_number) {
                    list[at] = self.of(NUMBERS);
                }
            }
            7 | 8 => {
                let class = self.of(&OPERATORS);
                if let Some(at) = self.find(list, |token| class.contains(&token)) {
                    list[at] = self.of(class);
                }
            }
            9 => drop(list.drain(statement(list, at))),
            10 | 11 => {
                let piece = list[statement(list, at)].to_vec();
                let to = self.below(list.len());
                let to = statement(list, to).start;
                list.splice(to..to, piece);
            }
            12 => {
                let other = self.of(&[0, 1, 2, 3, PSA_AT]);
                let other = &BASES[other];
                let from = self.below(other.len());
                let piece = other[statement(other, from)].to_vec();
                let to = statement(list, at).start;
                list.splice(to..to, piece);
            }
            13 => {
                let piece = SNIPPETS[self.below(SNIPPETS.len())].clone();
                let to = statement(list, at).start;
                list.splice(to..to, piece);
            }
            // A group for another of its kind.
            14 => {
                let open = self.of(&["(", "[", "{", "("]);
                let (Some(to), Some(from)) =
                    (self.find(list, |token| token == open), self.find(list, |token| token == open))
                else {
                    return;
                };
                let piece = list[from..group_end(list, from)].to_vec();
                let end = group_end(list, to);
                list.splice(to..end, piece);
            }
            // Operands become operations.
            15 | 16 => {
                let Some(at) = self.find(list, |token| is_number(token) || token == ")") else { return };
                let class = self.of(&OPERATORS);
                let more = [self.of(class), self.of(NUMBERS)];
                list.splice(at + 1..at + 1, more);
            }
            17 => {
                let Some(at) = self.find(list, |token| token == "=" || token == "(") else { return };
                let more: &[&str] = match self.byte() % 5 {
                    0 => &["-"],
                    1 => &["~"],
                    2 => &["!"],
                    3 => &["(", "bit", "<", "8", ">", ")"],
                    _ => &["m", ".", "a", "==", "1", "?", "m", ".", "a", ":"],
                };
                list.splice(at + 1..at + 1, more.iter().copied());
            }
            18 => list[at] = self.of(WORDS),
            _ => match self.byte() % 3 {
                0 => drop(list.remove(at)),
                1 => list.insert(at, self.of(WORDS)),
                _ => {
                    let other = self.below(list.len());
                    list.swap(at, other);
                }
            },
        }
        list.truncate(TOKENS_MAX);
    }
}

/// The text that an input stands for, and whether it is to be compiled.
fn text(data: &[u8]) -> (String, bool) {
    let mut edits = Edits { data: data.iter() };
    let first = edits.byte();
    // PSA's own file is long to read: one in sixteen.
    let base = if first >= 240 { PSA_AT } else { usize::from(first) % PSA_AT };
    let second = edits.byte();
    let head = match base {
        PSA_AT => PSA,
        _ if second >= 250 => V1MODEL,
        _ => PRELUDE,
    };
    let mut list = BASES[base].clone();
    for _ in 0..=edits.byte() % EDITS_MAX {
        edits.edit(&mut list);
    }
    (format!("{head}{}", list.join(" ")), second.is_multiple_of(COMPILED))
}

/// A program with something changed: whatever is wrong with it is told at a place in it, and what is not runs as one that was
/// written as JSON and read again does, and as its machine code does. Counts what was accepted and lowered.
pub fn p4_mutated(data: &[u8]) -> u64 {
    let (text, compiled) = text(data);
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let files = MemoryFiles::one("a.p4", text.as_str());
    let source = parse(&mut map, &files, &Options::default(), "a.p4", &mut found);
    let typed = types::check(&source, &map, &mut found);
    for label in found.iter().flat_map(|d| &d.labels) {
        let file = map.file(label.span.file).expect("a message is in a file");
        assert!(label.span.start <= label.span.end && label.span.end as usize <= file.text().len(), "{text}");
    }
    if found.error_count() > 0 {
        return 0;
    }
    let program = match barewire_p4_lower::lower(&source, &typed, &map, "a.p4") {
        Ok(program) => Arc::new(program),
        Err(refusal) => {
            assert!(!refusal.message.contains("breaks a rule"), "{}\n{text}", refusal.message);
            return 0;
        }
    };
    let again = match export(&program) {
        Ok(json) => import(&json).unwrap_or_else(|error| panic!("our JSON: {error}\n{text}")),
        Err(_) => return 1,
    };
    if program.parsers.len() > 1 {
        return 1;
    }
    let again = Arc::new(again);
    for packet in [&[0; 64][..], &data[..data.len().min(64)]] {
        let direct = left_with(&mut Interpreter::new(Arc::clone(&program)), &program, packet);
        let imported = left_with(&mut Interpreter::new(Arc::clone(&again)), &again, packet);
        assert_eq!(direct, imported, "from JSON, {packet:02x?}\n{text}");
        if compiled {
            let mut engine = barewire_p4_jit::compile(Arc::clone(&program)).expect("it compiles");
            let native = left_with(&mut engine, &program, packet);
            assert_eq!(direct, native, "compiled, {packet:02x?}\n{text}");
        }
    }
    1
}

/// Edits of each program.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for seed in 0..256_u32 {
        let mut x = seed.wrapping_mul(0x9e37_79b9) | 1;
        let step = |_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        };
        out.push((0..64).map(step).collect());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs as they are, and one with nothing but another number.
    #[test]
    fn the_programs_themselves_are_accepted() {
        for (at, list) in BASES.iter().enumerate() {
            for head in if at == PSA_AT { &[PSA][..] } else { &[PRELUDE, V1MODEL][..] } {
                let text = format!("{head}{}", list.join(" "));
                let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
                let files = MemoryFiles::one("a.p4", text.as_str());
                let source = parse(&mut map, &files, &Options::default(), "a.p4", &mut found);
                let typed = types::check(&source, &map, &mut found);
                let drawn = barewire_p4_source::diag::render_all(
                    &map,
                    &found,
                    barewire_p4_source::diag::Style::Plain,
                );
                assert_eq!(found.error_count(), 0, "{drawn}");
                if let Err(refusal) = barewire_p4_lower::lower(&source, &typed, &map, "a.p4") {
                    panic!("{at}: {}", refusal.message);
                }
            }
        }
    }

    #[test]
    fn statements_are_found() {
        let list = tokens("a; if (x) { b; c; } else { d; } e = { 1, 2 };");
        let of = |at: usize| list[statement(&list, at)].join(" ");
        assert_eq!(of(0), "a ;");
        assert_eq!(of(3), "if ( x ) { b ; c ; } else { d ; }");
        assert_eq!(of(7), "b ;");
        assert_eq!(of(17), "e = { 1 , 2 } ;");
        assert_eq!(list[group_end(&list, 3)..].first(), Some(&"{"));
        assert_eq!(tokens("a|+|8w1 \"x y\"..."), ["a", "|+|", "8w1", "\"x y\"", "..."]);
    }
}
