//! What happened to a packet, step by step.
//!
//! A [`Tracer`] is told of each step while a packet is worked on. [`NoTrace`] does not care, and then nothing is made
//! for it; [`Recorder`] keeps [`Event`]s, which can be printed as lines and written as JSON. Numbers are hexadecimal
//! text: fields may be wider than any number JSON readers know.

use num_bigint::BigUint;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One field of a key: what the table or parser state looked at, and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    /// The field's name (parsers: its position).
    pub name: String,
    /// How it is matched.
    pub kind: String,
    /// The packet's value.
    pub value: String,
}

/// An action's argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// The parameter's name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A parser begins.
    ParserStart { parser: String },
    /// A parser state was entered.
    ParserState { state: String, at_byte: usize },
    /// A header was extracted.
    Extract { header: String, bytes: String },
    /// The parser skipped bytes.
    Advance { bytes: usize },
    /// A `verify` failed.
    VerifyFailed { error: String },
    /// A transition was taken: its position, none when no one matched; no next state means accept.
    Transition { key: Vec<KeyPart>, taken: Option<usize>, next: Option<String> },
    /// The parser ended by an error.
    ParserError { error: String },
    /// The parser ended.
    ParserEnd { parser: String, parsed_bytes: usize },
    /// A checksum was verified.
    ChecksumVerified { name: String, computed: String, found: String, correct: bool },
    /// A checksum was written.
    ChecksumUpdated { name: String, value: String },
    /// A pipeline begins.
    PipelineStart { pipeline: String },
    /// A condition was evaluated.
    Condition { name: String, outcome: bool },
    /// A table was applied.
    Table { table: String, key: Vec<KeyPart>, hit: bool, handle: Option<u64>, action: Option<String> },
    /// An action runs.
    Action { action: String, arguments: Vec<Argument> },
    /// A field changed.
    Field { field: String, old: String, new: String },
    /// A header became valid or invalid.
    Validity { header: String, valid: bool },
    /// A register was written.
    Register { register: String, index: u64, value: String },
    /// Something was asked of the target: a clone, a digest, a drop …
    Request { what: String },
    /// A message of the program.
    Log { message: String },
    /// An assertion failed.
    AssertFailed { assume: bool },
    /// Something that has no meaning: an index out of range, a division by zero. Switches differ here.
    Undefined { what: String },
    /// `exit`.
    Exit,
    /// A pipeline ended.
    PipelineEnd { pipeline: String },
    /// A header was emitted.
    Emit { header: String, bytes: String },
}

/// Who is told.
pub trait Tracer {
    /// Whether events are wanted; if not, none are made.
    fn wants(&self) -> bool {
        false
    }

    /// A step happened.
    fn record(&mut self, _event: Event) {}
}

/// Does not care.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTrace;

impl Tracer for NoTrace {}

/// Keeps everything, up to a bound.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    events: Vec<Event>,
    lost: u64,
}

/// The most events a [`Recorder`] keeps.
pub const MAX_EVENTS: usize = 100_000;

impl Recorder {
    /// An empty one.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// What happened, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many events came after the recorder was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Take the events out and begin again.
    pub fn take(&mut self) -> Vec<Event> {
        self.lost = 0;
        std::mem::take(&mut self.events)
    }
}

impl Tracer for Recorder {
    fn wants(&self) -> bool {
        true
    }

    fn record(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(event);
        } else {
            self.lost += 1;
        }
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn number(value: &BigUint) -> String {
    format!("{value:#x}")
}

struct Key<'a>(&'a [KeyPart]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            let gap = if i == 0 { "" } else { ", " };
            write!(f, "{gap}{}={}", part.name, part.value)?;
            if !part.kind.is_empty() {
                write!(f, " ({})", part.kind)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::ParserStart { parser } => write!(f, "parser {parser}"),
            Event::ParserState { state, at_byte } => write!(f, "  state {state} at byte {at_byte}"),
            Event::Extract { header, bytes } => write!(f, "    extract {header}: {bytes}"),
            Event::Advance { bytes } => write!(f, "    skip {bytes} bytes"),
            Event::VerifyFailed { error } => write!(f, "    verify failed: {error}"),
            Event::Transition { key, taken, next } => {
                write!(f, "    ")?;
                if !key.is_empty() {
                    write!(f, "select {}: ", Key(key))?;
                }
                match taken {
                    Some(taken) => write!(f, "case {taken}, to {}", next.as_deref().unwrap_or("accept")),
                    None => write!(f, "no case matches"),
                }
            }
            Event::ParserError { error } => write!(f, "  parser error {error}"),
            Event::ParserEnd { parsed_bytes, .. } => write!(f, "  parsed {parsed_bytes} bytes"),
            Event::ChecksumVerified { name, computed, found, correct } => {
                let verdict = if *correct { "correct" } else { "wrong" };
                write!(f, "  checksum {name}: {verdict}, computed {computed}, found {found}")
            }
            Event::ChecksumUpdated { name, value } => write!(f, "  checksum {name} updated: {value}"),
            Event::PipelineStart { pipeline } => write!(f, "pipeline {pipeline}"),
            Event::Condition { name, outcome } => write!(f, "  condition {name}: {outcome}"),
            Event::Table { table, key, hit, handle, action } => {
                write!(f, "  table {table}")?;
                if !key.is_empty() {
                    write!(f, " [{}]", Key(key))?;
                }
                match (hit, handle) {
                    (true, Some(handle)) => write!(f, ": hit, entry {handle}")?,
                    (true, None) => write!(f, ": hit")?,
                    (false, _) => write!(f, ": miss")?,
                }
                write!(f, ", {}", action.as_deref().unwrap_or("no action"))
            }
            Event::Action { action, arguments } => {
                write!(f, "    action {action}(")?;
                for (i, argument) in arguments.iter().enumerate() {
                    let gap = if i == 0 { "" } else { ", " };
                    write!(f, "{gap}{}={}", argument.name, argument.value)?;
                }
                write!(f, ")")
            }
            Event::Field { field, old, new } => write!(f, "      {field}: {old} -> {new}"),
            Event::Validity { header, valid } => {
                write!(f, "      {header} becomes {}", if *valid { "valid" } else { "invalid" })
            }
            Event::Register { register, index, value } => write!(f, "      {register}[{index}] = {value}"),
            Event::Request { what } => write!(f, "      {what}"),
            Event::Log { message } => write!(f, "      log: {message}"),
            Event::AssertFailed { assume } => {
                write!(f, "      {} failed", if *assume { "assumption" } else { "assertion" })
            }
            Event::Undefined { what } => write!(f, "      no meaning: {what}"),
            Event::Exit => write!(f, "      exit"),
            Event::PipelineEnd { pipeline } => write!(f, "  end of {pipeline}"),
            Event::Emit { header, bytes } => write!(f, "  emit {header}: {bytes}"),
        }
    }
}
