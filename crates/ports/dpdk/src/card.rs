//! Devices that are open: one port's own, or shared by ports of this process that serve queues of their own (`share=1`).
//!
//! ```text
//! first port: plug in, configure all queues ─┐
//! each port:  its queues receive into its pool ┴─> the last one starts the device
//! any port goes: all queues stand still ──> closed ──> the others are told `Down`, and open anew
//! ```
//! A device that receives into a pool has to be closed before the pool goes, and nobody may be inside a burst meanwhile. A port says so by its
//! [`Gate`]: one word of its own, which costs no traffic between cores. A device of one port has none.

use crate::config::DpdkConfig;
use crate::sys::{Failed, Hashing, Mbufs, Plugged, Queues, RawFrame, RawInfo, RawPool, RawStats};
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// DPDK's list of devices is the process's, and plugging in and out is for one thread at a time. Here are those that ports share.
static SHARED: Mutex<Vec<Weak<Card>>> = Mutex::new(Vec::new());

type Turn = MutexGuard<'static, Vec<Weak<Card>>>;

fn turn() -> Turn {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What ports must agree on to share a device.
#[derive(Clone, PartialEq, Eq)]
struct Terms {
    device: String,
    queues: u16,
    slots: [u16; 2],
    mtu: Option<u16>,
    promiscuous: bool,
}

impl Terms {
    fn of(config: &DpdkConfig) -> Terms {
        Terms {
            device: config.device.clone(),
            queues: config.queues,
            slots: [config.rx_slots, config.tx_slots],
            mtu: config.mtu,
            promiscuous: config.promiscuous,
        }
    }
}

/// Whether a port is inside a burst, and whether the device is there for one.
#[derive(Default)]
struct Gate {
    inside: AtomicBool,
}

/// Of a port that is inside: the device is not closed before it is dropped.
pub(crate) struct Inside(Option<Arc<Gate>>);

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(gate) = &self.0 {
            gate.inside.store(false, Ordering::Release);
        }
    }
}

/// A pool that queues receive into, and where its port is.
struct Served {
    pool: NonNull<RawPool>,
    gate: Arc<Gate>,
}

// SAFETY: the pool is touched by whoever closes the device only, when its port is outside.
unsafe impl Send for Served {}

/// Under the card's lock, which is taken within a [`turn`].
struct State {
    plugged: Plugged,
    /// Whether each queue is some port's.
    taken: Vec<bool>,
    served: Vec<Served>,
}

struct Card {
    terms: Terms,
    state: Mutex<State>,
    /// Every queue is served, and the device started.
    runs: AtomicBool,
    closed: AtomicBool,
}

impl Card {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the device, unless another port has.
    fn close(&self, _turn: &Turn) {
        let mut state = self.state();
        // Sequentially consistent, as in `enter`: of a port that enters and us, one sees the other.
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        let served = std::mem::take(&mut state.served);
        for port in &served {
            while port.gate.inside.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        let pools: Vec<_> = served.iter().map(|served| served.pool).collect();
        // SAFETY: once, as `closed` says. Ports that were inside have left, and none enters; each keeps its pool for as long as it is a member.
        unsafe { state.plugged.close(&pools) };
    }
}

/// One port's part of a device.
pub(crate) struct Member {
    card: Arc<Card>,
    /// Where other ports may close the device.
    gate: Option<Arc<Gate>>,
    queues: Queues,
    /// After all that uses them.
    pub(crate) mbufs: Mbufs,
}

fn refused(why: impl Into<String>) -> Failed {
    (why.into(), None)
}

impl Member {
    /// Opens the device, or takes queues of one that is open. What it says of itself: a link that is not known yet counts as up.
    pub(crate) fn open(
        config: &DpdkConfig,
        devargs: &CStr,
        mbufs: Mbufs,
    ) -> Result<(Member, RawInfo), Failed> {
        let mut turn = turn();
        turn.retain(|card| card.upgrade().is_some_and(|card| !card.closed.load(Ordering::SeqCst)));
        let open = turn.iter().find_map(|card| card.upgrade().filter(|c| c.terms.device == config.device));
        let card = match open {
            Some(card) if config.share => card,
            Some(_) => return Err(refused("another port of this process shares the device: `share=1`")),
            None => {
                let card = Arc::new(plug_in(config, devargs)?);
                if config.share {
                    turn.push(Arc::downgrade(&card));
                }
                card
            }
        };
        if card.terms != Terms::of(config) {
            return Err(refused(
                "ports that share a device agree on `queues`, `rx`, `tx`, `mtu` and `promiscuous`",
            ));
        }
        let own = config.own_queues();
        let mut state = card.state();
        if let Some(queue) = own.iter().find(|queue| state.taken[usize::from(**queue)]) {
            return Err(refused(format!("queue {queue} is another port's")));
        }
        let gate = Arc::new(Gate::default());
        state.served.push(Served { pool: mbufs.raw(), gate: Arc::clone(&gate) });
        let opened = state.take(&own, mbufs.raw(), config.promiscuous);
        let info = state.plugged.info;
        drop(state);
        match opened {
            Ok(runs) => card.runs.store(runs, Ordering::Release),
            Err(failed) => {
                // Some of its queues may receive into the pool, which goes now.
                card.close(&turn);
                return Err(failed);
            }
        }
        // A port that shares a device sends on the queue of the number of its first one.
        let tx = if config.share { own[0] } else { 0 };
        let queues = Queues::new(info.port, own, tx);
        let gate = config.share.then_some(gate);
        Ok((Member { card, gate, queues, mbufs }, info))
    }

    /// Whether the device has started: the ports for all of its queues are open.
    #[inline]
    pub(crate) fn runs(&self) -> bool {
        self.card.runs.load(Ordering::Acquire)
    }

    /// Keeps the device open. `None`: another port has closed it.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Inside> {
        let Some(gate) = &self.gate else { return Some(Inside(None)) };
        gate.inside.store(true, Ordering::SeqCst);
        let inside = Inside(Some(Arc::clone(gate)));
        (!self.card.closed.load(Ordering::SeqCst)).then_some(inside)
    }

    /// Receives: how many of `frames` were filled. Each chunk is the caller's then.
    #[inline]
    pub(crate) fn receive(&mut self, _inside: &Inside, frames: &mut [RawFrame]) -> usize {
        if !self.runs() {
            return 0;
        }
        // SAFETY: the device runs, and is not closed while we are inside. The queues are this port's alone.
        unsafe { self.queues.receive(&mut self.mbufs, frames) }
    }

    /// Sends: how many from the front the driver took, and how many of these it can never send.
    ///
    /// # Safety
    /// Each frame lies within its chunk of this pool, and nobody else uses that chunk.
    #[inline]
    pub(crate) unsafe fn send(&mut self, _inside: &Inside, frames: &[RawFrame]) -> (usize, usize) {
        if !self.runs() {
            return (0, 0);
        }
        // SAFETY: as in `receive`; the frames are the caller's condition.
        unsafe { self.queues.send(&mut self.mbufs, frames) }
    }

    /// Lets the driver free what it has sent.
    pub(crate) fn reap(&mut self, _inside: &Inside) {
        if self.runs() {
            // SAFETY: as in `receive`.
            unsafe { self.queues.reap() }
        }
    }

    /// The device's counts, and whether its link is up. `None`: another port looks just now, or it has not started.
    pub(crate) fn look(&self, _inside: &Inside) -> Option<(RawStats, bool)> {
        // Never waits: whoever closes the device has the lock, and waits for those inside.
        let _alone = match &self.gate {
            Some(_) => Some(self.card.state.try_lock().ok()?),
            None => None,
        };
        // SAFETY: as in `receive`; drivers count for one thread at a time.
        self.runs().then(|| unsafe { self.queues.look() })
    }

    /// Whether the device's counts are this port's to tell: of ports that share it, those of the one with the first queue.
    pub(crate) fn counts_for_all(&self) -> bool {
        self.queues.has_first()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.card.close(&turn());
    }
}

impl State {
    /// Lets queues receive into a pool, and starts the device with the last of them. Whether it runs.
    fn take(&mut self, own: &[u16], pool: NonNull<RawPool>, promiscuous: bool) -> Result<bool, Failed> {
        for queue in own {
            // SAFETY: the port that has the pool is being opened: it uses it no more before the device runs, and closes the device first.
            unsafe { self.plugged.serve(*queue, pool)? };
            self.taken[usize::from(*queue)] = true;
        }
        if self.taken.contains(&false) {
            return Ok(false);
        }
        self.plugged.run(promiscuous)?;
        Ok(true)
    }
}

/// A device with the queues that a port asks for, none of which is served.
fn plug_in(config: &DpdkConfig, devargs: &CStr) -> Result<Card, Failed> {
    let mut plugged = Plugged::new(devargs)?;
    let info = &mut plugged.info;
    let (rx, tx) = (info.rx_queues, info.tx_queues);
    // A queue each way for each: some drivers demand it. Without, ports that share a device cannot send.
    let wanted = config.queues;
    (info.rx_slots, info.tx_slots) = (config.rx_slots, config.tx_slots);
    (info.rx_queues, info.tx_queues) = (wanted, wanted.min(tx));
    let few = wanted > rx || config.share && wanted > tx || tx == 0;
    let configured = match few {
        true => {
            Err(refused(format!("`queues={wanted}`, and the device has {rx} to receive and {tx} to send")))
        }
        false => plugged.configure(config.mtu),
    };
    if let Err(failed) = configured {
        // SAFETY: plugged in just now, and nobody has heard of it.
        unsafe { plugged.close(&[]) };
        return Err(failed);
    }
    let taken = vec![false; usize::from(wanted)];
    Ok(Card {
        terms: Terms::of(config),
        state: Mutex::new(State { plugged, taken, served: Vec::new() }),
        runs: AtomicBool::new(false),
        closed: AtomicBool::new(false),
    })
}

/// How a device that ports of this process share chooses the queue of a frame. `None`: it does not say, or does not run, or somebody is
/// just opening or closing one, which may take seconds.
pub(crate) fn hashing(device: &str) -> Option<Hashing> {
    let turn = SHARED.try_lock().ok()?;
    let card = turn.iter().find_map(|card| card.upgrade().filter(|card| card.terms.device == device))?;
    let state = card.state.try_lock().ok()?;
    let runs = card.runs.load(Ordering::Acquire) && !card.closed.load(Ordering::SeqCst);
    runs.then(|| state.plugged.hashing())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_how_frames_are_dealt_out_waits_for_nobody() {
        // While a device is opened, which takes seconds.
        let _turn = turn();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(hashing("net_null0").is_none()));
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(20)), Ok(true));
    }
}
