//! The command line of a running switch, in the command words of p4lang's `runtime_CLI` and `simple_switch_CLI`.
//!
//! What flows through here: a line becomes words ([`parse`]), the first names a [`commands::Command`]; names and
//! numbers are checked against the program, which the switch hands out itself ([`names`]); the command calls the
//! switch by [`Calls`] (Thrift, so a bmv2 can be at the other end too) and words what came back ([`output`]).
//! [`complete`] says what may stand at a place of a line; [`interactive`] is a terminal's editing.

pub mod commands;
pub mod complete;
pub mod interactive;
pub mod names;
pub mod output;
pub mod parse;

use crate::nearest;
use crate::thrift::codec::Value;
use crate::thrift::schema::Service;
use crate::thrift::services::{BAREWIRE, PSA_SWITCH, SIMPLE_PRE_LAG, SIMPLE_SWITCH, STANDARD};
use crate::thrift::types::ENGINE;
use crate::thrift::{CallError, Calls, Client, Local};
use barewire_p4::ir::{Arch, Program};
use barewire_switch::control::Switch;
use commands::COMMANDS;
use output::{Answer, Lines};
use serde_json::{Value as Json, json};
use std::io::{self, BufRead, Write};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum CliError {
    /// What was typed is wrong.
    #[error("{0}")]
    Input(String),
    /// Too few or too many words; the command's usage is shown.
    #[error("wrong number of words; usage: {0}")]
    Usage(String),
    /// The switch refused, or does not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A file or a shell command.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl CliError {
    /// The same, with what it is about.
    pub(crate) fn about(self, what: &str) -> CliError {
        match self {
            CliError::Input(why) => CliError::Input(format!("{what}: {why}")),
            other => other,
        }
    }

    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> CliError {
        CliError::Io { what: what.into(), source }
    }

    /// As p4lang's command line words it: its own refusals after `Error:`, the switch's as they are.
    fn shown(&self) -> String {
        match self {
            CliError::Call(CallError::Refused { .. }) => self.to_string(),
            _ => format!("Error: {self}"),
        }
    }
}

/// What a line led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What it says, lines each ended.
    pub text: String,
    /// For the error stream: advice that is no part of the answer.
    pub note: Option<String>,
    /// The answer for programs: `{"command": …, "ok": true, "result": …}` or `{…, "ok": false, "error": …}`;
    /// null when the line was empty or a comment.
    pub json: Json,
    /// It was done.
    pub ok: bool,
    /// No further lines are wanted.
    pub quit: bool,
}

/// A conversation with a switch.
pub struct Session {
    calls: Box<dyn Calls + Send>,
    program: Option<Arc<Program>>,
    /// Why there is no program, for messages.
    why_none: String,
    /// What the command under way says before it asks the switch: it stands before a refusal too.
    announced: Lines,
    /// Whether it is a switch of ours, once that is known.
    ours: Option<bool>,
}

impl Session {
    /// Talk to the switch at an address, ours or a bmv2. Calls wait for answers up to `timeout`.
    pub fn connect(address: impl ToSocketAddrs, timeout: Duration) -> Result<Session, CliError> {
        let client = Client::connect(address, timeout).map_err(|error| {
            CliError::io("the switch cannot be reached (is it running, with this port?)", error)
        })?;
        Session::over(Box::new(client))
    }

    /// Talk to a switch in this process.
    pub fn local(switch: Switch) -> Result<Session, CliError> {
        Session::over(Box::new(Local::new(switch)))
    }

    /// Talk over a given way to call.
    pub fn over(calls: Box<dyn Calls + Send>) -> Result<Session, CliError> {
        let mut session = Session {
            calls,
            program: None,
            why_none: String::new(),
            announced: Lines::default(),
            ours: None,
        };
        session.reload()?;
        Ok(session)
    }

    /// Ask the switch again for its program: the one that waits to be swapped in, if there is one, else the running one.
    pub fn reload(&mut self) -> Result<(), CliError> {
        let source = self.call(&STANDARD, "bm_get_config", vec![])?.lossy();
        if source.trim().is_empty() {
            self.program = None;
            self.why_none = "the switch runs no program yet".into();
            return Ok(());
        }
        match barewire_p4_formats::import::import(&source) {
            Ok(program) => self.program = Some(Arc::new(program)),
            Err(error) => {
                self.program = None;
                self.why_none = format!("the switch's program is not understood: {error}");
            }
        }
        Ok(())
    }

    /// The switch's program, if it runs one.
    pub fn loaded(&self) -> Option<&Arc<Program>> {
        self.program.as_ref()
    }

    fn program(&self) -> Result<Arc<Program>, CliError> {
        self.program.clone().ok_or_else(|| CliError::Input(self.why_none.clone()))
    }

    fn call(&mut self, service: &'static Service, method: &str, args: Vec<Value>) -> Result<Value, CliError> {
        Ok(self.calls.call(service, method, args)?)
    }

    fn standard(&mut self, method: &str, args: Vec<Value>) -> Result<Value, CliError> {
        self.call(&STANDARD, method, args)
    }

    fn multicast(&mut self, method: &str, args: Vec<Value>) -> Result<Value, CliError> {
        self.call(&SIMPLE_PRE_LAG, method, args)
    }

    /// Whether the switch is one of ours, with our own service.
    fn is_ours(&mut self) -> Result<bool, CliError> {
        if let Some(known) = self.ours {
            return Ok(known);
        }
        let info = self.standard("bm_mgmt_get_info", vec![])?;
        Ok(*self.ours.insert(info.field(ENGINE).is_some()))
    }

    /// Call our own service: another switch is not even asked, as some end the connection then.
    fn own(&mut self, method: &str, args: Vec<Value>) -> Result<Value, CliError> {
        match self.is_ours()? {
            true => self.call(&BAREWIRE, method, args),
            false => Err(CliError::Input("this switch cannot do it: it is not a barewire switch".into())),
        }
    }

    /// Say what is about to be done.
    fn announce(&mut self, line: impl std::fmt::Display) {
        self.announced.say(line);
    }

    /// The service of the program's target.
    fn target(&self) -> &'static Service {
        match &self.program {
            Some(program) if program.arch == Arch::Psa => &PSA_SWITCH,
            _ => &SIMPLE_SWITCH,
        }
    }

    /// Do one line.
    pub fn run_line(&mut self, line: &str) -> Outcome {
        let line = line.trim();
        let nothing = Outcome { text: String::new(), note: None, json: Json::Null, ok: true, quit: false };
        if line.is_empty() || line.starts_with('#') {
            return nothing;
        }
        // `!command` and `shell command` keep their spaces.
        let shell = line.strip_prefix('!').or_else(|| line.strip_prefix("shell "));
        let words = parse::words(line);
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = match words.remove(0) {
            "EOF" | "quit" | "exit" => return Outcome { quit: true, ..nothing },
            _ if shell.is_some() => "shell",
            "?" => "help",
            name => name,
        };
        self.announced = Lines::default();
        let result = match (shell, COMMANDS.iter().find(|command| command.name == name)) {
            (Some(command), _) => commands::device::shell(command),
            (None, Some(command)) => command.run(self, &words),
            (None, None) => {
                let near = nearest(name, COMMANDS.iter().map(|command| command.name));
                Err(CliError::Input(format!("unknown command '{name}'{near}")))
            }
        };
        let announced = std::mem::take(&mut self.announced).0;
        match result {
            Ok(Answer { text, note, json }) => Outcome {
                text: announced + &text,
                note,
                json: json!({"command": name, "ok": true, "result": json}),
                ok: true,
                quit: false,
            },
            Err(error) => Outcome {
                text: format!("{announced}{}\n", error.shown()),
                note: None,
                json: json!({"command": name, "ok": false, "error": error.to_string()}),
                ok: false,
                quit: false,
            },
        }
    }
}

/// How a script is run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptOptions {
    /// Answers as JSON, one object a line.
    pub json: bool,
    /// Show p4lang's prompt before each answer, for what parses its output.
    pub prompt: bool,
    /// End at the first line that is not done.
    pub stop_at_failure: bool,
}

/// What became of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptReport {
    /// Commands run.
    pub commands: usize,
    /// Of those, not done.
    pub failed: usize,
    /// The number of the first line that was not done.
    pub first_failure: Option<usize>,
}

/// p4lang's prompt.
pub const PROMPT: &str = "RuntimeCmd: ";

/// Run a script's lines: answers go to `out`, advice to `notes`.
pub fn run_script(
    session: &mut Session,
    from: impl BufRead,
    out: &mut dyn Write,
    notes: &mut dyn Write,
    options: ScriptOptions,
) -> io::Result<ScriptReport> {
    let mut report = ScriptReport::default();
    for (at, line) in from.lines().enumerate() {
        let outcome = session.run_line(&line?);
        if options.prompt {
            write!(out, "{PROMPT}")?;
        }
        if let Some(note) = &outcome.note {
            writeln!(notes, "{note}")?;
        }
        if !outcome.json.is_null() {
            report.commands += 1;
            if options.json { writeln!(out, "{}", outcome.json)? } else { write!(out, "{}", outcome.text)? }
        }
        if !outcome.ok {
            report.failed += 1;
            report.first_failure.get_or_insert(at + 1);
            if options.stop_at_failure {
                break;
            }
        }
        if outcome.quit {
            break;
        }
    }
    if options.prompt {
        writeln!(out, "{PROMPT}")?;
    }
    out.flush()?;
    Ok(report)
}
