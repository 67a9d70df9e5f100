//! What a program becomes: the report, and each function's machine code.
//!
//! `cargo run --release -p barewire-p4-jit --example listing -- PROGRAM.json [FUNCTION]`

use barewire_p4_formats::import::import;
use barewire_p4_jit::{Options, compile_with};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which program?")?;
    let only = args.next();
    let program = Arc::new(import(&std::fs::read_to_string(&path)?)?);
    let compiled =
        compile_with(program, Options { listing: only.is_some(), verify: false, ..Options::default() })?;
    let report = compiled.report();
    println!("{report}");
    for function in &report.functions {
        if only.as_ref().is_some_and(|only| function.name.contains(only.as_str())) {
            println!("\n{}:\n{}", function.name, function.listing.as_deref().unwrap_or(""));
        }
    }
    Ok(())
}
