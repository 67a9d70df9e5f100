//! A link node that passes frames allocates nothing, by an allocator that counts.

use barewire_engine::StopFlag;
use barewire_lab::{LinkNodeConfig, NodePort, run_link_node};
use barewire_port::{FaultSettings, PortUri};
use barewire_testing::{Counting, allocations};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a node between two pairs of Unix sockets while another thread sends `frames` through it, and says how often the
/// node's thread has allocated, from before it opened its ports to its end, and how many frames came out: when `least` have, whatever
/// comes without a pause.
fn run(frames: u32, least: usize, trace: bool) -> (u64, usize) {
    let folder =
        std::env::temp_dir().join(format!("barewire-lab-alloc-{}-{frames}-{trace}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    let uri = |end: &str| {
        let target = format!("{},{}", path(end).display(), path(&format!("{end}-far")).display());
        PortUri::new("unix", &target)
    };
    let settings = FaultSettings {
        loss: 0.1,
        duplicate: 0.1,
        corrupt: 0.1,
        reorder: 0.1,
        delay: barewire_base::Duration::from_micros(200),
        ..FaultSettings::default()
    };
    let mut config =
        LinkNodeConfig::new("test", ["a", "b"], NodePort::Packet, &[settings.clone(), settings], [1, 2]);
    for (end, text) in [("a", &mut config.a), ("b", &mut config.b)] {
        let mut old: PortUri = text.parse().unwrap();
        let mut new = uri(end);
        new.wrappers = std::mem::take(&mut old.wrappers);
        for (key, value) in old.options {
            if !["promiscuous", "tx", "stamp"].contains(&key.as_str()) {
                new = new.with(&key, value);
            }
        }
        *text = new.to_string();
    }
    config.trace = trace.then(|| path("trace"));
    let far = ["a-far", "b-far"].map(|name| UnixDatagram::bind(path(name)).unwrap());
    far[1].set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let stop = StopFlag::new().unwrap();
    let (tell, ready) = std::sync::mpsc::sync_channel(1);
    let node_path = path("a");
    let (allocated, received) = std::thread::scope(|scope| {
        let node = scope.spawn(|| {
            let before = allocations();
            run_link_node(&config, &stop, || tell.send(()).unwrap()).unwrap();
            allocations() - before
        });
        ready.recv().unwrap();
        let mut received = 0;
        let mut buffer = [0; 256];
        // Never asleep in a send: the node may wait for room that only we make.
        for end in &far {
            end.set_nonblocking(true).unwrap();
        }
        for i in 0..frames {
            let mut frame = [0xa5; 64];
            frame[..4].copy_from_slice(&i.to_be_bytes());
            loop {
                let sent = far[0].send_to(&frame, &node_path).is_ok();
                if !sent || i % 8 == 7 {
                    std::thread::sleep(Duration::from_millis(1));
                    while far[1].recv(&mut buffer).is_ok() {
                        received += 1;
                    }
                }
                if sent {
                    break;
                }
            }
        }
        far[1].set_nonblocking(false).unwrap();
        let mut pauses = 0;
        // A node that waits for a core makes pauses, too: some of them, while there have to be more.
        while pauses < if received < least { 200 } else { 1 } {
            match far[1].recv(&mut buffer) {
                Ok(_) => (received, pauses) = (received + 1, 0),
                Err(_) => pauses += 1,
            }
        }
        stop.stop();
        (node.join().unwrap(), received)
    });
    std::fs::remove_dir_all(&folder).unwrap();
    (allocated, received)
}

#[test]
fn frames_cost_no_allocation() {
    for trace in [false, true] {
        let ((few, _), (many, received)) = (run(8, 0, trace), run(2_000, 1_700, trace));
        assert!((1_700..2_300).contains(&received), "{received} came out");
        // Start and end allocate alike; two thousand frames add nothing.
        assert_eq!(few, many, "trace: {trace}");
    }
}
