"""Operations that no verb does alone, as functions of a lake: run under the recorder, and again after a crash."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from strandline import catalog

from strandline.engine.accounting.gate_files import Shut, Where, clear, shut, write
from strandline.engine.accounting.gate_files import open_ as open_gate
from strandline.engine.accounting.table_books import close
from strandline.engine.ask.moments import DENSE, LATEST, chosen, find_named, note, noted
from strandline.engine.ask.named_moments import drop, keep_named, remove_half
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from strandline.engine.service import stream_health
from strandline.engine.service.stream_health import Order
from tests.faults.disk.edits import EDITS, checkpoint

SILVER = "silver.device_telemetry"
AT = "2026-11-20T12:00:00+00:00"
MONTH = "month-end"
RULES = Path(__file__).parents[3] / "jobs" / "fleet" / "rules"


def close_books(lake: Lake) -> None:
    """Close the books of every table, however few commits it has."""
    close(lake, [table for table in catalog.tables() if lake.exists(table)], every=1)


def shut_gate(lake: Lake) -> None:
    """Shut a gate, as a batch does that is not believed."""
    table = catalog.find(SILVER)
    if shut(table, lake) is None:
        write(Shut(table=SILVER, where=Where.BEFORE, stream="s", batch=9, at=AT), table, lake)


def open_shut_gate(lake: Lake) -> None:
    """Open it, as an operator does."""
    table = catalog.find(SILVER)
    if shut(table, lake) is not None:
        open_gate(table, lake, because="the sensors were calibrated", who="ann", at=AT)


def clear_gate(lake: Lake) -> None:
    """Remove it, because the batch was committed."""
    clear(catalog.find(SILVER), lake, Where.BEFORE)


def promote_rules(lake: Lake) -> None:
    """Make rules live, unless they are."""
    if not shelves.promotions(lake):
        shelves.put_live(
            lake,
            {"site/one.yml": b"title: one\n"},
            without=(),
            base=RULES,
            check=lambda _: None,
            record={"at": AT, "by": "ann", "rules": (), "backtest": {}},
        )


def undo_rules(lake: Lake) -> None:
    """Take them back, unless they were."""
    if shelves.promotions(lake):
        shelves.take_back(lake, at=AT, by="ann")


def ask_to_run(lake: Lake) -> None:
    """Ask for the stream to run."""
    stream_health.write_desired(lake, Order(runs=True, at=AT, by="ann"))


def note_moment(lake: Lake) -> None:
    """Note the latest moment, as a stream does."""
    note(lake, catalog.tables(), "a stream")


def many_notes(lake: Lake) -> None:
    """Let there be the notes of an hour, as a stream leaves them that no maintenance follows."""
    note_moment(lake)
    (first,) = noted(lake)
    text = json.dumps(json.loads(first.place.text() or "") | {"versions": {}})
    for number in range(2, DENSE + 100):
        (first.place.parent / first.place.name.replace("0000000001", f"{number:010d}", 1)).put(text)


def thin_notes(lake: Lake) -> None:
    """Note one more, with which some of the old ones go."""
    note_moment(lake)


def keep_moment(lake: Lake) -> None:
    """Keep the latest moment under a name, unless it is kept."""
    if find_named(lake, MONTH) is None:
        latest = chosen(LATEST, (), catalog.tables(), lake)
        keep_named(lake, catalog.tables(), MONTH, latest, "")


def drop_moment(lake: Lake) -> None:
    """Let it go, as maintenance does with one whose time is over."""
    if find_named(lake, MONTH) is not None:
        drop(lake, MONTH)
    remove_half(lake)


def make_orphans(lake: Lake) -> None:
    """Leave files that no commit names, as batches do that were killed long ago."""
    for name in ("one", "two", "three"):
        orphan = lake.table(catalog.find(SILVER)).local / f"part-{name}.snappy.parquet"
        orphan.write_bytes(b"left")
        long_ago = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
        os.utime(orphan, (long_ago, long_ago))


def _edit(name: str) -> Callable[[Lake], None]:
    return lambda lake: EDITS[name].change(checkpoint(lake))


PROGRAMS: dict[str, Callable[[Lake], None]] = {name: _edit(name) for name in EDITS} | {
    each.__name__: each
    for each in (
        close_books,
        shut_gate,
        open_shut_gate,
        clear_gate,
        promote_rules,
        undo_rules,
        ask_to_run,
        note_moment,
        thin_notes,
        keep_moment,
        drop_moment,
    )
}
