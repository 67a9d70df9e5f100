//! A process that the agent has started: its pipes, its end.

use super::lines::Lines;
use super::outbox::Outbox;
use super::protocol::{Event, SignalWord, Stream};
use crate::sys;
use barewire_base::{Duration, Instant};
use barewire_measure::{realtime_ns, stamp};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// How long pipes may be silent after the process has ended before its end is told, when somebody else still holds them.
const DRAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// And how long at most, however much they say.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// How long to sleep at most.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const READ_BYTES: usize = 64 << 10;

/// A process that was started.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pid: u32,
    /// Taken when it has been waited for: from then on its id may be another's.
    running: Arc<Mutex<Option<Pid>>>,
}

impl Process {
    /// Starts it, and a thread that tells what it writes and how it ends. It is killed when the calling thread ends.
    pub(super) fn start(id: u32, command: &mut Command, outbox: &Outbox) -> io::Result<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = sys::start_tied(command, Signal::KILL)?;
        let pid = Pid::from_child(&child);
        let process = Process { pid: child.id(), running: Arc::new(Mutex::new(Some(pid))) };
        // It cannot be another's: nobody has waited for it.
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let watch = Watch { id, child, fd, running: Arc::clone(&process.running), outbox: outbox.clone() };
        std::thread::Builder::new().name(format!("process-{id}")).spawn(move || watch.run())?;
        Ok(process)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Sends a signal to the process and its group. Nothing happens when it has ended.
    pub(super) fn signal(&self, signal: SignalWord) {
        let signal = match signal {
            SignalWord::Int => Signal::INT,
            SignalWord::Term => Signal::TERM,
            SignalWord::Kill => Signal::KILL,
        };
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = *running {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }
}

struct Watch {
    id: u32,
    child: Child,
    fd: OwnedFd,
    running: Arc<Mutex<Option<Pid>>>,
    outbox: Outbox,
}

struct Pipe<R> {
    stream: Stream,
    from: Option<R>,
    lines: Lines,
}

impl<R: Read + AsFd> Pipe<R> {
    /// Takes what is there; at the end the pipe goes.
    fn take(&mut self, id: u32, outbox: &Outbox) {
        let Some(from) = &mut self.from else { return };
        let mut buffer = [0; READ_BYTES];
        let stream = self.stream;
        let emit = |text, more| outbox.line(Event::Line { id, stream, text, more });
        match from.read(&mut buffer) {
            Ok(0) => {
                self.lines.finish(emit);
                self.from = None;
            }
            Ok(n) => self.lines.push(&buffer[..n], emit),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.from = None,
        }
    }
}

impl Watch {
    fn run(mut self) {
        let mut out = Pipe { stream: Stream::Out, from: self.child.stdout.take(), lines: Lines::default() };
        let mut err = Pipe { stream: Stream::Err, from: self.child.stderr.take(), lines: Lines::default() };
        let mut ended: Option<(ExitStatus, Instant, u64)> = None;
        let mut told = false;
        while !(told && out.from.is_none() && err.from.is_none()) {
            let pid_fd = ended.is_none().then(|| self.fd.as_fd());
            let timeout = if ended.is_some() && !told { DRAIN } else { LOOK };
            let ready = wait(
                [out.from.as_ref().map(AsFd::as_fd), err.from.as_ref().map(AsFd::as_fd), pid_fd],
                &timeout,
            );
            if ready[0] {
                out.take(self.id, &self.outbox);
            }
            if ready[1] {
                err.take(self.id, &self.outbox);
            }
            if ready[2] {
                // The lock: nobody may send a signal to an id that is free.
                let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                let status = self.child.wait().unwrap_or_else(|_| ExitStatus::from_raw(0));
                ended = Some((status, stamp(), realtime_ns()));
                *running = None;
            }
            let closed = out.from.is_none() && err.from.is_none();
            let quiet = closed || !(ready[0] || ready[1] || ready[2]);
            // What it has left behind may write for ever.
            let is_due = |at: Instant| quiet || stamp().since(at) > DRAIN_MAX;
            if let Some((status, _, unix_ns)) = ended.filter(|(_, at, _)| !told && is_due(*at)) {
                let id = self.id;
                // What it left without an end of line is a line.
                for (lines, stream) in [(&mut out.lines, Stream::Out), (&mut err.lines, Stream::Err)] {
                    lines.finish(|text, more| self.outbox.line(Event::Line { id, stream, text, more }));
                }
                let (code, signal) = (status.code(), status.signal());
                self.outbox.tell(Event::Exited { id, code, signal, unix_ns });
                told = true;
            }
        }
    }
}

/// Waits until one of the descriptors has something, or the time is up. Says which.
fn wait(fds: [Option<BorrowedFd<'_>>; 3], timeout: &Timespec) -> [bool; 3] {
    let (places, mut polled): (Vec<usize>, Vec<PollFd<'_>>) = fds
        .into_iter()
        .enumerate()
        .filter_map(|(i, fd)| Some((i, PollFd::from_borrowed_fd(fd?, PollFlags::IN))))
        .unzip();
    let mut ready = [false; 3];
    if rustix::event::poll(&mut polled, Some(timeout)).is_ok() {
        places.into_iter().zip(&polled).for_each(|(i, fd)| ready[i] = !fd.revents().is_empty());
    }
    ready
}
