"""Horizontal bars as SVG: a row for each measured thing, a panel for each figure."""

import dataclasses
import html

ROW, BAR, HEAD, FOOT, GAP = 26, 16, 44, 10, 28
LABEL_WIDTH, PANEL_WIDTH, VALUE_WIDTH = 330, 190, 70
OURS, THEIRS = ("#c2410c", "#fdba74"), ("#475569", "#cbd5e1")
# For readers who prefer dark pages.
DARK = (
    "<style>@media (prefers-color-scheme:dark){"
    "text{fill:#e6edf3}"
    + "".join(
        f'[fill="{light}"]{{fill:{dark}}}'
        for light, dark in [
            ("#ffffff", "#0d1117"),
            ("#64748b", "#9da7b1"),
            ("#c2410c", "#f0803c"),
            ("#fdba74", "#8a4a1f"),
            ("#475569", "#9fb0c6"),
            ("#cbd5e1", "#475569"),
        ]
    )
    + "}</style>"
)


@dataclasses.dataclass(frozen=True)
class Panel:
    title: str
    values: list  # one per row
    written: list  # the values as text
    parts: list | None = None  # the part of each value that is drawn pale, at its end
    note: str = ""


def svg(title, labels, ours, panels):
    """A picture with panels side by side; the rows in `ours` are highlighted."""
    width = LABEL_WIDTH + len(panels) * (PANEL_WIDTH + VALUE_WIDTH + GAP)
    height = HEAD + len(labels) * ROW + FOOT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        DARK,
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for row, label in enumerate(labels):
        weight = ' font-weight="600"' if row in ours else ""
        lines.append(text(LABEL_WIDTH - 10, middle(row), label, f'text-anchor="end"{weight}'))
    for number, panel in enumerate(panels):
        left = LABEL_WIDTH + number * (PANEL_WIDTH + VALUE_WIDTH + GAP)
        lines.append(text(left, 18, panel.title, 'font-weight="600"'))
        lines.append(text(left, 34, panel.note, 'font-size="11" fill="#64748b"'))
        # If all values are 0, any scale will do.
        scale = PANEL_WIDTH / (max(panel.values) or 1)
        for row, value in enumerate(panel.values):
            dark, pale = OURS if row in ours else THEIRS
            part = panel.parts[row] if panel.parts else 0
            lines.append(bar(left, row, (value - part) * scale, dark))
            lines.append(bar(left + (value - part) * scale, row, part * scale, pale))
            lines.append(text(left + value * scale + 6, middle(row), panel.written[row]))
    return "\n".join([*lines, "</svg>", ""])


def middle(row):
    return HEAD + row * ROW + BAR / 2 + 5


def bar(left, row, width, colour):
    return f'<rect x="{left:.1f}" y="{HEAD + row * ROW}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'


def text(x, y, words, attributes=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{html.escape(words)}</text>'
