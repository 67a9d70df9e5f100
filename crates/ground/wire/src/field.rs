//! Total access to bytes: what lies outside a buffer reads as zero and is not written. Every accessor of every view goes
//! through here, so no view can panic, however short its buffer or however wrong its length fields.

/// The `N` bytes at `at`, or zeroes.
#[inline(always)]
pub(crate) fn array<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    match data.get(at..).and_then(|tail| tail.first_chunk::<N>()) {
        Some(bytes) => *bytes,
        None => [0; N],
    }
}

/// The byte at `at`, or zero.
#[inline(always)]
pub(crate) fn u8_at(data: &[u8], at: usize) -> u8 {
    data.get(at).copied().unwrap_or(0)
}

/// The big-endian 16 bits at `at`, or zero.
#[inline(always)]
pub(crate) fn u16_at(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(data, at))
}

/// The big-endian 32 bits at `at`, or zero.
#[inline(always)]
pub(crate) fn u32_at(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(data, at))
}

/// The part of `from..to` that exists.
#[inline(always)]
pub(crate) fn slice(data: &[u8], from: usize, to: usize) -> &[u8] {
    let to = to.min(data.len());
    data.get(from..to).unwrap_or(&[])
}

/// The part of `from..to` that exists, to change.
#[inline(always)]
pub(crate) fn slice_mut(data: &mut [u8], from: usize, to: usize) -> &mut [u8] {
    let to = to.min(data.len());
    data.get_mut(from..to).unwrap_or(&mut [])
}

/// Writes `bytes` at `at`, whole or not at all.
#[inline(always)]
pub(crate) fn put<const N: usize>(data: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(place) = data.get_mut(at..).and_then(|tail| tail.first_chunk_mut::<N>()) {
        *place = bytes;
    }
}

/// Copies as much of `bytes` to `at` as there is room for.
#[inline(always)]
pub(crate) fn put_slice(data: &mut [u8], at: usize, bytes: &[u8]) {
    let place = slice_mut(data, at, at + bytes.len());
    let n = place.len();
    place.copy_from_slice(&bytes[..n]);
}

/// The constructors that every view has.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, min $min:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name<T: AsRef<[u8]>> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> $name<T> {
            /// A view of `buffer`, unjudged: to emit into, or when the length is known. Fields beyond the end read as
            /// zero and are not written.
            #[inline]
            pub const fn new_unchecked(buffer: T) -> Self {
                Self { buffer }
            }

            /// A view whose lengths agree with `buffer`; see [`check`](Self::check).
            #[inline]
            pub fn new_checked(buffer: T) -> Result<Self, $crate::Error> {
                let view = Self::new_unchecked(buffer);
                view.check()?;
                Ok(view)
            }

            /// The buffer back.
            #[inline]
            pub fn into_inner(self) -> T {
                self.buffer
            }

            #[inline(always)]
            #[allow(dead_code)]
            fn data(&self) -> &[u8] {
                self.buffer.as_ref()
            }

            /// Checks the shortest length, before a protocol's own checks.
            #[inline(always)]
            fn check_min(&self) -> Result<(), $crate::Error> {
                if self.buffer.as_ref().len() < $min { Err($crate::Error::Truncated) } else { Ok(()) }
            }
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            #[inline(always)]
            #[allow(dead_code)]
            fn data_mut(&mut self) -> &mut [u8] {
                self.buffer.as_mut()
            }
        }
    };
}
pub(crate) use view;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_read_or_written() {
        let mut data = [1u8, 2, 3];
        assert_eq!(u16_at(&data, 1), 0x0203);
        assert_eq!(u16_at(&data, 2), 0);
        assert_eq!(u32_at(&data, 0), 0);
        assert_eq!(u8_at(&data, 3), 0);
        assert_eq!(array::<2>(&data, usize::MAX), [0, 0]);
        put(&mut data, 2, [9, 9]);
        assert_eq!(data, [1, 2, 3]);
        put_slice(&mut data, 2, &[9, 9]);
        assert_eq!(data, [1, 2, 9]);
        assert_eq!(slice(&data, 2, 100), [9]);
        assert_eq!(slice(&data, 5, 4), []);
    }
}
