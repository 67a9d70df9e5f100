//! Errors of making hosts and wires.

use std::io;

/// Why a host or wire could not be made, changed or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetnsError {
    /// A name that cannot be one.
    #[error("{what} `{name}`: {why}")]
    BadName {
        /// What was to be named.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The link exists and did not come up in time.
    #[error("link {name} did not come up within {waited_ms} ms")]
    NotRunning {
        /// The interface.
        name: String,
        /// How long was waited.
        waited_ms: u64,
    },
}

impl NetnsError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> NetnsError {
        let what = what.into();
        move |source| NetnsError::System { what, source }
    }

    /// What the user can do about it, for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        let NetnsError::System { source, .. } = self else { return None };
        match source.raw_os_error()? {
            libc::EPERM | libc::EACCES => Some("run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN"),
            libc::ENOSPC => Some("raise user.max_net_namespaces (sysctl)"),
            libc::EEXIST => Some("two labs of one process need two labels"),
            libc::EOPNOTSUPP => Some("the kernel lacks this kind of link or feature"),
            _ => None,
        }
    }
}
