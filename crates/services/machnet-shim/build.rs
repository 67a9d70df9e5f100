//! Gives the library the name that programs built for Machnet ask the loader for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmachnet_shim.so.0");
}
