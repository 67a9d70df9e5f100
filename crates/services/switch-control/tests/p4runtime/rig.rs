//! A running switch with its gRPC server, and controllers made of the same message types.

use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_p4_state::ProgramState;
use barewire_port::{Port, PortUri};
use barewire_switch::control::{ControlError, MirrorSession, PortInfo, Replica, Switch, SwitchConfig};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::learn::Learner;
use barewire_switch::pre::Pre;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::server::{Server, ServerConfig};
use barewire_switch_control::p4info::{P4Info, text};
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use barewire_switch_control::p4runtime::{GrpcOptions, GrpcServer};
use prost::Message;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

pub const PROGRAM: &str = include_str!("../data/control.json");
pub const P4INFO: &str = include_str!("../data/control.p4info.txtpb");
pub const DEVICE: u64 = 3;
pub const CPU_PORT: u32 = 510;

/// How long a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    pub runtime: Runtime,
    pub server: Option<Server>,
    pub grpc: Option<GrpcServer>,
    pub info: P4Info,
    pub names: Vec<String>,
}

pub fn config() -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(text::parse(P4INFO).expect("the fixture is a P4Info")),
        p4_device_config: PROGRAM.as_bytes().to_vec(),
        cookie: Some(ConfigCookie { cookie: 42 }),
    }
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Rig {
    /// A switch without a program and without ports.
    pub fn empty() -> Rig {
        Rig::with_ports(0)
    }

    /// A switch with so many ports, numbered from 1, and no program.
    pub fn with_ports(ports: u32) -> Rig {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Rig::with_uris(
            (1..=ports).map(|port| format!("mem:p4rt-{}-{id}-{port}", std::process::id())).collect(),
        )
    }

    /// A switch with these ports, numbered from 1, and no program.
    pub fn with_uris(names: Vec<String>) -> Rig {
        let server = Server::start(
            ServerConfig {
                target: TargetConfig { cpu_port: Some(CPU_PORT), ..TargetConfig::default() },
                control: SwitchConfig {
                    device_id: DEVICE,
                    cpu_port: Some(CPU_PORT),
                    engine: EngineKind::Native,
                    enable_swap: true,
                    started_unix_us: 1_700_000_000_000_000,
                    answer_timeout: PATIENCE,
                    ..SwitchConfig::default()
                },
                ports: (1..).zip(names.iter().cloned()).collect(),
                ..ServerConfig::default()
            },
            None,
        )
        .expect("a switch starts");
        let options = GrpcOptions { device_id: DEVICE, ..GrpcOptions::default() };
        let grpc = GrpcServer::start("127.0.0.1:0".parse().unwrap(), server.switch().clone(), options)
            .expect("a free port on loopback");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let info = text::parse(P4INFO).expect("the fixture is a P4Info");
        Rig { runtime, server: Some(server), grpc: Some(grpc), info, names }
    }

    /// The test's program, pushed by a primary.
    pub fn start() -> (Rig, Controller) {
        Rig::start_with_ports(0)
    }

    pub fn start_with_ports(ports: u32) -> (Rig, Controller) {
        let rig = Rig::with_ports(ports);
        let mut controller = rig.controller(1);
        controller.become_primary();
        controller.push(ConfigAction::VerifyAndCommit, Some(config())).expect("the program is taken");
        (rig, controller)
    }

    pub fn switch(&self) -> &Switch {
        self.server.as_ref().unwrap().switch()
    }

    pub fn client(&self) -> Client {
        let address = format!("http://{}", self.grpc.as_ref().unwrap().local_addr());
        let channel = self
            .runtime
            .block_on(Channel::from_shared(address).unwrap().connect())
            .expect("the server listens");
        Client {
            grpc: tonic::client::Grpc::new(channel).max_decoding_message_size(64 << 20),
            handle: self.runtime.handle().clone(),
        }
    }

    pub fn controller(&self, election: u64) -> Controller {
        self.controller_with_role(election, "")
    }

    pub fn controller_with_role(&self, election: u64, role: &str) -> Controller {
        let client = self.client();
        let (to, from) = client.open_stream();
        Controller { client, to, from, election, role: role.into() }
    }

    /// The wire of a port.
    pub fn wire(&self, port: usize) -> Wire {
        let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
        let uri: PortUri = self.names[port - 1].parse().unwrap();
        let port = barewire_engine::open_port(&uri, &pool).expect("the other end of a memory port");
        Wire { port, pool }
    }

    pub fn table(&self, alias: &str) -> u32 {
        id(self.info.tables.iter().map(|t| t.preamble.as_ref().unwrap()), alias)
    }

    pub fn action(&self, alias: &str) -> u32 {
        id(self.info.actions.iter().map(|a| a.preamble.as_ref().unwrap()), alias)
    }

    /// An object of another kind.
    pub fn object(&self, alias: &str) -> u32 {
        let info = &self.info;
        let all = info
            .action_profiles
            .iter()
            .map(|o| &o.preamble)
            .chain(info.counters.iter().map(|o| &o.preamble))
            .chain(info.meters.iter().map(|o| &o.preamble))
            .chain(info.registers.iter().map(|o| &o.preamble))
            .chain(info.digests.iter().map(|o| &o.preamble))
            .chain(info.value_sets.iter().map(|o| &o.preamble));
        id(all.map(|preamble| preamble.as_ref().unwrap()), alias)
    }

    pub fn call(&self, action: &str, args: &[u64]) -> Action {
        let params = args
            .iter()
            .zip(1..)
            .map(|(&value, param_id)| ActionParam { param_id, value: number(value) })
            .collect();
        Action { action_id: self.action(action), params }
    }

    pub fn entry(
        &self,
        table: &str,
        matches: Vec<(u32, MatchValue)>,
        action: &str,
        args: &[u64],
    ) -> TableEntry {
        TableEntry {
            table_id: self.table(table),
            r#match: matches
                .into_iter()
                .map(|(field_id, value)| FieldMatch { field_id, field_match_type: Some(value) })
                .collect(),
            action: Some(TableAction { r#type: Some(ActionChoice::Action(self.call(action, args))) }),
            ..TableEntry::default()
        }
    }

    pub fn stop(mut self) {
        self.grpc.take().unwrap().stop();
        self.server.take().unwrap().stop().expect("no engine died");
    }
}

fn id<'a>(
    mut all: impl Iterator<Item = &'a barewire_switch_control::p4info::message::Preamble>,
    alias: &str,
) -> u32 {
    all.find(|preamble| preamble.alias == alias).unwrap_or_else(|| panic!("no {alias} in the fixture")).id
}

/// The shortest byte string of a number.
pub fn number(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count().min(7);
    bytes[zeros..].to_vec()
}

pub fn exact(value: u64) -> MatchValue {
    MatchValue::Exact(ExactMatch { value: number(value) })
}

pub fn lpm(value: u64, prefix_len: i32) -> MatchValue {
    MatchValue::Lpm(LpmMatch { value: number(value), prefix_len })
}

pub fn ternary(value: u64, mask: u64) -> MatchValue {
    MatchValue::Ternary(TernaryMatch { value: number(value), mask: number(mask) })
}

pub fn range(low: u64, high: u64) -> MatchValue {
    MatchValue::Range(RangeMatch { low: number(low), high: number(high) })
}

pub fn optional(value: u64) -> MatchValue {
    MatchValue::Optional(OptionalMatch { value: number(value) })
}

pub fn entity(kind: EntityKind) -> Entity {
    Entity { entity: Some(kind) }
}

pub fn update(kind: UpdateType, what: EntityKind) -> Update {
    Update { r#type: kind as i32, entity: Some(entity(what)) }
}

/// The canonical codes of a batch's details.
pub fn codes(status: &Status) -> Vec<i32> {
    let details = RpcStatus::decode(status.details()).expect("the details are a status");
    assert_eq!(details.code, status.code() as i32);
    details
        .details
        .iter()
        .map(|any| {
            assert_eq!(any.type_url, "type.googleapis.com/p4.v1.Error");
            Error::decode(&any.value[..]).unwrap().canonical_code
        })
        .collect()
}

#[derive(Clone)]
pub struct Client {
    pub grpc: tonic::client::Grpc<Channel>,
    handle: tokio::runtime::Handle,
}

type ToSwitch = mpsc::Sender<StreamMessageRequest>;
type FromSwitch = Streaming<StreamMessageResponse>;

impl Client {
    pub fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.grpc.clone();
        self.handle.block_on(async move {
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let codec = tonic_prost::ProstCodec::<Q, A>::default();
            Ok(grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await?.into_inner())
        })
    }

    pub fn capabilities(&self) -> String {
        let answer: CapabilitiesResponse =
            self.unary("/p4.v1.P4Runtime/Capabilities", CapabilitiesRequest {}).unwrap();
        answer.p4runtime_api_version
    }

    pub fn write_request(&self, request: WriteRequest) -> Result<(), Status> {
        self.unary::<_, WriteResponse>("/p4.v1.P4Runtime/Write", request).map(|_| ())
    }

    pub fn read_request(&self, request: ReadRequest) -> (Vec<Entity>, Result<usize, Status>) {
        let mut grpc = self.grpc.clone();
        self.handle.block_on(async move {
            grpc.ready().await.unwrap();
            let codec = tonic_prost::ProstCodec::<ReadRequest, ReadResponse>::default();
            let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Read");
            let mut stream = match grpc.server_streaming(Request::new(request), path, codec).await {
                Ok(answer) => answer.into_inner(),
                Err(status) => return (Vec::new(), Err(status)),
            };
            let (mut entities, mut messages) = (Vec::new(), 0);
            loop {
                match stream.message().await {
                    Ok(Some(message)) => {
                        messages += 1;
                        entities.extend(message.entities);
                    }
                    Ok(None) => return (entities, Ok(messages)),
                    Err(status) => return (entities, Err(status)),
                }
            }
        })
    }

    pub fn read(&self, wanted: EntityKind) -> Result<Vec<EntityKind>, Status> {
        let request =
            ReadRequest { device_id: DEVICE, entities: vec![entity(wanted)], ..ReadRequest::default() };
        let (entities, status) = self.read_request(request);
        status.map(|_| entities.into_iter().filter_map(|entity| entity.entity).collect())
    }

    /// The only detail's code of a read that must fail.
    pub fn read_refused(&self, wanted: EntityKind) -> i32 {
        codes(&self.read(wanted).unwrap_err())[0]
    }

    pub fn get_config(&self, wanted: ResponseType) -> Option<ForwardingPipelineConfig> {
        let request = GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type: wanted as i32 };
        let answer: GetForwardingPipelineConfigResponse =
            self.unary("/p4.v1.P4Runtime/GetForwardingPipelineConfig", request).unwrap();
        answer.config
    }

    pub fn open_stream(&self) -> (ToSwitch, FromSwitch) {
        let (to, requests) = mpsc::channel(64);
        let mut grpc = self.grpc.clone();
        let from = self.handle.block_on(async move {
            grpc.ready().await.unwrap();
            let codec = tonic_prost::ProstCodec::default();
            let path = PathAndQuery::from_static("/p4.v1.P4Runtime/StreamChannel");
            grpc.streaming(Request::new(ReceiverStream::new(requests)), path, codec)
                .await
                .unwrap()
                .into_inner()
        });
        (to, from)
    }
}

pub struct Controller {
    pub client: Client,
    pub to: ToSwitch,
    pub from: FromSwitch,
    pub election: u64,
    pub role: String,
}

impl Controller {
    pub fn election_id(&self) -> Option<Uint128> {
        Some(Uint128 { high: 0, low: self.election })
    }

    pub fn send(&self, update: StreamRequest) {
        let message = StreamMessageRequest { update: Some(update) };
        let handle = self.client.handle.clone();
        handle.block_on(self.to.send(message)).expect("the stream is open");
    }

    pub fn arbitrate(&self) {
        let role = (!self.role.is_empty()).then(|| Role { name: self.role.clone(), ..Role::default() });
        let election_id = self.election_id();
        self.send(StreamRequest::Arbitration(MasterArbitrationUpdate {
            device_id: DEVICE,
            role,
            election_id,
            status: None,
        }));
    }

    /// What the switch sends next; the status when the stream ends instead.
    pub fn next(&mut self) -> Result<Option<StreamResponse>, Status> {
        let handle = self.client.handle.clone();
        handle.block_on(async {
            match tokio::time::timeout(PATIENCE, self.from.message()).await {
                Ok(Ok(message)) => Ok(message.and_then(|message| message.update)),
                Ok(Err(status)) => Err(status),
                Err(_) => panic!("nothing came for {PATIENCE:?}"),
            }
        })
    }

    /// What comes within a short time.
    pub fn poll(&mut self, wait: Duration) -> Option<StreamResponse> {
        let handle = self.client.handle.clone();
        handle.block_on(async {
            let message = tokio::time::timeout(wait, self.from.message()).await.ok()?;
            message.ok()??.update
        })
    }

    pub fn next_arbitration(&mut self) -> MasterArbitrationUpdate {
        loop {
            match self.next().unwrap() {
                Some(StreamResponse::Arbitration(update)) => return update,
                Some(_) => {}
                None => panic!("the stream ended"),
            }
        }
    }

    pub fn status(&mut self) -> i32 {
        self.next_arbitration().status.unwrap().code
    }

    pub fn become_primary(&mut self) {
        self.arbitrate();
        assert_eq!(self.status(), 0);
    }

    pub fn push(&self, action: ConfigAction, config: Option<ForwardingPipelineConfig>) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            role: self.role.clone(),
            election_id: self.election_id(),
            action: action as i32,
            config,
            ..SetForwardingPipelineConfigRequest::default()
        };
        self.client
            .unary::<_, SetForwardingPipelineConfigResponse>(
                "/p4.v1.P4Runtime/SetForwardingPipelineConfig",
                request,
            )
            .map(|_| ())
    }

    pub fn write_batch(&self, updates: Vec<Update>, atomicity: Atomicity) -> Result<(), Status> {
        self.client.write_request(WriteRequest {
            device_id: DEVICE,
            role: self.role.clone(),
            election_id: self.election_id(),
            updates,
            atomicity: atomicity as i32,
            ..WriteRequest::default()
        })
    }

    pub fn write(&self, kind: UpdateType, what: EntityKind) -> Result<(), Status> {
        self.write_batch(vec![update(kind, what)], Atomicity::ContinueOnError)
    }

    /// A write that must succeed.
    pub fn done(&self, kind: UpdateType, what: EntityKind) {
        let shown = format!("{kind:?} {what:?}");
        if let Err(status) = self.write(kind, what) {
            panic!("{shown}: {status:?}");
        }
    }

    /// The code of a write that must be refused.
    pub fn refused(&self, kind: UpdateType, what: EntityKind) -> Code {
        let shown = format!("{kind:?} {what:?}");
        let status = self.write(kind, what).expect_err(&shown);
        assert_eq!(status.code(), Code::Unknown, "{shown}: {status:?}");
        let details = RpcStatus::decode(status.details()).unwrap();
        let error = Error::decode(&details.details[0].value[..]).unwrap();
        assert!(!error.message.is_empty(), "{shown}: a refusal without a reason");
        Code::from(error.canonical_code)
    }

    /// The only entity that a pattern matches.
    pub fn one(&self, wanted: EntityKind) -> EntityKind {
        let mut found = self.client.read(wanted).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    pub fn entries(&self, wanted: TableEntry) -> Vec<TableEntry> {
        let found = self.client.read(EntityKind::TableEntry(wanted)).unwrap();
        found
            .into_iter()
            .map(|entity| match entity {
                EntityKind::TableEntry(entry) => entry,
                other => panic!("{other:?}"),
            })
            .collect()
    }
}

/// The far end of a port.
pub struct Wire {
    port: Box<dyn Port>,
    pool: Pool,
}

impl Wire {
    pub fn send(&mut self, bytes: &[u8]) {
        let mut burst = Burst::new();
        assert!(burst.push(self.pool.alloc_from(bytes).expect("a frame")).is_ok());
        let until = barewire_engine::now().as_nanos() + PATIENCE.as_nanos() as u64;
        while barewire_engine::now().as_nanos() < until {
            self.port.tx_burst(barewire_engine::now(), &mut burst).unwrap();
            if burst.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the switch takes no frames");
    }

    /// Frames that come within a time; returns early once `count` are there.
    pub fn receive(&mut self, count: usize, wait: Duration) -> Vec<Vec<u8>> {
        let until = barewire_engine::now().as_nanos() + wait.as_nanos() as u64;
        let mut out = Vec::new();
        while out.len() < count && barewire_engine::now().as_nanos() < until {
            let mut burst = Burst::new();
            if self.port.rx_burst(barewire_engine::now(), &mut burst).unwrap() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            while let Some(frame) = burst.pop() {
                out.push(frame.data().to_vec());
            }
        }
        out
    }
}

/// An Ethernet frame of 60 bytes.
pub fn frame(dst: u64, src: u64, ether_type: u16) -> Vec<u8> {
    let mut bytes = dst.to_be_bytes()[2..].to_vec();
    bytes.extend_from_slice(&src.to_be_bytes()[2..]);
    bytes.extend_from_slice(&ether_type.to_be_bytes());
    bytes.resize(60, 0xee);
    bytes
}

/// An engine beside the one that serves the ports, which only applies what is written.
pub struct SecondEngine {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

#[derive(Default)]
struct Idle {
    state: Option<Box<ProgramState>>,
    pre: Pre,
}

impl Replica for Idle {
    fn state(&mut self) -> Option<&mut ProgramState> {
        self.state.as_deref_mut()
    }
    fn install(&mut self, _: &Arc<Prepared>, state: Box<ProgramState>) -> Box<dyn Any + Send> {
        Box::new(self.state.replace(state))
    }
    fn pre(&mut self) -> &mut Pre {
        &mut self.pre
    }
    fn learner(&mut self) -> Option<&mut Learner> {
        None
    }
    fn set_mirror(&mut self, _: u32, _: Option<MirrorSession>) {}
    fn set_queue_depth(&mut self, _: Option<u32>, _: Option<u32>, _: usize) {}
    fn set_queue_rate(&mut self, _: Option<u32>, _: Option<u32>, _: u64) {}
    fn add_port(
        &mut self,
        _: u32,
        _: &str,
        _: Option<Box<dyn Any + Send>>,
    ) -> std::result::Result<(), ControlError> {
        Ok(())
    }
    fn remove_port(&mut self, _: u32) -> std::result::Result<Option<Box<dyn Any + Send>>, ControlError> {
        Ok(None)
    }
    fn ports(&mut self) -> Vec<PortInfo> {
        Vec::new()
    }
    fn inject(&mut self, _: Option<u32>, _: Vec<u8>) {}
    fn drops(&mut self, _: &mut dyn FnMut(&str, u64)) {}
}

impl SecondEngine {
    pub fn attach(switch: &Switch) -> SecondEngine {
        let mut inbox = switch.attach(Box::new(|| {}));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut replica = Idle::default();
            while !stopped.load(Ordering::Relaxed) {
                if inbox.drain(&mut replica) == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        SecondEngine { stop, thread }
    }

    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}
