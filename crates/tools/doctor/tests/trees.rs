//! The checks against made trees: a good machine, a bad one, one that tells nothing, and one whose every file is damaged in turn.

use barewire_doctor::{
    Answer, Coalescing, Facts, Measured, NicFacts, Options, Probes, Report, Root, Status, XdpHook, examine,
};
use barewire_testing::{Needs, have};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Files of a machine that is as it should be: path and text.
fn good() -> BTreeMap<String, String> {
    let cpu = "sys/devices/system/cpu";
    let net = "sys/class/net/eth7";
    let mut files: BTreeMap<String, String> = [
        ("proc/self/status", "Name:\tbarewire\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-3\n"),
        (
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            4096                 1048576              files     \n\
             Max locked memory         unlimited            unlimited            bytes     \n",
        ),
        ("proc/self/cgroup", "0::/a/b\n"),
        ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
        ("proc/sys/kernel/osrelease", "6.12.3-generic\n"),
        ("proc/sys/net/core/bpf_jit_enable", "1\n"),
        (
            "proc/meminfo",
            "MemTotal: 1 kB\nHugePages_Total: 512\nHugePages_Free: 400\nHugepagesize: 2048 kB\n",
        ),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node1/cpulist", "2-3\n"),
        ("proc/sys/kernel/numa_balancing", "0\n"),
        ("proc/cmdline", "quiet isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3\n"),
        ("proc/1/comm", "init\n"),
        ("proc/sys/kernel/nmi_watchdog", "0\n"),
        ("proc/cpuinfo", "processor : 0\nflags : fpu constant_tsc nonstop_tsc\nprocessor : 1\nflags : fpu\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/class/ptp/ptp0/clock_name", "ice-0\n"),
        ("proc/stat", "cpu  1000 0 100 100000 0 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"),
        ("proc/pressure/cpu", "some avg10=0.10 avg60=0.00 avg300=0.00 total=1\n"),
        ("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"),
        ("proc/sys/net/core/rmem_max", "16777216\n"),
        ("proc/sys/net/core/wmem_max", "16777216\n"),
        ("proc/sys/net/core/busy_poll", "50\n"),
        ("proc/sys/net/core/busy_read", "50\n"),
        ("proc/sys/net/ipv4/conf/all/rp_filter", "0\n"),
        ("proc/sys/net/ipv4/conf/eth7/rp_filter", "0\n"),
        ("proc/sys/net/ipv4/igmp_max_memberships", "20\n"),
        (
            "proc/net/igmp",
            "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
             1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
             2\teth7      :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n",
        ),
        ("proc/irq/40/effective_affinity_list", "0\n"),
        ("proc/irq/41/effective_affinity_list", "1\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    for (path, text) in [
        ("online", "0-3\n"),
        ("isolated", "2-3\n"),
        ("nohz_full", "2-3\n"),
        ("cpufreq/policy0/scaling_governor", "performance\n"),
        ("cpufreq/policy1/scaling_governor", "performance\n"),
        ("cpufreq/boost", "0\n"),
        ("cpu0/cpuidle/state0/latency", "0\n"),
        ("cpu0/cpuidle/state0/disable", "0\n"),
        ("cpu0/cpuidle/state1/latency", "170\n"),
        ("cpu0/cpuidle/state1/disable", "1\n"),
        ("cpu0/topology/thread_siblings_list", "0\n"),
        ("cpu1/topology/thread_siblings_list", "1\n"),
        ("cpu2/topology/thread_siblings_list", "2\n"),
        ("cpu3/topology/thread_siblings_list", "3\n"),
        ("vulnerabilities/meltdown", "Not affected\n"),
        ("vulnerabilities/spectre_v2", "Vulnerable\n"),
    ] {
        files.insert(format!("{cpu}/{path}"), text.to_owned());
    }
    for (path, text) in [
        ("ifindex", "7\n"),
        ("flags", "0x1003\n"),
        ("operstate", "up\n"),
        ("speed", "25000\n"),
        ("mtu", "1500\n"),
        ("device/numa_node", "0\n"),
        ("device/msi_irqs/40", "msix\n"),
        ("device/msi_irqs/41", "msix\n"),
        ("statistics/rx_missed_errors", "0\n"),
        ("statistics/rx_fifo_errors", "0\n"),
        ("statistics/rx_over_errors", "0\n"),
        ("statistics/rx_crc_errors", "0\n"),
    ] {
        files.insert(format!("{net}/{path}"), text.to_owned());
    }
    files
}

fn write(folder: &Path, path: &str, bytes: &[u8]) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn tree(files: &BTreeMap<String, String>) -> (TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(folder.path(), path, text.as_bytes());
    }
    let root = Root::at(folder.path());
    (folder, root)
}

fn good_nic() -> NicFacts {
    NicFacts {
        name: "eth7".to_owned(),
        index: Some(7),
        xdp_features: Some(0b10_1011),
        xdp_hook: Some(XdpHook::None),
        channels: Some((1, 16)),
        rx_ring: Some((2048, 4096)),
        tx_ring: Some((1024, 4096)),
        coalescing: Some(Coalescing {
            rx_us: Some(0),
            rx_frames: Some(1),
            rx_adaptive: Some(false),
            tx_us: Some(0),
        }),
        pause: Some((false, false)),
        features: Some(vec!["rx-checksum".to_owned()]),
        timestamping: Some(vec!["hardware-receive".to_owned()]),
        phc: Some(0),
    }
}

fn good_facts() -> Facts {
    Facts {
        nics: vec![good_nic()],
        probes: Probes { xdp: Answer::Yes, packet: Answer::Yes },
        measured: Some(Measured {
            core: Some(2),
            window_ns: 3_000_000_000,
            hiccup_max_ns: Some(4_000),
            hiccup_lost_percent: 0.01,
            ticks: Some((1_200, 0)),
            core_pairs: vec![((2, 3), 90), ((0, 3), 210)],
            pairs_failed: 0,
            wakeup_ns: Some(5_000),
            syscall_ns: 120,
            clock_ns: 21,
        }),
    }
}

fn named() -> Options {
    Options { interfaces: vec!["eth7".to_owned()] }
}

fn outcome(report: &Report) -> BTreeMap<&str, Status> {
    report.findings.iter().map(|f| (f.check.as_str(), f.status)).collect()
}

fn of<'a>(report: &'a Report, check: &str) -> &'a barewire_doctor::Finding {
    report.findings.iter().find(|f| f.check == check).unwrap_or_else(|| panic!("no check {check}"))
}

#[test]
fn a_good_machine_is_good_all_through() {
    let (_folder, root) = tree(&good());
    let report = examine(&root, &good_facts(), &named());
    let wrong: Vec<_> = report.findings.iter().filter(|f| f.status != Status::Ok).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(report.fit() && report.findings.len() > 45, "{}", report.findings.len());
    // Every line says what it would cost, and no two lines are of the same check.
    assert!(report.findings.iter().all(|f| !f.effect.is_empty() && !f.value.is_empty()));
    assert_eq!(outcome(&report).len(), report.findings.len());
    assert!(of(&report, "core to core").value.starts_with("90 ns (cores 2 and 3) to 210 ns"));
    assert_eq!(of(&report, "eth7 state").value, "up, 25000 Mbit/s, mtu 1500");
}

#[test]
fn cards_that_are_bound_to_dpdk_are_told_what_they_need() {
    let mut files = good();
    assert!(!outcome(&examine(&tree(&files).1, &good_facts(), &named())).contains_key("DPDK devices"));
    files.insert("sys/bus/pci/drivers/vfio-pci/0000:00:06.0/vendor".to_owned(), "0x1d0f\n".to_owned());
    files.insert("sys/bus/pci/drivers/vfio-pci/new_id".to_owned(), String::new());
    let (_bare, root) = tree(&files);
    let report = examine(&root, &good_facts(), &named());
    assert_eq!(of(&report, "DPDK devices").value, "0000:00:06.0 (vfio-pci)");
    assert_eq!(
        [of(&report, "IOMMU").status, of(&report, "DPDK memory").status],
        [Status::Warn, Status::Warn],
        "{report:?}"
    );
    assert!(report.fit(), "who does not use DPDK lacks nothing");
    files.insert("sys/kernel/iommu_groups/3/type".to_owned(), "DMA\n".to_owned());
    files.insert("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages".to_owned(), "400\n".to_owned());
    let (_whole, root) = tree(&files);
    let report = examine(&root, &good_facts(), &named());
    assert_eq!(
        [of(&report, "IOMMU").value.as_str(), of(&report, "DPDK memory").value.as_str()],
        ["1 groups", "400 huge pages free"]
    );
}

#[test]
fn a_bad_machine_is_told_what_it_costs_and_how_to_mend_it() {
    let mut files = good();
    let cpu = "sys/devices/system/cpu";
    for (path, text) in [
        ("proc/self/status".to_owned(), "CapEff:\t0000000000000000\nCpus_allowed_list:\t2\n"),
        (
            "proc/self/limits".to_owned(),
            "Max open files 256 512 files\nMax locked memory 65536 65536 bytes\n",
        ),
        ("sys/fs/cgroup/a/cpu.max".to_owned(), "150000 100000\n"),
        ("proc/sys/kernel/osrelease".to_owned(), "4.15.0-generic\n"),
        ("proc/sys/net/core/bpf_jit_enable".to_owned(), "0\n"),
        ("proc/meminfo".to_owned(), "HugePages_Total: 4\nHugePages_Free: 0\nHugepagesize: 2048 kB\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled".to_owned(), "[always] madvise never\n"),
        ("proc/sys/kernel/numa_balancing".to_owned(), "1\n"),
        ("proc/cmdline".to_owned(), "quiet\n"),
        ("proc/1/comm".to_owned(), "irqbalance\n"),
        ("proc/sys/kernel/nmi_watchdog".to_owned(), "1\n"),
        ("sys/class/iommu/dmar0".to_owned(), ""),
        ("proc/cpuinfo".to_owned(), "flags : fpu hypervisor constant_tsc\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned(), "hpet\n"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource".to_owned(), "tsc hpet\n"),
        ("proc/stat".to_owned(), "cpu  500 0 0 400 0 0 0 100 0 0\n"),
        ("proc/pressure/cpu".to_owned(), "some avg10=44.10 avg60=0 avg300=0 total=1\n"),
        ("proc/pressure/memory".to_owned(), "some avg10=7.00 avg60=0 avg300=0 total=1\n"),
        ("proc/sys/net/core/rmem_max".to_owned(), "212992\n"),
        ("proc/sys/net/core/wmem_max".to_owned(), "212992\n"),
        ("proc/sys/net/core/busy_poll".to_owned(), "0\n"),
        ("proc/sys/net/ipv4/conf/eth7/rp_filter".to_owned(), "1\n"),
        ("proc/sys/net/ipv4/igmp_max_memberships".to_owned(), "5\n"),
        ("proc/net/igmp".to_owned(), "Idx\tDevice : Count Querier\n2\teth7 : 1 V2\n\t\t010000E0 1\n"),
        ("proc/irq/40/effective_affinity_list".to_owned(), "3\n"),
        (format!("{cpu}/nohz_full"), "(null)\n"),
        (format!("{cpu}/cpufreq/policy1/scaling_governor"), "powersave\n"),
        (format!("{cpu}/cpufreq/boost"), "1\n"),
        (format!("{cpu}/cpu0/cpuidle/state1/disable"), "0\n"),
        (format!("{cpu}/cpu0/cpuidle/state1/name"), "C6\n"),
        (format!("{cpu}/cpu0/topology/thread_siblings_list"), "0,2\n"),
        (format!("{cpu}/vulnerabilities/meltdown"), "Mitigation: PTI\n"),
        ("sys/class/net/eth7/operstate".to_owned(), "down\n"),
        ("sys/class/net/eth7/flags".to_owned(), "0x3\n"),
        ("sys/class/net/eth7/statistics/rx_missed_errors".to_owned(), "17\n"),
    ] {
        files.insert(path, text.to_owned());
    }
    files.remove("sys/class/ptp/ptp0/clock_name");
    let (folder, root) = tree(&files);
    fs::create_dir_all(folder.path().join("sys/class/ptp")).unwrap();
    let _ = fs::remove_dir(folder.path().join("sys/class/ptp/ptp0"));
    let facts = Facts {
        nics: vec![NicFacts {
            xdp_features: Some(0),
            xdp_hook: Some(XdpHook::Generic),
            channels: Some((8, 16)),
            rx_ring: Some((256, 4096)),
            coalescing: Some(Coalescing { rx_us: Some(50), rx_frames: Some(64), ..Coalescing::default() }),
            pause: Some((true, false)),
            features: Some(["rx-lro", "rx-vlan-hw-parse", "rx-gro-list"].map(str::to_owned).to_vec()),
            timestamping: Some(vec![]),
            phc: None,
            ..good_nic()
        }],
        probes: Probes { xdp: Answer::Absent, packet: Answer::NotPermitted },
        measured: Some(Measured {
            hiccup_max_ns: Some(17_000_000),
            hiccup_lost_percent: 3.0,
            ticks: Some((1_000, 30)),
            core_pairs: vec![((0, 1), 900)],
            wakeup_ns: Some(90_000),
            syscall_ns: 900,
            clock_ns: 700,
            ..Measured::default()
        }),
    };
    let report = examine(&root, &facts, &named());
    let ok: Vec<_> =
        report.findings.iter().filter(|f| f.status == Status::Ok).map(|f| &f.check[..]).collect();
    assert_eq!(ok, ["isolcpus", "eth7 multi-buffer"], "everything else is bad");
    let unknown: Vec<_> = report.findings.iter().filter(|f| f.status == Status::Unknown).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    // Only what the named card cannot do without.
    let failed: Vec<_> =
        report.findings.iter().filter(|f| f.status == Status::Fail).map(|f| &f.check[..]).collect();
    assert_eq!(failed, ["CAP_NET_RAW", "AF_PACKET", "eth7 state"]);
    assert!(
        report
            .findings
            .iter()
            .all(|f| f.status == Status::Ok || f.fix.as_ref().is_some_and(|x| !x.is_empty()))
    );
    for (check, value, fix) in [
        ("C-states", "C6 takes 170 us to leave", "cpupower idle-set"),
        ("CPU quota", "1.50 cores", "CPU limit"),
        ("clock source", "hpet", "echo tsc > /sys/"),
        ("eth7 queues", "8 of 16", "ethtool -L eth7 combined 1"),
        ("eth7 coalescing", "50 us or 64 frames", "rx-usecs 0"),
        ("eth7 XDP mode", "generic only; a program hangs there now, generic", "packet:"),
        ("eth7 interrupts", "cores 1,3, of which 3 are isolated", "smp_affinity_list"),
        ("eth7 NUMA node", "node 0, cores 0-1, of which we may use none", "--core"),
        ("SMT siblings", "0,2", "smt/control"),
        ("rcu_nocbs", "none", "rcu_nocbs=2-3"),
        ("rp_filter", "strict on eth7", "rp_filter=2"),
        ("IGMP", "eth7 V2", "force_igmp_version"),
        ("steal", "10.00 %", "host"),
        ("hiccups", "17.0 ms at most", "isolcpus"),
        ("memlock", "64 KiB", "LimitMEMLOCK"),
    ] {
        let finding = of(&report, check);
        assert!(finding.value.contains(value), "{finding:?}");
        assert!(finding.fix.as_ref().unwrap().contains(fix), "{finding:?}");
    }
    // Without a card that is named nothing fails.
    let report = examine(&root, &facts, &Options::default());
    assert!(report.fit(), "{:#?}", report.findings);
}

#[test]
fn what_is_not_told_is_unknown_and_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let report = examine(&root, &Facts::default(), &Options::default());
    let known: Vec<_> =
        report.findings.iter().filter(|f| f.status != Status::Unknown).map(|f| &f.check[..]).collect();
    assert_eq!(known, ["PTP clock"], "a kernel without PTP has none");
    assert!(report.fit() && report.findings.len() > 30);
    // A card that does not exist is a failure when it was named, and only then one.
    let report = examine(&root, &Facts::default(), &named());
    assert_eq!(of(&report, "eth7 state").status, Status::Fail);
    let climbing = Options { interfaces: vec!["../../../proc".to_owned()] };
    assert_eq!(examine(&root, &Facts::default(), &climbing).count(Status::Fail), 1);
}

#[test]
fn each_file_of_the_good_tree_is_read_and_none_is_trusted() {
    let files = good();
    let (folder, root) = tree(&files);
    let facts = good_facts();
    let before = examine(&root, &facts, &named());
    // These say nothing by their text: names of processes and interrupts, a speed, an index.
    let only_names =
        ["proc/1/comm", "msi_irqs/", "ifindex", "speed", "mtu", "policy", "nohz_full", "isolated", "boost"];
    let by_text = ["vulnerabilities/", "clock_name", "cpulist", "cmdline", "cpu.max"];
    for (path, text) in &files {
        let garbage: [&[u8]; 6] =
            [b"", b"\xff\xfe\0\0", b"99999999999999999999999999", b"-", b"[", b"a: b\n\n,,--\t0x"];
        let mut changed = false;
        for bytes in garbage {
            write(folder.path(), path, bytes);
            let report = examine(&root, &facts, &named());
            assert!(report.findings.len() >= 40, "{path}");
            changed |= report != before;
            // Nonsense is not good news: what was told by this file is unknown or worse, whatever it is.
            let before = outcome(&before);
            let now = outcome(&report);
            assert!(now.iter().all(|(check, status)| *status != Status::Ok || before.contains_key(check)));
        }
        // A folder where a file should be.
        fs::remove_file(folder.path().join(path)).unwrap();
        fs::create_dir(folder.path().join(path)).unwrap();
        let _ = examine(&root, &facts, &named());
        fs::remove_dir(folder.path().join(path)).unwrap();
        let missing = examine(&root, &facts, &named());
        changed |= missing != before;
        let exempt = only_names.iter().chain(&by_text).any(|part| path.contains(part));
        assert!(changed || exempt, "{path} is never read, or its text does not matter");
        write(folder.path(), path, text.as_bytes());
    }
    assert_eq!(examine(&root, &facts, &named()), before, "the tree is whole again");
}

#[test]
fn the_text_and_the_object_say_the_same() {
    let (_folder, root) = tree(&good());
    let report = examine(&root, &Facts { nics: vec![], ..good_facts() }, &named());
    let object: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(object["schema"], 1);
    assert_eq!(object["fit"], true);
    assert_eq!(object["findings"].as_array().unwrap().len(), report.findings.len());
    assert_eq!(object["unknown"].as_u64().unwrap() as usize, report.count(Status::Unknown));
    let text = report.text(false);
    for finding in &report.findings {
        assert!(text.contains(&finding.check) && text.contains(&finding.value), "{finding:?}");
    }
    assert!(!text.contains('\x1b') && report.text(true).contains("\x1b[32mok"));
    let mut sneaky = good();
    sneaky.insert("sys/class/ptp/ptp0/clock_name".to_owned(), "x\x1b[2Jy".to_owned());
    let (_folder, root) = tree(&sneaky);
    assert!(
        !examine(&root, &good_facts(), &named()).text(false).contains('\x1b'),
        "a file drew on the terminal"
    );
}

#[test]
fn a_sys_of_another_namespace_is_not_taken_for_ours() {
    let (_folder, root) = tree(&good());
    let elsewhere = Facts { nics: vec![NicFacts { index: Some(3), ..good_nic() }], ..good_facts() };
    let report = examine(&root, &elsewhere, &named());
    assert_eq!(of(&report, "eth7 state").status, Status::Unknown);
    assert_eq!(of(&report, "eth7 zero-copy").status, Status::Ok, "the card itself was asked");
    assert!(report.fit() && !report.findings.iter().any(|f| f.check == "eth7 lost by the card"));
}

/// What is asked when nothing is measured.
fn collect(root: &Root, options: &Options) -> Facts {
    Facts::collect(root, options, barewire_base::Duration::ZERO, &mut |_, _, _| true)
}

/// A virtual card's files: its device is a link, and what is above that has the interrupts and the node.
#[test]
fn a_virtual_cards_interrupts_are_those_of_the_device_above_it() {
    use std::os::unix::fs::symlink;
    let (devices, net) = ("sys/devices/pci0000:00/0000:00:03.0", "sys/class/net/eth7");
    let mut files = BTreeMap::new();
    for (path, text) in good() {
        let path = match path.strip_prefix(&format!("{net}/")) {
            // Of the card itself, as virtio has it.
            Some(rest) => match rest.strip_prefix("device/") {
                Some(rest) => format!("{devices}/{rest}"),
                None => format!("{devices}/virtio2/net/eth7/{rest}"),
            },
            None => path,
        };
        files.insert(path, text);
    }
    files.insert("proc/irq/40/effective_affinity_list".to_owned(), "3\n".to_owned());
    files.insert(format!("{devices}/numa_node"), "1\n".to_owned());
    let (folder, root) = tree(&files);
    fs::create_dir_all(folder.path().join("sys/class/net")).unwrap();
    let link = |to: &str, at: String| symlink(to, folder.path().join(at)).unwrap();
    link("../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth7", net.to_owned());
    link("../../../virtio2", format!("{devices}/virtio2/net/eth7/device"));
    let report = examine(&root, &good_facts(), &named());
    let interrupts = of(&report, "eth7 interrupts");
    assert_eq!(interrupts.value, "2 interrupts on cores 1,3, of which 3 are isolated");
    assert_eq!(of(&report, "eth7 NUMA node").value, "node 1, cores 2-3");
}

/// Each call of setcap replaces what the one before gave: one command, whatever is missing.
#[test]
fn rights_are_mended_by_one_command() {
    let five =
        "sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock,cap_sys_nice+ep $(command -v barewire)";
    for (effective, missing) in [(0u64, 5), (1 << 13, 4), (1 << 13 | 1 << 12 | 1 << 39 | 1 << 14, 1)] {
        let mut files = good();
        files.insert(
            "proc/self/status".to_owned(),
            format!("CapEff:\t{effective:016x}\nCpus_allowed_list:\t0-3\n"),
        );
        let (_folder, root) = tree(&files);
        let report = examine(&root, &good_facts(), &named());
        let fixes = report.findings.iter().filter_map(|f| f.fix.as_deref());
        let fixes: Vec<&str> = fixes.filter(|fix| fix.contains("setcap")).collect();
        assert_eq!(fixes, vec![five; missing], "{effective:x}");
        let labs = of(&report, "CAP_SYS_ADMIN");
        assert_eq!(labs.status, Status::Warn);
        assert!(
            labs.effect.contains("no lab")
                && labs.fix.as_ref().is_some_and(|fix| fix.contains("sudo barewire lab"))
        );
    }
}

/// A veth in a namespace of its own answers over netlink.
#[test]
fn a_veth_tells_what_it_is() {
    let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
    let hosts =
        barewire_netns::TwoHosts::create(&barewire_netns::TwoHostsConfig::default()).expect("two hosts");
    let options = Options { interfaces: vec!["eth0".to_owned()] };
    let facts = hosts.ns_a.enter(|| collect(&Root::machine(), &options));
    let facts = facts.expect("inside");
    let nic = &facts.nics[0];
    assert!(nic.index.is_some_and(|index| index > 1), "{nic:?}");
    assert_eq!(nic.xdp_hook, Some(XdpHook::None));
    assert!(nic.features.as_ref().is_some_and(|on| !on.is_empty()), "{nic:?}");
    // Linux 6.3 and newer tell features of XDP; a veth runs programs in its driver and has no zero-copy.
    if let Some(bits) = nic.xdp_features {
        assert_eq!((bits & 1, bits & 8), (1, 0), "{bits:#x}");
    }
    // `/sys` is the other namespace's.
    let state = of(&examine(&Root::machine(), &facts, &options), "eth0 state").status;
    assert_eq!(state, Status::Unknown);
}

#[test]
fn this_machine_is_examined() {
    let root = Root::machine();
    let options = Options::default();
    let facts = collect(&root, &options);
    let report = examine(&root, &facts, &options);
    assert!(report.fit(), "{}", report.text(false));
    assert!(report.count(Status::Ok) > 5, "{}", report.text(false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_the_files_hold_there_is_a_report(seed in proptest::collection::vec("(\\PC|[0-9 :,=\\[\\]\n\t-]){0,30}", 8)) {
        let files = good();
        let (folder, root) = tree(&files);
        for (i, path) in files.keys().enumerate() {
            write(folder.path(), path, seed[i % seed.len()].as_bytes());
        }
        let report = examine(&root, &good_facts(), &named());
        prop_assert!(report.findings.len() >= 40);
        prop_assert!(report.text(false).lines().count() > report.findings.len());
    }
}
