//! Calls to a switch: ours or a bmv2, over TCP, or one in this process.

use super::codec::{CodecError, Limits, Message, MessageType, Value, read_message, write_message};
use super::errors::{CODE, MESSAGE, Throws};
use super::schema::{Method, Service, Ty, conform, wire_of};
use super::{Context, answer};
use barewire_switch::control::Switch;
use std::io::{self, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum CallError {
    /// The switch refused, by the method's exception.
    #[error("Invalid {} ({}){}", throws.operation(), throws.name_of(*code), detail(message))]
    Refused { throws: Throws, code: i32, message: String },
    /// The switch refused, by Thrift's own exception.
    #[error("{0}")]
    Application(String),
    /// The connection is gone, or what came is no answer.
    #[error("the switch does not answer: {0}")]
    Connection(#[from] CodecError),
    /// The answer does not have the shape that the method declares.
    #[error("{method}: the switch's answer is not understood: {why}")]
    Answer { method: &'static str, why: String },
}

fn detail(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// A way to call.
pub trait Calls {
    /// Send a message and wait for its answer.
    fn exchange(&mut self, message: Message) -> Result<Message, CallError>;

    /// Call a method with its arguments in order.
    fn call(&mut self, service: &Service, method: &str, args: Vec<Value>) -> Result<Value, CallError> {
        let Some(method) = service.method(method) else {
            return Err(CallError::Application(format!("service {} has no method '{method}'", service.name)));
        };
        debug_assert_eq!(args.len(), method.args.len(), "{}", method.name);
        debug_assert!(
            args.iter().zip(method.args).all(|(value, arg)| value.wire_type() == wire_of(arg.ty)),
            "{}: {args:?}",
            method.name
        );
        let fields = method.args.iter().map(|arg| arg.id).zip(args).collect();
        let reply = self.exchange(Message {
            name: format!("{}:{}", service.name, method.name),
            kind: MessageType::Call,
            sequence: 0,
            body: Value::Struct(fields),
        })?;
        result_of(method, reply)
    }
}

fn result_of(method: &'static Method, reply: Message) -> Result<Value, CallError> {
    let not_understood = |why: String| CallError::Answer { method: method.name, why };
    match reply.kind {
        MessageType::Exception => {
            let message = reply.body.field(1).map(Value::lossy).unwrap_or_default();
            let code = reply.body.field(2).map_or(0, Value::int);
            let message = if message.is_empty() { format!("Thrift exception {code}") } else { message };
            return Err(CallError::Application(message));
        }
        MessageType::Reply => {}
        other => return Err(not_understood(format!("a message of type {other:?}"))),
    }
    if let Some(exception) = reply.body.field(1) {
        return Err(CallError::Refused {
            throws: method.throws,
            code: exception.field(CODE).map_or(0, Value::int) as i32,
            message: exception.field(MESSAGE).map(Value::lossy).unwrap_or_default(),
        });
    }
    if matches!(method.returns, Ty::Void) {
        return Ok(super::schema::NOTHING);
    }
    let Value::Struct(fields) = reply.body else { return Err(not_understood("no struct".into())) };
    let result = fields.into_iter().find(|(id, _)| *id == 0).map(|(_, value)| value);
    let result = result.ok_or_else(|| not_understood("it has no result".into()))?;
    conform(result, method.returns).map_err(|wrong| not_understood(wrong.to_string()))
}

/// A connection to a switch.
pub struct Client {
    from: BufReader<TcpStream>,
    sequence: i32,
}

impl Client {
    /// Connect. Calls wait for answers up to `timeout` (dumps of large tables take their time).
    pub fn connect(address: impl ToSocketAddrs, timeout: Duration) -> io::Result<Client> {
        let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    return Ok(Client { from: BufReader::new(stream), sequence: 0 });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Calls for Client {
    fn exchange(&mut self, mut message: Message) -> Result<Message, CallError> {
        self.sequence = self.sequence.wrapping_add(1);
        message.sequence = self.sequence;
        let mut bytes = Vec::new();
        write_message(&mut bytes, &message);
        self.from.get_mut().write_all(&bytes).map_err(CodecError::Io)?;
        let reply = read_message(&mut self.from, Limits::REPLY)?;
        if reply.sequence != self.sequence {
            // The answer to a call that was given up: what follows cannot be told apart any more.
            let late = io::Error::other(format!("answer {} to call {}", reply.sequence, self.sequence));
            return Err(CodecError::Io(late).into());
        }
        Ok(reply)
    }
}

/// A switch in this process.
pub struct Local(Context);

impl Local {
    /// Call this switch.
    pub fn new(switch: Switch) -> Local {
        Local(Context { switch, port: None })
    }
}

impl Calls for Local {
    fn exchange(&mut self, message: Message) -> Result<Message, CallError> {
        answer(&self.0, message).ok_or_else(|| CallError::Application("a one-way call has no answer".into()))
    }
}
