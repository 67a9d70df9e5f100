//! Memory ports: within a process, by name, and between processes.

mod support;

use barewire_base::{DropReason, Instant};
use barewire_frame::{Burst, ChecksumState, Pool};
use barewire_port::conformance::{ConformancePair, run_all, wait_readable};
use barewire_port::{MemoryConfig, MemoryLink, MemoryPort, OpenError, Port, PortError, PortUri};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;
use support::*;

fn open(text: &str, pool: Pool) -> Result<MemoryPort, OpenError> {
    MemoryPort::from_uri(&text.parse::<PortUri>().unwrap(), pool)
}

fn conform(name: &str, open_pair: &mut dyn FnMut(Pool, Pool) -> (MemoryPort, MemoryPort)) {
    run_all(name, &mut || {
        let (a_pool, b_pool) = (pool(600), pool(300));
        let (a, b) = open_pair(a_pool.clone(), b_pool.clone());
        ConformancePair {
            settle: Duration::from_millis(20),
            ..ConformancePair::on_a_wire(a, a_pool, b, b_pool)
        }
    });
}

#[test]
fn conforms() {
    conform("mem", &mut |a, b| MemoryPort::pair(MemoryConfig::default(), a, b).unwrap());
    let small = MemoryConfig { slots: 4, slot_bytes: 256 };
    conform("mem, four small slots", &mut |a, b| MemoryPort::pair(small, a, b).unwrap());
    conform("mem by name", &mut |a, b| {
        (open("mem:conforms", a).unwrap(), open("mem:conforms?slots=256", b).unwrap())
    });
}

#[test]
fn conforms_between_processes() {
    let dir = Dir::new("mem-conforms");
    let text = format!("mem:x?shared=1&path={}", dir.path("link").display());
    conform("mem, shared", &mut |a, b| (open(&text, a).unwrap(), open(&text, b).unwrap()));
    assert!(!dir.path("link").exists(), "the last one removes the file");
}

#[test]
fn a_name_has_two_ends() {
    let pool = pool(8);
    let mut a = open("mem:two", pool.clone()).unwrap();
    assert!(!a.has_peer());
    assert_eq!(send(&mut a, ms(0), &pool, [1]), 1);
    assert_eq!(a.counters().drops.get(DropReason::PortDown), 1, "nobody is there yet");
    assert!(!a.is_finished());

    let wrong = open("mem:two?slots=64", pool.clone()).err().unwrap().to_string();
    assert!(wrong.contains("the other end has slots=256"), "{wrong}");
    let mut b = open("mem:two", pool.clone()).unwrap();
    let third = open("mem:two", pool.clone()).err().unwrap().to_string();
    assert!(third.contains("both ends are taken"), "{third}");
    assert_eq!(send(&mut a, ms(0), &pool, [2, 3]), 2);
    drop(a);
    assert!(open("mem:two", pool.clone()).is_err(), "one end still lives");
    assert!(!b.is_finished());
    assert_eq!(receive(&mut b, ms(1)), [2, 3], "what was sent before is received");
    assert_eq!(receive(&mut b, ms(1)), []);
    assert!(b.is_finished());
    drop(b);
    let again = open("mem:two?slots=64", pool.clone()).unwrap();
    assert!(again.caps().description.contains("end A, 64 slots"), "{}", again.caps().description);
}

#[test]
fn options_are_checked() {
    let refusal = |text: &str| open(text, pool(8)).err().expect("refused").to_string();
    assert!(refusal("mem:o?slots=3").contains("power of two"));
    assert!(refusal("mem:o?slot_bytes=100").contains("multiple of 64"));
    assert!(refusal("mem:o?slot=4").contains("did you mean `slots`"));
    assert!(refusal("mem:o?path=/x").contains("shared=1"));
    assert!(refusal("mem:a/../b?shared=1").contains("letters"));
}

#[test]
fn ends_meet_across_threads() {
    const FRAMES: u32 = 20_000;
    let (a, b) = MemoryLink::new(MemoryConfig { slots: 64, slot_bytes: 2048 }).unwrap();
    let sender = std::thread::spawn(move || {
        let pool = pool(64);
        let mut port = a.open(pool.clone());
        let (mut burst, mut next) = (Burst::new(), 0u32);
        while next < FRAMES || !burst.is_empty() {
            while next < FRAMES && burst.room() > 0 {
                let mut frame = pool.alloc().unwrap();
                assert!(frame.set_len(64));
                frame.data_mut().fill(next as u8);
                frame.data_mut()[..4].copy_from_slice(&next.to_le_bytes());
                assert!(burst.push(frame).is_ok());
                next += 1;
            }
            if port.tx_burst(Instant::ZERO, &mut burst).unwrap() == 0 {
                std::thread::yield_now();
            }
        }
    });
    let pool = pool(64);
    let mut port = b.open(pool.clone());
    let mut burst = Burst::new();
    let mut next = 0u32;
    while next < FRAMES {
        // Sleep whenever there is nothing: a lost wake-up would hang (and fail by the timeout).
        if port.rx_burst(Instant::ZERO, &mut burst).unwrap() == 0 {
            if port.prepare_wait() {
                let woken = wait_readable(port.wait_fd().unwrap(), Duration::from_secs(20));
                assert!(woken, "a wake-up was lost after frame {next}");
            }
            port.finish_wait();
        }
        while let Some(frame) = burst.pop() {
            assert_eq!(frame.data()[..4], next.to_le_bytes());
            assert!(frame.data()[4..].iter().all(|b| *b == next as u8));
            next += 1;
        }
    }
    sender.join().unwrap();
}

#[test]
fn unfinished_checksums_stay_marked_and_port_numbers_stay() {
    let pool = pool(8);
    let (mut a, mut b) = MemoryPort::pair(MemoryConfig::default(), pool.clone(), pool.clone()).unwrap();
    let mut burst = Burst::new();
    let partial = ChecksumState::Partial { start: 34, offset: 65535 };
    for state in [partial, ChecksumState::Verified, ChecksumState::Unknown] {
        let mut f = frame(&pool, 1, 100);
        f.set_checksum(state);
        f.set_port(if state == ChecksumState::Unknown { 0 } else { 127 });
        assert!(burst.push(f).is_ok());
    }
    assert_eq!(a.tx_burst(ms(1), &mut burst).unwrap(), 3);
    assert_eq!(b.rx_burst(ms(2), &mut burst).unwrap(), 3);
    assert_eq!(burst.iter().map(|f| f.port()).collect::<Vec<_>>(), [127, 127, 0]);
    let states: Vec<_> = burst.iter().map(|f| f.checksum()).collect();
    assert_eq!(states, [partial, ChecksumState::Unknown, ChecksumState::Unknown]);
    assert!(burst.iter().all(|f| f.stamp().ns == 2_000_000));
}

#[test]
fn a_shared_end_may_be_taken_again() {
    let dir = Dir::new("mem-again");
    let path = dir.path("link");
    let text = format!("mem:x?shared=1&path={}", path.display());
    let pool = pool(64);
    let mut a = open(&text, pool.clone()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut b = open(&text, pool.clone()).unwrap();
    assert!(
        open(&text, pool.clone()).err().unwrap().to_string().contains("both ends are taken, by processes")
    );
    assert!(open(&format!("{text}&slots=64"), pool.clone()).is_err());

    assert_eq!(send(&mut b, ms(0), &pool, [1, 2]), 2);
    assert_eq!(send(&mut a, ms(0), &pool, [3]), 1);
    drop(a);
    assert!(!b.has_peer() && path.exists());
    assert_eq!(send(&mut b, ms(0), &pool, [4]), 1);
    assert_eq!(b.counters().drops.get(DropReason::PortDown), 1);

    let mut a = open(&text, pool.clone()).unwrap();
    assert!(a.caps().description.contains("end A"), "{}", a.caps().description);
    assert_eq!(receive(&mut a, ms(0)), [], "what was sent to the one before is gone");
    assert_eq!(receive(&mut b, ms(0)), [3]);
    for round in 0..40 {
        assert_eq!(send(&mut b, ms(0), &pool, 0..30), 30, "round {round}");
        assert_eq!(receive(&mut a, ms(0)), (0..30).collect::<Vec<u8>>());
        assert_eq!(send(&mut a, ms(0), &pool, 0..30), 30);
        assert_eq!(receive(&mut b, ms(0)), (0..30).collect::<Vec<u8>>());
    }
    drop((a, b));
    assert!(!path.exists());
}

const CHILD: &str = "BAREWIRE_TEST_MEMORY_CHILD";

/// Not a test of its own: the process that `a_killed_peer_is_noticed` kills.
#[test]
fn child_holds_an_end() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let pool = pool(8);
    let mut port = open(&text, pool.clone()).unwrap();
    while send(&mut port, ms(0), &pool, [7]) == 1 && port.counters().tx_frames.get() == 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_peer_is_noticed() {
    let dir = Dir::new("mem-killed");
    let path = dir.path("link");
    let text = format!("mem:x?shared=1&path={}", path.display());
    let pool = pool(64);
    let mut port = open(&text, pool.clone()).unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["child_holds_an_end", "--exact"])
        .env(CHILD, &text)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut got = Vec::new();
    for _ in 0..10_000 {
        got = receive(&mut port, ms(0));
        if !got.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(got, [7], "a frame from the other process");
    assert!(port.has_peer());
    child.kill().unwrap();
    child.wait().unwrap();

    let full =
        (0..).map(|i| send(&mut port, ms(0), &pool, [i as u8])).take_while(|n| *n == 1).take(300).count();
    assert_eq!(full, 256, "not looked at yet: the ring takes what it holds");
    assert_eq!(receive(&mut port, ms(200)), []);
    assert!(!port.has_peer(), "found dead at the next look");
    assert_eq!(send(&mut port, ms(201), &pool, [1, 2]), 2);
    assert_eq!(port.counters().drops.get(DropReason::PortDown), 2);

    let mut heir = open(&text, pool.clone()).unwrap();
    assert!(port.has_peer());
    assert_eq!(receive(&mut heir, ms(202)), []);
    assert_eq!(send(&mut port, ms(202), &pool, [5]), 1);
    assert_eq!(receive(&mut heir, ms(202)), [5]);
    drop((port, heir));
    assert!(!path.exists());
}

#[test]
fn a_file_that_the_dead_left_is_made_anew() {
    let dir = Dir::new("mem-stale");
    let path = dir.path("link");
    std::fs::write(&path, [0xa5; 5000]).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!("mem:x?shared=1&path={}", path.display());
    let pool = pool(64);
    let mut a = open(&text, pool.clone()).unwrap();
    let mut b = open(&text, pool.clone()).unwrap();
    assert_eq!(send(&mut a, ms(0), &pool, [1]), 1);
    assert_eq!(receive(&mut b, ms(0)), [1]);
    drop((a, b));

    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(open(&text, pool.clone()).err().unwrap().to_string().contains("mode 0600"));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert!(open(&text, pool).is_err(), "a symbolic link is not followed");
}

#[test]
fn a_peer_that_scribbles_breaks_nothing_but_the_link() {
    let dir = Dir::new("mem-scribble");
    let path = dir.path("link");
    let text = format!("mem:x?shared=1&path={}", path.display());
    let mut draw = barewire_base::Prng::new(3);
    let mut corrupt = 0;
    for round in 0..40 {
        let pool = pool(64);
        let mut a = open(&text, pool.clone()).unwrap();
        let b = open(&text, pool.clone()).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        for step in 0..60u64 {
            // Each direction's beginning, where indices and descriptors are, more often than the payload.
            let direction = 4096 + (len - 4096) / 2 * (step % 2);
            let at = if step % 3 == 0 { draw.below(len - 64) } else { direction + draw.below(4096) };
            let mut junk = [0; 64];
            draw.fill(&mut junk);
            file.write_all_at(&junk, at).unwrap();
            let mut burst = Burst::new();
            match a.rx_burst(ms(step * 50), &mut burst) {
                Ok(n) => assert_eq!(n, burst.len()),
                Err(PortError::Down { .. }) => corrupt += 1,
                Err(e) => panic!("round {round}: {e}"),
            }
            assert!(burst.iter().all(|f| (14..=1920).contains(&f.len())));
            burst.clear();
            assert!(burst.push(frame(&pool, 1, 60)).is_ok());
            match a.tx_burst(ms(step * 50), &mut burst) {
                Ok(_) => {}
                Err(PortError::Down { .. }) => corrupt += 1,
                Err(e) => panic!("round {round}: {e}"),
            }
        }
        drop((a, b));
        assert_eq!(pool.available(), 64);
    }
    assert!(corrupt > 0, "impossible indices were never noticed");
}
