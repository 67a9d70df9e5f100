//! What must hold while packets go through and entries change. (A switch that is killed then is in `lost_interfaces`.)

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The destination MAC addresses of two next hops.
const ROUTED: u64 = 0x0200_0000_0005;
const OTHER: u64 = 0x0200_0000_0105;

/// A route that changes from one next hop to the other, entries beside it that come and go, and a table that is filled and emptied:
/// each packet meets the old entry or the new one, and leaves once.
#[test]
fn no_packet_is_lost_while_entries_change() {
    const PACKETS: u64 = 6000;
    in_a_namespace(|_| {
        for hook in HOOKS {
            let server = start_at(ROUTER, hook).expect("a switch");
            let switch = server.switch();
            let route = routes(switch);
            add(switch, "forward", vec![exact(0xc0a8_0002)], 0, "set_dst_addr", &[OTHER]);
            let table = switch.table("ipv4_lpm").expect("a table");
            let (done, writes) = (AtomicBool::new(false), AtomicU64::new(0));
            std::thread::scope(|scope| {
                let _stop = StopAtEnd(&done);
                let changing = scope.spawn(|| {
                    let mut beside = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        let round = writes.fetch_add(1, Ordering::Relaxed);
                        let hop = 0xc0a8_0001 + round % 2;
                        let to = call(switch, "ipv4_lpm", "set_next_hop", &[hop, 2]);
                        switch.modify_entry(table, route, to).expect("it is there");
                        // Longer prefixes of the same route, none of which has the packets' address.
                        let prefix = lpm(0x0a02_0000 | (round as u32 % 64) << 8, 24);
                        beside.push(add(
                            switch,
                            "ipv4_lpm",
                            vec![prefix],
                            0,
                            "set_next_hop",
                            &[0xc0a8_0001, 2],
                        ));
                        if beside.len() == 48 {
                            for entry in beside.drain(..) {
                                switch.delete_entry(table, entry).expect("it is there");
                            }
                        }
                    }
                });
                let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
                let (mut sent, mut came, mut of_each) = (0_u64, Vec::new(), [0_u64; 2]);
                let patience = Patience::new();
                while sent < PACKETS || of_each.contains(&0) || writes.load(Ordering::Relaxed) < 200 {
                    let ports = (1 + (sent >> 14) as u16, (sent & 0x3fff) as u16);
                    input.send_now(&udp(0x0b00_0001, 0x0a01_0203, ports, 100));
                    sent += 1;
                    // A few under way at most: no queue is full.
                    while came.len() as u64 + 16 < sent {
                        output.receive(|got| {
                            if !is_udp(got) {
                                return;
                            }
                            let to = number(&got[0..6]);
                            assert!([ROUTED, OTHER].contains(&to), "{hook:?}: half an entry: {to:x}");
                            of_each[usize::from(to == OTHER)] += 1;
                            assert_eq!(number(&got[6..12]), 0x0200_0000_0006);
                            came.push((number(&got[34..36]) - 1) << 14 | number(&got[36..38]));
                        });
                        patience.wait("packets are lost");
                    }
                }
                done.store(true, Ordering::Relaxed);
                changing.join().expect("it is well");
                came.sort_unstable();
                assert!(came.windows(2).all(|pair| pair[0] != pair[1]), "{hook:?}: a packet left twice");
            });
            server.stop().expect("the engine is well");
        }
    });
}
