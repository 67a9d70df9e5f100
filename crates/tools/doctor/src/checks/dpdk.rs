//! What DPDK needs for cards that are bound to it. Without such a card there is nothing to say.

use crate::finding::{Area, Check, Finding};
use crate::root::Root;

/// Drivers of the kernel that hand a card over to a program.
const DRIVERS: [&str; 4] = ["vfio-pci", "igb_uio", "uio_pci_generic", "uio_hv_generic"];

pub(crate) fn check(root: &Root, out: &mut Vec<Finding>) {
    let mut bound: Vec<(&str, String)> = Vec::new();
    for driver in DRIVERS {
        for bus in ["pci", "vmbus"] {
            let devices = root.names(&format!("sys/bus/{bus}/drivers/{driver}"));
            // Of a driver's files only devices have a colon (PCI) or are numbers of the hypervisor's bus (36 letters).
            let is_device = |name: &String| name.contains(':') || name.len() == 36;
            bound.extend(devices.into_iter().filter(is_device).map(|name| (driver, name)));
        }
    }
    if bound.is_empty() {
        return;
    }
    let list: Vec<String> = bound.iter().map(|(driver, name)| format!("{name} ({driver})")).collect();
    let check =
        Check::new(Area::Ports, "DPDK devices", "the kernel does not see them: `dpdk:` takes them by name");
    out.push(check.ok(list.join(", ")));

    let by_vfio = bound.iter().any(|(driver, _)| *driver == "vfio-pci");
    let check = Check::new(
        Area::Ports,
        "IOMMU",
        "without it `vfio-pci` refuses a card, or lets it write to any memory of the machine",
    );
    let groups = root.numbered("sys/kernel/iommu_groups", "").len();
    let unsafe_mode = root.read("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    out.push(match (groups, unsafe_mode.as_deref().map(str::trim)) {
        (1.., _) => check.ok(format!("{groups} groups")),
        (0, _) if !by_vfio => check.warn("none, and not asked for by this driver", "vfio-pci with an IOMMU"),
        (0, Some("Y")) => check.warn("none, and switched off for vfio", "intel_iommu=on iommu=pt"),
        (0, _) => check.warn("none", "intel_iommu=on iommu=pt on the kernel's command line"),
    });

    let check = Check::new(
        Area::Ports,
        "DPDK memory",
        "rings lie on pages of 4 KiB, and a card without an IOMMU cannot reach them",
    );
    let sizes = ["hugepages-2048kB", "hugepages-1048576kB"];
    let free: i64 = sizes
        .iter()
        .filter_map(|size| root.number(&format!("sys/kernel/mm/hugepages/{size}/free_hugepages")))
        .sum();
    out.push(match free {
        1.. => check.ok(format!("{free} huge pages free")),
        _ => check.warn("no huge page is free", "sysctl -w vm.nr_hugepages=256"),
    });
}
