"""The choice of who judges a batch: Great Expectations, or what is here, which finds what its suite finds, in the same order and words.

Counters need no engine. Rows are one aggregate over one scan, for any number of expectations, as with the library.

Both are made of the same declarations and decide by the same two functions (``exceeds`` and ``outside``), and
tests/quality/test_judge.py asks both about rows and counters at random. A folder of its own, because each statement of the modules
beside it is part of every table's version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from strandline_infra import installation
from strandline_quality.expectations import (
    Bounds,
    Counts,
    Expectation,
    Finding,
    Share,
    _message,
    exceeds,
    outside,
)

ROWS = "every row"
Measured = Mapping[str, int | float | None]
"""What was measured of rows, by the name of the expectation: how many break a rule, or a figure."""


@dataclass(frozen=True, slots=True)
class Plain:
    """The expectations of a table's batches, ready to judge.

    Args:
        expectations: What is expected.
    """

    expectations: Sequence[Expectation]

    def of_counts(self, counts: Counts, bounds: Bounds | None = None) -> tuple[Finding, ...]:
        """Judge a batch by its counters."""
        found = {
            each.name: counts.broke.get(each.name, 0)
            if isinstance(each, Share)
            else counts.figures.get(each.name)
            for each in self.expectations
        }
        return self._findings(counts.rows, found, {}, bounds or {})

    def of_rows(self, rows: DataFrame, bounds: Bounds | None = None) -> tuple[Finding, ...]:
        """Judge rows by reading each of them once; again, one by one, where an expectation cannot be evaluated."""
        asked = {each.name: _aggregate(each) for each in self.expectations}
        if not asked:
            return ()
        errors: dict[str, str] = {}
        try:
            found = _measured(rows, asked)
        except PySparkException:
            found = {**_measured(rows, {})}
            for name, column in asked.items():
                try:
                    found |= _measured(rows, {name: column})
                except PySparkException as error:
                    errors[name] = str(error).strip().splitlines()[0]
        return self._findings(int(found[ROWS] or 0), found, errors, bounds or {})

    def _findings(
        self, rows: int, found: Measured, errors: Mapping[str, str], bounds: Bounds
    ) -> tuple[Finding, ...]:
        """Return the findings; first those of what could not be evaluated, as the library has them."""
        known = [each for each in self.expectations if each.name not in errors]
        return (
            *(
                _unknown(each, errors[each.name])
                for each in self.expectations
                if each.name in errors
            ),
            *(_finding(each, rows, found[each.name], bounds) for each in known),
        )


def _aggregate(expected: Expectation) -> Column:
    if isinstance(expected, Share):
        return F.count_if(~F.expr(expected.predicate))
    return F.expr(f"CAST(({expected.aggregate or 'NULL'}) AS DOUBLE)")


def _measured(rows: DataFrame, asked: Mapping[str, Column]) -> dict[str, int | float | None]:
    columns = [column.alias(f"c{at}") for at, column in enumerate(asked.values())]
    counted, *found = rows.agg(F.count(F.lit(1)), *columns).first() or (0,)
    return {ROWS: counted, **dict(zip(asked, found, strict=True))}


def _finding(expected: Expectation, rows: int, value: float | None, bounds: Bounds) -> Finding:
    if isinstance(expected, Share):
        failed = int(value or 0)
        return Finding(
            name=expected.name,
            severity=expected.severity,
            holds=not exceeds(failed, rows, allowed=expected.allowed, few=expected.few),
            says=_message(expected, {"unexpected_count": failed, "element_count": rows}),
            failed=failed,
            rows=rows,
        )
    low, high = expected.low, expected.high
    if expected.from_history:
        low, high = bounds.get(expected.name, (None, None))
    seen = value if rows else None
    return Finding(
        name=expected.name,
        severity=expected.severity,
        holds=not outside(seen, low, high),
        says=_message(expected, {"observed_value": seen, "low": low, "high": high}),
        rows=rows,
        value=seen,
    )


def _unknown(expected: Expectation, error: str) -> Finding:
    """Return what is found of an expectation that could not be evaluated: nothing is known, and that is critical."""
    return Finding(
        name=expected.name, severity=expected.severity, holds=False, says=error, error=error
    )


class Judge(Protocol):
    """The expectations of a table's batches, ready to judge."""

    def of_counts(self, counts: Counts, bounds: Bounds | None = None) -> tuple[Finding, ...]:
        """Judge a batch by its counters, without Spark."""

    def of_rows(self, rows: DataFrame, bounds: Bounds | None = None) -> tuple[Finding, ...]:
        """Judge rows by reading each of them once."""


def judge(table: str, expectations: Sequence[Expectation]) -> Judge:
    """Return who judges the batches of a table."""
    if installation.is_installed("quality"):
        # Its import takes seconds.
        from strandline_quality.suite import Suite  # noqa: PLC0415  # as above

        return Suite(table, expectations)

    return Plain(expectations)
