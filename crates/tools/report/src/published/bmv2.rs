//! bmv2: the throughput figure of its performance text.

use super::{Case, Column, Printed, PublishedRow, PublishedTable, Want};
use crate::figure::{Better, Unit};
use crate::run::HardwareClass::OneMachine;

pub(super) const TABLES: &[PublishedTable] = &[PublishedTable {
    id: "bmv2",
    records_of: "bmv2",
    report: "Performance of bmv2",
    title: "One TCP stream through simple_router, offloads off",
    command: "cd mininet; python stress_test_ipv4.py",
    method: "iperf between two Mininet hosts, five runs (1041, 1042, 1047, 1056, 1056 Mbps), their median. The text calls it \
        around 1Gbps, or 80,000pps; acknowledgements are not counted. The script \
        ends every process of the machine that is called iperf.",
    apart: "the published figure is of an AWS c4.2xlarge, which is another machine",
    columns: &[
        Column { label: "TCP", unit: Unit::Mbps, better: Better::Higher, paths: &["tcp_mbps"], note: "" },
        Column {
            label: "packets/s",
            unit: Unit::PerSecond,
            better: Better::Higher,
            paths: &["tcp_data_packets_per_s", "packets_per_s"],
            note: "packets with data, in the direction of the stream",
        },
    ],
    cases: &[Case { label: "Two hosts, one switch", wants: &[("offloads", Want::Flag(false))] }],
    sweep: None,
    rows: &[PublishedRow {
        case: 0,
        wants: &[],
        system: "bmv2 simple_switch",
        hardware: "AWS c4.2xlarge, Mininet",
        class: OneMachine,
        window: None,
        values: &[
            Some(Printed { text: "1047 Mbps", value: 1047.0 }),
            Some(Printed { text: "80,000pps", value: 80_000.0 }),
        ],
        note: "median of five runs; packets/s as the text has it, of TCP",
    }],
}];
