//! What flows through a switch alone: entries, packets, and what must become of each packet. What must become of it is
//! worked out here, by other means than any switch's, and every row is checked against it.

use super::program::{Kind, RouterWords};
use super::setup::{Call, Match, Step, ip, mac, value};
use crate::error::BenchError;
use barewire_base::Prng;
use std::collections::HashSet;

/// Packets come in here.
pub const IN_PORT: u32 = 1;
/// Packets leave here, and in some programs at [`OTHER_PORT`].
pub const OUT_PORT: u32 = 2;
/// See [`OUT_PORT`].
pub const OTHER_PORT: u32 = 3;
/// Shortest packet that any workload makes: the shortest Ethernet frame, less its FCS.
pub const SIZE_MIN: u32 = 60;
/// Longest packet: what bmv2's own benchmark calls a full one, with a VLAN tag to spare.
pub const SIZE_MAX: u32 = 1518;
/// Distinct packets at least, entries permitting or not: a single flow would flatter every cache.
const FLOWS_MIN: u32 = 1024;
/// Distinct packets at most.
const FLOWS_MAX: u32 = 32_768;
/// Next hops of the routers.
const HOPS: u32 = 16;
/// Ethernet, IPv4 and UDP headers.
const UDP4_LEN: usize = 42;

/// How many distinct masks a ternary table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masks {
    /// So many.
    Some(u32),
    /// Each entry its own.
    All,
}

impl std::str::FromStr for Masks {
    type Err = String;

    fn from_str(text: &str) -> Result<Masks, String> {
        match (text, text.parse::<u32>()) {
            ("all", _) => Ok(Masks::All),
            (_, Ok(n)) if n > 0 => Ok(Masks::Some(n)),
            _ => Err("expected a number above zero, or `all`".to_owned()),
        }
    }
}

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Bytes of a packet, without FCS. Programs with longer headers send longer ones.
    pub size: u32,
    /// Entries of the table that is swept.
    pub entries: u32,
    /// Masks of a ternary table.
    pub masks: Masks,
    /// Distinct packets; `None`: as many as there are entries, within bounds.
    pub flows: Option<u32>,
    /// Seed of all choices.
    pub seed: u64,
}

/// What may become of a packet: it leaves here, with these headers and its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The port.
    pub port: u32,
    /// The headers.
    pub header: Vec<u8>,
}

/// One packet, sent again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its headers; the rest is [`payload_byte`].
    pub header: Vec<u8>,
    /// What may become of it; none: it is dropped.
    pub fates: Vec<Fate>,
}

/// Entries, packets, fates.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What the control plane writes first.
    pub steps: Vec<Step>,
    /// The packets, in the order in which they are sent.
    pub flows: Vec<Flow>,
    /// Bytes of each packet.
    pub size: u32,
    /// Entries of the table that is swept.
    pub entries: u32,
    /// Distinct masks, in a ternary table.
    pub masks: Option<u32>,
    /// Where packets may leave.
    pub out_ports: Vec<u32>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// The payload: byte `at` of a packet.
#[inline]
pub const fn payload_byte(at: usize) -> u8 {
    (at as u8).wrapping_mul(7).wrapping_add(3)
}

impl Workload {
    /// The bytes of a flow's packet.
    pub fn packet(&self, flow: usize) -> Vec<u8> {
        let mut bytes = self.flows[flow].header.clone();
        bytes.extend((bytes.len()..self.size as usize).map(payload_byte));
        bytes
    }

    /// Whether `bytes`, which left at `port`, is what had to become of `flow`; else why not.
    ///
    /// # Errors
    /// In words, with the first byte that differs.
    pub fn check(&self, flow: usize, port: u32, bytes: &[u8]) -> Result<(), String> {
        let sent = &self.flows[flow];
        let payload = sent.header.len()..self.size as usize;
        let fits = |fate: &Fate| {
            fate.port == port
                && bytes.len() == fate.header.len() + payload.len()
                && bytes.starts_with(&fate.header)
                && bytes[fate.header.len()..]
                    .iter()
                    .zip(payload.clone())
                    .all(|(&b, at)| b == payload_byte(at))
        };
        if sent.fates.iter().any(fits) {
            return Ok(());
        }
        let Some(fate) = sent.fates.iter().find(|f| f.port == port).or(sent.fates.first()) else {
            return Err(format!("packet {flow} left at port {port} and had to be dropped"));
        };
        if fate.port != port {
            return Err(format!("packet {flow} left at port {port} and not at {}", fate.port));
        }
        let expected = fate.header.iter().copied().chain(payload.map(payload_byte));
        match expected.clone().zip(bytes).position(|(a, &b)| a != b) {
            Some(at) => Err(format!(
                "byte {at} of packet {flow} is {:#04x} and not {:#04x}",
                bytes[at],
                expected.clone().nth(at).unwrap_or_default()
            )),
            None => Err(format!("packet {flow} has {} bytes and not {}", bytes.len(), expected.count())),
        }
    }

    /// Makes the workload of `kind`.
    ///
    /// # Errors
    /// [`BenchError::Plan`] for a size or a number that cannot be had.
    pub fn make(kind: Kind, spec: &Spec) -> Result<Workload, BenchError> {
        if !(SIZE_MIN..=SIZE_MAX).contains(&spec.size) {
            return Err(BenchError::Plan(format!(
                "packets of {} bytes: {SIZE_MIN} to {SIZE_MAX} are possible",
                spec.size
            )));
        }
        if spec.entries == 0 || spec.flows == Some(0) {
            return Err(BenchError::Plan("at least one entry and one flow are needed".to_owned()));
        }
        let limit = match kind {
            Kind::Router(_) => 1 << 20,
            _ => 65_536,
        };
        if spec.entries > limit {
            return Err(BenchError::Plan(format!(
                "{} entries: the program has room for {limit}",
                spec.entries
            )));
        }
        let flows = spec.flows.unwrap_or_else(|| spec.entries.clamp(FLOWS_MIN, FLOWS_MAX));
        let mut made = match kind {
            Kind::Router(words) => router(words, spec, flows),
            Kind::Ecmp => ecmp(spec, flows),
            Kind::Acl => acl(spec, flows)?,
            Kind::ManyTables => many_tables(spec, flows),
            Kind::DeepHeaders => deep_headers(spec, flows),
        };
        let longest = made.flows.iter().map(|f| f.header.len()).max().unwrap_or(0) as u32;
        made.entries = spec.entries;
        made.size = spec.size.max(longest);
        if made.size > spec.size {
            made.notes.push(format!("{} B asked for: the headers alone have {longest}", spec.size));
        }
        Ok(made)
    }
}

fn blank() -> Workload {
    Workload {
        steps: Vec::new(),
        flows: Vec::new(),
        size: 0,
        entries: 0,
        masks: None,
        out_ports: vec![OUT_PORT],
        notes: Vec::new(),
    }
}

fn entry(
    table: impl Into<String>,
    key: Vec<Match>,
    action: &'static str,
    args: &[super::setup::Value],
) -> Step {
    Step::Entry { table: table.into(), key, priority: None, call: Call { action, args: args.to_vec() } }
}

/// The one's complement sum of RFC 1071, the slow way.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn ethernet(dst: u64, src: u64, ether_type: u16) -> Vec<u8> {
    [&dst.to_be_bytes()[2..], &src.to_be_bytes()[2..], &ether_type.to_be_bytes()].concat()
}

/// Addresses and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tuple {
    src: u32,
    dst: u32,
    protocol: u8,
    src_port: u16,
    dst_port: u16,
}

/// Ethernet, IPv4 and UDP (or what begins like it) headers of a packet of `size` bytes.
fn udp4(dst_mac: u64, src_mac: u64, t: Tuple, ttl: u8, size: u32) -> Vec<u8> {
    let mut bytes = ethernet(dst_mac, src_mac, 0x0800);
    let total = size as u16 - 14;
    let mut ipv4 = vec![0x45, 0];
    ipv4.extend(total.to_be_bytes());
    ipv4.extend([0, 0, 0x40, 0, ttl, t.protocol, 0, 0]);
    ipv4.extend(t.src.to_be_bytes());
    ipv4.extend(t.dst.to_be_bytes());
    let sum = checksum(&ipv4);
    ipv4[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(ipv4);
    bytes.extend(t.src_port.to_be_bytes());
    bytes.extend(t.dst_port.to_be_bytes());
    bytes.extend((total - 20).to_be_bytes());
    bytes.extend([0, 0]);
    debug_assert_eq!(bytes.len(), UDP4_LEN);
    bytes
}

const CLIENT_MAC: u64 = 0x0004_0000_0000;
const ROUTER_MAC: u64 = 0x00aa_bb00_0000;
const NEXT_MAC: u64 = 0x0200_0000_0000;
const OUT_MAC: u64 = 0x00aa_bb00_0001;
const CLIENT_IP: u32 = 0xc0a8_0001;
const HOP_IP: u32 = 0xac10_0001;
/// The first route.
const ROUTES: u32 = 0x1000_0000;

/// Which route a flow takes: all in turn where there are enough flows, else at random.
fn pick(rng: &mut Prng, flow: u32, flows: u32, entries: u32) -> u32 {
    if entries <= flows { flow % entries } else { rng.below(u64::from(entries)) as u32 }
}

/// Route `i` and an address that takes it: three in four are a /24, and each fourth a longer one inside the /24 before it.
fn route(i: u32) -> (u32, u32, u32) {
    let net = |i: u32| ROUTES + (i << 8);
    match i % 8 {
        3 => (net(i - 1) | 200, 32, net(i - 1) | 200),
        7 => (net(i - 1) | 64, 28, net(i - 1) | 70),
        _ => (net(i), 24, net(i) | 7),
    }
}

/// Ports and addresses that differ from flow to flow.
fn tuple(flow: u32, dst: u32) -> Tuple {
    let port = 1024 + (flow % 60_000) as u16;
    Tuple { src: CLIENT_IP + (flow & 0xff), dst, protocol: 17, src_port: port, dst_port: 9 }
}

fn router(words: RouterWords, spec: &Spec, flows: u32) -> Workload {
    let mut rng = Prng::new(spec.seed);
    let mut made = blank();
    for hop in 0..HOPS {
        let key = vec![Match::Exact(ip(HOP_IP + hop))];
        made.steps.push(entry("forward", key, words.dst_addr, &[mac(NEXT_MAC + u64::from(hop))]));
    }
    let key = vec![Match::Exact(value(u64::from(OUT_PORT), 9))];
    made.steps.push(entry("send_frame", key, words.src_addr, &[mac(OUT_MAC)]));
    for i in 0..spec.entries {
        let (net, len, _) = route(i);
        let args = [ip(HOP_IP + i % HOPS), value(u64::from(OUT_PORT), 9)];
        made.steps.push(entry("ipv4_lpm", vec![Match::Lpm(ip(net), len)], words.next_hop, &args));
    }
    for flow in 0..flows {
        let i = pick(&mut rng, flow, flows, spec.entries);
        let t = tuple(flow, route(i).2);
        let next = NEXT_MAC + u64::from(i % HOPS);
        made.flows.push(Flow {
            header: udp4(ROUTER_MAC, CLIENT_MAC, t, 64, spec.size),
            fates: vec![Fate { port: OUT_PORT, header: udp4(next, OUT_MAC, t, 63, spec.size) }],
        });
    }
    made
}

/// Members of a group.
const PATHS: u32 = 4;

fn ecmp(spec: &Spec, flows: u32) -> Workload {
    let mut rng = Prng::new(spec.seed);
    let mut made = blank();
    let hop_mac = |hop: u32| (OUT_MAC + u64::from(hop), NEXT_MAC + u64::from(hop));
    for hop in 0..HOPS {
        let (src, dst) = hop_mac(hop);
        let args = vec![mac(src), mac(dst), value(u64::from(OUT_PORT), 9)];
        made.steps.push(Step::Member { profile: "next_hops", call: Call { action: "set_next_hop", args } });
    }
    let groups = HOPS / PATHS;
    let members = |group: u32| group * PATHS..(group + 1) * PATHS;
    for group in 0..groups {
        made.steps.push(Step::Group { profile: "next_hops", members: members(group).collect() });
    }
    for i in 0..spec.entries {
        let (net, len, _) = route(i);
        let key = vec![Match::Lpm(ip(net), len)];
        made.steps.push(Step::GroupEntry { table: "ipv4_lpm".to_owned(), key, group: i % groups });
    }
    for flow in 0..flows {
        let i = pick(&mut rng, flow, flows, spec.entries);
        let t = tuple(flow, route(i).2);
        // Which of its group's members a flow takes is the selector's business; that it is one of them is checked.
        let fate = |hop: u32| {
            let (src, dst) = hop_mac(hop);
            Fate { port: OUT_PORT, header: udp4(dst, src, t, 63, spec.size) }
        };
        made.flows.push(Flow {
            header: udp4(ROUTER_MAC, CLIENT_MAC, t, 64, spec.size),
            fates: members(i % groups).map(fate).collect(),
        });
    }
    made
}

/// One rule: a tuple and the masks of its parts. The lower number wins.
#[derive(Clone, Copy, Debug)]
struct Rule {
    value: Tuple,
    mask: Tuple,
    port: u32,
}

impl Rule {
    fn matches(&self, t: &Tuple) -> bool {
        under(t, &self.mask) == self.value
    }
}

fn under(t: &Tuple, mask: &Tuple) -> Tuple {
    Tuple {
        src: t.src & mask.src,
        dst: t.dst & mask.dst,
        protocol: t.protocol & mask.protocol,
        src_port: t.src_port & mask.src_port,
        dst_port: t.dst_port & mask.dst_port,
    }
}

fn prefix32(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len).unwrap_or(0)
}

fn prefix16(len: u32) -> u16 {
    u16::MAX.checked_shl(16 - len).unwrap_or(0)
}

fn random_mask(rng: &mut Prng) -> Tuple {
    let mut below = |n: u64| rng.below(n) as u32;
    Tuple {
        // Rules say something about addresses, or they would match everything.
        src: prefix32(8 + below(25)),
        dst: prefix32(8 + below(25)),
        protocol: if below(4) == 0 { 0 } else { 0xff },
        src_port: prefix16(below(17)),
        dst_port: prefix16(below(17)),
    }
}

fn random_tuple(rng: &mut Prng) -> Tuple {
    Tuple {
        src: rng.next_u64() as u32,
        dst: rng.next_u64() as u32,
        protocol: if rng.below(2) == 0 { 6 } else { 17 },
        src_port: rng.next_u64() as u16,
        dst_port: rng.next_u64() as u16,
    }
}

fn acl(spec: &Spec, flows: u32) -> Result<Workload, BenchError> {
    let mut rng = Prng::new(spec.seed);
    let mut made = blank();
    made.out_ports = vec![OUT_PORT, OTHER_PORT];
    let key = vec![Match::Exact(value(u64::from(IN_PORT), 9))];
    made.steps.push(entry("pair", key, "forward", &[value(u64::from(OUT_PORT), 9)]));
    let wanted = match spec.masks {
        Masks::Some(n) => n.min(spec.entries),
        Masks::All => spec.entries,
    };
    let masks = distinct_masks(&mut rng, wanted)?;
    made.masks = Some(wanted);
    let rules: Vec<Rule> = (0..spec.entries)
        .map(|i| {
            let mask = masks[i as usize % masks.len()];
            let value = under(&random_tuple(&mut rng), &mask);
            Rule { value, mask, port: if rng.below(2) == 0 { OUT_PORT } else { OTHER_PORT } }
        })
        .collect();
    for (i, rule) in rules.iter().enumerate() {
        let (v, m) = (&rule.value, &rule.mask);
        let key = vec![
            Match::Ternary(ip(v.src), m.src.into()),
            Match::Ternary(ip(v.dst), m.dst.into()),
            Match::Ternary(value(v.protocol.into(), 8), m.protocol.into()),
            Match::Ternary(value(v.src_port.into(), 16), m.src_port.into()),
            Match::Ternary(value(v.dst_port.into(), 16), m.dst_port.into()),
        ];
        let call = Call { action: "permit_to", args: vec![value(rule.port.into(), 9)] };
        made.steps.push(Step::Entry { table: "rules".to_owned(), key, priority: Some(i as u32 + 1), call });
    }
    let first = FirstMatch::new(&rules, &masks);
    for flow in 0..flows {
        let i = pick(&mut rng, flow, flows, spec.entries);
        let rule = &rules[i as usize];
        let mut free = random_tuple(&mut rng);
        let (v, m) = (&rule.value, &rule.mask);
        free.src = v.src | free.src & !m.src;
        free.dst = v.dst | free.dst & !m.dst;
        free.protocol = if m.protocol == 0 { free.protocol } else { v.protocol };
        free.src_port = v.src_port | free.src_port & !m.src_port;
        free.dst_port = v.dst_port | free.dst_port & !m.dst_port;
        let winner = first.find(&free).unwrap_or(i as usize);
        let header = udp4(ROUTER_MAC, CLIENT_MAC, free, 64, spec.size);
        made.flows
            .push(Flow { fates: vec![Fate { port: rules[winner].port, header: header.clone() }], header });
    }
    Ok(made)
}

fn distinct_masks(rng: &mut Prng, wanted: u32) -> Result<Vec<Tuple>, BenchError> {
    let mut seen = HashSet::new();
    let mut masks = Vec::with_capacity(wanted as usize);
    for _ in 0..u64::from(wanted) * 64 {
        if masks.len() == wanted as usize {
            break;
        }
        let mask = random_mask(rng);
        if seen.insert(mask) {
            masks.push(mask);
        }
    }
    if masks.len() < wanted as usize {
        return Err(BenchError::Plan(format!("{wanted} distinct masks could not be drawn")));
    }
    Ok(masks)
}

/// The first rule that matches, by one hash table for each mask: as slow as it may be, and nothing like a switch's tables
/// where each rule has a mask of its own.
struct FirstMatch<'a> {
    rules: &'a [Rule],
    by_mask: Vec<(Tuple, std::collections::HashMap<Tuple, usize>)>,
}

impl<'a> FirstMatch<'a> {
    fn new(rules: &'a [Rule], masks: &[Tuple]) -> FirstMatch<'a> {
        let mut by_mask: Vec<(Tuple, std::collections::HashMap<Tuple, usize>)> = Vec::new();
        // Only worth it where masks are few; else the rules are looked through.
        if masks.len() <= 1024 {
            by_mask = masks.iter().map(|&mask| (mask, Default::default())).collect();
            for (i, rule) in rules.iter().enumerate() {
                by_mask[i % masks.len()].1.entry(rule.value).or_insert(i);
            }
        }
        FirstMatch { rules, by_mask }
    }

    fn find(&self, t: &Tuple) -> Option<usize> {
        if self.by_mask.is_empty() {
            return self.rules.iter().position(|rule| rule.matches(t));
        }
        self.by_mask.iter().filter_map(|(mask, values)| values.get(&under(t, mask)).copied()).min()
    }
}

fn many_tables(spec: &Spec, flows: u32) -> Workload {
    let mut rng = Prng::new(spec.seed);
    let mut made = blank();
    let key = vec![Match::Exact(value(u64::from(IN_PORT), 9))];
    made.steps.push(entry("ports", key, "forward", &[value(u64::from(OUT_PORT), 9)]));
    let macs = |i: u32| (NEXT_MAC + u64::from(i), CLIENT_MAC + u64::from(i));
    const ACTIONS: [&str; 16] = [
        "set_0", "set_1", "set_2", "set_3", "set_4", "set_5", "set_6", "set_7", "set_8", "set_9", "set_10",
        "set_11", "set_12", "set_13", "set_14", "set_15",
    ];
    for i in 0..spec.entries {
        let (dst, src) = macs(i);
        let mut tag = 0;
        for (stage, action) in ACTIONS.iter().enumerate() {
            let change = rng.below(1 << 16);
            let key =
                vec![Match::Exact(mac(if stage % 2 == 0 { dst } else { src })), Match::Exact(value(tag, 16))];
            made.steps.push(entry(format!("stage_{stage}"), key, action, &[value(change, 16)]));
            tag ^= change;
        }
    }
    for flow in 0..flows {
        let (dst, src) = macs(pick(&mut rng, flow, flows, spec.entries));
        let header = ethernet(dst, src, 0x9000);
        made.flows.push(Flow { fates: vec![Fate { port: OUT_PORT, header: header.clone() }], header });
    }
    made.notes.push("entries are those of each of 16 tables; hits do not show in the packet".to_owned());
    made
}

fn deep_headers(spec: &Spec, flows: u32) -> Workload {
    let mut rng = Prng::new(spec.seed);
    let mut made = blank();
    let label = |i: u32| 16 + i;
    let swapped = |i: u32| 0xf_0000 ^ label(i);
    let pops = |i: u32| i % 4 == 3;
    for i in 0..spec.entries {
        let key = vec![Match::Exact(value(label(i).into(), 20))];
        let port = value(u64::from(OUT_PORT), 9);
        made.steps.push(match pops(i) {
            true => entry("labels", key, "pop_label", &[port]),
            false => entry("labels", key, "swap_label", &[value(swapped(i).into(), 20), port]),
        });
    }
    let mpls = |label: u32, bottom: bool, ttl: u8| {
        (label << 12 | u32::from(bottom) << 8 | u32::from(ttl)).to_be_bytes()
    };
    for flow in 0..flows {
        let i = pick(&mut rng, flow, flows, spec.entries);
        let front = ethernet(ROUTER_MAC, CLIENT_MAC, 0x8847);
        let rest = [&mpls(7, false, 61)[..], &mpls(8, true, 62), &tunnel(flow, spec.size)].concat();
        let stack = match pops(i) {
            true => rest.clone(),
            false => [&mpls(swapped(i), false, 63)[..], &rest].concat(),
        };
        made.flows.push(Flow {
            header: [&front[..], &mpls(label(i), false, 64), &rest].concat(),
            fates: vec![Fate { port: OUT_PORT, header: [&front[..], &stack].concat() }],
        });
    }
    made
}

/// Ethernet, three labels, IPv6, UDP, VXLAN, Ethernet and IPv6 headers.
const TUNNEL_LEN: u32 = 136;

/// IPv6, UDP, VXLAN, Ethernet and IPv6 headers.
fn tunnel(flow: u32, size: u32) -> Vec<u8> {
    let ipv6 = |next_header: u8, payload_len: u32, host: u8| {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((payload_len as u16).to_be_bytes());
        bytes.extend([next_header, 64]);
        for end in [host, host + 1] {
            bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        }
        bytes
    };
    let rest = size.saturating_sub(TUNNEL_LEN);
    let mut bytes = ipv6(17, 70 + rest, 1);
    for word in [49_152 + (flow % 1000) as u16, 4789, (70 + rest) as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend([8, 0, 0, 0, 0, (flow >> 8) as u8, flow as u8, 0]);
    bytes.extend(ethernet(NEXT_MAC, CLIENT_MAC, 0x86dd));
    bytes.extend(ipv6(59, rest, 3));
    bytes
}

#[cfg(test)]
mod tests;
