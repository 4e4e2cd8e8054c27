"""Where a lake keeps what: one folder, every path derived from a table's one name."""

import os
from dataclasses import dataclass
from pathlib import Path

from jobs.core.errors import DefinitionError
from jobs.core.table import Table
from jobs.run.folder import refuse_folder
from jobs.run.ledger import is_table

WRITER = "writer"


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder with everything that a lakehouse remembers."""

    root: Path

    def __post_init__(self) -> None:
        """See that a lake can be there."""
        refuse_folder(self.root)

    def table(self, table: Table) -> Path:
        """Return the Delta table's folder."""
        return self.root / table.layer / table.name

    def quarantine(self, table: Table) -> Path:
        """Return the folder of the quarantine beside a silver table."""
        return self.root / "quarantine" / table.name

    @property
    def is_rebuilding(self) -> bool:
        """Tell whether a table of it is made anew beside the live one."""
        return False

    @property
    def gates(self) -> Path:
        """Return the folder with what is written about gates."""
        return self.root / "_gates"

    @property
    def docs(self) -> Path:
        """Return the folder with Great Expectations' own pages."""
        return self.root / "_docs"

    def audit(self, table: Table) -> Path:
        """Return the file that says what the last look at a table's rows found."""
        return self.root / "_audits" / f"{table.id}.json"

    def resolutions(self, table: Table) -> Path:
        """Return the folder that says what was done about the rows of a quarantine."""
        return self.root / "resolutions" / table.name

    def checkpoint(self, table: Table) -> Path:
        """Return the folder with the state of the table's stream."""
        return self.root / "_checkpoints" / table.id

    def lease(self, table: Table, role: str = WRITER) -> Path:
        """Return the file whose lock makes one process the table's writer, or gives it another role."""
        return self.lease_of(table.id if role == WRITER else f"{table.id}.{role}")

    def lease_of(self, name: str) -> Path:
        """Return that file of a table of which only the name is known."""
        return self.root / "_leases" / f"{name}.lock"

    def certificate(self, table: Table, *, is_whole: bool = True) -> Path:
        """Return the file that says how the table was last verified, or how a range of it was."""
        name = table.id if is_whole else f"{table.id}.range"
        return self.root / "_certificates" / f"{name}.json"

    def lineage(self, table: Table) -> Path:
        """Return the file that says from which columns those of the table are made."""
        return self.root / "_lineage" / f"{table.id}.json"

    def log(self, name: str) -> Path:
        """Return the file for the log of a program."""
        return self.root / "_logs" / f"{name}.log"

    @property
    def history(self) -> Path:
        """Return the folder of the table that remembers what every commit said."""
        return self.root / "quality" / "history"

    def report(self, day: str) -> Path:
        """Return the file for a report that begins on a day."""
        return self.root / "quality" / f"report-{day}.html"

    @property
    def dagster(self) -> Path:
        """Return the folder in which Dagster keeps its runs and events."""
        return self.root / "_dagster"

    @property
    def heartbeat(self) -> Path:
        """Return the file in which an always-on stream says that it lives."""
        return self.root / "_stream.json"

    @property
    def order(self) -> Path:
        """Return the file that says whether the always-on stream is to run."""
        return self.root / "_order.json"

    def folders(self, table: Table) -> tuple[Path, ...]:
        """Return the table's Delta folders: its own, and its quarantine if it has one."""
        own = (self.table(table),)
        return (*own, self.quarantine(table)) if table.judges else own

    def books(self, table: Table) -> tuple[Path, ...]:
        """Return those folders and the resolutions, which together say where each event is."""
        return (*self.folders(table), *((self.resolutions(table),) if table.judges else ()))

    def exists(self, table: Table) -> bool:
        """Tell whether the table was ever made."""
        return is_table(self.table(table))

    def refuse_missing(self, table: Table) -> None:
        """See that the table was ever made.

        Raises:
            DefinitionError: It was not.
        """
        if not self.exists(table):
            raise DefinitionError(
                f"{table.id} does not exist in {self.root} yet",
                hint=f"run it first: `strandline run {table.id}`.",
                table=table.id,
            )

    def open_for_writing(self) -> "Lake":
        """Make the folder if need be and prove that it can be written.

        Raises:
            DefinitionError: The folder cannot be made or written.
        """
        probe = self.root / f".probe-{os.getpid()}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise DefinitionError(
                f"the lake folder {self.root} cannot be written: {error.strerror}",
                hint="make the folder writable, or choose another with --lake or STRANDLINE_LAKE.",
                lake=str(self.root),
            ) from error
        return self
