//! Frames that are left whole: two hosts talk through a loop that moves frames from one port to another. Needs root, and
//! says so when it is not.

mod common;

use barewire_base::{DropReason, Instant, Prng};
use barewire_frame::{Burst, ChecksumState, Gso, GsoKind, Pool, PoolConfig};
use barewire_packet::{PacketConfig, PacketPort};
use barewire_port::{GsoConfig, GsoPort, OpenError, Port};
use common::{ENDS, Host, PATIENCE, SIDES, eventually, now, offloads, with_switch};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, TryRecvError};

const STREAM_LEN: usize = 24 << 20;
/// Not a divisor of anything in sight, so that bytes that went astray are seen.
const PATTERN_LEN: usize = 100_003;

fn pool(frames: u32) -> Pool {
    let config = PoolConfig { frames, chunk_len: 65536, ..PoolConfig::default() };
    Pool::new(config).expect("a pool")
}

fn pattern() -> Vec<u8> {
    let mut out = vec![0; PATTERN_LEN];
    Prng::new(7).fill(&mut out);
    out
}

/// Ports on both sides, and what passed between them.
struct Loop {
    ports: Vec<PacketPort>,
    bursts: [Burst; 2],
    larger_than_mtu: u64,
    forwarded: u64,
    unmarked: u64,
}

impl Loop {
    fn new(config: impl Fn(&str) -> PacketConfig, pool: &Pool) -> Loop {
        let open =
            |side: &&str| PacketPort::open(config(side), pool.clone()).unwrap_or_else(|e| panic!("{e}"));
        Loop {
            ports: SIDES.iter().map(open).collect(),
            bursts: [Burst::new(), Burst::new()],
            larger_than_mtu: 0,
            forwarded: 0,
            unmarked: 0,
        }
    }

    fn step(&mut self, now: Instant) -> usize {
        let mut moved = 0;
        for from in 0..2 {
            let burst = &mut self.bursts[from];
            let got = self.ports[from].rx_burst(now, burst).expect("rx_burst");
            for frame in burst.iter() {
                let large = frame.len() > 1514;
                self.larger_than_mtu += u64::from(large);
                self.unmarked += u64::from(large && frame.gso().is_none());
            }
            self.forwarded += got as u64;
            if !burst.is_empty() {
                moved += self.ports[1 - from].tx_burst(now, burst).expect("tx_burst");
            }
        }
        moved
    }

    /// Moves frames until `done` has a value.
    fn until<T>(&mut self, done: &Receiver<T>) -> T {
        let end = now() + barewire_base::Duration::from_secs(300);
        loop {
            if self.step(now()) == 0 {
                match done.try_recv() {
                    Ok(value) => return value,
                    Err(TryRecvError::Disconnected) => panic!("a host's job panicked"),
                    Err(TryRecvError::Empty) => std::thread::yield_now(),
                }
                assert!(now() < end, "not within five minutes: {} forwarded", self.forwarded);
            }
        }
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.ports.iter().map(|p| p.counters().drops.get(reason)).sum()
    }
}

/// Sends `STREAM_LEN` bytes from the first host to the second through `forward` and compares them.
fn stream(hosts: &[Host; 2], to: IpAddr, forward: &mut Loop) {
    let listener = hosts[1].run(move || TcpListener::bind((to, 0)).expect("listening"));
    let address = listener.local_addr().expect("bound");
    let received = hosts[1].start(move || {
        let (mut socket, _) = listener.accept().expect("accepted");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let (expected, mut buffer, mut at) = (pattern().repeat(2), vec![0; PATTERN_LEN], 0);
        loop {
            let n = socket.read(&mut buffer).expect("data");
            if n == 0 {
                return at;
            }
            let from = at % PATTERN_LEN;
            assert!(buffer[..n] == expected[from..from + n], "other bytes after {at}");
            at += n;
        }
    });
    let sent = hosts[0].start(move || {
        let mut socket = TcpStream::connect_timeout(&address, PATIENCE).expect("connected");
        let bytes = pattern();
        let mut left = STREAM_LEN;
        while left > 0 {
            let n = left.min(bytes.len());
            socket.write_all(&bytes[..n]).expect("sent");
            left -= n;
        }
    });
    forward.until(&sent);
    assert_eq!(forward.until(&received), STREAM_LEN);
}

/// TCP and UDP segments that this thread's namespace received with a wrong checksum.
fn checksum_errors() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
    let mut sum = 0;
    for kind in ["Tcp:", "Udp:"] {
        let lines: Vec<&str> = text.lines().filter(|l| l.starts_with(kind)).collect();
        let at = lines[0].split_whitespace().position(|w| w == "InCsumErrors").expect("the counter");
        sum += lines[1].split_whitespace().nth(at).and_then(|w| w.parse::<u64>().ok()).expect("a number");
    }
    sum
}

fn tcp_passes_whole(name: &'static str, to: &'static str, change: fn(&mut PacketConfig)) {
    with_switch(name, move |hosts| {
        let p = pool(512);
        let config = |side: &str| {
            let mut config = PacketConfig::with_gso(side);
            change(&mut config);
            config
        };
        let mut forward = Loop::new(config, &p);
        stream(&hosts, to.parse().unwrap(), &mut forward);
        // A host whose card cuts nothing and checks everything: the kernel cuts and finishes what leaves towards it.
        let [near, far] = [SIDES[1], ENDS[1]];
        let all = ["tx", "off", "sg", "off", "tso", "off", "gso", "off"];
        if offloads(near, &all) && hosts[1].run(move || offloads(far, &["rx", "off", "gro", "off"])) {
            stream(&hosts, to.parse().unwrap(), &mut forward);
        }
        assert_eq!(hosts[1].run(checksum_errors), 0);
        assert!(forward.larger_than_mtu > 100, "{} of {}", forward.larger_than_mtu, forward.forwarded);
        assert_eq!((forward.unmarked, forward.drops(DropReason::TooLarge)), (0, 0));
        let packets = STREAM_LEN as u64 / 1448;
        assert!(forward.forwarded < packets, "{} frames: nothing was saved", forward.forwarded);
        drop(forward);
        assert_eq!(p.available(), 512);
    });
}

#[test]
fn tcp4_passes_whole() {
    tcp_passes_whole("tcp4", "10.9.0.2", |_| {});
}

#[test]
fn tcp6_passes_whole() {
    tcp_passes_whole("tcp6", "fd09::2", |_| {});
}

#[test]
fn tcp_passes_whole_through_rings() {
    tcp_passes_whole("rings", "10.9.0.2", |c| (c.rx_ring, c.tx_ring) = (256, 64));
}

#[test]
fn tcp_passes_in_pieces_where_nothing_is_left_whole() {
    with_switch("pieces", |hosts| {
        let p = Pool::new(PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
        for calls in [false, true] {
            let end = ENDS[0];
            if !hosts[0].run(move || offloads(end, &["tso", "off", "gso", "off"])) {
                return;
            }
            let config = |side: &str| match calls {
                true => PacketConfig { rx_ring: 0, tx_ring: 0, ..PacketConfig::new(side) },
                false => PacketConfig::new(side),
            };
            let mut forward = Loop::new(config, &p);
            stream(&hosts, "10.9.0.2".parse().unwrap(), &mut forward);
            assert_eq!((forward.larger_than_mtu, forward.drops(DropReason::TooLarge)), (0, 0));
            drop(forward);
            assert_eq!(p.available(), 512);
        }
    });
}

fn udp_pieces(socket: &UdpSocket, size: i32) {
    // SAFETY: the option (UDP_SEGMENT of SOL_UDP) takes one int.
    let rc = unsafe {
        libc::setsockopt(socket.as_raw_fd(), 17, 103, (&raw const size).cast(), size_of::<i32>() as u32)
    };
    assert_eq!(rc, 0);
}

#[test]
fn udp_passes_whole_and_arrives_in_pieces() {
    with_switch("udp", |hosts| {
        let p = pool(128);
        let mut forward = Loop::new(PacketConfig::with_gso, &p);
        let receiver = hosts[1].run(|| UdpSocket::bind("10.9.0.2:6000").unwrap());
        let received = hosts[1].start(move || {
            receiver.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut sizes, mut buffer, expected) = (Vec::new(), [0; 2048], pattern());
            while sizes.iter().sum::<usize>() < 40_500 {
                let (n, _) = receiver.recv_from(&mut buffer).unwrap();
                let at = sizes.iter().sum::<usize>();
                assert!(buffer[..n] == expected[at..at + n], "other bytes in datagram {}", sizes.len());
                sizes.push(n);
            }
            sizes
        });
        let sent = hosts[0].start(|| {
            let socket = UdpSocket::bind("10.9.0.1:5000").unwrap();
            udp_pieces(&socket, 1000);
            socket.send_to(&pattern()[..40_500], "10.9.0.2:6000").unwrap();
        });
        forward.until(&sent);
        let sizes = forward.until(&received);
        assert_eq!((sizes.len(), sizes[39], sizes[40]), (41, 1000, 500));
        assert_eq!((forward.larger_than_mtu, forward.unmarked), (1, 0));
        assert_eq!(hosts[1].run(checksum_errors), 0);
    });
}

/// UDP from 10.9.0.9:5000 to 10.9.0.1:6000, without a checksum.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let (udp, ip) = (8 + payload.len() as u16, 28 + payload.len() as u16);
    let mut out = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0];
    out.extend_from_slice(&ip.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 9, 10, 9, 0, 1]);
    let check = barewire_wire::checksum::checksum(&out[14..34]);
    out[24..26].copy_from_slice(&check.to_be_bytes());
    out.extend_from_slice(&[0x13, 0x88, 0x17, 0x70]);
    out.extend_from_slice(&udp.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(payload);
    out
}

#[test]
fn joined_datagrams_reach_a_kernel_one_by_one_and_its_own_are_cut() {
    with_switch("joined", |hosts| {
        hosts[0].run(|| {
            common::ip(&["link", "set", ENDS[0], "address", "02:00:00:00:00:01"]);
            common::ip(&["neigh", "add", "10.9.0.9", "lladdr", "02:00:00:00:00:09", "dev", ENDS[0]]);
        });
        let small = Pool::new(PoolConfig { frames: 128, ..PoolConfig::default() }).unwrap();
        let large = GsoPort::<PacketPort>::large_pool().unwrap();
        let inner = PacketPort::open(PacketConfig::with_gso(SIDES[0]), large.clone()).unwrap();
        let mut port = GsoPort::new(inner, GsoConfig::default(), large, small.clone());
        // Whole as far as the socket, and then cut before the wire.
        for cut in [false, true] {
            if cut && !offloads(SIDES[0], &["tx", "off", "sg", "off", "tso", "off", "gso", "off"]) {
                return;
            }
            let receiver = hosts[0].run(|| UdpSocket::bind("10.9.0.1:6000").unwrap());
            let mut burst = Burst::new();
            for number in 0..32 {
                let bytes = datagram(&pattern()[number * 900..][..900]);
                burst.push(small.alloc_from(&bytes).unwrap()).unwrap();
            }
            let calls = port.counters().syscalls.get();
            assert_eq!(port.tx_burst(now(), &mut burst).unwrap(), 32);
            assert_eq!(port.counters().syscalls.get() - calls, 1);
            let socket = hosts[0].run(move || {
                receiver.set_read_timeout(Some(PATIENCE)).unwrap();
                let (expected, mut buffer) = (pattern(), [0; 2048]);
                for number in 0..32 {
                    let (n, from) = receiver.recv_from(&mut buffer).unwrap();
                    assert_eq!(from.to_string(), "10.9.0.9:5000");
                    assert!(buffer[..n] == expected[number * 900..][..900], "datagram {number}, cut {cut}");
                }
                receiver
            });
            hosts[0].run(move || {
                udp_pieces(&socket, 1000);
                socket.send_to(&pattern()[..40_500], "10.9.0.9:5000").unwrap();
            });
            let (mut got, mut sizes, expected) = (0, Vec::new(), pattern());
            eventually("all pieces", || {
                port.rx_burst(now(), &mut burst).unwrap();
                while let Some(frame) = burst.pop() {
                    if frame.data()[12..14] == [8, 0] {
                        let payload = &frame.data()[42..];
                        assert!(payload == &expected[got..got + payload.len()], "piece {}", sizes.len());
                        got += payload.len();
                        sizes.push(payload.len());
                    }
                }
                got == 40_500
            });
            assert_eq!((sizes.len(), sizes[40]), (41, 500));
            assert_eq!(hosts[0].run(checksum_errors), 0);
        }
        drop(port);
        assert_eq!(small.available(), 128);
    });
}

#[test]
fn a_frame_that_is_left_whole_is_marked_and_other_ports_drop_it() {
    with_switch("dropped", |hosts| {
        let p = pool(128);
        let mut whole = PacketPort::open(PacketConfig::with_gso(SIDES[0]), p.clone()).unwrap();
        assert!(whole.caps().description.contains("left whole (GSO)"), "{whole:?}");
        let plain: Vec<PacketConfig> = vec![
            PacketConfig::new(SIDES[1]),
            PacketConfig { vnet_hdr: true, rx_ring: 16, ..PacketConfig::new(SIDES[1]) },
            PacketConfig { rx_ring: 0, tx_ring: 0, ..PacketConfig::new(SIDES[1]) },
        ];
        hosts[0].run(|| {
            common::ip(&["neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", ENDS[0]]);
            let socket = UdpSocket::bind("10.9.0.1:5000").unwrap();
            udp_pieces(&socket, 500);
            // Shorter than the MTU, and still to be cut.
            for _ in 0..3 {
                socket.send_to(&[7; 1200], SocketAddr::from(([10, 9, 0, 2], 6000))).unwrap();
            }
        });
        let mut burst = Burst::new();
        eventually("three frames", || {
            whole.rx_burst(now(), &mut burst).unwrap();
            burst.iter().filter(|f| f.gso().is_some()).count() == 3
        });
        let mut frames = Vec::new();
        while let Some(frame) = burst.pop() {
            frames.extend(frame.gso().is_some().then_some(frame));
        }
        for (frame, config) in frames.into_iter().zip(plain) {
            assert_eq!(frame.gso(), Some(Gso { kind: GsoKind::UdpL4, ecn: false, size: 500 }));
            assert_eq!(frame.checksum(), ChecksumState::Partial { start: 34, offset: 6 });
            assert_eq!(frame.len(), 42 + 1200);
            let mut port = PacketPort::open(config, p.clone()).unwrap();
            burst.push(frame).unwrap();
            assert_eq!(port.tx_burst(now(), &mut burst).unwrap(), 1);
            assert_eq!(port.counters().drops.get(DropReason::TooLarge), 1, "{port:?}");
            assert_eq!(port.counters().tx_frames.get(), 0);
        }
        drop((whole, burst));
        assert_eq!(p.available(), 128);
    });
}

#[test]
fn small_chunks_are_refused() {
    with_switch("small", |_hosts| {
        let p = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
        let uri = format!("packet:{}?gso=1", SIDES[0]).parse().unwrap();
        let e = PacketPort::from_uri(&uri, p).unwrap_err();
        assert!(matches!(&e, OpenError::Unsupported { .. }), "{e}");
        assert!(e.to_string().contains("chunk_len=65536"), "{e}");
    });
}
