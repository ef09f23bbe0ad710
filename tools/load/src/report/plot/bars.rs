//! Bar plots with groups of bars.

use super::axis::{Axis, Fit, LaidOutAxis, Scale};
use super::frame::{self, Area, DrawError, LegendEntry, NAME, NOTE, Swatch, px};
use super::grid::{self, Bottom, BoundLine, Plane, Y_TICKS_MAX};
use crate::report::units::Unit;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// The share of a group's width that its bars take.
const GROUP_SHARE: f64 = 0.76;
/// The greatest width of a bar.
const BAR_WIDTH_MAX: i32 = px(72);
/// The most rows of a group's name.
const NAME_ROWS_MAX: usize = 3;
const ROW: i32 = px(16);

/// A bar plot with groups of bars. With one series the bars are plain.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What the plot shows.
    pub title: String,
    /// The names under the groups, from left to right.
    pub groups: Vec<String>,
    /// The axis along the left.
    pub y: Axis,
    /// The series; each has one bar in each group.
    pub series: Vec<BarSeries>,
    /// Bounds, drawn as horizontal lines with labels.
    pub bound_lines: Vec<BoundLine>,
}

/// The bars of one colour, one per group.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSeries {
    /// Its name in the legend; none there if it is empty.
    pub name: String,
    /// The heights of the bars. A value that cannot be drawn on the axis (not a
    /// number, or not above zero on a logarithmic axis) has no bar.
    pub values: Vec<f64>,
}

impl Bars {
    /// A plot without bars yet.
    pub fn new(
        title: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
        y: Axis,
    ) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self {
            title: title.into(),
            groups,
            y,
            series: Vec::new(),
            bound_lines: Vec::new(),
        }
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.series.push(BarSeries {
            name: name.into(),
            values: values.into_iter().collect(),
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
                color: frame::color(index),
                swatch: Swatch::Block,
            })
            .collect();
        frame::draw(&self.title, &legend, |area| self.draw_content(area))
    }

    fn draw_content(&self, area: &Area<'_>) -> Result<(), DrawError> {
        let values = self
            .series
            .iter()
            .flat_map(|series| series.values.iter().copied());
        let y = LaidOutAxis::new(
            &self.y,
            values.chain(BoundLine::heights(&self.bound_lines)),
            Fit::ToTicks,
            Y_TICKS_MAX,
        );
        // Each group takes one unit of an invisible axis.
        let groups = Axis::linear("", Unit::Count);
        let x = LaidOutAxis::new(&groups, [self.groups.len().max(1) as f64], Fit::Tight, 1);

        let width = frame::WIDTH / self.groups.len().max(1) as i32 - px(8);
        let names: Vec<_> = self
            .groups
            .iter()
            .map(|name| wrapped(name, width))
            .collect();
        let rows = names.iter().map(Vec::len).max().unwrap_or_default().max(1) as i32;
        let chart = grid::draw(area, (x, &self.y, y), Bottom::Room(rows * ROW + px(14)))?;
        let plane = chart.plotting_area();
        for (group, name) in names.iter().enumerate() {
            self.draw_group(plane, group)?;
            draw_name(plane, group, name)?;
        }
        BoundLine::draw_all(&self.bound_lines, plane, &self.y)
    }

    fn draw_group(&self, plane: &Plane<'_>, group: usize) -> Result<(), DrawError> {
        let y = plane.as_coord_spec().y_spec();
        let floor = if self.y.scale == Scale::Logarithmic {
            y.low()
        } else {
            0.0
        };
        let at = |x: f64, y: f64| plane.map_coordinate(&(x, y));
        let (left, ground) = at(group as f64, floor);
        let (right, _) = at(group as f64 + 1.0, floor);
        let count = self.series.len().max(1) as i32;
        let bar = (((right - left) as f64 * GROUP_SHARE) as i32 / count).min(BAR_WIDTH_MAX);
        let first = (left + right - bar * count) / 2;
        let (base_x, base_y) = plane.get_base_pixel();
        let screen = plane.strip_coord_spec();
        for (index, series) in self.series.iter().enumerate() {
            let value = series
                .values
                .get(group)
                .and_then(|value| self.y.drawable(*value));
            let Some(value) = value else { continue };
            let x = first + bar * index as i32 - base_x;
            let top = at(group as f64, value).1 - base_y;
            let ground = ground - base_y;
            let gap = (bar / 12).min(px(2));
            let corners = [(x + gap, top.min(ground)), (x + bar - gap, top.max(ground))];
            screen.draw(&Rectangle::new(corners, frame::color(index).filled()))?;
            let text = self.y.unit.figure(value);
            if NOTE.width(&text) <= bar + px(14) / count {
                let style = NOTE.style(HPos::Center, VPos::Bottom);
                screen.draw_text(&text, &style, (x + bar / 2, top.min(ground) - px(2)))?;
            }
        }
        Ok(())
    }
}

/// Writes the name of a group under it.
fn draw_name(plane: &Plane<'_>, group: usize, rows: &[String]) -> Result<(), DrawError> {
    let y = plane.as_coord_spec().y_spec().low();
    let (x, bottom) = plane.map_coordinate(&(group as f64 + 0.5, y));
    let (left, top) = plane.get_base_pixel();
    let style = NAME.style(HPos::Center, VPos::Top);
    for (row, text) in rows.iter().enumerate() {
        let below = px(9) + row as i32 * ROW;
        plane
            .strip_coord_spec()
            .draw_text(text, &style, (x - left, bottom - top + below))?;
    }
    Ok(())
}

/// Splits a name at words into rows that fit under its group.
fn wrapped(name: &str, width: i32) -> Vec<String> {
    let name = frame::shortened(name);
    let mut rows: Vec<String> = Vec::new();
    for word in name.split_whitespace() {
        let full = rows.len() == NAME_ROWS_MAX;
        match rows.last_mut() {
            Some(row) if full || NAME.width(row) + NAME.width(word) < width => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}
