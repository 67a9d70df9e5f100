//! C programs over real daemons.

#[path = "../../ffi/tests/rig/programs.rs"]
mod programs;

use barewire_daemon::{Config, Daemon};
use barewire_testing::Folder;
use programs::{Program, bindings, compile, declared, exported, library};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// 10.9.0.1 and 10.9.0.2, with RDMA.
struct Rig {
    a: Option<Daemon>,
    _b: Daemon,
    dir: Folder,
}

fn socket(dir: &Folder, host: u8) -> PathBuf {
    dir.path().join(format!("{host}.sock"))
}

fn daemon(dir: &Folder, host: u8, rdma: bool) -> Daemon {
    let name = dir.path().file_name().unwrap().to_str().unwrap();
    let mut config = Config::new(&format!("mem:{name}"), Ipv4Addr::new(10, 9, 0, host), 24);
    config.name = format!("{name}-{host}");
    config.socket = socket(dir, host);
    config.rdma.enabled = rdma;
    config.rdma.quotas.queue_pairs = 8;
    Daemon::start(&config).unwrap()
}

impl Rig {
    fn start(label: &str) -> Rig {
        let dir = Folder::new(label);
        Rig { a: Some(daemon(&dir, 1, true)), _b: daemon(&dir, 2, true), dir }
    }

    fn socket(&self, host: u8) -> PathBuf {
        socket(&self.dir, host)
    }

    fn build(&self) -> Option<PathBuf> {
        build(&self.dir)
    }
}

fn build(dir: &Folder) -> Option<PathBuf> {
    let link = dir.path().join("libbwverbs.so");
    if !link.exists() {
        std::os::unix::fs::symlink(library("libbwverbs.so"), link).unwrap();
    }
    compile(dir, &bindings().join("tests/bwv_test.c"), "bwverbs")
}

#[test]
fn exactly_the_headers_functions_are_exported() {
    let Some(mut names) = exported(&library("libbwverbs.so")) else { return };
    let header = std::fs::read_to_string(bindings().join("bwverbs.h")).unwrap();
    names.retain(|n| n != "_init" && n != "_fini");
    assert_eq!(names, declared(&header));
    assert_eq!(names.len(), 46);
}

#[test]
fn connections_sends_writes_reads_and_atomics_between_two_programs() {
    let rig = Rig::start("bwv-ask");
    let Some(program) = rig.build() else { return };
    let mut server = Program::start(&program, &rig.socket(2), &["serve", "2"]);
    assert_eq!(server.line(), "ready");
    for count in ["50", "1000"] {
        let client = Program::start(&program, &rig.socket(1), &["ask", "10.9.0.2", count]);
        assert_eq!(client.succeed(), format!("{count} rounds\n"));
    }
    assert_eq!(server.succeed(), "2 connections\n");
}

#[test]
fn wrong_arguments_are_codes() {
    let rig = Rig::start("bwv-wrong");
    let Some(program) = rig.build() else { return };
    let missing = rig.dir.path().join("nobody.sock");
    let output = Program::start(&program, &rig.socket(1), &["misuse", missing.to_str().unwrap()]).succeed();
    assert!(output.contains("is the daemon running?"), "{output}");
    assert!(output.contains("rdma.queue_pairs = 8"), "{output}");
}

#[test]
fn a_daemon_that_stops_ends_every_wait() {
    for how in ["wait", "poll", "event"] {
        let mut rig = Rig::start("bwv-stop");
        let Some(program) = rig.build() else { return };
        let mut waiter = Program::start(&program, &rig.socket(1), &["gone", how]);
        assert_eq!(waiter.line(), "ready");
        rig.a.take().unwrap().stop().unwrap();
        assert_eq!(waiter.succeed(), "gone\n", "{how}");
    }
}

#[test]
fn a_daemon_without_rdma_says_so() {
    let dir = Folder::new("bwv-none");
    let _daemon = daemon(&dir, 1, false);
    let Some(program) = build(&dir) else { return };
    let output = Program::start(&program, &socket(&dir, 1), &["none"]).succeed();
    assert!(output.contains("[rdma]"), "{output}");
}
