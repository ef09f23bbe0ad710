//! The grid and the axes of a plot.

use super::axis::{Axis, LaidOutAxis};
use super::frame::{self, Area, DrawError, NOTE, TICK, px};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// The chart with its axes.
pub(super) type Chart<'area, 'svg> =
    ChartContext<'area, SVGBackend<'svg>, Cartesian2d<LaidOutAxis, LaidOutAxis>>;
/// The area in which values are drawn.
pub(super) type Plane<'svg> = DrawingArea<SVGBackend<'svg>, Cartesian2d<LaidOutAxis, LaidOutAxis>>;

/// The approximate number of labels along an axis.
pub(super) const X_TICKS_MAX: usize = 10;
pub(super) const Y_TICKS_MAX: usize = 7;

/// What is drawn along the bottom of a plot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bottom<'a> {
    /// The ticks and the label of an axis.
    Ticks(&'a Axis),
    /// Space in which the plot writes labels itself.
    Room(i32),
}

/// Draws the axes and their grid into `area`.
pub(super) fn draw<'svg>(
    area: &Area<'svg>,
    (x, y_axis, y): (LaidOutAxis, &Axis, LaidOutAxis),
    bottom: Bottom<'_>,
) -> Result<Chart<'static, 'svg>, DrawError> {
    // The label of the y axis is above the axis, where it can be written
    // horizontally.
    let label = frame::printable(&y_axis.label);
    area.draw_text(
        &label,
        &TICK.style(HPos::Left, VPos::Top),
        (frame::MARGIN, px(4)),
    )?;
    let widest = y
        .tick_labels()
        .map(|label| TICK.width(&label))
        .max()
        .unwrap_or_default();
    // The last label is centred on the end of the axis, so half of it is
    // beyond.
    let beyond = match bottom {
        Bottom::Ticks(_) => x.tick_labels().last().map(|label| TICK.width(&label) / 2),
        Bottom::Room(_) => None,
    };
    let below = match bottom {
        Bottom::Ticks(_) => px(46),
        Bottom::Room(height) => height,
    };
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(26))
        .margin_right((beyond.unwrap_or_default() - frame::MARGIN).max(0))
        .x_label_area_size(below)
        .y_label_area_size(frame::MARGIN.max(widest + px(14)))
        .build_cartesian_2d(x, y)?;
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(frame::GRID.stroke_width(px(1) as u32))
        .light_line_style(frame::FAINT_GRID.stroke_width(px(1) as u32))
        .axis_style(frame::AXIS_LINE.stroke_width(px(1) as u32))
        .label_style(TICK.style(HPos::Center, VPos::Center))
        .set_all_tick_mark_size(px(4));
    match bottom {
        Bottom::Ticks(axis) => {
            mesh.axis_desc_style(TICK.style(HPos::Center, VPos::Center));
            mesh.x_desc(frame::printable(&axis.label));
        }
        Bottom::Room(_) => {
            mesh.disable_x_mesh();
            mesh.x_label_formatter(&|_| String::new());
        }
    }
    mesh.draw()?;
    Ok(chart)
}

/// A bound, drawn as a horizontal line.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundLine {
    /// Its value on the y axis.
    pub y: f64,
    /// Its label, of one to three words.
    pub label: String,
}

impl BoundLine {
    pub(super) fn new(y: f64, label: impl Into<String>) -> Self {
        let label = label.into();
        Self { y, label }
    }

    /// The heights of bounds, which the axis has to reach.
    pub(super) fn heights(bounds: &[Self]) -> impl Iterator<Item = f64> {
        bounds.iter().map(|bound_line| bound_line.y)
    }

    /// Draws bounds over the whole width, each with its label above the right end.
    pub(super) fn draw_all(
        bounds: &[Self],
        plane: &Plane<'_>,
        axis: &Axis,
    ) -> Result<(), DrawError> {
        bounds
            .iter()
            .try_for_each(|bound_line| bound_line.draw(plane, axis))
    }

    fn draw(&self, plane: &Plane<'_>, axis: &Axis) -> Result<(), DrawError> {
        let Some(y) = axis.drawable(self.y) else {
            return Ok(());
        };
        let x = plane.as_coord_spec().x_spec();
        let ends = [(x.low(), y), (x.high(), y)];
        plane.draw(&DashedPathElement::new(ends, px(3), px(4), note_stroke()))?;
        let (right, height) = plane.map_coordinate(&(x.high(), y));
        let (left, top) = plane.get_base_pixel();
        let style = NOTE.style(HPos::Right, VPos::Bottom);
        let point = (right - left - px(4), height - top - px(2));
        plane
            .strip_coord_spec()
            .draw_text(&frame::shortened(&self.label), &style, point)
    }
}

/// The stroke of marks and bounds.
pub(super) fn note_stroke() -> ShapeStyle {
    frame::MUTED.stroke_width(px(12) as u32 / 10)
}
