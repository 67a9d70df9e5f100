//! The kernel's program at tc: segments that are still to be cut pass whole, straight to hosts in other network namespaces; what the
//! kernel hands over comes up once; programs change hooks while packets flow.

mod common;

use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_switch::control::{MirrorSession, Notification, Switch, SwitchConfig};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::kernel::HookChoice;
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::{Server, ServerConfig, StartError};
use barewire_testing::{Needs, have, program};
use common::*;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;

const ROUTER_MACS: [u64; 2] = [0x0200_0000_0100, 0x0200_0000_0200];
/// Bytes of a stream: some hundred segments.
const STREAM: usize = 8 << 20;

fn ip(network: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, network, host)
}

/// Two hosts and a switch, a network namespace each. With offloads the hosts leave cutting and checksums to their interfaces.
struct Hosts {
    hosts: [Namespace; 2],
    switch: Namespace,
}

fn mac(number: u64) -> [u8; 6] {
    let bytes = number.to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

impl Hosts {
    fn make(offloads: bool) -> Hosts {
        let anonymous = || Namespace::anonymous().expect("a namespace");
        let hosts = Hosts { hosts: [anonymous(), anonymous()], switch: anonymous() };
        for at in 0..2 {
            hosts.wire(at, offloads);
        }
        hosts
    }

    fn wire(&self, at: usize, offloads: bool) {
        let (host, name) = (&self.hosts[at], ["s1", "s2"][at]);
        let link = LinkConfig { offloads, ..LinkConfig::default() };
        VethPair::create(&self.switch, name, host, "eth0", &link).expect("a wire");
        let (own, other) = (at as u8, 1 - at as u8);
        self.switch.set_up(name).expect("up");
        host.set_up("eth0").expect("up");
        host.add_address("eth0", IpAddr::V4(ip(own, 10)), 24).expect("an address");
        self.switch.wait_running(name).expect("it runs");
        host.wait_running("eth0").expect("it runs");
        let gateway = IpAddr::V4(ip(own, 1));
        host.add_neighbour("eth0", gateway, mac(ROUTER_MACS[at])).expect("a neighbour");
        host.add_route(IpAddr::V4(ip(other, 0)), 24, gateway).expect("a route");
    }

    fn start(&self, json: &str, pass_offloads: bool) -> Server {
        self.try_start(json, TargetConfig { pass_offloads, ..TargetConfig::default() }).expect("a switch")
    }

    fn try_start(&self, json: &str, target: TargetConfig) -> Result<Server, StartError> {
        let ports = vec![(1, "s1".to_owned()), (2, "s2".to_owned())];
        let control = SwitchConfig { engine: EngineKind::Kernel, enable_swap: true, ..control() };
        let mut config = ServerConfig { ports, control, target, ..ServerConfig::default() };
        if config.target.pass_offloads {
            (config.pool.frames, config.pool.chunk_len) = (512, 131_072);
        }
        let prepared = ready(json, EngineKind::Kernel);
        self.switch.enter(|| Server::start(config, Some(prepared))).expect("the namespace")
    }

    /// Bytes from the first host to the second by TCP, which arrive as they were.
    fn stream(&self) {
        let (tell, port) = mpsc::channel();
        std::thread::scope(|scope| {
            let receive = move || {
                let listener = TcpListener::bind((ip(1, 10), 0)).expect("a socket");
                tell.send(listener.local_addr().expect("bound").port()).expect("it is awaited");
                let (mut stream, _) = listener.accept().expect("a connection");
                stream.set_read_timeout(Some(PATIENCE)).expect("a time");
                let mut got = Vec::with_capacity(STREAM);
                stream.read_to_end(&mut got).expect("the stream ends");
                got
            };
            let receiver = scope.spawn(|| self.hosts[1].enter(receive).expect("the namespace"));
            let port = port.recv().expect("the receiver listens");
            let sent: Vec<u8> = (0..STREAM).map(|at| ((at * 31) >> 5) as u8).collect();
            let send = || {
                let address = (ip(1, 10), port).into();
                let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection");
                stream.set_write_timeout(Some(PATIENCE)).expect("a time");
                stream.write_all(&sent).expect("it is taken");
            };
            self.hosts[0].enter(send).expect("the namespace");
            assert!(receiver.join().expect("the receiver is well") == sent, "what arrived is what was sent");
        });
    }
}

fn mac_of(host: &Namespace) -> u64 {
    number(&host.link("eth0").expect("it is there").mac)
}

/// Both ways through the router.
fn routes(switch: &Switch, hosts: &Hosts) {
    for (at, router) in ROUTER_MACS.into_iter().enumerate() {
        let (host, port) = (u64::from(ip(at as u8, 10).to_bits()), at as u64 + 1);
        add(switch, "send_frame", vec![exact(port)], 0, "set_src_addr", &[router]);
        add(switch, "forward", vec![exact(host)], 0, "set_dst_addr", &[mac_of(&hosts.hosts[at])]);
        add(switch, "ipv4_lpm", vec![lpm(ip(at as u8, 10).to_bits(), 32)], 0, "set_next_hop", &[host, port]);
    }
}

fn note(switch: &Switch, port: u32) -> String {
    switch.ports().iter().find(|info| info.port == port).expect("it is there").note.clone()
}

fn came_up(switch: &Switch) -> u64 {
    switch.ports().iter().map(|info| info.rx.packets).sum()
}

fn with_hosts(test: impl FnOnce(&Hosts)) {
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    test(&Hosts::make(true));
}

/// What programs at tc hang on.
fn link() -> &'static str {
    if has_tcx() { "tcx" } else { "clsact" }
}

#[test]
fn segments_pass_whole_straight_to_the_other_end() {
    pass_whole(HookChoice::Auto, &format!("tc, {} at ingress", link()));
}

/// The same as on a kernel before 6.6.
#[test]
fn segments_pass_whole_without_tcx() {
    pass_whole(HookChoice::Clsact, "tc, clsact at ingress");
}

fn pass_whole(hook: HookChoice, which: &str) {
    with_hosts(|hosts| {
        let target = TargetConfig { pass_offloads: true, hook, ..TargetConfig::default() };
        let server = hosts.try_start(ROUTER, target).expect("a switch");
        let switch = server.switch();
        routes(switch, hosts);
        for port in [1, 2] {
            let note = note(switch, port);
            assert!(note.contains(which) && note.contains("straight to the other end"), "{note}");
        }
        // Neighbours ask for each other (IPv6): those are dropped, as the program says, and do not come up either.
        hosts.stream();
        assert_eq!(came_up(switch), 0, "the sockets see nothing of what the kernel forwards");
        let arrived = hosts.hosts[1].enter(|| {
            let text = std::fs::read_to_string("/proc/thread-self/net/dev").expect("it is there");
            let line =
                text.lines().find_map(|line| line.trim().strip_prefix("eth0:")).expect("eth0").to_owned();
            line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok()).expect("packets")
        });
        let arrived = arrived.expect("the namespace");
        assert!(arrived < STREAM / 1448, "{arrived} packets: they were not cut on the way");
        server.stop().expect("the engine is well");
    });
}

#[test]
fn a_program_moves_to_tc_when_segments_come() {
    with_hosts(|hosts| {
        let server = hosts.start(ROUTER, false);
        let switch = server.switch();
        routes(switch, hosts);
        assert!(note(switch, 1).starts_with("XDP at the generic hook"), "{}", note(switch, 1));
        hosts.stream();
        for port in [1, 2] {
            let note = note(switch, port);
            assert!(note.contains("segments larger than a frame came"), "{note}");
        }
        // A new program stands where the old one stood.
        switch.load(&common::json(ROUTER)).expect("a program");
        routes(switch, hosts);
        switch.swap().expect("another program");
        hosts.stream();
        assert!(note(switch, 2).contains(&format!("tc, {}", link())), "{}", note(switch, 2));
        server.stop().expect("the engine is well");
    });
}

/// What tc hands over comes in again with a mark: to the switch's socket, once.
#[test]
fn what_the_kernel_hands_over_at_tc_comes_up_once() {
    with_hosts(|hosts| {
        let server = hosts.start(CLONED, true);
        let switch = server.switch();
        let destination = mac_of(&hosts.hosts[1]);
        // Nothing but clones arrives, and user space makes them, as their session is more than a port; the second host counts what comes.
        add(switch, "hosts", vec![exact(destination)], 0, "cloned", &[511]);
        switch.mc_set_group(7, &[(2, 0)]).expect("a group");
        let group = MirrorSession { multicast_group: Some(7), ..MirrorSession::default() };
        switch.set_mirror(5, group).expect("a session");
        let sent = 20;
        let (tell, ready) = mpsc::channel();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let receive = move || {
                    let mut wire = Wire::open("packet:eth0");
                    tell.send(()).expect("it is awaited");
                    let (patience, mut seen) = (Patience::new(), vec![0; sent]);
                    while seen.contains(&0) {
                        wire.receive(|packet| {
                            if packet[12..14] == [0x88, 0xb5] {
                                seen[usize::from(packet[11])] += 1;
                            }
                        });
                        patience.wait("a packet did not come");
                    }
                    seen
                };
                hosts.hosts[1].enter(receive).expect("the namespace")
            });
            ready.recv().expect("the receiver is there");
            let send = || {
                let mut wire = Wire::open("packet:eth0");
                for at in 0..sent as u64 {
                    wire.send_now(&ethernet(destination, 0x0200_0000_1000 + at, 80));
                }
            };
            hosts.hosts[0].enter(send).expect("the namespace");
            assert_eq!(receiver.join().expect("the receiver is well"), vec![1; sent]);
        });
        assert!(came_up(switch) >= sent as u64, "{:?}", switch.ports());
        server.stop().expect("the engine is well");
    });
}

/// Clones of segments that are still to be cut, with sums that are not finished: they arrive as they were, whoever serves their session.
#[test]
fn segments_are_cloned_whole() {
    with_hosts(|hosts| {
        let server = hosts.start(CLONED, true);
        let switch = server.switch();
        let macs = [0, 1].map(|at| mac_of(&hosts.hosts[at]));
        for at in 0..2 {
            let gateway = IpAddr::V4(ip(at as u8, 1));
            hosts.hosts[at].add_neighbour("eth0", gateway, mac(macs[1 - at])).expect("a neighbour");
        }
        add(switch, "hosts", vec![exact(macs[0])], 0, "forward", &[1]);
        // Of what goes to the second host nothing arrives but clones: their packets are dropped.
        add(switch, "hosts", vec![exact(macs[1])], 0, "cloned", &[511]);
        switch.mc_set_group(7, &[(2, 0)]).expect("a group");
        let group = MirrorSession { multicast_group: Some(7), ..MirrorSession::default() };
        switch.set_mirror(5, group).expect("a session");
        hosts.stream();
        let by_user_space = came_up(switch);
        assert!((1..(STREAM / 1448) as u64).contains(&by_user_space), "{by_user_space} of {STREAM} bytes");
        let port = MirrorSession { egress_port: Some(2), ..MirrorSession::default() };
        switch.set_mirror(5, port).expect("a session");
        hosts.stream();
        assert_eq!(came_up(switch), by_user_space, "the kernel makes them");
        server.stop().expect("the engine is well");
    });
}

/// A host that leaves checksums to its card: what the controller gets is finished.
#[test]
fn checksums_are_finished_for_the_controller() {
    with_hosts(|hosts| {
        for hook in [HookChoice::Generic, HookChoice::Tc, HookChoice::Clsact] {
            let program = include_str!("../../../../tests/programs/told.p4");
            let target = TargetConfig { cpu_port: Some(64), hook, ..TargetConfig::default() };
            let server = hosts.try_start(program, target).expect("a switch");
            let switch = server.switch();
            let told = switch.subscribe(256);
            add(switch, "hosts", vec![exact(ROUTER_MACS[0])], 0, "forward", &[64]);
            let send = || {
                let socket = UdpSocket::bind((ip(0, 10), 0)).expect("a socket");
                socket.send_to(b"for the controller", (ip(1, 10), 7)).expect("it is sent");
            };
            hosts.hosts[0].enter(send).expect("the namespace");
            let packet = loop {
                match told.recv_timeout(PATIENCE).expect("the controller is told") {
                    Notification::PacketIn { bytes } if bytes[12..14] == [8, 0] => break bytes,
                    _ => {}
                }
            };
            let mut summed = packet[26..34].to_vec();
            summed.extend([0, 17, packet[38], packet[39]]);
            summed.extend(&packet[34..]);
            assert_eq!(&packet[42..], b"for the controller", "{hook:?}");
            assert_eq!(barewire_wire::checksum::checksum(&summed), 0, "{hook:?}: the sum is right");
            server.stop().expect("the engine is well");
        }
    });
}

/// A veth takes frames from XDP in its driver only where its other end polls: that is found out, not guessed.
#[test]
fn the_native_hook_of_a_veth_needs_an_other_end_that_polls() {
    let Some(ethtool) = have(Needs::Peers, program("ethtool")) else { return };
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    let hosts = &Hosts::make(false);
    let native = || TargetConfig { hook: HookChoice::Native, ..TargetConfig::default() };
    let Err(StartError::Control(why)) = hosts.try_start(ROUTER, native()) else {
        panic!("nobody polls there");
    };
    assert!(why.to_string().contains("its other end does not poll"), "{why}");
    for host in &hosts.hosts {
        let mut command = std::process::Command::new(&ethtool);
        command.args(["-K", "eth0", "gro", "on"]);
        let status = host.spawn_in(&mut command).and_then(|mut child| child.wait()).expect("it runs");
        assert!(status.success());
    }
    let server = hosts.try_start(ROUTER, native()).expect("both poll now");
    let switch = server.switch();
    routes(switch, hosts);
    hosts.stream();
    assert!(note(switch, 1).contains("the other end polls"), "{}", note(switch, 1));
    server.stop().expect("the engine is well");
}
