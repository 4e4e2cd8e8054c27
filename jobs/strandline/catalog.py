"""Finds every table by itself: a module in a layer's folder that ends with its ``TABLE``; and a project's play.

The folders are those of the project's package, or of the example (jobs/strandline/project.py).

Reading the catalog starts no JVM, so an error in a declaration is reported before Spark starts.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Union, cast, get_args, get_origin, get_type_hints

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.kind import Layer
from strandline.core.model import Model
from strandline.core.parse import parse_json
from strandline.core.routes import AllBut, shared
from strandline.core.static import Static
from strandline.core.table import Derived, Judged, Table
from strandline.core.topic import Foreseen, Played, Record, Records
from strandline.project import package, project
from strandline.sql_function import short
from strandline.sql_import import SUFFIX
from strandline_infra import installation

REFUSING = tuple(
    Path(__file__).parent / each
    for each in (
        "core",
        "alerting",
        "sql_function.py",
        "sql_file.py",
        "sql_import.py",
        "sql_text.py",
        "sql_words.py",
    )
)
"""Where a declaration is refused; the mistake is where it was made."""
KINDS = {Layer.BRONZE: "Ingested", Layer.SILVER: "Judged", Layer.GOLD: "Windowed"}
"""The commonest kind of each layer, for hints."""
PARTS = {"alerts": "strandline.alerting"}
"""Modules of a project's package that are beside its layers, and the part of the engine that has tables for a project with one.

By name and not imported: a project without the module imports nothing of the part. The part has a module ``alert_rule``, which reads the
project's, and in ``tables`` a module for each layer, whose table has the name of the project's module.
"""
INSTEAD = {
    "dimension": "declare the dimension in a table above it, or join the table in its function, as Recomputed. ",
    "key_null_ok": "a judged table holds back the rows that lack a part of their key. ",
    "rows": "an Appended table makes rows of the list, and this one reads it. ",
    "layer": "leave it out: the kind says it. ",
    "rules": "declare the rules where the rows are judged; what must hold of the whole table is `expects`. ",
}
"""What to do instead of a field that the kind has not."""


@cache
def tables() -> tuple[Table, ...]:
    """Return all tables, each after those that it reads.

    Raises:
        DefinitionError: A module cannot be read or has no table of its own name, a declaration is refused, a table
            reads one that no module declares, or tables read each other in a circle.
    """
    declared = [each for layer in Layer for each in _declared(layer)]
    declared += _of_parts(declared)
    found = {table.id: table for table, _ in declared}
    graph = {name: [source.id for source in table.needs] for name, table in found.items()}
    statics: dict[str, Static] = {}
    for table, module in declared:
        _refuse_strangers(table, found, module)
        _refuse_two_of_a_name(table, statics, module)
        _refuse_unseen(table, module)
    _refuse_two_takers(declared)
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        places = {table.id: _place(module) for table, module in declared}
        raise DefinitionError(
            "tables read each other in a circle: "
            + " → ".join(f"{name} ({places[name]})" for name in error.args[1]),
            hint="let one of them read a lower layer instead.",
        ) from error
    return tuple(found[name] for name in sorted(order, key=lambda name: _rank(found, name)))


def statics() -> tuple[Static, ...]:
    """Return the static tables that tables join, each once."""
    return tuple({each.id: each for table in tables() for each in table.static}.values())


def declares(part: str) -> bool:
    """Return whether the project has the module of a part; one that cannot be read is there."""
    try:
        return find_spec(f"{package()}.{part}") is not None
    except Exception:  # noqa: BLE001  # the package cannot be imported: who asks for its tables is given the reason
        return True


def module_of(layer: str, name: str) -> str:
    """Return the module of a table: in the package of the project, or in a part of the engine that the project uses."""
    if name in PARTS and layer in {*Layer} and declares(name):
        return f"{PARTS[name]}.tables.{layer}"
    return f"{package()}.{layer}.{name}"


def find(name: str) -> Table:
    """Return the table of a name such as ``gold.device_signal_10m``.

    Raises:
        DefinitionError: There is none.
    """
    for table in tables():
        if table.id == name:
            return table
    known = [table.id for table in tables()]
    near = _near(name, known)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise DefinitionError(
        f"there is no table {name}", hint=f"{meant}the tables are {', '.join(known)}.", table=name
    )


@cache
def models() -> tuple[Model, ...]:
    """Return all models: the ``MODEL`` of each module in ``models`` beside the layers of the tables.

    Raises:
        DefinitionError: A module has no model of its own name, or a table is scored by one that no module declares.
    """
    found, folder = {}, f"{package()}.models"
    names = [] if _is_absent(folder) else pkgutil.iter_modules(_imported(folder).__path__)
    for module in names:
        declared = getattr(_imported(f"{folder}.{module.name}"), "MODEL", None)
        if not isinstance(declared, Model) or declared.name != module.name:
            raise DefinitionError(
                f"{folder}.{module.name} does not declare the model {module.name}",
                hint=f"end the module with MODEL = Model(name={module.name!r}, …).",
            )
        found[declared.name] = declared
    for table in tables():
        if table.scored_by and table.scored_by not in found:
            raise DefinitionError(
                f"{table.id} is scored by {table.scored_by}, which no module declares",
                hint=f"add {table.scored_by}.py to {folder}, which ends with MODEL = Model(…).",
                table=table.id,
            )
    return tuple(found[name] for name in sorted(found))


def model(name: str) -> Model:
    """Return the model of a name.

    Raises:
        DefinitionError: There is none.
    """
    known = {each.name: each for each in models()}
    if name not in known:
        raise DefinitionError(
            f"there is no model {name}",
            hint=f"the models are {', '.join(known) or f'none yet; add one in {package()}.models'}.",
            model=name,
        )
    return known[name]


def _near(name: str, known: Sequence[str]) -> list[str]:
    """Return the tables that a wrong name may mean: those of a similar name, or of this name in any layer."""
    bare = name.rpartition(".")[2]
    same = [each for each in known if each.rpartition(".")[2] == bare]
    return same or get_close_matches(name, known, n=2, cutoff=0.75)


def _rank(found: dict[str, Table], name: str) -> tuple[int, int, str]:
    depth = 0
    level = found[name].needs
    while level:
        depth += 1
        level = tuple(source for table in level for source in table.needs)
    return (list(Layer).index(found[name].layer), depth, name)


def _refuse_strangers(table: Table, found: dict[str, Table], module: ModuleType) -> None:
    """Refuse a source that is the table of no module: nothing would fill it."""
    for source in table.needs:
        if source.id not in found:
            raise DefinitionError(
                f"{_place(module)}: {table.id} reads {source.id}, which no module declares",
                hint=f"let `reads` name the TABLE of a module in {package()}/bronze, silver or gold.",
                table=table.id,
                source=source.id,
            )


def _refuse_two_of_a_name(table: Table, known: dict[str, Static], module: ModuleType) -> None:
    """Refuse two static tables that share a name, and so their versions in the lake."""
    for each in table.static:
        if known.setdefault(each.id, each) != each:
            raise DefinitionError(
                f"{_place(module)}: {table.id} joins another {each.id} than the tables before it",
                hint="declare it once, in a module that both import, or give one of them another name.",
                table=table.id,
                static=each.id,
            )


def _refuse_unseen(table: Table, module: ModuleType) -> None:
    """Refuse a choice about records with undeclared fields where no reader of ours sees one; of another's parser none is known."""
    if not isinstance(table, Judged) or table.on_new_field not in {"freeze", "discard_row"}:
        return
    parsers = [topic.parse for topic in table.bronze.topics]
    if parsers and all(each is not parse_json and _is_ours(each) for each in parsers):
        raise DefinitionError(
            f"{_place(module)}: {table.id} declares on_new_field={table.on_new_field!r}, and of its records nothing undeclared is seen",
            hint="leave it out: of JSON alone, and not of changes of a database, a record says which fields it has.",
            table=table.id,
        )


def _is_ours(parser: object) -> bool:
    return str(getattr(parser, "__module__", "")).startswith("strandline.core.")


def _refuse_two_takers(declared: Sequence[tuple[Table, ModuleType]]) -> None:
    """Refuse two tables that account for one kind of a topic's records: each record has one.

    Raises:
        DefinitionError: Two do.
    """
    routed = [
        (each, module) for each, module in declared if isinstance(each, Judged) and each.is_routed
    ]
    for number, (table, module) in enumerate(routed):
        for other, _ in routed[:number]:
            if other.bronze.id != table.bronze.id:
                continue
            both = shared(other.taken[0], table.taken[0])
            if both is not None:
                what = f"the kind {both!r}" if both else "all kinds but some"
                rest = any(isinstance(each.takes, AllBut) for each in (table, other))
                named = "name it in all_but(…), or " if rest and both else ""
                raise DefinitionError(
                    f"{_place(module)}: {table.id} takes {what} of {table.bronze.id}, and so does {other.id}",
                    hint=f"{named}let one of them read the rows of the other, or declare also=… instead of takes=…: it then "
                    "reads them as well, and is counted apart.",
                    table=table.id,
                    other=other.id,
                )


def _declared(layer: Layer) -> list[tuple[Table, ModuleType]]:
    folder = _folder(layer)
    if _is_absent(folder):
        return []
    found = _imported(folder).__path__
    names = {module.name for module in pkgutil.iter_modules(found)}
    modules = [
        _imported(f"{folder}.{name}") for name in sorted(names | _in_sql(layer, found, names))
    ]
    return [(_table(module, layer), module) for module in modules]


def _in_sql(layer: Layer, folders: Sequence[str], modules: set[str]) -> set[str]:
    """Return the names of the tables that files of SQL declare; drafts and hidden files are none.

    Raises:
        DefinitionError: The name of one is none, a module in Python has it as well, or it is where no table in SQL is.
    """
    _refuse_astray(folders)
    files = [
        file
        for each in folders
        if Path(each).is_dir()
        for file in sorted(Path(each).iterdir())
        if file.suffix.lower() == SUFFIX and file.name[0] not in "._"
    ]
    for file in files:
        if layer is Layer.BRONZE:
            raise DefinitionError(
                f"{_short(str(file))}: a table of bronze is declared in Python, and is as received: there is nothing to select",
                hint="write a module that ends with TABLE = Ingested(…), as `strandline new topic` does; select in silver.",
            )
        if file.stem in modules:
            raise DefinitionError(
                f"{_short(str(file))}: {file.stem}.py declares a table of this name as well",
                hint="remove one of the two files.",
            )
        if file.suffix != SUFFIX or not re.fullmatch(r"[a-z][a-z0-9_]*", file.stem):
            name = re.sub(r"\W", "_", file.stem.lower())
            raise DefinitionError(
                f"{_short(str(file))}: {file.name!r} is no name for the file of a table",
                hint=f"name it in small letters, digits and underscores, such as {name}{SUFFIX}.",
            )
    return {file.stem for file in files}


DECLARES = re.compile(r"(?im)^\s*(?:--|/?\*+)\s*kind\s*:")


def _refuse_astray(folders: Sequence[str]) -> None:
    """Refuse a table in SQL where no layer is: beside their folders, or deeper within one."""
    for each in map(Path, folders):
        if not each.is_dir():
            continue
        files = {*each.glob(f"*/**/*{SUFFIX}"), *each.parent.glob(f"*{SUFFIX}")}
        for file in sorted(file for file in files if file.name[0] not in "._"):
            if DECLARES.search(file.read_text(encoding="utf-8", errors="replace")):
                raise DefinitionError(
                    f"{_short(str(file))}: it declares a table, and is in no folder of a layer",
                    hint=f"move it to {package()}/silver or {package()}/gold itself.",
                )


def _of_parts(own: Sequence[tuple[Table, ModuleType]]) -> list[tuple[Table, ModuleType]]:
    """Return the tables of the parts that the project uses, beside its own."""
    found = {table.id: table for table, _ in own}
    modules = [
        module
        for part, home in PARTS.items()
        if declares(part)
        for module in importlib.import_module(f"{home}.alert_rule").added(
            _imported(f"{package()}.{part}"), found
        )
    ]
    for table, module in own:
        if any(each.TABLE.id == table.id for each in modules):
            raise DefinitionError(
                f"{_place(module)}: {table.id} is a table of the engine in a project that declares {table.name}",
                hint="give this table another name.",
                table=table.id,
            )
    return [(module.TABLE, module) for module in modules]


def _folder(layer: Layer) -> str:
    """Return the package with the modules of a layer."""
    return f"{package()}.{layer}"


def _is_absent(folder: str) -> bool:
    """Return whether a project has no such layer.

    Raises:
        DefinitionError: It has no package of tables at all.
    """
    above = folder.rpartition(".")[0]
    try:
        if not above or find_spec(above) is not None:
            return find_spec(folder) is None
    except ModuleNotFoundError:
        pass
    found = project()
    raise DefinitionError(
        f"there is no package {above}, which should have the tables",
        hint=f"correct `tables` in {found.file}." if found else "install the engine anew.",
    )


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except DefinitionError as error:
        place = _culprit(error, name)
        raise DefinitionError(
            f"{place}: {error.message}", hint=error.hint, **error.fields
        ) from error
    except LakeError:
        raise
    except Exception as error:
        raise unreadable(error, name) from error


def unreadable(error: Exception, name: str) -> DefinitionError:
    """Return the error for a module that cannot be imported: its file, the line, and the reason."""
    return DefinitionError(
        f"{_culprit(error, name)}: {type(error).__name__}: {error}",
        hint=_hint(error),
        module=name,
    )


def _hint(error: Exception) -> str:
    """Return what to change: an extra to install, or for a field that a kind of table needs or has not the fields of the kind."""
    if _lacks_spark(error):
        return (
            "modules are read without Spark, which a column such as F.desc(…) needs: write it within the table's function, or "
            "as SQL in a text."
        )
    extra = (
        installation.of_module(error.name or "") if isinstance(error, ModuleNotFoundError) else None
    )
    if extra:
        return installation.hint(extra)
    if isinstance(error, TypeError) and "Union" in str(error):
        names = ", ".join(kind.__name__ for kind in get_args(Table))
        return f"Table has no rows of its own: declare one of its kinds, {names}."
    named = re.match(r"(\w+)\.__init__\(\)", str(error))
    kinds = [kind for kind in get_args(Table) if named and kind.__name__ == named[1]]
    if not kinds:
        return "correct that line; nothing was started."
    foreign = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    instead = INSTEAD.get(foreign[1], "") if foreign else ""
    needed = [each.name for each in fields(kinds[0]) if _is_needed(each)]
    others = [each.name for each in fields(kinds[0]) if not _is_needed(each)]
    return (
        f"{instead}{kinds[0].__name__} needs {', '.join(needed)} and may have {', '.join(others)}; "
        "infra/docs/table_fields.md says which kind of table has which field."
    )


def _lacks_spark(error: Exception) -> bool:
    """Return whether PySpark was asked for a column, and there is no session; some of its functions say so by an assertion alone."""
    frames = traceback.extract_tb(error.__traceback__)
    asserts = isinstance(error, AssertionError) and "pyspark" in frames[-1].filename
    return asserts or "SESSION_OR_CONTEXT_NOT_EXISTS" in str(error)


def _is_needed(field: Field[object]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _culprit(error: Exception, name: str) -> str:
    """Return file and line of an import that fails: the deepest frame in a file of the project, or what the error has."""
    known = error.fields if isinstance(error, DefinitionError) else {}
    if "file" in known and "line" in known:
        return f"{known['file']}:{known['line']}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and "importlib" not in frame.filename
    ]
    ours = frames[1:] or frames  # the first is the import in this module
    declared = [
        frame
        for frame in ours
        if not any(Path(frame.filename).is_relative_to(each) for each in REFUSING)
        and "site-packages" not in frame.filename
    ]
    ours = declared or ours
    return f"{_short(ours[-1].filename)}:{ours[-1].lineno}" if ours else name


def _place(module: ModuleType) -> str:
    """Return the file of a table and the line of its declaration; called only when there is a mistake."""
    file = str(module.__file__)
    if file.endswith(SUFFIX):
        return f"{_short(file)}:1"
    body = ast.parse(Path(file).read_text()).body
    named = [
        node.lineno
        for node in body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "TABLE"
    ]
    return f"{_short(file)}:{named[-1] if named else 1}"


_short = short


def _table(module: ModuleType, layer: Layer) -> Table:
    name = module.__name__.rpartition(".")[2]
    table = getattr(module, "TABLE", None)
    if not isinstance(table, Table) or (table.layer, table.name) != (layer, name):
        is_derived = isinstance(table, Derived) and layer is not Layer.BRONZE
        moved = f", with layer=Layer.{layer.name}" if is_derived else ""
        raise DefinitionError(
            f"{_place(module)} does not declare the table {layer}.{name}",
            hint=f"end the module with TABLE = {KINDS[layer]}(name={name!r}, …), or another kind of {layer} table{moved}.",
            file=str(module.__file__),
        )
    return table


# The play of a project: the module ``play`` of its package, whose ``events(count, until)`` makes events of play.
#
# Its arguments after the star that have a default are options of ``strandline produce``: what an argument is about and its bounds
# are written beside its type, as in ``Annotated[float, "Share of orders that are broken.", (0.0, 1.0)]``. One of the name
# ``at_once`` has no default, and gets the number of records that a play of many should make together.

OPTION_KINDS = (bool, int, float, str, datetime, timedelta)
"""The types of an option."""
AT_ONCE = "at_once"
TAKEN = ("events", "until", "rate", "truth", "make_topics", "lake", "json", "as_json", "help")
"""Options of the verb itself."""
SHAPE = "let `events(count, until)` yield strandline.Record, the oldest first."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayOption:
    """An argument of ``events`` that is an option of the verb.

    Args:
        name: Its name.
        kind: Its type, which may be without a value.
        default: Its value where it is not typed.
        about: What it is about.
        low: The least value.
        high: The largest value.
    """

    name: str
    kind: type
    default: object
    about: str | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """The events of a project.

    Args:
        module: The module that makes them.
        events: Its function.
        options: The options of that function.
        takes_size: Whether it wants to know how many records to make together.
    """

    module: str
    events: Callable[..., Played]
    options: tuple[PlayOption, ...]
    takes_size: bool

    def played(
        self, count: int, until: datetime, at_once: int, options: Mapping[str, object]
    ) -> Played:
        """Return its events; nothing of them is made yet.

        Raises:
            DefinitionError: It refuses an option, or fails.
        """
        size = {AT_ONCE: at_once} if self.takes_size else {}
        try:
            made = self.events(count, until, **size, **options)
        except LakeError:
            raise
        except Exception as error:
            raise unreadable(error, self.module) from error
        if not hasattr(made, "__iter__"):
            raise DefinitionError(
                f"{self.module}: events returns {made!r}, which has no records", hint=SHAPE
            )
        return made

    def taken(self, made: Played) -> Iterator[Record | Records]:
        """Yield its events.

        Raises:
            DefinitionError: It fails on the way.
        """
        try:
            yield from made
        except LakeError:
            raise
        except Exception as error:
            where = unreadable(error, self.module)
            raise DefinitionError(
                where.message,
                hint="correct that line; what was made before it may be in the topics.",
                module=self.module,
            ) from error

    def refuse_unforeseen(self, made: Played) -> None:
        """Refuse to write down what a play does not say.

        Raises:
            DefinitionError: It does not say what becomes of its events.
        """
        if not isinstance(made, Foreseen):
            raise DefinitionError(
                f"{self.module} does not say what becomes of its events, so there are no expected counts",
                hint="leave --truth out; or let `events` return an object with a method `expected()`, "
                "which returns a strandline.Counts for each table.",
            )


def play() -> Play:
    """Return the play of the project.

    Raises:
        DefinitionError: It has none, or one that cannot be read.
    """
    module = f"{package()}.play"
    if not declares("play"):
        raise DefinitionError(
            f"this project has no events to play: there is no module {module}",
            hint="write it, with a function `events(count, until)` that yields strandline.Record; "
            "or send events of your own to your own topics, then `strandline run`.",
        )
    try:
        events = getattr(importlib.import_module(module), "events", None)
    except LakeError:
        raise
    except Exception as error:
        raise unreadable(error, module) from error
    if not callable(events):
        raise DefinitionError(f"{module} has no function `events`", hint=SHAPE)
    options, takes_size = _options(events, module)
    return Play(
        module=module,
        events=cast("Callable[..., Played]", events),
        options=options,
        takes_size=takes_size,
    )


def _options(events: Callable[..., object], module: str) -> tuple[tuple[PlayOption, ...], bool]:
    named = [
        each
        for each in inspect.signature(events).parameters.values()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    try:
        hints = get_type_hints(events, include_extras=True)
    except Exception as error:
        raise unreadable(error, module) from error
    own = [each for each in named if each.name != AT_ONCE]
    options = tuple(_option(each, hints.get(each.name), module) for each in own)
    return options, len(own) < len(named)


def _option(argument: inspect.Parameter, hint: object, module: str) -> PlayOption:
    where = f"{module}: the argument {argument.name} of events"
    if argument.name in TAKEN:
        raise DefinitionError(
            f"{where} has the name of an option that every play has", hint="give it another name."
        )
    if argument.default is inspect.Parameter.empty:
        raise DefinitionError(
            f"{where} has no default", hint="give it one: who types nothing gets that."
        )
    bare, *beside = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    kinds = set(get_args(bare) if get_origin(bare) in {Union, UnionType} else (bare,)) - {NoneType}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind not in OPTION_KINDS:
        raise DefinitionError(
            f"{where} has a type that no option has: {hint!r}",
            hint=f"an option is one of {', '.join(each.__name__ for each in OPTION_KINDS)}, or None.",
        )
    about = next((each for each in beside if isinstance(each, str)), None)
    low, high = next((each for each in beside if isinstance(each, tuple)), (None, None))
    return PlayOption(
        name=argument.name,
        kind=cast("type", kind),
        default=argument.default,
        about=about,
        low=low,
        high=high,
    )
