"""The retired tables that read one whose rows a repair changes: they are not computed again, and their streams pass over it.

Such a stream can no longer go on where it ended: it would never see what came or went, and the books would not miss it. So its
place is let go before the rows change (jobs/strandline/engine/storage/retired.py). Those above it need nothing yet: their rows are right
until it is computed anew, and its promotion is such a change. A recomputed table has no stream, and sees what changed by itself.
"""

from strandline import catalog

from strandline.core.table import Recomputed, Table
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.retired import let_go, retired


def leave_behind(table: Table, lake: Lake) -> None:
    """Let go of the places of the retired streams that read a table, because rows of it are about to change."""
    known = retired(lake)
    for each in catalog.tables() if known else ():
        reads = table.id in {source.id for source in each.upstream}
        if each.id in known and reads and not isinstance(each, Recomputed):
            let_go(each, lake)
