//! OnixS C++ CME MDP Conflated UDP Handler: its benchmark with and without the network layer.

use super::{Case, Column, Printed, PublishedRow, PublishedTable, Want};
use crate::figure::{Better, Unit};
use crate::run::HardwareClass::BareMetal;

const REPORT: &str = "OnixS CME MDP Conflated UDP Handler 1.1.2: benchmarking with network/kernel layer";
const METHOD: &str = "No machine, operating system, sample count or callback is named. The tables without the network layer are those \
    of another handler's page, number for number.";
const NO_COMMAND: &str = "not told";
const APART_APP: &str = "the published figures are of hardware that is not told";
const APART_NET: &str = "the published figures are of hardware that is not told, and begin at the network card's own stamp; here the kernel's";

const fn time(label: &'static str, paths: &'static [&'static str]) -> Column {
    Column { label, unit: Unit::Ns, better: Better::Lower, paths, note: "" }
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

const fn row(
    (system, wants): (&'static str, &'static [(&'static str, Want)]),
    values: &'static [Option<Printed>],
) -> PublishedRow {
    PublishedRow {
        case: 0,
        wants,
        system,
        hardware: "not told",
        class: BareMetal,
        window: None,
        values,
        note: "samples not told",
    }
}

/// A handler of theirs, and the engines of ours that stand in its place: the kernel's sockets, the same under Onload, and a ring of
/// frames past the kernel's network stack.
const SOCKET: (&str, &[(&str, Want)]) = ("SocketFeedEngine", &[("engine", Want::Begins("socket"))]);
const ONLOAD: (&str, &[(&str, Want)]) =
    ("SocketFeedEngine + OpenOnload", &[("engine", Want::Begins("onload"))]);
const EF_VI: (&str, &[(&str, Want)]) = ("SolarflareFeedEngine (ef_vi)", &[("engine", Want::Begins("xdp"))]);

/// Microseconds as they are printed, and the same in ns: a product of floating point would not be whole.
macro_rules! us {
    ($($text:literal = $ns:literal),+) => {
        &[$(Some(Printed { text: concat!($text, " us"), value: $ns as f64 })),+]
    };
}

const fn table(
    id: &'static str,
    title: &'static str,
    apart: &'static str,
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
        apart,
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
        APART_APP,
        APP_5MS,
        &[
            row(
                SOCKET,
                us!(
                    "0.993" = 993,
                    "1.144" = 1144,
                    "1.203" = 1203,
                    "1.493" = 1493,
                    "2.047" = 2047,
                    "14.344" = 14344
                ),
            ),
            row(
                EF_VI,
                us!(
                    "0.856" = 856,
                    "1.017" = 1017,
                    "1.071" = 1071,
                    "1.383" = 1383,
                    "1.830" = 1830,
                    "14.680" = 14680
                ),
            ),
        ],
    ),
    table(
        "onixs.net-5ms",
        "With network and kernel layer, 5 ms between packets",
        APART_NET,
        NET_5MS,
        &[
            row(
                SOCKET,
                us!(
                    "14.007" = 14007,
                    "52.087" = 52087,
                    "48.853" = 48853,
                    "55.894" = 55894,
                    "60.966" = 60966,
                    "79.933" = 79933
                ),
            ),
            row(
                EF_VI,
                us!(
                    "2.190" = 2190,
                    "2.664" = 2664,
                    "2.709" = 2709,
                    "3.152" = 3152,
                    "3.798" = 3798,
                    "16.385" = 16385
                ),
            ),
        ],
    ),
    table(
        "onixs.app-0",
        "Application level only, no delay between packets",
        APART_APP,
        APP_0,
        &[
            row(
                SOCKET,
                us!(
                    "0.507" = 507,
                    "0.667" = 667,
                    "0.739" = 739,
                    "1.156" = 1156,
                    "1.564" = 1564,
                    "14.019" = 14019
                ),
            ),
            row(
                ONLOAD,
                us!(
                    "0.533" = 533,
                    "0.693" = 693,
                    "0.765" = 765,
                    "1.113" = 1113,
                    "1.560" = 1560,
                    "14.617" = 14617
                ),
            ),
            row(
                EF_VI,
                us!(
                    "0.600" = 600,
                    "0.714" = 714,
                    "0.778" = 778,
                    "1.067" = 1067,
                    "1.490" = 1490,
                    "14.756" = 14756
                ),
            ),
        ],
    ),
    table(
        "onixs.net-0",
        "With network and kernel layer, no delay between packets",
        APART_NET,
        NET_0,
        &[
            row(
                SOCKET,
                us!(
                    "10.786" = 10786,
                    "12.610" = 12610,
                    "12.676" = 12676,
                    "14.238" = 14238,
                    "15.562" = 15562,
                    "64.169" = 64169
                ),
            ),
            row(
                ONLOAD,
                us!(
                    "3.235" = 3235,
                    "4.148" = 4148,
                    "4.267" = 4267,
                    "5.260" = 5260,
                    "9.407" = 9407,
                    "22.261" = 22261
                ),
            ),
            row(
                EF_VI,
                us!(
                    "1.925" = 1925,
                    "2.353" = 2353,
                    "2.377" = 2377,
                    "2.853" = 2853,
                    "3.310" = 3310,
                    "16.210" = 16210
                ),
            ),
        ],
    ),
];
