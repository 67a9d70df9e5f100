//! What the tests of the ports share.
#![allow(dead_code)]

use barewire_base::Instant;
use barewire_frame::{Burst, Frame, Pool, PoolConfig};
use barewire_port::Port;
use std::path::PathBuf;

pub fn pool(frames: u32) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap()
}

/// A frame of `len` bytes of 0xa5 that begins with `tag`.
pub fn frame(pool: &Pool, tag: u8, len: usize) -> Frame {
    let mut bytes = vec![0xa5; len];
    bytes[0] = tag;
    pool.alloc_from(&bytes).unwrap()
}

/// Sends one frame for each tag; how many were accepted.
pub fn send(port: &mut dyn Port, now: Instant, pool: &Pool, tags: impl IntoIterator<Item = u8>) -> usize {
    let mut burst = Burst::new();
    for tag in tags {
        assert!(burst.push(frame(pool, tag, 60)).is_ok());
    }
    port.tx_burst(now, &mut burst).unwrap()
}

/// The tags of the frames that one call receives.
pub fn receive(port: &mut dyn Port, now: Instant) -> Vec<u8> {
    let mut burst = Burst::new();
    let n = port.rx_burst(now, &mut burst).unwrap();
    let tags: Vec<u8> = burst.iter().map(|f| f.data()[0]).collect();
    assert_eq!(n, tags.len());
    tags
}

pub fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

pub fn us(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000)
}

/// A directory of this test's own; removed with it.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("barewire-port-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}
