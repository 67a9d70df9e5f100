//! Rust's own ends: the client of the message service as a program that sleeps for events uses it, and the standard library's sockets.

use super::{Carrier, Job, Times};
use crate::cpu::Charge;
use crate::error::BenchError;
use crate::run::Stop;
use barewire_base::Instant;
use barewire_client::{Client, ClientConfig, ConnectOptions, Event, FlowId, SendError, WaitError};
use barewire_measure::{Histogram, stamp};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that sleeps looks so often whether it should stop, and a client whether its server is there.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// A client without an answer for so long gives up.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes of the length in front of a message on a TCP connection.
const LENGTH_LEN: usize = 4;

fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BenchError {
    BenchError::Other(error.into())
}

/// Sends and receives whole messages of one size, sleeping.
trait Link {
    fn send(&mut self, message: &[u8]) -> Result<(), BenchError>;
    /// False: nothing came within [`STOP_CHECK`].
    fn receive(&mut self, into: &mut [u8]) -> Result<bool, BenchError>;
}

struct Messages {
    client: Client,
    flow: Option<FlowId>,
}

impl Messages {
    fn attach(socket: Option<&Path>, name: &str) -> Result<Messages, BenchError> {
        let mut config = ClientConfig::new(name);
        if let Some(socket) = socket {
            config.socket = socket.to_owned();
        }
        Ok(Messages { client: Client::attach_with(&config).map_err(other)?, flow: None })
    }
}

impl Link for Messages {
    fn send(&mut self, message: &[u8]) -> Result<(), BenchError> {
        let Some(flow) = self.flow else { return Ok(()) };
        loop {
            match self.client.send(flow, message) {
                Ok(()) => {
                    self.client.flush();
                    return Ok(());
                }
                // Twice as many as are outstanding fit: only a daemon that stands still refuses.
                Err(SendError::WouldBlock) => std::thread::yield_now(),
                Err(error) => return Err(other(error)),
            }
        }
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<bool, BenchError> {
        match self.client.wait_event(Some(STOP_CHECK)) {
            Ok(Some(Event::Message(message))) => {
                self.flow = Some(message.flow());
                let len = self.client.read(&message, into);
                self.client.release(message);
                if len == into.len() { Ok(true) } else { Err(other("a message of another length")) }
            }
            Ok(Some(Event::Closed { .. })) => Err(other("the flow ended")),
            Ok(_) => Ok(false),
            Err(WaitError::Io(error)) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(other(error)),
        }
    }
}

struct Tcp {
    stream: TcpStream,
    incoming: Vec<u8>,
    filled: usize,
    outgoing: Vec<u8>,
}

impl Tcp {
    fn new(stream: TcpStream, size: u32) -> io::Result<Tcp> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(STOP_CHECK))?;
        let mut outgoing = vec![0; LENGTH_LEN + size as usize];
        outgoing[..LENGTH_LEN].copy_from_slice(&size.to_le_bytes());
        Ok(Tcp { stream, incoming: vec![0; outgoing.len()], filled: 0, outgoing })
    }
}

impl Link for Tcp {
    fn send(&mut self, message: &[u8]) -> Result<(), BenchError> {
        self.outgoing[LENGTH_LEN..].copy_from_slice(message);
        self.stream.write_all(&self.outgoing).map_err(BenchError::io("a TCP connection"))
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<bool, BenchError> {
        while self.filled < self.incoming.len() {
            match self.stream.read(&mut self.incoming[self.filled..]) {
                Ok(0) => return Err(other("the connection ended")),
                Ok(n) => self.filled += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(BenchError::io("a TCP connection")(error)),
            }
        }
        self.filled = 0;
        if self.incoming[..LENGTH_LEN] != self.outgoing[..LENGTH_LEN] {
            return Err(other("a message of another length"));
        }
        into.copy_from_slice(&self.incoming[LENGTH_LEN..]);
        Ok(true)
    }
}

/// Sends every message back until the client has ended.
pub(super) fn serve(
    job: &Job,
    socket: Option<&Path>,
    tell: impl Fn(u16),
    stop: &Stop<'_>,
) -> Result<(), BenchError> {
    let mut link: Box<dyn Link> = match job.carrier {
        Carrier::Barewire => {
            let mut messages = Messages::attach(socket, "bench server")?;
            messages.client.listen_wait(job.port(), 0, CONNECT_TIMEOUT).map_err(other)?;
            tell(job.port());
            stop.ready();
            Box::new(messages)
        }
        _ => {
            let io = BenchError::io;
            let listener =
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, job.port())).map_err(io("a TCP port"))?;
            tell(listener.local_addr().map_err(io("a TCP port"))?.port());
            stop.ready();
            listener.set_nonblocking(true).map_err(io("a TCP port"))?;
            let stream = loop {
                match listener.accept() {
                    Ok((stream, _)) => break stream,
                    Err(error) if error.kind() == ErrorKind::WouldBlock && !stop.asked() => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Err(error) => return Err(io("a TCP port")(error)),
                }
            };
            stream.set_nonblocking(false).map_err(io("a TCP connection"))?;
            Box::new(Tcp::new(stream, job.size).map_err(io("a TCP connection"))?)
        }
    };
    let mut message = vec![0; job.size as usize];
    while !stop.asked() {
        let answered =
            link.receive(&mut message).and_then(|got| if got { link.send(&message) } else { Ok(()) });
        match answered {
            Ok(()) => {}
            // Its client ends first, and what it leaves is no error.
            Err(_) if stop.asked() => break,
            Err(_) => std::thread::sleep(STOP_CHECK),
        }
    }
    Ok(())
}

/// Asks, and measures.
pub(super) fn run(
    job: &Job,
    server: SocketAddr,
    socket: Option<&Path>,
    cpu: &Charge,
) -> Result<Times, BenchError> {
    let mut link: Box<dyn Link> = match job.carrier {
        Carrier::Barewire => {
            let mut messages = Messages::attach(socket, "bench client")?;
            let options = ConnectOptions::default();
            let flow = messages.client.connect_wait(server, &options, CONNECT_TIMEOUT).map_err(other)?;
            messages.flow = Some(flow);
            Box::new(messages)
        }
        _ => {
            let stream =
                TcpStream::connect(server).map_err(|source| BenchError::NoServer { server, source })?;
            Box::new(Tcp::new(stream, job.size).map_err(BenchError::io("a TCP connection"))?)
        }
    };
    measure(link.as_mut(), job, cpu)
}

fn measure(link: &mut dyn Link, job: &Job, cpu: &Charge) -> Result<Times, BenchError> {
    let message: Vec<u8> = (0..job.size).map(|n| n.wrapping_mul(31) as u8).collect();
    let mut answer = vec![0; message.len()];
    let mut receive = |link: &mut dyn Link| {
        let silent = stamp() + SILENCE.into();
        while !link.receive(&mut answer)? {
            crate::error::go_on()?;
            if stamp() >= silent {
                return Err(other("no answer for 10 s"));
            }
        }
        if answer == message { Ok(stamp()) } else { Err(other("another answer than what was sent")) }
    };
    link.send(&message)?;
    receive(link)?;
    cpu.begins();
    let mut charged = 0;
    let begin = stamp() + job.warmup;
    let end = begin + job.seconds;
    let mut sent: VecDeque<Instant> = VecDeque::with_capacity(job.window as usize);
    for _ in 0..job.window {
        sent.push_back(stamp());
        link.send(&message)?;
    }
    let mut round_trips = Histogram::new();
    loop {
        let now = receive(link)?;
        charged += 1;
        if let Some(sent) = sent.pop_front().filter(|_| now >= begin) {
            round_trips.record(now.since(sent).as_nanos());
        }
        if now >= end {
            cpu.ends();
            // A connection that is closed with answers on their way is reset, and its server hears of an error.
            for _ in 0..sent.len() {
                receive(link)?;
            }
            return Ok(Times { round_trips, seconds: now.since(begin).as_secs_f64(), charged });
        }
        sent.push_back(stamp());
        link.send(&message)?;
    }
}
