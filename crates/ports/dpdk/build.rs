//! Compiles the shim over DPDK's inline functions and links libdpdk, where the feature asks for it.

fn main() {
    println!("cargo::rerun-if-changed=shim");
    #[cfg(feature = "dpdk")]
    build();
}

#[cfg(feature = "dpdk")]
fn build() {
    let found = pkg_config::Config::new().atleast_version("22.11").probe("libdpdk");
    let dpdk = found.unwrap_or_else(|error| {
        panic!(
            "the feature `dpdk` needs libdpdk 22.11 or newer: apt-get install libdpdk-dev pkg-config\n{error}"
        )
    });
    // Its headers are full of `-march` and `-include`, which the crate `pkg-config` does not hand over.
    let flags = std::process::Command::new("pkg-config").args(["--cflags", "libdpdk"]).output();
    let flags = flags.expect("pkg-config runs").stdout;
    let mut shim = cc::Build::new();
    shim.file("shim/shim.c")
        .includes(&dpdk.include_paths)
        .flag("-std=gnu11")
        .warnings(true)
        .extra_warnings(false);
    let flags = String::from_utf8(flags).expect("flags are text");
    let mut words = flags.split_whitespace();
    while let Some(word) = words.next() {
        if word == "-include" {
            shim.flag(word).flag(words.next().unwrap_or_default());
        } else if word.starts_with("-m") {
            shim.flag(word);
        }
    }
    shim.compile("barewire_dpdk_shim");
}
