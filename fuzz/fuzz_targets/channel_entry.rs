//! The target `channel_entry` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    barewire_fuzz::channel_entry(data);
});
