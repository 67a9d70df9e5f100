//! Forwarding allocates nothing once it is warm, by an allocator that counts.

mod common;

use barewire_engine::Agent;
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_p4_state::TableAction;
use barewire_port::{MemoryConfig, MemoryLink, MemoryPort, Port};
use barewire_switch::agent::SwitchAgent;
use barewire_switch::control::{ActionCall, MirrorSession, Switch, SwitchConfig};
use barewire_switch::datapath::{Datapath, TargetConfig};
use barewire_switch::plane::Plane;
use barewire_switch::ports::Ports;
use barewire_switch::prepared::EngineKind;
use barewire_testing::{Counting, allocations};
use common::*;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A switch with memory ports 1 to 3, all on this thread.
struct Rig {
    switch: Switch,
    agent: SwitchAgent,
    wires: Vec<(Pool, MemoryPort)>,
    tx: Burst,
    rx: Burst,
}

impl Rig {
    fn new(json: &str, set_up: impl FnOnce(&Switch)) -> Rig {
        let switch =
            Switch::new(SwitchConfig::default(), Some(ready(json, EngineKind::Native))).expect("a switch");
        set_up(&switch);
        let inbox = switch.attach(Box::new(|| {}));
        let pool = || {
            Pool::new(PoolConfig { frames: 4096, headroom: 640, ..PoolConfig::default() }).expect("frames")
        };
        let mine = pool();
        let mut ports = Ports::new(None);
        let mut wires = Vec::new();
        for port in 1..=3 {
            let (near, far) =
                MemoryLink::new(MemoryConfig { slots: 1024, ..MemoryConfig::default() }).expect("a link");
            ports.add_open(port, format!("mem:{port}"), Box::new(near.open(mine.clone())));
            let theirs = pool();
            wires.push((theirs.clone(), far.open(theirs)));
        }
        let plane = Plane::new(Datapath::new(TargetConfig::default(), 0, now()), ports, mine, None);
        let agent = SwitchAgent::new(plane, inbox, Box::new(|_, _| {}));
        Rig { switch, agent, wires, tx: Burst::new(), rx: Burst::new() }
    }

    /// Send each packet into port 1 so many times; gives what came out, by port.
    fn send(&mut self, packets: &[Vec<u8>], times: usize) -> [u64; 3] {
        let mut out = [0; 3];
        for _ in 0..times {
            for packet in packets {
                let frame = self.wires[0].0.alloc_from(packet).expect("a frame");
                self.tx.push(frame).expect("room in a burst");
                self.wires[0].1.tx_burst(now(), &mut self.tx).expect("memory");
                self.cycle(&mut out);
            }
        }
        out
    }

    /// One duty cycle, and what came of it.
    fn cycle(&mut self, out: &mut [u64; 3]) {
        self.agent.do_work(now());
        self.agent.next_deadline();
        if self.agent.prepare_wait() {
            self.agent.finish_wait();
        }
        for (count, (_, wire)) in out.iter_mut().zip(&mut self.wires) {
            while wire.rx_burst(now(), &mut self.rx).expect("memory") > 0 {
                *count += self.rx.len() as u64;
                self.rx.clear();
            }
        }
    }

    /// Nothing is allocated for these packets; each must come out so often.
    fn prove(&mut self, what: &str, packets: &[Vec<u8>], per_packet: [u64; 3]) {
        self.send(packets, 200);
        let before = allocations();
        let out = self.send(packets, 1000);
        let after = allocations();
        let sent = 1000 * packets.len() as u64;
        assert_eq!(out, per_packet.map(|n| n * sent), "{what}: what came out of {sent} packets");
        assert_eq!(after - before, 0, "{what}: allocations for {sent} packets");
    }
}

#[test]
fn the_allocator_counts() {
    let before = allocations();
    drop(std::hint::black_box(Box::new(7)));
    assert!(allocations() > before);
}

fn routes(switch: &Switch) {
    for hop in 0..16 {
        add(switch, "forward", vec![exact(0xc0a8_0000 + hop)], 0, "set_dst_addr", &[0x0200_0000_0000 + hop]);
    }
    add(switch, "send_frame", vec![exact(2)], 0, "set_src_addr", &[0x0200_0000_ff02]);
    for route in 0..1000_u32 {
        let hop = 0xc0a8_0000 + u64::from(route % 16);
        add(switch, "ipv4_lpm", vec![lpm(0x0a00_0000 + (route << 8), 24)], 0, "set_next_hop", &[hop, 2]);
    }
}

fn to_routes(len: usize) -> Vec<Vec<u8>> {
    (0..8)
        .map(|i| udp(0xc0a8_0909, 0x0a00_0007 + ((i * 97) << 8), (7, i as u16), len + 61 * i as usize))
        .collect()
}

#[test]
fn the_router() {
    let mut rig = Rig::new(ROUTER, routes);
    rig.prove("router", &to_routes(64), [0, 1, 0]);
    rig.prove("router, no route", &[udp(1, 0x0c00_0000, (7, 7), 64)], [0, 0, 0]);
    rig.prove("router, not IPv4", &[ethernet(1, 2, 64)], [0, 0, 0]);
}

/// Through its queues too, when a rate is set that is never reached.
#[test]
fn the_router_with_a_rate() {
    let mut rig = Rig::new(ROUTER, routes);
    rig.switch.set_queue_rate(Some(2), None, 1_000_000_000).expect("a rate");
    rig.prove("router with a rate", &to_routes(64), [0, 1, 0]);
}

#[test]
fn the_router_with_groups() {
    let mut rig = Rig::new(ECMP, |switch| {
        let profile = switch.profile("next_hops").expect("a profile");
        let action = switch.action_of_profile(profile, "set_next_hop").expect("an action");
        let group = switch.create_group(profile).expect("a group");
        for hop in 0..4 {
            let call =
                ActionCall { action, args: args(&[0x0400_0000_0000 + hop, 0x0200_0000_0000 + hop, 2]) };
            let member = switch.add_member(profile, call).expect("a member");
            switch.add_to_group(profile, member, group).expect("in the group");
        }
        let table = switch.table("ipv4_lpm").expect("a table");
        switch.add_entry(table, vec![lpm(0x0a00_0000, 8)], 0, TableAction::Group(group)).expect("a route");
    });
    rig.prove("ECMP", &to_routes(64), [0, 1, 0]);
}

#[test]
fn the_filter() {
    let mut rig = Rig::new(ACL, |switch| {
        add(switch, "pair", vec![exact(1)], 0, "forward", &[2]);
        let any = ternary(0, 0);
        for rule in 0..500_u64 {
            let mask = u64::from(u32::MAX << (rule % 20));
            let key = vec![
                any.clone(),
                ternary(0x0b00_0000 + (rule << 16), mask),
                any.clone(),
                any.clone(),
                any.clone(),
            ];
            add(switch, "rules", key, rule as u32 + 1, "deny", &[]);
        }
        let key = vec![any.clone(), any.clone(), any.clone(), any.clone(), ternary(5, 0xffff)];
        add(switch, "rules", key, 1000, "permit_to", &[3]);
    });
    let (kept, sent_on): (Vec<_>, Vec<_>) = to_routes(64).into_iter().partition(|packet| packet[37] != 5);
    rig.prove("filter", &kept, [0, 1, 0]);
    rig.prove("filter, sent on", &sent_on, [0, 0, 1]);
    rig.prove("filter, denied", &[udp(1, 0x0b01_0000, (7, 7), 64)], [0, 0, 0]);
}

#[test]
fn many_tables() {
    let mut rig = Rig::new(MANY_TABLES, |switch| {
        add(switch, "ports", vec![exact(1)], 0, "forward", &[2]);
        for stage in 0..16 {
            let address = if stage % 2 == 0 { 1 } else { 2 };
            let key = vec![exact(address), exact(0)];
            add(switch, &format!("stage_{stage}"), key, 0, &format!("set_{stage}"), &[0]);
        }
    });
    rig.prove("many tables", &[ethernet(1, 2, 64), ethernet(5, 6, 1400)], [0, 1, 0]);
}

/// An MPLS packet with VXLAN inside.
fn labelled(label: u32, labels: usize) -> Vec<u8> {
    let mut p = ethernet(1, 2, 14);
    p[12..14].copy_from_slice(&[0x88, 0x47]);
    for at in 0..labels {
        let bottom = u32::from(at + 1 == labels) << 8;
        let value = if at == 0 { label } else { 999 };
        p.extend((value << 12 | bottom | 64).to_be_bytes());
    }
    let ipv6 = |next: u8| {
        let mut header = [0_u8; 40];
        header[0] = 0x60;
        header[6] = next;
        header
    };
    p.extend(ipv6(17));
    p.extend([0, 9, 0x12, 0xb5, 0, 100, 0, 0]);
    p.extend([8, 0, 0, 0, 0, 0, 5, 0]);
    p.extend([1; 12]);
    p.extend([0x86, 0xdd]);
    p.extend(ipv6(59));
    p.extend([0x55; 64]);
    p
}

#[test]
fn deep_headers() {
    let mut rig = Rig::new(DEEP_HEADERS, |switch| {
        add(switch, "labels", vec![exact(100)], 0, "swap_label", &[200, 2]);
        add(switch, "labels", vec![exact(101)], 0, "pop_label", &[2]);
        add(switch, "labels", vec![exact(102)], 0, "push_label", &[300, 2]);
    });
    rig.prove("labels swapped", &[labelled(100, 1), labelled(100, 3)], [0, 1, 0]);
    rig.prove("labels popped", &[labelled(101, 2), labelled(101, 8)], [0, 1, 0]);
    rig.prove("labels pushed", &[labelled(102, 1), labelled(102, 7)], [0, 1, 0]);
}

/// Copies take their frames and vectors from where the last ones went back to.
#[test]
fn copies_and_rounds() {
    let mut rig = Rig::new(ORDERS, |switch| {
        switch.mc_set_group(1, &[(2, 1), (2, 2), (3, 3)]).expect("a group");
        let session = MirrorSession { egress_port: Some(3), truncate_bytes: 60, ..MirrorSession::default() };
        switch.set_mirror(5, session).expect("a session");
    });
    let order = |what: u8, argument: u16, rounds: u8| {
        let mut packet = ethernet(1, 2, 100);
        packet[14] = what;
        packet[17] = 2;
        packet[18..20].copy_from_slice(&argument.to_be_bytes());
        packet[20] = rounds;
        packet
    };
    rig.prove("forward", &[order(0, 0, 0)], [0, 1, 0]);
    rig.prove("multicast", &[order(1, 1, 0)], [0, 2, 1]);
    rig.prove("clone of ingress", &[order(2, 5, 0)], [0, 1, 1]);
    rig.prove("clone of egress", &[order(3, 5, 0)], [0, 1, 1]);
    rig.prove("recirculate", &[order(4, 0, 1)], [0, 1, 0]);
    rig.prove("resubmit", &[order(9, 0, 0)], [0, 1, 0]);
    rig.prove("meter", &[order(6, 3, 0), order(7, 3, 0)], [0, 1, 0]);
    // The same digest again, which is known.
    rig.prove("digest", &[order(5, 3, 0)], [0, 1, 0]);
}

/// The learning switch that floods.
#[test]
fn a_flood() {
    let mut rig = Rig::new(L2_LEARNING, |switch| {
        switch.mc_set_group(1, &[(1, 1), (2, 2), (3, 3)]).expect("a group");
    });
    rig.prove("flood", &[ethernet(1, 2, 64)], [0, 1, 1]);
}
