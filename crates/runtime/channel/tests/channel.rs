//! From greeting to end over a real listener, in two threads and in two processes.

use barewire_channel::message::{FromApp, FromDaemon, Hello, Refused, Welcome};
use barewire_channel::{
    AppChannel, ChannelFds, Completion, ControlConn, ControlError, ControlListener, DaemonChannel, Geometry,
    Request, VERSION, Wake,
};
use barewire_testing::Folder;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
const SOCKET: &str = "BAREWIRE_TEST_SOCKET";

/// Waits for the one application, and lets it in.
fn let_in(listener: &ControlListener) -> (ControlConn, DaemonChannel) {
    let conn = loop {
        match listener.accept().unwrap() {
            Some(conn) => break conn,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert!(conn.wait_readable(PATIENCE).unwrap(), "no greeting");
    let (FromApp::Hello(hello), fds) = conn.recv().unwrap().unwrap() else { panic!("not a greeting") };
    assert_eq!((hello.version, fds.len()), (VERSION, 0));
    let geometry = hello.geometry.unwrap_or_default();
    let (channel, fds) = DaemonChannel::create(geometry).unwrap();
    let welcome = Welcome {
        version: VERSION,
        application: 1,
        addresses: vec!["10.0.0.1".parse().unwrap()],
        geometry,
        mtu: 1500,
    };
    conn.send(&FromDaemon::Welcome(welcome), &fds.as_fds()).unwrap();
    (conn, channel)
}

/// An application's way in.
fn enter(path: &Path, geometry: Option<Geometry>) -> (ControlConn, AppChannel) {
    let conn = ControlConn::connect(path).unwrap();
    conn.send(&FromApp::Hello(Hello { version: VERSION, name: "test".into(), geometry }), &[]).unwrap();
    assert!(conn.wait_readable(PATIENCE).unwrap(), "no answer");
    let (FromDaemon::Welcome(welcome), fds) = conn.recv().unwrap().unwrap() else { panic!("not let in") };
    let channel = AppChannel::attach(ChannelFds::try_from(fds).unwrap()).unwrap();
    assert_eq!(channel.geometry(), welcome.geometry);
    (conn, channel)
}

#[test]
fn a_message_there_and_back() {
    let dir = Folder::new("echo");
    let listener = ControlListener::bind(dir.file("b.sock")).unwrap();
    let path = listener.path().to_owned();
    let daemon = std::thread::spawn(move || {
        let (conn, mut channel) = let_in(&listener);
        assert_eq!(conn.peer().unwrap().pid, std::process::id() as i32);
        let mut echoed = 0;
        while echoed < 1000 {
            match channel.next_request() {
                None => std::thread::yield_now(),
                Some(Ok(Request::Send { flow, offset, len, token })) => {
                    let mut bytes = vec![0xa5; len as usize];
                    assert!(channel.send_memory().read(offset as usize, &mut bytes));
                    bytes.reverse();
                    assert!(channel.recv_memory().write(offset as usize, &bytes));
                    assert!(channel.complete(&Completion::Sent { flow, token, offset, delivered: true }));
                    assert!(channel.complete(&Completion::Received { flow, offset, len }));
                    channel.flush();
                    echoed += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        // The control connection is still open: the channel's own end is enough to tell.
        drop(channel);
        conn
    });

    let (conn, mut app) = enter(&path, None);
    for i in 0..1000u32 {
        let (offset, len) = (i * 64_000, i % 3000);
        let message: Vec<u8> = (0..len).map(|k| (k ^ i) as u8).collect();
        assert!(app.send_memory().write(offset as usize, &message));
        assert!(app.submit(&Request::Send { flow: 5, offset, len, token: u64::from(i) }));
        app.flush();
        let mut next = || {
            assert_eq!(app.wait(PATIENCE).unwrap(), Wake::Ready);
            app.next_completion().unwrap().unwrap()
        };
        assert_eq!(next(), Completion::Sent { flow: 5, token: u64::from(i), offset, delivered: true });
        assert_eq!(next(), Completion::Received { flow: 5, offset, len });
        let mut back = vec![0xa5; len as usize];
        assert!(app.recv_memory().read(offset as usize, &mut back));
        back.reverse();
        assert_eq!(back, message);
    }
    assert_eq!(app.wait(PATIENCE).unwrap(), Wake::Gone);
    drop(daemon.join().unwrap());
    assert!(matches!(conn.recv::<FromDaemon>(), Err(ControlError::Closed)));
}

#[test]
fn a_refusal_is_read_although_the_daemon_has_hung_up() {
    let dir = Folder::new("refused");
    let listener = ControlListener::bind(dir.file("b.sock")).unwrap();
    let conn = ControlConn::connect(listener.path()).unwrap();
    conn.send(&FromApp::Hello(Hello { version: 99, name: "new".into(), geometry: None }), &[]).unwrap();
    let refused = Refused { code: Refused::VERSION, message: "no".into(), hint: "upgrade".into() };
    // Closed with the greeting unread.
    listener.accept().unwrap().unwrap().send(&FromDaemon::Refused(refused.clone()), &[]).unwrap();
    let (message, _) = conn.recv::<FromDaemon>().unwrap().unwrap();
    assert_eq!(message, FromDaemon::Refused(refused));
    assert!(matches!(conn.recv::<FromDaemon>(), Err(ControlError::Closed)));
}

/// Not a test of its own: what `a_killed_application_is_noticed` runs as another process.
#[test]
fn child() {
    let Some(path) = std::env::var_os(SOCKET) else { return };
    let (_conn, mut app) = enter(Path::new(&path), None);
    assert!(app.submit(&Request::Close { flow: 42 }));
    assert_eq!(app.wait(Some(Duration::from_secs(60))).unwrap(), Wake::TimedOut, "killed before");
}

#[test]
fn a_killed_application_is_noticed() {
    let dir = Folder::new("killed");
    let listener = ControlListener::bind(dir.file("b.sock")).unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child"])
        .env(SOCKET, listener.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (conn, mut channel) = let_in(&listener);
    assert_eq!(conn.peer().unwrap().pid, process.id() as i32);
    let request = loop {
        match channel.next_request() {
            Some(request) => break request,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert_eq!(request, Ok(Request::Close { flow: 42 }), "waiting flushes");
    assert!(conn.recv::<FromApp>().unwrap().is_none());
    process.kill().unwrap();
    assert!(conn.wait_readable(PATIENCE).unwrap(), "nobody noticed");
    assert!(matches!(conn.recv::<FromApp>(), Err(ControlError::Closed)));
    process.wait().unwrap();
    // What is left of the channel works, for nobody.
    assert!(channel.complete(&Completion::Closed { flow: 42, reason: 0 }));
    channel.mark_closed();
    assert!(!channel.is_corrupt());
}
