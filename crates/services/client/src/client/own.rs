//! An engine in threads of the application, in the place of a daemon.
//!
//! It is the daemon's, with one application, and the client talks to it over shared memory as to any other: everything above does not
//! see a difference.

use super::ClientConfig;
use barewire_channel::AttachError;
use std::path::PathBuf;

/// Where such a place is named, unless the configuration names one.
const VARIABLE: &str = "BAREWIRE_SOCKET";

/// What the application asked for by name, or its user by the environment.
fn place(config: &ClientConfig) -> PathBuf {
    match config.socket.as_os_str().is_empty() {
        true => std::env::var_os(VARIABLE).unwrap_or_default().into(),
        false => config.socket.clone(),
    }
}

#[cfg(feature = "engine")]
mod engine {
    use super::*;
    pub(crate) use barewire_daemon::OwnEngine;

    pub(in crate::client) fn start(config: &ClientConfig) -> Result<Option<OwnEngine>, AttachError> {
        OwnEngine::asked_for(&place(config)).transpose().map_err(|e| match e.is_asked_wrong() {
            true => AttachError::Place { what: e.to_string() },
            false => AttachError::Engine { what: e.to_string() },
        })
    }
}

#[cfg(not(feature = "engine"))]
mod engine {
    use super::*;
    use std::path::Path;

    /// There is none.
    pub(crate) enum OwnEngine {}

    impl OwnEngine {
        pub(in crate::client) fn socket(&self) -> &Path {
            match *self {}
        }
    }

    pub(in crate::client) fn start(config: &ClientConfig) -> Result<Option<OwnEngine>, AttachError> {
        match place(config).to_string_lossy().starts_with("embedded:") {
            true => Err(AttachError::Place {
                what:
                    "this program has no engine of its own: build barewire-client with the feature `engine`"
                        .to_owned(),
            }),
            false => Ok(None),
        }
    }
}

pub(crate) use engine::OwnEngine;
pub(super) use engine::start;
