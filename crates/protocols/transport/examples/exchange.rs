//! Two endpoints in one thread that send each other messages, without a port: to see what the protocol alone costs.
//!
//! `valgrind --tool=callgrind target/release/examples/exchange plain 10000` counts the instructions of ten thousand round trips of
//! 1 KiB; `aes` and `chacha` encrypt them.

use barewire_base::{Duration, Instant};
use barewire_frame::{Pool, PoolConfig};
use barewire_host::{Endpoint as _, Host, HostConfig, Input};
use barewire_transport::security::{Cipher, Peer, PrivateKey};
use barewire_transport::{Config, Endpoint, Event, FlowId, HeapMemory, Security};
use barewire_wire::MacAddr;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

struct End {
    host: Host,
    endpoint: Endpoint<HeapMemory>,
    flow: Option<FlowId>,
    got: u64,
}

fn ip(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

impl End {
    fn new(n: u8, cipher: Option<Cipher>) -> End {
        let mut host = HostConfig::new(MacAddr([2, 0, 0, 0, 0, n]));
        host.ipv4 = vec![([10, 0, 0, n].into(), 24)];
        let security = cipher.map(|cipher| {
            let key = |n| PrivateKey::from_bytes([n; 32]);
            let mut security = Security::new(key(n));
            let name = "the other".to_owned();
            security.trust(Peer { name, key: key(3 - n).public(), addresses: vec![ip(3 - n).into()] });
            security.ciphers = vec![cipher];
            Arc::new(security)
        });
        let config = Config { flows_max: 16, security, ..Config::default() };
        let memory = HeapMemory::new(1 << 20, 1 << 20);
        let endpoint = Endpoint::new(config, memory, [n; 32]).expect("a good configuration");
        End { host: Host::new(host), endpoint, flow: None, got: 0 }
    }

    fn send(&mut self, now: Instant, len: u32) {
        let (Some(flow), Some(buf)) = (self.flow, self.endpoint.memory_mut().reserve(len)) else { return };
        self.endpoint.memory_mut().send_bytes(buf).fill(7);
        self.endpoint.send(now, flow, buf, 1).expect("room");
    }

    fn settle(&mut self, now: Instant, echo: bool) {
        while self.host.poll_event().is_some() {
            self.endpoint.routes_changed(now);
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Received { flow, buf, .. } => {
                    self.got += 1;
                    self.endpoint.release(now, flow, buf);
                    if echo {
                        self.send(now, buf.len);
                    }
                }
                Event::Sent { buf, .. } => {
                    self.endpoint.memory_mut().release_send(buf);
                }
                Event::Connected { flow, .. } | Event::Accepted { flow, .. } => self.flow = Some(flow),
                _ => {}
            }
        }
    }
}

/// Moves frames until nobody has any.
fn shuttle(ends: &mut [End; 2], pool: &Pool, now: &mut Instant) {
    loop {
        let mut moved = false;
        for side in 0..2 {
            *now += Duration::from_micros(2);
            let (one, two) = ends.split_at_mut(1);
            let (from, to) = if side == 0 { (&mut one[0], &mut two[0]) } else { (&mut two[0], &mut one[0]) };
            from.host.handle_timeout(*now);
            from.endpoint.handle_timeout(*now);
            loop {
                let mut frame = pool.alloc().expect("a frame");
                let sent = from.host.poll_transmit(*now, &mut frame)
                    || from.endpoint.poll_transmit(*now, &mut from.host, &mut frame)
                    || from.host.poll_transmit(*now, &mut frame);
                if !sent {
                    break;
                }
                moved = true;
                if let Input::Udp(d) = to.host.handle_frame(*now, &frame) {
                    to.endpoint.handle_datagram(*now, &d, d.payload_mut(&mut frame));
                }
                to.settle(*now, side == 0);
                from.settle(*now, side == 1);
            }
        }
        if !moved {
            return;
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let cipher = match args.next().as_deref() {
        Some("aes") => Some(Cipher::Aes128Gcm),
        Some("chacha") => Some(Cipher::ChaCha20Poly1305),
        _ => None,
    };
    let rounds: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).expect("a pool");
    let mut ends = [End::new(1, cipher), End::new(2, cipher)];
    ends[1].endpoint.listen(888, 0, 0).expect("a free port");
    let mut now = Instant::from_nanos(1_000_000_000);
    let to = SocketAddr::new(ip(2), 888);
    ends[0].endpoint.connect(now, 0, SocketAddr::new(ip(1), 0), to, true, 0).expect("room for a flow");
    shuttle(&mut ends, &pool, &mut now);
    assert!(ends[0].flow.is_some() && ends[1].flow.is_some(), "both ends are connected");
    for _ in 0..rounds {
        ends[0].send(now, 1024);
        shuttle(&mut ends, &pool, &mut now);
    }
    println!("{} round trips", ends[0].got);
}
