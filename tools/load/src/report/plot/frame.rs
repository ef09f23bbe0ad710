//! What all plots share: the canvas, the title, the legend and the styles.
//!
//! plotters uses whole pixels, which show as steps in a fine curve. So a plot
//! is drawn ten times as large and shown at a tenth of its size. The opening
//! tag of the library is replaced by one with these sizes and with the title,
//! for readers who cannot see the plot.
//!
//! A plot is drawn in light colours, and a style in it maps each colour to a
//! dark one for readers who prefer dark pages ([`STYLE`]). A renderer that
//! ignores such styles shows the light plot on its own background. Nothing
//! depends on the fonts of the machine that draws: the widths of texts are
//! estimated.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::io;

/// A plot's width.
pub(super) const WIDTH: i32 = px(880);
/// A plot's height.
pub(super) const HEIGHT: i32 = px(400);
/// Space at the edges.
pub(super) const MARGIN: i32 = px(18);

pub(super) const TITLE: TextFormat = TextFormat {
    size: px(17),
    bold: true,
    color: INK,
};
pub(super) const NAME: TextFormat = TextFormat {
    size: px(13),
    bold: false,
    color: INK,
};
pub(super) const TICK: TextFormat = TextFormat {
    size: px(12),
    bold: false,
    color: MUTED,
};
pub(super) const NOTE: TextFormat = TextFormat {
    size: px(12),
    bold: false,
    color: NOTE_INK,
};

/// The colour of titles and names.
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
/// The colour of axis labels and marks.
pub(super) const MUTED: RGBColor = RGBColor(0x5f, 0x68, 0x72);
const NOTE_INK: RGBColor = RGBColor(0x42, 0x4a, 0x53);
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
pub(super) const FAINT_GRID: RGBColor = RGBColor(0xf3, 0xf4, 0xf6);
pub(super) const AXIS_LINE: RGBColor = RGBColor(0x9a, 0xa2, 0xab);

/// The colours of Okabe and Ito, which colour-blind readers can distinguish;
/// without their yellow, which is hard to see on white.
const COLORS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x4d, 0x4d, 0x4d),
];

/// The dark counterparts of all colours, for readers who prefer dark pages. The
/// library writes colours as attributes, which a style overrides.
pub(super) const STYLE: &str = concat!(
    "<style>@media (prefers-color-scheme:dark){",
    "svg.plot [fill=\"#FFFFFF\"]{fill:#0d1117}",
    "svg.plot [fill=\"#24292F\"]{fill:#e6edf3}",
    "svg.plot [fill=\"#424A53\"]{fill:#c4ccd4}",
    "svg.plot [fill=\"#5F6872\"]{fill:#9da7b1}",
    "svg.plot [stroke=\"#5F6872\"]{stroke:#9da7b1}",
    "svg.plot [stroke=\"#9AA2AB\"]{stroke:#6e7681}",
    "svg.plot [stroke=\"#E3E6EA\"]{stroke:#30363d}",
    "svg.plot [stroke=\"#F3F4F6\"]{stroke:#1f242b}",
    "svg.plot [fill=\"#0072B2\"]{fill:#4da3dc}svg.plot [stroke=\"#0072B2\"]{stroke:#4da3dc}",
    "svg.plot [fill=\"#D55E00\"]{fill:#f0803c}svg.plot [stroke=\"#D55E00\"]{stroke:#f0803c}",
    "svg.plot [fill=\"#009E73\"]{fill:#2fbf95}svg.plot [stroke=\"#009E73\"]{stroke:#2fbf95}",
    "svg.plot [fill=\"#CC79A7\"]{fill:#e08fbd}svg.plot [stroke=\"#CC79A7\"]{stroke:#e08fbd}",
    "svg.plot [fill=\"#E69F00\"]{fill:#f0b429}svg.plot [stroke=\"#E69F00\"]{stroke:#f0b429}",
    "svg.plot [fill=\"#56B4E9\"]{fill:#8fd0f5}svg.plot [stroke=\"#56B4E9\"]{stroke:#8fd0f5}",
    "svg.plot [fill=\"#4D4D4D\"]{fill:#b3b3b3}svg.plot [stroke=\"#4D4D4D\"]{stroke:#b3b3b3}",
    "}</style>",
);

const FONT: &str = "system-ui, Helvetica, Arial, sans-serif";
/// plotters divides font sizes by this factor when it writes them.
const SIZE_FACTOR: f64 = 1.24;
/// The width of a letter relative to its height: an average that is rather too
/// large.
const LETTER_WIDTH: f64 = 0.57;
/// Longer names are shortened in plots.
const NAME_CHARS_MAX: usize = 60;

/// The error of plotters.
pub(super) type DrawError = DrawingAreaErrorKind<io::Error>;
/// The drawing area of a plot.
pub(super) type Area<'svg> = DrawingArea<SVGBackend<'svg>, Shift>;

/// Pixels of the plot as it is shown.
pub(super) const fn px(pixels: i32) -> i32 {
    pixels * SCALE
}

/// The number of plotters' pixels per shown pixel.
const SCALE: i32 = 10;

/// The size, weight and colour of a text.
#[derive(Clone, Copy)]
pub(super) struct TextFormat {
    size: i32,
    bold: bool,
    color: RGBColor,
}

impl TextFormat {
    /// The style for plotters, anchored at a point of the text.
    pub(super) fn style(self, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
        let weight = if self.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        let font = FontDesc::new(
            FontFamily::Name(FONT),
            f64::from(self.size) * SIZE_FACTOR,
            weight,
        );
        TextStyle {
            font,
            color: self.color.to_backend_color(),
            pos: Pos::new(horizontal, vertical),
        }
    }

    /// The estimated width of a text.
    pub(super) fn width(self, text: &str) -> i32 {
        (text.chars().count() as f64 * f64::from(self.size) * LETTER_WIDTH) as i32
    }
}

/// The colour of the `index`-th series.
pub(super) fn color(index: usize) -> RGBColor {
    COLORS[index % COLORS.len()]
}

/// The symbol of a series in the legend.
#[derive(Clone, Copy)]
pub(super) enum Swatch {
    Line,
    Dashes,
    Dot,
    Cross,
    Block,
}

/// An entry of the legend.
pub(super) struct LegendEntry<'a> {
    pub(super) name: &'a str,
    pub(super) color: RGBColor,
    pub(super) swatch: Swatch,
}

/// Draws a plot with its title and legend. `content` draws the rest into the
/// area below.
pub(super) fn draw(
    title: &str,
    legend: &[LegendEntry<'_>],
    content: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> String {
    let mut svg = String::new();
    let drawn = draw_into(&mut svg, title, legend, content);
    match (drawn, svg.split_once('>')) {
        (Ok(()), Some((_, body))) => opening_tag(title) + STYLE + body,
        // Drawing to text should not fail. If it does, the page shows the error
        // instead of the plot.
        (drawn, _) => {
            let problem = drawn
                .err()
                .map_or_else(String::new, |error| error.to_string());
            let text = escaped(&format!("cannot draw {title}: {problem}"));
            format!(
                "{}<text x=\"180\" y=\"360\" font-size=\"140\">{text}</text></svg>\n",
                opening_tag(title)
            )
        }
    }
}

fn draw_into(
    svg: &mut String,
    title: &str,
    legend: &[LegendEntry<'_>],
    content: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<(), DrawError> {
    let root = SVGBackend::with_string(svg, (WIDTH as u32, HEIGHT as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw_text(
        &printable(title),
        &TITLE.style(HPos::Left, VPos::Top),
        (MARGIN, px(14)),
    )?;
    let below = draw_legend(&root, legend, px(50))?;
    content(&root.margin(below, px(6), 0, MARGIN))?;
    root.present()
}

/// Draws the legend in as many rows as necessary. Returns the end of the last
/// row.
fn draw_legend(root: &Area<'_>, legend: &[LegendEntry<'_>], top: i32) -> Result<i32, DrawError> {
    const SWATCH: i32 = px(22);
    const GAP: i32 = px(7);
    const ROW: i32 = px(20);
    let (mut x, mut y) = (MARGIN, top);
    for entry in legend.iter().filter(|entry| !entry.name.is_empty()) {
        let name = shortened(entry.name);
        let width = SWATCH + GAP + NAME.width(&name);
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, y) = (MARGIN, y + ROW);
        }
        draw_swatch(root, entry, (x, y), SWATCH)?;
        root.draw_text(
            &name,
            &NAME.style(HPos::Left, VPos::Center),
            (x + SWATCH + GAP, y),
        )?;
        x += width + px(16);
    }
    Ok(if x > MARGIN { y + px(12) } else { top - px(10) })
}

fn draw_swatch(
    root: &Area<'_>,
    entry: &LegendEntry<'_>,
    (x, y): (i32, i32),
    width: i32,
) -> Result<(), DrawError> {
    let stroke = entry.color.stroke_width(px(25) as u32 / 10);
    let middle = (x + width / 2, y);
    match entry.swatch {
        Swatch::Line => root.draw(&PathElement::new([(x, y), (x + width, y)], stroke)),
        Swatch::Dashes => {
            let dash = width * 2 / 5;
            root.draw(&PathElement::new([(x, y), (x + dash, y)], stroke))?;
            root.draw(&PathElement::new(
                [(x + width - dash, y), (x + width, y)],
                stroke,
            ))
        }
        Swatch::Dot => root.draw(&Circle::new(middle, px(9) / 2, entry.color.filled())),
        Swatch::Cross => root.draw(&Cross::new(middle, px(4), stroke)),
        Swatch::Block => {
            let half = px(6);
            let corners = [(middle.0 - half, y - half), (middle.0 + half, y + half)];
            root.draw(&Rectangle::new(corners, entry.color.filled()))
        }
    }
}

/// Replaces the characters that XML cannot contain.
pub(super) fn printable(text: &str) -> String {
    let allowed =
        |character: char| !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}');
    text.chars()
        .map(|character| if allowed(character) { character } else { ' ' })
        .collect()
}

/// Shortens a name so that it fits into a plot.
pub(super) fn shortened(name: &str) -> String {
    let name = printable(name);
    if name.chars().count() <= NAME_CHARS_MAX {
        return name;
    }
    name.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect()
}

fn opening_tag(title: &str) -> String {
    let (width, height) = (WIDTH / SCALE, HEIGHT / SCALE);
    let title = escaped(&printable(title));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" stroke-linejoin=\"round\" role=\"img\" aria-label=\"{title}\">"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
