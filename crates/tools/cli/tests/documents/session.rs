//! The blocks of one page, as one shell script in a folder of its own.
//!
//! As root the script has its own mounts, network and process numbers (unshare(1)): labs, daemons and pages of counters are its own, and what
//! it leaves behind ends with it. A block with `on=HOST` runs in that host of the page's lab, with a `/run`, `/dev/shm` and `/sys`
//! of that host's own, as on a machine of its own.

use crate::natives::python_package;
use crate::pages::{How, Kind, Page};
use barewire_testing::{Needs, is_root, skip_part};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// What became of a block.
#[derive(Debug)]
pub enum Ran {
    /// Its exit code, unless it was ended with the page, and everything that it printed.
    Done { code: Option<i32>, text: String },
    /// Not a block to run, or one that needs what this machine lacks.
    NotRun,
}

/// What pages may name by its path from the repository's root.
const FOLDERS: &[&str] = &["labs", "programs", "packaging", "bindings", "crates", "benches", "tests"];

/// Seconds that a block may take, and that a background block has until it says what is waited for.
const BLOCK_S: u32 = 240;
const WAIT_S: u32 = 60;

/// Functions of every script: a block in this shell, in the background, and one in a host.
const HEAD: &str = r#"
set -um
export PATH="$BIN:$PATH" HOME="$PWD" LC_ALL=C.UTF-8 NO_COLOR=1 COLUMNS=100
unset XDG_RUNTIME_DIR BAREWIRE_SOCKET CARGO_TARGET_DIR
in_host() { # HOST SCRIPT
    mkdir -p ".hosts/$1/run" ".hosts/$1/shm"
    barewire lab exec "$1" -- unshare --mount bash -c \
        'mount -t sysfs sysfs /sys && mount --bind "$0/run" /run && mount --bind "$0/shm" /dev/shm && exec bash -e "$1"' "$PWD/.hosts/$1" "$2"
}
wait_for() { # FILE TEXT
    for _ in $(seq $((WAIT_S * 10))); do grep -qF -- "$2" "$1" && return; sleep 0.1; done
    echo "the block before did not print \`$2\` within $WAIT_S s" >> "$1"
}
"#;

fn call(how: &How, script: &str) -> String {
    match &how.on {
        Some(host) => format!("in_host {host} {script}"),
        None => format!("bash -e {script}"),
    }
}

/// Runs them all, in order.
pub fn run(root: &Path, page: &Page) -> Vec<Ran> {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    for name in FOLDERS {
        symlink(root.join(name), here.join(name)).expect("a link");
    }
    let as_root = is_root();
    let mut script = format!("BIN={} WAIT_S={WAIT_S}\n{HEAD}", bin());
    if page.blocks.iter().any(|b| matches!(b.kind, Kind::Run(_)) && b.text.contains("python3")) {
        let packages = here.join(".python");
        fs::create_dir(&packages).expect("a folder");
        if !python_package(&packages) {
            return page.blocks.iter().map(|_| Ran::NotRun).collect();
        }
        script += "export PYTHONPATH=\"$PWD/.python\" PYTHONDONTWRITEBYTECODE=1\n";
    }
    let mut runs = Vec::new();
    for (i, block) in page.blocks.iter().enumerate() {
        let mut run = false;
        match &block.kind {
            Kind::File(name) => {
                // Where the page says it, when its turn comes.
                fs::write(here.join(format!(".file{i}")), &block.text).expect("a file");
                let _ = writeln!(script, "mkdir -p \"$(dirname {name})\" && cp .file{i} {name}");
            }
            Kind::Run(how) if how.root && !as_root => {
                skip_part(Needs::Root, format!("{}:{}", page.name, block.line));
            }
            Kind::Run(how) => {
                run = true;
                fs::write(here.join(format!(".block{i}")), &block.text).expect("a script");
                let call = call(how, &format!("\"$PWD/.block{i}\""));
                if how.background {
                    let _ = writeln!(
                        script,
                        ": > .out{i}; ({call}; echo $? > .code{i}) > .out{i} 2>&1 < /dev/null &"
                    );
                    if let Some(text) = &how.wait {
                        let _ = writeln!(script, "wait_for .out{i} '{text}'");
                    }
                } else {
                    let _ = writeln!(
                        script,
                        "export -f in_host; timeout -k 5 {BLOCK_S} bash -c '{call}' > .out{i} 2>&1 < /dev/null; echo $? > .code{i}"
                    );
                }
            }
            _ => {}
        }
        runs.push(run);
    }
    // Background blocks are process groups of their own (set -m): a signal lets them say their last words, another ends them.
    script += "for signal in TERM KILL; do\n\
               for group in $(jobs -p); do kill -$signal -- -$group 2> /dev/null; done; sleep 0.3\ndone\nexit 0\n";
    fs::write(here.join(".script"), script).expect("a script");
    let mut command = if as_root {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c"]);
        command.arg(
            "mount -t tmpfs run /run && mount -t tmpfs shm /dev/shm && ip link set lo up; exec bash .script",
        );
        command
    } else {
        let mut command = Command::new("bash");
        command.arg(".script");
        command
    };
    let out = command.current_dir(here).stdin(Stdio::null()).output().expect("a shell");
    assert!(out.status.success(), "{}: {}", page.name, String::from_utf8_lossy(&out.stderr));
    let done = |(i, run): (usize, bool)| {
        if !run {
            return Ran::NotRun;
        }
        let read = |name: &str| fs::read(here.join(format!(".{name}{i}"))).unwrap_or_default();
        let code = String::from_utf8_lossy(&read("code")).trim().parse().ok();
        let mut text = String::from_utf8_lossy(&read("out")).into_owned();
        for folder in [here, root] {
            text = text.replace(&folder.display().to_string(), ".");
        }
        Ran::Done { code, text }
    };
    runs.into_iter().enumerate().map(done).collect()
}

/// The folder of the binary under test.
fn bin() -> String {
    let path = Path::new(env!("CARGO_BIN_EXE_barewire"));
    path.parent().expect("a folder").display().to_string()
}
