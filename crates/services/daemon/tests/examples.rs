//! The client's examples, run as their heads say: what speaks HTTP or gRPC gets the same answers over a flow and over TCP. How long things take
//! is not judged here.

mod common;

use barewire_daemon::Daemon;
use barewire_netns::Namespace;
use barewire_testing::{Folder, Running};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Beside the directory that test programs are built in.
fn example(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let program = program.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is missing: cargo build --workspace --examples", program.display());
    program
}

/// Runs an example to its end.
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(done.stdout), text(done.stderr));
    assert!(done.status.success(), "{command:?}: {out}{err}");
    out
}

/// Hosts 10.0.0.1 and 10.0.0.2 on a cable of memory.
fn hosts(dir: &Folder, name: &str) -> [Daemon; 2] {
    let port = format!("mem:{}", dir.path().display());
    [1, 2].map(|host| {
        let mut config = common::config(dir.path(), &port, host);
        config.name = format!("example-{name}-{}-{host}", std::process::id());
        Daemon::start(&config).unwrap()
    })
}

/// `name serve PORT` at the one host, `name ASK 10.0.0.1:PORT COUNT` at the other. The kernel has the same address for TCP, in a namespace of
/// the test's own.
fn answers_are_the_same(name: &str, ask: &str, answer: &str) {
    const PORT: u16 = 8080;
    const COUNT: usize = 20;
    if !barewire_testing::root() {
        return;
    }
    let dir = Folder::new(name);
    let [server, client] = hosts(&dir, name);
    let ground = Namespace::anonymous().unwrap();
    let ip = |args: &str| {
        let done = ground.enter(|| Command::new("ip").args(args.split(' ')).status().unwrap()).unwrap();
        assert!(done.success(), "ip {args}");
    };
    ip("link set lo up");
    ip("address add 10.0.0.1/32 dev lo");
    let mut serve = Command::new(example(name));
    serve.args(["serve", &PORT.to_string()]).env("BAREWIRE_SOCKET", server.socket()).stdout(Stdio::piped());
    let mut serving = ground.enter(|| Running::start(&mut serve)).unwrap();
    let mut line = String::new();
    BufReader::new(serving.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("serving on port {PORT}, of barewire and of TCP\n"));
    let mut asking = Command::new(example(name));
    asking
        .args([ask, &format!("10.0.0.1:{PORT}"), &COUNT.to_string()])
        .env("BAREWIRE_SOCKET", client.socket());
    // The example ends with an error when one of the answers differs.
    let said = ground.enter(|| run(&mut asking)).unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert_eq!(lines[0], answer);
    for (line, over) in lines[1..].iter().zip(["barewire", "TCP"]) {
        assert!(line.starts_with(&format!("{over}: half of {COUNT} ")), "{line}");
    }
    let went = [&server, &client].map(|daemon| common::counter(daemon, "transport.messages_received"));
    assert!(went.iter().all(|n| *n >= COUNT as u64), "it did not go over barewire: {went:?}");
}

#[test]
fn http_answers_the_same_over_a_flow_and_over_tcp() {
    answers_are_the_same("http", "get", "/hello to you, too");
}

#[test]
fn grpc_answers_the_same_over_a_flow_and_over_tcp() {
    answers_are_the_same("grpc", "ask", "hello");
}
