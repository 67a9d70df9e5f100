//! Pieces of SVG. All text goes through [`escape`].

use std::fmt::Write as _;

/// Size of a drawing's text in pixels.
pub(super) const FONT: f64 = 12.0;

/// `text` as XML and HTML hold it, in elements and in quoted attributes. Controls, and characters that turn the direction of what
/// follows, become visible.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}')
            }
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// About how wide `text` is, in pixels; rather more than less.
pub(super) fn text_width(text: &str) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.32,
            ' ' | 't' | 'f' | 'r' | '(' | ')' | '-' | '/' => 0.4,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
            c if c.is_ascii_uppercase() => 0.72,
            c if c.is_ascii() => 0.6,
            _ => 1.05,
        })
        .sum();
    em * FONT
}

/// `text` cut to `width` pixels, with an ellipsis where it was.
pub(super) fn fitted(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        cut.push(c);
        if text_width(&cut) + FONT > width {
            cut.pop();
            break;
        }
    }
    format!("{}\u{2026}", cut.trim_end())
}

/// Which end of a text its place is.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing in the making.
#[derive(Default)]
pub(super) struct Svg {
    pub(super) out: String,
}

impl Svg {
    pub(super) fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let _ = write!(
            self.out,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = write!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{class}>{}</text>",
            escape(text)
        );
    }

    pub(super) fn turned(&mut self, x: f64, y: f64, text: &str) {
        let _ = write!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {y:.1})\">{}</text>",
            escape(text)
        );
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(self.out, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    pub(super) fn rect(&mut self, class: &str, [x, y, w, h]: [f64; 4], tip: &str) {
        let _ = write!(
            self.out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\"><title>{}</title></rect>",
            escape(tip)
        );
    }

    /// A marker: its shape, as its colour, is that of the series. `tip` is told on hovering and to the keyboard.
    pub(super) fn marker(&mut self, shape: usize, class: &str, (x, y): (f64, f64), tip: &str) {
        const R: f64 = 4.2;
        let d = match shape % 6 {
            0 => format!("M{:.1} {y:.1}a{R} {R} 0 1 0 {} 0a{R} {R} 0 1 0 -{} 0z", x - R, 2.0 * R, 2.0 * R),
            1 => format!("M{:.1} {:.1}h7.6v7.6h-7.6z", x - 3.8, y - 3.8),
            2 => format!("M{x:.1} {:.1}l4.9 8.4h-9.8z", y - 5.2),
            3 => format!("M{x:.1} {:.1}l5.2 5.2l-5.2 5.2l-5.2 -5.2z", y - 5.2),
            4 => format!("M{x:.1} {:.1}l4.9 -8.4h-9.8z", y + 5.2),
            _ => format!("M{:.1} {:.1}h3v3.2h3.2v3h-3.2v3.2h-3v-3.2h-3.2v-3h3.2z", x - 1.5, y - 4.7),
        };
        let _ =
            write!(self.out, "<path class=\"mk {class}\" d=\"{d}\"><title>{}</title></path>", escape(tip));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        assert_eq!(escape("<script>'\"&"), "&lt;script&gt;&#39;&quot;&amp;");
        assert_eq!(escape("a\u{0}b\u{202e}c\nd"), "a\u{fffd}b\u{fffd}c d");
    }

    #[test]
    fn long_text_is_cut_to_fit() {
        assert_eq!(fitted("short", 100.0), "short");
        let cut = fitted(&"barewire embedded over xdp ".repeat(9), 150.0);
        assert!(cut.ends_with('\u{2026}') && text_width(&cut) <= 165.0, "{cut}");
        assert_eq!(fitted("abc", 0.0), "\u{2026}");
    }
}
