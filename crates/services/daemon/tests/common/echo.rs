//! Applications that echo whatever comes until they are told to stop.

use super::*;
use std::collections::VecDeque;
use std::sync::Arc;

/// A thread with a server.
pub struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Listens at all addresses of a daemon, and serves.
    pub fn at(daemon: &Daemon, udp_port: u16) -> Server {
        let mut client = attach(daemon, "server");
        client.listen_wait(udp_port, 0, PATIENCE).unwrap();
        Server::of(client)
    }

    /// Serves where this client listens.
    pub fn of(mut client: Client) -> Server {
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut echoes: VecDeque<(FlowId, Vec<u8>)> = VecDeque::new();
            while !ends.load(Ordering::Relaxed) {
                // The daemon may be stopped first.
                let Ok(event) = client.wait_event(Some(Duration::from_millis(20))) else { return };
                if let Some(Event::Message(message)) = event {
                    echoes.push_back((message.flow(), client.to_vec(&message)));
                    client.release(message);
                }
                // What goes to a flow that has ended goes nowhere.
                while let Some((flow, bytes)) = echoes.front()
                    && client.send(*flow, bytes) != Err(SendError::WouldBlock)
                {
                    echoes.pop_front();
                }
            }
        });
        Server { stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends numbered messages one after the other and takes their echoes.
pub fn rounds(client: &mut Client, flow: FlowId, count: u64, len: usize) {
    for i in 0..count {
        let sent = pattern(i, len);
        send(client, flow, &sent, &mut |_, event| panic!("{event:?}"));
        assert!(message(client) == sent, "an echo is not what was sent");
    }
}
