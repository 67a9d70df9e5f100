//! A guest whose kernel has Linux's own soft RoCE, booted under QEMU, with a shell over its serial line. Our end of its wire is
//! a pair of unix datagram sockets, so nothing here needs rights; only what is missing needs root to be installed.

use barewire_measure::stamp;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Debian's packages that the guest is built and booted with.
const PACKAGES: [&str; 6] = ["qemu-system-x86", "cpio", "gcc", "zstd", "libibverbs-dev", "librdmacm-dev"];
/// What must be there afterwards.
const PROGRAMS: [&str; 6] = ["qemu-system-x86_64", "cpio", "gcc", "zstd", "apt-get", "dpkg-deb"];
/// Under emulation, on a machine that is busy with other tests.
const BOOT_MAX: Duration = Duration::from_secs(120);

/// Runs in the guest when it is up: what it is told, line by line, with a number that tells its end from output.
const SHELL: &str = "ulimit -n 60000\necho '=SHELL'\nwhile read -r number line; do sh -c \"$line\"; echo \"=END $number $?\"; done\n";

/// A process that ends with its owner.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn missing() -> Vec<String> {
    let mut missing: Vec<String> = PROGRAMS.iter().filter(|p| !on_path(p)).map(|p| (*p).to_owned()).collect();
    for header in ["infiniband/verbs.h", "rdma/rdma_cma.h"] {
        if !Path::new("/usr/include").join(header).is_file() {
            missing.push(header.to_owned());
        }
    }
    missing
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

/// Installs what is missing, if we may.
fn provide() -> Result<(), String> {
    let lacking = missing();
    if lacking.is_empty() {
        return Ok(());
    }
    let is_root = fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !is_root || !on_path("apt-get") {
        let how = format!("apt-get install {}", PACKAGES.join(" "));
        return Err(format!("{} is not there (as root: {how})", lacking.join(", ")));
    }
    let wait = ["-qq", "-oDPkg::Lock::Timeout=300", "-oAcquire::http::Timeout=20", "-oAcquire::Retries=0"];
    run(Command::new("apt-get").arg("update").args(wait))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "-y", "--no-install-recommends"]);
    run(install.args(wait).args(PACKAGES))
}

/// The folder of the recipe, which is not part of the repository.
fn recipe() -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/tools/rxe-peer");
    path.canonicalize().map_err(|_| format!("no {}", path.display()))
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
        let _ = self.process.0.kill();
        let _ = self.process.0.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Guest {
    /// Builds and boots it.
    ///
    /// # Errors
    /// What this machine lacks for it. A guest that is there and does not boot is a failure of the test.
    pub fn boot() -> Result<Guest, String> {
        let recipe = recipe()?;
        provide()?;
        let image = image(&recipe)?;
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
        run(Command::new("bash").args(["-c", pack, "pack"]).arg(&dir).arg(&image))?;
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
        let mut guest = Guest { process: Running(child), stdin, lines, commands: 0, dir };
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
