//! The endpoint: what it says, and what it puts up with.

use barewire_engine::{CounterKind, CountersPage, counters_path};
use barewire_metrics::{CONNECTIONS_MAX, Format, MetricsServer, Page, Which, render};
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
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may have been refused half-way.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
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
        body.contains(&format!("barewire_port_rx_frames_total{{name=\"{name}\",engine=\"0\"}} 41\n")),
        "{body}"
    );
    assert!(body.contains("engine=\"0\",reason=\"truncated\"} 2\n") && !body.contains("# EOF"));
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
    for request in [
        &long[..],
        many.as_bytes(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nzzzz",
        b"GET \x00 HTTP/1.1\r\n\r\n",
    ] {
        let answer = ask(address, request);
        assert!(!answer.starts_with("HTTP/1.1 200") || answer.contains("barewire_"), "{answer}");
    }
    // As many silent ones as there are places, and some more: they are turned away, and it goes on when some have left.
    let silent: Vec<TcpStream> =
        (0..CONNECTIONS_MAX + 8).map(|_| TcpStream::connect(address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(100));
    let turned_away = get(address, "/metrics", "*/*");
    assert_eq!(turned_away, "", "every place is taken");
    drop(silent);
    let came_back = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        get(address, "/metrics", "*/*").starts_with("HTTP/1.1 200")
    });
    assert!(came_back, "the places are free again");
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
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /metrics HT").unwrap();
    let before = barewire_measure::stamp();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let waited = barewire_measure::stamp().since(before).as_secs_f64();
    assert!((5.0..25.0).contains(&waited), "{waited} s");
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
        return eprintln!("SKIPPED: promtool is not installed (Debian package prometheus)");
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.trim().is_empty(), "{said}\n{text}");
}
