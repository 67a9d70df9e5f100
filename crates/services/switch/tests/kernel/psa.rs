//! PSA programs: deparsed and parsed again between ingress and egress, in the kernel as in the interpreter.

use super::*;
use barewire_p4::ir::RegisterId;
use barewire_p4::key::MatchParam;
use barewire_p4::state::State;
use barewire_p4_state::TableAction;
use barewire_switch::control::ActionCall;
use barewire_switch::datapath::psa::PORT_RECIRCULATE;
use num_bigint::BigUint;

const PORTS: &str = include_str!("../../../../../tests/programs/psa_ports.p4");

fn packet(to: u8, len: usize) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len as u8).collect();
    packet[..12].fill(0);
    packet[5] = to;
    packet[12..14].copy_from_slice(&[0x88, 0xb5]);
    packet
}

fn counts(side: &mut Harness) -> Vec<[u64; 2]> {
    let plane = side.plane();
    let mut all = Vec::new();
    for counter in 0..2 {
        for at in 0..8 {
            let user = plane.datapath_state().read_counter(CounterId::from(counter), at).unwrap_or_default();
            let kernel = plane.kernel.as_ref();
            let kernel = kernel.map_or([0, 0], |kernel| kernel.counter(CounterId::from(counter), at));
            all.push([user[0] + kernel[0], user[1] + kernel[1]]);
        }
    }
    all
}

fn number(side: &mut Harness) -> BigUint {
    let plane = side.plane();
    let kernel = plane.kernel.as_ref().and_then(|kernel| kernel.register(RegisterId::from(0), 1));
    kernel.unwrap_or_else(|| State::register(plane.datapath_state(), RegisterId::from(0), 1))
}

#[test]
fn packets_go_from_port_to_port() {
    if !may_load() {
        return;
    }
    let program = from_source(PORTS);
    assert_eq!(program.arch, Arch::Psa);
    let mut sides = both(&program, &at(false));
    let kernel = sides[1].plane().kernel.as_ref().expect("the kernel has it");
    let of_program: Vec<_> = kernel.slow().iter().filter(|path| path.reason.is_of_the_program()).collect();
    assert!(of_program.is_empty() && kernel.compiled().registers, "{of_program:?}");
    assert!(kernel.has_tc().is_err_and(|why| why.contains("XDP")), "{:?}", kernel.has_tc());
    for side in &sides {
        let control = side.switch();
        let hosts = control.table("hosts").expect("a table");
        for (to, port) in [(1_u32, 2), (3, PORT_RECIRCULATE), (5, 4), (6, 1000)] {
            let action = control.action_of(hosts, "forward").expect("its action");
            let call = TableAction::Call(ActionCall { action, args: vec![port.into()] });
            control.add_entry(hosts, vec![MatchParam::Exact(to.into())], 0, call).expect("an entry");
        }
    }
    let mut again = 0;
    for round in 0..60_usize {
        let to = (round % 7) as u8;
        let packet = packet(to, 60 + round);
        let [one, other] = sides.each_mut().map(|side| side.send(3, &packet).expect("it fits"));
        assert_eq!(one, other, "to {to}");
        assert_eq!(one.len(), usize::from([1, 3, 6].contains(&to)), "to {to}");
        again += u64::from(to == 3);
        if to == 3 {
            // Twice through egress, and the second time as what it had become.
            assert_eq!((one[0].port, &one[0].bytes[14..18]), (2, &[0, 0, 0, 2][..]));
        }
        let counts = sides.each_mut().map(counts);
        assert_eq!(counts[0], counts[1], "to {to}");
        let numbers = sides.each_mut().map(number);
        assert_eq!(numbers[0], numbers[1], "to {to}");
    }
    assert_eq!((sides[1].handed_over, &sides[1].failures), (again, &Vec::new()));
}
