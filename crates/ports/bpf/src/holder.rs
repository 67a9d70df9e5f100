//! Who holds an interface's XDP hook: the program from rtnetlink, its name from bpf(2), its processes from `/proc`.
//!
//! Numbers: `linux/rtnetlink.h`, `linux/if_link.h`, `struct bpf_prog_info` in `linux/bpf.h`. An answer that is missing or cut off
//! leaves a hole, never an error.

use crate::{netlink, sys};
use std::fmt;
use std::fs;
use std::os::fd::AsRawFd;

const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
/// Words of `struct bpf_prog_info` up to the end of its name, and where the name begins.
const INFO_WORDS: usize = 10;
const INFO_NAME: usize = 64;

/// A program that is attached, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The kernel's number of the program, as `bpftool prog` shows it.
    pub id: u32,
    /// Its name, at most 15 bytes; empty when the kernel does not tell it (`CAP_SYS_ADMIN`).
    pub name: String,
    /// Processes with a descriptor of the program or of its link, as far as `/proc` shows them: number and command.
    pub processes: Vec<(u32, String)>,
}

impl Holder {
    /// Of the XDP hook of an interface of the caller's network namespace; none when no program is there, or when there are
    /// several (one in the driver and one in hardware).
    pub fn of_xdp(ifindex: u32) -> Option<Holder> {
        let id = program_at(ifindex)?;
        Some(Holder { id, name: name_of(id).unwrap_or_default(), processes: processes_with(id) })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "?" } else { &self.name };
        write!(f, "`{name}`, program {}", self.id)?;
        for (at, (pid, command)) in self.processes.iter().enumerate() {
            write!(f, "{} {command} (pid {pid})", if at == 0 { ", held by" } else { "," })?;
        }
        Ok(())
    }
}

/// The number of the program at an interface's XDP hook.
fn program_at(ifindex: u32) -> Option<u32> {
    let answer = netlink::link(ifindex)?;
    let xdp = netlink::attribute(netlink::attributes(&answer)?, IFLA_XDP)?;
    let id = netlink::attribute(xdp, IFLA_XDP_PROG_ID)?;
    Some(u32::from_ne_bytes(id.get(..4)?.try_into().ok()?))
}

fn name_of(id: u32) -> Option<String> {
    let mut by_id = sys::ById { id, next_id: 0, open_flags: 0 };
    // SAFETY: the attributes of BPF_PROG_GET_FD_BY_ID, without addresses.
    let fd = unsafe { sys::bpf_fd(sys::PROG_GET_FD_BY_ID, &mut by_id) }.ok()?;
    let mut info = [0_u64; INFO_WORDS];
    let mut attr = sys::Info {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: size_of_val(&info) as u32,
        info: info.as_mut_ptr() as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes to `info`. That it holds zeros asks for no further arrays.
    unsafe { sys::bpf(sys::OBJ_GET_INFO_BY_FD, &mut attr) }.ok()?;
    let bytes: Vec<u8> = info.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = bytes.get(INFO_NAME..)?.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Processes with a descriptor of a program, or of a link that holds it.
fn processes_with(id: u32) -> Vec<(u32, String)> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<(u32, String)> = all
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| has_program(*pid, id))
        .map(|pid| {
            let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            (pid, command.trim().to_owned())
        })
        .collect();
    found.sort_unstable();
    found
}

fn has_program(pid: u32, id: u32) -> bool {
    let Ok(all) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    all.flatten().any(|entry| {
        let is_bpf = fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with("anon_inode:bpf"));
        let number = entry.file_name();
        is_bpf
            && fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy())).is_ok_and(
                |text| {
                    let value = |line: &str| line.strip_prefix("prog_id:")?.trim().parse::<u32>().ok();
                    text.lines().any(|line| value(line) == Some(id))
                },
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_told_in_words() {
        let mut holder = Holder { id: 7, name: "filter".to_owned(), processes: Vec::new() };
        assert_eq!(holder.to_string(), "`filter`, program 7");
        holder.processes = vec![(12, "one".to_owned()), (13, "two".to_owned())];
        assert_eq!(holder.to_string(), "`filter`, program 7, held by one (pid 12), two (pid 13)");
        holder.name.clear();
        holder.processes.clear();
        assert_eq!(holder.to_string(), "`?`, program 7");
    }
}
