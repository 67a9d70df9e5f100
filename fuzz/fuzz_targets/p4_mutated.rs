//! The target `p4_mutated` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    barewire_fuzz::p4_mutated(data);
});
