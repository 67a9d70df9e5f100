//! The target `stf_text` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    barewire_fuzz::stf_text(data);
});
