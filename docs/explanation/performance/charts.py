#!/usr/bin/env python3
"""Draws the charts of performance.md: grouped bars, from figures.json into SVG files.

    docs/explanation/performance/charts.py           # draws them
    docs/explanation/performance/charts.py --check   # fails if one is older than its figures
"""

import html
import json
import math
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
COLOURS = ("#1f6feb", "#d97706", "#6b7280")
WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP, BOTTOM = 84, 12, 74, 30


def text(x, y, content, size=12, anchor="start", colour="#24292f", weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="{colour}" font-weight="{weight}">{html.escape(content)}</text>'
    )


def ticks(greatest):
    """Values at the lines of the axis."""
    step = 10 ** math.floor(math.log10(greatest))
    step = next(s for s in (step / 5, step / 2, step, step * 2) if greatest / s <= 6)
    return [step * index for index in range(math.ceil(greatest / step) + 1)]


def number(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def chart(figure):
    values = [value for series in figure["series"].values() for value in series]
    lines = ticks(max(values))
    bottom = HEIGHT - BOTTOM

    def y(value):
        return bottom - value / lines[-1] * (bottom - TOP)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, sans-serif" role="img">',
        f"<title>{html.escape(figure['title'])}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 20, figure["title"], 15, weight="bold"),
        text(LEFT, 38, figure["note"], colour="#57606a"),
        text(LEFT - 8, TOP - 10, figure["unit"], 11, "end", "#57606a"),
    ]
    x = LEFT
    for colour, name in zip(COLOURS, figure["series"]):
        out.append(f'<rect x="{x}" y="48" width="10" height="10" fill="{colour}"/>')
        out.append(text(x + 14, 57, name))
        x += 34 + 7 * len(name)
    for line in lines:
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(line):.1f}" y2="{y(line):.1f}" stroke="#d0d7de"/>')
        out.append(text(LEFT - 8, y(line) + 4, number(line), 11, "end", "#57606a"))
    group = (WIDTH - LEFT - RIGHT) / len(figure["groups"])
    bar = group * 0.84 / len(figure["series"])
    for index, name in enumerate(figure["groups"]):
        begin = LEFT + group * index
        out.append(text(begin + group / 2, HEIGHT - 10, name, 11, "middle"))
        for place, (colour, series) in enumerate(zip(COLOURS, figure["series"].values())):
            value = series[index]
            at = begin + group * 0.08 + bar * place
            out.append(
                f'<rect x="{at:.1f}" y="{y(value):.1f}" width="{bar - 2:.1f}" '
                f'height="{bottom - y(value):.1f}" fill="{colour}"/>'
            )
            out.append(text(at + bar / 2 - 1, y(value) - 3, number(value), 9, "middle"))
    return "\n".join([*out, "</svg>", ""])


def main():
    figures = json.loads((FOLDER / "figures.json").read_text())
    for figure in figures:
        path = FOLDER / figure["file"]
        if "--check" not in sys.argv:
            path.write_text(chart(figure))
        elif not path.exists() or path.read_text() != chart(figure):
            print(f"{path.name} is not what figures.json says: run {__file__}", file=sys.stderr)
            return 1
    return 0


sys.exit(main())
