"""Damage of one table is one table's: what is asked of many tables goes on with the others, and says which is damaged.

A torn commit, a folder of another user, a disk that cannot read a block: each is an error of the table whose file it is.
Who asks all tables one after the other asks here what an error means before the next is asked; an outage (a store that
is away, a full disk) is of all tables alike, and no table's.
"""

import errno
from itertools import pairwise
from pathlib import Path

from strandline.core.errors import DamagedError, DataError, LakeError
from strandline.core.kind import Layer
from strandline.core.static import Static
from strandline.core.table import Table

UNREADABLE = {
    errno.EACCES: "may not be read or written by the user of this process",
    errno.EPERM: "may not be read or written by the user of this process",
    errno.EISDIR: "is a folder, where a file belongs",
    errno.ENOTDIR: "lies in a file, where a folder belongs",
    errno.EIO: "cannot be read from its disk",
}


def damage(error: BaseException, table: Table | Static) -> DataError | None:
    """Return the damage of one table behind an error, with the table's name and the file; None where it is none."""
    if isinstance(error, DataError):
        if table.id in error.message:
            return error
        return type(error)(
            f"{table.id} cannot be read: {error.message}", hint=error.hint, **error.fields
        )
    if isinstance(error, LakeError) or is_outage(error):
        return None
    if isinstance(error, OSError) and error.errno in UNREADABLE:
        file = str(error.filename or f"a file of {table.id}")
        return _unreadable(file, UNREADABLE[error.errno], table)
    from strandline.engine.runtime.outage import denied  # noqa: PLC0415  # as below

    refused = denied(error)
    if isinstance(refused, DataError):  # Java's own words for a file that may not be read
        return _unreadable(str(refused.fields["file"]), UNREADABLE[errno.EACCES], table)
    return None


def _unreadable(file: str, how: str, table: Table | Static) -> DataError | None:
    """Return the damage of the table whose file it is, as the one that met it has to say it."""
    whose = _whose(file, table)
    found = DamagedError(
        f"{whose} is damaged: {file} {how}",
        hint="`ls -ld` shows what it is and whose; chown and chmod give it back, and a stream tries the table again by "
        f"itself. What cannot be had back: {mended(whose, 'it')} All other tables go on meanwhile.",
        table=whose,
        file=file,
    )
    return damage(found, table)


def _whose(file: str, table: Table | Static) -> str:
    """Return the table of whose files it is one: the table's own, or one that it reads."""
    if isinstance(table, Static):
        return table.id
    folders = set(pairwise(Path(file).parts))
    for each in (table, *table.needs):
        layers = (each.layer.value, *(("quarantine",) if each.layer is Layer.SILVER else ()))
        own = {("_checkpoints", each.id), *((layer, each.name) for layer in layers)}
        if own & folders:
            return each.id
    return table.id


def remedy(name: str) -> str:
    """Return what brings back a file of a table; a rebuild refuses bronze, from which all others are computed."""
    if name.startswith(f"{Layer.BRONZE}."):
        return "only a copy can replace it: `strandline restore` a snapshot to another folder, and copy the file from there."
    return f"`strandline rebuild {name}`, then `strandline promote {name}`."


def mended(table: str, what: str) -> str:
    """Return what takes a torn file out of a table's log; the versions of a static table decide what all rows were joined with."""
    if table.startswith("static."):
        return f"only a copy can replace it: `strandline restore` a snapshot to another folder, and copy the folder of {table} from there."
    return f"`strandline mend {table}` takes {what} out of the log and says what is to be computed again."


def is_outage(error: BaseException) -> bool:
    """Return whether an error says that a service is away, and so nothing about a file."""
    # Not imported above: with Kafka's client it takes longer than most answers, and few tables are damaged.
    from strandline.engine.runtime.outage import absence  # noqa: PLC0415  # as above

    return absence(error) is not None
