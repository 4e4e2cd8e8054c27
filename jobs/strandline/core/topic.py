"""A Kafka topic, and how its payloads are read."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_json

Parse: TypeAlias = Callable[[DataFrame, StructType], DataFrame]
"""Adds the declared fields and ``_problem`` to rows of bronze."""

NAME = re.compile(r"[\w.-]{1,249}", re.ASCII)
"""What Kafka takes as the name of a topic."""


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

    def __post_init__(self) -> None:
        """Refuse what Kafka would refuse later, in the middle of a start.

        Raises:
            DefinitionError: The name is no name of a topic, or there is no partition.
        """
        if not NAME.fullmatch(self.name) or self.name in {".", ".."}:
            raise DefinitionError(
                f"a Topic declares name={self.name!r}, which no topic of Kafka can have",
                hint="a name has letters, digits, dots, dashes and underscores, at most 249 of them.",
            )
        if isinstance(self.partitions, bool) or self.partitions < 1:
            raise DefinitionError(
                f"topic {self.name} declares partitions={self.partitions!r}, and has at least one",
                hint="write partitions=1, or leave it out.",
                topic=self.name,
            )

    def __str__(self) -> str:
        """Return the topic's name."""
        return self.name
