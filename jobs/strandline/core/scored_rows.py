"""A trained version of a model, and the SQL by which it scores the rows of the time in which it holds.

A version is a value. It has its features and its form, and not a reference to code: a row that it scored last year is
scored alike next year, whatever the model has become by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from strandline.core.model import SCORE, SCORED, VERSION
from strandline.core.scoring import Form

TYPES = ("string", "array<decimal(18,6)>", "decimal(18,6)", "boolean")
"""Of the columns ``SCORED``."""

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What scores a row: a version's features, its form and its threshold.

    Args:
        version: A hash of what it means and of what it was trained on.
        features: The SQL of each feature, exact.
        form: What was learnt.
        threshold: The score from which on a row is unusual.
    """

    version: str
    features: tuple[str, ...]
    form: Form
    threshold: str


Term: TypeAlias = tuple[datetime, Trained | None]
"""The moment from which on a version holds, in event time; or from which on none does."""


def steps(terms: Sequence[Term], moment: str) -> list[list[str]]:
    """Return SQL for the columns ``SCORED``, in steps, each of which may read the columns of those before.

    Args:
        terms: In the order in which they were decided; of those that hold at a moment the last counts.
        moment: The column with the event time.
    """
    every = {each.version: each for _, each in terms if each is not None}
    whens = " ".join(
        f"WHEN `{moment}` >= timestamp_micros({micros(since)}L) THEN {_text(trained)}"
        for since, trained in reversed(terms)
    )
    version, features, score, unusual = zip(SCORED, TYPES, strict=True)
    chosen = f"CASE {whens} END" if whens else "NULL"
    return [
        [f"CAST({chosen} AS {version[1]}) AS {version[0]}"],
        [_by_version(features, {k: f"array({', '.join(t.features)})" for k, t in every.items()})],
        [_by_version(score, {name: each.form.sql() for name, each in every.items()})],
        [
            _by_version(
                unusual,
                {
                    name: f"{SCORE} >= CAST('{each.threshold}' AS DECIMAL(18,6))"
                    for name, each in every.items()
                },
            )
        ],
    ]


def micros(moment: datetime) -> int:
    """Return a moment in microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def _by_version(column: tuple[str, str], values: dict[str, str]) -> str:
    whens = " ".join(f"WHEN '{name}' THEN {sql}" for name, sql in values.items())
    chosen = f"CASE {VERSION} {whens} END" if whens else "NULL"
    return f"CAST({chosen} AS {column[1]}) AS {column[0]}"


def _text(trained: Trained | None) -> str:
    return f"'{trained.version}'" if trained else "NULL"
