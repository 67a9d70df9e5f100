//! A sender and a bottleneck that marks: the queue stays short, the rate falls to that of the link and comes back.

mod common;
use barewire_base::{Duration, Instant};
use barewire_frame::{Frame, Pool};
use barewire_roce::*;
use barewire_sim::{LinkConfig, Node, World};
use common::*;

const LEN: u32 = 64 * 1024;

/// An end that writes without pause while it is told to.
struct Host {
    end: End,
    pool: Pool,
    qpn: Option<Qpn>,
    rkey: u32,
    writes: bool,
    posted: u64,
    done: u64,
}

impl Host {
    fn step(&mut self, now: Instant) {
        while let Some(event) = self.end.ep.poll_event() {
            match event {
                Event::ConnectRequest { conn, .. } => {
                    let init = self.end.init();
                    let qpn = self.end.ep.create_qp(&init).unwrap();
                    self.end.ep.accept(now, conn, qpn, &Terms::default()).unwrap();
                }
                Event::Connected { qpn, .. } => self.qpn = Some(qpn),
                Event::Established { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        for wc in self.end.completions() {
            assert_eq!(wc.status, WcStatus::Success);
            self.done += 1;
        }
        let Some(qpn) = self.qpn.filter(|_| self.writes) else { return };
        while self.posted < self.done + 4 {
            let sge = [self.end.sge(0, LEN as usize)];
            let op = SendOp::Write { addr: BASE, rkey: self.rkey };
            self.end.ep.post_send(qpn, &SendWr::new(1, op, Data::Sges(&sge))).unwrap();
            self.posted += 1;
        }
    }
}

impl Node for Host {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.end.ep.handle_frame(now, frame.data());
        self.step(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.end.ep.handle_timeout(now);
        self.step(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        let mut frame = self.pool.alloc()?;
        assert!(frame.set_len(self.end.ep.frame_len_max()));
        let len = self.end.ep.poll_transmit(now, frame.data_mut())?;
        assert!(frame.set_len(len));
        Some(frame)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.end.ep.poll_timeout()
    }
}

#[test]
fn the_rate_falls_to_the_bottleneck_and_comes_back() {
    let mut world = World::new(1);
    let link_rate_bps = 10_000_000_000;
    let mut hosts = [1, 2].map(|n| {
        let config = Config { link_rate_bps, window_packets: 200, ..config(n) };
        Host {
            end: End::new(config, n),
            pool: world.pool().clone(),
            qpn: None,
            rkey: 0,
            writes: false,
            posted: 0,
            done: 0,
        }
    });
    hosts[0].writes = true;
    hosts[0].rkey = hosts[1].end.mr.rkey;
    hosts[1].end.ep.listen(SERVICE, 1).unwrap();
    let path = hosts[0].end.ep.path(PathSpec::new(mac(2), ip(1), ip(2))).unwrap();
    let init = hosts[0].end.init();
    let qpn = hosts[0].end.ep.create_qp(&init).unwrap();
    hosts[0].end.ep.connect(Instant::ZERO, qpn, &Connect::new(path, SERVICE)).unwrap();
    assert_eq!(hosts[0].end.ep.query_qp(qpn).unwrap().rate_bps, None, "nobody has told it of congestion");
    let [a, b] = hosts;
    let (a, b) = (world.add_node(Box::new(a)), world.add_node(Box::new(b)));
    let bottleneck = LinkConfig {
        delay: Duration::from_micros(5),
        rate_bps: Some(1_000_000_000),
        ecn_threshold_bytes: Some(50_000),
        ..LinkConfig::default()
    };
    let back = LinkConfig { delay: Duration::from_micros(5), ..LinkConfig::default() };
    let link = world.connect_with(a, b, bottleneck, back.clone());
    // It is cut within a millisecond from ten times the bottleneck.
    let _ = world.run_for(Duration::from_millis(10));
    let rate = |world: &World| world.node::<Host>(a).end.ep.query_qp(qpn).unwrap().rate_bps;
    let done = |world: &World| world.node::<Host>(a).done;
    let mut rates = Vec::new();
    let before = done(&world);
    for _ in 0..100 {
        let _ = world.run_for(Duration::from_millis(1));
        rates.push(rate(&world).expect("limited") as f64 / 1e9);
    }
    let goodput = (done(&world) - before) as f64 * f64::from(LEN) * 8.0 / 0.1 / 1e9;
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let counters = world.node::<Host>(a).end.ep.counters();
    println!(
        "rate {mean:.3} Gbit/s of 1, goodput {goodput:.3}, {} notifications",
        counters.cnp_received.get()
    );
    assert!((0.6..1.5).contains(&mean), "{rates:?}");
    assert!(goodput > 0.7, "{goodput}");
    assert!(counters.cnp_received.get() > 10);
    assert_eq!(
        (counters.timeouts.get(), counters.packets_resent.get()),
        (0, 0),
        "it was no loss that slowed it"
    );
    // A queue without reaction would hold the whole window of 200 packets, and mark nearly all.
    let marked = world.node::<Host>(b).end.ep.counters().ecn_marked.get();
    let frames = world.node::<Host>(b).end.ep.counters().rx_frames.get();
    println!("{marked} of {frames} packets marked");
    assert!(marked * 2 < frames, "{marked} of {frames}");

    // The bottleneck opens: it recovers to the rate of the link, and nothing of it is left.
    world.set_link(link, LinkConfig { rate_bps: Some(20_000_000_000), ..back });
    let start = rate(&world).unwrap();
    let mut took = 0;
    while rate(&world).is_some() {
        let _ = world.run_for(Duration::from_millis(1));
        took += 1;
        assert!(took < 1000, "{:?}", rate(&world));
    }
    println!("from {start} bit/s to the rate of the link in {took} ms");
    assert!(took > 1, "not at once");
}
