//! The services on the port, one table of methods each.

mod barewire;
mod device;
mod multicast;
mod profiles;
mod simple_switch;
mod state;
mod tables;

use super::Context;
use super::codec::Value;
use super::errors::{Refusal, Throws};
use super::schema::{Field, Handler, Method, Service, Ty, field, optional};
use ::barewire_p4::ir::Program;
use ::barewire_switch::control::ErrorKind;
use std::sync::Arc;

/// The context of bmv2's multi-context switches: ours has one, 0.
pub(super) const CONTEXT_ARG: &str = "cxt_id";
const CXT: Field = optional(1, CONTEXT_ARG, Ty::I32);
const TABLE_NAME: Field = field(2, "table_name", Ty::Text);
const PROFILE_NAME: Field = field(2, "act_prof_name", Ty::Text);
const ENTRY: Field = field(3, "entry_handle", Ty::I32);

const fn method(
    name: &'static str,
    args: &'static [Field],
    returns: Ty,
    throws: Throws,
    run: Handler,
) -> Method {
    Method { name, args, returns, throws, run }
}

/// `standard`: tables, action profiles, arrays, ports, the program.
pub static STANDARD: Service = Service {
    name: "standard",
    parts: &[tables::METHODS, profiles::METHODS, state::METHODS, device::METHODS],
};
/// `simple_pre`: replication without LAGs.
pub static SIMPLE_PRE: Service = Service { name: "simple_pre", parts: &[multicast::SIMPLE_PRE] };
/// `simple_pre_lag`: replication with LAGs.
pub static SIMPLE_PRE_LAG: Service = Service { name: "simple_pre_lag", parts: &[multicast::SIMPLE_PRE_LAG] };
/// `simple_switch`: mirror sessions, queues, time.
pub static SIMPLE_SWITCH: Service = Service { name: "simple_switch", parts: &[simple_switch::SIMPLE_SWITCH] };
/// `psa_switch`: the same without priorities.
pub static PSA_SWITCH: Service = Service { name: "psa_switch", parts: &[simple_switch::PSA_SWITCH] };
/// `barewire`: what bmv2's interface cannot say.
pub static BAREWIRE: Service = Service { name: "barewire", parts: &[barewire::METHODS] };

/// All of them.
pub static SERVICES: [&Service; 6] =
    [&STANDARD, &SIMPLE_PRE, &SIMPLE_PRE_LAG, &SIMPLE_SWITCH, &PSA_SWITCH, &BAREWIRE];

/// The running program.
fn program(context: &Context) -> Result<Arc<Program>, Refusal> {
    context.switch.program().ok_or_else(|| Refusal::kind(ErrorKind::Other, "no program is loaded yet"))
}

/// Done, with nothing to say.
fn done() -> Result<Value, Refusal> {
    Ok(super::schema::NOTHING)
}
