//! OnixS C++ CME MDP Conflated UDP Handler: its benchmark with and without the network layer.

use super::{Case, Column, PublishedRow, PublishedTable, Want};
use crate::figure::{Better, Unit};
use crate::run::HardwareClass::BareMetal;

const REPORT: &str = "OnixS CME MDP Conflated UDP Handler 1.1.2: benchmarking with network/kernel layer";
const METHOD: &str = "No machine, operating system, sample count or callback is named. The tables without the network layer are those \
    of another handler's page, number for number.";
const NO_COMMAND: &str = "not told";

const fn time(label: &'static str, paths: &'static [&'static str]) -> Column {
    Column { label, unit: Unit::Ns, better: Better::Lower, paths }
}

const COLUMNS: &[Column] = &[
    time("min", &["latency_ns.min"]),
    time("median", &["latency_ns.median", "latency_ns.p50"]),
    time("mean", &["latency_ns.mean"]),
    time("95 %", &["latency_ns.p95"]),
    time("99 %", &["latency_ns.p99"]),
    time("max", &["latency_ns.max"]),
];

const APP_5MS: &[Case] = &[Case {
    label: "t4 to t5: application only",
    wants: &[("base", Want::Word("app")), ("gap_us", Want::Is(5000.0))],
}];
const NET_5MS: &[Case] = &[Case {
    label: "t3 to t5: from the stamp of the card (published) or the kernel (here)",
    wants: &[("base", Want::Word("stamp")), ("gap_us", Want::Is(5000.0))],
}];
const APP_0: &[Case] = &[Case {
    label: "t4 to t5: application only",
    wants: &[("base", Want::Word("app")), ("gap_us", Want::Is(0.0))],
}];
const NET_0: &[Case] = &[Case {
    label: "t3 to t5: from the stamp of the card (published) or the kernel (here)",
    wants: &[("base", Want::Word("stamp")), ("gap_us", Want::Is(0.0))],
}];

const fn row(system: &'static str, values: &'static [Option<f64>]) -> PublishedRow {
    PublishedRow {
        case: 0,
        system,
        hardware: "not told",
        class: BareMetal,
        window: None,
        values,
        note: "samples not told",
    }
}

const SOCKET: &str = "SocketFeedEngine";
const ONLOAD: &str = "SocketFeedEngine + OpenOnload";
const EF_VI: &str = "SolarflareFeedEngine (ef_vi)";

macro_rules! us {
    ($($value:literal),+) => { &[$(Some($value * 1e3)),+] };
}

const fn table(
    id: &'static str,
    title: &'static str,
    cases: &'static [Case],
    rows: &'static [PublishedRow],
) -> PublishedTable {
    PublishedTable {
        id,
        records_of: id,
        report: REPORT,
        title,
        command: NO_COMMAND,
        method: METHOD,
        columns: COLUMNS,
        cases,
        sweep: None,
        rows,
    }
}

pub(super) const TABLES: &[PublishedTable] = &[
    table(
        "onixs.app-5ms",
        "Application level only, 5 ms between packets",
        APP_5MS,
        &[
            row(SOCKET, us!(0.993, 1.144, 1.203, 1.493, 2.047, 14.344)),
            row(EF_VI, us!(0.856, 1.017, 1.071, 1.383, 1.830, 14.680)),
        ],
    ),
    table(
        "onixs.net-5ms",
        "With network and kernel layer, 5 ms between packets",
        NET_5MS,
        &[
            row(SOCKET, us!(14.007, 52.087, 48.853, 55.894, 60.966, 79.933)),
            row(EF_VI, us!(2.190, 2.664, 2.709, 3.152, 3.798, 16.385)),
        ],
    ),
    table(
        "onixs.app-0",
        "Application level only, no delay between packets",
        APP_0,
        &[
            row(SOCKET, us!(0.507, 0.667, 0.739, 1.156, 1.564, 14.019)),
            row(ONLOAD, us!(0.533, 0.693, 0.765, 1.113, 1.560, 14.617)),
            row(EF_VI, us!(0.600, 0.714, 0.778, 1.067, 1.490, 14.756)),
        ],
    ),
    table(
        "onixs.net-0",
        "With network and kernel layer, no delay between packets",
        NET_0,
        &[
            row(SOCKET, us!(10.786, 12.610, 12.676, 14.238, 15.562, 64.169)),
            row(ONLOAD, us!(3.235, 4.148, 4.267, 5.260, 9.407, 22.261)),
            row(EF_VI, us!(1.925, 2.353, 2.377, 2.853, 3.310, 16.210)),
        ],
    ),
];
