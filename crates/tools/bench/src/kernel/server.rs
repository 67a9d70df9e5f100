//! The echo servers of the kernel baselines: one thread, one receive and one send call for each message.

use super::Waiting;
use super::link::{self, ALL, Link, Received};
use barewire_base::Duration;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A sleeping server looks this often whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Echoes messages of `size` bytes on every connection until all are closed or `stop` is set.
pub(super) fn serve_tcp(
    sockets: Vec<OwnedFd>,
    waiting: Waiting,
    size: usize,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut links: Vec<Link> = sockets.into_iter().map(|s| Link::new(s, size)).collect();
    let stopped = || stop.load(Ordering::Relaxed);
    let several = links.len() > 1;
    let (receive, send) = match waiting {
        Waiting::Spin => (RecvFlags::DONTWAIT, SendFlags::DONTWAIT),
        // With one connection `recv` itself sleeps; the client's close ends it.
        Waiting::Blocking if !several => (RecvFlags::empty(), SendFlags::empty()),
        Waiting::Blocking => (RecvFlags::DONTWAIT, SendFlags::empty()),
    };
    while !links.is_empty() && !stopped() {
        let mut ready = ALL;
        if several && waiting == Waiting::Blocking {
            ready = link::ready(links.len(), |i| (links[i].fd(), PollFlags::IN), STOP_CHECK)?;
        }
        // From the last to the first: one that is taken out is replaced by one that has had its turn.
        for index in (0..links.len()).rev().filter(|i| ready >> i & 1 == 1) {
            let link = &mut links[index];
            let open = match link.receive(receive)? {
                Received::Message => link.echo(send, stopped)?,
                Received::Part | Received::Nothing => true,
                Received::Closed => false,
            };
            if !open {
                links.swap_remove(index);
            }
        }
    }
    Ok(())
}

/// Echoes every datagram of up to `size` bytes to whoever sent it until `stop` is set.
pub(super) fn serve_udp(
    socket: &UdpSocket,
    waiting: Waiting,
    size: usize,
    stop: &AtomicBool,
) -> io::Result<()> {
    match waiting {
        Waiting::Spin => socket.set_nonblocking(true)?,
        Waiting::Blocking => {
            socket.set_read_timeout(Some(STOP_CHECK.into()))?;
        }
    }
    let mut datagram = vec![0; size];
    while !stop.load(Ordering::Relaxed) {
        let (len, from) = match socket.recv_from(&mut datagram) {
            Ok(received) => received,
            Err(error) if passes(&error) => continue,
            Err(error) => return Err(error),
        };
        match socket.send_to(&datagram[..len], from) {
            // No room, or the client has gone: a lost datagram either way, and the client's to notice.
            Ok(_) => {}
            Err(error) if passes(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused)
        || error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
}
