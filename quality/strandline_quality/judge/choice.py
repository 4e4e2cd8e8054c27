"""The choice of who judges a batch.

Both are made of the same declarations and decide by the same two functions (``exceeds`` and ``outside``), and
tests/quality/test_judge.py asks both about rows and counters at random. A folder of its own, because each statement of the modules
beside it is part of every table's version.
"""

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame

from strandline_infra import extras
from strandline_quality.expectations import Bounds, Counts, Expectation, Finding


class Judge(Protocol):
    """The expectations of a table's batches, ready to judge."""

    def of_counts(self, counts: Counts, bounds: Bounds | None = None) -> tuple[Finding, ...]:
        """Judge a batch by its counters, without Spark."""

    def of_rows(self, rows: DataFrame, bounds: Bounds | None = None) -> tuple[Finding, ...]:
        """Judge rows by reading each of them once."""


def judge(table: str, expectations: Sequence[Expectation]) -> Judge:
    """Return who judges the batches of a table."""
    if extras.is_installed("quality"):
        # Its import takes seconds.
        from strandline_quality.suite import Suite  # noqa: PLC0415  # as above

        return Suite(table, expectations)
    from strandline_quality.judge.plain import Plain  # noqa: PLC0415  # only where there is no other

    return Plain(expectations)
