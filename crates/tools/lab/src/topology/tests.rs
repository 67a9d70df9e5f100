//! Topology files, right and wrong.

use super::*;
use barewire_base::Duration;
use barewire_netns::Offloads;
use barewire_port::FaultSettings;
use barewire_wire::MacAddr;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn parse(text: &str) -> Result<Topology, TopologyError> {
    Topology::parse(text, "t.toml", Path::new(""))
}

fn error(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// A lab of two hosts; `more` goes behind the link's ends.
fn pair(more: &str) -> String {
    format!(
        "name = \"pair\"\n[[host]]\nname = \"h1\"\naddresses = [\"10.0.0.1/24\"]\n[[host]]\nname = \
         \"h2\"\naddresses = [\"10.0.0.2/24\"]\n[[link]]\nends = [\"h1\", \"h2\"]\n{more}"
    )
}

#[test]
fn a_short_file_is_enough_and_its_defaults_are_a_plain_veth() {
    let t = parse(&pair("")).unwrap();
    assert_eq!((t.name.as_str(), t.seed, t.hosts.len(), t.links.len()), ("pair", 1, 2, 1));
    let link = &t.links[0];
    assert_eq!((link.name.as_str(), link.mtu, link.queues, link.tx_queue_len), ("h1-h2", 1500, 1, None));
    assert!(!link.is_impaired() && link.offloads == Offloads::all(false));
    assert_eq!(link.ends[1].node, Node::Host(1));
    let host = &t.hosts[1];
    assert_eq!((host.interfaces[0].name.as_str(), host.ipv6), ("eth0", false));
    assert_eq!(host.interfaces[0].addresses, [("10.0.0.2".parse().unwrap(), 24)]);
    assert_eq!(host.interfaces[0].mac, MacAddr([2, 0x77, 0, 2, 0, 0]));
}

#[test]
fn a_direction_takes_from_both_what_it_does_not_say() {
    let t = parse(&pair(
        "mtu_bytes = 9000\nqueues = 4\ntx_queue_frames = 9\ntrace = \"x/wan\"\n[link.both]\ndelay_us = \
         100000\nloss = 0.01\nburst = { p = 0.1, r = 0.5 }\n[link.reverse]\nloss = 0\nrate_bps = \
         1000000\nqueue_frames = 5\noutage = { length_ms = 3, every_ms = 9 }\n",
    ))
    .unwrap();
    let [forward, reverse] = &t.links[0].faults;
    assert_eq!((forward.loss, reverse.loss), (0.01, 0.0));
    assert_eq!(forward.delay, Duration::from_millis(100));
    assert_eq!(reverse.delay, forward.delay);
    assert_eq!(forward.burst_loss, reverse.burst_loss);
    assert_eq!(forward.burst_loss.unwrap().loss_bad, 1.0);
    assert_eq!((reverse.rate_bps, reverse.limit_frames, forward.rate_bps), (1_000_000, 5, 0));
    // A long wire holds more than the queue in front of it.
    assert_eq!((forward.flight_limit(), reverse.flight_limit()), (65_536, 65_541));
    assert_eq!(reverse.outage.unwrap().every, Duration::from_millis(9));
    assert_eq!((t.links[0].tx_queue_len, t.links[0].mtu), (Some(9), 9000));
    assert_eq!(t.links[0].trace, Some(PathBuf::from("x/wan")));
    assert_ne!(t.links[0].seeds[0], t.links[0].seeds[1]);
}

#[test]
fn a_further_link_leaves_the_seeds_of_others() {
    let before = parse(&pair("both = { loss = 0.1 }\n")).unwrap();
    let more =
        "both = { loss = 0.1 }\n[[link]]\nends = [\"h1\", \"h2\"]\n[[link]]\nends = [\"h2:x\", \"h1\"]\n";
    let after = parse(&pair(more)).unwrap();
    assert_eq!(before.links[0], after.links[0]);
    let names: Vec<&str> = after.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["h1-h2", "h1-h2-2", "h2-h1"]);
    let interfaces: Vec<&str> = after.hosts[1].interfaces.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(interfaces, ["eth0", "eth1", "x"]);
    let other = parse(&pair("both = { loss = 0.1 }\nseed = 5\n")).unwrap();
    assert_ne!(before.links[0].seeds, other.links[0].seeds);
}

#[test]
fn another_seed_is_as_if_the_file_said_it() {
    let links = "both = { loss = 0.1 }\n[[link]]\nends = [\"h1\", \"h2\"]\nseed = 5\n";
    let before = parse(&pair(links)).unwrap();
    let after = before.clone().with_seed(9);
    assert_eq!(after, parse(&format!("seed = 9\n{}", pair(links))).unwrap());
    assert_ne!(before.links[0].seeds, after.links[0].seeds);
    assert_eq!(before.links[1].seeds, after.links[1].seeds, "its own");
    assert_eq!(after.with_seed(before.seed), before);
}

#[test]
fn groups_and_switches_number_themselves() {
    let text = "name = \"g\"\n[[switch]]\nname = \"s1\"\nkind = \"bridge\"\n[[host]]\nname = \
                \"x\"\n[[link]]\nends = [\"x\", \"s1:7\"]\n[[group]]\nprefix = \"h\"\ncount = 3\nsubnet = \
                \"10.0.0.0/29\"\nswitch = \"s1\"\n";
    let t = parse(text).unwrap();
    let ports: Vec<(u32, &str)> =
        t.links.iter().map(|l| (l.ends[1].port, l.ends[1].interface.as_str())).collect();
    assert_eq!(ports, [(7, "p7"), (1, "p1"), (2, "p2"), (3, "p3")]);
    assert_eq!(t.hosts[3].name, "h3");
    assert_eq!(t.hosts[3].interfaces[0].addresses[0].0.to_string(), "10.0.0.3");
    assert_eq!(t.links[0].ends[1].mac, MacAddr([2, 0x78, 0, 1, 0, 7]));
    assert!(error(&text.replace("count = 3", "count = 7")).contains("no room for 7"));
    assert!(error(&text.replace("switch = \"s1\"\n", "switch = \"x\"\n")).contains("is a host"));
    assert!(error(&text.replace("prefix = \"h\"", "prefix = \"H\"")).contains("a to z"));
    // A thousand hosts are no matter.
    let many = text.replace("count = 3", "count = 1000").replace("/29", "/16");
    assert_eq!(parse(&many).unwrap().hosts.len(), 1001);
    assert!(error(&many.replace("1000", "4096")).contains("more than 4096"));
}

#[test]
fn what_is_wrong_is_shown_with_its_place_and_the_right_word() {
    for (more, place, expect) in [
        ("mtu_bites = 1400\n", "line 10", "did you mean `mtu_bytes`?"),
        ("both = { lose = 0.1 }\n", "line 10", "did you mean `loss`?"),
        ("both = { loss = 1.5 }\n", "t.toml:10:8", "loss must be from 0 to 1"),
        ("forward = { loss = \"high\" }\n", "line 10", "expected f64"),
        ("mtu_bytes = 20\n", "t.toml:10:13", "from 68 to 65000"),
        ("queues = 0\n", "t.toml:10:10", "from 1 to 64"),
        ("both = { rate_bps = 0 }\n", "t.toml:10:8", "pass nothing"),
        ("both = { queue_frames = 5 }\n", "t.toml:10:8", "queue_frames has no effect without rate_bps"),
        ("both = { ecn_frames = 5 }\n", "t.toml:10:8", "ecn_frames has no effect without rate_bps"),
        ("both = { rate_bps = 9, queue_frames = 0 }\n", "t.toml:10:8", "queue_frames must be"),
        ("both = { loss = 0.1 }\noffloads = { tso = true }\n", "t.toml:11:12", "leave the offloads off"),
        ("both = { loss = 0.1 }\nport = \"xpd\"\n", "t.toml:11:8", "did you mean `xdp`?"),
        (
            "both = { loss = 0.1 }\nport = \"xdp\"\nmtu_bytes = 9000\n",
            "t.toml:12:13",
            "kind packet takes more",
        ),
        ("port = \"xdp\"\n", "t.toml:10:8", "no link node stands in it"),
        ("name = \"Wan\"\n", "t.toml:10:8", "a to z"),
        ("[[link]]\nends = [\"h1\"]\n", "t.toml:11:8", "a link has two ends"),
        ("[[link]]\nends = [\"h1:x\", \"h3\"]\n", "t.toml:11:17", "no such host or switch; did you mean"),
        ("[[link]]\nends = [\"h1:x\", \"h1:y\"]\n", "t.toml:11:17", "both ends at one node"),
        ("[[link]]\nends = [\"h1:eth0\", \"h2\"]\n", "t.toml:11:9", "has a link already"),
        ("[[link]]\nends = [\"h1:lo\", \"h2\"]\n", "t.toml:11:9", "has a link already"),
        ("[[link]]\nends = [\"h1:a-name-of-sixteen\", \"h2\"]\n", "t.toml:11:9", "1 to 15 bytes"),
        ("[[link]]\nends = [\"h1\", \"h2\"]\nname = \"h1-h2\"\n", "t.toml:12:8", "second link of this name"),
        ("[[host]]\nname = \"h1\"\n", "t.toml:11:8", "a second host or switch"),
        ("[[host]]\nname = \"h3\"\naddresses = [\"10.0.0.3\"]\n", "t.toml:12:14", "prefix length is missing"),
        ("[[host]]\nname = \"h3\"\naddresses = [\"10.0.0.3/33\"]\n", "t.toml:12:14", "up to 32"),
        (
            "[[host]]\nname = \"h3\"\naddresses = [\"224.0.0.1/24\"]\n",
            "t.toml:12:14",
            "no address of one host",
        ),
        (
            "[[host]]\nname = \"h3\"\naddresses = [\"10.0.0.3/24\"]\n",
            "t.toml:12:14",
            "eth0, which has no link",
        ),
        ("[[host]]\nname = \"h3\"\ninterface = [{ name = \"x\" }]\n", "t.toml:12:23", "no link ends at it"),
        (
            "[[host]]\nname = \"h3\"\ninterface = [{ name = \"x\", mac = \"01:00:00:00:00:00\" }]\n",
            "t.toml:12:34",
            "no address of one interface",
        ),
        ("[[switch]]\nname = \"s\"\nkind = \"brigde\"\n", "t.toml:12:8", "did you mean `bridge`?"),
        ("[[switch]]\nname = \"s\"\nkind = \"barewire\"\n", "t.toml:12:8", "switch.program: missing"),
        (
            "[[switch]]\nname = \"s\"\nkind = \"bridge\"\nprogram = \"x\"\n",
            "t.toml:13:11",
            "a bridge has none",
        ),
        (
            "[[switch]]\nname = \"s\"\nkind = \"bridge\"\nport = \"xdp\"\n",
            "t.toml:13:8",
            "switch.port: a bridge has none",
        ),
        (
            "[[switch]]\nname = \"s\"\nkind = \"bridge\"\narguments = []\n",
            "t.toml:13:13",
            "switch.arguments: a bridge has none",
        ),
        (
            "mtu_bytes = 1279\n[[host]]\nname = \"h3\"\naddresses = [\"10.0.0.3/24\", \"fd00::3/64\"]\n[[link]]\nends = \
             [\"h3\", \"h2\"]\nmtu_bytes = 1279\n",
            "t.toml:13:29",
            "IPv6 needs an MTU of 1280, link h3-h2 has mtu_bytes = 1279",
        ),
        (
            "[[switch]]\nname = \"s\"\nkind = \"bridge\"\n[[group]]\nprefix = \"g\"\ncount = 1\nswitch = \"s\"\nmtu_bytes = \
             600\nsubnet = \"fd01::/64\"\n",
            "t.toml:18:10",
            "IPv6 needs an MTU of 1280",
        ),
    ] {
        let message = error(&pair(more));
        assert!(message.contains(expect) && message.contains(place), "{more}: {message}");
    }
    assert!(error("seed = 1\n").contains("missing field `name`"));
    assert!(error("name = \"x\"\n").contains("[[host]]: missing"));
    assert!(error("name = ").contains("line 1"));
    let missing = Topology::read(Path::new("no-such-topology.toml")).unwrap_err();
    assert!(missing.to_string().starts_with("no-such-topology.toml: "), "{missing}");
}

#[test]
fn routes_need_a_gateway_in_reach() {
    let host = |route: &str| {
        let head = pair("").replacen("name = \"h1\"\n", &format!("name = \"h1\"\nroute = [{route}]\n"), 1);
        parse(&head)
    };
    let t = host("{ to = \"default\", via = \"10.0.0.2\" }, { to = \"10.9.0.0/16\", via = \"10.0.0.3\" }")
        .unwrap();
    assert_eq!(t.hosts[0].routes[0].to, ("0.0.0.0".parse().unwrap(), 0));
    assert_eq!(t.hosts[0].routes[1].to.1, 16);
    for (route, expect) in [
        ("{ to = \"default\", via = \"10.0.1.2\" }", "in no subnet of h1"),
        ("{ to = \"::/0\", via = \"10.0.0.2\" }", "another family"),
        ("{ to = \"10.9.0.1/16\", via = \"10.0.0.2\" }", "10.9.0.0/16 is the network"),
        ("{ to = \"10.9.0.0\", via = \"10.0.0.2\" }", "prefix length is missing"),
        ("{ to = \"default\", via = \"gw\" }", "not an IP address"),
    ] {
        let message = host(route).unwrap_err().to_string();
        assert!(message.contains(expect) && message.contains("t.toml:4:"), "{route}: {message}");
    }
}

#[test]
fn rings_of_bridges_are_refused() {
    let ring = |last: &str| {
        format!(
            "name = \"r\"\n[[host]]\nname = \"h\"\n[[switch]]\nname = \"a\"\nkind = \"bridge\"\n[[switch]]\nname \
             = \"b\"\nkind = \"bridge\"\n[[switch]]\nname = \"c\"\nkind = \"bridge\"\n[[link]]\nends = [\"a\", \
             \"b\"]\n[[link]]\nends = [\"b\", \"c\"]\n{last}"
        )
    };
    assert!(parse(&ring("")).is_ok());
    let message = error(&ring("[[link]]\nends = [\"c\", \"a\"]\n"));
    assert!(message.contains("ring of bridges") && message.contains("t.toml:18:8"), "{message}");
}

#[test]
fn the_sample_labs_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs/topologies");
    let read = |name: &str| Topology::read(&folder.join(name)).unwrap();
    let two = read("two-hosts.toml");
    assert_eq!((two.links[0].faults[0].loss, two.links[0].faults[1].delay), (0.01, Duration::from_millis(1)));
    assert!(two.hosts[0].ipv6);
    let four = read("four-hosts-bridge.toml");
    assert_eq!((four.hosts.len(), four.links.len()), (4, 4));
    assert_eq!(four.links[0].faults[0].ecn_frames, 20);
    let eight = read("eight-hosts-switch.toml");
    assert_eq!(eight.hosts.len(), 8);
    let SwitchKind::Barewire { program, entries: Some(entries), .. } = &eight.switches[0].kind else {
        panic!()
    };
    assert!(program.is_file());
    let entries = std::fs::read_to_string(entries).unwrap();
    for (i, host) in eight.hosts.iter().enumerate() {
        // A group's hosts come after others, its links too: what the entries say must be what is made.
        let line = format!("forward {} => {}", host.interfaces[0].mac, i + 1);
        assert!(entries.contains(&line), "{line}");
        assert_eq!(eight.links[i].ends[1].port, i as u32 + 1);
    }
}

#[test]
fn addresses_know_their_subnets() {
    let ip = |s: &str| s.parse::<std::net::IpAddr>().unwrap();
    let net = |s: &str| addresses::parse(s).unwrap();
    for (subnet, address, inside) in [
        ("10.0.0.1/24", "10.0.0.255", true),
        ("10.0.0.1/24", "10.0.1.0", false),
        ("10.0.0.1/0", "203.0.113.9", true),
        ("10.0.0.1/32", "10.0.0.2", false),
        ("fd00::1/64", "fd00::ffff:0:0:2", true),
        ("fd00::1/64", "fd00:0:0:1::2", false),
        ("::/0", "10.0.0.1", false),
    ] {
        assert_eq!(addresses::contains(net(subnet), ip(address)), inside, "{subnet} {address}");
    }
    for (address, base) in [
        ("10.0.0.77/24", "10.0.0.0"),
        ("10.0.0.77/32", "10.0.0.77"),
        ("10.0.0.77/0", "0.0.0.0"),
        ("fd00::1:2/112", "fd00::1:0"),
        ("fd00::1/0", "::"),
        ("fd00::1/128", "fd00::1"),
    ] {
        assert_eq!(addresses::base(net(address)), ip(base), "{address}");
    }
    assert_eq!(addresses::nth(net("10.0.0.77/24"), 5), Some(ip("10.0.0.5")));
    assert_eq!(addresses::nth(net("10.0.0.0/24"), 255), None);
    assert_eq!(addresses::nth(net("10.0.0.0/24"), 254), Some(ip("10.0.0.254")));
    assert_eq!(addresses::nth(net("fd00::/64"), 0x1_0000), Some(ip("fd00::1:0")));
    assert_eq!(addresses::nth(net("::/0"), 1), Some(ip("::1")));
    assert_eq!(addresses::nth(net("10.0.0.1/32"), 1), None);
}

proptest! {
    #[test]
    fn no_text_panics(text in "(name|\\[\\[link\\]\\]|ends|=|\"h1\"|\"|\\[|\\]|both|\\n|\\{|\\}|0\\.5|loss|.){0,40}") {
        let _ = parse(&text);
        let _ = parse(&pair(&text));
    }

    #[test]
    fn no_number_panics(loss: f64, delay: u64, jitter: u64, rate in 1..u64::MAX, frames: u32, mtu: u32) {
        let both = format!("mtu_bytes = {mtu}\nboth = {{ loss = {loss:?}, delay_us = {}, jitter_us = {}, rate_bps = {}, queue_frames = {frames} }}\n",
            delay >> 1, jitter >> 1, rate >> 1);
        if let Ok(t) = parse(&pair(&both.replace("NaN", "nan"))) {
            prop_assert!(t.links[0].faults.iter().all(|f| FaultSettings::check(f).is_ok()));
        }
    }
}

#[test]
fn every_lab_of_the_published_tables_is_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs/topologies");
    let mut read = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let lab = Topology::read(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Some(lab.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        read.push(lab);
    }
    let lab = |name: &str| read.iter().find(|lab| lab.name == name).unwrap_or_else(|| panic!("{name}"));
    let host = |lab: &str, name: &str| {
        let hosts = &read.iter().find(|l| l.name == lab).unwrap().hosts;
        hosts.iter().find(|host| host.name == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(lab("msg-two-hosts").links.len(), 1);
    assert_eq!(lab("feed-two-hosts").hosts.len(), 2);
    assert_eq!(host("rc-two-hosts", "client").interfaces.len(), 12, "a thread each");
    assert_eq!(lab("rc-machines").hosts.len(), 9);
    assert_eq!(host("rc-machines", "c8").interfaces.len(), 2);
    assert_eq!((lab("rc-two-nics").switches.len(), host("rc-two-nics", "server").interfaces.len()), (2, 2));
    let router = lab("switch-router");
    let SwitchKind::Barewire { program, entries: Some(entries), .. } = &router.switches[0].kind else {
        panic!()
    };
    assert!(program.is_file());
    let entries = std::fs::read_to_string(entries).unwrap();
    for (host, port) in router.hosts.iter().zip(1..) {
        let interface = &host.interfaces[0];
        let address = interface.addresses[0].0;
        for line in [
            format!("forward set_dst_addr {address} => {}", interface.mac),
            format!("ipv4_lpm set_next_hop {address}/32 => {address} {port}"),
        ] {
            assert!(entries.contains(&line), "{line}");
        }
    }
}
