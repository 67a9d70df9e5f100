//! A terminal that is drawn on, given back as it was however the drawing ends: by return, by panic, by signal.

use crate::failure::{Code, Failure};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::terminal::is_raw_mode_enabled;
use ratatui::{DefaultTerminal, Frame};
use std::io::{self, IsTerminal as _};
use std::time::Duration;

/// What happened at the terminal.
pub enum Input {
    /// Nothing.
    Nothing,
    /// A key was pressed.
    Key(KeyEvent),
    /// Something else: a new size, say.
    Other,
}

/// The terminal while it is ours.
pub struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal. A panic gives it back before it is told.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn open() -> io::Result<Screen> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                // Half of it may have been taken.
                restore();
                Err(error)
            }
        }
    }

    /// Draws one picture.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(|_| ())
    }

    /// What happens within `wait`.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn input(&self, wait: Duration) -> io::Result<Input> {
        if !event::poll(wait)? {
            return Ok(Input::Nothing);
        }
        Ok(match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Press => Input::Key(key),
            _ => Input::Other,
        })
    }

    /// The key that is pressed within `wait`; `None`: none, or something else happened, such as a new size.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn key(&self, wait: Duration) -> io::Result<Option<KeyEvent>> {
        Ok(match self.input(wait)? {
            Input::Key(key) => Some(key),
            Input::Nothing | Input::Other => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, if it was taken.
pub fn restore() {
    if is_raw_mode_enabled().unwrap_or(false) {
        ratatui::restore();
    }
}

/// Refuses where there is no terminal to draw on.
///
/// # Errors
/// [`Code::Unfit`].
pub fn check(hint: &str) -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::new(Code::Unfit, "--live needs a terminal, and the output is not one").hint(hint).into())
}
