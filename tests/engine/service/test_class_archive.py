"""Set-up has made the class-data archive, and Spark's JVM uses it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.engine.runtime import spark_session


def test_the_jvm_maps_the_archive_that_set_up_made(spark: SparkSession) -> None:
    """An ignored option of the JVM would look the same from outside."""
    file = spark_session.archive()
    assert file is not None
    assert file.exists(), (
        "set-up leaves a file, though an empty one where Java cannot make an archive"
    )
    if not file.stat().st_size:
        pytest.skip("this Java cannot make an archive")

    pid = spark.sparkContext._gateway.proc.pid  # the only reference to it

    assert str(file) in Path(f"/proc/{pid}/maps").read_text()
