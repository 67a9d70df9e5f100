//! What was recorded about bmv2 elsewhere: figures that this program did not measure in the run that shows them. What others
//! published is in the report's tables.

/// Where the recorded figures come from, for rows that carry them.
pub(crate) const RECORDED: &str = "recorded elsewhere, not measured in this run: bmv2 1.15.5 built -O3 with logging macros \
                                   off, 2 vCPU EPYC virtual machine, Linux 6.18, an idle machine";

/// Capture to capture, 60-byte packets: program, entries at least, packets per second (low, high), CPU us per packet (low,
/// high).
pub(crate) const RECORDED_FILES: &[(&str, u32, [f64; 2], [f64; 2])] = &[
    ("simple_router", 0, [71e3, 73e3], [25.0, 27.0]),
    ("acl", 0, [58e3, 76e3], [25.0, 32.0]),
    ("acl", 10_000, [34.9e3, 34.9e3], [47.7, 47.7]),
    ("acl", 50_000, [10.2e3, 10.2e3], [122.0, 122.0]),
];

/// Two hosts, offloads off: medians of five TCP runs of 30 s in two sessions, in Mbit/s.
pub(crate) const RECORDED_TCP_MBPS: [f64; 2] = [652.0, 711.0];
/// UDP of 60-byte frames, highest offered with at most 1 % loss, in two sessions.
pub(crate) const RECORDED_UDP_PPS: [f64; 2] = [40e3, 80e3];
/// The most that arrived.
pub(crate) const RECORDED_UDP_PEAK_PPS: f64 = 113e3;
/// What arrived of a flood.
pub(crate) const RECORDED_UDP_FLOOD_PPS: f64 = 41e3;
