//! Packets to and from a bmv2 that was started with `--packet-in`: a nanomsg PAIR socket over a Unix one.
//!
//! The wire is nanomsg's SP over IPC: eight bytes each way that name the protocol, then messages, each a byte 1, its
//! length in eight bytes, and its bytes. A message of bmv2 begins with three words of the machine's order: the kind (3 a
//! packet in, 4 a packet out), the port, the packet's length.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const HELLO: [u8; 8] = [0, b'S', b'P', 0, 0, 16, 0, 0];
const PACKET_IN: u32 = 3;
const PACKET_OUT: u32 = 4;

/// The connection.
pub struct Wire {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub fn connect(path: &Path) -> io::Result<Wire> {
        let mut stream = UnixStream::connect(path)?;
        stream.write_all(&HELLO)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut hello = [0; 8];
        stream.read_exact(&mut hello)?;
        if hello != HELLO {
            return Err(io::Error::other("no nanomsg pair at the other end"));
        }
        Ok(Wire { stream, buffer: Vec::new() })
    }

    pub fn send(&mut self, port: u32, packet: &[u8]) -> io::Result<()> {
        let len = packet.len() as u32;
        let mut message = vec![1];
        message.extend_from_slice(&u64::from(len + 12).to_be_bytes());
        for word in [PACKET_IN, port, len] {
            message.extend_from_slice(&word.to_ne_bytes());
        }
        message.extend_from_slice(packet);
        self.stream.write_all(&message)
    }

    /// The next packet, if one comes within this time.
    pub fn receive(&mut self, within: Duration) -> io::Result<Option<(u32, Vec<u8>)>> {
        let until = Instant::now() + within;
        loop {
            if let Some(message) = self.message() {
                let word = |at: usize| {
                    message.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes)
                };
                let (Some(PACKET_OUT), Some(port)) = (word(0), word(4)) else { continue };
                return Ok(Some((port, message[12..].to_vec())));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut bytes = [0; 65536];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn message(&mut self) -> Option<Vec<u8>> {
        let len = self.buffer.get(1..9)?.try_into().ok().map(u64::from_be_bytes)? as usize;
        let message = self.buffer.get(9..9 + len)?.to_vec();
        self.buffer.drain(..9 + len);
        Some(message)
    }
}
