//! Starting the binary under test and reading what it says.

use std::process::{Command, Output};

/// The binary, as built for these tests.
pub fn barewire(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(args);
    command
}

/// What one call gave.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Said {
    said(barewire(args).output().expect("the binary starts"))
}

/// What a finished call gave.
pub fn said(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
