"""Written files are protected without a second file of checksums, and a column expression makes few calls."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.clientserver import JavaClient
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.place import Place
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.jvm import classic, jvm
from strandline.engine.runtime.settings import settings
from tests.architecture.tree import ROOT, modules
from tests.support import engine
from tests.support.executions import executions


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path) -> Path:
    """Write a thousand rows; return their one file."""
    rows = spark.range(1_000).selectExpr("id", "uuid() AS name").coalesce(1)
    rows.write.parquet(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("*.parquet")
    return file


@pytest.mark.whole
def test_no_file_has_a_hidden_one_beside_it(written: Path) -> None:
    """Every batch would list it with the log."""
    assert [file.name for file in written.parent.iterdir() if file.suffix == ".crc"] == []


@pytest.mark.whole
def test_a_byte_that_changed_on_disk_is_detected(spark: SparkSession, written: Path) -> None:
    """It is never read as a value."""
    content = bytearray(written.read_bytes())
    content[len(content) // 2] ^= 0xFF
    written.write_bytes(content)

    with pytest.raises(Py4JJavaError, match="FAILED_READ_FILE"):
        spark.read.parquet(str(written)).selectExpr("max(name)", "sum(id)").collect()


def test_a_state_file_that_changed_on_disk_is_detected(spark: SparkSession) -> None:
    """Spark checks the files of a checkpoint itself; if it ever stops, the project must write checksums again."""
    assert spark.conf.get("spark.sql.streaming.checkpoint.fileChecksum.enabled") == "true"


def test_a_column_asks_for_no_name_and_no_line_of_python(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten questions for each of some hundred columns were half of what a batch waited for."""
    rows = spark.range(1)
    rows.select(F.col("id").cast("string"))  # the first of a process resolves more names, once
    whole: Callable[..., str] = JavaClient.send_command
    asked: list[str] = []

    def send(self: JavaClient, command: str, *words: object, **named: object) -> str:
        asked.append(command)
        return whole(self, command, *words, **named)

    with monkeypatch.context() as patched:
        patched.setattr(JavaClient, "send_command", send)
        column = F.col("id").cast("string")
        rows.select(column)

    names = [command.split("\n")[2] for command in asked if command.startswith("r\nu\n")]
    assert not [name for name in names if "Origin" in name or name in {"functions", "PythonUtils"}]
    # Python reports released objects in between, at any time.
    assert 0 < len([command for command in asked if command[0] != "m"]) <= 10, asked


def test_no_task_takes_the_process_with_it(spark: SparkSession, tmp_path: Path) -> None:
    """A text on which a function overflows the stack fails its task; by default Spark ends the JVM, and all tables with it."""
    name = "spark.executor.killOnFatalError.depth"
    here = settings(lake=tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as master:
        address = f"spark://127.0.0.1:{master.getsockname()[1]}"
        found = [
            spark_session.options(each, tmp_path / "spark.log")
            for each in (here, settings(lake=tmp_path, master=address))
        ]

    assert [each[name] for each in found] == ["0", "0"]
    assert spark.sparkContext.getConf().get(name) == "0"


def test_a_commit_costs_the_same_in_any_zone(spark: SparkSession, tmp_path: Path) -> None:
    """Where its JVM is in another than UTC, Delta computes the state of a small table at each of its commits."""
    options = spark_session.options(settings(lake=tmp_path), tmp_path / "spark.log")
    assert "-Duser.timezone=UTC" in options["spark.driver.extraJavaOptions"].split()
    path, zones = Place.of(tmp_path / "table"), jvm(spark).java.util.TimeZone
    create_table.create(spark, path, StructType().add("id", LongType()))

    def jobs(zone: str) -> int:
        own = zones.getDefault()
        zones.setDefault(zones.getTimeZone(zone))
        try:
            commit = delta_commit.Commit(spark, path)
            commit.write(spark.range(1).coalesce(1))
            return executions(spark, lambda: commit.commit("{}"))
        finally:
            zones.setDefault(own)

    assert jobs("UTC") == 0
    assert jobs("Europe/Berlin") > 0  # if Delta ever trusts them there, the option may go


def test_hadoops_configuration_stays_light(spark: SparkSession, tmp_path: Path) -> None:
    """Each write, scan and state of a batch sends it along; with all defaults and their origins it has 119 KB and takes 5 ms."""
    spark.range(1).write.parquet(str(tmp_path / "rows"))
    machine, whole = jvm(spark), classic(spark).sessionState().newHadoopConf()
    packed = machine.java.io.ByteArrayOutputStream()
    sent = machine.java.io.ObjectOutputStream(packed)
    sent.writeObject(machine.org.apache.spark.util.SerializableConfiguration(whole))
    sent.flush()

    assert packed.size() < 50_000
    assert (
        whole.get("fs.s3a.path.style.access") is not None
    )  # what lakes on a store ask for is there
    assert whole.get("mapreduce.fileoutputcommitter.algorithm.version") == "1"


@pytest.mark.whole
@pytest.mark.slow
def test_what_three_tables_need_is_compiled_once(spark: SparkSession) -> None:
    """A hundred classes, which Spark keeps by itself, are fewer than their batches need: each compiled its own anew."""
    machine = jvm(spark)
    compiled = machine.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()

    def batch() -> int:
        before = int(compiled.getCount())
        for number in range(150):
            spark.range(2).selectExpr(f"id + {number}").collect()
        return int(compiled.getCount()) - before

    with engine.as_in_production(spark):
        first, second = batch(), batch()

    assert first > 150
    assert second <= 3


def test_every_session_is_made_at_one_place() -> None:
    """So that it has the settings, whatever program begins it; what a program adds is listed with it."""
    makers = {
        str(path.relative_to(ROOT))
        for path in modules()
        if not path.is_relative_to(ROOT / "tests") and "SparkSession.builder" in path.read_text()
    }

    assert makers == {"jobs/strandline/engine/runtime/spark_session.py"}
