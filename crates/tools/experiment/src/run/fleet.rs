//! All agents of an experiment, as the controller has them.

use crate::agent::protocol::{Event, Hello, LINE_BYTES_MAX, Request};
use crate::agent::{CLEANUP_FAILED, Lines};
use crate::launcher::AgentPipes;
use barewire_base::{Duration, Instant};
use barewire_measure::stamp;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};

/// An agent that has said nothing for so long is lost.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Between two pings.
const PING_EVERY: std::time::Duration = std::time::Duration::from_secs(1);
/// How long agents may take to clean up, all together.
const END_WAIT: Duration = Duration::from_secs(8);
/// What may wait to be looked at. Agents that say more wait with it, and their processes with them.
const WAITING_MAX: usize = 1024;
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);
/// Lines that are kept of what an agent's process says beside the conversation.
const WORDS_KEPT: usize = 5;
const WORD_LEN_MAX: usize = 300;
/// Events that are kept for logs after a loss.
const LEFTOVER_MAX: usize = 10_000;
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
enum Said {
    Event(Event),
    /// On standard error, or no event.
    Words(String),
    Closed,
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
    heard: Arc<AtomicU64>,
    words: VecDeque<String>,
    /// It is gone, or cannot go on: nobody waits long for its end.
    lost: bool,
}

/// All of them.
pub(super) struct Fleet {
    pub(super) agents: Vec<Agent>,
    sender: SyncSender<(usize, Said)>,
    said: Receiver<(usize, Said)>,
    /// When somebody last looked for silent ones.
    looked: Instant,
    /// What came while nobody could take it in.
    leftover: Vec<(usize, Event)>,
    /// Cleanup commands that did not work, by host.
    pub(super) uncleaned: Vec<String>,
}

impl Fleet {
    pub(super) fn new() -> Fleet {
        let (sender, said) = mpsc::sync_channel(WAITING_MAX);
        Fleet {
            agents: Vec::new(),
            sender,
            said,
            looked: stamp(),
            leftover: Vec::new(),
            uncleaned: Vec::new(),
        }
    }

    /// Takes an agent in, whose process was started. Its number is its place.
    pub(super) fn add(&mut self, name: &str, pipes: AgentPipes) {
        let mut child = pipes.child;
        let index = self.agents.len();
        let heard = Arc::new(AtomicU64::new(stamp().as_nanos()));
        if let Some(stdout) = child.stdout.take() {
            let (sender, heard) = (self.sender.clone(), Arc::clone(&heard));
            std::thread::spawn(move || read_events(index, stdout, &sender, &heard));
        }
        if let Some(stderr) = child.stderr.take() {
            let sender = self.sender.clone();
            std::thread::spawn(move || read_words(index, stderr, &sender));
        }
        let (requests, to_write) = mpsc::channel();
        if let Some(stdin) = child.stdin.take() {
            std::thread::spawn(move || write_requests(stdin, &to_write));
        }
        self.agents.push(Agent {
            name: name.to_owned(),
            hello: None,
            clock: None,
            child,
            requests: Some(requests),
            heard,
            words: VecDeque::new(),
            lost: false,
        });
    }

    pub(super) fn send(&self, host: usize, request: Request) {
        if let Some(requests) = self.agents.get(host).and_then(|agent| agent.requests.as_ref()) {
            // An agent that is gone is noticed where it is listened to.
            let _ = requests.send(request);
        }
    }

    pub(super) fn send_all(&self, request: &Request) {
        (0..self.agents.len()).for_each(|host| self.send(host, request.clone()));
    }

    /// The next event, if one comes within `wait`.
    ///
    /// # Errors
    /// When an agent is gone, or has been silent for too long.
    pub(super) fn next(&mut self, wait: std::time::Duration) -> Result<Option<(usize, Event)>, Lost> {
        let said = self.said.recv_timeout(wait);
        let now = stamp();
        // Now and then although others talk.
        if said.is_err() || now.since(self.looked) > LOOK_FOR_SILENCE {
            self.looked = now;
            self.nobody_is_silent(now)?;
        }
        match said {
            Ok((host, said)) => self.take(host, said),
            Err(_) => Ok(None),
        }
    }

    fn nobody_is_silent(&mut self, now: Instant) -> Result<(), Lost> {
        // Before its first word it may be a login that takes its time. Whose word waits to be taken in is not silent.
        let silent = |agent: &Agent| {
            let heard = agent.heard.load(Ordering::Relaxed);
            agent.hello.is_some() && heard != WAITS && now.since(Instant::from_nanos(heard)) > SILENCE_MAX
        };
        let Some(host) = self.agents.iter().position(silent) else { return Ok(()) };
        self.agents[host].lost = true;
        let why = format!("said nothing for {} s", SILENCE_MAX.as_secs_f64());
        Err(Lost { host, why: self.with_words(host, &why) })
    }

    /// The agent cannot go on: it is ended with the others, and not waited for.
    pub(super) fn give_up(&mut self, host: usize) {
        self.agents[host].lost = true;
    }

    fn take(&mut self, host: usize, said: Said) -> Result<Option<(usize, Event)>, Lost> {
        let Some(agent) = self.agents.get_mut(host) else { return Ok(None) };
        match said {
            Said::Event(event) => return Ok(Some((host, event))),
            Said::Words(text) => {
                if text.contains(CLEANUP_FAILED) {
                    let told: String = text.trim().chars().take(WORD_LEN_MAX).collect();
                    self.uncleaned.push(format!("{}: {told}", agent.name));
                }
                if agent.words.len() == WORDS_KEPT {
                    agent.words.pop_front();
                }
                agent.words.push_back(text.chars().take(WORD_LEN_MAX).collect());
                return Ok(None);
            }
            Said::Closed => agent.lost = true,
        }
        // What it says on standard error comes on another thread, and says most.
        std::thread::sleep(LOOK);
        while let Ok((host, said)) = self.said.try_recv() {
            self.set_aside(host, said);
        }
        let status = self.agents[host].child.try_wait().ok().flatten();
        let why =
            status.map_or("its agent is gone".to_owned(), |status| format!("its agent ended: {status}"));
        Err(Lost { host, why: self.with_words(host, &why) })
    }

    /// Words are kept with their agent, lines for its log.
    fn set_aside(&mut self, host: usize, said: Said) {
        match said {
            Said::Words(_) => drop(self.take(host, said)),
            Said::Event(event) if self.leftover.len() < LEFTOVER_MAX => self.leftover.push((host, event)),
            Said::Event(_) | Said::Closed => {}
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
        let began = stamp();
        let mut late = Vec::new();
        loop {
            // Pipes that nobody reads would keep them from ending.
            while let Ok((host, said)) = self.said.try_recv() {
                self.set_aside(host, said);
            }
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
        while let Ok((host, said)) = self.said.try_recv() {
            self.set_aside(host, said);
        }
        late
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_events(host: usize, from: impl Read, to: &SyncSender<(usize, Said)>, heard: &AtomicU64) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            _ => break,
        }
        heard.store(stamp().as_nanos(), Ordering::Relaxed);
        let said = match serde_json::from_slice(&line) {
            Ok(Event::Pong) => continue,
            Ok(event) => Said::Event(event),
            Err(_) => Said::Words(String::from_utf8_lossy(&line).trim_end().to_owned()),
        };
        heard.store(WAITS, Ordering::Relaxed);
        let sent = to.send((host, said));
        heard.store(stamp().as_nanos(), Ordering::Relaxed);
        if sent.is_err() {
            return;
        }
    }
    let _ = to.send((host, Said::Closed));
}

fn read_words(host: usize, mut from: impl Read, to: &SyncSender<(usize, Said)>) {
    let mut lines = Lines::default();
    let mut buffer = [0; 4096];
    let mut gone = false;
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        lines.push(&buffer[..n], |text, _| gone |= to.send((host, Said::Words(text))).is_err());
    }
    lines.finish(|text, _| gone |= to.send((host, Said::Words(text))).is_err());
}

fn write_requests(mut stdin: ChildStdin, requests: &Receiver<Request>) {
    loop {
        let request = match requests.recv_timeout(PING_EVERY) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) => Request::Ping,
            // The end of its input tells the agent, too.
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut line = serde_json::to_vec(&request).unwrap_or_default();
        line.push(b'\n');
        if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}
