//! Whatever a program says, its types are checked without a panic, to an end, with messages that have places: sources of the
//! field with pieces of them moved, doubled, left out, and programs that nest, widen and multiply without end.

mod common;

use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};

/// Checks whatever tree there is, also one that did not parse; returns the errors, drawn.
fn check(text: &str) -> (usize, String) {
    let files = MemoryFiles::one("a.p4", text);
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let program = parse(&mut map, &files, &Options::default(), "a.p4", &mut diags);
    types::check(&program, &map, &mut diags);
    (diags.error_count(), render_all(&map, &diags, Style::Plain))
}

/// xorshift: the same mutations in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end.max(1) as u64).unwrap()
    }
}

#[test]
fn mutated_sources_do_not_panic() {
    let Some((folder, samples)) = common::samples() else { return };
    let rounds: usize = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for sample in &samples {
        let Ok(text) = std::fs::read_to_string(folder.0.join(&sample.path)) else { continue };
        let words: Vec<&str> =
            text.split_inclusive([' ', '\n', ';', '(', ')', '{', '}', '<', '>', '.']).collect();
        for _ in 0..rounds {
            let mut mutated = words.clone();
            for _ in 0..=dice.below(6) {
                let (a, b) = (dice.below(mutated.len()), dice.below(mutated.len()));
                match dice.below(4) {
                    0 => mutated.swap(a, b),
                    1 => mutated[a] = mutated[b],
                    2 => drop(mutated.remove(a)),
                    _ => mutated.insert(a, words[dice.below(words.len())]),
                }
                if mutated.is_empty() {
                    break;
                }
            }
            refused += usize::from(check(&mutated.concat()).0 > 0);
        }
    }
    println!("{refused} mutated sources refused");
    assert!(refused > samples.len() / 2);
}

#[test]
fn what_grows_without_end_is_refused() {
    // Types that double at each step.
    let mut text = "typedef tuple<bit<8>, bit<8>> t0;\n".to_owned();
    for at in 0..60 {
        text.push_str(&format!("typedef tuple<t{at}, t{at}> t{};\n", at + 1));
    }
    let (errors, drawn) = check(&text);
    assert!(errors > 0 && drawn.contains("too many parts"), "{drawn}");

    // Structs that double at each step, and their size.
    let mut text = "struct s0 { bit<8> a; bit<8> b; }\n".to_owned();
    for at in 0..60 {
        text.push_str(&format!("struct s{} {{ s{at} a; s{at} b; }}\n", at + 1));
    }
    text.push_str("control c(in s60 x, in s60 y) { apply { bool b = x == y; } }\n");
    let (errors, drawn) = check(&text);
    assert!(errors > 0 && drawn.contains("too many fields"), "{drawn}");
    let sized = format!(
        "{}const int w = s9.maxSizeInBits();\n",
        text.lines().take(10).map(|l| format!("{l}\n")).collect::<String>()
    );
    assert_eq!(check(&sized).0, 0, "{}", check(&sized).1);

    // The same by type arguments.
    let mut text = "struct g<T> { T a; T b; }\ntypedef bit<8> t0;\n".to_owned();
    for at in 0..60 {
        text.push_str(&format!("typedef g<t{at}> t{};\n", at + 1));
    }
    text.push_str("const t60 x = {...};\n");
    let (errors, drawn) = check(&text);
    assert!(errors > 0 && drawn.contains("too many fields"), "{drawn}");

    // Unknown names and priorities without end: what is said of them does not take longer for each.
    let text: String = (0..3_000).map(|at| format!("const bit<8> q{at} = u{at};\n")).collect();
    assert!(check(&text).0 > 0);
    let entries: String = (0..10_000).map(|at| format!("priority={at}: {at}: a();\n")).collect();
    let text = format!(
        "match_kind {{ ternary }} control c(in bit<32> x) {{ action a() {{ }}
         table t {{ key = {{ x: ternary; }} actions = {{ a; }} default_action = a; largest_priority_wins = false; entries = {{ {entries} }} }}
         apply {{ t.apply(); }} }}\n"
    );
    assert_eq!(check(&text).0, 0, "{}", check(&text).1);

    // Numbers that square at each step.
    let mut text = "const int n0 = 3;\n".to_owned();
    for at in 0..60 {
        text.push_str(&format!("const int n{} = n{at} * n{at};\n", at + 1));
    }
    let (errors, drawn) = check(&text);
    assert!(errors > 0 && drawn.contains("too large"), "{drawn}");

    for text in [
        "const bit<99999999999> x = 1;",
        "const bit<4096> x = 1;",
        "const bit<8> x = 1 << 99999999999999999999;",
        "struct S { bit<8>[4000000000] x; }",
        "const int x = -5 >> -1;",
        "const bit<8> x = 8w1[3:5];",
    ] {
        assert!(check(text).0 > 0, "{text}");
    }
}
