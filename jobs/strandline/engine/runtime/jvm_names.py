"""Names of the JVM that PySpark asks for again and again, resolved once."""

from pyspark.sql import SparkSession

from strandline.engine.runtime.jvm import jvm

NAMES = {
    "functions": ("col", "lit", "when", "not", "coalesce", "expr"),
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": (),
    "org.apache.spark.sql.functions": ("col", "lit", "when", "not", "coalesce", "expr"),
    "org.apache.spark.sql.classic.SparkSession": (),
    "org.apache.spark.util.Utils": (),
    "org.apache.spark.sql.internal.SQLConf": (),
    "org/apache/spark/util/Utils": (),
    "org/apache/spark/sql/SaveMode": (),
    "org/apache/spark/sql/delta/DeltaLog": (),
    "org/apache/spark/sql/delta/DeltaOperations": (),
    "org/apache/spark/sql/delta/actions/Action": (),
    "scala/Option": (),
    "java/io/RandomAccessFile": (),
    "java/lang/String": (),
    "java/util/ArrayList": (),
    "py4j/reflection/TypeUtil": ("isInstanceOf",),
    "scala/jdk/javaapi/CollectionConverters": (),
}
"""Names of the JVM, and of their methods, that PySpark resolves hundreds of times a minute; a slash where a package is
resolved first."""


def remember(spark: SparkSession) -> None:
    """Resolve some names of the JVM once.

    PySpark resolves ``functions`` for every column expression; the JVM then tries each package that PySpark has imported,
    and searches every jar for each. That was a fourteenth of the work of short batches [stack samples]. Then it asks for
    the method: 2,400 of the 16,000 calls of a replay, for which the JVM reads the class's methods each time.
    """
    view = jvm(spark)
    for name, methods in NAMES.items():
        place = view
        for part in name.split("/"):
            # A view calls the JVM for every name that is not one of its attributes.
            vars(place).setdefault(part, getattr(place, part))
            place = vars(place)[part]
        for method in methods:
            vars(place).setdefault(method, getattr(place, method))
