//! Commands on action profiles, and their older forms that name a table instead of the profile.

use super::tables::check_indirect;
use super::{CXT, Command, Run, Slot, at_least, command, exactly, text};
use crate::cli::names::{self, profile_of, tables_of};
use crate::cli::output::{self, Answer, Lines};
use crate::cli::{CliError, Session, parse};
use crate::thrift::codec::Value;
use barewire_p4::ir::{ActionProfile, Program};
use serde_json::{Value as Json, json};
use std::sync::Arc;

fn profile(session: &Session, word: &str) -> Result<(Arc<Program>, ActionProfile), CliError> {
    let program = session.program()?;
    let profile = names::profile(&program, word)?.clone();
    Ok((program, profile))
}

fn with_groups(session: &Session, word: &str) -> Result<ActionProfile, CliError> {
    let (_, profile) = profile(session, word)?;
    if profile.selector.is_none() {
        return Err(CliError::Input(format!(
            "action profile {} has no selector, so no groups",
            profile.name
        )));
    }
    Ok(profile)
}

fn handle(word: &str, what: &str) -> Result<Value, CliError> {
    Ok(Value::I32(parse::handle(word, what)?))
}

fn create_member(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, profile) = profile(session, words[0])?;
    let action = names::action_of_profile(&program, &profile, words[1])?;
    let data = parse::action_data(action, &words[2..])?;
    let args = vec![CXT, text(&profile.name), text(&action.name), data];
    let member = session.standard("bm_mt_act_prof_add_member", args)?.int();
    Ok(Answer::line(format!("Member has been created with handle {member}"), json!({"member": member})))
}

fn delete_member(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (_, profile) = profile(session, words[0])?;
    let member = handle(words[1], "member handle")?;
    session.standard("bm_mt_act_prof_delete_member", vec![CXT, text(&profile.name), member])?;
    Ok(Answer::silent())
}

fn modify_member(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (program, profile) = profile(session, words[0])?;
    let action = names::action_of_profile(&program, &profile, words[1])?;
    let member = handle(words[2], "member handle")?;
    let args = if words.get(3) == Some(&"=>") { &words[4..] } else { &words[3..] };
    let data = parse::action_data(action, args)?;
    session.standard(
        "bm_mt_act_prof_modify_member",
        vec![CXT, text(&profile.name), member, text(&action.name), data],
    )?;
    Ok(Answer::silent())
}

fn create_group(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let profile = with_groups(session, words[0])?;
    let group = session.standard("bm_mt_act_prof_create_group", vec![CXT, text(&profile.name)])?.int();
    Ok(Answer::line(format!("Group has been created with handle {group}"), json!({"group": group})))
}

fn delete_group(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let profile = with_groups(session, words[0])?;
    let group = handle(words[1], "group handle")?;
    session.standard("bm_mt_act_prof_delete_group", vec![CXT, text(&profile.name), group])?;
    Ok(Answer::silent())
}

fn membership(session: &mut Session, words: &[&str], method: &str) -> Result<Answer, CliError> {
    let profile = with_groups(session, words[0])?;
    let (member, group) = (handle(words[1], "member handle")?, handle(words[2], "group handle")?);
    session.standard(method, vec![CXT, text(&profile.name), member, group])?;
    Ok(Answer::silent())
}

fn add_to_group(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    membership(session, words, "bm_mt_act_prof_add_member_to_group")
}

fn remove_from_group(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    membership(session, words, "bm_mt_act_prof_remove_member_from_group")
}

/// All members and groups.
pub(super) fn dump_profile(
    session: &mut Session,
    profile: &ActionProfile,
    lines: &mut Lines,
) -> Result<Json, CliError> {
    let members = session.standard("bm_mt_act_prof_get_members", vec![CXT, text(&profile.name)])?;
    lines.say("==========");
    lines.say("MEMBERS");
    let mut shown = Vec::with_capacity(members.items().len());
    for member in members.items() {
        lines.say("**********");
        shown.push(output::member(lines, member));
    }
    let mut json = json!({"action_profile": profile.name, "members": shown});
    if profile.selector.is_some() {
        let groups = session.standard("bm_mt_act_prof_get_groups", vec![CXT, text(&profile.name)])?;
        lines.say("==========");
        lines.say("GROUPS");
        let mut shown = Vec::with_capacity(groups.items().len());
        for group in groups.items() {
            lines.say("**********");
            shown.push(output::group(lines, group));
        }
        json["groups"] = shown.into();
    }
    Ok(json)
}

fn dump(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (_, profile) = profile(session, words[0])?;
    let mut lines = Lines::default();
    let json = dump_profile(session, &profile, &mut lines)?;
    Ok(lines.answer(json))
}

fn dump_member(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (_, profile) = profile(session, words[0])?;
    let member = handle(words[1], "member handle")?;
    let member = session.standard("bm_mt_act_prof_get_member", vec![CXT, text(&profile.name), member])?;
    let mut lines = Lines::default();
    let json = output::member(&mut lines, &member);
    Ok(lines.answer(json))
}

fn dump_group(session: &mut Session, words: &[&str]) -> Result<Answer, CliError> {
    let (_, profile) = profile(session, words[0])?;
    let group = handle(words[1], "group handle")?;
    let group = session.standard("bm_mt_act_prof_get_group", vec![CXT, text(&profile.name), group])?;
    let mut lines = Lines::default();
    let json = output::group(&mut lines, &group);
    Ok(lines.answer(json))
}

/// The older form of a command: its first word is a table, whose profile is meant.
fn by_table(
    session: &mut Session,
    words: &[&str],
    groups: bool,
    instead: Option<&str>,
    run: Run,
) -> Result<Answer, CliError> {
    let program = session.program()?;
    let table = names::table(&program, words[0])?;
    check_indirect(&program, table, groups)?;
    let Some(profile) = profile_of(&program, table) else { return Ok(Answer::silent()) };
    if instead.is_some() && tables_of(&program, profile).count() > 1 {
        return Err(CliError::Input(format!(
            "several tables share the action profile {}: name it instead of the table",
            profile.name
        )));
    }
    let mut words = words.to_vec();
    words[0] = &profile.name;
    let mut answer = run(session, &words)?;
    answer.note = instead.map(|instead| format!("This is a deprecated command, use '{instead}' instead"));
    Ok(answer)
}

const DEPRECATED: &str =
    "older form of the act_prof command of the same meaning, for a table's action profile";

pub(super) const COMMANDS: &[Command] = &[
    command(
        "act_prof_create_member",
        "PROFILE ACTION ARGUMENTS…",
        "make a member of an action profile",
        &[Slot::Profile, Slot::ProfileAction],
        at_least(2),
        create_member,
    ),
    command(
        "act_prof_delete_member",
        "PROFILE MEMBER",
        "delete a member",
        &[Slot::Profile],
        exactly(2),
        delete_member,
    ),
    command(
        "act_prof_modify_member",
        "PROFILE ACTION MEMBER ARGUMENTS…",
        "give a member another action or other arguments",
        &[Slot::Profile, Slot::ProfileAction],
        at_least(3),
        modify_member,
    ),
    command("act_prof_create_group", "PROFILE", "make a group", &[Slot::Profile], exactly(1), create_group),
    command(
        "act_prof_delete_group",
        "PROFILE GROUP",
        "delete a group",
        &[Slot::Profile],
        exactly(2),
        delete_group,
    ),
    command(
        "act_prof_add_member_to_group",
        "PROFILE MEMBER GROUP",
        "put a member into a group",
        &[Slot::Profile],
        exactly(3),
        add_to_group,
    ),
    command(
        "act_prof_remove_member_from_group",
        "PROFILE MEMBER GROUP",
        "take a member out of a group",
        &[Slot::Profile],
        exactly(3),
        remove_from_group,
    ),
    command(
        "act_prof_dump",
        "PROFILE",
        "show an action profile's members and groups",
        &[Slot::Profile],
        exactly(1),
        dump,
    ),
    command(
        "act_prof_dump_member",
        "PROFILE MEMBER",
        "show a member",
        &[Slot::Profile],
        exactly(2),
        dump_member,
    ),
    command("act_prof_dump_group", "PROFILE GROUP", "show a group", &[Slot::Profile], exactly(2), dump_group),
    command(
        "table_indirect_create_member",
        "TABLE ACTION ARGUMENTS…",
        DEPRECATED,
        &[Slot::IndirectTable, Slot::Action],
        at_least(2),
        |session, words| by_table(session, words, false, Some("act_prof_create_member"), create_member),
    ),
    command(
        "table_indirect_delete_member",
        "TABLE MEMBER",
        DEPRECATED,
        &[Slot::IndirectTable],
        exactly(2),
        |session, words| by_table(session, words, false, Some("act_prof_delete_member"), delete_member),
    ),
    command(
        "table_indirect_modify_member",
        "TABLE ACTION MEMBER ARGUMENTS…",
        DEPRECATED,
        &[Slot::IndirectTable, Slot::Action],
        at_least(3),
        |session, words| by_table(session, words, false, Some("act_prof_modify_member"), modify_member),
    ),
    command(
        "table_indirect_create_group",
        "TABLE",
        DEPRECATED,
        &[Slot::IndirectTable],
        exactly(1),
        |session, words| by_table(session, words, true, Some("act_prof_create_group"), create_group),
    ),
    command(
        "table_indirect_delete_group",
        "TABLE GROUP",
        DEPRECATED,
        &[Slot::IndirectTable],
        exactly(2),
        |session, words| by_table(session, words, true, Some("act_prof_delete_group"), delete_group),
    ),
    command(
        "table_indirect_add_member_to_group",
        "TABLE MEMBER GROUP",
        DEPRECATED,
        &[Slot::IndirectTable],
        exactly(3),
        |session, words| by_table(session, words, true, Some("act_prof_add_member_to_group"), add_to_group),
    ),
    command(
        "table_indirect_remove_member_from_group",
        "TABLE MEMBER GROUP",
        DEPRECATED,
        &[Slot::IndirectTable],
        exactly(3),
        |session, words| {
            by_table(session, words, true, Some("act_prof_remove_member_from_group"), remove_from_group)
        },
    ),
    command(
        "table_dump_member",
        "TABLE MEMBER",
        "show a member of a table's action profile",
        &[Slot::IndirectTable],
        exactly(2),
        |session, words| by_table(session, words, false, None, dump_member),
    ),
    command(
        "table_dump_group",
        "TABLE GROUP",
        "show a group of a table's action profile",
        &[Slot::IndirectTable],
        exactly(2),
        |session, words| by_table(session, words, false, None, dump_group),
    ),
];
