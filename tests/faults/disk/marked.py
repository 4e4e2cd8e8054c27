"""The command line with its doors to the disk marked: run as a program, under the recorder.

Before each durable write the journal gets a line with the door and the line of code that goes through it, so a change of
the disk is known by the code that made it. What a door is, is read from the code (tests/faults/disk/doors.py).
"""

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from tests.faults.disk.doors import DOORS, ENGINE

_library = ctypes.CDLL(None)


def mark(text: str) -> None:
    """Write a line to the journal."""
    _library.disk_mark(text.encode())


def caller() -> str:
    """Return the innermost function of the project that is no door itself."""
    frame = sys._getframe(2)  # Python's own way to the stack
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(
            ("fleet.", "strandline.", "strandline_quality.", "strandline_dagster.")
        ):
            return f"{module}:{frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]  # the last one has none
    return "?"


def mark_doors() -> None:
    """Let every door write a line before it is used."""
    for door in DOORS:
        module = importlib.import_module(f"{ENGINE}.{door.module}")
        owner, _, name = door.name.rpartition(".")
        holder = getattr(module, owner) if owner else module
        whole = vars(holder)[name]
        marked = _marked(whole, door.name)
        setattr(holder, name, marked)
        if not owner:
            _replace_everywhere(whole, marked)


def _marked(whole: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(whole)
    def call(*args: object, **options: object) -> object:
        mark(f"{name} < {caller()}")
        return whole(*args, **options)

    return call


def _replace_everywhere(whole: object, marked: object) -> None:
    """Replace a function in the modules that have imported it by name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(("fleet.", "strandline.")):
            for name, value in list(vars(module).items()):
                if value is whole:
                    setattr(module, name, marked)


if __name__ == "__main__":
    from strandline.cli import main
    from strandline.engine.lake.lake import Lake

    importlib.import_module("strandline.catalog")
    is_program = sys.argv[1] == "program"
    programs = importlib.import_module("tests.faults.disk.programs") if is_program else None
    mark_doors()
    if programs is not None:
        programs.PROGRAMS[sys.argv[2]](Lake(sys.argv[-1]))
    else:
        main.main()
