//! Commands on tables.

use super::profiles::dump_profile;
use super::{CXT, Command, Slot, at_least, command, exactly, list, text};
use crate::cli::names::{self, profile_of, sorted_actions};
use crate::cli::output::{self, Answer, Lines, colons};
use crate::cli::{CliError, Session, parse};
use crate::thrift::codec::Value;
use barewire_p4::ir::{Action, Program, Table};
use serde_json::json;
use std::sync::Arc;

/// The table a word names, and the program it is of.
fn table(session: &Session, word: &str) -> Result<(Arc<Program>, Table), CliError> {
    let program = session.program()?;
    let table = names::table(&program, word)?.clone();
    Ok((program, table))
}

fn profile_name<'a>(program: &'a Program, table: &Table) -> Option<&'a str> {
    profile_of(program, table).map(|profile| profile.name.as_str())
}

fn actions_of<'a>(program: &'a Program, table: &'a Table) -> Vec<&'a Action> {
    sorted_actions(table.actions.iter().filter_map(|id| program.actions.get(id.at())))
}

/// What is about to be written, as p4lang's shows it.
fn announce_action(session: &mut Session, action: &str, data: &Value) {
    let args: Vec<String> = data.items().iter().map(|arg| colons(arg.bytes())).collect();
    session.announce(format!("{:20} {action}", "action:"));
    session.announce(format!("{:20} {}", "runtime data:", args.join("\t")));
}

fn show_tables(session: &mut Session, _: &[&str]) -> Result<Answer, CliError> {
    let program = session.program()?;
    let mut tables: Vec<&Table> = program.tables.iter().collect();
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    let mut lines = Lines::default();
    for table in &tables {
        lines.say(output::table_line(table, profile_name(&program, table)));
    }
    let json = list(tables.iter().map(|table| output::table_json(table, profile_name(&program, table))));
    Ok(lines.answer(json))
}

fn show_some(actions: &[&Action], mut lines: Lines) -> Answer {
    for action in actions {
        lines.say(output::action_line(action));
    }
    lines.answer(list(actions.iter().map(|action| output::action_json(action))))
}

fn show_actions(session: &mut Session, _: &[&str]) -> Result<Answer, CliError> {
    let program = session.program()?;
    Ok(show_some(&sorted_actions(program.actions.iter()), Lines::default()))
}

fn table_show_actions(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    Ok(show_some(&actions_of(&program, &table), Lines::default()))
}

fn table_info(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    let mut lines = Lines::default();
    let profile = profile_name(&program, &table);
    lines.say(output::table_line(&table, profile));
    lines.say("*".repeat(80));
    let Answer { text, json: actions, .. } = show_some(&actions_of(&program, &table), lines);
    let mut json = output::table_json(&table, profile);
    json["actions"] = actions;
    Ok(Answer { text, note: None, json })
}

fn set_default(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    let action = names::action_of(&program, &table, words[1])?;
    let data = parse::action_data(action, &words[2..])?;
    session.announce(format!("Setting default action of {}", words[0]));
    announce_action(session, words[1], &data);
    session.standard("bm_mt_set_default_action", vec![CXT, text(&table.name), text(&action.name), data])?;
    Ok(Answer { json: json!({"table": table.name, "action": action.name}), ..Answer::silent() })
}

/// A method that takes a table alone.
fn on_table(session: &mut Session, word: &str, method: &str) -> Result<Answer, CliError> {
    let (_, table) = table(session, word)?;
    session.standard(method, vec![CXT, text(&table.name)])?;
    Ok(Answer::silent())
}

fn num_entries(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (_, table) = table(session, words[0])?;
    let count = session.standard("bm_mt_get_num_entries", vec![CXT, text(&table.name)])?.int();
    Ok(Answer::line(count, json!(count)))
}

fn clear(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (_, table) = table(session, words[0])?;
    session.standard("bm_mt_clear_entries", vec![CXT, text(&table.name), Value::Bool(false)])?;
    Ok(Answer::silent())
}

/// Key words, then `=>`, then the others.
fn split_key<'a>(table: &Table, words: &'a [&'a str]) -> (&'a [&'a str], &'a [&'a str]) {
    match words.iter().position(|word| *word == "=>") {
        Some(at) => (&words[..at], &words[at + 1..]),
        // It may be left out where nothing follows, or nothing comes before.
        None => words.split_at(table.key.len().min(words.len())),
    }
}

fn add(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    let action = names::action_of(&program, &table, words[1])?;
    let mut rest = words[2..].to_vec();
    let options = parse::options(&table, &mut rest)?;
    let (key, args) = split_key(&table, &rest);
    let data = parse::action_data(action, args)?;
    let key = parse::key(&table, key)?;
    session.announce(format!("Adding entry to {} match table {}", output::table_kind(table.kind), words[0]));
    let shown: Vec<String> = key.items().iter().map(output::param).collect();
    session.announce(format!("{:20} {}", "match key:", shown.join("\t")));
    announce_action(session, words[1], &data);
    let args = vec![CXT, text(&table.name), key, text(&action.name), data, options];
    let handle = session.standard("bm_mt_add_entry", args)?.int();
    Ok(Answer::line(format!("Entry has been added with handle {handle}"), json!({"handle": handle})))
}

fn indirect_add(session: &mut Session, words: &[&str], group: bool) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    check_indirect(&program, &table, group)?;
    let mut rest = words[1..].to_vec();
    let options = parse::options(&table, &mut rest)?;
    let (key, handle) = split_key(&table, &rest);
    let [handle] = handle else {
        let what = if group { "group" } else { "member" };
        return Err(CliError::Input(format!(
            "one {what} handle must follow '=>', not {} words",
            handle.len()
        )));
    };
    let target = parse::handle(handle, "handle")?;
    let key = parse::key(&table, key)?;
    session.announce(format!("Adding entry to indirect match table {}", table.name));
    let method = if group { "bm_mt_indirect_ws_add_entry" } else { "bm_mt_indirect_add_entry" };
    let args = vec![CXT, text(&table.name), key, Value::I32(target), options];
    let handle = session.standard(method, args)?.int();
    Ok(Answer::line(format!("Entry has been added with handle {handle}"), json!({"handle": handle})))
}

/// That a table has an action profile, with a selector where groups are meant.
pub(super) fn check_indirect(program: &Program, table: &Table, group: bool) -> Result<(), CliError> {
    match profile_of(program, table) {
        None => Err(CliError::Input(format!(
            "table {} is not an indirect table: it has no action profile",
            table.name
        ))),
        Some(profile) if group && profile.selector.is_none() => Err(CliError::Input(format!(
            "the action profile {} of table {} has no selector",
            profile.name, table.name
        ))),
        Some(_) => Ok(()),
    }
}

fn indirect_set_default(session: &mut Session, words: &[&str], group: bool) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    check_indirect(&program, &table, group)?;
    let handle = Value::I32(parse::handle(words[1], "handle")?);
    let method =
        if group { "bm_mt_indirect_ws_set_default_group" } else { "bm_mt_indirect_set_default_member" };
    session.standard(method, vec![CXT, text(&table.name), handle])?;
    Ok(Answer::silent())
}

fn set_timeout(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    if !table.support_timeout {
        return Err(CliError::Input(format!("Table {} does not support entry timeouts", table.name)));
    }
    let handle = parse::handle(words[1], "entry handle")?;
    let timeout = parse::int32(words[2], "timeout")?;
    session.announce(format!("Setting a {timeout} ms timeout for entry {handle}"));
    let method = match profile_of(&program, &table) {
        None => "bm_mt_set_entry_ttl",
        Some(_) => "bm_mt_indirect_set_entry_ttl",
    };
    session.standard(method, vec![CXT, text(&table.name), Value::I32(handle), Value::I32(timeout)])?;
    Ok(Answer { json: json!({"handle": handle, "timeout_ms": timeout}), ..Answer::silent() })
}

fn modify(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    let action = names::action_of(&program, &table, words[1])?;
    let handle = parse::handle(words[2], "entry handle")?;
    let args = if words.get(3) == Some(&"=>") { &words[4..] } else { &words[3..] };
    let data = parse::action_data(action, args)?;
    let kind = output::table_kind(table.kind);
    session.announce(format!("Modifying entry {handle} for {kind} match table {}", words[0]));
    session.standard(
        "bm_mt_modify_entry",
        vec![CXT, text(&table.name), Value::I32(handle), text(&action.name), data],
    )?;
    Ok(Answer { json: json!({"handle": handle}), ..Answer::silent() })
}

fn delete(session: &mut Session, words: &[&str], method: &str) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    if method == "bm_mt_indirect_delete_entry" {
        check_indirect(&program, &table, false)?;
    }
    let handle = parse::handle(words[1], "entry handle")?;
    session.announce(format!("Deleting entry {handle} from {}", words[0]));
    session.standard(method, vec![CXT, text(&table.name), Value::I32(handle)])?;
    Ok(Answer { json: json!({"handle": handle}), ..Answer::silent() })
}

fn dump(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, table) = table(session, words[0])?;
    let entries = session.standard("bm_mt_get_entries", vec![CXT, text(&table.name)])?;
    let mut lines = Lines::default();
    lines.say("==========");
    lines.say("TABLE ENTRIES");
    let mut shown = Vec::with_capacity(entries.items().len());
    for entry in entries.items() {
        lines.say("**********");
        shown.push(output::entry(&mut lines, &table, entry));
    }
    let mut json = json!({"table": table.name, "entries": shown});
    if let Some(profile) = profile_of(&program, &table) {
        json["action_profile"] = dump_profile(session, profile, &mut lines)?;
    }
    let default = session.standard("bm_mt_get_default_entry", vec![CXT, text(&table.name)])?;
    lines.say("==========");
    lines.say("Dumping default entry");
    json["default"] = output::action_entry(&mut lines, &default);
    lines.say("==========");
    Ok(lines.answer(json))
}

fn dump_entry(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (_, table) = table(session, words[0])?;
    let handle = Value::I32(parse::handle(words[1], "entry handle")?);
    let entry = session.standard("bm_mt_get_entry", vec![CXT, text(&table.name), handle])?;
    let mut lines = Lines::default();
    let json = output::entry(&mut lines, &table, &entry);
    Ok(lines.answer(json))
}

fn dump_entry_from_key(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (_, table) = table(session, words[0])?;
    let mut rest = words[1..].to_vec();
    let options = parse::options(&table, &mut rest)?;
    let key = parse::key(&table, &rest)?;
    let entry = session.standard("bm_mt_get_entry_from_key", vec![CXT, text(&table.name), key, options])?;
    let mut lines = Lines::default();
    let json = output::entry(&mut lines, &table, &entry);
    Ok(lines.answer(json))
}

pub(super) const COMMANDS: &[Command] = &[
    command("show_tables", "", "list the program's tables and their keys", &[], exactly(0), show_tables),
    command(
        "show_actions",
        "",
        "list the program's actions and their parameters",
        &[],
        exactly(0),
        show_actions,
    ),
    command(
        "table_show_actions",
        "TABLE",
        "list a table's actions",
        &[Slot::Table],
        exactly(1),
        table_show_actions,
    ),
    command("table_info", "TABLE", "show a table's key and actions", &[Slot::Table], exactly(1), table_info),
    command(
        "table_set_default",
        "TABLE ACTION ARGUMENTS…",
        "set a table's default action",
        &[Slot::Table, Slot::Action],
        at_least(2),
        set_default,
    ),
    command(
        "table_reset_default",
        "TABLE",
        "set a table's default entry back to the program's",
        &[Slot::Table],
        exactly(1),
        |session, words| on_table(session, words[0], "bm_mt_reset_default_entry"),
    ),
    command(
        "table_num_entries",
        "TABLE",
        "how many entries a table has",
        &[Slot::Table],
        exactly(1),
        num_entries,
    ),
    command(
        "table_clear",
        "TABLE",
        "delete all entries of a table, but not the default entry",
        &[Slot::Table],
        exactly(1),
        clear,
    ),
    command(
        "table_add",
        "TABLE ACTION KEY… => ARGUMENTS… [PRIORITY]",
        "add an entry; a key field is a value, PREFIX/LENGTH, VALUE&&&MASK or LOW->HIGH; priority 0 wins",
        &[Slot::Table, Slot::Action],
        at_least(2),
        add,
    ),
    command(
        "table_set_timeout",
        "TABLE HANDLE MILLISECONDS",
        "let an entry age: a notification when it was not hit for so long",
        &[Slot::Table],
        exactly(3),
        set_timeout,
    ),
    command(
        "table_modify",
        "TABLE ACTION HANDLE ARGUMENTS…",
        "give an entry another action or other arguments",
        &[Slot::Table, Slot::Action],
        at_least(3),
        modify,
    ),
    command(
        "table_delete",
        "TABLE HANDLE",
        "delete an entry",
        &[Slot::Table],
        exactly(2),
        |session, words| delete(session, words, "bm_mt_delete_entry"),
    ),
    command(
        "table_indirect_add",
        "TABLE KEY… => MEMBER [PRIORITY]",
        "add an entry that points at a member",
        &[Slot::IndirectTable],
        at_least(2),
        |session, words| indirect_add(session, words, false),
    ),
    command(
        "table_indirect_add_with_group",
        "TABLE KEY… => GROUP [PRIORITY]",
        "add an entry that points at a group",
        &[Slot::IndirectTable],
        at_least(2),
        |session, words| indirect_add(session, words, true),
    ),
    command(
        "table_indirect_delete",
        "TABLE HANDLE",
        "delete an entry of an indirect table",
        &[Slot::IndirectTable],
        exactly(2),
        |session, words| delete(session, words, "bm_mt_indirect_delete_entry"),
    ),
    command(
        "table_indirect_set_default",
        "TABLE MEMBER",
        "set an indirect table's default entry to a member",
        &[Slot::IndirectTable],
        exactly(2),
        |session, words| indirect_set_default(session, words, false),
    ),
    command(
        "table_indirect_set_default_with_group",
        "TABLE GROUP",
        "set an indirect table's default entry to a group",
        &[Slot::IndirectTable],
        exactly(2),
        |session, words| indirect_set_default(session, words, true),
    ),
    command(
        "table_indirect_reset_default",
        "TABLE",
        "set an indirect table's default entry back to the program's",
        &[Slot::IndirectTable],
        exactly(1),
        |session, words| on_table(session, words[0], "bm_mt_indirect_reset_default_entry"),
    ),
    command(
        "table_dump",
        "TABLE",
        "show a table's entries, its action profile, and its default entry",
        &[Slot::Table],
        exactly(1),
        dump,
    ),
    command("table_dump_entry", "TABLE HANDLE", "show an entry", &[Slot::Table], exactly(2), dump_entry),
    command(
        "table_dump_entry_from_key",
        "TABLE KEY… [PRIORITY]",
        "show the entry of a key",
        &[Slot::Table],
        at_least(1),
        dump_entry_from_key,
    ),
];
