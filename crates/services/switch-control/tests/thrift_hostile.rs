//! Bytes that are no message, calls with any arguments, too many connections, silence: the server goes on.

mod rig;

use barewire_base::Prng;
use barewire_switch_control::thrift::codec::{
    Limits, Message, MessageType, Value, read_message, write_message,
};
use barewire_switch_control::thrift::schema::{Ty, wire_of};
use barewire_switch_control::thrift::services::{SERVICES, STANDARD};
use barewire_switch_control::thrift::{CallError, Calls, ServerOptions};
use rig::Rig;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn connect(rig: &Rig) -> TcpStream {
    let stream = TcpStream::connect(rig.thrift.local_addr()).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// The peer closed the connection: an end, or a reset.
fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_))
}

fn alive(rig: &Rig) {
    let entries =
        rig.client().call(&STANDARD, "bm_mt_get_num_entries", vec![Value::I32(0), Value::text("In.fixed")]);
    assert_eq!(entries.expect("the server goes on"), Value::I64(1));
}

#[test]
fn what_is_no_message_closes_its_connection_and_is_counted() {
    let rig = Rig::start();
    let hostile: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        // A name of 2 GB; a list of two billion; nesting without end; a message type that does not exist.
        &[0x80, 1, 0, 1, 0x7f, 0xff, 0xff, 0xff],
        &[0x80, 1, 0, 1, 0, 0, 0, 1, b'x', 0, 0, 0, 0, 15, 0, 1, 2, 0x7f, 0xff, 0xff, 0xff],
        &[0x80, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 1, 12, 0, 1, 12, 0, 1, 99, 0, 1],
        &[0x80, 1, 0, 9, 0, 0, 0, 0],
    ];
    for bytes in hostile {
        let mut stream = connect(&rig);
        stream.write_all(bytes).unwrap();
        assert!(is_closed(&mut stream), "{bytes:?}");
    }
    // Half a message, then nothing more.
    let mut stream = connect(&rig);
    stream.write_all(&[0x80, 1, 0, 1, 0, 0, 0, 9, b's']).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(is_closed(&mut stream));
    assert_eq!(rig.thrift.stats().malformed.load(Ordering::Relaxed), 7);
    // A connection that ends between messages is no offence.
    drop(connect(&rig));
    alive(&rig);
    assert_eq!(rig.thrift.stats().malformed.load(Ordering::Relaxed), 7);
    rig.stop();
}

#[test]
fn a_message_must_arrive_in_time_but_silence_between_messages_is_free() {
    let rig = Rig::with(ServerOptions { message_timeout_ms: 300, ..ServerOptions::default() });
    let mut idle = rig.client();
    let mut slow = connect(&rig);
    slow.write_all(&[0x80, 1]).unwrap();
    assert!(is_closed(&mut slow), "a message that does not end");
    // A byte now and then does not keep it open either.
    let mut trickle = connect(&rig);
    let mut sent = 0;
    while sent < 100 && trickle.write_all(&[*[0x80, 1, 0, 1].get(sent).unwrap_or(&0)]).is_ok() {
        sent += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(sent < 100, "closed while it trickled");
    let config = idle.call(&STANDARD, "bm_get_config", vec![]).expect("an idle connection stays");
    assert!(!config.bytes().is_empty());
    rig.stop();
}

#[test]
fn one_connection_too_many_is_closed_at_once() {
    let rig = Rig::with(ServerOptions { max_connections: 3, ..ServerOptions::default() });
    let mut held: Vec<_> = (0..3).map(|_| rig.client()).collect();
    for client in &mut held {
        client.call(&STANDARD, "bm_get_config_md5", vec![]).unwrap();
    }
    let refused = rig.client().call(&STANDARD, "bm_get_config_md5", vec![]);
    assert!(matches!(refused, Err(CallError::Connection(_))), "{refused:?}");
    assert!(rig.thrift.stats().refused.load(Ordering::Relaxed) >= 1);
    drop(held);
    // The places come back.
    let again = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        rig.client().call(&STANDARD, "bm_get_config_md5", vec![]).is_ok()
    });
    assert!(again);
    rig.stop();
}

#[test]
fn stopping_does_not_wait_for_clients() {
    let rig = Rig::start();
    let mut client = rig.client();
    client.call(&STANDARD, "bm_get_config_md5", vec![]).unwrap();
    rig.stop();
    assert!(client.call(&STANDARD, "bm_get_config_md5", vec![]).is_err());
}

/// A value of a type, or now and then of another one.
fn any(prng: &mut Prng, ty: Ty) -> Value {
    let names = [
        "In.exact", "In.route", "In.acl", "In.ecmp", "In.hops", "set_port", "In.reg", "In.rates", "calc16",
        "",
    ];
    if prng.chance(0.02) {
        return Value::Double(f64::NAN);
    }
    let mut number = || match prng.below(6) {
        0 => prng.next_u64() as i64,
        1 => -1,
        2 => i64::from(i32::MAX),
        _ => prng.below(5) as i64,
    };
    match ty {
        Ty::Void => Value::Struct(vec![]),
        Ty::Bool => Value::Bool(number() & 1 == 1),
        Ty::I16 => Value::I16(number() as i16),
        Ty::I32 => Value::I32(number() as i32),
        Ty::I64 => Value::I64(number()),
        Ty::Double => Value::Double(number() as f64 / 4.0),
        Ty::Text => Value::text(names[prng.below(names.len() as u64) as usize]),
        Ty::Bytes => {
            let length = [0, 1, 2, 4, 6, 16, 40][prng.below(7) as usize];
            Value::Bytes((0..length).map(|_| prng.next_u64() as u8).collect())
        }
        Ty::List(of) => Value::List(wire_of(*of), (0..prng.below(4)).map(|_| any(prng, *of)).collect()),
        Ty::Map(keys, values) => Value::Map(
            wire_of(*keys),
            wire_of(*values),
            (0..prng.below(3)).map(|_| (any(prng, *keys), any(prng, *values))).collect(),
        ),
        Ty::Struct(shape) => Value::Struct(
            shape
                .fields
                .iter()
                .filter_map(|field| {
                    let there = !field.optional || prng.chance(0.5);
                    if there { Some((field.id, any(prng, field.ty))) } else { None }
                })
                .collect(),
        ),
    }
}

/// Whether every item of every list has the type that its list declares: else the bytes mean something else.
fn is_uniform(value: &Value) -> bool {
    match value {
        Value::List(of, items) | Value::Set(of, items) => {
            items.iter().all(|item| item.wire_type() == *of && is_uniform(item))
        }
        Value::Map(keys, values, pairs) => pairs.iter().all(|(key, value)| {
            key.wire_type() == *keys && value.wire_type() == *values && is_uniform(key) && is_uniform(value)
        }),
        Value::Struct(fields) => fields.iter().all(|(_, value)| is_uniform(value)),
        _ => true,
    }
}

#[test]
fn every_method_with_any_arguments_is_answered() {
    let rig = Rig::start();
    let mut stream = connect(&rig);
    let seed = 0x7177;
    eprintln!("seed {seed:#x}");
    let mut prng = Prng::new(seed);
    let mut refused = 0;
    let mut done = 0;
    for round in 0..60 {
        for service in SERVICES {
            for method in service.methods() {
                // Ports would be opened in earnest.
                if method.name == "bm_dev_mgr_add_port" {
                    continue;
                }
                let fields: Vec<(i16, Value)> = method
                    .args
                    .iter()
                    .filter_map(|arg| {
                        let value = if arg.name == "cxt_id" { Value::I32(0) } else { any(&mut prng, arg.ty) };
                        (!prng.chance(0.02)).then_some((arg.id, value))
                    })
                    .collect();
                let body = Value::Struct(fields);
                if !is_uniform(&body) {
                    continue;
                }
                let name = format!("{}:{}", service.name, method.name);
                let message = Message { name: name.clone(), kind: MessageType::Call, sequence: round, body };
                let mut bytes = Vec::new();
                write_message(&mut bytes, &message);
                stream.write_all(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
                let reply = read_message(&mut stream, Limits::REPLY);
                let reply = reply.unwrap_or_else(|error| panic!("{message:?}: {error}"));
                assert_eq!((reply.name.as_str(), reply.sequence), (method.name, round));
                match reply.kind == MessageType::Exception || reply.body.field(1).is_some() {
                    true => refused += 1,
                    false => done += 1,
                }
            }
        }
    }
    assert!(refused > 500 && done > 500, "both outcomes were met: {refused} refused, {done} done");
    drop(stream);
    // The random calls may have cleared or swapped nothing: the program's own entry is there.
    alive(&rig);
    rig.stop();
}

#[test]
fn damaged_calls_never_stop_the_server() {
    let rig = Rig::start();
    let seed = 0xdead;
    eprintln!("seed {seed:#x}");
    let mut prng = Prng::new(seed);
    let body = Value::Struct(vec![
        (1, Value::I32(0)),
        (2, Value::text("In.exact")),
        (
            3,
            Value::structs(vec![Value::Struct(vec![
                (1, Value::I32(0)),
                (2, Value::Struct(vec![(1, Value::Bytes(vec![1; 4]))])),
            ])]),
        ),
        (4, Value::text("set_port")),
        (5, Value::List(11, vec![Value::Bytes(vec![3])])),
    ]);
    let mut whole = Vec::new();
    let message =
        Message { name: "standard:bm_mt_add_entry".into(), kind: MessageType::Call, sequence: 1, body };
    write_message(&mut whole, &message);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..=prng.below(3) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = prng.next_u64() as u8;
        }
        let mut stream = connect(&rig);
        // It may be closed under the writing.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    alive(&rig);
    rig.stop();
}
