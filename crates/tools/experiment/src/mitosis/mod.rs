//! Experiment files of the field's RDMA benchmarks (MITOSIS, KRCORE), read into the same [`Plan`].
//!
//! ```text
//! run.toml        global_configs, [[sync]], [[pass]] host path cmd local          `{}` in cmd is global_configs, a doubled brace is one
//! template.toml   [global], [[template.pass]] role path cmd, [template.placeholder]    `${name}`, `${@incr}`; a list is swept
//! ```
//! Each pass is a role of one shell command, started a second after the one before. The run ends when all have ended or at its
//! time-out, since many (`dmesg -w`) never end by themselves; rows are taken from whichever passes print some. A file's password
//! and passphrase are skipped: keys are used, and what was skipped is shown nowhere, messages included.

mod commands;
mod passes;
mod run;
mod template;

use crate::plan::{Collect, Plan};
use barewire_text::{Place, Quote, hint, key_error};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// What the original's command line says beside the file, and what ours adds.
#[derive(Clone, Debug, Default)]
pub struct MitosisOptions {
    /// Hosts to leave out.
    pub black: BTreeSet<String>,
    /// The user on every host; a file's own wins.
    pub user: Option<String>,
    /// How long a run may take. `None`: for ever, as `dmesg -w` does.
    pub timeout: Option<Duration>,
    /// How rows are found in the output. `None`: no rows, the logs are kept.
    pub collect: Option<Collect>,
    /// Hosts whose passes serve: they print no rows, and a run is over when the others have ended.
    pub serving: BTreeSet<String>,
    /// Template: which hosts play a role.
    pub roles: BTreeMap<String, Vec<String>>,
    /// Template: what stands before each pass's path.
    pub path: Option<String>,
    /// Template: placeholders over those of the file. Several values are swept.
    pub placeholders: BTreeMap<String, Vec<String>>,
}

/// The pattern of the rates that the modules of these benchmarks print each second.
pub const RATE_PATTERN: &str = r"\bthpt *: *(?P<thpt>[0-9]+(?:\.[0-9]+)?)";

/// A file that was read.
#[derive(Clone, Debug)]
pub struct MitosisFile {
    /// What it says.
    pub plan: Plan,
    /// What in it has no effect, for the user.
    pub warnings: Vec<String>,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MitosisError {
    /// Something in it is wrong.
    #[error("{path}:{place}: {what}: {why}")]
    At {
        /// The file.
        path: String,
        /// Where in it.
        place: Place,
        /// Which part.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The options do not fit the file.
    #[error("{0}")]
    Options(String),
}

/// Whether a text is a file of this kind, rather than an experiment of ours.
pub fn is_mitosis(text: &str) -> bool {
    let heading = |line: &str| {
        let line: String = line.split('#').next().unwrap_or("").split_whitespace().collect();
        ["[[pass]]", "[template]", "[[template.pass]]", "[template.placeholder]"].contains(&line.as_str())
    };
    text.lines().any(heading)
}

/// Parses a file's text. `path` is for messages, `folder` is what paths in it are relative to.
///
/// # Errors
/// [`MitosisError`], with file and place.
pub fn parse(
    text: &str,
    path: &str,
    folder: &Path,
    options: &MitosisOptions,
) -> Result<MitosisFile, MitosisError> {
    let source = Source { text, path };
    let template = text.lines().any(|line| {
        line.trim_start().starts_with("[template") || line.trim_start().starts_with("[[template")
    });
    let read = if template { template::read(source, options)? } else { run::read(source)? };
    passes::plan(source, folder, read, options)
}

/// The text that is read, for places in it.
#[derive(Clone, Copy)]
struct Source<'a> {
    text: &'a str,
    path: &'a str,
}

impl Source<'_> {
    fn at(self, byte: usize, what: impl Into<String>, why: impl Into<String>) -> MitosisError {
        let place = Place::of(self.text, byte);
        MitosisError::At { path: self.path.into(), place, what: what.into(), why: why.into() }
    }

    /// What the TOML reader says, without the line that it shows: that line may have a password in it.
    fn syntax(self, e: &toml::de::Error) -> MitosisError {
        let byte = e.span().map_or(0, |span| span.start);
        let line = self.text.get(..byte).map_or("", |before| before.rsplit('\n').next().unwrap_or_default());
        let line = format!(
            "{line}{}",
            self.text.get(byte..).and_then(|rest| rest.lines().next()).unwrap_or_default()
        );
        let secret = SECRETS.iter().any(|key| line.contains(key));
        let why = if secret {
            "cannot be read (the value is not shown)".to_owned()
        } else {
            with_nearest(e.message())
        };
        self.at(byte, "file", why)
    }
}

/// Keys whose values are never looked at.
const SECRETS: [&str; 3] = ["pwd", "passphrase", "password"];

/// What the TOML reader says, with the nearest right word where it is about an unknown key.
fn with_nearest(message: &str) -> String {
    let near = key_error(message).and_then(|error| error.nearest());
    format!("{}{}", message.trim_end(), hint(": ", near, Quote::Back))
}

#[cfg(test)]
mod tests;
