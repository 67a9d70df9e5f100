//! Both ends over the loopback.

use super::client::{self, ClientConfig};
use super::server::serve;
use super::*;
use crate::patience::until_seen;
use barewire_base::Duration;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Runs `body` beside a server on the loopback.
fn beside<T>(body: impl FnOnce(SocketAddr) -> T) -> T {
    /// A body that fails must not leave the server, which would be waited for.
    struct Stops<'a>(&'a AtomicBool);
    impl Drop for Stops<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let serving = scope
            .spawn(|| serve(SocketAddr::from(([127, 0, 0, 1], 0)), &mut |at| tell.send(at).unwrap(), &stop));
        let stops = Stops(&stop);
        let out = body(told.recv().unwrap());
        drop(stops);
        serving.join().unwrap().unwrap();
        out
    })
}

/// On a machine with much else to do this is too little to see anything; then it takes longer.
const SHORT: Duration = Duration::from_millis(300);

fn config(server: SocketAddr, protocol: Protocol) -> ClientConfig {
    ClientConfig {
        server,
        from: None,
        protocol,
        streams: 2,
        size: 64,
        rate: None,
        duration: SHORT,
        warmup: Duration::from_millis(50),
        interval: Duration::from_millis(100),
    }
}

/// Datagrams of `config`'s warm-up: some of them may arrive when counting has begun, where the receiver has to wait for its turn.
fn warmup_of(config: &ClientConfig) -> u64 {
    let streams = u64::from(config.streams);
    let each = config.rate.unwrap() / streams * config.warmup.as_nanos() / 1_000_000_000;
    streams * (each + 1)
}

/// The row of one run.
fn row_of(protocol: Protocol, offloads: Option<bool>, run: &Ran) -> Row {
    let config = config(SocketAddr::from(([127, 0, 0, 1], 1)), protocol);
    let tell = &mut |_: &Interval| {};
    let (system, command) = ("kernel".to_owned(), "x".to_owned());
    let streams = Streams { config, system, offloads, command, tell };
    let mut row = Row::of(streams.subjects().remove(0), MEASURES, &[run.measured()]);
    streams.judge(&mut row);
    row
}

#[test]
fn streams_are_counted_at_the_receiver() {
    let once = |at, duration| {
        let mut told = 0;
        let from = Some([127, 0, 0, 1].into());
        let config = ClientConfig { from, duration, ..config(at, Protocol::Tcp) };
        let run = client::run(&config, &mut |_| told += 1).unwrap();
        assert_eq!(run.intervals.len(), told);
        run
    };
    let enough = |run: &Ran| run.mbps > 10.0 && run.packets_per_s > 10.0 && !run.intervals.is_empty();
    let run = beside(|at| until_seen(SHORT, |duration| once(at, duration), enough));
    assert!(enough(&run) && run.void.is_none(), "{run:?}");
    let told = run.received_bytes as f64 * 8.0 / 1e6 / run.seconds;
    assert!((run.mbps / told - 1.0).abs() < 0.02, "{told}: {run:?}");
    assert!(!run.intervals.is_empty() && run.intervals.iter().all(|i| i.to_s > i.from_s), "{run:?}");
    let row = row_of(Protocol::Tcp, None, &run);
    assert!(row.number("tcp_mbps") > Some(10.0), "{row:?}");
    assert!(["udp_mbps", "lost_percent"].iter().all(|key| row.number(key).is_none()), "{row:?}");
    // Both ends are this process, and it works for nobody else than its tests.
    let cpu = row.cpu.unwrap();
    let cost = row.number("cpu_ns_per_op");
    assert!(cost > Some(1_000.0) && cpu.cores > 0.0 && cpu.client_ns.is_none(), "{row:?}");
    let json = serde_json::to_value(&row).unwrap();
    assert_eq!((&json["waits"], &json["cpu_unknown"]), (&"both blocking".into(), &json!(null)), "{json}");
    assert_eq!(json["runs"][0]["intervals"].as_array().map(Vec::len), Some(run.intervals.len()));
    let text = crate::render::table(&[row]);
    for part in ["TCP Mbit/s", "128 KiB", "127.0.0.1:1", "both blocking"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn paced_datagrams_arrive_and_the_lost_are_counted() {
    let at_rate = |rate, enough: fn(&Ran) -> bool| {
        beside(|at| {
            let paced = ClientConfig { rate: Some(rate), ..config(at, Protocol::Udp) };
            let run = until_seen(
                SHORT,
                |duration| client::run(&ClientConfig { duration, ..paced.clone() }, &mut |_| {}).unwrap(),
                enough,
            );
            (run, warmup_of(&paced))
        })
    };
    let enough = |run: &Ran| run.datagrams.is_some_and(|[sent, received]| sent > 100 && received > 0);
    let (run, warmup) = at_rate(2000, enough);
    let [sent, received] = run.datagrams.unwrap();
    assert!(enough(&run) && received <= sent + warmup, "{run:?}");
    assert_eq!((run.lost(), run.received_bytes), (Some(sent.saturating_sub(received)), received * 64));
    assert!(run.behind_percent.is_some());
    // A sender that cannot keep up says so.
    let is_late = |run: &Ran| run.void.as_deref().is_some_and(|why| why.contains("late"));
    let (run, _) = at_rate(1_000_000_000, is_late);
    assert!(is_late(&run), "{run:?}");
    let row = row_of(Protocol::Udp, Some(false), &run);
    assert!(row.void.is_some() && row.number("udp_pps") > Some(0.0), "{row:?}");
    assert!(row.number("lost_percent").is_some() && row.param("offloads").as_deref() == Some("off"));
}

#[test]
fn several_clients_do_not_see_each_other() {
    let both = |at, duration| {
        let run = move |rate| {
            let config = ClientConfig { rate: Some(rate), duration, ..config(at, Protocol::Udp) };
            let run = client::run(&config, &mut |_| {}).unwrap();
            // What the other one sent would be too much for the slow one.
            let [sent, received] = run.datagrams.unwrap();
            assert!(received <= sent + warmup_of(&config), "{run:?}");
            run
        };
        std::thread::scope(|scope| {
            [500, 4000].map(|rate| scope.spawn(move || run(rate))).map(|thread| thread.join().unwrap())
        })
    };
    let apart = |[slow, fast]: &[Ran; 2]| {
        let ([slow_sent, slow], [fast_sent, fast]) = (slow.datagrams.unwrap(), fast.datagrams.unwrap());
        slow > 0 && slow_sent * 2 < fast_sent && slow < fast
    };
    let runs = beside(|at| until_seen(SHORT, |duration| both(at, duration), apart));
    assert!(apart(&runs), "{runs:?}");
    // What the server's process used is for both of them: none is told a share that nobody knows.
    let together = |run: &Ran| {
        let row = row_of(Protocol::Udp, None, run);
        row.other_end.as_ref().unwrap().cpu_unknown.is_some() && row.number("cpu_ns_per_op").is_none()
    };
    assert!(runs.iter().any(together), "{runs:?}");
}

#[test]
fn strangers_do_no_harm() {
    beside(|at| {
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"bwRC\x01\x10\0\x14{\"data\":{\"token\":5}}", &[0xff; 9000]]
        {
            let mut stranger = TcpStream::connect(at).unwrap();
            let _ = stranger.write_all(bytes);
        }
        let mut other = TcpStream::connect(at).unwrap();
        other.write_all(b"bwRC\x02\x10\0\x02{}").unwrap();
        let mut answer = String::new();
        other.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("version 1"), "{answer}");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for n in [0, 1, 8, 1000] {
            socket.send_to(&vec![7; n], at).unwrap();
        }
        // One that leaves in the middle.
        let rude = TcpStream::connect(at).unwrap();
        let mut rude =
            crate::talk::client::Session::open(rude, WORK, WAITS, Some(Duration::from_millis(1))).unwrap();
        rude.begin().unwrap();
        drop(rude);
        let once = |duration| {
            client::run(&ClientConfig { duration, ..config(at, Protocol::Tcp) }, &mut |_| {}).unwrap()
        };
        let run = until_seen(SHORT, once, |run| run.received_bytes > 0);
        assert!(run.received_bytes > 0);
    });
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let at = SocketAddr::from(([127, 0, 0, 1], 9));
    let why = |change: fn(&mut ClientConfig)| {
        let mut config = config(at, Protocol::Udp);
        change(&mut config);
        config.check().unwrap_err().to_string()
    };
    assert!(why(|c| c.streams = 0).contains("1 to 64"));
    assert!(why(|c| c.size = 7).contains("8 to 65507"));
    assert!(why(|c| c.rate = Some(1)).contains("a rate"));
    assert!(why(|c| c.duration = Duration::ZERO).contains("zero"));
    assert!(why(|c| (c.protocol, c.rate) = (Protocol::Tcp, Some(5))).contains("no rate"));
    assert!(why(|c| c.from = Some([0u16; 8].into())).contains("IPv6"));
    assert!("tpc".parse::<Protocol>().unwrap_err().contains("did you mean `tcp`?"));
}
