"""What every contestant can do, and where each of them finds and leaves its rows.

All of them use the folders of a ``Lake``, whatever the format of their tables, so that the same oracle reads their rows and
the same feeder gives them their input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deltalake import DeltaTable

BRONZE = "bronze.device_telemetry"
SILVER = "silver.device_telemetry"
GOLD = "gold.device_signal_10m"
TELEMETRY = (BRONZE, SILVER, GOLD)

ADS = ("bronze.ad_events", "silver.ad_events", "gold.ad_views_10s")
"""The tables of the Yahoo streaming benchmark; a contestant without layers fills the last one alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One run of one contestant.

    Args:
        root: A folder that nothing else writes.
        address: host:port of a broker.
        topic: The topic that bronze reads.
        on_change: Gold emits a window on each change, instead of once.
        partitions: Shuffle partitions of a contestant that has not chosen its own.
        variant: Which of its settings a contestant runs with, where it has several.
    """

    root: Path
    address: str
    topic: str
    on_change: bool = False
    partitions: int = 200
    variant: str = ""

    def table(self, name: str) -> str:
        """Return the folder of a table."""
        return str(self.root.joinpath(*name.split(".")))

    @property
    def quarantine(self) -> str:
        """Return the folder of silver's other half."""
        return str(self.root / "quarantine" / "device_telemetry")

    @property
    def counted(self) -> str:
        """Return the topic into which a contestant without tables counts."""
        return f"{self.topic}-counted-{self.root.name}"

    def checkpoint(self, name: str) -> str:
        """Return the folder of a query's checkpoint."""
        return str(self.root / "_checkpoints" / name)


def files(table: str) -> list[str]:
    """Return the files that a table consists of: of Delta by its log, of others all that are not in the making."""
    folder = Path(table)
    if folder.is_file():
        return [table]
    if (folder / "_delta_log").exists():
        return list(DeltaTable(table).file_uris())
    within = ((file, file.relative_to(folder).parts) for file in folder.rglob("*"))
    return [
        str(file)
        for file, parts in within
        if file.is_file()
        and not any(part.startswith((".", "_")) or part == "metadata" for part in parts)
    ]


Stop = Callable[[], None]


class Contestant(Protocol):
    """One way to write the slice."""

    def begin(self, log: Path) -> dict[str, str]:
        """Start what it runs on, and return the versions that matter."""

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Bring tables to where their sources end, one after the other or all at once, and return."""

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Run tables always on, each batch as soon as there is something, and say how to stop."""
