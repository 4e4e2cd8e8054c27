"""A picture of ratios: a row for each workload, a dot for each contestant, by how many times of its CPU ours is."""

from collections.abc import Iterator, Mapping
from math import log10
from typing import TypeAlias

from tests.benchmarks.samples import Spread

Ratios: TypeAlias = Mapping[str, Mapping[str, Spread]]
"""Ratios by row and by contestant."""

COLOURS = {
    "tuned": "#06c",
    "flink": "#c60",
    "flink/rocksdb": "#930",
    "flink/iceberg": "#e9a",
    "kafka-streams": "#909",
    "tutorial": "#888",
    "delta-rs": "#0a7",
    "bytewax": "#5a0",
    "quix": "#a80",
    "pathway": "#067",
    "duckdb": "#cb0",
    "polars": "#08a",
}
LEFT, TOP, WIDE, ROW, LEGEND = 120, 30, 520, 20, 130
LOWEST, HIGHEST = -1.0, 2.0
"""The ends of the axis, as powers of ten."""


def picture(ratios: Ratios) -> str:
    """Return the picture, as wide whatever it shows and as high as it has rows."""
    rows = [row for row, of in ratios.items() if of]
    high = ROW * max(len(rows), 1)
    whom = [who for who in COLOURS if any(who in ratios[row] for row in rows)]
    parts = [
        *_axis(high),
        *(part for number, row in enumerate(rows) for part in _row(row, number, ratios[row])),
        *(_legend(who, number) for number, who in enumerate(whom)),
    ]
    tall = TOP + max(high, 18 * len(whom)) + 46
    size = f'viewBox="0 0 {LEFT + WIDE + LEGEND} {tall}"'
    paper = f'<rect width="{LEFT + WIDE + LEGEND}" height="{tall}" fill="#fff"/>'
    style = 'font-family="sans-serif" font-size="12"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', paper, *parts, "</svg>", ""]
    )


def _axis(high: int) -> Iterator[str]:
    for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
        x, is_one = _across(value), value == 1
        colour = "#000" if is_one else "#ddd"
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{TOP + high}" stroke="{colour}"/>'
        yield f'<text x="{x:.1f}" y="{TOP + high + 16}" text-anchor="middle">{value:g}</text>'
    y, left, right = TOP + high + 34, LEFT, LEFT + WIDE
    yield f'<text x="{_across(1):.1f}" y="{y}" text-anchor="middle">our CPU over theirs</text>'
    yield f'<text x="{left}" y="{TOP - 12}" fill="#666">we need less</text>'
    yield f'<text x="{right}" y="{TOP - 12}" fill="#666" text-anchor="end">we need more</text>'


def _row(row: str, number: int, of: Mapping[str, Spread]) -> Iterator[str]:
    y = TOP + ROW * number + ROW / 2
    yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{row}</text>'
    yield f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#f0f0f0"/>'
    for who, ratio in of.items():
        low, at, high = map(_across, (ratio.low, ratio.median, ratio.high))
        colour = COLOURS[who]
        yield f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2"/>'
        yield (
            f'<circle cx="{at:.1f}" cy="{y:.1f}" r="5" fill="{colour}" fill-opacity="0.8">'
            f"<title>{row}, {who}: {ratio.median:.2f}</title></circle>"
        )


def _legend(who: str, number: int) -> str:
    x, y = LEFT + WIDE + 20, TOP + 8 + 18 * number
    dot = f'<circle cx="{x}" cy="{y}" r="5" fill="{COLOURS[who]}" fill-opacity="0.8"/>'
    return f'{dot}<text x="{x + 12}" y="{y + 4}">{who}</text>'


def _across(ratio: float) -> float:
    power = min(max(log10(ratio), LOWEST), HIGHEST) if ratio > 0 else LOWEST
    return LEFT + WIDE * (power - LOWEST) / (HIGHEST - LOWEST)
