//! Commands on counters, meters, registers and value sets.

use super::{CXT, Command, Slot, at_least, between, command, exactly, list, text};
use crate::cli::names;
use crate::cli::output::{Answer, Lines, hex};
use crate::cli::{CliError, Session, parse};
use crate::thrift::codec::Value;
use crate::thrift::convert::padded;
use barewire_p4::ir::{MeterArray, Program, RegisterArray, TableId, ValueSet};
use num_bigint::BigUint;
use serde_json::{Value as Json, json};

/// The table that a direct array belongs to.
fn table_name(program: &Program, direct: Option<TableId>) -> Option<String> {
    direct.and_then(|id| program.tables.get(id.at())).map(|table| table.name.clone())
}

fn meter(session: &Session, word: &str) -> Result<(MeterArray, Option<String>), CliError> {
    let program = session.program()?;
    let meter = names::meter(&program, word)?.clone();
    let table = table_name(&program, meter.direct);
    Ok((meter, table))
}

fn meter_array_set_rates(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (meter, _) = meter(session, words[0])?;
    let rates = parse::rates(&words[1..], meter.rate_count)?;
    session.standard("bm_meter_array_set_rates", vec![CXT, text(&meter.name), rates])?;
    Ok(Answer::silent())
}

fn meter_set_rates(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (meter, table) = meter(session, words[0])?;
    let index = Value::I32(parse::handle(words[1], "index")?);
    let rates = parse::rates(&words[2..], meter.rate_count)?;
    match table {
        Some(table) => session.standard("bm_mt_set_meter_rates", vec![CXT, text(&table), index, rates])?,
        None => session.standard("bm_meter_set_rates", vec![CXT, text(&meter.name), index, rates])?,
    };
    Ok(Answer::silent())
}

fn meter_get_rates(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (meter, table) = meter(session, words[0])?;
    let index = Value::I32(parse::handle(words[1], "index")?);
    let rates = match table {
        Some(table) => session.standard("bm_mt_get_meter_rates", vec![CXT, text(&table), index])?,
        None => session.standard("bm_meter_get_rates", vec![CXT, text(&meter.name), index])?,
    };
    let rates = rates.items();
    let mut lines = Lines::default();
    if rates.len() != meter.rate_count as usize {
        lines.say(format!("WARNING: expected {} rates but only received {}", meter.rate_count, rates.len()));
    }
    let mut all = Vec::new();
    for (at, rate) in rates.iter().enumerate() {
        let units = match rate.field(1) {
            Some(Value::Double(units)) => *units,
            _ => 0.0,
        };
        let burst = rate.field(2).map_or(0, Value::int);
        lines.say(format!("{at}: info rate = {units:?}, burst size = {burst}"));
        all.push(json!({"units_per_us": units, "burst": burst}));
    }
    Ok(lines.answer(all.into()))
}

fn counter(session: &Session, word: &str) -> Result<(String, Option<String>), CliError> {
    let program = session.program()?;
    let counter = names::counter(&program, word)?;
    Ok((counter.name.clone(), table_name(&program, counter.direct)))
}

fn counter_read(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (name, table) = counter(session, words[0])?;
    let index = parse::handle(words[1], "index")?;
    let value = match table {
        Some(table) => {
            session.announce(format!("this is the direct counter for table {table}"));
            session.standard("bm_mt_read_counter", vec![CXT, text(&table), Value::I32(index)])?
        }
        None => session.standard("bm_counter_read", vec![CXT, text(&name), Value::I32(index)])?,
    };
    let part = |id| value.field(id).map_or(0, Value::int) as u64;
    Ok(Answer::line(
        format!("{}[{index}]= ({} bytes, {} packets)", words[0], part(1), part(2)),
        json!({"index": index, "packets": part(2), "bytes": part(1)}),
    ))
}

fn counter_write(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (name, table) = counter(session, words[0])?;
    let index = parse::handle(words[1], "index")?;
    let (packets, bytes) = (parse::integer(words[2], "packets")?, parse::integer(words[3], "bytes")?);
    let value = Value::Struct(vec![(1, Value::I64(bytes)), (2, Value::I64(packets))]);
    match table {
        Some(table) => {
            session.announce(format!("writing to direct counter for table {table}"));
            session.standard("bm_mt_write_counter", vec![CXT, text(&table), Value::I32(index), value])?
        }
        None => session.standard("bm_counter_write", vec![CXT, text(&name), Value::I32(index), value])?,
    };
    Ok(Answer::line(format!("{}[{index}] has been updated", words[0]), json!({"index": index})))
}

fn counter_reset(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (name, table) = counter(session, words[0])?;
    match table {
        Some(table) => {
            session.announce(format!("this is the direct counter for table {table}"));
            session.standard("bm_mt_reset_counters", vec![CXT, text(&table)])?
        }
        None => session.standard("bm_counter_reset_all", vec![CXT, text(&name)])?,
    };
    Ok(Answer::silent())
}

fn register(session: &Session, word: &str) -> Result<RegisterArray, CliError> {
    let program = session.program()?;
    Ok(names::register(&program, word)?.clone())
}

/// Values of registers up to 64 bits wide travel by bmv2's methods, wider ones by ours. (A bmv2
/// takes signed numbers of 64 bits and hands out at most the largest of them.)
fn narrow(session: &mut Session, array: &RegisterArray) -> Result<bool, CliError> {
    Ok(array.width <= 64 || !session.is_ours()?)
}

/// A value of at most 64 bits as the signed number that travels; a bmv2 takes it for a negative one beyond 63.
fn low_bits(session: &mut Session, value: &BigUint) -> Result<i64, CliError> {
    match u64::try_from(value) {
        Ok(value) if value <= i64::MAX as u64 || session.is_ours()? => Ok(value as i64),
        _ => Err(CliError::Input("a bmv2 takes values below 2^63 only".into())),
    }
}

/// A register's bits out of the signed number that travels.
fn unsigned(array: &RegisterArray, value: i64) -> BigUint {
    let mask = if array.width >= 64 { u64::MAX } else { (1 << array.width) - 1 };
    BigUint::from(value as u64 & mask)
}

/// A JSON number where it fits one exactly, else digits.
fn register_json(value: &BigUint) -> Json {
    match u64::try_from(value) {
        Ok(small) => small.into(),
        Err(_) => value.to_string().into(),
    }
}

fn register_read(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let array = register(session, words[0])?;
    let index = words.get(1).map(|word| parse::int32(word, "index")).transpose()?;
    let narrow = narrow(session, &array)?;
    let values: Vec<BigUint> = if !narrow {
        let (from, to) = match index {
            Some(index) => (i64::from(index), i64::from(index) + 1),
            None => (0, -1),
        };
        let args = vec![text(&array.name), Value::I64(from), Value::I64(to)];
        let values = session.own("read_registers", args)?;
        values.items().iter().map(|value| BigUint::from_bytes_be(value.bytes())).collect()
    } else if let Some(index) = index {
        let value = session.standard("bm_register_read", vec![CXT, text(&array.name), Value::I32(index)])?;
        vec![unsigned(&array, value.int())]
    } else {
        let values = session.standard("bm_register_read_all", vec![CXT, text(&array.name)])?;
        values.items().iter().map(|value| unsigned(&array, value.int())).collect()
    };
    let shown: Vec<String> = values.iter().map(BigUint::to_string).collect();
    let json = list(values.iter().map(register_json));
    let mut answer = match index {
        Some(index) => Answer::line(
            format!("{}[{index}]= {}", words[0], shown.join(", ")),
            json!({"index": index, "value": json[0]}),
        ),
        None => Answer::line(format!("{}= {}", words[0], shown.join(", ")), json!({"values": json})),
    };
    if narrow && array.width > 64 {
        answer.note =
            Some("a bmv2 hands out values below 2^63 only: what shows as the largest may be more".into());
    } else if index.is_none() {
        answer.note = Some("register index omitted, reading entire array".into());
    }
    Ok(answer)
}

fn register_write(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let array = register(session, words[0])?;
    let index = parse::int32(words[1], "index")?;
    if let Some(magnitude) = words[2].strip_prefix('-') {
        // Two's complement, of as many bits as the register has.
        let value = parse::integer(magnitude, "value")?.wrapping_neg();
        let args = vec![CXT, text(&array.name), Value::I32(index), Value::I64(value)];
        session.standard("bm_register_write", args)?;
        return Ok(Answer::silent());
    }
    let value = parse::value(words[2], array.width)?;
    if narrow(session, &array)? {
        let value = low_bits(session, &value)?;
        let args = vec![CXT, text(&array.name), Value::I32(index), Value::I64(value)];
        session.standard("bm_register_write", args)?;
    } else {
        let (from, to) = (i64::from(index), i64::from(index) + 1);
        let bytes = Value::Bytes(padded(&value, array.width));
        let args = vec![text(&array.name), Value::I64(from), Value::I64(to), bytes];
        session.own("write_registers", args)?;
    }
    Ok(Answer::silent())
}

fn register_reset(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let array = register(session, words[0])?;
    session.standard("bm_register_reset", vec![CXT, text(&array.name)])?;
    Ok(Answer::silent())
}

fn set_width(set: &ValueSet) -> u32 {
    set.widths.iter().sum()
}

fn value_set(session: &Session, word: &str) -> Result<ValueSet, CliError> {
    let program = session.program()?;
    Ok(names::value_set(&program, word)?.clone())
}

fn show_pvs(session: &mut Session, _: &[&str]) -> Result<Answer, CliError> {
    let program = session.program()?;
    let mut sets: Vec<&ValueSet> = program.value_sets.iter().collect();
    sets.sort_by(|a, b| a.name.cmp(&b.name));
    let mut lines = Lines::default();
    for set in &sets {
        lines.say(format!("{:30} [compressed bitwidth:{}]", set.name, set_width(set)));
    }
    let json = list(sets.iter().map(|set| json!({"name": set.name, "widths": set.widths})));
    Ok(lines.answer(json))
}

fn pvs_write(session: &mut Session, words: &[&str], method: &str) -> Result<Answer, CliError> {
    let set = value_set(session, words[0])?;
    let width = set_width(&set);
    let value = parse::value(words[1], width)?;
    session.standard(method, vec![CXT, text(&set.name), Value::Bytes(padded(&value, width))])?;
    Ok(Answer::silent())
}

fn pvs_get(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let set = value_set(session, words[0])?;
    let values = session.standard("bm_parse_vset_get", vec![CXT, text(&set.name)])?;
    let mut lines = Lines::default();
    for value in values.items() {
        lines.say(hex(value.bytes()));
    }
    let json = list(values.items().iter().map(|value| format!("0x{}", hex(value.bytes())).into()));
    Ok(lines.answer(json))
}

fn pvs_clear(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let set = value_set(session, words[0])?;
    session.standard("bm_parse_vset_clear", vec![CXT, text(&set.name)])?;
    Ok(Answer::silent())
}

pub(super) const COMMANDS: &[Command] = &[
    command(
        "meter_array_set_rates",
        "METER RATE:BURST…",
        "set the rates of a whole meter array",
        &[Slot::Meter],
        at_least(1),
        meter_array_set_rates,
    ),
    command(
        "meter_set_rates",
        "METER INDEX RATE:BURST…",
        "set a meter's rates, in units (packets or bytes) a microsecond; a direct meter's index is the entry's handle",
        &[Slot::Meter],
        at_least(2),
        meter_set_rates,
    ),
    command(
        "meter_get_rates",
        "METER INDEX",
        "show a meter's rates",
        &[Slot::Meter],
        exactly(2),
        meter_get_rates,
    ),
    command(
        "counter_read",
        "COUNTER INDEX",
        "show a counter; a direct counter's index is the entry's handle",
        &[Slot::Counter],
        exactly(2),
        counter_read,
    ),
    command(
        "counter_write",
        "COUNTER INDEX PACKETS BYTES",
        "set a counter",
        &[Slot::Counter],
        exactly(4),
        counter_write,
    ),
    command(
        "counter_reset",
        "COUNTER",
        "set a whole counter array to 0",
        &[Slot::Counter],
        exactly(1),
        counter_reset,
    ),
    command(
        "register_read",
        "REGISTER [INDEX]",
        "show a register, or the whole array",
        &[Slot::Register],
        between(1, 2),
        register_read,
    ),
    command(
        "register_write",
        "REGISTER INDEX VALUE",
        "set a register",
        &[Slot::Register],
        exactly(3),
        register_write,
    ),
    command(
        "register_reset",
        "REGISTER",
        "set a whole register array to 0",
        &[Slot::Register],
        exactly(1),
        register_reset,
    ),
    command("show_pvs", "", "list the program's parser value sets", &[], exactly(0), show_pvs),
    command(
        "pvs_add",
        "VALUE_SET VALUE",
        "put a value into a parser value set",
        &[Slot::ValueSet],
        exactly(2),
        |session, words| pvs_write(session, words, "bm_parse_vset_add"),
    ),
    command(
        "pvs_remove",
        "VALUE_SET VALUE",
        "take a value out of a parser value set",
        &[Slot::ValueSet],
        exactly(2),
        |session, words| pvs_write(session, words, "bm_parse_vset_remove"),
    ),
    command(
        "pvs_get",
        "VALUE_SET",
        "show a parser value set's values",
        &[Slot::ValueSet],
        exactly(1),
        pvs_get,
    ),
    command("pvs_clear", "VALUE_SET", "empty a parser value set", &[Slot::ValueSet], exactly(1), pvs_clear),
];
