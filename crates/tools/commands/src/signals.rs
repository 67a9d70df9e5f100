//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! The first one ends what runs and lets `main` return, so that everything is dropped in order. The second one ends the process
//! where it stands. Nothing is left behind then either: hosts of a benchmark have no name, so that the kernel removes them
//! with their last process, and a program on an interface hangs on a descriptor.

use crate::failure::Code;
use anyhow::Context as _;
use barewire_bench::{interrupt, interrupted};
use barewire_engine::StopFlag;
use signal_hook::consts::signal::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
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

/// Signals that are not for us but for the program that we run for somebody.
pub struct HandedOn(Signals);

impl HandedOn {
    /// Catches the signals. Once per process, and instead of [`catch`]: none of them ends us before the program.
    ///
    /// # Errors
    /// What the system says.
    pub fn catch() -> anyhow::Result<HandedOn> {
        let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM];
        Signals::new(all).map(HandedOn).context("catching signals")
    }

    /// The number of a signal that has come; `None`: no more.
    pub fn pending(&mut self) -> Option<i32> {
        self.0.pending().next()
    }
}
