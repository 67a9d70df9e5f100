//! A guest whose kernel has Linux's own soft RoCE, booted under QEMU, with a shell over its serial line. Our end of its wire is
//! a pair of unix datagram sockets, so nothing here needs rights. What builds and boots it, `make peers` installs.

use barewire_measure::stamp;
use barewire_testing::{Needs, Running, have, program, shared};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// What the guest is built and booted with.
const PROGRAMS: [&str; 6] = ["qemu-system-x86_64", "cpio", "gcc", "zstd", "apt-get", "dpkg-deb"];
/// The same, for programs that run in it.
const HEADERS: [&str; 2] = ["infiniband/verbs.h", "rdma/rdma_cma.h"];
/// Under emulation, on a machine that is busy with other tests.
const BOOT_MAX: Duration = Duration::from_secs(120);

/// Runs in the guest when it is up: what it is told, line by line, with a number that tells its end from output.
const SHELL: &str = "ulimit -n 60000\necho '=SHELL'\nwhile read -r number line; do sh -c \"$line\"; echo \"=END $number $?\"; done\n";

/// Whether all of it is here.
fn is_provided() -> bool {
    let header = |name: &&str| match Path::new("/usr/include").join(name) {
        file if file.is_file() => Ok(file),
        file => Err(format!("no {}", file.display())),
    };
    PROGRAMS
        .iter()
        .map(|name| program(name))
        .chain(HEADERS.iter().map(header))
        .all(|found| have(Needs::Peers, found).is_some())
}

/// Runs a command; its last words when it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().rev().find(|line| !line.is_empty()).unwrap_or("no reason").to_owned();
    Err(format!("{command:?} ended with {}: {last}", output.status))
}

/// The kernel and its first files, built once for a recipe.
fn image(recipe: &Path) -> Result<PathBuf, String> {
    let whole = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rxe-guest");
    let script = fs::read(recipe.join("build.sh")).map_err(|e| e.to_string())?;
    if fs::read(whole.join("built-by")).is_ok_and(|built| built == script) {
        return Ok(whole);
    }
    let _ = fs::remove_dir_all(&whole);
    run(Command::new("bash").arg(recipe.join("build.sh")).arg(&whole))?;
    for unpacked in ["debs", "kroot", "uroot", "ird"] {
        let _ = fs::remove_dir_all(whole.join(unpacked));
    }
    // Last: whatever breaks off before is built again.
    fs::write(whole.join("built-by"), script).map_err(|e| e.to_string())?;
    Ok(whole)
}

/// The guest.
pub struct Guest {
    // Ends first: its folder goes afterwards.
    process: Running,
    stdin: ChildStdin,
    lines: Receiver<String>,
    commands: u32,
    dir: PathBuf,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.process.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Guest {
    /// Builds and boots it. `None`, and loudly so, when this machine lacks something for it; a guest that is there and does not boot
    /// is a failure of the test.
    pub fn boot() -> Option<Guest> {
        // The recipe is not part of the repository, and fetches a kernel.
        let recipe = shared("tools/rxe-peer")?;
        if !is_provided() {
            return None;
        }
        let image = have(Needs::Rxe, image(&recipe))?;
        Some(Guest::boot_image(&recipe, &image).expect("the guest boots"))
    }

    fn boot_image(recipe: &Path, image: &Path) -> Result<Guest, String> {
        // Socket files have short names.
        let dir = std::env::temp_dir().join(format!("barewire-rxe-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for sub in ["scripts", "bin"] {
            fs::create_dir_all(dir.join(sub)).map_err(|e| e.to_string())?;
        }
        fs::write(dir.join("scripts/shell.sh"), SHELL).map_err(|e| e.to_string())?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rxe_peer/ops.c");
        let mut cc = Command::new("gcc");
        cc.args(["-O2", "-o"]).arg(dir.join("bin/ops")).arg(source).args(["-lrdmacm", "-libverbs"]);
        run(&mut cc)?;
        // The kernel takes several archives in one file, one after the other.
        let pack = "cd \"$1\" && ln -s \"$2\"/vmlinuz vmlinuz && find scripts bin | cpio -o -H newc --quiet | gzip -1 > ours.gz \
                    && cat \"$2\"/initrd.gz ours.gz > initrd.gz";
        run(Command::new("bash").args(["-c", pack, "pack"]).arg(&dir).arg(image))?;
        let mut child = Command::new("bash")
            .arg(recipe.join("guest.sh"))
            .arg(&dir)
            .arg("shell.sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|e| e.to_string())?;
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (tell, lines) = mpsc::channel();
        // It ends with the guest.
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if tell.send(text).is_err() {
                    break;
                }
            }
        });
        let mut guest =
            Guest { process: Running { child, said: String::new() }, stdin, lines, commands: 0, dir };
        let boot = guest.until("=SHELL", BOOT_MAX);
        assert!(boot.iter().any(|line| line.contains("PORT_ACTIVE")), "the guest's soft RoCE: {boot:?}");
        Ok(guest)
    }

    /// Our end of its wire, with wrappers in front and options behind.
    pub fn port(&self, wrapper: &str, options: &str) -> String {
        let dir = self.dir.display();
        format!("{wrapper}unix:{dir}/peer.sock,{dir}/guest.sock{options}")
    }

    /// Runs a command in it to its end: what it printed. It must end well.
    pub fn run(&mut self, command: &str, most: Duration) -> Vec<String> {
        self.start(command);
        self.finish(command, most)
    }

    /// Starts a command; [`finish`](Self::finish) waits for it.
    pub fn start(&mut self, command: &str) {
        self.commands += 1;
        writeln!(self.stdin, "{} {command}", self.commands).expect("the guest listens");
        self.stdin.flush().expect("the guest listens");
    }

    /// Waits for the command that was started last.
    pub fn finish(&mut self, command: &str, most: Duration) -> Vec<String> {
        let mark = format!("=END {} ", self.commands);
        let mut lines = self.until(&mark, most);
        let end = lines.pop().unwrap_or_default();
        let at = end.find(&mark).unwrap_or(0);
        assert_eq!(&end[at..], format!("{mark}0"), "`{command}` in the guest: {lines:#?}");
        lines
    }

    /// Reads up to the line with `mark`.
    fn until(&mut self, mark: &str, most: Duration) -> Vec<String> {
        let start = stamp();
        let mut seen = Vec::new();
        loop {
            let waited = Duration::from_nanos(stamp().since(start).as_nanos());
            match self.lines.recv_timeout(most.saturating_sub(waited)) {
                Ok(line) => {
                    let found = line.contains(mark);
                    seen.push(line);
                    if found {
                        return seen;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("the guest did not say {mark:?} in time: {seen:#?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the guest ended before {mark:?}: {seen:#?}"),
            }
        }
    }
}
