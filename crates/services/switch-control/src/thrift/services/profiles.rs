//! `standard`: action profiles.

use super::{CXT, PROFILE_NAME, done, method, program};
use crate::thrift::Context;
use crate::thrift::codec::Value;
use crate::thrift::convert::{group_to, member_to, profile_call_from};
use crate::thrift::errors::{Refusal, Throws};
use crate::thrift::schema::{Args, Field, Method, Ty, field};
use crate::thrift::types::{ACTION_DATA, GROUP, MEMBER};
use barewire_p4::ir::ProfileId;
use barewire_switch::control::ErrorKind;

const MEMBER_HANDLE: Field = field(3, "mbr_handle", Ty::I32);
const GROUP_HANDLE: Field = field(3, "grp_handle", Ty::I32);
const ITS_GROUP: Field = field(4, "grp_handle", Ty::I32);

fn profile(context: &Context, args: &Args) -> Result<ProfileId, Refusal> {
    Ok(context.switch.profile(args.text(1))?)
}

/// A profile with groups.
fn with_groups(context: &Context, args: &Args) -> Result<ProfileId, Refusal> {
    let id = profile(context, args)?;
    let program = program(context)?;
    match program.profiles.get(id.at()) {
        Some(profile) if profile.selector.is_none() => Err(Refusal::kind(
            ErrorKind::NoActionProfileSelection,
            format!("action profile {} has no selector, so no groups", profile.name),
        )),
        _ => Ok(id),
    }
}

pub(super) static METHODS: &[Method] = &[
    method(
        "bm_mt_act_prof_add_member",
        &[CXT, PROFILE_NAME, field(3, "action_name", Ty::Text), field(4, "action_data", ACTION_DATA)],
        Ty::I32,
        Throws::Table,
        |c, a| {
            let id = profile(c, a)?;
            let call = profile_call_from(&c.switch, id, a.text(2), a.get(3))?;
            Ok(Value::I32(c.switch.add_member(id, call)? as i32))
        },
    ),
    method(
        "bm_mt_act_prof_delete_member",
        &[CXT, PROFILE_NAME, MEMBER_HANDLE],
        Ty::Void,
        Throws::Table,
        |c, a| {
            c.switch.delete_member(profile(c, a)?, a.u32(2))?;
            done()
        },
    ),
    method(
        "bm_mt_act_prof_modify_member",
        &[
            CXT,
            PROFILE_NAME,
            MEMBER_HANDLE,
            field(4, "action_name", Ty::Text),
            field(5, "action_data", ACTION_DATA),
        ],
        Ty::Void,
        Throws::Table,
        |c, a| {
            let id = profile(c, a)?;
            let call = profile_call_from(&c.switch, id, a.text(3), a.get(4))?;
            c.switch.modify_member(id, a.u32(2), call)?;
            done()
        },
    ),
    method("bm_mt_act_prof_create_group", &[CXT, PROFILE_NAME], Ty::I32, Throws::Table, |c, a| {
        Ok(Value::I32(c.switch.create_group(with_groups(c, a)?)? as i32))
    }),
    method(
        "bm_mt_act_prof_delete_group",
        &[CXT, PROFILE_NAME, GROUP_HANDLE],
        Ty::Void,
        Throws::Table,
        |c, a| {
            c.switch.delete_group(with_groups(c, a)?, a.u32(2))?;
            done()
        },
    ),
    method(
        "bm_mt_act_prof_add_member_to_group",
        &[CXT, PROFILE_NAME, MEMBER_HANDLE, ITS_GROUP],
        Ty::Void,
        Throws::Table,
        |c, a| {
            c.switch.add_to_group(with_groups(c, a)?, a.u32(2), a.u32(3))?;
            done()
        },
    ),
    method(
        "bm_mt_act_prof_remove_member_from_group",
        &[CXT, PROFILE_NAME, MEMBER_HANDLE, ITS_GROUP],
        Ty::Void,
        Throws::Table,
        |c, a| {
            c.switch.remove_from_group(with_groups(c, a)?, a.u32(2), a.u32(3))?;
            done()
        },
    ),
    method(
        "bm_mt_act_prof_get_members",
        &[CXT, PROFILE_NAME],
        Ty::List(&Ty::Struct(&MEMBER)),
        Throws::Table,
        |c, a| {
            let id = profile(c, a)?;
            let program = program(c)?;
            let members = c.switch.members(id)?;
            Ok(Value::structs(members.iter().map(|member| member_to(&program, member)).collect()))
        },
    ),
    method(
        "bm_mt_act_prof_get_member",
        &[CXT, PROFILE_NAME, MEMBER_HANDLE],
        Ty::Struct(&MEMBER),
        Throws::Table,
        |c, a| {
            let member = c.switch.member(profile(c, a)?, a.u32(2))?;
            Ok(member_to(&*program(c)?, &member))
        },
    ),
    method(
        "bm_mt_act_prof_get_groups",
        &[CXT, PROFILE_NAME],
        Ty::List(&Ty::Struct(&GROUP)),
        Throws::Table,
        |c, a| {
            let groups = c.switch.groups(with_groups(c, a)?)?;
            Ok(Value::structs(groups.iter().map(group_to).collect()))
        },
    ),
    method(
        "bm_mt_act_prof_get_group",
        &[CXT, PROFILE_NAME, GROUP_HANDLE],
        Ty::Struct(&GROUP),
        Throws::Table,
        |c, a| Ok(group_to(&c.switch.group(with_groups(c, a)?, a.u32(2))?)),
    ),
];
