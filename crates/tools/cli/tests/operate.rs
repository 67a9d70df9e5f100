//! Watching and operating: a daemon under a service manager, scraped, looked at and stopped; the doctor; pages and completions.

mod common;

use barewire_testing::Running;
use common::{barewire, run};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_daemon_under_a_manager_is_ready_alive_scraped_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let (heard, hears) = std::sync::mpsc::channel();
    // As managers do, it listens all the time: a daemon does not wait for one whose queue is full.
    std::thread::spawn(move || {
        let mut bytes = [0; 256];
        while let Ok(n) = manager.recv(&mut bytes)
            && heard.send(String::from_utf8_lossy(&bytes[..n]).into_owned()).is_ok()
        {}
    });
    let hear = || hears.recv_timeout(Duration::from_secs(60)).expect("the manager is told something");
    let at = |command: &mut std::process::Command| {
        command.env("XDG_RUNTIME_DIR", folder.path()).env_remove("WATCHDOG_PID");
    };
    let name = format!("operate-{}", std::process::id());
    let socket = folder.path().join("socket").display().to_string();
    let port = format!("mem:{name}");
    let mut command =
        barewire(&["up", "--port", &port, "--ipv4", "10.9.0.1/24", "--name", &name, "--socket", &socket]);
    command.args(["--metrics", "127.0.0.1:0"]).stderr(Stdio::piped());
    command.env("NOTIFY_SOCKET", folder.path().join("notify")).env("WATCHDOG_USEC", "400000");
    at(&mut command);
    let mut daemon = Running::start(&mut command);
    assert_eq!(hear(), "READY=1\n");
    // An idle daemon sleeps, and is vouched for all the same.
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1\n");
    }
    let mut said = BufReader::new(daemon.child.stderr.take().unwrap()).lines();
    let address = said
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("http://")?.1.strip_suffix("/metrics")?.to_owned()))
        .expect("it says where");
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut scrape = String::new();
    stream.read_to_string(&mut scrape).unwrap();
    let has = |text: &str, sample: &str, labels: &str| {
        text.contains(&format!("{sample}{{name=\"{name}\",engine=\"0\"{labels}}} "))
    };
    for (sample, labels) in [
        ("barewire_engine_cycles_total", ""),
        ("barewire_port_rx_frames_total", ",port=\"0\""),
        ("barewire_transport_flows", ""),
        ("barewire_applications", ""),
    ] {
        assert!(has(&scrape, sample, labels), "{sample}: {scrape}");
    }
    assert!(scrape.contains(&format!("barewire_page_alive{{name=\"{name}\"}} 1\n")));
    assert!(
        scrape.contains(&format!("barewire_page_unregistered{{name=\"{name}\"}} 0\n")),
        "each has a help text"
    );

    // Others read the same without asking the daemon.
    let say = |args: &[&str]| {
        let mut command = barewire(args);
        at(&mut command);
        common::said(command.output().unwrap())
    };
    let once = say(&["metrics", "--once"]);
    assert!(once.code == Some(0) && has(&once.out, "barewire_engine_cycles_total", ""), "{}", once.err);
    let open = say(&["metrics", "--once", "--openmetrics", "--name", &name]);
    assert!(open.out.ends_with("# EOF\n"), "{}", open.out);
    let stat = say(&["stat", "--name", &name, "--json"]);
    assert!(stat.out.contains("\"engine.0.cycles\""), "{}", stat.out);
    let slip = say(&["stat", "--name", &name[1..], "--once"]);
    assert!(slip.code == Some(1) && slip.err.contains("did you mean"), "{}", slip.err);
    let live = say(&["stat", "--live"]);
    assert!(live.code == Some(3) && live.err.contains("terminal"), "{}", live.err);
    let several = say(&["stat", "--name", "a", "--name", "b"]);
    assert!(several.code == Some(2) && several.err.contains("side by side"), "{}", several.err);
    let taken = say(&["metrics", "--listen", &address]);
    assert!(taken.code == Some(1) && taken.err.contains("hint:"), "{}", taken.err);

    let pid = daemon.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    let last = std::iter::repeat_with(hear).find(|text| text != "WATCHDOG=1\n");
    assert_eq!(last.as_deref(), Some("STOPPING=1\n"));
    assert!(TcpStream::connect(&address).is_err(), "its metrics went with it");
    // Engines of others may be here: their pages are found whatever folder is ours.
    let none = say(&["metrics", "--once"]);
    let others = none.code == Some(0) && !has(&none.out, "barewire_engine_cycles_total", "");
    assert!(others || none.code == Some(1) && none.err.contains("no engine runs here"), "{}", none.err);
    let gone = say(&["metrics", "--once", "--name", &name]);
    assert!(gone.code == Some(1) && gone.err.contains("no counters page"), "{}", gone.err);
}

#[test]
fn metrics_refuse_what_makes_no_sense() {
    for args in [
        &["metrics"][..],
        &["metrics", "--listen", "localhost"],
        &["metrics", "--once", "--grafana"],
        &["metrics", "--grafana", "--openmetrics"],
        &[
            "rc",
            "serve",
            "--port",
            "mem:x",
            "--address",
            "10.0.0.1/24",
            "--counters",
            "none",
            "--metrics",
            "0",
        ],
        &["up", "--port", "mem:x", "--ipv4", "10.9.0.1/24", "--metrics", "nowhere:1"],
    ] {
        assert_eq!(run(args).code, Some(2), "{args:?}: {}", run(args).err);
    }
    let dashboard = run(&["metrics", "--grafana"]);
    let dashboard: Value = serde_json::from_str(&dashboard.out).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 60);
}

#[test]
fn the_doctor_fails_only_for_what_is_needed() {
    let here = run(&["doctor", "--seconds", "0", "--json"]);
    let report: Value = serde_json::from_str(&here.out).unwrap();
    assert_eq!(
        (here.code, &report["fit"], &report["schema"]),
        (Some(0), &Value::Bool(true), &Value::from(1))
    );
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.len() > 30);
    for finding in findings {
        assert!(["ok", "warn", "unknown"].contains(&finding["status"].as_str().unwrap()), "{finding}");
        assert!(finding["status"] != "warn" || finding["fix"].is_string(), "{finding}");
    }
    let missing = run(&["doctor", "--seconds", "0", "--io", "no-such-card"]);
    assert_eq!(missing.code, Some(3));
    assert!(missing.out.contains("no such interface"), "{}", missing.out);
    let measured = run(&["doctor", "--seconds", "0.1"]);
    assert!(measured.out.contains("hiccups") && measured.out.contains("core to core"), "{}", measured.out);
}

#[test]
fn pages_and_completions_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    let said = run(&["man", "--out", &out.display().to_string()]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let files: Vec<String> =
        std::fs::read_dir(&out).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    assert!(
        files.len() > 30 && files.iter().all(|name| name.starts_with("barewire") && name.ends_with(".1"))
    );
    assert!(run(&["man", "bench", "msg"]).out.contains("barewire\\-bench\\-msg"));
    let slip = run(&["man", "benhc"]);
    assert!(slip.code == Some(2) && slip.err.contains("barewire bench"), "{}", slip.err);
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert!(
            script.code == Some(0) && script.out.contains("doctor") && script.out.contains("metrics"),
            "{shell}"
        );
    }
}
