//! C programs over real daemons.

mod rig;

use barewire_testing::Folder;
use rig::{Program, Rig, bindings, compile, compile_with, declared, exported, library, sanitizers};
use std::path::PathBuf;
use std::time::Duration;

fn build(dir: &Folder, source: &str) -> Option<PathBuf> {
    let link = dir.path().join("libbarewire.so");
    if !link.exists() {
        std::os::unix::fs::symlink(library("libbarewire.so"), link).unwrap();
    }
    compile(dir, &bindings().join(source), "barewire")
}

#[test]
fn exactly_the_headers_functions_are_exported() {
    let Some(mut names) = exported(&library("libbarewire.so")) else { return };
    let header = std::fs::read_to_string(bindings().join("barewire.h")).unwrap();
    names.retain(|n| n != "_init" && n != "_fini");
    assert_eq!(names, declared(&header));
    assert_eq!(names.len(), 65);
}

#[test]
fn requests_and_answers_through_two_daemons() {
    let rig = Rig::start("ask");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    let mut server = Program::start(&program, &rig.socket(2), &["serve", "888", "3"]);
    assert_eq!(server.line(), "ready");
    for (window, count, size) in [("1", "200", "64"), ("32", "2000", "3000"), ("4", "40", "500000")] {
        let args = ["ask", "10.9.0.2:888", window, count, size];
        assert_eq!(Program::start(&program, &rig.socket(1), &args).succeed(), format!("{count} answers\n"));
    }
    server.succeed();
}

#[test]
fn two_threads_with_a_client_each_and_one_client_with_two_threads() {
    let rig = Rig::start("threads");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    let mut server = Program::start(&program, &rig.socket(2), &["serve", "888", "3"]);
    assert_eq!(server.line(), "ready");
    Program::start(&program, &rig.socket(1), &["threads", "10.9.0.2:888"]).succeed();
    server.succeed();
}

#[test]
fn a_sender_that_is_refused_hears_when_it_may_go_on() {
    let rig = Rig::start("again");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    let mut sleeper = Program::start(&program, &rig.socket(2), &["sleep", "888"]);
    assert_eq!(sleeper.line(), "ready");
    Program::start(&program, &rig.socket(1), &["again", "10.9.0.2:888"]).succeed();
}

#[test]
fn who_waits_for_room_on_a_flow_hears_of_its_end() {
    let rig = Rig::start("again-end");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    let mut sleeper = Program::start(&program, &rig.socket(2), &["sleep", "888"]);
    assert_eq!(sleeper.line(), "ready");
    let mut sender = Program::start(&program, &rig.socket(1), &["again-until-the-end", "10.9.0.2:888"]);
    assert_eq!(sender.line(), "ready");
    sleeper.signal("-KILL");
    sender.succeed();
}

#[test]
fn an_attempt_to_connect_can_be_given_up() {
    let rig = Rig::start("cancel");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    Program::start(&program, &rig.socket(1), &["cancel"]).succeed();
}

#[test]
fn signals_end_a_wait_for_events_and_nothing_else() {
    let rig = Rig::start("signals");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    Program::start(&program, &rig.socket(1), &["signals"]).succeed();
}

#[test]
fn a_child_has_none_of_its_parents_clients_and_keeps_none_alive() {
    for how in ["plain", "steady"] {
        let rig = Rig::start("forks");
        let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
        let child = Program::start(&program, &rig.socket(1), &["forks", how]).succeed();
        // The child is there still, with its copies of the parent's descriptors; the parent's port is free all the same.
        let mut config = barewire_client::ClientConfig::new("next");
        config.socket = rig.socket(1);
        let mut next = barewire_client::Client::attach_with(&config).unwrap();
        let free = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            next.listen_wait(888, 0, Duration::from_secs(60)).is_ok()
        });
        let alive = std::process::Command::new("kill").args(["-9", child.trim()]).status().unwrap().success();
        assert!(free && alive, "{how}: free: {free}, the child is alive: {alive}");
    }
}

#[test]
fn a_child_leaves_its_parents_own_engine_alone() {
    let dir = Folder::new("fork-engine");
    let Some(program) = build(&dir, "tests/bw_test.c") else { return };
    let place = format!("embedded:10.0.0.1/24@mem:fork-engine-{}", std::process::id());
    let mut program = Program::start(&program, &dir.path().join("none.sock"), &["forks-embedded", &place]);
    assert_eq!(program.line(), "works on");
    let folder = std::env::temp_dir().join(format!("barewire-embedded-{}-0", program.id()));
    assert!(folder.join("s").exists(), "the parent's socket is there");
    program.say("\n");
    program.succeed();
    assert!(!folder.exists(), "the parent removes it");
}

#[test]
fn a_child_moves_no_frames_of_its_parents_endpoint() {
    let dir = Folder::new("fork-thread");
    let Some(program) = build(&dir, "tests/bw_test.c") else { return };
    let (ours, theirs) = (dir.path().join("ours.port"), dir.path().join("theirs.port"));
    let port = format!("unix:{},{}", ours.display(), theirs.display());
    let args = ["forks-in-thread", &port, ours.to_str().unwrap()];
    Program::start(&program, &dir.path().join("none.sock"), &args).succeed();
}

/// Hosts a and b, the first two of network `net`, on `port`, with keys of their own, each as a file says. Gives the files, and b's key.
fn two_hosts(dir: &Folder, net: &str, port: impl Fn(&str) -> String) -> ([PathBuf; 2], String) {
    let names = ["a", "b"];
    let keys = names.map(|name| {
        let secret = [name.as_bytes()[0]; 32];
        barewire_engine::keyfile::create(&dir.path().join(format!("{name}.key")), secret).unwrap()
    });
    let files = [0, 1].map(|n| {
        let (own, other) = (names[n], 1 - n);
        let text = format!(
            "[interface]\nport = {:?}\nipv4 = [\"{net}.{}/24\"]\ngateway4 = \"{net}.254\"\nmtu = 1400\n\
             [channel]\nsend_mib = 1\nrecv_mib = 1\n[transport]\nflows_max = 64\n\
             [security]\nkey = \"{own}.key\"\n[[security.peer]]\nname = \"{}\"\nkey = \"{}\"\naddresses = [\"{net}.{}\"]\n",
            port(own),
            n + 1,
            names[other],
            keys[other],
            other + 1
        );
        let file = dir.path().join(format!("{own}.toml"));
        std::fs::write(&file, text).unwrap();
        file
    });
    (files, keys[1].to_string())
}

#[test]
fn an_endpoint_is_as_its_file_says_encrypted_and_with_requests() {
    let dir = Folder::new("embedded-files");
    let Some(program) = build(&dir, "tests/bw_test.c") else { return };
    let port = format!("mem:c-embedded-files-{}", std::process::id());
    let ([a, b], key) = two_hosts(&dir, "10.0.0", |_| port.clone());
    let args = ["embedded-files", a.to_str().unwrap(), b.to_str().unwrap(), &key];
    Program::start(&program, &dir.path().join("none.sock"), &args).succeed();
}

#[test]
fn an_engine_of_ones_own_is_as_its_file_says() {
    let dir = Folder::new("own-files");
    let Some(program) = build(&dir, "tests/bw_test.c") else { return };
    let at = |name: &str| dir.path().join(name).display().to_string();
    let port = |own: &str| {
        let other = if own == "a" { "b" } else { "a" };
        format!("unix:{},{}", at(&format!("{own}.port")), at(&format!("{other}.port")))
    };
    let ([a, b], _) = two_hosts(&dir, "10.9.0", port);
    let place = |file: &PathBuf| PathBuf::from(format!("embedded:{}", file.display()));
    let mut server = Program::start(&program, &place(&b), &["serve", "888", "1"]);
    assert_eq!(server.line(), "ready");
    let args = ["ask", "10.9.0.2:888", "4", "100", "3000"];
    assert_eq!(Program::start(&program, &place(&a), &args).succeed(), "100 answers\n");
    server.succeed();
}

/// Something holds the daemon's place and says nothing.
#[test]
fn a_steady_client_does_not_wait_for_a_daemon_that_does_not_answer() {
    let mut rig = Rig::start("silent");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    let mut client = Program::start(&program, &rig.socket(1), &["silent"]);
    assert_eq!(client.line(), "ready");
    rig.a.take().unwrap().stop().unwrap();
    assert_eq!(client.line(), "detached");
    let _silent = barewire_channel::ControlListener::bind(rig.socket(1)).unwrap();
    client.say("\n");
    client.succeed();
}

#[test]
fn threads_that_share_a_client_wait_for_one_another() {
    let rig = Rig::start("busy");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    Program::start(&program, &rig.socket(1), &["busy"]).succeed();
}

#[test]
fn random_calls_against_a_model() {
    let rig = Rig::start_small("walk");
    // For the library's name.
    if build(&rig.dir, "examples/echo.c").is_none() {
        return;
    }
    let flags = sanitizers(&rig.dir);
    let source = bindings().join("tests/bw_walk.c");
    let program = compile_with(&rig.dir, &source, "barewire", flags).unwrap();
    let (a, b) = (rig.socket(1), rig.socket(2));
    for seed in 1..=12 {
        let args = [a.to_str().unwrap(), b.to_str().unwrap(), &seed.to_string(), "3000"];
        print!("{}", Program::start(&program, &a, &args).succeed());
    }
}

#[test]
fn wrong_arguments_are_codes() {
    let rig = Rig::start("wrong");
    let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
    let missing = rig.dir.path().join("nobody.sock");
    let output = Program::start(&program, &rig.socket(1), &["misuse", missing.to_str().unwrap()]).succeed();
    assert!(output.contains("is the daemon running?"), "{output}");
}

#[test]
fn a_daemon_that_stops_ends_every_wait() {
    for how in ["wait", "poll", "connect"] {
        let mut rig = Rig::start("stop");
        let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
        let mut waiter = Program::start(&program, &rig.socket(1), &["gone", how]);
        assert_eq!(waiter.line(), "ready");
        rig.a.take().unwrap().stop().unwrap();
        assert_eq!(waiter.succeed(), "gone\n", "{how}");
    }
}

#[test]
fn a_program_without_a_daemon_has_the_engine_in_its_own_thread() {
    let dir = Folder::new("embedded");
    let Some(program) = build(&dir, "tests/bw_test.c") else { return };
    let port = format!("mem:c-embedded-{}", std::process::id());
    Program::start(&program, &dir.path().join("none.sock"), &["embedded", &port]).succeed();
}

#[test]
fn a_steady_client_outlives_its_daemon() {
    for how in ["wait", "poll"] {
        let mut rig = Rig::start_small("steady");
        let Some(program) = build(&rig.dir, "tests/bw_test.c") else { return };
        let mut sleeper = Program::start(&program, &rig.socket(2), &["sleep", "888"]);
        assert_eq!(sleeper.line(), "ready");
        let mut client = Program::start(&program, &rig.socket(1), &["steady", "10.9.0.2:888", how]);
        assert_eq!(client.line(), "ready");
        rig.a.take().unwrap().stop().unwrap();
        assert_eq!(client.line(), "detached", "{how}");
        rig.restart_a();
        client.succeed();
    }
}

#[test]
fn the_example_echoes() {
    let rig = Rig::start("echo");
    let Some(program) = build(&rig.dir, "examples/echo.c") else { return };
    let mut server = Program::start(&program, &rig.socket(2), &["888"]);
    assert_eq!(server.line(), "listening on UDP port 888");
    assert_eq!(Program::start(&program, &rig.socket(1), &["10.9.0.2:888", "hello"]).succeed(), "hello\n");
    let (code, _) = Program::start(&program, &rig.socket(1), &["10.9.0.2:889", "hello"]).finish();
    assert_eq!(code, Some(1), "nobody listens there");
}
