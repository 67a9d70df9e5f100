//! The traffic manager on a clock that only moves when it is told: queues with rate, depth and priority, replication,
//! clones, packets that go round, meters, digests, idle entries. Each packet is an order (`tests/programs/orders.p4`)
//! and comes out with what egress saw. Every test runs through both engines.

mod common;

use barewire_base::Prng;
use barewire_switch::control::{
    DigestList, ErrorKind, MeterRate, MirrorSession, Notification, Range, Replica, SwitchConfig,
};
use barewire_switch::datapath::{AGAIN_MAX, TargetConfig};
use barewire_switch::harness::{Harness, Sent};
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::{Server, ServerConfig};
use common::*;
use std::sync::mpsc::Receiver;
use std::time::Duration;

const KINDS: [EngineKind; 2] = [EngineKind::Native, EngineKind::Interpreter];

/// What a packet asks for.
#[derive(Clone, Copy, Default)]
struct Order {
    what: u8,
    priority: u8,
    port: u16,
    argument: u16,
    rounds: u8,
}

const MULTICAST: u8 = 1;
const CLONE_INGRESS: u8 = 2;
const CLONE_EGRESS: u8 = 3;
const GO_ROUND: u8 = 4;
const DIGEST: u8 = 5;
const METER_PACKETS: u8 = 6;
const METER_BYTES: u8 = 7;
const METER_ENTRY: u8 = 8;
const RESUBMIT: u8 = 9;
const CLONE_FOR_EVER: u8 = 10;
const FOR_EVER: u8 = 255;

/// The number of a packet lies behind its headers.
const SEQ: usize = 51;

impl Order {
    fn packet(self, seq: u32, len: usize) -> Vec<u8> {
        let mut packet = ethernet(1, 2, len.max(SEQ + 4));
        packet[14] = self.what;
        packet[15] = self.priority;
        packet[16..18].copy_from_slice(&self.port.to_be_bytes());
        packet[18..20].copy_from_slice(&self.argument.to_be_bytes());
        packet[20] = self.rounds;
        packet[SEQ..SEQ + 4].copy_from_slice(&seq.to_be_bytes());
        packet
    }
}

/// What egress saw of a packet.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Report {
    port: u32,
    seq: u32,
    instance: u8,
    rid: u64,
    enq_qdepth: u64,
    deq_qdepth: u64,
    deq_timedelta: u64,
    enq_timestamp: u64,
    color: u8,
    kept: u64,
    len: u64,
}

fn report(sent: &Sent) -> Report {
    let bytes = &sent.bytes;
    let at = |from: usize, len: usize| number(&bytes[from..from + len]);
    assert_eq!(at(24, 2), u64::from(sent.port), "egress_port is where it went");
    Report {
        port: sent.port,
        seq: if bytes.len() >= SEQ + 4 { at(SEQ, 4) as u32 } else { 0 },
        instance: bytes[21],
        rid: at(22, 2),
        enq_qdepth: at(26, 4),
        deq_qdepth: at(30, 4),
        deq_timedelta: at(34, 4),
        enq_timestamp: at(38, 6),
        color: bytes[44],
        kept: at(45, 2),
        len: at(47, 4),
    }
}

fn reports(sent: &[Sent]) -> Vec<Report> {
    sent.iter().map(report).collect()
}

fn harness(kind: EngineKind) -> Harness {
    let target = TargetConfig { priorities: 8, ..TargetConfig::default() };
    Harness::new(ready(ORDERS, kind), target).expect("a switch")
}

fn send(harness: &mut Harness, order: Order, seq: u32) -> Vec<Report> {
    reports(&harness.send(0, &order.packet(seq, 0)).expect("it fits"))
}

fn count(harness: &mut Harness, reason: &str) -> u64 {
    let mut found = 0;
    harness.plane().drops(&mut |name, count| found += if name == reason { count } else { 0 });
    found
}

#[test]
fn rates_hold_whatever_the_steps_of_the_clock() {
    for kind in KINDS {
        for (rate_pps, step_us) in
            [(1000, 1000), (1000, 300), (1000, 700), (777, 1000), (50_000, 20), (10, 33_333)]
        {
            let mut h = harness(kind);
            h.switch().set_queue_rate(Some(2), None, rate_pps).expect("a rate");
            h.switch().set_queue_depth(Some(2), None, 500).expect("a depth");
            let order = Order { port: 2, ..Order::default() };
            let mut out: Vec<Report> = (0..400).flat_map(|seq| send(&mut h, order, seq)).collect();
            assert_eq!(out.len(), 1, "the first need not wait");
            let mut clock_us = 0;
            while out.len() < 400 {
                h.advance_us(step_us);
                clock_us += step_us;
                let sent = reports(&h.poll());
                for report in &sent {
                    assert_eq!(report.deq_timedelta, clock_us, "how long it waited");
                }
                out.extend(sent);
                // Never more than the rate allows, never fewer than a step's worth less.
                let allowed = 1 + clock_us * rate_pps / 1_000_000;
                let late = 1 + step_us * rate_pps / 1_000_000;
                let sent = out.len() as u64;
                assert!(sent <= allowed, "{kind}, {rate_pps} pps: {sent} after {clock_us} us");
                assert!(
                    sent + late >= allowed.min(400),
                    "{kind}, {rate_pps} pps: {sent} after {clock_us} us"
                );
            }
            assert!(out.iter().enumerate().all(|(at, r)| r.seq as usize == at), "in order");
            assert!(h.poll().is_empty());
        }
    }
}

#[test]
fn a_queue_holds_its_depth_and_counts_the_rest() {
    for kind in KINDS {
        let mut h = harness(kind);
        h.switch().set_queue_rate(Some(2), None, 1000).expect("a rate");
        h.switch().set_queue_depth(Some(2), None, 10).expect("a depth");
        let order = Order { port: 2, ..Order::default() };
        let out: Vec<Report> = (0..50).flat_map(|seq| send(&mut h, order, seq)).collect();
        assert_eq!(out.iter().map(|r| r.seq).collect::<Vec<_>>(), [0]);
        assert_eq!(count(&mut h, "queue_full"), 39);
        // What waits was there before the others: depth at enqueue counts up, at dequeue down.
        for waited in 1..=10_u32 {
            h.advance_us(1000);
            let out = reports(&h.poll());
            assert_eq!(out.len(), 1);
            let r = out[0];
            assert_eq!(
                (r.seq, r.enq_qdepth, r.deq_qdepth),
                (waited, u64::from(waited) - 1, 10 - u64::from(waited))
            );
            assert_eq!((r.deq_timedelta, r.enq_timestamp), (u64::from(waited) * 1000, 0));
        }
        h.advance_us(1000);
        assert!(h.poll().is_empty());
        // Without a rate nothing waits, whatever the depth.
        h.switch().set_queue_rate(Some(2), None, 0).expect("no rate");
        let out: Vec<Report> = (0..50).flat_map(|seq| send(&mut h, order, seq)).collect();
        assert_eq!(out.len(), 50);
        assert!(out.iter().all(|r| (r.enq_qdepth, r.deq_qdepth, r.deq_timedelta) == (0, 0, 0)));
        assert_eq!(out[0].enq_timestamp, 11_000);
    }
}

#[test]
fn higher_priorities_go_first() {
    for kind in KINDS {
        let mut h = harness(kind);
        h.switch().set_queue_rate(Some(2), None, 1_000_000).expect("a rate");
        let mut prng = Prng::new(5);
        let mut out = Vec::new();
        let mut expected: Vec<(u8, u32)> = Vec::new();
        // The first of each priority leaves at once; afterwards all wait.
        for priority in 0..8 {
            assert_eq!(send(&mut h, Order { port: 2, priority, ..Order::default() }, 0).len(), 1);
        }
        for seq in 1..=200 {
            let priority = prng.below(8) as u8;
            let order = Order { port: 2, priority, ..Order::default() };
            assert!(send(&mut h, order, seq).is_empty());
            expected.push((priority, seq));
        }
        expected.sort_by_key(|&(priority, seq)| (std::cmp::Reverse(priority), seq));
        // Served one by one: in each microsecond every priority may send one, highest first.
        h.advance_us(1);
        while out.len() < 200 {
            let sent = h.poll();
            let priorities: Vec<u8> = sent.iter().map(|s| s.bytes[15]).collect();
            assert!(!sent.is_empty() && priorities.windows(2).all(|w| w[0] > w[1]), "{priorities:?}");
            out.extend(sent.iter().map(|s| (s.bytes[15], report(s).seq)));
            h.advance_us(1);
        }
        out.sort_by_key(|&(priority, seq)| (std::cmp::Reverse(priority), seq));
        assert_eq!(out, expected, "each priority in order, none lost");
        // A priority that the port does not have.
        let mut few =
            Harness::new(ready(ORDERS, kind), TargetConfig { priorities: 2, ..TargetConfig::default() })
                .expect("a switch");
        assert_eq!(send(&mut few, Order { port: 2, priority: 1, ..Order::default() }, 1).len(), 1);
        assert!(send(&mut few, Order { port: 2, priority: 2, ..Order::default() }, 2).is_empty());
        assert_eq!(count(&mut few, "bad_priority"), 1);
    }
}

/// Only the queue that was named is slow: others of the port, and other ports, do not notice, however many packets
/// come at once (with copies: more than a queue holds).
#[test]
fn a_slow_queue_slows_nothing_else() {
    for kind in KINDS {
        let mut h = harness(kind);
        h.switch().set_queue_rate(Some(2), Some(0), 1).expect("a rate");
        let ports: Vec<(u32, u32)> = (0..300).map(|rid| (3, rid)).collect();
        h.switch().mc_set_group(7, &ports).expect("a group");
        for seq in 0..100 {
            send(&mut h, Order { port: 2, ..Order::default() }, seq);
            assert_eq!(send(&mut h, Order { port: 2, priority: 1, ..Order::default() }, seq).len(), 1);
            assert_eq!(send(&mut h, Order { port: 3, ..Order::default() }, seq).len(), 1);
        }
        assert_eq!(count(&mut h, "queue_full"), 100 - 1 - 64, "of the slow queue alone");
        let copies = send(&mut h, Order { what: MULTICAST, argument: 7, ..Order::default() }, 1);
        assert_eq!(copies.len(), 300);
        assert_eq!(count(&mut h, "queue_full"), 100 - 1 - 64);
    }
}

#[test]
fn multicast_goes_to_ports_and_one_of_each_lag() {
    for kind in KINDS {
        let mut h = harness(kind);
        let switch = h.switch().clone();
        switch.mc_create(1).expect("a group");
        let node = |rid, ports: &[u32], lags: &[u32]| {
            let node = switch.node_create(rid, ports, lags).expect("a node");
            switch.node_associate(1, node).expect("in the group");
            node
        };
        let first = node(10, &[1, 2], &[]);
        node(20, &[3], &[1]);
        node(30, &[], &[1, 2]);
        switch.set_lag(1, &[4, 5]).expect("a LAG");
        switch.set_lag(2, &[6, 7]).expect("a LAG");
        let order = Order { what: MULTICAST, argument: 1, port: 9, ..Order::default() };
        let mut out = send(&mut h, order, 77);
        out.sort_by_key(|r| (r.rid, r.port));
        let lag = |r: &Report, ports: &[u32]| assert!(ports.contains(&r.port), "{r:?}");
        assert_eq!(out.len(), 6, "{out:?}");
        assert_eq!(out[..2].iter().map(|r| (r.rid, r.port)).collect::<Vec<_>>(), [(10, 1), (10, 2)]);
        assert_eq!((out[2].rid, out[2].port), (20, 3));
        assert_eq!((out[3].rid, out[4].rid, out[5].rid), (20, 30, 30));
        lag(&out[3], &[4, 5]);
        lag(&out[4], &[4, 5]);
        lag(&out[5], &[6, 7]);
        // The same packet goes the same way; every copy says it is one.
        assert_eq!(send(&mut h, order, 77).len(), 6);
        assert!(out.iter().all(|r| r.instance == 5 && r.seq == 77));
        // A LAG without ports, a node without a group, a group without nodes, no group.
        switch.set_lag(2, &[]).expect("an empty LAG");
        switch.node_dissociate(1, first).expect("out of the group");
        let out = send(&mut h, order, 78);
        assert_eq!(out.len(), 3, "{out:?}");
        switch.mc_create(2).expect("a group");
        assert!(send(&mut h, Order { argument: 2, ..order }, 79).is_empty());
        assert!(send(&mut h, Order { argument: 3, ..order }, 80).is_empty());
        assert_eq!(count(&mut h, "no_replica"), 2);
    }
}

#[test]
fn clones_of_ingress_and_egress() {
    for kind in KINDS {
        let mut h = harness(kind);
        let switch = h.switch().clone();
        let to = |port, cut| MirrorSession {
            egress_port: Some(port),
            multicast_group: None,
            truncate_bytes: cut,
            ..MirrorSession::default()
        };
        switch.set_mirror(5, to(4, 0)).expect("a session");
        switch.set_mirror(6, to(5, 60)).expect("a session");
        switch.mc_set_group(9, &[(6, 1), (7, 2)]).expect("a group");
        let both =
            MirrorSession { egress_port: Some(8), multicast_group: Some(9), ..MirrorSession::default() };
        switch.set_mirror(7, both).expect("a session");
        for (what, instance, kept) in [(CLONE_INGRESS, 1, 0x1234_u64), (CLONE_EGRESS, 2, 0x2222)] {
            let order = |argument| Order { what, port: 2, argument, ..Order::default() };
            let sent = h.send(0, &order(5).packet(1, 200)).expect("it fits");
            let out = reports(&sent);
            let (clone, original) = (out.iter().find(|r| r.port == 4), out.iter().find(|r| r.port == 2));
            let (clone, original) = (clone.expect("a clone"), original.expect("the packet itself"));
            assert_eq!((out.len(), clone.instance, original.instance), (2, instance, 0), "{kind}");
            assert_eq!(clone.kept, kept, "what is in the field list is kept, and nothing else");
            assert!(sent.iter().all(|s| s.bytes.len() == 200));
            // Cut by its session, the packet itself not.
            let sent = h.send(0, &order(6).packet(2, 200)).expect("it fits");
            let mut lengths: Vec<(u32, usize)> = sent.iter().map(|s| (s.port, s.bytes.len())).collect();
            lengths.sort_unstable();
            assert_eq!(lengths, [(2, 200), (5, 60)], "{kind} {what}");
            // To a port and to a group.
            let mut ports: Vec<(u32, u64)> = reports(&h.send(0, &order(7).packet(3, 200)).expect("it fits"))
                .iter()
                .map(|r| (r.port, r.rid))
                .collect();
            ports.sort_unstable();
            // The copy to the port comes last and keeps the last replica's id, as in bmv2.
            assert_eq!(ports, [(2, 0), (6, 1), (7, 2), (8, 2)], "{kind} {what}");
            // No such session: the packet itself goes on, the clone is counted.
            let before = count(&mut h, "no_replica");
            assert_eq!(send(&mut h, order(8), 4).len(), 1);
            assert_eq!(count(&mut h, "no_replica"), before + 1);
        }
    }
}

/// The class of a session is the priority of its clones: 0 leaves what the program says, and one beyond the last
/// priority is the last.
#[test]
fn clones_have_the_class_of_their_session() {
    for kind in KINDS {
        let mut h = harness(kind);
        let switch = h.switch().clone();
        switch.set_queue_rate(Some(4), None, 1_000_000).expect("a rate");
        for what in [CLONE_INGRESS, CLONE_EGRESS] {
            // The only queue with room is that of the class; clones keep no priority by themselves.
            for (class_of_service, priority) in [(0, 0), (1, 1), (7, 7), (8, 7), (u32::MAX, 7)] {
                let session =
                    MirrorSession { egress_port: Some(4), class_of_service, ..MirrorSession::default() };
                switch.set_mirror(5, session.clone()).expect("a session");
                let order = Order { what, port: 2, argument: 5, ..Order::default() };
                let mut clones = || {
                    h.advance_us(10);
                    let mut out = send(&mut h, order, 1);
                    h.advance_us(10);
                    out.extend(reports(&h.poll()));
                    out.iter().filter(|r| r.port == 4).count()
                };
                switch.set_queue_depth(Some(4), None, 0).expect("no room");
                switch.set_queue_depth(Some(4), Some(priority), 10).expect("room");
                assert_eq!(clones(), 1, "{kind} {what} {class_of_service}");
                switch.set_queue_depth(Some(4), None, 10).expect("room");
                switch.set_queue_depth(Some(4), Some(priority), 0).expect("no room");
                assert_eq!(clones(), 0, "{kind} {what} {class_of_service}");
            }
        }
        assert_eq!(count(&mut h, "queue_full"), 10);
    }
}

#[test]
fn resubmitted_and_recirculated_packets_keep_their_list() {
    for kind in KINDS {
        let mut h = harness(kind);
        let out = send(&mut h, Order { what: RESUBMIT, port: 2, ..Order::default() }, 1);
        assert_eq!(out.len(), 1);
        // bmv2 clears the instance type when the packet leaves ingress for the queue.
        assert_eq!((out[0].kept, out[0].seq), (0x4321, 1));
        for rounds in [0, 1, 5, 200] {
            let out = send(&mut h, Order { what: GO_ROUND, port: 2, rounds, ..Order::default() }, 2);
            assert_eq!((out.len(), out[0].kept, out[0].seq), (1, u64::from(rounds), 2), "each round counts");
        }
    }
}

/// Packets that never stop going round share the engine with all others: they do not stop it, their number is bounded,
/// and new ones are counted when there is no more room.
#[test]
fn packets_that_never_stop_do_not_stop_others() {
    let name = "traffic-endless";
    let target = TargetConfig { priorities: 8, ..TargetConfig::default() };
    let config = ServerConfig { target, ..config(name, &[1, 2], 256) };
    let server = Server::start(config, Some(ready(ORDERS, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    let (mut input, mut output) = (Wire::open(&uri(name, 1, 256)), Wire::open(&uri(name, 2, 256)));
    // A clone that clones itself, in a queue that has been slow and is not any more.
    switch
        .set_mirror(3, MirrorSession { egress_port: Some(4), ..MirrorSession::default() })
        .expect("a session");
    switch.set_queue_rate(Some(4), None, 1).expect("a rate");
    for seq in 0..10 {
        input.send_now(
            &Order { what: CLONE_FOR_EVER, port: 4, argument: 3, ..Order::default() }.packet(seq, 0),
        );
    }
    let endless = AGAIN_MAX as u32 + 500;
    for seq in 0..endless {
        input.send_now(
            &Order { what: GO_ROUND, port: 2, rounds: FOR_EVER, ..Order::default() }.packet(seq, 0),
        );
    }
    switch.set_queue_rate(Some(4), None, 0).expect("no rate");
    for seq in 0..500 {
        input.send_now(&Order { port: 2, ..Order::default() }.packet(seq, 0));
        let out = output.next();
        assert_eq!(number(&out[SEQ..SEQ + 4]), u64::from(seq));
    }
    assert!(dropped(switch, "queue_full") >= 500, "{:?}", drops(switch));
    // Control is heard too, and a swap ends them.
    switch.set_queue_rate(None, None, 0).expect("heard");
    switch.commit(STAMP_1).expect("a swap");
    let full = dropped(switch, "queue_full");
    input.send_now(&ethernet(1, 2, 60));
    assert_eq!(output.next().len(), 60);
    assert!(full >= u64::from(endless), "{full}: all that went round are counted");
    server.stop().expect("the engine is well");
}

#[test]
fn an_endless_clone_is_bounded() {
    for kind in KINDS {
        let mut h = harness(kind);
        h.switch()
            .set_mirror(3, MirrorSession { egress_port: Some(4), ..MirrorSession::default() })
            .expect("a session");
        let out = send(&mut h, Order { what: CLONE_FOR_EVER, port: 2, argument: 3, ..Order::default() }, 1);
        assert!(out.len() > 1000 && out.len() < 10_000, "{}", out.len());
        assert_eq!(count(&mut h, "queue_full"), 1, "the last one");
        assert_eq!(send(&mut h, Order { port: 2, ..Order::default() }, 2).len(), 1);
    }
}

#[test]
fn meters_colour_by_packets_by_bytes_and_by_entry() {
    const GREEN: u8 = 0;
    const YELLOW: u8 = 1;
    const RED: u8 = 2;
    for kind in KINDS {
        let mut h = harness(kind);
        let switch = h.switch().clone();
        let rate = |units_per_us, burst| MeterRate { units_per_us, burst };
        // Two packets a millisecond, bursts of 4; five in all, bursts of 10.
        let packets = switch.meter("packets_meter").expect("a meter");
        switch.set_meter(packets, Range::One(3), &[rate(0.002, 4), rate(0.005, 10)]).expect("rates");
        let bytes = switch.meter("bytes_meter").expect("a meter");
        switch.set_meter(bytes, Range::One(3), &[rate(0.1, 150), rate(1.0, 250)]).expect("rates");
        let entry = add(&switch, "meters", vec![exact(9)], 0, "metered", &[]);
        let table = switch.table("meters").expect("a table");
        switch.set_direct_meter(table, entry, &[rate(0.001, 1), rate(0.001, 2)]).expect("rates");

        let colours = |h: &mut Harness, what, argument, len: usize, packets: usize| -> Vec<u8> {
            let order = Order { what, argument, port: 2, ..Order::default() };
            let one = |h: &mut Harness| report(&h.send(0, &order.packet(0, len)).expect("it fits")[0]).color;
            (0..packets).map(|_| one(h)).collect()
        };
        // Buckets are full at the start.
        h.advance_us(10_000_000);
        assert_eq!(
            colours(&mut h, METER_PACKETS, 3, 0, 12),
            [[GREEN; 4].as_slice(), &[YELLOW; 6], &[RED; 2]].concat(),
            "{kind}"
        );
        // After a millisecond there is room for two green ones and three yellow ones.
        h.advance_us(1000);
        assert_eq!(
            colours(&mut h, METER_PACKETS, 3, 0, 7),
            [GREEN, GREEN, YELLOW, YELLOW, YELLOW, RED, RED],
            "{kind}"
        );
        // Another cell is not set: green.
        assert_eq!(colours(&mut h, METER_PACKETS, 4, 0, 30), [GREEN; 30]);
        // Out of range: nothing is written.
        assert_eq!(colours(&mut h, METER_PACKETS, 16, 0, 1), [GREEN]);
        // 150 bytes of committed burst, 250 of peak: 100-byte packets.
        assert_eq!(colours(&mut h, METER_BYTES, 3, 100, 4), [GREEN, YELLOW, RED, RED], "{kind}");
        // The entry's own.
        assert_eq!(colours(&mut h, METER_ENTRY, 9, 0, 4), [GREEN, YELLOW, RED, RED], "{kind}");
        assert_eq!(colours(&mut h, METER_ENTRY, 10, 0, 4), [GREEN; 4], "no entry, no meter");
        // What is set is read back, and can be taken away.
        assert_eq!(switch.meter_rates(packets, 3).expect("rates").len(), 2);
        switch.set_meter(packets, Range::All, &[]).expect("no rates");
        assert_eq!(colours(&mut h, METER_PACKETS, 3, 0, 30), [GREEN; 30]);
        assert_eq!(
            switch
                .set_meter(packets, Range::One(3), &[rate(5.0, 1), rate(1.0, 1)])
                .expect_err("falling")
                .kind,
            ErrorKind::InvalidMeterOperation
        );
        assert!(switch.set_meter(packets, Range::One(16), &[]).is_err());
    }
}

fn digests(h: &mut Harness, heard: &Receiver<Notification>) -> Vec<DigestList> {
    h.poll_notifications();
    let digest = |notification| match notification {
        Notification::Digest(digest) => digest,
        other => panic!("{other:?}"),
    };
    heard.try_iter().map(digest).collect()
}

#[test]
fn digests_tell_whether_a_header_was_there() {
    let mut json: serde_json::Value = serde_json::from_str(ORDERS).expect("it is JSON");
    let item = |name: &str| serde_json::json!({"type": "field", "value": [name, "$valid$"]});
    json["learn_lists"][0]["elements"] = serde_json::json!([item("order"), item("never")]);
    let headers = json["headers"].as_array_mut().expect("a list");
    let mut never = headers.iter().find(|header| header["name"] == "report").expect("it is there").clone();
    never["name"] = "never".into();
    never["id"] = headers.len().into();
    headers.push(never);
    for kind in KINDS {
        let mut h = Harness::new(ready(&json.to_string(), kind), TargetConfig::default()).expect("a switch");
        let heard = h.switch().subscribe(4);
        let order = Order { what: DIGEST, port: 2, ..Order::default() };
        assert_eq!(send(&mut h, order, 0).len(), 1, "the packet goes on");
        h.advance_us(2_000_000);
        let got = digests(&mut h, &heard);
        assert_eq!(got[0].samples, [[vec![1], vec![0]]], "{kind}");
    }
}

#[test]
fn digests_wait_for_company_or_their_time_and_for_an_acknowledgement() {
    for kind in KINDS {
        let mut h = harness(kind);
        let switch = h.switch().clone();
        let list = switch.program().expect("a program").learn_lists[0].id;
        let heard = switch.subscribe(100);
        let learn = |h: &mut Harness, argument: u16| {
            let out = send(h, Order { what: DIGEST, argument, port: 2, ..Order::default() }, 0);
            assert_eq!(out.len(), 1, "the packet goes on");
        };
        // One sample waits for a second.
        learn(&mut h, 1);
        learn(&mut h, 1);
        assert!(digests(&mut h, &heard).is_empty());
        h.advance_us(999_999);
        assert!(digests(&mut h, &heard).is_empty());
        h.advance_us(1);
        let got = digests(&mut h, &heard);
        assert_eq!(got.len(), 1);
        assert_eq!((got[0].list, got[0].samples.clone()), (list, vec![vec![vec![0, 1], vec![0, 0]]]));
        // It is known until it is acknowledged.
        learn(&mut h, 1);
        h.advance_us(2_000_000);
        assert!(digests(&mut h, &heard).is_empty());
        switch.ack_digest(list, got[0].buffer, None).expect("acknowledged");
        learn(&mut h, 1);
        h.advance_us(2_000_000);
        assert_eq!(digests(&mut h, &heard).len(), 1);
        // Sixteen do not wait, and come in order.
        (100..116).for_each(|argument| learn(&mut h, argument));
        let got = digests(&mut h, &heard);
        assert_eq!(got.len(), 1);
        let arguments: Vec<u64> = got[0].samples.iter().map(|sample| number(&sample[0])).collect();
        assert_eq!(arguments, (100..116).collect::<Vec<u64>>());
        // One of them acknowledged: only that one comes again.
        switch.ack_digest(list, got[0].buffer, Some(3)).expect("acknowledged");
        (100..116).for_each(|argument| learn(&mut h, argument));
        h.advance_us(1_000_000);
        let again = digests(&mut h, &heard);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].samples.iter().map(|sample| number(&sample[0])).collect::<Vec<u64>>(), [103]);
        // Other settings.
        switch.set_digest_max_samples(list, 2).expect("set");
        switch.set_digest_timeout(list, 10).expect("set");
        learn(&mut h, 200);
        assert!(digests(&mut h, &heard).is_empty());
        learn(&mut h, 201);
        assert_eq!(digests(&mut h, &heard)[0].samples.len(), 2);
        learn(&mut h, 202);
        h.advance_us(10_000);
        assert_eq!(digests(&mut h, &heard)[0].samples.len(), 1);
        assert_eq!(switch.ack_digest(99, 0, None).expect_err("no list").kind, ErrorKind::InvalidLearnList);
    }
}

/// A buffer that no subscriber has room for reaches nobody, so nobody acknowledges it.
#[test]
fn digests_that_nobody_had_room_for_are_learned_again() {
    let mut h = harness(EngineKind::Native);
    let switch = h.switch().clone();
    let list = switch.program().expect("a program").learn_lists[0].id;
    switch.set_digest_max_samples(list, 1).expect("set");
    let heard = switch.subscribe(1);
    h.apply();
    let learn = |h: &mut Harness, argument: u16| {
        let out = send(h, Order { what: DIGEST, argument, port: 2, ..Order::default() }, 0);
        assert_eq!(out.len(), 1, "the packet goes on");
        h.poll_notifications();
    };
    learn(&mut h, 1);
    learn(&mut h, 2);
    let arguments = |lists: Vec<DigestList>| -> Vec<u64> {
        lists.iter().flat_map(|list| &list.samples).map(|sample| number(&sample[0])).collect()
    };
    assert_eq!(arguments(digests(&mut h, &heard)), [1], "there was room for one");
    learn(&mut h, 1);
    learn(&mut h, 2);
    assert_eq!(arguments(digests(&mut h, &heard)), [2], "the other is news");
}

/// The learning switch as a whole: digests become entries, which age, are reported and stay until they are taken out.
#[test]
fn a_learning_switch_learns_floods_and_ages() {
    const TTL: Duration = Duration::from_millis(50);
    let name = "traffic-learning";
    // Aged by hand, so that only one who asks.
    let control = SwitchConfig { sweep_interval: Duration::ZERO, ..control() };
    let config = ServerConfig { control, ..config(name, &[1, 2, 3], 64) };
    let server = Server::start(config, Some(ready(L2_LEARNING, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    let mut wires: Vec<Wire> = (1..=3).map(|port| Wire::open(&uri(name, port, 64))).collect();
    switch.mc_set_group(1, &[(1, 1), (2, 2), (3, 3)]).expect("a group");
    let heard = switch.subscribe(64);
    let (a, b) = (0x0200_0000_0001, 0x0200_0000_0002);
    wires[0].send_now(&ethernet(b, a, 60));
    assert_eq!((wires[1].next().len(), wires[2].next().len()), (60, 60), "flooded");
    let learned = match heard.recv_timeout(PATIENCE).expect("a digest") {
        Notification::Digest(digest) => digest,
        other => panic!("{other:?}"),
    };
    assert_eq!(learned.samples.len(), 1);
    let (address, port) = (number(&learned.samples[0][0]), number(&learned.samples[0][1]));
    assert_eq!((address, port), (a, 1));
    let sources = switch.table("sources").expect("a table");
    let handle = add(switch, "sources", vec![exact(a), exact(1)], 0, "NoAction", &[]);
    switch.set_entry_ttl(sources, handle, TTL.as_millis() as u32).expect("a time-out");
    add(switch, "destinations", vec![exact(a)], 0, "forward", &[1]);
    switch.ack_digest(learned.list, learned.buffer, None).expect("acknowledged");
    // The answer comes straight, and nobody else hears it.
    wires[1].send_now(&ethernet(a, b, 61));
    assert_eq!(wires[0].next().len(), 61);
    assert_eq!(wires[2].receive(|_| {}), 0);

    // What a sweep reports; digests that come meanwhile (the answer's) are not asked for here.
    let idle = |patience: Duration| {
        switch.sweep().expect("looked for");
        loop {
            match heard.recv_timeout(patience) {
                Ok(Notification::Idle(table, handles)) => return Some((table, handles)),
                Ok(Notification::Digest(_)) => {}
                Ok(other) => panic!("{other:?}"),
                Err(_) => return None,
            }
        }
    };
    let age = || Duration::from_millis(switch.time_since_hit_ms(sources, handle).expect("an age"));
    // Used, it is not idle; unless this thread or the engine's had no core for a whole time-out.
    let (end, mut looks) = (until(Duration::from_millis(150)), 0);
    while now() < end || looks < 3 {
        wires[0].send_now(&ethernet(b, a, 62));
        assert_eq!((wires[1].next().len(), wires[2].next().len()), (62, 62));
        let reported = idle(Duration::ZERO);
        if age() < TTL {
            assert_eq!(reported, None);
            looks += 1;
        }
    }
    // Unused, it is, once each time-out.
    for again in 0..3 {
        std::thread::sleep(TTL + TTL / 5);
        let next = until(TTL);
        assert_eq!(idle(PATIENCE), Some((sources, vec![handle])), "{again}");
        let reported = idle(Duration::ZERO);
        if now() < next {
            assert_eq!(reported, None, "reported already");
        }
    }
    assert!(age() >= TTL * 3);
    switch.delete_entry(sources, handle).expect("taken out");
    std::thread::sleep(TTL + TTL / 5);
    assert_eq!(idle(Duration::ZERO), None);
    server.stop().expect("the engine is well");
}
