//! `barewire msg`: the hello-world of messages, and the smoke test of a network.

use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use barewire_client::{
    Client, ClientConfig, ConnectFailure, ConnectOptions, ConnectWaitError, Event, FlowId, Inbound,
    SendError, WaitError,
};
use barewire_measure::{Histogram, stamp};
use std::collections::{HashMap, VecDeque};
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// A listener looks for a signal this often while nothing comes.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum What {
    /// Print every received message
    Listen {
        /// UDP port to listen on
        #[arg(default_value_t = 888)]
        udp_port: u16,
        /// Listen at this address of the daemon only [default: all]
        #[arg(long, value_name = "ADDRESS")]
        local: Option<IpAddr>,
        /// Echo every message instead (the other end of `ping`)
        #[arg(long)]
        echo: bool,
        /// Stop after this many messages
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Send one message and wait for its delivery
    Send {
        /// Destination, such as 10.0.0.2:888 or server:888
        #[arg(value_parser = crate::address::endpoint)]
        to: SocketAddr,
        /// The message; `-` reads it from standard input
        text: String,
    },
    /// Send messages to `listen --echo`, time the echoes and check every byte
    Ping {
        /// Destination, such as 10.0.0.2:888 or server:888
        #[arg(value_parser = crate::address::endpoint)]
        to: SocketAddr,
        /// How many
        #[arg(long, short, default_value_t = 5)]
        count: u64,
        /// Size of each message, in bytes
        #[arg(long, short, default_value_t = 1024)]
        size: usize,
        /// Milliseconds between two
        #[arg(long, short, default_value_t = 200)]
        interval_ms: u64,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

fn attach(args: &Args) -> anyhow::Result<Client> {
    let mut config = ClientConfig::new("barewire msg");
    if let Some(socket) = &args.socket {
        config.socket.clone_from(socket);
    }
    Client::attach_with(&config).map_err(|e| {
        let failure = Failure::new(Code::Unfit, e.to_string());
        match e.hint() {
            Some(hint) => failure.hint(hint).into(),
            None => failure.into(),
        }
    })
}

fn connect(client: &mut Client, to: SocketAddr) -> anyhow::Result<FlowId> {
    client.connect_wait(to, &ConnectOptions::default(), CONNECT_TIMEOUT).map_err(|e| {
        let failure = Failure::new(Code::Failed, format!("connecting to {to}: {e}"));
        match e {
            ConnectWaitError::Failed(ConnectFailure::Refused) => {
                failure.hint("start `barewire msg listen --echo` there").into()
            }
            ConnectWaitError::Failed(why) if is_about_trust(why) => failure
                .hint(
                    "compare `barewire key show` there with [[security.peer]] here, and the other way round",
                )
                .into(),
            _ => failure.hint("is the other daemon up, and its address on this network?").into(),
        }
    })
}

fn is_about_trust(why: ConnectFailure) -> bool {
    use ConnectFailure::*;
    matches!(why, SecurityRequired | NotTrusted | WrongKey | Insecure | PeerNotTrusted)
}

/// Runs it.
///
/// # Errors
/// What went wrong, with a hint.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    crate::signals::catch()?;
    let mut client = attach(args)?;
    match &args.what {
        What::Listen { udp_port, local, echo, count } => {
            listen(&mut client, *local, *udp_port, *echo, *count, console)
        }
        What::Send { to, text } => send(&mut client, *to, text, console),
        What::Ping { to, count, size, interval_ms, json } => {
            ping(&mut client, *to, *count, *size, Duration::from_millis(*interval_ms), *json, console)
        }
    }
}

fn listen(
    client: &mut Client,
    local: Option<IpAddr>,
    udp_port: u16,
    echo: bool,
    count: Option<u64>,
    console: &Console,
) -> anyhow::Result<Code> {
    if let Some(local) = local.filter(|ip| !client.addresses().contains(ip)) {
        let ours: Vec<String> = client.addresses().iter().map(ToString::to_string).collect();
        return Err(Failure::new(Code::Usage, format!("{local} is not an address of this daemon"))
            .hint(format!("it has {}", ours.join(", ")))
            .into());
    }
    let listened = match local {
        Some(local) => client.listen_on_wait(local, udp_port, 0, CONNECT_TIMEOUT),
        None => client.listen_wait(udp_port, 0, CONNECT_TIMEOUT),
    };
    listened.map_err(|_| {
        Failure::new(Code::Failed, format!("cannot listen on udp_port {udp_port}"))
            .hint("another application of this daemon may have it")
    })?;
    let at = local.map_or(String::new(), |local| format!(" of {local}"));
    console.note(&format!("listening on udp_port {udp_port}{at}"));
    let mut seen = 0;
    let mut echoes = Echoes::default();
    while !barewire_bench::interrupted() && (count.is_none_or(|n| seen < n) || !echoes.is_empty()) {
        let event = match client.wait_event(Some(SIGNAL_CHECK)) {
            Ok(Some(event)) => event,
            Ok(None) => continue,
            Err(WaitError::Io(e)) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e.into()),
        };
        match event {
            Event::Accepted { flow, remote, .. } => {
                let with = client
                    .peer(flow)
                    .map_or(String::new(), |p| format!(", encrypted: {} ({})", p.name, p.key));
                console.note(&format!("{remote} connected{with}"));
            }
            Event::Closed { flow, reason } => {
                echoes.forget(flow);
                console.note(&format!("a flow ended: {reason}"));
            }
            Event::Message(message) => {
                seen += 1;
                if echo {
                    echoes.add(client, message);
                } else {
                    let bytes = client.to_vec(&message);
                    client.release(message);
                    print(&format!("{}\n", String::from_utf8_lossy(&bytes)))?;
                }
            }
            Event::Writable { flow: Some(flow) } => echoes.send(client, flow),
            _ => {}
        }
    }
    client.flush();
    Ok(Code::Done)
}

/// Messages that are to go back, by flow. Those that find no room stay where they were received, so a peer that does not read
/// runs out of credit, and no other flow waits for it.
#[derive(Default)]
struct Echoes {
    waiting: HashMap<FlowId, VecDeque<Inbound>>,
}

impl Echoes {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn add(&mut self, client: &mut Client, message: Inbound) {
        let flow = message.flow();
        let waiting = self.waiting.entry(flow).or_default();
        waiting.push_back(message);
        if waiting.len() == 1 {
            self.send(client, flow);
        }
    }

    fn send(&mut self, client: &mut Client, flow: FlowId) {
        let Some(waiting) = self.waiting.get_mut(&flow) else { return };
        while let Some(message) = waiting.front() {
            match client.send(flow, &client.to_vec(message)) {
                Err(SendError::WouldBlock) => return,
                // Gone back, or nobody is there to hear it.
                _ => waiting.pop_front().map_or((), |message| client.release(message)),
            }
        }
        self.waiting.remove(&flow);
    }

    fn forget(&mut self, flow: FlowId) {
        self.waiting.remove(&flow);
    }
}

fn send(client: &mut Client, to: SocketAddr, text: &str, console: &Console) -> anyhow::Result<Code> {
    let mut bytes = Vec::new();
    if text == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes)?;
    } else {
        bytes.extend_from_slice(text.as_bytes());
    }
    let flow = connect(client, to)?;
    let buf = client.reserve(bytes.len())?;
    client.write(&buf, 0, &bytes);
    client.commit(flow, buf, Some(1))?;
    loop {
        match client.wait_event(Some(SIGNAL_CHECK))? {
            Some(Event::Delivered { delivered: true, .. }) => break,
            Some(Event::Delivered { .. } | Event::Closed { .. }) => {
                return Err(
                    Failure::new(Code::Failed, "the flow ended before the message was delivered").into()
                );
            }
            _ if barewire_bench::interrupted() => return Ok(Code::Interrupted),
            _ => {}
        }
    }
    console.note(&format!("{} bytes delivered to {to}", bytes.len()));
    client.close(flow)?;
    while !matches!(client.wait_event(Some(CONNECT_TIMEOUT))?, Some(Event::Closed { .. }) | None) {}
    Ok(Code::Done)
}

fn ping(
    client: &mut Client,
    to: SocketAddr,
    count: u64,
    size: usize,
    interval: Duration,
    json: bool,
    console: &Console,
) -> anyhow::Result<Code> {
    let start = stamp();
    let flow = connect(client, to)?;
    let took = stamp().since(start);
    let with =
        client.peer(flow).map_or(String::new(), |p| format!(", encrypted with {} ({})", p.name, p.key));
    console.note(&format!("connected to {to} in {took}{with}"));
    let mut message = vec![0; size];
    let mut histogram = Histogram::new();
    let mut wrong = 0u64;
    for i in 0..count {
        for (at, byte) in message.iter_mut().enumerate() {
            *byte = (at as u64 ^ (i * 31)) as u8;
        }
        let sent = stamp();
        client.send(flow, &message)?;
        loop {
            match client.wait_event(Some(SIGNAL_CHECK))? {
                Some(Event::Message(reply)) => {
                    let rtt = stamp().since(sent);
                    histogram.record(rtt.as_nanos());
                    let intact = client.to_vec(&reply) == message;
                    wrong += u64::from(!intact);
                    client.release(reply);
                    let verdict = if intact { "" } else { ", but its bytes differ" };
                    if !json {
                        print(&format!("{size} bytes from {to}: seq={i} time={rtt}{verdict}\n"))?;
                    }
                    break;
                }
                Some(Event::Closed { reason, .. }) => {
                    return Err(Failure::new(Code::Failed, format!("the flow ended: {reason}")).into());
                }
                _ if barewire_bench::interrupted() => return Ok(Code::Interrupted),
                _ => {}
            }
        }
        if i + 1 < count {
            std::thread::sleep(interval);
        }
    }
    let (min, max) = (histogram.min().unwrap_or(0), histogram.max().unwrap_or(0));
    let mean = histogram.mean().unwrap_or(0.0);
    if json {
        let object = serde_json::json!({
            "schema": 1, "to": to.to_string(), "size": size, "samples": histogram.samples(), "wrong": wrong,
            "rtt_ns": { "min": min, "mean": mean, "max": max },
        });
        print(&format!("{object}\n"))?;
    } else {
        let us = |ns: f64| ns / 1e3;
        print(&format!(
            "{count} messages, {wrong} wrong; round trip min/mean/max {:.1}/{:.1}/{:.1} us (the receiver sleeps between them)\n",
            us(min as f64),
            us(mean),
            us(max as f64)
        ))?;
    }
    let _ = client.close(flow);
    Ok(if wrong == 0 { Code::Done } else { Code::Failed })
}
