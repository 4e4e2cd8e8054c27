"""Find changes: a volume or a share outside its range, other columns or rules than before.

A mark is a reason to look, not a verdict: a planned launch and a broken sender look alike from here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from strandline.engine.history.queries import Batch, Memory, Range, points

VOLUME, SHARE, COLUMNS, RULES = "volume", "share", "columns", "rules"
LEAST = {VOLUME: 1.0, SHARE: 0.005}
"""The distance from the median within which a volume, in rows, and a share are always usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A change that an operator may want to know.

    Args:
        at: The time of the commit, or the start of the hour.
        version: The table's version.
        what: A volume, a share, the columns or the rules.
        measure: The name of the figure.
        value: Its value.
        usual: Its usual range.
    """

    at: datetime
    version: int
    what: str
    measure: str
    value: float | None = None
    usual: Range | None = None

    @property
    def said(self) -> str:
        """Return the mark as a phrase."""
        if self.usual is None or self.value is None:
            return f"{self.what} changed"
        if self.what == VOLUME:
            return (
                f"{self.value:,.0f} rows read, usually {self.usual.low:,.0f} to "
                f"{self.usual.high:,.0f}"
            )
        name = self.measure.removeprefix("share:").removeprefix("broke:")
        return f"{self.value:.1%} {name}, usually {self.usual.low:.1%} to {self.usual.high:.1%}"


def marks(batches: Sequence[Batch], before: Sequence[Batch] = ()) -> list[Mark]:
    """Return the changes in batches, or in hours, of one table.

    Args:
        batches: The batches to check, oldest first.
        before: The batches before them, to learn from.
    """
    every = [*before, *batches]
    memories = {VOLUME: {"read": Memory()}, SHARE: {name: Memory() for name in _shares(every)}}
    found = []
    for place, batch in enumerate(every):
        if place >= len(before):
            found += [*_figures(memories, batch), *_fingerprints(every[:place], batch)]
        for kind in memories.values():
            for measure, memory in kind.items():
                for point in points([batch], measure):
                    memory.add(point)
    return found


def _shares(batches: Sequence[Batch]) -> list[str]:
    """Return the shares to check: rows held back, copies, and rows that break a rule."""
    rules = {name for batch in batches for name in batch.values if name.startswith("broke:")}
    return [f"share:{name}" for name in ("quarantined", "duplicates", *sorted(rules))]


def _figures(memories: Mapping[str, Mapping[str, Memory]], batch: Batch) -> Iterator[Mark]:
    if batch.values.get("backfill") or batch.values.get("replaced"):
        return  # its figures are those of a range or of the whole table, not of new rows
    for what, kind in memories.items():
        for measure, memory in kind.items():
            usual = memory.expected(batch.at, least=LEAST[what])
            for point in points([batch], measure):
                if usual is not None and point.value not in usual:
                    yield Mark(
                        at=batch.at,
                        version=batch.version,
                        what=what,
                        measure=measure,
                        value=point.value,
                        usual=usual,
                    )


def _fingerprints(before: Sequence[Batch], batch: Batch) -> Iterator[Mark]:
    for what, name in ((COLUMNS, "schema"), (RULES, "rules")):
        known = next((getattr(b, name) for b in reversed(before) if getattr(b, name)), "")
        today = getattr(batch, name)
        if known and today and known != today:
            yield Mark(at=batch.at, version=batch.version, what=what, measure=name)
