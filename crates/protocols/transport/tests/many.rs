//! Ten thousand flows between two endpoints.

mod common;
use barewire_base::Duration;
use barewire_frame::PoolConfig;
use barewire_sim::{LinkConfig, World};
use barewire_transport::*;
use common::*;

const FLOWS: u32 = 10_000;

#[test]
fn ten_thousand_flows_open_talk_rest_and_close() {
    let config = Config {
        flows_max: FLOWS,
        send_messages_max: FLOWS,
        recv_messages_max: FLOWS,
        half_open_max: FLOWS,
        ..Config::default()
    };
    let mut world = World::with_pool(1, PoolConfig { frames: 1 << 16, ..PoolConfig::default() }).unwrap();
    let pool = world.pool().clone();
    let memory = || HeapMemory::new(4 << 20, 4 << 20);
    let a = world.add_node(Box::new(Station::with_memory(1, pool.clone(), config.clone(), memory())));
    // One host gets at most half of what a server keeps for all.
    let config = Config { flows_max: 3 * FLOWS, ..config };
    let mut server = Station::with_memory(2, pool, config, memory());
    server.endpoint.listen(PORT, 0, 0).unwrap();
    let b = world.add_node(Box::new(server));
    world.connect(a, b, LinkConfig::perfect(us(50)));

    let run = |world: &mut World, time| assert_eq!(world.run_for(time), barewire_sim::Outcome::Done);
    // The first one resolves the address.
    let mut flows = vec![connect(&mut world, a, 1, 2, true, false)];
    run(&mut world, ms(1));
    for i in 1..FLOWS {
        flows.push(connect(&mut world, a, 1, 2, true, false));
        if i % 250 == 0 {
            run(&mut world, us(100));
        }
    }
    run(&mut world, ms(50));
    assert_eq!(world.node::<Station>(a).count("flows_connected"), u64::from(FLOWS));
    let accepted: Vec<FlowId> = world
        .node::<Station>(b)
        .events
        .iter()
        .filter_map(|e| match e {
            Event::Accepted { flow, .. } => Some(*flow),
            _ => None,
        })
        .collect();
    assert_eq!(accepted.len(), FLOWS as usize);

    for (node, flows) in [(a, &flows), (b, &accepted)] {
        let now = world.now();
        let s = world.node_mut::<Station>(node);
        s.now = now;
        for (i, flow) in flows.iter().enumerate() {
            s.send(*flow, &(i as u64).to_be_bytes(), i as u64).unwrap();
        }
    }
    run(&mut world, ms(100));
    for node in [a, b] {
        let s = world.node::<Station>(node);
        assert_eq!((s.inbox.len(), s.sent.len()), (FLOWS as usize, FLOWS as usize));
        let mut got: Vec<_> = s.inbox.iter().map(|m| m.1.clone()).collect();
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), FLOWS as usize, "each its own");
    }

    // A minute of rest: keep-alives, and a duty cycle that is not woken for every single flow's far timers.
    let (asked, woken) = (world.node::<Station>(a).count("keepalives_tx"), world.node_stats(a).timeouts);
    run(&mut world, Duration::from_secs(60));
    let s = world.node::<Station>(a);
    assert_eq!(s.endpoint.flows_used(), FLOWS);
    let asked = s.count("keepalives_tx") - asked;
    assert!((10 * u64::from(FLOWS)..=13 * u64::from(FLOWS)).contains(&asked), "{asked}");
    let woken = world.node_stats(a).timeouts - woken;
    assert!(woken < 60_000, "woken {woken} times in a minute of rest");
    assert!(s.closes().is_empty());

    for (i, flow) in flows.iter().enumerate() {
        let now = world.now();
        let s = world.node_mut::<Station>(a);
        assert!(s.endpoint.close(now, *flow));
        if i % 250 == 0 {
            run(&mut world, us(100));
        }
    }
    run(&mut world, ms(300));
    for node in [a, b] {
        let s = world.node::<Station>(node);
        assert_eq!(s.closes().len(), FLOWS as usize);
        assert_idle(s);
    }
    world.close().unwrap();
}
