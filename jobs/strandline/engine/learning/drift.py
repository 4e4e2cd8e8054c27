"""How far the features and scores of a day have moved from those that the version that scored it has learnt.

The figure is the population stability index: over the parts of the training's distribution the sum of
(share of the day - share of the training) x ln(the one / the other). Banks have judged scores by it for decades: below
0.1 nothing has moved, above 0.25 the model is another one's. It needs counts alone, so the report asks DuckDB for them,
in one look at the files of the day; a Kolmogorov-Smirnov test would call every large day significant.

A share of zero would make it infinite, so each share is at least ``LEAST``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from strandline.core.model import FEATURES, SCORE, VERSION, Model
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.read.duckdb_table import peek_files
from strandline.engine.lake.read.find_rows import Where, heap
from strandline.engine.lake.shelf import model_shelf
from strandline.engine.repair.closed_range import Span
from strandline_quality.report.findings import Drift

LEAST = 0.0001
FEWEST = 200
"""Rows of a version on a day with fewer of which nothing is said: of ten parts each would have a handful by chance."""


def drift(model: Model, lake: Lake, since: datetime, until: datetime) -> list[Drift]:
    """Return the drift of each feature and of the score on a day, by the version that scored it.

    Args:
        model: The model.
        lake: Where its table is.
        since: The first moment of event time.
        until: The moment after the last.
    """
    path, moment = lake.table(model.of), model.of.event_at
    files = heap(path, Where(within={moment: (since, until)}))
    if not files:
        return []
    first, last = Span(since=since, until=until).in_micros()
    within = f"epoch_us({moment}) BETWEEN {first} AND {last}"
    with peek_files(list(files), "scored") as day:
        if VERSION not in {name for name, *_ in day.ask("DESCRIBE scored")}:
            return []  # they were written before the table was scored
        known = day.ask(
            f"SELECT {VERSION}, count(*) FROM scored WHERE {within} AND {VERSION} IS NOT NULL GROUP BY 1 ORDER BY 1"  # noqa: S608  # our own names
        )
        found = []
        for version, rows in known:
            if int(str(rows)) < FEWEST:
                continue
            words = model_shelf.version(lake, model.name, str(version))
            learnt = words["certificate"]["distributions"]
            (counts,) = day.ask(
                f"SELECT {', '.join(_counts(words))} FROM scored WHERE {within} AND {VERSION} = '{version}'"  # noqa: S608  # our own
            )
            reached = [int(str(count)) for count in counts]
            found += [*_drifts(model, str(version), int(str(rows)), learnt, reached)]
    return found


def index(learnt: Sequence[float], shares: Sequence[float]) -> float:
    """Return the population stability index of two distributions over the same parts.

    >>> index([0.5, 0.5], [0.5, 0.5]), round(index([0.5, 0.5], [0.9, 0.1]), 3)
    (0.0, 0.879)
    """
    pairs = [(max(a, LEAST), max(b, LEAST)) for a, b in zip(learnt, shares, strict=True)]
    return sum((b - a) * math.log(b / a) for a, b in pairs)


def _counts(words: Mapping[str, Any]) -> Iterator[str]:
    """Yield SQL for the number of rows up to each bound, feature by feature, the score last."""
    names = [each["name"] for each in words["features"]]
    columns = {name: f"{FEATURES}[{at}]" for at, name in enumerate(names, start=1)}
    for name, parts in words["certificate"]["distributions"].items():
        column = columns.get(name, SCORE)
        for bound in parts["bounds"]:
            yield f"count(*) FILTER ({column} <= {bound})"


def _drifts(
    model: Model, version: str, rows: int, learnt: Mapping[str, Any], reached: list[int]
) -> Iterator[Drift]:
    for name, parts in learnt.items():
        up_to = [reached.pop(0) for _ in parts["bounds"]]
        shares = [
            (after - before) / rows
            for before, after in zip([0, *up_to], [*up_to, rows], strict=True)
        ]
        moved = index(parts["shares"], shares)
        yield Drift(
            model=model.name,
            version=version,
            of=name,
            rows=rows,
            psi=round(moved, 4),
            warns=moved > model.drifts,
            learnt=tuple(parts["shares"]),
            shares=tuple(round(each, 6) for each in shares),
        )
