"""The options of a session as a file for ``spark-submit --properties-file``: ``python -m strandline.cli.spark_properties``.

It is made for the lake and the cluster of the settings, and has no secret: keys stay in the environment.
"""

from collections.abc import Mapping

from strandline.cli.screen import record
from strandline.engine.runtime import spark_session
from strandline.operate import lakes


def lines(options: Mapping[str, str]) -> list[str]:
    r"""Return options in the form of Java's properties, in which a backslash is written twice.

    >>> lines({"spark.a": "one two"})
    ['spark.a=one two']
    """
    return [f"{name}={value}".replace("\\", "\\\\") for name, value in options.items()]


if __name__ == "__main__":
    found, lake = lakes.configured(None)
    chosen = spark_session.options(found, lake.program_log("spark"))
    # All jars, because spark-submit is not given our variable of those at the end.
    whole = {"spark.driver.extraClassPath": ":".join(spark_session.class_path(found))}
    for line in lines({**chosen, **whole}):
        record(line)
