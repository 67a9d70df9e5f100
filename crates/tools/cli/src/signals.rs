//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! The first one ends what runs and lets `main` return, so that everything is dropped in order. The second one ends the process
//! where it stands. Nothing is left behind then either: hosts of a benchmark have no name, so that the kernel removes them
//! with their last process, and a program on an interface hangs on a descriptor.

use crate::failure::Code;
use anyhow::Context as _;
use barewire_bench::{interrupt, interrupted};
use barewire_engine::StopFlag;
use std::io::Write as _;

/// Between two looks at the flag that a signal came.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

/// Catches the signals. Once per process.
///
/// # Errors
/// What the system says.
pub fn catch() -> anyhow::Result<()> {
    let on_signal = || {
        if interrupted() {
            crate::screen::restore();
            std::process::exit(Code::Interrupted as i32);
        }
        interrupt();
        let _ = writeln!(std::io::stderr(), "interrupted: stopping (once more: at once)");
    };
    ctrlc::set_handler(on_signal).context("catching signals")
}

/// Raises `stop` when a signal has come.
pub fn stop_when_interrupted(stop: &StopFlag) {
    let stop = stop.clone();
    // It ends with the process at the latest: nothing waits for it.
    std::thread::spawn(move || {
        while !interrupted() {
            std::thread::sleep(LOOK_EVERY);
        }
        stop.stop();
    });
}
