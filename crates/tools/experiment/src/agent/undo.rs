//! What an experiment's cleanup commands are: kept in the agent's scratch folder until its end, so that whoever cleans up after it, however
//! it ended, can run them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where they are, in the scratch folder.
const FILE: &str = ".cleanup";
/// How what went wrong begins.
pub(crate) const FAILED: &str = "cleanup command `";
/// How long all of them together may take: the controller does not wait much longer.
const ALL_WAIT: barewire_base::Duration = barewire_base::Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(10);

/// A command that takes something back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Undo {
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// Keeps one for the end.
pub(super) fn keep(scratch: &Path, undo: &Undo) -> io::Result<()> {
    let mut line = serde_json::to_vec(undo).map_err(io::Error::other)?;
    line.push(b'\n');
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(scratch.join(FILE))?;
    let before = file.metadata()?.len();
    // In one write: a worker that is killed leaves it whole, or not at all. Only a full disk cuts it, and the next must not follow that.
    file.write_all(&line).inspect_err(|_| drop(file.set_len(before)))
}

/// Runs what is kept, the last first, and keeps nothing. Every one is run, whatever became of the others. What was done is forgotten one
/// by one: who is killed in the middle leaves the rest, and what it was at, to the next.
///
/// # Errors
/// In words: which did not work.
pub(super) fn run(scratch: &Path) -> Result<(), String> {
    let path = scratch.join(FILE);
    let Ok(kept) = fs::read_to_string(&path) else { return Ok(()) };
    let mut left_bytes = kept.len();
    let began = barewire_measure::stamp();
    let mut failed = Vec::new();
    for line in kept.split_inclusive('\n').rev() {
        left_bytes -= line.len();
        let Ok(undo) = serde_json::from_str::<Undo>(line) else {
            failed.push(format!("{FAILED}…`: its line in {FILE} cannot be read"));
            continue;
        };
        let spent = barewire_measure::stamp().since(began);
        let left = barewire_base::Duration::from_nanos(ALL_WAIT.as_nanos().saturating_sub(spent.as_nanos()));
        if let Err(why) = one(scratch, &undo, left) {
            failed.push(format!("{FAILED}{}`: {why}", crate::redact::words(&undo.argv).join(" ")));
        }
        // Where that cannot be, the folder goes as a whole.
        let _ = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(left_bytes as u64));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

fn one(scratch: &Path, undo: &Undo, longest: barewire_base::Duration) -> Result<(), String> {
    let (program, arguments) = undo.argv.split_first().ok_or("no program is named")?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(super::program(program, &own.to_string_lossy()));
    // Standard output is the conversation with the controller.
    command.args(arguments).envs(&undo.env).current_dir(scratch);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let began = barewire_measure::stamp();
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None if barewire_measure::stamp().since(began) > longest => {
                let group = rustix::process::Pid::from_child(&child);
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                let _ = child.wait();
                return Err("it took too long".to_owned());
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Undo {
        let argv = ["sh", "-c", script].map(str::to_owned).into();
        Undo { argv, env: [("WORD".to_owned(), "there".to_owned())].into() }
    }

    #[test]
    fn the_last_comes_first_every_one_is_run_and_none_twice() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(run(folder.path()), Ok(()), "nothing is kept");
        // The last but one sees that the last is forgotten, and the first is not.
        let seen = "test $(wc -l < .cleanup) = 2 && echo two >> log; exit 3";
        for script in ["echo one $WORD >> log", seen, "echo three >> log"] {
            keep(folder.path(), &sh(script)).unwrap();
        }
        let why = run(folder.path()).unwrap_err();
        assert!(why.contains("exit status: 3") && !why.contains("three"), "{why}");
        assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap(), "three\ntwo\none there\n");
        assert_eq!(run(folder.path()), Ok(()));
        assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap().lines().count(), 3);
    }

    /// Says where the small file system is.
    const SMALL: &str = "BW_TEST_SMALL";

    #[test]
    fn on_a_full_disk_what_was_kept_stays_and_what_was_not_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let script = "mount -t tmpfs -o size=16k none \"$0\" && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(folder.path()).arg(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "agent::undo::tests::on_a_small_disk", "--nocapture"]);
        match command.env(SMALL, folder.path()).output() {
            Ok(output) if output.status.success() => {}
            Ok(output) if rustix::process::geteuid().is_root() => {
                panic!(
                    "{}{}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                )
            }
            other => barewire_testing::skip(
                barewire_testing::Needs::Root,
                format!("a small file system needs root and unshare: {other:?}"),
            ),
        }
    }

    #[test]
    #[ignore = "the process that the test before starts on a small file system"]
    fn on_a_small_disk() {
        let folder = std::path::PathBuf::from(std::env::var_os(SMALL).unwrap());
        let seen = tempfile::tempdir().unwrap();
        let log = seen.path().join("log");
        let echo = |word: &str| sh(&format!("echo {word} >> {}", log.display()));
        keep(&folder, &echo("first")).unwrap();
        // All but some bytes of the disk, so that the next line does not fit as a whole.
        fs::write(folder.join("filler"), vec![0; 8 << 10]).unwrap();
        let long = sh(&format!("true {}", "x".repeat(9000)));
        assert!(keep(&folder, &long).is_err());
        fs::remove_file(folder.join("filler")).unwrap();
        keep(&folder, &echo("second")).unwrap();
        assert_eq!(run(&folder), Ok(()));
        assert_eq!(fs::read_to_string(&log).unwrap(), "second\nfirst\n");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "{\"argv\":[\"tr").unwrap();
        assert!(run(folder.path()).unwrap_err().contains(FAILED));
    }

    #[test]
    fn one_that_does_not_end_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let began = barewire_measure::stamp();
        let why = one(folder.path(), &sh("sleep 60"), barewire_base::Duration::from_millis(100)).unwrap_err();
        assert!(why.contains("too long"), "{why}");
        assert!(barewire_measure::stamp().since(began).as_secs_f64() < 30.0);
    }
}
