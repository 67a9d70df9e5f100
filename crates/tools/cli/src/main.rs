//! The `barewire` binary. The verbs are in `barewire-commands`: that is built for size, and what the program's own package says of its
//! level holds for the whole program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    barewire_commands::main()
}
