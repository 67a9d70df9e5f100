//! What client and server say to each other, in lines of JSON on TCP connections.
//!
//! ```text
//! control   client: Hello::Control   server: Answer::Ready
//!           client: begin            server: Answer::Interval, one every interval
//!           client: end              server: Answer::Report; the window may begin again
//! data      client: Hello::Data, then whatever bytes (TCP)
//!           datagrams that begin with the token, to the same port (UDP)
//! ```

use crate::cpu::EndUse;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Version of the lines.
pub(super) const VERSION: u32 = 1;
/// Longest line that is read.
const LINE_MAX: usize = 4096;

/// First line of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hello {
    /// The control connection of a session.
    Control { barewire_stream: u32, token: u64, interval_ms: u64 },
    /// A stream of a session.
    Data { barewire_stream: u32, token: u64 },
}

/// What the client wants next.
pub(super) const BEGIN: &str = "begin";
pub(super) const END: &str = "end";

/// What a server saw of a session between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counted {
    /// How long, by the server's clock.
    pub seconds: f64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Packets that came in at the server's interfaces, whoever's.
    pub rx_packets: u64,
    /// Of a whole window without other clients: CPU of the server's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<EndUse>,
}

/// A line of the server's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The session is there.
    Ready,
    /// One interval of the window.
    Interval(Counted),
    /// The whole window.
    Report(Counted),
    /// It will not be.
    Refused(String),
}

/// Writes a line.
pub(super) fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line).map_err(io::Error::other)?;
    text.push('\n');
    out.write_all(text.as_bytes())
}

/// Reads lines from something that may have nothing for a while.
pub(super) struct Lines<R> {
    from: R,
    got: Vec<u8>,
}

/// What a look for a line gave.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// A line, without its end.
    Text(String),
    /// None yet.
    Nothing,
    /// The other end has closed.
    End,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(from: R) -> Lines<R> {
        Lines { from, got: Vec::new() }
    }

    /// The next line, if it comes before the reader's time is up.
    pub(super) fn next(&mut self) -> io::Result<Line> {
        loop {
            if let Some(at) = self.got.iter().position(|byte| *byte == b'\n') {
                let rest = self.got.split_off(at + 1);
                let line = std::mem::replace(&mut self.got, rest);
                let text = String::from_utf8_lossy(&line[..at]).into_owned();
                return Ok(Line::Text(text));
            }
            if self.got.len() > LINE_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line too long"));
            }
            let mut bytes = [0; 512];
            match self.from.read(&mut bytes) {
                Ok(0) => return Ok(Line::End),
                Ok(n) => self.got.extend_from_slice(&bytes[..n]),
                Err(e) if super::pump::is_wait(&e) => return Ok(Line::Nothing),
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_have_a_fixed_form() {
        let mut out = Vec::new();
        write_line(&mut out, &Hello::Control { barewire_stream: 1, token: 7, interval_ms: 1000 }).unwrap();
        write_line(&mut out, &Answer::Ready).unwrap();
        write_line(&mut out, &Answer::Refused("no".to_owned())).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "{\"control\":{\"barewire_stream\":1,\"token\":7,\"interval_ms\":1000}}\n\"ready\"\n{\"refused\":\"no\"}\n"
        );
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let long = vec![b'x'; 10_000];
        assert!(Lines::new(long.as_slice()).next().is_err());
        assert_eq!(Lines::new(&b"half"[..]).next().unwrap(), Line::End);
    }

    proptest! {
        #[test]
        fn lines_come_whole_whatever_the_pieces(lines in prop::collection::vec("[a-z]{0,40}", 0..20)) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut reader = Lines::new(text.as_bytes());
            for line in &lines {
                prop_assert_eq!(reader.next().unwrap(), Line::Text(line.clone()));
            }
            prop_assert_eq!(reader.next().unwrap(), Line::End);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut reader = Lines::new(bytes.as_slice());
            while let Ok(Line::Text(text)) = reader.next() {
                let _ = serde_json::from_str::<Hello>(&text);
            }
        }
    }
}
