"""A log of a lake for people, of which one earlier part is kept: in a folder 20 MB, on a store less, because a line copies it."""

from strandline.engine.runtime.log_files import add
from strandline.engine.storage.place import Place

MOST = 1_000_000
"""Bytes of the log on a store: a line is appended in some ten milliseconds."""


def add_line(log: Place, line: str) -> None:
    """Append a line, after the log has been put aside if it has grown too long."""
    if log.is_local:
        add(log.local, line)
        return
    if log.is_file() and log.size() > MOST:
        log.move(log.parent / f"{log.name}.1")
    log.append(line)
