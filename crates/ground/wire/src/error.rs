//! Why bytes are not the packet they were taken for.

use barewire_base::DropReason;
use core::fmt;

/// Why bytes are not the packet they were taken for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Shorter than the headers say.
    Truncated,
    /// A field has a value that no sender may use.
    Malformed,
    /// A checksum is wrong.
    Checksum,
    /// One piece of a larger packet.
    Fragment,
    /// Well formed, of a kind that this parser has no representation for.
    Unsupported,
}

impl Error {
    /// The error as a sentence without its full stop.
    pub const fn as_str(self) -> &'static str {
        match self {
            Error::Truncated => "shorter than its headers say",
            Error::Malformed => "a field has a value that no sender may use",
            Error::Checksum => "wrong checksum",
            Error::Fragment => "a fragment",
            Error::Unsupported => "of a kind not represented here",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for Error {}

impl From<Error> for DropReason {
    fn from(error: Error) -> DropReason {
        match error {
            Error::Truncated => DropReason::Truncated,
            Error::Malformed => DropReason::Malformed,
            Error::Checksum => DropReason::BadChecksum,
            Error::Fragment => DropReason::Fragment,
            Error::Unsupported => DropReason::UnknownProtocol,
        }
    }
}
