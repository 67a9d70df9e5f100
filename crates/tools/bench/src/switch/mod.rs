//! The P4 switch measured: its engine alone, from capture file to capture file, and between two hosts.
//!
//! What flows through: a [`program::Source`] and a [`workload::Spec`] make a [`workload::Workload`], which is table entries
//! ([`setup::Step`]), packets and what must become of each. [`mem`] runs it between memory ports, [`files`] between
//! capture files, [`live`] between hosts on [`wires`] of its own under the traffic of [`load`]; [`bmv2`] runs the same program
//! with the same entries on bmv2, where that is installed. What comes out is [`SwitchRow`]s in a [`SwitchOutput`], and
//! [`render`] makes tables of them. [`plan`] says which rows a command asks for.
pub(crate) mod figures;
mod row;

pub mod bmv2;
pub mod count;
pub mod files;
pub mod live;
pub mod load;
pub mod mem;
pub mod plan;
pub mod program;
pub mod render;
pub mod setup;
pub mod wires;
pub mod workload;

pub use crate::rounds::median;
pub use row::{Paced, SwitchOutput, SwitchRow, SwitchRun};

use barewire_lab::LabError;
use barewire_port::OpenError;
use barewire_switch::control::ControlError;
use barewire_switch::harness::HarnessError;
use barewire_switch::server::StartError;
use std::io;

/// Why a row of the switch could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// What was asked for cannot be run.
    #[error("{0}")]
    Plan(String),
    /// The program or an entry was refused.
    #[error("{what}: {source}")]
    Control {
        /// What was being done.
        what: String,
        /// Why it was refused.
        source: ControlError,
    },
    /// The switch did not start.
    #[error("starting the switch: {0}")]
    Start(#[from] StartError),
    /// A switch without ports could not be made.
    #[error("{0}")]
    Harness(#[from] HarnessError),
    /// A port did not open.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// Hosts or links could not be made.
    #[error("{0}")]
    Lab(#[from] LabError),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Another program failed.
    #[error("{program}: {why}")]
    Program {
        /// Which.
        program: String,
        /// What it said.
        why: String,
    },
    /// Somebody interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl SwitchError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> SwitchError {
        let what = what.into();
        move |source| SwitchError::Io { what, source }
    }

    pub(crate) fn control(what: impl Into<String>) -> impl FnOnce(ControlError) -> SwitchError {
        let what = what.into();
        move |source| SwitchError::Control { what, source }
    }
}

/// Nothing more is to be started when somebody interrupted.
pub(crate) fn go_on() -> Result<(), SwitchError> {
    if crate::interrupted() { Err(SwitchError::Interrupted) } else { Ok(()) }
}
