"""Where a planted secret is found: in files and objects, and on the command lines of processes."""

from collections.abc import Iterable
from pathlib import Path

import psutil

from strandline.engine.lake.place import Place


def holding(words: tuple[str, ...], *places: Path | Place) -> list[str]:
    """Return the files and objects below some places that hold a word."""
    files = (file for each in places for file in Place.of(each).files())
    logs = (Place.of(each) for each in places if Place.of(each).is_file())
    wanted = [word.encode() for word in words]
    return [
        str(file)
        for file in (*files, *logs)
        if any(word in (file.bytes() or b"") for word in wanted)
    ]


def lines(processes: Iterable[psutil.Process]) -> set[str]:
    """Return the words of the command lines of some processes."""
    return {word for each in processes for word in _line(each)}


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
