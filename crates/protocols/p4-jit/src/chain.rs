//! Several functions of a program in one, with what a target does between them ([`barewire_p4::chain`]): one call a packet,
//! and what is in registers stays there.

pub use barewire_p4::chain::{KEPT_BITS, Operand, Step, is_possible};

/// How a chain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// At its end, the headers emitted: what was kept.
    Done { kept: u32 },
    /// At its end: what was kept, and how many bytes of headers the deparser will emit.
    Prepared { kept: u32, headers: usize },
    /// At the step with this number (not 0), with what had been kept by then.
    At { stop: u8, kept: u32 },
}

/// In a result: the headers have been emitted.
pub(crate) const EMITTED: u64 = 1 << 31;
impl Stopped {
    /// From what the function returned.
    #[inline]
    pub(crate) fn of(result: u64) -> Stopped {
        let kept = (result >> 32) as u32 & ((1 << KEPT_BITS) - 1);
        match (result >> 56) as u8 {
            0 if result & EMITTED != 0 => Stopped::Done { kept },
            0 => Stopped::Prepared { kept, headers: result as u32 as usize },
            stop => Stopped::At { stop, kept },
        }
    }
}
