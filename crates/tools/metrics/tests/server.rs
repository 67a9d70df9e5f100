//! The endpoint: what it says, and what it puts up with.

use barewire_engine::{CounterKind, CountersPage, counters_path};
use barewire_metrics::{CONNECTIONS_MAX, CONNECTIONS_PER_PEER, Format, MetricsServer, Page, Which, render};
use barewire_testing::{Needs, skip};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A page of this test's own.
fn page(tag: &str) -> (String, CountersPage, Vec<barewire_engine::CounterSlot>) {
    let name = format!("metrics-test-{tag}-{}", std::process::id());
    let mut page = CountersPage::create(counters_path(&name).unwrap(), 64).unwrap();
    let mut slots = Vec::new();
    for (counter, kind, value) in [
        ("port.rx_frames", CounterKind::Counter, 41),
        ("port.rx_bytes", CounterKind::Counter, 4_100),
        ("port.drop.truncated", CounterKind::Counter, 2),
        ("port.drop.bad_crc", CounterKind::Counter, 0),
        ("engine.0.max_cycle_ns", CounterKind::Gauge, 2_500_000),
        ("transport.bytes_sent", CounterKind::Counter, 17),
        ("applications.count", CounterKind::Gauge, 1),
        ("switch0.port1.tx_dropped", CounterKind::Counter, 1),
        ("feed_channel.901.line_a.lost", CounterKind::Counter, 3),
        ("source.0.not_our_mac", CounterKind::Counter, 4),
        ("a.name.of.tomorrow", CounterKind::Counter, 5),
    ] {
        let slot = page.register(counter, kind).unwrap();
        slot.set(value);
        slots.push(slot);
    }
    (name, page, slots)
}

fn start(name: &str) -> MetricsServer {
    MetricsServer::start(([127, 0, 0, 1], 0).into(), Which::Named(vec![name.to_owned()])).unwrap()
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // It may have been refused half-way.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// As many connections as one address may have, from this one of the loopback.
fn from(ip: [u8; 4], address: SocketAddr) -> Vec<TcpStream> {
    let connect = |_| {
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
        let socket = socket.unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((ip, 0))).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        TcpStream::from(socket)
    };
    (0..CONNECTIONS_PER_PEER).map(connect).collect()
}

fn get(address: SocketAddr, path: &str, accept: &str) -> String {
    ask(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n").as_bytes(),
    )
}

#[test]
fn a_scrape_has_what_is_on_the_page_in_the_wanted_form() {
    let (name, _page, slots) = page("scrape");
    let server = start(&name);
    let plain = get(server.address(), "/metrics", "*/*");
    let (head, body) = plain.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        body.contains(&format!(
            "barewire_port_rx_frames_total{{name=\"{name}\",engine=\"0\",port=\"0\"}} 41\n"
        )),
        "{body}"
    );
    assert!(body.contains("engine=\"0\",port=\"0\",reason=\"truncated\"} 2\n") && !body.contains("# EOF"));
    assert!(body.contains("barewire_page_unregistered") && !body.contains("tomorrow"));
    let open = get(server.address(), "/metrics", "application/openmetrics-text;version=1.0.0");
    assert!(
        open.contains("application/openmetrics-text; version=1.0.0") && open.ends_with("# EOF\n"),
        "{open}"
    );
    // It is looked at again, not for ever the same.
    slots[0].set(42);
    std::thread::sleep(Duration::from_millis(250));
    assert!(get(server.address(), "/metrics", "*/*").contains("} 42\n"));
}

#[test]
fn other_paths_and_methods_are_told_so() {
    let (name, _page, _slots) = page("paths");
    let server = start(&name);
    assert!(get(server.address(), "/", "*/*").contains("/metrics"));
    assert!(get(server.address(), "/etc/passwd", "*/*").starts_with("HTTP/1.1 404"));
    assert!(get(server.address(), "/metrics/../x", "*/*").starts_with("HTTP/1.1 404"));
    let post = ask(
        server.address(),
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    );
    assert!(post.starts_with("HTTP/1.1 405") && post.contains("allow: GET, HEAD"), "{post}");
    let head = ask(server.address(), b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    // A page that is not there is no error: its engine may come yet.
    let other = start("metrics-test-nobody");
    assert!(get(other.address(), "/metrics", "*/*").starts_with("HTTP/1.1 200"));
}

#[test]
fn hostile_clients_are_harmless() {
    let (name, _page, _slots) = page("hostile");
    let server = start(&name);
    let address = server.address();
    let long = [b"GET /".to_vec(), vec![b'a'; 1 << 20]].concat();
    let many: String = (0..10_000).map(|i| format!("X-{i}: y\r\n")).collect();
    let many = format!("GET /metrics HTTP/1.1\r\n{many}\r\n");
    for (request, status) in [
        (&long[..], "HTTP/1.1 431"),
        (many.as_bytes(), "HTTP/1.1 431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP/1.1 400"),
        // Another protocol: there is no answer that its client would read.
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
        (b"GET /metrics HTTP/9.9\r\n\r\n", "HTTP/1.1 400"),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "HTTP/1.1 400"),
        // A body that is none: the head was good, and nobody reads further.
        (
            b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nzzzz",
            "HTTP/1.1 200",
        ),
        (b"GET \x00 HTTP/1.1\r\n\r\n", "HTTP/1.1 400"),
    ] {
        let answer = ask(address, request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]);
        assert_eq!(answer.get(..12).unwrap_or(&answer), status, "{shown:?}: {answer}");
    }
    // As many silent ones as there are places, and some more: the oldest give way to who asks.
    let silent: Vec<TcpStream> =
        (0..CONNECTIONS_MAX + 8).map(|_| TcpStream::connect(address).unwrap()).collect();
    for _ in 0..3 {
        assert!(get(address, "/metrics", "*/*").starts_with("HTTP/1.1 200"), "whoever asks is answered");
    }
    let open = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        stream.read(&mut [0]).is_err_and(|e| e.kind() != std::io::ErrorKind::ConnectionReset)
    };
    let left = silent.iter().filter(|stream| open(stream)).count();
    assert!(left < CONNECTIONS_PER_PEER, "one address has {left} places");
    assert!(silent.iter().take(CONNECTIONS_MAX).all(|stream| !open(stream)), "the oldest went first");
    // Another address has places of its own, and takes none from one that talks.
    let mut talking = TcpStream::connect(address).unwrap();
    talking.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head = [0; 12];
    talking.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    talking.read_exact(&mut head).unwrap();
    let others: Vec<TcpStream> = (2..8).flat_map(|last| from([127, 0, 0, last], address)).collect();
    assert_eq!(others.len(), 6 * CONNECTIONS_PER_PEER);
    assert!(get(address, "/metrics", "*/*").starts_with("HTTP/1.1 200"));
    talking.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut rest = String::new();
    talking.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches("HTTP/1.1 200").count(), 1, "it is not silent: {rest}");
    drop((silent, others));
    // Dropping it ends it, whoever is connected.
    let kept = TcpStream::connect(address).unwrap();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    drop(kept);
}

#[test]
fn a_client_that_never_ends_its_head_is_ended() {
    let (name, _page, _slots) = page("slow");
    let server = start(&name);
    // Before it can be seen: its time begins when it is.
    let before = barewire_measure::stamp();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /metrics HT").unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let waited = barewire_measure::stamp().since(before).as_secs_f64();
    // Two seconds, but for a machine that is busy; far less than a connection lives that does as it should.
    assert!((1.5..60.0).contains(&waited), "{waited} s");
    // One that has asked may be silent for longer.
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head = [0; 12];
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request).unwrap();
    stream.read_exact(&mut head).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches("HTTP/1.1 200").count(), 1, "{rest}");
}

#[test]
fn there_are_no_more_pages_and_counters_than_can_be_shown() {
    use barewire_metrics::{COUNTERS_MAX, PAGES_MAX};
    let tag = std::process::id();
    let name = |n: usize| format!("metrics-test-many-{tag}-{n:03}");
    let make = |n: usize| {
        let mut page = CountersPage::create(counters_path(&name(n)).unwrap(), 4).unwrap();
        let slot = page.register("port.rx_frames", CounterKind::Counter).unwrap();
        (page, slot)
    };
    let _pages: Vec<_> = (0..PAGES_MAX + 3).map(make).collect();
    let all = Page::look_at(&Which::All);
    assert_eq!(all.pages.len(), PAGES_MAX);
    assert!(all.left_out >= 3, "{}", all.left_out);
    assert!(all.pages.is_sorted_by_key(|page| &page.name));
    let text = render(&all, Format::Prometheus);
    assert!(text.contains(&format!("\nbarewire_pages_left_out {}\n", all.left_out)), "{text}");
    let named = Page::look_at(&Which::Named((0..PAGES_MAX + 3).map(name).collect()));
    assert_eq!((named.pages.len(), named.left_out), (PAGES_MAX, 3));

    let big = format!("metrics-test-big-{tag}");
    let mut page = CountersPage::create(counters_path(&big).unwrap(), COUNTERS_MAX + 5).unwrap();
    let counter = |n| page.register(&format!("switch0.port{n}.rx_frames"), CounterKind::Counter).unwrap();
    let _slots: Vec<_> = (0..COUNTERS_MAX + 5).map(counter).collect();
    let page = Page::look(&big).unwrap();
    assert_eq!((page.counters.len(), page.left_out), (COUNTERS_MAX, 5));
}

/// Anybody may write to /dev/shm, with any name.
#[test]
fn pages_that_others_put_where_everybody_may_are_not_shown() {
    use std::os::unix::fs::chown;
    if !barewire_testing::root() {
        return;
    }
    let name = format!("metrics-test-foreign-{}", std::process::id());
    let path = format!("/dev/shm/barewire-{name}.counters");
    let _page = CountersPage::create(&path, 4).unwrap();
    let shown = || Page::look_at(&Which::All).pages.iter().any(|page| page.name == name);
    assert!(shown(), "it is ours");
    chown(&path, Some(4711), None).unwrap();
    assert!(!shown());
    // Who asks for it by its name gets it.
    assert_eq!(Page::look_at(&Which::Named(vec![name.clone()])).pages.len(), 1);
    std::fs::remove_file(&path).unwrap();
}

/// promtool (Debian: `prometheus`) is the judge of the plain form.
#[test]
fn promtool_finds_nothing_to_complain_about() {
    let (name, _page, _slots) = page("promtool");
    let text = render(&Page::look_at(&Which::Named(vec![name])), Format::Prometheus);
    assert!(text.lines().count() > 20, "{text}");
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return skip(Needs::Tools, "promtool is not installed (Debian package prometheus)");
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.trim().is_empty(), "{said}\n{text}");
}
