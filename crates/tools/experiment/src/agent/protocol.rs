//! What controller and agent say to each other: one JSON object a line.
//!
//! Lines on the agent's standard output that are no such object are somebody else's (a login's greeting) and mean nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of the conversation. Both sides must have the same.
pub const SCHEMA: u32 = 3;
/// Longest line that is understood, in bytes.
pub const LINE_BYTES_MAX: usize = 4 << 20;
/// Bytes of a file in one request: on a slow line it must pass before the other side takes the silence for an end.
pub const CHUNK_BYTES: usize = 32 << 10;

/// What the controller says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The first: who speaks.
    Hello {
        /// [`SCHEMA`].
        schema: u32,
        /// The host's name in the experiment.
        host: String,
        /// The machine's fingerprint is wanted.
        fingerprint: bool,
        /// A controller that has said nothing for so long is gone.
        silence_ms: u64,
    },
    /// Still here.
    Ping,
    /// What does your clock show?
    Clock {
        /// Comes back with the answer.
        seq: u64,
    },
    /// Start a process.
    Start {
        /// Names it from now on; never used twice.
        id: u32,
        /// Program and arguments. A first word `barewire` is the agent's own binary.
        argv: Vec<String>,
        /// Folder; `None`: the scratch folder, which a relative one is relative to.
        cwd: Option<String>,
        /// Variables beside the agent's own.
        env: BTreeMap<String, String>,
        /// When, by the host's clock in ns since 1970; 0: now.
        at_unix_ns: u64,
    },
    /// Send a signal to a process and its group.
    Signal {
        /// Which.
        id: u32,
        /// What.
        signal: SignalWord,
    },
    /// A piece of a file, in order.
    Put {
        /// Relative to the scratch folder, to the user's folder (`~/…`), or absolute.
        path: String,
        /// Permissions.
        mode: u32,
        /// The piece, base64.
        chunk: String,
        /// CRC-32 (IEEE) of the whole file, with the last piece.
        last: Option<u32>,
    },
    /// Run this when everything is over, however it ends; the last that was said first.
    Cleanup {
        /// Program and arguments. A first word `barewire` is the agent's own binary.
        argv: Vec<String>,
        /// Variables beside the agent's own.
        env: BTreeMap<String, String>,
    },
    /// End everything that was started, also what has left its group.
    Sweep,
    /// End, and leave nothing.
    End,
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SignalWord {
    /// SIGINT.
    Int,
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
}

/// Which output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What the agent says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// Who answers.
    Hello(Hello),
    /// Still here.
    Pong,
    /// What its clock shows.
    Clock {
        /// Of the request.
        seq: u64,
        /// Ns since 1970.
        unix_ns: u64,
    },
    /// A process was started.
    Started {
        /// Which.
        id: u32,
        /// Its process id.
        pid: u32,
        /// When, by the host's clock in ns since 1970.
        unix_ns: u64,
    },
    /// A process has written a line.
    Line {
        /// Which.
        id: u32,
        /// Where to.
        stream: Stream,
        /// The line, without its end. What is no UTF-8 is replaced.
        text: String,
        /// The line is too long for one event and goes on in the next.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// A process has ended, and all that it wrote was told before.
    Exited {
        /// Which.
        id: u32,
        /// Its exit code.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// When, by the host's clock in ns since 1970.
        unix_ns: u64,
    },
    /// A file is there.
    Put {
        /// Which.
        path: String,
    },
    /// Everything that was started has ended.
    Swept {
        /// Processes that had to be ended.
        ended: u32,
        /// Processes that the kernel did not end in time.
        left: u32,
    },
    /// Something did not work.
    Error {
        /// Of which process; `None`: of a file, or of the agent.
        id: Option<u32>,
        /// What.
        text: String,
    },
}

/// Who the agent is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of its binary.
    pub version: String,
    /// Commit of its binary.
    pub commit: String,
    /// Path of its binary.
    pub exe: String,
    /// Its scratch folder.
    pub scratch: String,
    /// The machine, if it was asked for.
    pub fingerprint: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_are() {
        let text =
            r#"{"do":"start","id":1,"argv":["barewire","msg"],"cwd":null,"env":{"A":"b"},"at_unix_ns":7}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert!(
            matches!(&request, Request::Start { id: 1, at_unix_ns: 7, env, .. } if env["A"] == "b"),
            "{request:?}"
        );
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let line = Event::Line { id: 1, stream: Stream::Err, text: "x".into(), more: false };
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"is":"line","id":1,"stream":"err","text":"x"}"#
        );
        assert_eq!(
            serde_json::to_string(&Request::Signal { id: 2, signal: SignalWord::Kill }).unwrap(),
            r#"{"do":"signal","id":2,"signal":"KILL"}"#
        );
        for bad in ["", "{}", r#"{"do":"fly"}"#, r#"{"do":"start","id":1}"#] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }
}
