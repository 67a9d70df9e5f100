//! The gRPC service `p4.v1.P4Runtime`.

use super::device::{API_VERSION, Device, MAX_PATTERNS};
use super::message::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest, ReadRequest,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    WriteRequest, WriteResponse,
};
use super::outbox::{Ready, Sent};
use super::rpc::{Reply, ReplyFuture, no_such_method, server_streaming, streaming, unary};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{Body, Service, StdError, http};
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};

/// Messages of a read that wait for a slow client.
const READ_AHEAD: usize = 4;
/// How long a client may take for one of them.
const READ_STALL: Duration = Duration::from_secs(60);

/// The service.
#[derive(Clone)]
pub struct P4Runtime(pub(super) Arc<Device>);

impl NamedService for P4Runtime {
    const NAME: &'static str = "p4.v1.P4Runtime";
}

/// The switch answers on a thread that may wait.
async fn blocking<T: Send + 'static>(
    device: Arc<Device>,
    work: impl FnOnce(&Device) -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(move || work(&device)).await;
    done.unwrap_or_else(|_| Err(Status::internal("the request ended with a panic: this is a bug")))
}

async fn read(device: Arc<Device>, request: ReadRequest) -> Result<Response<ReceiverStream<Sent>>, Status> {
    let (messages, status) = blocking(device, move |device| device.read(&request)).await?;
    let (sender, receiver) = mpsc::channel(READ_AHEAD + 1);
    tokio::spawn(async move {
        // There is always a place for how it ends.
        let Ok(last) = sender.clone().reserve_owned().await else { return };
        for message in messages {
            match tokio::time::timeout(READ_STALL, sender.send(Ok(message))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                // What waits for a client that does not read keeps others from reading.
                Err(_) => {
                    let why = format!("the client took no message for {} s", READ_STALL.as_secs());
                    last.send(Err(Status::deadline_exceeded(why)));
                    return;
                }
            }
        }
        if let Err(status) = status {
            last.send(Err(status));
        }
    });
    Ok(Response::new(ReceiverStream::new(receiver)))
}

impl<B> Service<http::Request<B>> for P4Runtime
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
        let device = Arc::clone(&self.0);
        match request.uri().path() {
            "/p4.v1.P4Runtime/Write" => unary(request, move |request: Request<WriteRequest>| {
                let device = Arc::clone(&device);
                async move {
                    blocking(device, |device| device.write(request.into_inner())).await?;
                    Ok(Response::new(WriteResponse {}))
                }
            }),
            "/p4.v1.P4Runtime/Read" => {
                // Its patterns, and what says who asks for what.
                let codec = Ready::of_fields(MAX_PATTERNS + 8);
                server_streaming(request, codec, move |request: Request<ReadRequest>| {
                    read(Arc::clone(&device), request.into_inner())
                })
            }
            "/p4.v1.P4Runtime/SetForwardingPipelineConfig" => {
                unary(request, move |request: Request<SetForwardingPipelineConfigRequest>| {
                    let device = Arc::clone(&device);
                    async move {
                        blocking(device, |device| Ok(device.set_config(request.into_inner())?)).await?;
                        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
                    }
                })
            }
            "/p4.v1.P4Runtime/GetForwardingPipelineConfig" => {
                unary(request, move |request: Request<GetForwardingPipelineConfigRequest>| {
                    let device = Arc::clone(&device);
                    async move {
                        Ok(Response::new(
                            blocking(device, move |device| Ok(device.get_config(request.get_ref())?)).await?,
                        ))
                    }
                })
            }
            "/p4.v1.P4Runtime/StreamChannel" => {
                let method = move |request: Request<Streaming<StreamMessageRequest>>| {
                    let device = Arc::clone(&device);
                    async move { Ok(Response::new(super::stream::serve(device, request.into_inner()))) }
                };
                streaming(request, Ready::default(), method)
            }
            "/p4.v1.P4Runtime/Capabilities" => unary(request, |_: Request<CapabilitiesRequest>| async {
                Ok(Response::new(CapabilitiesResponse { p4runtime_api_version: API_VERSION.into() }))
            }),
            path => no_such_method(path),
        }
    }
}
