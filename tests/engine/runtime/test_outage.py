"""An outage is recognised by the libraries' real messages; a fault is not waited for."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.util import _load_from_socket

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.runtime.jvm import jvm
from strandline.engine.runtime.outage import absence

CLOSED_PORT = "127.0.0.1:1"


def failure(work: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # which one it is, is the question
        work()
    return caught.value


@pytest.mark.whole
def test_the_projects_own_errors() -> None:
    away = TransientError("no broker", hint="start it.")

    assert absence(away) is away
    assert absence(DataError("lost", hint="look.")) is None
    assert absence(DefinitionError("no topic", hint="make it.")) is None
    assert absence(ValueError("a mistake of ours")) is None


def test_a_broker_that_the_c_client_does_not_reach() -> None:
    client = Consumer({"bootstrap.servers": CLOSED_PORT, "group.id": "x", "log_level": 0})

    error = failure(lambda: client.list_topics(timeout=1))
    client.close()

    assert isinstance(error, KafkaException)
    assert "no Kafka broker answers" in str(absence(error))


@pytest.mark.whole
def test_a_broker_that_spark_does_not_reach(spark: SparkSession) -> None:
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", CLOSED_PORT)
        .option("kafka.request.timeout.ms", "900")
        .option("kafka.default.api.timeout.ms", "1000")
        .option("fetchOffset.numRetries", "1")
        .option("assign", '{"t": [0]}')
        .option("startingOffsets", '{"t": {"0": 0}}')
        .option("endingOffsets", '{"t": {"0": 1}}')
    )

    assert "no Kafka broker answers" in str(absence(failure(lambda: frame.load().count())))


def test_a_disk_without_room_for_the_jvm(spark: SparkSession) -> None:
    stream = jvm(spark).java.io.FileOutputStream("/dev/full")

    assert "no room left" in str(absence(failure(lambda: stream.write(1))))


def test_rows_that_did_not_come_from_the_jvm_in_time(spark: SparkSession) -> None:
    """As the query of a stream says it, whose function fetches rows from a socket that is closed meanwhile."""

    def fetch(_: DataFrame, __: int) -> None:
        with _load_from_socket((1, "secret"), CPickleSerializer()):  # type: ignore[arg-type]  # as the JVM names one
            pass

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = rows.writeStream.foreachBatch(fetch).trigger(availableNow=True).start()

    assert "did not reach each other" in str(absence(failure(query.awaitTermination)))


@pytest.mark.whole
def test_a_mistake_in_a_query_is_no_outage(spark: SparkSession) -> None:
    assert absence(failure(lambda: spark.sql("SELECT nothing FROM nowhere"))) is None
    assert absence(failure(lambda: spark.sql("SELECT raise_error('x')").collect())) is None
