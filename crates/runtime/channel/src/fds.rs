//! The descriptors that the daemon passes to the application.

use crate::ChannelError;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The application's descriptors of one channel. The daemon sends them with its welcome and drops them; the application
/// attaches with them.
#[derive(Debug)]
pub struct ChannelFds {
    /// The sealed memfd.
    pub memory: OwnedFd,
    /// The application's end of the socket pair that wakes it.
    pub wake_app: OwnedFd,
    /// The eventfd that wakes the daemon.
    pub wake_daemon: OwnedFd,
}

impl ChannelFds {
    /// Descriptors of a channel.
    pub const COUNT: usize = 3;

    /// The descriptors in the order in which they are passed.
    pub fn as_fds(&self) -> [BorrowedFd<'_>; ChannelFds::COUNT] {
        [self.memory.as_fd(), self.wake_app.as_fd(), self.wake_daemon.as_fd()]
    }
}

impl TryFrom<Vec<OwnedFd>> for ChannelFds {
    type Error = ChannelError;

    /// What came with a welcome, in the order of [`as_fds`](ChannelFds::as_fds).
    fn try_from(fds: Vec<OwnedFd>) -> Result<ChannelFds, ChannelError> {
        let [memory, wake_app, wake_daemon] = <[OwnedFd; ChannelFds::COUNT]>::try_from(fds)
            .map_err(|fds| ChannelError::Descriptors { got: fds.len() })?;
        Ok(ChannelFds { memory, wake_app, wake_daemon })
    }
}
