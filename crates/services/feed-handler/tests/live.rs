//! Live: the emulator's packets over real interfaces in namespaces of our own, by sockets and by ports. Needs root.

mod common;

use barewire_base::{Duration, Instant};
use barewire_engine::{Engine, EngineConfig, IdleStrategy, StopFlag, now};
use barewire_feed_emulator::{Emitted, Emulator, EmulatorConfig, Sender};
use barewire_feed_handler::{
    Consumer, FeedHandler, Input, Packet, PortOptions, Replay, SocketOptions, SocketSource, Source, StampBy,
};
use barewire_frame::{ClockDomain, StampSource};
use barewire_netns::{Namespace, TwoHosts, TwoHostsConfig};
use barewire_port::Speed;
use barewire_testing::Folder;
use common::{Keep, channel, emulation, plan, privileged, sockets};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

/// What an emulation of this configuration emits until `until`.
fn emitted(config: &EmulatorConfig, until: Duration) -> usize {
    let mut emulator = Emulator::new(config.clone(), Instant::ZERO).unwrap();
    emulator.next_packets(Instant::ZERO + until, &mut |_| {})
}

const LONG: Duration = Duration::from_millis(400);

/// Sends a whole emulation from `interface` in real time; how many packets that were.
fn send_all(config: &EmulatorConfig, interface: &str) -> u64 {
    let start = now();
    let mut emulator = Emulator::new(config.clone(), start).unwrap();
    let sender = Sender::open(&channel(config).connections, Some(interface)).unwrap();
    sender.run(&mut emulator, start + LONG, IdleStrategy::default(), None).unwrap();
    assert_eq!(sender.refused.get(), 0);
    sender.sent.get()
}

/// How long what must come is waited for, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a sender tells whoever receives: that it is done, and how many packets it has sent.
#[derive(Default)]
struct Sent {
    done: AtomicBool,
    count: AtomicU64,
}

impl Sent {
    fn done(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
        self.done.store(true, Ordering::Release);
    }

    /// How many, once it is done.
    fn count(&self) -> Option<u64> {
        self.done.load(Ordering::Acquire).then(|| self.count.load(Ordering::Relaxed))
    }
}

/// Drives a handler until the sender is done and `enough` says that of so many packets no more will come.
fn drain<C: Consumer>(handler: &mut FeedHandler<C>, sent: &Sent, enough: impl Fn(&C, u64) -> bool) {
    let (mut end, mut done) = (now() + PATIENCE, false);
    while now() < end {
        if let Some(count) = sent.count() {
            if !std::mem::replace(&mut done, true) {
                end = now() + PATIENCE;
            }
            if enough(&handler.channels()[0], count) {
                // One more than was sent would be seen, too.
                while handler.process(now()).unwrap() > 0 {}
                return;
            }
        }
        if handler.process(now()).unwrap() == 0 {
            std::thread::yield_now();
        }
    }
}

/// As many have come as were sent.
fn all(keep: &Keep, sent: u64) -> bool {
    keep.packets.len() as u64 >= sent
}

#[test]
fn sockets_receive_every_line_with_the_kernels_stamp() {
    if !privileged() {
        return;
    }
    let hosts = TwoHosts::create(&TwoHostsConfig { label: None, ..TwoHostsConfig::default() }).unwrap();
    let config = emulation(11);
    let (ready, is_ready) = mpsc::channel();
    let folder = Folder::new("live");
    let record = folder.file("live.pcap");
    let told = Sent::default();
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            hosts
                .ns_b
                .enter(|| {
                    let plan = plan(&config, sockets("eth0"), Some(record.clone()));
                    let mut handler = FeedHandler::builder(plan).build(|_, _| Keep::default()).unwrap();
                    ready.send(()).unwrap();
                    drain(&mut handler, &told, all);
                    handler.recorder_mut().unwrap().flush().unwrap();
                    let mut counts = Vec::new();
                    handler.sources()[0].counts(&mut |name, value| counts.push((name, value)));
                    (handler.channels()[0].packets.clone(), counts)
                })
                .unwrap()
        });
        is_ready.recv().unwrap();
        let sent = hosts.ns_a.enter(|| send_all(&config, "eth0")).unwrap();
        told.done(sent);
        (sent, receiver.join().unwrap())
    });
    let (packets, counts) = received;
    assert!(sent > 300, "{sent}");
    assert_eq!(packets.len() as u64, sent, "{counts:?}");
    let lines: BTreeSet<String> = packets.iter().map(|(line, _, _)| line.to_string()).collect();
    assert_eq!(lines.into_iter().collect::<Vec<_>>(), ["IA", "IB", "NA", "NB", "SA", "SB"]);
    // The kernel begins to stamp some time after it was asked to, later on a busy machine: the first may have none, and are the engine's.
    let by_kernel = |stamp: &barewire_frame::Stamp| stamp.source == StampSource::Kernel;
    assert!(packets.iter().any(|(_, stamp, _)| by_kernel(stamp)), "{counts:?}");
    for (_, stamp, _) in packets.iter().filter(|(_, stamp, _)| by_kernel(stamp)) {
        assert_eq!(stamp.clock, ClockDomain::Realtime);
        // Within this century, and not in the future.
        assert!(stamp.ns > 1_000_000_000_000_000_000 && stamp.ns <= barewire_measure::realtime_ns());
    }

    // What was recorded is replayed as it came.
    let mut replay = Replay::open(&[record], &[channel(&config)], true).unwrap();
    let offline = plan(&config, Input::Sockets(SocketOptions::default()), None);
    let mut handler = FeedHandler::builder(offline).sources(vec![]).build(|_, _| Keep::default()).unwrap();
    handler.replay(&mut replay, Speed::Flat, None).unwrap();
    type Kept = (barewire_feed_handler::LineId, barewire_frame::Stamp, Vec<u8>);
    let sorted = |packets: &mut dyn Iterator<Item = &Kept>| {
        let mut all: Vec<_> = packets.map(|(l, s, p)| (*l, s.ns, p.clone())).collect();
        all.sort();
        all
    };
    let replayed = &handler.channels()[0].packets;
    // A time of the engine's clock was converted for the capture.
    let again = sorted(&mut replayed.iter());
    let timed = sorted(&mut packets.iter().filter(|(_, stamp, _)| by_kernel(stamp)));
    assert!(timed.iter().all(|packet| again.binary_search(packet).is_ok()), "replay and live differ");
    let bytes = |all: &[Kept]| -> Vec<_> {
        let mut all: Vec<_> = all.iter().map(|(l, _, p)| (*l, p.clone())).collect();
        all.sort();
        all
    };
    assert!(bytes(replayed) == bytes(&packets), "replay and live differ");
}

#[test]
fn a_parked_engine_is_woken_and_several_channels_share_it() {
    if !privileged() {
        return;
    }
    let host = Namespace::anonymous().unwrap();
    host.set_up("lo").unwrap();
    let (one, two) = (emulation(12), EmulatorConfig { channel_id: 902, ..emulation(13) });
    let counts = host
        .enter(|| {
            let stop = StopFlag::new().unwrap();
            let (send, receive) = mpsc::channel();
            struct Tell(u16, mpsc::Sender<u16>);
            impl Consumer for Tell {
                fn on_packet(&mut self, _: Instant, packet: &Packet<'_>) {
                    assert_eq!(packet.line.channel, self.0);
                    let _ = self.1.send(self.0);
                }
            }
            let mut both = plan(&one, sockets("127.0.0.1"), None);
            let mut second = channel(&two);
            for (index, line) in second.connections.iter_mut().enumerate() {
                line.to.set_port(19_200 + index as u16);
            }
            both.channels.push(second.clone());
            let config =
                EngineConfig { idle: IdleStrategy::Park { spin: Duration::ZERO }, ..both.engine_config() };
            let engine = Engine::spawn(
                config,
                move || {
                    let handler = FeedHandler::builder(both).build(|index, _| Tell(index, send.clone()))?;
                    Ok::<_, barewire_feed_handler::SourceError>(vec![Box::new(handler)])
                },
                &stop,
            )
            .unwrap();
            let first = send_all(&one, "127.0.0.1");
            let start = now();
            let mut emulator = Emulator::new(two.clone(), start).unwrap();
            let sender = Sender::open(&second.connections, Some("lo")).unwrap();
            sender.run(&mut emulator, start + LONG, IdleStrategy::default(), None).unwrap();
            let sent = [first, sender.sent.get()];
            let mut came = [0u64; 2];
            while came != sent {
                // One that does not come in all this time is lost.
                let Ok(channel) = receive.recv_timeout(PATIENCE.into()) else { break };
                came[usize::from(channel)] += 1;
            }
            stop.stop();
            engine.join().unwrap();
            receive.iter().for_each(|channel| came[usize::from(channel)] += 1);
            (came, sent)
        })
        .unwrap();
    assert_eq!(counts.0, counts.1);
    assert_eq!(counts.1, [emitted(&one, LONG) as u64, emitted(&two, LONG) as u64]);
}

#[test]
fn only_named_senders_get_through_a_source_specific_join() {
    if !privileged() {
        return;
    }
    let hosts = TwoHosts::create(&TwoHostsConfig { label: None, ..TwoHostsConfig::default() }).unwrap();
    let config = EmulatorConfig { active: Duration::from_millis(50), ..emulation(14) };
    for (source, passes) in [("10.77.0.1", true), ("10.77.0.9", false)] {
        let mut plan = plan(&config, sockets("eth0"), None);
        for line in &mut plan.channels[0].connections {
            line.sources = vec![source.parse().unwrap()];
        }
        let (ready, is_ready) = mpsc::channel();
        let told = Sent::default();
        // What was sent to the host itself, behind all else, shows that all else has gone by.
        let last = std::net::SocketAddr::from(([10, 77, 0, 2], 19_999));
        let came = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                hosts
                    .ns_b
                    .enter(|| {
                        let mut handler = FeedHandler::builder(plan).build(|_, _| Keep::default()).unwrap();
                        let mark = std::net::UdpSocket::bind(last).unwrap();
                        mark.set_nonblocking(true).unwrap();
                        ready.send(()).unwrap();
                        drain(&mut handler, &told, |keep, sent| {
                            if passes { all(keep, sent) } else { mark.recv(&mut [0; 8]).is_ok() }
                        });
                        handler.channels()[0].packets.len()
                    })
                    .unwrap()
            });
            is_ready.recv().unwrap();
            let sent = hosts.ns_a.enter(|| {
                let sent = send_all(&config, "eth0");
                std::net::UdpSocket::bind("0.0.0.0:0").unwrap().send_to(&[1], last).unwrap();
                sent
            });
            told.done(sent.unwrap());
            receiver.join().unwrap()
        });
        assert_eq!(came > 0, passes, "{source}: {came}");
    }
}

#[test]
fn full_buffers_and_long_packets_are_counted() {
    if !privileged() {
        return;
    }
    let host = Namespace::anonymous().unwrap();
    host.set_up("lo").unwrap();
    host.enter(|| {
        let config = emulation(15);
        let plan = channel(&config);
        let options = SocketOptions {
            interface_a: Some("lo".into()),
            receive_buffer_bytes: 8192,
            packet_bytes_max: 512,
            stamps: StampBy::Kernel,
            ..SocketOptions::default()
        };
        let mut source = SocketSource::open(std::slice::from_ref(&plan), &options).unwrap();
        assert_eq!(source.lines(), 6);
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = socket2::SockRef::from(&sender);
        socket.set_multicast_if_v4(&std::net::Ipv4Addr::LOCALHOST).unwrap();
        let to = plan.connections[0].to;
        let mut keep = Keep::default();
        // Rounds, since drops are told with the packets that come after them.
        let mut sent = 0;
        for round in 0..20 {
            for _ in 0..200 {
                sender.send_to(&[round; 400], to).unwrap();
                sent += 1;
            }
            sender.send_to(&[0; 513], to).unwrap();
            while source.poll(now(), &mut keep).unwrap() > 0 {}
        }
        for _ in 0..2 {
            sender.send_to(&[0; 513], to).unwrap();
            sender.send_to(&[0xee; 40], to).unwrap();
            sent += 1;
            while source.poll(now(), &mut keep).unwrap() > 0 {}
        }
        let counts = source.socket_counts();
        let (came, dropped) = (keep.packets.len() as u64, counts.kernel_drops.get());
        let truncated = counts.truncated.get();
        assert_eq!(counts.packets.get(), came);
        assert!(dropped > 100 && truncated >= 2, "{came} came, {dropped} dropped, {truncated} too long");
        // Nothing vanishes: what was sent came, was too long, or was dropped.
        assert_eq!(came + dropped + truncated, sent + 22, "{came} + {dropped} + {truncated}");
        // The headers were renewed when the first drop made the kernel say more, and then no more.
        assert!((1..=4).contains(&counts.headers_renewed.get()), "{}", counts.headers_renewed.get());
        let last = &keep.packets.last().unwrap().1;
        assert_eq!(last.source, StampSource::Kernel);
    })
    .unwrap();
}

#[test]
fn ports_receive_the_same_and_hold_the_memberships() {
    if !privileged() {
        return;
    }
    let hosts = TwoHosts::create(&TwoHostsConfig { label: None, ..TwoHostsConfig::default() }).unwrap();
    for scheme in ["packet", "xdp"] {
        let config = emulation(16);
        let (ready, is_ready) = mpsc::channel();
        let told = Sent::default();
        let (packets, memberships) = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                hosts
                    .ns_b
                    .enter(|| {
                        let input = Input::Ports(PortOptions::new(&format!("{scheme}:eth0")));
                        let plan = plan(&config, input, None);
                        let mut handler = FeedHandler::builder(plan).build(|_, _| Keep::default()).unwrap();
                        let igmp = std::fs::read_to_string("/proc/thread-self/net/igmp").unwrap();
                        ready.send(()).unwrap();
                        drain(&mut handler, &told, all);
                        (std::mem::take(&mut handler.channels_mut()[0].packets), igmp)
                    })
                    .unwrap()
            });
            is_ready.recv().unwrap();
            let sent = hosts.ns_a.enter(|| send_all(&config, "eth0")).unwrap();
            told.done(sent);
            let (packets, memberships) = receiver.join().unwrap();
            assert_eq!(packets.len() as u64, sent, "{scheme}");
            (packets, memberships)
        });
        // 239.90.133.1 as the kernel shows it: 901 modulo 256 is 133.
        assert!(memberships.contains("01855AEF"), "{scheme}: {memberships}");
        let wanted = if scheme == "packet" { ClockDomain::Realtime } else { ClockDomain::Monotonic };
        assert!(
            packets.iter().all(|(_, s, _)| s.clock == wanted && s.source == StampSource::Kernel),
            "{scheme}"
        );
    }
}

/// Sends to every line until the handler has had a packet with this kind of stamp by each.
fn warm_up(
    handler: &mut FeedHandler<Keep>,
    plan: &barewire_feed_handler::ChannelPlan,
    interface: &str,
    wanted: StampSource,
) {
    let sender = Sender::open(&plan.connections, Some(interface)).unwrap();
    let end = now() + PATIENCE;
    let mut missing: BTreeSet<_> = plan.received().map(|line| (line.feed, line.side)).collect();
    while !missing.is_empty() && now() < end {
        for &(feed, side) in &missing {
            sender.send(&Emitted { at: now(), feed, side, payload: &[0; 40] }).unwrap();
        }
        // All of them are taken before the next are sent: what is warm is known of each line.
        let before = handler.channels()[0].packets.len();
        while handler.channels()[0].packets.len() < before + missing.len() && now() < end {
            handler.process(now()).unwrap();
        }
        let seen = &handler.channels()[0].packets[before..];
        for (line, _, _) in seen.iter().filter(|(_, stamp, _)| stamp.source == wanted) {
            missing.remove(&(line.feed, line.side));
        }
    }
    assert!(missing.is_empty(), "no stamp of {wanted:?}");
}

#[test]
fn stamps_come_from_whom_the_options_say() {
    if !privileged() {
        return;
    }
    let host = Namespace::anonymous().unwrap();
    host.set_up("lo").unwrap();
    host.enter(|| {
        let config = EmulatorConfig { active: Duration::from_millis(20), ..emulation(17) };
        // No card stamps on the loopback: the kernel's stamp is the best there is.
        for (stamps, busy_poll_us, source) in [
            (StampBy::Kernel, 20, StampSource::Kernel),
            (StampBy::Hardware, 0, StampSource::Kernel),
            (StampBy::Engine, 0, StampSource::Engine),
        ] {
            let options = SocketOptions {
                interface_a: Some("lo".into()),
                stamps,
                busy_poll_us,
                burst: 3,
                ..SocketOptions::default()
            };
            let mut handler = FeedHandler::builder(plan(&config, Input::Sockets(options), None))
                .build(|_, _| Keep::default())
                .unwrap();
            // The kernel begins to stamp some time after it was asked to, later on a busy machine: the first may have none.
            warm_up(&mut handler, &channel(&config), "lo", source);
            handler.channels_mut()[0].packets.clear();
            let start = now();
            let mut emulator = Emulator::new(config.clone(), start).unwrap();
            let sender = Sender::open(&channel(&config).connections, Some("lo")).unwrap();
            sender.run(&mut emulator, start + Duration::from_millis(50), IdleStrategy::Yield, None).unwrap();
            let told = Sent::default();
            told.done(sender.sent.get());
            drain(&mut handler, &told, all);
            let packets = &handler.channels()[0].packets;
            assert_eq!(packets.len() as u64, sender.sent.get(), "{stamps:?}");
            assert!(packets.iter().all(|(_, stamp, _)| stamp.source == source), "{stamps:?}");
        }
    })
    .unwrap();
}

#[test]
fn groups_of_ipv6_are_joined_too() {
    if !privileged() {
        return;
    }
    let hosts = TwoHosts::create(&TwoHostsConfig { label: None, ..TwoHostsConfig::default() }).unwrap();
    let config = EmulatorConfig { active: Duration::from_millis(50), ..emulation(18) };
    let mut lines = channel(&config).connections;
    for (index, line) in lines.iter_mut().enumerate() {
        line.to.set_ip(format!("ff15::90:{}", index + 1).parse().unwrap());
    }
    for input in [sockets("eth0"), Input::Ports(PortOptions::new("packet:eth0"))] {
        let mut plan = plan(&config, input.clone(), None);
        plan.channels[0].connections = lines.clone();
        let (ready, is_ready) = mpsc::channel();
        let told = Sent::default();
        let (sent, came) = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                hosts
                    .ns_b
                    .enter(|| {
                        let mut handler = FeedHandler::builder(plan).build(|_, _| Keep::default()).unwrap();
                        ready.send(()).unwrap();
                        drain(&mut handler, &told, all);
                        handler.channels()[0].packets.len() as u64
                    })
                    .unwrap()
            });
            is_ready.recv().unwrap();
            let sent = hosts
                .ns_a
                .enter(|| {
                    let start = now();
                    let mut emulator = Emulator::new(config.clone(), start).unwrap();
                    let sender = Sender::open(&lines, Some("eth0")).unwrap();
                    sender.run(&mut emulator, start + LONG, IdleStrategy::default(), None).unwrap();
                    sender.sent.get()
                })
                .unwrap();
            told.done(sent);
            (sent, receiver.join().unwrap())
        });
        assert!(sent > 50);
        assert_eq!(came, sent, "{input:?}");
    }
}
