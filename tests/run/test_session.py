"""What is written needs no second file to be trusted."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path) -> Path:
    """Return the one file of a thousand rows."""
    rows = spark.range(1_000).selectExpr("id", "uuid() AS name").coalesce(1)
    rows.write.parquet(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("*.parquet")
    return file


def test_no_file_has_a_hidden_one_beside_it(written: Path) -> None:
    """Each would be listed with the log at every batch."""
    assert [file.name for file in written.parent.iterdir() if file.suffix == ".crc"] == []


def test_a_byte_that_has_changed_on_the_disk_is_told(spark: SparkSession, written: Path) -> None:
    """And never read as a value."""
    content = bytearray(written.read_bytes())
    content[len(content) // 2] ^= 0xFF
    written.write_bytes(content)

    with pytest.raises(Py4JJavaError, match="FAILED_READ_FILE"):
        spark.read.parquet(str(written)).selectExpr("max(name)", "sum(id)").collect()


def test_a_state_that_has_changed_on_the_disk_is_told(spark: SparkSession) -> None:
    """Spark checks the files of a checkpoint itself; if it ever does not, ours must not go without."""
    assert spark.conf.get("spark.sql.streaming.checkpoint.fileChecksum.enabled") == "true"
