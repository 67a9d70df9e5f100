//! Machnet: the performance report of its repository, and the page of its site, which prints the same figures.

use super::{Case, Column, PublishedRow, PublishedTable, Want};
use crate::figure::{Better, Unit};
use crate::run::HardwareClass::{self, BareMetal, CloudVms};

const COMMAND: &str = "msg_gen --local_ip CLIENT --remote_ip SERVER --msg_window 1|32 --tx_msg_size 1024";
const METHOD: &str = "Closed loop, 1024-byte requests and responses, one connection. msg_gen truncates each time to whole \
    microseconds and keeps two significant digits; its percentiles are those of one second, not of a run. \
    The published command has a flag --tx_msg_size that msg_gen does not have; what it has is --msg_size.";

const fn us(label: &'static str, path: &'static [&'static str]) -> Column {
    Column { label, unit: Unit::Ns, better: Better::Lower, paths: path }
}

const COLUMNS: &[Column] = &[
    us("p50", &["rtt_ns.p50"]),
    us("p99", &["rtt_ns.p99"]),
    us("p99.9", &["rtt_ns.p99_9"]),
    Column { label: "RPCs/s", unit: Unit::PerSecond, better: Better::Higher, paths: &["rate_per_s"] },
];

const CASES: &[Case] = &[
    Case { label: "E1, latency: one request in flight", wants: &[("window", Want::Is(1.0))] },
    Case {
        label: "E2, message rate: several requests in flight (32 unless the row says otherwise)",
        wants: &[("window", Want::Above(1.0))],
    },
];

const NO_FIGURES: &[Option<f64>] = &[None, None, None, None];

struct Host(&'static str, &'static str, HardwareClass);

const fn row(
    host: &Host,
    case: usize,
    window: f64,
    values: &'static [Option<f64>],
    note: &'static str,
) -> PublishedRow {
    PublishedRow { case, system: host.0, hardware: host.1, class: host.2, window: Some(window), values, note }
}

const AZURE: Host = Host("Azure F8s_v2, Ubuntu 22.03", "CX4-Lx, netvsc", CloudVms);
const AWS: Host = Host("AWS c5.xlarge, Amazon Linux", "ENA, ena", CloudVms);
const GCP: Host = Host("GCP", "gVNIC", CloudVms);
const E810_PF: Host = Host("Bare metal, Mariner 2.0", "E810 PF, ice", BareMetal);
const E810_VF: Host = Host("Bare metal, Mariner 2.0", "E810 VF, iavf", BareMetal);
const BF2: Host = Host("Bare metal, Ubuntu 22.04", "Bluefield-2, mlx5", BareMetal);
const CX5: Host = Host("Bare metal, Ubuntu 20.04", "CX5, mlx5", BareMetal);
const CX6: Host = Host("Bare metal, Ubuntu 20.04", "CX6-Dx, mlx5", BareMetal);

macro_rules! figures {
    ($p50:literal, $p99:literal, $p999:literal, $kilo:literal) => {
        &[Some($p50 * 1e3), Some($p99 * 1e3), Some($p999 * 1e3), Some($kilo * 1e3)]
    };
}

const NO_GROUPS: &str = "no proximity groups";
const GROUPS: &str = "proximity groups";
const GROUPS_8: &str = "proximity groups; window 8, not 32";
const NOT_RUN: &str = "XXX in the text: not run by its authors";

const AZURE_1: PublishedRow = row(&AZURE, 0, 1.0, figures!(18.0, 19.0, 25.0, 54.0), NO_GROUPS);
const AZURE_32: PublishedRow = row(&AZURE, 1, 32.0, figures!(41.0, 54.0, 61.0, 753.0), NO_GROUPS);
const AWS_1: PublishedRow = row(&AWS, 0, 1.0, figures!(42.0, 66.0, 105.0, 22.0), GROUPS);
const AWS_8: PublishedRow = row(&AWS, 1, 8.0, figures!(61.0, 132.0, 209.0, 122.0), GROUPS_8);
const PF_1: PublishedRow = row(&E810_PF, 0, 1.0, figures!(18.0, 21.0, 22.0, 55.0), "");
const PF_32: PublishedRow = row(&E810_PF, 1, 32.0, figures!(30.0, 33.0, 37.0, 1043.0), "");
const VF_1: PublishedRow = row(&E810_VF, 0, 1.0, figures!(18.0, 22.0, 22.0, 55.0), "");
const VF_32: PublishedRow = row(&E810_VF, 1, 32.0, figures!(31.0, 35.0, 41.0, 1003.0), "");
const BF_1: PublishedRow = row(&BF2, 0, 1.0, figures!(9.0, 12.0, 13.0, 99.0), "");
const BF_32: PublishedRow = row(&BF2, 1, 32.0, figures!(24.0, 26.0, 28.0, 1320.0), "");

pub(super) const TABLES: &[PublishedTable] = &[
    PublishedTable {
        id: "machnet",
        records_of: "machnet",
        report: "Machnet performance report",
        title: "Single-connection request-response",
        command: COMMAND,
        method: METHOD,
        columns: COLUMNS,
        cases: CASES,
        sweep: None,
        rows: &[
            AZURE_1,
            AWS_1,
            row(&GCP, 0, 1.0, NO_FIGURES, NOT_RUN),
            PF_1,
            VF_1,
            BF_1,
            row(&CX5, 0, 1.0, NO_FIGURES, NOT_RUN),
            row(&CX6, 0, 1.0, NO_FIGURES, NOT_RUN),
            AZURE_32,
            AWS_8,
            row(&GCP, 1, 32.0, NO_FIGURES, NOT_RUN),
            PF_32,
            VF_32,
            BF_32,
            row(&CX5, 1, 32.0, NO_FIGURES, NOT_RUN),
            row(&CX6, 1, 32.0, NO_FIGURES, NOT_RUN),
        ],
    },
    PublishedTable {
        id: "machnet-page.cloud",
        records_of: "machnet",
        report: "Machnet performance page",
        title: "Cloud VMs (the report's figures, printed again)",
        command: COMMAND,
        method: METHOD,
        columns: COLUMNS,
        cases: CASES,
        sweep: None,
        rows: &[AZURE_1, AWS_1, AZURE_32, AWS_8],
    },
    PublishedTable {
        id: "machnet-page.bare-metal",
        records_of: "machnet",
        report: "Machnet performance page",
        title: "Bare metal (the report's figures, printed again)",
        command: COMMAND,
        method: METHOD,
        columns: COLUMNS,
        cases: CASES,
        sweep: None,
        rows: &[PF_1, VF_1, BF_1, PF_32, VF_32, BF_32],
    },
];
