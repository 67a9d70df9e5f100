//! The bpf(2) system call: maps, programs, links, and runs of a program without an interface.
//!
//! Everything is a descriptor that its value owns: maps and programs live while one is open (or while a link holds them), a
//! link detaches when its is closed, by whatever end the process comes to. Nothing is pinned; a filter of a kernel without links for tc
//! is the exception that a killed process leaves. Programs come from
//! [`barewire_ebpf`]; what the verifier says of one comes back as text ([`LoadError`]) or as numbers ([`Verified`]).
//! Source: `linux/bpf.h`, bpf(2), kernel `Documentation/bpf`.
//!
//! ```no_run
//! use barewire_bpf::{Hook, Kind, Link, Program, XdpMode};
//! use barewire_ebpf::{Asm, Reg};
//!
//! // A program that passes every frame. It needs CAP_BPF and CAP_NET_ADMIN, and ends with the link.
//! let mut asm = Asm::default();
//! asm.mov_imm(Reg::R0, 2); // XDP_PASS
//! asm.exit();
//! let program = Program::load(Kind::Xdp, "pass", &asm.finish(false)?)?;
//! assert_eq!(program.test_run(&[0; 60], 1)?.verdict, 2);
//! let link = Link::attach(&program, 3, Hook::Xdp(XdpMode::Generic))?;
//! # drop(link);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Times are nanoseconds, interfaces are indices. Errors are those of the system call; [`LoadError`] has the verifier's log.
#![warn(missing_docs)]

mod btf;
mod claim;
mod clsact;
mod holder;
mod link;
mod map;
mod netlink;
mod probe;
mod program;
mod ringbuf;
mod sys;
mod wait;

pub use claim::Claim;
pub use clsact::remove_left;
pub use holder::Holder;
pub use link::{Hook, Link, XdpMode};
pub use map::Map;
pub use netlink::peer_is_elsewhere;
pub use probe::takes_redirected;
pub use program::{Kind, LoadError, Program, TestRun, Verified};
pub use ringbuf::RingReader;
pub use sys::{possible_cpus, raise_memlock};
pub use wait::wait_for_programs;
