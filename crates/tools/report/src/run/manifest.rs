//! The manifest: what the run was.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the folder. A folder of another version is refused by name, not guessed at.
pub const RUN_SCHEMA: u32 = 1;

/// What lay between the two ends. Figures of different classes are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HardwareClass {
    /// Two virtual machines of a cloud and the network between them.
    CloudVms,
    /// Two machines with network cards and a wire.
    BareMetal,
    /// One machine: namespaces, a loopback or memory. No card, no wire.
    OneMachine,
    /// Virtual time: no machine at all.
    Simulated,
    /// Not told: a document that was written before documents said it.
    Unknown,
}

impl HardwareClass {
    /// All, as a manifest spells them.
    pub const WORDS: [&'static str; 5] = ["cloud-vms", "bare-metal", "one-machine", "simulated", "unknown"];

    /// The class as a manifest spells it.
    pub fn word(self) -> &'static str {
        match self {
            HardwareClass::CloudVms => Self::WORDS[0],
            HardwareClass::BareMetal => Self::WORDS[1],
            HardwareClass::OneMachine => Self::WORDS[2],
            HardwareClass::Simulated => Self::WORDS[3],
            HardwareClass::Unknown => Self::WORDS[4],
        }
    }

    /// The class in words.
    pub fn as_str(self) -> &'static str {
        match self {
            HardwareClass::CloudVms => "cloud VMs",
            HardwareClass::BareMetal => "machines with NICs",
            HardwareClass::OneMachine => "one machine, no NIC",
            HardwareClass::Simulated => "simulated",
            HardwareClass::Unknown => "not told",
        }
    }
}

/// A file of the folder, as it was when the run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Name in the folder: no path.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of its bytes, as eight hexadecimal digits: against accidents, not against forgery.
    pub crc32: String,
}

/// What the run was: `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`RUN_SCHEMA`].
    pub schema: u32,
    /// What its user calls it.
    pub label: String,
    /// Start in ms since 1970, UTC.
    pub started_unix_ms: u64,
    /// End in ms since 1970, UTC. `None`: the run did not come to its end.
    pub ended_unix_ms: Option<u64>,
    /// Commit of the program, where it is known.
    pub commit: Option<String>,
    /// The command line, redacted by whoever made it.
    pub command: String,
    /// What lay between the ends.
    pub hardware: HardwareClass,
    /// The resolved configuration, in the experiment's own shape.
    pub config: Value,
    /// The machine, as [`barewire_measure::Fingerprint`] writes itself. Kept as JSON, so that one of another version can be shown.
    pub fingerprint: Value,
    /// What a reader has to know before believing any row.
    pub caveats: Vec<String>,
    /// The files, with their checksums. Empty until the run ends.
    pub files: Vec<FileEntry>,
}

/// The manifest's keys.
pub(crate) const MANIFEST_KEYS: [&str; 11] = [
    "schema",
    "label",
    "started_unix_ms",
    "ended_unix_ms",
    "commit",
    "command",
    "hardware",
    "config",
    "fingerprint",
    "caveats",
    "files",
];
