//! The assembled program, run through an interpreter of the instructions it uses.

use super::*;
use barewire_ebpf::code;
use proptest::prelude::*;
use std::collections::BTreeMap;

const QUEUE: u32 = 3;
const NOW: u64 = 0x1122_3344_5566_7788;
const COOKIE: u64 = 0xfeed_beef_0bad_cafe;
/// Where the interpreter puts the frame, its metadata below it.
const BASE: u64 = 0x1000;
const CTX_AT: u64 = 0x10;

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// To the socket of this queue, with what stands in the metadata.
    Redirect(u32, Option<[u64; 2]>),
}

/// Runs the program on one frame. Panics on what the kernel's verifier would refuse: a load outside the frame, an
/// unknown instruction, a register that was never written.
fn run(program: &[Insn], frame: &[u8], meta_works: bool) -> Verdict {
    let mut regs = [None::<u64>; 11];
    regs[1] = Some(CTX_AT);
    let mut meta_len = 0u64;
    let mut memory = BTreeMap::new();
    let mut pc = 0usize;
    for _ in 0..100_000 {
        let i = program[pc];
        let (dst, src) = (usize::from(i.regs & 15), usize::from(i.regs >> 4));
        let get = |r: usize| regs[r].expect("register read before it was written");
        pc += 1;
        let mut jump = |taken: bool| {
            if taken {
                pc = (pc as i64 + i64::from(i.off)) as usize;
            }
        };
        match i.code {
            0xbf => regs[dst] = Some(get(src)),
            0xb7 => regs[dst] = Some(i64::from(i.imm) as u64),
            0x07 => regs[dst] = Some(get(dst).wrapping_add(i64::from(i.imm) as u64)),
            0xaf => regs[dst] = Some(get(dst) ^ get(src)),
            0x54 => regs[dst] = Some(u64::from(get(dst) as u32 & i.imm as u32)),
            code::JA => jump(true),
            0x2d => jump(get(dst) > get(src)),
            0x55 => jump(get(dst) != i64::from(i.imm) as u64),
            0x16 => jump(get(dst) as u32 == i.imm as u32),
            0x56 => jump(get(dst) as u32 != i.imm as u32),
            code::LD_IMM64 => {
                let high = program[pc].imm;
                regs[dst] = Some(u64::from(i.imm as u32) | u64::from(high as u32) << 32);
                pc += 1;
            }
            code::EXIT => {
                let stamped = (meta_len > 0).then(|| [memory[&(BASE - 16)], memory[&(BASE - 8)]]);
                return match get(0) {
                    2 => Verdict::Pass,
                    4 => Verdict::Redirect(QUEUE, stamped),
                    other => panic!("returned {other}"),
                };
            }
            code::CALL => {
                regs[0] = Some(match i.imm {
                    helper::KTIME_GET_NS => NOW,
                    helper::XDP_ADJUST_META => {
                        assert_eq!((get(1), get(2) as i64), (CTX_AT, -16));
                        if meta_works {
                            meta_len = 16;
                            0
                        } else {
                            -13i64 as u64
                        }
                    }
                    helper::REDIRECT_MAP => {
                        assert_eq!((get(1), get(2), get(3)), (7, u64::from(QUEUE), 2));
                        4
                    }
                    other => panic!("helper {other}"),
                });
                regs[1..6].fill(None);
            }
            op if op & !0x18 == code::LDX => {
                let at = get(src).wrapping_add(i64::from(i.off) as u64);
                let len = width(i.code);
                regs[dst] = Some(if get(src) == CTX_AT {
                    match i.off {
                        helper::xdp::DATA => BASE,
                        helper::xdp::DATA_END => BASE + frame.len() as u64,
                        helper::xdp::DATA_META => BASE - meta_len,
                        helper::xdp::RX_QUEUE => u64::from(QUEUE),
                        other => panic!("context offset {other}"),
                    }
                } else {
                    let bytes = &frame[(at - BASE) as usize..][..len];
                    bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
                });
            }
            op if op & !0x18 == code::STX => {
                assert_eq!(width(i.code), 8);
                let at = get(dst).wrapping_add(i64::from(i.off) as u64);
                assert!((BASE - meta_len..BASE).contains(&at));
                memory.insert(at, get(src));
            }
            other => panic!("instruction {other:#x}"),
        }
    }
    panic!("does not end");
}

fn width(code: u8) -> usize {
    [4, 2, 1, 8][usize::from(code >> 3 & 3)]
}

fn program(claim: &[&str], stamp: bool) -> Vec<Insn> {
    let claim: Vec<IpAddr> = claim.iter().map(|a| a.parse().unwrap()).collect();
    Program { map_fd: 7, claim: &claim, stamp_cookie: stamp.then_some(COOKIE) }.assemble().unwrap()
}

fn frame(tag: bool, kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut f = vec![0xa5; 12];
    if tag {
        f.extend_from_slice(&[0x81, 0x00, 0x00, 0x07]);
    }
    f.extend_from_slice(&kind.to_be_bytes());
    f.extend_from_slice(packet);
    f
}

fn ipv4_to(to: [u8; 4]) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0xa5, 0xa5, 10, 9, 9, 9];
    p.extend_from_slice(&to);
    p
}

fn arp_for(target: [u8; 4]) -> Vec<u8> {
    let mut p = vec![0, 1, 8, 0, 6, 4, 0, 1];
    p.extend_from_slice(&[0xa5; 16]);
    p.extend_from_slice(&target);
    p
}

fn ipv6_to(to: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 255];
    p.extend_from_slice(&[0xa5; 16]);
    p.extend_from_slice(&to.parse::<std::net::Ipv6Addr>().unwrap().octets());
    p.extend_from_slice(payload);
    p
}

fn solicitation(target: &str) -> Vec<u8> {
    let mut p = vec![135, 0, 0xa5, 0xa5, 0, 0, 0, 0];
    p.extend_from_slice(&target.parse::<std::net::Ipv6Addr>().unwrap().octets());
    p
}

const OURS: Verdict = Verdict::Redirect(QUEUE, None);

#[test]
fn without_claims_every_frame_is_ours_in_seven_instructions() {
    let p = program(&[], false);
    let bytes: Vec<u8> = p
        .iter()
        .flat_map(|i| {
            let mut b = vec![i.code, i.regs];
            b.extend_from_slice(&i.off.to_le_bytes());
            b.extend_from_slice(&i.imm.to_le_bytes());
            b
        })
        .collect();
    #[rustfmt::skip]
    assert_eq!(bytes, [
        0xbf, 0x16, 0, 0, 0, 0, 0, 0,     // r6 = r1
        0x18, 0x11, 0, 0, 7, 0, 0, 0,     // r1 = map 7
        0x00, 0x00, 0, 0, 0, 0, 0, 0,
        0x61, 0x62, 16, 0, 0, 0, 0, 0,    // r2 = ctx->rx_queue_index
        0xb7, 0x03, 0, 0, 2, 0, 0, 0,     // r3 = XDP_PASS
        0x85, 0x00, 0, 0, 51, 0, 0, 0,    // call bpf_redirect_map
        0x95, 0x00, 0, 0, 0, 0, 0, 0,     // exit
    ]);
    assert_eq!(run(&p, &[], true), OURS);
}

#[test]
fn claims_choose_by_destination() {
    let p = program(&["10.0.0.2", "255.255.255.254", "fd00::2", "224.0.31.1"], false);
    for tag in [false, true] {
        let ours = |kind, packet: &[u8]| assert_eq!(run(&p, &frame(tag, kind, packet), true), OURS);
        let pass = |kind, packet: &[u8]| assert_eq!(run(&p, &frame(tag, kind, packet), true), Verdict::Pass);
        ours(0x0800, &ipv4_to([10, 0, 0, 2]));
        ours(0x0800, &ipv4_to([255, 255, 255, 254]));
        ours(0x0800, &ipv4_to([224, 0, 31, 1]));
        pass(0x0800, &ipv4_to([10, 0, 0, 1]));
        pass(0x0800, &ipv4_to([2, 0, 0, 10]));
        ours(0x0806, &arp_for([10, 0, 0, 2]));
        pass(0x0806, &arp_for([10, 0, 0, 1]));
        ours(0x86dd, &ipv6_to("fd00::2", 17, &[0xa5; 8]));
        pass(0x86dd, &ipv6_to("fd00::3", 17, &[0xa5; 8]));
        pass(0x86dd, &ipv6_to("fd00:0:0:1::2", 17, &[0xa5; 8]));
        pass(0x86dd, &ipv6_to("ff02::1", 58, &solicitation("fd00::2")));
        pass(0x88cc, &[0xa5; 60]);
    }
}

#[test]
fn a_solicited_node_group_is_shared_and_the_target_decides() {
    let p = program(&["fd00::2"], false);
    let sent =
        |to: &str, next, payload: &[u8]| run(&p, &frame(false, 0x86dd, &ipv6_to(to, next, payload)), true);
    assert_eq!(sent("ff02::1:ff00:2", 58, &solicitation("fd00::2")), OURS);
    assert_eq!(
        sent("ff02::1:ff00:2", 58, &solicitation("fe80::2")),
        Verdict::Pass,
        "the kernel's, same group"
    );
    assert_eq!(sent("ff02::1:ff00:2", 17, &solicitation("fd00::2")), Verdict::Pass, "no ICMPv6");
    let mut advertisement = solicitation("fd00::2");
    advertisement[0] = 136;
    assert_eq!(sent("ff02::1:ff00:2", 58, &advertisement), Verdict::Pass);
    assert_eq!(sent("ff02::1:ff00:2", 58, &solicitation("fd00::2")[..23]), Verdict::Pass, "cut short");
    assert_eq!(sent("ff02::2:ff00:2", 58, &solicitation("fd00::2")), Verdict::Pass);
}

#[test]
fn a_short_frame_passes_and_is_never_read_beyond_its_end() {
    let p = program(&["10.0.0.2", "fd00::2"], false);
    for tag in [false, true] {
        for (kind, packet) in [
            (0x0800, ipv4_to([10, 0, 0, 2])),
            (0x0806, arp_for([10, 0, 0, 2])),
            (0x86dd, ipv6_to("ff02::1:ff00:2", 58, &solicitation("fd00::2"))),
        ] {
            let whole = frame(tag, kind, &packet);
            for len in 0..whole.len() {
                assert_eq!(run(&p, &whole[..len], true), Verdict::Pass, "{kind:#x} cut to {len}");
            }
            assert_eq!(run(&p, &whole, true), OURS);
        }
    }
}

#[test]
fn a_stamp_carries_its_cookie_and_its_lack_loses_no_frame() {
    for claim in [&[][..], &["10.0.0.2"][..]] {
        let p = program(claim, true);
        let f = frame(false, 0x0800, &ipv4_to([10, 0, 0, 2]));
        assert_eq!(run(&p, &f, true), Verdict::Redirect(QUEUE, Some([NOW, NOW ^ COOKIE])));
        assert_eq!(run(&p, &f, false), OURS);
    }
}

#[test]
fn the_claims_are_bounded() {
    let many: Vec<IpAddr> = (0..=CLAIM_MAX as u128).map(|i| std::net::Ipv6Addr::from(i).into()).collect();
    let with = |n: usize| Program { map_fd: 7, claim: &many[..n], stamp_cookie: Some(1) }.assemble();
    assert!(with(CLAIM_MAX + 1).is_none());
    let p = with(CLAIM_MAX).unwrap();
    assert_eq!(
        run(&p, &frame(true, 0x86dd, &ipv6_to("::3f", 17, &[])), true),
        Verdict::Redirect(QUEUE, Some([NOW, NOW ^ 1]))
    );
    assert_eq!(run(&p, &frame(true, 0x86dd, &ipv6_to("::40", 17, &[])), true), Verdict::Pass);
}

proptest! {
    /// Against a decision written the ordinary way.
    #[test]
    fn the_program_agrees_with_a_plain_reading(
        tag: bool, kind in 0usize..4, last in 0u8..4, group: bool, cut in 0usize..100, noise: u8,
    ) {
        let p = program(&["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::3"], false);
        let v6 = format!("fd00::{last}");
        let (kind, packet, claimed) = match kind {
            0 => (0x0800, ipv4_to([10, 0, 0, last]), last == 1 || last == 2),
            1 => (0x0806, arp_for([10, 0, 0, last]), last == 1 || last == 2),
            2 if group => (0x86dd, ipv6_to("ff02::1:ff00:1", 58, &solicitation(&v6)), last == 1 || last == 3),
            2 => (0x86dd, ipv6_to(&v6, noise, &[noise]), last == 1 || last == 3),
            _ => (0x9000 | u16::from(noise), vec![noise; 64], false),
        };
        let whole = frame(tag, kind, &packet);
        let len = whole.len().saturating_sub(cut);
        let needed = if group || kind != 0x86dd { whole.len() } else { whole.len() - 1 };
        let expected = if claimed && len >= needed { OURS } else { Verdict::Pass };
        prop_assert_eq!(run(&p, &whole[..len], true), expected);
    }

    #[test]
    fn no_frame_is_read_beyond_its_end(mut f in proptest::collection::vec(any::<u8>(), 0..120), kind in 0usize..4) {
        let p = program(&["10.0.0.1", "fd00::1"], true);
        if f.len() >= 14 {
            f[12..14].copy_from_slice(&[[8, 0], [8, 6], [0x86, 0xdd], [0x81, 0]][kind]);
        }
        run(&p, &f, true);
    }
}
