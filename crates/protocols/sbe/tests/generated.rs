//! What is checked in under `src/mdp3` is what the generator writes from the layout description.

#[path = "../examples/generate/render.rs"]
mod render;

use barewire_sbe::layout::Schema;
use barewire_testing::{Needs, skip};
use std::path::Path;

#[test]
fn generated_files_are_up_to_date() {
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mdp3");
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mdp3");
    let names = match render::write(Schema::builtin(), &fresh) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return skip(Needs::Tools, format!("there is no rustfmt: {error}"));
        }
        Err(error) => panic!("{error}"),
    };
    for name in &names {
        let read = |folder: &Path| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            read(&fresh) == read(&checked_in),
            "src/mdp3/{name} is not what the layout says: `cargo run -p barewire-sbe --example generate`"
        );
    }
    assert_eq!(
        std::fs::read_dir(checked_in).unwrap().count(),
        names.len(),
        "files that the generator does not write"
    );
}
