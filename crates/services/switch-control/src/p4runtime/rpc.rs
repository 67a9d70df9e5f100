//! A gRPC service without generated code: closures as methods.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::codec::Codec;
use tonic::codegen::{Body, Service, StdError, http};
use tonic::server::Grpc;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// What a service answers.
pub(crate) type Reply = http::Response<tonic::body::Body>;
/// The future of an answer.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

/// Requests may be so long: programs are, and so are batches of writes.
pub(crate) const MAX_REQUEST: usize = 64 << 20;
/// What is asked for and what comes on a stream may be so long: a list of patterns, a packet.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;

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

fn grpc<C: Codec>(codec: C, most: usize) -> Grpc<C> {
    Grpc::new(codec).apply_max_message_size_config(Some(most), None)
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
    let grpc = |codec: ProstCodec<A, Q>| grpc(codec, MAX_REQUEST);
    Box::pin(async move { Ok(grpc(ProstCodec::default()).unary(Method(method), request).await) })
}

/// One request, a stream of answers.
pub(crate) fn server_streaming<B, C, S, F, R>(request: http::Request<B>, codec: C, method: F) -> ReplyFuture
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    C: Codec + Send + 'static,
    C::Encode: Send + 'static,
    C::Decode: Send + 'static,
    S: tokio_stream::Stream<Item = Result<C::Encode, Status>> + Send + 'static,
    F: FnMut(Request<C::Decode>) -> R + Send + 'static,
    R: Future<Output = Result<Response<S>, Status>> + Send + 'static,
{
    Box::pin(async move { Ok(grpc(codec, MAX_MESSAGE).server_streaming(Method(method), request).await) })
}

/// Streams both ways.
pub(crate) fn streaming<B, C, S, F, R>(request: http::Request<B>, codec: C, method: F) -> ReplyFuture
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    C: Codec + Send + 'static,
    C::Encode: Send + 'static,
    C::Decode: Send + 'static,
    S: tokio_stream::Stream<Item = Result<C::Encode, Status>> + Send + 'static,
    F: FnMut(Request<Streaming<C::Decode>>) -> R + Send + 'static,
    R: Future<Output = Result<Response<S>, Status>> + Send + 'static,
{
    Box::pin(async move { Ok(grpc(codec, MAX_MESSAGE).streaming(Method(method), request).await) })
}

/// The answer to a method that is not there.
pub(crate) fn no_such_method(path: &str) -> ReplyFuture {
    let status = Status::unimplemented(format!("there is no method {path}"));
    Box::pin(async move { Ok(status.into_http()) })
}
