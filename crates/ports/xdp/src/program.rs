//! The XDP program: which frames are ours, and when they came.
//!
//! ```text
//! no claims:  every frame ------------------------------+
//! claims:     ARP whose target address is claimed ------+--> [stamp] --> redirect to the queue's socket,
//!             IPv4, IPv6 to a claimed address ----------+                or XDP_PASS when it has none
//!             neighbour solicitation for a claimed one -+
//!             everything else ------------------------------> XDP_PASS: the kernel never notices us
//! ```
//! One VLAN tag is looked through. What a group has to hear that is addressed to all (router advertisements, IGMP
//! queries to 224.0.0.1) stays with the kernel unless that group address is claimed: a frame cannot go to both.

use barewire_ebpf::{Asm, Insn, Label, Reg, Size, helper};
use std::net::IpAddr;

/// Most addresses that one program compares: the chain is linear, and its jumps reach 32,767 instructions.
pub const CLAIM_MAX: usize = 64;
/// Bytes that the program writes in front of a frame when it stamps: the time, then the time xor the port's cookie.
///
/// The cookie tells a stamp from whatever the chunk held before, where a driver has no room for metadata.
pub const STAMP_LEN: usize = 16;

const ETH_P_IP: u16 = 0x0800;
const ETH_P_ARP: u16 = 0x0806;
const ETH_P_VLAN: u16 = 0x8100;
const ETH_P_QINQ: u16 = 0x88a8;
const ETH_P_IPV6: u16 = 0x86dd;
const ETH_LEN: i32 = 14;
const VLAN_LEN: i32 = 4;
const ARP_LEN: i32 = 28;
const IPV4_LEN: i32 = 20;
const IPV6_LEN: i32 = 40;
/// ICMPv6 type, code, checksum, reserved, target (RFC 4861 section 4.3).
const SOLICITATION_LEN: i32 = 24;
const ICMPV6: i32 = 58;
const NEIGHBOUR_SOLICITATION: i32 = 135;

const R0: Reg = Reg(0);
const R1: Reg = Reg(1);
const R2: Reg = Reg(2);
const R3: Reg = Reg(3);
const R4: Reg = Reg(4);
const R5: Reg = Reg(5);
const CTX: Reg = Reg(6);
const DATA: Reg = Reg(7);
const END: Reg = Reg(8);
const TIME: Reg = Reg(9);

/// What the program shall do.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The XSKMAP's descriptor.
    pub map_fd: i32,
    /// Addresses that are ours; empty: every frame is.
    pub claim: &'a [IpAddr],
    /// Stamp frames with the kernel's monotonic clock, marked with this cookie.
    pub stamp_cookie: Option<u64>,
}

impl Program<'_> {
    /// The instructions. `None` when there are more than [`CLAIM_MAX`] claims.
    pub fn assemble(&self) -> Option<Vec<Insn>> {
        if self.claim.len() > CLAIM_MAX {
            return None;
        }
        let mut asm = Asm::default();
        let (ours, pass) = (asm.label(), asm.label());
        asm.mov(CTX, R1);
        if !self.claim.is_empty() {
            self.claims(&mut asm, ours, pass);
        }
        asm.place(ours);
        if let Some(cookie) = self.stamp_cookie {
            stamp(&mut asm, cookie);
        }
        asm.map(R1, self.map_fd);
        asm.load(Size::W, R2, CTX, helper::xdp::RX_QUEUE);
        asm.mov_imm(R3, helper::xdp::PASS);
        asm.call(helper::REDIRECT_MAP);
        asm.exit();
        if !self.claim.is_empty() {
            asm.place(pass);
            asm.mov_imm(R0, helper::xdp::PASS);
            asm.exit();
        }
        asm.finish(false).ok()
    }

    fn claims(&self, asm: &mut Asm, ours: Label, pass: Label) {
        let tagged = asm.label();
        asm.load(Size::W, DATA, CTX, helper::xdp::DATA);
        asm.load(Size::W, END, CTX, helper::xdp::DATA_END);
        need(asm, ETH_LEN, pass);
        asm.load(Size::H, R3, DATA, 12);
        asm.jump_equal32(R3, be16(ETH_P_VLAN), tagged);
        asm.jump_equal32(R3, be16(ETH_P_QINQ), tagged);
        self.layer3(asm, ETH_LEN, ours, pass);
        asm.place(tagged);
        need(asm, ETH_LEN + VLAN_LEN, pass);
        asm.load(Size::H, R3, DATA, 16);
        self.layer3(asm, ETH_LEN + VLAN_LEN, ours, pass);
    }

    /// The part after the EtherType, which is in r3; `at` is where the packet starts. Ends in a jump.
    fn layer3(&self, asm: &mut Asm, at: i32, ours: Label, pass: Label) {
        let (ipv4, arp, ipv6) = (asm.label(), asm.label(), asm.label());
        asm.jump_equal32(R3, be16(ETH_P_IP), ipv4);
        asm.jump_equal32(R3, be16(ETH_P_ARP), arp);
        asm.jump_equal32(R3, be16(ETH_P_IPV6), ipv6);
        asm.jump(pass);

        asm.place(ipv4);
        need(asm, at + IPV4_LEN, pass);
        asm.load(Size::W, R3, DATA, at as i16 + 16);
        self.match_ipv4(asm, ours);
        asm.jump(pass);

        asm.place(arp);
        need(asm, at + ARP_LEN, pass);
        asm.load(Size::W, R3, DATA, at as i16 + 24);
        self.match_ipv4(asm, ours);
        asm.jump(pass);

        asm.place(ipv6);
        need(asm, at + IPV6_LEN, pass);
        load_ipv6(asm, at as i16 + 24);
        self.match_ipv6(asm, ours);
        // A solicited-node group, ff02::1:ffXX:XXXX (RFC 4291 section 2.7.1), may be shared with an address of the
        // kernel's: the target decides.
        asm.jump_unequal32(R2, be32(0xff02_0000), pass);
        asm.jump_unequal32(R3, 0, pass);
        asm.jump_unequal32(R4, be32(1), pass);
        asm.and32_imm(R5, be32(0xff00_0000));
        asm.jump_unequal32(R5, be32(0xff00_0000), pass);
        need(asm, at + IPV6_LEN + SOLICITATION_LEN, pass);
        asm.load(Size::B, R3, DATA, at as i16 + 6);
        asm.jump_unequal32(R3, ICMPV6, pass);
        asm.load(Size::B, R3, DATA, (at + IPV6_LEN) as i16);
        asm.jump_unequal32(R3, NEIGHBOUR_SOLICITATION, pass);
        load_ipv6(asm, (at + IPV6_LEN) as i16 + 8);
        self.match_ipv6(asm, ours);
        asm.jump(pass);
    }

    /// Jumps when r3 is a claimed IPv4 address.
    fn match_ipv4(&self, asm: &mut Asm, ours: Label) {
        for claim in self.claim {
            if let IpAddr::V4(v4) = claim {
                asm.jump_equal32(R3, be32(u32::from(*v4)), ours);
            }
        }
    }

    /// Jumps when r2 to r5 are a claimed IPv6 address. The last word differs most, so it is compared first.
    fn match_ipv6(&self, asm: &mut Asm, ours: Label) {
        for claim in self.claim {
            if let IpAddr::V6(v6) = claim {
                let word = |i: u32| be32((u128::from(*v6) >> (96 - 32 * i)) as u32);
                let next = asm.label();
                asm.jump_unequal32(R5, word(3), next);
                asm.jump_unequal32(R4, word(2), next);
                asm.jump_unequal32(R3, word(1), next);
                asm.jump_equal32(R2, word(0), ours);
                asm.place(next);
            }
        }
    }
}

/// Goes to `otherwise` when the frame has fewer than `len` bytes. Loses r2.
fn need(asm: &mut Asm, len: i32, otherwise: Label) {
    asm.mov(R2, DATA);
    asm.add_imm(R2, len);
    asm.jump_greater(R2, END, otherwise);
}

fn load_ipv6(asm: &mut Asm, at: i16) {
    for (i, reg) in [R2, R3, R4, R5].into_iter().enumerate() {
        asm.load(Size::W, reg, DATA, at + 4 * i as i16);
    }
}

/// Writes the time into the metadata in front of the frame; leaves the frame without it where that is refused.
fn stamp(asm: &mut Asm, cookie: u64) {
    let done = asm.label();
    call_with_ctx(asm, helper::XDP_ADJUST_META, -(STAMP_LEN as i32));
    asm.jump_nonzero(R0, done);
    asm.call(helper::KTIME_GET_NS);
    asm.mov(TIME, R0);
    asm.load(Size::W, R2, CTX, helper::xdp::DATA_META);
    asm.load(Size::W, R3, CTX, helper::xdp::DATA);
    asm.mov(R4, R2);
    asm.add_imm(R4, STAMP_LEN as i32);
    asm.jump_greater(R4, R3, done);
    asm.store(Size::D, R2, 0, TIME);
    asm.wide(R5, cookie);
    asm.xor(TIME, R5);
    asm.store(Size::D, R2, 8, TIME);
    asm.place(done);
}

/// Calls `helper(ctx, arg)`.
fn call_with_ctx(asm: &mut Asm, helper: i32, arg: i32) {
    asm.mov(R1, CTX);
    asm.mov_imm(R2, arg);
    asm.call(helper);
}

/// The value that a 16-bit load of these network-order bytes gives.
fn be16(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// The value that a 32-bit load of these network-order bytes gives.
fn be32(value: u32) -> i32 {
    i32::from_ne_bytes(value.to_be_bytes())
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
