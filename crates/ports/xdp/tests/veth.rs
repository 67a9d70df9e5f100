//! The port on real interfaces: a veth pair in a namespace of the test's own. Needs root, and says so when it is not.

#[path = "../../packet/tests/common/mod.rs"]
mod common;

use barewire_base::{DropReason, Duration};
use barewire_frame::{
    Burst, ChecksumState, ClockDomain, Frame, Gso, GsoKind, Pool, PoolConfig, StampSource, leaked_pools,
};
use barewire_packet::{PacketConfig, PacketPort};
use barewire_port::conformance::{ConformancePair, run_all};
use barewire_port::{OpenError, Port};
use barewire_xdp::{Attach, Mode, NeedWakeup, Queues, XdpConfig, XdpPort};
use common::{
    FAR, NEAR, arp_request, clock_ns, echo_request, eventually, ip, now, with_xdp_veth as with_veth,
};
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

fn pool(frames: u32) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).expect("a pool")
}

fn open(config: XdpConfig, pool: &Pool) -> XdpPort {
    XdpPort::open(config, pool.clone()).unwrap_or_else(|e| panic!("{e}"))
}

fn send(port: &mut XdpPort, pool: &Pool, bytes: &[u8]) {
    let mut burst = Burst::new();
    burst.push(pool.alloc_from(bytes).expect("a frame")).expect("room");
    eventually("sending", || {
        port.tx_burst(now(), &mut burst).expect("tx_burst");
        burst.is_empty()
    });
}

/// Receives until a frame satisfies `wanted`.
fn receive(port: &mut XdpPort, wanted: impl Fn(&[u8]) -> bool) -> Frame {
    let mut found = None;
    eventually("receiving", || {
        let mut burst = Burst::new();
        port.rx_burst(now(), &mut burst).expect("rx_burst");
        while let Some(frame) = burst.pop() {
            if wanted(frame.data()) {
                found = Some(frame);
            }
        }
        found.is_some()
    });
    found.expect("just found")
}

/// Whether anything arrives within a short time.
fn hears(port: &mut XdpPort, wanted: impl Fn(&[u8]) -> bool) -> bool {
    let end = now() + Duration::from_millis(50);
    let mut burst = Burst::new();
    while now() < end {
        port.rx_burst(now(), &mut burst).expect("rx_burst");
        if burst.iter().any(|f| wanted(f.data())) {
            return true;
        }
        burst.clear();
    }
    false
}

fn conformance(name: &'static str, queues: u32, change: fn(&mut XdpConfig)) {
    with_veth(name, queues, move || {
        run_all(name, &mut || {
            let (a_pool, b_pool) = (pool(512), pool(512));
            let (mut near, mut far) = (XdpConfig::new(NEAR), XdpConfig::new(FAR));
            change(&mut near);
            change(&mut far);
            let (a, b) = (open(near, &a_pool), open(far, &b_pool));
            ConformancePair::on_a_wire(a, a_pool, b, b_pool)
        });
    });
}

#[test]
fn conformance_native() {
    conformance("conformance_native", 1, |c| c.attach = Attach::Native);
}

#[test]
fn conformance_generic() {
    conformance("conformance_generic", 1, |c| {
        c.attach = Attach::Generic;
        c.kernel_stamp = false;
    });
}

#[test]
fn conformance_without_wakeup_flag() {
    conformance("conformance_without_wakeup_flag", 1, |c| {
        c.need_wakeup = NeedWakeup::Off;
        c.tx_ring = 64;
        c.completion_ring = 64;
    });
}

#[test]
fn conformance_with_several_queues_and_busy_polling() {
    conformance("conformance_with_several_queues", 4, |c| {
        c.attach = Attach::Native;
        c.busy_poll = Some(barewire_xdp::BusyPoll { timeout_us: 20, budget: 64 });
    });
}

#[test]
fn what_was_chosen_is_said() {
    with_veth("what_was_chosen_is_said", 2, || {
        let p = pool(64);
        let native = XdpConfig { mode: Mode::Copy, attach: Attach::Native, ..XdpConfig::new(NEAR) };
        let port = open(native, &p);
        let caps = port.caps();
        assert_eq!((caps.mtu, caps.frame_max, caps.queues), (1500, 1514, 2));
        assert!(caps.in_place && !caps.zero_copy && caps.mac.is_some());
        for part in ["bw-near (veth)", "copy (as asked)", "native hook", "queue 0,1 of 2", "kernel stamps"] {
            assert!(caps.description.contains(part), "{part:?} in {:?}", caps.description);
        }
        assert_eq!(port.held_by_kernel(), 32, "half of the pool waits for frames");
        drop(port);
        assert_eq!(p.available(), 64);
        let port = open(XdpConfig::new(NEAR), &p);
        assert!(port.caps().description.contains("generic hook (a veth's native one"), "{port:?}");
        drop(port);
        let port = open(XdpConfig { attach: Attach::Generic, ..XdpConfig::new(NEAR) }, &p);
        assert!(port.caps().description.contains("generic hook (as asked)"), "{port:?}");
        assert!(port.caps().description.contains("copy (zero copy needs the native hook)"), "{port:?}");
    });
}

/// As several engines do: each port has a pool and queues of its own, and one program brings each its frames.
#[test]
fn ports_with_queues_of_their_own_share_a_program() {
    with_veth("ports_share_a_program", 4, || {
        let pools = [pool(512), pool(512), pool(512)];
        let shared = |queues: &[u32]| XdpConfig {
            queues: Queues::List(queues.to_vec()),
            share: true,
            ..XdpConfig::new(NEAR)
        };
        let mut ports = vec![open(shared(&[0, 2]), &pools[0]), open(shared(&[1]), &pools[1])];
        let refused = |config: XdpConfig, why: &str| match XdpPort::open(config, pools[2].clone()) {
            Ok(_) => panic!("must be refused"),
            Err(e) => assert!(e.to_string().contains(why), "{e}"),
        };
        refused(XdpConfig { kernel_stamp: false, ..shared(&[3]) }, "agree on claim");
        refused(shared(&[1]), "queue 1 of `bw-near` belongs to another AF_XDP socket");

        let deliver = |ports: &mut [XdpPort], queue: u32, to: Option<usize>, tag: u8| {
            let mut far =
                open(XdpConfig { queues: Queues::List(vec![queue]), ..XdpConfig::new(FAR) }, &pools[2]);
            println!("round {tag}: a frame on queue {queue}");
            let frame = arp_request([10, 0, tag, queue as u8], [10, 0, 0, 99]);
            send(&mut far, &pools[2], &frame);
            if let Some(to) = to {
                receive(&mut ports[to], |data| data == frame);
            }
            for (i, port) in ports.iter_mut().enumerate() {
                assert!(Some(i) == to || !hears(port, |data| data == frame), "queue {queue} at port {i}");
            }
        };
        deliver(&mut ports, 0, Some(0), 1);
        deliver(&mut ports, 1, Some(1), 1);
        deliver(&mut ports, 2, Some(0), 1);
        deliver(&mut ports, 3, None, 1);
        // One closes, another comes: those that stay notice nothing.
        drop(ports.remove(0));
        deliver(&mut ports, 1, Some(0), 2);
        deliver(&mut ports, 0, None, 2);
        ports.push(open(shared(&[0, 2, 3]), &pools[0]));
        deliver(&mut ports, 3, Some(1), 3);
        // The last one takes the program along, so that a port alone may have the interface.
        drop(ports);
        let mut alone = vec![open(XdpConfig { kernel_stamp: false, ..XdpConfig::new(NEAR) }, &pools[0])];
        deliver(&mut alone, 2, Some(0), 4);
    });
}

/// Between `fork` and `exec` a child has copies of all descriptors, that of the program's link, too.
#[test]
fn a_child_that_is_about_to_run_something_does_not_keep_the_program() {
    with_veth("a_child_keeps_no_program", 2, || {
        let pools = [pool(256), pool(256)];
        let on = |queue| XdpConfig { queues: Queues::List(vec![queue]), ..XdpConfig::new(NEAR) };
        let first = open(on(0), &pools[0]);
        let ((mut forked, tell), (hear, mut go)) = (pipe().unwrap(), pipe().unwrap());
        let child = std::thread::spawn(move || {
            let mut command = Command::new("true");
            // SAFETY: `write` and `read` of descriptors are safe after `fork`.
            unsafe {
                command.pre_exec(move || {
                    (&tell).write_all(&[1])?;
                    (&hear).read_exact(&mut [0])
                })
            };
            command.status().unwrap()
        });
        forked.read_exact(&mut [0]).unwrap();
        drop(first);
        let second = XdpPort::open(on(1), pools[1].clone());
        // First the child, which would wait for ever.
        go.write_all(&[1]).unwrap();
        assert!(child.join().unwrap().success());
        second.expect("an interface without a program");
    });
}

#[test]
fn several_queues_share_one_umem() {
    with_veth("several_queues_share_one_umem", 4, || {
        let (near_pool, far_pool) = (pool(256), pool(256));
        let mut near = open(XdpConfig::new(NEAR), &near_pool);
        assert_eq!(near.caps().queues, 4);
        // A veth frame arrives on the queue of the same number that it was sent on: ours sends on the first it serves.
        for queue in 0..4 {
            let config = XdpConfig { queues: Queues::List(vec![queue]), ..XdpConfig::new(FAR) };
            let mut far = open(config, &far_pool);
            let frame = arp_request([10, 0, 0, queue as u8], [10, 0, 0, 99]);
            send(&mut far, &far_pool, &frame);
            assert_eq!(receive(&mut near, |f| f == frame).data(), frame);
        }
        drop(near);
        assert_eq!((near_pool.available(), far_pool.available()), (256, 256));
    });
}

#[test]
fn forwarding_between_two_ports_of_one_pool_moves_no_byte() {
    with_veth("forwarding", 1, || {
        let p = pool(256);
        let mut near = open(XdpConfig { mark_unfinished: false, ..XdpConfig::new(NEAR) }, &p);
        let mut far = open(XdpConfig::new(FAR), &p);
        let bytes = arp_request([10, 0, 0, 1], [10, 0, 0, 2]);
        send(&mut near, &p, &bytes);
        let frame = receive(&mut far, |f| f == bytes);
        let (chunk, free) = (frame.region_offset() / 2048, p.available());
        let mut burst = Burst::new();
        burst.push(frame).unwrap();
        assert_eq!(far.tx_burst(now(), &mut burst).unwrap(), 1);
        assert_eq!(p.available(), free, "no chunk was taken for a copy");
        let back = receive(&mut near, |f| f == bytes);
        assert_ne!(back.region_offset() / 2048, chunk, "the kernel copied it into one of ours");
        drop((near, far, back));
        assert_eq!(p.available(), 256);
    });
}

/// Sends `count` frames into each side of a loop between two ports of one pool, a burst at a time, and checks that all come
/// out on the other side, in order.
fn forward_both_ways(attach: Attach, count: u32) {
    ip(&["link", "add", "bw-a", "type", "veth", "peer", "name", "bw-b"]);
    ip(&["link", "set", "bw-a", "up"]);
    ip(&["link", "set", "bw-b", "up"]);
    let (p, outside) = (pool(1024), pool(512));
    let config = |name| XdpConfig { attach, fill_frames: Some(256), ..XdpConfig::new(name) };
    let mut inner = [open(config(NEAR), &p), open(config("bw-a"), &p)];
    let mut outer = [FAR, "bw-b"].map(|name| {
        PacketPort::open(PacketConfig::new(name), outside.clone()).unwrap_or_else(|e| panic!("{e}"))
    });
    let free = p.available();
    assert_eq!(free, 1024 - 2 * 256);
    let (mut sent, mut got) = ([0u32; 2], [0u32; 2]);
    let mut burst = Burst::new();
    let end = now() + Duration::from_secs(100);
    while got != [count; 2] {
        assert!(now() < end, "sent {sent:?}, got {got:?}");
        for side in 0..2 {
            let other = 1 - side;
            // Not more under way than any queue on the path holds.
            while sent[side] < count && sent[side] - got[other] < 128 && burst.room() > 16 {
                let mut bytes = arp_request(sent[side].to_be_bytes(), [side as u8; 4]);
                bytes.resize(60 + (sent[side] as usize * 37) % 1455, 0x5a);
                burst.push(outside.alloc_from(&bytes).expect("a frame")).expect("room");
                sent[side] += 1;
            }
            while !burst.is_empty() {
                outer[side].tx_burst(now(), &mut burst).expect("tx_burst");
            }
            inner[side].rx_burst(now(), &mut burst).expect("rx_burst");
            while !burst.is_empty() {
                inner[other].tx_burst(now(), &mut burst).expect("tx_burst");
            }
            outer[other].rx_burst(now(), &mut burst).expect("rx_burst");
            while let Some(frame) = burst.pop() {
                assert_eq!(frame.data()[28..32], got[other].to_be_bytes(), "order");
                assert_eq!(frame.data()[38..42], [side as u8; 4]);
                assert_eq!(frame.len(), 60 + (got[other] as usize * 37) % 1455);
                got[other] += 1;
            }
        }
    }
    for port in &mut inner {
        let c = port.counters();
        assert_eq!((c.rx_frames.get(), c.tx_frames.get()), (u64::from(count), u64::from(count)));
        assert_eq!(c.drops.total(), 0);
        assert!(port.prepare_wait(), "nothing waits");
    }
    assert_eq!(p.available(), free, "every chunk that was sent is back");
    drop(inner);
    assert_eq!((p.available(), leaked_pools()), (1024, 0));
}

#[test]
fn nothing_is_lost_between_two_ports_of_one_pool() {
    with_veth("both_ways_generic", 1, || forward_both_ways(Attach::Auto, 100_000));
    with_veth("both_ways_native", 1, || forward_both_ways(Attach::Native, 20_000));
}

#[test]
fn several_ports_share_a_pool_as_they_are_told() {
    with_veth("share", 2, || {
        ip(&["link", "add", "bw-a", "type", "veth", "peer", "name", "bw-b"]);
        ip(&["link", "set", "bw-a", "up"]);
        ip(&["link", "set", "bw-b", "up"]);
        let held = |frames: u32, fill_frames: Option<u32>| {
            let p = pool(frames);
            let names = [NEAR, FAR, "bw-a", "bw-b"];
            let config = |name| XdpConfig { fill_frames, ..XdpConfig::new(name) };
            let ports: Vec<XdpPort> = names.iter().map(|name| open(config(name), &p)).collect();
            ports.iter().map(XdpPort::held_by_kernel).collect::<Vec<_>>()
        };
        assert_eq!(held(16384, None), [2048; 4]);
        assert_eq!(held(32768, None), [4096; 4]);
        assert_eq!(held(256, None), [128, 64, 32, 16], "half of what is left");
        assert_eq!(held(256, Some(50)), [50; 4], "over both queues, where there are two");
        let p = pool(256);
        let refusal = |frames, p: &Pool| {
            let config = XdpConfig { fill_frames: Some(frames), ..XdpConfig::new(NEAR) };
            XdpPort::open(config, p.clone()).unwrap_err().to_string()
        };
        assert!(refusal(257, &p).contains("of which 256 frames are free"));
        assert!(refusal(15, &p).contains("at least 16 are needed"));
    });
}

#[test]
fn a_frame_that_is_to_be_cut_is_dropped() {
    with_veth("to_be_cut", 1, || {
        let p = pool(64);
        let mut near = open(XdpConfig::new(NEAR), &p);
        let mut frame = p.alloc_from(&arp_request([1; 4], [2; 4])).unwrap();
        frame.set_gso(Some(Gso { kind: GsoKind::Tcp4, ecn: false, size: 1000 }));
        let mut burst = Burst::new();
        burst.push(frame).unwrap();
        assert_eq!(near.tx_burst(now(), &mut burst).unwrap(), 1);
        assert_eq!(
            (near.counters().drops.get(DropReason::TooLarge), near.counters().tx_frames.get()),
            (1, 0)
        );
    });
}

#[test]
fn claims_leave_the_rest_to_the_kernel() {
    for attach in [Attach::Native, Attach::Generic] {
        with_veth("claims", 1, move || {
            ip(&["address", "add", "10.9.0.1/24", "dev", NEAR]);
            let (near_pool, far_pool) = (pool(256), pool(256));
            let claim = vec!["10.9.0.2".parse().unwrap()];
            let mut near = open(XdpConfig { claim, attach, ..XdpConfig::new(NEAR) }, &near_pool);
            let mut far = open(XdpConfig::new(FAR), &far_pool);
            let kernel_mac = near.caps().mac.unwrap().0;
            let peer = [10, 9, 0, 9];

            // The kernel's own address: its ARP and its ping answer, and we hear nothing of it.
            send(&mut far, &far_pool, &arp_request(peer, [10, 9, 0, 1]));
            let reply = receive(&mut far, |f| f[12..14] == [8, 6] && f[20..22] == [0, 2]);
            assert_eq!(reply.data()[28..32], [10, 9, 0, 1]);
            let ping = echo_request(kernel_mac, peer, [10, 9, 0, 1]);
            send(&mut far, &far_pool, &ping);
            let pong = receive(&mut far, |f| f[12..14] == [8, 0] && f[23] == 1 && f[34] == 0);
            assert_eq!(&pong.data()[42..50], b"barewire");
            assert!(!hears(&mut near, |f| f[12..14] == [8, 6] || f[12..14] == [8, 0]));

            // The claimed one: both are ours, and the kernel is silent.
            let request = arp_request(peer, [10, 9, 0, 2]);
            send(&mut far, &far_pool, &request);
            assert_eq!(receive(&mut near, |f| f[12..14] == [8, 6]).data(), request);
            let ping = echo_request(kernel_mac, peer, [10, 9, 0, 2]);
            send(&mut far, &far_pool, &ping);
            assert_eq!(receive(&mut near, |f| f[12..14] == [8, 0]).data(), ping);
            assert!(!hears(&mut far, |f| f[12..14] == [8, 6] && f[28..32] == [10, 9, 0, 2]));
        });
    }
}

#[test]
fn stamps_are_the_kernels_and_lie_between_sending_and_receiving() {
    for attach in [Attach::Native, Attach::Generic] {
        with_veth("stamps", 1, move || {
            let (near_pool, far_pool) = (pool(256), pool(256));
            let mut near = open(XdpConfig { attach, ..XdpConfig::new(NEAR) }, &near_pool);
            let mut far = open(XdpConfig { attach, ..XdpConfig::new(FAR) }, &far_pool);
            assert_eq!(near.caps().rx_stamp, StampSource::Kernel);
            for round in 0..300u32 {
                let bytes = arp_request(round.to_be_bytes(), [10, 0, 0, 2]);
                let before = clock_ns(libc::CLOCK_MONOTONIC);
                send(&mut far, &far_pool, &bytes);
                let frame = receive(&mut near, |f| f == bytes);
                let after = clock_ns(libc::CLOCK_MONOTONIC);
                let stamp = frame.stamp();
                assert_eq!((stamp.source, stamp.clock), (StampSource::Kernel, ClockDomain::Monotonic));
                assert!((before..=after).contains(&stamp.ns), "{before} {} {after}", stamp.ns);
            }
            drop(near);
            // Chunks that still hold old stamps in front must not lend them to new frames.
            let mut near =
                open(XdpConfig { attach, kernel_stamp: false, ..XdpConfig::new(NEAR) }, &near_pool);
            let bytes = arp_request([1; 4], [10, 0, 0, 2]);
            send(&mut far, &far_pool, &bytes);
            assert_eq!(receive(&mut near, |f| f == bytes).stamp().source, StampSource::Engine);
        });
    }
}

#[test]
fn checksums_that_the_kernel_left_unfinished_are_marked() {
    with_veth("unfinished", 1, || {
        ip(&["address", "add", "10.9.0.1/24", "dev", FAR]);
        ip(&["neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", FAR]);
        let p = pool(256);
        let mut near = open(XdpConfig::new(NEAR), &p);
        let kernel = std::net::UdpSocket::bind("10.9.0.1:5000").unwrap();
        kernel.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        kernel.send_to(b"hello", "10.9.0.2:6000").unwrap();
        let mut frame = receive(&mut near, |f| f[12..14] == [8, 0] && f[23] == 17);
        assert_eq!(frame.checksum(), ChecksumState::Partial { start: 34, offset: 6 });
        // Turned round and sent back, it is completed: the kernel takes it.
        let data = frame.data_mut();
        for (a, b, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
            for i in 0..len {
                data.swap(a + i, b + i);
            }
        }
        let mut burst = Burst::new();
        burst.push(frame).unwrap();
        near.tx_burst(now(), &mut burst).unwrap();
        let mut answer = [0u8; 16];
        let (len, from) = kernel.recv_from(&mut answer).unwrap();
        assert_eq!((&answer[..len], from.to_string().as_str()), (&b"hello"[..], "10.9.0.2:6000"));
    });
}

#[test]
fn without_privilege_the_missing_capability_is_named() {
    with_veth("unprivileged", 1, || {
        let p = pool(64);
        common::become_nobody();
        let e = XdpPort::open(XdpConfig::new(NEAR), p.clone()).unwrap_err();
        assert!(matches!(&e, OpenError::NotPermitted { .. }) && e.to_string().contains("CAP_BPF"), "{e}");
        assert_eq!(p.available(), 64);
    });
}

#[test]
fn a_port_can_be_opened_again_at_once() {
    with_veth("rebind", 2, || {
        let p = pool(256);
        for _ in 0..10 {
            drop(open(XdpConfig::new(NEAR), &p));
            assert_eq!(p.available(), 256);
        }
        assert!(!ip(&["-d", "link", "show", "dev", NEAR]).contains("prog/xdp"));
    });
}

#[test]
fn a_second_port_on_the_same_hook_is_refused_with_a_hint() {
    with_veth("second", 1, || {
        let (p, q) = (pool(64), pool(64));
        let first = open(XdpConfig::new(NEAR), &p);
        assert!(ip(&["-d", "link", "show", "dev", NEAR]).contains("prog/xdp"));
        for attach in [Attach::Auto, Attach::Generic] {
            let config = XdpConfig { attach, ..XdpConfig::new(NEAR) };
            let why = XdpPort::open(config, q.clone()).unwrap_err().to_string();
            assert!(why.contains("another XDP program is attached to `bw-near`"), "{why}");
            assert!(why.contains("xdp off"), "{why}");
        }
        drop(first);
        drop(open(XdpConfig::new(NEAR), &q));
        assert_eq!((p.available(), q.available()), (64, 64));
    });
}

#[test]
fn refusals_say_what_to_change() {
    with_veth("refusals", 1, || {
        let refusal = |config: XdpConfig, p: &Pool| XdpPort::open(config, p.clone()).unwrap_err();
        let p = pool(64);
        let e = refusal(XdpConfig::new("bw-neat"), &p);
        assert!(
            matches!(&e, OpenError::NotFound { .. }) && e.to_string().contains("did you mean `bw-near`?"),
            "{e}"
        );
        let e = refusal(XdpConfig { queues: Queues::List(vec![0, 3]), ..XdpConfig::new(NEAR) }, &p);
        assert!(e.to_string().contains("receive queue 3 of `bw-near` not found; it has 1"), "{e}");
        let e = refusal(XdpConfig { mode: Mode::ZeroCopy, ..XdpConfig::new(NEAR) }, &p);
        assert!(matches!(&e, OpenError::Unsupported { .. }) && e.to_string().contains("mode=copy"), "{e}");
        let e = refusal(XdpConfig { rx_ring: 1000, ..XdpConfig::new(NEAR) }, &p);
        assert!(e.to_string().contains("power of two"), "{e}");
        let e = refusal(XdpConfig::new(NEAR), &pool(8));
        assert!(e.to_string().contains("at least 16 are needed"), "{e}");
        let wide = Pool::new(PoolConfig { frames: 64, chunk_len: 8192, ..PoolConfig::default() }).unwrap();
        assert!(refusal(XdpConfig::new(NEAR), &wide).to_string().contains("2048 or 4096"));
        ip(&["link", "set", NEAR, "mtu", "3000"]);
        let e = refusal(XdpConfig::new(NEAR), &p);
        assert!(
            e.to_string().contains("chunk_len=4096, or lower it: ip link set dev bw-near mtu 1774"),
            "{e}"
        );
        let large = Pool::new(PoolConfig { frames: 64, chunk_len: 4096, ..PoolConfig::default() }).unwrap();
        assert_eq!(open(XdpConfig::new(NEAR), &large).caps().frame_max, 3014);
        ip(&["link", "set", NEAR, "mtu", "1500", "down"]);
        let e = refusal(XdpConfig::new(NEAR), &p);
        assert!(e.to_string().contains("ip link set dev bw-near up"), "{e}");
        assert_eq!((p.available(), large.available(), leaked_pools()), (64, 64, 0));
    });
}

#[test]
fn largest_frames_and_a_vlan_tag_cross() {
    with_veth("largest", 1, || {
        let (near_pool, far_pool) = (pool(256), pool(256));
        let mut near = open(XdpConfig::new(NEAR), &near_pool);
        let mut far = open(XdpConfig::new(FAR), &far_pool);
        let mut tagged = vec![0xa5; 1518];
        tagged[12..16].copy_from_slice(&[0x81, 0x00, 0x00, 0x05]);
        send(&mut far, &far_pool, &tagged);
        assert_eq!(receive(&mut near, |f| f.len() > 1000).data(), tagged);
        let mut untagged = tagged;
        untagged[12..14].copy_from_slice(&[0x08, 0x00]);
        send(&mut far, &far_pool, &untagged);
        send(&mut far, &far_pool, &[0xa5; 13]);
        assert_eq!(far.counters().drops.get(DropReason::TooLarge), 1);
        assert_eq!(far.counters().drops.get(DropReason::Truncated), 1);
    });
}

#[test]
fn a_frame_that_outgrew_the_chunk_is_counted() {
    with_veth("outgrown", 1, || {
        let near_pool = pool(256);
        let mut near = open(XdpConfig { attach: Attach::Generic, ..XdpConfig::new(NEAR) }, &near_pool);
        ip(&["link", "set", NEAR, "mtu", "3000"]);
        ip(&["link", "set", FAR, "mtu", "3000"]);
        let far_pool =
            Pool::new(PoolConfig { frames: 64, chunk_len: 4096, ..PoolConfig::default() }).unwrap();
        let mut far = open(XdpConfig::new(FAR), &far_pool);
        send(&mut far, &far_pool, &[0xa5; 2500]);
        let mut burst = Burst::new();
        eventually("the count", || {
            near.rx_burst(now(), &mut burst).unwrap();
            near.counters().drops.get(DropReason::TooLarge) == 1
        });
        assert!(burst.is_empty());
        assert_eq!(near.statistics().unwrap().rx_dropped, 1);
    });
}

#[test]
fn an_interface_that_goes_away_is_an_error_and_leaks_nothing() {
    with_veth("away", 1, || {
        let p = pool(256);
        let mut near = open(XdpConfig::new(NEAR), &p);
        ip(&["link", "delete", NEAR]);
        let mut seen = false;
        eventually("PortError::Down", || {
            let mut burst = Burst::new();
            seen |= near.rx_burst(now(), &mut burst).is_err();
            seen
        });
        let mut burst = Burst::new();
        burst.push(p.alloc_from(&[0xa5; 60]).unwrap()).unwrap();
        let e = near.tx_burst(now(), &mut burst).unwrap_err().to_string();
        assert!(e.contains("xdp:bw-near is down"), "{e}");
        drop((near, burst));
        assert_eq!(p.available(), 256);
    });
}

#[test]
fn an_empty_ring_costs_no_system_call() {
    with_veth("quiet", 1, || {
        let p = pool(256);
        let mut near = open(XdpConfig::new(NEAR), &p);
        let at = now();
        let mut burst = Burst::new();
        near.rx_burst(at, &mut burst).unwrap();
        let calls = near.counters().syscalls.get();
        for _ in 0..1000 {
            near.rx_burst(at, &mut burst).unwrap();
        }
        assert_eq!(near.counters().syscalls.get(), calls);
    });
}

const CHILD: &str = "BAREWIRE_XDP_TEST_CHILD";

/// Not a test by itself: what `a_killed_process_leaves_no_program` starts and kills.
#[test]
#[ignore = "the child of another test"]
fn child_that_is_killed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let p = pool(256);
    let _port = open(XdpConfig::new(NEAR), &p);
    println!("\nopened");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_killed_process_leaves_no_program() {
    with_veth("killed", 1, || {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "child_that_is_killed"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let opened = lines.map_while(Result::ok).any(|l| l == "opened");
        let attached = ip(&["-d", "link", "show", "dev", NEAR]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(opened && attached.contains("prog/xdp"), "{attached}");
        eventually("the program to vanish", || {
            !ip(&["-d", "link", "show", "dev", NEAR]).contains("prog/xdp")
        });
        let p = pool(64);
        drop(open(XdpConfig::new(NEAR), &p));
    });
}
