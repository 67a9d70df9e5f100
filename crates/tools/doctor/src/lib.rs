//! Checks whether this machine is fit for low latency: settings of kernel and hardware, what each costs, and the command
//! that fixes it.
//!
//! ```text
//! Root     files of /proc and /sys, below any folder   -> checks/*  -> Finding: ok | warn | fail | unknown
//! netlink  what cards say (ethtool, netdev, rtnetlink) ->    "           value, effect, fix
//! probes   which sockets the kernel makes for us       ->    "
//! measured hiccups, core to core, system call          ->    "
//! ```
//! The checks are functions from what was read to findings: they run against made trees as against a machine, and a file that is
//! missing or makes no sense gives [`Status::Unknown`], never an error. [`Status::Fail`] is only given to what barewire cannot do
//! without; everything else costs time at most, and is a warning.
//!
//! ```
//! use barewire_base::Duration;
//! use barewire_doctor::{Facts, Options, Root, examine};
//!
//! let (root, options) = (Root::machine(), Options::default());
//! let facts = Facts::collect(&root, &options, Duration::ZERO, &mut |_, _, _| true);
//! let report = examine(&root, &facts, &options);
//! assert!(report.fit(), "no card was named, so nothing can fail");
//! println!("{}", report.text(false));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod checks;
mod finding;
mod lists;
mod measured;
mod netlink;
mod nic;
mod probes;
mod root;

pub use finding::{Area, Finding, Report, SCHEMA, Status};
pub use measured::{Measured, Progress};
pub use nic::{Coalescing, NicFacts, XdpHook};
pub use probes::{Answer, Probes};
pub use root::Root;

use barewire_base::Duration;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Interfaces that are to carry frames: what they need and do not have is a failure. Empty: every card that is up is looked at, and
    /// nothing about it is a failure.
    pub interfaces: Vec<String>,
}

/// Everything that is looked at but files.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What cards say over netlink.
    pub nics: Vec<NicFacts>,
    /// Which sockets the kernel makes.
    pub probes: Probes,
    /// What was measured; `None`: nothing was.
    pub measured: Option<Measured>,
}

impl Facts {
    /// Asks the kernel, and measures for `window` (zero: not at all); what was measured is left out when `progress` wants no more.
    pub fn collect(root: &Root, options: &Options, window: Duration, progress: &mut Progress<'_>) -> Facts {
        let names = interfaces(root, options);
        Facts {
            nics: netlink::ask(&names),
            probes: Probes::ask(),
            measured: (window > Duration::ZERO).then(|| Measured::take(root, window, progress)).flatten(),
        }
    }
}

/// What in the settings of `interface` would take frames from a daemon that has its port of `scheme` (`xdp`, `packet`) there, uses a
/// VLAN or IPv6: lines with the command that mends each. Empty, too, when the kernel does not tell.
pub fn hazards(interface: &str, scheme: &str, vlan: bool, ipv6: bool) -> Vec<String> {
    let nics = netlink::ask(&[interface.to_owned()]);
    nics.iter().flat_map(|nic| checks::nic::hazards(nic, scheme, vlan, ipv6)).collect()
}

/// Looks at everything.
pub fn examine(root: &Root, facts: &Facts, options: &Options) -> Report {
    let mut findings = Vec::new();
    checks::rights::check(root, options, &mut findings);
    checks::ports::check(root, &facts.probes, options, &mut findings);
    checks::dpdk::check(root, &mut findings);
    checks::memory::check(root, &mut findings);
    checks::cores::check(root, &mut findings);
    checks::clocks::check(root, &mut findings);
    checks::share::check(root, &mut findings);
    checks::network::check(root, &mut findings);
    for name in interfaces(root, options) {
        let facts = facts.nics.iter().find(|nic| nic.name == name).cloned();
        let facts = facts.unwrap_or_else(|| NicFacts::unanswered(&name));
        checks::nic::check(root, &facts, options.interfaces.contains(&name), &mut findings);
    }
    if let Some(measured) = &facts.measured {
        checks::measured::check(measured, &mut findings);
    }
    Report { findings }
}

/// Most cards that are looked at when none was named.
const INTERFACES_MAX: usize = 16;

/// The named ones, or every card that is up and has hardware (or a hypervisor) behind it.
fn interfaces(root: &Root, options: &Options) -> Vec<String> {
    if !options.interfaces.is_empty() {
        return options.interfaces.clone();
    }
    let up = |name: &String| {
        root.exists(&format!("sys/class/net/{name}/device"))
            && checks::nic::flags(root, name).is_none_or(|f| f & 1 != 0)
    };
    root.names("sys/class/net").into_iter().filter(up).take(INTERFACES_MAX).collect()
}
