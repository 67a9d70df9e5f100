//! Loads and stores that cannot fail: what lies outside the bytes reads as zero and is not written.
//!
//! Over an array of known size with a constant offset the compiler removes every check, so views pay none.

/// `K` bytes at `at`.
#[inline(always)]
fn array<const K: usize, const N: usize>(bytes: &[u8; N], at: usize) -> [u8; K] {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<K>()) {
        Some(chunk) => *chunk,
        None => [0; K],
    }
}

/// `K` bytes at `at`, in place; zeros where they are not all there.
#[inline(always)]
pub fn array_ref<const K: usize>(bytes: &[u8], at: usize) -> &[u8; K] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).unwrap_or(const { &[0; K] })
}

/// `K` bytes at `at` of a block that may end before them. `known`: whether the block's version has them at all.
#[inline(always)]
pub fn tail_ref<const K: usize>(block: &[u8], at: usize, known: bool) -> Option<&[u8; K]> {
    if known { block.get(at..)?.first_chunk() } else { None }
}

/// A number, little-endian or (`_be`) big-endian.
#[allow(missing_docs)]
pub trait Word: Sized {
    /// The number at `at`.
    fn load<const N: usize>(bytes: &[u8; N], at: usize) -> Self;
    fn load_be<const N: usize>(bytes: &[u8; N], at: usize) -> Self;

    /// The number at `at` of a block that may end before it. `known`: whether the block's version has it at all.
    fn tail(block: &[u8], at: usize, known: bool) -> Option<Self>;
    fn tail_be(block: &[u8], at: usize, known: bool) -> Option<Self>;

    /// Writes the number at `at` where it fits whole.
    fn put(self, block: &mut [u8], at: usize);
    fn put_be(self, block: &mut [u8], at: usize);
}

macro_rules! words {
    ($($ty:ty),*) => { $(
        impl Word for $ty {
            #[inline(always)]
            fn load<const N: usize>(bytes: &[u8; N], at: usize) -> $ty {
                <$ty>::from_le_bytes(array(bytes, at))
            }

            #[inline(always)]
            fn load_be<const N: usize>(bytes: &[u8; N], at: usize) -> $ty {
                <$ty>::from_be_bytes(array(bytes, at))
            }

            #[inline(always)]
            fn tail(block: &[u8], at: usize, known: bool) -> Option<$ty> {
                if !known {
                    return None;
                }
                Some(<$ty>::from_le_bytes(*block.get(at..)?.first_chunk()?))
            }

            #[inline(always)]
            fn tail_be(block: &[u8], at: usize, known: bool) -> Option<$ty> {
                if !known {
                    return None;
                }
                Some(<$ty>::from_be_bytes(*block.get(at..)?.first_chunk()?))
            }

            #[inline(always)]
            fn put(self, block: &mut [u8], at: usize) {
                put(block, at, self.to_le_bytes());
            }

            #[inline(always)]
            fn put_be(self, block: &mut [u8], at: usize) {
                put(block, at, self.to_be_bytes());
            }
        }
    )* };
}

words!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);

/// `len` bytes in place; none where they are not all there.
#[inline(always)]
pub fn slice(bytes: &[u8], at: usize, len: usize) -> &[u8] {
    bytes.get(at..).and_then(|rest| rest.get(..len)).unwrap_or(&[])
}

/// Writes `value` at `at` where it fits whole.
#[inline(always)]
pub fn put<const K: usize>(block: &mut [u8], at: usize, value: [u8; K]) {
    if let Some(place) = block.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<K>()) {
        *place = value;
    }
}

/// Writes `value` into the `len` bytes at `at`, cut to fit and filled up with zeros.
pub fn put_text(block: &mut [u8], at: usize, len: usize, value: &[u8]) {
    if let Some(place) = block.get_mut(at..).and_then(|rest| rest.get_mut(..len)) {
        let n = value.len().min(len);
        let (head, tail) = place.split_at_mut(n);
        head.copy_from_slice(&value[..n]);
        tail.fill(0);
    }
}
