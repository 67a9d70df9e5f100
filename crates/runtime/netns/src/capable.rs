//! Can this process make hosts and links at all? Asked before a demo starts, not found out in its middle.

use crate::namespace::on_thread;
use crate::{LinkConfig, Namespace, NetnsError, VethPair, sys};
use std::io;

/// Why this process cannot make hosts and links.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhyNot {
    /// The process may not make a network namespace.
    #[error("not allowed to make network namespaces: {0}")]
    NotPermitted(io::Error),
    /// The kernel has no network namespaces, or no more of them.
    #[error("the kernel makes no network namespace: {0}")]
    NoNamespaces(io::Error),
    /// A namespace can be made, but has no veth links.
    #[error("the kernel makes no veth pair: {0}")]
    NoVeth(NetnsError),
    /// A namespace can be made, but its name under `/run/netns` cannot.
    #[error("namespaces cannot be named: {0}")]
    NoNames(NetnsError),
}

impl WhyNot {
    /// What to do about it, for a `hint:` line.
    pub fn hint(&self) -> &'static str {
        match self {
            WhyNot::NotPermitted(_) => {
                "run as root (`sudo`), or with CAP_SYS_ADMIN and CAP_NET_ADMIN (a container: `--privileged`)"
            }
            WhyNot::NoNamespaces(e) if e.raw_os_error() == Some(libc::ENOSPC) => {
                "raise it: sysctl user.max_net_namespaces"
            }
            WhyNot::NoNamespaces(_) => "the kernel needs CONFIG_NET_NS",
            WhyNot::NoVeth(_) => "the kernel needs CONFIG_VETH (`modprobe veth`)",
            WhyNot::NoNames(_) => "mounting under /run/netns must be allowed (a container: `--privileged`)",
        }
    }
}

/// Whether this process can make named namespaces and veth pairs, by making one of each and removing them.
///
/// # Errors
/// [`WhyNot`], with a [hint](WhyNot::hint).
pub fn is_root_capable() -> Result<(), WhyNot> {
    on_thread(sys::unshare_net).map_err(|e| match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => WhyNot::NotPermitted(e),
        _ => WhyNot::NoNamespaces(e),
    })?;
    let ns = Namespace::anonymous().map_err(WhyNot::NoVeth)?;
    VethPair::create(&ns, "probe0", &ns, "probe1", &LinkConfig::default()).map_err(WhyNot::NoVeth)?;
    // Threads may ask at once, and each needs a name of its own.
    static PROBES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let probe = PROBES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Namespace::create(&format!("probe-{probe}")).and_then(Namespace::remove).map_err(WhyNot::NoNames)
}
