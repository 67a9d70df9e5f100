//! The bindings over real daemons: `bindings/conformance/scenarios.json`, each language's client with each language's server.

mod rig;

use barewire_client::Geometry;
use barewire_testing::{Needs, skip_part};
use rig::{Dir, Program, Rig, bindings, have, library};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A language's program.
struct Runner {
    language: &'static str,
    program: PathBuf,
}

fn root() -> PathBuf {
    bindings().parent().unwrap().to_owned()
}

fn link_library(dir: &Path) {
    std::os::unix::fs::symlink(library("libbarewire.so"), dir.join("libbarewire.so")).unwrap();
}

fn built(command: &mut Command) {
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&out.stdout));
}

fn cpp(dir: &Path, source: &str) -> Option<PathBuf> {
    if !have("g++") {
        return None;
    }
    let program = dir.join(Path::new(source).file_stem().unwrap()).with_extension("cpp-program");
    built(
        Command::new("g++")
            .args(["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-pthread", "-I"])
            .arg(root().join("cpp"))
            .arg("-I")
            .arg(bindings())
            .arg(root().join("cpp").join(source))
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(dir)
            .arg("-lbarewire"),
    );
    Some(program)
}

/// A command of the Go module, and its own tests' `vet`. The toolchain that is there, and nothing from the network.
fn go(dir: &Path, package: &str) -> Option<PathBuf> {
    if !Command::new("go").arg("version").output().is_ok_and(|o| o.status.success()) {
        skip_part(Needs::Tools, "go is not installed; its binding is not tested");
        return None;
    }
    let program = dir.join(format!("{}-go", package.rsplit('/').next().unwrap()));
    for task in [&["vet"][..], &["build", "-o", program.to_str().unwrap()]] {
        built(
            Command::new("go")
                .args(task)
                .arg(package)
                .current_dir(root().join("go"))
                .env("CGO_ENABLED", "1")
                .env("CGO_CFLAGS", format!("-I{}", bindings().display()))
                .env("CGO_LDFLAGS", format!("-L{}", dir.display()))
                .env("GOTOOLCHAIN", "local")
                .env("GOFLAGS", "-mod=mod")
                .env("GOPROXY", "off"),
        );
    }
    Some(program)
}

fn python(dir: &Path) -> Option<PathBuf> {
    let runs =
        Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status();
    if !runs.is_ok_and(|s| s.success()) {
        skip_part(Needs::Tools, "python3 (3.11 or newer) is not installed; its binding is not tested");
        return None;
    }
    // A workspace of its own, so that nobody needs its crates for anything else. Their first build comes over the network.
    let library = library("libbarewire.so");
    let profile = library.ancestors().find(|p| p.ends_with("debug") || p.ends_with("release"));
    let target = profile.unwrap().parent().unwrap().join("python");
    // The versions that everything else is built with; what it needs besides is added.
    let lock = root().join("python/Cargo.lock");
    if !lock.exists() {
        std::fs::copy(root().join("../Cargo.lock"), &lock).unwrap();
    }
    let out = Command::new(env!("CARGO"))
        .args(["build", "--quiet"])
        .current_dir(root().join("python"))
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("failed to download") || said.contains("failed to get") {
        skip_part(Needs::Tools, "pyo3 cannot be had here; Python's binding is not tested");
        return None;
    }
    assert!(out.status.success(), "{said}");
    let package = dir.join("barewire");
    built(Command::new("cp").arg("-r").arg(root().join("python/python/barewire")).arg(&package));
    std::fs::copy(target.join("debug/lib_native.so"), package.join("_native.abi3.so")).unwrap();
    let program = dir.join("python-runner");
    let source = root().join("python/tests/conformance.py");
    let script =
        format!("#!/bin/sh\nPYTHONPATH='{}' exec python3 -B '{}' \"$@\"\n", dir.display(), source.display());
    std::fs::write(&program, script).unwrap();
    built(Command::new("chmod").arg("755").arg(&program));
    Some(program)
}

fn runners(dir: &Path) -> Vec<Runner> {
    link_library(dir);
    let found = [
        ("cpp", cpp(dir, "tests/conformance.cpp")),
        ("go", go(dir, "./internal/conformance")),
        ("python", python(dir)),
    ];
    found.into_iter().filter_map(|(language, p)| Some(Runner { language, program: p? })).collect()
}

fn scenarios() -> Vec<serde_json::Map<String, serde_json::Value>> {
    let text = std::fs::read_to_string(root().join("conformance/scenarios.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn daemon_restarted(client: &Runner) {
    let mut rig = Rig::start("restarted");
    let args = ["run", "10.9.0.2:888", "daemon_restarted"];
    let mut program = Program::start(&client.program, &rig.socket(1), &args);
    assert_eq!(program.line(), "connected", "{}", client.language);
    rig.a.take().unwrap().stop().unwrap();
    assert_eq!(program.line(), "gone", "{}", client.language);
    rig.restart_a();
    program.say("\n");
    assert_eq!(program.succeed(), "ok\n", "{}", client.language);
    println!("daemon-restarted, {}: ok", client.language);
}

#[test]
fn each_client_with_each_server() {
    let dir = Dir::new("bindings");
    let runners = runners(dir.path());
    let scenarios = scenarios();
    assert!(scenarios.len() >= 17);
    for server in &runners {
        let channel = Geometry { send_bytes: 256 << 20, recv_bytes: 256 << 20, ..Geometry::DEFAULT };
        let rig = Rig::start_with("bind", channel);
        let start = |rig: &Rig, port: &str| {
            let mut program = Program::start(&server.program, &rig.socket(2), &["serve", port]);
            assert_eq!(program.line(), "ready", "{} as a server", server.language);
            program
        };
        let served = start(&rig, "888");
        for client in &runners {
            for scenario in &scenarios {
                let value = |key: &str| scenario[key].as_str().unwrap();
                let (name, kind) = (value("name"), value("kind"));
                // These are about the client and its daemon, or cost much: with its own server only.
                let alone = matches!(kind, "use_after_close" | "close_waiting") || name == "echo-longest";
                if kind == "daemon_restarted" || (alone && client.language != server.language) {
                    continue;
                }
                let label = format!("{name}, {} to {}", client.language, server.language);
                let victim = (kind == "peer_killed").then(|| start(&rig, "890"));
                let port = if victim.is_some() { 890 } else { 888 };
                let mut args = vec!["run".to_owned(), format!("10.9.0.2:{port}"), kind.to_owned()];
                for (key, value) in scenario.iter().filter(|(k, _)| *k != "name" && *k != "kind") {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    args.push(format!("{key}={text}"));
                }
                let args: Vec<_> = args.iter().map(String::as_str).collect();
                let mut program = Program::start(&client.program, &rig.socket(1), &args);
                if let Some(mut victim) = victim {
                    assert_eq!(program.line(), "connected", "{label}");
                    victim.signal("-KILL");
                }
                assert_eq!(program.succeed(), "ok\n", "{label}");
                println!("{label}: ok");
            }
        }
        drop(served);
        daemon_restarted(server);
    }
}

#[test]
fn the_examples_echo() {
    let dir = Dir::new("examples");
    link_library(dir.path());
    let found = [cpp(dir.path(), "examples/echo.cpp"), go(dir.path(), "./examples/echo")];
    for program in found.into_iter().flatten() {
        let rig = Rig::start("echoes");
        let mut server = Program::start(&program, &rig.socket(2), &["888"]);
        assert_eq!(server.line(), "listening on UDP port 888");
        assert_eq!(Program::start(&program, &rig.socket(1), &["10.9.0.2:888", "hello"]).succeed(), "hello\n");
        let (code, _) = Program::start(&program, &rig.socket(1), &["10.9.0.2:889", "hello"]).finish();
        assert_eq!(code, Some(1), "nobody listens there");
    }
}
