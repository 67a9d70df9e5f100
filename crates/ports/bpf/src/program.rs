//! Programs: loading, what the verifier says, runs without an interface.

use crate::sys;
use barewire_ebpf::{Insn, helper};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The helpers used need no GPL-compatible program (`gpl_only` is false for each since kernel 5.8).
const LICENSE: &std::ffi::CStr = c"MIT";
const BPF_XDP: u32 = 37;
const LOG_ERRORS: u32 = 1;
const LOG_STATISTICS: u32 = 4;
/// Room for the verifier's statistics.
const STATISTICS_LEN: usize = 4096;
/// Room for its complaint: it tells how it came there, and the end of it counts.
const COMPLAINT_LEN: usize = 16 << 20;

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `BPF_PROG_TYPE_XDP`: before the kernel has made a buffer of the frame, or right after.
    Xdp,
    /// `BPF_PROG_TYPE_SCHED_CLS`: at the traffic-control hook.
    Tc,
}

/// What the verifier counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// Instructions it walked through, each as often as it had to.
    pub instructions: u64,
    /// States it kept in all.
    pub states: u64,
    /// The most it kept at one time.
    pub peak_states: u64,
    /// Bytes of stack.
    pub stack: u64,
}

impl Verified {
    fn parse(log: &str) -> Verified {
        let after = |key: &str| -> u64 {
            let Some((_, rest)) = log.rsplit_once(key) else { return 0 };
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or(0)
        };
        let stack = log.rsplit_once("stack depth ").map_or(0, |(_, rest)| {
            let line = rest.lines().next().unwrap_or("");
            line.split('+').filter_map(|part| part.trim().parse::<u64>().ok()).sum()
        });
        Verified {
            instructions: after("processed "),
            states: after("total_states "),
            peak_states: after("peak_states "),
            stack,
        }
    }
}

/// Why the kernel did not take a program.
#[derive(Debug)]
pub struct LoadError {
    /// What the call gave.
    pub error: io::Error,
    /// What the verifier said, its last lines.
    pub log: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if !self.log.is_empty() {
            let tail: Vec<&str> = self.log.lines().rev().take(8).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            write!(f, "; the verifier says: {}", tail.join(" | "))?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

impl From<LoadError> for io::Error {
    fn from(error: LoadError) -> io::Error {
        if error.log.is_empty() { error.error } else { io::Error::new(error.error.kind(), error.to_string()) }
    }
}

/// A program that the kernel has taken.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    kind: Kind,
    verified: Verified,
}

/// How a run without an interface went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// What the program returned.
    pub verdict: u32,
    /// The packet as it left it.
    pub packet: Vec<u8>,
    /// Nanoseconds one run took, the mean of all repetitions.
    pub nanos: u32,
}

impl Program {
    /// Loads a program; descriptors of maps are in its instructions. `name` is what `bpftool prog` shows, at most 15 bytes.
    ///
    /// # Errors
    /// [`LoadError`]: `EPERM` without the right, otherwise mostly what the verifier said.
    pub fn load(kind: Kind, name: &str, program: &[Insn]) -> Result<Program, LoadError> {
        let (prog_type, attach) = match kind {
            Kind::Xdp => (6, BPF_XDP),
            Kind::Tc => (3, 0),
        };
        let mut log = vec![0_u8; STATISTICS_LEN];
        let mut attr = sys::ProgLoad {
            prog_type,
            insn_cnt: program.len() as u32,
            insns: program.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: LOG_STATISTICS,
            log_size: log.len() as u32,
            log_buf: log.as_mut_ptr() as u64,
            kern_version: 0,
            prog_flags: 0,
            prog_name: sys::name(name),
            prog_ifindex: 0,
            expected_attach_type: attach,
        };
        // SAFETY: instructions, licence and log live across the call; the log has `log_size` bytes.
        match unsafe { sys::bpf_fd(sys::PROG_LOAD, &mut attr) } {
            Ok(fd) => return Ok(Program { fd, kind, verified: Verified::parse(&text(&log)) }),
            Err(error)
                if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES | libc::E2BIG)) =>
            {
                return Err(LoadError { error, log: String::new() });
            }
            Err(_) => {}
        }
        log.resize(COMPLAINT_LEN, 0);
        attr.log_level = LOG_ERRORS | LOG_STATISTICS;
        attr.log_size = log.len() as u32;
        attr.log_buf = log.as_mut_ptr() as u64;
        // SAFETY: as above.
        match unsafe { sys::bpf_fd(sys::PROG_LOAD, &mut attr) } {
            Ok(fd) => Ok(Program { fd, kind, verified: Verified::parse(&text(&log)) }),
            Err(error) => {
                let said = text(&log);
                let lines: Vec<&str> = said.lines().collect();
                let log = lines[lines.len().saturating_sub(60)..].join("\n");
                Err(LoadError { error, log })
            }
        }
    }

    /// What the verifier counted.
    pub fn verified(&self) -> Verified {
        self.verified
    }

    /// Where it runs.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Runs it on a packet, so often, without any interface: it sees interface 1, and redirects go nowhere. Packets have at
    /// least 14 bytes. What comes out may be longer by at most 512 bytes.
    ///
    /// # Errors
    /// `EINVAL` for a packet that is too short or too long.
    pub fn test_run(&self, packet: &[u8], repeat: u32) -> io::Result<TestRun> {
        self.run(packet, repeat, &[])
    }

    /// The same once, at tc, for a packet with a mark and something in its control block.
    ///
    /// # Errors
    /// As [`Program::test_run`].
    pub fn test_run_marked(&self, packet: &[u8], mark: u32, block: [u32; 5]) -> io::Result<TestRun> {
        let mut context = [0; helper::skb::CB as usize + 20];
        context[helper::skb::MARK as usize..][..4].copy_from_slice(&mark.to_ne_bytes());
        for (to, word) in context[helper::skb::CB as usize..].chunks_exact_mut(4).zip(block) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        self.run(packet, 1, &context)
    }

    fn run(&self, packet: &[u8], repeat: u32, context: &[u8]) -> io::Result<TestRun> {
        let mut out = vec![0_u8; packet.len() + 512];
        let mut attr = sys::Run {
            prog_fd: self.fd.as_raw_fd() as u32,
            data_size_in: packet.len() as u32,
            data_size_out: out.len() as u32,
            data_in: packet.as_ptr() as u64,
            data_out: out.as_mut_ptr() as u64,
            repeat,
            ctx_size_in: context.len() as u32,
            ctx_in: if context.is_empty() { 0 } else { context.as_ptr() as u64 },
            ..sys::Run::default()
        };
        // SAFETY: packet and context are read, `out` written as far as `data_size_out` says; all live across the call.
        unsafe { sys::bpf(sys::PROG_TEST_RUN, &mut attr)? };
        out.truncate(attr.data_size_out as usize);
        Ok(TestRun { verdict: attr.retval, packet: out, nanos: attr.duration })
    }

    /// Runs an XDP program on a packet so many times, each a frame of its own, and does what it says: redirects send (kernel 5.18).
    ///
    /// # Errors
    /// The kernel's.
    pub fn run_live(&self, packet: &[u8], repeat: u32) -> io::Result<()> {
        const LIVE_FRAMES: u32 = 1 << 1;
        let mut attr = sys::Run {
            prog_fd: self.fd.as_raw_fd() as u32,
            data_size_in: packet.len() as u32,
            data_in: packet.as_ptr() as u64,
            repeat,
            flags: LIVE_FRAMES,
            ..sys::Run::default()
        };
        // SAFETY: the packet is read and lives across the call; nothing is written but the attributes.
        unsafe { sys::bpf(sys::PROG_TEST_RUN, &mut attr) }.map(drop)
    }
}

fn text(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}

impl AsRawFd for Program {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_statistics_are_read() {
        let log = "verification time 61 usec\nstack depth 24+8\nprocessed 104 insns (limit 1000000) max_states_per_insn 1 \
                   total_states 9 peak_states 7 mark_read 4\n";
        let read = Verified::parse(log);
        assert_eq!(read, Verified { instructions: 104, states: 9, peak_states: 7, stack: 32 });
    }
}
