//! Who holds an interface's XDP hook: the program from rtnetlink, its name from bpf(2), its processes from `/proc`.
//!
//! Numbers: `linux/rtnetlink.h`, `linux/if_link.h`, `struct bpf_prog_info` in `linux/bpf.h`. An answer that is missing or cut off
//! leaves a hole, never an error.

use crate::sys;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::fmt;
use std::fs;
use std::os::fd::AsRawFd;

const NLM_F_REQUEST: u16 = 1;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const HEADER_LEN: usize = 16;
const IFINFO_LEN: usize = 16;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
const TYPE_MASK: u16 = 0x3fff;
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
    let mut socket = Socket::new(NETLINK_ROUTE).ok()?;
    socket.bind_auto().ok()?;
    socket.connect(&SocketAddr::new(0, 0)).ok()?;
    // The kernel answers while it takes the question.
    socket.set_non_blocking(true).ok()?;
    let mut question = Vec::with_capacity(HEADER_LEN + IFINFO_LEN);
    question.extend_from_slice(&((HEADER_LEN + IFINFO_LEN) as u32).to_ne_bytes());
    question.extend_from_slice(&RTM_GETLINK.to_ne_bytes());
    question.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    question.extend_from_slice(&[0; 12]);
    question.extend_from_slice(&ifindex.to_ne_bytes());
    question.extend_from_slice(&[0; 8]);
    socket.send(&question, 0).ok()?;
    let (answer, _) = socket.recv_from_full().ok()?;
    if u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?) != RTM_NEWLINK {
        return None;
    }
    let xdp = attribute(answer.get(HEADER_LEN + IFINFO_LEN..)?, IFLA_XDP)?;
    let id = attribute(xdp, IFLA_XDP_PROG_ID)?;
    Some(u32::from_ne_bytes(id.get(..4)?.try_into().ok()?))
}

/// The value of the first attribute of a kind.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & TYPE_MASK;
        let value = rest.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
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
    fn attributes_are_found_and_what_is_cut_off_is_not() {
        let mut list = vec![8, 0, 1, 0, 1, 2, 3, 4, 5, 0, 7, 0, 9, 0, 0, 0];
        list.extend_from_slice(&[8, 0, 43, 0x80, 42, 0, 0, 0]);
        assert_eq!(attribute(&list, 7), Some(&[9][..]));
        assert_eq!(attribute(&list, 43), Some(&[42, 0, 0, 0][..]));
        assert_eq!(attribute(&list, 44), None);
        assert_eq!(attribute(&list[..20], 43), None);
        assert_eq!(attribute(&[0, 0, 1, 0], 43), None);
    }

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
