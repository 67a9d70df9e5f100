//! A machine that stands still for a while, as a virtual machine does that is moved or paused: its clock goes on, and nothing of it runs.
//! Flows come back, or both ends report them closed; either way every message has its fate, and a new flow opens.

mod common;
use barewire_base::Duration;
use barewire_sim::{LinkConfig, Outcome};
use barewire_transport::Config;
use common::*;

/// Who stands still.
#[derive(Clone, Copy, Debug)]
enum Who {
    Client,
    Server,
    Both,
}

/// What goes on meanwhile.
#[derive(Clone, Copy, Debug)]
enum Load {
    Nothing,
    /// The end that runs sends.
    Messages,
}

const MESSAGES: u64 = 20;
/// Longer than any time-out of the defaults, one after the other.
const SETTLES: Duration = Duration::from_secs(60);

/// Whether the flow survived.
fn survives(seed: u64, who: Who, lasts: Duration, load: Load, loss: f64) -> bool {
    let case = format!("seed {seed}, {who:?} for {lasts}, {load:?}, loss {loss}");
    let link = LinkConfig { loss, ..LinkConfig::perfect(us(50)) };
    let mut p = pair(seed, link, &Config::default());
    let (flow, peer) = p.open();
    for id in 1..=MESSAGES {
        p.a().send(flow, &message(id, 10_000), id).unwrap();
        p.b().send(peer, &message(100 + id, 500), 100 + id).unwrap();
    }
    // In the middle of it.
    p.run(us(300));
    let nodes = match who {
        Who::Client => vec![p.a],
        Who::Server => vec![p.b],
        Who::Both => vec![p.a, p.b],
    };
    for node in &nodes {
        p.world.pause_for(*node, lasts);
    }
    let mut extra = [0, 0];
    if matches!(load, Load::Messages) {
        for part in 0..5 {
            assert_eq!(p.world.run_for(lasts.div(6)), Outcome::Done);
            let id = 50 + part;
            // Refused where the flow is closed already.
            match who {
                Who::Server => extra[0] += u64::from(p.a().send(flow, &message(id, 3_000), id).is_ok()),
                Who::Client => extra[1] += u64::from(p.b().send(peer, &message(id, 3_000), id).is_ok()),
                Who::Both => {}
            }
        }
    }
    p.run(lasts + SETTLES);
    let closed = [p.a().closes().len(), p.b().closes().len()];
    assert_eq!(closed[0], closed[1], "{case}: the ends do not agree");
    let alive = closed == [0, 0];
    // Every message has its fate, at the end that sent it.
    let sent = [p.a().sent.clone(), p.b().sent.clone()];
    for (sent, extra) in sent.iter().zip(extra) {
        assert_eq!(sent.len() as u64, MESSAGES + extra, "{case}: {sent:?}");
        assert!(!alive || sent.iter().all(|(_, arrived)| *arrived), "{case}: {sent:?}");
    }
    if alive {
        let received = [p.a().received, p.b().received];
        assert_eq!(received, [MESSAGES + extra[1], MESSAGES + extra[0]], "{case}");
    }
    // What was is no burden on what comes.
    let (next, _) = p.open();
    let before = p.b().received;
    p.a().send(next, &message(200, 10_000), 200).unwrap();
    p.run(ms(5_000));
    assert_eq!(p.b().received, before + 1, "{case}: a new flow");
    let now = p.world.now();
    for id in [Some(next), alive.then_some(flow)].into_iter().flatten() {
        assert!(p.a().endpoint.close(now, id), "{case}");
    }
    p.run(SETTLES);
    p.assert_clean();
    alive
}

fn all(test: impl Fn(u64, Who, Load, f64)) {
    for trust in [None, Some(Trust::Known), Some(Trust::Anywhere)] {
        for (seed, loss) in [(1, 0.0), (2, 0.01), (3, 0.05)] {
            for who in [Who::Client, Who::Server, Who::Both] {
                for load in [Load::Nothing, Load::Messages] {
                    match trust {
                        None => test(seed, who, load, loss),
                        Some(trust) => secured(trust, || test(seed, who, load, loss)),
                    }
                }
            }
        }
    }
}

#[test]
fn a_second_is_survived() {
    all(|seed, who, load, loss| {
        assert!(survives(seed, who, ms(1_000), load, loss), "seed {seed}, {who:?}, {load:?}, loss {loss}");
    });
}

#[test]
fn after_five_seconds_both_ends_agree() {
    all(|seed, who, load, loss| {
        survives(seed, who, secs(5), load, loss);
    });
}

#[test]
fn after_half_a_minute_both_ends_agree() {
    all(|seed, who, load, loss| {
        survives(seed, who, secs(30), load, loss);
    });
}
