"""Which rows of a table differ between two of its versions, from the files that came and went; no change feed is kept."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from jobs.run.ledger import files_between


def changed_rows(spark: SparkSession, path: Path, before: int, now: int) -> DataFrame | None:
    """Return the rows that one version has and the other has not; None when no file came or went.

    A column that divides the table's folders is not in its files, so it is not among the columns.
    """
    came, went = files_between(path, before + 1, now)
    new = spark.read.parquet(*sorted(came)) if came else None
    old = spark.read.parquet(*sorted(went)) if went else None
    if new is None or old is None:
        return new if old is None else old
    return new.exceptAll(old).unionByName(old.exceptAll(new))
