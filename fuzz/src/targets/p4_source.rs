//! P4-16 source: preprocessor, parser, types, formatter, P4Info.

use barewire_p4_source::diag::{Style, render_all, to_json};
use barewire_p4_source::fmt::{FormatError, format};
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};

/// Words of the language, so that most inputs get past the first of them.
const WORDS: &[&str] = &[
    "parser",
    "control",
    "header",
    "header_union",
    "struct",
    "enum",
    "extern",
    "typedef",
    "type",
    "const",
    "action",
    "table",
    "apply",
    "key",
    "actions",
    "entries",
    "state",
    "start",
    "transition",
    "select",
    "accept",
    "default",
    "if",
    "else",
    "switch",
    "for",
    "in",
    "out",
    "inout",
    "return",
    "exit",
    "break",
    "bit",
    "int",
    "bool",
    "varbit",
    "tuple",
    "list",
    "error",
    "match_kind",
    "void",
    "package",
    "value_set",
    "abstract",
    "this",
    "true",
    "x",
    "y",
    "T",
    "H",
    "_",
    "priority",
    "1",
    "8w0xFF",
    "4s1",
    "9x",
    "\"s\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ">>",
    "=",
    "==",
    "+=",
    "++",
    "+",
    "-",
    "!",
    "&&&",
    "..",
    "...",
    ".",
    ",",
    ";",
    ":",
    "?",
    "@",
    "{#}",
    "#",
    "\n#if 1\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#define X x y\n",
    "\n#define F(a, b) a##b #a\n",
    "F(1, (2))",
    "X",
    "\n#include <core.p4>\n",
    "// c\n",
    "/* c */",
    "\\\n",
    "é",
];

/// A text with an even first byte is itself; with an odd one each byte is a word of the language.
fn text(data: &[u8]) -> String {
    match data.split_first() {
        Some((first, rest)) if first % 2 == 1 => {
            let word = |byte: &u8| WORDS[usize::from(*byte) % WORDS.len()];
            let between = if first & 2 == 0 { " " } else { "" };
            rest.iter().map(word).collect::<Vec<_>>().join(between)
        }
        Some((_, rest)) => String::from_utf8_lossy(rest).into_owned(),
        None => String::new(),
    }
}

/// Any text: messages lie in it, and what the formatter makes is laid out already.
pub fn p4_source(data: &[u8]) -> u64 {
    let text = text(data);
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let files = MemoryFiles::one("a.p4", text.as_str());
    let program = parse(&mut map, &files, &Options::default(), "a.p4", &mut diags);
    let typed = types::check(&program, &map, &mut diags);
    let before = diags.error_count();
    let info = barewire_p4_info::from_source(&program, &typed, &mut diags);
    if before == 0 {
        let text = barewire_p4_info::to_text(&info);
        assert_eq!(barewire_p4_info::text::parse(&text).as_ref(), Ok(&info), "what is written is read back");
    }
    for label in diags.iter().flat_map(|d| &d.labels) {
        let file = map.file(label.span.file).expect("a message is in a file");
        assert!(label.span.start <= label.span.end && label.span.end as usize <= file.text().len());
    }
    assert!(!render_all(&map, &diags, Style::Plain).is_empty() || diags.iter().next().is_none());
    assert!(to_json(&map, &diags).is_array());
    match format(&text) {
        Ok(once) => assert_eq!(format(&once).as_deref(), Ok(&*once), "laid out twice"),
        Err(FormatError::NoEnd(at) | FormatError::Stray(at)) => assert!(at < text.len()),
        Err(error) => panic!("{error}"),
    }
    1 + program.decls.len() as u64
}

/// Programs, and strings of words.
pub fn corpus() -> Vec<Vec<u8>> {
    let programs = [
        "header H { bit<8> f; }\nstruct S { H h; }\nextern packet_in { void extract<T>(out T t); }\n",
        "parser p(in bit<8> a) { state start { transition select(a, a) { (1, _): accept; 2 &&& 3: reject; 4 .. 5: start; default: reject; } } }\n",
        "control c(inout bit<8> a)(bit<8> n) { action x(bit<8> y) { a = y[3:0] ++ 4w1; } table t { key = { a: exact @name(\"a\"); } \
         actions = { x(1); } const entries = { priority = 1: (1): x(2); } } apply { if (t.apply().hit) exit; else a += 1; } }\n",
        "#define F(a, b) a##b\n#if defined(F) && 1 < 2\nconst bit<8> F(x, y) = (bit<8>) 1;\n#endif\n/* c */ // d\n",
        "const int x = f<bit<8>, T>(a = 1, _)[7 +: 1] >> 2 ? {1, ...} : {a = 1, ...};\n@pragma a b\n@n[a = 1] enum bit<8> E { A = 1, }\n",
        "control c() { apply { for (bit<8> i in 0 .. 3) { switch (i) { 1: 2: { } default: { continue; } } } } }\n",
    ];
    let mut corpus: Vec<Vec<u8>> = programs.iter().map(|text| [b"\0", text.as_bytes()].concat()).collect();
    corpus.push((0..96).map(|i| if i == 0 { 1 } else { i }).collect());
    corpus.push((0..96).rev().map(|i| if i == 95 { 3 } else { i }).collect());
    corpus
}
