//! Short commands of a launcher: they end in bounded time, whatever they do, and so does waiting for what they print.

use barewire_base::Instant;
use barewire_measure::stamp;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often a waiting launcher looks.
pub(in crate::launcher) const SLICE: Duration = Duration::from_millis(10);
/// What is kept of each output of a command.
const KEPT_BYTES: usize = 64 * 1024;
/// How long an output may stay open after the command has ended: a process that it left behind may hold it.
const DRAIN: Duration = Duration::from_millis(500);
/// How much of a remote text goes into one message.
const SHOWN_CHARS: usize = 400;

/// A command that has ended.
#[derive(Debug)]
pub(in crate::launcher) struct Ran {
    pub(in crate::launcher) status: ExitStatus,
    pub(in crate::launcher) stdout: String,
    pub(in crate::launcher) stderr: String,
}

/// Why there is no [`Ran`].
#[derive(Debug)]
pub(in crate::launcher) enum NotRun {
    /// It could not be started.
    Start(io::Error),
    /// It took longer than it may, and was killed.
    TimedOut { stderr: String },
    /// Somebody wants an end.
    Cancelled,
}

/// Runs `command` to its end, with `input` at its standard input. It leads a process group of its own: Ctrl-C at our terminal is for
/// us, and we end it.
pub(in crate::launcher) fn run(
    command: &mut Command,
    input: Option<Arc<Vec<u8>>>,
    longest: Duration,
    cancel: &AtomicBool,
) -> Result<Ran, NotRun> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(NotRun::Start)?;
    if let (Some(mut pipe), Some(bytes)) = (child.stdin.take(), input) {
        // Who does not read to the end says why by its exit code.
        thread::spawn(move || pipe.write_all(&bytes));
    }
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let text = |output: Option<Captured>| output.map(Captured::text).unwrap_or_default();
    match wait(&mut child, longest, &|| cancel.load(Ordering::Relaxed)) {
        Waited::Ended(status) => Ok(Ran { status, stdout: text(stdout), stderr: text(stderr) }),
        Waited::TimedOut => {
            end(&mut child);
            Err(NotRun::TimedOut { stderr: text(stderr) })
        }
        Waited::Cancelled => {
            end(&mut child);
            Err(NotRun::Cancelled)
        }
    }
}

/// Kills and waits.
pub(in crate::launcher) fn end(child: &mut Child) {
    // Ended already is as good.
    let _ = child.kill();
    let _ = child.wait();
}

/// How a wait ended.
pub(in crate::launcher) enum Waited {
    Ended(ExitStatus),
    TimedOut,
    Cancelled,
}

/// Waits for a process. That its state cannot be read counts as a time-out.
pub(in crate::launcher) fn wait(
    child: &mut Child,
    longest: Duration,
    cancelled: &dyn Fn() -> bool,
) -> Waited {
    let until = Until::after(longest);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Waited::Ended(status),
            Ok(None) => {}
            Err(_) => return Waited::TimedOut,
        }
        if cancelled() {
            return Waited::Cancelled;
        }
        if until.is_over() {
            return Waited::TimedOut;
        }
        thread::sleep(SLICE);
    }
}

/// Asks again and again, with `pause` between, until there is an answer: at least once, and not again after so long.
pub(in crate::launcher) fn poll<T>(
    longest: Duration,
    pause: Duration,
    mut ask: impl FnMut() -> Option<T>,
) -> Option<T> {
    let until = Until::after(longest);
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if until.is_over() {
            return None;
        }
        thread::sleep(pause);
    }
}

/// A point of the clock: what is done between two looks takes time, too.
struct Until(Instant);

impl Until {
    fn after(longest: Duration) -> Until {
        Until(stamp() + barewire_base::Duration::from(longest))
    }

    fn is_over(&self) -> bool {
        stamp() >= self.0
    }
}

/// What was read of an output so far.
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Captured {
    /// All of it, once it has ended; else what there is: a process that was left behind may hold it open.
    fn text(self) -> String {
        let _ = self.ended.recv_timeout(DRAIN);
        let bytes = self.bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Reads an output to its end and keeps its beginning.
fn collect(mut output: impl Read + Send + 'static) -> Captured {
    let (to, ended) = sync_channel(1);
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bytes);
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = output.read(&mut piece) {
            let mut kept = kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let room = KEPT_BYTES.saturating_sub(kept.len());
            kept.extend_from_slice(&piece[..n.min(room)]);
        }
        let _ = to.send(());
    });
    Captured { bytes, ended }
}

/// Does `work` for each item, `at_once` at a time, and gives the results in the items' order. `interrupted` is asked meanwhile; `work`
/// is told by its second argument.
pub(in crate::launcher) fn each<T: Sync, R: Send>(
    items: &[T],
    at_once: usize,
    interrupted: &dyn Fn() -> bool,
    work: impl Fn(&T, &AtomicBool) -> R + Sync,
) -> Vec<R> {
    let cancel = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else { return done };
                done.push((at, work(item, &cancel)));
            }
        };
        let workers: Vec<_> =
            (0..at_once.clamp(1, items.len().max(1))).map(|_| scope.spawn(worker)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            if interrupted() {
                cancel.store(true, Ordering::Relaxed);
            }
            thread::sleep(SLICE);
        }
        let results = workers.into_iter().map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        results.flatten().collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The last lines of what a program said, fit for one line of ours: others wrote it, so nothing in it may move a cursor.
pub(in crate::launcher) fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let skipped = last.chars().count().saturating_sub(SHOWN_CHARS);
    last.chars().skip(skipped).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn input_output_and_exit_code_come_through() {
        let never = AtomicBool::new(false);
        let input = Some(Arc::new(vec![b'x'; 300_000]));
        let ran = run(&mut sh("wc -c; echo bad >&2; exit 3"), input, LONG, &never).unwrap();
        assert_eq!((ran.stdout.trim(), ran.stderr.trim(), ran.status.code()), ("300000", "bad", Some(3)));
        // Who does not read is not waited for.
        let ran = run(&mut sh("true"), Some(Arc::new(vec![0; 1 << 20])), LONG, &never).unwrap();
        assert!(ran.status.success());
        // Endless output does not fill memory.
        let ran = run(&mut sh("head -c 1000000 /dev/zero"), None, LONG, &never).unwrap();
        assert_eq!(ran.stdout.len(), KEPT_BYTES);
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let never = AtomicBool::new(false);
        // It has to say so before its time is up: on a busy machine it gets more of it.
        let says_why = [300, 3_000, 30_000].map(Duration::from_millis).into_iter().any(|longest| {
            let began = stamp();
            match run(&mut sh("echo why >&2; exec sleep 1000"), None, longest, &never) {
                Err(NotRun::TimedOut { stderr }) => {
                    assert!(stamp().since(began) >= longest.into(), "not before its time is up");
                    stderr == "why\n"
                }
                other => panic!("{other:?}"),
            }
        });
        assert!(says_why);
        let cancel = AtomicBool::new(true);
        assert!(matches!(run(&mut sh("exec sleep 100"), None, LONG, &cancel), Err(NotRun::Cancelled)));
        assert!(matches!(run(&mut Command::new("/no/such"), None, LONG, &never), Err(NotRun::Start(_))));
        // A grandchild that keeps the pipes keeps neither us nor what was said. Who reads for us has half a second for it, which
        // a busy machine may need for something else.
        let said_it = (0..3).any(|_| {
            let ran = run(&mut sh("sleep 3 & echo gone"), None, LONG, &never).unwrap();
            assert!(ran.status.success(), "{ran:?}");
            ran.stdout == "gone\n"
        });
        assert!(said_it);
    }

    #[test]
    fn results_stand_in_the_order_of_the_items_and_interruption_reaches_the_work() {
        let items: Vec<u64> = (0..20).collect();
        assert_eq!(each(&items, 4, &|| false, |n, _| n * 2), items.iter().map(|n| n * 2).collect::<Vec<_>>());
        assert_eq!(each(&[0; 0], 4, &|| false, |n: &u64, _| *n), [0; 0]);
        let told = each(&[0; 3], 3, &|| true, |_, cancel| {
            poll(LONG, SLICE, || cancel.load(Ordering::Relaxed).then_some(())).is_some()
        });
        assert_eq!(told, [true; 3]);
    }

    #[test]
    fn last_words_are_one_line_without_control_characters() {
        assert_eq!(last_words("a\n\nb\n c\r\n\x1b[2Jd\n"), "b; c;  [2Jd");
        assert_eq!(last_words(""), "");
        assert_eq!(last_words(&"ü".repeat(1000)).chars().count(), SHOWN_CHARS);
    }
}
