"""The value of an undeclared field is kept as documented, digit by digit."""

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from strandline.core.parse import rescued
from tests.support.events import Event, frame

pytestmark = pytest.mark.whole

DECLARED = StructType().add("id", StringType())


def test_numbers_are_rescued_as_sent_up_to_seventeen_digits(spark: SparkSession) -> None:
    """Beyond that Spark writes the double next to it; bronze has the bytes."""
    payload = (
        b'{"id": "e1", "text": "a", "is": true, "whole": 12345678901234567, "part": 1.2345678901234, '
        b'"long": 12345678901234567.89, "beyond": 1e400}'
    )

    (row,) = frame(spark, [Event(payload=payload)]).select(rescued(DECLARED)).collect()

    assert json.loads(row["_rescued"]) == {
        "text": "a",
        "is": "true",
        "whole": "12345678901234567",
        "part": "1.2345678901234",
        "long": "1.2345678901234568E16",
        "beyond": '"Infinity"',
    }
