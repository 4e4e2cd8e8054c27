"""The way into the JVM, for what Delta and the kernel offer nowhere else."""

from typing import Any

from pyspark.sql import SparkSession


def jvm(spark: SparkSession) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return the view of the JVM that the session's process runs in."""
    return spark._jvm  # noqa: SLF001  # there is no public way


def classic(spark: SparkSession) -> Any:  # noqa: ANN401
    """Return the JVM's own session behind the Python one."""
    return spark._jsparkSession  # noqa: SLF001
