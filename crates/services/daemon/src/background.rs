//! What an engine must not do itself, as it may take long: writing to standard error, which may be a pipe that nobody
//! reads, and giving back the memory of an application that is gone. Threads of their own do it.

use crate::applications::Application;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::time::{Duration, Instant};

/// Lines that wait to be written; more are counted and left out.
const LINES_MAX: usize = 64;
/// Lines in a second, at most: what applications do in a loop fills no disk.
const LINES_PER_SECOND: u32 = 20;
/// How long the daemon waits at its end for what is still to be written.
const LAST_WORDS_TIME: Duration = Duration::from_millis(200);

#[cfg(debug_assertions)]
thread_local! {
    static IN_CYCLE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Held by an engine during a duty cycle, so that builds with debug assertions, and with them all tests, see what does not belong there.
pub(crate) struct Cycle(());

impl Cycle {
    #[inline]
    pub(crate) fn begin() -> Cycle {
        #[cfg(debug_assertions)]
        IN_CYCLE.set(true);
        Cycle(())
    }
}

#[cfg(debug_assertions)]
impl Drop for Cycle {
    fn drop(&mut self) {
        IN_CYCLE.set(false);
    }
}

/// To give an application's memory back takes milliseconds in which an engine would serve nobody: see [`Background::bury`].
#[cfg(debug_assertions)]
impl Drop for Application {
    fn drop(&mut self) {
        assert_not_in_cycle();
    }
}

#[cfg(debug_assertions)]
fn assert_not_in_cycle() {
    // A panic unwinds through a cycle, and the engine with it.
    let fine = !IN_CYCLE.get() || std::thread::panicking();
    assert!(fine, "an engine gives an application's memory back in its duty cycle");
}

/// An engine's end.
#[derive(Clone)]
pub(crate) struct Background {
    lines: SyncSender<String>,
    left_out: Arc<AtomicU64>,
    graves: Sender<Box<Application>>,
}

/// The daemon's end: waits for the last words.
pub(crate) struct BackgroundThreads {
    writer: std::thread::JoinHandle<()>,
}

/// Starts both threads. They end when the last [`Background`] is gone.
///
/// # Errors
/// The system's, when it has no thread.
pub(crate) fn start(out: impl Write + Send + 'static) -> std::io::Result<(Background, BackgroundThreads)> {
    let (lines, said) = mpsc::sync_channel(LINES_MAX);
    let (graves, dead) = mpsc::channel::<Box<Application>>();
    let left_out = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&left_out);
    let writer = std::thread::Builder::new()
        .name("notices".to_owned())
        .spawn(move || write_lines(&said, &counted, out))?;
    std::thread::Builder::new().name("reaper".to_owned()).spawn(move || dead.iter().for_each(drop))?;
    Ok((Background { lines, left_out, graves }, BackgroundThreads { writer }))
}

impl Background {
    /// Has a line written, without the program's name and the end of the line. Never waits.
    pub(crate) fn say(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has an application's memory given back.
    pub(crate) fn bury(&self, application: Box<Application>) {
        // Without the thread there is nobody else to do it.
        let _ = self.graves.send(application);
    }
}

impl BackgroundThreads {
    /// Waits a little for what is still to be written.
    #[allow(clippy::disallowed_methods, reason = "the engines have ended: nobody else knows the time")]
    pub(crate) fn finish(self) {
        let end = Instant::now() + LAST_WORDS_TIME;
        while !self.writer.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a thread beside the engines has no duty cycle that knows the time"
)]
fn write_lines(said: &mpsc::Receiver<String>, left_out: &AtomicU64, mut out: impl Write) {
    let (mut since, mut lines) = (Instant::now(), 0);
    for line in said {
        if since.elapsed() >= Duration::from_secs(1) {
            (since, lines) = (Instant::now(), 0);
        }
        if lines == LINES_PER_SECOND {
            left_out.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        lines += 1;
        // Whether anybody reads it is none of the daemon's concern.
        let _ = writeln!(out, "barewire: {line}");
        let missed = left_out.swap(0, Ordering::Relaxed);
        if missed > 0 {
            let _ = writeln!(out, "barewire: {missed} more lines were dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// That no test sees an application's memory given back there means that none is.
    #[test]
    #[cfg(debug_assertions)]
    fn what_is_given_back_in_a_cycle_is_seen() {
        let in_cycle = || {
            let _cycle = Cycle::begin();
            assert_not_in_cycle();
        };
        assert!(std::thread::spawn(in_cycle).join().is_err());
        drop(Cycle::begin());
        assert_not_in_cycle();
    }

    #[test]
    fn lines_are_written_and_a_flood_is_counted() {
        let kept = Kept::default();
        let (background, threads) = start(kept.clone()).unwrap();
        for i in 0..1_000 {
            background.say(format!("line {i}"));
        }
        drop(background);
        // A machine without a core for the writer is given more time than the daemon would.
        for _ in 0..10_000 {
            if threads.writer.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        threads.finish();
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("barewire: line 0\n"), "{text}");
        let lines = text.lines().count() as u32;
        // Another second may have begun meanwhile.
        assert!((LINES_PER_SECOND..=2 * LINES_PER_SECOND + 2).contains(&lines), "{lines} lines");
    }

    /// A pipe without a reader, and one that is full.
    #[test]
    fn nobody_has_to_read() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (background, threads) = start(Broken).unwrap();
        background.say("nobody hears it".to_owned());
        drop(background);
        threads.finish();

        struct Stuck;
        impl Write for Stuck {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                loop {
                    std::thread::park();
                }
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (background, threads) = start(Stuck).unwrap();
        for i in 0..10 * LINES_MAX {
            background.say(format!("line {i}"));
        }
        assert!(background.left_out.load(Ordering::Relaxed) >= 9 * LINES_MAX as u64 - 1);
        drop(background);
        threads.finish();
    }
}
