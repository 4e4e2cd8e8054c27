"""How far each target has come, what it refused, and what it waits for: a small file of the lake for each.

Without the declarations, because every lake is asked for its status; and without a JVM.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at, is_commit
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.store_lease import note_of_holder

STORED, LOCK = ".json", ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a target is in its table. Its counts are of one generation, and each change is counted once.

    Args:
        version: The version of the table that is sent.
        done: How many of its rows were.
        whole: Whether all its rows are sent; otherwise those that it changed.
        mark: When the version before it was committed, or this one of which all is sent; another moment is another table.
        generation: How often all was sent anew.
        read: Changes that were read from the table.
        refused: Those of them that the target has refused; it has accepted the others.
    """

    version: int
    done: int = 0
    whole: bool = False
    mark: str = ""
    generation: int = 1
    read: int = 0
    refused: int = 0

    @property
    def accepted(self) -> int:
        """Return the changes that the target has acknowledged."""
        return self.read - self.refused

    @property
    def known(self) -> int:
        """Return the version whose moment is its mark."""
        return self.version if self.whole else self.version - 1

    def text(self) -> str:
        """Return it as a target keeps it."""
        return json.dumps(asdict(self))


def position(text: str) -> Position:
    """Return a position that a target has kept."""
    return Position(**json.loads(text))


@dataclass(kw_only=True)
class Books:
    """What the lake keeps of a target.

    Args:
        table: The table.
        target: The target, as people call it.
        place: Where it is; None before the first change is read.
        refused: The changes that the target has refused and has no later one of: by key the id, the version and the reason.
        replayed: Rows that were sent again on request.
        away: What it waits for.
        passes: Whether that passes by itself.
        at: When this was written.
    """

    table: str
    target: str
    place: Position | None = None
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)
    replayed: int = 0
    away: str | None = None
    passes: bool = True
    at: str = ""

    def text(self) -> str:
        """Return them as they are stored."""
        return json.dumps(asdict(self), ensure_ascii=False)


def books_of(text: str) -> Books:
    """Return stored books."""
    stored = json.loads(text)
    known = {each.name for each in fields(Books)}
    place = stored.pop("place", None)
    kept = {name: value for name, value in stored.items() if name in known}
    return Books(**kept, place=Position(**place) if place else None)


def mark_of(path: Place, version: int) -> str:
    """Return when a version was committed, by which a table that was restored or made anew is another; empty where it is gone."""
    return committed_at(path, version).isoformat() if is_commit(path, version) else ""


def file_of(lake: Lake, name: str, kind: str = STORED) -> Place:
    """Return the file of a publication, or of its lock."""
    return lake.publications / f"{name}{kind}"


def refusals(lake: Lake, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return by key the changes that a target has refused and has no later one of."""
    text = file_of(lake, name).text()
    return books_of(text).refused if text else {}


def publications(lake: Lake) -> Iterator[Mapping[str, Any]]:
    """Yield each target of the lake with its figures: what it got, how far it is behind, and the process that sends to it."""
    for file in lake.publications.names():
        text = (lake.publications / file).text() if file.endswith(STORED) else None
        if text is None:
            continue
        name = file.removesuffix(STORED)
        books = books_of(text)
        at = books.place
        layer, _, table = books.table.partition(".")
        holder = note_of_holder(file_of(lake, name, LOCK))
        yield {
            "name": name,
            "table": books.table,
            "target": books.target,
            "read": at.read if at else 0,
            "accepted": at.accepted if at else 0,
            "refused": len(books.refused),
            "replayed": books.replayed,
            "lag": _behind(lake.root / layer / table, at),
            "away": books.away,
            "at": books.at,
            "process": json.loads(holder) if holder else None,
        }


def published(lake: Lake, tables: Sequence[str] | None = None) -> Iterator[str]:
    """Yield a sentence for each target of all tables, or of some: where the changes are that were read for it."""
    for each in publications(lake):
        if tables and each["table"] not in tables:
            continue
        who = f"process {each['process'].get('pid')}" if each["process"] else "no process"
        behind = f"{each['lag']:,} versions behind" if each["lag"] else "up to date"
        more = f", {each['replayed']:,} sent once more" if each["replayed"] else ""
        yield (
            f"published from {each['table']} to {each['target']} ({each['name']}): {each['read']:,} changes read = "
            f"{each['accepted']:,} accepted + {each['read'] - each['accepted']:,} refused, {behind}{more}; {who}, as of {each['at']}"
        )
        if each["refused"]:
            yield f"        {each['refused']:,} rows are refused: `strandline publish {each['name']} --refused` lists them"
        if each["away"]:
            yield f"        waits: {each['away']}"


def _behind(path: Place, at: Position | None) -> int:
    """Return how many versions of the table are not sent to their end."""
    latest = latest_version(path)
    return latest + 1 if at is None else latest - at.version + 1
