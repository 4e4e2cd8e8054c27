"""What is worked on, as people name it: the settings and their lake, the named tables, the address of Kafka, a length of time."""

from collections.abc import Sequence
from datetime import date, timedelta

from strandline import catalog

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.table import Ingested, Table
from strandline.engine.kafka import broker
from strandline.engine.lake import lake
from strandline.engine.lake.completeness import fed, refuse_retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.settings import Settings, settings
from strandline.operate.listener import Says


def configured(lake: str | None) -> tuple[Settings, Lake]:
    """Return the settings and the lake that they name."""
    found = settings(lake=lake)
    return found, Lake(Place.of(found.lake))


def asked(lake: str | None, *, small: bool = False) -> tuple[Settings, Lake]:
    """Return the same for a question of a person, who wants to know within seconds where the store is away.

    Args:
        lake: As it was typed.
        small: Whether only small files are read for it, each of which then has the limit.

    Raises:
        StoreAwayError: The store does not answer.
    """
    found, where = configured(lake)
    if not where.root.is_local:
        from strandline.engine.lake.object_files import be_brief, refuse_silent  # noqa: PLC0415  # few lakes are on a store, and its import takes time

        if small:
            be_brief()
        else:
            refuse_silent(str(where.formats))
    return found, where


def existing(
    lake: str | None,
    *,
    says: Says,
    briefly: bool = False,
    writes: bool = False,
) -> tuple[Settings, Lake]:
    """Return the settings and a lake that exists.

    Args:
        lake: As it was typed.
        says: Hears that an answer may lack something, because a newer program has written the lake.
        briefly: Whether to answer within seconds where the store is away.
        writes: Whether something of it will be changed; a question is answered beside what a newer program wrote.

    Raises:
        DefinitionError: It does not.
        NewerLakeError: A newer program has written it, and it is to be changed.
        TransientError: It is being restored.
    """
    found, place = asked(lake) if briefly else configured(lake)
    refuse_absent(place)
    place.refuse_restoring()
    if writes:
        place.refuse_newer()
    else:
        say_newer(place, says)
    return found, place


def refuse_absent(place: Lake) -> None:
    """Refuse a lake that is not there.

    Raises:
        DefinitionError: It is not.
    """
    if not place.root.exists():
        raise DefinitionError(
            f"there is no lake at {place.root}",
            hint="`strandline up` and `strandline produce` make one; or name another with --lake.",
        )


def say_newer(place: Lake, says: Says) -> None:
    """Say that a newer program has written a lake, so that an answer may lack what this one does not know."""
    try:
        unknown = lake.newer(place.formats)
    except DataError as error:
        unknown = [error.message]
    for each in unknown:
        says(f"a newer program has written this lake, and the answer may lack something: {each}")


def named(names: Sequence[str] | None) -> list[Table]:
    """Return the tables of these names in the order in which data flows; all when none is named."""
    tables = list(catalog.tables())
    if not names:
        return tables
    wanted = {catalog.find(name).id for name in names}
    return [table for table in tables if table.id in wanted]


def to_feed(names: Sequence[str] | None, lake: Lake) -> list[Table]:
    """Return the tables of these names that are fed; all that are when none is named.

    Raises:
        RetiredError: One is named that is retired.
    """
    tables = named(names)
    for table in tables if names else ():
        refuse_retired(table, lake)
    return fed(tables, lake)


def filled(lake: Lake, names: Sequence[str] | None = None) -> list[Table]:
    """Return the named tables that exist; all that exist when none is named.

    Raises:
        DefinitionError: None of them exists.
    """
    found = [table for table in named(names) if lake.exists(table)]
    if not found:
        raise DefinitionError(
            f"there is nothing to account for in {lake.root} yet",
            hint="fill the lake first: `strandline produce`, then `strandline run`.",
        )
    return found


def derived(name: str, lake: Lake) -> Table:
    """Return the existing silver or gold table of a name.

    Raises:
        DefinitionError: It is a bronze table, or does not exist.
    """
    table = catalog.find(name)
    if isinstance(table, Ingested):
        raise DefinitionError(
            f"{table.id} is as received; there is nothing to compute again",
            hint="name a silver or gold table.",
            table=table.id,
        )
    lake.refuse_missing(table)
    return table


def address(found: Settings, lake: Lake) -> str | None:
    """Return the address of Kafka: the cluster of the settings, or the lake's broker if it runs."""
    if found.kafka is not None:
        return found.kafka
    running = broker.status(lake)
    return running.address if running else None


def demanded_address(found: Settings, lake: Lake) -> str:
    """Return the address of a Kafka that answers.

    Raises:
        DefinitionError: No broker is known.
        TransientError: It does not answer, or the lake's own does not run any more.
    """
    where = address(found, lake)
    if where is None and broker.remembered(lake):
        raise TransientError(
            f"the broker of {lake.root} does not run any more",
            hint="`strandline up` starts it again, with all that it had.",
        )
    if where is None:
        raise DefinitionError(
            f"no broker runs for {lake.root}",
            hint="start ours with `strandline up`, or set STRANDLINE_KAFKA=host:port.",
        )
    broker.check_reachable(where, found.kafka_options)
    return where


# What people write, parsed: a length of time (500ms, 5s, 1m, 2h, 7d), a place in Kafka, days. Alone, because what parses one starts at once.

UNITS = (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0))


def seconds(text: str) -> float:
    """Parse a length of time.

    Raises:
        DefinitionError: It is not one.
    """
    for suffix, factor in UNITS:
        digits = text.removesuffix(suffix)
        if text.endswith(suffix) and digits.replace(".", "", 1).isdecimal() and float(digits) > 0:
            return float(digits) * factor
    raise DefinitionError(
        f"{text!r} is no length of time", hint="write it like 500ms, 5s, 1m, 2h or 7d."
    )


def placed(at: str | None) -> tuple[str, int, int] | None:
    """Parse a place in Kafka.

    Raises:
        DefinitionError: It is not one.
    """
    if at is None:
        return None
    topic, *numbers = at.rsplit("/", 2)
    if not topic or len(numbers) != 2 or not all(map(_is_number, numbers)):  # noqa: PLR2004  # partition and offset
        raise DefinitionError(
            f"--at {at!r} is no place in Kafka",
            hint="write topic/partition/offset, such as device-telemetry/0/17.",
        )
    return topic, int(numbers[0]), int(numbers[1])


def _is_number(text: str) -> bool:
    """Return whether a text is a number that a column can have; of a longer one Python makes none."""
    return text.isascii() and text.isdecimal() and len(text) <= 18  # noqa: PLR2004  # of 64 bits


DAY = timedelta(days=1)


def days(
    today: date, day: str | None, since: str | None, until: str | None
) -> tuple[date, date] | None:
    """Return the first of the days that are named and the day after the last; None where none is named."""
    if day and (since or until):
        raise DefinitionError(
            "--day names one day, --since and --until several", hint="give one or the other."
        )
    if day:
        chosen = _day("--day", day, today)
        return chosen, chosen + DAY
    if not (since or until):
        return None
    last = _day("--until", until, today) if until else today + DAY
    first = _day("--since", since, today) if since else last - DAY
    if first >= last:
        raise DefinitionError(
            f"the range is empty: {since} is not before {until or last}",
            hint="--until is the day after the last.",
        )
    return first, last


def _day(option: str, text: str, today: date) -> date:
    named = {"today": today, "yesterday": today - DAY}
    try:
        found = named[text] if text in named else date.fromisoformat(text)
    except ValueError:
        found = date.max
    if not date.min < found < date.max:  # a range has a day on either side
        raise DefinitionError(
            f"{option} {text!r} is no day", hint="write it like 2026-11-01, or today, or yesterday."
        )
    return found
