//! What a check found.

use serde::Serialize;
use std::fmt::Write as _;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// How it stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Costs time, or will.
    Warn,
    /// What barewire cannot do without.
    Fail,
    /// The system does not tell.
    Unknown,
}

impl Status {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "fail",
            Status::Unknown => "unknown",
        }
    }
}

/// What a finding is about: a heading.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    /// What this user may do.
    Rights,
    /// What kinds of ports the kernel offers.
    Ports,
    /// Memory.
    Memory,
    /// Cores: frequency, sleep, isolation.
    Cores,
    /// Clocks.
    Clocks,
    /// Whom the cores are shared with.
    Share,
    /// The kernel's network stack.
    Network,
    /// A card.
    Nic,
    /// What was measured just now.
    Measured,
}

impl Area {
    fn title(self) -> &'static str {
        match self {
            Area::Rights => "rights",
            Area::Ports => "ports",
            Area::Memory => "memory",
            Area::Cores => "cores",
            Area::Clocks => "clocks",
            Area::Share => "who else is here",
            Area::Network => "network",
            Area::Nic => "cards",
            Area::Measured => "measured now",
        }
    }
}

/// One line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Its heading.
    pub area: Area,
    /// What was looked at, such as `hugepages` or `eth0 queues`.
    pub check: String,
    /// How it stands.
    pub status: Status,
    /// What was read or measured, with its unit.
    pub value: String,
    /// What it costs when it is not as it should be.
    pub effect: &'static str,
    /// The command that mends it.
    pub fix: Option<String>,
}

/// A check before its outcome.
#[derive(Debug)]
pub(crate) struct Check {
    area: Area,
    name: String,
    effect: &'static str,
}

impl Check {
    pub(crate) fn new(area: Area, name: impl Into<String>, effect: &'static str) -> Check {
        Check { area, name: name.into(), effect }
    }

    fn end(self, status: Status, value: String, fix: Option<String>) -> Finding {
        // What a file or a card said may hold anything.
        let value = value.replace(|c: char| c.is_control(), " ");
        Finding { area: self.area, check: self.name, status, value, effect: self.effect, fix }
    }

    pub(crate) fn ok(self, value: impl Into<String>) -> Finding {
        self.end(Status::Ok, value.into(), None)
    }

    pub(crate) fn warn(self, value: impl Into<String>, fix: impl Into<String>) -> Finding {
        self.end(Status::Warn, value.into(), Some(fix.into()))
    }

    pub(crate) fn fail(self, value: impl Into<String>, fix: impl Into<String>) -> Finding {
        self.end(Status::Fail, value.into(), Some(fix.into()))
    }

    pub(crate) fn unknown(self, why: impl Into<String>) -> Finding {
        self.end(Status::Unknown, why.into(), None)
    }

    /// A failure where it is needed, else a warning.
    pub(crate) fn fail_if(self, needed: bool, value: impl Into<String>, fix: impl Into<String>) -> Finding {
        if needed { self.fail(value, fix) } else { self.warn(value, fix) }
    }
}

/// All lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// In the order of their headings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Nothing that barewire needs is missing.
    pub fn fit(&self) -> bool {
        self.count(Status::Fail) == 0
    }

    /// How many findings have this status.
    pub fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|f| f.status == status).count()
    }

    /// One object: `schema`, `fit`, the counts, and the findings with all their fields.
    pub fn json(&self) -> String {
        serde_json::json!({
            "schema": SCHEMA,
            "fit": self.fit(),
            "ok": self.count(Status::Ok),
            "warn": self.count(Status::Warn),
            "fail": self.count(Status::Fail),
            "unknown": self.count(Status::Unknown),
            "findings": self.findings,
        })
        .to_string()
    }

    /// For people. What is as it should be has one line; the rest has its effect and its fix below.
    pub fn text(&self, color: bool) -> String {
        let width = self.findings.iter().map(|f| f.check.chars().count()).max().unwrap_or(0);
        let mut out = String::new();
        let mut area = None;
        for f in &self.findings {
            if area.replace(f.area) != Some(f.area) {
                let _ = writeln!(out, "{}{}", if out.is_empty() { "" } else { "\n" }, f.area.title());
            }
            let word = f.status.as_str();
            let word = match (color, f.status) {
                (true, Status::Ok) => format!("\x1b[32m{word:<7}\x1b[0m"),
                (true, Status::Warn) => format!("\x1b[33m{word:<7}\x1b[0m"),
                (true, Status::Fail) => format!("\x1b[1;31m{word:<7}\x1b[0m"),
                _ => format!("{word:<7}"),
            };
            let _ = writeln!(out, "  {word}  {:<width$}  {}", f.check, f.value);
            let indent = " ".repeat(width + 13);
            if matches!(f.status, Status::Warn | Status::Fail) {
                let _ = writeln!(out, "{indent}effect: {}", f.effect);
            }
            if let Some(fix) = f.fix.as_ref().filter(|fix| !fix.is_empty()) {
                let _ = writeln!(out, "{indent}fix: {fix}");
            }
        }
        let _ = writeln!(
            out,
            "\n{} ok, {} warn, {} fail, {} unknown",
            self.count(Status::Ok),
            self.count(Status::Warn),
            self.count(Status::Fail),
            self.count(Status::Unknown)
        );
        out
    }
}
