"""What the tests of the vocabulary share."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.support.payloads import Parse, parse


@pytest.fixture
def parsed(spark: SparkSession) -> Parse:
    """Return a function that parses payloads in one job and keeps their order."""
    return partial(parse, spark)
