//! Notifications on their way to controllers.

use super::bounds::{Inbox, heard, primary};
use super::*;
use barewire_switch::control::DigestList as OfSwitch;
use std::sync::mpsc::sync_channel;

fn packet_in() -> Notification {
    Notification::PacketIn { bytes: vec![0; 64] }
}

/// So many packets in.
fn wait_for_packets(inbox: &mut Inbox, count: usize) {
    let mut came = 0;
    for _ in 0..10_000 {
        came += heard(inbox).iter().filter(|update| matches!(update, StreamResponse::Packet(_))).count();
        if came >= count {
            assert_eq!(came, count);
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{came} packets came, {count} were sent");
}

#[test]
fn packets_do_not_wait_for_writes_and_are_read_by_their_own_program() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let engine = Engine::attach(&switch, &ups(&[2, 3]));
    let device = Arc::new(Device::new(switch.clone(), 1, Some(config)).unwrap());
    let (_session, _outbox, mut inbox) = primary(&device);
    let (tell, notifications) = sync_channel(16);
    let stop = Arc::new(AtomicBool::new(false));
    let passing = pass_on(&device, notifications, 16, &stop);
    let (_, first) = switch.running().unwrap();
    {
        // A write that goes on and on.
        let _forwarding = lock(&device.forwarding);
        tell.send((first, Notification::Port { port: 3, up: false })).unwrap();
        tell.send((first, Notification::Idle(switch.table("IngressImpl.exact_table").unwrap(), vec![1])))
            .unwrap();
        tell.send((first, packet_in())).unwrap();
        wait_for_packets(&mut inbox, 1);
        // Another program, which the device cannot look at yet: packets of the one that is known are passed on, those of the
        // other wait.
        switch.commit_prepared(made(|_| {}).0).unwrap();
        let (_, second) = switch.running().unwrap();
        tell.send((second, packet_in())).unwrap();
        tell.send((first, packet_in())).unwrap();
        wait_for_packets(&mut inbox, 1);
    }
    wait_for_packets(&mut inbox, 1);
    let outdated = || device.lost.outdated.load(Ordering::Relaxed);
    let before = outdated();
    tell.send((first, packet_in())).unwrap();
    let (_, second) = switch.running().unwrap();
    tell.send((second, packet_in())).unwrap();
    wait_for_packets(&mut inbox, 1);
    assert_eq!(outdated(), before + 1, "what is of the old program is not read by the new one");
    stop.store(true, Ordering::Relaxed);
    passing.into_iter().for_each(|thread| thread.join().unwrap());
    engine.stop();
}

#[test]
fn lists_that_nobody_remembers_are_acknowledged() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let engine = Engine::attach(&switch, &ups(&[]));
    let device = Arc::new(Device::new(switch.clone(), 1, Some(config)).unwrap());
    let (_, began) = switch.running().unwrap();
    let (tell, notifications) = sync_channel(8192);
    let stop = Arc::new(AtomicBool::new(false));
    let passing = pass_on(&device, notifications, 8192, &stop);
    let list = |buffer| OfSwitch { list: 1, buffer, first_sample: 0, samples: vec![] };
    // Nobody has enabled the digest: so many are remembered, and two more come.
    for buffer in 0..4098 {
        tell.send((began, Notification::Digest(list(buffer)))).unwrap();
    }
    let mut overdue = Vec::new();
    for _ in 0..10_000 {
        while let Some(list) = lock(&device.acks).next_overdue(0) {
            overdue.push(list);
        }
        if overdue.len() >= 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(overdue, [(1, 0), (1, 1)], "the same data may be learned again");
    assert_eq!(lock(&device.unclaimed).len(), 4096);
    stop.store(true, Ordering::Relaxed);
    passing.into_iter().for_each(|thread| thread.join().unwrap());
    engine.stop();
}

#[test]
fn an_acknowledgement_that_the_switch_cannot_take_is_made_later() {
    let (prepared, config) = made(|_| {});
    let config_of_switch = SwitchConfig {
        sweep_interval: Duration::ZERO,
        answer_timeout: Duration::from_millis(5),
        max_pending: 1,
        ..SwitchConfig::default()
    };
    let switch = Switch::new(config_of_switch, Some(prepared)).unwrap();
    let device = Device::new(switch.clone(), 1, Some(config)).unwrap();
    // An engine that has taken nothing yet, not even the program.
    let stalled = switch.attach(Box::new(|| {}));
    let number = device.current().unwrap().pipeline.index.digests.iter().next().unwrap().number;
    assert!(lock(&device.acks).wait(77, 5, number, 100));
    device.acknowledge_overdue(200);
    assert_eq!(lock(&device.acks).take(77, 5), None, "nobody is waited for any more");
    let first = lock(&device.acks).next_overdue(200);
    assert_eq!(first, Some((number, 5)), "it is still to be told");
    lock(&device.acks).put_back(first.unwrap());
    drop(stalled);
    device.acknowledge_overdue(200);
    assert_eq!(lock(&device.acks).next_overdue(200), None);
}
