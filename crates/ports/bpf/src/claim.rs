//! Whose an interface is among processes of ours: a socket with a name of the interface's network namespace, which ends with its process.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A claim; it ends with this.
#[derive(Debug)]
pub struct Claim(#[allow(dead_code, reason = "it is held")] UnixDatagram);

fn name(ifindex: u32) -> String {
    format!("barewire-switch-{ifindex}")
}

impl Claim {
    /// Claims an interface of the caller's network namespace.
    ///
    /// # Errors
    /// `EADDRINUSE` when somebody has it.
    pub fn of(ifindex: u32) -> io::Result<Claim> {
        let address = SocketAddr::from_abstract_name(name(ifindex))?;
        UnixDatagram::bind_addr(&address).map(Claim)
    }

    /// Who has it, as far as `/proc` shows it: command and process.
    pub fn holder(ifindex: u32) -> Option<String> {
        let wanted = format!("@{}", name(ifindex));
        let sockets = fs::read_to_string("/proc/thread-self/net/unix").ok()?;
        let line = sockets.lines().find(|line| line.split_whitespace().last() == Some(&wanted))?;
        let socket = format!("socket:[{}]", line.split_whitespace().nth(6)?);
        let has = |pid: u32| {
            let Ok(all) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
            all.flatten().any(|entry| {
                fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy() == socket)
            })
        };
        let all = fs::read_dir("/proc").ok()?.flatten();
        let pid =
            all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| has(*pid))?;
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(format!("{} (pid {pid})", command.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_claimed_once() {
        // No interface has this number.
        let index = u32::MAX - std::process::id() % 1000;
        let claim = Claim::of(index).expect("nobody has it");
        assert_eq!(Claim::of(index).expect_err("it is taken").raw_os_error(), Some(libc::EADDRINUSE));
        let holder = Claim::holder(index).expect("this process");
        assert!(holder.ends_with(&format!("(pid {})", std::process::id())), "{holder}");
        drop(claim);
        assert_eq!(Claim::holder(index), None);
        Claim::of(index).expect("it is free again");
    }
}
