//! The gRPC service `gnmi.gNMI`.

use super::message::{
    CapabilityRequest, CapabilityResponse, DataType, Encoding, GetRequest, GetResponse, ListMode, ModelData,
    Notification, Path, PathElem, ResponseKind, SetRequest, SetResponse, SubscribeKind, SubscribeRequest,
    SubscribeResponse, Subscription, SubscriptionList, SubscriptionMode, Update,
};
use super::tree::{Leaf, below, leaves, steps, value};
use crate::p4runtime::rpc::{Reply, ReplyFuture, no_such_method, streaming, unary};
use barewire_switch::control::Switch;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{Body, Service, StdError, http};
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// Streams of subscriptions at a time.
const MAX_STREAMS: usize = 64;
/// Subscriptions of one stream.
const MAX_SUBSCRIPTIONS: usize = 256;
/// Paths of one Get: each may be answered with the whole tree.
const MAX_PATHS: usize = 256;
/// How often values are looked at: the shortest sample interval, and how late a change may be told.
const TICK: Duration = Duration::from_millis(100);
/// The sample interval when the client leaves it to us, for counters.
const DEFAULT_INTERVAL_TICKS: u64 = 100;
/// Messages that wait for a slow client.
const QUEUE: usize = 16;

/// The service.
#[derive(Clone)]
pub struct Gnmi {
    switch: Switch,
    streams: Arc<AtomicUsize>,
}

impl Gnmi {
    /// The service of a switch.
    pub fn new(switch: Switch) -> Gnmi {
        Gnmi { switch, streams: Arc::default() }
    }
}

impl NamedService for Gnmi {
    const NAME: &'static str = "gnmi.gNMI";
}

/// The engines are asked for counters on a thread that may wait.
async fn now(switch: &Switch) -> Result<(super::tree::Leaves, i64), Status> {
    let switch = switch.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let us = switch.info().started_unix_us.saturating_add(switch.time_us());
        let now_ns = i64::try_from(us).unwrap_or(i64::MAX).saturating_mul(1000);
        (leaves(&switch.ports()), now_ns)
    });
    asked.await.map_err(|_| Status::internal("the request ended with a panic: this is a bug"))
}

fn encoding(number: i32) -> Result<Encoding, Status> {
    match Encoding::try_from(number) {
        Ok(Encoding::Bytes) | Err(_) => Err(Status::unimplemented(format!(
            "encoding {number} is not written here: JSON, JSON_IETF, PROTO and ASCII are"
        ))),
        Ok(encoding) => Ok(encoding),
    }
}

fn update(path: &[PathElem], leaf: &Leaf, encoding: Encoding) -> Update {
    Update {
        path: Some(Path { elem: path.to_vec(), ..Path::default() }),
        val: Some(value(leaf, encoding)),
        duplicates: 0,
    }
}

/// The target's name is given back in the prefix.
fn prefix_of(prefix: Option<&Path>) -> Option<Path> {
    let target = prefix.map(|prefix| prefix.target.clone()).filter(|target| !target.is_empty())?;
    Some(Path { target, ..Path::default() })
}

fn capabilities() -> CapabilityResponse {
    let encodings = [Encoding::Json, Encoding::JsonIetf, Encoding::Proto, Encoding::Ascii];
    CapabilityResponse {
        supported_models: vec![ModelData {
            name: "openconfig-interfaces".into(),
            organization: "OpenConfig working group".into(),
            version: "2.4.3".into(),
        }],
        supported_encodings: encodings.map(|encoding| encoding as i32).to_vec(),
        gnmi_version: "0.8.0".into(),
    }
}

async fn get(switch: Switch, request: GetRequest) -> Result<GetResponse, Status> {
    let encoding = encoding(request.encoding)?;
    let wanted = DataType::try_from(request.r#type)
        .map_err(|_| Status::invalid_argument(format!("type {} is not known", request.r#type)))?;
    if request.path.len() > MAX_PATHS {
        let given = request.path.len();
        return Err(Status::invalid_argument(format!("{given} paths were given, {MAX_PATHS} are the most")));
    }
    let none = [Path::default()];
    let paths = if request.path.is_empty() { &none[..] } else { &request.path[..] };
    let paths: Vec<Vec<PathElem>> =
        paths.iter().map(|path| steps(request.prefix.as_ref(), Some(path))).collect::<Result<_, _>>()?;
    let (leaves, timestamp) = now(&switch).await?;
    let of_type = |leaf: &[PathElem]| {
        let config = leaf.get(2).is_some_and(|step| step.name == "config");
        match wanted {
            DataType::All => true,
            DataType::Config => config,
            DataType::State | DataType::Operational => leaf.get(2).is_some_and(|step| step.name == "state"),
        }
    };
    let mut notification = Vec::new();
    for path in &paths {
        let found = leaves.iter().filter(|(leaf, _)| below(path, leaf) && of_type(leaf));
        let update: Vec<Update> = found.map(|(leaf, value)| update(leaf, value, encoding)).collect();
        let named = path.iter().any(|step| step.key.values().any(|name| name != "*"));
        if update.is_empty() && named {
            return Err(Status::not_found("there is no such interface"));
        }
        notification.push(Notification {
            timestamp,
            prefix: prefix_of(request.prefix.as_ref()),
            update,
            ..Default::default()
        });
    }
    Ok(GetResponse { notification })
}

/// One subscription as it is served.
struct Served {
    path: Vec<PathElem>,
    mode: SubscriptionMode,
    /// Sampled every so many ticks.
    every: u64,
    /// Sent even without a change every so many ticks; 0 for never.
    heartbeat: u64,
    suppress: bool,
    last: HashMap<Vec<u8>, Leaf>,
}

fn ticks(ns: u64) -> u64 {
    ns.div_ceil(TICK.as_nanos() as u64)
}

fn served(list: &SubscriptionList, subscription: &Subscription) -> Result<Served, Status> {
    let mode = SubscriptionMode::try_from(subscription.mode).map_err(|_| {
        Status::invalid_argument(format!("subscription mode {} is not known", subscription.mode))
    })?;
    Ok(Served {
        path: steps(list.prefix.as_ref(), subscription.path.as_ref())?,
        mode,
        every: match ticks(subscription.sample_interval) {
            0 if mode == SubscriptionMode::Sample => 1,
            0 => DEFAULT_INTERVAL_TICKS,
            ticks => ticks,
        },
        heartbeat: ticks(subscription.heartbeat_interval),
        suppress: subscription.suppress_redundant,
        last: HashMap::new(),
    })
}

impl Served {
    /// Whether this tick is one of those that look at a leaf.
    fn looks(&self, tick: u64, leaf: &[PathElem]) -> bool {
        let counter = leaf.iter().any(|step| step.name == "counters");
        match self.mode {
            SubscriptionMode::OnChange => true,
            SubscriptionMode::Sample => tick.is_multiple_of(self.every),
            // State is told when it changes, counters are sampled.
            SubscriptionMode::TargetDefined => !counter || tick.is_multiple_of(self.every),
        }
    }

    /// What must be told now. The first tick, 0, tells everything.
    fn due(&mut self, tick: u64, leaves: &super::tree::Leaves, encoding: Encoding) -> Vec<Update> {
        let heartbeat = self.heartbeat > 0 && tick.is_multiple_of(self.heartbeat);
        let mut updates = Vec::new();
        for (path, leaf) in leaves {
            if !below(&self.path, path) || !(heartbeat || self.looks(tick, path)) {
                continue;
            }
            let counter = path.iter().any(|step| step.name == "counters");
            let sampled = match self.mode {
                SubscriptionMode::Sample => !self.suppress,
                SubscriptionMode::TargetDefined => counter && !self.suppress,
                SubscriptionMode::OnChange => false,
            };
            let key = prost::Message::encode_to_vec(&Path { elem: path.clone(), ..Path::default() });
            let changed = self.last.get(&key) != Some(leaf);
            if changed {
                self.last.insert(key, leaf.clone());
            }
            if changed || sampled || heartbeat {
                updates.push(update(path, leaf, encoding));
            }
        }
        updates
    }
}

type Sender = mpsc::Sender<Result<SubscribeResponse, Status>>;

async fn send(to: &Sender, response: ResponseKind) -> Result<(), Status> {
    let gone = |_| Status::cancelled("the subscriber has gone");
    to.send(Ok(SubscribeResponse { response: Some(response) })).await.map_err(gone)
}

/// Serve one stream of subscriptions.
async fn subscribe(
    switch: &Switch,
    mut requests: Streaming<SubscribeRequest>,
    to: &Sender,
) -> Result<(), Status> {
    let Some(SubscribeRequest { request: Some(SubscribeKind::Subscribe(list)) }) = requests.message().await?
    else {
        return Err(Status::invalid_argument("the first message must be a list of subscriptions"));
    };
    if list.subscription.len() > MAX_SUBSCRIPTIONS {
        return Err(Status::resource_exhausted(format!(
            "{MAX_SUBSCRIPTIONS} subscriptions are the most of one stream"
        )));
    }
    let mode = ListMode::try_from(list.mode)
        .map_err(|_| Status::invalid_argument(format!("mode {} is not known", list.mode)))?;
    let encoding = encoding(list.encoding)?;
    let mut all: Vec<Served> =
        list.subscription.iter().map(|subscription| served(&list, subscription)).collect::<Result<_, _>>()?;
    let prefix = prefix_of(list.prefix.as_ref());
    let mut tick = 0;
    if mode != ListMode::Poll {
        tell(switch, to, &mut all, tick, encoding, &prefix, list.updates_only).await?;
        send(to, ResponseKind::SyncResponse(true)).await?;
    }
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval.tick().await;
    if mode == ListMode::Once {
        return Ok(());
    }
    loop {
        let request = tokio::select! {
            _ = interval.tick(), if mode == ListMode::Stream => {
                tick += 1;
                tell(switch, to, &mut all, tick, encoding, &prefix, false).await?;
                continue;
            }
            () = to.closed() => return Ok(()),
            request = requests.message() => request?,
        };
        match (request, mode) {
            (None, _) => return Ok(()),
            (Some(SubscribeRequest { request: Some(SubscribeKind::Poll(_)) }), ListMode::Poll) => {
                all.iter_mut().for_each(|served| served.last.clear());
                tell(switch, to, &mut all, 0, encoding, &prefix, false).await?;
                send(to, ResponseKind::SyncResponse(true)).await?;
            }
            (Some(_), _) => {
                return Err(Status::invalid_argument("only a poll may follow, and that in mode POLL"));
            }
        }
    }
}

async fn tell(
    switch: &Switch,
    to: &Sender,
    all: &mut [Served],
    tick: u64,
    encoding: Encoding,
    prefix: &Option<Path>,
    silent: bool,
) -> Result<(), Status> {
    let (leaves, timestamp) = now(switch).await?;
    for served in all {
        let update = served.due(tick, &leaves, encoding);
        if !update.is_empty() && !silent {
            let notification =
                Notification { timestamp, prefix: prefix.clone(), update, ..Notification::default() };
            send(to, ResponseKind::Update(notification)).await?;
        }
    }
    Ok(())
}

/// One stream more, until it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gnmi {
    fn serve(
        self,
        requests: Streaming<SubscribeRequest>,
    ) -> Result<Response<ReceiverStream<Result<SubscribeResponse, Status>>>, Status> {
        let place = Place(Arc::clone(&self.streams));
        if self.streams.fetch_add(1, Ordering::Relaxed) >= MAX_STREAMS {
            return Err(Status::resource_exhausted(format!("{MAX_STREAMS} streams are open already")));
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            let _place = place;
            if let Err(status) = subscribe(&self.switch, requests, &sender).await {
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

impl<B> Service<http::Request<B>> for Gnmi
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Reply;
    type Error = Infallible;
    type Future = ReplyFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> ReplyFuture {
        let this = self.clone();
        match request.uri().path() {
            "/gnmi.gNMI/Capabilities" => {
                unary(request, |_: Request<CapabilityRequest>| async { Ok(Response::new(capabilities())) })
            }
            "/gnmi.gNMI/Get" => unary(request, move |request: Request<GetRequest>| {
                let switch = this.switch.clone();
                async move { Ok(Response::new(get(switch, request.into_inner()).await?)) }
            }),
            "/gnmi.gNMI/Set" => unary(request, |_: Request<SetRequest>| async {
                Err::<Response<SetResponse>, Status>(Status::unimplemented(
                    "interfaces belong to the system: ports are added and removed on the command line or over Thrift",
                ))
            }),
            "/gnmi.gNMI/Subscribe" => {
                let codec = ProstCodec::<SubscribeResponse, SubscribeRequest>::default();
                streaming(request, codec, move |request: Request<Streaming<SubscribeRequest>>| {
                    let this = this.clone();
                    async move { this.serve(request.into_inner()) }
                })
            }
            path => no_such_method(path),
        }
    }
}
