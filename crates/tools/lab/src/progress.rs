//! How far something that takes long has come, for whoever waits.

use crate::LabError;

/// Told how many steps are done, how many there are, and what is done now; called often, also within a step. False ends what
/// goes on.
pub type Progress<'a> = dyn FnMut(u64, u64, &str) -> bool + 'a;

/// Steps of which the number is known beforehand.
pub(crate) struct Steps<'a> {
    done: u64,
    total: u64,
    tell: &'a mut Progress<'a>,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(total: usize, tell: &'a mut Progress<'a>) -> Steps<'a> {
        Steps { done: 0, total: total as u64, tell }
    }

    /// Says what is done now; nothing new is done yet.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub(crate) fn look(&mut self, what: &str) -> Result<(), LabError> {
        if (self.tell)(self.done, self.total, what) { Ok(()) } else { Err(LabError::Interrupted) }
    }

    /// As [`look`](Steps::look), when a step is done.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub(crate) fn step(&mut self, what: &str) -> Result<(), LabError> {
        self.done = (self.done + 1).min(self.total);
        self.look(what)
    }
}

/// For who does not want to know.
pub(crate) fn silent(_: u64, _: u64, _: &str) -> bool {
    true
}
