//! Whole labs over real namespaces. These tests need root; without it they say so and prove nothing.

use barewire_engine::{StopFlag, now};
use barewire_lab::{CaptureLimits, Lab, LabError, Phase, Programs, SwitchKind, Topology, serve_link_node};
use barewire_port::PcapReader;
use barewire_testing::{Needs, comes_true, have, root};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A test of this binary that plays the link node's process; `lab` is told in its environment.
fn programs(lab: &str) -> Programs {
    let exe = std::env::current_exe().unwrap().into_os_string();
    let words = ["--exact", "link_node", "--ignored", "--nocapture"].map(OsString::from);
    Programs {
        link_node: std::iter::once(exe).chain(words).collect(),
        switch: Vec::new(),
        switch_commands: Vec::new(),
        environment: vec![(CHILD.into(), "1".into()), (LAB.into(), lab.into())],
    }
}

/// Set for every process of a lab: whose it is.
const LAB: &str = "BAREWIRE_LAB_TEST_LAB";
/// Set for processes that tests start.
const CHILD: &str = "BAREWIRE_LAB_TEST_CHILD";

#[test]
#[ignore = "the process that labs of other tests start"]
fn link_node() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // Ended by a signal: the flag is never raised.
    let stop = StopFlag::new().unwrap();
    serve_link_node(std::io::stdin(), std::io::stdout(), &stop).unwrap();
}

/// A lab of one test: its own name, its own folder, and removed when the test ends, however.
struct Bench {
    lab: Lab,
    name: String,
    folder: PathBuf,
    interfaces: BTreeSet<String>,
}

fn interfaces_here() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

fn namespaces(lab: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.flatten().map(|e| e.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&format!("bw.{lab}."))).collect()
}

impl Bench {
    fn new(test: &str) -> Bench {
        let name = format!("{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(format!("barewire-lab-test-{name}"));
        Bench { lab: Lab::new(&folder, programs(&name)), name, folder, interfaces: interfaces_here() }
    }

    fn topology(&self, rest: &str) -> Topology {
        let text = format!("name = \"{}\"\n{rest}", self.name);
        Topology::parse(&text, "test.toml", &self.folder).unwrap()
    }

    fn nothing_is_left(&self) {
        assert_eq!(namespaces(&self.name), Vec::<String>::new());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&format!("bw.{}.", self.name)));
        assert_eq!(interfaces_here(), self.interfaces);
        let files = fs::read_dir(&self.folder).map_or(0, Iterator::count);
        assert_eq!(files, 0, "files in {}", self.folder.display());
        for dir in ["/run/barewire", "/dev/shm"] {
            let Ok(entries) = fs::read_dir(dir) else { continue };
            let ours = |e: &fs::DirEntry| e.file_name().to_string_lossy().contains(&self.name);
            assert_eq!(entries.flatten().filter(ours).count(), 0, "pages in {dir}");
        }
        assert_eq!(processes_of(&self.name), Vec::<u32>::new());
    }

    fn socket(&self, host: &str, address: &str) -> UdpSocket {
        let address: SocketAddr = format!("{address}:0").parse().unwrap();
        let namespace = self.lab.namespace(&self.name, host).unwrap();
        let socket = namespace.enter(|| UdpSocket::bind(address)).unwrap().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// What the first link's node has counted. It shows that now and then, at least each time before it sleeps.
    fn counted(&self) -> Counted {
        Counted(self.lab.status(&self.name).unwrap().links.remove(0).counters)
    }
}

/// Counters of a link node by their names.
#[derive(Debug)]
struct Counted(Vec<(String, u64)>);

impl Counted {
    /// One of them; those that stand at zero are not shown.
    fn of(&self, name: &str) -> u64 {
        self.0.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v)
    }

    /// How many frames leave at the second end for those that came in at the first, sooner or later.
    fn due(&self) -> u64 {
        let drops = self.0.iter().filter(|(n, _)| n.starts_with("forward.drop."));
        let came = self.of("forward.received") + self.of("forward.duplicated");
        came.saturating_sub(drops.map(|(_, v)| v).sum())
    }
}

/// How long a machine that is busy with something else may take for what takes no time.
const PATIENCE: Duration = Duration::from_secs(60);

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.lab.down(&self.name);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Processes that a lab of this name started, by what they were given; ours, which only starts them, left out.
fn processes_of(lab: &str) -> Vec<u32> {
    let mark = format!("{LAB}={lab}");
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|e| e.file_name().into_string().ok()?.parse::<u32>().ok());
    let started = |pid: &u32| {
        let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split('\0').any(|variable| variable == mark)
    };
    pids.filter(started).collect()
}

const PAIR: &str = r#"
seed = 7
static_neighbours = true
[[host]]
name = "h1"
addresses = ["10.0.0.1/24"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]
[[link]]
ends = ["h1", "h2"]
name = "wire"
"#;

#[test]
fn delay_is_seen_as_declared_and_down_leaves_nothing() {
    if !root() {
        return;
    }
    let bench = Bench::new("delay");
    let topology =
        bench.topology(&format!("{PAIR}forward = {{ delay_us = 8000 }}\nreverse = {{ delay_us = 2000 }}\n"));
    let state = bench.lab.up(&topology).unwrap();
    assert_eq!((state.phase, state.nodes.len(), state.processes.len()), (Phase::Up, 2, 1));
    assert_eq!(bench.lab.list(), std::slice::from_ref(&bench.name));
    // The one that must be gone in the end is seen while it is there.
    assert_eq!(processes_of(&bench.name), [state.processes[0].pid]);

    let (a, b) = (bench.socket("h1", "10.0.0.1"), bench.socket("h2", "10.0.0.2"));
    let to = b.local_addr().unwrap();
    let mut ways = [Vec::new(), Vec::new()];
    let mut buffer = [0xa5; 64];
    for _ in 0..20 {
        let sent = now();
        a.send_to(b"ping", to).unwrap();
        let (_, from) = b.recv_from(&mut buffer).unwrap();
        let turned = now();
        b.send_to(b"pong", from).unwrap();
        a.recv(&mut buffer).unwrap();
        ways[0].push(turned.since(sent).as_nanos());
        ways[1].push(now().since(turned).as_nanos());
    }
    for (way, declared) in ways.iter_mut().zip([8_000_000, 2_000_000]) {
        way.sort_unstable();
        // Never early, however often the machine stopped the node; late by what a busy machine takes, most of the time perhaps.
        assert!(way[0] >= declared, "{way:?}");
        assert!(way[5] < declared + 40_000_000, "{way:?}");
    }
    let status = bench.lab.status(&bench.name).unwrap();
    assert!(status.is_whole(), "{status:?}");
    let received = || {
        let counted = bench.counted();
        (counted.of("forward.received"), counted.of("reverse.received"))
    };
    comes_true(|| received() == (20, 20));
    assert_eq!(received(), (20, 20), "{:?}", bench.counted());

    let removed = bench.lab.down(&bench.name).unwrap();
    assert_eq!((removed.namespaces.len(), removed.processes, removed.left.len()), (3, 1, 0), "{removed:?}");
    bench.nothing_is_left();
    assert!(!state.processes[0].is_alive());
    // And again, and of one that never was.
    assert!(!bench.lab.down(&bench.name).unwrap().was_there());
    bench.nothing_is_left();
}

/// Sends numbered datagrams from h1 to h2 and says which arrive.
fn which_arrive(bench: &Bench, count: u32) -> Vec<u32> {
    let (a, b) = (bench.socket("h1", "10.0.0.1"), bench.socket("h2", "10.0.0.2"));
    let to = b.local_addr().unwrap();
    b.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    b.set_nonblocking(true).unwrap();
    // A node that had to wait for a core sends everything at once.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&b, 8 << 20).unwrap();
    let mut got = Vec::new();
    let mut buffer = [0; 64];
    let mut read = |got: &mut Vec<u32>| {
        let n = b.recv(&mut buffer).ok()?;
        got.push(u32::from_be_bytes(buffer[..n].try_into().unwrap()));
        Some(())
    };
    for i in 0..count {
        a.send_to(&i.to_be_bytes(), to).unwrap();
        // Not so many at once that a socket or a ring overflows.
        if i % 16 == 15 {
            std::thread::sleep(Duration::from_millis(1));
            while read(&mut got).is_some() {}
        }
    }
    // A node that waits for a core is as quiet as one that has nothing more: what it counts tells them apart.
    comes_true(|| {
        while read(&mut got).is_some() {}
        let counted = bench.counted();
        counted.of("forward.received") == u64::from(count) && counted.due() == got.len() as u64
    });
    // And what should not come has time to.
    b.set_nonblocking(false).unwrap();
    while read(&mut got).is_some() {}
    got
}

#[test]
fn loss_is_as_declared_and_a_seed_replays() {
    if !root() {
        return;
    }
    let bench = Bench::new("loss");
    let lossy = |seed: u64| {
        bench.topology(&format!(
            "{}trace = \"trace\"\nforward = {{ loss = 0.1, duplicate = 0.05 }}\n",
            PAIR.replace("seed = 7", &format!("seed = {seed}"))
        ))
    };
    let run = |topology: &Topology| {
        bench.lab.up(topology).unwrap();
        let got = which_arrive(&bench, 1000);
        bench.lab.down(&bench.name).unwrap();
        // What the node wrote down stays, and says what happened.
        let traces = ["forward", "reverse"].map(|way| bench.folder.join(format!("trace.{way}")));
        let [forward, reverse] = traces.each_ref().map(|path| fs::read_to_string(path).unwrap());
        traces.iter().for_each(|path| fs::remove_file(path).unwrap());
        assert_eq!(reverse.lines().count(), 1, "nobody answered: {reverse}");
        let lines: Vec<&str> = forward.lines().skip(1).collect();
        let told = (0..1000).filter(|i| !lines[*i as usize].contains(" lost ")).collect::<BTreeSet<u32>>();
        assert_eq!((lines.len(), told), (1000, got.iter().copied().collect()));
        bench.nothing_is_left();
        got
    };
    let first = run(&lossy(7));
    let lost = 1000 - first.iter().collect::<BTreeSet<_>>().len();
    // 100 expected, deviation 9.5: six of them.
    assert!((43..=157).contains(&lost), "{lost} of 1000 lost");
    let copies = first.len() - (1000 - lost);
    assert!((10..=90).contains(&copies), "{copies} copies");
    assert_eq!(first, run(&lossy(7)), "the same seed and the same frames");
    assert_ne!(first, run(&lossy(8)));
}

#[test]
fn tcp_and_large_frames_pass_a_link_node_of_either_kind() {
    if !root() {
        return;
    }
    for (kind, mtu) in [("packet", 9000), ("xdp", 3000)] {
        let bench = Bench::new(&format!("tcp-{kind}"));
        // A rate that the queue has to smooth, a little loss, frames out of order: TCP copes, if frames are whole.
        let link = format!(
            "mtu_bytes = {mtu}\nport = \"{kind}\"\nboth = {{ delay_us = 50, loss = 0.002, reorder = 0.002, rate_bps = \
             400_000_000, ecn_frames = 50 }}\n"
        );
        bench.lab.up(&bench.topology(&format!("{PAIR}{link}"))).unwrap();
        let inside = |host: &str| bench.lab.namespace(&bench.name, host).unwrap();
        let (h1, h2) = (inside("h1"), inside("h2"));
        let listener = h2.enter(|| TcpListener::bind("10.0.0.2:7")).unwrap().unwrap();
        let sent: Vec<u8> = (0..2_000_000u32).map(|i| (i ^ (i >> 8)) as u8).collect();
        let received = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut received = Vec::new();
                stream.read_to_end(&mut received).unwrap();
                received
            });
            let mut stream = h1.enter(|| TcpStream::connect("10.0.0.2:7")).unwrap().unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&sent).unwrap();
            drop(stream);
            reader.join().unwrap()
        });
        assert!(received == sent, "{kind}: {} of {} bytes, or others", received.len(), sent.len());
        // The last counters come a little after the last frame.
        comes_true(|| bench.counted().of("forward.sent_bytes") > 2_000_000);
        let counted = bench.counted();
        let (bytes, frames) = (counted.of("forward.sent_bytes"), counted.of("forward.sent").max(1));
        // Frames longer than an ordinary Ethernet's, so no segmentation was left to anybody.
        assert!(bytes > 2_000_000 && bytes / frames > 1500, "{kind}: {counted:?}");
        drop((h1, h2, listener));
        bench.lab.down(&bench.name).unwrap();
        bench.nothing_is_left();
    }
}

#[test]
fn a_bridge_joins_and_routes_lead_through_a_router() {
    if !root() {
        return;
    }
    let bench = Bench::new("bridge");
    let topology = bench.topology(
        r#"
[[switch]]
name = "s1"
kind = "bridge"
[[group]]
prefix = "c"
count = 3
subnet = "10.1.0.0/24"
switch = "s1"
[[host]]
name = "r"
forwarding = true
interface = [{ name = "lan", addresses = ["10.1.0.254/24", "fd01::fe/64"] }, { name = "wan", addresses = ["10.2.0.254/24"] }]
[[host]]
name = "far"
addresses = ["10.2.0.1/24"]
route = [{ to = "default", via = "10.2.0.254" }]
[[link]]
ends = ["r:lan", "s1:9"]
mtu_bytes = 1400
[[link]]
ends = ["far", "r:wan"]
queues = 2
tx_queue_frames = 77
offloads = { rx = true, tx = true, gro = true }
[[host]]
name = "six"
addresses = ["10.1.0.6/24", "fd01::6/64"]
route = [{ to = "10.2.0.0/16", via = "10.1.0.254" }]
[[link]]
ends = ["six", "s1"]
"#,
    );
    let state = bench.lab.up(&topology).unwrap();
    assert_eq!(state.processes.len(), 0, "a lab without impairments needs none");
    let talk = |from: (&str, &str), to: (&str, &str)| {
        let (a, b) = (bench.socket(from.0, from.1), bench.socket(to.0, to.1));
        a.send_to(b"over", b.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let (n, peer) = b.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..n], peer), (&b"over"[..], a.local_addr().unwrap()));
    };
    talk(("c1", "10.1.0.1"), ("c2", "10.1.0.2"));
    talk(("c3", "10.1.0.3"), ("c1", "10.1.0.1"));
    talk(("six", "10.1.0.6"), ("far", "10.2.0.1"));
    talk(("six", "[fd01::6]"), ("r", "[fd01::fe]"));
    let far = bench.lab.namespace(&bench.name, "far").unwrap();
    let link = far.link("eth0").unwrap();
    assert_eq!((link.mtu, link.tx_queues, link.rx_queues), (1500, 2, 2));
    let offloads = far.offloads("eth0").unwrap();
    assert!(offloads.rx_checksum && offloads.tx_checksum && offloads.gro && !offloads.tso && !offloads.vlan);
    let router = bench.lab.namespace(&bench.name, "r").unwrap();
    assert_eq!(router.link("lan").unwrap().mtu, 1400);
    // Who has no IPv6 address speaks none.
    let silent =
        far.enter(|| fs::read_to_string("/proc/thread-self/net/if_inet6")).unwrap().unwrap_or_default();
    assert_eq!(silent, "");
    drop((far, router));
    bench.lab.down(&bench.name).unwrap();
    bench.nothing_is_left();
}

#[test]
fn exec_has_the_code_the_group_and_the_signals() {
    if !root() {
        return;
    }
    let bench = Bench::new("exec");
    bench.lab.up(&bench.topology(PAIR)).unwrap();
    let sh = |script: &str| -> [OsString; 3] { ["sh".into(), "-c".into(), script.into()] };
    let code = |script: &str| {
        let running = bench.lab.exec(&bench.name, "h1", &sh(script)).unwrap();
        running.wait(|| None).unwrap()
    };
    assert_eq!(code("exit 7"), 7);
    assert_eq!(code("grep -q eth0 /proc/net/dev && ! grep -q s1 /proc/net/dev"), 0);
    assert_eq!(code("kill -TERM $$"), 128 + 15);
    // A job of its own: its group is itself. And a signal reaches all of it.
    assert_eq!(code("test $(ps -o pgid= -p $$ 2>/dev/null || cut -d' ' -f5 /proc/$$/stat) -eq $$"), 0);
    let flag = bench.folder.join("started");
    // A signal that nobody has us ignore: a shell that runs this in the background does so with Ctrl-C's. And not for ever.
    let script = format!(
        "trap 'exit 9' USR1; touch {}; i=0; while [ $i -lt 6000 ]; do i=$((i+1)); sleep 0.01; done",
        flag.display()
    );
    let running = bench.lab.exec(&bench.name, "h1", &sh(&script)).unwrap();
    let mut sent = false;
    let code = running.wait(|| {
        if sent || !flag.exists() {
            return None;
        }
        sent = true;
        Some(libc::SIGUSR1)
    });
    assert_eq!(code.unwrap(), 9);

    let error = bench.lab.exec(&bench.name, "h3", &sh("true")).unwrap_err();
    assert!(
        error.to_string().contains("did you mean `h1`?") || error.to_string().contains("known: h1, h2"),
        "{error}"
    );
    let error = bench.lab.exec("exce", "h1", &sh("true")).unwrap_err();
    assert!(matches!(error, LabError::NoSuch { what: "lab", .. }), "{error}");
    let error = bench.lab.exec(&bench.name, "h1", &["no-such-program".into()]).unwrap_err();
    assert!(matches!(error, LabError::Program { .. }), "{error}");

    // What was left running inside goes with the lab.
    let left = bench.lab.exec(&bench.name, "h2", &sh("sleep 60 & wait")).unwrap();
    let pid = left.pid();
    let removed = bench.lab.down(&bench.name).unwrap();
    assert!(removed.processes >= 1, "{removed:?}");
    assert!(!Path::new(&format!("/proc/{pid}/ns/net")).exists());
    fs::remove_file(&flag).unwrap();
    bench.nothing_is_left();
}

#[test]
fn a_second_lab_of_the_name_is_refused_and_a_failed_one_leaves_nothing() {
    if !root() {
        return;
    }
    let bench = Bench::new("twice");
    let impaired = bench.topology(&format!("{PAIR}both = {{ delay_us = 10 }}\n"));
    bench.lab.up(&impaired).unwrap();
    let error = bench.lab.up(&impaired).unwrap_err();
    assert!(matches!(error, LabError::Exists { .. }) && error.hint().unwrap().contains("down"), "{error}");
    assert_eq!(namespaces(&bench.name).len(), 3, "the first one is untouched");
    // A damaged file hides nothing from `down`.
    fs::write(bench.folder.join(format!("{}.json", bench.name)), "{").unwrap();
    assert!(matches!(bench.lab.up(&impaired), Err(LabError::Exists { .. })));
    assert!(matches!(bench.lab.status(&bench.name), Err(LabError::State { .. })));
    let removed = bench.lab.down(&bench.name).unwrap();
    assert!(removed.had_state && removed.namespaces.len() == 3 && removed.processes == 1, "{removed:?}");
    bench.nothing_is_left();

    // A node that ends at once, and one that is not there.
    for (program, said) in [("false", "exit status: 1"), ("no-such-program", "No such file")] {
        let broken = Programs { link_node: vec![program.into()], ..programs(&bench.name) };
        let error = Lab::new(&bench.folder, broken).up(&impaired).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("link node of wire") && text.contains(said), "{text}");
        bench.nothing_is_left();
    }
    // What the kernel refuses, half way through.
    let mut refused = impaired.clone();
    let addresses = &mut refused.hosts[1].interfaces[0].addresses;
    addresses.push(addresses[0]);
    assert!(matches!(bench.lab.up(&refused), Err(LabError::Host(_))));
    bench.nothing_is_left();
}

#[test]
fn who_wants_no_more_of_it_finds_nothing_left() {
    if !root() {
        return;
    }
    let bench = Bench::new("enough");
    let topology = bench.topology(&format!("{PAIR}both = {{ delay_us = 10 }}\n"));
    let mut told = Vec::new();
    bench
        .lab
        .up_with(&topology, &mut |done, total, what| {
            told.push((done, total, what.to_owned()));
            true
        })
        .unwrap();
    let (last, total) = told.last().map(|(done, total, _)| (*done, *total)).unwrap();
    assert_eq!(last, total, "{told:?}");
    assert!(told.is_sorted_by_key(|(done, ..)| *done), "{told:?}");
    assert!(told.iter().any(|(.., what)| what == "link node of wire"), "{told:?}");
    let mut last = (0, 0);
    bench
        .lab
        .down_with(&bench.name, &mut |done, total, _| {
            last = (done, total);
            true
        })
        .unwrap();
    assert_eq!(last, (4, 4), "a process and three namespaces");
    bench.nothing_is_left();
    // After each step, in turn.
    for end in 0..total {
        let error = bench.lab.up_with(&topology, &mut |done, _, _| done < end).unwrap_err();
        assert!(matches!(error, LabError::Interrupted), "{end}: {error}");
        bench.nothing_is_left();
    }
    // A removal that was cut short goes on.
    bench.lab.up(&topology).unwrap();
    let cut = bench.lab.down_with(&bench.name, &mut |done, _, _| done < 3);
    assert!(matches!(cut, Err(LabError::Interrupted)));
    let rest = bench.lab.down(&bench.name).unwrap();
    assert!(rest.had_state && rest.namespaces.len() == 1, "{rest:?}");
    bench.nothing_is_left();
}

#[test]
fn a_capture_has_what_passed() {
    if !root() {
        return;
    }
    let bench = Bench::new("pcap");
    bench.lab.up(&bench.topology(&format!("{PAIR}forward = {{ loss = 1.0 }}\n"))).unwrap();
    let count = |place: &str, frames: u64| {
        let file = bench.folder.join(format!("{}.pcap", place.replace(':', "-")));
        let (tell, told) = std::sync::mpsc::channel();
        let stop = StopFlag::new().unwrap();
        let captured = std::thread::scope(|scope| {
            let (file, stop_there) = (file.clone(), stop.clone());
            let bench = &bench;
            let thread = scope.spawn(move || {
                let limits = CaptureLimits { frames: Some(frames), bytes: None };
                bench.lab.pcap(&bench.name, place, &file, limits, &stop_there, move || tell.send(()).unwrap())
            });
            told.recv_timeout(PATIENCE).unwrap();
            let (a, b) = (bench.socket("h1", "10.0.0.1"), bench.socket("h2", "10.0.0.2"));
            for _ in 0..5 {
                a.send_to(b"there", b.local_addr().unwrap()).unwrap();
                b.send_to(b"and back", a.local_addr().unwrap()).unwrap();
                a.recv(&mut [0; 16]).unwrap();
            }
            // The limit, or this.
            std::thread::sleep(Duration::from_millis(50));
            stop.stop();
            thread.join().unwrap().unwrap()
        });
        let mut reader = PcapReader::open(&file).unwrap();
        let mut seen = Vec::new();
        while let Some(packet) = reader.next_packet().unwrap() {
            assert!(packet.ns > 1_600_000_000_000_000_000, "the kernel's stamps are since 1970");
            seen.push(packet.data[42..].starts_with(b"there"));
        }
        assert_eq!((captured.frames as usize, captured.missed), (seen.len(), 0));
        assert_eq!(captured.bytes, fs::metadata(&file).unwrap().len());
        fs::remove_file(&file).unwrap();
        seen
    };
    // At the first end everything that is sent, and what comes back; at the second nothing of what is lost.
    assert_eq!(count("wire", 1000).iter().filter(|there| **there).count(), 5);
    assert_eq!(count("h2:eth0", 1000), [false; 5]);
    assert_eq!(count("h1", 3).len(), 3);
    let stop = StopFlag::new().unwrap();
    let error = bench.lab.pcap(&bench.name, "wier", Path::new("x"), CaptureLimits::default(), &stop, || {});
    assert!(error.unwrap_err().to_string().contains("did you mean `wire`?"));
    let nowhere = bench.folder.join("no/such/folder.pcap");
    let error = bench.lab.pcap(&bench.name, "wire", &nowhere, CaptureLimits::default(), &stop, || {});
    assert!(matches!(error, Err(LabError::File { .. })), "{error:?}");
    bench.lab.down(&bench.name).unwrap();
    bench.nothing_is_left();
}

/// The binary beside this test's folder, if somebody has built it.
fn barewire() -> Result<PathBuf, &'static str> {
    let exe = std::env::current_exe().unwrap();
    let binary = exe.ancestors().nth(2).map(|folder| folder.join("barewire"));
    binary.filter(|file| file.is_file()).ok_or("needs the `barewire` binary (cargo build)")
}

#[test]
fn a_switch_of_ours_joins_eight_hosts() {
    if !root() {
        return;
    }
    let Some(binary) = have(Needs::Tools, barewire()) else { return };
    let bench = Bench::new("eight");
    let lab = Lab::new(
        &bench.folder,
        Programs { link_node: programs(&bench.name).link_node, ..Programs::of_binary(&binary) },
    );
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs/topologies/eight-hosts-switch.toml");
    let mut topology = Topology::read(&sample).unwrap();
    topology.name = bench.name.clone();
    let state = lab.up(&topology).unwrap();
    assert_eq!(state.processes.len(), 1);
    for (from, to) in [(1, 2), (2, 1), (3, 8), (8, 5)] {
        let (a, b) = (
            bench.socket(&format!("h{from}"), &format!("10.0.8.{from}")),
            bench.socket(&format!("h{to}"), &format!("10.0.8.{to}")),
        );
        // The kernel's own ARP is flooded, what follows is not.
        a.send_to(b"over the switch", b.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 64];
        let (n, peer) = b.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..n], peer), (&b"over the switch"[..], a.local_addr().unwrap()));
    }
    assert!(lab.status(&bench.name).unwrap().is_whole());
    // What its entries file may not say is told, and nothing is left.
    let mut wrong = topology.clone();
    wrong.name = format!("{}-w", bench.name);
    if let SwitchKind::Barewire { entries, .. } = &mut wrong.switches[0].kind {
        let file = bench.folder.join("wrong.txt");
        fs::write(&file, "table_add destinatoins forward 02:00:00:00:00:01 => 1\n").unwrap();
        *entries = Some(file);
    }
    let error = lab.up(&wrong).unwrap_err().to_string();
    assert!(error.contains("entries") && error.contains("destinatoins"), "{error}");
    assert_eq!(namespaces(&wrong.name), Vec::<String>::new());
    fs::remove_file(bench.folder.join("wrong.txt")).unwrap();
    let removed = lab.down(&bench.name).unwrap();
    assert_eq!((removed.namespaces.len(), removed.processes), (9, 1), "{removed:?}");
    bench.nothing_is_left();
}

/// The environment of the process that makes a lab and is killed: name and folder.
const VICTIM_NAME: &str = "BAREWIRE_LAB_TEST_NAME";
const VICTIM_FOLDER: &str = "BAREWIRE_LAB_TEST_FOLDER";

fn victim_topology(name: &str) -> Topology {
    let text = format!(
        "name = \"{name}\"\n{PAIR}both = {{ delay_us = 100 }}\n[[switch]]\nname = \"s\"\nkind = \"bridge\"\n[[group]]\nprefix = \"g\"\ncount = 4\nsubnet = \"10.9.0.0/24\"\nswitch = \"s\"\n"
    );
    Topology::parse(&text, "victim.toml", Path::new("")).unwrap()
}

#[test]
#[ignore = "the process that `whoever_made_it_may_be_killed` starts and kills"]
fn victim() {
    let (Ok(name), Ok(folder)) = (std::env::var(VICTIM_NAME), std::env::var(VICTIM_FOLDER)) else { return };
    println!("\nBEGIN");
    std::io::stdout().flush().unwrap();
    Lab::new(Path::new(&folder), programs(&name)).up(&victim_topology(&name)).unwrap();
    println!("\nUP");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

/// The process, when it has said that. Whoever drops the reader ends it: it has more to say.
fn start_victim(bench: &Bench, until: &str) -> (Child, BufReader<ChildStdout>) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored", "--nocapture"])
        .env(VICTIM_NAME, &bench.name)
        .env(VICTIM_FOLDER, &bench.folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(victim.stdout.take().unwrap());
    assert!(stdout.by_ref().lines().map_while(Result::ok).any(|line| line == until), "it said nothing");
    (victim, stdout)
}

#[test]
fn whoever_made_it_may_be_killed() {
    if !root() {
        return;
    }
    let bench = Bench::new("killed");
    // When it was done.
    let (mut victim, _stdout) = start_victim(&bench, "UP");
    victim.kill().unwrap();
    victim.wait().unwrap();
    let status = bench.lab.status(&bench.name).unwrap();
    assert!(status.is_whole(), "a lab outlives its maker: {status:?}");
    assert_eq!(which_arrive(&bench, 10).len(), 10);
    let removed = bench.lab.down(&bench.name).unwrap();
    assert_eq!((removed.namespaces.len(), removed.processes), (8, 1), "{removed:?}");
    bench.nothing_is_left();

    // In the middle, at ten places. A namespace takes a millisecond or so, the whole some hundred. A busy machine may keep us from
    // killing until all is done: it gets more turns.
    let (mut half, mut step) = (0, 0);
    while step < 10 || (half == 0 && step < 100) {
        let (mut victim, _stdout) = start_victim(&bench, "BEGIN");
        std::thread::sleep(Duration::from_millis(step % 10 * 6));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let state = bench.lab.state(&bench.name).ok();
        half += u32::from(state.is_some_and(|s| s.phase == Phase::Making));
        step += 1;
        bench.lab.down(&bench.name).unwrap();
        bench.nothing_is_left();
    }
    assert!(half > 0, "none was killed in the middle");
}
