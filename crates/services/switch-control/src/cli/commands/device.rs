//! Commands on the switch as a whole: program, ports, state, hash parameters.

use super::{CXT, Command, Slot, between, command, exactly, text};
use crate::cli::names;
use crate::cli::output::{Answer, Lines};
use crate::cli::{CliError, Session, parse};
use crate::thrift::codec::Value;
use barewire_p4::ir::HashAlgorithm;
use serde_json::{Map, Value as Json, json};
use std::fs;
use std::process::{Command as Process, Stdio};

/// Run a command of the system's shell.
pub(in crate::cli) fn shell(line: &str) -> Result<Answer, CliError> {
    let run = Process::new("sh").arg("-c").arg(line).stderr(Stdio::inherit()).output();
    let output = run.map_err(|error| CliError::io("the shell", error))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(CliError::Input(
            format!("the command ended by {}\n{said}", output.status).trim_end().to_owned(),
        ));
    }
    Ok(Answer::line(&said, json!({"output": said, "status": output.status.code()})))
}

fn read(path: &str) -> Result<String, CliError> {
    fs::read_to_string(path).map_err(|error| CliError::io(path, error))
}

fn write(path: &str, text: &str) -> Result<Answer, CliError> {
    fs::write(path, text).map_err(|error| CliError::io(path, error))?;
    Ok(Answer { json: json!({"file": path, "bytes": text.len()}), ..Answer::silent() })
}

fn load_new_config_file(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let source = read(words[0])?;
    if let Err(error) = serde_json::from_str::<Json>(&source) {
        return Err(CliError::Input(format!("{} is not JSON: {error}", words[0])));
    }
    session.announce("Loading new Json config");
    session.standard("bm_load_new_config", vec![text(&source)])?;
    // From now on commands go to it: its tables are filled before it runs.
    session.reload()?;
    Ok(Answer { json: json!({"file": words[0]}), ..Answer::silent() })
}

fn swap_configs(session: &mut Session, _: &[&str]) -> Result<Answer, CliError> {
    session.announce("Swapping configs");
    session.standard("bm_swap_configs", vec![])?;
    session.reload()?;
    Ok(Answer::silent())
}

fn port_add(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let port = Value::I32(parse::int32(words[1], "port")?);
    let pcap = text(words.get(2).copied().unwrap_or_default());
    session.standard("bm_dev_mgr_add_port", vec![text(words[0]), port, pcap])?;
    Ok(Answer::silent())
}

fn port_remove(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let port = Value::I32(parse::int32(words[0], "port")?);
    session.standard("bm_dev_mgr_remove_port", vec![port])?;
    Ok(Answer::silent())
}

fn show_ports(session: &mut Session, _: &[&str]) -> Result<Answer, CliError> {
    let ports = session.standard("bm_dev_mgr_show_ports", vec![])?;
    let mut lines = Lines::default();
    lines.say(format!("{:^10}{:^20}{:^10}extra info", "port #", "iface name", "status"));
    lines.say("=".repeat(50));
    let mut all = Vec::new();
    for port in ports.items() {
        let number = port.field(1).map_or(0, Value::int);
        let name = port.field(2).map(Value::lossy).unwrap_or_default();
        let up = port.field(3).map_or(0, Value::int) != 0;
        let extra: Vec<(String, String)> = match port.field(4) {
            Some(Value::Map(_, _, pairs)) => {
                pairs.iter().map(|(key, value)| (key.lossy(), value.lossy())).collect()
            }
            _ => Vec::new(),
        };
        let shown: Vec<String> = extra.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let status = if up { "UP" } else { "DOWN" };
        lines.say(format!("{number:^10}{name:^20}{status:^10}{}", shown.join("; ")));
        let mut json = json!({"port": number, "interface": name, "up": up});
        for (key, value) in extra {
            // Counts come as text: bmv2's type has nothing else.
            json[key] = value.parse::<u64>().map_or_else(|_| value.clone().into(), Json::from);
        }
        all.push(json);
    }
    Ok(lines.answer(all.into()))
}

fn switch_info(session: &mut Session, _: &[&str]) -> Result<Answer, CliError> {
    let info = session.standard("bm_mgmt_get_info", vec![])?;
    let names =
        ["device_id", "thrift_port", "notifications_socket", "elogger_socket", "debugger_socket", "engine"];
    let mut lines = Lines::default();
    let mut json = Map::new();
    for (at, name) in names.into_iter().enumerate() {
        let (shown, value) = match info.field(at as i16 + 1) {
            Some(Value::Bytes(bytes)) => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                (text.clone(), text.into())
            }
            Some(number) => (number.int().to_string(), number.int().into()),
            // A bmv2 has one kind of engine, and no word for it.
            None if name == "engine" => continue,
            None => ("None".to_owned(), Json::Null),
        };
        lines.say(format!("{name:25}: {shown}"));
        json.insert(name.to_owned(), value);
    }
    Ok(lines.answer(json.into()))
}

fn show_drops(session: &mut Session, _: &[&str]) -> Result<Answer, CliError> {
    let drops = session.own("drops", vec![])?;
    let mut lines = Lines::default();
    let mut json = Map::new();
    if let Value::Map(_, _, pairs) = drops {
        for (reason, count) in pairs {
            lines.say(format!("{:30} {}", reason.lossy(), count.int()));
            json.insert(reason.lossy(), count.int().into());
        }
    }
    Ok(lines.answer(json.into()))
}

fn write_config(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let source = session.standard("bm_get_config", vec![])?.lossy();
    write(words[0], &source)
}

fn serialize(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let state = session.standard("bm_serialize_state", vec![])?.lossy();
    write(words[0], &state)
}

fn restore(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let state = read(words[0])?;
    session.own("restore_state", vec![text(&state)])?;
    Ok(Answer::silent())
}

/// The full name of a calculation that hashes by the algorithm.
fn calculation(session: &Session, word: &str, wanted: HashAlgorithm, kind: &str) -> Result<String, CliError> {
    let program = session.program()?;
    let found = names::calculation(&program, word)?;
    if found.algorithm != wanted {
        return Err(CliError::Input(format!("Invalid {kind} name ({word}): it is {:?}", found.algorithm)));
    }
    Ok(found.name.clone())
}

fn set_crc(session: &mut Session, words: &[&str], bits: u32) -> Result<Answer, CliError> {
    let (wanted, kind, method) = match bits {
        16 => (HashAlgorithm::Crc16Custom, "crc16_custom", "bm_set_crc16_custom_parameters"),
        _ => (HashAlgorithm::Crc32Custom, "crc32_custom", "bm_set_crc32_custom_parameters"),
    };
    let name = calculation(session, words[0], wanted, kind)?;
    let number = |at: usize, what: &str| -> Result<Value, CliError> {
        let value = parse::unsigned_as_signed(words[at], bits, what)?;
        Ok(if bits == 16 { Value::I16(value as i16) } else { Value::I32(value as i32) })
    };
    let config = Value::Struct(vec![
        (1, number(1, "polynomial")?),
        (2, number(2, "initial remainder")?),
        (3, number(3, "final xor value")?),
        (4, Value::Bool(parse::truth(words[4], "reflect data")?)),
        (5, Value::Bool(parse::truth(words[5], "reflect remainder")?)),
    ]);
    session.standard(method, vec![CXT, text(&name), config])?;
    Ok(Answer::silent())
}

fn set_toeplitz(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let name = calculation(session, words[0], HashAlgorithm::Toeplitz, "toeplitz")?;
    let key = parse::hex_bytes(words[1], "Toeplitz hash key")?;
    if !key.len().is_multiple_of(4) {
        return Err(CliError::Input(format!(
            "Toeplitz hash key must be a multiple of 4 bytes in length; it has {}",
            key.len()
        )));
    }
    session.standard("bm_set_toeplitz_hash_key", vec![CXT, text(&name), Value::Bytes(key)])?;
    Ok(Answer::silent())
}

const CRC_USAGE: &str = "CALCULATION POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER";

pub(super) const COMMANDS: &[Command] = &[
    command(
        "load_new_config_file",
        "FILE.json",
        "load a second program; commands go to it until swap_configs makes it run",
        &[],
        exactly(1),
        load_new_config_file,
    ),
    command("swap_configs", "", "run the program loaded before", &[], exactly(0), swap_configs),
    command(
        "port_add",
        "INTERFACE PORT [PCAP]",
        "add a port to the switch; a port URI may stand for the interface",
        &[],
        between(2, 3),
        port_add,
    ),
    command("port_remove", "PORT", "take a port away from the switch", &[], exactly(1), port_remove),
    command("show_ports", "", "list the switch's ports", &[], exactly(0), show_ports),
    command("switch_info", "", "show the switch's numbers and addresses", &[], exactly(0), switch_info),
    command("show_drops", "", "show dropped packets by reason (not with bmv2)", &[], exactly(0), show_drops),
    command(
        "reset_state",
        "",
        "all tables, registers and the like as they were at the start",
        &[],
        exactly(0),
        |session, _| {
            session.standard("bm_reset_state", vec![])?;
            Ok(Answer::silent())
        },
    ),
    command("write_config_to_file", "FILE", "save the running program", &[], exactly(1), write_config),
    command("serialize_state", "FILE", "save the switch's state", &[], exactly(1), serialize),
    command("restore_state", "FILE", "restore saved state (not with bmv2)", &[], exactly(1), restore),
    command(
        "set_crc16_parameters",
        CRC_USAGE,
        "set the parameters of a crc16_custom calculation",
        &[Slot::Crc16],
        exactly(6),
        |session, words| set_crc(session, words, 16),
    ),
    command(
        "set_crc32_parameters",
        CRC_USAGE,
        "set the parameters of a crc32_custom calculation",
        &[Slot::Crc32],
        exactly(6),
        |session, words| set_crc(session, words, 32),
    ),
    command(
        "set_toeplitz_hash_key",
        "CALCULATION HEX",
        "set the key of a Toeplitz calculation",
        &[Slot::Toeplitz],
        exactly(2),
        set_toeplitz,
    ),
];
