//! Meters: the token buckets of `barewire-p4-state`, with the same colours from the same times.
//!
//! The interpreter multiplies the time by the rate as floating-point numbers, and cuts the product to whole tokens. The kernel has no
//! such numbers, so the product is made of integers here, rounded as theirs is (to the nearest, to 53 bits, ties to even): a bucket that
//! is full after exactly ten microseconds there is not full after eleven here.
//!
//! Each meter has a lock. Without one, packets on two CPUs would spend a token twice; with a bucket for each CPU, a meter would grant
//! its rate as often as there are CPUs.

use crate::Reason;
use crate::r#gen::{Gen, Made, TEMP2, VECTOR};
use crate::maps::meter;
use barewire_ebpf::{Alu, Bits, Cond, Label, Reg, Size, helper};
use barewire_p4::ir::{Expr, FieldRef, MeterId, MeterUnit, TableId};
use barewire_p4::phv::slot;

/// Scratch words: the colour, and the one the packet had before.
const COLOR: u32 = 56;
const PRECOLOR: u32 = 57;
/// Bits of a product that floating-point numbers do not have.
const DROPPED: i32 = 11;

/// The meter, across calls.
const CELL: Reg = TEMP2;

impl Gen<'_> {
    /// Meter the packet at an index.
    pub fn meter(
        &mut self,
        meter: MeterId,
        index: &Expr,
        precolor: Option<&Expr>,
        dst: Option<&FieldRef>,
    ) -> Made {
        let pre = self.scratch(PRECOLOR);
        match precolor {
            Some(precolor) => {
                let bounds = self.range(precolor);
                if bounds.neg || bounds.bits > 64 {
                    return Err(Reason::No("a meter's colour of more than 64 bits"));
                }
                self.eval_kept(precolor, PRECOLOR)?;
            }
            None => self.asm.store_imm(Size::D, VECTOR, pre, 0),
        }
        let none = self.asm.label();
        let size = self.program.meters[meter.at()].size;
        self.array(self.shape.meters[meter.at()], size, index, none)?;
        self.asm.mov(CELL, Reg::R0);
        self.color(meter);
        if let Some(dst) = dst {
            let color = self.scratch(COLOR);
            self.asm.load(Size::D, Reg::R0, VECTOR, color);
            self.assign_register(dst, Reg::R0)?;
        }
        self.asm.place(none);
        Ok(())
    }

    /// Meter a packet that hit an entry of a table, whose number lies in the vector (0: none was hit).
    pub fn meter_entry(&mut self, table: TableId, entry: i16) -> Made {
        let Some(meter) = self.program.tables[table.at()].meter else { return Ok(()) };
        let (none, pre, color) = (self.asm.label(), self.scratch(PRECOLOR), self.scratch(COLOR));
        self.asm.load(Size::D, Reg::R1, VECTOR, entry);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, none);
        self.lookup_index(self.shape.meters[meter.at()], Reg::R1);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
        self.asm.mov(CELL, Reg::R0);
        self.asm.store_imm(Size::D, VECTOR, pre, 0);
        self.color(meter);
        if let Some(result) = &self.program.meters[meter.at()].result {
            self.asm.load(Size::D, Reg::R0, VECTOR, color);
            self.assign_register(result, Reg::R0)?;
        }
        self.asm.place(none);
        Ok(())
    }

    /// Spend tokens of the meter in r7; the colour goes to its scratch word.
    fn color(&mut self, meter: MeterId) {
        let array = &self.program.meters[meter.at()];
        let (rates, unit) = (array.rate_count, array.unit);
        let (color, pre) = (self.scratch(COLOR), self.scratch(PRECOLOR));
        let (now, len) = (self.slot(slot::NOW_US), self.slot(slot::PACKET_LEN));
        let (unlock, configured) = (self.asm.label(), self.asm.label());
        self.asm.mov(Reg::R1, CELL);
        self.asm.call(helper::SPIN_LOCK);
        self.asm.load(Size::W, Reg::R0, CELL, meter::CONFIGURED as i16);
        self.asm.jump_nonzero(Reg::R0, configured);
        self.asm.store_imm(Size::D, VECTOR, color, 0);
        self.asm.jump(unlock);
        self.asm.place(configured);
        for passed in 0..rates {
            let at = |word: u32| (meter::RATES + meter::RATE * passed + word) as i16;
            let (some, full, enough) = (self.asm.label(), self.asm.label(), self.asm.label());
            self.produced(now, at(meter::FACTOR), at(meter::SHIFT));
            // What came since the last time.
            self.asm.load(Size::D, Reg::R1, CELL, at(meter::LAST));
            self.asm.store(Size::D, CELL, at(meter::LAST), Reg::R0);
            self.asm.jump_greater(Reg::R0, Reg::R1, some);
            self.asm.mov(Reg::R0, Reg::R1);
            self.asm.place(some);
            self.asm.alu(Alu::Sub, Reg::R0, Reg::R1);
            self.asm.load(Size::D, Reg::R2, CELL, at(meter::TOKENS));
            self.asm.load(Size::D, Reg::R3, CELL, at(meter::BURST));
            self.asm.alu(Alu::Add, Reg::R2, Reg::R0);
            let fits = self.asm.label();
            self.asm.jump_if(Bits::B64, Cond::Lt, Reg::R2, Reg::R0, full);
            self.asm.jump_if(Bits::B64, Cond::Le, Reg::R2, Reg::R3, fits);
            self.asm.place(full);
            self.asm.mov(Reg::R2, Reg::R3);
            self.asm.place(fits);
            match unit {
                MeterUnit::Packets => self.asm.mov_imm(Reg::R1, 1),
                MeterUnit::Bytes => self.asm.load(Size::D, Reg::R1, VECTOR, len),
            }
            self.asm.jump_if(Bits::B64, Cond::Ge, Reg::R2, Reg::R1, enough);
            self.asm.store(Size::D, CELL, at(meter::TOKENS), Reg::R2);
            // Never a better one than it had.
            let worse = self.asm.label();
            self.asm.load(Size::D, Reg::R1, VECTOR, pre);
            self.asm.jump_if_imm(Bits::B64, Cond::Gt, Reg::R1, (rates - passed) as i32, worse);
            self.asm.mov_imm(Reg::R1, (rates - passed) as i32);
            self.asm.place(worse);
            self.asm.store(Size::D, VECTOR, color, Reg::R1);
            self.asm.jump(unlock);
            self.asm.place(enough);
            self.asm.alu(Alu::Sub, Reg::R2, Reg::R1);
            self.asm.store(Size::D, CELL, at(meter::TOKENS), Reg::R2);
        }
        self.asm.load(Size::D, Reg::R1, VECTOR, pre);
        self.asm.store(Size::D, VECTOR, color, Reg::R1);
        self.asm.place(unlock);
        self.asm.mov(Reg::R1, CELL);
        self.asm.call(helper::SPIN_UNLOCK);
    }

    /// `r0` = what a rate has produced since time 0, in whole tokens. Loses r1 to r5; the meter stays in r7.
    fn produced(&mut self, now: i16, factor: i16, shift: i16) {
        let have = self.asm.label();
        self.asm.mov_imm(Reg::R0, 0);
        self.asm.load(Size::D, Reg::R1, VECTOR, now);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, have);
        self.asm.load(Size::D, Reg::R2, CELL, factor);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R2, 0, have);
        self.asm.load(Size::D, Reg::R3, CELL, shift);
        // The time's first one to the front.
        for step in [32, 16, 8, 4, 2, 1] {
            let there = self.asm.label();
            self.asm.mov(Reg::R4, Reg::R1);
            self.asm.alu_imm(Alu::Rsh, Reg::R4, 64 - step);
            self.asm.jump_nonzero(Reg::R4, there);
            self.asm.alu_imm(Alu::Lsh, Reg::R1, step);
            self.asm.add_imm(Reg::R3, step);
            self.asm.place(there);
        }
        self.product();
        // Rounded: what is cut off is more than half of the last bit, or just that and the bit is set.
        self.asm.mov(Reg::R0, Reg::R1);
        self.asm.alu_imm(Alu::Rsh, Reg::R0, DROPPED);
        self.asm.alu_imm(Alu::And, Reg::R1, (1 << DROPPED) - 1);
        self.asm.mov(Reg::R5, Reg::R0);
        self.asm.alu_imm(Alu::And, Reg::R5, 1);
        self.asm.alu(Alu::Add, Reg::R1, Reg::R5);
        self.asm.add_imm(Reg::R1, (1 << (DROPPED - 1)) - 1);
        self.asm.alu_imm(Alu::Rsh, Reg::R1, DROPPED);
        self.asm.alu(Alu::Add, Reg::R0, Reg::R1);
        // The point to its place.
        let (right, none, most) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.jump_if_imm(Bits::B64, Cond::SignedGe, Reg::R3, 0, right);
        self.asm.neg(Reg::R3);
        self.asm.jump_if_imm(Bits::B64, Cond::Gt, Reg::R3, DROPPED, most);
        self.asm.mov(Reg::R1, Reg::R0);
        self.asm.alu(Alu::Lsh, Reg::R0, Reg::R3);
        self.asm.mov(Reg::R4, Reg::R0);
        self.asm.alu(Alu::Rsh, Reg::R4, Reg::R3);
        self.asm.jump_if(Bits::B64, Cond::Eq, Reg::R4, Reg::R1, have);
        self.asm.place(most);
        self.asm.mov_imm(Reg::R0, -1);
        self.asm.jump(have);
        self.asm.place(right);
        self.asm.jump_if_imm(Bits::B64, Cond::Gt, Reg::R3, 63, none);
        self.asm.alu(Alu::Rsh, Reg::R0, Reg::R3);
        self.asm.jump(have);
        self.asm.place(none);
        self.asm.mov_imm(Reg::R0, 0);
        self.asm.place(have);
    }

    /// `r1` = the high half of r1 times r2, its first one at the front (else r3 counts one more), its last bit set where the low half
    /// is not 0. Loses r0, r2, r4 and r5.
    fn product(&mut self) {
        let (asm, low) = (&mut self.asm, LOW_HALF);
        let half = |asm: &mut barewire_ebpf::Asm, of: Reg, to: Reg| asm.alu32(Alu::Mov, to, of);
        half(asm, Reg::R1, Reg::R4);
        half(asm, Reg::R2, Reg::R5);
        asm.mov(Reg::R0, Reg::R4);
        asm.alu(Alu::Mul, Reg::R0, Reg::R5);
        asm.store(Size::W, Reg::FP, low, Reg::R0);
        asm.alu_imm(Alu::Rsh, Reg::R0, 32);
        asm.alu_imm(Alu::Rsh, Reg::R1, 32);
        asm.alu_imm(Alu::Rsh, Reg::R2, 32);
        asm.alu(Alu::Mul, Reg::R5, Reg::R1);
        asm.alu(Alu::Add, Reg::R5, Reg::R0);
        asm.alu(Alu::Mul, Reg::R4, Reg::R2);
        half(asm, Reg::R5, Reg::R0);
        asm.alu(Alu::Add, Reg::R4, Reg::R0);
        asm.alu(Alu::Mul, Reg::R1, Reg::R2);
        asm.alu_imm(Alu::Rsh, Reg::R5, 32);
        asm.alu(Alu::Add, Reg::R1, Reg::R5);
        asm.mov(Reg::R5, Reg::R4);
        asm.alu_imm(Alu::Rsh, Reg::R5, 32);
        asm.alu(Alu::Add, Reg::R1, Reg::R5);
        asm.alu_imm(Alu::Lsh, Reg::R4, 32);
        asm.load(Size::W, Reg::R0, Reg::FP, low);
        asm.alu(Alu::Or, Reg::R4, Reg::R0);
        let (front, even): (Label, Label) = (asm.label(), asm.label());
        asm.jump_if_imm(Bits::B64, Cond::SignedLt, Reg::R1, 0, front);
        asm.alu_imm(Alu::Lsh, Reg::R1, 1);
        asm.mov(Reg::R5, Reg::R4);
        asm.alu_imm(Alu::Rsh, Reg::R5, 63);
        asm.alu(Alu::Or, Reg::R1, Reg::R5);
        asm.alu_imm(Alu::Lsh, Reg::R4, 1);
        asm.add_imm(Reg::R3, 1);
        asm.place(front);
        asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R4, 0, even);
        asm.alu_imm(Alu::Or, Reg::R1, 1);
        asm.place(even);
    }
}

/// Where on the stack the low half of a product waits: where look-ups have their index.
const LOW_HALF: i16 = -4;
