//! Ports come and go while packets flow, show what passed in captures, and are shared by several engines where the
//! program allows it.

mod common;

use barewire_base::Prng;
use barewire_frame::PoolConfig;
use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_p4_state::TableAction;
use barewire_port::PcapReader;
use barewire_switch::control::{ActionCall, ErrorKind, MirrorSession, Notification};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::plane::Plane;
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::{Publisher, Server, ServerConfig, StartError};
use barewire_testing::{Folder, Needs, have};
use common::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Goes out of port 2 by the program, out of port 3 by an entry.
const TO_2: u64 = 0x0200_0000_0001;
const TO_3: u64 = 0x0200_0000_0005;

/// Port 2 is taken away and brought back again and again, now and then with frames waiting for it; what flows from 1
/// to 3 does not notice, and of what was for port 2 every packet arrived or was counted.
#[test]
fn ports_come_and_go_while_others_forward() {
    const WINDOW: u64 = 128;
    let name = "ports-come-and-go";
    let mut prng = Prng::new(seed(0x9047));
    let server = Server::start(config(name, &[1, 3], 256), Some(ready(STAMP_1, EngineKind::Native)))
        .expect("a switch");
    let switch = server.switch();
    add(switch, "others", vec![exact(TO_3)], 0, "other", &[3]);
    let (mut input, mut output) = (Wire::open(&uri(name, 1, 256)), Wire::open(&uri(name, 3, 256)));
    let (mut steady, mut arrived) = (0_u64, 0_u64);
    let (mut sent_2, mut received_2, mut lost_2) = (0_u64, 0_u64, 0_u64);
    let end = until(Duration::from_secs(soak_seconds(2)));
    let mut rounds = 0_u32;
    while now() < end || rounds < 20 {
        // A name of its own each time: the old wire is closed for good.
        let uri_2 = format!("mem:{name}-2-{rounds}?slots=64");
        switch.add_port(2, &uri_2).expect("another port");
        let mut wire = Wire::open(&uri_2);
        // Either the other end is read, or the switch's own queue for it runs full.
        let reads = prng.chance(0.6);
        let removed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let wait = Duration::from_micros(prng.below(20_000));
            let removed = &removed;
            scope.spawn(move || {
                std::thread::sleep(wait);
                switch.remove_port(2).expect("it is there");
                removed.store(true, Release);
            });
            let mut patience = Patience::new();
            let mut after = 200;
            while after > 0 || arrived < steady {
                after -= u32::from(removed.load(Acquire) && after > 0);
                while steady - arrived < WINDOW && after > 0 {
                    let to_2 = prng.chance(0.5);
                    let mut packet = ethernet(if to_2 { TO_2 } else { TO_3 }, 0, 60);
                    packet[20..28].copy_from_slice(&(steady + 1).to_be_bytes());
                    if !input.send(&packet) {
                        break;
                    }
                    sent_2 += u64::from(to_2);
                    steady += u64::from(!to_2);
                }
                input.flush();
                let count = output.receive(|packet| {
                    arrived += 1;
                    assert_eq!(number(&packet[20..28]), arrived, "the next packet");
                });
                if reads {
                    received_2 += wire.receive(|_| {}) as u64;
                }
                if count > 0 {
                    patience = Patience::new();
                } else if after == 0 {
                    patience.wait("packets from 1 to 3 are lost");
                }
            }
        });
        // What was sent before the port closed is still on the wire.
        received_2 += wire.receive(|_| {}) as u64;
        rounds += 1;
    }
    let patience = Patience::new();
    loop {
        let taken = switch.ports().iter().find(|p| p.port == 1).expect("it is there").rx.packets;
        lost_2 = lost_2.max(dropped(switch, "port_down") + dropped(switch, "unknown_port"));
        if taken == sent_2 + steady && received_2 + lost_2 == sent_2 {
            break;
        }
        patience.wait(&format!("{sent_2} for port 2: {received_2} arrived, {:?}", drops(switch)));
    }
    println!(
        "{rounds} rounds, {steady} steady packets, {sent_2} for port 2: {received_2} arrived, {:?}",
        drops(switch)
    );
    assert!(dropped(switch, "port_down") > 0 && dropped(switch, "unknown_port") > 0 && received_2 > 0);
    assert_eq!(switch.ports().iter().map(|p| p.port).collect::<Vec<_>>(), [1, 3]);
    server.stop().expect("the engine is well");
}

#[test]
fn what_cannot_be_a_port_is_refused_and_harms_none() {
    let name = "ports-refused";
    let server =
        Server::start(config(name, &[1, 2], 64), Some(ready(STAMP_1, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    let (mut input, mut output) = (Wire::open(&uri(name, 1, 64)), Wire::open(&uri(name, 2, 64)));
    for (port, uri) in [
        (2, "mem:ports-refused-again"),
        (5, "mem:ports-refused-1"),
        (5, "mem:x?slots=3"),
        (5, "mem:x?slot=64"),
        (5, "nothing:eth0"),
        (5, "packet:no-such-interface"),
        (5, "no-such-interface"),
        (5, ""),
        (5, ":"),
        (5, "pcap:/no/such/file.pcap"),
    ] {
        let error = switch.add_port(port, uri).expect_err(uri);
        assert_eq!(error.kind, ErrorKind::InvalidPort, "{uri}: {error}");
        assert!(!error.message.is_empty());
    }
    for port in [0, 5, 511, 4096, u32::MAX] {
        assert_eq!(switch.remove_port(port).expect_err("no such port").kind, ErrorKind::InvalidPort);
    }
    assert_eq!(switch.ports().iter().map(|p| p.port).collect::<Vec<_>>(), [1, 2]);
    input.send_now(&ethernet(TO_2, 0, 60));
    assert_eq!(output.next().len(), 60);

    // A port of a high number is a port like any other.
    switch.add_port(70_000, &uri(name, 70_000, 64)).expect("a high number");
    let mut high = Wire::open(&uri(name, 70_000, 64));
    high.send_now(&ethernet(TO_2, 0, 61));
    assert_eq!(output.next().len(), 61);
    switch.packet_out(Some(70_000), ethernet(1, 2, 62)).expect("out of it");
    assert_eq!(high.next().len(), 62);
    switch.remove_port(70_000).expect("it is there");

    // Packets to ports that are not there are counted, by the program and by the control plane.
    add(switch, "others", vec![exact(9)], 0, "other", &[400]);
    for _ in 0..3 {
        input.send_now(&ethernet(9, 0, 60));
    }
    switch.packet_out(Some(70_000), ethernet(1, 2, 62)).expect("it is tried");
    let patience = Patience::new();
    while dropped(switch, "unknown_port") < 4 {
        patience.wait("unknown ports are counted");
    }
    assert_eq!(drops(switch), [("unknown_port".to_owned(), 4)]);
    server.stop().expect("the engine is well");
}

/// A switch whose second port cannot be opened does not start, and gives the first one back.
#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let name = "ports-start";
    let mut broken = config(name, &[1], 64);
    broken.ports.push((2, "mem:x?slots=3".to_owned()));
    let error = Server::start(broken, Some(ready(STAMP_1, EngineKind::Native))).err().expect("no such port");
    assert!(matches!(error, StartError::Control(_)), "{error}");
    let server = Server::start(config(name, &[1, 2], 64), Some(ready(STAMP_1, EngineKind::Native)));
    server.expect("the name is free again").stop().expect("the engine is well");
}

fn captured(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet().expect("a whole file") {
        packets.push(packet.data.to_vec());
    }
    packets
}

#[test]
fn captures_hold_what_passed() {
    let folder = Folder::new("captures");
    let name = "captures";
    let config = ServerConfig { capture: Some(folder.path().to_owned()), ..config(name, &[1, 2], 256) };
    let server = Server::start(config, Some(ready(STAMP_1, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    // A port that is added later is captured too.
    switch.add_port(3, &uri(name, 3, 256)).expect("another port");
    add(switch, "others", vec![exact(TO_3)], 0, "other", &[3]);
    let mut wires: Vec<Wire> = (1..=3).map(|port| Wire::open(&uri(name, port, 256))).collect();
    let mut prng = Prng::new(7);
    let (mut sent, mut expected) = (Vec::new(), [const { Vec::new() }; 4]);
    for _ in 0..200 {
        let to = if prng.chance(0.5) { TO_2 } else { TO_3 };
        let mut packet = ethernet(to, 0, 14 + prng.below(1400) as usize);
        prng.fill(&mut packet[14..]);
        wires[0].send_now(&packet);
        sent.push(packet.clone());
        packet[11] = if to == TO_2 { 1 } else { 7 };
        let port = if to == TO_2 { 2 } else { 3 };
        assert!(wires[port - 1].next() == packet, "packet {} of {}", sent.len(), packet.len());
        expected[port].push(packet);
    }
    let injected = ethernet(5, 6, 100);
    switch.packet_out(Some(3), injected.clone()).expect("out of port 3");
    assert_eq!(wires[2].next(), injected);
    expected[3].push(injected);
    server.stop().expect("the engine is well");
    let file = |port: u32, way: &str| folder.file(format!("{name}-{port}_{way}.pcap"));
    assert!(captured(&file(1, "in")) == sent);
    assert!(captured(&file(1, "out")).is_empty());
    for port in [2, 3] {
        assert!(captured(&file(port, "out")) == expected[port as usize], "port {port}");
        assert!(captured(&file(port, "in")).is_empty());
    }
}

#[test]
fn the_cpu_port_leads_to_the_control_plane_and_back() {
    let name = "ports-cpu";
    let target = TargetConfig { cpu_port: Some(64), ..TargetConfig::default() };
    let server = Server::start(
        ServerConfig { target, ..config(name, &[1, 2], 256) },
        Some(ready(STAMP_1, EngineKind::Native)),
    )
    .expect("a switch");
    let switch = server.switch();
    let (mut input, mut output) = (Wire::open(&uri(name, 1, 256)), Wire::open(&uri(name, 2, 256)));
    let heard = switch.subscribe(64);
    add(switch, "others", vec![exact(TO_3)], 0, "other", &[64]);
    input.send_now(&ethernet(TO_3, 0, 77));
    match heard.recv_timeout(PATIENCE).expect("a packet") {
        Notification::PacketIn { bytes } => {
            assert_eq!((bytes.len(), number(&bytes[0..6]), number(&bytes[6..12])), (77, TO_3, 7));
        }
        other => panic!("{other:?}"),
    }
    // Through the pipeline as from the CPU port, and straight out of a port.
    switch.packet_out(None, ethernet(TO_2, 0, 78)).expect("in");
    let through = output.next();
    assert_eq!((through.len(), number(&through[6..12])), (78, 1));
    switch.packet_out(Some(2), ethernet(TO_2, 9, 79)).expect("out");
    let straight = output.next();
    assert_eq!((straight.len(), number(&straight[6..12])), (79, 9));
    // One longer than any frame is counted, not sent.
    switch.packet_out(None, vec![0; 100_000]).expect("it is tried");
    switch.packet_out(None, Vec::new()).expect("it is tried");
    let before = drops(switch);
    assert!(before.iter().all(|(reason, _)| reason != "unknown_port"), "{before:?}");

    // A subscriber who does not read loses packets, which are counted; forwarding goes on.
    let mut sent = 0;
    let patience = Patience::new();
    while dropped(switch, "notification_lost") < 100 {
        for _ in 0..64 {
            input.send_now(&ethernet(TO_3, 0, 60));
            sent += 1;
        }
        patience.wait("a subscriber that is full loses packets");
    }
    // What is on its way may still take a place that reading freed: each was heard or counted.
    let (mut read, patience) = (0, Patience::new());
    while read + dropped(switch, "notification_lost") < sent {
        read += heard.try_iter().count() as u64;
        patience.wait("every packet to the CPU port is heard or counted as lost");
    }
    assert_eq!(read + dropped(switch, "notification_lost"), sent);
    assert!(read >= 64, "{read}");
    input.send_now(&ethernet(TO_2, 0, 60));
    assert_eq!(output.next().len(), 60);
    // One that goes away is forgotten.
    drop(heard);
    input.send_now(&ethernet(TO_3, 0, 60));
    input.send_now(&ethernet(TO_2, 0, 60));
    assert_eq!(output.next().len(), 60);
    server.stop().expect("the engine is well");
}

/// Programs whose packets must see what earlier ones left run on one engine only.
#[test]
fn programs_with_shared_state_are_refused_on_several_engines() {
    let start = |json| {
        Server::start(
            ServerConfig { engines: 2, control: control(), ..ServerConfig::default() },
            Some(ready(json, EngineKind::Native)),
        )
    };
    for (json, what) in [(STAMP_2, "register"), (ORDERS, "meter")] {
        match start(json) {
            Err(StartError::Shared(why)) => assert!(why.contains(what), "{why}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a program with a {what} runs on two engines"),
        }
    }
    let server = start(STAMP_1).expect("nothing is shared");
    let switch = server.switch();
    // What could not have been started is not swapped in either.
    for json in [STAMP_2, ORDERS] {
        assert_eq!(switch.commit(json).expect_err("shared state").kind, ErrorKind::BadProgram);
    }
    assert!(switch.table("others").is_ok(), "the old program keeps running");
    switch.commit(&json(ECMP)).expect("counters are summed");
    server.stop().expect("the engines are well");
}

/// What an engine received and sent, by port.
type Counts = Mutex<Vec<(u32, u64, u64)>>;

/// Two engines share two real interfaces; flows spread over both, counters add up, both see every write.
#[test]
fn two_engines_share_interfaces() {
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    let space = Namespace::anonymous().expect("a namespace");
    let link = LinkConfig { offloads: false, ..LinkConfig::default() };
    for (near, far) in [("sw1", "h1"), ("sw2", "h2")] {
        VethPair::create(&space, near, &space, far, &link).expect("a wire");
        space.set_up(near).expect("up");
        space.set_up(far).expect("up");
    }
    for name in ["sw1", "h1", "sw2", "h2"] {
        space.wait_running(name).expect("it runs");
    }
    space.enter(two_engines).expect("the namespace");
}

fn two_engines() {
    const FLOWS: u16 = 64;
    const PACKETS: u64 = 20_000;
    let counts: Arc<Vec<Counts>> = Arc::new((0..2).map(|_| Mutex::new(Vec::new())).collect());
    let theirs = Arc::clone(&counts);
    let publisher = move |index: usize| -> Publisher {
        let counts = Arc::clone(&theirs);
        Box::new(move |plane: &Plane, _| {
            let slots = plane.ports.slots().iter();
            *counts[index].lock().expect("no panic") = slots
                .map(|s| {
                    (s.number(), s.port().counters().rx_frames.get(), s.port().counters().tx_frames.get())
                })
                .collect();
        })
    };
    let config = ServerConfig {
        engines: 2,
        ports: vec![(1, "packet:sw1?fanout=11".to_owned()), (2, "packet:sw2?fanout=12".to_owned())],
        publisher: Some(Arc::new(publisher)),
        control: control(),
        ..ServerConfig::default()
    };
    let server = Server::start(config, Some(ready(ECMP, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    let profile = switch.profile("next_hops").expect("a profile");
    let action = switch.action_of_profile(profile, "set_next_hop").expect("an action");
    let hop =
        |mark: u64| ActionCall { action, args: args(&[0x0400_0000_0000 + mark, 0x0200_0000_0000 + mark, 2]) };
    let member = switch.add_member(profile, hop(0)).expect("a member");
    let table = switch.table("ipv4_lpm").expect("a table");
    let route =
        switch.add_entry(table, vec![lpm(0x0a00_0000, 8)], 0, TableAction::Member(member)).expect("a route");
    let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
    let (mut sent, mut received, mark) = (0_u64, 0_u64, AtomicU64::new(0));
    let mut patience = Patience::new();
    while received < PACKETS {
        // Both engines must follow each write before the next packet.
        if sent == received && sent % 1000 < 32 {
            let next = mark.load(Relaxed) + 1;
            switch.modify_member(profile, member, hop(next)).expect("a change");
            mark.store(next, Relaxed);
        }
        while sent < PACKETS && sent - received < 32 {
            let flow = (sent % u64::from(FLOWS)) as u16;
            let mut packet = udp(0x0a01_0000 + u32::from(flow), 0x0a02_0000, (1000 + flow, 9), 64);
            packet[50..58].copy_from_slice(&mark.load(Relaxed).to_be_bytes());
            if !input.send(&packet) {
                break;
            }
            sent += 1;
        }
        input.flush();
        let count = output.receive(|packet| {
            // The kernel may have things of its own to say on a new wire.
            if packet.len() == 64 && packet[12..14] == [8, 0] && packet[36..38] == [0, 9] {
                received += 1;
                assert_eq!(
                    number(&packet[0..6]) - 0x0200_0000_0000,
                    number(&packet[50..58]),
                    "the write is seen"
                );
            }
        });
        if count > 0 {
            patience = Patience::new();
        } else {
            patience.wait(&format!(
                "{} packets are lost: {:?}, {:?}",
                sent - received,
                drops(switch),
                switch.ports()
            ));
        }
    }
    // Counted by both, read as one.
    let counted = switch.read_direct_counter(table, route).expect("a counter");
    assert_eq!((counted.packets, counted.bytes), (PACKETS, PACKETS * 64));
    let port_2 = switch.ports().into_iter().find(|p| p.port == 2).expect("it is there");
    assert!(port_2.tx.packets >= PACKETS);
    assert_eq!(port_2.tx_dropped, 0);
    // Mirror sessions and the like reach both as well.
    switch
        .set_mirror(5, MirrorSession { egress_port: Some(2), ..MirrorSession::default() })
        .expect("a session");
    let patience = Patience::new();
    loop {
        let shares: Vec<u64> = counts
            .iter()
            .map(|c| c.lock().expect("no panic").iter().find(|p| p.0 == 1).map_or(0, |p| p.1))
            .collect();
        if shares.iter().sum::<u64>() >= PACKETS {
            println!("the engines received {shares:?}");
            assert!(shares.iter().all(|&share| share > PACKETS / 20), "{shares:?}");
            break;
        }
        patience.wait("the counters are published");
    }
    server.stop().expect("the engines are well");
}

/// What the page of counters shows is in the registry, which says what it means.
/// Frames as large as an interface's MTU allows pass whole.
#[test]
fn jumbo_frames_pass_whole() {
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    for (scheme, mtu, chunk_len) in [("packet", 9000, 16_384), ("xdp", 3400, 4096)] {
        let space = Namespace::anonymous().expect("a namespace");
        for n in 1..=2 {
            let (ours, theirs) = (format!("sw{n}"), format!("h{n}"));
            let link = LinkConfig { mtu, offloads: false, ..LinkConfig::default() };
            VethPair::create(&space, &ours, &space, &theirs, &link).expect("a wire");
            for name in [&ours, &theirs] {
                space.set_up(name).expect("up");
            }
            for name in [&ours, &theirs] {
                space.wait_running(name).expect("it runs");
            }
        }
        for engine in [EngineKind::Native, EngineKind::Interpreter] {
            space.enter(|| jumbo_frames(scheme, mtu as usize, chunk_len, engine)).expect("the namespace");
        }
    }
}

fn jumbo_frames(scheme: &str, mtu: usize, chunk_len: u32, engine: EngineKind) {
    let pool = PoolConfig { frames: 1024, chunk_len, ..PoolConfig::default() };
    let ports = [1, 2].map(|n| (n, format!("{scheme}:sw{n}")));
    let config = ServerConfig { ports: ports.to_vec(), pool, ..config("ports-jumbo", &[], 64) };
    let server = Server::start(config, Some(ready(STAMP_1, engine))).expect("a switch");
    let open = |uri| Wire::open_with(uri, PoolConfig { frames: 256, chunk_len: 16_384, ..pool });
    let (mut input, mut output) = (open("packet:h1"), open("packet:h2"));
    let mut prng = Prng::new(seed(0x30b0));
    let some = (0..20).map(|_| 60 + prng.below(mtu as u64 - 60) as usize);
    let lens: Vec<usize> = [60, 1514, 1515, mtu, mtu + 13, mtu + 14].into_iter().chain(some).collect();
    for len in lens {
        let mut packet = ethernet(TO_2, 0, len);
        prng.fill(&mut packet[14..]);
        // The experiments' own, whose bytes nobody looks at.
        packet[12..14].copy_from_slice(&[0x88, 0xb5]);
        input.send_now(&packet);
        packet[11] = 1;
        let (patience, mut came) = (Patience::new(), false);
        while !came {
            // The kernel has something to say at its interfaces, too.
            output.receive(|other| came |= other == packet);
            patience.wait(&format!("{scheme}, {engine:?}: a frame of {len} bytes is not there"));
        }
    }
    server.stop().expect("the engine is well");
}

#[test]
fn every_counter_of_the_switch_is_in_the_registry() {
    let name = "ports-registry";
    let page = format!("{name}-{}", std::process::id());
    let (path, publisher) = barewire_switch::publish::counters_page(&page).expect("a page");
    let mut config = config(name, &[1], 64);
    config.publisher = Some(publisher);
    let server = Server::start(config, Some(ready(STAMP_1, EngineKind::Native))).expect("a switch");
    let mut input = Wire::open(&uri(name, 1, 64));
    // There is no port 2, so this is counted as dropped.
    input.send_now(&ethernet(TO_2, 0, 60));
    let end = until(Duration::from_secs(20));
    let names = loop {
        let mut reader = barewire_engine::CountersReader::open(&path).expect("the page");
        let names: Vec<String> = reader.read().expect("counters").map(|(name, ..)| name.to_owned()).collect();
        if names.iter().any(|name| name.contains(".drop.")) {
            break names;
        }
        assert!(now() < end, "the packet was not counted as dropped: {names:?}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        assert!(barewire_engine::place(&name).is_some(), "{name} has no help text");
    }
    server.stop().expect("it stops");
}
