//! How many table writes a second each way into the switch takes, while its engine forwards: a first look, not a
//! measurement. Give the number of routes (100,000 by default); each row fills the table of routes anew.

use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_p4::ir::{ActionId, TableId};
use barewire_p4::key::MatchParam;
use barewire_p4_source::Options;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_port::{Port, PortUri};
use barewire_switch::control::{ActionCall, NewEntry, Switch, SwitchConfig, TableAction, TableWrite};
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::server::{Server, ServerConfig};
use barewire_switch::source;
use barewire_switch_control::p4info::P4Info;
use barewire_switch_control::p4info::message::Preamble;
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use barewire_switch_control::p4runtime::{GrpcOptions, GrpcServer};
use barewire_switch_control::thrift::codec::{
    Limits, Message, MessageType, Value, read_message, wire, write_message,
};
use barewire_switch_control::thrift::{Server as ThriftServer, ServerOptions};
use num_bigint::BigUint;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

const PROGRAM: &str = include_str!("simple_router.p4");
const NAME: &str = "simple_router.p4";
const DEVICE: u64 = 1;
/// Calls that a pipelining client has under way.
const WINDOW: u32 = 64;

/// What controllers know of it.
fn p4info() -> P4Info {
    let files = MemoryFiles::one(NAME, PROGRAM);
    let read = barewire_p4_source::read(&files, &Options::default(), NAME, |source, typed, _, found| {
        barewire_p4_info::from_source(source, typed, found)
    });
    read.made.expect("our own program")
}

/// A route's prefix: all differ, none has the traffic's.
fn prefix(at: u32) -> u32 {
    0x1000_0000 + (at << 8)
}

struct Routes {
    switch: Switch,
    table: TableId,
    action: ActionId,
    count: u32,
}

impl Routes {
    fn entry(&self, at: u32) -> NewEntry {
        let args = vec![BigUint::from(0xc0a8_0001_u32), BigUint::from(2_u32)];
        NewEntry {
            key: vec![MatchParam::Lpm { value: prefix(at).into(), prefix_len: 24 }],
            priority: 0,
            action: TableAction::Call(ActionCall { action: self.action, args }),
            ttl_ms: 0,
            cookie: Vec::new(),
        }
    }

    /// Time one way of adding so many routes, wait until the engine has them too, and show it.
    fn row(&self, name: &str, count: u32, forwarded: &AtomicU64, add: impl FnOnce(u32)) {
        self.switch.clear_table(self.table, false).expect("the table is not const");
        self.settle();
        let (before, start) = (forwarded.load(Ordering::Relaxed), barewire_engine::now());
        add(count);
        let returned = barewire_engine::now();
        self.settle();
        let end = barewire_engine::now();
        assert_eq!(self.switch.num_entries(self.table), Ok(count as usize));
        let per_second = |times: u64, ns: u64| times as f64 * 1e9 / ns.max(1) as f64;
        let (write_ns, all_ns) = (returned.as_nanos() - start.as_nanos(), end.as_nanos() - start.as_nanos());
        let packets = forwarded.load(Ordering::Relaxed) - before;
        println!(
            "{name:44} {:>10.0} writes/s {:>10.0} applied/s {:>12.0} packets/s meanwhile",
            per_second(count.into(), write_ns),
            per_second(count.into(), all_ns),
            per_second(packets, all_ns),
        );
    }

    /// Wait until the engine has applied all writes.
    fn settle(&self) {
        while self.switch.ports().is_empty() {}
    }
}

/// Send frames into one port and take them off another until told to stop, counting those that arrive.
fn traffic(from: &str, to: &str, stop: &AtomicBool, forwarded: &AtomicU64) {
    let pool = Pool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).expect("frames");
    let open = |uri: &str| -> Box<dyn Port> {
        let uri: PortUri = uri.parse().expect("a URI");
        barewire_engine::open_port(&uri, &pool).expect("the other end of a port")
    };
    let (mut from, mut to) = (open(from), open(to));
    let mut frame = vec![0; 64];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..34]
        .copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0x66, 0xb9, 10, 0, 0, 1, 10, 0, 0, 2]);
    let (mut tx, mut rx) = (Burst::new(), Burst::new());
    while !stop.load(Ordering::Relaxed) {
        let now = barewire_engine::now();
        while tx.len() < 32 {
            let Some(copy) = pool.alloc_from(&frame) else { break };
            if tx.push(copy).is_err() {
                break;
            }
        }
        let sent = from.tx_burst(now, &mut tx).expect("the port works");
        let taken = to.rx_burst(now, &mut rx).expect("the port works");
        forwarded.fetch_add(taken as u64, Ordering::Relaxed);
        while rx.pop().is_some() {}
        if sent == 0 && taken == 0 {
            std::thread::yield_now();
        }
    }
}

fn thrift_call(at: u32) -> Message {
    let lpm = Value::Struct(vec![(1, Value::Bytes(prefix(at).to_be_bytes().to_vec())), (2, Value::I32(24))]);
    let param = Value::Struct(vec![(1, Value::I32(1)), (3, lpm)]);
    let data = [vec![0xc0, 0xa8, 0, 1], vec![0, 2]].map(Value::Bytes).to_vec();
    let args = vec![
        (1, Value::I32(0)),
        (2, Value::text("ipv4_lpm")),
        (3, Value::structs(vec![param])),
        (4, Value::text("set_next_hop")),
        (5, Value::List(wire::BYTES, data)),
    ];
    Message {
        name: "standard:bm_mt_add_entry".into(),
        kind: MessageType::Call,
        sequence: at as i32,
        body: Value::Struct(args),
    }
}

/// Add routes over one connection, so many calls under way at a time.
fn thrift(address: std::net::SocketAddr, count: u32, window: u32) {
    let mut to = TcpStream::connect(address).expect("the server listens");
    to.set_nodelay(true).expect("a TCP socket");
    let mut from = BufReader::new(to.try_clone().expect("a second handle"));
    let mut bytes = Vec::new();
    for first in (0..count).step_by(window as usize) {
        let last = (first + window).min(count);
        bytes.clear();
        (first..last).for_each(|at| write_message(&mut bytes, &thrift_call(at)));
        to.write_all(&bytes).expect("the server reads");
        for at in first..last {
            let reply = read_message(&mut from, Limits::REPLY).expect("an answer");
            assert_eq!((reply.kind, reply.sequence), (MessageType::Reply, at as i32));
            assert!(reply.body.field(0).is_some(), "refused: {:?}", reply.body);
        }
    }
}

struct Controller {
    runtime: tokio::runtime::Runtime,
    grpc: tonic::client::Grpc<Channel>,
    table: u32,
    action: u32,
    /// Keeps the stream open, and with it the controller primary.
    _stream: (tokio::sync::mpsc::Sender<StreamMessageRequest>, tonic::Streaming<StreamMessageResponse>),
}

impl Controller {
    fn connect(address: std::net::SocketAddr, info: &P4Info) -> Controller {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads");
        let (grpc, stream) = runtime.block_on(async {
            let channel = Channel::from_shared(format!("http://{address}")).expect("an address");
            let mut grpc = tonic::client::Grpc::new(channel.connect().await.expect("the server listens"));
            let (to, requests) = tokio::sync::mpsc::channel(4);
            let first = MasterArbitrationUpdate {
                device_id: DEVICE,
                role: None,
                election_id: Some(Uint128 { high: 0, low: 1 }),
                status: None,
            };
            let first = StreamMessageRequest { update: Some(StreamRequest::Arbitration(first)) };
            to.send(first).await.expect("the channel is open");
            grpc.ready().await.expect("connected");
            let path = PathAndQuery::from_static("/p4.v1.P4Runtime/StreamChannel");
            let codec = tonic_prost::ProstCodec::default();
            let stream = grpc.streaming(Request::new(ReceiverStream::new(requests)), path, codec).await;
            let mut stream = stream.expect("a stream").into_inner();
            stream.message().await.expect("an answer").expect("the arbitration's");
            (grpc, (to, stream))
        });
        let id = |preamble: &Option<Preamble>, alias: &str| {
            preamble.as_ref().filter(|preamble| preamble.alias == alias).map(|preamble| preamble.id)
        };
        let table = info.tables.iter().find_map(|table| id(&table.preamble, "ipv4_lpm"));
        let action = info.actions.iter().find_map(|action| id(&action.preamble, "set_next_hop"));
        Controller {
            runtime,
            grpc,
            table: table.expect("in the P4Info"),
            action: action.expect("in the P4Info"),
            _stream: stream,
        }
    }

    fn insert(&self, at: u32) -> Update {
        let lpm = LpmMatch { value: prefix(at).to_be_bytes().to_vec(), prefix_len: 24 };
        let params = vec![
            ActionParam { param_id: 1, value: vec![0xc0, 0xa8, 0, 1] },
            ActionParam { param_id: 2, value: vec![2] },
        ];
        let action = ActionChoice::Action(Action { action_id: self.action, params });
        let entry = TableEntry {
            table_id: self.table,
            r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(MatchValue::Lpm(lpm)) }],
            action: Some(barewire_switch_control::p4runtime::entity::TableAction { r#type: Some(action) }),
            ..TableEntry::default()
        };
        let entity = Some(Entity { entity: Some(EntityKind::TableEntry(entry)) });
        Update { r#type: UpdateType::Insert as i32, entity }
    }

    /// Add routes in requests of so many updates, one request after the other.
    fn write(&mut self, count: u32, batch: u32) {
        for first in (0..count).step_by(batch as usize) {
            let updates = (first..(first + batch).min(count)).map(|at| self.insert(at)).collect();
            let request = WriteRequest {
                device_id: DEVICE,
                election_id: Some(Uint128 { high: 0, low: 1 }),
                updates,
                ..WriteRequest::default()
            };
            let grpc = &mut self.grpc;
            self.runtime.block_on(async {
                grpc.ready().await.expect("connected");
                let codec = tonic_prost::ProstCodec::<WriteRequest, WriteResponse>::default();
                let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Write");
                grpc.unary(Request::new(request), path, codec).await.expect("the writes are taken");
            });
        }
    }
}

fn main() {
    let count: u32 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let count = count.clamp(1, 1 << 20);
    let names = ["in", "out"].map(|end| format!("mem:control-example-{}-{end}", std::process::id()));
    let program = source::from_text(NAME, PROGRAM).expect("our own program");
    let json = program.source.clone();
    let prepared = Arc::new(Prepared::new(Arc::new(program), EngineKind::Native).expect("our own program"));
    let config = ServerConfig {
        ports: (1..).zip(names.iter().cloned()).collect(),
        control: SwitchConfig { device_id: DEVICE, ..SwitchConfig::default() },
        ..ServerConfig::default()
    };
    let server = Server::start(config, Some(prepared)).expect("a switch");
    let switch = server.switch().clone();
    let thrift_server =
        ThriftServer::start("127.0.0.1:0", switch.clone(), ServerOptions::default()).expect("a free port");
    let info = p4info();
    let config = ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config: json.into_bytes(),
        cookie: None,
    };
    let options = GrpcOptions { device_id: DEVICE, config: Some(config), ..GrpcOptions::default() };
    let grpc_server = GrpcServer::start("127.0.0.1:0".parse().expect("an address"), switch.clone(), options)
        .expect("a free port");

    let table = switch.table("ipv4_lpm").expect("the program has it");
    let action = switch.action_of(table, "set_next_hop").expect("the table has it");
    let routes = Routes { switch: switch.clone(), table, action, count };
    // The traffic's next hop is the same whether a route is there or not: the default action.
    let hop = vec![BigUint::from(0x0a00_0002_u32), BigUint::from(2_u32)];
    switch.set_default(table, TableAction::Call(ActionCall { action, args: hop })).expect("it may be set");
    let other = |table: &str, action: &str, key: u32, arg: u64| {
        let table = switch.table(table).expect("the program has it");
        let action = switch.action_of(table, action).expect("the table has it");
        let call = ActionCall { action, args: vec![BigUint::from(arg)] };
        switch
            .add_entry(table, vec![MatchParam::Exact(key.into())], 0, TableAction::Call(call))
            .expect("an entry");
    };
    other("forward", "set_dst_addr", 0x0a00_0002, 0x0200_0000_0002);
    other("send_frame", "set_src_addr", 2, 0x0200_0000_ff02);

    let (stop, forwarded) = (AtomicBool::new(false), AtomicU64::new(0));
    println!("{count} routes, one engine; Thrift and P4Runtime over loopback");
    let add_each = |count| {
        for at in 0..count {
            let NewEntry { key, priority, action, .. } = routes.entry(at);
            routes.switch.add_entry(routes.table, key, priority, action).expect("a route");
        }
    };
    routes.row("Switch::add_entry, no traffic", routes.count, &forwarded, add_each);
    std::thread::scope(|scope| {
        scope.spawn(|| traffic(&names[0], &names[1], &stop, &forwarded));
        routes.row("Switch::add_entry", count, &forwarded, add_each);
        routes.row("Switch::write_batch, 256 at a time", count, &forwarded, |count| {
            for first in (0..count).step_by(256) {
                let add = |at| TableWrite::Add { table, entry: routes.entry(at) };
                let results = switch.write_batch((first..(first + 256).min(count)).map(add).collect());
                assert!(results.iter().all(Result::is_ok));
            }
        });
        let address = thrift_server.local_addr();
        // One call at a time takes a round trip each: fewer will do.
        let few = count.min(20_000);
        routes.row("Thrift, one call at a time", few, &forwarded, |count| thrift(address, count, 1));
        let name = format!("Thrift, {WINDOW} calls under way");
        routes.row(&name, count, &forwarded, |count| thrift(address, count, WINDOW));
        let mut controller = Controller::connect(grpc_server.local_addr(), &info);
        routes.row("P4Runtime, requests of 1 update", few, &forwarded, |count| controller.write(count, 1));
        routes.row("P4Runtime, requests of 100 updates", count, &forwarded, |count| {
            controller.write(count, 100)
        });
        stop.store(true, Ordering::Relaxed);
    });
    let lost = switch.drops();
    assert!(forwarded.load(Ordering::Relaxed) > 0, "packets went through: {lost:?} {:?}", switch.ports());
    grpc_server.stop();
    thrift_server.stop();
    server.stop().expect("no engine died");
}
