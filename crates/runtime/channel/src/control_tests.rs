//! The control socket against a peer that errs, dies or means harm, and its file.

use super::*;
use crate::message::{FromApp, FromDaemon, Hello, Refused, Stat, Welcome};
use crate::{Geometry, VERSION};
use barewire_testing::{Folder, Needs, skip};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

fn hello() -> FromApp {
    FromApp::Hello(Hello { version: VERSION, name: "app".into(), geometry: None })
}

#[test]
fn where_the_daemon_listens() {
    let path = |uid, vars: &[(&str, &str)]| {
        let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        socket_path(uid, var).display().to_string()
    };
    assert_eq!(path(0, &[]), "/run/barewire/barewire.sock");
    assert_eq!(path(0, &[("XDG_RUNTIME_DIR", "/run/user/0")]), "/run/barewire/barewire.sock");
    assert_eq!(path(7, &[("XDG_RUNTIME_DIR", "/x")]), "/x/barewire/barewire.sock");
    assert_eq!(path(7, &[("BAREWIRE_SOCKET", "")]), "/run/user/7/barewire/barewire.sock");
    assert_eq!(path(7, &[("BAREWIRE_SOCKET", "a.sock"), ("XDG_RUNTIME_DIR", "/x")]), "a.sock");
}

#[test]
fn messages_are_this_json() {
    let json = |m: &FromApp| serde_json::to_string(m).unwrap();
    assert_eq!(json(&hello()), r#"{"hello":{"version":3,"name":"app"}}"#);
    assert_eq!(json(&FromApp::Stat(Stat {})), r#"{"stat":{}}"#);
    let welcome = FromDaemon::Welcome(Welcome {
        version: 3,
        application: 3,
        addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        geometry: Geometry::DEFAULT,
        mtu: 1500,
    });
    let text = concat!(
        r#"{"welcome":{"version":3,"application":3,"addresses":["10.0.0.1","fd00::1"],"#,
        r#""geometry":{"sq_entries":1024,"cq_entries":8192,"send_bytes":67108864,"recv_bytes":67108864},"mtu":1500}}"#
    );
    assert_eq!(serde_json::to_string(&welcome).unwrap(), text);
    assert_eq!(serde_json::from_str::<FromDaemon>(text).unwrap(), welcome);

    // A greeting from the future is understood, so that it can be refused by its version; the rest is not guessed at.
    let ok = |text| serde_json::from_str::<FromApp>(text).is_ok();
    assert!(ok(r#"{"hello":{"version":9,"name":"x","colour":"red"}}"#));
    assert!(!ok(r#"{"hello":{"version":1,"name":"x","geometry":{"sq_entries":1}}}"#));
    assert!(!ok(r#"{"stat":{"colour":"red"}}"#));
    assert!(!ok(r#"{"goodbye":{}}"#));
    let refused = serde_json::from_str(r#"{"refused":{"code":999,"message":"no","new":1}}"#).unwrap();
    let FromDaemon::Refused(refused) = refused else { panic!("{refused:?}") };
    assert_eq!(refused, Refused { code: 999, message: "no".into(), hint: String::new() });
}

#[test]
fn a_listener_has_its_file_to_itself() {
    let dir = Folder::new("file");
    let path = dir.file("deep/er/b.sock");
    let listener = ControlListener::bind(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o660, "whatever the umask");
    assert!(matches!(ControlListener::bind(&path), Err(ControlError::InUse { .. })));
    assert!(listener.accept().unwrap().is_some(), "the second asked whether we live");
    assert!(listener.accept().unwrap().is_none());
    drop(listener);
    assert!(!path.exists());

    let listener = ControlListener::bind_with_mode(&path, 0o622).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o622);
    // Somebody put another file there: it is not ours to remove.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "theirs").unwrap();
    drop(listener);
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert!(matches!(ControlListener::bind(&path), Err(ControlError::NotASocket { .. })));
}

#[test]
fn a_stale_file_is_replaced_and_a_living_stranger_is_not() {
    let dir = Folder::new("stale");
    let path = dir.file("b.sock");
    // std leaves the file when the socket goes, as a killed daemon does.
    let stranger = UnixListener::bind(&path).unwrap();
    assert!(matches!(ControlListener::bind(&path), Err(ControlError::InUse { .. })));
    drop(stranger);
    assert!(path.exists());
    let listener = ControlListener::bind(&path).unwrap();
    ControlConn::connect(&path).unwrap();
    assert!(listener.accept().unwrap().is_some());
}

#[test]
fn of_many_daemons_that_start_at_once_one_wins() {
    let dir = Folder::new("race");
    let path = dir.file("b.sock");
    for round in 0..20 {
        if round % 2 == 0 {
            drop(UnixListener::bind(&path).unwrap());
        }
        let won: Vec<_> = std::thread::scope(|scope| {
            let starters: Vec<_> = (0..4).map(|_| scope.spawn(|| ControlListener::bind(&path))).collect();
            starters.into_iter().filter_map(|s| s.join().unwrap().ok()).collect()
        });
        assert_eq!(won.len(), 1);
        ControlConn::connect(&path).unwrap();
        assert!(won[0].accept().unwrap().is_some());
    }
}

#[test]
fn no_daemon_gives_a_hint() {
    let dir = Folder::new("none");
    let error = ControlConn::connect(dir.file("b.sock")).unwrap_err();
    assert!(error.to_string().starts_with("cannot reach the daemon at "), "{error}");
    assert!(error.hint().unwrap().contains("is the daemon running?"));
    let long = dir.file("x".repeat(120));
    assert!(matches!(ControlConn::connect(&long), Err(ControlError::BadPath { .. })));
    assert!(matches!(ControlListener::bind(&long), Err(ControlError::BadPath { .. })));
    assert!(matches!(ControlConn::connect(""), Err(ControlError::BadPath { .. })));
}

#[test]
fn descriptors_travel_and_a_surplus_is_closed() {
    let (a, b) = ControlConn::pair().unwrap();
    let (mut reader, writer) = io::pipe().unwrap();
    a.send(&hello(), &[writer.as_fd(), reader.as_fd()]).unwrap();
    let (message, fds) = b.recv::<FromApp>().unwrap().unwrap();
    assert_eq!((message, fds.len()), (hello(), 2));
    let mut passed = File::from(fds.into_iter().next().unwrap());
    passed.write_all(b"through").unwrap();
    drop(passed);

    let nine = vec![writer.as_fd(); FDS_MAX + 1];
    assert!(matches!(a.send(&hello(), &nine), Err(ControlError::TooLarge { fds: 9, .. })));
    sys::send_many(a.as_fd(), br#"{"stat":{}}"#, &[writer.as_fd(); 20]).unwrap();
    let (_, fds) = b.recv::<FromApp>().unwrap().unwrap();
    assert_eq!(fds.len(), FDS_MAX);
    // Descriptors that come with nonsense are closed too.
    sys::send_many(a.as_fd(), b"nonsense", &[writer.as_fd(); 3]).unwrap();
    assert!(matches!(b.recv::<FromApp>(), Err(ControlError::Malformed { .. })));
    drop((fds, writer));
    // The pipe ends only when no copy of its writer is left anywhere.
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"through");
}

#[test]
fn long_and_malformed_messages_leave_the_connection_usable() {
    let (a, b) = ControlConn::pair().unwrap();
    assert!(b.recv::<FromApp>().unwrap().is_none());
    assert!(!b.wait_readable(Some(Duration::from_millis(1))).unwrap());
    let name = "n".repeat(MESSAGE_MAX);
    let long = FromApp::Hello(Hello { version: 1, name, geometry: None });
    assert!(matches!(a.send(&long, &[]), Err(ControlError::TooLarge { fds: 0, .. })));
    sys::send(a.as_fd(), &vec![b' '; MESSAGE_MAX + 1], &[]).unwrap();
    sys::send(a.as_fd(), b"{\"hello\":", &[]).unwrap();
    let mut padded = br#"{"stat":{}}"#.to_vec();
    padded.resize(MESSAGE_MAX, b' ');
    sys::send(a.as_fd(), &padded, &[]).unwrap();
    assert!(b.wait_readable(None).unwrap());
    assert!(matches!(b.recv::<FromApp>(), Err(ControlError::Malformed { .. })));
    assert!(matches!(b.recv::<FromApp>(), Err(ControlError::Malformed { .. })));
    assert_eq!(b.recv::<FromApp>().unwrap().unwrap().0, FromApp::Stat(Stat {}));
    assert!(b.recv::<FromApp>().unwrap().is_none());
}

#[test]
fn a_peer_that_does_not_read_fills_the_socket_and_stops_nobody() {
    let (a, _b) = ControlConn::pair().unwrap();
    let sent = (0..100_000).take_while(|_| a.send(&hello(), &[]).is_ok()).count();
    assert!((1..100_000).contains(&sent), "{sent}");
    assert!(matches!(a.send(&hello(), &[]), Err(ControlError::Full)));
}

#[test]
fn last_words_are_heard_before_the_end() {
    let (a, b) = ControlConn::pair().unwrap();
    // b dies with our message unread, which the system reports as a reset.
    a.send(&hello(), &[]).unwrap();
    b.send(&FromApp::Stat(Stat {}), &[]).unwrap();
    drop(b);
    assert_eq!(a.recv::<FromApp>().unwrap().unwrap().0, FromApp::Stat(Stat {}));
    assert!(matches!(a.recv::<FromApp>(), Err(ControlError::Closed)));
    assert!(matches!(a.recv::<FromApp>(), Err(ControlError::Closed)));
    assert!(matches!(a.send(&hello(), &[]), Err(ControlError::Closed)));
    assert!(a.wait_readable(None).unwrap());
}

#[test]
fn a_peer_is_known() {
    let dir = Folder::new("peer");
    let listener = ControlListener::bind(dir.file("b.sock")).unwrap();
    let app = ControlConn::connect(listener.path()).unwrap();
    let conn = listener.accept().unwrap().unwrap();
    for peer in [conn.peer().unwrap(), app.peer().unwrap()] {
        assert_eq!((peer.pid, peer.uid), (std::process::id() as i32, sys::effective_uid()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_packet_is_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 1..300), cut in any::<u16>()) {
        let (a, b) = ControlConn::pair().unwrap();
        let mut text = br#"{"hello":{"version":1,"name":"x","geometry":{"sq_entries":8,"cq_entries":8}}}"#.to_vec();
        let at = usize::from(cut) % text.len();
        text[at] = bytes[0];
        for packet in [&bytes[..], &text, &text[..at.max(1)]] {
            sys::send(a.as_fd(), packet, &[]).unwrap();
            prop_assert!(!matches!(b.recv::<FromApp>(), Ok(None) | Err(ControlError::Closed)));
        }
        prop_assert!(b.recv::<FromApp>().unwrap().is_none());
    }
}

#[test]
fn where_applications_look_for_a_daemon() {
    let dir = Folder::new("places");
    let paths = |uid, vars: &[(&str, &str)]| {
        let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        socket_paths_in(uid, var, dir.path())
    };
    let own = PathBuf::from("/x/barewire/barewire.sock");
    let system = dir.file("barewire.sock");
    let here = [("XDG_RUNTIME_DIR", "/x")];
    assert_eq!(paths(7, &here), [own.clone(), system.clone()]);
    // An instance of the system's daemon is found when there is one only.
    let one = UnixListener::bind(dir.file("one.sock")).unwrap();
    fs::write(dir.file("notes.sock"), "not a socket").unwrap();
    assert_eq!(paths(7, &here), [own.clone(), system.clone(), dir.file("one.sock")]);
    assert_eq!(paths(0, &[])[1..], [system.clone(), dir.file("one.sock")]);
    let two = UnixListener::bind(dir.file("two.sock")).unwrap();
    assert_eq!(paths(7, &here), [own, system]);
    assert_eq!(system_sockets(dir.path()), [dir.file("one.sock"), dir.file("two.sock")]);
    // What is named is meant.
    assert_eq!(
        paths(7, &[("BAREWIRE_SOCKET", "a.sock"), ("XDG_RUNTIME_DIR", "/x")]),
        [PathBuf::from("a.sock")]
    );
    drop((one, two));
}

#[test]
fn the_first_daemon_that_answers_is_attached_to() {
    let dir = Folder::new("first");
    // One that is not there, one that is dead, one that lives.
    drop(UnixListener::bind(dir.file("dead.sock")).unwrap());
    let listener = ControlListener::bind(dir.file("alive.sock")).unwrap();
    let paths = [dir.file("none.sock"), dir.file("dead.sock"), dir.file("alive.sock")];
    let answering = std::thread::spawn(move || {
        let conn = loop {
            if let Some(conn) = listener.accept().unwrap() {
                break conn;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let refused = Refused { code: Refused::FULL, message: "it lives".into(), hint: String::new() };
        conn.send(&FromDaemon::Refused(refused), &[]).unwrap();
        conn.wait_readable(None).unwrap();
    });
    let answer = crate::attach_any(&paths, "app", None).unwrap_err();
    assert!(answer.to_string().contains("it lives"), "{answer}");
    answering.join().unwrap();
    let nowhere = crate::attach_any(&paths[..2], "app", None).unwrap_err();
    let (text, hint) = (nowhere.to_string(), nowhere.hint().unwrap());
    assert!(text.contains("none.sock or ") && text.contains("dead.sock"), "{text}");
    assert!(hint.contains("is the daemon running?") || hint.contains("several daemons"), "{hint}");
}

#[test]
fn a_peer_that_dies_while_its_message_is_taken_was_heard() {
    let (a, b) = ControlConn::pair().unwrap();
    a.send(&hello(), &[]).unwrap();
    // The kernel tells of the death once, and only then of the message.
    let told = std::cell::Cell::new(false);
    let taken = b.recv_with::<FromApp, _>(|bytes| match told.replace(true) {
        false => Err(ErrorKind::ConnectionReset.into()),
        true => sys::recv_bytes(b.as_fd(), bytes).map(|got| (got, ())),
    });
    assert_eq!(taken.unwrap().unwrap().0, hello());
}

#[test]
fn a_lock_on_the_directory_keeps_no_daemon_from_starting() {
    let dir = Folder::new("flock");
    let held = File::open(dir.path()).unwrap();
    held.try_lock().unwrap();
    let listener = ControlListener::bind(dir.file("a.sock")).unwrap();
    // Two at once still take turns, and no file is left.
    let others: Vec<_> = (0..8)
        .map(|_| {
            let path = dir.file("b.sock");
            std::thread::spawn(move || ControlListener::bind(path))
        })
        .collect();
    let bound: Vec<_> = others.into_iter().map(|o| o.join().unwrap()).collect();
    assert_eq!(bound.iter().filter(|b| b.is_ok()).count(), 1, "{bound:?}");
    assert!(bound.iter().all(|b| matches!(b, Ok(_) | Err(ControlError::InUse { .. }))), "{bound:?}");
    drop((listener, bound));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn who_serves_a_socket_is_looked_at() {
    let dir = Folder::new("server");
    let path = dir.file("a.sock");
    let own = sys::effective_uid();
    let stranger = own + 1;
    // Root, oneself, and whom the user names.
    assert!(may_serve(&path, 0, own, None) && may_serve(&path, own, own, None));
    assert!(may_serve(&path, stranger, own, Some(&format!("5, {stranger}"))));
    assert!(may_serve(&path, stranger, own, Some("any")) && !may_serve(&path, stranger, own, Some("")));
    // In a place that anybody can write to, the directory's owner is whoever came first.
    assert!(!may_serve(&path, stranger, own, None));
    assert!(!may_serve(Path::new("/nowhere/a.sock"), stranger, own, None));
    let listener = ControlListener::bind(&path).unwrap();
    ControlConn::connect(&path).unwrap().check_server(&path).unwrap();
    drop(listener);
    let shown = ControlError::Stranger { path, uid: 7 };
    assert!(
        shown.to_string().contains("served by user 7")
            && shown.hint().unwrap().contains("BAREWIRE_DAEMON_UID")
    );

    // A directory of its own below one of root's: nobody else can put a socket there.
    let theirs = PathBuf::from(format!("/run/barewire-control-server-{}", std::process::id()));
    if own != 0 || fs::create_dir(&theirs).is_err() {
        return skip(Needs::Root, "only root can make a directory for somebody else");
    }
    let theirs = Folder::take_over(theirs);
    let path = theirs.file("a.sock");
    std::os::unix::fs::chown(theirs.path(), Some(stranger), None).unwrap();
    assert!(may_serve(&path, stranger, own, None) && !may_serve(&path, stranger + 1, own, None));
    fs::set_permissions(theirs.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(!may_serve(&path, stranger, own, None));
}

#[test]
fn a_full_queue_is_waited_for() {
    let dir = Folder::new("queue");
    let path = dir.file("a.sock");
    let listener = ControlListener::bind(&path).unwrap();
    let mut waiting = Vec::new();
    let full = loop {
        match ControlConn::connect(&path) {
            Ok(conn) => waiting.push(conn),
            Err(ControlError::Connect { source, .. }) => break source,
            Err(e) => panic!("{e}"),
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock, "after {}", waiting.len());
    assert!(ControlConn::connect_within(&path, Duration::from_millis(20)).is_err());
    let late = std::thread::spawn(move || ControlConn::connect_within(path, Duration::from_secs(60)).is_ok());
    std::thread::sleep(Duration::from_millis(20));
    while listener.accept().unwrap().is_some() {}
    assert!(late.join().unwrap());
}

#[test]
fn descriptors_that_nobody_asked_for_are_not_received() {
    let (a, b) = ControlConn::pair().unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let bytes = serde_json::to_vec(&hello()).unwrap();
    sys::send_many(a.as_fd(), &bytes, &vec![theirs.as_fd(); 200]).unwrap();
    drop(theirs);
    assert_eq!(b.recv_message::<FromApp>().unwrap(), Some(hello()));
    // The kernel has thrown them away: the other end is closed.
    ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!((&ours).read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(b.recv_message::<FromApp>().unwrap(), None);
}
