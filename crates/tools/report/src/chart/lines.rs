//! Lines and points over two axes.

use super::axis::{Ruler, Scale};
use super::palette::SERIES_MAX;
use super::svg::{Anchor, FONT, Svg, fitted, text_width};
use super::{Frame, Lines, Origin, Series};

const LEGEND_LINE: f64 = 18.0;
const SWATCH: f64 = 30.0;

/// Colour, marker and dash of a series.
struct Look {
    colour: String,
    fill: String,
    shape: usize,
}

fn looks(series: &[Series]) -> Vec<Look> {
    let (mut measured, mut published) = (0, 0);
    series
        .iter()
        .map(|s| match s.origin {
            Origin::Measured => {
                measured += 1;
                let n = (measured - 1) % SERIES_MAX;
                Look { colour: format!("c{n}"), fill: format!("f{n}"), shape: measured - 1 }
            }
            Origin::Published => {
                published += 1;
                Look { colour: "cp".into(), fill: "hollow".into(), shape: published - 1 }
            }
            Origin::Ideal => Look { colour: "ideal".into(), fill: String::new(), shape: 0 },
        })
        .collect()
}

/// The drawing and its height.
pub(super) fn draw(lines: &Lines, frame: Frame) -> (String, f64) {
    let (parts_x, parts_y, plot_height) = match frame {
        Frame::Wide => (8.0, 6.0, 300.0),
        Frame::Narrow => (4.0, 5.0, 230.0),
    };
    let all = || lines.series.iter().flat_map(|s| &s.points);
    let x = Ruler::new(&lines.x, all().map(|p| p.x), parts_x);
    let y = Ruler::new(&lines.y, all().map(|p| p.y), parts_y);
    let (ticks_x, ticks_y) = (x.ticks(parts_x), y.ticks(parts_y));
    let widest = ticks_y.iter().map(|t| text_width(&t.1)).fold(0.0, f64::max);
    let left = widest + 30.0;
    let right = frame.width() - 22.0;
    let (top, bottom) = (12.0, 12.0 + plot_height);
    let place = |px: f64, py: f64| (left + x.at(px) * (right - left), bottom - y.at(py) * (bottom - top));
    let mut svg = Svg::default();

    for (value, label) in &ticks_y {
        let at = place(f64::NAN, *value).1;
        svg.line("gr", [left, at, right, at]);
        svg.text(left - 6.0, at + 4.0, Anchor::End, "", label);
    }
    let mut free_from = f64::NEG_INFINITY;
    for (value, label) in &ticks_x {
        let at = place(*value, f64::NAN).0;
        svg.line("gr", [at, top, at, bottom]);
        let half = text_width(label) / 2.0;
        // A label that does not fit beside the one before it, or on the drawing, is left out; its line stays.
        if at - half > free_from && at + half <= frame.width() {
            svg.text(at, bottom + 17.0, Anchor::Middle, "", label);
            free_from = at + half + 6.0;
        }
    }
    svg.line("ax", [left, bottom, right, bottom]);
    svg.line("ax", [left, top, left, bottom]);
    let title_x = fitted(&lines.x.title, right - left + 20.0);
    svg.text((left + right) / 2.0, bottom + 36.0, Anchor::Middle, "", &title_x);
    svg.turned(13.0, (top + bottom) / 2.0, &fitted(&lines.y.title, plot_height + 10.0));

    let looks = looks(&lines.series);
    for (series, look) in lines.series.iter().zip(&looks) {
        line(&mut svg, series, look, &x, &y, &place);
    }
    for (series, look) in lines.series.iter().zip(&looks).filter(|(s, _)| s.origin != Origin::Ideal) {
        for point in series.points.iter().filter(|p| x.holds(p.x) && y.holds(p.y)) {
            let Some(label) = &point.label else { continue };
            let mut tip = format!("{}, {label}: {}", series.name, lines.shown_y(point));
            // A label such as `p99` says the place itself.
            if lines.x.scale != Scale::Tail {
                tip.push_str(&format!(" at {}", lines.shown_x(point)));
            }
            let class =
                format!("{} {}", look.colour, if point.thin || point.hollow { "hollow" } else { &look.fill });
            svg.marker(look.shape, &class, place(point.x, point.y), &tip);
        }
    }
    let end = legend(&mut svg, &lines.series, &looks, frame, bottom + 58.0);
    (svg.out, end.ceil())
}

fn line(
    svg: &mut Svg,
    series: &Series,
    look: &Look,
    x: &Ruler,
    y: &Ruler,
    place: &dyn Fn(f64, f64) -> (f64, f64),
) {
    let class = match series.origin {
        Origin::Measured => format!("ln {}", look.colour),
        Origin::Published => "ln publn cp".to_owned(),
        Origin::Ideal => "ideal".to_owned(),
    };
    let mut run: Vec<(f64, f64)> = Vec::new();
    let mut run_thin = false;
    let mut flush = |run: &mut Vec<(f64, f64)>, thin: bool| {
        if run.len() > 1 {
            svg.polyline(&if thin { format!("{class} thin") } else { class.clone() }, run);
        }
    };
    for point in series.points.iter().filter(|p| x.holds(p.x) && y.holds(p.y)) {
        let at = place(point.x, point.y);
        if point.thin != run_thin && !run.is_empty() {
            let last = run[run.len() - 1];
            flush(&mut run, run_thin);
            run = vec![last];
        }
        run_thin = point.thin;
        run.push(at);
    }
    flush(&mut run, run_thin);
}

/// Names below the plot, in as many lines as they take. Returns where they end.
fn legend(svg: &mut Svg, series: &[Series], looks: &[Look], frame: Frame, top: f64) -> f64 {
    let (mut at, mut y) = (8.0, top);
    let room = frame.width() - 16.0;
    for (s, look) in series.iter().zip(looks) {
        let name = fitted(&s.name, room - SWATCH - 6.0);
        let width = SWATCH + 6.0 + text_width(&name) + 14.0;
        if at > 8.0 && at + width > room + 8.0 {
            (at, y) = (8.0, y + LEGEND_LINE);
        }
        let middle = y - FONT / 3.0;
        let class = match s.origin {
            Origin::Measured => format!("ln {}", look.colour),
            Origin::Published => "ln publn cp".to_owned(),
            Origin::Ideal => "ideal".to_owned(),
        };
        svg.polyline(&class, &[(at, middle), (at + SWATCH, middle)]);
        if s.origin != Origin::Ideal {
            let class = format!("{} {}", look.colour, look.fill);
            svg.marker(look.shape, &class, (at + SWATCH / 2.0, middle), &s.name);
        }
        svg.text(at + SWATCH + 6.0, y, Anchor::Start, "", &name);
        at += width;
    }
    y + 10.0
}
