//! `standard`: the program, ports, hash parameters, the switch as a whole.

use super::{CXT, done, method, program};
use crate::thrift::Context;
use crate::thrift::codec::{Value, wire};
use crate::thrift::errors::{INVALID_KEY, INVALID_RESOURCE_TYPE, Refusal, Throws, WRONG_CALCULATION};
use crate::thrift::schema::{Args, Field, Method, Ty, field, optional};
use crate::thrift::types::{CONFIG, CRC16, CRC32, ENGINE, PORT_INFO, resource};
use barewire_p4::hash::Parameters;
use barewire_p4::ir::{CalculationId, HashAlgorithm};
use barewire_switch::control::{ErrorKind, PortInfo};
use md5::{Digest, Md5};

const CALCULATION: Field = field(2, "calc_name", Ty::Text);
const PORT: Field = field(1, "port_num", Ty::I32);

fn port(args: &Args, at: usize) -> Result<u32, Refusal> {
    u32::try_from(args.int(at))
        .map_err(|_| Refusal::kind(ErrorKind::InvalidPort, format!("port {} is negative", args.int(at))))
}

fn port_to(port: &PortInfo) -> Value {
    let extra = [
        ("uri", port.uri.clone()),
        ("rx_packets", port.rx.packets.to_string()),
        ("rx_bytes", port.rx.bytes.to_string()),
        ("rx_dropped", port.rx_dropped.to_string()),
        ("tx_packets", port.tx.packets.to_string()),
        ("tx_bytes", port.tx.bytes.to_string()),
        ("tx_dropped", port.tx_dropped.to_string()),
    ];
    let extra = extra.map(|(key, value)| (Value::text(key), Value::text(value))).to_vec();
    Value::Struct(vec![
        (1, Value::I32(port.port as i32)),
        (2, Value::text(port.name.clone())),
        (3, Value::Bool(port.up)),
        (4, Value::Map(wire::BYTES, wire::BYTES, extra)),
    ])
}

/// A calculation that hashes by an algorithm whose parameters can be set.
fn calculation(context: &Context, args: &Args, wanted: HashAlgorithm) -> Result<CalculationId, Refusal> {
    let id = context.switch.calculation(args.text(1))?;
    let program = program(context)?;
    match program.calculations.get(id.at()) {
        Some(calculation) if calculation.algorithm != wanted => Err(Refusal::Code(
            WRONG_CALCULATION,
            format!("calculation {} is {:?}, not {wanted:?}", calculation.name, calculation.algorithm),
        )),
        _ => Ok(id),
    }
}

fn set_crc16(context: &Context, args: &Args) -> Result<Value, Refusal> {
    let id = calculation(context, args, HashAlgorithm::Crc16Custom)?;
    let part = |id| args.get(2).field(id).map_or(0, Value::int);
    let parameters = Parameters::Crc16 {
        polynomial: part(1) as u16,
        initial: part(2) as u16,
        final_xor: part(3) as u16,
        reflect_data: part(4) != 0,
        reflect_remainder: part(5) != 0,
    };
    context.switch.set_hash_parameters(id, parameters)?;
    done()
}

fn set_crc32(context: &Context, args: &Args) -> Result<Value, Refusal> {
    let id = calculation(context, args, HashAlgorithm::Crc32Custom)?;
    let part = |id| args.get(2).field(id).map_or(0, Value::int);
    let parameters = Parameters::Crc32 {
        polynomial: part(1) as u32,
        initial: part(2) as u32,
        final_xor: part(3) as u32,
        reflect_data: part(4) != 0,
        reflect_remainder: part(5) != 0,
    };
    context.switch.set_hash_parameters(id, parameters)?;
    done()
}

fn set_toeplitz(context: &Context, args: &Args) -> Result<Value, Refusal> {
    let id = calculation(context, args, HashAlgorithm::Toeplitz)?;
    let key = args.get(2).bytes();
    if key.is_empty() || !key.len().is_multiple_of(4) || key.len() > 4096 {
        return Err(Refusal::Code(
            INVALID_KEY,
            format!("a key of {} bytes: a multiple of 4 up to 4096 is needed", key.len()),
        ));
    }
    context.switch.set_hash_parameters(id, Parameters::Toeplitz(key.to_vec()))?;
    done()
}

fn id_from_name(context: &Context, args: &Args) -> Result<Value, Refusal> {
    let name = args.text(2);
    let switch = &context.switch;
    let program = program(context)?;
    let id = match args.int(1) as i32 {
        resource::MATCH_TABLE => program.tables.get(switch.table(name)?.at()).map(|found| found.id),
        resource::ACTION_PROFILE => program.profiles.get(switch.profile(name)?.at()).map(|found| found.id),
        resource::COUNTER => program.counters.get(switch.counter(name)?.at()).map(|found| found.id),
        resource::METER => program.meters.get(switch.meter(name)?.at()).map(|found| found.id),
        resource::REGISTER => program.registers.get(switch.register(name)?.at()).map(|found| found.id),
        resource::LEARNING_LIST => {
            program.learn_lists.get(switch.learn_list(name)?.at()).map(|found| found.id)
        }
        other => {
            return Err(Refusal::Code(
                INVALID_RESOURCE_TYPE,
                format!("resource type {other} does not exist"),
            ));
        }
    };
    id.map(|id| Value::I32(id as i32))
        .ok_or_else(|| Refusal::other("the program was swapped under this call"))
}

pub(super) static METHODS: &[Method] = &[
    method("bm_load_new_config", &[field(1, "config_str", Ty::Text)], Ty::Void, Throws::Swap, |c, a| {
        c.switch.load(a.text(0))?;
        done()
    }),
    method("bm_swap_configs", &[], Ty::Void, Throws::Swap, |c, _| {
        c.switch.swap()?;
        done()
    }),
    method(
        "bm_dev_mgr_add_port",
        &[
            field(1, "iface_name", Ty::Text),
            field(2, "port_num", Ty::I32),
            optional(3, "pcap_path", Ty::Text),
        ],
        Ty::Void,
        Throws::DevMgr,
        |c, a| {
            if !a.text(2).is_empty() {
                return Err(Refusal::kind(
                    ErrorKind::InvalidPort,
                    "a pcap file for one port is not taken here: trace the port (trace+URI), or start with --pcap",
                ));
            }
            c.switch.add_port(port(a, 1)?, a.text(0))?;
            done()
        },
    ),
    method("bm_dev_mgr_remove_port", &[PORT], Ty::Void, Throws::DevMgr, |c, a| {
        c.switch.remove_port(port(a, 0)?)?;
        done()
    }),
    method("bm_dev_mgr_show_ports", &[], Ty::List(&Ty::Struct(&PORT_INFO)), Throws::DevMgr, |c, _| {
        Ok(Value::structs(c.switch.ports().iter().map(port_to).collect()))
    }),
    method("bm_mgmt_get_info", &[], Ty::Struct(&CONFIG), Throws::Nothing, |c, _| {
        let info = c.switch.info();
        Ok(Value::Struct(vec![
            (1, Value::I64(info.device_id as i64)),
            (2, Value::I32(i32::from(c.port.or(info.thrift_port).unwrap_or(0)))),
            (3, Value::text(info.notifications_addr)),
            (ENGINE, Value::text(info.engine)),
        ]))
    }),
    method(
        "bm_set_crc16_custom_parameters",
        &[CXT, CALCULATION, field(3, "crc16_config", Ty::Struct(&CRC16))],
        Ty::Void,
        Throws::Crc,
        set_crc16,
    ),
    method(
        "bm_set_crc32_custom_parameters",
        &[CXT, CALCULATION, field(3, "crc32_config", Ty::Struct(&CRC32))],
        Ty::Void,
        Throws::Crc,
        set_crc32,
    ),
    method(
        "bm_set_toeplitz_hash_key",
        &[CXT, CALCULATION, field(3, "key", Ty::Bytes)],
        Ty::Void,
        Throws::Toeplitz,
        set_toeplitz,
    ),
    method("bm_reset_state", &[], Ty::Void, Throws::Nothing, |c, _| {
        c.switch.reset_state()?;
        done()
    }),
    method("bm_get_config", &[], Ty::Text, Throws::Nothing, |c, _| {
        Ok(Value::text(c.switch.program().map(|program| program.source.clone()).unwrap_or_default()))
    }),
    method("bm_get_config_md5", &[], Ty::Bytes, Throws::Nothing, |c, _| {
        let program = c.switch.program();
        let source = program.as_ref().map_or("", |program| program.source.as_str());
        Ok(Value::Bytes(Md5::digest(source.as_bytes()).to_vec()))
    }),
    method(
        "bm_get_id_from_name",
        &[CXT, field(2, "resource_type", Ty::I32), field(3, "resource_name", Ty::Text)],
        Ty::I32,
        Throws::IdLookup,
        id_from_name,
    ),
    method("bm_serialize_state", &[], Ty::Text, Throws::Nothing, |c, _| {
        Ok(Value::text(c.switch.serialize_state()?))
    }),
];
