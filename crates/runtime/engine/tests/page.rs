//! The counters page: round trips, owners dead and alive, files that nobody vouches for.

use barewire_engine::{
    CAPACITY_MAX, COUNTER_NAME_MAX, CounterKind, CountersPage, CountersReader, PAGE_NAME_MAX, PageError,
    RegisterError, counters_path,
};
use barewire_testing::Folder;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn read(reader: &mut CountersReader) -> Vec<(String, CounterKind, u64)> {
    reader.read().unwrap().map(|(name, kind, value)| (name.to_owned(), kind, value)).collect()
}

/// The bytes of a page that some process left when it died.
fn dead_page(dir: &Folder) -> Vec<u8> {
    let path = dir.file("template.counters");
    let mut page = CountersPage::create(&path, 4).unwrap();
    let slot = page.register("rx_frames", CounterKind::Counter).unwrap();
    slot.set(77);
    let mut bytes = fs::read(&path).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    bytes[12..16].copy_from_slice(&child.id().to_ne_bytes());
    child.wait().unwrap();
    bytes
}

#[test]
fn what_is_counted_is_read() {
    let dir = Folder::new("page");
    let path = dir.file("daemon.counters");
    let mut page = CountersPage::create(&path, 8).unwrap();
    let frames = page.register("port.0.rx_frames", CounterKind::Counter).unwrap();
    let depth = page.register("queue depth, größte", CounterKind::Gauge).unwrap();
    frames.add(40);
    frames.add(2);
    depth.set(9);
    depth.set(u64::MAX);
    assert_eq!((frames.get(), depth.get()), (42, u64::MAX));

    let mut reader = CountersReader::open(&path).unwrap();
    assert_eq!((reader.name(), reader.pid(), reader.capacity()), ("daemon", std::process::id(), 8));
    assert!(reader.owner_alive());
    assert!(reader.created() <= barewire_engine::now());
    let frames_row = |n| ("port.0.rx_frames".to_owned(), CounterKind::Counter, n);
    let depth_row = |n| ("queue depth, größte".to_owned(), CounterKind::Gauge, n);
    assert_eq!(read(&mut reader), [frames_row(42), depth_row(u64::MAX)]);

    // From another thread, seen by a reader that is open already.
    std::thread::spawn(move || frames.add(1)).join().unwrap();
    assert_eq!(
        read(&mut reader),
        [depth_row(u64::MAX)],
        "the slot went with its thread, and its entry with it"
    );
    depth.add(1);
    assert_eq!(read(&mut reader), [depth_row(0)], "wraps");
}

#[test]
fn layout_in_literal_bytes() {
    let dir = Folder::new("page");
    let path = dir.file("x.counters");
    let mut page = CountersPage::create(&path, 2).unwrap();
    let _first = page.register("a", CounterKind::Counter).unwrap();
    let second = page.register("drops", CounterKind::Gauge).unwrap();
    second.set(0x0102_0304_0506_0708);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 128 * 3);
    assert_eq!(bytes[0..8], u64::from_le_bytes(*b"BWCOUNTS").to_ne_bytes());
    assert_eq!(bytes[8..12], 1u32.to_ne_bytes());
    assert_eq!(bytes[12..16], std::process::id().to_ne_bytes());
    assert_eq!(bytes[32..36], 2u32.to_ne_bytes());
    assert_eq!(bytes[36..40], 128u32.to_ne_bytes());
    assert_eq!(&bytes[40..43], b"\x01x\0");
    assert_eq!(&bytes[128..136], [1, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[256..264], [1, 2, 5, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[264..272], 0x0102_0304_0506_0708_u64.to_ne_bytes());
    assert_eq!(&bytes[272..278], b"drops\0");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o133, 0, "nobody else writes");
}

#[test]
fn names_and_room_are_checked() {
    let dir = Folder::new("page");
    let mut page = CountersPage::create(dir.file("p"), 3).unwrap();
    let long = "n".repeat(COUNTER_NAME_MAX);
    let mut register = |name: &str| page.register(name, CounterKind::Counter);
    for bad in ["", "two\nlines", "\x1b[31m", &format!("{long}x")] {
        assert_eq!(register(bad).unwrap_err(), RegisterError::BadName, "{bad:?}");
    }
    let first = register(&long).unwrap();
    let second = register("b").unwrap();
    assert_eq!(register("b").unwrap_err(), RegisterError::Duplicate);
    let third = register("c").unwrap();
    assert_eq!(register("d").unwrap_err(), RegisterError::Full);
    second.set(5);
    drop(second);
    let again = register("b").unwrap();
    assert_eq!(again.get(), 0, "a new counter starts at zero");
    assert_eq!(register("b").unwrap_err(), RegisterError::Duplicate);
    drop((first, third, again));
    for round in 0..10 {
        assert_eq!(register(&format!("round {round}")).unwrap().get(), 0);
    }
    for capacity in [0, CAPACITY_MAX + 1, usize::MAX] {
        assert!(matches!(CountersPage::create(dir.file("q"), capacity), Err(PageError::BadCapacity { .. })));
    }
    assert_eq!(names(&dir), ["p"]);
}

#[test]
fn a_page_goes_with_its_owner_and_slots_may_outlive_it() {
    let dir = Folder::new("page");
    let path = dir.file("p.counters");
    let mut page = CountersPage::create(&path, 2).unwrap();
    let slot = page.register("a", CounterKind::Counter).unwrap();
    assert_eq!(names(&dir), ["p.counters"], "no draft is left");
    drop(page);
    assert!(names(&dir).is_empty());
    slot.add(1);
    assert_eq!(slot.get(), 1);

    // Somebody put another file in the place: it is not ours to remove.
    let page = CountersPage::create(&path, 2).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    drop(page);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_live_page_is_refused_and_a_dead_one_replaced() {
    let dir = Folder::new("page");
    let path = dir.file("p.counters");
    let page = CountersPage::create(&path, 2).unwrap();
    match CountersPage::create(&path, 2) {
        Err(PageError::InUse { pid, .. }) => assert_eq!(pid, std::process::id()),
        other => panic!("{other:?}"),
    }
    drop(page);

    let dead = dead_page(&dir);
    fs::write(&path, &dead).unwrap();
    let mut reader = CountersReader::open(&path).unwrap();
    assert!(!reader.owner_alive());
    assert_eq!(
        read(&mut reader),
        [("rx_frames".to_owned(), CounterKind::Counter, 77)],
        "last words are readable"
    );
    let page = CountersPage::create(&path, 2).unwrap();
    let mut fresh = CountersReader::open(&path).unwrap();
    assert!(fresh.owner_alive() && read(&mut fresh).is_empty());
    assert_eq!(read(&mut reader).len(), 1, "an open reader keeps what it has opened");
    drop(page);

    // The owner's id, used again by a process that started later: ours, with another start.
    let mut reused = dead.clone();
    reused[12..16].copy_from_slice(&std::process::id().to_ne_bytes());
    reused[16..24].copy_from_slice(&1u64.to_ne_bytes());
    // And a page of a version to come: whose owner is dead all the same.
    let mut later = dead.clone();
    later[8..12].copy_from_slice(&2u32.to_ne_bytes());
    for stale in [reused, later] {
        fs::write(&path, &stale).unwrap();
        drop(CountersPage::create(&path, 2).unwrap());
    }
    assert!(names(&dir).is_empty(), "{:?}", names(&dir));
}

#[test]
fn what_is_no_page_is_neither_replaced_nor_read() {
    let dir = Folder::new("page");
    let text = dir.file("notes.txt");
    fs::write(&text, "a".repeat(300)).unwrap();
    let short = dir.file("short");
    fs::write(&short, "BWCOUNTS").unwrap();
    let fifo = dir.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let folder = dir.file("folder");
    fs::create_dir(&folder).unwrap();
    for path in [&text, &short, &fifo, &folder] {
        let before = fs::symlink_metadata(path).unwrap();
        assert!(matches!(CountersPage::create(path, 2), Err(PageError::NotAPage { .. })), "{path:?}");
        assert!(matches!(CountersReader::open(path), Err(PageError::NotAPage { .. })), "{path:?}");
        let after = fs::symlink_metadata(path).unwrap();
        assert_eq!((before.ino(), before.len()), (after.ino(), after.len()));
    }
    // A link is not followed: in a directory that all may write, it may lead anywhere.
    let link = dir.file("link");
    std::os::unix::fs::symlink(&text, &link).unwrap();
    assert!(matches!(CountersPage::create(&link, 2), Err(PageError::Io { .. })));
    assert!(matches!(CountersReader::open(&link), Err(PageError::Io { .. })));
    assert!(matches!(CountersReader::open(dir.file("absent")), Err(PageError::Io { .. })));
    assert!(matches!(CountersPage::create(dir.file("no/such/dir"), 2), Err(PageError::Io { .. })));
    assert_eq!(names(&dir).len(), 5, "{:?}", names(&dir));
}

#[test]
fn damage_is_named() {
    let dir = Folder::new("page");
    let path = dir.file("p");
    let good = dead_page(&dir);
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        CountersReader::open(&path).map(|mut reader| read(&mut reader).len())
    };
    assert_eq!(open(&|_| {}).unwrap(), 1);
    assert_eq!(open(&|b| b.extend([0xa5; 999])).unwrap(), 1, "longer is no harm");
    match open(&|b| b[8] = 9) {
        Err(PageError::Version { found: 9, expected: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    let damaged =
        |change: &dyn Fn(&mut Vec<u8>)| assert!(matches!(open(change), Err(PageError::Damaged { .. })));
    damaged(&|b| b.truncate(128 + 4 * 128 - 1));
    damaged(&|b| b[32..36].fill(0));
    damaged(&|b| b[32..36].fill(0xff));
    damaged(&|b| b[36] = 64);
    damaged(&|b| b[40] = 0);
    damaged(&|b| b[40] = 88);
    damaged(&|b| b[41] = 0xff);
    damaged(&|b| b[41] = 0x1b);
    // An entry that makes no sense is skipped, the rest is read.
    for (at, byte) in
        [(128, 0), (128, 2), (129, 0), (129, 3), (130, 0), (130, 104), (130, 255), (144, 0xff), (145, 7)]
    {
        assert_eq!(open(&|b| b[at] = byte).unwrap(), 0, "byte {at} = {byte}");
    }

    // Cut short while somebody reads: an error, where a mapping would fault.
    fs::write(&path, &good).unwrap();
    let mut reader = CountersReader::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(200).unwrap();
    assert!(matches!(reader.read().map(Iterator::count), Err(PageError::Damaged { .. })));
}

/// Many find the same dead page at once. One replaces it, the others see that one's page.
#[test]
fn of_many_who_replace_a_dead_page_one_wins() {
    let dir = Folder::new("page");
    let path = dir.file("p.counters");
    let dead = dead_page(&dir);
    for round in 0..30 {
        if round % 2 == 0 {
            fs::write(&path, &dead).unwrap();
        }
        let start = std::sync::Barrier::new(6);
        let pages: Vec<_> = std::thread::scope(|scope| {
            let create = || {
                start.wait();
                CountersPage::create(&path, 2)
            };
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let errors: Vec<_> = pages.iter().filter_map(|page| page.as_ref().err()).collect();
        assert_eq!(errors.len(), 5, "round {round}: {errors:?}");
        assert!(errors.iter().all(|error| matches!(error, PageError::InUse { .. })), "{errors:?}");
        assert!(CountersReader::open(&path).unwrap().owner_alive());
        drop(pages);
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
    }
}

#[test]
fn names_of_pages_stay_inside_their_directory() {
    for bad in ["", "a/b", "../x", "a b", "a\0", "é", &"n".repeat(PAGE_NAME_MAX + 1)] {
        assert!(matches!(counters_path(bad), Err(PageError::BadName { .. })), "{bad:?}");
        assert!(matches!(CountersReader::find(bad), Err(PageError::BadName { .. })), "{bad:?}");
    }
    let (name, run) = (format!("test-{}", std::process::id()), Path::new("/run/barewire"));
    let made_here = !run.exists();
    let path = counters_path(&name).unwrap();
    assert_eq!(path.file_name().unwrap().to_str().unwrap(), format!("barewire-{name}.counters"));
    assert!(matches!(CountersReader::find(&name), Err(PageError::Io { .. })));
    let page = CountersPage::create(&path, 1).unwrap();
    let found = CountersReader::find(&name).unwrap();
    assert_eq!((found.path(), found.pid()), (page.path(), std::process::id()));
    drop(page);
    assert!(!path.exists());
    if made_here {
        // Fails, rightly, when somebody else has a page there by now.
        let _ = fs::remove_dir(run);
    }
}

fn open_and_read(path: &Path) -> Option<Vec<(String, CounterKind, u64)>> {
    CountersReader::open(path).ok().map(|mut reader| {
        let _ = (reader.owner_alive(), reader.created());
        read(&mut reader)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_the_reader_panic(
        noise in prop::collection::vec(any::<u8>(), 0..700),
        header in any::<bool>(),
        capacity in 0u32..6,
        pid in any::<u32>(),
    ) {
        let dir = Folder::new("page");
        let path = dir.file("p");
        let mut bytes = noise;
        if header && bytes.len() >= 128 {
            bytes[0..8].copy_from_slice(&u64::from_le_bytes(*b"BWCOUNTS").to_ne_bytes());
            bytes[8..12].copy_from_slice(&1u32.to_ne_bytes());
            bytes[12..16].copy_from_slice(&pid.to_ne_bytes());
            bytes[32..36].copy_from_slice(&capacity.to_ne_bytes());
            bytes[36..40].copy_from_slice(&128u32.to_ne_bytes());
            bytes[40..42].copy_from_slice(b"\x01p");
        }
        fs::write(&path, &bytes).unwrap();
        let whole = header && capacity > 0 && bytes.len() >= 128 * (1 + capacity as usize);
        let rows = open_and_read(&path);
        prop_assert_eq!(rows.is_some(), whole);
        for (name, _, _) in rows.unwrap_or_default() {
            prop_assert!(!name.is_empty() && name.len() <= COUNTER_NAME_MAX && !name.contains(char::is_control));
        }
    }

    #[test]
    fn a_flipped_byte_of_a_good_page_does_not_hurt(at in 0usize..640, byte in any::<u8>()) {
        let dir = Folder::new("page");
        let path = dir.file("p");
        let mut page = CountersPage::create(&path, 4).unwrap();
        let slots: Vec<_> = (0..4)
            .map(|i| {
                let slot = page.register(&format!("counter {i}"), CounterKind::Counter).unwrap();
                slot.set(i);
                slot
            })
            .collect();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[byte], at as u64).unwrap();
        if let Some(rows) = open_and_read(&path) {
            // At most the one entry that holds the byte differs.
            let intact = |i: &u64| rows.contains(&(format!("counter {i}"), CounterKind::Counter, *i));
            prop_assert!((0..4u64).filter(intact).count() >= 3);
        } else {
            prop_assert!(at < 128, "only the header can spoil the page");
        }
        // The owner goes on with whatever is there.
        slots[0].add(1);
        let _ = page.register("one more", CounterKind::Gauge);
        drop(slots);
        prop_assert!(page.register("and another", CounterKind::Gauge).is_ok());
    }
}
