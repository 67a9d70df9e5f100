//! C programs written for Machnet, over real daemons.

#[path = "../../ffi/tests/rig/mod.rs"]
mod rig;

use barewire_testing::Folder;
use rig::{Program, Rig, bindings, compile, exported, library};
use std::path::PathBuf;
use std::process::Command;

/// The eleven functions and the data symbol of Machnet's library.
const SYMBOLS: [&str; 12] = [
    "g_ctrl_socket",
    "machnet_attach",
    "machnet_bind",
    "machnet_connect",
    "machnet_detach",
    "machnet_init",
    "machnet_listen",
    "machnet_recv",
    "machnet_recvmsg",
    "machnet_send",
    "machnet_sendmmsg",
    "machnet_sendmsg",
];

fn build(dir: &Folder) -> Option<PathBuf> {
    // The linker wants the one name, the loader the soname.
    for name in ["libmachnet_shim.so", "libmachnet_shim.so.0"] {
        std::os::unix::fs::symlink(library("libmachnet_shim.so"), dir.path().join(name)).unwrap();
    }
    compile(dir, &bindings().join("tests/machnet_test.c"), "machnet_shim")
}

#[test]
fn machnets_symbols_are_exported_and_no_others() {
    let Some(names) = exported(&library("libmachnet_shim.so")) else { return };
    assert_eq!(names, SYMBOLS);
    let out = Command::new("readelf").arg("-d").arg(library("libmachnet_shim.so")).output().unwrap();
    assert!(String::from_utf8_lossy(&out.stdout).contains("[libmachnet_shim.so.0]"), "the soname");
}

#[test]
fn a_window_of_requests_and_their_answers() {
    let rig = Rig::start("shim-ask");
    let Some(program) = build(&rig.dir) else { return };
    for (window, count, most) in
        [("1", "300", "1000"), ("32", "2000", "4000"), ("8", "60", "900000"), ("2", "6", "8388608")]
    {
        let mut server = Program::start(&program, &rig.socket(2), &["serve", "888", most]);
        assert_eq!(server.line(), "ready");
        Program::start(&program, &rig.socket(1), &["ask", "10.9.0.2", "888", window, count, most]).succeed();
        server.succeed();
    }
}

#[test]
fn a_program_may_send_and_end() {
    let rig = Rig::start("shim-hello");
    let Some(program) = build(&rig.dir) else { return };
    let mut server = Program::start(&program, &rig.socket(2), &["listen", "31580", "20"]);
    assert_eq!(server.line(), "ready");
    for _ in 0..20 {
        Program::start(&program, &rig.socket(1), &["hello", "10.9.0.2", "31580"]).succeed();
    }
    server.succeed();
}

#[test]
fn wrong_arguments_are_minus_one() {
    let rig = Rig::start("shim-wrong");
    let Some(program) = build(&rig.dir) else { return };
    let missing = rig.dir.path().join("nobody.sock");
    Program::start(&program, &rig.socket(1), &["misuse", missing.to_str().unwrap()]).succeed();
}

#[test]
fn a_daemon_that_stops_is_noticed_and_its_successor_serves() {
    let mut rig = Rig::start("shim-gone");
    let Some(program) = build(&rig.dir) else { return };
    let mut server = Program::start(&program, &rig.socket(2), &["serve", "888", "64"]);
    assert_eq!(server.line(), "ready");
    let mut client = Program::start(&program, &rig.socket(1), &["gone", "10.9.0.2", "888"]);
    assert_eq!(client.line(), "ready");
    rig.a.take().unwrap().stop().unwrap();
    assert_eq!(client.line(), "gone");
    drop(server);
    rig.restart_a();
    client.succeed();
}
