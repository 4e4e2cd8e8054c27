"""A table's expectations as Dagster's checks: defined without Spark, answered from the counters of each run."""

import math
import re
import time
from collections.abc import Iterator, Mapping

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    ConfigurableResource,
    DagsterInstance,
    InitResourceContext,
    MetadataValue,
)
from pydantic import PrivateAttr

from strandline.core.table import Judged, Table
from strandline.core.topic import Topic
from strandline.engine.flow.running import Report
from strandline.engine.gates.gate_files import GateShutError
from strandline_quality.expectations import Expectation, of_counters
from strandline_quality.rules import Severity

# Names of tables and topics in Dagster, in one place, because Dagster's spellings differ.


TOPICS = "kafka"
MODELS = "models"


def key(table: Table) -> AssetKey:
    """Return a table's one name as Dagster writes it, ``layer/table``."""
    return AssetKey([table.layer.value, table.name])


def source_key(name: str) -> AssetKey:
    """Return the same of a name alone, which may be that of a static table."""
    return AssetKey(name.split(".", 1))


def topic_key(topic: Topic) -> AssetKey:
    """Return the name of a topic as Dagster writes it."""
    return AssetKey([TOPICS, topic.name])


def model_key(name: str) -> AssetKey:
    """Return the name of a model as Dagster writes it."""
    return AssetKey([MODELS, name])


def pool(table: Table) -> str:
    """Return the pool with one slot, for the writer of a table.

    It only saves a run the attempt: the lease in the lake excludes a second writer (jobs/strandline/engine/lake/locks.py).
    """
    return f"writer/{table.id}"


def plain(name: str) -> str:
    """Return a name as Dagster accepts it for ops, jobs and checks."""
    return re.sub(r"\W", "_", name)


More = Mapping[str, MetadataValue]
"""Metadata of every result, such as the link to the report."""


def specs(table: Table, key: AssetKey) -> list[AssetCheckSpec]:
    """Return one check for each expectation of a table's batches."""
    return [
        AssetCheckSpec(
            name=plain(each.name),
            asset=key,
            description=each.about or None,
            metadata={"severity": each.severity.value, "expectation": each.name},
        )
        for each in _expected(table)
    ]


def of_report(
    table: Table, key: AssetKey, report: Report, more: More
) -> Iterator[AssetCheckResult]:
    """Answer every check from the batches of a run."""
    for each in _expected(table):
        yield AssetCheckResult(
            asset_key=key,
            check_name=plain(each.name),
            passed=each.name not in report.failed,
            severity=_severity(each),
            metadata={
                "rows that break it": report.broke.get(each.name, 0),
                "rows": report.good + report.held_records,
                "batches": report.batches,
                **more,
            },
        )


def of_gate(
    table: Table, key: AssetKey, error: GateShutError, more: More
) -> Iterator[AssetCheckResult]:
    """Answer the checks that shut a table's own gate."""
    shut = error.shut
    if shut is None or shut.table != table.id:
        return
    known = {each.name: each for each in _expected(table)}
    for found in shut.findings:
        if found["name"] in known:
            yield AssetCheckResult(
                asset_key=key,
                check_name=plain(found["name"]),
                passed=False,
                severity=AssetCheckSeverity.ERROR,
                description=found["says"],
                metadata={
                    "rows that break it": found["failed"],
                    "rows": found["rows"],
                    "samples": MetadataValue.json(list(shut.samples.get(found["name"], ()))),
                    **more,
                },
            )


def evaluation(found: AssetCheckResult) -> AssetCheckEvaluation:
    """Return the same result as an event that needs no step of an asset."""
    if found.asset_key is None or found.check_name is None:
        message = "a check result without its asset or its name"
        raise TypeError(message)
    return AssetCheckEvaluation(
        asset_key=found.asset_key,
        check_name=found.check_name,
        passed=found.passed,
        metadata=found.metadata,
        severity=found.severity,
        description=found.description,
    )


def _expected(table: Table) -> tuple[Expectation, ...]:
    return of_counters(table.rules, table.expects) if isinstance(table, Judged) else ()


def _severity(expected: Expectation) -> AssetCheckSeverity:
    is_critical = expected.severity is Severity.CRITICAL
    return AssetCheckSeverity.ERROR if is_critical else AssetCheckSeverity.WARN


# Results of checks, kept until the second in which their table was written is over.
#
# SQLite stores the time of a result in whole seconds, and Dagster's page (1.13.27) ignores a result that seems older
# than the table: it showed "not evaluated" for ten checks that had passed. Waiting for the next second after each table
# took a twentieth of a scheduled run, so the results of one step are reported by a later one.


def let_the_second_pass(moment: float) -> None:
    """Wait until the second of a moment is over."""
    time.sleep(max(0.0, math.floor(moment) + 1 - time.time()))


class Answers(ConfigurableResource):  # type: ignore[type-arg]  # the resource is its own value
    """Results of the steps of one run that are not reported yet."""

    _kept: list[AssetCheckEvaluation] = PrivateAttr(default_factory=list)
    _since: float = PrivateAttr(default=0.0)

    def keep(self, answer: AssetCheckEvaluation) -> None:
        """Keep a result about a table that was written just now."""
        self._kept.append(answer)
        self._since = time.time()

    def hand_in(self, instance: DagsterInstance) -> None:
        """Report the kept results, when their second has passed."""
        if self._kept:
            let_the_second_pass(self._since)
        while self._kept:
            instance.report_runless_asset_event(self._kept.pop(0))

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Report the results of the last step, however the run ends."""
        if context.instance:
            self.hand_in(context.instance)
