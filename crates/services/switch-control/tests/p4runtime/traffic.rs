//! Packets: what entries do to them, packets to and from the controller, digests, idle entries.

use crate::rig::*;
use UpdateType::{Delete, Insert, Modify};
use barewire_switch_control::p4runtime::data::{P4Data, P4DataKind, P4StructLike};
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use std::time::Duration;
use tonic::Code;

const SHORT: Duration = Duration::from_millis(300);

fn table(entry: TableEntry) -> EntityKind {
    EntityKind::TableEntry(entry)
}

#[test]
fn entries_forward_and_what_packets_change_is_read() {
    let (rig, controller) = Rig::start_with_ports(3);
    let (mut one, mut two, mut three) = (rig.wire(1), rig.wire(2), rig.wire(3));
    let exact_entry = rig.entry("exact_table", vec![(1, exact(0x0200_0000_0001))], "counted_forward", &[2]);
    controller.done(Insert, table(exact_entry.clone()));
    let packet = frame(0x0200_0000_0001, 0x0200_0000_0099, 0x1234);
    for _ in 0..5 {
        one.send(&packet);
    }
    assert_eq!(two.receive(5, PATIENCE), vec![packet.clone(); 5]);
    let counter = DirectCounterEntry {
        table_entry: Some(TableEntry { action: None, ..exact_entry.clone() }),
        data: None,
    };
    let EntityKind::DirectCounterEntry(read) = controller.one(EntityKind::DirectCounterEntry(counter)) else {
        panic!()
    };
    assert_eq!(read.data, Some(CounterData { packet_count: 5, byte_count: 300 }));
    let index = Some(Index { index: 1 });
    let counter = CounterEntry { counter_id: rig.object("port_counter"), index, data: None };
    let EntityKind::CounterEntry(read) = controller.one(EntityKind::CounterEntry(counter)) else { panic!() };
    assert_eq!(read.data, Some(CounterData { packet_count: 5, byte_count: 300 }));
    let register = RegisterEntry { register_id: rig.object("seen"), index, data: None };
    let EntityKind::RegisterEntry(read) = controller.one(EntityKind::RegisterEntry(register)) else {
        panic!()
    };
    assert_eq!(read.data, Some(P4Data { data: Some(P4DataKind::Bitstring(vec![5])) }));
    // A register that is written, the program reads.
    let offset = |index, value: Vec<u8>| {
        let data = Some(P4Data { data: Some(P4DataKind::Bitstring(value)) });
        EntityKind::RegisterEntry(RegisterEntry {
            register_id: rig.object("offset"),
            index: Some(Index { index }),
            data,
        })
    };
    controller.done(Modify, offset(0, vec![0xf0]));
    one.send(&packet);
    assert_eq!(two.receive(1, PATIENCE).len(), 1);
    assert_eq!(controller.one(offset(1, vec![])), offset(1, vec![0xf1]));

    // Priorities: the larger wins. Range and optional.
    let ternary_with = |matches, priority, port| TableEntry {
        priority,
        ..rig.entry("ternary_table", matches, "forward", &[port])
    };
    controller.done(Insert, table(ternary_with(vec![(2, range(0x700, 0x8ff))], 10, 2)));
    controller.done(Insert, table(ternary_with(vec![(2, range(0x800, 0x8ff)), (3, optional(7))], 20, 3)));
    one.send(&frame(7, 1, 0x800));
    one.send(&frame(8, 1, 0x800));
    assert_eq!((three.receive(1, PATIENCE).len(), two.receive(1, PATIENCE).len()), (1, 1));

    // Multicast.
    let replica = |port: u64| Replica { instance: 1, port_kind: Some(ReplicaPort::Port(number(port))) };
    let group = MulticastGroupEntry {
        multicast_group_id: 9,
        replicas: vec![replica(2), replica(3)],
        metadata: vec![],
    };
    let group = Some(ReplicationEntry::MulticastGroupEntry(group));
    controller.done(
        Insert,
        EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: group }),
    );
    controller.done(
        Insert,
        table(rig.entry("lpm_table", vec![(1, lpm(0x0600_0000_0000, 8)), (2, exact(1))], "flood", &[9])),
    );
    one.send(&frame(0xff, 0x0611_2233_4455, 0x1111));
    assert_eq!((three.receive(1, PATIENCE).len(), two.receive(1, PATIENCE).len()), (1, 1));

    // A value set changes how packets are parsed, a profile's member what happens then.
    let profile = rig.object("vlan_actions");
    let member = ActionProfileMember {
        action_profile_id: profile,
        member_id: 5,
        action: Some(rig.call("forward", &[3])),
    };
    controller.done(Insert, EntityKind::ActionProfileMember(member));
    let to_member = TableAction { r#type: Some(ActionChoice::ActionProfileMemberId(5)) };
    let entry = TableEntry {
        action: Some(to_member),
        ..rig.entry("profile_table", vec![(1, exact(0xeee))], "drop", &[])
    };
    controller.done(Insert, table(entry));
    let tagged = frame(0x55, 0x66, 0x8100);
    one.send(&tagged);
    assert_eq!(three.receive(1, SHORT).len(), 0);
    let value =
        ValueSetMember { r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(exact(0x8100)) }] };
    let set = ValueSetEntry { value_set_id: rig.object("vlan_types"), members: vec![value] };
    controller.done(Modify, EntityKind::ValueSetEntry(set));
    one.send(&tagged);
    assert_eq!(three.receive(1, PATIENCE), [tagged]);
    controller.done(Delete, table(exact_entry));
    rig.stop();
}

#[test]
fn packets_go_to_the_controller_and_come_from_it() {
    let (rig, mut controller) = Rig::start_with_ports(2);
    let (mut one, mut two) = (rig.wire(1), rig.wire(2));
    controller.done(Insert, table(rig.entry("lpm_table", vec![(2, exact(2))], "to_cpu", &[])));
    let packet = frame(1, 2, 0x9999);
    two.send(&packet);
    let Some(StreamResponse::Packet(packet_in)) = controller.next().unwrap() else {
        panic!("a packet was expected")
    };
    assert_eq!(packet_in.payload, packet);
    let field = |metadata_id, value: u64| PacketMetadata { metadata_id, value: number(value) };
    assert_eq!(packet_in.metadata, [field(1, 2), field(2, 0)]);

    let out = |metadata: Vec<PacketMetadata>| {
        StreamRequest::Packet(PacketOut { payload: packet.clone(), metadata })
    };
    controller.send(out(vec![field(2, 0), field(1, 1)]));
    assert_eq!(one.receive(1, PATIENCE), [packet.clone()]);
    let wrong = [
        vec![field(1, 1)],
        vec![field(1, 512), field(2, 0)],
        vec![field(1, 1), field(2, 0), field(3, 0)],
        vec![field(1, 1), field(1, 1), field(2, 0)],
        vec![PacketMetadata { metadata_id: 1, value: vec![] }, field(2, 0)],
    ];
    for metadata in wrong {
        controller.send(out(metadata));
        let Some(StreamResponse::Error(error)) = controller.next().unwrap() else {
            panic!("an error was expected")
        };
        assert_eq!(error.canonical_code, Code::InvalidArgument as i32, "{error:?}");
        assert!(matches!(error.details, Some(StreamErrorDetails::PacketOut(_))));
    }
    let mut backup = rig.controller(0);
    backup.arbitrate();
    assert_eq!(backup.status(), Code::AlreadyExists as i32);
    backup.send(out(vec![field(2, 0), field(1, 1)]));
    let Some(StreamResponse::Error(error)) = backup.next().unwrap() else { panic!("an error was expected") };
    assert_eq!(error.canonical_code, Code::PermissionDenied as i32);
    assert_eq!(one.receive(1, SHORT).len(), 0);
    two.send(&packet);
    assert!(matches!(controller.next().unwrap(), Some(StreamResponse::Packet(_))));
    assert_eq!(backup.poll(SHORT), None);
    rig.stop();
}

/// More than may wait for the engines at one time.
#[test]
fn a_burst_of_packets_from_the_controller_is_not_refused() {
    let (rig, mut controller) = Rig::start();
    let field = |metadata_id, value: u64| PacketMetadata { metadata_id, value: number(value) };
    for at in 0..5_000_u64 {
        let metadata = vec![field(1, 1), field(2, 0)];
        controller.send(StreamRequest::Packet(PacketOut { payload: frame(1, at, 0x9999), metadata }));
    }
    // What comes behind them is answered when all of them have been taken.
    let ack = DigestListAck { digest_id: 99, list_id: 0 };
    controller.send(StreamRequest::DigestAck(ack));
    let Some(StreamResponse::Error(error)) = controller.next().unwrap() else { panic!("an error") };
    assert_eq!(
        error.details,
        Some(StreamErrorDetails::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) }))
    );
    let lost = &rig.grpc.as_ref().unwrap().lost().packets_out;
    assert_eq!(lost.load(std::sync::atomic::Ordering::Relaxed), 0);
    rig.stop();
}

#[test]
fn digests_are_learned_once_until_they_are_acknowledged() {
    let (rig, mut controller) = Rig::start_with_ports(1);
    let mut one = rig.wire(1);
    controller.done(Insert, table(rig.entry("learn_table", vec![(1, exact(0xa1))], "learn", &[])));
    controller.done(Insert, table(rig.entry("learn_table", vec![(1, exact(0xa2))], "learn", &[])));
    one.send(&frame(1, 0xa1, 0));
    // Learned and sent before anybody asks: nobody hears of it, and it may be learned again afterwards.
    assert_eq!(controller.poll(Duration::from_millis(1_300)), None);
    let digest_id = rig.object("learned_t");
    let limits =
        DigestConfig { max_timeout_ns: 100_000_000, max_list_size: 2, ack_timeout_ns: 60_000_000_000 };
    controller.done(Insert, EntityKind::DigestEntry(DigestEntry { digest_id, config: Some(limits) }));
    let sample = |src: u64| {
        let number = |value| P4Data { data: Some(P4DataKind::Bitstring(number(value))) };
        P4Data { data: Some(P4DataKind::Struct(P4StructLike { members: vec![number(src), number(1)] })) }
    };
    one.send(&frame(1, 0xa2, 0));
    one.send(&frame(1, 0xa2, 0));
    let list = loop {
        let Some(StreamResponse::Digest(list)) = controller.next().unwrap() else {
            panic!("a digest was expected")
        };
        assert_eq!(list.digest_id, digest_id);
        // The first packet's may have been sent late.
        if list.data.contains(&sample(0xa2)) {
            break list;
        }
    };
    assert!(list.timestamp > 1_700_000_000_000_000_000);
    one.send(&frame(1, 0xa2, 0));
    assert_eq!(controller.poll(SHORT), None);
    let ack = |digest_id, list_id| StreamRequest::DigestAck(DigestListAck { digest_id, list_id });
    controller.send(ack(digest_id, list.list_id));
    controller.send(ack(99, 0));
    let Some(StreamResponse::Error(error)) = controller.next().unwrap() else {
        panic!("an error was expected")
    };
    assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
    // After the error the acknowledgement before it has reached the switch; the engine takes it before the next packet.
    one.send(&frame(1, 0xa2, 0));
    let Some(StreamResponse::Digest(list)) = controller.next().unwrap() else {
        panic!("a digest was expected")
    };
    assert_eq!(list.data, [sample(0xa2)]);
    // Without waiting for acknowledgements each packet is news.
    let limits = DigestConfig { ack_timeout_ns: 0, max_list_size: 1, ..limits };
    controller.done(Modify, EntityKind::DigestEntry(DigestEntry { digest_id, config: Some(limits) }));
    controller.send(ack(digest_id, list.list_id));
    for _ in 0..2 {
        // The switch acknowledges a list after it has passed it on: until then the same data are no news.
        let until = barewire_engine::now().as_nanos() + PATIENCE.as_nanos() as u64;
        loop {
            one.send(&frame(1, 0xa1, 0));
            if matches!(controller.poll(SHORT), Some(StreamResponse::Digest(_))) {
                break;
            }
            assert!(barewire_engine::now().as_nanos() < until, "no digest came");
        }
    }
    controller.done(Delete, EntityKind::DigestEntry(DigestEntry { digest_id, config: None }));
    one.send(&frame(1, 0xa2, 0));
    // Packets that were sent more than once may have been learned more than once.
    while let Some(came) = controller.poll(SHORT) {
        let StreamResponse::Digest(list) = came else { panic!("{came:?}") };
        assert_eq!(list.data, [sample(0xa1)]);
    }
    rig.stop();
}

#[test]
fn idle_entries_are_reported_and_stay() {
    let (rig, mut controller) = Rig::start_with_ports(1);
    let entry = TableEntry {
        idle_timeout_ns: 400_000_000,
        controller_metadata: 11,
        ..rig.entry("exact_table", vec![(1, exact(0xbb))], "drop", &[])
    };
    controller.done(Insert, table(entry.clone()));
    let never = rig.entry("exact_table", vec![(1, exact(0xcc))], "drop", &[]);
    controller.done(Insert, table(never));
    let Some(StreamResponse::IdleTimeoutNotification(notice)) = controller.next().unwrap() else {
        panic!("a notice")
    };
    assert_eq!(notice.table_entry, [TableEntry { action: None, ..entry.clone() }]);
    assert!(notice.timestamp > 1_700_000_000_000_000_000);
    // Its timer starts anew; the other's goes on.
    let pattern = TableEntry {
        table_id: entry.table_id,
        time_since_last_hit: Some(IdleTimeout::default()),
        ..TableEntry::default()
    };
    let ages: Vec<i64> = controller
        .entries(pattern)
        .iter()
        .map(|entry| entry.time_since_last_hit.expect("asked for").elapsed_ns)
        .collect();
    assert!(ages.len() == 2 && ages.iter().any(|&ns| ns >= 400_000_000), "{ages:?}");
    assert!(matches!(controller.next().unwrap(), Some(StreamResponse::IdleTimeoutNotification(_))));
    let mut one = rig.wire(1);
    let one_entry =
        TableEntry { r#match: entry.r#match.clone(), table_id: entry.table_id, ..TableEntry::default() };
    let age = |controller: &Controller| {
        let pattern = TableEntry { time_since_last_hit: Some(IdleTimeout::default()), ..one_entry.clone() };
        controller.entries(pattern)[0].time_since_last_hit.unwrap().elapsed_ns
    };
    // A hit makes it young; who looks may look late.
    let until = barewire_engine::now().as_nanos() + PATIENCE.as_nanos() as u64;
    let mut hit = || {
        one.send(&frame(0xbb, 1, 0));
        std::thread::sleep(Duration::from_millis(2));
        age(&controller)
    };
    while hit() >= 300_000_000 {
        assert!(barewire_engine::now().as_nanos() < until, "no hit is seen");
    }
    let of_lpm = TableEntry { table_id: rig.table("lpm_table"), ..one_entry };
    let of_lpm = TableEntry { r#match: vec![], time_since_last_hit: Some(IdleTimeout::default()), ..of_lpm };
    assert_eq!(controller.client.read_refused(table(of_lpm)), Code::InvalidArgument as i32);
    rig.stop();
}
