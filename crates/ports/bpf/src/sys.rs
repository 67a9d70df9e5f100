//! The call itself, with the parts of `union bpf_attr` that belong to each command.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

pub(crate) const MAP_CREATE: libc::c_int = 0;
pub(crate) const MAP_LOOKUP_ELEM: libc::c_int = 1;
pub(crate) const MAP_UPDATE_ELEM: libc::c_int = 2;
pub(crate) const MAP_DELETE_ELEM: libc::c_int = 3;
pub(crate) const MAP_GET_NEXT_KEY: libc::c_int = 4;
pub(crate) const PROG_LOAD: libc::c_int = 5;
pub(crate) const PROG_TEST_RUN: libc::c_int = 10;
pub(crate) const PROG_GET_FD_BY_ID: libc::c_int = 13;
pub(crate) const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
pub(crate) const BTF_LOAD: libc::c_int = 18;
pub(crate) const MAP_LOOKUP_BATCH: libc::c_int = 24;
pub(crate) const MAP_UPDATE_BATCH: libc::c_int = 26;
pub(crate) const LINK_CREATE: libc::c_int = 28;
pub(crate) const LINK_UPDATE: libc::c_int = 29;
pub(crate) const LINK_DETACH: libc::c_int = 34;

#[repr(C)]
#[derive(Default)]
pub(crate) struct MapCreate {
    pub map_type: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub inner_map_fd: u32,
    pub numa_node: u32,
    pub map_name: [u8; 16],
    pub map_ifindex: u32,
    pub btf_fd: u32,
    pub btf_key: u32,
    pub btf_value: u32,
}

#[repr(C)]
pub(crate) struct BtfLoad {
    pub btf: u64,
    pub log_buf: u64,
    pub size: u32,
    pub log_size: u32,
    pub log_level: u32,
    pub pad: u32,
}

#[repr(C)]
pub(crate) struct MapElem {
    pub map_fd: u32,
    pub pad: u32,
    pub key: u64,
    /// The value, or the next key.
    pub value: u64,
    pub flags: u64,
}

#[repr(C)]
pub(crate) struct MapBatch {
    pub in_batch: u64,
    pub out_batch: u64,
    pub keys: u64,
    pub values: u64,
    pub count: u32,
    pub map_fd: u32,
    pub elem_flags: u64,
    pub flags: u64,
}

#[repr(C)]
pub(crate) struct ProgLoad {
    pub prog_type: u32,
    pub insn_cnt: u32,
    pub insns: u64,
    pub license: u64,
    pub log_level: u32,
    pub log_size: u32,
    pub log_buf: u64,
    pub kern_version: u32,
    pub prog_flags: u32,
    pub prog_name: [u8; 16],
    pub prog_ifindex: u32,
    pub expected_attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Run {
    pub prog_fd: u32,
    pub retval: u32,
    pub data_size_in: u32,
    pub data_size_out: u32,
    pub data_in: u64,
    pub data_out: u64,
    pub repeat: u32,
    pub duration: u32,
    pub ctx_size_in: u32,
    pub ctx_size_out: u32,
    pub ctx_in: u64,
    pub ctx_out: u64,
    pub flags: u32,
    pub cpu: u32,
    pub batch_size: u32,
    pub pad: u32,
}

#[repr(C)]
pub(crate) struct ById {
    pub id: u32,
    pub next_id: u32,
    pub open_flags: u32,
}

#[repr(C)]
pub(crate) struct Info {
    pub bpf_fd: u32,
    pub info_len: u32,
    pub info: u64,
}

#[repr(C)]
pub(crate) struct LinkCreate {
    pub prog_fd: u32,
    pub target_ifindex: u32,
    pub attach_type: u32,
    pub flags: u32,
}

#[repr(C)]
pub(crate) struct LinkDetach {
    pub link_fd: u32,
}

#[repr(C)]
pub(crate) struct LinkUpdate {
    pub link_fd: u32,
    pub new_prog_fd: u32,
    pub flags: u32,
    pub old_prog_fd: u32,
}

/// # Safety
/// `T` is the part of `union bpf_attr` that belongs to `command`, without padding, and the addresses in it are valid for
/// what the command reads and writes there.
pub(crate) unsafe fn bpf<T>(command: libc::c_int, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the caller's; the kernel reads `size_of::<T>()` bytes of `attr` and writes results into it.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

/// # Safety
/// As for [`bpf`], with a command that makes a descriptor.
pub(crate) unsafe fn bpf_fd<T>(command: libc::c_int, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's; the descriptor is new and owned here alone (bpf descriptors are close-on-exec).
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attr)? as RawFd)) }
}

/// A name as the kernel takes it: fifteen bytes of letters, digits, `_` and `.`.
pub(crate) fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    for (to, byte) in name.iter_mut().take(15).zip(text.bytes()) {
        *to = if byte.is_ascii_alphanumeric() || byte == b'.' { byte } else { b'_' };
    }
    name
}

/// How many CPUs the kernel keeps values of per-CPU maps for.
pub fn possible_cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
        last.map_or(1, |last| last + 1)
    })
}

/// Raises the limit of locked memory as far as it goes: kernels before 5.11 charge BPF to it.
pub fn raise_memlock() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: each call reads or writes the one structure.
    unsafe {
        let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        if libc::setrlimit(libc::RLIMIT_MEMLOCK, &all) != 0
            && libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) == 0
        {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit);
        }
    }
}
