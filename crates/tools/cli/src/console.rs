//! Where text goes: results to stdout, notes and errors to stderr.

use crate::args::Color;
use barewire_base::Duration;
use barewire_bench::{Shown, Ticker};
use std::io::{self, IsTerminal, Write};

/// How to talk to whoever started us.
pub struct Console {
    color: bool,
    quiet: bool,
}

impl Console {
    /// As the command line says.
    pub fn new(color: Color, quiet: bool) -> Console {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => io::stderr().is_terminal() && !set("NO_COLOR") && !dumb,
        };
        Console { color, quiet }
    }

    /// Whether only results and errors are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether messages have colors.
    pub fn has_color(&self) -> bool {
        self.color
    }

    /// A line that a user wants to know and a program does not.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.say("36", "note", text);
        }
    }

    /// A plain line of explanation.
    pub fn tell(&self, text: &str) {
        if !self.quiet {
            // A terminal that went away must not end a measurement.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// The `error:` line and its causes.
    pub fn error(&self, text: &str) {
        self.say("1;31", "error", text);
    }

    /// The `hint:` line.
    pub fn hint(&self, text: &str) {
        self.say("33", "hint", text);
    }

    fn say(&self, style: &str, label: &str, text: &str) {
        let _ = if self.color {
            writeln!(io::stderr(), "\x1b[{style}m{label}:\x1b[0m {text}")
        } else {
            writeln!(io::stderr(), "{label}: {text}")
        };
    }

    /// How a plan of this length shows that it goes on, and how long it still takes.
    pub fn ticker(&self, planned: Duration) -> Ticker {
        Ticker::new(Shown::on_stderr(self.quiet), planned)
    }
}

/// Results.
///
/// # Errors
/// When nobody reads them any more, or a disk is full.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}
