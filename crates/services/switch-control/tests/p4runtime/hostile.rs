//! Messages that no honest client sends.

use crate::rig::*;
use barewire_base::Prng;
use barewire_switch_control::p4info::types::Any;
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use barewire_switch_control::p4runtime::{GrpcOptions, GrpcServer};
use prost::Message;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

/// Bytes as they are.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        tonic::codegen::Bytes::from(item)
            .as_ref()
            .iter()
            .for_each(|byte| prost::bytes::BufMut::put_u8(to, *byte));
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let len = prost::bytes::Buf::remaining(from);
        Ok(Some(prost::bytes::Buf::copy_to_bytes(from, len).to_vec()))
    }
}

const METHODS: [&str; 10] = [
    "/p4.v1.P4Runtime/Write",
    "/p4.v1.P4Runtime/Read",
    "/p4.v1.P4Runtime/SetForwardingPipelineConfig",
    "/p4.v1.P4Runtime/GetForwardingPipelineConfig",
    "/p4.v1.P4Runtime/StreamChannel",
    "/p4.v1.P4Runtime/Capabilities",
    "/p4.v1.P4Runtime/NoSuchMethod",
    "/gnmi.gNMI/Get",
    "/gnmi.gNMI/Subscribe",
    "/no.such.Service/Method",
];

fn post(rig: &Rig, client: &Client, path: &'static str, body: Vec<u8>) {
    let mut grpc = client.grpc.clone();
    rig.runtime.block_on(async move {
        grpc.ready().await.expect("the connection lives");
        let call = grpc.server_streaming(Request::new(body), PathAndQuery::from_static(path), Raw);
        if let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_millis(300), call).await {
            let mut stream = answer.into_inner();
            while let Ok(Ok(Some(_))) =
                tokio::time::timeout(Duration::from_millis(20), stream.message()).await
            {}
        }
    });
}

fn honest(rig: &Rig) -> Vec<Vec<u8>> {
    let entry = TableEntry {
        priority: 3,
        ..rig.entry(
            "ternary_table",
            vec![(1, ternary(0x1200, 0xff00)), (2, range(1, 2)), (3, optional(9))],
            "tag",
            &[1, 2],
        )
    };
    let write = WriteRequest {
        device_id: DEVICE,
        election_id: Some(Uint128 { high: 0, low: 1 }),
        updates: vec![update(UpdateType::Insert, EntityKind::TableEntry(entry.clone()))],
        ..WriteRequest::default()
    };
    let read = ReadRequest {
        device_id: DEVICE,
        entities: vec![entity(EntityKind::TableEntry(entry))],
        ..ReadRequest::default()
    };
    let arbitration = StreamRequest::Arbitration(MasterArbitrationUpdate {
        device_id: DEVICE,
        election_id: Some(Uint128 { high: 0, low: 1 }),
        ..MasterArbitrationUpdate::default()
    });
    vec![
        write.encode_to_vec(),
        read.encode_to_vec(),
        StreamMessageRequest { update: Some(arbitration) }.encode_to_vec(),
        // P4Info inside data inside data: deep nesting.
        [0x0a, 0x7f].repeat(200),
    ]
}

#[test]
fn bytes_that_are_no_messages_are_refused_and_the_server_goes_on() {
    let (rig, controller) = Rig::start();
    let client = rig.client();
    let samples = honest(&rig);
    let seed = 0xbad;
    eprintln!("seed {seed}");
    let mut random = Prng::new(seed);
    for _ in 0..400 {
        let mut body = samples[random.below(samples.len() as u64) as usize].clone();
        match random.below(3) {
            0 => {
                body = vec![0; random.below(200) as usize];
                random.fill(&mut body);
            }
            1 => body.truncate(random.below(body.len() as u64 + 1) as usize),
            _ => {
                for _ in 0..1 + random.below(4) {
                    let at = random.below(body.len() as u64) as usize;
                    body[at] = random.next_u64() as u8;
                }
            }
        }
        post(&rig, &client, METHODS[random.below(METHODS.len() as u64) as usize], body);
    }
    assert_eq!(client.capabilities(), "1.4.1");
    controller.done(
        UpdateType::Insert,
        EntityKind::TableEntry(rig.entry("exact_table", vec![(1, exact(0x7777))], "drop", &[])),
    );
    rig.stop();
}

#[test]
fn entities_of_random_numbers_are_refused_or_done_but_never_torn() {
    let (rig, controller) = Rig::start();
    let seed = 0xf00d;
    eprintln!("seed {seed}");
    let mut random = Prng::new(seed);
    let tables: Vec<u32> = rig.info.tables.iter().map(|t| t.preamble.as_ref().unwrap().id).collect();
    let actions: Vec<u32> = rig.info.actions.iter().map(|a| a.preamble.as_ref().unwrap().id).collect();
    let objects: Vec<u32> =
        ["ecmp", "vlan_actions", "port_counter", "port_meter", "seen", "learned_t", "vlan_types"]
            .map(|o| rig.object(o))
            .to_vec();
    for _ in 0..3_000 {
        let number = |random: &mut Prng| match random.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << 31,
            3 => random.below(600),
            4 => random.below(8),
            _ => random.next_u64(),
        };
        let raw = |random: &mut Prng| {
            let most = if random.chance(0.01) { 5_000 } else { 8 };
            let mut value = vec![0; random.below(most) as usize];
            random.fill(&mut value);
            if random.chance(0.5) {
                value.iter_mut().take(4).for_each(|byte| *byte = 0);
            }
            value
        };
        let id = |random: &mut Prng, known: &[u32]| {
            if random.chance(0.1) {
                random.next_u64() as u32
            } else {
                known[random.below(known.len() as u64) as usize]
            }
        };
        let action = |random: &mut Prng| Action {
            action_id: id(random, &actions),
            params: (0..random.below(3))
                .map(|n| ActionParam { param_id: 1 + n as u32, value: raw(random) })
                .collect(),
        };
        let entry = |random: &mut Prng| TableEntry {
            table_id: id(random, &tables),
            r#match: (0..random.below(4))
                .map(|n| FieldMatch {
                    field_id: 1 + n as u32,
                    field_match_type: Some(match random.below(5) {
                        0 => MatchValue::Exact(ExactMatch { value: raw(random) }),
                        1 => MatchValue::Lpm(LpmMatch {
                            value: raw(random),
                            prefix_len: number(random) as i32,
                        }),
                        2 => MatchValue::Ternary(TernaryMatch { value: raw(random), mask: raw(random) }),
                        3 => MatchValue::Range(RangeMatch { low: raw(random), high: raw(random) }),
                        _ => MatchValue::Optional(OptionalMatch { value: raw(random) }),
                    }),
                })
                .collect(),
            action: Some(TableAction {
                r#type: Some(match random.below(4) {
                    0 | 1 => ActionChoice::Action(action(random)),
                    2 => ActionChoice::ActionProfileMemberId(number(random) as u32),
                    _ => ActionChoice::ActionProfileActionSet(ActionProfileActionSet {
                        action_profile_actions: (0..random.below(3))
                            .map(|_| ActionProfileAction {
                                action: Some(action(random)),
                                weight: number(random) as i32,
                                watch_kind: random.chance(0.1).then(|| ActionWatch::WatchPort(raw(random))),
                            })
                            .collect(),
                    }),
                }),
            }),
            priority: number(random) as i32,
            idle_timeout_ns: if random.chance(0.1) { number(random) as i64 } else { 0 },
            is_default_action: random.chance(0.1),
            ..TableEntry::default()
        };
        let index = |random: &mut Prng| random.chance(0.9).then(|| Index { index: number(random) as i64 });
        let kind = match random.below(8) {
            0..=2 => EntityKind::TableEntry(entry(&mut random)),
            3 => EntityKind::ActionProfileMember(ActionProfileMember {
                action_profile_id: id(&mut random, &objects),
                member_id: number(&mut random) as u32,
                action: Some(action(&mut random)),
            }),
            4 => EntityKind::ActionProfileGroup(ActionProfileGroup {
                action_profile_id: id(&mut random, &objects),
                group_id: number(&mut random) as u32,
                members: (0..random.below(3))
                    .map(|_| GroupMember {
                        member_id: number(&mut random) as u32,
                        weight: number(&mut random) as i32,
                        watch_kind: None,
                    })
                    .collect(),
                max_size: number(&mut random) as i32,
            }),
            5 => EntityKind::CounterEntry(CounterEntry {
                counter_id: id(&mut random, &objects),
                index: index(&mut random),
                data: Some(CounterData {
                    byte_count: number(&mut random) as i64,
                    packet_count: number(&mut random) as i64,
                }),
            }),
            6 => EntityKind::MeterEntry(MeterEntry {
                meter_id: id(&mut random, &objects),
                index: index(&mut random),
                config: Some(MeterConfig {
                    cir: number(&mut random) as i64,
                    cburst: number(&mut random) as i64,
                    pir: number(&mut random) as i64,
                    pburst: number(&mut random) as i64,
                    eburst: 0,
                }),
                counter_data: None,
            }),
            _ => EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                r#type: Some(ReplicationEntry::MulticastGroupEntry(MulticastGroupEntry {
                    multicast_group_id: number(&mut random) as u32,
                    replicas: (0..random.below(4))
                        .map(|_| Replica {
                            instance: number(&mut random) as u32,
                            port_kind: Some(ReplicaPort::EgressPort(number(&mut random) as u32)),
                        })
                        .collect(),
                    metadata: vec![],
                })),
            }),
        };
        let update_kind =
            [UpdateType::Insert, UpdateType::Modify, UpdateType::Delete][random.below(3) as usize];
        let atomicity = [Atomicity::ContinueOnError, Atomicity::RollbackOnError][random.below(2) as usize];
        let _ = controller.write_batch(vec![update(update_kind, kind.clone())], atomicity);
        if random.chance(0.1) {
            let _ = controller.client.read(kind);
        }
    }
    // All that is there can be read, and taken away again: nothing is half there.
    let read = |wanted| controller.client.read(wanted).unwrap();
    for entry in read(EntityKind::TableEntry(TableEntry::default())) {
        if let EntityKind::TableEntry(entry) = &entry
            && !entry.is_const
        {
            controller.done(UpdateType::Delete, EntityKind::TableEntry(entry.clone()));
        }
    }
    for group in read(EntityKind::ActionProfileGroup(ActionProfileGroup::default())) {
        controller.done(UpdateType::Delete, group);
    }
    for member in read(EntityKind::ActionProfileMember(ActionProfileMember::default())) {
        controller.done(UpdateType::Delete, member);
    }
    let profile = rig.switch().profile("IngressImpl.ecmp").unwrap();
    assert!(
        rig.switch().members(profile).unwrap().is_empty() && rig.switch().groups(profile).unwrap().is_empty()
    );
    rig.stop();
}

#[test]
fn connections_that_speak_nothing_or_garbage_do_no_harm() {
    let (rig, controller) = Rig::start();
    let address = rig.grpc.as_ref().unwrap().local_addr();
    let mut random = Prng::new(5);
    let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for round in 0..30 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut bytes =
            if round % 2 == 0 { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec() } else { Vec::new() };
        let mut noise = [0; 100];
        random.fill(&mut noise);
        bytes.extend_from_slice(&noise);
        let _ = stream.write_all(&bytes);
        let _ = stream.read(&mut [0; 256]);
    }
    controller.done(
        UpdateType::Insert,
        EntityKind::TableEntry(rig.entry("exact_table", vec![(1, exact(1))], "drop", &[])),
    );
    drop(idle);
    rig.stop();
}

/// A controller that sends long messages and does not read must not be able to pile them up.
#[test]
fn long_messages_that_are_refused_do_not_come_back_whole() {
    let (rig, mut controller) = Rig::start();
    let mut error_of = |sent| {
        controller.send(sent);
        let Some(StreamResponse::Error(error)) = controller.next().unwrap() else { panic!("an error") };
        assert!(error.encoded_len() < 4096, "{} bytes come back", error.encoded_len());
        error.canonical_code
    };
    let value = vec![7; 3 << 20];
    let other = Any { type_url: "x/y".into(), value: value.clone() };
    assert_eq!(error_of(StreamRequest::Other(other)), Code::Unimplemented as i32);
    let packet = PacketOut { payload: value, metadata: vec![] };
    assert_eq!(error_of(StreamRequest::Packet(packet)), Code::InvalidArgument as i32);
    let metadata = vec![PacketMetadata { metadata_id: 1, value: vec![0; 5_000] }];
    let packet = PacketOut { payload: vec![7; 60], metadata };
    assert_eq!(error_of(StreamRequest::Packet(packet)), Code::InvalidArgument as i32);
    rig.stop();
}

/// Requests of a few megabytes that take a thousand times as much.
#[test]
fn a_read_has_so_many_patterns() {
    let (rig, controller) = Rig::start();
    let read = |patterns: usize| {
        let wanted = entity(EntityKind::DigestEntry(DigestEntry::default()));
        let request =
            ReadRequest { device_id: DEVICE, entities: vec![wanted; patterns], ..Default::default() };
        controller.client.read_request(request).1.map_err(|status| status.code())
    };
    assert!(read(65_536).is_ok());
    assert_eq!(read(65_537), Err(Code::InvalidArgument));
    assert_eq!(read(1_000_000), Err(Code::InvalidArgument));
    rig.stop();
}

#[test]
fn one_connection_too_many_is_closed_and_the_others_go_on() {
    let (rig, _controller) = Rig::start();
    let options = GrpcOptions { device_id: DEVICE, max_connections: 2, ..GrpcOptions::default() };
    let server = GrpcServer::start("127.0.0.1:0".parse().unwrap(), rig.switch().clone(), options)
        .expect("a free port");
    let connect = || TcpStream::connect(server.local_addr()).unwrap();
    let two = [connect(), connect()];
    let mut third = connect();
    third.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(third.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert_eq!(server.lost().connections.load(std::sync::atomic::Ordering::Relaxed), 1);
    drop(two);
    // Their places are free when the server has seen that they are gone.
    let until = barewire_engine::now().as_nanos() + PATIENCE.as_nanos() as u64;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    loop {
        let mut stream = connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(preface);
        if matches!(stream.read(&mut [0; 64]), Ok(1..)) {
            break;
        }
        assert!(barewire_engine::now().as_nanos() < until, "nobody is let in");
        std::thread::sleep(Duration::from_millis(1));
    }
    server.stop();
    rig.stop();
}

#[test]
fn a_controller_that_does_not_read_loses_packets_and_nobody_else_does() {
    let (rig, slow) = Rig::start_with_ports(1);
    let mut one = rig.wire(1);
    slow.done(
        UpdateType::Insert,
        EntityKind::TableEntry(rig.entry("lpm_table", vec![(2, exact(1))], "to_cpu", &[])),
    );
    let packet = frame(1, 2, 3);
    let mut longest = packet.clone();
    longest.resize(1400, 1);
    let lost = || rig.grpc.as_ref().unwrap().lost().packets_in.load(std::sync::atomic::Ordering::Relaxed);
    for _ in 0..40_000 {
        one.send(&longest);
        if lost() > 0 {
            break;
        }
    }
    assert!(lost() > 0, "the queue to a controller that does not read is not bounded");
    // Another that takes over hears of it at once, and gets packets.
    let mut fast = rig.controller(9);
    fast.become_primary();
    one.send(&packet);
    loop {
        match fast.next().unwrap() {
            Some(StreamResponse::Packet(got)) if got.payload == packet => break,
            Some(_) => {}
            None => panic!("the stream ended"),
        }
    }
    rig.stop();
}
