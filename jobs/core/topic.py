"""A Kafka topic, and how its payloads are read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from jobs.core.parse import parse_json

Parse: TypeAlias = Callable[[DataFrame, StructType], DataFrame]
"""Adds the declared fields and ``_problem`` to rows of bronze."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Kafka topic.

    Args:
        name: Its name in the cluster.
        partitions: How many to create where the project makes the topic itself.
        parse: How its payloads are read; a new format is one such function.
    """

    name: str
    partitions: int = 4
    parse: Parse = parse_json

    def __str__(self) -> str:
        """Return the topic's name."""
        return self.name
