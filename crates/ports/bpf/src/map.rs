//! Maps.

use crate::{btf, sys};
use barewire_ebpf::{MapKind, MapSpec};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The kernel's own number for what a kind of map does not do, which no header of the C library has.
const ENOTSUPP: i32 = 524;
/// Flag of reads and writes: with the value's lock taken.
const F_LOCK: u64 = 4;

/// A map of the kernel.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    /// Bytes of a value as the system call copies it: for per-CPU maps all CPUs'.
    value: usize,
    /// Bytes of one CPU's value, padded.
    one: usize,
    /// Values begin with a lock, which reading and writing takes.
    lock: bool,
}

impl Map {
    /// Makes a map, and fills its first elements with what the description says.
    ///
    /// # Errors
    /// The kernel's: `EPERM` without the right, `E2BIG` and `ENOMEM` for what is too large, `EINVAL` for what it does not know.
    pub fn create(spec: &MapSpec) -> io::Result<Map> {
        let mut attr = sys::MapCreate {
            map_type: spec.kind as u32,
            key_size: spec.key,
            value_size: spec.value,
            max_entries: spec.entries,
            map_flags: spec.flags(),
            map_name: sys::name(&spec.name),
            ..sys::MapCreate::default()
        };
        let inner = spec.inner.as_deref().map(Map::create).transpose()?;
        if let Some(inner) = &inner {
            attr.inner_map_fd = inner.as_raw_fd() as u32;
        }
        // The kernel finds the lock in the value's type, which it has to be told.
        let types = if spec.lock { Some(btf::locked_value(spec.key, spec.value)?) } else { None };
        if let Some(types) = &types {
            (attr.btf_fd, attr.btf_key, attr.btf_value) =
                (types.as_raw_fd() as u32, btf::key_type(spec.key), btf::LOCKED_VALUE);
        }
        // SAFETY: the attributes of BPF_MAP_CREATE, without addresses.
        let fd = unsafe { sys::bpf_fd(sys::MAP_CREATE, &mut attr)? };
        let one = (spec.value as usize).next_multiple_of(8);
        let value = match spec.kind {
            MapKind::PercpuArray => one * sys::possible_cpus(),
            _ => spec.value as usize,
        };
        let map = Map { fd, key: spec.key as usize, value, one, lock: spec.lock };
        for (at, element) in spec.initial.iter().enumerate() {
            map.update(&(at as u32).to_ne_bytes(), element)?;
        }
        Ok(map)
    }

    fn check(&self, key: usize, value: Option<usize>) -> io::Result<()> {
        if key == self.key && value.is_none_or(|value| value == self.value) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "a key or value of another size than the map's"))
    }

    /// Of calls that know no flags.
    fn plain_elem(&self, key: &[u8], value: u64) -> sys::MapElem {
        sys::MapElem { map_fd: self.fd.as_raw_fd() as u32, pad: 0, key: key.as_ptr() as u64, value, flags: 0 }
    }

    fn elem(&self, key: &[u8], value: u64) -> sys::MapElem {
        sys::MapElem { flags: self.flags(), ..self.plain_elem(key, value) }
    }

    fn flags(&self) -> u64 {
        if self.lock { F_LOCK } else { 0 }
    }

    /// Sets an element, there already or not.
    ///
    /// # Errors
    /// `E2BIG` when the map is full; `InvalidInput` for a key or value of the wrong size.
    pub fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.check(key.len(), Some(value.len()))?;
        let mut attr = self.elem(key, value.as_ptr() as u64);
        // SAFETY: key and value have the sizes the map was made with, and live across the call, which reads them.
        unsafe { sys::bpf(sys::MAP_UPDATE_ELEM, &mut attr) }.map(drop)
    }

    /// Sets many elements in few calls: `keys` and `values` are as many whole ones, one after the other.
    ///
    /// # Errors
    /// As [`Map::update`]; those before the one that failed are set.
    pub fn update_all(&self, keys: &[u8], values: &[u8]) -> io::Result<()> {
        let count = keys.len() / self.key.max(1);
        if keys.len() != count * self.key || values.len() != count * self.value {
            return self.check(usize::MAX, None);
        }
        let mut attr = sys::MapBatch {
            in_batch: 0,
            out_batch: 0,
            keys: keys.as_ptr() as u64,
            values: values.as_ptr() as u64,
            count: count as u32,
            map_fd: self.fd.as_raw_fd() as u32,
            elem_flags: self.flags(),
            flags: 0,
        };
        // SAFETY: `count` keys and values of the map's sizes, which live across the call and are only read.
        match unsafe { sys::bpf(sys::MAP_UPDATE_BATCH, &mut attr) } {
            Ok(_) => return Ok(()),
            // Kernels and kinds of map without batches.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | ENOTSUPP | libc::EOPNOTSUPP)) => {}
            Err(e) => return Err(e),
        }
        for at in 0..count {
            self.update(
                &keys[at * self.key..(at + 1) * self.key],
                &values[at * self.value..(at + 1) * self.value],
            )?;
        }
        Ok(())
    }

    /// An element; per-CPU maps give every CPU's value, one after the other, each padded to eight bytes.
    ///
    /// # Errors
    /// The kernel's; that there is none is no error.
    pub fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0_u8; self.value];
        Ok(self.lookup_into(key, &mut value)?.then_some(value))
    }

    /// The same into memory that is there; says whether there is such an element.
    ///
    /// # Errors
    /// As [`Map::lookup`]; `InvalidInput` when the memory has not [`Map::value_len`] bytes.
    pub fn lookup_into(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        self.check(key.len(), Some(value.len()))?;
        let mut attr = self.elem(key, value.as_mut_ptr() as u64);
        // SAFETY: the key has the map's size, `value` has room for what the map's elements have, for all CPUs.
        match unsafe { sys::bpf(sys::MAP_LOOKUP_ELEM, &mut attr) } {
            Ok(_) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The first elements of an array, as many as the memory has room for, in their order; in few calls where the kernel reads many
    /// at once.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` when the map is no array of whole words, or has fewer elements.
    pub fn read_array(&self, values: &mut [u64]) -> io::Result<()> {
        /// Elements of a call.
        const AT_ONCE: usize = 1024;
        let words = self.value / 8;
        if self.key != 4 || words == 0 || self.value != 8 * words || !values.len().is_multiple_of(words) {
            return self.check(usize::MAX, None);
        }
        let mut keys = [0_u32; AT_ONCE];
        let (mut rest, mut last) = (values, None::<u32>);
        while !rest.is_empty() {
            let mut next = 0_u32;
            let mut attr = sys::MapBatch {
                in_batch: last.as_ref().map_or(0, |last| std::ptr::from_ref(last) as u64),
                out_batch: std::ptr::from_mut(&mut next) as u64,
                keys: keys.as_mut_ptr() as u64,
                values: rest.as_mut_ptr() as u64,
                count: (rest.len() / words).min(AT_ONCE) as u32,
                map_fd: self.fd.as_raw_fd() as u32,
                elem_flags: 0,
                flags: 0,
            };
            // SAFETY: the kernel reads a key of four bytes, and writes one and at most `count` keys and values of the map's sizes, for
            // which there is room; all of it lives across the call.
            match unsafe { sys::bpf(sys::MAP_LOOKUP_BATCH, &mut attr) } {
                Ok(_) => {}
                // These were the last.
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
                // Kernels without batches.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | ENOTSUPP | libc::EOPNOTSUPP)) => {
                    return self.read_one_by_one(last.map_or(0, |last| last + 1), words, rest);
                }
                Err(e) => return Err(e),
            }
            let got = attr.count as usize * words;
            if got == 0 || got > rest.len() {
                return self.check(usize::MAX, None);
            }
            (rest, last) = (&mut rest[got..], Some(next));
        }
        Ok(())
    }

    fn read_one_by_one(&self, from: u32, words: usize, values: &mut [u64]) -> io::Result<()> {
        let mut bytes = vec![0; self.value];
        for (index, value) in (from..).zip(values.chunks_exact_mut(words)) {
            if !self.lookup_into(&index.to_ne_bytes(), &mut bytes)? {
                return self.check(usize::MAX, None);
            }
            for (word, bytes) in value.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        Ok(())
    }

    /// Each CPU's value of an element of a per-CPU map.
    ///
    /// # Errors
    /// As [`Map::lookup`].
    pub fn lookup_each_cpu(&self, key: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let all = self.lookup(key)?.unwrap_or_default();
        Ok(all.chunks(self.one.max(1)).map(<[u8]>::to_vec).collect())
    }

    /// Bytes of a value as [`Map::update`] takes it.
    pub fn value_len(&self) -> usize {
        self.value
    }

    /// Takes an element out; says whether it was there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete(&self, key: &[u8]) -> io::Result<bool> {
        self.check(key.len(), None)?;
        let mut attr = self.plain_elem(key, 0);
        // SAFETY: the key has the map's size and is only read.
        match unsafe { sys::bpf(sys::MAP_DELETE_ELEM, &mut attr) } {
            Ok(_) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The key after this one, or the first.
    ///
    /// # Errors
    /// The kernel's.
    pub fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        self.check(key.map_or(self.key, <[u8]>::len), None)?;
        let mut next = vec![0_u8; self.key];
        let mut attr = self.plain_elem(key.unwrap_or_default(), next.as_mut_ptr() as u64);
        if key.is_none() {
            attr.key = 0;
        }
        // SAFETY: the key is none or has the map's size, `next` has room for one.
        match unsafe { sys::bpf(sys::MAP_GET_NEXT_KEY, &mut attr) } {
            Ok(_) => Ok(Some(next)),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_testing::Needs;

    #[test]
    fn arrays_are_read_whole() {
        let spec = |value, entries| MapSpec {
            name: "test".to_owned(),
            kind: MapKind::Array,
            key: 4,
            value,
            entries,
            initial: Vec::new(),
            lock: false,
            inner: None,
        };
        let map = match Map::create(&spec(16, 2500)) {
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                return barewire_testing::skip(Needs::Root, "no map can be made".to_owned());
            }
            map => map.expect("a map"),
        };
        for index in 0..2500_u32 {
            let value = [u64::from(index).to_ne_bytes(), (!u64::from(index)).to_ne_bytes()].concat();
            map.update(&index.to_ne_bytes(), &value).expect("an element");
        }
        for count in [0, 1, 1023, 1024, 1025, 2499, 2500] {
            let expected: Vec<u64> = (0..count).flat_map(|index| [index, !index]).collect();
            let mut values = vec![7; 2 * count as usize];
            map.read_array(&mut values).expect("they are there");
            assert!(values == expected, "{count}");
            values.fill(7);
            map.read_one_by_one(0, 2, &mut values).expect("they are there");
            assert!(values == expected, "{count}");
        }
        assert!(map.read_array(&mut [0; 5002]).is_err(), "there are not so many");
        assert!(map.read_array(&mut [0; 3]).is_err(), "not whole elements");
        let odd = Map::create(&spec(12, 4)).expect("a map");
        assert!(odd.read_array(&mut [0; 4]).is_err(), "not whole words");
    }
}
