//! Both ends over the loopback.

use super::client::{self, ClientConfig};
use super::server::serve;
use super::*;
use barewire_base::Duration;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Runs `body` beside a server on the loopback.
fn beside<T>(body: impl FnOnce(SocketAddr) -> T) -> T {
    let stop = AtomicBool::new(false);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let serving =
            scope.spawn(|| serve(SocketAddr::from(([127, 0, 0, 1], 0)), |at| tell.send(at).unwrap(), &stop));
        let out = body(told.recv().unwrap());
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        out
    })
}

fn config(server: SocketAddr, protocol: Protocol) -> ClientConfig {
    ClientConfig {
        server,
        from: None,
        protocol,
        streams: 2,
        size: 64,
        rate: None,
        duration: Duration::from_millis(300),
        warmup: Duration::from_millis(50),
        interval: Duration::from_millis(100),
    }
}

#[test]
fn streams_are_counted_at_the_receiver() {
    let (run, told) = beside(|at| {
        let mut told = 0;
        let config = ClientConfig { from: Some([127, 0, 0, 1].into()), ..config(at, Protocol::Tcp) };
        let run = client::run(&config, &mut |_| told += 1).unwrap();
        (run, told)
    });
    assert!(run.mbps > 10.0 && run.void.is_none(), "{run:?}");
    assert!((0.25..3.0).contains(&run.seconds), "{run:?}");
    assert!(run.packets_per_s > 10.0, "{run:?}");
    assert_eq!(run.intervals.len(), told);
    assert!(!run.intervals.is_empty() && run.intervals.iter().all(|i| i.to_s > i.from_s), "{run:?}");
    let row =
        StreamRow::of(&config(SocketAddr::from(([127, 0, 0, 1], 1)), Protocol::Tcp), None, vec![run], "x");
    assert!(row.tcp_mbps > Some(10.0) && row.udp_mbps.is_none() && row.lost_percent.is_none());
    let json = serde_json::to_string(&row).unwrap();
    assert_eq!(serde_json::from_str::<StreamRow>(&json).unwrap(), row);
    assert!(text(&row).starts_with("2 TCP streams to 127.0.0.1:1: "), "{}", text(&row));
}

#[test]
fn paced_datagrams_arrive_and_the_lost_are_counted() {
    let run = beside(|at| {
        let config = ClientConfig { rate: Some(2000), ..config(at, Protocol::Udp) };
        client::run(&config, &mut |_| {}).unwrap()
    });
    let (sent, received) = (run.sent.unwrap(), run.received.unwrap());
    assert!(sent > 100 && received > 0 && received <= sent, "{run:?}");
    assert_eq!((run.lost, run.received_bytes), (Some(sent - received), received * 64));
    assert!(run.behind_percent.is_some());
    // A sender that cannot keep up says so.
    let run = beside(|at| {
        let config = ClientConfig { rate: Some(1_000_000_000), ..config(at, Protocol::Udp) };
        client::run(&config, &mut |_| {}).unwrap()
    });
    assert!(run.void.as_deref().is_some_and(|why| why.contains("late")), "{run:?}");
    let row = StreamRow::of(
        &config(SocketAddr::from(([127, 0, 0, 1], 1)), Protocol::Udp),
        Some(false),
        vec![run],
        "x",
    );
    assert!(row.void.is_some() && row.udp_pps > Some(0.0) && row.offloads == Some(false));
}

#[test]
fn several_clients_do_not_see_each_other() {
    let counts = beside(|at| {
        std::thread::scope(|scope| {
            let run = |rate| {
                move || {
                    client::run(&ClientConfig { rate: Some(rate), ..config(at, Protocol::Udp) }, &mut |_| {})
                }
            };
            let both = [scope.spawn(run(500)), scope.spawn(run(4000))];
            both.map(|thread| thread.join().unwrap().unwrap())
        })
    });
    for run in &counts {
        assert!(run.received.unwrap() <= run.sent.unwrap(), "{run:?}");
    }
    assert!(counts[0].received.unwrap() * 2 < counts[1].received.unwrap(), "{counts:?}");
}

#[test]
fn strangers_do_no_harm() {
    beside(|at| {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"{\"data\":{\"barewire_stream\":1,\"token\":5}}\n",
            &[0xff; 9000],
        ] {
            let mut stranger = TcpStream::connect(at).unwrap();
            let _ = stranger.write_all(bytes);
        }
        let mut other = TcpStream::connect(at).unwrap();
        other.write_all(b"{\"control\":{\"barewire_stream\":2,\"token\":5,\"interval_ms\":1}}\n").unwrap();
        let mut answer = String::new();
        other.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("version 1"), "{answer}");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for n in [0, 1, 8, 1000] {
            socket.send_to(&vec![7; n], at).unwrap();
        }
        // One that leaves in the middle.
        let mut rude = TcpStream::connect(at).unwrap();
        rude.write_all(b"{\"control\":{\"barewire_stream\":1,\"token\":6,\"interval_ms\":1}}\n\"begin\"\n")
            .unwrap();
        drop(rude);
        let run = client::run(&config(at, Protocol::Tcp), &mut |_| {}).unwrap();
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
