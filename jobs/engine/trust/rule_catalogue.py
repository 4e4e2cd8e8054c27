"""The rules of a table for people: what must hold, what becomes of a row that breaks it, and who owns it.

To show more of a rule, add a line to ``COLUMNS``.
"""

from collections.abc import Callable, Iterator

from jobs.core.lateness import DISORDERED, LATE
from jobs.core.table import Judged, Table
from quality.report.words import span
from quality.rules import Rule

COLUMNS: tuple[tuple[str, Callable[[Rule], object]], ...] = (
    ("rule", lambda rule: rule.name),
    ("holds", lambda rule: rule.holds),
    ("when unknown", lambda rule: "passes" if rule.null_ok else "is broken"),
    ("on failure", lambda rule: rule.on_fail),
    ("severity", lambda rule: rule.severity),
    ("at most", lambda rule: _share(rule.max_failed)),
    ("owner", lambda rule: rule.owner),
    ("about", lambda rule: rule.about),
)


def rulebook(table: Table) -> tuple[dict[str, str], ...]:
    """Return the rules of a table, then the law of time that holds for every judged row."""
    own = [{name: _text(value(rule)) for name, value in COLUMNS} for rule in table.rules]
    return (*own, *_law(table)) if isinstance(table, Judged) else tuple(own)


def _law(table: Table) -> Iterator[dict[str, str]]:
    law = table.lateness
    empty = dict.fromkeys((name for name, _ in COLUMNS), "")
    for name, holds in (
        (
            LATE,
            f"{table.event_at} is at most {span(law.late.total_seconds())} before the arrival",
        ),
        (
            "early",
            f"{table.event_at} is at most {span(law.early.total_seconds())} after the arrival",
        ),
        (
            DISORDERED,
            f"the arrival is less than {span(law.disorder.total_seconds())} before the newest of earlier commits",
        ),
    ):
        known = {"rule": name, "holds": holds, "when unknown": "is broken"}
        is_believed = name == LATE and isinstance(table, Judged) and table.believes_history
        yield {
            **empty,
            **known,
            "on failure": "believed, as history" if is_believed else "quarantine",
        }


def _share(value: object) -> str:
    return f"{value:.2%}" if isinstance(value, float) else _text(value)


def _text(value: object) -> str:
    return "" if value is None else str(value)
