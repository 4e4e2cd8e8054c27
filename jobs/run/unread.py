"""What nobody has read yet: how far behind its reader is, whether a gate holds it back, whether Kafka still has it."""

from collections.abc import Sequence
from datetime import timedelta

from jobs.core.errors import LakeError
from jobs.core.table import Table
from jobs.run import gates, topics
from jobs.run.backlog import Backlog, Bounds
from jobs.run.balance import read_until
from jobs.run.ends import ends
from jobs.run.finding import Finding, Verdict, World, found
from jobs.run.lake import Lake
from jobs.run.ledger import last_entry
from jobs.run.trace import Spot, behind, pace, reach


def waits(table: Table, source: Table, world: World) -> Finding:
    """Say what a row that is in a table's source waits for."""
    lake = world.lake
    held_up = shut_out(table, source, lake)
    if held_up is not None:
        return held_up
    if not lake.exists(table):
        sentence = f"it is in {source.id}, and {table.id} was never run"
        return found(table, Verdict.NOT_READ_YET, sentence)
    until = read_until(table, source, lake)
    lag = behind(lake.table(source), until + 1)
    sentence = f"it is in {source.id}; {table.id} is behind by {lag:,} of its rows"
    return _expected(found(table, Verdict.NOT_READ_YET, sentence, lag=lag), table, lag, world)


def shut_out(table: Table, source: Table, lake: Lake) -> Finding | None:
    """Say which gate keeps a row of a source, or what must come after it, from a table; None when none does."""
    shut = gates.stops(table, lake) or gates.stops(source, lake)
    if shut is None:
        return None
    side = "behind" if shut.where is gates.Where.BEHIND else "of"
    sentence = f"it is in {source.id}; the gate {side} {shut.table} is shut: {shut.why}"
    told = {"table": shut.table, "since": shut.at, "batch": shut.batch, "why": shut.why}
    return found(table, Verdict.SHUT_OUT, sentence, gate=told)


def outside(table: Table, bronze: Table, spot: Spot, world: World) -> Finding:
    """Say why an offset is not in bronze."""
    held = reach(world.lake.table(bronze), spot)
    told = {"offset": str(spot), "bronze": held and {"from": held[0], "until": held[1]}}
    if held and spot.offset < held[1]:
        sentence = (
            f"{bronze.id} took in {spot.part} from offset {held[0]} on: "
            "what was before had expired in Kafka, or was never there"
            if spot.offset < held[0]
            else f"{bronze.id} passed over it between two batches: it had expired in Kafka by then"
        )
        return found(table, Verdict.EXPIRED, sentence, **told)
    asked = _asked(bronze, spot.topic, world)
    if isinstance(asked, str):
        stands = f"up to {held[1] - 1}" if held else "nothing"
        sentence = (
            f"{bronze.id} has {stands} of {spot.part}; "
            f"whether Kafka has more could not be asked: {asked}"
        )
        return found(table, Verdict.NOT_READ_YET, sentence, **told, not_asked=asked)
    return _in_kafka(table, bronze, spot, asked, world).also(**told)


def _in_kafka(table: Table, bronze: Table, spot: Spot, bounds: Bounds, world: World) -> Finding:
    part = (spot.topic, spot.partition)
    if part not in bounds:
        sentence = f"{spot.topic} has no partition {spot.partition}; it has {len(bounds)}"
        return found(table, Verdict.NEVER_PRODUCED, sentence)
    first, end = bounds[part]
    kafka = {"from": first, "until": end}
    if spot.offset >= end:
        last = f"ends at offset {end - 1}" if end else "is empty"
        return found(table, Verdict.NEVER_PRODUCED, f"{spot.part} {last}", kafka=kafka)
    if spot.offset < first:
        sentence = f"{spot.part} begins at offset {first} in Kafka, and {bronze.id} has not read what was before"
        return found(table, Verdict.EXPIRED, sentence, kafka=kafka)
    newest = last_entry(world.lake.table(bronze))
    read = newest[1].offsets if newest else {}
    lag = sum(part.lag for part in ends(bounds, read).values())
    sentence = f"it is in Kafka; {bronze.id} is behind by {lag:,} offsets of its topic"
    finding = found(table, Verdict.NOT_READ_YET, sentence, kafka=kafka, lag=lag)
    return _expected(finding, bronze, lag, world)


def unread_in_kafka(tables: Sequence[Table], world: World) -> int | str:
    """Return how many records Kafka has that tables of bronze have not, or why that could not be asked."""
    lag = 0
    for bronze in tables:
        newest = last_entry(world.lake.table(bronze))
        read = newest[1].offsets if newest else {}
        for topic in bronze.topics:
            asked = _asked(bronze, topic.name, world)
            if isinstance(asked, str):
                return asked
            lag += sum(part.lag for part in ends(asked, read).values())
    return lag


def _asked(bronze: Table, topic: str, world: World) -> Bounds | str:
    """Return what Kafka has of a topic, or why it could not be asked."""
    if world.address is None:
        return "no broker is known; `strandline up` starts ours"
    try:
        topics.check_reachable(world.address, world.options)
        backlog = Backlog(
            world.address, world.options, [each for each in bronze.topics if each.name == topic]
        )
        try:
            return backlog.bounds()
        finally:
            backlog.close()
    except LakeError as error:
        return error.message


def _expected(finding: Finding, reader: Table, lag: int, world: World) -> Finding:
    """Add when it will have been read at the pace of late, should its reader run."""
    rate = pace(world.lake.table(reader))
    if not rate:
        return finding
    seconds = lag / rate
    return finding.also(
        rows_a_second=round(rate, 1),
        seconds=round(seconds, 1),
        expected_at=world.now + timedelta(seconds=seconds),
    )
