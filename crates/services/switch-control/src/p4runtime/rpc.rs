//! A gRPC service without generated code: closures as methods.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::codegen::{Body, Service, StdError, http};
use tonic::server::Grpc;
use tonic::{Request, Response, Status, Streaming};

/// What a service answers.
pub(crate) type Reply = http::Response<tonic::body::Body>;
/// The future of an answer.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

/// Requests may be so long: programs are.
pub(crate) const MAX_REQUEST: usize = 64 << 20;

/// A closure as a method.
struct Method<F>(F);

impl<F, Q, A, T> Service<Request<Q>> for Method<F>
where
    F: FnMut(Request<Q>) -> A,
    A: Future<Output = Result<Response<T>, Status>>,
{
    type Response = Response<T>;
    type Error = Status;
    type Future = A;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> A {
        (self.0)(request)
    }
}

fn grpc<A, Q>() -> Grpc<tonic_prost::ProstCodec<A, Q>>
where
    A: prost::Message + Send + 'static,
    Q: prost::Message + Default + Send + 'static,
{
    Grpc::new(tonic_prost::ProstCodec::default()).apply_max_message_size_config(Some(MAX_REQUEST), None)
}

/// One request, one answer.
pub(crate) fn unary<B, Q, A, F, R>(request: http::Request<B>, method: F) -> ReplyFuture
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    Q: prost::Message + Default + Send + 'static,
    A: prost::Message + Send + 'static,
    F: FnMut(Request<Q>) -> R + Send + 'static,
    R: Future<Output = Result<Response<A>, Status>> + Send + 'static,
{
    Box::pin(async move { Ok(grpc::<A, Q>().unary(Method(method), request).await) })
}

/// One request, a stream of answers.
pub(crate) fn server_streaming<B, Q, A, S, F, R>(request: http::Request<B>, method: F) -> ReplyFuture
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    Q: prost::Message + Default + Send + 'static,
    A: prost::Message + Send + 'static,
    S: tokio_stream::Stream<Item = Result<A, Status>> + Send + 'static,
    F: FnMut(Request<Q>) -> R + Send + 'static,
    R: Future<Output = Result<Response<S>, Status>> + Send + 'static,
{
    Box::pin(async move { Ok(grpc::<A, Q>().server_streaming(Method(method), request).await) })
}

/// Streams both ways.
pub(crate) fn streaming<B, Q, A, S, F, R>(request: http::Request<B>, method: F) -> ReplyFuture
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    Q: prost::Message + Default + Send + 'static,
    A: prost::Message + Send + 'static,
    S: tokio_stream::Stream<Item = Result<A, Status>> + Send + 'static,
    F: FnMut(Request<Streaming<Q>>) -> R + Send + 'static,
    R: Future<Output = Result<Response<S>, Status>> + Send + 'static,
{
    Box::pin(async move { Ok(grpc::<A, Q>().streaming(Method(method), request).await) })
}

/// The answer to a method that is not there.
pub(crate) fn no_such_method(path: &str) -> ReplyFuture {
    let status = Status::unimplemented(format!("there is no method {path}"));
    Box::pin(async move { Ok(status.into_http()) })
}
