//! What runs a program: the interpreter here, compiled code in `barewire-p4-jit`. A target drives either.

use crate::phv::{Layout, Phv};
use crate::state::State;

/// An engine bound to one program. It never fails: what goes wrong with a packet stands in the vector's
/// [`crate::phv::slot`]s. Indices are positions in the program's `parsers`, `pipelines`, `deparsers`.
pub trait Engine<S: State> {
    /// The layout of the vectors this engine works on.
    fn layout(&self) -> &Layout;

    /// Run a parser on a whole packet, then verify checksums. The vector is as the target prepared it (reset, then
    /// intrinsic metadata set); the parser sets PARSED, and PARSER_ERROR and REJECTED if it ends by an error.
    fn parse(&mut self, parser: usize, phv: &mut Phv, packet: &[u8], state: &mut S);

    /// Run a pipeline (it clears EXIT at its start). `packet` is what was parsed (payload for calculations).
    fn run(&mut self, pipeline: usize, phv: &mut Phv, packet: &[u8], state: &mut S);

    /// Update checksums and run the deparser's statements, then say how many bytes of headers it will emit.
    fn prepare_deparse(&mut self, deparser: usize, phv: &mut Phv, payload: &[u8], state: &mut S) -> usize;

    /// Emit the headers; `out` has exactly the length that [`Engine::prepare_deparse`] gave.
    fn emit(&mut self, deparser: usize, phv: &Phv, out: &mut [u8]);
}
