"""What one kind of program adds to the Spark session of all."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Options and jars beside those of every session.

    Args:
        options: Options of Spark, which win over the others.
        jars: Jars at the end of the class path.
    """

    options: dict[str, str] = field(default_factory=dict)
    jars: Sequence[Path] = ()


NOTHING = Added()
