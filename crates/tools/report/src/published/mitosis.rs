//! KRdmaKit / MITOSIS: how fast reliable RDMA connections are set up.

use super::{Case, Column, Printed, PublishedRow, PublishedTable, Sweep, Want};
use crate::figure::{Better, Unit};
use crate::run::HardwareClass::BareMetal;

const REPORT: &str = "RC connection benchmark (KRdmaKit, MITOSIS)";
const METHOD: &str = "Kernel modules, RDMA cards; rates are read off a log. The card's firmware is in every figure; \
    software endpoints have none. \
    The published commands take a password on the command line.";

const RATE: Column = Column {
    label: "connections/s",
    unit: Unit::PerSecond,
    better: Better::Higher,
    paths: &["connections_per_s", "rate_per_s"],
    note: "",
};
const APART: &str = "the published figures are of other machines, and of what the firmware of their cards does; endpoints here have none";
const RATE_ONLY: &[Column] = &[RATE];
const LATENCY: &[Column] = &[
    Column {
        label: "time a connection",
        unit: Unit::Ns,
        better: Better::Lower,
        paths: &["connect_ns.mean", "latency_ns.mean", "connect_ns.p50", "latency_ns.p50", "rtt_ns.p50"],
        note: "published: one second divided by 197, so a whole cycle, closing included; here: from the first call of a connection until it \
            can send, closing not included",
    },
    RATE,
];

const fn threads(label: &'static str, wants: &'static [(&'static str, Want)]) -> Case {
    Case { label, wants }
}

const THREADS: &[Case] = &[
    threads("1 thread", &[("threads", Want::Is(1.0))]),
    threads("2 threads", &[("threads", Want::Is(2.0))]),
    threads("4 threads", &[("threads", Want::Is(4.0))]),
    threads("8 threads", &[("threads", Want::Is(8.0))]),
    threads("12 threads", &[("threads", Want::Is(12.0))]),
];
const MACHINES: &[Case] = &[
    threads("1 client machine", &[("hosts", Want::Is(1.0))]),
    threads("2 client machines", &[("hosts", Want::Is(2.0))]),
    threads("4 client machines", &[("hosts", Want::Is(4.0))]),
    threads("8 client machines", &[("hosts", Want::Is(8.0))]),
];

/// The machines that a section names, with their system where it does.
const TWO: &str = "val01 and val04, Linux 4.15.0-46";
const CLUSTER: &str = "val01 as the server, clients of val00 and val04 to val10";
const NOT_TOLD: &str = "machines not told, two NICs each";

const fn row(
    hardware: &'static str,
    case: usize,
    values: &'static [Option<Printed>],
    note: &'static str,
) -> PublishedRow {
    PublishedRow {
        case,
        wants: &[],
        system: "KRdmaKit",
        hardware,
        class: BareMetal,
        window: None,
        values,
        note,
    }
}

macro_rules! per_s {
    ($text:literal = $value:literal) => {
        &[Some(Printed { text: $text, value: $value })]
    };
}

const fn table(
    id: &'static str,
    title: &'static str,
    command: &'static str,
    columns: &'static [Column],
    cases: &'static [Case],
    sweep: Option<Sweep>,
    rows: &'static [PublishedRow],
) -> PublishedTable {
    PublishedTable {
        id,
        records_of: id,
        report: REPORT,
        title,
        command,
        method: METHOD,
        apart: APART,
        columns,
        cases,
        sweep,
        rows,
    }
}

const BY_THREADS: Option<Sweep> = Some(Sweep { axis: "threads", words: "threads" });
const BY_MACHINES: Option<Sweep> = Some(Sweep { axis: "hosts", words: "client machines" });

/// The tables that a row of connections repeats: one connection at a time of each thread, closed again, and none that stay. That of
/// one thread stands in three of them.
pub(super) fn tables_of(hosts: u64, threads: u64, nics: u64) -> &'static [&'static str] {
    match (hosts, threads, nics) {
        (1, 1, 1) => &["rc.threads", "rc.latency", "rc.dual-nic"],
        (1, 2, 1) => &["rc.threads", "rc.machines"],
        (1, _, 1) => &["rc.threads"],
        (1, _, 2) => &["rc.dual-nic"],
        (_, 2, 1) => &["rc.machines"],
        _ => &[],
    }
}

pub(super) const TABLES: &[PublishedTable] = &[
    table(
        "rc.latency",
        "Latency: one thread, one NIC",
        "bootstrap_proxy.py -f latency/run.toml -u USER -p PASSWORD",
        LATENCY,
        &[Case { label: "One thread", wants: &[] }],
        None,
        &[row(
            TWO,
            0,
            &[
                Some(Printed { text: "5.07ms", value: 5_070_000.0 }),
                Some(Printed { text: "197 connection/s", value: 197.0 }),
            ],
            "5.07 ms is 1 / 197: derived, not measured; the same set-up is 172.6/s in the next table and about 204/s in the log",
        )],
    ),
    table(
        "rc.threads",
        "Throughput with threads: one NIC, one client machine",
        "bootstrap_proxy.py -f throughput-thread/run.toml -u USER -p PASSWORD",
        RATE_ONLY,
        THREADS,
        BY_THREADS,
        &[
            row(TWO, 0, per_s!("172.6" = 172.6), ""),
            row(TWO, 1, per_s!("375.9" = 375.9), ""),
            row(TWO, 2, per_s!("398" = 398.0), ""),
            row(TWO, 3, per_s!("391" = 391.0), ""),
            row(TWO, 4, per_s!("400" = 400.0), ""),
        ],
    ),
    table(
        "rc.machines",
        "Throughput with machines: one NIC at the server, two threads a machine",
        "bootstrap_proxy.py -f throughput-machine/run.toml [-b HOST...] -u USER -p PASSWORD",
        RATE_ONLY,
        MACHINES,
        BY_MACHINES,
        &[
            row(CLUSTER, 0, per_s!("397.3" = 397.3), ""),
            row(CLUSTER, 1, per_s!("408.6" = 408.6), ""),
            row(CLUSTER, 2, per_s!("400.8" = 400.8), ""),
            row(CLUSTER, 3, per_s!("391.2" = 391.2), ""),
        ],
    ),
    table(
        "rc.dual-nic",
        "Throughput with two NICs",
        "bootstrap_proxy.py -f dual-nic/run.toml -u USER -p PASSWORD",
        RATE_ONLY,
        THREADS,
        BY_THREADS,
        &[
            row(NOT_TOLD, 0, per_s!("173" = 173.0), "one NIC only"),
            row(NOT_TOLD, 1, per_s!("352" = 352.0), ""),
            row(NOT_TOLD, 2, per_s!("802" = 802.0), ""),
            row(NOT_TOLD, 3, per_s!("841" = 841.0), ""),
            row(NOT_TOLD, 4, per_s!("845" = 845.0), ""),
        ],
    ),
];
