//! `simple_pre` and `simple_pre_lag`: replication.

use super::{CXT, done, method};
use crate::thrift::Context;
use crate::thrift::codec::Value;
use crate::thrift::errors::{INVALID_GROUP_HANDLE, Refusal, Throws};
use crate::thrift::schema::{Args, Field, Method, Ty, field};
use barewire_switch::control::{ControlError, ErrorKind};
use serde_json::json;

const GROUP: Field = field(2, "mgrp", Ty::I32);
const GROUP_HANDLE: Field = field(2, "mgrp_handle", Ty::I32);
const NODE: Field = field(2, "l1_handle", Ty::I32);
const ITS_NODE: Field = field(3, "l1_handle", Ty::I32);
const PORTS: Field = field(3, "port_map", Ty::Text);
const LAGS: Field = field(4, "lag_map", Ty::Text);

/// A string of 0 and 1, the last for number 0, as numbers in ascending order. An empty one is the empty set.
fn numbers(map: &str, of: &str) -> Result<Vec<u32>, Refusal> {
    let bytes = map.as_bytes();
    if let Some(at) = bytes.iter().position(|byte| !matches!(byte, b'0' | b'1')) {
        return Err(Refusal::kind(
            ErrorKind::Other,
            format!("character {} of the {of} map is neither 0 nor 1", at + 1),
        ));
    }
    let set = bytes.iter().rev().enumerate().filter(|(_, byte)| **byte == b'1');
    Ok(set.map(|(number, _)| number as u32).collect())
}

fn ports(args: &Args, at: usize) -> Result<Vec<u32>, Refusal> {
    numbers(args.text(at), "port")
}

fn lags(args: &Args, at: usize) -> Result<Vec<u32>, Refusal> {
    numbers(args.text(at), "lag")
}

fn group_create(context: &Context, args: &Args) -> Result<Value, Refusal> {
    context.switch.mc_create(args.u32(1))?;
    // The group's handle is its number, as in bmv2.
    Ok(Value::I32(args.u32(1) as i32))
}

/// bmv2 has one code for a group's number and another for its handle, though they are the same: only making a group
/// takes a number.
fn by_handle<T>(result: Result<T, ControlError>) -> Result<T, Refusal> {
    result.map_err(|error| match error.kind {
        ErrorKind::InvalidMulticastGroup => Refusal::Code(INVALID_GROUP_HANDLE, error.message),
        _ => Refusal::Control(error),
    })
}

fn group_destroy(context: &Context, args: &Args) -> Result<Value, Refusal> {
    by_handle(context.switch.mc_destroy(args.u32(1)))?;
    done()
}

fn node_create(context: &Context, args: &Args, lags: &[u32]) -> Result<Value, Refusal> {
    let rid = u16::try_from(args.int(1)).map_err(|_| {
        Refusal::kind(ErrorKind::Other, format!("replication id {} has more than 16 bits", args.int(1)))
    })?;
    Ok(Value::I32(context.switch.node_create(rid.into(), &ports(args, 2)?, lags)? as i32))
}

fn node_update(context: &Context, args: &Args, lags: &[u32]) -> Result<Value, Refusal> {
    context.switch.node_update(args.u32(1), &ports(args, 2)?, lags)?;
    done()
}

fn associate(context: &Context, args: &Args) -> Result<Value, Refusal> {
    by_handle(context.switch.node_associate(args.u32(1), args.u32(2)))?;
    done()
}

fn dissociate(context: &Context, args: &Args) -> Result<Value, Refusal> {
    by_handle(context.switch.node_dissociate(args.u32(1), args.u32(2)))?;
    done()
}

fn node_destroy(context: &Context, args: &Args) -> Result<Value, Refusal> {
    context.switch.node_destroy(args.u32(1))?;
    done()
}

/// All of replication as JSON, in bmv2's shape. Its level 2 nodes are ours of level 1: each has exactly one.
fn entries(context: &Context, with_lags: bool) -> Result<Value, Refusal> {
    let dump = context.switch.mc_dump();
    let mut all = json!({
        "mgrps": dump.groups.iter().map(|(id, nodes)| json!({"id": id, "l1_handles": nodes})).collect::<Vec<_>>(),
        "l1_handles": dump
            .nodes
            .iter()
            .map(|node| json!({"handle": node.handle, "rid": node.rid, "l2_handle": node.handle}))
            .collect::<Vec<_>>(),
        "l2_handles": dump
            .nodes
            .iter()
            .map(|node| json!({"handle": node.handle, "ports": node.ports, "lags": node.lags}))
            .collect::<Vec<_>>(),
    });
    if with_lags {
        all["lags"] = dump.lags.iter().map(|(id, ports)| json!({"id": id, "ports": ports})).collect();
    }
    Ok(Value::text(all.to_string()))
}

pub(super) static SIMPLE_PRE: &[Method] = &[
    method("bm_mc_mgrp_create", &[CXT, GROUP], Ty::I32, Throws::Multicast, group_create),
    method("bm_mc_mgrp_destroy", &[CXT, GROUP_HANDLE], Ty::Void, Throws::Multicast, group_destroy),
    method(
        "bm_mc_node_create",
        &[CXT, field(2, "rid", Ty::I32), PORTS],
        Ty::I32,
        Throws::Multicast,
        |c, a| node_create(c, a, &[]),
    ),
    method("bm_mc_node_associate", &[CXT, GROUP_HANDLE, ITS_NODE], Ty::Void, Throws::Multicast, associate),
    method("bm_mc_node_dissociate", &[CXT, GROUP_HANDLE, ITS_NODE], Ty::Void, Throws::Multicast, dissociate),
    method("bm_mc_node_destroy", &[CXT, NODE], Ty::Void, Throws::Multicast, node_destroy),
    method("bm_mc_node_update", &[CXT, NODE, PORTS], Ty::Void, Throws::Multicast, |c, a| {
        node_update(c, a, &[])
    }),
    method("bm_mc_get_entries", &[CXT], Ty::Text, Throws::Multicast, |c, _| entries(c, false)),
];

pub(super) static SIMPLE_PRE_LAG: &[Method] = &[
    method("bm_mc_mgrp_create", &[CXT, GROUP], Ty::I32, Throws::Multicast, group_create),
    method("bm_mc_mgrp_destroy", &[CXT, GROUP_HANDLE], Ty::Void, Throws::Multicast, group_destroy),
    method(
        "bm_mc_node_create",
        &[CXT, field(2, "rid", Ty::I32), PORTS, LAGS],
        Ty::I32,
        Throws::Multicast,
        |c, a| node_create(c, a, &lags(a, 3)?),
    ),
    method("bm_mc_node_associate", &[CXT, GROUP_HANDLE, ITS_NODE], Ty::Void, Throws::Multicast, associate),
    method("bm_mc_node_dissociate", &[CXT, GROUP_HANDLE, ITS_NODE], Ty::Void, Throws::Multicast, dissociate),
    method("bm_mc_node_destroy", &[CXT, NODE], Ty::Void, Throws::Multicast, node_destroy),
    method("bm_mc_node_update", &[CXT, NODE, PORTS, LAGS], Ty::Void, Throws::Multicast, |c, a| {
        node_update(c, a, &lags(a, 3)?)
    }),
    method(
        "bm_mc_set_lag_membership",
        &[CXT, field(2, "lag_index", Ty::I16), PORTS],
        Ty::Void,
        Throws::Multicast,
        |c, a| {
            let lag = u32::try_from(a.int(1))
                .map_err(|_| Refusal::kind(ErrorKind::Other, format!("lag {} is negative", a.int(1))))?;
            c.switch.set_lag(lag, &ports(a, 2)?)?;
            done()
        },
    ),
    method("bm_mc_get_entries", &[CXT], Ty::Text, Throws::Multicast, |c, _| entries(c, true)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_from_its_end() {
        assert_eq!(numbers("100100010", "port").unwrap(), [1, 5, 8]);
        assert!(numbers("", "port").unwrap().is_empty());
        let error = numbers("10x", "lag").unwrap_err().to_string();
        assert_eq!(error, "character 3 of the lag map is neither 0 nor 1");
    }
}
