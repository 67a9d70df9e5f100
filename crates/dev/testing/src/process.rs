//! Processes that tests start.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A process that is killed, if it still runs, when the value is dropped: it never outlives its test.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub child: Child,
    /// What it wrote to its standard error until it was ready.
    pub said: String,
}

impl Running {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Running {
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Running { child, said: String::new() }
    }

    /// Starts it with its standard output and error piped, and waits until a line of its standard error contains `ready`.
    ///
    /// # Panics
    /// When it cannot be started, or ends before it is ready.
    #[track_caller]
    pub fn start_until(command: &mut Command, ready: &str) -> Running {
        let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        // Not a byte more than those lines: who wants the rest reads it from the pipe.
        let mut stderr = BufReader::with_capacity(1, running.child.stderr.as_mut().expect("piped"));
        while !running.said.contains(ready) {
            let read = stderr.read_line(&mut running.said);
            assert!(read.is_ok_and(|n| n > 0), "{command:?} did not say {ready:?}: {}", running.said);
        }
        running
    }

    /// Sends a signal, such as `-TERM`, by kill(1).
    ///
    /// # Panics
    /// When it has ended already.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {name}: it has ended");
    }

    /// Waits for its end: its exit status, and the rest of what it wrote to a piped standard output.
    ///
    /// # Panics
    /// When its output is not UTF-8.
    #[track_caller]
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut text).expect("UTF-8");
        }
        (self.child.wait().expect("it is ours"), text)
    }

    /// Kills it, if it still runs.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_process_is_waited_for_signalled_and_read_to_its_end() {
        let script =
            "trap 'echo asked; exit 3' TERM; echo warm >&2; echo ready >&2; while :; do sleep 0.01; done";
        let running = Running::start_until(&mut shell(script), "ready");
        assert_eq!(running.said, "warm\nready\n");
        running.signal("-TERM");
        let (status, out) = running.end();
        assert_eq!((status.code(), out.as_str()), (Some(3), "asked\n"));
    }

    #[test]
    fn a_process_does_not_outlive_its_value() {
        let running = Running::start(&mut shell("exec sleep 600"));
        let folder = format!("/proc/{}", running.child.id());
        assert!(std::path::Path::new(&folder).exists());
        drop(running);
        assert!(!std::path::Path::new(&folder).exists());
    }

    #[test]
    #[should_panic(expected = "did not say \"ready\": broken")]
    fn a_process_that_ends_early_fails_the_test() {
        let _ = Running::start_until(&mut shell("echo broken >&2"), "ready");
    }
}
