//! The message-service figures that others published: the tables of the Machnet performance reports, as data.
//!
//! Two texts carry them: the performance report in the project's repository and the performance page of its site, which
//! has the same figures without the rows that its authors did not run.

/// Bytes of the published experiments' messages ("1KB messages", `msg_size 1024`).
pub const PUBLISHED_SIZE: u32 = 1024;

/// Which text a row stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PublishedIn {
    /// The performance report of the repository.
    Report,
    /// The performance page of the site.
    Page,
}

/// The two experiments of the published tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Experiment {
    /// E1, "latency": one request in flight.
    Latency,
    /// E2, "message rate" or "throughput": several requests in flight.
    MessageRate,
}

impl Experiment {
    /// The report's label.
    pub fn label(self) -> &'static str {
        match self {
            Experiment::Latency => "E1",
            Experiment::MessageRate => "E2",
        }
    }
}

/// What a figure was taken on. Figures of different classes are not comparable; nor need two of one class be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HardwareClass {
    /// Two virtual machines of a cloud and the network between them.
    CloudVms,
    /// Two machines with network cards and a wire.
    BareMetal,
    /// One machine: two namespaces, a loopback or memory. No card, no wire.
    OneMachine,
}

impl HardwareClass {
    /// The class in words.
    pub fn as_str(self) -> &'static str {
        match self {
            HardwareClass::CloudVms => "two cloud VMs",
            HardwareClass::BareMetal => "two machines with NICs",
            HardwareClass::OneMachine => "one machine, no NIC",
        }
    }
}

/// Published figures of one experiment, as printed: whole microseconds, thousands of requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Median round trip in us.
    pub p50_us: u32,
    /// 99th percentile in us.
    pub p99_us: u32,
    /// 99.9th percentile in us.
    pub p99_9_us: u32,
    /// Requests per second, in thousands.
    pub rate_k: u32,
}

/// One published row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The texts that have it.
    pub published_in: &'static [PublishedIn],
    /// Instance type, or bare metal.
    pub server: &'static str,
    /// Operating system; empty when the text does not say.
    pub os: &'static str,
    /// Network card; with its driver it is the table's second column.
    pub nic: &'static str,
    /// DPDK poll-mode driver; empty when the text does not say.
    pub pmd: &'static str,
    /// What it ran on.
    pub class: HardwareClass,
    /// Which experiment.
    pub experiment: Experiment,
    /// Requests in flight: the command's, or the row's own where a footnote says so.
    pub window: u32,
    /// The figures. `None`: `XXX` in the text, not run by the authors.
    pub figures: Option<Figures>,
    /// The text's own remark.
    pub note: &'static str,
}

const BOTH: &[PublishedIn] = &[PublishedIn::Report, PublishedIn::Page];
const REPORT: &[PublishedIn] = &[PublishedIn::Report];

struct Host {
    published_in: &'static [PublishedIn],
    server: &'static str,
    os: &'static str,
    nic: &'static str,
    pmd: &'static str,
    class: HardwareClass,
    note: &'static str,
}

const fn row(host: &Host, experiment: Experiment, figures: Option<[u32; 4]>, window: u32) -> Published {
    Published {
        published_in: host.published_in,
        server: host.server,
        os: host.os,
        nic: host.nic,
        pmd: host.pmd,
        class: host.class,
        experiment,
        window,
        figures: match figures {
            Some([p50_us, p99_us, p99_9_us, rate_k]) => Some(Figures { p50_us, p99_us, p99_9_us, rate_k }),
            None => None,
        },
        note: host.note,
    }
}

const fn e1(host: &Host, figures: [u32; 4]) -> Published {
    row(host, Experiment::Latency, Some(figures), 1)
}

const fn e2(host: &Host, figures: [u32; 4], window: u32) -> Published {
    row(host, Experiment::MessageRate, Some(figures), window)
}

const fn not_run(host: &Host) -> [Published; 2] {
    [row(host, Experiment::Latency, None, 1), row(host, Experiment::MessageRate, None, 32)]
}

const AZURE: Host = Host {
    published_in: BOTH,
    server: "Azure F8s_v2",
    os: "Ubuntu 22.03",
    nic: "CX4-Lx",
    pmd: "netvsc",
    class: HardwareClass::CloudVms,
    note: "No proximity groups",
};
const AWS: Host = Host {
    published_in: BOTH,
    server: "AWS c5.xlarge",
    os: "Amazon Linux",
    nic: "ENA",
    pmd: "ena",
    class: HardwareClass::CloudVms,
    note: "Proximity groups",
};
const GCP: Host = Host {
    published_in: REPORT,
    server: "GCP",
    os: "",
    nic: "gVNIC",
    pmd: "",
    class: HardwareClass::CloudVms,
    note: "",
};
const fn metal(
    published_in: &'static [PublishedIn],
    os: &'static str,
    nic: &'static str,
    pmd: &'static str,
) -> Host {
    Host { published_in, server: "Bare metal", os, nic, pmd, class: HardwareClass::BareMetal, note: "" }
}
const E810_PF: Host = metal(BOTH, "Mariner 2.0", "E810 PF", "ice");
const E810_VF: Host = metal(BOTH, "Mariner 2.0", "E810 VF", "iavf");
const BLUEFIELD_2: Host = metal(BOTH, "Ubuntu 22.04", "Bluefield-2", "mlx5");
const CX5: Host = metal(REPORT, "Ubuntu 20.04", "CX5", "mlx5");
const CX6_DX: Host = metal(REPORT, "Ubuntu 20.04", "CX6-Dx", "mlx5");

/// Every published row, in the order of the report. Columns: p50, p99, p99.9 in us, thousands of requests per second.
pub const PUBLISHED: &[Published] = &[
    e1(&AZURE, [18, 19, 25, 54]),
    e2(&AZURE, [41, 54, 61, 753], 32),
    e1(&AWS, [42, 66, 105, 22]),
    e2(&AWS, [61, 132, 209, 122], 8),
    not_run(&GCP)[0],
    not_run(&GCP)[1],
    e1(&E810_PF, [18, 21, 22, 55]),
    e2(&E810_PF, [30, 33, 37, 1043], 32),
    e1(&E810_VF, [18, 22, 22, 55]),
    e2(&E810_VF, [31, 35, 41, 1003], 32),
    e1(&BLUEFIELD_2, [9, 12, 13, 99]),
    e2(&BLUEFIELD_2, [24, 26, 28, 1320], 32),
    not_run(&CX5)[0],
    not_run(&CX5)[1],
    not_run(&CX6_DX)[0],
    not_run(&CX6_DX)[1],
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The cells of the report that carry figures, as published: the column of times and the column of rates.
    const REPORT_CELLS: &[(&str, &str)] = &[
        ("E1: 18 us, 19 us, 25 us", "54K"),
        ("E2: 41 us, 54 us, 61 us", "753K"),
        ("E1: 42 us, 66 us, 105 us", "22K"),
        ("E2: 61 us, 132 us, 209 us", "122K"),
        ("E1: XXX", "XXX"),
        ("E2: XXX", "XXX"),
        ("E1: 18 us, 21 us, 22 us", "55K"),
        ("E2: 30 us, 33 us, 37 us", "1043K"),
        ("E1: 18 us, 22 us, 22 us", "55K"),
        ("E2: 31 us, 35 us, 41 us", "1003K"),
        ("E1: 9 us, 12 us, 13 us", "99K"),
        ("E2: 24 us, 26 us, 28 us", "1320K"),
        ("E1: XXX", "XXX"),
        ("E2: XXX", "XXX"),
        ("E1: XXX", "XXX"),
        ("E2: XXX", "XXX"),
    ];

    #[test]
    fn figures_are_those_of_the_report() {
        let cells: Vec<(String, String)> = PUBLISHED
            .iter()
            .map(|p| match p.figures {
                Some(f) => (
                    format!("{}: {} us, {} us, {} us", p.experiment.label(), f.p50_us, f.p99_us, f.p99_9_us),
                    format!("{}K", f.rate_k),
                ),
                None => (format!("{}: XXX", p.experiment.label()), "XXX".to_owned()),
            })
            .collect();
        let cells: Vec<(&str, &str)> = cells.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(cells, REPORT_CELLS);
    }

    #[test]
    fn the_page_has_the_rows_that_were_run() {
        for p in PUBLISHED {
            assert_eq!(p.published_in.contains(&PublishedIn::Page), p.figures.is_some(), "{p:?}");
        }
    }

    /// The AWS row used a window of 8, which only its footnote says: with 32 Little's law would be off by four.
    #[test]
    fn published_windows_agree_with_littles_law() {
        for p in PUBLISHED {
            let Some(f) = p.figures else { continue };
            let mean_us = f64::from(p.window) * 1e3 / f64::from(f.rate_k);
            let ratio = mean_us / f64::from(f.p50_us);
            assert!((0.95..1.15).contains(&ratio), "{p:?}: {ratio}");
        }
    }
}
