//! barewire through its daemons: client, its daemon, the server's daemon, server. The daemons are processes of their own, as
//! they are in use; client and server are threads of this one.

use super::plan::ends_of;
use crate::awake::{Settled, Switches, settle};
use crate::cpu::{CpuMeter, End};
use crate::error::BenchError;
use crate::messages::driver::{self, RunResult};
use crate::messages::embedded::{SERVER_PORT, keys, private_key};
use crate::messages::run::Cell;
use crate::messages::{CellInfo, IdleState};
use crate::messages::{MsgWorkload, RequestResponse, SystemError, SystemName, Wait};
use crate::run::watched;
use barewire_client::{Client, ClientConfig, ConnectOptions, Event, FlowId, Geometry, SendError, WaitError};
use barewire_engine::{IdleStrategy, keyfile, target_on};
use barewire_measure::Contention;
use barewire_netns::{Namespace, TwoHosts};
use rustix::process::{Pid, Signal, kill_process};
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a daemon may take to say that it serves.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that sleeps looks this often whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// How long a daemon may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Addresses of the two daemons where there are no hosts.
pub(crate) const MEM_IPS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)];

type AnyError = Box<dyn Error + Send + Sync>;

/// Numbers the runs of this process, for names.
static RUN: AtomicU64 = AtomicU64::new(0);

/// The next run's number.
pub(crate) fn next_run() -> u64 {
    RUN.fetch_add(1, Ordering::Relaxed)
}

/// barewire with a daemon on each host: a [`Cell`] of an interleaved plan.
pub struct DaemonCell {
    binary: PathBuf,
    scheme: String,
    options: String,
    hosts: Option<Arc<TwoHosts>>,
    idle: IdleStrategy,
    cores: Option<(usize, usize)>,
    is_encrypted: bool,
    info: CellInfo,
}

impl DaemonCell {
    /// `workload` through two daemons over `scheme` ports with `options`; between `hosts`, or over shared memory without. `binary`
    /// is what `up` is a verb of. `cores`: the client's side and the server's, each application on one core with its daemon.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        binary: PathBuf,
        scheme: &str,
        options: &str,
        hosts: Option<Arc<TwoHosts>>,
        idle: IdleStrategy,
        cores: Option<(usize, usize)>,
        workload: MsgWorkload,
        idle_state: IdleState,
        command: String,
    ) -> DaemonCell {
        let name = SystemName {
            system: "barewire".to_owned(),
            mode: "daemon".to_owned(),
            over: scheme.to_owned(),
            idle: Some(idle.to_string().split(':').next().unwrap_or_default().to_owned()),
        };
        let info = CellInfo { name, workload, idle_state, command };
        DaemonCell {
            binary,
            scheme: scheme.to_owned(),
            options: options.to_owned(),
            hosts,
            idle,
            cores,
            is_encrypted: false,
            info,
        }
    }

    /// The same with every flow encrypted.
    pub fn encrypted(mut self) -> DaemonCell {
        self.is_encrypted = true;
        self.info.name.mode.push_str("-secure");
        self
    }

    /// The configuration file of a daemon that encrypts or has several engines, with its key beside it.
    fn configure(
        &self,
        folder: &Path,
        side: usize,
        run: u64,
        ips: [Ipv4Addr; 2],
    ) -> Result<PathBuf, AnyError> {
        let path = folder.join(format!("{side}.toml"));
        let mut text = format!(
            "[daemon]\nengines = {}\n[interface]\nport = {:?}\nipv4 = [\"{}/24\"]\n",
            self.info.workload.engines,
            self.uri(side, run),
            ips[side],
        );
        if self.is_encrypted {
            let security = keys(side as u8, ips[1 - side]);
            let key = folder.join(format!("{side}.key"));
            keyfile::create(&key, private_key(side as u8))?;
            let peer = &security.peers()[0];
            text += &format!(
                "[security]\nkey = {key:?}\n[[security.peer]]\nname = {:?}\nkey = \"{}\"\naddresses = [\"{}\"]\n",
                peer.name,
                peer.key,
                ips[1 - side],
            );
        }
        std::fs::write(&path, text)?;
        Ok(path)
    }

    fn uri(&self, side: usize, run: u64) -> String {
        let (target, mut options) = match &self.hosts {
            Some(hosts) => (target_on(&self.scheme, &ends_of(hosts, &self.scheme)[side].name), Vec::new()),
            None => (format!("bench-{}-{run}", std::process::id()), vec!["shared=1"]),
        };
        if !self.options.is_empty() {
            options.push(&self.options);
        }
        let question = if options.is_empty() { "" } else { "?" };
        format!("{}:{target}{question}{}", self.scheme, options.join("&"))
    }

    fn run_once(&self, awake: &Settled) -> Result<RunResult, AnyError> {
        let workload = &self.info.workload;
        let run = next_run();
        let folder = Folder::create(run)?;
        let ips = self.hosts.as_ref().map_or(MEM_IPS, |h| ends_of(h, &self.scheme).map(|end| end.v4));
        let core = |side: usize| self.cores.map(|c| [c.0, c.1][side]);
        let mut daemons = Vec::new();
        for side in 0..2 {
            let namespace = self.hosts.as_ref().map(|h| [&h.ns_a, &h.ns_b][side]);
            let name = format!("bench-{}-{run}-{side}", std::process::id());
            let is_told_by_file = self.is_encrypted || workload.engines > 1;
            let file = is_told_by_file.then(|| self.configure(&folder.0, side, run, ips)).transpose()?;
            let command = |socket: &Path| {
                let mut c = Command::new(&self.binary);
                c.args(["--quiet", "up", "--with-parent", "--name", &name]);
                match &file {
                    Some(file) => c.arg("--config").arg(file),
                    None => {
                        let address = format!("{}/24", ips[side]);
                        c.args(["--port", &self.uri(side, run), "--ipv4", &address])
                    }
                };
                c.args(["--idle", &self.idle.to_string()]).arg("--socket").arg(socket);
                if let Some(core) = core(side) {
                    c.args(["--core", &core.to_string()]);
                }
                c
            };
            daemons.push(DaemonProcess::start(&folder.0, side, namespace, command)?);
        }
        let cores: Vec<usize> = self.cores.map_or(vec![], |(a, b)| vec![a, b]);
        let meter = CpuMeter::new(&cores);
        for (daemon, end) in daemons.iter().zip([End::Client, End::Server]) {
            meter.process(end, daemon.child.id());
        }

        let servers = attach_all(&daemons[1].socket, "bench server", workload)?;
        let stop = AtomicBool::new(false);
        // Each side has its engines; the server has an application for each, the client one thread for all.
        let watch = Contention::start().threads(1 + 3 * usize::from(workload.engines));
        let (ready, is_ready) = std::sync::mpsc::sync_channel::<()>(usize::from(workload.engines));
        let (client_end, server_ends) = std::thread::scope(|scope| {
            let (stop, idle, meter) = (&stop, self.idle, &meter);
            let client_socket = daemons[0].socket.clone();
            let serve = |(mut client, udp_port): (Client, u16)| {
                let ready = ready.clone();
                scope.spawn(move || {
                    watched(core(1), move || -> Result<(), AnyError> {
                        meter.joins(End::Server);
                        client.listen_wait(udp_port, 0, CONNECT_TIMEOUT)?;
                        let _ = ready.send(());
                        drop(ready);
                        echo(&mut client, idle, stop, workload.size as usize)
                    })
                })
            };
            let servers: Vec<_> = servers.into_iter().zip(SERVER_PORT..).map(serve).collect();
            drop(ready);
            let all_ready = is_ready.iter().take(servers.len()).count() == servers.len();
            let client = all_ready.then(|| {
                scope.spawn(move || {
                    watched(core(0), move || -> Result<RunResult, AnyError> {
                        meter.joins(End::Client);
                        let clients = attach_all(&client_socket, "bench client", workload)?;
                        let server = SocketAddr::from((ips[1], SERVER_PORT));
                        let mut client = DaemonClient::connect(clients, server, workload, idle)?;
                        Ok(meter.run(&mut client, workload)?)
                    })
                })
            });
            let client_end = client.map(|c| c.join());
            stop.store(true, Ordering::Relaxed);
            (client_end, servers.into_iter().map(|s| s.join()).collect::<Vec<_>>())
        });
        let mut switches: Vec<Switches<'_>> = Vec::new();
        for end in server_ends {
            let (server, switched) = end.map_err(|_| BenchError::Panicked("server"))??;
            server?;
            switches.push(("server", switched));
        }
        let client = client_end.ok_or_else(|| io::Error::other("the server did not start"))?;
        let (result, switched) = client.map_err(|_| BenchError::Panicked("client"))??;
        let mut result = result?;
        switches.push(("client", switched));
        result.contention = awake.judged(watch.finish(), &switches).reasons;
        Ok(result)
    }
}

impl Cell for DaemonCell {
    fn info(&self) -> &CellInfo {
        &self.info
    }

    fn run(&mut self, _round: u32) -> Result<RunResult, BenchError> {
        self.info.workload.validate().map_err(driver::DriverError::from)?;
        let cores: Vec<usize> = self.cores.map_or(vec![], |(a, b)| vec![a, b]);
        let awake = settle(self.info.idle_state, &cores)?;
        self.run_once(&awake).map_err(BenchError::Other)
    }
}

/// A directory for sockets, removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn create(run: u64) -> io::Result<Folder> {
        let path = std::env::temp_dir().join(format!("barewire-bench-{}-{run}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A daemon in a process of its own, stopped when dropped.
pub(crate) struct DaemonProcess {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl DaemonProcess {
    /// Starts it and waits until it says that it serves.
    pub(crate) fn start(
        folder: &Path,
        side: usize,
        namespace: Option<&Namespace>,
        command: impl FnOnce(&Path) -> Command,
    ) -> Result<DaemonProcess, AnyError> {
        let socket = folder.join(format!("{side}.sock"));
        let notify_path = folder.join(format!("{side}.ready"));
        let notify = UnixDatagram::bind(&notify_path)?;
        notify.set_read_timeout(Some(READY_TIMEOUT))?;
        let mut command = command(&socket);
        command.env("NOTIFY_SOCKET", &notify_path).stdin(Stdio::null()).stdout(Stdio::null());
        let child = match namespace {
            Some(ns) => ns.spawn_in(&mut command)?,
            None => command.spawn()?,
        };
        let process = DaemonProcess { child, socket };
        let mut word = [0; 64];
        notify
            .recv(&mut word)
            .map_err(|e| format!("the daemon did not start (its own words are above): {e}"))?;
        Ok(process)
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        for _ in 0..STOP_TIMEOUT.as_millis() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn attach(socket: &Path, name: &str, workload: &MsgWorkload) -> Result<Client, AnyError> {
    let mut config = ClientConfig::new(name);
    config.socket = socket.to_owned();
    // Small rings and memory stay in the caches; what is outstanding twice over fits.
    let need = u64::from(workload.size.next_power_of_two().max(64)) * u64::from(workload.window + 1) * 4;
    let bytes = need.next_power_of_two().clamp(1 << 20, u64::from(Geometry::DEFAULT.send_bytes)) as u32;
    config.geometry = Some(Geometry { send_bytes: bytes, recv_bytes: bytes, ..Geometry::DEFAULT });
    Ok(Client::attach_with(&config)?)
}

/// An application for each engine: the daemon deals them out in turns, first come first.
fn attach_all(socket: &Path, name: &str, workload: &MsgWorkload) -> Result<Vec<Client>, AnyError> {
    (0..workload.engines).map(|_| attach(socket, name, workload)).collect()
}

/// Sends every message back until `stop`.
fn echo(client: &mut Client, idle: IdleStrategy, stop: &AtomicBool, size: usize) -> Result<(), AnyError> {
    let mut bytes = vec![0; size];
    // An echo that found no room, with its length.
    let mut waiting: Option<(FlowId, usize)> = None;
    while !stop.load(Ordering::Relaxed) {
        let mut worked = false;
        if let Some((flow, len)) = waiting.take() {
            waiting = put(client, flow, &bytes[..len])?;
        }
        while waiting.is_none() {
            let Some(event) = client.next_event() else {
                break;
            };
            worked = true;
            if let Event::Message(message) = event {
                let (flow, len) = (message.flow(), client.read(&message, &mut bytes));
                client.release(message);
                waiting = put(client, flow, &bytes[..len])?;
            }
        }
        client.flush();
        if worked {
            continue;
        }
        match idle {
            IdleStrategy::Spin => std::hint::spin_loop(),
            IdleStrategy::Yield => std::thread::yield_now(),
            IdleStrategy::Park { .. } if waiting.is_none() => match client.wait_event(Some(STOP_CHECK)) {
                Ok(Some(Event::Message(message))) => {
                    let (flow, len) = (message.flow(), client.read(&message, &mut bytes));
                    client.release(message);
                    waiting = put(client, flow, &bytes[..len])?;
                    client.flush();
                }
                Ok(_) => {}
                Err(WaitError::Io(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            },
            IdleStrategy::Park { .. } => std::thread::yield_now(),
        }
    }
    Ok(())
}

/// Queues a message; what found no room comes back.
fn put(client: &mut Client, flow: FlowId, bytes: &[u8]) -> Result<Option<(FlowId, usize)>, AnyError> {
    let sent = client.reserve(bytes.len()).and_then(|buf| {
        client.write(&buf, 0, bytes);
        client.commit(flow, buf, None)
    });
    match sent {
        Ok(()) => Ok(None),
        Err(SendError::WouldBlock) => Ok(Some((flow, bytes.len()))),
        Err(e) => Err(e.into()),
    }
}

/// The client of a run through daemons.
struct DaemonClient {
    /// One for each engine; connection `c` is of `clients[c % clients.len()]`.
    clients: Vec<Client>,
    flows: Vec<FlowId>,
    idle: IdleStrategy,
    bytes: Vec<u8>,
}

impl DaemonClient {
    /// Connection `c` goes to the server's UDP port plus the number of its engine.
    fn connect(
        mut clients: Vec<Client>,
        server: SocketAddr,
        workload: &MsgWorkload,
        idle: IdleStrategy,
    ) -> Result<DaemonClient, AnyError> {
        let mut flows = Vec::new();
        for token in 0..u64::from(workload.connections) {
            let options = ConnectOptions { token, ..ConnectOptions::default() };
            let engine = token as usize % clients.len();
            let to = SocketAddr::new(server.ip(), server.port() + engine as u16);
            flows.push(clients[engine].connect_wait(to, &options, CONNECT_TIMEOUT)?);
        }
        Ok(DaemonClient { clients, flows, idle, bytes: vec![0; workload.size as usize] })
    }

    /// Which of the connections of `engine` this is.
    #[inline]
    fn connection(&self, engine: usize, flow: FlowId) -> u32 {
        match self.flows.as_slice() {
            [_] => 0,
            flows => {
                let mut own = flows.iter().enumerate().skip(engine).step_by(self.clients.len());
                own.find(|(_, f)| **f == flow).map_or(0, |(c, _)| c as u32)
            }
        }
    }

    #[inline]
    fn take(
        &mut self,
        engine: usize,
        event: Event,
        on_response: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<usize, SystemError> {
        match event {
            Event::Message(message) => {
                let connection = self.connection(engine, message.flow());
                let client = &mut self.clients[engine];
                let len = client.read(&message, &mut self.bytes);
                client.release(message);
                on_response(connection, &self.bytes[..len]);
                Ok(1)
            }
            Event::Closed { flow, .. } => {
                Err(SystemError::Closed { system: "barewire", connection: self.connection(engine, flow) })
            }
            _ => Ok(0),
        }
    }
}

impl RequestResponse for DaemonClient {
    #[inline]
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        let engine = connection as usize % self.clients.len();
        match put(&mut self.clients[engine], self.flows[connection as usize], message) {
            Ok(none) => Ok(none.is_none()),
            Err(e) => Err(SystemError::Other(e)),
        }
    }

    #[inline]
    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        let mut responses = 0;
        for engine in 0..self.clients.len() {
            self.clients[engine].flush();
            while let Some(event) = self.clients[engine].next_event() {
                responses += self.take(engine, event, on_response)?;
            }
        }
        if responses > 0 {
            return Ok(responses);
        }
        match (self.idle, wait) {
            (IdleStrategy::Spin, _) => std::hint::spin_loop(),
            // One thread sleeps on one application only.
            (IdleStrategy::Park { .. }, Wait::AtMost(most)) if self.clients.len() == 1 => {
                match self.clients[0].wait_event(Some(most.into())) {
                    Ok(Some(event)) => return self.take(0, event, on_response),
                    Ok(None) => {}
                    Err(WaitError::Io(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(SystemError::Other(e.into())),
                }
            }
            _ => std::thread::yield_now(),
        }
        Ok(0)
    }
}
