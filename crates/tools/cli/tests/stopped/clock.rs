//! A clock on the wall that a test sets for processes that it starts. The machine's own is everybody's: no test sets that.

use barewire_testing::{Folder, Needs, have};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;

const HOUR_S: i64 = 3600;
/// What somebody may set it by: there, back, and to another year.
pub const STEPS_S: [i64; 6] = [5 * HOUR_S, -10 * HOUR_S, 3, -2, 9_000 * HOUR_S, -9_000 * HOUR_S];

/// The clock, and what puts it into a process.
pub struct WallClock {
    folder: Folder,
    page: File,
    library: PathBuf,
}

impl WallClock {
    /// None, and told, where there is no C compiler.
    pub fn new() -> Option<WallClock> {
        let folder = Folder::new("clock");
        let library = folder.path().join("libclock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stopped/clock.c");
        let mut cc = Command::new("cc");
        cc.args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-shared",
            "-fPIC",
            source,
        ])
        .arg("-o")
        .arg(&library);
        let out = have(Needs::Tools, cc.output().map_err(|e| format!("no C compiler: {e}")))?;
        assert!(out.status.success(), "cc: {}", String::from_utf8_lossy(&out.stderr));
        let at = folder.path().join("page");
        let page = File::options().read(true).write(true).create(true).truncate(true).open(at).unwrap();
        page.write_all_at(&[0; 24], 0).unwrap();
        Some(WallClock { folder, page, library })
    }

    /// A process that goes by this clock.
    pub fn give_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("LD_PRELOAD", &self.library).env("CLOCK_PAGE", self.folder.path().join("page"))
    }

    /// Sets it, by so much from what is true.
    pub fn set(&self, by_s: i64) {
        self.page.write_all_at(&by_s.to_ne_bytes(), 0).unwrap();
    }

    /// How often it was read, and other clocks.
    pub fn readings(&self) -> (u64, u64) {
        let at = |offset| {
            let mut bytes = [0; 8];
            self.page.read_exact_at(&mut bytes, offset).unwrap();
            u64::from_ne_bytes(bytes)
        };
        (at(8), at(16))
    }
}
