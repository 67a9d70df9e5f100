//! Machnet: the performance report of its repository, and the page of its site, which prints the same figures.

use super::{Case, Column, Printed, PublishedRow, PublishedTable, Want};
use crate::figure::{Better, Unit};
use crate::run::HardwareClass::{self, BareMetal, CloudVms};

const COMMAND: &str = "msg_gen --local_ip CLIENT --remote_ip SERVER --msg_window 1|32 --tx_msg_size 1024";
const METHOD: &str = "Closed loop, 1024-byte requests and responses, one connection. msg_gen truncates each time to whole \
    microseconds and keeps two significant digits; its percentiles are those of one second, not of a run. \
    The published command has a flag --tx_msg_size that msg_gen does not have; what it has is --msg_size.";
const APART: &str = "the published figures are of pairs of other machines, with DPDK on their network cards";

const fn us(label: &'static str, path: &'static [&'static str]) -> Column {
    Column { label, unit: Unit::Ns, better: Better::Lower, paths: path, note: "" }
}

const COLUMNS: &[Column] = &[
    us("p50", &["rtt_ns.p50"]),
    us("p99", &["rtt_ns.p99"]),
    us("p99.9", &["rtt_ns.p99_9"]),
    Column {
        label: "RPCs/s",
        unit: Unit::PerSecond,
        better: Better::Higher,
        paths: &["rate_per_s"],
        note: "",
    },
];

const CASES: &[Case] = &[
    Case { label: "E1, latency: one request in flight", wants: &[("window", Want::Is(1.0))] },
    Case {
        label: "E2, message rate: several requests in flight (32 unless the row says otherwise)",
        wants: &[("window", Want::Above(1.0))],
    },
];

const NO_FIGURES: &[Option<Printed>] = &[None, None, None, None];

struct Host(&'static str, &'static str, HardwareClass);

/// Requests in flight, as a measured row must have them.
const ONE: (f64, &[(&str, Want)]) = (1.0, &[("window", Want::Is(1.0))]);
const MANY: (f64, &[(&str, Want)]) = (32.0, &[("window", Want::Is(32.0))]);
/// What the text ran with on AWS.
const EIGHT: (f64, &[(&str, Want)]) = (8.0, &[("window", Want::Is(8.0))]);

const fn row(
    host: &Host,
    case: usize,
    (window, wants): (f64, &'static [(&'static str, Want)]),
    values: &'static [Option<Printed>],
    note: &'static str,
) -> PublishedRow {
    PublishedRow {
        case,
        wants,
        system: host.0,
        hardware: host.1,
        class: host.2,
        window: Some(window),
        values,
        note,
    }
}

const AZURE: Host = Host("Azure F8s_v2, Ubuntu 22.03", "CX4-Lx, netvsc", CloudVms);
const AWS: Host = Host("AWS c5.xlarge, Amazon Linux", "ENA, ena", CloudVms);
const GCP: Host = Host("GCP", "gVNIC", CloudVms);
const E810_PF: Host = Host("Bare metal, Mariner 2.0", "E810 PF, ice", BareMetal);
const E810_VF: Host = Host("Bare metal, Mariner 2.0", "E810 VF, iavf", BareMetal);
const BF2: Host = Host("Bare metal, Ubuntu 22.04", "Bluefield-2, mlx5", BareMetal);
const CX5: Host = Host("Bare metal, Ubuntu 20.04", "CX5, mlx5", BareMetal);
const CX6: Host = Host("Bare metal, Ubuntu 20.04", "CX6-Dx, mlx5", BareMetal);

/// Whole microseconds, then the rate as it is printed and in thousands.
macro_rules! figures {
    ($p50:literal, $p99:literal, $p999:literal, $rate:literal, $kilo:literal) => {
        &[
            Some(Printed { text: concat!($p50, " us"), value: $p50 as f64 * 1e3 }),
            Some(Printed { text: concat!($p99, " us"), value: $p99 as f64 * 1e3 }),
            Some(Printed { text: concat!($p999, " us"), value: $p999 as f64 * 1e3 }),
            Some(Printed { text: $rate, value: $kilo as f64 * 1e3 }),
        ]
    };
}

const NO_GROUPS: &str = "no proximity groups";
const GROUPS: &str = "proximity groups";
const GROUPS_8: &str = "proximity groups; window 8, not 32";
const NOT_RUN: &str = "XXX in the text: not run by its authors";

const AZURE_1: PublishedRow = row(&AZURE, 0, ONE, figures!(18, 19, 25, "54K", 54), NO_GROUPS);
const AZURE_32: PublishedRow = row(&AZURE, 1, MANY, figures!(41, 54, 61, "753K", 753), NO_GROUPS);
const AWS_1: PublishedRow = row(&AWS, 0, ONE, figures!(42, 66, 105, "22K", 22), GROUPS);
const AWS_8: PublishedRow = row(&AWS, 1, EIGHT, figures!(61, 132, 209, "122K", 122), GROUPS_8);
const PF_1: PublishedRow = row(&E810_PF, 0, ONE, figures!(18, 21, 22, "55K", 55), "");
const VF_1: PublishedRow = row(&E810_VF, 0, ONE, figures!(18, 22, 22, "55K", 55), "");
const BF_1: PublishedRow = row(&BF2, 0, ONE, figures!(9, 12, 13, "99K", 99), "");

const fn table(
    id: &'static str,
    report: &'static str,
    title: &'static str,
    rows: &'static [PublishedRow],
) -> PublishedTable {
    PublishedTable {
        id,
        records_of: "machnet",
        report,
        title,
        command: COMMAND,
        method: METHOD,
        apart: APART,
        columns: COLUMNS,
        cases: CASES,
        sweep: None,
        rows,
    }
}

pub(super) const TABLES: &[PublishedTable] = &[
    table(
        "machnet",
        "Machnet performance report",
        "Single-connection request-response",
        &[
            AZURE_1,
            AWS_1,
            row(&GCP, 0, ONE, NO_FIGURES, NOT_RUN),
            PF_1,
            VF_1,
            BF_1,
            row(&CX5, 0, ONE, NO_FIGURES, NOT_RUN),
            row(&CX6, 0, ONE, NO_FIGURES, NOT_RUN),
            AZURE_32,
            AWS_8,
            row(&GCP, 1, MANY, NO_FIGURES, NOT_RUN),
            row(&E810_PF, 1, MANY, figures!(30, 33, 37, "1043K", 1043), ""),
            row(&E810_VF, 1, MANY, figures!(31, 35, 41, "1003K", 1003), ""),
            row(&BF2, 1, MANY, figures!(24, 26, 28, "1320K", 1320), ""),
            row(&CX5, 1, MANY, NO_FIGURES, NOT_RUN),
            row(&CX6, 1, MANY, NO_FIGURES, NOT_RUN),
        ],
    ),
    table(
        "machnet-page.cloud",
        "Machnet performance page",
        "Cloud VMs (the report's figures, printed again)",
        &[AZURE_1, AWS_1, AZURE_32, AWS_8],
    ),
    table(
        "machnet-page.bare-metal",
        "Machnet performance page",
        "Bare metal (the report's figures, printed again)",
        &[
            PF_1,
            VF_1,
            BF_1,
            row(&E810_PF, 1, MANY, figures!(30, 33, 37, "1,043K", 1043), ""),
            row(&E810_VF, 1, MANY, figures!(31, 35, 41, "1,003K", 1003), ""),
            row(&BF2, 1, MANY, figures!(24, 26, 28, "1,320K", 1320), ""),
        ],
    ),
];
