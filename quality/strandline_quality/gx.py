"""Our two expectations as classes of Great Expectations, evaluated on rows by Spark, or on counters without an engine.

The core expectations cost several executions (20 of them cost 6 with the leanest result, 44 with the usual one). These
two are aggregates of the whole table, and the library joins all aggregates of a suite into one query over one scan; a
frame that carries counters instead of rows needs no query at all.

Some of the imports here are not part of the library's public API; the version is pinned, and
tests/quality/test_suite.py evaluates every expectation on both engines. Other modules import the library from here.
"""

# ruff: noqa: E402  # the settings before the import make the import possible
import os
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

# The library tries to import Spark Connect, which ends a process without a main module, such as `python -c` and a
# worker of the tests: it takes it for a doctest that it has to skip. It expects that import to fail.
CONNECT = "pyspark.sql.connect"
NO_CONNECT = CONNECT not in sys.modules
if NO_CONNECT:
    sys.modules[CONNECT] = None  # type: ignore[assignment]  # Python's way to mark a module as absent

import great_expectations as library
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from pyspark.sql import functions as F

from strandline_quality.expectations import Counts, exceeds, outside

if NO_CONNECT:
    del sys.modules[CONNECT]

__all__ = ["COUNTS", "ExpectFigureToBeWithin", "ExpectRuleToHold", "ProgressBarsConfig", "library"]

Given = Mapping[str, Any]
Found = dict[str, Any]

COUNTS = "counts"
"""The attribute of a frame without rows that carries the counters of a batch."""

ROWS = "table.strandline_rows"
BROKE = "table.strandline_broke"
FIGURE = "table.strandline_figure"

_by_spark = metric_partial(
    engine=SparkDFExecutionEngine,
    partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
    domain_type=MetricDomainTypes.TABLE,
)
_by_counters = metric_value(engine=PandasExecutionEngine)


class Rows(TableMetricProvider):
    """The number of rows."""

    metric_name = ROWS

    @_by_spark
    def _spark(cls, *, metric_domain_kwargs: Given, **_: object) -> tuple[Any, Given, Given]:  # noqa: N805  # Great Expectations makes it a method of the class
        return F.count(F.lit(1)), metric_domain_kwargs, {}

    @_by_counters
    def _counters(cls, *, execution_engine: Any, metric_domain_kwargs: Given, **_: object) -> int:  # noqa: ANN401, N805  # Great Expectations makes it a method of the class
        return _counts(execution_engine, metric_domain_kwargs).rows


class Broke(TableMetricProvider):
    """The number of rows that do not satisfy a predicate."""

    metric_name = BROKE
    value_keys = ("rule", "predicate")

    @_by_spark
    def _spark(
        cls,  # noqa: N805  # Great Expectations makes it a method of the class
        *,
        metric_domain_kwargs: Given,
        metric_value_kwargs: Given,
        **_: object,
    ) -> tuple[Any, Given, Given]:
        breaks = ~F.expr(metric_value_kwargs["predicate"])
        return F.count_if(breaks), metric_domain_kwargs, {}

    @_by_counters
    def _counters(
        cls,  # noqa: N805  # Great Expectations makes it a method of the class
        *,
        execution_engine: Any,  # noqa: ANN401  # Great Expectations has no types
        metric_domain_kwargs: Given,
        metric_value_kwargs: Given,
        **_: object,
    ) -> int:
        counts = _counts(execution_engine, metric_domain_kwargs)
        return counts.broke.get(metric_value_kwargs["rule"], 0)


class Figure(TableMetricProvider):
    """A figure of the whole table; NULL if it was not measured."""

    metric_name = FIGURE
    value_keys = ("figure", "aggregate")

    @_by_spark
    def _spark(
        cls,  # noqa: N805  # Great Expectations makes it a method of the class
        *,
        metric_domain_kwargs: Given,
        metric_value_kwargs: Given,
        **_: object,
    ) -> tuple[Any, Given, Given]:
        return (
            F.expr(f"CAST(({metric_value_kwargs['aggregate'] or 'NULL'}) AS DOUBLE)"),
            metric_domain_kwargs,
            {},
        )

    @_by_counters
    def _counters(
        cls,  # noqa: N805  # Great Expectations makes it a method of the class
        *,
        execution_engine: Any,  # noqa: ANN401  # Great Expectations has no types
        metric_domain_kwargs: Given,
        metric_value_kwargs: Given,
        **_: object,
    ) -> float | None:
        counts = _counts(execution_engine, metric_domain_kwargs)
        return counts.figures.get(metric_value_kwargs["figure"])


class ExpectRuleToHold(BatchExpectation):
    """At most a share of the rows breaks a rule."""

    rule: str
    predicate: str
    allowed: float
    few: int

    metric_dependencies: ClassVar = (ROWS, BROKE)
    success_keys: ClassVar = ("rule", "predicate", "allowed", "few")

    def _validate(self, metrics: Given, **_: object) -> Found:  # type: ignore[override]  # by name
        rows, failed = metrics[ROWS], metrics[BROKE]
        return {
            "success": not exceeds(failed, rows, allowed=self.allowed, few=self.few),
            "result": {
                "observed_value": failed,
                "element_count": rows,
                "unexpected_count": failed,
                "unexpected_percent": 100 * failed / rows if rows else 0.0,
            },
        }


class ExpectFigureToBeWithin(BatchExpectation):
    """A figure of the whole table lies between two bounds."""

    figure: str
    aggregate: str | None = None
    low: Any = None
    high: Any = None

    metric_dependencies: ClassVar = (ROWS, FIGURE)
    success_keys: ClassVar = ("figure", "aggregate", "low", "high")

    def _validate(self, metrics: Given, **_: object) -> Found:  # type: ignore[override]  # by name
        kwargs = self._get_success_kwargs()
        value = metrics[FIGURE] if metrics[ROWS] else None
        return {
            "success": not outside(value, kwargs.get("low"), kwargs.get("high")),
            "result": {
                "observed_value": value,
                "element_count": metrics[ROWS],
                "low": kwargs.get("low"),
                "high": kwargs.get("high"),
            },
        }


def _counts(engine: Any, domain: Given) -> Counts:  # noqa: ANN401  # Great Expectations has no types
    frame, _, _ = engine.get_compute_domain(domain, domain_type=MetricDomainTypes.TABLE)
    counts: Counts = frame.attrs[COUNTS]
    return counts
