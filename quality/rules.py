"""What must hold of a row, said once, as SQL.

A rule is text rather than a ``Column`` because a ``Column`` needs a live JVM, and the catalog must be
readable without one.

Why NULL counts as broken: SQL's third truth value would let a row through that nobody judged.
A rule that tolerates an absent value says so with ``null_ok``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A predicate that every believed row satisfies.

    Args:
        name: The reason that a broken row carries into the quarantine.
        holds: A SQL predicate over the table's columns.
        null_ok: Whether an unknown answer passes.
    """

    name: str
    holds: str
    null_ok: bool = False

    @property
    def predicate(self) -> str:
        """Return the predicate with its third truth value settled."""
        return f"coalesce(({self.holds}), {str(self.null_ok).lower()})"


def required(*columns: str) -> tuple[Rule, ...]:
    """Demand a value in each column; the reason is ``missing:<column>``."""
    return tuple(Rule(name=f"missing:{name}", holds=f"`{name}` IS NOT NULL") for name in columns)


def between(column: str, low: float, high: float, *, null_ok: bool = False) -> Rule:
    """Demand a value from ``low`` to ``high``, both included."""
    return Rule(
        name=f"out_of_range:{column}",
        holds=f"`{column}` BETWEEN {low} AND {high}",
        null_ok=null_ok,
    )


def one_of(column: str, values: Sequence[str], *, null_ok: bool = False) -> Rule:
    """Demand one of the listed texts."""
    listed = ", ".join(_literal(value) for value in values)
    return Rule(name=f"not_listed:{column}", holds=f"`{column}` IN ({listed})", null_ok=null_ok)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def broken(rules: Sequence[Rule]) -> Column:
    """Return the names of the rules that a row breaks, in the order of their declaration."""
    names = [F.when(~F.expr(rule.predicate), F.lit(rule.name)) for rule in rules]
    return F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")
