"""Find the version that added a file to its table, from about when the file was written.

A row knows its file and not its batch. The file was written just before its commit, so the search begins at the commits of
that time and goes on in both directions: it opens about twenty of a million commits, and all of them only where the file's
time is that of a copy.
"""

from strandline.engine.storage.commit_time import modified_at
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.ledger_search import nearest_versions
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.log_actions import brings_rows
from strandline.engine.storage.place import Place


def version_of(table: Place, file: Place, until: int | None = None) -> int | None:
    """Return the version that added a file to its table; the last one where a promotion or an undo added it again.

    None where it is not there, and where maintenance made it of others, whose rows came in many versions.

    Args:
        table: The table.
        file: Its file.
        until: The last version to consider.
    """
    last = latest_version(table) if until is None else until
    replaced_at = sums_of(table, until).replaced_at
    if replaced_at >= 0 and brings_rows(table, replaced_at, file):
        return replaced_at
    if not file.exists():
        return None
    versions = (each for each in nearest_versions(table, modified_at(file)) if each <= last)
    for version in versions:
        brought = brings_rows(table, version, file)
        if brought is not None:
            return version if brought else None
    return None
