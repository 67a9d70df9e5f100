//! What a figure was measured on: machine, build and circumstances. Without it a figure enters no table.
//!
//! Nothing here names a host or a person: kernel parameters are kept by a list, command lines are redacted.

use crate::proc_text;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;

/// Version of the JSON form. Reading another version is an error, not a guess.
pub const FINGERPRINT_SCHEMA: u32 = 1;

/// Machine, build and circumstances of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// [`FINGERPRINT_SCHEMA`].
    #[serde(deserialize_with = "known_schema")]
    pub schema: u32,
    /// Hardware, kernel and their settings: what [`Fingerprint::hash`] identifies.
    pub machine: Machine,
    /// The program that measured.
    pub build: Build,
    /// What changes from minute to minute.
    pub run: RunState,
}

/// Hardware, kernel and their settings. What the system does not tell is `unknown`, `none` or absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu_model: String,
    /// Revision of its microcode.
    pub cpu_microcode: Option<String>,
    /// Cores online.
    pub cores_online: u32,
    /// Cores that the scheduler leaves alone (`isolcpus`), as a list like `2-3`.
    pub cores_isolated: String,
    /// Simultaneous multithreading: `on`, `off`, `forceoff`, `notsupported`.
    pub smt: String,
    /// Caches of the first core, like `L1 Data 32K shared by 0`.
    pub caches: Vec<String>,
    /// Kernel release.
    pub kernel_release: String,
    /// Kernel parameters that change latency.
    pub kernel_parameters: Vec<String>,
    /// Kernel parameters left out.
    pub kernel_parameters_omitted: u32,
    /// Known weaknesses that concern this processor and what is done about each.
    pub mitigations: BTreeMap<String, String>,
    /// Frequency governors in use.
    pub governor: String,
    /// Driver and governor of idle states.
    pub cstate_driver: String,
    /// The machine is a guest.
    pub hypervisor: bool,
    /// Source of the kernel's clock.
    pub clocksource: String,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// Huge pages.
    pub hugepages: Hugepages,
    /// Cores of each NUMA node, as lists.
    pub numa_nodes: Vec<String>,
    /// Cores that a container's quota allows, the tightest on the way up. `None`: no quota.
    pub cpu_limit_cores: Option<f64>,
    /// Slack of sleeps of the calling thread in ns.
    pub timer_slack_ns: Option<u64>,
}

/// Huge pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hugepages {
    /// Pages reserved.
    pub total: u64,
    /// Size of one in KiB.
    pub size_kib: u64,
    /// Transparent ones: `always`, `madvise`, `never`.
    pub transparent: String,
}

/// The program that measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Version of this crate, which all of barewire share.
    pub version: String,
    /// First 12 digits of the commit.
    pub git_commit: String,
    /// The tree differed from the commit: `yes`, `no`, `unknown`. Of a debug build: when this crate was last built.
    pub git_dirty: String,
    /// The compiler, with its version.
    pub rustc: String,
    /// Cargo profile family: `debug` or `release`.
    pub profile: String,
    /// Optimisation level.
    pub opt_level: String,
    /// Target triple.
    pub target: String,
    /// Flags that change the machine code, like `target-cpu=native`.
    pub codegen: String,
}

/// What changes from minute to minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// Load averages of 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Share of core time stolen by the hypervisor since the machine started, in percent.
    pub steal_percent: Option<f64>,
    /// PSI `cpu some avg10`, in percent.
    pub psi_cpu_some_avg10: Option<f64>,
    /// Huge pages not in use.
    pub hugepages_free: u64,
    /// The command, without host names, user names and home folders.
    pub command_line: String,
}

/// One thing in which two fingerprints differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Where, like `machine.governor`.
    pub field: String,
    /// Value in the left one, as JSON.
    pub left: String,
    /// Value in the right one, as JSON.
    pub right: String,
}

impl Fingerprint {
    /// Looks at the machine. Reads files of `/proc` and `/sys` only; what is not there is told as such.
    pub fn collect() -> Fingerprint {
        Fingerprint { schema: FINGERPRINT_SCHEMA, machine: machine(), build: build(), run: run_state() }
    }

    /// A short name of the machine and its settings (16 hexadecimal digits): equal for every run and every build on the
    /// same machine, other after a change of kernel, governor, mitigations and so on. No secret, and no proof.
    pub fn hash(&self) -> String {
        let text = serde_json::to_string(&(self.schema, &self.machine)).expect("plain data serialises");
        format!("{:016x}", fnv1a(text.as_bytes()))
    }

    /// In what machine and build differ, ordered by name. What changes from minute to minute is not compared.
    pub fn diff(&self, other: &Fingerprint) -> Vec<Difference> {
        let value = |f: &Fingerprint| serde_json::json!({ "build": &f.build, "machine": &f.machine });
        let mut found = Vec::new();
        compare("", &value(self), &value(other), &mut found);
        found
    }
}

fn compare(path: &str, left: &serde_json::Value, right: &serde_json::Value, found: &mut Vec<Difference>) {
    use serde_json::Value::{Null, Object};
    if let (Object(l), Object(r)) = (left, right) {
        let keys: BTreeSet<&String> = l.keys().chain(r.keys()).collect();
        for key in keys {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            compare(&path, l.get(key).unwrap_or(&Null), r.get(key).unwrap_or(&Null), found);
        }
    } else if left != right {
        found.push(Difference { field: path.to_string(), left: left.to_string(), right: right.to_string() });
    }
}

/// FNV-1a, 64 bits: short, and the same for ever, which std's hasher does not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn known_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        FINGERPRINT_SCHEMA => Ok(FINGERPRINT_SCHEMA),
        other => Err(serde::de::Error::custom(format!(
            "fingerprint schema {other} is not known here, which reads schema {FINGERPRINT_SCHEMA}"
        ))),
    }
}

/// A small file's text without its end; `None` when it cannot be read or is empty.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim_end().to_string();
    (!text.is_empty()).then_some(text)
}

/// Names in a folder, sorted.
fn names(path: &str) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Entries of a folder that are `prefix` and a number, by number.
fn numbered(path: &str, prefix: &str) -> Vec<String> {
    let number = |name: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
    let mut found: Vec<(u32, String)> =
        names(path).into_iter().filter_map(|name| Some((number(&name)?, format!("{path}/{name}")))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn machine() -> Machine {
    let unknown = || "unknown".to_string();
    let none = || "none".to_string();
    let cpu = proc_text::cpuinfo(&read("/proc/cpuinfo").unwrap_or_default());
    let sys_cpu = "/sys/devices/system/cpu";
    let online = read(format!("{sys_cpu}/online")).and_then(|list| proc_text::cpu_count(&list));
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let memory = |key| proc_text::meminfo(&meminfo, key).unwrap_or(0);
    let (kernel_parameters, kernel_parameters_omitted) =
        proc_text::kernel_parameters(&read("/proc/cmdline").unwrap_or_default());

    let mut mitigations = BTreeMap::new();
    for name in names(&format!("{sys_cpu}/vulnerabilities")) {
        if let Some(state) =
            read(format!("{sys_cpu}/vulnerabilities/{name}")).filter(|state| state != "Not affected")
        {
            mitigations.insert(name, state);
        }
    }
    let caches = numbered(&format!("{sys_cpu}/cpu0/cache"), "index").into_iter().filter_map(|index| {
        let field = |name| read(format!("{index}/{name}"));
        Some(format!(
            "L{} {} {} shared by {}",
            field("level")?,
            field("type")?,
            field("size")?,
            field("shared_cpu_list")?
        ))
    });
    let governors: BTreeSet<String> = numbered(&format!("{sys_cpu}/cpufreq"), "policy")
        .into_iter()
        .filter_map(|policy| read(format!("{policy}/scaling_governor")))
        .collect();
    let idle = |name| read(format!("{sys_cpu}/cpuidle/{name}"));
    let idle_governor = idle("current_governor").or_else(|| idle("current_governor_ro"));

    Machine {
        cpu_model: cpu.model.unwrap_or_else(unknown),
        cpu_microcode: cpu.microcode,
        cores_online: online.unwrap_or(0),
        cores_isolated: read(format!("{sys_cpu}/isolated")).unwrap_or_else(none),
        smt: read(format!("{sys_cpu}/smt/control")).unwrap_or_else(unknown),
        caches: caches.collect(),
        kernel_release: read("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
        kernel_parameters,
        kernel_parameters_omitted,
        mitigations,
        governor: if governors.is_empty() { none() } else { Vec::from_iter(governors).join(" ") },
        cstate_driver: match (idle("current_driver"), idle_governor) {
            (Some(driver), Some(governor)) => format!("{driver} ({governor})"),
            (driver, _) => driver.unwrap_or_else(none),
        },
        hypervisor: cpu.hypervisor,
        clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_else(unknown),
        memory_kib: memory("MemTotal"),
        hugepages: Hugepages {
            total: memory("HugePages_Total"),
            size_kib: memory("Hugepagesize"),
            transparent: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| Some(proc_text::bracketed(&text)?.to_string()))
                .unwrap_or_else(none),
        },
        numa_nodes: numbered("/sys/devices/system/node", "node")
            .into_iter()
            .map(|node| read(format!("{node}/cpulist")).unwrap_or_else(none))
            .collect(),
        cpu_limit_cores: cpu_limit_cores(),
        timer_slack_ns: read("/proc/thread-self/timerslack_ns")
            .or_else(|| read("/proc/self/timerslack_ns"))
            .and_then(|text| text.parse().ok()),
    }
}

/// The tightest quota between the process's cgroup and the root, of either version.
fn cpu_limit_cores() -> Option<f64> {
    let text = read("/proc/self/cgroup")?;
    let v2 = |dir: &Path| proc_text::cpu_max(&read(dir.join("cpu.max"))?);
    let v1 = |dir: &Path| {
        proc_text::cpu_quota(&read(dir.join("cpu.cfs_quota_us"))?, &read(dir.join("cpu.cfs_period_us"))?)
    };
    // Inside a container the path may be the host's: then the files lie at the root of the mount, which is on the way.
    let tightest = |root: &str, path: Option<&str>, limit: &dyn Fn(&Path) -> Option<f64>| {
        let leaf = Path::new(root).join(path?.trim_start_matches('/'));
        leaf.ancestors().take_while(|dir| dir.starts_with(root)).filter_map(limit).min_by(f64::total_cmp)
    };
    let unified = proc_text::cgroup_path(&text, "");
    let found = [
        tightest("/sys/fs/cgroup", unified, &v2),
        tightest("/sys/fs/cgroup/unified", unified, &v2),
        tightest("/sys/fs/cgroup/cpu", proc_text::cgroup_path(&text, "cpu"), &v1),
    ];
    found.into_iter().flatten().min_by(f64::total_cmp)
}

fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").to_string(),
        git_commit: env!("BAREWIRE_GIT_COMMIT").to_string(),
        git_dirty: env!("BAREWIRE_GIT_DIRTY").to_string(),
        rustc: env!("BAREWIRE_RUSTC").to_string(),
        profile: env!("BAREWIRE_PROFILE").to_string(),
        opt_level: env!("BAREWIRE_OPT_LEVEL").to_string(),
        target: env!("BAREWIRE_TARGET").to_string(),
        codegen: env!("BAREWIRE_CODEGEN").to_string(),
    }
}

fn run_state() -> RunState {
    let args: Vec<String> = env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let variables = |keys: &[&str]| keys.iter().filter_map(|key| env::var(key).ok()).collect::<Vec<String>>();
    let host = read("/proc/sys/kernel/hostname").unwrap_or_default();
    let ticks = read("/proc/stat").and_then(|text| proc_text::cpu_ticks(&text));
    RunState {
        load_average: read("/proc/loadavg").and_then(|text| proc_text::loadavg(&text)),
        steal_percent: ticks.map(|ticks| ticks.steal as f64 * 100.0 / ticks.total.max(1) as f64),
        psi_cpu_some_avg10: read("/proc/pressure/cpu")
            .and_then(|text| Some(proc_text::pressure(&text)?.avg10)),
        hugepages_free: read("/proc/meminfo")
            .and_then(|text| proc_text::meminfo(&text, "HugePages_Free"))
            .unwrap_or(0),
        command_line: proc_text::redacted_command_line(
            &args,
            &host,
            &variables(&["USER", "LOGNAME", "SUDO_USER"]),
            &variables(&["HOME"]),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_of_the_machine_and_survives_json() {
        let ours = Fingerprint::collect();
        let again = Fingerprint::collect();
        assert_eq!(ours.hash(), again.hash());
        assert_eq!(ours.hash().len(), 16);
        assert_eq!(ours.diff(&again), []);
        let back: Fingerprint = serde_json::from_str(&serde_json::to_string(&ours).unwrap()).unwrap();
        assert_eq!((back.hash(), &back.machine, &back.build), (ours.hash(), &ours.machine, &ours.build));

        let mut other = again;
        other.build.git_commit = "0123456789ab".into();
        other.run.command_line = "else".into();
        assert_eq!(ours.hash(), other.hash());
        other.machine.hugepages.total += 1;
        assert_ne!(ours.hash(), other.hash());
        let fields: Vec<String> = ours.diff(&other).into_iter().map(|d| d.field).collect();
        assert_eq!(fields, ["build.git_commit", "machine.hugepages.total"]);
        assert_eq!(ours.diff(&other)[0].right, "\"0123456789ab\"");
    }

    #[test]
    fn this_machine_is_described() {
        let Fingerprint { machine, build, run, .. } = Fingerprint::collect();
        assert!(machine.cores_online >= crate::allowed_cores().unwrap().len() as u32);
        assert!(
            machine.memory_kib > 10_000
                && machine.cpu_model != "unknown"
                && machine.kernel_release != "unknown"
        );
        assert!(build.rustc.starts_with("rustc ") && !build.target.is_empty());
        assert!(build.git_commit == "unknown" || build.git_commit.len() == 12, "{build:?}");
        assert!(["yes", "no", "unknown"].contains(&build.git_dirty.as_str()));
        assert!(run.load_average.is_some());
    }

    #[test]
    fn it_names_no_host_and_no_home() {
        let text = serde_json::to_string(&Fingerprint::collect()).unwrap();
        let host = read("/proc/sys/kernel/hostname").unwrap_or_default();
        // A host called like a word of the fingerprint proves nothing.
        if host.len() > 8 {
            assert!(!text.contains(&host), "{text}");
        }
        assert!(!text.contains("/home/"), "{text}");
    }

    #[test]
    fn another_schema_is_refused_by_name() {
        let text = serde_json::to_string(&Fingerprint::collect()).unwrap().replacen(
            "\"schema\":1",
            "\"schema\":2",
            1,
        );
        let error = serde_json::from_str::<Fingerprint>(&text).unwrap_err().to_string();
        assert!(error.contains("schema 2 is not known here"), "{error}");
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // Test vectors of draft-eastlake-fnv.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
