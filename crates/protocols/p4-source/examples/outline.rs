//! Reads a P4 program and prints its declarations, or what is wrong with it: `outline FILE.p4 [INCLUDE_DIRECTORY…]`.

use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::{Diagnostics, Options, Resolver, SourceMap, parse};
use std::process::ExitCode;

struct Files;

impl Resolver for Files {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: outline FILE.p4 [INCLUDE_DIRECTORY…]");
        return ExitCode::FAILURE;
    };
    let options = Options { include: args.collect(), ..Options::default() };
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let program = parse(&mut map, &Files, &options, &path, &mut diags);
    eprint!("{}", render_all(&map, &diags, Style::Plain));
    for decl in &program.decls {
        if let (Some(name), Some(place)) = (decl.name(), map.place(decl.span)) {
            println!("{place}: {name}");
        }
    }
    if diags.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
