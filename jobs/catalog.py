"""Finds every table by itself: a module in a layer's folder that ends with its ``TABLE``.

Reading the catalog starts no JVM, so an error in a declaration is reported before Spark starts.
"""

import ast
import importlib
import pkgutil
import traceback
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

from jobs import bronze, gold, silver
from jobs.core.errors import DefinitionError, LakeError
from jobs.core.table import Emit, Layer, Table
from quality.expectations import FIGURES
from quality.safe import hazards

LAYERS = {Layer.BRONZE: bronze, Layer.SILVER: silver, Layer.GOLD: gold}


@cache
def tables() -> tuple[Table, ...]:
    """Return all tables, each after those that it reads.

    Raises:
        DefinitionError: A module cannot be read or has no table of its own name, a table reads one that is not
            declared or that no stream can read, tables read each other in a circle, or a declaration is incomplete.
    """
    declared = [each for layer in LAYERS for each in _declared(layer)]
    found = {table.id: table for table, _ in declared}
    graph = {name: [source.id for source in table.needs] for name, table in found.items()}
    for table, module in declared:
        _refuse_sources(table, found, module)
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        places = {table.id: _place(module) for table, module in declared}
        raise DefinitionError(
            "tables read each other in a circle: "
            + " → ".join(f"{name} ({places[name]})" for name in error.args[1]),
            hint="let one of them read a lower layer instead.",
        ) from error
    for table, module in declared:
        _refuse_incomplete(table, module)
        _refuse_null_keys(table, module)
        _refuse_dimension(table, module)
        _refuse_rules(table, module)
    return tuple(found[name] for name in sorted(order, key=lambda name: _rank(found, name)))


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


def _refuse_sources(table: Table, found: dict[str, Table], module: ModuleType) -> None:
    for source in table.needs:
        if source.id not in found:
            raise DefinitionError(
                f"{_place(module)}: {table.id} reads {source.id}, which no module declares",
                hint="let `reads` name the TABLE of a module in jobs/bronze, silver or gold.",
                table=table.id,
                source=source.id,
            )
        is_followed = source in table.upstream
        if is_followed and source.replaces_rows and table.emits is not Emit.RECOMPUTED:
            raise DefinitionError(
                f"{_place(module)}: {table.id} reads {source.id}, whose rows are updated; "
                "a stream reads appended rows only",
                hint=f"declare {table.id} with emits=Emit.RECOMPUTED, or read what {source.id} reads.",
                table=table.id,
                source=source.id,
            )


def _refuse_dimension(table: Table, module: ModuleType) -> None:
    """Refuse a dimension beside rows that no stream emits: its columns would be empty after the first change."""
    if table.dimension and (table.judges or table.emits is Emit.RECOMPUTED):
        kind = "judges its rows" if table.judges else "is recomputed"
        raise DefinitionError(
            f"{_place(module)}: {table.id} {kind}, so it cannot have a dimension",
            hint="declare the dimension in a table above it, or join the table in its function (emits=Emit.RECOMPUTED).",
            table=table.id,
        )


def _refuse_incomplete(table: Table, module: ModuleType) -> None:
    """Check that a table declares all that its kind needs to run."""
    if table.layer is Layer.BRONZE:
        return
    needed = ["transform", "key"]
    needed += ["event_at"] if table.judges else []
    needed += ["window_from"] if table.emits_updates else []
    needed += ["window"] if table.emits is Emit.RECOMPUTED else []
    missing = [name for name in needed if not getattr(table, name)]
    if missing:
        raise DefinitionError(
            f"{_place(module)}: {table.id} does not declare its {' and its '.join(missing)}",
            hint=f"add {', '.join(f'{name}=…' for name in missing)} to its TABLE.",
            table=table.id,
        )


def _refuse_null_keys(table: Table, module: ModuleType) -> None:
    """Check that `key_null_ok` names columns of a derived table's key."""
    odd = [name for name in table.key_null_ok if table.judges or name not in table.key]
    if odd:
        raise DefinitionError(
            f"{_place(module)}: {table.id} declares that {' and '.join(odd)} may be NULL in its key",
            hint="a judged table holds such rows back; for a derived one, name columns of its `key`.",
            table=table.id,
        )


def _refuse_rules(table: Table, module: ModuleType) -> None:
    """Check that each rule has a name of its own, is evaluated somewhere, and throws on no row."""
    names = [rule.name for rule in table.rules] + [each.name for each in table.expects]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DefinitionError(
            f"{_place(module)}: {table.id} has two rules of the name {' and '.join(twice)}",
            hint="give each a name of its own; the quarantine and the ledger count them by name.",
            table=table.id,
        )
    if table.rules and not table.judges:
        raise DefinitionError(
            f"{_place(module)}: {table.id} reads rows that were judged, so it has no quarantine for its rules",
            hint="declare the rules where the rows are judged; what must hold of the whole table is declared as `expects`.",
            table=table.id,
        )
    for each in table.expects:
        if each.aggregate is None and (each.name not in FIGURES or not table.judges):
            raise DefinitionError(
                f"{_place(module)}: {table.id} has an expectation of {each.name}, which is not measured",
                hint="give it an aggregate as SQL over the rows; without one, tables that judge have "
                f"{', '.join(sorted(FIGURES))}.",
                table=table.id,
            )
    for rule in table.rules:
        for hazard in hazards(rule.holds):
            raise DefinitionError(
                f"{_place(module)}: the rule {rule.name} of {table.id} says {rule.holds!r}: {hazard}",
                hint="a rule is evaluated on rows that are not checked yet: it must answer for every row, and always the same.",
                table=table.id,
                rule=rule.name,
            )


def _declared(layer: Layer) -> list[tuple[Table, ModuleType]]:
    package = LAYERS[layer]
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [_imported(f"{package.__name__}.{name}") for name in names]
    return [(_table(module, layer), module) for module in modules]


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except LakeError:
        raise
    except Exception as error:
        raise unreadable(error, name) from error


def unreadable(error: Exception, name: str) -> DefinitionError:
    """Return the error for a module that cannot be imported: its file, the line, and the reason."""
    return DefinitionError(
        f"{_culprit(error, name)}: {type(error).__name__}: {error}",
        hint="correct that line; nothing was started.",
        module=name,
    )


def _culprit(error: Exception, name: str) -> str:
    """Return file and line of an import that fails: the deepest frame in a file of the project."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and "importlib" not in frame.filename
    ]
    ours = frames[1:] or frames  # the first is the import in this module
    return f"{_short(ours[-1].filename)}:{ours[-1].lineno}" if ours else name


def _place(module: ModuleType) -> str:
    """Return the file of a table and the line of its declaration; called only when there is a mistake."""
    file = str(module.__file__)
    body = ast.parse(Path(file).read_text()).body
    named = [
        node.lineno
        for node in body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "TABLE"
    ]
    return f"{_short(file)}:{named[-1] if named else 1}"


def _short(file: str) -> str:
    path = Path(file)
    root = Path(__file__).parents[1]
    return str(path.relative_to(root)) if path.is_relative_to(root) else file


def _table(module: ModuleType, layer: Layer) -> Table:
    name = module.__name__.rpartition(".")[2]
    table = getattr(module, "TABLE", None)
    if not isinstance(table, Table) or (table.layer, table.name) != (layer, name):
        raise DefinitionError(
            f"{_place(module)} does not declare the table {layer}.{name}",
            hint=f"end the module with TABLE = Table(layer=Layer.{layer.name}, name={name!r}, …).",
            file=str(module.__file__),
        )
    return table
