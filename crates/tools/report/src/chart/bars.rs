//! Waterfalls and forests: rows with their names above them, so that a phone has room for both.

use super::axis::{Axis, Ruler, Scale};
use super::svg::{Anchor, Svg, fitted, text_width};
use super::{Forest, Frame, Waterfall};
use crate::compare::Verdict;
use crate::figure::{Unit, quantity};

const ROW: f64 = 42.0;
const BAR: f64 = 18.0;

/// Draws the ticks of a ruler below `bottom`.
fn ruled(svg: &mut Svg, ruler: &Ruler, parts: f64, [left, right, top, bottom]: [f64; 4], title: &str) {
    let mut free_from = f64::NEG_INFINITY;
    for (value, label) in ruler.ticks(parts) {
        let at = left + ruler.at(value) * (right - left);
        svg.line("gr", [at, top, at, bottom]);
        let half = text_width(&label) / 2.0;
        if at - half > free_from {
            svg.text(at, bottom + 17.0, Anchor::Middle, "", &label);
            free_from = at + half + 6.0;
        }
    }
    svg.line("ax", [left, bottom, right, bottom]);
    svg.text((left + right) / 2.0, bottom + 36.0, Anchor::Middle, "", title);
}

/// Where the time of each operation goes.
pub(super) fn waterfall(waterfall: &Waterfall, frame: Frame) -> (String, f64) {
    let total = |stages: &[(String, f64)]| stages.iter().map(|s| s.1.max(0.0)).sum::<f64>();
    let axis = Axis { title: String::new(), unit: Unit::Ns, scale: Scale::Linear };
    let parts = if frame == Frame::Wide { 7.0 } else { 4.0 };
    let ruler = Ruler::new(&axis, waterfall.bars.iter().map(|b| total(&b.stages)), parts);
    let (left, right, top) = (16.0, frame.width() - 24.0, 6.0);
    let bottom = top + ROW * waterfall.bars.len().max(1) as f64 + 6.0;
    let mut svg = Svg::default();
    ruled(&mut svg, &ruler, parts, [left, right, top, bottom], "time since the first point");

    let mut stages: Vec<&str> = Vec::new();
    for (stage, _) in waterfall.bars.iter().flat_map(|b| &b.stages) {
        if !stages.contains(&stage.as_str()) {
            stages.push(stage);
        }
    }
    // Points of time by their numbers; steps with names stay in their order.
    if stages.iter().all(|s| s.starts_with('t') && s.contains("..")) {
        stages.sort_unstable();
    }
    for (index, bar) in waterfall.bars.iter().enumerate() {
        let y = top + ROW * index as f64;
        let sum = quantity(total(&bar.stages), Unit::Ns);
        let name = fitted(&bar.name, right - left - text_width(&sum) - 16.0);
        svg.text(left + 4.0, y + 14.0, Anchor::Start, "", &name);
        svg.text(right, y + 14.0, Anchor::End, "", &sum);
        let mut from = 0.0;
        for (stage, ns) in &bar.stages {
            let to = from + ns.max(0.0);
            let x = left + ruler.at(from) * (right - left);
            // A stage is never so short that it cannot be seen.
            let width = (left + ruler.at(to) * (right - left) - x).max(1.5);
            let colour = stages.iter().position(|s| s == stage).unwrap_or(0) % super::SERIES_MAX;
            let shown = quantity(*ns, Unit::Ns);
            svg.rect(
                &format!("f{colour}"),
                [x, y + 19.0, width, BAR],
                &format!("{}, {stage}: {shown}", bar.name),
            );
            let label = format!("{stage} {shown}");
            let label = if text_width(&label) + 8.0 <= width { label } else { stage.clone() };
            if text_width(&label) + 8.0 <= width {
                svg.text(x + width / 2.0, y + 32.0, Anchor::Middle, "inbar", &label);
            }
            from = to;
        }
    }
    let (mut at, mut y) = (8.0, bottom + 58.0);
    for (colour, stage) in stages.iter().enumerate() {
        let text = fitted(&format!("{stage}{}", meaning(stage)), frame.width() - 44.0);
        let width = 36.0 + text_width(&text);
        if at > 8.0 && at + width > frame.width() {
            (at, y) = (8.0, y + 18.0);
        }
        svg.rect(&format!("f{}", colour % super::SERIES_MAX), [at, y - 10.0, 14.0, 12.0], stage);
        svg.text(at + 20.0, y, Anchor::Start, "", &text);
        at += width;
    }
    (svg.out, (y + 10.0).ceil())
}

/// The points in words.
fn meaning(stage: &str) -> &'static str {
    match stage {
        "t0..t1" => ": from the intended send to the call",
        "t1..t2" => ": from the call to the wire",
        "t2..t3" => ": on the wire",
        "t3..t4" => ": from the frame's stamp to the engine",
        "t4..t5" => ": from the engine to the callback",
        "t1..t5" => ": from the call to the callback",
        "create" => ": queues made, until the REQ was sent",
        "req_to_rep" => ": until the REP was handled",
        "rtu" => ": until the RTU had left",
        "first_byte" => ": until a byte was in the server's memory, and acknowledged",
        "disconnect" => ": until the DREP was handled",
        "destroy" => ": queues destroyed",
        "t3..t5" => ": from the frame's stamp to the callback",
        _ => "",
    }
}

/// Ratios with intervals around one.
pub(super) fn forest(forest: &Forest, frame: Frame) -> (String, f64) {
    let values = forest.rows.iter().flat_map(|r| [r.interval.low, r.interval.ratio, r.interval.high]);
    let ruler = Ruler::around_one(values);
    let (left, right, top) = (20.0, frame.width() - 20.0, 6.0);
    let bottom = top + ROW * forest.rows.len().max(1) as f64 + 6.0;
    let place = |ratio: f64| left + ruler.at(ratio) * (right - left);
    let mut svg = Svg::default();
    ruled(&mut svg, &ruler, 6.0, [left, right, top, bottom], &forest.axis);
    svg.line("one", [place(1.0), top, place(1.0), bottom]);
    for (index, row) in forest.rows.iter().enumerate() {
        let y = top + ROW * index as f64;
        let i = row.interval;
        // A word says what the colour says.
        let said = format!("{} {}", row.verdict.as_str(), quantity(i.ratio, Unit::Ratio));
        let name = fitted(&row.name, right - left - text_width(&said) - 16.0);
        svg.text(left, y + 14.0, Anchor::Start, "over", &name);
        svg.text(right, y + 14.0, Anchor::End, "over", &said);
        let (class, fill, shape) = match row.verdict {
            Verdict::Slower => ("c1", "f1", 4),
            Verdict::Faster => ("c0", "f0", 2),
            Verdict::WithinNoise => ("cp", "fp", 0),
            Verdict::Unknown => ("cp", "hollow", 3),
        };
        let middle = y + 28.0;
        svg.line(&format!("ln {class}"), [place(i.low), middle, place(i.high), middle]);
        for end in [i.low, i.high] {
            svg.line(&format!("ln {class}"), [place(end), middle - 5.0, place(end), middle + 5.0]);
        }
        let tip = format!(
            "{}: {} ({} to {}), {}",
            row.name,
            quantity(i.ratio, Unit::Ratio),
            quantity(i.low, Unit::Ratio),
            quantity(i.high, Unit::Ratio),
            row.verdict.as_str()
        );
        svg.marker(shape, &format!("{class} {fill}"), (place(i.ratio), middle), &tip);
    }
    (svg.out, (bottom + 48.0).ceil())
}
