//! The bindings over real daemons: `bindings/conformance/scenarios.json`, each language's client with each language's server.

mod rig;

use barewire_base::{Duration, Instant};
use barewire_client::Geometry;
use barewire_client::security::{Peer, PrivateKey, Security};
use barewire_daemon::Daemon;
use barewire_engine::CountersReader;
use barewire_feed_emulator::{CaptureWriter, Emulator, EmulatorConfig, connections};
use barewire_feed_handler::{
    ChannelPlan, CsvExport, EXPORT_DEPTH_MAX, FeedHandler, Input, Plan, Replay, SocketOptions,
};
use barewire_port::Speed;
use barewire_testing::{Folder, Needs, skip_part};
use rig::natives::{native, python_package, toolchain};
use rig::{Program, Rig, bindings, have, library};
use std::io::BufWriter;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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

/// Go's own program, over the library in `dir`. The toolchain that is there, and nothing from the network.
fn go_tool(dir: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(root().join("go"))
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", format!("-I{}", bindings().display()))
        .env("CGO_LDFLAGS", format!("-L{}", dir.display()))
        .env("LD_LIBRARY_PATH", dir)
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off");
    go
}

/// A command of the Go module, after `vet`.
fn go(dir: &Path, package: &str) -> Option<PathBuf> {
    if !toolchain("Go", &[&["go", "version"]]) {
        return None;
    }
    let program = dir.join(format!("{}-go", package.rsplit('/').next().unwrap()));
    for task in [&["vet"][..], &["build", "-o", program.to_str().unwrap()]] {
        built(go_tool(dir).args(task).arg(package));
    }
    Some(program)
}

/// The module's own tests, of clients with engines in their process.
#[test]
fn go_alone() {
    let _turn = turn();
    let go = |r: &&Runner| r.language == "go";
    let Some(runner) = runners().iter().find(go) else { return };
    let dir = runner.program.parent().unwrap();
    built(go_tool(dir).args(["vet", "./..."]));
    built(go_tool(dir).args(["test", "-count=1", "-timeout=5m", "."]));
}

fn script(dir: &Path, name: &str, command: &str) -> PathBuf {
    let program = dir.join(name);
    std::fs::write(&program, format!("#!/bin/sh\nexec {command} \"$@\"\n")).unwrap();
    built(Command::new("chmod").arg("755").arg(&program));
    program
}

fn python(dir: &Path) -> Option<PathBuf> {
    if !python_package(dir) {
        return None;
    }
    let command =
        |source: &Path| format!("env PYTHONPATH='{}' python3 -B '{}'", dir.display(), source.display());
    let tests = root().join("python/tests");
    script(dir, "asyncio-runner", &command(&tests.join("conformance_aio.py")));
    Some(script(dir, "python-runner", &command(&tests.join("conformance.py"))))
}

/// The classes, compiled with every warning an error, and what to run them by. `None`: no Java 17 here.
fn java_classes(dir: &Path) -> Option<String> {
    if !toolchain("Java", &[&["javac", "--release", "17", "--version"], &["java", "--version"]]) {
        return None;
    }
    let library = native("libbarewire_java.so")?;
    let classes = dir.join("classes");
    let sources = root().join("java/src/main/java/dev/barewire");
    let in_folder = |folder: PathBuf| {
        std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|f| f.extension().is_some())
    };
    built(
        Command::new("javac")
            .args(["--release", "17", "-Xlint:all", "-Werror", "-d"])
            .arg(&classes)
            .args(in_folder(sources.clone()))
            .args(in_folder(sources.join("examples")))
            .arg(root().join("java/tests/Conformance.java")),
    );
    let (library, classes) = (library.display(), classes.display());
    Some(format!(
        "java -XX:+UseSerialGC -Xmn16m -XX:TieredStopAtLevel=1 -Dbarewire.library='{library}' -cp '{classes}'"
    ))
}

fn java(dir: &Path) -> Option<PathBuf> {
    Some(script(dir, "java-runner", &format!("{} Conformance", java_classes(dir)?)))
}

fn java_example(dir: &Path) -> Option<PathBuf> {
    Some(script(dir, "java-echo", &format!("{} dev.barewire.examples.Echo", java_classes(dir)?)))
}

fn node(dir: &Path, source: &str) -> Option<PathBuf> {
    let new_enough = "process.exit(Number(process.versions.node.split('.')[0]) < 18 ? 1 : 0)";
    if !toolchain("Node", &[&["node", "-e", new_enough]]) {
        return None;
    }
    let library = native("libbarewire_node.so")?;
    let module = dir.join("barewire.node");
    std::fs::copy(library, &module).unwrap();
    let source = root().join("node").join(source);
    let command = format!("env BAREWIRE_NODE_LIBRARY='{}' node '{}'", module.display(), source.display());
    Some(script(dir, &format!("{}-node", source.file_stem().unwrap().to_str().unwrap()), &command))
}

fn csharp(dir: &Path, source: &str) -> Option<PathBuf> {
    if !toolchain("C#", &[&["mcs", "--version"], &["mono", "--version"]]) {
        return None;
    }
    let (library, program) = (dir.join("Barewire.dll"), dir.join(source).with_extension("exe"));
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let program = dir.join(program.file_name().unwrap());
    let mcs = || {
        let mut mcs = Command::new("mcs");
        mcs.args(["-warn:4", "-warnaserror", "-r:System.Core.dll"]);
        mcs
    };
    let doc = format!("-doc:{}", library.with_extension("xml").display());
    let out = |file: &Path| format!("-out:{}", file.display());
    let folder = root().join("csharp");
    let sources = ["Barewire.cs", "Spans.cs"].map(|name| folder.join(name));
    built(mcs().args(["-unsafe", "-target:library", &doc, &out(&library)]).args(sources));
    let reference = format!("-r:{}", library.display());
    built(mcs().args([&reference, &out(&program)]).arg(folder.join(source)));
    let name = format!("{}-csharp", program.file_stem().unwrap().to_str().unwrap());
    Some(script(dir, &name, &format!("mono --debug '{}'", program.display())))
}

/// The same on .NET, with its spans: by Mono's compiler, which is the one at hand, over the assemblies of .NET's own runtime. That is `dotnet`,
/// or what BAREWIRE_DOTNET names.
fn dotnet(dir: &Path) -> Option<Runner> {
    let host = std::env::var("BAREWIRE_DOTNET").unwrap_or_else(|_| "dotnet".to_owned());
    if !toolchain("C# on .NET", &[&["mcs", "--version"], &[&host, "--list-runtimes"]]) {
        return None;
    }
    let said = Command::new(&host).arg("--list-runtimes").output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    // `Microsoft.NETCore.App 3.1.23 [/usr/share/dotnet/shared/Microsoft.NETCore.App]`
    let runtime = said.lines().find_map(|l| l.strip_prefix("Microsoft.NETCore.App ")?.split_once(" ["));
    let (version, place) = runtime.unwrap_or_else(|| panic!("no runtime: {said}"));
    let place = Path::new(place.trim_end_matches(']')).join(version);
    let (library, program) = (dir.join("Barewire.dll"), dir.join("conformance.dll"));
    let folder = root().join("csharp");
    let mcs = || {
        let mut mcs = Command::new("mcs");
        mcs.args(["-nostdlib", "-noconfig", "-langversion:latest", "-warn:4", "-warnaserror"])
            .arg("-define:NETCOREAPP2_1_OR_GREATER");
        let names = "Private.CoreLib Collections Collections.Concurrent Console Linq Memory Runtime Runtime.Extensions";
        for name in names.split(' ') {
            mcs.arg(format!("-r:{}", place.join(format!("System.{name}.dll")).display()));
        }
        mcs
    };
    let sources = ["Barewire.cs", "Spans.cs"].map(|name| folder.join(name));
    built(
        mcs().args(["-unsafe", "-target:library"]).arg(format!("-out:{}", library.display())).args(sources),
    );
    built(
        mcs()
            .arg(format!("-r:{}", library.display()))
            .arg(format!("-out:{}", program.display()))
            .arg(folder.join("tests/Conformance.cs")),
    );
    let config = format!(
        r#"{{"runtimeOptions":{{"framework":{{"name":"Microsoft.NETCore.App","version":"{version}"}},"configProperties":{{"System.Globalization.Invariant":true}}}}}}"#
    );
    std::fs::write(dir.join("conformance.runtimeconfig.json"), config).unwrap();
    let command = format!("'{host}' '{}'", program.display());
    Some(Runner { language: "csharp on .NET", program: script(dir, "dotnet-runner", &command) })
}

/// Every scenario by .NET, with a server of its own.
#[test]
fn csharp_on_dotnet() {
    let _turn = turn();
    let dir = Folder::new("dotnet");
    link_library(dir.path());
    let Some(runner) = dotnet(dir.path()) else { return };
    let rig = Rig::start("dotnet");
    let served = serve(&runner, &rig, "888");
    for scenario in &scenarios() {
        let kind = scenario["kind"].as_str().unwrap();
        // These end daemons and peers, which is the same library's part.
        if kind == "daemon_restarted" || kind == "connect_cancelled" || kind.starts_with("peer_killed") {
            continue;
        }
        let args = args_of(scenario);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let program = Program::start(&runner.program, &rig.socket(1), &args);
        assert_eq!(program.succeed(), "ok\n", "{}", scenario["name"]);
        println!("{}, {}: ok", scenario["name"], runner.language);
    }
    drop(served);
}

/// Tests take turns: programs and daemons of one keep all cores busy, and time-outs are for programs that hang.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Built once for all tests, and left in cargo's own folder for them.
fn runners() -> &'static [Runner] {
    static ALL: OnceLock<Vec<Runner>> = OnceLock::new();
    ALL.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("binding-runners");
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        build_runners(&dir)
    })
}

fn build_runners(dir: &Path) -> Vec<Runner> {
    link_library(dir);
    let python = python(dir);
    let asyncio = python.as_ref().map(|p| p.with_file_name("asyncio-runner"));
    let found = [
        ("cpp", cpp(dir, "tests/conformance.cpp")),
        ("go", go(dir, "./internal/conformance")),
        ("python", python),
        ("asyncio", asyncio),
        ("java", java(dir)),
        ("node", node(dir, "tests/conformance.js")),
        ("csharp", csharp(dir, "tests/Conformance.cs")),
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
    let _turn = turn();
    let runners = runners();
    let scenarios = scenarios();
    assert!(scenarios.len() >= 23);
    for server in runners {
        let memory =
            |mib: u32| Geometry { send_bytes: mib << 20, recv_bytes: mib << 20, ..Geometry::DEFAULT };
        let rig = Rig::start_with("bind", memory(256));
        let served = serve(server, &rig, "888");
        let small = Rig::start_with("small", memory(32));
        let small_served = serve(server, &small, "888");
        for client in runners {
            for scenario in &scenarios {
                let value = |key: &str| scenario[key].as_str().unwrap();
                let (name, kind) = (value("name"), value("kind"));
                // These are about the client and its daemon, or cost much: with its own server only.
                let alone = matches!(
                    kind,
                    "too_large"
                        | "refused"
                        | "deadlines"
                        | "both_ways"
                        | "use_after_close"
                        | "close_waiting"
                        | "close_calling"
                        | "close_unread"
                        | "connect_cancelled"
                        | "peer_killed_sending"
                ) || name == "echo-longest";
                if kind == "daemon_restarted" || (alone && client.language != server.language) {
                    continue;
                }
                let label = format!("{name}, {} to {}", client.language, server.language);
                let rig = if FILLS.contains(&kind) { &small } else { &rig };
                let victim = kind.starts_with("peer_killed").then(|| serve(server, rig, "890"));
                let port = if victim.is_some() { 890 } else { 888 };
                let mut args = args_of(scenario);
                args[1] = format!("10.9.0.2:{port}");
                let args: Vec<_> = args.iter().map(String::as_str).collect();
                let mut program = Program::start(&client.program, &rig.socket(1), &args);
                if let Some(mut victim) = victim {
                    assert_eq!(program.line(), "connected", "{label}");
                    if kind == "peer_killed_sending" {
                        victim.signal("-STOP");
                        program.say("\n");
                        assert_eq!(program.line(), "full", "{label}");
                        // Until its send waits.
                        std::thread::sleep(std::time::Duration::from_millis(300));
                    }
                    victim.signal("-KILL");
                }
                if kind == "connect_cancelled" {
                    assert_eq!(program.line(), "cancelled", "{label}");
                    no_flow_stays_open(rig, &label);
                    program.say("\n");
                }
                assert_eq!(program.succeed(), "ok\n", "{label}");
                println!("{label}: ok");
            }
        }
        drop((served, small_served));
        daemon_restarted(server);
    }
}

/// Who fills the memory has less of it to fill.
const FILLS: &[&str] = &["pressure", "both_ways", "peer_killed_sending"];

/// Those that were closed or reset stay for a moment, until their peers have heard of it.
fn no_flow_stays_open(rig: &Rig, label: &str) {
    let open = |daemon: &Option<Daemon>| -> u64 {
        let mut counters = CountersReader::open(daemon.as_ref().unwrap().counters_path()).unwrap();
        let all = counters.read().unwrap();
        let flows: Vec<u64> = all.filter(|c| c.0.ends_with("transport.flows")).map(|c| c.2).collect();
        assert!(!flows.is_empty(), "there is such a counter");
        flows.iter().sum()
    };
    for _ in 0..3000 {
        if open(&rig.a) + open(&rig.b) == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{label}: {} and {} flows stay open", open(&rig.a), open(&rig.b));
}

fn serve(runner: &Runner, rig: &Rig, port: &str) -> Program {
    let mut program = Program::start(&runner.program, &rig.socket(2), &["serve", port]);
    assert_eq!(program.line(), "ready", "{} as a server", runner.language);
    program
}

fn args_of(scenario: &serde_json::Map<String, serde_json::Value>) -> Vec<String> {
    let mut args = vec!["run".to_owned(), "10.9.0.2:888".to_owned()];
    args.push(scenario["kind"].as_str().unwrap().to_owned());
    for (key, value) in scenario.iter().filter(|(k, _)| *k != "name" && *k != "kind") {
        args.push(format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    args
}

/// Each client with its own server and with the next one's, over a link that does all that links do.
#[test]
fn under_loss() {
    let _turn = turn();
    const FAULTS: &str = "loss=0.02&duplicate=0.01&reorder=0.02&corrupt=0.002&seed=11";
    let runners = runners();
    let names = ["echo-small", "echo-unordered", "many-flows", "requests", "failure"];
    let mut scenarios = scenarios();
    scenarios.retain(|s| names.contains(&s["name"].as_str().unwrap()));
    assert_eq!(scenarios.len(), names.len());
    for (at, server) in runners.iter().enumerate() {
        let rig = Rig::start_by("lossy", |config, _| {
            config.interface.port = format!("fault+{}?{FAULTS}", config.interface.port)
        });
        let served = serve(server, &rig, "888");
        let other = &runners[(at + runners.len() - 1) % runners.len()];
        for client in [server, other] {
            for scenario in &scenarios {
                let args = args_of(scenario);
                let args: Vec<_> = args.iter().map(String::as_str).collect();
                let program = Program::start(&client.program, &rig.socket(1), &args);
                let name = scenario["name"].as_str().unwrap();
                assert_eq!(program.succeed(), "ok\n", "{name}, {} to {}", client.language, server.language);
            }
        }
        let mut counters = CountersReader::open(rig.a.as_ref().unwrap().counters_path()).unwrap();
        let all = counters.read().unwrap();
        let resent: u64 = all.filter(|(name, ..)| name.ends_with("segments_resent")).map(|c| c.2).sum();
        assert!(resent > 0, "the link lost something");
        println!("under loss, {} and {} to {}: ok", server.language, other.language, server.language);
        drop(served);
    }
}

/// Without any daemon: each language's client and server with an engine in threads of their own processes.
#[test]
fn embedded() {
    let _turn = turn();
    let names = ["echo-small", "echo-unordered", "requests", "deadline", "cancellation", "use-after-close"];
    let mut scenarios = scenarios();
    scenarios.retain(|s| names.contains(&s["name"].as_str().unwrap()));
    assert_eq!(scenarios.len(), names.len());
    for runner in runners() {
        let dir = Folder::new("embedded");
        let place = |host: u8| {
            let socket = |host: u8| dir.file(format!("link{host}")).display().to_string();
            PathBuf::from(format!("embedded:10.9.0.{host}/24@unix:{},{}", socket(host), socket(3 - host)))
        };
        let mut served = Program::start(&runner.program, &place(2), &["serve", "888"]);
        assert_eq!(served.line(), "ready", "{} as an embedded server", runner.language);
        for scenario in &scenarios {
            let args = args_of(scenario);
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let label = format!("embedded, {}, {}", scenario["name"], runner.language);
            assert_eq!(Program::start(&runner.program, &place(1), &args).succeed(), "ok\n", "{label}");
            println!("{label}: ok");
        }
    }
}

/// A capture of the emulated exchange, with its books and trades as the library itself writes them.
fn captured(dir: &Path) -> [PathBuf; 3] {
    let config = EmulatorConfig { active: Duration::from_secs(2), ..EmulatorConfig::default() };
    let lines = connections(config.channel_id, 19_010);
    let plan = Plan {
        name: "capture".into(),
        idle: Default::default(),
        core: None,
        input: Input::Sockets(SocketOptions::default()),
        channels: vec![ChannelPlan::new(config.channel_id.into(), lines.clone())],
        record: None,
    };
    let mut emulator = Emulator::new(config, Instant::ZERO).unwrap();
    let files = ["capture.pcap", "books.csv", "trades.csv"].map(|name| dir.join(name));
    let mut capture = CaptureWriter::create(&files[0], &lines, &emulator).unwrap();
    let until = emulator.active_until() + Duration::from_secs(1);
    emulator.next_packets(until, &mut |packet| capture.write(packet).unwrap());
    capture.finish().unwrap();
    let mut replay = Replay::open(&files[..1], &plan.channels, true).unwrap();
    let csv = |file: &PathBuf| BufWriter::new(std::fs::File::create(file).unwrap());
    let mut handler = FeedHandler::builder(plan)
        .sources(vec![])
        .start(replay.next_at().unwrap())
        .listen(|_, _| CsvExport::new(csv(&files[1]), csv(&files[2]), EXPORT_DEPTH_MAX).unwrap())
        .unwrap();
    handler.replay(&mut replay, Speed::Flat, None).unwrap();
    handler.channels_mut()[0].listener_mut().finish().unwrap();
    files
}

/// What Python has beside messages: the P4 switch in process, run folders, and captured market data.
#[test]
fn python_alone() {
    let _turn = turn();
    let python = |r: &&Runner| r.language == "python";
    let Some(runner) = runners().iter().find(python) else { return };
    let (repository, dir) = (root().join(".."), Folder::new("python"));
    let runs = [
        ("test_event.py", vec![]),
        ("test_switch.py", vec![repository.join("programs"), repository.join("tests/p4c")]),
        ("test_runs.py", vec![repository.join("benches/runs")]),
        ("test_feed.py", captured(dir.path()).to_vec()),
    ];
    for (test, arguments) in runs {
        let out = Command::new("python3")
            .arg("-B")
            .arg(root().join("python/tests").join(test))
            .args(arguments)
            .env("PYTHONPATH", runner.program.parent().unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && out.stdout == b"ok\n", "{test}: {said}");
    }
}

/// The notebook runs from its shipped sample, with the packages that it needs.
#[test]
fn the_notebook_runs() {
    let _turn = turn();
    let python = |r: &&Runner| r.language == "python";
    let Some(runner) = runners().iter().find(python) else { return };
    let interpreter = std::env::var("BAREWIRE_NOTEBOOK_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let out = Command::new(interpreter)
        .arg("-B")
        .arg(root().join("python/tests/test_notebook.py"))
        .arg(root().join("python/notebooks/market_data.ipynb"))
        .env("PYTHONPATH", runner.program.parent().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    match said.trim() {
        "ok" => {}
        missing => skip_part(Needs::Tools, format!("{missing}: not installed; the notebook is not executed")),
    }
}

#[test]
fn a_server_with_another_key() {
    let _turn = turn();
    let rig = Rig::start_by("keys", |config, host| {
        let key = |n: u8| PrivateKey::from_bytes([n; 32]);
        let other = 3 - host;
        // The first host expects a key at the second one's address that is not its own.
        let expected = if host == 1 { key(9) } else { key(1) }.public();
        let mut security = Security::new(key(host));
        let addresses = vec![IpAddr::from([10, 9, 0, other]).into()];
        assert!(security.trust(Peer { name: format!("host {other}"), key: expected, addresses }));
        config.transport.security = Some(Arc::new(security));
    });
    for runner in runners() {
        let served = serve(runner, &rig, "888");
        let args = ["run", "10.9.0.2:888", "wrong_key"];
        let program = Program::start(&runner.program, &rig.socket(1), &args);
        assert_eq!(program.succeed(), "ok\n", "{}", runner.language);
        println!("wrong key, {}: ok", runner.language);
        drop(served);
    }
}

/// Each language says who is at the other end of an encrypted flow, and that it knows nothing of one in the clear.
#[test]
fn who_is_at_the_other_end() {
    let _turn = turn();
    let key = |n: u8| PrivateKey::from_bytes([n; 32]);
    let secure = Rig::start_by("peers", |config, host| {
        let mut security = Security::new(key(host));
        let other = 3 - host;
        let peer = Peer { name: format!("host {other}"), key: key(other).public(), addresses: vec![] };
        assert!(security.trust(peer));
        config.transport.security = Some(Arc::new(security));
    });
    let plain = Rig::start("strangers");
    let told = format!("key={}", key(2).public());
    for runner in runners() {
        for (rig, words) in [(&secure, &["name=host 2", told.as_str()][..]), (&plain, &[])] {
            let served = serve(runner, rig, "888");
            let args = [&["run", "10.9.0.2:888", "peer"], words].concat();
            let program = Program::start(&runner.program, &rig.socket(1), &args);
            assert_eq!(program.succeed(), "ok\n", "{}", runner.language);
            drop(served);
        }
        println!("who is at the other end, {}: ok", runner.language);
    }
}

/// Counted, not timed. What grows by a page for each hundred messages is seen.
#[test]
fn memory_stays() {
    let _turn = turn();
    const GROWTH_MAX: u64 = 24 << 20;
    let messages: u64 = std::env::var("BAREWIRE_MESSAGES").map_or(100_000, |n| n.parse().unwrap());
    let rig = Rig::start("flat");
    for runner in runners() {
        let server = serve(runner, &rig, "888");
        let count = format!("count={messages}");
        let args = ["run", "10.9.0.2:888", "flat", &count, "size=256"];
        let mut client = Program::start(&runner.program, &rig.socket(1), &args);
        let mut at = |n: u64| {
            assert_eq!(client.line(), format!("at {n}"), "{}", runner.language);
            let memory = [client.memory(), server.memory()];
            client.say("\n");
            memory
        };
        let (early, late) = (at(messages / 4), at(messages));
        assert_eq!(client.succeed(), "ok\n", "{}", runner.language);
        for (who, n) in [("client", 0), ("server", 1)] {
            let (from, to) = (early[n] >> 10, late[n] >> 10);
            println!(
                "{} messages, {}, {who}: {from} KiB after a quarter, {to} KiB at the end",
                messages, runner.language
            );
            assert!(
                late[n] <= early[n] + GROWTH_MAX,
                "{}, {who}: {from} KiB, then {to} KiB",
                runner.language
            );
        }
    }
}

#[test]
fn the_examples_echo() {
    let _turn = turn();
    let dir = Folder::new("examples");
    link_library(dir.path());
    let dir_path = dir.path();
    let found = [
        cpp(dir_path, "examples/echo.cpp"),
        go(dir_path, "./examples/echo"),
        java_example(dir_path),
        node(dir_path, "examples/echo.js"),
        csharp(dir_path, "examples/Echo.cs"),
    ];
    for program in found.into_iter().flatten() {
        let rig = Rig::start("echoes");
        let mut server = Program::start(&program, &rig.socket(2), &["888"]);
        assert_eq!(server.line(), "listening on UDP port 888");
        assert_eq!(Program::start(&program, &rig.socket(1), &["10.9.0.2:888", "hello"]).succeed(), "hello\n");
        let (code, _) = Program::start(&program, &rig.socket(1), &["10.9.0.2:889", "hello"]).finish();
        assert_eq!(code, Some(1), "nobody listens there");
    }
}
