//! `standard`: match tables.

use super::{CXT, ENTRY, TABLE_NAME, done, method, program};
use crate::thrift::Context;
use crate::thrift::codec::Value;
use crate::thrift::convert::{
    WrongRates, action_to, call_from, counter_from, counter_to, entry_to, handle_from_wire, handle_to_wire,
    has_priority, key_from, priority_from, rates_from, rates_to,
};
use crate::thrift::errors::{Refusal, Throws};
use crate::thrift::schema::{Args, Method, Ty, field, optional};
use crate::thrift::types::{
    ACTION_DATA, ACTION_ENTRY, ADD_OPTIONS, COUNTER_VALUE, ENTRY as ENTRY_SHAPE, MATCH_KEY, METER_RATES,
};
use barewire_p4::ir::{Program, Table, TableActions, TableId};
use barewire_switch::control::{Entry, ErrorKind, TableAction};
use std::collections::HashMap;
use std::sync::Arc;

/// Where a table must take its actions from for a method to be allowed (bmv2 has methods for each kind of table).
#[derive(Clone, Copy)]
enum Wants {
    Any,
    Direct,
    Members,
    Groups,
}

/// The table that the second argument names.
fn table_of(context: &Context, args: &Args, wants: Wants) -> Result<(TableId, Arc<Program>), Refusal> {
    let id = context.switch.table(args.text(1))?;
    let program = program(context)?;
    let table = the_table(&program, id)?;
    let fits = match (wants, table.source) {
        (Wants::Any, _)
        | (Wants::Direct, TableActions::Direct)
        | (Wants::Members, TableActions::Profile(_)) => true,
        (Wants::Groups, TableActions::Profile(profile)) => {
            program.profiles.get(profile.at()).is_some_and(|profile| profile.selector.is_some())
        }
        _ => false,
    };
    if fits {
        return Ok((id, program));
    }
    let why = match wants {
        Wants::Direct => "points at members of an action profile: use the indirect methods",
        Wants::Members => "holds its actions itself, not members of an action profile",
        _ => "has no action profile with a selector",
    };
    Err(Refusal::kind(ErrorKind::WrongTableType, format!("table {} {why}", table.name)))
}

/// A swap may come between two steps of a call: then the table is not there.
fn the_table(program: &Program, id: TableId) -> Result<&Table, Refusal> {
    program
        .tables
        .get(id.at())
        .ok_or_else(|| Refusal::kind(ErrorKind::InvalidTableName, "the program was swapped under this call"))
}

/// The handle in the third argument.
fn handle(args: &Args) -> u64 {
    handle_from_wire(args.u32(2))
}

/// Arguments 3 (key) and `options`: an entry added to do something.
fn add(
    context: &Context,
    args: &Args,
    wants: Wants,
    action: impl FnOnce(TableId) -> Result<TableAction, Refusal>,
    options: usize,
) -> Result<Value, Refusal> {
    let (id, program) = table_of(context, args, wants)?;
    let table = the_table(&program, id)?;
    let action = action(id)?;
    let key = key_from(table, args.get(2))?;
    let priority = priority_from(table, args.get(options))?;
    let handle = context.switch.add_entry(id, key, priority, action)?;
    Ok(Value::I32(handle_to_wire(handle)))
}

fn modify(
    context: &Context,
    args: &Args,
    wants: Wants,
    action: impl FnOnce(TableId) -> Result<TableAction, Refusal>,
) -> Result<Value, Refusal> {
    let (id, _) = table_of(context, args, wants)?;
    context.switch.modify_entry(id, handle(args), action(id)?)?;
    done()
}

fn delete(context: &Context, args: &Args, wants: Wants) -> Result<Value, Refusal> {
    let (id, _) = table_of(context, args, wants)?;
    context.switch.delete_entry(id, handle(args))?;
    done()
}

fn set_ttl(context: &Context, args: &Args, wants: Wants) -> Result<Value, Refusal> {
    let (id, _) = table_of(context, args, wants)?;
    let ttl = u32::try_from(args.int(3))
        .map_err(|_| Refusal::kind(ErrorKind::Other, format!("a time-out of {} ms", args.int(3))))?;
    context.switch.set_entry_ttl(id, handle(args), ttl)?;
    done()
}

fn set_default(
    context: &Context,
    args: &Args,
    wants: Wants,
    action: impl FnOnce(TableId) -> Result<TableAction, Refusal>,
) -> Result<Value, Refusal> {
    let (id, _) = table_of(context, args, wants)?;
    context.switch.set_default(id, action(id)?)?;
    done()
}

fn reset_default(context: &Context, args: &Args, wants: Wants) -> Result<Value, Refusal> {
    let (id, _) = table_of(context, args, wants)?;
    context.switch.reset_default(id)?;
    done()
}

/// An entry for the wire; the age of one that has a time-out is asked of the engines.
fn show(context: &Context, program: &Program, id: TableId, entry: &Entry) -> Result<Value, Refusal> {
    let table = the_table(program, id)?;
    let since = match entry.ttl_ms {
        0 => None,
        _ => Some(context.switch.time_since_hit_ms(id, entry.handle)?),
    };
    Ok(entry_to(program, table, entry, since))
}

fn default_entry(context: &Context, args: &Args) -> Result<Value, Refusal> {
    let (id, program) = table_of(context, args, Wants::Any)?;
    Ok(action_to(&program, context.switch.default_entry(id)?.as_ref()))
}

fn entry_from_key(context: &Context, args: &Args) -> Result<Value, Refusal> {
    if args.get(2).items().is_empty() {
        // The default entry is asked for.
        return Ok(Value::Struct(vec![(4, default_entry(context, args)?)]));
    }
    let (id, program) = table_of(context, args, Wants::Any)?;
    let table = the_table(&program, id)?;
    let key = key_from(table, args.get(2))?;
    let priority = if has_priority(table) { Some(priority_from(table, args.get(3))?) } else { None };
    let entry = context.switch.entry_by_key(id, &key, priority)?;
    show(context, &program, id, &entry)
}

fn set_meter_rates(context: &Context, args: &Args) -> Result<Value, Refusal> {
    let (id, program) = table_of(context, args, Wants::Any)?;
    let table = the_table(&program, id)?;
    let meter = table.meter.and_then(|meter| program.meters.get(meter.at())).ok_or_else(|| {
        Refusal::kind(ErrorKind::MetersDisabled, format!("table {} has no direct meter", table.name))
    })?;
    let rates = rates_from(args.get(3), meter.rate_count).map_err(|wrong| {
        let (WrongRates::Count(why) | WrongRates::Rate(why) | WrongRates::Burst(why)) = wrong;
        Refusal::kind(ErrorKind::InvalidMeterOperation, why)
    })?;
    context.switch.set_direct_meter(id, handle(args), &rates)?;
    done()
}

fn call(context: &Context, args: &Args, id: TableId, name: usize) -> Result<TableAction, Refusal> {
    Ok(TableAction::Call(call_from(&context.switch, id, args.text(name), args.get(name + 1))?))
}

/// The group in the fourth argument, for an entry: as in bmv2 it must have members.
fn group(context: &Context, args: &Args, id: TableId) -> Result<TableAction, Refusal> {
    let group = args.u32(3);
    let program = program(context)?;
    if let TableActions::Profile(profile) = the_table(&program, id)?.source
        && context.switch.group(profile, group)?.members.is_empty()
    {
        return Err(Refusal::kind(ErrorKind::EmptyGroup, format!("group {group} has no members")));
    }
    Ok(TableAction::Group(group))
}

const MEMBER: &str = "mbr_handle";
const GROUP: &str = "grp_handle";

pub(super) static METHODS: &[Method] = &[
    method("bm_mt_get_num_entries", &[CXT, TABLE_NAME], Ty::I64, Throws::Table, |c, a| {
        let (id, _) = table_of(c, a, Wants::Any)?;
        Ok(Value::I64(c.switch.num_entries(id)? as i64))
    }),
    method(
        "bm_mt_clear_entries",
        &[CXT, TABLE_NAME, field(3, "reset_default_entry", Ty::Bool)],
        Ty::Void,
        Throws::Table,
        |c, a| {
            let (id, _) = table_of(c, a, Wants::Any)?;
            c.switch.clear_table(id, a.int(2) != 0)?;
            done()
        },
    ),
    method(
        "bm_mt_add_entry",
        &[
            CXT,
            TABLE_NAME,
            field(3, "match_key", MATCH_KEY),
            field(4, "action_name", Ty::Text),
            field(5, "action_data", ACTION_DATA),
            optional(6, "options", Ty::Struct(&ADD_OPTIONS)),
        ],
        Ty::I32,
        Throws::Table,
        |c, a| add(c, a, Wants::Direct, |id| call(c, a, id, 3), 5),
    ),
    method(
        "bm_mt_set_default_action",
        &[CXT, TABLE_NAME, field(3, "action_name", Ty::Text), field(4, "action_data", ACTION_DATA)],
        Ty::Void,
        Throws::Table,
        |c, a| set_default(c, a, Wants::Direct, |id| call(c, a, id, 2)),
    ),
    method("bm_mt_reset_default_entry", &[CXT, TABLE_NAME], Ty::Void, Throws::Table, |c, a| {
        reset_default(c, a, Wants::Direct)
    }),
    method("bm_mt_delete_entry", &[CXT, TABLE_NAME, ENTRY], Ty::Void, Throws::Table, |c, a| {
        delete(c, a, Wants::Direct)
    }),
    method(
        "bm_mt_modify_entry",
        &[CXT, TABLE_NAME, ENTRY, field(4, "action_name", Ty::Text), field(5, "action_data", ACTION_DATA)],
        Ty::Void,
        Throws::Table,
        |c, a| modify(c, a, Wants::Direct, |id| call(c, a, id, 3)),
    ),
    method(
        "bm_mt_set_entry_ttl",
        &[CXT, TABLE_NAME, ENTRY, field(4, "timeout_ms", Ty::I32)],
        Ty::Void,
        Throws::Table,
        |c, a| set_ttl(c, a, Wants::Direct),
    ),
    method(
        "bm_mt_indirect_add_entry",
        &[
            CXT,
            TABLE_NAME,
            field(3, "match_key", MATCH_KEY),
            field(4, MEMBER, Ty::I32),
            optional(5, "options", Ty::Struct(&ADD_OPTIONS)),
        ],
        Ty::I32,
        Throws::Table,
        |c, a| add(c, a, Wants::Members, |_| Ok(TableAction::Member(a.u32(3))), 4),
    ),
    method(
        "bm_mt_indirect_modify_entry",
        &[CXT, TABLE_NAME, ENTRY, field(4, MEMBER, Ty::I32)],
        Ty::Void,
        Throws::Table,
        |c, a| modify(c, a, Wants::Members, |_| Ok(TableAction::Member(a.u32(3)))),
    ),
    method("bm_mt_indirect_delete_entry", &[CXT, TABLE_NAME, ENTRY], Ty::Void, Throws::Table, |c, a| {
        delete(c, a, Wants::Members)
    }),
    method(
        "bm_mt_indirect_set_entry_ttl",
        &[CXT, TABLE_NAME, ENTRY, field(4, "timeout_ms", Ty::I32)],
        Ty::Void,
        Throws::Table,
        |c, a| set_ttl(c, a, Wants::Members),
    ),
    method(
        "bm_mt_indirect_set_default_member",
        &[CXT, TABLE_NAME, field(3, MEMBER, Ty::I32)],
        Ty::Void,
        Throws::Table,
        |c, a| set_default(c, a, Wants::Members, |_| Ok(TableAction::Member(a.u32(2)))),
    ),
    method("bm_mt_indirect_reset_default_entry", &[CXT, TABLE_NAME], Ty::Void, Throws::Table, |c, a| {
        reset_default(c, a, Wants::Members)
    }),
    method(
        "bm_mt_indirect_ws_add_entry",
        &[
            CXT,
            TABLE_NAME,
            field(3, "match_key", MATCH_KEY),
            field(4, GROUP, Ty::I32),
            optional(5, "options", Ty::Struct(&ADD_OPTIONS)),
        ],
        Ty::I32,
        Throws::Table,
        |c, a| add(c, a, Wants::Groups, |id| group(c, a, id), 4),
    ),
    method(
        "bm_mt_indirect_ws_modify_entry",
        &[CXT, TABLE_NAME, ENTRY, field(4, GROUP, Ty::I32)],
        Ty::Void,
        Throws::Table,
        |c, a| modify(c, a, Wants::Groups, |id| group(c, a, id)),
    ),
    method(
        "bm_mt_indirect_ws_set_default_group",
        &[CXT, TABLE_NAME, field(3, GROUP, Ty::I32)],
        Ty::Void,
        Throws::Table,
        |c, a| set_default(c, a, Wants::Groups, |_| Ok(TableAction::Group(a.u32(2)))),
    ),
    method(
        "bm_mt_read_counter",
        &[CXT, TABLE_NAME, ENTRY],
        Ty::Struct(&COUNTER_VALUE),
        Throws::Table,
        |c, a| {
            let (id, _) = table_of(c, a, Wants::Any)?;
            Ok(counter_to(c.switch.read_direct_counter(id, handle(a))?))
        },
    ),
    method("bm_mt_reset_counters", &[CXT, TABLE_NAME], Ty::Void, Throws::Table, |c, a| {
        let (id, _) = table_of(c, a, Wants::Any)?;
        c.switch.reset_direct_counters(id)?;
        done()
    }),
    method(
        "bm_mt_write_counter",
        &[CXT, TABLE_NAME, ENTRY, field(4, "value", Ty::Struct(&COUNTER_VALUE))],
        Ty::Void,
        Throws::Table,
        |c, a| {
            let (id, _) = table_of(c, a, Wants::Any)?;
            c.switch.write_direct_counter(id, handle(a), counter_from(a.get(3)))?;
            done()
        },
    ),
    method(
        "bm_mt_set_meter_rates",
        &[CXT, TABLE_NAME, ENTRY, field(4, "rates", METER_RATES)],
        Ty::Void,
        Throws::Table,
        set_meter_rates,
    ),
    method("bm_mt_get_meter_rates", &[CXT, TABLE_NAME, ENTRY], METER_RATES, Throws::Table, |c, a| {
        let (id, _) = table_of(c, a, Wants::Any)?;
        Ok(rates_to(&c.switch.direct_meter_rates(id, handle(a))?))
    }),
    method(
        "bm_mt_get_entries",
        &[CXT, TABLE_NAME],
        Ty::List(&Ty::Struct(&ENTRY_SHAPE)),
        Throws::Table,
        |c, a| {
            let (id, program) = table_of(c, a, Wants::Any)?;
            let table = the_table(&program, id)?;
            let entries = c.switch.entries(id)?;
            // One question to the engines for all that age.
            let ages: HashMap<u64, u64> = match entries.iter().any(|entry| entry.ttl_ms != 0) {
                true => c.switch.ages(id)?.into_iter().collect(),
                false => HashMap::new(),
            };
            let show = |entry: &Entry| {
                let since = (entry.ttl_ms != 0).then(|| ages.get(&entry.handle).copied().unwrap_or(0));
                entry_to(&program, table, entry, since)
            };
            Ok(Value::structs(entries.iter().map(show).collect()))
        },
    ),
    method("bm_mt_get_entry", &[CXT, TABLE_NAME, ENTRY], Ty::Struct(&ENTRY_SHAPE), Throws::Table, |c, a| {
        let (id, program) = table_of(c, a, Wants::Any)?;
        let entry = c.switch.entry(id, handle(a))?;
        show(c, &program, id, &entry)
    }),
    method(
        "bm_mt_get_default_entry",
        &[CXT, TABLE_NAME],
        Ty::Struct(&ACTION_ENTRY),
        Throws::Table,
        default_entry,
    ),
    method(
        "bm_mt_get_entry_from_key",
        &[
            CXT,
            TABLE_NAME,
            field(3, "match_key", MATCH_KEY),
            optional(4, "options", Ty::Struct(&ADD_OPTIONS)),
        ],
        Ty::Struct(&ENTRY_SHAPE),
        Throws::Table,
        entry_from_key,
    ),
];
