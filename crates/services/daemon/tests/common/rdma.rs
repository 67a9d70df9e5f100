//! Daemons with RDMA, and connections between contexts.

use super::{Folder, PATIENCE, Pair, config, v4};
use barewire_daemon::{Config, Daemon};
use barewire_roce::Access;
use barewire_verbs::context::{
    AttachError, ConnectTo, Context, ContextConfig, ContextError, Cq, Event, Mr, Pd, Qp, QpAttr, Wc,
};
use std::path::Path;

/// Host 1 and host 2 with RDMA, and a cable between them.
pub fn rdma_pair() -> Pair {
    rdma_pair_with(|_| {})
}

pub fn rdma_pair_with(change: impl Fn(&mut Config)) -> Pair {
    super::pair_with(|config| {
        config.rdma.enabled = true;
        change(config);
    })
}

/// A daemon alone on its cable.
pub fn rdma_alone() -> (Daemon, Folder) {
    let dir = Folder::new("daemon");
    let mut config = config(dir.path(), &format!("mem:{}", dir.path().display()), 1);
    config.rdma.enabled = true;
    (Daemon::start(&config).unwrap(), dir)
}

pub fn open(daemon: &Daemon, name: &str) -> Context {
    open_at(daemon.socket(), name).unwrap()
}

pub fn open_at(socket: &Path, name: &str) -> Result<Context, AttachError> {
    let mut config = ContextConfig::new(name);
    config.socket = socket.to_owned();
    config.timeout = PATIENCE;
    Context::open_with(&config)
}

/// One application's side of a connection, with what it needs for it.
pub struct End {
    pub context: Context,
    pub pd: Pd,
    pub cq: Cq,
    pub qp: Qp,
    pub mr: Mr,
}

impl End {
    pub fn new(daemon: &Daemon, name: &str, bytes: usize) -> End {
        End::of(open(daemon, name), bytes).unwrap()
    }

    /// What a connection needs, in a context; the daemon may be gone meanwhile.
    pub fn of(mut context: Context, bytes: usize) -> Result<End, ContextError> {
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(1024)?;
        let qp = context.create_qp(&QpAttr::new(pd, cq))?;
        let mr = context.reg_mr(pd, bytes, Access::ALL)?;
        Ok(End { context, pd, cq, qp, mr })
    }

    /// The next completion, which must be a success.
    pub fn done(&mut self) -> Wc {
        self.context.wait_cq(self.cq, PATIENCE).unwrap()
    }
}

/// Connects two ends: the first asks, the second, at host `host`, accepts.
pub fn join(client: &mut End, server: &mut End, host: u8, service_id: u64) {
    let listener = server.context.listen(service_id, 16).unwrap();
    let to = ConnectTo { private: b"hello", ..ConnectTo::new(v4(host).into(), service_id) };
    let asked = client.context.start_connect(client.qp, &to, PATIENCE).unwrap();
    let request = server.context.get_request(listener, PATIENCE).unwrap();
    assert_eq!((request.private.as_slice(), request.service_id), (&b"hello"[..], service_id));
    server.context.accept(&request, server.qp, &[7; 100]).unwrap();
    match client.context.wait_event(PATIENCE).unwrap() {
        Event::Connected { conn, qp, private } => {
            assert_eq!((conn, qp, private), (asked, client.qp, vec![7; 100]));
        }
        other => panic!("instead of a connection: {other:?}"),
    }
    server.context.wait_established(server.qp, PATIENCE).unwrap();
    server.context.unlisten(listener).unwrap();
}

/// Two applications, one on each daemon, connected.
pub fn joined(pair: &Pair, name: &str, service_id: u64, bytes: usize) -> (End, End) {
    let mut client = End::new(&pair.a, name, bytes);
    let mut server = End::new(&pair.b, name, bytes);
    join(&mut client, &mut server, 2, service_id);
    (client, server)
}
