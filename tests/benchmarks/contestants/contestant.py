"""What every contestant can do, and where each of them finds and leaves its rows.

All of them use the folders of a ``Lake``, so that the same oracle counts their rows and the same feeder
gives them their input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

BRONZE = "bronze.device_telemetry"
SILVER = "silver.device_telemetry"
GOLD = "gold.device_signal_10m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One run of one contestant.

    Args:
        root: A folder that nothing else writes.
        address: host:port of a broker.
        topic: The topic that bronze reads.
        on_change: Gold emits a window on each change, instead of once.
        partitions: Shuffle partitions of a contestant that has not chosen its own.
    """

    root: Path
    address: str
    topic: str
    on_change: bool = False
    partitions: int = 200

    def table(self, name: str) -> str:
        """Return the folder of a table."""
        return str(self.root.joinpath(*name.split(".")))

    @property
    def quarantine(self) -> str:
        """Return the folder of silver's other half."""
        return str(self.root / "quarantine" / "device_telemetry")

    def checkpoint(self, name: str) -> str:
        """Return the folder of a query's checkpoint."""
        return str(self.root / "_checkpoints" / name)


Stop = Callable[[], None]


class Contestant(Protocol):
    """One way to write the slice."""

    def session(self, log: Path) -> SparkSession:
        """Start Spark as this contestant would."""

    def catch_up(self, name: str, place: Place) -> None:
        """Bring a table to where its source ends, and return."""

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Run tables always on, each batch as soon as there is something, and say how to stop."""
