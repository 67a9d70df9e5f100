//! What is packed: unit, configuration, container and compose file say nothing that the binary does not understand.

mod common;

use barewire_testing::{Needs, skip};
use common::{run, said};
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(packaging(name)).expect(name)
}

/// Values of `key=` in the unit, comments left out.
fn values<'a>(unit: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    unit.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

#[test]
fn the_unit_starts_what_the_binary_understands() {
    let unit = text("barewire@.service");
    let config = packaging("barewire.toml").display().to_string();
    let mut commands = 0;
    for command in values(&unit, "ExecStartPre").chain(values(&unit, "ExecStart")) {
        let words: Vec<String> = command
            .split(' ')
            .map(|word| word.replace("/etc/barewire/%i.toml", &config).replace("%i", "test"))
            .collect();
        assert_eq!(words[0], "/usr/local/bin/barewire", "{command}");
        let mut args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        if !args.contains(&"--check") {
            args.push("--check");
        }
        let said = run(&args);
        assert_eq!(said.code, Some(0), "{command}: {}", said.err);
        assert!(said.err.contains("packet:eth0 as 10.77.0.101"), "{}", said.err);
        commands += 1;
    }
    assert_eq!(commands, 2);
    // What the comments propose is understood, too.
    assert!(unit.contains("`--metrics 9464`"));
    let said = run(&["up", "--config", &config, "--metrics", "9464", "--check"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(values(&unit, "Type").collect::<Vec<_>>(), ["notify"], "the daemon says when it is ready");
    let caps = "CAP_NET_RAW CAP_NET_ADMIN CAP_BPF CAP_IPC_LOCK CAP_SYS_NICE";
    for key in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        assert_eq!(values(&unit, key).collect::<Vec<_>>(), [caps], "what `doctor` looks for");
    }
}

#[test]
fn every_user_of_the_unit_is_made_by_somebody() {
    let (unit, users) = (text("barewire@.service"), text("barewire.sysusers"));
    assert!(
        unit.lines().take(5).any(|line| line.contains("barewire.sysusers")),
        "the head says who makes the user"
    );
    // A line `u NAME` makes the user and a group of its name (sysusers.d(5)).
    let made: Vec<&str> =
        users.lines().filter_map(|line| line.strip_prefix("u ")?.split(' ').next()).collect();
    let wanted: Vec<&str> = values(&unit, "User").chain(values(&unit, "Group")).collect();
    assert_eq!(wanted.len(), 2);
    for name in wanted {
        assert!(made.contains(&name), "{name}: {made:?}");
    }
    let out = Command::new("systemd-sysusers").arg("--dry-run").arg(packaging("barewire.sysusers")).output();
    let Ok(out) = out else { return skip(Needs::Tools, "systemd-sysusers is not installed") };
    let said = said(out);
    assert_eq!(said.code, Some(0), "{}{}", said.err, said.out);
}

/// Root's PATH under sudo has no cargo: what is built is installed, and what is not is asked for.
#[test]
fn what_is_built_is_installed_without_cargo() {
    if Command::new("make").arg("--version").output().is_err() {
        return skip(Needs::Tools, "make is not installed");
    }
    let scratch = tempfile::tempdir().unwrap();
    let (built, root) = (scratch.path().join("release"), scratch.path().join("root"));
    let make = |target: &str| {
        let out = Command::new("make")
            .args([target, &format!("DESTDIR={}", root.display())])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.."))
            .env("CARGO_TARGET_DIR", scratch.path())
            .env("SUDO_USER", "somebody")
            .env("PATH", "/usr/bin:/bin")
            .env_remove("MAKEFLAGS")
            .output()
            .unwrap();
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (done, err) = make("install");
    assert!(!done && err.contains("is not built") && err.contains("hint: `make build`"), "{err}");
    std::fs::create_dir(&built).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_barewire"), built.join("barewire")).unwrap();
    let (done, err) = make("install");
    assert!(done, "{err}");
    for file in ["bin/barewire", "bin/barewire-simple-switch", "share/man/man1/barewire-up.1"] {
        assert!(root.join("usr/local").join(file).exists(), "{file}");
    }
    let (done, err) = make("uninstall");
    assert!(done, "{err}");
    let left = Command::new("find").arg(&root).args(["!", "-type", "d"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[test]
fn systemd_finds_no_fault_with_the_unit() {
    let unit = text("barewire@.service").replace("/usr/local/bin/barewire", env!("CARGO_BIN_EXE_barewire"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("barewire@test.service");
    std::fs::write(&path, unit).expect("writing it");
    let out = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
    let Ok(out) = out else { return skip(Needs::Tools, "systemd-analyze is not installed") };
    let said = said(out);
    assert_eq!((said.code, said.err.trim(), said.out.trim()), (Some(0), "", ""));
}

#[test]
fn the_containers_start_what_the_binary_understands() {
    let compose = text("compose.yaml");
    let mut commands = 0;
    for line in compose.lines() {
        let Some(list) = line.trim().strip_prefix("command: ") else { continue };
        let words: Vec<String> = serde_json::from_str(list).expect(line);
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.push(if words[0] == "up" { "--check" } else { "--help" });
        let said = run(&args);
        assert_eq!(said.code, Some(0), "{line}: {}", said.err);
        commands += 1;
    }
    assert_eq!(commands, 4);
    let file = text("Containerfile");
    // The last stage is the one that is built without a name: that of the daemon. The one before is for labs: no entry point,
    // and what an export's commands call.
    let stages: Vec<&str> = file.split("\nFROM ").skip(1).collect();
    assert_eq!(stages.len(), 3, "build, lab, daemon");
    assert!(stages[2].starts_with("scratch\n") && stages[1].contains(" AS lab\n"));
    assert!(!stages[1].contains("ENTRYPOINT") && stages[1].contains("/usr/local/bin/barewire"));
    for program in ["ethtool", "iproute2"] {
        assert!(stages[1].contains(&format!(" {program}")), "{program}");
    }
    let image = barewire_lab::IMAGE_DEFAULT;
    assert!(file.contains(&format!("-t {} --target lab", image.strip_suffix(":latest").unwrap())));
    let help = run(&["lab", "export", "--help"]).out;
    assert!(help.contains(image) && help.contains("packaging/Containerfile"), "{help}");
    let entry = file.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).expect("an entry point");
    assert_eq!(serde_json::from_str::<Vec<String>>(entry).unwrap(), ["/barewire"]);
    let rust =
        file.lines().find_map(|line| line.strip_prefix("FROM rust:")?.split_once('-')).expect("a compiler").0;
    assert_eq!(
        rust,
        env!("CARGO_PKG_RUST_VERSION"),
        "the image has the compiler that the workspace asks for"
    );
}
