//! The message service with futures, for tokio.
//!
//! [`AsyncClient`] is a channel to the daemon that any number of tasks and threads share. One task of its own sleeps on the
//! channel's descriptor and wakes whom an event is for; who finds its event there already does not wait for that task. Nothing
//! polls: an idle client costs no CPU.
//!
//! - [`AsyncClient::connect`] and [`AsyncListener::accept`] give a [`Flow`]: messages by `send` and `recv`, or as a `Stream` and
//!   a `Sink`.
//! - [`ByteStream`] makes a flow an `AsyncRead + AsyncWrite`, for what speaks TCP today.
//! - [`Caller`] and [`serve`] are requests and responses, with deadlines and cancellation.
//!
//! All futures are cancellation-safe: one that is dropped has either done its work or nothing. A `send` that was dropped has
//! queued its message or not, a `recv` takes none, a `connect` is given up.
//!
//! With [`ClientConfig::reattach`] a client outlives its daemon: it looks for the next one by itself, and what waits for a flow or for a
//! connection goes on waiting. Flows of the old daemon end with [`CloseReason::LocalReset`], and each has what of its messages may have
//! arrived or not ([`Flow::take_unconfirmed`]). [`AsyncClient::daemon_event`] tells of it.
//!
//! Where there is no daemon, [`ClientConfig::socket`] can ask for an engine in threads of this process (feature `engine`). All else is the
//! same. The engine stops when the last handle of the client is gone, soon after; its peers are told.
//!
//! A client's task runs in the runtime in which it attached, and ends with that: whoever still waits in another one is told that the
//! daemon is gone.
//!
//! All flows of a client share its memory. Messages that wait for a `recv` lie in it, so a flow that nobody takes messages from
//! can hold back the others, as with [`Client`]. What must be independent attaches for itself.
//!
//! ```no_run
//! use barewire_client::aio::AsyncClient;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = AsyncClient::attach("hello").await?;
//! let flow = client.connect("db.example:888", &Default::default()).await?;
//! flow.send(b"hello").await?;
//! if let Some(message) = flow.recv().await? {
//!     println!("{} bytes back", message.to_vec().len());
//! }
//! client.close(std::time::Duration::from_secs(1)).await?;
//! # Ok(())
//! # }
//! ```

mod call;
mod driver;
mod flow;
mod listener;
mod state;
mod stream;
mod wait;

pub use call::{
    Body, CallFailure, Caller, DEADLINE_PASSED, HANDLER_GONE, Handled, Request, ServeOptions, serve,
};
pub use flow::{Flow, Message};
pub use listener::AsyncListener;
pub use stream::ByteStream;

use crate::client::{Client, ClientConfig};
use crate::error::{CloseWaitError, WaitError};
use crate::event::ConnectOptions;
use crate::names::candidates;
use crate::{AttachError, CloseReason, ConnectFailure, FlowId};
use driver::Shared;
use state::{Attempt, State};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::ToSocketAddrs;
use wait::{Place, Waiter};

/// Why no message comes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// The flow ended, and not by a close of either side.
    #[error("the flow has ended: {0}")]
    Ended(CloseReason),
    /// The daemon is gone.
    #[error("the daemon is gone")]
    DaemonGone,
    /// The daemon went, and the next one does not let us listen on this UDP port.
    #[error("the restarted daemon refuses to listen on UDP port {0}: it is taken, or the limit is reached")]
    NotListening(u16),
}

/// A message that was under way when the daemon went. It may have arrived or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconfirmed {
    /// The flow that it was sent on, which is no more.
    pub flow: FlowId,
    /// The message.
    pub bytes: Vec<u8>,
}

/// What becomes of the daemon of a client that outlives it ([`ClientConfig::reattach`]).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DaemonEvent {
    /// It is gone, and another is looked for.
    Gone {
        /// Flows that ended with it.
        flows: usize,
        /// Messages that may have arrived or not. Those of a flow that somebody has are there: [`Flow::take_unconfirmed`].
        unconfirmed: usize,
        /// Those of flows that nobody has any more, in the order in which they were sent.
        unclaimed: Vec<Unconfirmed>,
    },
    /// One is there that does not let us in: its limits or its rules are others than those of the one before. It is asked again and again;
    /// told once for each reason.
    Refused {
        /// Why.
        why: String,
        /// What could be done, if the daemon knows.
        hint: Option<String>,
    },
    /// Another is there.
    Back,
    /// It does not let a listener of ours listen: somebody else was quicker.
    NotListening {
        /// Its UDP port.
        udp_port: u16,
    },
}

/// Why an attempt to connect, or to listen, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no address, or the resolver failed.
    #[error("{0}")]
    Name(#[from] io::Error),
    /// The connection was refused or not answered.
    #[error("{0}")]
    Failed(ConnectFailure),
    /// The UDP port is zero or taken, or the user listens on as many as the daemon allows.
    #[error(
        "cannot listen on UDP port {0}: it is taken, the address is not the daemon's, or its limit is reached"
    )]
    Listen(u16),
    /// The daemon is gone.
    #[error("the daemon is gone")]
    DaemonGone,
}

/// A channel to the daemon for many tasks. Clones are the same channel; when the last of them, of its flows and of its listeners
/// is gone, the channel ends as that of a dropped [`Client`] does: what the peers have not acknowledged is lost, unless
/// [`close`](Self::close) came before.
#[derive(Clone)]
pub struct AsyncClient {
    handle: Arc<Handle>,
}

/// Ends the channel's task with the last of its users.
pub(crate) struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Handle {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        self.0.with(act)
    }
}

impl AsyncClient {
    /// Attaches to the default daemon.
    ///
    /// # Errors
    /// [`AttachError`]; its `hint` says what to do.
    ///
    /// # Panics
    /// Outside a tokio runtime with its I/O driver and clock enabled.
    pub async fn attach(name: &str) -> Result<AsyncClient, AttachError> {
        AsyncClient::attach_with(&ClientConfig::new(name)).await
    }

    /// Attaches. [`ClientConfig::spin`] has no meaning here.
    ///
    /// # Errors
    /// [`AttachError`].
    ///
    /// # Panics
    /// As [`attach`](Self::attach).
    pub async fn attach_with(config: &ClientConfig) -> Result<AsyncClient, AttachError> {
        let config = config.clone();
        // It connects and waits for the daemon's answer.
        let attached = tokio::task::spawn_blocking(move || Client::attach_with(&config)).await;
        match attached {
            Ok(client) => AsyncClient::from_client(client?).map_err(AttachError::Wait),
            Err(e) => match e.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(e) => Err(AttachError::Wait(io::Error::other(e))),
            },
        }
    }

    /// A client that is attached already. What it has begun ends: flows are reset, attempts to connect are given up, and it listens nowhere.
    ///
    /// # Errors
    /// The process has no descriptor left.
    ///
    /// # Panics
    /// As [`attach`](Self::attach).
    pub fn from_client(client: Client) -> io::Result<AsyncClient> {
        let shared = driver::start(client)?;
        Ok(AsyncClient { handle: Arc::new(Handle(shared)) })
    }

    /// The daemon's addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.handle.with(|state| state.client.addresses().to_vec())
    }

    /// Connects to the first address of `remote` that answers. A name is looked up as the system does (`/etc/hosts`, DNS).
    /// An address that is silent is given up after the daemon's `handshake_timeout` (5 s), and then the next is tried.
    ///
    /// # Errors
    /// [`ConnectError`] of the last address tried.
    pub async fn connect(
        &self,
        remote: impl ToSocketAddrs,
        options: &ConnectOptions,
    ) -> Result<Flow, ConnectError> {
        let remotes = candidates(tokio::net::lookup_host(remote).await?, options.local)?;
        Attempt::new(&self.handle, remotes, options.clone()).await
    }

    /// Takes connections on `udp_port`, at all addresses of the daemon.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn listen(&self, udp_port: u16) -> Result<AsyncListener, ConnectError> {
        AsyncListener::open(&self.handle, None, udp_port).await
    }

    /// [`listen`](Self::listen) at one of the daemon's addresses: see [`Client::listen_on`](crate::Client::listen_on).
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn listen_on(&self, local: IpAddr, udp_port: u16) -> Result<AsyncListener, ConnectError> {
        AsyncListener::open(&self.handle, Some(local), udp_port).await
    }

    /// What becomes of the daemon, with [`ClientConfig::reattach`]: each event once, to one of those who ask. The last 64 wait for
    /// somebody who does. `None` where there is nothing to wait for: the client does not outlive its daemon, which is gone.
    pub async fn daemon_event(&self) -> Option<DaemonEvent> {
        let mut waiter = Waiter::new(&self.handle);
        poll_fn(|cx| {
            self.handle.with(|state| {
                state.pump();
                match state.next_daemon_event() {
                    Some(event) => Poll::Ready(Some(event)),
                    None if state.gone => Poll::Ready(None),
                    None => {
                        waiter.entries.wait(state, Place::Daemon, cx);
                        Poll::Pending
                    }
                }
            })
        })
        .await
    }

    /// Whether there is no daemon at the moment, and another is looked for.
    pub fn is_detached(&self) -> bool {
        self.handle.with(|state| {
            state.pump();
            state.is_detached
        })
    }

    /// Ends everything in good order: listens no more, closes every flow, and waits until the peers have acknowledged all that
    /// was sent and have closed their halves. Tasks that receive meanwhile get what still comes.
    ///
    /// # Errors
    /// [`CloseWaitError`]. After a time-out the flows go on closing.
    pub async fn close(&self, timeout: Duration) -> Result<(), CloseWaitError> {
        let before = self.handle.with(|state| {
            state.close_all();
            state.client.undelivered()
        });
        let mut waiter = Waiter::new(&self.handle);
        let closed = poll_fn(|cx| {
            self.handle.with(|state| {
                state.pump();
                match (state.open_flows(), state.client.sends_under_way()) {
                    (0, 0) => Poll::Ready(match state.client.undelivered() - before {
                        0 => Ok(()),
                        lost => Err(CloseWaitError::Lost { lost }),
                    }),
                    _ if state.gone => Poll::Ready(Err(WaitError::DaemonGone.into())),
                    _ => {
                        waiter.entries.wait(state, Place::End, cx);
                        Poll::Pending
                    }
                }
            })
        });
        match tokio::time::timeout(timeout, closed).await {
            Ok(done) => done,
            Err(_) => Err(CloseWaitError::TimedOut { open: self.handle.with(|state| state.open_flows()) }),
        }
    }
}
