//! Why a program could not be compiled.

use std::io;
use thiserror::Error;

/// A program could not be compiled. Programs that the importer accepts are not refused for what they say: what is
/// not translated is interpreted. These are failures of the machine or of the code generator.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// There is no code generator for this processor.
    #[error("no code generator for this processor: {0}")]
    Host(String),
    /// The code generator refused a function.
    #[error("{function}: {reason}")]
    Function {
        /// Which function.
        function: String,
        /// What it said.
        reason: String,
    },
    /// No memory for the code.
    #[error("memory for {bytes} bytes of machine code: {source}")]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}
