//! Receivers that take what they are sent and lie about when, so that their senders take a full queue for an empty path: what that costs
//! an honest flow through the same queue.

mod common;
use barewire_base::Instant;
use barewire_frame::{Frame, PoolConfig};
use barewire_sim::{Direction, LinkConfig, Node, NodeId, World};
use barewire_transport::*;
use barewire_wire::msg::{Header, Kind, flag};
use common::*;

const GIGABIT: u64 = 1_000_000_000;
/// Ethernet, IPv4 and UDP before a packet.
const HEADERS: usize = 14 + 20 + 8;
const UDP_CHECKSUM: usize = 14 + 20 + 6;

/// What a packet's echo becomes; the count is of the packets with one.
type Lie = fn(u64, &mut Header, first: u32);

/// A station that lies to one of its peers.
struct Liar {
    station: Station,
    lie: Lie,
    /// Packets with an echo to that peer, and the first echo.
    echoes: u64,
    first: u32,
}

impl Liar {
    fn twist(&mut self, frame: &mut Frame) {
        let data = frame.data_mut();
        // To host 2, which is lied to.
        if data.len() < HEADERS + 40
            || data[12..14] != [8, 0]
            || data[23] != 17
            || data[30..34] != [10, 0, 0, 2]
        {
            return;
        }
        let len = 14 + usize::from(u16::from_be_bytes([data[16], data[17]]));
        let packet = &mut data[HEADERS..len];
        let Ok(mut header) = Header::parse(packet) else { return };
        if !matches!(header.kind, Kind::Data | Kind::Ack) || header.flags & flag::ECHO == 0 {
            return;
        }
        if self.echoes == 0 {
            self.first = header.echo;
        }
        self.echoes += 1;
        (self.lie)(self.echoes, &mut header, self.first);
        header.emit(packet);
        forge::seal(packet);
        data[UDP_CHECKSUM..UDP_CHECKSUM + 2].fill(0);
    }
}

impl Node for Liar {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.station.handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.station.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        let mut frame = self.station.poll_transmit(now)?;
        self.twist(&mut frame);
        Some(frame)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.station.poll_timeout()
    }
}

struct Outcome {
    /// The honest flow's part of what both had.
    honest: f64,
    /// Packets that the queue had no room for.
    dropped: u64,
}

/// Two senders stream to one host through its link, which has a queue of `queue` bytes; to the first of them it lies.
fn share(queue: u64, lie: Lie) -> Outcome {
    let config = Config { recv_window_bytes: 8 << 20, flows_max: 16, ecn: false, ..Config::default() };
    let mut world = World::with_pool(1, PoolConfig { frames: 16_384, ..PoolConfig::default() }).unwrap();
    world.set_step_limit(u64::MAX);
    let pool = world.pool().clone();
    let mut station = Station::new(1, pool.clone(), config.clone());
    station.endpoint.listen(PORT, 0, 0).unwrap();
    station.keep = false;
    let server = world.add_node(Box::new(Liar { station, lie, echoes: 0, first: 0 }));
    let senders: [NodeId; 2] = [2, 3].map(|n| {
        let memory = HeapMemory::new(1 << 21, 1 << 16);
        world.add_node(Box::new(Station::with_memory(n, pool.clone(), config.clone(), memory)))
    });
    let link = LinkConfig { rate_bps: Some(GIGABIT), queue_bytes: queue, ..LinkConfig::perfect(us(5)) };
    let star = world.star(&[(server, mac(1)), (senders[0], mac(2)), (senders[1], mac(3))], &link);
    let flows = [0, 1].map(|i| connect(&mut world, senders[i], 2 + i as u8, 1, true, false));
    assert_eq!(world.run_for(ms(100)), barewire_sim::Outcome::Done);
    let end = world.now() + secs(2);
    let _ = world.run_while(secs(2), |w| {
        let now = w.now();
        for (sender, flow) in senders.into_iter().zip(flows) {
            while w.node::<Station>(sender).endpoint.messages_under_way() < 12 {
                let s = w.node_mut::<Station>(sender);
                s.now = now;
                s.send(flow, &[0x5a; 50_000], 0).unwrap();
            }
        }
        now < end
    });
    let [lied_to, honest] = senders.map(|s| world.node::<Station>(s).count("bytes_sent") as f64);
    let dropped = world.link_stats(star.links[0], Direction::Reverse).dropped_queue;
    let honest = honest / (honest + lied_to);
    println!("the honest flow had {:.1} %, {dropped} packets were dropped", honest * 100.0);
    Outcome { honest, dropped }
}

#[test]
fn who_echoes_old_stamps_gets_no_more_than_its_share() {
    const LARGE: u64 = 1 << 20;
    const SMALL: u64 = 64 << 10;
    let truth: Lie = |_, _, _| ();
    let first: Lie = |_, header, first| (header.echo, header.echo_delay) = (first, 0);
    let in_turn: Lie = |n, header, first| {
        if n % 8 != 0 {
            (header.echo, header.echo_delay) = (first, 0);
        }
    };
    let silent: Lie = |_, header, _| header.flags &= !flag::ECHO;
    // So old that it is from before the flow.
    let ages: Lie = |_, header, _| (header.echo, header.echo_delay) = (header.echo.wrapping_sub(1 << 29), 0);
    for (name, lie) in
        [("none", truth), ("first", first), ("in turn", in_turn), ("ages", ages), ("silent", silent)]
    {
        for queue in [LARGE, SMALL] {
            print!("{name}, {} KiB: ", queue >> 10);
            let o = share(queue, lie);
            assert!(o.honest >= 0.3, "{name}: {}", o.honest);
            assert!(o.dropped <= 200, "{name}: {}", o.dropped);
        }
    }
}
