use super::*;
use crate::resolve::MemoryFiles;

fn run(files: &MemoryFiles, options: &Options) -> (SourceMap, Diagnostics, String) {
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let text = files.0["a.p4"].clone();
    let root = map.add("a.p4", text);
    let out = preprocess(&mut map, files, options, root, &mut diags);
    let words: Vec<&str> = out
        .tokens
        .iter()
        .filter(|t| t.kind != TokenKind::Eof)
        .map(|t| match t.kind {
            TokenKind::Ident | TokenKind::Int | TokenKind::BadInt | TokenKind::Str | TokenKind::Unknown => {
                &**out.names.name(t.text)
            }
            kind => kind.text(),
        })
        .collect();
    let words = words.join(" ");
    (map, diags, words)
}

fn tokens(text: &str) -> String {
    let (map, diags, words) = run(&MemoryFiles::one("a.p4", text), &Options::default());
    let drawn = crate::diag::render_all(&map, &diags, crate::diag::Style::Plain);
    assert!(diags.iter().next().is_none(), "{text}\n{drawn}");
    words
}

/// The first message and where it is.
fn message(text: &str) -> (String, u32, u32) {
    let (map, diags, _) = run(&MemoryFiles::one("a.p4", text), &Options::default());
    let first = diags.iter().next().unwrap_or_else(|| panic!("no message: {text}"));
    let place = map.place(first.span()).unwrap();
    (first.message.clone(), place.at.line, place.at.column)
}

#[test]
fn objects_and_functions() {
    assert_eq!(tokens("#define A 1\n#define B A + A\nB;"), "1 + 1 ;");
    assert_eq!(tokens("#define F(x, y) x * (y)\nF(1, (2, 3)) F"), "1 * ( ( 2 , 3 ) ) F");
    assert_eq!(tokens("#define F(x) [x]\nF\n(\n1\n)"), "[ 1 ]");
    assert_eq!(tokens("#define E()\n#define F() x\nE() F() E F"), "x E F");
    assert_eq!(tokens("#define A (1)\n#define F(x) x\nF A F(A)"), "F ( 1 ) ( 1 )");
    assert_eq!(tokens("#define A 1\n#undef A\n#undef B\nA"), "A");
    assert_eq!(tokens("#define bit int\nbit<8>"), "int < 8 >");
    assert_eq!(tokens("#define LONG a \\\n  b\nLONG"), "a b");
    assert_eq!(tokens("#define A x // y\nA z /* A */ A"), "x z x");
}

#[test]
fn a_macro_is_not_expanded_in_itself() {
    assert_eq!(tokens("#define A A B\n#define B A\nA B"), "A A A B");
    assert_eq!(tokens("#define f(x) x f\nf(1)(2)"), "1 f ( 2 )");
    assert_eq!(tokens("#define f(x) g(x)\n#define g(x) f(x)\nf(f(1))"), "f ( f ( 1 ) )");
}

#[test]
fn strings_and_pasting() {
    assert_eq!(tokens("#define S(x) #x\nS(a  +b \"c\\n\" /* d */ e)"), r#""a +b \"c\\n\" e""#);
    assert_eq!(
        tokens("#define P(a, b) a ## b\nP(x, 1) P(8w, 0xF) P(, y) P(<, <) P(+, *)"),
        "x1 8w0xF y << + *"
    );
    assert_eq!(tokens("#define X 1\n#define P(a) a##X v##a\nP(X)"), "XX vX");
    assert_eq!(tokens("#define C a##b##c\nC"), "abc");
    assert_eq!(tokens("#define V(f, ...) f(__VA_ARGS__)\nV(g) V(g, 1, 2)"), "g ( ) g ( 1 , 2 )");
    assert_eq!(tokens("#define V(f, ...) f(0, ## __VA_ARGS__)\nV(g) V(g, 1, 2)"), "g ( 0 ) g ( 0 , 1 , 2 )");
    assert_eq!(tokens("#define V(rest...) rest\nV(1, 2)"), "1 , 2");
}

#[test]
fn places() {
    assert_eq!(
        tokens("#define L __LINE__\n\nL __LINE__ __FILE__\n#line 70 \"b.p4\"\n__LINE__ __FILE__\n__LINE__"),
        "3 3 \"a.p4\" 70 \"b.p4\" 71"
    );
    assert_eq!(
        tokens("# 9 \"c.p4\" 1 3\n__LINE__ __FILE__\n#line 5\n__LINE__ __FILE__"),
        "9 \"c.p4\" 5 \"c.p4\""
    );
    assert_eq!(tokens("__COUNTER__ __COUNTER__"), "0 1");
}

#[test]
fn a_token_of_a_macro_lies_at_its_use() {
    let text = "#define A x y\n#define F(p) A p\n\n  F( q ) A\n";
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let root = map.add("a.p4", text);
    let out = preprocess(&mut map, &MemoryFiles::default(), &Options::default(), root, &mut diags);
    let place = |n: usize| {
        let span = out.tokens[n].span;
        let from = map.expansion(span).map(|e| e.name.to_string());
        (map.text(span).to_owned(), map.place(span).unwrap().at.line, from)
    };
    assert_eq!(place(0), ("F( q )".to_owned(), 4, Some("A".to_owned())));
    assert_eq!(place(2), ("q".to_owned(), 4, None));
    assert_eq!(place(3), ("A".to_owned(), 4, Some("A".to_owned())));
    let outer = map.expansion(map.expansion(out.tokens[0].span).unwrap().used).unwrap();
    assert_eq!(&*outer.name, "F");
    assert_eq!(map.place(outer.defined).unwrap().to_string(), "a.p4:2:9");
}

#[test]
fn conditions() {
    for (condition, holds) in [
        ("1", true),
        ("0", false),
        ("X", false),
        ("defined X", false),
        ("defined(Y) && Y == 7", true),
        ("!defined(Y) || Y > 8 >> 1", true),
        ("(1 + 2) * 3 == 9 && -1 < 0 && ~0 == -1", true),
        ("0x10 == 16 && 010 == 8 && 0b11 == 3 && 3UL == 3", true),
        ("Y ? 0 : 1", false),
        ("1 ? 2 ? 0 : 1 : 1", false),
        ("0 && 1 / 0", false),
        ("1 || 1 / 0", true),
        ("5 % 3 == 2 && (6 & 3) == 2 && (6 ^ 3) == 5 && (1 << 4) == 16 && (6 | 1) == 7", true),
        ("true", true),
        ("F(1)", true),
    ] {
        let text = format!("#define Y 7\n#define F(x) x\n#if {condition}\nyes\n#else\nno\n#endif");
        assert_eq!(tokens(&text), if holds { "yes" } else { "no" }, "{condition}");
    }
    assert_eq!(tokens("#if 0\na\n#elif 1\nb\n#elif 1\nc\n#else\nd\n#endif\ne"), "b e");
    assert_eq!(
        tokens(
            "#ifndef A\n#define A\n#ifdef A\nx\n#endif\n#endif\n#ifdef B\n#if junk +\n#endif\n#else\ny\n#endif"
        ),
        "x y"
    );
    assert_eq!(tokens("#if 0\ndon't \" /* #endif */ /* no end\n#else\nx\n#endif"), "x");
    assert_eq!(tokens("  #  if 1 // c\nx\n  /* c */ # endif\n#\ny"), "x y");
    assert_eq!(tokens("#if 0\n/* c\n#endif\n*/\n#endif\nx"), "x");
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    for (text, part, line, column) in [
        ("\n#if 1\n", "has no `#endif`", 2, 1),
        ("x\n#endif", "without an `#if`", 2, 1),
        ("#if 1\n#else\n#else\n#endif", "behind the `#else`", 3, 1),
        ("#if 1 +\n#endif", "at the end of the line", 1, 1),
        ("#if (1\n#endif", "expected `)`", 1, 1),
        ("#if 1 / 0\n#endif", "division by zero", 1, 1),
        ("#if 1 2\n#endif", "not expected", 1, 7),
        ("#error no, \"this\" isn't it\n", "#error no, \"this\" isn't it", 1, 1),
        ("#define 1\n", "must be a word", 1, 9),
        ("#define defined\n", "cannot be the name", 1, 9),
        ("#define F(x x)\n", "names of parameters", 1, 13),
        ("#define F(x, x) 1\n", "two parameters", 1, 14),
        ("#define P ## x\n", "both sides", 1, 11),
        ("#define F(x) x\nF(1, 2)\n", "takes 1 argument, not 2", 2, 1),
        ("#define F(x) x\nF(1", "no `)`", 2, 1),
        ("#include <nope.p4>\n", "no file `nope.p4`", 1, 10),
        ("#include nope\n", "name of a file", 1, 10),
        ("#include \"nope\n", "has no `\"`", 1, 10),
        ("a /* b\n", "no end", 1, 3),
        ("#define A 1\n#define A 2\n", "defined again", 2, 9),
        ("#inlcude <x>\n", "is no directive", 1, 1),
        ("#line x\n", "number", 1, 7),
    ] {
        let (message, at, in_line) = message(text);
        assert!(message.contains(part), "{text}: {message}");
        assert_eq!((at, in_line), (line, column), "{text}: {message}");
    }
    assert_eq!(tokens("#define A 1\n#define A 1\n#define F(x)  x+1\n#define F(x) x+1\nA"), "1");
}

#[test]
fn files_are_found() {
    let files =
        MemoryFiles::one("a.p4", "#include \"d/b.p4\"\n#include <c.p4>\n#define H <c.p4>\n#include H\nend")
            .with("d/b.p4", "#pragma once\nb\n#include \"c.p4\"\n#include \"b.p4\"\n")
            .with("d/c.p4", "near\n")
            .with("inc/c.p4", "far\n");
    let options = Options { include: vec!["inc".to_owned()], ..Options::default() };
    let (map, diags, words) = run(&files, &options);
    assert_eq!(words, "b near far far end");
    assert!(diags.iter().next().is_none());
    let names: Vec<&str> = map.files().map(|(_, f)| f.name()).collect();
    assert_eq!(names, ["a.p4", "d/b.p4", "d/c.p4", "inc/c.p4"]);
}

#[test]
fn the_command_line_defines() {
    let options = Options {
        macros: vec![
            MacroOption::Define("A".to_owned()),
            MacroOption::Define("B=x y".to_owned()),
            MacroOption::Define("F(z)=z z".to_owned()),
            MacroOption::Define("C=1".to_owned()),
            MacroOption::Undefine("C".to_owned()),
        ],
        ..Options::default()
    };
    assert_eq!(run(&MemoryFiles::one("a.p4", "A B F(q) C"), &options).2, "1 x y q q C");
}

#[test]
fn circles_and_bombs_end() {
    let circle = MemoryFiles::one("a.p4", "#include \"b.p4\"\n")
        .with("b.p4", "#include \"a.p4\"\n#include \"a.p4\"\n");
    let (_, diags, _) = run(&circle, &Options::default());
    let first = diags.first_error().unwrap();
    assert!(first.message.contains("deep"), "{}", first.message);
    assert!(
        first.notes[0].contains("a.p4 includes b.p4 includes a.p4")
            || first.notes[0].contains("b.p4 includes a.p4 includes b.p4")
    );

    let mut bomb = String::from("#define A0 x x\n");
    for i in 1..64 {
        bomb.push_str(&format!("#define A{i} A{} A{}\n", i - 1, i - 1));
    }
    let (_, diags, words) = run(&MemoryFiles::one("a.p4", bomb.clone() + "A63"), &Options::default());
    assert!(diags.first_error().unwrap().message.contains("more than"));
    assert!(words.len() < 4 * EXPANDED_MAX);

    let text = bomb + "#define F(x) x x\n" + &"F(".repeat(300) + "1" + &")".repeat(300);
    let (_, diags, _) = run(&MemoryFiles::one("a.p4", text), &Options::default());
    assert!(diags.first_error().unwrap().message.contains("deep"));

    let deep = format!("#if {}1{}\nx\n#endif", "(".repeat(5_000), ")".repeat(5_000));
    let (_, diags, _) = run(&MemoryFiles::one("a.p4", deep), &Options::default());
    assert!(diags.first_error().unwrap().message.contains("deep"));

    // A chain is no nesting.
    let mut chain = String::from("#define B0 x\n");
    for i in 1..5_000 {
        chain.push_str(&format!("#define B{i} B{}\n", i - 1));
    }
    assert_eq!(run(&MemoryFiles::one("a.p4", chain + "B4999"), &Options::default()).2, "x");
}
