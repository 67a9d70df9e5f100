//! The TOML form: good files, and each kind of bad one.

use super::*;

const CHANNELS: &str = include_str!("../testdata/channels.xml");

const GOOD: &str = r#"name = "bonds"
channel_file = "channels.xml"

[engine]
idle = "spin"
core = 1

[socket]
interface_a = "eth0"
interface_b = "10.0.0.7"
receive_buffer_bytes = 1000000
busy_poll_us = 50
stamps = "hardware"
source_filter = false
packet_bytes_max = 1500
burst = 16

[[channel]]
id = 901
lines = "a_then_b"
recovery = "natural"
definitions = false
instruments_max = 500
out_of_order_packets_max = 10
lost_packet_wait_us = 1500
heartbeat_timeout_ms = 60000
leave_loops = false
keep_warm = false
groups = ["BW"]
security_ids = [17]

[[channel]]
id = 77
[[channel.connection]]
feed = "I"
side = "A"
group = "239.1.1.1"
udp_port = 5000
sources = ["10.0.0.1"]

[record]
path = "out.pcap"
rotate_bytes = 1000
"#;

fn parse(text: &str) -> Result<Plan, ConfigError> {
    Plan::parse(text, "feed.toml", &mut |named| {
        assert_eq!(named, Path::new("channels.xml"));
        ChannelFile::parse(CHANNELS, "channels.xml")
    })
}

#[test]
fn every_key_arrives_in_the_plan() {
    let plan = parse(GOOD).unwrap();
    assert_eq!((plan.name.as_str(), plan.idle, plan.core), ("bonds", IdleStrategy::Spin, Some(1)));
    assert_eq!(
        plan.input,
        Input::Sockets(SocketOptions {
            interface_a: Some("eth0".into()),
            interface_b: Some("10.0.0.7".into()),
            receive_buffer_bytes: 1_000_000,
            busy_poll_us: 50,
            stamps: StampBy::Hardware,
            source_filter: false,
            packet_bytes_max: 1500,
            burst: 16,
        })
    );
    let [bonds, own] = plan.channels.as_slice() else { panic!("{plan:?}") };
    assert_eq!(bonds.label, "Example government bonds, conflated");
    assert_eq!(
        (bonds.lines, bonds.recovery, bonds.definitions),
        (LineLayout::AThenB, Recovery::Natural, false)
    );
    assert_eq!((bonds.instruments_max, bonds.out_of_order_packets_max), (500, 10));
    assert_eq!(bonds.lost_packet_wait, Duration::from_micros(1500));
    assert_eq!(bonds.heartbeat_timeout, Duration::from_secs(60));
    assert_eq!((&bonds.selection.groups, &bonds.selection.security_ids), (&vec!["BW".to_owned()], &vec![17]));
    assert!(!bonds.leave_loops && !bonds.keep_warm);
    assert_eq!(bonds.received().count(), 2);
    assert_eq!(
        own.connections,
        [Connection {
            id: "77IA".into(),
            feed: FeedType::Incremental,
            side: Side::A,
            to: "239.1.1.1:5000".parse().unwrap(),
            sources: vec!["10.0.0.1".parse().unwrap()],
        }]
    );
    assert_eq!(plan.record, Some(RecordPlan { path: "out.pcap".into(), rotate_bytes: 1000 }));
}

#[test]
fn a_short_file_is_enough() {
    let plan = parse("channel_file = \"channels.xml\"\n[[channel]]\nid = 902\n").unwrap();
    assert_eq!(plan.input, Input::Sockets(SocketOptions::default()));
    assert_eq!(
        plan.channels[0],
        ChannelPlan {
            label: "Example currencies, conflated".into(),
            ..ChannelPlan::new(902, plan.channels[0].connections.clone())
        }
    );
    let port = "channel_file = \"channels.xml\"\n[port]\nport_a = \"xdp:eth0\"\n[[channel]]\nid = 902\n";
    assert_eq!(parse(port).unwrap().input, Input::Ports(PortOptions::new("xdp:eth0")));
}

#[test]
fn what_is_wrong_is_shown_with_its_place_and_the_right_word() {
    let cases = [
        (
            "idle = \"spin\"",
            "idle = \"spinn\"",
            "feed.toml:5:8: engine.idle = \"spinn\": unknown idle strategy",
        ),
        ("core = 1", "cores = 1", "did you mean `core`?"),
        (
            "stamps = \"hardware\"",
            "stamps = \"hardwar\"",
            "feed.toml:13:10: socket.stamps = \"hardwar\": did you mean `hardware`?",
        ),
        ("busy_poll_us = 50", "busy_pol_us = 50", "did you mean `busy_poll_us`?"),
        ("busy_poll_us = 50", "busy_poll_us = 5000000", "socket.busy_poll_us = 5000000: from 0 to 1000000"),
        ("burst = 16", "burst = 0", "socket.burst = 0: from 1 to 32"),
        ("burst = 16", "burst = -1", "feed.toml: "),
        ("packet_bytes_max = 1500", "packet_bytes_max = 70000", "from 64 to 65507"),
        ("receive_buffer_bytes = 1000000", "receive_buffer_bytes = 1", "from 4096 to"),
        (
            "id = 901",
            "id = 9011",
            "channel.id = 9011: no such channel in the channel file; did you mean `901`?",
        ),
        ("id = 77", "id = 901", "a second channel of this id"),
        ("lines = \"a_then_b\"", "lines = \"a_then_c\"", "did you mean `a_then_b`?"),
        ("recovery = \"natural\"", "recovery = \"nature\"", "did you mean `natural`?"),
        ("instruments_max = 500", "instruments_max = 0", "channel.instruments_max = 0: from 1 to"),
        ("feed = \"I\"", "feed = \"X\"", "channel.connection.feed = \"X\": "),
        ("side = \"A\"", "side = \"C\"", "(known: A, B)"),
        ("group = \"239.1.1.1\"", "group = \"10.1.1.1\"", "no multicast group"),
        ("group = \"239.1.1.1\"", "group = \"x\"", "not an IP address"),
        ("udp_port = 5000", "udp_port = 0", "channel.connection.udp_port = 0: from 1 to 65535"),
        ("udp_port = 5000", "port = 5000", "unknown field"),
        ("sources = [\"10.0.0.1\"]", "sources = [\"fd00::1\"]", "of another family"),
        ("feed = \"I\"", "feed = \"N\"", "channel 77: no incremental feed"),
        (
            "group = \"239.1.1.1\"\nudp_port = 5000",
            "group = \"239.90.1.1\"\nudp_port = 19011",
            "is the group of channel 901 IA already",
        ),
        ("[record]", "[port]\nport_a = \"xdp:eth0\"\n[record]", "there is a [socket] too"),
        ("path = \"out.pcap\"", "", "missing field `path`"),
        ("name = \"bonds\"", "name = bonds", "feed.toml: "),
    ];
    for (right, wrong, expected) in cases {
        assert!(GOOD.contains(right), "{right}");
        let error = parse(&GOOD.replacen(right, wrong, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{wrong}: {error}");
    }
    let no_lines = parse("[[channel]]\nid = 5\n").unwrap_err().to_string();
    assert!(no_lines.starts_with("feed.toml:2:6: channel.id = 5: no lines"), "{no_lines}");
    let nothing = parse("").unwrap_err().to_string();
    assert!(nothing.contains("[[channel]]: missing"), "{nothing}");
    for (port, expected) in [
        ("[port]\n", "port.port_a: missing"),
        ("[port]\nport_a = \"xpd:eth0\"\n", "did you mean `xdp`?"),
        ("[port]\nport_a = \"xdp:eth0\"\nport_b = \"eth1\"\n", "no `:`"),
    ] {
        let text = format!("channel_file = \"channels.xml\"\n{port}[[channel]]\nid = 902\n");
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn files_are_read_and_missing_ones_named() {
    let error = Plan::read(Path::new("nowhere/feed.toml")).unwrap_err().to_string();
    assert!(error.starts_with("nowhere/feed.toml: "), "{error}");
}

#[test]
fn the_sample_beside_the_channel_file_is_good() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/feed.toml");
    let plan = Plan::read(&path).unwrap();
    assert_eq!(
        plan.channels.iter().map(|c| (c.id, c.received().count())).collect::<Vec<_>>(),
        [(901, 6), (902, 5)]
    );
    assert!(plan.record.unwrap().path.ends_with("testdata/morning.pcap"));
}
