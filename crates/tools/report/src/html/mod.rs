//! The page: one HTML file that needs nothing else, works offline and without JavaScript, light and dark, on a desk and on a phone.
//!
//! The browser is told to load nothing and to run only the script and style that the page names by hash, so even text that slipped
//! through [`escape`] could do nothing. JavaScript adds the switch between light and dark, and the arrow keys in charts.

mod parts;

use crate::chart::escape;
use crate::report::Report;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

const SCRIPT: &str = include_str!("page.js");

/// The page's style: what surrounds charts, then charts, with the colours of both grounds.
fn style() -> String {
    let (light, dark) = (crate::chart::variables(false), crate::chart::variables(true));
    format!(
        ":root{{color-scheme:light;{light}{LIGHT_MORE}}}\
         @media(prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}{DARK_MORE}}}}}\
         :root[data-theme=light]{{color-scheme:light;{light}{LIGHT_MORE}}}\
         :root[data-theme=dark]{{color-scheme:dark;{dark}{DARK_MORE}}}{}{}",
        include_str!("page.css"),
        crate::chart::STYLE
    )
}

/// Colours beside those of charts: the three kinds of badges, and links.
const LIGHT_MORE: &str = "--bad:#a8071a;--warn:#8a4b00;--note:#3d5a80;--link:#0058a0;";
const DARK_MORE: &str = "--bad:#ff8f8f;--warn:#f0b060;--note:#9fc2ea;--link:#7cc0ff;";

fn hash(text: &str) -> String {
    format!("'sha256-{}'", BASE64.encode(Sha256::digest(text.as_bytes())))
}

/// The report as one HTML document.
pub fn page(report: &Report) -> String {
    let style = style();
    let mut out = String::with_capacity(1 << 18);
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(&style)
    );
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n",
        escape(&policy).replace("&#39;", "'"),
        escape(&report.title)
    );
    parts::body(&mut out, report);
    let _ = write!(out, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    out
}
