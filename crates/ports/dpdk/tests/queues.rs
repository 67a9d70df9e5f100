//! Several queues, checksums by the device, and virtual devices that have no other end in this process: `net_tap`, `net_ring`, `net_pcap`.
#![cfg(feature = "dpdk")]

#[path = "../../packet/tests/common/mod.rs"]
mod common;

use barewire_base::DropReason;
use barewire_dpdk::{DpdkConfig, DpdkPort};
use barewire_frame::{Burst, ChecksumState, Pool, PoolConfig, leaked_pools};
use barewire_port::{ChecksumOffload, PcapPacket, PcapReader, PcapWriter, Port, PortError};
use common::{FAR, NEAR, eventually, ip, now, with_veth};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Devices are plugged in one after the other: DPDK's list of them is the process's.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() }).expect("a pool")
}

fn config(device: &str, queues: u16) -> DpdkConfig {
    DpdkConfig { rx_slots: 64, tx_slots: 64, queues, ..DpdkConfig::new(device) }
}

/// The part of a device that has these of two queues.
fn half(device: &str, own: u16) -> DpdkConfig {
    DpdkConfig { own: vec![own], share: true, ..config(device, 2) }
}

fn open(config: DpdkConfig, pool: &Pool) -> DpdkPort {
    let device = config.device.clone();
    DpdkPort::open(config, pool.clone()).unwrap_or_else(|error| panic!("{device}: {error}"))
}

/// A datagram to 10.8.0.1, which is the kernel's, from 10.8.0.2, with the bare sum of the pseudo-header in the place of its checksum.
fn datagram(to_mac: [u8; 6], from_port: u16, to_port: u16, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 8, 0, 2, 10, 8, 0, 1];
    ip[2..4].copy_from_slice(&(20 + len).to_be_bytes());
    let sum = common::checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    let pseudo = [10, 8, 0, 2, 10, 8, 0, 1, 0, 17, (len >> 8) as u8, len as u8];
    let sum = common::checksum(&pseudo).map(|byte| !byte);
    let udp = [from_port.to_be_bytes(), to_port.to_be_bytes(), len.to_be_bytes(), sum].concat();
    [&to_mac[..], &[2, 0, 0, 0, 0, 2, 0x08, 0x00], &ip, &udp, payload].concat()
}

/// Receives for a moment: the UDP source ports of what came, and how often each.
fn sources(port: &mut DpdkPort) -> BTreeMap<u16, usize> {
    let (mut found, mut burst) = (BTreeMap::new(), Burst::new());
    port.rx_burst(now(), &mut burst).unwrap();
    while let Some(frame) = burst.pop() {
        let bytes = frame.data();
        if bytes.len() >= 42 && bytes[12..14] == [0x08, 0x00] && bytes[23] == 17 {
            *found.entry(u16::from_be_bytes([bytes[34], bytes[35]])).or_default() += 1;
        }
    }
    found
}

fn send(port: &mut DpdkPort, pool: &Pool, bytes: &[u8], checksum: ChecksumState) {
    let mut frame = pool.alloc_from(bytes).unwrap();
    frame.set_checksum(checksum);
    let mut burst = Burst::new();
    assert!(burst.push(frame).is_ok());
    eventually("it is sent", || {
        let _ = port.tx_burst(now(), &mut burst);
        burst.is_empty()
    });
}

/// A device between us and this kernel, which has 10.8.0.1 on it.
fn with_tap(name: &str, test: impl FnOnce(&str) + Send + 'static) {
    let interface = name.to_owned();
    with_veth(name, 1, move || {
        if !std::path::Path::new("/dev/net/tun").exists() {
            return barewire_testing::skip(barewire_testing::Needs::Root, "there is no /dev/net/tun");
        }
        let _turn = alone();
        test(&interface);
    });
}

fn address_the_kernel(interface: &str) {
    ip(&["address", "add", "10.8.0.1/24", "dev", interface]);
    ip(&["link", "set", interface, "up"]);
    let mac = "02:00:00:00:00:02";
    ip(&["neighbour", "add", "10.8.0.2", "lladdr", mac, "dev", interface, "nud", "permanent"]);
}

/// The driver of `net_tap` checks and completes checksums: our port leaves both to it, and this kernel is the judge.
#[test]
fn checksums_are_left_to_a_device_that_does_them() {
    with_tap("bw-tap-sums", |interface| {
        let pool = pool();
        let mut port = open(config(&format!("net_tap0,iface={interface}"), 1), &pool);
        let mac = port.caps().mac.expect("a MAC").0;
        assert_eq!(port.caps().checksum_offload, ChecksumOffload { rx: true, tx: true }, "{port:?}");
        assert!(port.caps().description.contains("completes UDP"), "{port:?}");
        address_the_kernel(interface);
        eventually("the link is up", || port.link_is_up());
        let socket = UdpSocket::bind("10.8.0.1:700").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut bytes = [0; 64];
        // Unmarked, the bare sum is a wrong checksum, and the kernel throws it away; marked, the device completes it.
        let wrong = datagram(mac, 900, 700, b"wrong sum");
        send(&mut port, &pool, &wrong, ChecksumState::Unknown);
        let right = datagram(mac, 900, 700, b"completed");
        send(&mut port, &pool, &right, ChecksumState::Partial { start: 34, offset: 6 });
        let n = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..n], b"completed");
        // Whatever stands in the field is not trusted: the frame may have been given other addresses.
        let mut moved = datagram(mac, 900, 700, b"moved");
        moved[40..42].copy_from_slice(&[0xa5, 0xa5]);
        send(&mut port, &pool, &moved, ChecksumState::Partial { start: 34, offset: 6 });
        let n = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..n], b"moved");
        // What the kernel sends is right, and the device says so.
        socket.send_to(b"from the kernel", "10.8.0.2:900").unwrap();
        let mut burst = Burst::new();
        let mut state = None;
        eventually("it arrives", || {
            port.rx_burst(now(), &mut burst).unwrap();
            while let Some(frame) = burst.pop() {
                if frame.data().ends_with(b"from the kernel") {
                    state = Some(frame.checksum());
                }
            }
            state.is_some()
        });
        assert_eq!(state, Some(ChecksumState::Verified));
        drop(port);
        assert_eq!(pool.available(), 1024);
    });
    assert_eq!(leaked_pools(), 0);
}

/// One port with all queues of a device; then two with one each, in one thread.
#[test]
fn every_flow_arrives_once_whichever_queue_it_comes_in_on() {
    const FLOWS: u16 = 64;
    with_tap("bw-tap-queues", |interface| {
        let device = |n| format!("net_tap{n},iface={interface}");
        let send_all = || {
            for port in 0..FLOWS {
                let socket = UdpSocket::bind(("10.8.0.1", 2000 + port)).unwrap();
                socket.send_to(b"hello", "10.8.0.2:900").unwrap();
            }
        };
        let all: BTreeMap<u16, usize> = (0..FLOWS).map(|port| (2000 + port, 1)).collect();
        {
            let pool = pool();
            let mut port = open(config(&device(1), 2), &pool);
            assert_eq!(port.caps().queues, 2);
            address_the_kernel(interface);
            eventually("the link is up", || port.link_is_up());
            send_all();
            let mut found = BTreeMap::new();
            eventually("each flow's frame is received", || {
                sources(&mut port).into_iter().for_each(|(from, n)| *found.entry(from).or_insert(0) += n);
                found.len() == all.len()
            });
            assert_eq!(found, all);
        }
        let pools = [pool(), pool()];
        let mut first = open(half(&device(2), 0), &pools[0]);
        let mut burst = Burst::new();
        assert!(!first.runs() && first.rx_burst(now(), &mut burst).unwrap() == 0);
        let mut second = open(half(&device(2), 1), &pools[1]);
        assert!(first.runs() && second.runs());
        assert_eq!((first.caps().queues, second.caps().queues), (1, 1));
        address_the_kernel(interface);
        eventually("the link is up", || first.link_is_up() && second.link_is_up());
        send_all();
        let mut found = [BTreeMap::new(), BTreeMap::new()];
        eventually("each flow's frame is received on one of them", || {
            for (port, found) in [&mut first, &mut second].into_iter().zip(&mut found) {
                sources(port).into_iter().for_each(|(from, n)| *found.entry(from).or_insert(0) += n);
            }
            found[0].len() + found[1].len() >= all.len()
        });
        assert!(!found[0].is_empty() && !found[1].is_empty(), "the kernel deals by flow: {found:?}");
        let [mut both, rest] = found;
        both.extend(rest);
        assert_eq!(both, all);
        // Both send, each on a queue of its own.
        let mac = first.caps().mac.expect("a MAC").0;
        let socket = UdpSocket::bind("10.8.0.1:700").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        for (port, pool, word) in [(&mut first, &pools[0], b"first."), (&mut second, &pools[1], b"second")] {
            let bytes = datagram(mac, 900, 700, word);
            send(port, pool, &bytes, ChecksumState::Partial { start: 34, offset: 6 });
            let mut heard = [0; 6];
            assert_eq!(socket.recv(&mut heard).unwrap(), 6);
            assert_eq!(&heard, word);
        }
        drop((first, second));
        assert!(pools.iter().all(|pool| pool.available() == 1024));
    });
    assert_eq!(leaked_pools(), 0);
}

/// Packet sockets deal by a hash, too: two threads, each with a queue, a port and a pool of its own.
#[test]
fn threads_share_a_device_and_each_has_its_flows() {
    const FLOWS: u16 = 64;
    with_veth("dpdk_shared_sockets", 1, || {
        let _turn = alone();
        let device = format!("net_af_packet70,iface={NEAR}");
        let far_pool = pool();
        let mut far = open(config(&format!("net_af_packet71,iface={FAR}"), 1), &far_pool);
        let (say, heard) = channel();
        let (ready, go) = channel();
        let end = Arc::new(Barrier::new(2));
        let (first, second) = (half(&device, 0), half(&device, 1));
        let all = std::thread::scope(|scope| {
            for half in [first, second] {
                let (say, ready, together) = (say.clone(), ready.clone(), end.clone());
                // In the namespace of the thread that starts it.
                scope.spawn(move || {
                    let mut port = open(half, &pool());
                    ready.send(()).unwrap();
                    let end = now() + barewire_base::Duration::from_secs(60);
                    let mut quiet = 0;
                    let mut mine = BTreeMap::new();
                    // Until nothing came for a while after something did.
                    while now() < end && (mine.is_empty() || quiet < 2000) {
                        let found = sources(&mut port);
                        quiet = if found.is_empty() { quiet + 1 } else { 0 };
                        found.into_iter().for_each(|(from, n)| *mine.entry(from).or_insert(0) += n);
                        std::thread::sleep(Duration::from_micros(500));
                    }
                    say.send(mine).unwrap();
                    // Nobody closes the device under the other one before it is done.
                    together.wait();
                });
            }
            (0..2).for_each(|_| go.recv().unwrap());
            for n in 0..FLOWS {
                let bytes = datagram([0xff; 6], 3000 + n, 700, b"hello");
                send(&mut far, &far_pool, &bytes, ChecksumState::Unknown);
            }
            let mut all = BTreeMap::new();
            for _ in 0..2 {
                let mine: BTreeMap<u16, usize> = heard.recv().unwrap();
                assert!(!mine.is_empty(), "one queue has all flows");
                mine.into_iter().for_each(|(from, n)| *all.entry(from).or_insert(0) += n);
            }
            all
        });
        assert_eq!(all, (0..FLOWS).map(|n| (3000 + n, 1)).collect());
        drop(far);
    });
    assert_eq!(leaked_pools(), 0);
}

/// When one port of a shared device goes, the others are told, and it runs again once all of them are open again.
#[test]
fn a_shared_device_goes_with_any_of_its_ports_and_comes_back() {
    let _turn = alone();
    let pools = [pool(), pool()];
    let mut burst = Burst::new();
    let mut first = open(half("net_null40,size=64", 0), &pools[0]);
    assert!(!first.runs() && !first.link_is_up());
    // Before it runs nothing comes, and what is to be sent waits.
    assert_eq!(first.rx_burst(now(), &mut burst).unwrap(), 0);
    assert!(burst.push(pools[0].alloc_from(&[2; 60]).unwrap()).is_ok());
    assert_eq!((first.tx_burst(now(), &mut burst).unwrap(), burst.len()), (0, 1));
    let refused = |config, pool: &Pool| DpdkPort::open(config, pool.clone()).unwrap_err().to_string();
    let said = refused(half("net_null40,size=64", 0), &pools[1]);
    assert!(said.contains("queue 0 is another port's"), "{said}");
    let said = refused(DpdkConfig { rx_slots: 128, ..half("net_null40,size=64", 1) }, &pools[1]);
    assert!(said.contains("agree on `queues`, `rx`"), "{said}");
    let said = refused(config("net_null40,size=64", 2), &pools[1]);
    assert!(said.contains("`share=1`"), "{said}");
    assert_eq!(pools[1].available(), 1024);
    let second = open(half("net_null40,size=64", 1), &pools[1]);
    assert!(first.runs() && second.runs());
    assert_eq!(first.tx_burst(now(), &mut burst).unwrap(), 1);
    assert_eq!(first.rx_burst(now(), &mut burst).unwrap(), 32);
    burst.clear();
    drop(second);
    assert_eq!(pools[1].available(), 1024);
    assert!(matches!(first.rx_burst(now(), &mut burst), Err(PortError::Down { .. })));
    assert!(!first.link_is_up());
    first.reopen().unwrap();
    assert!(!first.runs());
    let mut second = open(half("net_null40,size=64", 1), &pools[1]);
    for port in [&mut first, &mut second] {
        assert_eq!(port.rx_burst(now(), &mut burst).unwrap(), 32);
        burst.clear();
    }
    drop((first, second));
    assert!(pools.iter().all(|pool| pool.available() == 1024));
}

/// One port closes again and again while the other is in the middle of its bursts.
#[test]
fn a_device_is_never_closed_under_a_burst() {
    let _turn = alone();
    const ROUNDS: usize = 20;
    let (say, done) = channel();
    let steady = std::thread::spawn(move || {
        let pool = pool();
        let mut port = open(half("net_null41,size=64", 0), &pool);
        let (mut burst, mut received, mut downs) = (Burst::new(), 0, 0);
        while done.try_recv().is_err() {
            match port.rx_burst(now(), &mut burst) {
                Ok(n) => received += n,
                Err(_) => {
                    downs += 1;
                    while port.reopen().is_err() {
                        std::thread::yield_now();
                    }
                }
            }
            let _ = port.tx_burst(now(), &mut burst);
            burst.clear();
        }
        drop(port);
        assert_eq!(pool.available(), 1024);
        (received, downs)
    });
    let pool = pool();
    let mut burst = Burst::new();
    for _ in 0..ROUNDS {
        let mut port = None;
        eventually("the other one has noticed, and gave its part up", || {
            port = DpdkPort::open(half("net_null41,size=64", 1), pool.clone()).ok();
            port.is_some()
        });
        let mut port = port.unwrap();
        let mut received = 0;
        eventually("it receives", || {
            received += port.rx_burst(now(), &mut burst).unwrap_or(0);
            burst.clear();
            received > 100
        });
    }
    say.send(()).unwrap();
    let (received, downs) = steady.join().unwrap();
    assert!(received > 100 && downs >= ROUNDS / 2, "{received} frames, {downs} times down");
    assert_eq!(pool.available(), 1024);
}

#[test]
fn a_device_that_hashes_says_how() {
    let _turn = alone();
    let (one, other) = (pool(), pool());
    let device = "net_null42,size=64";
    assert_eq!(DpdkPort::rss_of(device), None, "it is not open");
    let first = open(half(device, 0), &one);
    assert_eq!(DpdkPort::rss_of(device), None, "it does not run");
    assert!(first.caps().description.contains("queues 0 of 2 by RSS"), "{first:?}");
    let second = open(half(device, 1), &other);
    assert!(second.caps().description.contains("queues 1 of 2 by RSS"), "{second:?}");
    // What it says is what the driver has, of which no more is known here than that it can be read.
    println!("net_null says: {:?}", DpdkPort::rss_of(device));
    drop((first, second));
    let alone = open(config("net_null43", 1), &one);
    assert!(!alone.caps().description.contains("queue"), "{alone:?}");
    assert_eq!(alone.caps().checksum_offload, ChecksumOffload::default());
    assert!(alone.caps().description.ends_with("checksums in software"), "{alone:?}");
}

#[test]
fn more_queues_than_there_are_is_said() {
    let _turn = alone();
    let pool = pool();
    let said = DpdkPort::open(DpdkConfig { rx_slots: 32, ..config("net_ring0", 20) }, pool.clone());
    let said = said.unwrap_err().to_string();
    assert!(said.contains("`queues=20`, and the device has 16 to receive and 16 to send"), "{said}");
    // And nothing of it is left: it can be opened with fewer.
    drop(open(config("net_ring0", 2), &pool));
    assert_eq!(pool.available(), 1024);
}

/// What is sent into a ring comes out of it, in the same chunk.
#[test]
fn rings_give_back_what_was_sent() {
    let _turn = alone();
    let pool = pool();
    for queues in [1, 4] {
        let mut port = open(config("net_ring1", queues), &pool);
        let mut heard = Vec::new();
        let mut burst = Burst::new();
        for n in 0..200u8 {
            send(&mut port, &pool, &[n; 100], ChecksumState::Unknown);
            port.rx_burst(now(), &mut burst).unwrap();
            while let Some(frame) = burst.pop() {
                assert_eq!(frame.data(), [heard.len() as u8; 100]);
                heard.push(frame.data()[0]);
            }
        }
        assert_eq!(heard, (0..200).collect::<Vec<u8>>());
        assert_eq!(port.counters().drops.get(DropReason::TooLarge), 0);
        drop(port);
        assert_eq!(pool.available(), 1024);
    }
}

#[test]
fn captures_are_read_and_written() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut writer = PcapWriter::create(&path("in.pcap")).unwrap();
    for n in 0..10u8 {
        writer.write(now().as_nanos(), &[n; 80]).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let pool = pool();
    let device =
        format!("net_pcap0,rx_pcap={},tx_pcap={}", path("in.pcap").display(), path("out.pcap").display());
    let mut port = open(config(&device, 1), &pool);
    let (mut burst, mut count) = (Burst::new(), 0u8);
    eventually("all are read", || {
        port.rx_burst(now(), &mut burst).unwrap();
        while let Some(frame) = burst.pop() {
            assert_eq!(frame.data(), [count; 80]);
            count += 1;
        }
        count == 10
    });
    for n in 0..5u8 {
        send(&mut port, &pool, &[n; 70], ChecksumState::Unknown);
    }
    drop(port);
    assert_eq!(pool.available(), 1024);
    let mut reader = PcapReader::open(&path("out.pcap")).unwrap();
    let mut lengths = Vec::new();
    while let Some(PcapPacket { data, .. }) = reader.next_packet().unwrap() {
        assert_eq!(data, [lengths.len() as u8; 70]);
        lengths.push(data.len());
    }
    assert_eq!(lengths, [70; 5]);
}
