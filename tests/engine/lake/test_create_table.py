"""An empty table is created by its first commit, as Delta would have written it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType, TimestampNTZType, TimestampType
from pyspark.sql.types import _parse_datatype_string as parsed

from strandline.core.errors import DefinitionError
from strandline.core.topic import RECEIVED
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.create_table import ALWAYS
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.place import Place

KINDS = """a string, b long NOT NULL, c decimal(14,4), d timestamp, e date, f binary, g boolean, h double, i smallint,
j array<struct<x: int, y: string>>, k map<string, array<bigint>>, l struct<m: date NOT NULL, n: float>, o tinyint"""
MOMENTS = ("timestamp", "createdTime", "id", "txnId", "engineInfo")


@pytest.fixture
def path(tmp_path: Path) -> Place:
    """Return where a table will be, in a folder with an unusual name."""
    return Place.of(tmp_path / "a table, with spaces & ümlauts")


@pytest.mark.whole
@pytest.mark.parametrize("folders", [(), ("a", "e")])
def test_it_is_to_the_action_and_the_checksum_what_delta_writes(
    spark: SparkSession, tmp_path: Path, path: Place, folders: tuple[str, ...]
) -> None:
    """Every plain type, nested ones, columns without NULL, what a watermark leaves behind, folders and properties."""
    schema = parsed(KINDS)
    schema.add("at", TimestampType(), metadata={"spark.watermarkDelayMs": 1000})
    properties = {"delta.dataSkippingStatsColumns": "b,c"}

    create_table.create(spark, path, schema, partition_by=folders, properties=properties)
    theirs = Place.of(tmp_path / "theirs")
    create_table._create_by_delta(spark, theirs, schema, folders, {**ALWAYS, **properties})

    assert recorded(path) == recorded(theirs)


def recorded(path: Place) -> dict[str, Any]:
    """Return the actions of the first commit and its checksum, without moments and names drawn by chance."""
    log = path / "_delta_log"
    lines = ((log / f"{0:020d}.json").text() or "").splitlines()
    found: dict[str, Any] = {}
    for line in lines:
        found |= json.loads(line)
    sums = json.loads((log / f"{0:020d}.crc").text() or "")
    assert sums["txnId"] == found["commitInfo"]["txnId"]
    sums.pop("fileSizeHistogram", None)  # of no file
    metadata = found["metaData"]
    assert sums["metadata"] == metadata
    metadata["schemaString"] = json.loads(metadata["schemaString"])
    parameters = found["commitInfo"]["operationParameters"]
    parameters["properties"] = json.loads(parameters["properties"])
    return {
        "actions": {kind: plain(body) for kind, body in found.items()},
        "sums": {k: v for k, v in plain(sums).items() if k != "metadata"},
    }


def plain(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in MOMENTS}


@pytest.mark.whole
def test_a_table_that_asks_more_of_a_reader_is_created_by_delta(
    spark: SparkSession, path: Place
) -> None:
    """A timestamp without zone is a feature that the log must name, or other readers misread it."""
    create_table.create(spark, path, StructType().add("at", TimestampNTZType()))

    protocol = DeltaTable(path).protocol()
    assert "timestampNtz" in (protocol.reader_features or ())


@pytest.mark.whole
@pytest.mark.parametrize("name", ["a b", "a,b", "a=b"])
def test_a_name_that_delta_refuses_is_refused_before_anything_is_written(
    spark: SparkSession, path: Place, name: str
) -> None:
    with pytest.raises(Exception, match="INVALID_CHARACTERS"):
        create_table.create(spark, path, StructType().add(name, StringType()))

    assert not is_table(path)


def test_two_columns_of_one_name_are_refused_before_anything_is_written(
    spark: SparkSession, path: Place
) -> None:
    """Spark compares names without regard to case."""
    with pytest.raises(Exception, match="COLUMN_ALREADY_EXISTS"):
        create_table.create(
            spark, path, StructType().add("site", StringType()).add("Site", LongType())
        )

    assert not is_table(path)


def test_of_processes_that_create_a_table_at_once_one_does(path: Place) -> None:
    """And the others have its columns: a second first commit would replace a table that has rows."""
    schemas = [StructType().add(f"of_{n}", StringType()) for n in range(8)]

    with ThreadPoolExecutor(len(schemas)) as threads:
        list(threads.map(lambda s: create_table.write_first_commit(path, s, (), ALWAYS), schemas))

    (column,) = DeltaTable(path).schema().fields
    assert column.name in {schema.names[0] for schema in schemas}
    assert (path / "_delta_log").names() == [f"{0:020d}.crc", f"{0:020d}.json"]


def test_making_a_table_again_leaves_it_as_it_is(spark: SparkSession, path: Place) -> None:
    """Every start calls it; a table that lacks a column is refused and not changed silently."""
    schema = StructType().add("number", LongType())
    create_table.create(spark, path, schema)
    before = (path / "_delta_log" / f"{0:020d}.json").text()

    create_table.create(spark, path, schema)
    with pytest.raises(DefinitionError, match="without the column other"):
        create_table.create(spark, path, StructType().add("other", LongType()))

    assert (path / "_delta_log" / f"{0:020d}.json").text() == before
    assert latest_version(path) == 0


def test_a_table_that_was_killed_before_its_first_commit_is_created_by_the_next_run(
    spark: SparkSession, path: Place
) -> None:
    """Delta takes its log for a table and fails."""
    (path / "_delta_log").make()
    (path / "_delta_log" / ".00000000000000000000.json.d0c7.tmp").put("{")

    create_table.create(spark, path, RECEIVED)
    commit = delta_commit.Commit(spark, path)
    commit.commit("{}")

    assert latest_version(path) == 1


def test_what_is_cleared_is_no_table_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first commit comes between the look into the folder and the removal; the commit went with the folder."""
    log = Place(str(tmp_path / "table" / "_delta_log"))
    (log / ".draft").put("left by a kill")
    names = Place.names

    def seen(place: Place) -> list[str]:
        found = [*names(place)]
        (log / "00000000000000000000.json").put("the other's")
        return found

    monkeypatch.setattr(Place, "names", seen)
    create_table._clear(log)

    assert (log / "00000000000000000000.json").text() == "the other's"


def test_a_log_without_a_commit_is_cleared(tmp_path: Path) -> None:
    log = Place(str(tmp_path / "table" / "_delta_log"))
    (log / "x").put("left by a kill")

    create_table._clear(log)

    assert not log.exists()
