//! A byte stream over a flow, for what speaks TCP today.

use super::RecvError;
use super::flow::{Flow, Message};
use crate::error::SendError;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much of one write goes into one message at most, in bytes: enough for the cost of a message not to matter.
const CHUNK: usize = 64 << 10;
/// And so little of what the channel can send at once that a few of them fit.
const CHUNK_PART: usize = 4;
/// How many pieces of a gathered write are looked at.
const PIECES: usize = 64;

/// Bytes in order, each way, with an end each way: `AsyncRead + AsyncWrite` over an ordered [`Flow`].
///
/// Each write is one message at once (of up to 64 KiB, in a small channel of a quarter of its longest message), so that a flush has nothing to
/// do. What the peer receives in has to hold such a message: with less than 64 KiB there, the flow ends. `shutdown` sends an empty message, which
/// is the end of the stream to who reads; the other way stays open. Dropped, the flow closes; what was written still arrives.
pub struct ByteStream {
    flow: Flow,
    /// What is being read, and how much of it was.
    current: Option<(Message, usize)>,
    /// How much goes into one message.
    chunk: usize,
    at_end: bool,
    is_shut: bool,
}

impl ByteStream {
    /// The bytes of `flow`. Both ends have to take it so, and it has to be ordered: the default of
    /// [`ConnectOptions`](crate::ConnectOptions).
    pub fn new(flow: Flow) -> ByteStream {
        let longest = flow.with(|state, _| state.client.message_max());
        let chunk = (longest / CHUNK_PART).clamp(1, CHUNK);
        ByteStream { flow, current: None, chunk, at_end: false, is_shut: false }
    }

    /// The flow.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }
}

fn refused(e: SendError) -> io::Error {
    let kind = match e {
        SendError::NoSuchFlow | SendError::Closing => ErrorKind::BrokenPipe,
        SendError::DaemonGone => ErrorKind::NotConnected,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, e)
}

fn ended(e: RecvError) -> io::Error {
    let kind = match e {
        RecvError::Ended(crate::CloseReason::TimedOut | crate::CloseReason::Idle) => ErrorKind::TimedOut,
        RecvError::Ended(_) => ErrorKind::ConnectionReset,
        RecvError::DaemonGone | RecvError::NotListening(_) => ErrorKind::NotConnected,
    };
    io::Error::new(kind, e)
}

impl AsyncRead for ByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if out.remaining() == 0 || self.at_end {
                return Poll::Ready(Ok(()));
            }
            if let Some((message, at)) = &mut self.current {
                let n = message.read_at(*at, out.initialize_unfilled());
                out.advance(n);
                *at += n;
                if n == 0 || *at == message.len() {
                    self.current = None;
                }
                if n > 0 {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            match ready!(self.flow.poll_recv_here(cx)).map_err(ended)? {
                Some(message) if !message.is_empty() => self.current = Some((message, 0)),
                _ => self.at_end = true,
            }
        }
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_shut {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let mut chunk = [IoSlice::new(&[]); PIECES];
        let mut total = 0;
        let mut count = 0;
        for piece in pieces.iter().filter(|piece| !piece.is_empty()).take(PIECES) {
            let n = piece.len().min(self.chunk - total);
            chunk[count] = IoSlice::new(&piece[..n]);
            count += 1;
            total += n;
            if total == self.chunk {
                break;
            }
        }
        // An empty message is the end.
        if total == 0 {
            return Poll::Ready(Ok(0));
        }
        ready!(self.flow.poll_send_here(cx, &chunk[..count])).map_err(refused)?;
        Poll::Ready(Ok(total))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            match ready!(self.flow.poll_send_here(cx, &[])) {
                Ok(()) | Err(SendError::NoSuchFlow | SendError::Closing) => self.is_shut = true,
                Err(e) => return Poll::Ready(Err(refused(e))),
            }
        }
        Poll::Ready(Ok(()))
    }
}
