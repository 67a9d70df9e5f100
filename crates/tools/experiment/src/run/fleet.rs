//! All agents of an experiment, as the controller has them.

use crate::agent::protocol::{Event, Hello, LINE_BYTES_MAX, Request};
use crate::agent::{CLEANUP_FAILED, Lines, PIECE_BYTES_MAX};
use crate::launcher::AgentPipes;
use barewire_base::{Duration, Instant};
use barewire_measure::stamp;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};

/// Between two pings.
const PING_EVERY: std::time::Duration = std::time::Duration::from_secs(1);
/// How long agents may take to clean up, all together.
const END_WAIT: Duration = Duration::from_secs(8);
/// What may wait to be looked at, in number and in bytes of all agents together. Agents that say more wait with it, and their processes
/// with them.
const WAITING_MAX: usize = 1024;
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Longest line of an agent. A piece of a process' line is shorter though JSON spells a byte with up to six, and so is a fingerprint.
const SAID_BYTES_MAX: usize = 1 << 20;
const _: () = assert!(SAID_BYTES_MAX > 6 * PIECE_BYTES_MAX && SAID_BYTES_MAX <= LINE_BYTES_MAX);
/// A value takes about so many times the memory that its text takes.
const VALUE_TIMES: usize = 16;
/// Between two looks whether there is room again.
const ROOM_LOOK: std::time::Duration = std::time::Duration::from_millis(2);
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);
/// Lines that are kept of what an agent's process says beside the conversation.
const WORDS_KEPT: usize = 5;
const WORD_LEN_MAX: usize = 300;
/// Events that are kept for logs after a loss, in number and in bytes.
const LEFTOVER_MAX: usize = 10_000;
const LEFTOVER_BYTES_MAX: usize = 16 << 20;
/// Cleanup commands that did not work are told so many of.
const UNCLEANED_MAX: usize = 100;
/// How often silent agents are looked for although others talk.
const LOOK_FOR_SILENCE: Duration = Duration::from_secs(1);
/// In place of when an agent was heard: what it said waits to be taken in.
const WAITS: u64 = u64::MAX;
/// How long an agent that is lost may take to end: what is left of it may never.
const LOST_WAIT: Duration = Duration::from_secs(2);

/// An agent that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) host: usize,
    pub(super) why: String,
}

/// What came from an agent's process.
enum AgentOutput {
    Event(Event),
    /// On standard error, or no event.
    Words(String),
    Closed,
}

/// What an agent said, and what it takes while it waits.
struct Heard {
    host: usize,
    bytes: usize,
    said: AgentOutput,
}

/// Bytes that wait between the threads that read and the one that takes in.
#[derive(Debug, Default)]
struct Room {
    taken: AtomicUsize,
    /// Nobody takes in any more.
    closed: AtomicBool,
}

impl Room {
    /// Waits until there is some, and takes it.
    fn enter(&self, bytes: usize) {
        while self.taken.load(Ordering::Relaxed) > WAITING_BYTES_MAX && !self.closed.load(Ordering::Relaxed) {
            std::thread::sleep(ROOM_LOOK);
        }
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn leave(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// By how much a host's clock is ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) ahead_ns: i64,
    /// It may be wrong by so much: half of the exchange's round trip.
    pub(super) error_ns: u64,
}

/// One agent.
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) hello: Option<Hello>,
    pub(super) clock: Option<Clock>,
    child: Child,
    /// `None`: told to end.
    requests: Option<Sender<Request>>,
    /// Requests that were not written yet.
    queued: Arc<AtomicUsize>,
    heard: Arc<AtomicU64>,
    words: VecDeque<String>,
    /// It is gone, or cannot go on: nobody waits long for its end.
    lost: bool,
}

/// All of them.
pub(super) struct Fleet {
    pub(super) agents: Vec<Agent>,
    sender: SyncSender<Heard>,
    said: Receiver<Heard>,
    room: Arc<Room>,
    /// When somebody last looked for silent ones.
    looked: Instant,
    /// An agent that has said nothing for so long is lost.
    silence: Duration,
    /// What was read ahead of its turn.
    pending: VecDeque<Heard>,
    /// What came while nobody could take it in.
    leftover: Vec<(usize, Event)>,
    leftover_bytes: usize,
    /// Cleanup commands that did not work, by host.
    pub(super) uncleaned: Vec<String>,
}

impl Fleet {
    pub(super) fn new(silence: Duration) -> Fleet {
        let (sender, said) = mpsc::sync_channel(WAITING_MAX);
        Fleet {
            agents: Vec::new(),
            sender,
            said,
            looked: stamp(),
            silence,
            pending: VecDeque::new(),
            leftover: Vec::new(),
            leftover_bytes: 0,
            room: Arc::default(),
            uncleaned: Vec::new(),
        }
    }

    /// Takes an agent in, whose process was started. Its number is its place.
    pub(super) fn add(&mut self, name: &str, pipes: AgentPipes) {
        let mut child = pipes.child;
        let index = self.agents.len();
        let heard = Arc::new(AtomicU64::new(stamp().as_nanos()));
        if let Some(stdout) = child.stdout.take() {
            let (to, heard) = (
                To { host: index, sender: self.sender.clone(), room: Arc::clone(&self.room) },
                Arc::clone(&heard),
            );
            std::thread::spawn(move || read_events(stdout, &to, &heard));
        }
        if let Some(stderr) = child.stderr.take() {
            let to = To { host: index, sender: self.sender.clone(), room: Arc::clone(&self.room) };
            std::thread::spawn(move || read_words(stderr, &to));
        }
        let (requests, to_write) = mpsc::channel();
        let queued = Arc::new(AtomicUsize::new(0));
        if let Some(stdin) = child.stdin.take() {
            let queued = Arc::clone(&queued);
            std::thread::spawn(move || write_requests(stdin, &to_write, &queued));
        }
        self.agents.push(Agent {
            name: name.to_owned(),
            hello: None,
            clock: None,
            child,
            requests: Some(requests),
            queued,
            heard,
            words: VecDeque::new(),
            lost: false,
        });
    }

    pub(super) fn send(&self, host: usize, request: Request) {
        let Some(agent) = self.agents.get(host).filter(|agent| !agent.lost) else { return };
        if let Some(requests) = &agent.requests {
            agent.queued.fetch_add(1, Ordering::Relaxed);
            // An agent that is gone is noticed where it is listened to.
            let _ = requests.send(request);
        }
    }

    /// Requests that wait to be sent to a host.
    pub(super) fn queued(&self, host: usize) -> usize {
        self.agents.get(host).map_or(0, |agent| agent.queued.load(Ordering::Relaxed))
    }

    pub(super) fn send_all(&self, request: &Request) {
        (0..self.agents.len()).for_each(|host| self.send(host, request.clone()));
    }

    /// The next event, if one comes within `wait`. Of agents that are lost there is none.
    ///
    /// # Errors
    /// When an agent is gone, or has been silent for too long: once for each.
    pub(super) fn next(&mut self, wait: std::time::Duration) -> Result<Option<(usize, Event)>, Lost> {
        if let Some(heard) = self.pending.pop_front() {
            return self.take(heard);
        }
        let said = self.said.recv_timeout(wait);
        let now = stamp();
        // Now and then although others talk.
        if said.is_err() || now.since(self.looked) > LOOK_FOR_SILENCE {
            self.looked = now;
            self.nobody_is_silent(now)?;
        }
        match said {
            Ok(heard) => {
                self.room.leave(heard.bytes);
                self.take(heard)
            }
            Err(_) => Ok(None),
        }
    }

    fn nobody_is_silent(&mut self, now: Instant) -> Result<(), Lost> {
        // Before its first word it may be a login that takes its time. Whose word waits to be taken in is not silent.
        let silent = |agent: &Agent| {
            let heard = agent.heard.load(Ordering::Relaxed);
            let since = now.since(Instant::from_nanos(heard));
            !agent.lost && agent.hello.is_some() && heard != WAITS && since > self.silence
        };
        let Some(host) = self.agents.iter().position(silent) else { return Ok(()) };
        self.give_up(host);
        let why = format!("said nothing for {} s", self.silence.as_secs_f64());
        Err(Lost { host, why: self.with_words(host, &why) })
    }

    /// The agent cannot go on: it is not waited for. Should it still be there, the end of its input tells it to clean up.
    pub(super) fn give_up(&mut self, host: usize) {
        let agent = &mut self.agents[host];
        agent.lost = true;
        if let Some(requests) = agent.requests.take() {
            let _ = requests.send(Request::End);
        }
    }

    fn take(&mut self, Heard { host, said, .. }: Heard) -> Result<Option<(usize, Event)>, Lost> {
        let Some(agent) = self.agents.get_mut(host) else { return Ok(None) };
        match said {
            // Its last lines are for its log.
            AgentOutput::Event(event) if !agent.lost || matches!(event, Event::Line { .. }) => {
                return Ok(Some((host, event)));
            }
            AgentOutput::Event(_) => return Ok(None),
            AgentOutput::Words(text) => {
                if text.contains(CLEANUP_FAILED) && self.uncleaned.len() < UNCLEANED_MAX {
                    let told: String = text.trim().chars().take(WORD_LEN_MAX).collect();
                    self.uncleaned.push(format!("{}: {told}", agent.name));
                }
                if agent.words.len() == WORDS_KEPT {
                    agent.words.pop_front();
                }
                agent.words.push_back(text.chars().take(WORD_LEN_MAX).collect());
                return Ok(None);
            }
            AgentOutput::Closed if agent.lost => return Ok(None),
            AgentOutput::Closed => {}
        }
        self.give_up(host);
        // What it says on standard error comes on another thread, and says most.
        std::thread::sleep(LOOK);
        self.read_ahead();
        let status = self.agents[host].child.try_wait().ok().flatten();
        let why =
            status.map_or("its agent is gone".to_owned(), |status| format!("its agent ended: {status}"));
        Err(Lost { host, why: self.with_words(host, &why) })
    }

    /// Takes in words of agents that wait behind what others say, which keeps its turn: no more than can wait at once.
    fn read_ahead(&mut self) {
        for _ in 0..WAITING_MAX {
            let Ok(heard) = self.said.try_recv() else { return };
            self.room.leave(heard.bytes);
            match heard.said {
                // Words are no loss.
                AgentOutput::Words(_) => drop(self.take(heard)),
                _ => self.pending.push_back(heard),
            }
        }
    }

    /// Sets aside what waits, and no more than can wait at once: somebody may talk faster than we listen, for ever.
    fn drain(&mut self) {
        for _ in 0..WAITING_MAX {
            let Ok(heard) = self.said.try_recv() else { return };
            self.room.leave(heard.bytes);
            self.set_aside(heard);
        }
    }

    /// Words are kept with their agent, lines for its log.
    fn set_aside(&mut self, heard: Heard) {
        match heard.said {
            AgentOutput::Words(_) => drop(self.take(heard)),
            AgentOutput::Event(event)
                if self.leftover.len() < LEFTOVER_MAX && self.leftover_bytes < LEFTOVER_BYTES_MAX =>
            {
                self.leftover_bytes += heard.bytes;
                self.leftover.push((heard.host, event));
            }
            AgentOutput::Event(_) | AgentOutput::Closed => {}
        }
    }

    /// What came after the last event that was taken in.
    pub(super) fn take_leftover(&mut self) -> Vec<(usize, Event)> {
        std::mem::take(&mut self.leftover)
    }

    fn with_words(&self, host: usize, why: &str) -> String {
        let words: Vec<&str> =
            self.agents[host].words.iter().map(|w| w.trim()).filter(|w| !w.is_empty()).collect();
        if words.is_empty() { why.to_owned() } else { format!("{why}; it said: {}", words.join(" | ")) }
    }

    /// Ends all agents, and waits until they have cleaned up. Says which did not in time.
    pub(super) fn end(&mut self) -> Vec<String> {
        for agent in &mut self.agents {
            if let Some(requests) = agent.requests.take() {
                let _ = requests.send(Request::End);
            }
        }
        for heard in std::mem::take(&mut self.pending) {
            self.set_aside(heard);
        }
        let began = stamp();
        let mut late = Vec::new();
        loop {
            // Pipes that nobody reads would keep them from ending.
            self.drain();
            let waited = stamp().since(began);
            let mut running = 0;
            for agent in &mut self.agents {
                if !matches!(agent.child.try_wait(), Ok(None)) {
                    continue;
                }
                let longest = if agent.lost { LOST_WAIT } else { END_WAIT };
                if waited <= longest {
                    running += 1;
                    continue;
                }
                let _ = agent.child.kill();
                if !agent.lost {
                    late.push(agent.name.clone());
                }
            }
            if running == 0 {
                break;
            }
            std::thread::sleep(LOOK);
        }
        for agent in &mut self.agents {
            let _ = agent.child.wait();
        }
        // What they said on standard error comes on other threads.
        std::thread::sleep(LOOK);
        self.drain();
        late
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end();
        self.room.closed.store(true, Ordering::Relaxed);
    }
}

/// Where what an agent says goes.
struct To {
    host: usize,
    sender: SyncSender<Heard>,
    room: Arc<Room>,
}

impl To {
    /// Says it, when there is room. False: nobody listens any more.
    fn say(&self, bytes: usize, said: AgentOutput) -> bool {
        self.room.enter(bytes);
        self.sender.send(Heard { host: self.host, bytes, said }).is_ok()
    }
}

fn read_events(from: impl Read, to: &To, heard: &AtomicU64) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(SAID_BYTES_MAX as u64).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            _ => break,
        }
        heard.store(stamp().as_nanos(), Ordering::Relaxed);
        let (times, said) = match serde_json::from_slice(&line) {
            Ok(Event::Pong) => continue,
            Ok(event @ Event::Hello(_)) => (VALUE_TIMES, AgentOutput::Event(event)),
            Ok(event) => (1, AgentOutput::Event(event)),
            Err(_) => (1, AgentOutput::Words(words_of(&line))),
        };
        heard.store(WAITS, Ordering::Relaxed);
        let sent = to.say(line.len() * times, said);
        heard.store(stamp().as_nanos(), Ordering::Relaxed);
        if !sent {
            return;
        }
    }
    let _ = to.say(0, AgentOutput::Closed);
}

/// What of a line that is no event is kept at all.
fn words_of(line: &[u8]) -> String {
    let kept = &line[..line.len().min(4 * WORD_LEN_MAX)];
    String::from_utf8_lossy(kept).trim_end().to_owned()
}

fn read_words(mut from: impl Read, to: &To) {
    let mut lines = Lines::default();
    let mut buffer = [0; 4096];
    let mut gone = false;
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        lines.push(&buffer[..n], |text, _| gone |= !to.say(text.len(), AgentOutput::Words(text)));
    }
    lines.finish(|text, _| gone |= !to.say(text.len(), AgentOutput::Words(text)));
}

fn write_requests(mut stdin: ChildStdin, requests: &Receiver<Request>, queued: &AtomicUsize) {
    loop {
        let request = match requests.recv_timeout(PING_EVERY) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) => {
                queued.fetch_add(1, Ordering::Relaxed);
                Request::Ping
            }
            // The end of its input tells the agent, too.
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut line = serde_json::to_vec(&request).unwrap_or_default();
        line.push(b'\n');
        let written = stdin.write_all(&line).and_then(|()| stdin.flush());
        queued.fetch_sub(1, Ordering::Relaxed);
        if written.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says the same line for ever, and counts.
    struct Endless {
        line: Vec<u8>,
        at: usize,
        given: Arc<AtomicUsize>,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let n = buffer.len().min(self.line.len() - self.at);
            buffer[..n].copy_from_slice(&self.line[self.at..self.at + n]);
            self.at = (self.at + n) % self.line.len();
            self.given.fetch_add(n, Ordering::Relaxed);
            Ok(n)
        }
    }

    #[test]
    fn an_agent_that_talks_without_end_fills_no_memory_and_goes_on_when_it_is_heard() {
        let event = Event::Line {
            id: 1,
            stream: crate::agent::protocol::Stream::Out,
            text: "x".repeat(512 << 10),
            more: false,
        };
        let mut line = serde_json::to_vec(&event).unwrap();
        line.push(b'\n');
        let (sender, said) = mpsc::sync_channel(WAITING_MAX);
        let (room, given) = (Arc::new(Room::default()), Arc::new(AtomicUsize::new(0)));
        let from = Endless { line, at: 0, given: Arc::clone(&given) };
        let to = To { host: 0, sender, room: Arc::clone(&room) };
        let thread = std::thread::spawn(move || read_events(from, &to, &AtomicU64::new(0)));
        let stands = || loop {
            let before = given.load(Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(300));
            if before > 0 && given.load(Ordering::Relaxed) == before {
                return before;
            }
        };
        let before = stands();
        assert!(before < WAITING_BYTES_MAX + 4 * SAID_BYTES_MAX, "{before} bytes wait");
        // Twice what may wait passes, when somebody takes it in.
        let mut taken = 0;
        while taken < 2 * WAITING_BYTES_MAX {
            let heard: Heard = said.recv().unwrap();
            room.leave(heard.bytes);
            taken += heard.bytes;
        }
        room.closed.store(true, Ordering::Relaxed);
        drop(said);
        thread.join().unwrap();
    }
}
