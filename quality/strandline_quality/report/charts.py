"""Small charts in SVG: shapes only, stretched to the room there is.

They hold no words, because a chart that shrinks to a telephone would shrink its words as well; the
page writes them beside the chart, and gives screen readers the same text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from strandline_quality.report.words import attribute

WIDTH, HEIGHT = 1000, 100
GAP = 0.22
"""The share of a bar's room that is left empty."""

SHORT = 1.25
"""A chart reaches this many times the lower bound of what is usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar: the rows of one step of time.

    Args:
        parts: The kinds with their sizes, from the bottom up.
        usual: The bounds of what is usual.
        label: The text that is shown when a pointer is over it.
    """

    parts: tuple[tuple[str, float], ...]
    usual: tuple[float, float] | None
    label: str

    @property
    def top(self) -> float:
        """Return its height."""
        return sum(max(size, 0.0) for _, size in self.parts)

    @property
    def reach(self) -> float:
        """Return the height that it needs, so that a reader sees how far it is below what is usual."""
        return max(self.top, self.usual[0] * SHORT) if self.usual else self.top


def bars(series: Sequence[Bar | None], label: str) -> str:
    """Draw bars side by side, behind them what is usual; None leaves a gap."""
    highest = max((bar.reach for bar in series if bar), default=0.0) or 1.0
    room = WIDTH / max(len(series), 1)
    shapes = []
    for place, bar in enumerate(series):
        if bar is None:
            continue
        left, wide = place * room, room
        if bar.usual:
            low, high = (min(each / highest, 1.0) * HEIGHT for each in bar.usual)
            shapes.append(_rect("usual", left, HEIGHT - high, wide, high - low))
        pile = "".join(_pile(bar, left + wide * GAP / 2, wide * (1 - GAP), highest))
        shapes.append(f"<g><title>{attribute(bar.label)}</title>{pile}</g>")
    return _svg("".join(shapes), label)


def line(series: Sequence[float | None], label: str, titles: Sequence[str]) -> str:
    """Draw a value over time; the line has a gap where there is none."""
    highest = max((value for value in series if value is not None), default=0.0) or 1.0
    room = WIDTH / max(len(series), 1)
    dots, runs, run = [], [], list[str]()
    for place, value in enumerate(series):
        if value is None:
            runs.append(run)
            run = []
            continue
        x, y = (place + 0.5) * room, HEIGHT - max(value, 0.0) / highest * (HEIGHT - 6) - 3
        run.append(f"{x:.1f},{y:.1f}")
        # A line of no length with a round end is a dot that keeps its shape however the chart is stretched.
        dots.append(
            f'<g><title>{attribute(titles[place])}</title><path class="dot" d="M{x:.1f} {y:.1f}h0.01"/></g>'
        )
    paths = "".join(f'<polyline points="{" ".join(each)}"/>' for each in (*runs, run) if each)
    return _svg(paths + "".join(dots), label)


def spark(values: Sequence[float | None], label: str) -> str:
    """Draw a trend as small as a word; the last value has a dot, and unknown values are left out."""
    highest = max((value for value in values if value is not None), default=0.0) or 1.0
    step = 92 / max(len(values) - 1, 1)
    places = [
        (4 + n * step, 21 - max(value, 0.0) / highest * 18)
        for n, value in enumerate(values)
        if value is not None
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dot = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in places[-1:])
    return (
        f'<svg class="spark" viewBox="0 0 100 24" width="100" height="24" role="img" '
        f'aria-label="{attribute(label)}"><path class="ground" d="M4 21.5h92"/>'
        f'<polyline points="{points}"/>{dot}</svg>'
    )


def meter(part: float, kind: str = "held") -> str:
    """Draw a share as a bar; the page shows the number beside it."""
    return (
        f'<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="ground" width="100" height="6"/>'
        f'<rect class="{kind}" width="{min(max(part, 0.0), 1.0) * 100:.2f}" height="6"/></svg>'
    )


def _pile(bar: Bar, left: float, wide: float, highest: float) -> Sequence[str]:
    made, ground = [], float(HEIGHT)
    for kind, size in bar.parts:
        if size > 0:
            tall = max(size / highest * HEIGHT, 1.0)  # a small part must be visible
            ground -= tall
            made.append(_rect(kind, left, ground, wide, tall))
    return made


def _rect(kind: str, left: float, top: float, wide: float, tall: float) -> str:
    return f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'


def _svg(shapes: str, label: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{attribute(label)}">{shapes}</svg>'
    )
