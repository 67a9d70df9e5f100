//! A network namespace of the test's own, with a veth pair in it. It vanishes with the thread.
#![allow(dead_code, reason = "each test file uses its part")]

pub use barewire_testing::eventually;
use barewire_testing::{Needs, skip, skip_part};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The two ends of the pair.
pub const NEAR: &str = "bw-near";
pub const FAR: &str = "bw-far";

/// Runs `test` on a thread in a fresh network namespace where `NEAR` and `FAR` are up and joined, without IPv6 chatter
/// and addresses. Says loudly when it cannot.
pub fn with_veth(name: &str, queues: u32, test: impl FnOnce() + Send + 'static) {
    if !barewire_testing::root() {
        return;
    }
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // SAFETY: no memory; moves this thread alone into a new network namespace.
        let rc = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(rc, 0, "unshare: {}", std::io::Error::last_os_error());
        write_sysctl("ipv6/conf/default/disable_ipv6", "1");
        let n = queues.to_string();
        ip(&[
            "link",
            "add",
            NEAR,
            "numtxqueues",
            &n,
            "numrxqueues",
            &n,
            "type",
            "veth",
            "peer",
            "name",
            FAR,
            "numtxqueues",
            &n,
            "numrxqueues",
            &n,
        ]);
        ip(&["link", "set", NEAR, "up"]);
        ip(&["link", "set", FAR, "up"]);
        test();
    });
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}

/// As [`with_veth`], for ports of AF_XDP: a kernel without such sockets is said, too.
pub fn with_xdp_veth(name: &str, queues: u32, test: impl FnOnce() + Send + 'static) {
    // SAFETY: creates a descriptor, owned here alone.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    let error = std::io::Error::last_os_error();
    if socket < 0 && error.raw_os_error() == Some(libc::EAFNOSUPPORT) {
        return skip(Needs::Xdp, format!("the kernel has no AF_XDP: {error}"));
    }
    if socket >= 0 {
        // SAFETY: opened above, and nobody else has it.
        unsafe { libc::close(socket) };
    }
    with_veth(name, queues, test);
}

/// A thread in a network namespace of its own: a host.
pub struct Host {
    jobs: Option<Sender<Box<dyn FnOnce() + Send>>>,
    thread: Option<std::thread::JoinHandle<()>>,
    tid: i32,
}

impl Host {
    fn new(name: &str) -> Host {
        let (jobs, todo) = channel::<Box<dyn FnOnce() + Send>>();
        let (say, tid) = channel();
        let run = move || {
            // SAFETY: no memory; moves this thread alone into a new network namespace, and asks for its number.
            let (rc, tid) = unsafe { (libc::unshare(libc::CLONE_NEWNET), libc::gettid()) };
            assert_eq!(rc, 0, "unshare: {}", std::io::Error::last_os_error());
            say.send(tid).expect("the test waits");
            todo.into_iter().for_each(|job| job());
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread");
        Host { jobs: Some(jobs), thread: Some(thread), tid: tid.recv().expect("a namespace") }
    }

    /// Starts `job` in the host; what it gives comes out of the channel.
    pub fn start<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (done, result) = channel();
        let job = Box::new(move || drop(done.send(job())));
        self.jobs.as_ref().expect("open").send(job).expect("the host is alive");
        result
    }

    /// Runs `job` in the host.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.start(job).recv().expect("the host is alive")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.jobs = None;
        let ended = self.thread.take().expect("once").join();
        assert!(ended.is_ok() || std::thread::panicking(), "a host's job panicked");
    }
}

/// The switch's ends of the wires to two hosts, and the hosts' own.
pub const SIDES: [&str; 2] = ["bw-s1", "bw-s2"];
pub const ENDS: [&str; 2] = ["bw-h1", "bw-h2"];

/// Runs `test` on a thread in a namespace of its own with the ends `SIDES` of two wires; the other ends, `ENDS`, are in one
/// host each, 10.9.0.1 and fd09::1, 10.9.0.2 and fd09::2. Says loudly when it cannot.
pub fn with_switch(name: &str, test: impl FnOnce([Host; 2]) + Send + 'static) {
    let label = name.to_owned();
    with_veth(name, 1, move || {
        let hosts = [1, 2].map(|n| Host::new(&format!("{label}-h{n}")));
        for (at, host) in hosts.iter().enumerate() {
            let (side, end, tid) = (SIDES[at], ENDS[at], host.tid.to_string());
            ip(&["link", "add", side, "type", "veth", "peer", "name", end]);
            ip(&["link", "set", side, "up"]);
            ip(&["link", "set", end, "netns", &tid]);
            host.run(move || {
                let (v4, v6) = (format!("10.9.0.{}/24", at + 1), format!("fd09::{}/64", at + 1));
                ip(&["address", "add", &v4, "dev", end]);
                ip(&["address", "add", &v6, "dev", end, "nodad"]);
                ip(&["link", "set", end, "up"]);
            });
        }
        test(hosts);
    });
}

/// Switches offloads of an interface in the calling thread's namespace; false, and loudly so, without the tool.
pub fn offloads(interface: &str, changes: &[&str]) -> bool {
    match Command::new("ethtool").arg("-K").arg(interface).args(changes).output() {
        Ok(out) if out.status.success() => true,
        Ok(out) => panic!("ethtool: {}", String::from_utf8_lossy(&out.stderr)),
        Err(_) => {
            skip_part(Needs::Peers, "a part that needs the `ethtool` command");
            false
        }
    }
}

/// Writes below `/proc/sys/net`, which shows the namespace of the thread that opens it.
pub fn write_sysctl(path: &str, value: &str) {
    let _ = std::fs::write(format!("/proc/sys/net/{path}"), value);
}

/// Runs `ip` in the calling thread's namespace and gives its output.
pub fn ip(args: &[&str]) -> String {
    let out = Command::new("ip").args(args).output().expect("the `ip` command");
    assert!(out.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Takes every privilege from the calling thread: the bare system call changes one thread, the library's all of them.
pub fn become_nobody() {
    // SAFETY: no memory.
    let rc = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
    assert_eq!(rc, 0, "setresuid: {}", std::io::Error::last_os_error());
}

/// Nanoseconds of `clock`.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The engine's clock.
pub fn now() -> barewire_base::Instant {
    barewire_base::Instant::from_nanos(clock_ns(libc::CLOCK_MONOTONIC))
}

/// How long a machine that is busy with something else may take for what takes no time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An ARP request of `sender` for `target`.
pub fn arp_request(sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mac = [0x02, 0, 0, 0, 0, 0x77];
    let mut f = vec![0xff; 6];
    f.extend_from_slice(&mac);
    f.extend_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    f.extend_from_slice(&mac);
    f.extend_from_slice(&sender);
    f.extend_from_slice(&[0; 6]);
    f.extend_from_slice(&target);
    f
}

/// An ICMP echo request with 8 bytes of payload.
pub fn echo_request(to_mac: [u8; 6], from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let mut f = to_mac.to_vec();
    f.extend_from_slice(&[0x02, 0, 0, 0, 0, 0x77, 0x08, 0x00]);
    let mut ip = vec![0x45, 0, 0, 36, 0, 1, 0, 0, 64, 1, 0, 0];
    ip.extend_from_slice(&from);
    ip.extend_from_slice(&to);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    f.extend_from_slice(&ip);
    let mut icmp = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    icmp.extend_from_slice(b"barewire");
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    f.extend_from_slice(&icmp);
    f
}

/// RFC 1071 over an even number of bytes.
pub fn checksum(data: &[u8]) -> [u8; 2] {
    let mut sum: u32 = data.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
