//! Both ends of the talk over the loopback.

use super::client::{Asked, OtherEnd, Peer, Session, connect_from};
use super::frame::say;
use super::server::{Desk, Door, beside};
use super::*;
use crate::cpu::EndUse;
use crate::patience::until_well;
use barewire_base::Duration;
use barewire_measure::{Task, stamp};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;

const WAIT: std::time::Duration = std::time::Duration::from_secs(5);
/// What a server that works burns.
const WORK_NS: u64 = 100_000_000;

/// Runs `body` beside a server that is there for control alone.
fn beside_desk<T>(desk: &Desk, body: impl FnOnce(SocketAddr) -> T) -> T {
    let any = At::There(SocketAddr::from(([127, 0, 0, 1], 0)));
    let opened = |door: &Door| {
        let told = door.open(SocketAddr::from(([127, 0, 0, 1], 1)));
        let at = told.strip_prefix("control connection at ").expect(&told).parse().unwrap();
        body(at)
    };
    beside(desk, any, &AtomicBool::new(false), opened)
}

fn session(at: SocketAddr) -> Session {
    Session::open(connect_from(None, at, WAIT).unwrap(), "work", "spin", None).unwrap()
}

fn burn(ns: u64) {
    let task = Task::current().unwrap();
    let before = task.time().unwrap();
    while task.time().unwrap().since(&before).run_ns < ns {
        (0..10_000).for_each(|_| std::hint::spin_loop());
    }
}

#[test]
fn a_server_tells_what_it_used_in_the_window() {
    beside_desk(&Desk::new("work", "yield").counting(), |at| {
        let mut session = session(at);
        assert_eq!(session.waits, "yield");
        burn(WORK_NS / 4);
        let well = until_well(
            || {
                session.begin().unwrap();
                let begun = stamp();
                burn(WORK_NS);
                let took = stamp().since(begun);
                let report = session.end().unwrap();
                (report, report.for_one(took))
            },
            |(_, told)| told.is_ok(),
        );
        let (report, told) = well;
        let json = serde_json::to_value(told.unwrap()).unwrap();
        let ns = |key: &str| json[key].as_u64().unwrap();
        // This process is the server's: other tests of it count, too, so there is no upper bound but the machine's.
        assert!(ns("run_ns") >= WORK_NS, "{json}");
        assert!(ns("user_ns") + ns("system_ns") <= ns("run_ns") + 2 && ns("user_ns") > 0, "{json}");
        assert_eq!((report.operations, report.shared), (Some(0), false));
    });
}

#[test]
fn a_shared_server_says_so_and_tells_no_figure() {
    let desk = Desk::new("work", "spin");
    beside_desk(&desk, |at| {
        let mut one = session(at);
        let window = |one: &mut Session, meanwhile: &mut dyn FnMut()| {
            one.begin().unwrap();
            meanwhile();
            one.end().unwrap()
        };
        assert!(!window(&mut one, &mut || {}).shared);
        // One that comes and goes within the window.
        let report = window(&mut one, &mut || drop(session(at)));
        assert!(report.shared && report.cpu.is_none(), "{report:?}");
        assert!(report.for_one(Duration::from_secs(1)).unwrap_err().contains("shared"));
        let _other = session(at);
        assert!(window(&mut one, &mut || {}).shared, "one that was there before");
    });
}

#[test]
fn a_server_with_one_client_at_a_time_tells_of_turns() {
    let desk = Desk::new("work", "spin").by_turns();
    beside_desk(&desk, |at| {
        let mut one = session(at);
        let token = one.token;
        desk.turn(token, || one.begin().unwrap());
        desk.turn(token + 1, || {});
        assert!(one.end().unwrap().shared, "another one's turn came");
        desk.turn(token, || {
            one.begin().unwrap();
            assert!(!one.end().unwrap().shared);
        });
        // It waits for its turn, and goes on without.
        desk.turn(token + 1, || one.begin().unwrap());
        assert!(one.end().unwrap().shared);
    });
}

#[test]
fn nonsense_does_no_harm() {
    let desk = Desk::new("work", "spin");
    beside_desk(&desk, |at| {
        let hello = |work: &str| Hello::Control {
            token: 7,
            work: work.to_owned(),
            waits: String::new(),
            interval_ms: u64::MAX,
        };
        let framed = |word: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            word(&mut bytes);
            bytes
        };
        for bytes in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![0xff; 9_000],
            b"bwRC\x01\x10\xff\xff".to_vec(),
            b"bwRC\x01\x10\0\x03{}}".to_vec(),
            // An end before any begin, and words out of place.
            framed(&|out| {
                say(out, &hello("work")).unwrap();
                say(out, &Ask::End).unwrap();
            }),
            framed(&|out| {
                say(out, &hello("work")).unwrap();
                say(out, &hello("work")).unwrap();
            }),
            // Leaves in the middle of a window.
            framed(&|out| {
                say(out, &hello("work")).unwrap();
                say(out, &Ask::Begin).unwrap();
            }),
        ] {
            let mut stranger = TcpStream::connect(at).unwrap();
            let _ = stranger.write_all(&bytes);
            let _ = stranger.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            // It is closed, whatever was said.
            let _ = stranger.read_to_end(&mut answer);
        }
        let mut other = TcpStream::connect(at).unwrap();
        other.write_all(b"bwRC\x02\x10\0\x02{}").unwrap();
        let mut answer = String::new();
        other.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("version 1"), "{answer}");
        let open = |work| Session::open(connect_from(None, at, WAIT).unwrap(), work, "spin", None);
        assert!(matches!(open("else"), Err(TalkError::Other(work)) if work == "work"));
        open("work").unwrap().begin().unwrap();
    });
}

/// A server that says what it likes.
fn told_by(answers: &[Answer], body: impl FnOnce(SocketAddr)) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            answers.iter().for_each(|answer| say(&mut stream, answer).unwrap());
            let _ = stream.read_to_end(&mut Vec::new());
        });
        body(at);
    });
}

#[test]
fn a_server_that_lies_gives_no_figure() {
    let end_use = |run_ns: u64, user_ns: u64| -> EndUse {
        serde_json::from_value(serde_json::json!({
            "machine": 1, "process": 2, "run_ns": run_ns, "user_ns": user_ns, "system_ns": 0,
            "interrupts_ns": 0, "interrupt_threads_ns": 0, "interrupts_are_apart": false,
        }))
        .unwrap()
    };
    let good = Report {
        counted: Counted { seconds: 1.0, ..Counted::default() },
        cpu: Some(end_use(9, 9)),
        ..Report::default()
    };
    let second = Duration::from_secs(1);
    assert!(good.for_one(second).is_ok());
    let why = |report: Report| report.for_one(second).unwrap_err();
    assert!(why(Report { cpu: Some(end_use(u64::MAX, 9)), ..good }).contains("more CPU than there is"));
    assert!(why(Report { cpu: Some(end_use(9, 90)), ..good }).contains("more CPU than there is"));
    for seconds in [0.5, 2.0, f64::NAN, f64::INFINITY] {
        let counted = Counted { seconds, ..Counted::default() };
        assert!(why(Report { counted, ..good }).contains("over"), "{seconds}");
    }
    assert!(why(Report { cpu: None, ..good }).contains("cannot read"));
    // And in place of an answer, anything.
    let ready = || Answer::Ready { waits: "spin".to_owned() };
    told_by(&[ready(), Answer::Refused("no".to_owned())], |at| {
        assert!(matches!(session(at).begin(), Err(TalkError::Words)));
    });
    told_by(&[Answer::Begun], |at| {
        let opened = Session::open(connect_from(None, at, WAIT).unwrap(), "work", "spin", None);
        assert!(matches!(opened, Err(TalkError::Words)));
    });
}

#[test]
fn without_a_control_connection_the_other_end_is_not_known() {
    // Nobody listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let mut asked = Asked {
        at: At::There(nobody),
        measured: nobody,
        work: "work".to_owned(),
        waits: "spin".to_owned(),
        missing: None,
    };
    let (mut peer, other) = Peer::open(&mut asked);
    assert!(other.is_none() && asked.missing.is_some() && peer.token().is_none());
    peer.begin(true);
    peer.end();
    let (used, other) = peer.charge(None, 1, 0);
    assert!(used.is_none() && other.waits == "client spin, server unknown", "{other:?}");
    assert!(other.cpu_unknown.unwrap().contains("no control connection to 127.0.0.1:"));
    assert_eq!(OtherEnd::of("spin", Some("spin"), None).waits, "both spin");
    assert_eq!(OtherEnd::of("spin", Some("yield"), None).waits, "client spin, server yield");
    assert_eq!(At::Beside.of(SocketAddr::from(([1, 2, 3, 4], 65_535))), None);
    assert_eq!((At::over("fault+unix:a,b?loss=1"), At::over("xdp:eth0")), (At::Nowhere, At::Beside));
}

/// Servers that count say who else was served, with or without a control connection.
#[test]
fn work_for_others_is_seen_in_what_was_done() {
    let desk = Desk::new("work", "spin").counting();
    beside_desk(&desk, |at| {
        let mut asked = Asked {
            at: At::There(at),
            measured: at,
            work: "work".to_owned(),
            waits: "spin".to_owned(),
            missing: None,
        };
        for (done, why) in [(1_000, None), (1_500, Some("shared")), (500, Some("another one served"))] {
            let unknown = until_well(
                || {
                    let mut peer = Peer::open(&mut asked).0;
                    peer.begin(true);
                    desk.did(done);
                    peer.end();
                    peer.charge(None, 1_000, 10).1.cpu_unknown
                },
                |unknown| unknown.as_ref().is_none_or(|told| !told.contains("over")),
            );
            match why {
                None => assert_eq!(unknown, None),
                Some(words) => assert!(unknown.as_ref().unwrap().contains(words), "{unknown:?}"),
            }
        }
    });
}
