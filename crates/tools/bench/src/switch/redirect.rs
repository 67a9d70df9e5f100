//! The floor under programs in the kernel: what only sends every packet to the other interface, four instructions long.

use super::wires::PORTS;
use crate::error::BenchError;
use barewire_bpf::{Hook, Kind, Link, Program, XdpMode};
use barewire_ebpf::{Asm, Reg, helper};
use barewire_engine::Interface;
use std::fmt;

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The generic hook of XDP.
    Xdp,
    /// XDP in the driver.
    XdpNative,
    /// Traffic control, and out of the other interface.
    Tc,
    /// Traffic control, and straight to the other end of that interface's wire.
    TcPeer,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            At::Xdp | At::XdpNative => "xdp",
            At::Tc => "tc",
            At::TcPeer => "tc-peer",
        })
    }
}

/// Whether the kernel takes such a program from this process.
pub fn is_possible() -> bool {
    let mut asm = Asm::default();
    asm.mov_imm(Reg::R0, helper::xdp::PASS);
    asm.exit();
    asm.finish(false).is_ok_and(|insns| Program::load(Kind::Xdp, "redirect", &insns).is_ok())
}

/// Programs at both interfaces; they go on drop.
pub struct Redirect {
    _links: Vec<Link>,
}

impl Redirect {
    /// Starts it, in the network namespace of the caller.
    ///
    /// # Errors
    /// [`BenchError::Plan`]: what the kernel refused.
    pub fn start(at: At) -> Result<Redirect, BenchError> {
        let find =
            |name: &str| Interface::find(name, name).map(|found| found.index).map_err(BenchError::Open);
        let [one, two] = [find(PORTS[0])?, find(PORTS[1])?];
        let links = [(one, two), (two, one)].map(|(from, to)| attach(at, from, to));
        Ok(Redirect { _links: links.into_iter().collect::<Result<_, _>>()? })
    }
}

fn attach(at: At, from: u32, to: u32) -> Result<Link, BenchError> {
    let refused = |error: &dyn fmt::Display| BenchError::Plan(format!("a redirect at {at}: {error}"));
    let (kind, hook, call) = match at {
        At::Xdp => (Kind::Xdp, Hook::Xdp(XdpMode::Generic), helper::REDIRECT),
        At::XdpNative => (Kind::Xdp, Hook::Xdp(XdpMode::Native), helper::REDIRECT),
        At::Tc => (Kind::Tc, Hook::TcIngress, helper::REDIRECT),
        At::TcPeer => (Kind::Tc, Hook::TcIngress, helper::REDIRECT_PEER),
    };
    let mut asm = Asm::default();
    if at == At::TcPeer {
        // It is for whoever is there: what came for another host's address is not taken otherwise.
        asm.mov(Reg::R6, Reg::R1);
        asm.mov_imm(Reg::R2, helper::skb::HOST);
        asm.call(helper::SKB_CHANGE_TYPE);
    }
    asm.mov_imm(Reg::R1, to as i32);
    asm.mov_imm(Reg::R2, 0);
    asm.call(call);
    asm.exit();
    let insns = asm.finish(false).map_err(|error| refused(&error))?;
    let program = Program::load(kind, "redirect", &insns).map_err(|error| refused(&error))?;
    Link::attach(&program, from, hook).map_err(|error| refused(&error))
}
