"""Moments that are noted, and the one at which a question is asked.

A moment that is noted has a number and is found by its time: a small file each, named for both, so that one listing finds it
(how one is found: jobs/strandline/engine/ask/find_moment.py). A question that ends with ``AT MOMENT`` reads each of its tables at the
version that the moment has, and a comparison does so at both of its ends.
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.kind import in_utc
from strandline.core.table import Table
from strandline.engine.ask.find_moment import Finder, Moment, owner_of
from strandline.engine.ask.lake_views import sources
from strandline.engine.lake.duckdb_table import words_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.log.ledger_sums import EPOCH, MICROSECOND, place_of
from strandline.engine.lake.log.log_actions import changes_rows, table_id
from strandline.engine.lake.open_table import readable_from, version_at
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import hold
from strandline.engine.runtime.settings import settings

LATEST = "LATEST"
LIVE = "LIVE"
"""What a session over JDBC calls that it reads at no moment."""

HOW = (
    "end the question with AT MOMENT LATEST, AT MOMENT '2026-11-26 09:00' (in UTC), or AT MOMENT and a number, or a name in "
    "quotes, of `strandline moments`."
)
MADE_ANEW = "it was made anew since"

# Moments that are noted: a small file each, in the order of their numbers.


FOLDER = "_moments"
LOCK = "note.lock"
FILE = re.compile(r"(?P<number>\d{10})-(?P<micros>\d+)\.json")
DENSE = 256
"""The newest notes, of which each stays; up to twice as far back each second does, up to four times each fourth, and so on."""

THINNED = 16
"""Notes that go with a new one at most: on a store each is a request. In a lake that has few, one goes for each that comes."""

LOOKED_THROUGH = 100
"""The moments that are opened to find one that has all tables of a question."""


@dataclass(frozen=True, slots=True, order=True)
class Noted:
    """A moment that is noted, as the name of its file says."""

    number: int
    at: datetime
    place: Place

    def read(self) -> Moment | None:
        """Return the moment; None where it was removed meanwhile, or its file is torn."""
        try:
            text = self.place.text()
            if text is None:
                return None
            found: dict[str, Any] = json.loads(text)
            known = {name: found[name] for name in ("versions", "offsets", "behind", "ids", "by")}
        except (ValueError, LookupError, TypeError):  # torn
            return None
        return Moment(at=self.at, number=self.number, **known)


def noted(lake: Lake) -> list[Noted]:
    """Return the moments that are noted, the oldest first; none is opened."""
    folder = lake.root / FOLDER
    names = (FILE.fullmatch(name) for name in folder.names())
    return sorted(
        Noted(int(each["number"]), EPOCH + int(each["micros"]) * MICROSECOND, folder / each[0])
        for each in names
        if each
    )


def newest_noted(known: Sequence[Noted]) -> Moment | None:
    """Return the last of the moments that are noted; None where there is none."""
    return known[-1].read() if known else None


def note(
    lake: Lake, tables: Sequence[Table], by: str, finder: Finder | None = None
) -> Moment | None:
    """Find the newest moment and note it, unless it is noted; return it.

    Args:
        lake: The lake.
        tables: All tables of the lake.
        by: What notes it: a run, a stream, a person.
        finder: What has found moments before.

    Returns:
        The moment; None where none was found.
    """
    finder = finder or Finder(lake)
    if finder.known is None:
        finder.known = newest_noted(noted(lake))
    found = finder.find(tables)
    if found is None:
        return None
    # In the lake itself: two machines that note moments of one lake on a store would give one number twice.
    with hold(lake.root / FOLDER / LOCK):
        known = noted(lake)
        newest = newest_noted(known)
        if newest is not None and _is_equal(newest, found):
            return newest
        fresh = replace(found, number=known[-1].number + 1 if known else 1, by=by)
        micros = (fresh.at - EPOCH) // MICROSECOND
        file = lake.root / FOLDER / f"{fresh.number:010d}-{micros}.json"
        file.put(json.dumps(fresh.record(), separators=(",", ":")))
        thin(known)
    return fresh


def thin(known: Sequence[Noted]) -> None:
    """Remove some of the old notes: of a lake that is never maintained there are as few as of any other, and a look lists them all.

    By their numbers, which no clock moves; of those that maintenance keeps readable, and of the one before them, none.
    """
    times, newest = _held_since(known), known[-1].number if known else 0
    before = times[-1] - timedelta(seconds=settings().moments_kept) if times else EPOCH
    old = (each for each, next_at in zip(known, times[1:], strict=False) if next_at < before)
    # Doubled from step to step, so what stays of one step is what is left of it in the next.
    due = (
        each for each in old if each.number % (1 << ((newest - each.number) // DENSE).bit_length())
    )
    for each in islice(due, THINNED):
        each.place.remove_file()


def _is_equal(one: Moment, other: Moment) -> bool:
    return (one.versions, one.ids) == (other.versions, other.ids)


def note_or_reason(lake: Lake, tables: Sequence[Table], by: str) -> str:
    """Note the newest moment, and return why that failed; no run fails for it, as its rows are committed."""
    try:
        note(lake, tables, by)
    except Exception as error:  # noqa: BLE001  # the next run notes one
        return f"{type(error).__name__}: {error}"
    return ""


# What a question at a moment names: which moment, and the version of each of its tables.


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the moment at which it is asked.

    Args:
        sql: The question without its end.
        which: ``LATEST``, a number, or a time as it was written; None where it is asked of what there is.
    """

    sql: str
    which: str | int | None = None


def split(sql: str) -> Asked:
    """Take ``AT MOMENT …`` off the end of a question, by the tokens of DuckDB: not out of a text, and not out of a comment.

    Raises:
        DefinitionError: What follows it is no moment.
    """
    words = words_of(sql)
    if words and words[-1].text == ";":
        words = words[:-1]
    asks = [each.text.upper() for each in words[-3:]]
    if asks[-2:] == ["AT", "MOMENT"]:
        raise DefinitionError("AT MOMENT needs a moment", hint=HOW)
    if asks[:2] != ["AT", "MOMENT"]:
        return Asked(sql)
    question = sql.encode()[: words[-3].begins].decode()
    return Asked(question.rstrip(), _which(words[-1].text))


def _which(word: str) -> str | int:
    if _is_number(word):
        return int(word)
    if word.upper() == LATEST:
        return LATEST
    if len(word) > 1 and word[0] == word[-1] == "'":
        return word[1:-1]
    raise DefinitionError(f"{word} is no moment", hint=HOW)


def at_time(text: str | datetime) -> datetime:
    """Return the time that a moment is asked for by; without a zone it is in UTC.

    Raises:
        DefinitionError: It is none.
    """
    try:
        found = text if isinstance(text, datetime) else datetime.fromisoformat(text)
        return in_utc(found).astimezone(UTC)
    except (ValueError, OverflowError) as error:  # in UTC it may be of no year that Python has
        raise DefinitionError(
            f"{text!r} is no time, and no moment has that name", hint=HOW
        ) from error


def moment_of(value: object) -> datetime:
    """Return the moment that an ``AT (TIMESTAMP => …)`` means; without a zone it is in UTC.

    Raises:
        DefinitionError: It is none.
    """
    try:
        match value:
            case datetime():
                found = value
            case date():
                found = datetime(value.year, value.month, value.day, tzinfo=UTC)
            case str():
                found = datetime.fromisoformat(value)
            case _:
                raise ValueError(value)  # noqa: TRY301  # one sentence for both
        return in_utc(found).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise DefinitionError(
            f"{value!r} is no moment", hint="write AT (TIMESTAMP => '2026-11-20 12:00'), in UTC."
        ) from error


def chosen(
    which: str | int | datetime, names: Collection[str], tables: Sequence[Table], lake: Lake
) -> Moment:
    """Return the moment that is asked for, with all tables of a question.

    The latest is found as it is asked for, and is noted or not; on a store the last that was noted is taken. Of those of before the
    newest up to a time is taken that has them all; of a time that is still to come that is the last. A table that was made anew since
    is lost to a moment: a version of its name is another table's.

    Args:
        which: ``LATEST``, a number, a time, or the name of one that is kept.
        names: The tables, as a query names them.
        tables: All tables of the lake.
        lake: The lake.

    Raises:
        DefinitionError: There is none.
    """
    known = noted(lake)
    which = which_of(which) if isinstance(which, str) else which
    if isinstance(which, int):
        return _numbered(which, names, known, lake)
    if isinstance(which, str) and (kept := find_named(lake, which)) is not None:
        refuse_apart(kept, names)
        return kept
    until = None if str(which).upper() == LATEST else at_time(which)
    why = ""
    # On a store each commit that is looked at is a request, and what a stream has noted is seconds old.
    looks = until is None and (lake.root.is_local or not known)
    newest = newest_noted(known) if looks else None
    if looks and (found := Finder(lake, newest).find(tables)) is not None:
        why = _lacking(found, names) or ""
        if not why:
            return newest if newest is not None and _is_equal(newest, found) else found
    before = [each for each in known if until is None or each.at <= until]
    present = Present(lake)
    for each in sorted(before, key=lambda each: (each.at, each.number))[: -LOOKED_THROUGH - 1 : -1]:
        moment = each.read()
        lacks = None if moment is None else _lacking(moment, names)
        if moment is not None and lacks is None:
            moment = present.of(moment)
            if (lacks := _lacking(moment, names)) is None:
                return moment
        why = why or (lacks or "")
    raise _without(until, known, why, lake)


def _numbered(number: int, names: Collection[str], known: Sequence[Noted], lake: Lake) -> Moment:
    moment = next((each.read() for each in known if each.number == number), None)
    if moment is None:
        span = (
            f"those that are noted are {known[0].number:,} to {known[-1].number:,}"
            if known
            else "none is noted"
        )
        raise DefinitionError(
            f"there is no moment {number:,} in {lake.root}",
            hint=f"{span}, of old ones some; `strandline moments` lists them, and maintenance removes what can be read no more.",
            moment=number,
        )
    found = Present(lake).of(moment)
    refuse_apart(found, names)
    return found


Choose = Callable[[str | int, Collection[str]], Moment]
"""Returns the moment that a question names, with all of its tables."""

Default = Callable[[Collection[str]], Moment | None]
"""Returns the moment of a question that names none, by its tables; None for what there is."""


def choosing(tables: Sequence[Table], lake: Lake) -> Choose:
    """Return what chooses a moment of a lake."""
    known = sources(tables, lake)

    def choose(which: str | int, names: Collection[str]) -> Moment:
        return chosen(which, [each for each in names if each in known], tables, lake)

    return choose


def live(_: Collection[str]) -> None:
    """Let a question be asked of what there is."""


def fixed(moment: Moment) -> Default:
    """Let each question be asked at a moment, and refuse a table that is no part of it: it would be read as it is now."""

    def same(names: Collection[str]) -> Moment:
        refuse_apart(moment, names)
        return moment

    return same


def for_files(choose: Choose, says: Callable[[str], None]) -> Default:
    """Let a question over several tables be asked at the latest moment, where one has them all: what a file says is quoted."""

    def latest(names: Collection[str]) -> Moment | None:
        if len(names) < 2:  # noqa: PLR2004  # several
            return None
        try:
            return choose(LATEST, names)
        except DefinitionError as error:
            says(f"{error.message}: each table is read as it is now, and they may differ")
            return None

    return latest


def refuse_apart(moment: Moment, names: Collection[str]) -> None:
    """Refuse a moment of which a table of a question is no part.

    Raises:
        DefinitionError: One is none.
    """
    if why := _lacking(moment, names):
        raise DefinitionError(
            f"{moment}: {why}", hint="ask without it, or at another moment: `strandline moments`."
        )


def _lacking(moment: Moment, names: Collection[str]) -> str | None:
    """Return which table of a question is no part of a moment, and why; None where all are."""
    for name in names:
        if name in moment.lost:
            return f"{name} cannot be read there any more: {moment.lost[name]}"
        if moment.version(name) is None:
            why = moment.behind.get(owner_of(name))
            return f"{name} is no part of it" + (f", because {why}" if why else "")
    return None


@dataclass(slots=True)
class Present:
    """Knows which tables of a lake are still those of before.

    Args:
        lake: The lake.
    """

    lake: Lake
    _ids: dict[str, str] = field(default_factory=dict)

    def of(self, moment: Moment) -> Moment:
        """Return a moment without the tables that were made anew since, or are there no more: they are lost to it."""
        gone = {name for name, known in moment.ids.items() if not self._id(name).startswith(known)}
        if not gone:
            return moment
        lost = dict.fromkeys((n for n in moment.versions if owner_of(n) in gone), MADE_ANEW)
        return replace(
            moment,
            versions={n: each for n, each in moment.versions.items() if n not in lost},
            ids={n: each for n, each in moment.ids.items() if n not in gone},
            lost={**moment.lost, **lost},
        )

    def _id(self, name: str) -> str:
        if name not in self._ids:
            path = place_of(self.lake.root, name)
            self._ids[name] = table_id(path) if is_table(path) else ""
        return self._ids[name]


def _without(
    until: datetime | None, known: Sequence[Noted], why: str, lake: Lake
) -> DefinitionError:
    """Return why no moment is found."""
    if why:
        return DefinitionError(
            f"no moment of {lake.root} has all tables of the question: {why}",
            hint="`strandline status` says why a table is behind; ask without it, or without AT MOMENT.",
        )
    if until is not None and known:
        first = min(each.at for each in known)
        return DefinitionError(
            f"there is no moment of {until.isoformat(sep=' ')} or before it in {lake.root}",
            hint=f"the first that is noted is of {first.isoformat(sep=' ', timespec='milliseconds')}; `strandline moments` lists them.",
        )
    return DefinitionError(
        f"there is no moment in {lake.root} yet",
        hint="`strandline run` brings tables up to date and notes one at its end; a stream does so as it goes.",
    )


def unreadable(moment: Moment, error: LakeError) -> DefinitionError:
    """Return what is to be said of a moment of which a version can be read no more."""
    return DefinitionError(
        f"{moment} can be read no more: {error.message}",
        hint="ask at a later one (`strandline moments`); how long moments are kept readable is STRANDLINE_MOMENTS_KEPT.",
        **error.fields,
    )


# The ends of a comparison: which version of each table a text means.


NUMBERED = re.compile(r"moment\s+(?P<number>\d+)", re.IGNORECASE)
"""A moment by its number; in a comparison a number alone is that of a version."""

DIGITS = 18
"""Of a number at most."""

COMMITS_BETWEEN = 200
"""Commits after a moment that are looked at for rows that had moved by the time that was asked for."""


def which_of(text: str) -> str | int:
    """Return the moment that a text asks for, as ``chosen`` takes it: where versions have no meaning, a number is that of a moment."""
    words = text.strip()
    found = NUMBERED.fullmatch(words)
    number = found["number"] if found else words
    return int(number) if _is_number(number) else words


def _is_number(text: str) -> bool:
    """Return whether a text is the number of a moment or of a version; of a longer one Python makes none."""
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a text names, for all tables that are compared.

    Args:
        version: A version, of the first of them.
        moment: A moment, which has a version of each.
        at: A time; the moment is the last that was noted until then, and None where none was.
    """

    version: int | None = None
    moment: Moment | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """An end of a comparison.

    Args:
        version: The version of the table; -1 before its first commit.
        moment: The moment that has it.
        then: The version that the table had at the time that was asked for, where rows had moved since the moment.
    """

    version: int
    moment: Moment | None = None
    then: int | None = None

    def __str__(self) -> str:
        """Name it for people."""
        return f"version {self.version:,}" + (f" of {self.moment}" if self.moment else "")


def named_by(text: str, names: Sequence[str], tables: Sequence[Table], lake: Lake) -> Named:
    """Return what a text names: a version by its number, or a moment as ``AT MOMENT`` finds it.

    A time of before all moments that are noted is no error: each table has a version of then.

    Args:
        text: Such as 12, 2026-11-26T09:00, month-end-october, LATEST, moment 17.
        names: The tables that are compared, the first of which the moment must have.
        tables: All tables of the lake.
        lake: The lake.

    Raises:
        DefinitionError: It is none of these, or there is no such moment.
    """
    if _is_number(text):
        return Named(version=int(text))
    if isinstance(which := which_of(text), int):
        return Named(moment=chosen(which, names[:1], tables, lake))
    if (kept := find_named(lake, text)) is not None:
        return Named(moment=kept)
    if text.upper() == LATEST:
        return Named(moment=_chosen(LATEST, names, tables, lake))
    try:
        at = at_time(text)
    except DefinitionError as error:
        known = ", ".join(each.name for each in named(lake))
        raise DefinitionError(
            f"{text!r} is neither a version nor a moment",
            hint="write the number of a version, such as 12, a time in UTC, such as 2026-11-26T09:00, LATEST, or the name of a "
            f"moment: {f'those with a name are {known}' if known else 'none has a name (`strandline moments name`)'}.",
        ) from error
    try:
        return Named(moment=_chosen(at, names, tables, lake), at=at)
    except DefinitionError:
        return Named(at=at)


def _chosen(
    which: str | datetime, names: Sequence[str], tables: Sequence[Table], lake: Lake
) -> Moment:
    """Return the moment that has all tables; else one that has the first, as another may not have existed then."""
    try:
        return chosen(which, names, tables, lake)
    except DefinitionError:
        if len(names) == 1:
            raise
        return chosen(which, names[:1], tables, lake)


def end_of(lake: Lake, table: Table, found: Named, *, is_first: bool) -> End:
    """Return the version of a table that is meant; -1 before the table's first commit.

    Args:
        lake: The lake.
        table: The table.
        found: What was named.
        is_first: Whether a comparison begins there.

    Raises:
        DefinitionError: There is no such version, or the table is no part of the moment.
    """
    path = lake.table(table)
    if found.version is not None:
        latest = latest_version(path)
        if found.version > latest:
            raise DefinitionError(
                f"{table.id} has no version {found.version:,}",
                hint=f"its latest is {latest:,}.",
                table=table.id,
            )
        return End(version=found.version)
    if found.moment is not None:
        return _in_moment(found.moment, table, path, found.at, is_first=is_first)
    assert found.at is not None  # noqa: S101  # for mypy
    try:
        return End(version=version_at(path, table.id, found.at))
    except DefinitionError:
        if is_first:
            return End(version=-1)
        raise


def _in_moment(
    moment: Moment, table: Table, path: Place, at: datetime | None, *, is_first: bool
) -> End:
    version = moment.version(table.id)
    if version is None and is_first and table.id not in {*moment.behind, *moment.lost}:
        return End(version=-1, moment=moment)  # it did not exist
    refuse_apart(moment, [table.id])
    assert version is not None  # noqa: S101  # for mypy
    return End(version=version, moment=moment, then=_then(path, table.id, version, at))


def _then(path: Place, name: str, version: int, at: datetime | None) -> int | None:
    """Return the version that a table had at a time, where rows had moved since a version: a repair that was killed notes no moment."""
    if at is None:
        return None
    then = version_at(path, name, at)
    between = range(version + 1, min(then, version + COMMITS_BETWEEN) + 1)
    return then if any(changes_rows(path, each) for each in between) else None


# What maintenance leaves for moments, and which of them it removes.


def kept(lake: Lake, since: datetime, oldest: datetime) -> dict[str, int]:
    """Return for each table the first version that the moments since a time need, as a reader that has read up to it does.

    The moment that was the newest at that time is one of them, because a question about then reads it, unless it is older than
    ``oldest``: where no moment comes any more, none holds the logs of a lake for ever. They are opened from the first on until one
    has every table: no table of a later one is at an older version.
    """
    known = noted(lake)
    times = _held_since(known)
    begin = next((at for at, time in enumerate(times) if time >= since), len(known))
    if begin and times[begin - 1] >= oldest:
        begin -= 1
    found: dict[str, int] = {}
    for each in known[begin : begin + LOOKED_THROUGH]:
        if (moment := _again(each)) is not None:
            for name, version in moment.versions.items():
                found.setdefault(name, version + 1)
            if not moment.behind:
                break
    return found


def _held_since(known: Sequence[Noted]) -> list[datetime]:
    """Return for each moment the time from which it was the newest.

    A clock that was fast for a while names times that are still to come, which the time of a later moment shows.
    """
    found, newest = list[datetime](), None
    for each in reversed(known):
        newest = each.at if newest is None else min(newest, each.at)
        found.append(newest)
    return found[::-1]


@lru_cache(maxsize=LOOKED_THROUGH)
def _again(each: Noted) -> Moment | None:
    """Return a moment that is asked for again for each table of a lake; its file is written once."""
    return each.read()


def remove_unreadable(lake: Lake, before: datetime) -> int:
    """Remove the notes of moments of before a time of which a version can be read no more; return how many. The newest stays."""
    first: dict[str, int] = {}
    gone, known = 0, noted(lake)
    for each, at in zip(known[:-1], _held_since(known), strict=False):
        if at >= before:
            break
        moment = each.read()
        if moment is None:
            each.place.remove_file()  # a torn one
            continue
        for name in moment.versions.keys() - first.keys():
            first[name] = readable_from(place_of(lake.root, name))
        if all(version < 0 or version >= first[name] for name, version in moment.versions.items()):
            break
        each.place.remove_file()
        gone += 1
    return gone


# Moments that have a name: their tables are kept until a date, or for ever, whatever becomes of the lake's own.
#
# How they are kept: jobs/strandline/engine/ask/named_moments.py.


NAMED = "named"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
ABOUT = "moment.json"
TORN = "the file that says of the moment is torn; `strandline moments drop` lets it go"


def named(lake: Lake) -> list[Moment]:
    """Return the moments that have a name, by it; one that is not whole yet is none."""
    folder = lake.root / FOLDER / NAMED
    found = (find_named(lake, name) for name in folder.names() if NAME.fullmatch(name))
    return [each for each in found if each is not None]


def find_named(lake: Lake, name: str) -> Moment | None:
    """Return the moment of a name; None where there is none."""
    if not NAME.fullmatch(name):
        return None
    folder = lake.root / FOLDER / NAMED / name
    try:
        text = (folder / ABOUT).text()
        if text is None:
            return None
        found: dict[str, Any] = json.loads(text)
        at = datetime.fromisoformat(found.pop("at"))
        return Moment(**found, at=at, name=name, kept=folder)
    except (ValueError, LookupError, TypeError, AttributeError):
        layers = (each for each in folder.names() if each != ABOUT)
        lost = {f"{layer}.{each}": TORN for layer in layers for each in (folder / layer).names()}
        none = Moment(at=EPOCH, versions={}, offsets={}, behind={}, ids={}, name=name, kept=folder)
        return replace(none, lost=lost)
