"""Traces and figures reach a receiver of OpenTelemetry's protocol; one that is away holds up nothing; without one nothing is imported."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as families
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.errors import DataError, DefinitionError
from strandline.core.stateful import AvailableNow
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import Parent
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.lake.place import Place
from strandline.engine.runtime.log_files import TRACES, logger
from strandline.engine.runtime.settings import telemetry
from strandline.engine.service import telemetry as telemetry_spans
from strandline.engine.service.telemetry import (
    ENDLESS,
    Pushed,
    SpanRecorder,
    ids_of,
    run_over,
    traces,
)
from strandline.operate.session import recorder
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written
from tests.support.events import received
from tests.support.otlp import Receiver, receiving
from tests.support.poison import GOOD
from tests.support.watched_lake import look, watched_lake

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
RUN = "3f2b8c1e-0d4a-4b6e-9a77-0c5f6d1e2a3b"


@pytest.fixture(autouse=True)
def _unconfigured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin where nothing is configured."""
    for name in [each for each in os.environ if each.startswith(("OTEL_", "TRACEPARENT"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    yield
    for each in telemetry_spans._begun.values():
        each.close(0.5)
    telemetry_spans._begun.clear()
    TRACES.clear()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.address)
        yield found


@pytest.mark.slow
def test_a_run_its_table_its_batches_and_their_commits_are_one_trace(
    spark: SparkSession, clock: Callable[[], datetime], lake: Lake, receiver: Receiver
) -> None:
    """Each commit names the version of Delta's log, and the rows that its ledger entry counts."""
    received(lake, GOOD)
    parent = Parent(run=RUN, job="nightly", namespace="dagster")
    site = Site(spark=spark, clock=clock, record=recorder(lake, print, parent=parent))

    run(silver.TABLE, AvailableNow(), lake, site=site)
    run_over(RUN)

    receiver.until(lambda: any(each.name == "dagster nightly" for each in receiver.spans))
    by = {each.name: each for each in receiver.spans}
    names = [
        "dagster nightly",
        f"available-now {SILVER.id}",
        f"batch {SILVER.id}",
        f"commit {SILVER.id}",
    ]
    root, table, batch, commit = (by[name] for name in names)
    assert {each.trace for each in receiver.spans} == {RUN.replace("-", "")}
    assert [root.parent, table.parent, batch.parent, commit.parent] == [
        *("", root.id, table.id, batch.id)
    ]
    ((version, one),) = list(entries(lake.table(SILVER)))
    assert commit.facts["strandline.version"] == batch.facts["strandline.version"] == version
    assert batch.facts["strandline.batch"] == one.batch
    assert batch.facts["strandline.rows.read"] == one.read > 0
    assert batch.facts["strandline.rows.written"] == one.written
    assert batch.start < commit.start <= commit.end <= table.end <= root.end
    assert (commit.start - batch.start) // 1_000_000 == one.duration_ms
    assert root.sender["service.name"] == "strandline"
    assert root.sender["strandline.lake"] == str(lake.root)


def made(lake: Lake) -> SpanRecorder:
    return SpanRecorder(traces=traces(lake, print))


def test_each_batch_of_a_stream_is_a_trace_whose_ids_follow_from_its_commit(
    tmp_path: Path, receiver: Receiver
) -> None:
    """It is linked to the commits that it read, and a record of the log about its table has its ids."""
    lake = small_lake(tmp_path / "lake")
    more = entry(SILVER, batch=7, versions={BRONZE.id: (0, 1)}, read=5, good=5, written=5)
    recorded = made(lake)
    with recorded.record(None, SILVER, ENDLESS, lake) as wrote:
        written(lake.table(SILVER), numbers(1), more.encoded())
        wrote(SILVER, more)
        receiver.until(lambda: any(each.name.startswith("commit") for each in receiver.spans))

    by = {each.name.split()[0]: each for each in receiver.spans}
    trace, span = ids_of(lake.root, SILVER.id, 1)
    assert (by["batch"].trace, by["batch"].id) == (f"{trace:032x}", f"{span:016x}")
    assert (by["batch"].parent, by["commit"].parent) == ("", by["batch"].id)
    sources = [tuple(map("{:x}".format, ids_of(lake.root, BRONZE.id, at))) for at in (1, 0)]
    started = by[ENDLESS]
    assert by["batch"].links[0] == (started.trace, started.id)
    assert [(int(a, 16), int(b, 16)) for a, b in by["batch"].links[1:]] == [
        (int(a, 16), int(b, 16)) for a, b in sources
    ]
    lines = list[str]()
    logger(lines.append, lambda: NOW, as_json=True).info("progress", table=SILVER.id, batch=7)
    logger(lines.append, lambda: NOW, as_json=True).info("progress", table=GOLD.id)
    with_ids, without = map(json.loads, lines)
    assert (with_ids["trace_id"], with_ids["span_id"]) == (by["batch"].trace, by["batch"].id)
    assert "trace_id" not in without
    traces(lake, print).close()
    logger(lines.append, lambda: NOW, as_json=True).info("ended", table=SILVER.id)
    assert "trace_id" not in json.loads(lines[-1])


def test_a_run_that_fails_says_why_as_the_terminal_does(tmp_path: Path, receiver: Receiver) -> None:
    lake = small_lake(tmp_path / "lake")
    error = DataError("the rows are wrong", hint="correct them.")
    with pytest.raises(DataError), made(lake).record(None, SILVER, "available-now", lake):
        raise error
    traces(lake, print).end()

    receiver.until(lambda: len(receiver.spans) == 2)
    (failed,) = [each for each in receiver.spans if each.error]
    assert (failed.error, failed.facts["error.type"]) == (error.message, "DataError")


def test_a_process_goes_on_with_the_trace_of_what_started_it(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of CI, or another scheduler, gives it in a variable."""
    monkeypatch.setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    lake = small_lake(tmp_path / "lake")
    with recorder(lake, print)(None, SILVER, "available-now", lake):  # type: ignore[arg-type]
        pass
    traces(lake, print).end()

    receiver.until(lambda: len(receiver.spans) == 2)
    (root,) = [each for each in receiver.spans if each.name.startswith("strandline")]
    assert root.parent == "b7ad6b7169203331"
    assert {each.trace for each in receiver.spans} == {"0af7651916cd43dd8448eb211c80319c"}


def test_a_receiver_that_is_away_or_slow_holds_up_no_commit_and_no_end(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits and the end go on before it has answered anything; newer commits have no spans where a thousand wait."""
    said, lake = list[str](), small_lake(tmp_path / "lake")
    goes_on, found_in = threading.Event(), telemetry_spans.found_in
    monkeypatch.setattr(telemetry_spans, "found_in", lambda *of: goes_on.wait(60) and found_in(*of))
    receiver.answers.clear()
    sends = traces(lake, said.append)
    with SpanRecorder(traces=sends).record(None, SILVER, "available-now", lake) as wrote:
        for _ in range(5_000):
            wrote(SILVER, entry(SILVER, batch=3, read=1, good=1))
    assert len([each for each in said if "wait for their spans" in each]) == 1
    goes_on.set()
    sends.end()
    assert receiver.answered == 0

    receiver.status = 503
    receiver.answers.set()
    receiver.until(lambda: any("no telemetry" in each for each in said))
    reasons = [each for each in said if "no telemetry" in each]
    assert all(one != other for one, other in pairwise(reasons))
    assert len([each for each in said if "wait for their spans" in each]) == 1


def test_the_figures_that_are_pushed_are_those_of_the_page(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same names, labels, kinds and values."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod")
    lake = watched_lake(tmp_path, NOW)
    page = look(lake, NOW)
    pushed = Pushed(page, lake, print)
    pushed.end(30)

    shown, counters = dict[tuple[str, ...], float](), set[str]()
    for family in families(page.text()):
        for each in family.samples:
            labels = sorted(each.labels.items())
            shown[each.name, *(f"{k}={v}" for k, v in labels)] = each.value
            if family.type == "counter":
                counters.add(each.name)
    assert receiver.figures == shown
    assert receiver.counters == counters
    assert len(shown) > 100


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost"}, {"traces", "metrics"}),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost"}, {"traces"}),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost", "OTEL_METRICS_EXPORTER": "none"},
            {"traces"},
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost", "OTEL_SDK_DISABLED": "true"}, set()),
    ],
)
def test_opentelemetrys_own_variables_say_what_is_sent(
    given: dict[str, str], sent: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert telemetry() == sent


def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver of gRPC would answer nothing, and each run would wait for it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(DefinitionError, match="http/protobuf"):
        telemetry()


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100000"), ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "few")],
)
def test_a_variable_that_the_sdk_does_not_take_is_said(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(DefinitionError, match="a variable of OpenTelemetry is wrong"):
        telemetry_spans.Traces(Lake(Place.of(tmp_path / "lake")), print)


def test_without_a_receiver_nothing_is_imported(tmp_path: Path) -> None:
    """Nor is a thread begun: a run without monitors costs what it did."""
    code = (
        "import sys, threading; from pathlib import Path;"
        "from strandline.engine.lake.lake import Lake; from strandline.engine.lake.place import Place;"
        "from strandline.operate.session import recorder, run_over;"
        f"recorder(Lake(Place.of({str(tmp_path)!r})), print); run_over('x');"
        "assert not [each for each in sys.modules if each.startswith('opentelemetry')], 'imported';"
        "assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_headers_of_a_receiver_are_sent_and_are_secret_in_a_profile(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    lake = replace(small_lake(tmp_path / "lake"))
    with made(lake).record(None, SILVER, "available-now", lake):
        pass
    traces(lake, print).end()
    receiver.until(lambda: receiver.spans)
    assert {each["api-key"] for each in receiver.headers} == {"s3cret"}
