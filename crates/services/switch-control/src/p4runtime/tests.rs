//! A device over a switch whose ports are what the test says.

use super::device::{Device, lock};
use super::entity::*;
use super::message::*;
use super::target::{Pipeline, Target};
use crate::p4info::text;
use barewire_p4::ir::Program;
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const PROGRAM: &str = include_str!("../../tests/data/control.json");
const P4INFO: &str = include_str!("../../tests/data/control.p4info.txtpb");

/// Ports by number: whether they are up.
type Ups = Arc<Mutex<BTreeMap<u32, bool>>>;

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
            rx: nothing,
            tx: nothing,
            rx_dropped: 0,
            tx_dropped: 0,
        };
        lock(&self.ports).iter().map(info).collect()
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
    let mut program = barewire_p4::import::import(PROGRAM).unwrap();
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
    let config = SwitchConfig { sweep_interval: Duration::ZERO, ..SwitchConfig::default() };
    Switch::new(config, Some(Arc::clone(prepared))).unwrap()
}

#[test]
fn a_write_that_notices_a_port_first_changes_all_groups_that_watch_it() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports: Ups = Arc::new(Mutex::new(BTreeMap::from([(2, true), (3, true)])));
    let engine = Engine::attach(&switch, &ports);
    let pipeline = Arc::new(super::config::pipeline(config, Arc::clone(&prepared.program)).unwrap());
    let mut target = Target::new(switch.clone(), pipeline, switch.epoch());
    done(&mut target, vec![member(2), member(3), group(1, &[2, 3])]);
    assert_eq!(members(&switch, 1), [2, 3]);
    // The port goes down; before anybody is told another group that watches it is written.
    lock(&ports).insert(3, false);
    done(&mut target, vec![group(4, &[3])]);
    assert_eq!((members(&switch, 1), members(&switch, 4)), (vec![2], vec![]));
    target.port_changed(3, false);
    assert_eq!(members(&switch, 1), [2]);
    // The same when it comes up.
    lock(&ports).insert(3, true);
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
    let ports: Ups = Arc::new(Mutex::new(BTreeMap::from([(2, true), (3, true)])));
    let engine = Engine::attach(&switch, &ports);
    let device = Arc::new(Device::new(switch.clone(), 1, Some(config)).unwrap());
    let write = |updates| done(lock(&device.forwarding).live.as_mut().unwrap(), updates);
    write(vec![member(2), member(3), group(1, &[2, 3])]);
    let notifications = switch.subscribe(1);
    // Whoever has answered knows the subscriber.
    assert_eq!(switch.ports().len(), 2);
    let inbox = engine.stop();
    // There is room for one: the other gets lost.
    inbox.notify(Notification::Port { port: 9, up: false });
    lock(&ports).insert(3, false);
    inbox.notify(Notification::Port { port: 3, up: false });
    assert_eq!(switch.notifications_lost(), 1);
    drop(inbox);
    let engine = Engine::attach(&switch, &ports);
    let stop = Arc::new(AtomicBool::new(false));
    let passing = {
        let (device, stop) = (Arc::clone(&device), Arc::clone(&stop));
        std::thread::spawn(move || super::notify::run(&device, &notifications, 1, &stop))
    };
    for _ in 0..10_000 {
        if members(&switch, 1) == [2] {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(members(&switch, 1), [2]);
    stop.store(true, Ordering::Relaxed);
    passing.join().unwrap();
    engine.stop();
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
        let (messages, status) = device.read_at_most(&request, most).unwrap();
        (messages.iter().map(|message| message.entities.len()).sum::<usize>(), status)
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
