"""The code of a project's tables, loaded anew while the process runs that feeds them.

A stream of forty tables is not stopped because one of them was edited. The process reads the modules again whose statements are
others, and those that import one of these; a table whose module is not among them is the same object as before, and runs on. Where
one of them cannot be read, all are left as they were.

Who asks for it writes a request beside the leases, and waits for the answer: the moment at which a table goes on by other code is
that at which its rows and its checkpoint belong to that code (jobs/strandline/operate/migrate.py), so until then tables may be held.

Functions are sent to Spark's workers of Python by their name, and a worker keeps the module that it has read. So from the first time
that a module is loaded anew, functions of the project are sent with what they say.
"""

import ast
import hashlib
import importlib
import json
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any
from uuid import uuid4

from pyspark import cloudpickle
from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import code_files
from strandline.engine.runtime.code_files import code_version
from strandline.engine.runtime.processes import own
from strandline.engine.runtime.statements import parsed
from strandline.project import package

PATIENCE = 120.0
"""Seconds to wait for the answer of a process that feeds tables; it loads modules in two, between two looks a second apart."""

AGAIN = 0.2


# What the process has loaded.


class LoadedCode:
    """The modules of the project, as this process has read them."""

    def __init__(self) -> None:
        """Remember what they say now; they were read a moment ago."""
        for table in catalog.tables():
            code_version(
                table
            )  # from the files of now: an edit on the disk is not what made the rows until it is loaded
        self._said = {name: _said(module) for name, module in _loaded().items()}

    def load(self) -> tuple[Table, ...]:
        """Read edited modules anew, and return all tables of the project.

        Raises:
            LakeError: A module cannot be read, or a declaration is refused; everything is as it was.
        """
        modules = _loaded()
        said = {name: _said(module) for name, module in modules.items()}
        taken = _with_importers(
            {name for name in said if self._said.get(name) != said[name]}, modules
        )
        for name in taken:
            _take_out(name)
        _forget()
        try:
            tables = catalog.tables()
            catalog.models()
            for table in tables:
                code_version(table)
        except BaseException:
            _put_back(modules)
            raise
        if taken:
            cloudpickle.register_pickle_by_value(sys.modules[package().partition(".")[0]])  # type: ignore[no-untyped-call]
        # As they were before they were read: an edit since then is one of the next time.
        self._said = {name: said.get(name) or _said(module) for name, module in _loaded().items()}
        return tables


def _take_out(name: str) -> None:
    """Let a module be read anew: also its package knows it, and an import from there asks no further."""
    above, _, leaf = name.rpartition(".")
    module = sys.modules.pop(name)
    if getattr(sys.modules.get(above), leaf, None) is module:
        delattr(sys.modules[above], leaf)


def _loaded() -> dict[str, ModuleType]:
    top = package().partition(".")[0]
    return {
        name: module
        for name, module in sys.modules.items()
        if name == top or name.startswith(f"{top}.")
    }


def _said(module: ModuleType) -> str:
    """Return a hash of what the file of a module says, without comments and blank lines."""
    text = code_files.text_of(module) or b""
    with suppress(SyntaxError, ValueError):
        text = ast.dump(parsed(text)).encode()
    return hashlib.sha256(text).hexdigest()


def _with_importers(edited: Collection[str], modules: Mapping[str, ModuleType]) -> set[str]:
    """Return modules and all that import one of them, or that are within one."""
    found, names = set(edited), {name: _imports(each) for name, each in modules.items()}
    while more := {
        name
        for name in modules.keys() - found
        if names[name] & found or any(name.startswith(f"{each}.") for each in found)
    }:
        found |= more
    return found


def _imports(module: ModuleType) -> set[str]:
    """Return the names that a module imports, each also as a module of the package before it; of a table those that it reads."""
    found = set[str]()
    with suppress(AttributeError):
        found = {catalog.module_of(each.layer, each.name) for each in module.TABLE.needs}
    with suppress(SyntaxError, ValueError):
        tree = parsed(code_files.text_of(module) or b"")
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    found.update(each.name for each in names)
                case ast.ImportFrom(module=name, names=names, level=level):
                    whole = _absolute(module, name, level)
                    found.add(whole)
                    found.update(f"{whole}.{each.name}" for each in names)
    return found


def _absolute(module: ModuleType, name: str | None, level: int) -> str:
    if not level:
        return name or ""
    around = str(module.__package__).split(".")
    return ".".join([*around[: len(around) - level + 1], *([name] if name else [])])


def _forget() -> None:
    """Forget what was kept of modules: the tables that they declare, and what their files said."""
    importlib.invalidate_caches()
    catalog.tables.cache_clear()
    catalog.models.cache_clear()
    code_files.read_again()


def _put_back(modules: Mapping[str, ModuleType]) -> None:
    """Make everything as it was before modules were read anew."""
    for name in _loaded():
        del sys.modules[name]
    sys.modules.update(modules)
    for name, module in modules.items():
        above, _, leaf = name.rpartition(".")
        if above in modules:
            setattr(modules[above], leaf, module)
    _forget()


# A request to the process that feeds the tables of a lake, and its answer.


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to load the code anew.

    Args:
        mark: Its own name.
        hold: The tables that go on by the code of before until another request does not name them.
        loads: Whether modules are read anew; otherwise the tables are those that were read last.
    """

    mark: str
    hold: tuple[str, ...] = ()
    loads: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The answer.

    Args:
        mark: The request's name.
        says: Why the code was not loaded; empty where it was.
        hint: What to do then.
        changed: The tables that go on by other code from their next batch on.
        added: Those that are new.
        gone: Those that are fed no more, because no module declares them.
    """

    mark: str
    says: str = ""
    hint: str = ""
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def _request(lake: Lake) -> Place:
    return lake.root / "_code" / "request.json"


def _answer(lake: Lake) -> Place:
    return lake.root / "_code" / "answer.json"


def _of(place: Place) -> dict[str, Any]:
    """Return what a file says; nothing where there is none, or where it is torn."""
    try:
        found = json.loads(place.text() or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def requested(lake: Lake) -> Request | None:
    """Return the last request; None where there was none."""
    found = _of(_request(lake))
    if not isinstance(found.get("mark"), str):
        return None
    hold = tuple(map(str, found.get("hold", ())))
    return Request(mark=found["mark"], hold=hold, loads=found.get("loads") is not False)


def answer(lake: Lake, loaded: Loaded) -> None:
    """Write an answer."""
    _answer(lake).put(json.dumps(asdict(loaded)))


def ask(
    lake: Lake,
    is_there: Callable[[], bool],
    hold: Sequence[str] = (),
    *,
    loads: bool = True,
    patience: float = PATIENCE,
) -> Loaded | None:
    """Ask the process that feeds the tables of a lake to load their code, and return its answer; None where none runs.

    Args:
        lake: The lake.
        is_there: Whether such a process is alive.
        hold: The tables that are to go on by the code of before.
        loads: Whether it is to read modules anew.
        patience: Seconds to wait for it.

    Raises:
        DefinitionError: It could not load the code, and goes on by that of before.
        TransientError: It does not answer.
    """
    if not is_there():
        return None
    mark = str(uuid4())
    _request(lake).put(json.dumps({"mark": mark, "hold": [*hold], "loads": loads, **own()}))
    due = time.monotonic() + patience
    while time.monotonic() < due:
        found = _of(_answer(lake))
        if found.get("mark") == mark:
            return _checked(found)
        if not is_there():
            return None
        time.sleep(lake.pause(AGAIN))
    raise TransientError(
        "the stream did not say within two minutes that it has loaded the code",
        hint="`strandline logs` shows what it does; `strandline restart` starts it with the code of now. One that an older version "
        "started answers no such request.",
    )


def _checked(found: Mapping[str, Any]) -> Loaded:
    says, hint = str(found.get("says", "")), str(found.get("hint", ""))
    if says:
        raise DefinitionError(f"the stream goes on by the code of before: {says}", hint=hint)
    changed, added, gone = (tuple(found.get(name, ())) for name in ("changed", "added", "gone"))
    return Loaded(mark=str(found["mark"]), changed=changed, added=added, gone=gone)


def refused(mark: str, error: Exception) -> Loaded:
    """Return the answer that a module could not be read."""
    if isinstance(error, LakeError):
        return Loaded(mark=mark, says=error.message, hint=error.hint)
    return Loaded(mark=mark, says=f"{type(error).__name__}: {error}", hint="correct the module.")
