//! What an application and the daemon say over the control socket: one JSON object a packet.
//!
//! An application begins with [`Hello`]; the daemon answers with [`Welcome`], which carries the channel's descriptors,
//! or with [`Refused`] and closes. `Hello` and `Refused` keep their meaning in all versions and may grow fields: so
//! two sides of different versions can still say that they do not fit. The rest refuses fields it does not know.

use crate::Geometry;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What an application says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FromApp {
    /// The first message.
    Hello(Hello),
    /// What is the daemon doing? Answered by [`FromDaemon::Stat`]; needs no `Hello` before.
    Stat(Stat),
}

/// What the daemon says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FromDaemon {
    /// The application is in. Comes with the descriptors of [`ChannelFds`](crate::ChannelFds).
    Welcome(Welcome),
    /// What was asked for is not given.
    Refused(Refused),
    /// The answer to [`FromApp::Stat`]: one document, whose shape is the daemon's.
    Stat(serde_json::Value),
}

/// An application introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`](crate::VERSION) that it speaks.
    pub version: u32,
    /// What to call it in statistics and messages.
    pub name: String,
    /// The channel it would like; `None`: the daemon's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geometry: Option<Geometry>,
}

/// Asks for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stat {}

/// The daemon lets an application in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// [`VERSION`](crate::VERSION) that both speak.
    pub version: u32,
    /// The application's number.
    pub application: u32,
    /// The daemon's addresses.
    pub addresses: Vec<IpAddr>,
    /// The channel it gets.
    pub geometry: Geometry,
    /// Largest IP packet on the daemon's port, in bytes.
    pub mtu: u32,
}

/// The daemon does not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why: one of the constants of this type, or one that only newer versions know.
    pub code: u16,
    /// Why, for people.
    pub message: String,
    /// What could be done about it; may be empty.
    #[serde(default)]
    pub hint: String,
}

impl Refused {
    /// The message could not be understood.
    pub const MALFORMED: u16 = 1;
    /// The versions differ.
    pub const VERSION: u16 = 2;
    /// The geometry breaks a bound or the daemon's quota.
    pub const GEOMETRY: u16 = 3;
    /// The daemon has as many applications as it takes.
    pub const FULL: u16 = 4;
    /// This user may not.
    pub const NOT_PERMITTED: u16 = 5;
    /// The daemon is stopping.
    pub const STOPPING: u16 = 6;
}
