//! Views and encoders from `layout/*.layout`, and of the schema that the tests have, in both byte orders.

use barewire_sbe_gen::Generator;
use barewire_sbe_gen::layout::Schema;
use std::error::Error;

const FILES: [&str; 4] = ["types.layout", "market_data.layout", "definitions.layout", "legacy.layout"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=layout");
    println!("cargo:rerun-if-changed=build.rs");
    let texts: Vec<String> = FILES
        .iter()
        .map(|name| std::fs::read_to_string(format!("layout/{name}")))
        .collect::<Result<_, _>>()?;
    let sources: Vec<(&str, &str)> = FILES.into_iter().zip(texts.iter().map(String::as_str)).collect();
    let schema = Schema::from_layout(&sources)?;
    Generator::new().runtime("crate").size_prefix().write(&schema, "mdp3.rs")?;

    println!("cargo:rerun-if-changed=tests/venue.xml");
    let venue = std::fs::read_to_string("tests/venue.xml")?;
    Generator::new().write(&Schema::from_xml(&venue)?, "venue_big.rs")?;
    let venue = venue.replace("bigEndian", "littleEndian");
    Ok(Generator::new().write(&Schema::from_xml(&venue)?, "venue_little.rs")?)
}
