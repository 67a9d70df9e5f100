//! A switch that runs the control-plane program of `fixtures`, with a Thrift server before it.
#![allow(dead_code, reason = "each test file uses its part")]

use barewire_switch::control::{Switch, SwitchConfig};
use barewire_switch::prepared::{EngineKind, prepare};
use barewire_switch::server::{Server, ServerConfig};
use barewire_switch_control::thrift::codec::Value;
use barewire_switch_control::thrift::schema::Service;
use barewire_switch_control::thrift::{CallError, Calls, Client, Server as ThriftServer, ServerOptions};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A program with every kind of object that a control plane can name.
pub const PROGRAM: &str = include_str!("../fixtures/control.json");

pub struct Rig {
    pub server: Server,
    pub thrift: ThriftServer,
}

impl Rig {
    pub fn start() -> Rig {
        Rig::with(ServerOptions::default())
    }

    pub fn with(options: ServerOptions) -> Rig {
        let control = SwitchConfig {
            device_id: 7,
            enable_swap: true,
            engine: EngineKind::Interpreter,
            notifications_addr: "ipc:///nowhere".into(),
            // Other programs may keep the engine from its core.
            answer_timeout: Duration::from_secs(60),
            ..SwitchConfig::default()
        };
        let prepared = Arc::new(prepare(PROGRAM, EngineKind::Interpreter).expect("the fixture is a program"));
        let server = Server::start(ServerConfig { control, ..ServerConfig::default() }, Some(prepared))
            .expect("a switch without ports starts");
        let thrift = ThriftServer::start("127.0.0.1:0", server.switch().clone(), options)
            .expect("a free port on loopback");
        Rig { server, thrift }
    }

    pub fn switch(&self) -> &Switch {
        self.server.switch()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.thrift.local_addr(), Duration::from_secs(10)).expect("the server listens")
    }

    pub fn script(&self) -> Script {
        Script { client: self.client(), called: BTreeSet::new() }
    }

    pub fn stop(self) {
        self.thrift.stop();
        self.server.stop().expect("no engine died");
    }
}

/// A client that remembers what it called.
pub struct Script {
    client: Client,
    pub called: BTreeSet<(&'static str, String)>,
}

impl Script {
    pub fn call(
        &mut self,
        service: &'static Service,
        method: &str,
        args: Vec<Value>,
    ) -> Result<Value, CallError> {
        self.called.insert((service.name, method.to_owned()));
        self.client.call(service, method, args)
    }

    /// A call that must be done.
    pub fn done(&mut self, service: &'static Service, method: &str, args: Vec<Value>) -> Value {
        let shown = format!("{method}{args:?}");
        self.call(service, method, args).unwrap_or_else(|error| panic!("{shown}: {error}"))
    }

    /// The name of the code a call must be refused with.
    pub fn refused(&mut self, service: &'static Service, method: &str, args: Vec<Value>) -> &'static str {
        let shown = format!("{method}{args:?}");
        match self.call(service, method, args) {
            Err(CallError::Refused { throws, code, message }) => {
                assert!(!message.is_empty(), "{shown}: a refusal without a reason");
                throws.name_of(code)
            }
            other => panic!("{shown}: refused with a code was expected, not {other:?}"),
        }
    }
}
