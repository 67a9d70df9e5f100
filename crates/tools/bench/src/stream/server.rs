//! The receiving end: counts what comes, for any number of clients, and says so.

use super::{StreamError, WAITS, WORK, pump};
use crate::talk::server::{Desk, Session};
use crate::talk::{Hello, LOOK, is_wait};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Room for datagrams in the kernel.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;
/// Ports that are tried where the kernel chooses one.
const PORT_TRIES: u32 = 16;

/// Receives at `at`, over TCP and UDP, until `stop` is set or the process is [interrupted](crate::interrupt()). Calls `ready`
/// with the address when it listens.
///
/// # Errors
/// What could not be listened on. What a client does wrong ends that client.
pub fn serve(
    at: SocketAddr,
    ready: &mut dyn FnMut(SocketAddr),
    stop: &AtomicBool,
) -> Result<(), StreamError> {
    let failed = |what: &'static str| move |source| StreamError::Io { what, source };
    let (listener, datagrams) = bind_both(at, UdpSocket::bind)?;
    let at = listener.local_addr().map_err(failed("listening"))?;
    datagrams.set_read_timeout(Some(LOOK)).map_err(failed("listening for datagrams"))?;
    // More than an unprivileged process may ask for, where it may.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&datagrams, RECEIVE_BUFFER_BYTES);
    listener.set_nonblocking(true).map_err(failed("listening"))?;
    let desk = Desk::new(WORK, WAITS);
    let over = AtomicBool::new(false);
    let stopped = || over.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) || crate::interrupted();
    ready(at);
    std::thread::scope(|scope| {
        let (desk, stopped) = (&desk, &stopped);
        let counting = scope.spawn(|| count_datagrams(&datagrams, desk, stopped));
        // It ends when it is told to, and may be told before anybody else looks again.
        desk.listen(&listener, &|| stopped() || counting.is_finished(), &|stream, hello| {
            data(stream, &hello, desk)
        });
        let told = stopped();
        over.store(true, Ordering::Relaxed);
        let counted = counting.join().map_err(|_| StreamError::Stopped)?;
        counted.map_err(failed("receiving datagrams"))?;
        if told { Ok(()) } else { Err(StreamError::Stopped) }
    })
}

/// A stream of a session.
fn data(stream: TcpStream, hello: &Hello, desk: &Desk) -> io::Result<()> {
    let Hello::Data { token } = hello else { return Ok(()) };
    match desk.session(*token) {
        Some(session) => pump::read_until(stream, &session.over, &session.bytes),
        None => Ok(()),
    }
}

/// Both at one port. Where the kernel chooses it, it chooses for TCP, and somebody may have it for UDP: then it chooses again.
fn bind_both(
    at: SocketAddr,
    udp: impl Fn(SocketAddr) -> io::Result<UdpSocket>,
) -> Result<(TcpListener, UdpSocket), StreamError> {
    let failed = |what: &'static str| move |source| StreamError::Io { what, source };
    let mut tries = if at.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        let listener = TcpListener::bind(at).map_err(failed("listening"))?;
        let own = listener.local_addr().map_err(failed("listening"))?;
        tries -= 1;
        match udp(own) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            datagrams => return Ok((listener, datagrams.map_err(failed("listening for datagrams"))?)),
        }
    }
}

fn count_datagrams(socket: &UdpSocket, desk: &Desk, stopped: &dyn Fn() -> bool) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    // The last one's, so that the map is not locked for every datagram.
    let mut last: Option<(u64, Arc<Session>)> = None;
    while !stopped() {
        let n = match socket.recv(&mut bytes) {
            Ok(n) => n,
            Err(e) if is_wait(&e) => continue,
            Err(e) => return Err(e),
        };
        let Some(token) = bytes[..n].first_chunk().map(|first| u64::from_le_bytes(*first)) else { continue };
        if last
            .as_ref()
            .is_none_or(|(known, session)| *known != token || session.over.load(Ordering::Relaxed))
        {
            last = desk.session(token).map(|session| (token, session));
        }
        if let Some((_, session)) = &last {
            session.bytes.fetch_add(n as u64, Ordering::Relaxed);
            session.datagrams.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_port_that_is_taken_for_datagrams_is_left_and_one_that_was_asked_for_is_not() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let asked = RefCell::new(Vec::new());
        let taken = |times: usize| {
            let asked = &asked;
            move |at: SocketAddr| {
                asked.borrow_mut().push(at.port());
                if asked.borrow().len() <= times {
                    Err(io::ErrorKind::AddrInUse.into())
                } else {
                    UdpSocket::bind(at)
                }
            }
        };
        let (listener, datagrams) = bind_both(any, taken(2)).unwrap();
        let own = listener.local_addr().unwrap();
        assert_eq!((own, asked.borrow().len()), (datagrams.local_addr().unwrap(), 3));
        assert!(asked.borrow().iter().all(|&port| port != 0) && asked.borrow().last() == Some(&own.port()));
        drop((listener, datagrams));
        asked.borrow_mut().clear();
        let given_up = bind_both(any, taken(usize::MAX));
        assert!(matches!(given_up, Err(StreamError::Io { what: "listening for datagrams", .. })));
        assert_eq!(asked.borrow().len(), PORT_TRIES as usize);
        asked.borrow_mut().clear();
        assert!(bind_both(own, taken(1)).is_err());
        assert_eq!(*asked.borrow(), [own.port()], "who names a port wants that one");
    }
}
