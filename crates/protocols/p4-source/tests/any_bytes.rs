//! Any bytes: no panic, an end, places that lie in the text, memory in proportion to the text.

use barewire_p4_source::diag::{Style, render_all, to_json};
use barewire_p4_source::fmt::format;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use proptest::prelude::*;

/// Pieces that programs are made of, so that random texts get past the first word.
const WORDS: &[&str] = &[
    "parser",
    "control",
    "header",
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
    "return",
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
    "exact",
    "1",
    "8w0xFF",
    "4s1",
    "0b1",
    "9x",
    "\"s\"",
    "\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ">>",
    ">>=",
    "<<",
    "=",
    "==",
    "+=",
    "|+|",
    "++",
    "+",
    "-",
    "!",
    "~",
    "&&",
    "&&&",
    "||",
    "..",
    "...",
    ".",
    ",",
    ";",
    ":",
    "?",
    "@",
    "@name(\"n\")",
    "@pragma p q\n",
    "{#}",
    "#",
    "##",
    "\n",
    "\n#if 1\n",
    "\n#ifdef X\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#define X x y\n",
    "\n#define F(a, b) a##b #a\n",
    "F(1, (2))",
    "X",
    "\n#include <core.p4>\n",
    "\n#include \"a.p4\"\n",
    "\n#line 7 \"b\"\n",
    "\n#undef X\n",
    "// c\n",
    "/* c */",
    "/*",
    "\\\n",
    "é",
    "\t",
    "  ",
];

fn run(text: &str) {
    let files = MemoryFiles::one("a.p4", text);
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let program = parse(&mut map, &files, &Options::default(), "a.p4", &mut diags);
    types::check(&program, &map, &mut diags);
    for diagnostic in diags.iter() {
        assert!(!diagnostic.message.is_empty());
        for label in &diagnostic.labels {
            let file = map.file(label.span.file).unwrap();
            assert!(label.span.start <= label.span.end && label.span.end as usize <= file.text().len());
            assert!(file.text().is_char_boundary(label.span.start as usize));
        }
    }
    render_all(&map, &diags, Style::Plain);
    render_all(&map, &diags, Style::Coloured);
    to_json(&map, &diags);
    assert!(program.node_count as usize <= 64 + 8 * map.files().map(|(_, f)| f.text().len()).sum::<usize>());
    if let Ok(once) = format(text) {
        assert_eq!(format(&once).as_deref(), Ok(&*once), "not stable");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        run(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn words(words in prop::collection::vec(prop::sample::select(WORDS), 0..120), blanks in any::<bool>()) {
        run(&words.join(if blanks { " " } else { "" }));
    }

    /// A program that is good, with one stretch of it somewhere else.
    #[test]
    fn cut_and_pasted(from in 0_usize..4_000, length in 0_usize..60, to in 0_usize..4_000) {
        let (_, text) = barewire_p4_source::builtin::file("v1model.p4").unwrap();
        let mut bytes = text.as_bytes()[..text.len().min(4_000)].to_vec();
        let from = from.min(bytes.len());
        let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
        let to = to.min(bytes.len());
        bytes.splice(to..to, piece);
        run(&String::from_utf8_lossy(&bytes));
    }
}
