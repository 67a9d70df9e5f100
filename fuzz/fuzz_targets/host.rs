//! The target `host` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    barewire_fuzz::host(data);
});
