//! `tests/beside.sh`, which runs test programs that mostly wait beside the others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("barewire-beside-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// A test program as cargo names them.
    fn program(&self, name: &str, script: &str) -> String {
        let path = self.0.join(format!("{name}-0123456789abcdef"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    fn run(&self, args: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/beside.sh");
        Command::new(script)
            .args(args)
            .env("BESIDE", "patient slow")
            .env("BESIDE_DIR", self.0.join("beside"))
            .output()
            .unwrap()
    }
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn who_waits_runs_beside_the_others_and_is_heard_at_the_end() {
    let folder = Folder::new("join");
    // It ends only when the other one has run: in the order of calls it would wait for ever.
    let gate = folder.0.join("gate");
    let patient = folder.program(
        "patient",
        &format!("until [ -e {0} ]; do sleep 0.05; done; echo \"patient $1 $PWD\"", gate.display()),
    );
    let slow = folder.program("slow", "echo slow; exit 7");
    let quick = folder.program("quick", &format!("echo quick; touch {}; exit 3", gate.display()));
    assert!(folder.run(&["begin"]).status.success());
    for program in [&patient, &slow] {
        let out = folder.run(&[program, "argument"]);
        assert!(out.status.success(), "{out:?}");
        assert_eq!(said(&out).lines().count(), 1, "{out:?}");
    }
    let out = folder.run(&[&quick]);
    assert_eq!((out.status.code(), said(&out).as_str()), (Some(3), "quick\n"));
    let out = folder.run(&["join"]);
    assert_eq!(out.status.code(), Some(1), "one failed: {out:?}");
    let all = said(&out);
    let here = std::env::current_dir().unwrap();
    for part in [
        "     Running patient-0123456789abcdef, beside the others\n",
        &format!("patient argument {}\n", here.display()),
        "slow\nerror: slow-0123456789abcdef failed (7)\n",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    // Without one that failed, and with none at all.
    folder.run(&["begin"]);
    assert!(folder.run(&[&patient]).status.success());
    assert_eq!(folder.run(&["join"]).status.code(), Some(0));
    folder.run(&["begin"]);
    assert_eq!(said(&folder.run(&["join"])), "");
}

#[test]
fn what_is_ended_fails() {
    let folder = Folder::new("stop");
    // With what it started in a group of its own, and stopped.
    let patient = folder.program(
        "patient",
        "set -m; sleep 1000 & kill -STOP $!; echo $! > $0.child; printf 'half a line'; exec sleep 1000",
    );
    folder.run(&["begin"]);
    folder.run(&[&patient]);
    let child = PathBuf::from(format!("{patient}.child"));
    until(|| fs::read_to_string(&child).is_ok_and(|pid| pid.ends_with('\n')));
    let child = fs::read_to_string(&child).unwrap();
    folder.run(&["stop"]);
    let out = folder.run(&["join"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("half a line\nerror: patient-"), "{out:?}");
    until(|| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
    });
}

/// Waits for something, for a minute at most.
fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("it does not come");
}

#[test]
fn who_has_hardly_begun_is_waited_for_and_ended() {
    let folder = Folder::new("early");
    let slow = folder.program("slow", "echo slow");
    let patient = folder.program("patient", "exec sleep 1000");
    for _ in 0..5 {
        folder.run(&["begin"]);
        folder.run(&[&slow]);
        let out = folder.run(&["join"]);
        assert!(out.status.success() && said(&out).ends_with("slow\n"), "{out:?}");
        folder.run(&["begin"]);
        folder.run(&[&patient]);
        folder.run(&["stop"]);
        assert_eq!(folder.run(&["join"]).status.code(), Some(1));
    }
}

#[test]
fn interrupts_are_not_ignored() {
    let folder = Folder::new("signals");
    let slow = folder.program("slow", "grep SigIgn /proc/self/status");
    folder.run(&["begin"]);
    folder.run(&[&slow]);
    let all = said(&folder.run(&["join"]));
    let ignored = all.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    // INT and QUIT are signals 2 and 3.
    assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & 0b110, 0, "{all}");
}
