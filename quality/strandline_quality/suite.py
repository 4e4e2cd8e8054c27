"""A table's expectations as a suite of Great Expectations, evaluated on a batch's counters or on its rows.

Measured: 50 rules on counters in 0.06 s without Spark; on rows one execution, for 1 rule and for 50.

Two frames on one data asset at the same time silently give wrong verdicts, so each suite has a source of its own
and judges one batch at a time. The library reports an expectation that could not be evaluated with its declared
severity; here it is critical.

The library's imports take seconds, so only modules that judge import this one, and none that only reads declarations
does.
"""

# ruff: noqa: E402  # the settings before the import make the import possible
import os
import shutil
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

# The library tries to import Spark Connect, which ends a process without a main module, such as `python -c` and a
# worker of the tests: it takes it for a doctest that it has to skip. It expects that import to fail.
CONNECT = "pyspark.sql.connect"
NO_CONNECT = CONNECT not in sys.modules
if NO_CONNECT:
    sys.modules[CONNECT] = None  # type: ignore[assignment]  # Python's way to mark a module as absent

import great_expectations as library
import pandas as pd
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline_quality.expectations import (
    Bounds,
    Counts,
    Expectation,
    Finding,
    Share,
    Within,
    _message,
    exceeds,
    outside,
)

if NO_CONNECT:
    del sys.modules[CONNECT]

# Our two expectations as classes of Great Expectations, evaluated on rows by Spark, or on counters without an engine.
#
# The core expectations cost several executions (20 of them cost 6 with the leanest result, 44 with the usual one). These
# two are aggregates of the whole table, and the library joins all aggregates of a suite into one query over one scan; a
# frame that carries counters instead of rows needs no query at all.
#
# Some of the imports here are not part of the library's public API; the version is pinned, and
# tests/quality/test_suite.py evaluates every expectation on both engines.


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


_making = threading.Lock()


class Suite:
    """The expectations of a table's batches, ready to judge."""

    def __init__(self, table: str, expectations: Sequence[Expectation]) -> None:
        """Make the suite, with data sources of its own."""
        self._expected = {each.name: each for each in expectations}
        self._asking = threading.Lock()
        self._mark = f"{table} {uuid.uuid4().hex}"
        with _making:
            _context()
            self._suite = as_suite(self._mark, expectations)

    @cached_property
    def _counters(self) -> Any:  # noqa: ANN401  # Great Expectations has no types
        with _making:
            return _asset(_context().data_sources.add_pandas(f"{self._mark} counters"))

    @cached_property
    def _rows(self) -> Any:  # noqa: ANN401  # Great Expectations has no types
        """Return the data source of rows; made when it is needed, because it would start a JVM where none runs."""
        with _making:
            return _asset(_context().data_sources.add_spark(f"{self._mark} rows", persist=False))

    def of_counts(self, counts: Counts, bounds: Bounds | None = None) -> tuple[Finding, ...]:
        """Judge a batch by its counters, without Spark.

        Args:
            counts: The counters of the batch.
            bounds: The bounds of figures, from history.
        """
        frame = pd.DataFrame({"counters": [0]})
        frame.attrs[COUNTS] = counts
        with self._asking:
            return self._ask(self._counters, frame, bounds)

    def of_rows(self, rows: DataFrame, bounds: Bounds | None = None) -> tuple[Finding, ...]:
        """Judge rows by reading each of them once."""
        with self._asking:
            return self._ask(self._rows, rows, bounds)

    def _ask(
        self,
        asset: Any,  # noqa: ANN401  # Great Expectations has no types
        frame: Any,  # noqa: ANN401  # Great Expectations has no types
        bounds: Bounds | None,
    ) -> tuple[Finding, ...]:
        if not self._expected:
            return ()
        given = self._parameters(bounds or {})
        batch = asset.get_batch({"dataframe": frame})
        answer = batch.validate(self._suite, result_format="BASIC", expectation_parameters=given)
        return tuple(self._finding(result) for result in answer.results)

    def _parameters(self, bounds: Bounds) -> dict[str, float | None]:
        parameters: dict[str, float | None] = {}
        for name, each in self._expected.items():
            if not isinstance(each, Share) and each.from_history:
                low, high = bounds.get(name, (None, None))
                parameters |= {f"{name}_low": low, f"{name}_high": high}
        return parameters

    def _finding(self, result: Any) -> Finding:  # noqa: ANN401  # Great Expectations has no types
        kwargs = result.expectation_config.kwargs
        name = kwargs.get("rule") or kwargs["figure"]
        expected = self._expected[name]
        error = _error(result.exception_info)
        found = dict(result.result or {})
        rows, failed = found.get("element_count") or 0, found.get("unexpected_count") or 0
        return Finding(
            name=name,
            severity=expected.severity,
            holds=bool(result.success) and error is None,
            says=error or _message(expected, found),
            failed=failed,
            rows=rows,
            value=None if isinstance(expected, Share) else found.get("observed_value"),
            error=error,
        )


@cache
def _context() -> Any:  # noqa: ANN401  # Great Expectations has no types
    """Return the library's context; one for the process, because each leaves a temporary folder behind."""
    return quiet(library.get_context(mode="ephemeral"))


def quiet(context: Any) -> Any:  # noqa: ANN401  # Great Expectations has no types
    """Switch off the progress bars of a context, whose work takes milliseconds."""
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _asset(source: Any) -> Any:  # noqa: ANN401  # Great Expectations has no types
    return source.add_dataframe_asset(name="batch").add_batch_definition_whole_dataframe("batch")


def as_suite(name: str, expectations: Sequence[Expectation]) -> Any:  # noqa: ANN401  # Great Expectations has no types
    """Return expectations as a suite of the library."""
    return library.ExpectationSuite(name=name, expectations=[_as_gx(each) for each in expectations])


def _as_gx(expected: Expectation) -> Any:  # noqa: ANN401  # Great Expectations has no types
    common: dict[str, Any] = {
        "severity": expected.severity.value,
        "notes": expected.about or None,
        "description": f"{expected.name}: {expected.about}" if expected.about else expected.name,
    }
    if isinstance(expected, Share):
        return ExpectRuleToHold(
            rule=expected.name,
            predicate=expected.predicate,
            allowed=expected.allowed,
            few=expected.few,
            **common,
        )
    low: Any = expected.low
    high: Any = expected.high
    if expected.from_history:
        low, high = {"$PARAMETER": f"{expected.name}_low"}, {"$PARAMETER": f"{expected.name}_high"}
    return ExpectFigureToBeWithin(
        figure=expected.name, aggregate=expected.aggregate, low=low, high=high, **common
    )


def _error(info: Any) -> str | None:  # noqa: ANN401  # Great Expectations has no types
    """Return why an expectation could not be evaluated; the library keeps that by metric or plain."""
    if not info:
        return None
    each = [info] if "raised_exception" in info else list(info.values())
    messages = [str(one.get("exception_message")) for one in each if one.get("raised_exception")]
    return messages[0].strip().splitlines()[0] if messages else None


# Great Expectations' own Data Docs of the last audits, for readers who are used to them.
#
# The library never deletes a page and writes all of them again each time, so a run of a year ago would cost time
# today: runs older than the last ones are removed here first. Its pages load their style and scripts from the
# network; the page of ``strandline report`` does not.
#
# They are made from findings, not by evaluating the rows again, so they hold no value of any row.


KEPT = 20
"""The number of runs that are kept."""

STORE, SITE = Path("gx/uncommitted/validations"), Path("gx/uncommitted/data_docs/local_site")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The expectations of a table, and the findings."""

    table: str
    expected: Sequence[Expectation]
    findings: Sequence[Finding]


def publish(folder: Path, asked: Sequence[Asked], at: datetime, kept: int = KEPT) -> Path:
    """Add a run to the pages, and return the one to begin with.

    Args:
        folder: The folder of the library's files.
        asked: Expectations and findings, table by table.
        at: The time of the run, which becomes its name.
        kept: The number of runs that are kept, this one included.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context = quiet(library.get_context(mode="file", project_root_dir=str(folder)))
    run = library.RunIdentifier(run_name=at.strftime("%Y%m%dT%H%M%S.%f"))
    for each in map(_with_values, asked):
        _asked(context, each).run(
            batch_parameters={"dataframe": _frame(each)}, result_format="BASIC", run_id=run
        )
    _prune(folder, kept)
    context.build_data_docs()
    return folder / SITE / "index.html"


def _with_values(asked: Asked) -> Asked:
    """Turn findings with an error, or without an expectation, into figures that the library can judge: 0 holds, 1 fails."""
    plain = {each.name: each for each in asked.expected}
    odd = [each for each in asked.findings if each.error or each.name not in plain]
    bare = (Within(name=each.name, high=0, severity=each.severity, about=each.says) for each in odd)
    expected = {**plain, **{each.name: each for each in bare}}
    findings = (
        replace(each, value=0.0 if each.holds else 1.0) if each in odd else each
        for each in asked.findings
    )
    return replace(asked, expected=tuple(expected.values()), findings=tuple(findings))


def _asked(context: Any, asked: Asked) -> Any:  # noqa: ANN401  # Great Expectations has no types
    source = context.data_sources.add_or_update_pandas(asked.table)
    batch = source.add_dataframe_asset(name="rows").add_batch_definition_whole_dataframe("rows")
    suite = context.suites.add_or_update(as_suite(asked.table, asked.expected))
    named = library.ValidationDefinition(name=asked.table, data=batch, suite=suite)
    return context.validation_definitions.add_or_update(named)


def _frame(asked: Asked) -> pd.DataFrame:
    rules = {each.name for each in asked.expected if isinstance(each, Share)}
    frame = pd.DataFrame({"counters": [0]})
    frame.attrs[COUNTS] = Counts(
        rows=max((each.rows for each in asked.findings), default=0),
        broke={each.name: each.failed for each in asked.findings if each.name in rules},
        figures={each.name: each.value for each in asked.findings if each.value is not None},
    )
    return frame


def _prune(folder: Path, kept: int) -> None:
    """Remove the results of older runs, and the page of every run; the library writes those of kept runs again."""
    runs = {file.parents[1] for file in (folder / STORE).rglob("*.json")}
    names = sorted({run.name for run in runs})
    for run in runs:
        if run.name not in names[-kept:]:
            shutil.rmtree(run)
    shutil.rmtree(folder / SITE / "validations", ignore_errors=True)
