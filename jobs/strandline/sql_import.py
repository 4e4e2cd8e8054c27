"""Lets Python import a ``.sql`` file of a layer as the module of its table; nothing of Spark is needed for that.

It is known to Python from the first import of the public interface on, because a module in Python may read a table in SQL.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

LAYERS = ("silver", "gold")
SUFFIX = ".sql"


class SqlLoader:
    """Makes the module of a file."""

    def __init__(self, file: Path) -> None:
        """Keep the file."""
        self.file = file

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        _execute(module, self.file)


class SqlFinder:
    """Finds the file of a table: in the folder of a layer, where no module in Python has the name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module of a name; None where no file of SQL has it."""
        above, _dot, name = fullname.rpartition(".")
        if path is None or above.rpartition(".")[2] not in LAYERS:
            return None
        for folder in path:
            file = Path(folder) / f"{name}{SUFFIX}"
            if file.is_file():
                loader: Any = SqlLoader(
                    file
                )  # a loader by what it has: the class of one takes long to import
                return spec_from_file_location(fullname, file, loader=loader)
        return None


def as_module(file: Path) -> str:
    """Return a module in Python that is the table of a file, for an archive in which only such are found."""
    text = file.read_bytes().decode("utf-8-sig", errors="replace")
    return f"from strandline.sql_import import fill\n\nfill(__name__, {text!a})\n"


def fill(name: str, text: str) -> None:
    """Make a module that is being imported the table of a text."""
    module = sys.modules[name]
    _execute(module, Path(str(module.__file__)), text)


def _execute(module: ModuleType, file: Path, packed: str = "") -> None:
    """Fill the module of a file: its ``TABLE``, and the prose of its head as the docstring."""
    from strandline import sql_file  # noqa: PLC0415  # the interface is imported without any table

    text = packed or file.read_text(encoding=sql_file.ENCODING, errors="replace")
    table = sql_file.load(file, module.__name__, packed)
    module.__doc__ = sql_file.head_of(text).prose
    module.__dict__["TABLE"] = table


def install() -> None:
    """Let Python find the files, after its own modules."""
    if not any(isinstance(each, SqlFinder) for each in sys.meta_path):
        sys.meta_path.append(SqlFinder())
