"""Set-up has made the class-data archives, and the JVMs of Spark and of the broker use them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import spark_session


def maps(pid: int, file: Path | None) -> bool:
    """Return whether a process uses an archive: an ignored option of the JVM would look the same from outside."""
    assert file is not None
    assert file.exists(), (
        "set-up leaves a file, though an empty one where Java cannot make an archive"
    )
    if not file.stat().st_size:
        pytest.skip("this Java cannot make an archive")
    return str(file) in Path(f"/proc/{pid}/maps").read_text()


def test_spark_maps_the_archive_that_set_up_made(spark: SparkSession) -> None:
    pid = spark.sparkContext._gateway.proc.pid  # the only reference to it

    assert maps(pid, spark_session.archive())


@pytest.mark.whole
@pytest.mark.kafka
def test_the_broker_maps_its_own(tmp_path: Path) -> None:
    file, lake = broker.archive(), Lake(tmp_path / "lake")
    try:
        assert maps(broker.up(lake).pid, file.local if file else None)
    finally:
        broker.down(lake)
