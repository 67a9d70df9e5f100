//! The target `transport_secure` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    barewire_fuzz::transport_secure(data);
});
