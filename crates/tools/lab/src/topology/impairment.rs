//! What frames suffer on a link, as the file says it.

use crate::hash::fnv1a;
use barewire_base::{Duration, Prng};
use barewire_port::{FaultSettings, GilbertElliott, Outage};
use serde::Deserialize;

/// A link whose delay is not short holds this many frames for each microsecond of it: a million frames a second.
const FLIGHT_FRAMES_PER_US: u64 = 1;
/// No link holds more frames unless its file says so.
const FLIGHT_FRAMES_DEFAULT_MAX: u64 = 65_536;

/// One direction, or both. A key that is absent in a direction is taken from `both`.
#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ImpairmentTable {
    delay_us: Option<u64>,
    jitter_us: Option<u64>,
    loss: Option<f64>,
    burst: Option<BurstTable>,
    reorder: Option<f64>,
    reorder_gap_frames: Option<u32>,
    reorder_hold_us: Option<u64>,
    duplicate: Option<f64>,
    corrupt: Option<f64>,
    rate_bps: Option<u64>,
    rate_burst_bytes: Option<u32>,
    queue_frames: Option<u32>,
    flight_frames: Option<u32>,
    ecn: Option<f64>,
    ecn_frames: Option<u32>,
    outage: Option<OutageTable>,
}

/// Loss in bursts, after Gilbert and Elliott.
#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
struct BurstTable {
    p: f64,
    r: f64,
    #[serde(default)]
    good_loss: f64,
    #[serde(default = "certain")]
    bad_loss: f64,
}

fn certain() -> f64 {
    1.0
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
struct OutageTable {
    #[serde(default)]
    start_ms: u64,
    length_ms: u64,
    #[serde(default)]
    every_ms: u64,
}

impl ImpairmentTable {
    /// The settings of a direction, with what `both` says where this says nothing.
    ///
    /// # Errors
    /// The setting that is out of bounds.
    pub(super) fn settings(&self, both: &ImpairmentTable) -> Result<FaultSettings, String> {
        let d = FaultSettings::default();
        let us = |own: Option<u64>, other: Option<u64>, default: Duration| {
            own.or(other).map_or(default, Duration::from_micros)
        };
        let delay = us(self.delay_us, both.delay_us, d.delay);
        let jitter = us(self.jitter_us, both.jitter_us, d.jitter);
        let limit_frames = self.queue_frames.or(both.queue_frames).unwrap_or(d.limit_frames);
        let under_way_us = (delay.as_nanos().saturating_add(jitter.as_nanos())) / 1000;
        let flight = under_way_us
            .saturating_mul(FLIGHT_FRAMES_PER_US)
            .min(FLIGHT_FRAMES_DEFAULT_MAX)
            .max(d.limit_frames.into()) as u32;
        let rate_bps = self.rate_bps.or(both.rate_bps);
        if rate_bps == Some(0) {
            return Err("rate_bps = 0 would pass nothing; leave it out for no limit".into());
        }
        let ecn_frames = self.ecn_frames.or(both.ecn_frames).unwrap_or(0);
        if rate_bps.is_none() {
            let queue = [
                ("ecn_frames", ecn_frames > 0),
                ("queue_frames", self.queue_frames.or(both.queue_frames).is_some()),
                ("rate_burst_bytes", self.rate_burst_bytes.or(both.rate_burst_bytes).is_some()),
            ];
            if let Some((key, _)) = queue.into_iter().find(|(_, given)| *given) {
                return Err(format!("{key} has no effect without rate_bps: nothing waits"));
            }
        }
        let settings = FaultSettings {
            loss: self.loss.or(both.loss).unwrap_or(d.loss),
            burst_loss: self.burst.or(both.burst).map(|b| GilbertElliott {
                to_bad: b.p,
                to_good: b.r,
                loss_good: b.good_loss,
                loss_bad: b.bad_loss,
            }),
            reorder: self.reorder.or(both.reorder).unwrap_or(d.reorder),
            reorder_gap: self.reorder_gap_frames.or(both.reorder_gap_frames).unwrap_or(d.reorder_gap),
            reorder_hold: us(self.reorder_hold_us, both.reorder_hold_us, d.reorder_hold),
            duplicate: self.duplicate.or(both.duplicate).unwrap_or(d.duplicate),
            corrupt: self.corrupt.or(both.corrupt).unwrap_or(d.corrupt),
            delay,
            jitter,
            rate_bps: rate_bps.unwrap_or(d.rate_bps),
            rate_burst_bytes: self.rate_burst_bytes.or(both.rate_burst_bytes).unwrap_or(d.rate_burst_bytes),
            limit_frames,
            flight_frames: self
                .flight_frames
                .or(both.flight_frames)
                .unwrap_or(flight.saturating_add(if rate_bps.is_some() { limit_frames } else { 0 })),
            ecn: self.ecn.or(both.ecn).unwrap_or(d.ecn),
            ecn_frames,
            outage: self.outage.or(both.outage).map(|o| Outage {
                start: Duration::from_millis(o.start_ms),
                length: Duration::from_millis(o.length_ms),
                every: Duration::from_millis(o.every_ms),
            }),
        };
        settings.check().map_err(|why| why.replace("limit_frames", "queue_frames"))?;
        Ok(settings)
    }
}

/// The seeds of a link's directions, forward and back, from that of the lab. They depend on the link's name and not on its place,
/// so that a further link leaves the others as they were.
pub(super) fn seeds_of(lab: u64, link: &str) -> [u64; 2] {
    ["forward", "reverse"].map(|direction| {
        let hash = fnv1a(link.bytes().chain([b'/']).chain(direction.bytes()));
        Prng::new(lab ^ hash).next_u64()
    })
}
