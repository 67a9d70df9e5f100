//! `dpdk:` ports at the command line: what a device can do, slips, and benches between two hosts, whose veth pair DPDK reaches by packet
//! sockets; and daemons over shared memory. Only a build that has the port runs this (`make test-dpdk`). Benches need root.
#![cfg(feature = "dpdk")]

mod common;
mod patience;

use barewire_client::{Client, ClientConfig, ConnectOptions, Event};
use barewire_testing::{Folder, Running};
use common::{barewire, run, said};
use patience::{code_of, until_seen};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a busy machine may take for what takes no time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two cores carry one measurement at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What `port` says of a device, as JSON.
fn port(uri: &str) -> Value {
    let said = run(&["port", uri, "--json"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{uri}");
    serde_json::from_str(&said.out).expect("JSON")
}

#[test]
fn a_device_says_what_it_can_do() {
    let one = port("dpdk:net_null0");
    let chosen = one["chosen"].as_str().unwrap();
    assert!(chosen.starts_with("DPDK ") && chosen.contains("driver net_null, device net_null0"), "{chosen}");
    assert_eq!((&one["queues"], &one["in_place"]), (&1.into(), &true.into()), "{one}");
    assert_eq!((&one["mtu"], &one["rx_stamp"]), (&1500.into(), &"engine".into()), "{one}");
    let two = port("dpdk:net_null0,size=64?queues=2&rx=64&tx=128");
    assert_eq!(two["queues"], 2);
    let chosen = two["chosen"].as_str().unwrap();
    assert!(chosen.contains("64 + 128 descriptors") && chosen.contains("queues 0,1 of 2"), "{chosen}");
    // The same in words.
    let said = run(&["port", "dpdk:net_null0"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    assert!(said.out.contains("frames in place     yes"), "{}", said.out);
}

/// Each way of being wrong has its own exit code and its own advice, whoever finds it: our reader of options, DPDK, or a driver of DPDK.
#[test]
fn slips_are_refused_with_a_hint() {
    if !barewire_testing::root() {
        return;
    }
    let names = "hint: a device is named as DPDK does";
    for (uri, code, parts) in [
        ("dpdk:net_null0?promiscous=1", 2, ["did you mean `promiscuous`?", "hint: "]),
        ("dpdk:net_null0?rx=16", 2, ["32 to 8192 descriptors", "hint: "]),
        ("dpdk:net_ring0,nodeaction=r0:0:ATTACH", 2, ["`net_memif` links two", "hint: "]),
        // No driver has the name.
        ("dpdk:net_nul0", 3, ["plugging the device in", names]),
        // The driver does not know the argument.
        ("dpdk:net_null0,sice=64", 3, ["its driver refuses it", names]),
        // The interface is not there.
        ("dpdk:net_af_packet0,iface=bw-nosuch", 3, ["its driver refuses it", names]),
        // No card is there.
        ("dpdk:0000:ff:1f.7", 3, ["plugging the device in", "`barewire doctor`"]),
        ("dpdk:net_ring0?queues=20&rx=32", 3, ["the device has 16 to receive", "`queues=20`"]),
    ] {
        let said = run(&["port", uri]);
        assert_eq!(said.code, Some(code), "{uri}: {}", said.err);
        assert_eq!(said.out, "", "{uri}: nothing but data on stdout");
        assert!(said.err.contains(uri), "{uri}: {}", said.err);
        for part in parts {
            assert!(said.err.contains(part), "{uri}: {part}: {}", said.err);
        }
    }
}

/// Where the kernel counts no huge pages, DPDK gets ordinary ones, and nobody is told of an error.
#[test]
fn huge_pages_that_are_missing_are_no_error() {
    if !barewire_testing::root() {
        return;
    }
    // An empty folder in the place of the kernel's counts, in a mount namespace that ends with the command.
    let script = "mount -t tmpfs none /sys/kernel/mm/hugepages && exec \"$0\" port dpdk:net_null0 --json";
    let binary = barewire(&[]).get_program().to_owned();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(binary);
    let said = said(command.output().expect("unshare"));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let port: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(port["queues"], 1);
}

/// The rows of a document, once `is_good` says so of each, with what the seconds are for. A void row of a busy machine is measured again.
fn rows(bench: &[&str], is_good: fn(&Value) -> bool) -> Vec<Value> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let once = |seconds: &str| {
        let said = run(&[bench, &["--over", "dpdk", "--runs", "1", "--json", "--seconds", seconds]].concat());
        let mut document: Value = serde_json::from_str(&said.out).expect(&said.err);
        let Value::Array(rows) = document["rows"].take() else { panic!("{}", said.out) };
        assert_eq!(said.code, code_of(&rows), "{bench:?}: {}", said.err);
        rows
    };
    let fine = |row: &Value| row["void"].is_null() && is_good(row);
    let rows = until_seen("0.3", once, |rows| rows.iter().all(fine));
    assert!(!rows.is_empty() && rows.iter().all(fine), "{bench:?}: {rows:?}");
    rows
}

#[test]
fn messages_are_measured_over_it() {
    if !barewire_testing::root() {
        return;
    }
    let args = ["bench", "msg", "--warmup", "0.1", "--window", "4", "--verify"];
    let rows = rows(&args, |row| row["samples"].as_u64() > Some(0) && row["mismatches"] == 0);
    let row = &rows[0];
    assert_eq!((rows.len(), &row["system"], &row["over"]), (1, &"barewire".into(), &"dpdk".into()), "{row}");
    assert_eq!((&row["window"], &row["verified"]), (&4.into(), &true.into()), "{row}");
}

#[test]
fn a_switch_is_measured_over_it() {
    if !barewire_testing::root() {
        return;
    }
    let args = ["bench", "switch", "--tests", "tcp,latency", "--entries", "10"];
    let rows = rows(&args, |row| row["tcp_mbps"].as_f64() > Some(0.0));
    let ours: Vec<_> = rows.iter().filter(|row| row["over"] == "dpdk").collect();
    assert!(ours.iter().any(|row| row["system"] == "barewire"), "{rows:?}");
    for row in ours {
        assert!(row["rtt_samples"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn connections_of_rdma_are_measured_over_it() {
    if !barewire_testing::root() {
        return;
    }
    let rows = rows(&["bench", "rdma", "--window", "4"], |row| row["connections_per_s"].as_f64() > Some(1.0));
    let row = &rows[0];
    assert_eq!((rows.len(), &row["over"], &row["failed"]), (1, &"dpdk".into(), &0.into()), "{row}");
    assert!(row["latency_ns"]["p50"].is_u64(), "{row}");
}

/// What each of two engines of a daemon received from its port.
fn received(folder: &Folder, name: &str) -> [u64; 2] {
    let mut command = barewire(&["metrics", "--once", "--name", name]);
    let scrape = said(command.env("XDG_RUNTIME_DIR", folder.path()).output().expect("metrics")).out;
    [0, 1].map(|engine| {
        let sample =
            format!("barewire_port_rx_frames_total{{name=\"{name}\",engine=\"{engine}\",port=\"0\"}} ");
        let count = scrape.lines().find_map(|line| line.strip_prefix(&sample)?.trim().parse().ok());
        count.unwrap_or_else(|| panic!("{sample}: {scrape}"))
    })
}

/// Two processes, each a daemon with two engines that share a device of two queues: over shared memory each queue carries what the engine of
/// its number sends, and whoever is served by the other engine gets it all the same.
#[test]
fn daemons_with_two_engines_share_a_device() {
    const MESSAGES: u32 = 200;
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("dpdk-engines");
    let name = |host: u8| format!("dpdk-{}-{host}", std::process::id());
    let socket = |host: u8| folder.file(format!("{host}.sock"));
    let _daemons = [(1, "server"), (2, "client")].map(|(host, role)| {
        let memif = folder.file("memif").display().to_string();
        let port = format!("dpdk:net_memif0,role={role},id=0,socket-abstract=no,socket={memif}?rx=128&tx=128");
        let text = format!(
            "[daemon]\nname = \"{}\"\nsocket = {:?}\nengines = 2\n\n[interface]\nport = \"{port}\"\nipv4 = [\"10.9.0.{host}/24\"]\n",
            name(host),
            socket(host)
        );
        let file = folder.file(format!("{host}.toml"));
        fs::write(&file, text).expect("a file");
        let mut command = barewire(&["up", "--with-parent", "--config", &file.display().to_string()]);
        Running::start_until(command.env("XDG_RUNTIME_DIR", folder.path()), "serving")
    });
    let attach = |host: u8, name: &str| {
        let mut config = ClientConfig::new(name);
        config.socket = socket(host);
        Client::attach_with(&config).expect("the daemon serves")
    };
    // Applications are dealt out to the engines in turns: one of each pair is the first engine's.
    let mut servers = [attach(2, "one"), attach(2, "two")];
    let mut clients = [attach(1, "one"), attach(1, "two")];
    for (server, port) in servers.iter_mut().zip([888, 889]) {
        server.listen_wait(port, 0, PATIENCE).expect("it listens");
    }
    let echoing: Vec<_> = servers
        .into_iter()
        .map(|mut server| {
            std::thread::spawn(move || {
                let mut echoed = 0;
                while echoed < 2 * MESSAGES {
                    if let Some(Event::Message(message)) = server.wait_event(Some(PATIENCE)).expect("alive") {
                        let (flow, bytes) = (message.flow(), server.to_vec(&message));
                        server.release(message);
                        server.send(flow, &bytes).expect("one is in flight");
                        server.flush();
                        echoed += 1;
                    }
                }
                // Who leaves resets its flows, and the last echo may still be under way.
                server
            })
        })
        .collect();
    for client in &mut clients {
        for port in [888, 889] {
            let to = SocketAddr::from(([10, 9, 0, 2], port));
            let flow = client.connect_wait(to, &ConnectOptions::default(), PATIENCE).expect("it answers");
            for n in 0..MESSAGES {
                // Some of them are of several packets.
                let bytes = n.to_le_bytes().repeat(1 + n as usize % 700);
                client.send(flow, &bytes).expect("one is in flight");
                client.flush();
                match client.wait_event(Some(PATIENCE)).expect("alive") {
                    Some(Event::Message(message)) => {
                        assert!(client.to_vec(&message) == bytes, "message {n} to {port}");
                        client.release(message);
                    }
                    other => panic!("{other:?} in the place of message {n} to {port}"),
                }
            }
        }
    }
    for thread in echoing {
        thread.join().expect("it echoed all");
    }
    for host in [1, 2] {
        let received = received(&folder, &name(host));
        assert!(received.iter().all(|frames| *frames > 100), "frames by queue at {host}: {received:?}");
    }
}
