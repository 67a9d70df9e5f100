//! The client of librdmacm's `rping`.
//!
//! ```text
//! client  SEND (where my data is)            server  READs it
//!                                            server  SEND (go on)
//! client  SEND (where I want it back)        server  WRITEs it
//!                                            server  SEND (go on)
//! client  compares
//! ```
//! An `rping -s` sends back what is before the first zero byte, and that zero: so the data is text.

use super::client::Link;
use super::client::Target;
use super::{Advert, RcError};
use barewire_base::Duration;
use barewire_engine::StopFlag;
use barewire_measure::{Histogram, stamp};
use barewire_roce::{Access, Data, SendOp, SendWr, WcOpcode};
use barewire_verbs::Memory;

/// Most bytes of a round.
pub const SIZE_MAX: u32 = 1 << 28;

/// What to do.
#[derive(Clone, Debug)]
pub struct PingConfig {
    /// Between whom.
    pub target: Target,
    /// Rounds; `None` until stopped.
    pub count: Option<u64>,
    /// Bytes of each, 1 to [`SIZE_MAX`].
    pub size: u32,
    /// Pause between two rounds.
    pub interval: Duration,
}

/// One round.
#[derive(Clone, Debug)]
pub struct Round<'a> {
    /// Its number, from 0.
    pub seq: u64,
    /// From the first message to the last.
    pub time: Duration,
    /// What went there, and should have come back.
    pub data: &'a [u8],
    /// Where it first came back otherwise.
    pub wrong_at: Option<usize>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct PingReport {
    /// Rounds whose time is in the histogram.
    pub times: Histogram,
    /// Rounds whose data came back wrong.
    pub wrong: u64,
    /// What opening the connection took.
    pub connected_in: Duration,
    /// Bytes of payload in a packet, as agreed.
    pub path_mtu: u32,
    /// Packets that were sent again.
    pub packets_resent: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// The text of a round: printable, another one in each round, with a zero at the end.
fn text(seq: u64, len: usize) -> Vec<u8> {
    let mut out = format!("barewire-ping-{seq}: ").into_bytes();
    let mut next = (seq % 94) as u8;
    while out.len() < len {
        out.push(b'!' + next);
        next = (next + 1) % 94;
    }
    out.truncate(len);
    if let Some(last) = out.last_mut() {
        *last = 0;
    }
    out
}

/// Runs it. `each` is called after each round.
///
/// # Errors
/// What could not be opened or connected; what broke the connection later. Wrong data is none: it is counted.
#[inline(never)]
pub fn run(
    config: &PingConfig,
    stop: &StopFlag,
    each: &mut dyn FnMut(&Round<'_>),
) -> Result<PingReport, RcError> {
    if !(1..=SIZE_MAX).contains(&config.size) {
        let (value, max) = (config.size.into(), SIZE_MAX.into());
        return Err(RcError::Range { name: "size", value, min: 1, max });
    }
    let mut link = Link::connect(&config.target, stop, 8, b"")?;
    let mut report = PingReport {
        times: Histogram::new(),
        wrong: 0,
        connected_in: link.connected_in,
        path_mtu: 0,
        packets_resent: 0,
        stopped: false,
    };
    let conn = link.connection.conn;
    report.path_mtu = link.device.verbs().conn_info(conn).map_or(0, |info| info.mtu.bytes());
    let result = rounds(config, &mut link, stop, each, &mut report);
    report.packets_resent = link.device.stack().endpoint().counters().packets_resent.get();
    link.close();
    match result {
        Err(error) if error.is_stopped() => report.stopped = true,
        other => other?,
    }
    Ok(report)
}

fn rounds(
    config: &PingConfig,
    link: &mut Link,
    stop: &StopFlag,
    each: &mut dyn FnMut(&Round<'_>),
    report: &mut PingReport,
) -> Result<(), RcError> {
    let len = config.size as usize;
    let (pd, verbs) = (link.pd, link.device.verbs());
    let inbox = Memory::register(verbs, pd, Advert::LEN, Access::LOCAL_WRITE)?;
    let outbox = Memory::register(verbs, pd, Advert::LEN, Access::NONE)?;
    let source = Memory::register(verbs, pd, len, Access::REMOTE_READ)?;
    let sink = Memory::register(verbs, pd, len, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let stale = vec![0xa5; len];
    let mut seq = 0;
    while config.count.is_none_or(|count| seq < count) {
        if seq > 0 && config.interval > Duration::ZERO {
            pause(link, config.interval)?;
        }
        let data = text(seq, len);
        source.write(0, &data);
        sink.write(0, &stale);
        let start = stamp();
        for memory in [&source, &sink] {
            tell(
                link,
                &inbox,
                &outbox,
                &Advert { addr: memory.addr(), rkey: memory.rkey(), len: config.size },
            )?;
        }
        let time = stamp().since(start);
        report.times.record(time.as_nanos());
        let back = sink.read(0, len);
        let wrong_at = data.iter().zip(&back).position(|(a, b)| a != b);
        report.wrong += u64::from(wrong_at.is_some());
        each(&Round { seq, time, data: &data, wrong_at });
        seq += 1;
        if stop.is_stopped() {
            report.stopped = true;
            break;
        }
    }
    Ok(())
}

/// Sends an advert, and waits until the server is done with the memory.
fn tell(link: &mut Link, inbox: &Memory, outbox: &Memory, advert: &Advert) -> Result<(), RcError> {
    const DOING: &str = "pinging";
    let qpn = link.connection.qpn;
    outbox.write(0, &advert.bytes());
    let verbs = link.device.verbs();
    verbs.post_recv(qpn, 0, &[inbox.sge(0, Advert::LEN)])?;
    let list = [outbox.sge(0, Advert::LEN)];
    verbs.post_send(qpn, &SendWr::new(0, SendOp::Send, Data::Sges(&list)))?;
    // Both: our message must be out of its memory before the next one is written there.
    let (mut sent, mut answered) = (false, false);
    while !(sent && answered) {
        match link.next(DOING)?.0 {
            wc if wc.opcode == WcOpcode::Send => sent = true,
            wc if wc.len as usize != Advert::LEN => {
                return Err(RcError::Bogus { len: wc.len, expected: Advert::LEN });
            }
            _ => answered = true,
        }
    }
    Ok(())
}

/// Waits, and answers the peer's device meanwhile.
fn pause(link: &mut Link, time: Duration) -> Result<(), RcError> {
    use barewire_verbs::RdmaError;
    let qpn = link.connection.qpn;
    match link.device.wait(time, |device| Ok(super::client::ended(device, qpn).then_some(()))) {
        Ok(()) => Err(RcError::Closed("pinging")),
        Err(RdmaError::TimedOut) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_their_only_zero_and_differ() {
        for len in [1, 2, 15, 16, 64, 4000] {
            let (a, b) = (text(0, len), text(1, len));
            assert_eq!((a.len(), a.iter().position(|x| *x == 0)), (len, Some(len - 1)));
            assert!(len < 17 || a != b, "{len}");
        }
        assert!(text(94, 300) != text(0, 300));
    }
}
