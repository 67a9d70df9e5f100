//! What moves bytes: a TCP stream written and read as fast as it goes, datagrams at a pace. Whoever measures streams uses these,
//! between namespaces of one process ([`switch`](crate::switch)) and between hosts.

use crate::messages::driver::LAG_LIMIT;
use crate::talk::{LOOK, is_wait};
use barewire_base::{Duration, Instant};
use barewire_measure::stamp;
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of one write to a TCP stream: iperf's own default.
pub(crate) const CHUNK: usize = 128 << 10;
/// What is on its way when a sender ends has arrived by then.
pub(crate) const SETTLE: std::time::Duration = std::time::Duration::from_millis(100);
/// A paced sender sleeps at least so long, and sends what has come due together.
const TICK: Duration = Duration::from_micros(100);
/// Packets that a late sender sends at once at most.
const CATCH_UP: u64 = 256;
/// `ENOBUFS`.
const NO_BUFFERS: i32 = 105;

/// Runs `body` on a thread whose timers are exact: the kernel's default slack of 50 us would be added to every pause.
pub(crate) fn exact<T: Send>(body: impl FnOnce() -> T + Send) -> std::thread::Result<T> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
                body()
            })
            .join()
    })
}

/// Sleeps until a time.
pub(crate) fn sleep_until(due: Instant) {
    let left = due.since(stamp());
    if left > Duration::ZERO {
        std::thread::sleep(left.into());
    }
}

/// Writes to a stream until `stop` is set.
pub(crate) fn write_until(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    let chunk = vec![0x5a; CHUNK];
    while !stop.load(Ordering::Relaxed) && !crate::interrupted() {
        match stream.write(&chunk) {
            Ok(_) => {}
            Err(e) if is_wait(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads a stream and counts its bytes, until it ends or `stop` is set and nothing comes any more.
pub(crate) fn read_until(mut stream: TcpStream, stop: &AtomicBool, received: &AtomicU64) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    let mut chunk = vec![0; CHUNK];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => drop(received.fetch_add(n as u64, Ordering::Relaxed)),
            Err(e) if is_wait(&e) && stop.load(Ordering::Relaxed) => return Ok(()),
            Err(e) if is_wait(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

/// What a sender of datagrams did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Datagrams that the kernel took.
    pub count: u64,
    /// How long it took.
    pub took: Duration,
    /// Of a paced sender: those that left more than [`LAG_LIMIT`] after they were due.
    pub behind: u64,
}

impl Sent {
    /// Share of the datagrams that left too late, in percent.
    pub fn behind_percent(&self) -> f64 {
        if self.count == 0 { 0.0 } else { 100.0 * self.behind as f64 / self.count as f64 }
    }
}

/// Sends `bytes` at `pps` for `duration`, or without a pause.
pub(crate) fn datagrams(
    socket: &UdpSocket,
    bytes: &[u8],
    pps: Option<u64>,
    duration: Duration,
) -> io::Result<Sent> {
    let begin = stamp();
    let mut sent = Sent::default();
    // A full queue of the interface is a packet that was not sent, not the end.
    let one = || match socket.send(bytes) {
        Ok(_) => Ok(1),
        Err(e) if is_wait(&e) || e.raw_os_error() == Some(NO_BUFFERS) => Ok(0),
        Err(e) => Err(e),
    };
    loop {
        let passed = stamp().since(begin);
        sent.took = passed;
        if passed >= duration || crate::interrupted() {
            return Ok(sent);
        }
        let Some(pps) = pps else {
            for _ in 0..32 {
                sent.count += one()?;
            }
            continue;
        };
        let at_ns = |number: u64| (u128::from(number) * 1_000_000_000 / u128::from(pps)) as u64;
        let due = (u128::from(passed.as_nanos()) * u128::from(pps) / 1_000_000_000) as u64 + 1;
        for _ in 0..due.saturating_sub(sent.count).min(CATCH_UP) {
            let late = passed.as_nanos() > at_ns(sent.count) + LAG_LIMIT.as_nanos();
            let taken = one()?;
            sent.count += taken;
            sent.behind += taken * u64::from(late);
        }
        if sent.count >= due {
            sleep_until(begin + Duration::from_nanos(at_ns(sent.count)).max(passed + TICK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_seen;

    #[test]
    fn senders_keep_their_pace_and_say_when_they_could_not() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let short = Duration::from_millis(200);
        let send = |pps, duration| {
            let sent = exact(|| datagrams(&client, &[0x5a; 18], Some(pps), duration)).unwrap().unwrap();
            // A machine that is busy with other tests may fall behind, and must not run ahead.
            assert!(sent.count as f64 <= sent.took.as_secs_f64() * pps as f64 + 2.0, "{sent:?}");
            sent
        };
        for pps in [500, 20_000] {
            // What came due while the machine was away at the very end is in no count.
            let kept = |sent: &Sent| sent.count as f64 > sent.took.as_secs_f64() * pps as f64 * 0.9;
            let sent = until_seen(short, |duration| send(pps, duration), kept);
            assert!(kept(&sent) || sent.behind > 0, "{sent:?}");
        }
        // No kernel takes a billion a second: nearly all are behind.
        let behind = |sent: &Sent| sent.behind_percent() > 50.0;
        let sent = until_seen(short, |duration| send(1_000_000_000, duration), behind);
        assert!(behind(&sent), "{sent:?}");
    }
}
