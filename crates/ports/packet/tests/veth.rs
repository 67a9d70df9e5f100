//! The port on real interfaces: a veth pair in a namespace of the test's own. Needs root, and says so when it is not.

mod common;

use barewire_base::{DropReason, Duration};
use barewire_frame::{Burst, ChecksumState, ClockDomain, Frame, Pool, PoolConfig, StampSource};
use barewire_packet::{Fanout, FanoutMode, LinkWatch, PacketConfig, PacketPort, StampBy};
use barewire_port::conformance::{ConformancePair, run_all};
use barewire_port::{GsoConfig, GsoPort, OpenError, Port, PortError};
use common::{FAR, NEAR, arp_request, clock_ns, eventually, ip, now, with_veth};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};

fn pool(frames: u32) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).expect("a pool")
}

fn open(config: PacketConfig, pool: &Pool) -> PacketPort {
    PacketPort::open(config, pool.clone()).unwrap_or_else(|e| panic!("{e}"))
}

fn send(port: &mut PacketPort, frame: Frame) {
    let mut burst = Burst::new();
    burst.push(frame).expect("room");
    eventually("sending", || {
        port.tx_burst(now(), &mut burst).expect("tx_burst");
        burst.is_empty()
    });
}

/// Receives until a frame satisfies `wanted`.
fn receive(port: &mut PacketPort, wanted: impl Fn(&[u8]) -> bool) -> Frame {
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

/// How many frames that satisfy `wanted` arrive within a short time, which begins when `least` are there.
fn count_from(least: usize, port: &mut PacketPort, wanted: impl Fn(&[u8]) -> bool) -> usize {
    let (mut burst, mut n) = (Burst::new(), 0);
    let mut look = || {
        port.rx_burst(now(), &mut burst).expect("rx_burst");
        n += burst.iter().filter(|f| wanted(f.data())).count();
        burst.clear();
        n
    };
    eventually("frames to count", || look() >= least);
    let end = now() + Duration::from_millis(50);
    while now() < end {
        look();
    }
    look()
}

/// How many frames that satisfy `wanted` arrive within a short time.
fn count(port: &mut PacketPort, wanted: impl Fn(&[u8]) -> bool) -> usize {
    count_from(0, port, wanted)
}

fn conformance(name: &'static str, change: fn(&mut PacketConfig)) {
    with_veth(name, 1, move || {
        run_all(name, &mut || {
            let (a_pool, b_pool) = (pool(512), pool(512));
            let (mut near, mut far) = (PacketConfig::new(NEAR), PacketConfig::new(FAR));
            change(&mut near);
            change(&mut far);
            let (a, b) = (open(near, &a_pool), open(far, &b_pool));
            ConformancePair::on_a_wire(a, a_pool, b, b_pool)
        });
    });
}

#[test]
fn conformance_as_it_comes() {
    conformance("conformance_as_it_comes", |_| {});
}

#[test]
fn conformance_with_virtio_headers() {
    conformance("conformance_with_virtio_headers", |c| c.vnet_hdr = true);
}

#[test]
fn conformance_without_rings() {
    conformance("conformance_without_rings", |c| (c.rx_ring, c.tx_ring) = (0, 0));
}

#[test]
fn conformance_without_rings_and_with_virtio_headers() {
    conformance("conformance_without_rings_virtio", |c| {
        c.vnet_hdr = true;
        (c.rx_ring, c.tx_ring) = (0, 0);
        c.stamp = StampBy::Engine;
        c.qdisc_bypass = false;
    });
}

#[test]
fn conformance_with_short_rings_through_the_qdisc() {
    conformance("conformance_with_short_rings", |c| {
        c.qdisc_bypass = false;
        c.promiscuous = true;
        (c.rx_ring, c.tx_ring) = (64, 4);
    });
}

/// Joined datagrams and others over one link; frames of the suite are no datagrams, so each goes as it is.
#[test]
fn conformance_with_datagrams_joined() {
    with_veth("conformance_gso", 1, || {
        run_all("conformance_gso", &mut || {
            let (a_pool, b_pool) = (pool(512), pool(512));
            let joining = |interface: &str, pool: &Pool| {
                let large = GsoPort::<PacketPort>::large_pool().unwrap();
                GsoPort::new(
                    open(PacketConfig::with_gso(interface), &large),
                    GsoConfig::default(),
                    large,
                    pool.clone(),
                )
            };
            let (a, b) = (joining(NEAR, &a_pool), joining(FAR, &b_pool));
            ConformancePair::on_a_wire(a, a_pool, b, b_pool)
        });
    });
}

#[test]
fn stamps_are_the_kernels() {
    with_veth("stamps", 1, || {
        let p = pool(64);
        let (mut near, mut far) = (open(PacketConfig::new(NEAR), &p), open(PacketConfig::new(FAR), &p));
        for round in 0..100u32 {
            let bytes = arp_request(round.to_be_bytes(), [10, 0, 0, 2]);
            let before = clock_ns(libc::CLOCK_REALTIME);
            send(&mut far, p.alloc_from(&bytes).unwrap());
            let stamp = receive(&mut near, |f| f == bytes).stamp();
            let after = clock_ns(libc::CLOCK_REALTIME);
            assert_eq!((stamp.source, stamp.clock), (StampSource::Kernel, ClockDomain::Realtime));
            assert!((before..=after).contains(&stamp.ns), "{before} {} {after}", stamp.ns);
        }
        let port = open(PacketConfig { stamp: StampBy::Hardware, ..PacketConfig::new(NEAR) }, &p);
        assert_eq!(port.caps().rx_stamp, StampSource::Kernel, "a veth has no clock");
        assert!(port.caps().description.contains("no hardware stamps"), "{port:?}");
    });
}

/// Lets the kernel of `FAR`, 10.9.0.1, talk UDP with 10.9.0.2 behind `NEAR`.
fn kernel_on_far() -> UdpSocket {
    ip(&["address", "add", "10.9.0.1/24", "dev", FAR]);
    ip(&["neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", FAR]);
    let socket = UdpSocket::bind("10.9.0.1:5000").unwrap();
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    socket
}

fn is_udp(f: &[u8]) -> bool {
    f.len() > 42 && f[12..14] == [8, 0] && f[23] == 17
}

#[test]
fn unfinished_checksums_are_marked_and_completed() {
    for vnet_hdr in [false, true] {
        with_veth("unfinished", 1, move || {
            let kernel = kernel_on_far();
            let p = pool(64);
            let mut near = open(PacketConfig { vnet_hdr, ..PacketConfig::new(NEAR) }, &p);
            kernel.send_to(b"hello", "10.9.0.2:6000").unwrap();
            let mut frame = receive(&mut near, is_udp);
            assert_eq!(frame.checksum(), ChecksumState::Partial { start: 34, offset: 6 });

            // Turned round and sent back with the checksum still unfinished: the kernel takes it.
            let data = frame.data_mut();
            for (a, b, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
                for i in 0..len {
                    data.swap(a + i, b + i);
                }
            }
            assert!(frame.checksum() != ChecksumState::Unknown);
            send(&mut near, frame);
            let mut answer = [0u8; 16];
            let (len, from) = kernel.recv_from(&mut answer).unwrap();
            assert_eq!((&answer[..len], from.to_string().as_str()), (&b"hello"[..], "10.9.0.2:6000"));
        });
    }
}

/// The kernel cuts the outermost tag out of every frame before a packet socket sees it.
#[test]
fn a_tag_that_was_cut_out_is_put_back() {
    with_veth("tagged", 1, || {
        let p = pool(64);
        let mut far = open(PacketConfig { vnet_hdr: true, ..PacketConfig::new(FAR) }, &p);
        let mut plain = open(PacketConfig::new(NEAR), &p);
        let mut virtio = open(PacketConfig { vnet_hdr: true, ..PacketConfig::new(NEAR) }, &p);
        for tag in [[0x81, 0x00, 0x00, 0x05], [0x88, 0xa8, 0xe0, 0x06]] {
            // 10.0.0.1:9 to 10.0.0.2:7, `hi!`, the checksum left at the sum of the pseudo-header.
            let mut bytes = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, 0x77];
            bytes.extend_from_slice(&tag);
            bytes.extend_from_slice(&[
                0x08, 0x00, 0x45, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0xcd, 0x0a,
                0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x02, 0x00, 0x09, 0x00, 0x07, 0x00, 0x0b, 0x14, 0x1f,
                b'h', b'i', b'!',
            ]);
            let mut frame = p.alloc_from(&bytes).unwrap();
            frame.set_checksum(ChecksumState::Partial { start: 38, offset: 6 });
            send(&mut far, frame);
            for port in [&mut plain, &mut virtio] {
                let frame = receive(port, |f| f.len() > 46 && f[16..18] == [8, 0]);
                assert_eq!(frame.data(), bytes);
                assert_eq!(frame.checksum(), ChecksumState::Partial { start: 38, offset: 6 });
            }
        }
        let mut largest = vec![0xa5; 1518];
        largest[..16]
            .copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x77, 0x81, 0, 0, 5]);
        send(&mut far, p.alloc_from(&largest).unwrap());
        assert_eq!(receive(&mut plain, |f| f.len() > 1000).data(), largest);
        assert_eq!(receive(&mut virtio, |f| f.len() > 1000).data(), largest);
    });
}

#[test]
fn a_frame_that_is_to_be_segmented_needs_virtio_headers_and_a_large_chunk() {
    with_veth("segmented", 1, || {
        let kernel = kernel_on_far();
        let segment: i32 = 1000;
        // SAFETY: the option (UDP_SEGMENT of SOL_UDP) takes one int.
        let rc = unsafe {
            libc::setsockopt(
                kernel.as_raw_fd(),
                17,
                103,
                (&raw const segment).cast(),
                size_of::<i32>() as u32,
            )
        };
        assert_eq!(rc, 0);
        let p = pool(64);
        let mut plain = open(PacketConfig::new(NEAR), &p);
        let large = Pool::new(PoolConfig { frames: 16, chunk_len: 65536, ..PoolConfig::default() }).unwrap();
        let mut virtio =
            open(PacketConfig { vnet_hdr: true, rx_ring: 16, ..PacketConfig::new(NEAR) }, &large);
        kernel.send_to(&[0xa5; 5000], "10.9.0.2:6000").unwrap();
        let frame = receive(&mut virtio, is_udp);
        assert_eq!(frame.len(), 42 + 5000);
        assert_eq!(frame.checksum(), ChecksumState::Partial { start: 34, offset: 6 });
        let mut burst = Burst::new();
        eventually("the count", || {
            plain.rx_burst(now(), &mut burst).unwrap();
            plain.counters().drops.get(DropReason::TooLarge) == 1
        });
        assert!(!burst.iter().any(|f| is_udp(f.data())));
    });
}

#[test]
fn what_the_machine_sends_is_left_out_unless_asked_for() {
    with_veth("outgoing", 1, || {
        ip(&["address", "add", "10.9.0.1/24", "dev", NEAR]);
        ip(&["neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", NEAR]);
        let p = pool(64);
        let mut without = open(PacketConfig::new(NEAR), &p);
        let mut with = open(PacketConfig { ignore_outgoing: false, ..PacketConfig::new(NEAR) }, &p);
        let kernel = UdpSocket::bind("10.9.0.1:5000").unwrap();
        kernel.send_to(b"hello", "10.9.0.2:6000").unwrap();
        assert_eq!((count_from(1, &mut with, is_udp), count(&mut without, is_udp)), (1, 0));
    });
}

#[test]
fn nothing_of_other_interfaces_is_received() {
    with_veth("others", 1, || {
        let p = pool(64);
        let mut far = open(PacketConfig::new(FAR), &p);
        ip(&["link", "add", "bw-a", "type", "veth", "peer", "name", "bw-b"]);
        ip(&["link", "set", "bw-a", "up"]);
        ip(&["link", "set", "bw-b", "up"]);
        let mut other = open(PacketConfig::new("bw-a"), &p);
        let bytes = arp_request([1; 4], [2; 4]);
        let mut opened = 0;
        for _ in 0..20 {
            send(&mut other, p.alloc_from(&bytes).unwrap());
            let mut near = open(PacketConfig::new(NEAR), &p);
            opened += count(&mut near, |f| f == bytes);
        }
        assert_eq!((opened, count(&mut far, |f| f == bytes)), (0, 0));
    });
}

#[test]
fn a_frame_that_the_kernel_refuses_holds_up_no_other() {
    for vnet_hdr in [false, true] {
        with_veth("refused", 1, move || {
            let p = pool(64);
            let mut near = open(PacketConfig { vnet_hdr, tx_ring: 8, ..PacketConfig::new(NEAR) }, &p);
            let mut far = open(PacketConfig::new(FAR), &p);
            ip(&["link", "set", NEAR, "mtu", "1000"]);
            let mut burst = Burst::new();
            // Twice round the ring, so that the slots wrap.
            for round in 0..4u8 {
                for (i, len) in [60usize, 1400, 61, 1400, 62, 63].into_iter().enumerate() {
                    let mut frame = p.alloc().unwrap();
                    assert!(frame.set_len(len));
                    frame.data_mut().fill(0xa5);
                    frame.data_mut()[12..16].copy_from_slice(&[0x88, 0xb5, round, i as u8]);
                    burst.push(frame).unwrap();
                }
                eventually("sending", || {
                    near.tx_burst(now(), &mut burst).expect("tx_burst");
                    burst.is_empty()
                });
                let mut got = Vec::new();
                eventually("receiving", || {
                    let mut burst = Burst::new();
                    far.rx_burst(now(), &mut burst).expect("rx_burst");
                    got.extend(
                        burst
                            .iter()
                            .filter(|f| f.len() < 1000)
                            .map(|f| (f.len(), f.data()[14], f.data()[15])),
                    );
                    got.len() >= 4
                });
                assert_eq!(got, [(60, round, 0), (61, round, 2), (62, round, 4), (63, round, 5)]);
            }
            if !vnet_hdr {
                assert_eq!(near.counters().drops.get(DropReason::TooLarge), 8);
            }
        });
    }
}

#[test]
fn a_group_shares_the_frames() {
    with_veth("fanout", 1, || {
        let p = pool(256);
        let fanout = Some(Fanout { id: 7, mode: FanoutMode::RoundRobin });
        let mut members: Vec<_> =
            (0..2).map(|_| open(PacketConfig { fanout, ..PacketConfig::new(NEAR) }, &p)).collect();
        let mut far = open(PacketConfig::new(FAR), &p);
        let bytes = arp_request([1; 4], [2; 4]);
        for _ in 0..20 {
            send(&mut far, p.alloc_from(&bytes).unwrap());
        }
        let got: Vec<usize> = members.iter_mut().map(|m| count_from(10, m, |f| f == bytes)).collect();
        assert_eq!(got, [10, 10]);
        assert!(members[0].caps().description.contains("fanout group 7"), "{:?}", members[0]);
    });
}

#[test]
fn an_interface_that_goes_down_is_an_error_and_comes_back() {
    with_veth("down", 1, || {
        let p = pool(64);
        let (mut near, mut far) = (open(PacketConfig::new(NEAR), &p), open(PacketConfig::new(FAR), &p));
        ip(&["link", "set", NEAR, "down"]);
        let mut burst = Burst::new();
        eventually("PortError::Down", || {
            matches!(near.rx_burst(now(), &mut burst), Err(PortError::Down { .. }))
        });
        burst.push(p.alloc_from(&arp_request([1; 4], [2; 4])).unwrap()).unwrap();
        let e = near.tx_burst(now(), &mut burst).unwrap_err().to_string();
        assert!(e.contains("packet:bw-near is down"), "{e}");
        ip(&["link", "set", NEAR, "up"]);
        let bytes = arp_request([3; 4], [4; 4]);
        eventually("the carrier", || {
            let mut burst = Burst::new();
            burst.push(p.alloc_from(&bytes).unwrap()).unwrap();
            let _ = near.tx_burst(now(), &mut burst);
            count(&mut far, |f| f == bytes) > 0
        });
        send(&mut far, p.alloc_from(&bytes).unwrap());
        let _ = receive(&mut near, |f| f == bytes);
    });
}

/// Offers `count` frames and says how many of them are gone, with whatever error that brings.
fn offer(port: &mut PacketPort, pool: &Pool, count: usize) {
    let mut burst = Burst::new();
    for _ in 0..count {
        burst.push(pool.alloc_from(&arp_request([1; 4], [2; 4])).expect("a frame")).expect("room");
        let _ = port.tx_burst(now(), &mut burst);
    }
    // What waits in the caller's burst is the caller's to offer again.
    for _ in 0..count {
        let _ = port.tx_burst(now(), &mut burst);
    }
}

/// Whether a frame like `bytes` is there. What the port says of its link is no matter.
fn arrived(port: &mut PacketPort, bytes: &[u8]) -> bool {
    let mut burst = Burst::new();
    let _ = port.rx_burst(now(), &mut burst);
    burst.iter().any(|f| f.data() == bytes)
}

/// Both ways to send: by a ring, and by calls.
const WAYS: [u32; 2] = [8, 0];

#[test]
fn a_transmit_ring_that_filled_while_the_interface_was_down_works_again() {
    for tx_ring in WAYS {
        with_veth("down_full", 1, move || {
            let p = pool(64);
            let mut near = open(PacketConfig { tx_ring, ..PacketConfig::new(NEAR) }, &p);
            let mut far = open(PacketConfig::new(FAR), &p);
            for round in 0..3u8 {
                let before = near.counters().drops.get(DropReason::PortDown);
                ip(&["link", "set", NEAR, "down"]);
                // More than the ring holds, twice.
                offer(&mut near, &p, 16);
                // All are gone, and counted, and there is nothing to stay awake for.
                assert_eq!(near.counters().drops.get(DropReason::PortDown) - before, 16, "ring {tx_ring}");
                assert!(near.prepare_wait(), "ring {tx_ring}");
                assert_eq!(p.available(), 64);
                ip(&["link", "set", NEAR, "up"]);
                let bytes = arp_request([3; 4], [round; 4]);
                eventually("a frame after the link is up again", || {
                    let mut burst = Burst::new();
                    burst.push(p.alloc_from(&bytes).unwrap()).unwrap();
                    let _ = near.tx_burst(now(), &mut burst);
                    arrived(&mut far, &bytes)
                });
            }
        });
    }
}

/// Without a carrier the device refuses every frame, and the kernel says no more than that its queue is full.
#[test]
fn frames_do_not_wait_for_ever_for_a_carrier() {
    for (tx_ring, qdisc_bypass) in WAYS.into_iter().flat_map(|tx_ring| [(tx_ring, true), (tx_ring, false)]) {
        with_veth("carrier", 1, move || {
            let p = pool(64);
            let mut near = open(PacketConfig { tx_ring, qdisc_bypass, ..PacketConfig::new(NEAR) }, &p);
            let mut far = open(PacketConfig::new(FAR), &p);
            ip(&["link", "set", FAR, "down"]);
            let mut burst = Burst::new();
            for _ in 0..16 {
                burst.push(p.alloc_from(&arp_request([1; 4], [2; 4])).unwrap()).unwrap();
            }
            eventually("frames are given up", || {
                let _ = near.tx_burst(now(), &mut burst);
                let _ = near.rx_burst(now(), &mut Burst::new());
                burst.is_empty() && near.prepare_wait()
            });
            let lost = near.counters().drops.get(DropReason::PortDown);
            // Through the queueing discipline they are the kernel's, which drops them itself.
            assert!(lost == 16 || !qdisc_bypass, "{lost} of 16, ring {tx_ring}");
            // One more burst does not wait once more.
            offer(&mut near, &p, 4);
            ip(&["link", "set", FAR, "up"]);
            let bytes = arp_request([3; 4], [4; 4]);
            eventually(&format!("a frame after the carrier is back, {tx_ring} {qdisc_bypass}"), || {
                let mut burst = Burst::new();
                burst.push(p.alloc_from(&bytes).unwrap()).unwrap();
                let _ = near.tx_burst(now(), &mut burst);
                arrived(&mut far, &bytes)
            });
            assert_eq!(p.available(), 64);
        });
    }
}

#[test]
fn an_interface_that_was_deleted_and_made_again_is_opened_again() {
    for tx_ring in WAYS {
        with_veth("deleted", 1, move || {
            let p = pool(64);
            let fanout = Some(Fanout { id: 9, mode: FanoutMode::RoundRobin });
            let config = PacketConfig { tx_ring, fanout, ..PacketConfig::new(NEAR) };
            let mut members = [open(config.clone(), &p), open(config, &p)];
            let old = members[0].caps().mac;
            ip(&["link", "del", NEAR]);
            offer(&mut members[0], &p, 16);
            for member in &mut members {
                let why = member.reopen().unwrap_err().to_string();
                assert!(why.contains("`bw-near` not found"), "{why}");
                // Closed, it loses what it is given, and sleeps.
                let mut burst = Burst::new();
                assert!(matches!(member.rx_burst(now(), &mut burst), Err(PortError::Down { .. })));
                offer(member, &p, 3);
                assert!(member.prepare_wait() && member.wait_fd().is_some());
            }
            let lost = members[0].counters().drops.get(DropReason::PortDown);
            assert_eq!(lost, 19);
            ip(&["link", "add", NEAR, "mtu", "1400", "type", "veth", "peer", "name", FAR]);
            assert!(members[0].reopen().unwrap_err().to_string().contains("is down"));
            ip(&["link", "set", NEAR, "up"]);
            ip(&["link", "set", FAR, "up"]);
            for member in &mut members {
                member.reopen().unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(member.caps().mtu, 1400);
                assert!(member.caps().mac.is_some() && member.caps().mac != old);
            }
            assert_eq!(members[0].counters().drops.get(DropReason::PortDown), lost, "counters go on");
            let mut far = open(PacketConfig::new(FAR), &p);
            let bytes = arp_request([3; 4], [4; 4]);
            for _ in 0..4 {
                send(&mut far, p.alloc_from(&bytes).unwrap());
            }
            let got: Vec<usize> = members.iter_mut().map(|m| count_from(2, m, |f| f == bytes)).collect();
            assert_eq!(got, [2, 2]);
            send(&mut members[1], p.alloc_from(&bytes).unwrap());
            let _ = receive(&mut far, |f| f == bytes);
            drop(members);
            assert_eq!(p.available(), 64);
        });
    }
}

#[test]
fn an_interface_is_watched_through_all_its_changes() {
    with_veth("watched", 1, || {
        // The kernel tells of a carrier when it gets round to it: that news is old before anything is watched.
        eventually("the carrier", || ip(&["link", "show", "dev", NEAR]).contains("state UP"));
        let mut watch = LinkWatch::new(NEAR).unwrap();
        let first = watch.look().expect("there");
        assert!(first.up && first.mtu == 1500);
        assert!(!has_news(&watch), "nothing has changed");
        ip(&["link", "set", NEAR, "mtu", "1400"]);
        assert!(has_news(&watch));
        assert_eq!(watch.look().map(|i| i.mtu), Some(1400));
        ip(&["link", "set", NEAR, "address", "02:00:00:00:00:77"]);
        assert_eq!(watch.look().and_then(|i| i.mac).map(|m| m.0), Some([2, 0, 0, 0, 0, 0x77]));
        ip(&["link", "set", NEAR, "down"]);
        ip(&["link", "set", NEAR, "name", "bw-other"]);
        let renamed = watch.look().expect("it is still there");
        assert!(!renamed.up && renamed.index == first.index && renamed.name == "bw-other");
        ip(&["link", "set", "bw-other", "name", NEAR]);
        ip(&["link", "del", NEAR]);
        assert!(watch.look().is_none());
        ip(&["link", "add", NEAR, "type", "veth", "peer", "name", FAR]);
        assert!(has_news(&watch));
        let again = watch.look().expect("there again");
        assert!(again.index != first.index && !again.up);
        assert!(!has_news(&watch));
    });
}

fn has_news(watch: &LinkWatch) -> bool {
    let mut poll = libc::pollfd { fd: watch.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure; a time-out of zero does not wait.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

#[test]
fn without_privilege_the_missing_capability_is_named() {
    with_veth("unprivileged", 1, || {
        let p = pool(64);
        common::become_nobody();
        let e = PacketPort::open(PacketConfig::new(NEAR), p.clone()).unwrap_err();
        assert!(matches!(&e, OpenError::NotPermitted { .. }) && e.to_string().contains("CAP_NET_RAW"), "{e}");
    });
}

#[test]
fn refusals_say_what_to_change() {
    with_veth("refusals", 1, || {
        let p = pool(64);
        let refusal = |config: PacketConfig| PacketPort::open(config, p.clone()).unwrap_err().to_string();
        assert!(refusal(PacketConfig::new("bw-neat")).contains("did you mean `bw-near`?"));
        assert!(refusal(PacketConfig { rx_ring: 100, ..PacketConfig::new(NEAR) }).contains("power of two"));
        ip(&["link", "set", NEAR, "mtu", "9000"]);
        let why = refusal(PacketConfig::new(NEAR));
        assert!(why.contains("larger chunk_len") && why.contains("mtu 1902"), "{why}");
        ip(&["link", "set", NEAR, "mtu", "1500", "down"]);
        let why = refusal(PacketConfig::new(NEAR));
        assert!(why.contains("ip link set dev bw-near up"), "{why}");
        let uri = "packet:bw-near?promiscous=1".parse().unwrap();
        let why = PacketPort::from_uri(&uri, p.clone()).unwrap_err().to_string();
        assert!(why.contains("did you mean `promiscuous`?"), "{why}");
        assert_eq!(p.available(), 64);
    });
}
