//! The pool against a model: no chunk is ever owned twice, none is lost.

use barewire_frame::*;
use proptest::prelude::*;

fn pool(frames: u32) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap()
}

#[test]
fn an_empty_pool_refuses_and_a_drop_refills_it() {
    let pool = pool(2);
    let (a, b) = (pool.alloc().unwrap(), pool.alloc().unwrap());
    assert!(pool.alloc().is_none());
    assert!(a.try_clone().is_none());
    drop(a);
    assert_eq!(pool.available(), 1);
    drop(b);
    assert_eq!(pool.available(), 2);
}

#[test]
fn head_and_tail_are_bounded() {
    let pool = pool(1);
    let mut f = pool.alloc_from(b"payload").unwrap();
    assert!(f.push_front(14) && f.len() == 21);
    assert!(!f.push_front(HEADROOM_DEFAULT as usize));
    assert!(f.pull_front(14));
    assert_eq!(f.data(), b"payload");
    assert!(!f.pull_front(8));
    let room = f.tailroom();
    assert!(!f.set_len(7 + room + 1));
    assert!(f.set_len(7 + room));
    assert_eq!(f.tailroom(), 0);
}

#[test]
fn a_clone_copies_bytes_and_metadata() {
    let pool = pool(2);
    let mut f = pool.alloc_from(b"abc").unwrap();
    f.set_port(7);
    f.set_stamp(Stamp { ns: 42, error_ns: 3, source: StampSource::Kernel, clock: ClockDomain::Realtime });
    f.set_checksum(ChecksumState::Partial { start: 34, offset: 6 });
    let c = f.try_clone().unwrap();
    f.data_mut()[0] = b'x';
    assert_eq!(c.data(), b"abc");
    assert_eq!((c.port(), c.stamp(), c.checksum()), (7, f.stamp(), f.checksum()));
}

#[test]
fn offload_marks_are_kept_apart_and_follow_the_front() {
    let pool = pool(2);
    let mut f = pool.alloc_from(&[0xa5; 100]).unwrap();
    let (udp, tcp) = (
        Gso { kind: GsoKind::UdpL4, ecn: false, size: 1000 },
        Gso { kind: GsoKind::Tcp6, ecn: true, size: 65535 },
    );
    let partial = |start| ChecksumState::Partial { start, offset: 16 };
    assert_eq!((f.gso(), f.checksum()), (None, ChecksumState::Unknown));
    f.set_checksum(partial(34));
    for gso in [udp, tcp, Gso { kind: GsoKind::Tcp4, ecn: true, size: 1 }] {
        f.set_gso(Some(gso));
        assert_eq!((f.gso(), f.checksum()), (Some(gso), partial(34)));
        assert_eq!(f.try_clone().unwrap().gso(), Some(gso));
    }
    f.set_checksum(ChecksumState::Verified);
    assert_eq!((f.gso().unwrap().size, f.checksum()), (1, ChecksumState::Verified));
    f.set_gso(None);
    assert_eq!((f.gso(), f.checksum()), (None, ChecksumState::Verified));
    assert!(f.push_front(4) && f.checksum() == ChecksumState::Verified, "no place, nothing to move");

    f.set_checksum(partial(34));
    assert!(f.push_front(4));
    assert_eq!(f.checksum(), partial(38));
    assert!(f.pull_front(38));
    assert_eq!(f.checksum(), partial(0), "the first byte");
    f.shift_offloads(20);
    assert_eq!(f.checksum(), partial(20));
    f.set_gso(Some(udp));
    f.shift_offloads(i32::MAX);
    assert_eq!(f.checksum(), partial(u16::MAX), "far outside: refused by whoever completes it");
    f.set_checksum(partial(3));
    assert!(f.pull_front(4));
    assert_eq!((f.checksum(), f.gso()), (ChecksumState::Unknown, Some(udp)), "its bytes are gone");
    f.set_checksum(partial(3));
    f.shift_offloads(i32::MIN);
    assert_eq!(f.checksum(), ChecksumState::Unknown);
    let index = f.into_index();
    // SAFETY: the index came from this pool just now and nobody else has it.
    let f = unsafe { pool.reclaim(index, 0, 9) }.unwrap();
    assert_eq!(f.gso(), None, "a chunk that comes back has no mark");
}

#[test]
fn an_index_goes_out_and_comes_back() {
    let pool = pool(1);
    let f = pool.alloc_from(b"to the kernel").unwrap();
    let at = f.region_offset();
    let index = f.into_index();
    assert_eq!(pool.available(), 0);
    // SAFETY: the index came from this pool just now and nobody else has it.
    let f = unsafe { pool.reclaim(index, (at % 2048) as u32, 13) }.unwrap();
    assert_eq!(f.data(), b"to the kernel");
    let index = f.into_index();
    // SAFETY: as above; the range is refused, so no frame comes of it.
    assert!(unsafe { pool.reclaim(index, 2040, 9) }.is_none());
    // SAFETY: as above.
    drop(unsafe { pool.reclaim(index, 0, 0) });
    assert_eq!(pool.available(), 1);
}

#[test]
fn a_frame_that_outlives_its_pool_is_counted_and_harmless() {
    let before = leaked_pools();
    let p = pool(1);
    let mut f = p.alloc_from(b"left behind").unwrap();
    drop(p);
    assert_eq!(leaked_pools(), before + 1);
    f.data_mut()[0] = b'L';
    assert_eq!(f.data(), b"Left behind");
}

#[test]
fn bad_configurations_are_refused() {
    for (frames, chunk_len, headroom) in
        [(0, 2048, 0), (1, 2000, 0), (1, 1024, 0), (1, 2048, 2048), (1, 1 << 18, 0)]
    {
        assert!(Pool::new(PoolConfig { frames, chunk_len, headroom, huge_pages: false }).is_err());
    }
}

#[test]
fn a_burst_keeps_order_through_partial_drains() {
    let pool = pool(64);
    let mut burst = Burst::new();
    let tagged = |n: u16| {
        let mut f = pool.alloc().unwrap();
        f.set_port(n);
        f
    };
    for n in 0..32 {
        burst.push(tagged(n)).unwrap();
    }
    assert!(burst.push(tagged(99)).is_err());
    for n in 0..10 {
        assert_eq!(burst.pop().unwrap().port(), n);
    }
    for n in 32..42 {
        burst.push(tagged(n)).unwrap();
    }
    assert_eq!(burst.room(), 0);
    assert_eq!(burst.iter().map(Frame::port).collect::<Vec<_>>(), (10..42).collect::<Vec<_>>());
    drop(burst);
    assert_eq!(pool.available(), 64);
}

#[derive(Debug, Clone)]
enum Op {
    Alloc,
    Free(usize),
    Write(usize, u8),
    Clone(usize),
}

proptest! {
    #[test]
    fn no_chunk_has_two_owners(ops in proptest::collection::vec(prop_oneof![
        Just(Op::Alloc), any::<usize>().prop_map(Op::Free), (any::<usize>(), any::<u8>()).prop_map(|(i, b)| Op::Write(i, b)),
        any::<usize>().prop_map(Op::Clone)], 0..400)) {
        let pool = pool(8);
        let mut held: Vec<(Frame, u8)> = Vec::new();
        for op in ops {
            match op {
                Op::Alloc => if let Some(f) = pool.alloc_from(&[0xa5; 64]) { held.push((f, 0xa5)) },
                Op::Free(i) if !held.is_empty() => { let i = i % held.len(); held.swap_remove(i); }
                Op::Write(i, b) if !held.is_empty() => {
                    let i = i % held.len();
                    held[i].0.data_mut().fill(b);
                    held[i].1 = b;
                }
                Op::Clone(i) if !held.is_empty() => {
                    let (f, b) = &held[i % held.len()];
                    let (c, b) = (f.try_clone(), *b);
                    if let Some(c) = c { held.push((c, b)) }
                }
                _ => {}
            }
            prop_assert_eq!(pool.available() + held.len(), 8);
            for (f, b) in &held { prop_assert!(f.data().iter().all(|x| x == b)); }
        }
    }
}
