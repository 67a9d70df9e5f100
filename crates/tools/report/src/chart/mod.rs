//! Charts as SVG, drawn without a browser: the same drawing stands in the page and in a file of its own.
//!
//! A chart never says by colour alone what it says: series have markers and dashes of their own, published ones are grey, dashed and
//! hollow, and behind every chart lies its table ([`Chart::table`]). A drawing has a width in pixels and no scaling text: the page holds
//! a wide and a narrow one and shows the one that fits.

mod axis;
mod bars;
mod lines;
mod palette;
mod svg;

pub use axis::{Axis, Scale};
pub use palette::STYLE;
pub use svg::escape;

pub(crate) use palette::{SERIES_MAX, variables};

use crate::compare::{Interval, Verdict};
use crate::figure::{Unit, quantity};

/// A picture of figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Unique in its report; letters, digits and dashes.
    pub id: String,
    /// Title.
    pub title: String,
    /// How to read it, in a sentence.
    pub reading: String,
    /// What is drawn.
    pub kind: Kind,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Lines and points over two axes.
    Lines(Lines),
    /// Where the time of one operation goes.
    Waterfall(Waterfall),
    /// Ratios with intervals around one.
    Forest(Forest),
}

/// Lines and points over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The series, at most `SERIES_MAX` coloured ones; more share colours and differ by marker.
    pub series: Vec<Series>,
}

/// Who a series is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Measured here.
    Measured,
    /// Printed by others: grey, dashed, hollow.
    Published,
    /// What would be if nothing got in the way: thin, dotted, without markers.
    Ideal,
}

/// A line with points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name.
    pub name: String,
    /// Who it is of.
    pub origin: Origin,
    /// Points, from left to right.
    pub points: Vec<Point>,
}

/// A point of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// What it is, such as `p99` or `window 32`: it gets a marker and stands in the table. `None`: the line only passes.
    pub label: Option<String>,
    /// Too few samples lie behind it: the line to it is dotted.
    pub thin: bool,
    /// More was asked for than was carried: its marker is hollow.
    pub hollow: bool,
    /// `x` as a published text prints it: shown in its place.
    pub x_text: Option<&'static str>,
    /// `y` as a published text prints it.
    pub y_text: Option<&'static str>,
}

impl Lines {
    /// A point's place to the right, for people.
    fn shown_x(&self, point: &Point) -> String {
        match (point.x_text, self.x.scale) {
            (Some(text), _) => text.to_owned(),
            (None, Scale::Tail) => axis::percent(point.x),
            (None, _) => quantity(point.x, self.x.unit),
        }
    }

    /// A point's height, for people.
    fn shown_y(&self, point: &Point) -> String {
        point.y_text.map_or_else(|| quantity(point.y, self.y.unit), str::to_owned)
    }
}

/// Where the time of one operation goes, one bar for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Waterfall {
    /// Bars.
    pub bars: Vec<Bar>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Whose.
    pub name: String,
    /// Its stages in order: between which points (`t3..t4`), how long in ns.
    pub stages: Vec<(String, f64)>,
}

/// Ratios with intervals around one.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    /// Rows.
    pub rows: Vec<ForestRow>,
    /// What the ratio is, below its axis.
    pub axis: String,
}

/// One ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    /// Of what.
    pub name: String,
    /// The ratio.
    pub interval: Interval,
    /// What came of it.
    pub verdict: Verdict,
}

/// How wide a drawing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// For a desk: 760 pixels.
    Wide,
    /// For a phone held upright: 350 pixels.
    Narrow,
}

impl Frame {
    /// Width in pixels.
    pub fn width(self) -> f64 {
        match self {
            Frame::Wide => 760.0,
            Frame::Narrow => 350.0,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Frame::Wide => "wide",
            Frame::Narrow => "narrow",
        }
    }
}

/// Figures as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataTable {
    /// Headings.
    pub head: Vec<String>,
    /// Rows, as many cells as headings.
    pub rows: Vec<Vec<String>>,
}

impl Chart {
    /// Nothing to draw.
    pub fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Lines(lines) => lines.series.iter().all(|s| s.points.is_empty()),
            Kind::Waterfall(w) => w.bars.is_empty(),
            Kind::Forest(f) => f.rows.is_empty(),
        }
    }

    /// The drawing for a page that has [`STYLE`]: its points can be walked through by keys, so it is a group of them, not one image.
    pub fn svg(&self, frame: Frame) -> String {
        self.draw(frame, "role=\"group\" aria-roledescription=\"chart\"", "")
    }

    /// The drawing as a file of its own, light or dark as its reader's system is.
    pub fn standalone(&self) -> String {
        let style = format!("<style>{}{}</style>", palette::STANDALONE, STYLE);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n",
            self.draw(Frame::Wide, "role=\"img\"", &style)
        )
    }

    fn draw(&self, frame: Frame, role: &str, style: &str) -> String {
        let (body, height) = match &self.kind {
            Kind::Lines(lines) => lines::draw(lines, frame),
            Kind::Waterfall(waterfall) => bars::waterfall(waterfall, frame),
            Kind::Forest(forest) => bars::forest(forest, frame),
        };
        let (id, width) = (format!("{}-{}", self.id, frame.word()), frame.width());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart {word}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" {role} aria-labelledby=\"{id}-t {id}-d\">{style}<title id=\"{id}-t\">{title}</title>\
             <desc id=\"{id}-d\">{reading}</desc>{body}</svg>",
            word = frame.word(),
            title = escape(&self.title),
            reading = escape(&self.reading),
        )
    }

    /// Its figures.
    pub fn table(&self) -> DataTable {
        let words = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect();
        match &self.kind {
            Kind::Lines(lines) => DataTable {
                head: vec!["series".into(), "point".into(), lines.x.title.clone(), lines.y.title.clone()],
                rows: lines
                    .series
                    .iter()
                    .filter(|s| s.origin != Origin::Ideal)
                    .flat_map(|s| {
                        s.points.iter().filter_map(|p| {
                            let label = p.label.clone()?;
                            Some(vec![s.name.clone(), label, lines.shown_x(p), lines.shown_y(p)])
                        })
                    })
                    .collect(),
            },
            Kind::Waterfall(waterfall) => DataTable {
                head: words(&["operation", "stage", "time"]),
                rows: waterfall
                    .bars
                    .iter()
                    .flat_map(|bar| {
                        bar.stages
                            .iter()
                            .map(|(stage, ns)| vec![bar.name.clone(), stage.clone(), quantity(*ns, Unit::Ns)])
                    })
                    .collect(),
            },
            Kind::Forest(forest) => DataTable {
                head: words(&["figure", "B over A", "from", "to", "verdict"]),
                rows: forest
                    .rows
                    .iter()
                    .map(|row| {
                        let r = |value| quantity(value, Unit::Ratio);
                        vec![
                            row.name.clone(),
                            r(row.interval.ratio),
                            r(row.interval.low),
                            r(row.interval.high),
                            row.verdict.as_str().to_owned(),
                        ]
                    })
                    .collect(),
            },
        }
    }
}
