//! What waits to be told to the controller.

use super::protocol::Event;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// Bytes of lines that may wait. A process that writes faster than the controller reads then waits, too.
const WAITING_BYTES_MAX: usize = 8 << 20;
const LOOK: Duration = Duration::from_millis(2);

/// Takes events from any thread; one thread writes them.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    sender: Sender<Event>,
    waiting: Arc<AtomicUsize>,
    /// Nobody reads any more.
    closed: Arc<AtomicBool>,
}

fn weight(event: &Event) -> usize {
    match event {
        Event::Line { text, .. } => text.len() + 64,
        _ => 0,
    }
}

impl Outbox {
    /// Starts the thread that writes to `to`.
    pub(super) fn start(
        to: impl Write + Send + 'static,
    ) -> std::io::Result<(Outbox, std::thread::JoinHandle<()>)> {
        let (sender, receiver) = mpsc::channel();
        let outbox = Outbox {
            sender,
            waiting: Arc::new(AtomicUsize::new(0)),
            closed: Arc::new(AtomicBool::new(false)),
        };
        let (waiting, closed) = (Arc::clone(&outbox.waiting), Arc::clone(&outbox.closed));
        let thread = std::thread::Builder::new()
            .name("outbox".into())
            .spawn(move || write_all(&receiver, to, &waiting, &closed))?;
        Ok((outbox, thread))
    }

    /// Something that must not wait: there is little of it.
    pub(super) fn tell(&self, event: Event) {
        let _ = self.sender.send(event);
    }

    /// A line of a process: waits while too many wait.
    pub(super) fn line(&self, event: Event) {
        while self.waiting.load(Ordering::Relaxed) > WAITING_BYTES_MAX && !self.is_closed() {
            std::thread::sleep(LOOK);
        }
        self.waiting.fetch_add(weight(&event), Ordering::Relaxed);
        self.tell(event);
    }

    /// Lines need not wait any more: everything ends.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

fn write_all(events: &Receiver<Event>, mut to: impl Write, waiting: &AtomicUsize, closed: &AtomicBool) {
    // Whoever spoke before us may not have ended the line.
    if to.write_all(b"\n").is_err() {
        closed.store(true, Ordering::Relaxed);
        return;
    }
    for event in events {
        // Names and numbers only: nothing that serde_json refuses.
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        let written = to.write_all(&line).and_then(|()| to.flush());
        waiting.fetch_sub(weight(&event), Ordering::Relaxed);
        if written.is_err() {
            closed.store(true, Ordering::Relaxed);
            return;
        }
    }
}
