"""A run of a table is in a catalog of lineage with what it read and wrote, column by column, and with the ledger's figures."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import TransientError
from strandline.core.stateful import AvailableNow
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.lineage_events import RunRecorder, Sender, dataset_of
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import Parent, unrecorded
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from tests.support.events import readings, received
from tests.support.lineage import facets, into, read
from tests.support.morning import MORNING
from tests.support.rows import NOON

PARENT = Parent(run=str(uuid4()), job="catch_up", namespace="dagster")
Clock = Callable[[], datetime]


def recorder(lake: Lake, file: Path, clock: Clock, kafka: str | None = None) -> RunRecorder:
    return RunRecorder(
        lake=lake,
        sender=Sender(into(file), pytest.fail),
        clock=clock,
        kafka=lambda: kafka,
        namespace="tests",
        parent=PARENT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A lake in which silver and gold were run once, and the events about both."""

    lake: Lake
    silver: list[dict[str, Any]]
    gold: list[dict[str, Any]]
    spark: str


@pytest.fixture(scope="module")
def recorded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    lake, file = Lake(folder / "lake").open_for_writing(), folder / "events"
    received(lake, readings(MORNING))
    records = recorder(lake, file, lambda: NOON)
    site = Site(spark=spark, clock=lambda: NOON, record=records.record)
    for table in (silver.TABLE, gold.TABLE):
        run(table, AvailableNow(), lake, site=site)
    records.sender.drain(60)
    events = read(file)
    return Recorded(lake=lake, silver=events[:2], gold=events[2:], spark=spark.version)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Return a lake with a morning in bronze."""
    received(lake, readings(MORNING))
    return lake


def test_a_run_begins_and_ends_with_what_it_read_and_wrote(recorded: Recorded) -> None:
    """Names are those of OpenLineage's specification: other programs find the same folder by them."""
    first, last = recorded.silver
    lake = recorded.lake
    assert [first["eventType"], last["eventType"]] == ["START", "COMPLETE"]
    assert first["run"]["runId"] == last["run"]["runId"]
    assert last["job"]["namespace"] == "tests"
    assert last["job"]["name"] == f"{silver.TABLE.id}.available-now"
    bronze = [(each["namespace"], each["name"]) for each in last["inputs"]]
    assert bronze == [("file", lake.table(silver.TABLE.upstream[0]).path)]
    written = {each["name"]: each for each in last["outputs"]}
    own, held = (place.path for place in lake.folders(silver.TABLE))
    assert [*written] == [own, held]
    sheet = balance(silver.TABLE, lake)
    rows = {
        name: each["outputFacets"]["outputStatistics"]["rowCount"] for name, each in written.items()
    }
    assert rows == {own: sheet.good, held: sum(sheet.quarantined.values())}
    version = written[own]["facets"]["version"]["datasetVersion"]
    assert version == str(latest_version(lake.table(silver.TABLE)))
    kinds = {each["name"]: each["type"] for each in written[own]["facets"]["schema"]["fields"]}
    assert kinds["device_id"] == "string"


@pytest.mark.whole
def test_it_has_the_ledger_the_parent_and_the_columns_that_each_is_made_of(
    recorded: Recorded,
) -> None:
    lake, (_, last) = recorded.lake, recorded.gold

    sheet = balance(gold.TABLE, lake)
    ledger = last["run"]["facets"]["strandline_ledger"]
    assert (ledger["read"], ledger["good"]) == (sheet.read, sheet.good)
    assert ledger["mode"] == "available-now"
    parent = last["run"]["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (PARENT.run, PARENT.job)
    assert last["run"]["facets"]["processing_engine"]["version"] == recorded.spark
    fields = last["outputs"][0]["facets"]["columnLineage"]["fields"]
    made_of = {(each["name"], each["field"]) for each in fields["avg_value"]["inputFields"]}
    assert made_of == {(lake.table(silver.TABLE).path, "value")}


@pytest.mark.whole
def test_every_event_has_what_the_schema_of_openlineage_requires(recorded: Recorded) -> None:
    """The client's classes are made from the schema; what they do not check is an id, a time with a zone, and each facet's origin."""
    for event in (*recorded.silver, *recorded.gold):
        assert UUID(event["run"]["runId"])
        assert datetime.fromisoformat(event["eventTime"]).tzinfo
        assert event["producer"].startswith("urn:strandline:")
        for name, facet in facets(event):
            assert facet["_producer"], name
            assert ":" in facet["_schemaURL"], name


def test_a_run_that_fails_says_so_with_its_error(
    spark: SparkSession, lake: Lake, tmp_path: Path, clock: Clock
) -> None:
    """The sentence of the error, as a terminal has it, and no stack."""
    records = recorder(lake, tmp_path / "events", clock)

    with (
        pytest.raises(TransientError),
        records.record(spark, silver.TABLE, "batch", lake),
    ):
        raise TransientError("the dimension is away", hint="try again.")
    records.sender.drain(60)

    first, last = read(tmp_path / "events")
    assert (first["eventType"], last["eventType"]) == ("START", "FAIL")
    assert last["run"]["facets"]["errorMessage"]["message"] == "the dimension is away"
    assert "stackTrace" not in last["run"]["facets"]["errorMessage"]


def test_bronze_reads_topics_by_the_first_address_of_the_cluster(
    spark: SparkSession, lake: Lake, tmp_path: Path, clock: Clock
) -> None:
    bronze = silver.TABLE.upstream[0]
    records = recorder(lake, tmp_path / "events", clock, "kafka-1:9092,kafka-2:9092")

    with records.record(spark, bronze, "micro-batch", lake):
        pass
    records.sender.drain(60)

    _, last = read(tmp_path / "events")
    topics = {(each["namespace"], each["name"]) for each in last["inputs"]}
    assert topics == {("kafka://kafka-1:9092", topic.name) for topic in bronze.topics}
    assert last["job"]["facets"]["jobType"]["processingType"] == "STREAMING"


def test_a_bucket_is_named_by_its_name_and_the_key() -> None:
    named = dataset_of(Place.of("s3a://bucket/lake/silver/readings"))
    google = dataset_of(Place.of("gs://bucket/lake/silver/readings"))
    azure = dataset_of(Place.of("abfss://box@account.dfs.core.windows.net/lake/silver/readings"))

    assert (named.get_namespace(), named.get_name()) == ("s3://bucket", "lake/silver/readings")
    assert (google.get_namespace(), google.get_name()) == ("gs://bucket", "lake/silver/readings")
    assert (azure.get_namespace(), azure.get_name()) == (
        "abfss://box@account.dfs.core.windows.net",
        "lake/silver/readings",
    )


def test_runs_in_other_lakes_are_not_recorded(
    spark: SparkSession, lake: Lake, tmp_path: Path, clock: Clock
) -> None:
    """A verification computes every table in lakes of its own, which are gone when it ends."""
    records = recorder(Lake(tmp_path / "live"), tmp_path / "events", clock)

    with records.record(spark, silver.TABLE, "batch", lake) as wrote:
        wrote(silver.TABLE, None)  # type: ignore[arg-type]  # it is not looked at
    records.sender.drain(60)

    assert read(tmp_path / "events") == []


@pytest.mark.whole
def test_what_cannot_be_recorded_changes_no_run(
    spark: SparkSession, lake: Lake, tmp_path: Path, clock: Clock
) -> None:
    """It is reported once."""
    reasons = list[str]()
    records = replace(
        recorder(lake, tmp_path / "events", clock),
        sender=Sender(into(tmp_path / "events"), reasons.append),
        kafka=lambda: 1 / 0,  # type: ignore[arg-type, return-value]  # any error
    )
    site = Site(spark=spark, clock=clock, record=records.record)

    report = run(silver.TABLE, AvailableNow(), lake, site=site)

    assert report.read > 0
    assert len(reasons) == 1
    assert unrecorded is Site(spark=spark, clock=clock).record
