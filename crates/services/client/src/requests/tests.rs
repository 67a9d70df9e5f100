use super::*;
use crate::{ConnectOptions, EmbeddedConfig};
use std::net::Ipv4Addr;

/// Two endpoints on one cable, polled in turn.
struct Pair {
    a: Embedded,
    b: Embedded,
    flow: FlowId,
}

fn pair(name: &str) -> Pair {
    let port = format!("mem:requests-{name}-{}", std::process::id());
    let open = |host| Embedded::open(&EmbeddedConfig::new(&port, Ipv4Addr::new(10, 9, 0, host))).unwrap();
    let (mut a, mut b) = (open(1), open(2));
    b.listen(700, 0).unwrap();
    let flow = a.connect("10.9.0.2:700".parse().unwrap(), &ConnectOptions::default()).unwrap();
    let mut pair = Pair { a, b, flow };
    pair.until(|pair| match pair.a.next_event() {
        Some(Event::Connected { .. }) => Some(()),
        other => {
            assert!(other.is_none(), "{other:?}");
            None
        }
    });
    pair
}

impl Pair {
    /// Polls both until `done`, for a million turns at most.
    fn until<T>(&mut self, mut done: impl FnMut(&mut Pair) -> Option<T>) -> T {
        for _ in 0..1_000_000 {
            self.a.poll().unwrap();
            self.b.poll().unwrap();
            if let Some(done) = done(self) {
                return done;
            }
        }
        panic!("nothing comes");
    }

    /// What the server is asked next.
    fn asked(&mut self) -> Asked {
        self.until(|pair| match pair.b.next_event()? {
            // It is told with the first data.
            Event::Accepted { .. } => None,
            event => Some(Asked::of(&mut pair.b, event)),
        })
    }

    fn request(&mut self) -> Request {
        match self.asked() {
            Asked::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    /// What the client is told next.
    fn taken(&mut self, requests: &mut Requests) -> Taken {
        self.until(|pair| pair.a.next_event().map(|event| requests.take(&mut pair.a, event)))
    }

    fn call(&mut self, requests: &mut Requests, body: &[u8]) -> RequestId {
        let now = self.a.now();
        requests.call(now, &mut self.a, self.flow, body, None).unwrap()
    }
}

#[test]
fn heads_are_read_as_they_were_written_and_nothing_else_is_read() {
    for head in [
        Head::request(7, None),
        Head::request(u64::MAX, Some(Duration::from_micros(1))),
        Head::request(1, Some(Duration::from_secs(1 << 40))),
        Head::of(Kind::Response, 3),
        Head { code: 500, ..Head::of(Kind::Failure, 4) },
        Head::of(Kind::Cancel, 5),
    ] {
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes), Some(head));
        assert_eq!(Head::decode(&bytes[..HEAD_BYTES - 1]), None);
        for (at, with) in [(0, 2), (0, 0), (1, 0), (1, 5)] {
            let mut bytes = bytes;
            bytes[at] = with;
            assert_eq!(Head::decode(&bytes), None);
        }
    }
    assert_eq!(Head::request(1, Some(Duration::ZERO)).left(), Some(Duration::from_micros(1)));
    // One that the field does not hold ends nothing early: the server is told of none.
    let longest = Duration::from_micros(u32::MAX.into());
    assert_eq!(Head::request(1, Some(longest)).left(), Some(longest));
    assert_eq!(Head::request(1, Some(longest + Duration::from_micros(1))).left(), None);
    assert_eq!(Head::request(1, Some(Duration::from_secs(2 * 3600))).left(), None);
    // A response has neither deadline nor code.
    let mut bytes = Head::of(Kind::Response, 3).encode();
    bytes[4] = 1;
    assert_eq!(Head::decode(&bytes), None);
    assert_eq!(
        &Head::request(0x0807_0605_0403_0201, Some(Duration::from_micros(0x0c0b_0a09))).encode(),
        &[1, 1, 0, 0, 0x09, 0x0a, 0x0b, 0x0c, 1, 2, 3, 4, 5, 6, 7, 8]
    );
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let mut pair = pair("order");
    let mut requests = Requests::new(8);
    let ids: Vec<RequestId> = (0..8u8).map(|n| pair.call(&mut requests, &[n; 5])).collect();
    let now = pair.a.now();
    let more = requests.call(now, &mut pair.a, pair.flow, b"", None);
    assert_eq!(more, Err(CallError::TooMany));
    let mut asked: Vec<Request> = (0..8).map(|_| pair.request()).collect();
    asked.reverse();
    for request in asked {
        assert_eq!(request.left(), None);
        let body = request.body().to_vec(&pair.b);
        let to = request.release(&mut pair.b);
        if body[0] == 3 {
            to.fail(&mut pair.b, 42, "no threes").unwrap();
        } else {
            to.respond(&mut pair.b, &[&body[..], b" back"].concat()).unwrap();
        }
    }
    for n in (0..8u8).rev() {
        match pair.taken(&mut requests) {
            Taken::Answer(id, Answer::Response(body)) => {
                assert_eq!((id, body.to_vec(&pair.a)), (ids[n as usize], [&[n; 5], &b" back"[..]].concat()));
                body.release(&mut pair.a);
            }
            Taken::Answer(id, Answer::Failure { code: 42, text }) => {
                assert_eq!((id, text.to_vec(&pair.a)), (ids[3], b"no threes".to_vec()));
                text.release(&mut pair.a);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((requests.unanswered(), requests.late()), (0, 0));
}

#[test]
fn what_comes_after_a_cancellation_is_late_and_no_answer_to_the_next_request() {
    let mut pair = pair("late");
    let mut requests = Requests::new(1);
    let first = pair.call(&mut requests, b"first");
    let request = pair.request();
    assert!(requests.cancel(&mut pair.a, first));
    assert!(!requests.cancel(&mut pair.a, first));
    // The place is used again at once.
    let second = pair.call(&mut requests, b"second");
    assert_ne!(first, second);
    let to = request.release(&mut pair.b);
    match pair.asked() {
        Asked::Cancelled(cancelled) => assert_eq!(cancelled, to),
        other => panic!("{other:?}"),
    }
    to.respond(&mut pair.b, b"too late").unwrap();
    assert!(matches!(pair.taken(&mut requests), Taken::Late));
    assert_eq!((requests.unanswered(), requests.late()), (1, 1));
    let to = pair.request().release(&mut pair.b);
    to.respond(&mut pair.b, b"yes").unwrap();
    // An answer counts once.
    to.respond(&mut pair.b, b"yes again").unwrap();
    match pair.taken(&mut requests) {
        Taken::Answer(id, Answer::Response(body)) => {
            assert_eq!((id, body.to_vec(&pair.a)), (second, b"yes".to_vec()));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(pair.taken(&mut requests), Taken::Late));
}

#[test]
fn deadlines_pass_in_their_order_and_the_server_hears_of_it() {
    let mut pair = pair("deadline");
    let mut requests = Requests::new(4);
    let now = pair.a.now();
    assert_eq!(requests.call(now, &mut pair.a, pair.flow, b"", Some(now)), Err(CallError::Deadline));
    let span = barewire_base::Duration::from_millis;
    let flow = pair.flow;
    let mut ask =
        |pair: &mut Pair, ms| requests.call(now, &mut pair.a, flow, b"?", Some(now + span(ms))).unwrap();
    let (long, short) = (ask(&mut pair, 3_600_000), ask(&mut pair, 5));
    let answered = ask(&mut pair, 6);
    let request = pair.request();
    assert_eq!(request.left(), Some(Duration::from_secs(3600)));
    request.release(&mut pair.b);
    pair.request().release(&mut pair.b);
    let to = pair.request().release(&mut pair.b);
    to.respond(&mut pair.b, b"in time").unwrap();
    assert!(matches!(pair.taken(&mut requests), Taken::Answer(id, Answer::Response(_)) if id == answered));
    // Time is a value here: none of it has to pass.
    assert!(requests.next_deadline().unwrap() <= now + span(6));
    assert!(requests.poll(now + span(4), &mut pair.a).is_none());
    let (id, ended) = requests.poll(now + span(8), &mut pair.a).unwrap();
    assert!(matches!(ended, Answer::Deadline) && id == short);
    assert!(requests.poll(now + span(3_599_000), &mut pair.a).is_none());
    assert!(matches!(pair.asked(), Asked::Cancelled(_)));
    assert_eq!(requests.unanswered(), 1);
    let (id, _) = requests.poll(now + span(3_600_010), &mut pair.a).unwrap();
    assert_eq!(id, long);
    assert_eq!(requests.next_deadline(), None);
}

/// Callers take one answer and go to sleep until the next deadline: those of one tick of the wheel must all come.
#[test]
fn requests_with_one_deadline_end_one_by_one() {
    let mut pair = pair("same-deadline");
    let mut requests = Requests::new(4);
    let now = pair.a.now();
    let (due, late) =
        (now + barewire_base::Duration::from_millis(7), now + barewire_base::Duration::from_millis(8));
    let flow = pair.flow;
    let mut asked: Vec<RequestId> =
        (0..2).map(|_| requests.call(now, &mut pair.a, flow, b"?", Some(due)).unwrap()).collect();
    let mut ended = Vec::new();
    for unanswered in [1, 0] {
        let (id, answer) = requests.poll(late, &mut pair.a).expect("both are past their deadline");
        assert!(matches!(answer, Answer::Deadline));
        ended.push(id);
        assert_eq!(requests.unanswered(), unanswered);
        assert_eq!(requests.next_deadline().is_some_and(|next| next <= late), unanswered == 1);
    }
    asked.sort_unstable();
    ended.sort_unstable();
    assert_eq!(ended, asked);
    assert!(requests.poll(late, &mut pair.a).is_none());
}

#[test]
fn a_flow_that_ends_ends_its_requests() {
    let mut pair = pair("ends");
    let mut requests = Requests::new(4);
    let ids = [pair.call(&mut requests, b"1"), pair.call(&mut requests, b"2")];
    let request = pair.request();
    pair.b.reset(request.reply_to().flow());
    request.release(&mut pair.b);
    assert!(matches!(pair.taken(&mut requests), Taken::Event(Event::Closed { .. })));
    let now = pair.a.now();
    let ended: Vec<RequestId> =
        std::iter::from_fn(|| requests.poll(now, &mut pair.a)).map(|(id, _)| id).collect();
    assert_eq!(ended, ids);
    assert_eq!(requests.unanswered(), 0);
}

#[test]
fn messages_that_are_no_answers_are_the_applications() {
    let mut pair = pair("plain");
    let mut requests = Requests::new(4);
    pair.a.send(pair.flow, b"hello").unwrap();
    let Asked::Event(Event::Message(hello)) = pair.asked() else { panic!("no request") };
    pair.b.echo(hello).unwrap();
    assert!(matches!(pair.taken(&mut requests), Taken::Event(Event::Message(m)) if m.len() == 5));
}

#[test]
fn requests_and_answers_allocate_nothing() {
    let mut pair = pair("alloc");
    let mut requests = Requests::new(16);
    let deadline = pair.a.now() + barewire_base::Duration::from_secs(3600);
    let mut round = |pair: &mut Pair| {
        let now = pair.a.now();
        let flow = pair.flow;
        let id = requests.call(now, &mut pair.a, flow, &[7; 100], Some(deadline)).unwrap();
        let to = pair.request().release(&mut pair.b);
        to.respond(&mut pair.b, &[8; 100]).unwrap();
        match pair.taken(&mut requests) {
            Taken::Answer(answered, Answer::Response(body)) if answered == id => body.release(&mut pair.a),
            other => panic!("{other:?}"),
        }
        assert!(requests.poll(pair.a.now(), &mut pair.a).is_none());
    };
    round(&mut pair);
    let counted = allocation_counter::measure(|| {
        for _ in 0..200 {
            round(&mut pair);
        }
    });
    assert_eq!(counted.count_total, 0);
}
