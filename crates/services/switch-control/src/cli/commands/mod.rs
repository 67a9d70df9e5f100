//! The commands.

pub mod arrays;
pub mod device;
pub mod multicast;
pub mod profiles;
pub mod tables;
pub mod target;

use super::output::{Answer, Lines};
use super::{CliError, Session};
use crate::nearest;
use crate::thrift::codec::Value;
use serde_json::{Value as Json, json};

/// What kind of word stands at a place of a command, for completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Slot {
    Table,
    /// A table with an action profile.
    IndirectTable,
    /// An action of the table before it.
    Action,
    Profile,
    /// An action of the profile before it.
    ProfileAction,
    Counter,
    Meter,
    Register,
    ValueSet,
    Crc16,
    Crc32,
    Toeplitz,
    Command,
    /// Nothing to complete.
    Any,
}

/// How many words a command takes: at least, and at most.
#[derive(Debug, Clone, Copy)]
pub struct Takes(usize, usize);

const fn exactly(count: usize) -> Takes {
    Takes(count, count)
}

const fn at_least(count: usize) -> Takes {
    Takes(count, usize::MAX)
}

const fn between(least: usize, most: usize) -> Takes {
    Takes(least, most)
}

type Run = fn(&mut Session, &[&str]) -> Result<Answer, CliError>;

/// A command.
pub struct Command {
    /// Its word.
    pub name: &'static str,
    /// What follows it.
    pub usage: &'static str,
    /// What it does.
    pub help: &'static str,
    /// What stands at each place.
    pub slots: &'static [Slot],
    takes: Takes,
    run: Run,
}

impl Command {
    /// Run it on the words after its name.
    pub fn run(&self, session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
        if words.len() < self.takes.0 || words.len() > self.takes.1 {
            return Err(CliError::Usage(self.line()));
        }
        (self.run)(session, words)
    }

    /// Its usage as one line.
    pub fn line(&self) -> String {
        format!("{} {}", self.name, self.usage).trim_end().to_owned()
    }
}

const fn command(
    name: &'static str,
    usage: &'static str,
    help: &'static str,
    slots: &'static [Slot],
    takes: Takes,
    run: Run,
) -> Command {
    Command { name, usage, help, slots, takes, run }
}

const PARTS: [&[Command]; 7] = [
    GENERAL,
    tables::COMMANDS,
    profiles::COMMANDS,
    multicast::COMMANDS,
    arrays::COMMANDS,
    device::COMMANDS,
    target::COMMANDS,
];

/// All commands.
pub struct Commands;

/// All commands.
pub static COMMANDS: Commands = Commands;

impl Commands {
    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &'static Command> + Clone {
        PARTS.into_iter().flatten()
    }
}

const GENERAL: &[Command] = &[
    command("greet", "", "say hello", &[], exactly(0), |_, _| Ok(Answer::line("hello", json!("hello")))),
    command(
        "help",
        "[COMMAND]",
        "list the commands, or explain one",
        &[Slot::Command],
        between(0, 1),
        |_, words| help(words.first().copied()),
    ),
    command("shell", "COMMAND…", "run a command of the system's shell", &[], at_least(1), |_, words| {
        device::shell(&words.join(" "))
    }),
    command("quit", "", "leave", &[], exactly(0), |_, _| Ok(Answer::silent())),
];

fn help(name: Option<&str>) -> Result<Answer, CliError> {
    let mut lines = Lines::default();
    let Some(name) = name else {
        lines.say("Commands (help COMMAND explains one):");
        lines.say("");
        let mut names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
        names.sort_unstable();
        let width = names.iter().map(|name| name.len()).max().unwrap_or(0) + 2;
        for row in names.chunks(3) {
            let row: String = row.iter().map(|name| format!("{name:width$}")).collect();
            lines.say(row.trim_end());
        }
        return Ok(lines.answer(json!(names)));
    };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        let near = nearest(name, COMMANDS.iter().map(|command| command.name));
        return Err(CliError::Input(format!("unknown command '{name}'{near}")));
    };
    lines.say(command.line());
    lines.say(format!("    {}", command.help));
    Ok(lines.answer(json!({"usage": command.line(), "help": command.help})))
}

/// Context 0: the first argument of most methods.
const CXT: Value = Value::I32(0);

/// A string for the wire.
fn text(text: &str) -> Value {
    Value::text(text)
}

/// A list of texts for programs.
fn list(items: impl Iterator<Item = Json>) -> Json {
    Json::Array(items.collect())
}
