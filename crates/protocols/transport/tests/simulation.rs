//! The transport in a simulated network: what a message costs when nothing goes wrong.

mod common;
use barewire_sim::LinkConfig;
use barewire_transport::*;
use common::*;

#[test]
fn one_round_trip_connects_and_a_message_crosses() {
    for v6 in [false, true] {
        let mut p = pair(1, LinkConfig::perfect(us(50)), &Config::default());
        let flow = p.connect(true, v6);
        p.a().send(flow, b"hello", 1).unwrap();
        let (start, b) = (p.world.now(), p.b);
        p.world.run_while(secs(1), |w| w.node::<Station>(b).inbox.is_empty()).unwrap_done();
        // Resolution of the address, INIT and ACCEPT, and the message: five one-way trips, no pause between them.
        assert!(p.world.now().since(start) <= us(300), "{}", p.world.now().since(start));
        assert_eq!(p.b().inbox[0].1, b"hello");
        p.run(ms(20));
        assert_eq!(p.a().sent, [(1, true)]);
        p.world.close().unwrap();
    }
}

#[test]
fn the_largest_message_crosses() {
    let mut p = pair(2, LinkConfig::perfect(us(5)), &Config::default());
    for n in [p.a, p.b] {
        let pool = p.world.pool().clone();
        let memory = HeapMemory::new(64 << 20, 64 << 20);
        let mut s = Station::with_memory(if n == p.a { 1 } else { 2 }, pool, Config::default(), memory);
        s.endpoint.listen(PORT, 0, 7).unwrap();
        p.world.restart(n, Box::new(s));
    }
    let (flow, _) = p.open();
    let bytes = message(1, 64 << 20);
    p.a().send(flow, &bytes, 1).unwrap();
    let b = p.b;
    p.world.run_while(secs(60), |w| w.node::<Station>(b).inbox.is_empty()).unwrap_done();
    assert!(p.b().inbox[0].1 == bytes);
    assert_eq!(p.a().count("segments_resent"), 0);
    let now = p.world.now();
    let huge = SendBuf { owner: 0, offset: 0, len: (64 << 20) + 1 };
    assert_eq!(p.a().endpoint.send(now, flow, huge, 2), Err(SendError::TooLarge));
}
