//! Labs in virtual time. Nothing here needs a privilege or a clock.

use super::*;
use std::path::Path;

fn pair(link: &str) -> Topology {
    let text = format!(
        "name = \"pair\"\nseed = 5\n[[host]]\nname = \"h1\"\naddresses = [\"10.0.0.1/24\"]\n[[host]]\nname = \
         \"h2\"\naddresses = [\"10.0.0.2/24\"]\n[[link]]\nname = \"wire\"\nends = [\"h1\", \"h2\"]\n{link}"
    );
    Topology::parse(&text, "t.toml", Path::new("")).unwrap()
}

fn many(count: u32, link: &str) -> Topology {
    let text = format!(
        "name = \"many\"\n[[switch]]\nname = \"s1\"\nkind = \"bridge\"\n[[switch]]\nname = \"s2\"\nkind = \
         \"bridge\"\n[[link]]\nends = [\"s1\", \"s2\"]\n{link}[[group]]\nprefix = \"a\"\ncount = {count}\nsubnet = \
         \"10.1.0.0/16\"\nswitch = \"s1\"\n[[host]]\nname = \"b\"\naddresses = [\"10.1.255.1/16\"]\n[[link]]\nends = \
         [\"b\", \"s2\"]\n"
    );
    Topology::parse(&text, "t.toml", Path::new("")).unwrap()
}

#[test]
fn the_round_trip_is_what_the_links_say() {
    let plain = simulate(&pair(""), &Workload::default()).unwrap();
    assert_eq!((plain.hosts, plain.opened, plain.failed), (2, 1, 0));
    // Two wires, no time in hosts: to the nanosecond.
    assert_eq!(plain.times.quantile(0.5).value(), Some(2_000));
    assert_eq!(plain.links, []);
    let text = plain.to_text();
    assert!(
        text.starts_with("simulated: lab pair, seed 5, 2 hosts") && text.contains("(simulated)"),
        "{text}"
    );

    let late = simulate(&pair("both = { delay_us = 500 }\n"), &Workload::default()).unwrap();
    // The delay, and a wire on either side of the link node.
    assert_eq!(late.times.min(), Some(2 * (500_000 + 2_000)));
    assert!((950..1000).contains(&late.completed), "{}", late.completed);
    assert_eq!(late.times.min(), late.times.max());
    assert!(late.links[0].1.forward.received >= late.completed);
}

#[test]
fn a_seed_replays_and_loss_costs_time_and_no_message() {
    let lossy = |seed: u64| {
        let mut topology = pair("both = { delay_us = 100, loss = 0.02, duplicate = 0.01, jitter_us = 20 }\n");
        if seed != 5 {
            topology.links[0].seeds = [seed, seed + 1];
        }
        simulate(&topology, &Workload { window: 4, message_bytes: 3000, ..Workload::default() }).unwrap()
    };
    let (one, two, other) = (lossy(5), lossy(5), lossy(6));
    assert_eq!((one.trace_hash, one.events, one.to_text()), (two.trace_hash, two.events, two.to_text()));
    assert_ne!(one.trace_hash, other.trace_hash);
    let forward = one.links[0].1.forward;
    assert_eq!(forward.received + forward.faults.duplicated, forward.sent + forward.faults.lost);
    let share = forward.faults.lost as f64 / forward.received as f64;
    assert!((0.01..0.03).contains(&share), "{share} of {}", forward.received);
    assert!(one.completed > 1000 && one.failed == 0, "{}", one.to_text());
    assert!(one.times.max() > Some(2 * one.times.min().unwrap()), "{}", one.to_text());
}

#[test]
fn hosts_meet_over_switches() {
    for (pattern, flows) in [(Pattern::Pairs, 4), (Pattern::Ring, 9), (Pattern::Incast, 8)] {
        let workload = Workload { pattern, duration: Duration::from_millis(20), ..Workload::default() };
        let done =
            simulate(&many(8, "both = { rate_bps = 1_000_000_000, delay_us = 10 }\n"), &workload).unwrap();
        assert_eq!((done.opened, done.failed), (flows, 0), "{pattern:?}: {}", done.to_text());
        assert!(done.completed > 100 * flows, "{pattern:?}: {}", done.to_text());
    }
}

fn connections(pattern: Pattern, window: u32, ms: u64) -> Workload {
    let duration = Duration::from_millis(ms);
    Workload { work: Work::Connections, pattern, window, duration, ..Workload::default() }
}

#[test]
fn a_connection_takes_what_the_links_say() {
    // REQ and REP: until it can send there is one round trip, to the nanosecond.
    let plain = simulate(&pair(""), &connections(Pattern::Pairs, 1, 10)).unwrap();
    assert_eq!((plain.times.min(), plain.times.max()), (Some(2_000), Some(2_000)), "{}", plain.to_text());
    assert_eq!((plain.failed, plain.resent), (0, 0));
    // And one to close it.
    assert!((249_000.0..=250_000.0).contains(&plain.rate_per_s), "{}", plain.to_text());
    assert!(plain.completed.abs_diff(2_500) < 20 && plain.opened == plain.completed, "{}", plain.to_text());
    let late = simulate(&pair("both = { delay_us = 500 }\n"), &connections(Pattern::Pairs, 4, 100)).unwrap();
    assert_eq!(late.times.min(), Some(2 * (500_000 + 2_000)));
    assert_eq!(late.times.min(), late.times.max());
    assert!(late.rate_per_s > 1_900.0 && late.rate_per_s < 2_000.0, "{}", late.to_text());
}

#[test]
fn lost_messages_of_the_connection_manager_cost_time_and_replay() {
    let lossy = |seed| {
        let topology = pair("both = { delay_us = 100, loss = 0.02, duplicate = 0.01, jitter_us = 20 }\n");
        simulate(&topology.with_seed(seed), &connections(Pattern::Pairs, 8, 500)).unwrap()
    };
    let (one, two, other) = (lossy(5), lossy(5), lossy(6));
    assert_eq!((one.trace_hash, one.to_text()), (two.trace_hash, two.to_text()));
    assert_ne!(one.trace_hash, other.trace_hash);
    assert!(one.opened > 500 && one.failed == 0 && one.resent > 10, "{}", one.to_text());
    // The first repetition comes after 20 ms.
    assert!(one.times.max() > Some(20_000_000) && one.times.min() >= Some(204_000), "{}", one.to_text());
}

#[test]
fn connections_cross_switches_in_every_pattern() {
    let topology = many(8, "both = { rate_bps = 1_000_000_000, delay_us = 10 }\n");
    for (pattern, clients) in [(Pattern::Pairs, 4), (Pattern::Ring, 9), (Pattern::Incast, 8)] {
        let done = simulate(&topology, &connections(pattern, 2, 20)).unwrap();
        assert_eq!((done.clients, done.failed), (clients, 0), "{pattern:?}: {}", done.to_text());
        assert!(done.completed > 100 * clients as u64, "{pattern:?}: {}", done.to_text());
        assert_eq!(done.opened, done.completed, "{pattern:?}: {}", done.to_text());
    }
    let mut apart = pair("");
    apart.hosts[1].interfaces[0].addresses = vec![("10.9.0.1".parse().unwrap(), 24)];
    let done = simulate(&apart, &connections(Pattern::Pairs, 4, 20)).unwrap();
    assert_eq!((done.opened, done.failed, done.rate_per_s), (0, 1, 0.0), "no way there: told, not hung");
}

#[test]
fn a_thousand_hosts_fit() {
    let workload = Workload { duration: Duration::from_millis(2), ..Workload::default() };
    let done = simulate(&many(1000, ""), &workload).unwrap();
    assert_eq!((done.hosts, done.opened, done.failed), (1001, 500, 0), "{}", done.to_text());
    assert!(done.completed > 10_000, "{}", done.to_text());
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let error =
        |topology: &Topology, workload: Workload| simulate(topology, &workload).unwrap_err().to_string();
    let default = Workload::default;
    assert!(error(&pair(""), Workload { message_bytes: 7, ..default() }).contains("from 8"));
    assert!(error(&pair(""), Workload { window: 0, ..default() }).contains("from 1 to 1024"));
    assert!(error(&pair(""), Workload { duration: Duration::ZERO, ..default() }).contains("zero"));
    // More memory than a machine has is no reason to abort: the product of three numbers that are each in bounds.
    let huge = Workload { message_bytes: 1 << 20, window: 1024, pattern: Pattern::Incast, ..default() };
    let said = error(&many(1000, ""), huge);
    assert!(said.contains("MiB") && said.contains("at most 8192 MiB"), "{said}");
    let said = error(&pair(""), huge);
    assert!(said.contains("at most 8192 MiB"), "two hosts with 2 GiB each way: {said}");
    let mut silent = pair("");
    silent.hosts[0].interfaces[0].addresses.clear();
    assert!(error(&silent, default()).contains("fewer than two hosts"));
    let mut ring = many(2, "");
    let again = ring.links[0].clone();
    ring.links.push(again);
    assert!(error(&ring, default()).contains("ring of switches"));
    // Hosts in different subnets, and nobody who forwards: told, not hung.
    let mut apart = pair("");
    apart.hosts[1].interfaces[0].addresses = vec![("10.9.0.1".parse().unwrap(), 24)];
    let done = simulate(&apart, &default()).unwrap();
    assert_eq!((done.opened, done.failed, done.completed), (0, 1, 0));
}

#[test]
fn progress_is_told_and_changes_nothing_and_ends_it() {
    let workload = Workload { duration: Duration::from_millis(100), ..Workload::default() };
    let mut told = Vec::new();
    let whole = simulate_with(&pair(""), &workload, &mut |done, total, _| {
        told.push((done, total));
        true
    });
    let whole = whole.unwrap();
    assert!(told.len() > 3 && told.is_sorted(), "{told:?}");
    assert!(told.iter().all(|&(done, total)| done <= total && total == 200), "{told:?}");
    assert_eq!(whole.trace_hash, simulate(&pair(""), &workload).unwrap().trace_hash);
    let ended = simulate_with(&pair(""), &workload, &mut |done, _, _| done < 50);
    assert!(matches!(ended, Err(LabError::Interrupted)));
}

#[test]
fn a_server_of_a_thousand_clients_remembers_them_all() {
    let done = simulate(&many(1000, ""), &connections(Pattern::Incast, 2, 1)).unwrap();
    assert_eq!((done.clients, done.failed), (1000, 0), "{}", done.to_text());
    assert!(done.completed > 10_000 && done.notes.is_empty(), "{}", done.to_text());
}
