"""Written files are protected without a second file of checksums, and a column expression makes few calls."""

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.clientserver import JavaClient
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path) -> Path:
    """Write a thousand rows; return their one file."""
    rows = spark.range(1_000).selectExpr("id", "uuid() AS name").coalesce(1)
    rows.write.parquet(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("*.parquet")
    return file


def test_no_file_has_a_hidden_one_beside_it(written: Path) -> None:
    """Every batch would list it with the log."""
    assert [file.name for file in written.parent.iterdir() if file.suffix == ".crc"] == []


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
