//! `simple_switch` and `psa_switch`: mirror sessions, queues, time.

use super::{done, method};
use crate::thrift::Context;
use crate::thrift::codec::Value;
use crate::thrift::errors::{Refusal, Throws};
use crate::thrift::schema::{Args, Field, Method, Ty, field};
use crate::thrift::types::MIRROR_SESSION;
use barewire_switch::control::{ErrorKind, MirrorSession};
use std::time::{SystemTime, UNIX_EPOCH};

const MIRROR: Field = field(1, "mirror_id", Ty::I32);
const PORT: Field = field(1, "port_num", Ty::I32);
const PRIORITY: Field = field(2, "priority", Ty::I32);

/// What the deprecated methods and the queues' methods answer with instead of an exception.
const OK: Value = Value::I32(0);

fn unsigned(args: &Args, at: usize, what: &str) -> Result<u64, Refusal> {
    u64::try_from(args.int(at)).map_err(|_| Refusal::other(format!("{what} {} is negative", args.int(at))))
}

fn number(args: &Args, at: usize, what: &str) -> Result<u32, Refusal> {
    Ok(unsigned(args, at, what)? as u32)
}

fn session_add(context: &Context, args: &Args) -> Result<Value, Refusal> {
    let part = |id: i16, what: &str| match args.get(1).field(id).map(Value::int) {
        None => Ok(None),
        Some(value) => match u32::try_from(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Refusal::other(format!("{what} {value} is negative"))),
        },
    };
    let session = MirrorSession {
        egress_port: part(1, "port")?,
        multicast_group: part(2, "multicast group")?,
        ..MirrorSession::default()
    };
    context.switch.set_mirror(number(args, 0, "mirror session")?, session)?;
    done()
}

fn session_delete(context: &Context, args: &Args) -> Result<Value, Refusal> {
    context.switch.delete_mirror(session_id(args)?)?;
    done()
}

fn session_get(context: &Context, args: &Args) -> Result<Value, Refusal> {
    let session = context.switch.mirror(session_id(args)?)?;
    let fields = [(1, session.egress_port), (2, session.multicast_group)];
    Ok(Value::Struct(
        fields.iter().filter_map(|(id, value)| value.map(|value| (*id, Value::I32(value as i32)))).collect(),
    ))
}

fn session_id(args: &Args) -> Result<u32, Refusal> {
    u32::try_from(args.int(0))
        .map_err(|_| Refusal::kind(ErrorKind::InvalidSession, format!("mirror session {}", args.int(0))))
}

fn depth(
    context: &Context,
    port: Option<u32>,
    priority: Option<u32>,
    packets: u64,
) -> Result<Value, Refusal> {
    context.switch.set_queue_depth(port, priority, packets as usize)?;
    Ok(OK)
}

fn rate(context: &Context, port: Option<u32>, priority: Option<u32>, pps: u64) -> Result<Value, Refusal> {
    context.switch.set_queue_rate(port, priority, pps)?;
    Ok(OK)
}

fn depth_of_port(c: &Context, a: &Args) -> Result<Value, Refusal> {
    depth(c, Some(number(a, 0, "port")?), None, unsigned(a, 1, "depth")?)
}

fn depth_of_all(c: &Context, a: &Args) -> Result<Value, Refusal> {
    depth(c, None, None, unsigned(a, 0, "depth")?)
}

fn rate_of_port(c: &Context, a: &Args) -> Result<Value, Refusal> {
    rate(c, Some(number(a, 0, "port")?), None, unsigned(a, 1, "rate")?)
}

fn rate_of_all(c: &Context, a: &Args) -> Result<Value, Refusal> {
    rate(c, None, None, unsigned(a, 0, "rate")?)
}

fn elapsed(context: &Context, _: &Args) -> Result<Value, Refusal> {
    Ok(Value::I64(context.switch.time_us() as i64))
}

#[allow(
    clippy::disallowed_methods,
    reason = "the caller asks for the time of day; no packet is handled by it"
)]
fn since_epoch(_: &Context, _: &Args) -> Result<Value, Refusal> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Value::I64(since.as_micros() as i64))
}

pub(super) static SIMPLE_SWITCH: &[Method] = &[
    method(
        "mirroring_mapping_add",
        &[MIRROR, field(2, "egress_port", Ty::I32)],
        Ty::I32,
        Throws::Nothing,
        |c, a| {
            let session =
                MirrorSession { egress_port: Some(number(a, 1, "port")?), ..MirrorSession::default() };
            c.switch.set_mirror(number(a, 0, "mirror session")?, session)?;
            // bmv2 gives true here, and a number in the next two.
            Ok(Value::I32(1))
        },
    ),
    method("mirroring_mapping_delete", &[MIRROR], Ty::I32, Throws::Nothing, |c, a| {
        Ok(Value::I32(i32::from(c.switch.delete_mirror(session_id(a)?).is_ok())))
    }),
    method("mirroring_mapping_get_egress_port", &[MIRROR], Ty::I32, Throws::Nothing, |c, a| {
        let session = c.switch.mirror(session_id(a)?).ok();
        Ok(Value::I32(session.and_then(|session| session.egress_port).map_or(-1, |port| port as i32)))
    }),
    method(
        "mirroring_session_add",
        &[MIRROR, field(2, "config", Ty::Struct(&MIRROR_SESSION))],
        Ty::Void,
        Throws::Mirroring,
        session_add,
    ),
    method("mirroring_session_delete", &[MIRROR], Ty::Void, Throws::Mirroring, session_delete),
    method("mirroring_session_get", &[MIRROR], Ty::Struct(&MIRROR_SESSION), Throws::Mirroring, session_get),
    method(
        "set_egress_priority_queue_depth",
        &[PORT, PRIORITY, field(3, "depth_pkts", Ty::I32)],
        Ty::I32,
        Throws::Nothing,
        |c, a| {
            depth(c, Some(number(a, 0, "port")?), Some(number(a, 1, "priority")?), unsigned(a, 2, "depth")?)
        },
    ),
    method(
        "set_egress_queue_depth",
        &[PORT, field(2, "depth_pkts", Ty::I32)],
        Ty::I32,
        Throws::Nothing,
        depth_of_port,
    ),
    method(
        "set_all_egress_queue_depths",
        &[field(1, "depth_pkts", Ty::I32)],
        Ty::I32,
        Throws::Nothing,
        depth_of_all,
    ),
    method(
        "set_egress_priority_queue_rate",
        &[PORT, PRIORITY, field(3, "rate_pps", Ty::I64)],
        Ty::I32,
        Throws::Nothing,
        |c, a| rate(c, Some(number(a, 0, "port")?), Some(number(a, 1, "priority")?), unsigned(a, 2, "rate")?),
    ),
    method(
        "set_egress_queue_rate",
        &[PORT, field(2, "rate_pps", Ty::I64)],
        Ty::I32,
        Throws::Nothing,
        rate_of_port,
    ),
    method(
        "set_all_egress_queue_rates",
        &[field(1, "rate_pps", Ty::I64)],
        Ty::I32,
        Throws::Nothing,
        rate_of_all,
    ),
    method("get_time_elapsed_us", &[], Ty::I64, Throws::Nothing, elapsed),
    method("get_time_since_epoch_us", &[], Ty::I64, Throws::Nothing, since_epoch),
];

pub(super) static PSA_SWITCH: &[Method] = &[
    method(
        "mirroring_session_add",
        &[MIRROR, field(2, "config", Ty::Struct(&MIRROR_SESSION))],
        Ty::Void,
        Throws::Mirroring,
        session_add,
    ),
    method("mirroring_session_delete", &[MIRROR], Ty::Void, Throws::Mirroring, session_delete),
    method("mirroring_session_get", &[MIRROR], Ty::Struct(&MIRROR_SESSION), Throws::Mirroring, session_get),
    method(
        "set_egress_queue_depth",
        &[PORT, field(2, "depth_pkts", Ty::I32)],
        Ty::I32,
        Throws::Nothing,
        depth_of_port,
    ),
    method(
        "set_all_egress_queue_depths",
        &[field(1, "depth_pkts", Ty::I32)],
        Ty::I32,
        Throws::Nothing,
        depth_of_all,
    ),
    method(
        "set_egress_queue_rate",
        &[PORT, field(2, "rate_pps", Ty::I64)],
        Ty::I32,
        Throws::Nothing,
        rate_of_port,
    ),
    method(
        "set_all_egress_queue_rates",
        &[field(1, "rate_pps", Ty::I64)],
        Ty::I32,
        Throws::Nothing,
        rate_of_all,
    ),
    method("get_time_elapsed_us", &[], Ty::I64, Throws::Nothing, elapsed),
    method("get_time_since_epoch_us", &[], Ty::I64, Throws::Nothing, since_epoch),
];
