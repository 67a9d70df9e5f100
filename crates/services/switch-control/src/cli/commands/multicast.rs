//! Commands on replication.

use super::{CXT, Command, at_least, command, exactly, text};
use crate::cli::output::{Answer, Lines};
use crate::cli::{CliError, Session, parse};
use crate::thrift::codec::Value;
use serde_json::{Value as Json, json};

fn number(word: &str, what: &str) -> Result<Value, CliError> {
    Ok(Value::I32(parse::int32(word, what)?))
}

fn group_create(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let group = number(words[0], "multicast group")?;
    session.announce(format!("Creating multicast group {}", group.int()));
    session.multicast("bm_mc_mgrp_create", vec![CXT, group.clone()])?;
    Ok(Answer { json: json!({"group": group.int()}), ..Answer::silent() })
}

fn group_destroy(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let group = number(words[0], "multicast group")?;
    session.announce(format!("Destroying multicast group {}", group.int()));
    session.multicast("bm_mc_mgrp_destroy", vec![CXT, group.clone()])?;
    Ok(Answer { json: json!({"group": group.int()}), ..Answer::silent() })
}

/// Ports, and LAGs after a bar, as the two strings that travel.
fn ports_and_lags(words: &[&str]) -> Result<(String, String), CliError> {
    let (ports, lags) = match words.iter().position(|word| *word == "|") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    Ok((parse::number_map(ports, "port")?, parse::number_map(lags, "lag")?))
}

fn node_create(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let rid = number(words[0], "rid")?;
    let (ports, lags) = ports_and_lags(&words[1..])?;
    session.announce(format!("Creating node with rid {} , port map {ports} and lag map {lags}", rid.int()));
    let node = session.multicast("bm_mc_node_create", vec![CXT, rid, text(&ports), text(&lags)])?.int();
    Ok(Answer::line(format!("node was created with handle {node}"), json!({"node": node})))
}

fn node_update(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let node = number(words[0], "node handle")?;
    let (ports, lags) = ports_and_lags(&words[1..])?;
    session.announce(format!("Updating node {} with port map {ports} and lag map {lags}", node.int()));
    session.multicast("bm_mc_node_update", vec![CXT, node.clone(), text(&ports), text(&lags)])?;
    Ok(Answer { json: json!({"node": node.int()}), ..Answer::silent() })
}

fn associate(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (group, node) = (number(words[0], "multicast group")?, number(words[1], "node handle")?);
    session.announce(format!("Associating node {} to multicast group {}", node.int(), group.int()));
    session.multicast("bm_mc_node_associate", vec![CXT, group.clone(), node.clone()])?;
    Ok(Answer { json: json!({"group": group.int(), "node": node.int()}), ..Answer::silent() })
}

fn dissociate(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (group, node) = (number(words[0], "multicast group")?, number(words[1], "node handle")?);
    session.announce(format!("Dissociating node {} from multicast group {}", node.int(), group.int()));
    session.multicast("bm_mc_node_dissociate", vec![CXT, group.clone(), node.clone()])?;
    Ok(Answer { json: json!({"group": group.int(), "node": node.int()}), ..Answer::silent() })
}

fn node_destroy(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let node = number(words[0], "node handle")?;
    session.announce(format!("Destroying node {}", node.int()));
    session.multicast("bm_mc_node_destroy", vec![CXT, node.clone()])?;
    Ok(Answer { json: json!({"node": node.int()}), ..Answer::silent() })
}

fn set_lag(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let lag = parse::integer(words[0], "lag index")?;
    let index =
        i16::try_from(lag).map_err(|_| CliError::Input(format!("lag index {lag} has more than 16 bits")))?;
    let ports = parse::number_map(&words[1..], "port")?;
    session.announce(format!("Setting lag membership: {lag} <- {ports}"));
    session.multicast("bm_mc_set_lag_membership", vec![CXT, Value::I16(index), text(&ports)])?;
    Ok(Answer { json: json!({"lag": lag}), ..Answer::silent() })
}

fn dump(session: &mut Session, _: &[&str]) -> Result<Answer, CliError> {
    let dump = session.multicast("bm_mc_get_entries", vec![CXT])?.lossy();
    let all: Json = serde_json::from_str(&dump)
        .map_err(|error| CliError::Input(format!("the switch's multicast entries are not JSON: {error}")))?;
    let of = |part: &Json, key: &str| part[key].as_array().cloned().unwrap_or_default();
    let joined =
        |part: &Json, key: &str| of(part, key).iter().map(Json::to_string).collect::<Vec<_>>().join(", ");
    let by_handle =
        |kind: &str, handle: &Json| of(&all, kind).into_iter().find(|node| &node["handle"] == handle);
    let mut lines = Lines::default();
    lines.say("==========");
    lines.say("MC ENTRIES");
    let mut groups = Vec::new();
    for group in of(&all, "mgrps") {
        lines.say("**********");
        lines.say(format!("mgrp({})", group["id"]));
        let mut nodes = Vec::new();
        for handle in of(&group, "l1_handles") {
            let Some(node) = by_handle("l1_handles", &handle) else { continue };
            let below = by_handle("l2_handles", &node["l2_handle"]).unwrap_or_default();
            lines.say(format!(
                "  -> (L1h={handle}, rid={}) -> (ports=[{}], lags=[{}])",
                node["rid"],
                joined(&below, "ports"),
                joined(&below, "lags")
            ));
            nodes.push(json!({
                "node": handle,
                "rid": node["rid"],
                "ports": below["ports"],
                "lags": below["lags"],
            }));
        }
        groups.push(json!({"group": group["id"], "nodes": nodes}));
    }
    lines.say("==========");
    lines.say("LAGS");
    match all["lags"].as_array() {
        Some(lags) => {
            for lag in lags {
                lines.say(format!("lag({}) -> ports=[{}]", lag["id"], joined(lag, "ports")));
            }
        }
        None => lines.say("None for this PRE type"),
    }
    lines.say("==========");
    Ok(lines.answer(json!({"groups": groups, "lags": all["lags"]})))
}

pub(super) const COMMANDS: &[Command] = &[
    command("mc_mgrp_create", "GROUP", "make a multicast group", &[], exactly(1), group_create),
    command("mc_mgrp_destroy", "GROUP", "delete a multicast group", &[], exactly(1), group_destroy),
    command(
        "mc_node_create",
        "RID PORTS… [| LAGS…]",
        "make a node: packets with this replication id to these ports, and to one port of each LAG",
        &[],
        at_least(1),
        node_create,
    ),
    command(
        "mc_node_update",
        "NODE PORTS… [| LAGS…]",
        "give a node other ports and LAGS",
        &[],
        at_least(1),
        node_update,
    ),
    command("mc_node_associate", "GROUP NODE", "put a node into a group", &[], exactly(2), associate),
    command("mc_node_dissociate", "GROUP NODE", "take a node out of a group", &[], exactly(2), dissociate),
    command("mc_node_destroy", "NODE", "delete a node", &[], exactly(1), node_destroy),
    command("mc_set_lag_membership", "LAG PORTS…", "set the ports of a LAG", &[], at_least(1), set_lag),
    command("mc_dump", "", "show groups, nodes and LAGs", &[], exactly(0), dump),
];
