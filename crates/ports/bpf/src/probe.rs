//! Whether an interface takes what XDP redirects to it.

use crate::{Kind, Program, netlink};
use barewire_ebpf::{Asm, Reg, helper};
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// Frames sent to find out: more than the kernel sends by itself meanwhile.
const FRAMES: u32 = 16;
/// How often it is looked whether they went, and how long after one another.
const LOOKS: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(10);
/// The EtherType for local experiments (IEEE 802), which hosts pass over.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// The shortest Ethernet frame, without its checksum.
const FRAME_LEN: usize = 60;

/// Whether frames that XDP redirects to an interface of the caller's network namespace leave it. A veth takes them only where its
/// other end polls (NAPI): with an XDP program in its driver, or with generic receive offload on. Where it does not, they vanish and no
/// counter tells. So a few frames are sent, to no host's address (that of the interface, which is here).
///
/// # Errors
/// The kernel's: no such interface, no right, no XDP (`EINVAL` before kernel 5.18).
pub fn takes_redirected(ifindex: u32) -> io::Result<bool> {
    let mut asm = Asm::default();
    asm.mov_imm(Reg::R1, ifindex as i32);
    asm.mov_imm(Reg::R2, 0);
    asm.call(helper::REDIRECT);
    asm.exit();
    let program = asm.finish(false).map_err(|error| io::Error::other(error.to_string()))?;
    let program = Program::load(Kind::Xdp, "barewire_probe", &program)?;
    let own = netlink::address(ifindex).ok_or(io::ErrorKind::NotFound)?;
    let mut frame = [0; FRAME_LEN];
    frame[..6].copy_from_slice(&own);
    frame[6..12].copy_from_slice(&own);
    frame[12..14].copy_from_slice(&ETHERTYPE);
    let sent = || netlink::packets_sent(ifindex).ok_or(io::ErrorKind::NotFound);
    let before = sent()?;
    program.run_live(&frame, FRAMES)?;
    for _ in 0..LOOKS {
        if sent()?.wrapping_sub(before) >= u64::from(FRAMES) {
            return Ok(true);
        }
        sleep(BETWEEN);
    }
    Ok(false)
}
