//! Entries are added, changed and taken out at full rate while packets flow at full rate: none is lost, none meets
//! half a write, and a write that has returned is seen by every packet sent afterwards.
//!
//! Each kind of look-up has its scene: longest prefix (two tables that must fit each other), ternary, action selector.
//! A route's entry carries a generation number, from which port and addresses follow. A packet carries the generation
//! that was certainly in force when it was sent; when it comes out, its own must be between that and the newest.

mod common;

use barewire_base::Prng;
use barewire_p4_state::TableAction;
use barewire_switch::control::{ActionCall, NewEntry, Switch, TableWrite};
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::Server;
use common::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// Routes that exist throughout, and are changed.
const STEADY: usize = 64;
/// Routes that exist throughout, under entries that come and go and win while they are there.
const CONTESTED: usize = 64;
/// Routes that come and go.
const COMING: usize = 64;
const ROUTES: usize = STEADY + CONTESTED + COMING;
/// Generations that can be told apart.
const GENERATIONS: u64 = 4096;
/// What an entry that comes and goes says of itself, in place of a generation.
const VISITOR: u64 = GENERATIONS + 1;
/// Packets under way, so that the wires never overflow.
const WINDOW: u64 = 512;
/// Where a packet holds its number, its route, and the generation in force when it was sent.
const SEQ: usize = 48;
const ROUTE: usize = 56;
const SINCE: usize = 64;
const LEN: usize = 80;

/// One program, its entries, and what its packets say.
trait Scene: Sync {
    fn name(&self) -> &'static str;
    fn program(&self) -> &'static str;
    /// Add what all routes need, and every steady and contested route in generation 0.
    fn set_up(&mut self, switch: &Switch);
    /// Bring a route to a generation.
    fn change(&self, switch: &Switch, route: usize, generation: u64);
    /// A batch of writes that take in, change and take out visitors, and what goes with them.
    fn churn(&self, switch: &Switch, prng: &mut Prng, visitors: &mut HashMap<usize, u64>);
    /// The generation (below [`GENERATIONS`]) or [`VISITOR`] that a packet met, checked against itself.
    fn generation(&self, port: u32, packet: &[u8]) -> u64;
    /// Why packets without a route are dropped.
    fn drop_reason(&self) -> &'static str {
        "program_drop"
    }
    /// How many generations its packets tell apart.
    fn apart(&self) -> u64 {
        GENERATIONS
    }
}

fn destination(route: usize) -> u32 {
    0x0a00_0000 + ((route as u32) << 8) + 7
}

fn add_of(
    switch: &Switch,
    table: &str,
    key: Vec<barewire_p4::key::MatchParam>,
    priority: u32,
    action: TableAction,
) -> TableWrite {
    let entry = NewEntry { key, priority, action, ttl_ms: 0, cookie: Vec::new() };
    TableWrite::Add { table: switch.table(table).expect("a table"), entry }
}

/// Take out the visitors that are there and take in those that are not, 32 at a time, all in one batch.
fn swap_visitors(
    switch: &Switch,
    table: &str,
    prng: &mut Prng,
    visitors: &mut HashMap<usize, u64>,
    entry: impl Fn(usize) -> TableWrite,
) {
    let id = switch.table(table).expect("a table");
    let mut chosen: Vec<usize> =
        (0..32).map(|_| STEADY + prng.below((CONTESTED + COMING) as u64) as usize).collect();
    chosen.sort_unstable();
    chosen.dedup();
    let writes = chosen.iter().map(|route| match visitors.get(route) {
        Some(&handle) => TableWrite::Delete { table: id, handle },
        None => entry(*route),
    });
    let results = switch.write_batch(writes.collect());
    for (route, result) in chosen.into_iter().zip(results) {
        let handle = result.expect("a write");
        if visitors.remove(&route).is_none() {
            visitors.insert(route, handle);
        }
    }
}

/// Longest prefix: the route's entry names a next hop and a port, another table gives the next hop's address.
struct Router {
    routes: Vec<u64>,
}

impl Router {
    fn hop(&self, switch: &Switch, generation: u64) -> TableAction {
        call(switch, "ipv4_lpm", "set_next_hop", &[0xc0a8_0000 + generation, 2 + generation % 2])
    }
}

impl Scene for Router {
    fn name(&self) -> &'static str {
        "router"
    }

    fn program(&self) -> &'static str {
        ROUTER
    }

    fn set_up(&mut self, switch: &Switch) {
        for hop in 0..=VISITOR {
            add(
                switch,
                "forward",
                vec![exact(0xc0a8_0000 + hop)],
                0,
                "set_dst_addr",
                &[0x0200_0000_0000 + hop],
            );
        }
        for port in [2, 3] {
            add(switch, "send_frame", vec![exact(port)], 0, "set_src_addr", &[0x0200_0000_ff00 + port]);
        }
        let table = switch.table("ipv4_lpm").expect("a table");
        let route =
            |at| switch.add_entry(table, vec![lpm(destination(at) & !0xff, 24)], 0, self.hop(switch, 0));
        self.routes = (0..STEADY + CONTESTED).map(|at| route(at).expect("a route")).collect();
    }

    fn change(&self, switch: &Switch, route: usize, generation: u64) {
        let table = switch.table("ipv4_lpm").expect("a table");
        switch
            .modify_entry(table, self.routes[route], self.hop(switch, generation % GENERATIONS))
            .expect("a change");
    }

    fn churn(&self, switch: &Switch, prng: &mut Prng, visitors: &mut HashMap<usize, u64>) {
        let visitor = self.hop(switch, VISITOR);
        // More specific than the contested routes; of any length for those that have no other.
        let lengths: Vec<u32> = (0..ROUTES).map(|_| 25 + prng.below(8) as u32).collect();
        swap_visitors(switch, "ipv4_lpm", prng, visitors, |route| {
            let length = lengths[route];
            let prefix = destination(route) & (u32::MAX << (32 - length));
            add_of(switch, "ipv4_lpm", vec![lpm(prefix, length)], 0, visitor.clone())
        });
    }

    fn generation(&self, port: u32, packet: &[u8]) -> u64 {
        let hop = number(&packet[0..6]) - 0x0200_0000_0000;
        assert_eq!(u64::from(port), 2 + hop % 2, "the port of one generation, the address of another");
        assert_eq!(
            number(&packet[6..12]),
            0x0200_0000_ff00 + u64::from(port),
            "the source address is the port's"
        );
        assert_eq!(packet[22], 63, "TTL");
        assert_eq!(barewire_wire::checksum::checksum(&packet[14..34]), 0, "the header's checksum");
        hop
    }
}

/// Ternary with priorities: a rule names the port. Visitors have masks of their own, and win by priority.
struct Filter {
    rules: Vec<u64>,
}

impl Filter {
    const MASKS: [u64; 6] = [0xffff_ffff, 0xffff_ff00, 0x00ff_ff0f, 0xffff_ff07, 0x00ff_ffff, 0xff00_fff7];

    fn key(&self, route: usize, mask: u64) -> Vec<barewire_p4::key::MatchParam> {
        let any = ternary(0, 0);
        vec![any.clone(), ternary(u64::from(destination(route)), mask), ternary(17, 0xff), any.clone(), any]
    }
}

impl Scene for Filter {
    fn name(&self) -> &'static str {
        "filter"
    }

    fn program(&self) -> &'static str {
        ACL
    }

    fn set_up(&mut self, switch: &Switch) {
        add(switch, "pair", vec![exact(1)], 0, "forward", &[511]);
        let rule = |at| add(switch, "rules", self.key(at, 0xffff_ff00), 1000, "permit_to", &[2]);
        self.rules = (0..STEADY + CONTESTED).map(rule).collect();
    }

    fn change(&self, switch: &Switch, route: usize, generation: u64) {
        let table = switch.table("rules").expect("a table");
        let action = call(switch, "rules", "permit_to", &[2 + generation % self.apart()]);
        switch.modify_entry(table, self.rules[route], action).expect("a change");
    }

    fn churn(&self, switch: &Switch, prng: &mut Prng, visitors: &mut HashMap<usize, u64>) {
        let visitor = call(switch, "rules", "permit_to", &[18]);
        let shapes: Vec<(u64, u32)> = (0..ROUTES)
            .map(|_| {
                (Filter::MASKS[prng.below(Filter::MASKS.len() as u64) as usize], 1 + prng.below(900) as u32)
            })
            .collect();
        swap_visitors(switch, "rules", prng, visitors, |route| {
            let (mask, priority) = shapes[route];
            add_of(switch, "rules", self.key(route, mask), priority, visitor.clone())
        });
    }

    fn generation(&self, port: u32, _packet: &[u8]) -> u64 {
        if port == 18 { VISITOR } else { u64::from(port) - 2 }
    }

    fn apart(&self) -> u64 {
        16
    }
}

/// An action selector: a route is a group of two members, which say the same but for a moment; visitors are members.
struct Selector {
    members: Vec<[u32; 2]>,
    groups: Vec<u32>,
    visitor: u32,
}

impl Selector {
    fn hop(&self, switch: &Switch, generation: u64) -> ActionCall {
        let profile = switch.profile("next_hops").expect("a profile");
        let action = switch.action_of_profile(profile, "set_next_hop").expect("an action");
        let addresses = [0x0400_0000_0000 + generation, 0x0200_0000_0000 + generation];
        ActionCall { action, args: args(&[addresses[0], addresses[1], 2 + generation % 2]) }
    }
}

impl Scene for Selector {
    fn name(&self) -> &'static str {
        "selector"
    }

    /// The table has no default action: a miss leaves the packet to port 0.
    fn drop_reason(&self) -> &'static str {
        "unknown_port"
    }

    fn program(&self) -> &'static str {
        ECMP
    }

    fn set_up(&mut self, switch: &Switch) {
        let profile = switch.profile("next_hops").expect("a profile");
        let table = switch.table("ipv4_lpm").expect("a table");
        self.visitor = switch.add_member(profile, self.hop(switch, VISITOR)).expect("a member");
        for route in 0..STEADY + CONTESTED {
            let member = || switch.add_member(profile, self.hop(switch, 0)).expect("a member");
            let members = [member(), member()];
            let group = switch.create_group(profile).expect("a group");
            members
                .iter()
                .for_each(|&m| switch.add_to_group(profile, m, group).expect("a member of the group"));
            self.members.push(members);
            self.groups.push(group);
            let key = vec![lpm(destination(route) & !0xff, 24)];
            switch.add_entry(table, key, 0, TableAction::Group(group)).expect("a route");
        }
    }

    fn change(&self, switch: &Switch, route: usize, generation: u64) {
        let profile = switch.profile("next_hops").expect("a profile");
        for member in self.members[route] {
            let call = self.hop(switch, generation % GENERATIONS);
            switch.modify_member(profile, member, call).expect("a change");
        }
    }

    fn churn(&self, switch: &Switch, prng: &mut Prng, visitors: &mut HashMap<usize, u64>) {
        let profile = switch.profile("next_hops").expect("a profile");
        for _ in 0..16 {
            let route = STEADY + prng.below(CONTESTED as u64) as usize;
            let group = self.groups[route];
            if visitors.remove(&route).is_some() {
                switch.remove_from_group(profile, self.visitor, group).expect("it was there");
            } else {
                switch.add_to_group(profile, self.visitor, group).expect("it was not there");
                visitors.insert(route, 0);
            }
        }
        // Routes that come and go point at the visitor itself.
        let table = switch.table("ipv4_lpm").expect("a table");
        let route = STEADY + CONTESTED + prng.below(COMING as u64) as usize;
        match visitors.remove(&route) {
            Some(handle) => switch.delete_entry(table, handle).expect("it was there"),
            None => {
                let key = vec![lpm(destination(route) & !0xff, 24)];
                let handle = switch.add_entry(table, key, 0, TableAction::Member(self.visitor));
                visitors.insert(route, handle.expect("a route"));
            }
        }
    }

    fn generation(&self, port: u32, packet: &[u8]) -> u64 {
        let hop = number(&packet[0..6]) - 0x0200_0000_0000;
        assert_eq!(u64::from(port), 2 + hop % 2, "the port of one member, the address of another");
        assert_eq!(number(&packet[6..12]), 0x0400_0000_0000 + hop, "two addresses of two generations");
        assert_eq!(packet[22], 63, "TTL");
        hop
    }
}

/// What controller and traffic tell each other.
struct Books {
    /// The newest generation of each route that may be in force, and the newest that certainly is.
    begun: Vec<AtomicU64>,
    done: Vec<AtomicU64>,
    stop: AtomicBool,
}

/// What the traffic saw.
#[derive(Default, Debug)]
struct Seen {
    sent: u64,
    received: u64,
    visitors: u64,
    /// Packets whose generation could be only one.
    certain: u64,
}

fn traffic(scene: &dyn Scene, wires: &mut [(u32, Wire)], books: &Books, seed: u64) -> Seen {
    let mut prng = Prng::new(seed);
    let mut seen = Seen::default();
    // Packets that must arrive: sent so far, arrived so far, by route; and the last number seen by route and port.
    let (mut sent, mut arrived) = (vec![0_u64; ROUTES], vec![0_u64; ROUTES]);
    let mut last: HashMap<(usize, u32), u64> = HashMap::new();
    let mut under_way = 0_u64;
    let mut patience = Patience::new();
    let mut packets: Vec<Vec<u8>> =
        (0..ROUTES).map(|route| udp(0xc0a8_0909, destination(route), (7, route as u16), LEN)).collect();
    let always = |route: usize| route < STEADY + CONTESTED;
    while !books.stop.load(Relaxed) || under_way > 0 {
        let begin = under_way;
        while under_way < WINDOW && !books.stop.load(Relaxed) {
            let route = prng.below(ROUTES as u64) as usize;
            let since = books.done[route].load(SeqCst);
            let packet = &mut packets[route];
            packet[SEQ..SEQ + 8].copy_from_slice(&(sent[route] + 1).to_be_bytes());
            packet[ROUTE..ROUTE + 8].copy_from_slice(&(route as u64).to_be_bytes());
            packet[SINCE..SINCE + 8].copy_from_slice(&since.to_be_bytes());
            if !wires[0].1.send(packet) {
                break;
            }
            sent[route] += 1;
            seen.sent += 1;
            under_way += u64::from(always(route));
        }
        wires[0].1.flush();
        let mut count = 0;
        for (port, wire) in &mut *wires {
            count += wire.receive(|packet| {
                let route = number(&packet[ROUTE..ROUTE + 8]) as usize;
                let since = number(&packet[SINCE..SINCE + 8]);
                let newest = books.begun[route].load(SeqCst);
                let met = scene.generation(*port, packet);
                if met == VISITOR {
                    assert!(route >= STEADY, "a visitor's hop on route {route}, which has none");
                    seen.visitors += 1;
                } else {
                    assert!(always(route), "generation {met} on route {route}, which has none");
                    let apart = scene.apart();
                    let possible = (since..=newest).any(|generation| generation % apart == met);
                    assert!(
                        possible || newest - since >= apart,
                        "route {route} is between generations {since} and {newest}, and the packet met {met}"
                    );
                    seen.certain += u64::from(since == newest);
                }
                assert_eq!(packet.len(), LEN);
                let seq = number(&packet[SEQ..SEQ + 8]);
                let before = last.insert((route, *port), seq).unwrap_or(0);
                assert!(seq > before, "packet {seq} of route {route} came after packet {before}");
                arrived[route] += 1;
                under_way -= u64::from(always(route));
                seen.received += 1;
            });
        }
        if count > 0 || under_way > begin {
            patience = Patience::new();
        } else {
            patience.wait(&format!("{under_way} packets are lost"));
        }
    }
    for route in (0..ROUTES).filter(|route| always(*route)) {
        assert_eq!(arrived[route], sent[route], "packets of route {route}");
    }
    seen
}

fn run(mut scene: impl Scene, outputs: &[u32], kind: EngineKind) {
    let name = format!("update-{}-{kind}", scene.name());
    let seed = seed(0x5eed);
    let mut ports = vec![1];
    ports.extend(outputs);
    let server =
        Server::start(config(&name, &ports, 1024), Some(ready(scene.program(), kind))).expect("a switch");
    let switch = server.switch();
    scene.set_up(switch);
    let zeros = || (0..ROUTES).map(|_| AtomicU64::new(0)).collect();
    let books = Books { begun: zeros(), done: zeros(), stop: AtomicBool::new(false) };
    let (scene, begin) = (&scene, now());
    let end = until(std::time::Duration::from_secs(soak_seconds(2)));
    let mut wires: Vec<(u32, Wire)> =
        ports.iter().map(|&port| (port, Wire::open(&uri(&name, port, 1024)))).collect();
    let (seen, writes) = std::thread::scope(|scope| {
        let controller = scope.spawn(|| {
            let _stop = StopAtEnd(&books.stop);
            let mut prng = Prng::new(seed ^ 1);
            let mut visitors = HashMap::new();
            let mut writes = 0_u64;
            while now() < end && !books.stop.load(Relaxed) {
                for _ in 0..64 {
                    let route = prng.below((STEADY + CONTESTED) as u64) as usize;
                    let generation = books.begun[route].load(SeqCst) + 1;
                    books.begun[route].store(generation, SeqCst);
                    scene.change(switch, route, generation);
                    books.done[route].store(generation, SeqCst);
                }
                scene.churn(switch, &mut prng, &mut visitors);
                writes += 64 + 32;
            }
            writes
        });
        // A wrong packet must end the controller too, or the test would never end.
        let stop = StopAtEnd(&books.stop);
        let seen = traffic(scene, &mut wires, &books, seed);
        drop(stop);
        let writes = controller.join().expect("every write is accepted");
        // Nothing but drops by the program may be missing, once all that is under way has arrived.
        let mut late = 0;
        let patience = Patience::new();
        loop {
            late += wires.iter_mut().map(|(_, wire)| wire.receive(|_| {})).sum::<usize>() as u64;
            let taken = switch.ports().iter().find(|p| p.port == 1).map_or(0, |p| p.rx.packets);
            if taken == seen.sent && seen.received + late + dropped(switch, scene.drop_reason()) == taken {
                break;
            }
            patience.wait(&format!(
                "{seen:?} and {late} late ones, {:?}, {:?}",
                drops(switch),
                switch.ports()
            ));
        }
        (seen, writes)
    });
    for port in switch.ports() {
        assert_eq!((port.rx_dropped, port.tx_dropped), (0, 0), "{port:?}");
    }
    let others: Vec<_> =
        drops(switch).into_iter().filter(|(reason, _)| reason != scene.drop_reason()).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(
        writes > 0
            && seen.received > 0
            && seen.visitors > 0
            && (seen.certain > 0 || kind == EngineKind::Interpreter),
        "{writes} writes, {seen:?}"
    );
    let seconds = (now().as_nanos() - begin.as_nanos()) as f64 / 1e9;
    println!(
        "{name}: {:.0} writes/s, {:.0} packets/s; {seen:?}",
        writes as f64 / seconds,
        seen.received as f64 / seconds
    );
    server.stop().expect("the engine is well");
}

#[test]
fn routes() {
    run(Router { routes: Vec::new() }, &[2, 3], EngineKind::Native);
}

#[test]
fn routes_interpreted() {
    run(Router { routes: Vec::new() }, &[2, 3], EngineKind::Interpreter);
}

#[test]
fn rules() {
    run(Filter { rules: Vec::new() }, &(2..=18).collect::<Vec<u32>>(), EngineKind::Native);
}

#[test]
fn groups() {
    run(Selector { members: Vec::new(), groups: Vec::new(), visitor: 0 }, &[2, 3], EngineKind::Native);
}

/// One thread changes a route, sends a packet over it and looks, again and again, while another floods the switch with
/// writes of its own.
#[test]
fn a_write_that_returned_is_seen_by_the_next_packet() {
    let name = "update-next-packet";
    let mut scene = Router { routes: Vec::new() };
    let server = Server::start(config(name, &[1, 2, 3], 256), Some(ready(ROUTER, EngineKind::Native)))
        .expect("a switch");
    let switch = server.switch();
    scene.set_up(switch);
    let mut wires: Vec<Wire> = (1..=3).map(|port| Wire::open(&uri(name, port, 256))).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let table = switch.table("ipv4_lpm").expect("a table");
            let hop = scene.hop(switch, VISITOR);
            let mut prng = Prng::new(3);
            while !stop.load(Relaxed) {
                let key = vec![lpm(0x1400_0000 + (prng.below(1 << 16) << 8) as u32, 24)];
                // The same route twice is refused.
                if let Ok(handle) = switch.add_entry(table, key, 0, hop.clone())
                    && prng.chance(0.5)
                {
                    switch.delete_entry(table, handle).expect("it is there");
                }
            }
        });
        for generation in 1..3000 {
            let route = generation as usize % STEADY;
            scene.change(switch, route, generation);
            wires[0].send_now(&udp(0xc0a8_0909, destination(route), (7, 7), LEN));
            let port = 2 + (generation % GENERATIONS % 2) as usize;
            let packet = wires[port - 1].next();
            assert_eq!(scene.generation(port as u32, &packet), generation % GENERATIONS);
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(drops(switch), []);
    server.stop().expect("the engine is well");
}
