//! `PortUri`: how a user names a port.
/// A parsed port name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortUri;
