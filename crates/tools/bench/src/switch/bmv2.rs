//! bmv2's `simple_switch`, where it is installed: started in a namespace of its own, given the same program and the same
//! entries, watched, stopped.

use super::figures::{RECORDED, RECORDED_FILES};
use super::program::Source;
use super::row::{ENGINE, carried};
use super::setup::{Step, commands};
use super::workload::{IN_PORT, Workload};
use crate::error::{BenchError, go_on};
use crate::row::{Measure, Measured, Param, Row, Subject, Unit};
use barewire_measure::{Contention, ContentionReport, stamp};
use barewire_netns::Namespace;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where its Thrift server listens, in its own namespace.
const THRIFT_PORT: u16 = 9090;
/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Entries that its command line writes a second, less than it does: the replay of files must not begin before all are
/// written.
const WRITES_PER_S: usize = 2_000;
/// A file that has not grown for so long is whole.
const QUIET: Duration = Duration::from_millis(1500);
const POLL: Duration = Duration::from_millis(2);

/// A program on the `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Where it is installed.
#[derive(Clone, Debug)]
pub struct Installed {
    switch: PathBuf,
    cli: PathBuf,
}

/// A running one. Dropping it stops it.
pub struct Running {
    child: Child,
    log: PathBuf,
}

/// What a replay of captures showed.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Packets per second that were written.
    pub rate_pps: f64,
    /// CPU time for each packet, in us.
    pub cpu_us_per_packet: Option<f64>,
    /// Others on our cores.
    pub contention: ContentionReport,
}

fn failed(why: impl Into<String>) -> BenchError {
    BenchError::Program { program: "simple_switch".to_owned(), why: why.into() }
}

impl Installed {
    /// `simple_switch` and `simple_switch_CLI` on the `PATH`.
    pub fn find() -> Option<Installed> {
        let found = Installed { switch: on_path("simple_switch")?, cli: on_path("simple_switch_CLI")? };
        // A link to ourselves is no baseline.
        let real = fs::canonicalize(&found.switch).ok()?;
        let ours = std::env::current_exe().and_then(fs::canonicalize).ok();
        (Some(real) != ours).then_some(found)
    }

    /// Starts it in `ns` with `options` before the program, which is written to `folder`.
    ///
    /// # Errors
    /// [`BenchError`] when it does not run or does not listen.
    pub fn start(
        &self,
        ns: &Namespace,
        folder: &Path,
        source: &Source,
        options: &[String],
    ) -> Result<Running, BenchError> {
        let json = folder.join("program.json");
        fs::write(&json, source.json()?).map_err(BenchError::io("writing the program"))?;
        let log = folder.join("simple_switch.log");
        let file = File::create(&log).map_err(BenchError::io("making a log"))?;
        let again = file.try_clone().map_err(BenchError::io("making a log"))?;
        // It watches its ports in /sys/class/net, which must be that of its namespace. It goes with us, however we go.
        let script = "mount -t sysfs none /sys && \
                      if command -v setpriv > /dev/null; then exec setpriv --pdeathsig TERM \"$@\"; else exec \"$@\"; fi";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(&self.switch).args(options);
        command.args(["--thrift-port", &THRIFT_PORT.to_string(), "--log-level", "off"]);
        command.arg("--notifications-addr").arg(format!("ipc://{}", folder.join("n.ipc").display()));
        command.arg(&json).current_dir(folder).stdin(Stdio::null()).stdout(file).stderr(again);
        let child = ns.spawn_in(&mut command).map_err(BenchError::io("starting simple_switch"))?;
        let mut running = Running { child, log };
        running.wait_until_listening(ns)?;
        Ok(running)
    }

    /// Gives the running one its entries, and `more` commands in its own words.
    ///
    /// # Errors
    /// [`BenchError`] with the first line of its command line that tells of a mistake.
    pub fn populate(&self, ns: &Namespace, steps: &[Step], more: &str) -> Result<(), BenchError> {
        let mut command = Command::new(&self.cli);
        command.args(["--thrift-port", &THRIFT_PORT.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ns.spawn_in(&mut command).map_err(BenchError::io("starting simple_switch_CLI"))?;
        let text = commands(steps) + more;
        let stdin = child.stdin.take();
        let writer =
            std::thread::spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes())));
        let output = child.wait_with_output().map_err(BenchError::io("simple_switch_CLI"))?;
        // A broken pipe shows in what the command line said.
        let _ = writer.join();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let wrong = |line: &&str| {
            ["Error", "error", "Invalid", "invalid", "Unknown", "Traceback"]
                .iter()
                .any(|word| line.contains(word))
        };
        match said.lines().find(wrong) {
            Some(line) => {
                Err(BenchError::Program { program: "simple_switch_CLI".to_owned(), why: line.to_owned() })
            }
            None if output.status.success() => Ok(()),
            None => Err(BenchError::Program {
                program: "simple_switch_CLI".to_owned(),
                why: format!("ended with {}", output.status),
            }),
        }
    }

    /// Replays the captures in `folder` through it: `packets` packets in, as fast as it goes. Its rate is that of the files'
    /// growth from the first packet to the last; its CPU time that of its threads over the replay.
    ///
    /// # Errors
    /// [`BenchError`] when it cannot be run.
    pub fn run_files(
        &self,
        source: &Source,
        workload: &Workload,
        folder: &Path,
        packets: u64,
    ) -> Result<Replayed, BenchError> {
        let ns = Namespace::anonymous()?;
        ns.set_up("lo")?;
        let mut ports = vec![IN_PORT];
        ports.extend(&workload.out_ports);
        let wait = 3 + workload.steps.len() / WRITES_PER_S;
        let mut options = vec!["--use-files".to_owned(), wait.to_string()];
        for port in &ports {
            options.extend(["-i".to_owned(), format!("{port}@p{port}")]);
            let _ = fs::remove_file(folder.join(format!("p{port}_out.pcap")));
        }
        let started = stamp();
        let running = self.start(&ns, folder, source, &options)?;
        // A replay does not wait for its queues, which hold 64 packets: they are made long enough for all.
        self.populate(&ns, &workload.steps, &format!("set_queue_depth {packets}\n"))?;
        let took = stamp().since(started).as_secs_f64();
        if took > wait as f64 {
            return Err(failed(format!("{took:.1} s to write the entries, {wait} s were allowed")));
        }
        let size = || -> u64 {
            let of =
                |port: &u32| fs::metadata(folder.join(format!("p{port}_out.pcap"))).map_or(0, |m| m.len());
            workload.out_ports.iter().map(of).sum()
        };
        let empty = 24 * workload.out_ports.len() as u64;
        let watch = Contention::start();
        let mut cpu = running.cpu_ns();
        let (mut first, mut last) = (None, stamp());
        let mut seen = 0;
        loop {
            go_on()?;
            std::thread::sleep(POLL);
            let now = stamp();
            let grown = size();
            if grown > seen {
                if first.is_none() && grown > empty {
                    first = Some((now, grown));
                }
                (seen, last) = (grown, now);
            } else if first.is_none() {
                cpu = running.cpu_ns();
                if now.since(started).as_secs_f64() > wait as f64 + 10.0 {
                    return Err(failed(format!("no packet came out; {}", running.said())));
                }
            } else if now.since(last) > QUIET.into() {
                break;
            }
        }
        let report = watch.finish();
        let (begin, at_first) = first.ok_or_else(|| failed("no packet came out"))?;
        let cpu = running.cpu_ns().zip(cpu).map(|(after, before)| after.saturating_sub(before));
        let span = last.since(begin).as_secs_f64().max(1e-3);
        // What was there when the file was first seen to grow is not of the span.
        let share = (seen - at_first) as f64 / (seen - seen.min(empty)).max(1) as f64;
        running.stop();
        Ok(Replayed {
            rate_pps: packets as f64 * share / span,
            cpu_us_per_packet: cpu.map(|ns| ns as f64 / 1e3 / packets as f64),
            contention: report,
        })
    }
}

impl Running {
    fn wait_until_listening(&mut self, ns: &Namespace) -> Result<(), BenchError> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, THRIFT_PORT));
        let begin = stamp();
        while stamp().since(begin) < PATIENCE.into() {
            go_on()?;
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(failed(format!("ended with {status}: {}", self.said())));
            }
            if ns.enter(|| TcpStream::connect(at).is_ok())? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(failed(format!("does not listen after {} s: {}", PATIENCE.as_secs(), self.said())))
    }

    /// The last line that it said.
    fn said(&self) -> String {
        let mut text = String::new();
        let _ = File::open(&self.log).and_then(|mut f| f.read_to_string(&mut text));
        text.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("it said nothing").to_owned()
    }

    /// CPU time of all its threads, in ns.
    pub fn cpu_ns(&self) -> Option<u64> {
        tasks_cpu_ns(&format!("/proc/{}/task", self.child.id()), |_| true)
    }

    /// Stops it and waits.
    pub fn stop(self) {
        drop(self);
    }
}

/// CPU time of those threads under a `task` folder whose name pleases, in ns (proc(5), `schedstat`).
pub(crate) fn tasks_cpu_ns(folder: &str, is_one: impl Fn(&str) -> bool) -> Option<u64> {
    let mut sum = None;
    for task in fs::read_dir(folder).ok()?.flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).ok();
        if !read("comm").is_some_and(|comm| is_one(comm.trim())) {
            continue;
        }
        let ns: u64 = read("schedstat").and_then(|text| text.split_whitespace().next()?.parse().ok())?;
        *sum.get_or_insert(0) += ns;
    }
    sum
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let begin = stamp();
        while stamp().since(begin) < PATIENCE.into() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The row of figures that were recorded elsewhere for this program, if there are any.
pub(super) fn recorded_files(program: &str, entries: u32) -> Option<Row> {
    let &(.., rates, costs) =
        RECORDED_FILES.iter().filter(|r| r.0 == program && r.1 <= entries).max_by_key(|r| r.1)?;
    let run = |rate: f64, cpu: f64| carried(rate).number("cpu_us_per_packet", cpu);
    let params = vec![
        Param::word("program", program),
        Param::new("size", Unit::Bytes, 60),
        Param::word("entries", entries),
    ];
    let runs = [run(rates[0], costs[1]), run(rates[1], costs[0])];
    Some(recorded("pcap", params, ENGINE, &runs))
}

/// A row of bmv2 whose runs were recorded elsewhere.
pub(super) fn recorded(
    over: &str,
    params: Vec<Param>,
    measures: &'static [Measure],
    runs: &[Measured],
) -> Row {
    let (system, over) = ("bmv2".to_owned(), Some(over.to_owned()));
    let subject = Subject { bench: "switch", system, over, params, ..Subject::default() };
    Row { recorded: Some(RECORDED.to_owned()), ..Row::of(subject, measures, runs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_rows_say_so_and_follow_the_entries() {
        let rate =
            |program: &str, entries| recorded_files(program, entries).and_then(|row| row.number("rate_pps"));
        assert_eq!(rate("simple_router", 1000), Some(72e3));
        assert_eq!(rate("acl", 100), Some(67e3));
        assert_eq!(rate("acl", 10_000), Some(34.9e3));
        assert_eq!(rate("acl", 50_000), Some(10.2e3));
        assert_eq!(rate("many_tables", 10), None);
        assert!(recorded_files("acl", 1).unwrap().recorded.unwrap().contains("not measured in this run"));
    }

    #[test]
    fn threads_tell_their_time() {
        let busy = std::thread::Builder::new().name("busy-for-a-while".into()).spawn(|| {
            // By its own clock: by that of the wall others may have had all of the time.
            let spent = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let enough = rustix::time::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            while spent() < enough {}
            tasks_cpu_ns("/proc/self/task", |name| name == "busy-for-a-whil")
        });
        let ns = busy.unwrap().join().unwrap().expect("the kernel tells");
        assert!((10_000_000..10_000_000_000).contains(&ns), "{ns}");
        assert_eq!(tasks_cpu_ns("/proc/self/task", |_| false), None);
        assert_eq!(tasks_cpu_ns("/proc/0/task", |_| true), None);
    }
}
