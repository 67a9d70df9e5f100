//! Colours, for light and dark ground. Hues are apart for the common kinds of colour blindness, and every colour stands at least 3 : 1
//! against its ground (a test computes it).

/// Colours of series that are told apart.
pub(crate) const SERIES_MAX: usize = 6;

/// Light ground, its text, grid, the grey of published series, then the series.
pub(super) const LIGHT: [&str; 10] = [
    "#ffffff", "#1b1f24", "#dfe3e8", "#606974", "#0067a6", "#c4500a", "#00805c", "#a8478a", "#8a6a00",
    "#2f2f8f",
];
/// The same on dark ground.
pub(super) const DARK: [&str; 10] = [
    "#14181d", "#e6eaef", "#323a44", "#98a2ae", "#5cb8f0", "#f08a4b", "#3fcf9f", "#e39bcb", "#e0c040",
    "#b3a8ff",
];

/// Light and dark panels of a page, on which text stands, too.
const PANELS: [&str; 2] = ["#f5f7f9", "#1d232a"];

/// What a drawing in a page needs. The page sets the variables `--bg`, `--fg`, `--grid`, `--pub` and `--s0` to `--s5`.
pub const STYLE: &str = "\
.chart{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans','DejaVu Sans',sans-serif}\
.chart text{fill:var(--fg);paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round}.chart .ax{stroke:var(--fg);stroke-width:1}.chart .gr{stroke:var(--grid);stroke-width:1}\
.chart .one{stroke:var(--fg);stroke-width:1;stroke-dasharray:4 3}\
.chart .ln{fill:none;stroke-width:2;stroke-linejoin:round}.chart .thin{stroke-dasharray:1.5 4;stroke-linecap:round}\
.chart .publn{stroke-dasharray:6 4;stroke-width:1.5}.chart .ideal{stroke:var(--pub);stroke-width:1.2;stroke-dasharray:1.5 3;fill:none}\
.chart .mk{stroke-width:1.5}.chart .hollow{fill:var(--bg)}.chart .inbar{fill:var(--bg);stroke:none;font-weight:600}\
.chart .c0{stroke:var(--s0)}.chart .c1{stroke:var(--s1)}.chart .c2{stroke:var(--s2)}.chart .c3{stroke:var(--s3)}\
.chart .c4{stroke:var(--s4)}.chart .c5{stroke:var(--s5)}.chart .cp{stroke:var(--pub)}\
.chart .f0{fill:var(--s0)}.chart .f1{fill:var(--s1)}.chart .f2{fill:var(--s2)}.chart .f3{fill:var(--s3)}\
.chart .f4{fill:var(--s4)}.chart .f5{fill:var(--s5)}.chart .fp{fill:var(--pub)}\
.chart .over{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}";

/// What a drawing in a file of its own needs besides.
pub(super) const STANDALONE: &str = "\
svg{--bg:#ffffff;--fg:#1b1f24;--grid:#dfe3e8;--pub:#606974;--s0:#0067a6;--s1:#c4500a;--s2:#00805c;--s3:#a8478a;--s4:#8a6a00;--s5:#2f2f8f;\
background:var(--bg)}\
@media(prefers-color-scheme:dark){svg{--bg:#14181d;--fg:#e6eaef;--grid:#323a44;--pub:#98a2ae;--s0:#5cb8f0;--s1:#f08a4b;--s2:#3fcf9f;\
--s3:#e39bcb;--s4:#e0c040;--s5:#b3a8ff}}";

/// The variables of a ground, as a page's style sets them.
pub(crate) fn variables(dark: bool) -> String {
    const NAMES: [&str; 10] = ["bg", "fg", "grid", "pub", "s0", "s1", "s2", "s3", "s4", "s5"];
    let colours = if dark { &DARK } else { &LIGHT };
    let all = NAMES.iter().zip(colours).chain(std::iter::once((&"panel", &PANELS[usize::from(dark)])));
    all.map(|(name, colour)| format!("--{name}:{colour};")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of sRGB (WCAG 2.2).
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let c = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_colour_stands_out() {
        assert!((contrast("#ffffff", "#000000") - 21.0).abs() < 1e-9);
        for (ground, panel) in [(LIGHT, PANELS[0]), (DARK, PANELS[1])] {
            assert!(contrast(ground[0], ground[1]) > 12.0);
            // Text on bars is of the ground's colour, so the series need what text needs.
            for colour in &ground[3..] {
                let c = contrast(ground[0], colour);
                assert!(c >= 4.5, "{colour} on {}: {c:.2}", ground[0]);
            }
            // Text, and grey text, of cards and of headings of groups.
            for colour in [ground[1], ground[3]] {
                let c = contrast(panel, colour);
                assert!(c >= 4.5, "{colour} on {panel}: {c:.2}");
            }
        }
    }

    #[test]
    fn the_file_of_its_own_has_the_same_colours() {
        for colour in LIGHT.iter().chain(&DARK) {
            assert!(STANDALONE.contains(colour), "{colour}");
        }
        assert!(variables(true).starts_with("--bg:#14181d;--fg:"));
        assert!(
            variables(true).ends_with("--panel:#1d232a;") && variables(false).ends_with("--panel:#f5f7f9;")
        );
    }
}
