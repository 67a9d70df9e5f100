//! P4 source on this machine: who reads its files, and the arguments of every verb that takes it.

use barewire_p4_source::{MacroOption, Options, Resolver};
use std::io::ErrorKind;

/// Files of the file system.
pub struct Files;

impl Resolver for Files {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// What the preprocessor takes.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// A directory with files to include
    #[arg(short = 'I', value_name = "DIRECTORY")]
    include: Vec<String>,
    /// Define a macro, before those of -U are taken away
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Take a macro away
    #[arg(short = 'U', value_name = "NAME")]
    undefine: Vec<String>,
}

impl SourceArgs {
    /// As the preprocessor wants them.
    pub fn options(&self) -> Options {
        let defined = self.define.iter().cloned().map(MacroOption::Define);
        let undefined = self.undefine.iter().cloned().map(MacroOption::Undefine);
        Options { include: self.include.clone(), macros: defined.chain(undefined).collect() }
    }
}
