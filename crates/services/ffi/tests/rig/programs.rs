//! C programs: compiled against a library under test, run, watched.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::disallowed_methods, reason = "tests give up by the clock")]

use barewire_testing::{Folder, Needs, skip, skip_part};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any program here takes, even with every core busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// The directory with the library under test.
pub fn library(file: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let found = [deps.join(file), deps.parent().unwrap().join(file)].into_iter().find(|p| p.exists());
    found.unwrap_or_else(|| panic!("{file} is not in {}", deps.display()))
}

pub fn bindings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings/c").canonicalize().unwrap()
}

pub fn have(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip(Needs::Tools, format!("{tool} is not installed; what C programs see is not tested"));
    }
    found
}

/// Compiles a C program against a library in `dir` under the name that the linker wants. `None`: no compiler.
pub fn compile(dir: &Folder, source: &Path, library: &str) -> Option<PathBuf> {
    compile_with(dir, source, library, &[])
}

/// The flags that make a program watch its own memory and arithmetic; none, and said so, where the compiler lacks them.
pub fn sanitizers(dir: &Folder) -> &'static [&'static str] {
    const FLAGS: &[&str] = &["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let source = dir.path().join("sanitized.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let program = dir.path().join("sanitized");
    let built = Command::new("cc").args(FLAGS).arg(&source).arg("-o").arg(&program).output();
    let runs = built.is_ok_and(|b| b.status.success())
        && Command::new(&program).output().is_ok_and(|ran| ran.status.success());
    if !runs {
        skip_part(Needs::Tools, "cc has no sanitizers that work here; the program runs without");
        return &[];
    }
    FLAGS
}

/// As [`compile`], with more flags.
pub fn compile_with(dir: &Folder, source: &Path, library: &str, flags: &[&str]) -> Option<PathBuf> {
    if !have("cc") {
        return None;
    }
    let program = dir.path().join(source.file_stem().unwrap());
    let out = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-pthread"])
        .args(flags)
        .arg("-I")
        .arg(bindings())
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(dir.path())
        .arg(format!("-l{library}"))
        .arg(format!("-Wl,-rpath,{}", dir.path().display()))
        .output()
        .unwrap();
    assert!(out.status.success(), "cc: {}", String::from_utf8_lossy(&out.stderr));
    Some(program)
}

/// A running program, killed when dropped.
pub struct Program {
    child: Child,
    lines: Option<BufReader<std::process::ChildStdout>>,
    shown: String,
}

impl Program {
    pub fn start(program: &Path, socket: &Path, args: &[&str]) -> Program {
        let mut child = Command::new(program)
            .args(args)
            .env("BAREWIRE_SOCKET", socket)
            // Beside the program, and not where cargo keeps another build of the library.
            .env("LD_LIBRARY_PATH", program.parent().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Program { child, lines, shown: format!("{} {args:?}", program.display()) }
    }

    /// Writes to the program.
    pub fn say(&mut self, text: &str) {
        use std::io::Write;
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the program's next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for its end: exit code (`None`: a signal) and the rest of its output.
    pub fn finish(mut self) -> (Option<i32>, String) {
        // Beside the wait: a full pipe would hold the program up.
        let mut lines = self.lines.take().unwrap();
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            lines.read_to_string(&mut rest).unwrap();
            rest
        });
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "{} hangs", self.shown);
            std::thread::sleep(Duration::from_millis(5));
        };
        (status.code(), rest.join().unwrap())
    }

    pub fn succeed(self) -> String {
        let shown = self.shown.clone();
        let (code, output) = self.finish();
        assert_eq!(code, Some(0), "{shown}: {output}");
        output
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("a process that lives");
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    pub fn signal(&mut self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names of the symbols that a library defines for others. `None`: no nm.
pub fn exported(library: &Path) -> Option<Vec<String>> {
    if !have("nm") {
        return None;
    }
    let out = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    let mut names: Vec<_> =
        text.lines().filter_map(|l| Some(l.split_whitespace().nth(2)?.to_owned())).collect();
    names.sort();
    Some(names)
}

/// Names of the functions that a header declares, sorted.
pub fn declared(header: &str) -> Vec<String> {
    let mut names: Vec<String> = header
        .lines()
        .filter(|l| !l.starts_with([' ', '/', '#', '}', '*']) && !l.starts_with("typedef") && l.contains('('))
        .map(|l| {
            let before = l.split('(').next().unwrap();
            before.rsplit([' ', '*']).next().unwrap().to_owned()
        })
        .collect();
    names.sort();
    names
}
