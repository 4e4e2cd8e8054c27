"""What became of many records at once: the verdict on each, with its sentence, for a thousand places in one look.

A row of silver and a held record are found by one question for all places, which opens each file once. Only what is neither
(a copy, a record that is not read yet, one that a repair removed) is explained one by one, as ``why`` explains it.
So to count what became of a day's records does not take a tenth of a second for each.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from strandline.core.received import IDENTITY, PLACE
from strandline.core.table import Judged, Table
from strandline.engine.quarantine.record_state import still_held
from strandline.engine.quarantine.resolutions import RECORD
from strandline.engine.storage.find_rows import Found, Where, look
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place
from strandline.engine.trace.explain_silver import verdict_of_held
from strandline.engine.trace.locate import Spot
from strandline.engine.trace.verdict import Finding, Verdict, World, make_finding
from strandline.engine.trace.why import judges_of_spot, spot_of, why

AT_ONCE = 1_000
"""Places of one look; their rows are in memory at once, without payloads."""


def explain_each(
    events: Iterator[str], table: Table | None, world: World
) -> Iterator[tuple[str, Finding]]:
    """Yield each event with what became of it, in their order.

    Args:
        events: Each as it is typed: topic/partition/offset, or the values of a key.
        table: The table in question; when None, the tables that judge the events.
        world: The lake, the time and Kafka.

    Raises:
        DefinitionError: A text names no event, or the table cannot contain it.
    """
    while some := list(islice(events, AT_ONCE)):
        found = {} if table and not isinstance(table, Judged) else _found(some, table, world)
        for event in some:
            yield event, found.get(event) or why(event, table, world)


def _found(events: Sequence[str], table: Table | None, world: World) -> dict[str, Finding]:
    """Return what one look finds: the records that are rows, and those that are held."""
    spots = {event: spot for event in events if (spot := spot_of(event, table)) is not None}
    known: dict[str, Finding] = {}
    for topic in sorted({spot.topic for spot in spots.values()}):
        asked = {event: spot for event, spot in spots.items() if spot.topic == topic}
        judges = judges_of_spot(next(iter(asked.values())), table)
        for look_in in (_in_table, _held):  # a row of any table comes before what another one holds
            for silver in judges:
                left = {event: spot for event, spot in asked.items() if event not in known}
                known |= look_in(silver, left, world.lake)
    return known


def _in_table(silver: Judged, spots: dict[str, Spot], lake: Lake) -> dict[str, Finding]:
    rows = _rows(lake.table(silver), spots, IDENTITY)
    return {
        event: make_finding(
            silver,
            Verdict.IN_TABLE,
            f"it is in {silver.id}",
            offset=str(spot),
            arrived_at=rows[spot][-1].row["_arrived_at"],
            file=rows[spot][-1].file.name,
        )
        for event, spot in spots.items()
        if spot in rows
    }


def _held(silver: Judged, spots: dict[str, Spot], lake: Lake) -> dict[str, Finding]:
    kept = _rows(lake.quarantine(silver), spots, (*RECORD, "_arrived_at"))
    found = {}
    for event, spot in spots.items():
        held = still_held(silver, lake, kept.get(spot, ()))
        if held:
            reasons = held[-1].row["reasons"]
            found[event] = make_finding(
                silver,
                verdict_of_held(reasons),
                f"it is no row of {silver.id}: {', '.join(reasons)}",
                offset=str(spot),
                arrived_at=held[-1].row["_arrived_at"],
                reasons=reasons,
            )
    return found


def _rows(path: Place, spots: dict[str, Spot], columns: Sequence[str]) -> dict[Spot, list[Found]]:
    if not spots:
        return {}
    places = sorted({(each.topic, each.partition, each.offset) for each in spots.values()})
    rows: dict[Spot, list[Found]] = {}
    for row in look(path, Where(places=(PLACE, places)), dict.fromkeys((*PLACE, *columns))):
        rows.setdefault(Spot.of(row.row), []).append(row)
    return rows
