"""What records have beside a table's declaration, with an example, the likely type, and the edit that declares it.

Which fields there are, since when and in which share is in the ledger (jobs/strandline/engine/accounting/routes.py). A type is guessed from
values: those of the records that the ledger names as examples, and of the newest records of bronze. Values are shown only where no table
that reads the same records masks any of its columns.
"""

import difflib
import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.table import Judged, Table
from strandline.core.topic import PLACE
from strandline.engine.accounting.routes import SELDOM, Beside, Seen, seen_by, unsettled
from strandline.engine.lake.find_rows import look_at, newest_rows
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.code_files import module_file
from strandline.operate.drafts.module_text import (
    NAME,
    Edited,
    UnclearError,
    steps,
    with_field,
    with_type,
)
from strandline_quality.mask import mask_value

NEWEST = 50
"""So many of the newest records are looked at for a type."""

MOST_VALUES, DEEPEST, MOST_FIELDS, LETTERS = 1_000, 6, 60, 60
"""Bounds of what is looked at and shown: values of one field, levels within it, fields of an object, letters of an example."""

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")
WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
LONGEST_WHOLE, EXACT = 2**63, 2**53
"""Whole numbers from the first on are in no type of ours; beyond the second a double rounds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A field beside the declaration, and what may be done about it.

    Args:
        field: What the ledger says of it.
        example: A value, as it may be shown; empty where no record is there any more.
        kind: The type that reads what was seen, as it is written in Python; empty where none does.
        edited: The module with the edit, and what is left to do; None where none can be made.
        why_not: Why none can.
    """

    field: Beside
    example: str = ""
    kind: str = ""
    edited: Edited | None = None
    why_not: str = ""

    def figures(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        each = self.field
        return {
            "field": each.path,
            "what": "new_field" if each.is_new else "wrong_type",
            "declared": each.declared or None,
            "kinds": each.kinds,
            "since": each.since,
            "share": round(each.share, 6),
            "example": self.example or None,
            "place": each.places[0],
            "type": self.kind or None,
            "left_to_do": (self.edited.left if self.edited else self.why_not) or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found of a table.

    Args:
        table: The table.
        seen: What its ledger says.
        proposals: Each field.
        file: Its module; None where it has none of its own.
        before: The text of that.
    """

    table: Judged
    seen: Seen
    proposals: tuple[Proposal, ...]
    file: Path | None
    before: str

    def after(self) -> str:
        """Return the text of the module with all edits that can be made; each is made behind those before it."""
        made = [each.edited.text for each in self.proposals if each.edited is not None]
        return made[-1] if made else self.before

    @property
    def diff(self) -> str:
        """Return the edits as a unified diff; empty where there is none."""
        if self.file is None:
            return ""
        name = f"{self.file.parent.name}/{self.file.name}"
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after().splitlines(keepends=True),
            f"{name} (as it is)",
            f"{name} (proposed)",
        )
        return "".join(lines)


def looked_through(lake: Lake, names: Sequence[str] | None, since: str | None) -> list[Found]:
    """Return what was found of tables; of all that are there and judge records when none is named.

    Args:
        lake: Their lake.
        names: The tables.
        since: Only what came since that moment, as text.
    """
    tables = map(_judged, names) if names else _all(lake)
    return [found(table, lake, since) for table in tables]


def _judged(name: str) -> Judged:
    table = catalog.find(name)
    if not isinstance(table, Judged):
        raise DefinitionError(
            f"{table.id} reads no payloads, so nothing of it is undeclared",
            hint="name a silver table that reads a bronze one: `strandline tables`.",
            table=table.id,
        )
    return table


def _all(lake: Lake) -> Iterator[Judged]:
    return (each for each in catalog.tables() if isinstance(each, Judged) and lake.exists(each))


def found(table: Judged, lake: Lake, since: str | None = None) -> Found:
    """Return what was found of a table, with the edits that declare it."""
    seen = seen_by(table, lake).among(since)
    if (
        not seen.fields
    ):  # as of most of three hundred tables: its module and those beside it are not asked
        return Found(table=table, seen=seen, proposals=(), file=None, before="")
    file = module_file(table.layer, table.name)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    is_secret = any(_masks(each, table) for each in catalog.tables()) or bool(table.secret)
    newest, examples = _newest(table, lake), _examples(seen.fields, table, lake)
    proposals = [_proposed(each, examples, newest, is_secret) for each in seen.fields]
    return Found(
        table=table,
        seen=seen,
        proposals=tuple(with_edits(table, settled(table, seen, proposals), text)),
        file=file if text else None,
        before=text,
    )


def _masks(other: Table, table: Judged) -> bool:
    return isinstance(other, Judged) and other.bronze.id == table.bronze.id and bool(other.secret)


def settled(table: Judged, seen: Seen, found: Iterable[Proposal]) -> Iterator[Proposal]:
    """Yield each proposal, and why there is to be no edit where nothing waits for a decision: it is dirt, or goes on purpose."""
    waits = unsettled(table, seen)
    for each in found:
        if each.field in waits or each.why_not:
            yield each
            continue
        choice = "on_new_field" if each.field.is_new else "on_wrong_type"
        why_not = f"{table.id} declares {choice}={getattr(table, choice)!r}"
        if not each.field.is_new and each.field.share < SELDOM:
            why_not = (
                f"in fewer than {SELDOM:.0%} of the records, which is dirt; the quarantine shows it"
            )
        yield replace(each, why_not=why_not)


def with_edits(table: Judged, proposals: Iterable[Proposal], text: str) -> Iterator[Proposal]:
    """Yield each proposal with its edit behind those before it, or with why there is none; one that says why gets none.

    A producer may send names of which one alone can be declared, such as two that differ in their case alone.

    Args:
        table: The table.
        proposals: What was seen of each field, and its type.
        text: The module of the table; empty where it has none of its own.
    """
    for each in proposals:
        if each.why_not:
            yield each
        elif not text:
            yield replace(each, why_not=f"{table.id} has no module of its own")
        else:
            try:
                edited = edit_of(each.field, each.kind)(text)
            except UnclearError as unclear:
                yield replace(each, why_not=str(unclear))
            else:
                text = edited.text
                yield replace(each, edited=edited)


def _proposed(
    each: Beside,
    examples: Mapping[str, Sequence[object]],
    newest: Sequence[object],
    is_secret: bool,  # noqa: FBT001  # what is known of a field
) -> Proposal:
    found = chain.from_iterable(examples.get(place, ()) for place in each.places)
    own = [*chain.from_iterable(values_at(one, each.path) for one in found)]
    later = [*chain.from_iterable(values_at(one, each.path) for one in newest)]
    values = [*own, *later][:MOST_VALUES]
    kind = likely_type(values) if each.is_new else wider(each, values)
    example = shown(own[0], is_secret=is_secret) if own else ""
    why_not = "" if kind else _why_no_type(each, values)
    return Proposal(field=each, example=example, kind=kind, why_not=why_not)


def _why_no_type(each: Beside, values: Sequence[object]) -> str:
    if not each.is_new and {*each.kinds} <= {"integer", "number"}:
        return (
            f"a double would round what {each.declared} keeps: declare a wider type by hand, or let the producer send such values "
            "no more"
        )
    if not each.is_new:
        return (
            f"no type reads {each.declared} and {' or '.join(each.kinds)}: let the producer send one of them, or declare a second "
            "shape of the record"
        )
    if not values:
        return "no record with it is in bronze any more: declare it by hand"
    return f"{' and '.join(each.kinds)}: no type reads both; let the producer send one of them"


def edit_of(each: Beside, kind: str) -> Callable[[str], Edited]:
    """Return the edit of a module that declares a field, or gives it another type."""
    edit = with_field if each.is_new else with_type
    return lambda text: edit(text, each.path, kind)


def _examples(fields: Sequence[Beside], table: Judged, lake: Lake) -> dict[str, tuple[object, ...]]:
    """Return the records that the ledger names for some fields, by their places; bronze is looked through once for all of them."""
    names = {name: name.rsplit("/", 2) for each in fields for name in each.places}
    places = {name: (topic, int(part), int(at)) for name, (topic, part, at) in names.items()}
    bronze = lake.table(table.bronze)
    rows = look_at(bronze, PLACE, {*places.values()}, (*PLACE, "_payload"))
    found = {tuple(row.row[name] for name in PLACE): row.row["_payload"] for row in reversed(rows)}
    return {name: (*_document(found[at]),) for name, at in places.items() if at in found}


def _newest(table: Judged, lake: Lake) -> list[object]:
    """Return the newest records; none of a topic with kinds, whose newest ones may be of another."""
    if table.is_routed:
        return []
    rows = newest_rows(lake.table(table.bronze), "_arrived_at", NEWEST)
    return [*chain.from_iterable(_document(row["_payload"]) for row in rows)]


def _document(payload: bytes | None) -> Iterator[object]:
    try:
        yield orjson.loads(payload or b"")
    except orjson.JSONDecodeError:
        return


def values_at(document: object, path: str) -> list[object]:
    """Return the values at a path of a payload, without those that are NULL."""
    values = [document]
    for step in steps(path):
        values = [*chain.from_iterable(_step(each, step) for each in values)][:MOST_VALUES]
    return [each for each in values if each is not None]


def _step(value: object, step: str) -> Sequence[object]:
    if step == "[]":
        return value if isinstance(value, list) else ()
    if not isinstance(value, dict):
        return ()
    return [*value.values()] if step == "{}" else [value.get(step)]


def likely_type(values: Sequence[object], depth: int = 0) -> str:
    """Return the type of Spark that reads all values, as it is written in Python; empty where none does."""
    kinds = {type(each) for each in values}
    if not values or depth > DEEPEST:
        return ""
    if kinds <= {int, float}:
        is_whole = all(isinstance(each, int) and abs(each) < LONGEST_WHOLE for each in values)
        return "LongType()" if is_whole else "DoubleType()"
    if kinds in ({bool}, {str}):
        return "BooleanType()" if kinds == {bool} else _type_of_texts(list(map(str, values)))
    if kinds == {list}:
        inner = [
            each for one in values if isinstance(one, list) for each in one if each is not None
        ]
        within = likely_type(inner[:MOST_VALUES], depth + 1) if inner else "StringType()"
        return f"ArrayType({within})" if within else ""
    if kinds == {dict}:
        return _type_of_objects([each for each in values if isinstance(each, dict)], depth)
    return ""


def _type_of_texts(texts: Sequence[str]) -> str:
    if all(MOMENT.fullmatch(each) and _is(datetime.fromisoformat, each) for each in texts):
        return "TimestampType()"
    if all(DAY.fullmatch(each) and _is(date.fromisoformat, each) for each in texts):
        return "DateType()"
    return "StringType()"


def _is(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _type_of_objects(objects: Sequence[dict[str, Any]], depth: int) -> str:
    """Return a record of their fields; a map where names are data, or differ in their case alone."""
    inner: dict[str, list[object]] = {}
    for each in objects:
        for name, value in each.items():
            inner.setdefault(name, [])
            if value is not None:
                inner[name].append(value)
    is_mixed = len({name.lower() for name in inner}) < len(inner)
    if not inner or len(inner) > MOST_FIELDS or is_mixed or not all(map(NAME.fullmatch, inner)):
        every = [*chain.from_iterable(inner.values())]
        within = likely_type(every[:MOST_VALUES], depth + 1) if every else "StringType()"
        return f"MapType(StringType(), {within})" if within else ""
    fields = [
        f'.add("{name}", {kind})'
        for name, values in inner.items()
        if (kind := likely_type(values[:MOST_VALUES], depth + 1))
    ]
    return f"StructType(){''.join(fields)}" if fields else ""


def wider(each: Beside, values: Sequence[object]) -> str:
    """Return a type that reads what was declared and what came; empty where none does.

    A double is none for a decimal, which is exact, nor for whole numbers that it would round, such as ids.
    """
    kinds = {*each.kinds}
    if each.declared in WHOLE and kinds == {"integer"} and each.declared != "bigint":
        return "LongType()"
    is_number = each.declared in WHOLE or each.declared == "float"
    if is_number and kinds <= {"integer", "number"} and ("number" in kinds or values):
        is_exact = all(abs(number) <= EXACT for number in values if type(number) is int)
        return (
            "DoubleType()" if is_exact and (each.declared != "bigint" or "number" in kinds) else ""
        )
    return ""


def shown(value: object, *, is_secret: bool) -> str:
    """Return a value as it may be shown: in one line, without signs that move a cursor, and masked where anything is."""
    text = str(mask_value(value)) if is_secret else _as_json(value)
    plain = "".join(
        "\ufffd" if unicodedata.category(each)[0] == "C" else each for each in text[:LETTERS]
    )
    return plain + ("…" if len(text) > LETTERS else "")


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # hundreds of levels
        return "[nested deeply]"


def evolving(found: Iterable[Found]) -> list[Found]:
    """Return what was found of tables that declare to evolve, with the edits of that half alone which they let evolve.

    Raises:
        DefinitionError: There is none.
    """
    some = [each for one in found if (each := _evolving(one)).diff]
    if not some:
        raise DefinitionError(
            "no table that declares evolve has a field for which there is an edit",
            hint="name the table: `strandline drift TABLE --apply`.",
        )
    return some


def _evolving(found: Found) -> Found:
    table = found.table
    chosen = [
        replace(each, edited=None)
        for each in found.proposals
        if (table.on_new_field if each.field.is_new else table.on_wrong_type) == "evolve"
    ]
    return replace(found, proposals=tuple(with_edits(table, chosen, found.before)))


def _put(file: Path, text: str) -> None:
    """Write a module, whole or not at all."""
    draft = file.with_name(f".{file.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(file.stat().st_mode)
    draft.replace(file)


LOADS = """
import sys
from strandline import catalog
try:
    catalog.tables()
except Exception as error:
    sys.exit(str(error).partition("\\n")[0] or type(error).__name__)
"""


def apply(found: Found) -> None:
    """Write the edits into a table's module; one that does not load afterwards is put back.

    Raises:
        DefinitionError: There is no edit, or the module would not load.
    """
    after = found.after()
    if found.file is None or after == found.before:
        raise DefinitionError(
            f"there is no edit of {found.table.id} that could be made",
            hint=f"`strandline drift {found.table.id}` says of each field why.",
            table=found.table.id,
        )
    _put(found.file, after)
    try:
        loaded = subprocess.run(  # noqa: S603  # our own interpreter
            [sys.executable, "-c", LOADS], capture_output=True, text=True, check=False
        )
    except BaseException:
        _put(found.file, found.before)
        raise
    if loaded.returncode:
        _put(found.file, found.before)
        last = (loaded.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise DefinitionError(
            f"{found.file.name} would not load with the edit, so it is as it was: {last}",
            hint="make the edit by hand; it is shown by `strandline drift`.",
            table=found.table.id,
        )
