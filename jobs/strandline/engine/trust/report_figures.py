"""The figures of a report, made from balance sheets and from history's hours."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date

from strandline.core.table import Ingested, Table
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.history.baseline import Memory
from strandline.engine.history.queries import Batch, points
from strandline.engine.pipeline import radar
from strandline.engine.proof.certificate import kept, status
from strandline.engine.storage.lake import Lake
from strandline.engine.trust.day_verdicts import flow
from strandline_quality.report.findings import Failing, Flow, Hour, Proof, Reason, Sheet, Unread

Days = Mapping[date, Sequence[Batch]]
"""The commits of each shown day, hour by hour."""


def sheet(of_ledger: Balance) -> Sheet:
    """Return the ledger's balance sheet in the form of the report."""
    return Sheet(
        flow=Flow(
            read=of_ledger.read,
            good=of_ledger.good,
            duplicates=of_ledger.duplicates,
            quarantined=sum(of_ledger.quarantined.values()),
            dropped=of_ledger.dropped_by_watermark,
            lost=of_ledger.lost_by_function,
            made=of_ledger.made_by_function,
        ),
        healed=of_ledger.healed,
        rows=of_ledger.rows,
        waiting=of_ledger.waiting,
        batches=of_ledger.batches,
        balanced=of_ledger.balanced,
        faults=tuple(of_ledger.faults),
    )


def hours(own: Sequence[Batch], before: Sequence[Batch]) -> tuple[Hour, ...]:
    """Return hours with the usual range of each, which is learnt from the hours before it."""
    memory = Memory(points(before, "read"))
    made = []
    for hour in own:
        usual = memory.expected(hour.at, least=1.0)
        made.append(
            Hour(
                at=hour.at.isoformat(),
                flow=flow([hour]),
                freshness_s=hour.values.get("freshness_s"),
                usual=(usual.low, usual.high) if usual else None,
            )
        )
        for point in points([hour], "read"):
            memory.add(point)
    return tuple(made)


def failing(days: Days, judged: Sequence[date]) -> tuple[Failing, ...]:
    """Return the rules that rows broke; if no entry has them, the reasons for which rows were held back."""
    names = {name for own in days.values() for hour in own for name in hour.values}
    kind = "broke:" if any(name.startswith("broke:") for name in names) else "quarantined:"
    judged_hours = [hour for day in judged for hour in days[day]]
    own = _summed(judged_hours, kind)
    read = sum(hour.value("read") for hour in judged_hours)
    return tuple(
        Failing(
            rule=rule,
            rows=rows,
            share=rows / read if read else 0.0,
            trend=tuple(_share(days[day], f"{kind}{rule}") for day in days),
        )
        for rule, rows in own.most_common()
    )


def reasons(own: Sequence[Batch]) -> tuple[Reason, ...]:
    """Return why rows were held back, the most frequent reason first."""
    held = _summed(own, "quarantined:")
    total = held.total()
    return tuple(
        Reason(reason=reason, rows=rows, share=rows / total) for reason, rows in held.most_common()
    )


def _summed(hours: Sequence[Batch], kind: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for hour in hours:
        for name, value in hour.values.items():
            if name.startswith(kind):
                sums[name.removeprefix(kind)] += round(value)
    return sums + Counter()  # drops the counts that a backfill has reduced to zero or less


def _share(hours: Sequence[Batch], measure: str) -> float | None:
    read = sum(hour.value("read") for hour in hours)
    return sum(hour.value(measure) for hour in hours) / read if read > 0 else None


def unread(lake: Lake) -> tuple[Unread, ...]:
    """Return what each reader of topics has not read, of its partition that is nearest to a loss."""
    seen = radar.last(lake)
    if seen is None:
        return ()
    at, dangers = seen
    of_topics = [each for each in dangers if "/" in each.source]
    return tuple(
        Unread(
            reader=reader,
            seen_at=at,
            unread=sum(each.unread for each in own),
            goes_at=nearest.goes_at,
            level=nearest.level.value,
            says=f"{nearest.source}: {nearest.says}"
            if nearest.unread or nearest.lost
            else nearest.says,
        )
        for reader in dict.fromkeys(each.reader for each in of_topics)
        if (own := [each for each in of_topics if each.reader == reader])
        and (nearest := radar.worst(own))
    )


def proof(table: Table, lake: Lake) -> Proof | None:
    """Return the result of a table's last verification; None for bronze, the base of every verification."""
    if isinstance(table, Ingested):
        return None
    last = kept(table, lake) or kept(table, lake, is_whole=False)
    return Proof(
        standing=status(table, lake),
        at=last.at if last else None,
        rows=last.rows if last else None,
    )
