//! The target `wire` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    barewire_fuzz::wire(data);
});
