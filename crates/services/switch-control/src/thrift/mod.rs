//! bmv2's Thrift interface: what p4lang's command line, p4-utils and Mininet's switch classes talk to.
//!
//! What flows through here: [`server`] takes connections and reads messages with [`codec`]; a message names
//! `service:method`, which is looked up in [`services`]; its arguments are checked against the method's types
//! ([`schema`]); the handler calls [`Switch`], converting by [`convert`]; result or refusal ([`errors`]) goes back.
//! [`client`] builds calls from the same tables, for our own command line, which so works with a bmv2 too.

pub mod client;
pub mod codec;
pub mod convert;
pub mod errors;
pub mod schema;
pub mod server;
pub mod services;
pub mod types;

pub use client::{CallError, Calls, Client, Local};
pub use server::{Server, ServerOptions, ServerStats};

use barewire_switch::control::Switch;
use codec::{Message, MessageType, Value};
use errors::{Refusal, application};
use schema::{Args, Method, Ty};

/// What handlers work on.
pub struct Context {
    /// The switch.
    pub switch: Switch,
    /// The port that calls come in on, when it is a server's.
    pub port: Option<u16>,
}

/// The method that a message names.
fn look_up(name: &str) -> Result<&'static Method, Refusal> {
    let unknown = |why: String| Refusal::Application(application::UNKNOWN_METHOD, why);
    let Some((service, method)) = name.split_once(':') else {
        return Err(unknown(format!("'{name}' names no service: calls here are to 'service:method'")));
    };
    let Some(found) = services::SERVICES.iter().find(|known| known.name == service) else {
        let near = crate::nearest(service, services::SERVICES.iter().map(|known| known.name));
        return Err(unknown(format!("no service '{service}'{near}")));
    };
    found.method(method).ok_or_else(|| {
        let near = crate::nearest(method, found.methods().map(|known| known.name));
        unknown(format!("service {service} has no method '{method}'{near}"))
    })
}

/// Run a method.
fn run(context: &Context, method: &Method, body: Value) -> Result<Value, Refusal> {
    let args = Args::check(method, body)?;
    if method.args.first().is_some_and(|arg| arg.name == services::CONTEXT_ARG) && args.int(0) != 0 {
        return Err(Refusal::other(format!("context {} does not exist: there is one, 0", args.int(0))));
    }
    (method.run)(context, &args)
}

/// Answer a message; a one-way call has no answer. Anything but a call is refused.
pub fn answer(context: &Context, message: Message) -> Option<Message> {
    let Message { name, kind, sequence, body } = message;
    if !matches!(kind, MessageType::Call | MessageType::Oneway) {
        let refusal =
            Refusal::Application(application::INVALID_MESSAGE_TYPE, "only calls are answered".into());
        let (kind, body) = refusal.into_reply(errors::Throws::Nothing);
        return Some(Message { name, kind, sequence, body });
    }
    let (reply, body) = match look_up(&name) {
        Err(refusal) => refusal.into_reply(errors::Throws::Nothing),
        Ok(method) => match run(context, method, body) {
            Err(refusal) => refusal.into_reply(method.throws),
            Ok(_) if matches!(method.returns, Ty::Void) => (MessageType::Reply, schema::NOTHING),
            Ok(result) => (MessageType::Reply, Value::Struct(vec![(0, result)])),
        },
    };
    // The answer bears the method's name alone: the multiplexing client took the service off.
    let name = name.split_once(':').map_or(name.as_str(), |(_, method)| method).to_owned();
    (kind == MessageType::Call).then_some(Message { name, kind: reply, sequence, body })
}
