"""A lake can be in any folder whose path Spark, delta-rs and DuckDB read alike; any other is refused at the start."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pyspark
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.duckdb_table import peek, scan, spilling
from strandline.engine.lake.lake import Lake, unwritable
from strandline.engine.lake.open_table import live_files
from strandline.engine.lake.place import Place
from strandline.engine.runtime import spark_session
from strandline_infra import java

MOMENT = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
ODD = ["a lake of Jürgen's", 'say "lake"', "x & y; $z (1) #2 ~ +=@!", "湖", "l" * 200]
MISREAD = [
    "a,b",
    "100%41",
    "[x]",
    "l*",
    "l?",
    "{x}",
    "back\\slash",
    "tick`",
    "a^b",
    "a|b",
    "two\nlines",
]


@pytest.mark.whole
@pytest.mark.parametrize("name", ODD)
def test_a_table_in_an_odd_folder_is_written_and_read_by_every_program(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Spark writes it; delta-rs and DuckDB read it, and delta-rs hands a space on as %20."""
    table = Lake(tmp_path / name).open_for_writing().root / "gold" / "numbers"
    rows = spark.range(3).coalesce(1)
    create_table.create(spark, table, rows.schema)
    commit = delta_commit.Commit(spark, table)
    commit.write(rows)
    commit.commit("{}")

    assert spark.read.format("delta").load(str(table)).count() == 3
    assert all(Path(file).is_file() for file in live_files(DeltaTable(table)))
    assert peek(table, "numbers").ask("SELECT count(*) FROM numbers") == [(3,)]


@pytest.mark.whole
@pytest.mark.parametrize("name", ["plain", *ODD[:3]])
def test_the_folders_of_a_partitioned_table_keep_their_own_characters(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Spark names the folder of a time ``00%3A00``, which is no URL and must not be decoded as one."""
    table = Lake(tmp_path / name).open_for_writing().root / "gold" / "hours"
    rows = spark.range(3).selectExpr("id", "TIMESTAMP '2026-11-20 12:30:00' AS at").coalesce(1)
    create_table.create(spark, table, rows.schema, partition_by=["at"])
    commit = delta_commit.Commit(spark, table)
    commit.write(rows)
    commit.commit("{}")

    files = live_files(DeltaTable(table))

    assert len(files) == 1
    assert all(Path(file).is_file() for file in files)
    with spilling() as duck:
        scan(duck, "hours", table)
        assert duck.execute('SELECT count(*), min("at") FROM hours').fetchall() == [(3, MOMENT)]


@pytest.mark.parametrize("name", MISREAD)
def test_a_folder_that_some_program_would_misread_is_refused(tmp_path: Path, name: str) -> None:
    """Before anything is created; the message names the character."""
    with pytest.raises(DefinitionError, match="cannot be used, because its path contains"):
        Lake(tmp_path / name)


def test_a_lake_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """Also by the verbs that only read, which would otherwise look for tables below it."""
    (tmp_path / "file").touch()

    with pytest.raises(DefinitionError, match="is a file, not a lake"):
        Lake(tmp_path / "file")
    with pytest.raises(DefinitionError, match="cannot be written: Not a directory"):
        Lake(tmp_path / "file" / "lake")


def test_a_folder_whose_files_would_have_no_room_for_their_names_is_refused(
    tmp_path: Path,
) -> None:
    """One name that is too long for a file system, and one path."""
    with pytest.raises(DefinitionError, match="File name too long"):
        Lake(tmp_path / ("l" * 300))
    with pytest.raises(DefinitionError, match="longer than"):
        Lake(tmp_path / "/".join(["l" * 200] * 18))


@pytest.mark.whole
@pytest.mark.parametrize("name", ["plain", *ODD])
def test_the_java_that_is_started_gets_each_option_whole(tmp_path: Path, name: str) -> None:
    """Spark's own launcher splits the line of options, and prints the arguments with which it would start Java."""
    log, scratch = tmp_path / name / "spark.log", tmp_path / name / "scratch"
    conf = spark_session.placed(log, scratch, [f"-XX:SharedArchiveFile={tmp_path / name}.jsa"])
    launcher = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    words = [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    spark_home = Path(pyspark.__file__).parent

    done = subprocess.run(
        [
            f"{java.java_home()}/bin/java",
            "-cp",
            f"{spark_home}/jars/*",
            *launcher,
            *words,
            "pyspark-shell",
        ],
        env={**os.environ, "SPARK_HOME": str(spark_home), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=True,
    )

    options = done.stdout.split("\0")
    assert f"-Dstrandline.log={log}" in options
    assert f"-Djava.io.tmpdir={scratch}" in options
    assert f"-XX:SharedArchiveFile={tmp_path / name}.jsa" in options
    (config,) = (option for option in options if option.startswith("-Dlog4j2."))
    assert Path(urlsplit(config.partition("=")[2]).path).is_file()


def test_a_full_disk_is_no_folder_that_must_be_made_writable(tmp_path: Path) -> None:
    """`up` said *correct the command* (2) and asked to make the folder writable, where room was wanted."""
    with pytest.raises(OSError, match="No space left") as full:
        Path("/dev/full").write_bytes(b"x")

    found = unwritable(Place.of(tmp_path), full.value)

    assert isinstance(found, TransientError)
    assert "no room left" in found.message
