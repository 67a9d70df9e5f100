//! Parsers of what the kernel prints under `/proc` and `/sys` (man 5 proc, Documentation/admin-guide/). Text in, values
//! out; a line that is missing or strange gives `None`, never an error: a fingerprint with a hole is still one.

/// The first core's entry of `/proc/cpuinfo`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuInfo {
    pub(crate) model: Option<String>,
    pub(crate) microcode: Option<String>,
    pub(crate) hypervisor: bool,
}

/// Value of the first line `key : value`.
fn keyed<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

pub(crate) fn cpuinfo(text: &str) -> CpuInfo {
    // ARM kernels print no name, only the numbers of implementer and part.
    let arm =
        || Some(format!("implementer {} part {}", keyed(text, "CPU implementer")?, keyed(text, "CPU part")?));
    CpuInfo {
        model: keyed(text, "model name").map(str::to_string).or_else(arm),
        microcode: keyed(text, "microcode").map(str::to_string),
        hypervisor: keyed(text, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
    }
}

/// Number of cores in a list like `0-3,8`.
pub(crate) fn cpu_count(list: &str) -> Option<u32> {
    let mut count = 0u32;
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

/// A number of `/proc/meminfo`: KiB, or pages for `HugePages_*`.
pub(crate) fn meminfo(text: &str, key: &str) -> Option<u64> {
    keyed(text, key)?.split(' ').next()?.parse().ok()
}

/// The three averages of `/proc/loadavg`.
pub(crate) fn loadavg(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split(' ').map(|word| word.parse::<f64>().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Ticks of all cores together, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    /// User to steal: guest time is part of user time already.
    pub(crate) total: u64,
    /// Time that the hypervisor gave to somebody else while a core of ours wanted to run.
    pub(crate) steal: u64,
}

pub(crate) fn cpu_ticks(text: &str) -> Option<CpuTicks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
    let steal = *numbers.get(7)?;
    Some(CpuTicks { total: numbers.iter().fold(0, |sum: u64, &n| sum.saturating_add(n)), steal })
}

/// Ticks of one core or more, from `/proc/stat`: whom their time went to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreTicks {
    /// Programs and the kernel on their behalf: user, nice, system.
    pub(crate) worked: u64,
    /// Hard and soft interrupts.
    pub(crate) interrupts: u64,
}

/// The ticks of `cores` together; of all where there are none named.
pub(crate) fn core_ticks(text: &str, cores: &[usize]) -> Option<CoreTicks> {
    let mut sum = CoreTicks::default();
    let mut found = 0;
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        let Some(core) = name.strip_prefix("cpu").and_then(|n| n.parse::<usize>().ok()) else { continue };
        if !cores.is_empty() && !cores.contains(&core) {
            continue;
        }
        let numbers: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, hard, soft, ..] = numbers[..] else { return None };
        sum.worked += user + nice + system;
        sum.interrupts += hard + soft;
        found += 1;
    }
    (found > 0).then_some(sum)
}

/// Ns that a task ran, from `/proc/PID/schedstat` (Documentation/scheduler/sched-stats.rst).
pub(crate) fn run_ns(text: &str) -> Option<u64> {
    text.split(' ').next()?.parse().ok()
}

/// Ticks in user space and in the kernel, from `/proc/PID/stat`: fields 14 and 15.
pub(crate) fn user_and_system_ticks(text: &str) -> Option<(u64, u64)> {
    // The name, in parentheses, may hold spaces and parentheses.
    let mut fields = text.rsplit(')').next()?.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The same, and those of children that ended and were waited for.
pub(crate) fn all_ticks(text: &str) -> Option<[u64; 4]> {
    let mut fields = text.rsplit(')').next()?.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

/// Whether a kernel configuration takes interrupts out of the time of the task that they come in.
pub(crate) fn interrupts_are_apart(config: &str) -> bool {
    config
        .lines()
        .any(|line| matches!(line, "CONFIG_IRQ_TIME_ACCOUNTING=y" | "CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y"))
}

/// The `some` line of `/proc/pressure/cpu`: time in which at least one runnable thread had no core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pressure {
    pub(crate) avg10: f64,
    pub(crate) total_us: u64,
}

pub(crate) fn pressure(text: &str) -> Option<Pressure> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    Some(Pressure { avg10: field("avg10")?.parse().ok()?, total_us: field("total")?.parse().ok()? })
}

/// The choice in brackets of `always [madvise] never`.
pub(crate) fn bracketed(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// Cores that a cgroup v2 `cpu.max` (`quota period`, in us) allows; `None` when it does not limit.
pub(crate) fn cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    cpu_quota(quota, period)
}

/// Cores that a quota of us in a period of us allows; `None` for `max`, `-1` (cgroup v1) and nonsense.
pub(crate) fn cpu_quota(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

/// Path of the process in the hierarchy of a controller, from `/proc/self/cgroup`; `""` is the unified one (v2).
pub(crate) fn cgroup_path<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// Kernel parameters that change latency. The rest of a command line may name hosts, disks and people.
const KERNEL_PARAMETERS: [&str; 42] = [
    "mitigations",
    "isolcpus",
    "nohz",
    "nohz_full",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "irqaffinity",
    "idle",
    "nosmt",
    "nosmp",
    "maxcpus",
    "nr_cpus",
    "hugepages",
    "hugepagesz",
    "default_hugepagesz",
    "transparent_hugepage",
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "intel_pstate",
    "amd_pstate",
    "tsc",
    "clocksource",
    "preempt",
    "threadirqs",
    "skew_tick",
    "nowatchdog",
    "nmi_watchdog",
    "nosoftlockup",
    "audit",
    "psi",
    "numa_balancing",
    "spectre_v2",
    "spectre_v1",
    "nospectre_v2",
    "pti",
    "nopti",
    "mce",
    "pcie_aspm",
    "swiotlb",
    "kthread_cpus",
    "cgroup_disable",
];

/// The parameters of `/proc/cmdline` that change latency, and how many words were left out.
pub(crate) fn kernel_parameters(text: &str) -> (Vec<String>, u32) {
    // Words after `--` are the init program's.
    let words = text.split_whitespace().take_while(|&word| word != "--");
    let mut omitted = 0;
    let mut kept = Vec::new();
    for word in words {
        let name = word.split('=').next().unwrap_or(word).replace('-', "_");
        let module = ["processor.", "intel_idle.", "cpuidle", "haltpoll.", "rcutree.", "rcupdate.", "kvm."];
        if KERNEL_PARAMETERS.contains(&name.as_str()) || module.iter().any(|module| name.starts_with(module))
        {
            kept.push(word.to_string());
        } else {
            omitted += 1;
        }
    }
    (kept, omitted)
}

/// Replaces whole words in `text`; letters, digits, `-` and `_` make a word.
fn replace_word(text: &str, word: &str, with: &str) -> String {
    let inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let whole = !before
            .chars()
            .next_back()
            .or(out.chars().next_back().filter(|_| before.is_empty()))
            .is_some_and(inside)
            && !after.chars().next().is_some_and(inside);
        out.push_str(before);
        out.push_str(if whole { with } else { word });
        rest = after;
    }
    out + rest
}

/// A program's command line without names: of the program only its file name; home folders, the host's name, the user's
/// name and `user@host` replaced.
pub(crate) fn redacted_command_line(
    args: &[String],
    host: &str,
    users: &[String],
    homes: &[String],
) -> String {
    let mut words = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        let mut word =
            if i == 0 { arg.rsplit('/').next().unwrap_or_default().to_string() } else { arg.clone() };
        for home in homes.iter().filter(|home| home.len() > 1) {
            word = replace_word(&word, home, "~");
        }
        for parent in ["/home/", "/Users/"] {
            while let Some(at) = word.find(parent) {
                let end = word[at + parent.len()..].find('/').map_or(word.len(), |n| at + parent.len() + n);
                word.replace_range(at..end, "~");
            }
        }
        if word.contains('@') {
            let names =
                |part: &str| part.split('@').count() == 2 && !part.starts_with('@') && !part.ends_with('@');
            word = word
                .split(',')
                .map(|part| if names(part) { "<user>@<host>" } else { part })
                .collect::<Vec<_>>()
                .join(",");
        }
        if !host.is_empty() {
            word = replace_word(&word, host, "<host>");
        }
        // `root` is nobody's name.
        for user in users.iter().filter(|user| !user.is_empty() && *user != "root") {
            word = replace_word(&word, user, "<user>");
        }
        words.push(word);
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpuinfo_of_both_architectures() {
        let x86 = "processor\t: 0\nmodel name\t: AMD EPYC\nmicrocode\t: 0x1000065\nflags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\n";
        let (model, microcode) = (Some("AMD EPYC".into()), Some("0x1000065".into()));
        assert_eq!(cpuinfo(x86), CpuInfo { model, microcode, hypervisor: true });
        assert!(!cpuinfo("flags : fpu hypervisors").hypervisor);
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(cpuinfo(arm).model.as_deref(), Some("implementer 0x41 part 0xd40"));
        assert_eq!(cpuinfo(""), CpuInfo::default());
    }

    #[test]
    fn lists_and_numbers() {
        for (list, count) in [
            ("0-3,8\n", Some(5)),
            ("0", Some(1)),
            ("\n", Some(0)),
            ("3-1", None),
            ("x", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(cpu_count(list), count, "{list:?}");
        }
        let text = "MemTotal:       24684096 kB\nHugePages_Total:       7\n";
        assert_eq!(meminfo(text, "MemTotal"), Some(24_684_096));
        assert_eq!(meminfo(text, "HugePages_Total"), Some(7));
        assert_eq!(meminfo(text, "HugePages"), None);
        assert_eq!(loadavg("4.20 3.10 0.07 2/131 6702\n"), Some([4.2, 3.1, 0.07]));
        assert_eq!(loadavg("4.20"), None);
        assert_eq!(bracketed("always [madvise] never\n"), Some("madvise"));
        assert_eq!(bracketed("always"), None);
    }

    #[test]
    fn ticks_and_pressure() {
        let stat = "cpu  5599 0 2246 275177 1057 0 29 15 1 2\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(cpu_ticks(stat), Some(CpuTicks { total: 284_123, steal: 15 }));
        assert_eq!(cpu_ticks("cpu 1 2 3\n"), None);
        let psi = "some avg10=0.34 avg60=0.70 avg300=0.34 total=6593945\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(pressure(psi), Some(Pressure { avg10: 0.34, total_us: 6_593_945 }));
        assert_eq!(pressure("full avg10=0.00 total=0"), None);
    }

    #[test]
    fn container_limits() {
        assert_eq!(cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpu_quota("-1\n", "100000\n"), None);
        assert_eq!(cpu_quota("1", "0"), None);
        let text = "4:memory:/a\n1:cpu,cpuacct:/docker/x:y\n0::/b\n";
        assert_eq!(cgroup_path(text, "cpu"), Some("/docker/x:y"));
        assert_eq!(cgroup_path(text, ""), Some("/b"));
        assert_eq!(cgroup_path(text, "pids"), None);
    }

    #[test]
    fn the_kernel_command_line_keeps_what_changes_latency() {
        let (kept, omitted) = kernel_parameters(
            "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ip=10.0.0.2:::::eth0 hostname=alpha mitigations=off isolcpus=2,3 \
             cpuidle_haltpoll.force=1 intel-iommu=on quiet -- --secret nosmt",
        );
        assert_eq!(kept, ["mitigations=off", "isolcpus=2,3", "cpuidle_haltpoll.force=1", "intel-iommu=on"]);
        assert_eq!(omitted, 5);
    }

    #[test]
    fn command_lines_name_nobody() {
        let args: Vec<String> = [
            "/home/alice/bin/barewire",
            "bench",
            "--config=/home/alice/run.toml",
            "/srv/al/x",
            "--to=bob@n7,carol@n8:22",
            "--on",
            "node-7",
            "node-70",
            "xdp:eth0?queue=1",
            "--as=alice",
            "malice",
            "root=x",
            "/home/bob",
            "/data/al2",
            "@",
        ]
        .map(String::from)
        .to_vec();
        assert_eq!(
            redacted_command_line(
                &args,
                "node-7",
                &["alice".into(), "root".into()],
                &["/srv/al".into(), "/".into()]
            ),
            "barewire bench --config=~/run.toml ~/x <user>@<host>,<user>@<host> --on <host> node-70 xdp:eth0?queue=1 \
             --as=<user> malice root=x ~ /data/al2 @"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_text_panics(text in "(cpu|some|[0-9 :=,@/\\[\\]-]|\\PC|\n){0,60}") {
            let _ = (cpuinfo(&text), cpu_count(&text), meminfo(&text, "a"), loadavg(&text), cpu_ticks(&text));
            let _ = (pressure(&text), bracketed(&text), cpu_max(&text), cgroup_path(&text, ""), kernel_parameters(&text));
            let names = ["ab".to_string(), "é".to_string()];
            let line = redacted_command_line(&["a".into(), text.clone(), "ab".into()], "host", &names, &names);
            prop_assert!(line.ends_with(" ~"), "{}", line);
        }
    }
}
