//! What only the packet tells: written bits, cases of a selection, elements of arrays, tables in loops; and a register of structs.
//! The kernel does it or hands it over, and packets fare as in the interpreter.

use super::*;
use barewire_base::Prng;

#[test]
fn what_the_packet_tells_fares_as_in_the_interpreter() {
    if !may_load() {
        return;
    }
    let program = from_source(include_str!("../../../../../tests/programs/packet_tells.p4"));
    let seed = 11;
    let mut prng = Prng::new(seed);
    let mut sides = both(&program, &at(false));
    let (mut summed, mut left, mut changed) = (0, 0, 0);
    for number in 0..400 {
        let mut packet = [0_u8; 60];
        let mut small = |below: u64| prng.below(below) as u8;
        packet[14..20].copy_from_slice(&[small(5), small(6), small(11), 0, small(255), small(255)]);
        packet[20] = small(11);
        packet[22..26].copy_from_slice(&[small(200), small(200), small(200), small(200)]);
        let [interpreter, kernel] = sides.each_mut().map(|side| side.send(1, &packet).expect("it fits"));
        assert_eq!(interpreter, kernel, "seed {seed}, packet {number}: {packet:02x?}");
        let out = &interpreter[0].bytes;
        summed += usize::from(out[17] != 0);
        left += usize::from(out[17] == 0xff);
        changed += usize::from(out[11] != 0);
    }
    assert!(summed > 50 && left > 10 && changed > 50, "{summed} {left} {changed}");
    assert!(sides[1].failures.is_empty(), "{:?}", sides[1].failures);
}
