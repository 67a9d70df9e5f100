//! Real namespaces and links. These tests need root; without it they say so and prove nothing.

use barewire_netns::{
    LinkConfig, Namespace, NetnsError, Offloads, TwoHosts, TwoHostsConfig, VethPair, is_root_capable,
    sweep_stale,
};
use barewire_testing::{Needs, skip_part};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// False, and loudly so, when this process is not root. As root everything must work.
fn root() -> bool {
    if !barewire_testing::root() {
        return false;
    }
    if let Err(why) = is_root_capable() {
        panic!("root, and still: {why}; hint: {}", why.hint());
    }
    true
}

fn labelled(label: &str) -> TwoHostsConfig {
    TwoHostsConfig { label: Some(label.into()), ..TwoHostsConfig::default() }
}

/// How long a machine that is busy with something else may take for what takes no time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A socket of a host, with an end to its patience.
fn socket(ns: &Namespace, address: IpAddr) -> UdpSocket {
    let socket = ns.enter(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// There and back between two sockets that live in this thread: a socket stays where it was made.
fn ping(from: (&Namespace, IpAddr), to: (&Namespace, IpAddr), payload: &[u8]) {
    let (a, b) = (socket(from.0, from.1), socket(to.0, to.1));
    let mut buffer = [0xa5; 2048];
    a.send_to(payload, b.local_addr().unwrap()).unwrap();
    let (n, peer) = b.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..n], peer), (payload, a.local_addr().unwrap()));
    b.send_to(b"pong", peer).unwrap();
    let n = a.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"pong");
}

/// What `path` says to a thread inside the namespace.
fn read_inside(ns: &Namespace, path: &str) -> String {
    ns.enter(|| fs::read_to_string(path)).unwrap().unwrap()
}

#[test]
fn two_hosts_talk_over_both_wires() {
    if !root() {
        return;
    }
    let config = TwoHostsConfig {
        link: LinkConfig { mtu: 1400, queues: 2, ..LinkConfig::default() },
        twin: Some(LinkConfig { offloads: true, mac_b: Some([2, 0, 0, 0, 0, 9]), ..LinkConfig::default() }),
        ..labelled("talk")
    };
    let hosts = TwoHosts::create(&config).unwrap();
    let (twin_a, twin_b) = hosts.twin.clone().unwrap();
    for (a, b) in [(&hosts.eth_a, &hosts.eth_b), (&twin_a, &twin_b)] {
        ping((&hosts.ns_a, a.v4.into()), (&hosts.ns_b, b.v4.into()), b"ping over IPv4");
        ping((&hosts.ns_a, a.v6.unwrap().into()), (&hosts.ns_b, b.v6.unwrap().into()), &[0x5a; 1300]);
    }
    ping((&hosts.ns_b, Ipv4Addr::LOCALHOST.into()), (&hosts.ns_b, Ipv4Addr::LOCALHOST.into()), b"lo is up");

    assert_eq!(
        (hosts.eth_a.v4.to_string(), hosts.eth_b.v4.to_string()),
        ("10.77.0.1".into(), "10.77.0.2".into())
    );
    assert_eq!(
        (twin_a.v4.to_string(), twin_b.v6.unwrap().to_string()),
        ("10.78.0.1".into(), "fd78::2".into())
    );
    assert_eq!((hosts.eth_a.mac, hosts.eth_b.mac), ([2, 0x62, 0x77, 77, 0, 1], [2, 0x62, 0x77, 77, 0, 2]));
    assert_eq!(twin_b.mac, [2, 0, 0, 0, 0, 9]);
    let link = hosts.ns_b.link("eth0").unwrap();
    assert_eq!((link.mtu, link.tx_queues, link.rx_queues, link.index), (1400, 2, 2, hosts.eth_b.index));
    assert!(link.up && link.running);
    assert_eq!(hosts.ns_a.link("twin0").unwrap().mtu, 1500);

    // Nothing of it is visible where we are.
    assert!(!fs::read_to_string("/proc/thread-self/net/dev").unwrap().contains("twin0"));
}

#[test]
fn offloads_are_off_on_the_wire_and_switch() {
    if !root() {
        return;
    }
    let config = TwoHostsConfig {
        label: None,
        twin: Some(LinkConfig { offloads: true, ..LinkConfig::default() }),
        ..TwoHostsConfig::default()
    };
    let hosts = TwoHosts::create(&config).unwrap();
    for ns in [&hosts.ns_a, &hosts.ns_b] {
        assert_eq!(ns.offloads("eth0").unwrap(), Offloads::all(false));
        assert_eq!(ns.offloads("twin0").unwrap(), Offloads::all(true));
    }
    assert_eq!(hosts.ns_a.set_offloads("eth0", true).unwrap(), Offloads::all(true));
    assert_eq!(hosts.ns_a.offloads("eth0").unwrap(), Offloads::all(true));
    assert_eq!(hosts.ns_b.offloads("eth0").unwrap(), Offloads::all(false));
    assert_eq!(hosts.ns_a.set_offloads("eth0", false).unwrap(), Offloads::all(false));
    assert!(matches!(hosts.ns_a.offloads("eth9"), Err(NetnsError::System { .. })));
}

#[test]
fn neighbours_and_routes_are_the_kernels() {
    if !root() {
        return;
    }
    let hosts =
        TwoHosts::create(&TwoHostsConfig { label: None, static_neighbours: true, ..labelled("x") }).unwrap();
    let arp = read_inside(&hosts.ns_a, "/proc/thread-self/net/arp");
    let line = arp.lines().find(|line| line.starts_with("10.77.0.2 ")).expect(&arp);
    // 0x6: ATF_COM | ATF_PERM.
    assert!(line.contains(" 0x6 ") && line.contains("02:62:77:4d:00:02"), "{line}");

    let gateway = IpAddr::V4(hosts.eth_b.v4);
    hosts.ns_a.add_route("192.0.2.0".parse().unwrap(), 24, gateway).unwrap();
    hosts.ns_a.add_route("0.0.0.0".parse().unwrap(), 0, gateway).unwrap();
    hosts.ns_a.add_route("::".parse().unwrap(), 0, hosts.eth_b.v6.unwrap().into()).unwrap();
    let routes = read_inside(&hosts.ns_a, "/proc/thread-self/net/route");
    let words: Vec<Vec<&str>> = routes.lines().map(|line| line.split_whitespace().collect()).collect();
    let gateway_hex = format!("{:08X}", u32::from_ne_bytes(hosts.eth_b.v4.octets()));
    for net in [u32::from_ne_bytes([192, 0, 2, 0]), 0] {
        let net = format!("{net:08X}");
        assert!(words.iter().any(|line| line[..3] == ["eth0", &net, &gateway_hex]), "{routes}");
    }
    // And they work: an address behind the other host, which has it on its own lo.
    hosts.ns_b.add_address("lo", "192.0.2.7".parse().unwrap(), 32).unwrap();
    ping((&hosts.ns_a, hosts.eth_a.v4.into()), (&hosts.ns_b, "192.0.2.7".parse().unwrap()), b"routed");
    assert!(
        hosts.ns_a.add_route("198.51.100.0".parse().unwrap(), 24, "203.0.113.1".parse().unwrap()).is_err()
    );
}

#[test]
fn names_are_those_of_ip_netns_and_go_with_the_value() {
    if !root() {
        return;
    }
    let ns = Namespace::create("named").unwrap();
    let name = ns.name().unwrap().to_string();
    assert!(name.starts_with(&format!("bw-{}-", std::process::id())) && name.ends_with("-named"), "{name}");
    let path = Path::new("/run/netns").join(&name);
    let inode_inside = ns.enter(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode_inside);
    assert_ne!(fs::metadata("/proc/thread-self/ns/net").unwrap().ino(), inode_inside);

    match Command::new("ip").args(["netns", "exec", &name, "readlink", "/proc/self/ns/net"]).output() {
        Ok(out) => assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), format!("net:[{inode_inside}]")),
        Err(_) => skip_part(Needs::Peers, "needs the program `ip`"),
    }
    let Err(NetnsError::System { source, .. }) = Namespace::create("named") else {
        panic!("a second one of that name")
    };
    assert_eq!(source.raw_os_error(), Some(libc::EEXIST));
    // The failed one has not taken the first one's name.
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode_inside);
    assert!(matches!(Namespace::create("no/label"), Err(NetnsError::BadName { .. })));

    drop(ns);
    assert!(!path.exists());
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&name));
    let again = Namespace::create("named").unwrap();
    again.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn failure_half_way_and_dropping_leave_nothing() {
    if !root() {
        return;
    }
    let ours = |label: &str| {
        let start = format!("bw-{}-", std::process::id());
        let entries = fs::read_dir("/run/netns")
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap());
        entries.filter(|name| name.starts_with(&start) && name.contains(label)).count()
    };
    let hosts = TwoHosts::create(&labelled("nothing")).unwrap();
    assert_eq!(ours("-nothing-"), 2);
    // The link's other end goes with this one's namespace, once the kernel has got round to it.
    let fd_b = hosts.ns_b;
    drop(hosts.ns_a);
    assert!((0..PATIENCE.as_millis()).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        fd_b.link("eth0").is_err()
    }));
    drop(fd_b);
    assert_eq!(ours("-nothing-"), 0);

    // An MTU that the kernel refuses, when both namespaces are there already.
    let refused = LinkConfig { mtu: 1 << 20, ..LinkConfig::default() };
    let error = TwoHosts::create(&TwoHostsConfig { link: refused, ..labelled("refused") }).unwrap_err();
    assert!(error.to_string().contains("veth"), "{error}");
    assert_eq!(ours("-refused-"), 0);
}

#[test]
fn programs_and_closures_run_inside() {
    if !root() {
        return;
    }
    let (ns, other) = (Namespace::anonymous().unwrap(), Namespace::anonymous().unwrap());
    assert_eq!(ns.name(), None);
    let pair = VethPair::create(&ns, "left", &other, "right", &LinkConfig::default()).unwrap();
    assert!(!pair.a.up && pair.a.mac != pair.b.mac);
    let mut command = Command::new("cat");
    command.arg("/proc/self/net/dev").stdout(Stdio::piped());
    let mut texts = Vec::new();
    for ns in [&ns, &other] {
        let mut child = ns.spawn_in(&mut command).unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        texts.push(text);
    }
    assert!(texts[0].contains("left:") && !texts[0].contains("right:"), "{}", texts[0]);
    assert!(texts[1].contains("right:") && !texts[1].contains("left:"), "{}", texts[1]);

    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ns.enter(|| panic!("inside"))));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
    ns.delete_link("left").unwrap();
    assert!(other.link("right").is_err());
    let long = "a-name-of-sixteen";
    assert!(matches!(
        VethPair::create(&ns, long, &other, "b", &LinkConfig::default()),
        Err(NetnsError::BadName { .. })
    ));
}

/// Set for the process that the next test kills.
const VICTIM: &str = "BAREWIRE_NETNS_TEST_VICTIM";

#[test]
#[ignore = "the process that `a_killed_process_is_swept` starts and kills"]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let hosts = TwoHosts::create(&labelled("victim")).unwrap();
    println!("\nNAME {}", hosts.ns_a.name().unwrap());
    println!("NAME {}", hosts.ns_b.name().unwrap());
    std::io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

/// Starts a process that makes namespaces, kills it and sweeps until they are gone; whether it was us who swept them: others on this
/// machine do so, too.
fn kill_and_sweep(dir: &Path) -> bool {
    // Ours, from a process that died between making the file and mounting on it.
    let unborn = dir.join(format!("bw-8388608-1-unborn-{}", std::process::id()));
    fs::write(&unborn, "").unwrap();

    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let names: Vec<String> =
        lines.filter_map(|line| Some(line.strip_prefix("NAME ")?.to_string())).take(2).collect();
    assert_eq!(names.len(), 2, "{names:?}");

    // While it lives, a sweep leaves it alone.
    let swept = sweep_stale().unwrap();
    assert!(names.iter().all(|name| dir.join(name).exists() && !swept.contains(name)), "{swept:?}");
    assert!(!unborn.exists());

    victim.kill().unwrap();
    // Its state is `Z` now or soon: dead, and not yet waited for.
    let mut gone = Vec::new();
    for _ in 0..PATIENCE.as_millis() {
        gone.extend(sweep_stale().unwrap());
        if names.iter().all(|name| !dir.join(name).exists()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    victim.wait().unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(names.iter().all(|name| !dir.join(name).exists() && !mounts.contains(name)));
    names.iter().all(|name| gone.contains(name))
}

#[test]
fn a_killed_process_is_swept() {
    if !root() {
        return;
    }
    let living = Namespace::create("living").unwrap();
    let dir = Path::new("/run/netns");
    // Not ours, though it looks it: a name that we do not make, of a process that is not there.
    let foreign = dir.join(format!("bw-8388608-1-NotOurs-{}", std::process::id()));
    fs::write(&foreign, "").unwrap();
    assert!(
        (0..5).any(|_| kill_and_sweep(dir)),
        "others were faster each time, or nobody said what was swept"
    );

    assert!(foreign.exists() && dir.join(living.name().unwrap()).exists());
    fs::remove_file(&foreign).unwrap();
    // The one that lives works still.
    living.set_up("lo").unwrap();
    let peer: SocketAddr = socket(&living, Ipv4Addr::LOCALHOST.into()).local_addr().unwrap();
    assert!(peer.ip().is_loopback());
}
