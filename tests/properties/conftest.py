"""Properties run with the code that Spark generates, as in production; most of the suite goes without."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support import engine


@pytest.fixture(autouse=True)
def _generated_code(spark: SparkSession) -> Iterator[None]:
    with engine.as_in_production(spark):
        yield
