//! Commands on the target: queues, mirror sessions, time.

use super::{Command, between, command, exactly};
use crate::cli::output::Answer;
use crate::cli::{CliError, Session, parse};
use crate::thrift::codec::Value;
use serde_json::{Value as Json, json};

fn number(word: &str, what: &str) -> Result<Value, CliError> {
    Ok(Value::I32(parse::int32(word, what)?))
}

/// A setting of all queues, of a port's, or of one: the wider the fewer words follow the value.
fn queue(session: &mut Session, words: &[&str], value: Value, what: &str) -> Result<Answer, CliError> {
    let target = session.target();
    let mut args = Vec::new();
    if let Some(port) = words.get(1) {
        args.push(number(port, "egress_port")?);
    }
    if let Some(priority) = words.get(2) {
        args.push(number(priority, "priority")?);
    }
    args.push(value);
    let method = match words.len() {
        1 => format!("set_all_egress_queue_{what}s"),
        2 => format!("set_egress_queue_{what}"),
        _ => format!("set_egress_priority_queue_{what}"),
    };
    session.call(target, &method, args)?;
    Ok(Answer::silent())
}

fn set_depth(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let depth = number(words[0], "nb_pkts")?;
    queue(session, words, depth, "depth")
}

fn set_rate(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let rate = Value::I64(parse::integer(words[0], "rate_pps")?);
    queue(session, words, rate, "rate")
}

fn mirroring_add(session: &mut Session, words: &[&str], id: i16, what: &str) -> Result<Answer, CliError> {
    let mirror = number(words[0], "mirror_id")?;
    let to = number(words[1], what)?;
    let target = session.target();
    session.call(target, "mirroring_session_add", vec![mirror, Value::Struct(vec![(id, to)])])?;
    Ok(Answer::silent())
}

fn mirroring_delete(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let mirror = number(words[0], "mirror_id")?;
    let target = session.target();
    session.call(target, "mirroring_session_delete", vec![mirror])?;
    Ok(Answer::silent())
}

fn mirroring_get(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let mirror = number(words[0], "mirror_id")?;
    let target = session.target();
    let config = session.call(target, "mirroring_session_get", vec![mirror])?;
    let part = |id| config.field(id).map(Value::int);
    let shown = |id| part(id).map_or("None".to_owned(), |value| value.to_string());
    Ok(Answer::line(
        format!("MirroringSessionConfig(port={}, mgid={})", shown(1), shown(2)),
        json!({"port": part(1), "group": part(2)}),
    ))
}

fn time(session: &mut Session, method: &str) -> Result<Answer, CliError> {
    let target = session.target();
    let time = session.call(target, method, vec![])?.int();
    Ok(Answer::line(time, Json::from(time)))
}

pub(super) const COMMANDS: &[Command] = &[
    command(
        "set_queue_depth",
        "PACKETS [PORT [PRIORITY]]",
        "how many packets egress queues hold",
        &[],
        between(1, 3),
        set_depth,
    ),
    command(
        "set_queue_rate",
        "PACKETS_PER_SECOND [PORT [PRIORITY]]",
        "how fast egress queues are emptied",
        &[],
        between(1, 3),
        set_rate,
    ),
    command(
        "mirroring_add",
        "SESSION PORT",
        "send a mirror session's clones to a port",
        &[],
        exactly(2),
        |session, words| mirroring_add(session, words, 1, "egress_port"),
    ),
    command(
        "mirroring_add_mc",
        "SESSION GROUP",
        "send a mirror session's clones to a multicast group",
        &[],
        exactly(2),
        |session, words| mirroring_add(session, words, 2, "mgrp"),
    ),
    command("mirroring_delete", "SESSION", "delete a mirror session", &[], exactly(1), mirroring_delete),
    command("mirroring_get", "SESSION", "show a mirror session", &[], exactly(1), mirroring_get),
    command(
        "get_time_elapsed",
        "",
        "microseconds since the switch started",
        &[],
        exactly(0),
        |session, _| time(session, "get_time_elapsed_us"),
    ),
    command("get_time_since_epoch", "", "microseconds since 1970", &[], exactly(0), |session, _| {
        time(session, "get_time_since_epoch_us")
    }),
];
