//! What a test expects to come out, and what did.

use super::{Command, Line};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The bytes a packet should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Half bytes; none for any.
    pub nibbles: Vec<Option<u8>>,
    /// The packet ends where the pattern does; otherwise more may follow.
    pub exact: bool,
}

impl Pattern {
    /// Whether a packet looks like this.
    pub fn matches(&self, packet: &[u8]) -> bool {
        self.first_difference(packet).is_none()
    }

    /// The half byte from which on a packet does not look like this.
    fn first_difference(&self, packet: &[u8]) -> Option<usize> {
        let have = 2 * packet.len();
        let differs = |(at, nibble): &(usize, &Option<u8>)| match nibble {
            Some(nibble) => *at >= have || nibble_of(packet, *at) != *nibble,
            None => *at >= have,
        };
        let different = self.nibbles.iter().enumerate().find(differs).map(|(at, _)| at);
        different.or((self.exact && have > self.nibbles.len()).then_some(self.nibbles.len()))
    }
}

fn nibble_of(packet: &[u8], at: usize) -> u8 {
    let byte = packet[at / 2];
    if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, nibble) in self.nibbles.iter().enumerate() {
            match nibble {
                Some(nibble) => write!(f, "{nibble:x}")?,
                None => write!(f, "*")?,
            }
            if at % 8 == 7 && at + 1 < self.nibbles.len() {
                write!(f, " ")?;
            }
        }
        write!(f, "{}", if self.exact { " $" } else { "" })
    }
}

/// A packet that came out, shown in groups as a [`Pattern`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received(pub Vec<u8>);

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let gap = if at % 4 == 3 && at + 1 < self.0.len() { " " } else { "" };
            write!(f, "{byte:02x}{gap}")?;
        }
        Ok(())
    }
}

/// A difference between what came and what was to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// A packet looks otherwise.
    Different {
        /// Where it came out.
        port: u32,
        /// The line of the test.
        line: u32,
        /// What was to come.
        expected: Pattern,
        /// What came.
        received: Received,
    },
    /// Nothing came any more.
    Missing {
        /// Where it was to come out.
        port: u32,
        /// The line of the test.
        line: u32,
        /// What was to come.
        expected: Option<Pattern>,
    },
    /// Nothing was to come any more.
    Extra {
        /// Where it came out.
        port: u32,
        /// What came.
        received: Received,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Different { port, line, expected, received } => {
                writeln!(f, "line {line}: another packet came out of port {port}")?;
                writeln!(f, "  expected {expected}")?;
                write!(f, "  received {received}")?;
                if let Some(at) = expected.first_difference(&received.0) {
                    // Groups of eight digits have a blank between them.
                    write!(f, "\n           {}^ digit {at}", " ".repeat(at + at / 8))?;
                }
                Ok(())
            }
            Mismatch::Missing { port, line, expected: Some(expected) } => {
                write!(f, "line {line}: no packet came out of port {port}\n  expected {expected}")
            }
            Mismatch::Missing { port, line, expected: None } => {
                write!(f, "line {line}: no packet came out of port {port}")
            }
            Mismatch::Extra { port, received } => {
                write!(f, "a packet nobody expected came out of port {port}\n  received {received}")
            }
        }
    }
}

/// All that a test expects. The order counts on each port, not among ports. Ports that no `packet` and no `expect`
/// names are not looked at: they do not exist in the test's switch.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    ports: BTreeSet<u32>,
    expected: BTreeMap<u32, Vec<(u32, Option<Pattern>)>>,
    received: BTreeMap<u32, Vec<Vec<u8>>>,
}

impl Expectations {
    /// Those of a whole test.
    pub fn of(lines: &[Line]) -> Expectations {
        let mut all = Expectations::default();
        for line in lines {
            match &line.command {
                Command::Packet { port, .. } => {
                    all.ports.insert(*port);
                }
                Command::Expect { port, pattern } => {
                    all.ports.insert(*port);
                    all.expected.entry(*port).or_default().push((line.number, pattern.clone()));
                }
                _ => {}
            }
        }
        all
    }

    /// The ports of the test's switch.
    pub fn ports(&self) -> impl Iterator<Item = u32> + '_ {
        self.ports.iter().copied()
    }

    /// How many packets are still to come out of all ports.
    pub fn outstanding(&self) -> usize {
        let left = |(port, expected): (&u32, &Vec<_>)| {
            expected.len().saturating_sub(self.received.get(port).map_or(0, Vec::len))
        };
        self.expected.iter().map(left).sum()
    }

    /// A packet came out.
    pub fn received(&mut self, port: u32, packet: &[u8]) {
        if self.ports.contains(&port) {
            self.received.entry(port).or_default().push(packet.to_vec());
        }
    }

    /// Everything that is not as it should be.
    pub fn finish(&self) -> Result<(), Vec<Mismatch>> {
        let mut wrong = Vec::new();
        for &port in &self.ports {
            let expected = self.expected.get(&port).map_or(&[][..], Vec::as_slice);
            let received = self.received.get(&port).map_or(&[][..], Vec::as_slice);
            for (at, (line, pattern)) in expected.iter().enumerate() {
                match (received.get(at), pattern) {
                    (Some(packet), Some(pattern)) if !pattern.matches(packet) => {
                        wrong.push(Mismatch::Different {
                            port,
                            line: *line,
                            expected: pattern.clone(),
                            received: Received(packet.clone()),
                        })
                    }
                    (Some(_), _) => {}
                    (None, pattern) => {
                        wrong.push(Mismatch::Missing { port, line: *line, expected: pattern.clone() });
                    }
                }
            }
            for packet in received.iter().skip(expected.len()) {
                wrong.push(Mismatch::Extra { port, received: Received(packet.clone()) });
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}
