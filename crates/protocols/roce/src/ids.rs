//! Numbers that nobody outside can predict: first sequence numbers, communication ids, salts. One secret, drawn from the
//! operating system by whoever makes the endpoint (or from a seed in a simulation), keys SipHash-2-4 over a counter.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

pub(crate) struct Ids {
    key: [u8; 16],
    counter: u64,
}

impl Ids {
    pub(crate) fn new(key: [u8; 16]) -> Ids {
        Ids { key, counter: 0 }
    }

    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        self.counter += 1;
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(self.counter);
        hasher.finish()
    }
}
