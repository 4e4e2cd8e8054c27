"""Compare what a stream would run with what it ran last, and with what its checkpoint holds.

Spark refuses some restarts by itself. The others it takes, and that is what this module is for: state is stored by position
and without a meaning, so keys of equal types in another order, another window, or another condition of a join are read as
if they were the former ones, without an error and with other rows.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from strandline.core.table import Appended, Judged, Streamed
from strandline.engine.flow.spark_plan import (
    STRICT,
    Columns,
    LogicalPlan,
    Node,
    Operator,
    StatefulPlan,
    Texts,
    columns,
    described,
    logical_plan,
    output_mode,
    settings_of,
    written,
)
from strandline.engine.lake.commit.create_table import Altered, Change, altered
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, is_commit
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.log_actions import changes_rows, table_id
from strandline.engine.lake.open_table import DeclaredTable, declared_schema, declared_table
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import NOWHERE, Positions, RunRecord, read_until
from strandline.engine.runtime.code_files import code_version, query_version, vocabulary_version

INNER = "Inner"

UNTIL = re.compile(
    r"(?P<head>LessThan(?:OrEqual)?\(.*TimestampAddInterval\(.*, )(?P<length>-?\d+)(?P<tail>(?:, timeZoneId=[^()]*)?\)\))"
)
"""A condition by which a time is at most so many microseconds after another."""

SHORT = 90
"""Letters of an expression that a sentence has at most."""

LEAD = 20
"""Letters before the first difference of two long expressions."""

KEYS_ALONE = frozenset({"dedupe", "dedupeWithinWatermark"})
"""Spark's names, in a checkpoint, of operators whose state holds no row that is still to be emitted."""


class Remedy(StrEnum):
    """What must be done before a stream can go on, from least to most."""

    NOTHING = "nothing"
    LET_BE_NULL = "let columns of its sources be NULL"
    ADD_COLUMNS = "add the columns"
    WIDEN = "widen the types"
    REWRITE_SOURCES = "rewrite the sources"
    HAND_OVER = "hand over"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between the code of today and what the checkpoint holds.

    Args:
        what: A sentence.
        remedy: What must be done about it.
    """

    what: str
    remedy: Remedy


def state_differences(
    former: StatefulPlan | None, now: StatefulPlan, held: Sequence[str]
) -> Iterator[Difference]:
    """Yield the differences that concern state.

    Args:
        former: What ran last; None where it was not recorded.
        now: What would run.
        held: Spark's names of the operators in the checkpoint.
    """
    if not held and now.operators:
        yield _anew("its stream has kept no state so far; now it would, without the rows before")
    elif held and not now.operators:
        yield _without_state(held)
    elif former is not None and now.operators:
        yield from _of_operators(former.operators, now.operators)
        yield from _of_watermarks(former, now)
        if former.output_mode != now.output_mode:
            yield _anew(
                f"it emitted rows in mode {former.output_mode.lower()}, and would in mode "
                f"{now.output_mode.lower()}"
            )


def _without_state(held: Sequence[str]) -> Difference:
    if KEYS_ALONE.issuperset(held):
        return Difference(
            what="it needs no state any more; what it has are the keys of rows before",
            remedy=Remedy.HAND_OVER,
        )
    return _anew("it needs no state any more; rows that wait in it would never be emitted")


def _of_operators(former: Sequence[Operator], now: Sequence[Operator]) -> Iterator[Difference]:
    kinds, were = [each.kind for each in now], [each.kind for each in former]
    if kinds != were:
        yield _anew(f"its operators with state were {_listed(were)}, and would be {_listed(kinds)}")
        return
    for before, after in zip(former, now, strict=True):
        yield from _of_operator(before, after)


def _of_operator(before: Operator, after: Operator) -> Iterator[Difference]:
    kind = after.kind
    texts, were = [text for _, text in after.keys], [text for _, text in before.keys]
    if texts != were:
        how = "in another order" if sorted(texts) == sorted(were) else "by other keys"
        yield _anew(f"the state of {kind} is kept {how}: {_changed(were, texts)}")
    if before.keeps != after.keeps:
        how = "in another order" if sorted(before.keeps) == sorted(after.keeps) else "otherwise"
        yield _anew(
            f"what {kind} keeps for a key is stored {how}: {_changed(before.keeps, after.keeps)}"
        )
    if before.rules != after.rules and not _is_stricter(before, after):
        yield _anew(f"{kind} works by another rule: {_changed(before.rules, after.rules)}")


def _is_stricter(before: Operator, after: Operator) -> bool:
    """Return whether an inner join lets fewer rows meet: what waits for the former condition is then enough.

    An outer join also stores that a row has met another, which the stricter condition may not allow.
    """
    if before.rules[:1] != (INNER,) or after.rules[:1] != (INNER,):
        return False
    allowed = [_conjuncts(*each.rules[1:]) for each in (before, after)]
    return all(any(_implies(now, was) for now in allowed[1]) for was in allowed[0]) and (
        _equalities(allowed[0]) == _equalities(allowed[1])
    )


def _implies(now: str, was: str) -> bool:
    """Return whether a condition is a former one, or the same with an earlier end."""
    ends = UNTIL.fullmatch(now), UNTIL.fullmatch(was)
    if now == was or None in ends:
        return now == was
    after, before = (each.groupdict() for each in ends if each)
    is_same = all(after[name] == before[name] for name in ("head", "tail"))
    return is_same and int(after["length"]) <= int(before["length"])


def _equalities(conditions: Sequence[str]) -> set[str]:
    """Return the conditions that decide under which key a row is stored."""
    return {each for each in conditions if each.startswith("EqualTo(")}


def _conjuncts(*conditions: str) -> list[str]:
    """Return the parts of conditions that are joined by AND."""
    found: list[str] = []
    for each in conditions:
        inner = each[len("And(") : -1] if each.startswith("And(") else None
        found += [each] if inner is None else _conjuncts(*_arguments(inner))
    return found


def _arguments(text: str) -> list[str]:
    """Return the arguments in a text, divided at the commas that are in no bracket."""
    found, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append(text[begin:place].strip())
            begin = place + 1
    return [*found, text[begin:].strip()]


def _of_watermarks(former: StatefulPlan, now: StatefulPlan) -> Iterator[Difference]:
    before, after = dict(former.watermarks), dict(now.watermarks)
    if before.keys() != after.keys():
        yield _anew(f"its watermark follows another time: {_changed([*before], [*after])}")
    for name in before.keys() & after.keys():
        if after[name] > before[name]:
            yield _anew(
                f"its watermark of {_short(name)} waits longer, {_seconds(after[name])} instead of "
                f"{_seconds(before[name])}: rows behind the former watermark would be dropped"
            )
        elif after[name] < before[name]:
            yield Difference(
                what=f"its watermark of {_short(name)} waits shorter, {_seconds(after[name])} instead "
                f"of {_seconds(before[name])}: rows are final sooner",
                remedy=Remedy.NOTHING,
            )


def _anew(what: str) -> Difference:
    return Difference(what=what, remedy=Remedy.REBUILD)


def _changed(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the first texts that differ."""
    longest = max(len(before), len(after))
    pairs = zip(_filled(before, longest), _filled(after, longest), strict=True)
    was, now = next(((a, b) for a, b in pairs if a != b), ("", ""))
    same = _shared(was, now) if max(len(was), len(now)) > SHORT else 0
    begin = max(0, same - LEAD)
    return f"{_short(was, begin) or 'nothing'}, now {_short(now, begin) or 'nothing'}"


def _shared(one: str, other: str) -> int:
    """Return how many letters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _filled(texts: Sequence[str], count: int) -> list[str]:
    return [*texts, *[""] * (count - len(texts))]


def _short(text: str, begin: int = 0) -> str:
    """Return a text, or as much of it from a letter on as a sentence can have."""
    cut = text[begin:] if len(text) > begin else ""
    return ("…" if begin and cut else "") + (cut if len(cut) <= SHORT else f"{cut[: SHORT - 1]}…")


def _listed(kinds: Sequence[str]) -> str:
    return ", ".join(kinds) or "none"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:,g} s"


# Compare the Delta tables around a stream with what its checkpoint and its code expect: its sources, and its own table.


def former_sources(
    held: Sequence[str | None],
    plan: StatefulPlan,
    ids: Mapping[str, str],
    record: RunRecord | None,
) -> list[str | None]:
    """Return the names of the sources in a checkpoint, in its order; None for one whose name is not known.

    Args:
        held: The ids in the checkpoint; None for a source without an offset.
        plan: What would run.
        ids: The ids of the tables that the code reads now, by their names.
        record: What ran last.
    """
    names = {each: name for name, each in ids.items()}
    recorded = {each: name for name, each in record.ids.items()} if record else {}
    known = [names.get(each) or recorded.get(each) if each else None for each in held]
    lists = [list(plan.sources), list(record.plan["sources"]) if record else []]
    # A source that had no row yet has no id in the checkpoint; where its position allows one name, it has that name.
    for listed in lists:
        if len(listed) == len(held) and _fits(held, known, listed):
            return list(listed)
    return known


def _fits(held: Sequence[str | None], known: Sequence[str | None], listed: Sequence[str]) -> bool:
    """Return whether sources may be those of a list, in its order."""
    return all(
        each == name or (each is None and id_ is None)
        for id_, each, name in zip(held, known, listed, strict=True)
    )


def source_differences(
    held: Sequence[str | None],
    plan: StatefulPlan,
    ids: Mapping[str, str],
    record: RunRecord | None,
) -> Iterator[Difference]:
    """Yield how the sources of a checkpoint differ from those that the code reads.

    Spark keeps an offset for each source by its position alone.

    Args:
        held: The ids in the checkpoint, in its order.
        plan: What would run.
        ids: The ids of the tables that the code reads now, by their names.
        record: What ran last.
    """
    were, now = former_sources(held, plan, ids, record), list(plan.sources)
    if were == now and all(
        each in {None, ids.get(name)} for each, name in zip(held, now, strict=True)
    ):
        return
    anew = [name for name, each in zip(were, held, strict=True) if _is_recreated(name, each, ids)]
    if anew or (None in were and len(were) == len(now)):
        yield Difference(
            what=f"{' and '.join(map(str, anew)) or 'a source'} is another Delta table than the one "
            "that was read; its offsets mean nothing there",
            remedy=Remedy.REBUILD,
        )
        return
    for what, names in (
        ("is read no longer", [str(each or "a table") for each in were if each not in now]),
        ("is read as well", [each for each in now if each not in were]),
    ):
        if names:
            yield Difference(what=f"{' and '.join(names)} {what}", remedy=Remedy.REWRITE_SOURCES)
    if [each for each in were if each in now] != [each for each in now if each in were]:
        yield Difference(
            what=f"it reads its sources in another order, {' before '.join(now)}",
            remedy=Remedy.REWRITE_SOURCES,
        )


def sink_differences(
    own: StructType, had_folders: Sequence[str], schema: StructType, folders: Sequence[str]
) -> Iterator[Difference]:
    """Yield how a table differs from the rows that its function returns.

    Args:
        own: The columns of the table.
        had_folders: Those that it is partitioned by.
        schema: The columns of the rows.
        folders: Those that it would be partitioned by.
    """
    found = [*altered(own, schema)]
    if new := [each.name for each in found if each.change is Change.NEW]:
        yield Difference(
            what=f"its table lacks {' and '.join(new)}: NULL in the rows so far, unless they are "
            "computed again",
            remedy=Remedy.ADD_COLUMNS,
        )
    for each in found:
        if each.had is not None:
            yield _of_type(each, had_folders)
    if gone := [name for name in own.names if name not in schema.names]:
        yield Difference(
            what=f"{' and '.join(gone)} is computed no longer: NULL from now on",
            remedy=Remedy.NOTHING,
        )
    if tuple(had_folders) != tuple(folders):
        yield Difference(
            what=f"its table is partitioned by {_compare_tables_listed(had_folders)}, and would be by {_compare_tables_listed(folders)}",
            remedy=Remedy.REBUILD,
        )


def _of_type(each: Altered, folders: Sequence[str]) -> Difference:
    was, now = ("" if kind is None else kind.simpleString() for kind in (each.had, each.wanted))
    what = f"its column {each.name} is {was}, and would be {now}"
    if each.change is Change.OTHER or each.at[0] in folders:  # a folder's name is a value
        return Difference(what=what, remedy=Remedy.REBUILD)
    return Difference(what=f"{what}: wider, so its rows stay as they are", remedy=Remedy.WIDEN)


def _is_recreated(name: str | None, held: str | None, ids: Mapping[str, str]) -> bool:
    return name is not None and held is not None and name in ids and ids[name] != held


def _compare_tables_listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def reshaped_sources(table: Streamed, lake: Lake, begins: Positions) -> Iterator[Difference]:
    """Yield the sources whose columns changed as no reader follows, of which the stream has still to open rows of before.

    Wider types and new columns are followed. Of others Spark would read the older files with the columns of today, without an error;
    and at a start it opens the last batch anew, which Delta refuses across such a change.

    Args:
        table: The table.
        lake: Where.
        begins: Where the last batch of its stream begins in each source.
    """
    ends = read_until(lake.checkpoint(table))
    for source in table.upstream:
        path = lake.table(source)
        at, first = (each.get(table_id(path), NOWHERE).version for each in (begins, ends))
        if at >= latest_version(path) or not is_commit(path, at):
            continue
        now = declared_schema(path)
        lost = _lost(declared_schema(path, at), now)
        if not lost:
            continue
        since = _changed_after(path, first)
        if since is not None and any(changes_rows(path, each) for each in range(first, since)):
            why = "rows of before are not read yet: they would be read without these"
        elif any(_lost(each, now) for each in _declared_between(path, at, first)):
            why = "its last batch began before that, and is opened anew at a start"
        else:
            continue
        named = f"since version {since:,} " if since is not None else ""
        yield Difference(
            what=f"{source.id} has other columns {named}({' and '.join(lost)}), and {why}",
            remedy=Remedy.REBUILD,
        )


def _lost(then: StructType, now: StructType) -> list[str]:
    """Return the columns that a reader of today would not find as they are in rows of then."""
    gone = [name for name in then.names if name not in now.names]
    return gone + [each.name for each in altered(then, now) if each.change is Change.OTHER]


def _declared_between(path: Place, first: int, last: int) -> Iterator[StructType]:
    """Yield the columns that the commits from a version on, without the last, give to a table."""
    for version in range(first, last):
        for each in actions(path, version, Kind.METADATA):
            yield StructType.fromJson(json.loads(each.body["schemaString"]))


def _changed_after(path: Place, first: int) -> int | None:
    """Return the last version from one on that changed a table's columns or properties."""
    later = range(first, latest_version(path) + 1)
    return next((v for v in reversed(later) if any(actions(path, v, Kind.METADATA))), None)


# A hash of all that decides what a table's stream runs: found from files alone, so that an unchanged table costs no JVM.


def source_tables(table: Streamed, lake: Lake) -> dict[str, DeclaredTable]:
    """Return the tables that a stream reads, as they are now; one that was never made is absent."""
    found = {each.id: declared_table(lake.table(each)) for each in table.upstream}
    return {name: each for name, each in found.items() if each is not None}


def fingerprint(table: Streamed, lake: Lake, sources: Mapping[str, DeclaredTable]) -> str:
    """Return the hash of code, declaration, sources and sink."""
    digest = hashlib.sha256()
    for part in _parts(table, lake, sources):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _parts(table: Streamed, lake: Lake, sources: Mapping[str, DeclaredTable]) -> Iterator[str]:
    yield code_version(table)
    yield query_version()
    function = inspect.unwrap(getattr(table.transform, "func", table.transform))
    yield f"{type(table).__name__} {function.__qualname__}"
    yield f"{table.key} {table.event_at} {table.closes_at} {table.lateness} {table.rules}"
    if isinstance(table, Judged) and table.believes_history:
        yield "believes history"
    if isinstance(table, Judged) and table.passes_over:
        yield f"rows {table.rows}, skips {table.skipping}"
    if isinstance(table, Appended) and table.rows:
        yield f"rows {table.rows}"
    if isinstance(table, Judged) and table.holds_items:
        yield "holds items"
    if table.routed_by:
        yield f"takes {table.takes_in_words} by {table.routed_by}"
    yield f"{output_mode(table)} {getattr(table, 'window_from', '')}"
    for static in table.static:
        yield f"{static.id} {static.key} {static.columns} {static.default}"
    for source in table.upstream:
        yield f"{source.id} {source.event_at} {source.lateness} {sources.get(source.id)}"
    yield str(declared_table(lake.table(table)))


# What a plan means: which rows it makes of which columns of its sources, in texts in which a whole number is a whole number.
#
# Where the meaning is the same, rows that the former code made are those that the new one makes: nothing is to be computed
# again because code was written otherwise, a whole number got a longer type, or a column another name.
# A type whose values would be others (a float that is a double now has other digits) is another meaning.

_known: dict[tuple[Streamed, tuple[str, ...]], StatefulPlan] = {}
"""The plans of this process: planning a silver table takes half a second, and many starts run the same."""


def stateful_plan(table: Streamed, sources: Sequence[DataFrame], result: DataFrame) -> StatefulPlan:
    """Describe what a table's query would run; it depends on the table and on its sources' columns alone.

    Args:
        table: Silver or gold.
        sources: The streaming rows of each source.
        result: The table's rows.
    """
    mark = (table, tuple(rows.schema.json() for rows in sources))
    if mark not in _known:
        found = logical_plan(table, sources, result)
        plan = described(table, sources, found)
        _known[mark] = _with_meaning(plan, table, found, result.columns)
    return _known[mark]


class _UnknownError(Exception):
    """What an operator does is not in the plan: it calls Python, or reads what is not there."""


def _with_meaning(
    plan: StatefulPlan, table: Streamed, found: LogicalPlan, names: Sequence[str]
) -> StatefulPlan:
    rules = table.rules if isinstance(table, Judged) else ()
    write = partial(_marked, rules=[each.name for each in rules])
    try:
        of = columns(found.root, iter(found.read), write)
        lines = [*_lines(found.root, of, write)]
    except _UnknownError:
        return plan
    own = of[id(found.root)]
    marks = dict(zip(names, (own.texts[number] for number in own.ids), strict=True))
    if table.dimension:
        return plan
    declared = _declared(table, marks, plan)
    shape = _hash([vocabulary_version(), query_version(), *declared, *lines])
    return replace(plan, columns=tuple(marks.items()), rows=shape)


def _declared(table: Streamed, marks: Mapping[str, str], plan: StatefulPlan) -> Iterator[str]:
    """Yield what a table declares that decides its rows beside its function; columns by what they mean."""
    named = (*table.key, table.event_at, table.closes_at, getattr(table, "window_from", None))
    yield f"{type(table).__name__} {[marks.get(str(name), name) for name in named]}"
    yield f"{table.lateness} {plan.watermarks} {plan.output_mode}"
    if isinstance(table, Judged):
        yield f"{table.passes_over} {table.takes_in_words} {table.routed_by}"
    for each in fields(table):
        value = getattr(table, each.name)
        if each.name not in OF_COLUMNS and isinstance(value, str | bool | int | timedelta):
            yield f"{each.name}={value}"


OF_COLUMNS = frozenset({"name", "event_at", "closes_at", "window_from"})
"""Fields of a table that are its name, or of its columns; those are known by what they mean."""


def _lines(
    root: Node, of: Mapping[int, Columns], write: Callable[[Node, Texts], str]
) -> Iterator[str]:
    """Yield what each operator does; a projection does nothing that the columns do not say."""
    for node in root.walk():
        known = {
            number: text for each in node.children for number, text in of[id(each)].texts.items()
        }
        if node.kind == "StreamingRelation":
            yield node.kind
            continue
        if not node.children or NOT_IN_A_PLAN.search(node.kind):
            raise _UnknownError
        if node.kind == "Project":
            continue
        for name in sorted(node.fields):
            if name != "output" and _has_expressions(node.fields[name]):
                yield f"{node.kind} {name} {[write(each, known) for each in node.expressions(name)]}"
        yield f"{node.kind} {[each for each in settings_of(node) if not each.startswith(CHANCE)]}"


def _has_expressions(value: object) -> bool:
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, dict) and "num-children" in value


NOT_IN_A_PLAN = re.compile(r"UDF|Python|Pandas|Arrow|Rand|Uuid|Shuffle")
"""Names of what calls a function whose statements no plan shows, or leaves to chance what it makes."""

CHANCE = ("nodeId=",)
"""Settings that differ at every start."""

WHOLE = ("byte", "short", "integer", "long")
"""Spark's names of whole numbers in a plan, from short to long."""

WHOLE_NAMED = re.compile('"(?:byte|short|integer|long)"')
DECIMAL_NAMED = re.compile(r'"decimal\(\d+,\d+\)"')


def _marked(expression: Node, known: Texts, rules: Sequence[str] = ()) -> str:
    return _hash([_meant(expression, known, rules)])


PASSING = re.compile(
    "Alias|If|CaseWhen|Coalesce|GetStructField|CreateNamedStruct|CreateArray|IsNull|IsNotNull|"
    "KnownNotNull|And|Or|Not|In|InSet|EqualTo|EqualNullSafe|LessThan|LessThanOrEqual|GreaterThan|"
    "GreaterThanOrEqual|SortOrder|Greatest|Least|AggregateExpression|Sum|Count|Max|Min"
)
"""What passes a number through, compares or adds it up, so that its value is the same whatever the length of its type.

All else may make another value of a longer type: a hash, a text (1.10 and 1.1000), a quotient (its digits), a cast of a text that
did not fit before.
"""


def _meant(expression: Node, known: Texts, rules: Sequence[str], *, passes: bool = True) -> str:
    """Return an expression as text, in which a longer whole number is what a short one is where its value alone counts.

    A rule is known by its place: what it is called decides no row of the table.
    """
    kind, fields = expression.kind, expression.fields
    if NOT_IN_A_PLAN.search(kind):
        raise _UnknownError
    match kind:
        case "AttributeReference":
            said = known.get(int(fields["exprId"]["id"]), f"?{fields['name']}")
            return said if passes else f"{said}: {json.dumps(fields['dataType'])}"
        case "Alias":
            return _meant(expression.children[0], known, rules, passes=passes)
        case "Literal":
            said = written(expression, known)
            said = f"rule {rules.index(said)}" if said in rules else said
            of_type = json.dumps(fields["dataType"])
            return f"{said} {_family(of_type) if passes else of_type}"
        case "Cast" if passes and _only_lengthens(expression):
            return _meant(expression.children[0], known, rules)
        case _:
            inner = PASSING.fullmatch(kind) is not None
            parts = [_meant(each, known, rules, passes=inner) for each in expression.children]
            parts += map(_family, settings_of(expression)) if inner else settings_of(expression)
            if kind == STRICT:  # which takes no number that it would have to round
                parts = [_family(DECIMAL_NAMED.sub('"decimal"', each)) for each in parts]
            elif "schema" in fields:
                parts.append(_family(json.dumps(fields["schema"], sort_keys=True)))
            return f"{kind}({', '.join(parts)}; {fields.get('name', '')})"


def _family(text: str) -> str:
    return WHOLE_NAMED.sub('"whole"', text)


def _only_lengthens(cast: Node) -> bool:
    """Return whether a cast makes of a whole number a longer one, or of a decimal one with more digits."""
    (child,) = cast.children
    was, now = child.fields.get("dataType"), cast.fields["dataType"]
    if was in WHOLE and now in WHOLE:
        return WHOLE.index(was) <= WHOLE.index(now)
    both = [DECIMAL.fullmatch(str(each)) for each in (was, now)]
    if None in both:
        return False
    (p, s), (more_p, more_s) = (map(int, each.groups()) for each in both if each)
    return more_s >= s and more_p - more_s >= p - s


DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def _hash(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def makes_the_same(former: StatefulPlan | None, now: StatefulPlan) -> bool:
    """Return whether a plan makes the rows that a former one made, whole numbers of another length aside."""
    if former is None or not former.rows or former.rows != now.rows:
        return False
    return dict(former.columns) == dict(now.columns)


def renamed(former: StatefulPlan | None, now: StatefulPlan) -> dict[str, str]:
    """Return the new names of columns that are computed as those were that are computed no longer."""
    had, has = dict(former.columns) if former else {}, dict(now.columns)
    gone = {mark: name for name, mark in had.items() if name not in has}
    new = {mark: name for name, mark in has.items() if name not in had}
    return {gone[mark]: name for mark, name in new.items() if mark in gone}


def as_renamed(plan: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return what was recorded of a plan once columns of its table have other names."""
    columns_now = [[names.get(name, name), mark] for name, mark in plan.get("columns", ())]
    return {**plan, "columns": columns_now}
