//! How packets leave: by a port, in copies, to the controller, dropped, or to user space.

use crate::copies::Copies;
use crate::r#gen::{CTX, Gen, MIN_DEPTH, TEMP2, VECTOR};
use crate::maps::{self, TAG_LEN, config, drop_reason, fixed, targets, verdict};
use crate::{CONTROLLER_MARK, Reason, SLOW_MARK};
use barewire_ebpf::{Alu, Bits, Cond, Label, Reg, Size, helper};
use barewire_p4::phv::slot;

/// The scratch word with the packet's multicast group; 0: none.
pub(crate) const GROUP: u32 = 58;
/// The EtherType of local experiments (IEEE 802), which the kernel has no use for.
pub const TAG_TYPE: [u8; 2] = [0x88, 0xb5];

impl Gen<'_> {
    /// Count a packet by how it ended. Loses r0 to r5.
    pub fn account(&mut self, element: u32) {
        let none = self.asm.label();
        self.asm.mov_imm(Reg::R1, element as i32);
        self.lookup_index(fixed::STATISTICS, Reg::R1);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
        self.asm.load(Size::D, Reg::R1, Reg::R0, 0);
        self.asm.add_imm(Reg::R1, 1);
        self.asm.store(Size::D, Reg::R0, 0, Reg::R1);
        self.asm.place(none);
    }

    /// Say what becomes of the packet, with a register's value beside.
    fn say(&mut self, what: u64, detail: Reg) {
        let result = self.shape.result as i16;
        self.asm.store_imm(Size::D, VECTOR, result, what as i32);
        self.asm.store(Size::D, VECTOR, result + 8, detail);
    }

    /// The packet leaves by the port that was kept, or as copies of its multicast group.
    pub fn forward(&mut self) {
        if self.copies.is_some() {
            let (group, usual) = (self.scratch(GROUP), self.asm.label());
            self.asm.load(Size::D, TEMP2, VECTOR, group);
            self.asm.jump_if_imm(Bits::B64, Cond::Eq, TEMP2, 0, usual);
            self.say(verdict::COPIES, TEMP2);
            self.copies(group);
            self.asm.place(usual);
        }
        let (kept, other) = (self.shape.result as i16 + 16, self.asm.label());
        self.asm.load(Size::D, TEMP2, VECTOR, kept);
        self.asm.map_value(Reg::R1, fixed::CONFIG as i32, 0);
        self.asm.load(Size::D, Reg::R2, Reg::R1, config::CPU_PORT as i16);
        // 0, for none, becomes a number that no port has.
        self.asm.add_imm(Reg::R2, -1);
        self.asm.jump_if(Bits::B64, Cond::Ne, Reg::R2, TEMP2, other);
        self.say(verdict::CONTROLLER, TEMP2);
        // What stands before a packet for the controller cannot be taken away again. So a copy comes in again, and gets it there.
        self.send_copy_if_pending(|code| {
            code.asm.load(Size::W, Reg::R8, CTX, helper::skb::MARK);
            code.asm.mov_imm(Reg::R1, CONTROLLER_MARK as i32);
            code.asm.store(Size::W, CTX, helper::skb::MARK, Reg::R1);
            code.asm.mov(Reg::R1, CTX);
            code.asm.load(Size::W, Reg::R2, CTX, helper::skb::IFINDEX);
            code.asm.mov_imm(Reg::R3, helper::skb::F_INGRESS);
            code.asm.call(helper::CLONE_REDIRECT);
            code.asm.store(Size::W, CTX, helper::skb::MARK, Reg::R8);
        });
        self.tell_controller();
        self.asm.place(other);
        let no_port = self.dropped(drop_reason::NO_PORT);
        self.say(verdict::FORWARD, TEMP2);
        if self.is_tc() {
            return self.forward_packet(no_port);
        }
        self.asm.map(Reg::R1, fixed::DEVICES as i32);
        self.asm.mov(Reg::R2, TEMP2);
        self.asm.mov_imm(Reg::R3, helper::xdp::DROP);
        self.asm.call(helper::REDIRECT_MAP);
        self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, helper::xdp::REDIRECT, no_port);
        self.account(0);
        self.asm.mov_imm(Reg::R0, helper::xdp::REDIRECT);
        self.asm.exit();
    }

    /// The same at tc: the port is in r7.
    fn forward_packet(&mut self, no_port: Label) {
        let out = self.asm.label();
        self.lookup_index(fixed::TARGETS, TEMP2);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, no_port);
        self.asm.load(Size::W, Reg::R8, Reg::R0, targets::IFINDEX as i16);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R8, 0, no_port);
        self.asm.load(Size::W, Reg::R7, Reg::R0, targets::PEER as i16);
        self.account(0);
        self.send_copy_if_pending(|code| {
            code.asm.mov(Reg::R1, CTX);
            code.asm.mov(Reg::R2, Reg::R8);
            code.asm.mov_imm(Reg::R3, 0);
            code.asm.call(helper::CLONE_REDIRECT);
        });
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R7, 0, out);
        // Straight to the other end only what that takes as if it had come by wire: for one host, of the same EtherType, with its
        // headers where they were.
        if self.cuts.as_ref().is_some_and(|plan| plan.grows) {
            let growth = self.slot(slot::GROWTH);
            self.asm.load(Size::D, Reg::R1, VECTOR, growth);
            self.asm.jump_nonzero(Reg::R1, out);
        }
        self.asm.load(Size::W, Reg::R1, CTX, helper::skb::DATA);
        self.asm.load(Size::W, Reg::R2, CTX, helper::skb::DATA_END);
        self.asm.mov(Reg::R3, Reg::R1);
        self.asm.add_imm(Reg::R3, MIN_DEPTH as i32);
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R3, Reg::R2, out);
        self.asm.load(Size::B, Reg::R2, Reg::R1, 0);
        self.asm.jump_if_imm(Bits::B64, Cond::Set, Reg::R2, 1, out);
        self.asm.load(Size::H, Reg::R2, Reg::R1, 12);
        self.asm.load(Size::W, Reg::R3, CTX, helper::skb::PROTOCOL);
        self.asm.jump_if(Bits::B64, Cond::Ne, Reg::R2, Reg::R3, out);
        self.asm.mov(Reg::R1, CTX);
        self.asm.mov_imm(Reg::R2, helper::skb::HOST);
        self.asm.call(helper::SKB_CHANGE_TYPE);
        self.asm.mov(Reg::R1, Reg::R8);
        self.asm.mov_imm(Reg::R2, 0);
        self.asm.call(helper::REDIRECT_PEER);
        self.asm.exit();
        self.asm.place(out);
        self.redirect(Reg::R8, 0);
    }

    /// A copy that came in again for the controller. Loses r1 to r5.
    pub fn is_for_controller(&mut self) {
        if self.clones_of_egress().is_none() {
            return;
        }
        let other = self.asm.label();
        self.asm.load(Size::W, Reg::R1, CTX, helper::skb::MARK);
        self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R1, CONTROLLER_MARK as i32, other);
        self.put_tag(0);
        self.come_up();
        self.asm.place(other);
    }

    /// Out of an interface, or into it, whose index is in a register.
    fn redirect(&mut self, index: Reg, flags: i32) {
        self.asm.mov(Reg::R1, index);
        self.asm.mov_imm(Reg::R2, flags);
        self.asm.call(helper::REDIRECT);
        self.asm.exit();
    }

    /// Out of the interfaces of the multicast group that lies in the vector, all of them the same bytes.
    fn copies(&mut self, group: i16) {
        let none = self.dropped(drop_reason::NO_REPLICA);
        let (Some(broadcast), Some(copies)) = (self.shape.broadcast, self.shape.copies) else {
            return self.asm.jump(none);
        };
        self.lookup(if self.is_tc() { copies } else { broadcast }, group as u32);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
        if !self.is_tc() {
            // The map of the group's interfaces. Whether there are any it does not say.
            self.asm.mov(Reg::R1, Reg::R0);
            self.asm.mov_imm(Reg::R2, 0);
            let not_back =
                if self.copies == Some(Copies::NotBack) { helper::xdp::EXCLUDE_INGRESS } else { 0 };
            self.asm.mov_imm(Reg::R3, helper::xdp::BROADCAST | not_back);
            self.asm.call(helper::REDIRECT_MAP);
            self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, helper::xdp::REDIRECT, none);
            self.account(0);
            self.asm.mov_imm(Reg::R0, helper::xdp::REDIRECT);
            return self.asm.exit();
        }
        // Taken out of the map first: when a list changes, its place there may soon hold another group's.
        for at in (0..maps::COPIES_LEN as i16).step_by(8) {
            let size = if maps::COPIES_LEN as i16 - at < 8 { Size::W } else { Size::D };
            self.asm.load(size, Reg::R1, Reg::R0, at);
            self.asm.store(size, Reg::FP, LIST + at, Reg::R1);
        }
        self.asm.mov(Reg::R8, Reg::FP);
        self.asm.add_imm(Reg::R8, i32::from(LIST));
        self.account(0);
        self.asm.mov_imm(Reg::R7, 0);
        let (again, last) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::W, Reg::R1, Reg::R8, 0);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, none);
        self.asm.place(again);
        self.asm.load(Size::W, Reg::R1, Reg::R8, 0);
        self.asm.add_imm(Reg::R1, -1);
        let element = |this: &mut Self| {
            this.asm.mov(Reg::R2, Reg::R7);
            this.asm.alu_imm(Alu::Lsh, Reg::R2, 2);
            this.asm.mov(Reg::R3, Reg::R8);
            this.asm.alu(Alu::Add, Reg::R3, Reg::R2);
            this.asm.load(Size::W, Reg::R2, Reg::R3, 4);
        };
        self.asm.jump_if(Bits::B64, Cond::Ge, Reg::R7, Reg::R1, last);
        self.asm.jump_if_imm(Bits::B64, Cond::Ge, Reg::R7, maps::MAX_COPIES as i32 - 1, last);
        let (next, back) = (self.asm.label(), self.asm.label());
        element(self);
        self.jump_if_back(next);
        self.asm.mov(Reg::R1, CTX);
        self.asm.mov_imm(Reg::R3, 0);
        self.asm.call(helper::CLONE_REDIRECT);
        self.asm.place(next);
        self.asm.add_imm(Reg::R7, 1);
        self.asm.jump(again);
        // The last copy is the packet itself.
        self.asm.place(last);
        element(self);
        self.jump_if_back(back);
        self.redirect(Reg::R2, 0);
        if self.copies == Some(Copies::NotBack) {
            self.asm.place(back);
            self.asm.mov_imm(Reg::R0, helper::skb::SHOT);
            self.asm.exit();
        }
    }

    /// Goes there if r2 is the interface that the packet came in by, and no copy is to go back. Loses r1.
    fn jump_if_back(&mut self, to: Label) {
        if self.copies == Some(Copies::NotBack) {
            self.asm.load(Size::W, Reg::R1, CTX, helper::skb::IFINDEX);
            self.asm.jump_if(Bits::B64, Cond::Eq, Reg::R1, Reg::R2, to);
        }
    }

    /// To the controller: as it would leave, behind a tag that the switch's socket knows it by. No helper of kernel 5.15 copies a packet
    /// of any length out of XDP for programs under our licence, and a socket has room for all of them and for the order they came in.
    fn tell_controller(&mut self) {
        self.put_tag(0);
        self.account(0);
        self.come_up();
    }

    pub fn ends(&mut self) {
        let result = self.shape.result as i16;
        // What goes to user space in a later round may find no room, too.
        let _ = self.dropped(drop_reason::NO_HEADROOM);
        let drops = self.drops.clone();
        for (reason, label) in drops {
            self.asm.place(label);
            if ![drop_reason::NO_PORT, drop_reason::NO_REPLICA].contains(&reason) {
                // The verdict on ports without an interface stays readable: tests have none.
                self.asm.store_imm(Size::D, VECTOR, result, verdict::DROP as i32);
                self.asm.store_imm(Size::D, VECTOR, result + 8, reason as i32);
            }
            self.account(2 + reason as u32);
            self.clone_if_pending();
            let verdict = if self.is_tc() { helper::skb::SHOT } else { helper::xdp::DROP };
            self.asm.mov_imm(Reg::R0, verdict);
            self.asm.exit();
        }
        if let Some(sent) = self.sent {
            self.call_for_clone(sent);
        }
        self.while_moving();
        let user = self.asm.label();
        let slow = self.slow.clone();
        for (at, (path, label)) in slow.iter().enumerate() {
            self.asm.place(*label);
            if path.reason == Reason::TooLong {
                self.account(maps::TOO_LONG);
            }
            if path.reason.is_of_clones() {
                self.account(maps::WANTS_CLONE);
            }
            self.asm.store_imm(Size::D, VECTOR, result + 8, at as i32);
            self.asm.jump(user);
        }
        self.asm.place(user);
        self.hand_on();
        self.asm.store_imm(Size::D, VECTOR, result, verdict::SLOW as i32);
        self.account(1);
        self.come_up();
    }

    /// At tc, while the program stands at XDP as well: what that one has worked on already is on its way up, and no packet. The configuration
    /// is in r7.
    fn while_moving(&mut self) {
        let Some((odd, on, slow)) = self.odd else { return };
        self.asm.place(odd);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, config::ALL as i32, slow);
        self.asm.load(Size::W, Reg::R1, CTX, helper::skb::DATA);
        self.asm.load(Size::W, Reg::R2, CTX, helper::skb::DATA_END);
        self.asm.mov(Reg::R3, Reg::R1);
        self.asm.add_imm(Reg::R3, TAG_LEN as i32);
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R3, Reg::R2, on);
        for word in 0..2 {
            self.asm.load(Size::D, Reg::R2, Reg::R1, (maps::TAG_SECRET + 8 * word) as i16);
            self.asm.load(Size::D, Reg::R3, Reg::R7, (config::TAG + 8 * word) as i16);
            self.asm.jump_if(Bits::B64, Cond::Ne, Reg::R2, Reg::R3, on);
        }
        self.asm.load(Size::H, Reg::R2, Reg::R1, 12);
        self.asm.jump_if_imm(
            Bits::B64,
            Cond::Ne,
            Reg::R2,
            i32::from(u16::from_ne_bytes(crate::TAG_TYPE)),
            on,
        );
        self.asm.load(Size::D, Reg::R2, Reg::R1, 0);
        self.asm.jump_nonzero(Reg::R2, on);
        self.come_up();
    }

    /// On to the interface's socket of the switch.
    pub fn come_up(&mut self) {
        if self.is_tc() {
            // Sockets saw it already. So it comes in again, with a mark by which the switch's knows it.
            self.asm.mov_imm(Reg::R1, SLOW_MARK as i32);
            self.asm.store(Size::W, CTX, helper::skb::MARK, Reg::R1);
            self.asm.load(Size::W, Reg::R1, CTX, helper::skb::IFINDEX);
            return self.redirect(Reg::R1, helper::skb::F_INGRESS);
        }
        self.asm.mov_imm(Reg::R0, helper::xdp::PASS);
        self.asm.exit();
    }
}

/// Where a list of copies is on the stack: no expression is being computed any more.
const LIST: i16 = -280;
// Above it: the key of a lookup.
const _: () = assert!(LIST + maps::COPIES_LEN as i16 <= crate::r#gen::TRIES && LIST % 8 == 0);

/// What stands before a packet for the controller.
pub fn tag(secret: [u8; 16]) -> [u8; TAG_LEN as usize] {
    let mut tag = [0; TAG_LEN as usize];
    tag[12..14].copy_from_slice(&TAG_TYPE);
    tag[maps::TAG_SECRET as usize..].copy_from_slice(&secret);
    tag
}
