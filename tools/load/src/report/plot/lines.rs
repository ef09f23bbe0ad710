//! Plots of lines and points over two axes.

use super::axis::{Axis, Fit, LaidOutAxis};
use super::frame::{self, Area, DrawError, LegendEntry, NOTE, Swatch, px};
use super::grid::{self, Bottom, BoundLine, Plane, X_TICKS_MAX, Y_TICKS_MAX};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// A series with more points is thinned to this number. Its extremes are kept,
/// and more points than pixels would only make the file large.
const POINTS_MAX: usize = 1_600;
/// The most rows for labels of marks, which move down where they would overlap.
const MARK_ROWS: usize = 4;

/// A plot of lines and points over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// What the plot shows.
    pub title: String,
    /// The axis along the bottom.
    pub x: Axis,
    /// The axis along the left.
    pub y: Axis,
    /// The series, the last one on top.
    pub series: Vec<Series>,
    /// Moments, drawn as vertical lines with labels.
    pub marks: Vec<Mark>,
    /// Bounds, drawn as horizontal lines with labels.
    pub bound_lines: Vec<BoundLine>,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend; none there if it is empty.
    pub name: String,
    /// The points, from left to right. A point that cannot be drawn on the axes
    /// (not a number, or not above zero on a logarithmic axis) is a gap in the
    /// line.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
    /// The index of its colour, so that related series can share one. None
    /// takes the series' own index.
    pub color: Option<usize>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Style {
    /// A line.
    #[default]
    Line,
    /// A dashed line.
    Dashed,
    /// A line with a dot at each point, for a few points.
    Dotted,
    /// Dots only.
    Dots,
    /// Crosses only.
    Crosses,
}

/// A moment, drawn as a vertical line.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its value on the x axis.
    pub x: f64,
    /// What happened, in one to three words.
    pub label: String,
}

impl Series {
    /// A line through these points.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
            style: Style::Line,
            color: None,
        }
    }

    /// Sets the style.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    /// Sets the colour to that of the `index`-th series.
    #[must_use]
    pub fn color(mut self, index: usize) -> Self {
        self.color = Some(index);
        self
    }

    fn swatch(&self) -> Swatch {
        match self.style {
            Style::Line | Style::Dotted => Swatch::Line,
            Style::Dashed => Swatch::Dashes,
            Style::Dots => Swatch::Dot,
            Style::Crosses => Swatch::Cross,
        }
    }
}

impl Lines {
    /// A plot without anything on it yet.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
            marks: Vec::new(),
            bound_lines: Vec::new(),
        }
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a moment.
    #[must_use]
    pub fn mark(mut self, x: f64, label: impl Into<String>) -> Self {
        self.marks.push(Mark {
            x,
            label: label.into(),
        });
        self
    }

    /// Adds a bound.
    #[must_use]
    pub fn bound_line(mut self, y: f64, label: impl Into<String>) -> Self {
        self.bound_lines.push(BoundLine::new(y, label));
        self
    }

    /// The plot as SVG text. Equal plots have equal texts.
    pub fn draw(&self) -> String {
        let legend: Vec<LegendEntry<'_>> = self
            .series
            .iter()
            .enumerate()
            .map(|(index, series)| LegendEntry {
                name: &series.name,
                color: frame::color(series.color.unwrap_or(index)),
                swatch: series.swatch(),
            })
            .collect();
        frame::draw(&self.title, &legend, |area| self.draw_content(area))
    }

    fn draw_content(&self, area: &Area<'_>) -> Result<(), DrawError> {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let xs = points()
            .map(|point| point.0)
            .chain(self.marks.iter().map(|mark| mark.x));
        let ys = points()
            .map(|point| point.1)
            .chain(BoundLine::heights(&self.bound_lines));
        let x = LaidOutAxis::new(&self.x, xs, Fit::Tight, X_TICKS_MAX);
        let y = LaidOutAxis::new(&self.y, ys, Fit::ToTicks, Y_TICKS_MAX);

        let chart = grid::draw(area, (x, &self.y, y), Bottom::Ticks(&self.x))?;
        let plane = chart.plotting_area();
        for (index, series) in self.series.iter().enumerate() {
            self.draw_series(plane, series, frame::color(series.color.unwrap_or(index)))?;
        }
        BoundLine::draw_all(&self.bound_lines, plane, &self.y)?;
        self.draw_marks(plane)
    }

    fn draw_series(
        &self,
        plane: &Plane<'_>,
        series: &Series,
        color: RGBColor,
    ) -> Result<(), DrawError> {
        let line = color.stroke_width(px(2) as u32);
        for run in self.pieces(&series.points) {
            let points = thinned(&run);
            // A line needs two points; a single point is drawn as a dot.
            let single = points.len() == 1;
            match series.style {
                Style::Crosses => draw_crosses(plane, &points, color)?,
                Style::Dots => draw_dots(plane, &points, color)?,
                _ if single => draw_dots(plane, &points, color)?,
                Style::Line => plane.draw(&PathElement::new(points, line))?,
                Style::Dashed => plane.draw(&DashedPathElement::new(points, px(7), px(5), line))?,
                Style::Dotted => {
                    draw_dots(plane, &points, color)?;
                    plane.draw(&PathElement::new(points, line))?;
                }
            }
        }
        Ok(())
    }

    /// The drawable points, split at gaps.
    fn pieces(&self, points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
        let mut pieces = vec![Vec::new()];
        for (x, y) in points {
            match (self.x.drawable(*x), self.y.drawable(*y), pieces.last_mut()) {
                (Some(x), Some(y), Some(run)) => run.push((x, y)),
                _ => pieces.push(Vec::new()),
            }
        }
        pieces.retain(|run| !run.is_empty());
        pieces
    }

    fn draw_marks(&self, plane: &Plane<'_>) -> Result<(), DrawError> {
        let y = plane.as_coord_spec().y_spec();
        let (across, _) = plane.get_pixel_range();
        let texts = plane.strip_coord_spec();
        // The end of the last label in each row.
        let mut ends = [i32::MIN; MARK_ROWS];
        let mut marks: Vec<_> = self
            .marks
            .iter()
            .filter_map(|mark| Some((self.x.drawable(mark.x)?, frame::shortened(&mark.label))))
            .collect();
        marks.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (x, label) in marks {
            let line = [(x, y.high()), (x, y.low())];
            plane.draw(&DashedPathElement::new(
                line,
                px(3),
                px(4),
                grid::note_stroke(),
            ))?;
            let at = plane.map_coordinate(&(x, y.high())).0;
            let width = NOTE.width(&label) + px(8);
            let (start, anchor, aside) = if at + width <= across.end {
                (at, HPos::Left, px(4))
            } else {
                (at - width, HPos::Right, -px(4))
            };
            // If all rows are taken, the mark has no label.
            let Some(row) = ends.iter().position(|end| *end <= start) else {
                continue;
            };
            ends[row] = start + width;
            let point = (at - across.start + aside, px(4) + row as i32 * px(15));
            texts.draw_text(&label, &NOTE.style(anchor, VPos::Top), point)?;
        }
        Ok(())
    }
}

fn draw_dots(plane: &Plane<'_>, points: &[(f64, f64)], color: RGBColor) -> Result<(), DrawError> {
    points
        .iter()
        .try_for_each(|point| plane.draw(&Circle::new(*point, px(4), color.filled())))
}

fn draw_crosses(
    plane: &Plane<'_>,
    points: &[(f64, f64)],
    color: RGBColor,
) -> Result<(), DrawError> {
    let stroke = color.stroke_width(px(25) as u32 / 10);
    points
        .iter()
        .try_for_each(|point| plane.draw(&Cross::new(*point, px(4), stroke)))
}

/// Returns the points, or if there are too many, the lowest and the highest
/// point of each of a number of windows, in order. So a spike remains visible.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let by_height = |one: &usize, other: &usize| points[*one].1.total_cmp(&points[*other].1);
    let window = points.len().div_ceil(POINTS_MAX / 2);
    let mut kept = Vec::with_capacity(POINTS_MAX);
    for start in (0..points.len()).step_by(window) {
        let range = start..points.len().min(start + window);
        let (lowest, highest) = (range.clone().min_by(by_height), range.max_by(by_height));
        let mut extremes: Vec<_> = lowest.into_iter().chain(highest).collect();
        extremes.sort_unstable();
        extremes.dedup();
        kept.extend(extremes.into_iter().map(|index| points[index]));
    }
    kept
}
