"""Has a target what its table has? An answer from the file of its position and the newest commits, without a JVM and without history.

A target is behind for a moment after each commit. So what counts is how old the oldest commit is that it has not got, against
the time that its declaration gives it. One that is away waits and loses nothing; rows that it has refused need a person.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from strandline.core.lateness import length_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at, is_commit
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.publish.books import Books, books_of, file_of, mark_of
from strandline.engine.publish.declared import Publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a target is.

    Args:
        well: Whether there is nothing to do.
        says: The answer as a sentence.
        grave: Whether it needs a person, and does not pass by itself.
        figures: Its position, how far it is behind, what it got and what it refused.
    """

    well: bool
    says: str
    grave: bool = False
    figures: Mapping[str, int | float | str] = field(default_factory=dict)


def progress(publish: Publish, lake: Lake, at: datetime) -> Progress:
    """Return how far the target of a publication is.

    Args:
        publish: The publication, whose table exists.
        lake: The lake.
        at: The current time.
    """
    text = file_of(lake, publish.name).text()
    books = books_of(text) if text else Books(table=publish.table.id, target=publish.shown)
    if (books.table, books.target) != (publish.table.id, publish.shown):
        says = f"{publish.name} has published {books.table} to {books.target}: give what is new a name of its own"
        return Progress(well=False, says=says, grave=True)
    place = books.place
    sent, latest = place.version - 1 if place else -1, latest_version(lake.table(publish.table))
    behind = latest - sent
    late = _seconds(publish, lake, sent + 1, at) if behind > 0 else 0.0
    if (
        place and place.whole and books.at
    ):  # the commit may be years old whose rows are on their way
        late = min(late or 0.0, max((at - datetime.fromisoformat(books.at)).total_seconds(), 0.0))
    figures: dict[str, int | float | str] = {
        "position": sent,
        "commits behind": max(behind, 0),
        **({"seconds behind": round(late, 1)} if late is not None else {}),
        "changes sent": place.accepted if place else 0,
        "rows refused": len(books.refused),
    }
    if books.refused:
        figures["what shows them"] = f"strandline publish {publish.name} --refused"
    if books.away:
        figures["waits for"] = books.away
    there = mark_of(lake.table(publish.table), place.known) if place and place.known >= 0 else ""
    if behind < 0 or (place and there and there != place.mark):
        says = (
            f"{publish.shown} has got {publish.table.id} of another history: the lake was restored, or the table made anew. "
            f"`strandline publish {publish.name} --again` sends all rows as they are now"
        )
        return Progress(well=False, says=says, grave=True, figures=figures)
    return _judged(publish, books, figures, late)


def _judged(
    publish: Publish, books: Books, figures: Mapping[str, int | float | str], late: float | None
) -> Progress:
    if books.refused:
        says = f"{publish.shown} has refused {len(books.refused):,} rows of {publish.table.id}"
        return Progress(well=False, says=says, grave=True, figures=figures)
    if books.away:
        says = f"{publish.shown} {'waits' if books.passes else 'gets nothing'}: {books.away}"
        return Progress(well=False, says=says, grave=not books.passes, figures=figures)
    if late is None or late > length_of(publish.within).total_seconds():
        since = f"the oldest of them for {late:,.0f} s" if late is not None else "some for long"
        says = (
            f"{publish.shown} has not got {figures['commits behind']:,} commits of {publish.table.id}, {since}: is "
            f"`strandline publish {publish.name}` running?"
        )
        return Progress(well=False, says=says, grave=True, figures=figures)
    behind = figures["commits behind"]
    says = f"{behind:,} commits are on their way" if behind else "it has all of it"
    return Progress(well=True, says=f"{publish.shown}: {says}", figures=figures)


def _seconds(publish: Publish, lake: Lake, version: int, at: datetime) -> float | None:
    """Return how old a commit is; None where it is no more in the log, and so is old."""
    path = lake.table(publish.table)
    if not is_commit(path, version):
        return None
    return max((at - committed_at(path, version)).total_seconds(), 0.0)
