//! A terminal: editing, history, completion.

use super::complete::complete;
use super::{CliError, PROMPT, Session};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::io;
use std::sync::Arc;

/// Completion by the program the switch runs.
struct ProgramCompleter(Option<Arc<barewire_p4::ir::Program>>);

impl Completer for ProgramCompleter {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(self.0.as_deref(), line, pos))
    }
}

impl Hinter for ProgramCompleter {
    type Hint = String;
}

impl Highlighter for ProgramCompleter {}
impl Validator for ProgramCompleter {}
impl Helper for ProgramCompleter {}

/// Talk to the person at the terminal until they leave. With `json` answers are JSON, one object a line.
pub fn run_interactive(session: &mut Session, json: bool) -> Result<(), CliError> {
    let terminal = |error: ReadlineError| CliError::io("the terminal", io::Error::other(error));
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor: Editor<ProgramCompleter, MemHistory> =
        Editor::with_history(config, MemHistory::new()).map_err(terminal)?;
    loop {
        // The program may have been swapped by the line before.
        editor.set_helper(Some(ProgramCompleter(session.loaded().cloned())));
        let line = match editor.readline(PROMPT) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal(error)),
        };
        // A line that history does not take (empty, or twice the same) is no failure.
        let _ = editor.add_history_entry(line.as_str());
        let outcome = session.run_line(&line);
        if let Some(note) = &outcome.note {
            eprintln!("{note}");
        }
        if json && !outcome.json.is_null() {
            println!("{}", outcome.json);
        } else if !json {
            print!("{}", outcome.text);
        }
        if outcome.quit {
            return Ok(());
        }
    }
}
