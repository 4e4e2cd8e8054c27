"""``radar``: for every reader, how long until something that it still needs may be gone."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

import typer
from strandline import catalog

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, note, say, show
from strandline.core.feed import Feed
from strandline.engine.pipeline.radar import (
    worst,
)
from strandline.engine.pipeline.retention_risk import URGENT, Danger, Level
from strandline.engine.pipeline.span_words import span
from strandline.operate.radar import dangers_of, refuse_danger

COLUMNS = ("reader", "source", "unread", "oldest unread", "may go at", "state", "because")

Row = tuple[object, ...]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("radar")(radar)


def radar(
    tables: TablesArgument = None, lake: LakeOption = None, as_json: JsonOption = False
) -> None:
    r"""Show for every reader how long until something that it still needs may be gone.

    Readers of Kafka are bronze tables, feeds of alerts and receivers of notices: a record may go when it is older than
    its topic keeps records. That is the earliest moment, because a broker removes whole segments. Readers of tables are
    streams, rebuilds and look-ups; no log is cut behind them, and the radar shows what they hold back.

    safe, not known, soon (less than two days, or half of what the topic keeps), urgent (twelve hours, or a quarter),
    lost. Exits with 4 when something is urgent or lost.

    \b
    strandline radar
    strandline radar bronze.device_telemetry --json
    """
    found, where = place.existing(lake, briefly=True)
    _refuse_unknown(tables)
    dangers = dangers_of(found, where)
    wanted = [each for each in dangers if not tables or each.reader.split(" ")[0] in tables]
    if as_json:
        emit([asdict(each) for each in wanted])
    else:
        show(None, COLUMNS, list(_rows(wanted)))
        _say_sum(wanted)
    refuse_danger(wanted)


def _refuse_unknown(names: Sequence[str] | None) -> None:
    for name in names or ():
        if not name.startswith(f"{Feed.layer}."):
            catalog.find(name)


def _rows(dangers: Sequence[Danger]) -> Iterator[Row]:
    """Yield a row for each source; the partitions of a topic of which nothing is unread share one."""
    for (reader, _), group in groupby(dangers, key=lambda each: (each.reader, _topic(each))):
        several = [*group]
        idle = [each for each in several if each.level is Level.SAFE and not each.unread]
        if len(idle) > 1:
            what = f"{_topic(idle[0])}, {len(idle)} partitions"
            yield (reader, what, 0, None, None, Level.SAFE.value, idle[0].says)
        for each in several:
            if len(idle) <= 1 or each not in idle:
                yield (
                    reader,
                    each.source,
                    each.unread,
                    each.next_at,
                    each.goes_at,
                    each.level.value,
                    each.says,
                )


def _topic(danger: Danger) -> str:
    return danger.source.rpartition("/")[0] or danger.source


def _say_sum(dangers: Sequence[Danger]) -> None:
    nearest = worst(dangers)
    if nearest is None:
        say("no reader has begun to read, so nothing can be lost")
    elif nearest.seconds is None and nearest.level is Level.SAFE:
        say("nothing that a reader needs expires")
    elif nearest.level is Level.SAFE:
        say(f"the first to go: {nearest.reader}, {nearest.source}, {nearest.says}")
    else:
        say(f"{nearest.level.value}: {nearest.reader}, {nearest.source}: {nearest.says}")
    if any(each.level is Level.SOON for each in dangers):
        note(f"a person is asked when less than {span(URGENT)} are left, or a quarter of the time")
