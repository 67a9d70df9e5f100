//! Writes `src/mdp3` anew from the layout description: `cargo run -p barewire-sbe --example generate`. A test holds what
//! is checked in against what this would write.

mod render;

use barewire_sbe::layout::Schema;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mdp3");
    let names = render::write(Schema::builtin(), &folder)?;
    println!("{} files in {}", names.len(), folder.display());
    Ok(())
}
