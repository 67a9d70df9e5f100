//! A device over a switch whose ports are what the test says.

mod bounds;
mod groups;
mod notifications;
mod swaps;

use super::device::{Device, lock};
use super::entity::*;
use super::message::*;
use super::notify::Dated;
use super::outbox::{Budget, Encoded};
use super::target::{Pipeline, Target};
use crate::p4info::text;
use barewire_p4::ir::{ActionCall, Program};
use barewire_p4::key::MatchParam;
use barewire_p4_state::ProgramState;
use barewire_switch::control::{
    ControlError, CounterValue, EngineInbox, MirrorSession, Notification, PortInfo, Replica as OfEngine,
    Switch, SwitchConfig,
};
use barewire_switch::learn::Learner;
use barewire_switch::pre::Pre;
use barewire_switch::prepared::{EngineKind, Prepared};
use prost::Message;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tonic::Code;

const PROGRAM: &str = include_str!("../../tests/data/control.json");
const P4INFO: &str = include_str!("../../tests/data/control.p4info.txtpb");

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the engine's ports are.
#[derive(Default)]
struct Bench {
    /// Ports by number: whether they are up.
    ups: Mutex<BTreeMap<u32, bool>>,
    /// What happens when the engine is asked about its ports.
    meanwhile: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

type Ups = Arc<Bench>;

/// Ports that are up.
fn ups(ports: &[u32]) -> Ups {
    Arc::new(Bench { ups: Mutex::new(ports.iter().map(|port| (*port, true)).collect()), ..Bench::default() })
}

#[derive(Default)]
struct Fake {
    state: Option<Box<ProgramState>>,
    pre: Pre,
    ports: Ups,
}

impl OfEngine for Fake {
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
    fn add_port(&mut self, _: u32, _: &str, _: Option<Box<dyn Any + Send>>) -> Result<(), ControlError> {
        Ok(())
    }
    fn remove_port(&mut self, _: u32) -> Result<Option<Box<dyn Any + Send>>, ControlError> {
        Ok(None)
    }
    fn ports(&mut self) -> Vec<PortInfo> {
        let nothing = CounterValue::default();
        let info = |(port, up): (&u32, &bool)| PortInfo {
            port: *port,
            uri: String::new(),
            name: String::new(),
            up: *up,
            note: String::new(),
            rx: nothing,
            tx: nothing,
            rx_dropped: 0,
            tx_dropped: 0,
        };
        if let Some(happens) = &mut *lock(&self.ports.meanwhile) {
            happens();
        }
        lock(&self.ports.ups).iter().map(info).collect()
    }
    fn inject(&mut self, _: Option<u32>, _: Vec<u8>) {}
    fn drops(&mut self, _: &mut dyn FnMut(&str, u64)) {}
}

/// A thread that answers for an engine.
struct Engine {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<EngineInbox>,
}

impl Engine {
    fn attach(switch: &Switch, ports: &Ups) -> Engine {
        let mut inbox = switch.attach(Box::new(|| {}));
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, ports) = (Arc::clone(&stop), Arc::clone(ports));
        let thread = std::thread::spawn(move || {
            let mut fake = Fake { ports, ..Fake::default() };
            while !stopped.load(Ordering::Relaxed) {
                if inbox.drain(&mut fake) == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            inbox
        });
        Engine { stop, thread }
    }

    fn stop(self) -> EngineInbox {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The program whose entries may be changed, after another change; and its P4Info.
fn made(change: impl FnOnce(&mut Program)) -> (Arc<Prepared>, ForwardingPipelineConfig) {
    let mut program = barewire_p4_formats::import::import(PROGRAM).unwrap();
    for table in &mut program.tables {
        if table.name == "IngressImpl.const_table" {
            (table.immutable, table.max_size) = (false, 64);
        }
    }
    change(&mut program);
    let mut info = text::parse(P4INFO).unwrap();
    for table in &mut info.tables {
        table.is_const_table = false;
    }
    let config = ForwardingPipelineConfig { p4info: Some(info), ..ForwardingPipelineConfig::default() };
    (Arc::new(Prepared::new(Arc::new(program), EngineKind::Interpreter).unwrap()), config)
}

fn id(alias: &str) -> u32 {
    let info = text::parse(P4INFO).unwrap();
    let tables = info.tables.iter().map(|o| &o.preamble);
    let all = tables
        .chain(info.actions.iter().map(|o| &o.preamble))
        .chain(info.action_profiles.iter().map(|o| &o.preamble));
    all.flatten().find(|preamble| preamble.alias == alias).unwrap().id
}

fn call(name: &str, args: &[u8]) -> Action {
    let param = |(value, param_id): (&u8, u32)| ActionParam { param_id, value: vec![*value] };
    Action { action_id: id(name), params: args.iter().zip(1..).map(param).collect() }
}

fn update(kind: UpdateType, entity: EntityKind) -> Update {
    Update { r#type: kind as i32, entity: Some(Entity { entity: Some(entity) }) }
}

fn member(member_id: u32) -> Update {
    let action = Some(call("forward", &[member_id as u8]));
    let member = ActionProfileMember { action_profile_id: id("ecmp"), member_id, action };
    update(UpdateType::Insert, EntityKind::ActionProfileMember(member))
}

/// A group of members that watch the ports of their numbers.
fn group(group_id: u32, members: &[u32]) -> Update {
    let member = |&member_id: &u32| GroupMember {
        member_id,
        weight: 1,
        watch_kind: Some(MemberWatch::WatchPort(vec![member_id as u8])),
    };
    let members = members.iter().map(member).collect();
    let group = ActionProfileGroup { action_profile_id: id("ecmp"), group_id, members, max_size: 4 };
    update(UpdateType::Insert, EntityKind::ActionProfileGroup(group))
}

fn done(target: &mut Target, updates: Vec<Update>) {
    for result in target.write(&updates, Atomicity::ContinueOnError) {
        result.unwrap();
    }
}

fn members(switch: &Switch, group: u32) -> Vec<u32> {
    let profile = switch.profile("IngressImpl.ecmp").unwrap();
    switch.group(profile, group).unwrap().members.iter().map(|(member, _)| *member).collect()
}

fn switch(prepared: &Arc<Prepared>) -> Switch {
    let config =
        SwitchConfig { sweep_interval: Duration::ZERO, answer_timeout: PATIENCE, ..SwitchConfig::default() };
    Switch::new(config, Some(Arc::clone(prepared))).unwrap()
}

#[test]
fn a_write_that_notices_a_port_first_changes_all_groups_that_watch_it() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let pipeline = Arc::new(super::config::pipeline(config, Arc::clone(&prepared.program)).unwrap());
    let mut target = Target::new(switch.clone(), pipeline, switch.epoch());
    done(&mut target, vec![member(2), member(3), group(1, &[2, 3])]);
    assert_eq!(members(&switch, 1), [2, 3]);
    // The port goes down; before anybody is told another group that watches it is written.
    lock(&ports.ups).insert(3, false);
    done(&mut target, vec![group(4, &[3])]);
    assert_eq!((members(&switch, 1), members(&switch, 4)), (vec![2], vec![]));
    target.port_changed(3, false);
    assert_eq!(members(&switch, 1), [2]);
    // The same when it comes up.
    lock(&ports.ups).insert(3, true);
    done(&mut target, vec![group(5, &[2, 3])]);
    for (at, expected) in [(1, vec![2, 3]), (4, vec![3]), (5, vec![2, 3])] {
        assert_eq!(members(&switch, at), expected, "group {at}");
    }
    target.port_changed(3, true);
    // A group that another control plane deletes is no reason to leave the others as they are.
    let profile = switch.profile("IngressImpl.ecmp").unwrap();
    switch.delete_group(profile, 1).unwrap();
    target.port_changed(3, false);
    assert_eq!((members(&switch, 4), members(&switch, 5)), (vec![], vec![2]));
    engine.stop();
}

#[test]
fn news_of_ports_that_got_lost_is_asked_for() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let device = Arc::new(Device::new(switch.clone(), 1, Some(config)).unwrap());
    let write = |updates| done(lock(&device.forwarding).live.as_mut().unwrap(), updates);
    write(vec![member(2), member(3), group(1, &[2, 3])]);
    let notifications = switch.subscribe_dated(1);
    // Whoever has answered knows the subscriber.
    assert_eq!(switch.ports().len(), 2);
    let inbox = engine.stop();
    // There is room for one: the other gets lost.
    inbox.notify(Notification::Port { port: 9, up: false });
    lock(&ports.ups).insert(3, false);
    inbox.notify(Notification::Port { port: 3, up: false });
    assert_eq!(switch.notifications_lost(), 1);
    drop(inbox);
    let engine = Engine::attach(&switch, &ports);
    let stop = Arc::new(AtomicBool::new(false));
    let passing = pass_on(&device, notifications, 1, &stop);
    for _ in 0..10_000 {
        if members(&switch, 1) == [2] {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(members(&switch, 1), [2]);
    stop.store(true, Ordering::Relaxed);
    passing.into_iter().for_each(|thread| thread.join().unwrap());
    engine.stop();
}

/// The threads that pass notifications on.
fn pass_on(
    device: &Arc<Device>,
    notifications: Receiver<Dated>,
    most: usize,
    stop: &Arc<AtomicBool>,
) -> [JoinHandle<()>; 2] {
    let (to, later) = super::notify::later(most);
    let (of, stopped) = (Arc::clone(device), Arc::clone(stop));
    let first = move || super::notify::pass_on(&of, &notifications, most, &to, &stopped);
    let (of, stopped) = (Arc::clone(device), Arc::clone(stop));
    let second = move || super::notify::pass_on_later(&of, &later, &stopped);
    [std::thread::spawn(first), std::thread::spawn(second)]
}

/// The entities of a read's messages.
fn decoded(messages: &[Encoded]) -> Vec<Entity> {
    let all = messages.iter().map(|message| ReadResponse::decode(message.bytes()).unwrap());
    all.flat_map(|message| message.entities).collect()
}

/// The entries of the table that has some from the program: EtherType, and what they do.
fn own_entries(target: &Target) -> Vec<(Vec<u8>, u32)> {
    let wanted = TableEntry { table_id: id("const_table"), ..TableEntry::default() };
    let mut found = Vec::new();
    let wanted = Entity { entity: Some(EntityKind::TableEntry(wanted)) };
    target
        .read(&wanted, &mut |entity| {
            let Some(EntityKind::TableEntry(entry)) = entity.entity else { panic!() };
            let Some(MatchValue::Ternary(key)) = &entry.r#match[0].field_match_type else { panic!() };
            let Some(TableAction { r#type: Some(ActionChoice::Action(action)) }) = entry.action else {
                panic!()
            };
            found.push((key.value.clone(), action.action_id));
        })
        .unwrap();
    found.sort();
    found
}

#[test]
fn reconciling_leaves_the_programs_own_entries_to_the_program_unless_they_were_changed() {
    let (cc, mpls) = (vec![0x88, 0xcc], vec![0x88, 0]);
    let (first, config) = made(|_| {});
    let (second, _) = made(|program| {
        let table = program.tables.iter_mut().find(|table| table.name == "IngressImpl.const_table").unwrap();
        let to_cpu = table.entries[0].call.clone();
        table.entries[1].call = to_cpu;
    });
    let switch = switch(&first);
    let engine = Engine::attach(&switch, &Ups::default());
    let device = Device::new(switch, 1, Some(config.clone())).unwrap();
    let reconcile = |prepared: &Arc<Prepared>| {
        let pipeline: Pipeline =
            super::config::pipeline(config.clone(), Arc::clone(&prepared.program)).unwrap();
        let mut forwarding = lock(&device.forwarding);
        device.reconcile(&mut forwarding, Arc::clone(prepared), Arc::new(pipeline)).unwrap();
        own_entries(forwarding.live.as_ref().unwrap())
    };
    let write = |updates| done(lock(&device.forwarding).live.as_mut().unwrap(), updates);
    let (to_cpu, nothing) = (id("to_cpu"), id("NoAction"));
    let written = |priority: i32, value: &[u8]| TableEntry {
        table_id: id("const_table"),
        priority,
        r#match: vec![FieldMatch {
            field_id: 1,
            field_match_type: Some(MatchValue::Ternary(TernaryMatch {
                value: value.to_vec(),
                mask: vec![0xff, 0xff],
            })),
        }],
        action: Some(TableAction { r#type: Some(ActionChoice::Action(call("NoAction", &[]))) }),
        ..TableEntry::default()
    };
    assert_eq!(reconcile(&second), [(mpls.clone(), to_cpu), (cc.clone(), to_cpu)]);
    // What a controller adds comes along.
    write(vec![update(UpdateType::Insert, EntityKind::TableEntry(written(7, &[0x12, 0x34])))]);
    let own = [(vec![0x12, 0x34], nothing)];
    let first_own = [(mpls.clone(), nothing), (cc.clone(), to_cpu)];
    assert_eq!(reconcile(&first), [&own[..], &first_own[..]].concat());
    // What it took away stays away.
    write(vec![update(UpdateType::Delete, EntityKind::TableEntry(written(2, &cc)))]);
    assert_eq!(reconcile(&second), [&own[..], &[(mpls.clone(), nothing)]].concat());
    engine.stop();
}

#[test]
fn a_read_is_answered_with_so_much_and_no_more() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let engine = Engine::attach(&switch, &Ups::default());
    let device = Device::new(switch, 1, Some(config)).unwrap();
    done(lock(&device.forwarding).live.as_mut().unwrap(), (2..40).map(member).collect());
    let all = Entity { entity: Some(EntityKind::ActionProfileMember(ActionProfileMember::default())) };
    let read = |patterns: usize, most| {
        let entities = vec![all.clone(); patterns];
        let request = ReadRequest { device_id: 1, entities, ..ReadRequest::default() };
        let (messages, status) = device.read_within(&request, &Budget::new(most)).unwrap();
        (decoded(&messages).len(), status)
    };
    let (one, status) = read(1, 1 << 20);
    assert!(one == 38 && status.is_ok());
    // A thousand times everything, from a few kilobytes.
    let (few, status) = read(1000, 500);
    assert!(few < one, "{few} entities");
    let details = RpcStatus::decode(status.unwrap_err().details()).unwrap().details;
    assert_eq!(details.len(), 1000, "each pattern is answered");
    engine.stop();
}

/// Members of the switch's profile that may be chosen now, and what is written for them.
fn group_of(group_id: u32, kind: UpdateType, members: &[u32]) -> Update {
    Update { r#type: kind as i32, ..group(group_id, members) }
}

fn failing() -> Update {
    group_of(99, UpdateType::Delete, &[])
}

#[test]
fn what_is_taken_back_goes_by_the_ports_of_now() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let pipeline = Arc::new(super::config::pipeline(config, Arc::clone(&prepared.program)).unwrap());
    let mut target = Target::new(switch.clone(), pipeline, switch.epoch());
    done(&mut target, vec![member(2), member(3), group(1, &[2, 3])]);
    let mut fails = |updates: Vec<Update>| {
        let results = target.write(&updates, Atomicity::RollbackOnError);
        assert!(results.iter().all(Result::is_err), "{results:?}");
        assert!(
            results.iter().all(|result| result.as_ref().unwrap_err().code != Code::Internal),
            "{results:?}"
        );
        assert!(switch.group(switch.profile("IngressImpl.ecmp").unwrap(), 4).is_err());
    };
    // The ports are looked at in the middle of the batch, and by nobody afterwards.
    let watching = || group(4, &[3]);
    for kind in [UpdateType::Delete, UpdateType::Modify] {
        for (up, there) in [(false, vec![2]), (true, vec![2, 3])] {
            lock(&ports.ups).insert(3, up);
            fails(vec![group_of(1, kind, &[]), watching(), failing()]);
            assert_eq!(members(&switch, 1), there, "{kind:?}, port 3 up: {up}");
        }
    }
    engine.stop();
}

fn entry_of(table: &str, key: FieldMatch, choice: ActionChoice) -> EntityKind {
    EntityKind::TableEntry(TableEntry {
        table_id: id(table),
        r#match: vec![key],
        action: Some(TableAction { r#type: Some(choice) }),
        ..TableEntry::default()
    })
}

fn exact(value: u8) -> FieldMatch {
    FieldMatch { field_id: 1, field_match_type: Some(MatchValue::Exact(ExactMatch { value: vec![value] })) }
}

/// Everything in a table with exact keys, as the last byte of the keys.
fn keys(switch: &Switch, table: &str) -> Vec<u8> {
    let entries = switch.entries(switch.table(table).unwrap()).unwrap();
    let last = |entry: barewire_switch::control::Entry| match &entry.key[0] {
        MatchParam::Exact(value) => value.to_bytes_be().pop().unwrap_or(0),
        other => panic!("{other:?}"),
    };
    let mut keys: Vec<u8> = entries.into_iter().map(last).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn what_another_control_plane_writes_while_a_program_is_reconciled_stays() {
    const TABLE: &str = "IngressImpl.exact_table";
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let device = Device::new(switch.clone(), 1, Some(config.clone())).unwrap();
    // The ports are asked for these when all has been read.
    done(
        lock(&device.forwarding).live.as_mut().unwrap(),
        vec![
            member(2),
            group(1, &[2]),
            update(
                UpdateType::Insert,
                entry_of("exact_table", exact(1), ActionChoice::Action(call("drop", &[]))),
            ),
        ],
    );
    let reconcile = || {
        let pipeline = super::config::pipeline(config.clone(), Arc::clone(&prepared.program)).unwrap();
        let mut forwarding = lock(&device.forwarding);
        device.reconcile(&mut forwarding, Arc::clone(&prepared), Arc::new(pipeline))
    };
    let table = switch.table(TABLE).unwrap();
    let drop_action = move |switch: &Switch| {
        let action = switch.action_of(table, "IngressImpl.drop").unwrap();
        barewire_switch::control::TableAction::Call(ActionCall { action, args: vec![] })
    };
    // An entry that comes and one that goes.
    let (theirs, mut once) = (switch.clone(), Some(()));
    *lock(&ports.meanwhile) = Some(Box::new(move || {
        if once.take().is_some() {
            let key = |value: u8| vec![MatchParam::Exact(value.into())];
            theirs.add_entry(table, key(7), 0, drop_action(&theirs)).unwrap();
            let gone = theirs.entry_by_key(table, &key(1), None).unwrap().handle;
            theirs.delete_entry(table, gone).unwrap();
        }
    }));
    reconcile().unwrap();
    assert_eq!(keys(&switch, TABLE), [7]);
    // A whole program: what is kept is what is written to that.
    let (theirs, other, mut once) = (switch.clone(), Arc::clone(&prepared), Some(()));
    *lock(&ports.meanwhile) = Some(Box::new(move || {
        if once.take().is_some() {
            theirs.commit_prepared(Arc::clone(&other)).unwrap();
            theirs.add_entry(table, vec![MatchParam::Exact(9_u8.into())], 0, drop_action(&theirs)).unwrap();
        }
    }));
    reconcile().unwrap();
    assert_eq!(keys(&switch, TABLE), [9]);
    // Who is overtaken again and again gives up, and undoes nothing.
    done(lock(&device.forwarding).live.as_mut().unwrap(), vec![member(2), group(1, &[2])]);
    let (theirs, mut next) = (switch.clone(), 10_u8);
    let count = Arc::new(AtomicU8::new(next));
    let counted = Arc::clone(&count);
    *lock(&ports.meanwhile) = Some(Box::new(move || {
        theirs.add_entry(table, vec![MatchParam::Exact(next.into())], 0, drop_action(&theirs)).unwrap();
        next += 1;
        counted.store(next, Ordering::Relaxed);
    }));
    let error = reconcile().unwrap_err();
    assert_eq!(error.code, Code::Aborted, "{error}");
    *lock(&ports.meanwhile) = None;
    let there: Vec<u8> = (9..count.load(Ordering::Relaxed)).collect();
    assert_eq!(keys(&switch, TABLE), there);
    engine.stop();
}

#[test]
fn what_another_control_plane_takes_away_may_come_again() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let device = Device::new(switch.clone(), 1, Some(config)).unwrap();
    let profile = switch.profile("IngressImpl.ecmp").unwrap();
    let write = |update: Update| {
        let mut forwarding = lock(&device.forwarding);
        forwarding.live.as_mut().unwrap().write(&[update], Atomicity::ContinueOnError).remove(0)
    };
    let code = |result: super::error::Result<()>| result.unwrap_err().code;
    let replication = |kind, entry| {
        let entry = PacketReplicationEngineEntry { r#type: Some(entry) };
        update(kind, EntityKind::PacketReplicationEngineEntry(entry))
    };
    let replicas = |ports: &[u32]| -> Vec<Replica> {
        let replica = |port: &u32| Replica { instance: 0, port_kind: Some(ReplicaPort::EgressPort(*port)) };
        ports.iter().map(replica).collect()
    };
    let session = |kind, ports: &[u32]| {
        let session = CloneSessionEntry { session_id: 7, replicas: replicas(ports), ..Default::default() };
        replication(kind, ReplicationEntry::CloneSessionEntry(session))
    };
    let multicast = |kind, ports: &[u32]| {
        let group =
            MulticastGroupEntry { multicast_group_id: 5, replicas: replicas(ports), metadata: vec![] };
        replication(kind, ReplicationEntry::MulticastGroupEntry(group))
    };
    let read = |wanted: EntityKind| {
        let forwarding = lock(&device.forwarding);
        let mut found = 0;
        let wanted = Entity { entity: Some(wanted) };
        forwarding.live.as_ref().unwrap().read(&wanted, &mut |_| found += 1).unwrap();
        found
    };
    use UpdateType::{Delete, Insert, Modify};
    write(member(2)).unwrap();
    write(member(3)).unwrap();

    // Groups.
    let taken = |by: &dyn Fn(), of: &dyn Fn(UpdateType) -> Update| {
        for (at, kind) in [Delete, Modify, Insert].into_iter().enumerate() {
            write(of(Insert)).unwrap();
            assert_eq!(code(write(of(Insert))), Code::AlreadyExists);
            by();
            let result = write(of(kind));
            match kind {
                Insert => result.unwrap(),
                _ => assert_eq!(code(result), Code::NotFound, "{at}"),
            }
        }
        write(of(Modify)).unwrap();
        write(of(Delete)).unwrap();
        assert_eq!(code(write(of(Delete))), Code::NotFound);
    };
    taken(&|| switch.delete_group(profile, 1).unwrap(), &|kind| group_of(1, kind, &[2, 3]));
    // Another group of the same number is not this one, whatever its members watch.
    write(group(1, &[2, 3])).unwrap();
    switch.delete_group(profile, 1).unwrap();
    switch.create_group_as(profile, 1, vec![(3, 1)], 0).unwrap();
    lock(&device.forwarding).live.as_mut().unwrap().port_changed(3, false);
    assert_eq!(members(&switch, 1), [3]);
    lock(&device.forwarding).live.as_mut().unwrap().port_changed(3, true);
    assert_eq!(members(&switch, 1), [3]);
    write(group_of(1, Delete, &[])).unwrap();

    // Multicast groups and clone sessions, of one port and of several.
    taken(&|| switch.mc_destroy(5).unwrap(), &|kind| multicast(kind, &[1, 2]));
    for ports in [&[1][..], &[1, 2]] {
        taken(&|| switch.delete_mirror(7).unwrap(), &|kind| session(kind, ports));
        assert!(switch.mc_dump().groups.is_empty() && switch.mirrors().is_empty());
    }
    write(session(Insert, &[1, 2])).unwrap();
    write(multicast(Insert, &[1, 2])).unwrap();
    let all = |entry| {
        EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(entry) })
    };
    let sessions = || read(all(ReplicationEntry::CloneSessionEntry(CloneSessionEntry::default())));
    let groups = || read(all(ReplicationEntry::MulticastGroupEntry(MulticastGroupEntry::default())));
    assert_eq!((sessions(), groups()), (1, 1));
    switch.delete_mirror(7).unwrap();
    switch.mc_destroy(5).unwrap();
    assert_eq!((sessions(), groups()), (0, 0));
    // The other way round: no session is left with a group that is nobody's.
    write(session(Insert, &[1])).unwrap();
    assert!(switch.mc_dump().groups.is_empty());
    write(session(Delete, &[])).unwrap();

    // Groups in place go with the last of their entries, and with what stood for them.
    write(group_of(99, Delete, &[])).unwrap_err();
    for at in [2, 3] {
        write(Update { r#type: Delete as i32, ..member(at) }).unwrap();
    }
    let choice =
        |port| ActionProfileAction { action: Some(call("forward", &[port])), weight: 1, watch_kind: None };
    let set = |ports: &[u8]| {
        let action_profile_actions = ports.iter().map(|port| choice(*port)).collect();
        ActionChoice::ActionProfileActionSet(ActionProfileActionSet { action_profile_actions })
    };
    let in_place = |key, ports: &[u8]| update(Insert, entry_of("select_table", exact(key), set(ports)));
    write(in_place(1, &[2, 3])).unwrap();
    write(in_place(2, &[2])).unwrap();
    let table = switch.table("IngressImpl.select_table").unwrap();
    let take = |at: usize| switch.delete_entry(table, switch.entries(table).unwrap()[at].handle).unwrap();
    take(0);
    assert_eq!(code(write(member(9))), Code::InvalidArgument, "one is left");
    take(0);
    write(member(9)).unwrap();
    assert_eq!((switch.members(profile).unwrap().len(), switch.groups(profile).unwrap().len()), (1, 0));
    assert_eq!(code(write(in_place(3, &[2]))), Code::InvalidArgument);
    write(Update { r#type: Delete as i32, ..member(9) }).unwrap();
    write(in_place(3, &[2])).unwrap();
    // The group may be taken away too, and its number be another's.
    let group = switch.groups(profile).unwrap()[0].handle;
    take(0);
    switch.delete_group(profile, group).unwrap();
    write(in_place(3, &[2, 3])).unwrap();
    assert_eq!(switch.groups(profile).unwrap()[0].handle, group);
    assert_eq!(switch.members(profile).unwrap().len(), 2);
    take(0);
    write(member(9)).unwrap();
    assert_eq!((switch.members(profile).unwrap().len(), switch.groups(profile).unwrap().len()), (1, 0));
    write(Update { r#type: Delete as i32, ..member(9) }).unwrap();
    write(in_place(3, &[2])).unwrap();
    // An entry that was changed to another group has that.
    let other = 77;
    let theirs = switch.members(profile).unwrap()[0].handle;
    switch.create_group_as(profile, other, vec![(theirs, 1)], 0).unwrap();
    let entry = switch.entries(table).unwrap().remove(0);
    switch.modify_entry(table, entry.handle, barewire_switch::control::TableAction::Group(other)).unwrap();
    switch.delete_entry(table, entry.handle).unwrap();
    write(member(9)).unwrap();
    engine.stop();
}

/// The priorities of the entries of the table that has some from the program, as P4Runtime counts them: EtherType, priority.
fn own_priorities(device: &Device) -> Vec<(Vec<u8>, i32)> {
    let wanted = TableEntry { table_id: id("const_table"), ..TableEntry::default() };
    let wanted = Entity { entity: Some(EntityKind::TableEntry(wanted)) };
    let request = ReadRequest { device_id: 1, entities: vec![wanted], ..ReadRequest::default() };
    let (messages, status) = device.read(&request).unwrap();
    status.unwrap();
    let mut found = Vec::new();
    for entity in decoded(&messages) {
        let Some(EntityKind::TableEntry(entry)) = entity.entity else { panic!() };
        let Some(MatchValue::Ternary(key)) = &entry.r#match[0].field_match_type else { panic!() };
        found.push((key.value.clone(), entry.priority));
    }
    found.sort();
    found
}

/// A program that another control plane swaps in has its own entries with its own priorities, which are better than any that a
/// controller can give: they are counted as those of a program that a controller pushes.
#[test]
fn entries_of_a_program_that_was_swapped_in_have_priorities_that_controllers_can_beat() {
    let (first, config) = made(|_| {});
    let (second, _) = made(|_| {});
    let switch = switch(&first);
    let engine = Engine::attach(&switch, &ups(&[]));
    let device = Device::new(switch.clone(), 1, Some(config)).unwrap();
    let pushed = own_priorities(&device);
    let store = |switch: &Switch| {
        let table = switch.table("IngressImpl.const_table").unwrap();
        let mut priorities: Vec<u32> =
            switch.entries(table).unwrap().iter().map(|entry| entry.priority).collect();
        priorities.sort_unstable();
        priorities
    };
    let normal = store(&switch);
    switch.commit_prepared(second).unwrap();
    assert_ne!(store(&switch), normal, "as the program says");
    assert_eq!(own_priorities(&device), pushed);
    assert_eq!(store(&switch), normal);
    assert!(pushed.iter().all(|(_, priority)| (1..=2).contains(priority)), "{pushed:?}");
    engine.stop();
}
