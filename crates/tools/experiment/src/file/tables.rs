//! The file as it is written. What cannot be a key is refused here, values are checked by the reader.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::{Spanned, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) about: String,
    pub(super) table: Option<Spanned<String>>,
    pub(super) hardware: Option<Spanned<String>>,
    pub(super) seed: Option<u64>,
    pub(super) lab: Option<LabTable>,
    #[serde(default)]
    pub(super) host: Vec<HostTable>,
    #[serde(default)]
    pub(super) method: MethodTable,
    #[serde(default)]
    pub(super) sweep: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub(super) role: Vec<RoleTable>,
    #[serde(default)]
    pub(super) merge: MergeTable,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub(super) sync: Vec<SyncTable>,
    #[serde(default)]
    pub(super) black: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) quiet: Vec<Spanned<String>>,
}

/// A file of hosts alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostsFile {
    pub(super) host: Vec<HostTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabTable {
    pub(super) topology: Spanned<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) reach: String,
    /// The same as `reach`, as people say it.
    #[serde(default)]
    pub(super) ssh: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) address: String,
    #[serde(default)]
    pub(super) settings: BTreeMap<String, Spanned<Value>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct MethodTable {
    pub(super) runs: Option<Spanned<u32>>,
    pub(super) warmup_s: Option<Spanned<f64>>,
    pub(super) seconds: Option<Spanned<f64>>,
    pub(super) timeout_s: Option<Spanned<f64>>,
    pub(super) ready_timeout_s: Option<Spanned<f64>>,
    pub(super) interleave: Option<bool>,
    pub(super) cell_pause_s: Option<Spanned<f64>>,
    pub(super) silence_s: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleTable {
    pub(super) name: Spanned<String>,
    pub(super) hosts: Option<Spanned<Value>>,
    pub(super) count: Option<Spanned<Value>>,
    pub(super) command: Spanned<Vec<Spanned<String>>>,
    pub(super) cwd: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, Spanned<Value>>,
    pub(super) cleanup: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) ready: Option<Spanned<String>>,
    pub(super) settle_s: Option<Spanned<f64>>,
    pub(super) collect: Option<Spanned<Value>>,
    pub(super) stop: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeTable {
    #[serde(default)]
    pub(super) sum: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) max: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) min: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) mean: Vec<Spanned<String>>,
    pub(super) histogram: Option<Spanned<String>>,
    pub(super) rows: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SyncTable {
    pub(super) source: Spanned<PathBuf>,
    pub(super) to: Option<PathBuf>,
    #[serde(default)]
    pub(super) targets: Vec<Spanned<String>>,
}
