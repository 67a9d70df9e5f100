//! The formatter on every shared source: nothing is lost, nothing changes the second time, and the program stays the same.

mod common;

use barewire_p4_source::fmt::format;
use barewire_p4_source::lex::TokenKind;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, Resolver, SourceMap, pp};

/// Files of the corpus, one of them with another text.
struct Patched<'a>(&'a common::Folder, &'a str, &'a str);

impl Resolver for Patched<'_> {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        if path == self.1 { Ok(Some(self.2.as_bytes().to_vec())) } else { self.0.read(path) }
    }
}

/// What the parser would see.
fn tokens(files: &dyn Resolver, path: &str, text: &str) -> Vec<(TokenKind, String)> {
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let root = map.add(path, text);
    let out = pp::preprocess(&mut map, files, &Options::default(), root, &mut diags);
    let text = |t: &barewire_p4_source::lex::Token| match t.kind {
        TokenKind::Ident | TokenKind::Int | TokenKind::Str => out.names.name(t.text).to_string(),
        kind => kind.text().to_owned(),
    };
    out.tokens.iter().map(|t| (t.kind, text(t))).collect()
}

#[test]
fn every_sample_keeps_its_tokens_and_is_stable() {
    let Some((folder, _)) = common::samples() else { return };
    let mut paths = Vec::new();
    common::files(&folder.0, &mut paths);
    assert!(paths.len() > 1_000);
    let mut wrong = Vec::new();
    let (mut lines, mut comments) = (0, 0);
    for path in &paths {
        let name = path.strip_prefix(&folder.0).unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let once = match format(&text) {
            Ok(once) => once,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        match format(&once) {
            Ok(twice) if twice == once => {}
            Ok(twice) => {
                let at = once.lines().zip(twice.lines()).position(|(a, b)| a != b).unwrap_or(0);
                let line = |t: &str| t.lines().nth(at).unwrap_or("").to_owned();
                wrong.push(format!(
                    "{name}:{}: not stable:\n    {}\n    {}",
                    at + 1,
                    line(&once),
                    line(&twice)
                ));
            }
            Err(error) => wrong.push(format!("{name}: {error} (the second time)")),
        }
        // `__LINE__` and `#line` are about lines, which move.
        if !text.contains("__LINE__")
            && tokens(&folder, &name, &text) != tokens(&Patched(&folder, &name, &once), &name, &once)
        {
            wrong.push(format!("{name}: other tokens"));
        }
        comments += once.matches("//").count() + once.matches("/*").count();
        assert_eq!(once.matches("/*").count(), text.matches("/*").count(), "{name}");
        assert_eq!(once.matches("//").count(), text.matches("//").count(), "{name}");
        for line in once.lines() {
            lines += 1;
            let verbatim =
                line.contains("/*") || line.contains("//") || line.contains('"') || line.contains('*');
            if line.ends_with(' ') && !verbatim {
                wrong.push(format!("{name}: a blank at the end of a line: {line:?}"));
                break;
            }
        }
    }
    println!("{} files, {lines} lines, {comments} signs of comments", paths.len());
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        paths.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
}

#[test]
fn our_own_files_are_stable() {
    for name in barewire_p4_source::builtin::names() {
        let (_, text) = barewire_p4_source::builtin::file(name).unwrap();
        let once = format(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(format(&once).unwrap(), once, "{name}");
        assert_eq!(
            tokens(&MemoryFiles::default(), name, text),
            tokens(&MemoryFiles::default(), name, &once),
            "{name}"
        );
    }
}
