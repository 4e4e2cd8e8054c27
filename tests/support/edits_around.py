"""What may happen to the tables and the checkpoint of a stream, and edits of which no record is left."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from strandline.core.table import Computed
from strandline.engine.lake.lake import Lake
from tests.support.edits import CLICKS, FIELDS, LOG, Edit
from tests.support.edits_of_processors import TOTALS
from tests.support.edits_of_rows import BOTH, COPIES, both_swapped
from tests.support.edits_of_windows import COUNTS
from tests.support.literal import put
from tests.support.windows_before_and_after import counts_again, key_added, two_operators


def _removed(table: Computed) -> Callable[[Lake], None]:
    return lambda lake: lake.table(table).remove()


def _made_again(lake: Lake) -> None:
    lake.table(CLICKS).remove()
    put(lake, {CLICKS: (FIELDS, LOG)}, "1")


def _of_another_stream(lake: Lake) -> None:
    metadata = lake.checkpoint(COUNTS) / "metadata"
    metadata.put('{"id":"00000000-0000-0000-0000-000000000000"}')


def without_record(lake: Lake) -> None:
    """Remove what was recorded, as in a lake of an earlier version."""
    for table in (COUNTS, COPIES, BOTH, TOTALS):
        (lake.checkpoint(table) / "last_run.json").remove()


def surroundings() -> Iterator[Edit]:
    """Yield what may happen to the tables and the checkpoint, and edits of which no record is left."""
    yield Edit(name="the table is gone", before=COPIES, after=COPIES, around=_removed(COPIES))
    yield Edit(name="the source made again", before=COPIES, after=COPIES, around=_made_again)
    yield Edit(
        name="another stream's checkpoint", before=COUNTS, after=COUNTS, around=_of_another_stream
    )
    yield Edit(name="the lake copied, nothing else", before=COUNTS, after=COUNTS)
    yield Edit(name="a processor's lake copied", before=TOTALS, after=TOTALS)
    for name, before, after in (
        ("no record: the same code", COUNTS, counts_again),
        ("no record: a key added", COUNTS, key_added),
        ("no record: sources swapped", BOTH, both_swapped),
        ("no record: a second operator", COUNTS, two_operators),
    ):
        yield Edit(
            name=name, before=before, after=replace(before, transform=after), around=without_record
        )
