//! A language's `bench` program as a process: told what to do, waited for, ended.

use super::kit::done;
use super::{Job, Times};
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::run::Stop;
use barewire_measure::Histogram;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How long a program may take beyond its own times: virtual machines start in it.
const PATIENCE: Duration = Duration::from_secs(30);
/// So often it is looked whether somebody interrupted.
const LOOK: Duration = Duration::from_millis(200);
/// CPU is looked at so often in the time that a client measures: a look costs a tenth of a millisecond.
const LOOKS_MIN: u32 = 8;
/// A server looks so often whether its client has ended.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// Bytes of a program's own words that an error repeats.
const WORDS_MAX: usize = 600;
/// Characters of a client's answer that an error repeats.
const SAID_MAX: usize = 80;

/// How to start it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The program, and what comes before the arguments.
    pub(super) words: Vec<String>,
    /// Variables of its environment.
    pub(super) env: Vec<(&'static str, String)>,
}

/// A started program, ended when dropped.
struct Running {
    child: Child,
    words: PathBuf,
    shown: String,
}

impl Running {
    /// What it said on standard error, or how it ended.
    fn error(&mut self, what: &str) -> BenchError {
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        let said = std::fs::read(&self.words).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[said.len().saturating_sub(WORDS_MAX)..]).trim().to_owned();
        let why = if said.is_empty() { format!("{what} ({status})") } else { format!("{what}: {said}") };
        BenchError::Program { program: self.shown.clone(), why }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Runs it for one answer, by its exit status.
    pub(super) fn asked(&self, args: &[&str]) -> Result<(), String> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(args).stdin(Stdio::null());
        done(command.envs(self.env.iter().map(|(key, value)| (key, value))))
    }

    fn start(&self, args: &[String], socket: Option<&Path>, words: PathBuf) -> Result<Running, BenchError> {
        let shown = self.words.join(" ");
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(args).envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(socket) = socket {
            command.env("BAREWIRE_SOCKET", socket);
        }
        let stderr = File::create(&words).map_err(BenchError::io(words.display().to_string()))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let child = command.spawn().map_err(BenchError::io(shown.clone()))?;
        Ok(Running { child, words, shown })
    }

    /// Serves until the client has ended. It inherits host and core of the calling thread.
    pub(super) fn serve(
        &self,
        job: &Job,
        socket: Option<&Path>,
        folder: &Path,
        tell: impl Fn(u16),
        stop: &Stop<'_>,
    ) -> Result<(), BenchError> {
        let args = ["serve", job.carrier.word(), &job.port().to_string(), &job.size.to_string()];
        let mut running = self.start(&args.map(str::to_owned), socket, folder.join("server.log"))?;
        let (mut out, pid) = output(&mut running.child);
        let line = within(pid, PATIENCE, LOOK, &|| {}, || {
            let mut line = String::new();
            out.read_line(&mut line).map(|_| line)
        });
        let port = line.ok().and_then(|line| line.trim().strip_prefix("ready ")?.parse::<u16>().ok());
        let Some(port) = port else {
            go_on()?;
            return Err(running.error("its server did not start"));
        };
        tell(port);
        stop.ready();
        while !stop.asked() {
            std::thread::sleep(STOP_CHECK);
        }
        Ok(())
    }

    /// Asks, and measures.
    pub(super) fn run(
        &self,
        job: &Job,
        server: SocketAddr,
        socket: Option<&Path>,
        folder: &Path,
        cpu: &Charge,
    ) -> Result<Times, BenchError> {
        let file = folder.join("round-trips");
        let ms = |time: barewire_base::Duration| (time.as_nanos() / 1_000_000).to_string();
        let args = [
            "run".to_owned(),
            job.carrier.word().to_owned(),
            server.to_string(),
            job.size.to_string(),
            job.window.to_string(),
            ms(job.warmup),
            ms(job.seconds),
            file.display().to_string(),
        ];
        let mut running = self.start(&args, socket, folder.join("client.log"))?;
        let (mut out, pid) = output(&mut running.child);
        let limit = PATIENCE + Duration::from(job.warmup + job.seconds);
        cpu.looks();
        // Only the program knows when its measured time began, and says at the end how long it was.
        let every = LOOK.min(Duration::from(job.seconds) / LOOKS_MIN);
        let said = within(pid, limit, every, &|| cpu.looks(), || {
            let mut said = String::new();
            out.read_line(&mut said)?;
            let ns = said.trim().strip_prefix("measured ").and_then(|ns| ns.parse::<u64>().ok());
            let charged = cpu.ended(barewire_base::Duration::from_nanos(ns.unwrap_or_default()));
            out.read_to_string(&mut said).map(|_| (said, charged))
        });
        go_on()?;
        let (said, charged) = said.unwrap_or_default();
        let measured = said.trim().strip_prefix("measured ").and_then(|ns| ns.parse::<u64>().ok());
        let Some(measured_ns) = measured.filter(|ns| *ns > 0) else {
            let said: String = said.trim().chars().take(SAID_MAX).collect();
            let what = match said.is_empty() {
                true => "its client did not measure".to_owned(),
                false => format!("its client did not measure, and said `{}`", said.escape_debug()),
            };
            return Err(running.error(&what));
        };
        let bytes = std::fs::read(&file).map_err(BenchError::io(file.display().to_string()))?;
        let mut round_trips = Histogram::new();
        for ns in bytes.chunks_exact(4) {
            round_trips.record(u32::from_le_bytes([ns[0], ns[1], ns[2], ns[3]]).into());
        }
        // In a closed loop the part of the time that was looked at had its part of the responses.
        let part = charged.as_nanos() as f64 / measured_ns as f64;
        let charged = (round_trips.samples() as f64 * part).round() as u64;
        Ok(Times { round_trips, seconds: measured_ns as f64 / 1e9, charged })
    }
}

fn output(child: &mut Child) -> (BufReader<Box<dyn Read + Send>>, Option<Pid>) {
    let out: Option<ChildStdout> = child.stdout.take();
    let out: Box<dyn Read + Send> = out.map_or_else(|| Box::new(io::empty()) as _, |out| Box::new(out) as _);
    (BufReader::new(out), Pid::from_raw(child.id() as i32))
}

/// What `wait` brings, which ends when the process does: that is killed when the time is over or somebody interrupts. `each` is called `every`
/// so often meanwhile.
fn within<T: Send>(
    pid: Option<Pid>,
    limit: Duration,
    every: Duration,
    each: &(dyn Fn() + Sync),
    wait: impl FnOnce() -> T + Send,
) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut left = limit;
            loop {
                let part = left.min(every);
                match is_done.recv_timeout(part) {
                    Err(RecvTimeoutError::Timeout) => {
                        left -= part;
                        each();
                    }
                    _ => return,
                }
                if left.is_zero() || go_on().is_err() {
                    if let Some(pid) = pid {
                        let _ = kill_process(pid, Signal::KILL);
                    }
                    return;
                }
            }
        });
        let got = wait();
        drop(done);
        got
    })
}
