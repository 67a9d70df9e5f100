//! Views and encoders of every template of MDP 3.0, generated from `layout/*.layout` when this crate is built.
//!
//! Groups of one layout are one type: where a template's module re-exports another's entry, code for one is code for both.

#![allow(clippy::all)]

use barewire_sbe_gen::layout::Schema;
use std::sync::LazyLock;

include!(concat!(env!("OUT_DIR"), "/mdp3.rs"));

/// The files of the description: (name, text).
pub const LAYOUT: &[(&str, &str)] = &[
    ("types.layout", include_str!("../layout/types.layout")),
    ("market_data.layout", include_str!("../layout/market_data.layout")),
    ("definitions.layout", include_str!("../layout/definitions.layout")),
    ("legacy.layout", include_str!("../layout/legacy.layout")),
];

/// The description of MDP 3.0: version 13 whole, and what versions 5 to 9 had.
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        // The build script has read the same files: they cannot be wrong here.
        Schema::from_layout(LAYOUT).unwrap_or_default()
    });
    &SCHEMA
}
