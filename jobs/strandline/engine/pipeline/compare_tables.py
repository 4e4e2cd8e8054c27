"""Compare the Delta tables around a stream with what its checkpoint and its code expect: its sources, and its own table."""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql.types import StructType

from strandline.engine.pipeline.compare_plans import Difference, Remedy
from strandline.engine.pipeline.stateful_plan import StatefulPlan
from strandline.engine.storage.declared_table import DeclaredTable, types_of
from strandline.engine.storage.run_record import RunRecord

INTEGERS = ("tinyint", "smallint", "int", "bigint")


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
    sink: DeclaredTable, schema: StructType, folders: Sequence[str]
) -> Iterator[Difference]:
    """Yield how a table differs from the rows that its function returns."""
    wanted = types_of(schema)
    if lacking := [name for name in wanted if name not in sink.columns]:
        yield Difference(
            what=f"its table lacks {' and '.join(lacking)}: NULL in the rows so far, unless they are "
            "computed again",
            remedy=Remedy.ADD_COLUMNS,
        )
    for name, kind in wanted.items():
        if name in sink.columns and not _is_read_as(kind, sink.columns[name]):
            yield Difference(
                what=f"its column {name} is {sink.columns[name]}, and would be {kind}",
                remedy=Remedy.REBUILD,
            )
    if gone := [name for name in sink.columns if name not in wanted]:
        yield Difference(
            what=f"{' and '.join(gone)} is computed no longer: NULL from now on",
            remedy=Remedy.NOTHING,
        )
    if sink.folders != tuple(folders):
        yield Difference(
            what=f"its table is partitioned by {_listed(sink.folders)}, and would be by {_listed(folders)}",
            remedy=Remedy.REBUILD,
        )


def _is_read_as(kind: str, declared: str) -> bool:
    """Return whether values of a type can be read as a declared one: Parquet's short integers are read as long ones."""
    if kind == declared:
        return True
    return kind in INTEGERS and declared in INTEGERS[INTEGERS.index(kind) :]


def _is_recreated(name: str | None, held: str | None, ids: Mapping[str, str]) -> bool:
    return name is not None and held is not None and name in ids and ids[name] != held


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
